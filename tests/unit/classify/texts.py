"""Error texts as real systems write them, and sentences that only look like errors, each with its category."""

from __future__ import annotations

TRANSIENT = """
HTTP 429 Too Many Requests
429 Client Error: Too Many Requests for url: https://api.github.com/search/code?q=timeout
503 Server Error: Service Unavailable for url: https://api.example.com/v1/permission/denied
Server error '500 Internal Server Error' for url 'https://api.example.com/jobs'
Error code: 429 - {'error': {'message': 'Rate limit reached for gpt-4 in organization org-x on tokens per min. Please try again in 1.2s.', 'type': 'tokens'}}
An error occurred (ThrottlingException) when calling the PutItem operation (reached max retries: 4): Rate exceeded
An error occurred (SlowDown) when calling the PutObject operation: Please reduce your request rate.
An error occurred (ProvisionedThroughputExceededException) when calling the GetItem operation: The level of configured provisioned throughput for the table was exceeded.
botocore.exceptions.ClientError: An error occurred (RequestLimitExceeded) when calling the DescribeInstances operation: Request limit exceeded.
You have exceeded a secondary rate limit. Please wait a few minutes before you try again.
API rate limit exceeded for 203.0.113.7. (But here's the good news: Authenticated requests get a higher rate limit.)
deadlock detected\\nDETAIL:  Process 18293 waits for ShareLock on transaction 3271; blocked by process 18291.
ERROR 1213 (40001): Deadlock found when trying to get lock; try restarting transaction
(pymysql.err.OperationalError) (1205, 'Lock wait timeout exceeded; try restarting transaction')
could not serialize access due to concurrent update
database is locked
sqlite3.OperationalError: database table is locked: jobs
FATAL:  the database system is starting up
FATAL: the database system is in recovery mode
terminating connection due to administrator command
LOADING Redis is loading the dataset in memory
BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.
CLUSTERDOWN The cluster is down
READONLY You can't write against a read only replica.
TRYAGAIN Multiple keys request during rehashing of slot
es_rejected_execution_exception: rejected execution of coordinating operation, please retry later
version_conflict_engine_exception: [7]: version conflict, required seqNo [3], primary term [1]
NotLeaderForPartitionError: This server is not the leader for that topic-partition
rpc error: code = Unavailable desc = transport is closing
StatusCode.ABORTED: Transaction was aborted, retry it
<html><head><title>502 Bad Gateway</title></head><body><center><h1>502 Bad Gateway</h1></center></body></html>
503 Service Temporarily Unavailable
The service is temporarily unavailable. Try again later.
Service is currently undergoing scheduled maintenance
{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}
The model is currently overloaded with other requests
Circuit breaker 'billing' is open
server is busy, please retry
fatal: Unable to create '/repo/.git/index.lock': File exists. index.lock is held by another git process
Internal server error
no healthy upstream
OperationalError: (_mysql_exceptions.OperationalError) WSREP has not yet prepared node: server is shutting down
Temporary server error, come back later
etcdserver: leader changed: no leader
Operation cannot be fulfilled on deployments.apps "web": the object has been modified by another client; please apply your changes to the latest version and try again
Transaction (Process ID 62) was deadlocked on lock resources with another process and has been chosen as the deadlock victim. Rerun the transaction.
ORA-00054: resource busy and acquire with NOWAIT specified
[Errno 11] Resource temporarily unavailable
Upstream returned 503
Slow down! You are being throttled
"""  # noqa: E501

