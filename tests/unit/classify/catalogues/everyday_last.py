"""The last rounds of what people on call saw, written before any was tried."""

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

SIXTH_ROUND = r"""
N httpx.ConnectError: [Errno 111] Connection refused
N Export aborted: the FTP server did not respond to PASV
N Timeout while waiting for the approval service
N Could not fetch exchange rates: connection timed out
N redis.exceptions.ConnectionError: Error while reading from socket
N The load balancer returned 504
N TLS: server certificate has expired
N lost connection to worker during result transfer
N hostname 'dwh' not known
N No heartbeat from agent 12 for 5 minutes
N request aborted after 30 s without an answer
N Broker transport failure
N elastic_transport.ConnectionTimeout: Connection timed out
N cannot reach Jira
N psycopg.OperationalError: the connection is closed
N SFTP session was terminated by the remote side
N the read replica is unreachable
N webhook endpoint refused the connection
N Query exceeded the maximum run time of 300 s
N Unexpected EOF from server
T Service busy, retry in 5 s
T 429 from Notion
T The warehouse is suspended for maintenance
T Write conflict on document 77
T Too many requests: slow down
T database system is shutting down
T rate limited by upstream
T Deadlock found when updating ledger
T the partition is being moved to another broker
T node not ready
T quorum not available
T Another migration is in progress
T Temporary failure, please retry
T HTTP 500 while calling the pricing service
T internal server error
T lock on table orders could not be acquired
T service restarting
T job evicted because a job with higher priority arrived
T Model overloaded
T replica is catching up, reads are refused
R Not enough memory to build the index
R No space left on the device
R Kafka: disk full on broker 3
R user quota exceeded on /home
R process ran out of file descriptors
R Out of GPU memory
R too many connections to database
R container memory limit reached
R account has no credits left
R maximum number of jobs in queue reached
R thread limit reached
R node has insufficient cpu
R buffer exhausted
R Lambda storage limit exceeded
R daily quota reached
R all connections in the pool are in use
R failed to allocate 2 GB
R killed: out of memory
R storage full
R max clients reached
P invalid API token
P User etl lacks permission to run jobs
P access to project denied
P authentication required
P password expired
P 401 from GitHub
P token rejected by gateway
P not authorized to read bucket raw
P the role has no access to this schema
P permission denied: /srv/out
P login expired, please sign in
P signature invalid
P account disabled
P client certificate missing: access denied
P insufficient rights to delete table
P scope 'admin' required
P only admins may run this
P your session timed out, log in again
P write-protected file system
P credentials not found
V invalid JSON in request body
V missing required column 'id'
V value must be positive
V cannot convert None to int
V date format not recognised
V duplicate primary key 7
V row 4 has 3 fields instead of 5
V unknown column 'ownr'
V email address invalid
V schema mismatch in column price
V payload too large
V file is not a valid parquet file
V expected string, got int
V end date before start date
V enum has no value 'paused'
V unsupported file format .xls
V string too long for column name
V parse error at line 9
V negative amount
V argument 'repo' missing
X unknown error
X workflow crashed
X no such file: in.csv
X module 'utils' not found
X step returned exit code 1
X record 77 not found
X list index out of range
X the pipeline was deleted
X all connections healthy
X 0 timeouts today
X timeouts reduced by half
X memory usage stable
X permission slips collected
X the valid range is 1 to 10
X retrying is disabled in this queue
X we validated 500 rows
X INFO 12 rows rejected as expected
X connection string rotated
X disk encryption enabled
X quota doubled
X network team lunch
X login successful
X rate limits explained
X expired milk thrown away
X locked doors keep us safe
X timeout lounge opened
X key account manager hired
"""

SEVENTH_ROUND = r"""
N SSH tunnel to the bastion collapsed
N cannot talk to the message bus
N the TLS session was torn down early
N ntp server gave no reply
N the stream from the exchange broke off
N DNS server is not answering
N call to tax-service exceeded its deadline
N network glitch while saving the report
N our egress proxy dropped the request
N connection attempt to ledger failed after 3 tries
N HTTP client: response headers not received within 20 s
N telnet: no route
N the socket was closed before the answer came
N waiting for the lock service timed out
T the bank is closed for maintenance, try tomorrow
T rate limiter rejected the call
T table is locked for an index rebuild
T the API is overloaded at the moment
T broker answered: not the leader for jobs-3
T upstream 5xx, retrying is advised
T service is coming up
T commit conflicts with a concurrent change
T the batch window is not open yet
T burst limit hit on gateway
T temporary outage of the mail relay
T could not lock row 77
T failing over to the standby database
T kernel returned EAGAIN
T shard 3 has no active primary
R ran out of heap while sorting
R node has no free memory
R the upload volume is full
R tmpfs exhausted
R licence server: all floating licences used
R monthly token budget exceeded
R too many files open
R process table full
R index build needs more disk than available
R worker hit its memory ceiling
R database reached its maximum size
R pod evicted: disk pressure
R Could not reserve 8 GB
R no IP addresses left in subnet
P user has no rights on folder /finance
P missing IAM permission s3:GetObject
P the certificate user is not trusted for this API: access denied
P wrong API key
P admin approval required by an administrator
P cannot assume role deploy: access denied
P JWT signature check failed
P refresh token revoked
P bot is not a member of the channel
P authentication with the LDAP server failed: invalid credentials
P Please sign in to view this dataset
P the key vault refused access
P directory is not writable by user etl
P caller identity could not be verified
V 'amount' must not be empty
V could not interpret '12,5' as float
V file has an invalid header
V JSON schema violation at /items/0
V the column price contains text
V quantity below minimum of 1
V malformed e-mail address
V customer id has the wrong length
V cannot map value 'X' to an enum
V XML parser: unclosed tag
V start time is later than end time
V unsupported encoding utf-99
V template variable customer is missing
V too many decimals in price
X sweep failed for unknown reasons
X step 'load' raised an exception
X file in.csv not found
X no handler for 'sweep'
X the job ended with code 4
X the report was removed
X lock smith called
X service with a smile
X 200 OK
X retries: 0
X timeouts are rare
X parse results look fine
X connection fee waived
X host of the party
X memory of an elephant
X INFO 3 pods ready
X limit your coffee
X password manager installed
X schema documentation published
"""
