"""Every kind of function and of value, called in every way, on every store: a retry gets what the call was given.

Equal arguments of equal types, also after an edit, after an export and import, and after a drain.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from mahavishnu.capture.adapters import is_async
from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.dead_letter_queue import KINDS
from mahavishnu.model.errors import InvalidInput
from mahavishnu.stores.base import Store
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.testing import FaultyStore
from mahavishnu.values.kinds import same_value
from tests.support.queues import queue_of


@dataclass(frozen=True)
class Address:
    street: str
    since: date


class Invoice(BaseModel):
    number: int
    total: Decimal


Value = dict[Any, Any] | Address | Invoice | Decimal | date | bytes
VALUES: dict[str, Any] = {
    "plain": {"a": [1, 2.5, None, True, "ü"], "b": {"c": ""}},
    "dataclass": Address("Mill Lane", date(2026, 11, 19)),
    "pydantic": Invoice(number=5, total=Decimal("12.50")),
    "decimal": Decimal("12.50"),
    "date": date(2026, 11, 19),
    "bytes": b"\x00\xff",
}
TUPLE_KEYS = {("a", 1): 2}
ERROR = ConnectionError("connection refused")
FORMS = ("sync", "async", "method")
WAYS = ("decorated", "call", "capture", "task")


class Ledger:
    """Notes what was run, by task id. Everything fails until it is repaired."""

    def __init__(self) -> None:
        self.is_broken = True
        self.runs: dict[str, list[Any]] = {}

    def note(self, name: str, *given: Any) -> None:
        self.runs.setdefault(name, []).append(given)
        if self.is_broken:
            raise ERROR


ledger = Ledger()


@pytest.fixture(autouse=True)
def _new_ledger() -> Iterator[None]:
    global ledger
    ledger = Ledger()
    yield


def send(name: str, value: Value, note: str = "", *, pair: tuple[int, ...] = ()) -> None:
    ledger.note(name, value, note, pair)


async def send_later(name: str, value: Value, note: str = "", *, pair: tuple[int, ...] = ()) -> None:
    ledger.note(name, value, note, pair)


@dataclass(frozen=True)
class Sender:
    host: str

    async def send(self, name: str, value: Value, note: str = "", *, pair: tuple[int, ...] = ()) -> None:
        ledger.note(name, self, value, note, pair)

    async def sweep(self, task: dict[str, Value], repos: list[str]) -> None:
        ledger.note(str(task["id"]), task, repos)


def sweep(task: dict[str, Value], repos: list[str]) -> None:
    ledger.note(str(task["id"]), task, repos)


async def sweep_later(task: dict[str, Value], repos: list[str]) -> None:
    ledger.note(str(task["id"]), task, repos)


FUNCTIONS: dict[str, Callable[..., Any]] = {"sync": send, "async": send_later, "method": Sender.send}
SWEEPS: dict[str, Callable[..., Any]] = {"sync": sweep, "async": sweep_later, "method": Sender("here").sweep}


class Process:
    """The app as one process has it: its workflows, and ways to call them."""

    def __init__(self, store: Store) -> None:
        settings = MahavishnuSettings(dlq_store_url="memory:")
        self.app = MahavishnuApp(settings, store=store)
        decorate, at_once = self.app.workflow, "immediate"
        self.decorated = {form: decorate(form, key="name", retry_policy=at_once)(FUNCTIONS[form]) for form in FORMS}
        self.sweeps = {form: decorate(f"{form} task", retry_policy=at_once)(SWEEPS[form]) for form in FORMS}

    async def fail(self, form: str, way: str, name: str, value: Any) -> str:
        """Have one call fail. Returns the task id of its letter."""
        function: Callable[..., Any] = self.decorated[form]
        args = (Sender("there"),) if form == "method" else ()
        arguments: dict[str, Any] = {"name": name, "value": value, "pair": (1, 2)}
        if way == "task":
            with suppress(ConnectionError):
                await _result(self.sweeps[form]({"id": name, "value": value, "note": ""}, ["api"]))
            return name
        with suppress(ConnectionError):
            if way == "decorated":
                await _result(function(*args, **arguments))
            elif way == "call":
                await self.app.call(FUNCTIONS[form], *args, **arguments)
            else:
                async with self.app.capture(form, **arguments, **({"self": args[0]} if args else {})):
                    await _result(FUNCTIONS[form](*args, **arguments))
        return f"{form}:{name}"

    async def fail_all(self, values: dict[str, Any]) -> dict[str, str]:
        """The names of the calls by the task ids of their letters."""
        calls = [(form, way, f"{form}-{way}-{kind}", values[kind]) for form, way, kind in product(FORMS, WAYS, values)]
        ids = await asyncio.gather(*(self.fail(*call) for call in calls))
        assert self.app.dlq_integration is not None
        await self.app.dlq_integration.finish()
        return dict(zip(ids, (name for _, _, name, _ in calls), strict=True))


async def _result(answer: Any) -> None:
    if isinstance(answer, Awaitable):
        await answer


@pytest.fixture(params=["memory", "sqlite", pytest.param("opensearch", marks=pytest.mark.opensearch)])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    """The same store for each process."""
    if request.param == "memory":
        memory = MemoryStore()
        return lambda: memory
    if request.param == "sqlite":
        return lambda: SQLiteStore(tmp_path / "letters.db", kinds=KINDS)
    url, prefix = request.getfixturevalue("opensearch_url"), request.getfixturevalue("opensearch_prefix")
    return lambda: OpenSearchStore(url, prefix=prefix, timeout=60, kinds=KINDS)


async def _edit(process: Process, ids: dict[str, str]) -> None:
    edit = queue_of(process.app).letters.edit
    await asyncio.gather(*(edit(task_id, patch={"note": "edited"}, create=True) for task_id in ids))


async def _carry_over(process: Process, ids: dict[str, str], store: Store) -> None:
    """Into another store, as lines of JSON."""
    here = queue_of(process.app)
    lines = [line async for line in here.transfer.export(task_id=list(ids))]
    assert len(lines) == len(ids)
    there = Process(store)
    done = await queue_of(there.app).transfer.import_letters([json.loads(line) for line in lines])
    assert sorted(done.taken.values()) == ["new"] * len(ids)
    await there.app.shutdown()


@pytest.mark.parametrize("then", ["nothing", "edit", "export and import", "drain"])
async def test_a_retry_gets_what_the_call_was_given(open_store: Callable[[], Store], tmp_path: Path, then: str) -> None:
    primary = FaultyStore(open_store())
    outage = FallbackStore(primary, SQLiteStore(tmp_path / "local.db", kinds=KINDS))
    if then == "drain":
        primary.faults.unavailable()
    first = Process(outage if then == "drain" else primary)
    async with first.app:
        ids = await first.fail_all(VALUES)
        given = dict(ledger.runs)
        assert len(given) == len(ids) == len(FORMS) * len(WAYS) * len(VALUES)
        if then == "drain":
            primary.faults.clear()
            await outage.drain()
        elif then == "edit":
            await _edit(first, ids)
        elif then == "export and import":
            elsewhere = SQLiteStore(tmp_path / "elsewhere.db", kinds=KINDS)
            await _carry_over(first, ids, elsewhere)
            open_store = lambda: SQLiteStore(tmp_path / "elsewhere.db", kinds=KINDS)  # noqa: E731
    ledger.is_broken, ledger.runs = False, {}
    second = Process(open_store())
    async with second.app:
        async with asyncio.timeout(60):
            while await queue_of(second.app).run_due():
                pass
        assert await queue_of(second.app).list_tasks() == []
    for name, calls in given.items():
        expected = _edited(calls[0]) if then == "edit" else calls[0]
        assert len(ledger.runs[name]) == 1
        assert same_value(ledger.runs[name][0], expected), (name, ledger.runs[name][0], expected)


def _edited(call: tuple[Any, ...]) -> tuple[Any, ...]:
    """What the call would have been given with another note."""
    if isinstance(call[0], dict) and "id" in call[0]:
        return {**call[0], "note": "edited"}, *call[1:]
    return *call[:-2], "edited", call[-1]


async def test_what_cannot_come_back_waits_for_a_person(open_store: Callable[[], Store]) -> None:
    process = Process(open_store())
    async with process.app:
        ids = await process.fail_all({"tuple keys": TUPLE_KEYS})
        assert len(ids) == len(FORMS) * len(WAYS)
        for task_id in ids:
            letter = await queue_of(process.app).get_task(task_id)
            assert letter is not None
            assert letter.retry_policy == "never" and letter.next_retry_at is None
            assert letter.metadata["dlq_not_json"].startswith("value has a key of type tuple"), letter.metadata


def test_generators_are_refused_in_every_way() -> None:
    app = MahavishnuApp(MahavishnuSettings(dlq_store_url="memory:"))

    def generate(task: Any, repos: list[str]) -> Iterator[int]:
        yield 1

    async def generate_later(value: int) -> Any:
        yield value

    functions: list[Any] = [generate, generate_later]
    for function in functions:
        assert not is_async(function)
        with pytest.raises(InvalidInput, match="generator function"):
            app.workflow("x")(function)
        with pytest.raises(InvalidInput, match="generator function"):
            app.register_adapter("x", function)
        with pytest.raises(InvalidInput, match="generator function"):
            app.sync.call(function, 1)
