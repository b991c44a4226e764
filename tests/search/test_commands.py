"""`mahavishnu view`."""

from __future__ import annotations

import pytest

from tests.support.command_line import Run

pytestmark = pytest.mark.usefixtures("letters")


def test_views_on_the_command_line(run: Run) -> None:
    assert run("view", "list").out == "no views are saved\n"
    assert run("view", "save", "Old mail", "queue:mail age>1h", "--sort", "oldest").code == 0
    (view,) = run("view", "list", "--json").json
    assert (view["name"], view["text"], view["sort"], view["saved_by"]) == (
        "Old mail", "queue:mail age>1h", "oldest", "ann",
    )  # fmt: skip
    assert "queue:mail age>1h" in run("view", "list").out
    taken = run("view", "save", "Old mail", "is:open", "--new")
    assert (taken.code, "saved by ann" in taken.err) == (4, True)
    wrong = run("view", "save", "Other", "statsu:open")
    assert (wrong.code, "^^^^^^" in wrong.err) == (2, True)
    assert run("audit", "list", "--action", "view.save").code == 0
    assert run("view", "delete", "Old mail").out == "Old mail is deleted; it was: queue:mail age>1h\n"
    assert run("view", "delete", "Old mail").code == 3
