"""Real exceptions, made by the libraries themselves wherever that can be done without a server, with their categories.

botocore's are imitated by name and shape: it is too big to install for this.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import configparser
import csv
import errno
import ftplib
import http.client
import io
import json
import os
import pickle
import queue
import smtplib
import socket
import sqlite3
import ssl
import struct
import subprocess
import tarfile
import tomllib
import urllib.error
import xml.etree.ElementTree
import zipfile
import zlib
from collections.abc import Callable, Iterator
from email.message import Message
from typing import Any

import aiohttp
import anyio
import click
import grpc  # type: ignore[import-untyped]
import httpcore
import httpx
import jsonschema  # type: ignore[import-untyped]
import opensearchpy
import psycopg
import psycopg.errors
import pydantic
import redis.exceptions
import requests
import sqlalchemy.exc
import tenacity
import urllib3.exceptions
import yaml
from aiohttp.client_reqrep import ConnectionKey
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from mahavishnu.model.errors import InvalidInput, StoreMisconfigured, StoreUnavailable

T, N, R, P, V, X = "transient", "network", "resource", "permission", "validation", "permanent"
REQUEST = httpx.Request("GET", "https://api.example.com/timeout")


def catch(action: Callable[[], object]) -> BaseException:
    """What the call raises."""
    try:
        action()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def with_cause(
    error: BaseException, cause: BaseException | None = None, context: BaseException | None = None
) -> BaseException:
    """`error`, raised from `cause` or while handling `context`."""
    if cause is not None:
        error.__cause__ = cause
        error.__suppress_context__ = True
    error.__context__ = context or cause
    return error


def exception_class(name: str, base: type[Exception] = Exception, **attributes: Any) -> type[Exception]:
    """An exception type of a library that is not installed."""
    module, _, last = name.rpartition(".")
    return type(last, (base,), {"__module__": module, **attributes})


def by_httpx(status: int) -> BaseException:
    return catch(httpx.Response(status, request=REQUEST).raise_for_status)


def by_requests(status: int) -> BaseException:
    response = requests.Response()
    response.status_code, response.url = status, "https://api.example.com/denied"
    return catch(response.raise_for_status)


def by_aiohttp(status: int) -> BaseException:
    url = URL("https://api.example.com")
    about = aiohttp.RequestInfo(url, "GET", CIMultiDictProxy(CIMultiDict()), url)
    return aiohttp.ClientResponseError(about, (), status=status, message="no")


def by_aiohttp_connector(number: int) -> BaseException:
    key = ConnectionKey("db", 443, True, True, None, None, None)
    return aiohttp.ClientConnectorError(key, OSError(number, os.strerror(number)))


def by_urllib(status: int) -> BaseException:
    return urllib.error.HTTPError("https://x", status, "no", Message(), io.BytesIO())


def by_grpc(code: grpc.StatusCode, details: str = "") -> BaseException:
    error: BaseException = grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details=details)
    return error


def by_botocore(code: str, status: int = 400) -> BaseException:
    error = exception_class("botocore.exceptions.ClientError")(
        f"An error occurred ({code}) when calling the PutItem operation: no"
    )
    error.response = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}  # type: ignore[attr-defined]
    return error


def by_sqlite(script: str) -> BaseException:
    connection = sqlite3.connect(":memory:")
    try:
        return catch(lambda: connection.executescript(script))
    finally:
        connection.close()


def by_sqlalchemy(original: BaseException) -> BaseException:
    return catch(
        lambda: (_ for _ in ()).throw(sqlalchemy.exc.DBAPIError.instance("SELECT 1", {}, original, psycopg.Error))
    )


class Order(pydantic.BaseModel):
    quantity: int


class AcmeTimeout(Exception):
    """A user's own."""


class AcmeUnavailable(RuntimeError):
    """A user's own."""


class AcmeRejected(ValueError):
    """A user's own, of a built-in kind, that knows an HTTP status."""

    status_code = 503


def exceptions() -> Iterator[tuple[str, BaseException]]:
    """Category and exception."""
    yield from _standard_library()
    yield from _http_libraries()
    yield from _databases()
    yield from _others()
    yield from _chains_and_groups()


