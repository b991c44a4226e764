"""Running letters: the processor in the background, one cycle by hand, or a single letter."""

from __future__ import annotations

import asyncio
import logging
import math
from abc import ABC, abstractmethod
from dataclasses import replace
from datetime import timedelta
from typing import Any

from mahavishnu.adapters.base import Workflow
from mahavishnu.core.queue.replies import Replies
from mahavishnu.engine.audit import AuditRecord
from mahavishnu.engine.background import HEARTBEAT_SECONDS, PeriodicTask, PeriodicTasks, WorkerRegistry
from mahavishnu.engine.breaker import Breakers
from mahavishnu.engine.context import DEFAULT_ACTOR, QueueContext
from mahavishnu.engine.limits import Limits
from mahavishnu.engine.moves import move
from mahavishnu.engine.processor import Processor
from mahavishnu.model import lifecycle
from mahavishnu.model.errors import IllegalMove, InvalidInput
from mahavishnu.model.events import Event, EventName
from mahavishnu.model.ids import DEFAULT_NAMESPACE, DEFAULT_QUEUE, document_key, new_token
from mahavishnu.model.letter import DeadLetter
from mahavishnu.stores.base import get_one
from mahavishnu.stores.workers import WORKERS

log = logging.getLogger(__name__)
HEALTH_SECONDS = 300.0
REPLIES_SECONDS = 3600.0
GROUPS_SECONDS = 60.0
REQUEUE_SECONDS = 60.0
_BRINGS_WORK = frozenset(
    {EventName.CAPTURED, EventName.REOPENED, EventName.REDRIVEN, EventName.REQUEUED, EventName.EDITED}
)
_MAKES_ROOM = frozenset({EventName.RESOLVED, EventName.ARCHIVED, EventName.REDRIVEN, EventName.CLEARED})


