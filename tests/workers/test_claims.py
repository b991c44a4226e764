"""Workers that are not this process: they claim letters, renew, and say how each run went."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from mahavishnu.classify.chain import Chain
from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.model.errors import InvalidInput, LostLease, NoSuchLetter, StoreUnavailable
from mahavishnu.model.events import EventName
from mahavishnu.model.letter_parts import NO_ADAPTER, Source, SourceKind
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.testing import FaultyStore
from mahavishnu.workers.claims import Claim
from tests.support.queues import House, Runs, fill, heard, letter_of, settle, sound, until


async def claim_one(dlq: DeadLetterQueue, owner: str = "worker-1", /, **options: Any) -> Claim:
    (claim,) = await dlq.claims.claim(owner, **options)
    return claim


async def due(dlq: DeadLetterQueue, task_id: str = "wf_1", /, **options: Any) -> None:
    given = {"retry_policy": "immediate", "max_retries": 3}
    await dlq.enqueue(task_id, {"n": 1}, ["api"], "connection refused", **{**given, **options})


class TestClaiming:
    async def test_a_claim_is_the_right_to_run(self, any_house: House) -> None:
        queue = any_house.queue()
        await due(queue)
        events = heard(queue)
        claim = await claim_one(queue, lease_seconds=90)
        assert claim.lease_until == any_house.clock.now() + timedelta(seconds=90) == claim.letter.due_at
        assert claim.letter.lease is not None
        assert (claim.letter.lease.owner, claim.letter.lease.token) == ("worker-1", claim.token)
        assert claim.letter.task == {"n": 1}
        assert claim.attempt_id == claim.token
        assert claim.idempotency_key == f"{claim.letter.entry_id}-0"
        assert (await letter_of(queue, "wf_1")) == claim.letter
        assert [(event.name, event.detail) for event in events] == [(EventName.RETRY_STARTED, {"owner": "worker-1"})]
        assert await queue.claims.claim("worker-2") == []

    async def test_what_was_lost_of_a_task_is_handed_to_nobody_before_an_edit_gives_it(self, any_house: House) -> None:
        queue = any_house.queue()
        await due(queue)
        lost = {"card": "***", "to": "<socket>", "day": "2026-11-19"}
        types = {"/card": "lost:masked", "/to": "lost:socket", "/day": "date"}
        await queue.enqueue("wf_2", lost, [], "refused", "immediate", payload_types=types)
        await queue.letters.redrive("wf_2")
        assert [claim.letter.task_id for claim in await queue.claims.claim("worker-1", limit=5)] == ["wf_1"]
        letter = await letter_of(queue, "wf_2")
        assert (letter.status, letter.due_at, letter.total_attempts) == ("pending", None, 0)
        assert letter.unfit == "card is masked: give the value by an edit"
        await queue.letters.edit("wf_2", patch={"card": "47"}, redrive=True)
        assert await queue.claims.claim("worker-1") == []
        await queue.letters.edit("wf_2", patch={"to": "ann"}, redrive=True)
        claim = await claim_one(queue)
        assert (claim.letter.task, claim.letter.total_attempts) == ({"card": "47", "to": "ann", "day": "2026-11-19"}, 1)
        await sound(queue)

    async def test_the_most_urgent_first_then_the_longest_due(self, any_house: House) -> None:
        queue = any_house.queue()
        for name, priority in {"late": 0, "later": 0, "urgent": 5, "first": 9}.items():
            await due(queue, name, priority=priority)
            any_house.clock.advance(1)
        claims = [*await queue.claims.claim("w", limit=3), *await queue.claims.claim("w", limit=3)]
        assert [claim.letter.task_id for claim in claims] == ["first", "urgent", "late", "later"]

    async def test_a_low_priority_is_reached_however_many_urgent_ones_come(self, any_house: House) -> None:
        queue = any_house.queue()
        await due(queue, "low")
        for number in range(100):
            await due(queue, f"urgent_{number}", priority=9)
        claims = [await claim_one(queue) for _ in range(8)]
        assert [claim.letter.task_id for claim in claims].index("low") == 3

    async def test_only_of_a_queue_or_namespace(self, any_house: House) -> None:
        queue = any_house.queue()
        for name in ("red", "blue"):
            await due(queue, name, namespace=name, queue=f"{name}-mail")
        assert (await claim_one(queue, limit=9, namespace="blue")).letter.task_id == "blue"
        assert await queue.claims.claim("w", queue="blue-mail", namespace="*") == []
        assert await queue.claims.claim("w", limit=9, queue="red-mail") == [], "it is another app's"
        assert (await claim_one(queue, limit=9, queue="red-mail", namespace="*")).letter.task_id == "red"

    async def test_what_is_not_due_is_nobodys(self, any_house: House) -> None:
        queue = any_house.queue()
        await queue.enqueue("later", {}, [], "connection refused")
        await queue.enqueue("never", {}, [], "connection refused", "never")
        await due(queue, "exhausted", max_retries=0)
        assert await queue.claims.claim("w", limit=9) == []

    async def test_a_lease_is_long_over_before_it_is_anybodys(self, any_house: House) -> None:
        """The owner's clock may be behind."""
        queue = any_house.queue(skew_seconds=30.0)
        await due(queue)
        await claim_one(queue, lease_seconds=60)
        any_house.clock.advance(60)
        assert await queue.claims.claim("w") == []
        any_house.clock.advance(31)
        assert (await claim_one(queue)).letter.recoveries == 1

    async def test_what_waits_for_another_one_is_passed_over(self, any_house: House) -> None:
        """However many there are in front."""
        queue = any_house.queue()
        await due(queue, "base", max_retries=0)
        for number in range(60):
            await due(queue, f"after_{number}", priority=9, depends_on=["base"])
        await due(queue, "free")
        assert (await claim_one(queue, limit=2)).letter.task_id == "free"
        await queue.letters.resolve("base")
        assert len(await queue.claims.claim("w", limit=100)) == 60

    async def test_what_is_down_is_passed_over_and_then_probed_by_one(self, any_house: House) -> None:
        queue = any_house.queue()
        for number in range(3):
            await due(queue, f"down_{number}", source=Source(queue="sweep"), priority=9)
            await due(queue, f"named_{number}", source=Source(), priority=9)
        await due(queue, "up", source=Source(queue="mail"))
        for adapter in ("sweep", NO_ADAPTER):
            for _ in range(5):
                queue.context.breakers.record_failure(adapter, "network", any_house.clock.monotonic())
        assert (await claim_one(queue, limit=9)).letter.task_id == "up"
        any_house.clock.advance(60)
        probes = await queue.claims.claim("w", limit=9)
        assert sorted(claim.letter.task_id[:5] for claim in probes) == ["down_", "named"]
        for claim in probes:
            await queue.claims.settle(claim.letter.task_id, claim.token, "succeeded")
        assert len(await queue.claims.claim("w", limit=9)) == 4

    async def test_work_of_another_kind_has_another_adapter(self, any_house: House) -> None:
        """Its source's queue is none, whatever its name."""
        queue = any_house.queue()
        await due(queue, source=Source(SourceKind.QUEUE_ITEM, "sweep"))
        for _ in range(5):
            queue.context.breakers.record_failure("sweep", "network", any_house.clock.monotonic())
        assert await claim_one(queue)

    async def test_what_cannot_be_read_hides_nothing(self, house: House, caplog: pytest.LogCaptureFixture) -> None:
        queue = house.queue()
        await due(queue, "odd")
        await due(queue, "sound")
        assert isinstance(queue.store, FaultyStore)
        with queue.store.faults.corrupt("find", keys={"odd"}):
            assert (await claim_one(queue, limit=9)).letter.task_id == "sound"
        assert "a due letter cannot be read and is left alone" in caplog.text

    async def test_one_that_is_refused_by_the_store_stops_no_other(self, house: House) -> None:
        queue = house.queue()
        await due(queue, "odd")
        await due(queue, "sound")
        assert isinstance(queue.store, FaultyStore)
        with queue.store.faults.item_failed("write", keys={"odd"}):
            assert (await claim_one(queue, limit=9)).letter.task_id == "sound"

    async def test_a_probe_that_fails_opens_it_again(self, house: House) -> None:
        queue = house.queue()
        await due(queue, source=Source(queue="sweep"))
        for _ in range(5):
            queue.context.breakers.record_failure("sweep", "network", house.clock.monotonic())
        house.clock.advance(60)
        claim = await claim_one(queue)
        await queue.claims.settle("wf_1", claim.token, "failed", error="connection refused")
        assert await queue.claims.claim("w") == []
        assert queue.context.breakers.state("sweep", house.clock.monotonic()) == "open"

    async def test_what_kills_its_worker_three_times_has_failed(self, any_house: House) -> None:
        queue = any_house.queue(skew_seconds=0.0)
        await due(queue, max_retries=1)
        for _ in range(3):
            await claim_one(queue, lease_seconds=10)
            any_house.clock.advance(11)
        events = heard(queue)
        assert await queue.claims.claim("w") == []
        letter = await letter_of(queue, "wf_1")
        assert (letter.status, letter.failures[-1].type) == ("exhausted", "LeaseRanOut")
        assert [event.name for event in events] == [EventName.RECOVERED, EventName.EXHAUSTED]

    async def test_what_may_kill_is_handed_out_one_at_a_time(self, any_house: House) -> None:
        """ADR 0010: at its last chance, so that only the one that kills counts as failed."""
        queue = any_house.queue(skew_seconds=0.0)
        await fill(queue, 3)
        for _ in range(2):
            assert len(await queue.claims.claim("w", limit=9, lease_seconds=10)) == 3
            any_house.clock.advance(11)
        assert len(await queue.claims.claim("w", limit=9, lease_seconds=10)) == 1

    @pytest.mark.parametrize(
        "wrong",
        [
            {"limit": 0}, {"limit": 501}, {"limit": True}, {"limit": 1.0},
            {"lease_seconds": 0.5}, {"lease_seconds": 86401}, {"lease_seconds": float("nan")}, {"lease_seconds": "1"},
            {"owner": ""}, {"owner": None}, {"owner": "x" * 201},
        ],
        ids=str,
    )  # fmt: skip
    async def test_what_nobody_can_ask_for(self, house: House, wrong: dict[str, Any]) -> None:
        queue = house.queue()
        await due(queue)
        with pytest.raises(InvalidInput):
            await queue.claims.claim(**{"owner": "w", **wrong})
        assert (await letter_of(queue, "wf_1")).status == "pending"


