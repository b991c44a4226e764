"""Evidence in the attributes of an error: statuses, numbers and codes, found by their usual names and shapes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from email.message import Message

from mahavishnu.classify.builtin import data
from mahavishnu.classify.builtin.codes import (
    Finding,
    errno_name,
    http_category,
    mail_status_category,
    match_name,
    sql_state_category,
)
from mahavishnu.classify.exceptions import attribute, is_bare, middle_cut, safe_str
from mahavishnu.model.letter_parts import ErrorCategory


def match_attributes(error: BaseException) -> Finding | None:
    """Match the error's attributes; the most specific attribute counts."""
    if is_bare(error):  # it has at most an errno
        return _match_errno(error) if isinstance(error, OSError) else None
    for match in _MATCHERS:
        if (finding := match(error)) is not None:
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


def _match_errno(error: BaseException) -> Finding | None:
    number = attribute(error, "errno")
    if not isinstance(number, int) or number not in data.codes().errno:
        return None
    if any(kind.__module__ in ("ssl", "socket") or "SSL" in kind.__name__ for kind in type(error).__mro__):
        return None  # ssl and socket use numbers of their own
    return Finding(data.codes().errno[number], errno_name(number))


def _match_search_error(error: BaseException) -> Finding | None:
    kind = attribute(error, "error")
    if not isinstance(kind, str):
        return None
    if kind == "cluster_block_exception":
        text = _search_words(error)
        if "flood" in text or "read-only / allow delete" in text or "disk usage" in text:
            return Finding(ErrorCategory.RESOURCE, "cluster_block_exception: the disk is too full")
        is_passing = "no master" in text or "not recovered" in text
        return Finding(ErrorCategory.TRANSIENT if is_passing else ErrorCategory.PERMISSION, kind)
    if kind in ("validation_exception", "illegal_argument_exception") and "total shards" in _search_words(error):
        return Finding(ErrorCategory.RESOURCE, f"{kind}: too many shards")
    category = data.codes().search.get(kind)
    return None if category is None else Finding(category, kind)


def _search_words(error: BaseException) -> str:
    return middle_cut(f"{safe_str(error)} {attribute(error, 'info')}").lower()


def _match_status(error: BaseException) -> Finding | None:
    if (found := status_of(error)) is None:
        return None
    status, path = found
    category = http_category(status)
    if status == 409 and "exist" in middle_cut(safe_str(error)).lower():
        return Finding(ErrorCategory.VALIDATION, f"HTTP 409 from {path}: it exists already")
    return None if category is None else Finding(category, f"HTTP {status} from {path}")


def _match_sql_state(error: BaseException) -> Finding | None:
    for name in ("sqlstate", "pgcode"):
        state = attribute(error, name)
        if isinstance(state, str) and (category := sql_state_category(state)) is not None:
            return Finding(category, f"SQLSTATE {state}")
    if _root(error) == "pyodbc" and error.args and isinstance(state := error.args[0], str):
        category = sql_state_category(state)
        return None if category is None else Finding(category, f"SQLSTATE {state}")
    return None


def _match_code(error: BaseException) -> Finding | None:
    """`code`, which may be a method (gRPC), a string (many services), or a number (MongoDB)."""
    code = attribute(error, "code")
    if callable(code):
        try:
            code = code()
        except Exception:
            return None
        name = getattr(code, "name", code)
        category = data.codes().grpc.get(name) if isinstance(name, str) else None
        return None if category is None else Finding(category, f"gRPC status {name}")
    name = getattr(code, "name", None)
    if isinstance(name, str) and name in data.codes().grpc:
        return Finding(data.codes().grpc[name], f"gRPC status {name}")
    if isinstance(code, int) and _root(error) == "pymongo":
        code = _first_write_code(attribute(error, "details")) or code
        category = data.codes().mongo.get(code)
        return None if category is None else Finding(category, f"MongoDB code {code}")
    for where, text in (("code", code), ("error_code", attribute(error, "error_code"))):
        if isinstance(text, str) and text and (category := match_name(text[:80])) is not None:
            return Finding(category, f"{where} {text!r}")
    return None


