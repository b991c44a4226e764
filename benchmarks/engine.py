"""The engine: wrapping, capturing, classifying, cycles. `python -m benchmarks.engine [part of a figure's name …]`."""

from __future__ import annotations

import asyncio
import logging
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from multiprocessing import get_context
from typing import Any

from benchmarks.figures import Figure, compared, figure, keep, percentiles
from benchmarks.stores import NOW, Server, fill, letter, work
from mahavishnu.capture.integration import DLQIntegration
from mahavishnu.classify.chain import Chain
from mahavishnu.classify.plugins import Plugins
from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.core.strategies import Decision, Occurrence
from mahavishnu.engine.context import Limits, QueueOptions
from mahavishnu.model.clock import SystemClock, instant
from mahavishnu.model.events import Event, EventName
from mahavishnu.model.ids import PARTITIONS
from mahavishnu.stores.base import Store
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.values.payload import LetterRequest
from mahavishnu.workers.rules import Worker
from tests.support.opensearch import Cluster

WRITERS, EACH = 200, 25
DUE, JOBS = 10_000, 5_000


class LaterClock(SystemClock):
    """An hour after the letters that the benchmarks make are due."""

    offset = NOW + timedelta(hours=1) - SystemClock().now()

    def now(self) -> Any:
        return instant(super().now() + self.offset)


async def nothing(task: Any, repos: list[str]) -> None:
    """A workflow that costs nothing and succeeds."""


async def wrapper() -> Figure:
    """What a workflow that succeeds pays for being looked after."""
    app = MahavishnuApp(MahavishnuSettings(dlq_store_url="memory:"))
    guarded: Any = app.workflow("noop")(nothing)

    async def each(call: Callable[[], Awaitable[object]], times: int = 20_000) -> float:
        start = time.perf_counter()
        for _ in range(times):
            await call()
        return 1e6 * (time.perf_counter() - start) / times

    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: nothing({}, []),
        lambda: guarded({}, []),
        lambda: app.execute_workflow({}, "noop"),
    ]
    rows = [[await each(call) for call in calls] for _ in range(6)]
    bare, wrapped, executed = (statistics.median(column) for column in zip(*rows[1:], strict=True))
    return figure(
        "wrapper on a succeeding call, more than the bare call",
        wrapped - bare,
        None,
        target="<= 15",
        unit="µs",
        runs=5,
        bare_us=round(bare, 3),
        execute_workflow_more_us=round(executed - bare, 2),
    )


async def charge(order: str, amount: int = 0, lines: Any = None) -> None:
    """An ordinary function that costs nothing and succeeds."""


def refund(order: str, amount: int = 0, lines: Any = None) -> None:
    """The same, without a wait."""


async def decorated(key: str | None, target: str) -> Figure:
    """What a decorated function that succeeds costs more than the bare one: the median over all rounds."""
    app = MahavishnuApp(MahavishnuSettings(dlq_store_url="memory:"))
    name = "with a key" if key else "without a key"
    waits: Any = app.workflow("charge", key=key)(charge)
    runs: Any = app.workflow("refund", key=key)(refund)
    lines = [{"article": "a", "count": 2}, {"article": "b", "count": 1}]

    async def awaited(function: Any, *args: Any, times: int = 20_000) -> float:
        start = time.perf_counter()
        for _ in range(times):
            await function(*args)
        return 1e6 * (time.perf_counter() - start) / times

    def called(function: Any, *args: Any, times: int = 20_000) -> float:
        start = time.perf_counter()
        for _ in range(times):
            function(*args)
        return 1e6 * (time.perf_counter() - start) / times

    async def one_round() -> tuple[float, float, float]:
        bare = await awaited(charge, "A-17", 5)
        plain, changeable = await awaited(waits, "A-17", 5), await awaited(waits, "A-17", 5, lines)
        return plain - bare, changeable - bare, called(runs, "A-17", 5) - called(refund, "A-17", 5)

    rows = [await one_round() for _ in range(6)]
    plain, changeable, sync = (statistics.median(column) for column in zip(*rows[1:], strict=True))
    return figure(
        f"decorated call {name} that succeeds, more than the bare call",
        plain,
        None,
        target=target,
        unit="µs",
        runs=5,
        with_lists_and_dicts_us=round(changeable, 2),
        sync_us=round(sync, 2),
    )


