"""Later rounds of what people on call saw, written before any was tried."""

from __future__ import annotations

THIRD_ROUND = r"""
N HTTPConnectionPool(host='localhost', port=8080): Read timed out. (read timeout=10)
N OSError: [Errno 107] Transport endpoint is not connected
N aiohttp.client_exceptions.ClientConnectorError: Cannot connect to host api:443 ssl:default [Name or service not known]
N httpx.ReadTimeout
N httpcore.RemoteProtocolError: Server disconnected without sending a response.
N requests.exceptions.SSLError: HTTPSConnectionPool(host='x', port=443): Max retries exceeded with url: / (Caused by SSLError(1, '[SSL: TLSV1_ALERT_INTERNAL_ERROR] tlsv1 alert internal error'))
N pymongo.errors.NetworkTimeout: cluster0:27017: The read operation timed out
N elasticsearch.exceptions.ConnectionTimeout: ConnectionTimeout caused by - ReadTimeoutError
N botocore.exceptions.EndpointConnectionError: Could not connect to the endpoint URL: "https://sts.eu.amazonaws.com/"
N socket.timeout: timed out
N redis.exceptions.TimeoutError: Timeout connecting to server
N google.api_core.exceptions.RetryError: Timeout of 60.0s exceeded
N dramatiq: time limit exceeded in actor sweep
N Unable to fetch secrets: dial tcp 10.0.0.1:8200: connect: network is unreachable
N FTP: the data connection was broken
N SOAP call failed: Could not send Message. Connection refused
N sensor 'wait_for_file' timed out after 2 h
N Sub-process did not finish in 600 seconds and was stopped
N ClickHouse: Broken pipe while writing to socket
N connection pool: server closed the connection
N websockets.exceptions.ConnectionClosedError: no close frame received or sent
N playwright._impl._errors.TimeoutError: Page.goto: Timeout 30000ms exceeded.
T botocore.exceptions.ClientError: An error occurred (ThrottlingException) when calling the StartQueryExecution operation: Rate exceeded
T googleapiclient.errors.HttpError: <HttpError 503 when requesting https://www.googleapis.com returned "Backend Error">
T slack_sdk.errors.SlackApiError: ratelimited
T github.GithubException: 403 API rate limit exceeded for installation
T requests.exceptions.HTTPError: 502 Server Error: Bad Gateway for url: http://svc/
T redis.exceptions.ReadOnlyError: You can't write against a read only replica.
T sqlalchemy.exc.OperationalError: (psycopg2.errors.DeadlockDetected) deadlock detected
T django.db.utils.OperationalError: database is locked
T kafka.errors.UnknownMemberIdError
T airflow: Task instance was killed externally while the scheduler restarted
T The server is not ready to handle the request
T Job rejected: the queue is draining for an upgrade
T delta.exceptions.ConcurrentAppendException
T Terraform: Error acquiring the state lock
T dbt Cloud: run was canceled because a newer run was triggered
T apt: Could not get lock /var/lib/dpkg/lock
T Shopify: Exceeded 2 calls per second for api client
T Azure: OperationPreempted
T Cluster is being resized, try again in a few minutes
T upstream sent HTTP/1.1 503
T The lease is held by another owner
T optimistic lock failed: version 3 expected, found 4
R MemoryError
R ray.exceptions.OutOfMemoryError
R OSError: [Errno 28] No space left on device
R dask: worker exceeded 95% of its memory limit and was restarted
R psycopg2.OperationalError: FATAL: remaining connection slots are reserved for roles with the SUPERUSER attribute
R numpy.core._exceptions.MemoryError: Unable to allocate 3.2 GiB
R torch.cuda.OutOfMemoryError: CUDA out of memory.
R openai.RateLimitError: You exceeded your current quota
R Error: ENOSPC: no space left on device, copyfile
R cannot allocate 4.0 GB: only 1.2 GB free
R cgroup: memory limit hit
R the mailbox of reports@ is over its quota
R you have used all of your build minutes
R DynamoDB: Subscriber limit exceeded: too many tables
R insufficient disk space: need 20 GB, have 3 GB
R Spark: Container killed on request. Exit code is 137
R no more file handles
R the job exceeded its memory request
P PermissionError: [Errno 13] Permission denied: '/srv/out/a.csv'
P requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: http://svc/
P HTTP 403: Forbidden
P psycopg2.errors.InsufficientPrivilege: permission denied for table runs
P google.auth.exceptions.RefreshError: invalid_grant
P botocore.exceptions.ClientError: An error occurred (AccessDeniedException) when calling the GetSecretValue operation
P hvac.exceptions.Forbidden: permission denied
P smtplib.SMTPAuthenticationError: (535, b'Authentication credentials invalid')
P jwt.exceptions.ExpiredSignatureError: Signature has expired
P redis.exceptions.AuthenticationError: Authentication required.
P git: could not read Password for 'https://bot@git.internal'
P account is locked after too many failed logins
P only the workspace owner can publish
P not authorised to approve run 7
P X.509 client certificate was not accepted by the gateway: access denied
P the app has not been approved by your organisation
P token does not grant the scope 'repo:write'
P user must accept the terms of service first
P the share is mounted read-only
P ticket requires approval by a manager
V ValueError: time data '' does not match format '%Y'
V TypeError: 'float' object is not iterable
V KeyError: 'amount'
V json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)
V pandas.errors.ParserError: Error tokenizing data
V pydantic.error_wrappers.ValidationError: 1 validation error for Job
V UnicodeDecodeError: 'utf-8' codec can't decode byte 0xe9
V psycopg2.errors.NotNullViolation: null value in column "a" violates not-null constraint
V sqlalchemy.exc.IntegrityError: (sqlite3.IntegrityError) UNIQUE constraint failed: runs.id
V great_expectations: 3 of 40 expectations failed
V marshmallow.exceptions.ValidationError: {'age': ['Missing data for required field.']}
V botocore.exceptions.ParamValidationError: Parameter validation failed
V requests.exceptions.MissingSchema: Invalid URL 'x': No scheme supplied
V HTTP 400: "since" must be an ISO date
V cannot cast string 'x' to date
V row 12 has too many columns
V the order has an unknown status: 'lost'
V tax rate must be between 0 and 1
V the file has an unsupported extension
V invoice date lies in the future
V no column named 'owner' in the input
V values do not sum to 100
V nested too deeply
V unparseable amount '12,,5'
V input is empty
V yaml: could not find expected ':'
V cron expression '61 * * * *' is invalid
V arguments a and b are mutually exclusive
V item 4: price missing
V the two data frames have different columns
X FileNotFoundError: [Errno 2] No such file or directory: 'in.csv'
X NameError: name 'pd' is not defined
X AttributeError: 'NoneType' object has no attribute 'get'
X RuntimeError: something went wrong
X NotImplementedError
X jinja2.exceptions.TemplateNotFound: report.html
X workflow 'sweep' is not registered
X Exception
X panic
X unexpected error
X dag run failed
X ZeroDivisionError: division by zero
X model 'bert-9' does not exist
X S3 key raw/a.csv not found
X INFO 503 orders shipped on time
X INFO timeout raised from 30 to 60 s
X INFO connected, no errors
X INFO rate limit headroom 80%
X INFO lock wait 0 ms
X INFO disk check passed
X INFO token valid for 3600 s
X INFO auth ok for user app
X all connections returned to the pool
X the release was approved by the owner
X a network of 40 sensors was installed
X the permission slip is in the bag
X memory usage back to normal
X deadlock resolved by retry, all rows written
X schema registry updated to version 9
X invalid rows moved to quarantine, load complete
X resource names were harmonised
X the timeout policy has been documented
X DNS migration finished without errors
X payment received
X quota increase approved
"""  # noqa: E501

