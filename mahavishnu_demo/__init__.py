"""`mahavishnu demo`: a few workflows that fail, and what becomes of them, while one looks on."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import shlex
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from mahavishnu.cli.output import NARROW, escape_controls, print_line
from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.core.processes import open_listener, run_server, stop_signals, url_of
from mahavishnu.model.clock import Clock, SystemClock, instant
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.events import Event
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import ResolutionStatus
from mahavishnu.settings.places import NO_STORE

# --- a handful of workflows that fail in telling ways, and a clock that makes their hours pass in seconds

REPOS = ["api", "web", "billing"]
CURRENCIES = {"EUR": 100, "SEK": 100, "JPY": 1}  # what one is in its smallest unit
HISTORY = timedelta(hours=3)  # through which the orders have come in when the demo begins


class QuickClock:
    """A clock that runs `factor` times as fast as the machine's, and begins some time ago."""

    def __init__(self, factor: float, *, behind: timedelta = timedelta()) -> None:
        self._real, self._factor, self._skipped = SystemClock(), factor, -behind
        self._start, self._started = self._real.now(), self._real.monotonic()

    def now(self) -> datetime:
        return instant(self._start + self._skipped + (self._real.now() - self._start) * self._factor)

    def monotonic(self) -> float:
        return self._started + self._skipped.total_seconds() + (self._real.monotonic() - self._started) * self._factor

    def skip(self, time: timedelta) -> None:
        """Let so much time have passed."""
        self._skipped += time

    async def sleep(self, seconds: float) -> None:
        await self._real.sleep(seconds / self._factor)


class Sample:
    """One workflow; `story` says what it is there to show. It is run once for each of its `tasks`."""

    over = timedelta()  #: the time through which its tasks come in

    def __init__(
        self, name: str, story: str, run: Callable[[int, list[str]], Any], *tasks: tuple[str, Mapping[str, Any]]
    ) -> None:
        self.name, self.story = name, story
        self.tasks = tasks or ((name, {"type": story}),)
        self.repos = ["api"] if tasks else REPOS
        self._run, self._times = run, Counter[str]()

    def __call__(self, task: Mapping[str, Any], repos: list[str]) -> Any:
        """The workflow itself: it knows how often it has run for these repos."""
        key = ",".join(repos)
        self._times[key] += 1
        return self._run(self._times[key], repos)


class Order(Sample):
    """A workflow that a person can help: what is wrong is in its task."""

    over = HISTORY

    def __call__(self, task: Mapping[str, Any], repos: list[str]) -> Any:
        """Those that name a currency meet a busy bank when they come for the first time."""
        total = price(task)
        self._times[order := str(task["order"])] += 1
        if self._times[order] == 1 and int(order) > WRONG:
            raise ConnectionResetError(errno.ECONNRESET, "Connection reset by the bank")
        return f"billed {total}"


def price(order: Mapping[str, Any]) -> int:
    """What an order costs, in the smallest unit of its currency."""
    return sum(to_smallest_unit(line["amount"], order["currency"]) for line in order["lines"])


def to_smallest_unit(amount: int, currency: str) -> int:
    """An amount in cents, öre, yen."""
    if currency not in CURRENCIES:
        raise ValueError(f"unknown currency {currency!r}")
    return amount * CURRENCIES[currency]


def samples() -> list[Sample]:
    """All of them, new."""
    return [
        Sample("flaky-network", "fails twice, then works: exponential retries", _flaky),
        Sample("rate-limited", "the service says when to come back, and that is obeyed", _rate_limited),
        Sample("one-bad-repo", "one repo of three fails: only that one is run again", _one_bad_repo),
        Sample("disk-full", "waits longer each time, until somebody makes room", _disk_full),
        Sample("always-down", "uses up its retries: exhausted, a person has to look", _always_down),
        Sample("no-permission", "no retry can help: kept, and left to a person", _no_permission),
        Order("orders", "one cause, many letters: edit and redrive them together", _bill, *_ORDERS),
    ]


CHARGE = "charge:A-17"  # the letter of `call_decorated`


