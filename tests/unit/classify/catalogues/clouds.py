"""The clouds, and what runs containers."""

from __future__ import annotations

AWS = r"""
T An error occurred (Throttling) when calling the DescribeStacks operation: Rate exceeded
T ThrottledException: Request was throttled
T An error occurred (TooManyRequestsException) when calling the Invoke operation: Rate Exceeded.
T An error occurred (RequestThrottled) when calling the SendMessage operation
T An error occurred (SlowDown) when calling the PutObject operation: Please reduce your request rate.
T An error occurred (InternalFailure) when calling the CreateQueue operation
T An error occurred (InternalServerError) when calling the Query operation
T An error occurred (ServiceUnavailable) when calling the GetObject operation
T An error occurred (PriorRequestNotComplete) when calling the ChangeResourceRecordSets operation
T An error occurred (OperationAborted) when calling the CreateBucket operation: A conflicting conditional operation is currently in progress against this resource.
T An error occurred (ResourceConflictException) when calling the UpdateFunctionCode operation: An update is in progress
T An error occurred (ConcurrentModificationException) when calling the UpdateStack operation
T An error occurred (IncorrectInstanceState) when calling the StopInstances operation
T An error occurred (KMSInternalException) when calling the Decrypt operation
T EC2ThrottledException: Lambda was throttled by EC2 during function initialization
N An error occurred (RequestTimeout) when calling the PutObject operation: Your socket connection to the server was not read from or written to within the timeout period.
N Could not connect to the endpoint URL: "https://s3.eu-west-9.amazonaws.com/"
N Read timeout on endpoint URL: "https://sqs.eu-west-1.amazonaws.com/"
N Connection was closed before we received a valid response from endpoint URL: "https://s3.amazonaws.com/b"
N Connect timeout on endpoint URL: "https://dynamodb.eu-west-1.amazonaws.com/"
N Task timed out after 900.10 seconds
P An error occurred (AccessDenied) when calling the PutObject operation: Access Denied
P An error occurred (UnrecognizedClientException) when calling the ListTables operation: The security token included in the request is invalid.
P An error occurred (InvalidAccessKeyId) when calling the ListBuckets operation
P An error occurred (AuthFailure) when calling the DescribeInstances operation
P An error occurred (ExpiredTokenException) when calling the AssumeRole operation
P An error occurred (OptInRequired) when calling the RunInstances operation: You are not subscribed to this service.
P An error occurred (RequestExpired) when calling the DescribeInstances operation: Request has expired.
P An error occurred (KMSAccessDeniedException) when calling the Invoke operation
P An error occurred (AllAccessDisabled) when calling the GetObject operation: All access to this object has been disabled
P An error occurred (NotAuthorized) when calling the Publish operation
P An error occurred (MissingAuthenticationToken) when calling the GetQueueUrl operation
P botocore.exceptions.NoCredentialsError: Unable to locate credentials
P botocore.exceptions.TokenRetrievalError: Error when retrieving token from sso: Token has expired and refresh failed
P The SSO session associated with this profile has expired or is otherwise invalid.
X An error occurred (NoSuchBucket) when calling the ListObjects operation: The specified bucket does not exist
X An error occurred (404) when calling the HeadObject operation: Not Found
X An error occurred (ResourceNotFoundException) when calling the DescribeTable operation
X An error occurred (AWS.SimpleQueueService.NonExistentQueue) when calling the GetQueueUrl operation: The specified queue does not exist.
X An error occurred (InvalidInstanceID.NotFound) when calling the DescribeInstances operation
X An error occurred (NoSuchEntity) when calling the GetRole operation: The role with name x cannot be found.
X An error occurred (StateMachineDoesNotExist) when calling the StartExecution operation
X An error occurred (ClusterNotFoundException) when calling the RunTask operation: Cluster not found.
V An error occurred (ValidationError) when calling the CreateStack operation: Template format error
V An error occurred (InvalidParameterCombination) when calling the ModifyDBInstance operation
V An error occurred (MalformedPolicyDocument) when calling the PutRolePolicy operation
V An error occurred (EntityAlreadyExists) when calling the CreateRole operation
V An error occurred (BucketAlreadyExists) when calling the CreateBucket operation
V An error occurred (InvalidBucketName) when calling the CreateBucket operation
V An error occurred (EntityTooLarge) when calling the PutObject operation
V An error occurred (MissingParameter) when calling the RunInstances operation
V An error occurred (MalformedXML) when calling the DeleteObjects operation
V An error occurred (SerializationException) when calling the PutItem operation
V An error occurred (PreconditionFailed) when calling the PutObject operation
V An error occurred (InvalidRange) when calling the GetObject operation
V An error occurred (BucketNotEmpty) when calling the DeleteBucket operation
V An error occurred (InvalidRequestContentException) when calling the Invoke operation
V An error occurred (BadDigest) when calling the PutObject operation
V An error occurred (InvalidArgument) when calling the ListObjects operation
R An error occurred (LimitExceededException) when calling the CreateTable operation
R An error occurred (InstanceLimitExceeded) when calling the RunInstances operation
R An error occurred (VcpuLimitExceeded) when calling the RunInstances operation
R An error occurred (AddressLimitExceeded) when calling the AllocateAddress operation
R An error occurred (QuotaExceededException) when calling the CreateTopic operation
R An error occurred (InsufficientInstanceCapacity) when calling the RunInstances operation
R An error occurred (InsufficientDBInstanceCapacity) when calling the CreateDBInstance operation
R An error occurred (MaxSpotInstanceCountExceeded) when calling the RequestSpotInstances operation
R An error occurred (TooManyBuckets) when calling the CreateBucket operation
R An error occurred (CodeStorageExceededException) when calling the UpdateFunctionCode operation
R An error occurred (VolumeLimitExceeded) when calling the CreateVolume operation
R RequestId: 7 Error: Runtime exited with error: signal: killed Runtime.ExitError
R Runtime.OutOfMemory: RequestId: 7 Process exited before completing request
X Runtime.ImportModuleError: Unable to import module 'handler': No module named 'pandas'
X Runtime.HandlerNotFound: Handler 'run' missing on module 'handler'
V RequestTooLargeException: Request must be smaller than 6291456 bytes for the InvokeFunction operation
"""  # noqa: E501

