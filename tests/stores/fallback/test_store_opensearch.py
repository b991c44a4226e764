"""A fallback store whose primary lags: OpenSearch shows a search what was written before its last refresh."""

from __future__ import annotations

from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

from mahavishnu.model.query import Query, letter_query
from mahavishnu.stores.base import Cursor, write_one
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.kinds import LETTERS, LOCAL_STORES
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.testing import FaultyStore, ManualClock, make_letter

pytestmark = pytest.mark.opensearch


async def test_what_another_process_took_home_is_found_at_once(
    opensearch_url: str, opensearch_prefix: str, tmp_path: Path
) -> None:
    clock = ManualClock()

    def process() -> tuple[FallbackStore, FaultyStore]:
        never = OpenSearchStore(opensearch_url, prefix=opensearch_prefix, timeout=30, refresh_interval="-1")
        primary = FaultyStore(never)
        return FallbackStore(primary, SQLiteStore(tmp_path / "letters.db"), clock=clock), primary

    (ours, primary), (theirs, _) = process(), process()
    async with ours, theirs:
        await clock.sleeping(2)  # both have looked for what was left here
        found = ours.collection(LETTERS)
        assert not (await found.find(letter_query())).items
        primary.faults.unavailable()
        assert await write_one(found, make_letter(task_id="a")) is not None
        assert [each.key for each in (await found.find(letter_query())).items] == ["a"]
        assert (await theirs.drain()).moved == 1
        primary.faults.clear()
        assert (await ours.drain()).moved == 0
        assert [each.key for each in (await found.find(letter_query())).items] == ["a"]


@pytest.mark.parametrize("drained_after", [1, 2, 3])
async def test_a_list_goes_on_across_a_drain_without_repeating_or_omitting(
    opensearch_url: str, opensearch_prefix: str, tmp_path: Path, drained_after: int
) -> None:
    primary = FaultyStore(OpenSearchStore(opensearch_url, prefix=opensearch_prefix, timeout=30))
    clock = ManualClock()
    made = [make_letter(task_id=f"t{n:03}", created_at=clock.now() + timedelta(seconds=n)) for n in range(30)]
    async with FallbackStore(primary, SQLiteStore(tmp_path / "letters.db"), clock=clock) as store:
        collection = store.collection(LETTERS)
        await collection.write(made[::2])
        primary.faults.item_unavailable("write")
        await collection.write(made[1::2])
        primary.faults.clear()
        seen: list[str] = []
        after: Cursor | None = None
        for number in count():
            if number == drained_after:
                assert (await store.drain()).moved == 15
            page = await collection.find(letter_query(limit=4), after)
            seen += [each.key for each in page.items]
            if page.next is None:
                break
            after = Cursor.parse(str(page.next))
    assert seen == [letter.key for letter in reversed(made)]


async def test_what_goes_home_is_counted_once_and_what_a_dead_process_kept_is_registered(
    opensearch_url: str, opensearch_prefix: str, tmp_path: Path
) -> None:
    clock = ManualClock()

    def process() -> tuple[FallbackStore, FaultyStore]:
        never = OpenSearchStore(opensearch_url, prefix=opensearch_prefix, timeout=30, refresh_interval="-1")
        primary = FaultyStore(never)
        return FallbackStore(primary, SQLiteStore(tmp_path / "letters.db"), clock=clock), primary

    (ours, primary), (theirs, _) = process(), process()
    counts: list[int] = []

    async def look(call: object = None) -> None:
        tally = await theirs.collection(LETTERS).tally(letter_query())
        assert tally.degraded is None
        counts.append(tally.total.count)

    async with theirs, ours:
        await clock.sleeping(2)
        with primary.faults.item_unavailable("write", kind=LETTERS):
            await ours.collection(LETTERS).write([make_letter(task_id=f"t{n}") for n in range(20)])
            clock.advance(1)
            await clock.sleeping(2)
        (known,) = (await theirs.primary.collection(LOCAL_STORES).find(Query())).items
        assert (known.kept, known.place) == (20, str(tmp_path / "letters.db"))
        await theirs.collection(LETTERS).write([make_letter(task_id="home")])
        primary.faults.after("write", look, kind=LETTERS)  # it is at home, and nobody has made it searchable
        assert (await ours.drain()).waiting == 0
        await look()
    assert counts == [21] * len(counts) and len(counts) > 1
    async with process()[0] as last:
        assert (await last.primary.collection(LOCAL_STORES).find(Query())).items == []
