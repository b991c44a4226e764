"""What is known by name or number: types of errors, and codes of operating systems, protocols and databases.

Libraries are named, never imported. Names that speak for themselves (`ReadTimeout`, `RateLimitError`) are not listed:
`mahavishnu.classify.builtin.names` reads them. Here is what would be misread, or says nothing.
"""

from __future__ import annotations

import builtins
import errno
from collections import Counter
from collections.abc import Mapping

from mahavishnu.model.letter_parts import ErrorCategory as ErrorCategory

T, N, R = ErrorCategory.TRANSIENT, ErrorCategory.NETWORK, ErrorCategory.RESOURCE
P, V, X = ErrorCategory.PERMISSION, ErrorCategory.VALIDATION, ErrorCategory.PERMANENT


def _table(**columns: str) -> dict[str, ErrorCategory]:
    found = [(name, ErrorCategory(category)) for category, names in columns.items() for name in names.split()]
    if len(dict(found)) < len(found):
        counts = Counter(name for name, _ in found)
        raise ValueError(f"in a table twice: {[name for name, count in counts.items() if count > 1]}")
    return dict(found)


TYPES: Mapping[str, ErrorCategory] = _table(
    transient="""
        concurrent.futures.process.BrokenProcessPool concurrent.futures.thread.BrokenThreadPool
        concurrent.futures._base.BrokenExecutor asyncio.exceptions.CancelledError
        concurrent.futures._base.CancelledError redis.exceptions.BusyLoadingError redis.exceptions.ReadOnlyError
        redis.exceptions.ClusterDownError redis.exceptions.MasterDownError redis.exceptions.LockError
        redis.exceptions.WatchError psycopg2.errors.SerializationFailure psycopg.errors.SerializationFailure
        asyncpg.exceptions.SerializationError opensearchpy.exceptions.ConflictError elasticsearch.ConflictError
        asyncpg.exceptions.CannotConnectNowError sqlalchemy.orm.exc.StaleDataError pybreaker.CircuitBreakerError
        kafka.errors.NotLeaderForPartitionError kafka.errors.CoordinatorNotAvailableError zmq.error.Again
        _queue.Empty asyncio.queues.QueueEmpty kazoo.exceptions.SessionExpiredError
        pymongo.errors.NotPrimaryError filelock.Timeout filelock._error.Timeout ccxt.base.errors.DDoSProtection
        mahavishnu.model.errors.StoreUnavailable mahavishnu.model.errors.LostLease
        io.github.resilience4j.circuitbreaker.CallNotPermittedException
        io.github.resilience4j.ratelimiter.RequestNotPermitted
        io.github.resilience4j.bulkhead.BulkheadFullException""",
    network="""
        socket.gaierror socket.herror ssl.SSLError ssl.SSLCertVerificationError
        asyncio.exceptions.IncompleteReadError http.client.IncompleteRead http.client.BadStatusLine
        http.client.RemoteDisconnected http.client.LineTooLong urllib.error.ContentTooShortError
        subprocess.TimeoutExpired smtplib.SMTPServerDisconnected requests.exceptions.ConnectionError
        requests.exceptions.ChunkedEncodingError urllib3.exceptions.ProtocolError
        urllib3.exceptions.NewConnectionError urllib3.exceptions.IncompleteRead
        urllib3.exceptions.InvalidChunkLength urllib3.exceptions.NameResolutionError httpx.RemoteProtocolError
        httpx.NetworkError httpx.CloseError httpx.ReadError httpx.WriteError httpcore.RemoteProtocolError
        httpcore.NetworkError httpcore.ReadError httpcore.WriteError
        aiohttp.client_exceptions.ServerDisconnectedError aiohttp.client_exceptions.ClientOSError
        aiohttp.client_exceptions.ClientPayloadError aiohttp.client_exceptions.ClientSSLError
        aiohttp.client_exceptions.ClientHttpProxyError anyio.BrokenResourceError anyio.EndOfStream
        paramiko.ssh_exception.NoValidConnectionsError paramiko.ssh_exception.ChannelException
        pika.exceptions.AMQPConnectionError pika.exceptions.StreamLostError kafka.errors.NoBrokersAvailable
        kafka.errors.KafkaConnectionError kafka.errors.NodeNotReadyError pymongo.errors.ServerSelectionTimeoutError
        pymongo.errors.WaitQueueTimeoutError imaplib.IMAP4.abort botocore.exceptions.EndpointConnectionError
        botocore.exceptions.HTTPClientError amqp.exceptions.RecoverableConnectionError
        pymongo.errors.AutoReconnect neo4j.exceptions.SessionExpired
        google.auth.exceptions.TransportError azure.core.exceptions.ServiceRequestError
        azure.core.exceptions.ServiceResponseError
        websockets.exceptions.ConnectionClosedError""",
    resource="""
        _queue.Full queue.Full asyncio.queues.QueueFull redis.exceptions.MaxConnectionsError
        urllib3.exceptions.EmptyPoolError urllib3.exceptions.FullPoolError psycopg_pool.TooManyRequests
        mahavishnu.model.errors.QueueFull psycopg_pool.PoolTimeout
        PIL.Image.DecompressionBombError botocore.exceptions.NoSpaceLeftError
        google.api_core.exceptions.ResourceExhausted""",
    permission="""
        redis.exceptions.AuthenticationWrongNumberOfArgsError botocore.exceptions.NoCredentialsError
        botocore.exceptions.PartialCredentialsError botocore.exceptions.ClientCredentialsError
        botocore.exceptions.TokenRetrievalError jwt.exceptions.ExpiredSignatureError
        jwt.exceptions.InvalidSignatureError jwt.exceptions.InvalidTokenError jwt.exceptions.DecodeError
        jwt.exceptions.ImmatureSignatureError cryptography.fernet.InvalidToken itsdangerous.exc.BadSignature
        django.core.exceptions.DisallowedHost google.auth.exceptions.RefreshError
        google.auth.exceptions.DefaultCredentialsError paramiko.ssh_exception.BadHostKeyException
        paramiko.ssh_exception.PasswordRequiredException asyncpg.exceptions.InvalidPasswordError
        asyncpg.exceptions.InvalidAuthorizationSpecificationError hvac.exceptions.Forbidden psutil.AccessDenied""",
    validation="""
        requests.exceptions.InvalidURL requests.exceptions.MissingSchema requests.exceptions.InvalidSchema
        requests.exceptions.InvalidHeader requests.exceptions.InvalidJSONError
        requests.exceptions.ContentDecodingError requests.exceptions.UnrewindableBodyError
        urllib3.exceptions.LocationParseError httpx.InvalidURL httpx.UnsupportedProtocol httpx.LocalProtocolError
        httpx.DecodingError httpx.CookieConflict httpcore.UnsupportedProtocol httpcore.LocalProtocolError
        aiohttp.client_exceptions.ContentTypeError aiohttp.client_exceptions.InvalidURL http.client.InvalidURL
        http.client.UnknownProtocol xml.etree.ElementTree.ParseError xml.parsers.expat.ExpatError
        xml.sax._exceptions.SAXParseException yaml.error.YAMLError configparser.Error _csv.Error struct.error
        zlib.error binascii.Error binascii.Incomplete _pickle.UnpicklingError _pickle.PicklingError
        pickle.UnpicklingError pickle.PicklingError zipfile.BadZipFile tarfile.ReadError lzma.LZMAError
        _lzma.LZMAError argparse.ArgumentError argparse.ArgumentTypeError re.error re.PatternError
        decimal.InvalidOperation json.decoder.JSONDecodeError email.errors.MessageError redis.exceptions.DataError
        wave.Error pypdf.errors.PdfReadError pypdf.errors.PdfStreamError
        click.exceptions.UsageError click.exceptions.BadParameter typer.BadParameter
        jsonschema.exceptions.SchemaError jsonschema.exceptions.UnknownType
        pydantic_core._pydantic_core.ValidationError pydantic.errors.PydanticUserError
        opensearchpy.exceptions.SerializationError elasticsearch.SerializationError
        elastic_transport.SerializationError botocore.exceptions.ParamValidationError
        google.protobuf.message.DecodeError
        google.protobuf.json_format.ParseError google.protobuf.message.EncodeError
        django.core.exceptions.SuspiciousOperation pymongo.errors.DocumentTooLarge pymongo.errors.BSONError
        bson.errors.BSONError
        kafka.errors.MessageSizeTooLargeError jinja2.exceptions.TemplateSyntaxError jinja2.exceptions.UndefinedError
        packaging.version.InvalidVersion asyncio.exceptions.LimitOverrunError sqlite3.ProgrammingError
        mahavishnu.model.errors.IllegalMove""",
    permanent="""
        zipfile.LargeZipFile asyncio.exceptions.InvalidStateError concurrent.futures._base.InvalidStateError
        importlib.metadata.PackageNotFoundError django.core.exceptions.ImproperlyConfigured
        requests.exceptions.TooManyRedirects httpx.TooManyRedirects aiohttp.client_exceptions.TooManyRedirects
        hvac.exceptions.InvalidPath redis.exceptions.NoScriptError sqlalchemy.exc.NoResultFound
        sqlalchemy.exc.MultipleResultsFound
        sqlalchemy.exc.ArgumentError sqlalchemy.exc.NoSuchModuleError urllib3.exceptions.URLSchemeUnknown
        mahavishnu.model.errors.StoreMisconfigured mahavishnu.model.errors.StoreCorrupt""",
)

