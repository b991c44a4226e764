"""Sentences and logs that use the words of failures and tell of none, or of none that anybody could name."""

from __future__ import annotations

SENTENCES = r"""
X The invoice was already paid last week
X Her card was declined politely at the ball
X The plan does not include lunch
X The ticket expired unnoticed in a drawer
X He was not assigned to the role of Hamlet
X The audience and the issuer of the tickets met
X The clock on the tower is skewed
X A cycle path was found near the river
X The circular reference desk is on the second floor
X The key to the cellar was rejected by the museum
X The lease on the flat was signed in May
X The worker lost his hat
X The executor of the will died in 1911
X Nobody was crashed into
X The fence is in progress
X Our slow consumer market grew by two percent
X The pool was closed for the winter
X The node of the plant was green
X Please wait for the tone
X You must wait until spring
X The port is already in Lisbon
X The link to the article was shared
X Traffic on the network bridge was light
X The host was out of jokes
X Too many cooks spoil the broth
X The users are too many to name
X Ten files exist
X Is a directory of members printed this year?
X It was not a directory but a novel
X Our protocol officer will greet you
X The protocol of the meeting was approved
X He was unable to attend because of the weather
X The company was in transition
X Elections of the leader were held
X The election of a new leader is on Sunday
X The owner of the dog was found
X The missing dog was found
X The missing passport has been found
X The lost key was returned
X Forbidden fruit tastes sweet
X The certificate of the course was framed
X The password of the day is swordfish
X The tokens for the laundry are in the drawer
X The signature dish was excellent
X A valid argument was made by both sides
X The value of the house rose
X The wrong trousers
X The type of soil matters
X The field behind the barn
X A header goal in the last minute
X Column inches in the newspaper
X The parser of the sentence was a linguist
X Invalid carriage restored at the museum
X Illegal parking reduced by the new rules
X Conflict minerals report published
X Merge lanes ahead
X Deadlock talks continue in Geneva
X The locked room mystery sold well
X The busy street was photographed
X Maintenance crew thanked
X Backup generator delivered
X Overload of zucchini this summer
X Resource planning starts in June
X Memory lane tour
X Heap of leaves collected
X Disk golf tournament
X Quota of fish agreed by ministers
X The capacity of the hall is 500
X Exhausted runners crossed the line
X The tank is full
X A full house tonight
X The storage unit was rented
X Limits of growth, second edition
X The thread of the story
X The pipe was broken by frost
X Peer review finished
X The connection between diet and sleep
X Connections at Frankfurt take 45 minutes
X Timeout chair bought for the nursery
X The referee gave a time-out
X The deadline is Friday
X The address of the office changed
X The proxy statement was mailed
X The bridge was closed to traffic
X The gateway to the Alps
X A gateway drug
X The session of parliament ended
X The channel tunnel is 50 km long
X The stream near the cabin dried up
X The server dropped a plate
X The waiter is not available today
X The model posed for an hour
X The primary school was closed
X The replica of the ship is open to visitors
X The broker sold the shares
X Shards of glass removed
X The cluster of grapes
X The region exports wine
X The index rose by two points
X The bucket was empty
X The table in the kitchen
X The schema of the painting
"""

LOGS = r"""
X INFO 17 retries left
X INFO retry 2 of 5 scheduled in 30 s
X INFO connected to broker 10.0.0.2:9092
X INFO connection to db-1 opened in 12 ms
X INFO pool size 20, in use 3, idle 17
X INFO rate limit remaining: 4711
X INFO quota used: 40 of 100 GB
X INFO memory: 512 MB of 2 GB used
X INFO disk: 60% used
X INFO lock acquired after 3 ms
X INFO lock released
X INFO leader elected: node-2
X INFO rebalance finished in 2 s
X INFO certificate renewed, valid until 2027
X INFO token refreshed
X INFO login of user app
X INFO user app logged out
X INFO permission check passed
X INFO schema validated
X INFO 0 rows rejected
X INFO 0 invalid rows
X INFO rejected: 0, accepted: 120
X INFO errors=0 warnings=0
X INFO failed=0 passed=120
X INFO 500 rows written
X INFO 404 pages crawled
X INFO took 503 ms
X INFO took 429 seconds
X INFO status=200
X INFO HTTP 200 OK
X INFO HTTP 204
X INFO 201 Created
X INFO 301 Moved Permanently
X INFO GET /timeouts 200 12ms
X INFO GET /permission-denied 200
X INFO POST /errors/connection 201
X INFO created index errors-2026.11
X INFO created topic dead-letters
X INFO created table failures
X INFO sending alert 'disk full' cleared
X INFO alert resolved: connection refused on db-1
X INFO feature flag timeout_v2 enabled
X INFO set timeout to 60
X INFO max_retries=3 backoff=exponential
X INFO max connections set to 100
X INFO ulimit -n 65536
X INFO open files: 120
X INFO heap: 200 MB
X INFO no deadlocks since start
X INFO no errors found
X INFO no lock contention
X INFO no pending migrations
X INFO nothing to do
X INFO shutting down normally
X INFO server stopped
X INFO server started on port 8080
X INFO worker 7 started
X INFO worker 7 stopped
X INFO job 7 cancelled by user ada
X INFO canary healthy
X INFO replica caught up
X INFO backup completed
X INFO snapshot restored
X INFO maintenance mode off
X INFO maintenance finished
X INFO throttle set to 50%
X INFO cache miss ratio 0.2
X INFO cache evicted 12 entries
X INFO duplicate messages skipped: 3
X INFO skipped 2 duplicates
X INFO checksum ok
X INFO checksum verified
X INFO parsed 12 files
X INFO decoded 4 frames
X INFO DNS cache refreshed
X INFO resolved db-1 to 10.0.0.2
X INFO TLS 1.3 negotiated
X INFO handshake completed in 8 ms
X INFO keepalive 30 s
X INFO heartbeat sent
X INFO heartbeat received from worker 3
X INFO circuit closed again
X INFO circuit breaker closed
X INFO upstream is healthy
X INFO recovered after 2 attempts
X INFO succeeded after 3 retries
X INFO test_connection_refused passed
X INFO test_timeout passed
X DEBUG waiting for lock
X DEBUG waiting for connection
X DEBUG trying again
X DEBUG checking permissions
X DEBUG validating input
X DEBUG reading config
X DEBUG retry policy: exponential
X DEBUG error handler installed
X DEBUG errors will be logged
X DEBUG exception hook set
"""

