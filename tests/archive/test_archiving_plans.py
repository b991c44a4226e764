"""What retention looks for is found by an index, in its order: a million closed letters are not passed over."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.archive.rules import leaving_history, leaving_queries, old_records
from mahavishnu.core.dead_letter_queue import KINDS
from mahavishnu.engine.audit import AUDIT
from mahavishnu.model.query import Query, own_records, within_namespace
from mahavishnu.model.rules import RetentionRules
from mahavishnu.stores.kind import Kind
from mahavishnu.stores.kinds import HISTORY, LETTERS
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.stores.sqlite import table as sqlite_sql
from mahavishnu.stores.sqlite.table import Table
from mahavishnu.testing.clock import START

RULES = RetentionRules(completed_days=30, cancelled_days=30, permanently_failed_days=30)
HISTORY_QUERY = leaving_history(RULES, START, 1000) or Query()
ASKED: list[tuple[Kind[Any], Query, str]] = [
    *((LETTERS, within_namespace(each, "default"), "created_at<?") for each in leaving_queries(RULES, START, 1000)),
    (HISTORY, within_namespace(HISTORY_QUERY, "default"), "created_at<?"),
    (AUDIT, own_records(old_records(RULES, START)["audit"], "default"), "at<?"),
]


@pytest.mark.parametrize(("kind", "query", "bound"), ASKED, ids=lambda value: getattr(value, "name", ""))
async def test_an_index_has_it(tmp_path: Path, kind: Kind[Any], query: Query, bound: str) -> None:
    async with SQLiteStore(tmp_path / "letters.db", kinds=KINDS):
        sql = sqlite_sql.select(Table(kind), query, None)
        with closing(sqlite3.connect(tmp_path / "letters.db")) as other:
            plan = [row[3] for row in other.execute(f"EXPLAIN QUERY PLAN {sql.text}", sql.values)]
    searched = [line for line in plan if line.startswith(f"SEARCH {kind.name} USING INDEX")]
    assert len(searched) == 1, plan
    assert bound in searched[0]
