"""Layers that every request passes before a route: authentication, limits of the body, the idempotency key.

Reads that several clients send at the same time are shared here, so that the rest of the API answers them once.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import parse_qsl, unquote, urlencode

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import Response

from mahavishnu.engine.audit import acting_as
from mahavishnu.engine.queue import LetterQueue
from mahavishnu.http.auth import (
    NOBODY,
    Access,
    Actor,
    Role,
    Session,
    SessionSource,
    audience_of,
    form_value,
    is_foreign_request,
    is_from_other_site,
    is_loopback,
    wants_page,
)
from mahavishnu.http.proxies import AmbiguousUser
from mahavishnu.http.replies import Replies, Reply
from mahavishnu.http.responses import MEDIA_TYPE, escape_part, problem, problem_for
from mahavishnu.model.clock import instant_text
from mahavishnu.model.errors import StoreError
from mahavishnu.model.ids import DEFAULT_NAMESPACE

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
R = TypeVar("R")

log = logging.getLogger(__name__)
PUBLIC_PATHS = ("/healthz", "/readyz")
PROVIDER_PATHS = ("/login/provider", "/login/callback", "/logout/provider")
LOGIN_PATH, STATIC_PATHS = "/login", "/static/"  # open before the login
BODY_SECONDS = 60.0
_CHANGING_METHODS = ("POST", "PATCH", "PUT", "DELETE")
_READING_METHODS = ("GET", "HEAD", "OPTIONS")
_PREFIX = re.compile(r"/ns/(?!\.{1,2}/)([\w.-]{1,200})/", re.ASCII)  # browsers resolve dots
# Headers of every response: nothing is framed, guessed at, or taken by other sites. A page has a policy of its own,
# which lets it load what is ours.
GUARDS: Mapping[str, str] = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def guard(send: Send) -> Send:
    """Add those of the headers that a response does not have yet."""

    async def send_guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [*message.get("headers", ())]
            known = {name.lower() for name, _ in headers}
            headers += [(k.encode(), v.encode()) for k, v in GUARDS.items() if k.encode() not in known]
            message = {**message, "headers": headers}
        await send(message)

    return send_guarded


ShowProblem = Callable[[Scope, Mapping[str, object], Headers], Awaitable[Response]]


class AnswerMiddleware:
    """The layer around the whole server: guards answers, shows problems as pages, and says when something has changed.

    `show_problem` makes the page of a problem document for clients that want pages. `on_change` is called before a
    known user is told of a change: an unknown one changes nothing, and so cannot make others wait for new reads.
    """

    def __init__(self, app: App, *, show_problem: ShowProblem, on_change: Callable[[], object]) -> None:
        self._app, self._show_problem, self._on_change = app, show_problem, on_change

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = guard(send)
        if wants_page(scope):
            send = self._with_pages(scope, receive, send)
        if scope["method"] not in _READING_METHODS:
            send = self._with_changes(scope, send)
        await self._app(scope, receive, send)

    def _with_changes(self, scope: Scope, send: Send) -> Send:
        async def send_after(message: Message) -> None:
            if message["type"] == "http.response.start" and scope.get("actor", NOBODY).role > Role.NOBODY:
                self._on_change()
            await send(message)

        return send_after

    def _with_pages(self, scope: Scope, receive: Receive, send: Send) -> Send:
        start: Message | None = None
        parts: list[bytes] = []

        async def send_page(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                if Headers(raw=message["headers"]).get("content-type") == MEDIA_TYPE:
                    start = message
                    return
            elif start is not None:
                parts.append(message.get("body", b""))
                if not message.get("more_body", False):
                    document = json.loads(b"".join(parts))
                    response = await self._show_problem(scope, document, Headers(raw=start["headers"]))
                    await response(scope, receive, send)
                return
            await send(message)

        return send_page


class CompleteResponse(NamedTuple):
    """A whole response, which may be sent to several clients."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


