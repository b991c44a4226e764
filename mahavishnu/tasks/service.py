"""`app.lifecycle`: create, read and move lifecycle tasks; each move is one compare-and-set of one record."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, overload

from msgspec.structs import replace

from mahavishnu.classify.exceptions import error_text
from mahavishnu.engine.context import DEFAULT_ACTOR, QueueContext
from mahavishnu.engine.moves import scan_readable
from mahavishnu.model.errors import ChangedMeanwhile, IllegalMove, MahavishnuError, NoSuchTask, require_answers
from mahavishnu.model.ids import new_entry_id
from mahavishnu.model.json_value import EMPTY, Json
from mahavishnu.model.letter_parts import DlqReason
from mahavishnu.model.permissions import HIDDEN
from mahavishnu.model.query import ALL_NAMESPACES, Between, Condition, Is, Query, Sort, require_namespace
from mahavishnu.stores.base import UNREAD, Collection, Cursor, Page, get_one, scan, write_one, write_with_retry
from mahavishnu.tasks import rules as task_moves
from mahavishnu.tasks.letters import binding_of, in_clear
from mahavishnu.tasks.records import TASKS, TRANSITIONS
from mahavishnu.tasks.rules import ReasonRules
from mahavishnu.tasks.run import StepOptions
from mahavishnu.tasks.staleness_rules import StaleRow
from mahavishnu.tasks.task import (
    INITIAL,
    OPEN,
    WAITING,
    OldTransition,
    StepRecord,
    StepState,
    TaskRecord,
    TaskState,
    as_old_transition,
    evolve,
    new_task,
    old_transitions,
    read_state,
    read_states,
    retry_delay,
    step_readiness,
)
from mahavishnu.values.payload import LetterRequest

if TYPE_CHECKING:
    from mahavishnu.tasks.handover import HandedOver, HandOver
    from mahavishnu.tasks.staleness import StaleTasks
    from mahavishnu.tasks.tracking import Tracking

P = ParamSpec("P")
T = TypeVar("T")
log = logging.getLogger(__name__)
_USUAL = StepOptions()
FRESH = timedelta(hours=24)  # what has waited longer than this is no ready work any more, but a case for staleness
_LISTED = 50
_REMEMBERED = 1000
_MOST_URGENT_FIRST = (Sort("priority", descending=True), Sort("state_entered_at"))


class Lifecycle:
    """Lifecycle tasks of one namespace."""

    def __init__(self, context: QueueContext) -> None:
        self._context, self._clock = context, context.clock
        self.tasks: Collection[TaskRecord] = context.records(TASKS)
        self.moved = 0  # how many changes were written here
        self._given: dict[str, Json] = {}  # contexts that were masked, of tasks made here: errors may quote them
        self.late_reports = 0  # of steps, that came too late or twice
        self.old_transitions: Collection[OldTransition] = context.store.collection(TRANSITIONS)

    @cached_property
    def tracking(self) -> Tracking:
        """The beginning of tracked runs."""
        from mahavishnu.tasks.tracking import Tracking

        return Tracking(self._context, self)

    @cached_property
    def handover(self) -> HandOver:
        """The way of tasks to letters, and back."""
        from mahavishnu.tasks.handover import HandOver

        whole = self if self._context.principal is None else Lifecycle(self._context.whole)
        return HandOver(whole._context, whole)  # who may report a step need not be allowed what follows from it

    @cached_property
    def staleness(self) -> StaleTasks:
        """The search for stale tasks."""
        from mahavishnu.tasks.staleness import StaleTasks

        return StaleTasks(self._context, self)

    # --- steps of the workflow that is running

    @overload
    async def step(self, name: str, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    @overload
    async def step(self, name: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    async def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run a part of a tracked workflow once: a retry gets its result, and does not run it again.

        Each step of a workflow has a name of its own. A sync function gets a thread. Outside of a tracked workflow it
        is a plain call. Raises what the function raises, and StepExhausted if it has failed for good.
        """
        return await _USUAL.step(name, function, *args, **kwargs)

    def with_options(
        self, *, max_attempts: int | None = None, retryable: bool = True, seconds: float | None = None
    ) -> StepOptions:
        """Return a `step` with limits of runs and of seconds each; run once unless `retryable`. Raises InvalidInput."""
        return StepOptions(max_attempts, retryable, seconds)

    # --- making and looking

    async def create(
        self,
        name: str,
        context: Any = None,
        *,
        template: str | None = None,
        template_version: str = "1",
        priority: int = 0,
        steps: Sequence[StepRecord] = (),
        unique: bool = True,
    ) -> TaskRecord:
        """Create a task in one write; an equal submission gets the task that exists already.

        Submissions with the same name, version and context are equal. `unique` False makes another task each time.
        Raises InvalidInput for steps that wait for one another, or for one that is missing.
        """
        await self._context.open()
        now, factory = self._clock.now(), self._context.letter_factory
        task = new_task(
            name,
            now=now,
            namespace=require_namespace(self._context.namespace),
            task_id=None if unique else new_entry_id(now),
            context=EMPTY if context is None else factory.json_of(context, "context"),
            template=template,
            template_version=template_version,
            priority=priority,
            steps=steps,
            identity=None if context is None else factory.identity_of(Json.of(context, "context")),
        )
        await self._context.require("task.create", f"task:{task.task_id}", makes=task)
        if factory.redact_keys and context is not None:
            self._given[task.task_id] = Json.of(context)
            for old in list(self._given)[:-_REMEMBERED]:
                del self._given[old]
        context, types = factory.encryption.encrypt(task.context, task.context_types, binding_of(task))
        task = evolve(task, context=context, context_types=types)
        for step in steps:
            if not step.retryable and (step.max_attempts or 1) > 1:
                log.warning("step %r of task %r is not retryable: max_attempts=1 would say so", step.name, name)
        if (written := await write_one(self.tasks, task)) is None:
            return await self.get(task.task_id)
        self._context.meters.count("mahavishnu_tasks_discovered_total")
        return self._show(written)

    async def get(self, task_id: str) -> TaskRecord:
        """Return the task as it is now. Raises NoSuchTask."""
        return self._show(await self._get(task_id))

    async def _get(self, task_id: str) -> TaskRecord:
        await self._context.open()
        return self._require(task_id, await get_one(self.tasks, task_id))

    def _show(self, task: TaskRecord) -> TaskRecord:
        """Return the task as who acts may see it."""
        if self._context.sees_payloads:
            return task
        steps = tuple(replace(step, result=None, result_types=None) for step in task.steps)
        return evolve(task, context=HIDDEN, context_types=EMPTY, steps=steps)

    async def get_in_clear(self, task_id: str) -> TaskRecord:
        """Return the task in clear, for code that works on it. Raises NoSuchTask, PermissionDenied, CannotRestore."""
        await self._context.require("claim", f"task:{task_id}")
        await self._context.note_read("claim", f"task:{task_id}")
        return in_clear(await self._get(task_id), self._context.letter_factory.encryption)

    def _require(self, task_id: str, task: TaskRecord | None) -> TaskRecord:
        if task is None or self._context.namespace not in (task.namespace, ALL_NAMESPACES):
            raise NoSuchTask(task_id)
        return task

    async def list(
        self,
        state: TaskState | str | Sequence[str] | None = None,
        *,
        name: str | None = None,
        template: str | None = None,
        limit: int = _LISTED,
        after: Cursor | str | None = None,
    ) -> Page[TaskRecord]:
        """List tasks, newest first: open ones, those of these states, or `all`; `after` is the `next` of a page."""
        await self._context.open()
        where: list[Condition] = []
        if state != "all":
            where.append(Is("state", OPEN if state is None else read_states(state)))
        where += [Is(field, (value,)) for field, value in (("name", name), ("template", template)) if value is not None]
        query = Query(tuple(where), (Sort("created_at", descending=True),), limit)
        page = await self.tasks.find(query, Cursor.parse(after) if isinstance(after, str) else after)
        return replace(page, items=[self._show(task) for task in page.items])

    async def transitions(self, task_id: str) -> Sequence[OldTransition]:
        """Return every move of a task and of its steps, oldest first. The last one is the most recent."""
        task = await self.get(task_id)
        inside = [as_old_transition(task, each) for each in task.transitions]
        if task.transition_count == len(inside):
            return inside
        query = Query((Is("task_id", (task_id,)),), (Sort("number"),))
        first = inside[0].number if inside else task.transition_count + 1
        old = [each async for each in scan(self.old_transitions, query) if each.number < first]
        return [*old, *inside]

    async def step_readiness(self, task_id: str) -> Mapping[str, str | None]:
        """Return for each open step why it cannot be run now; None if it can."""
        return step_readiness(await self.get(task_id), self._clock.now())

    async def next_ready_tasks(self, limit: int = _LISTED) -> Sequence[TaskRecord]:
        """Return ready tasks, most urgent first, then longest waiting, without those that waited more than a day."""
        await self._context.open()
        now = self._clock.now()
        where = (Is("state", (*INITIAL, *WAITING[:2])), Between("state_entered_at", at_least=now - FRESH))
        found: list[TaskRecord] = []
        async for task in scan_readable(self.tasks, Query(where, _MOST_URGENT_FIRST)):
            readiness = step_readiness(task, now)
            if not task.steps or None in readiness.values():
                found.append(self._show(task))
                if len(found) == limit:
                    break
        return found

    # --- moving

    async def change(
        self, task_id: str, move: Callable[[TaskRecord], TaskRecord], *, known: TaskRecord = UNREAD
    ) -> TaskRecord:
        """Write the result of `move` for the task as it is now, again while others are quicker. Raises its errors.

        A `move` that returns the record itself ends this without a write. Moves for which the task has no room any more
        become records of their own before. `known` is the task for the first try.
        """
        await self._context.require("task.move", f"task:{task_id}")
        return await self._change(task_id, move, known)

    async def _change(
        self, task_id: str, move: Callable[[TaskRecord], TaskRecord], known: TaskRecord = UNREAD
    ) -> TaskRecord:
        await self._context.open()

        async def move_stored(before: TaskRecord | None) -> TaskRecord | None:
            if (after := move(self._require(task_id, before))) is before:
                return None
            after, old = old_transitions(after)
            require_answers(await self.old_transitions.write(old) if old else ())
            return after

        before, after = await write_with_retry(self.tasks, task_id, move_stored, what="task", known=known)
        self.moved += after is not None
        if after is not None and (tell := self._context.on_task_written) is not None:
            tell(before.transition_count if before else 0, after)
        return after or cast("TaskRecord", before)

    async def transition(
        self,
        task_id: str,
        state: TaskState | str,
        *,
        from_state: TaskState | str | None = None,
        reason: str | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> TaskRecord:
        """Move a task, from `from_state` if given. Raises NoSuchTask, IllegalMove and ChangedMeanwhile."""
        goal = read_state(state)
        await self._context.require("task.move", f"task:{task_id}")
        if isinstance(metadata, Mapping):
            metadata = self._context.letter_factory.json_of(dict(metadata), "metadata", is_decrypted=False).value
        expected = [read_state(from_state)] if from_state is not None else []

        def move(task: TaskRecord) -> TaskRecord:
            if not expected:
                expected.append(task.state)
            if task.state is not expected[0]:
                raise ChangedMeanwhile(
                    task_id, f"move to {goal}", task.state, f"it was {expected[0]} when that was decided", what="task"
                )
            return task_moves.move(
                task, goal, now=self._clock.now(), reason=reason, metadata=metadata, processor=self._context.owner
            )

        return self._show(await self._change_or_capture(task_id, move))

    async def _change_or_capture(self, task_id: str, move: Callable[[TaskRecord], TaskRecord]) -> TaskRecord:
        """Change the task, and close its letter once it is complete. An illegal move may make a letter."""
        try:
            task = await self._change(task_id, move)
            if task.state is TaskState.COMPLETE:
                await self.handover.close(task)
            return task
        except ChangedMeanwhile:
            raise
        except IllegalMove as problem:
            reason = DlqReason.INVALID_STATE_TRANSITION
            if self._context.rules(ReasonRules).keeps(reason) and problem.state in OPEN:
                try:
                    await self.handover.give_up(task_id, str(problem), by=self._context.owner, reason=reason)
                except MahavishnuError as other:
                    log.warning("task %s, which could not be moved, has no letter: %s", task_id, other)
            raise

    async def finalize(self, task_id: str) -> bool:
        """Complete the task. False if it was complete. Raises NoSuchTask, and IllegalMove if it cannot be completed."""
        first = False
        await self._context.require("task.report", f"task:{task_id}")

        def move(task: TaskRecord) -> TaskRecord:
            nonlocal first
            first = task.state is not TaskState.COMPLETE
            if not first:
                return task
            return task_moves.finalize(task, now=self._clock.now(), processor=self._context.owner)

        await self._change_or_capture(task_id, move)
        return first

    async def move_to_dlq(
        self,
        task_id: str,
        notes: str | None = None,
        *,
        by: str = DEFAULT_ACTOR,
        reason: DlqReason | str = DlqReason.MANUAL,
        details: Mapping[str, Any] | None = None,
    ) -> HandedOver:
        """Make a letter of a task that is open or failed: the task is in `error`, and the letter says why.

        An open letter that exists already is returned. `details` go into the letter's metadata. Raises NoSuchTask,
        IllegalMove for a task that has ended otherwise, and errors of making the letter.
        """
        subject = f"task:{task_id}"
        async with self._context.audit.record("task.move", subject, by=by, reason=notes) as record:
            await self._get(task_id)
            done = await self.handover.move_to_dlq(task_id, notes, by=by, reason=reason, details=details)
            record.add(letter=done.letter.key, created=done.created)
        return done

    async def detect_and_transition_stale_tasks(
        self, dry_run: bool = True, batch_size: int = 100, *, by: str = DEFAULT_ACTOR
    ) -> Sequence[StaleRow]:
        """List the stale tasks, the most overdue first, at most `batch_size`; nothing is changed.

        With `dry_run` False each is handed over as its template or the settings say, if it is stale still when it is
        written. Each row has the `action_taken`. Raises InvalidInput and StoreError.
        """
        if dry_run:
            return await self.staleness.detect(True, batch_size)
        async with self._context.audit.record("detect stale tasks", "queue", by=by) as record:
            rows = await self.staleness.detect(False, batch_size)
            record.add(tasks=len(rows), moved_to_dlq=sum(row["moved_to_dlq"] for row in rows))
        return rows

    async def keep_alive(self, task_id: str) -> TaskRecord:
        """Report that the work on an active task goes on, as moves and steps do, so that it is not stuck."""
        await self._context.require("task.report", f"task:{task_id}")
        return self._show(await self._change(task_id, lambda task: task_moves.sign(task, now=self._clock.now())))

    async def begin_step(self, task_id: str, step: str, *, take_over: bool = False) -> TaskRecord:
        """Begin a step, which counts as an attempt: of several callers, one begins it.

        A task that was made without steps gets one of this name. Raises InvalidInput for an unknown step, and
        IllegalMove for one that waits for others, may not be run again, or is in progress, which `take_over` is for.
        """
        await self._context.require("task.report", f"task:{task_id}")
        begin = partial(task_moves.claim_step, processor=self._context.owner, take_over=take_over)
        return self._show(await self._change(task_id, partial(begin, name=step, now=self._clock.now())))

    async def complete_step(self, task_id: str, step: str, result: Any = None) -> bool:
        """Complete a step; a late or repeated report is only counted: False. Raises InvalidInput for a large result."""
        factory = self._context.letter_factory
        given = None if result is None else factory.json_of(result, "result")

        def move(task: TaskRecord) -> TaskRecord:
            kept, types = given, None
            if given is not None:
                if not task_moves.has_room_for(task, given, factory.max_task_bytes):
                    raise task_moves.refuse_result(step, factory.max_task_bytes)
                kept, types = factory.encryption.encrypt(given, EMPTY, binding_of(task, step))
            types = None if types is EMPTY else types
            return task_moves.complete_step(task, step, now=self._clock.now(), result=kept, types=types)

        return await self._report(task_id, step, move)

    async def fail_step(self, task_id: str, step: str, error: BaseException | str, *, permanent: bool = False) -> bool:
        """Fail a step, which waits for its retry, or fails its task for good. False for a late or repeated report."""
        text = error_text(error)
        mask, given = self._context.letter_factory.mask_error, self._given.get(task_id)
        request = None if given is None else LetterRequest(task_id, given.value)

        def move(task: TaskRecord) -> TaskRecord:
            now, failed = self._clock.now(), task.step(step)
            due = now + retry_delay(failed.attempts if failed else 1)
            return task_moves.fail_step(
                task, step, now=now, error=mask(text, task, request), permanent=permanent, retry_at=due
            )

        reported = await self._report(task_id, step, move)
        if reported and (over := (await self.get(task_id)).step(step)) is not None and over.state is StepState.ERROR:
            why = f"step {step!r} failed {over.attempts} times: {over.last_error}"
            reason = DlqReason.WORKFLOW_FAILED if over.may_run else DlqReason.MAX_RETRIES_EXCEEDED
            await self.handover.give_up(task_id, why, by=self._context.owner, reason=reason)
        return reported

    async def _report(self, task_id: str, step: str, move: Callable[[TaskRecord], TaskRecord]) -> bool:
        late = False

        def report(task: TaskRecord) -> TaskRecord:
            nonlocal late
            known = task.step(step)
            late = known is not None and known.state is not StepState.IN_PROGRESS
            return task if late else move(task)

        await self._context.require("task.report", f"task:{task_id}")
        await self._change(task_id, report)
        if late:
            self.late_reports += 1
        return not late
