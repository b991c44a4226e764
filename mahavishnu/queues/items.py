"""Items of named queues: letters that have not failed yet, or have; what becomes of one, and how people see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Self

from mahavishnu.model import lifecycle
from mahavishnu.model.backoff import MAX_DELAY
from mahavishnu.model.clock import add_time, instant
from mahavishnu.model.errors import IllegalMove, InvalidInput, LostLease
from mahavishnu.model.ids import derived_entry_id, document_key, entry_instant, new_entry_id
from mahavishnu.model.json_value import EMPTY, Json
from mahavishnu.model.letter import DeadLetter, evolve
from mahavishnu.model.letter_parts import (
    LEASE_RAN_OUT,
    DeadLetterStatus,
    DlqReason,
    Failure,
    ResolutionStatus,
    RetryPolicy,
    Source,
    SourceKind,
    Version,
    fast_constructor,
)
from mahavishnu.model.query import items_namespace
from mahavishnu.model.tombstones import delete
from mahavishnu.queues.rules import OnDead, QueueDefinition, plain_value

BY_QUEUE = "queue"  # who moves and deletes what died
LONGEST_ITEM_ID = 200


class ItemStatus(StrEnum):
    """The state of an item, in the words of queues."""

    PENDING = "pending"  #: it can be leased
    ACTIVE = "active"  #: a worker has leased it
    FAILED = "failed"  #: it failed and waits for its cooldown, or for a person
    DEAD = "dead"  #: it is not leased any more
    COMPLETED = "completed"
    CLOSED = "closed"  #: it was moved, cancelled, deleted, or resolved by a person


@dataclass(frozen=True, slots=True)
class QueueItem:
    """An item as people and workers see it, under its letter's entry id. The letter is the record.

    `source_id` is the id that it had in the queue that it came from, `source_queue` that queue.
    """

    id: str
    queue: str
    payload: Any
    status: ItemStatus = ItemStatus.PENDING
    failure_count: int = 0
    source_id: str | None = None
    source_queue: str | None = None
    source_created_at: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    created_at: datetime | None = None
    next_retry_at: datetime | None = None
    lease_deadline: datetime | None = None
    expire_deadline: datetime | None = None
    worker_name: str | None = None
    reason: str | None = None
    last_error: str | None = None
    version: Version | None = field(default=None, compare=False)

    @classmethod
    def of(cls, letter: DeadLetter, now: datetime, payload: Json | None = None) -> QueueItem:
        """Return the item of this letter, perhaps with another `payload`, such as its own in clear."""
        status = status_of(letter, now)
        dead = status in (ItemStatus.DEAD, ItemStatus.CLOSED)
        return _fast_item(
            id=letter.entry_id,
            queue=letter.queue,
            payload=(payload or letter.payload).value,
            status=status,
            failure_count=letter.retry_count,
            source_id=letter.source.id,
            source_queue=letter.source.queue,
            source_created_at=letter.source.created_at,
            metadata=letter.metadata,
            created_at=letter.created_at,
            next_retry_at=letter.due_at if status is ItemStatus.FAILED else None,
            lease_deadline=letter.due_at if letter.lease is not None else None,
            expire_deadline=letter.expires_at,
            worker_name=letter.lease.owner if letter.lease is not None else None,
            reason=letter.reason if dead or letter.source.id is not None else None,
            last_error=letter.last_error or None,
            version=letter.version,
        )

    @property
    def key(self) -> str:
        return f"{self.queue}/{self.id}"

    @property
    def is_leased(self) -> bool:
        """True while a worker has it."""
        return self.status is ItemStatus.ACTIVE

    @property
    def attempts(self) -> int:
        """The failures and lost leases so far: `failure_count` under its other name."""
        return self.failure_count

    def to_dict(self) -> dict[str, Any]:
        """Return the item as JSON values."""
        found = {each.name: plain_value(getattr(self, each.name)) for each in fields(self) if each.name != "version"}
        return found | {"is_leased": self.is_leased, "attempts": self.attempts}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return the item that `to_dict` wrote. Raise InvalidInput, also for the unknown status of a newer version."""
        try:
            known = {each.name: document[each.name] for each in fields(cls) if each.name in document}
            known.pop("version", None)
            for name in ("created_at", "source_created_at", "next_retry_at", "lease_deadline", "expire_deadline"):
                if known.get(name):
                    known[name] = instant(datetime.fromisoformat(known[name]))
            return cls(**{**known, "status": ItemStatus(document.get("status", ItemStatus.PENDING))})
        except (TypeError, ValueError) as problem:
            raise InvalidInput(f"this is no queue item that this version can read: {problem}") from None


