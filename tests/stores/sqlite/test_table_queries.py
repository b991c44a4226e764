"""SQLite and memory mean the same by every query: Hypothesis looks for one where they differ."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import Query
from mahavishnu.stores.base import Collection, Cursor
from mahavishnu.stores.kind import FieldType
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.sqlite import SQLiteStore
from tests.support.store_strategies import letters, names, queries

ALL = Query(limit=10_000)
ENOUGH = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


class Both:
    """The same letters in both stores."""

    def __init__(self, path: Path) -> None:
        self._runner = asyncio.Runner()
        self._store = SQLiteStore(path, synchronous="OFF")
        self._runner.run(self._store.open())

    def close(self) -> None:
        self._runner.run(self._store.close())
        self._runner.close()

    def hold(self, records: Sequence[DeadLetter]) -> None:
        """Both have these letters and no others."""
        self.memory, self.sqlite = MemoryStore().collection(LETTERS), self._store.collection(LETTERS)
        self._runner.run(self._hold(records))

    def answers(self, ask: Any) -> tuple[Any, Any]:
        """What both say to the same question."""
        return self._runner.run(ask(self.sqlite)), self._runner.run(ask(self.memory))

    async def _hold(self, records: Sequence[DeadLetter]) -> None:
        await self.sqlite.remove((await self.sqlite.find(ALL)).items)
        results = [await collection.write(records) for collection in (self.sqlite, self.memory)]
        assert results[0] == results[1]


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Both]:
    pair = Both(tmp_path / "letters.db")
    yield pair
    pair.close()


async def listed(collection: Collection[DeadLetter], query: Query) -> list[Any]:
    """Everything the query means: the keys of every page with their positions (the codec has tests of its own)."""
    found: list[Any] = []
    after: Cursor | None = None
    while True:
        page = await collection.find(query, after)
        found.append([(letter.key, position) for letter, position in zip(page.items, page.positions, strict=True)])
        if page.next is None:
            return found
        after = Cursor.parse(str(page.next))


@ENOUGH
@given(records=st.lists(letters(), max_size=12), asked=st.lists(queries(LETTERS), min_size=1, max_size=6))
def test_every_query_finds_the_same_letters_in_the_same_order(
    both: Both, records: list[DeadLetter], asked: list[Query]
) -> None:
    both.hold(records)
    for query in asked:
        sqlite, memory = both.answers(lambda collection, query=query: listed(collection, query))
        assert sqlite == memory


@ENOUGH
@given(
    records=st.lists(letters(), max_size=12),
    query=queries(LETTERS),
    by=names(LETTERS, FieldType.KEYWORD, FieldType.DATE, FieldType.INTEGER),
    sums=names(LETTERS, FieldType.INTEGER),
    spans=names(LETTERS, FieldType.DATE),
)
def test_every_tally_counts_the_same(
    both: Both, records: list[DeadLetter], query: Query, by: list[str], sums: list[str], spans: list[str]
) -> None:
    both.hold(records)
    sqlite, memory = both.answers(lambda collection: collection.tally(query, by, sums=sums, spans=spans))
    assert sqlite == memory
