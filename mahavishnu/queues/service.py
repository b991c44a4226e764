"""Named queues: work that has not failed yet, or has, for workers that lease it; and dead queues for what died.

An item is a letter in a namespace of its own for each queue, so that what waits in a queue is no failure of the app:
neither its numbers nor its limits nor its processor know it. What can be done with letters can be done with items.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from mahavishnu.engine.context import DEFAULT_ACTOR, QueueContext
from mahavishnu.engine.periodic import PeriodicTask
from mahavishnu.engine.queue import LetterQueue
from mahavishnu.letters.ledger import Ledger
from mahavishnu.letters.reads import count_letters, statistics
from mahavishnu.model.clock import require_wait
from mahavishnu.model.errors import InvalidInput, MahavishnuError
from mahavishnu.model.query import Query, filter_query, items_namespace
from mahavishnu.queues.definitions import QueueDefinitions
from mahavishnu.queues.intake import QueueIntake, QueueLetters, log
from mahavishnu.queues.items import ImportResult, ItemLease, ItemStatus, QueueItem
from mahavishnu.queues.rules import QueueDefinition
from mahavishnu.queues.work import QueueMoves, QueueWork
from mahavishnu.stores.base import Cursor, Page, is_home_away
from mahavishnu.stores.scoped import SCOPED_FIELDS, NamespaceRecords

_CHORES_SECONDS = 10.0


class NamedQueues:
    """The queues of a namespace, and their items.

    >>> await dlq.queues.create("orders", dead_queue="orders-dead", max_attempts=2)  # doctest: +SKIP
    >>> await dlq.queues.produce("orders", {"order": 7})  # doctest: +SKIP
    >>> for lease in await dlq.queues.lease("orders", "worker-1", limit=10):  # doctest: +SKIP
    ...     await dlq.queues.complete("orders", lease.item.id, lease.token)
    """

    @classmethod
    def for_queue(cls, queue: LetterQueue) -> NamedQueues:
        """Return the named queues that this view of a queue sees."""
        home = queue.home.service(NamedQueues) if queue.home is not None and queue.context.is_at_home else None
        return cls(queue.context, home)

    def __init__(self, context: QueueContext, home: NamedQueues | None = None) -> None:
        self._context, self._letters = context, QueueLetters(context)
        self._definitions: QueueDefinitions = QueueDefinitions(context, home._definitions if home else None)
        self._moves = QueueMoves(self._definitions, self._letters)
        self._intake = QueueIntake(self._definitions, self._letters)
        self._work = QueueWork(self._definitions, self._letters, self._moves)

    async def _require(self, act: str, queue: str) -> None:
        await self._context.require(act, f"queue:{queue}", self._letters.namespace)

    # --- definitions

    async def create(
        self, name: str, *, by: str = DEFAULT_ACTOR, notes: str | None = None, **options: Any
    ) -> QueueDefinition:
        """Define a queue with `dead_queue`, `retry`, `max_attempts` … (see `QueueDefinition`). Raise InvalidOption."""
        return await self._definitions.create(name, options, by, notes)

    async def update(
        self, name: str, *, by: str = DEFAULT_ACTOR, notes: str | None = None, **options: Any
    ) -> QueueDefinition:
        """Change these options for all later decisions; the others stay. Raise NoSuchQueue and InvalidOption."""
        return await self._definitions.update(name, options, by, notes)

    async def get(self, name: str) -> QueueDefinition:
        """Return the current definition. Raise NoSuchQueue."""
        return await self._definitions.get(name)

    async def list(self) -> builtins.list[QueueDefinition]:
        """Return all queues of the namespace, by name."""
        return await self._definitions.list()

    async def delete(
        self, name: str, *, force: bool = False, by: str = DEFAULT_ACTOR, notes: str | None = None
    ) -> QueueDefinition:
        """Delete the definition; items stay. Raise NoSuchQueue, InvalidOption for others' dead queue unless `force`."""
        return await self._definitions.delete(name, force=force, by=by, notes=notes)

    # --- items come in

    async def produce(self, queue: str, payload: Any, *, metadata: Mapping[str, Any] | None = None) -> QueueItem:
        """Put work into a queue. It is durable when this returns. Raise NoSuchQueue, InvalidInput and StoreError."""
        await self._require("queue.produce", queue)
        return self._item(await self._intake.produce(queue, payload, metadata))

    async def import_items(self, queue: str, items: Iterable[Mapping[str, Any] | QueueItem]) -> ImportResult:
        """Add items, except duplicates: of the same `source_id` and `source_queue`, or the same `id`. Count both.

        Raise NoSuchQueue, InvalidInput before anything is written, and StoreError, which names the items that did not
        come in. Nothing is kept locally, as it may exist in the store that is away.
        """
        await self._require("queue.produce", queue)
        return await self._intake.add(queue, items)

    # --- items are worked on

    async def lease(
        self, queue: str, owner: str, *, limit: int = 1, lease_seconds: float | None = None
    ) -> builtins.list[ItemLease]:
        """Lease the oldest items, at most `limit` (1 to 500), for `lease_seconds`.

        A lease that runs out counts as a failure. Raise NoSuchQueue, InvalidInput and StoreError.
        """
        await self._require("queue.lease", queue)
        leases = await self._work.lease(queue, owner, limit, lease_seconds)
        if leases:
            try:
                await self._context.note_read("queue.lease", f"queue:{queue}", count=len(leases), worker=owner)
            except BaseException:  # the caller never hears of them
                await self._work.give_back(leases)
                raise
        return leases

    async def renew(self, queue: str, id: str, token: str, *, lease_seconds: float | None = None) -> datetime:
        """Extend the lease. Return its new end. Raise LostLease, NoSuchLetter and StoreError."""
        await self._require("queue.lease", queue)
        return await self._work.renew(queue, id, token, lease_seconds)

    async def complete(self, queue: str, id: str, token: str) -> QueueItem:
        """Complete the item. Repeating it changes nothing. Raise LostLease if it has another lease."""
        await self._require("queue.lease", queue)
        return self._item(await self._work.complete(queue, id, token))

    async def retry(
        self,
        queue: str,
        id: str,
        token: str,
        *,
        error: str = "the worker gave it back",
        dead: bool = False,
        retry_in: timedelta | float | None = None,
    ) -> QueueItem:
        """Fail the item: it is leased again after its cooldown, or dies, by the queue's definition.

        `dead` lets it die at once; `retry_in` (seconds or timedelta) may lengthen the cooldown. Repeating it changes
        nothing. Raise LostLease if the item has another lease, NoSuchLetter, InvalidInput and StoreError.
        """
        if not isinstance(error, str):
            raise InvalidInput(f"error must be text, not {error!r:.80}")
        if not isinstance(dead, bool):
            raise InvalidInput(f"dead must be True or False, not {dead!r:.80}")
        wait = None if retry_in is None else require_wait(retry_in)
        await self._require("queue.lease", queue)
        return self._item(await self._work.fail(queue, id, token, error, dead, wait))

    # --- items are looked at, and people decide

    async def item(self, queue: str, id: str) -> QueueItem:
        """Return one item. Raise NoSuchLetter."""
        letter = await self._letters.get(queue, id)
        await self._context.note_read("read", f"letter:{letter.key}", self._letters.namespace)
        return self._item(letter)

    async def items(
        self, queue: str, *, status: ItemStatus | str | None = None, limit: int = 100, after: Cursor | str | None = None
    ) -> Page[QueueItem]:
        """Return items, oldest first: those that have not ended, or those of a `status`."""
        try:
            wanted = None if status is None else ItemStatus(status)
        except ValueError:
            raise InvalidInput(f"an item is one of {', '.join(ItemStatus)}, not {status!r:.80}") from None
        await self._definitions.require(queue)
        page = await self._letters.list(queue, wanted, limit, after)
        if page.items:
            await self._context.note_read("read", f"queue:{queue}", count=len(page.items))
        return Page([self._item(each) for each in page.items], page.next, page.positions, page.corrupt, page.degraded)

    async def resurrect(self, queue: str, id: str, *, by: str = DEFAULT_ACTOR, notes: str | None = None) -> QueueItem:
        """Have a dead or failed item leased again, with no failure counted. Raise IllegalMove for any other.

        Raise NoSuchQueue, NoSuchLetter, InvalidInput for an external queue, and StoreError.
        """
        return self._item(await self._work.resurrect(queue, id, by, notes))

    async def drop(self, queue: str, id: str, *, by: str = DEFAULT_ACTOR, notes: str | None = None) -> QueueItem:
        """Delete an item; its number stays, and the audit says who did it. Raise IllegalMove while it is leased."""
        return self._item(await self._work.drop(queue, id, by, notes))

    async def redrive(
        self,
        queue: str,
        *,
        ids: Sequence[str] | None = None,
        to: str | None = None,
        by: str = DEFAULT_ACTOR,
        notes: str | None = None,
        query: Query | None = None,
        **filters: Any,
    ) -> dict[str, Any]:
        """Send the items of a dead queue back to the queues that they came from, or `to` another one: each once.

        Send all of them, those with these `ids`, or those that `filters` or a `query` select (as for letters). Return
        the numbers `redriven` and `skipped` (leased or on their way), the `refused` ids with the reason, and
        `degraded`: why some may have been missed. Raise NoSuchQueue where a source queue is gone and none could be
        sent, IllegalMove, InvalidInput and StoreError.
        """
        await self._definitions.require(queue)
        return await self._moves.redrive(queue, to, ids, (query or filter_query(filters)).where, by, notes)

    async def numbers(self, queue: str) -> dict[str, Any]:
        """Return items by status, and lifetime totals, also of a deleted queue. Raise NoSuchQueue and StoreError."""
        await self._context.open()
        scope, namespace = self._context.scope, items_namespace(self._letters.namespace, queue)
        letters = NamespaceRecords(self._letters.records, namespace, scope=scope, fields=SCOPED_FIELDS)
        inside = self._context.in_namespace(letters.namespace)
        tally, summed = await count_letters(letters, Ledger(inside))
        found = statistics(tally, None, summed if inside.sees_whole_namespace else None, {})
        is_empty = not (found["queue_size"] or found["lifetime_stats"].get("enqueued_total"))
        if is_empty and self._definitions.is_seen(queue):
            await self._definitions.require(queue)
        return {"queue": queue, **{name: found[name] for name in ("queue_size", "status_breakdown", "lifetime_stats")}}

    async def names_with_items(self) -> Sequence[str]:
        """Return the defined queues, and deleted ones with ended items left. Raise StoreError."""
        await self._context.open()
        defined = {each.name for each in await self._definitions.list()}
        return sorted(defined | await self._letters.queues_with_ended_items())

    async def maintain(self) -> dict[str, int]:
        """Recover items of lost workers, expire items, and move dead ones. Any process may do it.

        During an outage this covers the items that are kept locally, in the queues that this process knows. A queue
        that fails does not stop the others.
        """
        await self._context.require("work")
        done = {"recovered": 0, "expired": 0, "moved": 0}
        known = [each.name for each in await self._definitions.list_known()]
        for name in known:
            await self._look_after(name, done)
        if not is_home_away(self._context.store):  # else it is not known which queues there are
            for name in await self._letters.unsettled_queues() - {*known}:
                await self._look_after(name, done, is_deleted=True)
        return done

    async def _look_after(self, name: str, done: dict[str, int], *, is_deleted: bool = False) -> None:
        try:
            done["recovered"] += await self._work.recover(name)
            done["expired"] += 0 if is_deleted else await self._work.expire_all(name)
            done["moved"] += await self._moves.finish_moves([name])
        except MahavishnuError as problem:
            which = ", which was deleted," if is_deleted else ""
            log.error("queue '%s'%s could not be looked after: %s", name, which, problem)

    def _item(self, letter: Any) -> QueueItem:
        return QueueItem.of(self._context.show(letter), self._context.clock.now())


def chores(queue: LetterQueue) -> Iterable[PeriodicTask]:
    """Return the periodic tasks of named queues."""
    return (PeriodicTask("the named queues", lambda: queue.service(NamedQueues).maintain(), lambda: _CHORES_SECONDS),)
