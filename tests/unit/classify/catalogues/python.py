"""What the standard library of Python says."""

from __future__ import annotations

PYTHON = r"""
V ValueError: too many values to unpack (expected 2)
V not enough values to unpack (expected 3, got 2)
V ValueError: time data '2026-13-01' does not match format '%Y-%m-%d'
V invalid literal for int() with base 10: ''
V could not convert string to float: 'n/a'
V ValueError: substring not found
V list.remove(x): x not in list
V ValueError: 7 is not in range
V math domain error
V ValueError: year 0 is out of range
V day is out of range for month
V Invalid isoformat string: 'tomorrow'
V badly formed hexadecimal UUID string
V min() arg is an empty sequence
V max() iterable argument is empty
V ValueError: I/O operation on closed file.
V embedded null byte
V ValueError: unknown url type: 'files.internal/a'
V Circular reference detected
V ValueError: Out of range float values are not JSON compliant
V Object of type Decimal is not JSON serializable
V TypeError: 'NoneType' object is not subscriptable
V 'int' object is not callable
V 'NoneType' object is not iterable
V unhashable type: 'dict'
V can only concatenate str (not "int") to str
V '<' not supported between instances of 'str' and 'int'
V unsupported operand type(s) for -: 'str' and 'float'
V run() takes 2 positional arguments but 3 were given
V __init__() missing 2 required positional arguments: 'name' and 'repo'
V sync() got multiple values for argument 'repo'
V object of type 'generator' has no len()
V descriptor 'append' requires a 'list' object but received a 'tuple'
V must be real number, not str
V a bytes-like object is required, not 'str'
V string indices must be integers, not 'str'
V list indices must be integers or slices, not str
V TypeError: cannot pickle '_thread.lock' object
V TypeError: object NoneType can't be used in 'await' expression
V 'async_generator' object is not iterable
V can't compare offset-naive and offset-aware datetimes
V not all arguments converted during string formatting
V not enough arguments for format string
V KeyError: 'customer_id'
V KeyError: ('eu', 3)
X AttributeError: module 'jobs' has no attribute 'run_all'
X 'dict' object has no attribute 'name'
X AttributeError: partially initialized module 'util' has no attribute 'x' (most likely due to a circular import)
X ImportError: cannot import name 'Sweep' from 'jobs' (/srv/jobs/__init__.py)
X No module named 'pandas'
X ImportError: attempted relative import with no known parent package
X ImportError: libcudart.so.12: cannot open shared object file: No such file or directory
X NameError: name 'repo' is not defined
X UnboundLocalError: cannot access local variable 'total' where it is not associated with a value
X IndexError: list index out of range
X IndexError: pop from empty list
X StopIteration
X ZeroDivisionError: integer modulo by zero
X float division by zero
X RecursionError: maximum recursion depth exceeded in comparison
X NotImplementedError: subclasses must implement run()
X RuntimeError: dictionary changed size during iteration
X RuntimeError: generator raised StopIteration
X RuntimeError: cannot schedule new futures after shutdown
X RuntimeError: Event loop is closed
X RuntimeError: This event loop is already running
X RuntimeError: no running event loop
X RuntimeError: asyncio.run() cannot be called from a running event loop
X RuntimeError: await wasn't used with future
X RuntimeError: <Task pending name='t' coro=<f()>> got Future attached to a different loop
X RuntimeError: super(): no arguments
R RuntimeError: can't start new thread
X RuntimeError: release unlocked lock
V SyntaxError: invalid syntax
V SyntaxError: unterminated string literal (detected at line 3)
V IndentationError: unexpected indent
V TabError: inconsistent use of tabs and spaces in indentation
V UnicodeEncodeError: 'ascii' codec can't encode character '\xe9' in position 3: ordinal not in range(128)
V 'utf-8' codec can't decode byte 0x80 in position 12: invalid start byte
V LookupError: unknown encoding: utf9
V OverflowError: Python int too large to convert to C long
V OverflowError: (34, 'Numerical result out of range')
V OverflowError: cannot convert float infinity to integer
V decimal.InvalidOperation: [<class 'decimal.ConversionSyntax'>]
X decimal.DivisionByZero: [<class 'decimal.DivisionByZero'>]
V struct.error: unpack requires a buffer of 8 bytes
V binascii.Error: Incorrect padding
V Incorrect padding
V Invalid base64-encoded string: number of data characters (5) cannot be 1 more than a multiple of 4
V zlib.error: Error -3 while decompressing data: incorrect header check
V Not a gzipped file (b'PK')
V gzip.BadGzipFile: Not a gzipped file (b'{"')
V EOFError: Compressed file ended before the end-of-stream marker was reached
V tarfile.ReadError: not a gzip file
V zipfile.BadZipFile: Bad CRC-32 for file 'a.csv'
V _csv.Error: field larger than field limit (131072)
V _csv.Error: line contains NUL
V Error: iterator should return strings, not bytes (the file should be opened in text mode)
V json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)
V Expecting ',' delimiter: line 1 column 9 (char 8)
V Unterminated string starting at: line 1 column 5 (char 4)
V Invalid control character at: line 2 column 1 (char 20)
V Invalid \escape: line 1 column 8 (char 7)
V Extra data: line 1 column 3 (char 2)
V xml.etree.ElementTree.ParseError: mismatched tag: line 7, column 2
V not well-formed (invalid token): line 1, column 0
V no element found: line 1, column 0
V syntax error: line 1, column 0
V configparser.MissingSectionHeaderError: File contains no section headers.
V configparser.NoOptionError: No option 'url' in section: 'db'
V configparser.NoSectionError: No section: 'db'
V re.error: nothing to repeat at position 0
V re.error: unbalanced parenthesis at position 4
V missing ), unterminated subpattern at position 0
V argparse.ArgumentError: argument --size: invalid int value: 'ten'
V error: the following arguments are required: --repo
V error: unrecognized arguments: --fast
V error: argument command: invalid choice: 'swep' (choose from 'sweep', 'list')
V pickle.UnpicklingError: invalid load key, '<'.
V _pickle.UnpicklingError: pickle data was truncated
V EOFError: Ran out of input
V unsupported pickle protocol: 5
V Can't pickle <function <lambda>>: attribute lookup <lambda> on __main__ failed
X zoneinfo.ZoneInfoNotFoundError: 'No time zone found with key Europe/Atlantis'
N TimeoutError: [Errno 110] Connection timed out
N socket.timeout: The read operation timed out
N The write operation timed out
N socket.gaierror: [Errno -2] Name or service not known
N [Errno -5] No address associated with hostname
N [Errno 8] nodename nor servname provided, or not known
N ssl.SSLCertVerificationError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired (_ssl.c:1006)
N [SSL: TLSV1_ALERT_PROTOCOL_VERSION] tlsv1 alert protocol version (_ssl.c:1000)
N [SSL: SSLV3_ALERT_HANDSHAKE_FAILURE] sslv3 alert handshake failure
N [SSL: UNEXPECTED_EOF_WHILE_READING] EOF occurred in violation of protocol
N [SSL] record layer failure (_ssl.c:2559)
N ssl.SSLZeroReturnError: TLS/SSL connection has been closed (EOF)
N Hostname mismatch, certificate is not valid for 'db.internal'.
N http.client.RemoteDisconnected: Remote end closed connection without response
N http.client.IncompleteRead: IncompleteRead(1024 bytes read, 4096 more expected)
N http.client.BadStatusLine: No status line received - the server has closed the connection
N urllib.error.URLError: <urlopen error [Errno 113] No route to host>
N <urlopen error timed out>
X urllib.error.HTTPError: HTTP Error 404: Not Found
T HTTP Error 503: Service Unavailable
N Command '['git', 'fetch']' timed out after 60 seconds
X subprocess.CalledProcessError: Command '['make', 'test']' returned non-zero exit status 2.
R Command '['python', 'train.py']' died with <Signals.SIGKILL: 9>.
X Command 'convert' died with <Signals.SIGSEGV: 11>.
X FileNotFoundError: [Errno 2] No such file or directory: 'ffmpeg'
T BlockingIOError: [Errno 11] Resource temporarily unavailable
N BrokenPipeError: [Errno 32] Broken pipe
V IsADirectoryError: [Errno 21] Is a directory: '/srv/out'
V FileExistsError: [Errno 17] File exists: '/srv/out'
V shutil.Error: Destination path '/srv/a/b' already exists
T sqlite3.OperationalError: database is locked
T sqlite3.OperationalError: database schema is locked: main
X sqlite3.OperationalError: unable to open database file
V sqlite3.OperationalError: no such table: jobs
V sqlite3.OperationalError: near "FORM": syntax error
V sqlite3.OperationalError: table jobs has no column named owner
V sqlite3.IntegrityError: FOREIGN KEY constraint failed
V sqlite3.ProgrammingError: Incorrect number of bindings supplied. The current statement uses 2, and there are 1 supplied.
V sqlite3.InterfaceError: Error binding parameter 0 - probably unsupported type.
R sqlite3.OperationalError: database or disk is full
R sqlite3.OperationalError: disk I/O error
P sqlite3.OperationalError: attempt to write a readonly database
X sqlite3.DatabaseError: file is not a database
X sqlite3.DatabaseError: database disk image is malformed
N asyncio.exceptions.IncompleteReadError: 0 bytes read on a total of 4 expected bytes
V asyncio.exceptions.LimitOverrunError: Separator is not found, and chunk exceed the limit
T concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly while the future was running or pending.
R queue.Full
X KeyboardInterrupt
X SystemError: error return without exception set
R MemoryError: Unable to allocate 7.45 GiB for an array with shape (1000000000,) and data type int64
X ModuleNotFoundError: No module named 'yaml'
V tomllib.TOMLDecodeError: Expected '=' after a key in a key/value pair (at line 1, column 5)
V email.errors.HeaderParseError: Expected atom at a start of dot-atom-text
V ipaddress.AddressValueError: Expected 4 octets in '10.0.0'
V '10.0.0.300' does not appear to be an IPv4 or IPv6 address
V 10.0.0.1/24 has host bits set
V graphlib.CycleError: ('nodes are in a cycle', ['a', 'b', 'a'])
V dataclasses.FrozenInstanceError: cannot assign to field 'name'
V statistics.StatisticsError: mean requires at least one data point
V 'purple' is not a valid Colour
"""  # noqa: E501
