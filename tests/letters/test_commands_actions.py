"""What people do with letters: the verbs of `mahavishnu dlq`, their refusals and mistakes."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest

from tests.support.command_line import Run, group_of, kept

pytestmark = pytest.mark.usefixtures("letters")


def test_each_verb_changes_the_named_letters(run: Run) -> None:
    done = run("dlq", "redrive", "wf_2", "wf_3", "--reason", "fixed", "--json")
    assert done.code == 0, done.err
    assert [(each["task_id"], each["status"]) for each in done.json] == [("wf_2", "pending"), ("wf_3", "pending")]
    assert run("dlq", "resolve", "wf_1").out == "wf_1: completed (manually_resolved)\n"
    assert run("dlq", "cancel", "a/b c", "--queue", "mail").out == "a/b c: archived (cancelled)\n"
    assert run("dlq", "fail", "wf_5").out.startswith("wf_5: exhausted (permanently_failed)")
    assert run("dlq", "archive", "wf_1").out == "wf_1: archived (manually_resolved)\n"
    assert run("dlq", "resurrect", "wf_1").out.startswith("wf_1: retries at ")
    acts = run("audit", "list", "--actor", "ann", "--all", "--json").json
    assert [each["action"] for each in reversed(acts)] == [
        "redrive", "redrive", "resolve", "cancel", "fail", "archive", "resurrect",
    ]  # fmt: skip
    assert {each["via"] for each in acts} == {"cli"} and acts[-1]["reason"] == "fixed"
    assert run("audit", "list", "--jsonl", "--limit", "1").out.count("\n") == 1


def test_only_what_is_exhausted_is_resurrected(run: Run) -> None:
    assert run("dlq", "resurrect", "wf_2").out.startswith("wf_2: retries at ")
    pending = run("dlq", "resurrect", "wf_1")
    assert (pending.code, pending.out) == (4, "")
    why = "letter 'wf_1' is pending: cannot resurrect it, only an exhausted or archived letter is; redrive it"
    assert pending.err == f"mahavishnu: {why}\n"
    assert run("dlq", "resurrect").code == 2
    assert run("dlq", "resurrect", "--status", "pending", "--yes").code == 2
    before = run("dlq", "show", "wf_1", "--json").json
    assert run("dlq", "resurrect", "--all", "--yes", "--detach").code == 0
    moved = run("dlq", "list", "--status", "exhausted", "--json").json
    assert before == run("dlq", "show", "wf_1", "--json").json and [each["task_id"] for each in moved] == ["wf_3"]
    assert run("dlq", "resurrect", "--all", "--dry-run", "--json").json["matched"] == 1


def test_a_retry_of_what_a_filter_means_says_that_it_is_a_redrive(run: Run) -> None:
    done = run("dlq", "retry", "--category", "unknown", "--dry-run")
    assert done.err.startswith("retry runs TASKs, once; what a filter means is redriven")


def test_a_refused_letter_does_not_stop_the_others(run: Run) -> None:
    done = run("dlq", "redrive", "nope", "wf_2", "--json")
    assert done.code == 3
    assert done.err == "mahavishnu: there is no letter 'nope'\n"
    assert done.json[0] == {"task_id": "nope", "error": "there is no letter 'nope'"}
    assert done.json[1]["status"] == "pending"
    run("dlq", "resolve", "wf_5")
    assert run("dlq", "resolve", "wf_5").code == 4
    assert run("dlq", "resolve", "wf_5", "nope").code == 1  # of more than one kind


def test_requeue_raises_the_priority_once(run: Run) -> None:
    done = run("dlq", "requeue", "wf_1", "--boost", "3")
    assert (done.code, done.out) == (0, "wf_1: Task requeued successfully\n")
    assert run("dlq", "show", "wf_1", "--json").json["priority"] == 3
    assert run("dlq", "requeue", "nope").code == 3
    refused = run("dlq", "requeue", "wf_1", "wf_2", "gone")
    assert (refused.code, refused.out) == (3, "wf_2: Task requeued successfully\n")
    why = "Task not found in DLQ or already resolved"
    assert refused.err.splitlines() == [
        f"mahavishnu: {why}: letter 'wf_1' is sent back by ann already: cannot requeue it, no run has ended since",
        f"mahavishnu: {why}: there is no letter 'gone'",
    ]


def test_a_retry_needs_an_app(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without = run("dlq", "retry", "wf_1")
    assert without.code == 4 and "--app MODULE:NAME" in without.err
    (home / "retrying.py").write_text(
        "from mahavishnu.core import MahavishnuApp\n"
        "def make():\n"
        "    app = MahavishnuApp()\n"
        "    app.register_adapter('default', lambda task, repos: None)\n"
        "    return app\n"
    )
    monkeypatch.syspath_prepend(home)
    kept("sqlite:///letters.db", {"task_id": "wf_9", "task": {"adapter": "default"}})
    done = run("dlq", "retry", "wf_9", "--app", "retrying:make", "--json")
    assert (done.code, done.json[0]["success"], done.json[0]["status"]) == (0, True, "completed"), done.err
    failed = run("dlq", "retry", "wf_1", "--app", "retrying:make")
    assert failed.code == 4 and "letter 'wf_1' names no adapter" in failed.err
    assert run("dlq", "retry", "--status", "pending", "--force").code == 2


def test_an_edit_keeps_a_revision(run: Run, home: Path) -> None:
    dry = run("dlq", "edit", "wf_5", "--set", "user.age=31", "--dry-run")
    assert dry.code == 0
    assert dry.out.splitlines() == [
        "path            before  after",
        '/task/user/age  "old"   31',
        "wf_5: nothing was changed, this is a dry run",
    ]
    (home / "fix.json").write_text('{"user": {"name": null}}')
    done = run("dlq", "edit", "wf_5", "--patch", "@fix.json", "--set", "user.age=31", "--redrive", "--json")
    assert done.code == 0, done.err
    assert done.json[0]["task"] == {"user": {"age": 31}}
    assert done.json[0]["revision"] == 1
    before = run("dlq", "revisions", "wf_5", "--json").json
    assert [each["task"] for each in before] == [{"user": {"age": "old", "name": "Jo"}}]
    assert run("dlq", "revisions", "wf_5").out.splitlines()[1].split()[0] == "0"
    assert run("dlq", "revisions", "wf_1").out == "it was never edited\n"
    assert run("dlq", "edit", "wf_5", "--patch", "-", stdin='{"user": {"age": 32}}').code == 0
    assert run("dlq", "show", "wf_5", "--json").json["task"] == {"user": {"age": 32}}


def test_digits_of_decimals_are_kept_for_what_a_filter_means(run: Run) -> None:
    for name in "ab":
        task = {"amount": Decimal("12.50"), "ratio": 0.25}
        kept("sqlite:///letters.db", {"task_id": name, "task": task, "adapter": "charge"})
    exact = "1234567890.12345678901234500"
    done = run("dlq", "edit", "--adapter", "charge", "--set", f"amount={exact}", "--set", "ratio=0.50", "--yes")
    assert done.code == 0, done.err
    for name in "ab":
        letter = run("dlq", "show", name, "--json").json
        assert letter["task"] == {"amount": exact, "ratio": 0.5}
        assert letter["payload_types"] == {"/amount": "decimal"}


@pytest.mark.parametrize(
    "arguments",
    [
        ("edit", "wf_5"),
        ("edit", "wf_5", "--patch", "{"),
        ("edit", "wf_5", "--patch", "@nowhere.json"),
        ("edit", "wf_5", "--set", "age"),
        ("edit", "wf_5", "--set", "a=1", "--ramp", "1"),
        ("edit", "--open", "--priority", "3", "--yes"),
        ("redrive",),
        ("redrive", "wf_1", "--status", "pending"),
        ("redrive", "wf_1", "--all"),
        ("redrive", "wf_1", "--dry-run"),
        ("redrive", "wf_1", "--patch", "{}"),
        ("redrive", "wf_1", "--queue", "a", "--queue", "b"),
        ("redrive", "--open", "--ramp", "one", "--yes"),
        ("archive", "--open", "--stop-percent", "5", "--yes"),
        ("list", "--since", "yesterday"),
        ("list", "--since", "99999999w"),
        ("list", "--status", "bogus"),
        ("list", "--metadata", "team"),
        ("list", "--sort", "colour"),
        ("list", "--open", "--resolution", "pending"),
        ("list", "--limit", "0"),
        ("import", "nowhere.jsonl"),
        ("--server", "http://x", "--store", "memory:", "list"),
        ("--server", "ftp://x", "list"),
        ("--server", "http://ann:secret@x", "list"),
        ("--store", "nosuch:", "list"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(run: Run, arguments: tuple[str, ...]) -> None:
    done = run("dlq", *arguments)
    assert (done.code, done.out) == (2, ""), done.err
    assert done.err.startswith("mahavishnu: ") and done.err.count("\n") == 1 and "secret" not in done.err


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("dlq", "list", "--category", "netwrok"), 2, "query.category.0: Input should be "),
        (("dlq", "list", "--dlq-reason", "x"), 2, "query.reason.0: Input should be "),
        (("dlq", "redrive", "--all", "--stop-percent", "500"), 2, "body.stop_percent: Input should be less than or "),
        (("dlq", "archive", "--all", "--stop-percent", "5"), 2, "stop_percent is for redrives"),
        (("dlq", "edit", "--all", "--patch", "[1]"), 2, "body.patch: Input should be a valid dict"),
        (("dlq", "redrive", "--all", "--ramp", "0"), 2, "body.ramp.0: Input should be greater than or equal to 1"),
        (("dlq", "redrive", "--open", "--ramp", "1", "5"), 2, "the sizes of a ramp are written with commas: --ra"),
        (("group", "redrive", "x", "--ramp", "1", "5"), 2, "the sizes of a ramp are written with commas: --ramp 1,5"),
        (("dlq", "list", "--server", "http://x"), 2, "--server stands before the verb: mahavishnu dlq --server URL li"),
        (("run", "show", "x", "--store", "memory:"), 2, "--store stands before the verb: mahavishnu run --store URL s"),
        (("dlq", "--store", "", "clear", "--yes"), 2, "--store is empty"),
        (("dlq", "--server", "", "list"), 2, "--server is empty"),
        (("dlq", "list", "--settings", "x"), 2, "--settings stands before the command: mahavishnu --settings FILE dlq"),
        (("dlq", "list", "--policy", "exponental"), 2, "no letter has the retry policy 'exponental'; did you mean ex"),
        (("dlq", "export", "--policy", "foo"), 2, "no letter has the retry policy 'foo'; known are never, linear"),
        (("audit", "list", "--action", "redriv"), 2, "nobody ever did 'redriv'; did you mean redrive?"),
        (("dlq", "list", "--group", "KeyError"), 3, "there is no group 'KeyError'"),
        (("dlq", "export", "--run", "abc"), 3, "there is no run 'abc'"),
        (("dlq", "redrive", "--group", "v1:nope", "--yes"), 3, "there is no group 'v1:nope'"),
        (("group", "redrive", "nope", "--yes"), 3, "there is no group 'nope'"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_option_or_the_field(run: Run, arguments: tuple[str, ...], code: int, told: str) -> None:
    done = run(*arguments)
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1)
    assert done.err.startswith(f"mahavishnu: {told}"), done.err


def test_a_dry_edit_is_refused_like_the_edit(run: Run) -> None:
    run("dlq", "resolve", "wf_5")
    edit = ("dlq", "edit", "wf_5", "--set", "n=1")
    wet, dry = run(*edit), run(*edit, "--dry-run")
    assert (wet.code, dry.code) == (4, 4)
    assert (wet.out, dry.out) == ("", "")
    assert "'wf_5' is" in dry.err and dry.err.endswith(wet.err.removeprefix("mahavishnu: "))


def test_deleting_needs_yes_without_a_terminal(run: Run) -> None:
    for arguments in (("clear",), ("archive", "--all"), ("redrive", "--open")):
        done = run("dlq", *arguments)
        assert (done.code, done.out) == (2, "") and "--yes" in done.err
    assert len(run("dlq", "list", "--open", "--json").json) == 5
    assert run("dlq", "clear", "--yes", "--reason", "a test").out == "5 letters deleted\n"
    assert run("dlq", "list", "--json").json == []
    assert run("audit", "list", "--json").json[0]["reason"] == "a test"


def test_an_edit_of_a_filter_is_a_bulk_run(run: Run) -> None:
    done = run("dlq", "edit", "--status", "exhausted", "--set", "n=2", "--yes", "--json")
    assert (done.code, done.json["counts"]["moved"]) == (0, 2), done.err
    assert run("dlq", "show", "wf_2", "--json").json["task"] == {"n": 2}


def test_a_dry_run_of_an_edit_shows_what_it_does_to_some_letters(run: Run) -> None:
    kept("sqlite:///letters.db", *({"task_id": f"o_{n}", "task": {"n": n}, "repos": ["shop"]} for n in range(5)))
    dry = run("dlq", "edit", "--repo", "shop", "--set", "n=9", "--dry-run")
    assert (dry.code, dry.err) == (0, "")
    assert dry.out.startswith("5 letters meant, 5 can be moved (edit)\n")
    assert dry.out.endswith("\n… and 2 other letters\n")
    shown = re.findall(r"^o_(\d):\n  /task/n: (\d) → 9$", dry.out, re.MULTILINE)
    assert len(shown) == 3 and all(name == before for name, before in shown)
    assert len(run("dlq", "edit", "--repo", "shop", "--set", "n=9", "--dry-run", "--json").json["changes"]) == 5


@pytest.mark.parametrize("dry", [("--dry-run",), ("--yes",)])
@pytest.mark.parametrize("verb", [("dlq", "edit", "--repo", "api"), ("dlq", "redrive", "--repo", "api"), ("group",)])
def test_an_edit_of_what_no_letter_has_is_refused(run: Run, dry: tuple[str, ...], verb: tuple[str, ...]) -> None:
    command = ("group", "redrive", group_of(run, "wf_5")) if verb == ("group",) else verb
    refused = run(*command, "--set", "user.aeg=3", *dry)
    assert (refused.code, refused.out) == (2, "")
    letters = "letter 'wf_5' has no" if verb == ("group",) else "none of the 5 letters has"
    why = (
        f"{letters} /task/user/aeg; did you mean /task/user/age? What is not there is made with create=True (--create)"
    )
    assert refused.err == f"mahavishnu: {why}\n"
    assert run("run", "list", "--json").json == []
    assert run(*command, "--set", "user.aeg=3", "--set", "user.age=4", "--create", *dry, "--detach").code == 0
    assert run("dlq", "show", "wf_5", "--json").json["task"]["user"] == {"age": "old", "name": "Jo"}


def test_an_edit_of_one_letter_refuses_what_it_does_not_have(run: Run) -> None:
    for dry in ((), ("--dry-run",)):
        refused = run("dlq", "edit", "wf_5", "--set", "user.aeg=3", *dry)
        assert (refused.code, refused.out) == (2, "")
        assert "letter 'wf_5' has no /task/user/aeg; did you mean /task/user/age?" in refused.err
        assert refused.err.count("wf_5") == 1
    both = run("dlq", "edit", "wf_5", "wf_1", "--set", "user.age=3", "--priority", "99999999999")
    assert both.code == 2 and all(f"mahavishnu: {task}: " in both.err for task in ("wf_5", "wf_1"))
    assert run("dlq", "show", "wf_5", "--json").json["revision"] == 0
    assert run("dlq", "edit", "wf_5", "--set", "user.aeg=3", "--create").code == 0
    assert run("dlq", "show", "wf_5", "--json").json["task"]["user"] == {"age": "old", "name": "Jo", "aeg": 3}


def test_an_edit_is_taken_back(run: Run) -> None:
    assert run("dlq", "restore", "wf_5", "--dry-run").code == run("dlq", "restore", "wf_5").code == 2
    run("dlq", "edit", "wf_5", "--set", "user.age=31", "--priority", "4")
    dry = run("dlq", "restore", "wf_5", "--dry-run")
    difference = ["path            before  after", '/task/user/age  31      "old"', "/priority       4       0"]
    assert (dry.code, dry.out.splitlines()) == (0, difference)
    assert run("dlq", "show", "wf_5", "--json").json["priority"] == 4
    done = run("dlq", "restore", "wf_5", "--revision", "0", "--redrive", "--reason", "it was right")
    *lines, last = done.out.splitlines()
    assert (
        (done.code, lines) == (0, difference) and last.startswith("wf_5: retries at ") and last.endswith("revision 2")
    )
    assert run("audit", "list", "--action", "edit", "--json").json[0]["reason"] == "it was right"
    assert run("dlq", "restore", "wf_9").code == 3


@pytest.mark.parametrize("task", ["stats", "..", "a/.."])
def test_a_task_may_have_the_name_of_a_path_of_the_api(run: Run, task: str) -> None:
    kept("sqlite:///letters.db", {"task_id": task, "max_retries": 0})
    assert run("dlq", "show", task, "--json").json["task_id"] == task
    assert run("dlq", "edit", task, "--set", "n=2").out.endswith(
        f"\n{task}: needs you: no retries allowed, revision 1\n"
    )
    assert len(run("dlq", "revisions", task, "--json").json) == 1
    assert run("dlq", "redrive", task).code == 0
    assert "nothing here can run it: --app" in run("dlq", "retry", task).err
    assert run("dlq", "requeue", task).code == 0
    assert run("dlq", "resolve", task).out.startswith(f"{task}: ")
    assert run("dlq", "archive", task, "--json").json[0]["status"] == "archived"


def test_a_letter_is_given_an_adapter_and_found_by_it(run: Run) -> None:
    assert run("dlq", "edit", "wf_1", "wf_2", "--adapter", "invoice", "--json").code == 0
    found = run("dlq", "list", "--adapter", "invoice", "--json").json
    assert sorted((each["task_id"], each["adapter"]) for each in found) == [("wf_1", "invoice"), ("wf_2", "invoice")]
    assert not {"wf_1", "wf_2"} & {each["task_id"] for each in run("dlq", "list", "--adapter", "(none)", "--json").json}
    assert run("dlq", "list", "--tag", "nobody's", "--json").json == []
    assert "adapter" in run("dlq", "show", "wf_1").out
    assert [each["adapter"] for each in run("dlq", "revisions", "wf_1", "--json").json] != ["invoice"]
    twice = run("dlq", "edit", "wf_1", "--adapter", "a", "--adapter", "b")
    assert (twice.code, "a letter is run by one adapter" in twice.err) == (2, True)
