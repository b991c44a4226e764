"""Records that cannot be read are listed, and hide no other."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model.errors import InvalidInput
from mahavishnu.monitoring.service import UnreadableRecord
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.testing import FaultyStore
from tests.archive.test_archiving import LATER
from tests.support.queues import House


def damage(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(statement).rowcount == 1


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.db"))


async def test_each_is_named_with_why_and_the_others_are_found(tmp_path: Path) -> None:
    house = House("sqlite", tmp_path)
    queue = house.queue()
    for number in range(5):
        await queue.enqueue(f"wf_{number}", {}, [], "boom", namespace="eu" if number == 4 else None)
    await queue.letters.edit("wf_0", priority=3)
    await queue.letters.resolve("wf_3")
    house.clock.advance(LATER)
    assert (await queue.archive.archive_completed_tasks(dry_run=False)).tasks_archived == 1
    assert await queue.integrity.find_unreadable() == []

    file = tmp_path / "letters.db"
    damage(file, "UPDATE letters SET _body = '{' WHERE _key = 'wf_1'")
    damage(file, "UPDATE letters SET _body = '{}' WHERE task_id = 'wf_4'")
    damage(file, "UPDATE revisions SET _body = 'x'")
    damage(
        next(each for each in files(tmp_path) if "archive" in each.name),
        "UPDATE archive SET _body = json_set(_body, '$.letter', 'other')",
    )
    found = await queue.integrity.find_unreadable()
    assert found.degraded is None
    assert {(each.kind, each.key) for each in found if each.kind != "revisions"} == {
        ("letters", "wf_1"), ("letters", "eu/default/wf_4"), ("archive 2026_01", found[-1].key),
    }  # fmt: skip
    assert [each.kind for each in found].count("revisions") == 1
    assert found[-1].why == "its checksum differs from what was written"
    assert all(each.why for each in found)
    assert len(await queue.integrity.find_unreadable(limit=2)) == 2
    assert {letter.task_id for letter in await queue.all_namespaces.list_tasks()} == {"wf_0", "wf_2"}
    with pytest.raises(InvalidInput, match="from 1 to"):
        await queue.integrity.find_unreadable(limit=0)
    await queue.archive.detach("2026_01")
    assert (await queue.integrity.find_unreadable()).degraded == "detached partitions were not read: 2026_01"
    await house.close()


async def test_what_cannot_be_looked_at_is_said() -> None:
    primary = FaultyStore(MemoryStore())
    async with DeadLetterQueue(store=FallbackStore(primary, MemoryStore())) as queue:
        await queue.enqueue("wf_1", {}, [], "boom")
        primary.faults.corrupt("find", keys=["wf_1"])
        (found,) = await queue.integrity.find_unreadable()
        assert found == UnreadableRecord("letters", "wf_1", "a test's fault")
        primary.faults.unavailable()
        assert (await queue.integrity.find_unreadable()).degraded is not None
