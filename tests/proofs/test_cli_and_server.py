"""The command line as a shell starts it: on a store, and through a real server, with the same answers."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from typer.testing import CliRunner

from mahavishnu.core.commands import app
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.stores.urls import open_store
from tests.support.server import environment_for, served

TOKENS = {
    "SERVER__VIEWERS": '{"vic": "look-only"}',
    "SERVER__OPERATORS": '{"olga": "hands-on"}',
    "SERVER__ADMINS": '{"ada": "all-of-it"}',
}


@dataclass(frozen=True)
class Shell:
    """Runs commands in a folder, against a store or a server."""

    folder: Path

    @property
    def store(self) -> str:
        return f"sqlite:///{self.folder}/letters.db"

    def __call__(self, *arguments: str, code: int = 0, **settings: str) -> Any:
        environment = {
            **environment_for(self.store, self.folder),
            **{f"MAHAVISHNU_{n}": v for n, v in settings.items()},
        }
        done = CliRunner().invoke(app, list(arguments), env=environment, prog_name="mahavishnu")
        assert done.exit_code == code, f"{arguments}: {done.exit_code}\n{done.stdout}\n{done.stderr}"
        return done

    def json(self, *arguments: str, **settings: str) -> Any:
        return json.loads(self(*arguments, "--json", code=0, **settings).stdout)

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        """As a process of its own."""
        command = [sys.executable, "-m", "mahavishnu", *arguments]
        given: dict[str, Any] = {"stdout": PIPE, "stderr": PIPE, "text": True, "cwd": self.folder, **options}
        return subprocess.Popen(command, **{"env": environment_for(self.store, self.folder), **given})


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    folder = tmp_path_factory.mktemp("cli")
    shell = Shell(folder)

    async def keep() -> None:
        async with DeadLetterQueue(store=open_store(shell.store)) as dlq:
            for number in range(120):
                await dlq.enqueue(f"wf_{number}", {"n": number}, ["api"], f"timeout after {number} s", max_retries=0)
            await dlq.enqueue("a/b c?d#e%2F", {"n": 1}, [], "bad", queue="mail")
            run = await dlq.runs.start("archive", text="bad", by="ann")
            while (await dlq.runs.get(run.run_id)).state != "done":  # else the server does it between two commands
                await dlq.runs.advance()

    asyncio.run(keep())
    return shell


@pytest.fixture(scope="module")
def server(shell: Shell) -> Iterator[str]:
    with served(shell.store, shell.folder) as server:
        yield server.url


@pytest.mark.parametrize(
    "arguments",
    [
        ("dlq", "list"),
        ("dlq", "list", "--all", "--sort", "oldest", "--status", "exhausted"),
        ("dlq", "list", "--limit", "101", "--text", "timeout"),
        ("dlq", "show", "wf_7"),
        ("dlq", "show", "a/b c?d#e%2F", "--queue", "mail"),
        ("dlq", "revisions", "wf_7"),
        ("dlq", "stats", "--by-reason"),
        ("dlq", "redrive", "--status", "exhausted", "--dry-run"),
        ("group", "list"),
        ("run", "list"),
        ("audit", "list"),
    ],
)
def test_both_ways_give_the_same(shell: Shell, server: str, arguments: tuple[str, ...]) -> None:
    assert shell.json(*arguments) == shell.json(*arguments, SERVER=server)
    here, there = shell(*arguments), shell(*arguments, SERVER=server)
    assert (here.stdout, here.stderr) == (there.stdout, there.stderr)


def test_both_ways_refuse_the_same(shell: Shell, server: str) -> None:
    for code, arguments in (
        (3, ("dlq", "show", "nope")),
        (2, ("dlq", "list", "--status", "bogus")),
        (2, ("dlq", "clear")),
        (3, ("dlq", "requeue", "nope")),
    ):
        here, there = shell(*arguments, code=code), shell(*arguments, code=code, SERVER=server)
        assert (here.stdout, here.stderr) == (there.stdout, there.stderr)


def test_letters_go_through_a_server(shell: Shell, server: str) -> None:
    out = shell("dlq", "export", SERVER=server).stdout
    assert out == shell("dlq", "export").stdout and out.count("\n") == 121
    exported = shell.folder / "all.jsonl"
    exported.write_text(out)
    assert shell.json("dlq", "import", str(exported), SERVER=server) == {"taken": {"same": 121}, "refused": {}}
    assert shell("dlq", "resolve", "wf_119", USER="bob", SERVER=server).stdout.startswith("wf_119: completed")
    seen = shell("dlq", "watch", "--seconds", "3", SERVER=server)  # also what has just changed
    assert "letter  wf_119  completed" in seen.stdout
    assert shell.json("audit", "list", "--subject", "letter:wf_119")[0]["actor"] == "bob"


def test_a_server_that_knows_tokens(shell: Shell) -> None:
    with served(shell.store, shell.folder, **TOKENS) as server:
        refused = shell("dlq", "list", SERVER=server.url, code=1, USER="nobody")
        assert refused.stderr == f"mahavishnu: {server.url} wants a token: put it into the variable MAHAVISHNU_TOKEN\n"
        refused = shell("dlq", "list", SERVER=server.url, code=1, TOKEN="mistyped")
        told = "does not know the token in the variable MAHAVISHNU_TOKEN"
        assert refused.stderr == f"mahavishnu: {server.url} {told}\n"
        assert len(shell.json("dlq", "list", SERVER=server.url, TOKEN="look-only")) == 50
        refused = shell("dlq", "resolve", "wf_118", SERVER=server.url, TOKEN="look-only", code=1)
        assert "needs the role operator" in refused.stderr
        assert shell.json("dlq", "resolve", "wf_118", SERVER=server.url, TOKEN="hands-on")[0]["resolved_by"] == "olga"
        shell("dlq", "clear", "--yes", SERVER=server.url, TOKEN="hands-on", code=1)
        # on the server's own machine, with its settings, one's name is enough
        found = shell.json("dlq", "resolve", "wf_117", SERVER=server.url, USER="olga", **TOKENS)
        assert found[0]["resolved_by"] == "olga"


BROKEN = """
from mahavishnu.core import MahavishnuApp

