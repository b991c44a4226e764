"""The numbers of the store, told by every kind of store, and the same by each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.engine.telemetry import KnownBy
from mahavishnu.stores.base import Store
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.testing import ManualClock

PATIENT = 30.0
Numbers = dict[str, dict[tuple[str, ...], object]]


async def store_numbers(dlq: DeadLetterQueue) -> Numbers:
    """Those that are derived from records, by name."""
    families = await dlq.telemetry.collect()
    return {each.definition.name: {**each.samples} for each in families if each.definition.known_by is KnownBy.STORE}


async def check_numbers(store: Store) -> None:
    clock = ManualClock()
    async with DeadLetterQueue(store=store, clock=clock) as dlq:
        empty = await store_numbers(dlq)
        assert empty["mahavishnu_dlq_size"] == empty["mahavishnu_dlq_regressed_groups"] == {(): 0}
        assert empty["mahavishnu_dlq_overdue_seconds"] == {(): 0.0}
        for number in range(3):
            await dlq.enqueue(f"net-{number}", {}, ["api"], "connection reset", queue="mail")
        await dlq.enqueue("bad", {}, ["api"], "no such column", "never", error_category="validation")
        letter = await dlq.get_task("bad")
        assert letter is not None and letter.fingerprint is not None
        await dlq.groups.update(letter.fingerprint, by="ann", state="resolved")
        await dlq.letters.resolve("bad", by="ann")
        clock.advance(3600)
        await dlq.enqueue("bad-again", {}, ["api"], "no such column", "never", error_category="validation")
        await dlq.groups.refresh()
        found = await store_numbers(dlq)
    assert found["mahavishnu_dlq_size"] == {(): 4}
    assert found["mahavishnu_tasks_moved_to_dlq_total"] == {(): 5}
    assert found["mahavishnu_dlq_due"] == {("mail",): 3, ("default",): 0}
    assert found["mahavishnu_dlq_regressed_groups"] == {(): 1}
    person = found["mahavishnu_dlq_needs_person"]
    assert {category: count for category, count in person.items() if count} == {("validation",): 1}
    (overdue,) = found["mahavishnu_dlq_overdue_seconds"].values()
    assert isinstance(overdue, float) and 0 < overdue < 3600


@pytest.mark.parametrize("make", [lambda path: MemoryStore(), lambda path: SQLiteStore(path / "letters.db")])
async def test_the_numbers_of_an_embedded_store(make: Callable[[Path], Store], tmp_path: Path) -> None:
    await check_numbers(make(tmp_path))


@pytest.mark.opensearch
async def test_the_numbers_of_the_real_server(opensearch_url: str, opensearch_prefix: str) -> None:
    await check_numbers(OpenSearchStore(opensearch_url, prefix=opensearch_prefix, timeout=PATIENT, kinds=KINDS))
