"""Two apps and one that runs the version before share a store: each call is run by its own app, whoever is killed.

`EARLIER_VERSION` may name a checkout of the version before; without it, that one is imitated.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.core.dead_letter_queue import KINDS
from mahavishnu.model import lifecycle
from mahavishnu.model.letter_parts import DeadLetterStatus
from mahavishnu.model.query import Is, Query
from mahavishnu.stores.base import Store, scan
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.urls import open_store
from tests.support.node import ROOT, Node, until

pytestmark = pytest.mark.faults
EARLIER = os.environ.get("EARLIER_VERSION")
APPS: dict[str, dict[str, Any]] = {
    "typed": {"typed": True},
    "plain": {},
    "earlier": {"earlier": "real" if EARLIER else "imitated"},
}


def start(name: str, calls: int, folder: Path, **options: Any) -> Node:
    """A process of this app that may not be ready yet."""
    given = {"name": name, "calls": calls, **options, **APPS[name]}
    code = EARLIER if given.get("earlier") == "real" and EARLIER else str(ROOT)
    command = [sys.executable, str(ROOT / "tests/proofs/app_node.py"), json.dumps(given)]
    environment = {**os.environ, "PYTHONPATH": code}
    return Node(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=folder))


def runs(log: Path) -> list[list[str]]:
    lines = log.read_text().splitlines() if log.exists() else []
    return [words[1:] for words in map(str.split, lines) if words[0] == "run" and len(words) == 5]


async def ended(store: Store) -> int:
    done = Query((Is("status", (DeadLetterStatus.COMPLETED, DeadLetterStatus.EXHAUSTED)),))
    return (await store.collection(LETTERS).tally(done)).total.count


@pytest.fixture(params=["sqlite", pytest.param("opensearch", marks=[pytest.mark.prove, pytest.mark.opensearch])])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/letters.db"
    address, prefix = request.getfixturevalue("opensearch_url"), request.getfixturevalue("opensearch_prefix")
    return f"{str(address).replace('http', 'opensearch', 1)}/{prefix}?timeout=10"


@pytest.mark.parametrize("calls", [30, pytest.param(500, marks=pytest.mark.prove)])
async def test_each_call_is_run_by_its_own_app_whoever_is_killed(url: str, tmp_path: Path, calls: int) -> None:
    log = tmp_path / "log"
    options: dict[str, Any] = {"url": url, "log": str(log)}
    kills: Counter[str] = Counter()
    nodes = {name: [start(name, calls, tmp_path, **options)] for name in APPS}
    try:
        for name, (first,) in nodes.items():
            first.ready()
            nodes[name].append(start(name, 0, tmp_path, **options))
        for name, workers in nodes.items():  # the one that has claimed its share, while the other one comes
            workers[0].kill()
            kills[name] += 1
            workers[1].ready()
            workers[0] = start(name, 0, tmp_path, **options)
        for name, workers in nodes.items():
            workers[0].ready()
            workers[1].kill()
            kills[name] += 1
        async with open_store(url, kinds=KINDS) as store:

            async def all_are_done() -> bool:
                return await ended(store) == 3 * calls

            await until(all_are_done, 0.5)
            letters = [letter async for letter in scan(store.collection(LETTERS), Query())]
    finally:
        for workers in nodes.values():
            for node in workers:
                node.kill()

    assert {letter.task_id for letter in letters} == {f"{name}:{n}" for name in APPS for n in range(calls)}
    ran: defaultdict[str, set[str]] = defaultdict(set)
    for task, key, app, arguments in runs(log):
        assert (app, arguments) == (task.partition(":")[0], "right")
        ran[task].add(key)
    assert len(ran) == 3 * calls
    assert {len(keys) for keys in ran.values()} == {1}, "a run that a kill cut off was repeated as the same one"
    for letter in letters:
        assert lifecycle.violations(letter) == []
        assert (letter.retry_count, letter.tallies.retry_failed, letter.tallies.retry_success) == (0, 0, 1)
        assert letter.total_attempts == 1 + letter.tallies.claims_recovered, "no stranger has tried it"
    repeated = Counter(task for task, *_ in runs(log))
    unwritten = 20 * 4  # for each of the places of an app
    assert sum(repeated.values()) <= 3 * calls + unwritten * sum(kills.values()), (
        "at most what was unwritten at each kill"
    )
