"""Problems as pages: a browser's request gets the same answer as a program's, to be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.console.console import Console
from mahavishnu.console.frame import local_path, root_from
from mahavishnu.http.auth import local_target
from mahavishnu.http.middleware import Scope

_HEADLINES = {
    403: "You may not do that",
    404: "There is no such thing here",
    405: "That is no page to open",
    409: "It was not done",
    412: "It was not done: somebody changed it meanwhile",
    422: "It was not done: something in it is not right",
    503: "The store cannot answer now",
}


@dataclass(frozen=True, slots=True)
class ProblemView:
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
