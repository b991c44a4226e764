"""Reconciles two letters under one key, written while two stores could not see each other."""

from __future__ import annotations

from datetime import datetime, timedelta

from mahavishnu.model import lifecycle
from mahavishnu.model.clock import add_time
from mahavishnu.model.letter import DeadLetter, FormerLetter, evolve, source_naming
from mahavishnu.model.letter_parts import KEPT_FAILURES, DeadLetterStatus, RequeueOutcome
from mahavishnu.model.record import Value
from mahavishnu.model.tombstones import is_folded
from mahavishnu.model.work import with_more_work

_EDITED = (  # what a person may have changed
    *("payload", "payload_types", "labels", "depends_on"),
    *("retry_policy", "policy_by_verdict", "priority", "adapter"),
)


class Reconciliation(Value, frozen=True):
    """Records to write, in this order: `former` to history, then `live` over the letter in the shared store."""

    live: DeadLetter | None = None
    former: FormerLetter | None = None
    wait: bool = False  # try again later: one of them is being run, and its lease lasts


def reconcile_letters(
    theirs: DeadLetter, ours: DeadLetter, now: datetime, *, even_deleted: bool = False
) -> Reconciliation:
    """Reconcile `theirs` of the shared store with `ours` of elsewhere. Nothing is lost; repeating changes nothing.

    Of the same entry, theirs wins: ours is a copy from before it was sent. Two open entries of one task become one with
    the occurrences of both; a closed one goes to history. What was deleted stays deleted: a tombstone drops the states
    of letters that it knows, and anything newer is the next generation. With `even_deleted`, so is what it knows.

    A run is waited for until its lease ends and no longer: as one letter hides the other, nobody else may be able to
    recover it.
    """
    revives = theirs.is_deleted and (even_deleted or _is_later_than_deletion(theirs, ours))
    if theirs.knows(ours.entry_id) and not revives:
        # Ours was sent before, by a process that died before it removed the copy. Nobody can have changed ours since.
        return Reconciliation()
    if is_folded(theirs):
        return Reconciliation(wait=True)  # its numbers are being added to those of a day: nobody may take them over
    if lifecycle.is_running(ours, now):
        return Reconciliation(wait=True)
    ours = lifecycle.recover(ours, now=now)
    if ours.is_deleted:
        if ours.knows(theirs.entry_id) and theirs.updated_at <= ours.updated_at:
            return Reconciliation(_without_counted(theirs, evolve(ours, version=theirs.version)))
        return Reconciliation(_absorb(theirs, ours, ours.generation))
    if not theirs.is_open:
        former, live = lifecycle.next_generation(theirs, ours)
        return Reconciliation(live, None if theirs.is_deleted else former)
    if not ours.is_open:
        return Reconciliation(_absorb(theirs, ours, ours.generation), FormerLetter.of(ours))
    if not (ours.revision or ours.requeue):  # no person edited or requeued it in the local store
        return Reconciliation(live=_merge_open_letters(theirs, ours, now))
    if lifecycle.is_running(theirs, now):
        return Reconciliation(wait=True)  # a run ends with the payload that it began with
    # A late run must not close the letter: people changed it after that run had begun.
    merged = _merge_open_letters(lifecycle.recover(theirs, now=now), ours, now)
    return Reconciliation(live=_with_changes_of_people(merged, ours))


def visible_letter(theirs: DeadLetter, ours: DeadLetter, certain: bool) -> DeadLetter:
    """Return the letter to show until both are reconciled; `certain`: ours is no copy of what may be theirs by now.

    Ours is shown if theirs is a tombstone that does not drop it, or if ours has a lease and theirs, another one, has
    none. A certain one is shown unless only theirs has a lease: the outcome of that run has to find its letter.
    """
    if certain:
        return theirs if theirs.lease is not None and ours.lease is None else ours
    if theirs.is_deleted:
        return theirs if theirs.knows(ours.entry_id) and not _is_later_than_deletion(theirs, ours) else ours
    return ours if theirs.lease is None and ours.lease is not None and not theirs.knows(ours.entry_id) else theirs


