"""Error texts that were written without a look at the rules, in four rounds, to see how well the rules generalise.

Before anything was changed for them the rounds were read with 14, 3, 5 and 3 of a hundred wrong, nearly always by
knowing nothing. What was systematic about that was then put right, so they are no surprise to the rules any more.
"""

from __future__ import annotations

TRANSIENT = r"""
Error 1015: You are being rate limited (Cloudflare)
slack_sdk.errors.SlackApiError: The request to the Slack API failed. The server responded with: {'ok': False, 'error': 'ratelimited'}
googleapiclient.errors.HttpError: <HttpError 429 when requesting https://sheets.googleapis.com/v4 returned "Resource has been exhausted (e.g. check quota).">
Twilio: Unable to create record: Too Many Requests
REQUEST_LIMIT_EXCEEDED: TotalRequests Limit exceeded.
snowflake.connector.errors.OperationalError: 250001: 503: Service Unavailable
google.api_core.exceptions.ServiceUnavailable: 503 The datastore operation timed out, or the data was temporarily unavailable.
anthropic.InternalServerError: Error code: 529 - {'type': 'error', 'error': {'type': 'overloaded_error', 'message': 'Overloaded'}}
The server had an error while processing your request. Sorry about that! You can retry your request
Server is too busy. Please try again later.
Cassandra: Unavailable exception: Cannot achieve consistency level QUORUM
amqp: Exception (320) Reason: "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
NATS: no responders available for request, server is restarting
The operation was aborted because a conflicting operation is in progress; please retry
Error from server (ServiceUnavailable): the server is currently unable to handle the request
Error acquiring the state lock: ConditionalCheckFailedException
npm ERR! code E503 npm ERR! 503 Service Unavailable - GET https://registry.example/left-pad
421 4.7.0 Try again later, closing connection.
451 4.3.0 Temporary lookup failure
System.Data.SqlClient.SqlException: Transaction was deadlocked on lock resources with another process
org.springframework.dao.CannotAcquireLockException: could not execute statement
Salesforce: UNABLE_TO_LOCK_ROW unable to obtain exclusive access to this record
Received response with status 500
request failed with status code 502
unexpected status code: 503
Backend is in maintenance mode
shard is not available, primary shard is initializing
Kafka: LEADER_NOT_AVAILABLE
The remote server returned an error: (503) Server Unavailable.
Exceeded rate limit: 60 requests per minute
Service temporarily unavailable
Rate limit exceeded, retry after 30 seconds
Too Many Requests
The server is overloaded, please try again later
Throttled by upstream API
HTTP status 503
response status code: 502
Request failed with status code 429
Got 500 from payment provider
received 503 from https://inventory.internal/stock
status=503 body="try later"
Server responded with HTTP 500: Internal Server Error
Deadlock detected while updating balance
Could not obtain lock on row in relation "jobs"
Transaction conflict, please retry
database is busy
Broker is currently not available
Leader not available for partition 3
Worker pool is shutting down
Temporary error, please retry
Transient failure talking to S3
API quota: rate limit hit (60/min)
We're experiencing high load, slow down
Cloudflare: 520 Web server is returning an unknown error
gRPC error: UNAVAILABLE: upstream restarting
Service Unavailable
The system is under maintenance
Elasticsearch cluster is read-only while recovering: master not discovered
redis.exceptions.BusyLoadingError: Redis is loading the dataset in memory
ERROR 1205 (HY000): Lock wait timeout exceeded
{"error":{"code":429,"message":"Quota exceeded for aiplatform requests per minute","status":"RESOURCE_EXHAUSTED"}}
{"status": 503, "message": "Backend fetch failed"}
Error 503 Backend fetch failed - Varnish cache server
{'code': 'TooManyRequests', 'message': 'The request is being throttled.'}
Temporarily unable to process your request
Server shutdown in progress
could not serialize access due to read/write dependencies among transactions
ERROR: canceling statement due to conflict with recovery
The resource is locked by another process
Failed to acquire lock within 10 seconds
SQLITE_BUSY: database is locked
HTTPError: 500 Server Error: Internal Server Error for url: http://svc/x
unexpected response code 502 from upstream
API responded with 503
Dependency service is currently unavailable
Please slow down
request was rejected: server too busy
Kubernetes API: etcdserver: request timed out, possibly due to leader election
OptimisticLockException: row was updated by another transaction
ConcurrentModificationException
upstream service returned HTTP 503, retrying may help
Throttling: Rate exceeded
Request throttled, please wait
ThrottlingException: Too many requests
Received 429 from OpenAI
rate limiting in effect
The service is overloaded
Service is busy
Server temporarily overloaded
The database is in maintenance
database is starting up
Lock timeout
row lock contention: could not acquire lock
A deadlock occurred
cluster has no leader
temporarily out of service
temporary glitch in payment gateway
Retryable error: please try again in a few seconds
HTTP Error 500
error 502
The remote server returned an error: (500) Internal Server Error.
Endpoint request failed with status 503
429
503
resource is busy
worker restarting
"""  # noqa: E501