async def call_decorated(app: MahavishnuApp) -> None:
    """An ordinary function with arguments of its own: its first call fails, and a retry gets the same arguments."""
    calls = 0

    @app.workflow("charge", key="order")
    async def charge(order: str, amount: Decimal) -> str:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ConnectionResetError(errno.ECONNRESET, "Connection reset by the bank")
        return f"charged {amount} for {order}"

    with suppress(ConnectionResetError):
        await charge("A-17", amount=Decimal("12.50"))


class RateLimited(Exception):
    """An API that asks to be left alone for a while."""

    status_code = 429
    headers: Mapping[str, str] = {"Retry-After": "90"}


def _flaky(times: int, repos: list[str]) -> Any:
    if times <= 2:
        raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
    return "swept"


def _rate_limited(times: int, repos: list[str]) -> Any:
    if times == 1:
        raise RateLimited("429 Too Many Requests")
    return "indexed"


def _one_bad_repo(times: int, repos: list[str]) -> Any:
    if repos == ["billing"] and times <= 2:
        raise TimeoutError("billing did not answer within 30 seconds")
    return f"{repos[0]} checked"


def _disk_full(times: int, repos: list[str]) -> Any:
    if times <= 2:
        raise OSError(errno.ENOSPC, "No space left on device")
    return "exported"


def _always_down(times: int, repos: list[str]) -> Any:
    raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused: ci.example:443")


def _no_permission(times: int, repos: list[str]) -> Any:
    raise PermissionError(errno.EACCES, "Permission denied: deploy key is read-only")


def _bill(times: int, repos: list[str]) -> Any:
    return "billed"


WRONG = 14  # orders whose currency is none


def _order(number: int) -> Mapping[str, Any]:
    currency = "EURO" if number <= WRONG else ("EUR", "SEK", "JPY")[number % 3]
    client = {"app": "ios", "version": "9.2"} if number <= WRONG else {"app": "web", "version": "311"}
    lines = [{"sku": "TEA-250", "amount": 12 + number}, {"sku": "CUP-2", "amount": 19}]
    return {"type": "order", "order": str(number), "currency": currency, "client": client, "lines": lines}


_NUMBERS = (*range(WRONG + 1, WRONG + 7), *range(1, WRONG + 1))  # the wrong ones came last
_ORDERS = tuple((f"order-{number}", _order(number)) for number in _NUMBERS)

_TRY = (
    "open {url} in a browser: the console, with a first fix to try",
    "the API listens at {url}/api/v1; in another terminal, look and help:",
    "  export MAHAVISHNU_SERVER={url} PATH={folder}:$PATH",
    "  mahavishnu group list",
    "  mahavishnu dlq show order-1",
    "  mahavishnu dlq edit order-1 --set currency=EUR --redrive",
    "  mahavishnu dlq redrive --text currency --open --set currency=EUR --ramp 1,2 --stop-percent 20 --yes",
    "  mahavishnu audit list",
    "  curl -s {url}/api/v1/dlq/stats",
)
NAMESPACE = "demo"  # the console says it beside the name, and no other process looks there
MOST_ALIKE = 3  # letters of one workflow and status in the table
WIDE = 80  # columns from which there is room for everything
_COLUMNS = ("workflow", "status", "category", "retries", "next", "what happened")
_SPARE = ("what happened", "category", "retries")
_STYLES = {"pending": "yellow", "retrying": "cyan", "completed": "green", "exhausted": "red"}


def demo(
    speed: Annotated[float, typer.Option(min=1, max=3600, help="How many times faster than real the clock runs.")] = 60,
    seconds: Annotated[float | None, typer.Option(min=0, help="End after so many real seconds.")] = None,
    store: Annotated[
        str | None, typer.Option("--store", metavar="URL", help="Keep letters here instead of in a new SQLite file.")
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Serve the console on this port, or on a free one.")
    ] = 8080,
    serve: Annotated[bool, typer.Option("--serve/--no-serve", help="Whether to serve the console and the API.")] = True,
) -> None:
    """Run workflows that fail in telling ways, retry them, and watch. Ctrl-C ends it."""
    with tempfile.TemporaryDirectory(prefix="mahavishnu-demo-") as folder:
        own = f"sqlite:///{Path(folder).as_posix()}"
        urls = (store, f"{own}/local.db") if store else (f"{own}/letters.db", NO_STORE)
        asyncio.run(show(*urls, speed, seconds, port if serve else None))


