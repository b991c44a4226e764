"""The connection of a command: HTTP to a server, or to the same app in this process. Both answer alike."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import httpx

from mahavishnu import __version__
from mahavishnu.cli.exits import Conflict, Failed, NotFound, Unreachable
from mahavishnu.cli.output import print_notice
from mahavishnu.cli.session import USER_VARIABLE, Session
from mahavishnu.model.errors import InvalidInput, MahavishnuError
from mahavishnu.stores.urls import masked, open_store

if TYPE_CHECKING:
    from mahavishnu.core.dead_letter_queue import DeadLetterQueue

API = "/api/v1"
INSIDE = "http://localhost"
TIMEOUT_SECONDS = 60.0
TOKEN_VARIABLE = "MAHAVISHNU_TOKEN"  # never an option: others can read those
R = TypeVar("R")
Params = Mapping[str, Any]


class TooLarge(InvalidInput):
    """The server takes smaller requests only."""


# Refusals that mean something else than their status says to HTTP.
_BY_TYPE: dict[str, type[MahavishnuError]] = {"requeue-failed": Conflict, "changed-meanwhile": Conflict}
_BY_STATUS: dict[int, type[MahavishnuError]] = {
    400: InvalidInput,
    401: Failed,
    403: Failed,
    404: NotFound,
    409: Conflict,
    412: Conflict,
    413: TooLarge,
    422: InvalidInput,
    502: Unreachable,
    503: Unreachable,
    504: Unreachable,
}


_WRAPPING = ("query", "body", "filter")
_NUMBERS = re.compile(r"\b(?:stop_percent|max_per_second)\b")
_OPTIONS = {
    "resolution_status": "--resolution",
    "fingerprint": "--group",
    "created_from": "--since",
    "created_before": "--before",
    "notes": "--reason",
    "priority_boost": "--boost",
}


class Connection:
    """Requests and their answers, as Python values; refusals are raised, and so become exit codes."""

    def __init__(self, client: httpx.AsyncClient, to: Session, where: str, dlq: DeadLetterQueue | None) -> None:
        self._client, self.session, self.where, self.dlq = client, to, where, dlq
        named = USER_VARIABLE in os.environ or "Authorization" not in client.headers
        self._by = to.user if named else None  # a token says whose it is
        self.more = False  # whether the list that was read last goes on
        self._noticed = False

    async def get(self, path: str, params: Params | None = None) -> Any:
        """What is under a path."""
        return (await self.ask("GET", path, params=params)).json()

    async def post(self, path: str, body: Any = None, params: Params | None = None) -> Any:
        """The answer to a request that changes something."""
        return (await self.ask("POST", path, body={} if body is None else body, params=params)).json()

    async def ask(
        self, method: str, path: str, *, params: Params | None = None, body: Any = None, etag: str | None = None
    ) -> httpx.Response:
        """One request. Raises a MahavishnuError that says what the answer says."""
        content = None if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"Content-Type": "application/json"}
        if etag is not None:
            headers["If-Match"] = etag
        with _connected(self._client):
            answer = await self._client.request(
                method, _url(path), params=_plain(params), content=content, headers=headers
            )
        self._look_at(answer)
        if answer.is_redirect or "json" not in answer.headers.get("Content-Type", "json"):
            raise Failed(f"{answer.request.url.copy_with(query=None)} is not a server of Mahavishnu")
        return answer

    def with_actor(self, **body: Any) -> dict[str, Any]:
        """A body without what was not said, and with the name of who asks."""
        said = {name: value for name, value in body.items() if value is not None}
        return {**said, "by": self._by} if self._by else said

    async def pages(self, path: str, params: Params, limit: int | None) -> AsyncIterator[list[Any]]:
        """A list page by page, following its links, until there are `limit` items (None: all of them)."""
        link: str | None = None
        left = limit
        while True:
            size = min(500, left) if left is not None else 500
            answer = await self.ask("GET", link or path, params=None if link else {**params, "limit": size})
            page: list[Any] = answer.json()
            link = _next(answer)
            if left is not None:
                page = page[:left]
                left -= len(page)
            yield page
            if not link or left == 0:
                self.more = bool(link)
                return

    async def list(self, path: str, params: Params, limit: int | None) -> list[Any]:
        """The items of a list; `more` says whether there are others."""
        return [item async for page in self.pages(path, params, limit) for item in page]

    def note_list_end(self, count: int, limit: int) -> None:
        """After a list: that there is more; or, where it is empty, who said so."""
        if self.more:
            print_notice(f"there are more than these {limit}: --limit, or --all")
        if not count:
            print_notice(f"asked: {self.where}")

    @asynccontextmanager
    async def stream(self, path: str, params: Params | None = None) -> AsyncIterator[AsyncIterator[str]]:
        """The lines of an answer, as they come."""
        with _connected(self._client):
            timeout = httpx.Timeout(TIMEOUT_SECONDS, read=None)
            async with self._client.stream("GET", _url(path), params=_plain(params), timeout=timeout) as answer:
                if answer.is_error:
                    await answer.aread()
                self._look_at(answer)
                yield _lines(answer)

    async def check_health(self) -> None:
        """Say if it is degraded. Raises Unreachable if nothing can be done with it."""
        try:
            health = await self.get("/healthz")
        except (NotFound, Failed, ValueError) as problem:
            if isinstance(problem, Unreachable):
                raise
            health = None
        if not isinstance(health, dict) or "status" not in health:
            raise Unreachable(f"no API of Mahavishnu answers at {self.where}: look at the path of the address")
        if health.get("status") == "down":
            raise Unreachable(str(health.get("detail") or "the store cannot be used"))
        if health.get("status") == "degraded":
            self._notice(str(health.get("detail") or "letters are kept locally"))

    def _look_at(self, answer: httpx.Response) -> None:
        if why := answer.headers.get("X-Degraded"):
            self._notice(why)
        if answer.is_error:
            raise error_for(answer)

    def _notice(self, why: str) -> None:
        if not self._noticed:
            self._noticed = True
            print_notice(f"degraded: {why}")


@asynccontextmanager
async def open_connection(
    to: Session, dlq: DeadLetterQueue | None = None, *, new: bool = False
) -> AsyncIterator[Connection]:
    """The connection that the options ask for; or, to `dlq`, in this process. With `new` the store may be made.

    Raises Unreachable where there is none.
    """
    headers = {"User-Agent": f"mahavishnu/{__version__}"}
    if dlq is None and to.server:
        url = _address(to.server)
        token = _token(to, url)
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=TIMEOUT_SECONDS) as client:
            connection = Connection(client, to, url, None)
            await connection.check_health()
            yield connection
        return
    from mahavishnu.api import create_app
    from mahavishnu.cli.local_transport import InProcess
    from mahavishnu.core.wiring import queue_from

    if dlq is None and not new:
        require_store(to)
    queue = dlq or queue_from(to.settings)
    try:
        api = create_app(queue, via="cli", max_body_bytes=to.settings.server.max_body_bytes)
        async with httpx.AsyncClient(
            transport=InProcess(api), base_url=INSIDE, headers=headers, timeout=None
        ) as client:
            connection = Connection(client, to, masked(to.settings.dlq_store_url), queue)
            await connection.check_health()
            yield connection
        await api.state.live.close()
    finally:
        if dlq is None:
            await queue.shutdown()


def run_conversation(to: Session, asked: Callable[[Connection], Coroutine[Any, Any, R]], *, new: bool = False) -> R:
    """Run one conversation to its end. With `new` the store may be made."""

    async def conversation() -> R:
        async with open_connection(to, new=new) as connection:
            return await asked(connection)

    return asyncio.run(conversation())


def require_store(to: Session) -> None:
    """Raise Unreachable for a file that is not there: a mistaken name must not look like an empty store."""
    from mahavishnu.core.config.schema import default_store_url

    url = to.settings.dlq_store_url
    if not url.startswith("sqlite:") or (to.store is None and url == default_store_url()):
        return
    from mahavishnu.stores.sqlite import SQLiteStore

    store = open_store(url)
    if isinstance(store, SQLiteStore) and not store.path.exists():
        named = "--store" if to.store else "dlq_store_url"
        raise Unreachable(f"there is no store {store.path}: look at {named}; the first failure that is kept makes it")


def error_for(answer: httpx.Response) -> MahavishnuError:
    """What the answer says went wrong."""
    try:
        said = answer.json()
        detail, name = str(said["detail"]), str(said.get("type", "")).rpartition(":")[2]
    except (ValueError, TypeError, KeyError):
        said = {}
        detail, name = f"the server answered {answer.status_code} {answer.reason_phrase}", ""
    if answer.status_code == 401:
        return Failed(_about_the_token(answer.request))
    if name == "invalid-request" and (told := _in_our_words(said.get("problems"))):
        detail = told
    elif answer.status_code == 422 or name == "illegal-run-move":
        detail = _NUMBERS.sub(lambda found: _option(found[0]), detail)
    if name == "requeue-failed" and "not found" in detail.lower():
        return NotFound(detail)
    return (_BY_TYPE.get(name) or _BY_STATUS.get(answer.status_code, Failed))(detail)


def _about_the_token(request: httpx.Request) -> str:
    where = f"{request.url.scheme}://{request.url.netloc.decode()}"
    if "Authorization" not in request.headers:
        return f"{where} wants a token: put it into the variable {TOKEN_VARIABLE}"
    whose = f"in the variable {TOKEN_VARIABLE}" if os.environ.get(TOKEN_VARIABLE) else "of the settings"
    return f"{where} does not know the token {whose}"


def _in_our_words(problems: Any) -> str:
    """What is wrong with a request, by the options that it was made of; empty if that cannot be said.

    >>> _in_our_words([{"where": "query.category.0", "problem": "Input should be 'network' or 'timeout'"}])
    "--category should be 'network' or 'timeout'"
    """
    if not isinstance(problems, list):
        return ""
    told = []
    for each in problems:
        parts = str(each["where"]).split(".")
        names = [part for part in parts if part not in _WRAPPING and not part.isdecimal()]
        if not names:
            return ""
        option = "--dlq-reason" if names[0] == "reason" and parts[:2] != ["body", "reason"] else _option(names[0])
        what = str(each["problem"]).replace("a valid dictionary", "a JSON object")
        should = what.removeprefix("Input ")
        told.append(f"{option} {should}" if should != what else f"{option}: {what}")
    return "; ".join(dict.fromkeys(told))


def _option(name: str) -> str:
    """The option that a name of the API is.

    >>> _option("created_from"), _option("stop_percent")
    ('--since', '--stop-percent')
    """
    return _OPTIONS.get(name) or f"--{name.replace('_', '-')}"


class _connected:
    """What httpx raises, in our words."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._where = str(client.base_url).rstrip("/")

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        match error:
            case httpx.ConnectError() | httpx.ConnectTimeout():
                why = str(error.__cause__ or error) or type(error).__name__
                raise Unreachable(f"there is no server at {self._where}: {why}") from None
            case httpx.TimeoutException():
                raise Unreachable(f"{self._where} does not answer: look whether this had its effect") from None
            case httpx.TransportError():
                raise Unreachable(f"the answer of {self._where} was lost: look whether this had its effect") from None
            case httpx.InvalidURL() | httpx.UnsupportedProtocol():
                raise InvalidInput(f"{self._where!r} is no address of a server: write http://host:port") from None


