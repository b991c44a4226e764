"""The search for stale tasks: those first that are overdue longest, page after page, as far as somebody asks."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass, field, replace

from mahavishnu.model.query import Query
from mahavishnu.model.stale_queries import overdue_in
from mahavishnu.model.staleness import Staleness, StalenessOutcome, StaleRow, in_minutes
from mahavishnu.model.tasks import TaskRecord
from mahavishnu.stores.base import CURRENT, Collection, Cursor

Judge = Callable[[TaskRecord], Staleness | None]
PAGE = 500  # tasks of one query that are in memory
_AT_ONCE = 16  # queries


@dataclass(frozen=True, slots=True)
class StaleTask:
    """A task as it was read, and how it is stale."""

    task: TaskRecord
    stale: Staleness

    def row(self, action: StalenessOutcome, *, moved: bool = False, ended: bool = False) -> StaleRow:
        """What is said of it."""
        return StaleRow(
            task_uuid=self.task.task_id,
            namespace_name=self.task.namespace,
            task_name=self.task.name,
            current_state=str(self.task.state),
            time_in_state_minutes=in_minutes(self.stale.in_state),
            staleness_threshold_minutes=self.stale.threshold_minutes,
            action_taken=str(action),
            moved_to_dlq=moved,
            transition_success=ended,
        )


@dataclass(slots=True)
class _Stream:
    """What one query finds, the most overdue first; `next` is where its next page begins, None after the last one."""

    query: Query
    read: deque[StaleTask] = field(default_factory=deque)
    next: Cursor | None = None


async def search_stale(
    tasks: Collection[TaskRecord], queries: Iterable[Query], judge: Judge
) -> AsyncGenerator[StaleTask, None]:
    """The tasks that these queries find and that `judge` finds stale, each once, the most overdue first.

    What is not asked for is not read, except for a page of each query. Raises StoreError.
    """
    streams = [_Stream(query) for query in queries]
    for first in range(0, len(streams), _AT_ONCE):
        await asyncio.gather(*(_read(tasks, each, judge) for each in streams[first : first + _AT_ONCE]))
    heads = [_head(stream, place) for place, stream in enumerate(streams) if stream.read]
    heapq.heapify(heads)
    told: set[str] = set()
    while heads:
        place = heads[0][-1]
        stream = streams[place]
        found = stream.read.popleft()
        if not stream.read and stream.next is not None:
            await _read(tasks, stream, judge)
        if stream.read:
            heapq.heapreplace(heads, _head(stream, place))
        else:
            heapq.heappop(heads)
        if found.task.task_id not in told:
            told.add(found.task.task_id)
            yield found


def _head(stream: _Stream, place: int) -> tuple[float, str, int]:
    first = stream.read[0]
    return -overdue_in(first.stale, stream.query).total_seconds(), first.task.task_id, place


async def _read(tasks: Collection[TaskRecord], stream: _Stream, judge: Judge) -> None:
    """The next pages of the query, up to one with a task that has exceeded its limit."""
    while True:
        page = await tasks.find(stream.query, stream.next)
        for task in page.items:
            stale = judge(task)
            if stale is not None and overdue_in(stale, stream.query).total_seconds() > 0:
                stream.read.append(StaleTask(task, stale))
        # Each page may be of now: tasks that were moved meanwhile are not found again.
        stream.next = page.next and (page.next if page.next.snapshot else replace(page.next, snapshot=CURRENT))
        if stream.read or stream.next is None:
            return
