"""Items come into a queue: produced one by one, many of them by one write, or imported where they may be already."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from mahavishnu.core.queue.queue_definitions import QueueDefinitions
from mahavishnu.core.queue.queue_letters import QueueLetters
from mahavishnu.engine.batching import Batcher, resolve
from mahavishnu.model import queue_items as rules
from mahavishnu.model.clock import instant
from mahavishnu.model.errors import InvalidInput, MahavishnuError, NoSuchQueue, StoreError, StoreUnavailable
from mahavishnu.model.ids import document_key
from mahavishnu.model.json_value import EMPTY, Json
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import Source, SourceKind
from mahavishnu.model.queue_items import ImportResult, QueueItem
from mahavishnu.model.queues import QueueDefinition, QueueKind
from mahavishnu.stores.base import Result, home_of
from mahavishnu.stores.kinds import LETTERS

_PAGE = 500


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
                letter = rules.new_item(require_persisted(definition), each.payload, now, metadata=each.metadata)
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
        """Bring items in that may be there already. Raises InvalidInput before anything is written, and StoreError."""
        try:
            definition = require_persisted(await self._definitions.get(queue))
        except StoreUnavailable as problem:
            raise _broken_off(queue, "nothing was imported", "them", problem) from problem
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
                raise _broken_off(queue, what, "these", failed) from failed
        return ImportResult(created, len(wanted) - created)

    async def _create(self, letters: Sequence[DeadLetter]) -> Sequence[Result[DeadLetter]]:
        """Create those that are not there, where everybody sees them: in a local store they could come in once more.

        One that is kept locally is there. An item goes under where it came from, and under its id if it says nothing of
        that: one that does both is there too if the other one is.
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
        """What makes the letter of an imported item. Raises InvalidInput."""
        given = item.to_dict() if isinstance(item, QueueItem) else item
        if not isinstance(given, Mapping) or "payload" not in given:
            raise InvalidInput(f"an item is a mapping with a payload, not {given!r:.80}")
        names = {name: given.get(name) for name in ("id", "source_id", "source_queue")}
        for name, value in names.items():
            if not (value is None or (isinstance(value, str) and len(value) <= rules.LONGEST_ITEM_ID)):
                raise InvalidInput(f"{name} of an item is a text of at most {rules.LONGEST_ITEM_ID} characters")
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
            rules.new_item,
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


def _broken_off(queue: str, what: str, which: str, problem: StoreError) -> StoreError:
    text = (
        f"{what}: what is in queue {queue!r} already is to be left alone, and only the shared store tells what that is "
        f"({problem}); import {which} again when it answers: what has an id or a source_id comes in once"
    )
    if isinstance(problem, StoreUnavailable):
        return StoreUnavailable(text, maybe_written=problem.maybe_written)
    return StoreError(text)


def require_persisted(definition: QueueDefinition) -> QueueDefinition:
    """The definition, if the items of the queue are here. Raises InvalidInput."""
    if definition.kind is QueueKind.EXTERNAL:
        raise InvalidInput(f"queue {definition.name!r} is external: its items are not here")
    return definition


def refuse(future: asyncio.Future[Any], problem: BaseException) -> None:
    """Answer the caller by an error, unless it has given up."""
    if not future.done():
        future.set_exception(problem)
