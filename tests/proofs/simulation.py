"""A simulation: apps, workers and people on one store, for virtual weeks, drawn from a seed and the same each time.

`python -m tests.proofs.simulation --seed 7` runs one, `--seeds 200` the first two hundred; `make simulate SEED=7` does
the former. All processes of a simulation run in one event loop on virtual time. They crash at any await, freeze, lose
their way to the store or its answers, have full disks and clocks that jump. Rules are checked all the time, and once
more at the end, after the faults have stopped. A seed that breaks a rule breaks it again: add `--log` to see what
happened in which order.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import math
import multiprocessing
import os
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from random import Random
from typing import Any

from mahavishnu.core import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.dead_letter_queue import KINDS
from mahavishnu.model.errors import IllegalMove, MahavishnuError, StoreUnavailable
from mahavishnu.model.permissions import ROLE_PERMISSIONS, Principal, Scope
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.kinds import LETTERS, LOCAL_STORES
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.tasks import handover, tracking
from mahavishnu.tasks import rules as task_moves
from mahavishnu.tasks.records import TASKS
from mahavishnu.tasks.run import TaskRun
from mahavishnu.tasks.tracking import RunSigns
from mahavishnu.testing import Faults, FaultyStore
from mahavishnu.testing.faults import CHANGES, Call
from mahavishnu.workers.leases import LeaseTable
from tests.proofs.chaos_queues import QUEUES, QueueActor, define_queues
from tests.support.bookkeeping import Diary, check, is_deleted
from tests.support.item_bookkeeping import check_items
from tests.support.virtual_time import WORLD, Host, HostClock, VirtualLoop, deterministic

HOSTS = 3
STEPS = ("reserve", "pay", "ship")
ERRORS = (ConnectionResetError, TimeoutError, BrokenPipeError)
LEASE_SECONDS = 60
SETTINGS: dict[str, Any] = {
    "dlq_store_url": "memory:",
    "dlq_retry_interval_seconds": 20,
    "dlq_claim_lease_seconds": LEASE_SECONDS,
    "retention": {"completed_days": 1, "tasks_days": 1, "history_days": 1},
    "staleness": {
        "other_states_minutes": 4,
        "waiting_for_retry_minutes": 4,
        "steps_in_process_minutes": 4,
        "detection_interval_seconds": 60,
        "grace_after_downtime_seconds": 60,
    },
}
DEEDS = {
    "redrive": 6, "edit": 6, "retry": 6, "resolve": 3, "cancel": 3, "delete": 2, "numbers": 3, "bulk": 2, "archive": 3,
    "restore": 2, "detect": 2, "look inside a scope": 3,
}  # fmt: skip
DONE = ("complete", "cancelled", "resolved_manually")  # tasks that need no letter
CALM_SECONDS = 900.0  # after the last fault, in which everything has to come to its end
LONGEST_CUT = 150.0


@dataclass(slots=True)
class Work:
    """One piece of work of the users, as the world sees it."""

    failures: int  #: how often it fails before it succeeds
    tries: int = 0
    done: End | None = None  #: where it succeeded last
    steps: dict[str, End] = field(default_factory=dict)  #: those that returned to the workflow


@dataclass(frozen=True, slots=True)
class End:
    """Where and when something ended well, and whether its caller waited for it, rather than a worker."""

    machine: Machine
    at: float
    was_called: bool

    @property
    def is_known(self) -> bool:
        """Whether whoever comes later can know of it, so that it must not be done again."""
        machine = self.machine
        if machine.host.frozen or any(end >= self.at - 1 for end in machine.crashes):
            return False
        return self.was_called or not machine.was_cut_off(self.at)


_is_called: ContextVar[bool] = ContextVar("is_called", default=False)


class Line(Faults):
    """The way to a store: it takes time, and may be cut, before or after the store has done what was asked."""

    def __init__(self, world: World, slowest: float) -> None:
        super().__init__(world.chance.getrandbits(32))
        self._chance, self._clock, self._slowest = world.chance, world.clock, slowest
        self.cut = False

    async def enter(self, call: Call) -> None:
        await self._take_time()
        if self.cut:
            raise StoreUnavailable("the line is cut")
        await super().enter(call)

    async def leave(self, call: Call) -> None:
        await super().leave(call)
        await self._take_time()
        if self.cut:
            raise StoreUnavailable("the line was cut", maybe_written=call.operation in CHANGES)

    async def _take_time(self) -> None:
        if self._slowest and self._chance.random() < 0.6:
            await self._clock.sleep(self._chance.uniform(0, self._slowest))


class Machine:
    """A place where one process runs at a time. Its disk outlives them."""

    def __init__(self, name: str, world: World) -> None:
        self.name, self.world = name, world
        self.disk = MemoryStore()
        self.clock = HostClock(world.loop)
        self.line, self.cable = Line(world, 0.05), Line(world, 0)
        self.host = WORLD
        self.app: MahavishnuApp | None = None
        self.functions: dict[str, Callable[..., Any]] = {}
        self.items: QueueActor | None = None
        self.crashes: list[float] = []
        self.cuts: list[list[float]] = []  # from when until when it was cut off
        self.starts = 0

    @property
    def runs(self) -> bool:
        """Whether a process runs here, and is not suspended."""
        return self.app is not None and not self.host.crashed and not self.host.frozen

    def start(self) -> None:
        """Start a process."""
        self.starts += 1
        self.host = Host(f"{self.name}.{self.starts}", pid=1000 * (1 + self.world.machines.index(self)) + self.starts)
        with self.world.loop.acting_as(self.host):
            self.world.loop.spawn(self.host, self._run())

    async def _run(self) -> None:
        server, disk = FaultyStore(self.world.server, self.line), FaultyStore(self.disk, self.cable)
        try:
            store = FallbackStore(server, disk, kinds=KINDS, clock=self.clock, pause_seconds=4)
            self.app = app = MahavishnuApp(settings(), store=store, clock=self.clock)
            self.functions = workflows(app, self.world, self)
            self.items = QueueActor(app.dlq, self.world.write_down, self.world.chance, self.host.name)
            await app.start_dlq_processor()
        except MahavishnuError as problem:
            self.world.note(self, f"did not start: {problem}")
        except Exception as problem:
            self.world.breaks(f"{self.host.name} did not start: {problem!r}")

    def crash(self) -> None:
        """End the process as a power failure does."""
        self.world.note(self, "crashes")
        self.host.crashed = True
        self.crashes.append(self.world.now)
        self.world.dead.append(self.app)
        self.app = None

    async def stop(self) -> None:
        """End the process as SIGTERM does."""
        if self.app is not None and self.runs:
            self.world.note(self, "stops")
            app, self.app = self.app, None
            host = self.host
            await asyncio.wait_for(self.world.loop.spawn(host, app.shutdown()), 600)
            host.crashed = True  # what the users still do ends with the process
            self.world.dead.append(app)

    def was_cut_off(self, since: float) -> bool:
        """Whether leases may have run out here since, or shortly before: another worker takes over what it had."""
        least = LEASE_SECONDS / 3  # a lease is renewed as often
        return any(end >= since - LEASE_SECONDS and end - begin >= least for begin, end in self._cuts_so_far())

    def _cuts_so_far(self) -> list[tuple[float, float]]:
        return [(begin, min(end, self.world.now)) for begin, end in self.cuts]


@cache
def settings() -> MahavishnuSettings:
    """The settings of all apps, which take a while to read."""
    return MahavishnuSettings(**SETTINGS)


def workflows(app: MahavishnuApp, world: World, machine: Machine) -> dict[str, Callable[..., Any]]:
    """The users' functions, on one app."""

    async def take_part(order: str) -> None:
        work = world.works[order]
        await world.clock.sleep(world.chance.choice((0.01, 0.5, 3, 20)))
        work.tries += 1
        if work.tries <= work.failures:
            raise world.chance.choice(ERRORS)("connection reset by peer")

    @app.workflow("charge", key="order", retry_policy="immediate")
    async def charge(order: str) -> str:
        world.begin(order, machine)
        await take_part(order)
        world.succeed(order, machine)
        return order

    @app.workflow("deliver", key="order", track=True)
    async def deliver(order: str) -> str:
        world.begin(order, machine)
        for step in STEPS:
            await app.lifecycle.step(step, do_step, order, step)
            world.works[order].steps.setdefault(step, world.end(machine))
        world.succeed(order, machine)
        return order

    async def do_step(order: str, step: str) -> str:
        world.begin_step(order, step, machine)
        if step == "pay":
            await take_part(order)
        else:
            await world.clock.sleep(world.chance.choice((0.01, 2)))
        return f"{step} of {order}"

    return {"charge": charge, "deliver": deliver}


