"""`app.sync`: the app and its queue for code without an event loop. What is stored is durable before a call returns.

Each method has the name, the arguments and the result of the one that is awaited elsewhere. It is run in the event loop
that uses the store, or, if there is none, in one that this process starts in a thread for it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Generator
from functools import cached_property, partial
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, cast, overload

from mahavishnu.adapters.base import is_async
from mahavishnu.bulk.service import BulkRuns
from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.calls import CaptureBlock
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.core.dlq_integration import DLQIntegration
from mahavishnu.core.lifecycle import Lifecycle
from mahavishnu.core.lifecycle.run import current_run
from mahavishnu.core.queue.claims import Claims
from mahavishnu.core.queue.groups import Groups
from mahavishnu.core.queue.operations import LetterOperations
from mahavishnu.core.queue.requeue import Requeues
from mahavishnu.core.queue.transfer import Transfer
from mahavishnu.core.queue.workers import Workers
from mahavishnu.core.sync_methods import SyncCalls, SyncFace, SyncMethod, one_by_one
from mahavishnu.core.sync_methods import as_instance as _of
from mahavishnu.core.sync_search import SyncAlerts, SyncSearch, SyncTrends, SyncViews
from mahavishnu.core.sync_services import (
    SyncArchive,
    SyncDashboard,
    SyncDeletion,
    SyncDomainEvents,
    SyncEncryption,
    SyncIntegrity,
    SyncNamedQueues,
)
from mahavishnu.engine.audit import AuditLog
from mahavishnu.model.errors import InvalidInput, MahavishnuError
from mahavishnu.model.query import Query
from mahavishnu.model.tasks import StepRecord

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


class SyncLetters(SyncFace[LetterOperations]):
    """`dlq.letters`."""

    find = SyncMethod(_of(LetterOperations).find)
    blocked_by = SyncMethod(_of(LetterOperations).blocked_by)
    contrasts = SyncMethod(_of(LetterOperations).contrasts)
    archive = SyncMethod(_of(LetterOperations).archive)
    redrive = SyncMethod(_of(LetterOperations).redrive)
    resurrect = SyncMethod(_of(LetterOperations).resurrect)
    resolve = SyncMethod(_of(LetterOperations).resolve)
    fail = SyncMethod(_of(LetterOperations).fail)
    cancel = SyncMethod(_of(LetterOperations).cancel)
    edit = SyncMethod(_of(LetterOperations).edit)
    preview_edit = SyncMethod(_of(LetterOperations).preview_edit)
    revisions = SyncMethod(_of(LetterOperations).revisions)
    restore = SyncMethod(_of(LetterOperations).restore)
    reveal = SyncMethod(_of(LetterOperations).reveal)
    retry_many = SyncMethod(_of(LetterOperations).retry_many)
    archive_many = SyncMethod(_of(LetterOperations).archive_many)
    resolve_many = SyncMethod(_of(LetterOperations).resolve_many)
    cancel_many = SyncMethod(_of(LetterOperations).cancel_many)
    archive_exhausted = SyncMethod(_of(LetterOperations).archive_exhausted)
    reclassify = SyncMethod(_of(LetterOperations).reclassify)


class SyncGroups(SyncFace[Groups]):
    """`dlq.groups`."""

    list = SyncMethod(_of(Groups).list)
    get = SyncMethod(_of(Groups).get)
    commonalities = SyncMethod(_of(Groups).commonalities)
    update = SyncMethod(_of(Groups).update)
    release_hold = SyncMethod(_of(Groups).release_hold)
    refresh = SyncMethod(_of(Groups).refresh)
    regroup = SyncMethod(_of(Groups).regroup)
    warnings = SyncMethod(_of(Groups).warnings)


class SyncClaims(SyncFace[Claims]):
    """`dlq.claims`."""

    claim = SyncMethod(_of(Claims).claim)
    renew = SyncMethod(_of(Claims).renew)
    settle = SyncMethod(_of(Claims).settle)


class SyncRequeues(SyncFace[Requeues]):
    """`dlq.requeues`."""

    requeue = SyncMethod(_of(Requeues).requeue)
    requeue_exhausted = SyncMethod(_of(Requeues).requeue_exhausted)
    outcomes = SyncMethod(_of(Requeues).outcomes)


class SyncTransfer(SyncFace[Transfer]):
    """`dlq.transfer`."""

    import_letter = SyncMethod(_of(Transfer).import_letter)
    import_letters = SyncMethod(_of(Transfer).import_letters)

    def export(self, query: Query | None = None, **filters: Any) -> Generator[str, None, None]:
        """Letters as lines of JSON, one by one, open ones unless said otherwise."""
        yield from one_by_one(self.calls, "dlq.transfer.export", self.service.export(query, **filters))


class SyncAudit(SyncFace[AuditLog]):
    """`dlq.audit`."""

    list = SyncMethod(_of(AuditLog).list)
    require = SyncMethod(_of(AuditLog).require)
    record_denial = SyncMethod(_of(AuditLog).record_denial)
    forget_contents = SyncMethod(_of(AuditLog).forget_contents)


class SyncRuns(SyncFace[BulkRuns]):
    """`dlq.runs`."""

    preview = SyncMethod(_of(BulkRuns).preview)
    start = SyncMethod(_of(BulkRuns).start)
    get = SyncMethod(_of(BulkRuns).get)
    list = SyncMethod(_of(BulkRuns).list)
    items = SyncMethod(_of(BulkRuns).items)
    pause = SyncMethod(_of(BulkRuns).pause)
    resume = SyncMethod(_of(BulkRuns).resume)
    cancel = SyncMethod(_of(BulkRuns).cancel)
    advance = SyncMethod(_of(BulkRuns).advance)


class SyncWorkers(SyncFace[Workers]):
    """`dlq.workers`."""

    list = SyncMethod(_of(Workers).list)
    numbers = SyncMethod(_of(Workers).numbers)
    waiting = SyncMethod(_of(Workers).waiting)
    why_waiting = SyncMethod(_of(Workers).why_waiting)
    why_each_waits = SyncMethod(_of(Workers).why_each_waits)


class SyncQueue(SyncFace[DeadLetterQueue]):
    """The queue and its services."""

    open = SyncMethod(_of(DeadLetterQueue).open)
    shutdown = SyncMethod(_of(DeadLetterQueue).shutdown)
    enqueue = SyncMethod(_of(DeadLetterQueue).enqueue)
    get_task = SyncMethod(_of(DeadLetterQueue).get_task)
    list_tasks = SyncMethod(_of(DeadLetterQueue).list_tasks)
    get_statistics = SyncMethod(_of(DeadLetterQueue).get_statistics)
    get_statistics_by_reason = SyncMethod(_of(DeadLetterQueue).get_statistics_by_reason)
    health = SyncMethod(_of(DeadLetterQueue).health)
    health_warnings = SyncMethod(_of(DeadLetterQueue).health_warnings)
    start_retry_processor = SyncMethod(_of(DeadLetterQueue).start_retry_processor)
    stop_retry_processor = SyncMethod(_of(DeadLetterQueue).stop_retry_processor)
    run_due = SyncMethod(_of(DeadLetterQueue).run_due)
    retry_task = SyncMethod(_of(DeadLetterQueue).retry_task)
    archive_task = SyncMethod(_of(DeadLetterQueue).archive_task)
    resurrect = SyncMethod(_of(DeadLetterQueue).resurrect)
    archive_exhausted = SyncMethod(_of(DeadLetterQueue).archive_exhausted)
    requeue_from_dlq = SyncMethod(_of(DeadLetterQueue).requeue_from_dlq)
    clear_all = SyncMethod(_of(DeadLetterQueue).clear_all)

    letters = cached_property(lambda self: SyncLetters(self.calls, lambda: self.service.letters, "dlq.letters."))
    groups = cached_property(lambda self: SyncGroups(self.calls, lambda: self.service.groups, "dlq.groups."))
    search = cached_property(lambda self: SyncSearch(self.calls, lambda: self.service.search, "dlq.search."))
    alerts = cached_property(lambda self: SyncAlerts(self.calls, lambda: self.service.alerts, "dlq.alerts."))
    views = cached_property(lambda self: SyncViews(self.calls, lambda: self.service.views, "dlq.views."))
    trends = cached_property(lambda self: SyncTrends(self.calls, lambda: self.service.trends, "dlq.trends."))
    claims = cached_property(lambda self: SyncClaims(self.calls, lambda: self.service.claims, "dlq.claims."))
    requeues = cached_property(lambda self: SyncRequeues(self.calls, lambda: self.service.requeues, "dlq.requeues."))
    transfer = cached_property(lambda self: SyncTransfer(self.calls, lambda: self.service.transfer, "dlq.transfer."))
    audit = cached_property(lambda self: SyncAudit(self.calls, lambda: self.service.audit, "dlq.audit."))
    runs = cached_property(lambda self: SyncRuns(self.calls, lambda: self.service.runs, "dlq.runs."))
    workers = cached_property(lambda self: SyncWorkers(self.calls, lambda: self.service.workers, "dlq.workers."))
    deletion = cached_property(lambda self: SyncDeletion(self.calls, lambda: self.service.deletion, "dlq.deletion."))
    archive = cached_property(lambda self: SyncArchive(self.calls, lambda: self.service.archive, "dlq.archive."))
    encryption = cached_property(
        lambda self: SyncEncryption(self.calls, lambda: self.service.encryption, "dlq.encryption.")
    )
    dashboard = cached_property(
        lambda self: SyncDashboard(self.calls, lambda: self.service.dashboard, "dlq.dashboard.")
    )
    integrity = cached_property(
        lambda self: SyncIntegrity(self.calls, lambda: self.service.integrity, "dlq.integrity.")
    )
    queues = cached_property(lambda self: SyncNamedQueues(self.calls, lambda: self.service.queues, "dlq.queues."))
    domain_events = cached_property(
        lambda self: SyncDomainEvents(self.calls, lambda: self.service.domain_events, "dlq.domain_events.")
    )


class SyncIntegration(SyncFace[DLQIntegration]):
    """What decides about failed runs."""

    capture = SyncMethod(_of(DLQIntegration).capture, at_home=False)
    finish = SyncMethod(_of(DLQIntegration).finish, at_home=False)
    should_enqueue = SyncMethod(_of(DLQIntegration).should_enqueue, at_home=False)
    determine_retry_policy = SyncMethod(_of(DLQIntegration).determine_retry_policy, at_home=False)
    enqueue_failed_workflow = SyncMethod(_of(DLQIntegration).enqueue_failed_workflow, at_home=False)
    execute_with_dlq = SyncMethod(_of(DLQIntegration).execute_with_dlq, at_home=False)
    get_statistics = SyncMethod(_of(DLQIntegration).get_statistics, at_home=False)


class SyncLifecycle(SyncFace[Lifecycle]):
    """`app.lifecycle`."""

    create = SyncMethod(_of(Lifecycle).create)
    get = SyncMethod(_of(Lifecycle).get)
    list = SyncMethod(_of(Lifecycle).list)
    transitions = SyncMethod(_of(Lifecycle).transitions)
    transition = SyncMethod(_of(Lifecycle).transition)
    finalize = SyncMethod(_of(Lifecycle).finalize)
    detect_and_transition_stale_tasks = SyncMethod(_of(Lifecycle).detect_and_transition_stale_tasks)
    move_to_dlq = SyncMethod(_of(Lifecycle).move_to_dlq)
    change = SyncMethod(_of(Lifecycle).change)
    keep_alive = SyncMethod(_of(Lifecycle).keep_alive)
    begin_step = SyncMethod(_of(Lifecycle).begin_step)
    complete_step = SyncMethod(_of(Lifecycle).complete_step)
    fail_step = SyncMethod(_of(Lifecycle).fail_step)
    step_readiness = SyncMethod(_of(Lifecycle).step_readiness)
    next_ready_tasks = SyncMethod(_of(Lifecycle).next_ready_tasks)

    def step(self, name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a part of a tracked sync workflow once, in this thread: see `Lifecycle.step`.

        Raises InvalidInput for an async function, which nothing here would wait for.
        """
        if is_async(cast(Any, function)):
            raise InvalidInput(_not_here(name))
        run = current_run.get()
        if run is None:
            return function(*args, **kwargs)
        record, form = StepRecord(name), run.form_of(function)
        if (known := run.kept_result(name, form)) is not None:
            return cast(R, known[0])
        self.calls.run("lifecycle.step", partial(run.begin_step, record))
        try:
            result = function(*args, **kwargs)
            if inspect.iscoroutine(result):
                result.close()
                raise InvalidInput(_not_here(name))
        except Exception as error:
            self.calls.run("lifecycle.step", partial(run.fail_step, name, error))
            raise
        self.calls.run("lifecycle.step", partial(run.complete_step, name, form, result))
        return result


