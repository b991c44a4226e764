"""Every command, run against a server by six principals: it asks the routes with its token, and decides nothing."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest
from httpx import ASGITransport, AsyncClient

from mahavishnu.core.api import create_app
from mahavishnu.core.commands import COMMANDS
from tests.support.command_line import Run
from tests.support.permission_matrix import (
    EDIT,
    METHODS,
    PRINCIPALS,
    VIEW,
    About,
    Outcome,
    Row,
    changes,
    expect,
    filled,
    make_access,
    records_of,
    shared_world,
    sides_of,
    surface_row,
    target_of,
)

SEEN, TASK = surface_row(VIEW, About.SEEN), surface_row(VIEW, About.LETTER)
LETTER = "{id} --queue {queue}"
# For each command the method that it comes to, or what it needs; and its words with what there is.
CALLS: dict[str, tuple[str | Row, str]] = {
    "dlq list": ("letters.find", ""),
    "dlq show": ("dlq.get_task", LETTER),
    "dlq revisions": ("letters.revisions", LETTER),
    "dlq restore": ("letters.restore", LETTER),
    "dlq stats": ("dlq.get_statistics", ""),
    "dlq retry": ("dlq.retry_task", LETTER),
    **{f"dlq {verb}": (f"letters.{verb}", LETTER) for verb in (
        "redrive", "resolve", "fail", "cancel", "archive", "resurrect", "reveal")},
    "dlq edit": ("letters.edit", f"{LETTER} --priority 7"),
    "dlq clear": ("dlq.clear_all", "--yes"),
    "dlq export": ("transfer.export", ""),
    "dlq import": ("transfer.import_letters", "letters.jsonl"),
    "dlq requeue": ("requeues.requeue", LETTER),
    "dlq status": ("dlq.get_statistics", ""),
    "dlq delete": ("deletion.delete_task", f"{LETTER} --yes"),
    "dlq dashboard": ("dlq.get_statistics_by_reason", ""),
    "dlq doctor": (surface_row(VIEW, About.STORE), ""),
    "dlq namespaces": ("search.namespaces", ""),
    "dlq encrypt": ("encryption.renew", ""),
    "group list": ("groups.list", ""),
    "group show": ("groups.get", "{fingerprint}"),
    "group update": ("groups.update", "{fingerprint} --note seen"),
    "group redrive": (TASK, "{fingerprint} --dry-run"),
    "group release": ("groups.release_hold", "1.0"),
    "run list": ("runs.list", ""),
    "run show": ("runs.get", "{run}"),
    "run items": ("runs.items", "{run}"),
    **{f"run {verb}": (f"runs.{verb}", "{run}") for verb in ("pause", "resume", "cancel")},
    "queue list": ("queues.list", ""),
    "queue show": ("queues.get", "{named}"),
    "queue create": ("queues.create", "fresh"),
    "queue update": ("queues.update", "{named} --max-attempts 5"),
    "queue delete": ("queues.delete", "{named} --force"),
    "queue push": ("queues.produce", "{named} 1"),
    "queue items": ("queues.items", "{named}"),
    "queue lease": ("queues.lease", "{named}"),
    "queue ack": ("queues.complete", "{named} {leased_item} --token {leased_token}"),
    "queue fail": ("queues.retry", "{named} {leased_item} --token {leased_token}"),
    "queue retry": ("queues.resurrect", "{named} {item}"),
    "queue drop": ("queues.drop", "{named} {item}"),
    "queue redrive": ("queues.redrive", "{named} --all --to {named}-dead"),
    "archive run": ("archive.run", "--apply"),
    "archive list": ("archive.list", ""),
    "archive search": ("archive.search", ""),
    "archive tasks": ("archive.search_tasks", ""),
    "archive show": ("archive.show", "{archived}"),
    "archive export": ("archive.begin_export", ""),
    "archive restore": ("archive.restore", "{archived}"),
    "archive partitions": ("archive.partitions", ""),
    **{f"archive {verb}": (f"archive.{verb}", "{partition}") for verb in ("detach", "attach")},
    "archive drop": ("archive.drop", "{partition} --yes"),
    "task list": (SEEN, "--state all"),
    "task show": (TASK, "{task}"),
    "task move": (surface_row(EDIT, About.LETTER), "{task}"),
    "task detect": (surface_row(EDIT, About.NAMESPACE), "--apply"),
    "event list": ("domain_events.read", ""),
    "event ack": ("domain_events.acknowledge", "c 1"),
    "view list": ("views.list", ""),
    "view save": ("views.save", "new status:pending"),
    "view delete": ("views.delete", "own"),
    "alert list": ("alerts.list", ""),
    "alert rules": ("alerts.rules", ""),
    "alert test": ("alerts.test", ""),
    "audit list": ("audit.list", "--limit 1000"),
    "worker list": ("workers.list", ""),
    "adapter list": ("adapter_limits.list", ""),
    "adapter limit": ("adapter_limits.limit", "billing --concurrency 3"),
}  # fmt: skip
# About this machine's settings, files and plugins, which no server knows; and two that do not end.
LOCAL = {
    *("dlq reclassify", "group regroup", "dlq drain", "config show", "config check", "config new-key"),
    *("plugins list", "plugins check", "plugins disable", "plugins enable"),
}
ENDLESS = {"dlq watch", "run watch"}
ACCESS = make_access()


def test_every_command_is_declared() -> None:
    assert {f"{each.group} {each.name}" for each in COMMANDS} == {*CALLS, *LOCAL, *ENDLESS}


@pytest.mark.parametrize("command", CALLS)
def test_a_command_does_what_the_matrix_says(
    run: Run, home: object, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    world, (called, words), wrong = asyncio.run(shared_world()), CALLS[command], []
    group, verb = command.split()
    row = METHODS[called] if isinstance(called, str) else called
    Path("letters.jsonl").write_text(world.line + "\n", encoding="utf-8")
    for name, who in PRINCIPALS.items():
        for inside in sides_of(who):
            it, dlq = target_of(world, name, inside=inside), world.copy()
            before = records_of(dlq)
            server = ASGITransport(create_app(dlq, access=ACCESS))
            with monkeypatch.context() as patched:
                patched.setattr(
                    "mahavishnu.cli.http_transport.httpx.AsyncClient", partial(AsyncClient, transport=server)
                )
                patched.setenv("MAHAVISHNU_TOKEN", f"token-of-{name}")
                done = run(group, "--server", "http://localhost", verb, *filled(words, it, world).split())
            problems = []
            if done.code == 0:
                outcome = Outcome.DONE
            elif done.code == 3:
                outcome = Outcome.ABSENT
            elif "needs the " in done.err or "of the scope" in done.err or "is about " in done.err:
                outcome = Outcome.DENIED
            else:
                outcome = Outcome.DONE
                if done.code == 2 and not row.unfit:
                    problems.append(f"ends with {done.code}: {done.err:.300}")
            problems += changes(world, name, before, records_of(dlq), outcome)
            expected = expect(row, who, inside=inside) | ({Outcome.DENIED} if "needs the role" in done.err else set())
            if outcome not in expected:
                problems.append(f"ends with {done.code}, not {' or '.join(sorted(expected))}: {done.err:.200}")
            if "hush zebra" in done.out + done.err and not who.scope.is_everything:
                problems.append("tells of zebra")
            if "hush" in done.out + done.err and not who.sees_payloads and not row.takes_work:
                problems.append("tells a payload")
            wrong += [f"{name}, {'inside' if inside else 'outside'}: {each}" for each in problems]
    assert not wrong, "\n".join(wrong)
