"""Letters as items of queues: found, listed, changed by compare-and-set, and produced or imported by one write."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import Any

from mahavishnu.engine.batching import Batcher, resolve
from mahavishnu.engine.context import QueueContext
from mahavishnu.model.clock import instant
from mahavishnu.model.errors import (
    IllegalMove,
    InvalidInput,
    MahavishnuError,
    NoSuchLetter,
    NoSuchQueue,
    StoreError,
    StoreUnavailable,
)
from mahavishnu.model.events import Event, EventName
from mahavishnu.model.ids import document_key, entry_instant
from mahavishnu.model.json_value import EMPTY, Json
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus, ResolutionStatus, Source, SourceKind
from mahavishnu.model.query import (
    AnyOf,
    Between,
    Condition,
    Is,
    Missing,
    Not,
    Query,
    Sort,
    items_namespace,
    queue_of_items,
    require_namespace,
)
from mahavishnu.queues import items
from mahavishnu.queues.definitions import QueueDefinitions
from mahavishnu.queues.items import ImportResult, ItemStatus, QueueItem
from mahavishnu.queues.rules import QueueDefinition, QueueKind
from mahavishnu.stores.base import Collection, Cursor, Page, Result, get_one, home_of, write_one
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.scoped import SCOPED_FIELDS, NamespaceRecords

log = logging.getLogger("mahavishnu.queues")
IN_ORDER = (Sort("created_at"), Sort("entry_id"))
OPEN = Is("resolution_status", (ResolutionStatus.PENDING,))
MOST_HELD = 10_000  # leased letters that are remembered, so that their end needs not be read before it is written
_PAGE = 500
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

    @cached_property
    def namespace(self) -> str:
        """The namespace of these queues. Raises InvalidInput where all namespaces are meant."""
        return require_namespace(self.context.namespace)

    def where(self, *queues: str) -> Is:
        """Return the condition that a letter is an item of one of these queues."""
        return Is("namespace", tuple(items_namespace(self.namespace, queue) for queue in queues), rare=True)

    def due(self, queue: str, limit: int) -> Query:
        """Return the query for leasable items, oldest first; not by date, since that index has another order."""
        later = self.context.clock.now() + timedelta(milliseconds=1)
        waits = AnyOf((Between("due_at", at_least=later), Missing("due_at")))
        return Query((self.where(queue), Is("status", (DeadLetterStatus.PENDING,)), Not(waits)), IN_ORDER, limit)

    def remember(self, token: str, letter: DeadLetter) -> None:
        """Note what was leased here."""
        self.held[token] = letter
        while len(self.held) > MOST_HELD:
            self.held.pop(next(iter(self.held)), None)

    def recall(self, token: str, queue: str, id: str) -> DeadLetter | None:
        """Return the item as it was leased here, if it was."""
        letter = self.held.get(token)
        return letter if letter is not None and (letter.queue, letter.entry_id) == (queue, id) else None

    async def get(self, queue: str, id: str) -> DeadLetter:
        """Return the current item. Raise NoSuchLetter, also for a deleted one."""
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
        """Return a page of items, oldest first."""
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
        """Return the queues with leased or moving items, including undefined queues."""
        unsettled = AnyOf((Is("status", (DeadLetterStatus.RETRYING,)), Not(Missing("bound_for"))))
        tally = await self.records.tally(Query((OPEN, unsettled)), ["namespace", "queue"])
        return {queue for namespace, queue in tally.cells if namespace == items_namespace(self.namespace, str(queue))}

    async def queues_with_ended_items(self) -> set[str]:
        """Return the queues with ended items, including undefined queues."""
        tally = await self.records.tally(Query((Not(OPEN),)), ["namespace"])
        queues = (queue_of_items(str(namespace), self.namespace) for (namespace,) in tally.cells)
        return {queue for queue in queues if queue}

    async def change(
        self, letter: DeadLetter, decide: Callable[[DeadLetter], DeadLetter], what: str | None = None, by: str = ""
    ) -> tuple[DeadLetter, DeadLetter]:
        """Decide and write until no other process was quicker. Return the item before and after; the same if unchanged.

        A loop of its own, since a deletion is audited before it is written, and a known item is not read first.
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
        """Change an item in any state of a move, unless `arrive` finds it at its target: it cannot be changed then."""
        for _ in range(_MOVED_TRIES):
            if items.was_moved(letter) or (letter.is_open and letter.bound_for is not None and await arrive(letter)):
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
            what, by = "the queue deletes what dies in it", items.BY_QUEUE
            log.warning("%s", items.deletion_warning(before, self.context.clock.now()))
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
        self.context.events.publish(Event(name, letter.updated_at, None, detail))

    def announce_failure(self, before: DeadLetter, after: DeadLetter) -> None:
        """Publish that an item failed, and that it died, if it did."""
        failed = after.retry_count > before.retry_count
        if failed:
            self.announce(EventName.QUEUE_FAILED, after)
        if after.is_deleted or (after.status is DeadLetterStatus.EXHAUSTED and before.status is not after.status):
            self.announce(EventName.QUEUE_ITEM_DEAD, after)
        elif failed:
            self.announce(EventName.QUEUE_ITEM_RETRY, after, manual=False)