class ApiMiddleware:
    """The layer that every request passes before its route."""

    def __init__(
        self,
        app: App,
        *,
        dlq: LetterQueue,
        access: Access,
        max_body_bytes: int,
        via: str,
        shared: Collection[str],
        endless: Collection[str] = (),
        sessions: SessionSource | None = None,
    ) -> None:
        """Wrap `app`. `sessions` are those of browsers; without them only tokens count.

        `shared` are paths whose responses depend on the query alone, not on the actor; `endless` are streams.
        """
        self._app, self._dlq, self._access = app, dlq, access
        self._max_body_bytes, self._via, self._sessions = max_body_bytes, via, sessions
        self._shared, self._endless = frozenset(shared), frozenset(endless)
        self._reads = SharedReads[CompleteResponse]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "HEAD" and _local_path(scope) not in self._endless:
            scope, send = {**scope, "method": "GET"}, partial(_without_body, send)
        headers = Headers(scope=scope)
        refusal = await self._authenticate(scope, headers)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        body = b""
        if scope["method"] in _CHANGING_METHODS:
            read = await self._read_body(receive, headers)
            if isinstance(read, Response):
                await read(scope, receive, send)
                return
            body, receive = read, _receive_once(read)
            if why := self._why_forged(scope, headers, body):
                await problem(403, "forbidden", why)(scope, receive, send)
                return
        actor: Actor = scope["actor"]
        with acting_as(role=actor.role.name.lower(), via=self._via):
            in_form = form_value(headers, body, "idempotency_key") if body and "idempotency-key" not in headers else ""
            key = headers.get("idempotency-key") or in_form
            if key and scope["method"] in _CHANGING_METHODS:
                await self._with_idempotency_key(key, actor, scope, body, receive, send, may_be_corrected=bool(in_form))
            elif scope["method"] == "GET" and actor.role >= Role.VIEWER and _local_path(scope) in self._shared:
                await self._send_shared(scope, send)
            else:
                await self._app(scope, receive, send)

    async def _authenticate(self, scope: Scope, headers: Headers) -> Response | None:
        """Put the decoded path and the actor into the scope; return the response that refuses the request, if any."""
        raw = scope.get("raw_path") or scope["path"].encode()
        try:
            parts = [unquote(part, errors="strict") for part in raw.decode("ascii").split("/")]
        except UnicodeDecodeError:
            return problem(400, "bad-request", "the path is not UTF-8")
        scope["path"] = "/".join(map(escape_part, parts))
        scope["request_path"] = "/".join(parts)
        actor, session = self._access.actor(headers.get("authorization")), None
        if self._access.is_open and is_foreign_request(headers, scope.get("client")):
            why = "without tokens this server answers this machine only, and no page of another site: give it a token"
            return problem(403, "forbidden", why)
        try:
            named = self._believe_proxy(scope, headers)
        except AmbiguousUser as doubt:
            return problem(400, "bad-request", f"{doubt}; nobody was let in")
        if actor is None and self._sessions is not None:
            if named is None:
                session = await self._sessions.find_in(HTTPConnection(scope))
            elif (user := self._access.proxy_user(*named)) is not None:
                session = self._sessions.of_proxy(user)
            elif not _is_public(scope):  # the browser may have a session of another user, which does not count
                detail = f"the proxy names {named[0]!r}, who has no role here: server.proxy gives roles by exact names"
                return problem(403, "forbidden", detail)
            actor = None if session is None else session.actor
        scope["session"] = session
        if actor is None and not _is_public(scope):
            why = "send a token that the server knows as Authorization: Bearer …"
            return problem(401, "unauthorized", why, headers={"WWW-Authenticate": "Bearer"})
        scope["actor"] = actor or NOBODY
        return None

    def _believe_proxy(self, scope: Scope, headers: Headers) -> tuple[str, Sequence[str]] | None:
        """Put the client and its scheme into the scope; return a proxy's user and groups. Raises AmbiguousUser."""
        proxies, client = self._access.proxies, scope.get("client")
        peer = client[0] if client else ""
        believed, by = proxies is not None and proxies.include(peer), headers.get("x-forwarded-proto")
        if by in ("http", "https") and (believed or is_loopback(peer)):
            scope["scheme"] = by
        if proxies is None or not believed:
            return None
        scope["client"] = (proxies.client_of(peer, headers), 0)
        return proxies.user_of(peer, headers)

    def _why_forged(self, scope: Scope, headers: Headers, body: bytes) -> str | None:
        """Return why a browser's change is refused: a page of another site may have made it send that."""
        session: Session | None = scope["session"]
        if self._sessions is not None and session is not None and _local_path(scope) != LOGIN_PATH:
            return self._sessions.why_forged(session, headers, body)
        if "authorization" not in headers and is_from_other_site(headers):
            return "a page of another site sent this; nothing was done"
        return None

    async def _send_shared(self, scope: Scope, send: Send) -> None:
        """Answer all clients that send the same request at the same time from one read."""
        audience = audience_of(self._dlq, scope["actor"])
        request = (scope.get("root_path", ""), scope["path"], scope["query_string"], audience)
        response = await self._reads.get(request, partial(_complete_response, self._app, scope))
        await send({"type": "http.response.start", "status": response.status, "headers": [*response.headers]})
        await send({"type": "http.response.body", "body": response.body})

    async def _read_body(self, receive: Receive, headers: Headers) -> bytes | Response:
        """The whole body, or the response that refuses one that is too large or takes too long."""
        limit = self._max_body_bytes
        refusal = problem(413, "content-too-large", f"a request may have {limit} bytes; send it in parts")
        announced = headers.get("content-length", "")
        if announced.isdecimal() and int(announced) > limit:
            return refusal
        parts, size, more = [], 0, True
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return problem(400, "bad-request", "the request ended before its body did")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > limit:
                        return refusal
                    more = message.get("more_body", False)
        except TimeoutError:  # a client that sends without an end would hold a connection for ever
            detail = f"the body did not come to its end within {BODY_SECONDS:g} seconds; nothing was done"
            return problem(408, "request-timeout", detail, headers={"Connection": "close"})
        return b"".join(parts)

    async def _with_idempotency_key(
        self,
        key: str,
        actor: Actor,
        scope: Scope,
        body: bytes,
        receive: Receive,
        send: Send,
        *,
        may_be_corrected: bool = False,
    ) -> None:
        """Let a request through once, then repeat its answer; a refused form `may_be_corrected` under its key."""
        asked = [scope["method"].encode(), scope["path"].encode(), scope["query_string"], body]
        request = hashlib.sha256(b"\0".join(asked)).hexdigest()
        if len(key) > 200:
            await problem(400, "bad-request", "an Idempotency-Key has at most 200 characters")(scope, receive, send)
            return
        whose = [actor.name, key]
        if self._dlq.namespace != DEFAULT_NAMESPACE:  # the servers of other apps share the store
            whose.append(self._dlq.namespace)
        reply_key = hashlib.sha256(json.dumps(whose).encode()).hexdigest()
        try:
            await self._dlq.open()
            former = await self._dlq.service(Replies).begin(reply_key, request)
        except StoreError as failed:
            await problem_for(failed)(scope, receive, send)
            return
        if former is not None:
            await _replay(former, request)(scope, receive, send)
            return
        status, headers, parts = 0, {}, []
        scope["state"] = {**scope.get("state", {})}

        async def send_and_store(message: Message) -> None:
            nonlocal status, headers
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in message["headers"]}
            elif message["type"] == "http.response.body":
                parts.append(message.get("body", b""))
                uncertain = status >= 500 and scope["state"].get("maybe_done", False)
                if not uncertain and not message.get("more_body", False):
                    forgotten = status >= (300 if may_be_corrected and status != 303 else 500)
                    await self._store_reply(reply_key, status, headers, b"".join(parts), forgotten=forgotten)
            await send(message)

        await self._app(scope, receive, send_and_store)

    async def _store_reply(
        self, key: str, status: int, headers: Mapping[str, str], body: bytes, *, forgotten: bool
    ) -> None:
        """Store a response. If that fails it is sent all the same: the request has had its effect."""
        kept = {name: headers[name] for name in ("content-type", "location", "etag") if name in headers}
        try:
            # Nothing was done, so that the request may be sent again; or it has encrypted values in clear.
            if forgotten or headers.get("cache-control") == "no-store":
                await self._dlq.service(Replies).forget(key)
            else:
                await self._dlq.service(Replies).finish(key, status, json.dumps(kept), body.decode())
        except StoreError as failed:
            log.error("an answer cannot be given again, its Idempotency-Key stays unfinished: %s", failed)