def _first_write_code(details: object) -> int | None:
    """MongoDB's code of the first failed write of a bulk; the bulk's own code says only that some failed."""
    writes = details.get("writeErrors") if isinstance(details, Mapping) else None
    first = writes[0] if isinstance(writes, list) and writes else None
    code = first.get("code") if isinstance(first, Mapping) else None
    return code if isinstance(code, int) else None


def _match_broker(error: BaseException) -> Finding | None:
    """AMQP's reply codes look like HTTP statuses and mean something else."""
    number = attribute(error, "reply_code")
    category = data.codes().amqp.get(number) if isinstance(number, int) else None
    return None if category is None else Finding(category, f"AMQP {number}")


def _match_service(error: BaseException) -> Finding | None:
    """AWS: `response["Error"]["Code"]`."""
    answer = attribute(error, "response")
    inner = answer.get("Error") if isinstance(answer, Mapping) else None
    code = inner.get("Code") if isinstance(inner, Mapping) else None
    if not isinstance(code, str):
        return None
    if (status := _as_status(code)) is not None and (http := http_category(status)) is not None:
        return Finding(http, f"HTTP {status} from the service's answer")
    category = match_name(code[:80])
    return None if category is None else Finding(category, f"service error code {code}")


def _match_driver(error: BaseException) -> Finding | None:
    """SQLite's name, MySQL's number."""
    name = attribute(error, "sqlite_errorname")
    if isinstance(name, str):
        for listed in (name, "_".join(name.split("_")[:2])):
            if (category := data.codes().sqlite.get(listed)) is not None:
                return Finding(category, name)
    if _root(error) in _MYSQL_ROOTS and error.args and isinstance(number := error.args[0], int):
        mysql = data.codes().mysql.get(number)
        return None if mysql is None else Finding(mysql, f"MySQL error {number}")
    if attribute(error, "connection_invalidated") is True:
        return Finding(ErrorCategory.NETWORK, "the database connection was lost")
    return None


def _match_mail_server(error: BaseException) -> Finding | None:
    """smtplib's reply code and status, also of each recipient; ftplib's reply code."""
    if _root(error) == "ftplib":
        number = safe_str(error)[:3]
        category = data.codes().ftp.get(int(number)) if number.isdecimal() else None
        return None if category is None else Finding(category, f"FTP {number}")
    refused = attribute(error, "recipients")
    if isinstance(refused, Mapping):
        answers = [answer for answer in refused.values() if isinstance(answer, tuple) and len(answer) == 2]
        found = [finding for answer in answers if (finding := _match_mail_answer(*answer)) is not None]
        passing = [finding for finding in found if finding.category is ErrorCategory.TRANSIENT]
        return next(iter([*passing, *found]), None)
    return _match_mail_answer(attribute(error, "smtp_code"), attribute(error, "smtp_error"))


def _match_mail_answer(number: object, text: object) -> Finding | None:
    if not isinstance(number, int):
        return None
    if isinstance(text, bytes):
        text = text[:20].decode(errors="replace")
    if isinstance(text, str) and (match := _MAIL_STATUS.match(text)) is not None:
        category = mail_status_category(match[0])
        if category is not None:
            return Finding(category, f"mail status {match[0]}")
    category = data.codes().smtp.get(number)
    return None if category is None else Finding(category, f"SMTP {number}")


_MAIL_STATUS = re.compile(r"[45]\.\d\.\d{1,3}\b")


def _match_exit(error: BaseException) -> Finding | None:
    """Match the exit status of a command, where it says more than that the command failed."""
    for name in ("returncode", "exit_code", "exit_status"):
        status = attribute(error, name)
        if isinstance(status, int) and (category := data.codes().exit.get(status)) is not None:
            return Finding(category, f"exit status {status}")
    return None


_MATCHERS: tuple[Callable[[BaseException], Finding | None], ...] = (
    _match_search_error,
    _match_service,
    _match_broker,
    _match_status,
    _match_sql_state,
    _match_driver,
    _match_mail_server,
    _match_code,
    _match_errno,
    _match_exit,
)


def match_retry_flag(error: BaseException) -> Finding | None:
    """Match a flag for retriable errors, as some libraries have. Weak evidence: it does not say why."""
    for name in ("retriable", "retryable", "is_retryable", "should_retry"):
        if attribute(error, name) is True:
            return Finding(ErrorCategory.TRANSIENT, f"it says {name} of itself")
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
