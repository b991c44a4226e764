"""The HTTP API: `create_app(dlq)` is an ASGI app, alone or mounted in another one."""

from __future__ import annotations

from mahavishnu.api.app import create_app
from mahavishnu.api.auth import Access, Actor, Role

__all__ = ["Access", "Actor", "Role", "create_app"]
