"""`mahavishnu archive`, and `mahavishnu dlq delete`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.stores.urls import open_store
from mahavishnu.tasks.service import Lifecycle
from tests.support.command_line import Run

pytestmark = pytest.mark.usefixtures("letters")


@pytest.fixture
def archived(run: Run) -> str:
    """Two letters in the archive: wf_1, edited once, and wf_5. Returns the month."""
    assert run("dlq", "edit", "wf_1", "--priority", "3").code == 0
    assert run("dlq", "resolve", "wf_1", "wf_5", "--reason", "done").code == 0
    told = run("archive", "run", "--days", "0")
    assert (told.code, told.out) == (
        0,
        "2 letters, 0 former ones, 1 revisions, 0 tracked tasks would be archived; --apply does it\n",
    )
    done = run("archive", "run", "--days", "0", "--apply", "--json").json
    assert (done["tasks_archived"], done["dry_run"], done["failed"]) == (2, False, {})
    (month,) = run("archive", "partitions", "--json").json
    return str(month["name"])


def test_archived_letters_are_listed_and_searched(run: Run, archived: str) -> None:
    assert {each["task_id"] for each in run("archive", "list", "--json").json} == {"wf_1", "wf_5"}
    (line,) = run("archive", "search", "wf_1").out.splitlines()[1:]
    assert line.split()[:2] == ["wf_1", "manually_resolved"]
    assert archived in line
    assert run("archive", "search", "--category", "validation", "--json").json == []
    assert run("archive", "list", "--until", "2020-01-01").out == "nothing is archived\n"
    assert len(run("archive", "list", "--since", "1h", "--all-namespaces", "--json").json) == 2


def test_archived_tracked_tasks_are_listed_and_searched(run: Run, letters: Path) -> None:
    assert run("archive", "tasks").out == "no tracked task is archived\n"

    async def make() -> list[str]:
        async with DeadLetterQueue(store=open_store(f"sqlite:///{letters}")) as dlq:
            lifecycle, ids = Lifecycle(dlq.context), list[str]()
            for name in ("pay", "ship"):
                ids.append((await lifecycle.create(name)).task_id)
                await lifecycle.transition(ids[-1], "cancelled")
            return ids

    pay, ship = asyncio.run(make())
    assert run("archive", "run", "--days", "0", "--apply", "--json").json["lifecycle_tasks_archived"] == 2
    assert [each["task_id"] for each in run("archive", "tasks", "--json").json] == [ship, pay]
    assert [each["task_id"] for each in run("archive", "tasks", "--all", "--json", "--name", "pay").json] == [pay]
    (line,) = run("archive", "tasks", pay, "--state", "cancelled", "--since", "1h").out.splitlines()[1:]
    assert pay in line and "cancelled" in line
    assert run("archive", "tasks", "--until", "2020-01-01", "--json").json == []
    assert run("archive", "tasks", "--state", "odd").code == 2


def test_one_is_shown_and_put_back(run: Run, archived: str) -> None:
    shown = run("archive", "show", "wf_1")
    assert shown.code == 0
    assert f"in {archived}" in shown.out
    assert "revision" in shown.out
    restored = run("archive", "restore", "wf_1", "--reason", "asked for")
    assert restored.out == "wf_1 is back: completed, manually_resolved\n"
    assert run("dlq", "show", "wf_1").code == 0
    again = run("archive", "restore", "wf_1")
    assert (again.code, "the archive has no letter 'wf_1'" in again.err) == (3, True)
    assert run("archive", "run", "--days", "0", "--json").code == 0


def test_a_month_is_detached_attached_and_dropped(run: Run, archived: str, letters: Path) -> None:
    done = run("archive", "detach", archived)
    assert done.code == 0
    assert f"archive-{archived.replace('_', '-')}.db" in done.out
    assert run("archive", "list", "--json").json == []
    assert "attached" in run("archive", "attach", archived).out
    assert len(run("archive", "list", "--json").json) == 2
    refused = run("archive", "drop", archived, "--yes")
    assert (refused.code, "detach it first" in refused.err) == (4, True)
    run("archive", "detach", archived)
    assert run("archive", "drop", archived, "--yes").out == "nothing was ever archived\n"
    assert run("archive", "detach", archived).code == 3


def test_dlq_delete_asks_and_says_what_is_gone(run: Run, archived: str) -> None:
    assert "say --yes" in run("dlq", "delete", "wf_1").err
    gone = run("dlq", "delete", "wf_1", "--yes", "--reason", "erasure")
    assert gone.out == "wf_1 is deleted: 1 copy in the archive\n"
    assert run("archive", "show", "wf_1").code == 3
    assert run("dlq", "delete", "nothing", "--yes").code == 3
    gone_from_queue = run("dlq", "delete", "a/b c", "--queue", "mail", "--yes", "--json").json
    assert gone_from_queue == {"letters": 1, "former": 0, "copies": 0, "waiting": 0, "detached": []}
    run("archive", "detach", archived)
    assert "attach them and delete again" in run("dlq", "delete", "wf_2", "--yes").err


def test_what_is_new_is_exported_for_analysis(
    run: Run, archived: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watermark, file = tmp_path / "watermark", tmp_path / "letters.csv"
    refused = run("archive", "export", "--watermark", str(watermark))
    assert refused.code != 0
    assert "retention.analytics_export" in refused.err
    assert not watermark.exists()
    monkeypatch.setenv("MAHAVISHNU_RETENTION__ANALYTICS_EXPORT", "true")
    first = run("archive", "export", "--watermark", str(watermark))
    assert first.code == 0
    assert sorted(json.loads(line)["task_id"] for line in first.out.splitlines()) == ["wf_1", "wf_5"]
    assert watermark.read_text() == "1\n"
    assert run("archive", "export", "--watermark", str(watermark)).out == ""
    assert run("archive", "export", "--format", "csv", "-o", str(file)).code == 0
    assert file.read_text().startswith("export,entry_id,task_id,")
    assert len(file.read_text().splitlines()) == 3
    watermark.write_text("soon\n")
    assert "watermark" in run("archive", "export", "--watermark", str(watermark)).err


def test_what_is_nowhere_is_not_shown(run: Run, archived: str) -> None:
    missing = run("archive", "show", "wf_77")
    assert (missing.code != 0, "wf_77" in missing.err) == (True, True)
