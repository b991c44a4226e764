"""Two stores as one: where records are, in which order they move, and what is said about it."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import count
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import pytest

import mahavishnu
from mahavishnu.archive import records as archived
from mahavishnu.archive import records as archived_tasks
from mahavishnu.archive.export import EXPORT_STEPS
from mahavishnu.bulk.run import BulkRun, RunItem, RunPage
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.engine.waiting_room import WAITING
from mahavishnu.groups.rules import Group
from mahavishnu.http.replies import Reply
from mahavishnu.model import lifecycle, reconcile, tombstones
from mahavishnu.model.errors import InvalidQuery, ItemFailed, StoreMisconfigured, StoreUnavailable
from mahavishnu.model.events import AuditEntry
from mahavishnu.model.json_value import EMPTY, Json
from mahavishnu.model.letter import DeadLetter, FormerLetter
from mahavishnu.model.query import Query, letter_query
from mahavishnu.model.work import as_other_work
from mahavishnu.stores.base import Buckets, Cursor, Histogram, get_one, scan, write_one
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.fallback.collection import FallbackCollection
from mahavishnu.stores.fallback.drain import LocalCopy, local_copy_kind
from mahavishnu.stores.kind import Kind
from mahavishnu.stores.kinds import HISTORY, LETTERS, LOCAL_STORES, REVISIONS, LocalStore, stored_kinds
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.retained import LedgerEntry, Revision, find_place, keep_revisions
from mahavishnu.testing import START, FaultyStore, ManualClock, make_failure, make_letter
from mahavishnu.workers.leases import write_under_lease
from mahavishnu.workers.rules import Worker

HELD = local_copy_kind(LETTERS)
HOURS = Buckets("created_at", START, timedelta(hours=1), 2)


@dataclass
class Two:
    """A fallback store and what is inside it."""

    store: FallbackStore
    primary: FaultyStore
    local: FaultyStore
    clock: ManualClock

    @property
    def letters(self) -> FallbackCollection[DeadLetter]:
        return self.store.collection(LETTERS)

    async def at_home(self) -> dict[str, DeadLetter]:
        return {each.key: each async for each in scan(self.primary.inner.collection(LETTERS), Query())}

    async def kept(self) -> dict[str, LocalCopy[DeadLetter]]:
        return {each.key: each async for each in scan(self.local.inner.collection(HELD), Query())}

    async def comes_back(self) -> None:
        """The primary answers again, and the watch has had its turn."""
        self.primary.faults.clear()
        await self.store.drain()


@pytest.fixture
async def two() -> AsyncIterator[Two]:
    clock = ManualClock()
    primary, local = FaultyStore(MemoryStore()), FaultyStore(MemoryStore())
    async with FallbackStore(primary, local, clock=clock) as store:
        await clock.sleeping()
        yield Two(store, primary, local, clock)


async def test_while_the_primary_answers_nothing_is_kept_locally(two: Two) -> None:
    await two.letters.write([make_letter(task_id="a")])
    assert set(await two.at_home()) == {"a"}
    assert await two.kept() == {}
    assert two.local.faults.calls["write"] == 0


async def test_an_absent_primary_costs_one_call_not_one_per_call(two: Two) -> None:
    two.primary.faults.unavailable()
    before = two.primary.faults.calls.total()
    for number in range(20):
        assert await write_one(two.letters, make_letter(task_id=f"t{number}")) is not None
    assert two.primary.faults.calls.total() == before + 1
    assert len(await two.kept()) == 20
    health = await two.store.health()
    assert (health.status, health.waiting) == ("degraded", 20)
    assert health.oldest is not None


async def test_the_watch_drains_by_itself_when_the_primary_is_back(two: Two) -> None:
    two.primary.faults.unavailable()
    await two.letters.write([make_letter(task_id=f"t{number}") for number in range(1203)])
    two.primary.faults.clear()
    two.clock.advance(60)
    await two.clock.sleeping()
    assert len(await two.at_home()) == 1203
    assert await two.kept() == {}
    assert (await two.store.health()).status == "ok"
    assert two.store.away is None


async def test_the_watch_tries_less_and_less_often(two: Two) -> None:
    two.primary.faults.unavailable()
    await two.letters.write([make_letter()])
    pauses = []
    for _ in range(9):
        pauses.append(await two.clock.sleeping())
        two.clock.advance(pauses[-1])
    assert pauses[0] == 1.0
    assert pauses == sorted(pauses)
    assert pauses[-1] == 10.0


async def test_kept_letters_are_worked_on_and_go_home_as_they_are_then(two: Two) -> None:
    two.primary.faults.unavailable()
    letter = await write_one(two.letters, make_letter(task_id="a"))
    assert letter is not None
    now = two.clock.now()
    claimed = lifecycle.claim(letter, owner="w", token="t", until=now + timedelta(minutes=5), now=now)
    running = await write_one(two.letters, claimed)
    assert running is not None
    await two.comes_back()  # in the middle of the run
    assert set(await two.at_home()) == {"a"}
    # The settle loses its CAS, reads again and is still the owner.
    assert await write_one(two.letters, lifecycle.succeed(running, token="t", now=now)) is None
    current = await get_one(two.letters, "a")
    assert current is not None
    settled = await write_one(two.letters, lifecycle.succeed(current, token="t", now=now))
    assert settled is not None
    assert (await two.at_home())["a"].status == "completed"


@pytest.mark.parametrize("shared", [False, True], ids=["a local store each", "one local store"])
@pytest.mark.parametrize("runner", ["there", "here"])
async def test_a_letter_goes_home_when_the_lease_of_a_run_that_died_has_ended(shared: bool, runner: str) -> None:
    """Two letters of one task wait for a run of either; nobody claims it again, and still that wait ends."""
    clock, home, local = ManualClock(), MemoryStore(), MemoryStore()
    primary = FaultyStore(home)
    other = FallbackStore(home, local if shared else MemoryStore(), clock=clock)
    async with FallbackStore(primary, local, clock=clock) as store, other:
        here, there = store.collection(LETTERS), other.collection(LETTERS)
        draft = replace(make_letter(task_id="a", created_at=clock.now()), due_at=clock.now())
        first = await write_one(there, draft)
        assert first is not None
        lease: dict[str, Any] = {
            "owner": "w",
            "token": "t",
            "now": clock.now(),
            "until": clock.now() + timedelta(minutes=5),
        }
        if runner == "there":
            assert await write_one(there, lifecycle.claim(first, **lease))
        primary.faults.unavailable()
        second = await write_one(here, replace(draft, entry_id="second"))
        assert second is not None
        second = await write_one(here, lifecycle.requeue(second, now=clock.now(), by="ann"))
        assert second is not None
        if runner == "here":
            assert await write_one(here, lifecycle.claim(second, **lease))
        primary.faults.clear()

        assert (await store.drain()).waiting == 1
        clock.advance(minutes=4)
        assert (await store.drain()).waiting == 1
        clock.advance(minutes=1)
        assert (await store.drain()).waiting == 0

        letter = await get_one(home.collection(LETTERS), "a")
        assert letter is not None
        assert (letter.entry_id, letter.occurrences, letter.lease) == (first.entry_id, 2, None)
        assert (letter.requeue, letter.due_at, letter.tallies.claims_recovered) == (second.requeue, second.due_at, 1)
        assert await get_one(local.collection(HELD), "a") is None


async def test_letters_of_the_primary_wait_for_it(two: Two) -> None:
    letter = await write_one(two.letters, make_letter(task_id="a"))
    assert letter is not None
    two.primary.faults.unavailable()
    edited = lifecycle.edit(letter, now=two.clock.now(), priority=3)
    for _ in range(2):  # found out, then known
        with pytest.raises(StoreUnavailable):
            await two.letters.write([edited])
        with pytest.raises(StoreUnavailable):
            await two.letters.remove([letter])
        with pytest.raises(StoreUnavailable):
            await two.letters.get(["a"])
    results = await two.letters.write([edited, make_letter(task_id="b")])
    assert isinstance(results[0], StoreUnavailable)
    assert isinstance(results[1], DeadLetter)


async def test_reads_during_an_outage_say_so(two: Two) -> None:
    await two.letters.write([make_letter(task_id="a")])
    two.primary.faults.unavailable()
    await two.letters.write([make_letter(task_id="b")])
    page = await two.letters.find(letter_query())
    assert [letter.key for letter in page.items] == ["b"]
    assert page.degraded
    tally = await two.letters.tally(letter_query())
    assert tally.total.count == 1
    assert tally.degraded
    histogram = await two.letters.histogram(letter_query(), HOURS)
    assert histogram.counts == (1, 0)
    assert histogram.degraded
    found = await two.letters.get(["a", "b", "never"])
    assert isinstance(found[0], StoreUnavailable)
    assert isinstance(found[1], DeadLetter)
    assert isinstance(found[2], StoreUnavailable)


async def test_a_read_finds_the_outage_by_itself_and_still_shows_what_is_kept(two: Two) -> None:
    two.primary.faults.unavailable()
    assert (await two.letters.find(letter_query())).degraded
    two.store.primary_failed(StoreUnavailable("x"))
    assert (await two.letters.tally(letter_query())).degraded
    assert (await two.letters.histogram(letter_query(), HOURS)).degraded


async def test_a_histogram_adds_up_what_is_kept_and_what_is_at_home(two: Two) -> None:
    await two.letters.write([make_letter(task_id="a"), make_letter(task_id="later", created_at=START + HOURS.interval)])
    assert await two.letters.histogram(letter_query(), HOURS) == Histogram((1, 1))
    two.primary.faults.item_failed("write", times=1)
    await two.letters.write([make_letter(task_id="b")])
    histogram = await two.letters.histogram(letter_query(), HOURS)
    assert histogram.counts == (2, 1)
    assert histogram.degraded is (await two.letters.tally(letter_query())).degraded is None


async def test_nothing_is_counted_twice_while_it_goes_home(two: Two) -> None:
    """Whenever one looks: before a copy is made at home, while there are two, and after the local one is gone."""
    at_home = [make_letter(task_id=name, entry_id=f"{name}1", max_retries=3) for name in ("a", "b")]
    await two.letters.write(at_home)
    with two.primary.faults.unavailable():
        two.store.primary_failed(StoreUnavailable("it is away"))
        await two.letters.write([make_letter(task_id=name, entry_id=f"{name}2", max_retries=5) for name in ("b", "c")])
    two.store._away = None
    counts: list[tuple[Any, ...]] = []

    async def look(call: object = None) -> None:
        tally = await two.letters.tally(letter_query(), ["task_id"], sums=["max_retries"])
        histogram = await two.letters.histogram(letter_query(), HOURS)
        found = await two.letters.find(letter_query())
        assert {values[0] for values in tally.cells} == {each.key for each in found.items} == {"a", "b", "c"}
        counts.append((tally.total.count, sum(histogram.counts), len(found.items), tally.degraded, histogram.degraded))

    await look()
    for faults in (two.primary.faults, two.local.faults):
        for operation in ("write", "remove"):
            faults.before(operation, look, kind=LETTERS)
            faults.after(operation, look, kind=LETTERS)
    assert (await two.store.drain()).waiting == 0
    await look()
    assert counts == [(3, 3, 3, None, None)] * len(counts) and len(counts) > 7
    assert await two.kept() == {}


async def test_sums_of_more_local_records_than_can_be_told_apart_say_so(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mahavishnu.stores.fallback.collection._MOST_EXACT", 2)
    with two.primary.faults.item_failed("write"):
        await two.letters.write([make_letter(task_id=name) for name in "abc"])
    tally, histogram = await two.letters.tally(letter_query()), await two.letters.histogram(letter_query(), HOURS)
    assert (tally.total.count, sum(histogram.counts)) == (3, 3)
    assert tally.degraded == histogram.degraded is not None


@pytest.mark.parametrize("landed", [True, False])
async def test_a_letter_whose_answer_was_lost_ends_up_once(two: Two, landed: bool) -> None:
    if landed:
        two.primary.faults.answer_lost("write")
    else:
        two.primary.faults.before("write", _lose)
    stored = await write_one(two.letters, make_letter(task_id="a"))
    assert stored is not None
    two.primary.faults.clear()
    two.primary.faults.unavailable()
    # Its twin may be in the primary: it can be read, but nobody may take it before that is known.
    assert (await two.kept())["a"].uncertain
    now = two.clock.now()
    claimed = lifecycle.claim(stored, owner="w", token="t", until=now + timedelta(minutes=5), now=now)
    with pytest.raises(StoreUnavailable, match="twin"):
        await two.letters.write([claimed])
    with pytest.raises(StoreUnavailable, match="twin"):
        await two.letters.remove([stored])
    assert await write_one(two.letters, make_letter(task_id="a")) is None
    await two.comes_back()
    assert await two.kept() == {}
    assert (await two.at_home())["a"].entry_id == stored.entry_id


async def _lose(call: object) -> None:
    raise StoreUnavailable("time-out", maybe_written=True)


async def test_a_twin_that_others_worked_on_wins(two: Two) -> None:
    two.primary.faults.answer_lost("write")
    stored = await write_one(two.letters, make_letter(task_id="a"))
    assert stored is not None
    other = two.primary.inner.collection(LETTERS)
    theirs = await get_one(other, "a")
    assert theirs is not None
    now = two.clock.now()
    claimed = lifecycle.claim(theirs, owner="w", token="t", until=now + timedelta(minutes=5), now=now)
    await other.write([claimed])
    two.primary.faults.clear()
    await two.comes_back()
    assert await two.kept() == {}
    assert (await two.at_home())["a"].status == "retrying"


@pytest.mark.parametrize("known", ["by itself", "as a part of another", ""])
async def test_a_letter_that_had_landed_and_was_deleted_since(two: Two, known: str) -> None:
    two.primary.faults.answer_lost("write")
    stored = await write_one(two.letters, make_letter(task_id="a"))
    assert stored is not None
    there = two.primary.inner.collection(LETTERS)
    (landed,) = await there.get(["a"])
    assert isinstance(landed, DeadLetter)
    absorbing = replace(landed, entry_id="another", absorbed=(landed.entry_id,) if known else ())
    last = landed if known == "by itself" else absorbing
    assert await write_one(there, tombstones.delete(last, now=two.clock.now(), by="ann")) is not None
    await two.comes_back()
    assert await two.kept() == {}
    assert (await two.at_home())["a"].is_deleted is bool(known), "one that was not deleted is not lost"


async def test_what_was_deleted_while_the_drain_looked_elsewhere_does_not_come_back(two: Two) -> None:
    """The one who drains has seen everything that it looks at, and writes now."""
    two.primary.faults.answer_lost("write", times=1)
    await write_one(two.letters, make_letter(task_id="a"))
    there = two.primary.inner.collection(LETTERS)
    hold = two.primary.faults.hold("write", kind=LETTERS)
    draining = asyncio.create_task(two.store.drain())
    await hold.wait_for_call()
    (landed,) = await there.get(["a"])
    assert isinstance(landed, DeadLetter)
    assert await write_one(there, tombstones.delete(landed, now=two.clock.now(), by="ann")) is not None
    hold.release()
    await draining
    assert (await two.at_home())["a"].is_deleted
    assert await two.kept() == {}


async def test_what_was_deleted_here_is_deleted_at_home(two: Two) -> None:
    two.primary.faults.unavailable()
    kept = await write_one(two.letters, make_letter(task_id="a"))
    assert kept is not None
    assert await write_one(two.letters, tombstones.delete(kept, now=two.clock.now(), by="ann")) is not None
    await two.comes_back()
    assert await two.kept() == {}
    left = (await two.at_home())["a"]
    assert (left.is_deleted, left.tallies.cleared) == (True, 1)


async def test_what_a_letter_was_stays_away_if_the_letter_was_deleted_at_home(two: Two) -> None:
    """Its edits were kept locally, it went home first, and somebody else deleted it there."""
    gone, alive, former = (make_letter(task_id=name) for name in ("gone", "alive", "former"))
    two.primary.faults.unavailable()
    revisions = two.store.collection(REVISIONS)
    assert await keep_revisions(revisions, [gone, alive, former]) == [None] * 3
    later = make_letter(task_id="former", entry_id="later", absorbed=(former.entry_id,))
    deleted = [tombstones.delete(each, now=two.clock.now(), by="ann") for each in (gone, later)]
    await two.primary.inner.collection(LETTERS).write([*deleted, alive])
    await two.primary.inner.collection(HISTORY).write([FormerLetter.of(former)])
    await two.comes_back()
    at_home = [each.entry_id async for each in scan(two.primary.inner.collection(REVISIONS), Query())]
    assert sorted(at_home) == sorted([alive.entry_id, former.entry_id])
    assert not [each async for each in scan(two.local.inner.collection(local_copy_kind(REVISIONS)), Query())]


async def test_while_it_cannot_be_seen_whether_the_letter_was_deleted_what_it_was_waits(two: Two) -> None:
    gone = make_letter(task_id="gone")
    two.primary.faults.unavailable()
    assert await keep_revisions(two.store.collection(REVISIONS), [gone]) == [None]
    tombstone = tombstones.delete(gone, now=two.clock.now(), by="ann")
    await two.primary.inner.collection(LETTERS).write([tombstone])
    two.primary.faults.clear()
    two.primary.faults.unavailable("get", kind=LETTERS)
    assert isinstance((await two.store.drain()).stopped, StoreUnavailable)
    two.primary.faults.clear()
    await two.comes_back()
    assert not [each async for each in scan(two.primary.inner.collection(REVISIONS), Query())]
    assert not [each async for each in scan(two.local.inner.collection(local_copy_kind(REVISIONS)), Query())]


async def test_a_task_that_failed_on_both_sides_becomes_one_letter(two: Two) -> None:
    await two.letters.write([make_letter(task_id="open"), make_letter(task_id="closed", status="completed")])
    two.primary.faults.unavailable()
    await two.letters.write([make_letter(task_id="open"), make_letter(task_id="closed")])
    before = await two.at_home()
    await two.comes_back()
    after = await two.at_home()
    assert await two.kept() == {}
    assert after["open"].occurrences == 2
    assert after["open"].entry_id == before["open"].entry_id
    assert after["closed"].generation == 2
    assert after["closed"].previous_entry_id == before["closed"].entry_id
    former = [each async for each in scan(two.store.collection(HISTORY), Query())]
    assert [each.entry_id for each in former] == [before["closed"].entry_id]


async def test_a_letter_that_cannot_be_reconciled_is_named_and_the_others_go_home(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    two.primary.faults.unavailable()
    for name in ("a", "bad", "c"):
        await two.letters.write([make_letter(task_id=name, entry_id=f"here {name}")])
    held = await get_one(two.letters, "bad")
    assert held is not None
    lease: dict[str, Any] = {
        "owner": "w",
        "token": "t",
        "until": two.clock.now() + timedelta(minutes=5),
        "now": two.clock.now(),
    }
    assert await write_one(two.letters, lifecycle.claim(held, **lease)) is not None
    await two.primary.inner.collection(LETTERS).write(
        [make_letter(task_id=name, entry_id=f"home {name}") for name in ("a", "bad", "c")]
    )
    real = reconcile.reconcile_letters

    def reconcile_letters(theirs: DeadLetter, ours: DeadLetter, now: Any) -> Any:
        if ours.key == "bad":
            raise OverflowError("date value out of range")
        return real(theirs, ours, now)

    monkeypatch.setattr("mahavishnu.stores.kinds.reconcile_letters", reconcile_letters)
    two.primary.faults.clear()
    result = await two.store.drain()
    assert [str(problem) for problem in result.refused] == [
        "record 'bad' was refused: it cannot be reconciled with the one at home: "
        "OverflowError('date value out of range')"
    ]
    assert {*await two.kept()} == {"bad"}
    assert {name: letter.occurrences for name, letter in (await two.at_home()).items()} == {"a": 2, "bad": 1, "c": 2}


async def test_a_conflicting_letter_that_is_being_run_locally_waits(two: Two) -> None:
    await two.letters.write([make_letter(task_id="a")])
    two.primary.faults.unavailable()
    mine = await write_one(two.letters, make_letter(task_id="a"))
    assert mine is not None
    now = two.clock.now()
    running = await write_one(
        two.letters, lifecycle.claim(mine, owner="w", token="t", until=now + timedelta(minutes=5), now=now)
    )
    assert running is not None
    await two.comes_back()
    assert not (await two.kept())["a"].uncertain  # it can be settled
    current = await get_one(two.letters, "a")
    assert current is not None
    assert current.entry_id == mine.entry_id
    assert await write_one(two.letters, lifecycle.succeed(current, token="t", now=now)) is not None
    await two.store.drain()
    assert await two.kept() == {}
    assert (await get_one(two.store.collection(HISTORY), mine.entry_id)) is not None


@pytest.mark.parametrize("edited", [False, True])
async def test_a_clock_that_jumps_takes_no_letter_from_a_run_on_either_side(two: Two, edited: bool) -> None:
    """A drain waits for the run until its lease was seen unchanged for its length; that of ours, or of theirs."""
    now = two.clock.now()
    until = now + timedelta(minutes=5)
    theirs = make_letter(task_id="a", due_at=now)
    await two.letters.write([lifecycle.claim(theirs, owner="w", token="t", until=until, now=now) if edited else theirs])
    two.primary.faults.unavailable()
    mine = await write_one(two.letters, make_letter(task_id="a", due_at=now))
    assert mine is not None
    changed = (
        lifecycle.edit(mine, now=now, priority=7)
        if edited
        else lifecycle.claim(mine, owner="w", token="t", until=until, now=now)
    )
    assert await write_one(two.letters, changed) is not None
    two.clock.set(now + timedelta(minutes=10))
    await two.comes_back()
    run = (await two.at_home())["a"] if edited else (await two.kept())["a"].record
    assert run.lease is not None and run.lease.token == "t"
    for _ in range(40):
        await two.clock.sleeping()
        two.clock.advance(10)
        await two.store.drain()
    assert await two.kept() == {}
    assert (await two.at_home())["a"].lease is None


async def test_a_local_letter_does_not_hide_a_run_of_its_twin(two: Two) -> None:
    """Whose outcome would be refused, and the work done again: the lease is asked for where it is."""
    now = two.clock.now()
    claim = lifecycle.claim(make_letter(task_id="a", due_at=now), owner="w", token="t", until=NEVER, now=now)
    running = await write_one(two.letters, claim)
    assert running is not None
    two.primary.faults.unavailable()
    assert await write_one(two.letters, make_letter(task_id="a")) is not None
    merged = lifecycle.merge(running, make_failure(at=now), now)
    two.primary.faults.clear()
    home = two.primary.inner.collection(LETTERS)
    other = await get_one(home, "a")
    assert other is not None and await write_one(home, merged) is not None  # by a process that sees no outage
    answers = iter([False, True])

    async def pause(tries: int) -> None:
        if next(answers):
            await two.comes_back()

    with two.primary.faults.unavailable("write", times=1):
        settled = await write_under_lease(
            two.letters, running, lambda current: lifecycle.succeed(current, token="t", now=now), pause, (8).__lt__
        )
    assert settled is not None and settled.entry_id == running.entry_id


NEVER = datetime(2100, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("moment", ["before the drain", "during the drain"])
async def test_the_outcome_of_a_run_counts_while_the_letter_meets_another_one(two: Two, moment: str) -> None:
    two.primary.faults.unavailable()
    mine = await write_one(two.letters, make_letter(task_id="a"))
    assert mine is not None
    now = two.clock.now()
    claimed = lifecycle.claim(mine, owner="w", token="t", until=now + timedelta(minutes=5), now=now)
    running = await write_one(two.letters, claimed)
    assert running is not None
    two.primary.faults.clear()
    home = two.primary.inner.collection(LETTERS)
    if moment == "before the drain":
        await home.write([make_letter(task_id="a")])
    hold = two.primary.faults.hold("get" if moment == "before the drain" else "write", kind=LETTERS)
    # A process that has seen no outage finds what another one has left.
    async with FallbackStore(two.primary, two.local, clock=two.clock) as store:
        await hold.wait_for_call()
        if moment == "during the drain":
            await home.write([make_letter(task_id="a")])

        async def go_on(tries: int) -> None:
            if tries == 2:  # it has been read once meanwhile
                hold.release()
                await store.drain()

        settled = await write_under_lease(
            store.collection(LETTERS),
            running,
            lambda current: lifecycle.succeed(current, token="t", now=now),
            go_on,
            (3).__lt__,
        )
        assert settled is not None and settled.entry_id == mine.entry_id
        await go_on(2)
        await store.drain()
        assert await two.kept() == {}
        assert (await get_one(store.collection(HISTORY), mine.entry_id)) is not None


@pytest.mark.parametrize("moment", ["create", "answer", "remove"])
async def test_a_drain_that_dies_anywhere_is_repeated_without_harm(two: Two, moment: str) -> None:
    two.primary.faults.unavailable()
    await two.letters.write([make_letter(task_id=f"t{number}") for number in range(30)])
    two.primary.faults.clear()

    async def die(call: object) -> None:
        raise asyncio.CancelledError

    if moment == "create":
        two.primary.faults.before("write", die, times=1)
    elif moment == "answer":
        two.primary.faults.after("write", die, times=1)
    else:
        two.local.faults.before("remove", die, times=1)
    with pytest.raises(asyncio.CancelledError):
        await two.store.drain()
    kept = await two.kept()
    assert kept.keys() | (await two.at_home()).keys() == {f"t{number}" for number in range(30)}
    # Nothing that may be in both places can be taken here while it can be taken there.
    assert all(held.uncertain for held in kept.values())
    await two.comes_back()
    assert len(await two.at_home()) == 30
    assert await two.kept() == {}


async def test_the_drain_marks_before_it_creates_and_removes_last(two: Two) -> None:
    two.primary.faults.unavailable()
    stored = await write_one(two.letters, make_letter(task_id="a"))
    assert stored is not None
    two.primary.faults.clear()
    hold = two.primary.faults.hold("write")
    draining = asyncio.create_task(two.store.drain())
    await hold.wait_for_call()
    assert (await two.kept())["a"].uncertain
    now = two.clock.now()
    claimed = lifecycle.claim(stored, owner="w", token="t", until=now + timedelta(minutes=5), now=now)
    assert await write_one(two.letters, claimed) is None  # nobody takes it on its way
    hold.release()
    hold = two.local.faults.hold("remove")
    await hold.wait_for_call()
    assert set(await two.at_home()) == {"a"}
    assert (await two.letters.find(letter_query())).items[0].key == "a"  # once, though it is in both
    hold.release()
    await draining
    assert await two.kept() == {}


async def test_a_letter_kept_while_the_drain_ends_is_not_forgotten(two: Two) -> None:
    two.primary.faults.unavailable()
    await two.letters.write([make_letter(task_id="a")])
    two.primary.faults.clear()
    hold = two.local.faults.hold("remove", after=True)
    draining = asyncio.create_task(two.store.drain())
    await hold.wait_for_call()
    assert await write_one(two.letters, make_letter(task_id="b")) is not None  # still away: kept locally
    assert set(await two.kept()) == {"b"}
    hold.release()
    await draining
    assert {letter.key for letter in (await two.letters.find(letter_query())).items} == {"a", "b"}
    assert await write_one(two.letters, make_letter(task_id="b")) is None
    await two.store.drain()
    assert set(await two.at_home()) == {"a", "b"}


async def test_a_primary_that_is_full_sends_only_what_it_refused_to_the_local_store(two: Two) -> None:
    two.primary.faults.item_unavailable("write", keys={"b"})
    results = await two.letters.write([make_letter(task_id=key) for key in "abc"])
    assert [isinstance(result, DeadLetter) for result in results] == [True, True, True]
    assert set(await two.at_home()) == {"a", "c"}
    assert set(await two.kept()) == {"b"}
    await two.comes_back()
    assert set(await two.at_home()) == {"a", "b", "c"}


async def test_a_new_record_that_the_primary_refuses_is_kept_locally_until_it_does_not(two: Two) -> None:
    two.primary.faults.item_failed("write", keys={"b"})
    results = await two.letters.write([make_letter(task_id=key) for key in "ab"])
    assert all(isinstance(result, DeadLetter) for result in results)
    assert not (await two.kept())["b"].uncertain
    assert two.store.away is None
    await two.store.drain()
    health = await two.store.health()
    assert (health.status, health.waiting) == ("degraded", 1)
    assert "'b' was refused" in health.detail
    two.primary.faults.clear()
    assert (await two.store.drain()).moved == 1
    assert set(await two.at_home()) == {"a", "b"}


async def test_a_record_that_neither_store_takes_failed(two: Two) -> None:
    two.primary.faults.item_failed("write", keys={"b"})
    two.local.faults.item_failed("write", keys={"b"})
    results = await two.letters.write([make_letter(task_id=key) for key in "ab"])
    assert isinstance(results[0], DeadLetter)
    assert isinstance(results[1], ItemFailed)


async def test_a_refused_record_is_offered_again_now_and_then_and_logged_once(
    two: Two, caplog: pytest.LogCaptureFixture
) -> None:
    two.primary.faults.item_failed("write", keys={"b"})
    await two.letters.write([make_letter(task_id="b")])
    offers = two.primary.faults.calls["write"]
    for _ in range(60):
        two.clock.advance(1)
        await two.clock.sleeping()
    assert 5 <= two.primary.faults.calls["write"] - offers <= 20
    assert caplog.text.count("does not take a record, which is kept locally") == 1
    two.primary.faults.clear()
    two.clock.advance(10)
    await two.clock.sleeping()
    assert set(await two.at_home()) == {"b"}


async def test_trouble_of_the_local_store_is_told(two: Two) -> None:
    assert (await two.store.health()).status == "ok"
    with two.local.faults.unavailable("health"):
        health = await two.store.health()
        assert health.status == "degraded"
        assert "the local store is down" in health.detail
        two.primary.faults.unavailable()
        await write_one(two.letters, make_letter(task_id="a"))
        health = await two.store.health()
        assert health.status == "degraded"
        assert "primary store away" in health.detail
        assert "the local store is down" in health.detail
    with two.local.faults.unavailable():
        assert (await two.store.health()).status == "down"


async def test_a_record_that_the_primary_refuses_to_take_home_stays_and_is_reported(two: Two) -> None:
    two.primary.faults.unavailable()
    await two.letters.write([make_letter(task_id=key) for key in "ab"])
    two.primary.faults.clear()
    two.primary.faults.item_failed("write", keys={"b"})
    drained = await two.store.drain()
    assert (drained.moved, drained.waiting, len(drained.refused)) == (1, 1, 1)
    kept = (await two.kept())["b"]
    assert not kept.uncertain
    health = await two.store.health()
    assert health.status == "degraded"
    assert "'b'" in health.detail
    assert {letter.key for letter in (await two.letters.find(letter_query())).items} == {"a", "b"}


async def test_a_misconfigured_primary_is_no_outage() -> None:
    primary = FaultyStore(MemoryStore())
    primary.faults.misconfigured("open")
    with pytest.raises(StoreMisconfigured):
        await FallbackStore(primary, MemoryStore()).open()


async def test_a_primary_that_becomes_misconfigured_loses_nothing_and_hides_nothing(two: Two) -> None:
    await two.letters.write([make_letter(task_id="old")])
    two.primary.faults.misconfigured()
    assert await write_one(two.letters, make_letter(task_id="new")) is not None
    for _ in range(2):
        with pytest.raises(StoreMisconfigured):
            await two.letters.find(letter_query())
        with pytest.raises(StoreMisconfigured):
            await two.letters.tally(letter_query())
        with pytest.raises(StoreMisconfigured):
            await two.letters.get(["old"])
    assert "wrong password" in (await two.store.health()).detail
    await two.comes_back()
    assert set(await two.at_home()) == {"old", "new"}


async def test_one_kind_that_is_forbidden_does_not_keep_the_others_from_the_primary(two: Two) -> None:
    history = two.store.collection(HISTORY)
    two.primary.faults.misconfigured("write", "find", "get", "tally", "health", kind=HISTORY)
    two.primary.faults.misconfigured("health")  # such a user may not see the state of the whole either
    former = FormerLetter.of(make_letter(task_id="a"))
    assert await write_one(history, former) is not None  # kept rather than lost
    for _ in range(2):
        assert await write_one(two.letters, make_letter(task_id=f"a{_}")) is not None
        assert (await two.letters.find(letter_query())).degraded is None
        with pytest.raises(StoreMisconfigured):
            await history.find(Query())
        with pytest.raises(StoreMisconfigured):
            await history.get(["no such"])
        health = await two.store.health()
        assert (health.status, health.waiting) == ("degraded", 1)
        assert "wrong password" in health.detail
        assert (await two.store.drain()).moved == 0
        assert two.store.away is None
    assert set(await two.at_home()) == {"a0", "a1"}
    assert await two.kept() == {}
    two.primary.faults.clear()
    assert (await two.store.drain()).moved == 1
    assert [each.key for each in (await history.find(Query())).items] == [former.key]


async def test_an_outage_is_one_for_all_kinds(two: Two) -> None:
    history = two.store.collection(HISTORY)
    two.primary.faults.misconfigured("write", "find", kind=HISTORY)
    with pytest.raises(StoreMisconfigured):
        await history.find(Query())
    two.primary.faults.unavailable()
    await write_one(two.letters, make_letter(task_id="a"))
    before = two.primary.faults.calls.total()
    assert (await history.find(Query())).degraded
    assert (await two.letters.find(letter_query())).degraded
    assert two.primary.faults.calls.total() == before
    assert isinstance((await two.store.drain()).stopped, StoreUnavailable)
    two.primary.faults.clear()
    assert (await two.store.drain()).moved == 1
    assert (await history.find(Query())).degraded is None


async def test_what_is_only_read_is_read_again_once_that_is_permitted(two: Two) -> None:
    two.primary.faults.misconfigured("find", kind=LETTERS)
    with pytest.raises(StoreMisconfigured):
        await two.letters.find(letter_query())
    two.primary.faults.clear()
    two.clock.advance(10)
    await two.clock.sleeping()
    assert (await two.letters.find(letter_query())).degraded is None


async def test_it_opens_without_its_primary(two: Two) -> None:
    clock, primary = ManualClock(), FaultyStore(MemoryStore())
    primary.faults.unavailable()
    async with FallbackStore(primary, MemoryStore(), clock=clock) as store:
        assert await write_one(store.collection(LETTERS), make_letter(task_id="a")) is not None
        primary.faults.clear()
        await clock.sleeping()
        clock.advance(10)
        await clock.sleeping()
        assert await get_one(primary.inner.collection(LETTERS), "a") is not None


async def test_records_of_another_process_in_the_same_local_store_are_noticed(two: Two) -> None:
    assert two.letters.drained
    await two.local.inner.collection(HELD).write([LocalCopy(make_letter(task_id="theirs"))])
    two.clock.advance(1)
    await two.clock.sleeping()
    two.clock.advance(1)
    await two.clock.sleeping()
    assert set(await two.at_home()) == {"theirs"}


KEPT = ("letters", "history", "ledger", "groups", "replies", "workers", "revisions", "runs", "run_pages", "audit")


@pytest.mark.parametrize("kind", [each for each in stored_kinds() if each.name in KEPT], ids=lambda kind: kind.name)
async def test_what_an_earlier_run_left_goes_home_though_nobody_asks_for_its_kind(kind: Kind[Any]) -> None:
    letter = make_letter(task_id="a")
    records: dict[str, Any] = {
        "letters": letter,
        "history": FormerLetter.of(letter),
        "ledger": LedgerEntry(letter.entry_id, letter.created_at),
        "groups": Group("v1:a", owner="ann", updated_at=letter.updated_at),
        "replies": Reply("k", "digest", letter.created_at, 201),
        "workers": Worker("w", letter.created_at, letter.created_at),
        "revisions": Revision.of(letter),
        "runs": BulkRun(
            run_id="r",
            verb="redrive",
            query=EMPTY,
            by="ann",
            created_at=letter.created_at,
            updated_at=letter.updated_at,
        ),
        "run_pages": RunPage("r", "p", 0, (RunItem("a", letter.entry_id),)),
        "audit": AuditEntry("e", letter.created_at, "ann", "resolve", "letter:a"),
    }
    primary, local = MemoryStore(), MemoryStore()
    record = records[kind.name]
    await local.collection(local_copy_kind(kind)).write([LocalCopy(record)])
    async with FallbackStore(primary, local, clock=ManualClock()) as store:
        assert (await store.drain()).waiting == 0
        assert (await store.health()).waiting == 0
    assert await get_one(primary.collection(kind), record.key) is not None


async def test_pages_join_both_stores_in_order(two: Two) -> None:
    start = two.clock.now()
    old = [make_letter(task_id=f"p{n:03}", created_at=start + timedelta(seconds=2 * n)) for n in range(40)]
    await two.letters.write(old)
    two.primary.faults.unavailable()
    new = [make_letter(task_id=f"l{n:03}", created_at=start + timedelta(seconds=2 * n + 1)) for n in range(40)]
    await two.letters.write(new)
    two.primary.faults.clear()
    two.store._away = None  # back, but not drained yet
    seen: list[DeadLetter] = []
    after: Cursor | None = None
    while True:
        page = await two.letters.find(letter_query(limit=7), after)
        seen += page.items
        if page.next is None:
            break
        after = Cursor.parse(str(page.next))
    assert [each.created_at for each in seen] == sorted((each.created_at for each in old + new), reverse=True)
    assert len({each.key for each in seen}) == 80


def test_every_kind_of_the_stores_is_known_to_them() -> None:
    names = [
        each.name for each in walk_packages(mahavishnu.__path__, "mahavishnu.") if not each.name.endswith("__main__")
    ]
    modules = [import_module(name) for name in names if not name.startswith("mahavishnu.testing")]
    declared = {each for module in modules for each in vars(module).values() if isinstance(each, Kind)}
    at_home_only = {
        archived.ARCHIVED_LETTERS,
        archived_tasks.ARCHIVED_TASKS,
        EXPORT_STEPS,
        LOCAL_STORES,
        WAITING,
    }  # an outage does not archive, nor register
    assert declared - at_home_only == set(stored_kinds()), (
        "what a kind that is not among STORED keeps locally may wait for ever"
    )


async def interleaved(two: Two, count: int) -> list[str]:
    """The keys of letters that are in both stores in turn, in the order of a list."""
    start = two.clock.now()
    made = [make_letter(task_id=f"t{n:03}", created_at=start + timedelta(seconds=n)) for n in range(count)]
    await two.letters.write(made[::2])
    two.primary.faults.unavailable()
    await two.letters.write(made[1::2])
    two.primary.faults.clear()
    two.store._away = None  # back, but not drained yet
    return [letter.key for letter in reversed(made)]


@pytest.mark.parametrize("limit", [1, 3, 7, 20])
@pytest.mark.parametrize("drained_after", [1, 2, 3])
async def test_a_list_goes_on_across_a_drain_without_repeating_or_omitting(
    two: Two, limit: int, drained_after: int
) -> None:
    keys = await interleaved(two, 40)
    seen: list[str] = []
    after: Cursor | None = None
    for number in count():
        if number == drained_after:
            assert (await two.store.drain()).moved == 20
        page = await two.letters.find(letter_query(limit=limit), after)
        seen += [each.key for each in page.items]
        if page.next is None:
            break
        after = Cursor.parse(str(page.next))
    assert seen == keys


async def test_a_list_that_began_in_an_outage_omits_nothing_afterwards(two: Two) -> None:
    keys = await interleaved(two, 20)
    two.primary.faults.unavailable()
    page = await two.letters.find(letter_query(limit=4))
    assert page.degraded
    assert [each.key for each in page.items] == keys[0:8:2]
    two.primary.faults.clear()
    two.store._away = None
    seen = [each.key for each in page.items]
    while page.next is not None:
        page = await two.letters.find(letter_query(limit=4), page.next)
        seen += [each.key for each in page.items]
    assert sorted(seen) == sorted(keys)


async def test_removing_works_on_both_sides_and_is_not_undone(two: Two) -> None:
    home = await write_one(two.letters, make_letter(task_id="home"))
    two.primary.faults.unavailable()
    kept = await write_one(two.letters, make_letter(task_id="kept"))
    assert home is not None
    assert kept is not None
    assert await two.letters.remove([kept]) == [True]
    assert await two.letters.remove([kept]) == [False]
    two.primary.faults.clear()
    await two.comes_back()
    assert set(await two.at_home()) == {"home"}
    assert await two.letters.remove([home]) == [True]


async def test_a_cancelled_caller_does_not_lose_the_letter_between_the_stores(two: Two) -> None:
    two.primary.faults.unavailable()
    hold = two.local.faults.hold("write")
    writing = asyncio.create_task(two.letters.write([make_letter(task_id="a")]))
    await hold.wait_for_call()
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    written = two.local.faults.hold("write", after=True)
    hold.release()
    await written.wait_for_call()
    written.release()
    await two.comes_back()
    assert set(await two.at_home()) == {"a"}


async def test_when_both_stores_fail_the_caller_is_told(two: Two) -> None:
    two.primary.faults.unavailable()
    two.local.faults.unavailable()
    with pytest.raises(StoreUnavailable):
        await two.letters.write([make_letter()])
    assert "local" in (await two.store.health()).detail


async def test_merging_again_after_a_crash_does_not_count_twice(two: Two) -> None:
    await two.letters.write([make_letter(task_id="a", failures=(make_failure("first"),))])
    two.primary.faults.unavailable()
    later = two.clock.now() + timedelta(minutes=1)
    await two.letters.write([make_letter(task_id="a", failures=(replace(make_failure("second"), at=later),))])
    two.primary.faults.clear()

    async def die(call: object) -> None:
        raise asyncio.CancelledError

    two.local.faults.before("remove", die, times=1)
    with pytest.raises(asyncio.CancelledError):
        await two.store.drain()
    await two.comes_back()
    assert (await two.at_home())["a"].occurrences == 2


@dataclass
class Sibling:
    """Another process's pair over the same two stores."""

    store: FallbackStore
    primary: FaultyStore