NETWORK = """
Connection timeout
connection timed out
Connection refused
[Errno 111] Connection refused
[Errno 104] Connection reset by peer
('Connection aborted.', RemoteDisconnected('Remote end closed connection without response'))
HTTPSConnectionPool(host='api.example.com', port=443): Max retries exceeded with url: /v1 (Caused by NewConnectionError('<urllib3.connection.HTTPSConnection object at 0x7f2b>: Failed to establish a new connection: [Errno -2] Name or service not known'))
HTTPSConnectionPool(host='api.example.com', port=443): Read timed out. (read timeout=30)
HTTPSConnectionPool(host='x.io', port=443): Max retries exceeded with url: / (Caused by SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get local issuer certificate (_ssl.c:1006)')))
ssl.SSLError: [SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1129)
x509: certificate signed by unknown authority
SSL handshake failed
[Errno -3] Temporary failure in name resolution
getaddrinfo ENOTFOUND registry.example
curl: (6) Could not resolve host: github.com
curl: (7) Failed to connect to localhost port 9200: Connection refused
curl: (28) Operation timed out after 30001 milliseconds with 0 bytes received
fatal: unable to access 'https://github.com/acme/repo.git/': Could not resolve host: github.com
ssh: connect to host git.example.com port 22: Connection timed out
kex_exchange_identification: Connection closed by remote host
dial tcp 10.0.3.7:5432: connect: connection refused
dial tcp: lookup api.internal on 10.0.0.2:53: no such host
read tcp 10.0.0.1:443->10.0.0.2:52344: i/o timeout
context deadline exceeded (Client.Timeout exceeded while awaiting headers)
rpc error: code = DeadlineExceeded desc = stream terminated
net/http: TLS handshake timeout
java.net.SocketTimeoutException: Read timed out
java.net.UnknownHostException: db.prod.internal
java.net.ConnectException: Connection refused (Connection refused)
javax.net.ssl.SSLHandshakeException: PKIX path building failed
Error: connect ECONNREFUSED 127.0.0.1:6379
Error: socket hang up
Error: read ECONNRESET
Error: ETIMEDOUT
net::ERR_CONNECTION_CLOSED
TypeError [NetworkError]: network error when attempting to fetch the resource
2013 (HY000): Lost connection to MySQL server during query
MySQL server has gone away
could not connect to server: Connection refused. Is the server running on host "db" and accepting TCP/IP connections on port 5432?
server closed the connection unexpectedly. This probably means the server terminated abnormally before or while processing the request.
psycopg2.OperationalError: could not translate host name "db" to address: Name or service not known
canceling statement due to statement timeout
SSL connection has been closed unexpectedly
Error 110 connecting to redis:6379. Connection timed out.
Error while reading from socket: (104, 'Connection reset by peer')
NoBrokersAvailable
KafkaTimeoutError: Failed to update metadata after 60.0 secs.
pymongo.errors.ServerSelectionTimeoutError: mongo:27017: [Errno 111] Connection refused, Timeout: 30s
No route to host
Network is unreachable
[Errno 32] Broken pipe
EOF occurred in violation of protocol (_ssl.c:2396)
Server disconnected without sending a response.
peer closed connection without sending complete message body (incomplete chunked read)
All connection attempts failed
504 Gateway Timeout
upstream request timeout
upstream connect error or disconnect/reset before headers. reset reason: connection termination
Cannot connect to host api.example.com:443 ssl:default [Connect call failed ('203.0.113.9', 443)]
Cannot connect to proxy
The operation timed out
Task timed out after 3.00 seconds
Request timed out.
timeout
timed out
TimeoutError
asyncio.exceptions.TimeoutError
the host did not respond in time
Could not reach the license server at 10.1.1.1
[WinError 10061] No connection could be made because the target machine actively refused it
A connection attempt failed because the connected party did not properly respond after a period of time
ORA-12541: TNS:no listener: connection refused
websocket: close 1006 (abnormal closure): unexpected EOF
RPC failed; curl 56 GnuTLS recv error (-54): Error in the pull function. fatal: early EOF
"""  # noqa: E501

