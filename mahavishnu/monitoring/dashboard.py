"""Three views of the whole, counted by the store: letters by reason, lifecycle tasks by state, the archive by month."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from mahavishnu.archive.partitions import Partitions, require_home
from mahavishnu.archive.records import ArchivePartition, PartitionState
from mahavishnu.engine.context import QueueContext
from mahavishnu.letters.reads import ReasonLines, count_by_reason
from mahavishnu.model.query import Between, Is, Missing, Query, Sort
from mahavishnu.stores.base import Cell, Tally
from mahavishnu.stores.scoped import SCOPED_FIELDS, NamespaceRecords
from mahavishnu.tasks.records import TASKS
from mahavishnu.tasks.task import OPEN, TaskRecord, TaskState

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
_TASK_FIELDS = frozenset({"namespace", "queue"})
MOST_NAMED = 10  # tasks that a state names
_MINUTE = timedelta(minutes=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STILL_THERE = Missing("restored_at")  # a letter that was taken out of the archive leaves its copy there


class DashboardLines(list[dict[str, Any]]):
    """The lines of a view; `degraded` explains why numbers may be wrong, and is None for the whole truth."""

    degraded: str | None = None


class Dashboard:
    """The views of one namespace, or of all."""

    def __init__(self, context: QueueContext) -> None:
        self._context = context

    async def dlq(self) -> ReasonLines:
        """Count the letters of each reason, most first, as `get_statistics_by_reason` does. Raises StoreError."""
        await self._context.open()
        return await count_by_reason(self._context.letters)

    async def staleness(self) -> DashboardLines:
        """Count the open lifecycle tasks in each state; the one with most tasks of over an hour first.

        Each line names the tasks that are in the state longest. Raises StoreError.

        >>> (await dlq.dashboard.staleness())[0]["stale_over_1h"]  # doctest: +SKIP
        17
        """
        context = self._context
        await context.open()
        tasks = context.records(TASKS)
        now, is_open = context.clock.now(), Is("state", OPEN)
        whole, hour, day = await asyncio.gather(
            tasks.tally(Query((is_open,)), ["state"], sums=["entered_second"], spans=["state_entered_at"]),
            tasks.tally(Query((is_open, Between("state_entered_at", below=now - HOUR))), ["state"]),
            tasks.tally(Query((is_open, Between("state_entered_at", below=now - DAY))), ["state"]),
        )
        states = [TaskState(values[0]) for values, cell in whole.cells.items() if cell.count]
        found = await asyncio.gather(
            *(tasks.find(Query((Is("state", (state,)),), (Sort("state_entered_at"),), MOST_NAMED)) for state in states)
        )
        longest = {state: page.items for state, page in zip(states, found, strict=True)}
        lines = DashboardLines(state_lines(now, whole, hour, day, longest))
        reasons = [*(tally.degraded for tally in (whole, hour, day)), *(page.degraded for page in found)]
        lines.degraded = next(filter(None, reasons), None)
        return lines

    async def archive(self) -> DashboardLines:
        """Count each month of the archive, the latest first; `archive_size` are the bytes of its documents.

        A month whose partition is detached is not known: its numbers are None, and `degraded` names the partition.
        Raises StoreUnavailable while the store that all processes share is away, and StoreError.
        """
        context = self._context
        await context.open()
        places = Partitions(require_home(context), context.clock)
        partitions = await places.every()
        there = [each for each in partitions if each.state is PartitionState.ATTACHED]
        # A copy of a task does not name its adapter.
        all_adapters = context.scope is None or context.scope.adapters is None
        with_tasks = [each for each in there if each.has_tasks and all_adapters]
        own = context.namespace
        tallies = await asyncio.gather(
            *(
                NamespaceRecords(places.letters(each.name), own, False, context.scope, SCOPED_FIELDS).tally(
                    Query((_STILL_THERE,)), sums=["former_count", "document_bytes"]
                )
                for each in there
            ),
            *(
                NamespaceRecords(places.tasks(each.name), own, False, context.scope, _TASK_FIELDS).tally(
                    Query(), sums=["document_bytes"]
                )
                for each in with_tasks
            ),
        )
        totals = [tally.total for tally in tallies]
        letters = {each.name: cell for each, cell in zip(there, totals[: len(there)], strict=True)}
        tasks = {each.name: cell for each, cell in zip(with_tasks, totals[len(there) :], strict=True)}
        lines = DashboardLines(month_lines(partitions, letters, tasks))
        lines.degraded = _why_incomplete(partitions, tallies)
        return lines


def state_lines(
    now: datetime, whole: Tally, hour: Tally, day: Tally, longest: Mapping[TaskState, Sequence[TaskRecord]]
) -> list[dict[str, Any]]:
    """Return a line for each state, from tallies of all open tasks, of those over an hour and of those over a day."""
    over_hour, over_day = hour.by(0), day.by(0)
    lines = []
    for state, tasks in longest.items():
        cell = whole.cells[state.value,]
        began = cell.earliest.get("state_entered_at", now)
        middle = _EPOCH + timedelta(seconds=cell.sums["entered_second"] / cell.count)
        lines.append(
            {
                "current_state": state.value,
                "task_count": cell.count,
                "avg_minutes_in_state": round(max(now - middle, timedelta()) / _MINUTE, 1),
                "max_minutes_in_state": round(max(now - began, timedelta()) / _MINUTE, 1),
                "stale_over_1h": over_hour.get(state.value, Cell()).count,
                "stale_over_1day": over_day.get(state.value, Cell()).count,
                "top_stale_tasks": [task.task_id for task in tasks],
            }
        )
    return sorted(lines, key=lambda line: (-line["stale_over_1h"], -line["task_count"], line["current_state"]))


def month_lines(
    partitions: Iterable[ArchivePartition], letters: Mapping[str, Cell], tasks: Mapping[str, Cell]
) -> list[dict[str, Any]]:
    """Return a line for each month, the latest first, from the numbers of attached partitions."""
    months: dict[str, list[str]] = defaultdict(list)
    for each in partitions:
        months[each.month] += [each.name] if each.name in letters else []
    lines = []
    for month, names in sorted(months.items(), reverse=True):
        of_letters = [letters[name] for name in names]
        of_tasks = [tasks[name] for name in names if name in tasks]
        numbers = {
            "tasks_archived": sum(cell.count for cell in of_letters),
            "steps_archived": sum(cell.sums.get("former_count", 0) for cell in of_letters),
            "lifecycle_tasks_archived": sum(cell.count for cell in of_tasks),
            "archive_size": sum(cell.sums.get("document_bytes", 0) for cell in (*of_letters, *of_tasks)),
        }
        lines.append({"month": month, **(numbers if names else dict.fromkeys(numbers))})
    return lines


def _why_incomplete(partitions: Iterable[ArchivePartition], tallies: Iterable[Tally]) -> str | None:
    detached = [each.name for each in partitions if each.state is PartitionState.DETACHED]
    if detached:
        names = f"{', '.join(detached[:MOST_NAMED])}{' and others' if len(detached) > MOST_NAMED else ''}"
        return f"what is in detached partitions is not counted: {names}"
    return next((tally.degraded for tally in tallies if tally.degraded), None)
