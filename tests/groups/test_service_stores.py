"""Groups on the real server, on a fallback while it is away, and in several processes at once."""

from __future__ import annotations

import asyncio
import dataclasses
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.model.errors import ChangedMeanwhile, NoSuchGroup
from mahavishnu.stores.base import Store
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.kind import Kind
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.testing import START, Faults, FaultyStore, ManualClock, make_letter

PATIENT = 30.0


@pytest.fixture
async def queues(opensearch_url: str, opensearch_prefix: str) -> AsyncIterator[list[DeadLetterQueue]]:
    """Two processes, as far as the server can tell."""
    clock = ManualClock()
    stores = [OpenSearchStore(opensearch_url, prefix=opensearch_prefix, timeout=PATIENT, kinds=KINDS) for _ in "ab"]
    both = [DeadLetterQueue(store=store, clock=clock) for store in stores]
    for queue in both:
        await queue.open()
    yield both
    for queue in both:
        await queue.shutdown()


@pytest.mark.opensearch
async def test_from_alert_to_cause(queues: list[DeadLetterQueue]) -> None:
    """Two people, one group, from its first letter to its return."""
    here, there = queues
    clock = here.clock
    assert isinstance(clock, ManualClock)
    for number in range(12):
        await here.enqueue(f"net-{number}", {}, ["api"], f"connection refused: attempt {number}", queue="mail")
    await here.enqueue("bad", {}, ["api"], ValueError("no address"), max_retries=0)

    page = await here.groups.list(sort="growth")
    network, bad = page.items
    assert (network.count, network.title, network.queues) == (12, "connection refused: attempt <n>", {"mail": 12})
    assert (bad.count, bad.statuses, page.total, page.ungrouped) == (1, {"exhausted": 1}, 2, 0)
    warning, *_ = await here.health_warnings()
    assert warning.startswith(
        f"WARNING: Group {network.fingerprint} grows: 12 letters in the last hour! connection ref"
    )
    assert (await here.groups.get(network.fingerprint)).hours == (*(0,) * 23, 12)
    first = await here.groups.list(limit=1)
    assert [view.fingerprint for view in (await here.groups.list(limit=1, after=first.next)).items] == [bad.fingerprint]
    with pytest.raises(NoSuchGroup):
        await here.groups.get("v1:nothing")

    seen = await there.groups.get(network.fingerprint)
    await here.groups.update(network.fingerprint, by="ann", state="investigating", owner="ann", note="DNS?")
    with pytest.raises(ChangedMeanwhile):
        await there.groups.update(network.fingerprint, by="bob", owner="bob", base=seen)
    view = await there.groups.update(network.fingerprint, by="bob", hold_release="2.4", link="https://x/1")
    assert (view.owner, view.on_hold, len(view.group.notes)) == ("ann", True, 1)
    assert await here.health_warnings() == []
    assert await here.groups.release_hold("2.4", by="ci") == [network.fingerprint]

    await asyncio.gather(*(here.letters.resolve(f"net-{number}", queue="mail") for number in range(12)))
    assert (await here.groups.get(network.fingerprint)).state == "resolved"
    clock.advance(60)
    await here.enqueue("net-x", {}, ["api"], "connection refused: attempt 99")
    await here.groups.list()  # what this process has written is seen by searches from here on
    assert [await there.groups.refresh() for _ in "ab"] in ([1, 0], [0, 0])
    view = await there.groups.get(network.fingerprint)
    assert (view.state, view.regression, view.group.regressions, view.total) == ("new", True, 1, 13)


@pytest.mark.opensearch
async def test_looks_from_two_processes_mark_a_regression_once(queues: list[DeadLetterQueue]) -> None:
    """Whichever is quicker."""
    here, there = queues
    clock = here.clock
    assert isinstance(clock, ManualClock)
    letters = [await here.enqueue(f"{number}", {}, [], f"cause {chr(97 + number)}") for number in range(5)]
    for letter in letters:
        await here.groups.update(str(letter.fingerprint), by="ann", state="resolved")
    clock.advance(60)
    await asyncio.gather(*(there.enqueue(f"n{number}", {}, [], f"cause {chr(97 + number)}") for number in range(5)))
    await asyncio.gather(here.groups.list(), there.groups.list())

    await asyncio.gather(*(queue.groups.refresh() for queue in queues * 3))

    views = [await here.groups.get(str(letter.fingerprint)) for letter in letters]
    assert [view.group.regressions for view in views] == [1] * 5
    done = await here.audit.list(actor="rule", outcome="done")
    assert len(done.items) == 5


# As letters were kept before they could be searched by when their task was captured last.
BEFORE = dataclasses.replace(
    LETTERS,
    fields=tuple(each for each in LETTERS.fields if each.name != "captured_at"),
    indexes=(("fingerprint", "resolution_status", "created_at", "occurrences"),),
)


@pytest.fixture(params=["sqlite", pytest.param("opensearch", marks=pytest.mark.opensearch)])
def store_of(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Kind[Any]], Store]:
    """The same file or index, opened for letters of this kind."""
    if request.param == "sqlite":
        return lambda kind: SQLiteStore(tmp_path / "letters.db", kinds=_with(kind))
    url, prefix = request.getfixturevalue("opensearch_url"), request.getfixturevalue("opensearch_prefix")
    return lambda kind: OpenSearchStore(url, prefix=prefix, timeout=PATIENT, kinds=_with(kind))


def _with(letters: Kind[Any]) -> list[Kind[Any]]:
    return [letters if kind is LETTERS else kind for kind in KINDS]