RESOURCE = """
[Errno 28] No space left on device
OSError: [Errno 28] No space left on device: '/var/lib/data/segment'
write /var/lib/docker/tmp/x: no space left on device
Cannot allocate memory
[Errno 12] Cannot allocate memory
MemoryError
numpy.core._exceptions._ArrayMemoryError: Unable to allocate 29.8 GiB for an array with shape (4000000000,) and data type float64
java.lang.OutOfMemoryError: Java heap space
java.lang.OutOfMemoryError: GC overhead limit exceeded
FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory
torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB
RuntimeError: CUDA out of memory. Tried to allocate 512.00 MiB (GPU 0; 15.78 GiB total capacity)
Container killed: OOMKilled
Command terminated with exit code 137
Out of memory: Killed process 4242 (python)
OOM command not allowed when used memory > 'maxmemory'.
MISCONF Redis is configured to save RDB snapshots, but it is currently not able to persist on disk.
Too many open files
[Errno 24] Too many open files: '/tmp/x'
accept: EMFILE, too many open files
can't start new thread
fork: Resource temporarily unavailable: cannot fork
unable to create native thread: possibly out of memory or process/resource limits reached
Disk quota exceeded
disk is full
The disk is full. Free some space and restart.
Not enough disk space to complete the operation
No space left in volume group
Quota exceeded for quota metric 'Queries' and limit 'Queries per day' of service 'bigquery'
You exceeded your current quota, please check your plan and billing details.
insufficient_quota
Storage quota has been exceeded
FATAL:  sorry, too many clients already
FATAL: remaining connection slots are reserved for non-replication superuser connections
ERROR 1040 (HY000): Too many connections
could not write block 41 of relation base/16384/2601: No space left on device
ERROR: out of memory DETAIL: Failed on request of size 1073741824.
ERROR: could not extend file "base/1/2": No space left on device HINT: Check free disk space.
ORA-01653: unable to extend table: tablespace USERS is full
ConnectionPool exhausted: no connection available after 30 waits, pool exhausted
circuit_breaking_exception: [parent] Data too large, data for [<http_request>] would be larger than the limit: out of memory protection
disk usage exceeded flood-stage watermark, index has read-only-allow-delete block
this action would add [2] total shards, but this cluster currently has [1000]/[1000] maximum normal shards open
rpc error: code = ResourceExhausted desc = grpc: received message larger than max
0/3 nodes are available: 3 Insufficient memory.
0/5 nodes are available: 5 Insufficient cpu.
The node was low on resource: ephemeral-storage.
An error occurred (InsufficientInstanceCapacity) when calling the RunInstances operation: We currently do not have sufficient capacity
An error occurred (ServiceQuotaExceededException) when calling the CreateFunction operation
507 Insufficient Storage
HTTP error 507
No buffer space available
mailbox is full
The memory limit of 512 MB was exceeded
Exceeded soft private memory limit of 256 MB with 260 MB
Worker exceeded 95% memory budget. Restarting: memory limit exceeded
Your credit balance is too low to access the API
ENOSPC: no space left on device, write
ENOMEM
Resource exhausted: OOM when allocating tensor
"""  # noqa: E501

PERMISSION = """
[Errno 13] Permission denied: '/etc/shadow'
PermissionError: [Errno 13] Permission denied: '/data/timeout.log'
Permission denied (publickey).
git@github.com: Permission denied (publickey). fatal: Could not read from remote repository.
permission denied for table users
permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock
must be owner of table jobs
FATAL:  password authentication failed for user "app"
connection to server at "db" (10.0.0.3), port 5432 failed: FATAL:  password authentication failed for user "app"
FATAL: no pg_hba.conf entry for host "10.0.0.9", user "app", database "prod", no encryption
ERROR 1045 (28000): Access denied for user 'root'@'localhost' (using password: YES)
ORA-01017: invalid username/password; logon denied
NOAUTH Authentication required.
WRONGPASS invalid username-password pair or user is disabled.
NOPERM this user has no permissions to run the 'flushall' command
401 Client Error: Unauthorized for url: https://api.example.com/v1/me
HTTP 401
HTTP/1.1 403 Forbidden
403 Forbidden
{"message":"Bad credentials","documentation_url":"https://docs.github.com/rest","status":"401"}
{"error": "invalid_grant", "error_description": "Token has been expired or revoked."}
Unauthorized
Forbidden
Access denied
Access is denied.
Access to the path 'C:\\\\Windows\\\\System32' is denied.
[WinError 5] Access is denied
AccessDenied: User: arn:aws:iam::123:user/bob is not authorized to perform: s3:GetObject on resource: arn:aws:s3:::x
An error occurred (AccessDeniedException) when calling the Invoke operation: User is not authorized
An error occurred (UnauthorizedOperation) when calling the RunInstances operation: You are not authorized to perform this operation.
An error occurred (ExpiredToken) when calling the ListBuckets operation: The security token included in the request is expired
An error occurred (InvalidClientTokenId) when calling the GetCallerIdentity operation: The security token included in the request is invalid.
An error occurred (SignatureDoesNotMatch) when calling the ListObjects operation: The request signature we calculated does not match the signature you provided.
Unable to locate credentials
NoCredentialsError: Unable to locate credentials
google.auth.exceptions.DefaultCredentialsError: Could not automatically determine credentials.
Incorrect API key provided: sk-abc***. You can find your API key at https://platform.openai.com
invalid api key
Invalid authentication credentials
Authentication failed for 'https://github.com/acme/private.git/'
remote: Invalid username or password.
rpc error: code = PermissionDenied desc = caller lacks permission
rpc error: code = Unauthenticated desc = missing token
pods is forbidden: User "system:serviceaccount:ci:default" cannot list resource "pods" in API group "" in the namespace "prod"
denied: requested access to the resource is denied
The user does not have permission to access this repository
Insufficient privileges to complete the operation.
insufficient_scope: the token lacks the repo scope
Operation not permitted
[Errno 1] Operation not permitted
[Errno 30] Read-only file system: '/srv'
Login failed for user 'sa'.
Signature has expired
jwt.exceptions.ExpiredSignatureError: Signature has expired
Your session has expired, please log in again
Host key verification failed.
CSRF verification failed. Request aborted.
Connection refused by policy
only superuser can do that: must be superuser
This account has been suspended
"""  # noqa: E501

