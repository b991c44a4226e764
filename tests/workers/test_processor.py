"""The processor runs each due letter once, whatever happens around it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from mahavishnu.capture.adapters import current_attempt
from mahavishnu.capture.dependencies import blocked_by
from mahavishnu.capture.runner import failure_in_result
from mahavishnu.classify.assess import Assessment
from mahavishnu.classify.verdict import Verdict
from mahavishnu.engine.context import Limits, QueueContext, QueueOptions
from mahavishnu.model import lifecycle
from mahavishnu.model.events import Event, EventName
from mahavishnu.model.ids import partition_of
from mahavishnu.model.letter import DeadLetter, evolve
from mahavishnu.model.letter_parts import NO_ADAPTER, ErrorCategory, Failure
from mahavishnu.model.lifecycle import MAX_RECOVERIES
from mahavishnu.stores.base import Collection, get_one, write_one
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.testing import FaultyStore, ManualClock, make_letter, turn
from mahavishnu.workers.processor import Processor
from mahavishnu.workers.rules import Share
from tests.support.queues import Gate, Runs, until


async def assess(error: BaseException | str, at: datetime, letter: DeadLetter) -> Assessment:
    failure = Failure(at, str(error), type(error).__name__, "network")
    return Assessment(failure, Verdict(ErrorCategory.NETWORK, "the test says so", "test"))


class House:
    """A processor over letters in memory, with a clock that is moved by hand."""

    def __init__(self, callback: Callable[[Any, list[str]], Any], **limits: Any) -> None:
        self.clock = ManualClock()
        self.store = FaultyStore(MemoryStore())
        self.events: list[Event] = []
        self.letters: Collection[DeadLetter] = self.store.collection(LETTERS)
        self.context = self.context_of("me", **limits)
        self.context.events.subscribe(self.events.append)
        self.processor = Processor(self.context, callback, assess=assess)

    def context_of(self, owner: str, **limits: Any) -> QueueContext:
        options = QueueOptions(owner=owner, limits=Limits(**{"interval_seconds": 10, **limits}))
        return QueueContext(self.store, self.clock, options=options)

    async def has(self, *letters: DeadLetter) -> None:
        for letter in letters:
            assert await write_one(self.letters, letter) is not None

    async def current(self, key: str) -> DeadLetter:
        letter = await get_one(self.letters, key)
        assert letter is not None
        return letter

    def told(self) -> list[str]:
        return [event.name.value for event in self.events]


def succeed(task: Any, repos: list[str]) -> dict[str, str]:
    return {"status": "completed"}


async def test_an_always_failing_task_runs_after_1_2_and_4_minutes_and_is_exhausted() -> None:
    runs: list[timedelta] = []

    async def fail(task: Any, repos: list[str]) -> None:
        runs.append(house.clock.now() - start)
        raise ConnectionError("down")

    house = House(fail)
    start = house.clock.now()
    await house.has(lifecycle.new_letter(make_letter(task_id="a", due_at=None)))
    house.processor.start()
    for _ in range(180):
        await house.clock.sleeping(2)
        house.clock.advance(10)
    await house.processor.stop()
    assert [round(run / timedelta(minutes=1)) for run in runs] == [1, 3, 7]
    letter = await house.current("a")
    assert (letter.status, letter.retry_count, letter.total_attempts) == ("exhausted", 3, 3)
    assert house.told().count(EventName.EXHAUSTED) == 1


@pytest.mark.parametrize("answer", [{"status": "failed", "error": "boom"}, {"success": False, "error": "boom"}])
async def test_a_result_that_says_failed_is_a_failure(answer: dict[str, Any]) -> None:
    house = House(lambda task, repos: answer)
    await house.has(make_letter(task_id="a"))
    await house.processor.cycle()
    letter = await house.current("a")
    assert (letter.status, letter.retry_count, letter.last_error) == ("pending", 1, "boom")
    assert letter.failures[-1].processor == "me"


@pytest.mark.parametrize("answer", [None, "failed", {"status": "completed"}, {"success": True}, {}])
def test_other_results_are_no_failure(answer: Any) -> None:
    assert failure_in_result(answer) is None


async def test_each_due_letter_is_run_once_and_the_others_wait() -> None:
    seen: list[str] = []

    async def note(task: Any, repos: list[str]) -> None:
        seen.append(task["name"])

    house = House(note, concurrency=7)
    await house.has(*(make_letter(task={"name": f"due-{n}"}) for n in range(200)))
    later = house.clock.now() + timedelta(hours=1)
    await house.has(make_letter(task={"name": "later"}, due_at=later), make_letter(task={"name": "never"}, due_at=None))
    assert await house.processor.cycle() == 200
    assert sorted(seen) == sorted(f"due-{n}" for n in range(200))


async def test_a_hanging_run_does_not_hold_up_the_others() -> None:
    hangs, done = asyncio.Event(), asyncio.Event()
    finished = 0

    async def run(task: Any, repos: list[str]) -> None:
        nonlocal finished
        if task["name"] == "hangs":
            await hangs.wait()
        finished += 1
        if finished == 100:
            done.set()

    house = House(run, concurrency=5)
    await house.has(make_letter(task={"name": "hangs"}, priority=5))
    await house.has(*(make_letter(task={"name": f"{n}"}) for n in range(100)))
    house.processor.start()
    await done.wait()
    hangs.set()
    await house.processor.stop()
    assert finished == 101


async def test_two_processors_run_each_letter_once() -> None:
    runs: list[str] = []

    async def note(task: Any, repos: list[str]) -> None:
        runs.append(task["name"])

    house = House(note)
    other = Processor(house.context_of("other"), note, assess=assess)
    await house.has(*(make_letter(task={"name": f"{n}"}) for n in range(300)))
    await asyncio.gather(house.processor.cycle(), other.cycle())
    assert sorted(runs) == sorted(f"{n}" for n in range(300))


async def test_a_claim_that_is_not_written_is_not_run() -> None:
    ran = []
    house = House(lambda task, repos: ran.append(task))
    await house.has(make_letter(task_id="a"))
    house.store.faults.conflict("write", times=3)
    await house.processor.cycle()
    assert ran == []
    await house.processor.cycle()
    assert len(ran) == 1


async def test_a_processor_that_lost_all_claims_looks_again_before_it_rests() -> None:
    ran: list[Any] = []
    house = House(lambda task, repos: ran.append(task), concurrency=1)  # it claims one at a time
    await house.has(*(make_letter(task_id=f"{number}") for number in range(6)))
    house.store.faults.conflict("write", times=1)
    await house.processor.cycle()
    assert len(ran) == 6
    assert house.processor.counts["conflicts"] == 1


async def test_overdue_letters_of_other_shares_are_taken_share_by_share() -> None:
    ran: list[str] = []

    async def note(task: Any, repos: list[str]) -> None:
        ran.append(task["id"])

    house = House(note)
    shares = [Share(None, (range(64, 128), range(128, 256), range(64)))]
    helper = Processor(house.context_of("helper"), note, shares=lambda: shares, assess=assess)
    now = house.clock.now()
    lying = [make_letter(task_id=f"old-{n}", task={"id": f"old-{n}"}, due_at=now) for n in range(500)]
    await house.has(*lying)
    house.clock.advance(timedelta(seconds=10))
    fresh = [make_letter(task_id=f"new-{n}", task={"id": f"new-{n}"}, due_at=house.clock.now()) for n in range(100)]
    await house.has(*fresh)
    await helper.cycle()
    mine = [each.task_id for each in fresh if partition_of(each.key) in range(64, 128)]
    assert sorted(ran) == sorted([*(each.task_id for each in lying), *mine])
    order = [partition_of(name) // 64 for name in ran if name.startswith("old")]
    assert order.index(0) > max(place for place, share in enumerate(order) if share == 1)
    assert order.index(0) > max(place for place, share in enumerate(order) if share in (2, 3))


async def test_an_open_circuit_costs_no_budget_and_half_open_probes_once() -> None:
    calls = 0

    async def down(task: Any, repos: list[str]) -> None:
        nonlocal calls
        calls += 1
        raise ConnectionError("down")

    house = House(down)
    for _ in range(5):
        house.context.breakers.record_failure(NO_ADAPTER, "network", house.clock.monotonic())
    await house.has(*(make_letter(task_id=f"t{n}") for n in range(100)))
    for _ in range(5):
        await house.processor.cycle()
        house.clock.advance(10)
    assert calls == 0
    assert {(await house.current(f"t{n}")).total_attempts for n in range(100)} == {0}
    house.clock.advance(60)
    await house.processor.cycle()
    assert calls == 1


async def test_letters_of_an_open_circuit_are_left_alone_until_its_probe_and_run_right_after_it() -> None:
    async def well(task: Any, repos: list[str]) -> None: ...

    house = House(well, interval_seconds=3600)
    for _ in range(5):
        house.context.breakers.record_failure(NO_ADAPTER, "network", house.clock.monotonic())
    await house.has(*(make_letter(task_id=f"t{n}") for n in range(3)))
    house.processor.start()
    writes: list[Any] = []

    async def note(call: Any) -> None:
        writes.append(call)

    house.store.faults.before("write", note, kind=LETTERS)
    for _ in range(59):
        await house.clock.sleeping(2)
        house.clock.advance(1)
    await house.clock.sleeping(2)
    assert writes == []
    house.clock.advance(1)  # now the circuit is half open
    await until(lambda: house.told().count(EventName.RETRY_SUCCEEDED) == 3)
    assert EventName.RELEASED not in house.told()
    assert len(writes) <= 2 * 3
    await house.processor.stop()


def named(adapter: str, number: int) -> DeadLetter:
    return make_letter(task_id=f"{adapter}-{number}", task={"name": f"{adapter}-{number}"}, adapter=adapter)


class Target:
    """Targets by the names of tasks: those that begin with `slow` hang until the test ends."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.end = asyncio.Event()

    async def __call__(self, task: Any, repos: list[str]) -> None:
        self.started.append(task["name"])
        if task["name"].startswith("slow"):
            await self.end.wait()

    def of(self, adapter: str) -> list[str]:
        return [name for name in self.started if name.startswith(adapter)]


