"""Connects workflows with the queue: failed runs are captured, and the workflow's own error survives."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from msgspec.structs import replace

from mahavishnu.capture.adapters import live_attempt
from mahavishnu.capture.capture import CaptureOutcome, CapturePipeline, LetterIntake
from mahavishnu.capture.closing import Closing
from mahavishnu.capture.strategies import (
    DLQIntegrationStrategy,
    Occurrence,
    Strategy,
    decide,
    resolve_strategy,
    strategy_name,
)
from mahavishnu.classify.assess import Assessment, Assessor
from mahavishnu.engine.letter_factory import RequestOf
from mahavishnu.engine.queue import LetterQueue
from mahavishnu.model.errors import MahavishnuError
from mahavishnu.model.ids import DEFAULT_QUEUE
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import ErrorCategory, RetryPolicy
from mahavishnu.values.payload import LetterRequest

log = logging.getLogger(__name__)


class _App(Protocol):
    """An app as an integration needs it."""

    config: Any
    dlq: Any

    async def execute_workflow_parallel(
        self, task: Any, adapter_name: str, repos: Sequence[str] | None = None
    ) -> Mapping[str, Any]: ...


class DLQIntegration:
    """Decides what becomes of failed runs, by a strategy that can be switched at any time."""

    def __init__(
        self,
        app: _App | None,
        dlq: LetterQueue,
        strategy: Strategy | str = DLQIntegrationStrategy.AUTOMATIC,
        *,
        by_category: bool = True,
    ) -> None:
        """`by_category`: failures of the queue, from here or not, get the retry policy of their category."""
        self.app, self.dlq = app, dlq
        factory = dlq.context.letter_factory
        if factory.by_category != by_category:
            dlq.context.letter_factory = replace(factory, by_category=by_category)
        self._counts: Counter[str] = Counter()
        self._pipeline = CapturePipeline(dlq.context, dlq.service(LetterIntake), self._counts)
        self._decide_by(resolve_strategy(strategy))

    def set_strategy(self, strategy: Strategy | str) -> None:
        """Decide by this from the next failure on. Raises InvalidInput, a ValueError, for one that there is not."""
        self._decide_by(resolve_strategy(strategy))
        log.info("DLQ integration strategy set to: %s", strategy_name(self._strategy))

    def _decide_by(self, strategy: Strategy) -> None:
        self._strategy = strategy
        # while nothing is kept, what waits goes on waiting
        self.dlq.context.admits_waiting = strategy is not DLQIntegrationStrategy.DISABLED

    def get_strategy(self) -> Strategy:
        """The strategy that counts now."""
        return self._strategy

    async def should_enqueue(
        self, error: BaseException | str, error_category: ErrorCategory | str | None = None
    ) -> bool:
        """Return True if such a failure would become a letter now."""
        assessment = await self._assess(error, error_category)
        return decide(self._strategy, Occurrence("", {}, (), error, assessment.verdict)).keep

    async def determine_retry_policy(
        self, error: BaseException | str, error_category: ErrorCategory | str | None = None
    ) -> RetryPolicy | str:
        """The policy that such a failure would get, if nobody chooses one."""
        return self.dlq.context.letter_factory.policy_for((await self._assess(error, error_category)).verdict)

    async def _assess(self, error: BaseException | str, named: ErrorCategory | str | None) -> Assessment:
        return await Assessor(self.dlq.context.chain).assess(error, self.dlq.clock.now(), named=named)

    async def capture(
        self, request: LetterRequest, error: BaseException | str, *, requested: bool = False, named: bool = True
    ) -> CaptureOutcome:
        """Keep a failed run if the strategy says so. Never raises, because the run has an error of its own to tell.

        Inside of a retry the failure of the retried workflow itself is not captured unless it is `requested`: its
        letter takes it in. Other workflows that it runs are. `named` False says that the id was made for this failure.
        """
        if (folded := self._count_failure(request, error, requested, named)) is not None:
            return folded
        return await self._pipeline.capture(self._with_trace(request), error, requested, self._strategy)

    def capture_now(
        self, request: LetterRequest, error: BaseException | str, *, requested: bool = False, named: bool = True
    ) -> CaptureOutcome:
        """Capture from sync code: the failure is in a file on return, and a running event loop stores it soon."""
        if (folded := self._count_failure(request, error, requested, named)) is not None:
            return folded
        return self._pipeline.capture_now(self._with_trace(request), error, requested, self._strategy)

    def _with_trace(self, request: LetterRequest) -> LetterRequest:
        return request.with_traceparent(self.dlq.context.tracing.traceparent())

    def _count_failure(
        self, request: LetterRequest, error: BaseException | str, requested: bool, named: bool
    ) -> CaptureOutcome | None:
        """Count a failed run. What became of it, if it is the failure of the run that is being repeated."""
        self._counts["workflows_executed"] += 1
        self._counts["workflows_failed"] += 1
        attempt = live_attempt()
        own_id, namespace = request.task_id if named else None, self.dlq.context.namespace
        if attempt is None or requested or not attempt.is_run_of(own_id, request.task, request.adapter, namespace):
            return None
        attempt.note_own_failure(request.repos, error)
        self._counts["folded"] += 1
        return CaptureOutcome(request.task_id, folded=True)

    async def finish(self) -> None:
        """Wait for captures whose callers gave up."""
        await self._pipeline.finish()

    async def enqueue_failed_workflow(
        self,
        task_id: str,
        task: Any,
        repos: Sequence[str],
        error: BaseException | str,
        retry_policy: RetryPolicy | str | None = None,
        max_retries: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        adapter: str | None = None,
    ) -> DeadLetter | None:
        """Keep a failed run for `adapter`, or the one that its task names; None if it is not, or cannot be, kept."""
        request = LetterRequest(
            task_id=task_id,
            task=task,
            repos=repos,
            retry_policy=retry_policy,
            max_retries=max_retries,
            metadata=metadata,
            adapter=adapter,
        )
        return (await self.capture(request, error)).letter

    async def execute_with_dlq(
        self, task: Any, adapter_name: str, repos: Sequence[str] | None = None
    ) -> Mapping[str, Any]:
        """Run a workflow of the app; the result of one that failed says what became of the failure."""
        if self.app is None:
            raise MahavishnuError("this integration has no app that could run workflows")
        return await self.app.execute_workflow_parallel(task, adapter_name, repos)

    async def get_statistics(self) -> dict[str, Any]:
        """Return the numbers of this integration since it was made, or its statistics were reset."""
        names = ("workflows_executed", "workflows_failed", "auto_enqueued", "manually_enqueued", "kept_waiting")
        counts = {name: self._counts[name] for name in names}
        kept = counts["auto_enqueued"] + counts["manually_enqueued"]
        failed = counts["workflows_failed"] - self._counts["folded"]  # a retry that fails is part of its own letter
        return {
            "strategy": strategy_name(self._strategy),
            **counts,
            "skipped_by_strategy": self._counts["skipped_by_strategy"],
            "capture_failed": self._counts["capture_failed"],
            "cancelled_ignored": self._counts["cancelled_ignored"],
            "enqueue_rate": round(100 * kept / failed, 2) if failed else 0.0,
        }

    def reset_statistics(self) -> None:
        """Count from zero again."""
        self._counts.clear()

    def begin_run(self) -> datetime | None:
        """Return when a run begins whose success is noted; None where successes close no letters."""
        context = self.dlq.context
        return context.clock.now() if context.limits.close_on_success else None

    def note_success(self, task_id: str, request: RequestOf, began: datetime, *, queue: str = DEFAULT_QUEUE) -> None:
        """Have the open letter of this work closed soon: a run of it, which began then, succeeded. Delays nobody.

        `request()` is what a letter of the run would have; it is asked if there is one under its task id.
        """
        attempt = live_attempt()
        if attempt is None or task_id not in (attempt.letter.task_id, attempt.letter.source.id):  # a part of its retry
            self.dlq.service(Closing).note_success(task_id, request, began=began, queue=queue)

    def count_cancelled(self) -> None:
        """Count a run that its caller cancelled, and that is not kept."""
        self._counts["workflows_executed"] += 1
        self._counts["cancelled_ignored"] += 1
        self.dlq.context.counts["cancelled_ignored"] += 1

    def count_run(self, *, failed: bool = False) -> None:
        """Count a run that is not to be captured: it succeeded, or it is a retry, whose failure its letter takes in."""
        self._counts["workflows_executed"] += 1
        if failed:
            self._counts["workflows_failed"] += 1
            self._counts["folded"] += 1
