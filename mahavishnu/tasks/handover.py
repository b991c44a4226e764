"""Between a lifecycle task and its letter: the task goes to `error`, its letter is made, and a requeue brings it back.

These are two records and two writes. The first one decides, by compare-and-set; the second is the same however often it
is made. Until then the first record has a mark, `owes`, by which `finish` finds what a dead process left out. The
letter of a task that hung is the same whichever process makes it: all that it says is in the task's last move.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from mahavishnu.capture.capture import LetterIntake
from mahavishnu.classify.assess import Assessment
from mahavishnu.classify.exceptions import failure_of
from mahavishnu.classify.verdict import STALE, Verdict
from mahavishnu.engine.context import DEFAULT_ACTOR, QueueContext
from mahavishnu.engine.moves import scan_readable
from mahavishnu.model import lifecycle
from mahavishnu.model.clock import instant_text
from mahavishnu.model.errors import (
    CannotRestore,
    IllegalMove,
    InvalidInput,
    MahavishnuError,
    StoreError,
    StoreUnavailable,
    require_answers,
)
from mahavishnu.model.events import EventName
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter import evolve as evolve_letter
from mahavishnu.model.letter_parts import (
    DeadLetterStatus,
    DlqReason,
    ErrorCategory,
    RequeueOutcome,
    RetryPolicy,
    Source,
    SourceKind,
)
from mahavishnu.model.query import Between, Condition, Is, Missing, Not, Query, require_namespace
from mahavishnu.model.record import Value
from mahavishnu.model.work import LIFECYCLE, task_of
from mahavishnu.stores.base import Collection, get_one, update_with_retry
from mahavishnu.stores.kind import T
from mahavishnu.tasks import rules as task_moves
from mahavishnu.tasks.letters import (
    binding_of,
    came_back_by,
    follow_requeue,
    has_done,
    has_its_letter,
    in_clear,
    is_sent_back,
    letter_ids_of,
    may_go_on,
    snapshot_of,
)
from mahavishnu.tasks.rules import ReasonRules
from mahavishnu.tasks.staleness_rules import DETECTOR, SIGN, stale_fingerprint, stale_snapshot
from mahavishnu.tasks.task import ACTIVE, CLOSE, LETTER, MARK, TaskRecord, TaskState, Transition, evolve
from mahavishnu.values.encryption import Binding
from mahavishnu.values.payload import LetterRequest

if TYPE_CHECKING:
    from mahavishnu.tasks.service import Lifecycle


log = logging.getLogger(__name__)
_HUNG = Verdict(ErrorCategory.TRANSIENT, "it hung", STALE.rstrip(":"))
WAS_BEFORE = timedelta(seconds=30)  # for which a hand-over is left to who began it


class HandedOver(Value, frozen=True):
    """The open letter of a task, and whether this call made it."""

    letter: DeadLetter
    created: bool


class HandOver:
    """Hands lifecycle tasks over to letters, and back."""

    def __init__(self, context: QueueContext, lifecycle: Lifecycle) -> None:
        self._context, self._lifecycle, self._intake = context, lifecycle, LetterIntake(context)

    async def move_to_dlq(
        self,
        task_id: str,
        notes: str | None = None,
        *,
        by: str = DEFAULT_ACTOR,
        reason: DlqReason | str = DlqReason.MANUAL,
        details: Mapping[str, Any] | None = None,
        still: Callable[[TaskRecord], bool] = lambda task: True,
    ) -> HandedOver:
        """Make a letter of a task, see `Lifecycle.move_to_dlq`. Raises IllegalMove if it is not as it was: `still`."""
        reason, task = _read_reason(reason), await self._lifecycle.get(task_id)
        if details is not None:  # before the task is in error
            if not isinstance(details, Mapping):
                raise InvalidInput(f"details of a letter are a mapping, not {details!r:.80}")
            self._context.letter_factory.json_of(dict(details), "details")
        if not still(task):
            raise _refuse_late(task)
        known = await self.find_letter(task)
        if known is not None and has_its_letter(task, known) and task.state is TaskState.ERROR:
            await self.settle([task])
            return HandedOver(known, False)
        if task.state is not TaskState.ERROR:
            task = await self._begin(task, notes, by, reason, still)
            known = await self.find_letter(task)
        made = known is None or not has_its_letter(task, known)
        letter = await self._make_letter(task, notes, by, reason, details) if made or known is None else known
        await self.settle([task])
        return HandedOver(letter, made)

    async def settle(self, tasks: Sequence[TaskRecord]) -> None:
        """Take the marks off tasks that owe nothing any more. Where that cannot be written, `finish` does it.

        A letter that was made without the key of its task is owed until a process with that key has encrypted it anew.
        """
        marked = [task for task in tasks if task.owes is not None and (task.owes != LETTER or self._is_readable(task))]
        try:
            written = await self._lifecycle.tasks.write([evolve(task, owes=None) for task in marked]) if marked else ()
            for task, result in zip(marked, written, strict=True):
                now = await get_one(self._lifecycle.tasks, task.task_id) if result is None else None
                if now is not None and now.state is TaskState.COMPLETE:
                    await self.close(now)  # its run was not over: the letter came after its success
        except StoreError as problem:
            log.debug("what %d tasks owed is looked at again: %s", len(marked), problem)

    async def _begin(
        self,
        task: TaskRecord,
        notes: str | None,
        by: str,
        reason: DlqReason,
        still: Callable[[TaskRecord], bool],
        *,
        letter: bool = True,
    ) -> TaskRecord:
        mark = {MARK: str(reason)} if letter else {}
        detail = {**mark, "by": by, **({"notes": notes} if notes else {})}

        def fail(current: TaskRecord) -> TaskRecord:
            if not still(current):
                raise _refuse_late(current)
            now, owner = self._context.clock.now(), self._context.owner
            return task_moves.hand_over(
                current,
                now=now,
                reason=str(reason),
                error=notes,
                metadata={**detail, "original_state": str(current.state)},
                processor=owner,
            )

        return await self._lifecycle.change(task.task_id, fail, known=task)

    async def give_up(
        self,
        task_id: str,
        notes: str,
        *,
        by: str,
        reason: DlqReason,
        still: Callable[[TaskRecord], bool] = lambda task: True,
        letter: bool = True,
    ) -> None:
        """Move a task to `error` for a rule, with a letter if the settings want one. Raises as `move_to_dlq` does."""
        if letter and self._context.rules(ReasonRules).keeps(reason):
            await self.move_to_dlq(task_id, notes, by=by, reason=reason, still=still)
        else:
            await self._begin(await self._lifecycle.get(task_id), notes, by, reason, still, letter=False)

    async def _make_letter(
        self, task: TaskRecord, notes: str | None, by: str, reason: DlqReason, details: Mapping[str, Any] | None
    ) -> DeadLetter:
        state, last = original_state(task), last_move(task)
        if last is not None and last.metadata is not None and (detail := last.metadata.value).get("by") == DETECTOR:
            letter = make_stale_letter(self._context, task, state, reason, detail, last.at)
            return (await self._intake.record(letter)).letter
        request = request_for(self._context, task, state, reason, details or {})
        what = f"lifecycle task {task.name} was moved here by {by} while it was {state}"
        return (await self._intake.enqueue(request, f"{what}: {notes}" if notes else what)).letter

    async def find_letter(self, task: TaskRecord) -> DeadLetter | None:
        """Return the letter of a task, also a closed or deleted one; None if there never was one."""
        return (await self.find_letters([task]))[0]

    async def find_letters(self, tasks: Sequence[TaskRecord]) -> list[DeadLetter | None]:
        """Return the letter of each task, with one read."""
        letters = await self._read_letters(tasks)
        return [
            next((each for each in pair if each and (each.is_deleted or task_of(each) == task.task_id)), None)
            for task, *pair in zip(tasks, letters[::2], letters[1::2], strict=True)
        ]

    async def _read_letters(self, tasks: Sequence[TaskRecord]) -> list[DeadLetter | None]:
        """Return both letters that each of these tasks can have, one pair after the other."""
        keys = [self._context.key(name, task.namespace, task.queue) for task in tasks for name in letter_ids_of(task)]
        return require_answers(await self._context.letters.records.get(keys) if keys else ())

    async def find_needed(self, tasks: Sequence[TaskRecord]) -> set[str]:
        """Return the ids of those tasks that a letter may still go on with, or that have none yet."""
        letters = await self._read_letters(tasks)
        return {
            task.task_id
            for task, *pair in zip(tasks, letters[::2], letters[1::2], strict=True)
            if task.owes == LETTER or any(each is not None and may_go_on(each, task) for each in pair)
        }

    # --- back

    async def follow(self, letter: DeadLetter) -> None:
        """Make the letter's task pending again, once for each requeue."""
        task_id = task_of(letter)
        if task_id is None or not is_sent_back(letter):
            return
        if (known := await get_one(self._lifecycle.tasks, task_id)) is None:
            return
        clock, owner = self._context.clock, self._context.owner
        await self._lifecycle.change(
            task_id, lambda task: follow_requeue(task, letter, now=clock.now(), processor=owner), known=known
        )

    async def close(self, task: TaskRecord) -> DeadLetter | None:
        """Close and return a completed task's open letter, unless it runs; if the store fails, workers do it later."""
        try:
            return await self._close(task)
        except StoreError as problem:
            log.warning("the letter of task %s, which is complete, is still open: %s", task.task_id, problem)
            return None

    async def _close(self, task: TaskRecord) -> DeadLetter | None:
        letter = await self.find_letter(task)
        if letter is None or not letter.is_open or not has_done(task, letter):
            await self.settle([task])
            return None
        now, done_at = self._context.clock.now(), task.terminal_at or task.state_entered_at
        try:
            closed = await update_with_retry(
                self._context.letters,
                letter.key,
                lambda current: lifecycle.close_by_task(current, done_at=done_at, now=now),
            )
        except IllegalMove:  # somebody has closed it
            return None
        if closed is None or closed.after is closed.before:
            return None
        await self.settle([task])
        by, notes = lifecycle.BY_APPLICATION, closed.after.resolution.notes
        self._context.announce(EventName.RESOLVED, closed.after, by=by, notes=notes, was_open=True)
        return closed.after

    # --- what a process has left half done

    async def finish(self) -> int:
        """Finish every hand-over that is half done, and return how many. Each worker does this from time to time."""
        await self._context.open()
        tasks, now = self._lifecycle.tasks, self._context.clock.now()
        before = Between("state_entered_at", at_most=now - WAS_BEFORE)
        unmade = (Is("owes", (LETTER,)), Is("state", (TaskState.ERROR,)), before)
        unclosed = (Is("owes", (CLOSE,)), Is("state", (TaskState.COMPLETE,)))
        silent = (Is("state", ACTIVE), Between("alive_at", at_most=now - SIGN))
        requeued = (Is("requeue_outcome", (RequeueOutcome.IN_FLIGHT,)), Not(Missing("original_state")))
        done = await self._finish_each(tasks, unmade, self._finish_letter)
        done += await self._finish_each(self._context.letters, requeued, self._finish_requeue)
        done += await self._finish_each(tasks, unclosed, self._finish_close)
        return done + await self._finish_each(tasks, silent, self._finish_run)

    async def _finish_letter(self, task: TaskRecord) -> int:
        """Make the missing letter of a task that was moved to `error`."""
        last = last_move(task)
        detail = last.metadata.value if last is not None and last.metadata is not None else {}
        letter = await self.find_letter(task)
        missing = MARK in detail and (letter is None or came_back_by(task, letter))
        if missing:
            await self._make_letter(task, detail.get("notes"), str(detail.get("by")), DlqReason(detail[MARK]), None)
        elif letter is not None and letter.is_open and letter.status is not DeadLetterStatus.RETRYING:
            await self._encrypt_anew(task, letter)
        await self.settle([task])
        return int(missing)

    def _is_readable(self, task: TaskRecord) -> bool:
        try:
            in_clear(task, self._context.letter_factory.encryption)
        except CannotRestore:
            return False
        return True

    async def _encrypt_anew(self, task: TaskRecord, letter: DeadLetter) -> None:
        """Encrypt what the letter got from its task for the letter itself, if it was made without the key."""
        if letter.payload.text != task.context.text or not self._is_readable(task):
            return
        encryption, there = self._context.letter_factory.encryption, Binding.of(letter)
        payload, _ = encryption.move(task.context, task.context_types, binding_of(task), there)

        def change(current: DeadLetter) -> DeadLetter:
            same = current.entry_id == letter.entry_id and current.payload.text == task.context.text
            return evolve_letter(current, payload=payload, unfit=None) if same else current

        if payload is not task.context:
            await update_with_retry(self._context.letters, letter.key, change)

    async def _finish_requeue(self, letter: DeadLetter) -> int:
        """Requeue the task in `error` whose letter was requeued."""
        before = self._lifecycle.moved
        await self.follow(letter)
        return self._lifecycle.moved - before

    async def _finish_close(self, task: TaskRecord) -> int:
        return int(await self.close(task) is not None)

    async def _finish_run(self, seen: TaskRecord) -> int:
        """Fail a task that seems to run but whose letter waits: its process died in between."""
        letter = None if seen.run is None else await self.find_letter(seen)
        if letter is None or not letter.is_open or letter.status is DeadLetterStatus.RETRYING:
            return 0
        if letter.labels.member("detector") is not None:  # of what hung, the task failed first; or it goes on beside
            return 0
        if letter.updated_at > self._context.clock.now() - WAS_BEFORE:
            return 0
        before = self._lifecycle.moved

        def fail(current: TaskRecord) -> TaskRecord:
            if current.version != seen.version:
                return current  # another process continues it
            now, owner = self._context.clock.now(), self._context.owner
            return task_moves.hand_over(current, now=now, reason="its letter was made before", processor=owner)

        await self._lifecycle.change(seen.task_id, fail, known=seen)
        return self._lifecycle.moved - before

    async def _finish_each(
        self, records: Collection[T], where: Sequence[Condition], finish: Callable[[T], Awaitable[int]]
    ) -> int:
        """Finish each record in turn; a record that fails does not hold up the others."""
        done = 0
        async for record in scan_readable(records, Query(tuple(where))):
            try:
                done += await finish(record)
            except StoreUnavailable:
                raise
            except MahavishnuError as problem:
                log.warning("the hand-over of %s is not finished: %s", record.key, problem)
        return done


