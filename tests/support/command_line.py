"""The command line without anybody's settings, in a directory of its own."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mahavishnu.core.commands import app
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.stores.urls import open_store
from mahavishnu.testing import ManualClock
from tests.support.letters import NOON


@dataclass(frozen=True)
class Done:
    """What came of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Done]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory and home; returns the directory."""
    for name in list(os.environ):
        if name.startswith("MAHAVISHNU_"):
            monkeypatch.delenv(name)
    directory = tmp_path / "here"
    directory.mkdir()
    monkeypatch.chdir(directory)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("COLUMNS", raising=False)
    return directory


@pytest.fixture
def run(home: Path) -> Run:
    """Run a command in this process, in an empty working directory."""

    def run(*arguments: str, stdin: str | None = None) -> Done:
        done = CliRunner().invoke(app, list(arguments), input=stdin, prog_name="mahavishnu")
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return Done(done.exit_code, done.stdout, done.stderr)

    return run


@pytest.fixture
def settings_file(home: Path) -> Callable[[str], Path]:
    """Write settings/mahavishnu.yaml."""

    def write(text: str) -> Path:
        path = home / "settings" / "mahavishnu.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write


def kept(url: str, *letters: dict[str, Any]) -> None:
    """Keep these failures in a store, as they happened at noon."""

    async def keep() -> None:
        async with DeadLetterQueue(store=open_store(url), clock=ManualClock(NOON)) as dlq:
            for letter in letters:
                await dlq.enqueue(**{"task": {"n": 1}, "repos": ["api"], "error": "connection refused", **letter})

    asyncio.run(keep())


@pytest.fixture
def letters(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Five letters in the store of the settings, and ann, who asks."""
    monkeypatch.setenv("MAHAVISHNU_DLQ_STORE_URL", "sqlite:///letters.db")
    monkeypatch.setenv("MAHAVISHNU_USER", "ann")
    given: list[dict[str, Any]] = [
        {"task_id": "wf_1", "metadata": {"team": "web"}},
        {"task_id": "wf_2", "max_retries": 0},
        {"task_id": "wf_3", "max_retries": 0, "priority": 7},
        {"task_id": "a/b c", "queue": "mail", "error": "\x1b[2Jbad [red]x[/red] value\nline two"},
        {"task_id": "wf_5", "error": "disk full", "task": {"user": {"age": "old", "name": "Jo"}}},
    ]
    kept("sqlite:///letters.db", *given)
    return home / "letters.db"


def group_of(run: Run, task: str = "wf_1") -> str:
    """The fingerprint of a task's letter."""
    return str(run("dlq", "show", task, "--json").json["fingerprint"])
