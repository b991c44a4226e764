"""The connection of a command: HTTP to a server, or the same API in this process. Both answer alike (ADR 0016)."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import quote, urlencode, urljoin, urlsplit

from mahavishnu import __version__
from mahavishnu.cli.options import USER_VARIABLE, Session
from mahavishnu.cli.output import (
    Conflict,
    Failed,
    JsonList,
    Listed,
    NotFound,
    Unreachable,
    count_of,
    print_json,
    print_notice,
)
from mahavishnu.model.errors import ImportStopped, InvalidInput, MahavishnuError
from mahavishnu.model.record import Value

if TYPE_CHECKING:
    from mahavishnu.engine.queue import LetterQueue

API = "/api/v1"
PAGE_SIZE = 500
TOKEN_VARIABLE = "MAHAVISHNU_TOKEN"  # never an option: others can read those
R = TypeVar("R")
Params = Mapping[str, Any]


class TooLarge(InvalidInput):
    """The server takes smaller requests only."""


# Refusals that mean something else than their status says to HTTP.
_BY_TYPE: dict[str, type[MahavishnuError]] = {"requeue-failed": Conflict, "changed-meanwhile": Conflict}
_BY_STATUS: dict[int, type[MahavishnuError]] = {
    400: InvalidInput,
    404: NotFound,
    409: Conflict,
    412: Conflict,
    413: TooLarge,
    422: InvalidInput,
    502: Unreachable,
    503: Unreachable,
    504: Unreachable,
}


class Answer(Value, frozen=True):
    """An answer of the API; the names of its headers are in lower case."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes = b""

    def json(self) -> Any:
        """The body. Raises ValueError where it is not JSON."""
        return json.loads(self.body)

    @property
    def next_link(self) -> str | None:
        """Link to the next page of a list. Raises Failed if that is another server."""
        link = re.search(r'<([^>]*)>\s*;\s*rel="?next"?', self.headers.get("link", ""))
        if link is None:
            return None
        url = str(urljoin(self.url, link[1]))
        here, there = urlsplit(self.url), urlsplit(url)
        if (here.scheme, here.netloc) != (there.scheme, there.netloc):
            raise Failed(f"{here.hostname} leads to another server, {there.hostname}")
        return url


