"""`mahavishnu dlq list`, `show` and `stats` on a store of their own."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta

import pytest

from mahavishnu.cli import output as times
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.stores.urls import open_store
from tests.bulk.test_commands import halted
from tests.support.command_line import Run, kept
from tests.support.letters import NOON

pytestmark = pytest.mark.usefixtures("letters")
BAD = "\\x1b[2Jbad [red]x[/red] value line two"
LIST = f"""\
task   queue            state                           category   retries  failed                error
wf_5   default/default  needs you: it names no adapter  resource   0/3      2026-01-01 12:00:00Z  disk full
a/b c  default/mail     needs you: it names no adapter  permanent  0/3      2026-01-01 12:00:00Z  {BAD}
wf_3   default/default  needs you: no retries allowed   network    0/0      2026-01-01 12:00:00Z  connection refused
wf_2   default/default  needs you: no retries allowed   network    0/0      2026-01-01 12:00:00Z  connection refused
wf_1   default/default  needs you: it names no adapter  network    0/3      2026-01-01 12:00:00Z  connection refused
"""
BLOCKS = """\
task      wf_2
state     needs you: no retries allowed
category  network
retries   0/0
failed    2h ago
error     connection refused

task      wf_1
state     needs you: it names no adapter
category  network
retries   0/3
failed    2h ago
error     connection refused
"""
SHOW = """\
task          wf_3
state         needs you: no retries allowed
status        exhausted
cause         connection refused
category      network
because       text: 'connection refused' (built-in)
first failed  2026-01-01 12:00:00Z, 1 run
retries       none by itself (at most 0)
priority      7
group         {group} (new, 3 open letters)
repos         api
task data     {{"n": 1}}
entry         {entry}
next          it waits for a person: retry, redrive, edit, resolve, fail, cancel or archive it

failed                category  ran  by  failure
2026-01-01 12:00:00Z  network   -    -   connection refused
"""
STATS = """\
open letters   5 of 10000 (0.05 %)
pending        3
retrying       0
exhausted      2
asked          sqlite:///letters.db
store          ok
kept locally   0
wait for room  0

category   open letters
network    3
permanent  1
resource   1

retry policy  open letters
exponential   5

no live worker has  open letters
(none)              3

since the beginning  letters
enqueued total       5
exhausted            2

