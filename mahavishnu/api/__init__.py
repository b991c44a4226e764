"""The HTTP API: `create_app(dlq)` is an ASGI app, alone or mounted in another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mahavishnu.http.auth import Access, Actor, Role

if TYPE_CHECKING:
    from mahavishnu.api.app import create_app

__all__ = ["Access", "Actor", "Role", "create_app"]


def __getattr__(name: str) -> Any:
    if name != "create_app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mahavishnu.api.app import create_app  # with FastAPI: not for a command that calls a route in its own process

    return create_app
