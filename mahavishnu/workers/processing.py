"""Runs letters: by the processor in the background, one cycle at once, or a single letter."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from mahavishnu.capture.capture import LetterIntake
from mahavishnu.engine.audit import AuditRecord
from mahavishnu.engine.breaker import Breakers
from mahavishnu.engine.context import DEFAULT_ACTOR, Limits, QueueContext, Workflow
from mahavishnu.engine.periodic import PeriodicTask, PeriodicTasks
from mahavishnu.engine.queue import LetterQueue
from mahavishnu.model import lifecycle
from mahavishnu.model.clock import instant_text
from mahavishnu.model.errors import IllegalMove, InvalidInput, NoAdapterNamed, NoSuchAdapter
from mahavishnu.model.events import Event, EventName
from mahavishnu.model.ids import DEFAULT_QUEUE, new_token
from mahavishnu.model.letter import DeadLetter
from mahavishnu.stores.base import get_one, update_with_retry
from mahavishnu.stores.lease_watch import SOONEST_ENDING
from mahavishnu.workers.attempt import Misfits
from mahavishnu.workers.background import HEARTBEAT_SECONDS, WorkerRegistry, WorkerWatch
from mahavishnu.workers.leases import LimitGate
from mahavishnu.workers.processor import Processor
from mahavishnu.workers.records import WORKERS
from mahavishnu.workers.rules import require_adapter, shares_of

log = logging.getLogger(__name__)
NOTHING_RUNS = (
    "nothing in this process can run letters: no callback is registered; give start_retry_processor(callback) one, or "
    "let a MahavishnuApp start it"
)
_BRINGS_WORK = frozenset(
    {EventName.CAPTURED, EventName.REOPENED, EventName.REDRIVEN, EventName.REQUEUED, EventName.EDITED}
)


def processing_of(queue: LetterQueue) -> Processing:
    """Return the processor of a queue for services that ask themselves what an actor may do. Raise InvalidInput."""
    return queue.service(Processing) if queue.home is None else Processing.for_queue(queue)


class Processing:
    """Runs letters: in the background, one cycle at once, or a single one."""

    NEEDS = "work"

    @classmethod
    def for_queue(cls, queue: LetterQueue) -> Processing:
        """Return the one processor of a queue, whichever view asks. Raises InvalidInput for another namespace."""
        if not queue.context.is_at_home:
            raise InvalidInput(not_ours(queue.context.namespace))
        if queue.home is not None:
            return queue.home.service(Processing)
        return cls(queue.context, queue.service(LetterIntake).admit_waiting, *queue.chores())

    def __init__(
        self, context: QueueContext, admit_waiting: Callable[[], Awaitable[object]], *periodic_tasks: PeriodicTask
    ) -> None:
        """`admit_waiting` lets in failures that wait for room; `periodic_tasks` run beside the letters."""
        self._context, self._letters, self._clock = context, context.letters, context.clock
        self._admit_waiting = admit_waiting
        self.callback = context.options.callback
        self._default: tuple[Workflow, Callable[[], Collection[str]]] | None = None
        self._gate = context.part(LimitGate)
        self.workers = WorkerRegistry(
            context.store.collection(WORKERS),
            context.owner,
            context.clock,
            self.adapters,
            context.namespace,
            context.part(WorkerWatch),
            lambda: context.limits.skew,
        )
        self._given_interval: float | None = None
        self._processor: Processor | None = None
        self._unsubscribe: Callable[[], object] | None = None  # ends the processor's waking by events
        self._runs_in: asyncio.AbstractEventLoop | None = None
        self._periodic_tasks = periodic_tasks
        self._running_tasks: PeriodicTasks | None = None
        self._stopping: list[Processor] = []  # and those that run one cycle
        self._admission = PeriodicTask(
            "admission of waiting failures", admit_waiting, lambda: context.limits.interval_seconds
        )
        self._watch = PeriodicTask(
            "the watch over leases", self._look_at_leases, lambda: context.limits.lease_seconds / 6
        )
        self._worker_watch = PeriodicTask(
            "the watch over workers", context.part(WorkerWatch).look, lambda: HEARTBEAT_SECONDS
        )
        self._heartbeat = PeriodicTask("the list of workers", self.workers.heartbeat, lambda: HEARTBEAT_SECONDS)
        context.session.on_new_loop(self._reset_for_loop)
        context.on_new_limits.add(self._wake_for_limits)
        context.on_room_made = self._admission.wake
        context.session.is_kept = lambda: self.is_running

    @property
    def processor(self) -> Processor | None:
        """The processor that runs letters in the background; None while there is none."""
        return self._processor

    @property
    def is_running(self) -> bool:
        """True if letters are run, or periodic tasks done, in the background."""
        return self._processor is not None or self._running_tasks is not None

    def run_with(self, callback: Workflow, adapters: Callable[[], Collection[str]]) -> None:
        """Run letters of these adapters only, with this callback by default; `note_adapters` tells of later ones."""
        self._default = callback, adapters
        if self.callback is None:
            self.callback = callback

    def adapters(self) -> frozenset[str] | None:
        """Return the adapters whose letters this process runs; None if its callback takes any letter."""
        if self._default is None or self.callback != self._default[0]:
            return None
        return frozenset(self._default[1]())

    def note_adapters(self) -> None:
        """Look for letters that wait for a new adapter, and tell the other workers. From any thread."""
        self._context.part(Misfits).clear()
        if self._processor is not None and self._runs_in is not None:
            with suppress(RuntimeError):  # its event loop is closed
                self._runs_in.call_soon_threadsafe(self._look_again)

    def _look_again(self) -> None:
        if self._processor is not None:
            self._heartbeat.wake()
            self._processor.wake()

    def wake(self, due: datetime) -> None:
        """Have the processor look for letters at this date, if it is running."""
        if self._processor is not None:
            self._processor.wake(due)

    async def start(
        self,
        callback: Workflow | None = None,
        check_interval_seconds: float | None = None,
        queue: str | Iterable[str] | None = None,
    ) -> None:
        """Run letters from now on: see `DeadLetterQueue.start_retry_processor`."""
        if queue is not None:
            self.take_only(queue)
        if callback is not None and not callable(callback):
            raise InvalidInput(f"a callback is a function of a task and its repos, not {callback!r:.80}")
        if check_interval_seconds is not None and not _is_positive(check_interval_seconds):
            raise InvalidInput(f"check_interval_seconds must be a number above 0, not {check_interval_seconds!r:.80}")
        await self._context.open()
        if check_interval_seconds is not None:
            self._given_interval = check_interval_seconds
            self.configure(limits=replace(self._context.limits, interval_seconds=check_interval_seconds))
        self.callback = callback or self.callback
        if self._processor is not None:
            return
        processor = self._new_processor(self.workers.queues)
        self._use(processor)
        self._runs_in = asyncio.get_running_loop()
        try:
            await self.workers.heartbeat()
        except asyncio.CancelledError:
            if self._processor is processor:
                self._use(None)
            raise
        if self._processor is not processor:  # stopped meanwhile
            return
        processor.start()
        await self._start_periodic_tasks(self._heartbeat)

    async def start_periodic_tasks(self) -> None:
        """Admit failures, continue bulk runs and watch groups until `stop`, without a callback, as in a server."""
        await self._context.open()
        self._reset_for_loop()
        if self._running_tasks is None:
            self._runs_in = asyncio.get_running_loop()
            await self._start_periodic_tasks(self._worker_watch)

    async def _start_periodic_tasks(self, *more: PeriodicTask) -> None:
        if self._running_tasks is not None:
            await self._running_tasks.stop()
        periodic = (self._admission, self._watch, *self._periodic_tasks, *more)
        self._running_tasks = PeriodicTasks(self._clock, *periodic)
        self._running_tasks.start()

    async def stop(self) -> None:
        """Take no more letters; runs may end for a while, and unfinished ones are given back unused."""
        self._reset_for_loop()
        if self._processor is not None:
            self._stopping.append(self._processor)
            self._use(None)
        if self._running_tasks is not None:
            running, self._running_tasks = self._running_tasks, None
            await running.stop()
        for processor in list(self._stopping):  # also one whose stopping was cancelled
            await processor.stop()
            await self.workers.deregister()
            if processor in self._stopping:
                self._stopping.remove(processor)

    def take_only(self, queue: str | Iterable[str]) -> None:
        """Have processors that start from now on take letters of this queue, or these, only. Raises InvalidInput."""
        self.workers.queues = _queues(queue)

    async def run_due(self, queue: str | Iterable[str] | None = None) -> int:
        """Run everything that is due now, and wait for it: see `DeadLetterQueue.run_due`."""
        queues = self.workers.queues if queue is None else _queues(queue)
        await self._admit_waiting()
        if self._processor is not None and queue is None:
            return await self._processor.cycle()
        self._reset_for_loop()
        processor = self._new_processor(queues)
        self._runs_in = asyncio.get_running_loop()
        self._stopping.append(processor)  # whoever stops or closes the queue meanwhile does not leave its runs alone
        try:
            return await processor.cycle()
        finally:
            if processor in self._stopping and not processor.is_busy:
                self._stopping.remove(processor)

    async def retry(
        self,
        task_id: str,
        *,
        force: bool = False,
        by: str = DEFAULT_ACTOR,
        notes: str | None = None,
        namespace: str | None = None,
        queue: str = DEFAULT_QUEUE,
    ) -> dict[str, Any]:
        """Run a pending or exhausted letter now, without using up its automatic retries.

        Answers `{"success": True, "result": …}` or `{"success": False, "error": why}`, and raises only StoreError and
        InvalidInput. Refuses while a circuit is open, and while the owner of a lease that ended may still live, unless
        `force`; and a letter of another namespace, which an app of that one runs.
        """
        key = self._context.key(task_id, namespace, queue)
        async with self._context.audit.record("retry", f"letter:{key}", by=by, reason=notes, where=namespace) as record:
            if namespace not in (None, self._context.namespace):
                return _refuse(task_id, not_ours(namespace), record)
            return await self._retry(task_id, key, force, record)

    async def _retry(self, task_id: str, key: str, force: bool, record: AuditRecord) -> dict[str, Any]:
        token = new_token()
        letter = await get_one(self._letters, key)
        if letter is None:
            return _refuse(task_id, "there is no letter for this task", record)
        if self.callback is None:
            return _refuse(task_id, NOTHING_RUNS, record)
        circuit = letter.circuit
        wait = None if force else self._context.breakers.acquire(circuit, self._clock.monotonic(), token)
        if wait is not None:
            why = f"circuit open for adapter {circuit!r}, it is tried again in {wait:.0f} seconds"
            return _refuse(task_id, why, record)
        claimed = None
        try:
            claimed = await update_with_retry(self._letters, key, lambda now: self._claim_for_person(now, token, force))
        except (IllegalMove, NoSuchAdapter, NoAdapterNamed) as problem:
            return _refuse(task_id, str(problem), record)
        finally:
            if claimed is None:
                self._context.breakers.release(circuit, token)
        if claimed is None:
            return _refuse(task_id, "there is no letter for this task", record)
        attempt = await (self._processor or self._new_processor()).run_claimed(claimed.after, token)
        if attempt.unfit is not None:
            return _refuse(task_id, f"nothing was run: {attempt.unfit}", record)
        settled = attempt.settled
        if settled is None:
            why = (
                "it was run, and the outcome is not recorded: its lease was lost, as to who closed the case meanwhile, "
                "or the store is away; look at the letter before you run it again"
            )
            record.add(outcome=why)
            return _refuse(task_id, why)
        record.add_change(letter, settled)
        if attempt.assessment is not None:
            return {**_refuse(task_id, attempt.assessment.failure.message), "status": str(settled.status)}
        return {"success": True, "task_id": task_id, "status": str(settled.status), "result": attempt.result}

    def configure(
        self, *, limits: Limits | None = None, breakers: Breakers | None = None, keep_interval: bool = False
    ) -> None:
        """Go on with other limits: see `DeadLetterQueue.configure`."""
        if limits is not None:
            if keep_interval and self._given_interval is not None:
                limits = replace(limits, interval_seconds=self._given_interval)
            self._context.set_limits(limits)
        if breakers is not None:
            self._context.breakers.threshold = breakers.threshold
            self._context.breakers.cooloff_seconds = breakers.cooloff_seconds

    def _reset_for_loop(self) -> None:
        """Forget the processor of another event loop: it ended with that, stopped or not."""
        if self._runs_in is not asyncio.get_running_loop():
            self._use(None)
            self._running_tasks = None
            self._stopping = []

    def _claim_for_person(self, current: DeadLetter, token: str, force: bool) -> DeadLetter:
        now, adapters = self._clock.now(), self.adapters()
        if adapters is not None:
            require_adapter(current, adapters)
        if not force and self._context.may_be_running(current, now):
            assert current.lease is not None
            assert current.due_at is not None  # a lease ends
            until = instant_text(current.due_at)
            holder = f"the lease of {current.lease.owner} ends at {until}"
            why = f"{holder}; if that process is gone, workers take it over soon after"
            raise IllegalMove(current.key, "claim", "already being retried", why)
        return lifecycle.claim(
            current,
            owner=self._context.owner,
            token=token,
            until=now + timedelta(seconds=self._context.limits.lease_seconds),
            now=now,
            manual=True,
            backoffs=self._context.backoffs,
        )

    def _new_processor(self, queues: tuple[str, ...] = ()) -> Processor:
        if self.callback is None:
            raise InvalidInput(NOTHING_RUNS)
        own = self.workers  # with queues of its own it shares letters with no other worker
        shares = own.shares if queues == own.queues else lambda: shares_of(own.me, ())
        return Processor(self._context, self.callback, shares=shares, queues=queues, gate=self._gate)

    def _use(self, processor: Processor | None) -> None:
        """Have this processor run letters, and wake it when an event brings work; None: no one does."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        self._processor = self._context.taker = processor
        if processor is not None:
            self._unsubscribe = self._context.events.subscribe(self._wake_for_work, _BRINGS_WORK)

    async def _look_at_leases(self) -> None:
        """Watch leases before they end: those whose owner died need not be watched for a whole length after it."""
        self._context.lease_watch.look((await self._letters.find(SOONEST_ENDING)).items)

    def _wake_for_limits(self) -> None:
        """Do at once what the former limits would have had wait: the next time may be sooner now."""
        if self._processor is not None:
            self._processor.wake()
        if self._running_tasks is not None:
            self._running_tasks.wake()

    def _wake_for_work(self, event: Event) -> None:
        if (letter := event.letter) is None or letter.next_retry_at is None:
            return
        if self._processor is not None and not self._processor.is_taking(letter):
            self.wake(letter.next_retry_at)


def not_ours(namespace: str | None) -> str:
    """Explain why letters of another namespace are not run here."""
    return (
        f"letters of namespace {namespace!r} are run by the apps whose dlq_namespace that is, not by this one: redrive "
        "the letter, and they run it"
    )


def _queues(given: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return the names, in order. Raises InvalidInput for anything else."""
    names: Any = (given,) if isinstance(given, str) else () if given is None else given
    if not isinstance(names, Iterable) or not all(isinstance(name, str) and name for name in names):
        raise InvalidInput(f"a queue is named by a text that is not empty, not {given!r:.80}")
    return tuple(sorted(set(names)))


def _is_positive(seconds: object) -> bool:
    return isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds < math.inf


def _refuse(task_id: str, error: str, record: AuditRecord | None = None) -> dict[str, Any]:
    if record is not None:  # no run took place
        record.refuse(error)
    return {"success": False, "task_id": task_id, "error": error}
