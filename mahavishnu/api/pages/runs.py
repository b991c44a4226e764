"""The list of bulk runs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.api.auth import OwnQueue, Viewer
from mahavishnu.api.pages.console import console_of, show
from mahavishnu.api.pages.frame import Link, Number
from mahavishnu.api.routes.runs import RunQuery
from mahavishnu.api.routing import Query, Router
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model.bulk_run import ACTIVE, BulkRun, RunState
from mahavishnu.stores.base import Page

MOST_COUNTED = 50
router = Router(tag="run_pages", documented=False)


async def count_runs(dlq: DeadLetterQueue) -> Number | None:
    """How many runs have halted or are paused, and wait for somebody; or else how many are under way."""
    stopped = await _count(dlq, RunState.HALTED, RunState.PAUSED)
    under_way = await _count(dlq, *ACTIVE)
    if stopped:
        return Number(stopped, wanted=True, least=stopped >= MOST_COUNTED)
    return Number(under_way, least=under_way >= MOST_COUNTED) if under_way else None


async def _count(dlq: DeadLetterQueue, *states: RunState) -> int:
    pages = await asyncio.gather(*(dlq.runs.list(state, limit=MOST_COUNTED) for state in states))
    return sum(len(page.items) for page in pages)


LINK = Link("runs", "Runs", "Now", first=True, key="r", number=count_runs)


@dataclass(frozen=True, slots=True)
class RunsView:
    """One page of runs, as they were asked for."""

    page: Page[BulkRun]
    params: RunQuery

    @property
    def next(self) -> str:
        """Where the next page is."""
        given = {"state": self.params.state, "limit": self.params.limit, "cursor": self.page.next}
        return f"runs?{urlencode({name: value for name, value in given.items() if value is not None})}"


@router.get("/runs")
async def runs_page(request: Request, dlq: OwnQueue, actor: Viewer, params: Annotated[RunQuery, Query()]) -> Response:
    """Bulk runs, newest first."""
    chosen = dlq.in_namespace(params.namespace or dlq.namespace)

    async def read() -> RunsView:
        return RunsView(await chosen.runs.list(params.state, limit=params.limit, after=params.cursor), params)

    found = await console_of(request).share(request, chosen, "runs", read, params.model_dump_json())
    return await show(request, "runs.html", found.value, recent=found)