VALIDATION = """
ValueError: invalid literal for int() with base 10: 'timeout'
ValueError: could not convert string to float: 'connection refused'
KeyError: 'permission'
TypeError: unsupported operand type(s) for +: 'int' and 'str'
TypeError: run() missing 1 required positional argument: 'timeout'
TypeError: sweep() got an unexpected keyword argument 'retry'
1 validation error for Order\\nquantity\\n  Input should be greater than 0 [type=greater_than, input_value=-1, input_type=int]
2 validation errors for Settings
ValidationError: 'timeout' is a required property
jsonschema.exceptions.ValidationError: 'abc' is not of type 'integer'
Additional properties are not allowed ('extra' was unexpected)
marshmallow.exceptions.ValidationError: {'email': ['Not a valid email address.']}
django.core.exceptions.ValidationError: ['Enter a valid date.']
400 Bad Request
HTTP 400: missing parameter 'repo'
422 Unprocessable Entity
Client error '422 Unprocessable Entity' for url 'https://api.example.com/orders'
HTTP 413 Request Entity Too Large
415 Unsupported Media Type
Expecting value: line 1 column 1 (char 0)
json.decoder.JSONDecodeError: Extra data: line 2 column 1 (char 5)
SyntaxError: Unexpected token < in JSON at position 0
Unexpected end of JSON input
json: cannot unmarshal string into Go struct field Job.timeout of type int
yaml.scanner.ScannerError: mapping values are not allowed here
could not parse the manifest: unterminated string at line 3
XML syntax error on line 4: element <a> closed by </b>
UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte
duplicate key value violates unique constraint "users_pkey"
null value in column "email" of relation "users" violates not-null constraint
insert or update on table "orders" violates foreign key constraint "orders_user_fk"
(1062, "Duplicate entry 'a@b.c' for key 'email'")
UNIQUE constraint failed: users.email
NOT NULL constraint failed: jobs.name
E11000 duplicate key error collection: app.users index: email_1 dup key
syntax error at or near "FORM"
You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version
no such column: tiemout
column "foo" does not exist
value too long for type character varying(20)
invalid input syntax for type integer: "abc"
mapper_parsing_exception: failed to parse field [age] of type [integer]
illegal_argument_exception: Limit of total fields [1000] has been exceeded
WRONGTYPE Operation against a key holding the wrong kind of value
An error occurred (ValidationException) when calling the PutItem operation: One or more parameter values were invalid
An error occurred (InvalidParameterValue) when calling the RunInstances operation: Invalid value 't9.huge' for InstanceType.
Parameter validation failed: Missing required parameter in input: "Bucket"
rpc error: code = InvalidArgument desc = name must not be empty
The field 'name' is required
repo is a required field
timeout must be a positive integer
Invalid email address
Invalid URL 'foo': No scheme supplied. Perhaps you meant https://foo?
malformed payload
The request was malformed or contained invalid parameters
Unsupported file type: .exe
date out of range
Value error, end date must be after start date
This model's maximum context length is 8192 tokens. However, your messages resulted in 10000 tokens.
shapes (3,4) and (5,6) not aligned: 4 (dim 1) != 5 (dim 0)
File is not a zip file
expected str, bytes or os.PathLike object, not NoneType
Schema mismatch: expected 4 columns but got 5
unknown field "replcas" in spec
"""  # noqa: E501