async def decorated_without_key() -> Figure:
    return await decorated(None, "<= 10")


async def decorated_with_key() -> Figure:
    return await decorated("order", "<= 15")


async def successes() -> Figure:
    """What a workflow that has an id and succeeds pays for closing its letter, if it had one: noting it, and the looks.

    By the processor time of the whole process, with 2,000 runs in a tenth of a second.
    """

    async def each(app: MahavishnuApp) -> float:
        start = time.process_time()
        for turn in range(20):
            for number in range(100):
                await app.execute_workflow({}, "noop", task_id=f"wf_{turn}_{number}")
            await asyncio.sleep(0.005)
        return 1e6 * (time.process_time() - start) / 2000

    with folder() as path:
        apps = []
        for closes in (True, False):
            url = f"sqlite:///{path}/{closes}.db"
            apps.append(MahavishnuApp(MahavishnuSettings(dlq_store_url=url, dlq_close_on_success=closes)))
            apps[-1].register_adapter("noop", nothing)
        async with apps[0], apps[1]:
            rows = [[await each(app) for app in apps] for _ in range(21)]
            looked_up = apps[0].dlq is not None and apps[0].dlq.context.counts["successes_not_looked_up"] == 0
    closing, without = (statistics.median(column) for column in zip(*rows[1:], strict=True))
    return figure(
        "closing by success, more for each run with an id, SQLite", closing - without, None, target="<= 5", unit="µs",
        runs=20, without_us=round(without, 2), all_looked_up=looked_up,
    )  # fmt: skip


async def classify() -> Figure:
    """One exception, ten plugins that have no opinion, then the rules."""
    plugins = Plugins()
    for number in range(10):
        plugins.register(lambda error, context: None, f"plugin-{number}")
    chain, errors = Chain(plugins), [ConnectionResetError(104, f"reset by peer {n}") for n in range(50)]
    medians = []
    for _ in range(6):
        times = []
        for error in errors * 40:
            start = time.perf_counter()
            chain.classify(error)
            times.append(time.perf_counter() - start)
        medians.append(1e6 * statistics.median(times))
    return figure(
        "classify one exception with 10 plugins, median", statistics.median(medians[1:]), None, target="<= 60",
        unit="µs", runs=5,
    )  # fmt: skip


def failure(number: int) -> Exception:
    """A raised exception with a traceback, as workflows fail."""
    try:
        raise ConnectionResetError(104, f"connection reset by peer 10.0.{number % 250}.7:443")
    except ConnectionResetError as error:
        return error


async def capture(server: Server) -> Figure:
    """From the exception to the durable letter, against writing the finished letters alone.

    Both go to a store with the same options and the same kinds: with others, one began while its server was still busy
    making indices. Tasks and letters are at hand before the clock runs; to raise the exception is part of a capture.
    """

    def store(name: str) -> OpenSearchStore:
        return OpenSearchStore(server.url, prefix=name, timeout=30, kinds=KINDS)

    async def each(job: Callable[[int], Awaitable[object]]) -> float:
        async def writer(place: int) -> None:
            for number in range(EACH):
                await job(place * EACH + number)

        start = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for place in range(WRITERS):
                group.create_task(writer(place))
        return WRITERS * EACH / (time.perf_counter() - start)

    async def ours(run: int) -> float:
        async with DeadLetterQueue(1_000_000, store=store(f"bench_capture{run}")) as dlq:
            integration = DLQIntegration(None, dlq)
            model = letter()
            task, repos = model.task, list(model.repos)

            async def one(number: int) -> None:
                wanted = LetterRequest(task_id=f"wf_{number}", task=task, repos=repos)
                decided = await integration.capture(wanted, failure(number))
                assert decided.letter is not None, decided

            return await each(one)

    async def against(run: int) -> float:
        async with store(f"bench_write{run}") as opened:
            collection = opened.collection(LETTERS)
            made = [letter() for _ in range(WRITERS * EACH)]

            async def one(number: int) -> None:
                assert (await collection.write([made[number]]))[0] is not None

            return await each(one)

    return await compared(
        "capture end to end, 200 concurrent, OpenSearch", ours, against, target=">= 0.8", unit="letters/s"
    )


