"""What workers do for queues now and then."""

from __future__ import annotations

import pytest

from mahavishnu.archive.service import archive_old
from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.model.errors import (
    CorruptRecord,
    IllegalMove,
    MahavishnuError,
    NoSuchLetter,
    NoSuchQueue,
    StoreUnavailable,
)
from mahavishnu.model.ids import document_key
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import Is, Query
from mahavishnu.queues import items as queue_items
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.testing import FaultyStore, turn
from mahavishnu.testing.faults import Call
from tests.support.queues import CLOSINGS, House, Runs


async def test_items_that_were_done_long_ago_go_to_the_archive(house: House) -> None:
    queue = house.queue()
    await queue.queues.create("q")
    made = await queue.queues.produce("q", {"n": 1})
    (lease,) = await queue.queues.lease("q", "w")
    await queue.queues.complete("q", made.id, lease.token)
    await archive_old(queue)
    assert (await queue.queues.item("q", made.id)).status == "completed"
    house.clock.advance(31 * 86400)
    await archive_old(queue)
    (archived,) = (await queue.in_namespace("default@q").archive.list()).items
    assert archived.copy.task_id == made.id
    numbers = await queue.queues.numbers("q")
    assert (numbers["lifetime_stats"]["retry_success"], numbers["lifetime_stats"]["enqueued_total"]) == (1, 1)


async def test_items_of_a_deleted_queue_go_to_the_archive_too(any_house: House) -> None:
    """And one queue that cannot be archived keeps no other one from it. What waits in a deleted queue stays."""
    queue = any_house.queue()
    other = any_house.queue(namespace="default@x")
    for queues in (queue.queues, other.queues):
        for name in ("a", "b"):
            await queues.create(name)
            done = await queues.produce(name, 1)
            (lease,) = await queues.lease(name, "w")
            await queues.complete(name, done.id, lease.token)
            await queues.produce(name, 2)
            await queues.delete(name)
    any_house.clock.advance(31 * 86400)

    async def fail(call: Call) -> None:
        if "default@a" in str(call.given):
            raise CorruptRecord("x", "spoiled")

    assert isinstance(queue.store, FaultyStore)
    with queue.store.faults.before("find", fail, kind=LETTERS):
        await archive_old(queue)
    assert [len((await queue.in_namespace(f"default@{name}").archive.list()).items) for name in "ab"] == [0, 1]
    await archive_old(queue)
    assert [len((await queue.in_namespace(f"default@{name}").archive.list()).items) for name in "ab"] == [1, 1]
    assert [(await queue.queues.numbers(name))["queue_size"] for name in "ab"] == [1, 1]
    assert (await other.in_namespace("default@x@a").archive.list()).items == []


async def test_a_worker_looks_after_queues(house: House) -> None:
    queue = house.queue(Runs())
    await queue.queues.create("dead")
    await queue.queues.create("q", dead_queue="dead", expire_timeout="5s")
    await queue.queues.produce("q", 1)
    await queue.start_retry_processor()
    while not (await queue.queues.items("dead")).items:
        house.clock.advance(1)
        await turn()
    await queue.stop_retry_processor()


