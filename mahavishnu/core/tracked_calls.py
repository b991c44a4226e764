"""Calls of functions that are tracked: like other calls, and each is a lifecycle task while it runs."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from mahavishnu.capture.adapters import is_async, live_attempt
from mahavishnu.capture.functions import Call, FunctionWorkflow, mark_decorated
from mahavishnu.capture.letter_factory import LetterRequest
from mahavishnu.capture.runner import failure_in_result, is_interruption
from mahavishnu.engine.sync_loop import current_sync_loop
from mahavishnu.model.errors import InsideEventLoop

if TYPE_CHECKING:
    from mahavishnu.capture.calls import Calls
    from mahavishnu.core.lifecycle.run import TaskRun
    from mahavishnu.core.lifecycle.service import Lifecycle

log = logging.getLogger(__name__)
T = TypeVar("T")


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
    """The calls of one function that is tracked."""

    def __init__(self, calls: Calls, workflow: FunctionWorkflow, lifecycle: Callable[[], Lifecycle | None]) -> None:
        self._calls, self._workflow, self._lifecycle = calls, workflow, lifecycle

    def guard(self) -> Callable[..., Any]:
        """A function that does the same."""
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
            call.tracked = await lifecycle.tracking.begin(call.request())
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
        """What is written of a run that raised; None where nothing is: it is given back, or the process ends."""
        if not is_interruption(error) or self._workflow.options.on_cancel == "capture":
            return partial(run.fail, error)
        return run.cancel if isinstance(error, asyncio.CancelledError) and live_attempt() is None else None

    def _end_of_answer(self, run: TaskRun, answer: Any) -> Callable[[], Coroutine[Any, Any, None]]:
        failure = failure_in_result(answer) if self._workflow.has_task else None
        return run.succeed if failure is None else partial(run.fail, failure)