async def sibling(two: Two) -> Sibling:
    primary = FaultyStore(two.primary.inner)
    return Sibling(FallbackStore(primary, two.local.inner, clock=two.clock), primary)


async def test_of_two_processes_that_drain_only_the_marks_owner_takes_it_off(two: Two) -> None:
    two.primary.faults.unavailable()
    await two.letters.write([make_letter(task_id="a")])
    two.primary.faults.clear()
    other = await sibling(two)
    mine = two.primary.faults.hold("write")
    draining = asyncio.create_task(two.store.drain())
    await mine.wait_for_call()  # marked by this process, not created yet
    theirs = two.local.inner.collection(HELD)
    removing = other.primary.faults.hold("write", after=True)
    others = asyncio.create_task(other.store.drain())
    await removing.wait_for_call()  # the other one has created it, and not removed it yet
    two.primary.faults.item_unavailable("write", times=1)
    mine.release()
    await draining
    (held,) = await theirs.get(["a"])
    assert isinstance(held, LocalCopy)
    assert held.uncertain, "it lives in the primary: nobody may take the copy"
    removing.release()
    await others
    assert await two.kept() == {}
    assert set(await two.at_home()) == {"a"}


async def test_an_uncertain_copy_that_turns_out_to_be_another_letter_can_be_worked_on(two: Two) -> None:
    two.primary.faults.unavailable()
    mine = await write_one(two.letters, make_letter(task_id="a"))
    assert mine is not None
    now = two.clock.now()
    claimed = lifecycle.claim(mine, owner="w", token="t", until=now + timedelta(minutes=5), now=now)
    assert await write_one(two.letters, claimed) is not None
    two.primary.faults.clear()
    two.primary.faults.before("write", _lose, times=1)
    await two.store.drain()
    assert (await two.kept())["a"].uncertain
    await two.primary.inner.collection(LETTERS).write([make_letter(task_id="a")])  # another process captured it
    await two.store.drain()
    assert not (await two.kept())["a"].uncertain
    current = await get_one(two.letters, "a")
    assert current is not None
    assert await write_one(two.letters, lifecycle.succeed(current, token="t", now=now)) is not None


