"""Tracked runs of workflows: a run makes a task, which retries continue, and gives signs of life."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet, WeakValueDictionary

from mahavishnu.capture.adapters import is_async, live_attempt
from mahavishnu.capture.functions import Call, FunctionWorkflow, mark_decorated
from mahavishnu.capture.runner import failure_in_result, is_interruption
from mahavishnu.engine.context import QueueContext
from mahavishnu.engine.sync_loop import current_sync_loop
from mahavishnu.model.errors import (
    InsideEventLoop,
    InvalidPayload,
    MahavishnuError,
    StepsGone,
    StoreError,
    StoreUnavailable,
    require_answers,
)
from mahavishnu.model.ids import new_entry_id, new_token
from mahavishnu.model.json_value import EMPTY, Json
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import ALL_NAMESPACES
from mahavishnu.stores.base import home_of
from mahavishnu.stores.kind import is_kept_locally
from mahavishnu.tasks import rules as task_moves
from mahavishnu.tasks.letters import begin_again, goes_on, has_done, new_task_id, snapshot_of, steps_behind, tasks_of
from mahavishnu.tasks.records import TASKS
from mahavishnu.tasks.run import TaskRun
from mahavishnu.tasks.staleness_rules import SIGN, is_silent_for
from mahavishnu.tasks.task import TaskRecord, TaskState, evolve, new_task
from mahavishnu.values.encryption import Binding
from mahavishnu.values.payload import NOT_JSON, LetterRequest

if TYPE_CHECKING:
    from mahavishnu.capture.calls import Calls
    from mahavishnu.tasks.service import Lifecycle


log = logging.getLogger(__name__)
_ON_ITS_WAY = timedelta(hours=1)  # so long a letter waits for its task, which comes home with the next look
_AT_ONCE = 500  # records of one write
_MOST_UNWRITTEN = 10_000  # runs that are remembered while the store is away
T = TypeVar("T")


class RunSigns:
    """The tracked runs of this process: their signs of life are written together, and what could not be written."""

    @classmethod
    def for_context(cls, context: QueueContext) -> RunSigns:
        """Return the runs of a queue."""
        from mahavishnu.tasks.service import Lifecycle

        return cls(context, Lifecycle(context))

    def __init__(self, context: QueueContext, lifecycle: Lifecycle) -> None:
        self._context, self._lifecycle = context, lifecycle
        self._runs: WeakValueDictionary[int, TaskRun] = WeakValueDictionary()
        self._unwritten: dict[int, TaskRun] = {}  # kept, whoever else forgets them
        self._timer_loop: asyncio.AbstractEventLoop | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._watching = threading.Lock()
        self._beat: threading.Thread | None = None
        self._looked = time.monotonic()  # when the event loop was last seen to go on
        context.session.before_closing.append(self.write)
        _all_signs.add(self)

    def begin(self, run: TaskRun) -> None:
        """Begin to give signs for this run."""
        self._runs[id(run)] = run
        self.keep()
        with self._watching:
            if self._context.open_beside is not None and (self._beat is None or not self._beat.is_alive()):
                self._looked = time.monotonic()
                self._beat = threading.Thread(target=self._watch_loop, name="mahavishnu-signs", daemon=True)
                self._beat.start()

    def _watch_loop(self) -> None:
        """Give the signs from this thread, by a connection of its own, while code of a run blocks the event loop."""
        while True:
            _never.wait(SIGN.total_seconds())
            with self._watching:
                if not self._runs:
                    self._beat = None
                    return
            if time.monotonic() - self._looked > 2 * SIGN.total_seconds():
                try:
                    asyncio.run(self._sign_beside())
                except Exception as problem:  # whatever it is, the next minute brings another try
                    log.warning("an event loop is blocked, and its runs give no signs of life: %s", problem)

    async def _sign_beside(self) -> None:
        assert self._context.open_beside is not None
        tokens = {run.task.task_id: run.task.run for run in self._find_runs()}
        async with self._context.open_beside() as store:
            tasks, now = store.collection(TASKS), self._context.clock.now()
            found = [each for each in await tasks.get(list(tokens)) if isinstance(each, TaskRecord)]
            ours = [task_moves.sign(each, now=now) for each in found if each.run == tokens[each.task_id]]
            await tasks.write(ours) if ours else ()

    def _find_runs(self) -> list[TaskRun]:
        return [run for ref in self._runs.valuerefs() if (run := ref()) is not None]

    def has_beside(self, token: str, loop: asyncio.AbstractEventLoop) -> bool:
        """Return whether this run is under way in another event loop than this one, which may be blocked."""
        other = self._timer_loop
        is_other = other is not None and other is not loop and other.is_running()
        return is_other and any(run.task.run == token for run in self._find_runs())

    def end(self, run: TaskRun) -> None:
        """End the signs of this run."""
        self._runs.pop(id(run), None)

    def remember(self, run: TaskRun) -> None:
        """Keep a run whose task could not be written, until it is."""
        if len(self._unwritten) >= _MOST_UNWRITTEN and id(run) not in self._unwritten:
            lost = self._unwritten.pop(next(iter(self._unwritten)))
            log.error("task %s is not tracked: too many could not be written", lost.task.task_id)
        self._unwritten[id(run)] = run
        self.keep()

    def keep(self) -> None:
        """Keep a timer for the signs: on this event loop, if the one that had it has ended."""
        loop = self._timer_loop
        if (self._runs or self._unwritten) and (loop is None or not loop.is_running()):
            self._set_timer()

    def _set_timer(self) -> None:
        self._timer_loop = asyncio.get_running_loop()
        self._timer_loop.call_later(SIGN.total_seconds(), self._look)

    def _look(self) -> None:
        self._timer_loop, self._looked = None, time.monotonic()
        if self._runs or self._unwritten:
            self._set_timer()
            if self._renewing is None or self._renewing.done():
                self._renewing = asyncio.create_task(self._renew_quietly())

    async def _renew_quietly(self) -> None:
        try:
            await self._context.session.run_in_home_loop(self.renew)
        except StoreError as problem:
            log.debug("signs of life of tracked runs have to wait: %s", problem)
        except MahavishnuError:
            log.exception("signs of life of tracked runs could not be written")

    async def renew(self) -> None:
        """Write what waits, and signs of life for runs that have written nothing for a while."""
        await self.write()
        now = self._context.clock.now()
        silent = [run for run in self._find_runs() if not run.lost and is_silent_for(run.task, now, SIGN)]
        for first in range(0, len(silent), _AT_ONCE):
            async with AsyncExitStack() as turns:
                going: list[TaskRun] = []
                for run in silent[first : first + _AT_ONCE]:
                    if run.is_idle:  # what it is writing just now is a sign of life
                        await turns.enter_async_context(run.turn)
                        going.append(run)
                await self._sign(going)

    async def write(self) -> None:
        """Write the tasks that could not be written before, until one cannot be written now."""
        for mark, run in list(self._unwritten.items()):
            await run.write_here()
            if not run.is_written:
                return
            self._unwritten.pop(mark, None)

    async def _sign(self, runs: list[TaskRun]) -> None:
        now = self._context.clock.now()
        signed = [task_moves.sign(run.task, now=now) for run in runs]
        before = [run.task for run in runs]
        for run, known, result in zip(
            runs, before, await self._lifecycle.tasks.write(signed) if signed else (), strict=True
        ):
            if isinstance(result, TaskRecord):
                run.note_written(known, result)
            elif result is None or is_kept_locally(known):  # somebody else has written it meanwhile, or it went home
                try:
                    again = partial(task_moves.sign, now=now, run=known.run)
                    run.note_written(known, await self._lifecycle.change(known.task_id, again))
                except StoreError as problem:
                    log.debug("the sign of life of task %s has to wait: %s", known.task_id, problem)
                except MahavishnuError as problem:  # its next report finds out
                    log.warning("task %s is not ours any more: %s", known.task_id, problem)
                    self.end(run)


_all_signs: WeakSet[RunSigns] = WeakSet()
_never = threading.Event()


def is_under_way_beside(task: TaskRecord) -> bool:
    """Return whether the task's run is under way in this very process, in the event loop of another thread."""
    loop = asyncio.get_running_loop()
    return task.run is not None and any(signs.has_beside(task.run, loop) for signs in list(_all_signs))


