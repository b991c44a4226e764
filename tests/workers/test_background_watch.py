"""Who lives is judged by signs that come or stay away, not by the clocks of other machines."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mahavishnu.model.errors import StoreUnavailable
from mahavishnu.model.ids import new_entry_id
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.testing import FaultyStore, ManualClock
from mahavishnu.workers.background import HEARTBEAT_SECONDS, WorkerRegistry, WorkerWatch
from mahavishnu.workers.records import WORKERS
from mahavishnu.workers.rules import LIVES_SECONDS
from tests.support.queues import House, Runs, fill

SKEW = timedelta(seconds=30)


class Machines:
    """One machine that looks, and another one whose clock differs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ahead: float) -> None:
        self.here, self.there = ManualClock(), ManualClock()
        self.there.set(self.there.now() + timedelta(seconds=ahead))
        self.store, self.monkeypatch = FaultyStore(MemoryStore()), monkeypatch
        self.watch = WorkerWatch(self.store.collection(WORKERS), self.here)
        self.worker = WorkerRegistry(self.store.collection(WORKERS), "there", self.there)

    async def signs(self) -> None:
        with self.monkeypatch.context() as patch:
            patch.setattr(new_entry_id, "mark", "0000c10c")
            await self.worker.heartbeat()

    async def pass_time(self, seconds: float) -> None:
        self.here.advance(seconds)
        self.there.advance(seconds)

    async def lives(self, watch: WorkerWatch | None = None) -> bool | None:
        watch = watch or self.watch
        listed = await watch.look()
        assert listed is not None
        return watch.is_alive(listed[0], SKEW)

    async def lives_at_first_sight(self) -> bool | None:
        return await self.lives(WorkerWatch(self.store.collection(WORKERS), self.here))


@pytest.mark.parametrize("ahead", [0, 20, -20, 3600, -3600])
async def test_who_watches_is_told_by_no_clock(monkeypatch: pytest.MonkeyPatch, ahead: float) -> None:
    machines = Machines(monkeypatch, ahead)
    for _ in range(5):
        await machines.signs()
        seen = await machines.lives()
        await machines.pass_time(HEARTBEAT_SECONDS)
    assert seen is True
    await machines.lives()
    await machines.pass_time(LIVES_SECONDS - HEARTBEAT_SECONDS - 1)
    assert await machines.lives() is not False
    await machines.pass_time(HEARTBEAT_SECONDS)
    assert await machines.lives() is False
    await machines.signs()
    assert await machines.lives() is not False, "its sign comes again"


@pytest.mark.parametrize(
    ("ahead", "age", "lives"),
    [
        (0, 0, True),
        (-16, 10, True),
        (-16, 31, False),
        (20, 0, True),
        (3600, 0, None),
        (3600, 600, None),
        (-3600, 0, False),
    ],
)
async def test_who_looks_once_allows_for_a_difference_and_says_what_it_does_not_know(
    monkeypatch: pytest.MonkeyPatch, ahead: float, age: float, lives: bool | None
) -> None:
    machines = Machines(monkeypatch, ahead)
    await machines.signs()
    await machines.pass_time(age)
    assert await machines.lives_at_first_sight() is lives


async def test_on_one_clock_the_date_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    machines = Machines(monkeypatch, 0)
    await machines.worker.heartbeat()
    await machines.pass_time(LIVES_SECONDS)
    assert await machines.lives_at_first_sight() is True
    await machines.pass_time(1)
    assert await machines.lives_at_first_sight() is False


async def test_who_looks_rarely_does_not_deny_a_sign_that_came(monkeypatch: pytest.MonkeyPatch) -> None:
    machines = Machines(monkeypatch, -3600)
    await machines.signs()
    await machines.lives()
    await machines.pass_time(60)
    await machines.signs()
    assert await machines.lives() is None


async def test_after_an_outage_nobody_is_called_dead_for_signs_that_could_not_be_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machines = Machines(monkeypatch, 0)
    await machines.signs()
    await machines.lives()
    with machines.store.faults.unavailable():
        await machines.pass_time(20)
        with pytest.raises(StoreUnavailable):
            await machines.watch.look()
    assert await machines.lives() is True, "by its clock, with the difference"