def _standard_library() -> Iterator[tuple[str, BaseException]]:
    yield N, ConnectionError("x")
    yield N, ConnectionRefusedError(errno.ECONNREFUSED, "x")
    yield N, ConnectionResetError("x")
    yield N, ConnectionAbortedError("x")
    yield N, BrokenPipeError("x")
    yield N, TimeoutError()
    yield N, asyncio.TimeoutError()  # noqa: UP041
    yield N, concurrent.futures.TimeoutError()
    yield N, socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    yield N, socket.timeout("timed out")  # noqa: UP041
    yield N, ssl.SSLError(1, "[SSL: CERTIFICATE_VERIFY_FAILED]")
    yield N, ssl.SSLCertVerificationError(1, "permission denied")
    yield N, ssl.SSLEOFError(8, "EOF occurred in violation of protocol")
    yield N, http.client.RemoteDisconnected("Remote end closed connection without response")
    yield N, http.client.IncompleteRead(b"")
    yield N, http.client.BadStatusLine("x")
    yield N, asyncio.IncompleteReadError(b"", 4)
    yield N, subprocess.TimeoutExpired(["git", "push"], 30)
    yield N, smtplib.SMTPServerDisconnected("x")
    yield N, urllib.error.URLError(socket.gaierror(-2, "Name or service not known"))
    yield N, urllib.error.URLError(TimeoutError("timed out"))
    yield N, EOFError("connection closed by remote host")
    for name in ("ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH", "EPIPE", "ENETDOWN"):
        yield N, OSError(getattr(errno, name), "x")
    for name in ("ENOSPC", "EDQUOT", "ENOMEM", "EMFILE", "ENFILE"):
        yield R, OSError(getattr(errno, name), "x")
    for name in ("EACCES", "EPERM", "EROFS"):
        yield P, OSError(getattr(errno, name), "connection timed out")
    for name in ("EAGAIN", "EBUSY", "EINTR"):
        yield T, OSError(getattr(errno, name), "x")
    yield X, OSError(errno.ENOENT, "x", "/data/connection/timeout")
    yield V, OSError(errno.EINVAL, "x")
    yield R, MemoryError()
    yield R, queue.Full()
    yield R, asyncio.QueueFull()
    yield P, PermissionError("Connection refused by policy")
    yield P, smtplib.SMTPAuthenticationError(535, b"no")
    yield T, smtplib.SMTPResponseException(421, "x")
    yield T, smtplib.SMTPDataError(421, b"4.7.0 Too many messages, slow down")
    yield V, smtplib.SMTPDataError(552, b"5.3.4 Message size exceeds fixed limit")
    yield X, smtplib.SMTPRecipientsRefused({"a@b.c": (550, b"No such user here")})
    yield V, smtplib.SMTPRecipientsRefused({"a@b.c": (550, b"5.1.1 User unknown")})
    yield P, smtplib.SMTPRecipientsRefused({"a@b.c": (554, b"5.7.1 Relay access denied")})
    yield T, smtplib.SMTPRecipientsRefused({"a@b.c": (550, b"5.1.1 no"), "d@e.f": (451, b"4.7.1 Greylisted")})
    yield T, ftplib.error_temp("421 Too many users logged in")
    yield N, ftplib.error_temp("425 Can't open data connection")
    yield P, ftplib.error_perm("530 Login incorrect.")
    yield P, ftplib.error_perm("550 Permission denied.")
    yield X, ftplib.error_perm("550 No such file or directory")
    yield R, ftplib.error_perm("552 Exceeded storage allocation")
    yield T, InterruptedError()
    yield T, BlockingIOError()
    yield T, asyncio.CancelledError()
    yield T, concurrent.futures.BrokenExecutor("A child process terminated abruptly")
    yield V, ValueError("connection timeout")
    yield V, TypeError("x")
    yield V, KeyError("timeout")
    yield V, UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
    yield V, catch(lambda: json.loads("{"))
    yield V, catch(lambda: int("timeout"))
    yield V, catch(lambda: tomllib.loads("= ="))
    yield V, catch(lambda: xml.etree.ElementTree.fromstring("<a"))
    yield V, catch(lambda: struct.unpack("i", b""))
    yield V, catch(lambda: zlib.decompress(b"x"))
    yield V, catch(lambda: pickle.loads(b"garbage"))
    yield V, catch(lambda: zipfile.ZipFile(io.BytesIO(b"x")))
    yield V, catch(lambda: tarfile.open(fileobj=io.BytesIO(b"x")))  # noqa: SIM115
    yield V, catch(lambda: configparser.ConfigParser().read_string("x"))
    yield V, catch(lambda: compile("a b", "x", "exec"))
    yield V, csv.Error("line contains NUL")
    yield V, FileExistsError("x")
    yield V, IsADirectoryError("x")
    yield X, FileNotFoundError("no memory.csv")
    yield X, catch(lambda: __import__("no_connection_timeout_module"))
    yield X, NotImplementedError("retry")
    yield X, RecursionError("x")
    yield X, AttributeError("'NoneType' object has no attribute 'connection'")
    yield X, catch(lambda: [].pop())
    yield X, ZeroDivisionError("division by zero")
    yield X, AssertionError()
    yield X, Exception()
    yield X, Exception("boom")
    yield X, RuntimeError("unlimited memory of colours")
    yield X, StopIteration()
    yield X, OSError("x")
    yield R, RuntimeError("can't start new thread")
    yield T, RuntimeError("the service is temporarily unavailable")
    yield N, catch(lambda: by_failed_command("fatal: unable to access 'x': Could not resolve host: github.com"))
    yield P, catch(lambda: by_failed_command("git@github.com: Permission denied (publickey)."))
    yield X, catch(lambda: by_failed_command(""))
    for ended, category in ((1, X), (-9, R), (137, R), (-15, T), (124, N), (126, P), (127, X), (-11, X)):
        yield category, subprocess.CalledProcessError(ended, ["python", "timeout.py"])