async def _lines(answer: httpx.Response) -> AsyncIterator[str]:
    """Lines end with a line feed and nothing else: other ends may be inside of a text."""
    rest = ""
    async for part in answer.aiter_text():
        *whole, rest = (rest + part).split("\n")
        for each in whole:
            yield each
    if rest:
        yield rest


def task_path(task_id: str, act: str | None = None) -> str:
    """Where a letter can be changed or, with `letter` as `act`, read; or where something is done with it.

    >>> task_path("a/b", "retry")
    '/dlq/a%2Fb/retry'
    """
    return f"/dlq/{path_part(task_id)}" + (f"/{act}" if act else "")


def path_part(name: str) -> str:
    """A name as one part of a path; what means a folder elsewhere is a name here.

    >>> path_part("a/b"), path_part("..")
    ('a%2Fb', '%2E%2E')
    """
    return "%2E" * len(name) if name in (".", "..") else quote(name, safe="")


def _next(answer: httpx.Response) -> str | None:
    """Where a list goes on; a server leads nowhere else than to itself."""
    link = answer.links.get("next", {}).get("url")
    if link is None:
        return None
    url = answer.url.join(link)
    if (url.scheme, url.netloc) != (answer.url.scheme, answer.url.netloc):
        raise Failed(f"{answer.url.host} leads to another server, {url.host}")
    return str(url)


def _url(path: str) -> str:
    return path if "://" in path or path == "/healthz" else API + path


def _plain(params: Params | None) -> dict[str, Any] | None:
    return None if params is None else {name: value for name, value in params.items() if value not in (None, [])}


def _token(to: Session, url: str) -> str | None:
    """The token of the environment; on the server's own machine, the one that the settings know for this user."""
    if token := os.environ.get(TOKEN_VARIABLE):
        return token
    host, server = httpx.URL(url).host, to.settings.server
    if host not in ("localhost", "127.0.0.1", "::1", server.host):
        return None  # it is nobody else's business
    for people in (server.admins, server.operators, server.viewers):
        if to.user in people:
            return people[to.user].get_secret_value()
    return None


def _address(server: str) -> str:
    url = server if "://" in server else f"http://{server}"
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as problem:
        raise InvalidInput(f"{server!r} is no address of a server: {problem}") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise InvalidInput(f"{server!r} is no address of a server: write http://host:port")
    if parsed.userinfo:
        raise InvalidInput("a server is told who asks by a token (MAHAVISHNU_TOKEN), not in its address")
    return url.rstrip("/").removesuffix(API)
