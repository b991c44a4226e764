"""Files that pages load: one style sheet and two scripts, from the package itself."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.http.responses import problem
from mahavishnu.http.routing import Router

FOREVER, ASK_AGAIN = "public, max-age=31536000, immutable", "no-cache"
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
_FOLDER = "static"
router = Router(tag="static", documented=False)


@dataclass(frozen=True, slots=True)
class StaticFile:
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