def request_for(
    context: QueueContext,
    task: TaskRecord,
    state: str,
    reason: DlqReason,
    labels: Mapping[str, Any],
    snapshot: Mapping[str, Any] = {},
    *,
    may_be_retried: bool = True,
) -> LetterRequest:
    """Build the letter request for a task that was in this state. Only a workflow's letter is retried automatically."""
    with suppress(CannotRestore):  # an unknown key keeps no failure from being kept: its run says so
        task = in_clear(task, context.letter_factory.encryption)
    retried = may_be_retried and task.adapter is not None and not task.notes.value
    return LetterRequest(
        task_id=task.work_id or task.task_id,
        task=task.context.value,
        repos=task.repos,
        retry_policy=task.retry_policy if retried else RetryPolicy.NEVER,
        max_retries=task.max_retries,
        metadata={**task.notes.value, **labels, LIFECYCLE: {**snapshot_of(task), **snapshot, "state": state}},
        priority=task.priority,
        queue=task.queue,
        reason=reason,
        source=Source(SourceKind.TASK if task.adapter is None else SourceKind.WORKFLOW, state=state),
        adapter=task.adapter,
        payload_types=task.context_types,
    )


def make_stale_letter(
    context: QueueContext,
    task: TaskRecord,
    state: str,
    reason: DlqReason,
    detail: Mapping[str, Any],
    at: datetime,
    *,
    goes_on: bool = False,
) -> DeadLetter:
    """Make the letter of a task that hangs in this state; with `goes_on`, it is not retried. Raises InvalidInput."""
    snapshot, labels = stale_snapshot(task, detail), {"detection_time": instant_text(at), "detector": DETECTOR}
    may_run = goes_on or (state in ACTIVE and task.alive_at is None)  # has its process died? A person decides
    request = request_for(context, task, state, reason, labels, snapshot, may_be_retried=not may_run)
    message = str(detail.get("notes") or f"{task.name} hung while it was {state}")
    failure = failure_of(message, at=at, category=_HUNG.category)
    assessment = Assessment(failure, _HUNG, stale_fingerprint(task.template, state))
    now, namespace = context.clock.now(), require_namespace(context.namespace)
    return context.letter_factory.make(request, assessment, now, namespace=namespace, backoffs=context.backoffs)


def _read_reason(reason: object) -> DlqReason:
    try:
        return DlqReason(str(reason))
    except ValueError:
        raise InvalidInput(
            f"there is no reason {reason!r:.80} for a letter; there are {', '.join(DlqReason)}"
        ) from None


def original_state(task: TaskRecord) -> str:
    """Return the state that a task had before `error`."""
    last = last_move(task)
    return last.from_state if last is not None and last.to_state == task.state else str(task.state)


def _refuse_late(task: TaskRecord) -> IllegalMove:
    return IllegalMove(task.task_id, "hand over", task.state, "it has gone on meanwhile", what="task")


def last_move(task: TaskRecord) -> Transition | None:
    """Return the latest move of the task itself among those that it keeps."""
    return next((each for each in reversed(task.transitions) if each.step is None), None)