WARNING: 3 letters are due, and no worker lives to run them: mahavishnu worker --app MODULE:NAME
"""


def test_letters_are_listed_as_a_table(run: Run) -> None:
    done = run("dlq", "list", "--sort", "newest")
    assert (done.code, done.err) == (0, "")
    assert sorted(done.out.splitlines()) == sorted(LIST.splitlines())


def test_letters_are_listed_as_blocks_on_a_narrow_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(times, "_now", lambda: NOON + timedelta(hours=2))
    shown = [run("dlq", "list", "--task-id", task).out for task in ("wf_2", "wf_1")]
    assert "\n".join(shown).splitlines() == BLOCKS.splitlines()


def test_letters_are_listed_as_json(run: Run) -> None:
    whole = run("dlq", "list", "--json")
    assert whole.out == json.dumps(whole.json, indent=2) + "\n"
    assert {each["task_id"] for each in whole.json} == {"wf_1", "wf_2", "wf_3", "a/b c", "wf_5"}
    lines = run("dlq", "list", "--jsonl").out.splitlines()
    assert [json.loads(each) for each in lines] == whole.json
    assert run("dlq", "list", "--queue", "nowhere", "--json").json == []


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_ids_stay_whole_where_there_is_not_much_room(run: Run, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    name = "0197c1f2-57ec-7b2a-9d54-0123456789ab"
    kept("sqlite:///letters.db", {"task_id": name, "error": "connection refused " * 9}, {"task_id": "b", "error": "x"})
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(times, "_now", lambda: NOON + timedelta(seconds=20))
    head, *lines = run("dlq", "list", "--queue", "default").out.splitlines()
    assert head.startswith("task") and {"state", "error"} <= set(head.split())
    assert any(line.startswith(f"{name}  needs you:") for line in lines)
    assert max(map(len, lines)) <= columns


def test_open_letters_are_listed_unless_others_are_asked_for(run: Run) -> None:
    def listed(*options: str) -> set[str]:
        return {each["task_id"] for each in run("dlq", "list", *options, "--json").json}

    run("dlq", "resolve", "wf_1")
    run("dlq", "fail", "wf_2")
    run("dlq", "cancel", "wf_5")
    opened, closed = {"wf_3", "a/b c"}, {"wf_1", "wf_2", "wf_5"}
    assert listed() == listed("--open") == listed("--all") == listed("--before", "2030-01-01") == opened
    assert listed("--closed") == opened | closed
    assert listed("--status", "exhausted") == {"wf_2", "wf_3"}
    assert listed("--task-id", "wf_1") == listed("--resolution", "manually_resolved") == {"wf_1"}
    assert {line.split()[0] for line in run("dlq", "list").out.splitlines()} == {"task", "wf_3", "a/b"}
    assert run("dlq", "list", "--text", "disk").out == "no open letters (--closed lists the others, too)\n"
    assert run("dlq", "list", "--text", "tape", "--closed").out == "no letters\n"
    assert (
        run("dlq", "list", "--open", "--closed").code == run("dlq", "list", "--closed", "--resolution", "x").code == 2
    )


def test_a_list_that_is_cut_short_says_so(run: Run) -> None:
    some = run("dlq", "list", "--limit", "2", "--json")
    assert len(some.json) == 2
    assert some.err == "these are the first 2: there are more, which --limit N or --all lists\n"
    one = run("dlq", "list", "--limit", "1", "--json")
    assert one.err == "this is the first one: there are more, which --limit N or --all lists\n"
    assert run("dlq", "list", "--limit", "5", "--json").err == ""


@pytest.mark.parametrize(
    ("options", "tasks"),
    [
        (["--status", "exhausted"], {"wf_2", "wf_3"}),
        (["--status", "exhausted", "--status", "pending", "--category", "network"], {"wf_1", "wf_2", "wf_3"}),
        (["--open", "--queue", "mail"], {"a/b c"}),
        (["--text", "disk"], {"wf_5"}),
        (["--metadata", "team=web"], {"wf_1"}),
        (["--task-id", "wf_1", "--task-id", "wf_2"], {"wf_1", "wf_2"}),
        (["--source-id", "wf_1"], set()),
        (["--repo", "web"], set()),
        (["--since", "2026-01-01T12:00", "--before", "2026-01-02"], {"wf_1", "wf_2", "wf_3", "a/b c", "wf_5"}),
        (["--before", "2026-01-01T12:00"], set()),
        (["--resolution", "cancelled"], set()),
        (["--dlq-reason", "workflow_failed", "--policy", "exponential", "--namespace", "nowhere"], set()),
    ],
)
def test_filters_select_letters(run: Run, options: list[str], tasks: set[str]) -> None:
    done = run("dlq", "list", *options, "--json")
    assert {each["task_id"] for each in done.json} == tasks, done.err


def test_one_letter_is_shown_with_its_failures(run: Run) -> None:
    found = run("dlq", "show", "wf_3", "--json").json
    done = run("dlq", "show", "wf_3")
    assert (done.code, done.err) == (0, "")
    assert done.out == SHOW.format(group=found["fingerprint"], entry=found["entry_id"])
    assert found["failures"][0]["message"] == "connection refused"
    nasty = run("dlq", "show", "a/b c", "--queue", "mail")
    assert nasty.code == 0 and "\x1b" not in nasty.out and "[red]x[/red]" in nasty.out


def test_statistics_are_shown(run: Run) -> None:
    done = run("dlq", "stats")
    assert (done.code, done.out) == (0, STATS)
    assert run("dlq", "status").out == STATS
    assert run("dlq", "stats", "--json").json["queue_size"] == 5
    lines = run("dlq", "stats", "--by-reason").out.splitlines()
    assert lines[0].split()[:3] == ["reason", "letters", "pending"]
    assert lines[1].split()[:3] == ["workflow_failed", "5", "5"]
    assert run("dlq", "stats", "--by-reason", "--json").json[0]["total_entries"] == 5


def test_statistics_name_the_next_command_unless_they_warn(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("dlq", "archive", "--status", "pending", "--yes")  # they are due, and nobody lives to run them
    whole = run("dlq", "stats", "--json").out
    monkeypatch.setenv("COLUMNS", "120")  # somebody looks at it
    assert run("dlq", "stats").out.endswith("\n\nthe causes: mahavishnu group list\n")
    there = run("dlq", "--store", "sqlite:///letters.db", "stats").out
    assert there.endswith("\nthe causes: mahavishnu group --store sqlite:///letters.db list\n")
    assert run("dlq", "stats", "--json").out == whole
    kept("sqlite:///letters.db", *({"task_id": f"{number}", "max_retries": 0} for number in range(101)))
    assert run("dlq", "stats").out.endswith(" exhausted tasks in DLQ!\n")
    run("dlq", "clear", "--yes")
    assert "the causes" not in run("dlq", "stats").out


def test_policies_and_actions_that_exist_are_accepted(run: Run) -> None:
    kept("sqlite:///letters.db", {"task_id": "own", "retry_policy": "custom:slow"})
    assert run("dlq", "list", "--policy", "custom:slow", "--json").json[0]["task_id"] == "own"
    assert run("dlq", "list", "--policy", "linear").code == 0
    assert run("audit", "list", "--action", "group.update").code == 0
    run("dlq", "resolve", "a/b c", "--queue", "mail")
    for subject in ("default/mail/a/b c", "letter:default/mail/a/b c"):
        assert len(run("audit", "list", "--subject", subject, "--json").json) == 1


@pytest.mark.parametrize(
    "arguments", [("dlq", "show", "x"), ("run", "show", "x"), ("run", "pause", "x"), ("group", "show", "x")]
)
def test_what_does_not_exist_is_exit_code_3(run: Run, arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith("mahavishnu: there is no ") and done.err.count("\n") == 1


def test_a_letter_that_succeeded_shows_when(run: Run) -> None:
    async def work() -> None:
        async with DeadLetterQueue(store=open_store("sqlite:///letters.db")) as dlq:
            dlq.processing.callback = lambda task, repos: None
            await dlq.retry_task("wf_1")

    asyncio.run(work())
    ended = run("dlq", "show", "wf_1", "--json").json["completed_at"].replace("T", " ")[:19]
    assert f"ended         succeeded on a rerun, {ended}Z, by " in run("dlq", "show", "wf_1").out
    head, row = run("dlq", "list", "--task-id", "wf_1").out.splitlines()
    assert "  ended  " in head and f"  {ended}Z  " in row and "succeeded on a rerun" in row
    assert run("dlq", "stats", "--by-reason").out.splitlines()[0].endswith("mean requeues  oldest")


def test_the_last_failure_is_shown_on_a_wide_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    halted(run)
    monkeypatch.setenv("COLUMNS", "200")
    assert "  first failed  " in run("dlq", "list").out
    monkeypatch.setenv("COLUMNS", "80")
    head = run("dlq", "list", "--queue", "default").out.splitlines()[0]
    assert "  failed" in head and "first failed" not in head
    assert "last failed   " in run("dlq", "show", "wf_1").out


def test_json_escapes_half_characters_and_control_characters(run: Run) -> None:
    kept("sqlite:///letters.db", {"task_id": "half", "task": {"half": "\ud83d", "csi": "\x9b2J"}})
    done = run("dlq", "show", "half", "--json")
    assert done.json["task"] == {"half": "\ud83d", "csi": "\x9b2J"}
    assert "\x9b" not in done.out


def test_a_filter_that_would_hold_up_others_is_refused(run: Run) -> None:
    many = [word for number in range(101) for word in ("--repo", f"r{number}")]
    for command in (("dlq", "list"), ("dlq", "redrive")):
        refused = run(*command, *many)
        assert (refused.code, refused.out) == (2, "")
        assert "repo: List should have at most 100 items" in refused.err


def test_an_unknown_id_suggests_near_ones(run: Run) -> None:
    def said(*arguments: str) -> str:
        done = run("dlq", *arguments)
        assert (done.code, done.out) == (3, "")
        return done.err.removeprefix("mahavishnu: ")

    assert said("show", "a/b c") == "there is no letter 'a/b c'; there is one with --queue mail\n"
    assert said("show", "a/b c", "--queue", "post") == "there is no letter 'a/b c'; there is one with --queue mail\n"
    assert said("show", "f_5") == "there is no letter 'f_5'; did you mean wf_5?\n"
    assert said("revisions", "wg_5").startswith("there is no letter 'wg_5'; did you mean wf_5")
    assert said("redrive", "wf").startswith("there is no letter 'wf'; did you mean wf_")
    assert said("show", "something") == "there is no letter 'something'\n"


def test_where_letters_are_is_shown_if_that_tells_them_apart(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAHAVISHNU_DLQ_NAMESPACE", "billing")
    kept("sqlite:///letters.db", {"task_id": "b_1", "namespace": "billing"})
    assert run("dlq", "list").out.splitlines()[0].split()[:2] == ["task", "state"]
    whole = run("dlq", "list", "--all-namespaces", "--text", "connection").out.splitlines()
    assert any(row.split()[:2] == ["b_1", "billing/default"] for row in whole)
    kept("sqlite:///letters.db", {"task_id": "b_2", "namespace": "billing", "queue": "mail"})
    head, *rows = run("dlq", "list").out.splitlines()
    assert head.split()[:2] == ["task", "queue"] and any(row.split()[:2] == ["b_2", "billing/mail"] for row in rows)


def test_letters_that_no_live_worker_can_run_are_counted_and_say_so(run: Run) -> None:
    assert run("dlq", "edit", "wf_1", "--adapter", "invoice").code == 0
    table = run("dlq", "stats").out.partition("no live worker has")[2].partition("\n\n")[0]
    assert "invoice 1" in " ".join(table.split())
    assert "waiting for a worker that has 'invoice'" in run("dlq", "show", "wf_1").out
