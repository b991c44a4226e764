"""What `mahavishnu demo` tells people to try, and what it says at the end."""

from __future__ import annotations

import io
import json
import signal
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus, Resolution, ResolutionStatus
from mahavishnu.testing import make_letter
from mahavishnu_demo import demo_settings, summary_lines, view
from tests.core.test_processes_worker import lines_until, started

NEXT = "Next: docs/quickstart.md keeps the failures of your own workflows in five lines."


def ended(task_id: str, how: ResolutionStatus = ResolutionStatus.REQUEUED) -> DeadLetter:
    return make_letter(task_id=task_id, status=DeadLetterStatus.COMPLETED, resolution=Resolution(how), due_at=None)


def waiting(task_id: str, *, retried: bool = False) -> DeadLetter:
    letter = make_letter(task_id=task_id)
    return make_letter(task_id=task_id, due_at=letter.created_at if retried else None)


def test_nobody_is_woken_by_the_letters_of_the_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WEBHOOK_URL", "SLACK_URL", "PAGERDUTY_KEY"):
        monkeypatch.setenv(f"MAHAVISHNU_ALERTS__{name}", "https://hooks.example/x")
    monkeypatch.setenv("MAHAVISHNU_ALERTS__EMAIL_TO", '["ops@example.com"]')
    assert demo_settings("memory:", "none").alerts.channels == ("log",)


@pytest.mark.parametrize(("width", "all_columns"), [(40, False), (60, False), (80, True), (200, True)])
def test_the_table_breaks_no_name_and_no_word_of_state_however_narrow(width: int, all_columns: bool) -> None:
    letters = [ended("always-down"), waiting("no-permission", retried=True), waiting("order-1")]
    statistics = {"lifetime_stats": {"retry_success": 1, "retry_failed": 2}, "queue_size": 2}
    console = Console(width=width, file=io.StringIO())
    with console.capture() as captured:
        console.print(view(letters, letters[0].created_at, statistics, width))
    lines = captured.get().splitlines()
    rows = [line.split()[:2] for line in lines if line.strip()]
    names = [["always-down", "completed"], ["no-permission", "pending"], ["order-1", "pending"]]
    assert [row for row in rows if row in names] == names
    assert ("what happened" in lines[0]) is all_columns
    assert "next" in lines[0]
    assert max(map(len, lines)) <= width


def test_letters_that_are_alike_are_told_once() -> None:
    letters = [waiting(f"order-{number}") for number in range(20)]
    statistics = {"lifetime_stats": {"retry_success": 0, "retry_failed": 0}, "queue_size": 20}
    console = Console(width=100, file=io.StringIO())
    with console.capture() as captured:
        console.print(view(letters, letters[0].created_at, statistics, 100))
    assert captured.get().count("order-") == 3
    assert "17 more like them; 20 open" in captured.get()


def test_what_came_right_by_itself_is_told_apart_from_what_somebody_did() -> None:
    letters = [ended("a"), ended("b"), ended("c"), waiting("d"), waiting("e", retried=True)]
    closed = ended("f", ResolutionStatus.MANUALLY_RESOLVED)
    assert list(summary_lines([*letters, closed], {"b", "c", "d", "f"})) == [
        "1 came right by itself, 2 after somebody had helped, 1 was closed by hand; 1 waits for a person.",
        "1 would have been retried.",
        NEXT,
    ]
    assert list(summary_lines([ended("a"), ended("b")], set())) == [
        "2 came right by themselves; 0 wait for a person.",
        NEXT,
    ]


def test_what_it_says_can_be_tried_in_this_order_from_anywhere(
    home: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines as they are printed, in a shell in another directory that knows no Python."""
    monkeypatch.setenv("TMPDIR", str(home))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    with started("demo", "--speed", "120", "--port", "0") as demo:
        said = lines_until(demo, "  curl -s ")
        assert any("run ahead of your clock" in line for line in said)
        script = "".join(line for line in said if line.startswith("  "))
        export, *commands = script.splitlines()
        answered = {
            command: subprocess.run(
                ["sh", "-ec", f"{export}\n{command}"], cwd=elsewhere, capture_output=True, text=True, timeout=60
            )
            for command in commands
        }
        assert {done.returncode for done in answered.values()} == {0}, answered
        assert [command for command, done in answered.items() if done.stderr] == []
        show, edit, redrive, audit, curl = list(answered.values())[1:]
        assert "unknown currency" in show.stdout and "EUR" in edit.stdout
        assert "succeeded" in redrive.stdout and "refused" not in redrive.stdout
        assert "run.done" in audit.stdout and "order-1" in audit.stdout
        assert json.loads(curl.stdout)[0]["total_entries"] >= 11
        demo.send_signal(signal.SIGINT)
        (last,) = [line for line in lines_until(demo, "docs/quickstart.md") if "came right" in line]
        assert " 14 after somebody had helped; " in last
        assert demo.wait(30) == 0