async def test_one_queue_that_cannot_be_read_keeps_no_other_from_being_looked_after(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    queue = house.queue()
    for name in ("a", "b"):
        await queue.queues.create(name, expire_timeout="5s")
        await queue.queues.produce(name, 1)
    house.clock.advance(5)

    async def fail(call: Call) -> None:
        if "default@a" in str(call.given):
            raise StoreUnavailable("away")

    assert isinstance(queue.store, FaultyStore)
    with queue.store.faults.before("find", fail, kind=LETTERS):
        assert (await queue.queues.maintain())["expired"] == 1
    assert "queue 'a' could not be looked after: away" in caplog.text
    assert (await queue.queues.items("b")).items[0].reason == "expired"
    assert (await queue.queues.maintain())["expired"] == 1


async def test_produce_and_lease_work_on_while_moves_fail(house: House) -> None:
    queue = house.queue()
    await queue.queues.create("dead")
    await queue.queues.create("q", dead_queue="dead")

    async def refuse(call: Call) -> None:
        if any(getattr(each, "queue", None) == "dead" for each in call.given):
            raise StoreUnavailable("down")

    assert isinstance(queue.store, FaultyStore)
    queue.store.faults.before("write", refuse)
    for number in range(100):
        made = await queue.queues.produce("q", number)
        (lease,) = await queue.queues.lease("q", "w")
        assert lease.item.id == made.id
        assert (await queue.queues.retry("q", made.id, lease.token)).status == "dead"
        await queue.queues.maintain()
        house.clock.advance(1)
    queue.store.faults.clear()
    house.clock.advance(60)
    assert (await queue.queues.maintain())["moved"] == 100


async def test_what_is_on_its_way_arrives_though_the_queue_that_it_left_is_deleted(house: House) -> None:
    queue = house.queue()
    await queue.queues.create("dead")
    await queue.queues.create("q", dead_queue="dead")
    await queue.queues.produce("q", 1)
    (lease,) = await queue.queues.lease("q", "w")

    async def refuse(call: Call) -> None:
        if any(each.queue == "dead" for each in call.given):
            raise StoreUnavailable("down")

    assert isinstance(queue.store, FaultyStore)
    with queue.store.faults.before("write", refuse, kind=LETTERS):
        await queue.queues.retry("q", lease.item.id, lease.token)
    await queue.queues.delete("q")
    house.clock.advance(60)
    assert (await queue.queues.maintain())["moved"] == 1
    assert [each.payload for each in (await queue.queues.items("dead")).items] == [1]


async def test_a_deleted_queue_has_numbers_and_one_that_never_was_has_none(house: House) -> None:
    queues = house.queue().queues
    await queues.create("q")
    await queues.produce("q", 1)
    await queues.delete("q")
    assert (await queues.numbers("q"))["queue_size"] == 1
    with pytest.raises(NoSuchQueue):
        await queues.numbers("p")


class Outage:
    """A process whose way to the primary store breaks, and another one whose way does not."""

    def __init__(self, house: House) -> None:
        self.house, self.primary, memory = house, FaultyStore(MemoryStore()), MemoryStore()
        self.store = FallbackStore(self.primary, memory, kinds=KINDS, clock=house.clock)
        self.queue = DeadLetterQueue(store=self.store, clock=house.clock)
        self.other = DeadLetterQueue(store=self.primary.inner, clock=house.clock)
        house.look_after(self.queue)

    async def begin(self) -> None:
        await self.queue.queues.create("D")
        await self.queue.queues.create("S", dead_queue="D")
        await self.queue.queues.maintain()  # from now on it knows the queues

    async def fail(self, dlq: DeadLetterQueue) -> None:
        (lease,) = await dlq.queues.lease("S", "w")
        await dlq.queues.retry("S", lease.item.id, lease.token)

    async def end(self) -> list[str]:
        """Take everything home, and do what is left. Returns the payloads in the dead queue."""
        self.primary.faults.clear()
        await self.store.drain()
        self.house.clock.advance(3600)
        await self.queue.queues.maintain()
        assert (await self.queue.queues.items("S")).items == []
        for name in ("S", "D"):
            found = await self.queue.queues.numbers(name)
            life = found["lifetime_stats"]
            assert life["enqueued_total"] == found["queue_size"] + sum(life[each] for each in CLOSINGS)
        return [each.payload for each in (await self.queue.queues.items("D")).items]


async def test_an_item_of_the_primary_store_is_not_moved_into_the_local_one(house: House) -> None:
    """It would come home when the other one has been done, and be done twice."""
    outage = Outage(house)
    await outage.begin()
    await outage.queue.queues.produce("S", "once")

    async def lose(call: Call) -> None:
        if any(getattr(each, "bound_for", None) == "D" for each in call.given):
            outage.primary.faults.unavailable()

    outage.primary.faults.after("write", lose, kind=LETTERS)
    await outage.fail(outage.queue)
    house.clock.advance(60)
    assert (await outage.queue.queues.maintain())["moved"] == 0
    assert (await outage.other.queues.maintain())["moved"] == 1
    (lease,) = await outage.other.queues.lease("D", "w")
    await outage.other.queues.complete("D", lease.item.id, lease.token)
    assert await outage.end() == []
    assert (await outage.other.queues.numbers("D"))["lifetime_stats"]["enqueued_total"] == 1


async def test_what_is_kept_locally_is_looked_after_while_the_primary_store_is_away(house: House) -> None:
    outage = Outage(house)
    await outage.begin()
    outage.primary.faults.unavailable()
    await outage.queue.queues.produce("S", "left")
    await outage.queue.queues.lease("S", "w", lease_seconds=5)
    house.clock.advance(6)
    assert await outage.queue.queues.maintain() == {"recovered": 1, "expired": 0, "moved": 0}
    await outage.queue.queues.produce("S", "failed")
    await outage.fail(outage.queue)
    items = await outage.queue.queues.items("D")
    assert ([each.payload for each in items.items], bool(items.degraded)) == (["left", "failed"], True)
    assert await outage.end() == ["left", "failed"]


async def test_a_redrive_during_an_outage_says_that_it_does_not_see_everything(house: House) -> None:
    outage = Outage(house)
    await outage.begin()
    await outage.queue.queues.produce("S", "at home")
    await outage.fail(outage.queue)
    outage.primary.faults.unavailable()
    await outage.queue.queues.produce("S", "here")
    await outage.fail(outage.queue)
    done = await outage.queue.queues.redrive("D")
    assert (done["redriven"], "only what is kept locally is shown" in done["degraded"]) == (1, True)
    assert [each.payload for each in (await outage.queue.queues.items("S")).items] == ["here"]
    outage.primary.faults.clear()
    await outage.store.drain()
    assert await outage.queue.queues.redrive("D") == {"redriven": 1, "skipped": 0, "refused": {}, "degraded": None}
    assert {each.payload for each in (await outage.queue.queues.items("S")).items} == {"here", "at home"}


@pytest.mark.parametrize("act", ["drop", "resurrect"])
async def test_who_drops_or_retries_an_item_that_is_sent_away_meanwhile_is_told(house: House, act: str) -> None:
    one, other = house.queue(), house.queue()
    await one.queues.create("D")
    await one.queues.create("S", dead_queue="D")
    await one.queues.produce("S", 1)
    (lease,) = await one.queues.lease("S", "w")
    await one.queues.retry("S", lease.item.id, lease.token)
    (dead,) = (await one.queues.items("D")).items
    (lease,) = await one.queues.lease("D", "w")
    await one.queues.retry("D", dead.id, lease.token)
    assert isinstance(one.store, FaultyStore)
    sent = False

    async def send(call: Call) -> None:
        nonlocal sent
        if not sent:
            sent = True
            await other.queues.redrive("D")

    with one.store.faults.before("write", send, kind=LETTERS), pytest.raises(MahavishnuError):
        await getattr(one.queues, act)("D", dead.id)
    assert [each.payload for each in (await one.queues.items("S")).items] == [1]
    assert (await one.queues.items("D")).items == []
    assert (await one.queues.numbers("D"))["lifetime_stats"]["cleared"] == 0


@pytest.mark.parametrize("leased", [False, True])
async def test_an_item_that_a_person_retries_while_it_is_moved_lives_once(house: House, leased: bool) -> None:
    """The copy is taken back; where a worker has it by then, that one is the item."""
    one, other = house.queue(), house.queue()
    await one.queues.create("D")
    await one.queues.create("S", dead_queue="D")
    await one.queues.produce("S", 1)
    (lease,) = await one.queues.lease("S", "w")
    assert isinstance(one.store, FaultyStore)
    letters = one.store.collection(LETTERS)

    async def retry(call: Call) -> None:
        (made,) = call.given
        if made.queue != "D":
            return
        (there,) = await letters.get([document_key(lease.item.id, "default@S", "S")])
        assert isinstance(there, DeadLetter)
        await letters.write([queue_items.resurrect_item(there, house.clock.now())])
        if leased:
            await other.queues.lease("D", "w")

    with one.store.faults.after("write", retry, kind=LETTERS):
        await one.queues.retry("S", lease.item.id, lease.token)
    await other.queues.maintain()
    found = {name: [each.status for each in (await one.queues.items(name)).items] for name in ("S", "D")}
    assert found == ({"S": [], "D": ["active"]} if leased else {"S": ["pending"], "D": []})


@pytest.mark.parametrize("act", ["drop", "resurrect"])
async def test_a_move_that_was_sent_and_comes_late_doubles_no_item_that_a_person_wants_back(
    house: House, act: str
) -> None:
    """The store gets it after the sender has given up, and after somebody has looked whether it is there."""
    queue = house.queue()
    await queue.queues.create("D")
    await queue.queues.create("S", dead_queue="D")
    made = await queue.queues.produce("S", 1)
    (lease,) = await queue.queues.lease("S", "w")
    assert isinstance(queue.store, FaultyStore)
    letters, sent = queue.store.collection(LETTERS), list[DeadLetter]()

    async def hold_up(call: Call) -> None:
        if call.given[0].queue == "D":
            sent.extend(call.given)
            raise StoreUnavailable("no answer in time", maybe_written=True)

    with queue.store.faults.before("write", hold_up, kind=LETTERS):
        await queue.queues.retry("S", lease.item.id, lease.token)
    assert sent
    with pytest.raises(IllegalMove, match="it is in queue D now"):
        await getattr(queue.queues, act)("S", made.id)
    assert await letters.write(sent) == [None]
    assert [len((await queue.queues.items(name)).items) for name in ("S", "D")] == [0, 1]


async def test_items_come_in_and_go_out_while_the_primary_store_is_away(house: House) -> None:
    primary = FaultyStore(MemoryStore())
    store = FallbackStore(primary, MemoryStore(), kinds=KINDS, clock=house.clock)
    queue = DeadLetterQueue(store=store, clock=house.clock)
    house.look_after(queue)
    await queue.queues.create("q", retry={"attempts": 3, "cooldown": "0s"})
    await queue.queues.produce("q", "before")
    primary.faults.unavailable()
    for payload in ("done", "left"):
        await queue.queues.produce("q", payload)
    done, left = await queue.queues.lease("q", "w", limit=5)
    assert [done.item.payload, left.item.payload] == ["done", "left"]
    await queue.queues.complete("q", done.item.id, done.token)
    assert (await queue.queues.retry("q", left.item.id, left.token)).failure_count == 1
    primary.faults.clear()
    await store.drain()
    items = (await queue.queues.items("q")).items
    assert [(each.payload, each.failure_count) for each in items] == [("before", 0), ("left", 1)]
    assert (await queue.queues.item("q", done.item.id)).status == "completed"


async def test_an_item_waits_for_no_worker_that_runs_letters(house: House) -> None:
    """It is leased; nobody has to name an adapter for it. Who does not give its whole id is told so."""
    queue = house.queue()
    await queue.queues.create("q")
    made = await queue.queues.produce("q", 1)
    letters = await queue.in_namespace("default@q").list_tasks()
    assert [letter.entry_id for letter in letters] == [made.id]
    assert await queue.workers.why_each_waits(letters) == [None]
    await queue.queues.create("dead")
    await queue.queues.update("q", dead_queue="dead")
    (lease,) = await queue.queues.lease("q", "w")
    await queue.queues.retry("q", made.id, lease.token, error="no stock", dead=True)
    house.clock.advance(600)
    for where in ("*", "default@dead"):
        assert (await queue.in_namespace(where).workers.numbers())["due_without_worker"] == {}
    with pytest.raises(NoSuchLetter, match=f"queue 'q' has no item '{made.id[:8]}': give its whole id"):
        await queue.queues.drop("q", made.id[:8])


@pytest.mark.parametrize("fault", ["corrupt", "item_failed"])
async def test_an_item_that_the_store_cannot_give_keeps_no_other_from_being_leased(house: House, fault: str) -> None:
    queue = house.queue()
    await queue.queues.create("q")
    first, second = [await queue.queues.produce("q", number) for number in (1, 2)]
    page = await queue.store.collection(LETTERS).find(Query((Is("entry_id", (first.id,)),)))
    assert isinstance(queue.store, FaultyStore)
    with getattr(queue.store.faults, fault)("find" if fault == "corrupt" else "write", keys=[page.items[0].key]):
        assert [lease.item.id for lease in await queue.queues.lease("q", "w")] == [second.id]
        assert await queue.queues.lease("q", "w") == []
    assert [lease.item.id for lease in await queue.queues.lease("q", "w")] == [first.id]
