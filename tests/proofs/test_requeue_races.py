"""Requeues that race each other, a processor, people who archive or edit: one winner, one boost, and clear answers.

Some of the competitors are in this process, with a queue of their own each, and some speak HTTP to a server.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import httpx
import pytest

from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.engine.breaker import Breakers
from mahavishnu.engine.context import Limits, QueueOptions
from mahavishnu.model.errors import IllegalMove
from mahavishnu.model.letter import DeadLetter
from mahavishnu.stores.urls import open_store
from tests.support.marks import PROVED_ON_OPENSEARCH
from tests.support.node import CLOCK, until
from tests.support.server import Server, served

pytestmark = PROVED_ON_OPENSEARCH

PRIORITY, BOOST = 5, 10
ROUNDS = 15


class Answer(NamedTuple):
    """What a requeue answers on every surface."""

    success: bool
    message: str
    state: str | None
    requeues: int


DONE = Answer(True, "Task requeued successfully", "pending", 1)
NOT_OPEN = Answer(False, "Task not found in DLQ or already resolved", None, 0)
BEING_RUN = "Task is being retried right now"
BEYOND = "Max DLQ retries exceeded"


class Person(Protocol):
    """Somebody who acts on letters. `archive` tells the letter then, or None where that was refused."""

    async def requeue(self, task_id: str) -> Answer: ...
    async def archive(self, task_id: str) -> dict[str, Any] | None: ...
    async def edit(self, task_id: str, **metadata: Any) -> None: ...


@dataclass(frozen=True)
class Here:
    """In this process, with a queue of its own."""

    dlq: DeadLetterQueue

    async def requeue(self, task_id: str) -> Answer:
        done = await self.dlq.requeue_from_dlq(task_id, resolved_by="here")
        return Answer(*(done[name] for name in ("success", "message", "new_task_state", "dlq_retry_count")))

    async def archive(self, task_id: str) -> dict[str, Any] | None:
        try:
            letter = await self.dlq.letters.archive(task_id, by="here")
        except IllegalMove as refused:
            assert refused.state == "archived", refused
            return None
        assert letter.requeue is None or letter.requeue.outcome == "abandoned"
        return letter.to_dict()

    async def edit(self, task_id: str, **metadata: Any) -> None:
        await self.dlq.letters.edit(task_id, by="here", metadata=metadata)


@dataclass(frozen=True)
class There:
    """Over HTTP."""

    api: httpx.AsyncClient

    async def requeue(self, task_id: str) -> Answer:
        answer = await self.api.post(f"/dlq/{task_id}/requeue", json={"resolved_by": "there"})
        said = answer.json()
        assert answer.status_code == (200 if said["success"] else 400), answer.text
        if not said["success"]:
            assert said["type"] == "urn:mahavishnu:problem:requeue-failed"
            assert said["detail"] == said["message"]
        return Answer(*(said[name] for name in ("success", "message", "new_state", "retry_count")))

    async def archive(self, task_id: str) -> dict[str, Any] | None:
        answer = await self.api.post(f"/dlq/{task_id}/archive")
        said: dict[str, Any] = answer.json()
        if answer.status_code != 200:
            assert (answer.status_code, said["type"]) == (409, "urn:mahavishnu:problem:illegal-move"), said
            return None
        assert said["requeue_outcome"] in (None, "abandoned")
        return said

    async def edit(self, task_id: str, **metadata: Any) -> None:
        answer = await self.api.patch(f"/dlq/{task_id}", json={"metadata": metadata})
        assert answer.status_code == 200, answer.text


@dataclass
class Office:
    """A store with everybody who works on it."""

    queues: Sequence[DeadLetterQueue]
    api: httpx.AsyncClient
    random: random.Random

    def people(self, where: str = "both") -> list[Person]:
        """Twenty of them."""
        here: list[Person] = [Here(queue) for queue in self.queues]
        there: list[Person] = [There(self.api)] * len(here)
        chosen = {"here": here, "there": there, "both": [*here, *there]}[where]
        return [chosen[number % len(chosen)] for number in range(20)]

    def any(self) -> Person:
        return self.random.choice(self.people())

    async def moment(self, most: float) -> None:
        """Any interleaving is as good as another one."""
        await CLOCK.sleep(self.random.uniform(0, most))

    async def failed(self, task_id: str, *, retries: int = 0, policy: str = "never", **task: Any) -> None:
        await self.queues[0].enqueue(
            task_id, task, [], "ValueError: no", policy, retries, priority=PRIORITY, error_category="transient"
        )

    async def claim(self) -> Any:
        """The only letter that is due, over HTTP; the server sees what others wrote within a second or so."""

        async def look() -> Any:
            return (await self.api.post("/claims", json={"worker": "w"})).json()

        (claim,) = await until(look)
        return claim

    async def letter(self, task_id: str) -> DeadLetter:
        letter = await self.queues[0].get_task(task_id, include_archived=True)
        assert letter is not None
        return letter


def queue_on(url: str, folder: Path, **options: Any) -> DeadLetterQueue:
    local = f"sqlite:///{folder}/local.db" if "opensearch" in url else None
    return DeadLetterQueue(100_000, store=open_store(url, local=local, kinds=KINDS), options=QueueOptions(**options))


@pytest.fixture
def server(store_url: str, tmp_path: Path) -> Iterator[Server]:
    with served(store_url, tmp_path) as server:
        yield server
    assert "Traceback" not in server.log.read_text()


@pytest.fixture
async def office(server: Server, store_url: str, tmp_path: Path) -> AsyncIterator[Office]:
    async with AsyncExitStack() as open_:
        queues = [await open_.enter_async_context(queue_on(store_url, tmp_path)) for _ in range(5)]
        limits = httpx.Limits(max_connections=50)
        api = await open_.enter_async_context(httpx.AsyncClient(base_url=server.api, timeout=60, limits=limits))
        yield Office(queues, api, random.Random(5))


@asynccontextmanager
async def working(url: str, folder: Path, runs: Counter[str]) -> AsyncIterator[DeadLetterQueue]:
    """A running processor. A task fails as often as it says first."""

    async def run(task: Any, repos: list[str]) -> None:
        runs[task["name"]] += 1
        if runs[task["name"]] <= task["fails"]:
            raise ConnectionError("still down")

    limits = Limits(interval_seconds=0.5, skew_seconds=0.0)
    async with queue_on(url, folder, callback=run, limits=limits, breakers=Breakers(10_000)) as dlq:
        await dlq.start_retry_processor(check_interval_seconds=0.5)
        yield dlq


@pytest.mark.parametrize("where", ["here", "there", "both"])
async def test_twenty_requeues_at_once_are_one(office: Office, where: str) -> None:
    """R281, R285."""
    for round_ in range(ROUNDS):
        await office.failed(f"wf_{round_}")
        answers = await asyncio.gather(*(person.requeue(f"wf_{round_}") for person in office.people(where)))
        assert Counter(answers) == {DONE: 1, NOT_OPEN: 19}
        letter = await office.letter(f"wf_{round_}")
        assert (letter.status, letter.priority, letter.dlq_retry_count) == ("pending", PRIORITY + BOOST, 1)
    told = Counter([entry.outcome async for entry in audited(office)])
    assert told == {"done": ROUNDS, "refused": 19 * ROUNDS}, "the audit counts the same"
    lines = await office.queues[0].get_statistics_by_reason()
    assert [line["avg_retries"] for line in lines] == [1.0]
    assert (await office.queues[0].get_statistics())["lifetime_stats"]["requeued"] == ROUNDS


async def audited(office: Office) -> AsyncIterator[Any]:
    after = None
    while True:
        page = await office.queues[0].audit.list(action="requeue", limit=1000, after=after)
        for entry in page.items:
            yield entry
        if page.next is None:
            return
        after = page.next


async def test_requeues_and_edits_do_not_lose_each_other(office: Office) -> None:
    """An edit changes the letter under a requeue: neither is lost, and the priority is lifted once."""
    for round_ in range(ROUNDS):
        await office.failed(f"wf_{round_}")
        people = office.people()
        edits = [person.edit(f"wf_{round_}", number=number) for number, person in enumerate(people[:10])]
        requeues = [person.requeue(f"wf_{round_}") for person in people[10:]]
        answers, _ = await asyncio.gather(asyncio.gather(*requeues), asyncio.gather(*edits))
        letter = await office.letter(f"wf_{round_}")
        assert Counter(answers) == {DONE: 1, NOT_OPEN: 9}
        assert (letter.revision, letter.priority, letter.dlq_retry_count) == (10, PRIORITY + BOOST, 1)


async def test_requeues_against_a_processor(office: Office, store_url: str, tmp_path: Path) -> None:
    """R291: what is being run stays with its run. The priority is lifted as often as a requeue says success."""
    runs: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    names = {f"wf_{number}": number % 3 for number in range(60)}  # and how often its run fails first

    async def life(name: str, fails: int) -> None:
        await office.moment(2)
        await office.failed(name, retries=5, policy="immediate", name=name, fails=fails)
        answers = []
        for _ in range(3):
            await office.moment(0.1)
            answers.append(await office.any().requeue(name))

        async def over() -> bool:
            return not (await office.letter(name)).is_open

        await until(over, every=0.2)
        answers.append(await office.any().requeue(name))
        letter = await office.letter(name)
        successes = [answer for answer in answers if answer.success]
        assert [answer.requeues for answer in successes] == list(range(1, len(successes) + 1)), answers
        assert letter.dlq_retry_count == len(successes), answers
        assert letter.priority == PRIORITY + BOOST * len(successes), answers
        assert {answer.message for answer in answers} <= {DONE.message, NOT_OPEN.message, BEING_RUN}
        assert all(answer.state == "retrying" for answer in answers if answer.message == BEING_RUN)
        assert answers[-1] == NOT_OPEN, "it is done"
        assert runs[name] == fails + 1, "a requeue makes no run beside the one that there is"
        assert (letter.status, letter.resolution.status) == ("completed", "requeued")
        assert (letter.requeue is not None) == bool(successes)
        assert letter.requeue is None or letter.requeue.outcome in ("succeeded", "failed")  # of the run after it
        seen.update(answer.message for answer in answers)

    async with working(store_url, tmp_path, runs) as worker:
        await asyncio.gather(*(life(name, fails) for name, fails in names.items()))
        counts = await worker.get_statistics()
    assert seen[DONE.message] and seen[NOT_OPEN.message], seen
    assert counts["lifetime_stats"]["requeued"] == seen[DONE.message]


async def test_a_requeue_of_what_is_being_run_says_so(office: Office) -> None:
    """R291: over HTTP too, with the state as it is, and without a boost."""
    await office.failed("wf_1", retries=5, policy="immediate")
    claim = await office.claim()
    for person in (Here(office.queues[1]), There(office.api)):
        assert await person.requeue("wf_1") == Answer(False, BEING_RUN, "retrying", 0)
    assert (await office.letter("wf_1")).priority == PRIORITY
    said = {"task_id": "wf_1", "token": claim["token"], "outcome": "succeeded"}
    assert (await office.api.post("/claims/settle", json=said)).status_code == 200
    for person in (Here(office.queues[1]), There(office.api)):
        assert await person.requeue("wf_1") == NOT_OPEN
    letter = await office.letter("wf_1")
    assert (letter.priority, letter.requeue) == (PRIORITY, None)


async def test_requeues_against_archiving(office: Office) -> None:
    """One requeue wins, or none if it was put away before; one archives. Whoever comes later is told what is so."""
    first: Counter[str] = Counter()
    for round_ in range(2 * ROUNDS):
        name = f"wf_{round_}"
        await office.failed(name)

        async def requeue(name: str = name) -> Answer:
            await office.moment(0.02)
            return await office.any().requeue(name)

        async def archive(name: str = name) -> dict[str, Any] | None:
            await office.moment(0.02)
            return await office.any().archive(name)

        answers, archived = await asyncio.gather(
            asyncio.gather(*(requeue() for _ in range(4))), asyncio.gather(*(archive() for _ in range(3)))
        )
        (put_away,) = [each for each in archived if each is not None]
        letter = await office.letter(name)
        counts = Counter(answers)
        if counts[DONE]:  # it was sent back first; the same letter was then put away, before any run
            first["requeue"] += 1
            assert counts == {DONE: 1, NOT_OPEN: 3}
            assert (letter.priority, letter.dlq_retry_count) == (PRIORITY + BOOST, 1)
            assert letter.requeue is not None and letter.requeue.outcome == "abandoned"
        else:
            first["archive"] += 1
            assert counts == {NOT_OPEN: 4}
            assert (letter.priority, letter.dlq_retry_count, letter.requeue) == (PRIORITY, 0, None)
        assert put_away["priority"] == letter.priority
        assert (letter.status, letter.due_at) == ("archived", None)
    assert len(first) == 2, f"both orders were seen: {first}"
    lifetime = (await office.queues[0].get_statistics())["lifetime_stats"]
    assert (lifetime["requeued"], lifetime["archived"]) == (first["requeue"], 2 * ROUNDS)


async def test_the_limit_holds_however_many_ask(office: Office) -> None:
    """R282: beyond it the letter is given up once, and nobody lifts its priority."""
    name = "wf_1"
    await office.failed(name)
    for count in (1, 2, 3):
        answers = await asyncio.gather(*(person.requeue(name) for person in office.people()))
        assert Counter(answers) == {DONE._replace(requeues=count): 1, NOT_OPEN: 19}
        claim = await office.claim()
        said = {"task_id": name, "token": claim["token"], "outcome": "failed", "error": "ValueError: no"}
        assert (await office.api.post("/claims/settle", json=said)).status_code == 200
    answers = await asyncio.gather(*(person.requeue(name) for person in office.people()))
    assert Counter(answers) == {Answer(False, BEYOND, "error", 3): 1, NOT_OPEN: 19}
    letter = await office.letter(name)
    assert (letter.resolution.by, letter.resolution.notes) == ("system_max_retries", "Max DLQ retries (3) exceeded")
    assert (letter.priority, letter.dlq_retry_count) == (PRIORITY + 3 * BOOST, 3)
