"""What an engineer on call would expect, written down before the rules were read; what only sounds like it included."""

from __future__ import annotations

ON_CALL = """
N could not establish a session with the SMTP relay mail.corp.example:25: connection was closed unexpectedly
N lookup payments.internal on 10.0.0.2:53: server misbehaving
N dial tcp 172.16.4.9:6379: i/o timeout
N read: software caused connection abort
N ERR_NAME_NOT_RESOLVED while opening https://partner.example.com/feed
N The remote host closed the socket before the handshake finished
N x509: certificate has expired or is not yet valid: current time 2024-05-01T00:00:00Z is after 2024-04-30T23:59:59Z
N SSL certificate problem: self-signed certificate in certificate chain
N curl: (7) Failed to connect to api.example.com port 443 after 2 ms: Couldn't connect to server
N curl: (28) Operation timed out after 30001 milliseconds with 0 bytes received
N curl: (35) OpenSSL SSL_connect: SSL_ERROR_SYSCALL in connection to repo.example.com:443
N ssh: connect to host 10.2.3.4 port 22: No route to host
N fatal: unable to access 'https://git.example.com/x.git/': Could not resolve host: git.example.com
N The RPC server is unreachable from this subnet
N Webhook delivery failed: recipient did not answer in 10 seconds
N gave up waiting for the device to answer on 192.168.1.40:502
N The statement was cut off because the link to the database went away
N java.net.UnknownHostException: kafka-2.internal
N javax.net.ssl.SSLHandshakeException: PKIX path building failed
N getaddrinfo ENOTFOUND registry.npmjs.example
N connect ECONNREFUSED 127.0.0.1:5432
N socket hang up
N Error: Navigation timeout of 30000 ms exceeded
N could not connect to server: Network is unreachable
N 504 Gateway Time-out
N deadline exceeded while awaiting headers
N HTTP/2 stream 15 was reset by the remote
N The proxy tunnel could not be opened: CONNECT to proxy.corp:3128 timed out
N broken pipe while streaming chunk 17 to object store
N All replicas of shard 4 unreachable from coordinator node
N bulk export aborted: peer hung up after 12 MB
N lost connection to the robot arm controller during calibration
N PLC did not respond to Modbus request before the deadline
N the handshake with the FIX counterparty timed out
N name resolution of smtp.example.org failed temporarily
N wifi link dropped while syncing the tablet
N heartbeat from broker lost, disconnecting
N Sending the SMS failed: the carrier gateway could not be contacted
N [Errno 111] Connection refused
N [Errno -3] Temporary failure in name resolution
N Upload interrupted, connection to sftp.partner.example dropped
N remote end closed connection without response
N incomplete read: 512 bytes received, 2048 more expected
N VPN tunnel to the data centre is down
T Rate limit reached for requests. Please try again in 20s.
T We're currently experiencing high demand, please retry shortly
T Service Unavailable (503): back-end is warming up
T deadlock detected; transaction rolled back
T ERROR 1213 (40001): Deadlock found when trying to get lock; try restarting transaction
T could not serialize access due to concurrent update
T database is locked
T The ledger is being reconciled, bookings resume in a few minutes
T The API is throttling our account, backing off
T SlowDown: Please reduce your request rate.
T leader election in progress, no leader for partition orders-3
T Version conflict: document was modified by another process
T optimistic lock failed: row was updated by a concurrent transaction
T The cluster is in recovery mode and not accepting queries yet
T maintenance window active until 04:00 UTC
T ThrottlingException: Rate exceeded
T model is overloaded with other requests
T server is starting up
T Another deployment is already in progress for this stack
T Could not acquire lock on inventory record 8812: held by worker-2
T the queue manager is busy, please resubmit
T replica is lagging behind the primary; read rejected
T Resource temporarily unavailable
T internal server error, request id 7f3e
T index is read-only while a snapshot is being restored
T The job was preempted, its spot instance was reclaimed
T Too many requests in the last minute, slow down
T not the leader for this partition
T The upstream answered 503 four times in a row
T circuit breaker 'pricing' is open
T temporary glitch in the fraud scoring service
T The pod was evicted by a node drain
T temporarily out of service
T The vendor portal is down for planned maintenance
T failover in progress
T backend unhealthy: no healthy upstream
R java.lang.OutOfMemoryError: Java heap space
R OOMKilled: container exceeded its memory limit
R write failed: disk quota exceeded
R CUDA out of memory. Tried to allocate 2.00 GiB
R too many open files
R fork: retry: Resource temporarily unavailable, process limit reached
R ERROR: could not extend file "base/16384/2619": No space left on device
R mailbox is full
R QuotaExceeded: monthly export quota used up
R You exceeded your current quota, please check your plan and billing details
R Insufficient cpu in node pool: 0/12 nodes are available
R FATAL: sorry, too many clients already
R remaining connection slots are reserved for superuser
R Killed: process used 16.2 GB of its 16 GB
R ran out of inodes on /var/spool
R Elasticsearch: flood stage disk watermark exceeded
R [Errno 24] Too many open files: '/tmp/x'
R ORA-01653: unable to extend table ORDERS in tablespace USERS
R storage account capacity reached
R no free GPU left on the cluster
R The tenant used all of its 500 GB
R redis OOM command not allowed when used memory > 'maxmemory'
R connection pool exhausted, 40 of 40 in use
R QueuePool limit of size 5 overflow 10 reached
R The heap grew beyond 4096 MB and the worker was terminated
R circuit_breaking_exception: [parent] Data too large, data for [<http_request>] would be larger than limit
R ephemeral storage usage exceeds the total limit of containers 2Gi
R volume is 100% full
R instance quota of region eu-west-1 reached
R swap exhausted
R tape library has no scratch tapes left
R not enough disk: 12 GB needed, 3 GB available
R build failed: runner ran out of disk
R MemoryError: Unable to allocate 11.2 GiB for an array with shape (1500000000,)
P 403 Forbidden: you do not own this project
P Access denied for user 'app'@'10.0.0.5' (using password: YES)
P permission denied for table customers
P The security token included in the request is expired
P Invalid API key provided: sk-****abcd
P Permission denied (publickey,password).
P fatal: Authentication failed for 'https://git.example.com/x.git'
P User is not authorized to perform: s3:PutObject on resource arn:aws:s3:::x
P Your session has expired, please log in again
P JWT signature could not be verified
P insufficient_scope: the token lacks calendar.write
P Only administrators may close an accounting period
P password authentication failed for user "etl"
P The client certificate was rejected: not on the allow list
P You do not have the rights to publish to this channel
P account suspended
P The bot was kicked from the group chat
P MFA required for this action
P row-level security policy violation for table "patients"
P Access to field 'salary' is restricted for role analyst
P The refresh token has been revoked
P blocked by CORS policy: origin not allowed
P your IP address 203.0.113.5 is not whitelisted
P AccessDeniedException: kms:Decrypt not allowed
P The nurse on duty may not release this prescription
P This API requires a higher access level than the one you have
P login failed for user 'sa'
P credentials have not been provided
P 535 5.7.8 Authentication credentials invalid
P Unable to locate credentials
P 530 Login incorrect
P EACCES: permission denied, open '/etc/shadow'
P read-only token cannot be used for writes
P consent of the patient is missing, access refused
P user u-17 lacks the privilege REFUND
V 1 validation error for Order: quantity: value is not a valid integer
V 400 Bad Request: field 'iban' is malformed
V 'price' is a required property
V Unexpected token < in JSON at position 0
V invalid literal for int() with base 10: 'abc'
V time data '2024-13-01' does not match format '%Y-%m-%d'
V null value in column "email" violates not-null constraint
V duplicate key value violates unique constraint "users_email_key"
V syntax error at or near "FORM"
V Unprocessable Entity: amount must be greater than 0
V Date of birth lies in the future
V Missing required parameter: customer_id
V unknown currency code 'EURO'
V row 17: expected 12 columns, found 11
V codec can't decode byte 0xff in position 0: invalid start byte
V The invoice total does not add up: lines sum to 99.90, header says 100.00
V postal code '1234A' is not valid for country DE
V schema mismatch: column 'ts' is string, expected timestamp
V XML parsing error: mismatched tag: line 5, column 2
V YAML: mapping values are not allowed here
V No such option: --retires (did you mean --retries?)
V unsupported image format: image/tiff
V file is not a zip file
V checksum of uploaded manifest does not match its declared digest
V The end date precedes the start date
V negative weight for parcel 12
V Payload too large: 12 MB, at most 10 MB allowed
V value too long for type character varying(20)
V Data truncation: Out of range value for column 'qty'
V foreign key constraint fails: order refers to unknown customer 55
V Enum value 'SHIPPPED' is not one of NEW, PAID, SHIPPED
V The e-mail address bob@@example.com is malformed
V expected an array but got an object at $.items
V unknown field 'pirce' in request body
V This barcode has a wrong check digit
V Template variable 'first_name' is undefined
V cannot parse duration "5 fortnights"
V The argument 'mode' accepts only r, w or a
V column "custmer" does not exist
V bad cron expression '61 * * * *'
V polygon ring is not closed
V no more than 100 recipients are accepted per message
V context length exceeded: maximum is 8192 tokens, got 9120
X No such file or directory: '/data/in/2024.csv'
X The requested bucket does not exist
X order 8812 was not found
X something went wrong
X Task failed
X not implemented yet
X workflow ended with exit code 1
X Repository not found.
X The customer has been deleted
X command not found: ffmpeg
X pod "web-0" not found
X This endpoint was removed in v3
X document with id 77 does not exist
X The payment was refused by the cardholder's partner for unknown reasons
X simulation diverged at step 1400
V connection string is invalid
X permission to proceed granted, but the step failed
V timeout must be positive
X segfault at memory address 0x7ffd
X disk label not found
X no quota configured
V network name is required
V port must be between 1 and 65535
V 'timeout' is not a valid integer
V unknown option connection_timeout
V memory must be given in MB
V quota has to be a number, not 'ten'
V rate limit must be an integer
V unable to parse the retry-after header
V max_connections may not be negative
V host name contains illegal characters
V field 'permission' is required
V invalid value for 'disk_size': 10 Bananas
V password must have at least 12 characters
V the lock duration must not exceed one hour
V 'network' is not one of ['bridge', 'host']
V column 'memory_limit' expects an integer
V the attribute access_level cannot be empty
X The memory of the event has been deleted
X Permission slip 17 not found
X connection 'warehouse' is not defined
X no timeout handler is registered
X Network drive map was not found
X disk image vm-7.qcow2 does not exist
X The rate limit plan 'gold' does not exist
X the story about the bank's lost connection was not found
X Role 'auditor' not found
X 403 rows were read, the step then failed
X 429 orders processed, 1 failed
X Shipment 503 could not be labelled
X step 504 of 900 failed
X Invoice 401 was not found
X access log rotation failed
X unlimited memory of colours
X The key 'timeout' was not found
X tests failed: test_connection_refused, test_disk_full
X failed to render the chart 'network traffic'
X the forbidden city tour has been cancelled by the organiser
X the busy bee nursery is not in the catalogue
X report 'Out of memory incidents' does not exist
V the temporary address is incomplete: street is missing
V 'unavailable' is not a valid status
V certificate number has the wrong format
V the quota year must be 2024 or later
V authorization code must be six digits
"""