@pytest.mark.parametrize("later", [False, True], ids=["before", "later"])
@pytest.mark.parametrize("adapters", [("slow", "slower", "quick"), None], ids=["named", "any"])
async def test_quick_letters_behind_many_of_targets_that_hang_start_soon(
    adapters: tuple[str, ...] | None, later: bool
) -> None:
    house = House(target := Target(), concurrency=20, interval_seconds=3600, grace_seconds=0)
    house.processor = Processor(house.context, target, shares=lambda: [Share(adapters)], assess=assess)
    quick = [named("quick", number) for number in range(10)]
    await house.has(*(named(name, number) for name in ("slow", "slower") for number in range(2100)))
    if not later:
        await house.has(*quick)
    house.processor.start()
    await until(lambda: len(target.started) >= 18)
    if later:
        await house.has(*quick)
    for _ in range(3):
        await house.clock.sleeping(2)
        house.clock.advance(1)
    await until(lambda: len(target.of("quick")) == 10)
    assert len(target.of("slow-")) < 18
    assert target.of("slower")
    target.end.set()
    await house.processor.stop()


async def test_a_letter_that_another_process_has_redriven_is_run_within_two_seconds() -> None:
    house = House(ran := Runs(), interval_seconds=3600)
    await house.has(make_letter(task_id="a", due_at=None))
    house.processor.start()
    for _ in range(100):
        await house.clock.sleeping(2)
        house.clock.advance(1)
    assert ran.calls == []
    now = house.clock.now()
    await house.has(evolve(await house.current("a"), due_at=now, updated_at=now))
    for _ in range(2):
        await house.clock.sleeping(2)
        house.clock.advance(1)
    await until(lambda: ran.calls)
    await house.processor.stop()


