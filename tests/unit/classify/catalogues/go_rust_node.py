"""The standard libraries of Go, Rust and Node."""

from __future__ import annotations

GO = r"""
N context deadline exceeded
T context canceled
N dial tcp 10.1.2.3:5432: i/o timeout
N dial tcp: lookup db on 10.0.0.2:53: server misbehaving
N read tcp 10.0.0.1:3000->10.0.0.2:443: use of closed network connection
N write tcp 10.0.0.1:3000->10.0.0.2:443: write: broken pipe
N read: connection reset by peer
N http: server closed idle connection
N net/http: request canceled while waiting for connection (Client.Timeout exceeded while awaiting headers)
N net/http: HTTP/1.x transport connection broken: unexpected EOF
N http2: client connection lost
N http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR
N tls: failed to verify certificate: x509: certificate is valid for a.internal, not b.internal
N tls: handshake failure
N x509: certificate has expired or is not yet valid
N tls: first record does not look like a TLS handshake
V http: request body too large
V http: invalid Read on closed Body
N unexpected EOF
V json: cannot unmarshal number into Go value of type string
V invalid character '<' looking for beginning of value
V unexpected end of JSON input
V json: unknown field "ownr"
V yaml: line 4: did not find expected key
V yaml: unmarshal errors: line 3: cannot unmarshal !!str into int
V strconv.Atoi: parsing "ten": invalid syntax
V strconv.ParseInt: parsing "99999999999": value out of range
V parsing time "tomorrow" as "2006-01-02": cannot parse "tomorrow" as "2006"
V time: invalid duration "5 parsecs"
V flag provided but not defined: -fast
X open /etc/app/config.toml: no such file or directory
P open /etc/app/key: permission denied
R open /srv/x: too many open files
R write /srv/x: no space left on device
X exec: "ffmpeg": executable file not found in $PATH
X panic: runtime error: invalid memory address or nil pointer dereference
X panic: runtime error: index out of range [3] with length 3
X panic: assignment to entry in nil map
X fatal error: all goroutines are asleep - deadlock!
X panic: close of closed channel
X sql: no rows in result set
V sql: expected 3 destination arguments in Scan, not 2
N driver: bad connection
R fatal error: runtime: out of memory
R signal: killed
T signal: terminated
N EOF
P ssh: handshake failed: ssh: unable to authenticate, attempted methods [none publickey], no supported methods remain
N ssh: handshake failed: EOF
N websocket: close 1006 (abnormal closure): unexpected EOF
N websocket: bad handshake
V pq: invalid input syntax for type uuid: "x"
P pq: password authentication failed for user "app"
R pq: sorry, too many clients already
"""

RUST = r"""
X thread 'main' panicked at src/main.rs:4:5: called `Option::unwrap()` on a `None` value
N thread 'main' panicked at 'called `Result::unwrap()` on an `Err` value: Os { code: 111, kind: ConnectionRefused, message: "Connection refused" }'
N Os { code: 104, kind: ConnectionReset, message: "Connection reset by peer" }
P Os { code: 13, kind: PermissionDenied, message: "Permission denied" }
X Os { code: 2, kind: NotFound, message: "No such file or directory" }
R Os { code: 28, kind: StorageFull, message: "No space left on device" }
N Connection refused (os error 111)
P Permission denied (os error 13)
R Too many open files (os error 24)
X No such file or directory (os error 2)
T Resource temporarily unavailable (os error 11)
N error sending request for url (https://jobs.internal/run): error trying to connect: tcp connect error: Connection refused (os error 111)
N error trying to connect: dns error: failed to lookup address information: Name or service not known
N operation timed out
N hyper::Error(IncompleteMessage)
N connection closed before message completed
N channel closed unexpectedly by the remote peer
V invalid digit found in string
V cannot parse integer from empty string
V number too large to fit in target type
V invalid type: string "ten", expected u32 at line 1 column 14
V missing field `owner` at line 3 column 1
V unknown field `ownr`, expected one of `owner`, `repo`
V unknown variant `swep`, expected `sweep` or `list`
V EOF while parsing a value at line 1 column 0
V trailing characters at line 1 column 5
V stream did not contain valid UTF-8
V invalid utf-8 sequence of 1 bytes from index 3
N deadline has elapsed
N early eof
N failed to fill whole buffer
X index out of bounds: the len is 3 but the index is 7
X attempt to divide by zero
R memory allocation of 8589934592 bytes failed
R pool timed out while waiting for an open connection
X no rows returned by a query that expected to return at least one row
N tls handshake eof
N invalid peer certificate: UnknownIssuer
N invalid peer certificate: Expired
T error returned from database: deadlock detected
"""  # noqa: E501

