"""One run of a tracked workflow: the steps that ended and their results, so that a retry goes on after them.

Tracking hinders no run: while the store cannot be reached, writes wait for the next one. Only a retry has to know which
steps were done before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from msgspec.structs import replace

from mahavishnu.capture.adapters import is_async, run_function
from mahavishnu.capture.runner import is_interruption
from mahavishnu.classify.exceptions import message_of
from mahavishnu.engine.context import QueueContext
from mahavishnu.model.errors import CannotRestore, InvalidInput, LostLease, MahavishnuError, StepExhausted, StoreError
from mahavishnu.model.json_value import Json
from mahavishnu.model.record import Value
from mahavishnu.model.work import LIFECYCLE
from mahavishnu.stores.base import UNREAD, home_of, write_one
from mahavishnu.stores.kind import is_kept_locally
from mahavishnu.tasks import rules as task_moves
from mahavishnu.tasks.letters import binding_of, snapshot_of
from mahavishnu.tasks.task import CLOSE, StepRecord, StepState, TaskRecord, TaskState, evolve
from mahavishnu.values.arguments import ResultForm
from mahavishnu.values.payload import LetterRequest, redact

if TYPE_CHECKING:
    from mahavishnu.tasks.service import Lifecycle

log = logging.getLogger(__name__)
T = TypeVar("T")
Move = Callable[[TaskRecord], TaskRecord]
_unfinished: set[asyncio.Task[Any]] = set()  # writes that go on although their callers were cancelled
P = ParamSpec("P")
_TOO_MUCH = "the results of its task are too large together"


def _go_on(write: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Begin this write, which goes on whatever becomes of the caller."""
    writing = asyncio.create_task(write)
    _unfinished.add(writing)
    writing.add_done_callback(_unfinished.discard)
    return writing


async def finish(write: Coroutine[Any, Any, T]) -> T:
    """Await this write to its end, even if the caller is cancelled meanwhile."""
    return await asyncio.shield(_go_on(write))


