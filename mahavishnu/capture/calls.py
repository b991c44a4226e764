"""Calls of ordinary functions: each behaves as without us, and one that fails becomes a letter with its arguments."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Hashable
from contextlib import AbstractContextManager
from datetime import datetime
from types import TracebackType
from typing import Any

from mahavishnu.capture.adapters import (
    AdapterRegistry,
    Attempt,
    PythonAdapter,
    current_attempt,
    is_async,
    run_as,
    run_function,
)
from mahavishnu.capture.capture import CaptureOutcome
from mahavishnu.capture.dependencies import let_called_wait, note_called, register_caller
from mahavishnu.capture.functions import (
    Call,
    CallOptions,
    FunctionAdapter,
    FunctionWorkflow,
    check_workflow,
    function_name,
    is_decorated,
    key_reader,
    mark_decorated,
    takes_task_and_repos,
    unknown_workflow,
)
from mahavishnu.capture.integration import DLQIntegration
from mahavishnu.capture.runner import failed_repos, failure_in_result, is_interruption
from mahavishnu.engine.sync_loop import current_sync_loop
from mahavishnu.model.errors import InvalidInput, MahavishnuError

log = logging.getLogger(__name__)
_NO_OPTIONS = CallOptions()
_NOT_KEPT = "it is no failure, or this app keeps none"


class Calls:
    """The workflows of an app that are functions, and the captures of their calls."""

    def __init__(
        self,
        adapters: AdapterRegistry,
        integration: Callable[[], DLQIntegration | None],
        only_failed_repos: Callable[[], bool],
        track: Callable[[Calls, FunctionWorkflow], Callable[..., Any]],
    ) -> None:
        self._adapters, self._integration, self._only_failed_repos = adapters, integration, only_failed_repos
        self._track = track
        self._workflows: dict[str, FunctionWorkflow] = {}
        self._by_function: dict[Hashable, FunctionWorkflow] = {}

    def decorate(self, function: Callable[..., Any], name: str | None, options: CallOptions) -> Callable[..., Any]:
        """Return a function that does the same and captures failures. Raises InvalidInput for a bad one or name."""
        if isinstance(function, staticmethod):
            return staticmethod(self.decorate(function.__func__, name, options))
        function = self._undecorate(function)
        workflow = self.register(function, name, options)
        if options.track:
            return self._track(self, workflow)
        return self._guard_async(workflow) if is_async(function) else self._guard(workflow)

    def _undecorate(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function inside if this app decorated it (a notebook). Raises InvalidInput for another app's."""
        if not is_decorated(function):
            return function
        if function is vars(function).get("_captures_failures"):  # not a method that has it from its function
            plain: Callable[..., Any] = vars(function)["__wrapped__"]
            if any(workflow.function is plain for workflow in self._workflows.values()):
                return plain
        raise InvalidInput(
            f"{function!r:.100} is a decorated workflow already: each of its failures would be kept twice, and run "
            "again twice. Decorate the function that it wraps"
        )

    def register(self, function: Callable[..., Any], name: str | None, options: CallOptions) -> FunctionWorkflow:
        """Run the workflows of this name with a function."""
        check_workflow(function)
        name = function_name(function) if name is None else name
        has_task = takes_task_and_repos(function)
        kinds = self._adapters.kinds
        adapter = PythonAdapter(function, kinds) if has_task else FunctionAdapter(function, name, kinds)
        read_key = key_reader(options.key, function)
        receiver = adapter.receiver if isinstance(adapter, FunctionAdapter) else None
        workflow = FunctionWorkflow(name, function, options, adapter, read_key, has_task, receiver)
        known = self._workflows.get(name)
        if known is not None and known.identity != workflow.identity:
            raise InvalidInput(
                f"the workflow {name!r} is {known.function!r:.100} already: give {function!r:.100} a name of its own, "
                "as in app.workflow('name')"
            )
        self._adapters.limits[name] = options.limit
        self._adapters.register(name, adapter)
        (self._adapters.tracked.add if options.track else self._adapters.tracked.discard)(name)
        self._workflows[name] = workflow
        if isinstance(function, Hashable):
            self._by_function[function] = workflow
        return workflow

    async def call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function, a sync one in a thread, and capture its failure as if it were decorated."""
        if is_decorated(function):
            return await run_function(function, is_async(function), args, kwargs)
        workflow, args = self._workflow_of(function, args)
        waits = is_async(workflow.function)

        async def run(*args: Any, **kwargs: Any) -> Any:
            return await run_function(workflow.function, waits, args, kwargs)

        return await self.run(Call(workflow, args, kwargs), run, args, kwargs)

    def call_sync(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a sync function in this thread, and capture its failure as if it were decorated."""
        if is_decorated(function):
            return function(*args, **kwargs)
        workflow, args = self._workflow_of(function, args)
        return self.run_sync(Call(workflow, args, kwargs), workflow.function, args, kwargs)

    def capture(self, name: str, arguments: dict[str, Any]) -> CaptureBlock:
        """A block of code as a call of this workflow."""
        return CaptureBlock(self, self._named_call(name, arguments))

    async def capture_exception(self, error: BaseException, name: str, arguments: dict[str, Any]) -> CaptureOutcome:
        """Capture an error as that of a call of this workflow."""
        call = self._named_call(name, arguments)
        outcome = await self.note_failure(call, error)
        return outcome or CaptureOutcome(call.request().task_id, skip_reason=_NOT_KEPT)

    def _named_call(self, name: str, arguments: dict[str, Any]) -> Call:
        workflow = self._workflows.get(name) or unknown_workflow(name)
        return Call(workflow, *workflow.place_named(arguments))

    def _workflow_of(
        self, function: Callable[..., Any], args: tuple[Any, ...]
    ) -> tuple[FunctionWorkflow, tuple[Any, ...]]:
        """Return the workflow of a function, registered if new, and the arguments; a method's object is one of them."""
        known = self._by_function.get(function) if isinstance(function, Hashable) else None
        owner = getattr(function, "__self__", None)
        if known is None and inspect.ismethod(function) and not isinstance(owner, type):
            function, args = function.__func__, (owner, *args)
            known = self._by_function.get(function)
        if known is None:
            if inspect.isfunction(function) and set(function.__code__.co_freevars) - {"__class__"}:
                raise InvalidInput(
                    f"{function!r:.100} uses variables of the function that it is in, which a retry would not have: "
                    "give them as arguments, or register it once by app.workflow('name')(function)"
                )
            known = self.register(function, None, _NO_OPTIONS)
        return known, args

    def _guard_async(self, workflow: FunctionWorkflow) -> Callable[..., Any]:
        function = workflow.function

        @functools.wraps(function)
        async def call_workflow(*args: Any, **kwargs: Any) -> Any:
            return await self.run(Call(workflow, args, kwargs), function, args, kwargs)

        return mark_decorated(call_workflow)

    def _guard(self, workflow: FunctionWorkflow) -> Callable[..., Any]:
        function = workflow.function

        @functools.wraps(function)
        def call_workflow(*args: Any, **kwargs: Any) -> Any:
            return self.run_sync(Call(workflow, args, kwargs), function, args, kwargs)

        return mark_decorated(call_workflow)

    async def run(
        self, call: Call, function: Callable[..., Any], args: Any, kwargs: Any, attempt: Attempt | None = None
    ) -> Any:
        """Run a call and note how it went. In a retry it may be what is run again, of this `attempt`."""
        if attempt is None and current_attempt.get() is not None:
            with self.as_attempt(call) as attempt:
                return await self.run(call, function, args, kwargs, attempt)
        began = None if call.task_id is None else self.begin_run(call)
        try:
            answer = await function(*args, **kwargs)
            failure = failure_in_result(answer) if call.workflow.has_task else None
        except BaseException as error:
            await self.note_failure(call, error)
            raise
        if failure is None:
            self.note_success(call, attempt, began)
        else:
            await self.note_failure(call, failure, answer)
        return answer

    def run_sync(
        self, call: Call, function: Callable[..., Any], args: Any, kwargs: Any, attempt: Attempt | None = None
    ) -> Any:
        """Run a call of a sync function as `run` does."""
        if attempt is None and current_attempt.get() is not None:
            with self.as_attempt(call) as attempt:
                return self.run_sync(call, function, args, kwargs, attempt)
        began = None if call.task_id is None else self.begin_run(call)
        try:
            answer = function(*args, **kwargs)
            if inspect.iscoroutine(answer):  # such as of a decorator around an async function: the work comes later
                return self.run(call, _return, (answer,), {}, attempt)
            failure = failure_in_result(answer) if call.workflow.has_task else None
        except BaseException as error:
            self.note_failure_sync(call, error)
            raise
        if failure is None:
            self.note_success(call, attempt, began)
        else:
            self.note_failure_sync(call, failure, answer)
        return answer

    def as_attempt(self, call: Call) -> AbstractContextManager[Attempt | None]:
        """Enter the attempt of a retry, if this call is what is run again."""
        integration = self._integration()
        namespace = None if integration is None else integration.dlq.context.namespace
        return run_as(call.task_id, call.request().task, call.workflow.name, namespace)

    def begin_run(self, call: Call) -> datetime | None:
        """Return when a run begins whose success is noted; None where it closes no letter."""
        integration = self._integration()
        return None if integration is None or call.task_id is None else integration.begin_run()

    def note_success(self, call: Call, attempt: Attempt | None, began: datetime | None) -> None:
        """Note the success of a call that began then: its open letter is closed. In a retry it may be the attempt."""
        integration = self._integration()
        if attempt is not None:
            attempt.note_own_success(call.repos)
        elif integration is not None and began is not None and call.task_id is not None:
            integration.note_success(call.task_id, call.request, began, queue=call.workflow.options.queue)
        if integration is not None:
            integration.count_run()

    async def note_failure(self, call: Call, error: BaseException | str, answer: Any = None) -> CaptureOutcome | None:
        """Capture the failure of a call; None if it is none, or nothing is kept at all. It does not raise."""
        integration = self._integration()
        if integration is None or not self._is_to_be_kept(call, error, integration):
            return None
        request = call.request(self._repos_left(call, answer))
        outcome = await integration.capture(request, error, named=call.task_id is not None)
        if (letter := outcome.letter) is not None:
            if call.task_id is not None:  # else no success would close it
                note_called(call, letter.key)
            if called := getattr(call, "called", ()):
                await let_called_wait(integration.dlq.context, called, letter)
        return outcome

    def note_failure_sync(self, call: Call, error: BaseException | str, answer: Any = None) -> None:
        """Capture a failure for code that does not await: it is durable when this returns."""
        integration = self._integration()
        if integration is not None and self._is_to_be_kept(call, error, integration):
            request = call.request(self._repos_left(call, answer))
            named, name = call.task_id is not None, call.workflow.name
            try:
                capture = integration.capture(request, error, named=named)
                letter = current_sync_loop().run(capture, name=f"the capture of {name!r}").letter
                if letter is not None and named:
                    note_called(call, letter.key)
                if letter is not None and (called := getattr(call, "called", ())):
                    current_sync_loop().run(let_called_wait(integration.dlq.context, called, letter))
            except MahavishnuError as problem:  # an event loop runs in this thread, or the interpreter ends
                log.debug("the failure of workflow %r waits in a file: %s", name, problem)
                integration.capture_now(request, error, named=named)

    def _is_to_be_kept(self, call: Call, error: BaseException | str, integration: DLQIntegration) -> bool:
        if call.is_late:
            return False
        if isinstance(error, str) or not is_interruption(error):
            return True
        if not isinstance(error, asyncio.CancelledError) or current_attempt.get() is not None:
            return False  # the process ends, or a retry is given back
        if call.workflow.options.on_cancel == "capture":
            return True
        integration.count_cancelled()
        return False

    def _repos_left(self, call: Call, answer: Any) -> Any:
        """Return the repos that a failed result does not report as done; None for all of them."""
        return failed_repos(answer, call.repos) if answer is not None and self._only_failed_repos() else None


register_caller(Calls.run.__code__, "call")
register_caller(Calls.run_sync.__code__, "call")


async def _return(work: Awaitable[Any]) -> Any:
    return await work


class CaptureBlock:
    """A block of code, `async with` or `with`, whose failure is captured and goes on."""

    def __init__(self, calls: Calls, call: Call) -> None:
        self._calls, self._call, self._began = calls, call, calls.begin_run(call)

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._calls.note_success(self._call, None, self._began)
        else:
            await self._calls.note_failure(self._call, error)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._calls.note_success(self._call, None, self._began)
        else:
            self._calls.note_failure_sync(self._call, error)
