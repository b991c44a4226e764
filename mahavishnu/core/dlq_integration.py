"""Between workflows and the queue: a run that fails is captured here, and the workflow's own error always survives."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from mahavishnu.classify.causes import said
from mahavishnu.classify.failure import cut
from mahavishnu.classify.verdict import POLICY_OF
from mahavishnu.classify.verdict import Context as Asked
from mahavishnu.core import wiring
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.core.intake import Wanted, redacted
from mahavishnu.core.judging import Judged, context_for, judge, judge_at_once
from mahavishnu.core.strategies import (
    DLQIntegrationStrategy,
    Occurrence,
    Strategy,
    decide,
    name_of,
    strategy_of,
)
from mahavishnu.core.waiting import Where
from mahavishnu.engine.gathering import Gathering
from mahavishnu.model.attempt import current_attempt
from mahavishnu.model.drafts import maker
from mahavishnu.model.errors import InvalidPayload, MahavishnuError, QueueFull, StoreError
from mahavishnu.model.letter import DeadLetter, ErrorCategory, RetryPolicy
from mahavishnu.model.payload import held, told

__all__ = ["DLQIntegration", "DLQIntegrationStrategy", "Decided", "create_dlq_integration"]
log = logging.getLogger(__name__)
_LONGEST_REASON = 500
_LONGEST_TURN = 0.01  # seconds


class _App(Protocol):
    """What this needs of an app."""

    config: Any
    dlq: Any

    async def execute_workflow_parallel(
        self, task: Any, adapter_name: str, repos: Sequence[str] | None = None
    ) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Decided:
    """What became of a failed run. Exactly one of `letter`, `skip_reason`, `problem` and `folded` says so."""

    task_id: str
    category: ErrorCategory | None = None
    letter: DeadLetter | None = None
    skip_reason: str | None = None
    problem: str | None = None
    folded: bool = False  # it happened inside of a retry, and its letter will hear of it

    def as_result(self) -> dict[str, Any]:
        """The keys that a workflow's result gets."""
        result: dict[str, Any] = {"dlq_enqueued": self.letter is not None, "error_category": self.category}
        if self.letter is not None:
            result |= {"dlq_task_id": self.letter.task_id, "retry_policy": str(self.letter.retry_policy)}
            result |= {"max_retries": self.letter.max_retries}
        for name, value in (("dlq_skip_reason", self.skip_reason), ("dlq_error", self.problem)):
            if value is not None:
                result[name] = value
        return result


@dataclass(slots=True)
class _Case:
    """A failure on its way into the store, and who waits for the end of it."""

    wanted: Wanted
    error: BaseException | str
    adapter: str | None
    requested: bool
    strategy: Strategy  # one for all of this, whatever is switched meanwhile
    answer: asyncio.Future[Decided]
    context: Context  # of who waits: what is told and logged belongs to its trace
    judged: Judged | None = None
    reason: str = ""
    fresh: DeadLetter | None = None  # the letter that it makes

    @property
    def category(self) -> ErrorCategory | None:
        return self.judged.verdict.category if self.judged else None

    def settle(self, decided: Decided) -> None:
        """Tell who waits, unless they have given up."""
        if not self.answer.done():
            self.answer.set_result(decided)


_new_occurrence, _new_decided = maker(Occurrence), maker(Decided)