async def test_an_uncertain_copy_that_the_primary_refuses_is_not_frozen_for_ever(two: Two) -> None:
    two.primary.faults.before("write", _lose, times=1)
    await two.letters.write([make_letter(task_id="a")])
    assert (await two.kept())["a"].uncertain
    two.primary.faults.item_failed("write", keys={"a"})
    await two.store.drain()
    assert not (await two.kept())["a"].uncertain


async def test_uncertain_letters_are_not_offered_as_due(two: Two) -> None:
    two.primary.faults.before("write", _lose, times=1)
    await two.letters.write([make_letter(task_id=f"u{number}") for number in range(5)])
    two.primary.faults.unavailable()
    await two.letters.write([make_letter(task_id="certain")])
    page = await two.letters.find(letter_query(due=two.clock.now(), limit=5))
    assert [letter.key for letter in page.items] == ["certain"]
    assert len((await two.letters.find(letter_query())).items) == 6


async def test_a_broken_local_store_does_not_keep_the_primary_away(two: Two) -> None:
    two.primary.faults.unavailable()
    await two.letters.write([make_letter(task_id="kept")])
    two.primary.faults.clear()
    two.local.faults.unavailable()
    await two.store.drain()
    assert await write_one(two.letters, make_letter(task_id="new")) is not None
    assert set(await two.at_home()) == {"new"}
    page = await two.letters.find(letter_query())
    assert [letter.key for letter in page.items] == ["new"]
    assert page.degraded
    assert (await two.letters.get(["new"]))[0] is not None
    two.local.faults.clear()
    await two.store.drain()
    assert set(await two.at_home()) == {"kept", "new"}


