"""Who works on letters now."""

from __future__ import annotations

from datetime import timedelta

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model.letter_parts import NO_ADAPTER
from mahavishnu.model.query import Query
from mahavishnu.workers.records import WORKERS
from mahavishnu.workers.rules import Worker, count_by_adapter
from mahavishnu.workers.service import MOST_HELD, PATIENCE
from tests.support.queues import Gate, House, Runs, fill, letter_of, queue_of


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


class TestWaiting:
    """Letters that no live worker can run are counted, and named when they are due."""

    async def _letters(self, queue: DeadLetterQueue) -> None:
        for name, adapter, policy in (
            ("a", "invoice", "immediate"),
            ("b", "invoice", "exponential"),
            ("c", "mail", "immediate"),
            ("d", None, "immediate"),
            ("e", "never", "never"),
        ):
            await queue.enqueue(name, {}, [], "connection refused", policy, adapter=adapter)

    async def test_the_numbers_are_those_of_the_letters(self, any_house: House) -> None:
        queue = any_house.queue()
        await self._letters(queue)
        assert len(await queue.claims.claim("shell-1", limit=1)) == 1
        for seconds in (0, 16, 1, 60, 86_400):  # one of them is being run at first, and is overdue in the end
            any_house.clock.advance(seconds=seconds)
            numbers = await queue.workers.numbers()
            for name, overdue in (("waiting_for_worker", None), ("due_without_worker", PATIENCE)):
                letters = count_by_adapter(await queue.workers.waiting(overdue), NO_ADAPTER)
                assert dict(numbers[name]) == dict(letters), (seconds, name)
        assert dict(numbers["due_without_worker"]) == {"invoice": 2, "mail": 1, NO_ADAPTER: 1}

    async def test_they_are_reported_in_statistics_and_warnings(self, any_house: House) -> None:
        app = any_house.app()
        app.register_adapter("mail", gate := Gate())
        queue = queue_of(app)
        await self._letters(queue)
        stats = await queue.get_statistics()
        assert stats["waiting_for_worker"] == {"invoice": 2, "mail": 1, "(none)": 1}
        assert (stats["live_workers"], stats["due_without_worker"]) == (0, {})
        assert await queue.health_warnings() == [], "they are due for a moment only"
        any_house.clock.advance(seconds=20)
        assert [each for each in await queue.health_warnings() if "worker" in each] == [
            "WARNING: 3 letters are due, and no worker lives to run them: mahavishnu worker --app MODULE:NAME"
        ]
        await app.start_dlq_processor()
        await gate.reached()
        stats = await queue.get_statistics()
        assert stats["waiting_for_worker"] == {"invoice": 2, "(none)": 1}
        assert stats["live_workers"] == 1
        warnings = await queue.health_warnings(stats)
        assert "WARNING: 1 letter is due and waiting for a worker that has 'invoice'" in warnings
        assert any("--adapter NAME" in warning for warning in warnings)
        gate.open()

    async def test_those_that_are_overdue_are_counted_by_adapter(self, any_house: House) -> None:
        queue = any_house.queue()
        await self._letters(queue)
        found = []
        for seconds in (0, 20, 3600):  # none is overdue; some are; all are
            any_house.clock.advance(seconds=seconds)
            found.append((await queue.get_statistics())["due_without_worker"])
        assert found == [{}, {"invoice": 1, "mail": 1, "(none)": 1}, {"invoice": 2, "mail": 1, "(none)": 1}]

    async def test_a_letter_says_what_it_waits_for(self, any_house: House) -> None:
        app = any_house.app()
        app.register_adapter("mail", Runs())
        queue = queue_of(app)
        await self._letters(queue)
        await queue.processing.workers.heartbeat()
        said = {name: await queue.workers.why_waiting(await letter_of(queue, name)) for name in "abcde"}
        assert said["a"] == said["b"] == "waiting for a worker that has 'invoice'"
        assert said["d"] is not None and "--adapter NAME" in said["d"]
        assert (said["c"], said["e"]) == (None, None), "one has a worker, and one waits for a person"

    async def test_a_letter_that_is_being_run_waits_for_nobody(self, house: House) -> None:
        queue = house.queue()
        await queue.enqueue("a", {}, [], "connection refused", "immediate", adapter="invoice")
        await queue.claims.claim("shell", adapters=["mail"], limit=5)
        assert (await queue.get_statistics())["waiting_for_worker"] == {"invoice": 1}
        (claim,) = await queue.claims.claim("shell-2", lease_seconds=3600, adapters=["invoice"])
        house.clock.advance(minutes=6)  # it signs only when it claims
        assert (await queue.get_statistics())["waiting_for_worker"] == {}
        await queue.claims.settle("a", claim.token, "failed", error="connection refused")
        assert (await queue.get_statistics())["waiting_for_worker"] == {"invoice": 1}

    async def test_what_is_not_known_is_not_said(self, any_house: House) -> None:
        queue = any_house.queue()
        await self._letters(queue)
        now = any_house.clock.now()
        earlier = Worker("earlier", now, now)
        await queue.store.collection(WORKERS).write([earlier])
        stats = await queue.get_statistics()
        assert (stats["live_workers"], stats["waiting_for_worker"]) == (1, {})

    async def test_those_who_claim_from_elsewhere_sign_the_list(self, any_house: House) -> None:
        queue = any_house.queue()
        await self._letters(queue)
        await queue.claims.claim("shell", adapters=["invoice"])
        await queue.claims.claim("other", queue="mail")
        reports = {each.name: each.to_dict() for each in await queue.workers.list()}
        assert (reports["shell"]["adapters"], reports["shell"]["remote"], reports["shell"]["held"]) == (
            ["invoice"],
            True,
            1,
        )
        assert (reports["other"]["takes_all"], reports["other"]["queues"]) == (True, ["mail"])
        any_house.clock.advance(minutes=2)
        assert {each.name for each in await queue.workers.list()} == {"shell", "other"}
        assert set((await queue.get_statistics())["waiting_for_worker"]) == {"mail", "(none)"}
        own = any_house.queue(Runs(), owner="shell")
        await own.start_retry_processor()
        assert await own.processing.workers.others() == []
        assert [share.partitions for share in own.processing.workers.shares()] == [(range(256),)]

    async def test_a_name_that_a_worker_has_is_not_signed_by_another(self, any_house: House) -> None:
        queue = any_house.queue(Runs(), owner="mine")
        await queue.start_retry_processor(queue="mail")
        await queue.claims.claim("mine")
        (one,) = await queue.workers.list()
        assert (one.to_dict()["remote"], one.to_dict()["queues"]) == (False, ["mail"])

    async def test_a_worker_of_another_namespace_is_none_for_these(self, any_house: House) -> None:
        here, there = any_house.queue(), any_house.queue(Runs(), namespace="eu", owner="there")
        await there.start_retry_processor()
        await here.enqueue("a", {}, [], "connection refused", "exponential", adapter="invoice")
        await here.enqueue("b", {}, [], "connection refused", "exponential", adapter="invoice", namespace="eu")
        stats = await here.get_statistics()
        assert (stats["live_workers"], stats["waiting_for_worker"]) == (0, {"invoice": 1})
        await here.claims.claim("everywhere", namespace="*", adapters=["other"])
        assert (await here.get_statistics())["live_workers"] == 1
        letters = [await letter_of(here, "a"), await letter_of(here, "b", namespace="eu")]
        assert [bool(await here.workers.why_waiting(letter)) for letter in letters] == [True, False]
