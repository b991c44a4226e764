"""Paths below `/ns/<namespace>/`: the same pages and routes, for another namespace of the store.

So the address says which namespace is meant: two tabs can show two of them, and a form acts where it was shown. A page
that is asked for with `?namespace=`, as links in alerts are, is led there.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlencode

from starlette.responses import Response

from mahavishnu.api.browser_requests import wants_page
from mahavishnu.api.middleware import App, Receive, Scope, Send

_PREFIX = re.compile(r"/ns/(?!\.{1,2}/)([\w.-]{1,200})/", re.ASCII)  # browsers resolve dots


def namespace_prefix(namespace: str) -> str | None:
    """What stands before the paths of a namespace, without slashes around it; None where no path can name it.

    >>> namespace_prefix("eu"), namespace_prefix("a b")
    ('ns/eu', None)
    """
    return f"ns/{namespace}" if _PREFIX.fullmatch(f"/ns/{namespace}/") else None


class NamespacePaths:
    """The outermost layer: it takes the prefix for a part of where the server is mounted, and notes the namespace."""

    def __init__(self, app: App, *, home: str) -> None:
        """`home` is the namespace that the server is for."""
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
        """Where the pages of the namespace are that the query names; None where it names none that a path can."""
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
