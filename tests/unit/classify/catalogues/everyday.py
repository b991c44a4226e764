"""What people on call for a shop of Python workflows saw, written without a look at the rules."""

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
