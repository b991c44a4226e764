"""Files and their forms, disks, payments, and what applications refuse."""

from __future__ import annotations

FORMATS = r"""
V File is not a zip file
V End-of-central-directory signature not found. Either this file is not a zipfile, or it constitutes one disk of a multi-part archive.
V Bad magic number for central directory
V unexpected end of archive
V gzip: stdin: not in gzip format
V tar: This does not look like a tar archive
V tar: Unexpected EOF in archive
V invalid compressed data--crc error
V invalid stored block lengths
V Compressed data is corrupt
V bz2: Invalid data stream
V Input format not supported by decoder
V LZ4F_decompress failed: ERROR_frameType_unknown
V zstd decompress error: Unknown frame descriptor
V Data corruption detected
V Could not open Parquet input source 'a.parquet': Parquet magic bytes not found in footer. Either the file is corrupted or this is not a parquet file.
V Parquet file size is 0 bytes
V pyarrow.lib.ArrowInvalid: Float value 1.5 was truncated converting to int64
V pyarrow.lib.ArrowTypeError: Expected bytes, got a 'int' object
V pyarrow.lib.ArrowInvalid: Unable to merge: Field size has incompatible types: int64 vs string
V avro.errors.AvroTypeException: The datum 7 is not an example of the schema "string"
V Invalid Avro data file: magic bytes do not match
V pandas.errors.ParserError: Error tokenizing data. C error: Expected 3 fields in line 7, saw 5
V pandas.errors.EmptyDataError: No columns to parse from file
V pandas.errors.MergeError: Merge keys are not unique in right dataset
V pandas.errors.OutOfBoundsDatetime: Out of bounds nanosecond timestamp: 3000-01-01
V KeyError: "['ownr'] not in index"
V Usecols do not match columns, columns expected but not found: ['ownr']
V Columns must be same length as key
V Length of values (3) does not match length of index (4)
V cannot reindex on an axis with duplicate labels
V line 7: wrong number of fields
V record on line 7: wrong number of fields
V bare " in non-quoted field
V row 7 has 5 columns, expected 4
V Missing header row
V delimiter not found
V XMLSyntaxError: Opening and ending tag mismatch: a line 4 and b
V lxml.etree.XMLSyntaxError: Start tag expected, '<' not found, line 1, column 1
V Premature end of data in tag jobs line 1
V Element 'ownr': This element is not expected. Expected is ( owner ).
V cvc-complex-type.2.4.a: Invalid content was found starting with element 'ownr'.
V Document is empty, line 1, column 1
V yaml.scanner.ScannerError: while scanning for the next token found character '\t' that cannot start any token
V yaml.parser.ParserError: expected <block end>, but found '-'
V while parsing a block mapping did not find expected key
V found duplicate key "owner"
V Invalid TOML: Unbalanced quotes
V pypdf.errors.PdfReadError: EOF marker not found
V PdfStreamError: Stream has ended unexpectedly
V PDF header seems malformed
V File has not been decrypted
V PIL.UnidentifiedImageError: cannot identify image file 'a.png'
V OSError: image file is truncated (7 bytes not processed)
V broken data stream when reading image file
V cannot write mode RGBA as JPEG
V Corrupt JPEG data: premature end of data segment
V Not a JPEG file: starts with 0x89 0x50
V libpng error: IDAT: CRC error
V Unsupported image format: webp
V moov atom not found
V Invalid data found when processing input
V Could not find codec parameters for stream 0
V openpyxl.utils.exceptions.InvalidFileException: openpyxl does not support .xls file format
V xlrd.biffh.XLRDError: Excel xlsx file; not supported
V google.protobuf.message.DecodeError: Error parsing message
V Protocol message contained an invalid tag (zero).
V Truncated message
V msgpack.exceptions.ExtraData: unpack(b) received extra data.
V Wrong file signature
V checksum mismatch: expected 4f2a, got 9c1b
V sha256 sum does not match
V unsupported compression method 99
V invalid BOM
V Non-UTF-8 code starting with '\xe9'
V invalid continuation byte
V 'charmap' codec can't encode characters in position 0-3: character maps to <undefined>
V surrogates not allowed
V Invalid GeoJSON
V invalid geometry: Ring Self-intersection
V Invalid cron expression '* * *'
V cron: expected exactly 5 fields, found 3
V Invalid regular expression: missing /
V unterminated character set at position 4
V TemplateSyntaxError: Unexpected end of template. Jinja was looking for the following tags: 'endif'.
V jinja2.exceptions.UndefinedError: 'owner' is undefined
X jinja2.exceptions.TemplateNotFound: sweep.html
X TemplateDoesNotExist: sweep.html
V GraphQL error: Cannot query field "ownr" on type "Job". Did you mean "owner"?
V Variable "$id" of required type "ID!" was not provided.
V Syntax Error: Expected Name, found "}".
"""  # noqa: E501

