"""The standard libraries and the usual frameworks of Java and .NET."""

from __future__ import annotations

JVM = r"""
X java.lang.NullPointerException: Cannot invoke "String.length()" because "<local1>" is null
V java.lang.IllegalArgumentException: Comparison method violates its general contract!
V java.lang.NumberFormatException: For input string: "12a"
V java.lang.ClassCastException: class java.lang.String cannot be cast to class java.lang.Integer
X java.lang.ArrayIndexOutOfBoundsException: Index 5 out of bounds for length 5
X java.lang.ClassNotFoundException: org.postgresql.Driver
X java.lang.NoClassDefFoundError: org/slf4j/LoggerFactory
X java.lang.NoSuchMethodError: 'void com.acme.Job.run()'
X java.lang.UnsupportedOperationException
X java.lang.StackOverflowError
X java.lang.ArithmeticException: / by zero
R java.lang.OutOfMemoryError: Metaspace
R java.lang.OutOfMemoryError: unable to create native thread: possibly out of memory or process/resource limits reached
R java.lang.OutOfMemoryError: Direct buffer memory
X java.util.NoSuchElementException: No value present
X java.io.FileNotFoundException: /data/in.csv (No such file or directory)
P java.nio.file.AccessDeniedException: /srv/out
X java.nio.file.NoSuchFileException: /srv/in.parquet
V java.nio.file.FileAlreadyExistsException: /srv/out
V java.nio.file.DirectoryNotEmptyException: /srv/out
R java.io.IOException: No space left on device
N java.io.IOException: Broken pipe
N java.io.IOException: Connection reset by peer
R java.io.IOException: Too many open files
N java.io.EOFException: SSL peer shut down incorrectly
N java.net.SocketException: Connection reset
N java.net.SocketTimeoutException: connect timed out
N java.net.NoRouteToHostException: No route to host (Host unreachable)
N java.net.PortUnreachableException
N java.net.BindException: Address already in use
V java.net.MalformedURLException: no protocol: files/a
V java.net.URISyntaxException: Illegal character in path at index 12
N java.net.http.HttpTimeoutException: request timed out
N java.net.http.HttpConnectTimeoutException: HTTP connect timed out
N java.util.concurrent.TimeoutException
T java.util.concurrent.RejectedExecutionException: Task rejected from java.util.concurrent.ThreadPoolExecutor
X java.util.concurrent.ExecutionException: java.lang.NullPointerException
N java.util.concurrent.ExecutionException: java.net.ConnectException: Connection refused
T java.util.concurrent.CancellationException
N javax.net.ssl.SSLPeerUnverifiedException: Hostname not verified
N sun.security.validator.ValidatorException: PKIX path validation failed: java.security.cert.CertPathValidatorException: validity check failed
P java.security.AccessControlException: access denied ("java.io.FilePermission" "/etc/x" "read")
P javax.security.auth.login.LoginException: Unable to obtain password from user
P javax.security.auth.login.FailedLoginException: Password Incorrect/Password Required
V java.time.format.DateTimeParseException: Text '2026-13-01' could not be parsed at index 5
V com.fasterxml.jackson.core.JsonParseException: Unexpected character ('<' (code 60))
V com.fasterxml.jackson.databind.exc.MismatchedInputException: Cannot deserialize value of type `int` from String "x"
V com.fasterxml.jackson.databind.exc.UnrecognizedPropertyException: Unrecognized field "ownr"
V com.google.gson.JsonSyntaxException: Expected BEGIN_OBJECT but was STRING
V org.xml.sax.SAXParseException: Premature end of file.
V javax.validation.ConstraintViolationException: name: must not be blank
V org.springframework.web.bind.MethodArgumentNotValidException: Validation failed for argument [0]
V org.springframework.dao.DataIntegrityViolationException: could not execute statement
V org.hibernate.exception.ConstraintViolationException: could not execute statement
T org.hibernate.StaleObjectStateException: Row was updated or deleted by another transaction
T org.springframework.orm.ObjectOptimisticLockingFailureException: Object was modified
X org.springframework.beans.factory.NoSuchBeanDefinitionException: No qualifying bean of type 'JobStore' available
P org.springframework.security.access.AccessDeniedException: Access is denied
P org.springframework.security.authentication.BadCredentialsException: Bad credentials
N org.springframework.web.client.ResourceAccessException: I/O error on GET request for "http://jobs": Connection refused
N org.apache.http.NoHttpResponseException: jobs.internal:443 failed to respond
N org.apache.http.conn.ConnectTimeoutException: Connect to jobs.internal:443 timed out
R org.apache.http.conn.ConnectionPoolTimeoutException: Timeout waiting for connection from pool
R java.sql.SQLTransientConnectionException: HikariPool-1 - Connection is not available, request timed out after 30000ms.
N java.sql.SQLNonTransientConnectionException: Could not create connection to database server
N com.mysql.cj.jdbc.exceptions.CommunicationsException: Communications link failure
V java.sql.SQLSyntaxErrorException: Unknown column 'ownr' in 'field list'
V java.sql.SQLIntegrityConstraintViolationException: Duplicate entry '7' for key 'PRIMARY'
N java.sql.SQLTimeoutException: Statement cancelled due to timeout or client request
P java.sql.SQLInvalidAuthorizationSpecException: Access denied for user 'app'
T io.github.resilience4j.circuitbreaker.CallNotPermittedException: CircuitBreaker 'billing' is OPEN and does not permit further calls
T io.github.resilience4j.ratelimiter.RequestNotPermitted: RateLimiter 'mail' does not permit further calls
T io.github.resilience4j.bulkhead.BulkheadFullException: Bulkhead 'mail' is full and does not permit further calls
N io.netty.channel.ConnectTimeoutException: connection timed out: db/10.0.0.7:5432
N io.netty.handler.timeout.ReadTimeoutException
N reactor.netty.http.client.PrematureCloseException: Connection prematurely closed BEFORE response
N feign.RetryableException: Read timed out executing POST http://jobs/run
T feign.FeignException$ServiceUnavailable: [503] during [GET] to [http://jobs/x]
X feign.FeignException$NotFound: [404] during [GET] to [http://jobs/x]
"""  # noqa: E501

