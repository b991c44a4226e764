"""What people on call for a shop of Python workflows saw, in seven rounds, each written before any of it was tried.

Before anything was changed for them the rounds were read with 23, 14, 14, 15, 12, 13 and 30 of a hundred wrong, nearly
always by knowing nothing: they are worded as freely as people speak, the seventh oddly on purpose. What was systematic
about that was then put right. What is here is what was written, without a few rows that could be read either way.
"""

from __future__ import annotations

FIRST_ROUND = r"""
N Extract step gave up: the CRM did not answer within 45 s
N sftp upload to partner stalled and was disconnected after 3 minutes
N lost the link to the warehouse halfway through the export
N VPN dropped while syncing the ERP tables
N Could not open a websocket to the price feed
N webhook delivery failed: peer hung up
N The database proxy closed our session mid-query
N no answer from the label printer at 10.4.0.12
N DNS lookup of vault.prod.svc failed after 3 tries
N Handshake with the bank's gateway failed: their certificate has expired
N Download of manifest.json interrupted: 12 of 40 MB received
N Activity heartbeat missed for 90 s, giving up
N Query ran into the 30 s statement timeout
N The call to fetch_rates took too long and was cut off
N proxy tunnel could not be established
N unable to ping the metadata store
T The payments API answered 503, three times in a row
T Snowflake: the warehouse is being resumed, statement queued too long
T partner API says 'too many requests', retry after 17
T Someone else is deploying this stack right now
T Nightly compaction is running, writes are refused for the moment
T The scheduler is restarting; submissions are paused
T failed to take the advisory lock for tenant 7, held by worker-3
T row was changed by another transaction since it was read
T replica promotion under way, primary not yet known
T message broker is in flow control, publisher paused
T We are temporarily limiting new jobs because of high load
T upstream returned an internal error (500)
T spot instance reclaimed, task evicted by the provider
T cannot start a new run while the previous one is still active
T The feature store is warming up, come back in a minute
T Airtable: request throttled, wait 30 seconds
T Salesforce is in read-only mode during maintenance
T git push rejected: ref is locked by another push
T Bad gateway from the geocoding service
R pandas merge died, the box ran out of RAM
R worker pod was OOM-killed while loading the model
R scratch volume on node-4 is at 100%
R The export bucket has reached its storage limit
R no GPU left in the pool for this queue
R could not fork: too many processes for this user
R the connection pool has no free connections left
R daily send quota used up, next reset at midnight
R cannot write checkpoint: disk full
R our OpenAI account has run out of credits
R executor lost: container exceeded physical memory
R the temp tablespace has no room left
R all 16 licences of the solver are taken
R file handle limit of the process reached
P service account etl-bot may not read table finance.salaries
P token for the HR API has been revoked
P the bucket policy denies PutObject for role etl
P you have to sign in again to continue
P API key missing in request
P 2-step verification is required for this account
P user is not in the group data-engineers
P SSH key not accepted by bastion
P The refresh token has expired; re-authorise the connector
P Your IP is not on the allow list
P cannot decrypt secret: access to the KMS key was refused
P the Jira user lacks 'Browse project' rights
P the signed link is no longer valid
P Wrong password for user loader
P OAuth app has been disabled by an administrator
V row 1782: 'price' is negative
V expected 12 columns, the file has 11
V currency EURO is not an ISO 4217 code
V country is mandatory
V order 71 has no line items
V JSON body could not be decoded
V the uploaded spreadsheet has no header row
V date 31/02/2026 does not exist in the calendar
V SKU must match [A-Z]{3}-\d+
V the batch contains duplicate order numbers
V missing parameter: since
V unknown event type 'order.creatd'
V The image is not a PNG
V payload larger than 6 MB
V schema version 4 is not supported by this consumer
V argument --since: not a date
V the template refers to a variable that is not defined: customer_nmae
V cannot convert 'abc' to an amount
V latitude 123.4 is out of range
V end before start
V the CSV has an unescaped quote in line 44
V the e-mail address has no @
V Avro: field 'owner' has the wrong type
V zip archive is damaged
V primary key already present in target table
X AttributeError: 'Pipeline' object has no attribute 'rnu'
X adapter 'prefetc' is not registered
X the bucket raw-2019 has been deleted
X Unknown failure in step 3
X Something broke
X process exited with status 3
X the branch release/9 is gone
X not yet implemented: incremental mode
X The flow was archived and can not be run
X assert total == 12
X the dashboard shows 503 customers and 12 timeouts resolved
X INFO pipeline finished, 0 failed, 12 skipped
X Denied boarding compensation rules changed
X connection pool resized from 5 to 10
X We granted the loader access to finance yesterday
X lunch is limited to one hour
X rate limits doubled for premium customers
X the lock on the shed was replaced
X reading timeout set to 90 in config.yaml
X invalid parking tickets were refunded
X no missing columns in today's file
X memory of the train journey
X all replicas in sync again
X DEBUG acquired lock tenant-7 in 2 ms
X validation finished without findings
X 429 employees got a raise
X token bucket explained in ten minutes
X Certificate of origin attached
X retry budget: 3 left
X The disk arrived by mail
X permissions were reviewed by audit
X timeouts are configured in section 4
X the server room temperature is normal
X session about network design starts at 9
"""

