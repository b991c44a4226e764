"""Several processes share the letters of one store: each is run once, whoever is killed or stopped."""

from __future__ import annotations

import random
import signal
from collections import Counter
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.core.dead_letter_queue import KINDS
from mahavishnu.model import lifecycle
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus
from mahavishnu.model.query import Between, Query
from mahavishnu.stores.base import Collection, Store, get_one, scan
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.urls import open_store
from mahavishnu.testing import make_letter
from mahavishnu.workers.records import WORKERS
from tests.support.node import CLOCK, diary, nodes, start, until

pytestmark = [pytest.mark.opensearch, pytest.mark.faults]


def due(task_id: str, do: str = "end", **changes: Any) -> DeadLetter:
    now = CLOCK.now()
    dates = {"created_at": now, "failed_at": now, "updated_at": now, "due_at": now - timedelta(seconds=1)}
    return make_letter(task_id=task_id, task={"do": do}, **{**dates, **changes})


async def statuses(collection: Collection[DeadLetter]) -> Counter[str]:
    tally = await collection.tally(Query(), ["status"])
    return Counter({str(values[0]): cell.count for values, cell in tally.cells.items()})


async def all_know_each_other(store: Store, count: int) -> None:
    """Every worker has looked at the list since the last one signed it."""
    everybody = Query((Between("seen_at", at_least=CLOCK.now()),))

    async def seen() -> bool:
        return (await store.collection(WORKERS).tally(everybody)).total.count == count

    await until(seen, 0.5)


PROVED_ON_OPENSEARCH = pytest.mark.parametrize(
    "url", [pytest.param("opensearch", marks=pytest.mark.prove), "sqlite"], indirect=True
)


@pytest.fixture(params=["opensearch", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/letters.db"
    address, prefix = request.getfixturevalue("opensearch_url"), request.getfixturevalue("opensearch_prefix")
    return f"{str(address).replace('http', 'opensearch', 1)}/{prefix}?timeout=10"


@PROVED_ON_OPENSEARCH
async def test_five_processes_run_a_thousand_letters_each_exactly_once(url: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with open_store(url, kinds=KINDS) as store:
        collection = store.collection(LETTERS)
        with nodes(5, url=url, log=str(log), limits={"lease_seconds": 60}) as workers:
            await all_know_each_other(store, 5)
            await collection.write([due(f"wf-{number}") for number in range(5_000)])
            await until(lambda: len(diary(log, "end")) >= 5_000)
            counts = [worker.finish() for worker in workers]
        assert await statuses(collection) == {"completed": 5_000}
    runs = Counter(task for task, _ in diary(log))
    assert len(runs) == 5_000
    assert set(runs.values()) == {1}
    assert all(count["claimed"] > 0 for count in counts), "everybody had something to do"
    conflicts, claims = (sum(count.get(name, 0) for count in counts) for name in ("conflicts", "claimed"))
    assert claims == 5_000
    assert conflicts < claims / 10


def _has_begun(log: Path, runs: int) -> bool:
    return len(diary(log)) >= runs


@PROVED_ON_OPENSEARCH
async def test_processes_that_are_killed_leave_nothing_behind(url: str, tmp_path: Path) -> None:
    log, kills, count = tmp_path / "log", 10, 1_500
    chance = random.Random(7)
    options: dict[str, Any] = {"url": url, "log": str(log), "limits": {"lease_seconds": 2.0, "concurrency": 1}}
    async with open_store(url, kinds=KINDS) as store:
        collection = store.collection(LETTERS)
        await collection.write([due(f"wf-{number}", max_retries=10) for number in range(count)])
        with nodes(3, **options) as workers:
            for kill in range(kills):
                await until(partial(_has_begun, log, (kill + 1) * count // (kills + 4)))
                await CLOCK.sleep(chance.random() / 20)
                victim = chance.randrange(len(workers))
                workers[victim].kill()
                workers[victim] = start(**options)
                workers[victim].ready()

            async def all_are_over() -> bool:
                return await statuses(collection) == {"completed": count}

            await until(all_are_over, 0.5)
            for worker in workers:
                worker.finish()
        found = [letter async for letter in scan(collection, Query())]
    runs = Counter(diary(log))
    assert len({task for task, _ in runs}) == count
    assert len(runs) == count, "a run that was repeated had the same idempotency key"
    assert sum(runs.values()) <= count + 20 * kills, "at most the runs whose outcomes may be unwritten, for each kill"
    for letter in found:
        assert lifecycle.violations(letter) == []
        assert letter.tallies.retry_success == 1
        assert letter.tallies.retry_failed == 0


@pytest.mark.prove
async def test_a_job_that_kills_its_process_is_isolated_and_the_others_go_on(url: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    options: dict[str, Any] = {"url": url, "log": str(log), "limits": {"lease_seconds": 1.0, "concurrency": 4}}
    async with open_store(url, kinds=KINDS) as store:
        collection = store.collection(LETTERS)
        poison = due("poison", "kill", priority=5, max_retries=1)
        await collection.write([poison, *(due(f"wf-{number}") for number in range(60))])
        worker = start(**options)
        lives = 1
        try:

            async def isolated() -> bool:
                nonlocal worker, lives
                if worker.process.poll() is not None:
                    worker.kill()
                    worker, lives = start(**options), lives + 1
                letter = await get_one(collection, "poison")
                return letter is not None and letter.status is DeadLetterStatus.EXHAUSTED

            await until(isolated)

            async def others_done() -> bool:
                return (await statuses(collection))["completed"] == 60

            await until(others_done)
        finally:
            worker.kill()
        letter = await get_one(collection, "poison")
    assert letter is not None
    assert lives == 4, "it killed three of them"
    assert letter.tallies.claims_recovered == 3
    assert "may kill its process" in letter.last_error
    assert len([task for task, _ in diary(log) if task == "poison"]) == 3


@pytest.mark.prove
async def test_the_outcome_of_a_process_that_was_suspended_is_refused(url: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    options: dict[str, Any] = {"url": url, "log": str(log), "limits": {"lease_seconds": 1.0}}
    async with open_store(url, kinds=KINDS) as store:
        collection = store.collection(LETTERS)
        with nodes(1, **options) as (sleeper,):
            await collection.write([due("wf-1", "stop")])
            await until(lambda: diary(log))
            with nodes(1, **{**options, "log": str(tmp_path / "other")}) as (other,):
                # The second one stops in the middle of the run too, and goes on before its lease is over.
                await until(lambda: diary(tmp_path / "other"))
                other.signal(signal.SIGCONT)

                async def completed() -> bool:
                    return await statuses(collection) == {"completed": 1}

                await until(completed)
                sleeper.signal(signal.SIGCONT)
                await until(lambda: diary(log, "end"))
                assert sleeper.finish().get("stale_claims", 0) == 1
                assert other.finish().get("succeeded", 0) == 1
        letter = await get_one(collection, "wf-1")
    assert letter is not None
    assert letter.tallies.retry_success == 1
    assert letter.tallies.claims_recovered == 1


@pytest.mark.prove
async def test_work_is_taken_over_from_a_process_that_left(url: str, tmp_path: Path) -> None:
    """The share of a worker that is gone, but was not told so, is not left lying."""
    log = tmp_path / "log"
    async with open_store(url, kinds=KINDS) as store:
        collection = store.collection(LETTERS)
        with nodes(2, url=url, log=str(log)) as workers:
            workers[0].kill()
            await collection.write([due(f"wf-{number}") for number in range(40)])
            await until(lambda: len(diary(log, "end")) >= 40)
            workers[1].finish()
        assert await statuses(collection) == {"completed": 40}