class World:
    """Everything that happens in a simulation, and what must be true of it."""

    def __init__(self, seed: int, chance: Random, loop: VirtualLoop, log: bool) -> None:
        self.seed, self.chance, self.loop, self._log = seed, chance, loop, log
        self.clock = HostClock(loop)
        self.server = MemoryStore()
        self.works: dict[str, Work] = {}
        self.acknowledged: dict[str, float] = {}  # task ids of calls that failed and were kept, so their callers think
        self.tried: Counter[str] = Counter()
        self.gone: set[str] = set()  # task ids that a person deleted
        self.faults: Counter[str] = Counter()
        self.dead: list[Any] = []
        self.lines: list[str] = []
        self.diary: list[str] = []  # about items of queues
        self.broken: list[str] = []
        self.machines: list[Machine] = []
        self.machines += [Machine(f"m{number}", self) for number in range(HOSTS)]

    @property
    def now(self) -> float:
        """Seconds since the world began."""
        return self.loop.time()

    def note(self, machine: Machine | None, text: str) -> None:
        """Add a line to the log."""
        line = f"{timedelta(seconds=round(self.now, 3))} {machine.host.name if machine else '-'}: {text}"
        self.lines.append(line)
        if self._log:
            print(line, flush=True)

    def breaks(self, rule: str) -> None:
        """Note that a rule does not hold."""
        self.note(None, f"BROKEN: {rule}")
        self.broken.append(f"{timedelta(seconds=round(self.now, 3))}: {rule}")

    def write_down(self, *words: str) -> None:
        """Keep what somebody was told about an item of a queue."""
        self.diary.append(" ".join(words))

    # --- what the users' functions tell

    def begin(self, order: str, machine: Machine) -> None:
        """A run of this work begins."""
        self.note(machine, f"begins {order}")
        done = self.works[order].done
        if done is not None and done.is_known:
            self.breaks(f"{order} is run again by {machine.host.name}: it succeeded on {done.machine.name}")

    def succeed(self, order: str, machine: Machine) -> None:
        """A run of this work succeeds."""
        self.note(machine, f"succeeds with {order}")
        self.works[order].done = self.end(machine)

    def begin_step(self, order: str, step: str, machine: Machine) -> None:
        """A step of this work begins."""
        self.note(machine, f"begins step {step} of {order}")
        done = self.works[order].steps.get(step)
        if done is not None and done.is_known:
            self.breaks(f"step {step} of {order} is run again: it ended on {done.machine.name} at {done.at:.1f}")

    def end(self, machine: Machine) -> End:
        """Return the end of what runs now."""
        return End(machine, self.now, _is_called.get())

    # --- what the users do

    async def call(self, machine: Machine, kind: str, number: int) -> None:
        """Call a workflow, as the code of a user does."""
        order = f"{kind}-{number}"
        task_id = f"{kind}:{order}"
        self.works[order] = Work(failures=self.chance.choice((0, 0, 1, 1, 2, 3)))
        full = machine.cable.cut
        _is_called.set(True)
        try:
            await machine.functions[kind](order)
        except ERRORS:
            self.tried[task_id] += 1
            if not full and not machine.cable.cut:
                self.acknowledged[task_id] = self.now
            self.note(machine, f"was told that {order} failed")
        except MahavishnuError as problem:
            self.note(machine, f"could not call {order}: {problem!r}")

    async def meddle(self, machine: Machine) -> None:
        """Do one thing to a letter, as a person does."""
        assert machine.app is not None
        dlq, letters = machine.app.dlq, machine.app.dlq.letters
        deed = self.chance.choices(list(DEEDS), list(DEEDS.values()))[0]
        try:
            listed = await dlq.list_tasks(limit=50)
            if not listed:
                return
            letter = self.chance.choice(listed)
            name = letter.task_id
            self.note(machine, f"a person wants to {deed} {name}")
            match deed:
                case "redrive":
                    await letters.redrive(name)
                case "edit":
                    await letters.edit(name, priority=self.chance.randrange(9))
                case "retry":
                    await dlq.retry_task(name)
                case "resolve":
                    await letters.resolve(name, notes="by hand")
                case "cancel":
                    await letters.cancel(name)
                case "delete":
                    self.gone.add(name)
                    await dlq.deletion.delete_task(name)
                case "numbers":
                    await dlq.get_statistics()
                case "bulk":
                    await dlq.runs.start("redrive", adapter="charge", by="ann", ramp=(1, 2))
                case "archive":
                    await dlq.archive.run(dry_run=False)
                case "restore":
                    for line in (await dlq.archive.list(3)).items:
                        await dlq.archive.restore(line.copy.task_id)
                case "detect":
                    await machine.app.lifecycle.detect_and_transition_stale_tasks(dry_run=False)
                case "look inside a scope":
                    await self.look_inside_scopes(machine)
        except MahavishnuError as problem:
            self.note(machine, f"{deed} was refused: {problem!r:.150}")

    async def look_inside_scopes(self, machine: Machine) -> None:
        """Read as somebody who sees a part: nothing else may be visible."""
        assert machine.app is not None
        clerk = Principal("cleo", ROLE_PERMISSIONS["operator"], Scope(adapters=frozenset({"charge"})))
        for letter in await machine.app.dlq.for_actor(clerk).list_tasks(limit=100):
            if letter.adapter != "charge":
                self.breaks(f"{letter.task_id} is visible to somebody who sees the adapter charge only")
        if other := await machine.app.dlq.in_namespace("eu").list_tasks(limit=100):
            self.breaks(f"{other[0].task_id} is visible in a namespace that is not its own")

    # --- what befalls it

    async def crash(self, machine: Machine) -> None:
        """Crash, and start again after a while."""
        machine.crash()
        await self.clock.sleep(self.chance.choice((1, 30, 400)))
        machine.start()

    async def freeze(self, machine: Machine) -> None:
        """Suspend the process for a while."""
        self.note(machine, "freezes")
        host, cut = machine.host, [self.now, math.inf]
        machine.cuts.append(cut)
        self.loop.freeze(host)
        await self.clock.sleep(self.chance.choice((5, 70, 200)))
        self.loop.thaw(host)
        cut[1] = self.now
        self.note(machine, "thaws")

    async def cut(self, machine: Machine) -> None:
        """Take the store away from one machine."""
        await self._cut([machine])

    async def outage(self, machine: Machine) -> None:
        """Take the store away from all."""
        await self._cut(self.machines)

    async def _cut(self, machines: list[Machine]) -> None:
        cut = [self.now, math.inf]
        self.note(None, f"cut off: {', '.join(each.name for each in machines)}")
        for each in machines:
            each.cuts.append(cut)
            each.line.cut = True
        await self.clock.sleep(self.chance.uniform(1, LONGEST_CUT))
        cut[1] = self.now
        for each in machines:
            each.line.cut = False
        self.note(None, f"back: {', '.join(each.name for each in machines)}")

    async def lose_answers(self, machine: Machine) -> None:
        """Lose some answers of the store."""
        self.note(machine, "loses answers")
        lost = machine.line.item_answer_lost(chance=0.5), machine.line.answer_lost(chance=0.3)
        await self.clock.sleep(self.chance.uniform(1, 10))
        for each in lost:
            each.stop()
        self.note(machine, "hears all answers again")

    async def fill_disk(self, machine: Machine) -> None:
        """Have no room on the disk of a machine."""
        self.note(machine, "has a full disk")
        machine.cable.cut = True
        await self.clock.sleep(self.chance.uniform(1, 60))
        machine.cable.cut = False
        self.note(machine, "has room again")

    async def set_clock(self, machine: Machine) -> None:
        """Set the wall clock, up to ten minutes to either side."""
        machine.clock.offset = timedelta(seconds=self.chance.uniform(-600, 600))
        self.note(machine, f"sets its clock by {machine.clock.offset}")

    # --- the course of events

    async def run(self) -> None:
        """Live through some days, and look at what is left."""
        number = 0
        troubles = (self.crash, self.freeze, self.cut, self.outage, self.lose_answers, self.fill_disk, self.set_clock)
        for _ in range(self.chance.randrange(2, 4)):
            for machine in self.machines:
                machine.start()
            await self.clock.sleep(5)
            if not number and (app := self.machines[0].app) is not None:
                await self.loop.spawn(self.machines[0].host, define_queues(app.dlq.queues))
            end = self.now + self.chance.uniform(60, 400)
            befalls: list[asyncio.Task[None]] = []
            calls: list[asyncio.Task[None]] = []
            while self.now < end:
                await self.clock.sleep(self.chance.expovariate(1 / 3))
                machine = self.chance.choice(self.machines)
                lot = self.chance.random()
                if lot < 0.5:
                    number += 1
                    if machine.runs and machine.functions:
                        kind = self.chance.choice(("charge", "deliver"))
                        calls.append(self.loop.spawn(machine.host, self.call(machine, kind, number)))
                elif lot < 0.75:
                    if machine.runs and machine.items is not None:
                        calls.append(self.loop.spawn(machine.host, machine.items.act()))
                elif lot < 0.85:
                    if machine.runs:
                        calls.append(self.loop.spawn(machine.host, self.meddle(machine)))
                elif machine.runs and not any(not each.done() for each in befalls):
                    deed = self.chance.choice(troubles)
                    self.faults[deed.__name__] += 1
                    befalls.append(asyncio.create_task(deed(machine)))
                self.look()
            await asyncio.gather(*befalls)
            await self.night()
        await self.last_day()

    async def night(self) -> None:
        """End all processes, some of them by a crash, and start them some hours or days later."""
        for machine in self.machines:
            if machine.runs and self.chance.random() < 0.5:
                await machine.stop()
            elif machine.app is not None:
                machine.crash()
        self.note(None, "night")
        await self.clock.sleep(self.chance.choice((1, 9, 30, 70)) * 3600)
        self.look()

    async def last_day(self) -> None:
        """Start everything once more, without faults, and look whether all comes to its end."""
        for machine in self.machines:
            machine.line.clear()
            machine.clock.offset = timedelta(0)
            machine.start()
        await self.clock.sleep(CALM_SECONDS)
        self.look()
        await self.look_at_the_end()
        for machine in self.machines:
            await machine.stop()

    # --- the rules

    def records(self, store: MemoryStore, kind: Any) -> Iterable[Any]:
        """All records of a kind."""
        return list(store.collection(kind)._records.values())

    def known_task_ids(self) -> set[str]:
        """The task ids of all letters that are anywhere, or were deleted by a person."""
        found: set[str] = set(self.gone)
        for store in (self.server, *(machine.disk for machine in self.machines)):
            for collection in store._collections.values():
                if collection.kind.name != TASKS.name:
                    records = (getattr(each, "record", each) for each in collection._records.values())
                    found.update(getattr(each, "task_id", "") for each in records)
        return found

    def look(self) -> None:
        """Check what must be true at any time."""
        for task_id in self.acknowledged.keys() - self.known_task_ids():
            self.breaks(f"{task_id} failed at {self.acknowledged[task_id]:.1f} and is nowhere")
            del self.acknowledged[task_id]
        for problem in self.loop.problems:
            self.breaks(f"an error that nobody handled: {problem}")
        self.loop.problems.clear()

    async def look_at_the_end(self) -> None:
        """Check what must be true when the faults are long over."""
        for machine in self.machines:
            for collection in machine.disk._collections.values():
                for left in collection._records if collection.kind.name != LOCAL_STORES.name else ():  # the name of it
                    self.breaks(f"{collection.kind.name} {left} is still on the disk of {machine.name}")
        letters = {each.task_id: each for each in self.records(self.server, LETTERS) if not is_deleted(each)}
        for task_id, letter in letters.items():
            waits = letter.is_open and str(letter.status) in ("pending", "retrying")
            if waits and task_id in self.tried:
                self.breaks(f"{task_id} is still {letter.status}, due at {letter.due_at}")
        kept = self.known_task_ids()
        for task in self.records(self.server, TASKS):
            if str(task.state) not in DONE and task.work_id not in kept:
                self.breaks(f"task {task.task_id} of {task.work_id} is {task.state}, and in no letter")
        app = self.machines[0].app
        assert app is not None
        items = await check_items(app.dlq, Diary.read("\n".join(self.diary)), QUEUES)
        for name, problem in items.problems.items():
            self.breaks(f"{name}: {problem}")
        found = await check(app.dlq, Diary(tried=self.tried))
        for name, problem in found.problems.items():
            if name != "duplicates":
                self.breaks(f"{name}: {problem}")