async def test_when_neither_store_takes_it_the_doubt_is_told(two: Two) -> None:
    two.primary.faults.answer_lost("write")
    two.local.faults.unavailable("write")
    with pytest.raises(StoreUnavailable) as lost:
        await two.letters.write([make_letter(task_id="a")])
    assert lost.value.maybe_written


async def test_one_record_that_the_primary_cannot_take_does_not_send_the_others_away(two: Two) -> None:
    two.primary.faults.unavailable()
    await two.letters.write([make_letter(task_id=key) for key in ("stuck", "fine")])
    two.primary.faults.clear()
    two.primary.faults.item_unavailable("write", keys={"stuck"})
    await two.store.drain()
    assert two.store.away is None
    assert set(await two.at_home()) == {"fine"}
    assert await write_one(two.letters, make_letter(task_id="new")) is not None
    assert "new" in await two.at_home()


async def test_it_can_be_closed_and_opened_again_and_closed_twice_at_once(two: Two) -> None:
    await asyncio.gather(two.store.close(), two.store.close())
    await two.store.open()
    await two.store.open()
    assert two.store.away is None
    assert await write_one(two.letters, make_letter(task_id="a")) is not None
    assert set(await two.at_home()) == {"a"}


async def test_get_and_find_show_the_same_letter_of_a_key(two: Two) -> None:
    await two.letters.write([make_letter(task_id="a")])
    two.primary.faults.unavailable()
    mine = await write_one(two.letters, make_letter(task_id="a"))
    assert mine is not None
    now = two.clock.now()
    claimed = lifecycle.claim(mine, owner="w", token="t", until=now + timedelta(minutes=5), now=now)
    await two.letters.write([claimed])
    await two.comes_back()
    page = await two.letters.find(letter_query())
    (got,) = await two.letters.get(["a"])
    assert [each.entry_id for each in page.items] == [mine.entry_id]
    assert isinstance(got, DeadLetter)
    assert got.entry_id == mine.entry_id