# Said of the type only where nothing else is known. The text decides first: a wrong password is one of these too.
WEAK_TYPES: Mapping[str, ErrorCategory] = _table(
    network="""
        psycopg.OperationalError psycopg2.OperationalError pymysql.err.OperationalError MySQLdb.OperationalError
        http.client.HTTPException urllib.error.URLError aiohttp.client_exceptions.ClientError httpx.TransportError
        httpcore.TransportError urllib3.exceptions.MaxRetryError paramiko.ssh_exception.SSHException
        opensearchpy.exceptions.TransportError elastic_transport.TransportError
        websockets.exceptions.ConnectionClosed websockets.exceptions.WebSocketException anyio.ClosedResourceError
        kombu.exceptions.KombuError kombu.exceptions.OperationalError pika.exceptions.AMQPError
        java.sql.SQLTransientConnectionException java.sql.SQLNonTransientConnectionException""",
    transient="""
        sqlite3.OperationalError tenacity.RetryError kafka.errors.KafkaError celery.exceptions.Retry ftplib.error_temp
        MongoServerError feign.RetryableException""",
    permission="System.Security.Authentication.AuthenticationException",
    validation="""
        jsonschema.exceptions.ValidationError jsonschema.exceptions._WrappedReferencingError
        smtplib.SMTPRecipientsRefused smtplib.SMTPDataError""",
    permanent="ftplib.error_perm",
)

