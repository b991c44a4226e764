"""Mail, files and names over the network; who somebody is; and TLS."""

from __future__ import annotations

MAIL = r"""
T 421 4.3.2 Service shutting down
T 450 4.1.8 Sender address rejected: Domain lookup deferred
T 451 4.7.1 Greylisting in action, please come back later
T 451 4.3.0 Temporary system problem. Try again later
T 421 4.7.28 Our system has detected an unusual rate of unsolicited mail
R 452 4.2.2 The recipient's inbox is out of storage space
R 552 5.2.2 Mailbox full
R 452 4.3.1 Insufficient system storage
V 550 5.1.1 The email account that you tried to reach does not exist
V 550 5.1.2 Host unknown
V 553 5.1.3 The recipient address is not a valid RFC-5321 address
V 501 5.5.4 Syntax error in parameters or arguments
V 552 5.3.4 Message size exceeds fixed limit
V 503 5.5.1 Bad sequence of commands
P 535 5.7.8 Username and Password not accepted
P 530 5.7.0 Must issue a STARTTLS command first
P 534 5.7.9 Application-specific password required
P 550 5.7.1 Relaying denied
P 554 5.7.1 Message rejected as spam
P 550 5.7.26 This mail is unauthenticated
P smtplib.SMTPAuthenticationError: (535, b'5.7.8 Error: authentication failed')
V smtplib.SMTPRecipientsRefused: {'x@y.z': (550, b'5.1.1 User unknown')}
N smtplib.SMTPServerDisconnected: Connection unexpectedly closed
N smtplib.SMTPConnectError: (421, b'Cannot connect to SMTP server')
P imaplib.IMAP4.error: b'[AUTHENTICATIONFAILED] Authentication failed.'
T [UNAVAILABLE] Temporary authentication failure. Please try again.
R [OVERQUOTA] Mailbox is over quota
P Relay access denied
T Daily user sending limit exceeded, try again later
"""

FILES = r"""
P 530 Login incorrect.
P 530 Not logged in
P 550 Permission denied.
X 550 No such file or directory
X 550 Failed to open file
N 425 Can't open data connection.
N 426 Connection closed; transfer aborted.
T 450 Requested file action not taken. File busy
R 552 Requested file action aborted. Exceeded storage allocation.
R 452 Requested action not taken. Insufficient storage space in system.
V 553 Requested action not taken. File name not allowed.
V 501 Syntax error in parameters
P paramiko.ssh_exception.AuthenticationException: Authentication failed.
P paramiko.ssh_exception.BadAuthenticationType: Bad authentication type; allowed types: ['publickey']
P paramiko.ssh_exception.PasswordRequiredException: Private key file is encrypted
N paramiko.ssh_exception.SSHException: Error reading SSH protocol banner
N paramiko.ssh_exception.NoValidConnectionsError: [Errno None] Unable to connect to port 22 on 10.0.0.9
P paramiko.ssh_exception.BadHostKeyException: Host key for server 'files' does not match
P Server 'files' not found in known_hosts
N ssh: Could not resolve hostname files: Name or service not known
N kex_exchange_identification: read: Connection reset by peer
N Connection closed by 10.0.0.9 port 22
N client_loop: send disconnect: Broken pipe
P Received disconnect from 10.0.0.9 port 22:2: Too many authentication failures
N Unable to negotiate with 10.0.0.9 port 22: no matching key exchange method found.
P sign_and_send_pubkey: signing failed: agent refused operation
P WARNING: UNPROTECTED PRIVATE KEY FILE!
P @ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @ Host key verification failed.
N rsync error: error in rsync protocol data stream (code 12)
N rsync: connection unexpectedly closed (0 bytes received so far)
N mount.nfs: Connection timed out
P mount.nfs: access denied by server while mounting files:/srv
X mount: special device /dev/sdz1 does not exist
P STATUS_ACCESS_DENIED
P NT_STATUS_LOGON_FAILURE
X STATUS_OBJECT_NAME_NOT_FOUND
N NT_STATUS_HOST_UNREACHABLE
N NT_STATUS_IO_TIMEOUT
T STATUS_SHARING_VIOLATION
R STATUS_DISK_FULL
P NT_STATUS_ACCOUNT_LOCKED_OUT
"""

NAMES = r"""
N dns.resolver.NXDOMAIN: The DNS query name does not exist: db.internal.
N dns.resolver.NoAnswer: The DNS response does not contain an answer to the question
N dns.resolver.NoNameservers: All nameservers failed to answer the query db.internal. IN A
N dns.resolver.LifetimeTimeout: The resolution lifetime expired after 5.4 seconds
N SERVFAIL
N DNS_PROBE_FINISHED_NXDOMAIN
N queryA ESERVFAIL db.internal
N ;; connection timed out; no servers could be reached
N server can't find db.internal: NXDOMAIN
N Temporary failure in name resolution
N Name does not resolve
N hostname lookup failed
N host not found in upstream "jobs.internal"
N could not be resolved (3: Host not found)
N unable to resolve host address 'db.internal'
"""

