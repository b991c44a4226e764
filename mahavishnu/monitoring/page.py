"""The overview: groups that need a person now, and the state of everything else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.bulk.page import read_runs
from mahavishnu.bulk.run import BulkRun, RunState
from mahavishnu.console.console import console_of, show
from mahavishnu.console.frame import FirstFix, Link
from mahavishnu.console.recent_reads import read_or_none
from mahavishnu.console.words import plural
from mahavishnu.engine.queue import LetterQueue
from mahavishnu.groups.page import needs_of, read_groups
from mahavishnu.groups.rules import Attention, GroupPage, GroupPriority, GroupView
from mahavishnu.http.routing import Router
from mahavishnu.model.errors import NoSuchQueue
from mahavishnu.model.record import Value
from mahavishnu.monitoring.statistics import Trend, Trends
from mahavishnu.queues.rules import QueueKind
from mahavishnu.queues.service import NamedQueues
from mahavishnu.tasks.page import read_stale
from mahavishnu.tasks.staleness_rules import StaleRow
from mahavishnu.workers.page import read_workers
from mahavishnu.workers.service import WorkerReport

LINKS = (Link("", "Overview", "Now", 1, first=True, key="o"),)
router = Router(tag="overview", documented=False)  # its path is that of the start page, which decides who gets it
T = TypeVar("T")
MOST_NEEDS, MOST_STALE, MOST_RUNS, MOST_QUEUES = 8, 5, 3, 5
MOST_COUNTED = 20  # queues whose items are counted


class QueueLine(Value, frozen=True):
    """A named queue: its open and dead items, and its oldest wait; items of a queue `for_dead` died elsewhere."""

    name: str
    open: int
    dead: int
    for_dead: bool = False
    oldest: datetime | None = None


class QueueLines(Value, frozen=True):
    """The most notable of `total` queues, those with dead items first."""

    lines: Sequence[QueueLine]
    total: int


class OverviewView(Value, frozen=True):
    """The known facts of the overview; None for what is not known now."""

    groups: GroupPage | None
    needs: Sequence[GroupPriority]
    numbers: Mapping[str, Any] | None
    workers: Sequence[WorkerReport] | None
    runs: Sequence[BulkRun] | None
    stale: Sequence[StaleRow] | None
    trend: Trend | None
    queues: QueueLines | None = None
    guide: Guide | None = None

    @property
    def headline(self) -> str:
        """The most important fact about groups."""
        if self.groups is None:
            return "What needs somebody is not known now"
        needed, given = self.how_many(Attention.NEEDED), self.how_many(Attention.HANDLED)
        looked_after = f"{given} {'is' if given == 1 else 'are'} looked after"
        if needed:
            whole = f"{plural(needed, 'group')} {'needs' if needed == 1 else 'need'} somebody"
            return f"{whole}, {looked_after}" if given else whole
        if given:
            return f"Nothing new: {plural(given, 'group')} {'is' if given == 1 else 'are'} looked after"
        return "Nothing needs anybody" if self.groups.items else "No letters: nothing has failed, or nothing is caught"

    def how_many(self, attention: Attention) -> int:
        """Count the groups that need so much attention."""
        return sum(need.attention is attention for need in self.needs)

    @property
    def busiest(self) -> int:
        """The most letters that any hour has on one side of the chart."""
        hours = self.trend.hours if self.trend else ()
        return max((max(hour.arrived, hour.completed + hour.exhausted) for hour in hours), default=0)

    def in_all(self, name: str) -> int:
        """Return the sum of one number over all hours."""
        return sum(getattr(hour, name) for hour in self.trend.hours) if self.trend else 0

    @property
    def by_themselves(self) -> int:
        """The number of open letters with a date for an automatic run."""
        if self.groups is None or self.numbers is None:
            return 0
        rest: int = self.numbers["queue_size"] - self.groups.for_people - self.numbers["status_breakdown"]["retrying"]
        return max(0, rest)

    @property
    def shown(self) -> Sequence[GroupPriority]:
        return self.needs[:MOST_NEEDS]


async def show_overview(request: Request, dlq: LetterQueue) -> Response:
    """Show the start page."""
    await dlq.open()
    console = console_of(request)
    groups, workers, runs, stale, others = await asyncio.gather(
        console.read(request, dlq, read_groups),
        console.read(request, dlq, read_workers),
        console.read(request, dlq, read_runs),
        console.read(request, dlq, read_stale),
        console.read(request, dlq, _read_others),
    )
    view = replace(
        others.value,
        groups=groups.value,
        needs=groups.derive(needs_of),
        workers=workers.value,
        runs=None if runs.value is None else runs.value.items[:MOST_RUNS],
        stale=None if stale.value is None else stale.value[:MOST_STALE],
    )
    if console.first_fix is not None and view.groups is not None and dlq.namespace == console.namespace:
        view = replace(view, guide=guide_to(console.first_fix, view.groups.items, view.runs or ()))
    recent = groups.beside(workers, runs, stale, others)
    return await show(request, "overview.html", view, recent=recent)


async def _read_others(dlq: LetterQueue) -> OverviewView:
    """Read what only the start page shows."""
    numbers, trend, queues = await asyncio.gather(
        read_or_none(dlq.get_statistics()), read_or_none(dlq.service(Trends).by_hour()), read_or_none(_queues(dlq))
    )
    return OverviewView(None, (), numbers, None, None, None, trend, queues)


async def _queues(dlq: LetterQueue) -> QueueLines:
    here = [each for each in await dlq.service(NamedQueues).list() if each.kind is not QueueKind.EXTERNAL]
    targets = {each.dead_queue for each in here}
    lines = (_queue_line(dlq, each.name, for_dead=each.name in targets) for each in here[:MOST_COUNTED])
    found = [line for line in await asyncio.gather(*lines) if line]
    shown = sorted(found, key=lambda line: (-line.dead, -line.open, line.name))[:MOST_QUEUES]
    return QueueLines(await asyncio.gather(*(_with_oldest(dlq, line) for line in shown)), len(here))


async def _queue_line(dlq: LetterQueue, name: str, *, for_dead: bool) -> QueueLine | None:
    """Return the numbers of a queue; None if it has been deleted meanwhile."""
    try:
        numbers = await dlq.service(NamedQueues).numbers(name)
    except NoSuchQueue:
        return None
    whole = numbers["queue_size"]
    return QueueLine(name, whole, whole if for_dead else numbers["status_breakdown"]["exhausted"], for_dead)


async def _with_oldest(dlq: LetterQueue, line: QueueLine) -> QueueLine:
    try:
        first = (await dlq.service(NamedQueues).items(line.name, limit=1)).items if line.open else ()
    except NoSuchQueue:  # deleted meanwhile
        first = ()
    return replace(line, oldest=first[0].created_at if first else None)


class Guide(Value, frozen=True):
    """The progress of a first fix. `group` is None when no letter of the cause is open any more."""

    fix: FirstFix
    group: GroupView | None
    run: BulkRun | None

    @property
    def halted(self) -> bool:
        """True if the change that was tried was not the right one."""
        return self.run is not None and self.run.state is RunState.HALTED


def guide_to(fix: FirstFix, groups: Iterable[GroupView], runs: Sequence[BulkRun]) -> Guide:
    """Return the progress of this fix, from the open groups and the active runs, newest first."""
    group = next((each for each in groups if each.count and fix.cause in (each.title or "")), None)
    return Guide(fix, group, runs[0] if runs and group is not None else None)