PERMANENT = """
404 Client Error: Not Found for url: https://api.example.com/v1/users/42
HTTP 404
410 Gone
[Errno 2] No such file or directory: '/data/network/error.log'
FileNotFoundError: [Errno 2] No such file or directory: 'timeout.csv'
ModuleNotFoundError: No module named 'ssl_connection_error'
An error occurred (NoSuchKey) when calling the GetObject operation: The specified key does not exist.
rpc error: code = NotFound desc = bucket not found
index_not_found_exception: no such index [logs-2024]
NotImplementedError: retry is not implemented
AttributeError: 'NoneType' object has no attribute 'connection'
NameError: name 'timeout' is not defined
ZeroDivisionError: division by zero
IndexError: list index out of range in connection table
AssertionError
boom
something went wrong
Unknown error
failed
error
Error: 42
exit status 1
Command failed with exit code 1
RecursionError: maximum recursion depth exceeded while calling a Python object
repository not found
"""

# What a rule that looks for words instead of meaning gets wrong. Nobody can say what failed here, if anything did.
FALSE_FRIENDS = """
unlimited memory of colours
permission granted
invalid cache refreshed successfully
timeouts: 0 errors
validated OK
network team
temporary table dropped
404 items processed
503 rows imported
Imported 429 records
order 503 shipped
Processed 500 files in 12 seconds
the network team will call you
The memory of that summer stayed with her
memory usage is normal
Disk Jockey of the year
disk usage at 40%
quota report generated
monthly quota reset to 500
timeout set to 30 seconds
timeout=30
connect timeout: 30s
read_timeout=10 connect_timeout=5
rate limit updated to 500 per minute
rate limit: 5000 per hour
heart rate limit exceeded
connection established
connection pool resized to 20
connection restored after 3 minutes
Connection to the past: an exhibition
no timeouts occurred
no connection errors
0 validation errors
validation passed
validation errors: 0
without any network problems
not a permission problem
Recovered from connection reset
retry after timeout succeeded
resolved the permission denied issue
permission slip signed
access granted to all users
user was granted access
SSL certificate renewed
certificate installed
the server room is booked
busy bees make honey
the busy season begins in May
temporary employees were hired
temporary file created
permanent residents registered
authorized dealers list updated
unauthorized biography published in June
Forbidden City tour booked
valid until 2030
valid input received, 12 rows written
invalidated 12 cache entries
how to fix permission denied errors
To avoid rate limit exceeded errors use a queue
If you see a connection timeout, restart the router
released 2 locks
lock screen enabled
denial letter printed
the resource page was updated
resources: 4 cpu, 8 GB memory
out of the box experience
out of office until Monday
space exploration budget approved
parking space assigned
connection speed is 100 Mbit/s
socket wrench delivered
host family found
the proxy vote was counted
DNS records updated
dns cache warmed up in 20 ms
token count: 503
Job 401 finished in 12 s
line 403 covered by tests
exported 507 invoices
Verbindung erfolgreich hergestellt
Zugriff gewährt
Speicher ausreichend
tiempo de espera: 30 segundos
la connexion est rétablie
接続が完了しました
время ожидания 30 секунд
full moon tonight
the queue is 12 long
queue length 503
deadline extended to Friday
the deadline is on Friday
throttle valve opened
schema migrated to version 12
format C selected
parsed 500 lines
parser generated
the missing piece of the puzzle
unexpected guests arrived
duplicate files removed
exists in both tables
all services are healthy
service available again since 12:00
the breaker panel was painted
maintenance contract signed
maintenance window closed, everything is back online
the leader gave a speech
retry count: 3
"""

TEXTS: tuple[tuple[str, str], ...] = tuple(
    (category, line.replace("\\n", "\n").replace("\\\\", "\\"))
    for category, lines in (
        ("transient", TRANSIENT),
        ("network", NETWORK),
        ("resource", RESOURCE),
        ("permission", PERMISSION),
        ("validation", VALIDATION),
        ("permanent", PERMANENT),
        ("permanent", FALSE_FRIENDS),
    )
    for line in lines.strip().splitlines()
    if line
)
