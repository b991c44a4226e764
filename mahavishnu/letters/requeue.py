"""Sends work back with a higher priority: on somebody's behalf, or by the rule of `auto_requeue`."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial
from typing import Any

from mahavishnu.engine.audit import AuditRecord
from mahavishnu.engine.breaker import CircuitState
from mahavishnu.engine.context import QueueContext
from mahavishnu.engine.moves import move_many, scan_readable
from mahavishnu.engine.periodic import PeriodicTask
from mahavishnu.engine.queue import LetterQueue
from mahavishnu.letters.ledger import add_up_closed
from mahavishnu.letters.rules import BY_RULE, RequeueRules
from mahavishnu.model import lifecycle
from mahavishnu.model.errors import AlreadyResolved, IllegalMove, InvalidInput, MahavishnuError, NoSuchLetter
from mahavishnu.model.events import EventName
from mahavishnu.model.ids import DEFAULT_QUEUE
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import Query
from mahavishnu.stores.base import update_with_retry
from mahavishnu.tasks.service import Lifecycle

log = logging.getLogger(__name__)
DONE = "Task requeued successfully"
NOT_OPEN = "Task not found in DLQ or already resolved"
BEYOND = "Max DLQ retries exceeded"
BEING_RUN = "Task is being retried right now"
_NAMED_LETTERS = 50  # that one audit entry of the rule names


_REQUEUE_SECONDS = 60.0
_SUMS_SECONDS = 60.0


class Requeues:
    """Sends work back, under the limits and by the rule of `context.rules(RequeueRules)`."""

    def __init__(self, context: QueueContext) -> None:
        self._context, self._letters, self._clock = context, context.letters, context.clock

    async def requeue(
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
        """Send a task back: pending, due now, with fresh attempts and a higher priority, until an attempt has ended.

        Beyond `max_dlq_retries` requeues of this task, mark it as failed instead. Both numbers default to the settings
        (3 and 10). Return `success`, `message`, `new_task_state` (`pending`; `error` when marked as failed; `retrying`
        while it is running; None where there is nothing to send back) and `dlq_retry_count`; for None `why` is the
        cause: there is no letter, it is closed, or it was sent back already. Raise InvalidInput for numbers below 0,
        and StoreError.

        >>> await dlq.requeue_from_dlq("wf_1", resolved_by="ann")  # doctest: +SKIP
        {'success': True, 'message': 'Task requeued successfully', 'new_task_state': 'pending', 'dlq_retry_count': 1}
        """
        limit = _require_count("max_dlq_retries", max_dlq_retries, self._context.rules(RequeueRules).max_dlq_retries)
        boost = _require_count("priority_boost", priority_boost, self._context.rules(RequeueRules).dlq_priority_boost)
        key = self._context.key(task_id, namespace, queue)
        seen: DeadLetter | None = None

        def change(current: DeadLetter) -> DeadLetter:
            nonlocal seen
            seen, now = current, self._clock.now()
            return lifecycle.requeue(current, now=now, by=resolved_by, boost=boost, limit=limit, notes=notes)

        subject = f"letter:{key}"
        async with self._context.audit.record(
            "requeue", subject, by=resolved_by, reason=notes, where=namespace
        ) as record:
            try:
                requeued = await update_with_retry(self._letters, key, change)
            except AlreadyResolved as closed:
                return _not_open(str(closed), record)
            except IllegalMove as problem:
                assert seen is not None
                record.refuse(str(problem))
                return _answer(BEING_RUN, str(seen.status), seen.dlq_retry_count)
            if requeued is None:
                return _not_open(str(NoSuchLetter(key)), record)
            after = requeued.after
            record.add_change(requeued.before, after)
            self._announce(after)
            await self._bring_task_back(after)
            if not after.is_open:
                record.refuse(BEYOND)
                return _answer(BEYOND, "error", after.dlq_retry_count)
        return _answer(DONE, str(after.status), after.dlq_retry_count, success=True)

    async def _bring_task_back(self, letter: DeadLetter) -> None:
        if letter.source.state is None:  # it is of no lifecycle task
            return
        try:
            await Lifecycle(self._context).handover.follow(letter)
        except MahavishnuError as problem:  # the letter is requeued: workers bring its task back soon, or run it
            log.warning("the lifecycle task of letter %r is not back yet: %s", letter.key, problem)

    async def requeue_exhausted(self) -> int:
        """Send back what the rule of `auto_requeue` means now, as the processor does by itself. Return how many."""
        await self._context.require("work")
        await self._context.open()
        rules, sent = self._context.rules(RequeueRules), 0
        for query in rules.queries(self._clock.now()):
            if await self._any_due(query):  # what is only left alone is no act
                async with self._context.audit.record("requeue", "queue", by=BY_RULE, via="rule") as record:
                    done = (await move_many(self._letters, query, self._requeue_by_rule, moved=self._announce)).done
                    record.add(requeued=len(done), letters=done[:_NAMED_LETTERS])
                    sent += len(done)
        return sent

    async def outcomes(self) -> dict[str, int]:
        """Return the outcomes of requeues: letters in flight, succeeded, failed again, or closed before."""
        await self._context.open()
        tally = await self._letters.tally(Query(), ["requeue_outcome"])
        return {str(outcome): cell.count for outcome, cell in tally.by(0).items() if outcome is not None}

    async def _any_due(self, query: Query) -> bool:
        async for letter in scan_readable(self._letters, query):
            if self._objection(letter) is None:
                return True
        return False

    def _objection(self, letter: DeadLetter) -> str | None:
        why = self._context.rules(RequeueRules).objection(letter, self._clock.now())
        circuit = letter.circuit
        if why is None and self._context.breakers.state(circuit, self._clock.monotonic()) is CircuitState.OPEN:
            why = f"the circuit of adapter {circuit!r} is open"
        return why

    def _requeue_by_rule(self, current: DeadLetter) -> DeadLetter:
        """Requeue the letter as it is when it is written: of several sweepers one sends it back."""
        if why := self._objection(current):
            raise IllegalMove(current.key, "requeue", current.status, why)
        rules, now = self._context.rules(RequeueRules), self._clock.now()
        boost, limit = rules.dlq_priority_boost, rules.max_dlq_retries
        return lifecycle.requeue(current, now=now, by=BY_RULE, boost=boost, limit=limit, automatic=True)

    def _announce(self, letter: DeadLetter) -> None:
        if not letter.is_open:
            self._context.announce(EventName.RESOLVED, letter, by=letter.resolution.by, notes=letter.resolution.notes)
            return
        assert letter.requeue is not None
        self._context.announce(
            EventName.REQUEUED,
            letter,
            reason="dlq_requeue",
            dlq_entry_uuid=letter.entry_id,
            retry_count=letter.dlq_retry_count,
            priority_boost=letter.requeue.boost,
            resolved_by=letter.requeue.by,
        )


def _require_count(name: str, given: object, otherwise: int) -> int:
    value = otherwise if given is None else given
    if type(value) is not int or value < 0:
        raise InvalidInput(f"{name} must be a whole number from 0, not {value!r:.80}")
    return value


def _not_open(why: str, record: AuditRecord) -> dict[str, Any]:
    record.refuse(f"{NOT_OPEN}: {why}")
    return {**_answer(NOT_OPEN, None, 0), "why": why}


def _answer(message: str, state: str | None, count: int, *, success: bool = False) -> dict[str, Any]:
    return {"success": success, "message": message, "new_task_state": state, "dlq_retry_count": count}


def chores(queue: LetterQueue) -> Iterable[PeriodicTask]:
    """Return the periodic tasks of letters."""
    return (
        PeriodicTask("automatic requeues", queue.service(Requeues).requeue_exhausted, lambda: _REQUEUE_SECONDS),
        PeriodicTask("the sums of closed letters", partial(add_up_closed, queue.context), lambda: _SUMS_SECONDS),
    )