DISKS = r"""
R No space left on device
R write error: No space left on device
R cp: error writing '/srv/a': No space left on device
R tee: /srv/a: No space left on device
R The volume is out of disk space
R Filesystem is 100% full
R disk usage is at 100%
R out of inodes
R no free inodes
R inode table is full
R thin pool is out of data space
R LVM: insufficient free space: 100 extents needed, but only 20 available
R XFS: possible memory allocation deadlock
R blk_update_request: I/O error, dev sdb, sector 7
R Buffer I/O error on dev sdb1
P EXT4-fs (sda1): Remounting filesystem read-only
P touch: cannot touch 'a': Read-only file system
R raid array is degraded, disk failure detected
R SMART error: FailedOpenDevice disk failure
R ulimit: open files limit reached
R ulimit: max user processes: cannot fork
R bash: fork: retry: Resource temporarily unavailable
R fork failed: Cannot allocate memory
R -bash: xmalloc: cannot allocate 8192 bytes
R inotify watch limit reached
R inotify_add_watch: no space left on device
R pthread_create failed (EAGAIN): Resource temporarily unavailable
R libgomp: Thread creation failed: Resource temporarily unavailable
R OpenBLAS blas_thread_init: pthread_create failed for thread 7 of 8: Resource temporarily unavailable
R Out of memory: Killed process 77 (python3) total-vm:8000000kB
R oom-kill:constraint=CONSTRAINT_MEMCG
R Memory cgroup out of memory: Killed process 77
R invoked oom-killer: gfp_mask=0xcc0
R Killed
R Process killed by the OOM killer
R worker killed: memory limit 512MB exceeded
R [CRITICAL] WORKER (pid:77) was sent SIGKILL! Perhaps out of memory?
N [CRITICAL] WORKER TIMEOUT (pid:77)
R std::bad_alloc
R malloc: can't allocate region
R mmap failed: Cannot allocate memory
R Unable to allocate 1.2 GiB for an array
R shared memory segment exceeded the kernel limit
R No space left in shared memory: /dev/shm is full
R semget: No space left on device
R Maximum number of open files exceeded
R The maximum number of concurrent connections has been exceeded for this user
R nf_conntrack: table full, dropping packet
R Cannot assign requested address: ephemeral ports exhausted
X Segmentation fault (core dumped)
X Bus error (core dumped)
X Aborted (core dumped)
X Illegal instruction (core dumped)
X free(): invalid pointer
X double free or corruption (out)
X *** stack smashing detected ***: terminated
X Fatal Python error: Segmentation fault
"""

PAYMENTS = r"""
V stripe.error.InvalidRequestError: No such customer: 'cus_x'
V stripe.error.CardError: Your card number is incorrect.
V Your card's security code is incorrect.
V Your card does not support this type of purchase.
V incorrect_cvc
V Amount must be at least 50 cents
V Invalid currency: xyz
V The currency provided is invalid
V You cannot refund more than the original amount
V Charge has already been refunded
V Invoice is already paid
V Keys for idempotent requests can only be used with the same parameters they were first used with.
T stripe.error.RateLimitError: Request rate limit exceeded
N stripe.error.APIConnectionError: Unexpected error communicating with Stripe.
P stripe.error.AuthenticationError: Invalid API Key provided: sk_live
P stripe.error.PermissionError: The provided key does not have the required permissions for this endpoint
P stripe.error.SignatureVerificationError: No signatures found matching the expected signature for payload
T lock_timeout: This object cannot be accessed right now because another API request is currently accessing it.
T processing_error: An error occurred while processing your card. Try again in a little bit.
T Issuer temporarily unavailable
V IBAN is not valid
V Invalid IBAN checksum
V VAT number is invalid
V Postal code does not match the card's country
V Transaction amount exceeds the limit per transaction
P Payment method requires authentication
P 3D Secure authentication failed
"""

