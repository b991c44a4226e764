"""A workflow that calls another one: the work of the other one, which has a key, is done once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mahavishnu.capture.closing import Closing
from mahavishnu.core.app import MahavishnuApp
from mahavishnu.model.letter import DeadLetter
from tests.support.queues import House

DOWN = ConnectionResetError("connection reset by peer")


class Nest:
    """`process` calls `charge`, in one of several ways; each fails as long as it is told to."""

    def __init__(self, app: MahavishnuApp, how: str = "plainly", key: str | None = "order") -> None:
        self.app, self.fails, self.charged = app, {"charge"}, 0

        @app.workflow("charge", key=key)
        async def charge(order: int) -> None:
            if "charge" in self.fails:
                raise DOWN
            self.charged += 1

        @app.workflow("process", key="order")
        async def process(order: int) -> None:
            if "before" in self.fails:
                raise TimeoutError("before")
            if "skips" not in self.fails:
                await self.call(charge, how)

        self.process = process

    async def call(self, charge: Any, how: str) -> None:
        if how == "as a cause":
            try:
                await charge(1)
            except ConnectionResetError as problem:
                raise RuntimeError("no charge") from problem
        elif how == "and goes on":
            await asyncio.gather(charge(1), return_exceptions=True)
        else:
            await charge(1)

    async def fail(self) -> None:
        with pytest.raises((ConnectionResetError, RuntimeError, TimeoutError, ExceptionGroup)):
            await self.process(1)

    async def run_due(self, clock: Any, looks: int = 10) -> None:
        for _ in range(looks):
            clock.advance(3600)
            await self.app.dlq.run_due()
            await self.app.dlq.service(Closing).flush()

    async def letter(self, task_id: str) -> DeadLetter:
        letter = await self.app.dlq.get_task(task_id)
        assert letter is not None
        return letter


@pytest.mark.parametrize("how", ["plainly", "as a cause"])
async def test_what_is_called_is_done_once(any_house: House, how: str) -> None:
    """Its letter waits for that of the caller, whose retry does it."""
    nest = Nest(any_house.app(), how)
    await nest.fail()
    assert (await nest.letter("charge:1")).depends_on == ("process:1",)
    nest.fails.clear()
    await nest.run_due(any_house.clock)
    assert nest.charged == 1
    assert await nest.app.dlq.list_tasks() == []


async def test_what_fails_in_a_retry_waits_too(any_house: House) -> None:
    """The first failure was another one."""
    nest = Nest(any_house.app())
    nest.fails = {"before"}
    await nest.fail()
    nest.fails = {"charge"}
    any_house.clock.advance(3600)
    await nest.app.dlq.retry_task("process:1")
    assert (await nest.letter("charge:1")).depends_on == ("process:1",)
    nest.fails.clear()
    await nest.run_due(any_house.clock)
    assert nest.charged == 1


async def test_what_the_caller_does_not_do_is_run_for_itself(any_house: House) -> None:
    """Once the caller has succeeded without it, or where the caller did not fail by it."""
    nest = Nest(any_house.app())
    await nest.fail()
    nest.fails = {"skips"}
    await nest.run_due(any_house.clock)
    assert nest.charged == 1
    assert await nest.app.dlq.list_tasks() == []

    nest = Nest(any_house.app(), "and goes on")
    await nest.process(1)
    assert (await nest.letter("charge:1")).depends_on == ()
    nest.fails.clear()
    await nest.run_due(any_house.clock)
    assert nest.charged == 1


async def test_an_error_that_is_raised_again_elsewhere_links_nothing(any_house: House) -> None:
    """A library may raise the same object each time."""
    nest = Nest(any_house.app())
    await nest.fail()

    @nest.app.workflow("other", key="n")
    async def other(n: int) -> None:
        raise DOWN

    with pytest.raises(ConnectionResetError):
        await other(1)
    assert (await nest.letter("other:1")).depends_on == ()
    assert (await nest.letter("process:1")).depends_on == ()
    assert (await nest.letter("charge:1")).depends_on == ("process:1",)


async def test_what_has_no_key_does_not_wait(any_house: House) -> None:
    """No success would close its letter."""
    nest = Nest(any_house.app(), key=None)
    await nest.fail()
    assert all(letter.depends_on == () for letter in await nest.app.dlq.list_tasks())


async def test_a_sync_one_waits_too(any_house: House) -> None:
    """They are called in a thread of their own."""
    app, fails, charged = any_house.app(), [1], list[int]()

    @app.workflow("charge", key="order")
    def charge(order: int) -> None:
        if fails:
            raise DOWN
        charged.append(order)

    @app.workflow("process", key="order")
    def process(order: int) -> None:
        charge(order)

    with pytest.raises(ConnectionResetError):
        await asyncio.to_thread(process, 1)
    letter = await app.dlq.get_task("charge:1")
    assert letter is not None and letter.depends_on == ("process:1",)


async def test_calls_beside_one_another_are_not_linked(any_house: House) -> None:
    """Though they fail at the same time, by the same object."""
    nest = Nest(any_house.app())

    @nest.app.workflow("other", key="n")
    async def other(n: int) -> None:
        raise DOWN

    await asyncio.gather(*(other(n) for n in range(20)), nest.process(1), return_exceptions=True)
    waiting = {letter.task_id: letter.depends_on for letter in await nest.app.dlq.list_tasks() if letter.depends_on}
    assert waiting == {"charge:1": ("process:1",)}