NETWORK = r"""
pip._vendor.urllib3.exceptions.ReadTimeoutError: HTTPSConnectionPool(host='files.pythonhosted.org', port=443): Read timed out.
WARNING: Retrying after connection broken by 'NewConnectionError'
npm ERR! network request to https://registry.example/x failed, reason: getaddrinfo EAI_AGAIN registry.example
cargo: failed to get 200 response, got timeout: spurious network error
Could not transfer artifact org.foo:bar:pom:1.0 from/to central: Connect to repo.maven.apache.org:443 failed: Connection timed out
Get "https://registry-1.docker.io/v2/": net/http: request canceled while waiting for connection (Client.Timeout exceeded while awaiting headers)
Unable to connect to the server: dial tcp 192.168.99.100:8443: i/o timeout
Unable to connect to the server: x509: certificate has expired or is not yet valid
error: RPC failed; HTTP 0 curl 18 transfer closed with outstanding read data remaining
fatal: the remote end hung up unexpectedly
System.Net.WebException: The remote name could not be resolved: 'api.foo.com'
System.Net.Sockets.SocketException: A connection attempt failed because the connected party did not properly respond
Unable to read data from the transport connection: An existing connection was forcibly closed by the remote host.
org.apache.http.NoHttpResponseException: api.foo.com:443 failed to respond
com.mysql.cj.jdbc.exceptions.CommunicationsException: Communications link failure
org.postgresql.util.PSQLException: The connection attempt failed.
MongoNetworkError: connection 5 to 10.0.0.2:27017 closed
MongooseServerSelectionError: connect ECONNREFUSED ::1:27017
Redis connection to localhost:6379 failed - connect ECONNREFUSED
redis.exceptions.ConnectionError: Connection closed by server.
pika.exceptions.StreamLostError: Stream connection lost: ConnectionResetError(104, 'Connection reset by peer')
LDAPSocketOpenError: unable to open socket
imaplib.abort: socket error: EOF
paramiko: Error reading SSH protocol banner
sftp: connection lost
smtplib.SMTPServerDisconnected: Connection unexpectedly closed
SSLError: HTTPSConnectionPool(host='x'): hostname 'x' doesn't match 'y'
ERR_CERT_DATE_INVALID: certificate expired
tls: failed to verify certificate: x509: certificate is valid for a.com, not b.com
requests.exceptions.ProxyError: Unable to connect to proxy, OSError('Tunnel connection failed: 503')
botocore.exceptions.EndpointConnectionError: Could not connect to the endpoint URL: "https://s3.eu-west-9.amazonaws.com/"
botocore.exceptions.ReadTimeoutError: Read timeout on endpoint URL: "https://lambda.us-east-1.amazonaws.com"
aiohttp.client_exceptions.ClientConnectorError: Cannot connect to host localhost:8000 ssl:default [Connect call failed ('127.0.0.1', 8000)]
httpx.ConnectError: [Errno -5] No address associated with hostname
playwright: Timeout 30000ms exceeded. navigating to "https://foo.com", waiting until "load"
selenium.common.exceptions.WebDriverException: Message: unknown error: net::ERR_INTERNET_DISCONNECTED
Task exceeded its deadline and was terminated: DEADLINE_EXCEEDED
The wait operation timed out
Query exceeded the maximum execution time: ETIMEDOUT
Lost connection to the server
Host 'db2' is down
Error: Client network socket disconnected before secure TLS connection was established
upstream prematurely closed connection while reading response header from upstream
recv() failed (104: Connection reset by peer)
Cannot reach the database server
VPN tunnel is down
Job for agent 7 did not respond within 60 seconds
Read timed out
Connect timeout on endpoint https://foo.bar
Request timeout after 30s
Connection reset by peer
Connection aborted
connection closed unexpectedly
The connection was closed by the server
Connection lost
Failed to establish a new connection
failed to connect to redis at cache:6379
Could not connect to database
Unable to reach host api.internal
unable to resolve hostname kafka-1
DNS lookup failed for api.acme.io
Name resolution failure
Network error: socket closed
network unreachable
Host unreachable
SSL error: certificate verify failed
TLS handshake failed: EOF
certificate has expired
self signed certificate in certificate chain
peer did not return a certificate: SSL alert
Timeout while waiting for response from worker
Operation timeout
Gateway Timeout
HTTP 504
Job exceeded its deadline of 60s
the request took too long to complete
No response from server
Server did not respond
server hung up
Broken pipe while writing to client
Socket timeout
websocket connection closed abnormally (1006)
AMQP connection closed: heartbeat missed
ftp: connect: no route to host
Lost connection to backend during query
proxy refused the connection
Network connection was interrupted
error: timeout
TimeoutError:
ConnectionError: ('Connection aborted.', ConnectionResetError(104, 'Connection reset by peer'))
aiohttp.client_exceptions.ServerDisconnectedError: Server disconnected
Traceback (most recent call last):\n  File "/app/x.py", line 3, in f\n    g()\nsocket.gaierror: [Errno -2] Name or service not known
Error: getaddrinfo EAI_AGAIN db
psycopg.OperationalError: connection timeout expired
SSLError(SSLEOFError(8, 'EOF occurred in violation of protocol (_ssl.c:2427)'))
MaxRetryError: HTTPSConnectionPool(host='x', port=443): Max retries exceeded with url: /
requests.exceptions.ConnectTimeout: HTTPConnectionPool(host='10.255.255.1', port=80)
urllib.error.URLError: <urlopen error [Errno 110] Connection timed out>
<urlopen error timed out>
ConnectionResetError: [WinError 10054] An existing connection was forcibly closed by the remote host
Server closed connection
Remote host closed the connection during handshake
Stream terminated by RST_STREAM with error code: CANCEL; connection reset
ECONNREFUSED
Failed to connect
Couldn't connect to host, port: smtp.acme.io, 25
Workflow step timed out after 300s
Adapter llamaindex timed out
Timed out waiting for lock server response
celery.exceptions.SoftTimeLimitExceeded: SoftTimeLimitExceeded()
Timeout reached
The request timed out while contacting the vector store
Operation exceeded time limit
failed to ping database: connection refused
tunnel to bastion lost
the network cable was unplugged: network is down
client disconnected before response was sent
Connection to database lost
Database connection failed
connection error
Connection timed out after 10 seconds
Connection terminated unexpectedly
could not connect to rabbitmq
Can't reach elasticsearch at localhost:9200
network failure
network is down
Network timeout
DNS error
DNS resolution failed for foo.bar
Temporary failure in name resolution
hostname could not be resolved
SSL certificate problem: self signed certificate
SSL: CERTIFICATE_VERIFY_FAILED
TLS error
certificate verification failed
timed out waiting for reply
Timeout error
timeout exceeded
Timeout of 5000ms exceeded
ReadTimeout
ConnectTimeoutError
deadline exceeded
DEADLINE_EXCEEDED
host not reachable
server unreachable
Server not responding
socket error
Broken pipe
EOF error: unexpected end of stream
remote disconnected
Remote end closed connection
[Errno 113] No route to host
request to upstream timed out
HTTP 408 Request Timeout
subprocess timed out after 60 seconds
gateway timeout
I/O timeout
"""  # noqa: E501