async def show(url: str, local_url: str, speed: float, seconds: float | None, port: int | None) -> None:
    """Run the samples and retry them until somebody ends it, or for so many seconds; on a port, serve the console."""
    clock = QuickClock(speed, behind=HISTORY)
    settings = demo_settings(url, local_url)
    logging.getLogger("mahavishnu").propagate = False
    async with MahavishnuApp(settings, clock=clock) as app:
        with stop_signals() as stop:
            print_line(f"letters are kept in {app.dlq.store!r}; Ctrl-C ends it")
            if speed > 1:
                print_line(
                    f"a minute takes {60 / speed:g} s here, so dates, also in the audit, run ahead of your clock"
                )
            await _fail(app, clock)
            async with _serve(app.dlq, settings, port):
                await app.start_dlq_processor()  # not before somebody looks on: hours pass while the server starts
                await _watch(app.dlq, clock, seconds, stop)
        await app.stop_dlq_processor()
        letters = await _letters(app.dlq)
        print_line("")
        for told in summary_lines(letters, await _resolved_by_people(app.dlq, letters)):
            print_line(told)


def demo_settings(url: str, local_url: str) -> MahavishnuSettings:
    """Those of the samples: their letters are among no others, and nobody is woken by their alerts."""
    nobody: dict[str, Any] = {"webhook_url": None, "slack_url": None, "pagerduty_key": None, "email_to": []}
    return MahavishnuSettings.load(
        dlq_store_url=url,
        dlq_local_url=local_url,
        dlq_namespace=NAMESPACE,  # also in a store that is given, real letters are not among these
        dlq_retry_interval_seconds=10,
        dlq_strategy="automatic",
        alerts={"log": True, **nobody},  # the console shows them
    )


async def _fail(app: MahavishnuApp, clock: QuickClock) -> None:
    """Run each sample once: those first whose tasks have come in for hours."""
    for sample in sorted(samples(), key=lambda each: each.over, reverse=True):
        app.register_adapter(sample.name, sample)
        for name, task in sample.tasks:
            await app.execute_workflow_parallel(task, sample.name, sample.repos, task_id=name)
            clock.skip(sample.over / len(sample.tasks))
    await call_decorated(app)


@contextlib.asynccontextmanager
async def _serve(dlq: DeadLetterQueue, settings: MahavishnuSettings, port: int | None) -> AsyncIterator[None]:
    """Answer requests meanwhile, on another port if somebody has that one, and say what to try."""
    if port is None:
        yield
        return
    from mahavishnu.console.frame import FirstFix

    first_fix = FirstFix(cause="unknown currency", path="currency", value='"EUR"')
    try:
        listening = open_listener(settings, "127.0.0.1", port)
    except InvalidInput:
        listening = open_listener(settings, "127.0.0.1", 0)
    with contextlib.closing(listening):
        async with run_server(dlq, listening, settings, first_fix=first_fix):
            folder = shlex.quote(str(Path(sys.executable).parent))  # where the command is, whatever directory one is in
            for told in _TRY:
                print_line(told.format(url=url_of(listening), folder=folder))
            print_line("")
            sys.stdout.flush()
            yield


async def _watch(dlq: DeadLetterQueue, clock: Clock, seconds: float | None, stop: asyncio.Event) -> None:
    watch = asyncio.create_task(_table(dlq, clock) if sys.stdout.isatty() else _lines(dlq))
    end = asyncio.create_task(SystemClock().sleep(seconds) if seconds is not None else stop.wait())
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({watch, end, stopped}, return_when=asyncio.FIRST_COMPLETED)
    for task in (watch, end, stopped):
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watch


async def _lines(dlq: DeadLetterQueue) -> None:
    """For a pipe: a line for everything that happens."""
    events: asyncio.Queue[Event] = asyncio.Queue()
    ended = dlq.listen(events.put)
    try:
        for letter in await _letters(dlq):
            print_line(_sentence("kept", letter))
        while True:
            event = await events.get()
            if event.letter is not None:
                print_line(_sentence(event.name.removeprefix("dlq."), event.letter))
                sys.stdout.flush()
    finally:
        ended()


