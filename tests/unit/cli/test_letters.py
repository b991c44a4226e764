"""`mahavishnu dlq`, `group`, `run` and `audit` on a store of their own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
from pathlib import Path

import pytest

from mahavishnu.cli.options import instant_from
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model import lifecycle
from mahavishnu.model.clock import SystemClock
from mahavishnu.model.errors import InvalidInput
from mahavishnu.stores.urls import open_store
from mahavishnu.testing import ManualClock
from tests.unit.cli.conftest import Run, kept

pytestmark = pytest.mark.usefixtures("letters")
BAD = "\\x1b[2Jbad [red]x[/red] value line two"
LIST = f"""\
task   queue            status     category   retries  first failed          next retry            error
wf_5   default/default  pending    resource   0/3      2026-01-01 12:00:00Z  2026-01-01 12:01:00Z  disk full
a/b c  default/mail     pending    permanent  0/3      2026-01-01 12:00:00Z  2026-01-01 12:01:00Z  {BAD}
wf_3   default/default  exhausted  network    0/0      2026-01-01 12:00:00Z  -                     connection refused
wf_2   default/default  exhausted  network    0/0      2026-01-01 12:00:00Z  -                     connection refused
wf_1   default/default  pending    network    0/3      2026-01-01 12:00:00Z  2026-01-01 12:01:00Z  connection refused
"""
BLOCKS = """\
task          wf_2
status        exhausted
category      network
retries       0/0
first failed  2026-01-01 12:00:00Z
error         connection refused

task          wf_1
status        pending
category      network
retries       0/3
first failed  2026-01-01 12:00:00Z
next retry    2026-01-01 12:01:00Z
error         connection refused
"""
SHOW = """\
task          wf_3
status        exhausted
cause         connection refused
category      network
because       text: 'connection refused' (built-in)
first failed  2026-01-01 12:00:00Z, 1 run
retries       0 of 0 (exponential)
priority      7
group         {group} (new, 3 open letters)
repos         api
task data     {{"n": 1}}
entry         {entry}
next          it waits for a person: redrive, edit, resolve, fail, cancel or archive it

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

