"""Failing code of real frameworks: one letter each with the real arguments, and the framework's own error as it was.

`docs/howto-frameworks.md` shows the same; processes, forks and scripts are in `test_sync_processes.py`.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import celery
import fastapi
import flask
import httpx
import pytest
import uvicorn

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.model.errors import InsideEventLoop
from mahavishnu.testing import turn
from tests.support.queues import queue_of

ORDER = {"order": "A-17", "amount": Decimal("12.50")}
AS_JSON = {"order": "A-17", "amount": "12.50"}  # what a person reads and edits


@pytest.fixture
def app(tmp_path: Path) -> Iterator[MahavishnuApp]:
    app = MahavishnuApp(MahavishnuSettings(dlq_store_url=f"sqlite:///{tmp_path / 'letters.db'}"))
    yield app
    app.sync.shutdown()


class Bank:
    """What the functions ask; it is away until it is not."""

    def __init__(self) -> None:
        self.is_away, self.charges = True, list[dict[str, Any]]()

    def charge(self, **arguments: Any) -> str:
        if self.is_away:
            raise ConnectionError("the bank is away")
        self.charges.append(arguments)
        return "charged"


@pytest.fixture
def bank() -> Bank:
    return Bank()


def check_letter(app: MahavishnuApp, bank: Bank, occurrences: int = 1) -> None:
    """The only one, with the arguments, and a retry that gets them back with their types."""
    (letter,) = app.sync.dlq.list_tasks()
    assert letter.task == AS_JSON
    assert (letter.adapter, letter.occurrences, letter.error) == ("charge", occurrences, "the bank is away")
    assert app.sync.dlq.get_statistics()["waiting"] == 0
    bank.is_away = False
    assert app.sync.dlq.retry_task(letter.task_id)["success"] is True
    assert bank.charges == [ORDER]
    assert type(bank.charges[0]["amount"]) is Decimal


def make_charge(app: MahavishnuApp, bank: Bank) -> Any:
    @app.workflow("charge")
    def charge(order: str, amount: Decimal) -> str:
        return bank.charge(order=order, amount=amount)

    return charge


def make_charge_async(app: MahavishnuApp, bank: Bank) -> Any:
    @app.workflow("charge")
    async def charge(order: str, amount: Decimal) -> str:
        return bank.charge(order=order, amount=amount)

    return charge


@contextmanager
def serve(api: fastapi.FastAPI) -> Iterator[str]:
    """A server with an event loop of its own, in another thread."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(api, log_level="critical"))
        serving = threading.Thread(target=server.run, args=[[listening]])
        serving.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            serving.join(30)


@pytest.mark.parametrize("with_lifespan", [True, False])
@pytest.mark.parametrize("kind", ["async route", "sync route"])
def test_a_fastapi_route(app: MahavishnuApp, bank: Bank, kind: str, with_lifespan: bool) -> None:
    """Sync routes run in threads beside the server's event loop, which has the store if the lifespan opens it."""

    @asynccontextmanager
    async def lifespan(api: fastapi.FastAPI) -> AsyncIterator[None]:
        async with app:
            yield

    api = fastapi.FastAPI(lifespan=lifespan if with_lifespan else None)
    seen = list[BaseException]()

    @api.exception_handler(ConnectionError)
    async def answer(request: fastapi.Request, error: ConnectionError) -> fastapi.Response:
        seen.append(error)
        return fastapi.Response(str(error), 502)

    if kind == "async route":
        charge_async = make_charge_async(app, bank)

        @api.post("/orders/{order}")
        async def order_async(order: str, amount: Decimal) -> str:
            answer: str = await charge_async(order, amount=amount)
            return answer

    else:
        charge = make_charge(app, bank)

        @api.post("/orders/{order}")
        def order_sync(order: str, amount: Decimal) -> str:
            answer: str = charge(order, amount=amount)
            return answer

    with serve(api) as url:
        answered = httpx.post(f"{url}/orders/A-17?amount=12.50", timeout=30)
    assert (answered.status_code, answered.text) == (502, "the bank is away")
    assert [type(error) for error in seen] == [ConnectionError]
    check_letter(app, bank)