async def test_dates_of_letters_that_others_capture_are_kept() -> None:
    house = House(ran := Runs(), interval_seconds=60)
    house.processor.start()
    await house.clock.sleeping(2)
    now = house.clock.now()
    dates = [now + timedelta(seconds=seconds) for seconds in (7, 9, 11)]
    await house.has(*(make_letter(task_id=f"{at}", due_at=at, updated_at=now) for at in dates))
    for _ in range(12):
        await house.clock.sleeping(2)
        house.clock.advance(1)
    await until(lambda: len(ran.calls) == 3)
    await house.processor.stop()


async def test_a_letter_that_becomes_due_during_a_look_is_not_missed() -> None:
    house = House(ran := Runs(), interval_seconds=3600)
    due = house.clock.now() + timedelta(seconds=5)
    await house.has(make_letter(task_id="a", due_at=due))
    house.processor.wake(due)
    looking = house.store.faults.hold("find", after=True)
    house.processor.start()
    await looking.wait_for_call()
    house.clock.advance(10)
    looking.release()
    await until(lambda: ran.calls)
    await house.processor.stop()


async def test_a_letter_that_is_due_while_all_places_are_taken_runs_when_one_is_free() -> None:
    house = House(gate := Gate(), interval_seconds=3600, concurrency=1)
    await house.has(make_letter(task_id="a"))
    house.processor.start()
    await gate.reached(1)
    for name in ("b", "c", "d"):
        await house.has(make_letter(task_id=name))
        house.processor.wake()
        for _ in range(20):  # until it rests again
            await turn()
    gate.open()
    await until(lambda: len(gate.under_way) == 4)
    await house.processor.stop()


