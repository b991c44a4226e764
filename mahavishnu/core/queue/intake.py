"""New letters on their way into the store: checked, recorded and announced; and those that wait for room, let in."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from mahavishnu.engine.context import QueueContext
from mahavishnu.engine.dependencies import refuse_circle
from mahavishnu.engine.recorder import CaptureKind, CaptureResult
from mahavishnu.model.errors import QueueFull
from mahavishnu.model.events import Event, EventName
from mahavishnu.model.letter import DeadLetter
from mahavishnu.stores.base import Result

log = logging.getLogger(__name__)
_EVENTS = {
    CaptureKind.CREATED: EventName.CAPTURED,
    CaptureKind.MERGED: EventName.MERGED,
    CaptureKind.REOPENED: EventName.REOPENED,
}


class LetterIntake:
    """Records letters that the letter factory has made."""

    def __init__(self, context: QueueContext) -> None:
        self._context = context

    async def record(self, fresh: DeadLetter) -> CaptureResult:
        """Store a letter, and say how it came in. Raises DLQFullError, InvalidInput, StoreError."""
        context = self._context
        await context.open()  # first: a letter that is too large has to wait somewhere
        context.letter_factory.check_size(fresh)
        if fresh.depends_on:
            await refuse_circle(context.letters, fresh)
        if warning := context.backoffs.problem_with(fresh.retry_policy):
            log.warning("letter %r: %s", fresh.key, warning)
        try:
            captured = await context.recorder.record(fresh, fresh.failures[-1])
        except QueueFull:
            context.counts["rejected_full"] += 1
            raise
        context.announce(_EVENTS[captured.kind], captured.letter)
        return captured

    async def record_many(self, fresh: Sequence[DeadLetter]) -> list[Result[DeadLetter]]:
        """Store letters by one write where that is enough; None for each that needs `record`.

        `announce_captured` has to be called for each that is stored. Raises StoreError if the store could take none.
        """
        await self._context.open()
        simple = [each for each in fresh if self._is_simple(each)]
        stored = await self._context.recorder.record_new(simple) if simple else []
        if len(simple) == len(fresh):
            return stored
        results = {id(each): result for each, result in zip(simple, stored, strict=True)}
        return [results.get(id(each)) for each in fresh]

    def announce_captured(self, letter: DeadLetter) -> None:
        """Publish the event of a letter that `record_many` stored."""
        self._context.announce(EventName.CAPTURED, letter)

    def record_skipped(self, task_id: str, reason: str) -> None:
        """Count, log and publish that a failure was not kept, because the strategy said so."""
        self._context.counts["skipped_by_strategy"] += 1
        log.info("the failure of task %r is not kept: %s", task_id, reason)
        detail = {"task_id": task_id, "reason": reason}
        self._context.events.publish(Event(EventName.SKIPPED, self._context.clock.now(), None, detail))

    async def admit_waiting(self) -> int:
        """Let in failures that wait for room, as far as there is some. Returns how many."""
        await self._context.open()
        if not self._context.admits_waiting:
            return 0
        admitted = await self._context.waiting.admit(self._context.letter_factory.max_task_bytes)
        for letter in admitted:
            self._context.announce(EventName.CAPTURED, letter, waited=True)
        return len(admitted)

    def _is_simple(self, fresh: DeadLetter) -> bool:
        """Whether nothing has to be looked up before it is stored."""
        known = self._context.backoffs.problem_with(fresh.retry_policy) is None
        return known and not fresh.depends_on and self._context.letter_factory.fits(fresh)
