"""The HTTP API for programs that serve it: the documented path of `create_app` and of its access control."""

from __future__ import annotations

from mahavishnu.core.api import create_app
from mahavishnu.http.auth import Access

__all__ = ["Access", "create_app"]
