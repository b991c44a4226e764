"""MahavishnuApp: runs workflows through adapters, keeps those that fail, and retries them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property, partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, Self, TypeVar, cast, overload

from mahavishnu.capture.adapters import Adapter, AdapterRegistry, current_attempt, live_attempt, run_as
from mahavishnu.capture.calls import Calls, CaptureBlock
from mahavishnu.capture.capture import CaptureOutcome
from mahavishnu.capture.functions import CallOptions, Key, OnCancel, given_id, restore_task, why_unrestorable
from mahavishnu.capture.integration import DLQIntegration
from mahavishnu.capture.runner import WorkflowResult, WorkflowRunner
from mahavishnu.core import wiring
from mahavishnu.core.config import MahavishnuSettings, ReloadResult
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.core.dlq_integration import create_dlq_integration
from mahavishnu.core.resilience import ErrorRecoveryManager
from mahavishnu.engine.context import Workflow
from mahavishnu.model.clock import Clock
from mahavishnu.model.errors import InvalidInput, NoAdapterNamed, QueueDisabled
from mahavishnu.model.ids import new_task_id
from mahavishnu.model.json_value import Json, texts
from mahavishnu.model.letter import DEFAULT_ADAPTER, DeadLetter, adapter_named_by
from mahavishnu.model.letter_parts import Source
from mahavishnu.settings.places import is_opensearch
from mahavishnu.settings.wiring import DeclaredQueues, chain_from, describe_file, other_local_files
from mahavishnu.stores.base import Store
from mahavishnu.stores.urls import opensearch_client
from mahavishnu.tasks.tracking import TrackedCalls
from mahavishnu.values.payload import LetterRequest, TaskSnapshot
from mahavishnu.workers.rules import check_limit, declared_limits

if TYPE_CHECKING:
    from mahavishnu.core.sync import SyncApp
    from mahavishnu.events.service import DomainEvents
    from mahavishnu.monitoring.service import Telemetry
    from mahavishnu.tasks.run import TaskRun
    from mahavishnu.tasks.service import Lifecycle

T = TypeVar("T")

# --- runs of workflows by their name: through their adapter, and into a letter if they fail; tracked where asked for


class RunOrder(NamedTuple):
    """What `execute_workflow` is asked to run, and whether its failure becomes a letter."""

    task: Any
    adapter_name: str
    repos: Sequence[str] | None
    task_id: str | None
    metadata: Mapping[str, Any] | None
    enqueue: bool | None


class Executions:
    """Runs workflows of one app by their name."""

    def __init__(self, app: MahavishnuApp) -> None:
        self._app = app

    def run(self, order: RunOrder, *, each: bool = False, track: bool = False) -> Awaitable[WorkflowResult]:
        """Run a workflow, once for all repos or once for `each` of them."""
        if track and self._app.queue_if_enabled is not None:
            run = self._run_tracked(order)
        else:
            run = self._run(order, each=each)
        if current_attempt.get() is None:  # it costs nothing where it is not needed
            return run
        dlq = self._app.queue_if_enabled
        namespace = None if dlq is None else dlq.context.namespace
        name = given_id(order.task_id, order.task)
        return _inside_attempt(run, name, order.task, order.adapter_name, namespace)

    async def run_again(self, letter: DeadLetter, task: Any, adapter_name: str, repos: list[str]) -> WorkflowResult:
        """Run a letter's task again; a tracked one goes on after the steps that have ended."""
        app = self._app
        if letter.source.state is None and adapter_name not in app.adapters.tracked:
            return await app.runner.run_again(task, adapter_name, repos)
        run = await app.lifecycle.tracking.resume(letter)
        if run is None:
            return WorkflowResult(status="completed", result=None, adapter=adapter_name)
        with run.inside():
            done = await app.runner.run(task, adapter_name, repos)
        if done.result.failed:
            await run.fail(done.error)
        else:
            await run.succeed()
        return done.result

    async def _run(self, order: RunOrder, *, each: bool = False, tracked: TaskRun | None = None) -> WorkflowResult:
        task, adapter_name, repos, task_id, metadata, enqueue = order
        integration, name = self._app.dlq_integration, given_id(task_id, task)
        began = None if name is None or integration is None else integration.begin_run()
        try:
            run = await self._app.runner.run(task, adapter_name, repos, per_repo=each)
        except asyncio.CancelledError:  # the caller gave up, or a retry is given back
            if integration is not None and live_attempt() is None:
                integration.count_cancelled()
            raise
        if not run.result.failed:
            if (attempt := current_attempt.get()) is not None:
                attempt.note_own_success(run.repos)
            elif began is not None and integration is not None and name is not None:
                request = partial(_request_of, name, run.snapshot, adapter_name, run.repos)
                integration.note_success(name, request, began)
            if integration is not None:
                integration.count_run()
            return run.result
        left = run.failed_repos if self._app.config.retry_only_failed_repos else run.repos
        failed = self._request(name or new_task_id(), run.snapshot.task, adapter_name, left, metadata)
        if tracked is not None:
            failed = tracked.with_snapshot(failed)
        run.result["workflow_id"], run.result["dlq_enqueued"] = failed.task_id, False
        if integration is not None and enqueue is not False and (tracked is None or not tracked.lost):
            outcome = await integration.capture(failed, run.error, requested=bool(enqueue), named=name is not None)
            run.result.update(outcome.as_result())
        if tracked is not None:
            await tracked.fail(run.error)
        return run.result

    async def _run_tracked(self, order: RunOrder) -> WorkflowResult:
        order = order._replace(repos=(chosen := texts(order.repos or (), "repos")))
        given = given_id(order.task_id, order.task)
        request = self._request(given or new_task_id(), order.task, order.adapter_name, chosen, order.metadata)
        tracked = await self._app.lifecycle.tracking.begin(request)
        if tracked is None:  # it was done before, and only its letter did not know
            return WorkflowResult(status="completed", result=None, adapter=order.adapter_name)
        with tracked.inside():
            try:
                result = await self._run(order, tracked=tracked)
            except asyncio.CancelledError:
                await tracked.cancel()
                raise
        if not result.failed:
            await tracked.succeed()
        return result

    def _request(
        self, name: str, task: Any, adapter_name: str, repos: Sequence[str], metadata: Mapping[str, Any] | None
    ) -> LetterRequest:
        """What a letter of the run has."""
        signature = self._app.adapters.signature(adapter_name)
        return LetterRequest(
            task_id=name,
            task=task,
            repos=repos,
            metadata=metadata,
            adapter=adapter_name,
            write=signature.write_task if signature is not None else None,
        )


