"""What logs and applications say, written down before the rules were tried on them."""

from __future__ import annotations

LOGS = """
N Unable to establish connection with remote MQTT endpoint
N ERROR: Connection timed out after 5000ms while waiting for response from inventory-service
N Airflow task failed: HTTPSConnectionPool(host='s3.amazonaws.com', port=443): Read timed out.
N pull access: Get https://registry/v2/: dial tcp: lookup registry on 127.0.0.11:53: no such host
N failed to open stream: Connection refused
N The underlying connection was closed: An unexpected error occurred on a receive.
N tls: failed to verify certificate: x509: certificate signed by unknown authority
N Hostname mismatch, certificate is not valid for 'api.internal'
N subprocess.TimeoutExpired: Command '['rsync']' timed out after 600 seconds
N asyncio.exceptions.TimeoutError
N Task exceeded its time limit of 3600 s
N peer certificate cannot be authenticated with given CA certificates
N Temporary DNS failure for smtp.sendgrid.net
N amqp connection lost, channel closed
N ETIMEDOUT
N ERR_CONNECTION_RESET
N com.mongodb.MongoSocketReadException: Prematurely reached end of stream
N The drone stopped sending telemetry
N Payment terminal offline: no carrier
N Unable to reach the license server
N the FTP control connection was dropped
N upstream request timeout
N client disconnected before the response was complete
N modem did not respond to AT command
N IMAP: connection dropped by server
N Elasticsearch: node not connected
N Kafka: failed to fetch metadata within 60000 ms
N POST https://hooks.example.com timed out
N proxy handshake failed
N could not fetch exchange rates: host unreachable
N Cannot contact any KDC for realm 'EXAMPLE.COM'
N Error contacting the label printer
N the socket has been closed by the peer
N Failed to download https://files.example/x.whl: connection broken by 'ProtocolError'
T Received 503 from pricing service
T HTTP/1.1 429
T Request rate is large (429)
T The operation was throttled, try again later
T temporarily overloaded
T Replication lag too high, refusing reads
T Transaction was aborted due to a conflict with another transaction
T There is already an ongoing deployment for this environment
T We're doing some maintenance, back soon
T cluster not ready, still electing a leader
T SQLITE_BUSY: database is locked
T Error 1205: Lock wait timeout exceeded
T backend returned HTTP 500
T The server encountered a temporary error and could not complete your request
T pod was evicted because the node is being upgraded
T Salesforce: UNABLE_TO_LOCK_ROW: unable to obtain exclusive access to this record
T Notion API: conflict occurred while saving. Please try again.
T Slack: ratelimited
T Could not take the lease, someone else has it
T the file is being used by another process
T search queue is full of pending requests, rejected execution of task
T Message deferred: 4.7.0 try again later
T HTTP 425 Too Early
T API quota per minute exceeded
T shard relocation in progress
T DynamoDB: The level of configured provisioned throughput for the table was exceeded
T Master is not available right now
T the seat map is locked while another customer pays
T system is in maintenance
T GPU node was preempted
R tar: write error: No space left on device
R Java heap space
R exit code 137 (OOM)
R psycopg2.OperationalError: FATAL: remaining connection slots are reserved for non-replication superuser connections
R Cannot create temp file: disk is full
R You have reached your monthly limit of API credits
R storage quota of the bucket exceeded
R Insufficient capacity for instance type p4d.24xlarge
R cgroup memory limit reached, process killed
R JavaScript heap out of memory
R Failed to allocate 4096 MB for shuffle
R RuntimeError: unable to open shared memory object: out of memory
R Spark executor lost: Container killed by YARN for exceeding memory limits
R no space in tablespace TEMP
R database storage is full
R Google Drive: The user's Drive storage quota has been exceeded
R max user processes reached
R 413 GB requested but only 200 GB free
R inode table exhausted
R ResourceQuota: exceeded quota: compute, requested: cpu=2, used: cpu=9, limited: cpu=10
R SMS balance used up
R The printer is out of paper
R swap space is exhausted
P AuthenticationError: token is invalid or has expired
P Permission 'storage.objects.get' denied on resource
P access to the requested resource is not allowed
P You must be logged in to do that
P Cannot delete: you are not the owner
P insufficient privileges
P The API key does not have write access
P User lacks required role: admin
P 403: The caller does not have permission
P Access Denied
P invalid username or password
P login attempt failed for robot account
P certificate required: client did not present a certificate
P S3: Access Denied (AccessDenied)
P The OAuth client was not found or is disabled: invalid_client
P Account locked after too many failed logins
P this endpoint is restricted to internal users
P not authorised to view salary data
P webhook signature verification failed
P subscription expired, access revoked
P sudo: user is not in the sudoers file
P open /etc/ssl/private/key.pem: permission denied
P git push rejected: protected branch
P User has been banned
P the file is owned by root and cannot be modified
P You need editor rights on this sheet
P missing Authorization header
P SSO token has expired, run aws sso login
P This account is not entitled to market data
P CSRF verification failed. Request aborted.
V 'abc' is not of type 'integer'
V Input should be a valid string
V field required (type=value_error.missing)
V Cannot convert 'N/A' to float
V invalid date: February 30
V Required field 'amount' is missing
V unexpected keyword argument 'foo'
V Schema validation failed: /items/0/price must be number
V malformed request body
V UNIQUE constraint failed: orders.id
V Violation of PRIMARY KEY constraint 'PK_x'
V String or binary data would be truncated
V ERROR: invalid input syntax for type integer: "abc"
V the JSON object must be str, bytes or bytearray, not NoneType
V phone number must be in E.164 format
V currency mismatch: USD vs EUR
V Parsing failed at line 3: unexpected end of input
V expected 3 arguments, got 2
V age must be >= 18
V The file you uploaded is empty
V bad checksum
V tensor shapes do not match: [32, 10] vs [32, 12]
V unsupported file extension .exe
V Invalid enum value
V illegal character in header
V Table 'x' has no column named 'y'
V template error: variable 'name' is not defined
V start_date must be before end_date
V price cannot be negative
V too many values to unpack (expected 2)
V the quantity ordered is below the minimum of 10
V Unknown argument "limitt" on field "users"
V username already taken
V Wrong VAT id for Belgium
V unable to decode QR code
V Image resolution exceeds 8000x8000 pixels
V The name is too long
V Data type mismatch in criteria expression
V query returned malformed XML
V invalid regular expression: missing )
V booking dates overlap
V attachment of type .bat is not accepted
X File not found: report.xlsx
X Could not find job definition 'nightly'
X Workflow failed
X Unexpected failure in step transform
X Object of class X has no method 'foo'
X No workflow registered under this name
X ImportError: cannot import name 'x' from 'y'
X HTTP 410: resource is gone
X signal 11 (SIGSEGV)
X Error: process completed with exit code 1.
X The stream was deleted
X KeyErrorless failure
X unhandled exception
X customer 12 has no orders
X Method not implemented
X the branch 'feature/x' does not exist
X oops
X bug: state machine reached impossible state
X executable file not found in $PATH
X permission to proceed granted
X connection established
X The access permit was issued
X memory usage normal, job stopped by user
X disk layout 'A4' was not found
X no rate limit configured for tenant
X timeout handler not found
X book 'The Network Effect' not found
X token 'END' was not found in the grammar
X lock screen picture not found
X lost and found office does not exist
X no forbidden words were found, yet the step failed
X quota of sales region 4 not found
X The 'unavailable' label was not found
X conflict of interest statement not found
X traffic light controller 503 not found
V connection name is required
V permission must be one of read, write
V disk_size must be at least 10
V max_retries must be an integer
V timeout may not be negative
V memory_limit: invalid format '12Q'
V unknown field 'network'
V network address 10.0.0.300 is invalid
V host must be a string
V deadline is not a valid date
V lock_timeout: value is not a valid integer
V quota cannot be negative
V socket type 'FOO' is not supported
V rate must be a number between 0 and 1
V access_level 'superb' is not one of low, high
"""
APPLICATIONS = """
N order-service -> stock-service: call failed, peer is not answering
N Reading from the Zookeeper ensemble timed out
N remote server returned no data and closed the socket
N An existing connection was forcibly closed by the remote host
N Could not connect to Redis at 127.0.0.1:6379: Connection refused
N No route to host (os error 113)
N error sending request for url (https://x/): error trying to connect: tcp connect error
N Load balancer could not reach any target
N unable to get local issuer certificate
N TLS alert, handshake failure (552)
N gateway did not respond within the time limit
N The lambda timed out after 15.00 seconds
N lost contact with node worker-7
N Playwright: page.goto: net::ERR_INTERNET_DISCONNECTED
N ReadTimeout: HTTPSConnectionPool(host='x', port=443)
N The weather API never answered
N SAP RFC: partner not reached (host sap01, service sapgw00)
N Event hub link detached: the connection was inactive for more than 300000 ms
N kubectl: Unable to connect to the server: net/http: TLS handshake timeout
N snowflake 250003: Failed to execute request: connection aborted
N Oracle: ORA-03113: end-of-file on communication channel
N fetching https://x.test/a.json: unexpected EOF
N camera 4 unreachable
N the request was cancelled because it took longer than 10 s
N ConnectionError: could not reach the metadata service
N Resolving timed out after 5000 milliseconds
N bank gateway: session dropped
N Server hung up on the third chunk
T Service temporarily overloaded, retry after 30 seconds
T concurrency limit reached, request rejected
T 500 Internal Server Error: database failover
T Error: too many requests, quota resets in 12s
T Write rejected: primary is stepping down
T the table is locked by a running migration
T Cannot obtain lock for account 5
T task lost because its worker was restarted
T lock on sheet is held by another editor
T Retryable error from the mail provider
T upstream 502
T The message broker is starting, try later
T The partner system is undergoing maintenance
T Snapshot already running
T ElasticSearch: all shards failed for phase [query], cluster recovering
T inventory row changed while we were updating it
T ServiceUnavailableError: Overloaded
T ResourceInUseException: Table is being updated
T The booking engine is briefly unavailable
T PT-deadlock: transaction (Process ID 61) was deadlocked on lock resources
T Celery worker received SIGTERM during the task
T GitHub secondary rate limit hit
T 503 backend read error: no healthy backends
T temporary server error, please resend
T Too many login requests per minute
R virtual memory exhausted: Cannot allocate memory
R not enough free disk space to unpack the archive
R OSError: [Errno 28] No space left on device: '/tmp/a'
R worker was OOM killed
R memory limit exceeded: needed 2.3 GB
R PostgreSQL: out of shared memory
R mail storage quota exceeded for user
R numpy.core._exceptions._ArrayMemoryError: Unable to allocate 7.45 GiB
R The warehouse ran out of credits
R log partition is full
R exceeded max open files
R All database connections are in use
R Too many processes
R quota 'CPUS' exceeded. Limit: 24.0 in region us-east1
R GPU memory is exhausted
R PersistentVolume has no space left
R You've hit your plan's limit of 1000 documents
R SQL Server: transaction log for database is full
R npm ERR! nospc
R std::bad_alloc while building index
R bandwidth cap of this month reached
R The queue has reached its maximum capacity of 10000 messages
R out of file descriptors
P Forbidden: user cannot list resource "pods"
P Zugriff: access is denied for this folder
P The user is not authorised for company code 1000
P insufficient rights to alter table
P wrong password for keystore
P Bearer token missing
P Invalid credentials
P cannot open /dev/mem: Operation not permitted
P JWT expired at 2024-01-01T00:00:00Z
P Error: this operation requires MFA
P your API token does not have the 'repo' scope
P GraphQL: Must have admin rights to Repository
P Publishing to this topic is forbidden for guests
P unauthenticated request
P the signature we calculated does not match
P SSH key was not accepted by the host
P secret access is denied by policy
P account is disabled
P role 'reader' may not drop table orders
P ACL check failed for topic payments
P cookies expired, sign in again
P The certificate of the caller has been revoked by our admin; access refused
P user does not have permission to create a database
V value is not a valid email address
V 'qty' must be an integer, got 'two'
V Unknown column 'foo' in 'field list'
V ERROR: value too long for type character varying(10)
V expected ',' or '}' at line 3 column 7
V Cannot insert NULL into column 'id'
V the VAT number has an invalid format
V JSON: unknown key "adress"
V date 2024-02-30 does not exist
V invalid choice: 'foo' (choose from 'a', 'b')
V missing 1 required positional argument: 'x'
V zero-length payload
V The XML does not conform to the schema
V UnicodeDecodeError: 'utf-8' codec can't decode byte 0x80
V pixel format not supported
V Could not parse '12,5O' as a number
V a shipment needs at least one parcel
V Empty address line
V Input contains NaN
V the discount may not exceed 100 percent
V Illegal argument: step must not be 0
V wrong date format, use YYYY-MM-DD
V duplicate invoice number 2024-17
V cannot parse header: bad delimiter
V the IBAN is too short
V Two lines of the order have the same position number
V unknown operator '=>' in filter
V rows 4 and 9 contradict each other
V text is not valid UTF-8
V 'Munich' is not a number
V vector has 768 dimensions, index expects 1536
V tax rate missing for line 2
X The specified key does not exist.
X Unknown failure
X invoice 4711 not found
X Traceback (most recent call last): RuntimeError: oh no
X worker exited with code 3
X unexpected exception, see log
X this function is not implemented
X Handler for event 'paid' is not registered
X kernel panic
X no such bucket
X Parent record is gone
X Nothing to do
X Article 'How to avoid timeouts' not found
X conference room 'Network' does not exist
X the deadlock of negotiations was reported in the paper
X timeout setting was found, step failed later
X permission was granted yesterday
X no disk configured
X Access to the motorway was not found on the map
X connection pooling disabled
X the retry limit is 5
X certificate ceremony postponed by the school
X memory foam mattress not found
X all timeouts were handled, but the result file does not exist
X password reset mail template not found
X the blocked drain report does not exist
X validation passed, publishing failed for an unknown reason
X unlocked account 5 was not found
V bandwidth must be given in Mbit/s
V invalid lock name: '//'
V rate_limit: extra fields not permitted
V credential name must be lowercase
V max_memory is not a valid size
V proxy_port out of range
V permission_level: unexpected value; permitted: 'r', 'w'
V Option --timeout requires an argument
V network_id: badly formed hexadecimal UUID string
"""
