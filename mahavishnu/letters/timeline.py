"""What happened to a letter, as a timeline: from what the letter keeps and what the audit says of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from mahavishnu.model.events import AuditEntry, AuditOutcome
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus, ResolutionStatus
from mahavishnu.model.record import Value

_SHAPES = {
    "edit": "edit",
    "redrive": "retrying",
    "resurrect": "retrying",
    "requeue": "retrying",
    "retry": "retrying",
    "resolve": "completed",
    "archive": "archived",
    "cancel": "wont",
    "fail": "wont",
}


class Step(Value, frozen=True):
    """One thing that happened. `what` is said first, `more` after it, `aside` below."""

    at: datetime
    what: str
    more: str = ""
    aside: str = ""
    shape: str = "none"
    tone: str = ""


def steps_of(letter: DeadLetter, entries: Iterable[AuditEntry]) -> Sequence[Step]:
    """Return the history of a letter, oldest first."""
    steps = [*_own_steps(letter), *map(_act, entries)]
    return sorted(steps, key=lambda step: step.at)


def _own_steps(letter: DeadLetter) -> Iterator[Step]:
    where = f"adapter {letter.adapter}" if letter.adapter else ""
    yield Step(letter.created_at, "Captured", letter.error[:300], where, "letter", "bad")
    verdict = letter.verdict
    if letter.error_category:
        aside = f"by {verdict.author}, because of {verdict.reason}" if verdict.author and verdict.reason else ""
        yield Step(
            letter.created_at, f"Verdict {letter.error_category}", f"policy {letter.retry_policy}", aside, "verdict"
        )
    for failure in letter.failures:
        if failure.at <= letter.created_at:
            continue
        took = f"took {failure.duration_seconds:.1f} s" if failure.duration_seconds is not None else ""
        aside = ", ".join(filter(None, [failure.processor, took]))
        error = f"{failure.type}: {failure.message}" if failure.type else failure.message
        yield Step(failure.at, "Failed again", error[:300], aside, "exhausted", "bad")
    if letter.occurrences > 1:
        yield Step(
            letter.failed_at, "Came again", f"{letter.occurrences:,} times the same failure in all", "", "letter"
        )
    if letter.exhausted_at is not None:
        yield Step(letter.exhausted_at, "Exhausted", "its automatic retries are used up", "", "exhausted", "bad")
    if letter.completed_at is not None and letter.resolution_status is ResolutionStatus.REQUEUED:
        yield Step(letter.completed_at, "Completed", "a run of it succeeded", "", "completed", "good")
    if letter.archived_at is not None:
        yield Step(letter.archived_at, "Archived", "", "", "archived")


def _act(entry: AuditEntry) -> Step:
    what = entry.action.replace("_", " ").replace(".", " ")
    more = f"by {entry.actor}"
    shape, tone = _SHAPES.get(entry.action, "none"), "act"
    if entry.outcome is AuditOutcome.REFUSED:
        more, shape, tone = f"refused to {entry.actor}", "wont", "warn"
    aside = "; ".join(filter(None, [entry.reason and f"“{entry.reason}”", entry.why]))
    return Step(entry.at, what[:1].upper() + what[1:], more, aside, shape, tone)


def state_now(letter: DeadLetter, waiting_for: str | None, now: datetime) -> str:
    """Return the present state of the letter as a sentence."""
    if not letter.is_open:
        return "Its case is closed: nothing will happen by itself."
    if letter.status is DeadLetterStatus.RETRYING:
        return f"It is being run{f' by {letter.lease.owner}' if letter.lease else ''}."
    if waiting_for is not None:
        return f"It waits: {waiting_for}."
    if letter.due_at is None:
        return "It waits for a person. Nothing will happen by itself."
    return "It is due: the next worker takes it." if letter.due_at <= now else "It is retried by itself."