@dataclass(slots=True)
class Outcome:
    """What became of one simulation."""

    seed: int
    broken: list[str]
    lines: list[str]
    faults: Counter[str]
    works: int
    failed: int
    virtual_seconds: float
    real_seconds: float

    def digest(self) -> int:
        """A number that is the same for the same course of events."""
        return zlib.crc32("\n".join(self.lines).encode())

    def __str__(self) -> str:
        days = self.virtual_seconds / 86400
        end = "ok" if not self.broken else f"{len(self.broken)} BROKEN: {self.broken[0]}"
        faults = sum(self.faults.values())
        return (
            f"seed {self.seed}: {days:.1f} days, {self.works} calls, {self.failed} failed, {faults} faults, "
            f"{self.real_seconds:.1f} s, course {self.digest():08x}: {end}"
        )


async def _do_nothing(*_: Any, **__: Any) -> int:
    return 0


def _refuse_merge(*_: Any) -> Any:
    raise IllegalMove("a task", "complete", "written by another run", what="task")


# Faults that there were, by name: with `--reintroduce` a seed that finds one shows that simulations find such faults.
REINTRODUCED: Mapping[str, Sequence[tuple[Any, str, Any]]] = {
    "outcomes are given up in an outage": [(LeaseTable, "_patience", lambda self, leased: lambda tries: tries > 8)],
    "what a run could not write is dropped": [
        (TaskRun, "_keep_locally", _do_nothing),
        (RunSigns, "remember", lambda self, run: None),
    ],
    "a lost answer drops what follows": [(task_moves, "merge_run", _refuse_merge)],
    "retention takes tasks that letters need": [
        (handover, "may_go_on", lambda letter, task: False),
        (tracking, "steps_behind", lambda letter, tasks: []),  # it would notice that the steps are gone
    ],
    "half-done hand-overs stay so": [(handover.HandOver, "finish", _do_nothing)],
}