class TestSettling:
    async def test_a_run_that_succeeded(self, any_house: House) -> None:
        queue = any_house.queue()
        await due(queue)
        claim = await claim_one(queue)
        events = heard(queue)
        letter = await queue.claims.settle("wf_1", claim.token, "succeeded")
        assert (letter.status, letter.resolution.by) == ("completed", "worker-1")
        assert [event.name for event in events] == [EventName.RETRY_SUCCEEDED]
        await sound(queue)

    async def test_a_run_that_failed_is_classified_as_any_other(self, any_house: House) -> None:
        queue = any_house.queue()
        await due(queue, retry_policy="exponential", error_category="network")
        any_house.clock.advance(60)
        claim = await claim_one(queue)
        events = heard(queue)
        letter = await queue.claims.settle(
            "wf_1", claim.token, "failed", error="No space left on device", error_type="OSError"
        )
        assert (letter.status, letter.retry_count, letter.error_category) == ("pending", 1, "resource")
        assert letter.due_at == any_house.clock.now() + timedelta(minutes=2)
        assert "no space left" in str(letter.verdict.reason) and letter.verdict.author == "built-in"
        failure = letter.failures[-1]
        assert (failure.message, failure.type, failure.processor) == (
            "No space left on device", "OSError", "worker-1",
        )  # fmt: skip
        assert [event.name for event in events] == [EventName.RETRY_FAILED]

    async def test_the_last_retry_exhausts(self, any_house: House) -> None:
        queue = any_house.queue()
        await due(queue, max_retries=1)
        claim = await claim_one(queue)
        events = heard(queue)
        letter = await queue.claims.settle("wf_1", claim.token, "failed", error="boom")
        assert letter.status == "exhausted"
        assert [event.name for event in events] == [EventName.RETRY_FAILED, EventName.EXHAUSTED]
        await sound(queue)

    @pytest.mark.parametrize("wait", [90, 90.0, timedelta(seconds=90)], ids=str)
    async def test_the_wait_that_the_worker_was_told_counts(self, house: House, wait: Any) -> None:
        queue = house.queue()
        await due(queue)
        claim = await claim_one(queue)
        letter = await queue.claims.settle("wf_1", claim.token, "failed", error="429", retry_in=wait)
        assert letter.due_at == house.clock.now() + timedelta(seconds=90)

    async def test_the_category_that_the_worker_says_counts(self, house: House) -> None:
        queue = house.queue()
        await due(queue)
        claim = await claim_one(queue)
        letter = await queue.claims.settle("wf_1", claim.token, "failed", error="odd", category="validation")
        assert letter.error_category == letter.failures[-1].category == "validation"
        assert (letter.verdict.reason, letter.verdict.author) == ("the caller says so", "caller")

    async def test_what_a_classifier_calls_hopeless_is_exhausted(self, house: House) -> None:
        """Unless the worker knows when it can be tried again."""
        rule = [{"text": "CardStolen", "category": "permanent", "policy": "never"}]
        queue = house.queue(chain=chain_with(rule))
        for name, wait, status in (("a", None, "exhausted"), ("b", 60, "pending")):
            await due(queue, name)
            claim = await claim_one(queue)
            letter = await queue.claims.settle(
                name, claim.token, "failed", error="no", error_type="CardStolen", retry_in=wait
            )
            assert letter.status == status

    async def test_what_is_given_back_has_used_up_nothing(self, any_house: House) -> None:
        queue = any_house.queue()
        await due(queue)
        before = await letter_of(queue, "wf_1")
        claim = await claim_one(queue)
        any_house.clock.advance(5)
        letter = await queue.claims.settle("wf_1", claim.token, "released", retry_in=30)
        assert (letter.status, letter.total_attempts, letter.retry_count) == ("pending", 0, 0)
        assert letter.due_at == any_house.clock.now() + timedelta(seconds=30)
        assert (letter.failures, letter.tallies) == (before.failures, before.tallies)

    async def test_a_renewed_lease_ends_later(self, any_house: House) -> None:
        queue = any_house.queue(lease_seconds=60.0)
        await due(queue)
        claim = await claim_one(queue)
        any_house.clock.advance(50)
        assert await queue.claims.renew("wf_1", claim.token) == any_house.clock.now() + timedelta(seconds=60)
        any_house.clock.advance(80)
        assert await queue.claims.claim("w") == []

    async def test_others_may_write_on_it_meanwhile(self, any_house: House) -> None:
        """The token is what counts, not the version."""
        queue = any_house.queue()
        await due(queue)
        claim = await claim_one(queue)
        await due(queue)  # it failed once more, and is merged
        letter = await queue.claims.settle("wf_1", claim.token, "failed", error="connection reset")
        assert (letter.status, letter.occurrences, letter.retry_count) == ("pending", 2, 1)

    async def test_a_success_is_not_the_end_of_what_failed_during_the_run(self, any_house: House) -> None:
        """Also if the lease was renewed since; and told twice it is told once."""
        queue = any_house.queue()
        await due(queue)
        claim = await claim_one(queue)
        await due(queue)
        await queue.claims.renew("wf_1", claim.token)
        letter = await queue.claims.settle("wf_1", claim.token, "succeeded")
        assert (letter.status, letter.tallies.retry_success, letter.tallies.reopened) == ("pending", 1, 1)
        assert await queue.claims.settle("wf_1", claim.token, "succeeded") == letter
        any_house.clock.advance(3600)
        again = await claim_one(queue)
        assert (await queue.claims.settle("wf_1", again.token, "succeeded")).status == "completed"
        await sound(queue)

    async def test_another_namespace_is_another_letter(self, house: House) -> None:
        queue = house.queue()
        await due(queue, namespace="blue", queue="mail")
        claim = await claim_one(queue, namespace="blue")
        with pytest.raises(NoSuchLetter):
            await queue.claims.settle("wf_1", claim.token, "succeeded")
        with pytest.raises(NoSuchLetter):
            await queue.claims.renew("wf_1", claim.token)
        assert await queue.claims.renew("wf_1", claim.token, namespace="blue", queue="mail")
        await queue.claims.settle("wf_1", claim.token, "succeeded", namespace="blue", queue="mail")

    async def test_room_is_made_for_what_waits(self, house: House) -> None:
        queue = house.queue(max_size=1)
        await due(queue)
        claim = await claim_one(queue)
        await queue.claims.settle("wf_1", claim.token, "succeeded")
        await due(queue, "wf_2")

    async def test_the_own_processor_wakes_for_what_came_back(self, house: House) -> None:
        queue = house.queue(runs := Runs(None), interval_seconds=3600.0)
        await due(queue)
        claim = await claim_one(queue)
        await queue.start_retry_processor()
        await house.clock.sleeping(4)
        await queue.claims.settle("wf_1", claim.token, "failed", error="boom", retry_in=7)
        await settle()
        house.clock.advance(7)
        await until(lambda: runs.calls)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"outcome": "done"}, {"outcome": None}, {"outcome": "failed"}, {"outcome": "failed", "error": ""},
            {"error": "but why"}, {"category": "network"}, {"retry_in": 5},
            {"outcome": "failed", "error": "x", "category": "odd"}, {"outcome": "failed", "error": 5},
            {"outcome": "failed", "error": "x", "error_type": 5}, {"outcome": "released", "retry_in": -1},
            {"outcome": "failed", "error": "x", "retry_in": float("nan")}, {"outcome": "released", "error_type": "x"},
        ],
        ids=str,
    )  # fmt: skip
    async def test_what_nobody_can_mean(self, house: House, wrong: dict[str, Any]) -> None:
        queue = house.queue()
        await due(queue)
        claim = await claim_one(queue)
        with pytest.raises(InvalidInput):
            await queue.claims.settle("wf_1", claim.token, **{"outcome": "succeeded", **wrong})
        assert await letter_of(queue, "wf_1") == claim.letter