def by_failed_command(stderr: str) -> None:
    raise subprocess.CalledProcessError(128, ["git", "clone", "--timeout", "connection refused"], stderr=stderr)


HTTP = {
    400: V,
    401: P,
    403: P,
    404: X,
    408: N,
    409: T,
    410: X,
    413: V,
    422: V,
    429: T,
    500: T,
    502: T,
    503: T,
    504: N,
    507: R,
}


def _http_libraries() -> Iterator[tuple[str, BaseException]]:
    for status, category in HTTP.items():
        yield category, by_httpx(status)
        yield category, by_requests(status)
        yield category, by_aiohttp(status)
        yield category, by_urllib(status)
    for kind in (httpx.ConnectError, httpx.ConnectTimeout, httpx.ReadTimeout, httpx.WriteTimeout, httpx.PoolTimeout):
        yield N, kind("x")
    for broken in (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError, httpx.ProxyError, httpx.CloseError):
        yield N, broken("x")
    yield V, httpx.UnsupportedProtocol("x")
    yield V, httpx.LocalProtocolError("x")
    yield V, httpx.DecodingError("x")
    yield V, httpx.InvalidURL("x")
    yield X, httpx.TooManyRedirects("x")
    yield N, httpcore.ConnectError("x")
    yield N, httpcore.RemoteProtocolError("x")
    for failure in (requests.ConnectionError, requests.Timeout, requests.ConnectTimeout, requests.ReadTimeout):
        yield N, failure("x")
    yield N, requests.exceptions.SSLError("x")
    yield N, requests.exceptions.ProxyError("x")
    yield N, requests.exceptions.ChunkedEncodingError("x")
    yield V, catch(lambda: requests.get("no-scheme", timeout=1))
    yield V, catch(lambda: requests.get("ftp+x://y", timeout=1))
    yield V, catch(lambda: requests.get("http://", timeout=1))
    yield V, requests.exceptions.JSONDecodeError("x", "", 0)
    yield T, requests.exceptions.RetryError(urllib3.exceptions.ResponseError("too many 503 error responses"))
    yield N, urllib3.exceptions.ProtocolError("x")
    yield N, urllib3.exceptions.ReadTimeoutError(None, "/", "x")  # type: ignore[arg-type]
    yield N, urllib3.exceptions.MaxRetryError(None, "/", ConnectionRefusedError())  # type: ignore[arg-type]
    yield N, by_aiohttp_connector(errno.ECONNREFUSED)
    yield N, aiohttp.ServerDisconnectedError()
    yield N, aiohttp.ServerTimeoutError()
    yield N, aiohttp.ClientPayloadError("x")
    yield N, aiohttp.ClientConnectionError("x")
    yield V, aiohttp.InvalidURL("x")
    yield N, aiohttp.ClientOSError(errno.ECONNRESET, "x")


