"""What an error carries besides its type and text: numbers and codes, found by the shape of its attributes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from email.message import Message
from typing import NamedTuple

from mahavishnu.classify.builtin import known
from mahavishnu.classify.builtin.names import of_name
from mahavishnu.classify.exceptions import attribute, is_bare, middle_cut, said
from mahavishnu.model.letter_parts import ErrorCategory


class Finding(NamedTuple):
    """A category, and the words for why."""

    category: ErrorCategory
    reason: str


def of_signs(error: BaseException) -> Finding | None:
    """What the error's attributes say, the most particular first."""
    if is_bare(error):  # it has an errno at most
        return _of_errno(error) if isinstance(error, OSError) else None
    for look in _LOOKS:
        if (finding := look(error)) is not None:
            return finding
    return None


def status_of(error: BaseException) -> tuple[int, str] | None:
    """The HTTP status of an error, and where it was found."""
    for path in _STATUS_PATHS:
        thing: object = error
        for name in path:
            thing = attribute(thing, name)
            if thing is None:
                break
        if (status := _as_status(thing)) is not None:
            return status, ".".join(path)
    code = attribute(error, "code")
    if (
        (status := _as_status(code)) is not None
        and _root(error) not in _OWN_CODES
        and not isinstance(error, SystemExit)
    ):
        return status, "code"
    answer = attribute(error, "response")
    if isinstance(answer, Mapping):  # botocore's
        meta = answer.get("ResponseMetadata")
        if isinstance(meta, Mapping) and (status := _as_status(meta.get("HTTPStatusCode"))) is not None:
            return status, "response['ResponseMetadata']"
    return None


_STATUS_PATHS = (
    ("status_code",),
    ("status",),
    ("http_status",),
    ("response", "status_code"),
    ("response", "status"),
    ("resp", "status"),
    ("http_code",),
    ("errcode",),
)
_OWN_CODES = frozenset(
    {"pymongo", "clickhouse_driver", "clickhouse_connect", "websockets", "asyncssh", "click", "aiosmtplib"}
)
_MYSQL_ROOTS = frozenset({"pymysql", "MySQLdb", "mysql", "aiomysql", "asyncmy"})


def _as_status(value: object) -> int | None:
    if isinstance(value, str) and value[:3].isdigit() and not value[3:4].isdigit():
        value = int(value[:3])
    if isinstance(value, int) and not isinstance(value, bool) and 400 <= value < 600:
        return int(value)
    return None


def _root(error: BaseException) -> str:
    return str(type(error).__module__).partition(".")[0]


def _of_errno(error: BaseException) -> Finding | None:
    number = attribute(error, "errno")
    if not isinstance(number, int) or number not in known.ERRNO:
        return None
    if any(kind.__module__ in ("ssl", "socket") or "SSL" in kind.__name__ for kind in type(error).__mro__):
        return None  # they count in numbers of their own
    return Finding(known.ERRNO[number], known.errno_name(number))


def _of_search(error: BaseException) -> Finding | None:
    kind = attribute(error, "error")
    if not isinstance(kind, str):
        return None
    if kind == "cluster_block_exception":
        text = _search_words(error)
        if "flood" in text or "read-only / allow delete" in text or "disk usage" in text:
            return Finding(known.R, "cluster_block_exception: the disk is too full")
        return Finding(known.T if "no master" in text or "not recovered" in text else known.P, kind)
    if kind in ("validation_exception", "illegal_argument_exception") and "total shards" in _search_words(error):
        return Finding(known.R, f"{kind}: too many shards")
    category = known.SEARCH.get(kind)
    return None if category is None else Finding(category, kind)


def _search_words(error: BaseException) -> str:
    return middle_cut(f"{said(error)} {attribute(error, 'info')}").lower()


def _of_status(error: BaseException) -> Finding | None:
    if (found := status_of(error)) is None:
        return None
    status, path = found
    category = known.of_http(status)
    if status == 409 and "exist" in middle_cut(said(error)).lower():
        return Finding(known.V, f"HTTP 409 from {path}: it exists already")
    return None if category is None else Finding(category, f"HTTP {status} from {path}")


def _of_sql_state(error: BaseException) -> Finding | None:
    for name in ("sqlstate", "pgcode"):
        state = attribute(error, name)
        if isinstance(state, str) and (category := known.of_sql_state(state)) is not None:
            return Finding(category, f"SQLSTATE {state}")
    if _root(error) == "pyodbc" and error.args and isinstance(state := error.args[0], str):
        category = known.of_sql_state(state)
        return None if category is None else Finding(category, f"SQLSTATE {state}")
    return None


def _of_code(error: BaseException) -> Finding | None:
    """`code`, whatever it is: a function (grpc), a text (many services), a number of MongoDB's."""
    code = attribute(error, "code")
    if callable(code):
        try:
            code = code()
        except Exception:
            return None
        name = getattr(code, "name", code)
        category = known.GRPC.get(name) if isinstance(name, str) else None
        return None if category is None else Finding(category, f"gRPC status {name}")
    name = getattr(code, "name", None)
    if isinstance(name, str) and name in known.GRPC:
        return Finding(known.GRPC[name], f"gRPC status {name}")
    if isinstance(code, int) and _root(error) == "pymongo":
        code = _of_first_write(attribute(error, "details")) or code
        category = known.MONGO.get(code)
        return None if category is None else Finding(category, f"MongoDB code {code}")
    for where, text in (("code", code), ("error_code", attribute(error, "error_code"))):
        if isinstance(text, str) and text and (category := of_name(text[:80])) is not None:
            return Finding(category, f"{where} {text!r}")
    return None


