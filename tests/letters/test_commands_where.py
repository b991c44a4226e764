"""`--where`: the query language on the command line."""

from __future__ import annotations

import json

import pytest

from tests.support.command_line import Run

pytestmark = pytest.mark.usefixtures("letters")


def names(run: Run, *options: str) -> set[str]:
    done = run("dlq", "list", "--json", *options)
    assert done.code == 0, done.err
    return {letter["task_id"] for letter in done.json}


def test_a_list_by_a_query(run: Run) -> None:
    assert names(run, "--where", "queue:mail or task.user.name:Jo") == {"a/b c", "wf_5"}
    assert names(run, "--where", "-queue:mail has:group", "--category", "resource") == {"wf_5"}
    assert names(run, "--where", "metadata.team:web age>1h") == {"wf_1"}


def test_a_list_shows_open_letters_unless_the_query_says_which(run: Run) -> None:
    assert run("dlq", "resolve", "wf_5").code == 0
    assert names(run, "--where", "category:resource") == set()
    assert names(run, "--where", "category:resource is:closed") == {"wf_5"}
    assert names(run, "--where", "category:resource", "--closed") == {"wf_5"}


def test_export_and_bulk_verbs_by_a_query(run: Run) -> None:
    lines = run("dlq", "export", "--where", "text:disk").out.splitlines()
    assert [json.loads(line)["task_id"] for line in lines] == ["wf_5"]
    seen = run("dlq", "archive", "--where", "text:refused priority>=7", "--dry-run", "--json").json
    assert seen["matched"] == 1
    assert run("dlq", "archive", "--where", "priority>=7", "--yes").code == 0
    assert names(run, "--where", "status:archived") == {"wf_3"}


def test_where_it_is_wrong_is_shown(run: Run) -> None:
    done = run("dlq", "list", "--where", "is:open statsu:pending")
    assert done.code == 2
    assert "did you mean status?" in done.err
    lines = done.err.splitlines()
    assert lines[-2].index("statsu") == lines[-1].index("^")
    assert lines[-1].count("^") == 6
    assert run("dlq", "archive", "--where", "", "--yes").code == 2, "an empty one means nothing, not everything"
    assert run("dlq", "archive", "wf_1", "--where", "is:open").code == 2
