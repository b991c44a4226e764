"""The connection to OpenSearch: requests, their repetition, and errors, of which the type outweighs the status."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import re
import ssl
import time
import warnings
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum, auto
from inspect import iscoroutinefunction
from io import BytesIO
from pathlib import Path
from typing import Any, Generic, TypedDict, TypeVar
from urllib.parse import unquote, urlsplit

import msgspec
from opensearchpy import AIOHttpConnection, AsyncOpenSearch, JSONSerializer, SerializationError
from tenacity import AsyncRetrying, retry_if_exception, stop_before_delay, wait_random_exponential

from mahavishnu.model.errors import InvalidInput, MahavishnuError, StoreError, StoreMisconfigured, StoreUnavailable
from mahavishnu.stores.urls import is_loopback

log = logging.getLogger(__name__)
CONNECTIONS = 64  # to each node: with fewer than there are requests at once, some of them starve
SHORTEST_TRY = 0.1
LARGE_BODY = 500_000
V = TypeVar("V")
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
    """Outcome of a request, or of one item of a bulk."""

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
    """Return the outcome that an HTTP status with an error's type and reason (empty without an error) stands for."""
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
    """Translate an exception of the client. The result holds no request, so that no secret can leak with it."""
    status = getattr(problem, "status_code", None)
    if isinstance(status, int):
        return _from_answer(status, getattr(problem, "info", None), where)
    causes = list(_causes(problem))
    texts = " ".join(str(cause) for cause in causes)
    if wrong := _WRONG_TLS.search(texts):
        return StoreMisconfigured(
            f"{where}: no trustworthy TLS connection ({wrong.group()}); "
            "give the certificate of its authority as `ca`, and check the address"
        )
    names = {base.__name__ for cause in causes for base in type(cause).__mro__}
    if names & _CONNECTING:
        return StoreUnavailable(f"{where} cannot be reached: {shorten(str(causes[-1]) or type(causes[-1]).__name__)}")
    if names & {"TimeoutError", "ConnectionTimeout", "ReadTimeoutError"}:
        return StoreUnavailable(f"{where} did not answer in time", maybe_written=True)
    hint = "; if it speaks TLS, its address begins with https" if "ServerDisconnectedError" in names else ""
    return StoreUnavailable(f"{where} did not answer: {type(causes[-1]).__name__}{hint}", maybe_written=True)


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