def _databases() -> Iterator[tuple[str, BaseException]]:
    errors = psycopg.errors
    yield V, errors.UniqueViolation("x")
    yield V, errors.NotNullViolation("x")
    yield V, errors.UndefinedColumn("x")
    yield V, errors.SyntaxError("x")
    yield V, errors.InvalidTextRepresentation("x")
    yield T, errors.DeadlockDetected("x")
    yield T, errors.SerializationFailure("x")
    yield T, errors.LockNotAvailable("x")
    yield T, errors.AdminShutdown("x")
    yield N, errors.QueryCanceled("canceling statement due to statement timeout")
    yield R, errors.DiskFull("x")
    yield R, errors.OutOfMemory("x")
    yield R, errors.TooManyConnections("x")
    yield P, errors.InsufficientPrivilege("x")
    yield P, errors.InvalidPassword("x")
    yield N, psycopg.OperationalError("connection failed: connection to server at 127.0.0.1 failed: Connection refused")
    yield P, psycopg.OperationalError('connection failed: FATAL: password authentication failed for user "app"')
    yield N, psycopg.OperationalError("something new")
    yield V, by_sqlalchemy(errors.UniqueViolation("x"))
    yield T, by_sqlalchemy(errors.DeadlockDetected("x"))
    yield N, sqlalchemy.exc.TimeoutError("QueuePool limit of size 5 overflow 10 reached, connection timed out")
    yield X, sqlalchemy.exc.NoResultFound("x")
    yield V, by_sqlite("create table t (a not null); insert into t values (null)")
    yield V, by_sqlite("selec 1")
    yield R, by_sqlite("pragma max_page_count = 1; create table t (a); insert into t values (1)")
    yield T, sqlite3.OperationalError("database is locked")
    yield N, redis.exceptions.ConnectionError("Error 111 connecting to localhost:6379. Connection refused.")
    yield N, redis.exceptions.TimeoutError("x")
    yield T, redis.exceptions.BusyLoadingError("x")
    yield T, redis.exceptions.ReadOnlyError("x")
    yield T, redis.exceptions.ClusterDownError("x")
    yield P, redis.exceptions.AuthenticationError("x")
    yield P, redis.exceptions.NoPermissionError("x")
    yield R, redis.exceptions.OutOfMemoryError("x")
    yield R, redis.exceptions.MaxConnectionsError("x")
    yield V, redis.exceptions.DataError("x")
    yield V, redis.exceptions.ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value")
    search = opensearchpy.exceptions
    yield N, search.ConnectionError("N/A", "refused", ConnectionRefusedError())
    yield N, search.ConnectionTimeout("TIMEOUT", "x", Exception("x"))
    yield N, search.SSLError("N/A", "x", Exception("x"))
    yield T, search.ConflictError(409, "version_conflict_engine_exception", {})
    yield X, search.NotFoundError(404, "index_not_found_exception", {})
    yield V, search.RequestError(400, "mapper_parsing_exception", {})
    yield V, search.SerializationError("x")
    yield P, search.AuthenticationException(401, "x", {})
    yield P, search.AuthorizationException(403, "security_exception", {})
    shards = {
        "error": {"reason": "this action would add [2] total shards, but this cluster currently has [1000]/[1000]"}
    }
    yield R, search.RequestError(400, "validation_exception", shards)
    flood = {"error": {"reason": "disk usage exceeded flood-stage watermark, index has read-only-allow-delete block"}}
    yield R, search.TransportError(429, "cluster_block_exception", flood)
    yield T, search.TransportError(429, "rejected_execution_exception", {})
    yield R, search.TransportError(429, "circuit_breaking_exception", {})
    yield T, search.TransportError(503, "x", {})