since the beginning  letters
enqueued total       5
exhausted            2
"""
GROUPS = """\
fingerprint              state  open  last hour  last day  last seen             owner  cause
{network}  new    3     0          0         2026-01-01 12:00:00Z  -      connection refused
"""


def group_of(run: Run, task: str = "wf_1") -> str:
    return str(run("dlq", "show", task, "--json").json["fingerprint"])


# ------------------------------------------------------------------------------------------------------ what is shown


def test_letters_as_a_table(run: Run) -> None:
    done = run("dlq", "list", "--sort", "newest")
    assert (done.code, done.err) == (0, "")
    assert sorted(done.out.splitlines()) == sorted(LIST.splitlines())


def test_letters_as_blocks_where_there_is_no_room(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    shown = [run("dlq", "list", "--task-id", task).out for task in ("wf_2", "wf_1")]
    assert "\n".join(shown).splitlines() == BLOCKS.splitlines()


def test_letters_as_json(run: Run) -> None:
    whole = run("dlq", "list", "--json")
    assert whole.out == json.dumps(whole.json, indent=2) + "\n"
    assert {each["task_id"] for each in whole.json} == {"wf_1", "wf_2", "wf_3", "a/b c", "wf_5"}
    lines = run("dlq", "list", "--jsonl").out.splitlines()
    assert [json.loads(each) for each in lines] == whole.json
    assert run("dlq", "list", "--queue", "nowhere", "--json").json == []


def test_a_part_of_a_list_says_that_it_is_one(run: Run) -> None:
    some = run("dlq", "list", "--limit", "2", "--json")
    assert len(some.json) == 2
    assert some.err == "there are more than these 2: --limit, or --all\n"
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
        (["--repo", "web"], set()),
        (["--since", "2026-01-01T12:00", "--before", "2026-01-02"], {"wf_1", "wf_2", "wf_3", "a/b c", "wf_5"}),
        (["--before", "2026-01-01T12:00"], set()),
        (["--resolution", "cancelled"], set()),
        (["--dlq-reason", "workflow_failed", "--policy", "exponential", "--namespace", "nowhere"], set()),
    ],
)
def test_filters(run: Run, options: list[str], tasks: set[str]) -> None:
    done = run("dlq", "list", *options, "--json")
    assert {each["task_id"] for each in done.json} == tasks, done.err


def test_one_letter(run: Run) -> None:
    found = run("dlq", "show", "wf_3", "--json").json
    done = run("dlq", "show", "wf_3")
    assert (done.code, done.err) == (0, "")
    assert done.out == SHOW.format(group=found["fingerprint"], entry=found["entry_id"])
    assert found["failures"][0]["message"] == "connection refused"
    nasty = run("dlq", "show", "a/b c", "--queue", "mail")
    assert nasty.code == 0 and "\x1b" not in nasty.out and "[red]x[/red]" in nasty.out


def test_numbers(run: Run) -> None:
    done = run("dlq", "stats")
    assert (done.code, done.out) == (0, STATS)
    assert run("dlq", "status").out == STATS
    assert run("dlq", "stats", "--json").json["queue_size"] == 5
    lines = run("dlq", "stats", "--by-reason").out.splitlines()
    assert lines[0].split()[:3] == ["reason", "letters", "pending"]
    assert lines[1].split()[:3] == ["workflow_failed", "5", "5"]
    assert run("dlq", "stats", "--by-reason", "--json").json[0]["total_entries"] == 5


def test_numbers_lead_on_where_nothing_is_warned_of(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_groups(run: Run) -> None:
    network = group_of(run)
    done = run("group", "list", "--limit", "1")
    assert done.out == GROUPS.format(network=network)
    assert run("group", "list", "--json").json[0]["fingerprint"] == network
    shown = run("group", "show", network)
    assert shown.out.splitlines()[:2] == [f"group       {network}", "cause       connection refused"]
    assert run("group", "show", "v1:none").code == 3


def test_what_is_said_of_a_group(run: Run) -> None:
    network = group_of(run)
    said = ("--state", "investigating", "--owner", "ann", "--note", "a proxy", "--link", "https://issues.example/1")
    done = run("group", "update", network, *said, "--hold-until", "2h", "--json")
    assert done.code == 0, done.err
    assert (done.json["state"], done.json["owner"], done.json["on_hold"]) == ("investigating", "ann", True)
    assert done.json["notes"][0]["by"] == "ann"
    free = run("group", "update", network, "--hold-until", "none", "--hold-release", "1.4", "--owner", "none", "--json")
    assert (free.json["hold_until"], free.json["hold_release"], free.json["owner"]) == (None, "1.4", None)
    released = run("group", "release", "1.4")
    assert released.out == "1 group waited for 1.4\n"
    assert run("group", "update", network).code == 2
    assert run("group", "update", network, "--state", "done").code == 2
    table = run("audit", "list", "--subject", f"group:{network}").out
    assert table.splitlines()[0].split()[:4] == ["when", "who", "via", "action"] and " ann  cli  group.update " in table


# ------------------------------------------------------------------------------------------------------ what is done


def test_a_verb_on_tasks(run: Run) -> None:
    done = run("dlq", "redrive", "wf_2", "wf_3", "--reason", "fixed", "--json")
    assert done.code == 0, done.err
    assert [(each["task_id"], each["status"]) for each in done.json] == [("wf_2", "pending"), ("wf_3", "pending")]
    assert run("dlq", "resolve", "wf_1").out == "wf_1: completed (manually_resolved)\n"
    assert run("dlq", "cancel", "a/b c", "--queue", "mail").out == "a/b c: archived (cancelled)\n"
    assert run("dlq", "fail", "wf_5").out.startswith("wf_5: exhausted (permanently_failed)")
    assert run("dlq", "archive", "wf_1").out == "wf_1: archived (manually_resolved)\n"
    assert run("dlq", "resurrect", "wf_1").out.startswith("wf_1: pending, due ")
    acts = run("audit", "list", "--actor", "ann", "--all", "--json").json
    assert [each["action"] for each in reversed(acts)] == [
        "redrive", "redrive", "resolve", "cancel", "fail", "archive", "redrive",
    ]  # fmt: skip
    assert {each["via"] for each in acts} == {"cli"} and acts[-1]["reason"] == "fixed"
    assert run("audit", "list", "--jsonl", "--limit", "1").out.count("\n") == 1


def test_one_that_is_refused_does_not_keep_the_others_from_it(run: Run) -> None:
    done = run("dlq", "redrive", "nope", "wf_2", "--json")
    assert done.code == 3
    assert done.err == "mahavishnu: there is no letter 'nope'\n"
    assert done.json[0] == {"task_id": "nope", "error": "there is no letter 'nope'"}
    assert done.json[1]["status"] == "pending"
    run("dlq", "resolve", "wf_5")
    assert run("dlq", "resolve", "wf_5").code == 4
    assert run("dlq", "resolve", "wf_5", "nope").code == 1  # of more than one kind


def test_sending_back(run: Run) -> None:
    done = run("dlq", "requeue", "wf_1", "--boost", "3")
    assert (done.code, done.out) == (0, "wf_1: Task requeued successfully\n")
    assert run("dlq", "show", "wf_1", "--json").json["priority"] == 3
    assert run("dlq", "requeue", "nope").code == 3
    refused = run("dlq", "requeue", "wf_1", "wf_2", "gone")
    assert (refused.code, refused.out) == (3, "wf_2: Task requeued successfully\n")
    why = "Task not found in DLQ or already resolved"
    assert refused.err == f"mahavishnu: wf_1: {why}\nmahavishnu: gone: {why}\n"


def test_a_retry_takes_an_app(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without = run("dlq", "retry", "wf_1")
    assert without.code == 4 and "callback" in without.err
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
    assert failed.code == 1 and failed.out.startswith("wf_1: ")
    assert run("dlq", "retry", "--status", "pending", "--force").code == 2


def test_an_edit(run: Run, home: Path) -> None:
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
def test_mistakes(run: Run, arguments: tuple[str, ...]) -> None:
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
def test_mistakes_are_told_by_the_options(run: Run, arguments: tuple[str, ...], code: int, told: str) -> None:
    done = run(*arguments)
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1)
    assert done.err.startswith(f"mahavishnu: {told}"), done.err


def test_what_letters_and_acts_there_are_is_not_mistaken(run: Run) -> None:
    kept("sqlite:///letters.db", {"task_id": "own", "retry_policy": "custom:slow"})
    assert run("dlq", "list", "--policy", "custom:slow", "--json").json[0]["task_id"] == "own"
    assert run("dlq", "list", "--policy", "linear").code == 0
    assert run("audit", "list", "--action", "group.update").code == 0
    run("dlq", "resolve", "a/b c", "--queue", "mail")
    for subject in ("default/mail/a/b c", "letter:default/mail/a/b c"):
        assert len(run("audit", "list", "--subject", subject, "--json").json) == 1


def test_a_dry_edit_is_refused_as_the_edit_is(run: Run) -> None:
    run("dlq", "resolve", "wf_5")
    edit = ("dlq", "edit", "wf_5", "--set", "n=1")
    wet, dry = run(*edit), run(*edit, "--dry-run")
    assert (wet.code, dry.code) == (4, 4)
    assert (wet.out, dry.out) == ("", "")
    assert "'wf_5' is" in dry.err and dry.err.endswith(wet.err.removeprefix("mahavishnu: "))


@pytest.mark.parametrize(
    "arguments", [("dlq", "show", "x"), ("run", "show", "x"), ("run", "pause", "x"), ("group", "show", "x")]
)
def test_what_is_not_there(run: Run, arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith("mahavishnu: there is no ") and done.err.count("\n") == 1


def test_what_destroys_wants_a_yes_where_nobody_can_be_asked(run: Run) -> None:
    for arguments in (("clear",), ("archive", "--all"), ("redrive", "--open")):
        done = run("dlq", *arguments)
        assert (done.code, done.out) == (2, "") and "--yes" in done.err
    assert len(run("dlq", "list", "--open", "--json").json) == 5
    assert run("dlq", "clear", "--yes", "--reason", "a test").out == "5 letters deleted\n"
    assert run("dlq", "list", "--json").json == []
    assert run("audit", "list", "--json").json[0]["reason"] == "a test"


# -------------------------------------------------------------------------------------------------------- bulk runs


def test_a_bulk_run_is_previewed(run: Run) -> None:
    run("dlq", "resolve", "wf_1")
    done = run("dlq", "resolve", "--category", "network", "--dry-run")
    assert done.code == 0
    assert done.out.splitlines()[0] == "3 letters meant, 2 can be moved (resolve)"
    assert done.out.splitlines()[1].startswith("  1: ")
    seen = run("dlq", "resolve", "--category", "network", "--dry-run", "--json").json
    assert (seen["matched"], seen["eligible"], sum(seen["ineligible"].values())) == (3, 2, 1)
    assert run("run", "list", "--json").json == []


def test_a_bulk_run_is_carried_out_here(run: Run) -> None:
    done = run("dlq", "archive", "--status", "exhausted", "--yes", "--reason", "old", "--json")
    assert done.code == 0, done.err
    assert (done.json["state"], done.json["counts"]["moved"], done.json["by"]) == ("done", 2, "ann")
    run_id = done.json["run_id"]
    table = run("run", "list").out.splitlines()
    assert table[1].split()[:5] == [run_id, "archive", "done", "2", "2"]
    shown = run("run", "show", run_id)
    assert shown.out.splitlines()[:3] == [f"run       {run_id}", "verb      archive", "state     done"]
    items = run("run", "items", run_id, "--json").json
    assert {(each["key"], each["state"]) for each in items} == {("wf_2", "moved"), ("wf_3", "moved")}
    assert run("run", "items", run_id, "--state", "refused").out == "no letters\n"
    assert {each["task_id"] for each in run("dlq", "list", "--run", run_id, "--json").json} == {"wf_2", "wf_3"}
    assert run("run", "cancel", run_id).code == 4
    assert run("run", "watch", run_id).code == 0
    again = run("dlq", "archive", "--status", "exhausted", "--yes", "--json")
    assert (again.code, again.json["matched"]) == (0, 0)


def test_the_waves_of_a_run_are_told_before(run: Run) -> None:
    redrive = ("dlq", "redrive", "--all", "--stop-percent", "20")
    for ramp, waves in ((), [1, 5, 25]), (("--ramp", "all"), []), (("--ramp", "2,3,all"), [2, 3]):
        told = run(*redrive, *ramp, "--dry-run")
        assert told.out.endswith(f"in waves of {str(waves)[1:-1]}, then all the others\n") == bool(waves)
        begun = run(*redrive, *ramp, "--yes", "--detach")
        assert run("run", "cancel", begun.out.strip(), "--json").json["ramp"] == waves


def test_a_run_that_is_left_to_the_workers(run: Run) -> None:
    done = run("dlq", "redrive", "--group", group_of(run), "--ramp", "1,5", "--stop-percent", "20", "--yes", "--detach")
    assert done.code == 0, done.err
    run_id = done.out.strip()
    found = run("run", "show", run_id, "--json").json
    assert (found["ramp"], found["stop_percent"], found["verb"]) == ([1, 5], 20, "redrive")
    assert run("run", "pause", run_id, "--reason", "wait", "--json").json["state"] == "paused"
    assert run("run", "watch", run_id).code == 1
    resumed = run("run", "resume", run_id, "--stop-percent", "50", "--json").json
    assert resumed["stop_percent"] == 50 and resumed["state"] in ("planning", "running")
    assert run("run", "cancel", run_id, "--json").json["state"] == "cancelled"
    assert run("run", "list", "--state", "cancelled").out.splitlines()[1].split()[0] == run_id


def halted(run: Run) -> str:
    """A run of one wave in which the first letter fails again."""
    begun = run("dlq", "redrive", "--group", group_of(run), "--ramp", "1", "--stop-percent", "20", "--yes", "--detach")

    async def work() -> None:
        def rates(task: object, repos: object) -> None:
            raise KeyError("EURO")

        clock = ManualClock(SystemClock().now())
        async with DeadLetterQueue(store=open_store("sqlite:///letters.db"), clock=clock) as dlq:
            dlq.processing.callback = rates
            await dlq.runs.advance()
            await dlq.run_due()
            clock.advance(60)
            await dlq.runs.advance()

    asyncio.run(work())
    return begun.out.strip()


def test_a_halted_run_says_what_failed_and_what_to_do(run: Run) -> None:
    run_id = halted(run)
    found = run("run", "show", run_id).out
    assert "state           halted\n" in found and "1 of 1 letters failed again" in found
    assert "wf_1    moved  failed_again  KeyError: 'EURO'\n" in found
    assert found.endswith(
        f"look    mahavishnu run items {run_id} --outcome failed_again\n"
        f"go on   mahavishnu run resume {run_id} --stop-percent 100\n"
        f"end it  mahavishnu run cancel {run_id}\n"
    ), found
    items = run("run", "items", run_id, "--outcome", "failed_again").out.splitlines()
    assert len(items) == 2 and items[1].endswith("  moved  failed_again  KeyError: 'EURO'")
    there = run("run", "--store", "sqlite:///letters.db", "show", run_id).out
    assert f"mahavishnu run --store sqlite:///letters.db cancel {run_id}\n" in there


def test_a_halted_run_does_not_go_on_to_halt_at_once(run: Run) -> None:
    run_id = halted(run)
    for option in ((), ("--stop-percent", "50")):
        refused = run("run", "resume", run_id, *option)
        assert (refused.code, refused.out) == (4, "")
        assert "would halt again at once: 1 of 1 letters failed again, which is more than " in refused.err
        assert "; resume it with stop_percent 100, or cancel it" in refused.err
    assert run("run", "show", run_id, "--json").json["state"] == "halted"
    denied = run("audit", "list", "--action", "run.resume", "--json").json
    assert [entry["outcome"] for entry in denied] == ["refused", "refused"]
    assert run("run", "resume", run_id, "--stop-percent", "100", "--json").json["state"] == "running"


def test_runs_and_groups_may_be_called_by_their_beginnings(run: Run) -> None:
    network = group_of(run)
    short = network.removeprefix("v1:")[:8]
    for name in (short, f"v1:{short}"):
        assert run("group", "show", name, "--json").json["fingerprint"] == network
    assert run("group", "update", short, "--owner", "ann", "--json").json["fingerprint"] == network
    assert run("group", "redrive", short, "--dry-run").out.startswith("3 letters meant")
    several = run("group", "show", "v1:")
    assert several.code == 2 and several.err.count("v1:") == 4 and network in several.err
    run_id = run("dlq", "archive", "--group", network, "--yes", "--detach").out.strip()
    for verb in ("pause", "resume", "show", "items", "cancel", "watch"):
        assert run("run", verb, run_id[:20]).code == (1 if verb == "watch" else 0)
    assert run("run", "show", run_id[1:]).code == 3 and run("run", "show", "").code == 3


def test_a_group_says_what_fails_where_and_what_to_do(run: Run) -> None:
    try:
        dict[str, int]()["EURO"]
    except KeyError as problem:
        kept("sqlite:///letters.db", {"task_id": "o/1", "queue": "mail", "error": problem})
    fingerprint = run("dlq", "list", "--task-id", "o/1", "--json").json[0]["fingerprint"]
    assert run("dlq", "list", "--task-id", "o/1").out.endswith("  KeyError: 'EURO'\n")
    shown = run("group", "show", fingerprint).out
    assert "sample      o/1: KeyError: 'EURO'\n" in shown
    assert f"place       {__file__}:" in shown and " in test_a_group_says_what_fails_where_and_what_to_do: " in shown
    assert shown.endswith(
        "\nlook     mahavishnu dlq show o/1 --queue mail\n"
        f"redrive  mahavishnu group redrive {fingerprint} --ramp 1,5 --stop-percent 20\n"
    )


def test_a_letter_that_succeeded_says_so_and_when(run: Run) -> None:
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


def test_when_a_letter_failed_last_is_shown_where_there_is_room(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    halted(run)
    monkeypatch.setenv("COLUMNS", "200")
    assert "  last failed  " in run("dlq", "list").out
    monkeypatch.setenv("COLUMNS", "110")
    head = run("dlq", "list", "--queue", "default").out.splitlines()[0]
    assert "first failed" in head and "last failed" not in head
    assert "last failed   " in run("dlq", "show", "wf_1").out


def test_changes_are_whole_in_a_pipe(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("dlq", "edit", "wf_5", *(word for number in range(9) for word in ("--set", f"n{number}={'x' * 50}{number}")))
    row = run("audit", "list", "--action", "edit").out.splitlines()[1]
    assert all(f'task/n{number}: "{"x" * 50}{number}"' in row for number in range(9))
    monkeypatch.setenv("COLUMNS", "300")
    assert " more" in run("audit", "list", "--action", "edit").out


def test_groups_of_a_state_are_listed_quiet_or_not(run: Run) -> None:
    disk = group_of(run, "wf_5")
    run("dlq", "resolve", "wf_5")
    run("group", "update", disk, "--state", "resolved")
    assert disk in run("group", "list", "--state", "resolved").out
    assert disk not in run("group", "list").out


def test_ids_and_dates_are_never_broken(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    network = group_of(run)
    run_id = run("dlq", "archive", "--group", network, "--yes", "--detach").out.strip()
    run("dlq", "redrive", "wf_5", "--reason", "because the disk has room again")
    monkeypatch.setenv("COLUMNS", "80")
    for arguments, whole in (
        (("group", "list"), network),
        (("run", "list"), run_id),
        (("run", "show", run_id), run_id),
    ):
        out = run(*arguments).out
        assert whole in out and max(map(len, out.splitlines())) <= 80
        assert all(len(date) == 20 for date in re.findall(r"20\d\d-[\d: Z-]*", out) if date), out


def test_a_bulk_edit(run: Run) -> None:
    done = run("dlq", "edit", "--status", "exhausted", "--set", "n=2", "--yes", "--json")
    assert (done.code, done.json["counts"]["moved"]) == (0, 2), done.err
    assert run("dlq", "show", "wf_2", "--json").json["task"] == {"n": 2}


def test_a_group_is_redriven(run: Run) -> None:
    network = group_of(run)
    dry = run("group", "redrive", network, "--dry-run")
    assert dry.out == "3 letters meant, 3 can be moved (redrive)\n"
    assert run("group", "redrive", network).code == 2
    done = run("group", "redrive", network, "--patch", '{"fixed": true}', "--yes", "--detach", "--json")
    assert (done.code, done.json["patch"]) == (0, {"fixed": True}), done.err


# ------------------------------------------------------------------------------------------------------- in and out


def test_letters_go_from_one_store_into_another(run: Run, home: Path) -> None:
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


def test_an_export_goes_through_a_pipe_and_replaces_what_a_link_means(run: Run, home: Path) -> None:
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


@pytest.mark.parametrize(
    ("path", "why"), [("nowhere/x", "No such file or directory"), (".", "Is a directory"), ("loop", "Too many levels")]
)
def test_an_export_that_cannot_be_written_names_what_was_asked_for(run: Run, home: Path, path: str, why: str) -> None:
    (home / "loop").symlink_to("loop")
    done = run("dlq", "export", "-o", path)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"mahavishnu: {path} cannot be written: {why}") and done.err.count("\n") == 1


def test_what_cannot_be_taken_in_is_named(run: Run) -> None:
    text = run("dlq", "export").out
    done = run("dlq", "--store", "sqlite:///other.db", "import", "-", stdin=f'nonsense\n{text}[1]\n{{"task_id": 5}}\n')
    assert done.code == 1
    assert done.out == "5 new\n"
    assert [line.split(":")[1].strip() for line in done.err.splitlines()] == ["line 1", "line 7", "line 8, 5"]
    junk = '{"task_id": "x"}\n{}\n{"task_id": "y", "status": "odd"}\n'
    done = run("dlq", "import", "-", stdin=junk)
    assert [line.split(":")[1].strip() for line in done.err.splitlines()] == ["line 1, x", "line 2", "line 3, y"]
    assert run("dlq", "import", "-", stdin="").out == "no letters\n"


def test_a_line_that_is_no_text_does_not_keep_the_others_from_it(run: Run, home: Path) -> None:
    lines = run("dlq", "export").out.encode().splitlines()
    (home / "torn.jsonl").write_bytes(b"\r\n".join([b"\xef\xbb\xbf" + lines[0], b"\xff{}", *lines[1:], lines[0]]))
    done = run("dlq", "--store", "sqlite:///other.db", "import", "torn.jsonl")
    assert (done.code, done.out) == (1, "5 new\n")
    assert done.err.startswith("mahavishnu: line 2: this is not UTF-8") and done.err.count("\n") == 1


def test_letters_are_sent_in_portions_that_are_taken(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    text = run("dlq", "export").out
    monkeypatch.setenv("MAHAVISHNU_SERVER__MAX_BODY_BYTES", str(max(map(len, text.splitlines())) + 100))
    assert run("dlq", "--store", "sqlite:///other.db", "import", "-", stdin=text).out == "5 new\n"
    monkeypatch.setenv("MAHAVISHNU_SERVER__MAX_BODY_BYTES", "1024")
    large = run("dlq", "import", "-", stdin="\n" + json.dumps({"task_id": "x" * 2000}))
    assert large.code == 2 and large.err.startswith("mahavishnu: line 2: ")


def test_watching_ends_by_itself(run: Run) -> None:
    assert run("dlq", "redrive", "wf_2").code == 0  # what has just changed is told
    done = run("dlq", "watch", "--lines", "1", "--seconds", "30", "--json")
    assert done.code == 0, done.err
    assert (done.json["event"], done.json["task_id"]) == ("letter", "wf_2")
    assert run("dlq", "watch", "--seconds", "0").out == ""


# ------------------------------------------------------------------------------------------------ stores that are away


def test_a_store_that_is_away_is_told_in_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAHAVISHNU_DLQ_LOCAL_URL", "none")
    done = run("dlq", "--store", "opensearch://127.0.0.1:9", "list")
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert done.err.startswith("mahavishnu: OpenSearch at http://127.0.0.1:9 cannot be reached")


def test_letters_that_are_kept_locally_are_shown_as_that(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAHAVISHNU_DLQ_LOCAL_URL", "sqlite:///local.db")
    done = run("dlq", "--store", "opensearch://127.0.0.1:9", "list")
    assert (done.code, done.out) == (0, "no letters\n")
    assert done.err.startswith("degraded: ") and done.err.endswith("\nasked: opensearch://127.0.0.1:9\n")


def test_a_server_that_is_not_there(run: Run) -> None:
    done = run("dlq", "--server", "127.0.0.1:9", "list")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("mahavishnu: there is no server at http://127.0.0.1:9") and done.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("dlq", "list"), ("dlq", "show", "x"), ("dlq", "stats"), ("dlq", "export"), ("dlq", "watch", "--seconds", "0"),
        ("dlq", "redrive", "x"), ("dlq", "reclassify"), ("group", "list"), ("run", "list"), ("audit", "list"),
    ],
)  # fmt: skip
def test_a_file_that_is_not_there_is_no_empty_store(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    there = home / "nodir" / "x.db"
    told = f"mahavishnu: there is no store {there}: look at {{}}; the first failure that is kept makes it\n"
    group, *rest = arguments
    done = run(group, "--store", f"sqlite:///{there}", *rest)
    assert (done.code, done.out, done.err) == (1, "", told.format("--store"))
    monkeypatch.setenv("MAHAVISHNU_DLQ_STORE_URL", f"sqlite:///{there}")
    assert run(*arguments).err == told.format("dlq_store_url")
    assert not there.parent.exists()


def test_an_empty_list_says_who_was_asked(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("dlq", "list", "--queue", "nowhere").err == "asked: sqlite:///letters.db\n"
    monkeypatch.delenv("MAHAVISHNU_DLQ_STORE_URL")  # the user's own, which may be new
    for arguments in (("dlq", "list"), ("group", "list"), ("run", "list"), ("audit", "list")):
        done = run(*arguments)
        assert (done.code, done.err) == (0, f"asked: sqlite:///{home.parent}/state/mahavishnu/letters.db\n")


def test_a_file_that_is_no_store(run: Run, home: Path) -> None:
    (home / "torn.db").write_text("this is no database, but it is long enough to be looked at" * 20)
    done = run("dlq", "--store", "sqlite:///torn.db", "list")
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)


# -------------------------------------------------------------------------------------------------------- small things


@pytest.mark.parametrize("text", ["2h", "1d12h", "1.5h", "30m", "2026-01-01", "2026-01-01T10:00+02:00"])
def test_moments(text: str) -> None:
    assert instant_from(text, "--since")


@pytest.mark.parametrize("text", ["2", "h", "-2h", "2 h", "2x", "soon", "2026-13-01"])
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(InvalidInput, match="--since"):
        instant_from(text, "--since")


def test_half_a_character_and_what_a_terminal_obeys_are_escaped_in_json(run: Run) -> None:
    kept("sqlite:///letters.db", {"task_id": "half", "task": {"half": "\ud83d", "csi": "\x9b2J"}})
    done = run("dlq", "show", "half", "--json")
    assert done.json["task"] == {"half": "\ud83d", "csi": "\x9b2J"}
    assert "\x9b" not in done.out


@pytest.mark.parametrize("task", ["stats", "..", "a/.."])
def test_a_task_may_be_called_like_a_part_of_the_api(run: Run, task: str) -> None:
    kept("sqlite:///letters.db", {"task_id": task, "max_retries": 0})
    assert run("dlq", "show", task, "--json").json["task_id"] == task
    assert run("dlq", "edit", task, "--set", "n=2").out.endswith(f"\n{task}: exhausted, revision 1\n")
    assert len(run("dlq", "revisions", task, "--json").json) == 1
    assert run("dlq", "redrive", task).code == 0
    assert "no callback is registered" in run("dlq", "retry", task).err
    assert run("dlq", "requeue", task).code == 0
    assert run("dlq", "resolve", task).out.startswith(f"{task}: ")
    assert run("dlq", "archive", task, "--json").json[0]["status"] == "archived"


def test_regroup_is_dry_unless_told_and_takes_along_what_was_said(run: Run) -> None:
    async def misplaced() -> None:
        async with DeadLetterQueue(store=open_store("sqlite:///letters.db")) as dlq:
            letter = await dlq.get_task("wf_1")
            assert letter is not None
            await dlq.context.letters.write([lifecycle.regroup(letter, now=letter.updated_at, fingerprint="old")])
            await dlq.groups.update("old", by="bob", owner="bob")

    asyncio.run(misplaced())
    dry = {"dry_run": True, "changed": ["wf_1"], "refused": {}, "degraded": None}
    assert run("group", "regroup", "--json").json == dry
    assert run("group", "regroup", "another").out == "0 letters would be grouped otherwise; --apply does it\n"
    assert run("group", "regroup", "old", "another", "--apply").out == "wf_1\n1 letter grouped otherwise\n"
    fingerprint = run("dlq", "show", "wf_1", "--json").json["fingerprint"]
    assert fingerprint == run("dlq", "show", "wf_2", "--json").json["fingerprint"]
    assert run("group", "show", fingerprint, "--json").json["owner"] == "bob"
    assert run("audit", "list", "--action", "regroup", "--json").json[0]["actor"] == "ann"
    assert run("group", "regroup", "--server", "http://localhost:1").code == 2