def test_a_flask_route(app: MahavishnuApp, bank: Bank) -> None:
    charge, site = make_charge(app, bank), flask.Flask("shop")

    @site.post("/orders/<order>")
    def order(order: str) -> str:
        answer: str = charge(order, amount=Decimal(flask.request.get_json()["amount"]))
        return answer

    @site.errorhandler(ConnectionError)
    def answer(error: ConnectionError) -> tuple[str, int]:
        assert flask.request.path == "/orders/A-17"  # in the same request
        return str(error), 502

    answered = site.test_client().post("/orders/A-17", json={"amount": "12.50"})
    assert (answered.status_code, answered.text) == (502, "the bank is away")
    check_letter(app, bank)


def test_an_async_view_of_flask_has_an_event_loop_for_each_request(app: MahavishnuApp, bank: Bank) -> None:
    """One after the other may have the store, also after the thread for code without one."""
    charge, site = make_charge_async(app, bank), flask.Flask("shop")
    app.sync.dlq.open()

    def order() -> str:
        answer: str = asyncio.run(charge(**ORDER))  # what flask[async] does with an async view
        return answer

    site.add_url_rule("/orders", view_func=order, methods=["POST"])
    assert site.test_client().post("/orders").status_code == 500
    check_letter(app, bank)


def test_a_celery_task(app: MahavishnuApp, bank: Bank) -> None:
    charge = make_charge(app, bank)
    shop = celery.Celery("shop", broker="memory://", set_as_current=False)
    shop.conf.update(task_always_eager=True, task_store_eager_result=False)

    @shop.task  # type: ignore[untyped-decorator]
    def order(order: str, amount: Decimal) -> str:
        answer: str = charge(order, amount=amount)
        return answer

    result = order.delay("A-17", amount=Decimal("12.50"))
    assert result.state == "FAILURE"
    with pytest.raises(ConnectionError, match="the bank is away"):
        result.get(disable_sync_subtasks=False)
    check_letter(app, bank)


def test_a_celery_task_that_retries_by_itself_is_one_letter(app: MahavishnuApp, bank: Bank) -> None:
    """With a key: each failure of the same work is merged into its letter."""
    shop = celery.Celery("shop", broker="memory://", set_as_current=False)
    shop.conf.update(task_always_eager=True)

    @app.workflow("charge", key="order")
    def charge(order: str, amount: Decimal) -> str:
        return bank.charge(order=order, amount=amount)

    @shop.task(autoretry_for=(ConnectionError,), max_retries=2, retry_backoff=False, default_retry_delay=0)  # type: ignore[untyped-decorator]
    def order(order: str, amount: Decimal) -> str:
        return charge(order, amount=amount)

    assert order.delay("A-17", amount=Decimal("12.50")).state == "FAILURE"
    check_letter(app, bank, occurrences=3)


# ------------------------------------------------------------------------- functions that cannot be decorated


def test_the_error_handler_of_a_fastapi_app(app: MahavishnuApp, bank: Bank) -> None:
    """It awaits `capture_exception`, and answers as it would."""
    make_charge(app, bank)

    @asynccontextmanager
    async def lifespan(api: fastapi.FastAPI) -> AsyncIterator[None]:
        async with app:
            yield

    api = fastapi.FastAPI(lifespan=lifespan)

    @api.exception_handler(ConnectionError)
    async def answer(request: fastapi.Request, error: ConnectionError) -> fastapi.Response:
        arguments = {"order": request.path_params["order"], "amount": Decimal(request.query_params["amount"])}
        await app.capture_exception(error, workflow="charge", arguments=arguments)
        return fastapi.Response(str(error), 502)

    @api.post("/orders/{order}")
    async def order(order: str, amount: Decimal) -> str:
        return bank.charge(order=order, amount=amount)

    with serve(api) as url:
        answered = httpx.post(f"{url}/orders/A-17?amount=12.50", timeout=30)
    assert (answered.status_code, answered.text) == (502, "the bank is away")
    check_letter(app, bank)


def test_the_error_handler_of_a_flask_app(app: MahavishnuApp, bank: Bank) -> None:
    make_charge(app, bank)
    site = flask.Flask("shop")

    @site.post("/orders/<order>")
    def order(order: str) -> str:
        return bank.charge(order=order, amount=Decimal("12.50"))

    @site.errorhandler(ConnectionError)
    def answer(error: ConnectionError) -> tuple[str, int]:
        arguments = {**(flask.request.view_args or {}), "amount": Decimal("12.50")}
        outcome = app.sync.capture_exception(error, workflow="charge", arguments=arguments)
        assert outcome.letter is not None  # it is stored
        return str(error), 502

    assert site.test_client().post("/orders/A-17").status_code == 502
    check_letter(app, bank)


