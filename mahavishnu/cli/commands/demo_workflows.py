"""A handful of workflows that fail in telling ways, and a clock that makes their hours pass in seconds."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from mahavishnu.model.clock import SystemClock, instant

if TYPE_CHECKING:
    from mahavishnu.core.app import MahavishnuApp

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
        Order("orders", "one cause, many letters: edit and redrive them together", _billed, *_ORDERS),
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


def _billed(times: int, repos: list[str]) -> Any:
    return "billed"


WRONG = 14  # orders whose currency is none


def _order(number: int) -> Mapping[str, Any]:
    currency = "EURO" if number <= WRONG else ("EUR", "SEK", "JPY")[number % 3]
    client = {"app": "ios", "version": "9.2"} if number <= WRONG else {"app": "web", "version": "311"}
    lines = [{"sku": "TEA-250", "amount": 12 + number}, {"sku": "CUP-2", "amount": 19}]
    return {"type": "order", "order": str(number), "currency": currency, "client": client, "lines": lines}


_NUMBERS = (*range(WRONG + 1, WRONG + 7), *range(1, WRONG + 1))  # the wrong ones came last
_ORDERS = tuple((f"order-{number}", _order(number)) for number in _NUMBERS)
