"""Operating systems, HTTP and gRPC."""

from __future__ import annotations

ERRNO = r"""
T Interrupted system call
T sem_wait: Interrupted system call
R Input/output error
R read error on /dev/sdb1: Input/output error
V mkdir: cannot create directory 'out': File exists
X rename: Invalid cross-device link
V open config.d/x: Not a directory
V read /data: is a directory
V cat: /etc: Is a directory
R link: Too many links
V sqrt: Numerical argument out of domain
T Resource deadlock avoided
T fcntl: Resource deadlock would occur
R No locks available
V rmdir: failed to remove 'build': Directory not empty
V open: Too many levels of symbolic links
N ioctl: Timer expired
N Machine is not on the network
N Link has been severed
N Protocol error
T Interrupted system call should be restarted
R Too many users
V Destination address required
X Operation not supported
X ioctl(FICLONE): Operation not supported on transport endpoint
N Software caused connection abort
T connect: Operation now in progress
T Operation already in progress
P Required key not available
P Key has expired
P Key was rejected by service
P Key has been revoked
N Transport endpoint is not connected
N Cannot send after transport endpoint shutdown
N Network dropped connection on reset
N Host is down
N Remote I/O error
N Communication error on send
N Network is down
T Device or resource busy
T umount: /mnt/data: target is busy.
T Text file busy
T Stale file handle
T Operation would block
X No such device
X No such device or address
X No such process
X No child processes
X Function not implemented
V Bad file descriptor
V Invalid argument
V Argument list too long
V bash: /usr/bin/rm: Argument list too long
V File name too long
V Bad message
V Illegal byte sequence
V Message too long
V Invalid or incomplete multibyte or wide character
V Numerical result out of range
V Address family not supported by protocol
P Operation not permitted
P Read-only file system
R Cannot allocate memory
R Disk quota exceeded
R Too many open files in system
R No buffer space available
V Value too large for defined data type
V listen: EINVAL
N write EPIPE
V EEXIST: file already exists, mkdir '/srv/cache'
V EISDIR: illegal operation on a directory, read
V ENOTDIR: not a directory, scandir '/srv/app/file'
X ENOENT: no such file or directory, open '/srv/app/config.json'
P EACCES: permission denied, open '/etc/app.key'
P EPERM: operation not permitted, unlink 'C:\app\a.lock'
R EMFILE: too many open files, watch '/srv'
T EBUSY: resource busy or locked, rename 'a' -> 'b'
V ENAMETOOLONG: name too long, open
V ENOTEMPTY: directory not empty, rmdir '/srv/x'
P EROFS: read-only file system, mkdir '/srv/x'
R EFBIG: file too large, write
V ELOOP: too many symbolic links encountered, stat
N ENETDOWN: network is down
T ETXTBSY: text file is busy
X ENXIO
X ENOSYS: function not implemented, mkdtemp
X ESRCH: no such process, kill
"""

WINDOWS = r"""
P [WinError 5] Access is denied: 'C:\\data\\out.csv'
T [WinError 32] The process cannot access the file because it is being used by another process: 'C:\\data\\db.sqlite'
T The process cannot access the file because another process has locked a portion of the file.
X [WinError 2] The system cannot find the file specified
X The system cannot find the path specified.
X [WinError 3] The system cannot find the path specified: 'D:\\jobs\\in'
N The network path was not found
N The specified network name is no longer available.
N [WinError 121] The semaphore timeout period has expired
N [WinError 10054] An existing connection was forcibly closed by the remote host
N [WinError 10053] An established connection was aborted by the software in your host machine
N [WinError 10060] A connection attempt failed because the connected party did not properly respond after a period of time
N [WinError 10051] A socket operation was attempted to an unreachable network
N A socket operation was attempted to an unreachable host.
N [WinError 10048] Only one usage of each socket address (protocol/network address/port) is normally permitted
N Only one usage of each socket address (protocol/network address/port) is normally permitted.
N [WinError 10049] The requested address is not valid in its context
N [WinError 11001] getaddrinfo failed
N No such host is known.
N The remote computer refused the network connection.
T [WinError 10035] A non-blocking socket operation could not be completed immediately
P [WinError 10013] An attempt was made to access a socket in a way forbidden by its access permissions
P An attempt was made to access a socket in a way forbidden by its access permissions
R [WinError 112] There is not enough space on the disk
R There is not enough space on the disk.
R [WinError 8] Not enough memory resources are available to process this command
R Insufficient system resources exist to complete the requested service.
R [WinError 1455] The paging file is too small for this operation to complete
R Not enough storage is available to process this command.
R [WinError 1816] Not enough quota is available to process this command
R An operation on a socket could not be performed because the system lacked sufficient buffer space or because a queue was full.
V [WinError 87] The parameter is incorrect
V [WinError 123] The filename, directory name, or volume label syntax is incorrect
V [WinError 183] Cannot create a file when that file already exists
V [WinError 206] The filename or extension is too long
V [WinError 145] The directory is not empty
V [WinError 193] %1 is not a valid Win32 application
V [WinError 6] The handle is invalid
P [WinError 1314] A required privilege is not held by the client
P Logon failure: the user has not been granted the requested logon type at this computer.
P The user name or password is incorrect.
P Logon failure: unknown user name or bad password.
P [WinError 740] The requested operation requires elevation
P The referenced account is currently locked out and may not be logged on to.
P The trust relationship between this workstation and the primary domain failed.
P The account used is disabled
X [WinError 126] The specified module could not be found
X [WinError 127] The specified procedure could not be found
X Class not registered
X [WinError 1167] The device is not connected
T [WinError 21] The device is not ready
N The RPC server is unavailable.
N [WinError 1722] The RPC server is unavailable
T The service did not respond to the start or control request in a timely fashion.
R [WinError 1450] Insufficient system resources exist to complete the requested service
R [WinError 39] The disk is full
P Your organization's device policy has blocked this application
X The specified service does not exist as an installed service.
N The specified server cannot perform the requested operation: network name deleted
N [WinError 64] The specified network name is no longer available
N The semaphore timeout period has expired
P The media is write protected.
P [WinError 19] The media is write protected
R [WinError 1117] The request could not be performed because of an I/O device error
"""  # noqa: E501