def simulate(seed: int, log: bool = False, reintroduced: str | None = None) -> Outcome:
    """Run one simulation in this process, with a fault that there was."""
    for owner, name, replacement in REINTRODUCED[reintroduced] if reintroduced else ():
        setattr(owner, name, replacement)
    logging.disable(logging.CRITICAL)
    loop, began = VirtualLoop(), time.perf_counter()
    with deterministic(seed, loop) as chance:
        asyncio.set_event_loop(loop)
        world = World(seed, chance, loop, log)
        loop.run_until_complete(loop.spawn(WORLD, world.run()))
    return Outcome(
        seed,
        world.broken,
        world.lines,
        world.faults,
        len(world.works),
        len(world.tried),
        world.now,
        time.perf_counter() - began,
    )


def _simulate_in_child(seed: int, pipe: Any, reintroduced: str | None) -> None:
    pipe.send(simulate(seed, reintroduced=reintroduced))
    pipe.close()
    os._exit(0)  # whatever stands still is not to be collected


def run_seeds(seeds: Iterable[int], reintroduced: str | None = None, at_once: int = 2) -> Iterator[Outcome]:
    """Run simulations, each in a process of its own, which all begin alike."""
    settings()
    forking = multiprocessing.get_context("fork")
    running: list[tuple[int, Any, Any]] = []
    for seed in seeds:
        mine, theirs = forking.Pipe(False)
        child = forking.Process(target=_simulate_in_child, args=(seed, theirs, reintroduced))
        child.start()
        theirs.close()
        running.append((seed, child, mine))
        if len(running) == at_once:
            yield _outcome(*running.pop(0))
    for each in running:
        yield _outcome(*each)


