"""`mahavishnu group`."""

from __future__ import annotations

import asyncio

import pytest

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model import lifecycle
from mahavishnu.stores.urls import open_store
from tests.support.command_line import Run, group_of, kept

pytestmark = pytest.mark.usefixtures("letters")
GROUPS = """\
fingerprint              state  open  last hour  last day  last seen             owner  cause
{network}  new    3     0          0         2026-01-01 12:00:00Z  -      connection refused
"""


def test_groups_are_listed_and_shown(run: Run) -> None:
    network = group_of(run)
    done = run("group", "list", "--limit", "1")
    assert done.out == GROUPS.format(network=network)
    assert run("group", "list", "--json").json[0]["fingerprint"] == network
    shown = run("group", "show", network)
    assert shown.out.splitlines()[:2] == [f"group       {network}", "cause       connection refused"]
    assert run("group", "show", "v1:none").code == 3


def test_a_group_is_updated_and_the_audit_says_who_did_it(run: Run) -> None:
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


def test_a_group_shows_what_fails_where_and_what_to_do(run: Run) -> None:
    try:
        dict[str, int]()["EURO"]
    except KeyError as problem:
        kept("sqlite:///letters.db", {"task_id": "o/1", "queue": "mail", "error": problem})
    fingerprint = run("dlq", "list", "--task-id", "o/1", "--json").json[0]["fingerprint"]
    assert run("dlq", "list", "--task-id", "o/1").out.endswith("  KeyError: 'EURO'\n")
    shown = run("group", "show", fingerprint).out
    assert "sample      o/1: KeyError: 'EURO'\n" in shown
    assert f"place       {__file__}:" in shown and " in test_a_group_shows_what_fails_where_and_what_to_do: " in shown
    assert shown.endswith(
        "\nlook     mahavishnu dlq show o/1 --queue mail\n"
        f"redrive  mahavishnu group redrive {fingerprint} --ramp 1,5 --stop-percent 20\n"
    )


def test_groups_of_a_state_are_listed_quiet_or_not(run: Run) -> None:
    disk = group_of(run, "wf_5")
    run("dlq", "resolve", "wf_5")
    run("group", "update", disk, "--state", "resolved")
    assert disk in run("group", "list", "--state", "resolved").out
    assert disk not in run("group", "list").out


def test_a_group_is_redriven_as_a_bulk_run(run: Run) -> None:
    network = group_of(run)
    dry = run("group", "redrive", network, "--dry-run")
    assert dry.out == "3 letters meant, 3 can be moved (redrive)\n"
    assert run("group", "redrive", network).code == 2
    done = run("group", "redrive", network, "--patch", '{"fixed": true}', "--create", "--yes", "--detach", "--json")
    assert (done.code, done.json["patch"]) == (0, {"fixed": True}), done.err


def test_regroup_is_dry_without_apply_and_moves_what_people_recorded(run: Run) -> None:
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
