"""git, package managers, builds, and what serves models."""

from __future__ import annotations

GIT = r"""
P git@github.com: Permission denied (publickey).
P remote: HTTP Basic: Access denied
P remote: Invalid username or password.
P fatal: could not read Username for 'https://github.com': terminal prompts disabled
P remote: Permission to acme/jobs.git denied to bot.
P ! [remote rejected] main -> main (protected branch hook declined)
P remote: error: GH006: Protected branch update failed for refs/heads/main.
P fatal: detected dubious ownership in repository at '/srv/repo'
P remote: Support for password authentication was removed. Please use a personal access token instead.
X remote: Repository not found.
X fatal: repository 'https://github.com/acme/jbos.git/' not found
X fatal: not a git repository (or any of the parent directories): .git
X fatal: couldn't find remote ref feature
X error: pathspec 'feature' did not match any file(s) known to git
X fatal: Remote branch feature not found in upstream origin
X CONFLICT (content): Merge conflict in jobs.py
X Automatic merge failed; fix conflicts and then commit the result.
X error: failed to push some refs to 'origin' (non-fast-forward)
X error: Your local changes to the following files would be overwritten by merge: jobs.py
X fatal: refusing to merge unrelated histories
X fatal: reference is not a tree: 4f2a
X error: patch does not apply
T error: cannot lock ref 'refs/heads/main': is at 4f2a but expected 9c1b
T Another git process seems to be running in this repository
N fatal: unable to access 'https://github.com/acme/jobs.git/': Could not resolve host: github.com
N fatal: unable to access 'https://github.com/acme/jobs.git/': Failed to connect to github.com port 443
N fatal: unable to access 'https://github.com/acme/jobs.git/': SSL certificate problem: unable to get local issuer certificate
N error: RPC failed; curl 18 transfer closed with outstanding read data remaining
N fetch-pack: unexpected disconnect while reading sideband packet
N fatal: the remote end hung up unexpectedly
N fatal: early EOF
N error: RPC failed; HTTP 504 curl 22 The requested URL returned error: 504
T fatal: unable to access 'https://github.com/acme/jobs.git/': The requested URL returned error: 503
P fatal: unable to access 'https://github.com/acme/jobs.git/': The requested URL returned error: 403
N ssh: connect to host github.com port 22: Connection timed out
N ssh_exchange_identification: read: Connection reset by peer
P Host key verification failed.
R fatal: write error: No space left on device
R error: unable to write file: Disk quota exceeded
R fatal: Out of memory, malloc failed (tried to allocate 524288000 bytes)
V remote: error: File data.bin is 120.00 MB; this exceeds GitHub's file size limit of 100.00 MB
V error: object file .git/objects/4f/2a is empty
V fatal: loose object 4f2a is corrupt
V fatal: bad config line 4 in file .git/config
R batch response: This repository is over its data quota. Account responsible for LFS bandwidth should purchase more data packs.
X Smudge error: Error downloading data.bin: object does not exist on the server
"""  # noqa: E501

PACKAGES = r"""
X ERROR: Could not find a version that satisfies the requirement panads (from versions: none)
X ERROR: No matching distribution found for panads
V ERROR: ResolutionImpossible: for help visit the documentation
V ERROR: Cannot install a==1 and b==2 because these package versions have conflicting dependencies.
V ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.
V ERROR: Invalid requirement: 'pandas=>2'
V ERROR: Package 'jobs' requires a different Python: 3.9.1 not in '>=3.11'
V ERROR: jobs.whl is not a supported wheel on this platform.
N WARNING: Retrying (Retry(total=4)) after connection broken by 'ConnectTimeoutError(...)': /simple/pandas/
N pip._vendor.urllib3.exceptions.ReadTimeoutError: HTTPSConnectionPool(host='files.internal', port=443): Read timed out.
P ERROR: Could not install packages due to an OSError: [Errno 13] Permission denied: '/usr/lib/python3'
R ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device
X error: subprocess-exited-with-error
X ERROR: Failed building wheel for numpy
X error: command 'gcc' failed: No such file or directory
V SolverProblemError: Because jobs depends on a (>=2) and b depends on a (<2), version solving failed.
X npm ERR! 404 Not Found - GET https://registry.internal/jbos - Not found
X npm ERR! code E404
P npm ERR! code E401
P npm ERR! code E403
P npm ERR! code EACCES
V npm ERR! code ERESOLVE npm ERR! ERESOLVE unable to resolve dependency tree
V npm ERR! code EINTEGRITY
V npm ERR! code EJSONPARSE
V npm ERR! code EBADENGINE
N npm ERR! code ETIMEDOUT
N npm ERR! code ECONNRESET
N npm ERR! network timeout at: https://registry.internal/jobs
R npm ERR! code ENOSPC
T npm ERR! code E503
T npm ERR! 429 Too Many Requests
X npm ERR! missing script: biuld
P npm ERR! need auth This command requires you to be logged in
T E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 77 (apt)
T E: Unable to acquire the dpkg frontend lock, is another process using it?
X E: Unable to locate package jbos
N Err:1 http://deb.internal stable InRelease Temporary failure resolving 'deb.internal'
N Failed to fetch http://deb.internal/x.deb  Connection timed out
V E: Failed to fetch: Hash Sum mismatch
P W: GPG error: The following signatures couldn't be verified because the public key is not available: NO_PUBKEY 4F2A
X collect2: error: ld returned 1 exit status
X make: *** [Makefile:7: all] Error 2
X go: module acme.io/jbos: not found
V go: errors parsing go.mod: unknown directive: requier
N go: acme.io/jobs@v1: Get "https://proxy.internal": dial tcp: i/o timeout
N Could not transfer artifact com.acme:jobs from/to central: Connect timed out
X BUILD FAILED
X Process completed with exit code 1.
T The runner has received a shutdown signal. This can happen when the runner service is stopped, or a manually started runner is canceled.
N The job running on runner GitHub Actions 7 has exceeded the maximum execution time of 360 minutes.
P Resource not accessible by integration
X Unable to resolve action `acme/deploy@v9`, unable to find version `v9`
R ERROR: Job failed: execution took too much memory: OOMKilled
N ERROR: Job failed: execution took longer than 1h0m0s seconds
T ERROR: Job failed (system failure): prepare environment: the runner is temporarily unavailable
T Error acquiring the state lock: the state is already locked by another client
V Error: Unsupported argument: An argument named "nmae" is not expected here.
P Error: No valid credential sources found
V Error: Invalid provider configuration
V Error: Duplicate resource "aws_s3_bucket" configuration
"""  # noqa: E501

