"""A handful of workflows that fail in telling ways, and a clock that makes their hours pass in seconds."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from mahavishnu.model.clock import SystemClock, instant

if TYPE_CHECKING:
    from mahavishnu.core.app import MahavishnuApp

REPOS = ["api", "web", "billing"]


class QuickClock:
    """A clock that runs `factor` times as fast as the machine's."""

    def __init__(self, factor: float) -> None:
        self._real, self._factor = SystemClock(), factor
        self._start, self._started = self._real.now(), self._real.monotonic()

    def now(self) -> datetime:
        return instant(self._start + (self._real.now() - self._start) * self._factor)

    def monotonic(self) -> float:
        return self._started + (self._real.monotonic() - self._started) * self._factor

    async def sleep(self, seconds: float) -> None:
        await self._real.sleep(seconds / self._factor)


class Sample:
    """One workflow; `story` says what it is there to show. It is run once for each of its `tasks`."""

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

    def __call__(self, task: Mapping[str, Any], repos: list[str]) -> Any:
        if len(currency := str(task.get("currency"))) != 3:
            raise ValueError(f"unknown currency {currency!r}")
        return "billed"


def samples() -> list[Sample]:
    """All of them, new."""
    return [
        Sample("flaky-network", "fails twice, then works: exponential retries", _flaky),
        Sample("rate-limited", "the service says when to come back, and that is obeyed", _rate_limited),
        Sample("one-bad-repo", "one repo of three fails: only that one is run again", _one_bad_repo),
        Sample("disk-full", "waits longer each time, until somebody makes room", _disk_full),
        Sample("always-down", "uses up its retries: exhausted, a person has to look", _always_down),
        Sample("no-permission", "no retry can help: kept, and left to a person", _no_permission),
        Order("orders", "one cause, five letters: edit and redrive them together", _billed, *_ORDERS),
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


_ORDERS = tuple((f"order-{number}", {"currency": "EURO", "amount": 10 * number}) for number in range(1, 6))
