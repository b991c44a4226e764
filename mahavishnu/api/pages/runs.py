"""The list of bulk runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.api.pages.overview import read_runs
from mahavishnu.api.routes.runs import RunQuery
from mahavishnu.console.console import console_of, show
from mahavishnu.console.frame import Link, Number, NumberIn
from mahavishnu.console.recent_reads import Recent
from mahavishnu.http.auth import OwnQueue, Viewer
from mahavishnu.http.routing import Query, Router
from mahavishnu.model.bulk_run import ACTIVE, BulkRun
from mahavishnu.stores.base import Page

router = Router(tag="run_pages", documented=False)


def count_runs(runs: Recent[Page[BulkRun] | None]) -> Number | None:
    """Count the runs that have halted or are paused, which need attention; or else those under way."""
    if (page := runs.value) is None or not page.items:
        return None
    under_way, least = sum(run.state in ACTIVE for run in page.items), page.next is not None
    stopped = len(page.items) - under_way
    return Number(stopped, wanted=True, least=least) if stopped else Number(under_way, least=least)


LINK = Link("runs", "Runs", "Now", first=True, key="r", number=NumberIn(read_runs, count_runs))


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
