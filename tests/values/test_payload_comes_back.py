"""A retry is given what the first run got, with its types, whatever the form of the call, the store and the way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

import pytest
from pydantic import BaseModel

from mahavishnu.bulk.run import BulkRun
from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import RetryPolicy
from mahavishnu.stores.base import Store
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.testing import FaultyStore, ManualClock
from mahavishnu.values.kinds import same_value

AWAY = ConnectionResetError("connection reset by peer")


class Plan(Enum):
    YEARLY = "yearly"


@dataclass
class Line:
    price: Decimal
    at: datetime | None = None


class Customer(BaseModel):
    name: str
    since: date
    plans: set[Plan] = set()


@dataclass
class Order:
    customer: Customer
    lines: list[Line] = field(default_factory=list)


Value: TypeAlias = Order | Customer | Decimal | date | bytes | dict[str, Any] | tuple[Line | int, ...]
VALUES: dict[str, Any] = {
    "plain": {"n": [1, 2.5, None, "ä"]},
    "dataclass": Order(Customer(name="ann", since=date(2026, 1, 1), plans={Plan.YEARLY}), [Line(Decimal("1.10"))]),
    "pydantic": Customer(name="bob", since=date(2026, 2, 2)),
    "decimal": Decimal("12.50"),
    "date": date(2026, 11, 19),
    "bytes": b"\x00\xff",
    "nested": (Line(Decimal(1), datetime(2026, 1, 1, tzinfo=UTC)), 7),
}


class Calls:
    """What was called, and fails as long as it is `broken`."""

    def __init__(self) -> None:
        self.broken, self.values = True, list[Any]()

    def note(self, value: Any) -> None:
        self.values.append(value)
        if self.broken:
            raise AWAY


calls = Calls()


@dataclass
class Shop:
    name: str

    def sell(self, value: Value, note: str = "") -> None:
        calls.note(value)
        assert self == Shop("corner")


async def sell(value: Value, note: str = "") -> None:
    calls.note(value)


def sell_in_thread(value: Value, note: str = "") -> None:
    calls.note(value)


def sweep(task: dict[str, Value], repos: list[str]) -> None:
    calls.note(task["value"])


async def by_decorated(app: MahavishnuApp, value: Any) -> None:
    await app.workflow("decorated")(sell)(value, note="x")


async def by_sync_decorated(app: MahavishnuApp, value: Any) -> None:
    await asyncio.to_thread(app.workflow("sync")(sell_in_thread), value, note="x")


async def by_method(app: MahavishnuApp, value: Any) -> None:
    await asyncio.to_thread(app.workflow("method")(Shop.sell), Shop("corner"), value, note="x")


async def by_call(app: MahavishnuApp, value: Any) -> None:
    await app.call(sell, value, note="x")


async def by_capture(app: MahavishnuApp, value: Any) -> None:
    app.workflow("captured")(sell)
    async with app.capture("captured", value=value, note="x"):
        calls.note(value)


async def by_task(app: MahavishnuApp, value: Any) -> None:
    app.register_adapter("sweep", sweep)
    await app.execute_workflow({"value": value, "note": "x"}, "sweep")


FORMS = [by_decorated, by_sync_decorated, by_method, by_call, by_capture, by_task]
Form: TypeAlias = Callable[[MahavishnuApp, Any], Any]


@dataclass
class Basket:
    """Computes an attribute at first use, and makes another one."""

    amount: Decimal

    def __post_init__(self) -> None:
        self._lock = Lock()

    @cached_property
    def double(self) -> Decimal:
        return 2 * self.amount


@dataclass
class House:
    """An app on some store; `settle` has letters where they belong, `copy` is a queue on another store."""

    app: MahavishnuApp
    copy: DeadLetterQueue
    settle: Callable[[], Any]

    @property
    def dlq(self) -> DeadLetterQueue:
        assert self.app.dlq is not None
        return self.app.dlq


@pytest.fixture(params=["memory", "sqlite", pytest.param("opensearch", marks=pytest.mark.opensearch), "drained"])
async def house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[House]:
    async def settle() -> None:
        if isinstance(store, FallbackStore):
            assert isinstance(store.primary, FaultyStore)
            store.primary.faults.clear()
            await store.drain()

    clock = ManualClock()
    store: Store = MemoryStore()
    if request.param == "sqlite":
        store = SQLiteStore(tmp_path / "letters.db", kinds=KINDS)
    elif request.param == "opensearch":
        url, prefix = request.getfixturevalue("opensearch_url"), request.getfixturevalue("opensearch_prefix")
        store = OpenSearchStore(url, prefix=prefix, timeout=60, kinds=KINDS)
    elif request.param == "drained":
        primary = FaultyStore(MemoryStore())
        store = FallbackStore(primary, SQLiteStore(tmp_path / "local.db", kinds=KINDS), clock=clock)
        primary.faults.unavailable()
    async with AsyncExitStack() as stack:
        app = MahavishnuApp(MahavishnuSettings(dlq_store_url="memory:"), store=store, clock=clock)
        copy = DeadLetterQueue(store=MemoryStore(), clock=clock)
        stack.push_async_callback(copy.shutdown)
        stack.push_async_callback(app.shutdown)
        calls.broken, calls.values = True, []
        yield House(app, copy, settle)


async def fail(house: House, form: Form, value: Any) -> DeadLetter:
    """The letter of a call that fails."""
    known = {letter.entry_id for letter in await house.dlq.list_tasks()}
    with suppress(ConnectionError):
        await form(house.app, value)
    assert house.app.dlq_integration is not None
    await house.app.dlq_integration.finish()
    (letter,) = [each for each in await house.dlq.list_tasks() if each.entry_id not in known]
    json.dumps(letter.task, allow_nan=False)  # plain
    return letter


async def test_a_retry_gets_equal_values_of_equal_types(house: House) -> None:
    letters = [await fail(house, form, value) for form in FORMS for value in VALUES.values()]
    wanted = [*VALUES.values()] * len(FORMS)
    await house.settle()
    edits = (house.dlq.letters.edit(letter.task_id, patch={"note": "y"}) for letter in letters[::2])
    await asyncio.gather(*edits)  # also after an edit of something else
    await house.copy.transfer.import_letters([json.loads(line) async for line in house.dlq.transfer.export()])
    await run_again(house.dlq, letters)
    assert same_value(sorted(calls.values, key=repr), sorted(wanted, key=repr))

    # The same letters on another store, run by an app of another process.
    house.copy.processing.callback = house.app.run_again
    house.copy.context.restore_task = house.dlq.context.restore_task
    await run_again(house.copy, letters)
    assert same_value(sorted(calls.values, key=repr), sorted(wanted, key=repr))


async def test_an_edited_value_has_the_type_of_the_one_that_it_replaces(house: House) -> None:
    letters = []
    for form in FORMS:
        letters += [await fail(house, form, Decimal("12.50")), await fail(house, form, (Line(Decimal(1)), 7))]
    await house.settle()
    for decimal, line in zip(letters[::2], letters[1::2], strict=True):
        await house.dlq.letters.edit(decimal.task_id, patch={"value": "13.00"})
        with pytest.raises(InvalidInput, match="`value` is a Decimal: '13,00' is not one"):
            await house.dlq.letters.edit(decimal.task_id, patch={"value": "13,00"})
        at = {"price": "2", "at": "2026-01-01T10:00:00Z"}
        await house.dlq.letters.edit(line.task_id, patch={"value": [at, 8]})
    await run_again(house.dlq, letters)
    edited = [Decimal("13.00"), (Line(Decimal(2), datetime(2026, 1, 1, 10, tzinfo=UTC)), 8)]
    assert same_value(sorted(calls.values, key=repr), sorted(edited * len(FORMS), key=repr))


@pytest.mark.parametrize("given", ["13.00", Decimal("13.00")], ids=["json", "value"])
async def test_a_bulk_redrive_keeps_and_takes_types(house: House, given: Any) -> None:
    for form in FORMS:
        await fail(house, form, Decimal("12.50"))
        await fail(house, form, Order(Customer(name="ann", since=date(2026, 1, 1)), [Line(Decimal("1.10"))]))
    await house.settle()
    everything: dict[str, Any] = {"everything": True, "by": "ann"}
    refused = await house.dlq.runs.preview("redrive", everything=True, patch={"value": "13,00"})
    assert (refused.eligible, len(refused.ineligible)) == (0, 2)
    assert any("`value` is a Decimal: '13,00' is not one" in why for why in refused.ineligible)

    run = await house.dlq.runs.start("redrive", patch={"value": {"customer": {"name": "bob"}}}, **everything)
    run = await worked(house.dlq, run)
    assert (run.counts.moved, run.counts.refused) == (len(FORMS), len(FORMS)), "a Decimal has no customer"
    run = await worked(house.dlq, await house.dlq.runs.start("redrive", patch={"value": given}, **everything))
    assert (run.counts.moved, run.counts.refused) == (len(FORMS), len(FORMS)), "an Order is no Decimal"

    calls.broken, calls.values = False, []
    while await house.dlq.run_due():
        pass
    edited = [Decimal("13.00"), Order(Customer(name="bob", since=date(2026, 1, 1)), [Line(Decimal("1.10"))])]
    assert same_value(sorted(calls.values, key=repr), sorted(edited * len(FORMS), key=repr))
    assert (await worked(house.dlq, run)).counts.succeeded == len(FORMS)


async def test_what_cannot_come_back_waits_for_a_person(house: House) -> None:
    letters = [await fail(house, form, {("a", 1): 2}) for form in FORMS]
    await house.settle()
    calls.broken, calls.values = False, []
    for letter in letters:
        assert letter.retry_policy == RetryPolicy.NEVER
        assert "value has a key of type tuple" in letter.metadata["dlq_not_json"]
        assert "give a value by an edit" in (await house.dlq.retry_task(letter.task_id))["error"]
        await house.dlq.letters.edit(letter.task_id, patch={"value": Decimal(2)})
    assert calls.values == []
    await run_again(house.dlq, letters)
    assert same_value(calls.values, [Decimal(2)] * len(FORMS))


async def test_an_attribute_beside_the_fields_of_a_dataclass_waits_for_a_person(tmp_path: Path) -> None:
    """It would be missing in the retry; what the class computes, or makes by itself, is not."""
    app, got = MahavishnuApp(MahavishnuSettings(dlq_store_url="memory:")), list[Any]()

    @app.workflow("bill", key="order")
    async def bill(order: int, basket: Basket) -> None:
        got.append(basket)
        if len(got) == 1 or order == 2:
            raise ConnectionError("no")

    async with app:
        for order in (1, 2):
            basket = Basket(Decimal(2))
            assert basket.double == 4
            if order == 2:
                basket.tenant = "eu"  # type: ignore[attr-defined]
            with suppress(ConnectionError):
                await bill(order, basket)
        answers = [await app.dlq.retry_task(f"bill:{order}") for order in (1, 2)]
        assert answers[0]["success"] is True
        assert "basket was of type Basket, which cannot come back" in answers[1]["error"]


async def worked(dlq: DeadLetterQueue, run: BulkRun) -> BulkRun:
    """The run after everything that can be done now."""
    while await dlq.runs.advance():
        pass
    return await dlq.runs.get(run.run_id)


async def run_again(dlq: DeadLetterQueue, letters: list[DeadLetter]) -> None:
    """All at once, which is quicker: `calls.values` are in any order."""
    calls.broken, calls.values = False, []
    answers = await asyncio.gather(*(dlq.retry_task(letter.task_id) for letter in letters))
    assert all(answer["success"] for answer in answers), answers