BUILTINS: Mapping[str, ErrorCategory] = _table(
    network="""
        ConnectionError BrokenPipeError ConnectionAbortedError ConnectionRefusedError ConnectionResetError
        TimeoutError""",
    transient="BlockingIOError InterruptedError",
    resource="MemoryError",
    permission="PermissionError",
    validation="""
        ValueError UnicodeError TypeError KeyError SyntaxError FileExistsError IsADirectoryError NotADirectoryError""",
    permanent="""
        FileNotFoundError ImportError ModuleNotFoundError NotImplementedError RecursionError ProcessLookupError""",
)
# Bugs in a program: their text is Python's own and tells nothing of the systems around. What was being handled may.
BUGS = frozenset(
    {"AttributeError", "NameError", "UnboundLocalError", "IndexError", "ZeroDivisionError", "StopIteration"}
)
BUILTIN_TYPES: Mapping[type, ErrorCategory] = {getattr(builtins, name): what for name, what in BUILTINS.items()}


def _numbers(**columns: str) -> dict[int, ErrorCategory]:
    found = {name: category for name, category in _table(**columns).items() if hasattr(errno, name)}
    return {getattr(errno, name): category for name, category in found.items()}  # not every system has every name


ERRNO: Mapping[int, ErrorCategory] = _numbers(
    network="""
        ECONNREFUSED ECONNRESET ECONNABORTED ETIMEDOUT EHOSTUNREACH EHOSTDOWN ENETUNREACH ENETDOWN ENETRESET EPIPE
        ENOTCONN ESHUTDOWN EADDRNOTAVAIL EADDRINUSE EPROTO ENOLINK ECOMM EREMOTEIO ENONET ETIME""",
    transient="EAGAIN EWOULDBLOCK EINTR EBUSY ETXTBSY EDEADLK EINPROGRESS EALREADY ESTALE ECANCELED ERESTART",
    resource="ENOSPC EDQUOT ENOMEM EMFILE ENFILE EFBIG ENOBUFS EMLINK ENOLCK EUSERS EIO",
    permission="EACCES EPERM EROFS EKEYREJECTED EKEYEXPIRED ENOKEY EKEYREVOKED",
    validation="""
        EINVAL EISDIR ENOTDIR ENAMETOOLONG E2BIG EDOM ERANGE EBADMSG EILSEQ EMSGSIZE EEXIST ELOOP ENOTEMPTY
        EAFNOSUPPORT EDESTADDRREQ EBADF""",
    permanent="ENOENT ENXIO ENODEV ESRCH ENOEXEC ENOSYS EOPNOTSUPP ENOTSUP EXDEV ECHILD",
)

