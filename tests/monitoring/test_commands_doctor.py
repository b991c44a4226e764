"""`mahavishnu dlq doctor`."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from mahavishnu.core.dead_letter_queue import KINDS
from mahavishnu.model.clock import LAST_INSTANT
from mahavishnu.stores.kinds import LOCAL_STORES, LocalStore
from mahavishnu.stores.urls import open_store
from mahavishnu.testing import START
from tests.support.command_line import Run


def test_it_lists_what_cannot_be_read_and_fails(run: Run, letters: Path) -> None:
    sound = run("dlq", "doctor")
    assert (sound.code, sound.out) == (0, "every record can be read\n")
    with closing(sqlite3.connect(letters)) as connection, connection:
        assert connection.execute("UPDATE letters SET _body = '{' WHERE _key = 'wf_1'").rowcount == 1
    found = run("dlq", "doctor")
    assert (found.code, found.out.splitlines()[1].split()[:2]) == (1, ["letters", "wf_1"])
    assert "1 record cannot be read" in found.err
    (line,) = run("dlq", "doctor", "--json").json["unreadable"]
    assert (line["kind"], line["key"]) == ("letters", "wf_1")


def test_it_lists_local_stores_with_letters_and_forgets_one(
    run: Run, letters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAHAVISHNU_DLQ_LOCAL_URL", "sqlite:///local.db")

    async def register() -> None:
        async with open_store(f"sqlite:///{letters}", kinds=KINDS) as store:
            lost = LocalStore("lost", "web-1", 7, "/var/local.db", START, kept=3, letters=3)
            await store.collection(LOCAL_STORES).write([lost, replace(lost, key="live", seen_at=LAST_INSTANT, kept=0)])

    asyncio.run(register())
    found = run("dlq", "doctor")
    assert found.code == 1
    assert "every record can be read" in found.out and "lost" in found.out and "live" not in found.out
    assert "run `mahavishnu dlq drain /var/local.db` on web-1" in " ".join(found.out.split())
    assert "if a local store is gone for good: mahavishnu dlq doctor --forget NAME" in found.err
    (line,) = run("dlq", "doctor", "--json").json["local_stores"]
    assert (line["host"], line["place"], line["kept"]) == ("web-1", "/var/local.db", 3)
    assert "3 letters are still in a local store on web-1" in run("dlq", "stats").out + run("dlq", "stats").err
    assert run("dlq", "doctor", "--forget", "nobody").code == 2
    gone = run("dlq", "doctor", "--forget", "lost")
    assert (gone.code, gone.out) == (0, "every record can be read\n")
    assert "local store lost is forgotten" in gone.err
