"""What relational databases and their drivers say."""

from __future__ import annotations

POSTGRES = r"""
V ERROR:  duplicate key value violates unique constraint "jobs_pkey"
V ERROR:  null value in column "owner" violates not-null constraint
V ERROR:  new row for relation "jobs" violates check constraint "jobs_size_check"
V ERROR:  insert or update on table "runs" violates foreign key constraint "runs_job_fk"
V ERROR:  update or delete on table "jobs" violates foreign key constraint "runs_job_fk" on table "runs"
V ERROR:  conflicting key value violates exclusion constraint "no_overlap"
V ERROR:  relation "jbos" does not exist
V ERROR:  column "ownr" does not exist
V ERROR:  function sweep(integer) does not exist
V ERROR:  type "citext" does not exist
V ERROR:  operator does not exist: integer = text
V ERROR:  relation "jobs" already exists
V ERROR:  column reference "id" is ambiguous
V ERROR:  invalid byte sequence for encoding "UTF8": 0xff
V ERROR:  invalid input value for enum state: "paused"
V ERROR:  date/time field value out of range: "2026-02-30"
V ERROR:  numeric field overflow
V ERROR:  integer out of range
V ERROR:  string is too long for tsvector
V ERROR:  more than one row returned by a subquery used as an expression
V ERROR:  malformed array literal: "{1,2"
V ERROR:  INSERT has more expressions than target columns
V ERROR:  bind message supplies 2 parameters, but prepared statement "" requires 3
V ERROR:  cannot cast type jsonb to integer
V ERROR:  column "size" is of type integer but expression is of type text
V ERROR:  row is too big: size 9000, maximum size 8160
V ERROR:  index row size 2856 exceeds btree version 4 maximum 2704 for index "jobs_name"
X FATAL:  database "jbos" does not exist
P FATAL:  no pg_hba.conf entry for host "10.0.0.9", user "app", database "jobs", SSL off
P FATAL:  Peer authentication failed for user "app"
P ERROR:  permission denied for schema public
P ERROR:  must be owner of relation jobs
P ERROR:  new row violates row-level security policy for table "jobs"
P ERROR:  cannot set parameter "log_min_messages": permission denied
R FATAL:  too many connections for role "app"
R FATAL:  too many connections for database "jobs"
R FATAL:  sorry, too many clients already
R ERROR:  out of shared memory
R ERROR:  could not resize shared memory segment "/PostgreSQL.1": No space left on device
R ERROR:  could not write to file "base/pgsql_tmp/1": No space left on device
R PANIC:  could not write to file "pg_wal/xlogtemp.1": No space left on device
R ERROR:  temporary file size exceeds temp_file_limit (1048576kB)
R ERROR:  memory exhausted
T ERROR:  deadlock detected
T ERROR:  could not serialize access due to read/write dependencies among transactions
T ERROR:  could not obtain lock on relation "jobs"
T ERROR:  canceling statement due to lock timeout
N ERROR:  canceling statement due to statement timeout
T ERROR:  canceling statement due to conflict with recovery
T ERROR:  canceling statement due to user request
N FATAL:  terminating connection due to idle-in-transaction timeout
T FATAL:  terminating connection due to administrator command
T FATAL:  the database system is shutting down
T FATAL:  the database system is not yet accepting connections
T FATAL:  the database system is starting up
T ERROR:  cannot execute UPDATE in a read-only transaction
T ERROR:  current transaction is aborted, commands ignored until end of transaction block
N server closed the connection unexpectedly
N could not receive data from server: Connection timed out
N SSL SYSCALL error: EOF detected
N connection to server at "db" (10.0.0.7), port 5432 failed: Connection refused
N connection to server at "db" (10.0.0.7), port 5432 failed: timeout expired
N could not translate host name "db.prod" to address: Temporary failure in name resolution
N asyncpg.exceptions.ConnectionDoesNotExistError: connection was closed in the middle of operation
X ERROR:  invalid page in block 7 of relation base/16384/2601
V sqlalchemy.exc.ProgrammingError: (psycopg2.errors.UndefinedTable) relation "jobs" does not exist
V psycopg2.errors.UndefinedColumn: column "ownr" does not exist
V psycopg.errors.NumericValueOutOfRange: integer out of range
P psycopg2.errors.InsufficientPrivilege: permission denied for table jobs
T psycopg.errors.LockNotAvailable: could not obtain lock on row in relation "jobs"
R psycopg.errors.DiskFull: could not extend file
R psycopg_pool.PoolTimeout: couldn't get a connection after 30.00 sec
R asyncpg.exceptions.TooManyConnectionsError: sorry, too many clients already
R pgbouncer: no more connections allowed (max_client_conn)
N pgbouncer: server_login_retry: server login has been failing, connect timeout
R query_wait_timeout: no connection became free in the pool
X psycopg2.InterfaceError: cursor already closed
N psycopg2.InterfaceError: connection already closed
X sqlalchemy.orm.exc.DetachedInstanceError: Instance <Job> is not bound to a Session
X sqlalchemy.exc.NoResultFound: No row was found when one was required
T sqlalchemy.orm.exc.StaleDataError: UPDATE statement on table 'jobs' expected to update 1 row(s); 0 were matched.
"""