class Tracking:
    """Begins tracked runs."""

    def __init__(self, context: QueueContext, lifecycle: Lifecycle) -> None:
        self._context, self._lifecycle = context, lifecycle
        self.signs = context.part(RunSigns)

    async def begin(self, request: LetterRequest) -> TaskRun | None:
        """Begin a run of work that a letter would have so. Inside a retry of it, its task goes on: see `resume`."""
        attempt = live_attempt()
        if attempt is not None:  # of this very workflow: any other one does not see it, see `run_as`
            return await self.resume(attempt.letter)
        now = self._context.clock.now()
        task = self._task_of(request, new_entry_id(now))
        task = task_moves.begin(task, now=now, run=new_token(), processor=self._context.owner)
        run = TaskRun(self._lifecycle, self._context, task, request)
        try:
            return await self._start(run)
        except asyncio.CancelledError:  # nothing has run, and nothing is to
            await run.cancel()
            raise

    async def resume(self, letter: DeadLetter) -> TaskRun | None:
        """Continue the letter's task in this process; None if the work is done and only the letter is still open.

        If the work failed in another task, too, and no run of that one has succeeded since, that other one goes on. It
        begins anew where no step had ended, or no task covers all of its repos. Raises StoreError and StepsGone:
        nothing is run twice by mistake. While the store is away that is no failure of the work: the letter waits.
        """
        attempt = live_attempt()
        try:
            run = await self._context.session.run_in_home_loop(partial(self._resume, letter))
        except StoreUnavailable as problem:
            if attempt is not None:
                attempt.not_begun.append(problem)
            raise
        if run is not None and attempt is not None:
            attempt.tracked.append(lambda: {**snapshot_of(run.task), "state": str(TaskState.STEPS_IN_PROCESS)})
        return run

    async def _resume(self, letter: DeadLetter) -> TaskRun | None:
        await self._context.open()
        tasks = await self._find_tasks(letter)
        if any(has_done(task, letter) for task in tasks):
            return None
        self._require_ended_steps(letter, tasks)
        task = next((task for task in tasks if goes_on(task, letter)), None)
        token, owner, request = new_token(), self._context.owner, self._request_of(letter)

        def begin(task: TaskRecord) -> TaskRecord:
            return begin_again(task, letter, now=self._context.clock.now(), run=token, processor=owner)

        if task is None:
            own = tasks_of(letter)
            if own:
                log.warning("no lifecycle task of letter %r can go on: all of its steps are run again", letter.key)
            task = begin(self._task_of(request, new_task_id(letter)))
            return await self._start(TaskRun(self._lifecycle, self._context, task, request))
        task = await self._lifecycle.change(task.task_id, begin, known=task)
        run = TaskRun(self._lifecycle, self._context, task, request)
        self.signs.begin(run)
        return run

    def _require_ended_steps(self, letter: DeadLetter, tasks: Sequence[TaskRecord]) -> None:
        """Raise StepsGone if the store does not know steps of the letter's task that had ended.

        Raises StoreUnavailable as long as the task may still come home from the local store of its process.
        """
        if not (behind := steps_behind(letter, tasks)):
            return
        has_local_stores = home_of(self._context.store) is not self._context.store
        if not has_local_stores or self._context.clock.now() - letter.failures[-1].at > _ON_ITS_WAY:
            raise StepsGone(letter.task_id, behind)
        raise StoreUnavailable(
            f"steps of {letter.task_id!r} ended and are not known here yet: their process has them in its local store"
        )

    async def _find_tasks(self, letter: DeadLetter) -> list[TaskRecord]:
        """Return the existing tasks that a run of the letter may continue, in the order of choice."""
        found = require_answers(await self._lifecycle.tasks.get([*tasks_of(letter), new_task_id(letter)]))
        return [task for task in found if task and self._context.namespace in (task.namespace, ALL_NAMESPACES)]

    async def _start(self, run: TaskRun) -> TaskRun:
        self.signs.begin(run)
        await run.begin()
        self._context.meters.count("mahavishnu_tasks_discovered_total")
        return run

    def _task_of(self, request: LetterRequest, task_id: str) -> TaskRecord:
        context, now = self._context, self._context.clock.now()
        factory = context.letter_factory
        binding = Binding.of_task(context.namespace, task_id)
        try:
            written = factory.write_payload(request, binding)
        except InvalidPayload as problem:
            request = factory.with_placeholders(request, str(problem))
            written = factory.write_payload(request, binding)
        payload, types, notes = written.payload, written.types, dict(written.notes)
        if len(payload.text) > factory.max_task_bytes:
            payload, types = EMPTY, EMPTY
            notes[NOT_JSON] = f"the task has more bytes as JSON than the {factory.max_task_bytes} of dlq_max_task_bytes"
        name = request.adapter or "workflow"
        task = new_task(name, now=now, namespace=context.namespace, task_id=task_id, context=payload, template=name)
        return evolve(
            task,
            context_types=types,
            notes=Json.of(notes) if notes else EMPTY,
            adapter=request.adapter,
            work_id=factory.with_usable_id(request, context.namespace).task_id,
            queue=request.queue,
            repos=request.readable_repos(),
            retry_policy=None if request.retry_policy is None else str(request.retry_policy),
            max_retries=request.max_retries,
        )

    def _request_of(self, letter: DeadLetter) -> LetterRequest:
        return LetterRequest(
            letter.task_id,
            letter.task,
            letter.repos,
            metadata=self._context.letter_factory.encryption.readable_labels(letter).value,
            queue=letter.queue,
            adapter=letter.adapter,
            payload_types=letter.payload_types,
        )