RESOURCE = r"""
Killed process 1234 (python3) total-vm:8123456kB: Out of memory
docker: Error response from daemon: no space left on device
failed to register layer: Error processing tar file(exit status 1): write /foo: no space left on device
ERROR: failed to solve: ResourceExhausted: cannot allocate memory
Back-off restarting failed container: last state OOMKilled (exit code 137)
pod ephemeral local storage usage exceeds the total limit of containers 1Gi
FailedScheduling: 0/4 nodes are available: 4 Insufficient nvidia.com/gpu
exceeded quota: compute-resources, requested: limits.memory=2Gi, used: limits.memory=7Gi, limited: limits.memory=8Gi
google.api_core.exceptions.Forbidden: Quota exceeded: Your table exceeded quota for imports
googleapi: Error 403: Quota 'CPUS' exceeded. Limit: 24.0 in region europe-west1.
You have reached your monthly usage limit
Snowflake: Warehouse 'WH' cannot be resumed because resource monitor 'M' has exceeded its quota
Spark: Container killed by YARN for exceeding memory limits. 5.5 GB of 5.5 GB physical memory used
java.lang.OutOfMemoryError: unable to create new native thread
java.lang.OutOfMemoryError: Metaspace
EMFILE: too many open files, open '/tmp/foo'
System.OutOfMemoryException: Insufficient memory to continue the execution of the program.
System.IO.IOException: There is not enough space on the disk.
HikariPool-1 - Connection is not available, request timed out after 30000ms: pool exhausted
Allowed memory size of 134217728 bytes exhausted (tried to allocate 20480 bytes)
RuntimeError: DataLoader worker (pid 42) is killed by signal: Killed. out of shared memory
mysqldump: Got errno 28 on write: No space left on device
MySQL error 1114: The table 'sessions' is full
Mailbox quota exceeded
452 4.2.2 The email account that you tried to reach is over quota
S3: Not enough free disk space on node
You've run out of build minutes
all connections in the pool are in use: too many connections
inotify watch limit reached: no space left on device
lambda: Runtime exited with error: signal: killed
Out of memory
Cannot allocate 4096 bytes
not enough memory to run model
Memory limit exceeded (512MB)
Process was OOM killed
Disk full
No space left on device
Insufficient disk space: 2GB required, 100MB free
Storage quota exceeded for project acme
quota exhausted for today
Daily quota exceeded
GPU memory exhausted
Too many open files in system
thread pool exhausted
Connection pool exhausted
max connections reached
CPU quota exceeded
Insufficient capacity in zone eu-1a
resource limits exceeded
Resource exhausted
not enough resources to schedule pod
file system is full
swap space exhausted
MemoryError: Unable to allocate 3.2 GiB
OSError: [Errno 28] No space left on device
The worker ran out of memory and was restarted
HTTP 507 Insufficient Storage
write failed: disk quota exceeded
heap limit reached
Queue is full
RuntimeError: CUDA error: out of memory
[Errno 122] Disk quota exceeded
OSError: [Errno 23] Too many open files in system
E: You don't have enough free space in /var/cache/apt/archives/.
pg_dump: error: could not write to file: No space left on device
BigQuery: Resources exceeded during query execution
Lambda: memory size: 128 MB Max memory used: 128 MB out of memory
std::bad_alloc
subscription has run out of credits
Maximum number of running containers reached
the connection pool is exhausted
ulimit: too many open file descriptors
Storage full
tmpfs is full
out of disk space
Disk space low: not enough space to write file
insufficient memory
memory exhausted
memory allocation failed
OutOfMemoryError
OOM
Process killed: out of memory
quota limit exceeded
Quota has been exceeded
API quota exhausted
user quota exceeded
storage limit reached
Storage capacity exceeded
no free disk space
cannot fork: resource limits
file descriptor limit reached
Too many files open
connection limit reached
CPU limit exceeded
resource quota exceeded
RESOURCE_EXHAUSTED
cannot allocate resources
[Errno 24] Too many open files
"""