HTTP = r"""
V HTTP 400 Bad Request
P 401 Unauthorized
P 402 Payment Required
P 403 Forbidden
X 404 Not Found
V 405 Method Not Allowed
V 406 Not Acceptable
P 407 Proxy Authentication Required
N 408 Request Timeout
T 409 Conflict
X 410 Gone
V 411 Length Required
V 412 Precondition Failed
V 413 Payload Too Large
V 413 Content Too Large
V 414 URI Too Long
V 415 Unsupported Media Type
V 416 Range Not Satisfiable
V 417 Expectation Failed
T 421 Misdirected Request
V 422 Unprocessable Content
T 423 Locked
T 424 Failed Dependency
T 425 Too Early
V 426 Upgrade Required
V 428 Precondition Required
T 429 Too Many Requests
V 431 Request Header Fields Too Large
P 451 Unavailable For Legal Reasons
T 500 Internal Server Error
X 501 Not Implemented
T 502 Bad Gateway
T 503 Service Unavailable
N 504 Gateway Timeout
R 507 Insufficient Storage
X 508 Loop Detected
P 511 Network Authentication Required
T 520 Web Server Returned an Unknown Error
N 521 Web Server Is Down
N 522 Connection Timed Out
N 523 Origin Is Unreachable
N 524 A Timeout Occurred
N 525 SSL Handshake Failed
N 526 Invalid SSL Certificate
T Bad Gateway
N Gateway Timeout
T Service Unavailable
T Too Many Requests
V Unsupported Media Type
V Precondition Failed
V Payload Too Large
V Request Entity Too Large
V URI Too Long
V Unprocessable Entity
V Method Not Allowed
V Not Acceptable
V Length Required
V Range Not Satisfiable
V Expectation Failed
V Request Header Fields Too Large
V Bad Request
P Payment Required
P Proxy Authentication Required
N Request Timeout
X Not Found
X Gone
X Not Implemented
R Insufficient Storage
T Internal Server Error
T 500 Server Error: Internal Server Error for url: http://reports.internal/render
N nginx: upstream timed out (110: Connection timed out) while reading response header from upstream
T no live upstreams while connecting to upstream
N upstream prematurely closed connection while reading response header from upstream
V client intended to send too large body: 10485761 bytes
T HAProxy: backend api has no server available!
T Error 1020 from edge: the origin returned 502
X The requested URL was not found on this server.
P You don't have permission to access this resource.
P Access to this resource on the server is denied!
T The server is temporarily unable to service your request due to maintenance downtime or capacity problems.
V Your browser sent a request that this server could not understand.
V The requested resource does not support http method 'PUT'.
N upstream sent no valid HTTP/1.0 header while reading response header from upstream
N server closed connection without sending any data back
"""

GRPC = r"""
T StatusCode.UNAVAILABLE
N StatusCode.DEADLINE_EXCEEDED
R StatusCode.RESOURCE_EXHAUSTED
P StatusCode.PERMISSION_DENIED
P StatusCode.UNAUTHENTICATED
V StatusCode.INVALID_ARGUMENT
V StatusCode.ALREADY_EXISTS
V StatusCode.OUT_OF_RANGE
X StatusCode.UNIMPLEMENTED
X StatusCode.NOT_FOUND
T rpc error: code = Aborted desc = transaction retry limit
T rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing"
P rpc error: code = Unauthenticated desc = invalid token
R rpc error: code = ResourceExhausted desc = trying to send message larger than max (5242880 vs. 4194304)
V rpc error: code = FailedPrecondition desc = table is not empty
X rpc error: code = Unimplemented desc = unknown method Sweep for service jobs.v1.Jobs
N DEADLINE_EXCEEDED: deadline exceeded after 4.99s
T UNAVAILABLE: io exception
P PERMISSION_DENIED: The caller does not have permission
V INVALID_ARGUMENT: page_size must be positive
X NOT_FOUND: Requested entity was not found.
X UNIMPLEMENTED: Method not found!
R RESOURCE_EXHAUSTED: Quota exceeded for aiplatform.googleapis.com
N status = StatusCode.UNAVAILABLE details = "failed to connect to all addresses; last error: Connection refused"
N failed to connect to all addresses
N Deadline Exceeded
N grpc: the client connection is closing
N stream removed
N RST_STREAM closed stream. HTTP/2 error code: PROTOCOL_ERROR
N Received http2 header with status: 504
T Received http2 header with status: 503
N Keepalive watchdog fired
T GOAWAY received; server is draining
N too_many_pings: GOAWAY received from peer
N no children to pick from: name resolver returned no addresses
N name resolver error: produced zero addresses
V Exception deserializing request!
V Exception serializing message!
X Exception iterating responses
N Socket closed
N recvmsg:Connection reset by peer
N ConnectError: [unavailable] tcp connect error: connection refused
"""
