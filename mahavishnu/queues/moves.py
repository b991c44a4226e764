"""Items on their way to another queue, and what time does to items that nobody looks at.

A move creates the item in its target, under a key that says where it came from; when that is confirmed, the one in the
source is closed. Whoever finds one in between does the rest: what exists already in the target is the same item.

So the copy is created where everybody who has seen the item sees it: during an outage only what nobody else has seen is
moved, within the local store. A copy that is kept locally could come home when another one has been done there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mahavishnu.model.errors import (
    IllegalMove,
    InvalidInput,
    MahavishnuError,
    NoSuchLetter,
    NoSuchQueue,
    StoreUnavailable,
)
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus
from mahavishnu.model.query import Between, Condition, Is, Missing, Not, Query
from mahavishnu.queues import items as rules
from mahavishnu.queues.definitions import QueueDefinitions
from mahavishnu.queues.intake import IN_ORDER, OPEN, QueueLetters, log, require_persisted
from mahavishnu.queues.rules import QueueDefinition
from mahavishnu.stores.base import find_pages, get_one, home_of, is_home_away, write_one
from mahavishnu.stores.kind import is_kept_locally
from mahavishnu.stores.kinds import LETTERS

FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0  # seconds between two tries to move items into a queue that does not take them
_PAGE = 500


@dataclass(slots=True)
class _Backoff:
    """How long nothing is moved into a queue that did not take it."""

    until: float
    wait: float


@dataclass
class QueueMoves:
    """Moves items to the queues that they are bound for."""

    definitions: QueueDefinitions
    letters: QueueLetters
    _backoffs: dict[str, _Backoff] = field(default_factory=dict)

    async def finish_move(self, letter: DeadLetter) -> bool:
        """Move an item to where it is bound for; False if that has to wait. Never raises: the queue works on.

        While its target does not take anything it is tried at ever longer intervals, and said in the log each time.
        """
        target = letter.bound_for
        assert target is not None
        if is_home_away(self.letters.context.store) and not is_kept_locally(letter):
            return False
        backoff, now = self._backoffs.get(target), self.letters.context.clock.monotonic()
        if backoff is not None and now < backoff.until:
            return False
        try:
            copy = await self._produce(letter, await self.definitions.require(target))
        except MahavishnuError as problem:
            log.error("failed to produce to dead_queue '%s': %s", target, problem)
            wait = min(LONGEST_WAIT, 2 * backoff.wait if backoff is not None else FIRST_WAIT)
            self._backoffs[target] = _Backoff(now + wait, wait)
            return False
        self._backoffs.pop(target, None)
        try:
            return await self._close(letter, copy)
        except MahavishnuError as problem:
            log.warning(
                "item '%s' is in queue '%s' now; closing it is tried again: %s", letter.entry_id, target, problem
            )
            return False

    async def arrive(self, letter: DeadLetter) -> bool:
        """Whether an item is where it is bound for. If it can get there, it does so now; raises StoreError if unknown.

        What a mover has sent may still be on its way to the store when a person wants the item back: looking whether it
        is there would not be enough.
        """
        try:
            definition = await self.definitions.require(str(letter.bound_for))
        except NoSuchQueue:
            key = rules.moved_key(letter, self.letters.namespace)
            return (await self.letters.records.get([key]))[0] is not None
        return await self._close(letter, await self._produce(letter, definition))

    async def _produce(self, letter: DeadLetter, definition: QueueDefinition) -> DeadLetter | None:
        """Create the item in its target, and be sure that it is there; the copy, if it was made just now."""
        fresh, store = (
            rules.moved_item(letter, definition, self.letters.context.clock.now()),
            self.letters.context.store,
        )
        records = self.letters.records if is_kept_locally(letter) else home_of(store).collection(LETTERS)
        created = await write_one(records, fresh)
        if created is None and await get_one(records, fresh.key) is None:
            raise StoreUnavailable(f"item {letter.entry_id!r} is neither there nor can it be created")
        return created

    async def _close(self, letter: DeadLetter, copy: DeadLetter | None) -> bool:
        """Close the item in the source. If a person has decided otherwise meanwhile, the copy is taken back.

        If a worker has the copy by then, that one is the item, and the one in the source is closed all the same.
        """
        bound_for = letter.bound_for

        def decide(current: DeadLetter) -> DeadLetter:
            if not current.is_open or current.bound_for != bound_for:
                return current
            return rules.close_moved(current, self.letters.context.clock.now())

        def insist(current: DeadLetter) -> DeadLetter:
            if not current.is_open or current.lease is not None:
                return current
            bound = rules.send_item(current, str(bound_for), self.letters.context.clock.now())
            return rules.close_moved(bound, self.letters.context.clock.now())

        moved = await self._try_to_close(letter, decide)
        if moved or copy is None or (await self.letters.records.remove([copy]))[0] is True:
            return moved
        if moved := await self._try_to_close(letter, insist):
            return True
        log.error("item '%s' was sent to queue '%s' and changed here by a person", letter.entry_id, bound_for)
        return False

    async def _try_to_close(self, letter: DeadLetter, decide: Callable[[DeadLetter], DeadLetter]) -> bool:
        try:
            _, after = await self.letters.change(letter, decide)
        except NoSuchLetter:
            return False
        return rules.was_moved(after)

    async def finish_moves(self, queues: Sequence[str]) -> int:
        """Move what is bound for other queues and did not get there, in the order in which it came."""
        where = (
            self.letters.where(*queues),
            OPEN,
            Is("status", (DeadLetterStatus.EXHAUSTED,)),
            Not(Missing("bound_for")),
        )
        moved = 0
        async for page in find_pages(self.letters.records, Query(where, IN_ORDER, _PAGE)):
            for letter in page.items:
                moved += await self.finish_move(letter)
        return moved

    async def redrive(
        self,
        queue: str,
        to: str | None,
        ids: Sequence[str] | None,
        where: Sequence[Condition],
        by: str,
        notes: str | None,
    ) -> dict[str, Any]:
        """Send items back to the queues that they came from, or to another one; each once, with no failure counted.

        Of all items, one that cannot go keeps no other one here: `refused` says why, unless none can go, which raises.
        `degraded` says why there may be items that were not seen.
        """
        if isinstance(ids, str):
            raise InvalidInput(f"ids is a list of ids of items, not {ids!r:.80}: write it as [{ids!r:.80}]")
        if to is not None:
            require_persisted(await self.definitions.require(to))
        sent, skipped, degraded = 0, 0, None
        refused: dict[str, MahavishnuError] = {}
        async with self.letters.context.audit.record("queue.redrive", f"queue:{queue}", by=by, reason=notes) as act:
            if ids is not None:
                chosen = [await self.letters.get(queue, each) for each in ids]
                for letter in chosen:
                    if not rules.is_redrivable(letter):
                        status = rules.status_of(letter, self.letters.context.clock.now())
                        raise IllegalMove(letter.entry_id, "redrive", status, "or on its way already", what="item")
                    sent += await self._send(letter, to)
            else:
                query = Query((self.letters.where(queue), OPEN, *where), IN_ORDER, _PAGE)
                async for page in find_pages(self.letters.records, query):
                    degraded = degraded or page.degraded
                    for letter in page.items:
                        try:
                            done = rules.is_redrivable(letter) and await self._send(letter, to)
                        except (InvalidInput, NoSuchQueue) as problem:
                            refused[letter.entry_id] = problem
                            continue
                        sent, skipped = sent + done, skipped + (not done)
                if refused and not sent:
                    raise next(iter(refused.values()))
            told = {each: str(problem) for each, problem in refused.items()}
            act.add(redriven=sent, skipped=skipped, **({"degraded": degraded} if degraded else {}))
            if told:
                act.add(refused=told)
        return {"redriven": sent, "skipped": skipped, "refused": told, "degraded": degraded}

    async def _send(self, letter: DeadLetter, to: str | None) -> bool:
        target = to or letter.source.queue
        if target is None:
            raise InvalidInput(f"item {letter.entry_id!r} came from no other queue: name the one that it is to go to")
        if target == letter.queue:
            raise InvalidInput(f"item {letter.entry_id!r} is in queue {target!r} already")
        require_persisted(await self.definitions.require(target))  # raises where the source queue is gone

        def decide(current: DeadLetter) -> DeadLetter:
            if not rules.is_redrivable(current):
                return current
            return rules.send_item(current, target, self.letters.context.clock.now())

        before, after = await self.letters.change(letter, decide)
        if after is before:
            return False
        await self.finish_move(after)
        return True


def expired_before(letters: QueueLetters, queues: Sequence[str]) -> Query:
    """What waits in these queues and is not to be leased any more."""
    now = letters.context.clock.now()
    pending = (OPEN, Is("status", (DeadLetterStatus.PENDING,)))
    return Query((letters.where(*queues), *pending, Between("expires_at", at_most=now)), IN_ORDER, _PAGE)
