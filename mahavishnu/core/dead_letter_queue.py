"""The dead-letter queue: what an app, a person or a worker can do with letters.

Every surface (Python, command line, HTTP, pages) calls these methods. They read, decide with the rules of
`mahavishnu.model`, write by compare-and-set, and tell the listeners.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from mahavishnu.adapters.base import Workflow
from mahavishnu.bulk.service import Bulk
from mahavishnu.classify.assess import Assessor, context_for
from mahavishnu.classify.chain import Chain
from mahavishnu.core.queue import deletion, reads
from mahavishnu.core.queue import statistics as numbers
from mahavishnu.core.queue.claims import Claiming
from mahavishnu.core.queue.editing import Editing
from mahavishnu.core.queue.groups import Grouping
from mahavishnu.core.queue.operations import ByHand, told
from mahavishnu.core.queue.reads import LetterList
from mahavishnu.core.queue.replies import REPLIES, Replies
from mahavishnu.core.queue.requeue import Requeueing
from mahavishnu.core.queue.transfer import Transfer
from mahavishnu.engine.breaker import Breakers
from mahavishnu.engine.context import DEFAULT_ACTOR, QueueContext, QueueOptions
from mahavishnu.engine.dependencies import blocked_by, refuse_circle
from mahavishnu.engine.event_bus import reporting_to
from mahavishnu.engine.letter_factory import LetterFactory, LetterRequest
from mahavishnu.engine.limits import Limits
from mahavishnu.engine.moves import BulkResult, move_many
from mahavishnu.engine.recorder import CaptureKind, CaptureResult
from mahavishnu.engine.store_session import store_for
from mahavishnu.engine.waiting_room import WAITING
from mahavishnu.model import backoff, lifecycle
from mahavishnu.model.backoff import Backoff, BackoffRegistry
from mahavishnu.model.clock import Clock, SystemClock
from mahavishnu.model.errors import InvalidInput, NoSuchLetter, QueueFull, StoreError
from mahavishnu.model.events import Event, EventName, Listener
from mahavishnu.model.ids import DEFAULT_NAMESPACE, DEFAULT_QUEUE, document_key
from mahavishnu.model.json_value import texts
from mahavishnu.model.letter import DeadLetter, FailedTask
from mahavishnu.model.letter_parts import DeadLetterStatus, DlqReason, ErrorCategory, RetryPolicy, Source, Verdict
from mahavishnu.model.query import Query, query_to_json, require_query
from mahavishnu.model.requeue_rules import RequeueRules
from mahavishnu.stores.base import Cursor, Health, Page, Result, Store, get_one
from mahavishnu.stores.kinds import KINDS as STORED

__all__ = ["KINDS", "DLQFullError", "DeadLetterQueue", "DeadLetterStatus", "FailedTask", "LetterList", "RetryPolicy"]
log = logging.getLogger(__name__)
KINDS = (*STORED, WAITING)
DLQFullError = QueueFull
_CAPTURED = {
    CaptureKind.CREATED: EventName.CAPTURED,
    CaptureKind.MERGED: EventName.MERGED,
    CaptureKind.REOPENED: EventName.REOPENED,
}


class DeadLetterQueue(ByHand, Editing, Grouping, Bulk, Requeueing, Claiming, Transfer):
    """Letters in a store, and everything that can be done with them.

    Without a `store` and without an `opensearch_client` letters live in this process's memory. The store is opened at
    first use, or with `async with`; `shutdown` closes it.

    >>> import asyncio
    >>> async def main():
    ...     async with DeadLetterQueue(max_size=100) as dlq:
    ...         await dlq.enqueue("wf_1", {"type": "code_sweep"}, ["api"], "connection reset")
    ...         return (await dlq.get_task("wf_1")).error_category
    >>> asyncio.run(main())
    <ErrorCategory.NETWORK: 'network'>
    """

    def __init__(
        self,
        max_size: int = 10_000,
        opensearch_client: Any = None,
        observability_manager: Any = None,
        *,
        store: Store | None = None,
        clock: Clock | None = None,
        chain: Chain | None = None,
        intake: LetterFactory | None = None,
        limits: Limits | None = None,
        breakers: Breakers | None = None,
        requeues: RequeueRules | None = None,
        backoffs: BackoffRegistry = backoff.DEFAULT,
        owner: str | None = None,
        callback: Workflow | None = None,
    ) -> None:
        if store is not None and opensearch_client is not None:
            raise InvalidInput("give a store or an opensearch_client, not both")
        self.observability = observability_manager
        options = QueueOptions(chain, intake, limits, breakers, requeues, backoffs, owner, callback)
        store = store or store_for(opensearch_client, KINDS)
        self.context = QueueContext(store, clock or SystemClock(), max_size, options)
        self.audit = self.context.audit
        self.replies = Replies(self.store.collection(REPLIES), self.clock)
        self._prepare_processing()
        self._prepare_runs(self.context.history)
        if observability_manager is not None:
            self.context.events.subscribe(reporting_to(observability_manager))

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
        """How many open letters there may be."""
        return self.context.capacity.max_size

    @max_size.setter
    def max_size(self, value: int) -> None:
        self.context.capacity.max_size = value

    async def open(self) -> Self:
        """Make the store ready; doing it twice is doing it once. Raises what the store raises.

        One event loop after the other may use a queue. Raises MahavishnuError while another one is running.
        """
        await self.context.open()
        return self

    async def shutdown(self) -> None:
        """Stop the processor and close the store; the next use opens it again.

        What is in memory only, because OpenSearch was away, is written to it before that if it can be.
        """
        await self.stop_retry_processor()
        await self.context.session.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.shutdown()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Have `listener(event)` called after each thing that happens here; the function returned ends it."""
        return self.context.events.subscribe(listener)

    def register_backoff(self, name: str, function: Backoff) -> None:
        """Make `custom:<name>` a retry policy. Letters keep the name: register it in every process that retries."""
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
        namespace: str = DEFAULT_NAMESPACE,
        queue: str = DEFAULT_QUEUE,
        reason: DlqReason | str = DlqReason.WORKFLOW_FAILED,
        source: Source | None = None,
    ) -> DeadLetter:
        """Keep a failed task. The letter is durable when this returns.

        A failure of a task that has an open letter is merged into it; of one whose letter is closed, starts the next
        generation. Raises InvalidInput for what cannot be kept, DLQFullError if there is no room, StoreError.
        """
        wanted = LetterRequest(
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
        )
        now = self.clock.now()
        context = context_for(now, task_id, task, repos=texts(repos, f"repos of task {task_id!r:.80}"))
        assessment = await Assessor(self.context.chain).assess(error, now, context, error_category)
        fresh = self.context.letter_factory.make(wanted, assessment, now, backoffs=self.context.backoffs)
        return (await self.capture(fresh)).letter

    async def capture(self, fresh: DeadLetter) -> CaptureResult:
        """Store a letter that `intake` made, and say how. Raises DLQFullError, InvalidInput, StoreError."""
        await self.context.open()  # first: also what is too large has to wait somewhere
        self.context.letter_factory.check_size(fresh)
        if fresh.depends_on:
            await refuse_circle(self.context.letters, fresh)
        if warning := self.context.backoffs.problem_with(fresh.retry_policy):
            log.warning("letter %r: %s", fresh.key, warning)
        try:
            captured = await self.context.recorder.record(fresh, fresh.failures[-1])
        except QueueFull:
            self.context.counts["rejected_full"] += 1
            raise
        self.context.announce(_CAPTURED[captured.kind], captured.letter)
        return captured

    async def create(self, fresh: Sequence[DeadLetter]) -> list[Result[DeadLetter]]:
        """Store letters that `intake` made by one call, as far as that is enough; None for each that needs `capture`.

        Those that are stored are told by `created`. Raises StoreError if the store could take none.
        """
        await self.context.open()
        plain = [each for each in fresh if self._is_plain(each)]
        stored = await self.context.recorder.record_new(plain) if plain else []
        if len(plain) == len(fresh):
            return stored
        results = {id(each): result for each, result in zip(plain, stored, strict=True)}
        return [results.get(id(each)) for each in fresh]

    def created(self, letter: DeadLetter) -> None:
        """Tell of a letter that `create` stored."""
        self.context.announce(EventName.CAPTURED, letter)

    def _is_plain(self, fresh: DeadLetter) -> bool:
        """Whether nothing has to be looked at but the place where it goes."""
        known = self.context.backoffs.problem_with(fresh.retry_policy) is None
        return known and not fresh.depends_on and self.context.letter_factory.fits(fresh)

    def skipped(self, task_id: str, reason: str) -> None:
        """A failure was not kept, because the strategy said so: it is counted, logged and told."""
        self.context.counts["skipped_by_strategy"] += 1
        log.info("the failure of task %r is not kept: %s", task_id, reason)
        self.context.events.publish(
            Event(EventName.SKIPPED, self.clock.now(), None, {"task_id": task_id, "reason": reason})
        )

    async def admit(self) -> int:
        """Let in what waits for room, as far as there is some. Returns how many."""
        await self.context.open()
        if not self.context.admits_waiting:
            return 0
        admitted = await self.context.waiting.admit(self.context.letter_factory.max_task_bytes)
        for letter in admitted:
            self.context.announce(EventName.CAPTURED, letter, waited=True)
        return len(admitted)

    # --- letters are looked at

    async def get_task(
        self,
        task_id: str,
        *,
        include_archived: bool = False,
        namespace: str = DEFAULT_NAMESPACE,
        queue: str = DEFAULT_QUEUE,
    ) -> DeadLetter | None:
        """The letter of a task as it is now, or None. Raises StoreError rather than guess while the store is away."""
        await self.context.open()
        letter = await get_one(self.context.letters, document_key(task_id, namespace, queue))
        if letter is None or (letter.status is DeadLetterStatus.ARCHIVED and not include_archived):
            return None
        return letter

    async def list_tasks(
        self,
        status: DeadLetterStatus | str | None = None,
        limit: int | None = None,
        *,
        query: Query | None = None,
        **filters: Any,
    ) -> LetterList:
        """Letters, newest first: the open ones, or those of a `status`; `limit` None means all of them.

        `filters` are those of `mahavishnu.model.query.letters`; a `query` says everything itself. Raises InvalidInput
        for a status or filter that there is not.
        """
        await self.context.open()
        return await reads.listed(self.context.letters, reads.listing(status, query, filters), limit)

    async def find(
        self, query: Query, after: Cursor | None = None, *, offset: int = 0, most_bytes: int | None = None
    ) -> Page[DeadLetter]:
        """One page of letters, and where the next one begins; an `offset` steps over the first ones. A page ends early,
        but not before its first letter, when its letters have more than about `most_bytes`.

        Raises InvalidInput for an offset below 0, InvalidQuery for what letters cannot be searched by.
        """
        await self.context.open()
        return await reads.page(self.context.letters, require_query(query), after, offset, most_bytes)

    async def blocked_by(
        self, task_id: str, *, namespace: str = DEFAULT_NAMESPACE, queue: str = DEFAULT_QUEUE
    ) -> list[str]:
        """The tasks that the letter of this task waits for. Raises NoSuchLetter."""
        await self.context.open()
        key = document_key(task_id, namespace, queue)
        letter = await get_one(self.context.letters, key)
        if letter is None:
            raise NoSuchLetter(key)
        return await blocked_by(self.context.letters, letter)

    async def get_statistics(self) -> dict[str, Any]:
        """The queue in numbers: size, breakdowns, lifetime, processor, breakers, storage."""
        await self.context.open()
        tally = await self.context.letters.tally(Query(), numbers.GROUPS, sums=numbers.SUMS)
        deleted = await deletion.left_behind(self.context.letters, self.context.ledger)
        health = await self.store.health()
        return {
            **numbers.statistics(tally, self.max_size, deleted, self.context.counts),
            "is_processor_running": self._processor is not None and self._processor.is_running,
            "retry_interval_seconds": self.context.limits.interval_seconds,
            "circuit_breakers": dict(self.context.breakers.report(self.clock.monotonic())),
            "processor": dict(self._processor.counts) if self._processor else {},
            "waiting": await self.context.waiting.count(),
            "storage_mode": health.status,
            "storage": {"detail": health.detail, "kept_locally": health.waiting, "oldest": health.oldest},
            "degraded": tally.degraded,
        }

    async def get_statistics_by_reason(self) -> numbers.ReasonLines:
        """One line for each reason that letters were written for; its `degraded` says why numbers may be wrong."""
        await self.context.open()
        tally = await self.context.letters.tally(
            Query(), numbers.BY_REASON, sums=["dlq_retry_count"], spans=["created_at"]
        )
        return numbers.by_reason(tally)

    async def requeue_outcomes(self) -> dict[str, int]:
        """What came of requeues: how many letters are in flight, succeeded, failed again, or were closed before."""
        await self.context.open()
        tally = await self.context.letters.tally(Query(), ["requeue_outcome"])
        return {str(outcome): cell.count for outcome, cell in tally.by(0).items() if outcome is not None}

    async def health(self) -> Health:
        """How the store is. Never raises."""
        try:
            await self.context.open()
        except StoreError as problem:
            return Health("down", str(problem))
        return await self.store.health()

    async def health_warnings(self, stats: Mapping[str, Any] | None = None) -> list[str]:
        """What a person should look at now, what matters most first: groups that grow, groups that are back, then what
        the numbers say. Empty if all is well. `stats`: of now, if they are known already.
        """
        stats = stats or await self.get_statistics()
        return await self._group_warnings() + numbers.warnings(stats)

    # --- all of them

    async def clear_all(self, *, by: str = DEFAULT_ACTOR, notes: str | None = None) -> int:
        """Delete every open letter with its revisions, and what waits to become one. Returns how many.

        Their runs' outcomes are refused.

        Raises StoreError if not all of them can be reached: nothing is said to be cleared that is still there.
        """
        async with self.context.audit.record("clear", "queue", by=by, reason=notes) as record:
            shelves = deletion.Shelves(
                self.context.letters, self.context.ledger, self.context.history, self.context.revisions
            )
            cleared = await reads.cleared(shelves, self.context.waiting, self.clock.now(), by)
            self.context.events.publish(Event(EventName.CLEARED, self.clock.now(), None, {"by": by, "count": cleared}))
            record.add(cleared=cleared)
        return cleared

    async def reclassify(
        self,
        query: Query | None = None,
        *,
        dry_run: bool = True,
        by: str = "reclassify",
        notes: str | None = None,
        **filters: Any,
    ) -> BulkResult:
        """Ask the classifier again about open letters, after plugins or rules have changed. Dry by default.

        `done` are those whose category, policy or budget changes; the others are not listed.
        """
        await self.context.open()
        query = reads.listing(None, query, filters)
        as_they_are: set[str] = set()

        def change(letter: DeadLetter) -> DeadLetter:
            verdict = Assessor(self.context.chain).reconsider(letter)
            if verdict is None:
                as_they_are.add(letter.key)
                raise InvalidInput(f"the classifier says of letter {letter.key!r} what it said before")
            as_they_are.discard(letter.key)
            return lifecycle.reclassify(
                letter,
                now=self.clock.now(),
                category=verdict.category,
                verdict=Verdict(verdict.reason, verdict.author),
                retry_policy=verdict.policy,
                max_retries=verdict.max_retries,
                backoffs=self.context.backoffs,
            )

        async def reconsidered() -> BulkResult:
            result = await move_many(
                self.context.letters,
                query,
                change,
                everything=True,
                dry_run=dry_run,
                moved=lambda letter: self.context.announce(EventName.EDITED, letter, by=by),
            )
            for key in as_they_are:
                result.refused.pop(key, None)
            return result

        if dry_run:
            return await reconsidered()
        async with self.context.audit.record("reclassify", "queue", by=by, reason=notes) as record:
            record.add(query=query_to_json(query)["where"])
            result = await reconsidered()
            record.add(**told(result))
        return result