def _others() -> Iterator[tuple[str, BaseException]]:
    code = grpc.StatusCode
    yield T, by_grpc(code.UNAVAILABLE)
    yield T, by_grpc(code.ABORTED)
    yield N, by_grpc(code.DEADLINE_EXCEEDED)
    yield R, by_grpc(code.RESOURCE_EXHAUSTED)
    yield P, by_grpc(code.PERMISSION_DENIED)
    yield P, by_grpc(code.UNAUTHENTICATED)
    yield V, by_grpc(code.INVALID_ARGUMENT)
    yield X, by_grpc(code.NOT_FOUND)
    yield N, by_grpc(code.UNKNOWN, "connection reset by peer")
    yield V, catch(lambda: Order(quantity="many"))  # type: ignore[arg-type]
    yield V, catch(lambda: jsonschema.validate("x", {"type": "integer"}))
    yield V, catch(lambda: yaml.safe_load("a: [1"))
    yield V, click.BadParameter("timeout")
    yield V, click.UsageError("x")
    yield N, anyio.BrokenResourceError()
    yield N, anyio.EndOfStream()
    yield T, by_botocore("ThrottlingException")
    yield T, by_botocore("ProvisionedThroughputExceededException")
    yield T, by_botocore("InternalError", 500)
    yield T, by_botocore("SlowDown", 503)
    yield P, by_botocore("AccessDenied", 403)
    yield P, by_botocore("ExpiredToken")
    yield P, by_botocore("InvalidClientTokenId", 403)
    yield V, by_botocore("ValidationException")
    yield V, by_botocore("InvalidParameterValue")
    yield X, by_botocore("NoSuchKey", 404)
    yield R, by_botocore("ServiceQuotaExceededException", 402)
    yield N, by_botocore("RequestTimeout")
    yield N, exception_class("botocore.exceptions.EndpointConnectionError")("x")
    yield P, exception_class("botocore.exceptions.NoCredentialsError")("x")
    yield T, exception_class("stripe.RateLimitError", http_status=429)("x")
    yield P, exception_class("stripe.AuthenticationError", http_status=401)("x")
    yield T, exception_class("openai.InternalServerError", status_code=500)("x")
    yield N, exception_class("openai.APITimeoutError")("x")
    paid = "You exceeded your current quota, please check your plan and billing details."
    yield R, exception_class("openai.RateLimitError", status_code=429)(paid)
    yield T, exception_class("openai.RateLimitError", status_code=429)("too many requests to the billing service")
    yield N, exception_class("pika.exceptions.AMQPConnectionError")("x")
    yield N, exception_class("kafka.errors.NoBrokersAvailable")("x")
    yield T, exception_class("kafka.errors.SomethingNew", retriable=True)("x")
    yield P, exception_class("google.api_core.exceptions.Forbidden", code=403)("x")
    yield R, exception_class("google.api_core.exceptions.ResourceExhausted")("x")
    yield R, exception_class("torch.cuda.OutOfMemoryError", RuntimeError)("x")
    yield T, exception_class("pymysql.err.OperationalError")(1213, "Deadlock found")
    yield N, exception_class("pymysql.err.OperationalError")(2003, "Can't connect to MySQL server")
    yield P, exception_class("pymysql.err.OperationalError")(1045, "Access denied")
    yield V, exception_class("pymongo.errors.DuplicateKeyError", code=11000)("x")
    yield P, exception_class("pymongo.errors.OperationFailure", code=13)("x")
    yield V, exception_class("marshmallow.exceptions.ValidationError", ValueError)("x")
    yield P, exception_class("paramiko.ssh_exception.AuthenticationException")("x")
    yield P, exception_class("django.core.exceptions.PermissionDenied")("x")
    yield X, exception_class("docker.errors.ImageNotFound")("x")
    yield N, AcmeTimeout()
    yield T, AcmeUnavailable()
    yield T, AcmeRejected()
    yield T, StoreUnavailable("x")
    yield V, InvalidInput("x")
    yield X, StoreMisconfigured("x")


def _chains_and_groups() -> Iterator[tuple[str, BaseException]]:
    yield N, with_cause(RuntimeError("failed"), ConnectionResetError())
    yield N, with_cause(RuntimeError("failed"), context=ConnectionResetError())
    yield X, catch(_from_none)
    yield V, with_cause(ValueError("bad"), ConnectionResetError())
    yield R, with_cause(RuntimeError("a"), with_cause(RuntimeError("b"), OSError(errno.ENOSPC, "x")))
    yield T, with_cause(RuntimeError("sync failed"), by_httpx(503))
    yield T, with_cause(RuntimeError("rate limit exceeded"), context=KeyError("cached"))
    yield N, ExceptionGroup("unhandled errors in a TaskGroup", [ConnectionResetError()])
    yield N, ExceptionGroup("a", [ExceptionGroup("b", [RuntimeError("x"), TimeoutError()])])
    yield P, with_cause(RuntimeError("x"), ExceptionGroup("a", [PermissionError()]))
    yield N, catch(_fail_after_retries)
    yield N, Exception("job failed: Connection refused")
    yield N, Exception(ConnectionResetError("x"))


def _from_none() -> None:
    try:
        raise ConnectionResetError
    except ConnectionResetError:
        raise RuntimeError("failed") from None


@tenacity.retry(stop=tenacity.stop_after_attempt(1))
def _fail_after_retries() -> None:
    raise ConnectionResetError("x")