async def _without_body(send: Send, message: Message) -> None:
    """The response to HEAD: all but the body."""
    await send({**message, "body": b""} if message["type"] == "http.response.body" else message)


async def _complete_response(app: App, scope: Scope) -> CompleteResponse:
    """The response of `app` to a request without a body."""
    status, headers, parts = 0, (), []

    async def collect(message: Message) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status, headers = message["status"], tuple(message["headers"])
        elif message["type"] == "http.response.body":
            parts.append(message.get("body", b""))

    await app(scope, _receive_once(b""), collect)
    return CompleteResponse(status, headers, b"".join(parts))


def _is_public(scope: Scope) -> bool:
    """Return True if anyone may ask this."""
    path = _local_path(scope)
    if scope["method"] in _CHANGING_METHODS:
        return path == LOGIN_PATH and scope["method"] == "POST"
    return path in (*PUBLIC_PATHS, LOGIN_PATH, *PROVIDER_PATHS) or path.startswith(STATIC_PATHS)


def _local_path(scope: Scope) -> str:
    """The path inside of this app, wherever it is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def _replay(former: Reply, request: str) -> Response:
    """The response to a request whose key was used before, for the request with the digest `former.asked`."""
    if former.asked != request:
        why = "this Idempotency-Key was used for another request; take a new one"
        return problem(422, "idempotency-key-reused", why)
    if former.status is None:
        return problem(
            409,
            "idempotency-unfinished",
            "a request with this Idempotency-Key has begun and its answer is not known: wait if it may be under way, "
            "else look whether it had its effect, and only if it had none send it again, with a new key",
            began_at=instant_text(former.at),
        )
    headers = {**json.loads(former.headers), "Idempotent-Replayed": "true"}
    return Response(former.body, former.status, headers)


def _receive_once(body: bytes) -> Receive:
    """Stand for the client once its body has been read."""
    sent = False

    async def receive() -> Message:
        nonlocal sent
        if sent:
            return {"type": "http.disconnect"}
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


class SharedReads(Generic[R]):
    """Shares reads that several callers ask for at the same time.

    A call that comes during such a read waits for the next one, which all waiting calls share. So no call gets the
    result of a read that began before the call, and each one sees what was written before it.
    """

    def __init__(self) -> None:
        self._running: dict[Any, asyncio.Task[R]] = {}
        self._next: dict[Any, asyncio.Task[R]] = {}

    async def get(self, key: Any, read: Callable[[], Awaitable[R]]) -> R:
        """The result of a read that began after this call."""
        if key in self._next:
            return await asyncio.shield(self._next[key])
        running = self._running.get(key)
        if running is None:
            task = self._running[key] = asyncio.ensure_future(self._begin(key, read))
        else:
            task = self._next[key] = asyncio.ensure_future(self._after(running, key, read))
        task.add_done_callback(retrieve_exception)  # also if no call waits for it any more
        return await asyncio.shield(task)

    async def _begin(self, key: Any, read: Callable[[], Awaitable[R]]) -> R:
        try:
            return await read()
        finally:
            if key not in self._next:
                self._running.pop(key, None)

    async def _after(self, running: asyncio.Task[R], key: Any, read: Callable[[], Awaitable[R]]) -> R:
        try:
            await asyncio.wait({running})
        except asyncio.CancelledError:  # this event loop ends; the object may be used in another one
            del self._next[key]
            self._running.pop(key, None)
            raise
        self._running[key] = self._next.pop(key)
        return await self._begin(key, read)


def retrieve_exception(task: asyncio.Task[Any]) -> None:
    """Take the exception of a task that perhaps nothing awaits, so that asyncio does not warn of it."""
    if not task.cancelled():
        task.exception()


# ------------------------------------------------ paths below `/ns/<namespace>/`, for another namespace of the store


def namespace_prefix(namespace: str) -> str | None:
    """Return the prefix of a namespace's paths, without slashes around it; None where no path can name it.

    >>> namespace_prefix("eu"), namespace_prefix("a b")
    ('ns/eu', None)
    """
    return f"ns/{namespace}" if _PREFIX.fullmatch(f"/ns/{namespace}/") else None


class NamespacePaths:
    """Outermost layer: it takes the prefix for a part of the server's mount point, and notes the namespace."""

    def __init__(self, app: App, *, home: str) -> None:
        """Wrap `app`. `home` is the namespace that the server is for."""
        self._app, self._home = app, home

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            place = self._place_of(scope)
            if place is not None:
                led = Response(None, 303, {"Location": place, "Cache-Control": "no-store"})
                await led(scope, receive, send)
                return
            mount: str = scope.get("root_path", "")
            found = _PREFIX.match(scope["path"].removeprefix(mount))
            raw: bytes = scope.get("raw_path") or scope["path"].encode()
            if found is not None and found[0].encode() in raw:  # an escaped slash ends no name
                scope = {**scope, "root_path": mount + found[0][:-1], "namespace": found[1]}
        await self._app(scope, receive, send)

    def _place_of(self, scope: Scope) -> str | None:
        """Return the pages of the namespace that the query names; None where no path can name it."""
        if b"namespace=" not in scope["query_string"] or scope["method"] not in ("GET", "HEAD"):
            return None
        given = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        named = {value for name, value in given if name == "namespace"}
        namespace = named.pop() if len(named) == 1 else ""
        prefix = namespace_prefix(namespace)
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        mount: str = scope.get("root_path", "")
        path = raw.decode("latin-1").removeprefix(mount)
        within = _PREFIX.match(path)
        page = path if within is None else path[within.end() - 1 :]
        if prefix is None or not wants_page({**scope, "path": mount + page}):
            return None
        rest = urlencode([(name, value) for name, value in given if name != "namespace"])
        up = "../" * (path.count("/") - 1) or "./"
        return f"{up}{'' if namespace == self._home else f'{prefix}/'}{page[1:]}{'?' + rest if rest else ''}"
