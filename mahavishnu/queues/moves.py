"""Items on their way to another queue, and what time does to items that nobody looks at.

A move creates the item in its target, under a key that says where it came from; when that is confirmed, the one in the
source is closed. Whoever finds one in between does the rest: what exists already in the target is the same item.

So the copy is created where everybody who has seen the item sees it: during an outage only what nobody else has seen is
moved, within the local store. A copy that is kept locally could come home when another one has been done there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
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
from mahavishnu.model.query import Condition, Is, Missing, Not, Query
from mahavishnu.queues import items as rules
from mahavishnu.queues.definitions import QueueDefinitions
from mahavishnu.queues.intake import IN_ORDER, OPEN, QueueLetters, log, require_persisted
from mahavishnu.queues.rules import QueueDefinition
from mahavishnu.stores.base import find_pages, get_one, home_of, is_home_away, write_one
from mahavishnu.stores.kind import is_kept_locally
from mahavishnu.stores.kinds import LETTERS

FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0  # seconds between two tries to move items into a queue that does not take them
_PAGE = 500


@dataclass
class QueueMoves:
    """Moves items to the queues that they are bound for."""

    definitions: QueueDefinitions
    letters: QueueLetters
    #: of queues that did not take an item: when the next one is moved there, and how long that is put off
    _backoffs: dict[str, tuple[float, float]] = field(default_factory=dict)

    def _now(self) -> datetime:
        return self.letters.context.clock.now()

    async def finish_move(self, letter: DeadLetter) -> bool:
        """Move an item to where it is bound for; return False if that has to wait. Never raises.

        While its target takes nothing, retry at growing intervals, and log each attempt.
        """
        target = letter.bound_for
        assert target is not None
        if is_home_away(self.letters.context.store) and not is_kept_locally(letter):
            return False
        (until, wait), now = self._backoffs.get(target, (0.0, FIRST_WAIT / 2)), self.letters.context.clock.monotonic()
        if target in self._backoffs and now < until:
            return False
        try:
            copy = await self._produce(letter, await self.definitions.require(target))
        except MahavishnuError as problem:
            log.error("failed to produce to dead_queue '%s': %s", target, problem)
            wait = min(LONGEST_WAIT, 2 * wait)
            self._backoffs[target] = now + wait, wait
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
        """Move an item to its target if possible. Return whether it is there. Raise StoreError if unknown.

        Looking for it would not be enough: a mover may still be writing when a person wants the item back.
        """
        try:
            definition = await self.definitions.require(str(letter.bound_for))
        except NoSuchQueue:
            key = rules.moved_key(letter, self.letters.namespace)
            return (await self.letters.records.get([key]))[0] is not None
        return await self._close(letter, await self._produce(letter, definition))

    async def _produce(self, letter: DeadLetter, definition: QueueDefinition) -> DeadLetter | None:
        """Create the item in its target, and be sure that it is there; the copy, if it was made just now."""
        fresh, home = rules.moved_item(letter, definition, self._now()), home_of(self.letters.context.store)
        records = self.letters.records if is_kept_locally(letter) else home.collection(LETTERS)
        created = await write_one(records, fresh)
        if created is None and await get_one(records, fresh.key) is None:
            raise StoreUnavailable(f"item {letter.entry_id!r} is neither there nor can it be created")
        return created

    async def _close(self, letter: DeadLetter, copy: DeadLetter | None) -> bool:
        """Close the item in the source, or take the copy back if a person has decided otherwise meanwhile.

        If a worker has the copy by then, close the item in the source all the same.
        """
        bound_for = letter.bound_for

        def decide(current: DeadLetter) -> DeadLetter:
            now = self._now()
            is_bound = current.is_open and current.bound_for == bound_for
            return rules.close_moved(current, now) if is_bound else current

        def insist(current: DeadLetter) -> DeadLetter:
            if not current.is_open or current.lease is not None:
                return current
            now = self._now()
            return rules.close_moved(rules.send_item(current, str(bound_for), now), now)

        moved = await self._try_to_close(letter, decide)
        if moved or copy is None or (await self.letters.records.remove([copy]))[0] is True:
            return moved
        if await self._try_to_close(letter, insist):
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

        Of all items, those that cannot go are `refused` with the reason; if none can go, that raises. `degraded` says
        why some items may have been missed.
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
                        status = rules.status_of(letter, self._now())
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
            reasons = {each: str(problem) for each, problem in refused.items()}
            act.add(redriven=sent, skipped=skipped, **({"degraded": degraded} if degraded else {}))
            if reasons:
                act.add(refused=reasons)
        return {"redriven": sent, "skipped": skipped, "refused": reasons, "degraded": degraded}

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
            return rules.send_item(current, target, self._now())

        before, after = await self.letters.change(letter, decide)
        if after is before:
            return False
        await self.finish_move(after)
        return True