PERMISSION = r"""
pip: ERROR: Could not install packages due to an OSError: [Errno 13] Permission denied: '/usr/lib/python3'
npm ERR! code E401 npm ERR! Unable to authenticate, your authentication token seems to be invalid.
npm ERR! 403 403 Forbidden - PUT https://registry.example/foo - You do not have permission to publish "foo"
Error response from daemon: pull access denied for foo, repository does not exist or may require 'docker login'
remote: Permission to acme/repo.git denied to bob.
fatal: Authentication failed for 'https://gitlab.com/x.git/'
ERROR: Repository not accessible: you need to be authenticated
Error from server (Forbidden): deployments.apps is forbidden: User "bob" cannot create resource
You must be logged in to the server (Unauthorized)
az: The client 'x' with object id 'y' does not have authorization to perform action 'Microsoft.Compute/write'
AADSTS7000215: Invalid client secret provided.
AuthorizationPermissionMismatch: This request is not authorized to perform this operation using this permission.
AuthenticationFailed: Server failed to authenticate the request.
botocore.exceptions.ClientError: An error occurred (403) when calling the HeadObject operation: Forbidden
The AWS Access Key Id you provided does not exist in our records.
google.auth.exceptions.RefreshError: ('invalid_grant: Bad Request', {'error': 'invalid_grant'})
Snowflake: Insufficient privileges to operate on schema 'PUBLIC'
psycopg2.errors.InsufficientPrivilege: permission denied for schema public
pymongo.errors.OperationFailure: Authentication failed., full error: {'ok': 0.0, 'code': 18, 'codeName': 'AuthenticationFailed'}
org.elasticsearch.ElasticsearchSecurityException: missing authentication credentials for REST request
ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN.
535 5.7.8 Username and Password not accepted.
530 Login incorrect.
LDAPInvalidCredentialsResult: invalidCredentials
paramiko.ssh_exception.AuthenticationException: Authentication failed.
stripe.error.AuthenticationError: Invalid API Key provided: sk_test_****
slack: {'ok': False, 'error': 'not_authed'}
missing_scope: chat:write
Missing or invalid bearer token
The access token expired
sudo: a password is required
You don't have permission to access /admin on this server.
Permission denied
Access denied for user bob
access to resource forbidden
You are not allowed to delete this repository
User is not authorized to perform this action
401 Unauthorized
HTTP 403
Forbidden: missing scope repo
Invalid credentials
Authentication failed
authentication required
Login failed: wrong password
Token expired
invalid token
API key is invalid
API key missing
Your account has been disabled
insufficient permissions to write to bucket
Insufficient rights
operation not permitted
unauthorized
Bad credentials
Not authenticated
read-only file system
Client does not have permission to publish to topic
signature verification failed
JWT has expired
User lacks privilege CREATE TABLE
Access forbidden by security policy
git push rejected: you don't have write access
PermissionError(13, 'Permission denied')
sqlalchemy.exc.ProgrammingError: (psycopg.errors.InsufficientPrivilege) permission denied for table x
User 'x' doesn't have permission to run workflow
{"error":"access_denied","error_description":"The resource owner denied the request"}
{"detail":"Authentication credentials were not provided."}
{"detail":"You do not have permission to perform this action."}
{"message":"Forbidden"}
{"error":"Unauthorized"}
403: The caller does not have permission
HTTP 401: token signature invalid
fatal: could not read Username for 'https://github.com': terminal prompts disabled: authentication required
remote: HTTP Basic: Access denied
Access to this resource on the server is denied
EACCES: permission denied, mkdir '/srv/app/.npm'
This operation requires admin privileges
not allowed to assume role
invalid username or password
Service account key has been revoked
permission error
Access is forbidden
access not allowed
access to file denied
Insufficient privileges
unauthorized access attempt
Unauthorised
not authorised
Authorization failed
authorization required
auth failed
Authentication error
Invalid API token
expired credentials
Credentials rejected
wrong username or password
password incorrect
Login required
HTTP 401 Unauthorized
403 Client Error: Forbidden for url: https://x
PERMISSION_DENIED
UNAUTHENTICATED
you do not have permission to view this
You lack the required role
missing permissions
[Errno 13] Permission denied
EPERM: operation not permitted
security token expired
"""  # noqa: E501

