"""Writers for the state machines: what the product does to letters, in its plainest form, and what was acknowledged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from operator import attrgetter
from typing import Any, TypeVar

from mahavishnu.model import lifecycle, tombstones
from mahavishnu.model.errors import IllegalMove, StoreError, StoreUnavailable
from mahavishnu.model.letter import DeadLetter, FormerLetter
from mahavishnu.model.letter_parts import Tallies
from mahavishnu.model.lifecycle import Move
from mahavishnu.model.query import Is, Query
from mahavishnu.model.work import Success
from mahavishnu.queues import items as queue_items
from mahavishnu.stores.base import Cell, Collection, Store, get_one, scan, write_one
from mahavishnu.stores.kinds import HISTORY, LETTERS
from mahavishnu.testing import Fault, ManualClock, make_failure, make_letter

L = TypeVar("L", bound=DeadLetter)
TALLIES = ("generation", *(f"tally_{each.name}" for each in fields(Tallies)))
CLOSINGS = (
    "retry_success",
    "requeued",
    "permanently_failed",
    "manually_resolved",
    "cancelled",
    "archived",
    "cleared",
    "moved",
)
SETTLING = frozenset({Move.RELEASE, Move.SUCCEED, Move.FAIL, Move.EXHAUST})
LEASE = timedelta(minutes=5)


def moved(letter: DeadLetter, move: Move, clock: ManualClock, token: str) -> DeadLetter:
    """The move with whatever it needs. `token` is the new one for a claim, else that of the run which is ending."""
    now = clock.now()
    by: dict[str, Any] = {"now": now, "by": "ann"}
    moves: dict[Move, Callable[[], DeadLetter]] = {
        Move.CLAIM: lambda: lifecycle.claim(letter, owner="w", token=token, until=now + LEASE, now=now),
        Move.RENEW: lambda: lifecycle.renew(letter, token=token, until=now + LEASE, now=now),
        Move.RELEASE: lambda: lifecycle.release(letter, token=token, now=now),
        Move.SUCCEED: lambda: lifecycle.succeed(letter, token=token, now=now),
        Move.FAIL: lambda: lifecycle.fail(letter, token=token, failure=make_failure(at=now), now=now),
        Move.EXHAUST: lambda: lifecycle.exhaust(letter, token=token, failure=make_failure(at=now), now=now),
        Move.REDRIVE: lambda: lifecycle.redrive(letter, now=now),
        Move.EDIT: lambda: lifecycle.edit(letter, now=now, priority=letter.priority + 1),
        Move.MERGE: lambda: lifecycle.merge(letter, make_failure(at=now), now),
        Move.REQUEUE: lambda: lifecycle.requeue(letter, **by),
        Move.RESOLVE: lambda: lifecycle.resolve(letter, **by),
        Move.CLOSE_BY_SUCCESS: lambda: lifecycle.close_by_success(
            letter, Success(letter.payload, letter.adapter, letter.repos, now), now=now
        ),
        Move.CANCEL: lambda: lifecycle.cancel(letter, **by),
        Move.GIVE_UP: lambda: lifecycle.give_up(letter, **by),
        Move.ARCHIVE: lambda: lifecycle.archive(letter, **by),
        Move.RESTORE: lambda: lifecycle.restore(letter, now=now),
        Move.DELETE: lambda: tombstones.delete(letter, **by),
        Move.RETIRE: lambda: tombstones.retire(letter, **by, partition="2026_01"),
        Move.WITHDRAW: lambda: queue_items.withdraw(letter, now=now, reason="expired"),
        Move.MOVE: lambda: queue_items.move(letter, **by, to="orders-dead"),
    }
    return moves[move]()


@dataclass
class Acknowledged:
    """What the store has said yes to: how everything has to be."""

    letters: dict[str, DeadLetter] = field(default_factory=dict)
    history: dict[str, FormerLetter] = field(default_factory=dict)
    entries: set[str] = field(default_factory=set)
    settled: Counter[str] = field(default_factory=Counter)


class Writers:
    """Move letters in `store`, and check each answer against what was acknowledged before.

    `truth` is the same store without faults; there, what became of an unanswered write is looked up.
    """

    def __init__(self, store: Store, truth: Store, namespace: str, clock: ManualClock) -> None:
        self.store, self.truth, self.namespace, self.clock = store, truth, namespace, clock
        self.known = Acknowledged()
        self.conflicts: list[Fault] = []  # those that were planned, and are not real
        self._tokens = 0

    async def look(self, task_id: str) -> DeadLetter | None:
        """The current letter; None also if the store does not answer."""
        try:
            letter = await get_one(self.store.collection(LETTERS), self.draft(task_id).key)
        except StoreUnavailable:
            return None
        key = self.draft(task_id).key
        assert (letter and letter.version) == (self.known.letters[key].version if key in self.known.letters else None)
        return letter

    async def capture(self, task_id: str, **how: Any) -> None:
        """The task failed."""
        fresh = self.draft(task_id, **how)
        try:
            there = await get_one(self.store.collection(LETTERS), fresh.key)
        except StoreUnavailable:
            return
        if there is None:
            await self.write(fresh)
        elif there.is_open:
            await self.write(moved(there, Move.MERGE, self.clock, ""))
        else:
            former, successor = lifecycle.next_generation(there, fresh)
            if there.is_deleted:  # nothing of it is kept but what its successor carries
                if await self.write(successor) is not None:
                    self.known.entries.discard(there.entry_id)
            elif await self._keep_in_history(former):
                await self.write(successor)

    async def move(self, seen: DeadLetter, move: Move) -> DeadLetter | None:
        """One move from what somebody has seen, however long ago."""
        token = self._token() if move is Move.CLAIM else seen.lease.token if seen.lease else "no token"
        try:
            after = moved(seen, move, self.clock, token)
        except IllegalMove:
            return None
        written = await self.write(after)
        if written is not None and move is Move.CLAIM and seen.lease is not None:
            assert seen.due_at is not None
            assert seen.due_at <= self.clock.now(), "a letter was taken from somebody who still had it"
        if written is not None and move in SETTLING:
            self.known.settled[token] += 1
        return written

    async def settle(self, seen: DeadLetter, move: Move) -> None:
        """The end of a run: read again, and apply it under the token, as an attempt does."""
        token = seen.lease.token if seen.lease else "no token"
        try:
            there = await get_one(self.store.collection(LETTERS), seen.key)
            if there is None:
                return
            after = moved(there, move, self.clock, token)
        except (IllegalMove, StoreUnavailable):
            return
        if await self.write(after) is not None:
            assert there.lease is not None
            assert there.lease.token == token, "a run has settled the claim of another"
            self.known.settled[token] += 1

    async def purge(self, seen: DeadLetter) -> None:
        """Remove a closed letter, if it is still as it was seen."""
        if seen.is_open:
            return
        before = self.known.letters.get(seen.key)
        stale = (before and before.version) != seen.version
        planned = self._planned_conflicts()
        removed: bool | StoreError
        try:
            (removed,) = await self.store.collection(LETTERS).remove([seen])
        except StoreError as problem:
            removed = problem
        there = await get_one(self.truth.collection(LETTERS), seen.key)
        if isinstance(removed, StoreError):
            landed = there is None and before is not None
            assert not landed or (isinstance(removed, StoreUnavailable) and removed.maybe_written)
            removed = landed
        elif not removed:
            assert stale or self._planned_conflicts() > planned, "a remover lost although nobody was quicker"
        if not removed:
            assert _same_version(there, before)
            return
        assert not stale, "a letter was removed that somebody had changed"
        assert there is None
        del self.known.letters[seen.key]
        self.known.entries.discard(seen.entry_id)

    async def write(self, letter: DeadLetter) -> DeadLetter | None:
        """Write and check the answer. None unless it was stored."""
        assert lifecycle.violations(letter) == []
        stored = await self._write(LETTERS, self.known.letters, letter)
        if stored is not None:
            self.known.entries.add(stored.entry_id)
        return stored

    async def check(self) -> None:
        """Everything acknowledged is there, and nothing else; the statistics add up."""
        where = Query((Is("namespace", (self.namespace,)),))
        live = [letter async for letter in scan(self.truth.collection(LETTERS), where)]
        former = [letter async for letter in scan(self.truth.collection(HISTORY), where)]
        assert {letter.key: letter for letter in live} == self.known.letters
        assert {letter.key: letter for letter in former} == self.known.history
        assert len(live) == len({letter.key for letter in live}), "two live letters under one key"
        assert {each.entry_id for each in (*live, *former)} >= self.known.entries, "an acknowledged entry is lost"
        assert not [letter for letter in (*live, *former) if lifecycle.violations(letter)]
        assert max(self.known.settled.values(), default=1) == 1, "a claim was settled twice"
        await self._tally(HISTORY, where, former)
        total = await self._tally(LETTERS, where, live)  # letters carry what their former generations counted
        assert total.sums.get("generation", 0) + total.sums.get("tally_reopened", 0) == (
            sum(letter.is_open for letter in live) + sum(total.sums.get(f"tally_{name}", 0) for name in CLOSINGS)
        ), "letters + reopened = open letters + closed ones"

    async def _tally(self, kind: Any, where: Query, records: Sequence[DeadLetter]) -> Cell:
        tally = await self.truth.collection(kind).tally(where, ["status", "resolution_status"], sums=TALLIES)
        assert tally.degraded is None
        recounted: dict[tuple[str, str], Cell] = {}
        for letter in records:
            sums = {name: attrgetter(name.replace("tally_", "tallies."))(letter) for name in TALLIES}
            group = (letter.status.value, letter.resolution.status.value)
            recounted[group] = recounted.get(group, Cell()).plus(Cell(1, sums))
        assert dict(tally.cells) == recounted
        return tally.total

    async def _keep_in_history(self, former: FormerLetter) -> bool:
        """Also where an attempt to replace the letter has failed before: the letter may have moved on since."""
        there = self.known.history.get(former.key)
        if there is None:
            return await self._write(HISTORY, self.known.history, former) is not None
        return await self._write(HISTORY, self.known.history, replace(former, version=there.version)) is not None

    async def _write(self, kind: Any, known: dict[str, L], record: L) -> L | None:
        before = known.get(record.key)
        stale = (before and before.version) != record.version
        planned = self._planned_conflicts()
        collection: Collection[L] = self.store.collection(kind)
        answer: L | StoreError | None
        try:
            answer = await write_one(collection, record)
        except StoreError as problem:
            answer = problem
        there: L | None = await get_one(self.truth.collection(kind), record.key)
        if isinstance(answer, StoreError):
            landed = there is not None and not stale and not _same_version(there, before)
            assert not landed or (isinstance(answer, StoreUnavailable) and answer.maybe_written)
            answer = there if landed else None
        elif answer is None:
            assert stale or self._planned_conflicts() > planned, "a writer lost although nobody was quicker"
        if answer is None:
            assert _same_version(there, before), "a write that was not stored has changed something"
            return None
        assert not stale, "a stale write has won"
        assert there == answer == record
        assert _same_version(there, answer)
        known[record.key] = answer
        return answer

    def draft(self, task_id: str, **how: Any) -> DeadLetter:
        """A new letter, not stored."""
        return lifecycle.new_letter(
            make_letter(task_id=task_id, namespace=self.namespace, created_at=self.clock.now(), **how)
        )

    def _planned_conflicts(self) -> int:
        return sum(fault.hits for fault in self.conflicts)

    def _token(self) -> str:
        self._tokens += 1
        return f"token-{self._tokens}"


def _same_version(one: DeadLetter | None, other: DeadLetter | None) -> bool:
    return (one and one.version) == (other and other.version)