def _is_later_than_deletion(tombstone: DeadLetter, ours: DeadLetter) -> bool:
    """Return whether `ours`, known to the tombstone, changed since its deletion; one that never changed did not."""
    return not ours.is_deleted and ours.updated_at > max(tombstone.updated_at, ours.created_at)


def _without_counted(theirs: DeadLetter, tombstone: DeadLetter) -> DeadLetter:
    """The tombstone, without the numbers of the letter under its key that are in a sum already."""
    if theirs.counted is None:
        return tombstone
    tallies = theirs.tallies.plus("cleared") if theirs.is_open else theirs.tallies
    return evolve(tombstone, generation=theirs.generation, tallies=tallies, counted=theirs.counted)


def _absorb(theirs: DeadLetter, ours: DeadLetter, generations: int) -> DeadLetter:
    """Return `theirs`, with its date, and with the tallies and the entry id of `ours` absorbed."""
    updated_at = add_time(max(theirs.updated_at, ours.updated_at), timedelta(milliseconds=1))
    return evolve(
        theirs,
        generation=theirs.generation + generations,
        absorbed=(*theirs.absorbed, *ours.absorbed, ours.entry_id)[-lifecycle.MAX_ABSORBED :],
        merged=(*theirs.merged, *ours.merged)[-lifecycle.MAX_MERGED :],
        dlq_retry_count=theirs.dlq_retry_count + ours.dlq_retry_count,
        tallies=theirs.tallies.combine(ours.tallies),
        updated_at=theirs.updated_at if theirs.is_deleted else updated_at,
    )


def _with_changes_of_people(joined: DeadLetter, ours: DeadLetter) -> DeadLetter:
    """`joined` with what people changed in `ours`, which is later than what they changed in `theirs`."""
    if ours.revision:
        joined = evolve(
            joined,
            captured_digest=joined.captured_digest or ours.captured_digest,
            captured_task=joined.captured_task or ours.captured_task,
            **{name: getattr(ours, name) for name in _EDITED},
            source=source_naming(ours.adapter, joined.source),
            max_retries=max(ours.max_retries, joined.retry_count),
            revision=joined.revision + ours.revision,
            unfit=None,
        )
    if ours.requeue is not None:
        joined = evolve(joined, requeue=ours.requeue, priority=max(joined.priority, ours.priority))
        if ours.requeue.outcome is RequeueOutcome.IN_FLIGHT and ours.status is DeadLetterStatus.PENDING:
            fresh = {"status": DeadLetterStatus.PENDING, "due_at": ours.due_at, "retry_count": ours.retry_count}
            fresh |= {"last_retry_at": ours.last_retry_at, "max_retries": max(joined.max_retries, ours.retry_count)}
            joined = evolve(joined, **fresh, recoveries=0, unfit=None, exhausted_at=None)
    return joined


def _merge_open_letters(theirs: DeadLetter, ours: DeadLetter, now: datetime) -> DeadLetter:
    """One letter of two open ones, as if the later failure had been merged into the other. It was opened once."""
    absorbing = with_more_work(_absorb(theirs, ours, ours.generation - 1), ours.repos, ours.depends_on)
    first, last = sorted((theirs, ours), key=lambda letter: (letter.failed_at, letter.entry_id))
    failures = tuple(sorted({*theirs.failures, *ours.failures}, key=lambda failure: (failure.at, failure.message)))
    if ours.failures and failures[-1] in ours.failures and failures[-1] not in theirs.failures:
        absorbing = lifecycle.with_verdict_of(absorbing, ours, now)
    return evolve(
        absorbing,
        error=first.error,
        failed_at=first.failed_at,
        last_error=failures[-1].message if failures else last.last_error,
        occurrences=theirs.occurrences + ours.occurrences,
        total_attempts=theirs.total_attempts + ours.total_attempts,
        failures=(*failures[:1], *failures[1:][-KEPT_FAILURES + 1 :]),
        tallies=absorbing.tallies.plus("deduplicated"),
    )