async def test_workers_with_other_clocks_share_and_lose_their_share(monkeypatch: pytest.MonkeyPatch) -> None:
    machines = Machines(monkeypatch, -3600)
    me = WorkerRegistry(machines.store.collection(WORKERS), "here", machines.here, skew=lambda: SKEW)
    for _ in range(3):
        await machines.signs()
        await me.heartbeat()
        await machines.pass_time(HEARTBEAT_SECONDS)
    assert me.live == ("here", "there")
    await machines.pass_time(LIVES_SECONDS)
    await me.heartbeat()
    assert list(me.live) == ["here"]


@pytest.mark.parametrize("seconds", [16, -16, -3600])
async def test_nobody_is_told_that_no_worker_lives_while_one_does(
    any_house: House, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    """A server with another clock: it watches the list, and the warning comes once the worker is gone."""
    there, server = any_house.queue(Runs("done"), owner="there"), any_house.queue()
    await fill(server, 1)
    any_house.clock.advance(60)

    async def sign() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(new_entry_id, "mark", "0000c10c")
            any_house.clock.set(any_house.clock.now() + timedelta(seconds=seconds))
            await there.processing.workers.heartbeat()
            any_house.clock.set(any_house.clock.now() - timedelta(seconds=seconds))

    await there.open()
    await sign()
    await server.context.part(WorkerWatch).look()
    any_house.clock.advance(HEARTBEAT_SECONDS)
    await sign()
    stats = await server.get_statistics()
    assert (stats["live_workers"], stats["due_without_worker"], stats["due_in_doubt"]) == (1, {}, {})
    any_house.clock.advance(LIVES_SECONDS + 1)
    (warning,) = await server.health_warnings()
    assert "1 letter is due, and no worker lives to run them" in warning


async def test_what_cannot_be_told_is_said_so(any_house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker whose clock was an hour ahead has signed once: whoever looks once cannot know whether it lives."""
    there, looking = any_house.queue(Runs("done"), owner="there"), any_house.queue()
    await fill(looking, 1)
    any_house.clock.advance(60)
    await there.open()
    with monkeypatch.context() as patch:
        patch.setattr(new_entry_id, "mark", "0000c10c")
        any_house.clock.set(any_house.clock.now() + timedelta(hours=1))
        await there.processing.workers.heartbeat()
        any_house.clock.set(any_house.clock.now() - timedelta(hours=1))
    stats = await looking.get_statistics()
    assert (stats["live_workers"], stats["due_without_worker"], len(stats["due_in_doubt"])) == (0, {}, 1)
    (warning,) = await looking.health_warnings(stats)
    assert "cannot be told" in warning
    (report,) = await looking.workers.list()
    assert (report.name, report.live) == ("there", None)


class TestOnce:
    """Runs of `worker --once` come and go; between them nobody lives, and nobody has to."""

    async def test_the_next_one_is_expected(self, any_house: House) -> None:
        looking = any_house.queue()
        for _ in range(2):
            run = await any_house.queue(Runs("done")).open()
            await run.processing.workers.sign_end()
            any_house.clock.advance(600)
        await fill(looking, 1)
        any_house.clock.advance(599)
        stats = await looking.get_statistics()
        assert (stats["live_workers"], stats["waiting_for_worker"], stats["due_without_worker"]) == (0, {}, {})
        assert await looking.health_warnings(stats) == []
        (line,) = [each.to_dict() for each in await looking.workers.list()]
        assert (line["ended"], line["live"]) == (True, False)
        any_house.clock.advance(40)
        assert any("no worker lives" in each for each in await looking.health_warnings())
        assert await looking.workers.list() == []

    async def test_it_has_no_share(self, any_house: House) -> None:
        run, other = any_house.queue(Runs()), any_house.queue(Runs(), owner="other")
        await run.open()
        await run.processing.workers.sign_end()
        await (await other.open()).processing.workers.heartbeat()
        assert other.processing.workers.live == ("other",)
