"""A success of the application, and somebody else at the same letter: in every order of their calls of the store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import Any

import pytest

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.engine.breaker import Breakers
from mahavishnu.engine.waiting_room import WAITING
from mahavishnu.model import lifecycle
from mahavishnu.model.errors import IllegalMove, LostLease
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import Source, SourceKind, Tallies
from mahavishnu.testing import make_letter
from mahavishnu.values.payload import LetterRequest
from tests.support.interleaving import Actor, run_in_every_order
from tests.support.queues import NETWORK, House, Runs, sound

PAYLOAD = {"n": 1}


class Pair:
    """An application whose run has succeeded, and another process. Each order is about a letter of its own."""

    def __init__(self, house: House, repos: Sequence[str] = ()) -> None:
        self.house, self.repos = house, list(repos)
        calm = Breakers(threshold=10_000)  # or the circuit would open after some orders
        self.app, self.other = house.queue(), house.queue(breakers=calm)
        self.numbers = count(1)
        self.name = ""
        self.before: DeadLetter | None = None

    async def begin(
        self, act: Callable[[DeadLetterQueue, str], Awaitable[object]], done: Sequence[str] = ()
    ) -> list[Actor]:
        """A new letter; the application has noted its success, and `act` is what the other one does."""
        self.name = f"wf_{next(self.numbers)}"
        self.house.clock.advance(1)
        await self.other.enqueue(self.name, PAYLOAD, self.repos, "connection refused", "immediate", max_retries=5)
        self.house.clock.advance(1)
        began, name = self.house.clock.now(), self.name
        self.house.clock.advance(1)

        async def close() -> None:
            self.app.closing.note_success(name, lambda: LetterRequest(name, PAYLOAD, done), began=began)
            await self.app.closing.flush()

        return [
            Actor(close, faults_of(self.app), name),
            Actor(lambda: act(self.other, name), faults_of(self.other), name),
        ]

    async def letter(self) -> DeadLetter:
        (record,) = await self.app.context.letters.records.get([self.name])
        assert isinstance(record, DeadLetter)
        assert lifecycle.violations(record) == []
        return record

    async def in_every_order(
        self,
        act: Callable[[DeadLetterQueue, str], Awaitable[object]],
        check: Callable[[DeadLetter], object],
        done: Sequence[str] = (),
    ) -> int:
        async def check_letter() -> None:
            check(await self.letter())

        orders = await run_in_every_order(lambda: self.begin(act, done), check_letter)
        await sound(self.app)
        return orders


def faults_of(queue: DeadLetterQueue) -> Any:
    return queue.store.faults  # type: ignore[attr-defined]


def ended_once(letter: DeadLetter) -> None:
    """By the worker's success or by the application's, and by nothing else."""
    assert (letter.status, letter.is_open) == ("completed", False)
    assert letter.tallies.closings == 1
    assert letter.tallies.retry_success + letter.tallies.manually_resolved == 1
    assert letter.tallies.reopened == 0
    assert (letter.lease, letter.due_at) == (None, None)


@pytest.mark.parametrize("outcome", ["succeeded", "failed", "released"])
async def test_a_remote_worker(house: House, outcome: str) -> None:
    """It claims, renews, and says how the run went."""
    seen: set[str] = set()

    async def work(worker: DeadLetterQueue, name: str) -> None:
        for claim in await worker.claims.claim("w"):
            assert claim.letter.task_id == name
            try:
                await worker.claims.renew(name, claim.token)
                error = "again" if outcome == "failed" else None
                await worker.claims.settle(name, claim.token, outcome, error=error)
                seen.add("settled")
            except LostLease:
                seen.add("lost")
            return
        seen.add("nothing")

    orders = await Pair(house).in_every_order(work, ended_once)
    assert seen == {"settled", "lost", "nothing"}
    assert orders > 20


@pytest.mark.parametrize("answer", [NETWORK, None])
async def test_a_processor(any_house: House, answer: Any) -> None:
    seen: set[tuple[int, int]] = set()

    async def work(worker: DeadLetterQueue, name: str) -> None:
        worker.processing.callback = Runs(answer)
        await worker.run_due()

    def check(letter: DeadLetter) -> None:
        ended_once(letter)
        seen.add((letter.tallies.retry_success, letter.tallies.retry_failed))

    await Pair(any_house).in_every_order(work, check)
    assert seen == ({(0, 0), (0, 1)} if answer is NETWORK else {(0, 0), (1, 0)})


async def test_a_retry_by_hand(house: House) -> None:
    async def work(worker: DeadLetterQueue, name: str) -> None:
        worker.processing.callback = Runs(NETWORK)
        assert not (await worker.retry_task(name))["success"]

    await Pair(house).in_every_order(work, ended_once)


async def test_a_failure_that_comes_later_is_kept(any_house: House) -> None:
    """Counted on the open letter, which then stays open, or as the next generation."""
    seen: set[int] = set()

    async def fail(other: DeadLetterQueue, name: str) -> None:
        await other.enqueue(name, PAYLOAD, [], "connection refused", "never")

    def check(letter: DeadLetter) -> None:
        assert letter.is_open
        assert letter.generation + letter.tallies.deduplicated == 2
        seen.add(letter.generation)

    await Pair(any_house).in_every_order(fail, check)
    assert seen == {1, 2}


async def test_a_failure_that_comes_while_a_worker_runs_it(house: House) -> None:
    async def work(other: DeadLetterQueue, name: str) -> None:
        claims = await other.claims.claim("w")
        await other.enqueue(name, PAYLOAD, [], "connection refused", "never")
        for claim in claims:
            try:
                await other.claims.settle(name, claim.token, "succeeded")
            except LostLease:
                continue

    def check(letter: DeadLetter) -> None:
        assert letter.is_open, "its last failure is not done"

    pair = Pair(house)

    async def begin() -> list[Actor]:
        await pair.other.clear_all()
        return await pair.begin(work)

    async def check_letter() -> None:
        check(await pair.letter())

    await run_in_every_order(begin, check_letter)
    await sound(pair.app)


@pytest.mark.parametrize("act", ["resolve", "cancel", "fail", "archive", "redrive", "requeue", "edit", "clear"])
async def test_people(house: House, act: str) -> None:
    async def work(other: DeadLetterQueue, name: str) -> None:
        try:
            match act:
                case "edit":
                    await other.letters.edit(name, task={"n": 2})
                case "requeue":
                    await other.requeue_from_dlq(name)
                case "clear":
                    await other.clear_all()
                case _:
                    await getattr(other.letters, act)(name)
        except IllegalMove:
            pass

    def check(letter: DeadLetter) -> None:
        done = letter.tallies
        ends = done.closings - done.requeued
        assert ends == (0 if letter.is_open else 1)
        assert letter.is_open == (act == "edit" and letter.task == {"n": 2}), "what a person wants done is not done yet"

    assert await Pair(house).in_every_order(work, check) > 2


async def test_each_of_two_does_a_part(house: House) -> None:
    """A worker fails for the repo that the application has done: it may be done twice, and never not at all."""

    async def work(worker: DeadLetterQueue, name: str) -> None:
        failed = {"status": "failed", "error": "no", "results": {"api": {"status": "failed"}, "web": {"status": "ok"}}}
        worker.processing.callback = Runs(failed)
        await worker.run_due()

    seen: set[tuple[str, ...]] = set()

    def check(letter: DeadLetter) -> None:
        assert letter.tallies.closings == (not letter.is_open)
        assert letter.tallies.retry_success == 0
        seen.add(letter.repos if letter.is_open else ())

    pair = Pair(house, ["api", "web"])
    await pair.in_every_order(work, check, done=["api"])
    assert seen == {("web",), ("api",), ()}


async def test_two_successes(house: House) -> None:
    """One for each repo, in two processes."""
    pair = Pair(house, ["api", "web"])

    async def close(other: DeadLetterQueue, name: str) -> None:
        now = pair.house.clock.now()
        other.closing.note_success(name, lambda: LetterRequest(name, PAYLOAD, ["web"]), began=now)
        await other.closing.flush()

    def check(letter: DeadLetter) -> None:
        assert not letter.is_open
        assert letter.tallies == Tallies(manually_resolved=1)

    await pair.in_every_order(close, check, done=["api"])


async def test_what_waits_for_room_is_let_in_at_the_same_time(any_house: House) -> None:
    """Whoever lets it in first, it ends closed, once, and nothing waits any more."""
    app, other, numbers = any_house.queue(), any_house.queue(), count(1)
    source = Source(SourceKind.WORKFLOW, "sweep")
    names: list[str] = []

    async def begin() -> list[Actor]:
        names.append(name := f"wf_{next(numbers)}")
        await other.open()
        any_house.clock.advance(1)
        now = any_house.clock.now()
        waiting = make_letter(
            task_id=name, task=PAYLOAD, source=source, created_at=now, failed_at=now, updated_at=now, adapter="sweep"
        )
        await other.context.waiting.keep(waiting)
        any_house.clock.advance(60)
        began = any_house.clock.now()

        async def close() -> None:
            app.closing.note_success(name, lambda: LetterRequest(name, PAYLOAD, (), adapter="sweep"), began=began)
            await app.closing.flush()

        return [
            Actor(close, faults_of(app), name, WAITING),
            Actor(other.intake.admit_waiting, faults_of(other), name, WAITING),
        ]

    async def check() -> None:
        (record,) = await app.context.letters.records.get([names[-1]])
        assert isinstance(record, DeadLetter)
        ended_once(record)
        assert await app.context.waiting.count() == 0

    assert await run_in_every_order(begin, check) > 20
    assert app.context.counts["closed_by_success"] == len(names)
    await sound(app)