VALIDATION = r"""
pydantic_core._pydantic_core.ValidationError: 1 validation error for Config
Input should be a valid integer, unable to parse string as an integer
Error: Invalid value for '--timeout': 'abc' is not a valid integer.
usage: prog [-h]  prog: error: unrecognized arguments: --foo
error: unable to parse manifest: yaml: line 4: did not find expected key
The Deployment "web" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0
Error: Unsupported argument on main.tf line 3: An argument named "foo" is not expected here.
Error: Missing required argument
dbt: Compilation Error in model foo: depends on a node named 'bar' which was not found or invalid syntax
SQL compilation error: syntax error line 1 at position 7 unexpected 'FROMM'.
google.api_core.exceptions.BadRequest: 400 Syntax error: Unexpected identifier "foo" at [1:1]
ORA-00904: "FOO": invalid identifier
ORA-01400: cannot insert NULL into ("APP"."T"."C")
ORA-00001: unique constraint (APP.PK) violated
Incorrect syntax near 'SELCT'.
Cannot insert the value NULL into column 'id'; column does not allow nulls. INSERT fails.
String or binary data would be truncated.
Violation of PRIMARY KEY constraint 'PK_Users'. Cannot insert duplicate key in object 'dbo.Users'.
Incorrect datetime value: '2024-13-45' for column 'd' at row 1
Data truncated for column 'status' at row 1
document failed validation
json: unknown field "foo"
parse error on line 3, column 7: bare " in non-quoted field
java.lang.IllegalArgumentException: page must not be less than zero
java.lang.NumberFormatException: For input string: "abc"
com.fasterxml.jackson.core.JsonParseException: Unrecognized token 'foo': was expecting JSON
System.FormatException: Input string was not in a correct format.
System.ArgumentNullException: Value cannot be null. (Parameter 'name')
numpy: operands could not be broadcast together with shapes (2,) (3,)
pandas.errors.ParserError: Error tokenizing data. C error: Expected 3 fields in line 4, saw 5
PIL.UnidentifiedImageError: cannot identify image file 'x.png'
openai.BadRequestError: Error code: 400 - {'error': {'message': "This model's maximum context length is 4097 tokens"}}
stripe.error.InvalidRequestError: No such customer: 'cus_1': invalid parameter
The 'To' number +1555 is not a valid phone number.
550 5.1.1 Invalid recipient address
The date must be in the format YYYY-MM-DD
File exceeds the maximum allowed size of 10MB
Invalid input
Invalid JSON payload
invalid argument: count must be > 0
Missing required field: name
Required parameter 'repo' is missing
field "age" must be an integer
Value out of range
Malformed request
malformed YAML in config
Bad Request
HTTP 400 Bad Request
422 Unprocessable Entity: email is not valid
Schema validation failed
JSON decode error at line 3
Failed to parse response as JSON
Could not decode payload
Unexpected token } in JSON at position 12
Type error: expected str, got int
Unsupported media type
Unsupported operation
payload too large
Duplicate key
UNIQUE constraint violated
NOT NULL constraint violation on column id
syntax error near SELECT
invalid date format: 31.02.2024
Unknown parameter: foo
'abc' is not a valid UUID
ValueError: bad value
KeyError: 'repo'
ValidationError: 3 errors
Input validation error: length must be between 1 and 10
Task payload failed validation: 'type' is a required property
the file is corrupted
cannot convert 'abc' to int
checksum mismatch for file data.bin
Argument --n: expected one argument
invalid email
{"detail":[{"loc":["body","name"],"msg":"field required","type":"value_error.missing"}]}
{"error":{"code":400,"message":"Invalid value at 'x'","status":"INVALID_ARGUMENT"}}
pydantic.error_wrappers.ValidationError: 1 validation error for Task
task.type must be one of ['code_sweep','review']
max_retries must not be negative
repos must be a list of paths
unknown task type 'foo': invalid task
TypeError: 'NoneType' object is not iterable
UnicodeDecodeError: 'ascii' codec can't decode byte 0xe2 in position 3
could not parse date '2024-99-99'
ParserError: unknown string format
CSV has wrong number of columns in row 5
yaml.parser.ParserError: while parsing a block mapping
Input is not valid JSON
Data too long for column 'name' at row 1
numeric field overflow: value out of range
violates check constraint "positive"
Enum value 'x' is not allowed
string does not match regex
minimum length is 3: value too short
validation error
Validation failed for field x
invalid data
Invalid argument
invalid request body
invalid configuration value
Invalid parameter: limit
invalid type: expected list
bad input
malformed input
malformed JSON
input is malformed
missing field
missing parameter
missing required argument
required field missing
wrong type
type mismatch
schema mismatch
does not match schema
parse error
parsing failed
failed to parse date
could not parse config
cannot decode JSON
JSON is invalid
unsupported format
not supported: format xyz
value must be positive
value is not allowed
out of range
negative value not allowed
cannot be empty
must not be null
too many arguments
expected string but got None
HTTP 422
HTTP 400
status 400: bad request
invalid literal for int() with base 10: 'abc'
"""