NODE = r"""
N Error: connect ECONNREFUSED 10.0.0.7:6379
N Error: read ECONNRESET
N Error: getaddrinfo EAI_AGAIN db.internal
N Error: getaddrinfo ENOTFOUND db.internal
N Error: connect ETIMEDOUT 10.0.0.7:443
N Error: socket hang up
N Error: Client network socket disconnected before secure TLS connection was established
N FetchError: request to https://jobs.internal failed, reason: connect ECONNREFUSED
N TypeError: fetch failed
N AxiosError: timeout of 5000ms exceeded
N AxiosError: Network Error
T AxiosError: Request failed with status code 503
V AxiosError: Request failed with status code 422
N AbortError: The operation was aborted due to timeout
N UND_ERR_CONNECT_TIMEOUT
N ConnectTimeoutError: Connect Timeout Error
N HeadersTimeoutError: Headers Timeout Error
N SocketError: other side closed
N Error: unable to verify the first certificate
N Error: self-signed certificate in certificate chain
N DEPTH_ZERO_SELF_SIGNED_CERT
N CERT_HAS_EXPIRED
N ERR_TLS_CERT_ALTNAME_INVALID
N Error [ERR_SOCKET_CLOSED]: Socket is closed
N Error [ERR_STREAM_PREMATURE_CLOSE]: Premature close
N Error: listen EADDRINUSE: address already in use :::3000
X Error: ENOENT: no such file or directory, open 'package.json'
P Error: EACCES: permission denied, mkdir '/usr/lib/node_modules'
R Error: EMFILE: too many open files, open 'a.txt'
R Error: ENOSPC: System limit for number of file watchers reached, watch '/srv'
R FATAL ERROR: Ineffective mark-compacts near heap limit Allocation failed - JavaScript heap out of memory
X ReferenceError: repo is not defined
X RangeError: Maximum call stack size exceeded
V RangeError: Invalid time value
V SyntaxError: Unexpected end of JSON input
V SyntaxError: Unexpected token '<', "<!DOCTYPE "... is not valid JSON
V URIError: URI malformed
V TypeError [ERR_INVALID_ARG_TYPE]: The "path" argument must be of type string. Received undefined
V TypeError [ERR_INVALID_URL]: Invalid URL
V Error [ERR_OUT_OF_RANGE]: The value of "offset" is out of range.
X Error [ERR_MODULE_NOT_FOUND]: Cannot find module '/srv/app/jobs.js'
X Error: Cannot find module 'lodash'
P JsonWebTokenError: invalid signature
P TokenExpiredError: jwt expired
P JsonWebTokenError: jwt malformed
V CastError: Cast to ObjectId failed for value "x" (type string) at path "_id"
V ZodError: [ { "code": "invalid_type", "expected": "string", "received": "undefined" } ]
V PayloadTooLargeError: request entity too large
N MongoNetworkError: connection 7 to 10.0.0.3:27017 closed
N SequelizeConnectionRefusedError: connect ECONNREFUSED 10.0.0.3:5432
R SequelizeConnectionAcquireTimeoutError: Operation timeout
V SequelizeUniqueConstraintError: Validation error
N KafkaJSConnectionError: Connection timeout
N TimeoutError: Navigation timeout of 30000 ms exceeded
X UnhandledPromiseRejection: This error originated either by throwing inside of an async function
"""
