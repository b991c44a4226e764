"""Errors of other trades and in other wordings, written down before the rules were tried on them."""

from __future__ import annotations

OTHER_TRADES = """
N The satellite downlink faded before the telemetry frame was complete
N Failed to sync calendar: host caldav.example.org did not answer
N psycopg2.OperationalError: could not translate host name "db" to address: Name or service not known
N redis.exceptions.ConnectionError: Error while reading from socket: (104, 'Connection reset by peer')
N step extract: SFTP server dropped us in the middle of the listing
N The print server cannot be reached
N no answer from the tax authority's interface within two minutes
N ConnectTimeoutError: (<urllib3.connection>, 'Connection to idp.example.com timed out. (connect timeout=10)')
N grpc._channel._InactiveRpcError: status = StatusCode.DEADLINE_EXCEEDED details = "Deadline Exceeded"
N TLS: server name does not match the certificate presented
N ping to 10.1.1.1 failed, 4 packets transmitted, 0 received, 100% packet loss
N query timed out after 60 s on warehouse ETL_WH
N The request to the exchange rate service timed out
N ssl.SSLEOFError: EOF occurred in violation of protocol (_ssl.c:1129)
N WebSocket closed with code 1006 (abnormal closure)
N rsync: connection unexpectedly closed (0 bytes received so far) [sender]
N MQTT client lost the broker, will reconnect
N ftp: data connection could not be opened
N net/http: TLS handshake timeout
N nc: connect to 10.0.0.7 port 9042 (tcp) failed: Connection refused
N Worker did not send a heartbeat for 60 seconds
N Job ran longer than its allowed 30 minutes and was stopped
N java.net.SocketTimeoutException: Read timed out
N The bastion host refuses connections
N The call to the credit bureau took too long
N DNS: SERVFAIL for api.internal
N gateway timeout from the ERP
N no internet access from this subnet
N Lost the link to the warehouse scanner
N Can't connect to MySQL server on 'db.internal' (113)
N [Errno 32] Broken pipe
N could not download model weights: connection reset
N remote disconnected while uploading part 7
N The camera feed cut out
T Rate limit hit on GitHub API, reset at 14:02
T 503 Slow Down
T We are experiencing a temporary outage, our engineers are working on it
T The row is locked by another transaction
T StaleDataError: UPDATE statement on table 'x' expected to update 1 row(s); 0 were matched.
T psycopg2.errors.SerializationFailure: could not serialize access due to read/write dependencies among transactions
T The service is currently unavailable. Please try again later.
T E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 1234
T Consumer group is rebalancing
T HTTP 500: Internal Server Error
T status code: 529, overloaded_error
T The exchange has halted trading in this symbol for five minutes
T The tenant is being migrated to another shard
T too many concurrent requests for this account
T Server returned 502: upstream crashed
T Received shutdown signal while the batch was running
T index .ds-logs is being closed by a concurrent operation
T request was throttled. Expected available in 17 seconds.
T The backup is still running, writes are deferred
T 40001: restart transaction: TransactionRetryWithProtoRefreshError
T The bank's interface is closed for end-of-day processing until 6 am
T write conflict, please retry your operation
T Backend overloaded, shedding load
T Your request could not be handled because the node is restarting
T spot instance interruption notice received
T server busy
T Cannot start: a previous instance of the job is still active
T quota exceeded for quota metric 'Queries' and limit 'Queries per minute'
T API says: limit of 10 calls per second exceeded
T document was changed by someone else since you opened it
T pod is not ready yet
R ENOSPC: no space left on device, write
R Container killed by OOM killer
R Process exited with code 137
R cannot start new thread
R ERROR 1040 (HY000): Too many connections
R ORA-00020: maximum number of processes exceeded
R The scratch volume filled up after 80 GB
R user quota on /home exceeded
R Your free-tier minutes are used up for this month
R insufficient_quota
R 0/5 nodes are available: 5 Insufficient memory.
R The partition /var has 0 bytes free
R vCPU limit of the subscription is reached
R The parcel locker has no empty compartments
R render farm: all 24 licences in use
R cannot mmap 8589934592 bytes: out of memory
R exceeded the maximum number of open cursors
R SQLSTATE[53300] FATAL: too many connections for role "app"
R GPU ran out of VRAM while loading checkpoint
R Kernel restarted because the notebook used more than 32 GB
R database or disk is full
R Insufficient funds in prepaid API balance
R You have run out of storage
R the pool has no connections left
R AddressLimitExceeded: The maximum number of addresses has been reached.
P You are not allowed to see this document
P The service account has no access to project alpha
P ERROR 1142 (42000): SELECT command denied to user 'x'@'y' for table 'z'
P remote: Permission to org/repo.git denied to bot.
P ora-01017: invalid username/password; logon denied
P invalid_grant: Token has been revoked
P SignatureDoesNotMatch
P Your account does not have the finance role
P Kerberos ticket expired
P user must change password before first login
P The doctor has not signed the release; access is not granted
P Repository is private, authentication needed
P cannot write to read-only file system
P rpc error: code = PermissionDenied desc = caller lacks iam.serviceAccounts.actAs
P LDAP bind failed: invalid credentials
P API key not valid. Please pass a valid API key.
P The trading account is frozen by compliance
P Two-factor code was wrong
P unauthorized: authentication required
P Export of this dataset outside the EU is prohibited by policy
P x-api-key header missing
P the bearer token was signed by an unknown issuer
P Only the owner can delete the board
P device not enrolled, access blocked
P this action needs approval by a second officer
P pq: permission denied for schema audit
V pydantic_core._pydantic_core.ValidationError: 2 validation errors for Settings
V TypeError: unsupported operand type(s) for +: 'int' and 'str'
V psycopg2.errors.NotNullViolation: null value in column "x"
V The CSV has no header row
V IBAN checksum is wrong
V the uploaded picture is not a JPEG
V Unknown country code XX
V 422: email has already been taken
V Amount must not be zero
V latitude 123.4 is outside -90..90
V The passport number contains letters where digits are expected
V mapper_parsing_exception: failed to parse field [date] of type [date]
V avro schema is incompatible with the registered one
V The shift starts after it ends
V cannot insert duplicate key row in object 'dbo.x'
V Cannot deserialize value of type `int` from String "abc"
V unrecognized arguments: --foo
V SKU A-17 is listed twice in the order
V gene sequence contains the letter Z
V Unbalanced parentheses in formula
V wrong number of columns in line 9
V mandatory element <Id> is absent
V no such column: pricee
V Message body exceeds 256 KB
V ambiguous time due to DST
V image dimensions too small, at least 200x200
V recipient list is empty
V model does not accept images
V the file is encrypted or is not a database
V Request header field 'Accept' is not acceptable
V debit and credit do not balance
V checksum mismatch for part 3
V graph contains a cycle
V Timestamp is in the future
V malformed UTF-8 in title
V wrong file type: expected .xlsx
V unsupported protocol version 9
V bad request: missing field "name"
V prompt is too long: 210000 tokens > 200000 maximum
V Invalid base64-encoded string
V the sum of the weights is not 1
X an unexpected error occurred
X The blob does not exist
X Exit status 2
X Topic orders.v1 does not exist
X panic: runtime error: index out of range [5] with length 3
X AttributeError: 'NoneType' object has no attribute 'id'
X The user account was deleted
X core dumped
X feature not implemented
X HTTP 404 for https://example.com/x
X relation to supplier could not be found
X docker: image not found: app:1.2
X job failed
X fatal error
X npm ERR! missing script: build
X Workflow 17 crashed
X RecursionError: maximum recursion depth exceeded
X TemplateNotFound: mail.html
X report could not be generated
X NullPointerException
X the timeout page was not found
X Meeting 'disk full incident' not found
X lesson 'access denied' does not exist
X The deadlock scene is not in the script
X Throttle body part 88-1 not found
X The memory card game failed
X 500 invoices sent, then the step failed
X 403 km from home, no charging station found
X Rate card not found
X Locker 12 does not exist
X Certificate of origin not found
X network diagram not found
X Quota report could not be generated
X Unauthorized biography is not in the library catalogue
X the capacity planning job failed
X No password hint configured
X the connection flight LH401 was not found
X Song 'Permission to Dance' not found
X Access road 12 does not exist
X memory lane tour was not found
V timeout_seconds: Input should be a valid integer
V 'rate_limit' must be a positive number
V unknown setting 'max_memory'
V invalid value for disk_type: 'flopy'
V retry_after must be an integer
V connection_id is not a valid UUID
V Permission name may only contain letters
V field lock_version is required
V 'unauthorized' is not a valid enum member
V quota_period: expected one of day, month
V server_name must not be empty
V ssl_mode must be one of disable, require
V "memory" is not a recognized option
V port 99999 is out of range
V column 'throttle' has wrong type
V Network mask is malformed
V proxy url has no scheme
V access_token must be a string
"""
