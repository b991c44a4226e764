"""Deleting by one write: what was deleted stays away, what nobody has deleted is kept, whoever is slow or away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.letters.transfer import letter_as_line
from mahavishnu.model import tombstones
from mahavishnu.model.errors import AlreadyResolved, InvalidInput, StoreUnavailable
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import AnyOf, Is, Not, Query, letter_query
from mahavishnu.stores.base import Buckets, Store, get_one, scan, write_one
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.kinds import LETTERS, REVISIONS
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.retained import Revision
from mahavishnu.stores.scoped import VisibleLetters, without_deleted
from mahavishnu.testing import FaultyStore, ManualClock, make_letter
from tests.bulk.test_service_preview import STATES, letter_in
from tests.support.queues import House, Runs, fill, letter_of, sound


class Lasting(MemoryStore):
    """What outlives the process that closes it: the server for all, the local file of one."""

    async def close(self) -> None:
        pass


class Process:
    """A process with a queue over the shared store and a local one of its own."""

    def __init__(self, server: Store, local: Store | None = None) -> None:
        self.clock, self.local = ManualClock(), local or Lasting()
        self.home = FaultyStore(server)
        self.pair = FallbackStore(self.home, self.local, kinds=KINDS, clock=self.clock)
        self.dlq = DeadLetterQueue(100, store=self.pair, clock=self.clock)

    async def fails(self, task: str = "t") -> DeadLetter:
        return await self.dlq.enqueue(task, {}, [], ConnectionError("reset"), "never")


@asynccontextmanager
async def processes(number: int) -> AsyncIterator[tuple[Store, list[Process]]]:
    server = Lasting()
    async with AsyncExitStack() as stack:
        made = [Process(server) for _ in range(number)]
        for each in made:
            await stack.enter_async_context(each.dlq)
            await each.clock.sleeping()  # the watch; nothing happens by itself from here on
        yield server, made


async def test_who_lets_in_what_waited_does_not_bring_back_what_was_deleted_since() -> None:
    """It has read that a letter waits; another one has let that in, and it was cleared."""
    async with processes(2) as (_, (a, b)):
        await a.dlq.context.waiting.keep(make_letter(task_id="t"))
        hold = a.home.faults.hold("get", kind=LETTERS)
        admitting = asyncio.create_task(a.dlq.intake.admit_waiting())
        await hold.wait_for_call()
        assert await b.dlq.intake.admit_waiting() == 1
        assert await b.dlq.clear_all() == 1
        hold.release()
        assert await admitting == 0
        assert await b.dlq.get_task("t") is None
        assert await b.dlq.context.waiting.count() == 0


async def test_what_waits_is_deleted_under_the_eyes_of_who_is_about_to_let_it_in() -> None:
    """Also where an older tombstone is there already: the letter came later than that, and was deleted too."""
    async with processes(2) as (_, (a, b)):
        await b.fails()
        assert await b.dlq.clear_all() == 1
        b.clock.advance(60)
        await a.dlq.context.waiting.keep(make_letter(task_id="t", created_at=b.clock.now()))
        hold = a.home.faults.hold("get", kind=LETTERS)
        admitting = asyncio.create_task(a.dlq.intake.admit_waiting())
        await hold.wait_for_call()
        assert await b.dlq.clear_all() == 0
        assert await b.dlq.context.waiting.count() == 0
        hold.release()
        assert await admitting == 0
        assert await b.dlq.get_task("t") is None
        lifetime = (await sound(b.dlq))["lifetime_stats"]
        assert (lifetime["enqueued_total"], lifetime["cleared"]) == (2, 2)


async def test_what_waits_beside_other_work_of_its_task_is_deleted_where_it_would_be_let_in() -> None:
    """It would get an id of its own, as the open letter has another payload; another process lets it in just then."""
    async with processes(2) as (_, (a, b)):
        await b.fails()
        for number in range(3):
            await a.dlq.context.waiting.keep(make_letter(task_id="t", entry_id=f"w{number}", task={"n": number % 2}))
        hold = a.home.faults.hold("write", kind=LETTERS)
        admitting = asyncio.create_task(a.dlq.intake.admit_waiting())
        await hold.wait_for_call()
        assert await b.dlq.clear_all() == 1
        hold.release()
        assert await admitting == 0
        assert await b.dlq.list_tasks() == []
        assert await b.dlq.context.waiting.count() == 0
        lifetime = (await sound(b.dlq))["lifetime_stats"]
        assert (lifetime["enqueued_total"], lifetime["cleared"]) == (4, 4)


async def kept_by_a_restarted_process(server: Store) -> Process:
    """A process whose local store holds a letter, certain, that is about to go home: its copy is marked."""
    former = Process(server)
    async with former.dlq:
        await former.clock.sleeping()
        former.home.faults.unavailable()
        await former.fails()
    return Process(server, former.local)


@pytest.mark.parametrize("hidden", [False, True])
async def test_what_was_acknowledged_after_a_clear_that_did_not_reach_it_is_kept(hidden: bool) -> None:
    """An acknowledged failure was dropped by its id, because another process took its letter for gone."""
    async with processes(1) as (server, (b,)):
        if hidden:  # by a closed letter of the same task
            await b.fails()
            await b.dlq.letters.resolve("t")
        a = await kept_by_a_restarted_process(server)
        hold = a.home.faults.hold("get" if hidden else "write", kind=LETTERS)
        await a.dlq.open()
        await hold.wait_for_call()
        with pytest.raises(StoreUnavailable, match="twin"):
            await a.dlq.clear_all()  # it cannot say that it has cleared this one
        await b.dlq.clear_all()
        a.home.faults.unavailable()  # before the letter has left: it is known to have no twin
        hold.release()
        await a.clock.sleeping()
        again = await a.fails()
        assert again.occurrences == 2
        a.home.faults.clear()
        a.home.faults.request_lost("write", kind=LETTERS, times=1)
        await a.pair.drain()
        await a.pair.drain()
        there = await get_one(server.collection(LETTERS), "t")
        assert there is not None and there.knows(again.entry_id)
        assert (there.is_open, there.occurrences, there.updated_at >= again.updated_at) == (True, 2, True)
        await a.dlq.shutdown()


async def test_a_letter_that_is_kept_locally_is_deleted_there_and_goes_home_as_a_tombstone() -> None:
    async with processes(2) as (server, (a, b)):
        a.home.faults.unavailable()
        kept = await a.fails()
        assert await a.pair.collection(LETTERS).write([tombstones.delete(kept, now=a.clock.now(), by="ann")])
        assert await a.dlq.get_task("t") is None
        again = await a.fails()
        assert (again.generation, again.absorbed) == (2, (kept.entry_id,))
        a.home.faults.clear()
        await b.fails()
        await a.pair.drain()
        there = await get_one(server.collection(LETTERS), "t")
        assert there is not None and (there.occurrences, there.knows(kept.entry_id)) == (2, True)
        lifetime = (await sound(b.dlq))["lifetime_stats"]
        assert (lifetime["enqueued_total"], lifetime["cleared"], lifetime["deduplicated"]) == (2, 1, 1)


async def test_three_at_once_delete_each_letter_once() -> None:
    async with processes(3) as (_, (a, b, c)):
        await a.fails()
        holds = [each.home.faults.hold("write", kind=LETTERS) for each in (a, c)]
        clearing = [asyncio.create_task(each.dlq.clear_all()) for each in (a, c)]
        for hold in holds:
            await hold.wait_for_call()
        await b.dlq.letters.resolve("t")
        holds[0].release()
        assert await clearing[0] == 0  # it was finished meanwhile, and stays
        await b.fails()
        assert await b.dlq.clear_all() == 1
        holds[1].release()
        assert await clearing[1] == 0
        lifetime = (await sound(b.dlq))["lifetime_stats"]
        assert (lifetime["enqueued_total"], lifetime["cleared"], lifetime["manually_resolved"]) == (2, 1, 1)


async def test_a_letter_with_a_very_high_number_of_revisions_is_deleted_at_once(any_house: House) -> None:
    queue = any_house.queue()
    await queue.open()
    letter = make_letter(task_id="wf", revision=2**31 - 1)
    await write_one(queue.context.letters, letter)
    await queue.context.revisions.write([Revision.of(replace(letter, revision=number)) for number in (0, 7, 2**31 - 1)])
    async with asyncio.timeout(20):
        assert await queue.clear_all() == 1
    assert [each async for each in scan(queue.store.collection(REVISIONS), Query())] == []


class TestImport:
    """What was deleted here is not imported by mistake."""

    async def exported(self, queue: DeadLetterQueue) -> dict[str, Any]:
        await fill(queue, 1)
        document: dict[str, Any] = json.loads(letter_as_line(await letter_of(queue, "wf_00000")))
        await queue.clear_all(by="ann")
        return document

    async def test_it_is_refused_with_who_and_when(self, any_house: House) -> None:
        queue = any_house.queue()
        document = await self.exported(queue)
        with pytest.raises(AlreadyResolved, match=r"deleted: cannot import it, at 20.*Z by ann: .*even_deleted"):
            await queue.transfer.import_letter(document)
        assert await queue.get_task("wf_00000") is None

    async def test_unless_that_is_meant(self, any_house: House) -> None:
        queue = any_house.queue()
        document = await self.exported(queue)
        assert await queue.transfer.import_letter(document, even_deleted=True) == "new"
        assert await queue.transfer.import_letter(document, even_deleted=True) == "same"
        letter = await letter_of(queue, "wf_00000")
        assert (letter.entry_id, letter.generation, letter.previous_entry_id) == (document["entry_id"], 2, None)
        lifetime = (await sound(queue))["lifetime_stats"]
        assert (lifetime["enqueued_total"], lifetime["cleared"]) == (2, 1)

    async def test_another_letter_of_the_task_is_new(self, any_house: House) -> None:
        queue = any_house.queue()
        document = await self.exported(queue)
        assert await queue.transfer.import_letter({**document, "entry_id": "another"}) == "new"

    async def test_a_tombstone_is_no_letter(self, house: House) -> None:
        queue = house.queue()
        await self.exported(queue)
        (tombstone,) = [each async for each in scan(queue.context.letters.records, Query())]
        with pytest.raises(InvalidInput, match="nothing to import"):
            await queue.transfer.import_letter(json.loads(letter_as_line(tombstone)))


class TestVisible:
    """Nobody is shown a tombstone, whatever is asked for."""

    @given(states=st.lists(STATES, max_size=8), asked=st.sampled_from([
        Query(), letter_query(status="archived"), letter_query(resolution="pending"), letter_query(task_id="wf_0"),
        Query((Is("resolution_status", ("deleted",)),)), Query((Not(Is("status", ("pending",))),)),
        Query((Is("resolution_status", ("deleted", "cancelled")),)), Query((AnyOf((Is("status", ("archived",)),)),)),
        letter_query(fingerprint="v1:a"), letter_query(status=["pending", "exhausted"]),
    ]))  # fmt: skip
    def test_as_if_they_were_not_there(self, states: list[Any], asked: Query) -> None:
        async def check() -> None:
            with_some, without = VisibleLetters(MemoryStore().collection(LETTERS)), MemoryStore().collection(LETTERS)
            for number, state in enumerate(states):
                letter = letter_in(state, task_id=f"wf_{number}", fingerprint="v1:a")
                await with_some.write([letter])
                await without.write([letter])
            gone = make_letter(task_id="gone", fingerprint="v1:a")
            await with_some.write([tombstones.delete(gone, now=gone.created_at, by="ann")])
            assert (await with_some.find(asked)).items == (await without.find(asked)).items
            assert (await with_some.tally(asked)).total.count == (await without.tally(asked)).total.count
            day = Buckets("created_at", gone.created_at, timedelta(days=1), 1)
            assert await with_some.histogram(asked, day) == await without.histogram(asked, day)
            assert await with_some.get(["gone", "wf_0"]) == [None, *(await without.get(["wf_0"]))]
            assert await with_some.write([gone]) == [None]

        asyncio.run(check())

    @pytest.mark.parametrize("asked", [
        letter_query(due=make_letter().created_at), letter_query(resolution="pending"),
        letter_query(status="exhausted"), letter_query(fingerprint="v1:a"), letter_query(run="r"),
    ])  # fmt: skip
    def test_where_none_can_match_the_query_stays_as_it_is(self, asked: Query) -> None:
        assert without_deleted(asked) is asked

    async def test_numbers_lists_and_events(self, any_house: House) -> None:
        queue = any_house.queue(Runs())
        await fill(queue, 3)
        await queue.retry_task("wf_00002")
        assert await queue.clear_all() == 2
        assert [letter.task_id for letter in await queue.list_tasks(status="completed")] == ["wf_00002"]
        assert [letter.task_id for letter in await queue.list_tasks(query=Query())] == ["wf_00002"]
        assert [line["total_entries"] for line in await queue.get_statistics_by_reason()] == [1]
        assert [line async for line in queue.transfer.export(task_id="wf_00000", resolution=None)] == []
        assert await queue.get_task("wf_00000", include_archived=True) is None
