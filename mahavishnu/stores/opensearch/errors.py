"""What an answer of OpenSearch means, or its absence. The error type decides first: the status alone would mislead."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum, auto
from typing import Any

from mahavishnu.model.errors import MahavishnuError, StoreError, StoreMisconfigured, StoreUnavailable

LONGEST_REASON = 300
# Reasons quote values of the document, and the name of the user: neither belongs into logs.
_QUOTES = re.compile(r"(\. Preview of field's value| and User \[).*", re.DOTALL)
_CONNECTING = {
    "ClientConnectorError",
    "NewConnectionError",
    "ConnectTimeoutError",
    "ConnectionRefusedError",
    "gaierror",
}
_WRONG_TLS = re.compile(
    r"CERTIFICATE_VERIFY_FAILED|certificate verify failed|WRONG_VERSION_NUMBER|wrong version number", re.IGNORECASE
)


class ItemStatus(Enum):
    """What became of a request, or of one item of a bulk."""

    STORED = auto()
    CONFLICT = auto()  #: somebody else got there first
    BUSY = auto()  #: turned away before anything was done: worth another try
    FULL = auto()  #: the store takes no writes now, and a moment will not change that
    AWAY = auto()  #: it may or may not have been done
    OUTDATED = auto()  #: the index is gone, or lacks a field
    REFUSED = auto()  #: for its own sake


class RequestRejected(Exception):
    """OpenSearch understood the request and refuses it."""

    def __init__(self, status: int, type_: str, reason: str) -> None:
        super().__init__(f"{type_}: {reason}" if type_ else reason or f"HTTP {status}")
        self.status, self.type, self.reason = status, type_, reason


class Blocked(StoreUnavailable):
    """OpenSearch takes no such request now, and a moment will not change that; nothing was done."""


class TooLarge(StoreUnavailable):
    """The server, or something before it, does not take as many bytes at once; nothing was done."""


def item_status(status: int, type_: str, reason: str) -> ItemStatus:
    """The outcome that an HTTP status with an error's type and reason (empty without an error) stands for."""
    if status < 300:
        return ItemStatus.STORED
    if type_ == "version_conflict_engine_exception" or (status == 404 and not type_):
        return ItemStatus.CONFLICT  # the latter: nothing there to be removed
    if type_ in ("index_not_found_exception", "strict_dynamic_mapping_exception"):
        return ItemStatus.OUTDATED
    if type_ == "cluster_block_exception":
        return ItemStatus.BUSY if status == 503 else ItemStatus.FULL  # no manager elected yet; disk full or read-only
    if type_ == "index_closed_exception" or (type_ == "validation_exception" and "maximum" in reason):
        return ItemStatus.FULL  # the latter: no more shards allowed in this cluster
    if status == 429:
        return ItemStatus.BUSY
    return ItemStatus.AWAY if status >= 500 else ItemStatus.REFUSED


def item_error(error: Any) -> tuple[str, str]:
    """Type and reason of an error in an answer; the cause says more where there is one."""
    if not isinstance(error, Mapping):
        return "", shorten(error or "")
    cause = error.get("caused_by") or {}
    reasons = [reason for each in (error, cause) if (reason := shorten(each.get("reason") or ""))]
    return str(error.get("type") or ""), ": ".join(reasons)


def store_error(problem: Exception, where: str) -> StoreError | RequestRejected:
    """What an exception of the client means. The result holds no request, so that no secret can leak with it."""
    status = getattr(problem, "status_code", None)
    if isinstance(status, int):
        return _from_answer(status, getattr(problem, "info", None), where)
    causes = list(_causes(problem))
    texts = " ".join(str(cause) for cause in causes)
    if _WRONG_TLS.search(texts):
        return StoreMisconfigured(
            f"{where}: no trustworthy TLS connection ({_first(_WRONG_TLS, texts)}); "
            "give the certificate of its authority as `ca`, and check the address"
        )
    names = {base.__name__ for cause in causes for base in type(cause).__mro__}
    if names & _CONNECTING:
        return StoreUnavailable(f"{where} cannot be reached: {shorten(str(causes[-1]) or type(causes[-1]).__name__)}")
    if names & {"TimeoutError", "ConnectionTimeout", "ReadTimeoutError"}:
        return StoreUnavailable(f"{where} did not answer in time", maybe_written=True)
    hint = "; if it speaks TLS, its address begins with https" if "ServerDisconnectedError" in names else ""
    return StoreUnavailable(f"{where} did not answer: {type(causes[-1]).__name__}{hint}", maybe_written=True)


@contextmanager
def reading(where: str) -> Iterator[None]:
    """Around what takes an answer apart. Raises StoreUnavailable where that fails: the answer is not OpenSearch's."""
    try:
        yield
    except MahavishnuError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError):
        raise _foreign(where, "its answer has another form") from None


def shorten(reason: Any) -> str:
    """A reason without the values and names in it, as one line that is not too long."""
    return _QUOTES.sub("", str(reason))[:LONGEST_REASON].replace("\n", " ")


def _from_answer(status: int, info: Any, where: str) -> StoreError | RequestRejected:
    error = info.get("error", info) if isinstance(info, Mapping) else info
    if isinstance(error, Mapping) and error.get("root_cause"):  # of a search: says what is wrong, not where
        error = error["root_cause"][0] if error.get("type") == "search_phase_execution_exception" else error
    type_, reason = item_error(error)
    if status == 401:
        return StoreMisconfigured(f"{where} does not accept the credentials (401): check user and password, or headers")
    if status == 413:
        return TooLarge(f"{where} does not take as many bytes at once (413)")
    match item_status(status, type_, reason):
        case ItemStatus.BUSY:
            return StoreUnavailable(f"{where} takes nothing now ({status}): {type_} {reason}".rstrip())
        case ItemStatus.FULL:
            return Blocked(f"{where} takes nothing now ({status}): {type_} {reason}".rstrip())
        case ItemStatus.AWAY:
            return StoreUnavailable(f"{where} failed ({status}): {type_} {reason}".rstrip(), maybe_written=True)
        case _ if not type_ and not (status == 403 and isinstance(info, Mapping)):  # as every proxy can answer
            return _foreign(where, f"HTTP {status} without a type of error")
        case _ if status == 403:
            return StoreMisconfigured(f"{where} forbids it (403); give the user this permission: {reason or type_}")
        case _:
            return RequestRejected(status, type_, reason)


def _foreign(where: str, how: str) -> StoreUnavailable:
    text = f"{where} does not answer like OpenSearch ({how}): check the address, and what stands before the server"
    return StoreUnavailable(text, maybe_written=True)  # a proxy may hide the server's own answer


def _causes(problem: BaseException) -> Iterator[BaseException]:
    """The exception, and inside it what the libraries below have raised, the innermost last."""
    waiting: list[Any] = [problem]
    seen: set[int] = set()
    while waiting:
        here = waiting.pop()
        if isinstance(here, BaseException) and id(here) not in seen:
            seen.add(id(here))
            yield here
            waiting += [here.__cause__, *here.args, getattr(here, "info", None), getattr(here, "reason", None)]


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found.group() if found else ""
