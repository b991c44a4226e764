"""The page of workers: their state, letters and adapters, and letters that none of them can run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.console.console import PageQueue, console_of, show
from mahavishnu.console.frame import Link, Number, NumberIn
from mahavishnu.console.recent_reads import Recent, read_or_none
from mahavishnu.engine.queue import LetterQueue
from mahavishnu.http.auth import Viewer
from mahavishnu.http.routing import Router
from mahavishnu.workers.rules import WaitingLetters
from mahavishnu.workers.service import WorkerList, Workers

router = Router(tag="worker_page", documented=False)


def count_workers(workers: Recent[WorkerList | None]) -> Number | None:
    """Count the live workers, or else lost workers that still hold letters, which need attention."""
    if (found := workers.value) is None:
        return None
    lost = sum(each.live is False and each.held > 0 for each in found)
    return Number(lost or sum(each.live is True for each in found), wanted=lost > 0, least=found.degraded is not None)


@dataclass(frozen=True, slots=True)
class WorkersView:
    """The workers, and letters that wait because none of them can run them; None for what is not known now."""

    workers: WorkerList | None
    waiting: Sequence[WaitingLetters] | None

    @property
    def live(self) -> int:
        return sum(each.live is True for each in self.workers or ())

    @property
    def held(self) -> int:
        return sum(each.held for each in self.workers or ())


@router.get("/workers")
async def workers_page(request: Request, dlq: PageQueue, actor: Viewer) -> Response:
    """Show the workers, and letters that wait for a missing one."""
    found = await console_of(request).read(request, dlq, _read)
    return await show(request, "workers.html", found.value, recent=found)


async def _read(dlq: LetterQueue) -> WorkersView:
    return WorkersView(
        *await asyncio.gather(read_or_none(dlq.service(Workers).list()), read_or_none(dlq.service(Workers).waiting()))
    )


async def read_workers(dlq: LetterQueue) -> WorkerList | None:
    """Read the workers for the start page and the navigation."""
    return await read_or_none(dlq.service(Workers).list())


LINKS = (Link("workers", "Workers", "Where", 8, key="w", number=NumberIn(read_workers, count_workers)),)
