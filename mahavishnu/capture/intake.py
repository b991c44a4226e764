"""Intake of new letters, whoever brings them: records them, announces them, and raises what keeps it from that."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from mahavishnu.capture.dependencies import refuse_circle
from mahavishnu.classify.assess import Assessor, context_for
from mahavishnu.engine.context import QueueContext
from mahavishnu.engine.recorder import CaptureKind, CaptureResult
from mahavishnu.model.backoff import BUILT_IN
from mahavishnu.model.errors import QueueFull
from mahavishnu.model.events import Event, EventName, log_event
from mahavishnu.model.json_value import texts
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import ErrorCategory
from mahavishnu.stores.base import Result
from mahavishnu.values.payload import LetterRequest

log = logging.getLogger(__name__)
_EVENTS = {
    CaptureKind.CREATED: EventName.CAPTURED,
    CaptureKind.MERGED: EventName.MERGED,
    CaptureKind.REOPENED: EventName.REOPENED,
}


class LetterIntake:
    """Records new letters and announces them; lets in those that wait for room."""

    def __init__(self, context: QueueContext) -> None:
        self._queue = context

    async def enqueue(
        self, request: LetterRequest, error: BaseException | str, named: ErrorCategory | str | None = None
    ) -> CaptureResult:
        """Make a letter of a failure, whatever the strategy says, and record it. A `named` category counts.

        Raises InvalidInput for what cannot be kept, and what `record` raises.
        """
        queue, task_id, now = self._queue, request.task_id, self._queue.clock.now()
        request = request.with_traceparent(queue.tracing.traceparent())
        context = context_for(
            now, task_id, request.task, request.adapter, texts(request.repos, f"repos of task {task_id!r:.80}")
        )
        assessment = await Assessor(queue.chain).assess(error, now, context, named)
        return await self.record(queue.letter_factory.make(request, assessment, now, backoffs=queue.backoffs))

    async def record(self, letter: DeadLetter) -> CaptureResult:
        """Store a letter, and say how it came in. Raises DLQFullError, InvalidInput, StoreError."""
        queue = self._queue
        await queue.open()  # first: a letter that is too large has to wait somewhere
        queue.letter_factory.check_size(letter)
        if letter.depends_on:
            await refuse_circle(queue.letters, letter)
        if warning := queue.backoffs.problem_with(letter.retry_policy):
            log.warning("letter %r: %s", letter.key, warning)
        try:
            recorded = await queue.recorder.record(letter, letter.failures[-1])
        except QueueFull:
            queue.counts["rejected_full"] += 1
            raise
        queue.announce(_EVENTS[recorded.kind], recorded.letter)
        return recorded

    async def record_many(self, letters: Sequence[DeadLetter]) -> list[Result[DeadLetter]]:
        """Store letters by one write where that is enough; None for each that needs `record`.

        `announce_captured` has to be called for each that is stored. Raises StoreError if the store could take none.
        """
        simple = [each for each in letters if self._is_simple(each)]
        await self._queue.open()
        stored = await self._queue.recorder.record_new(simple) if simple else []
        if len(simple) == len(letters):
            return stored
        results = {id(each): result for each, result in zip(simple, stored, strict=True)}
        return [results.get(id(each)) for each in letters]

    def announce_captured(self, letter: DeadLetter) -> None:
        """Publish the event of a letter that `record_many` stored."""
        self._queue.announce(EventName.CAPTURED, letter)

    def record_skipped(self, task_id: str, reason: str) -> None:
        """Count, log and publish that a failure was not kept, because the strategy said so."""
        self._queue.counts["skipped_by_strategy"] += 1
        log.info("the failure of task %r is not kept: %s", task_id, reason, extra=log_event("capture.skipped"))
        detail = {"task_id": task_id, "reason": reason}
        self._queue.events.publish(Event(EventName.SKIPPED, self._queue.clock.now(), None, detail))

    async def admit_waiting(self) -> int:
        """Let in failures that wait for room, as far as there is some. Returns how many."""
        await self._queue.open()
        if not self._queue.admits_waiting:
            return 0
        admitted = await self._queue.waiting.admit(self._queue.letter_factory.max_task_bytes)
        for letter in admitted:
            self._queue.announce(EventName.CAPTURED, letter, waited=True)
        return len(admitted)

    def _is_simple(self, letter: DeadLetter) -> bool:
        """Return True if nothing has to be looked up before it is stored, and there is room where most letters go."""
        queue = self._queue
        if letter.namespace != queue.namespace:
            return False
        policy = letter.retry_policy
        known = policy in BUILT_IN or queue.backoffs.problem_with(policy) is None
        return known and not letter.depends_on and len(letter.payload.text) <= queue.letter_factory.max_task_bytes