def _not_here(step: str) -> str:
    return (
        f"step {step!r:.80} is an async function, and this is code without an event loop: make its workflow async, and "
        "await app.lifecycle.step, or give the step a sync function"
    )


class SyncApp(SyncFace[MahavishnuApp]):
    """An app for code without an event loop: scripts, threads, web frameworks and task queues that have none.

    Raises InsideEventLoop where an event loop is running: await the app's own methods there. At the end of a `with`, or
    by `shutdown`, the store is closed; nothing is lost without that.

    >>> from mahavishnu.core.config import MahavishnuSettings
    >>> app = MahavishnuApp(MahavishnuSettings(dlq_store_url="memory:"))
    >>> app.register_adapter("flaky", lambda task, repos: 1 / 0)
    >>> with app.sync as sync:
    ...     result = sync.execute_workflow({"id": "wf_1"}, "flaky", ["api"])
    ...     result["status"], sync.dlq.list_tasks()[0].error
    ('failed', 'division by zero')
    """

    def __init__(self, app: MahavishnuApp, timeout: float | None = None) -> None:
        super().__init__(SyncCalls(app, timeout), lambda: app, "")

    execute_workflow = SyncMethod(_of(MahavishnuApp).execute_workflow, at_home=False)
    execute_workflow_parallel = SyncMethod(_of(MahavishnuApp).execute_workflow_parallel, at_home=False)
    run_again = SyncMethod(_of(MahavishnuApp).run_again, at_home=False)
    capture_exception = SyncMethod(_of(MahavishnuApp).capture_exception, at_home=False)
    start_dlq_processor = SyncMethod(_of(MahavishnuApp).start_dlq_processor)
    stop_dlq_processor = SyncMethod(_of(MahavishnuApp).stop_dlq_processor)
    shutdown = SyncMethod(_of(MahavishnuApp).shutdown)

    @overload
    def call(self, function: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...

    @overload
    def call(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...

    def call(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function that is not decorated, in this thread; a failure is captured as if it were.

        An async one is run in the loop thread. Raises what it raises, and InvalidInput for what cannot be captured.
        """
        if not is_async(function):
            return self.service.calls.call_sync(function, args, kwargs)
        return self.calls.run("call", lambda: self.service.calls.call(function, args, kwargs), at_home=False)

    def capture(self, name: str, /, **arguments: Any) -> CaptureBlock:
        """`with` this: when the block fails, the failure is captured as that of this workflow."""
        return self.service.capture(name, **arguments)

    @cached_property
    def lifecycle(self) -> SyncLifecycle:
        """Lifecycle tasks, and steps of sync workflows that are tracked."""
        return SyncLifecycle(self.calls, lambda: self.service.lifecycle, "lifecycle.")

    @cached_property
    def dlq(self) -> SyncQueue:
        """The queue. Its methods raise MahavishnuError where it is disabled."""
        return SyncQueue(self.calls, lambda: self.calls.dlq, "dlq.")

    @property
    def events(self) -> SyncDomainEvents:
        """Domain events. Its methods raise QueueDisabled where there is no queue."""
        return self.dlq.domain_events

    @cached_property
    def dlq_integration(self) -> SyncIntegration:
        """What decides about failed runs. Its methods raise MahavishnuError where the queue is disabled."""
        return SyncIntegration(self.calls, self._integration, "dlq_integration.")

    def within(self, seconds: float) -> SyncApp:
        """The same, where each call is given so much time. Raises SyncTimeout when it took longer."""
        return SyncApp(self.service, seconds)

    def _integration(self) -> DLQIntegration:
        if self.service.dlq_integration is None:
            raise MahavishnuError("this app keeps no letters: dlq_enabled is false in its settings")
        return self.service.dlq_integration

    def __enter__(self) -> Self:
        if self.service.queue_if_enabled is not None:
            self.dlq.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()
