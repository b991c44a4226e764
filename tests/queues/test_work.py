"""What may come between a worker and its lease, and items that cannot go where somebody sends them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.model.errors import InvalidInput, NoSuchQueue, StoreUnavailable
from mahavishnu.model.query import Query
from mahavishnu.queues import work as queue_work
from mahavishnu.queues.records import QUEUES
from mahavishnu.stores.base import scan
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.fallback.drain import local_copy_kind
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.testing import FaultyStore, turn
from mahavishnu.testing.faults import Call
from tests.support.queues import House


@pytest.mark.parametrize("ticks", range(8))
async def test_a_lease_that_is_cancelled_at_any_moment_is_nobodys(ticks: int) -> None:
    """Also if it was written, and its caller gave up before hearing of it."""
    queues = DeadLetterQueue(store=MemoryStore()).queues
    await queues.create("q")
    await queues.produce("q", 1)
    asking = asyncio.create_task(queues.lease("q", "w"))
    for _ in range(ticks):
        await turn()
    asking.cancel()
    try:
        leases = await asking
    except asyncio.CancelledError:
        leases = []
    if not leases:
        (again,) = await queues.lease("q", "w2")
        assert again.item.failure_count == 0


async def test_what_was_leased_before_the_store_failed_is_told(house: House) -> None:
    queue = house.queue()
    await queue.queues.create("q")
    for number in range(2):
        await queue.queues.produce("q", number)
    store = queue.store
    assert isinstance(store, FaultyStore)
    other = house.queue()
    stolen = False

    async def steal(call: Call) -> None:
        nonlocal stolen
        if not stolen:
            stolen = True
            await other.queues.lease("q", "thief")
            store.faults.before("find", fail, kind=LETTERS)

    async def fail(call: Call) -> None:
        raise StoreUnavailable("away")

    store.faults.before("write", steal, kind=LETTERS)
    (lease,) = await queue.queues.lease("q", "w", limit=2)
    store.faults.clear()
    await queue.queues.complete("q", lease.item.id, lease.token)


async def test_a_lease_that_ended_is_found_among_many_that_last(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_work, "_LEASED_PAGE", 3)
    queues = house.queue().queues
    await queues.create("q", retry={"attempts": 3})
    for number in range(8):
        await queues.produce("q", number)
    await queues.lease("q", "w", limit=7, lease_seconds=3600)
    (short,) = await queues.lease("q", "w2", lease_seconds=10)
    house.clock.advance(11)
    (again,) = await queues.lease("q", "w3")
    assert (again.item.id, again.item.failure_count) == (short.item.id, 1)
    house.clock.advance(3600)
    assert (await queues.maintain())["recovered"] == 8  # on several pages


@pytest.mark.parametrize("wait", ["soon", float("nan"), float("inf"), -1, True, timedelta(days=99_999)])
async def test_a_wait_that_cannot_be_is_refused(house: House, wait: Any) -> None:
    queues = house.queue().queues
    await queues.create("q", retry={"attempts": 3})
    made = await queues.produce("q", 1)
    (lease,) = await queues.lease("q", "w")
    with pytest.raises(InvalidInput, match="retry_in"):
        await queues.retry("q", made.id, lease.token, retry_in=wait)
    assert (await queues.item("q", made.id)).is_leased


@pytest.mark.parametrize("dead", ["no", None, 0])
async def test_an_item_does_not_die_of_a_wrong_word(house: House, dead: Any) -> None:
    queues = house.queue().queues
    await queues.create("q", retry={"attempts": 3})
    made = await queues.produce("q", 1)
    (lease,) = await queues.lease("q", "w")
    with pytest.raises(InvalidInput, match="dead must be True or False"):
        await queues.retry("q", made.id, lease.token, dead=dead)
    assert (await queues.item("q", made.id)).is_leased


async def test_a_cooldown_may_be_longer_than_letters_are_made_to_wait(house: House) -> None:
    queues = house.queue().queues
    await queues.create("q", retry={"attempts": 9, "cooldown": "30d"}, lease_timeout="10s")
    await queues.produce("q", 1)
    (lease,) = await queues.lease("q", "w")
    failed = await queues.retry("q", lease.item.id, lease.token)
    assert failed.next_retry_at == house.clock.now() + timedelta(days=30)
    house.clock.advance(30 * 86400)
    (lease,) = await queues.lease("q", "w")
    house.clock.advance(11)
    assert (await queues.maintain())["recovered"] == 1
    left = await queues.item("q", lease.item.id)
    assert left.next_retry_at == house.clock.now() + timedelta(days=30)


async def test_nothing_is_sent_to_a_queue_that_is_elsewhere(house: House) -> None:
    queues = house.queue().queues
    await queues.create("q")
    await queues.create("elsewhere", kind="external")
    made = await queues.produce("q", 1)
    with pytest.raises(InvalidInput, match="'elsewhere' is external"):
        await queues.redrive("q", to="elsewhere")
    assert (await queues.item("q", made.id)).status == "pending"


async def test_one_item_that_cannot_go_back_keeps_no_other(house: House) -> None:
    queues = house.queue().queues
    await queues.create("dead")
    for name in ("gone", "there"):
        await queues.create(name, dead_queue="dead")
        await queues.produce(name, name)
        (lease,) = await queues.lease(name, "w")
        await queues.retry(name, lease.item.id, lease.token)
    await queues.delete("gone")
    first, _ = (await queues.items("dead")).items
    done = await queues.redrive("dead")
    assert (done["redriven"], done["skipped"]) == (1, 0)
    assert done["refused"] == {first.id: "there is no queue 'gone'; create it first"}
    assert [each.payload for each in (await queues.items("there")).items] == ["there"]
    with pytest.raises(NoSuchQueue):  # none can go
        await queues.redrive("dead")


async def test_a_worker_that_died_with_an_item_of_a_deleted_queue(house: House) -> None:
    queue = house.queue()
    for name in ("q", "other"):
        await queue.queues.create(name)
    await queue.queues.produce("q", 1)
    (lease,) = await queue.queues.lease("q", "w", lease_seconds=10)
    await queue.queues.delete("q")
    assert (await queue.queues.maintain())["recovered"] == 0
    house.clock.advance(11)
    await queue.in_namespace("elsewhere").queues.maintain()
    assert (await queue.queues.item("q", lease.item.id)).status == "active"
    assert (await queue.queues.maintain())["recovered"] == 1
    left = await queue.queues.item("q", lease.item.id)
    assert (left.status, left.reason) == ("dead", "queue_definition_missing")


@pytest.mark.parametrize("how", ["complete", "retry"])
async def test_an_end_that_is_said_again_changes_nothing(house: House, how: str) -> None:
    """By the same process or another one: the first answer may have been lost."""
    first, second = house.queue().queues, house.queue().queues
    await first.create("q", retry={"attempts": 3})
    made = await first.produce("q", 1)
    (lease,) = await first.lease("q", "w")
    ended = [await getattr(each, how)("q", made.id, lease.token) for each in (first, second, first)]
    assert ended[0] == ended[1] == ended[2]
    assert ended[0].failure_count == (how == "retry")
    assert (await first.numbers("q"))["lifetime_stats"]["retry_failed"] == (how == "retry")


@pytest.mark.parametrize("name", ["id", "source_id", "source_queue"])
async def test_an_imported_name_with_a_slash_is_refused(house: House, name: str) -> None:
    """Names are put together with one, so that `a/b` of `c` would be `b` of `c/a`."""
    queues = house.queue().queues
    await queues.create("q")
    with pytest.raises(InvalidInput, match=f"{name} of an item cannot have a '/'"):
        await queues.import_items("q", [{"payload": 1, name: "a/b"}])


async def test_an_id_is_one_items_wherever_it_came_from(any_house: House) -> None:
    """Else a worker of another process could not say which of the two it has done."""
    queues = any_house.queue().queues
    await queues.create("q")
    plain = {"id": "x", "payload": "plain"}
    sent = {"id": "x", "payload": "sent", "source_id": "a", "source_queue": "s"}
    other = {"id": "y", "payload": "other", "source_id": "a", "source_queue": "s"}
    result = await queues.import_items("q", [plain, sent, other, other, plain])
    assert (result.created, result.duplicates) == (2, 3)
    again = await queues.import_items("q", [sent])
    assert (again.created, again.duplicates) == (0, 1)
    elsewhere = any_house.queue().queues
    for lease in await queues.lease("q", "w", limit=9):
        assert (await elsewhere.complete("q", lease.item.id, lease.token)).payload == lease.item.payload


@pytest.mark.parametrize("moment", ["known before", "in the first write", "in the second write", "answer lost"])
async def test_an_import_during_an_outage_keeps_nothing_locally(house: House, moment: str) -> None:
    """What is there already is not known then: it would come in once more when it has been done."""
    primary, local = FaultyStore(MemoryStore()), MemoryStore()
    store = FallbackStore(primary, local, kinds=KINDS, clock=house.clock)
    async with DeadLetterQueue(store=store, clock=house.clock) as queue:
        queues, count = queue.queues, 1200
        await queues.create("q")
        done = 700 if moment == "in the second write" else 0
        items = [{"payload": number, "source_id": f"s{number}"} for number in range(count)]
        if moment == "known before":
            primary.faults.unavailable()
        elif moment == "answer lost":
            primary.faults.answer_lost("write", kind=LETTERS, times=1)
        else:
            primary.faults.unavailable("write", kind=LETTERS, keys=[f"default@q/q//s{done}"])
        with pytest.raises(StoreUnavailable) as caught:
            await queues.import_items("q", items)
        told = str(caught.value)
        assert "import th" in told
        assert "again when it answers" in told
        assert ("nothing was imported" in told) == (moment == "known before")
        assert ("500 items were imported, and of items 501 to 1200 not all" in told) == bool(done)
        assert caught.value.maybe_written == (moment == "answer lost")
        kept = [each async for each in scan(local.collection(local_copy_kind(LETTERS)), Query())]
        assert kept == []

        primary.faults.clear()
        house.clock.advance(60)
        await store.drain()
        result = await queues.import_items("q", items)
        assert result.created + result.duplicates == count
        assert (await queues.numbers("q"))["queue_size"] == count


async def test_an_item_that_is_kept_locally_is_there(house: House) -> None:
    primary = FaultyStore(MemoryStore())
    store = FallbackStore(primary, MemoryStore(), kinds=KINDS, clock=house.clock)
    async with DeadLetterQueue(store=store, clock=house.clock) as queue:
        await queue.queues.create("q")
        with primary.faults.unavailable("write", kind=LETTERS, times=1):
            item = await queue.queues.produce("q", 1)
        store._away = None  # as a process that has seen no outage: what it kept has not gone home yet
        result = await queue.queues.import_items("q", [item])
        assert (result.created, result.duplicates) == (0, 1)


@pytest.mark.parametrize("what", ["expired", "died"])
async def test_who_leases_while_another_deletes_what_died_gets_the_next_one(house: House, what: str) -> None:
    """Each found it first; whoever is later has lost nothing that the worker asked for."""
    one, other = house.queue(), house.queue()
    await one.queues.create("q", on_dead="delete", expire_timeout="10s" if what == "expired" else None)
    await one.queues.produce("q", "gone")
    if what == "died":
        await other.queues.lease("q", "dead worker", lease_seconds=1)
        await one.queues.maintain()  # it has seen the lease
    house.clock.advance(100)
    if what == "expired":
        await one.queues.produce("q", "next")
    store, came = one.store, list[Call]()
    assert isinstance(store, FaultyStore)

    async def be_quicker(call: Call) -> None:
        if not came:
            came.append(call)
            await other.queues.maintain()
            house.clock.advance(100 * (what == "died"))
            await other.queues.maintain()

    store.faults.before("write", be_quicker, kind=LETTERS)
    leased = [each.item.payload for each in await one.queues.lease("q", "w", limit=5)]
    assert came
    assert leased == (["next"] if what == "expired" else [])


async def test_an_item_that_cannot_be_written_keeps_no_other_from_workers(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    queue = house.queue()
    await queue.queues.create("q", expire_timeout="10s")
    bad = await queue.queues.produce("q", "bad")
    house.clock.advance(11)
    await queue.queues.produce("q", "good")
    with house.faults.item_failed("write", kind=LETTERS, keys=[f"default@q/q/{bad.id}"]):
        (lease,) = await queue.queues.lease("q", "w", limit=5)
        assert (await queue.queues.maintain())["expired"] == 0
    assert lease.item.payload == "good"
    assert f"item '{bad.id}' is left as it is" in caplog.text
    assert (await queue.queues.maintain())["expired"] == 1


async def test_a_definition_that_cannot_be_read_stops_no_other_queue(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    queue = house.queue()
    for name in ("bad", "good"):
        await queue.queues.create(name)
        await queue.queues.produce(name, 1)
        await queue.queues.lease(name, "w", lease_seconds=1)
    await queue.queues.maintain()
    house.clock.advance(300)
    with house.faults.corrupt(kind=QUEUES, keys=["default/bad"]):
        assert [each.name for each in await queue.queues.list()] == ["good"]
        assert (await queue.queues.maintain())["recovered"] == 1
    assert "the definition of a queue is left out" in caplog.text
    assert (await queue.queues.maintain())["recovered"] == 1


async def test_one_id_is_no_list_of_ids(house: House) -> None:
    queues = house.queue().queues
    await queues.create("q")
    with pytest.raises(InvalidInput, match=r"ids is a list of ids of items, not 'abc': write it as \['abc'\]"):
        await queues.redrive("q", ids="abc")
