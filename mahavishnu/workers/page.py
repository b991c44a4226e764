"""The page of workers: their state, letters and adapters, letters that none of them can run, and limits of adapters."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.console.console import PageQueue, console_of, show
from mahavishnu.console.forms import FormFields
from mahavishnu.console.frame import Link, Number, NumberIn, Said
from mahavishnu.console.recent_reads import Recent, read_or_none
from mahavishnu.engine.queue import LetterQueue
from mahavishnu.http.auth import Viewer, acting_name
from mahavishnu.http.routing import Router
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.record import Value
from mahavishnu.workers.routes import Limiter
from mahavishnu.workers.rules import AdapterLimit, WaitingLetters
from mahavishnu.workers.service import AdapterLimits, WorkerList, Workers

router = Router(tag="worker_page", documented=False)


def count_workers(workers: Recent[WorkerList | None]) -> Number | None:
    """Count the live workers, or else lost workers that still hold letters, which need attention."""
    if (found := workers.value) is None:
        return None
    lost = sum(each.live is False and each.held > 0 for each in found)
    return Number(lost or sum(each.live is True for each in found), wanted=lost > 0, least=found.degraded is not None)


class WorkersView(Value, frozen=True):
    """The workers, letters that wait because none of them can run them, and limits; None for what is not known now."""

    workers: WorkerList | None
    waiting: Sequence[WaitingLetters] | None
    limits: Sequence[AdapterLimit] | None

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


@router.post("/workers/limits")
async def limit(request: Request, dlq: PageQueue, actor: Limiter, form: FormFields) -> Response:
    """Limit an adapter, or return to what its application declares."""
    adapter, by = form.text("adapter").strip(), acting_name(actor, None)
    service = dlq.service(AdapterLimits)
    if form.text("reset"):
        await service.reset(adapter, by=by)
        return console_of(request).go(request, "workers", Said(f"The limit of {adapter} is reset."))
    most = form.optional("concurrency")
    if most is not None and not most.isdecimal():
        raise InvalidInput(f"concurrency must be a whole number, not {most!r:.80}")
    await service.limit(adapter, by=by, concurrency=None if most is None else int(most), rate=form.optional("rate"))
    return console_of(request).go(request, "workers", Said(f"The limit of {adapter} is set."))


async def _read(dlq: LetterQueue) -> WorkersView:
    return WorkersView(
        *await asyncio.gather(
            read_or_none(dlq.service(Workers).list()),
            read_or_none(dlq.service(Workers).waiting()),
            read_or_none(dlq.service(AdapterLimits).list()),
        )
    )


async def read_workers(dlq: LetterQueue) -> WorkerList | None:
    """Read the workers for the start page and the navigation."""
    return await read_or_none(dlq.service(Workers).list())


LINKS = (Link("workers", "Workers", "Where", 8, key="w", number=NumberIn(read_workers, count_workers)),)
