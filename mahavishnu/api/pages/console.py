"""Makes pages of views: a view is a frozen value, a template shows it, and the frame is around it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import cache
from typing import Any

import jinja2
from itsdangerous import BadSignature, URLSafeSerializer
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.api.auth import Actor, Role
from mahavishnu.api.middleware import SharedReads
from mahavishnu.api.pages import words
from mahavishnu.api.pages.frame import Frame, Link, Numbers, Said, local_path, root_from
from mahavishnu.api.pages.guide import FirstFix
from mahavishnu.api.pages.static import static_url
from mahavishnu.core.dead_letter_queue import DeadLetterQueue

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
_MOST_SAID = 3000  # bytes that a cookie may have


class Console:
    """The pages of one queue: their navigation, and how they are shown."""

    def __init__(
        self, dlq: DeadLetterQueue, links: Sequence[Link], keys: Sequence[str], first_fix: FirstFix | None = None
    ) -> None:
        """`keys` sign what a page is told by the one before; `first_fix` is shown step by step on the overview."""
        self._dlq, self._links, self.first_fix = dlq, links, first_fix
        self.numbers = Numbers(dlq, links)
        self.reads = SharedReads[Any]()  #: what several people look at is read once for all who ask at the same time
        self._said = URLSafeSerializer([*reversed(keys)], salt="mahavishnu said")

    async def show(self, request: Request, template: str, view: Any, *, status: int = 200) -> Response:
        """A page. `view` is what its template shows; the template finds the rest in `frame`."""
        said = self._take_said(request)
        actor: Actor = request.scope.get("actor") or Actor("anybody", Role.NOBODY)
        known = actor.role >= Role.VIEWER
        health = await self._dlq.health() if known else None
        frame = Frame(
            root=root_from(local_path(request)),
            path=local_path(request),
            here=local_path(request).split("/")[1] if "/" in local_path(request) else "",
            actor=actor,
            session=request.scope.get("session"),
            health=health,
            now=self._dlq.clock.now(),
            namespace=self._dlq.namespace,
            links=self._links if known else (),
            numbers=await self.numbers.get() if known and health and health.status != "down" else {},
            said=said,
        )
        text = render(template, view=view, frame=frame)
        response = Response(text.encode("utf-8", "replace"), status, {**HEADERS, "Vary": "Accept"}, HTML)
        if said is not None:
            response.delete_cookie(_SAID, path="/", httponly=True, samesite="lax")
        return response

    def go(self, request: Request, path: str, said: Said | None = None) -> Response:
        """After a change: lead the browser to a local path, and have that page say what was done."""
        self.numbers.forget()
        place = root_from(local_path(request)) + path.removeprefix("/")
        response = Response(None, 303, {"Location": place})
        if said is not None:
            text = str(self._said.dumps(asdict(said)))
            if len(text) <= _MOST_SAID:
                response.set_cookie(
                    _SAID, text, max_age=60, path="/", secure=request.url.scheme == "https", httponly=True,
                    samesite="lax",
                )  # fmt: skip
        return response

    def _take_said(self, request: Request) -> Said | None:
        cookie = request.cookies.get(_SAID)
        if not cookie:
            return None
        try:
            return Said(**self._said.loads(cookie))
        except (BadSignature, TypeError, ValueError):
            return None


def console_of(request: Request) -> Console:
    """The console that a request is for."""
    console: Console = request.app.state.console
    return console


async def show(request: Request, template: str, view: Any, *, status: int = 200) -> Response:
    """A page of a view: what the handler of a page returns."""
    return await console_of(request).show(request, template, view, status=status)


def render(template: str, **values: Any) -> str:
    """The text of a template.

    >>> render("said.html", said=Said("<b>")).strip().count("<b>")
    0
    """
    return _environment().get_template(template).render(**values)


def show_directions(value: Any) -> Any:
    """A text with the characters that turn the direction of what follows as escapes, as JSON would have them.

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
        loader=jinja2.PackageLoader("mahavishnu.api.pages"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
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
        "segment": _segment,
        "pretty": _pretty,
    }
    environment.globals |= {"ago": words.ago, "static": static_url}
    environment.tests |= {"moment": lambda value: isinstance(value, datetime)}
    return environment


def _segment(text: str) -> str:
    """Any text as one part of a path."""
    from urllib.parse import quote

    return quote(text, safe="", errors="surrogatepass")


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
