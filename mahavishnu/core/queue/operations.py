"""What people do with letters: one at a time by task id, or all that a query means."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from mahavishnu.engine.context import DEFAULT_ACTOR, QueueContext
from mahavishnu.engine.moves import BulkResult, move, move_many
from mahavishnu.engine.verbs import ARCHIVE, CANCEL, FAIL, REDRIVE, REDRIVE_THIS, RESOLVE, RESURRECT, Verb
from mahavishnu.model.errors import IllegalMove, InvalidInput, NoSuchLetter
from mahavishnu.model.ids import DEFAULT_NAMESPACE, DEFAULT_QUEUE, document_key
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus
from mahavishnu.model.query import Between, Is, Query, filter_query, query_to_json, require_query

_TOLD = 50  # keys of moved letters that the audit names


class ByHand:
    """The part of `DeadLetterQueue` that moves letters on somebody's behalf.

    Every method raises NoSuchLetter for a task without a letter, IllegalMove for what its state does not allow (naming
    both), and StoreError. `by` is who wants it; it is kept on the letter with the `notes`.
    """

    context: QueueContext

    async def archive_task(
        self,
        task_id: str,
        *,
        by: str = DEFAULT_ACTOR,
        notes: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        queue: str = DEFAULT_QUEUE,
    ) -> bool:
        """Put a letter away. False if there is none, or it is archived already. Raises IllegalMove while it is run."""
        try:
            await self.archive(task_id, by=by, notes=notes, namespace=namespace, queue=queue)
        except NoSuchLetter:
            return False
        except IllegalMove as problem:
            if problem.state != DeadLetterStatus.ARCHIVED:
                raise
            return False
        return True

    async def archive(
        self,
        task_id: str,
        *,
        by: str = DEFAULT_ACTOR,
        notes: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        queue: str = DEFAULT_QUEUE,
    ) -> DeadLetter:
        """Put a letter away, as `archive_task`, and get it as it is then."""
        return await self._moved(ARCHIVE, task_id, namespace, queue, by, notes)

    async def redrive(
        self,
        task_id: str,
        *,
        by: str = DEFAULT_ACTOR,
        notes: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        queue: str = DEFAULT_QUEUE,
    ) -> DeadLetter:
        """Fresh attempts, the first one due now, whether it waits, is exhausted, was given up or put away."""
        return await self._moved(REDRIVE_THIS, task_id, namespace, queue, by, notes)

    async def resurrect(
        self,
        task_id: str,
        *,
        by: str = DEFAULT_ACTOR,
        notes: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        queue: str = DEFAULT_QUEUE,
    ) -> DeadLetter:
        """Give an exhausted letter fresh attempts, the first one due now; take an archived one out for them."""
        return await self._moved(RESURRECT, task_id, namespace, queue, by, notes)

    async def resolve(
        self,
        task_id: str,
        *,
        by: str = DEFAULT_ACTOR,
        notes: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        queue: str = DEFAULT_QUEUE,
    ) -> DeadLetter:
        """Close the case: a person settled it otherwise."""
        return await self._moved(RESOLVE, task_id, namespace, queue, by, notes)

    async def fail(
        self,
        task_id: str,
        *,
        by: str = DEFAULT_ACTOR,
        notes: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        queue: str = DEFAULT_QUEUE,
    ) -> DeadLetter:
        """Close the case: it will never work, and is kept for analysis."""
        return await self._moved(FAIL, task_id, namespace, queue, by, notes)

    async def cancel(
        self,
        task_id: str,
        *,
        by: str = DEFAULT_ACTOR,
        notes: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        queue: str = DEFAULT_QUEUE,
    ) -> DeadLetter:
        """Close the case: nobody wants the work any more."""
        return await self._moved(CANCEL, task_id, namespace, queue, by, notes)

    async def retry_many(
        self, query: Query | None = None, *, by: str = DEFAULT_ACTOR, notes: str | None = None, **options: Any
    ) -> BulkResult:
        """Give every open letter that the query means fresh attempts, due now."""
        return await self._many(REDRIVE, query, options, by, notes)

    async def archive_many(
        self, query: Query | None = None, *, by: str = DEFAULT_ACTOR, notes: str | None = None, **options: Any
    ) -> BulkResult:
        """Put every letter that the query means away.

        The bulk verbs take a `query`, or filters as `mahavishnu.model.query.letters` has them; without either,
        `everything=True` has to say that this is meant. `dry_run=True` changes nothing, `cap` ends it early.
        """
        return await self._many(ARCHIVE, query, options, by, notes)

    async def resolve_many(
        self, query: Query | None = None, *, by: str = DEFAULT_ACTOR, notes: str | None = None, **options: Any
    ) -> BulkResult:
        """Close every case that the query means as settled otherwise."""
        return await self._many(RESOLVE, query, options, by, notes)

    async def cancel_many(
        self, query: Query | None = None, *, by: str = DEFAULT_ACTOR, notes: str | None = None, **options: Any
    ) -> BulkResult:
        """Close every case that the query means as no longer wanted."""
        return await self._many(CANCEL, query, options, by, notes)

    async def archive_exhausted(
        self, older_than_days: float = 7, *, by: str = DEFAULT_ACTOR, notes: str | None = None, **options: Any
    ) -> BulkResult:
        """Put away what has been exhausted for so long."""
        try:
            before = self.context.clock.now() - timedelta(days=older_than_days)
        except (TypeError, ValueError, OverflowError) as problem:
            raise InvalidInput(f"{older_than_days!r:.80} is no number of days: {problem}") from None
        query = Query((Is("status", (DeadLetterStatus.EXHAUSTED,)), Between("exhausted_at", below=before)))
        return await self._many(ARCHIVE, query, options, by, notes)

    async def _moved(
        self, verb: Verb, task_id: str, namespace: str, queue: str, by: str, notes: str | None
    ) -> DeadLetter:
        key = document_key(task_id, namespace, queue)
        async with self.context.audit.record(verb.name, f"letter:{key}", by=by, reason=notes) as record:
            before: DeadLetter | None = None

            def change(current: DeadLetter) -> DeadLetter:
                nonlocal before
                before = current
                return verb.change(current, self.context.clock.now(), by, notes)

            after = await move(self.context.letters, key, change)
            if after is None or before is None:
                raise NoSuchLetter(key)
            self.context.announce(verb.event, after, by=by, notes=notes, was_open=before.is_open)
            record.add_change(before, after)
        return after

    async def _many(
        self, verb: Verb, query: Query | None, options: Mapping[str, Any], by: str, notes: str | None
    ) -> BulkResult:
        await self.context.open()
        how = {name: options[name] for name in ("everything", "dry_run", "cap") if name in options}
        filters = {name: value for name, value in options.items() if name not in how}
        if query is not None and filters:
            raise InvalidInput(f"give a query or filters, not both: {', '.join(filters)}")
        query = require_query(query) if query is not None else filter_query(filters)

        async def moved() -> BulkResult:
            return await move_many(
                self.context.letters,
                query,
                lambda letter: verb.change(letter, self.context.clock.now(), by, notes),
                moved=lambda letter: self.context.announce(verb.event, letter, by=by, notes=notes),
                **how,
            )

        if how.get("dry_run"):
            return await moved()
        async with self.context.audit.record(verb.name, "queue", by=by, reason=notes) as record:
            record.add(query=query_to_json(query)["where"], **{name: how[name] for name in ("cap",) if name in how})
            result = await moved()
            record.add(**told(result))
        return result


def told(result: BulkResult) -> dict[str, Any]:
    """What the audit keeps of a bulk verb: how many, and which ones as far as that is not too long."""
    counts = {"moved": len(result.done), "refused": len(result.refused), "letters": result.done[:_TOLD]}
    return {**counts, "left": result.left, **({"degraded": result.degraded} if result.degraded else {})}