def test_the_failure_signal_of_celery(app: MahavishnuApp, bank: Bank) -> None:
    """It comes once, when Celery has given up trying."""
    make_charge(app, bank)
    shop = celery.Celery("shop", broker="memory://", set_as_current=False)
    shop.conf.update(task_always_eager=True)

    @shop.task(name="charge", autoretry_for=(ConnectionError,), max_retries=2, default_retry_delay=0)  # type: ignore[untyped-decorator]
    def order(order: str, amount: Decimal) -> str:
        return bank.charge(order=order, amount=amount)

    def keep(sender: Any, exception: BaseException, args: Any, kwargs: Any, **others: Any) -> None:
        arguments = inspect.signature(sender.run).bind(*args, **kwargs).arguments
        app.sync.capture_exception(exception, workflow=sender.name, arguments=arguments)

    celery.signals.task_failure.connect(keep, weak=False, dispatch_uid="test")
    try:
        result = order.delay("A-17", amount=Decimal("12.50"))
    finally:
        celery.signals.task_failure.disconnect(dispatch_uid="test")
    assert (result.state, str(result.result)) == ("FAILURE", "the bank is away")
    check_letter(app, bank)


def test_a_block_of_code(app: MahavishnuApp, bank: Bank) -> None:
    make_charge(app, bank)
    with pytest.raises(ConnectionError, match="the bank is away"), app.sync.capture("charge", **ORDER):
        bank.charge(**ORDER)
    check_letter(app, bank)


def refund(order: str, amount: Decimal) -> str:
    raise ConnectionError("the bank is away")


async def refund_later(order: str, amount: Decimal) -> str:
    raise ConnectionError("the bank is away")


@pytest.mark.parametrize("function", [refund, refund_later])
def test_a_function_of_somebody_else(app: MahavishnuApp, function: Any) -> None:
    """An async one is run in the loop for code that has none."""
    with pytest.raises(ConnectionError, match="the bank is away"):
        app.sync.call(function, "A-17", amount=Decimal("12.50"))
    (letter,) = app.sync.dlq.list_tasks()
    assert (letter.adapter, letter.task, letter.occurrences) == (function.__name__, AS_JSON, 1)


# ---------------------------------------------------------------------------------------- without a framework


def test_threads(app: MahavishnuApp, bank: Bank) -> None:
    """Each raises its own error, and each is one letter."""
    charge, raised = make_charge(app, bank), list[BaseException]()

    def call(number: int) -> None:
        try:
            charge(f"A-{number}", amount=Decimal(number))
        except ConnectionError as error:
            raised.append(error)

    threads = [threading.Thread(target=call, args=[number]) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(set(map(id, raised))) == 12
    tasks = [letter.task for letter in app.sync.dlq.list_tasks()]
    assert sorted(int(task["amount"]) for task in tasks) == list(range(12))
    assert all(task["order"] == f"A-{task['amount']}" for task in tasks)


async def run_cell(code: str, namespace: dict[str, Any]) -> None:
    """As Jupyter does: in the event loop that is running all the time, with `await` at the top level."""
    compiled = compile(inspect.cleandoc(code), "<cell>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    made = eval(compiled, namespace)
    if compiled.co_flags & inspect.CO_COROUTINE:
        await made


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_notebook(app: MahavishnuApp, bank: Bank, kind: str) -> None:
    """A sync function cannot wait for the event loop that it is called in: its failure is in a file first."""
    make = make_charge_async if kind == "async" else make_charge
    namespace = {"app": app, "charge": make(app, bank), "Decimal": Decimal}
    wait = "await " if kind == "async" else ""
    with pytest.raises(ConnectionError, match="the bank is away"):
        await run_cell(f"{wait}charge('A-17', amount=Decimal('12.50'))", namespace)
    with pytest.raises(InsideEventLoop, match=r"await app\.dlq\.list_tasks\("):
        await run_cell("app.sync.dlq.list_tasks()", namespace)

    async def is_stored() -> bool:
        await run_cell("await app.dlq.intake.admit_waiting(); letters = await app.dlq.list_tasks()", namespace)
        return bool(namespace["letters"])

    async with asyncio.timeout(30):
        while not await is_stored():
            await turn()
    (letter,) = namespace["letters"]
    assert (letter.task, letter.adapter, letter.occurrences) == (AS_JSON, "charge", 1)
    assert (await queue_of(app).get_statistics())["waiting"] == 0
    await app.shutdown()