async def fingerprint_of(error: str) -> str:
    async with DeadLetterQueue() as queue:
        return str((await queue.enqueue("any", {}, [], error)).fingerprint)


async def test_letters_of_an_older_version_come_back_like_new_ones(store_of: Callable[[Kind[Any]], Store]) -> None:
    """Before their next failure they count by when they were created."""
    causes = {name: await fingerprint_of(f"cannot open door {name * 3}") for name in "ab"}
    old = [make_letter(task_id=name, fingerprint=causes[name], retry_policy="never", due_at=None) for name in "ab"]
    async with store_of(BEFORE) as store:
        await store.collection(BEFORE).write(old)
    clock = ManualClock(START)
    async with DeadLetterQueue(store=store_of(LETTERS), clock=clock) as queue:
        clock.advance(3600)
        for name in "ab":
            view = await queue.groups.update(causes[name], by="ann", state="resolved")
            assert (view.state, view.count) == ("resolved", 1)
        assert await queue.groups.refresh() == 0
        clock.advance(3600)
        await queue.enqueue("a", old[0].task, [], "cannot open door aaa")

        assert await queue.groups.refresh() == 1
        views = [await queue.groups.get(causes[name]) for name in "ab"]
        assert [(view.state, view.regression) for view in views] == [("new", True), ("resolved", False)]
        assert [view.sample and view.sample.task_id for view in views] == ["a", "b"]
        await queue.groups.update(causes["a"], by="ann", state="resolved")
        assert await queue.groups.refresh() == 0


@pytest.mark.opensearch
async def test_a_task_that_fails_again_elsewhere_brings_its_group_back(queues: list[DeadLetterQueue]) -> None:
    """Its failure is merged into the letter that was open when somebody said resolved."""
    here, there = queues
    clock = here.clock
    assert isinstance(clock, ManualClock)
    letters = [await here.enqueue(name, {}, [], f"cause {name}", retry_policy="never") for name in ("red", "blue")]
    red, blue = (letter.fingerprint or "" for letter in letters)
    for fingerprint in (red, blue):
        await here.groups.update(fingerprint, by="ann", state="resolved")
    clock.advance(60)
    await there.enqueue("red", {}, [], "cause red")
    await there.groups.list()

    view, other = await here.groups.get(red), await here.groups.get(blue)
    assert (view.state, view.regression, view.count, view.occurrences) == ("new", True, 1, 2)
    assert (other.state, other.regression) == ("resolved", False)


async def test_what_was_said_in_an_outage_is_not_lost() -> None:
    """Nor is what had been said before; and no group is resolved because its letters are away."""
    clock, faults = ManualClock(), Faults()
    primary = FaultyStore(MemoryStore(), faults)
    store = FallbackStore(primary, MemoryStore(), kinds=KINDS, clock=clock)
    async with DeadLetterQueue(store=store, clock=clock) as queue:
        known = (await queue.enqueue("wf_1", {}, [], "cause a")).fingerprint or ""
        await queue.groups.update(known, by="ann", state="waiting_for_fix", owner="ann", note="before")
        faults.unavailable()
        fresh = (await queue.enqueue("wf_2", {}, [], "cause b")).fingerprint or ""
        page = await queue.groups.list()
        assert page.degraded
        assert await queue.groups.refresh() == 0
        await queue.enqueue("wf_3", {}, [], "cause a")
        view = await queue.groups.update(fresh, by="bob", note="meanwhile")
        assert view.degraded and view.version is not None
        blind = await queue.groups.update(known, by="bob", note="here too")
        assert blind.degraded
        faults.clear()
        await store.drain()
        assert (await store.health()).waiting == 0

        view = await queue.groups.get(known)
        assert [note.text for note in view.group.notes] == ["before", "here too"]
        assert (view.state, view.owner, view.count) == ("waiting_for_fix", "ann", 2)


LOOK = """
import asyncio, sys
from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.stores.sqlite import SQLiteStore

async def main():
    async with DeadLetterQueue(store=SQLiteStore(sys.argv[1], kinds=KINDS)) as queue:
        print("ready", flush=True)
        sys.stdin.readline()
        print(await queue.groups.refresh())

asyncio.run(main())
"""


async def test_several_processes_look_at_once(tmp_path: Path) -> None:
    """Each regression is written down by one of them."""
    path = tmp_path / "letters.db"
    async with DeadLetterQueue(store=SQLiteStore(path, kinds=KINDS)) as queue:
        names = [(await queue.enqueue(f"{n}", {}, [], f"cause {chr(97 + n)}")).fingerprint or "" for n in range(20)]
        for name in names:
            await queue.groups.update(name, by="ann", state="resolved")
        await asyncio.gather(*(queue.enqueue(f"n{n}", {}, [], f"cause {chr(97 + n)}") for n in range(20)))
        looking = [
            await asyncio.create_subprocess_exec(
                sys.executable, "-c", LOOK, str(path), stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            for _ in range(3)
        ]
        for process in looking:
            assert process.stdout is not None and await process.stdout.readline() == b"ready\n"
        said = await asyncio.gather(*(process.communicate(b"\n") for process in looking))

        views = [await queue.groups.get(name) for name in names]
        done = await queue.audit.list(actor="rule", outcome="done")

    assert [process.returncode for process in looking] == [0, 0, 0]
    assert [view.group.regressions for view in views] == [1] * 20
    assert len(done.items) == 20 and sum(int(answer) for answer, _ in said) >= 20