def queue(store: Store, name: str) -> DeadLetterQueue:
    """A queue over letters that are due at the benchmarks' time."""
    limits = Limits(concurrency=500, skew_seconds=0)
    options = QueueOptions(limits=limits, callback=nothing, owner=name)
    return DeadLetterQueue(1_000_000, store=store, clock=LaterClock(), options=options)


async def cycle(server: Server) -> Figure:
    """All due letters run by the processor, against the bare claims and settles of the stores' benchmark."""

    async def ours(run: int) -> float:
        store = OpenSearchStore(server.url, prefix=f"bench_cycle{run}", timeout=30, kinds=KINDS)
        async with queue(store, "one") as dlq:
            await fill(dlq.context.letters, (letter() for _ in range(DUE)))
            start = time.perf_counter()
            assert await dlq.run_due() == DUE
            return DUE / (time.perf_counter() - start)

    async def against(run: int) -> float:
        async with server.store(f"bench_bare{run}") as store:
            collection = store.collection(LETTERS)
            await fill(collection, (letter() for _ in range(DUE)))
            start = time.perf_counter()
            assert await work(collection, None, "one") == (DUE, 0)
            return DUE / (time.perf_counter() - start)

    return await compared(
        "cycle with 10,000 due letters, one process, against claim + settle", ours, against, target=">= 0.7",
        unit="letters/s",
    )  # fmt: skip


def _one_of_several(url: str, prefix: str, share: tuple[int, int], begin: float) -> tuple[int, int, float]:
    async def go() -> tuple[int, int, float]:
        store = OpenSearchStore(url, prefix=prefix, timeout=30, kinds=KINDS)
        async with queue(store, f"worker-{share[0]}") as dlq:
            place, workers = share
            now = dlq.clock.now()
            dlq.processing.workers.known = [Worker(f"worker-{n}", now, now, takes_all=True) for n in range(workers)]
            assert len(dlq.processing.workers.shares()[0].partitions[0]) == PARTITIONS // workers, place
            await asyncio.sleep(begin - time.time())
            processor = dlq.processing._new_processor()
            ran = await processor.cycle()
            return ran, processor.counts["conflicts"], time.time()

    return asyncio.run(go())


async def several_processes(server: Server) -> Figure:
    """The same by four processes, against one."""
    lost: list[float] = []

    async def workers(prefix: str, number: int) -> float:
        async with OpenSearchStore(server.url, prefix=prefix, timeout=30, kinds=KINDS) as store:
            await fill(store.collection(LETTERS), (letter() for _ in range(DUE)))
        loop = asyncio.get_running_loop()
        with ProcessPoolExecutor(number, mp_context=get_context("spawn")) as pool:
            begin = time.time() + 5
            each = [
                loop.run_in_executor(pool, _one_of_several, server.url, prefix, (place, number), begin)
                for place in range(number)
            ]
            results = await asyncio.gather(*each)
        assert sum(ran for ran, _, _ in results) == DUE, results
        if number > 1:
            lost.append(100 * sum(conflicts for _, conflicts, _ in results) / DUE)
        return DUE / (max(end for _, _, end in results) - begin)

    async def four(run: int) -> float:
        return await workers(f"bench_cycle4_{run}", 4)

    async def one(run: int) -> float:
        return await workers(f"bench_cycle1_{run}", 1)

    made = await compared("the same cycle by four processes, against one", four, one, target=">= 1.2", unit="letters/s")
    return replace(made, more={**made.more, "conflicts_percent": round(statistics.median(lost), 2)})