class Client:
    """Sends requests to one node or several. Each raises StoreUnavailable, StoreMisconfigured or RequestRejected."""

    def __init__(
        self,
        urls: Sequence[str],
        given: Any,
        *,
        user: str | None,
        password: str | None,
        headers: Mapping[str, str] | None,
        ca: str | Path | None,
        verify: bool,
        timeout: float,
    ) -> None:
        self.timeout = timeout
        self._given = given
        self._open = False
        self._hosts: list[dict[str, Any]] = []
        for url in urls:
            host, url_user, url_password = _parse_url(url)
            self._hosts.append(host)
            user, password = user or url_user, password or url_password
        self._headers = {**(headers or {})}
        if user is not None:
            credentials = base64.b64encode(f"{user}:{password or ''}".encode()).decode()
            self._headers["authorization"] = f"Basic {credentials}"
        self._ca, self._verify = ca, verify
        self._own: AsyncOpenSearch | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: AsyncGenerator[None, None] | None = None
        self._synchronous = given is not None and not iscoroutinefunction(given.transport.perform_request)

    @property
    def addresses(self) -> list[str]:
        """Addresses without any secret."""
        if self._given is not None:
            return ["the given client"]
        return [f"{host['scheme']}://{host['host']}:{host['port']}{host['url_prefix']}" for host in self._hosts]

    @property
    def has_alternatives(self) -> bool:
        """True if another try may reach another node."""
        return self._given is not None or len(self._hosts) > 1

    @property
    def may_repeat(self) -> bool:
        """True if the given client repeats requests on its own, so that our own write may look like another's."""
        return self._given is not None and bool(getattr(self._given.transport, "max_retries", 1))

    async def once(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        params: Mapping[str, str] | None = None,
        *,
        within: float,
    ) -> Any:
        """The answer to one try that takes at most `within` seconds."""
        self.check_open()
        transport: Any = (await self._connection() if self._given is None else self._given).transport
        request: dict[str, Any] = {"body": body, "params": {**(params or {})}, "timeout": within}
        try:
            if self._given is None:
                return await transport.perform_request(method, path, **request)
            async with asyncio.timeout(within):  # a client with retries of its own multiplies the time-out
                if self._synchronous:
                    return await asyncio.to_thread(transport.perform_request, method, path, **request)
                return await transport.perform_request(method, path, **request)
        except Exception as problem:
            trouble = store_error(problem, self._description)
        if self.may_repeat and isinstance(trouble, StoreUnavailable):
            trouble.maybe_written = True  # this was the answer to its last try; an earlier one may have landed
        raise trouble  # outside the except clause, so that the error does not keep the request as its context

    async def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
        *,
        within: float | None = None,
    ) -> Any:
        """The answer to something that may be asked again and again, for at most `within` seconds."""
        self.check_open()  # outside the loop: there is no sense in trying again what is closed
        text = None if body is None else json.dumps(body).encode()
        budget = self.timeout if within is None else within
        deadline = time.monotonic() + budget
        async for attempt in retrying(budget):
            with attempt:
                # With one node there is no other to turn to, so a slow answer may take all the time there is.
                rest = deadline - time.monotonic()
                share = rest / 2 if self.has_alternatives else rest
                return await self.once(method, path, text, params, within=max(share, SHORTEST_TRY))
        raise AssertionError("retrying ends by an answer or an error")

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Take an answer apart inside: raises StoreUnavailable where the answer is not OpenSearch's."""
        try:
            yield
        except MahavishnuError:
            raise
        except (AttributeError, LookupError, TypeError, ValueError):
            raise _foreign(self._description, "its answer has another form") from None

    async def open(self) -> None:
        """Allow requests. Raises StoreMisconfigured for what can be seen without a connection."""
        number = 10**30
        if self._given is None:
            await self._connection()
        elif self._given.transport.deserializer.loads(str(number), "application/json") != number:
            raise StoreMisconfigured("the given client's serializer changes large numbers; use one that keeps them")
        self._open = True

    def check_open(self) -> None:
        """Raise StoreUnavailable before `open` and after `close`."""
        if not self._open:
            raise StoreUnavailable(f"the store for {self._description} is not open")

    async def close(self) -> None:
        """Close our own connections; a given client stays open."""
        self._open = False
        if self._ending is not None and self._loop is asyncio.get_running_loop():
            await self._ending.aclose()
        self._own = self._loop = self._ending = None

    async def _connection(self) -> AsyncOpenSearch:
        """Our own client for this event loop: connections do not work in another one."""
        loop = asyncio.get_running_loop()
        if self._own is None or self._loop is not loop:
            self._own, self._loop = self.connection(), loop
            self._ending = _until_the_loop_ends(self._own)
            await anext(self._ending)
        return self._own

    @property
    def _description(self) -> str:
        return f"OpenSearch at {', '.join(self.addresses)}"

    def connection(self) -> AsyncOpenSearch:
        """A new client of opensearch-py, which the caller has to close."""
        context = self._tls() if any(host["use_ssl"] for host in self._hosts) else None
        if any(not host["use_ssl"] and not is_loopback(host["host"]) for host in self._hosts):
            log.warning("%s: letters and passwords go there unencrypted; use opensearchs:", self._description)
        return AsyncOpenSearch(
            hosts=[{**host} for host in self._hosts],
            connection_class=_Connection,
            serializer=_Serializer(),
            headers=self._headers,
            ssl_context=context,
            timeout=self.timeout,
            maxsize=CONNECTIONS,
            max_retries=0,
            retry_on_timeout=True,  # without retries, this only rests a node that hangs
            http_compress=False,
        )

    def _tls(self) -> ssl.SSLContext:
        try:
            if self._ca is None:
                context = ssl.create_default_context()
            elif Path(self._ca).is_dir():
                context = ssl.create_default_context(capath=self._ca)
            else:
                context = ssl.create_default_context(cafile=self._ca)
        except OSError as problem:
            raise StoreMisconfigured(f"no certificates can be read from ca={str(self._ca)!r}: {problem}") from None
        if not self._verify:
            log.warning("%s: its certificate is not verified", self._description)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def __repr__(self) -> str:
        return f"Client({', '.join(self.addresses)})"


class LoopBound(Generic[V]):
    """Holds an object that works in one event loop only, and makes a new one in each other loop."""

    def __init__(self, make: Callable[[], V]) -> None:
        self._make = make
        self._loop: asyncio.AbstractEventLoop | None = None
        self._value: V | None = None

    def get(self) -> V:
        loop = asyncio.get_running_loop()
        if self._value is None or self._loop is not loop:
            self._loop, self._value = loop, self._make()
        return self._value


