"""Alerts of several processes on one store: one notice, and one also if the process that tells it is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from datetime import timedelta
from pathlib import Path

from mahavishnu.alerts.rules import HELD
from tests.proofs.alert_node import app_on
from tests.support.node import ROOT, WrongClock
from tests.support.receivers import HttpReceiver

SKEW = timedelta(seconds=31)


async def start(store_url: str, webhook: str) -> Process:
    """A process that is ready to look."""
    command = [sys.executable, "-m", "tests.proofs.alert_node", store_url, webhook]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=PIPE, stdout=PIPE)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    return process


def begin(process: Process) -> None:
    assert process.stdin is not None
    process.stdin.write(b"\n")


async def test_two_processes_tell_one_notice(store_url: str) -> None:
    """All that look at the same moment: the webhook hears of it once."""
    async with HttpReceiver.serve() as hook, app_on(store_url, hook.url) as app:
        for number in range(3):
            await app.dlq.enqueue(f"wf-{number}", {"n": number}, [], "KeyError: 'currency'", max_retries=0)
        processes = await asyncio.gather(*(start(store_url, hook.url) for _ in range(2)))
        for each in processes:
            begin(each)
        taken = await asyncio.gather(*(each.communicate() for each in processes))
        assert sum(int(out) for out, _ in taken) == 1
        assert [body["kind"] for body in hook.bodies] == ["trigger"]
        assert await app.dlq.alerts.run() == 0


async def test_a_process_that_is_killed_after_writing_is_followed_by_another_one(store_url: str) -> None:
    """The notice is written, its sender is killed while it waits for the answer; the next one tells it, once."""
    async with HttpReceiver.serve(None) as silent, HttpReceiver.serve() as hook, app_on(store_url, hook.url) as app:
        await app.dlq.enqueue("wf", {"n": 1}, [], "KeyError: 'currency'", max_retries=0)
        process = await start(store_url, silent.url)
        begin(process)
        await silent.reached(1)
        process.kill()
        assert await process.wait() == -signal.SIGKILL
        assert await app.dlq.alerts.run() == 0
        late = WrongClock(HELD + SKEW)
        async with app_on(store_url, hook.url, late) as other:
            assert await other.dlq.alerts.run() == 1
            assert await other.dlq.alerts.run() == 0
        assert [body["id"] for body in hook.bodies] == [body["id"] for body in silent.bodies]


async def test_a_server_writes_notices_into_its_log(tmp_path: Path) -> None:
    """Also as text, where it is otherwise silent: a notice that counts as told can be read somewhere."""
    store = f"sqlite:///{tmp_path}/letters.db"
    async with app_on(store, "http://127.0.0.1:1") as app:
        await app.dlq.enqueue("wf", {"n": 1}, [], "KeyError: 'currency'", max_retries=0)
    settings = {"DLQ_STORE_URL": store, "ALERTS__LOG": "true", "SERVER__PORT": "0"}
    environment = {**os.environ, **{f"MAHAVISHNU_{name}": value for name, value in settings.items()}}
    command = [sys.executable, "-m", "mahavishnu", "serve"]
    server = await asyncio.create_subprocess_exec(*command, cwd=tmp_path, env=environment, stderr=PIPE, stdout=PIPE)
    assert server.stderr is not None
    try:
        async with asyncio.timeout(60):
            while b"FIRING: KeyError" not in (line := await server.stderr.readline()):
                assert line, "it has ended"
    finally:
        server.terminate()
        await server.wait()
