"""Message brokers, workflow engines and engines of computation."""

from __future__ import annotations

KAFKA = r"""
N NoBrokersAvailable
N KafkaError{code=_TRANSPORT,val=-195,str="broker:9092: Connect to ipv4#10.0.0.1:9092 failed: Connection refused"}
N KafkaError{code=_ALL_BROKERS_DOWN,val=-187,str="2/2 brokers are down"}
N KafkaError{code=_TIMED_OUT,val=-185,str="Local: Timed out"}
N KafkaError{code=_MSG_TIMED_OUT,val=-192,str="Local: Message timed out"}
N KafkaError{code=_RESOLVE,val=-193,str="Local: Host resolution failure"}
N org.apache.kafka.common.errors.TimeoutException: Topic jobs not present in metadata after 60000 ms.
N org.apache.kafka.common.errors.TimeoutException: Expiring 3 record(s) for jobs-0: 120000 ms has passed since batch creation
N org.apache.kafka.common.errors.DisconnectException
N org.apache.kafka.common.errors.NetworkException: The server disconnected before a response was received.
N KafkaTimeoutError: Failed to update metadata after 60.0 secs.
N KafkaConnectionError: socket disconnected
T org.apache.kafka.common.errors.NotLeaderOrFollowerException: For requests intended only for the leader, this error indicates that the broker is not the current leader.
T NotLeaderForPartitionError
T LEADER_NOT_AVAILABLE
T GROUP_COORDINATOR_NOT_AVAILABLE
T COORDINATOR_LOAD_IN_PROGRESS
T NOT_COORDINATOR
T REBALANCE_IN_PROGRESS
T UNKNOWN_MEMBER_ID
T ILLEGAL_GENERATION
T NOT_ENOUGH_REPLICAS: Messages are rejected since there are fewer in-sync replicas than required.
T CommitFailedException: Commit cannot be completed since the group has already rebalanced and assigned the partitions to another member.
T KafkaError{code=_MAX_POLL_EXCEEDED,val=-147,str="Application maximum poll interval (300000ms) exceeded by 12ms"}
T org.apache.kafka.common.errors.ProducerFencedException: There is a newer producer with the same transactionalId
T THROTTLING_QUOTA_EXCEEDED
R KafkaError{code=_QUEUE_FULL,val=-184,str="Local: Queue full"}
R BufferError: Local: Queue full
R org.apache.kafka.common.errors.KafkaStorageException: Disk error when trying to access log file on the disk.
V MessageSizeTooLargeError: The message is 1048900 bytes when serialized which is larger than the maximum request size
V MESSAGE_TOO_LARGE
V org.apache.kafka.common.errors.RecordTooLargeException: The message is 1600000 bytes
V INVALID_TOPIC_EXCEPTION
V org.apache.kafka.common.errors.SerializationException: Error deserializing Avro message for id 7
V org.apache.kafka.common.errors.InvalidReplicationFactorException: Replication factor: 3 larger than available brokers: 1.
V TopicExistsException: Topic 'jobs' already exists.
V Schema being registered is incompatible with an earlier schema
V CORRUPT_MESSAGE
P TOPIC_AUTHORIZATION_FAILED
P GROUP_AUTHORIZATION_FAILED
P org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access topics: [jobs]
P SASL_AUTHENTICATION_FAILED
P org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed: Invalid username or password
P CLUSTER_AUTHORIZATION_FAILED
X UNKNOWN_TOPIC_OR_PARTITION
X KafkaError{code=UNKNOWN_TOPIC_OR_PART,val=3,str="Broker: Unknown topic or partition"}
"""  # noqa: E501

QUEUES = r"""
N pika.exceptions.AMQPConnectionError
N pika.exceptions.StreamLostError: Stream connection lost: ConnectionResetError(104, 'Connection reset by peer')
N pika.exceptions.ConnectionClosedByBroker: (320, "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'")
N amqp.exceptions.ConnectionForced: Too many heartbeats missed
N missed heartbeats from client, timeout: 60s
N kombu.exceptions.OperationalError: [Errno 111] Connection refused
N Connection to broker lost. Trying to re-establish the connection...
N nats: timeout
N nats: connection closed
N nats: stale connection
T nats: no responders available for request
T nats: JetStream system temporarily unavailable
R nats: maximum payload exceeded memory resource
R nats: slow consumer, messages dropped
R nats: insufficient resources
R maximum consumers limit reached
P nats: authorization violation
P nats: permissions violation for publish to "jobs.run"
P ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN.
P ACCESS_REFUSED - access to queue 'jobs' in vhost '/' refused for user 'app'
P NOT_ALLOWED - access to vhost 'prod' refused for user 'app'
X NOT_FOUND - no queue 'jobs' in vhost '/'
X NOT_FOUND - no exchange 'events' in vhost '/'
V PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'jobs' in vhost '/': received 'true' but current is 'false'
V PRECONDITION_FAILED - unknown delivery tag 7
V COMMAND_INVALID - unknown exchange type 'fanuot'
V FRAME_ERROR - type 3, all octets = <<>>
V UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead
T RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'jobs'
T INTERNAL_ERROR - closed by management plugin
R RESOURCE_ERROR - memory alarm is active
R connection blocked: low on memory
R connection.blocked: low on disk
X NOT_IMPLEMENTED - immediate=true
V nats: maximum payload exceeded
V nats: invalid subject
X nats: stream not found
X nats: no stream matches subject
T nats: wrong last sequence: 41
V SQS: Message must be shorter than 262144 bytes.
T AWS.SimpleQueueService.QueueDeletedRecently: You must wait 60 seconds after deleting a queue before you can create another with the same name.
P MQTT: Connection Refused, not authorised.
P MQTT: Connection Refused, bad user name or password.
N ZMQError: Host unreachable
T zmq.error.Again: Resource temporarily unavailable
"""  # noqa: E501