async def test_a_probe_that_raises_lets_another_letter_probe() -> None:
    async def stumbles(error: BaseException | str, at: datetime, letter: DeadLetter) -> Assessment:
        raise RuntimeError("an assessor must not raise")

    async def down(task: Any, repos: list[str]) -> None:
        raise ConnectionError("down")

    house = House(down)
    for _ in range(5):
        house.context.breakers.record_failure(NO_ADAPTER, "network", house.clock.monotonic())
    house.clock.advance(60)
    await house.has(make_letter(task_id="a"))
    house.processor.attempts.assess = stumbles
    await house.processor.cycle()
    assert house.context.breakers.acquire(NO_ADAPTER, house.clock.monotonic()) is None


async def test_a_base_exception_is_a_failure_too() -> None:
    class Outcome(BaseException):
        """As pytest's `fail` raises it."""

    async def fails(task: Any, repos: list[str]) -> None:
        raise Outcome("no")

    house = House(fails)
    await house.has(make_letter(task_id="a"))
    await house.processor.cycle()
    letter = await house.current("a")
    assert (letter.status, letter.last_error, letter.retry_count) == ("pending", "no", 1)


async def test_stop_releases_unfinished_runs_and_refunds_their_attempts() -> None:
    began = asyncio.Event()

    async def hang(task: Any, repos: list[str]) -> None:
        began.set()
        await asyncio.Event().wait()

    house = House(hang, grace_seconds=0)
    await house.has(make_letter(task_id="a"))
    house.processor.start()
    await began.wait()
    await house.processor.stop()
    letter = await house.current("a")
    assert (letter.status, letter.total_attempts, letter.lease) == ("pending", 0, None)