@dataclass(eq=False, slots=True)
class _Production:
    queue: str
    payload: Json
    metadata: Json
    future: asyncio.Future[DeadLetter]


class QueueIntake:
    """Produce and import for the queues of a namespace."""

    def __init__(self, definitions: QueueDefinitions, letters: QueueLetters) -> None:
        self._definitions, self._letters = definitions, letters
        self._context, self._clock = letters.context, letters.context.clock
        self._productions: Batcher[_Production] = Batcher(self._write_new)

    async def produce(self, queue: str, payload: Any, metadata: Mapping[str, Any] | None) -> DeadLetter:
        """Keep an item. It is durable when this returns."""
        production = _Production(
            queue, self._json(payload, "payload"), self._metadata(metadata), asyncio.get_running_loop().create_future()
        )
        await self._context.open()
        self._productions.add(production)
        return await production.future

    async def _write_new(self, batch: Sequence[_Production]) -> None:
        found = await self._definitions.recall_many([each.queue for each in batch])
        now, ready, made = self._clock.now(), list[_Production](), list[DeadLetter]()
        for each in batch:
            try:
                if (definition := found.get(each.queue)) is None:
                    raise NoSuchQueue(each.queue)
                if isinstance(definition, StoreUnavailable):
                    raise copy(definition)  # each is raised in a task of its own
                letter = items.new_item(require_persisted(definition), each.payload, now, metadata=each.metadata)
                letter = self._context.letter_factory.encryption.encrypt_letter(letter)
            except MahavishnuError as problem:
                refuse(each.future, problem)
                continue
            ready.append(each)
            made.append(letter)
        written = await self._letters.records.write(made) if made else []
        for each, letter, stored in zip(ready, made, written, strict=True):
            if isinstance(stored, DeadLetter):
                resolve(each.future, stored)
            else:  # ids are random: there can be no other item of this id
                refuse(each.future, stored or StoreError(f"item {letter.entry_id!r} is there already"))

    async def add(self, queue: str, items: Iterable[Mapping[str, Any] | QueueItem]) -> ImportResult:
        """Bring items in that may be there already. Raise InvalidInput before anything is written, and StoreError."""
        try:
            definition = require_persisted(await self._definitions.get(queue))
        except StoreUnavailable as problem:
            raise _import_problem(queue, "nothing was imported", "them", problem) from problem
        wanted = [self._read(definition, each) for each in items]
        created, seen = 0, set[str]()
        for start in range(0, len(wanted), _PAGE):
            now = self._clock.now()  # of this page: what has the same date has to be put in order to be leased
            fresh: list[DeadLetter] = []
            for letter in (make(now) for make in wanted[start : start + _PAGE]):
                if letter.entry_id not in seen:
                    seen.add(letter.entry_id)
                    fresh.append(self._context.letter_factory.encryption.encrypt_letter(letter))
            failed: StoreError | None = None
            try:
                for stored in await self._create(fresh):
                    created += isinstance(stored, DeadLetter)
                    failed = stored if isinstance(stored, StoreError) else failed
            except StoreError as problem:
                failed = problem
            if failed is not None:
                what = f"{created} items were imported, and of items {start + 1} to {len(wanted)} not all"
                raise _import_problem(queue, what, "these", failed) from failed
        return ImportResult(created, len(wanted) - created)

    async def _create(self, letters: Sequence[DeadLetter]) -> Sequence[Result[DeadLetter]]:
        """Create the missing items in the shared store: in a local store they could come in once more.

        An item that is kept locally is not missing. It has the key of its source, or of its id without one; if it has
        both, either key counts.
        """
        store, records = self._context.store, self._letters.records
        by_id = {document_key(each.entry_id, each.namespace, each.queue): each.key for each in letters}
        asked = [key for key, own in by_id.items() if key != own]
        found = await records.get(asked) if asked else []
        there = {by_id[key] for key, each in zip(asked, found, strict=True) if each is not None}
        if (home := home_of(store)) is not store:
            kept = await records.get([each.key for each in letters])
            there |= {each.key for each, one in zip(letters, kept, strict=True) if isinstance(one, DeadLetter)}
            records = home.collection(LETTERS)
        free = [each for each in letters if each.key not in there]
        written = iter(await records.write(free) if free else ())
        return [None if each.key in there else next(written) for each in letters]

    def _read(
        self, definition: QueueDefinition, item: Mapping[str, Any] | QueueItem
    ) -> Callable[[datetime], DeadLetter]:
        """Return a function that makes the letter of an imported item. Raise InvalidInput."""
        given = item.to_dict() if isinstance(item, QueueItem) else item
        if not isinstance(given, Mapping) or "payload" not in given:
            raise InvalidInput(f"an item is a mapping with a payload, not {given!r:.80}")
        names = {name: given.get(name) for name in ("id", "source_id", "source_queue")}
        for name, value in names.items():
            if not (value is None or (isinstance(value, str) and len(value) <= items.LONGEST_ITEM_ID)):
                raise InvalidInput(f"{name} of an item is a text of at most {items.LONGEST_ITEM_ID} characters")
            if value and "/" in value:
                raise InvalidInput(f"{name} of an item cannot have a '/' in it: {value!r}")
        try:
            expires = given.get("expire_deadline")
            expires = (
                instant(datetime.fromisoformat(expires) if isinstance(expires, str) else expires) if expires else None
            )
        except (TypeError, ValueError, AttributeError):
            raise InvalidInput(f"expire_deadline is an instant of ISO 8601, not {expires!r:.80}") from None
        source = Source(SourceKind.QUEUE_ITEM, names["source_queue"] or None, names["source_id"] or None)
        make = partial(
            items.new_item,
            definition,
            self._json(given["payload"], "payload"),
            metadata=self._metadata(given.get("metadata")),
            id=names["id"] or None,
            source=source,
            expires_at=expires,
        )
        assert make(self._clock.now()).key  # raises for a name that cannot be
        return make

    def _json(self, value: Any, name: str) -> Json:
        return self._context.letter_factory.json_of(value, name)

    def _metadata(self, value: Mapping[str, Any] | None) -> Json:
        if not value:
            return EMPTY
        if not isinstance(value, Mapping):
            raise InvalidInput(f"metadata of an item is a mapping, not {value!r:.80}")
        return self._json(dict(value), "metadata")


def _import_problem(queue: str, what: str, which: str, problem: StoreError) -> StoreError:
    text = (
        f"{what}: what is in queue {queue!r} already is to be left alone, and only the shared store tells what that is "
        f"({problem}); import {which} again when it answers: what has an id or a source_id comes in once"
    )
    if isinstance(problem, StoreUnavailable):
        return StoreUnavailable(text, maybe_written=problem.maybe_written)
    return StoreError(text)


def require_persisted(definition: QueueDefinition) -> QueueDefinition:
    """Return the definition, if the items of the queue are here. Raise InvalidInput."""
    if definition.kind is QueueKind.EXTERNAL:
        raise InvalidInput(f"queue {definition.name!r} is external: its items are not here")
    return definition


def refuse(future: asyncio.Future[Any], problem: BaseException) -> None:
    """Answer the caller by an error, unless it has given up."""
    if not future.done():
        future.set_exception(problem)