def _of_first_write(details: object) -> int | None:
    """MongoDB's code of the first write of a bulk that failed; the bulk's own code says only that some did."""
    writes = details.get("writeErrors") if isinstance(details, Mapping) else None
    first = writes[0] if isinstance(writes, list) and writes else None
    code = first.get("code") if isinstance(first, Mapping) else None
    return code if isinstance(code, int) else None


def _of_broker(error: BaseException) -> Finding | None:
    """AMQP's numbers look like HTTP's and are others."""
    number = attribute(error, "reply_code")
    category = known.AMQP.get(number) if isinstance(number, int) else None
    return None if category is None else Finding(category, f"AMQP {number}")


def _of_service(error: BaseException) -> Finding | None:
    """AWS: `response["Error"]["Code"]`."""
    answer = attribute(error, "response")
    inner = answer.get("Error") if isinstance(answer, Mapping) else None
    code = inner.get("Code") if isinstance(inner, Mapping) else None
    if not isinstance(code, str):
        return None
    if (status := _as_status(code)) is not None and (of_http := known.of_http(status)) is not None:
        return Finding(of_http, f"HTTP {status} from the service's answer")
    category = of_name(code[:80])
    return None if category is None else Finding(category, f"service error code {code}")


def _of_driver(error: BaseException) -> Finding | None:
    """SQLite's name, MySQL's number."""
    name = attribute(error, "sqlite_errorname")
    if isinstance(name, str):
        for known_name in (name, "_".join(name.split("_")[:2])):
            if (category := known.SQLITE.get(known_name)) is not None:
                return Finding(category, name)
    if _root(error) in _MYSQL_ROOTS and error.args and isinstance(number := error.args[0], int):
        mysql = known.MYSQL.get(number)
        return None if mysql is None else Finding(mysql, f"MySQL error {number}")
    if attribute(error, "connection_invalidated") is True:
        return Finding(known.N, "the database connection was lost")
    return None


def _of_mail_server(error: BaseException) -> Finding | None:
    """smtplib's two numbers, and those of each recipient; FTP's one."""
    if _root(error) == "ftplib":
        number = said(error)[:3]
        category = known.FTP.get(int(number)) if number.isdecimal() else None
        return None if category is None else Finding(category, f"FTP {number}")
    refused = attribute(error, "recipients")
    if isinstance(refused, Mapping):
        answers = [answer for answer in refused.values() if isinstance(answer, tuple) and len(answer) == 2]
        found = [finding for answer in answers if (finding := _of_mail_answer(*answer)) is not None]
        return next((finding for finding in found if finding.category is known.T), found[0] if found else None)
    return _of_mail_answer(attribute(error, "smtp_code"), attribute(error, "smtp_error"))


def _of_mail_answer(number: object, text: object) -> Finding | None:
    if not isinstance(number, int):
        return None
    if isinstance(text, bytes):
        text = text[:20].decode(errors="replace")
    if isinstance(text, str) and (match := _MAIL_STATUS.match(text)) is not None:
        category = known.of_mail_status(match[0])
        if category is not None:
            return Finding(category, f"mail status {match[0]}")
    category = known.SMTP.get(number)
    return None if category is None else Finding(category, f"SMTP {number}")


_MAIL_STATUS = re.compile(r"[45]\.\d\.\d{1,3}\b")


def _of_exit(error: BaseException) -> Finding | None:
    """How a command ended, where that is more than having failed."""
    for name in ("returncode", "exit_code", "exit_status"):
        status = attribute(error, name)
        if isinstance(status, int) and (category := known.EXIT.get(status)) is not None:
            return Finding(category, f"exit status {status}")
    return None


_LOOKS: tuple[Callable[[BaseException], Finding | None], ...] = (
    _of_search,
    _of_service,
    _of_broker,
    _of_status,
    _of_sql_state,
    _of_driver,
    _of_mail_server,
    _of_code,
    _of_errno,
    _of_exit,
)


def retriable(error: BaseException) -> Finding | None:
    """Whether the error says of itself that trying again may help, as some libraries' do. Weak: it does not say why."""
    for name in ("retriable", "retryable", "is_retryable", "should_retry"):
        if attribute(error, name) is True:
            return Finding(known.T, f"it says {name} of itself")
    return None


def headers_of(error: BaseException) -> Mapping[str, object] | Message | None:
    """The headers of the HTTP answer that the error carries."""
    for holder in (attribute(error, "response"), error):
        headers = attribute(holder, "headers")
        if isinstance(headers, Mapping | Message):
            return headers
        if callable(getattr(headers, "get", None)):
            return headers  # type: ignore[return-value]  # httpx's and others' are no Mapping and act like one
    answer = attribute(error, "response")
    if isinstance(answer, Mapping):
        meta = answer.get("ResponseMetadata")
        headers = meta.get("HTTPHeaders") if isinstance(meta, Mapping) else None
        return headers if isinstance(headers, Mapping) else None
    return None