def make():
    app = MahavishnuApp()
    app.register_adapter("erp", lambda task, repos: 1 / 0)
    return app
"""


def test_an_open_circuit_is_seen(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    shell = Shell(tmp_path)

    async def keep() -> None:
        async with DeadLetterQueue(store=open_store(shell.store)) as dlq:
            for name in ("o1", "o2"):
                await dlq.enqueue(name, {"adapter": "erp"}, ["api"], "bad", max_retries=0)

    asyncio.run(keep())
    settings = {"CIRCUIT__FAILURE_THRESHOLD": "1", "CIRCUIT__COOLOFF_SECONDS": "3600"}
    with served(shell.store, tmp_path, "--app", "broken:make", **settings) as server:
        shell("dlq", "retry", "o1", SERVER=server.url, code=1)
        refused = shell("dlq", "retry", "o2", SERVER=server.url, code=4).stderr
        assert "circuit open for adapter 'erp'" in refused and refused.endswith("; --force runs it all the same\n")
        shell("dlq", "retry", "o2", "--force", SERVER=server.url, code=1)
        told = "circuit of adapter erp is open after 2 failures in a row: its letters wait"
        assert f"WARNING: the {told}\n" in shell("dlq", "stats", SERVER=server.url).stdout
        shown = shell("dlq", "show", "o2", SERVER=server.url).stdout
        assert "  of adapter erp: open after 2 failures in a row; its letters are run when it is closed" in shown
        waiting = shell.start(
            "dlq", "redrive", "--all", "--yes", env=environment_for(shell.store, tmp_path, SERVER=server.url)
        )
        assert waiting.stderr is not None
        try:
            assert waiting.stderr.readline() == f"the {told} until it is closed\n"
        finally:
            waiting.send_signal(2)
            waiting.communicate(timeout=60)


def test_something_else_that_speaks_http(shell: Shell, server: str) -> None:
    done = shell("dlq", "--server", f"{server}/elsewhere", "list", code=1)
    where = f"{server}/elsewhere"
    assert done.stderr == f"mahavishnu: no API of Mahavishnu answers at {where}: look at the path of the address\n"


def test_a_reader_that_stops_is_no_reason_to_complain(shell: Shell) -> None:
    for arguments in (("dlq", "list", "--all", "--json"), ("dlq", "export"), ("dlq", "list", "--all")):
        read, write = os.pipe()
        os.close(read)
        try:
            writing = shell.start(*arguments, stdout=write)
        finally:
            os.close(write)
        _, said = writing.communicate(timeout=60)
        assert (writing.returncode, said) == (141, "")


def test_ctrl_c_ends_a_watch_cleanly(shell: Shell) -> None:
    watching = shell.start("dlq", "watch")
    assert watching.stdout is not None
    ended = threading.Event()

    def keep_changing() -> None:
        number = 0
        while not ended.is_set():
            number += 1
            shell("dlq", "edit", "wf_116", "--set", f"n={number}")

    changing = threading.Thread(target=keep_changing)
    changing.start()
    try:
        # What changed shortly before it began is told too: clocks of other machines may be behind.
        assert any("wf_116" in told for told in watching.stdout), "it ended by itself"
        watching.send_signal(2)
        _, said = watching.communicate(timeout=60)
    finally:
        ended.set()
        changing.join()
        watching.kill()
        watching.communicate()
    assert (watching.returncode, said) == (130, "")


def test_completion_is_there(shell: Shell) -> None:
    # It is for the shell that has started it, whatever has started these tests.
    command = ["bash", "-c", '"$0" -m mahavishnu --show-completion; exit $?', sys.executable]
    environment = environment_for(shell.store, shell.folder)
    asked = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=shell.folder, env=environment)
    assert asked.returncode == 0 and "_MAHAVISHNU_COMPLETE" in asked.stdout