class TaskRun:
    """A run of a tracked workflow (`current_run`): moves change its `task` at once, and `merge_run` writes it whole."""

    def __init__(self, lifecycle: Lifecycle, context: QueueContext, task: TaskRecord, request: LetterRequest) -> None:
        """Remember the `request`: errors that quote what a letter hides are kept without that."""
        self.task, self._request = task, request
        self.lost = False  # whether another run has taken the task over, or it has ended: what this one says is late
        self._lifecycle, self._context, self._clock = lifecycle, context, context.clock
        self._signs = lifecycle.tracking.signs
        self._begun: set[str] = set()
        self._written = task if task.version is not None else None  # as the store has it, as far as this run knows
        self.turn = asyncio.Lock()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Make this run the one that steps belong to, inside the block."""
        token = current_run.set(self)
        try:
            yield
        finally:
            current_run.reset(token)

    # --- steps

    async def step(
        self,
        options: StepRecord,
        seconds: float | None,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Run a step within so many `seconds`, or return its former result. Raises what the step raises."""
        form = self.form_of(function)
        if (known := self.kept_result(options.name, form)) is not None:
            return known[0]
        await self.begin_step(options)
        try:
            async with asyncio.timeout(seconds):
                result = await run_function(function, is_async(function), args, kwargs)
        except BaseException as error:
            if not is_interruption(error):
                await self.fail_step(options.name, error)
            raise
        await self.complete_step(options.name, form, result)
        return result

    def form_of(self, function: Callable[..., Any]) -> ResultForm:
        """Return the form in which the function's result is kept."""
        return ResultForm.of(function, self._context.value_kinds)

    def kept_result(self, name: str, form: ResultForm) -> tuple[Any] | None:
        """Return a step's former result in a tuple, or None. Raises InvalidInput, StepExhausted, CannotRestore."""
        if name in self._begun:
            raise InvalidInput(
                f"step {name!r:.80} is there twice in one run of task {self.task.task_id}, and a retry could not tell "
                "the two apart: give each a name of its own, with what it is about in it"
            )
        self._begun.add(name)
        step = self.task.step(name)
        if step is None or step.state is not StepState.COMPLETE:
            if step is not None and (step.state is StepState.ERROR or not step.may_run):
                raise StepExhausted(name, step.attempts, step.last_error)
            return None
        try:
            result, types = step.result, step.result_types
            if result is not None and types is not None:
                encryption = self._context.letter_factory.encryption
                result, types = encryption.decrypt(result, types, binding_of(self.task, name))
            return (form.read(result, types),)
        except CannotRestore as problem:
            raise CannotRestore(problem.path, problem.why, whose=f"what step {name!r} returned: ") from problem

    async def begin_step(self, options: StepRecord) -> None:
        """Begin a step. Raises LostLease if another run has taken the task over."""
        now, name = self._clock.now(), options.name
        self.task = task_moves.begin_step(self.task, name, now=now, options=options)
        try:
            await self._write()
        except asyncio.CancelledError:
            self._begun.discard(name)
            self._make(partial(task_moves.withdraw_step, name=name, now=now))
            _go_on(self._write())
            raise
        if self.lost:
            raise LostLease(self.task.task_id, f"run step {options.name!r} of", self.task.state, what="task")

    async def complete_step(self, name: str, form: ResultForm, result: Any) -> None:
        """Complete a step and keep its result, also if the run is cancelled meanwhile."""
        payload, types, why_lost = self._write_result(name, form, result)
        if why_lost is not None:
            log.warning("what step %r returned cannot be kept, so that a retry runs it again: %s", name, why_lost)
        now = self._clock.now()
        complete = partial(task_moves.complete_step, name=name, now=now, result=payload, types=types, why_lost=why_lost)
        await self._report(complete)
        if why_lost == _TOO_MUCH:
            raise task_moves.refuse_result(name, self._context.letter_factory.max_task_bytes)

    async def fail_step(self, name: str, error: BaseException) -> None:
        """Fail a step."""
        await self._report(partial(task_moves.fail_step, name=name, now=self._clock.now(), error=self._text_of(error)))

    def _write_result(self, name: str, form: ResultForm, result: Any) -> tuple[Json | None, Json | None, str | None]:
        try:
            written = form.write(result)
        except Exception as problem:  # code of the user's types
            return None, None, message_of(problem)
        factory = self._context.letter_factory
        if written.why_lost is not None:
            return None, None, factory.mask_quotes(written.why_lost, written.payload.shared_value)
        if len(written.payload.text) > factory.max_task_bytes:
            return None, None, f"it has {len(written.payload.text)} bytes as JSON, more than dlq_max_task_bytes"
        if not task_moves.has_room_for(self.task, written.payload, factory.max_task_bytes):
            return None, None, _TOO_MUCH
        if factory.redact_keys and redact(plain := written.payload.value, factory.redact_keys) != plain:
            return None, None, "some of it is masked by redact_keys"
        return *factory.encryption.encrypt(written.payload, written.types, binding_of(self.task, name)), None

    # --- its end

    def with_snapshot(self, request: LetterRequest) -> LetterRequest:
        """Return the letter request with the task, as it is now, in its metadata."""
        source = replace(request.source, state=str(self.task.state))
        request = request._replace(task_id=self.task.work_id or request.task_id, source=source)
        if request.metadata is not None and not isinstance(request.metadata, Mapping):
            return request  # a user's mistake, which the letter tells of
        return request._replace(metadata={**(request.metadata or {}), LIFECYCLE: snapshot_of(self.task)})

    async def succeed(self) -> None:
        """Complete the task."""
        await self._report(partial(task_moves.finalize, now=self._clock.now()), ends=True)

    async def fail(self, error: BaseException | str, reason: str = "workflow_failed") -> None:
        """Fail the task: the workflow failed, and its letter has it now, if it was to have one."""
        text = self._text_of(error)
        await self._report(partial(task_moves.hand_over, now=self._clock.now(), reason=reason, error=text), ends=True)

    async def cancel(self) -> None:
        """Cancel the task after its caller gave up."""
        cancel = partial(task_moves.move, state=TaskState.CANCELLED, now=self._clock.now(), reason="cancelled")
        await self._report(cancel, ends=True)

    # --- inside

    def _text_of(self, error: BaseException | str) -> str:
        text = error if isinstance(error, str) else message_of(error)
        return self._context.letter_factory.mask_error(text, self.task, self._request)

    @property
    def is_written(self) -> bool:
        """True if the store has the task as this run has it, or does not have this run any more."""
        return self.lost or self.task is self._written

    @property
    def is_idle(self) -> bool:
        """True if the task is as it was written last, and nothing is being written."""
        return self.is_written and not self.turn.locked()

    async def begin(self) -> None:
        """Write the task as it is, for others to see."""
        await self._write()

    def _make(self, move: Move) -> None:
        """Make this move on the task. One that others have made impossible is logged."""
        try:
            self.task = move(self.task)
        except MahavishnuError:
            log.exception("a move of task %s is not tracked", self.task.task_id)

    async def _report(self, move: Move, *, ends: bool = False) -> None:
        """Make this move and write it, also if the run is cancelled meanwhile."""
        self._make(move)
        try:
            await finish(self._write())
        finally:
            if ends:
                self._signs.end(self)

    async def _write(self) -> None:
        """Write the task, together with moves that this run makes at the same time."""
        await self._context.session.run_in_home_loop(self.write_here)

    async def write_here(self) -> None:
        """Write what is not written yet, in the event loop that uses the store."""
        self._signs.keep()
        async with self.turn:
            if not self.is_written:
                await self._flush()

    async def _flush(self) -> None:
        known, mine = self._written, task_moves.sign(self.task, now=self._clock.now())
        self.task = mine

        def merge(current: TaskRecord) -> TaskRecord:
            return mine if current is known else task_moves.merge_run(current, mine)

        try:
            if known is None:
                await self._context.open()
                made = await write_one(self._lifecycle.tasks, mine)
                if made is not None and (tell := self._context.on_task_written) is not None:
                    tell(0, made)
                # None: an earlier write has landed, though its answer was lost
                self.note_written(mine, made or await self._lifecycle.change(mine.task_id, merge))
            else:
                # A local copy may have gone home since: then its version is nowhere any more.
                current = UNREAD if is_kept_locally(known) else known
                self.note_written(mine, await self._lifecycle.change(mine.task_id, merge, known=current))
            await self._close_letter()
        except LostLease as problem:
            self.lost = True
            self._lifecycle.late_reports += 1
            log.warning("a run that goes on after another one has begun is not counted: %s", problem)
        except StoreError as problem:
            if not await self._keep_locally(mine):
                self._signs.remember(self)
                log.warning("task %s is not tracked for now: %s", mine.task_id, problem)
        except MahavishnuError:
            log.exception("task %s is not tracked any more", mine.task_id)
            self.note_written(mine, mine)

    async def _keep_locally(self, mine: TaskRecord) -> bool:
        """Keep the task of the other store in the local one, if there is one, from where it goes home as letters do."""
        if mine.version is None or home_of(self._context.store) is self._context.store:
            return False
        try:
            kept = await write_one(self._lifecycle.tasks, evolve(mine, version=None))
        except StoreError:
            return False
        if kept is not None:  # None: the other store is there again
            self.note_written(mine, kept)
        return kept is not None

    def note_written(self, mine: TaskRecord, stored: TaskRecord) -> None:
        """Note that the store has the task so, with what it had of this run when that was written."""
        self.task = stored if self.task is mine else task_moves.merge_run(stored, self.task)
        self._written = stored

    async def _close_letter(self) -> None:
        """Close the letter of a run that succeeded although it was taken for dead."""
        if self.task.owes == CLOSE and self.task.state is TaskState.COMPLETE and self.task is self._written:
            await self._lifecycle.handover.close(self.task)


