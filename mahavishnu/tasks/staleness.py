"""Finds lifecycle tasks that hang, and has them handed over: to letters, to `error`, or to a person.

Each stale task is judged again on the record that is written, by compare-and-set: the quicker process wins, and a task
that went on is left alone. A stale task goes to `error` by one write, and into a letter by another; `HandOver.finish`
adds missing letters.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections import Counter, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from msgspec import Struct, field

from mahavishnu.capture.capture import LetterIntake
from mahavishnu.engine.context import QueueContext
from mahavishnu.model.errors import InvalidInput, MahavishnuError, NoSuchTask, StoreError, require_answers
from mahavishnu.model.events import Event, EventName, log_event
from mahavishnu.model.json_value import MOST_NODES, is_too_large
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DlqReason
from mahavishnu.model.query import Query
from mahavishnu.model.record import Value
from mahavishnu.stores.base import CURRENT, Collection, Cursor, get_one, update_many_with_retry
from mahavishnu.tasks import rules as task_moves
from mahavishnu.tasks.handover import make_stale_letter
from mahavishnu.tasks.letters import has_its_letter
from mahavishnu.tasks.records import STALENESS
from mahavishnu.tasks.rules import ReasonRules
from mahavishnu.tasks.staleness_rules import (
    DETECTOR,
    FLAGGED,
    WARNED,
    Pause,
    SignWatch,
    Staleness,
    StalenessOutcome,
    StalenessPlan,
    StalenessRules,
    StaleRow,
    describe_stale,
    in_minutes,
    judge,
    lives,
    overdue_in,
    plan_for,
    signs,
    stale_detail,
    stale_queries,
)
from mahavishnu.tasks.task import ACTIVE, CLOSE, MARK, OldTransition, TaskRecord, evolve, old_transitions
from mahavishnu.tasks.templates import LifecycleLimits, read_templates
from mahavishnu.tasks.tracking import is_under_way_beside
from mahavishnu.workers.records import WORKERS
from mahavishnu.workers.service import Workers

if TYPE_CHECKING:
    from mahavishnu.tasks.service import Lifecycle

log = logging.getLogger(__name__)
Judge = Callable[[TaskRecord], Staleness | None]
PAGE = 500  # tasks of one query that are in memory
_MOST = 10_000  # that one look by hand may answer for
_WARNED_AT_ONCE = 1000
_QUERIES_AT_ONCE = 16
_TRIES = 20
_Stamp = tuple[int, int]  # when a file was changed, and how long it is


class StaleTask(Value, frozen=True):
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


class _Look(Struct):
    """The basis of one look. `worked`: whether there may be a worker for waiting tasks, once that was asked."""

    rules: StalenessRules
    pauses: Sequence[Pause]
    worked: bool | None = None

    def judge(self, now: datetime, task: TaskRecord) -> Staleness | None:
        """Return the staleness of a task; None if it is not stale."""
        stale = judge(task, self.rules, now, self.pauses)
        if stale is None or self.worked is not False or task.state in ACTIVE:
            return stale
        is_explained = stale.reason is not DlqReason.STALENESS_TIMEOUT
        return stale if is_explained else replace(stale, reason=DlqReason.WORKER_UNAVAILABLE)


class _Batch(Value, frozen=True):
    """Stale tasks to act on, and some of those so far that need no action."""

    found: Sequence[StaleTask]
    idle: Sequence[tuple[StaleTask, StaleRow]]


class StaleTasks:
    """Looks for stale tasks of one namespace, and has them moved."""

    def __init__(self, context: QueueContext, lifecycle: Lifecycle, *, spares_runs: bool = False) -> None:
        self._context, self._lifecycle, self._spares_runs = context, lifecycle, spares_runs
        self._files, self._signs, self._moves = TemplateFiles(), SignWatch(), StaleMoves(context, lifecycle)

    @property
    def rules(self) -> StalenessRules:
        """The rules of the settings, with all templates as they are now."""
        return self._files.rules(self._context.rules(StalenessRules))

    async def pauses(self) -> tuple[Pause, ...]:
        """Return the times in which no worker looked, so that no task could go on."""
        await self._context.open()
        watch = await get_one(self._context.store.collection(STALENESS), self._context.namespace)
        return watch.pauses if watch is not None else ()

    async def detect(self, dry_run: bool = True, batch_size: int = 100) -> list[StaleRow]:
        """Return stale tasks, most overdue first, and what became of each; idle ones take no place. See `Lifecycle`."""
        if type(batch_size) is not int or not 1 <= batch_size <= _MOST:
            raise InvalidInput(f"batch_size must be a whole number from 1 to {_MOST}, not {batch_size!r:.80}")
        look = await self._begin_look()
        async with aclosing(self._find(look, batch_size, dry_run)) as batches:
            async for batch in batches:
                found = zip(batch.found, await self._answer(batch.found, look, dry_run), strict=True)
                rows = [*found, *batch.idle[: batch_size - len(batch.found)]]
                return [row for _, row in sorted(rows, key=lambda each: each[0].stale.overdue, reverse=True)]
        return []

    async def detect_all(self, dry_run: bool, batch_size: int, batches: int) -> AsyncIterator[list[StaleRow]]:
        """Yield batch after batch of stale tasks that need action, with what became of them."""
        look = await self._begin_look()
        async with aclosing(self._find(look, batch_size, dry_run)) as found:
            async for batch in found:
                if batch.found:
                    yield await self._answer(batch.found, look, dry_run)
                if (batches := batches - 1) == 0:
                    return

    async def _begin_look(self) -> _Look:
        await self._context.open()
        await self._lifecycle.tracking.signs.write()  # what this process knows of its own runs
        return _Look(self.rules, await self.pauses())

    async def _find(self, look: _Look, size: int, dry_run: bool) -> AsyncGenerator[_Batch, None]:
        """Yield batches of so many stale tasks, and the rest."""
        now = self._context.clock.now()
        queries = stale_queries(look.rules, now, min(size, PAGE))
        found: list[StaleTask] = []
        idle: list[tuple[StaleTask, StaleRow]] = []
        async with aclosing(search_stale(self._lifecycle.tasks, queries, partial(look.judge, now))) as stale_tasks:
            read: list[StaleTask] = []
            async for stale in stale_tasks:
                read.append(stale)
                if len(found) + len(read) == size:
                    await self._sort(read, look, dry_run, found, idle)
                    read = []
                if len(found) == size:
                    yield _Batch(found, idle)
                    found = []
            await self._sort(read, look, dry_run, found, idle)
        if found or idle:
            yield _Batch(found, idle)

    async def _sort(
        self,
        read: Sequence[StaleTask],
        look: _Look,
        dry_run: bool,
        found: list[StaleTask],
        idle: list[tuple[StaleTask, StaleRow]],
    ) -> None:
        """Sort these tasks into `found` ones and `idle` ones, which need no action."""
        if look.worked is None and any(each.task.state not in ACTIVE for each in read):
            look.worked = await self._is_worked()
        now = self._context.clock.now()
        letters = await self._lifecycle.handover.find_letters([each.task for each in read])
        for known, letter in zip(read, letters, strict=True):
            each = StaleTask(known.task, look.judge(now, known.task) or known.stale)
            if has_its_letter(each.task, letter):
                row = each.row(StalenessOutcome.ALREADY_IN_DLQ)
            else:
                is_left_alone = self._is_left_alone(each, look.rules)
                if not self._may_live(each.task) and not (is_left_alone and each.task.attention == FLAGGED):
                    found.append(each)
                    continue
                if not dry_run:
                    continue
                flag, move = StalenessOutcome.FLAGGED_FOR_MANUAL_REVIEW, StalenessOutcome.WOULD_TRANSITION
                row = each.row(flag if is_left_alone else move)
            if len(idle) < _MOST:
                idle.append((each, row))

    def _may_live(self, task: TaskRecord) -> bool:
        """Return whether a run that gives signs has not been seen silent for long enough, whatever its clock says."""
        if is_under_way_beside(task):
            return True
        if not self._spares_runs or not signs(task) or lives(task, self._context.clock.now()):
            return False
        return not self._signs.is_over(task, self._context.clock.monotonic())

    def _is_left_alone(self, each: StaleTask, rules: StalenessRules) -> bool:
        task = each.task
        runs = self._spares_runs and task.run is not None and task.state in ACTIVE and not signs(task)
        is_alive = lives(task, self._context.clock.now()) or is_under_way_beside(task)
        return runs or self._moves.plan(each, rules).review or is_alive

    async def _is_worked(self) -> bool:
        """Return whether there may be a worker for waiting tasks: one lives, or none has ever been seen here."""
        try:
            signed = await self._context.own_records(WORKERS).find(Query(limit=1))
            return not signed.items or any(worker.live is not False for worker in await Workers(self._context).list())
        except StoreError:
            return True

    # --- what becomes of them

    async def _answer(self, found: Sequence[StaleTask], look: _Look, dry_run: bool) -> list[StaleRow]:
        """Act on these tasks, each if it is stale still when it is written."""

        def decide(task: TaskRecord) -> Staleness | None:
            return look.judge(self._context.clock.now(), task)

        def decide_move(task: TaskRecord) -> Staleness | None:
            stale = decide(task)
            return None if stale is None or self._is_left_alone(StaleTask(task, stale), look.rules) else stale

        rows: dict[str, StaleRow] = {}
        moving: list[StaleTask] = []
        for each in found:
            if self._is_left_alone(each, look.rules):
                rows[each.task.task_id] = await self._flag(each, decide, dry_run)
            elif dry_run:
                rows[each.task.task_id] = each.row(StalenessOutcome.WOULD_TRANSITION)
            else:
                moving.append(each)
        rows |= await self._moves.move(moving, look.rules, decide_move)
        return [rows[each.task.task_id] for each in found]

    async def _flag(self, each: StaleTask, decide: Judge, dry_run: bool) -> StaleRow:
        """Flag a task for a person, once for each state."""
        if not dry_run and each.task.attention != FLAGGED:
            flagged = await self.mark(each.task, FLAGGED, lambda task: decide(task) is not None)
            if flagged is None:
                return each.row(StalenessOutcome.SKIPPED_CONFLICT)
            self._moves.tell(each, StalenessOutcome.FLAGGED_FOR_MANUAL_REVIEW)
            log.warning("%s: a person has to look at task %s", describe_stale(each.task, each.stale), each.task.task_id)
        return each.row(StalenessOutcome.FLAGGED_FOR_MANUAL_REVIEW)

    async def warn(self) -> int:
        """Warn of tasks that will soon be stale, once for each task and state; return how many."""
        rules, pauses, now = self.rules, await self.pauses(), self._context.clock.now()
        told: set[str] = set()
        for query in stale_queries(rules, now, _WARNED_AT_ONCE, share=rules.warn_ratio, untold=True):
            for task in (await self._lifecycle.tasks.find(query)).items:
                if judge(task, rules, now, pauses) is not None:
                    continue  # it is stale already
                soon = judge(task, rules, now, pauses, rules.warn_ratio)
                if soon is None or task.task_id in told:
                    continue
                if await self.mark(task, WARNED) is not None:
                    told.add(task.task_id)
                    detail = {"task_uuid": task.task_id, "task_name": task.name, "current_state": str(task.state)}
                    self._context.events.publish(Event(EventName.TASK_STALE_SOON, now, None, detail))
                    log.warning("task %s will soon be stale: it is %s", task.task_id, task.state)
        return len(told)

    async def mark(
        self, task: TaskRecord, attention: str, still: Callable[[TaskRecord], bool] | None = None
    ) -> TaskRecord | None:
        """Note the attention that a task got; None if it is noted already, or no case any more (see `still`)."""
        marked: list[TaskRecord] = []

        def note(current: TaskRecord) -> TaskRecord:
            marked.clear()
            is_case = current.state is task.state if still is None else still(current)
            if current.attention == attention or not is_case:
                return current
            marked.append(replace(current, attention=attention))
            return marked[0]

        try:
            after = await self._lifecycle.change(task.task_id, note, known=task)
        except NoSuchTask:
            return None
        return after if marked else None


class StaleMoves:
    """Moves stale tasks of one namespace."""

    def __init__(self, context: QueueContext, lifecycle: Lifecycle) -> None:
        self._context, self._lifecycle, self._intake = context, lifecycle, LetterIntake(context)

    def plan(self, each: StaleTask, rules: StalenessRules) -> StalenessPlan:
        """Return what is to be done with the task."""
        plan = plan_for(rules, each.task.template)
        return plan if self._context.rules(ReasonRules).keeps(each.stale.reason) else replace(plan, to_letter=False)

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
            await self._lifecycle.change(each.task.task_id, lambda task: evolve(task, owes=CLOSE), known=each.task)
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
        require_answers(await self._lifecycle.old_transitions.write(aside) if aside else ())
        return ended

    async def _make_letters(
        self, ended: Sequence[tuple[StaleTask, TaskRecord]], rules: StalenessRules
    ) -> dict[str, StaleRow]:
        rows: dict[str, StaleRow] = {}
        going: list[tuple[StaleTask, DeadLetter]] = []
        settled: list[TaskRecord] = []
        for each, task in ended:
            if not self.plan(each, rules).to_letter:
                rows[task.task_id] = self._report_end(each, False)
                continue
            last = task.transitions[-1]
            detail = last.metadata.value if last.metadata is not None else {}
            try:
                letter = make_stale_letter(self._context, task, last.from_state, each.stale.reason, detail, last.at)
                going.append((each, letter))
                settled.append(task)
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
            is_made = isinstance(result, DeadLetter) or await self._record(each, letter)
            rows[each.task.task_id] = self._report_end(each, is_made)
        made = [task for task in settled if rows[task.task_id]["moved_to_dlq"]]
        await self._lifecycle.handover.settle(made)
        return rows

    async def _record(self, each: StaleTask, letter: DeadLetter) -> bool:
        """Record one letter alone: it may exist already, have no room, or be refused by the store."""
        try:
            await self._intake.record(letter)
        except MahavishnuError as problem:  # finished later
            log.warning("stale task %s has no letter yet: %s", each.task.task_id, problem)
            return False
        return True

    def _report_end(self, each: StaleTask, moved: bool) -> StaleRow:
        action = StalenessOutcome.TRANSITIONED if moved else StalenessOutcome.TRANSITIONED_TO_ERROR_ONLY
        self._context.counts["stale_tasks_transitioned"] += 1
        self.tell(each, action)
        return each.row(action, moved=moved, ended=True)


class _Stream(Struct):
    """The results of one query, the most overdue first; `next` is where its next page begins, or None."""

    query: Query
    read: deque[StaleTask] = field(default_factory=deque)
    next: Cursor | None = None


async def search_stale(
    tasks: Collection[TaskRecord], queries: Iterable[Query], judge: Judge
) -> AsyncGenerator[StaleTask, None]:
    """Yield each stale task once, the most overdue first, reading a page of each query. Raises StoreError."""
    streams = [_Stream(query) for query in queries]
    for first in range(0, len(streams), _QUERIES_AT_ONCE):
        await asyncio.gather(*(_read(tasks, each, judge) for each in streams[first : first + _QUERIES_AT_ONCE]))
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


class TemplateFiles:
    """Templates in a directory, one per YAML file. A file that becomes unusable counts as it was before."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[_Stamp, Mapping[str, LifecycleLimits]]] = {}

    def rules(self, rules: StalenessRules) -> StalenessRules:
        """Return the rules with the templates of their directory."""
        if rules.templates_directory is None:
            return rules
        return replace(rules, templates={**rules.templates, **self.read(Path(rules.templates_directory))})

    def read(self, directory: Path) -> dict[str, LifecycleLimits]:
        """Return the limits of each template in the directory by its name, else by its file's name."""
        try:
            paths = sorted(path for path in directory.iterdir() if path.suffix in (".yaml", ".yml"))
        except OSError as problem:
            log.warning("the templates in %s cannot be read: %s", directory, problem.strerror)
            paths = list(self._known)
        self._known = {path: known for path, known in self._known.items() if path in paths}
        for path in paths:
            self._look_at(path)
        return {name: limits for _, found in self._known.values() for name, limits in found.items()}

    def _look_at(self, path: Path) -> None:
        try:
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            before = self._known.get(path)
            if before is not None and before[0] == stamp:
                return
            self._known[path] = (stamp, before[1] if before is not None else {})
            found = _read_file(path)
        except (OSError, InvalidInput) as problem:
            log.error("the template in %s cannot be used, and counts as it was before: %s", path, problem)
            return
        for name, limits in found.items():
            for warning in limits.warnings(name):
                log.warning("%s", warning)
        self._known[path] = (stamp, found)


def _read_file(path: Path) -> Mapping[str, LifecycleLimits]:
    try:
        loader = yaml.SafeLoader(path.read_text(encoding="utf-8"))
        node = loader.get_single_node()
        if node is not None and is_too_large(node):
            raise InvalidInput(f"it means more than {MOST_NODES} values, by its aliases")
        template: Any = None if node is None else loader.construct_document(node)
    except (yaml.YAMLError, ValueError, RecursionError) as problem:
        raise InvalidInput(f"it is not valid YAML: {problem}") from None
    name = template.get("name") if isinstance(template, Mapping) else None
    return read_templates({name if isinstance(name, str) and name else path.stem: template})
