"""Failures in the plainest words, and sentences as short that tell of none; 3 of a hundred were wrong at first."""

from __future__ import annotations

PLAIN = """
N Connection to redis lost
N Failed to establish a new connection: [Errno 110] Connection timed out
N The request timed out after 30 seconds
N upstream connect timeout
N SSL: certificate verify failed
N host unreachable
N Network error while downloading dataset
N The server closed the connection without a response
N DNS resolution failed for api.internal
N gateway timeout waiting for search
N read: operation timed out
N Remote end closed connection
N could not connect to broker kafka-1:9092
N TLS handshake failed with peer
N proxy error: connection refused
N task exceeded its time limit of 600 s
N MQTT client disconnected
N connection pool: connection is dead
N ping to database failed
T rate limit hit, try again in 60s
T HTTP 503 Service Unavailable from orders
T server overloaded
T database deadlock detected, transaction rolled back
T resource temporarily unavailable
T optimistic locking failure: row was modified
T cluster is rebalancing
T master election in progress
T The service is under maintenance
T Too many requests, please slow down
T could not acquire lock within 10 s
T 502 bad gateway
T Service is restarting
T lock is held by another worker
T temporary error in backend
T Job is already running
T version conflict on update
T throttled by DynamoDB
T index is read-only during snapshot
T circuit breaker open for payments
R disk full
R out of memory
R quota exceeded for project
R no space left
R too many open files in process
R CUDA out of memory
R memory limit exceeded
R connection pool exhausted
R max number of connections reached
R storage quota reached
R insufficient disk space
R queue is full, cannot enqueue
R pod was OOM killed
R inodes exhausted
R not enough workers available: capacity reached
R heap exhausted
R thread pool full
R file too big for the remaining space: no space left on device
R license limit reached
P permission denied
P access denied for user etl
P 401 unauthorized
P 403 forbidden
P invalid credentials
P token expired
P authentication failed
P not authorized
P insufficient permissions
P api key invalid
P login required
P user is not allowed to run this workflow
P SSL client cert rejected: access denied
P the account is locked
P read-only file system
P missing scope: repo
P operation not permitted
P Forbidden: missing role editor
P invalid signature
P session expired
V invalid input
V missing required field: name
V validation failed
V malformed JSON
V could not parse date
V unexpected token in JSON
V value out of range
V unknown parameter 'foo'
V bad request: body is empty
V schema validation error
V duplicate entry
V unsupported format
V type error: expected int
V null value not allowed
V invalid email
V constraint violation
V wrong number of columns
V cannot decode utf-8
V file is empty
V checksum mismatch
X file not found
X something failed
X unknown
X exit code 1
X no such workflow
X not implemented
X module not found
X 404 not found
X unexpected exception
X timeouts are configurable
X the network effect
X connection to nature
X memory of a goldfish
X disk space report sent
X permission form attached
X invalid tickets will be collected at the exit door
X the lock was changed
X limited edition
X temporary staff welcome
X rate my professor
X service was excellent
X resource page updated
X validate your parking ticket here
X forbidden planet, a film of 1956
X timeout called by the coach
X server at the restaurant
X peer review accepted
X quota of women on boards
X 503 guests attended
X token of appreciation
X bad weather
X key west
X busy signal sound effect
X overloaded truck stopped by police
"""
