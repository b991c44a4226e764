"""What people do with letters: one at a time by task id, or all that a query means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from mahavishnu.classify.verdict import policy
from mahavishnu.core import letterbox
from mahavishnu.core.auditing import Auditing
from mahavishnu.core.desk import Desk
from mahavishnu.core.intake import texts
from mahavishnu.engine.dependencies import refuse_circle
from mahavishnu.engine.moves import BulkResult, move, move_many
from mahavishnu.model import lifecycle
from mahavishnu.model.errors import AlreadyResolved, ChangedMeanwhile, IllegalMove, InvalidInput, NoSuchLetter
from mahavishnu.model.events import EventName
from mahavishnu.model.ids import DEFAULT_NAMESPACE, DEFAULT_QUEUE, document_key
from mahavishnu.model.letter import DeadLetter, DeadLetterStatus
from mahavishnu.model.payload import Json
from mahavishnu.model.query import Between, Is, Query
from mahavishnu.stores.base import get_one

BY = "api_user"
# How the fields that a person may change are called outside, and what they are inside.
_INSIDE: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "task": ("payload", lambda value: Json.of(value)),
    "metadata": ("labels", lambda value: Json.of(value, "metadata")),
    "repos": ("repos", lambda value: texts(value, "repos")),
    "depends_on": ("depends_on", lambda value: texts(value, "depends_on")),
    "retry_policy": ("retry_policy", lambda value: policy(value)),
    "max_retries": ("max_retries", lambda value: value),
    "priority": ("priority", lambda value: value),
    "next_retry_at": ("due_at", lambda value: value),
}


class ByHand(Auditing):
    """The part of `DeadLetterQueue` that moves letters on somebody's behalf.

    Every method raises NoSuchLetter for a task without a letter, IllegalMove for what its state does not allow (naming
    both), and StoreError. `by` is who wants it; it is kept on the letter with the `notes`.
    """

    async def archive_task(
        self,
        task_id: str,
        *,
        by: str = BY,
        notes: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        queue: str = DEFAULT_QUEUE,
    ) -> bool:
        """Put a letter away. False if there is none, or it is archived already. Raises IllegalMove while it is run."""
        try:
            await _moved(self, task_id, namespace, queue, _archive, EventName.ARCHIVED, by, notes)
        except (NoSuchLetter, _ArchivedAlready):
            return False
        return True

    async def resurrect(
        self,
        task_id: str,
        *,
        by: str = BY,
        notes: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        queue: str = DEFAULT_QUEUE,
    ) -> DeadLetter:
        """Give an exhausted letter fresh attempts, the first one due now; take an archived one out for them."""
        return await _moved(self, task_id, namespace, queue, _resurrect, EventName.REDRIVEN, by, notes)

    async def resolve(
        self,
        task_id: str,
        *,
        by: str = BY,
        notes: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        queue: str = DEFAULT_QUEUE,
    ) -> DeadLetter:
        """Close the case: a person settled it otherwise."""
        return await _moved(self, task_id, namespace, queue, _resolve, EventName.RESOLVED, by, notes)

    async def fail(
        self,
        task_id: str,
        *,
        by: str = BY,
        notes: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        queue: str = DEFAULT_QUEUE,
    ) -> DeadLetter:
        """Close the case: it will never work, and is kept for analysis."""
        return await _moved(self, task_id, namespace, queue, _give_up, EventName.RESOLVED, by, notes)

    async def cancel(
        self,
        task_id: str,
        *,
        by: str = BY,
        notes: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        queue: str = DEFAULT_QUEUE,
    ) -> DeadLetter:
        """Close the case: nobody wants the work any more."""
        return await _moved(self, task_id, namespace, queue, _cancel, EventName.RESOLVED, by, notes)

    async def edit(
        self,
        task_id: str,
        *,
        by: str = BY,
        base: DeadLetter | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        queue: str = DEFAULT_QUEUE,
        **changes: Any,
    ) -> DeadLetter:
        """Change `task`, `metadata`, `repos`, `depends_on`, `retry_policy`, `max_retries`, `priority`, `next_retry_at`.

        With `base`, the letter as it was read, a change made by others since raises ChangedMeanwhile. Raises
        InvalidInput for other fields and for values that cannot be.
        """
        inside = edited_fields(changes)
        key = document_key(task_id, namespace, queue)

        def change(current: DeadLetter) -> DeadLetter:
            if base is not None and base.version != current.version:
                raise ChangedMeanwhile(key, "edit", f"{current.status} and changed at {current.updated_at.isoformat()}")
            edited = lifecycle.edit(current, now=self.clock.now(), backoffs=self.backoffs, **inside)
            if "payload" in inside:
                self.intake.check_size(edited)
            return edited

        await self.open()
        if inside.get("depends_on") and (letter := await get_one(self.letters, key)) is not None:
            await refuse_circle(self.letters, replace(letter, depends_on=inside["depends_on"]))
        after = await move(self.letters, key, change)
        if after is None:
            raise NoSuchLetter(key)
        self._tell(EventName.EDITED, after, by=by, changed=sorted(changes))
        return after

    async def retry_many(
        self, query: Query | None = None, *, by: str = BY, notes: str | None = None, **options: Any
    ) -> BulkResult:
        """Give every open letter that the query means fresh attempts, due now."""
        return await _many(self, query, options, _redrive, EventName.REDRIVEN, by, notes)

    async def archive_many(
        self, query: Query | None = None, *, by: str = BY, notes: str | None = None, **options: Any
    ) -> BulkResult:
        """Put every letter that the query means away.

        The bulk verbs take a `query`, or filters as `mahavishnu.model.query.letters` has them; without either,
        `everything=True` has to say that this is meant. `dry_run=True` changes nothing, `cap` ends it early.
        """
        return await _many(self, query, options, _archive, EventName.ARCHIVED, by, notes)

    async def resolve_many(
        self, query: Query | None = None, *, by: str = BY, notes: str | None = None, **options: Any
    ) -> BulkResult:
        """Close every case that the query means as settled otherwise."""
        return await _many(self, query, options, _resolve, EventName.RESOLVED, by, notes)

    async def cancel_many(
        self, query: Query | None = None, *, by: str = BY, notes: str | None = None, **options: Any
    ) -> BulkResult:
        """Close every case that the query means as no longer wanted."""
        return await _many(self, query, options, _cancel, EventName.RESOLVED, by, notes)

    async def archive_exhausted(
        self, older_than_days: float = 7, *, by: str = BY, notes: str | None = None, **options: Any
    ) -> BulkResult:
        """Put away what has been exhausted for so long."""
        try:
            before = self.clock.now() - timedelta(days=older_than_days)
        except (TypeError, ValueError, OverflowError) as problem:
            raise InvalidInput(f"{older_than_days!r:.80} is no number of days: {problem}") from None
        query = Query((Is("status", (DeadLetterStatus.EXHAUSTED,)), Between("exhausted_at", below=before)))
        return await _many(self, query, options, _archive, EventName.ARCHIVED, by, notes)


def edited_fields(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The changes in the model's own names. Raises InvalidInput for what cannot be edited."""
    if not changes:
        raise InvalidInput(f"nothing to change was given; {', '.join(_INSIDE)} can be edited")
    if locked := changes.keys() - _INSIDE:
        raise InvalidInput(f"{', '.join(sorted(locked))} cannot be edited; {', '.join(_INSIDE)} can")
    return {_INSIDE[name][0]: _INSIDE[name][1](value) for name, value in changes.items()}


