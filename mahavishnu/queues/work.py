"""Items are leased, end and move on: what workers do, and people in their place; many of them by one write.

A move creates the item in its target, under a key that says where it came from; when that is confirmed, the one in the
source is closed. Whoever finds one in between does the rest: what exists already in the target is the same item.

So the copy is created where everybody who has seen the item sees it: during an outage only what nobody else has seen is
moved, within the local store. A copy that is kept locally could come home when another one has been done there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from mahavishnu.engine.batching import Batcher, resolve
from mahavishnu.model.errors import (
    CannotRestore,
    IllegalMove,
    InvalidInput,
    LostLease,
    MahavishnuError,
    NoSuchLetter,
    NoSuchQueue,
    StoreError,
    StoreUnavailable,
)
from mahavishnu.model.events import EventName
from mahavishnu.model.ids import new_token
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus, Failure
from mahavishnu.model.lifecycle import claim, release
from mahavishnu.model.query import Between, Condition, Is, Missing, Not, Query, Sort
from mahavishnu.model.tombstones import delete
from mahavishnu.queues import items
from mahavishnu.queues.definitions import QueueDefinitions
from mahavishnu.queues.intake import IN_ORDER, OPEN, QueueLetters, log, refuse, require_persisted
from mahavishnu.queues.items import ItemLease, QueueItem
from mahavishnu.queues.rules import QueueDefinition, require_lease_seconds
from mahavishnu.stores.base import find_pages, get_one, home_of, is_home_away, write_one
from mahavishnu.stores.kind import is_kept_locally
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.values.encryption import CIPHERTEXT

# --- items on their way to another queue, and what time does to items that nobody looks at

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
        """Move an item to its target, retrying at growing intervals; return False if it has to wait. Never raises."""
        target = letter.bound_for
        assert target is not None
        if is_home_away(self.letters.context.store) and not is_kept_locally(letter):
            return False
        (until, wait), now = self._backoffs.get(target, (0.0, FIRST_WAIT / 2)), self.letters.context.clock.monotonic()
        if target in self._backoffs and now < until:
            return False
        try:
            copy = await self._produce(letter, await self.definitions.require(target))
        except CannotRestore as problem:  # of this item alone
            log.error("item '%s' stays in its queue, as its values cannot be moved: %s", letter.entry_id, problem)
            return False
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
        """Move an item to its target, even beside another mover; return whether it is there. Raise StoreError."""
        target = str(letter.bound_for)
        if not self.definitions.is_seen(target):  # whether it is there already cannot be told to who acts
            raise IllegalMove(letter.entry_id, "change", "on its way", "to a queue outside of your scope", what="item")
        try:
            definition = await self.definitions.require(target)
        except NoSuchQueue:
            key = items.moved_key(letter, self.letters.namespace)
            return (await self.letters.records.get([key]))[0] is not None
        return await self._close(letter, await self._produce(letter, definition))

    async def _produce(self, letter: DeadLetter, definition: QueueDefinition) -> DeadLetter | None:
        """Create the item in its target, and be sure that it is there; the copy, if it was made just now."""
        fresh, home = items.moved_item(letter, definition, self._now()), home_of(self.letters.context.store)
        if CIPHERTEXT in letter.payload.text or CIPHERTEXT in letter.labels.text:
            fresh = self.letters.context.letter_factory.encryption.move_letter(fresh, letter)
        records = self.letters.records if is_kept_locally(letter) else home.collection(LETTERS)
        created = await write_one(records, fresh)
        if created is None and await get_one(records, fresh.key) is None:
            raise StoreUnavailable(f"item {letter.entry_id!r} is neither there nor can it be created")
        return created

    async def _close(self, letter: DeadLetter, copy: DeadLetter | None) -> bool:
        """Close the item in the source, or take the copy back if a person wants that and no worker has it yet."""
        bound_for = letter.bound_for

        def decide(current: DeadLetter) -> DeadLetter:
            now = self._now()
            is_bound = current.is_open and current.bound_for == bound_for
            return items.close_moved(current, now) if is_bound else current

        def insist(current: DeadLetter) -> DeadLetter:
            if not current.is_open or current.lease is not None:
                return current
            now = self._now()
            return items.close_moved(items.send_item(current, str(bound_for), now), now)

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
        return items.was_moved(after)

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
        """Send items back, as `NamedQueues.redrive` says."""
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
                    if not items.is_redrivable(letter):
                        status = items.status_of(letter, self._now())
                        raise IllegalMove(letter.entry_id, "redrive", status, "or on its way already", what="item")
                    sent += await self._send(letter, to)
            else:
                query = Query((self.letters.where(queue), OPEN, *where), IN_ORDER, _PAGE)
                async for page in find_pages(self.letters.records, query):
                    degraded = degraded or page.degraded
                    for letter in page.items:
                        try:
                            done = items.is_redrivable(letter) and await self._send(letter, to)
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
            if not items.is_redrivable(current):
                return current
            return items.send_item(current, target, self._now())

        before, after = await self.letters.change(letter, decide)
        if after is before:
            return False
        await self.finish_move(after)
        return True


# --- leases, and how they end

MOST_LEASES = 500
LONGEST_OWNER = 200
_LEASED_PAGE = 1000


@dataclass(eq=False, slots=True)
class _Completion:
    queue: str
    id: str
    token: str
    future: asyncio.Future[DeadLetter]


@dataclass(eq=False, slots=True)
class _LeaseRequest:
    owner: str
    limit: int
    seconds: float | None
    future: asyncio.Future[list[ItemLease]]


class _Line:
    """The requests for items of one queue in one event loop; one task serves them all."""

    def __init__(self) -> None:
        self.waiting: list[_LeaseRequest] = []
        self.server: asyncio.Task[None] | None = None


class QueueWork:
    """Lease, complete and fail for the queues of a namespace. What has died moves on by `moves`."""

    def __init__(self, definitions: QueueDefinitions, letters: QueueLetters, moves: QueueMoves) -> None:
        self._definitions, self._letters, self._moves = definitions, letters, moves
        self._context, self._clock = letters.context, letters.context.clock
        self._completions: Batcher[_Completion] = Batcher(self._write_completed)
        self._lines: dict[tuple[asyncio.AbstractEventLoop, str], _Line] = {}
        self._given_back: set[asyncio.Task[None]] = set()  # they go on though nobody may wait for them

    async def require(self, queue: str) -> QueueDefinition:
        """Return the definition of a queue whose items are here. Raise NoSuchQueue and InvalidInput."""
        return require_persisted(await self._definitions.require(queue))

    async def lease(self, queue: str, owner: str, limit: int, seconds: float | None) -> list[ItemLease]:
        """Lend the items that have waited longest to a worker. All who ask at the same time are served together."""
        if not isinstance(owner, str) or not 0 < len(owner) <= LONGEST_OWNER:
            raise InvalidInput(f"a worker is named by a text of 1 to {LONGEST_OWNER} characters, not {owner!r:.80}")
        if type(limit) is not int or not 1 <= limit <= MOST_LEASES:
            raise InvalidInput(f"limit must be a whole number from 1 to {MOST_LEASES}, not {limit!r:.80}")
        if seconds is not None:
            require_lease_seconds(seconds)
        await self._context.open()
        loop = asyncio.get_running_loop()
        request = _LeaseRequest(owner, limit, seconds, loop.create_future())
        line = self._lines.setdefault((loop, queue), _Line())
        line.waiting.append(request)
        if line.server is None or line.server.done():
            line.server = loop.create_task(self._serve(queue, line))
        try:
            return await request.future
        except asyncio.CancelledError:
            if not request.future.cancelled() and request.future.exception() is None:  # it was answered just before
                await self.give_back(request.future.result())
            raise

    async def _serve(self, queue: str, line: _Line) -> None:
        while line.waiting:
            batch, wanted = list[_LeaseRequest](), 0
            while line.waiting and wanted < MOST_LEASES:
                batch.append(line.waiting.pop(0))
                wanted += batch[-1].limit
            try:
                await self._lend(queue, batch)
            except BaseException as problem:
                for each in batch:
                    refuse(each.future, problem)
                if not isinstance(problem, Exception):
                    raise
        self._lines = {key: each for key, each in self._lines.items() if each is not line}

    async def _lend(self, queue: str, batch: Sequence[_LeaseRequest]) -> None:
        definition = await self.require(queue)
        got: dict[_LeaseRequest, list[ItemLease]] = {each: [] for each in batch}
        recovered, left = False, set[str]()  # keys of items that cannot be lent here: those behind them can
        problem: MahavishnuError | None = None
        try:
            while places := [
                each for each in batch for _ in range(each.limit - len(got[each])) if not each.future.done()
            ]:
                due = await self._find_due(queue, len(places), left)
                if not due and not recovered:  # perhaps a worker has died
                    recovered = True
                    if await self.recover(queue, first_only=True):
                        continue
                if not due:
                    break
                lost = await self._lend_some(due, places, definition, got, left)
                if len(due) < len(places) and not lost:
                    break
        except MahavishnuError as error:  # what is leased by now has to be known to somebody
            problem = error
        for each, leases in got.items():
            if each.future.done() and leases:  # it was cancelled while this was written
                await self.give_back(leases)
            if problem is None or leases:
                resolve(each.future, leases)
        if problem is not None:
            raise problem

    async def _find_due(self, queue: str, limit: int, left: Collection[str]) -> list[DeadLetter]:
        """Return the first items that can be leased, at most `limit`, without those `left` and unreadable ones."""
        due: list[DeadLetter] = []
        async for page in find_pages(self._letters.records, self._letters.due(queue, min(limit + len(left), _PAGE))):
            for problem in page.corrupt:
                log.error("an item cannot be read and is left alone: %s", problem)
            due += [letter for letter in page.items if letter.key not in left]
            if len(due) >= limit:
                break
        return due[:limit]

    async def _lend_some(
        self,
        due: Sequence[DeadLetter],
        places: Sequence[_LeaseRequest],
        definition: QueueDefinition,
        got: dict[_LeaseRequest, list[ItemLease]],
        left: set[str],
    ) -> bool:
        """Lend these by one write. Return whether one was missed: left, expired, or others were quicker."""
        now, chosen, lost = self._clock.now(), list[tuple[_LeaseRequest, DeadLetter]](), False
        waiting, plain = list(places), dict[str, DeadLetter]()
        encryption = self._context.letter_factory.encryption
        for letter in due:
            if items.is_expired(letter, now):
                await self._expire(letter)
                left.add(letter.key)
                lost = True
                continue
            try:
                plain[letter.key] = encryption.decrypt_letter(letter)
            except CannotRestore as problem:
                log.error("item %r is left alone: %s", letter.entry_id, problem)
                left.add(letter.key)
                lost = True
                continue
            request = waiting.pop(0)
            seconds = definition.lease_seconds if request.seconds is None else request.seconds
            until = now + timedelta(seconds=seconds)
            chosen.append((request, claim(letter, owner=request.owner, token=new_token(), until=until, now=now)))
        written = await self._letters.records.write([letter for _, letter in chosen]) if chosen else []
        for (request, wanted), stored in zip(chosen, written, strict=True):
            if not isinstance(stored, DeadLetter):
                if stored is not None:
                    log.warning("an item could not be leased: %s", stored)
                    left.add(wanted.key)
                lost = True
                continue
            assert stored.lease is not None and stored.due_at is not None
            self._context.lease_watch.look([stored])
            self._letters.remember(stored.lease.token, stored)
            item = QueueItem.of(stored, now, plain[stored.key].payload)
            got[request].append(ItemLease(item, stored.lease.token, stored.due_at))
        return lost

    async def give_back(self, leases: Sequence[ItemLease]) -> None:
        """Have others lease what nobody waits for any more; this goes on if the caller is cancelled meanwhile."""
        task = asyncio.create_task(self._give_back(leases))
        self._given_back.add(task)
        task.add_done_callback(self._given_back.discard)
        await asyncio.shield(task)

    async def _give_back(self, leases: Sequence[ItemLease]) -> None:
        for each in leases:
            try:
                letter = self._letters.held.pop(each.token, None)
                if letter is not None:
                    released = release(letter, token=each.token, now=self._clock.now())
                    await self._letters.records.write([released])
            except (StoreError, IllegalMove) as problem:  # its lease runs out
                log.warning("an item that nobody waited for any more could not be given back: %s", problem)

    async def recover(self, queue: str, *, first_only: bool = False) -> int:
        """Take items from workers whose leases ran out. Return how many. `first_only`: only those that end first."""
        taken = 0
        where = (self._letters.where(queue), Is("status", (DeadLetterStatus.RETRYING,)))
        leased = Query(where, (Sort("due_at"), Sort("entry_id")), _LEASED_PAGE)
        async for page in find_pages(self._letters.records, leased):
            taken += await self._recover_some(queue, page.items)
            if first_only:
                break
        return taken

    async def _recover_some(self, queue: str, leased: Sequence[DeadLetter]) -> int:
        taken = 0
        self._context.lease_watch.look(leased)
        gone = [each for each in leased if not self._context.lease_watch.may_be_running(each, self._clock.now())]
        definition = await self._definitions.recall(queue) if gone else None
        for letter in gone:
            taken += await self._take(letter, lambda each: items.recover_item(each, definition, self._clock.now()))
        return taken

    async def expire_all(self, queue: str) -> int:
        """Take the items of a queue out of its line that were not leased in time. Return how many."""
        count = 0
        while True:
            where = (self._letters.where(queue), OPEN, Is("status", (DeadLetterStatus.PENDING,)))
            expired = Between("expires_at", at_most=self._clock.now())
            page = await self._letters.records.find(Query((*where, expired), IN_ORDER, _PAGE))
            gone = sum([await self._expire(each) for each in page.items])
            count += gone
            if page.next is None or not gone:
                return count

    async def _expire(self, letter: DeadLetter) -> bool:
        definition = await self._definitions.recall(letter.queue)
        return await self._take(letter, lambda each: items.expire_item(each, definition, self._clock.now()))

    async def _take(self, letter: DeadLetter, decide: Callable[[DeadLetter], DeadLetter]) -> bool:
        """Decide what time has done to an item. What cannot be written keeps nobody from other items."""
        try:
            before, after = await self._letters.change(letter, decide)
        except StoreUnavailable:
            raise
        except NoSuchLetter:  # somebody was quicker
            return False
        except MahavishnuError as problem:
            log.error("item '%s' is left as it is: %s", letter.entry_id, problem)
            return False
        await self._after(before, after)
        return after is not before

    # --- ends

    async def complete(self, queue: str, id: str, token: str) -> DeadLetter:
        """Complete the item. Items that end at the same time share one write."""
        completion = _Completion(queue, id, token, asyncio.get_running_loop().create_future())
        await self._context.open()
        self._completions.add(completion)
        return await completion.future

    async def _write_completed(self, batch: Sequence[_Completion]) -> None:
        now, ready, ended = self._clock.now(), list[_Completion](), list[DeadLetter]()
        unknown: list[_Completion] = []
        for each in batch:
            known = self._letters.recall(each.token, each.queue, each.id)
            try:
                if known is None:
                    unknown.append(each)
                    continue
                ended.append(items.complete_item(known, each.token, now))
                ready.append(each)
            except LostLease as problem:
                refuse(each.future, problem)
        written = await self._letters.records.write(ended) if ended else []
        for each, stored in zip(ready, written, strict=True):
            if isinstance(stored, DeadLetter):
                self._letters.held.pop(each.token, None)
                resolve(each.future, stored)
            elif stored is None:
                unknown.append(each)
            else:
                refuse(each.future, stored)
        for each in unknown:
            try:
                resolve(each.future, await self._complete_one(each))
            except Exception as problem:
                refuse(each.future, problem)

    async def _complete_one(self, each: _Completion) -> DeadLetter:
        def decide(letter: DeadLetter) -> DeadLetter:
            if letter.settled == f"completed {each.token}":
                return letter
            return items.complete_item(letter, each.token, self._clock.now())

        _, after = await self._letters.change(await self._letters.get(each.queue, each.id), decide)
        self._letters.held.pop(each.token, None)
        return after

    async def fail(
        self, queue: str, id: str, token: str, error: str, dead: bool, retry_in: timedelta | None
    ) -> DeadLetter:
        """Fail the item, by the definition at this moment."""
        letter = self._letters.recall(token, queue, id) or await self._letters.get(queue, id)
        definition = await self._definitions.recall(queue)

        def decide(current: DeadLetter) -> DeadLetter:
            if current.settled == f"failed {token}":
                return current
            now, owner = self._clock.now(), current.lease.owner if current.lease else None
            failure = Failure(at=now, message=error, processor=owner)
            failure = self._context.letter_factory.encryption.mask_in(failure, current)
            return items.fail_item(current, definition, token, failure, now, dead=dead, retry_in=retry_in)

        before, after = await self._letters.change(letter, decide)
        self._letters.held.pop(token, None)
        await self._after(before, after)
        return after

    async def renew(self, queue: str, id: str, token: str, seconds: float | None) -> datetime:
        """Extend the lease by this length. Return its new end."""
        letter = self._letters.recall(token, queue, id) or await self._letters.get(queue, id)
        if seconds is None:
            definition = await self._definitions.recall(queue)
            seconds = definition.lease_seconds if definition else letter.lease.seconds if letter.lease else None
        length = timedelta(seconds=require_lease_seconds(seconds))

        def decide(current: DeadLetter) -> DeadLetter:
            now = self._clock.now()
            return items.renew_item(current, token, now + length, now)

        _, after = await self._letters.change(letter, decide)
        self._context.lease_watch.look([after])
        self._letters.remember(token, after)
        assert after.due_at is not None
        return after.due_at

    async def resurrect(self, queue: str, id: str, by: str, notes: str | None) -> DeadLetter:
        """Have a dead or failed item leased again, on behalf of a person."""
        await self.require(queue)
        letter = await self._letters.get(queue, id)
        subject = f"letter:{letter.key}"
        async with self._context.audit.record("queue.item.retry", subject, by=by, reason=notes) as act:
            before, after = await self._letters.change_if_here(
                letter, "retry", lambda each: items.resurrect_item(each, self._clock.now()), self._moves.arrive
            )
            act.add_change({"status": str(before.status)}, {"status": str(after.status)})
        self._letters.announce(EventName.QUEUE_ITEM_RETRY, after, manual=True)
        self._letters.announce(EventName.WORKER_WAKE, after)
        return after

    async def drop(self, queue: str, id: str, by: str, notes: str | None) -> DeadLetter:
        """Delete an item on behalf of a person. Raise IllegalMove while a worker has it."""
        letter = await self._letters.get(queue, id)

        def decide(current: DeadLetter) -> DeadLetter:
            if current.lease is not None:
                raise IllegalMove(id, "drop", "active", f"{current.lease.owner} has leased it", what="item")
            return delete(current, now=self._clock.now(), by=by)

        before, _ = await self._letters.change_if_here(
            letter, "drop", decide, self._moves.arrive, notes or "dropped by a person", by
        )
        return before

    async def _after(self, before: DeadLetter, after: DeadLetter) -> None:
        """Tell what became of an item, and move it on if it died."""
        if after is before:
            return
        self._letters.announce_failure(before, after)
        if after.bound_for is not None and after.is_open:
            await self._moves.finish_move(after)