def _outcome(seed: int, child: Any, pipe: Any) -> Outcome:
    try:
        outcome: Outcome = pipe.recv()
    except EOFError:
        outcome = Outcome(seed, ["the simulation itself crashed"], [], Counter(), 0, 0, 0.0, 0.0)
    child.join()
    return outcome


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seed", type=int, help="run this one")
    parser.add_argument("--seeds", type=int, default=20, help="run so many, from --first on")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--log", action="store_true", help="print what happens, in its order")
    parser.add_argument("--reintroduce", choices=REINTRODUCED, help="with this fault, which there was; ends when found")
    given = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets of texts depends on it
        command = [sys.executable, "-m", __spec__.name, *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, "PYTHONHASHSEED": "0"})
    if given.seed is not None:
        outcome = simulate(given.seed, given.log, given.reintroduce)
        print(outcome, *outcome.broken, sep="\n")
        os._exit(bool(outcome.broken))
    total: Counter[str] = Counter()
    broken = 0
    for outcome in run_seeds(range(given.first, given.first + given.seeds), given.reintroduce):
        print(outcome, flush=True)
        if given.reintroduce and outcome.broken:
            sys.exit(0)
        total.update(outcome.faults)
        broken += bool(outcome.broken)
    print(f"{given.seeds} seeds, {broken} broken; faults: {dict(total)}")
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
