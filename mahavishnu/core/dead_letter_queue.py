"""The dead-letter queue: what an app, a person or a worker can do with letters.

Python and the HTTP API call this class or its services; the command line calls the API. They read, decide with the
rules of `mahavishnu.model`, write by compare-and-set, and publish events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from mahavishnu.core.rooms import chores, room_kinds, service_names, services
from mahavishnu.engine.audit import AuditLog
from mahavishnu.engine.breaker import Breakers
from mahavishnu.engine.context import DEFAULT_ACTOR, Limits, QueueContext, QueueOptions, Workflow
from mahavishnu.engine.moves import Act, BulkResult
from mahavishnu.engine.queue import Service, service_of
from mahavishnu.engine.store_session import store_for
from mahavishnu.engine.waiting_room import WAITING
from mahavishnu.letters import reads
from mahavishnu.letters.ledger import Ledger
from mahavishnu.letters.reads import LetterList, ReasonLines, count_by_reason
from mahavishnu.letters.rules import BY_RULE
from mahavishnu.letters.service import LetterOperations
from mahavishnu.model.backoff import Backoff
from mahavishnu.model.clock import Clock, SystemClock
from mahavishnu.model.errors import IllegalMove, InvalidInput, NoSuchLetter, QueueFull
from mahavishnu.model.events import Listener
from mahavishnu.model.ids import DEFAULT_QUEUE
from mahavishnu.model.json_value import EMPTY, Json
from mahavishnu.model.letter import DeadLetter, FailedTask
from mahavishnu.model.letter_parts import DeadLetterStatus, DlqReason, ErrorCategory, RetryPolicy, Source
from mahavishnu.model.permissions import HIDDEN, Principal
from mahavishnu.model.query import ALL_NAMESPACES, Query
from mahavishnu.monitoring import statistics as numbers
from mahavishnu.stores.base import Health, Store, get_one
from mahavishnu.stores.kinds import offer_kinds, stored_kinds
from mahavishnu.values.payload import LetterRequest

if TYPE_CHECKING:
    from mahavishnu.alerts.service import Alerts
    from mahavishnu.archive.deletion import Deletion
    from mahavishnu.archive.service import Archive
    from mahavishnu.bulk.service import BulkRuns
    from mahavishnu.capture.capture import LetterIntake
    from mahavishnu.capture.closing import Closing
    from mahavishnu.encryption.service import EncryptionRenewal
    from mahavishnu.engine.periodic import PeriodicTask
    from mahavishnu.events.service import DomainEvents
    from mahavishnu.groups.service import Groups
    from mahavishnu.http.replies import Replies
    from mahavishnu.letters.requeue import Requeues
    from mahavishnu.letters.transfer import Transfer
    from mahavishnu.monitoring.dashboard import Dashboard
    from mahavishnu.monitoring.service import Integrity, Telemetry
    from mahavishnu.monitoring.statistics import Trends
    from mahavishnu.queues.service import NamedQueues
    from mahavishnu.search.service import Search
    from mahavishnu.search.views import Views
    from mahavishnu.stores.kind import Kind
    from mahavishnu.workers.claims import Claims
    from mahavishnu.workers.processing import Processing
    from mahavishnu.workers.service import AdapterLimits, Workers

S = TypeVar("S")

__all__ = [
    "KINDS", "DLQFullError", "DeadLetterQueue", "DeadLetterStatus", "FailedTask", "LetterList", "QueueOptions",  # noqa: F822
    "RetryPolicy",
]  # fmt: skip
offer_kinds(room_kinds)
DLQFullError = QueueFull


@cache
def all_kinds() -> tuple[Kind[Any], ...]:
    """Return the kinds of records of all rooms, which are imported for it."""
    return (*stored_kinds(), WAITING)


def __getattr__(name: str) -> Any:
    if name == "KINDS":
        return all_kinds()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class DeadLetterQueue:
    """Letters in a store, and everything that can be done with them.

    The methods are what most programs need. The rest is in services: `letters` (find, edit, redrive, resolve …),
    `groups`, `claims` for remote workers, `workers` (who lives), `adapter_limits`, `requeues`, `transfer` (export
    and import), `audit`, `queues`, and for those who extend it `intake`, `processing` and the `context` that all of
    them are built from.

    Without a `store` and without an `opensearch_client` letters live in this process's memory. The store is opened at
    first use, or with `async with`; `shutdown` closes it. `options` say how it works: limits, classifier, callback …

    >>> import asyncio
    >>> async def main():
    ...     async with DeadLetterQueue(max_size=100) as dlq:
    ...         await dlq.enqueue("wf_1", {"type": "code_sweep"}, ["api"], "connection reset")
    ...         return (await dlq.get_task("wf_1")).error_category
    >>> asyncio.run(main())
    <ErrorCategory.NETWORK: 'network'>
    """

    home: DeadLetterQueue | None = None  #: whose letters these are, seen by somebody or in another namespace

    def __init__(
        self,
        max_size: int = 10_000,
        opensearch_client: Any = None,
        observability_manager: Any = None,
        *,
        store: Store | None = None,
        clock: Clock | None = None,
        options: QueueOptions | None = None,
    ) -> None:
        if store is not None and opensearch_client is not None:
            raise InvalidInput("give a store or an opensearch_client, not both")
        self.observability = observability_manager
        store = store or store_for(opensearch_client, all_kinds)
        if hasattr(store, "on_arrival"):  # a pair of stores: what was kept locally comes home for every kind
            for kind in all_kinds():
                store.collection(kind)
        self.context = QueueContext(store, clock or SystemClock(), max_size, options or QueueOptions())
        self.context.session.shutdown = self.shutdown
        if observability_manager is not None:
            self.telemetry.report_to(observability_manager)

    def in_namespace(self, namespace: str) -> DeadLetterQueue:
        """The same queue for letters of another namespace, which its own apps run. Raises InvalidInput for no name."""
        return self if namespace == self.namespace else self._with(self.context.in_namespace(namespace))

    def for_actor(self, principal: Principal) -> DeadLetterQueue:
        """The same queue as somebody sees it; what they may not do raises PermissionDenied, and is in the audit.

        It is for surfaces, which call its methods for that person, and no sandbox for code: `context` and `store` are
        the application's own.
        """
        self.context.audit.require_now("work")
        return self._with(self.context.for_actor(principal))

    def _with(self, context: QueueContext) -> DeadLetterQueue:
        other = DeadLetterQueue.__new__(DeadLetterQueue)
        other.observability, other.context, other.home = self.observability, context, self.home or self
        return other

    @property
    def all_namespaces(self) -> DeadLetterQueue:
        """The same queue for reading letters of all namespaces; what changes letters is refused, and names one."""
        return self.in_namespace(ALL_NAMESPACES)

    @property
    def namespace(self) -> str:
        """Whose letters these are; `*` for all."""
        return self.context.namespace

    # --- services, each made when it is first used: a program that only reads letters does not import the others

    letters: Service[LetterOperations] = Service(services)
    groups: Service[Groups] = Service(services)
    search: Service[Search] = Service(services)
    views: Service[Views] = Service(services)
    alerts: Service[Alerts] = Service(services)
    trends: Service[Trends] = Service(services)
    claims: Service[Claims] = Service(services)
    adapter_limits: Service[AdapterLimits] = Service(services)
    requeues: Service[Requeues] = Service(services)
    transfer: Service[Transfer] = Service(services)
    runs: Service[BulkRuns] = Service(services)
    workers: Service[Workers] = Service(services)
    closing: Service[Closing] = Service(services)
    queues: Service[NamedQueues] = Service(services)
    domain_events: Service[DomainEvents] = Service(services)
    intake: Service[LetterIntake] = Service(services)
    processing: Service[Processing] = Service(services)
    archive: Service[Archive] = Service(services)
    encryption: Service[EncryptionRenewal] = Service(services)
    dashboard: Service[Dashboard] = Service(services)
    integrity: Service[Integrity] = Service(services)
    replies: Service[Replies] = Service(services)
    telemetry: Service[Telemetry] = Service(services)
    deletion: Service[Deletion] = Service(services)
    audit: Service[AuditLog] = Service(services)
    _ledger = cached_property(lambda self: Ledger(self.context))

    def service(self, kind: type[S]) -> S:
        """Return the service of this class, which a room has registered; it needs no attribute here."""
        target = f"{kind.__module__}:{kind.__qualname__}"
        found: S = service_of(self, service_names()[target], target)
        return found

    def chores(self) -> Iterable[PeriodicTask]:
        """Return the periodic tasks of all rooms."""
        self.context.audit.require_now("work")
        return chores(self)

    # --- open and close

    @property
    def store(self) -> Store:
        """Where letters are kept."""
        return self.context.store

    @property
    def clock(self) -> Clock:
        """What time it is, for everything this queue does."""
        return self.context.clock

    @property
    def max_size(self) -> int:
        """How many open letters there may be in each namespace."""
        return self.context.capacities.max_size

    @max_size.setter
    def max_size(self, value: int) -> None:
        self.context.audit.require_now("work")
        self.context.capacities.max_size = value

    async def open(self) -> Self:
        """Make the store ready; twice is once. Raises what the store raises, MahavishnuError in a second event loop."""
        await self.context.open()
        return self

    async def shutdown(self) -> None:
        """Stop the processor, store what is in memory only if possible, close the store; the next use reopens it."""
        await self.context.require("work")
        if "processing" in vars(self):
            await self.stop_retry_processor()
        if "closing" in vars(self):
            await self.closing.finish()
        await self.context.events.flush()
        await self.context.session.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.context.principal is None:  # an actor's view goes, and the queue stays open
            await self.shutdown()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Have `listener(event)` called after each thing that happens here; the function returned ends it.

        It is called in a thread of its own, or awaited in the loop if it is a coroutine function. Nobody waits for it;
        if it is too slow, events are dropped and counted. Closing the queue waits for it for a few seconds. An actor
        hears of the letters that they see.
        """
        return self.context.events.listen(listener, self.context.show_event)

    def register_backoff(self, name: str, function: Backoff) -> None:
        """Make `custom:<name>` a retry policy. Letters keep the name: register it in every process that retries."""
        self.context.audit.require_now("work")
        self.context.backoffs = self.context.backoffs.with_custom(name, function)

    # --- letters come in

    async def enqueue(
        self,
        task_id: str,
        task: Any,
        repos: Sequence[str],
        error: BaseException | str,
        retry_policy: RetryPolicy | str | None = None,
        max_retries: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        error_category: ErrorCategory | str | None = None,
        *,
        priority: int | None = None,
        depends_on: Sequence[str] = (),
        namespace: str | None = None,
        queue: str = DEFAULT_QUEUE,
        reason: DlqReason | str = DlqReason.WORKFLOW_FAILED,
        source: Source | None = None,
        adapter: str | None = None,
        payload_types: Mapping[str, str] | None = None,
    ) -> DeadLetter:
        """Keep a failed task. The letter is durable when this returns.

        `adapter` names what is to run it again; without it, the `adapter` that the task names. `payload_types` says how
        a task is read that was written as JSON elsewhere.

        A failure of a task that has an open letter is merged into it; of one whose letter is closed, starts the next
        generation. Raises InvalidInput for what cannot be kept, DLQFullError if there is no room, StoreError.
        """
        from mahavishnu.capture.capture import LetterIntake
        from mahavishnu.values.typed_edit import require_types  # what only reads letters does not wait for it

        request = LetterRequest(
            task_id=task_id,
            task=task,
            repos=repos,
            retry_policy=retry_policy,
            max_retries=max_retries,
            metadata=metadata,
            priority=priority,
            depends_on=depends_on,
            namespace=namespace,
            queue=queue,
            reason=reason,
            source=source or Source(),
            adapter=adapter,
            payload_types=Json.of(require_types(payload_types)) if payload_types else EMPTY,
        )
        if "encrypted" in (payload_types or {}).values():
            raise InvalidInput(
                "payload_types: a ciphertext belongs to the letter that it was made for; give the value in clear, and "
                "name it in encryption.fields"
            )
        return self.context.show((await LetterIntake(self.context).enqueue(request, error, error_category)).letter)

    # --- letters are read

    async def get_task(
        self, task_id: str, *, include_archived: bool = False, namespace: str | None = None, queue: str = DEFAULT_QUEUE
    ) -> DeadLetter | None:
        """The letter of a task as it is now, or None. Raises StoreError rather than guess while the store is away."""
        await self.context.open()
        if namespace is None and self.namespace == ALL_NAMESPACES:
            namespace = await reads.only_namespace(self.context.letters, task_id, queue)
            if namespace is None:
                return None
        letter = await get_one(self.context.letters, self.context.key(task_id, namespace, queue))
        if letter is None or (letter.status is DeadLetterStatus.ARCHIVED and not include_archived):
            return None
        return await self.context.hand_out(letter)

    async def list_tasks(
        self,
        status: DeadLetterStatus | str | None = None,
        limit: int | None = None,
        *,
        query: Query | None = None,
        **filters: Any,
    ) -> LetterList:
        """Letters, newest first: the open ones, or those of a `status`; `limit` None means all of them.

        `filters` are those of `mahavishnu.model.query.letter_query`; a `query` says everything itself. Raises
        InvalidInput for an unknown status or filter.
        """
        await self.context.open()
        return await reads.collect(self.context, reads.list_query(status, query, filters), limit)

    async def get_statistics(self) -> dict[str, Any]:
        """The queue in numbers: size, breakdowns, lifetime, processor, breakers, storage."""
        await self.open()
        home = self.home or self
        processor = home.processing.processor if self.context.is_at_home and "processing" in vars(home) else None
        return await numbers.queue_statistics(self.context, self._ledger, processor, self.workers)

    async def get_statistics_by_reason(self) -> ReasonLines:
        """One line for each reason that letters were written for; its `degraded` says why numbers may be wrong."""
        await self.context.open()
        return await count_by_reason(self.context.letters)

    async def health(self) -> Health:
        """How the store is. Never raises."""
        return await numbers.store_health(self.context)

    async def health_warnings(self, stats: Mapping[str, Any] | None = None) -> list[str]:
        """What a person should look at: groups that grow or are back, then what the numbers, or `stats` of now, say."""
        by_number = numbers.warnings(stats or await self.get_statistics())
        return [*await self.groups.warnings(), *by_number]

    # --- letters are run

    @property
    def _processing(self) -> Processing:
        """The processor of the process, once it is known what who acts may do."""
        from mahavishnu.workers.processing import processing_of

        return processing_of(self)

    async def start_retry_processor(
        self,
        callback: Workflow | None = None,
        check_interval_seconds: float | None = None,
        *,
        queue: str | Iterable[str] | None = None,
    ) -> None:
        """Retry due letters, of this `queue` or these, with `callback(task, repos)` from now on.

        The callback fails by raising, or by a result that says so. Starting twice keeps one processor. Raises
        InvalidInput if no callback was ever given.
        """
        await self.context.require("work")
        await self.processing.start(callback, check_interval_seconds, queue)

    async def stop_retry_processor(self) -> None:
        """Take no more letters; what runs may end for a while, what does not is given back unused."""
        await self.context.require("work")
        await self.processing.stop()

    async def run_due(self, *, queue: str | Iterable[str] | None = None) -> int:
        """Run everything due now, of this `queue` or these, in one cycle. Returns how many ran. Raises InvalidInput."""
        if self.context.principal is not None:
            await self.context.require("work")
        return await self.processing.run_due(queue)

    async def retry_task(self, task_id: str, *, force: bool = False, **act: Unpack[Act]) -> dict[str, Any]:
        """Run a pending or exhausted letter now, without using up its automatic retries.

        Answers `{"success": True, "result": …}` or `{"success": False, "error": why}`, and raises only StoreError and
        InvalidInput. Refuses while a circuit is open, and while the owner of a lease that ended may still live, unless
        `force`. The result is hidden from who may not see payloads.
        """
        await reads.require_seen(self.context, "retry", task_id, act)
        ran = await self._processing.retry(task_id, force=force, **act)
        return ran if self.context.sees_payloads or "result" not in ran else {**ran, "result": HIDDEN.value}

    def configure(
        self, *, limits: Limits | None = None, breakers: Breakers | None = None, keep_interval: bool = False
    ) -> None:
        """Use other limits from the next cycle on; `keep_interval` keeps that of `start_retry_processor`."""
        self.processing.configure(limits=limits, breakers=breakers, keep_interval=keep_interval)

    # --- people decide

    async def archive_task(self, task_id: str, **act: Unpack[Act]) -> bool:
        """Put a letter away. False if there is none, or it is archived already. Raises IllegalMove while it is run."""
        try:
            await self.letters.archive(task_id, **act)
        except NoSuchLetter:
            return False
        except IllegalMove as problem:
            if problem.state != DeadLetterStatus.ARCHIVED:
                raise
            return False
        return True

    async def resurrect(self, task_id: str, **act: Unpack[Act]) -> DeadLetter:
        """Give an exhausted letter fresh attempts, the first one due now; take an archived one out for them."""
        return await self.letters.resurrect(task_id, **act)

    async def archive_exhausted(self, older_than_days: float = 7, **options: Any) -> BulkResult:
        """Put away what has been exhausted for so long."""
        return await self.letters.archive_exhausted(older_than_days, **options)

    async def requeue_from_dlq(
        self,
        task_id: str,
        max_dlq_retries: int | None = None,
        priority_boost: int | None = None,
        resolved_by: str = BY_RULE,
        *,
        notes: str | None = None,
        namespace: str | None = None,
        queue: str = DEFAULT_QUEUE,
    ) -> dict[str, Any]:
        """Send a task back: pending, due now, with fresh attempts and a higher priority; see `Requeues.requeue`."""
        return await self.requeues.requeue(
            task_id, max_dlq_retries, priority_boost, resolved_by, notes=notes, namespace=namespace, queue=queue
        )

    async def clear_all(self, *, by: str = DEFAULT_ACTOR, notes: str | None = None) -> int:
        """Delete every open letter of the namespace with its revisions, and what waits to become one. Returns how many.

        The outcomes of those that are being run are refused. Raises StoreError if not all of them can be reached:
        nothing is said to be cleared that is still there.
        """
        return await self.deletion.clear_all(by=by, notes=notes)