async def _table(dlq: DeadLetterQueue, clock: Clock) -> None:
    """For a terminal: a table that is always up to date."""
    with Live(console=Console(), auto_refresh=False) as live:
        while True:
            letters, statistics = await _letters(dlq), await dlq.get_statistics()
            live.update(view(letters, clock.now(), statistics, live.console.width), refresh=True)
            await SystemClock().sleep(0.5)


async def _letters(dlq: DeadLetterQueue) -> list[DeadLetter]:
    names = [*(name for sample in samples() for name, _ in sample.tasks), CHARGE]
    found = [await dlq.get_task(name, include_archived=True) for name in names]
    return sorted((letter for letter in found if letter is not None), key=lambda letter: letter.created_at)


def view(letters: Sequence[DeadLetter], now: datetime, statistics: Mapping[str, Any], width: int) -> Group:
    """The letters as a table; where that is too narrow for all of it, without what tells the least."""
    left_out = () if width >= WIDE else _SPARE[:1] if width >= NARROW else _SPARE
    columns = [name for name in _COLUMNS if name not in left_out]
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0), pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold", no_wrap=name != "what happened")
    alike = Counter[tuple[str | None, str]]()
    for letter in letters:
        alike[kind := (letter.adapter, letter.status)] += 1
        if alike[kind] > MOST_ALIKE:
            continue
        last = letter.last_error if letter.status != "completed" else "a retry succeeded"
        cells: tuple[str | Text, ...] = (
            letter.task_id,
            Text(letter.status, style=_STYLES.get(letter.status, "")),
            str(letter.error_category or "-"),
            f"{letter.retry_count}/{letter.max_retries}",
            _wait(letter, now),
            escape_controls(last),
        )
        table.add_row(*(cell for name, cell in zip(_COLUMNS, cells, strict=True) if name in columns))
    lifetime = statistics["lifetime_stats"]
    counts = ", ".join(f"{name.replace('_', ' ')} {lifetime[name]}" for name in ("retry_success", "retry_failed"))
    more = sum(max(0, number - MOST_ALIKE) for number in alike.values())
    hidden = f"{more} more like them; " if more else ""
    return Group(table, Text(f"\n{hidden}{statistics['queue_size']} open; {counts}", style="dim"))


def _wait(letter: DeadLetter, now: datetime) -> str:
    if letter.next_retry_at is None:
        return "up to you" if letter.status in ("pending", "exhausted") else "-"
    seconds = max((letter.next_retry_at - now).total_seconds(), 0)
    return f"in {int(seconds // 60)}:{int(seconds % 60):02d}"


def _sentence(what: str, letter: DeadLetter) -> str:
    said = "" if letter.status == "completed" else f": {letter.last_error}"
    return f"{what:16} {letter.task_id:14} {letter.status:10} {letter.retry_count}/{letter.max_retries}{said}"


async def _resolved_by_people(dlq: DeadLetterQueue, letters: Sequence[DeadLetter]) -> set[str]:
    """Those that somebody has lent a hand, alone or in a bulk run."""
    acts = await dlq.audit.list(subject=[f"letter:{letter.key}" for letter in letters], outcome="done", limit=1000)
    named = {entry.subject.removeprefix("letter:") for entry in acts.items if entry.via != "rule"}
    return named | {letter.key for letter in letters if letter.runs}


def summary_lines(letters: Sequence[DeadLetter], helped: Collection[str]) -> Iterator[str]:
    """What has become of the letters, and what comes next."""
    right = [letter.key for letter in letters if letter.resolution_status is ResolutionStatus.REQUEUED]
    waiting = [letter for letter in letters if letter.is_open]
    alone, people = len(set(right) - set(helped)), sum(letter.next_retry_at is None for letter in waiting)
    told = [f"{alone} came right by {'itself' if alone == 1 else 'themselves'}"]
    if len(right) > alone:
        told.append(f"{len(right) - alone} after somebody had helped")
    if closed := len(letters) - len(waiting) - len(right):
        told.append(f"{closed} {'was' if closed == 1 else 'were'} closed by hand")
    yield f"{', '.join(told)}; {people} {'waits' if people == 1 else 'wait'} for a person."
    if len(waiting) > people:
        yield f"{len(waiting) - people} would have been retried."
    yield "Next: docs/quickstart.md keeps the failures of your own workflows in five lines."
