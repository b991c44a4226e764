"""The letters that are the items of one queue: found by id, listed, and changed by compare-and-set."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from mahavishnu.engine.context import QueueContext
from mahavishnu.engine.letters import SCOPED_FIELDS, NamespaceRecords
from mahavishnu.model import queue_items as rules
from mahavishnu.model.errors import IllegalMove, InvalidInput, NoSuchLetter, StoreUnavailable
from mahavishnu.model.events import Event, EventName
from mahavishnu.model.ids import document_key, entry_instant
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus, ResolutionStatus
from mahavishnu.model.namespaces import require_namespace
from mahavishnu.model.query import AnyOf, Between, Condition, Is, Missing, Not, Query, Sort
from mahavishnu.model.queue_items import ItemStatus
from mahavishnu.model.queues import items_namespace, queue_of_items
from mahavishnu.stores.base import Collection, Cursor, Page, get_one, write_one
from mahavishnu.stores.kinds import LETTERS

log = logging.getLogger("mahavishnu.queues")
IN_ORDER = (Sort("created_at"), Sort("entry_id"))
OPEN = Is("resolution_status", (ResolutionStatus.PENDING,))
MOST_HELD = 10_000  # leased letters that are remembered, so that their end needs not be read before it is written
_TRIES = 50
_MOVED_TRIES = 10


@dataclass
class QueueLetters:
    """Items of the queues of a namespace, as letters."""

    context: QueueContext
    held: dict[str, DeadLetter] = field(default_factory=dict)  #: what this process has leased, by token

    def __post_init__(self) -> None:
        self.records: Collection[DeadLetter] = self.context.store.collection(LETTERS)
        if (scope := self.context.scope) is not None:
            self.records = NamespaceRecords(self.records, scope=scope, fields=SCOPED_FIELDS)

    @property
    def namespace(self) -> str:
        """Whose queues these are. Raises InvalidInput where it is those of all namespaces."""
        return require_namespace(self.context.namespace)

    def where(self, *queues: str) -> Is:
        """That a letter is an item of one of these queues."""
        return Is("namespace", tuple(items_namespace(self.namespace, queue) for queue in queues), rare=True)

    def due(self, queue: str, limit: int) -> Query:
        """The items that can be leased, those first that came first.

        Said by what is not due: an index that leads to what is due has it in another order, so that all of a long queue
        would be sorted for its first item.
        """
        later = self.context.clock.now() + timedelta(milliseconds=1)
        waits = AnyOf((Between("due_at", at_least=later), Missing("due_at")))
        return Query((self.where(queue), Is("status", (DeadLetterStatus.PENDING,)), Not(waits)), IN_ORDER, limit)

    def remember(self, token: str, letter: DeadLetter) -> None:
        """Note what was leased here."""
        self.held[token] = letter
        while len(self.held) > MOST_HELD:
            self.held.pop(next(iter(self.held)), None)

    def recall(self, token: str, queue: str, id: str) -> DeadLetter | None:
        """The item as it was leased here, if it was."""
        letter = self.held.get(token)
        return letter if letter is not None and (letter.queue, letter.entry_id) == (queue, id) else None

    async def get(self, queue: str, id: str) -> DeadLetter:
        """The item as it is now. Raises NoSuchLetter, also for a deleted one."""
        if not isinstance(id, str) or not id:
            raise InvalidInput(f"an item is named by its id, not {id!r:.80}")
        await self.context.open()
        namespace = items_namespace(self.namespace, queue)
        letter = await get_one(self.records, document_key(id, namespace, queue))
        if letter is None or letter.entry_id != id:
            letter = await self._find(queue, id)  # one that came from elsewhere is kept under where it came from
        if letter is None or letter.is_deleted:
            what = f"queue {queue!r:.80} has no item {id!r:.220}: give its whole id, as the list of its items has it"
            raise NoSuchLetter(f"{queue}/{id}", what)
        return letter

    async def _find(self, queue: str, id: str) -> DeadLetter | None:
        made = entry_instant(id)
        by_date: tuple[Condition, ...] = () if made is None else (Between("created_at", at_least=made, at_most=made),)
        for more in dict.fromkeys([by_date, ()]):
            page = await self.records.find(Query((self.where(queue), Is("entry_id", (id,)), *more), limit=1))
            if page.items:
                return await get_one(self.records, page.items[0].key)
        return None

    async def list(
        self, queue: str, status: ItemStatus | None, limit: int, after: Cursor | str | None
    ) -> Page[DeadLetter]:
        """A page of items in the order in which they came."""
        await self.context.open()
        cursor = Cursor.parse(after) if isinstance(after, str) else after
        return await self.records.find(Query((self.where(queue), *self._of(status)), IN_ORDER, limit), cursor)

    def _of(self, status: ItemStatus | None) -> Sequence[Condition]:
        pending, now = Is("status", (DeadLetterStatus.PENDING,)), self.context.clock.now()
        due = Between("due_at", at_most=now)
        match status:
            case None:
                return (OPEN,)
            case ItemStatus.PENDING:
                return (OPEN, pending, due)
            case ItemStatus.FAILED:
                return (OPEN, pending, Not(due))
            case ItemStatus.ACTIVE:
                return (OPEN, Is("status", (DeadLetterStatus.RETRYING,)))
            case ItemStatus.DEAD:
                return (OPEN, Is("status", (DeadLetterStatus.EXHAUSTED,)))
            case ItemStatus.COMPLETED:
                return (Not(OPEN), Is("status", (DeadLetterStatus.COMPLETED,)))
        deleted = Is("resolution_status", (ResolutionStatus.DELETED,))
        return (Not(OPEN), Not(deleted), Not(Is("status", (DeadLetterStatus.COMPLETED,))))

    async def unsettled_queues(self) -> set[str]:
        """The queues with items that workers have or that are on their way, also those not defined any more."""
        unsettled = AnyOf((Is("status", (DeadLetterStatus.RETRYING,)), Not(Missing("bound_for"))))
        tally = await self.records.tally(Query((OPEN, unsettled)), ["namespace", "queue"])
        return {queue for namespace, queue in tally.cells if namespace == items_namespace(self.namespace, str(queue))}

    async def queues_with_ended_items(self) -> set[str]:
        """The queues of which there are items that are over, also those not defined any more."""
        tally = await self.records.tally(Query((Not(OPEN),)), ["namespace"])
        queues = (queue_of_items(str(namespace), self.namespace) for (namespace,) in tally.cells)
        return {queue for queue in queues if queue}

    async def change(
        self, letter: DeadLetter, decide: Callable[[DeadLetter], DeadLetter], what: str | None = None, by: str = ""
    ) -> tuple[DeadLetter, DeadLetter]:
        """Decide and write until nobody was quicker. Returns the item before and after; the same if nothing changed.

        A loop of its own, since a deletion is audited before it is written, and what is known is not read first.
        """
        current = letter
        for _ in range(_TRIES):
            after = decide(current)
            if after is current:
                return current, current
            if after.is_deleted:
                written = await self._delete(current, after, what, by)
            else:
                written = await write_one(self.records, after)
            if written is not None:
                return current, written
            found = await get_one(self.records, letter.key)
            if found is None or found.is_deleted:
                raise NoSuchLetter(f"{letter.queue}/{letter.entry_id}")
            current = found
        raise StoreUnavailable(f"item {letter.entry_id!r} was changed by others {_TRIES} times in a row")

    async def change_if_here(
        self,
        letter: DeadLetter,
        move: str,
        decide: Callable[[DeadLetter], DeadLetter],
        arrive: Callable[[DeadLetter], Awaitable[bool]],
        what: str | None = None,
        by: str = "",
    ) -> tuple[DeadLetter, DeadLetter]:
        """Change an item that has not been moved; it may be on its way at any moment, so each state is looked at.

        `arrive` says whether the item is where it is bound for; from then on the one that is here cannot be changed.
        """
        for _ in range(_MOVED_TRIES):
            if rules.was_moved(letter) or (letter.is_open and letter.bound_for is not None and await arrive(letter)):
                raise IllegalMove(letter.entry_id, move, "moved", f"it is in queue {letter.bound_for} now", what="item")
            seen = letter.bound_for

            def decide_here(current: DeadLetter, seen: str | None = seen) -> DeadLetter:
                return decide(current) if current.bound_for == seen else current

            before, after = await self.change(letter, decide_here, what, by)
            if after is not before:
                return before, after
            letter = after
        raise StoreUnavailable(f"item {letter.entry_id!r} was changed by others {_MOVED_TRIES} times in a row")

    async def _delete(self, before: DeadLetter, after: DeadLetter, what: str | None, by: str) -> DeadLetter | None:
        if what is None:
            what, by = "the queue deletes what dies in it", rules.BY_QUEUE
            log.warning("%s", rules.deletion_warning(before, self.context.clock.now()))
        subject = f"letter:{before.key}"
        async with self.context.audit.record(
            "queue.item.delete", subject, by=by, reason=what, where=self.namespace
        ) as act:
            written = await write_one(self.records, after)
            if written is None:
                act.refuse("somebody else was quicker")
        return written

    def announce(self, name: EventName, letter: DeadLetter, **more: object) -> None:
        """Publish what happened to an item."""
        detail = {"queue_name": letter.queue, "item_id": letter.entry_id, "namespace": self.namespace, **more}
        self.context.events.publish(Event(name, self.context.clock.now(), None, detail))

    def announce_failure(self, before: DeadLetter, after: DeadLetter) -> None:
        """Publish that an item failed, and that it died, if it did."""
        failed = after.retry_count > before.retry_count
        if failed:
            self.announce(EventName.QUEUE_FAILED, after)
        if after.is_deleted or (after.status is DeadLetterStatus.EXHAUSTED and before.status is not after.status):
            self.announce(EventName.QUEUE_ITEM_DEAD, after)
        elif failed:
            self.announce(EventName.QUEUE_ITEM_RETRY, after, manual=False)