TLS = r"""
N certificate verify failed: self-signed certificate in certificate chain
N certificate verify failed: Hostname mismatch, certificate is not valid for 'db'
N tlsv1 alert unknown ca
N sslv3 alert bad certificate
N sslv3 alert certificate expired
N tls: bad certificate
N remote error: tls: handshake failure
N ssl_error_rx_record_too_long
N SSL_ERROR_SYSCALL, errno 104
N no protocols available
N unsupported protocol version in TLS hello
N no cipher suites in common
N dh key too small
N unsafe legacy renegotiation disabled
N The certificate chain was issued by an authority that is not trusted
N The SSL connection could not be established, see inner exception.
N PKIX path building failed: unable to find valid certification path to requested target
N Received fatal alert: handshake_failure
N Received fatal alert: protocol_version
N certificate has expired
N certificate is not yet valid
N unable to get issuer certificate
N unable to verify the first certificate
N curl: (60) SSL certificate problem: certificate has expired
N curl: (35) error:0A00010B:SSL routines::wrong version number
N ocsp response has expired
N NET::ERR_CERT_AUTHORITY_INVALID
N ERR_SSL_PROTOCOL_ERROR
N ERR_CERT_DATE_INVALID
"""

IDENTITY = r"""
P invalid_client: Client authentication failed
P invalid_grant: The refresh token is invalid, expired or revoked
P unauthorized_client
P access_denied: The resource owner denied the request
P invalid_token: The access token expired
P insufficient_scope
P invalid_scope
V invalid_request: Missing parameter redirect_uri
V unsupported_grant_type
V unsupported_response_type
V redirect_uri_mismatch
T temporarily_unavailable
T server_error
T slow_down
P interaction_required
P login_required
P consent_required
T authorization_pending
P expired_token
P jwt expired
P jwt malformed
P jwt.exceptions.InvalidAudienceError: Audience doesn't match
P jwt.exceptions.InvalidIssuerError: Invalid issuer
P jwt.exceptions.MissingRequiredClaimError: Token is missing the "exp" claim
P Token is not active (nbf)
P Token used too early
P id token issued in the future: check your clock
P Signature verification failed
P no key matching kid was found in the JWKS
P The token has been blacklisted
P SAML response is not signed
P SAML assertion has expired
P The response was received at the wrong audience: SAML audience mismatch
P kinit: Password incorrect while getting initial credentials
P kinit: Client 'app@ACME' not found in Kerberos database while getting initial credentials
P Clock skew too great
P krb5: Ticket expired
P GSSAPI Error: No credentials were supplied, or the credentials were unavailable or inaccessible
P KRB_AP_ERR_SKEW
P KDC_ERR_PREAUTH_FAILED
N Cannot contact any KDC for realm 'ACME'
P ldap.INVALID_CREDENTIALS: {'desc': 'Invalid credentials'}
N ldap.SERVER_DOWN: {'desc': "Can't contact LDAP server"}
X ldap.NO_SUCH_OBJECT: {'desc': 'No such object'}
P ldap.INSUFFICIENT_ACCESS: {'desc': 'Insufficient access'}
V ldap.INVALID_DN_SYNTAX: {'desc': 'Invalid DN syntax'}
V ldap.OBJECT_CLASS_VIOLATION
V ldap.CONSTRAINT_VIOLATION
V ldap.ALREADY_EXISTS
N ldap.TIMEOUT
T ldap.BUSY
T ldap.UNAVAILABLE
P ldap.STRONG_AUTH_REQUIRED
P 80090308: LdapErr: DSID-0C09, comment: AcceptSecurityContext error, data 52e
P Vault: permission denied
T Vault is sealed
P vault: invalid token
P 2FA code required
P OTP code is incorrect
P Invalid one-time password
P Your account is locked. Contact your administrator.
P API key is not valid. Please pass a valid API key.
P API key has expired
P Webhook signature does not match
P No API key provided
P Missing Authorization header
P Bearer token is malformed
P This endpoint requires authentication
P IP address 10.0.0.9 is not whitelisted
P Your plan does not include access to this feature
P CORS policy: origin not allowed
P You are not a member of this organization
P User is not assigned to a role for the application
P The user has not granted the application consent
P session is invalid or expired
P HMAC validation failed
P Two-factor authentication is required for this account
P must verify email address before continuing
"""