WORKFLOWS = r"""
N celery.exceptions.TimeLimitExceeded: TimeLimitExceeded(300,)
N celery.exceptions.SoftTimeLimitExceeded: SoftTimeLimitExceeded()
T billiard.exceptions.WorkerLostError: Worker exited prematurely: exitcode 1.
R billiard.exceptions.WorkerLostError: Worker exited prematurely: signal 9 (SIGKILL) Job: 7.
X celery.exceptions.NotRegistered: 'jobs.swep'
X Received unregistered task of type 'jobs.swep'.
T celery.exceptions.Retry: Retry in 30s
X celery.exceptions.Ignore
V kombu.exceptions.EncodeError: Object of type Job is not JSON serializable
T celery.exceptions.WorkerShutdown
N airflow.exceptions.AirflowTaskTimeout: Timeout, PID: 77
N airflow.exceptions.AirflowSensorTimeout: Sensor has timed out; run duration of 3600.0 seconds exceeds the specified timeout of 3600.0.
X airflow.exceptions.AirflowSkipException
X airflow.exceptions.DagNotFound: Dag id sweep not found
X airflow.exceptions.AirflowNotFoundException: The conn_id `warehouse` isn't defined
V airflow.exceptions.AirflowDagCycleException: Cycle detected in DAG.
V airflow.exceptions.DuplicateTaskIdFound: Task id 'load' has already been added to the DAG
X Broken DAG: [/dags/sweep.py] No module named 'util'
T Task exited with return code -15
R Task exited with return code Negsignal.SIGKILL
T Detected zombie job: task instance has not heartbeated
V temporalio.exceptions.WorkflowAlreadyStartedError: Workflow execution already started
N temporalio.exceptions.TimeoutError: activity StartToClose timeout
N activity Heartbeat timeout
N temporalio.exceptions.TimeoutError: workflow ScheduleToStart timeout
V BlobSizeLimitError: Complete result exceeds size limit.
X workflow not found for ID: sweep-7
X Namespace prdo is not found.
N prefect.exceptions.FlowRunTimedOut
N Flow run exceeded timeout of 60.0 second(s)
X prefect.exceptions.ObjectNotFound: Http error: 404 Not Found
V prefect.exceptions.ParameterTypeError: Flow run received invalid parameters
V prefect.exceptions.ParameterBindError: Error binding parameters for function
X prefect.exceptions.MissingResult: State data is missing.
T prefect.exceptions.CrashedRun: Flow run encountered an exception
R distributed.scheduler.KilledWorker: Attempted to run task on 3 different workers, but all those workers died while running it.
N distributed.comm.core.CommClosedError: in <TCP (closed)>: Stream is closed
N OSError: Timed out trying to connect to tcp://10.0.0.1:8786 after 30 s
R distributed.nanny - WARNING - Worker exceeded 95% memory budget. Restarting
T ray.exceptions.WorkerCrashedError: The worker died unexpectedly while executing this task.
R ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.
N ray.exceptions.GetTimeoutError: Get timed out: some object(s) not ready.
T ray.exceptions.ActorUnavailableError: The actor is temporarily unavailable
T ray.exceptions.ObjectLostError: Failed to retrieve object
R ray.exceptions.ObjectStoreFullError
V org.apache.spark.sql.AnalysisException: cannot resolve '`ownr`' given input columns: [owner, size]
V org.apache.spark.sql.catalyst.parser.ParseException: mismatched input 'FORM'
X org.apache.spark.sql.AnalysisException: Path does not exist: s3://in/a.parquet
X org.apache.spark.sql.AnalysisException: Table or view not found: jobs
R org.apache.spark.SparkException: Job aborted due to stage failure: java.lang.OutOfMemoryError: Java heap space
R ExecutorLostFailure (executor 4 exited caused by one of the running tasks) Reason: Container killed by YARN for exceeding memory limits.
R Total size of serialized results of 5 tasks is bigger than spark.driver.maxResultSize
N org.apache.spark.rpc.RpcTimeoutException: Futures timed out after [120 seconds].
N Executor heartbeat timed out after 140000 ms
T org.apache.hadoop.hdfs.server.namenode.SafeModeException: Name node is in safe mode.
P org.apache.hadoop.security.AccessControlException: Permission denied: user=app, access=WRITE
R org.apache.hadoop.hdfs.protocol.DSQuotaExceededException: The DiskSpace quota is exceeded
V org.apache.spark.SparkUpgradeException: inconsistent result, fail to parse datetime
T ConcurrentAppendException: Files were added to the root of the table by a concurrent update.
N dbt: Database Error: could not connect to server
V Compilation Error: Model 'runs' depends on a node named 'jbos' which was not found
V Database Error in model runs: column "ownr" does not exist
X dagster._core.errors.DagsterExecutionStepNotFoundError
V dagster._core.errors.DagsterTypeCheckDidNotPass: Type check failed for step output
V dagster._core.errors.DagsterInvalidConfigError: Error in config for job
R Slurm: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)
N slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-18T00:10:00 DUE TO TIME LIMIT ***
R slurmstepd: error: Detected 1 oom-kill event(s) in step 7.0
T slurmstepd: error: *** JOB 7 CANCELLED DUE TO PREEMPTION ***
V sbatch: error: Invalid partition name specified
"""  # noqa: E501
