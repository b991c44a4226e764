"""Failures of what is not decorated: `call`, `capture` and `capture_exception`, with and without an event loop."""

from __future__ import annotations

import asyncio
import functools
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.model.errors import InvalidInput
from mahavishnu.values.kinds import same_value
from tests.capture.test_calls import Failing, letters_of
from tests.support.queues import NETWORK, House, queue_of

work = Failing()


@pytest.fixture(autouse=True)
def _broken() -> None:
    work.broken = True
    work.calls.clear()


async def charge(order: str, amount: Decimal) -> str:
    return work.note(order, amount)


def refund(order: str, amount: Decimal = Decimal(1)) -> str:
    return work.note(order, amount)


@dataclass(frozen=True)
class Till:
    name: str

    async def pay(self, amount: Decimal) -> str:
        return work.note(self, amount)


class Line:
    async def send(self, text: str) -> str:
        return work.note(text)


class TestCall:
    @pytest.mark.parametrize("function", [charge, refund])
    async def test_a_failure_is_kept_and_run_again(self, any_house: House, function: Any) -> None:
        app = any_house.app()
        with pytest.raises(ConnectionError, match="refused") as caught:
            await app.call(function, "o-1", amount=Decimal("1.50"))
        assert caught.value is NETWORK
        (letter,) = await letters_of(app)
        assert (letter.adapter, letter.task) == (function.__name__, {"order": "o-1", "amount": "1.50"})
        work.broken = False
        assert await app.call(function, "o-2", Decimal(2)) == "done"
        assert (await queue_of(app).retry_task(letter.task_id))["success"]
        assert same_value(work.calls[2], ("o-1", Decimal("1.50")))

    async def test_a_method_is_kept_with_its_object(self, any_house: House) -> None:
        app = any_house.app()
        with pytest.raises(ConnectionError):
            await app.call(Till("front").pay, Decimal(5))
        (letter,) = await letters_of(app)
        assert (letter.adapter, letter.task) == ("Till.pay", {"self": {"name": "front"}, "amount": "5"})
        work.broken = False
        assert (await queue_of(app).retry_task(letter.task_id))["success"]
        assert same_value(work.calls[1], (Till("front"), Decimal(5)))

    async def test_the_method_of_an_object_that_cannot_come_back_is_refused_before_the_call(self, house: House) -> None:
        app = house.app()
        with pytest.raises(InvalidInput, match=r"Line.send is a method, and a retry would need its Line"):
            await app.call(Line().send, "hello")
        assert work.calls == []

    async def test_a_method_that_is_registered_keeps_its_object_in_this_process(self, house: House) -> None:
        app, line = house.app(), Line()
        app.workflow("send", retry_policy="linear")(line.send)
        with pytest.raises(ConnectionError):
            await app.call(line.send, "hello")
        (letter,) = await letters_of(app)
        assert (letter.adapter, letter.task, letter.retry_policy) == ("send", {"text": "hello"}, "linear")
        work.broken = False
        assert (await queue_of(app).retry_task(letter.task_id))["success"]

    async def test_what_a_retry_would_not_have_is_refused_before_the_call(self, house: House) -> None:
        app, orders = house.app(), list[str]()

        async def note(order: str) -> None:
            orders.append(order)

        with pytest.raises(InvalidInput, match="uses variables of the function that it is in"):
            await app.call(note, "o-1")
        with pytest.raises(InvalidInput, match="has no name of its own"):
            await app.call(lambda: None)
        assert orders == []

    async def test_a_decorated_function_is_captured_once(self, house: House) -> None:
        app = house.app()
        for decorated in (app.workflow("charge")(charge), app.workflow("refund")(refund)):
            with pytest.raises(ConnectionError):
                await app.call(decorated, "o-1", Decimal(1))
        assert sorted(str(each.adapter) for each in await letters_of(app)) == ["charge", "refund"]

    async def test_a_wrapper_of_a_decorated_function_is_refused(self, house: House) -> None:
        """Else what fails in the wrapper itself would be lost."""
        app, ran = house.app(), list[str]()

        @app.workflow("note")
        async def note(order: str) -> None:
            ran.append(order)

        @functools.wraps(note)
        async def wrapper(order: str) -> None:
            await note(order)
            raise NETWORK

        with pytest.raises(InvalidInput, match="wraps a decorated workflow"):
            await app.call(wrapper, "o-1")
        assert ran == []
        await app.call(note, "o-1")
        assert ran == ["o-1"]


