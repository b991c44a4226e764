"""Count the modules that one thing that happens goes through: `python -m benchmarks.walks [part of a walk's name …]`.

Each walk is done a few times until nothing is imported or made for the first time any more, and then under a profiler,
on every thread, the store's writer included. Counted are the calls of functions of mahavishnu, without lambdas and
comprehensions (a coroutine that goes on counts as a call, as `sys.setprofile` sees it), the functions, the modules, and
the *changes*: how often a call is in another package than the call before it on its thread. A package is a folder
directly below `mahavishnu`.

`--check` fails for a walk above its limit in tools/ratchets.toml, which has the goal beside it; `--write` lowers limits
to what was counted; `--modules` lists the calls of each module, and the changes from package to package. Another
checkout is counted by `PYTHONPATH=<checkout> python benchmarks/walks.py`, as far as it has the public names used here.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import httpx

import mahavishnu
from mahavishnu.core import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings

HOME = str(Path(mahavishnu.__file__).parent) + "/"
WARM, ROUNDS = 2, 3
MEMBERS = 1  # letters of the bulk run
_numbers = count()


class Recorder:
    """The calls into mahavishnu while it is on, in the order in which each thread makes them."""

    def __init__(self) -> None:
        self.on = False
        self.calls: dict[int, list[CodeType]] = defaultdict(list)

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if self.on and event == "call" and code.co_filename.startswith(HOME) and not code.co_name.startswith("<"):
            self.calls[threading.get_ident()].append(code)

    async def record(self, act: Callable[[], Awaitable[object]]) -> Walk:
        """Do `act`, and return what it calls until it is over."""
        self.calls.clear()
        self.on = True
        try:
            await act()
        finally:
            self.on = False
        return Walk([[*calls] for calls in self.calls.values()])


@dataclass(frozen=True)
class Walk:
    """The calls of one round, by thread: in which order two threads call is chance, so it does not count."""

    threads: Sequence[Sequence[CodeType]]

    @property
    def numbers(self) -> dict[str, int]:
        """What is counted of it."""
        made = [code for calls in self.threads for code in calls]
        return {
            "calls": len(made),
            "functions": len(set(made)),
            "modules": len(self.modules),
            "changes": sum(self.changes.values()),
        }

    @property
    def modules(self) -> Counter[str]:
        """The calls of each module."""
        return Counter(code.co_filename.removeprefix(HOME) for calls in self.threads for code in calls)

    @property
    def changes(self) -> Counter[str]:
        """How often it goes from one package to another."""
        return Counter(
            f"{package_of(one)} → {package_of(other)}"
            for calls in self.threads
            for one, other in pairwise(calls)
            if package_of(one) != package_of(other)
        )


def package_of(code: CodeType) -> str:
    """Return the folder below the package; what is in none is `mahavishnu`."""
    folder, slash, _ = code.co_filename.removeprefix(HOME).partition("/")
    return folder if slash else "mahavishnu"


async def fails(task: Any, repos: list[str]) -> None:
    """The workflow of all walks: one that fails."""
    raise ConnectionResetError(104, "connection reset by peer")


@asynccontextmanager
async def open_app(folder: Path) -> AsyncIterator[MahavishnuApp]:
    """Open an app on an SQLite file that retries its failures at once when it is asked to."""
    settings: dict[str, Any] = {"dlq_automatic_policy": "default", "dlq_default_retry_policy": "immediate"}
    settings |= {"circuit": {"failure_threshold": 1000}, "dlq_store_url": f"sqlite:///{folder}/{next(_numbers)}.db"}
    async with MahavishnuApp(MahavishnuSettings(**settings)) as app:
        app.register_adapter("fails", fails)
        await app.start_dlq_processor()  # this makes `run_again` the queue's callback; nothing runs by itself now
        await app.stop_dlq_processor()
        yield app


async def clear_and_fail(app: MahavishnuApp) -> str:
    """Delete the letters of the rounds before, and make one. Returns its id."""
    await queue(app).clear_all()
    return await fail_once(app)


async def fail_once(app: MahavishnuApp) -> str:
    """A run fails, and is kept. Returns its id."""
    result = await app.execute_workflow({"n": next(_numbers)}, "fails", ["api"])
    assert result["dlq_enqueued"], result
    return str(result["workflow_id"])


# Prepares one round of a walk, and returns what is then recorded.
Prepare = Callable[[MahavishnuApp], Awaitable[Callable[[], Awaitable[object]]]]


async def capture(app: MahavishnuApp) -> Callable[[], Awaitable[object]]:
    """A call fails, and is a letter on SQLite."""
    return lambda: fail_once(app)


async def due_letter(app: MahavishnuApp) -> Callable[[], Awaitable[object]]:
    """Find one due letter, claim it, run it, have it fail, settle it."""
    await clear_and_fail(app)

    async def run() -> None:
        assert await queue(app).run_due() == 1

    return run


async def retry(app: MahavishnuApp) -> Callable[[], Awaitable[object]]:
    name = await clear_and_fail(app)
    return lambda: queue(app).retry_task(name, by="ann", force=True)


async def statistics(app: MahavishnuApp) -> Callable[[], Awaitable[object]]:
    return lambda: queue(app).get_statistics()


async def http_redrive(app: MahavishnuApp) -> Callable[[], Awaitable[object]]:
    """POST /api/v1/dlq/{id}/redrive."""
    name = await clear_and_fail(app)

    async def request() -> None:
        async with client_of(app) as client:
            answer = await client.post(f"/api/v1/dlq/{name}/redrive", json={"notes": "once more"})
            assert answer.status_code == 200, answer.text

    return request


async def archive_letter(app: MahavishnuApp) -> Callable[[], Awaitable[object]]:
    """Archive the one letter that is closed."""
    name = await clear_and_fail(app)
    await queue(app).letters.resolve(name, by="ann")

    async def archive() -> None:
        result = await queue(app).archive.archive_completed_tasks(retention_days=0, dry_run=False)
        assert result.tasks_archived == 1, result

    return archive


async def dead_item(app: MahavishnuApp) -> Callable[[], Awaitable[object]]:
    """A leased item fails for the last time, and moves to its dead queue."""
    queues = queue(app).queues
    if not await queues.list():
        await queues.create("dead")
        await queues.create("work", dead_queue="dead", retry={"attempts": 1, "cooldown": "0s"})
    await queues.produce("work", {"n": next(_numbers)})
    [lease] = await queues.lease("work", "worker", limit=1)

    async def fail() -> None:
        item = await queues.retry("work", lease.item.id, lease.token, error="connection reset by peer")
        assert item.status == "dead", item

    return fail


async def bulk_slice(app: MahavishnuApp) -> Callable[[], Awaitable[object]]:
    """Plan a bulk run, and work on its first slice."""
    names = [await clear_and_fail(app), *[await fail_once(app) for _ in range(MEMBERS - 1)]]
    await queue(app).runs.start("redrive", task_id=names, by="ann")

    async def slice_() -> None:
        assert await queue(app).runs.advance()

    return slice_


WALKS: dict[str, Prepare] = {
    "capture": capture,
    "due letter": due_letter,
    "HTTP redrive": http_redrive,
    "archive one letter": archive_letter,
    "queue item to its dead queue": dead_item,
    "retry by hand": retry,
    "statistics": statistics,
    "slice of a bulk run": bulk_slice,
}


def queue(app: MahavishnuApp) -> Any:
    assert app.dlq is not None
    return app.dlq


_apis: dict[MahavishnuApp, Any] = {}


def client_of(app: MahavishnuApp) -> httpx.AsyncClient:
    """Return a client of the HTTP API in this process."""
    from mahavishnu.core.api import create_app  # checkouts without it have other walks

    if app not in _apis:
        _apis[app] = create_app(queue(app))
    return httpx.AsyncClient(transport=httpx.ASGITransport(_apis[app]), base_url="http://localhost")


async def measure(prepare: Prepare, recorder: Recorder, folder: Path) -> list[Walk]:
    """Return the rounds, those with the fewest changes first."""
    walks = []
    async with open_app(folder) as app:
        for round_ in range(WARM + ROUNDS):
            walk = await recorder.record(await prepare(app))
            if round_ >= WARM:
                walks.append(walk)
    return sorted(walks, key=lambda walk: walk.numbers["changes"])


def do_walks(names: Sequence[str]) -> Iterator[tuple[str, list[Walk]]]:
    """Yield the rounds of each walk."""
    recorder = Recorder()
    logging.disable(logging.CRITICAL)
    threading.setprofile(recorder)
    sys.setprofile(recorder)
    try:
        with tempfile.TemporaryDirectory() as folder:
            for name in names:
                yield name, asyncio.run(measure(WALKS[name], recorder, Path(folder)))
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        logging.disable(logging.NOTSET)


def check(limits: Mapping[str, int], *, write: bool = False) -> int:
    """Hold the walks to their limits, or lower these. One below may be so with this Python only: it does not fail."""
    from tools import ratchets  # other checkouts do not have it

    values: dict[str, int] = {}
    for name, rounds in do_walks([each for each in WALKS if f"{each}: modules" in limits]):
        numbers = rounds[len(rounds) // 2].numbers
        values |= {f"{name}: {counted}": numbers[counted] for counted in ("modules", "changes")}
    if write:
        limits = {**limits, **ratchets.lower(values, "walks")}
    hints = {each: f'python -m benchmarks.walks --modules "{each.partition(":")[0]}"' for each in values}
    problems = list(ratchets.above(values, limits, hints))
    for line in (*problems, *ratchets.below(values, limits, "python -m benchmarks.walks --write")):
        print(line, file=sys.stderr)
    return 1 if problems else 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Count the modules that one thing that happens goes through.")
    parser.add_argument("part", nargs="*", help="of the names of walks; without any, all walks are done")
    parser.add_argument("--check", action="store_true", help="fail for a walk above its limit")
    parser.add_argument("--write", action="store_true", help="lower limits to what was counted")
    parser.add_argument("--modules", action="store_true", help="list the calls of each module")
    options = parser.parse_args(arguments)
    if options.check or options.write:
        from tools import ratchets

        return check(ratchets.read()["walks"], write=options.write)
    print(f"{'walk':<34}{'calls':>8}{'functions':>11}{'modules':>9}{'changes':>9}   spread")
    names = [name for name in WALKS if not options.part or any(part in name for part in options.part)]
    for name, rounds in do_walks(names):
        walk = rounds[len(rounds) // 2]
        numbers = walk.numbers
        spread = f"{rounds[0].numbers['changes']}–{rounds[-1].numbers['changes']}"
        print(f"{name:<34}{numbers['calls']:>8,}{numbers['functions']:>11}{numbers['modules']:>9}", end="")
        print(f"{numbers['changes']:>9}   {spread}")
        if options.modules:
            print(*(f"  {calls:>6} {module}" for module, calls in walk.modules.most_common()), sep="\n")
            print(*(f"  {times:>6} {change}" for change, times in walk.changes.most_common()), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
