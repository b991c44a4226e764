"""Queues for tests: on memory or on a SQLite file, disturbed on demand, with a clock that is moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.engine.context import Limits, QueueOptions
from mahavishnu.model import lifecycle
from mahavishnu.model.events import Event
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import Query
from mahavishnu.stores.base import Store, scan
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.testing import Faults, FaultyStore, ManualClock, turn

CLOSINGS = (
    "retry_success", "requeued", "permanently_failed", "manually_resolved", "cancelled", "archived", "cleared",
    "moved",
)  # fmt: skip
NETWORK = ConnectionError("connection refused")


class Runs:
    """A callback that notes its calls, and raises or returns its `answers` one by one, the last one for ever."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers) or [None]
        self.calls: list[tuple[Any, list[str]]] = []

    async def __call__(self, task: Any, repos: list[str]) -> Any:
        self.calls.append((task, repos))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    @property
    def tasks(self) -> list[Any]:
        return [task for task, _ in self.calls]


class Gate:
    """A callback that stops each run until the test opens it; `under_way` are those that have come here."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer
        self.under_way: list[Any] = []
        self._moved = asyncio.Event()
        self._open = asyncio.Event()

    async def __call__(self, task: Any, repos: list[str]) -> Any:
        self.under_way.append(task)
        self._moved.set()
        await self._open.wait()
        return self.answer

    async def reached(self, runs: int = 1) -> None:
        while len(self.under_way) < runs:
            self._moved.clear()
            await self._moved.wait()

    def open(self) -> None:
        self._open.set()


class House:
    """Queues and apps that share one store and one clock. `kind` says which store it is."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.folder = kind, folder
        self.clock = ManualClock()
        self.faults = Faults()
        self._memory = MemoryStore()
        self._queues: list[DeadLetterQueue] = []
        self._left_by_the_dead: list[FaultyStore] = []

    def store(self) -> FaultyStore:
        """As another process would open it, with faults of its own besides those of the house."""
        inner: Store = self._memory if self.kind == "memory" else SQLiteStore(self.folder / "letters.db", kinds=KINDS)
        return FaultyStore(FaultyStore(inner, self.faults))

    def queue(self, callback: Callable[..., Any] | None = None, **options: Any) -> DeadLetterQueue:
        limits: dict[str, Any] = {"interval_seconds": 10.0}
        limits |= {name: options.pop(name) for name in list(options) if name in Limits.__struct_fields__}
        given: dict[str, Any] = {"callback": callback, "limits": Limits(**limits)}
        given |= {name: options.pop(name) for name in list(options) if name in QueueOptions.__slots__}
        arguments = {"store": self.store(), "clock": self.clock, "options": QueueOptions(**given)}
        self._queues.append(DeadLetterQueue(**{**arguments, **options}))
        return self._queues[-1]

    def app(self, **settings: Any) -> MahavishnuApp:
        app = MahavishnuApp(
            MahavishnuSettings(dlq_store_url="memory:", **settings), store=self.store(), clock=self.clock
        )
        if app.queue_if_enabled is not None:
            self._queues.append(app.dlq)
        return app

    def look_after(self, queue: DeadLetterQueue) -> None:
        """Close this queue in the end."""
        self._queues.append(queue)

    def kill(self, queue: DeadLetterQueue) -> None:
        """From now on nothing that it does reaches the store, as if its process were gone."""
        assert isinstance(queue.store, FaultyStore)
        queue.store.faults.unavailable()
        self._queues.remove(queue)
        self._left_by_the_dead.append(queue.store)

    async def close(self) -> None:
        self.faults.clear()
        for store in self._left_by_the_dead:
            store.faults.clear()
        await self._ended(*(asyncio.create_task(queue.shutdown()) for queue in self._queues))
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await self._ended(*left)
        for store in self._left_by_the_dead:
            await store.close()

    async def _ended(self, *tasks: asyncio.Task[Any]) -> None:
        while not all(task.done() for task in tasks):
            self.clock.advance(3600)
            await turn()
        await asyncio.gather(*tasks, return_exceptions=True)


def queue_of(app: MahavishnuApp) -> DeadLetterQueue:
    return app.dlq


async def fails(app: MahavishnuApp, error: Any, task_id: str = "wf_1", **options: Any) -> dict[str, Any]:
    """Run a workflow that raises this, or says it in its result."""
    answer = error if isinstance(error, BaseException) else {"status": "failed", "error": error}
    app.register_adapter("sweep", Runs(answer))
    return await app.execute_workflow({"n": 1}, "sweep", ["api"], task_id=task_id, **options)


async def letter_of(queue: DeadLetterQueue, task_id: str, /, **where: str) -> DeadLetter:
    letter = await queue.get_task(task_id, include_archived=True, **where)
    assert letter is not None, f"there is no letter {task_id!r}"
    return letter


async def fill(queue: DeadLetterQueue, count: int, **options: Any) -> list[str]:
    """So many open letters, due at once. Returns their task ids."""
    names = [f"wf_{number:05}" for number in range(count)]
    for name in names:
        await queue.enqueue(name, {"name": name}, [], "connection refused", **{"retry_policy": "immediate", **options})
    return names


def heard(queue: DeadLetterQueue) -> list[Event]:
    """Everything that is told from now on."""
    events: list[Event] = []
    queue.context.events.subscribe(events.append)
    return events


async def pass_time(clock: ManualClock, seconds: float, step: float = 10.0, sleepers: int = 1) -> None:
    """Let time pass in steps; before each, whoever works has come to rest."""
    for _ in range(round(seconds / step)):
        await clock.sleeping(sleepers)
        await settle()
        clock.advance(step)
    await settle()


async def settle(turns: int = 30) -> None:
    """Let everything that needs no time be done (on a store in memory)."""
    for _ in range(turns):
        await turn()


async def until(condition: Callable[[], object]) -> None:
    """Let the others work until it is so. A test that waits in vain is ended by the limit."""
    async with asyncio.timeout(10):
        while not condition():
            await turn()


async def sound(queue: DeadLetterQueue) -> dict[str, Any]:
    """Hold what every queue promises at rest against this one. Returns its statistics."""
    await queue.open()
    letters = [letter async for letter in scan(queue.context.letters, Query())]
    assert [(letter.key, broken) for letter in letters if (broken := lifecycle.violations(letter))] == []
    stats = await queue.get_statistics()
    lifetime = stats["lifetime_stats"]
    assert lifetime["enqueued_total"] == stats["queue_size"] + sum(lifetime[name] for name in CLOSINGS), lifetime
    assert sum(stats["status_breakdown"].values()) == stats["queue_size"]
    assert stats["queue_size"] == sum(letter.is_open for letter in letters)
    return stats