class TestCapture:
    async def test_a_block_that_fails_is_run_again_by_the_workflow_of_its_name(self, any_house: House) -> None:
        app = any_house.app()
        app.workflow("charge", key="order")(charge)
        with pytest.raises(ConnectionError, match="refused"):
            async with app.capture("charge", order="o-1", amount=Decimal("1.50")):
                raise NETWORK
        (letter,) = await letters_of(app)
        assert (letter.task_id, letter.task) == ("charge:o-1", {"order": "o-1", "amount": "1.50"})
        work.broken = False
        assert (await queue_of(app).retry_task(letter.task_id))["success"]
        assert same_value(work.calls, [("o-1", Decimal("1.50"))])

    async def test_one_of_a_name_that_nobody_knows_waits_for_who_does(self, any_house: House) -> None:
        app = any_house.app()
        with pytest.raises(ConnectionError):
            async with app.capture("charge", order="o-1", amount=Decimal("1.50")):
                raise NETWORK
        (letter,) = await letters_of(app)
        assert (letter.adapter, letter.task) == ("charge", {"order": "o-1", "amount": "1.50"})
        app.workflow("charge")(charge)
        work.broken = False
        assert (await queue_of(app).retry_task(letter.task_id))["success"]
        assert same_value(work.calls, [("o-1", Decimal("1.50"))])

    async def test_a_block_that_succeeds_leaves_nothing(self, house: House) -> None:
        app = house.app()
        async with app.capture("charge", order="o-1"):
            pass
        with app.capture("charge", order="o-1"):
            pass
        assert await letters_of(app) == []

    async def test_a_block_that_does_not_await_is_captured_too(self, any_house: House) -> None:
        app = any_house.app()
        with pytest.raises(ConnectionError), app.capture("charge", order="o-1"):
            raise NETWORK
        (letter,) = await letters_of(app)
        assert letter.task == {"order": "o-1"}

    async def test_a_cancelled_block_is_counted(self, house: House) -> None:
        app, started = house.app(), asyncio.Event()

        async def run() -> None:
            async with app.capture("charge", order="o-1"):
                started.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(run())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert app.dlq_integration is not None
        assert (await app.dlq_integration.get_statistics())["cancelled_ignored"] == 1


class TestCaptureException:
    async def test_an_error_that_something_else_caught(self, any_house: House) -> None:
        app = any_house.app()
        app.workflow("charge")(charge)
        outcome = await app.capture_exception(
            NETWORK, workflow="charge", arguments={"order": "o-1", "amount": Decimal(1)}
        )
        assert outcome.letter is not None
        (letter,) = await letters_of(app)
        assert (letter.task_id, letter.task) == (outcome.task_id, {"order": "o-1", "amount": "1"})
        assert letter.failures[0].type == "ConnectionError"

    async def test_where_nothing_is_kept_it_says_so(self, house: House) -> None:
        outcome = await house.app(dlq_enabled=False).capture_exception(NETWORK, workflow="charge")
        assert outcome.letter is None and outcome.skip_reason
        outcome = await house.app(dlq_strategy="manual").capture_exception(NETWORK, workflow="charge")
        assert outcome.letter is None and "manual" in str(outcome.skip_reason)


class TestWithoutAnEventLoop:
    def test_the_same_names(self, tmp_path: Path) -> None:
        app = MahavishnuApp(MahavishnuSettings(dlq_store_url=f"sqlite:///{tmp_path}/letters.db"))
        with app.sync as sync:
            for function in (refund, charge):
                with pytest.raises(ConnectionError, match="refused"):
                    sync.call(function, "o-1", Decimal(1))
            with pytest.raises(ConnectionError), sync.capture("block", order="o-1"):
                raise NETWORK
            outcome = sync.capture_exception(NETWORK, workflow="handler", arguments={"path": "/orders"})
            assert outcome.letter is not None
            kept = {letter.adapter: letter.task for letter in sync.dlq.list_tasks()}
            order = {"order": "o-1", "amount": "1"}
            assert kept == {"refund": order, "charge": order, "block": {"order": "o-1"}, "handler": {"path": "/orders"}}
            work.broken = False
            assert sync.call(refund, "o-2") == sync.call(charge, "o-2", Decimal(2)) == "done"


async def test_arguments_that_a_function_takes_by_place_only_are_captured_by_name(house: House) -> None:
    app, ran = house.app(), list[Any]()

    @app.workflow("po", key="a", retry_policy="immediate")
    async def po(a: int, /, b: int = 2, *, c: int = 3) -> None:
        ran.append((a, b, c))

    with pytest.raises(ConnectionError):
        async with app.capture("po", a=1, c=5):
            raise ConnectionError("refused")
    await app.capture_exception(ConnectionError("refused"), workflow="po", arguments={"a": 2, "b": 4})
    one, two = await app.dlq.get_task("po:1"), await app.dlq.get_task("po:2")
    assert one is not None and two is not None
    assert (one.task, two.task, one.metadata) == ({"a": 1, "c": 5}, {"a": 2, "b": 4}, {})
    await app.dlq.run_due()
    assert sorted(ran) == [(1, 2, 5), (2, 4, 3)]
