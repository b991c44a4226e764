"""A shop whose orders, invoices and feeds fail: letters as a real night would leave them, the newest last."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.testing import ManualClock

NIGHT = datetime(2026, 11, 19, 3, 21, 44, tzinfo=UTC)  # when somebody looks


def to_minor_units(amount: int, currency: str) -> int:
    """The amount in the smallest unit of its currency."""
    if currency not in ("EUR", "USD"):
        raise ValueError(f"unknown currency {currency!r}")
    return amount * 100


def price(order: dict[str, Any]) -> int:
    """What an order costs."""
    return sum(to_minor_units(line["amount"], order["currency"]) for line in order["lines"])


def order_of(number: int, currency: str = "EURO") -> dict[str, Any]:
    """An order as it was taken in."""
    return {
        "type": "order",
        "order": f"order-{number}",
        "customer": {"name": "Åsa Lindqvist", "country": "SE"},
        "currency": currency,
        "lines": [{"sku": "TEA-250", "amount": 12}, {"sku": "CUP-2", "amount": 19}],
        "express": False,
    }


def failure_of(number: int) -> BaseException:
    """What pricing an order raises, with its traceback."""
    try:
        price(order_of(number))
    except ValueError as error:
        return error
    raise AssertionError("it should have failed")


async def fill(dlq: DeadLetterQueue, clock: ManualClock, fail: Callable[[int], BaseException] = failure_of) -> None:
    """Have the night happen."""
    clock.set(NIGHT.replace(hour=0, minute=10))
    for number in range(6):
        await dlq.enqueue(
            f"order-{1000 + number}", order_of(1000 + number, "EUR"), ["shop"], ConnectionError("the shelf is busy"),
            "exponential", 3, {"region": "eu", "basket": 2}, adapter="orders",
        )  # fmt: skip
    clock.set(NIGHT.replace(hour=0, minute=40, second=34))
    for number in range(12):
        clock.advance(minutes=2)
        await dlq.enqueue(
            f"invoice-{88100 + number}", {"invoice": number}, ["tax"],
            TimeoutError("POST https://tax.example/v1/quote timed out after 10 s"), "exponential", 5, adapter="invoice",
            queue="invoices",
        )  # fmt: skip
    clock.set(NIGHT.replace(hour=2, minute=12, second=8))
    for number in range(48):
        clock.advance(80)
        order = order_of(1042 + number)
        order["customer"]["country"] = "DE" if number % 5 == 2 else "SE"
        await dlq.enqueue(
            f"order-{1042 + number}", order, ["shop"], fail(1042 + number), "never", 0,
            {"region": "eu", "basket": 2}, adapter="orders",
        )  # fmt: skip
    await dlq.enqueue(
        "feed-de-2026-11-19", {"feed": "de"}, ["catalogue"],
        UnicodeDecodeError("utf-8", b"\xe4", 0, 1, "invalid continuation byte"), "never", 0, adapter="sync-catalogue",
        queue="catalogue",
    )  # fmt: skip
    clock.set(NIGHT)
    await look_after_invoices(dlq)


async def look_after_invoices(dlq: DeadLetterQueue) -> None:
    """Have somebody say that they are at it."""
    for group in [each for each in (await dlq.groups.list()).items if "invoice" in each.adapters]:
        await dlq.groups.update(
            group.fingerprint, by="bo", owner="bo", state="investigating", note="tax.example is slow since 00:40"
        )
