"""Every order in which several actors can do their calls of a store, one call at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from mahavishnu.stores.kind import Kind
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.testing import Faults
from mahavishnu.testing.faults import Call


class Death(BaseException):
    """The process of an actor ends here."""


class Actor:
    """Does something, and stops before each call about the letter `key`, and before each search, until it is to go on.

    `faults` are those of its own store; what it raises is what `run_in_every_order` raises. It also stops before each
    call about records of the kind `beside`; where `stops` are given, as names of calls and kinds, it stops before those
    only. It dies instead of going on from the stop with the number `dies_at`, if it comes to that.
    """

    def __init__(
        self,
        act: Callable[[], Awaitable[object]],
        faults: Faults,
        key: str,
        beside: Kind[Any] | None = None,
        *,
        stops: Sequence[tuple[str, Kind[Any]]] | None = None,
        dies_at: int | None = None,
    ) -> None:
        self._act, self._faults, self._key, self._beside = act, faults, key, beside
        self._stops, self._dies_at, self.stopped = stops, dies_at, 0
        self._go, self.at_rest = asyncio.Event(), asyncio.Event()
        self.is_done = False

    async def run(self) -> None:
        """Do it all, from stop to stop."""
        if self._stops is not None:
            plans = [self._faults.before(name, self._stop, kind=kind) for name, kind in self._stops]
        else:
            plans = [self._faults.before("find", self._stop, kind=LETTERS)]
            plans += [
                self._faults.before(name, self._stop, kind=LETTERS, keys=[self._key]) for name in ("get", "write")
            ]
        if self._beside is not None:
            plans += [
                self._faults.before(name, self._stop, kind=self._beside) for name in ("find", "get", "write", "remove")
            ]
        try:
            await self._act()
        except Death:
            self._faults.unavailable()  # what it still does on its way out reaches nothing
        finally:
            for plan in plans:
                plan.stop()
            self.is_done = True
            self.at_rest.set()

    async def _stop(self, call: Call) -> None:
        self.at_rest.set()
        await self._go.wait()
        self._go.clear()
        self.stopped += 1
        if self.stopped == self._dies_at:
            raise Death

    async def step(self) -> None:
        """Go on up to the next call of the store, or to the end."""
        self.at_rest.clear()
        self._go.set()
        await self.at_rest.wait()


async def run_in_every_order(
    begin: Callable[[], Awaitable[Sequence[Actor]]], check: Callable[[], Awaitable[object]], most: int = 500
) -> int:
    """Let the actors of `begin` run in every order, each time from the start; `check` looks at the end of each.

    Returns how many orders there are; there must not be more than `most`.
    """
    chosen: list[int] = []  # at each step, who goes on, among those who are not done
    for orders in range(1, most + 1):
        actors = await begin()
        running = [asyncio.create_task(actor.run()) for actor in actors]
        for actor in actors:
            await actor.at_rest.wait()
        others: list[int] = []  # at each step, how many more could go on
        while waiting := [actor for actor in actors if not actor.is_done]:
            step = len(others)
            if step == len(chosen):
                chosen.append(0)
            others.append(len(waiting) - 1 - chosen[step])
            await waiting[chosen[step]].step()
        await asyncio.gather(*running)
        try:
            await check()
        except AssertionError as problem:
            problem.add_note(f"in the order {chosen}")
            raise
        while others and not others[-1]:
            others.pop()
        if not others:
            return orders
        chosen = [*chosen[: len(others) - 1], chosen[len(others) - 1] + 1]
    raise AssertionError(f"there are more than {most} orders")
