"""Errors of steps and workflows, and what only sounds like them, written down before the rules were tried on them."""

from __future__ import annotations

AGAIN = """
N Error: connect ETIMEDOUT 34.12.9.1:443
N ingest: socket to collector-3 broke, 1,204 spans unsent
N HTTP request failed: error reading a body from connection: end of file before message length reached
N Backend did not come up in time: health endpoint unreachable
N could not resolve 'minio.storage.svc.cluster.local'
N The scanner at dock 4 is no longer reachable over wifi
N stream error: connection lost while receiving page 3
N Timed out waiting for the operator's answer
N nginx: 110: Connection timed out while connecting to upstream
N Could not open a connection to your SMS provider
N certificate for *.example.org expired 3 days ago
N SFTP upload aborted: remote side closed
N Failed to reach vault at https://vault:8200
N no reply from PLC
N A network-related or instance-specific error occurred while establishing a connection to SQL Server
N ClientConnectorError: Cannot connect to host api:443 ssl:default [Connect call failed ('10.0.0.1', 443)]
N Unable to read from the stream, it was closed by the server
N The job took too long and was killed after 2 hours
N RPC timeout
N bad handshake: SysCallError(-1, 'Unexpected EOF')
N the route to the plant network is down
N http2: server sent GOAWAY and closed the connection
N consumer timed out waiting for acknowledgement
T Please back off and try later
T The PDF renderer is currently busy
T shard is recovering
T 503: The server is under maintenance
T other session holds the lock
T Conflict: the resource version has changed, please reload
T Server error (500) while creating shipment
T hot partition, request throttled
T transaction retry limit: conflicting writes
T cannot commit: serialization failure
T our provider reports an outage
T Cluster is resizing, try again in a few minutes
T license server busy, retry
T rate-limited by upstream
T partition leader not available
T the node is draining
T The upstream service returned an invalid response (502)
T Too Many Requests: retry after 31
T The job was requeued because its host rebooted
R no more disk space
R Could not write checkpoint: file system full
R Memory cgroup out of memory: Killed process 123 (python)
R Storage limit reached for your plan
R all 10 workers' memory is exhausted
R cannot open file: too many open files in system
R the build needs 24 GB of RAM, the runner has 16
R Requested 8 GPUs, only 4 available
R mongod: too many open connections
R heap allocation of 1 GiB failed
R project has exceeded its quota of 20 static IPs
R temp directory is full
R Insufficient storage to complete the export
R thread pool exhausted
R DISK QUOTA EXCEEDED
R your balance of translation characters is 0
R pod exceeded its memory limit
R ulimit reached: nofile 1024
P role "app" is not permitted to log in
P You don't have permission to access this resource
P key rejected: wrong passphrase
P not allowed: sales staff cannot approve their own discounts
P Request had invalid authentication credentials
P Could not assume role arn:aws:iam::1:role/x: AccessDenied
P The refresh token is invalid, expired or revoked
P guest users cannot create channels
P no valid session, please sign in
P Password expired for account svc_etl
P The file /srv/a is write protected
P Unauthorized
P 403
P admin approval required for this app
P API access is disabled for this account
P token has insufficient scopes
P user has no SELECT privilege on view v
P The bucket policy denies uploads from this VPC
P two-factor authentication required
P license does not cover the reporting module
V malformed payload: expecting property name
V email: invalid address
V Field "total" must equal the sum of items
V Unknown unit 'lbz'
V cannot interpret '32 Jan' as date
V Wrong length: IMEI has 15 digits
V undefined variable $customer in template
V Error parsing headers: invalid character
V order contains no items
V Price list has duplicate entries for SKU 4
V Currency code must be three letters
V integer out of range
V "colour" is not allowed to be empty
V Unsupported locale xx_YY
V invalid UUID: '123'
V zip code does not match the city
V parameter `limit` should be less than 100
V Document is not valid against schema v2
V checksum failed for IBAN DE00
V bad argument #1 to 'insert' (table expected, got nil)
V SyntaxError: invalid syntax (script.py, line 3)
V the given path is not absolute
V Person with this tax number already exists
V Invoice date before order date
V required environment variable DB_URL is not set
V cannot cast 'abc' to BIGINT
V No column named 'prise' in the sheet
V type mismatch: expected struct, found list
V too many decimal places in amount 1.2345
V invalid filter expression near 'AND AND'
X The document could not be found
X Unknown error (code 0)
X an error has occurred
X Internal bug, please report
X 404
X Job 12 failed with no output
X workflow 'x' is not registered
X module 'foo' has no attribute 'bar'
X dataset not found
X script returned exit code 1
X Segfault
X The plugin crashed
X user 8 does not exist
X operation not supported
X the widget exploded
X gave up
X I have no idea what happened
X connection settings page not found
X Lease contract 12 not found
X The memory test report was not found
X permission matrix exported, then crashed
X network operator 'Telekom' not found
X the timeout value was changed by an administrator
X 502 tickets were sold
X Customer 429 does not exist
X no throttling is configured
X the meeting about quota was moved
X access granted to user bob
X locked-in syndrome study not found
X conflict zone map does not exist
X 401k plan not found
X port of Hamburg not found in table
X bus connection 12 does not exist
X busy signal sound file not found
X memory of user 5 could not be found
X expired milk carton detection model not found
V throttle must be between 0 and 100
V retry_limit: must be an integer
V lock_id must be a UUID
V proxy must be a URL
V auth_method must be one of basic, token
V memory: unknown unit 'GBB'
V cpu limit must be a number
V permission string is malformed
V session_id is missing in the request
V "disk" is not a valid resource type
V access_mode: value is not a valid enumeration member
V quota name contains blanks
"""
ONCE_MORE = """
N task fetch_prices raised: HTTPConnectionPool(host='feed', port=80): Max retries exceeded
N The mainframe closed the session unexpectedly
N Cannot open TCP connection to 10.9.8.7:1521
N peer did not close TLS properly
N lost the websocket to the trading venue
N [WinError 10060] A connection attempt failed because the connected party did not properly respond
N Failed to connect to bolt://neo4j:7687
N unable to reach upstream: i/o timeout
N Received no response from the tax office within 45 s
N Exceeded timeout of 20s while waiting for shard response
N Could not reach host
N database connection was closed while executing the statement
N the SSL certificate of the partner has expired
N unexpected disconnect from message bus
N name 'billing.svc' could not be resolved by DNS
N no connection to the internet
N Sensor gateway is not responding
N sendmail: cannot connect to relay
N connection pool: peer reset
N request aborted, client went away
N HTTP 408
N the RDP session was disconnected
N Device unreachable via modem
N the remote procedure call failed because the server could not be contacted
N fetch failed: UND_ERR_CONNECT_TIMEOUT
T The calendar service says: try again in a minute
T GitLab is not responding right now (503)
T Ticket was modified by another agent in the meantime
T resource is locked
T Job rejected: all workers are busy
T Spot capacity was reclaimed
T throttled by vendor
T The exchange gateway is restarting
T Replica set has no primary
T Deadlock while updating stock levels
T unexpected internal error, please try again
T HTTP 502 from payment provider
T Server is shutting down
T etag changed between read and write
T broker is not the leader for partition 3
T temporary failure of the fraud check
T Optimistic lock exception on Invoice#12
T ERROR: canceling statement due to conflict with recovery
T API calls are limited to 5 per second
T The lock could not be acquired in time
R There is not enough space on the disk
R OutOfMemoryError
R kernel: Out of memory: Kill process
R requests exceed account's concurrent GPU quota
R not enough memory to sort 4,000,000 rows
R Node has insufficient ephemeral-storage
R The upload bucket is full
R max_connections reached on replica
R email sending quota for today used up
R Docker: no space left on device
R couldn't allocate buffer of 512 MB
R EMFILE, too many open files
R storage capacity is exhausted
R Free disk space is below the threshold
R worker exceeded 2 GB memory and was restarted
R subnet has no free IP addresses
R credit limit of the SMS account exhausted
P Your role does not allow this operation
P HTTP 401 returned by auth service
P Access forbidden
P incorrect password
P this key may only be used from registered hosts
P Not authenticated
P login denied for service user
P The certificate is not authorized for this API
P You must accept the terms before using this API
P cannot read /var/log/secure: permission denied
P expired session
P principal lacks 'pubsub.topics.publish'
P only members of group finance may run this report
P user bob is blocked
P anonymous access is not allowed
P API key was revoked
P client id is unknown to the authorization server
P This folder is shared read-only
V date must be in ISO format
V 'foo' is not a known event type
V "weight": expected number, got string
V Malformed CSV in row 12
V quantity must be a whole number
V unknown parameter: pagesize
V invalid hex color '#ggg'
V missing comma in line 4
V The given coordinates are outside Germany
V end of input while parsing an object
V XML: attribute id missing
V unsupported character set
V duplicate key
V string index must be an integer
V record fails schema check
V name contains forbidden characters
V GTIN has 12 digits instead of 13
V conflicting options --all and --only
V cannot mix naive and aware datetimes
V the attachment exceeds the maximum size of 25 MB
V arguments do not match the signature
V the parent category cannot be its own child
V negative quantity
V reference to unknown product 7781
V encoding error in file
V value 300 exceeds 255
V regex does not compile
V must provide either id or name
X image 'logo.png' not found
X The operation is not implemented
X unknown exception
X rule engine stopped
X task was aborted by its author
X exit 1
X the endpoint has been removed
X Pipeline failed at stage 3
X file vanished
X Caught exception in worker
X memory album 12 not found
X 'timeout' event type is not registered with any handler
X The lock icon was not found
X quota settings page not found
X Disk jockey 12 not found
X the denied boarding case 5 was not found
X invoice 500 was not found
X Unlimited quota granted to tenant
X certificate of attendance was sent
X the port authority report does not exist
X connection to history department's archive not found
X forbidden fruit recipe not found
X refused parcels list does not exist
X expired coupons were cleaned up, the step failed afterwards
X user limit is 50
X retrying step 3 of 5
V network_interface must be a string
V memory must be a multiple of 128
V permission: unknown value 'reed'
V Disk name may not contain slashes
V "connection" is not a valid key
V timeout: expected a number
V the quota must not be negative
V invalid port number
V lock mode must be shared or exclusive
V certificate_id is required
"""
WORKFLOWS = """
N Workflow 'nightly-etl' failed: could not connect to postgres at db01:5432 (connection refused)
N Step 3/7 failed: HTTP request to https://api.partner.com/v2/orders timed out after 30s
N asyncpg: connection was closed in the middle of operation
N Host key exchange failed: connection closed by 10.0.0.4 port 22
N getaddrinfo failed for redis-master
N cannot resolve hostname "kafka-0.kafka"
N [SSL: TLSV1_ALERT_PROTOCOL_VERSION] tlsv1 alert protocol version
N Email could not be sent: SMTP server did not answer
N Connection to remote host was lost.
N failed to dial: context deadline exceeded
N the database stopped responding halfway through the migration
N ReadError while streaming the response
N cluster node 10.0.0.9 is not reachable
N timed out
N Agent lost contact with the orchestrator for 5 minutes
N Failed to push metrics: no route to pushgateway
N Unable to contact the authentication server
N Kubernetes API server connection refused
N Could not complete TLS negotiation with mail relay
T Workflow 'sync-crm' failed: API rate limit exceeded, retry in 60 seconds
T HTTP 503 Service Unavailable from search-api
T Record is locked by user admin
T Elasticsearch rejected the bulk request: queue capacity exceeded, es_rejected_execution_exception
T The remote service is temporarily out of order
T Too many requests. Please slow down.
T could not obtain lock on relation "orders"
T Another instance of this workflow is already running
T Service is being upgraded, come back later
T Azure: ServerBusy. Operations per second is over the account limit.
T Snowflake warehouse is resuming
T Spanner: ABORTED: Transaction was aborted, retry
T Replication slot is active for another process
T Failed: upstream service overloaded
T concurrent update detected, reload and try again
T kubelet not ready
T Connection throttled by server, too many requests
R Workflow 'resize-images' failed: out of memory while processing image 4711
R Step failed with exit code 137
R Could not write to /var/data: No space left on device
R Disk usage is at 100%
R Cannot allocate 3.2 GB for dataframe
R Tenant exceeded its storage quota (50 GB)
R Monthly API quota exhausted
R No free slots in worker pool
R Thread limit reached, cannot start new thread
R The queue is full
R Redis: OOM command not allowed
R Exceeded compute quota for project ml-train
R Pods cannot be scheduled: insufficient nvidia.com/gpu
R file descriptor limit reached
R swap full, process terminated by oom-killer
P Workflow 'export' failed: permission denied for relation invoices
P Step failed: 401 Unauthorized (token expired)
P User 'svc' is not allowed to execute this workflow
P S3 upload failed: AccessDenied
P Invalid API token
P Authentication required
P Insufficient permissions to read secret db-password
P SSL client certificate not accepted, access forbidden
P Service account key has been disabled
P You have no rights for tenant 7
P OAuth scope 'drive.readonly' is missing
P Access to vault path secret/prod is denied
P login expired
P credentials rejected by LDAP server
P the caller is not in the approvers group
P Snowflake: Insufficient privileges to operate on schema
P gpg: decryption failed: No secret key
V Workflow 'import' failed: row 12: invalid date '31.02.2024'
V Step failed: JSON schema validation error: 'id' is a required property
V Missing required argument: customer_id
V Cannot parse config file: expected a mapping
V Input file has wrong encoding
V Unexpected column 'foo' in input
V Could not decode payload as JSON
V Argument 'count' must be a positive integer
V Invalid email address
V Payload failed schema validation
V value out of range for type smallint
V unknown task type 'emial'
V null is not allowed in column name
V the start date is after the end date
V The amount is negative
V invalid cron expression
V Query syntax error near 'FORM'
V Unsupported media type: text/foo
V Failed to parse timestamp
V Incorrect number of arguments
V object has no required key 'id'
X Workflow 'abc' not found
X Step failed: unknown reason
X Adapter 'foo' is not registered
X FileNotFoundError: [Errno 2] No such file or directory: 'x'
X Repository does not exist
X unexpected condition
X Something bad happened
X Assertion failed: a == b
X resource not found
X Cannot find module 'left-pad'
X Feature has been removed
X no network configured
X the memory address book is empty
X Retry-After header documentation updated
X successfully connected
X unlimited access plan not found
X timeout of the referee
X the user's permission record was not found
X network: 3 nodes, 0 errors
X No quota configured
X authorised by: J. Smith
X rate limiting disabled
X denied boarding report completed
X memory: 4 GB
X validation passed
X storage box 7 not found
X connection points are missing on the drawing
V memory size must be an integer
V invalid timeout value
V permission field is missing
V the rate limit must be greater than zero
V disk_count: value is not a valid integer
V quota_id is required
V Invalid port: 0
V lock name is too long
V host is not a valid hostname
V access key name must not be empty
"""
STEPS = """
N Workflow 'billing' failed at step 'charge': connection to payments.internal dropped
N TimeoutError: operation did not complete within 60 seconds
N failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:443: Failed to connect to remote host
N IMAP server closed the connection
N Could not reach webhook endpoint https://x.y/z
N Unable to establish SSL connection
N Too long without a response from the GPU server
N Connection pool to host db timed out while connecting
N the mail gateway could not be resolved
N git clone failed: early EOF
N request to upstream aborted: socket hang up
N Data channel closed unexpectedly by peer
N Proxy error: could not connect to 10.1.1.1:8080
T Workflow 'index' failed: cluster is busy, please try again
T The row version is stale; someone else saved the record first
T HTTP 429 from Shopify: 2 calls per second for api client
T Vendor API is down for maintenance
T Server replied 500 Internal Server Error
T transaction conflict, retry
T Table is currently locked for schema change
T Failover to replica in progress
T Throttling: Request was denied due to request throttling
T Temporary error, will retry
T quorum lost
R Workflow 'train' failed: CUDA error: out of memory
R cannot create directory: No space left on device
R Too many open connections to the database
R Your account has exceeded its limit of 5 concurrent builds
R disk quota reached for /home/ci
R Insufficient disk
R The cache server is out of memory
R maximum number of file handles reached
R CPU quota exceeded
R storage is full, cannot save attachment
P Workflow 'deploy' failed: user is not authorized to perform sts:AssumeRole
P Missing or invalid API key
P Forbidden: CSRF token missing
P The user lacks the permission 'orders.cancel'
P read access denied for table hr.salaries
P Token has been revoked
P certificate-based login failed for user x
P wrong user name or password
P you are not a member of this workspace
P Operation requires administrator privileges
P access to share //nas/x refused
V Workflow 'load' failed: column 'age' contains a non-numeric value
V ValidationError: name is too long
V Expected a JSON object but received a list
V the field 'country' has an unknown value 'XX'
V Invalid UTF-8 sequence in input
V Duplicate order number
V missing header row
V Cannot convert string to datetime
V "limit" must be less than or equal to 1000
V required property 'name' not present
V Unrecognized token 'abc': was expecting JSON
V ISBN is malformed
V body exceeds maximum length
V parameter 'page' must not be negative
V uploaded archive is corrupted
V constraint "positive_price" violated
V Empty request body
X Workflow 'x' failed
X The record with id 12 was not found
X internal inconsistency
X step raised an unknown error
X Task 'foo' has no handler
X Template 'invoice.html' does not exist
X Unhandled rejection
X index out of range
X object has no attribute 'foo'
X The connection to nature is lovely
X permission form printed
X disk of record 12 not found in archive
X no access log configured
X memory usage: 34%
X Network team was informed
X rate table for 2023 not found
X lock number 7 not found
X validation rules loaded
X The forbidden list does not exist
X password policy document not found
X host of the party not found
X unauthorized list was not found
X quota: unlimited
X busy street data set not found
X capacity of hall 3 was not found
X circuit diagram not found
X certificate template not found
X Service level agreement not found
X the temporary table was dropped
X throttle valve part not found
X the server room door is open
X connected successfully
V timeout must not be empty
V connection_timeout must be a number
V invalid permission name
V disk name is required
V quota must be an integer between 1 and 100
V network 'foo' is not a valid choice
V unknown option 'max_conections'
V malformed connection url
V lock_ttl: must be greater than 0
V 'rate' is a required property
V token length must be 32 characters
V invalid proxy setting: missing port
"""
