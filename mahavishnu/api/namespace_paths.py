"""Paths below `/ns/<namespace>/`: the same pages and routes, for another namespace of the store.

So the address says which namespace is meant: two tabs can show two of them, and a form acts where it was shown.
"""

from __future__ import annotations

import re

from mahavishnu.api.middleware import App, Receive, Scope, Send

_PREFIX = re.compile(r"/ns/([\w.-]{1,200})/", re.ASCII)


def namespace_prefix(namespace: str) -> str | None:
    """What stands before the paths of a namespace, without slashes around it; None where no path can name it.

    >>> namespace_prefix("eu"), namespace_prefix("a b")
    ('ns/eu', None)
    """
    return f"ns/{namespace}" if _PREFIX.fullmatch(f"/ns/{namespace}/") else None


class NamespacePaths:
    """The outermost layer: it takes the prefix for a part of where the server is mounted, and notes the namespace."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            mount: str = scope.get("root_path", "")
            found = _PREFIX.match(scope["path"].removeprefix(mount))
            raw: bytes = scope.get("raw_path") or scope["path"].encode()
            if found is not None and found[0].encode() in raw:  # an escaped slash ends no name
                scope = {**scope, "root_path": mount + found[0][:-1], "namespace": found[1]}
        await self._app(scope, receive, send)
