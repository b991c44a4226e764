"""Two apps on one store, each with a name of its own, and with the same task ids: neither meets the other's letters."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.engine.context import QueueOptions
from mahavishnu.model.errors import InvalidInput, NoSuchGroup, NoSuchLetter, NoSuchRun, QueueFull
from mahavishnu.model.letter import DeadLetter, evolve
from mahavishnu.stores.base import Store
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.testing import ManualClock, turn
from tests.support.queues import Runs

KINDS_OF_STORES = [
    pytest.param("memory"),
    pytest.param("sqlite"),
    pytest.param("opensearch", marks=pytest.mark.opensearch),
]
Open = Callable[..., DeadLetterQueue]


@pytest.fixture(params=KINDS_OF_STORES)
async def opened(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Open]:
    """The queue of an app of this namespace, as another process would have it."""
    clock, memory = ManualClock(), MemoryStore()
    if request.param == "opensearch":
        url, prefix = request.getfixturevalue("opensearch_url"), request.getfixturevalue("opensearch_prefix")

    def store() -> Store:
        if request.param == "memory":
            return memory
        if request.param == "sqlite":
            return SQLiteStore(tmp_path / "letters.db", kinds=KINDS)
        return OpenSearchStore(url, prefix=prefix, timeout=60, kinds=KINDS)

    async with AsyncExitStack() as stack:

        def opened(namespace: str, callback: Any = None, **more: Any) -> DeadLetterQueue:
            options = QueueOptions(namespace=namespace, callback=callback)
            queue = DeadLetterQueue(store=store(), clock=clock, options=options, **more)
            stack.push_async_callback(queue.shutdown)
            return queue

        yield opened


async def capture(queue: DeadLetterQueue, *names: str, **more: Any) -> list[DeadLetter]:
    """Failures of one cause, due at once."""
    how = {"retry_policy": "immediate", **more}
    return [
        await queue.enqueue(name, {"of": queue.namespace}, [], ConnectionError("connection refused"), **how)
        for name in names
    ]


async def test_each_namespace_is_listed_with_its_numbers(opened: Open) -> None:
    blue, red = opened("blue"), opened("red")
    await capture(blue, "same", "b")
    await capture(red, "same", retry_policy="never")
    await red.queues.create("jobs")
    await red.queues.produce("jobs", 1)
    for each in (blue, opened("new")):
        found = {seen.name: (seen.open, seen.for_people) for seen in await each.search.namespaces()}
        assert found == {"blue": (2, 0), "red": (1, 1)} | ({} if each is blue else {"new": (0, 0)})
    await blue.letters.resolve("b", by="ann")
    assert [(each.name, each.open) for each in await red.search.namespaces()] == [("blue", 1), ("red", 1)]


def tasks(letters: list[DeadLetter]) -> list[tuple[str, Any]]:
    return sorted((letter.task_id, letter.task["of"]) for letter in letters)


async def test_each_app_runs_its_own_letters(opened: Open) -> None:
    red_runs, blue_runs = Runs(), Runs()
    red, blue = opened("red", red_runs), opened("blue", blue_runs)
    await capture(red, "same", "only-red")
    await capture(blue, "same")
    assert await blue.run_due() == 1
    assert blue_runs.tasks == [{"of": "blue"}]
    assert (await red.get_statistics())["queue_size"] == 2
    (claim,) = await red.claims.claim("elsewhere", limit=1)
    assert claim.letter.namespace == "red"
    await red.claims.settle(claim.letter.task_id, claim.token, "succeeded")
    assert await blue.claims.claim("elsewhere", limit=9) == []
    assert await red.run_due() == 1
    assert {task["of"] for task in red_runs.tasks} == {"red"}
    done = await red.retry_task("same", namespace="blue")
    assert not done["success"]
    assert "run by the apps whose dlq_namespace that is" in done["error"]


async def test_nothing_of_the_other_is_seen_or_counted(opened: Open) -> None:
    red, blue = opened("red"), opened("blue")
    (letter,) = await capture(red, "same")
    await capture(blue, "same", "other")
    assert tasks(await red.list_tasks()) == [("same", "red")]
    assert await red.get_task("other") is None
    stats = await red.get_statistics()
    assert (stats["namespace"], stats["queue_size"], stats["lifetime_stats"]["enqueued_total"]) == ("red", 1, 1)
    assert [line["total_entries"] for line in await red.get_statistics_by_reason()] == [1]
    page = await red.groups.list()
    assert [(view.namespace, view.count, view.total) for view in page.items] == [("red", 1, 1)]
    assert letter.fingerprint is not None
    await blue.groups.update(letter.fingerprint, by="ann", owner="ann", note="ours")
    view = await red.groups.get(letter.fingerprint)
    assert (view.owner, view.group.notes) == (None, ())
    assert [entry.actor for entry in (await blue.audit.list()).items] == ["ann"]
    assert (await red.audit.list()).items == []
    assert [line async for line in red.transfer.export()] != [line async for line in blue.transfer.export()]
    with pytest.raises(NoSuchLetter):
        await red.letters.resolve("other")
    with pytest.raises(NoSuchGroup):
        await opened("green").groups.get(letter.fingerprint)


async def test_what_is_done_to_many_is_done_in_one(opened: Open) -> None:
    red, blue = opened("red"), opened("blue")
    await capture(red, "same", "r")
    await capture(blue, "same", "b")
    assert (await red.letters.archive_many(everything=True)).done == ["red/default/r", "red/default/same"]
    run = await blue.runs.start("resolve", everything=True, by="ann")
    assert not await red.runs.advance()
    assert (await red.runs.list()).items == []
    with pytest.raises(NoSuchRun):
        await red.runs.get(run.run_id)
    while await blue.runs.advance():
        pass
    done = await blue.runs.get(run.run_id)
    assert (done.state, done.counts.moved) == ("done", 2)


async def test_clearing_one_leaves_the_other(opened: Open) -> None:
    red, blue = opened("red"), opened("blue", max_size=1)
    await capture(red, "same", "r")
    await capture(blue, "same")
    with pytest.raises(QueueFull):
        await capture(blue, "b")  # its own limit, which is not that of red
    waiting = (await capture(red, "waits"))[0]
    await red.letters.resolve("waits")
    await blue.context.waiting.keep(waiting)
    assert (await blue.get_statistics())["waiting"] == 0
    assert (await red.get_statistics())["waiting"] == 1
    assert await blue.clear_all(by="ann") == 1
    assert tasks(await red.list_tasks()) == [("r", "red"), ("same", "red")]
    stats = await red.get_statistics()
    assert (stats["waiting"], stats["lifetime_stats"]["cleared"]) == (1, 0)
    assert (await blue.get_statistics())["lifetime_stats"]["cleared"] == 1


async def test_the_numbers_of_deleted_letters_stay_apart(opened: Open) -> None:
    red, blue = opened("red"), opened("blue")
    await capture(red, "same", "r")
    await capture(blue, "same")
    await red.clear_all()
    await blue.clear_all()
    clock: Any = red.clock
    clock.advance(40 * 86400)
    assert await red._ledger.fold() == 2
    assert await blue._ledger.fold() == 1
    for queue, count in ((red, 2), (blue, 1), (opened("green"), 0)):
        lifetime = (await queue.get_statistics())["lifetime_stats"]
        assert (lifetime["enqueued_total"], lifetime["cleared"]) == (count, count)


async def test_tombstones_of_an_app_that_is_gone_are_added_up_by_others(opened: Open) -> None:
    red, blue = opened("red"), opened("blue")
    await capture(red, "same", "r")
    await red.clear_all()
    clock: Any = red.clock
    clock.advance(300 * 86400)
    await capture(blue, "same")
    await blue.clear_all()
    assert (await blue._ledger.fold(), await blue._ledger.fold_others()) == (0, 0), "red may have a longer limit"
    clock.advance(70 * 86400)
    assert await blue._ledger.fold_others() == 2
    assert await blue._ledger.fold_others() == 0
    left = await blue.context.letters.records.get(["red/default/same", "red/default/r", "blue/default/same"])
    assert [each is None for each in left] == [True, True, False]
    lifetime = (await red.get_statistics())["lifetime_stats"]
    assert (lifetime["enqueued_total"], lifetime["cleared"]) == (2, 2)


async def test_the_chores_of_a_process_reach_all_namespaces(opened: Open) -> None:
    red, blue = opened("red"), opened("blue")
    await capture(red, "same")
    await red.clear_all()
    (tombstone,) = await red.context.letters.records.get(["red/default/same"])
    assert isinstance(tombstone, DeadLetter)
    await red.context.letters.records.write([evolve(tombstone, revision=1)])  # as if red had died before it was done
    clock: Any = red.clock
    await blue.processing.start_periodic_tasks()

    async def there() -> DeadLetter | None:
        (found,) = await blue.context.letters.records.get(["red/default/same"])
        assert found is None or isinstance(found, DeadLetter)
        return found

    async with asyncio.timeout(20):
        while (found := await there()) is None or found.revision:
            await turn()
        clock.advance(366 * 86400)
        while await there() is not None:
            await turn()
    await blue.stop_retry_processor()


async def test_each_namespace_has_room_of_its_own_for_captures_at_the_same_time(opened: Open) -> None:
    queues = [opened("red", max_size=100), opened("blue", max_size=100)]
    for queue in queues:
        await queue.open()

    async def one(queue: DeadLetterQueue, number: int) -> bool:
        try:
            await queue.enqueue(f"wf_{number}", {}, [], "boom")
        except QueueFull:
            return False
        return True

    each = [[one(queue, number) for number in range(110)] for queue in queues]
    taken = await asyncio.gather(*(capture for pair in zip(*each, strict=True) for capture in pair))
    assert (sum(taken[::2]), sum(taken[1::2])) == (100, 100)
    assert [(await queue.get_statistics())["queue_size"] for queue in queues] == [100, 100]


async def test_somebody_may_look_across_and_act_in_a_named_one(opened: Open) -> None:
    red, blue = opened("red"), opened("blue")
    await capture(red, "same", "r")
    (letter,) = await capture(blue, "same")
    both = red.all_namespaces
    assert tasks(await both.list_tasks()) == [("r", "red"), ("same", "blue"), ("same", "red")]
    assert tasks(await red.list_tasks(namespace="*")) == tasks(await both.list_tasks())
    assert tasks(await red.list_tasks(namespace="blue")) == [("same", "blue")]
    assert (await both.get_statistics())["queue_size"] == 3
    found = await both.groups.list()
    assert [(view.namespace, view.count) for view in found.items] == [("red", 2), ("blue", 1)]
    first = await both.groups.list(limit=1)
    second = await both.groups.list(limit=1, after=first.next)
    assert [view.namespace for view in (*first.items, *second.items)] == ["red", "blue"]
    assert letter.fingerprint is not None
    with pytest.raises(InvalidInput, match="several namespaces, blue, red: name one"):
        await both.groups.get(letter.fingerprint)
    with pytest.raises(InvalidInput, match="several namespaces, blue, red: name one"):
        await both.get_task("same")
    assert (await both.get_task("r")) is not None
    for act in (both.clear_all(), both.letters.resolve("r"), both.letters.retry_many(everything=True)):
        with pytest.raises(InvalidInput, match="means all namespaces"):
            await act
    with pytest.raises(InvalidInput, match="one namespace at a time"):
        await red.letters.retry_many(namespace=["red", "blue"])
    resolved = await red.in_namespace("blue").letters.resolve("same", by="ann")
    assert resolved.namespace == "blue"
    assert tasks(await red.list_tasks()) == [("r", "red"), ("same", "red")]
    assert [entry.actor for entry in (await blue.audit.list()).items] == ["ann"]


async def items_of_all_kinds(queue: DeadLetterQueue) -> None:
    """In a named queue: one that waits, is leased, is between two attempts, is done, and died."""
    await queue.queues.create("jobs", retry={"attempts": 3, "cooldown": "1h"})
    for what in ("dead", "tried", "done", "leased"):
        await queue.queues.produce("jobs", {"of": what})
        (lease,) = await queue.queues.lease("jobs", "worker")
        if what == "done":
            await queue.queues.complete("jobs", lease.item.id, lease.token)
        elif what != "leased":
            await queue.queues.retry("jobs", lease.item.id, lease.token, error="boom", dead=what == "dead")
    await queue.queues.produce("jobs", {"of": "waiting"})


async def test_of_items_only_what_died_is_seen_over_all_namespaces(opened: Open) -> None:
    red = opened("red")
    await capture(red, "r")
    before = await red.all_namespaces.get_statistics()
    await items_of_all_kinds(red)
    everything, both = {"dead", "tried", "done", "leased", "waiting"}, red.all_namespaces
    for seen in (await both.list_tasks(), await red.list_tasks(namespace="*"), await both.list_tasks(resolution=None)):
        assert {letter.task["of"] for letter in seen} == {"red", "dead"}
    assert [letter.task["of"] for letter in await red.list_tasks()] == ["red"]
    assert {letter.task["of"] for letter in await both.list_tasks(reason="queued")} == {"tried", "leased", "waiting"}
    inside = await red.list_tasks(namespace="red@jobs", resolution=None)
    assert {letter.task["of"] for letter in inside} == everything
    stats = await both.get_statistics()
    assert (stats["queue_size"], stats["status_breakdown"]["exhausted"], stats["status_breakdown"]["pending"]) == (
        2,
        1,
        1,
    )
    assert stats["lifetime_stats"]["enqueued_total"] == before["lifetime_stats"]["enqueued_total"] + 1
    assert stats["due_without_worker"] == before["due_without_worker"], "nobody is missing who runs what waits there"
    assert [view.count for view in (await both.groups.list()).items] == [1]
    assert {line["dlq_reason"] for line in await both.get_statistics_by_reason()} == {
        "workflow_failed",
        "queue_item_dead",
    }
    exported = [json.loads(line)["task"]["of"] async for line in both.transfer.export(resolution=None)]
    assert set(exported) == {"red", *everything}, "what is taken elsewhere is whole"
    assert (await both.get_task(inside[0].task_id, queue="jobs")) is not None, "who names one gets it"


async def test_a_letter_keeps_its_namespace_unless_another_is_named(opened: Open) -> None:
    red, blue = opened("red"), opened("blue")
    await capture(red, "same")
    documents = [json.loads(line) async for line in red.transfer.export()]
    assert (await blue.transfer.import_letters(documents)).taken
    assert await blue.list_tasks() == []
    assert list((await blue.transfer.import_letters(documents, namespace="blue")).taken.values()) == ["new"]
    assert list((await blue.transfer.import_letters(documents, namespace="blue")).taken.values()) == ["same"]
    assert tasks(await blue.list_tasks()) == [("same", "red")]
    (here,), (there,) = await blue.list_tasks(), await red.list_tasks()
    assert (here.namespace, there.namespace) == ("blue", "red")
    assert here.entry_id != there.entry_id


async def test_old_stores_have_everything_in_default(opened: Open) -> None:
    usual = opened("default")
    await capture(usual, "same")
    assert (await usual.get_task("same")) is not None
    assert await opened("red").list_tasks() == []
