"""`mahavishnu dlq watch`."""

from __future__ import annotations

import pytest

from tests.support.command_line import Run

pytestmark = pytest.mark.usefixtures("letters")


def test_watch_ends_after_lines_or_seconds(run: Run) -> None:
    assert run("dlq", "redrive", "wf_2").code == 0  # what has just changed is told
    done = run("dlq", "watch", "--lines", "1", "--seconds", "30", "--json")
    assert done.code == 0, done.err
    assert (done.json["event"], done.json["task_id"]) == ("letter", "wf_2")
    assert run("dlq", "watch", "--seconds", "0").out == ""