class TestLostLeases:
    async def test_the_outcome_of_a_lease_that_was_taken_over_is_refused(self, any_house: House) -> None:
        queue = any_house.queue(skew_seconds=0.0)
        await due(queue)
        slow = await claim_one(queue, "slow", lease_seconds=10)
        any_house.clock.advance(11)
        quick = await claim_one(queue, "quick")
        events = heard(queue)
        text = "cannot succeed it, this run no longer owns it: quick holds it now"
        with pytest.raises(LostLease, match=text):
            await queue.claims.settle("wf_1", slow.token, "succeeded")
        with pytest.raises(LostLease, match="cannot renew it, this run no longer owns it"):
            await queue.claims.renew("wf_1", slow.token)
        assert await letter_of(queue, "wf_1") == quick.letter
        assert [event.name for event in events] == [EventName.STALE_CLAIM]
        await queue.claims.settle("wf_1", quick.token, "succeeded")
        for outcome in ("succeeded", "released"):
            with pytest.raises(LostLease, match="nobody holds it now"):
                await queue.claims.settle("wf_1", slow.token, outcome)

    async def test_a_lease_that_ran_out_and_nobody_took_still_counts(self, any_house: House) -> None:
        """The work was done, and nobody else has begun it."""
        queue = any_house.queue()
        await due(queue)
        claim = await claim_one(queue, lease_seconds=10)
        any_house.clock.advance(3600)
        assert (await queue.claims.settle("wf_1", claim.token, "succeeded")).status == "completed"

    @pytest.mark.parametrize("outcome", ["succeeded", "failed", "released"])
    async def test_saying_it_again_answers_the_same(self, any_house: House, outcome: str) -> None:
        """Also to another process, and only the same."""
        queue, other = any_house.queue(), any_house.queue()
        await due(queue)
        claim = await claim_one(queue)
        said: dict[str, Any] = {"error": "boom"} if outcome == "failed" else {}
        first = await queue.claims.settle("wf_1", claim.token, outcome, **said)
        events = heard(other)
        assert await other.claims.settle("wf_1", claim.token, outcome, **said) == first
        assert events == []
        assert await letter_of(queue, "wf_1") == first
        with pytest.raises(LostLease):
            await queue.claims.settle("wf_1", claim.token, "released" if outcome == "succeeded" else "succeeded")
        if outcome == "succeeded":
            await due(queue)  # the next generation knows nothing of it
            with pytest.raises(LostLease):
                await queue.claims.settle("wf_1", claim.token, outcome)

    async def test_an_answer_that_was_lost_can_be_asked_for_again(self, any_house: House) -> None:
        queue = any_house.queue()
        await due(queue)
        claim = await claim_one(queue)
        assert isinstance(queue.store, FaultyStore)
        with queue.store.faults.answer_lost("write", times=1), pytest.raises(StoreUnavailable):
            await queue.claims.settle("wf_1", claim.token, "failed", error="boom")
        letter = await queue.claims.settle("wf_1", claim.token, "failed", error="boom")
        assert (letter.retry_count, letter.total_attempts, len(letter.failures)) == (1, 1, 2)

    async def test_two_that_say_it_at_once(self, any_house: House) -> None:
        queues = [any_house.queue() for _ in range(4)]
        await due(queues[0])
        claim = await claim_one(queues[0])
        answers = await asyncio.gather(
            *(queue.claims.settle("wf_1", claim.token, "failed", error="boom") for queue in queues)
        )
        assert [answer.retry_count for answer in answers] == [1, 1, 1, 1]