MYSQL = r"""
P ERROR 1045 (28000): Access denied for user 'app'@'10.0.0.9' (using password: YES)
P Access denied for user 'app'@'%' to database 'jobs'
P SELECT command denied to user 'app'@'10.0.0.9' for table 'jobs'
P Host '10.0.0.9' is not allowed to connect to this MySQL server
P Your password has expired. To log in you must change it using a client that supports expired passwords.
R Host '10.0.0.9' is blocked because of many connection errors; unblock with 'mysqladmin flush-hosts'
R Too many connections
R User 'app' has exceeded the 'max_user_connections' resource (current value: 10)
R The table 'jobs' is full
R Got error 28 from storage engine
R Disk full (/tmp/#sql_1.MAI); waiting for someone to free some space...
R Out of sort memory, consider increasing server sort buffer size
T Deadlock found when trying to get lock; try restarting transaction
T Lock wait timeout exceeded; try restarting transaction
T The MySQL server is running with the --read-only option so it cannot execute this statement
T Query execution was interrupted
T Server shutdown in progress
T WSREP has not yet prepared node for application use
N MySQL server has gone away
N Lost connection to MySQL server at 'reading initial communication packet', system error: 104
N Lost connection to MySQL server during query
N Can't connect to MySQL server on 'db' (111)
N Can't connect to local MySQL server through socket '/run/mysqld/mysqld.sock' (2)
N Unknown MySQL server host 'db.prod' (-2)
N Aborted connection 42 to db: 'jobs' user: 'app' (Got timeout reading communication packets)
N Query execution was interrupted, maximum statement execution time exceeded
V Duplicate entry '7' for key 'jobs.PRIMARY'
V Column 'owner' cannot be null
V Field 'owner' doesn't have a default value
V Unknown column 'ownr' in 'field list'
V Table 'prod.jbos' doesn't exist
V Table 'jobs' already exists
V Data too long for column 'name' at row 1
V Incorrect string value: '\xF0\x9F\x98\x80' for column 'name' at row 1
V Incorrect datetime value: '2026-02-30' for column 'due' at row 1
V Out of range value for column 'size' at row 1
V Data truncated for column 'state' at row 1
V Cannot add or update a child row: a foreign key constraint fails
V Cannot delete or update a parent row: a foreign key constraint fails
V Column count doesn't match value count at row 1
V Subquery returns more than 1 row
V Operand should contain 1 column(s)
V Invalid use of group function
V You have an error in your SQL syntax; check the manual near 'FORM jobs'
V Expression #2 of SELECT list is not in GROUP BY clause
V Invalid JSON text: "Missing a closing quotation mark in string." at position 5
V Check constraint 'jobs_chk_1' is violated.
V Got a packet bigger than 'max_allowed_packet' bytes
X Table './prod/jobs' is marked as crashed and should be repaired
"""

