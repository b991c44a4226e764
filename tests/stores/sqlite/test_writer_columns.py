"""An update writes the columns that have changed, and all of them where it is unknown what is stored."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus
from mahavishnu.model.query import Query
from mahavishnu.stores.base import get_one, write_one
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.stores.sqlite.table import Table, bindable_or_none
from mahavishnu.testing import START, make_letter


def writing(store: SQLiteStore) -> sqlite3.Connection:
    return store.open_file()._connections.writing


def check_columns(path: Path) -> None:
    """All columns of each row are what its document says."""
    table = Table(LETTERS)
    names = ", ".join(f'"{each.name}"' for each in table.fields)
    with closing(sqlite3.connect(path)) as other:
        for key, version, body, *columns in other.execute(f"SELECT _key, _version, _body, {names} FROM letters"):
            record = table.record(key, version, body)
            assert isinstance(record, DeadLetter) and columns == [*map(bindable_or_none, table.terms(record))]


async def test_an_outcome_leaves_what_it_does_not_change(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "letters.db") as store:
        letters, statements = store.collection(LETTERS), list[str]()
        letter = await write_one(letters, make_letter(task_id="a"))
        assert letter is not None
        writing(store).set_trace_callback(statements.append)
        letter = await write_one(letters, replace(letter, status=DeadLetterStatus.EXHAUSTED, due_at=None))
        (update,) = [each for each in statements if each.startswith("UPDATE")]
        assert all(f'"{name}" =' in update for name in ("_version", "status", "due_at", "_body"))
        assert not any(
            f'"{name}" =' in update for name in ("created_at", "fingerprint", "task_id", "resolution_status")
        )
        assert await get_one(letters, letter.key if letter else "") == letter
    check_columns(tmp_path / "letters.db")


async def test_whatever_two_processes_write_columns_and_documents_agree(tmp_path: Path) -> None:
    path, chance = tmp_path / "letters.db", random.Random(7)
    async with SQLiteStore(path) as one, SQLiteStore(path) as other:
        await one.collection(LETTERS).write([make_letter(task_id=f"t{number}") for number in range(6)])
        seen: Sequence[DeadLetter] = []
        for _ in range(60):
            letters = chance.choice((one, other)).collection(LETTERS)
            if chance.random() < 0.5 or not seen:  # else it writes what it has seen some time ago
                seen = (await letters.find(Query())).items
            changes: dict[str, Any] = {
                "status": chance.choice(list(DeadLetterStatus)),
                "due_at": chance.choice((None, START, START + timedelta(days=1))),
                "priority": chance.randint(0, 3),
                "tags": chance.choice(((), ("a",), ("a", "\ud800"))),
                "error_category": chance.choice((None, "network", "bro\ud800ken")),
                "created_at": START + timedelta(hours=chance.randint(0, 2)),
            }
            chosen = {name: changes[name] for name in chance.sample(sorted(changes), 2)}
            now = {each.key: each.version for each in (await letters.find(Query())).items}
            written = await letters.write([replace(each, **chosen) for each in seen])
            assert [each is not None for each in written] == [each.version == now[each.key] for each in seen]
            check_columns(path)
            seen = [each for each in written if isinstance(each, DeadLetter)] if chance.random() < 0.5 else seen