class DLQIntegration:
    """Decides what becomes of failed runs, by a strategy that can be switched at any time."""

    def __init__(
        self,
        app: _App | None,
        dlq: DeadLetterQueue,
        strategy: Strategy | str = DLQIntegrationStrategy.AUTOMATIC,
        *,
        by_category: bool = True,
    ) -> None:
        self.app, self.dlq = app, dlq
        self.by_category = by_category
        self._counts: Counter[str] = Counter()
        self._gathering = Gathering(self._keep)
        self._decide_by(strategy_of(strategy))

    def set_strategy(self, strategy: Strategy | str) -> None:
        """Decide by this from the next failure on. Raises InvalidInput, a ValueError, for one that there is not."""
        self._decide_by(strategy_of(strategy))
        log.info("DLQ integration strategy set to: %s", name_of(self._strategy))

    def _decide_by(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self.dlq.admits = strategy is not DLQIntegrationStrategy.DISABLED  # then what waits goes on waiting

    def get_strategy(self) -> Strategy:
        """The strategy that counts now."""
        return self._strategy

    async def should_enqueue(
        self, error: BaseException | str, error_category: ErrorCategory | str | None = None
    ) -> bool:
        """Whether such a failure would become a letter now."""
        judged = await judge(self.dlq.chain, error, self.dlq.clock.now(), said=error_category)
        return decide(self._strategy, Occurrence("", {}, (), error, judged.verdict)).keep

    async def determine_retry_policy(
        self, error: BaseException | str, error_category: ErrorCategory | str | None = None
    ) -> RetryPolicy | str:
        """The policy that such a failure's category, or its classifier, advises."""
        verdict = (await judge(self.dlq.chain, error, self.dlq.clock.now(), said=error_category)).verdict
        return verdict.policy or POLICY_OF[verdict.category]

    async def capture(
        self, wanted: Wanted, error: BaseException | str, *, adapter: str | None = None, requested: bool = False
    ) -> Decided:
        """Decide on a failed run, and keep it if so decided. Never raises: the run has an error of its own to tell.

        Inside of a retry nothing is captured unless it is `requested`: the retry's own letter takes the failure in.
        """
        self._counts["workflows_executed"] += 1
        self._counts["workflows_failed"] += 1
        attempt = current_attempt.get()
        if attempt is not None and not attempt.is_over and not requested:
            self._counts["folded"] += 1
            return Decided(wanted.task_id, folded=True)
        answer = asyncio.get_running_loop().create_future()
        case = _Case(wanted, error, adapter, requested, self._strategy, answer, copy_context())
        if self.dlq.chain.is_prompt:
            self._gathering.add(case)
        else:
            self._gathering.follow(self._judge_first(case), [case], case.context)
        del wanted, error, case  # many wait here at once: nothing is held that is not needed
        decided: Decided = await answer  # who waits for this may give up: the run has failed all the same
        return decided

    async def finish(self) -> None:
        """Wait for what is being captured although nobody waits for it any more."""
        await self._gathering.finish()

    async def _judge_first(self, case: _Case) -> None:
        """Plugins take their time: nobody else's failure waits for them."""
        try:
            now = self.dlq.clock.now()
            case.judged = await judge(self.dlq.chain, case.error, now, _context(case, now))
        except Exception as problem:
            self._not_captured(case, problem)
        else:
            self._gathering.add(case)

    async def _keep(self, cases: Sequence[_Case]) -> None:
        """Failures that came in together, one step after the other for all: that takes half of the time."""
        now = self.dlq.clock.now()
        try:
            for step in (self._judge, self._decide):
                cases = await self._done(step, cases, now)
            kept = [(case, case.fresh) for case in cases if case.fresh is not None]
            if kept:
                await self._store(kept)
        except Exception as problem:  # a mistake of ours: nobody may be left waiting
            for case in cases:
                if not case.answer.done():
                    self._not_captured(case, problem)

    async def _done(
        self, step: Callable[[_Case, datetime], None], cases: Sequence[_Case], now: datetime
    ) -> Sequence[_Case]:
        """Those that got through the step. What takes long, such as long texts, lets others have their turn."""
        clock, done = self.dlq.clock, list[_Case]()
        began = clock.monotonic()
        for case in cases:
            try:
                case.context.run(step, case, now)
            except Exception as problem:
                self._not_captured(case, problem)
            else:
                done.append(case)
            if clock.monotonic() - began > _LONGEST_TURN:
                await clock.sleep(0)
                began = clock.monotonic()
        return done

    def _judge(self, case: _Case, now: datetime) -> None:
        if case.judged is None:
            case.judged = judge_at_once(self.dlq.chain, case.error, now, _context(case, now))

    def _decide(self, case: _Case, now: datetime) -> None:
        """What the strategy says of it, and the letter that it makes if it is to be kept."""
        wanted, judged = case.wanted, case.judged
        assert judged is not None
        occurrence = _new_occurrence(
            task_id=wanted.task_id,
            task=wanted.task,
            repos=tuple(wanted.repos),
            error=case.error,
            verdict=judged.verdict,
            requested=case.requested,
        )
        decision = decide(case.strategy, occurrence)
        if not decision.keep:
            self.dlq.skipped(wanted.task_id, decision.reason)
            self._counts["skipped_by_strategy"] += 1
            case.settle(Decided(wanted.task_id, judged.verdict.category, skip_reason=decision.reason))
            return
        case.reason = decision.reason
        wanted = _advised(wanted, decision.retry_policy, decision.max_retries)
        try:
            case.fresh = self._letter(wanted, judged, now)
        except Exception as problem:  # writing it runs code of whatever is in it
            if isinstance(problem, MahavishnuError) and not isinstance(problem, InvalidPayload):
                raise
            why = cut(said(problem) or type(problem).__name__, _LONGEST_REASON)
            log.error("task %r is kept as far as JSON can hold it, and nothing retries it: %s", wanted.task_id, why)
            case.fresh = self._letter(self.dlq.intake.described(wanted, why), judged, now)

    def _letter(self, wanted: Wanted, judged: Judged, now: datetime) -> DeadLetter:
        intake, backoffs = self.dlq.intake, self.dlq.backoffs
        return intake.letter(wanted, judged, now, by_category=self.by_category, backoffs=backoffs)

    async def _store(self, kept: Sequence[tuple[_Case, DeadLetter]]) -> None:
        """Letters by one call; those that need more than that are seen to one by one."""
        outcomes: Sequence[DeadLetter | Exception | None]
        try:
            outcomes = await self.dlq.create([fresh for _, fresh in kept])
        except Exception as problem:
            outcomes = [problem] * len(kept)
        for (case, fresh), outcome in zip(kept, outcomes, strict=True):
            if isinstance(outcome, DeadLetter):
                case.context.run(self._created, case, outcome)
            else:
                self._gathering.follow(self._store_alone(case, fresh, outcome), [case], case.context)

    async def _store_alone(self, case: _Case, fresh: DeadLetter, problem: Exception | None) -> None:
        """The same for one whose task has a letter already, or that there is no room for, or that met a `problem`."""
        try:
            try:
                if problem is not None:
                    raise problem
                self._kept(case, (await self.dlq.capture(fresh)).letter)
            except (QueueFull, StoreError, InvalidPayload) as refused:
                waits = await self._kept_waiting(fresh, refused)
                case.settle(Decided(fresh.task_id, case.category, problem=waits))
        except Exception as another:
            self._not_captured(case, another)

    def _created(self, case: _Case, letter: DeadLetter) -> None:
        self.dlq.created(letter)
        self._kept(case, letter)

    def _kept(self, case: _Case, letter: DeadLetter) -> None:
        self._counts["manually_enqueued" if case.requested else "auto_enqueued"] += 1
        case.settle(_new_decided(task_id=letter.task_id, category=case.category, letter=letter))
        log.warning("task %s is in the DLQ (%s): %s", letter.task_id, case.reason, letter.last_error)

    def _not_captured(self, case: _Case, problem: Exception) -> None:
        self.dlq.counts["capture_failed"] += 1
        self._counts["capture_failed"] += 1
        log.error(
            "the failure of task %s could not be captured; its error: %s; its payload: %.2000s",
            told(case.wanted.task_id),
            told(case.error),
            redacted(held(case.wanted.task), self.dlq.intake.redact_keys),
            exc_info=problem,
        )
        case.settle(Decided(case.wanted.task_id, problem=f"{type(problem).__name__}: {said(problem)}"))

    async def _kept_waiting(self, fresh: DeadLetter, problem: MahavishnuError) -> str:
        """It cannot be a letter now; it waits until it can, and this says so."""
        where = await self.dlq.waiting.keep(fresh)
        self._counts["kept_waiting"] += 1
        lasting = "" if where is Where.STORE else " in this process's memory, because the store cannot take it"
        told_so = f"{problem}; it waits{lasting} to be let in (entry {fresh.entry_id})"
        log.error("the failure of task %r is no letter yet: %s", fresh.task_id, told_so)
        return told_so

    async def enqueue_failed_workflow(
        self,
        task_id: str,
        task: Any,
        repos: Sequence[str],
        error: BaseException | str,
        retry_policy: RetryPolicy | str | None = None,
        max_retries: int | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> DeadLetter | None:
        """Keep a failed run if the strategy says so; None if it does not, or if it could not be kept."""
        wanted = Wanted(
            task_id=task_id,
            task=task,
            repos=repos,
            retry_policy=retry_policy,
            max_retries=max_retries,
            metadata=metadata,
        )
        return (await self.capture(wanted, error)).letter

    async def execute_with_dlq(
        self, task: Any, adapter_name: str, repos: Sequence[str] | None = None
    ) -> Mapping[str, Any]:
        """Run a workflow of the app; the result of one that failed says what became of the failure."""
        if self.app is None:
            raise MahavishnuError("this integration has no app that could run workflows")
        return await self.app.execute_workflow_parallel(task, adapter_name, repos)

    async def get_statistics(self) -> dict[str, Any]:
        """What this integration did since it was made, or its statistics were reset."""
        names = ("workflows_executed", "workflows_failed", "auto_enqueued", "manually_enqueued", "kept_waiting")
        counts = {name: self._counts[name] for name in names}
        kept = counts["auto_enqueued"] + counts["manually_enqueued"]
        failed = counts["workflows_failed"] - self._counts["folded"]  # a retry that fails is part of its own letter
        return {
            "strategy": name_of(self._strategy),
            **counts,
            "skipped_by_strategy": self._counts["skipped_by_strategy"],
            "capture_failed": self._counts["capture_failed"],
            "enqueue_rate": round(100 * kept / failed, 2) if failed else 0.0,
        }

    def reset_statistics(self) -> None:
        """Count from zero again."""
        self._counts.clear()

    def succeeded(self) -> None:
        """A workflow ran without a failure."""
        self._counts["workflows_executed"] += 1


def create_dlq_integration(app: Any) -> DLQIntegration:
    """The integration for an app that has a `dlq`, with the strategy of its `config`.

    A queue that the app made by itself follows the settings where it was not told otherwise, and runs letters as the
    app does.
    """
    config = getattr(app, "config", None)
    if isinstance(config, MahavishnuSettings):
        wiring.furnish(app.dlq, config, getattr(app, "chain", None))
    if app.dlq.callback is None:
        app.dlq.callback = getattr(app, "run_again", None)
    strategy = getattr(config, "dlq_strategy", DLQIntegrationStrategy.AUTOMATIC)
    by_category = getattr(config, "dlq_automatic_policy", "category") == "category"
    return DLQIntegration(app, app.dlq, strategy, by_category=by_category)


def _advised(wanted: Wanted, policy: str | None, budget: int | None) -> Wanted:
    """`wanted` with the strategy's advice where the caller said nothing."""
    if policy is None and budget is None:
        return wanted
    return wanted._replace(
        retry_policy=wanted.retry_policy if wanted.retry_policy is not None else policy,
        max_retries=wanted.max_retries if wanted.max_retries is not None else budget,
    )


def _context(case: _Case, now: datetime) -> Asked:
    wanted = case.wanted
    return context_for(now, wanted.task_id, wanted.task, case.adapter, tuple(wanted.repos))
