"""Records that cannot be read are listed, and hide no other."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.model.errors import InvalidInput, PermissionDenied
from mahavishnu.model.permissions import ROLE_PERMISSIONS, Principal, Scope
from mahavishnu.monitoring.service import UnreadableRecord
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.kinds import LOCAL_STORES, LocalStore
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.testing import START, FaultyStore, ManualClock
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


LOST = LocalStore("lost", "web-1", 7, "/var/local.db", START, kept=3, letters=2)


async def test_a_local_store_that_is_gone_for_good_is_forgotten_and_that_is_on_record() -> None:
    home, clock = FaultyStore(MemoryStore()), ManualClock()
    await home.collection(LOCAL_STORES).write([LOST])
    async with DeadLetterQueue(store=FallbackStore(home, MemoryStore(), clock=clock), clock=clock) as queue:
        clock.advance(minutes=6)
        (found,) = await queue.integrity.local_stores()
        assert (found.store, found.stale) == (LOST, True)
        with pytest.raises(InvalidInput, match="no local store 'other' is registered"):
            await queue.integrity.forget_local_store("other")
        await queue.integrity.forget_local_store("lost", by="ann", notes="its disk is gone")
        assert "lost" not in [each.store.key for each in await queue.integrity.local_stores()]
        (entry,) = (await queue.audit.list(action="forget local store", outcome="done")).items
        assert (entry.actor, entry.reason, entry.changes.value["kept"]["after"]) == ("ann", "its disk is gone", 3)
        home.faults.unavailable()
        assert "which local stores there are is not known" in str((await queue.integrity.local_stores()).degraded)


async def test_who_sees_a_part_does_not_see_local_stores() -> None:
    async with DeadLetterQueue() as queue:
        part = Principal("ann", ROLE_PERMISSIONS["admin"], Scope(adapters=frozenset({"billing"})))
        with pytest.raises(PermissionDenied):
            await queue.for_actor(part).integrity.local_stores()
        operator = Principal("bob", ROLE_PERMISSIONS["operator"])
        assert await queue.for_actor(operator).integrity.local_stores() == []
        with pytest.raises(PermissionDenied):
            await queue.for_actor(operator).integrity.forget_local_store("lost")
        assert (await queue.for_actor(part).get_statistics())["local_stores"] == []


async def test_counters_that_are_wrong_are_named_and_counted_again(tmp_path: Path) -> None:
    queue = House("sqlite", tmp_path).queue(store=SQLiteStore(tmp_path / "letters.db", kinds=KINDS))
    await queue.enqueue("wf_0", {}, [], "boom")
    damage(tmp_path / "letters.db", 'UPDATE "letters#0" SET _n = 7')
    assert (await queue.get_statistics())["queue_size"] == 7
    (found,) = await queue.integrity.find_unreadable()
    assert (found.kind, found.why) == ("letters", "1 counters were not what its records are; they are now")
    assert await queue.integrity.find_unreadable() == []
    assert (await queue.get_statistics())["queue_size"] == 1
