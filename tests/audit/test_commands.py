"""`mahavishnu audit`."""

from __future__ import annotations

import pytest

from tests.support.command_line import Run

pytestmark = pytest.mark.usefixtures("letters")


def test_changes_are_whole_in_a_pipe(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run(
        "dlq",
        "edit",
        "wf_5",
        *(word for number in range(9) for word in ("--set", f"n{number}={'x' * 50}{number}")),
        "--create",
    )
    row = run("audit", "list", "--action", "edit").out.splitlines()[1]
    assert all(f'task/n{number}: "{"x" * 50}{number}"' in row for number in range(9))
    monkeypatch.setenv("COLUMNS", "300")
    assert " more" in run("audit", "list", "--action", "edit").out
