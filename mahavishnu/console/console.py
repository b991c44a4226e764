"""The pages of the console: a view is a frozen value, a template shows it, and the frame is around it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
import secrets
import shlex
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import quote, urlsplit

import jinja2
from itsdangerous import BadSignature, URLSafeSerializer
from markupsafe import Markup
from msgspec.structs import replace
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.console import words
from mahavishnu.console.frame import FirstFix, Frame, Link, Number, NumberIn, Said, local_path, root_from
from mahavishnu.console.layout import Layout
from mahavishnu.console.recent_reads import LASTS, Recent, RecentReads
from mahavishnu.engine.queue import LetterQueue
from mahavishnu.http.auth import NOBODY, Actor, Role, audience_of, get_own_queue, local_target
from mahavishnu.http.middleware import Scope
from mahavishnu.http.responses import problem
from mahavishnu.http.routing import Depends, Router
from mahavishnu.http.schemas import NamespaceName
from mahavishnu.model.errors import InvalidInput, MahavishnuError
from mahavishnu.model.record import Value
from mahavishnu.stores.base import Health

# --- files that pages load: one style sheet and two scripts, from the package itself

FOREVER, ASK_AGAIN = "public, max-age=31536000, immutable", "no-cache"
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
_FOLDER = "static"
router = Router(tag="static", documented=False)


class StaticFile(Value, frozen=True):
    """A file of the package, and its digest."""

    content: bytes
    media_type: str
    digest: str


@cache
def static_file(name: str) -> StaticFile | None:
    """One of the files; None if there is none of this name."""
    suffix = name[name.rfind(".") :]
    if suffix not in _TYPES or name not in _names():
        return None
    content = resources.files(__package__).joinpath(_FOLDER, name).read_bytes()
    return StaticFile(content, _TYPES[suffix], hashlib.sha256(content).hexdigest()[:16])


@cache
def _names() -> frozenset[str]:
    return frozenset(each.name for each in resources.files(__package__).joinpath(_FOLDER).iterdir())


def static_url(name: str) -> str:
    """The local URL of a file, which changes when the file does: browsers may keep it for ever.

    >>> static_url("console.css").startswith("static/console.css?v=")
    True
    """
    found = static_file(name)
    assert found is not None, name
    return f"{_FOLDER}/{name}?v={found.digest}"


@router.get("/static/{name}")
async def send_file(request: Request, name: str) -> Response:
    """A file with its digest as ETag."""
    found = static_file(name) if name in _names() else None
    if found is None:
        return problem(404, "not-found", f"there is no file {name!r:.80}")
    mark = f'"{found.digest}"'
    kept = FOREVER if request.query_params.get("v") == found.digest else ASK_AGAIN
    headers = {"ETag": mark, "Cache-Control": kept, "X-Content-Type-Options": "nosniff"}
    if mark in [each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")]:
        return Response(None, 304, headers)
    return Response(found.content, 200, headers, found.media_type)


# --- pages

R = TypeVar("R")
log = logging.getLogger(__name__)
_PACKAGE = Path(__file__).parents[1]  # each room has a folder of templates
HTML = "text/html; charset=utf-8"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers say `Origin: null` of our own forms
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_DIRECTIONS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_SAID = "mahavishnu_said"
_ACTED = "mahavishnu_acted"  # where somebody has done something a moment ago
KEY_MARK = secrets.token_hex(16)  #: stands in views for an idempotency key: each page gets one of its own
_TOKEN = secrets.token_hex(16)  # stands in shared texts for the proof of a form
_IN_ADDRESSES = "!#$%&'()*+,/:;=?@[]~"  # what has a meaning there, or is escaped already
_MOST_SAID = 3000  # bytes that a cookie may have


class Console:
    """The pages of one queue: their navigation, and how they are shown."""

    def __init__(
        self, dlq: LetterQueue, links: Sequence[Link], keys: Sequence[str], first_fix: FirstFix | None = None
    ) -> None:
        """Make the pages of `dlq`. `keys` sign messages between pages; the overview guides through `first_fix`."""
        self._dlq, self._links, self.first_fix = dlq, links, first_fix
        self.recent = RecentReads(dlq.clock)
        self._id = secrets.token_hex(4)  # of this process, for browsers that several servers answer
        self._said = URLSafeSerializer([*reversed(keys)], salt="mahavishnu said")

    @property
    def namespace(self) -> str:
        """The namespace that the server is for."""
        return self._dlq.namespace

    def namespace_of(self, request: Request) -> str:
        """The namespace that the address of a page means."""
        named: str = request.scope.get("namespace") or self.namespace
        return named

    async def read(
        self, request: Request, dlq: LetterQueue, read: Callable[[LetterQueue], Awaitable[R]], *more: Hashable
    ) -> Recent[R]:
        """Return a read a few seconds old at most, shared by all who see the same; it depends on `more`, too."""
        return await self.share(request, dlq, read, partial(read, dlq), *more)

    async def share(
        self, request: Request, dlq: LetterQueue, name: Hashable, read: Callable[[], Awaitable[R]], *more: Hashable
    ) -> Recent[R]:
        """Share any `read` in the same way. The `name` stands for it: of this queue, and of `more`."""
        return await self.recent.get(_key(request, dlq, name, *more), read, self._since(request))

    def _since(self, request: Request) -> float:
        """Return the earliest time of a read for this browser, whose user may have acted at another server."""
        if request.cookies.get(_ACTED, self._id) == self._id:
            return float("-inf")
        since: float = request.scope.setdefault("read_since", self.recent.now())
        return since

    async def show(
        self, request: Request, template: str, view: Any, *, status: int = 200, recent: Recent[Any] | None = None
    ) -> Response:
        """Return the page of a `view`; one made only of what was `recent`ly read is rendered once for all."""
        said = self._take_said(request)
        actor: Actor = request.scope.get("actor") or NOBODY
        known = actor.role >= Role.VIEWER
        health = await self._dlq.health() if known else None
        frame = Frame(
            root=root_from(local_path(request)),
            path=local_path(request),
            here=local_path(request).split("/")[1] if "/" in local_path(request) else "",
            actor=actor,
            session=request.scope.get("session"),
            health=_health_for(actor, health),
            now=(now := self._dlq.clock.now()),
            as_of=recent.at if recent else now,
            namespace=self.namespace_of(request),
            elsewhere="namespace" in request.scope,
            links=self._links if known else (),
            numbers=await self._numbers(request) if known and health and health.status != "down" else {},
            said=said,
            repeatable=request.method in ("GET", "HEAD"),
        )
        if recent is None or said is not None or status != 200:
            text = render(template, view=view, frame=frame)
        else:
            text = _shared_text(recent, template, view, frame)
        if recent is not None:
            text = text.replace(KEY_MARK, secrets.token_urlsafe(16))
        response = Response(text.encode("utf-8", "replace"), status, {**HEADERS, "Vary": "Accept"}, HTML)
        if said is not None:
            response.delete_cookie(_SAID, path="/", httponly=True, samesite="lax")
        return response

    def go(self, request: Request, path: str, said: Said | None = None) -> Response:
        """Lead the browser to a local path after a change, and have that page say what was done."""
        place = root_from(local_path(request)) + quote(path.removeprefix("/"), safe=_IN_ADDRESSES)
        response = Response(None, 303, {"Location": place})
        if said is not None:
            text = str(self._said.dumps(asdict(said)))
            if len(text) <= _MOST_SAID:
                self._set_cookie(response, request, _SAID, text, 60)
            self._set_cookie(response, request, _ACTED, self._id, int(LASTS) + 1)
        return response

    @staticmethod
    def _set_cookie(response: Response, request: Request, name: str, value: str, seconds: int) -> None:
        secure = request.url.scheme == "https"
        response.set_cookie(name, value, max_age=seconds, path="/", secure=secure, httponly=True, samesite="lax")

    async def _numbers(self, request: Request) -> Mapping[str, Number]:
        """The numbers of the navigation by the path of their page; what is not known is left out."""
        dlq = await get_own_queue(request)
        counted = {link: link.number for link in self._links if link.number is not None}
        reads = {number: number.read if isinstance(number, NumberIn) else number for number in counted.values()}
        found = {
            number: self.recent.peek(_key(request, dlq, read), self._since(request)) for number, read in reads.items()
        }
        missing = [number for number, recent in found.items() if recent is None]
        if missing:
            some = await asyncio.gather(*(self._read_number(request, dlq, reads[number]) for number in missing))
            found |= zip(missing, some, strict=True)
        numbers: dict[str, Number] = {}
        for link, number in counted.items():
            if (recent := found[number]) is not None:
                value = recent.derive(number.find) if isinstance(number, NumberIn) else recent.value
                if value is not None:
                    numbers[link.path] = value
        return numbers

    async def _read_number(
        self, request: Request, dlq: LetterQueue, read: Callable[[LetterQueue], Awaitable[Any]]
    ) -> Recent[Any] | None:
        try:
            return await self.read(request, dlq, read)
        except MahavishnuError as problem:
            log.debug("a number of the navigation is not known: %s", problem)
            return None

    def _take_said(self, request: Request) -> Said | None:
        cookie = request.cookies.get(_SAID)
        if not cookie:
            return None
        try:
            return Said(**self._said.loads(cookie))
        except (BadSignature, TypeError, ValueError):
            return None


def _health_for(actor: Actor, health: Health | None) -> Health | None:
    """Return the state of the store; how much of it is kept elsewhere is for actors who see all of it."""
    if health is None or actor.principal is None or actor.principal.scope.is_everything:
        return health
    return Health(health.status)


def console_of(request: Request) -> Console:
    """The console that a request is for."""
    console: Console = request.app.state.console
    return console


async def get_page_queue(request: Request, namespace: NamespaceName | None = None) -> LetterQueue:
    """Return the queue of a page with forms. Raises InvalidInput if the address lacks the namespace they act on."""
    dlq = await get_own_queue(request)
    if namespace not in (None, dlq.namespace):
        raise InvalidInput(
            f"no address of a page can name the namespace {namespace!r:.80}: use the command line with --namespace, or "
            "the API with namespace="
        )
    return dlq


PageQueue = Annotated[LetterQueue, Depends(get_page_queue)]


async def show(
    request: Request, template: str, view: Any, *, status: int = 200, recent: Recent[Any] | None = None
) -> Response:
    """A page of a view: what the handler of a page returns."""
    return await console_of(request).show(request, template, view, status=status, recent=recent)


def _key(request: Request, dlq: LetterQueue, name: Hashable, *more: Hashable) -> Hashable:
    """Return the key of an answer: what was asked, and what its actor may see."""
    actor: Actor = request.scope["actor"]
    return (name, dlq.namespace, audience_of(dlq, actor), *more)


def _shared_text(recent: Recent[Any], template: str, view: Any, frame: Frame) -> str:
    """The page for this frame, from a text in which stands a mark for what only this one may know, and for the time."""
    own, now = frame.session, frame.as_of
    same = replace(frame, now=now, session=None if own is None else replace(own, id="", until=now, form_token=_TOKEN))
    text = recent.text((template, same), lambda: render(template, view=view, frame=same))
    if own is not None:
        text = text.replace(_TOKEN, own.form_token)
    mark = 'name="server-time" content="'
    return text.replace(f"{mark}{words.instant(now)}", f"{mark}{words.instant(frame.now)}", 1)


def render(template: str, **values: Any) -> str:
    """The text of a template.

    >>> render("said.html", said=Said("<b>")).strip().count("<b>")
    0
    """
    return _environment().get_template(template).render(**values)


def show_directions(value: Any) -> Any:
    """Escape the characters of a text that turn the direction of what follows, as JSON would.

    They would make `gnp.exe` read as a picture, and text beside them stand in another order.

    >>> show_directions("a" + chr(0x202E) + "gnp.exe")
    'a\\\\u202egnp.exe'
    """
    if not isinstance(value, str) or value.isascii() or not _DIRECTIONS.search(value):
        return value
    shown = _DIRECTIONS.sub(lambda found: f"\\u{ord(found[0]):04x}", value)
    return Markup(shown) if isinstance(value, Markup) else shown


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(sorted(_PACKAGE.glob("*/templates"))),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        extensions=[Layout],
        auto_reload=False,
        finalize=show_directions,
    )
    environment.filters |= {
        "count": words.count,
        "plural": words.plural,
        "span": words.span,
        "exact": words.exact,
        "clock_time": words.clock_time,
        "instant": words.instant,
        "state_words": words.state_words,
        "with_runbook": words.with_runbook,
        "segment": partial(quote, safe="", errors="surrogatepass"),  # any text as one part of a path
        "shell": shlex.quote,
        "pretty": partial(json.dumps, indent=2, ensure_ascii=False, default=str),
    }
    environment.globals |= {"ago": words.ago, "static": static_url}
    environment.tests |= {"moment": lambda value: isinstance(value, datetime)}
    return environment


# --- problems as pages: a browser's request gets the same answer as a program's, to be read

_HEADLINES = {
    403: "You may not do that",
    404: "There is no such thing here",
    405: "That is no page to open",
    409: "It was not done",
    412: "It was not done: somebody changed it meanwhile",
    422: "It was not done: something in it is not right",
    503: "The store cannot answer now",
}


class ProblemView(Value, frozen=True):
    """Problem, and what to do about it."""

    status: int
    title: str
    detail: str
    back: str | None = None  #: the page that the request came from, from the start page

    @property
    def headline(self) -> str:
        """Short words for people."""
        return _HEADLINES.get(self.status, self.title)


async def show_problem(console: Console, scope: Scope, document: Mapping[str, object], headers: Headers) -> Response:
    """Return the page that shows a problem document, which was sent with these headers."""
    status = int(str(document["status"]))
    request = Request(scope)
    if status == 401:
        return _lead_to_login(scope, request)
    detail = str(document["detail"])
    if status == 404 and "endpoint" not in scope:
        place = local_path(request)
        detail = f"The console has no page {place!r:.200}: what leads here is out of date, or mistyped."
    view = ProblemView(status, str(document["title"]), detail, came_from(request))
    response = await console.show(request, "problem.html", view, status=status)
    for name in ("retry-after", "allow"):
        if name in headers:
            response.headers[name] = headers[name]
    return response


def came_from(request: Request) -> str | None:
    """The page of this console from which the request came, from the start page; None if it did not say so."""
    try:
        parts = urlsplit(request.headers.get("referer", ""))
    except ValueError:
        return None
    mount = request.scope.get("root_path", "")
    if parts.netloc != request.url.netloc or not parts.path.startswith(f"{mount}/"):
        return None
    path = parts.path.removeprefix(mount) + (f"?{parts.query}" if parts.query else "")
    return path if path not in (local_path(request), "/") and local_target(path) == path else None


def _lead_to_login(scope: Scope, request: Request) -> Response:
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    path = raw.decode("ascii", "replace").removeprefix(scope.get("root_path", ""))  # with its escapes: ids have slashes
    reading = request.method in ("GET", "HEAD")
    wanted = path + (f"?{request.url.query}" if request.url.query else "") if reading else came_from(request) or "/"
    place = f"{root_from(path)}login?next={quote(wanted, safe='')}" + ("" if reading else "&lost=true")
    if "hx-request" in request.headers:  # a fragment is no place for the login: the whole page goes there
        return Response(None, 200, {"HX-Redirect": place, "Cache-Control": "no-store"})
    return Response(None, 303, {"Location": place, "Cache-Control": "no-store"})