APPLICATIONS = r"""
V This field is required.
V This field may not be blank.
V This field may not be null.
V Ensure this value is greater than or equal to 1.
V Ensure this field has no more than 20 characters.
V Enter a valid email address.
V "ten" is not a valid choice.
V A user with that username already exists.
V Invalid pk "7" - object does not exist.
V Incorrect type. Expected pk value, received str.
V Date has wrong format. Use one of these formats instead: YYYY-MM-DD.
V The fields owner, repo must make a unique set.
V Input should be a valid integer, unable to parse string as an integer
V Field required [type=missing, input_value={}, input_type=dict]
V Extra inputs are not permitted
V String should have at most 20 characters
V List should have at least 1 item after validation, not 0
V Input should be 'sweep' or 'list'
V 1 validation error for Job
V value is not a valid enumeration member
V none is not an allowed value
V end_date must be after start_date
V start date is after end date
V Due date cannot be in the past
V quantity must be positive
V quantity exceeds available stock
V Password must contain at least one digit
V Passwords do not match
V Phone number is not valid
V Country code not recognised
V Unknown timezone: Mars/Base
V Age must be between 18 and 99
V The percentages do not add up to 100
V order total does not match the sum of its lines
V Invoice number already used
V Email address is already in use
V username is taken
V Missing required field: owner
V required field 'repo' is empty
V payload is missing the key 'task'
V body is not valid JSON
V request body is empty
V unexpected field 'ownr' in payload
V Unsupported schema version 9
V invalid transition from 'done' to 'running'
V Cannot cancel an order that has already shipped
V order is already closed
V cannot delete a customer with open invoices
V File type not allowed
V File exceeds the maximum upload size
V The uploaded file is empty
V Attachment larger than 25 MB
V The id must be a UUID
V page must be greater than 0
V limit may not exceed 1000
V cursor is malformed
V sort key not allowed
V Invalid filter expression
V No mapping for column 'ownr'
V Row 7: amount is not a number
V Row 7: duplicate invoice number
V 3 rows failed validation
V data contract violated: owner is null
V Great Expectations: expectation failed: expect_column_values_to_not_be_null
V schema registry: schema is not compatible
V environment variable DATABASE_URL is not set
V Missing environment variable: API_TOKEN_NAME
V Invalid configuration: 'retries' must be an integer
V config file is invalid: unknown key 'retires'
V Unknown command: swep
V unknown option --fast
V unrecognized arguments: --fast
V No such option: --fast
V Missing argument 'REPO'.
V Invalid value for '--size': 'ten' is not a valid integer.
P You do not have permission to perform this action.
P Authentication credentials were not provided.
P Invalid token.
P User inactive or deleted.
P CSRF Failed: CSRF token missing.
P Only the owner may delete this job
P Only administrators can do this
P Your role does not allow you to approve
P not allowed to approve your own request
P Operation requires the 'admin' role
X No Job matches the given query.
X Job 77 not found
X customer 77 does not exist
X Order not found
X No such order
X This page does not exist
X Feature flag not found
X Method "POST" not implemented
T The record is being edited by another user
T Another import is already running
T Your request is being processed, please try again later
T The report is not ready yet
T Please wait before trying again
T Too many login attempts, try again in 5 minutes
T Too many attempts. Please try again later.
T Service under maintenance
R Upload quota exhausted
R Your mailbox quota is full
R Plan limit reached: upgrade to add more seats
R Workspace storage is full
R queue is full
"""
