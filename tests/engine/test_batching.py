"""Batches: what is added in one turn of the event loop is stored by one call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from mahavishnu.engine.batching import BATCH_SIZE, Batcher


@dataclass
class Thing:
    name: int
    future: asyncio.Future[int] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class TestBatcher:
    """The batches in which things are stored."""

    async def test_additions_of_one_turn_are_stored_by_one_call(self) -> None:
        batches: list[list[int]] = []

        async def store(things: Sequence[Thing]) -> None:
            batches.append([thing.name for thing in things])
            for thing in things:
                thing.future.set_result(thing.name)

        batcher, things = Batcher(store), [Thing(number) for number in range(BATCH_SIZE + 2)]
        for thing in things:
            batcher.add(thing)
        await batcher.finish()
        later = Thing(99)
        batcher.add(later)
        assert await later.future == 99
        assert batches == [[*range(BATCH_SIZE)], [BATCH_SIZE, BATCH_SIZE + 1], [99]]
        assert [await thing.future for thing in things] == [*range(BATCH_SIZE + 2)]

    @pytest.mark.parametrize("problem", [ValueError("a bug"), asyncio.CancelledError()])
    async def test_a_failed_store_call_ends_the_futures_without_answer(self, problem: BaseException) -> None:
        async def store(things: Sequence[Thing]) -> None:
            things[0].future.set_result(7)
            raise problem

        batcher, (first, second) = Batcher(store), (Thing(1), Thing(2))
        batcher.add(first)
        batcher.add(second)
        assert await first.future == 7
        with pytest.raises(type(problem)):
            await second.future

    async def test_a_batch_cancelled_before_it_is_stored_leaves_the_next_one_alone(self) -> None:
        async def store(things: Sequence[Thing]) -> None:
            for thing in things:
                thing.future.set_result(thing.name)

        batcher, (first, second) = Batcher(store), (Thing(1), Thing(2))
        before = asyncio.all_tasks()
        batcher.add(first)
        (leaving,) = asyncio.all_tasks() - before
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first.future
        batcher.add(second)
        assert await second.future == 2

    async def test_an_eager_task_factory_changes_nothing(self) -> None:
        batches: list[int] = []

        async def store(things: Sequence[Thing]) -> None:
            batches.append(len(things))
            for thing in things:
                thing.future.set_result(thing.name)

        def eager(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> Any:
            """As `asyncio.eager_task_factory` of later Pythons does with what never waits."""
            with pytest.raises(StopIteration):
                work.send(None)
            done = loop.create_future()
            done.set_result(None)
            return done

        loop = asyncio.get_running_loop()
        loop.set_task_factory(eager)
        try:
            batcher, things = Batcher(store), [Thing(1), Thing(2)]
            for thing in things:
                batcher.add(thing)
            assert [await thing.future for thing in things] == [1, 2]
        finally:
            loop.set_task_factory(None)
        assert batches == [2]

    def test_a_new_event_loop_has_a_new_batch(self) -> None:
        async def store(things: Sequence[Thing]) -> None:
            for thing in things:
                thing.future.set_result(thing.name)

        batcher = Batcher(store)

        async def left_behind() -> None:
            batcher.add(Thing(1))

        async def goes_on() -> int:
            thing = Thing(2)
            batcher.add(thing)
            return await thing.future

        asyncio.run(left_behind())
        assert asyncio.run(goes_on()) == 2
