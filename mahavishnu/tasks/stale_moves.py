"""Moves stale tasks: to `error` by one write, and into a letter by another; `HandOver.finish` adds missing letters."""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from mahavishnu.capture.intake import LetterIntake
from mahavishnu.engine.context import QueueContext
from mahavishnu.model.errors import MahavishnuError, StoreError
from mahavishnu.model.events import Event, EventName, log_event
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import Query
from mahavishnu.stores.base import CURRENT, Collection, Cursor, update_many_with_retry
from mahavishnu.tasks import rules as task_moves
from mahavishnu.tasks.handover import MARK, make_stale_letter
from mahavishnu.tasks.rules import ReasonRules
from mahavishnu.tasks.staleness_rules import (
    DETECTOR,
    Staleness,
    StalenessOutcome,
    StalenessPlan,
    StalenessRules,
    StaleRow,
    describe_stale,
    in_minutes,
    outcome_of,
    overdue_in,
    plan_for,
    stale_detail,
)
from mahavishnu.tasks.task import OldTransition, TaskRecord, old_transitions

if TYPE_CHECKING:
    from mahavishnu.tasks.service import Lifecycle


log = logging.getLogger(__name__)
Judge = Callable[[TaskRecord], Staleness | None]
PAGE = 500  # tasks of one query that are in memory
_AT_ONCE = 16  # queries
_TRIES = 20


@dataclass(frozen=True, slots=True)
class StaleTask:
    """A task as it was read, with its staleness."""

    task: TaskRecord
    stale: Staleness

    def row(self, action: StalenessOutcome, *, moved: bool = False, ended: bool = False) -> StaleRow:
        """Return the row that reports this task."""
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
    """The results of one query, the most overdue first; `next` is where its next page begins, or None."""

    query: Query
    read: deque[StaleTask] = field(default_factory=deque)
    next: Cursor | None = None