GOOGLE = r"""
T google.api_core.exceptions.ServiceUnavailable: 503 The service is currently unavailable.
T google.api_core.exceptions.TooManyRequests: 429 Quota exceeded for quota metric 'Read requests' per minute
T google.api_core.exceptions.InternalServerError: 500 An internal error has occurred
T google.api_core.exceptions.Aborted: 409 Too much contention on these documents. Please try again.
T google.api_core.exceptions.BadGateway: 502 Bad Gateway
N google.api_core.exceptions.DeadlineExceeded: 504 Deadline Exceeded
N google.api_core.exceptions.GatewayTimeout: 504 GET https://storage.googleapis.com/b
N google.api_core.exceptions.RetryError: Deadline of 120.0s exceeded while calling target function, last exception: 503 failed to connect to all addresses
P google.api_core.exceptions.PermissionDenied: 403 Permission denied on resource project prod
P google.api_core.exceptions.Forbidden: 403 GET https://storage.googleapis.com: sa@prod does not have storage.objects.get access to the Google Cloud Storage object.
P google.api_core.exceptions.Unauthenticated: 401 Request had invalid authentication credentials.
P google.auth.exceptions.RefreshError: ('invalid_grant: Token has been expired or revoked.')
P 403 Cloud Functions API has not been used in project 7 before or it is disabled.
P Billing must be enabled for activation of service
P The billing account for the owning project is disabled in state absent
X google.api_core.exceptions.NotFound: 404 Not found: Dataset prod:jobs
X google.api_core.exceptions.MethodNotImplemented: 501 not implemented
V google.api_core.exceptions.BadRequest: 400 Syntax error: Unexpected keyword FORM at [1:10]
V google.api_core.exceptions.InvalidArgument: 400 Request contains an invalid argument.
V google.api_core.exceptions.AlreadyExists: 409 Already Exists: Table prod:jobs.runs
V google.api_core.exceptions.FailedPrecondition: 400 The query requires an index.
V google.api_core.exceptions.Conflict: 409 Already Exists: Job prod:eu.7
V Unrecognized name: ownr at [1:8]
V Provided Schema does not match Table prod:jobs.runs. Field size has changed type from INTEGER to STRING
V No matching signature for operator = for argument types: INT64, STRING.
R google.api_core.exceptions.ResourceExhausted: 429 Quota exceeded for quota group 'default'
R Quota exceeded: Your project exceeded quota for free query bytes scanned.
R Resources exceeded during query execution: The query could not be executed in the allotted memory.
R ZONE_RESOURCE_POOL_EXHAUSTED: The zone 'europe-west1-b' does not have enough resources available to fulfill the request.
R Quota 'CPUS' exceeded. Limit: 24.0 in region europe-west1.
T rateLimitExceeded: Exceeded rate limits: too many table update operations for this table
T userRateLimitExceeded
R dailyLimitExceeded
T backendError
R storageQuotaExceeded
T jobRateLimitExceeded
P insufficientPermissions
P authError
X notFound
V invalidQuery
V fieldRequired
T The instance was preempted
R Memory limit of 512 MiB exceeded with 530 MiB used. Consider increasing the memory limit
N The request has been terminated because it has reached the maximum request timeout.
T The request was aborted because there was no available instance.
X Container called exit(1).
"""  # noqa: E501

