"""The last round of what people on call saw, written without a look at the rules."""

from __future__ import annotations

FIFTH_ROUND = r"""
N requests.exceptions.ReadTimeout: HTTPSConnectionPool(host='api.stripe.com', port=443): Read timed out. (read timeout=80)
N aiohttp.client_exceptions.ServerTimeoutError: Connection timeout to host https://hooks.internal
N psycopg2.OperationalError: connection to server at "10.0.0.3", port 5432 failed: No route to host
N ssl.SSLEOFError: EOF occurred in violation of protocol (_ssl.c:1007)
N kafka.errors.KafkaTimeoutError: Batch for TopicPartition(topic='jobs', partition=0) containing 1 record(s) expired
N nats.errors.NoServersError: nats: no servers available for connection
N grpc.RpcError: failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:443: Failed to connect to remote host
N oracledb: DPY-6001: cannot connect to database. Service "X" is not registered with the listener
N ConnectionAbortedError: [WinError 10053]
N curl: (52) Empty reply from server
N wget: unable to resolve host address 'files.internal'
N Error: ESOCKETTIMEDOUT
N java.net.ConnectException: Connection timed out: connect
N mysql.connector.errors.InterfaceError: 2003: Can't connect to MySQL server on 'db:3306' (111 Connection refused)
N pymssql.OperationalError: (20009, b'DB-Lib error message 20009, severity 9: Unable to connect: Adaptive Server is unavailable or does not exist')
N influxdb_client.rest.ApiException: connection reset by peer
N concurrent.futures._base.TimeoutError
N Command '['rsync', '-a']' timed out after 30 seconds
N azure.core.exceptions.ServiceRequestTimeoutError: timeout
T botocore.errorfactory.ProvisionedThroughputExceededException: An error occurred
T google.api_core.exceptions.Unknown: 503 backend unavailable
T openai.APIStatusError: Error code: 503 - service unavailable
T opensearchpy.exceptions.TransportError: TransportError(503, 'search_phase_execution_exception', 'all shards failed')
T pymongo.errors.NotPrimaryError: not primary
T sqlalchemy.exc.OperationalError: (sqlite3.OperationalError) database is locked
T psycopg.errors.SerializationFailure: could not serialize access due to concurrent update
T redis.exceptions.BusyLoadingError: Redis is loading the dataset in memory
T consul: No cluster leader
T Kubernetes: etcdserver: leader changed
T HTTP Error 429: Too Many Requests
T requests.exceptions.HTTPError: 500 Server Error: Internal Server Error
T Snowflake: 000625 (57014): Statement reached its statement or warehouse timeout, or was canceled: warehouse suspended temporarily, try again
T Your previous request is still being processed
T Lock acquisition failed for key jobs/7
T JobExecutionAlreadyRunningException: A job execution for this job is already running
T ConcurrentRunsExceededException: Concurrent runs exceeded for sweep
T MySQL: ERROR 1290 server is running with the --super-read-only option
T Cassandra: Cannot achieve consistency level LOCAL_QUORUM
T OSError: [Errno 16] Device or resource busy: '/mnt/x'
R OSError: [Errno 24] Too many open files
R psycopg2.errors.TooManyConnections: FATAL: too many connections
R java.lang.OutOfMemoryError
R duckdb.OutOfMemoryException: Out of Memory Error: failed to allocate data of size 16.0 GiB
R pyspark: Container exited with a non-zero exit code 137
R An error occurred (ServiceQuotaExceededException) when calling the StartJobRun operation
R googleapiclient.errors.HttpError: <HttpError 403 "The user's Drive storage quota has been exceeded.">
R opensearch: FORBIDDEN/12/index read-only / allow delete (api)
R mysql: ERROR 1114 (HY000): The table 'x' is full
R redis.exceptions.ResponseError: OOM command not allowed when used memory > 'maxmemory'.
R Worker (pid:9) was sent SIGKILL! Perhaps out of memory?
R ORA-01654: unable to extend index X by 128 in tablespace Y
R RuntimeError: DataLoader worker is killed by signal: Killed.
R bigquery: Resources exceeded during query execution
P psycopg2.OperationalError: FATAL: password authentication failed for user "etl"
P botocore.exceptions.ClientError: An error occurred (InvalidClientTokenId) when calling the GetCallerIdentity operation
P pymongo.errors.OperationFailure: not authorized on prod to execute command
P azure.core.exceptions.ClientAuthenticationError: (AuthorizationFailed)
P kubernetes.client.exceptions.ApiException: (403) Reason: Forbidden
P snowflake.connector.errors.DatabaseError: 250001 (08001): Incorrect username or password was specified.
P googleapiclient.errors.HttpError: <HttpError 403 "The caller does not have permission">
P slack_sdk.errors.SlackApiError: {'ok': False, 'error': 'invalid_auth'}
P jwt.exceptions.InvalidSignatureError: Signature verification failed
P fatal: could not read from remote repository. Please make sure you have the correct access rights
P paramiko.ssh_exception.AuthenticationException: Authentication timeout.
P ldap3.core.exceptions.LDAPInvalidCredentialsResult: invalidCredentials
P trino.exceptions.TrinoUserError: PERMISSION_DENIED: Access Denied: Cannot select from table runs
P databricks.sql.exc.ServerOperationError: [INSUFFICIENT_PERMISSIONS] Insufficient privileges
P github.BadCredentialsException: 401 Bad credentials
V trino.exceptions.TrinoUserError: SYNTAX_ERROR: line 1:8: Column 'ownr' cannot be resolved
V duckdb.ConversionException: Conversion Error: Could not convert string 'x' to INT32
V duckdb.BinderException: Binder Error: Referenced column "ownr" not found in FROM clause!
V polars.exceptions.ColumnNotFoundError: ownr
V polars.exceptions.ShapeError: unable to vstack, column names don't match
V pyarrow.lib.ArrowInvalid: Could not convert 'x' with type str: tried to convert to int64
V opensearchpy.exceptions.RequestError: RequestError(400, 'mapper_parsing_exception', 'failed to parse')
V fastapi.exceptions.RequestValidationError: [{'loc': ('body', 'x'), 'msg': 'field required'}]
V click.exceptions.BadParameter: 'x' is not a valid integer.
V yaml.scanner.ScannerError: mapping values are not allowed here
V requests.exceptions.HTTPError: 400 Client Error: Bad Request for url: http://x/
V snowflake.connector.errors.ProgrammingError: 001003 (42000): SQL compilation error: syntax error line 1 at position 7
V sqlalchemy.exc.DataError: (psycopg2.errors.StringDataRightTruncation) value too long for type character varying(5)
V InvalidSchemaVersion: version 9
V cerberus: {'age': ['must be of integer type']}
V avro.schema.SchemaParseException: Invalid schema
V attrs: TypeError: __init__() got an unexpected keyword argument 'x'
V numpy.linalg.LinAlgError: Singular matrix
V ValueError: setting an array element with a sequence.
V ValueError: Shape of passed values is (3, 2), indices imply (3, 3)
X airflow.exceptions.AirflowFailException
X prefect.exceptions.FailedRun
X dbt.exceptions.DbtRuntimeError: Runtime Error
X botocore.errorfactory.NoSuchKey: An error occurred (NoSuchKey) when calling the GetObject operation
X requests.exceptions.HTTPError: 404 Client Error: Not Found
X google.api_core.exceptions.NotFound: 404 Not found: Table x
X importlib.metadata.PackageNotFoundError: foo
X docker.errors.ImageNotFound: 404 Client Error
X kubernetes.client.exceptions.ApiException: (404) Reason: Not Found
X polars.exceptions.PanicException: index out of bounds
X AttributeError: module 'x' has no attribute 'y'
X subprocess.CalledProcessError: Command '['ls']' returned non-zero exit status 2.
X INFO dag sweep succeeded after retry
X 12:00:01 INFO connection pool initialised with 10 connections
X [DEBUG] acquiring lock tenant-4
X no alerts, no timeouts, all green
X network maintenance announced for Sunday
X 429 parcels delivered
X resource allocation for Q3 approved
X the timeout is 30 seconds by default
X memory card inserted
X validation of parking tickets at the desk
X permission to photograph was kindly given
X the rate of inflation exceeded forecasts
X the gateway drug debate
X Conflict resolution workshop on Tuesday
"""  # noqa: E501
