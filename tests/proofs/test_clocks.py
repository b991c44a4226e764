"""Suspended workers and wrong clocks: no run begins beside a living owner, and no outcome counts twice."""

from __future__ import annotations

import os
import signal
import sys
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen
from typing import Any

import pytest

from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.model import lifecycle
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import Is, Query
from mahavishnu.stores.base import scan
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.urls import open_store
from mahavishnu.testing import make_letter
from tests.support.node import CLOCK, ROOT, Node, nobody_writes, start, until

pytestmark = [pytest.mark.opensearch, pytest.mark.faults, pytest.mark.prove]
LEASE_SECONDS = 3.0
Line = tuple[str, str, int]  # what, task, pid


def due(task_id: str, seconds: float) -> DeadLetter:
    """Due by any of the clocks."""
    then = CLOCK.now() - timedelta(minutes=15)
    dates = {"created_at": then, "failed_at": then, "updated_at": then, "due_at": then}
    return make_letter(task_id=task_id, task={"do": "last", "seconds": seconds}, **dates)


def lines(log: Path) -> list[Line]:
    """What was done, in the order in which it was."""
    found = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
    return [(words[0], words[1], int(words[3])) for words in found if len(words) == 4]


def runs_beside_others(done: Sequence[Line]) -> list[Line]:
    """Runs that began while another process was running the same letter."""
    running: dict[str, set[int]] = defaultdict(set)
    beside = []
    for what, task, pid in done:
        if what == "start":
            if running[task] - {pid}:
                beside.append((what, task, pid))
            running[task].add(pid)
        else:
            running[task].discard(pid)
    return beside


async def outcomes(url: str, letters: int) -> tuple[int, int]:
    """How many leases ran out. Every letter is completed once, and is sound."""
    async with open_store(url, kinds=KINDS) as store:
        found = [letter async for letter in scan(store.collection(LETTERS), Query())]
    assert len(found) == letters
    for letter in found:
        assert (letter.status, letter.tallies.retry_success, letter.tallies.retry_failed) == ("completed", 1, 0)
        assert lifecycle.violations(letter) == []
    return sum(letter.tallies.claims_recovered for letter in found), sum(letter.total_attempts for letter in found)


def options_of(url: str, log: Path, **more: Any) -> dict[str, Any]:
    limits = {"lease_seconds": LEASE_SECONDS, "concurrency": 4, "skew_seconds": 1.0}
    return {"url": url, "log": str(log), "limits": limits, **more}


