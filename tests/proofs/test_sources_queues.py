"""Named queues and their dead queues, through the public API, on SQLite and on a real OpenSearch."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue, QueueOptions
from mahavishnu.model.errors import (
    IllegalMove,
    InvalidInput,
    InvalidOption,
    LostLease,
    MahavishnuError,
    NoSuchLetter,
    NoSuchQueue,
    StoreUnavailable,
)
from mahavishnu.model.events import Event
from mahavishnu.queues.items import ItemLease, QueueItem
from mahavishnu.queues.service import NamedQueues
from mahavishnu.stores.base import Store
from mahavishnu.stores.urls import open_store
from mahavishnu.testing import FaultyStore, ManualClock
from mahavishnu.testing.faults import Call, Faults

CLOSINGS = (
    "retry_success", "requeued", "permanently_failed", "manually_resolved", "cancelled", "archived", "cleared",
    "moved",
)  # fmt: skip


# What depends on the store the least is tried on OpenSearch with the slow proofs.
SELDOM = pytest.mark.parametrize(
    "store_url",
    ["sqlite", pytest.param("opensearch", marks=[pytest.mark.opensearch, pytest.mark.prove])],
    indirect=True,
)


class Town:
    """Processes that share a store and a clock."""

    def __init__(self, url: str) -> None:
        self.url, self.clock = url, ManualClock()
        self._all: list[DeadLetterQueue] = []

    def process(self) -> DeadLetterQueue:
        inner: Store = open_store(self.url, local=None, kinds=KINDS)
        dlq = DeadLetterQueue(store=FaultyStore(inner), clock=self.clock, options=QueueOptions())
        self._all.append(dlq)
        return dlq

    async def close(self) -> None:
        for each in self._all:
            assert isinstance(each.store, FaultyStore)
            each.store.faults.clear()
            await each.shutdown()


@pytest.fixture
async def town(store_url: str) -> AsyncIterator[Town]:
    town = Town(store_url)
    yield town
    await town.close()


@pytest.fixture
def queues(town: Town) -> NamedQueues:
    return town.process().queues


async def only(queues: NamedQueues, name: str, **options: Any) -> QueueItem:
    items = await listed(queues, name, **options)
    assert len(items) == 1, items
    return items[0]


async def listed(queues: NamedQueues, name: str, **options: Any) -> list[QueueItem]:
    page = await queues.items(name, **options)
    assert page.next is None
    return list(page.items)


async def lease(queues: NamedQueues, name: str, **options: Any) -> ItemLease:
    (found,) = await queues.lease(name, "worker", **options)
    return found


async def fail(queues: NamedQueues, name: str, times: int = 1, **options: Any) -> QueueItem:
    for _ in range(times):
        found = await lease(queues, name)
        item = await queues.retry(name, found.item.id, found.token, error="boom", **options)
    return item


def faults_of(process: DeadLetterQueue) -> Faults:
    assert isinstance(process.store, FaultyStore)
    return process.store.faults


def die_after(process: DeadLetterQueue, writes: int) -> None:
    """From then on nothing reaches the store, as if the process were gone."""
    left = writes

    async def count(call: Call) -> None:
        nonlocal left
        if left == 0:
            faults_of(process).unavailable()
            raise StoreUnavailable("the process is dead")
        left -= 1

    faults_of(process).before("write", count)


def counted_down(process: DeadLetterQueue, writes: int) -> Callable[[Call], Awaitable[None]]:
    """A hook that has the process die after so many writes, without hearing of the last one."""
    left = writes

    async def count(call: Call) -> None:
        nonlocal left
        if left == 0:
            faults_of(process).unavailable()
            raise StoreUnavailable("the process is dead", maybe_written=True)
        left -= 1

    return count


def refuse_writes(process: DeadLetterQueue, queue: str) -> None:
    async def refuse(call: Call) -> None:
        if any(getattr(record, "queue", None) == queue for record in call.given):
            raise StoreUnavailable("no room")

    faults_of(process).before("write", refuse)


async def refusal(call: Any, kind: type[MahavishnuError] = InvalidOption) -> str:
    with pytest.raises(kind) as refused:
        await call
    return str(refused.value)


async def assert_adds_up(queues: NamedQueues, *names: str) -> None:
    """Each item that ever was is open, or was closed by one of these."""
    for name in names:
        found = await queues.numbers(name)
        lifetime = found["lifetime_stats"]
        assert lifetime["enqueued_total"] == found["queue_size"] + sum(lifetime[each] for each in CLOSINGS), found


# --- definitions


async def test_no_chains(queues: NamedQueues) -> None:
    await queues.create("C")
    await queues.create("B", dead_queue="C")
    assert await refusal(queues.create("A", dead_queue="B")) == "dead_queue 'B' cannot have its own dead_queue"
    assert await refusal(queues.get("A"), NoSuchQueue)
    await queues.create("plain")
    await queues.create("A", dead_queue="plain")
    assert await refusal(queues.update("plain", dead_queue="C")) == "dead_queue 'plain' cannot have its own dead_queue"
    assert await refusal(queues.create("E", dead_queue="E")) == "dead_queue cannot reference itself"
    assert await refusal(queues.create("E", dead_queue="Z")) == "dead_queue 'Z' does not exist; create it first"


async def test_two_processes_make_no_chain_at_once(town: Town) -> None:
    one, other = town.process().queues, town.process().queues
    for round in range(5):
        a, b, c = (f"{name}{round}" for name in "abc")
        for name in (a, b, c):
            await one.create(name)
        results = await asyncio.gather(
            one.update(a, dead_queue=b), other.update(b, dead_queue=c), return_exceptions=True
        )
        words = [str(each) for each in results if isinstance(each, InvalidOption)]
        assert words == [f"dead_queue '{b}' cannot have its own dead_queue"]
        assert ((await one.get(a)).dead_queue is None) != ((await one.get(b)).dead_queue is None)


# --- what dies moves


async def test_an_item_that_exceeded_its_attempts_moves(queues: NamedQueues) -> None:
    await queues.create("D")
    await queues.create("S", dead_queue="D", max_attempts=2, expire_timeout="1h")
    made = await queues.produce("S", {"n": 1, "text": "ü"}, metadata={"ref": "r-1"})
    assert (await fail(queues, "S")).attempts == 1
    assert (await fail(queues, "S")).attempts == 2
    assert (await fail(queues, "S")).status == "dead"

    assert await listed(queues, "S") == []
    moved = await only(queues, "D")
    assert (moved.source_id, moved.source_queue, moved.source_created_at) == (made.id, "S", made.created_at)
    assert moved.id != made.id
    assert (moved.attempts, moved.is_leased, moved.lease_deadline, moved.expire_deadline) == (0, False, None, None)
    assert (moved.payload, moved.metadata) == ({"n": 1, "text": "ü"}, {"ref": "r-1"})
    assert (moved.reason, moved.last_error) == ("max_attempts_exceeded", "boom")
    assert QueueItem.from_dict(moved.to_dict()) == moved
    await assert_adds_up(queues, "S", "D")


@SELDOM
@pytest.mark.parametrize("writes", range(5))
@pytest.mark.parametrize("heard", [True, False])
async def test_killed_at_any_write_of_a_failure_and_a_move(town: Town, writes: int, heard: bool) -> None:
    """Before each write, and after it before its answer: the item is in one of the two queues, once."""
    doomed, heir = town.process(), town.process()
    await heir.queues.create("D")
    await heir.queues.create("S", dead_queue="D")
    await heir.queues.produce("S", 1)
    if heard:
        die_after(doomed, writes)
    else:
        faults_of(doomed).after("write", counted_down(doomed, writes))
    try:
        found = await lease(doomed.queues, "S", lease_seconds=60)
        await doomed.queues.retry("S", found.item.id, found.token)
    except StoreUnavailable:
        pass
    await heir.queues.maintain()
    town.clock.advance(60)
    await heir.queues.maintain()
    if (items := await listed(heir.queues, "S")) and items[0].status == "pending":
        await fail(heir.queues, "S")
    await heir.queues.maintain()
    assert await listed(heir.queues, "S") == []
    assert (await only(heir.queues, "D")).payload == 1
    await assert_adds_up(heir.queues, "S", "D")


@pytest.mark.parametrize("consumed", [False, True])
async def test_killed_between_the_two_writes_of_a_move(town: Town, consumed: bool) -> None:
    """One copy in the dead queue, none in the source; none at all if somebody has consumed it meanwhile."""
    doomed, heir = town.process(), town.process()
    queues = doomed.queues
    await queues.create("D")
    await queues.create("S", dead_queue="D")
    await queues.produce("S", 1)
    found = await lease(queues, "S")
    die_after(doomed, writes=2)  # it is dead, it is created over there; closing fails
    await queues.retry("S", found.item.id, found.token)
    dead = await only(heir.queues, "S")
    assert dead.status == "dead"
    assert await heir.queues.lease("S", "w") == []
    if consumed:
        taken = await lease(heir.queues, "D")
        await heir.queues.complete("D", taken.item.id, taken.token)
    assert (await heir.queues.maintain())["moved"] == 1
    assert await listed(heir.queues, "S") == []
    assert len(await listed(heir.queues, "D")) == (0 if consumed else 1)
    await assert_adds_up(heir.queues, "S", "D")


@SELDOM
async def test_equal_ids_of_two_queues_are_two_items(queues: NamedQueues) -> None:
    await queues.create("D")
    for name in ("S1", "S2"):
        await queues.create(name, dead_queue="D")
        assert (await queues.import_items(name, [{"id": "abc", "payload": name}])).created == 1
        await fail(queues, name)
    assert [(each.source_queue, each.source_id) for each in await listed(queues, "D")] == [("S1", "abc"), ("S2", "abc")]


@SELDOM
async def test_a_dead_queue_that_takes_nothing(town: Town, caplog: pytest.LogCaptureFixture) -> None:
    process = town.process()
    queues = process.queues
    await queues.create("D")
    await queues.create("S", dead_queue="D")
    for number in range(3):
        await queues.produce("S", number)
    leases = await queues.lease("S", "w", limit=3)
    refuse_writes(process, "D")
    for each in leases:
        await queues.retry("S", each.item.id, each.token)
    assert caplog.text.count("failed to produce to dead_queue 'D': ") == 1, "it is not tried again at once"
    assert [each.status for each in await listed(queues, "S")] == ["dead"] * 3
    assert await queues.lease("S", "w", limit=3) == []
    for _ in range(20):
        town.clock.advance(2)
        assert (await queues.maintain())["moved"] == 0
    assert caplog.text.count("failed to produce to dead_queue 'D': ") < 8, "at ever longer intervals"
    faults_of(process).clear()
    town.clock.advance(60)
    assert (await queues.maintain())["moved"] == 3
    assert await listed(queues, "S") == []
    assert [each.payload for each in await listed(queues, "D")] == [0, 1, 2]


@SELDOM
async def test_expiry_waits_for_the_lease(town: Town, queues: NamedQueues) -> None:
    await queues.create("D")
    await queues.create("S", dead_queue="D", expire_timeout="10s", max_attempts=5)
    for number in range(3):
        await queues.produce("S", number)
    done, late = await queues.lease("S", "w", limit=2, lease_seconds=30)
    town.clock.advance(15)
    assert (await queues.maintain()) == {"recovered": 0, "expired": 1, "moved": 0}
    assert [(each.payload, each.reason) for each in await listed(queues, "D")] == [(2, "expired")]
    town.clock.advance(5)
    assert (await queues.complete("S", done.item.id, done.token)).status == "completed"
    town.clock.advance(9.999)
    await queues.maintain()
    assert (await only(queues, "S")).id == late.item.id
    town.clock.advance(0.001)
    await queues.maintain()
    assert await listed(queues, "S") == []
    assert await refusal(queues.complete("S", late.item.id, late.token), LostLease)
    town.clock.advance(3600)
    await queues.maintain()
    assert [(each.payload, each.reason) for each in await listed(queues, "D")] == [(2, "expired"), (1, "expired")]


@SELDOM
async def test_a_queue_that_deletes_what_dies(queues: NamedQueues, caplog: pytest.LogCaptureFixture) -> None:
    await queues.create("S", on_dead="delete")
    made = await queues.produce("S", 1)
    await fail(queues, "S")
    assert f"item '{made.id}' exceeded max_attempts, deleting (no dead_queue configured)" in caplog.messages
    with pytest.raises(NoSuchLetter):
        await queues.item("S", made.id)
    assert (await queues.numbers("S"))["lifetime_stats"]["cleared"] == 1
    await queues.create("kept")
    await queues.produce("kept", 1)
    await fail(queues, "kept")
    assert (await only(queues, "kept")).status == "dead"


# --- attempts and cooldown


@SELDOM
async def test_a_cooldown_between_failures(town: Town, queues: NamedQueues) -> None:
    await queues.create("q", retry={"attempts": 3, "cooldown": "30s"})
    await queues.produce("q", 1)
    start = town.clock.now()
    for count in (1, 2):
        item = await fail(queues, "q")
        assert (item.status, item.failure_count) == ("failed", count)
        assert item.next_retry_at is not None
        assert (item.next_retry_at - start).total_seconds() == 30 * count
        town.clock.advance(29)
        assert await queues.lease("q", "w") == []
        assert (await only(queues, "q", status="failed")).id == item.id
        town.clock.advance(1)
        assert (await only(queues, "q", status="pending")).id == item.id
    item = await fail(queues, "q")
    assert (item.status, item.failure_count, item.next_retry_at) == ("dead", 3, None)
    town.clock.advance(3600)
    assert await queues.lease("q", "w") == []


@SELDOM
async def test_the_definition_is_read_at_the_time_of_the_failure(town: Town, queues: NamedQueues) -> None:
    other = town.process().queues
    await queues.create("q", retry={"attempts": 3, "cooldown": "0s"})
    await queues.produce("q", 1)
    assert (await fail(queues, "q")).status == "pending"
    await other.update("q", retry={"attempts": 1})
    assert (await fail(queues, "q")).status == "dead"
    await other.update("q", retry={"attempts": 5})
    assert (await only(queues, "q")).status == "dead"
    await other.update("q", retry={"attempts": 5, "cooldown": "1h"})
    await queues.produce("q", 2)
    due = (await fail(queues, "q")).next_retry_at
    await other.update("q", retry={"attempts": 5, "cooldown": "1s"})
    assert (await only(queues, "q", status="failed")).next_retry_at == due


@SELDOM
async def test_a_manual_retry_overrules_the_cooldown(town: Town, queues: NamedQueues) -> None:
    await queues.create("q", retry={"attempts": 3, "cooldown": "30s"})
    await queues.produce("q", 1)
    item = await fail(queues, "q")
    town.clock.advance(10)
    assert (await queues.resurrect("q", item.id)).failure_count == 0
    found = await lease(queues, "q")
    town.clock.advance(10)
    failed = await queues.retry("q", item.id, found.token)
    assert failed.failure_count == 1
    town.clock.advance(10)
    assert (await only(queues, "q")).status == "failed"
    town.clock.advance(20)
    assert (await only(queues, "q")).status == "pending"


@SELDOM
async def test_a_cooldown_survives_the_process(town: Town) -> None:
    first = town.process()
    await first.queues.create("q", retry={"attempts": 3, "cooldown": "30s"})
    await first.queues.produce("q", 1)
    await fail(first.queues, "q")
    town.clock.advance(5)
    await first.shutdown()
    town.clock.advance(595)
    second = town.process().queues
    await second.maintain()
    assert (await only(second, "q")).status == "pending"
    assert len(await second.lease("q", "w", limit=10)) == 1


@SELDOM
async def test_a_person_retries_what_is_dead_once(queues: NamedQueues) -> None:
    await queues.create("q")
    made = await queues.produce("q", 1)
    await fail(queues, "q")
    results = await asyncio.gather(*(queues.resurrect("q", made.id) for _ in range(2)), return_exceptions=True)
    assert sum(isinstance(each, QueueItem) for each in results) == 1
    assert sum(isinstance(each, IllegalMove) for each in results) == 1
    assert (await only(queues, "q")).status == "pending"
    await refusal(queues.resurrect("q", made.id), IllegalMove)
    found = await lease(queues, "q")
    await refusal(queues.resurrect("q", made.id), IllegalMove)
    await queues.complete("q", made.id, found.token)
    await refusal(queues.resurrect("q", made.id), IllegalMove)
    await queues.create("elsewhere", kind="external")
    words = {
        await refusal(queues.resurrect("nowhere", made.id), NoSuchQueue),
        await refusal(queues.resurrect("elsewhere", made.id), InvalidInput),
        await refusal(queues.resurrect("q", "unknown"), NoSuchLetter),
    }
    assert len(words) == 3


# --- leases


async def test_each_item_is_leased_once(town: Town) -> None:
    shells = [town.process().queues for _ in range(4)]
    await shells[0].create("q")
    await shells[0].import_items("q", [{"payload": number} for number in range(1000)])
    got: Counter[Any] = Counter()

    async def work(queues: NamedQueues, name: str) -> None:
        while leases := await queues.lease("q", name, limit=7):
            got.update(each.item.payload for each in leases)
            await asyncio.gather(*(queues.complete("q", each.item.id, each.token) for each in leases))

    await asyncio.gather(*(work(shells[number % 4], f"w{number}") for number in range(20)))
    while len(got) < 1000:  # a search of OpenSearch may not have seen the last ones yet
        await work(shells[0], "late")
    assert got == Counter(range(1000))
    assert (await shells[0].numbers("q"))["lifetime_stats"]["retry_success"] == 1000


@SELDOM
async def test_a_lease_that_runs_out_is_a_failure(town: Town, queues: NamedQueues) -> None:
    await queues.create("D")
    await queues.create("S", dead_queue="D", max_attempts=2)
    await queues.produce("S", 1)
    for _ in range(3):
        assert len(await queues.lease("S", "w", lease_seconds=60)) == 1
        town.clock.advance(60)
    assert await queues.lease("S", "w") == []
    assert (await only(queues, "D")).reason == "max_attempts_exceeded"


@SELDOM
async def test_items_come_out_in_order_whatever_the_clock_does(town: Town, queues: NamedQueues) -> None:
    await queues.create("D")
    await queues.create("S", dead_queue="D")
    town.clock.advance(3600)
    for number in range(3):
        await queues.produce("S", number)
    for number in range(3):
        assert (await fail(queues, "S")).payload == number
        town.clock.set(town.clock.now() + timedelta(seconds=1 if number == 0 else -600))
    assert [each.payload for each in await listed(queues, "D")] == [0, 1, 2]
    town.clock.advance(3600)
    assert [each.item.payload for each in await queues.lease("D", "w", limit=3)] == [0, 1, 2]


# --- import, redrive, dead queues


@SELDOM
async def test_an_import_leaves_alone_what_is_there(queues: NamedQueues) -> None:
    await queues.create("q")

    def item(source_id: str) -> dict[str, Any]:
        return {"payload": source_id, "source_id": source_id}

    assert await queues.import_items("q", [item("dup")])
    result = await queues.import_items("q", [item("new"), item("dup"), item("other"), item("twice"), item("twice")])
    assert (result.created, result.duplicates) == (3, 2)
    assert sorted(str(each.source_id) for each in await listed(queues, "q")) == ["dup", "new", "other", "twice"]
    again = await queues.import_items("q", await listed(queues, "q"))
    assert (again.created, again.duplicates) == (0, 4)


async def test_what_is_dead_goes_back_once(queues: NamedQueues) -> None:
    await queues.create("D")
    await queues.create("S", dead_queue="D")
    for number in range(3):
        await queues.produce("S", number)
        await fail(queues, "S")
    await fail(queues, "D")  # it may be leased and fail here; it stays
    assert [each.status for each in await listed(queues, "D")] == ["dead", "pending", "pending"]
    results = await asyncio.gather(queues.redrive("D"), queues.redrive("D"))
    assert sum(each["redriven"] for each in results) == 3
    assert sorted(each.payload for each in await listed(queues, "S")) == [0, 1, 2]
    assert {each.failure_count for each in await listed(queues, "S")} == {0}
    assert await listed(queues, "D") == []
    await fail(queues, "S")
    await queues.delete("S")
    assert "there is no queue 'S'" in await refusal(queues.redrive("D"), NoSuchQueue)
    assert len(await listed(queues, "D")) == 1
    await assert_adds_up(queues, "S", "D")


@SELDOM
async def test_a_queue_that_is_gone_when_an_item_fails(queues: NamedQueues) -> None:
    await queues.create("q", retry={"attempts": 5})
    made = await queues.produce("q", 1)
    found = await lease(queues, "q")
    await queues.delete("q")
    item = await queues.retry("q", made.id, found.token)
    assert (item.status, item.reason) == ("dead", "queue_definition_missing")


@SELDOM
async def test_events_have_the_documented_names(town: Town) -> None:
    process = town.process()
    told: list[tuple[str, dict[str, Any]]] = []

    async def listen(event: Event) -> None:
        told.append((str(event.name), dict(event.detail)))

    process.listen(listen)
    queues = process.queues
    await queues.create("q", retry={"attempts": 2})
    made = await queues.produce("q", 1)
    await fail(queues, "q")
    await fail(queues, "q")
    await queues.resurrect("q", made.id)
    await process.context.events.flush()
    about = {"queue_name": "q", "item_id": made.id, "namespace": "default"}
    assert told == [
        ("QueueFailed", about),
        ("QueueItemRetry", about | {"manual": False}),
        ("QueueFailed", about),
        ("QueueItemDead", about),
        ("QueueItemRetry", about | {"manual": True}),
        ("WorkerWake", about),
    ]


@SELDOM
async def test_items_are_no_failures_of_the_app(town: Town) -> None:
    process = town.process()
    await process.queues.create("q")
    await process.queues.produce("q", 1)
    stats = await process.get_statistics()
    assert (stats["queue_size"], stats["lifetime_stats"]["enqueued_total"]) == (0, 0)
    assert await process.list_tasks() == []
    assert await process.claims.claim("anybody") == []
    assert await process.clear_all() == 0
    (letter,) = await process.in_namespace("default@q").list_tasks()
    assert letter.queue == "q"