ORACLE = r"""
V ORA-00001: unique constraint (APP.JOBS_PK) violated
V ORA-00904: "OWNR": invalid identifier
V ORA-00942: table or view does not exist
V ORA-01400: cannot insert NULL into ("APP"."JOBS"."OWNER")
V ORA-01722: invalid number
V ORA-01843: not a valid month
V ORA-02291: integrity constraint (APP.RUNS_FK) violated - parent key not found
V ORA-12899: value too large for column "APP"."JOBS"."NAME" (actual: 40, maximum: 30)
V ORA-01438: value larger than specified precision allowed for this column
V ORA-00933: SQL command not properly ended
P ORA-01017: invalid username/password; logon denied
P ORA-01031: insufficient privileges
P ORA-28000: The account is locked.
P ORA-28001: the password has expired
T ORA-00060: deadlock detected while waiting for resource
T ORA-00054: resource busy and acquire with NOWAIT specified or timeout expired
T ORA-08177: can't serialize access for this transaction
T ORA-01033: ORACLE initialization or shutdown in progress
T ORA-01555: snapshot too old: rollback segment number 4
N ORA-03113: end-of-file on communication channel
N ORA-03135: connection lost contact
N ORA-12170: TNS:Connect timeout occurred
N ORA-12541: TNS:no listener
N ORA-12154: TNS:could not resolve the connect identifier specified
R ORA-01652: unable to extend temp segment by 128 in tablespace TEMP
R ORA-04031: unable to allocate 4096 bytes of shared memory
R ORA-00020: maximum number of processes (300) exceeded
R ORA-00257: archiver error. Connect internal only, until freed.
R ORA-01536: space quota exceeded for tablespace 'USERS'
N DPY-6005: cannot connect to database. Connection failed with "timed out"
N DPI-1080: connection was closed by ORA-3113
"""

SQL_SERVER = r"""
P Login failed for user 'app'.
P Cannot open database "jobs" requested by the login. The login failed.
P The SELECT permission was denied on the object 'jobs', database 'prod', schema 'dbo'.
P The server principal "app" is not able to access the database "jobs" under the current security context.
T Transaction (Process ID 52) was deadlocked on lock resources with another process and has been chosen as the deadlock victim.
T Lock request time out period exceeded.
T Database 'jobs' on server 'db1' is not currently available. Please retry the connection later.
T Snapshot isolation transaction aborted due to update conflict.
T The service has encountered an error processing your request. Please try again. Error code 40197.
T The service is currently busy. Retry the request after 10 seconds.
N A network-related or instance-specific error occurred while establishing a connection to SQL Server. The server was not found or was not accessible.
N A transport-level error has occurred when receiving results from the server.
N Login timeout expired
N Query timeout expired
N TCP Provider: An existing connection was forcibly closed by the remote host.
N [08S01] [Microsoft][ODBC Driver 18 for SQL Server]Communication link failure
N [08001] [Microsoft][ODBC Driver 18 for SQL Server]TCP Provider: Error code 0x2746
N [HYT00] [Microsoft][ODBC Driver 18 for SQL Server]Login timeout expired (0)
V [42S02] [Microsoft][ODBC Driver 18 for SQL Server][SQL Server]Invalid object name 'jbos'.
V Invalid column name 'ownr'.
V Invalid object name 'dbo.jbos'.
V Violation of PRIMARY KEY constraint 'PK_jobs'. Cannot insert duplicate key in object 'dbo.jobs'.
V Cannot insert the value NULL into column 'owner', table 'prod.dbo.jobs'; column does not allow nulls.
V The INSERT statement conflicted with the FOREIGN KEY constraint "FK_runs".
V String or binary data would be truncated in table 'jobs', column 'name'.
V Conversion failed when converting the varchar value 'ten' to data type int.
V Arithmetic overflow error converting expression to data type int.
V Incorrect syntax near 'FORM'.
V The multi-part identifier "j.ownr" could not be bound.
V Must declare the scalar variable "@id".
R Could not allocate space for object 'dbo.jobs' in database 'prod' because the 'PRIMARY' filegroup is full.
R The transaction log for database 'prod' is full due to 'LOG_BACKUP'.
R There is insufficient system memory in resource pool 'default' to run this query.
R The request limit for the database is 60 and has been reached.
R The database 'prod' has reached its size quota.
"""  # noqa: E501
