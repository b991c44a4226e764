"""Why letters failed again: their last failures, told by cause, and compared with their first ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from mahavishnu.classify.fingerprint import fingerprint_of, is_own_code
from mahavishnu.classify.tracebacks import TraceFrame, split_traceback
from mahavishnu.model.letter import DeadLetter


@dataclass(frozen=True, slots=True)
class Cause:
    """Letters whose last failures have one cause. `first` are those of them that failed like that at first too."""

    letters: Sequence[DeadLetter]
    frame: TraceFrame | None
    first: int
    by_themselves: int  #: of them have a date at which they are run again
    next_at: datetime | None

    @property
    def sample(self) -> DeadLetter:
        """The one that changed last."""
        return self.letters[0]

    @property
    def type(self) -> str | None:
        return self.sample.failures[-1].type

    @property
    def message(self) -> str:
        return self.sample.failures[-1].message


def causes_of(letters: Iterable[DeadLetter]) -> Sequence[Cause]:
    """The causes, those with most letters first. Letters without a failure have none."""
    by_cause: dict[str, list[DeadLetter]] = {}
    for letter in letters:
        if letter.failures:
            by_cause.setdefault(fingerprint_of(letter.failures[-1]), []).append(letter)
    causes = [_cause(name, each) for name, each in by_cause.items()]
    return sorted(causes, key=lambda cause: len(cause.letters), reverse=True)


def _cause(name: str, letters: Sequence[DeadLetter]) -> Cause:
    own = split_traceback(letters[0].failures[-1].traceback or "", is_own_code).own
    dates = [letter.due_at for letter in letters if letter.is_open and letter.due_at is not None]
    first = sum(len(each.failures) > 1 and fingerprint_of(each.failures[0]) == name for each in letters)
    return Cause(letters, own[0] if own else None, first, len(dates), min(dates, default=None))