PERMANENT = r"""
Error: Cannot find module 'express'
npm ERR! 404 Not Found - GET https://registry.example/nope
ERROR: No matching distribution found for foo==9
Error: No such container: web
Error from server (NotFound): pods "web" not found
botocore.errorfactory.ResourceNotFoundException: Requested resource not found
stripe.error.CardError: Your card was declined.
remote: Repository not found.
make: *** [Makefile:3: all] Error 2
Segmentation fault (core dumped)
npm ERR! Test failed. See above for more details.
Process finished with exit code 1
java.lang.NullPointerException
panic: runtime error: index out of range [5] with length 3
The feature has been discontinued
fatal: not a git repository (or any of the parent directories): .git
CONFLICT (content): Merge conflict in README.md
Not found
404 Not Found
Resource does not exist
Workflow code_sweep is not implemented
No such workflow: foo
Unknown adapter
unexpected failure
Something broke
Task failed
internal inconsistency
assertion failed
NullPointerException
process exited with code 2
core dumped
repo /x/y not found
module 'foo' has no attribute 'bar'
unhandled exception
fatal: bad object HEAD
aborted by user
an error occurred
KeyboardInterrupt
SystemExit: 1
IndexError: pop from empty list
unsolvable
The workflow raised an exception
Exception
None
null
?!
12345
😀
file not found
key not found
user does not exist
method not implemented
unknown
oops
fatal error
unrecoverable error
Permanent failure
the task was rejected
job crashed
exit code 1
division by zero
null pointer dereference
bug in code
HTTP 404
404
page not found
"""

