"""How many modules one thing that happens goes through: `python -m benchmarks.walks [part of a walk's name …]`.

Each walk is done a few times until nothing is imported or made for the first time any more, and then under a profiler,
on every thread, the store's writer included. Counted are the calls of functions of mahavishnu, without lambdas and
comprehensions (a coroutine that goes on counts as a call, as `sys.setprofile` sees it), the functions, the modules, and
the *switches*: how often a call is in another package than the call before it. A package is the top-level folder below
`mahavishnu`, so `stores/sqlite/` is `stores`; what was once `console/` is two, `api` and `cli`, as it is now.

Nothing but public names is used, so that another checkout can be measured, by
`PYTHONPATH=<checkout> python benchmarks/walks.py`.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import count, pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import httpx

import mahavishnu
from mahavishnu.core import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings

HOME = str(Path(mahavishnu.__file__).parent) + "/"
WARM, ROUNDS = 3, 5
MEMBERS = 1  # letters of the bulk run
_numbers = count()


class Recorder:
    """The calls into mahavishnu while it is on, in the order in which they happen, whichever thread makes them."""

    def __init__(self) -> None:
        self.on = False
        self.calls: list[CodeType] = []

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if self.on and event == "call" and code.co_filename.startswith(HOME) and not code.co_name.startswith("<"):
            self.calls.append(code)

    async def record(self, act: Callable[[], Awaitable[object]]) -> Walk:
        """What `act` calls until it is over."""
        self.calls = []
        self.on = True
        try:
            await act()
        finally:
            self.on = False
        return walk_of(self.calls)


@dataclass(frozen=True)
class Walk:
    """What was counted of one walk."""

    calls: int
    functions: int
    modules: int
    switches: int


def walk_of(calls: list[CodeType]) -> Walk:
    """The numbers."""
    packages = [package_of(code.co_filename) for code in calls]
    return Walk(
        calls=len(calls),
        functions=len(set(calls)),
        modules=len({code.co_filename for code in calls}),
        switches=sum(one != other for one, other in pairwise(packages)),
    )


def package_of(path: str) -> str:
    """The top-level folder; `console` was the name of two of today's."""
    folders = path.removeprefix(HOME).split("/")[:-1]
    if folders[:1] == ["console"]:
        return "api" if folders[1:2] == ["api"] else "cli"
    return folders[0] if folders else "mahavishnu"


async def fails(task: Any, repos: list[str]) -> None:
    """The workflow of all walks: one that fails."""
    raise ConnectionResetError(104, "connection reset by peer")


@asynccontextmanager
async def open_app(folder: Path) -> AsyncIterator[MahavishnuApp]:
    """An app on an SQLite file that retries its failures at once when it is asked to."""
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
    return lambda: fail_once(app)


async def due_letter(app: MahavishnuApp) -> Callable[[], Awaitable[object]]:
    await clear_and_fail(app)
    return lambda: queue(app).run_due()


async def retry(app: MahavishnuApp) -> Callable[[], Awaitable[object]]:
    name = await clear_and_fail(app)
    return lambda: queue(app).retry_task(name, by="ann", force=True)


async def statistics_asked(app: MahavishnuApp) -> Callable[[], Awaitable[object]]:
    return lambda: queue(app).get_statistics()


async def http_redrive(app: MahavishnuApp) -> Callable[[], Awaitable[object]]:
    name = await clear_and_fail(app)

    async def request() -> None:
        async with client_of(app) as client:
            answer = await client.post(f"/api/v1/dlq/{name}/redrive", json={"notes": "once more"})
            assert answer.status_code == 200, answer.text

    return request


async def bulk_slice(app: MahavishnuApp) -> Callable[[], Awaitable[object]]:
    names = [await clear_and_fail(app), *[await fail_once(app) for _ in range(MEMBERS - 1)]]
    runs = getattr(queue(app), "runs", queue(app))  # it was a part of the queue itself
    start = getattr(runs, "start_run", None) or runs.start
    work = getattr(runs, "work_runs", None) or runs.advance
    await start("redrive", task_id=names, by="ann")

    async def slice_() -> None:
        assert await work()

    return slice_


WALKS: dict[str, Prepare] = {
    "failing run → letter on SQLite": capture,
    "one due letter: find, claim, run, fail, settle": due_letter,
    "retry by hand": retry,
    "statistics": statistics_asked,
    "POST /api/v1/dlq/{id}/redrive": http_redrive,
    "bulk run: one `runs.advance` (plan, one slice)": bulk_slice,
}


def queue(app: MahavishnuApp) -> Any:
    assert app.dlq is not None
    return app.dlq


_apis: dict[MahavishnuApp, Any] = {}


def client_of(app: MahavishnuApp) -> httpx.AsyncClient:
    """Of the HTTP API in this process."""
    if app not in _apis:
        _apis[app] = api_package().create_app(queue(app))
    return httpx.AsyncClient(transport=httpx.ASGITransport(_apis[app]), base_url="http://localhost")


def api_package() -> Any:
    """`mahavishnu.core.api`, or what it was once called."""
    try:
        return import_module(f"{mahavishnu.__name__}.api")
    except ModuleNotFoundError:
        return import_module(f"{mahavishnu.__name__}.console.api")


async def measure(prepare: Prepare, recorder: Recorder, folder: Path) -> Walk:
    """The median round, by switches."""
    async with open_app(folder) as app:
        walks = []
        for round_ in range(WARM + ROUNDS):
            act = await prepare(app)
            walk = await recorder.record(act)
            if round_ >= WARM:
                walks.append(walk)
    return sorted(walks, key=lambda walk: walk.switches)[len(walks) // 2]


def main(wanted: list[str]) -> None:
    """Print a table."""
    logging.disable(logging.CRITICAL)
    recorder = Recorder()
    threading.setprofile(recorder)
    sys.setprofile(recorder)
    print(f"{'walk':<48}{'calls':>8}{'functions':>11}{'modules':>9}{'switches':>10}")
    with tempfile.TemporaryDirectory() as folder:
        for name, prepare in WALKS.items():
            if not wanted or any(part in name for part in wanted):
                walk = asyncio.run(measure(prepare, recorder, Path(folder)))
                print(f"{name:<48}{walk.calls:>8,}{walk.functions:>11}{walk.modules:>9}{walk.switches:>10}")


if __name__ == "__main__":
    main(sys.argv[1:])