class Transport(Protocol):
    """Way of requests to the API."""

    base: str  #: the address before the path
    where: str  #: the server or store, for people
    authorized: bool  #: whether requests carry a token

    async def request(self, method: str, url: str, headers: Mapping[str, str], content: bytes | None) -> Answer: ...

    def stream(
        self, url: str, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[tuple[Answer, AsyncIterator[bytes]]]: ...

    async def close(self) -> None: ...


class Connection:
    """Requests and their answers, as Python values. Refusals are raised, and become exit codes."""

    def __init__(self, transport: Transport, session: Session, dlq: LetterQueue | None = None) -> None:
        """Talk over `transport`. `dlq` is the queue that answers, where that is in this process."""
        self._transport, self.session, self.dlq = transport, session, dlq
        self.where = transport.where
        self.more = False  # the list that was read last goes on
        self._actor = None if transport.authorized and USER_VARIABLE not in os.environ else session.user
        self._degraded = False

    async def get(self, path: str, params: Params | None = None) -> Any:
        """Return the content under a path."""
        return (await self.ask("GET", path, params=params)).json()

    async def post(self, path: str, body: Any = None, params: Params | None = None) -> Any:
        """The answer to a request that changes something."""
        return (await self.ask("POST", path, body={} if body is None else body, params=params)).json()

    async def ask(
        self, method: str, path: str, *, params: Params | None = None, body: Any = None, etag: str | None = None
    ) -> Answer:
        """Send one request; a `body` of bytes is JSON already. Raises the MahavishnuError of a problem answered."""
        headers = {"User-Agent": f"mahavishnu/{__version__}"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if etag is not None:
            headers["If-Match"] = etag
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        answer = await self._transport.request(method, self._url(path, params), headers, content)
        self._check(answer)
        if 300 <= answer.status < 400 or "json" not in answer.headers.get("content-type", "json"):
            raise Failed(f"{answer.url.partition('?')[0]} is not a server of Mahavishnu")
        return answer

    def with_actor(self, **body: Any) -> dict[str, Any]:
        """Return a body of the values that are given, and of the actor's name unless a token says that."""
        given = {name: value for name, value in body.items() if value is not None}
        return {**given, "by": self._actor} if self._actor else given

    async def pages(self, path: str, params: Params, limit: int | None) -> AsyncIterator[list[Any]]:
        """A list page by page, following its links, until there are `limit` items (None: all of them)."""
        link: str | None = None
        left = limit
        while True:
            size = min(PAGE_SIZE, left) if left is not None else PAGE_SIZE
            answer = await self.ask("GET", link or path, params=None if link else {**params, "limit": size})
            page: list[Any] = answer.json()
            link = answer.next_link
            if left is not None:
                page = page[:left]
                left -= len(page)
            yield page
            if not link or left == 0:
                self.more = bool(link)
                return

    async def list(self, path: str, params: Params, limit: int | None) -> Listed:
        """Return the items of a list."""
        items = [item async for page in self.pages(path, params, limit) for item in page]
        return Listed(items, self.more)

    async def print_list(
        self, path: str, params: Params, limit: int | None, show: Callable[[Any], object], *, json: bool, jsonl: bool
    ) -> None:
        """Print a list: as JSON while its pages come, with `jsonl` one item in a line; or at the end by `show`."""
        written, found, count = JsonList(), [], 0
        async for page in self.pages(path, params, limit):
            count += len(page)
            for each in page:
                if jsonl:
                    print_json(each, indent=None)
                elif json:
                    written.add(each)
                else:
                    found.append(each)
        if not (json or jsonl):
            show(found)
        elif not jsonl:
            written.end()
        self.note_list_end(count, self.more)

    def note_list_end(self, count: int, more: bool) -> None:
        """Print after a list that there is more; or, where it is empty, which server or store was asked."""
        if more:
            which = "this is the first one" if count == 1 else f"these are the first {count}"
            print_notice(f"{which}: there are more, which --limit N or --all lists")
        if not count:
            print_notice(f"asked: {self.where}")

    @asynccontextmanager
    async def stream(self, path: str, params: Params | None = None) -> AsyncIterator[AsyncIterator[str]]:
        """The lines of an answer, as they come."""
        async with self._transport.stream(self._url(path, params), {}) as (answer, parts):
            if answer.status >= 400 and not answer.body:
                answer = Answer(answer.url, answer.status, answer.headers, b"".join([part async for part in parts]))
            self._check(answer)
            yield _lines(parts)

    async def check_health(self) -> None:
        """Print a notice if the store is degraded. Raises Unreachable if it cannot be used."""
        try:
            health = await self.get("/healthz")
        except Unreachable:
            raise
        except (NotFound, Failed, ValueError):
            health = None
        if not isinstance(health, dict) or "status" not in health:
            raise Unreachable(f"no API of Mahavishnu answers at {self.where}: look at the path of the address")
        self.note_health(str(health["status"]), str(health.get("detail") or ""))

    def note_health(self, status: str, detail: str) -> None:
        """Print a notice if the store is degraded. Raises Unreachable if it is down."""
        if status == "down":
            raise Unreachable(detail or "the store cannot be used")
        if status == "degraded":
            self._note_degraded(detail or "letters are kept locally")

    def _url(self, path: str, params: Params | None) -> str:
        url = path if "://" in path else self._transport.base + ("" if path == "/healthz" else API) + path
        given = {name: value for name, value in (params or {}).items() if value not in (None, [])}
        if self.session.namespace and "://" not in path and path != "/healthz":  # a link to the next page names it
            given.setdefault("namespace", self.session.namespace)
        return f"{url}?{urlencode(given, doseq=True)}" if given else url

    def _check(self, answer: Answer) -> None:
        if why := answer.headers.get("x-degraded"):
            self._note_degraded(why)
        if answer.status == 401:
            raise Failed(_token_problem(answer.url, self._transport.authorized))
        if answer.status >= 400:
            raise error_for(answer)

    def _note_degraded(self, why: str) -> None:
        if not self._degraded:
            self._degraded = True
            print_notice(f"degraded: {why}")


@asynccontextmanager
async def open_connection(
    session: Session, dlq: LetterQueue | None = None, *, new: bool = False
) -> AsyncIterator[Connection]:
    """Return the connection that the options ask for, or one to `dlq`; `new` makes the store. Raises Unreachable."""
    if dlq is None and session.server:
        from mahavishnu.cli.http_transport import HttpTransport

        server = HttpTransport(session)
        try:
            connection = Connection(server, session)
            await connection.check_health()
            yield connection
        finally:
            await server.close()
        return
    from mahavishnu.cli.local_transport import LocalTransport
    from mahavishnu.stores.urls import mask

    if dlq is None and not new:
        require_store(session)
    queue, backend = dlq or session.make_queue(), session.backend
    try:
        transport = LocalTransport(
            lambda: backend.local_api(queue, session.settings.server.max_body_bytes),
            mask(session.store_url),
            partial(backend.read, queue),
        )
        connection = Connection(transport, session, queue)
        health = await queue.health()
        if dlq is None and health.waiting and (bring_home := getattr(queue.context.store, "bring_home", None)):
            await bring_home()
            kept, health = health.waiting, await queue.health()
            if kept > health.waiting:
                print_notice(f"brought home from a local store: {count_of(kept - health.waiting, 'record')}")
        connection.note_health(health.status, health.detail)
        yield connection
        await transport.close()
    finally:
        if dlq is None:
            await queue.shutdown()


def run_conversation(
    session: Session, conversation: Callable[[Connection], Coroutine[Any, Any, R]], *, new: bool = False
) -> R:
    """Open a connection and run a conversation to its end. With `new` the store may be made."""

    async def run() -> R:
        async with open_connection(session, new=new) as connection:
            return await conversation(connection)

    return asyncio.run(run())


def require_store(session: Session) -> None:
    """Raise Unreachable for a file that is not there: a mistaken name must not look like an empty store."""
    url = session.store_url
    if not url.startswith("sqlite:") or (session.store is None and session.backend.is_default_store(url)):
        return
    from mahavishnu.stores.sqlite import SQLiteStore
    from mahavishnu.stores.urls import open_store

    store = open_store(url)
    if isinstance(store, SQLiteStore) and not store.path.exists():
        named = "--store" if session.store else "dlq_store_url"
        raise Unreachable(f"there is no store {store.path}: look at {named}; the first failure that is kept makes it")


def error_for(answer: Answer) -> MahavishnuError:
    """Return the error of a refusal: its problem document says what happened, and what can be done."""
    try:
        problem = answer.json()
        detail, name = str(problem["detail"]), str(problem.get("type", "")).rpartition(":")[2]
        why = str(problem.get("why", ""))
    except (ValueError, TypeError, KeyError):
        phrase = next((each.phrase for each in HTTPStatus if each == answer.status), "")
        detail, name = f"the server answered {answer.status} {phrase}".rstrip(), ""
        why = ""
    if why:
        detail = f"{detail}: {why}"
    if name == "import-stopped":
        return ImportStopped(problem["taken"], problem["letters"])
    if name == "requeue-failed" and "not found" in detail.lower():
        return NotFound(detail)
    return (_BY_TYPE.get(name) or _BY_STATUS.get(answer.status, Failed))(detail)


def _token_problem(url: str, authorized: bool) -> str:
    where = "{0.scheme}://{0.netloc}".format(urlsplit(url))
    if not authorized:
        return f"{where} wants a token: put it into the variable {TOKEN_VARIABLE}"
    whose = f"in the variable {TOKEN_VARIABLE}" if os.environ.get(TOKEN_VARIABLE) else "of the settings"
    return f"{where} does not know the token {whose}"


async def _lines(parts: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """The lines of a text: they end with a line feed and nothing else, since other ends may be inside of one."""
    rest = b""
    async for part in parts:
        *whole, rest = (rest + part).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "replace")
    if rest:
        yield rest.decode("utf-8", "replace")


def task_path(task_id: str, action: str | None = None) -> str:
    """The path of a letter, to change it; or of an action on it, where `letter` reads it.

    >>> task_path("a/b", "retry")
    '/dlq/a%2Fb/retry'
    """
    return f"/dlq/{path_part(task_id)}" + (f"/{action}" if action else "")


def path_part(name: str) -> str:
    """A name as one part of a path; what means a folder elsewhere is a name here.

    >>> path_part("a/b"), path_part("..")
    ('a%2Fb', '%2E%2E')
    """
    return "%2E" * len(name) if name in (".", "..") else quote(name, safe="")
