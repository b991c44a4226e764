"""Processes that end at each call of a store in turn, and what the next one makes of what they leave."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.testing import FaultyStore
from mahavishnu.testing.faults import CHANGES, READS, Call
from tests.support.queues import House

S = TypeVar("S")


class Killed(BaseException):
    """The process ends here."""


async def kill_at_each_call(
    kind: str,
    folder: Path,
    moment: str,
    prepare: Callable[[House], Awaitable[S]],
    act: Callable[[DeadLetterQueue], Awaitable[Any]],
    check: Callable[[House, S], Awaitable[None]],
) -> int:
    """Have a process `act` that ends `before` or `after` its first call of the store, then its second, and so on.

    Each time in a house of its own that was prepared; `check` gets what `prepare` made. Returns how many calls there
    are: the last time nobody ended it.
    """
    calls, was_killed = 0, True
    while was_killed:
        house = House(kind, folder / str(calls))
        prepared = await prepare(house)
        was_killed = await _act_and_end(house, moment, calls, act)
        await check(house, prepared)
        await house.close()
        calls += 1
    return calls


async def _act_and_end(house: House, moment: str, calls: int, act: Callable[[DeadLetterQueue], Awaitable[Any]]) -> bool:
    """Act in a process that ends at the call after so many. Returns whether it came to that."""
    queue, left = house.queue(), calls
    assert isinstance(queue.store, FaultyStore)
    await queue.open()

    async def end(call: Call) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed

    for operation in (*CHANGES, *READS):
        getattr(queue.store.faults, moment)(operation, end)
    try:
        await act(queue)
    except Killed:
        return True
    finally:
        house.kill(queue)
    return False