AZURE = r"""
T (ServerBusy) The server is busy.
T (TooManyRequests) The request is being throttled.
T azure.core.exceptions.HttpResponseError: (ServiceUnavailable) The service is temporarily unavailable.
T (RetryableError) A retryable error occurred.
T (AnotherOperationInProgress) Another operation on this or dependent resource is in progress.
T (Conflict) The resource is being updated by another operation.
T Request rate is large. More Request Units may be needed, so no changes were made.
T ErrorCode:LeaseAlreadyPresent There is already a lease present.
T ErrorCode:LeaseIdMissing There is currently a lease on the blob and no lease ID was specified in the request.
N azure.core.exceptions.ServiceRequestError: Failed to resolve 'jobs.blob.core.windows.net'
N azure.core.exceptions.ServiceResponseError: ('Connection aborted.', ConnectionResetError(104, 'Connection reset by peer'))
P (AuthorizationFailed) The client 'x' with object id 'y' does not have authorization to perform action 'Microsoft.Web/sites/read' over scope
P (AuthenticationFailed) Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly including the signature.
P AuthorizationPermissionMismatch: This request is not authorized to perform this operation using this permission.
P ErrorCode:PublicAccessNotPermitted Public access is not permitted on this storage account.
P AADSTS7000215: Invalid client secret provided.
P AADSTS700016: Application with identifier 'x' was not found in the directory 'acme'.
P AADSTS50076: Due to a configuration change made by your administrator, you must use multi-factor authentication to access 'x'.
P AADSTS50126: Error validating credentials due to invalid username or password.
P AADSTS70008: The provided authorization code or refresh token has expired due to inactivity.
P azure.core.exceptions.ClientAuthenticationError: Authentication failed
P azure.identity.CredentialUnavailableError: EnvironmentCredential authentication unavailable.
P DefaultAzureCredential failed to retrieve a token from the included credentials.
P (RequestDisallowedByPolicy) Resource 'vm1' was disallowed by policy.
P (InvalidAuthenticationTokenTenant) The access token is from the wrong issuer.
P (LinkedAuthorizationFailed) The client has permission to perform action but not on the linked scope
P (ReadOnlyDisabledSubscription) The subscription is disabled and therefore marked as read only.
X azure.core.exceptions.ResourceNotFoundError: The specified blob does not exist. ErrorCode:BlobNotFound
X (ResourceGroupNotFound) Resource group 'prod' could not be found.
X (ContainerNotFound) The specified container does not exist.
V azure.core.exceptions.ResourceExistsError: The specified container already exists. ErrorCode:ContainerAlreadyExists
V (InvalidResourceName) The specified resource name contains invalid characters.
V (InvalidTemplate) Deployment template validation failed
V (BlobAlreadyExists) The specified blob already exists.
V (ConditionNotMet) The condition specified using HTTP conditional header(s) is not met.
V (InvalidBlobType) The blob type is invalid for this operation.
V (RequestBodyTooLarge) The request body is too large and exceeds the maximum permissible limit.
V (OutOfRangeInput) One of the request inputs is out of range.
V (PropertyChangeNotAllowed) Changing property 'osDisk' is not allowed.
R (QuotaExceeded) Operation could not be completed as it results in exceeding approved Total Regional Cores quota
R (AllocationFailed) Allocation failed. We do not have sufficient capacity for the requested VM size in this region.
R (ZonalAllocationFailed) Allocation failed in the zone
R (OverconstrainedAllocationRequest) Allocation failed
R (StorageAccountCapacityExceeded) The account has exceeded its capacity
"""  # noqa: E501

