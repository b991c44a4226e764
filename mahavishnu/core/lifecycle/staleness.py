"""Finds lifecycle tasks that hang, and hands them over: to letters, to `error`, or to a person.

What is found is decided again on the record that is written, by compare-and-set: whoever is quicker wins, and what
went on is left alone. The task goes to `error` by one write, and gets its letter by another; `HandOver.finish` makes
the letters that were never made.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict

from mahavishnu.core.lifecycle.handover import MARK
from mahavishnu.core.lifecycle.stale_letters import make_stale_letter
from mahavishnu.core.lifecycle.templates import TemplateFiles
from mahavishnu.core.queue.workers import Workers
from mahavishnu.engine.context import QueueContext
from mahavishnu.engine.intake import LetterIntake
from mahavishnu.model import task_moves
from mahavishnu.model.errors import InvalidInput, MahavishnuError, NoSuchTask, StoreError
from mahavishnu.model.events import Event, EventName
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DlqReason
from mahavishnu.model.query import Query
from mahavishnu.model.staleness import (
    DETECTOR,
    FLAGGED,
    WARNED,
    Pause,
    SignWatch,
    Staleness,
    StalenessOutcome,
    StalenessRules,
    describe_stale,
    in_minutes,
    judge,
    lives,
    outcome_of,
    plan_for,
    signs,
    stale_detail,
    stale_queries,
)
from mahavishnu.model.task_states import ACTIVE, TaskState
from mahavishnu.model.tasks import OldTransition, TaskRecord, old_transitions
from mahavishnu.stores.base import get_one
from mahavishnu.stores.kinds import WORKERS
from mahavishnu.stores.source_kinds import STALENESS

if TYPE_CHECKING:
    from mahavishnu.core.lifecycle.service import Lifecycle

log = logging.getLogger(__name__)
Judge = Callable[[TaskRecord], Staleness | None]
_MOST = 10_000  # that one page may have
_AT_ONCE = 16  # queries
_TRIES = 20
_WARNED_AT_ONCE = 1000


class StaleRow(TypedDict):
    """A stale task, and what became of it."""

    task_uuid: str
    namespace_name: str
    task_name: str
    current_state: str
    time_in_state_minutes: int
    staleness_threshold_minutes: int
    action_taken: str
    moved_to_dlq: bool
    transition_success: bool


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


class StaleTasks:
    """Looks for stale tasks of one namespace, and moves them."""

    def __init__(self, context: QueueContext, lifecycle: Lifecycle, *, spares_runs: bool = False) -> None:
        self._context, self._lifecycle, self._spares_runs = context, lifecycle, spares_runs
        self._intake, self._files, self._signs = LetterIntake(context), TemplateFiles(), SignWatch()

    @property
    def rules(self) -> StalenessRules:
        """The rules of the settings, with all templates as they are now."""
        return self._files.rules(self._context.staleness)

    async def pauses(self) -> tuple[Pause, ...]:
        """When nobody looked, so that nobody could go on with a task."""
        await self._context.open()
        watch = await get_one(self._context.store.collection(STALENESS), self._context.namespace)
        return watch.pauses if watch is not None else ()

    async def detect(
        self, dry_run: bool = True, batch_size: int = 100, *, answered: Iterable[str] = ()
    ) -> list[StaleRow]:
        """The stale tasks, those first that are overdue longest, and what became of each; see `Lifecycle`.

        Not those that were `answered` for before.
        """
        if type(batch_size) is not int or not 1 <= batch_size <= _MOST:
            raise InvalidInput(f"batch_size must be a whole number from 1 to {_MOST}, not {batch_size!r:.80}")
        await self._context.open()
        rules, pauses = self.rules, await self.pauses()
        decide = partial(self._judge, rules, pauses)
        found = await self._find(rules, decide, batch_size, frozenset(answered))
        if found and any(each.task.state not in ACTIVE for each in found) and not await self._is_worked():
            decide = partial(self._judge, rules, pauses, worked=False)
            found = [StaleTask(each.task, decide(each.task) or each.stale) for each in found]
        if not dry_run:
            found = [each for each in found if not self._is_known(each.task, rules) and not self._may_live(each.task)]
        return await self.answer(found, rules, decide, dry_run)

    def _is_known(self, task: TaskRecord, rules: StalenessRules) -> bool:
        """Whether a person was told of it already, and nothing else is to be done."""
        return task.attention == FLAGGED and self._is_left_alone(task, rules)

    def _may_live(self, task: TaskRecord) -> bool:
        """Whether a run that gives signs has not been seen silent for long enough, whatever its clock says."""
        if not self._spares_runs or not signs(task) or lives(task, self._context.clock.now()):
            return False
        return not self._signs.is_over(task, self._context.clock.monotonic())

    def _is_left_alone(self, task: TaskRecord, rules: StalenessRules) -> bool:
        runs = self._spares_runs and task.run is not None and task.state in ACTIVE and not signs(task)
        return runs or plan_for(rules, task.template).review or lives(task, self._context.clock.now())

    def _judge(
        self, rules: StalenessRules, pauses: Sequence[Pause], task: TaskRecord, *, worked: bool = True
    ) -> Staleness | None:
        stale = judge(task, rules, self._context.clock.now(), pauses)
        if stale is None or worked or task.state in ACTIVE or stale.reason is not DlqReason.STALENESS_TIMEOUT:
            return stale
        return replace(stale, reason=DlqReason.WORKER_UNAVAILABLE)

    async def _is_worked(self) -> bool:
        """Whether there may be a worker for what waits: one lives, or none has ever been seen here."""
        try:
            signed = await self._context.own_records(WORKERS).find(Query(limit=1))
            return not signed.items or any(worker.live is not False for worker in await Workers(self._context).list())
        except StoreError:
            return True

    async def _find(
        self, rules: StalenessRules, decide: Judge, limit: int, answered: frozenset[str]
    ) -> list[StaleTask]:
        queries = list(stale_queries(rules, self._context.clock.now(), min(limit + len(answered), _MOST)))
        found: dict[str, StaleTask] = {}
        for first in range(0, len(queries), _AT_ONCE):
            for tasks in await asyncio.gather(*map(self._read, queries[first : first + _AT_ONCE])):
                for task in tasks:
                    if task.task_id not in answered and (stale := decide(task)) is not None:
                        found[task.task_id] = StaleTask(task, stale)
        return sorted(found.values(), key=lambda each: (each.stale.overdue, each.task.task_id), reverse=True)[:limit]

    async def _read(self, query: Query) -> Sequence[TaskRecord]:
        return (await self._lifecycle.tasks.find(query)).items

    # --- what becomes of them

    async def answer(
        self, found: Sequence[StaleTask], rules: StalenessRules, decide: Judge, dry_run: bool
    ) -> list[StaleRow]:
        """Do what is to be done about these tasks; `decide` says whether one still is stale when it is written."""
        letters = await self._lifecycle.handover.find_letters([each.task for each in found])
        rows: dict[str, StaleRow] = {}
        moving: list[StaleTask] = []
        for each, letter in zip(found, letters, strict=True):
            plan = plan_for(rules, each.task.template)
            if letter is not None and letter.is_open:
                rows[each.task.task_id] = each.row(StalenessOutcome.ALREADY_IN_DLQ)
            elif self._is_left_alone(each.task, rules):
                rows[each.task.task_id] = await self._flag(each, decide, dry_run)
            elif dry_run:
                rows[each.task.task_id] = each.row(StalenessOutcome.WOULD_TRANSITION)
            elif plan.to_error:
                moving.append(each)
            else:
                rows[each.task.task_id] = await self._copy_to_letter(each)
        if moving:
            rows |= await self._move(moving, rules, decide)
        return [rows[each.task.task_id] for each in found]

    async def _flag(self, each: StaleTask, decide: Judge, dry_run: bool) -> StaleRow:
        """A person has to look; told once for each state."""
        if not dry_run and each.task.attention != FLAGGED:
            flagged = await self.mark(each.task, FLAGGED, lambda task: decide(task) is not None)
            if flagged is None:
                return each.row(StalenessOutcome.SKIPPED_CONFLICT)
            self._tell(EventName.TASK_STALE, each, StalenessOutcome.FLAGGED_FOR_MANUAL_REVIEW)
            log.warning("%s: a person has to look at task %s", describe_stale(each.task, each.stale), each.task.task_id)
        return each.row(StalenessOutcome.FLAGGED_FOR_MANUAL_REVIEW)

    async def warn(self) -> int:
        """Tell of tasks that will soon be stale, once for each task and state; returns of how many."""
        rules, pauses, now = self.rules, await self.pauses(), self._context.clock.now()
        told: set[str] = set()
        for query in stale_queries(rules, now, _WARNED_AT_ONCE, share=rules.warn_ratio, untold=True):
            for task in await self._read(query):
                if judge(task, rules, now, pauses) is not None:
                    continue  # it is stale already
                soon = judge(task, rules, now, pauses, rules.warn_ratio)
                if soon is None or task.task_id in told:
                    continue
                state = task.state
                if await self.mark(task, WARNED, partial(_is_in, state)) is not None:
                    told.add(task.task_id)
                    detail = {"task_uuid": task.task_id, "task_name": task.name, "current_state": str(state)}
                    self._context.events.publish(Event(EventName.TASK_STALE_SOON, now, None, detail))
                    log.warning("task %s will soon be stale: it is %s", task.task_id, state)
        return len(told)

    async def mark(self, task: TaskRecord, attention: str, still: Callable[[TaskRecord], bool]) -> TaskRecord | None:
        """Note what is told of a task; None if it is `still` no case, or somebody else has told it."""
        marked: list[TaskRecord] = []

        def note(current: TaskRecord) -> TaskRecord:
            marked.clear()
            if current.attention == attention or not still(current):
                return current
            marked.append(replace(current, attention=attention))
            return marked[0]

        try:
            after = await self._lifecycle.change(task.task_id, note, known=task)
        except NoSuchTask:
            return None
        return after if marked else None

    async def _copy_to_letter(self, each: StaleTask) -> StaleRow:
        """A letter of a task that goes on."""
        now, detail = self._context.clock.now(), self._detail(each)
        letter = make_stale_letter(
            self._context, each.task, str(each.task.state), each.stale.reason, detail, now, goes_on=True
        )
        try:
            await self._intake.record(letter)
        except MahavishnuError as problem:
            return self._failed(each, problem)
        self._tell(EventName.TASK_STALE, each, StalenessOutcome.MOVED_TO_DLQ_ONLY)
        return each.row(StalenessOutcome.MOVED_TO_DLQ_ONLY, moved=True)

    def _failed(self, each: StaleTask, problem: BaseException) -> StaleRow:
        self._context.counts["staleness_errors"] += 1
        log.warning("stale task %s could not be moved: %s", each.task.task_id, problem)
        return each.row(StalenessOutcome.TRANSITION_FAILED)

    def _detail(self, each: StaleTask) -> dict[str, Any]:
        task, stale = each.task, each.stale
        detail = {**stale_detail(task, stale), "by": DETECTOR, "original_state": str(task.state)}
        return {**detail, "notes": describe_stale(task, stale)}

    def _tell(self, name: EventName, each: StaleTask, action: StalenessOutcome) -> None:
        self._context.counts["stale_tasks_detected"] += 1
        row: dict[str, Any] = {**each.row(action), "template": each.task.template, "reason": str(each.stale.reason)}
        self._context.events.publish(Event(name, self._context.clock.now(), None, row))

    # --- to `error`, and to a letter

    async def _move(self, moving: Sequence[StaleTask], rules: StalenessRules, decide: Judge) -> dict[str, StaleRow]:
        rows: dict[str, StaleRow] = {}
        ended: list[tuple[StaleTask, TaskRecord]] = []
        left = moving
        for _ in range(_TRIES):
            lost: list[StaleTask] = []
            for each, result in zip(left, await self._write(left, rules), strict=True):
                if isinstance(result, StoreError):
                    rows[each.task.task_id] = self._failed(each, result)
                elif result is None:
                    lost.append(each)
                else:
                    ended.append((each, result))
                    if (tell := self._context.on_task_written) is not None:
                        tell(each.task.transition_count, result)
            if not lost:
                break
            left = await self._still_stale(lost, decide, rows)
        for each in left if lost else ():
            rows[each.task.task_id] = each.row(StalenessOutcome.SKIPPED_CONFLICT)
        return rows | await self._make_letters(ended, rules)

    async def _still_stale(
        self, lost: Sequence[StaleTask], decide: Judge, rows: dict[str, StaleRow]
    ) -> list[StaleTask]:
        """Those that are stale still, as they are now; the others went on, or somebody else was quicker."""
        again: list[StaleTask] = []
        for each, now in zip(lost, await self._lifecycle.tasks.get([each.task.task_id for each in lost]), strict=True):
            if isinstance(now, StoreError):
                rows[each.task.task_id] = self._failed(each, now)
            elif now is not None and (stale := decide(now)) is not None:
                again.append(StaleTask(now, stale))
            else:
                rows[each.task.task_id] = each.row(StalenessOutcome.SKIPPED_CONFLICT)
        return again

    async def _write(self, moving: Sequence[StaleTask], rules: StalenessRules) -> list[TaskRecord | StoreError | None]:
        now, owner = self._context.clock.now(), self._context.owner
        changed: list[TaskRecord] = []
        aside: list[OldTransition] = []
        for each in moving:
            task, stale = each.task, each.stale
            mark = {MARK: str(stale.reason)} if plan_for(rules, task.template).to_letter else {}
            detail = {**mark, **self._detail(each)}
            moved = task_moves.hand_over(
                task, now=now, reason=str(stale.reason), error=detail["notes"], metadata=detail, processor=owner
            )
            kept, old = old_transitions(moved)
            changed.append(kept)
            aside.extend(old)
        if aside:
            for failed in await self._lifecycle.old_transitions.write(aside):
                if isinstance(failed, StoreError):
                    raise failed
        return await self._lifecycle.tasks.write(changed)

    async def _make_letters(
        self, ended: Sequence[tuple[StaleTask, TaskRecord]], rules: StalenessRules
    ) -> dict[str, StaleRow]:
        rows: dict[str, StaleRow] = {}
        going: list[tuple[StaleTask, DeadLetter]] = []
        for each, task in ended:
            if not plan_for(rules, task.template).to_letter:
                rows[task.task_id] = self._ended(each, False)
                continue
            try:
                going.append((each, self._letter_of(each, task)))
            except MahavishnuError as problem:
                log.warning("stale task %s has no letter yet: %s", task.task_id, problem)
                rows[task.task_id] = self._ended(each, False)
        letters = [letter for _, letter in going]
        try:
            stored = await self._intake.record_many(letters) if letters else []
        except StoreError:
            stored = [None] * len(letters)  # each by itself
        for (each, letter), result in zip(going, stored, strict=True):
            if isinstance(result, DeadLetter):
                self._intake.announce_captured(result)
            rows[each.task.task_id] = self._ended(
                each, isinstance(result, DeadLetter) or await self._record(each, letter)
            )
        return rows

    def _letter_of(self, each: StaleTask, task: TaskRecord) -> DeadLetter:
        last = task.transitions[-1]
        detail = last.metadata.value if last.metadata is not None else {}
        return make_stale_letter(self._context, task, last.from_state, each.stale.reason, detail, last.at)

    async def _record(self, each: StaleTask, letter: DeadLetter) -> bool:
        """One letter by itself: there is one already, or no room, or the store did not take it."""
        try:
            await self._intake.record(letter)
        except MahavishnuError as problem:  # finished later
            log.warning("stale task %s has no letter yet: %s", each.task.task_id, problem)
            return False
        return True

    def _ended(self, each: StaleTask, moved: bool) -> StaleRow:
        action = outcome_of(moved, True)
        self._context.counts["stale_tasks_transitioned"] += 1
        self._tell(EventName.TASK_STALE, each, action)
        return each.row(action, moved=moved, ended=True)


def _is_in(state: TaskState, task: TaskRecord) -> bool:
    return task.state is state