MODELS = r"""
T openai.RateLimitError: Error code: 429 - {'error': {'message': 'Rate limit reached for gpt-4o in organization org-x on tokens per min (TPM)'}}
R openai.RateLimitError: Error code: 429 - {'error': {'message': 'You exceeded your current quota, please check your plan and billing details.', 'code': 'insufficient_quota'}}
P openai.AuthenticationError: Error code: 401 - {'error': {'message': 'Incorrect API key provided: sk-x.'}}
P openai.PermissionDeniedError: Error code: 403 - {'error': {'message': 'Country, region, or territory not supported'}}
V openai.BadRequestError: Error code: 400 - {'error': {'message': "This model's maximum context length is 128000 tokens."}}
V openai.BadRequestError: Error code: 400 - {'error': {'code': 'content_filter'}}
X openai.NotFoundError: Error code: 404 - {'error': {'message': 'The model `gpt-9` does not exist or you do not have access to it.'}}
T openai.InternalServerError: Error code: 500 - {'error': {'message': 'The server had an error while processing your request. Sorry about that!'}}
N openai.APITimeoutError: Request timed out.
N openai.APIConnectionError: Connection error.
V openai.UnprocessableEntityError: Error code: 422
V openai.LengthFinishReasonError: Could not parse response content as the length limit was reached
T anthropic.RateLimitError: Error code: 429 - {'type': 'error', 'error': {'type': 'rate_limit_error', 'message': 'This request would exceed your organization rate limit'}}
T anthropic.APIStatusError: {'type': 'error', 'error': {'type': 'overloaded_error', 'message': 'Overloaded'}}
V anthropic.BadRequestError: Error code: 400 - {'error': {'type': 'invalid_request_error', 'message': 'prompt is too long: 210000 tokens > 200000 maximum'}}
V messages: roles must alternate between "user" and "assistant"
V max_tokens: 9000 > 8192, which is the maximum allowed number of output tokens
P anthropic.AuthenticationError: invalid x-api-key
R Your credit balance is too low to access the API. Please go to Plans & Billing to upgrade or purchase credits.
R Error: You have reached your specified API usage limits.
V string too long. Expected a string with maximum length 1048576
V Invalid schema for function 'sweep': None is not of type 'object'
V The response was filtered due to the prompt triggering content management policy.
V Your request was rejected as a result of our safety system.
T The engine is currently overloaded, please try again later
T Model acme/bert is currently loading
T That model is currently overloaded with other requests.
P Access to model meta/llama is restricted. You must be authenticated to access it.
P Cannot access gated repo for url https://hub.internal/x.
R torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.
R RuntimeError: CUDA error: out of memory
R CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)
R cuDNN error: CUDNN_STATUS_ALLOC_FAILED
R OOM when allocating tensor with shape[64,1024]
R RuntimeError: MPS backend out of memory
R DataLoader worker (pid 77) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.
R DataLoader worker (pid(s) 77) exited unexpectedly: Killed
X RuntimeError: CUDA error: device-side assert triggered
X RuntimeError: No CUDA GPUs are available
X RuntimeError: CUDA error: no kernel image is available for execution on the device
X RuntimeError: Found no NVIDIA driver on your system.
V RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x3 and 4x2)
V RuntimeError: expected scalar type Float but found Half
V RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!
V RuntimeError: size mismatch for fc.weight
V ValueError: Input contains NaN
V ValueError: Found input variables with inconsistent numbers of samples: [10, 12]
V ValueError: Expected 2D array, got 1D array instead
V ValueError: could not broadcast input array from shape (3,) into shape (4,)
V ValueError: operands could not be broadcast together with shapes (3,) (4,)
N NCCL error: unhandled system error, NCCL timeout
N torch.distributed.DistBackendError: NCCL communicator was aborted: Watchdog caught collective operation timeout
R vllm: No available memory for the cache blocks. Try increasing gpu_memory_utilization
T 529 Overloaded
V Invalid 'messages[0].content': array too long
V image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes
V Could not process image
T The model produced an incomplete answer: upstream overloaded
"""  # noqa: E501
