"""Verb × role × scope of the command line, on a real server: denials are written down and change nothing."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from mahavishnu.core.commands import COMMANDS, GROUPS, app
from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.model.clock import SystemClock
from mahavishnu.model.permissions import Permission
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.tasks.service import Lifecycle
from mahavishnu.testing import ManualClock
from tests.support.server import served

RETRY, EDIT, DELETE, CONFIGURE = Permission.RETRY, Permission.EDIT, Permission.DELETE, Permission.CONFIGURE
PAYLOAD = Permission.VIEW_PAYLOAD
# What each command needs that changes something or shows payloads, and how it is called; {…} are of `fill`.
CHANGES: Mapping[str, tuple[Permission, str]] = {
    **{f"dlq {verb}": (RETRY, f"dlq {verb} o-1") for verb in ("retry", "redrive", "resurrect", "requeue")},
    **{f"dlq {verb}": (EDIT, f"dlq {verb} o-1") for verb in ("resolve", "fail", "cancel", "archive")},
    "dlq edit": (EDIT, "dlq edit o-1 --set n=2"),
    "dlq restore": (EDIT, "dlq restore o-1 --revision 0"),
    "dlq encrypt": (CONFIGURE, "dlq encrypt --apply"),
    "dlq reveal": (PAYLOAD, "dlq reveal o-1"),
    "dlq revisions": (PAYLOAD, "dlq revisions o-1"),
    "dlq export": (PAYLOAD, "dlq export"),
    "dlq import": (EDIT, "dlq import lines.jsonl"),
    "dlq clear": (DELETE, "dlq clear --yes"),
    "dlq delete": (DELETE, "dlq delete o-1 --yes"),
    "group update": (EDIT, "group update {group} --note seen"),
    "group redrive": (RETRY, "group redrive {group} --yes"),
    "group release": (EDIT, "group release v7"),
    "run pause": (RETRY, "run pause {run}"),
    "run resume": (RETRY, "run resume {paused}"),
    "run cancel": (RETRY, "run cancel {run}"),
    "queue create": (EDIT, "queue create more"),
    "queue update": (EDIT, "queue update items --lease 90s"),
    "queue delete": (DELETE, "queue delete spare"),
    "queue push": (EDIT, "queue push items {{}}"),
    "queue lease": (RETRY, "queue lease items --worker w2"),
    "queue ack": (RETRY, "queue ack items {leased} --token {token}"),
    "queue fail": (RETRY, "queue fail items {leased} --token {token}"),
    "queue retry": (RETRY, "queue retry dead {dead}"),
    "queue drop": (DELETE, "queue drop items {item}"),
    "queue redrive": (RETRY, "queue redrive dead --all"),
    "archive run": (EDIT, "archive run --apply"),
    "archive show": (PAYLOAD, "archive show {archived}"),
    "archive export": (EDIT, "archive export"),
    "archive restore": (EDIT, "archive restore {archived}"),
    "archive detach": (CONFIGURE, "archive detach {month}"),
    "archive attach": (CONFIGURE, "archive attach {month}"),
    "archive drop": (CONFIGURE, "archive drop {month} --yes"),
    "adapter limit": (EDIT, "adapter limit orders --concurrency 3"),
    "task move": (EDIT, "task move {task}"),
    "task detect": (EDIT, "task detect --apply"),
    "event list": (PAYLOAD, "event list"),
    "event ack": (EDIT, "event ack reader 1"),
    "view save": (EDIT, "view save mine adapter:orders"),
    "view delete": (EDIT, "view delete old"),
}
# The others show what every viewer may see, or work in their own process and on its store.
SHOW = {
    "dlq list", "dlq show", "dlq stats", "dlq status", "dlq dashboard", "dlq watch", "group list", "group show",
    "run list", "run show", "run items", "run watch", "queue list", "queue show", "queue items", "archive list",
    "archive search", "archive partitions", "task list", "task show", "view list", "alert list", "alert rules",
    "archive tasks", "audit list", "worker list", "adapter list", "dlq namespaces",
}  # fmt: skip
LOCAL = {
    "config show", "config check", "config new-key", "plugins list", "plugins check", "plugins disable",
    "plugins enable", "dlq doctor", "dlq drain", "dlq reclassify", "group regroup", "alert test", "classify",
    "worker", "serve", "demo",
}  # fmt: skip
SHARED = {"view save", "view delete"}  # by all who see a part of the namespace
PEOPLE: Mapping[str, tuple[str, dict[str, list[str]]]] = {
    "viewer": ("viewers", {}),
    "retrier": ("operators", {"permissions": ["view", "retry"]}),
    "editor": ("operators", {"permissions": ["view", "edit"]}),
    "deleter": ("admins", {"permissions": ["view", "delete"]}),
    "elsewhere": ("admins", {"namespaces": ["elsewhere"]}),
    "queues": ("admins", {"queues": ["elsewhere"]}),
    "adapters": ("admins", {"adapters": ["elsewhere"]}),
}
MAY = {"viewer": {PAYLOAD}, "retrier": {RETRY}, "editor": {EDIT}, "deleter": {DELETE}}


def test_every_command_is_named_here() -> None:
    there = {f"{each.group} {each.name}" for each in COMMANDS} | {each.name for each in GROUPS if each.target}
    named = CHANGES.keys() | SHOW | LOCAL
    assert there - named == set(), "say in CHANGES what they need, or that they SHOW something, or are LOCAL"
    assert named - there == set()


async def fill(store: str) -> dict[str, str]:
    """One of everything that commands are about."""
    clock = ManualClock(SystemClock().now() - timedelta(days=32))  # the server goes by the real one
    async with DeadLetterQueue(store=SQLiteStore(store, kinds=KINDS), clock=clock) as dlq:
        await dlq.enqueue("old-1", {"n": 1}, [], "connection refused", adapter="orders")
        await dlq.letters.resolve("old-1", by="eve")
        clock.advance(timedelta(days=31))
        await dlq.archive.run(dry_run=False)
        (archived,) = (await dlq.archive.search()).items
        await dlq.enqueue("o-1", {"n": 1}, [], "no such file", adapter="orders")
        letter = await dlq.letters.edit("o-1", priority=3, by="eve")
        runs = [await dlq.runs.start("redrive", everything=True, by="eve") for _ in range(2)]
        for each in runs:
            await dlq.runs.pause(each.run_id, by="eve")  # or the server would go on with them
        for name in ("dead", "spare", "items"):
            await dlq.queues.create(name, by="eve")
        ids = {}
        for name, queue in (("leased", "items"), ("item", "items"), ("dead", "dead")):
            ids[name] = (await dlq.queues.produce(queue, {"n": 1})).id
        (lease,) = await dlq.queues.lease("dead", "w1")
        await dlq.queues.retry("dead", lease.item.id, lease.token, dead=True)
        (lease,) = await dlq.queues.lease("items", "w1", lease_seconds=80_000)
        task = await Lifecycle(dlq.context).create("import", {"n": 1})
        await dlq.views.save("old", "adapter:orders", by="eve")
        return {
            **ids, "token": lease.token, "leased": lease.item.id, "group": str(letter.fingerprint),
            "run": runs[0].run_id, "paused": runs[1].run_id, "task": task.task_id,
            "archived": archived.copy.entry_id, "month": archived.partition,
        }  # fmt: skip


class Shell:
    """What somebody can type, and what is kept afterwards."""

    def __init__(self, url: str, database: Path, known: Mapping[str, str]) -> None:
        self.url, self.database, self.known = url, database, known

    def __call__(self, who: str, line: str) -> Result:
        environment = {"MAHAVISHNU_SERVER": self.url, "MAHAVISHNU_TOKEN": f"token-of-{who}", "MAHAVISHNU_USER": who}
        return CliRunner().invoke(app, line.format_map(self.known).split(), env=environment, prog_name="mahavishnu")

    def records(self) -> dict[str, list[object]]:
        """What is kept, apart from the audit, remembered answers, signs of life, and what is derived from records."""
        with sqlite3.connect(self.database) as file:
            tables = [name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            kept = [
                name for name in tables if not any(part in name for part in ("audit", "replies", "workers", "#", "."))
            ]
            return {name: file.execute(f'SELECT * FROM "{name}"').fetchall() for name in kept}

    def denials(self, who: str) -> int:
        with sqlite3.connect(self.database) as file:
            return sum(row == (who, "denied") for row in file.execute("SELECT actor, action FROM audit"))


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    folder = tmp_path_factory.mktemp("served")
    database = folder / "letters.db"
    known = asyncio.run(fill(str(database)))
    people: dict[str, dict[str, str]] = {"viewers": {}, "operators": {}, "admins": {"root": "token-of-root"}}
    for who, (role, _) in PEOPLE.items():
        people[role][who] = f"token-of-{who}"
    settings = {f"SERVER__{role.upper()}": json.dumps(tokens) for role, tokens in people.items()}
    settings["SERVER__LIMITS"] = json.dumps({who: limit for who, (_, limit) in PEOPLE.items() if limit})
    with served(f"sqlite:///{database}", folder, **settings) as server:
        shell = Shell(server.url, database, known)
        seen: list[object] = []
        while len(seen) < 10 or seen[-10] != seen[-1]:  # what a server does when it starts is done
            shell("root", "dlq stats")
            seen.append(shell.records())
        yield shell


@pytest.mark.prove
@pytest.mark.parametrize("who", PEOPLE)
def test_commands_are_refused_to_who_may_not(
    shell: Shell, who: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lines.jsonl").write_text("{}\n")
    wrong = []
    for name, (needed, line) in CHANGES.items():
        if needed in MAY.get(who, ()) or (who in ("queues", "adapters") and name in SHARED):
            continue
        before, told = shell.records(), shell.denials(who)
        done = shell(who, line)
        refused = "needs the" in done.stderr or "outside of the scope" in done.stderr or " sees " in done.stderr
        changed = [table for table, rows in shell.records().items() if rows != before.get(table)]
        if changed or (shell.denials(who) > told) is not refused or (who in MAY and not refused):
            wrong.append((name, done.exit_code, done.output.strip()[-150:], changed))
    assert not wrong, "\n".join(map(str, wrong))