async def search_stale(
    tasks: Collection[TaskRecord], queries: Iterable[Query], judge: Judge
) -> AsyncGenerator[StaleTask, None]:
    """Yield each stale task of these queries once, the most overdue first.

    No more is read than the caller asks for, except for a page of each query. Raises StoreError.
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
    """Read the next pages of the query, up to one with a task that has exceeded its limit."""
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


class StaleMoves:
    """Moves stale tasks of one namespace."""

    def __init__(self, context: QueueContext, lifecycle: Lifecycle) -> None:
        self._context, self._lifecycle, self._intake = context, lifecycle, LetterIntake(context)

    def plan(self, each: StaleTask, rules: StalenessRules) -> StalenessPlan:
        """Return what is to be done with the task."""
        plan = plan_for(rules, each.task.template)
        return plan if self._context.rules(ReasonRules).keeps(each.stale.reason) else plan.without_letter()

    async def move(self, found: Sequence[StaleTask], rules: StalenessRules, decide: Judge) -> dict[str, StaleRow]:
        """Move these tasks, or copy them into letters; `decide` judges each again when it is written."""
        ending = [each for each in found if self.plan(each, rules).to_error]
        rows = await self._move(ending, rules, decide) if ending else {}
        for each in found:
            if each.task.task_id not in rows:
                rows[each.task.task_id] = await self._copy_to_letter(each)
        return rows

    async def _copy_to_letter(self, each: StaleTask) -> StaleRow:
        """Make a letter of a task that goes on."""
        now, detail = self._context.clock.now(), self._detail(each)
        letter = make_stale_letter(
            self._context, each.task, str(each.task.state), each.stale.reason, detail, now, goes_on=True
        )
        try:
            await self._intake.record(letter)
        except MahavishnuError as problem:
            return self._report_failure(each, problem)
        self.tell(each, StalenessOutcome.MOVED_TO_DLQ_ONLY)
        return each.row(StalenessOutcome.MOVED_TO_DLQ_ONLY, moved=True)

    def _report_failure(self, each: StaleTask, problem: BaseException) -> StaleRow:
        self._context.counts["staleness_errors"] += 1
        extra = log_event("staleness.failed", task_id=each.task.task_id)
        log.warning("stale task %s could not be moved: %s", each.task.task_id, problem, extra=extra)
        return each.row(StalenessOutcome.TRANSITION_FAILED)

    def _detail(self, each: StaleTask) -> dict[str, Any]:
        task, stale = each.task, each.stale
        detail = {**stale_detail(task, stale), "by": DETECTOR, "original_state": str(task.state)}
        return {**detail, "notes": describe_stale(task, stale)}

    def tell(self, each: StaleTask, action: StalenessOutcome) -> None:
        """Announce a stale task."""
        self._context.counts["stale_tasks_detected"] += 1
        row: dict[str, Any] = {**each.row(action), "template": each.task.template, "reason": str(each.stale.reason)}
        self._context.events.publish(Event(EventName.TASK_STALE, self._context.clock.now(), None, row))

    # --- to `error`, and to a letter

    async def _move(self, moving: Sequence[StaleTask], rules: StalenessRules, decide: Judge) -> dict[str, StaleRow]:
        finds, turns = {each.task.task_id: each for each in moving}, Counter[str]()

        async def end_again(_: TaskRecord, now: TaskRecord | None) -> TaskRecord | None:
            if now is None or (stale := decide(now)) is None:  # it went on, or another process was quicker
                return None
            turns[now.task_id] += 1
            if turns[now.task_id] == _TRIES:  # other processes keep changing it: a conflict, not an error
                return None
            finds[now.task_id] = StaleTask(now, stale)
            return (await self._end([finds[now.task_id]], rules))[0]

        outcomes = await update_many_with_retry(
            self._lifecycle.tasks, await self._end(moving, rules), end_again, what="task"
        )
        rows: dict[str, StaleRow] = {}
        ended: list[tuple[StaleTask, TaskRecord]] = []
        for task_id, outcome in zip([each.task.task_id for each in moving], outcomes, strict=True):
            each = finds[task_id]
            if isinstance(outcome, TaskRecord):
                ended.append((each, outcome))
                if (tell := self._context.on_task_written) is not None:
                    tell(each.task.transition_count, outcome)
            elif outcome is None:
                rows[task_id] = each.row(StalenessOutcome.SKIPPED_CONFLICT)
            else:
                rows[task_id] = self._report_failure(each, outcome)
        return rows | await self._make_letters(ended, rules)

    async def _end(self, moving: Sequence[StaleTask], rules: StalenessRules) -> list[TaskRecord]:
        """Return the tasks moved to `error`, after storing the transitions that they have no room for any more."""
        now, owner = self._context.clock.now(), self._context.owner
        ended: list[TaskRecord] = []
        aside: list[OldTransition] = []
        for each in moving:
            task, stale = each.task, each.stale
            mark = {MARK: str(stale.reason)} if self.plan(each, rules).to_letter else {}
            detail = {**mark, **self._detail(each)}
            after = task_moves.hand_over(
                task, now=now, reason=str(stale.reason), error=detail["notes"], metadata=detail, processor=owner
            )
            after, old = old_transitions(after)
            ended.append(after)
            aside.extend(old)
        for written in await self._lifecycle.old_transitions.write(aside) if aside else ():
            if isinstance(written, StoreError):
                raise written
        return ended

    async def _make_letters(
        self, ended: Sequence[tuple[StaleTask, TaskRecord]], rules: StalenessRules
    ) -> dict[str, StaleRow]:
        rows: dict[str, StaleRow] = {}
        going: list[tuple[StaleTask, DeadLetter]] = []
        for each, task in ended:
            if not self.plan(each, rules).to_letter:
                rows[task.task_id] = self._report_end(each, False)
                continue
            try:
                going.append((each, self._letter_of(each, task)))
            except MahavishnuError as problem:
                log.warning("stale task %s has no letter yet: %s", task.task_id, problem)
                rows[task.task_id] = self._report_end(each, False)
        letters = [letter for _, letter in going]
        try:
            stored = await self._intake.record_many(letters) if letters else []
        except StoreError:
            stored = [None] * len(letters)  # each by itself
        for (each, letter), result in zip(going, stored, strict=True):
            if isinstance(result, DeadLetter):
                self._intake.announce_captured(result)
            rows[each.task.task_id] = self._report_end(
                each, isinstance(result, DeadLetter) or await self._record(each, letter)
            )
        return rows

    def _letter_of(self, each: StaleTask, task: TaskRecord) -> DeadLetter:
        last = task.transitions[-1]
        detail = last.metadata.value if last.metadata is not None else {}
        return make_stale_letter(self._context, task, last.from_state, each.stale.reason, detail, last.at)

    async def _record(self, each: StaleTask, letter: DeadLetter) -> bool:
        """Record one letter alone: it may exist already, have no room, or be refused by the store."""
        try:
            await self._intake.record(letter)
        except MahavishnuError as problem:  # finished later
            log.warning("stale task %s has no letter yet: %s", each.task.task_id, problem)
            return False
        return True

    def _report_end(self, each: StaleTask, moved: bool) -> StaleRow:
        action = outcome_of(moved, True)
        self._context.counts["stale_tasks_transitioned"] += 1
        self.tell(each, action)
        return each.row(action, moved=moved, ended=True)
