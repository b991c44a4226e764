"""One worker process of an acceptance test: `python -m tests.support.node '{"url": …, "log": …}'`.

It writes a line `start <task> <idempotency key> <pid>` to the log before each run and `end …` after it, prints `ready`
once it takes letters, and works until SIGTERM.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

from mahavishnu.capture.adapters import current_attempt
from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.engine.context import Limits, QueueOptions
from mahavishnu.model.clock import SystemClock
from mahavishnu.stores.urls import open_store

CLOCK = SystemClock()
PATIENCE_SECONDS = 240
ROOT = Path(__file__).parents[2]


class Diary:
    """Lines that are in the file when `write` returns, whoever is killed afterwards."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, what: str) -> None:
        attempt = current_attempt.get()
        assert attempt is not None
        os.write(self._file, f"{what} {attempt.letter.task_id} {attempt.idempotency_key} {os.getpid()}\n".encode())


class WrongClock(SystemClock):
    """A machine's clock that is ahead by so much, or behind."""

    def __init__(self, ahead: timedelta) -> None:
        self._ahead = ahead

    def now(self) -> datetime:
        return super().now() + self._ahead


async def main(options: dict[str, Any]) -> None:
    diary = Diary(options["log"])

    async def callback(task: Any, repos: list[str]) -> dict[str, str]:
        diary.write("start")
        match task:
            case {"do": "kill"}:
                os.kill(os.getpid(), signal.SIGKILL)
            case {"do": "stop"}:  # as a process that the machine suspends in the middle of a run
                with nobody_writes(options["url"]):
                    pass
                os.kill(os.getpid(), signal.SIGSTOP)
            case {"do": "wait"}:
                await asyncio.Event().wait()
            case {"do": "last", "seconds": seconds}:
                await CLOCK.sleep(seconds)
            case {"do": "fail"}:
                raise ConnectionError("still down")
        diary.write("end")
        return {"status": "completed"}

    store = open_store(options["url"], local=options.get("local"), kinds=KINDS)
    limits = Limits(**{"interval_seconds": 0.5, "skew_seconds": 0.0, "grace_seconds": 5.0, **options.get("limits", {})})
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    clock = WrongClock(timedelta(minutes=options.get("minutes_ahead", 0)))
    given = QueueOptions(limits=limits, callback=callback)
    async with DeadLetterQueue(100_000, store=store, clock=clock, options=given) as dlq:
        await dlq.start_retry_processor(check_interval_seconds=limits.interval_seconds)
        say("ready")
        await stop.wait()
        processor = dlq.processing.processor
        await dlq.stop_retry_processor()  # first: what is being run or written down counts, too
        assert processor is not None
        say(json.dumps(processor.counts))


@contextmanager
def nobody_writes(url: str) -> Iterator[None]:
    """While nobody writes into the file: who is suspended with SQLite's lock keeps everybody else waiting."""
    if not url.startswith("sqlite:///"):
        yield
        return
    with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=60)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.rollback()


def say(line: str) -> None:
    """To whoever started this process."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


@dataclass(slots=True)
class Node:
    """A running worker process."""

    process: Popen[str]

    def ready(self) -> None:
        """Return when it takes letters."""
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == "ready", self.process.poll()

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def finish(self) -> dict[str, int]:
        """End it as an operator would, and return what its processor counted."""
        self.process.terminate()
        out, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, self.process.returncode
        counts: dict[str, int] = json.loads(out.splitlines()[-1])
        return counts


async def until(condition: Callable[[], Any], every: float = 0.1) -> Any:
    """What `condition()`, which may be async, gives once that is true."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            value = condition()
            if asyncio.iscoroutine(value):
                value = await value
            if value:
                return value
            await CLOCK.sleep(every)


@contextmanager
def nodes(count: int, **options: Any) -> Iterator[list[Node]]:
    """Worker processes that take letters; whatever is left of them at the end is killed."""
    running = [start(**options) for _ in range(count)]
    try:
        for node in running:
            node.ready()
        yield running
    finally:
        for node in running:
            node.kill()


def start(**options: Any) -> Node:
    """A worker process that may not be ready yet."""
    command = [sys.executable, "-m", "tests.support.node", json.dumps(options)]
    return Node(Popen(command, stdout=PIPE, text=True, cwd=ROOT))


def diary(path: Path, what: str = "start") -> list[tuple[str, str]]:
    """The runs in the log, each as task id and idempotency key."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [(words[1], words[2]) for words in map(str.split, lines) if words[0] == what and len(words) == 4]


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
