"""The namespaces of the store: which are there, and the way to each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.console.console import console_of, show
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.http.auth import OwnQueue, Viewer
from mahavishnu.http.middleware import namespace_prefix
from mahavishnu.http.routing import Router
from mahavishnu.search.service import NamespaceCount

router = Router(tag="namespace_pages", documented=False)


@dataclass(frozen=True, slots=True)
class NamespacesView:
    """The namespaces; `home` is the one that the server is for."""

    namespaces: Sequence[NamespaceCount]
    home: str

    def place(self, name: str) -> str | None:
        """Where its pages are, from those of the server's own; None where no address can name it."""
        prefix = namespace_prefix(name)
        return "" if name == self.home else prefix and f"{prefix}/"


@router.get("/namespaces")
async def namespaces_page(request: Request, dlq: OwnQueue, actor: Viewer) -> Response:
    """All that are seen, with how many letters are open."""
    console = console_of(request)
    found = await console.read(request, dlq, _read)
    return await show(request, "namespaces.html", NamespacesView(found.value, console.namespace), recent=found)


async def _read(dlq: DeadLetterQueue) -> Sequence[NamespaceCount]:
    return await dlq.search.namespaces()