def _request_of(task_id: str, snapshot: TaskSnapshot, adapter_name: str, repos: Sequence[str]) -> LetterRequest:
    return LetterRequest(task_id=task_id, task=snapshot.task, repos=repos, adapter=adapter_name)


async def _inside_attempt(
    run: Awaitable[T], task_id: str | None, task: Any, adapter_name: str, namespace: str | None
) -> T:
    with run_as(task_id, task, adapter_name, namespace):
        return await run


# --- the app's own connection to OpenSearch


class OpenSearchIntegration:
    """The app's own connection to OpenSearch, for those who want to query the index of letters."""

    def __init__(self, settings: MahavishnuSettings) -> None:
        self._arguments = settings.store_arguments()

    @classmethod
    def from_settings(cls, settings: MahavishnuSettings) -> Self | None:
        """The integration, or None where letters are not kept in OpenSearch."""
        return cls(settings) if is_opensearch(settings.dlq_store_url) else None

    @cached_property
    def client(self) -> Any:
        """An `opensearchpy.AsyncOpenSearch`; a queue made from it waits for answers as long as the app's own."""
        names = ("url", "user", "password", "headers", "timeout")
        return opensearch_client(**{name: self._arguments[name] for name in names})

    async def close(self) -> None:
        """Close the client, if there is one."""
        if "client" in self.__dict__:
            await self.__dict__.pop("client").close()


P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., Any])