KUBERNETES = r"""
R OOMKilled
R Evicted: The node was low on resource: memory.
R The node had condition: [DiskPressure].
R 0/4 nodes are available: 4 Insufficient memory.
R 0/4 nodes are available: 2 Insufficient cpu, 2 node(s) had untolerated taint {dedicated: gpu}.
R 0/4 nodes are available: 4 Too many pods.
R pods "job-7" is forbidden: exceeded quota: compute, requested: cpu=2, used: cpu=7, limited: cpu=8
R Insufficient nvidia.com/gpu
R Pod ephemeral local storage usage exceeds the total limit of containers 1Gi.
R Container runtime exceeded its local ephemeral storage limit "1Gi".
R failed to create containerd task: no space left on device
R failed to reserve sandbox name: too many open files
V 0/4 nodes are available: 4 node(s) didn't match Pod's node affinity/selector.
V error validating "job.yaml": error validating data: unknown field "contaners" in io.k8s.api.core.v1.PodSpec
V The Job "job-7" is invalid: spec.template: Invalid value: field is immutable
V error parsing job.yaml: error converting YAML to JSON: yaml: line 4: mapping values are not allowed in this context
V strict decoding error: unknown field "spec.replicsa"
V jobs.batch "job-7" already exists
V CreateContainerConfigError: invalid env name
P ImagePullBackOff: pull access denied for acme/job, repository does not exist or may require 'docker login'
P Failed to pull image "acme/job:1": unauthorized: authentication required
P Failed to pull image "acme/job:1": 401 Unauthorized
P pods is forbidden: User "system:serviceaccount:ci:runner" cannot create resource "pods" in API group "" in the namespace "prod"
P error: You must be logged in to the server (Unauthorized)
P violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false
P Error from server (Forbidden): deployments.apps is forbidden
X Failed to pull image "acme/job:1": manifest unknown
X Failed to pull image "acme/job:1": not found
X Error from server (NotFound): pods "job-7" not found
X configmap "settings" not found
X secret "db" not found
X persistentvolumeclaim "data" not found
X namespaces "prdo" not found
X BackOff: Back-off restarting failed container
X CrashLoopBackOff
X RunContainerError: executable file not found in $PATH
X no matches for kind "Jbo" in version "batch/v1"
X Job has reached the specified backoff limit
N DeadlineExceeded: Job was active longer than specified deadline
N Unable to connect to the server: dial tcp 10.0.0.1:6443: i/o timeout
N Unable to connect to the server: net/http: TLS handshake timeout
N The connection to the server localhost:8080 was refused - did you specify the right host or port?
N Readiness probe failed: Get "http://10.0.0.7:8080/healthz": context deadline exceeded
N Liveness probe failed: dial tcp 10.0.0.7:8080: connect: connection refused
N Unable to connect to the server: x509: certificate signed by unknown authority
N error dialing backend: dial tcp 10.0.0.9:10250: connect: no route to host
T etcdserver: leader changed
T etcdserver: too many requests
R etcdserver: mvcc: database space exceeded
T Error from server (Conflict): Operation cannot be fulfilled on jobs.batch "job-7": the object has been modified; please apply your changes to the latest version and try again
T Error from server (TooManyRequests): Cannot evict pod as it would violate the pod's disruption budget.
T Error from server (InternalError): an error on the server ("") has prevented the request from succeeding
T the server is currently unable to handle the request
T NodeNotReady: Node is not ready
T Multi-Attach error for volume "pvc-7": Volume is already used by pod(s) job-6
T client rate limiter Wait returned an error: context deadline exceeded
T Preempted: Preempted by a pod on node n1
T Pod was terminated in response to imminent node shutdown.
T NodeShutdown: Pod was rejected as the node is shutting down.
T container runtime is not ready
T The node is draining
T ErrImagePull: toomanyrequests: You have reached your pull rate limit.
N Failed to pull image "acme/job:1": dial tcp: lookup registry.internal: no such host
"""  # noqa: E501

DOCKER = r"""
N Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?
P permission denied while trying to connect to the Docker daemon socket
T toomanyrequests: You have reached your pull rate limit. You may increase the limit by authenticating and upgrading
P denied: requested access to the resource is denied
P Error response from daemon: pull access denied for acme/job
X Error response from daemon: manifest for acme/job:9 not found: manifest unknown
X Error response from daemon: No such container: job-7
X Unable to find image 'acme/job:9' locally
V Error response from daemon: Conflict. The container name "/job" is already in use by container "4f2"
V invalid reference format
V invalid reference format: repository name must be lowercase
N driver failed programming external connectivity on endpoint web: Bind for 0.0.0.0:8080 failed: port is already allocated
R no space left on device
R Error response from daemon: could not find an available, non-overlapping IPv4 address pool among the defaults
X OCI runtime create failed: exec: "sweep": executable file not found in $PATH: unknown
P OCI runtime create failed: exec: "./sweep.sh": permission denied: unknown
X Error response from daemon: network prod not found
X COPY failed: file not found in build context or excluded by .dockerignore: stat app: file does not exist
V dockerfile parse error line 4: unknown instruction: FORM
N net/http: request canceled while waiting for connection
N Get "https://registry.internal/v2/": dial tcp: lookup registry.internal: Temporary failure in name resolution
N received unexpected HTTP status: 504 Gateway Time-out
T received unexpected HTTP status: 503 Service Unavailable
R container exited with code 137
T container exited with code 143
X container exited with code 1
X service "web" has neither an image nor a build context specified
V The Compose file is invalid because: services.web.ports contains an invalid type
"""  # noqa: E501