WINDOWS: Mapping[int, ErrorCategory] = {
    **dict.fromkeys((53, 55, 59, 64, 67, 109, 121, 240, 258, 1222, 1225, 1229, 1231, 1232, 1233, 1234, 1236), N),
    **dict.fromkeys((1311, 1355, 1460, 1722, 1723, 1727, 10048, 10049, 10050, 10051, 10052, 10053, 10054), N),
    **dict.fromkeys((10057, 10058, 10060, 10061, 10064, 10065, 11001, 11002, 11003, 11004), N),
    **dict.fromkeys((21, 32, 33, 142, 170, 212, 1052, 1053, 1056, 1237, 10004, 10035, 10036, 10037), T),
    **dict.fromkeys((4, 8, 14, 39, 71, 112, 1117, 1295, 1450, 1453, 1455, 1816, 10024, 10055, 10067), R),
    **dict.fromkeys((5, 19, 65, 86, 740, 1314, 1326, 1327, 1328, 1330, 1331, 1385, 1907, 1909, 10013), P),
    **dict.fromkeys((6, 13, 87, 123, 124, 145, 160, 161, 183, 193, 206, 267, 10014, 10022, 10038, 10040, 10047), V),
    **dict.fromkeys((2, 3, 20, 126, 127, 1060, 1062, 1167, 1168), X),
}


def errno_name(number: int) -> str:
    """ENOSPC for 28."""
    return errno.errorcode.get(number, f"errno {number}")


# A 404 is PERMANENT: what is asked for is not there, and it is neither a malformed request nor a lack of rights.
# A 500 or 502 is TRANSIENT: the server broke or its own server did, and the same request may well work later.
HTTP: Mapping[int, ErrorCategory] = {
    **dict.fromkeys((400, 405, 406, 411, 412, 413, 414, 415, 416, 417, 422, 426, 428, 431), V),
    **dict.fromkeys((401, 402, 403, 407, 451, 511), P),
    **dict.fromkeys((404, 410, 418, 501, 505, 506, 508, 510), X),
    **dict.fromkeys((409, 421, 423, 424, 425, 429, 500, 502, 503, 520, 529, 530), T),
    **dict.fromkeys((408, 460, 499, 504, 521, 522, 523, 524, 525, 526, 527, 598, 599), N),
    **dict.fromkeys((507, 509), R),
}


