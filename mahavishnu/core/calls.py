"""Calls of ordinary functions: each behaves as without us, and one that fails becomes a letter with its arguments."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import Any

from mahavishnu.adapters.arguments import Signature
from mahavishnu.adapters.base import AdapterRegistry, Attempt, PythonAdapter, current_attempt, is_async, run_as
from mahavishnu.adapters.function import FunctionAdapter, check_workflow, function_name, takes_task_and_repos
from mahavishnu.adapters.runner import failed_repos, failure_in_result, is_interruption
from mahavishnu.core.call_options import CallOptions, key_reader
from mahavishnu.core.dlq_integration import DLQIntegration
from mahavishnu.core.function_workflow import Call, FunctionWorkflow
from mahavishnu.engine.sync_loop import current_sync_loop
from mahavishnu.model.errors import InvalidInput, MahavishnuError

log = logging.getLogger(__name__)
_OUTSIDE: AbstractContextManager[None] = nullcontext()


class Calls:
    """The workflows of an app that are functions, and the captures of their calls."""

    def __init__(
        self,
        adapters: AdapterRegistry,
        integration: Callable[[], DLQIntegration | None],
        only_failed_repos: Callable[[], bool],
    ) -> None:
        self._adapters, self._integration, self._only_failed_repos = adapters, integration, only_failed_repos
        self._workflows: dict[str, FunctionWorkflow] = {}

    def decorate(self, function: Callable[..., Any], name: str | None, options: CallOptions) -> Callable[..., Any]:
        """A function that does the same, and whose failures are kept; workers run letters of this name with it.

        Raises InvalidInput for what cannot be a workflow, and for a name that another function has.
        """
        if isinstance(function, staticmethod):
            return staticmethod(self.decorate(function.__func__, name, options))
        workflow = self.register(function, name, options)
        return self._guard_async(workflow) if is_async(function) else self._guard(workflow)

    def register(self, function: Callable[..., Any], name: str | None, options: CallOptions) -> FunctionWorkflow:
        """Run the workflows of this name with a function."""
        check_workflow(function)
        name = function_name(function) if name is None else name
        has_task = takes_task_and_repos(function)
        signature = Signature.of(function)
        adapter = PythonAdapter(function) if has_task else FunctionAdapter(function, name, signature)
        read_key = key_reader(options.key, function)
        workflow = FunctionWorkflow(name, function, options, adapter, signature, read_key, has_task)
        known = self._workflows.get(name)
        if known is not None and known.identity != workflow.identity:
            raise InvalidInput(
                f"the workflow {name!r} is {known.function!r:.100} already: give {function!r:.100} a name of its own, "
                "as in app.workflow('name')"
            )
        self._adapters.register(name, adapter)
        self._workflows[name] = workflow
        return workflow

    # --- what a decorated function is

    def _guard_async(self, workflow: FunctionWorkflow) -> Callable[..., Any]:
        function, reads_results = workflow.function, workflow.has_task

        @functools.wraps(function)
        async def call_workflow(*args: Any, **kwargs: Any) -> Any:
            call = Call(workflow, args, kwargs)
            began = None if call.task_id is None else self._begin_run()
            with self._scope(call) as attempt:
                try:
                    answer = await function(*args, **kwargs)
                    failure = failure_in_result(answer) if reads_results else None
                except BaseException as error:
                    await self._note_failure(call, error)
                    raise
                if failure is None:
                    self._note_success(call, attempt, began)
                else:
                    await self._note_failure(call, failure, answer)
                return answer

        return call_workflow

    def _guard(self, workflow: FunctionWorkflow) -> Callable[..., Any]:
        function, reads_results = workflow.function, workflow.has_task

        @functools.wraps(function)
        def call_workflow(*args: Any, **kwargs: Any) -> Any:
            call = Call(workflow, args, kwargs)
            began = None if call.task_id is None else self._begin_run()
            with self._scope(call) as attempt:
                try:
                    answer = function(*args, **kwargs)
                    failure = failure_in_result(answer) if reads_results else None
                except BaseException as error:
                    self._note_failure_sync(call, error)
                    raise
                if failure is None:
                    self._note_success(call, attempt, began)
                else:
                    self._note_failure_sync(call, failure, answer)
                return answer

        return call_workflow

    def _scope(self, call: Call) -> AbstractContextManager[Attempt | None]:
        """Inside of a retry, the attempt if this call is what is run again; it costs nothing elsewhere."""
        if current_attempt.get() is None:
            return _OUTSIDE
        return run_as(call.task_id, call.request().task, call.workflow.name)

    def _begin_run(self) -> datetime | None:
        """When a run begins whose success is noted; None where successes close no letters."""
        integration = self._integration()
        return None if integration is None else integration.begin_run()

    def _note_success(self, call: Call, attempt: Attempt | None, began: datetime | None) -> None:
        integration = self._integration()
        if attempt is not None:
            attempt.note_own_success(call.repos)
        elif integration is not None and began is not None and call.task_id is not None:
            integration.note_success(call.task_id, call.request, began, queue=call.workflow.options.queue)
        if integration is not None:
            integration.count_run()

    async def _note_failure(self, call: Call, error: BaseException | str, answer: Any = None) -> None:
        integration = self._integration()
        if integration is not None and self._is_to_be_kept(call, error, integration):
            request = call.request(self._repos_left(call, answer))
            await integration.capture(request, error, named=call.task_id is not None)

    def _note_failure_sync(self, call: Call, error: BaseException | str, answer: Any = None) -> None:
        integration = self._integration()
        if integration is not None and self._is_to_be_kept(call, error, integration):
            request = call.request(self._repos_left(call, answer))
            named, name = call.task_id is not None, call.workflow.name
            try:
                capture = integration.capture(request, error, named=named)
                current_sync_loop().run(capture, name=f"the capture of {name!r}")
            except MahavishnuError as problem:  # an event loop runs in this thread, or the interpreter ends
                log.debug("the failure of workflow %r waits in a file: %s", name, problem)
                integration.capture_now(request, error, named=named)

    def _is_to_be_kept(self, call: Call, error: BaseException | str, integration: DLQIntegration) -> bool:
        if isinstance(error, str) or not is_interruption(error):
            return True
        if not isinstance(error, asyncio.CancelledError) or current_attempt.get() is not None:
            return False  # the process ends, or a retry is given back
        if call.workflow.options.on_cancel == "capture":
            return True
        integration.count_cancelled()
        return False

    def _repos_left(self, call: Call, answer: Any) -> Any:
        """Those that a failed result does not report as done; None for all of them."""
        return failed_repos(answer, call.repos) if answer is not None and self._only_failed_repos() else None