Verb = Callable[[DeadLetter, datetime, str, "str | None"], DeadLetter]


class _ArchivedAlready(IllegalMove):
    pass


def _archive(letter: DeadLetter, now: datetime, by: str, notes: str | None) -> DeadLetter:
    if letter.status is DeadLetterStatus.ARCHIVED:
        raise _ArchivedAlready(letter.key, "archive", letter.status)
    return lifecycle.archive(letter, now=now, by=by, notes=notes)


def _resurrect(letter: DeadLetter, now: datetime, by: str, notes: str | None) -> DeadLetter:
    if letter.status is DeadLetterStatus.ARCHIVED:
        return lifecycle.restore(letter, now=now)
    if letter.status is DeadLetterStatus.PENDING:
        raise IllegalMove(letter.key, "resurrect", letter.status, "only an exhausted or archived letter needs it")
    return lifecycle.redrive(letter, now=now)


def _redrive(letter: DeadLetter, now: datetime, by: str, notes: str | None) -> DeadLetter:
    if not letter.is_open:  # that is for a person to say of each
        raise AlreadyResolved(letter.key, "redrive", f"{letter.status} and resolved as {letter.resolution.status}")
    return lifecycle.redrive(letter, now=now)


def _resolve(letter: DeadLetter, now: datetime, by: str, notes: str | None) -> DeadLetter:
    return lifecycle.resolve(letter, now=now, by=by, notes=notes)


def _give_up(letter: DeadLetter, now: datetime, by: str, notes: str | None) -> DeadLetter:
    return lifecycle.give_up(letter, now=now, by=by, notes=notes)


def _cancel(letter: DeadLetter, now: datetime, by: str, notes: str | None) -> DeadLetter:
    return lifecycle.cancel(letter, now=now, by=by, notes=notes)


async def _moved(
    desk: Desk, task_id: str, namespace: str, queue: str, verb: Verb, event: EventName, by: str, notes: str | None
) -> DeadLetter:
    await desk.open()
    key = document_key(task_id, namespace, queue)
    before: DeadLetter | None = None

    def change(current: DeadLetter) -> DeadLetter:
        nonlocal before
        before = current
        return verb(current, desk.clock.now(), by, notes)

    after = await move(desk.letters, key, change)
    if after is None or before is None:
        raise NoSuchLetter(key)
    desk._tell(event, after, by=by, notes=notes, was_open=before.is_open)
    return after


async def _many(
    desk: Desk,
    query: Query | None,
    options: Mapping[str, Any],
    verb: Verb,
    event: EventName,
    by: str,
    notes: str | None,
) -> BulkResult:
    await desk.open()
    how = {name: options[name] for name in ("everything", "dry_run", "cap") if name in options}
    filters = {name: value for name, value in options.items() if name not in how}
    if query is not None and filters:
        raise InvalidInput(f"give a query or filters, not both: {', '.join(filters)}")
    return await move_many(
        desk.letters,
        letterbox.checked(query) if query is not None else letterbox.filtered(filters),
        lambda letter: verb(letter, desk.clock.now(), by, notes),
        moved=lambda letter: desk._tell(event, letter, by=by, notes=notes),
        **how,
    )