def of_http(status: int) -> ErrorCategory | None:
    """The category of an HTTP status; none for one that is no failure."""
    if status in HTTP:
        return HTTP[status]
    return V if 400 <= status < 500 else T if 500 <= status < 600 else None


GRPC: Mapping[str, ErrorCategory] = _table(
    transient="UNAVAILABLE ABORTED INTERNAL CANCELLED",
    network="DEADLINE_EXCEEDED",
    resource="RESOURCE_EXHAUSTED",
    permission="PERMISSION_DENIED UNAUTHENTICATED",
    validation="INVALID_ARGUMENT FAILED_PRECONDITION OUT_OF_RANGE ALREADY_EXISTS",
    permanent="NOT_FOUND UNIMPLEMENTED DATA_LOSS",
)

_SQL_STATES: Mapping[str, ErrorCategory] = _table(
    network="08 HYT00 HYT01 57014 25P03 57P05 01002",
    transient="40 55P03 55006 57P01 57P02 57P03 57P04 25006 25P02 57 XX000 72 58",
    resource="53 54023 58030",
    permission="28 42501 0L 0P 38004",
    validation="22 23 42 44 21 07 34 2F 0A 54 3D 3F 26 3B 25 55 24 27",
    permanent="XX001 XX002 F0 02",
)


def of_sql_state(state: str) -> ErrorCategory | None:
    """The category of an SQLSTATE: of all five characters if that is known, else of its class."""
    return _SQL_STATES.get(state) or _SQL_STATES.get(state[:2]) if len(state) == 5 else None


def _codes(**columns: str) -> dict[int, ErrorCategory]:
    return {int(code): category for code, category in _table(**columns).items()}


MYSQL: Mapping[int, ErrorCategory] = _codes(
    network="""
        1042 1043 1047 1080 1081 1152 1154 1155 1156 1157 1158 1159 1160 1161 1184 2001 2002 2003 2004 2005 2006
        2012 2013 2026 2055 3024""",
    transient="1053 1077 1205 1213 1290 1317 1412 1614 1836 3572",
    resource="1021 1037 1038 1040 1041 1114 1135 1203 1206 1226 2008",
    permission="1044 1045 1095 1130 1142 1143 1227 1370 1410 1698 1820 3118",
    validation="""
        1048 1050 1052 1054 1061 1062 1064 1065 1091 1109 1136 1138 1146 1153 1216 1217 1264 1265 1292 1364 1366
        1406 1451 1452 1454 3140 3819""",
    permanent="1046 1049 1051 1235",
)
MONGO: Mapping[int, ErrorCategory] = _codes(
    network="6 7 50 89 202 262 9001",
    transient="91 112 189 10058 10107 11600 11602 13435 13436 251 24 46 117 134 225 291",
    resource="146 14031 39 292",
    permission="11 13 18 31 33 8000",
    validation="2 9 14 16 22 40 52 54 66 72 121 10334 11000 11001 17280 17419",
    permanent="26 59 115",
)
SQLITE: Mapping[str, ErrorCategory] = _table(
    transient="SQLITE_BUSY SQLITE_LOCKED SQLITE_INTERRUPT SQLITE_PROTOCOL SQLITE_SCHEMA",
    resource="SQLITE_FULL SQLITE_NOMEM SQLITE_IOERR SQLITE_NOLFS",
    permission="SQLITE_READONLY SQLITE_PERM SQLITE_AUTH",
    validation="""
        SQLITE_CONSTRAINT SQLITE_MISMATCH SQLITE_RANGE SQLITE_TOOBIG SQLITE_MISUSE SQLITE_ERROR SQLITE_FORMAT""",
    permanent="SQLITE_CORRUPT SQLITE_NOTADB SQLITE_CANTOPEN SQLITE_INTERNAL SQLITE_NOTFOUND",
)
SMTP: Mapping[int, ErrorCategory] = _codes(
    transient="421 450 451 454 432 471",
    resource="452 552",
    permission="530 534 535 538 554",
    validation="500 501 502 503 504 551 553 555",  # a 550 may mean anything: its words decide
)
FTP: Mapping[int, ErrorCategory] = _codes(
    transient="421 450 451",
    network="425 426",
    resource="452 552",
    permission="430 530 532",
    validation="500 501 503 504 551 553",
    permanent="502",
)
AMQP: Mapping[int, ErrorCategory] = _codes(
    transient="313 405 541",
    network="504",
    resource="506",
    permission="402 403 530",
    validation="311 406 501 502 503 505",
    permanent="312 404 540",  # a 320, closed by force, may mean anything: its words decide
)
# How a command ended that did not end by itself: 124 is timeout(1)'s, 137 and -9 are a SIGKILL, 126 may not be run.
EXIT: Mapping[int, ErrorCategory] = {124: N, 126: P, 137: R, -9: R, 143: T, -15: T}


