"""R390: what is kept in the main store stops growing, because what is over goes to the archive."""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from mahavishnu.archive.service import archive_old
from mahavishnu.letters.ledger import Ledger
from tests.support.queues import House

DAYS, A_DAY, FAIL = 60, 12, 3
KEPT_DAYS, TOMBSTONE_DAYS = 10, 30


def rows(path: Path) -> Counter[str]:
    """How many records the main file has, by table."""
    with closing(sqlite3.connect(path)) as file:
        names = [name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return Counter({name: file.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in names})


@pytest.mark.prove
async def test_the_main_store_does_not_grow_while_sixty_days_pass(tmp_path: Path) -> None:
    """From when the first tombstones are over, each day leaves what the day before left, but for a line of sums."""
    house = House("sqlite", tmp_path)
    days = {f"{what}_days": KEPT_DAYS for what in ("completed", "tasks", "history", "audit")}
    app = house.app(retention=days)

    @app.workflow(name="order", track=True)
    async def order(number: int) -> int:
        if number % A_DAY < FAIL:
            raise ValueError(f"order {number} has no price")
        return number

    kept: list[Counter[str]] = []
    for day in range(DAYS):
        for number in range(day * A_DAY, (day + 1) * A_DAY):
            with contextlib.suppress(ValueError):
                await order(number)
        house.clock.advance(3600)
        for letter in await app.dlq.list_tasks():
            await app.dlq.letters.resolve(letter.task_id, by="ann")
        house.clock.advance(23 * 3600)
        await archive_old(app.dlq)
        await Ledger(app.dlq.context).fold()
        kept.append(rows(tmp_path / "letters.db"))
    steady, last = kept[TOMBSTONE_DAYS + 5], kept[-1]
    grown = {name: last[name] - steady[name] for name in last if last[name] != steady[name]}
    assert grown.pop("archive_partitions") <= 2
    assert grown == {"ledger": DAYS - TOMBSTONE_DAYS - 6}
    assert (last["tasks"], last["letters"]) == (KEPT_DAYS * A_DAY, TOMBSTONE_DAYS * FAIL)
    sums = (await app.dlq.get_statistics())["lifetime_stats"]
    assert (sums["enqueued_total"], sums["manually_resolved"]) == (DAYS * FAIL, DAYS * FAIL)
    archived, after = 0, None
    while True:
        page = await app.dlq.archive.search(limit=100, after=after)
        archived += len(page.items)
        if (after := page.next) is None:
            break
    assert archived == (DAYS - KEPT_DAYS) * FAIL
    await house.close()
