"""Decorated functions: they stay what they are, and a call that fails becomes a letter that can be run again."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import sqlite3
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.capture.adapters import current_attempt
from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.letter import DeadLetter
from mahavishnu.values.kinds import same_value
from tests.support.queues import NETWORK, Gate, House, letter_of, queue_of, sound

seen: contextvars.ContextVar[str] = contextvars.ContextVar("seen", default="nothing")


async def letters_of(app: MahavishnuApp) -> list[DeadLetter]:
    """All open letters, when nothing is being captured any more."""
    assert app.dlq_integration is not None
    await app.dlq_integration.finish()
    return [letter async for letter in _scan(app)]


async def _scan(app: MahavishnuApp) -> AsyncIterator[DeadLetter]:
    for letter in await queue_of(app).list_tasks():
        yield letter


class Failing:
    """Fails until it is repaired; notes how it was called."""

    def __init__(self) -> None:
        self.broken = True
        self.calls: list[Any] = []

    def note(self, *call: Any) -> str:
        self.calls.append(call)
        if self.broken:
            raise NETWORK
        return "done"


class TestADecoratedFunction:
    async def test_an_async_one_is_kept_with_its_arguments_by_name_and_run_again(self, any_house: House) -> None:
        app, work = any_house.app(), Failing()

        @app.workflow
        async def charge(order: str, amount: float = 1.5, *, currency: str = "EUR") -> str:
            return work.note(order, amount, currency)

        assert inspect.iscoroutinefunction(charge)
        with pytest.raises(ConnectionError, match="refused"):
            await charge("o-1", currency="USD")
        (letter,) = await letters_of(app)
        assert letter.task == {"order": "o-1", "currency": "USD"}
        assert (
            letter.adapter
            == "TestADecoratedFunction.test_an_async_one_is_kept_with_its_arguments_by_name_and_run_again.charge"
        )
        work.broken = False
        answer = await queue_of(app).retry_task(letter.task_id)
        assert answer["success"] and answer["result"]["result"] == "done"
        assert work.calls == [("o-1", 1.5, "USD")] * 2
        assert (await letter_of(queue_of(app), letter.task_id)).status == "completed"
        await sound(queue_of(app))

    async def test_a_sync_one_stays_sync_and_its_failure_is_kept(self, any_house: House) -> None:
        app, work = any_house.app(), Failing()

        @app.workflow("charge")
        def charge(order: str, amount: int) -> str:
            return work.note(order, amount)

        assert not inspect.iscoroutinefunction(charge)
        with pytest.raises(ConnectionError, match="refused"):
            charge("o-1", amount=2)
        (letter,) = await letters_of(app)
        assert (letter.task, letter.adapter) == ({"order": "o-1", "amount": 2}, "charge")
        assert queue_of(app).context.waiting.has_outside is False
        work.broken = False
        assert charge("o-1", 2) == "done"
        assert (await queue_of(app).retry_task(letter.task_id))["success"]
        assert work.calls == [("o-1", 2)] * 3

    async def test_a_sync_one_of_task_and_repos_stays_sync(self, house: House) -> None:
        app = house.app()

        @app.workflow("sweep")
        def sweep(task: dict[str, Any], repos: list[str]) -> str:
            if task["n"]:
                raise NETWORK
            return f"swept {repos}"

        assert sweep({"n": 0}, ["api"]) == "swept ['api']"
        with pytest.raises(ConnectionError):
            sweep({"n": 1, "id": "wf_1"}, ["api"])
        (letter,) = await letters_of(app)
        assert (letter.task_id, letter.task, letter.repos) == ("wf_1", {"n": 1, "id": "wf_1"}, ("api",))

    async def test_it_is_what_the_function_is(self, house: House) -> None:
        app = house.app()

        def charge(order: str, /, *more: int, note: str = "", **others: bool) -> str:
            """Charges."""
            return order

        decorated = app.workflow(charge)
        assert (decorated.__name__, decorated.__doc__) == ("charge", "Charges.")
        assert inspect.signature(decorated) == inspect.signature(charge)
        assert decorated("o-1", 1, 2, note="n", fast=True) == "o-1"

    async def test_its_error_keeps_its_identity_and_its_traceback(self, house: House) -> None:
        app = house.app()
        error = ValueError("bad order")

        def inner() -> None:
            raise error

        @app.workflow
        async def charge() -> None:
            inner()

        @app.workflow
        def refund() -> None:
            inner()

        with pytest.raises(ValueError) as caught:
            await charge()
        with pytest.raises(ValueError) as again:
            refund()
        assert caught.value is error and again.value is error
        assert error.__context__ is None and error.__cause__ is None
        assert {"charge", "refund", "inner"} <= {frame.name for frame in traceback.extract_tb(error.__traceback__)}

    async def test_it_sees_the_context_of_its_caller(self, house: House) -> None:
        app = house.app()

        @app.workflow
        def look() -> str:
            return seen.get()

        @app.workflow
        async def look_there() -> str:
            seen.set("changed")
            return seen.get()

        token = seen.set("here")
        assert look() == "here"
        assert await look_there() == "changed"
        assert seen.get() == "changed"  # as without the decorator
        seen.reset(token)

    async def test_without_a_queue_it_just_runs(self, house: House) -> None:
        app = house.app(dlq_enabled=False)

        @app.workflow
        def charge(amount: int) -> int:
            return 1 // amount

        assert charge(1) == 1
        with pytest.raises(ZeroDivisionError):
            charge(0)

    async def test_the_methods_of_an_object_are_there(self, house: House) -> None:
        app = house.app()

        @app.workflow("rate")
        @functools.lru_cache
        def rate(currency: str) -> object:
            return object()

        one = rate("EUR")
        assert rate("EUR") is one
        assert rate.cache_info().hits == 1
        rate.cache_clear()
        assert rate("EUR") is not one

    async def test_the_coroutine_of_a_sync_decorator_is_kept_and_run_again(self, house: House) -> None:
        app, work = house.app(), Failing()

        async def charge(order: str) -> str:
            return work.note(order)

        @functools.wraps(charge)
        def counted(*args: Any) -> Any:
            return charge(*args)

        decorated = app.workflow("charge", key="order")(counted)
        with pytest.raises(ConnectionError, match="refused"):
            await decorated("o-1")
        (letter,) = await letters_of(app)
        assert (letter.task_id, letter.task) == ("charge:o-1", {"order": "o-1"})
        work.broken = False
        assert (await queue_of(app).retry_task(letter.task_id))["result"]["result"] == "done"
        assert work.calls == [("o-1",)] * 2

    async def test_such_a_coroutine_inside_of_another_retry_does_not_see_that(self, house: House) -> None:
        app, work, attempts = house.app(), Failing(), []

        async def send(order: str) -> str:
            attempts.append(current_attempt.get())
            return work.note(order)

        decorated = app.workflow("send", key="order")(functools.wraps(send)(lambda *args: send(*args)))

        @app.workflow("charge", key="order")
        async def charge(order: str) -> str:
            return await decorated(order)

        with pytest.raises(ConnectionError, match="refused"):
            await charge("o-1")
        assert not (await queue_of(app).retry_task("charge:o-1"))["success"]
        assert attempts == [None, None]
        assert {letter.task_id for letter in await letters_of(app)} == {"charge:o-1", "send:o-1"}

    async def test_arguments_beside_one_that_cannot_be_copied_are_kept_as_they_were(self, house: House) -> None:
        app = house.app()

        @app.workflow("drain")
        async def drain(items: list[int], context: dict[str, Any]) -> None:
            items.clear()
            raise NETWORK

        with pytest.raises(ConnectionError):
            await drain([1, 2], {"lock": threading.Lock()})
        (letter,) = await letters_of(app)
        assert letter.task["items"] == [1, 2]
        assert letter.retry_policy == "never"

    async def test_names_that_are_neither_task_nor_repos_are_kept_for_a_person(self, house: House) -> None:
        app = house.app()

        @app.workflow("sweep")
        async def sweep(task: Any, repos: list[str]) -> None: ...

        with pytest.raises(ConnectionError):
            async with app.capture("sweep", order="o-1"):
                raise NETWORK
        (letter,) = await letters_of(app)
        assert letter.task == {"args": [], "kwargs": {"order": "o-1"}}
        assert letter.retry_policy == "never"
        assert "takes a task and repos, and was given order" in letter.metadata["dlq_not_bound"]

    async def test_arguments_that_it_changes_are_kept_as_they_were(self, any_house: House) -> None:
        app = any_house.app()

        @app.workflow
        async def send(lines: list[str], options: dict[str, Any]) -> None:
            lines.clear()
            options["sent"] = True
            raise NETWORK

        lines, options = ["a", "b"], {"to": {"x": 1}}
        with pytest.raises(ConnectionError):
            await send(lines, options=options)
        (letter,) = await letters_of(app)
        assert letter.task == {"lines": ["a", "b"], "options": {"to": {"x": 1}}}

    async def test_what_it_returns_is_its_own_business(self, house: House) -> None:
        app, answers = house.app(), [{"status": "failed"}]

        @app.workflow
        async def ask(name: str) -> dict[str, str]:
            if not answers:
                raise NETWORK
            return answers[0]

        assert await ask("a") == {"status": "failed"}
        assert await letters_of(app) == []
        answer = answers.pop()
        with pytest.raises(ConnectionError):
            await ask("a")
        answers.append(answer)
        (letter,) = await letters_of(app)
        assert (await queue_of(app).retry_task(letter.task_id))["success"]

    async def test_wrong_arguments_are_kept_for_a_person(self, house: House) -> None:
        app = house.app()

        @app.workflow
        async def charge(order: str) -> None: ...

        with pytest.raises(TypeError, match="missing"):
            await charge()  # type: ignore[call-arg]
        (letter,) = await letters_of(app)
        assert (letter.task, letter.retry_policy) == ({"args": [], "kwargs": {}}, "never")
        assert "missing" in letter.metadata["dlq_not_bound"]

    async def test_nothing_of_a_call_that_ends_the_process_is_kept(self, house: House) -> None:
        app = house.app()

        @app.workflow
        def leave(code: int) -> None:
            raise SystemExit(code)

        with pytest.raises(SystemExit):
            leave(1)
        assert await letters_of(app) == []


class TestInsideOfARetry:
    @pytest.mark.parametrize("is_async", [True, False])
    async def test_the_same_call_is_that_retry_and_another_one_is_not(self, any_house: House, is_async: bool) -> None:
        app, attempts = any_house.app(), list[Any]()

        def note(order: str) -> None:
            attempts.append(current_attempt.get())
            raise NETWORK

        async def async_note(order: str) -> None:
            note(order)

        charge: Callable[[str], Any] = app.workflow("charge")(async_note if is_async else note)

        async def call(order: str) -> None:
            if is_async:
                await charge(order)
            else:
                await asyncio.to_thread(charge, order) if attempts else charge(order)

        with pytest.raises(ConnectionError):
            await call("o-1")
        (letter,) = await letters_of(app)

        async def callback(task: Any, repos: list[str]) -> None:
            for order in ("o-2", "o-1"):
                with pytest.raises(ConnectionError):
                    if is_async:
                        await charge(order)
                    else:
                        charge(order)

        queue_of(app).processing.callback = callback
        answer = await queue_of(app).retry_task(letter.task_id)
        assert not answer["success"]
        both = {each.task["order"]: each for each in await letters_of(app)}
        assert set(both) == {"o-1", "o-2"}
        assert (both["o-1"].task_id, both["o-1"].occurrences) == (letter.task_id, 1)
        assert [each and each.letter.task_id for each in attempts] == [None, None, letter.task_id]

    @pytest.mark.parametrize("fails", [True, False])
    async def test_a_call_of_another_app_is_its_own_work(self, any_house: House, fails: bool) -> None:
        """Whatever its workflow is called, and whatever its key: two apps know nothing of each other."""
        shop, bank, broken = any_house.app(dlq_namespace="shop"), any_house.app(dlq_namespace="bank"), [True]

        @bank.workflow("charge", key="order")
        async def book(order: str) -> None:
            if broken:
                raise NETWORK

        @shop.workflow("charge", key="order")
        async def charge(order: str) -> None:
            try:
                await book(order)
            except ConnectionError:
                if len(broken) == 1:
                    raise

        with pytest.raises(ConnectionError):
            await charge("o-1")
        assert [letter.occurrences for app in (shop, bank) for letter in await letters_of(app)] == [1, 1]
        broken.append(True) if fails else broken.clear()
        assert (await shop.dlq.retry_task("charge:o-1"))["success"]
        await queue_of(bank).closing.flush()
        left = await letters_of(bank)
        assert [letter.occurrences for letter in left] == ([2] if fails else []), "run again, though it is done"


class TestNames:
    async def test_a_function_that_is_decorated_twice_has_one_letter_for_a_failure(self, house: House) -> None:
        """Two would be run again both."""
        app, failing = house.app(), Failing()

        @app.workflow("charge")
        async def charge(order: str) -> str:
            return failing.note(order)

        again = app.workflow("booking")(charge)
        with pytest.raises(ConnectionError):
            await again("o-1")
        assert [letter.adapter for letter in await letters_of(app)] == ["booking"]
        with pytest.raises(ConnectionError):
            await app.call(functools.partial(charge, "o-2"))
        assert {letter.adapter for letter in await letters_of(app)} == {"charge", "booking"}

    @pytest.mark.parametrize("whose", ["another app", "a part", "a method"])
    async def test_a_decorated_function_that_would_be_kept_twice_is_refused(self, house: House, whose: str) -> None:
        app = house.app()

        @dataclass
        class Bank:
            @app.workflow("booking")
            def book(self, order: str) -> None: ...

        @app.workflow
        def charge(order: str) -> None: ...

        other = house.app() if whose == "another app" else app
        thing: Any = {"a part": functools.partial(charge, "o-1"), "a method": Bank().book}.get(whose, charge)
        with pytest.raises(InvalidInput, match="is a decorated workflow already: each of its failures would be kept"):
            other.workflow("again")(thing)

    async def test_two_functions_with_one_name_are_refused(self, house: House) -> None:
        app = house.app()

        @app.workflow("charge")
        def charge() -> None: ...

        with pytest.raises(
            InvalidInput, match=r"the workflow 'charge' is .*charge.* already: give .* a name of its own"
        ):

            @app.workflow("charge")
            def refund() -> None: ...

    async def test_a_function_that_is_defined_again_counts_from_then_on(self, house: House) -> None:
        app, made = house.app(), []
        for number in range(2):
            namespace: dict[str, Any] = {"app": app, "__name__": "cell"}
            exec(f"@app.workflow\ndef charge(order): return {number}", namespace)
            made.append(namespace["charge"](1))
        assert made == [0, 1]
        assert (await app.execute_workflow({"order": 1}, "charge"))["result"] == 1

    async def test_a_name_is_needed_where_the_function_has_none(self, house: House) -> None:
        app = house.app()
        with pytest.raises(InvalidInput, match="has no name of its own"):
            app.workflow(lambda order: order)
        assert app.workflow("echo")(lambda order: order)(1) == 1


def generates() -> Iterator[int]:
    yield 1


async def generates_later() -> AsyncIterator[int]:
    yield 1


class Thing:
    @classmethod
    def make(cls) -> None: ...


@pytest.mark.parametrize(
    ("thing", "reason"),
    [
        (generates, "generates is a generator function: calling it would run nothing of it"),
        (generates_later, "generates_later is a generator function"),
        (Thing, "Thing is a class: .* Decorate a function that makes it"),
        (Thing.__dict__["make"], "is a classmethod already: put @app.workflow below @classmethod"),
        (5, "5 is no function"),
        (dict.get, None),
        (functools.partial(generates), "generator function"),
    ],
    ids=["generator", "async generator", "class", "classmethod", "number", "builtin", "partial"],
)
async def test_what_cannot_be_captured_is_refused_with_the_reason(house: House, thing: Any, reason: str | None) -> None:
    app = house.app()
    if reason is None:
        app.workflow("x")(thing)
        return
    with pytest.raises(InvalidInput, match=reason):
        app.workflow("x")(thing)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"key": "id"}, "the key 'id' needs an argument 'id'; the function's are: order, amount"),
        ({"key": "{order}-{id}"}, "needs an argument 'id'"),
        ({"key": "{order"}, "cannot be read"),
        ({"key": 5}, "key must be an argument's name"),
        ({"retry_policy": "sometimes"}, "sometimes"),
        ({"max_retries": -1}, "max_retries must be a whole number"),
        ({"queue": "a/b"}, "queue"),
        ({"redact": "card"}, "redact must be a list"),
        ({"on_cancel": "maybe"}, "on_cancel must be 'ignore' or 'capture'"),
    ],
    ids=str,
)
async def test_options_that_cannot_be_are_refused(house: House, options: Any, reason: str) -> None:
    app = house.app()
    with pytest.raises(InvalidInput, match=reason):

        @app.workflow("charge", **options)
        def charge(order: str, amount: int) -> None: ...


class TestOptions:
    @pytest.mark.parametrize(
        "key", ["order", "{order}", lambda order, amount=0: order], ids=["name", "text", "function"]
    )
    async def test_calls_with_one_key_are_one_letter(self, any_house: House, key: Any) -> None:
        app = any_house.app()

        @app.workflow("charge", key=key)
        async def charge(order: str, amount: int = 0) -> None:
            raise NETWORK

        for order in ("o-1", "o-1", "o-2"):
            with pytest.raises(ConnectionError):
                await charge(order)
        assert {each.task_id: each.occurrences for each in await letters_of(app)} == {"charge:o-1": 2, "charge:o-2": 1}

    async def test_a_key_that_cannot_be_made_hides_no_error(self, house: House) -> None:
        app = house.app()

        @app.workflow("charge", key="{order.id}")
        async def charge(order: Any) -> str:
            if order is None:
                raise NETWORK
            return "done"

        assert await charge(5) == "done"
        with pytest.raises(ConnectionError):
            await charge(None)
        assert len(await letters_of(app)) == 1

    async def test_policy_budget_and_queue_are_the_workflows(self, house: House) -> None:
        app = house.app()

        @app.workflow("charge", retry_policy="linear", max_retries=7, queue="money")
        async def charge(order: str) -> None:
            raise NETWORK

        with pytest.raises(ConnectionError):
            await charge("o-1")
        (letter,) = await letters_of(app)
        assert (letter.retry_policy, letter.max_retries, letter.queue) == ("linear", 7, "money")

    async def test_arguments_are_masked_and_the_letter_waits_for_a_person(self, house: House) -> None:
        app = house.app()

        @app.workflow("charge", redact=["card*"])
        async def charge(order: str, card: str = "") -> None:
            raise NETWORK

        for more in ({"card": "4111"}, {}):
            with pytest.raises(ConnectionError):
                await charge("o-1", **more)
        kept = {len(each.task): each for each in await letters_of(app)}
        assert (kept[2].task, kept[2].retry_policy) == ({"order": "o-1", "card": "***"}, "never")
        assert "masked" in kept[2].metadata["dlq_redacted"]
        assert (kept[1].retry_policy, kept[1].metadata) == ("exponential", {})

    @pytest.mark.parametrize("on_cancel", ["ignore", "capture"])
    async def test_a_cancelled_call_is_counted_or_kept(self, house: House, on_cancel: Any) -> None:
        app, started = house.app(), asyncio.Event()

        @app.workflow("charge", on_cancel=on_cancel)
        async def charge(order: str) -> None:
            started.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(charge("o-1"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        kept = await letters_of(app)
        assert app.dlq_integration is not None
        ignored = (await app.dlq_integration.get_statistics())["cancelled_ignored"]
        assert (len(kept), ignored) == ((0, 1) if on_cancel == "ignore" else (1, 0))
        assert (await queue_of(app).get_statistics())["lifetime_stats"]["cancelled_ignored"] == ignored

    async def test_a_cancelled_workflow_that_is_run_by_its_name_is_counted_too(self, house: House) -> None:
        app, gate = house.app(), Gate()
        app.register_adapter("sweep", gate)
        task = asyncio.create_task(app.execute_workflow({}, "sweep"))
        await gate.reached()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await sound(queue_of(app)))["lifetime_stats"]["cancelled_ignored"] == 1


class TestWithoutAnEventLoop:
    """The failure is in the store before the error is raised."""

    def app(self, folder: Path) -> MahavishnuApp:
        return MahavishnuApp(MahavishnuSettings(dlq_store_url=f"sqlite:///{folder}/letters.db"))

    def test_a_script(self, tmp_path: Path) -> None:
        app = self.app(tmp_path)

        @app.workflow("charge")
        def charge(order: str) -> None:
            raise NETWORK

        with pytest.raises(ConnectionError, match="refused"):
            charge("o-1")
        with closing(sqlite3.connect(tmp_path / "letters.db")) as file:
            assert file.execute("select count(*) from letters").fetchone() == (1,)
        (letter,) = app.sync.dlq.list_tasks()
        assert letter.task == {"order": "o-1"}
        app.sync.shutdown()

    async def test_a_thread_beside_the_loop_that_uses_the_store(self, tmp_path: Path) -> None:
        async with self.app(tmp_path) as app:

            @app.workflow("charge")
            def charge(order: str) -> None:
                raise NETWORK

            with pytest.raises(ConnectionError, match="refused"):
                await asyncio.to_thread(charge, "o-1")
            (letter,) = await queue_of(app).list_tasks()
            assert letter.task == {"order": "o-1"}

    async def test_in_the_loops_own_thread_it_is_in_a_file_at_once(self, tmp_path: Path) -> None:
        async with self.app(tmp_path) as app:

            @app.workflow("charge")
            def charge(order: str) -> None:
                raise NETWORK

            with pytest.raises(ConnectionError, match="refused"):
                charge("o-1")
            (file,) = (tmp_path / "letters.db-waiting").iterdir()
            assert '"o-1"' in file.read_text()
            (letter,) = await letters_of(app)
            assert letter.task == {"order": "o-1"}
            assert not file.exists()

    def test_a_loop_that_ends_before_its_next_turn_loses_nothing(self, tmp_path: Path) -> None:
        app = self.app(tmp_path)

        @app.workflow("charge")
        def charge(order: str) -> None:
            raise NETWORK

        async def main() -> None:
            charge("o-1")

        with pytest.raises(ConnectionError, match="refused"):
            asyncio.run(main())

        async def later() -> list[DeadLetter]:
            async with app:
                await queue_of(app).intake.admit_waiting()
                return list(await queue_of(app).list_tasks())

        (letter,) = asyncio.run(later())
        assert letter.task == {"order": "o-1"}


class Tier(Enum):
    GOLD = "gold"


@dataclass(frozen=True)
class Line:
    article: str
    price: Decimal


@dataclass
class Order:
    number: int
    lines: list[Line]
    day: date
    tier: Tier = Tier.GOLD


class TestTypes:
    """A retry gets what the first run got: equal values of equal types."""

    async def test_arguments_come_back_as_they_were(self, any_house: House) -> None:
        app, work = any_house.app(), Failing()

        @app.workflow("charge")
        async def charge(order: Order, amount: Decimal, *days: date, blob: bytes, **more: Any) -> None:
            work.note(order, amount, days, blob, more)

        order = Order(5, [Line("a", Decimal("1.50"))], date(2026, 11, 19))
        given: Any = (
            (order, Decimal("12.50"), date(2026, 1, 1)),
            {"blob": b"\x00", "tags": {"a", "b"}, "pair": (1, 2)},
        )
        with pytest.raises(ConnectionError):
            await charge(*given[0], **given[1])
        (letter,) = await letters_of(app)
        assert letter.task["amount"] == "12.50" and letter.task["order"]["lines"][0]["price"] == "1.50"
        work.broken = False
        assert (await queue_of(app).retry_task(letter.task_id))["success"]
        assert same_value(work.calls[1], work.calls[0])

    @pytest.mark.parametrize("way", ["workflow", "register", "own callback"])
    async def test_a_task_comes_back_as_it_was(self, any_house: House, way: str) -> None:
        app, work = any_house.app(), Failing()

        async def sweep(task: dict[str, Any], repos: list[str]) -> None:
            work.note(task, repos)

        app.workflow("sweep")(sweep) if way == "workflow" else app.register_adapter("sweep", sweep)
        task = {"id": "wf_1", "amount": Decimal("1.50"), "on": date(2026, 1, 1), "pair": (1, {2})}
        await app.execute_workflow(task, "sweep", ["api"])
        if way == "own callback":

            async def callback(task: Any, repos: list[str]) -> Any:
                return await app.execute_workflow(task, "sweep", repos)

            queue_of(app).processing.callback = callback
        work.broken = False
        assert (await queue_of(app).retry_task("wf_1"))["success"]
        assert same_value(work.calls[1], work.calls[0])
        assert await letters_of(app) == []

    async def test_a_run_of_itself_with_typed_values_is_that_retry(self, any_house: House) -> None:
        app, work = any_house.app(), Failing()

        @app.workflow("charge")
        async def charge(amount: Decimal) -> None:
            work.note(amount)

        with pytest.raises(ConnectionError):
            await charge(Decimal("1.50"))
        (letter,) = await letters_of(app)

        async def callback(task: Any, repos: list[str]) -> None:
            with pytest.raises(ConnectionError):
                await charge(**task)

        queue_of(app).processing.callback = callback
        assert not (await queue_of(app).retry_task(letter.task_id))["success"]
        assert [each.occurrences for each in await letters_of(app)] == [1]
        assert same_value(work.calls, [(Decimal("1.50"),)] * 2)

    async def test_an_error_in_any_language_is_kept_beside_types(self, any_house: House) -> None:
        app = any_house.app()

        @app.workflow("charge")
        async def charge(amount: Decimal) -> None:
            raise ConnectionError("Verbindung abgelehnt – später \ud800")

        with pytest.raises(ConnectionError):
            await charge(Decimal("1.50"))
        (letter,) = await letters_of(app)
        assert letter.payload_types.value == {"/amount": "decimal"}

    async def test_what_cannot_come_back_is_kept_and_waits_for_a_person(self, any_house: House) -> None:
        app = any_house.app()

        @app.workflow("charge")
        async def charge(amount: int, by: Any) -> None:
            raise NETWORK

        with pytest.raises(ConnectionError):
            await charge(5, by=object())
        (letter,) = await letters_of(app)
        assert (letter.task["amount"], letter.retry_policy) == (5, "never")
        assert letter.metadata["dlq_not_json"].startswith("by is of type object, which cannot come back")
        answer = await queue_of(app).retry_task(letter.task_id)
        assert not answer["success"] and "by" in answer["error"]


class TestMethods:
    async def test_the_object_is_an_argument_as_any_other(self, any_house: House) -> None:
        app, work = any_house.app(), Failing()

        @dataclass(frozen=True)
        class Till:
            name: str

            @app.workflow("pay", key="{self.name}-{amount}")
            async def pay(self, amount: Decimal) -> None:
                work.note(self, amount)

            @app.workflow("count")
            def count(self) -> None:
                work.note(self)

        with pytest.raises(ConnectionError):
            await Till("front").pay(Decimal("1.50"))
        with pytest.raises(ConnectionError):
            Till("back").count()
        pay, count = sorted(await letters_of(app), key=lambda letter: str(letter.adapter), reverse=True)
        assert (pay.task_id, pay.task) == ("pay:front-1.50", {"self": {"name": "front"}, "amount": "1.50"})
        assert count.task == {"self": {"name": "back"}}
        work.broken = False
        for letter in (pay, count):
            assert (await queue_of(app).retry_task(letter.task_id))["success"]
        assert same_value(work.calls[2:], work.calls[:2])

    async def test_static_methods_and_class_methods(self, any_house: House) -> None:
        app, work = any_house.app(), Failing()

        class Shop:
            @staticmethod
            @app.workflow("one")
            async def one(order: str) -> None:
                work.note(order)

            @app.workflow("two")
            @staticmethod
            async def two(order: str) -> None:
                work.note(order)

            @classmethod
            @app.workflow("three")
            async def three(cls, order: str) -> None:
                work.note(cls, order)

        class Branch(Shop): ...

        for call in (Shop.one, Shop().two, Shop.three, Branch.three):
            with pytest.raises(ConnectionError):
                await call("o-1")
        letters = await letters_of(app)
        kept = {str(letter.adapter): letter for letter in letters if letter.retry_policy != "never"}
        assert {name: letter.task for name, letter in kept.items()} == {name: {"order": "o-1"} for name in kept}
        assert set(kept) == {"one", "two", "three"}
        (other,) = [letter for letter in letters if letter.retry_policy == "never"]
        assert "Branch" in other.metadata["dlq_not_bound"]
        work.broken = False
        for letter in kept.values():
            assert (await queue_of(app).retry_task(letter.task_id))["success"]
        assert sorted(map(str, work.calls[4:])) == sorted(map(str, work.calls[:3]))

    async def test_a_method_of_what_cannot_be_made_again_is_refused_before_it_runs(self, house: House) -> None:
        app, calls = house.app(), []

        class Shop:
            @app.workflow
            async def sell(self, order: str) -> None:
                calls.append(order)

        with pytest.raises(
            InvalidInput, match=r"sell is a method, and a retry would need its Shop, which cannot be made"
        ):
            await Shop().sell("o-1")
        assert calls == []


class Unreadable:
    """Can be pickled, and not read again."""

    def __init__(self) -> None:
        self.ready = False

    def __reduce__(self) -> Any:
        return _refuse, (self.ready,)


def _refuse(ready: bool) -> None:
    raise RuntimeError("cannot be read")


class Equal:
    """A function that cannot be hashed."""

    __hash__ = None  # type: ignore[assignment]

    async def __call__(self, task: Any, repos: list[str]) -> None:
        task["done"] = True
        raise NETWORK


class TestNothingHidesTheError:
    async def test_arguments_whose_copies_cannot_be_read(self, house: House) -> None:
        app = house.app()

        @app.workflow("charge")
        async def charge(items: list[Any]) -> None:
            items[0].ready = True
            raise NETWORK

        with pytest.raises(ConnectionError, match="refused"):
            await charge([Unreadable()])
        (letter,) = await letters_of(app)
        assert letter.retry_policy == "never"

    async def test_a_function_that_cannot_be_hashed(self, house: House) -> None:
        app = house.app()
        charge: Any = app.workflow("charge")(Equal())
        with pytest.raises(ConnectionError, match="refused"):
            await charge({"id": "wf_1"}, ["api"])
        assert (await letter_of(queue_of(app), "wf_1")).task == {"id": "wf_1"}