SECOND_ROUND = r"""
N requests.exceptions.ConnectTimeout: HTTPSConnectionPool(host='crm.internal', port=443): Max retries exceeded with url: /v2 (Caused by ConnectTimeoutError)
N paho.mqtt: Disconnected unexpectedly, rc=7
N could not receive data from client: Connection reset by peer
N psycopg2.OperationalError: SSL SYSCALL error: Connection timed out
N snowflake.connector.errors.OperationalError: 250003: Failed to get the response. Hanging? method: post
N The remote party closed the WebSocket connection without completing the close handshake.
N Unable to reach the origin server
N Timed out after 120s waiting for rows from the replica
N pysftp: Server connection dropped
N ldap3.core.exceptions.LDAPSocketOpenError: socket connection error while opening
N Selenium: net::ERR_NAME_NOT_RESOLVED
N oracledb.exceptions.OperationalError: DPY-4011: the database or network closed the connection
N Error in downloading file: premature end of Content-Length delimited message body (expected: 9000; received: 4096)
N Spark driver did not hear from executor 3 for 130 s
N consumer poll timed out
N No answer within 5 seconds from inventory
N The SMTP server dropped the session
N upstream not reachable via service mesh
N grpc._channel._MultiThreadedRendezvous: status = StatusCode.DEADLINE_EXCEEDED
N Operation did not complete within the allotted timeout of 00:01:00
N [Errno 101] Network unreachable
N SSLError: bad handshake
N tcp retransmission timeout
T pymysql.err.OperationalError: (1205, 'Lock wait timeout exceeded; try restarting transaction')
T ServiceUnavailableError: capacity is being added
T HubSpot: You have reached your ten_secondly_limit.
T Google Sheets: Quota exceeded for quota metric 'Write requests' and limit 'Write requests per minute per user'
T status code 502 from orders
T DBT: Database Error 1205: deadlocked on lock resources
T BigQuery: Could not serialize access to table prod:jobs due to concurrent update
T Concurrent write to the delta table detected, please retry
T kafka consumer group is rebalancing
T Another instance of the sweep is running (pid 77)
T The resource is locked by user ada
T shard is relocating
T OpenSearch: cluster state is red, waiting for primaries
T Redis failover in progress
T Server is starting up, please wait
T GitHub Actions: The hosted runner lost communication; this is a transient issue
T The upstream service is experiencing an outage
T Backend temporarily out of service
T The file is in use by another process
T The model is loading, estimated time 20 s
T StaleElementReferenceException: element is stale
T Cosmos DB: Request rate too large (429)
T 502: upstream crashed
R psycopg2.errors.OutOfMemory: out of memory
R pyarrow.lib.ArrowMemoryError: malloc of size 8589934592 failed
R polars: allocation of 12 GB failed
R OSError: [Errno 122] Disk quota exceeded: '/home/etl'
R FATAL: could not write lock file "postmaster.pid": No space left on device
R Container exceeded its memory limit and was stopped
R worker terminated by signal 9
R Snowflake: Warehouse 'ETL' has exceeded its credit quota
R MySQL server: Table is full
R The instance has run out of file descriptors
R Twilio: Account balance exhausted
R Elasticsearch: disk watermark [95%] exceeded
R No more connections can be opened
R Kubernetes: exceeded quota: mem, requested: 8Gi
R Lambda: Runtime exited with error: signal: killed
R Job killed for using too much memory
R Slack: storage_limit_reached
R thread pool is exhausted
R ephemeral storage full
R Monthly API allowance has been used
P snowflake.connector.errors.ProgrammingError: SQL access control error: Insufficient privileges to operate on table 'JOBS'
P User: anonymous is not authorized to perform: sqs:SendMessage
P fatal: Authentication failed for 'https://git.internal/jobs.git'
P Slack: invalid_auth
P Slack: missing_scope
P You need to enable MFA to use this API
P Databricks: PERMISSION_DENIED: User does not have USE SCHEMA on Schema 'prod'
P The caller is not a member of this workspace
P 401: token signature is invalid
P certificate-based login rejected: client certificate required
P Session token is no longer valid
P Zendesk: Couldn't authenticate you
P sudo: a password is required
P You are not entitled to use this endpoint
P EPERM: operation not permitted, chmod
P Account has been deactivated
P The API token was deleted or has been disabled
P role etl has no INSERT privilege on runs
P read access to dataset finance is required
V pydantic_core._pydantic_core.ValidationError: 2 validation errors for Order
V Field 'price': must not be negative
V Unexpected column 'ownr' in header
V Cannot parse date: 2026/31/12
V Invalid phone number format
V KeyError: 'order_id'
V "abc" is not a number
V 3 records were rejected by the schema
V The start date must precede the end date
V Body exceeds maximum size of 1 MB
V No value given for required parameter 'since'
V HTTP 422: email has already been taken
V Non-nullable column owner contains nulls
V found unexpected end of stream while parsing YAML
V decimal places exceed scale 2
V The regular expression is invalid
V quantity: expected integer, got string
V Email is not well-formed
V The query returned more than one row
V Wrong number of arguments: 3 instead of 2
V unsupported locale 'xx_XX'
V checksum of part 3 does not match
V Unable to coerce 'ten' to int
V jsonschema: None is not of type 'string'
V enum value out of set: 'paused'
V duplicate column 'owner' in header
V nothing to import: the file is empty
V zip: not a valid zip file
X ModuleNotFoundError: No module named 'openpyxl'
X Error: unknown
X task failed
X Command '['dbt', 'run']' returned non-zero exit status 1.
X bucket 'raw' does not exist
X 404: run 77 not found
X Table jobs was dropped
X TypeError-free code is a myth
X Exception: boom
X The workflow definition no longer exists
X HTTP 410 Gone
X INFO completed 403 of 500 orders
X INFO nothing to retry
X The connection to Paris was missed by two tourists
X Timeouts were discussed at the retrospective
X The network of friends grew
X free memory 2 GB of 8 GB
X access log rotated
X DNS training booked
X The author is unavailable for interviews
X He validated the parking ticket
X the limit of my patience
X Throttle body cleaned
X permission to land granted
X 0 permission errors in audit
X all locks released
X server capacity doubled
X the deadline was extended by a week
X login page redesigned
X the disk spins at 7200 rpm
X lease agreement signed by both parties
X the format of the conference changed
X INFO token expires in 3600 s
"""  # noqa: E501