FALSE_FRIENDS = r"""
the quick brown fox timed the race
a memory palace for students
memory card reader sold
his memory served him well
Timeout was called by the coach
the team took a timeout
Connection: keep-alive
the connection between sleep and health
Thank you for your connection request
new connections made at the conference
Network attached storage purchased
networking event on Thursday
Social network analysis finished
Permission slips collected from parents
planning permission obtained
Building permission application filed
access road opened
accessibility audit done
quota sample of 500 voters
disk brakes replaced
compact disk collection
The invalid was carried to the hospital
Validation of parking tickets at desk 2
model validation accuracy 0.93
cross-validation finished in 4 folds
no errors, no warnings
Build succeeded with 0 errors and 0 timeouts
All 404 tests passed
429 people attended
500 Internal medicine doctors
the 503 bus line
Room 401 is available
exit 404 on the highway
flight 502 departed
Unlimited data, no throttling
speed limit exceeded by 5 km/h
rated 5 stars
temporary art exhibition
temporarily relocated to second floor
Server: nginx/1.25
server response received in 20 ms
The waiter was busy
busy street
deadlocked jury dismissed
locked the door
lock file updated
the host welcomed the guests
unknown artist, oil on canvas
missing cat found
required reading for all
the field was green
Please try again the next level
retry attempt 2 of 5 scheduled
Reset your clock on Sunday
factory reset complete
broken pipe organ restored
refused collection on Monday
denied allegations, says mayor
token of appreciation
certificate of attendance sent
handshake between presidents
proxy statement mailed
socket set, 40 pieces
Se ha establecido la conexión
Aucune erreur détectée
Validierung abgeschlossen
Keine Verbindungsfehler
ディスク容量は十分です
A duplicate of the key was handed to the neighbour
constraint programming course
the schema was applied
garbage collected 12 MB of memory
heap size 512 MB
swap is off
queue drained
the stale bread was thrown away
connectionist models trained
the network is only a metaphor
disk-shaped object found
timeouts are configured to 30s
a walk down memory lane
permissions updated for 3 users
the validation set has 100 rows
valid entries: 12, invalid entries: 0
connection count 12
resource bundle loaded
the temporary fix works
retry succeeded on attempt 2
rate limit not reached
limit raised to 500
timeout disabled
no permission changes needed
all permissions are in place
access log rotated
access point installed
authentication succeeded for bob
authenticated as admin
authorization header added
authorised by the manager
token refreshed
certificate valid for 90 days
the certificate was issued
SSL enabled
dns prefetch enabled
socket opened on port 8080
listening on port 503
started in 429 ms
version 4.0.4 released
404 Main Street
chapter 403
Area 51, room 401
error rate 0%
error budget is healthy
errors: none
failure rate dropped to 0
failed jobs: 0
0 failed, 12 passed
exception handling improved
quota increased
quota: 40% used
memory: 512 MB free
free memory is sufficient
capacity planning meeting
storage room cleaned
space bar pressed
queue is empty
busy waiting replaced by events
service dog training
service level reached
server upgraded
host country selected
the unavailable item was replaced
throttling removed
backup completed, nothing lost
lost and found office
broken window repaired
dead letter queue is empty
reset password link sent
password changed
login page redesigned
sign in sheet printed
denied boarding compensation paid
forbidden fruit
prohibition era
illegal moves in chess explained
syntax highlighting enabled
parse tree printed
schema version 3
format string compiled
duplicate slides merged
required courses: math, physics
mandatory training completed
expired milk thrown away
expected delivery on Monday
unexpected joy
out of stock items reordered
range of motion improved
too long; did not read
die Verbindung ist stabil
Arbeitsspeicher: 8 GB frei
Zeitüberschreitung vermieden
conexión correcta
pas de problème réseau
всё хорошо
一切正常
Job finished: 12 ok, 0 timeouts, 0 connection errors
The memory foam mattress was delivered
Timeouts happen to the best of us, said the coach
network of friends expanded
A network is a set of nodes
connection is key to any relationship
permission is a virtue
validation of the model is planned for May
rate limits explained
resource planning done
disk golf tournament
memory leak fixed in 2.1
retry policy: exponential
timeout: none
status: 200 OK
HTTP 200
HTTP/1.1 204 No Content
200 OK: 503 items returned
returned 429 results
processed 401 of 500 rows
code 42
error code 0
0 errors
no problems found
everything is fine
certificate authority of the city
the host was gracious
socket A and socket B compared
SSL course passed
DNS stands for domain name system
token ring network history
session started
session about denial in grief
access the menu from the left
forbidden planet (1956)
the unauthorized absence policy was published
valid json received
parsing complete
schema.org adopted
quota sampling
full stack developer hired
busy signal heard on the old phone
lock picking hobby
deadlock in negotiations ended
conflict resolution workshop
circuit training at 6 pm
temporary tattoo applied
unavailable for comment
server farm visited
service with a smile
overloaded truck stopped on A4
throttle response improved
exceeded expectations
exhausted but happy
reset button repainted
refused to comment
closed on Sundays
lost in translation
the pipe was broken by frost
EOF marker written
peer review finished
proxy war
gateway drug debate
handshake agreement signed
keepalive sent
heartbeat ok
latency 503 ms
id=429
Order #404 confirmed
Le serveur est occupé par la mise à jour réussie
Speicherplatz wurde erweitert
Zugriff auf die Datei erfolgreich
permisos concedidos
connection pooling enabled
connection string updated
network diagram attached
networking lunch
the timeouts list
timeout handling documented
timeout: 60
memory lane
photographic memory
memory improved by 20%
Disk image mounted
disk cleanup finished
quota of the day
permission model redesigned
permissions: read, write
access key rotated
access time 5 ms
authorized personnel only
authentication flow diagram
validation layer refactored
validated by QA
invalidation of the cache
valid certificate
temporary directory cleaned up
temporarily parked cars
limited edition released
rate of change computed
rates are high this year
service contract renewed
busy day at the office
available in blue and red
resource page visited
resourceful people
out of curiosity
spaceship landed
fullscreen mode
formatted 12 files
schema diagram
parse results: 12 matches
type checking passed
missing link in evolution
required reading
expected value of a dice
long running job finished
200 tests passed in 429 s
page 404 of the book
503 participants registered
room 500
build 401 deployed
error-free run
error handling works
no failures
zero downtime deployment
never failed
all connections are healthy
connection successfully established
successfully retried after timeout
timeout avoided
network restored
disk replaced, array is healthy
memory freed
quota raised
permission added
login successful
logged in as bob
certificate is valid
host is up
server is up and running
socket connected
dns resolved in 3 ms
proxy configured
ssl handshake completed
retry not needed
lock released
deadlock avoided
throttle disabled
rate limit lifted
die Datei wurde gelöscht
Der Speicher ist frei
Verbindung hergestellt
connexion établie
conexión establecida
connessione riuscita
připojeno
接続成功
"""

HOLDOUT: tuple[tuple[str, str], ...] = tuple(
    (category, line.replace("\\n", "\n"))
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
)