def retrying(seconds: float, on: type[Exception] = StoreUnavailable) -> AsyncRetrying:
    """Repeat an attempt while it raises `on`, with random pauses, for so many seconds; then raise its last error."""
    return AsyncRetrying(
        retry=retry_if_exception(
            lambda problem: isinstance(problem, on) and not isinstance(problem, Blocked | TooLarge)
        ),
        wait=wait_random_exponential(multiplier=0.05, max=0.5),
        stop=stop_before_delay(seconds),
        reraise=True,
    )


class _Connection(AIOHttpConnection):
    """A connection that leaves reporting failed tries to us, and takes no warning of the server for an error."""

    async def perform_request(
        self, method: str, url: str, params: Any = None, body: Any = None, *args: Any, **more: Any
    ) -> Any:
        if body is not None and len(body) > LARGE_BODY:  # sent in pieces then, so that others get their turn
            body = BytesIO(body)
        if self.session is None:
            with warnings.catch_warnings():  # opensearch-py uses an option that newer versions of aiohttp ignore
                warnings.simplefilter("ignore", DeprecationWarning)
                await self._create_aiohttp_session()
            self.session = _Unredirected(self.session)
        status, headers, text = await super().perform_request(method, url, params, body, *args, **more)
        marked = _LONG_ANSWERS.get(url.rpartition("/")[2])
        return status, headers, text if marked is None else marked(text)

    def log_request_fail(self, method: str, full_url: str, *args: Any, **more: Any) -> None:
        log.debug("%s %s failed", method, full_url)

    def _raise_warnings(self, warning_headers: Any) -> None:
        for warning in warning_headers:
            log.debug("OpenSearch warns: %s", warning)


class _Unredirected:
    """A session of aiohttp that follows no redirect: a POST would become a GET, and so a search one for everything."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def request(self, *args: Any, **options: Any) -> Any:
        return self._session.request(*args, allow_redirects=False, **options)

    async def close(self) -> None:
        await self._session.close()


class _Found(str):
    """The answer to a search: its hits may be many, with whole documents."""


class _Written(str):
    """The answer to a bulk: a line for each write."""


class _Hit(TypedDict, total=False):
    """One hit of a search; its document is left as the JSON text that it is, for whoever knows its kind."""

    _index: Any
    _id: Any
    _seq_no: Any
    _primary_term: Any
    _source: msgspec.Raw
    sort: Any


class _Hits(TypedDict):
    hits: list[_Hit]


class _Search(TypedDict, total=False):
    hits: _Hits
    pit_id: Any


_LONG_ANSWERS: dict[str, type[str]] = {"_search": _Found, "_bulk": _Written}
_read_found, _read_written = msgspec.json.Decoder(_Search).decode, msgspec.json.Decoder().decode


class _Serializer(JSONSerializer):
    """The standard library's JSON: others change large numbers. Long answers that have none are read quicker."""

    def loads(self, s: str) -> Any:
        try:
            if type(s) is _Written:
                return _read_written(s.encode())
            if type(s) is _Found and '"_source":' in s:
                return _read_found(s.encode())
        except (msgspec.MsgspecError, ValueError, RecursionError):
            pass  # the other one takes more
        try:
            return json.loads(s)
        except ValueError as problem:
            raise SerializationError(s[:100], problem) from None


def _parse_url(url: str) -> tuple[dict[str, Any], str | None, str | None]:
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = 0
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or parts.query or parts.fragment:
        shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else url.rpartition("@")[2]
        raise InvalidInput(f"{shown!r} is not an address of OpenSearch; write http://host:9200 or https://host:9200")
    secure = parts.scheme == "https"
    host = {
        "scheme": parts.scheme,
        "host": f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname,  # so that a port can follow
        "port": port or (443 if secure else 9200),
        "url_prefix": parts.path.rstrip("/"),
        "use_ssl": secure,
    }
    return host, parts.username and unquote(parts.username), parts.password and unquote(parts.password)


async def _until_the_loop_ends(client: AsyncOpenSearch) -> AsyncGenerator[None, None]:
    """Close the client when this generator is closed, as an event loop does with all of them when it ends."""
    try:
        yield
    finally:
        transport = client.transport
        # The client's own close forgets the nodes that it holds to be dead at that moment.
        for connection in {*getattr(transport, "seed_connections", ()), *transport.connection_pool.connections}:
            await connection.close()