async def test_a_cursor_of_something_else_is_refused(two: Two) -> None:
    with pytest.raises(InvalidQuery):
        await two.letters.find(letter_query(), Cursor((Cursor(("a",)),)))
    await interleaved(two, 4)
    for wrong in (("a",), (1, 2), ()):
        with pytest.raises(InvalidQuery):
            await two.letters.find(letter_query(), Cursor((None, None, Cursor(wrong))))
    with pytest.raises(InvalidQuery):
        Cursor.parse("eyJ4IjogMX0")


# ------------------------------------------------------------------------- one task id, other payloads: other work


def failed_with(entry_id: str, payload: int, **fields: Any) -> DeadLetter:
    return make_letter(task_id="a", entry_id=entry_id, task={"n": payload}, **fields)


async def in_outage(two: Two, *letters: DeadLetter) -> None:
    """Keep them locally: they fail while the primary is away."""
    two.primary.faults.unavailable()
    await two.letters.write(letters)


async def test_what_failed_on_both_sides_with_other_payloads_becomes_two_letters(two: Two) -> None:
    home = two.primary.inner.collection(LETTERS)
    theirs = await write_one(home, failed_with("theirs", 1))
    await in_outage(two, failed_with("ours", 2))
    await two.comes_back()
    await two.store.drain()

    letters = {letter.entry_id: letter for letter in (await two.at_home()).values()}
    assert letters["theirs"] == theirs
    other = letters["ours"]
    assert (other.task_id, other.source.id) == (f"a@{other.payload.digest}", "a")
    assert replace(other, task_id="a", source=failed_with("ours", 2).source) == failed_with("ours", 2)
    assert len(letters) == 2 and await two.kept() == {}