class Running(ABC):
    """The part of `DeadLetterQueue` that runs letters."""

    context: QueueContext
    replies: Replies
    _carrying: PeriodicTask

    def _prepare_processing(self) -> None:
        self.callback = self.context.options.callback
        self.roster = WorkerRegistry(self.context.store.collection(WORKERS), self.context.owner, self.context.clock)
        self._given_interval: float | None = None
        self._processor: Processor | None = None
        self._runs_in: asyncio.AbstractEventLoop | None = None
        self._housekeeping: PeriodicTasks | None = None
        self._stopping: list[Processor] = []  # and those that run one cycle
        self._admitting = PeriodicTask(
            "letting in what waits", self.admit, lambda: self.context.limits.interval_seconds
        )
        self.context.session.on_new_loop(self._leave_former_loop)
        self.context.events.subscribe(self._on_event)

    @abstractmethod
    async def admit(self) -> int: ...

    @abstractmethod
    async def health_warnings(self) -> list[str]: ...

    @abstractmethod
    async def look_at_groups(self) -> int: ...

    @abstractmethod
    async def requeue_exhausted(self) -> int: ...

    async def start_retry_processor(
        self, callback: Workflow | None = None, check_interval_seconds: float | None = None
    ) -> None:
        """Retry due letters with `callback(task, repos)` from now on. Starting twice keeps one processor.

        The callback fails by raising, or by a result that says so. Raises InvalidInput if no callback was ever given.
        """
        if callback is not None and not callable(callback):
            raise InvalidInput(f"a callback is a function of a task and its repos, not {callback!r:.80}")
        if check_interval_seconds is not None and not _is_positive(check_interval_seconds):
            raise InvalidInput(f"check_interval_seconds must be a number above 0, not {check_interval_seconds!r:.80}")
        await self.context.open()
        if check_interval_seconds is not None:
            self._given_interval = check_interval_seconds
            self.configure(limits=replace(self.context.limits, interval_seconds=check_interval_seconds))
        self.callback = callback or self.callback
        if self._processor is not None:
            return
        processor = self._new_processor()
        self._processor, self._runs_in = processor, asyncio.get_running_loop()
        try:
            await self.roster.heartbeat()
        except asyncio.CancelledError:
            if self._processor is processor:
                self._processor = None
            raise
        if self._processor is not processor:  # stopped meanwhile
            return
        processor.start()
        await self._keep_house(PeriodicTask("the list of workers", self.roster.heartbeat, lambda: HEARTBEAT_SECONDS))

    async def start_chores(self) -> None:
        """Do all that a processor does besides running letters: let in what waits, carry bulk runs on, look at groups.

        For a process that has no callback, such as a server. `stop_retry_processor` and `shutdown` end it.
        """
        await self.context.open()
        self._leave_former_loop()
        if self._housekeeping is None:
            self._runs_in = asyncio.get_running_loop()
            await self._keep_house()

    async def _keep_house(self, *more: PeriodicTask) -> None:
        if self._housekeeping is not None:
            await self._housekeeping.stop()
        self._housekeeping = PeriodicTasks(
            self.context.clock,
            self._admitting,
            self._carrying,
            PeriodicTask("a look at the queue's health", self._warn, lambda: HEALTH_SECONDS),
            PeriodicTask("a look at the groups", self.look_at_groups, lambda: GROUPS_SECONDS),
            PeriodicTask("automatic requeues", self.requeue_exhausted, lambda: REQUEUE_SECONDS),
            PeriodicTask("forgetting old replies", self.replies.clean, lambda: REPLIES_SECONDS),
            *more,
        )
        self._housekeeping.start()

    async def stop_retry_processor(self) -> None:
        """Take no more letters; what runs may end for a while, what does not is given back unused."""
        self._leave_former_loop()
        if self._processor is not None:
            self._stopping.append(self._processor)
            self._processor = None
        if self._housekeeping is not None:
            housekeeping, self._housekeeping = self._housekeeping, None
            await housekeeping.stop()
        for processor in list(self._stopping):  # also one whose stopping was cancelled
            await processor.stop()
            await self.roster.deregister()
            if processor in self._stopping:
                self._stopping.remove(processor)

    async def run_due(self) -> int:
        """Run everything that is due now and wait for it: one cycle. Returns how many ran.

        Raises InvalidInput if no callback was ever given.
        """
        await self.admit()
        if self._processor is not None:
            return await self._processor.cycle()
        processor = self._new_processor()
        self._leave_former_loop()
        self._runs_in = asyncio.get_running_loop()
        self._stopping.append(processor)  # whoever stops or closes the queue meanwhile does not leave its runs alone
        try:
            return await processor.cycle()
        finally:
            if processor in self._stopping and not processor.is_busy:
                self._stopping.remove(processor)

    async def retry_task(
        self,
        task_id: str,
        *,
        force: bool = False,
        by: str = DEFAULT_ACTOR,
        notes: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        queue: str = DEFAULT_QUEUE,
    ) -> dict[str, Any]:
        """Run a pending or exhausted letter now, without using up its automatic retries.

        Answers `{"success": True, "result": …}` or `{"success": False, "error": why}`, and raises only StoreError and
        InvalidInput. An open circuit refuses unless `force`.
        """
        key = document_key(task_id, namespace, queue)
        async with self.context.audit.record("retry", f"letter:{key}", by=by, reason=notes) as record:
            return await self._retried(task_id, key, force, record)

    async def _retried(self, task_id: str, key: str, force: bool, record: AuditRecord) -> dict[str, Any]:
        token = new_token()
        letter = await get_one(self.context.letters, key)
        if letter is None:
            return _refused(task_id, "there is no letter for this task", record)
        if self.callback is None:
            return _refused(
                task_id, "no callback is registered that could run it: start the processor or give one", record
            )
        adapter = letter.adapter
        wait = None if force else self.context.breakers.acquire(adapter, self.context.clock.monotonic(), token)
        if wait is not None:
            why = f"circuit open for adapter {adapter!r}, it is tried again in {wait:.0f} seconds"
            return _refused(task_id, why, record)
        claimed = None
        try:
            claimed = await move(self.context.letters, key, lambda current: self._taken_by_hand(current, token))
        except IllegalMove as problem:
            return _refused(task_id, str(problem), record)
        finally:
            if claimed is None:
                self.context.breakers.release(adapter, token)
        if claimed is None:
            return _refused(task_id, "there is no letter for this task", record)
        attempt = await (self._processor or self._new_processor()).run_claimed(claimed, token)
        settled = attempt.settled
        if settled is None:
            why = "the run's lease was lost, or its outcome could not be recorded"
            record.add(outcome=why)
            return _refused(task_id, why)
        record.add_change(letter, settled)
        if attempt.assessment is not None:
            return {**_refused(task_id, attempt.assessment.failure.message), "status": str(settled.status)}
        return {"success": True, "task_id": task_id, "status": str(settled.status), "result": attempt.result}

    def configure(
        self, *, limits: Limits | None = None, breakers: Breakers | None = None, keep_interval: bool = False
    ) -> None:
        """Go on with other limits; they count from the next look at the queue.

        With `keep_interval` an interval that `start_retry_processor` was given stays.
        """
        if limits is not None:
            if keep_interval and self._given_interval is not None:
                limits = replace(limits, interval_seconds=self._given_interval)
            self.context.limits = limits
            if self._processor is not None:
                self._processor.wake()
        if breakers is not None:
            self.context.breakers.threshold, self.context.breakers.cooloff_seconds = (
                breakers.threshold,
                breakers.cooloff_seconds,
            )

    def _leave_former_loop(self) -> None:
        """A processor ends with its event loop, whether or not it was stopped."""
        if self._runs_in is not asyncio.get_running_loop():
            self._processor = self._housekeeping = None
            self._stopping = []

    def _taken_by_hand(self, current: DeadLetter, token: str) -> DeadLetter:
        now = self.context.clock.now()
        if self.context.limits.may_be_leased(current, now):
            raise IllegalMove(current.key, "claim", "already being retried", f"until {current.due_at}")
        until = now + timedelta(seconds=self.context.limits.lease_seconds)
        return lifecycle.claim(
            current,
            owner=self.context.owner,
            token=token,
            until=until,
            now=now,
            manual=True,
            backoffs=self.context.backoffs,
        )

    def _new_processor(self) -> Processor:
        if self.callback is None:
            raise InvalidInput("no callback is registered that could run letters: give a callback(task, repos)")
        return Processor(self.context, self.callback, partitions=self.roster.partitions)

    async def _warn(self) -> None:
        for warning in await self.health_warnings():
            log.warning("%s", warning)

    def _on_event(self, event: Event) -> None:
        """Wake whoever waits for what has just been written."""
        if event.name in _MAKES_ROOM or (
            event.name is EventName.RETRY_SUCCEEDED and event.letter is not None and not event.letter.is_open
        ):
            self._admitting.wake()
        due = event.letter.next_retry_at if event.letter is not None else None
        if self._processor is not None and due is not None and event.name in _BRINGS_WORK:
            self._processor.wake(due)


def _is_positive(seconds: object) -> bool:
    return isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds < math.inf


def _refused(task_id: str, error: str, record: AuditRecord | None = None) -> dict[str, Any]:
    if record is not None:  # no run took place
        record.refuse(error)
    return {"success": False, "task_id": task_id, "error": error}