DOTNET = r"""
X System.NullReferenceException: Object reference not set to an instance of an object.
V System.ArgumentNullException: Value cannot be null. (Parameter 'source')
V System.ArgumentException: An item with the same key has already been added. Key: 7
V System.ArgumentOutOfRangeException: Specified argument was out of the range of valid values.
V System.FormatException: Input string was not in a correct format.
V System.FormatException: String '2026-13-01' was not recognized as a valid DateTime.
V System.InvalidCastException: Unable to cast object of type 'System.String' to type 'System.Int32'.
X System.InvalidOperationException: Sequence contains no elements
V System.OverflowException: Value was either too large or too small for an Int32.
X System.DivideByZeroException: Attempted to divide by zero.
X System.IndexOutOfRangeException: Index was outside the bounds of the array.
X System.NotImplementedException: The method or operation is not implemented.
X System.IO.FileNotFoundException: Could not load file or assembly 'Newtonsoft.Json'
X System.IO.DirectoryNotFoundException: Could not find a part of the path 'C:\in'.
V System.IO.PathTooLongException: The specified path, file name, or both are too long.
T System.IO.IOException: The process cannot access the file 'a.db' because it is being used by another process.
N System.IO.IOException: Unable to read data from the transport connection: An existing connection was forcibly closed by the remote host.
P System.UnauthorizedAccessException: Access to the path 'C:\out' is denied.
P System.Security.SecurityException: Requested registry access is not allowed.
P System.Security.Authentication.InvalidCredentialException: The server has rejected the client credentials.
N System.Security.Authentication.AuthenticationException: The remote certificate is invalid according to the validation procedure.
R System.OutOfMemoryException: Insufficient memory to continue the execution of the program.
N System.TimeoutException: The operation has timed out.
N System.Net.Http.HttpRequestException: No connection could be made because the target machine actively refused it.
N System.Net.Sockets.SocketException (10060): A connection attempt failed because the connected party did not properly respond
N System.Net.WebException: The underlying connection was closed: A connection that was expected to be kept alive was closed by the server.
N System.Net.WebException: The remote name could not be resolved: 'jobs.internal'
P System.Net.WebException: The remote server returned an error: (401) Unauthorized.
N System.Threading.Tasks.TaskCanceledException: The request was canceled due to the configured HttpClient.Timeout of 100 seconds elapsing.
T System.OperationCanceledException: The operation was canceled.
T System.Threading.SynchronizationLockException: lock conflict
V System.Text.Json.JsonException: The JSON value could not be converted to System.Int32.
V Newtonsoft.Json.JsonReaderException: Unexpected character encountered while parsing value: <.
V System.Xml.XmlException: Root element is missing.
V System.IO.InvalidDataException: Found invalid data while decoding.
T Microsoft.Data.SqlClient.SqlException (0x80131904): Transaction (Process ID 55) was deadlocked on lock resources
N Microsoft.Data.SqlClient.SqlException: Execution Timeout Expired. The timeout period elapsed prior to completion of the operation or the server is not responding.
R Timeout expired. The timeout period elapsed prior to obtaining a connection from the pool.
T Microsoft.EntityFrameworkCore.DbUpdateConcurrencyException: Database operation expected to affect 1 row(s) but actually affected 0 row(s)
V Microsoft.EntityFrameworkCore.DbUpdateException: An error occurred while saving the entity changes: duplicate key
T Polly.CircuitBreaker.BrokenCircuitException: The circuit is now open and is not allowing calls.
N Polly.Timeout.TimeoutRejectedException: The delegate executed asynchronously through TimeoutPolicy did not complete within the timeout.
T Polly.RateLimiting.RateLimiterRejectedException: The operation could not be executed because it was rejected by the rate limiter.
X System.ObjectDisposedException: Cannot access a disposed object.
X System.MissingMethodException: Method not found: 'Void Acme.Job.Run()'.
X System.TypeLoadException: Could not load type 'Acme.Job'
"""  # noqa: E501