def at_once(occurrence: Occurrence) -> Decision:
    """Everything is kept and retried at once."""
    return Decision(True, "the benchmark retries at once", "immediate")


async def jobs(name: str, store: Callable[[int], Store], target: str) -> Figure:
    """Jobs that fail once, are kept, retried at once, and succeed; from the first failure to the last success."""
    rates: list[float] = []
    waits: list[float] = []
    for run in range(6):
        settings = MahavishnuSettings(
            dlq_store_url="memory:", dlq_max_size=100_000, dlq_strategy="automatic", dlq_retry_concurrency=500
        )
        app = MahavishnuApp(settings, store=store(run))
        assert app.dlq is not None
        assert app.dlq_integration is not None
        app.dlq_integration.set_strategy(at_once)
        failed: dict[str, float] = {}
        ended: dict[str, float] = {}
        over = asyncio.Event()

        async def job(task: Any, repos: list[str], failed: dict[str, float] = failed) -> None:
            if task["id"] not in failed:
                failed[task["id"]] = time.perf_counter()
                raise ConnectionResetError(104, "connection reset by peer")

        def listen(event: Event, ended: dict[str, float] = ended, over: asyncio.Event = over) -> None:
            if event.name is EventName.RETRY_SUCCEEDED and event.letter is not None:
                ended[event.letter.task_id] = time.perf_counter()
                if len(ended) == JOBS:
                    over.set()

        app.register_adapter("job", job)
        app.dlq.context.events.subscribe(listen)
        async with app:
            await app.start_dlq_processor()
            places = asyncio.Semaphore(WRITERS)

            async def submit(number: int, app: MahavishnuApp = app, places: asyncio.Semaphore = places) -> None:
                async with places:
                    await app.execute_workflow({"id": f"job-{number}"}, "job", [])

            start = time.perf_counter()
            async with asyncio.TaskGroup() as group:
                for number in range(JOBS):
                    group.create_task(submit(number))
            await over.wait()
            rate = JOBS / (time.perf_counter() - start)
        if run:
            rates.append(rate)
            waits += [ended[each] - failed[each] for each in ended]
    return figure(
        f"5,000 jobs fail once, are kept, retried at once and succeed, {name}",
        statistics.median(rates), None, target=target, unit="jobs/s", runs=5, rates=[round(rate) for rate in rates],
        **percentiles(waits),
    )  # fmt: skip


async def opensearch_jobs(server: Server) -> Figure:
    def store(run: int) -> Store:
        return OpenSearchStore(server.url, prefix=f"bench_jobs{run}", timeout=30, kinds=KINDS)

    return await jobs("OpenSearch", store, ">= 2000")


async def sqlite_jobs() -> Figure:
    with folder() as path:
        return await jobs("SQLite", lambda run: SQLiteStore(f"{path}/{run}.db", kinds=KINDS), ">= 5000")


async def memory_jobs() -> Figure:
    return await jobs("memory", lambda run: MemoryStore(), "reported")


@contextmanager
def folder() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as path:
        yield path


async def main(wanted: list[str]) -> None:
    """Measure what is wanted, everything by default; only a whole run is kept."""
    logging.getLogger("mahavishnu").setLevel(logging.ERROR)
    alone: list[Callable[[], Awaitable[Figure]]] = [
        wrapper, decorated_without_key, decorated_with_key, successes, classify, memory_jobs, sqlite_jobs,
    ]  # fmt: skip
    served: list[Callable[[Server], Awaitable[Figure]]] = [capture, cycle, several_processes, opensearch_jobs]

    def chosen(measure: Callable[..., Any]) -> bool:
        return not wanted or any(part in measure.__name__ for part in wanted)

    figures = [await measure() for measure in alone if chosen(measure)]
    if any(map(chosen, served)):
        with Cluster(heap="1g", lasting=True) as cluster:
            figures += [await measure(Server(cluster.urls[0])) for measure in served if chosen(measure)]
    if not wanted:
        keep("Engine", figures)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