@pytest.mark.parametrize("minutes", [10, -10])
async def test_one_of_three_workers_has_a_wrong_clock(store_url: str, tmp_path: Path, minutes: int) -> None:
    """Each run takes longer than a lease, which its owner renews."""
    log, count = tmp_path / "log", 30
    async with open_store(store_url, kinds=KINDS) as store:
        await store.collection(LETTERS).write([due(f"wf-{number}", 2 * LEASE_SECONDS) for number in range(count)])
    workers = [start(**options_of(store_url, log, minutes_ahead=ahead)) for ahead in (minutes, 0, 0)]
    try:
        for worker in workers:
            worker.ready()
        await until(lambda: sum(what == "end" for what, _, _ in lines(log)) >= count)
        counts = [worker.finish() for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    assert all(each["claimed"] for each in counts), "everybody had something to do"
    assert runs_beside_others(lines(log)) == []
    assert await outcomes(store_url, count) == (0, count)


async def test_letters_of_a_dead_worker_whose_clock_was_behind_come_back(store_url: str, tmp_path: Path) -> None:
    """Its leases had ended before they began, by the clocks of the others: they are watched all the same."""
    log, count = tmp_path / "log", 8
    async with open_store(store_url, kinds=KINDS) as store:
        await store.collection(LETTERS).write([due(f"wf-{number}", 2 * LEASE_SECONDS) for number in range(count)])
    behind = start(**options_of(store_url, log, minutes_ahead=-10))
    other: Node | None = None
    try:
        behind.ready()
        await until(lambda: len(lines(log)) >= 4)
        behind.kill()
        other = start(**options_of(store_url, log))
        other.ready()
        await until(lambda: sum(what == "end" for what, _, _ in lines(log)) >= count)
        other.finish()
    finally:
        behind.kill()
        if other is not None:
            other.kill()
    recovered, attempts = await outcomes(store_url, count)
    assert recovered == attempts - count >= 4


async def test_a_worker_that_was_suspended_starts_nothing_that_others_have_taken(
    store_url: str, tmp_path: Path
) -> None:
    """Not what it ran, and not what waited for a place; what it ended meanwhile does not count."""
    log, count = tmp_path / "log", 24
    async with open_store(store_url, kinds=KINDS) as store:
        await store.collection(LETTERS).write([due(f"wf-{number}", 1.0) for number in range(count)])
    suspended = start(**options_of(store_url, log))
    other: Node | None = None
    try:
        suspended.ready()

        def is_busy() -> bool:
            """Return whether some runs have ended, so that others wait for a place, and some have begun."""
            begun, ended = (sum(what == wanted for what, _, _ in lines(log)) for wanted in ("start", "end"))
            return begun > ended >= 4

        await until(is_busy)
        with nobody_writes(store_url):
            suspended.signal(signal.SIGSTOP)
        before = len(lines(log))
        other = start(**options_of(store_url, log))
        other.ready()
        async with open_store(store_url, kinds=KINDS) as store:
            letters = store.collection(LETTERS)

            async def are_completed() -> bool:
                tally = await letters.tally(Query((Is("status", ("completed",)),)))
                return tally.total.count == count

            await until(are_completed, 0.5)
            assert other.finish()["claimed"] > 4, "what waited for a place was taken, too"
            woken = len(lines(log))
            suspended.signal(signal.SIGCONT)
            await letters.write([due("fresh", 0.0)])
            await until(lambda: ("end", "fresh", suspended.process.pid) in lines(log))
        counts = suspended.finish()
    finally:
        suspended.kill()
        if other is not None:
            other.kill()
    done = lines(log)
    assert [task for what, task, _ in done[woken:] if what == "start"] == ["fresh"]
    assert runs_beside_others(done[:before]) == []
    assert counts["stale_claims"] > 0
    recovered, attempts = await outcomes(store_url, count + 1)
    assert recovered == attempts - count - 1 > 4


APP = """
import asyncio, os
from mahavishnu.core import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings

app = MahavishnuApp(MahavishnuSettings.load("settings.yaml"))


async def work(task, repos):
    line = f"start {task['id']} key {os.getpid()}\\n"
    with open("log", "a") as log:
        log.write(line)
    await asyncio.sleep(task["seconds"])
    with open("log", "a") as log:
        log.write(line.replace("start", "end"))


app.register_adapter("work", work)
"""


async def test_leases_that_a_reload_makes_shorter_are_kept(store_url: str, tmp_path: Path) -> None:
    """The settings of two running workers are read again; what they claim from then on is renewed in time."""
    (tmp_path / "shop.py").write_text(APP)
    log, count = tmp_path / "log", 1  # the other worker has nothing to do

    def write_settings(lease_seconds: int) -> None:
        (tmp_path / "settings.yaml").write_text(
            f"dlq_store_url: {store_url}\ndlq_claim_lease_seconds: {lease_seconds}\n"
            "dlq_clock_skew_grace_seconds: 0\ndlq_retry_interval_seconds: 10\ndlq_retry_concurrency: 12\n"
        )

    def worker() -> Popen[str]:
        command = [sys.executable, "-m", "mahavishnu", "--settings", "settings.yaml", "worker", "--app", "shop:app"]
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"}
        return Popen(command, cwd=tmp_path, env=environment, stdout=PIPE, stderr=STDOUT, text=True)

    write_settings(300)
    workers = [worker() for _ in range(2)]
    try:
        for each in workers:
            said(each, "retries letters of")
        write_settings(2)
        for each in workers:
            each.send_signal(signal.SIGHUP)
            said(each, "dlq_claim_lease_seconds")
        async with open_store(store_url, kinds=KINDS) as store, DeadLetterQueue(store=store) as queue:
            for number in range(count):
                task = {"id": f"wf-{number}", "adapter": "work", "seconds": 30}
                await queue.enqueue(task["id"], task, [], "connection refused", "immediate")  # type: ignore[arg-type]
        await until(lambda: sum(what == "end" for what, _, _ in lines(log)) >= count)
        for each in workers:
            each.send_signal(signal.SIGTERM)
            said(each, "stopped")
            assert each.wait(60) == 0
    finally:
        for each in workers:
            each.kill()
            each.wait()
            if each.stdout is not None:
                each.stdout.close()
    assert runs_beside_others(lines(log)) == []
    assert await outcomes(store_url, count) == (0, count)


def said(process: Popen[str], what: str) -> None:
    """Return when it has printed this."""
    assert process.stdout is not None
    before = []
    for line in process.stdout:
        if what in line:
            return
        before.append(line)
    raise AssertionError(f"it ended without saying {what!r}: {before}")