current_run: ContextVar[TaskRun | None] = ContextVar("mahavishnu_task_run", default=None)
"""The run of a tracked workflow that the running code is part of; None outside of one."""


class StepOptions(Value, frozen=True):
    """The limits of a step: number of runs, the first included, and seconds for each. Raises InvalidInput."""

    max_attempts: int | None = None
    retryable: bool = True
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.max_attempts is not None and (type(self.max_attempts) is not int or self.max_attempts < 1):
            raise InvalidInput(
                f"max_attempts must be a whole number from 1, not {self.max_attempts!r:.80}: the first run counts too"
            )
        if self.seconds is not None and not (isinstance(self.seconds, int | float) and self.seconds > 0):
            raise InvalidInput(f"seconds must be above 0, not {self.seconds!r:.80}")
        if not self.retryable and (self.max_attempts or 1) > 1:
            log.warning("a step that is not retryable is run once: max_attempts=1 would say so")

    @overload
    async def step(self, name: str, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    @overload
    async def step(self, name: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    async def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run a part of a tracked workflow once: see `Lifecycle.step`."""
        run = current_run.get()
        if run is not None:
            if not isinstance(name, str) or not name:
                raise InvalidInput(f"the name of a step must be text that is not empty, not {name!r:.80}")
            options = StepRecord(name, max_attempts=self.max_attempts, retryable=self.retryable)
            return await run.step(options, self.seconds, function, args, kwargs)
        async with asyncio.timeout(self.seconds):
            return await run_function(function, is_async(function), args, kwargs)