@pytest.mark.parametrize("theirs", ["running", "edited", "sent back", "exhausted"])
async def test_other_work_goes_home_whatever_is_done_with_the_letter_there(two: Two, theirs: str) -> None:
    """Nothing of that changes, and our own edits and their revisions come along."""
    home = two.primary.inner.collection(LETTERS)
    now, there = two.clock.now(), failed_with("theirs", 1, status="exhausted" if theirs == "exhausted" else "pending")
    if theirs == "running":
        there = lifecycle.claim(there, owner="w", token="t", until=now + timedelta(hours=1), now=now, manual=True)
    elif theirs == "edited":
        there = lifecycle.edit(there, now=now, payload=Json.of({"n": 9}))
    elif theirs == "sent back":
        there = lifecycle.requeue(there, now=now, by="ann")
    written = await write_one(home, there)
    ours = lifecycle.edit(failed_with("ours", 2), now=now, payload=Json.of({"n": 3}))
    await in_outage(two, ours)
    await two.store.collection(REVISIONS).write([Revision.of(failed_with("ours", 2))])
    await two.comes_back()

    letters = {letter.entry_id: letter for letter in (await two.at_home()).values()}
    assert letters["theirs"] == written
    assert letters["ours"].task_id == f"a@{Json.of({'n': 2}).digest}", "it is found by what it was captured with"
    assert (letters["ours"].task, letters["ours"].revision) == ({"n": 3}, 1)
    queue = DeadLetterQueue(store=two.store, clock=two.clock)
    assert [each.task.value for each in await queue.letters.revisions(letters["ours"].task_id)] == [{"n": 2}]


