"""Failed runs on their way to letters: assessment, decided on and stored, those that come in together in one go.

Nothing here raises: the run has an error of its own to tell.
"""

from __future__ import annotations

import logging
from asyncio import Future
from collections import Counter
from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mahavishnu.classify.assess import Assessment, Assessor, context_for
from mahavishnu.classify.exceptions import cut, safe_str
from mahavishnu.classify.verdict import Context as Asked
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.core.strategies import Occurrence, Strategy, decide
from mahavishnu.engine.batching import Batcher, resolve
from mahavishnu.engine.letter_factory import LetterRequest, redact
from mahavishnu.engine.waiting_room import WaitingPlace
from mahavishnu.model.errors import ENDS, InvalidPayload, MahavishnuError, QueueFull, StoreError
from mahavishnu.model.json_value import json_safe_copy, safe_repr
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import ErrorCategory, fast_constructor

log = logging.getLogger(__name__)
_LONGEST_REASON = 500
_LONGEST_TURN = 0.01  # seconds


@dataclass(frozen=True, slots=True)
class CaptureOutcome:
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
class PendingCapture:
    """A failure on its way into the store, and who waits for the end of it."""

    request: LetterRequest
    error: BaseException | str
    adapter: str | None
    requested: bool
    strategy: Strategy  # one for all of this, whatever is switched meanwhile
    future: Future[CaptureOutcome]
    context: Context  # of who waits: what is told and logged belongs to its trace
    assessment: Assessment | None = None
    reason: str = ""
    letter: DeadLetter | None = None  # the letter that it makes

    @property
    def category(self) -> ErrorCategory | None:
        return self.assessment.verdict.category if self.assessment else None


_new_occurrence, _new_decided = fast_constructor(Occurrence), fast_constructor(CaptureOutcome)