class TrackedCall(Call):
    """A call that is tracked: a letter of it has its task."""

    __slots__ = ("tracked",)
    tracked: TaskRun | None

    def request(self, repos: Any = None) -> LetterRequest:
        request = super().request(repos)
        tracked = getattr(self, "tracked", None)
        return request if tracked is None else tracked.with_snapshot(request)

    @property
    def is_late(self) -> bool:
        tracked = getattr(self, "tracked", None)
        return tracked is not None and tracked.lost


class TrackedCalls:
    """The tracked calls of one function: like other calls, and each is a lifecycle task while it runs."""

    def __init__(self, calls: Calls, workflow: FunctionWorkflow, lifecycle: Callable[[], Lifecycle | None]) -> None:
        self._calls, self._workflow, self._lifecycle = calls, workflow, lifecycle

    def guard(self) -> Callable[..., Any]:
        """Return a function that makes tracked calls."""
        if is_async(self._workflow.function):

            @functools.wraps(self._workflow.function)
            async def call_workflow(*args: Any, **kwargs: Any) -> Any:
                return await self._run(args, kwargs)

            return mark_decorated(call_workflow)

        @functools.wraps(self._workflow.function)
        def call_sync_workflow(*args: Any, **kwargs: Any) -> Any:
            return self._run_sync(args, kwargs)

        return mark_decorated(call_sync_workflow)

    async def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call, lifecycle = TrackedCall(self._workflow, args, kwargs), self._lifecycle()
        with self._calls.as_attempt(call) as attempt:
            work = partial(self._calls.run, call, self._workflow.function, args, kwargs, attempt)
            if lifecycle is None:  # no letters are kept, and no tasks
                return await work()
            try:
                call.tracked = await lifecycle.tracking.begin(call.request())
            except asyncio.CancelledError as error:  # for who wants letters of cancelled calls
                await self._calls.note_failure(call, error)
                raise
            return None if call.tracked is None else await self._see_through(call.tracked, work())

    async def _see_through(self, run: TaskRun, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            with run.inside():
                answer = await work
        except BaseException as error:
            if (end := self._end(run, error)) is not None:
                await end()
            raise
        await self._end_of_answer(run, answer)()
        return answer

    def _run_sync(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call, lifecycle = TrackedCall(self._workflow, args, kwargs), self._lifecycle()
        with self._calls.as_attempt(call) as attempt:
            work = partial(self._calls.run_sync, call, self._workflow.function, args, kwargs, attempt)
            if lifecycle is None:
                return work()
            try:
                run = call.tracked = self._wait(partial(lifecycle.tracking.begin, call.request()))
            except InsideEventLoop:
                log.warning("%s is not tracked: it is called where an event loop is running", self._workflow.name)
                return work()
            if run is None:  # it was done before, and only its letter did not know
                return None
            try:
                with run.inside():
                    answer = work()
            except BaseException as error:
                if (end := self._end(run, error)) is not None:
                    self._wait(end)
                raise
            if inspect.iscoroutine(answer):  # such as of a decorator around an async function: the work comes later
                return self._see_through(run, answer)
            self._wait(self._end_of_answer(run, answer))
            return answer

    def _wait(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return current_sync_loop().run(work(), name=f"the tracking of {self._workflow.name!r}")

    def _end(self, run: TaskRun, error: BaseException) -> Callable[[], Coroutine[Any, Any, None]] | None:
        """Return the write that ends a run that raised; None if it is given back, or the process ends."""
        if not is_interruption(error) or self._workflow.options.on_cancel == "capture":
            return partial(run.fail, error)
        return run.cancel if isinstance(error, asyncio.CancelledError) and live_attempt() is None else None

    def _end_of_answer(self, run: TaskRun, answer: Any) -> Callable[[], Coroutine[Any, Any, None]]:
        failure = failure_in_result(answer) if self._workflow.has_task else None
        return run.succeed if failure is None else partial(run.fail, failure)