class MahavishnuApp:
    """Workflows, and a dead-letter queue for those that fail.

    The queue's store is opened at first use; `shutdown`, or leaving `async with`, closes it.

    >>> import asyncio
    >>> async def main():
    ...     async with MahavishnuApp(MahavishnuSettings(dlq_store_url="memory:")) as app:
    ...         app.register_adapter("flaky", lambda task, repos: 1 / 0)
    ...         result = await app.execute_workflow({"id": "wf_1"}, "flaky", ["api"])
    ...         return result["status"], result["dlq_enqueued"], (await app.dlq.get_task("wf_1")).error
    >>> asyncio.run(main())
    ('failed', True, 'division by zero')
    """

    def __init__(
        self, config: MahavishnuSettings | None = None, *, store: Store | None = None, clock: Clock | None = None
    ) -> None:
        """Raises pydantic's ValidationError for settings that cannot be, InvalidInput for classifier rules."""
        self.config = config or MahavishnuSettings()
        self.logger = logging.getLogger("mahavishnu.app")
        self.observability: Any = None
        self.opensearch_integration = OpenSearchIntegration.from_settings(self.config)
        self.adapters = AdapterRegistry()
        self.runner = WorkflowRunner(self.adapters)
        self.chain = chain_from(self.config)
        self.error_recovery_manager = ErrorRecoveryManager(self.chain)
        self._dlq: DeadLetterQueue | None = None
        self._dlq_was_set = False
        self.dlq_integration: DLQIntegration | None = None
        self.calls = Calls(
            self.adapters,
            lambda: self.dlq_integration,
            lambda: self.config.retry_only_failed_repos,
            lambda calls, workflow: TrackedCalls(
                calls, workflow, lambda: None if self._dlq is None else self.lifecycle
            ).guard(),
        )
        self.config_error: str | None = None  # why the last reload was refused
        wiring.register_plugin_offers(self.chain, "adapters", self.adapters.register)
        if self.config.dlq_enabled:
            self._dlq = wiring.queue_from(self.config, store=store, clock=clock, chain=self.chain)
            self._dlq.context.restore_task = lambda letter: restore_task(letter, self.adapters)
            self._dlq.context.why_unrestorable = lambda letter: why_unrestorable(letter, self.adapters)
            self._dlq.context.declared_queues = DeclaredQueues(lambda: self.config)
            self._dlq.context.declared_limits = lambda: declared_limits(
                self.config.adapter_limits, self.adapters.limits
            )
            wiring.follow_event_rules(self._dlq)
            self.dlq_integration = create_dlq_integration(self)
            self.adapters.kinds = self.dlq.context.value_kinds

    @property
    def dlq(self) -> DeadLetterQueue:
        """The dead-letter queue, or another given to the app. Raises QueueDisabled where the settings have none."""
        if self._dlq is None and not self._dlq_was_set:
            raise QueueDisabled
        return cast(DeadLetterQueue, self._dlq)  # None only for who has said so

    @dlq.setter
    def dlq(self, queue: DeadLetterQueue | None) -> None:
        self._dlq, self._dlq_was_set = queue, True

    @property
    def queue_if_enabled(self) -> DeadLetterQueue | None:
        """The dead-letter queue, or None where there is none."""
        return self._dlq

    @cached_property
    def _executions(self) -> Executions:
        return Executions(self)

    @cached_property
    def sync(self) -> SyncApp:
        """The same for code without an event loop: scripts, threads, frameworks that have none."""
        from mahavishnu.core.sync import SyncApp  # not for those who have one

        return SyncApp(self)

    @cached_property
    def lifecycle(self) -> Lifecycle:
        """Lifecycle tasks: what is tracked while it runs. Raises QueueDisabled where there is no queue."""
        from mahavishnu.tasks.service import Lifecycle

        return Lifecycle(self.dlq.context)

    @property
    def events(self) -> DomainEvents:
        """Domain events, for this process and for other systems. Raises QueueDisabled where there is no queue."""
        return self.dlq.domain_events

    @property
    def telemetry(self) -> Telemetry:
        """The numbers of this process and of the store, for monitoring. Raises QueueDisabled without a queue."""
        return self.dlq.telemetry

    # --- adapters

    def register_adapter(
        self, name: str, adapter: Adapter | Workflow, *, concurrency: int | None = None, rate: str | None = None
    ) -> None:
        """Run workflows of this name with an adapter, or with a function `(task, repos)`, sync or async.

        All workers together run at most `concurrency` letters of it at once, at most at a `rate` such as `100/min`.
        Raises InvalidInput.
        """
        self.adapters.limits[name] = check_limit(concurrency, rate)
        self.adapters.register(name, adapter)

    @overload
    def workflow(self, function: F, /) -> F: ...

    @overload
    def workflow(
        self,
        name: str | None = None,
        *,
        key: Key | None = None,
        retry_policy: str | None = None,
        max_retries: int | None = None,
        queue: str | None = None,
        redact: Sequence[str] = (),
        on_cancel: OnCancel = "ignore",
        track: bool = False,
        concurrency: int | None = None,
        rate: str | None = None,
    ) -> Callable[[F], F]: ...

    def workflow(
        self,
        name: Any = None,
        *,
        key: Key | None = None,
        retry_policy: str | None = None,
        max_retries: int | None = None,
        queue: str | None = None,
        redact: Sequence[str] = (),
        on_cancel: OnCancel = "ignore",
        track: bool = False,
        concurrency: int | None = None,
        rate: str | None = None,
    ) -> Any:
        """Decorate a function, sync or async: it stays what it is, and a call of it that fails becomes a letter.

        The letter's task has the arguments by name; workers call the function with them again. `name` is the function's
        own unless it is given. `key` names the work of a call, so that its failures are one letter: an argument's name,
        a text such as `"{customer}-{month}"`, or a function of the arguments. A function `(task, repos)` is an adapter
        as `register_adapter` makes one, and its letters have its task and its repos. With `track` each call is a
        lifecycle task: others see it, and a retry goes on after the steps that have ended. All workers together run at
        most `concurrency` letters of it at once, and start them at most at a `rate` such as `100/min`.

        Raises InvalidInput, with the reason, for what cannot be captured: generators, classes, a name that another
        function has.
        """
        options = CallOptions.from_arguments(
            key=key,
            retry_policy=retry_policy,
            max_retries=max_retries,
            queue=queue,
            redact=redact,
            on_cancel=on_cancel,
            track=track,
            limit=check_limit(concurrency, rate),
        )
        if name is not None and not isinstance(name, str):  # the function itself
            return self.calls.decorate(name, None, options)
        return lambda function: self.calls.decorate(function, name, options)

    @overload
    async def call(self, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    @overload
    async def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    async def call(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function that is not decorated, a sync one in a thread; a failure is captured as if it were.

        In another process, `workflow(function)` makes it one that a worker has. Raises what it raises, and InvalidInput
        for what cannot be captured.
        """
        return await self.calls.call(function, args, kwargs)

    def capture(self, name: str, /, **arguments: Any) -> CaptureBlock:
        """`async with` (or `with`) this: when the block fails, the failure is captured as that of this workflow.

        A worker that has a workflow of this name runs it with the arguments; until there is one, the letter waits.
        """
        return self.calls.capture(name, arguments)

    async def capture_exception(
        self, error: BaseException, *, workflow: str, arguments: Mapping[str, Any] | None = None
    ) -> CaptureOutcome:
        """Capture an error that something else has caught, such as the error handler of a framework."""
        return await self.calls.capture_exception(error, workflow, dict(arguments or {}))

    # --- workflows

    async def execute_workflow(
        self,
        task: Any,
        adapter_name: str = DEFAULT_ADAPTER,
        repos: Sequence[str] | None = None,
        *,
        task_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        enqueue: bool | None = None,
        track: bool = False,
    ) -> WorkflowResult:
        """Run a workflow once for all repos, and say how it went; never raises what the workflow raises.

        A failed result has `error`, `error_type` and what became of the failure: `dlq_enqueued` with `dlq_task_id`,
        or `dlq_skip_reason`, or `dlq_error`. The letter's task id is `task_id`, else the task's own `id`, else a new
        one. `enqueue` True asks for a letter (under MANUAL too), False for none. With `track` the run is a lifecycle
        task: others see it, and a retry goes on after the steps that have ended.
        """
        return await self._executions.run(RunOrder(task, adapter_name, repos, task_id, metadata, enqueue), track=track)

    async def execute_workflow_parallel(
        self,
        task: Any,
        adapter_name: str = DEFAULT_ADAPTER,
        repos: Sequence[str] | None = None,
        *,
        task_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        enqueue: bool | None = None,
    ) -> WorkflowResult:
        """As `execute_workflow`, with one run for each repo at the same time; `results` has each repo's own.

        The letter of a partial failure has those repos only that failed, unless `retry_only_failed_repos` is off.
        """
        return await self._executions.run(RunOrder(task, adapter_name, repos, task_id, metadata, enqueue), each=True)

    async def run_again(self, task: Any, repos: list[str]) -> WorkflowResult:
        """Run a letter's task with the adapter that it names: the default callback. Raises NoAdapterNamed."""
        attempt = current_attempt.get()
        adapter_name = attempt.letter.adapter if attempt else adapter_named_by(Source(), Json.of(task))
        if adapter_name is None:
            raise NoAdapterNamed(f"letter {attempt.letter.key!r}" if attempt else "the task")
        if attempt is None or attempt.is_over:
            return await self.execute_workflow_parallel(task, adapter_name, repos)
        result = await self._executions.run_again(attempt.letter, task, adapter_name, repos)
        if result.failed:  # the letter that is retried takes the failure in
            result.update(workflow_id=attempt.letter.task_id, dlq_enqueued=False, error_category=None)
        if self.dlq_integration is not None:
            self.dlq_integration.count_run(failed=result.failed)
        return result

    # --- the processor

    async def start_dlq_processor(self, callback: Workflow | None = None) -> None:
        """Retry failed workflows in the background, by `run_again` or by `callback(task, repos)`."""
        if not self.config.dlq_enabled or self._dlq is None:
            return
        if not self.config.dlq_retry_processor_enabled:
            self.logger.info("DLQ retry processor disabled in configuration")
            return
        await self.dlq.start_retry_processor(callback=callback)
        self.logger.info("DLQ retry processor started (interval=%gs)", self.dlq.context.limits.interval_seconds)

    async def stop_dlq_processor(self) -> None:
        """Stop retrying; what runs may finish for a while."""
        if self._dlq is not None:
            await self.dlq.stop_retry_processor()
            self.logger.info("DLQ retry processor stopped")

    def reload(self) -> ReloadResult:
        """Read the settings again and go on with them; unsound ones change nothing, and the answer says why."""
        try:
            settings = self.config.load_again()
            self.chain.use(chain_from(settings))  # its files may be others, too
        except InvalidInput as problem:
            self._note_config_error(str(problem))
            self.logger.error("the settings were not reloaded: %s", problem)
            return ReloadResult(self.config, error=problem)
        reloaded = ReloadResult(settings, self.config.changed_keys(settings))
        self.config = settings
        self._note_config_error(None)
        if later := [key for key in reloaded.changed if key in wiring.FROM_THE_START]:
            self.logger.warning("these settings count from the next start: %s", ", ".join(later))
        if self._dlq is not None and self.dlq_integration is not None:
            wiring.reconfigure(self.dlq, self.config)
            if "dlq_strategy" in reloaded.changed:
                self.dlq_integration.set_strategy(self.config.dlq_strategy)
        return reloaded

    def _note_config_error(self, why: str | None) -> None:
        self.config_error = why
        if self._dlq is not None:
            self._dlq.context.config_error = why  # health tells it

    async def shutdown(self) -> None:
        """Stop the processor and close the store."""
        if self.dlq_integration is not None:
            await self.dlq_integration.finish()
        if self._dlq is not None:
            await self.dlq.shutdown()
        if self.opensearch_integration is not None:
            await self.opensearch_integration.close()

    async def __aenter__(self) -> Self:
        if self._dlq is not None:
            await self.dlq.open()
            for path, count in other_local_files(self.config).items():
                self.logger.warning("%s", describe_file(path, count))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.shutdown()
