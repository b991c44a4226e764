"""A failure on its way through the steps of a capture, and what became of it."""

from __future__ import annotations

from asyncio import Future
from contextvars import Context
from dataclasses import dataclass
from typing import Any

from mahavishnu.classify.assess import Assessment
from mahavishnu.engine.batching import resolve
from mahavishnu.engine.letter_factory import LetterRequest
from mahavishnu.engine.strategies import Strategy
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import ErrorCategory


@dataclass(frozen=True, slots=True)
class CaptureOutcome:
    """What became of a failed run. Exactly one of `letter`, `skip_reason`, `problem` and `folded` says so."""

    task_id: str
    category: ErrorCategory | None = None
    letter: DeadLetter | None = None
    skip_reason: str | None = None
    problem: str | None = None
    folded: bool = False  # it is the failure of a retry, whose letter takes it in

    def as_result(self) -> dict[str, Any]:
        """The keys that a workflow's result gets."""
        letter = self.letter
        result: dict[str, Any] = {"dlq_enqueued": letter is not None, "error_category": self.category}
        if letter is not None:
            result["dlq_task_id"] = letter.task_id
            result["retry_policy"] = str(letter.retry_policy)
            result["max_retries"] = letter.max_retries
        if self.skip_reason is not None:
            result["dlq_skip_reason"] = self.skip_reason
        if self.problem is not None:
            result["dlq_error"] = self.problem
        return result


@dataclass(slots=True)
class PendingCapture:
    """A failure on its way through the steps, and who waits for the end of it."""

    request: LetterRequest
    error: BaseException | str
    requested: bool  # the caller said that it wants a letter
    strategy: Strategy  # the same for all steps, even if it is switched meanwhile
    future: Future[CaptureOutcome]
    context: Context  # of the caller: what is announced and logged belongs to its trace
    assessment: Assessment | None = None
    reason: str = ""  # why the strategy keeps it
    letter: DeadLetter | None = None  # the letter that it makes
    ended: bool = False  # it is known what became of it, whether or not the caller still waits for that

    def end(self, outcome: CaptureOutcome) -> None:
        """Tell the caller what became of it."""
        self.ended = True
        resolve(self.future, outcome)

    @property
    def category(self) -> ErrorCategory | None:
        return self.assessment.verdict.category if self.assessment else None