MORE_SENTENCES = r"""
X The choir went silent after the second verse
X We waited two minutes for the bus
X She gave up after the third lap
X Download the app today
X The transfer window closes in August
X Copy of the will found
X The stream was stocked with trout
X Someone else is taking the minutes
X While the previous speaker was still talking the lights went out
X The migration of geese is under way
X An election is underway in France
X The vacuum cleaner was repaired
X A queue formed outside
X Consumers paused their spending
X The producer of the film was interviewed
X Orders were refused by the kitchen
X Because of heavy traffic we arrived late
X During peak demand prices rise
X The instance of the word was counted
X The capacity crowd cheered
X The memory stick was full of photos
X The bucket list is long
X There is no room for doubt
X No seats left for the concert
X The licence plate was stolen
X The key was removed from the lock
X The secret was withdrawn
X A grant of 5000 euros was approved
X The bill was not approved by parliament
X The project requires approval by the board
X The terms of the truce were accepted
X The report is read-only
X The end came before the start of the season
X The email is not in the archive
X The price is in the catalogue
X Seat belts are compulsory
X The box contains no batteries
X The story has no hero
X The house has no garden
X Twins have different characters
X They have mixed feelings
X A stray cat
X Dangling feet
X An unknown country awaits
X Expectations were not met by the sequel
X Nested dolls from Russia
X The quality gate of the factory
X The shop is in the red
X The traffic light is red
X Health is wealth
X He had difficulties with the accent
X The outage of 1977 is remembered in New York
X The incident was discussed at lunch
X The balance of nature
X The budget was spent on books
X The allowance was used for sweets
X The credits of the film
X Additional connections via Zurich
X Two-step dance
X The bank activated two-factor authentication for everyone
X Access to the museum is free
X The login page is blue
X Signing in takes two seconds
X They agreed to the terms
X The role of the state
X Members can swim for free
X The scope of the survey
X The rights of the child
X The channel is not in the package
X The enumeration of the sheep put him asleep
X The precision of the Swiss
X The template of the cake
X Regex for beginners, second edition
X A spreadsheet of expenses was mailed
X The time stamp on the letter was smudged
X The job was done in five minutes
X The process of making cheese
X The session was fun
X The host thanked the guests
X The loader of the ship
X Sunday's match was postponed
X The deployment of troops was criticised
X INFO waiting for new messages
X INFO waiting for connections on port 80
X INFO consumer paused by operator
X INFO consumer resumed
X INFO queue paused by ada
X INFO upgrade in progress: 3 of 9 nodes
X INFO migration 12 applied
X INFO deployment finished
X INFO failover completed
X INFO instance i-7 terminated by autoscaler
X INFO read_only=false
X INFO state=red->green
X INFO cluster health is green
X INFO token removed from cache
X INFO api_key rotated
X INFO key deleted from cache
X INFO download finished, 40 MB
X INFO export took 12 s
X INFO no new rows
X INFO contains 12 rows and 4 columns
X INFO skipped row 7, already imported
X INFO record already processed, skipped
X INFO invoice 12 already paid, nothing to do
X INFO approval pending for run 7
X INFO budget used 40%
X INFO max_seats=20
X DEBUG accepted terms v2
X DEBUG gave up the lock
X DEBUG nothing heard from node 4 yet, next ping in 5 s
"""
