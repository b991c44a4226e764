"""`mahavishnu dlq export` and `import`."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.core import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.letters.transfer import Transfer
from mahavishnu.model.errors import ImportStopped
from mahavishnu.settings.wiring import count_letters
from mahavishnu.stores.fallback.collection import FallbackCollection
from tests.support.command_line import Run, kept

pytestmark = pytest.mark.usefixtures("letters")


def test_letters_are_exported_and_imported_once(run: Run, home: Path) -> None:
    out = run("dlq", "export")
    assert (out.code, out.err, out.out.count("\n")) == (0, "", 5)
    (home / "letters.jsonl").write_text(out.out)
    there = ("dlq", "--store", "sqlite:///other.db")
    assert run(*there, "import", "letters.jsonl").out == "5 new\n"
    assert run(*there, "export").out == out.out
    assert run(*there, "import", "-", "--json", stdin=out.out).json == {"taken": {"same": 5}, "refused": {}}
    assert run(*there, "export").out == out.out
    assert run("dlq", "export", "--queue", "mail", "--output", "mail.jsonl").out == ""
    assert json.loads((home / "mail.jsonl").read_text())["task_id"] == "a/b c"
    assert [path.name for path in home.glob(".*.part")] == []


def test_an_export_writes_to_a_pipe_and_through_a_link(run: Run, home: Path) -> None:
    pipe, link, file = home / "pipe", home / "link", home / "there" / "letters.jsonl"
    os.mkfifo(pipe)
    read: list[str] = []
    reading = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reading.start()
    done = run("dlq", "export", "-o", "pipe")
    assert pipe.is_fifo(), "it was replaced"
    reading.join(timeout=60)
    assert (done.code, done.out, read) == (0, "", [run("dlq", "export").out])
    file.parent.mkdir()
    link.symlink_to(file)  # first to what is not there yet
    for _ in range(2):
        assert run("dlq", "export", "-o", "link").code == 0
        assert link.is_symlink() and file.read_text() == read[0]
        file.chmod(0o600)
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in home.rglob(".*.part")] == []


def test_an_export_is_for_its_owner_and_goes_where_it_was_asked_for(run: Run, home: Path) -> None:
    victim = home / "victim"
    victim.write_text("precious")
    (home / ".out.jsonl.part").symlink_to(victim)
    old = os.umask(0o022)
    try:
        assert run("dlq", "export", "-o", "out.jsonl").code == 0
    finally:
        os.umask(old)
    assert victim.read_text() == "precious"
    assert not (home / "out.jsonl").is_symlink() and (home / "out.jsonl").read_text() == run("dlq", "export").out
    assert (home / "out.jsonl").stat().st_mode & 0o777 == 0o600
    (home / "out.jsonl").chmod(0o640)
    assert run("dlq", "export", "-o", "out.jsonl").code == 0
    assert (home / "out.jsonl").stat().st_mode & 0o777 == 0o640, "as its owner wants it"


@pytest.mark.parametrize(
    ("path", "why"), [("nowhere/x", "No such file or directory"), (".", "Is a directory"), ("loop", "Too many levels")]
)
def test_an_export_that_cannot_be_written_names_the_given_path(run: Run, home: Path, path: str, why: str) -> None:
    (home / "loop").symlink_to("loop")
    done = run("dlq", "export", "-o", path)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"mahavishnu: {path} cannot be written: {why}") and done.err.count("\n") == 1


def test_an_import_names_each_refused_line(run: Run) -> None:
    text = run("dlq", "export").out
    done = run("dlq", "--store", "sqlite:///other.db", "import", "-", stdin=f'nonsense\n{text}[1]\n{{"task_id": 5}}\n')
    assert done.code == 1
    assert done.out == "5 new\n"
    assert [line.split(":")[1].strip() for line in done.err.splitlines()] == ["line 1", "line 7", "line 8, 5"]
    junk = '{"task_id": "x"}\n{}\n{"task_id": "y", "status": "odd"}\n'
    done = run("dlq", "import", "-", stdin=junk)
    assert [line.split(":")[1].strip() for line in done.err.splitlines()] == ["line 1, x", "line 2", "line 3, y"]
    assert run("dlq", "import", "-", stdin="").out == "no letters\n"


def test_each_refused_line_is_named_also_those_of_one_name(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    first, *_ = run("dlq", "export").out.splitlines()
    odd = json.dumps({**json.loads(first), "retry_count": -1})
    name = json.loads(first)["entry_id"]
    for at_once in (4000, 2):  # the second time they are in two requests
        monkeypatch.setattr("mahavishnu.letters.transfer_commands._BATCH_LETTERS_HERE", at_once)
        done = run("dlq", "import", "-", stdin="\n".join([odd, first, odd, odd]))
        assert done.out == "1 here already\n"
        said = [line.split(":")[1].strip() for line in done.err.splitlines()]
        assert said == [f"line {number}, {name}" for number in (1, 3, 4)]
        done = run("dlq", "import", "-", "--json", stdin="\n".join([odd, odd]))
        assert list(done.json["refused"]) == [name, f"{name} at line 2"]


def test_a_line_that_is_not_utf8_does_not_stop_the_others(run: Run, home: Path) -> None:
    lines = run("dlq", "export").out.encode().splitlines()
    (home / "torn.jsonl").write_bytes(b"\r\n".join([b"\xef\xbb\xbf" + lines[0], b"\xff{}", *lines[1:], lines[0]]))
    done = run("dlq", "--store", "sqlite:///other.db", "import", "torn.jsonl")
    assert (done.code, done.out) == (1, "5 new\n")
    assert done.err.startswith("mahavishnu: line 2: this is not UTF-8") and done.err.count("\n") == 1


def test_an_import_is_sent_in_batches_that_the_server_accepts(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    text = run("dlq", "export").out
    monkeypatch.setenv("MAHAVISHNU_SERVER__MAX_BODY_BYTES", str(max(map(len, text.splitlines())) + 100))
    assert run("dlq", "--store", "sqlite:///other.db", "import", "-", stdin=text).out == "5 new\n"
    monkeypatch.setenv("MAHAVISHNU_SERVER__MAX_BODY_BYTES", "1024")
    large = run("dlq", "import", "-", stdin="\n" + json.dumps({"task_id": "x" * 2000}))
    assert large.code == 2 and large.err.startswith("mahavishnu: line 2: ")


def test_a_letter_from_the_future_is_refused_by_its_line(run: Run) -> None:
    first, *others = run("dlq", "export").out.splitlines()
    late = json.dumps({**json.loads(first), "updated_at": "9999-12-31T23:59:59.999Z"})
    done = run("dlq", "--store", "sqlite:///other.db", "import", "-", stdin="\n".join([late, *others]))
    assert (done.code, done.out) == (1, "4 new\n")
    assert done.err.startswith("mahavishnu: line 1, ") and "has not come yet" in done.err


def test_what_was_deleted_is_imported_only_if_that_is_meant(run: Run, home: Path) -> None:
    (home / "letters.jsonl").write_text(run("dlq", "export", "--open").out)
    cleared = run("dlq", "clear", "--yes", "--json").json["cleared"]
    refused = run("dlq", "import", "letters.jsonl")
    assert (refused.code, refused.out, refused.err.count("deleted")) == (1, "", 2 * cleared)  # and the option's name
    assert run("dlq", "import", "letters.jsonl", "--even-deleted").out == f"{cleared} new\n"


def test_letters_of_another_local_store_are_named_and_brought_home(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    state = home.parent / "state" / "mahavishnu"
    state.mkdir(parents=True)
    forgotten = state / "local-search-1.db"
    kept(f"sqlite:///{forgotten}", {"task_id": "left"}, {"task_id": "gone"})
    kept(f"sqlite:///{state}/local-empty.db")
    (state / "local-none.db").write_text("not a store")
    monkeypatch.setenv("MAHAVISHNU_DLQ_STORE_URL", "sqlite:///home.db")
    assert run("dlq", "--store", f"sqlite:///{forgotten}", "list", "--json").json != []

    async def started(**settings: Any) -> list[str]:
        caplog.clear()
        async with MahavishnuApp(MahavishnuSettings(**settings)):
            return [record.getMessage() for record in caplog.records if "local store of other" in record.getMessage()]

    (said,) = asyncio.run(started())
    command = f"mahavishnu dlq drain {forgotten}"
    assert said.startswith(f"2 letters are in {forgotten}, ") and command in said
    assert asyncio.run(started(dlq_store_url="memory:")) == []
    assert run(*command.split()[1:]).out == "2 letters brought home, 0 left\n"
    assert {each["task_id"] for each in run("dlq", "list", "--json").json} == {"left", "gone"}
    assert asyncio.run(started()) == []
    assert run(*command.split()[1:], "--json").json == {"moved": 0, "left": 0, "admitted": 0, "refused": []}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("dlq", "drain", "nowhere.db"), 3),
        (("dlq", "drain"), 2),
        (("dlq", "--store", "memory:", "drain", "letters.db"), 2),
        (("dlq", "drain", "letters.db"), 2),
    ],
)
def test_what_cannot_be_drained(run: Run, home: Path, letters: Path, arguments: tuple[str, ...], code: int) -> None:
    done = run(*arguments)
    assert (done.code, done.out) == (code, "")


def test_an_import_that_the_store_does_not_answer_stops_and_says_how_to_go_on(
    run: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "letters.jsonl").write_text(run("dlq", "export").out)
    away = ("dlq", "--store", "opensearch://127.0.0.1:9/x?timeout=0.2", "import", "letters.jsonl")
    done = run(*away)
    assert (done.code, done.out) == (4, "")
    assert "the import has stopped, the store does not answer: 0 letters of letters.jsonl went in" in done.err
    assert "Run it again when the store answers: what is in stays as it is" in done.err
    assert run(*away, "--json").json.keys() == {"taken", "refused", "stopped"}
    assert [each for each in (tmp_path / "state").rglob("local-*.db") if count_letters(each)] == []

    real, calls = Transfer.import_letters, 0

    async def import_some(self: Transfer, documents: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            return await real(self, documents, **more)
        raise ImportStopped({"new": 1}, len(documents))

    monkeypatch.setattr(Transfer, "import_letters", import_some)
    monkeypatch.setattr("mahavishnu.letters.transfer_commands._BATCH_LETTERS_HERE", 2)
    done = run("dlq", "--store", "sqlite:///other.db", "import", "letters.jsonl")
    assert (done.code, done.out) == (4, "3 new\n")
    assert "3 letters of letters.jsonl went in" in done.err


def test_a_command_brings_home_what_is_kept_locally_and_says_what_it_leaves(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drain = FallbackCollection.drain
    kept("sqlite:///local.db", {"task_id": "one"}, {"task_id": "two"})
    monkeypatch.setenv("MAHAVISHNU_DLQ_STORE_URL", "sqlite:///home.db")
    kept("sqlite:///home.db")
    monkeypatch.setenv("MAHAVISHNU_DLQ_LOCAL_URL", "sqlite:///local.db")
    monkeypatch.setattr("mahavishnu.stores.fallback.store.BRING_HOME_SECONDS", 0.01)

    async def hang(self: Any) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr("mahavishnu.stores.fallback.collection.FallbackCollection.drain", hang)
    slow = run("dlq", "list", "--json")
    left = f"2 letters are still in {home / 'local.db'}: run `mahavishnu dlq drain`"
    assert len(slow.json) == 2 and f"degraded: {left}" in slow.err
    (line,) = run("dlq", "doctor", "--json").json["local_stores"]
    assert (line["letters"], line["place"]) == (2, str(home / "local.db"))
    monkeypatch.setattr("mahavishnu.stores.fallback.collection.FallbackCollection.drain", drain)
    monkeypatch.setattr("mahavishnu.stores.fallback.store.BRING_HOME_SECONDS", 30.0)
    monkeypatch.setattr("mahavishnu.stores.fallback.store.FallbackStore._watch_primary", hang)  # it has no turn yet
    done = run("dlq", "list", "--json")
    assert {each["task_id"] for each in done.json} == {"one", "two"}
    assert "degraded" not in done.err and "brought home from a local store: 2 records" in done.err
    assert count_letters(home / "local.db") == 0
