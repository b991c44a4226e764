"""A bulk run whose processes are killed while they move letters: each is moved once, and the run says so."""

from __future__ import annotations

import random
import sys
from datetime import timedelta
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest

from mahavishnu.bulk.run import BulkRun, ItemState, RunItem, RunState
from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.engine.context import QueueOptions
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import Is, Query
from mahavishnu.stores.base import scan
from mahavishnu.stores.urls import open_store
from mahavishnu.testing import make_letter
from tests.proofs.bulk_node import LIMITS
from tests.support.node import CLOCK, ROOT, Node, until

pytestmark = pytest.mark.faults


def letter_of(number: int) -> DeadLetter:
    """Every hundredth one is closed, and can be neither resolved nor edited."""
    now = CLOCK.now() - timedelta(seconds=60)
    dates = {"created_at": now, "failed_at": now, "updated_at": now}
    name, task = f"wf-{number:05}", {"n": number, "url": "http://old"}
    if number % 100:
        return make_letter(task_id=name, task=task, status="exhausted", due_at=None, exhausted_at=now, **dates)
    return make_letter(task_id=name, task=task, status="completed", **dates)


def start(url: str) -> Node:
    node = Node(Popen([sys.executable, "-m", "tests.proofs.bulk_node", url], stdout=PIPE, text=True, cwd=ROOT))
    node.ready()
    return node


async def killed_and_finished(
    url: str, count: int, verb: str, kills: int, **options: Any
) -> tuple[BulkRun, list[DeadLetter]]:
    """Start a run, kill so many processes while they move its letters, and carry it on to its end here."""
    chance = random.Random(count)
    async with DeadLetterQueue(100_000, store=open_store(url, kinds=KINDS), options=QueueOptions(limits=LIMITS)) as dlq:
        for first in range(0, count, 5_000):
            await dlq.context.letters.write([letter_of(number) for number in range(first, min(first + 5_000, count))])
        run = await dlq.runs.start(verb, everything=True, by="ann", **options)
        marked = Query((Is("runs", (run.run_id,)),))

        async def moved() -> int:
            return (await dlq.context.letters.tally(marked)).total.count

        seen = 0
        for kill in range(kills):
            node = start(url)
            try:
                before = seen

                async def moves(enough: int = before + count // 100) -> bool:
                    return await moved() > enough

                await until(moves, 0.02)
                await CLOCK.sleep(chance.random() / 8)
            finally:
                node.kill()
            seen = await moved()
            assert seen < count * 99 // 100, f"it was done before the kill number {kill + 1}"

        async def done() -> bool:
            await dlq.runs.advance()
            return (await dlq.runs.get(run.run_id)).state is RunState.DONE

        await until(done)
        run = await dlq.runs.get(run.run_id)
        found = [letter async for letter in scan(dlq.context.letters, Query(limit=5_000))]
        items: dict[str, RunItem] = {}
        after = None
        while True:
            page = await dlq.runs.items(run.run_id, limit=10_000, after=after)
            items |= {item.key: item for item in page.items}
            if (after := page.next) is None:
                break
    assert len(found) == len(items) == count
    for letter in found:
        can_be = letter.payload.value["n"] % 100 != 0
        assert letter.runs == ((run.run_id,) if can_be else ()), letter.key
        assert items[letter.key].state is (ItemState.MOVED if can_be else ItemState.REFUSED), letter.key
        assert can_be or str(items[letter.key].why).startswith("completed, ")
    closed = count // 100
    assert (run.counts.members, run.counts.moved, run.counts.refused) == (count, count - closed, closed)
    return run, [letter for letter in found if letter.runs]


@pytest.mark.parametrize(("count", "kills"), [(5_000, 1), pytest.param(10_000, 3, marks=pytest.mark.prove)])
async def test_letters_in_sqlite_are_resolved_once_each(count: int, kills: int, tmp_path: Path) -> None:
    _, moved = await killed_and_finished(f"sqlite:///{tmp_path}/letters.db", count, "resolve", kills)
    assert {letter.tallies.manually_resolved for letter in moved} == {1}
    assert {letter.status for letter in moved} == {"completed"}


@pytest.mark.opensearch
@pytest.mark.parametrize(("count", "kills"), [(4_000, 1), pytest.param(10_000, 3, marks=pytest.mark.prove)])
async def test_letters_in_opensearch_are_edited_once_each(
    opensearch_url: str, opensearch_prefix: str, count: int, kills: int
) -> None:
    """An edit that was made twice would be counted twice."""
    url = f"{opensearch_url.replace('http', 'opensearch', 1)}/{opensearch_prefix}?timeout=30"
    _, moved = await killed_and_finished(url, count, "edit", kills, patch={"url": "https://new"})
    assert {letter.revision for letter in moved} == {1}
    assert {letter.payload.value["url"] for letter in moved} == {"https://new"}
