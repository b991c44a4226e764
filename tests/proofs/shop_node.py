"""One process of a shop with a tracked workflow of five steps: `python -m tests.proofs.shop_node URL LOG ACT`.

ACT is `raise` or `kill`: what happens in the third step of a first run; or `retry`: run what is due. Each step writes a
line to the log, which is there whoever is killed afterwards; so does the end of a run that had equal values.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from uuid import UUID

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.stores.kinds import stored_kinds
from mahavishnu.stores.urls import open_store


class Speed(Enum):
    FAST = "fast"
    SLOW = "slow"


@dataclass
class Order:
    number: UUID
    total: Decimal
    due: date
    speed: Speed


@dataclass
class Receipt:
    order: Order
    at: datetime
    lines: tuple[Decimal, ...]
    tags: frozenset[str]


ORDER = Order(UUID(int=7), Decimal("13.00"), date(2026, 11, 19), Speed.FAST)
RECEIPT = Receipt(ORDER, datetime(2026, 11, 19, 12, tzinfo=UTC), (Decimal("6.50"), Decimal("6.50")), frozenset({"eu"}))
STEPS = ("charge", "book", "pack", "send", "mail")


def app_on(url: str) -> MahavishnuApp:
    """An app of one process."""
    settings = MahavishnuSettings(
        dlq_store_url="memory:", dlq_default_retry_policy="immediate", dlq_automatic_policy="default"
    )
    return MahavishnuApp(settings, store=open_store(url, local=None, kinds=stored_kinds()))


def add_shop(app: MahavishnuApp, log: Path, act: str) -> None:
    """Give the app its workflow."""

    def write(line: str) -> None:
        with log.open("a") as file:
            file.write(f"{line}\n")

    async def charge(order: Order) -> Receipt:
        write("charge")
        return Receipt(order, RECEIPT.at, RECEIPT.lines, RECEIPT.tags)

    def book(receipt: Receipt) -> dict[date, set[int]]:
        write("book")
        return {receipt.order.due: {1, 2}}

    async def pack(booked: dict[date, set[int]]) -> bytes:
        if act == "raise":
            raise ConnectionError("the belt stands still")
        if act == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        write("pack")
        return b"\x00parcel"

    async def other(name: str) -> str:
        write(name)
        return name

    @app.workflow(name="ship", key="key", track=True)
    async def ship(key: str, order: Order) -> None:
        receipt = await app.lifecycle.step("charge", charge, order)
        booked = await app.lifecycle.step("book", book, receipt)
        parcel = await app.lifecycle.step("pack", pack, booked)
        for name in STEPS[3:]:
            await app.lifecycle.step(name, other, name)
        assert (order, receipt, booked, parcel) == (ORDER, RECEIPT, {ORDER.due: {1, 2}}, b"\x00parcel")
        assert type(receipt.lines) is tuple and type(receipt.tags) is frozenset and type(receipt.order.number) is UUID
        write("equal")

    app.register_adapter("unused", lambda task, repos: None)
    add_shop.ship = ship  # type: ignore[attr-defined]


async def main(url: str, log: str, act: str) -> None:
    """Run the workflow, or what is due."""
    async with app_on(url) as app:
        add_shop(app, Path(log), act)
        if act == "retry":
            await app.dlq.run_due()
        else:
            await add_shop.ship("o-7", ORDER)  # type: ignore[attr-defined]


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