async def test_the_outcome_is_written_despite_a_short_outage_and_an_edit() -> None:
    async def run(task: Any, repos: list[str]) -> None:
        letter = await house.current("a")
        merged = lifecycle.merge(letter, Failure(house.clock.now(), "again"), house.clock.now())
        assert await write_one(house.letters, merged) is not None
        house.store.faults.unavailable("write", times=2)

    house = House(run)
    await house.has(make_letter(task_id="a"))
    cycle = asyncio.create_task(house.processor.cycle())
    for _ in range(2):
        await house.clock.sleeping(2)  # the lease is watched too
        house.clock.advance(5)
    await cycle
    letter = await house.current("a")
    assert (letter.status, letter.occurrences, letter.tallies.retry_success) == ("pending", 2, 1)


async def test_an_outcome_written_without_an_answer_is_not_stale() -> None:
    async def run(task: Any, repos: list[str]) -> None:
        house.store.faults.answer_lost("write", times=1)

    house = House(run)
    await house.has(make_letter(task_id="a"))
    cycle = asyncio.create_task(house.processor.cycle())
    await house.clock.sleeping(2)  # the lease is watched too
    house.clock.advance(5)
    await cycle
    assert (await house.current("a")).status == "completed"
    assert house.told() == [EventName.RETRY_STARTED, EventName.RETRY_SUCCEEDED]


async def test_a_cancelled_stop_leaves_no_unknown_claim() -> None:
    house = House(Gate(), grace_seconds=0)
    await house.has(make_letter(task_id="a"))
    claiming = house.store.faults.hold("write", after=True)
    house.processor.start()
    await claiming.wait_for_call()
    stopping = asyncio.create_task(house.processor.stop())
    await turn()
    stopping.cancel()
    await asyncio.wait({stopping})
    claiming.release()
    await house.processor.stop()
    letter = await house.current("a")
    assert (letter.status, letter.total_attempts) == ("pending", 0)


async def test_suspects_run_one_at_a_time_at_their_last_chance() -> None:
    house = House(gate := Gate())
    now = house.clock.now()
    for name in ("a", "b"):
        taken = lifecycle.claim(
            make_letter(task_id=name), owner="dead", token=name, until=now + timedelta(minutes=5), now=now
        )
        await house.has(evolve(taken, recoveries=MAX_RECOVERIES - 2))
    await house.has(make_letter(task_id="c"))
    house.clock.advance(hours=2)
    house.processor.start()
    await gate.reached(2)
    for _ in range(50):
        await turn()
    assert len(gate.under_way) == 2  # one of them, and what nobody suspects
    gate.open()
    await until(lambda: house.told().count(EventName.RETRY_SUCCEEDED) == 3)
    await house.processor.stop()


async def test_a_running_letter_whose_lease_was_not_renewed_is_not_claimed_again() -> None:
    house = House(gate := Gate())
    await house.has(make_letter(task_id="a"))
    house.processor.start()
    await gate.reached(1)
    with house.store.faults.unavailable("write"):
        for _ in range(8):
            await house.clock.sleeping(2)
            house.clock.advance(50)
        await house.clock.sleeping(2)
    house.processor.wake()
    for _ in range(50):
        await turn()
    assert len(gate.under_way) == 1
    gate.open()
    await until(lambda: EventName.RETRY_SUCCEEDED in house.told())
    await house.processor.stop()


async def test_a_late_outcome_is_refused() -> None:
    async def slow(task: Any, repos: list[str]) -> None:
        house.clock.advance(400)  # the lease of 300 seconds is over, and somebody else is quicker
        letter = await house.current("a")
        now = house.clock.now()
        taken = lifecycle.claim(letter, owner="b", token="b", until=now + timedelta(minutes=5), now=now)
        stored = await write_one(house.letters, taken)
        assert stored is not None
        await write_one(house.letters, lifecycle.succeed(stored, token="b", now=now))

    house = House(slow)
    await house.has(make_letter(task_id="a"))
    await house.processor.cycle()
    assert house.processor.counts["stale_claims"] == 1
    assert EventName.STALE_CLAIM in house.told()
    letter = await house.current("a")
    assert (letter.status, letter.tallies.retry_success) == ("completed", 1)