async def test_other_work_that_went_home_before_a_crash_does_not_go_twice(two: Two) -> None:
    """Even if the letter that it met has been closed since, so that its own key would take it in."""
    home = two.primary.inner.collection(LETTERS)
    theirs = await write_one(home, failed_with("theirs", 1))
    assert theirs is not None
    await in_outage(two, failed_with("ours", 2))
    two.local.faults.unavailable("remove")
    await two.comes_back()
    two.local.faults.clear()
    await write_one(home, lifecycle.resolve(theirs, now=two.clock.now(), by="ann"))
    await two.store.drain()

    assert await two.kept() == {}
    assert sorted(letter.entry_id for letter in (await two.at_home()).values()) == ["ours", "theirs"]


async def test_the_same_work_under_two_ids_is_one_letter_again(two: Two) -> None:
    """Whoever kept it locally, under the id of other work, could not see the one at home; or the other way round."""
    home = two.primary.inner.collection(LETTERS)
    one, other = failed_with("one", 1), as_other_work(failed_with("other", 2))
    await home.write([one, other])
    await in_outage(two, failed_with("ours", 2), as_other_work(failed_with("again", 1)))
    await two.comes_back()

    letters = {letter.entry_id: letter for letter in (await two.at_home()).values()}
    assert {entry: (each.key, each.occurrences, each.absorbed) for entry, each in letters.items()} == {
        "one": ("a", 2, ("again",)),
        "other": (other.key, 2, ("ours",)),
    }
    assert await two.kept() == {}


async def test_failures_with_other_payloads_in_an_outage_are_letters_at_once(two: Two) -> None:
    queue = DeadLetterQueue(store=two.store, clock=two.clock)
    two.primary.faults.unavailable()
    kept = [await queue.enqueue("a", {"n": n}, [], "connection refused") for n in (1, 2, 2)]
    assert [letter.occurrences for letter in kept] == [1, 1, 2]
    await two.comes_back()
    assert sorted(letter.task["n"] for letter in (await two.at_home()).values()) == [1, 2]


async def test_an_id_that_cannot_be_looked_up_is_free_for_a_new_letter_only(two: Two) -> None:
    """Another one may be there already."""
    await in_outage(two, failed_with("theirs", 1))
    ours = failed_with("ours", 2)
    assert await find_place(two.letters, ours, is_new=True) == (as_other_work(ours), None)
    with pytest.raises(StoreUnavailable):
        await find_place(two.letters, ours)


@pytest.mark.parametrize("fault", ["answer_lost", "item_answer_lost", "request_lost"])
async def test_where_the_answer_is_lost_and_the_key_is_taken_locally_nobody_was_quicker(two: Two, fault: str) -> None:
    await two.store.drain()
    assert two.letters.drained
    await two.local.inner.collection(HELD).write([LocalCopy(make_letter(task_id="a"))])  # by another process
    getattr(two.primary.faults, fault)("write", times=1)
    with pytest.raises(StoreUnavailable) as problem:
        await write_one(two.letters, make_letter(task_id="a"))
    assert problem.value.maybe_written, "it may be in the primary: to merge it as well could count it twice"


