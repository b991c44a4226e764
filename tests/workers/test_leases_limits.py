"""Limits of adapters: concurrency and rate, which all workers share through the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.dead_letter_queue import KINDS
from mahavishnu.model.errors import InvalidInput, PermissionDenied
from mahavishnu.model.permissions import Permission, Principal, Scope
from mahavishnu.stores.base import Store
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.testing import FaultyStore, ManualClock
from mahavishnu.workers.rules import AdapterLimit, Rate, grant
from tests.support.queues import until

LATER = timedelta(minutes=5)


class Lasting(MemoryStore):
    """A store that several apps share: one that is closed stays."""

    async def close(self) -> None:
        pass


class Office:
    """Two apps with a worker each over one store, and runs that hang until they are let go."""

    def __init__(self, make_store: Callable[[], Store] | None = None, **settings: Any) -> None:
        shared = Lasting()
        self.clock, self.settings = ManualClock(), settings
        self.make_store = make_store or (lambda: shared)
        self.running: set[str] = set()
        self.started: list[tuple[str, datetime]] = []
        self.most = 0
        self.go_on = asyncio.Event()
        self.apps = [self.app(), self.app()]

    def app(self, **limit: Any) -> MahavishnuApp:
        store = self.make_store()
        app = MahavishnuApp(MahavishnuSettings(dlq_store_url="memory:", **self.settings), store=store, clock=self.clock)

        async def charge(task: Any, repos: list[str]) -> None:
            self.started.append((task["name"], self.clock.now()))
            self.running.add(task["name"])
            self.most = max(self.most, len(self.running))
            try:
                await self.go_on.wait()
            finally:
                self.running.discard(task["name"])

        app.register_adapter("charge", charge, **limit)
        return app

    async def add(self, number: int) -> None:
        for each in range(number):
            name = f"c-{each}"
            await self.apps[0].dlq.enqueue(name, {"name": name}, [], "connection reset", "immediate", adapter="charge")

    async def pass_seconds(self, seconds: int, step: float = 1.0) -> None:
        """Advance the clock; after each step every worker may claim, run and settle: it answers at its own pace."""
        for _ in range(int(seconds / step)):
            self.clock.advance(step)
            for _ in range(30):
                await asyncio.gather(*(app.dlq.context.store.health() for app in self.apps))

    async def pass_until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        """Let up to five minutes pass: a store outside of the process answers after more turns than memory."""
        for _ in range(300):
            if await condition():
                return
            await self.pass_seconds(1)
        raise AssertionError("that has not come about")

    async def close(self) -> None:
        self.go_on.set()
        for app in self.apps:
            await app.dlq.shutdown()


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    made = Office()
    yield made
    await made.close()


@pytest.fixture(params=["memory", "sqlite", pytest.param("opensearch", marks=pytest.mark.opensearch)])
async def any_office(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Office]:
    """The same on each store; the workers share it, with a connection of their own where it is outside of a process."""
    make: Callable[[], Store] | None = None
    if request.param == "sqlite":
        make = lambda: SQLiteStore(tmp_path / "dlq.db", kinds=KINDS)  # noqa: E731
    elif request.param == "opensearch":
        url, prefix = (request.getfixturevalue(name) for name in ("opensearch_url", "opensearch_prefix"))
        make = lambda: OpenSearchStore(url, prefix=prefix, timeout=60, kinds=KINDS)  # noqa: E731
    made = Office(make)
    yield made
    await made.close()


async def test_no_more_letters_run_at_once_in_all_workers_than_the_limit_allows(any_office: Office) -> None:
    office = any_office
    limits = office.apps[0].dlq.adapter_limits

    async def has_run(number: int) -> bool:
        return len(office.started) == number

    async def holds_none() -> bool:
        (limit,) = await limits.list()
        return bool(limit.to_dict(office.clock.now())["held"] == 0)

    await limits.limit("charge", concurrency=3, by="ann")
    await office.add(20)
    for app in office.apps:
        await app.start_dlq_processor()
    await office.pass_until(lambda: has_run(3))
    await office.pass_seconds(10)
    assert office.most == 3
    await limits.limit("charge", concurrency=5, by="ann")
    await office.pass_until(lambda: has_run(5))
    await office.pass_seconds(4)
    office.go_on.set()
    await office.pass_until(lambda: has_run(20))
    assert office.most == 5
    await office.pass_until(holds_none)


async def test_the_rate_counts_for_all_workers_together(office: Office) -> None:
    await office.apps[0].dlq.adapter_limits.limit("charge", rate="30/min", by="ann")
    office.go_on.set()
    await office.add(60)
    for app in office.apps:
        await app.start_dlq_processor()
    await office.pass_seconds(30, 0.5)
    starts = [at for _, at in office.started]
    assert 13 <= len(starts) <= 16
    assert all(later - earlier >= timedelta(seconds=2) for earlier, later in pairwise(starts))
    await office.apps[1].dlq.adapter_limits.limit("charge", rate=None, by="ann")
    await office.pass_seconds(4)
    assert len(office.started) == 60


async def test_workers_elsewhere_share_a_rate(any_office: Office) -> None:
    office = any_office
    await office.apps[0].dlq.adapter_limits.limit("charge", rate="30/min", by="ann")
    await office.add(5)
    claimed: list[datetime] = []
    for step in range(60):
        claims = await office.apps[step % 2].dlq.claims.claim(f"far-{step % 2}", limit=5)
        claimed += [office.clock.now()] * len(claims)
        office.clock.advance(0.5)
    assert len(claimed) == 5
    assert all(later - earlier >= timedelta(seconds=2) for earlier, later in pairwise(claimed))


async def test_the_application_declares_and_a_person_decides(any_office: Office) -> None:
    office = any_office
    app = office.app(concurrency=2, rate="10/minute")
    office.apps.append(app)
    limits = app.dlq.adapter_limits

    async def is_set(*values: object) -> bool:
        return [(limit.concurrency, limit.rate, limit.set_by) for limit in await limits.list()] == [values]

    await app.start_dlq_processor()
    await office.pass_until(lambda: is_set(2, "10/min", "application"))
    await limits.limit("charge", concurrency=7, by="ann")
    await office.pass_seconds(5)
    assert await is_set(7, "10/min", "ann")
    await limits.reset("charge", by="ann")
    await office.pass_until(lambda: is_set(2, "10/min", "application"))


@pytest.mark.parametrize("known", [True, False])
async def test_limits_hold_while_the_shared_store_is_away(office: Office, known: bool) -> None:
    """Those that were read last, or what the application declares: in each process for its own letters."""
    home = FaultyStore(office.make_store())
    office.make_store = lambda: FallbackStore(home, Lasting(), kinds=KINDS, clock=office.clock)
    app = office.app(concurrency=2)
    office.apps.append(app)
    if known:
        await app.dlq.open()
        await app.dlq.adapter_limits.limit("charge", concurrency=1, by="ann")
        await app.dlq.run_due()
    home.faults.unavailable()
    for name in "abcd":
        await app.dlq.enqueue(name, {"name": name}, [], "connection reset", "immediate", adapter="charge")
    office.clock.advance(60)
    running = asyncio.create_task(app.dlq.run_due())
    await until(lambda: len(office.running) == (1 if known else 2))
    await office.pass_seconds(5)
    assert office.most == (1 if known else 2)
    office.go_on.set()
    await running
    home.faults.clear()
    await app.dlq.store.drain()  # type: ignore[attr-defined]
    await office.pass_seconds(3)
    await app.dlq.run_due()
    (limit,) = await app.dlq.adapter_limits.list()
    assert (limit.concurrency, limit.set_by) == ((1, "ann") if known else (2, "application"))


async def test_settings_declare_limits_too() -> None:
    office = Office(adapter_limits={"charge": {"concurrency": 4}})
    await office.apps[0].start_dlq_processor()
    await office.pass_seconds(1)
    (limit,) = await office.apps[0].dlq.adapter_limits.list()
    assert (limit.adapter, limit.concurrency, limit.rate) == ("charge", 4, None)
    for app in office.apps:
        await app.dlq.shutdown()


@pytest.mark.parametrize(
    "changes", [{"concurrency": 0}, {"concurrency": True}, {"rate": "fast"}, {"rate": "0/s"}, {"rate": "5/day"}]
)
async def test_a_limit_that_makes_no_sense_is_refused(office: Office, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        await office.apps[0].dlq.adapter_limits.limit("charge", by="ann", **changes)


@pytest.mark.parametrize(
    "who",
    [
        Principal("viewer", frozenset({Permission.VIEW})),
        Principal.of_role("other", "admin", Scope(adapters=frozenset({"refund"}))),
        Principal.of_role("queue", "admin", Scope(queues=frozenset({"default"}))),
        Principal.of_role("namespace", "admin", Scope(namespaces=frozenset({"eu"}))),
    ],
    ids=lambda who: who.name,
)
async def test_a_limit_is_set_by_who_may_edit_the_whole_namespace(office: Office, who: Principal) -> None:
    view = office.apps[0].dlq.for_actor(who)
    with pytest.raises(PermissionDenied):
        await view.adapter_limits.limit("charge", concurrency=1, by=who.name)
    with pytest.raises(PermissionDenied):
        await view.adapter_limits.reset("charge", by=who.name)
    assert await office.apps[0].dlq.adapter_limits.list() == []


def test_who_has_waited_longest_goes_first() -> None:
    at, limit = datetime(2030, 1, 1, tzinfo=UTC), AdapterLimit("charge", concurrency=1)
    got, limit = grant(limit, "a", 0, 5, at, at + LATER)
    assert got == 1
    got, limit = grant(limit, "b", 0, 5, at, at + LATER)
    assert got == 0
    at += timedelta(seconds=1)
    got, limit = grant(limit, "a", 0, 5, at, at + LATER)  # its run has ended, and the other has not waited for long
    assert got == 1
    at += timedelta(seconds=2)
    got, limit = grant(limit, "a", 0, 5, at, at + LATER)
    assert got == 0
    got, limit = grant(limit, "b", 0, 5, at, at + LATER)
    assert got == 1


def test_a_worker_that_died_keeps_its_places_until_its_leases_end() -> None:
    at, limit = datetime(2030, 1, 1, tzinfo=UTC), AdapterLimit("charge", concurrency=2)
    _, limit = grant(limit, "dead", 0, 2, at, at + LATER)
    assert grant(limit, "b", 0, 2, at + LATER - timedelta(seconds=1), at + 2 * LATER)[0] == 0
    assert grant(limit, "b", 0, 2, at + LATER, at + 2 * LATER)[0] == 2


@pytest.mark.parametrize("text", ["1/h", "7/s", "100/min", "90/s", "1000/s"])
def test_a_rate_is_not_exceeded_in_any_span_of_its_unit(text: str) -> None:
    rate, at, limit = Rate.read(text), datetime(2030, 1, 1, tzinfo=UTC), AdapterLimit("charge", rate=text)
    starts: list[datetime] = []
    for _ in range(3000):
        got, limit = grant(limit, "a", 0, 3000, at, at + LATER)
        starts += [at] * got
        assert limit.next_at is not None
        at = max(limit.next_at, at + timedelta(milliseconds=1))
    span = timedelta(seconds=rate.seconds)
    first = 0
    for place, start in enumerate(starts):
        while starts[first] <= start - span:
            first += 1
        assert place - first + 1 <= rate.runs
    assert len(starts) >= 0.93 * rate.runs * ((starts[-1] - starts[0]) / span)


def test_a_date_of_a_clock_that_was_wrong_does_not_stop_the_runs() -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    assert grant(AdapterLimit("charge", rate="1/s", next_at=at + timedelta(days=1)), "a", 0, 1, at, at + LATER)[0] == 1


async def test_workers_elsewhere_keep_to_the_limits_and_take_turns(any_office: Office) -> None:
    office = any_office
    dlq = office.apps[0].dlq
    await dlq.adapter_limits.limit("charge", concurrency=2, by="ann")
    await office.add(60)
    await dlq.enqueue("r", {"name": "r"}, [], "connection reset", "immediate", adapter="refund")
    claims = await dlq.claims.claim("far", limit=10)
    assert sorted(claim.letter.adapter or "" for claim in claims) == ["charge", "charge", "refund"]
    assert await dlq.claims.claim("farther", limit=10) == []
    done = next(claim for claim in claims if claim.letter.adapter == "charge")
    await dlq.claims.settle(done.letter.task_id, done.token, "succeeded")
    assert len(await dlq.claims.claim("far", limit=10)) == 1
    office.clock.advance(400)  # their leases are over, so are their places
    assert len(await office.apps[1].dlq.claims.claim("farther", limit=10, adapters=["charge"])) == 2


async def test_workers_elsewhere_find_what_full_pages_of_others_hide(office: Office) -> None:
    dlq = office.apps[0].dlq
    for name in ("charge", "drag"):
        for each in range(60):
            await dlq.enqueue(f"{name}-{each}", {}, [], "connection reset", "immediate", adapter=name)
    await dlq.enqueue("r", {}, [], "connection reset", "immediate", adapter="refund")
    claims = await dlq.claims.claim("far", limit=3)
    assert sorted(claim.letter.adapter or "" for claim in claims) == ["charge", "drag", "refund"]
