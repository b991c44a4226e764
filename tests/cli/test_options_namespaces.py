"""`--namespace` and `--all-namespaces`, on every command that is about letters."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

from mahavishnu.core.commands import COMMANDS, function_of
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.engine.context import QueueOptions
from mahavishnu.stores.urls import open_store
from tests.support.command_line import Run

STORE = "sqlite:///letters.db"


@pytest.fixture(autouse=True)
def letters(home: Path, settings_file: Callable[[str], Path]) -> None:
    """Those of two apps with the same task id; the settings are those of red."""
    settings_file(f"dlq_store_url: {STORE}\ndlq_namespace: red\n")

    async def keep() -> None:
        for namespace, names in (("red", ["same"]), ("blue", ["same", "b"])):
            options = QueueOptions(namespace=namespace)
            async with DeadLetterQueue(store=open_store(STORE), options=options) as dlq:
                for name in names:
                    await dlq.enqueue(name, {"n": 1}, [], f"no {namespace} left")

    asyncio.run(keep())


def test_every_command_about_letters_has_them(run: Run) -> None:
    told = run("run", "show", "--help").out
    assert "--namespace" in told
    assert "--all-namespaces" in told
    for command in COMMANDS:
        takes = inspect.signature(function_of(command)).parameters
        about_letters = command.group not in ("config", "plugins") and command.name not in ("doctor", "namespaces")
        assert ({"namespace", "all_namespaces"} <= takes.keys()) == about_letters, command


def seen(run: Run, *words: str) -> list[str]:
    done = run(*words, "--json")
    assert done.code == 0, done.err
    return sorted(each["namespace"] for each in done.json)


def test_a_list_is_about_the_apps_own_or_a_named_one_or_all(run: Run) -> None:
    assert seen(run, "dlq", "list") == ["red"]
    assert seen(run, "dlq", "list", "--namespace", "blue") == ["blue", "blue"]
    assert seen(run, "dlq", "list", "--namespace", "blue", "--namespace", "red") == ["blue", "blue", "red"]
    assert seen(run, "dlq", "list", "--all-namespaces") == ["blue", "blue", "red"]
    assert seen(run, "group", "list", "--all-namespaces") == ["blue", "red"]
    assert run("dlq", "stats", "--json").json["queue_size"] == 1
    assert run("dlq", "stats", "--all-namespaces", "--json").json["queue_size"] == 3
    assert run("dlq", "stats", "--all-namespaces").out.split("\n")[0].split() == ["open", "letters", "3"]
    both = run("dlq", "list", "--namespace", "blue", "--all-namespaces")
    assert (both.code, "not both" in both.err) == (2, True)


def test_the_namespaces_are_listed_with_what_is_open_in_each(run: Run) -> None:
    assert run("dlq", "resolve", "same").code == 0
    assert [line.split() for line in run("dlq", "namespaces").out.splitlines()[1:]] == [
        ["blue", "2", "0"],
        ["red", "0", "0"],
    ]
    listed = run("dlq", "namespaces", "--json").json
    assert [(each["name"], each["open"]) for each in listed] == [("blue", 2), ("red", 0)]


def test_what_waits_in_a_named_queue_is_no_letter_of_all_namespaces(run: Run) -> None:
    assert run("queue", "create", "jobs").code == 0
    assert run("queue", "push", "jobs", '{"n": 1}').code == 0
    assert seen(run, "dlq", "list", "--all-namespaces") == ["blue", "blue", "red"]
    assert run("dlq", "stats", "--all-namespaces", "--json").json["queue_size"] == 3
    assert seen(run, "dlq", "list", "--namespace", "red@jobs") == ["red@jobs"]


def test_one_letter_of_a_named_one(run: Run) -> None:
    assert run("dlq", "show", "b", "--namespace", "blue", "--json").json["namespace"] == "blue"
    missing = run("dlq", "show", "b")
    assert (missing.code, "there is one with --namespace blue" in missing.err) == (3, True)
    assert run("dlq", "show", "b", "--all-namespaces", "--json").json["namespace"] == "blue"
    assert "name one" in run("dlq", "show", "same", "--all-namespaces").err


def test_a_group_of_several_ones_is_listed_whole(run: Run) -> None:
    async def keep() -> None:
        for name in ("red", "blue", "green"):
            async with DeadLetterQueue(store=open_store(STORE), options=QueueOptions(namespace=name)) as dlq:
                await dlq.enqueue("table", {"n": 1}, [], "no such table")

    asyncio.run(keep())
    (group,) = {each["fingerprint"] for each in run("group", "list", "--namespace", "green", "--json").json}
    for named in (group, group[:12]):
        assert seen(run, "dlq", "list", "--group", named, "--all-namespaces") == ["blue", "green", "red"]
        assert run("dlq", "export", "--group", named, "--all-namespaces").out.count("no such table") >= 3
    assert "in several namespaces, blue, green, red: name one" in run("group", "show", group, "--all-namespaces").err
    assert run("dlq", "list", "--group", "v1:none", "--all-namespaces").code == 3


def test_a_task_that_is_not_here_is_said_to_be_where_it_is(run: Run) -> None:
    told = run("dlq", "show", "same", "--namespace", "green").err
    assert "--namespace blue" in told and "--namespace red" in told


def test_what_changes_letters_is_about_one(run: Run) -> None:
    assert run("dlq", "resolve", "same", "--namespace", "blue").code == 0
    assert seen(run, "dlq", "list", "--all-namespaces") == ["blue", "red"]
    assert run("dlq", "archive", "--all", "--namespace", "blue", "--yes").code == 0
    assert seen(run, "dlq", "list", "--all-namespaces") == ["red"]
    assert seen(run, "run", "list") == []
    assert seen(run, "run", "list", "--all-namespaces") == ["blue"]
    assert set(seen(run, "audit", "list", "--namespace", "blue")) == {"blue"}
    assert run("dlq", "clear", "--yes", "--all-namespaces").code != 0
    assert run("dlq", "resolve", "same", "--all-namespaces").code != 0
    assert seen(run, "dlq", "list", "--all-namespaces") == ["red"]


def test_clearing_is_about_one(run: Run) -> None:
    assert run("dlq", "clear", "--yes").code == 0
    assert seen(run, "dlq", "list", "--all-namespaces") == ["blue", "blue"]
    assert run("dlq", "clear", "--yes", "--namespace", "blue").code == 0
    assert seen(run, "dlq", "list", "--all-namespaces") == []


def test_letters_are_brought_into_another_one(run: Run, home: Path) -> None:
    exported = run("dlq", "export")
    (home / "some.ndjson").write_text(exported.out)
    assert run("dlq", "import", "some.ndjson", "--namespace", "green").code == 0
    assert seen(run, "dlq", "list", "--all-namespaces") == ["blue", "blue", "green", "red"]
    assert run("dlq", "import", "some.ndjson").code == 0
    assert seen(run, "dlq", "list", "--all-namespaces") == ["blue", "blue", "green", "red"]


def test_a_command_that_is_proposed_says_where(run: Run) -> None:
    shown = run("group", "list", "--namespace", "blue", "--json").json[0]["fingerprint"]
    told = run("group", "show", shown, "--namespace", "blue").out
    assert "--namespace blue" in told


def test_what_is_no_name_is_refused_as_what_was_given(run: Run) -> None:
    refused = run("dlq", "list", "--namespace", "a/b")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == "mahavishnu: namespace 'a/b' must have 1 to 200 characters, and no '/' in it\n"