async def test_twenty_workers_run_a_thousand_letters_once_each(any_house: House) -> None:
    queues = [any_house.queue() for _ in range(4)]
    names = await fill(queues[0], 1000)
    ran: Counter[str] = Counter()

    async def work(queue: DeadLetterQueue, owner: str) -> None:
        while claims := await queue.claims.claim(owner, limit=7):
            ran.update(claim.letter.task_id for claim in claims)
            for claim in claims:
                await queue.claims.settle(claim.letter.task_id, claim.token, "succeeded")

    await asyncio.gather(*(work(queues[number % 4], f"worker-{number}") for number in range(20)))
    assert ran == Counter(names)
    stats = await sound(queues[0])
    assert stats["lifetime_stats"]["retry_success"] == 1000


def chain_with(rules: list[dict[str, Any]]) -> Chain:
    from mahavishnu.classify.plugins import Plugins

    return Chain(Plugins.discover(rules=rules))


@pytest.mark.parametrize("back", [False, True])
async def test_a_letter_that_an_outage_kept_locally_refuses_no_outcome_of_its_twin(house: House, back: bool) -> None:
    """It has no lease, so that the claim looks lost; while nobody can tell, nobody says so."""
    primary = FaultyStore(MemoryStore())
    store = FallbackStore(primary, MemoryStore(), kinds=KINDS, clock=house.clock)
    queue = house.queue(store=store)
    await due(queue)
    claim = await claim_one(queue)
    primary.faults.unavailable()
    await due(queue)
    if back:
        primary.faults.clear()
        store._away = None  # as a process that has seen no outage: what it kept has not gone home yet
        settled = await queue.claims.settle("wf_1", claim.token, "succeeded")
        assert (settled.entry_id, settled.status) == (claim.letter.entry_id, "completed")
        return
    with pytest.raises(StoreUnavailable, match="whose 'wf_1' is cannot be told now"):
        await queue.claims.settle("wf_1", claim.token, "succeeded")
    with pytest.raises(StoreUnavailable, match="whose 'wf_1' is cannot be told now"):
        await queue.claims.renew("wf_1", claim.token)
