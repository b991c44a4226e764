"""Reconciles two letters under one key, written while two stores could not see each other."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from mahavishnu.model import lifecycle
from mahavishnu.model.clock import add_time
from mahavishnu.model.letter import DeadLetter, FormerLetter, evolve
from mahavishnu.model.letter_parts import KEPT_FAILURES, DeadLetterStatus, RequeueOutcome
from mahavishnu.model.work import with_more_work

_EDITED = ("payload", "labels", "depends_on", "retry_policy", "priority")  # what a person may have changed


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What to write, in this order: `former` to history, then `live` over the letter in the shared store."""

    live: DeadLetter | None = None
    former: FormerLetter | None = None
    wait: bool = False  # try again later: one of them is being run, and its lease lasts


def reconcile_letters(theirs: DeadLetter, ours: DeadLetter, now: datetime) -> Reconciliation:
    """Reconcile `theirs` of the shared store with `ours` of the local one. Nothing is lost; repeating changes nothing.

    Of the same entry, theirs wins: ours is a copy from before it was sent. Two open entries of one task become one with
    the occurrences of both; a closed one goes to history.

    A run is waited for until its lease ends and no longer: as one letter hides the other, nobody else may be able to
    recover it.
    """
    if _is_in_shared_store(theirs, ours):
        # Ours was sent before, by a process that died before it removed the copy. Nobody can have changed ours since.
        return Reconciliation()
    if lifecycle.is_running(ours, now):
        return Reconciliation(wait=True)
    ours = lifecycle.recover(ours, now=now)
    if not theirs.is_open:
        former, live = lifecycle.next_generation(theirs, ours)
        return Reconciliation(live, former)
    if not ours.is_open:
        return Reconciliation(_absorb(theirs, ours, ours.generation), FormerLetter.of(ours))
    if not _was_changed_by_people(ours):
        return Reconciliation(live=_merge_open_letters(theirs, ours))
    if lifecycle.is_running(theirs, now):
        return Reconciliation(wait=True)  # a run ends with the payload that it began with
    # A late run must not close the letter: people changed it after that run had begun.
    return Reconciliation(
        live=_with_changes_of_people(_merge_open_letters(lifecycle.recover(theirs, now=now), ours), ours)
    )


def visible_letter(theirs: DeadLetter, ours: DeadLetter) -> DeadLetter:
    """Which of the two is shown until they are reconciled: ours only if it has a lease and theirs has none."""
    if theirs.lease is None and ours.lease is not None and not _is_in_shared_store(theirs, ours):
        return ours
    return theirs


def _is_in_shared_store(theirs: DeadLetter, ours: DeadLetter) -> bool:
    """Whether the letter in the shared store is `ours`, or has absorbed it."""
    return ours.entry_id in (theirs.entry_id, *theirs.absorbed)


def _absorb(theirs: DeadLetter, ours: DeadLetter, generations: int) -> DeadLetter:
    """`theirs` with the tallies of `ours`, and its entry id among the absorbed ones."""
    return evolve(
        theirs,
        generation=theirs.generation + generations,
        absorbed=(*theirs.absorbed, *ours.absorbed, ours.entry_id)[-lifecycle.MAX_ABSORBED :],
        dlq_retry_count=theirs.dlq_retry_count + ours.dlq_retry_count,
        tallies=theirs.tallies.combine(ours.tallies),
        updated_at=add_time(max(theirs.updated_at, ours.updated_at), timedelta(milliseconds=1)),
    )


def _was_changed_by_people(ours: DeadLetter) -> bool:
    """Whether a person edited or requeued it in the local store."""
    return bool(ours.revision or ours.requeue)


def _with_changes_of_people(joined: DeadLetter, ours: DeadLetter) -> DeadLetter:
    """`joined` with what people changed in `ours`, which is later than what they changed in `theirs`."""
    if ours.revision:
        joined = evolve(
            joined,
            captured_digest=joined.captured_digest or ours.captured_digest,
            **{name: getattr(ours, name) for name in _EDITED},
            max_retries=max(ours.max_retries, joined.retry_count),
            revision=joined.revision + ours.revision,
        )
    if ours.requeue is not None:
        joined = evolve(joined, requeue=ours.requeue, priority=max(joined.priority, ours.priority))
        if ours.requeue.outcome is RequeueOutcome.IN_FLIGHT and ours.status is DeadLetterStatus.PENDING:
            fresh = {"status": DeadLetterStatus.PENDING, "due_at": ours.due_at, "retry_count": ours.retry_count}
            joined = evolve(joined, **fresh, recoveries=0, exhausted_at=None, last_retry_at=ours.last_retry_at)
            joined = evolve(joined, max_retries=max(joined.max_retries, joined.retry_count))
    return joined


def _merge_open_letters(theirs: DeadLetter, ours: DeadLetter) -> DeadLetter:
    """One letter of two open ones, as if the later failure had been merged into the other. It was opened once."""
    absorbing = with_more_work(_absorb(theirs, ours, ours.generation - 1), ours.repos, ours.depends_on)
    first, last = sorted((theirs, ours), key=lambda letter: (letter.failed_at, letter.entry_id))
    failures = tuple(sorted({*theirs.failures, *ours.failures}, key=lambda failure: (failure.at, failure.message)))
    return evolve(
        absorbing,
        error=first.error,
        failed_at=first.failed_at,
        fingerprint=first.fingerprint,
        last_error=failures[-1].message if failures else last.last_error,
        occurrences=theirs.occurrences + ours.occurrences,
        total_attempts=theirs.total_attempts + ours.total_attempts,
        failures=(*failures[:1], *failures[1:][-KEPT_FAILURES + 1 :]),
        tallies=absorbing.tallies.plus("deduplicated"),
    )