_fast_item = fast_constructor(QueueItem)


@dataclass(frozen=True, slots=True)
class ItemLease:
    """The right to work on `item` until `until`; `token` proves it."""

    item: QueueItem
    token: str
    until: datetime


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The numbers of an import; duplicates were left alone."""

    created: int
    duplicates: int


def status_of(letter: DeadLetter, now: datetime) -> ItemStatus:
    """Return the status of the item. A cooldown that is over counts as over."""
    if not letter.is_open:
        return ItemStatus.COMPLETED if letter.status is DeadLetterStatus.COMPLETED else ItemStatus.CLOSED
    if letter.lease is not None:
        return ItemStatus.ACTIVE
    if letter.status is DeadLetterStatus.EXHAUSTED:
        return ItemStatus.DEAD
    waits = letter.due_at is None or letter.due_at > now
    return ItemStatus.FAILED if waits and (letter.retry_count or letter.due_at is None) else ItemStatus.PENDING


def is_expired(letter: DeadLetter, now: datetime) -> bool:
    """Return whether the time in which the item could be leased is over."""
    return letter.expires_at is not None and letter.expires_at <= now


def new_item(
    definition: QueueDefinition,
    payload: Json,
    now: datetime,
    *,
    metadata: Json = EMPTY,
    id: str | None = None,
    source: Source | None = None,
    expires_at: datetime | None = None,
) -> DeadLetter:
    """Return a letter that waits in a queue: due at once, under its own id.

    With a `source` its key is `<source queue>/<source id>`, so that it comes in once however often it is sent, and the
    same id of two queues is two items. Ids and dates never go back in a process, so that items leave in the order in
    which they came, even if the clock is set back.
    """
    entry_id = new_entry_id(now) if id is None else id
    came = entry_instant(entry_id) if id is None else None
    created = instant(now if came is None else max(came, now))
    task_id = entry_id if source is None or source.id is None else f"{source.queue or ''}/{source.id}"
    return _fast_letter(
        task_id=task_id,
        entry_id=entry_id,
        namespace=items_namespace(definition.namespace, definition.name),
        queue=definition.name,
        payload=payload,
        labels=metadata,
        error="",
        last_error="",
        failed_at=created,
        created_at=created,
        updated_at=created,
        due_at=min(instant(now), definition.created_at),  # since ever, also if the clock is set back
        retry_policy=RetryPolicy.IMMEDIATE,
        max_retries=definition.deadly_failure,
        reason=DlqReason.QUEUED,
        source=source or Source(SourceKind.QUEUE_ITEM),
        expires_at=expires_at or definition.expires_at(now),
    )


_fast_letter = fast_constructor(DeadLetter)


def withdraw(letter: DeadLetter, *, now: datetime, reason: str) -> DeadLetter:
    """Take an item of a named queue out of its line, though it has not failed: it expired, or goes to another queue."""
    lifecycle.require_move(letter, lifecycle.Move.WITHDRAW)
    return evolve(lifecycle.exhaust_letter(lifecycle.change_letter(letter, now), instant(now)), reason=reason)


def move(letter: DeadLetter, *, now: datetime, by: str, to: str) -> DeadLetter:
    """Close an item of a named queue that lives on in another one, where it was written before."""
    lifecycle.require_move(letter, lifecycle.Move.MOVE)
    return lifecycle.close_case(
        letter, DeadLetterStatus.ARCHIVED, ResolutionStatus.MOVED, "moved", now, by, f"it is in queue {to} now"
    )


def complete_item(letter: DeadLetter, token: str, now: datetime) -> DeadLetter:
    """Complete a leased item. Raise LostLease if it has another lease."""
    _require_lease(letter, token, "complete", now)
    return evolve(lifecycle.succeed(letter, token=token, now=now), settled=f"completed {token}")


def fail_item(
    letter: DeadLetter,
    definition: QueueDefinition | None,
    token: str,
    failure: Failure,
    now: datetime,
    *,
    dead: bool = False,
    retry_in: timedelta | None = None,
) -> DeadLetter:
    """Let a leased item cool down, for `retry_in` at least, or die if it is `dead` or due to. Raise LostLease."""
    _require_lease(letter, token, "fail", now)
    number = letter.retry_count + 1
    if definition is None or dead or is_expired(letter, now):
        letter = evolve(letter, max_retries=max(letter.max_retries, number))
        failed = lifecycle.exhaust(letter, token=token, failure=failure, now=now)
    else:
        letter = evolve(letter, max_retries=max(definition.deadly_failure, number))
        wait = max(definition.cooldown, retry_in or timedelta(0))
        failed = _wait(lifecycle.fail(letter, token=token, failure=failure, now=now, retry_in=wait), now, wait)
    if failed.status is DeadLetterStatus.EXHAUSTED:
        failed = _die(failed, definition, _why_dead(letter, definition, now, dead), now)
    return evolve(failed, settled=f"failed {token}")


def renew_item(letter: DeadLetter, token: str, until: datetime, now: datetime) -> DeadLetter:
    """Extend the lease. Raise LostLease if the item has another lease."""
    _require_lease(letter, token, "renew", now)
    return lifecycle.renew(letter, token=token, until=until, now=now)


def recover_item(letter: DeadLetter, definition: QueueDefinition | None, now: datetime) -> DeadLetter:
    """Take the item from a worker that was not heard of again: that counts as a failure, each time."""
    if letter.lease is None or lifecycle.is_running(letter, now):
        return letter
    lease, number = letter.lease, letter.retry_count + 1
    deadly = number if definition is None or is_expired(letter, now) else max(definition.deadly_failure, number)
    cooldown = definition.cooldown if definition is not None else timedelta(0)
    limited = evolve(letter, max_retries=max(deadly, letter.retry_count))
    after = _wait(lifecycle.recover(limited, now=now, leases=1, retry_in=cooldown), now, cooldown)
    if after.status is DeadLetterStatus.EXHAUSTED:
        after = _die(after, definition, _why_dead(letter, definition, now, dead=False), now)
    return evolve(after, settled=f"{LEASE_RAN_OUT} {lease.token}")


def expire_item(letter: DeadLetter, definition: QueueDefinition | None, now: datetime) -> DeadLetter:
    """Take the item out of its line because nobody has leased it in time. Another one stays as it is."""
    if letter.status is not DeadLetterStatus.PENDING or not letter.is_open or not is_expired(letter, now):
        return letter
    return _die(withdraw(letter, now=now, reason=DlqReason.EXPIRED), definition, DlqReason.EXPIRED, now)


def is_redrivable(letter: DeadLetter) -> bool:
    """Return whether the item can be sent to another queue: it is not leased, and not on its way already."""
    return letter.is_open and letter.lease is None and letter.bound_for is None


def send_item(letter: DeadLetter, to: str, now: datetime) -> DeadLetter:
    """Take the item out of its line and note the queue that it goes to."""
    if letter.status is DeadLetterStatus.PENDING:
        letter = withdraw(letter, now=now, reason=letter.reason)
    return evolve(letter, bound_for=to, updated_at=max(instant(now), add_time(letter.updated_at, _MILLISECOND)))


def moved_item(letter: DeadLetter, target: QueueDefinition, now: datetime) -> DeadLetter:
    """Return the item for the target: the same work, unfailed, under an id that is the same for every mover."""
    source = Source(SourceKind.QUEUE_ITEM, letter.queue, letter.entry_id, None, letter.created_at)
    id = derived_entry_id(letter.entry_id, target.name, letter.created_at)
    came = max(now, entry_instant(new_entry_id(now)) or now)  # also if the clock is set back, they leave in this order
    copy = new_item(target, letter.payload, came, metadata=letter.labels, id=id, source=source)
    return evolve(
        copy,
        reason=letter.reason,
        error=letter.error,
        last_error=letter.last_error,
        failures=letter.failures,
        payload_types=letter.payload_types,
    )


def moved_key(letter: DeadLetter, namespace: str) -> str:
    """Return the key of the item in the queue of the namespace that it is bound for."""
    target = str(letter.bound_for)
    return document_key(f"{letter.queue}/{letter.entry_id}", items_namespace(namespace, target), target)


def was_moved(letter: DeadLetter) -> bool:
    """Return whether the item lives on in another queue, and is closed here."""
    return letter.resolution.status is ResolutionStatus.MOVED


def close_moved(letter: DeadLetter, now: datetime) -> DeadLetter:
    """Close the item that lives on where it was bound for."""
    return move(letter, now=now, by=BY_QUEUE, to=str(letter.bound_for))


def resurrect_item(letter: DeadLetter, now: datetime) -> DeadLetter:
    """Give a dead or failed item to workers again, with no failure counted. Raise IllegalMove for any other."""
    status = status_of(letter, now)
    if status not in (ItemStatus.DEAD, ItemStatus.FAILED):
        raise IllegalMove(letter.entry_id, "retry", status, "only what is dead or failed", what="item")
    fresh = lifecycle.redrive(letter, now=now)
    return evolve(fresh, reason=DlqReason.QUEUED, bound_for=None, expires_at=None, settled=None)


def _require_lease(letter: DeadLetter, token: str, move: str, now: datetime) -> None:
    if (lease := letter.lease) is None or lease.token != token:
        why = "nobody has leased it now" if lease is None else f"{lease.owner} has leased it now"
        raise LostLease(letter.entry_id, move, status_of(letter, now), f"this lease is over: {why}", what="item")


def _wait(letter: DeadLetter, now: datetime, wait: timedelta) -> DeadLetter:
    """Return the failed item with its whole wait: a queue may wait longer than letters do."""
    if letter.status is not DeadLetterStatus.PENDING or wait <= MAX_DELAY:
        return letter
    return evolve(letter, due_at=add_time(instant(now), wait))


def _why_dead(letter: DeadLetter, definition: QueueDefinition | None, now: datetime, dead: bool) -> DlqReason:
    if definition is None:
        return DlqReason.QUEUE_DEFINITION_MISSING
    if is_expired(letter, now):
        return DlqReason.EXPIRED
    return DlqReason.QUEUE_ITEM_DEAD if dead else DlqReason.MAX_ATTEMPTS_EXCEEDED


def _die(letter: DeadLetter, definition: QueueDefinition | None, reason: str, now: datetime) -> DeadLetter:
    """Apply the queue's definition to an item that died: keep it, delete it, or bind it for the dead queue."""
    if definition is None:
        return evolve(letter, reason=reason)
    if definition.dead_queue is None and definition.on_dead is OnDead.DELETE:
        return delete(letter, now=now, by=BY_QUEUE)
    return evolve(letter, reason=reason, bound_for=definition.dead_queue)


def deletion_warning(letter: DeadLetter, now: datetime) -> str:
    """Return the warning that an item that died is deleted; `letter` is its state before."""
    what = "expire_deadline" if is_expired(letter, now) else "max_attempts"
    return f"item '{letter.entry_id}' exceeded {what}, deleting (no dead_queue configured)"


_MILLISECOND = timedelta(milliseconds=1)
