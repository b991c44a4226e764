"""On call, with nothing but a shell: from a group that grows to the proof that it is over.

A release has begun to send ages as words. Somebody finds the group, its cause and a sample, tries a fix on one letter
that turns out to be wrong, is stopped before it does more, tries a better one, and can show afterwards what happened.
Real processes on a real store: the app that fails, a worker that retries, and the commands.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mahavishnu.core.commands import app
from tests.support.server import environment_for

CUSTOMERS = 12
SHOP = """
import asyncio
from mahavishnu.core import MahavishnuApp

def charge(task, repos):
    age = task["user"]["age"]
    if not isinstance(age, int):
        raise ValueError(f"age is no number: {age!r}")

app = MahavishnuApp()
app.register_adapter("charge", charge)

async def day():
    async with app:
        for number in range(%d):
            task = {"adapter": "charge", "user": {"age": "forty", "id": number}}
            await app.execute_workflow(task, "charge", ["billing"], task_id=f"order_{number:02}")

if __name__ == "__main__":
    asyncio.run(day())
"""


@dataclass(frozen=True)
class OnCall:
    """What ann can do: type commands."""

    folder: Path
    environment: dict[str, str]

    def __call__(self, *arguments: str, code: int = 0) -> str:
        done = CliRunner().invoke(app, list(arguments), env=self.environment, prog_name="mahavishnu")
        assert done.exit_code == code, f"{arguments}: {done.exit_code}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self(*arguments, "--json", code=code))

    def python(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *arguments], cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, text=True
        )

    @contextmanager
    def worker(self) -> Iterator[None]:
        """A worker that is at work while the block runs."""
        working = self.python("-m", "mahavishnu", "worker", "--app", "shop:app")
        try:
            assert working.stdout is not None
            assert "retries letters" in working.stdout.readline()
            yield
        finally:
            working.send_signal(signal.SIGTERM)
            working.communicate(timeout=60)
        assert working.returncode == 0


def story(ann: OnCall) -> None:
    # The app fails, all day long.
    day = ann.python("shop.py")
    day.communicate(timeout=120)
    assert day.returncode == 0

    # The alert: what grows?
    assert any("grows" in warning for warning in ann.json("dlq", "stats")["warnings"])
    (group,) = ann.json("group", "list", "--sort", "growth")
    fingerprint = group["fingerprint"]
    assert group["growing"] and group["count"] == CUSTOMERS

    # The cause, and a sample.
    shown = ann("group", "show", fingerprint)
    assert "ValueError: age is no number" in shown
    sample = group["sample"]["task_id"]
    letter = ann("dlq", "show", sample)
    assert '"age": "forty"' in letter and "raise ValueError" in letter
    ann("group", "update", fingerprint, "--owner", "ann", "--state", "investigating", "--note", "ages come as words")

    with ann.worker():
        # A fix that is wrong: tried on one letter, and then it stops by itself.
        redrive = ("dlq", "redrive", "--group", fingerprint, "--open")
        ramp = ("--ramp", "1,5", "--stop-percent", "20", "--yes")
        preview = ann.json(*redrive, "--dry-run", "--set", "user.age=40 years")
        assert (preview["matched"], preview["eligible"]) == (CUSTOMERS, CUSTOMERS)
        wrong = ann.json(*redrive, *ramp, "--set", "user.age=40 years", "--reason", "years?", code=1)
        assert wrong["state"] == "halted" and "1 of 1 letters failed again" in wrong["halted_because"]
        assert wrong["counts"]["moved"] == 1
        assert len(ann.json("run", "items", wrong["run_id"], "--state", "waiting", "--all")) == CUSTOMERS - 1
        ann("run", "cancel", wrong["run_id"], "--reason", "the fix was wrong")

        # A better one: seen before it is done, then one, five, and all the rest.
        assert "40" in ann("dlq", "edit", sample, "--set", "user.age=40", "--dry-run")
        right = ann.json(*redrive, *ramp, "--set", "user.age=40", "--reason", "a number")
        counts = right["counts"]
        assert (right["state"], counts["succeeded"], counts["failed_again"]) == ("done", CUSTOMERS, 0)

    # The group is over by itself, nothing is left, and every step is on record.
    after = ann.json("group", "show", fingerprint)
    assert (after["state"], after["count"], after["total"]) == ("resolved", 0, CUSTOMERS)
    assert ann.json("dlq", "list", "--group", fingerprint, "--open") == []
    assert ann.json("dlq", "stats")["queue_size"] == 0
    acts = ann.json("audit", "list", "--all")
    told = [(act["action"], act["actor"], act["outcome"]) for act in reversed(acts)]
    assert told[:5] == [
        ("group.update", "ann", "done"),
        ("run.start", "ann", "done"),
        ("run.halt", "stop_rule", "done"),
        ("run.cancel", "ann", "done"),
        ("run.start", "ann", "done"),
    ]
    assert sorted(told[5:]) == [("group.update", "rule", "done"), ("run.done", "runner", "done")]
    (done,) = [act for act in acts if act["action"] == "run.done"]
    assert (done["subject"], done["reason"]) == (
        f"run:{right['run_id']}",
        f"{CUSTOMERS} of {CUSTOMERS} letters succeeded",
    )
    (group_act, *_) = [act for act in acts if act["action"] == "group.update"]
    assert (group_act["subject"], group_act["via"]) == (f"group:{fingerprint}", "rule")
    assert done in ann.json("audit", "list", "--subject", f"letter:{sample}", "--all")
    halted = ann.json("run", "show", wrong["run_id"])["counts"]
    assert (halted["failed_again"], halted["succeeded"]) == (1, 0), "what the other run has put right is not its own"
    assert [act["reason"] for act in acts if act["action"] == "run.start"] == ["a number", "years?"]
    before = ann.json("dlq", "revisions", sample)
    assert before[0]["task"]["user"]["age"] == "forty"


def on_call(folder: Path, store: str) -> OnCall:
    (folder / "shop.py").write_text(SHOP % CUSTOMERS)
    settings = {"USER": "ann", "DLQ_RETRY_INTERVAL_SECONDS": "10"}
    return OnCall(folder, dict(environment_for(store, folder, **settings)))


def test_on_call(tmp_path: Path) -> None:
    story(on_call(tmp_path, f"sqlite:///{tmp_path}/letters.db"))


@pytest.mark.opensearch
@pytest.mark.prove
def test_on_call_on_opensearch(tmp_path: Path, opensearch_url: str, opensearch_prefix: str) -> None:
    story(on_call(tmp_path, f"{opensearch_url.replace('http://', 'opensearch://')}/{opensearch_prefix}"))
