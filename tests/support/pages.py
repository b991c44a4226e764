"""What tests of pages share: reading one, and a store that is away."""

from __future__ import annotations

from typing import Any

from mahavishnu.model.errors import StoreUnavailable
from tests.support.api import ApiHarness, bearer

HTML = {"Accept": "text/html"}
EVIL = "<script>alert(1)</script>"


async def read(api: ApiHarness, path: str, role: str | None = None, status: int = 200) -> str:
    """The text of a page."""
    shown = await api.client.get(path, headers={**HTML, **(bearer(role) if role else {})})
    assert shown.status_code == status, shown.text
    return shown.text


async def away(*_: Any, **__: Any) -> Any:
    """In the place of a method that asks a store."""
    raise StoreUnavailable("nobody answers")


def require_inert(page: str) -> None:
    """What strangers wrote is on the page, as text."""
    assert "&lt;script&gt;" in page and "<script>alert" not in page
