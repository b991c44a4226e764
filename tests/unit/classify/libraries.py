"""Errors of libraries that are too big or too tied to a server to be installed for this, by name and shape."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.unit.classify.catalogues import rows
from tests.unit.classify.exceptions import by_botocore, named


def imitated() -> Iterator[tuple[str, BaseException]]:
    """The category, and an exception with the name, the attributes and the text that the library gives it."""
    for category, row in rows(ROWS):
        name, _, rest = row.partition(" ")
        attributes, end = json.JSONDecoder().raw_decode(rest) if rest.startswith('{"') else ({}, 0)
        message = rest[end:].strip()
        yield category, named(name, **attributes)(*([message] if message else []))
    for category, row in rows(AWS):
        code, status = row.split()
        yield category, by_botocore(code, int(status))


# A category's first letter, the name of the type, its attributes if it has some, and what it says.
ROWS = """
P AccountLockedError x
N aio_pika.exceptions.AMQPConnectionError x
X aiokafka.errors.ConsumerStoppedError x
N aiomysql.OperationalError (2003, "Can't connect to MySQL server on 'db'")
N aiosmtplib.errors.SMTPConnectTimeoutError x
T airflow.exceptions.AirflowRescheduleException x
N airflow.exceptions.AirflowSensorTimeout Sensor has timed out
N airflow.exceptions.AirflowTaskTimeout Timeout
X airflow.exceptions.DagNotFound x
P amqp.exceptions.AccessRefused {"reply_code": 403, "code": 403} ACCESS_REFUSED
P amqp.exceptions.NotAllowed {"reply_code": 530, "code": 530} NOT_ALLOWED - vhost
N anthropic.APIConnectionError Connection error.
P anthropic.AuthenticationError {"status_code": 401} invalid x-api-key
V anthropic.BadRequestError {"status_code": 400} prompt is too long
T anthropic.InternalServerError {"status_code": 500} x
T anthropic.OverloadedError {"status_code": 529} Overloaded
P anthropic.PermissionDeniedError {"status_code": 403} x
T anthropic.RateLimitError {"status_code": 429} x
V anthropic.RequestTooLargeError {"status_code": 413} x
N asyncpg.exceptions._base.InterfaceError connection is closed
T asyncpg.exceptions.CannotConnectNowError {"sqlstate": "57P03"} the database system is starting up
N asyncpg.exceptions.ConnectionDoesNotExistError {"sqlstate": "08003"} connection was closed in the middle of operation
V asyncpg.exceptions.DataError {"sqlstate": "22000"} invalid input for query argument $1
T asyncpg.exceptions.DeadlockDetectedError {"sqlstate": "40P01"} x
P asyncpg.exceptions.InsufficientPrivilegeError {"sqlstate": "42501"} x
P asyncpg.exceptions.InvalidPasswordError {"sqlstate": "28P01"} password authentication failed for user "x"
N asyncpg.exceptions.QueryCanceledError {"sqlstate": "57014"} canceling statement due to statement timeout
T asyncpg.exceptions.SerializationError {"sqlstate": "40001"} could not serialize access
R asyncpg.exceptions.TooManyConnectionsError {"sqlstate": "53300"} sorry, too many clients already
V asyncpg.exceptions.UniqueViolationError {"sqlstate": "23505"} x
N asyncssh.misc.ConnectionLost Connection lost
N asyncssh.misc.DisconnectError Connection closed
P asyncssh.misc.HostKeyNotVerifiable Host key is not trusted for host x
P asyncssh.misc.PermissionDenied Permission denied for user x
P authlib.jose.errors.BadSignatureError bad_signature:
P azure.core.exceptions.ClientAuthenticationError x
P azure.core.exceptions.ClientAuthenticationError Authentication failed
V azure.core.exceptions.DecodeError x
T azure.core.exceptions.HttpResponseError {"status_code": 429} Too many requests
P azure.core.exceptions.HttpResponseError {"status_code": 403} AuthorizationFailed
N azure.core.exceptions.IncompleteReadError x
V azure.core.exceptions.ResourceExistsError {"status_code": 409} The specified container already exists.
X azure.core.exceptions.ResourceNotFoundError {"status_code": 404} The specified blob does not exist.
T azure.core.exceptions.ServiceBusServerBusyError x
N azure.core.exceptions.ServiceRequestError Cannot connect to host
N azure.core.exceptions.ServiceRequestTimeoutError x
N azure.core.exceptions.ServiceResponseError Connection aborted.
P azure.eventhub.exceptions.AuthenticationError x
N azure.eventhub.exceptions.ConnectionLostError x
P azure.identity._exceptions.CredentialUnavailableError x
T azure.servicebus.exceptions.MessageLockLostError x
N azure.servicebus.exceptions.ServiceBusConnectionError x
R azure.servicebus.exceptions.ServiceBusQuotaExceededError x
V BadPayloadError x
N billiard.exceptions.SoftTimeLimitExceeded SoftTimeLimitExceeded()
R billiard.exceptions.WorkerLostError Worker exited prematurely: signal 9 (SIGKILL) Job: 3.
N botocore.exceptions.ConnectionClosedError x
N botocore.exceptions.ConnectionError x
N botocore.exceptions.ConnectTimeoutError x
P botocore.exceptions.CredentialRetrievalError x
N botocore.exceptions.EndpointConnectionError Could not connect to the endpoint URL: "https://s3"
V botocore.exceptions.InvalidConfigError x
P botocore.exceptions.NoCredentialsError Unable to locate credentials
V botocore.exceptions.NoRegionError You must specify a region.
V botocore.exceptions.ParamValidationError Parameter validation failed
X botocore.exceptions.ProfileNotFound x
N botocore.exceptions.ProxyConnectionError x
N botocore.exceptions.ReadTimeoutError x
N botocore.exceptions.SSLError x
P botocore.exceptions.TokenRetrievalError x
P botocore.exceptions.UnauthorizedSSOTokenError x
X botocore.exceptions.UnknownServiceError Unknown service
P boxsdk.exception.BoxOAuthException {"status": 400} Refresh token has expired
V bson.errors.InvalidDocument cannot encode object
V bson.errors.InvalidId 'x' is not a valid ObjectId
N cassandra.cluster.NoHostAvailable Unable to connect to any servers
V cassandra.InvalidRequest x
N cassandra.OperationTimedOut errors={}
N cassandra.ReadTimeout Operation timed out
P cassandra.Unauthorized x
T cassandra.Unavailable Cannot achieve consistency level QUORUM
V cattrs.errors.ClassValidationError x
P ccxt.base.errors.AuthenticationError x
V ccxt.base.errors.BadSymbol x
T ccxt.base.errors.DDoSProtection x
T ccxt.base.errors.ExchangeNotAvailable x
R ccxt.base.errors.InsufficientFunds x
V ccxt.base.errors.InvalidOrder x
N ccxt.base.errors.NetworkError binance GET x
T ccxt.base.errors.OnMaintenance x
T ccxt.base.errors.RateLimitExceeded x
N ccxt.base.errors.RequestTimeout x
T celery.backends.base.BackendStoreError x
X celery.exceptions.ImproperlyConfigured x
V celery.exceptions.InvalidTaskError x
X celery.exceptions.NotRegistered proj.tasks.x
X celery.exceptions.NotRegistered 'tasks.add'
T celery.exceptions.Retry Retry in 3s
N celery.exceptions.SoftTimeLimitExceeded
N celery.exceptions.TimeLimitExceeded TimeLimitExceeded(30,)
N celery.exceptions.TimeoutError The operation timed out.
T celery.exceptions.WorkerShutdown x
V cerberus.DocumentError document is missing
V chardet.errors.UnknownEncoding x
R clickhouse_connect.driver.exceptions.DatabaseError Code: 241. DB::Exception: Memory limit (total) exceeded
N clickhouse_driver.errors.NetworkError {"code": 210} Code: 210. Connection refused
N clickhouse_driver.errors.SocketTimeoutError {"code": 209} Code: 209.
T cohere.errors.TooManyRequestsError {"status_code": 429} x
N confluent_kafka.error.ConsumeError _TRANSPORT: broker down
P consul.ACLPermissionDenied x
T consul.base.ConsulException 500 No cluster leader
P cryptography.exceptions.InvalidSignature
X CustomerNotFound x
T cx_Oracle.DatabaseError ORA-00060: deadlock detected while waiting for resource
N databricks.sdk.errors.platform.DeadlineExceeded x
V databricks.sdk.errors.platform.InvalidParameterValue x
P databricks.sdk.errors.platform.PermissionDenied x
X databricks.sdk.errors.platform.ResourceDoesNotExist x
T databricks.sdk.errors.platform.TemporarilyUnavailable x
V dataclasses_json.core.MissingFieldError x
V dateutil.parser._parser.ParserError Unknown string format: x
V dbt.exceptions.CompilationError x
T delta.exceptions.ConcurrentAppendException Files were added by a concurrent update.
P discord.errors.Forbidden {"status": 403} 403 Forbidden (error code: 50013): Missing Permissions
N distributed.comm.core.CommClosedError in <TCP>: Stream is closed
R distributed.scheduler.KilledWorker x
X django.core.exceptions.ObjectDoesNotExist x
P django.core.exceptions.PermissionDenied
V django.core.exceptions.ValidationError Enter a valid date
V django.db.utils.IntegrityError UNIQUE constraint failed
N django.db.utils.OperationalError could not connect to server: Connection refused
X django.http.response.Http404 x
N dns.exception.Timeout x
N dns.resolver.NoNameservers All nameservers failed to answer the query
N dns.resolver.NXDOMAIN The DNS query name does not exist
V docker.errors.BuildError dockerfile parse error line 3: unknown instruction: RUNN
R docker.errors.ContainerError {"exit_status": 137} Command 'x' returned non-zero exit status 137
X docker.errors.ContainerError {"exit_status": 1} Command 'x' returned non-zero exit status 1
X docker.errors.ImageNotFound {"status_code": 404} No such image
X docker.errors.NotFound {"status_code": 404} x
T dramatiq.errors.RateLimitExceeded x
N dramatiq.middleware.time_limit.TimeLimitExceeded x
P dropbox.exceptions.AuthError expired_access_token
T dropbox.exceptions.RateLimitError {"status_code": 429} x
V duckdb.CatalogException Table with name x does not exist!
T duckdb.IOException Could not set lock on file: Conflicting lock is held
R duckdb.OutOfMemoryException failed to allocate data
V duckdb.ParserException syntax error at or near
N elastic_transport.ConnectionError Connection error caused by: NewConnectionError
N elastic_transport.ConnectionTimeout Connection timed out
N elastic_transport.TlsError x
T elasticsearch.ApiError {"status_code": 503} x
P elasticsearch.AuthenticationException {"status_code": 401} x
P elasticsearch.exceptions.AuthorizationException security_exception
N elasticsearch.exceptions.ConnectionTimeout timed out
X elasticsearch.helpers.errors.BulkIndexError 2 document(s) failed to index.
V elasticsearch.UnsupportedProductError The client noticed that the server is not Elasticsearch
N etcd3.exceptions.ConnectionFailedError x
T exchangelib.errors.ErrorServerBusy x
N exchangelib.errors.ErrorTimeoutExpired x
T exchangelib.errors.RateLimitError x
P exchangelib.errors.UnauthorizedError Invalid credentials for https://x
X fabric.exceptions.GroupException x
V fastavro._validate_common.ValidationError x
V feedparser.exceptions.CharacterEncodingUnknown x
T filelock.Timeout The file lock could not be acquired
P firebase_admin.exceptions.PermissionDeniedError {"code": "PERMISSION_DENIED"} x
T firebase_admin.exceptions.UnavailableError {"code": "UNAVAILABLE"} x
N GatewayUnreachable x
V git.exc.InvalidGitRepositoryError /x
X git.exc.NoSuchPathError /x
P github.GithubException 401 {"message": "Bad credentials"}
T github.RateLimitExceededException 403
T google.api_core.exceptions.Aborted {"code": 409} 409 x
V google.api_core.exceptions.AlreadyExists {"code": 409} 409 already exists
T google.api_core.exceptions.BadGateway {"code": 502} 502 x
V google.api_core.exceptions.BadRequest 400 Invalid JSON payload
N google.api_core.exceptions.Cancelled {"code": 499} 499 cancelled
N google.api_core.exceptions.DeadlineExceeded {"code": 504} 504 Deadline Exceeded
V google.api_core.exceptions.FailedPrecondition {"code": 400} 400 x
P google.api_core.exceptions.Forbidden {"code": 403} 403 x
N google.api_core.exceptions.GatewayTimeout {"code": 504} 504
T google.api_core.exceptions.InternalServerError {"code": 500} 500 x
V google.api_core.exceptions.InvalidArgument {"code": 400} 400 x
X google.api_core.exceptions.MethodNotImplemented {"code": 501} 501 x
X google.api_core.exceptions.NotFound {"code": 404} 404 x
V google.api_core.exceptions.OutOfRange {"code": 400} 400 x
P google.api_core.exceptions.PermissionDenied {"code": 403} 403 denied
R google.api_core.exceptions.ResourceExhausted {"code": 429} 429 Quota exceeded
N google.api_core.exceptions.RetryError Deadline of 60.0s exceeded
T google.api_core.exceptions.ServiceUnavailable {"code": 503} 503 x
T google.api_core.exceptions.TooManyRequests {"code": 429} 429 x
T google.api_core.exceptions.TooManyRequests 429 Rate limit
P google.api_core.exceptions.Unauthenticated {"code": 401} 401 x
T google.api_core.exceptions.Unknown {"code": 500} 500 x
P google.auth.exceptions.DefaultCredentialsError Could not automatically determine credentials.
P google.auth.exceptions.GoogleAuthError Could not refresh credentials
P google.auth.exceptions.RefreshError invalid_grant: Token has been expired or revoked.
N google.auth.exceptions.TransportError HTTPSConnectionPool: Max retries exceeded
V google.cloud.bigquery.dbapi.exceptions.ProgrammingError Syntax error: Unexpected keyword
T google.cloud.exceptions.Conflict {"code": 409} 409 transaction conflict
V google.cloud.exceptions.Conflict {"code": 409} 409 Already Exists: Table x
P google.genai.errors.ClientError {"code": 400} 400 INVALID_ARGUMENT. API key not valid. Please pass a valid API key.
T google.genai.errors.ServerError {"code": 503} 503 UNAVAILABLE. The model is overloaded.
P google.oauth2.id_token.InvalidToken x
V google.resumable_media.common.DataCorruption Checksum mismatch while downloading
P gql.transport.exceptions.TransportServerError {"code": 401} 401, message='Unauthorized'
V graphql.error.GraphQLError Cannot query field 'x' on type 'Y'
V great_expectations.exceptions.ValidationError x
N groq.APITimeoutError Request timed out.
X gspread.exceptions.SpreadsheetNotFound x
X gspread.exceptions.WorksheetNotFound Sheet1
N HandshakeFailed x
N hdfs.util.HdfsError Connection refused
T huey.exceptions.TaskLockedException unable to acquire lock x
P huggingface_hub.errors.GatedRepoError 403 Client Error. Access to model x is restricted
X huggingface_hub.errors.RepositoryNotFoundError 404 Client Error. Repository Not Found
X hvac.exceptions.InvalidPath x
V hvac.exceptions.InvalidRequest x
T hvac.exceptions.RateLimitExceeded x
P hvac.exceptions.Unauthorized x
T hvac.exceptions.VaultDown x
N influxdb_client.rest.ApiException {"status": 504} (504) Gateway Timeout
P influxdb_client.rest.ApiException {"status": 401} (401) unauthorized access
V instructor.exceptions.InstructorRetryException 1 validation error for X
V InvoiceTotalMismatch x
X invoke.exceptions.UnexpectedExit Encountered a bad command exit code! Exit code: 1
V jinja2.exceptions.TemplateSyntaxError unexpected '}'
P jira.exceptions.JIRAError {"status_code": 401} x
V jsonschema.exceptions.ValidationError 'x' is a required property
X jupyter_client.kernelspec.NoSuchKernel x
P jwt.exceptions.ExpiredSignatureError Signature has expired
T kafka.errors.BrokerNotAvailableError x
P kafka.errors.ClusterAuthorizationFailedError x
P kafka.errors.GroupAuthorizationFailedError x
V kafka.errors.InvalidConfigurationError x
V kafka.errors.InvalidTopicError x
N kafka.errors.KafkaConnectionError x
N kafka.errors.KafkaTimeoutError KafkaTimeoutError
N kafka.errors.KafkaTimeoutError Failed to update metadata after 60.0 secs.
T kafka.errors.LeaderNotAvailableError x
V kafka.errors.MessageSizeTooLargeError [Error 10]
N kafka.errors.NetworkExceptionError x
N kafka.errors.NoBrokersAvailable NoBrokersAvailable
T kafka.errors.NotCoordinatorError x
T kafka.errors.NotEnoughReplicasError x
T kafka.errors.NotLeaderForPartitionError [Error 6]
T kafka.errors.RebalanceInProgressError x
V kafka.errors.RecordListTooLargeError x
N kafka.errors.RequestTimedOutError x
P kafka.errors.SaslAuthenticationFailedError x
P kafka.errors.TopicAuthorizationFailedError [Error 29]
T kafka.errors.UnknownMemberIdError x
N kazoo.exceptions.ConnectionLoss x
T kazoo.exceptions.LockTimeout Failed to acquire lock
P kazoo.exceptions.NoAuthError x
V kazoo.exceptions.NodeExistsError x
X kazoo.exceptions.NoNodeError x
N kazoo.handlers.threading.KazooTimeoutError Connection time-out
X keyring.errors.NoKeyringError No recommended backend was available
P kombu.exceptions.ContentDisallowed Refusing to deserialize
V kombu.exceptions.DecodeError x
V kombu.exceptions.EncodeError Object is not JSON serializable
N kombu.exceptions.OperationalError [Errno 111] Connection refused
T kubernetes.client.exceptions.ApiException {"status": 409} (409) Conflict
T kubernetes.client.exceptions.ApiException {"status": 500} (500)
T kubernetes.client.exceptions.ApiException {"status": 429} (429) Too Many Requests
N kubernetes.client.exceptions.ApiException {"status": 504} (504) Reason: Gateway Timeout
P kubernetes.client.exceptions.ApiException {"status": 403, "reason": "Forbidden"} (403) Reason: Forbidden
P kubernetes.client.exceptions.ApiException {"status": 401} (401) Unauthorized
V kubernetes.client.exceptions.ApiException {"status": 422} (422)
X kubernetes.client.exceptions.ApiException {"status": 404} (404)
V kubernetes.client.exceptions.ApiValueError Invalid value for `name`, must not be `None`
V kubernetes.config.config_exception.ConfigException Invalid kube-config file. No configuration found.
X kubernetes.config.config_exception.ConfigException Service host/port is not set.
X kubernetes.dynamic.exceptions.ResourceNotFoundError No matches found
P ldap3.core.exceptions.LDAPBindError automatic bind not successful - invalidCredentials
N ldap3.core.exceptions.LDAPSocketOpenError unable to open socket
R litellm.exceptions.BudgetExceededError Budget has been exceeded
V litellm.exceptions.ContextWindowExceededError {"status_code": 400} x
T litellm.exceptions.ServiceUnavailableError {"status_code": 503} x
N litellm.exceptions.Timeout {"status_code": 408} x
N luigi.rpc.RPCError Errors (3 attempts) when connecting to remote scheduler
V lxml.etree.XMLSyntaxError Opening and ending tag mismatch
R MemoryAllocationError cannot allocate
P mistralai.exceptions.MistralAPIException {"http_status": 401} Unauthorized
P msal.exceptions.MsalServiceError AADSTS7000215: Invalid client secret provided.
V msgspec.ValidationError Expected `int`, got `str`
T mysql.connector.errors.DatabaseError {"errno": 1205, "sqlstate": "HY000"} 1205 (HY000): Lock wait timeout exceeded
V mysql.connector.errors.IntegrityError {"errno": 1062, "sqlstate": "23000"} 1062 (23000): Duplicate entry
R mysql.connector.errors.PoolError Failed getting connection; pool exhausted
P mysql.connector.errors.ProgrammingError {"errno": 1045, "sqlstate": "28000"} 1045 (28000): Access denied for user
P nacl.exceptions.BadSignatureError Signature was forged or corrupt
P nats.errors.AuthorizationError nats: authorization failed
N nats.errors.NoServersError nats: no servers available for connection
N nats.errors.TimeoutError nats: timeout
P nats.js.errors.AuthorizationError x
P neo4j.exceptions.AuthError The client is unauthorized
V neo4j.exceptions.ConstraintError already exists with label
V neo4j.exceptions.CypherSyntaxError Invalid input
P neo4j.exceptions.Forbidden x
N neo4j.exceptions.SessionExpired Failed to read from defunct connection
T neo4j.exceptions.TransientError x
P NotAllowedError x
T notion_client.errors.APIResponseError {"status": 429, "code": "rate_limited"} Rate limited
V notion_client.errors.APIResponseError {"status": 400, "code": "validation_error"} body failed validation
V numpy.linalg.LinAlgError Singular matrix
P oauthlib.oauth2.rfc6749.errors.InvalidGrantError (invalid_grant) Bad Request
P oauthlib.oauth2.rfc6749.errors.TokenExpiredError (token_expired)
N openai.APIConnectionError Connection error.
N openai.APITimeoutError Request timed out.
P openai.AuthenticationError {"status_code": 401} Incorrect API key provided
V openai.BadRequestError {"status_code": 400} This model's maximum context length is 8192 tokens
V openai.BadRequestError {"status_code": 400, "code": "context_length_exceeded"} maximum context length
T openai.ConflictError {"status_code": 409} x
V openai.ContentFilterFinishReasonError content filter
T openai.InternalServerError {"status_code": 500} The server had an error
X openai.NotFoundError {"status_code": 404} The model does not exist
P openai.PermissionDeniedError {"status_code": 403} x
T openai.RateLimitError {"status_code": 429, "code": "rate_limit_exceeded"} Rate limit reached
V openai.UnprocessableEntityError {"status_code": 422} x
X openapi_core.exceptions.OpenAPIError x
V openpyxl.utils.exceptions.InvalidFileException openpyxl does not support .xls
P oracledb.exceptions.DatabaseError ORA-01017: invalid username/password; logon denied
V oracledb.exceptions.IntegrityError ORA-00001: unique constraint (X.Y) violated
R OutOfDiskSpace x
N paho.mqtt.MQTTException connection lost
V pandas.errors.EmptyDataError No columns to parse from file
V pandas.errors.ParserError Error tokenizing data. C error: Expected 3 fields in line 5, saw 4
V pandera.errors.SchemaError column 'x' not in dataframe
N paramiko.buffered_pipe.PipeTimeout x
P paramiko.ssh_exception.AuthenticationException Authentication failed.
P paramiko.ssh_exception.BadAuthenticationType Bad authentication type
P paramiko.ssh_exception.BadHostKeyException Host key for server 'x' does not match
V paramiko.ssh_exception.ConfigParseError x
N paramiko.ssh_exception.NoValidConnectionsError Unable to connect to port 22 on 10.0.0.1
P paramiko.ssh_exception.PasswordRequiredException Private key file is encrypted
N paramiko.ssh_exception.SSHException Error reading SSH protocol banner
N paramiko.ssh_exception.SSHException No existing session
N paramiko.ssh_exception.SSHException Timeout opening channel.
V pdfminer.pdfparser.PDFSyntaxError No /Root object! - Is this really a PDF?
N PeerDisconnected x
V peewee.IntegrityError UNIQUE constraint failed
V phonenumbers.phonenumberutil.NumberParseException (1) The string supplied did not seem to be a phone number.
N pika.exceptions.AMQPConnectionError
N pika.exceptions.AMQPHeartbeatTimeout x
P pika.exceptions.AuthenticationError x
N pika.exceptions.ConnectionWrongStateError x
N pika.exceptions.IncompatibleProtocolError The protocol returned by the server is not supported
P pika.exceptions.ProbableAuthenticationError
N pika.exceptions.StreamLostError Stream connection lost
V PIL.UnidentifiedImageError cannot identify image file
V pint.errors.DimensionalityError Cannot convert from 'm' to 's'
X pip._internal.exceptions.DistributionNotFound No matching distribution found
N playwright._impl._errors.Error net::ERR_CONNECTION_REFUSED at https://x
N playwright._impl._errors.TimeoutError Timeout 30000ms exceeded.
N playwright.async_api.TimeoutError Page.goto: Timeout 30000ms exceeded.
X prefect.exceptions.ObjectNotFound x
N prefect.exceptions.TaskRunTimeoutError x
N psycopg2.errors.QueryCanceled {"pgcode": "57014"} canceling statement due to statement timeout
R psycopg2.errors.TooManyConnections {"pgcode": "53300"} x
V psycopg2.errors.UndefinedTable {"pgcode": "42P01"} relation does not exist
N psycopg2.InterfaceError connection already closed
R psycopg2.pool.PoolError connection pool exhausted
N pulsar.exceptions.ConnectError Pulsar error: ConnectError
T pulsar.exceptions.ServiceUnitNotReady x
R py4j.protocol.Py4JJavaError java.lang.OutOfMemoryError: Java heap space
N py4j.protocol.Py4JNetworkError Answer from Java side is empty
V pyarrow.lib.ArrowInvalid Could not convert 'a' with type str: tried to convert to int64
R pyarrow.lib.ArrowMemoryError malloc failed
V pyarrow.lib.ArrowTypeError Expected bytes, got a 'int' object
V pydantic.v1.error_wrappers.ValidationError 1 validation error
T pyhive.exc.OperationalError Server busy
N pymodbus.exceptions.ConnectionException Modbus Error: [Connection] Failed to connect
N pymongo.errors.AutoReconnect connection closed
N pymongo.errors.ConnectionFailure x
X pymongo.errors.CursorNotFound {"code": 43} cursor id not found
V pymongo.errors.DocumentTooLarge BSON document too large
V pymongo.errors.DuplicateKeyError {"code": 11000} E11000 duplicate key error collection
N pymongo.errors.ExecutionTimeout {"code": 50} operation exceeded time limit
V pymongo.errors.InvalidName database names cannot be empty
V pymongo.errors.InvalidURI Invalid URI scheme
N pymongo.errors.NetworkTimeout timed out
T pymongo.errors.NotPrimaryError {"code": 10107} not primary
T pymongo.errors.OperationFailure {"code": 112} WriteConflict error
P pymongo.errors.OperationFailure {"code": 18} Authentication failed.
P pymongo.errors.OperationFailure {"code": 13} not authorized on db to execute command
P pymongo.errors.OperationFailure {"code": 8000} bad auth : Authentication failed.
N pymongo.errors.ServerSelectionTimeoutError localhost:27017: [Errno 111] Connection refused
V pymongo.errors.WriteError {"code": 121} Document failed validation
N pymongo.errors.WTimeoutError {"code": 64} waiting for replication timed out
N pymssql._pymssql.OperationalError Unable to connect: Adaptive Server is unavailable or does not exist
N pysnmp.error.PySnmpError No SNMP response received before timeout
V pyspark.sql.utils.AnalysisException cannot resolve 'x' given input columns
V pyspark.sql.utils.ParseException mismatched input
N ray.exceptions.GetTimeoutError Get timed out
R ray.exceptions.ObjectStoreFullError x
R ray.exceptions.OutOfMemoryError Task was killed due to the node running low on memory.
T ray.exceptions.WorkerCrashedError The worker died unexpectedly while executing this task.
N redis.exceptions.ConnectionError Error -2 connecting to redis:6379. Name or service not known.
P rest_framework.exceptions.AuthenticationFailed {"status_code": 401} x
P rest_framework.exceptions.NotAuthenticated {"status_code": 401} Authentication credentials were not provided.
V rest_framework.exceptions.ParseError {"status_code": 400} JSON parse error
T rest_framework.exceptions.Throttled {"status_code": 429} Request was throttled.
N rq.timeouts.JobTimeoutException Task exceeded maximum timeout value (180 seconds)
T s3transfer.exceptions.RetriesExceededError Max Retries Exceeded
V schema.SchemaError Key 'x' error: 'a' should be instance of 'int'
V SchemaMismatchError x
R scp.SCPException scp: /data: No space left on device
V selenium.common.exceptions.InvalidSelectorException invalid selector
X selenium.common.exceptions.NoSuchElementException no such element
N selenium.common.exceptions.TimeoutException
N selenium.common.exceptions.WebDriverException unknown error: net::ERR_NAME_NOT_RESOLVED
P sendgrid.UnauthorizedError HTTP Error 401: Unauthorized
T shopify_api.TooManyRequests x
P simple_salesforce.exceptions.SalesforceAuthenticationFailed INVALID_LOGIN: Invalid username, password, security token
P simple_salesforce.exceptions.SalesforceExpiredSession {"status": 401} Expired session
P slack_sdk.errors.SlackApiError not_authed
N smbprotocol.exceptions.SMBConnectionClosed SMB socket was closed
T snowflake.connector.errors.OperationalError 503 service unavailable
V snowflake.connector.errors.ProgrammingError 001003 (42000): SQL compilation error: syntax error line 1
N sqlalchemy.exc.PendingRollbackError Can't reconnect until invalid transaction is rolled back.
V sqlglot.errors.ParseError Expecting ). Line 1, Col: 5
V sqlmesh.utils.errors.ConfigError invalid config
N stomp.exception.ConnectFailedException
N stripe.APIConnectionError x
N stripe.error.APIConnectionError Could not connect
T stripe.error.APIError {"http_status": 500} x
P stripe.error.AuthenticationError {"http_status": 401} Invalid API Key
V stripe.error.InvalidRequestError {"http_status": 400} No such parameter
P stripe.error.PermissionError {"http_status": 403} x
T stripe.error.RateLimitError {"http_status": 429} Too many requests
V stripe.InvalidRequestError No such customer parameter
T stripe.RateLimitError Too many requests
P stripe.SignatureVerificationError No signatures found matching the expected signature
N telegram.error.NetworkError httpx.ConnectError
T telegram.error.RetryAfter Flood control exceeded. Retry in 12 seconds
N temporalio.exceptions.TimeoutError activity Heartbeat timeout
R TenantQuotaExceeded x
P TokenExpired x
T TooManyRequestsError x
R torch.cuda.OutOfMemoryError CUDA out of memory.
X tortoise.exceptions.DoesNotExist Object does not exist
R trino.exceptions.TrinoQueryError TrinoQueryError(type=INSUFFICIENT_RESOURCES, name=EXCEEDED_MEMORY_LIMIT)
V trino.exceptions.TrinoUserError TrinoUserError(type=USER_ERROR, name=SYNTAX_ERROR)
T tweepy.errors.TooManyRequests 429
V twilio.base.exceptions.TwilioException Unable to create record: The 'To' number is not a valid phone number
T twilio.base.exceptions.TwilioRestException {"status": 429, "code": 20429} HTTP 429 error: Too Many Requests
V twilio.base.exceptions.TwilioRestException {"status": 400, "code": 21211} The 'To' number is not a valid phone number.
T UpstreamBusyError x
N urllib3.exceptions.MaxRetryError HTTPSConnectionPool(host='10.0.0.1', port=6443): Max retries exceeded
V voluptuous.error.Invalid expected int
V voluptuous.error.MultipleInvalid required key not provided @ data['x']
N websocket._exceptions.WebSocketConnectionClosedException Connection to remote host was lost.
N websocket._exceptions.WebSocketTimeoutException x
N websockets.exceptions.ConnectionClosedError no close frame received or sent
V xlrd.biffh.XLRDError Unsupported format, or corrupt file
V xmlschema.validators.exceptions.XMLSchemaValidationError failed validating
V yaml.scanner.ScannerError mapping values are not allowed here
P yt_dlp.utils.DownloadError ERROR: unable to download video data: HTTP Error 403: Forbidden
N zeep.exceptions.TransportError timed out
V zeep.exceptions.ValidationError Missing element x
V zeep.exceptions.XMLSyntaxError x
T zmq.error.Again Resource temporarily unavailable
N zmq.error.ZMQError Address already in use
"""
# The code that AWS gives, and the HTTP status.
AWS = """
T ThrottlingException 400
P AccessDenied 403
X NoSuchKey 404
T ProvisionedThroughputExceededException 400
V ValidationException 400
P ExpiredToken 400
R LimitExceededException 400
P UnrecognizedClientException 400
V InvalidParameterValue 400
R InsufficientInstanceCapacity 500
T SlowDown 503
N RequestTimeout 400
T TransactionConflictException 400
T RequestLimitExceeded 503
T InternalError 500
P InvalidAccessKeyId 403
P SignatureDoesNotMatch 403
P UnauthorizedOperation 403
X NoSuchBucket 404
X ResourceNotFoundException 400
V MalformedPolicyDocument 400
V EntityAlreadyExists 409
R ServiceQuotaExceededException 402
R VcpuLimitExceeded 400
T TooManyRequestsException 429
T ServiceUnavailable 503
T OperationAborted 409
V InvalidBucketName 400
P ExpiredTokenException 400
P InvalidClientTokenId 403
V EntityTooLarge 400
T ConcurrentModificationException 400
V BucketAlreadyExists 409
V MissingParameter 400
R InstanceLimitExceeded 400
T ModelNotReadyException 429
T RequestThrottled 400
N RequestTimeoutException 408
X QueueDoesNotExist 400
X AWS.SimpleQueueService.NonExistentQueue 400
"""
