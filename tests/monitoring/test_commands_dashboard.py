"""`mahavishnu dlq dashboard`."""

from __future__ import annotations

import pytest

from tests.support.command_line import Run

pytestmark = pytest.mark.usefixtures("letters")


def test_all_views_or_one(run: Run) -> None:
    run("dlq", "resolve", "wf_1", "--reason", "done")
    run("archive", "run", "--days", "0", "--apply")
    shown = run("dlq", "dashboard")
    assert shown.code == 0
    reasons, states, months = shown.out.split("\n\n")
    assert reasons.startswith("reason ")
    assert states == "no lifecycle task is open"
    assert months.splitlines()[1].split()[1] == "1"
    every = run("dlq", "dashboard", "--json").json
    assert list(every) == ["dlq", "staleness", "archive"]
    assert run("dlq", "dashboard", "archive", "--json").json == every["archive"]
    assert run("dlq", "dashboard", "dlq", "--all-namespaces").out == f"{reasons}\n"


def test_a_view_that_there_is_not(run: Run) -> None:
    refused = run("dlq", "dashboard", "stalenes")
    assert (refused.code, "there is no view 'stalenes'; did you mean staleness?" in refused.err) == (3, True)