async def test_a_primary_that_is_lost_again_at_once_is_tried_less_and_less_often(two: Two) -> None:
    """It answers, but takes no changes, as where its disk is full: each second it would be lost and back again."""
    stored = await write_one(two.letters, make_letter(task_id="a"))
    assert stored is not None
    two.primary.faults.unavailable("write", kind=LETTERS)
    losses, began = 0, two.clock.monotonic()
    while two.clock.monotonic() - began < 60:
        if two.store.away is None:
            losses += 1
            with pytest.raises(StoreUnavailable):
                await write_one(two.letters, replace(stored, priority=losses))
        two.clock.advance(1)
        await two.clock.sleeping()
    assert losses <= 12
    await two.comes_back()
    for _ in range(2):  # from then on it is looked at as often as ever
        two.clock.advance(await two.clock.sleeping())
    assert await two.clock.sleeping() == 1.0


# --- processes that end, and what they leave


class Lasting(MemoryStore):
    """A store that outlives whoever closes it, as a server or a file does."""

    def __init__(self, path: Path | None = None) -> None:
        super().__init__()
        if path is not None:
            self.path = path


@dataclass
class Machine:
    """Processes that share a server, a local store and a clock."""

    home: FaultyStore = field(default_factory=lambda: FaultyStore(Lasting()))
    local: MemoryStore = field(default_factory=lambda: Lasting(Path("/var/lib/local.db")))
    clock: ManualClock = field(default_factory=ManualClock)

    def process(self) -> FallbackStore:
        return FallbackStore(self.home, self.local, clock=self.clock)

    async def wait(self, seconds: float, processes: int = 1) -> None:
        """Let the watches of so many processes have their turns."""
        for _ in range(int(seconds)):
            await self.clock.sleeping(processes)
            self.clock.advance(1)
        await self.clock.sleeping(processes)

    async def leave_letters(self, count: int) -> None:
        """Have a process keep letters in an outage, and end."""
        with self.home.faults.unavailable():
            async with self.process() as store:
                await store.collection(LETTERS).write([make_letter(task_id=f"t{n}") for n in range(count)])

    async def registered(self) -> list[LocalStore]:
        return list((await self.home.inner.collection(LOCAL_STORES).find(Query())).items)


async def be_killed(store: FallbackStore) -> None:
    """Do nothing more, also when it is closed."""
    assert store._watch is not None
    store._watch.cancel()
    await asyncio.wait([store._watch])


async def at_home(machine: Machine) -> int:
    return (await machine.home.inner.collection(LETTERS).tally(Query())).total.count


async def test_a_process_that_ends_at_once_brings_home_what_another_one_left() -> None:
    machine = Machine()
    await machine.leave_letters(1203)
    assert await at_home(machine) == 0
    async with machine.process():
        pass
    assert await at_home(machine) == 1203
    assert (await machine.local.collection(HELD).tally(Query())).total.count == 0
    assert await machine.registered() == []


async def test_a_process_that_ends_does_not_wait_for_a_slow_store_and_says_what_it_leaves(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    machine, forever = Machine(), asyncio.Event()
    monkeypatch.setattr("mahavishnu.stores.fallback.store.BRING_HOME_SECONDS", 0.01)
    await machine.leave_letters(2)
    machine.home.faults.slow(forever.wait, "write", kind=LETTERS)
    async with machine.process() as store:
        assert (await store.bring_home()).describe() == "2 letters are"
        health = await store.health()
        said = "2 letters are still in /var/lib/local.db: run `mahavishnu dlq drain`"
        assert (health.status, health.waiting) == ("degraded", 2)
        assert health.detail.startswith(said)
    assert said in caplog.text
    (left,) = await machine.registered()
    assert (left.kept, left.letters, left.place) == (2, 2, "/var/lib/local.db")
    machine.home.faults.clear()
    async with machine.process():
        pass
    assert (await at_home(machine), await machine.registered()) == (2, [])


async def test_what_a_process_keeps_in_an_outage_is_told_with_where_it_is() -> None:
    machine = Machine()
    async with machine.process() as store:
        with machine.home.faults.unavailable():
            await write_one(store.collection(LETTERS), make_letter())
            detail = (await store.health()).detail
            assert "1 letter is still in /var/lib/local.db until that answers again" in detail


async def test_a_process_registers_its_local_store_and_its_death_shows() -> None:
    machine = Machine()
    async with machine.process() as store:
        await machine.wait(4)
        assert await machine.registered() == []  # most commands have ended by now
        await machine.wait(2)
        (first,) = await machine.registered()
        assert (first.kept, first.pid, first.host) == (0, os.getpid(), socket.gethostname())
        await machine.wait(61)
        (again,) = await machine.registered()
        assert again.seen_at > first.seen_at
        # It loses the store, keeps a letter, and is killed: only the age of its record says so.
        await be_killed(store)
        machine.clock.advance(minutes=6)
        (lost,) = await machine.registered()
        assert lost.is_stale(machine.clock.now())
        assert not lost.is_over(machine.clock.now() + timedelta(days=6))
    async with machine.process():
        pass  # whoever looks into the local store, and finds it empty, says so
    assert await machine.registered() == []


async def test_a_count_is_registered_when_the_store_is_back_and_again_when_all_is_home() -> None:
    machine = Machine()
    async with machine.process() as store:
        await machine.wait(6)
        with machine.home.faults.unavailable():
            await write_one(store.collection(LETTERS), make_letter(task_id="a"))
            await machine.wait(2)
        machine.home.faults.item_failed("write", keys={"a"})
        await machine.wait(15)
        (refused,) = await machine.registered()
        assert (refused.kept, refused.letters, refused.oldest) == (1, 1, make_letter().created_at)
        machine.home.faults.clear()
        await machine.wait(15)
        assert [each.kept for each in await machine.registered()] == [0]
    assert await machine.registered() == []


async def test_two_processes_with_one_local_store_are_registered_once() -> None:
    machine = Machine()
    async with machine.process():
        async with machine.process():
            await machine.wait(7, processes=2)
            assert len(await machine.registered()) == 1
        await machine.wait(70)
        assert len(await machine.registered()) == 1  # whoever is left says so again
    assert await machine.registered() == []


async def test_a_local_store_is_the_same_one_on_another_host_and_old_empty_ones_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine()
    async with machine.process() as store:
        await machine.wait(6)
        await be_killed(store)
    (first,) = await machine.registered()
    monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")
    async with machine.process():
        await machine.wait(6)
        (second,) = await machine.registered()
    assert (second.key, second.host) == (first.key, "elsewhere")
    old = replace(first, key="old", version=None)
    kept = replace(old, key="kept", kept=1)
    await machine.home.collection(LOCAL_STORES).write([old, kept])
    machine.clock.advance(timedelta(days=8))
    async with machine.process():
        await machine.wait(6)
        assert {each.key for each in await machine.registered()} == {first.key, "kept"}


async def test_where_a_store_refuses_the_register_letters_are_kept_all_the_same() -> None:
    machine = Machine()
    refused = machine.home.faults.misconfigured(kind=LOCAL_STORES)
    async with machine.process() as store:
        await machine.wait(200)
        assert await write_one(store.collection(LETTERS), make_letter()) is not None
        assert (await store.health()).status == "ok"
    assert 3 <= refused.hits <= 8  # it is tried now and then


async def test_a_process_ends_though_the_store_does_not_answer_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, forever = Machine(), asyncio.Event()
    monkeypatch.setattr("mahavishnu.stores.fallback.store._LEAVE_SECONDS", 0.01)
    async with machine.process():
        await machine.wait(6)
        machine.home.faults.slow(forever.wait, "remove", "write", "find", "get")
    assert len(await machine.registered()) == 1