FOURTH_ROUND = r"""
N Could not load page: connection was reset while the page was loading
N paramiko.ssh_exception.SSHException: Server connection dropped
N The operation was not completed within 15 minutes
N Unable to open connection to the SAP gateway
N urllib3.exceptions.ProtocolError: ('Connection broken: IncompleteRead(12 bytes read)')
N Read from S3 stalled for 60 s and was aborted: timeout
N dns: cannot find host metrics.internal
N request to billing did not come back in time
N psycopg.OperationalError: consuming input failed: server closed the connection unexpectedly
N sqlalchemy.exc.OperationalError: (pymysql.err.OperationalError) (2006, 'MySQL server has gone away')
N Peer certificate cannot be authenticated with given CA certificates
N ERROR: HTTPS proxy refused the CONNECT request
N snowflake: connection is closed
N wait_for_http timed out
N prefect: flow run heartbeat lost
N Target host is down
N Port 5432 on db-2 is closed
N expired deadline while calling pricing
N unable to send request: network changed
N could not complete TLS negotiation
T celery: worker lost, task will be requeued
T HTTP 503 from vault: node is standby
T Salesforce REQUEST_LIMIT_EXCEEDED
T server too busy to accept the job
T transaction rolled back because of a conflict
T pool of browsers is restarting
T index is being rebuilt
T API returned 429, backing off
T Too many concurrent runs, try later
T Could not obtain exclusive lock on table runs
T the job store is in maintenance until 06:00
T a leader has not been elected yet
T NetSuite: concurrent request limit reached
T SharePoint: server busy
T internal error, please retry the request
T database is in recovery
T Stripe: 500 api_error
T rate of requests is too high
T partition has no leader
T the volume is still attached to another node
R process was killed by the kernel: out of memory
R no space on /var
R root partition 100% used
R quota for user etl exceeded
R GPU memory exhausted
R not enough shared memory
R Maximum number of workers reached
R swap space exhausted
R EC2: InsufficientInstanceCapacity
R S3 bucket quota reached
R MAX_FILES exceeded: too many open file descriptors
R Unable to allocate array with shape (90000, 90000)
R log directory has no space left
R too many sessions for this user
R heap limit reached
R Notion: storage plan limit exceeded
R job needs 64 GB but the node has 32 GB: insufficient memory
R connection slots exhausted
R cannot start container: no memory available
P access token expired at 12:00
P bot was blocked by the user
P permission to read topic runs missing
P CSRF token mismatch
P user etl is not allowed to create tables
P s3: access to bucket raw denied
P GitLab: insufficient_scope
P vault token has expired
P API key revoked
P sign-in required
P login as etl failed: bad password
P the certificate's owner is not authorized for this topic
P IAM role may not pass role admin
P not a superuser
P Forbidden by robots policy
P 403 while uploading report
P cannot open key file: permission denied
P kerberos ticket expired
P ACL does not permit write on /runs
P workspace access has been revoked
V invalid value 'x' for parameter since
V missing column: owner
V expected a list, got a dict
V could not parse '12h' as a number
V bad date: 30/02
V field owner is required
V string does not match pattern ^[a-z]+$
V value 300 is above the maximum of 255
V schema validation failed at $.items[3]
V malformed CSV at line 9
V duplicate id 77
V unsupported content type text/html
V JSON too large
V unknown field 'ownr'
V type mismatch: int vs str
V foreign key violation on runs.job_id
V XML is not well formed
V checksum error in chunk 4
V image is corrupt
V negative quantity is not allowed
X flow failed
X no such task: swep
X exit code 2
X plugin 'slak' not found
X assertion failed
X connection to the past
X retry succeeded after timeout
X timeouts: 0, errors: 0
X memory foam mattress delivered
X the lock screen is blue
X INFO closed 3 idle connections
X INFO rate limiter initialised
X INFO throttling disabled
X INFO permission cache warmed
X 403 files uploaded
X 500 words written
X all timeouts increased by 10 s
X quota raised to 1 TB
X validation succeeded for 12 files
X certificate valid until 2031
X connection quality improved
X the resource group was renamed
X temporary licence issued
X network of friends
X deadline met
X disk replaced, array healthy
X the invalid's chair was repaired
X busy week ahead
X Access to the beach is free
"""
