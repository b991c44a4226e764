"""What databases of documents, stores of keys and search engines say."""

from __future__ import annotations

DOCUMENTS = r"""
N pymongo.errors.ServerSelectionTimeoutError: No replica set members match selector "Primary()"
N pymongo.errors.NetworkTimeout: mongo-0:27017: timed out
N MongoNetworkTimeoutError: connection timed out
N MongoServerSelectionError: getaddrinfo ENOTFOUND mongo-0
V E11000 duplicate key error collection: jobs.runs index: _id_ dup key: { _id: 7 }
V pymongo.errors.DuplicateKeyError: E11000 duplicate key error
V Document failed validation
V BSONObj size: 17000000 is invalid. Size must be between 0 and 16793600(16MB)
V Cannot apply $inc to a value of non-numeric type.
V unknown operator: $gtt
V FieldPath field names may not start with '$'.
V bson.errors.InvalidDocument: cannot encode object: <Job>
V The dollar ($) prefixed field '$x' in '$x' is not valid for storage.
V Unrecognized pipeline stage name: '$mach'
P Authentication failed.
P not authorized on jobs to execute command { find: "runs" }
P command find requires authentication
P bad auth : authentication failed
P user is not allowed to do action [find] on [jobs.runs]
T not primary and secondaryOk=false
T node is recovering
T WriteConflict error: this operation conflicted with another operation. Please retry your operation or multi-document transaction.
T Transaction 7 has been aborted.
T interrupted at shutdown
T The primary has stepped down
R Exceeded memory limit for $group, but didn't allow external sort.
R Sort exceeded memory limit of 104857600 bytes
R you are over your space quota, using 513 MB of 512 MB
N operation exceeded time limit
N cursor id 42 timed out
X ns not found
X CursorNotFound: cursor id 42 not found
T ProvisionedThroughputExceededException
V ConditionalCheckFailedException: The conditional request failed
T TransactionConflictException: Transaction is ongoing for the item
T TransactionCanceledException: Transaction cancelled, please refer cancellation reasons for specific reasons [TransactionConflict]
V ValidationException: Item size has exceeded the maximum allowed size
X ResourceNotFoundException: Requested resource not found
T ResourceInUseException: Table is being created: jobs
T RequestLimitExceeded: Throughput exceeds the current throughput limit for your account
N com.datastax.oss.driver.api.core.AllNodesFailedException: Could not reach any contact point
N cassandra.cluster.NoHostAvailable: ('Unable to connect to any servers', {'10.0.0.1': OSError(None)})
N cassandra.OperationTimedOut: errors={'10.0.0.1': 'Client request timeout'}, last_host=10.0.0.1
N cassandra.ReadTimeout: Error from server: code=1200 [Coordinator node timed out waiting for replica nodes' responses]
N cassandra.WriteTimeout: code=1100 [Coordinator node timed out waiting for replica nodes' responses]
T cassandra.Unavailable: code=1000 [Unavailable exception] Cannot achieve consistency level LOCAL_QUORUM
T cassandra.OverloadedErrorMessage: code=1001 [Coordinator node overloaded]
T cassandra: code=1002 [Coordinator node is bootstrapping]
V cassandra.InvalidRequest: code=2200 [Invalid query] message="Undefined column name ownr"
V SyntaxException: line 1:7 no viable alternative at input 'FORM'
P cassandra.Unauthorized: code=2100 [Unauthorized] User app has no SELECT permission on <table jobs>
P cassandra.AuthenticationFailed: Failed to authenticate to 10.0.0.1
V cassandra.AlreadyExists: Table 'jobs.runs' already exists
R Batch too large
T couchbase: temporary failure, server is busy
T Neo.TransientError.Transaction.DeadlockDetected: ForsetiClient can't acquire lock
V Neo.ClientError.Statement.SyntaxError: Invalid input 'MACH'
V Neo.ClientError.Schema.ConstraintValidationFailed: Node already exists with label
P Neo.ClientError.Security.Unauthorized: The client is unauthorized due to authentication failure.
R Neo.TransientError.General.OutOfMemoryError: There is not enough memory to perform the current task.
R Code: 241. DB::Exception: Memory limit (total) exceeded
T Code: 202. DB::Exception: Too many simultaneous queries. Maximum: 100.
N Code: 159. DB::Exception: Timeout exceeded: elapsed 60 seconds
V Code: 47. DB::Exception: Missing columns: 'ownr' while processing query
V Code: 60. DB::Exception: Table default.jbos doesn't exist
T Code: 252. DB::Exception: Too many parts (300). Merges are processing significantly slower than inserts
T TABLE_IS_READ_ONLY: Table is in readonly mode
R influxdb: max-series-per-database limit exceeded
"""  # noqa: E501