def of_mail_status(code: str) -> ErrorCategory | None:
    """The category of a mail server's second number: "5.7.1" is about rights.

    >>> of_mail_status("4.2.2"), of_mail_status("5.1.1")
    (<ErrorCategory.RESOURCE: 'resource'>, <ErrorCategory.VALIDATION: 'validation'>)
    """
    subject = code[2:]
    if code.startswith("5.7") or subject == "7.8":
        return P
    if subject in ("2.2", "3.1"):
        return R
    if code.startswith("4"):
        return N if subject.startswith("4") else T
    return V if subject[0] in "1356" else None


LDAP: Mapping[int, ErrorCategory] = _codes(
    transient="51 52 54 80",
    network="3 81 85 91",
    resource="4 11",
    permission="7 8 13 48 49 50",
    validation="2 16 17 18 19 20 21 34 53 64 65 66 67 68 69 71",
    permanent="12 32 33 36 92",
)
ORACLE: Mapping[int, ErrorCategory] = _codes(
    network="""
        1012 1089 2396 3113 3114 3135 3136 12154 12170 12203 12224 12500 12505 12514 12535 12537 12541 12545 12547
        12560 12571 25408""",
    transient="""
        51 54 60 1033 1034 1090 1109 1154 1555 4020 4021 4068 8177 12516 12518 12519 12520 12526 12528 14403 25402
        30006""",
    resource="18 19 20 257 1536 1628 1631 1650 1651 1652 1653 1654 1655 1658 1691 4030 4031 19502 19809 27072 30036",
    permission="1005 1017 1031 1045 1990 1995 28000 28001 28002 28003 28009",
    validation="""
        1 900 904 911 913 917 923 932 933 936 942 947 1400 1407 1438 1722 1830 1839 1840 1841 1843 1847 1858 1861
        2290 2291 2292 12899""",
    permanent="4043 6550 1403",
)
# By its type, because the status alone misleads: "too many shards" comes as a 400, a full disk as a 403 or a 429.
SEARCH: Mapping[str, ErrorCategory] = _table(
    transient="""
        es_rejected_execution_exception opensearch_rejected_execution_exception rejected_execution_exception
        version_conflict_engine_exception process_cluster_event_timeout_exception unavailable_shards_exception
        no_shard_available_action_exception cluster_manager_not_discovered_exception master_not_discovered_exception""",
    resource="circuit_breaking_exception too_many_buckets_exception",
    network="""
        node_disconnected_exception node_not_connected_exception receive_timeout_transport_exception
        connect_transport_exception""",
    permission="security_exception authorization_exception",
    validation="""
        mapper_parsing_exception illegal_argument_exception parsing_exception parse_exception
        x_content_parse_exception strict_dynamic_mapping_exception document_parsing_exception
        action_request_validation_exception resource_already_exists_exception query_shard_exception
        number_format_exception""",
    permanent="""
        index_not_found_exception document_missing_exception resource_not_found_exception index_closed_exception""",
)