async def test_a_run_sees_its_attempt_and_the_idempotency_key_changes_only_with_outcomes() -> None:
    keys: list[tuple[str, str]] = []

    async def look(task: Any, repos: list[str]) -> None:
        attempt = current_attempt.get()
        assert attempt is not None
        keys.append((attempt.idempotency_key, attempt.attempt_id))
        raise ConnectionError("down")

    house = House(look)
    await house.has(make_letter(task_id="a"))
    await house.processor.cycle()
    house.clock.advance(3600)
    await house.processor.cycle()
    assert len({key for key, _ in keys}) == len({attempt for _, attempt in keys}) == 2
    assert current_attempt.get() is None


async def test_a_letter_waits_for_its_dependencies() -> None:
    runs: list[str] = []
    house = House(lambda task, repos: runs.append(task["name"]))
    await house.has(make_letter(task_id="a", task={"name": "a"}, due_at=None))
    await house.has(make_letter(task_id="b", task={"name": "b"}, depends_on=("a",)))
    await house.processor.cycle()
    assert runs == []
    assert await blocked_by(house.letters, await house.current("b")) == ["a"]
    await write_one(house.letters, lifecycle.redrive(await house.current("a"), now=house.clock.now()))
    await house.processor.cycle()
    house.clock.advance(60)
    await house.processor.cycle()
    assert runs == ["a", "b"]


async def test_a_sync_callback_does_not_block_the_loop_and_a_time_limit_is_a_failure() -> None:
    house = House(succeed)
    await house.has(make_letter(task_id="a"))
    await house.processor.cycle()
    assert (await house.current("a")).status == "completed"


async def test_leases_are_renewed_while_a_run_lasts() -> None:
    ends, began = asyncio.Event(), asyncio.Event()

    async def long(task: Any, repos: list[str]) -> None:
        began.set()
        await ends.wait()

    house = House(long)
    await house.has(make_letter(task_id="a"))
    house.processor.start()
    await began.wait()
    for _ in range(20):
        await house.clock.sleeping(2)
        house.clock.advance(50)
    await house.clock.sleeping(2)
    letter = await house.current("a")
    assert letter.due_at is not None
    assert letter.due_at > house.clock.now()
    ends.set()
    await house.processor.stop()
    assert (await house.current("a")).status == "completed"


@pytest.mark.parametrize("taken", [False, True])
async def test_a_letter_whose_lease_ended_before_its_run_is_run_unless_another_worker_took_it(taken: bool) -> None:
    runs: list[str] = []
    first_two_claimed, go_on = asyncio.Event(), asyncio.Event()

    async def note(task: Any, repos: list[str]) -> None:
        runs.append(task)
        if task == "long":  # letters succeed quickly, so by then the next letter is leased, and waits for its place
            first_two_claimed.set()
            await go_on.wait()

    house = House(note, concurrency=1)
    order = enumerate(["short", "brief", "long", "waits"])
    await house.has(*(make_letter(task_id=name, task=name, priority=-number) for number, name in order))
    cycle = asyncio.create_task(house.processor.cycle())
    await first_two_claimed.wait()
    await until(lambda: len(house.processor.leases) == 2)
    house.store.faults.unavailable()  # the leases are not renewed, as in a process that is suspended
    house.clock.advance(400)
    await turn()
    house.store.faults.clear()
    if taken:
        now, letter = house.clock.now(), await house.current("waits")
        claim = lifecycle.claim(letter, owner="other", token="x", until=now + timedelta(minutes=5), now=now)
        claimed = await write_one(house.letters, claim)
        assert claimed is not None
        assert await write_one(house.letters, lifecycle.succeed(claimed, token="x", now=now)) is not None
    go_on.set()
    await cycle
    assert runs == ["short", "brief", "long", *([] if taken else ["waits"])]
    assert (await house.current("waits")).status == "completed"