REDIS = r"""
N Error 111 connecting to redis:6379. Connection refused.
N Connection closed by server.
N Error while reading from redis:6379 : (104, 'Connection reset by peer')
N Timeout reading from socket
N Error -2 connecting to redis:6379. Name or service not known.
P NOAUTH Authentication required.
P WRONGPASS invalid username-password pair or user is disabled.
P NOPERM User app has no permissions to run the 'config' command
P invalid password
P ERR Client sent AUTH, but no password is set
V WRONGTYPE Operation against a key holding the wrong kind of value
V ERR wrong number of arguments for 'set' command
V ERR value is not an integer or out of range
V ERR unknown command 'SETT'
V ERR syntax error
V ERR invalid expire time in 'set' command
V ERR increment or decrement would overflow
V ERR DB index is out of range
V CROSSSLOT Keys in request don't hash to the same slot
V BUSYGROUP Consumer Group name already exists
R OOM command not allowed when used memory > 'maxmemory'.
R MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.
R ERR max number of clients reached
T LOADING Redis is loading the dataset in memory
T BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.
T CLUSTERDOWN Hash slot not served
T MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.
T READONLY You can't write against a read only replica.
T TRYAGAIN Multiple keys request during rehashing of slot
T NOREPLICAS Not enough good replicas to write.
T UNBLOCKED force unblock from blocking operation, instance state changed
T redis.exceptions.LockError: Unable to acquire lock within the time specified
T redis.exceptions.LockNotOwnedError: Cannot release a lock that's no longer owned
X NOSCRIPT No matching script. Please use EVAL.
X NOGROUP No such key 'jobs' or consumer group 'workers'
T Redis is starting up
R SERVER_ERROR out of memory storing object
V SERVER_ERROR object too large for cache
V CLIENT_ERROR bad data chunk
N memcached: server 10.0.0.1:11211 marked dead
"""

SEARCH = r"""
T RequestError: es_rejected_execution_exception
T TransportError(429, 'es_rejected_execution_exception', 'rejected execution of primary operation')
R TransportError(429, 'circuit_breaking_exception', '[parent] Data too large')
R circuit_breaking_exception: [parent] Data too large, data for [<http_request>] would be [1.1gb]
X NotFoundError(404, 'index_not_found_exception', 'no such index [jobs]', jobs, index_or_alias)
T ConflictError(409, 'version_conflict_engine_exception', '[7]: version conflict, current version [3] is different')
V RequestError(400, 'mapper_parsing_exception', 'failed to parse field [size] of type [long]')
V RequestError(400, 'resource_already_exists_exception', 'index [jobs/abc] already exists')
V RequestError(400, 'parsing_exception', 'unknown query [mach]')
V illegal_argument_exception: Text fields are not optimised for operations that require per-document field data
V strict_dynamic_mapping_exception: mapping set to strict, dynamic introduction of [ownr] within [_doc] is not allowed
V Result window is too large, from + size must be less than or equal to: [10000] but was [10100]
V too_many_clauses: maxClauseCount is set to 1024
V Limit of total fields [1000] has been exceeded
R too_many_buckets_exception: Trying to create too many buckets. Must be less than or equal to: [65535]
R this action would add [2] shards, but this cluster currently has [1000]/[1000] maximum shards open
R cluster_block_exception: index [jobs] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark, index has read-only-allow-delete block];
P AuthorizationException(403, 'security_exception', 'no permissions for [indices:data/write/bulk] and User [name=app]')
P AuthenticationException(401, 'security_exception', 'missing authentication credentials for REST request')
T cluster_manager_not_discovered_exception
T master_not_discovered_exception
T no_shard_available_action_exception: No shard available for [get [jobs][_doc][7]]
T search_phase_execution_exception: all shards failed
T unavailable_shards_exception: [jobs][0] primary shard is not active
T cluster_block_exception: blocked by: [SERVICE_UNAVAILABLE/1/state not recovered / initialized];
T process_cluster_event_timeout_exception: failed to process cluster event (create-index) within 30s
N ConnectionError(<urllib3.connection.HTTPConnection object>: Failed to establish a new connection: [Errno 111] Connection refused)
N ConnectionTimeout caused by - ReadTimeoutError(HTTPConnectionPool(host='os', port=9200): Read timed out.)
N node_disconnected_exception: [node-2][10.0.0.2:9300][indices:data/read/get] disconnected
N receive_timeout_transport_exception: [node-2] request_id [7] timed out after [30000ms]
X document_missing_exception: [7]: document missing
X index_closed_exception: closed
X search_context_missing_exception: No search context found for id [7]
N None of the configured nodes were available
"""  # noqa: E501
