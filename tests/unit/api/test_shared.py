"""Reads that many ask for at once are done once, and never show less than was there when they were asked for."""

from __future__ import annotations

import asyncio

import pytest

from mahavishnu.console.api.reading import Shared
from mahavishnu.testing import turn


class Source:
    """A value that is read slowly: each read shows the value as it was when the read began."""

    def __init__(self) -> None:
        self.value, self.reads = 0, 0
        self.gates: list[asyncio.Event] = []

    async def read(self) -> int:
        self.reads += 1
        seen, gate = self.value, asyncio.Event()
        self.gates.append(gate)
        await gate.wait()
        if seen < 0:
            raise ValueError("broken")
        return seen

    async def let(self, number: int) -> None:
        """Let this read end, as soon as it has begun."""
        while len(self.gates) < number:
            await turn()
        self.gates[number - 1].set()


async def test_who_asks_during_a_read_shares_the_next_one() -> None:
    source, shared = Source(), Shared[int]()
    first = asyncio.create_task(shared.get("k", source.read))
    await turn()
    source.value = 1  # written before the others ask: they have to see it
    others = [asyncio.create_task(shared.get("k", source.read)) for _ in range(50)]
    await turn()
    assert source.reads == 1
    await source.let(1)
    assert await first == 0
    await turn()
    source.value = 2
    late = asyncio.create_task(shared.get("k", source.read))
    await turn()
    await source.let(2)
    assert await asyncio.gather(*others) == [1] * 50
    await turn()
    await source.let(3)
    assert await late == 2
    assert source.reads == 3


async def test_a_failure_is_everybodys_and_the_next_read_is_new() -> None:
    source, shared = Source(), Shared[int]()
    source.value = -1
    asked = [asyncio.create_task(shared.get("k", source.read)) for _ in range(3)]
    await turn()
    await source.let(1)
    await turn()
    await source.let(2)
    assert all(isinstance(each, ValueError) for each in await asyncio.gather(*asked, return_exceptions=True))
    source.value = 5
    again = asyncio.create_task(shared.get("k", source.read))
    await turn()
    await source.let(3)
    assert await again == 5


async def test_one_who_gives_up_takes_nothing_from_the_others() -> None:
    source, shared = Source(), Shared[int]()
    impatient = asyncio.create_task(shared.get("k", source.read))
    await turn()
    patient = asyncio.create_task(shared.get("k", source.read))
    await turn()
    impatient.cancel()
    with pytest.raises(asyncio.CancelledError):
        await impatient
    await source.let(1)
    await turn()
    await source.let(2)
    assert await patient == 0


async def test_different_reads_do_not_wait_for_each_other() -> None:
    source, shared = Source(), Shared[int]()
    a, b = (asyncio.create_task(shared.get(key, source.read)) for key in "ab")
    await turn()
    assert source.reads == 2
    for gate in source.gates:
        gate.set()
    assert (await a, await b) == (0, 0)


async def test_a_loop_that_ends_in_the_middle_leaves_nothing_behind() -> None:
    source, shared = Source(), Shared[int]()
    askers = []
    for _ in range(2):
        askers.append(asyncio.create_task(shared.get("k", source.read)))
        await turn()
    shared._next["k"].cancel()  # as asyncio.run does with every task
    await turn()
    again = asyncio.create_task(shared.get("k", source.read))
    await source.let(1)
    await source.let(2)
    assert (await askers[0], await again) == (0, 0)
    assert not shared._running and not shared._next
