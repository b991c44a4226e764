"""A late field has no column: what is found, counted and sorted by it is read from the documents, as in memory."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from mahavishnu.model.letter_parts import Lease, Requeue, Resolution, ResolutionStatus, Tallies
from mahavishnu.model.query import Between, Condition, Is, Missing, Not, Query, Sort
from mahavishnu.stores.base import Buckets, scan
from mahavishnu.stores.kind import FieldType
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.stores.sqlite.table import Table
from mahavishnu.testing import START, make_letter

DAY = timedelta(days=1)
LATE = [each for each in LETTERS.fields if each.late and each.type is not FieldType.KEYWORDS]
NAMES = (None, "a", "A", "b\x00c", "b", "é😀", "z" * 9000, '"', "")
NUMBERS = (0, 1, 2, 7, 0, 3, 10**15, 1, 0)


def letters() -> list[Any]:
    made = []
    for number, (name, value) in enumerate(zip(NAMES, NUMBERS, strict=True)):
        then = START + DAY * value if value < 100 else START - DAY
        letter = make_letter(task_id=f"t{number}", retry_count=value, total_attempts=value, max_retries=value)
        made.append(
            replace(
                letter,
                failed_at=then - timedelta(milliseconds=1),
                archived_at=then if value else None,
                resolution=Resolution(ResolutionStatus.REQUEUED, then, name, None),
                lease=Lease(name, "token", prior_due=then, seconds=1) if name else None,
                requeue=Requeue(then, "x", automatic=value) if value else None,
                revision=value,
                recoveries=value,
                tallies=Tallies(moved=value),
            )
        )
    return made


async def test_each_query_by_a_late_field_is_answered_as_in_memory(tmp_path: Path) -> None:
    memory, moments = MemoryStore().collection(LETTERS), [START, START + DAY, START + timedelta(microseconds=1)]
    assert {each.name for each in LATE} >= {"resolved_by", "claim_owner", "failed_at", "retry_count", "revision"}
    async with SQLiteStore(tmp_path / "letters.db") as store:
        ours = store.collection(LETTERS)
        for each in (ours, memory):
            assert None not in await each.write(letters())
        for field in LATE:
            name, tests = field.name, list[Condition]([Missing(field.name)])
            if field.type is FieldType.KEYWORD:
                tests += [Is(name, (text,)) for text in NAMES if text is not None] + [Is(name, ("a", "b\x00c"))]
            else:
                bounds: list[Any] = moments if field.type is FieldType.DATE else [0, 1, 2, 10**15, 2**70]
                tests += [Is(name, (bound,)) for bound in bounds]
                tests += [
                    Between(name, **{side: bound}) for side in ("at_least", "below", "at_most") for bound in bounds
                ]
            for test in (*tests, *map(Not, tests)):
                for sort in ((), (Sort(name),), (Sort(name, descending=True),)):
                    query = Query((test,), sort, limit=2)
                    found = [[one.key async for one in scan(each, query)] for each in (ours, memory)]
                    assert found[0] == found[1], query
            by, sums = [name], [name] if field.type is FieldType.INTEGER else []
            spans = [name] if field.type is FieldType.DATE else []
            tallies = [await each.tally(Query(), by, sums=sums, spans=spans) for each in (ours, memory)]
            assert tallies[0].cells == tallies[1].cells, name
            if spans:
                days = Buckets(name, START, DAY, 3, open_end=True)
                assert await ours.histogram(Query(), days) == await memory.histogram(Query(), days)


async def test_what_sqlite_cannot_hold_is_empty_and_a_damaged_document_hides_nothing(tmp_path: Path) -> None:
    path = tmp_path / "letters.db"
    async with SQLiteStore(path) as store:
        ours = store.collection(LETTERS)
        odd = make_letter(
            task_id="odd", retry_count=2**70, resolution=Resolution(ResolutionStatus.REQUEUED, START, "a\ud800")
        )
        await ours.write([odd, make_letter(task_id="torn"), make_letter(task_id="sound", retry_count=1)])
        with closing(sqlite3.connect(path)) as other, other:
            other.execute("UPDATE letters SET _body = '{torn' WHERE task_id = 'torn'")
        for name in ("retry_count", "resolved_by"):
            page = await ours.find(Query((), (Sort(name),)))
            assert sorted(each.task_id for each in page.items) == ["odd", "sound"] and len(page.corrupt) == 1
            assert (await ours.tally(Query((Missing(name),)))).total.count == (2 if name == "retry_count" else 3)
            assert (await ours.tally(Query(), [name])).total.count == 3


def test_columns_are_there_for_what_is_asked_for_often() -> None:
    assert len(Table(LETTERS).fields) < len(LETTERS.searchable) - 15
