"""This tree against another checkout: `python -m benchmarks.compare --before <checkout> [part of a figure's name …]`.

The same small programs, which use public names only, run in turns in processes of their own, once with each tree on
`PYTHONPATH`: before, after, after, before, and so on. What is compared are the two of one round, since the machine is
faster in one minute than in the next; the table has the medians over all rounds and the range of the single ratios.
Above 1 is faster than before. `cpu` is the same ratio by the processor time of the measured process, which other
programs on the machine disturb less. With the same tree on both sides the table shows how far it can be trusted.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from mahavishnu.core import MahavishnuApp

HERE = Path(__file__).resolve().parent.parent
WRITERS = 200  # tasks that submit work at the same time
CAPTURES, DUE, JOBS, LONE, LISTED = 5_000, 3_000, 5_000, 400, 50
LONGEST_SECONDS = 180  # that one figure of one tree may take
COMMANDS = 3  # runs of a command in one round: the fastest counts
_numbers = count()


# --- what is measured, in a process that has one of the trees


class Speed(NamedTuple):
    """How many there were in a second by the clock, and in a second of this process's or its child's processor time."""

    wall: float
    cpu: float


async def work(task: Any, repos: list[str]) -> None:
    """Fails the first time."""
    if task["id"] not in _failed:
        _failed.add(task["id"])
        raise ConnectionResetError(104, "connection reset by peer 10.0.0.7:443")


_failed: set[str] = set()


def app_on(url: str) -> MahavishnuApp:
    """An app that keeps every failure, and retries it at once."""
    from mahavishnu.core import MahavishnuApp
    from mahavishnu.core.config import MahavishnuSettings

    settings: dict[str, Any] = {"dlq_store_url": url, "dlq_local_url": "none", "dlq_max_size": 100_000}
    settings |= {"dlq_automatic_policy": "default", "dlq_default_retry_policy": "immediate"}
    app = MahavishnuApp(MahavishnuSettings(**settings, dlq_retry_concurrency=500, circuit={"failure_threshold": 1000}))
    app.register_adapter("work", work)
    return app


async def submit(app: MahavishnuApp, jobs: int) -> None:
    """So many jobs, by many tasks at the same time."""
    names = [f"job-{next(_numbers)}" for _ in range(jobs)]

    async def writer() -> None:
        while names:
            name = names.pop()
            result = await app.execute_workflow({"id": name, "options": {"paths": ["src/app"] * 12}}, "work", ["api"])
            assert result["dlq_enqueued"], result

    await asyncio.gather(*(writer() for _ in range(WRITERS)))


async def speed_of(many: int, act: Callable[[], Awaitable[object]]) -> Speed:
    start, cpu = time.perf_counter(), time.process_time()
    await act()
    return Speed(many / (time.perf_counter() - start), many / (time.process_time() - cpu))


async def capture(url: str) -> Speed:
    """From the call of a workflow that fails to the durable letter."""
    async with app_on(url) as app:
        await submit(app, WRITERS)
        return await speed_of(CAPTURES, lambda: submit(app, CAPTURES))


async def cycle(url: str) -> Speed:
    """Letters that are due: found, claimed, run and settled."""
    async with app_on(url) as app:
        await app.start_dlq_processor(work)
        await app.stop_dlq_processor()  # from now on letters are run when somebody asks for it
        dlq: Any = app.dlq

        async def run(due: int) -> None:
            assert await dlq.run_due() == due

        for due in (WRITERS, DUE):  # the first ones are there to warm up
            await submit(app, due)
            speed = await speed_of(due, partial(run, due))
        return speed


async def jobs(url: str) -> Speed:
    """Jobs that fail once, are kept, retried at once, and succeed."""
    async with app_on(url) as app:
        dlq: Any = app.dlq
        over, left = asyncio.Event(), JOBS

        def listen(event: Any) -> None:
            nonlocal left
            if event.name == "dlq.retry.succeeded":
                left -= 1
                if not left:
                    over.set()

        dlq.context.events.subscribe(listen)
        await app.start_dlq_processor()

        async def run() -> None:
            await submit(app, JOBS)
            await over.wait()

        return await speed_of(JOBS, run)


async def lone_write(url: str) -> Speed:
    """One letter after the other is written: by the median, so many in a second."""
    from mahavishnu.core.dead_letter_queue import KINDS
    from mahavishnu.stores.urls import open_store
    from mahavishnu.testing import make_letter

    task = {"id": "job", "options": {"paths": ["src/app"] * 12}}
    async with open_store(url, local=None, kinds=KINDS) as store:
        letters: Any = store.collection(next(kind for kind in KINDS if kind.name == "letters"))
        speeds = [await speed_of(1, partial(letters.write, [make_letter(task=task)])) for _ in range(LONE + 50)]
    return Speed(*map(statistics.median, zip(*speeds[50:], strict=True)))


def run_once(line: list[str], url: str) -> Speed:
    """A command on this store."""
    start, before = time.perf_counter(), os.times()
    subprocess.run(line, env={**os.environ, "MAHAVISHNU_DLQ_STORE_URL": url}, check=True, capture_output=True)
    wall, after = time.perf_counter() - start, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Speed(1 / wall, 1 / cpu)


def command(*arguments: str) -> Callable[[str], Coroutine[Any, Any, Speed]]:
    """A process of its own that begins, does this and ends."""

    async def run(url: str) -> Speed:
        speeds = [run_once([sys.executable, "-P", *arguments], url) for _ in range(COMMANDS + 1)]
        return Speed(*map(max, zip(*speeds[1:], strict=True)))

    return run


async def list_letters(url: str) -> Speed:
    """`mahavishnu dlq list`."""
    async with app_on(url) as app:
        await submit(app, LISTED)
    return await command("-m", "mahavishnu", "dlq", "list")(url)


# By the figure's name: the program, and the store that it is given.
PROGRAMS: dict[str, tuple[Callable[[str], Coroutine[Any, Any, Speed]], str]] = {
    "capture end to end, SQLite, letters/s": (capture, "sqlite"),
    "find + claim + run + settle, SQLite, letters/s": (cycle, "sqlite"),
    "5,000 jobs fail once, SQLite, jobs/s": (jobs, "sqlite"),
    "lone write, SQLite, letters/s": (lone_write, "sqlite"),
    "capture end to end, OpenSearch, letters/s": (capture, "opensearch"),
    "find + claim + run + settle, OpenSearch, letters/s": (cycle, "opensearch"),
    "5,000 jobs fail once, OpenSearch, jobs/s": (jobs, "opensearch"),
    "lone write, OpenSearch, letters/s": (lone_write, "opensearch"),
    "mahavishnu --help, times/s": (command("-m", "mahavishnu", "--help"), "sqlite"),
    "mahavishnu dlq list, SQLite, times/s": (list_letters, "sqlite"),
    "import typer, rich, pydantic, times/s": (command("-c", "import typer, rich, pydantic"), "sqlite"),
}


def measure(name: str, url: str) -> None:
    """What a process of one tree does: measure one figure, and print it."""
    logging.disable(logging.CRITICAL)
    program, _ = PROGRAMS[name]
    print(*asyncio.run(program(url)))


# --- the two trees in turns


def measure_in(tree: Path, name: str, server: str | None, folder: Path) -> Speed:
    """One figure of one tree."""
    own = f"compare-{os.getpid()}-{next(_numbers)}"
    url = f"sqlite:///{folder}/{own}.db"
    if PROGRAMS[name][1] == "opensearch":
        assert server is not None
        url = f"{server.replace('http', 'opensearch', 1)}/{own}?timeout=60"
    # Both trees get their bytecode from the same place, whatever was compiled in them before.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-P", __file__, "--measure", name, url],
        env=environment | {"PYTHONPATH": str(tree), "PYTHONPYCACHEPREFIX": f"{folder}/bytecode"},
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=LONGEST_SECONDS,
    )
    return Speed(*map(float, done.stdout.split()))


@contextmanager
def server_for(names: list[str]) -> Iterator[str | None]:
    """An OpenSearch, if one of the figures needs it."""
    if not any(PROGRAMS[name][1] == "opensearch" for name in names):
        yield None
        return
    from tests.support.opensearch import Cluster

    with Cluster(heap="1g", lasting=True) as cluster:
        yield cluster.urls[0]


def compare(before: Path, names: list[str], rounds: int) -> None:
    """Print the table, a line as soon as it is known."""
    print(f"{'figure':<52}{'before':>9}{'after':>9}{'ratio':>7}{'cpu':>7}   range of {rounds} rounds: ratio, cpu")
    trees = [before, HERE]
    with tempfile.TemporaryDirectory() as folder, server_for(names) as server:
        for name in names:
            rows = []
            for round_ in range(rounds):
                turn = slice(None, None, -1 if round_ % 2 else 1)  # whoever goes second may find the machine warmer
                figures = [measure_in(tree, name, server, Path(folder)) for tree in trees[turn]]
                rows.append(figures[turn])
            former, after = (statistics.median(each.wall for each in column) for column in zip(*rows, strict=True))
            wall = sorted(new.wall / old.wall for old, new in rows)
            cpu = sorted(new.cpu / old.cpu for old, new in rows)
            print(
                f"{name:<52}{former:>9,.4g}{after:>9,.4g}{statistics.median(wall):>7.2f}{statistics.median(cpu):>7.2f}"
                f"   {wall[0]:.2f} to {wall[-1]:.2f}, {cpu[0]:.2f} to {cpu[-1]:.2f}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="the other checkout")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--measure", nargs=2, metavar=("FIGURE", "STORE"), help=argparse.SUPPRESS)
    parser.add_argument("parts", nargs="*", help="parts of names of figures")
    given = parser.parse_args()
    if given.measure:
        measure(*given.measure)
        return
    names = [name for name in PROGRAMS if not given.parts or any(part in name for part in given.parts)]
    if given.before is None or not (given.before / "mahavishnu").is_dir() or not names:
        parser.error("--before needs a checkout, and the figures have to be some of: " + "; ".join(PROGRAMS))
    compare(given.before.resolve(), names, given.rounds)


if __name__ == "__main__":
    main()