class CapturePipeline:
    """Takes failures through the steps; `counts` is told what became of them."""

    def __init__(self, dlq: DeadLetterQueue, counts: Counter[str], *, by_category: Callable[[], bool]) -> None:
        self.dlq, self._counts, self._by_category = dlq, counts, by_category
        self._gathering = Batcher(self._keep)

    def submit(self, case: PendingCapture) -> None:
        """See to it that the case is answered, whoever gives up waiting for that."""
        if self.dlq.context.chain.is_prompt:
            self._gathering.add(case)
        else:
            self._gathering.spawn(self._assess_first(case), [case], case.context)

    async def finish(self) -> None:
        """Return when all that has begun has come to its end."""
        await self._gathering.finish()

    async def _assess_first(self, case: PendingCapture) -> None:
        """Plugins take their time: nobody else's failure waits for them."""
        try:
            now = self.dlq.clock.now()
            case.assessment = await Assessor(self.dlq.context.chain).assess(case.error, now, _context(case, now))
        except Exception as problem:
            self._not_captured(case, problem)
        else:
            self._gathering.add(case)

    async def _keep(self, cases: Sequence[PendingCapture]) -> None:
        """Failures that came in together, one step after the other for all: that takes half of the time."""
        now = self.dlq.clock.now()
        if not self.dlq.context.chain.is_prompt:  # a plugin has been registered since
            for case in cases:
                if case.assessment is None:
                    self._gathering.spawn(self._assess_first(case), [case], case.context)
            cases = [case for case in cases if case.assessment is not None]
        try:
            for step in (self._assess, self._decide):
                cases = await self._done(step, cases, now)
            kept = [(case, case.letter) for case in cases if case.letter is not None]
            if kept:
                await self._store(kept)
        except Exception as problem:  # a mistake of ours: nobody may be left waiting
            for case in cases:
                if not case.future.done():
                    self._not_captured(case, problem)

    async def _done(
        self, step: Callable[[PendingCapture, datetime], None], cases: Sequence[PendingCapture], now: datetime
    ) -> Sequence[PendingCapture]:
        """Those that got through the step. What takes long, such as long texts, lets others have their turn."""
        clock, done = self.dlq.clock, list[PendingCapture]()
        began = clock.monotonic()
        for case in cases:
            try:
                case.context.run(step, case, now)
            except ENDS:
                raise
            except BaseException as problem:
                self._not_captured(case, problem)
            else:
                done.append(case)
            if clock.monotonic() - began > _LONGEST_TURN:
                await clock.sleep(0)
                began = clock.monotonic()
        return done

    def _assess(self, case: PendingCapture, now: datetime) -> None:
        if case.assessment is None:
            case.assessment = Assessor(self.dlq.context.chain).assess_sync(case.error, now, _context(case, now))

    def _decide(self, case: PendingCapture, now: datetime) -> None:
        """What the strategy says of it, and the letter that it makes if it is to be kept."""
        wanted, assessment = case.request, case.assessment
        assert assessment is not None
        occurrence = _new_occurrence(
            task_id=wanted.task_id,
            task=wanted.task,
            repos=tuple(wanted.repos),
            error=case.error,
            verdict=assessment.verdict,
            requested=case.requested,
        )
        decision = decide(case.strategy, occurrence)
        if not decision.keep:
            self.dlq.intake.record_skipped(wanted.task_id, decision.reason)
            self._counts["skipped_by_strategy"] += 1
            resolve(
                case.future, CaptureOutcome(wanted.task_id, assessment.verdict.category, skip_reason=decision.reason)
            )
            return
        case.reason = decision.reason
        wanted = _advised(wanted, decision.retry_policy, decision.max_retries)
        try:
            case.letter = self._letter(wanted, assessment, now)
        except ENDS:
            raise
        except BaseException as problem:  # writing it runs code of whatever is in it
            if isinstance(problem, MahavishnuError) and not isinstance(problem, InvalidPayload):
                raise
            why = cut(safe_str(problem) or type(problem).__name__, _LONGEST_REASON)
            log.error("task %r is kept as far as JSON can hold it, and nothing retries it: %s", wanted.task_id, why)
            case.letter = self._letter(self.dlq.context.letter_factory.with_placeholders(wanted, why), assessment, now)

    def _letter(self, wanted: LetterRequest, assessment: Assessment, now: datetime) -> DeadLetter:
        intake, backoffs = self.dlq.context.letter_factory, self.dlq.context.backoffs
        return intake.make(wanted, assessment, now, by_category=self._by_category(), backoffs=backoffs)

    async def _store(self, kept: Sequence[tuple[PendingCapture, DeadLetter]]) -> None:
        """Letters by one call; those that need more than that are seen to one by one."""
        outcomes: Sequence[DeadLetter | Exception | None]
        try:
            outcomes = await self.dlq.intake.record_many([fresh for _, fresh in kept])
        except Exception as problem:
            outcomes = [problem] * len(kept)
        for (case, fresh), outcome in zip(kept, outcomes, strict=True):
            if isinstance(outcome, DeadLetter):
                try:
                    case.context.run(self._created, case, outcome)
                except Exception:  # the others are stored, too, and have to be told
                    log.exception("letter %r is stored, but something stumbled over it", outcome.key)
            else:
                self._gathering.spawn(self._store_alone(case, fresh, outcome), [case], case.context)

    async def _store_alone(self, case: PendingCapture, fresh: DeadLetter, problem: Exception | None) -> None:
        """The same for one whose task has a letter already, or that there is no room for, or that met a `problem`."""
        try:
            try:
                if problem is not None:
                    raise problem
                self._kept(case, (await self.dlq.intake.record(fresh)).letter)
            except (QueueFull, StoreError, InvalidPayload) as refused:
                waits = await self._kept_waiting(fresh, refused)
                resolve(case.future, CaptureOutcome(fresh.task_id, case.category, problem=waits))
        except Exception as another:
            self._not_captured(case, another)

    def _created(self, case: PendingCapture, letter: DeadLetter) -> None:
        self._kept(case, letter)
        self.dlq.intake.announce_captured(letter)

    def _kept(self, case: PendingCapture, letter: DeadLetter) -> None:
        self._counts["manually_enqueued" if case.requested else "auto_enqueued"] += 1
        resolve(case.future, _new_decided(task_id=letter.task_id, category=case.category, letter=letter))
        log.warning("task %s is in the DLQ (%s): %s", letter.task_id, case.reason, letter.last_error)

    def _not_captured(self, case: PendingCapture, problem: BaseException) -> None:
        self.dlq.context.counts["capture_failed"] += 1
        self._counts["capture_failed"] += 1
        log.error(
            "the failure of task %s could not be captured; its error: %s; its payload: %.2000s",
            safe_repr(case.request.task_id),
            safe_repr(case.error),
            redact(json_safe_copy(case.request.task), self.dlq.context.letter_factory.redact_keys),
            exc_info=problem,
        )
        resolve(
            case.future, CaptureOutcome(case.request.task_id, problem=f"{type(problem).__name__}: {safe_str(problem)}")
        )

    async def _kept_waiting(self, fresh: DeadLetter, problem: MahavishnuError) -> str:
        """It cannot be a letter now; it waits until it can, and this says so."""
        where = await self.dlq.context.waiting.keep(fresh)
        self._counts["kept_waiting"] += 1
        lasting = "" if where is WaitingPlace.STORE else " in this process's memory, because the store cannot take it"
        told_so = f"{problem}; it waits{lasting} to be let in (entry {fresh.entry_id})"
        log.error("the failure of task %r is no letter yet: %s", fresh.task_id, told_so)
        return told_so


def _advised(wanted: LetterRequest, policy: str | None, budget: int | None) -> LetterRequest:
    """`wanted` with the strategy's advice where the caller said nothing."""
    if policy is None and budget is None:
        return wanted
    return wanted._replace(
        retry_policy=wanted.retry_policy if wanted.retry_policy is not None else policy,
        max_retries=wanted.max_retries if wanted.max_retries is not None else budget,
    )


def _context(case: PendingCapture, now: datetime) -> Asked:
    wanted = case.request
    return context_for(now, wanted.task_id, wanted.task, case.adapter, tuple(wanted.repos))
