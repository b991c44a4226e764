"""Who works on letters now."""

from __future__ import annotations

from datetime import timedelta

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.core.queue.workers import MOST_HELD
from mahavishnu.model.query import Query
from mahavishnu.stores.kinds import WORKERS
from tests.unit.queues import Gate, House, Runs, fill


async def test_live_workers_say_what_they_run_and_hold(any_house: House) -> None:
    gate = Gate()
    busy, looking = any_house.queue(gate, owner="busy"), any_house.queue()
    await busy.start_retry_processor(queue="default")
    await looking.open()
    assert await looking.processing.workers.others() == ["busy"]
    await fill(busy, 30, retry_policy="immediate")
    await gate.reached(30)
    (one,) = await looking.workers.list()
    assert (one.name, one.live, one.held, len(one.holds)) == ("busy", True, 30, MOST_HELD)
    shown = one.to_dict()
    assert (shown["takes_all"], shown["adapters"], shown["queues"], shown["remote"]) == (True, None, ["default"], False)
    assert shown["seen_at"] == shown["started_at"] == "2026-01-01T00:00:00.000Z"
    assert isinstance(shown["pid"], int)
    gate.open()


async def test_a_worker_that_is_gone_is_listed_for_as_long_as_it_holds_letters(any_house: House) -> None:
    gate = Gate()
    gone, looking = any_house.queue(gate, owner="gone"), any_house.queue(Runs(), owner="looking")
    await gone.start_retry_processor()
    await fill(gone, 2, retry_policy="immediate")
    await gate.reached(2)
    any_house.kill(gone)
    any_house.clock.advance(timedelta(seconds=20))
    await looking.open()
    await looking.processing.workers.heartbeat()
    assert [(each.name, each.live, each.held) for each in await looking.workers.list()] == [
        ("looking", True, 0),
        ("gone", False, 2),
    ]
    gate.open()


async def test_who_claims_letters_without_signing_the_list_is_on_it_while_it_holds_some(house: House) -> None:
    queue = house.queue()
    await fill(queue, 3, retry_policy="immediate")
    await queue.claims.claim("shell-1", limit=2)
    reports = await queue.workers.list()
    assert [(each.name, each.held) for each in reports] == [("shell-1", 2)]
    assert sorted(reports[0].holds) == ["wf_00000", "wf_00001"]


async def test_a_worker_that_ends_is_not_listed(any_house: House) -> None:
    queue: DeadLetterQueue = any_house.queue(Runs())
    await queue.start_retry_processor()
    assert len(await queue.workers.list()) == 1
    await queue.stop_retry_processor()
    assert await queue.workers.list() == []
    assert (await queue.store.collection(WORKERS).tally(Query())).total.count == 0
