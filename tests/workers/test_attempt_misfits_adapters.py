"""A worker takes only what it can run: letters of other adapters are not touched."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.ids import PARTITIONS, partition_of
from mahavishnu.model.letter_parts import RetryPolicy
from tests.support.queues import House, Runs, letter_of, queue_of, settle, until


def app_with(house: House, *names: str) -> tuple[MahavishnuApp, Runs]:
    app, runs = house.app(), Runs()
    for name in names:
        app.register_adapter(name, runs)
    return app, runs


async def fails(queue: DeadLetterQueue, task_id: str, adapter: str | None, **more: Any) -> None:
    await queue.enqueue(task_id, {"n": task_id}, [], "reset", RetryPolicy.IMMEDIATE, adapter=adapter, **more)


async def attempts(queue: DeadLetterQueue, *task_ids: str) -> list[int]:
    return [(await letter_of(queue, task_id)).total_attempts for task_id in task_ids]


async def test_letters_of_other_apps_are_not_touched(any_house: House) -> None:
    app, runs = app_with(any_house, "mine")
    queue = queue_of(app)
    for name in ("mine", "theirs", None):
        await fails(queue, str(name), name)
    assert await queue.run_due() == 1
    assert runs.tasks == [{"n": "mine"}]
    assert await attempts(queue, "mine", "theirs", "None") == [1, 0, 0]
    other, others = app_with(any_house, "theirs")
    assert await queue_of(other).run_due() == 1
    assert others.tasks == [{"n": "theirs"}]


@pytest.mark.parametrize("how", ["start", "option"])
async def test_a_callback_of_ones_own_takes_whatever_comes(any_house: House, how: str) -> None:
    runs = Runs()
    if how == "option":
        queue = any_house.queue(runs)
    else:
        app, _ = app_with(any_house, "mine")
        queue = queue_of(app)
        await app.start_dlq_processor(runs)
    for name in ("mine", "theirs", None):
        await fails(queue, str(name), name)
    await queue.run_due()
    await until(lambda: len(runs.calls) == 3)


async def test_a_thousand_letters_of_others_starve_nobody(any_house: House) -> None:
    app, runs = app_with(any_house, "mine")
    queue = queue_of(app)
    for number in range(1000):
        await fails(queue, f"other-{number}", "theirs", priority=5)
    any_house.clock.advance(1)
    await fails(queue, "mine", "mine")
    assert await queue.run_due() == 1
    assert runs.tasks == [{"n": "mine"}]


@pytest.mark.parametrize("how", ["registered", "in a thread", "decorated"])
async def test_an_adapter_that_comes_later_counts_at_once(any_house: House, how: str) -> None:
    app, runs = app_with(any_house)
    await app.start_dlq_processor()
    await fails(queue_of(app), "late", "late")
    await settle()
    assert await attempts(queue_of(app), "late") == [0]
    if how == "registered":
        app.register_adapter("late", runs)
    elif how == "in a thread":
        await asyncio.to_thread(app.register_adapter, "late", runs)
    else:

        @app.workflow("late")
        async def late(task: Any, repos: list[str]) -> None:
            await runs(task, repos)

    await until(lambda: runs.tasks == [{"n": "late"}])
    (worker,) = await queue_of(app).workers.list()
    await until(lambda: queue_of(app).processing.workers.me.adapters == ("late",))
    assert worker.worker is not None and not worker.worker.takes_all


@pytest.mark.parametrize(("adapter", "why"), [("theirs", "no adapter 'theirs'"), (None, "names no adapter")])
async def test_a_retry_by_hand_of_what_cannot_run_here_costs_nothing(
    any_house: House, adapter: str | None, why: str
) -> None:
    app, _ = app_with(any_house, "mine")
    queue = queue_of(app)
    await fails(queue, "wf_1", adapter)
    before = await letter_of(queue, "wf_1")
    for force in (False, True):
        answer = await queue.retry_task("wf_1", force=force)
        assert (answer["success"], why in answer["error"]) == (False, True)
    assert await letter_of(queue, "wf_1") == before


async def test_no_letter_waits_in_the_share_of_a_worker_that_cannot_run_it(house: House) -> None:
    (both, ran), (one, _) = app_with(house, "x", "y"), app_with(house, "x")
    for app in (both, one):
        await app.start_dlq_processor()
    for app in (both, one):
        await queue_of(app).processing.workers.heartbeat()
    shares = {share.adapters: share.partitions for share in queue_of(both).processing.workers.shares()}
    assert shares["y",] == (range(PARTITIONS),)
    mine = shares["x",][0]
    await one.stop_dlq_processor()  # from here on it would leave its share lying
    theirs = [f"y-{n}" for n in range(50) if partition_of(f"y-{n}") not in mine]
    for name in theirs:
        await fails(queue_of(both), name, "y")
    await until(lambda: len(ran.calls) == len(theirs))


async def test_claims_take_letters_of_the_adapters_that_are_asked_for(any_house: House) -> None:
    queue = any_house.queue()
    for name in ("a", "b", "c", None):
        await fails(queue, str(name), name)

    async def claimed(**asked: Any) -> list[str]:
        return sorted(claim.letter.task_id for claim in await queue.claims.claim("w", limit=10, **asked))

    assert await claimed(adapters=["a", "b"]) == ["a", "b"]
    assert await claimed(adapters=["d"]) == []
    assert await claimed() == ["None", "c"]


@pytest.mark.parametrize("odd", ["a", [], [""], [1], 5])
async def test_claims_refuse_what_names_no_adapters(house: House, odd: Any) -> None:
    with pytest.raises(InvalidInput, match="adapters"):
        await house.queue().claims.claim("w", adapters=odd)
