"""Files in which letters wait: what is in them is there for the next process, and moved by one at a time."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.core.dead_letter_queue import KINDS
from mahavishnu.engine.waiting_room import WAITING, WaitingFiles
from mahavishnu.model.letter import FormerLetter
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.testing import make_letter


@pytest.fixture
def files(tmp_path: Path) -> WaitingFiles:
    return WaitingFiles.beside(SQLiteStore(tmp_path / "new" / "letters.db", kinds=KINDS), WAITING)


@pytest.mark.parametrize("odd", [{}, {"error": "half a \ud800 character"}, {"task": {"ü": "\ud800", "n": [1.5]}}])
def test_a_letter_comes_back_as_it_was(files: WaitingFiles, odd: dict[str, Any]) -> None:
    letter = FormerLetter.of(make_letter(**odd))
    files.write(letter)
    files.write(letter)
    assert files.names() == [letter.entry_id]
    with files.take(letter.entry_id) as taken:
        assert taken == letter
    files.remove(letter.entry_id)
    files.remove(letter.entry_id)
    assert files.names() == []


def test_only_the_owner_may_read_it(files: WaitingFiles) -> None:
    files.write(letter := FormerLetter.of(make_letter()))
    assert files.folder is not None
    (path,) = files.folder.iterdir()
    assert path.stem == letter.entry_id
    assert (files.folder.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o700, 0o600)


def test_what_somebody_moves_is_for_nobody_else(files: WaitingFiles) -> None:
    files.write(letter := FormerLetter.of(make_letter()))
    with files.take(letter.entry_id) as first, files.take(letter.entry_id) as second:
        assert (first, second) == (letter, None)
        files.remove(letter.entry_id)
    with files.take(letter.entry_id) as gone:
        assert gone is None


def test_where_there_are_no_locks_it_is_moved_all_the_same(
    files: WaitingFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    files.write(letter := FormerLetter.of(make_letter()))
    with files.take(letter.entry_id) as taken:
        assert taken == letter


def test_a_disk_that_cannot_read_now_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    def fail(*_: object) -> FormerLetter:
        raise OSError(errno.EIO, "input/output error")

    letter = FormerLetter.of(make_letter())
    files = WaitingFiles(tmp_path, WAITING)
    files.write(letter)
    with WaitingFiles(tmp_path, replace(WAITING, decode_text=fail)).take(letter.entry_id) as taken:
        assert taken is None
    with files.take(letter.entry_id) as taken:
        assert taken == letter


@pytest.mark.parametrize("text", ["", "{", "[]", '{"entry_id": 1}'])
def test_a_file_that_cannot_be_read_is_put_aside(
    files: WaitingFiles, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    files.write(letter := FormerLetter.of(make_letter()))
    assert files.folder is not None
    path = files.folder / f"{letter.entry_id}.json"
    path.write_text(text)
    with files.take(letter.entry_id) as damaged, caplog.at_level(logging.ERROR):
        assert damaged is None
    assert files.names() == []
    assert path.with_suffix(".unreadable").read_text() == text
    assert ".unreadable" in caplog.text


def test_an_unwritten_file_leaves_nothing_behind(files: WaitingFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        files.write(FormerLetter.of(make_letter()))
    assert files.folder is not None
    assert list(files.folder.iterdir()) == []


def test_the_files_are_beside_the_store_or_its_local_half(tmp_path: Path) -> None:
    sqlite = SQLiteStore(tmp_path / "letters.db", kinds=KINDS)
    folder = tmp_path / "letters.db-waiting"
    for store in (sqlite, FallbackStore(MemoryStore(), sqlite), FallbackStore(sqlite, MemoryStore())):
        assert WaitingFiles.beside(store, WAITING).folder == folder
    nowhere = WaitingFiles.beside(MemoryStore(), WAITING)
    assert (nowhere.folder, nowhere.names()) == (None, [])
    with pytest.raises(FileNotFoundError, match="no file"):
        nowhere.write(FormerLetter.of(make_letter()))
