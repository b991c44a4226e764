"""`mahavishnu run`, and the bulk verbs of `mahavishnu dlq`."""

from __future__ import annotations

import asyncio
import re

import pytest

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model.clock import SystemClock
from mahavishnu.stores.urls import open_store
from mahavishnu.testing import ManualClock
from tests.support.command_line import Run, group_of

pytestmark = pytest.mark.usefixtures("letters")


def test_a_dry_run_previews_a_bulk_run(run: Run) -> None:
    run("dlq", "resolve", "wf_1")
    done = run("dlq", "resolve", "--category", "network", "--dry-run")
    assert done.code == 0
    assert done.out.splitlines()[0] == "3 letters meant, 2 can be moved (resolve)"
    assert done.out.splitlines()[1].startswith("  1: ")
    seen = run("dlq", "resolve", "--category", "network", "--dry-run", "--json").json
    assert (seen["matched"], seen["eligible"], sum(seen["ineligible"].values())) == (3, 2, 1)
    assert run("run", "list", "--json").json == []


def test_a_bulk_run_on_a_local_store_is_worked_on_here(run: Run) -> None:
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


def test_a_preview_shows_the_waves(run: Run) -> None:
    redrive = ("dlq", "redrive", "--all", "--stop-percent", "20")
    for ramp, waves in ((), [1, 5, 25]), (("--ramp", "all"), []), (("--ramp", "2,3,all"), [2, 3]):
        told = run(*redrive, *ramp, "--dry-run")
        assert told.out.endswith(f"in waves of {str(waves)[1:-1]}, then all the others\n") == bool(waves)
        begun = run(*redrive, *ramp, "--yes", "--detach")
        assert run("run", "cancel", begun.out.strip(), "--json").json["ramp"] == waves


def test_a_detached_run_can_be_paused_resumed_and_cancelled(run: Run) -> None:
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


def test_a_halted_run_shows_what_failed_and_what_to_do(run: Run) -> None:
    run_id = halted(run)
    found = run("run", "show", run_id).out
    assert "state           halted\n" in found and "1 of 1 letters failed again" in found
    assert "wf_1    moved  failed_again  KeyError: 'EURO'\n" in found
    assert found.endswith(
        f"look      mahavishnu run items {run_id} --outcome failed_again\n"
        f"end it    mahavishnu run cancel {run_id}\n"
        f"then fix  mahavishnu dlq edit --run {run_id} --open --set PATH=VALUE --redrive\n"
        f"or go on  mahavishnu run resume {run_id} --stop-percent 100\n"
    ), found
    items = run("run", "items", run_id, "--outcome", "failed_again").out.splitlines()
    assert len(items) == 2 and items[1].endswith("  moved  failed_again  KeyError: 'EURO'")
    there = run("run", "--store", "sqlite:///letters.db", "show", run_id).out
    assert f"mahavishnu run --store sqlite:///letters.db cancel {run_id}\n" in there
    assert run("dlq", "edit", "--run", run_id, "--open", "--set", "n=2", "--redrive", "--dry-run").code == 0


def test_what_a_cancelled_run_has_not_moved_waits_for_nothing(run: Run) -> None:
    run_id = halted(run)
    assert "\nwaiting         2\n" in run("run", "show", run_id).out
    cancelled = run("run", "cancel", run_id).out
    assert "\nleft alone      2\n" in cancelled and "waiting" not in cancelled
    items = run("run", "items", run_id).out
    assert items.count("  left alone  ") == 2 and "waiting" not in items
    assert len(run("run", "items", run_id, "--state", "waiting", "--json").json) == 2


def test_a_halted_run_is_not_resumed_into_the_same_halt(run: Run) -> None:
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


def test_ids_of_runs_and_groups_may_be_shortened(run: Run) -> None:
    network = group_of(run)
    short = network.removeprefix("v2:")[:8]
    for name in (short, f"v2:{short}"):
        assert run("group", "show", name, "--json").json["fingerprint"] == network
    assert run("group", "update", short, "--owner", "ann", "--json").json["fingerprint"] == network
    assert run("group", "redrive", short, "--dry-run").out.startswith("3 letters meant")
    several = run("group", "show", "v2:")
    assert several.code == 2 and several.err.count("v2:") == 4 and network in several.err
    run_id = run("dlq", "archive", "--group", network, "--yes", "--detach").out.strip()
    for verb in ("pause", "resume", "show", "items", "cancel", "watch"):
        assert run("run", verb, run_id[:20]).code == (1 if verb == "watch" else 0)
    assert run("run", "show", run_id[1:]).code == 3 and run("run", "show", "").code == 3


def test_ids_and_dates_are_never_wrapped(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
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
