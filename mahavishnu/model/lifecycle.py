"""The state machine: everything that changes a letter, as a table first and functions second.

`TABLE` says which move is allowed from which status and where it can lead; `docs/lifecycle.md` is drawn from it. Each
public function below is one move, save those that only look and, at the end, what moves are made of: a letter and what
happened in, the next letter out. The moves of tombstones stand in `tombstones`, those of items in `queue_items`. None
reads a clock or does I/O. Writing the result under the letter's `version` makes the move happen, and it may lose: then
read again and decide again.

An edit or a merged failure changes the version during a run, so moves that end or prolong one demand the lease's token.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from mahavishnu.model import backoff
from mahavishnu.model.backoff import BackoffRegistry
from mahavishnu.model.clock import add_time, instant, instant_text
from mahavishnu.model.errors import AlreadyResolved, IllegalMove, InvalidInput, LostLease, NotDue
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter, FormerLetter, adapter_named_by, evolve, source_naming
from mahavishnu.model.letter_parts import (
    KEPT_FAILURES,
    LEASE_RAN_OUT,
    DeadLetterStatus,
    DlqReason,
    Failure,
    LatestVerdict,
    Lease,
    RecordedVerdict,
    Requeue,
    RequeueOutcome,
    Resolution,
    ResolutionStatus,
    RetryPolicy,
)
from mahavishnu.model.work import (
    ItemOutcome,
    Success,
    all_repos,
    has_failed_again,
    outcome_mark,
    outcomes_after,
    outcomes_after_redrive,
    repos_left,
    with_more_work,
)

PENDING, RETRYING, EXHAUSTED, COMPLETED, ARCHIVED = DeadLetterStatus
MAX_FORMER_FINGERPRINTS = 10  # that a letter keeps
MAX_MERGED = 10  # entry ids that a letter keeps of failures that were counted on it
MAX_ABSORBED = 50  # entry ids that a letter keeps of those that it absorbed or succeeded
MAX_PRIORITY = 100  # that requeues may lift a letter to
BY_LIMIT = "system_max_retries"  # `by` where the limit of requeues gives a letter up
BY_APPLICATION = "application"  # `by` where a run of the application did the work
MAX_RUNS = 10  # bulk runs that a letter keeps, besides those that are not over
MAX_UNFIT = 500  # characters
MAX_RECOVERIES = 3  # leases in a row that may run out before it counts as a failed attempt
_MILLISECOND = timedelta(milliseconds=1)
_NEVER, _DEAD_ELSEWHERE = RetryPolicy.NEVER, DlqReason.QUEUE_ITEM_DEAD  # once: an enum takes its time to find a member


class Move(StrEnum):
    """Event in the life of a letter."""

    CLAIM = "claim"
    RENEW = "renew"
    RELEASE = "release"
    SUCCEED = "succeed"
    FAIL = "fail"
    EXHAUST = "exhaust"
    REDRIVE = "redrive"
    EDIT = "edit"
    MERGE = "merge"
    REQUEUE = "requeue"
    RESOLVE = "resolve"
    CLOSE_BY_SUCCESS = "close by success"
    CANCEL = "cancel"
    GIVE_UP = "give up"
    ARCHIVE = "archive"
    RESTORE = "restore"
    DELETE = "delete"
    RETIRE = "retire"
    WITHDRAW = "withdraw"
    MOVE = "move"


TABLE: dict[DeadLetterStatus, dict[Move, tuple[DeadLetterStatus, ...]]] = {
    PENDING: {
        Move.CLAIM: (RETRYING,),
        Move.REDRIVE: (PENDING,),
        Move.EDIT: (PENDING,),
        Move.MERGE: (PENDING,),
        Move.REQUEUE: (PENDING, EXHAUSTED),  # exhausted: beyond the limit, it is given up
        Move.RESOLVE: (COMPLETED,),
        Move.CLOSE_BY_SUCCESS: (COMPLETED, PENDING),  # pending: repos are left
        Move.CANCEL: (ARCHIVED,),
        Move.GIVE_UP: (EXHAUSTED,),
        Move.ARCHIVE: (ARCHIVED,),
        Move.DELETE: (ARCHIVED,),
        Move.WITHDRAW: (EXHAUSTED,),
    },
    RETRYING: {
        Move.CLAIM: (RETRYING, PENDING, EXHAUSTED),  # the lease ran out; the third time it counts as a failure
        Move.RENEW: (RETRYING,),
        Move.RELEASE: (PENDING, EXHAUSTED),  # back to its state before the claim
        Move.SUCCEED: (COMPLETED, PENDING, EXHAUSTED),  # open again if the task failed again meanwhile
        Move.FAIL: (PENDING, EXHAUSTED),  # by the budget; a manual retry returns to its prior state
        Move.EXHAUST: (EXHAUSTED, PENDING),  # a manual retry returns to its prior state
        Move.MERGE: (RETRYING,),
        Move.CLOSE_BY_SUCCESS: (COMPLETED, RETRYING),  # completed: the outcome of its run is refused
        Move.DELETE: (ARCHIVED,),  # the outcome of its run is refused
    },
    EXHAUSTED: {
        Move.CLAIM: (RETRYING,),  # by a person only
        Move.REDRIVE: (PENDING,),
        Move.EDIT: (EXHAUSTED,),
        Move.MERGE: (EXHAUSTED,),
        Move.REQUEUE: (PENDING, EXHAUSTED),  # exhausted: beyond the limit, it is given up
        Move.RESOLVE: (COMPLETED,),
        Move.CLOSE_BY_SUCCESS: (COMPLETED, EXHAUSTED),  # exhausted: repos are left
        Move.CANCEL: (ARCHIVED,),
        Move.GIVE_UP: (EXHAUSTED,),
        Move.ARCHIVE: (ARCHIVED,),
        Move.DELETE: (ARCHIVED,),
        Move.RETIRE: (ARCHIVED,),  # a closed one only
        Move.MOVE: (ARCHIVED,),
    },
    COMPLETED: {Move.ARCHIVE: (ARCHIVED,), Move.DELETE: (ARCHIVED,), Move.RETIRE: (ARCHIVED,)},
    ARCHIVED: {Move.RESTORE: (PENDING,), Move.DELETE: (ARCHIVED,), Move.RETIRE: (ARCHIVED,)},
}
# An exhausted letter may be closed (permanently failed): it is kept for analysis, and these still work on it.
ON_CLOSED = frozenset({Move.REDRIVE, Move.ARCHIVE, Move.RESTORE, Move.DELETE, Move.RETIRE})

# What a person may change, and what it may be.
EDITABLE: Mapping[str, Callable[[Any], bool]] = {
    "payload": lambda value: isinstance(value, Json),
    "payload_types": lambda value: isinstance(value, Json),
    "adapter": lambda value: isinstance(value, str) and bool(value),
    "labels": lambda value: isinstance(value, Json),
    "repos": lambda value: _are_texts(value),
    "depends_on": lambda value: _are_texts(value),
    "retry_policy": lambda value: isinstance(value, str),
    "max_retries": lambda value: type(value) is int,
    "priority": lambda value: type(value) is int,
    "due_at": lambda value: value is None or isinstance(value, datetime),
}


def new_letter(
    letter: DeadLetter, *, retry_in: timedelta | None = None, backoffs: BackoffRegistry = backoff.DEFAULT
) -> DeadLetter:
    """Check the letter and give it its first state: pending with its first retry date, or exhausted without retries.

    `retry_in` overrules the policy's delay (a server that said Retry-After). Raises InvalidInput for a broken letter.
    """
    failed, created = instant(letter.failed_at), instant(letter.created_at)
    assert letter.key  # raises where the name of the letter cannot be
    if letter.max_retries < 0:
        raise InvalidInput(f"max_retries of task {letter.task_id!r} must not be negative, but is {letter.max_retries}")
    if not (letter.failed_at is failed and letter.created_at is created is letter.updated_at):
        letter = evolve(letter, failed_at=failed, created_at=created, updated_at=created)
    letter = _schedule(letter, created, retry_in, backoffs)
    if broken := violations(letter):
        raise InvalidInput(f"the letter for task {letter.task_id!r} is not sound: {'; '.join(broken)}")
    return letter


def merge(
    letter: DeadLetter,
    failure: Failure,
    now: datetime,
    repos: tuple[str, ...] = (),
    depends_on: tuple[str, ...] = (),
    entry_id: str | None = None,
    *,
    verdict: LatestVerdict | None = None,
    backoffs: BackoffRegistry = backoff.DEFAULT,
) -> DeadLetter:
    """Record that the same open task failed again: one more occurrence; the budget stays.

    The failure brings its category, and what is in its `verdict`. The schedule stays, unless the failure asks for a
    wait of its own, or its policy is `never` and the former one was not, or the other way round.

    Adds `depends_on` to the dependencies of the next run, and `repos` to those to be done; none are all. While the
    letter is being run that is for the run after this one, which there is even if this one succeeds: nobody knows
    whether it began before or after the run that failed. A requeue in flight has failed by this. `entry_id` is that of
    the letter which the failure would have been: by it the same failure is known if it comes again.
    """
    require_move(letter, Move.MERGE)
    if letter.requeue is not None and letter.status is not RETRYING and instant(failure.at) >= letter.requeue.at:
        letter = _close_requeue(letter, RequeueOutcome.FAILED)
    before = letter
    letter = _with_verdict(with_more_work(letter, repos, depends_on), failure, verdict)
    failures = _append_failure(letter.failures, failure)
    letter = _reschedule(before, evolve(letter, last_error=failure.message), failure, instant(now), backoffs)
    return change_letter(
        letter,
        now,
        occurrences=letter.occurrences + 1,
        failures=failures,
        merged=letter.merged if entry_id is None else (*letter.merged, entry_id)[-MAX_MERGED:],
        tallies=letter.tallies.plus("deduplicated"),
    )


def verdict_of(letter: DeadLetter) -> LatestVerdict:
    """Return the verdict on the letter's failure, for the open letter that takes the failure in."""
    return LatestVerdict(
        letter.verdict, letter.tags, letter.fingerprint, str(letter.retry_policy), letter.policy_by_verdict
    )


def with_verdict_of(letter: DeadLetter, other: DeadLetter, now: datetime) -> DeadLetter:
    """Return the letter with the verdict on the latest failure of another one, which becomes its own latest."""
    failure = other.failures[-1]
    judged = _with_verdict(letter, failure, verdict_of(other))
    return _reschedule(letter, judged, failure, instant(now), backoff.DEFAULT)


def next_generation(former: DeadLetter, fresh: DeadLetter) -> tuple[FormerLetter, DeadLetter]:
    """The task of a closed letter failed again. Returns what goes to history first, then what replaces the letter.

    A tombstone is succeeded likewise: its numbers and the ids that it knows live on. It does not go to history.
    """
    if former.is_open:
        raise IllegalMove(former.key, "replace", f"{former.status} and open", "merge the failure into it")
    if former.key != fresh.key:
        raise InvalidInput(f"letter {fresh.key!r} cannot be the next generation of {former.key!r}")
    absorbed = (*former.absorbed, former.entry_id, *fresh.absorbed)
    counted = former.counted and replace(former.counted, group="")  # it counts in its group itself
    successor = evolve(
        fresh,
        generation=former.generation + fresh.generation,
        tallies=former.tallies.combine(fresh.tallies),
        counted=counted,
        updated_at=max(fresh.updated_at, add_time(former.updated_at, _MILLISECOND)),
        previous_entry_id=None if former.is_deleted else former.entry_id,
        absorbed=tuple(each for each in absorbed if each != fresh.entry_id)[-MAX_ABSORBED:],
        merged=(*former.merged, *fresh.merged)[-MAX_MERGED:],
        dlq_retry_count=former.dlq_retry_count + fresh.dlq_retry_count,
        requeue=fresh.requeue or former.requeue,
        version=former.version,
    )
    return FormerLetter.of(former), successor


def claim(
    letter: DeadLetter,
    *,
    owner: str,
    token: str,
    until: datetime,
    now: datetime,
    manual: bool = False,
    backoffs: BackoffRegistry = backoff.DEFAULT,
) -> DeadLetter:
    """Take the letter for one run. The attempt is counted now, so that a run that kills its process counts too.

    Recovers a letter whose lease ran out first (see `recover`). If it is not due after that, the result has no lease;
    write it all the same. Raises NotDue for a letter that is not due (`manual` takes a pending or exhausted one at any
    time), IllegalMove if somebody is running it.
    """
    require_move(letter, Move.CLAIM)
    now = instant(now)
    if letter.status is RETRYING:
        if letter.due_at is None or is_running(letter, now):
            raise IllegalMove(letter.key, Move.CLAIM, "already being retried", f"until {letter.due_at}")
        letter = recover(letter, now=now, backoffs=backoffs)
        if not (manual or _is_due(letter, now)):
            return letter
    elif not (manual or _is_due(letter, now)):
        raise NotDue(letter.key, Move.CLAIM, letter.status, f"its next run is {letter.due_at or 'up to a person'}")
    until = instant(until)
    return change_letter(
        letter,
        now,
        status=RETRYING,
        lease=Lease(owner, token, letter.status, letter.due_at, manual, seconds=(until - now).total_seconds()),
        due_at=until,
        last_retry_at=now,
        total_attempts=letter.total_attempts + 1,
        tallies=letter.tallies.plus("manually_retried") if manual else letter.tallies,
    )


def recover(
    letter: DeadLetter,
    *,
    now: datetime,
    leases: int = MAX_RECOVERIES,
    retry_in: timedelta | None = None,
    backoffs: BackoffRegistry = backoff.DEFAULT,
) -> DeadLetter:
    """Take the letter from a run whose lease ran out. The third time in a row, or so many `leases`, is a failed run.

    The letter returns to its state before the claim. A letter without a lease, or whose lease lasts, stays as it is.
    """
    lease, now = letter.lease, instant(now)
    if lease is None or is_running(letter, now):
        return letter
    letter = _with_added_repos(letter)
    letter = evolve(letter, tallies=letter.tallies.plus("claims_recovered"), recoveries=letter.recoveries + 1)
    if letter.recoveries < leases:
        return _back_to_prior(letter, lease, now)
    times = f"{leases} times in a row (last owner: {lease.owner})" if leases > 1 else f"(owner: {lease.owner})"
    message = f"the run's lease ran out {times}: it may kill its process"
    letter = _with_failure(letter, Failure(at=now, message=message, type=LEASE_RAN_OUT, processor=lease.owner))
    return _back_to_prior(letter, lease, now) if lease.manual else _use_up_retry(letter, now, retry_in, backoffs)


def is_running(letter: DeadLetter, now: datetime) -> bool:
    """Return True if a run owns the letter: its lease has not ended. A run whose lease ended is taken for dead."""
    return letter.lease is not None and letter.due_at is not None and letter.due_at > now


def retries_itself(letter: DeadLetter) -> bool:
    """Return True if it is retried automatically: a letter that died in another queue never is, whatever its policy."""
    return letter.retry_policy != _NEVER and letter.reason != _DEAD_ELSEWHERE


def renew(letter: DeadLetter, *, token: str, until: datetime, now: datetime) -> DeadLetter:
    """Extend the lease of a run that goes on."""
    lease, until = _require_lease(letter, Move.RENEW, token), instant(until)
    renewed = replace(lease, seconds=(until - instant(now)).total_seconds())
    return change_letter(letter, now, due_at=until, lease=renewed)


def release(
    letter: DeadLetter,
    *,
    token: str,
    now: datetime,
    due_at: datetime | None = None,
    unfit: str | None = None,
    needs_edit: bool = False,
) -> DeadLetter:
    """Undo the claim: the letter returns to its prior state, the attempt is refunded. `due_at` may delay the next.

    `unfit` says why it could not be given to what runs it here; the letter keeps that until it is run, edited or sent
    back. If it `needs_edit`, no run is planned: no other worker could either.
    """
    lease = _require_lease(letter, Move.RELEASE, token)
    letter = _with_added_repos(letter)
    tallies = letter.tallies
    if lease.manual:
        tallies = replace(tallies, manually_retried=tallies.manually_retried - 1)
    due = lease.prior_due
    if due is not None and due_at is not None:
        due = max(due, instant(due_at))
    if needs_edit:
        due = None
    total = letter.total_attempts - 1
    if unfit is not None:
        letter = evolve(letter, unfit=unfit[:MAX_UNFIT])
    return change_letter(letter, now, status=lease.prior, lease=None, due_at=due, total_attempts=total, tallies=tallies)


def succeed(
    letter: DeadLetter, *, token: str, now: datetime, backoffs: BackoffRegistry = backoff.DEFAULT
) -> DeadLetter:
    """The run succeeded: the letter is completed, and kept until retention removes it.

    If the task failed again meanwhile, the move closes this case and opens one for what failed.
    """
    lease = _require_lease(letter, Move.SUCCEED, token)
    letter = _close_requeue(letter, RequeueOutcome.SUCCEEDED)
    again, repos = has_failed_again(letter), letter.more_repos
    done = close_case(letter, COMPLETED, ResolutionStatus.REQUEUED, "retry_success", now, by=lease.owner)
    if not again:
        return done
    opened = evolve(_reopen(done, now), repos=repos, more_repos=(), completed_at=None)
    return _schedule(opened, instant(now), None, backoffs)


def fail(
    letter: DeadLetter,
    *,
    token: str,
    failure: Failure,
    now: datetime,
    retry_in: timedelta | None = None,
    left: tuple[str, ...] | None = None,
    verdict: LatestVerdict | None = None,
    backoffs: BackoffRegistry = backoff.DEFAULT,
) -> DeadLetter:
    """The run failed: pending with a later date, or exhausted if that was the last automatic retry.

    A manual retry uses up no automatic one: the letter returns to its prior state. `left` are the repos that are still
    to be done, where that is known. `verdict` is what is said about this failure; its policy and group become those of
    the letter, the policy unless somebody chose another one.
    """
    lease = _require_lease(letter, Move.FAIL, token)
    letter = _with_failure(letter, failure, left, verdict)
    if lease.manual:
        return _back_to_prior(letter, lease, now)
    return _use_up_retry(letter, instant(now), retry_in, backoffs)


def exhaust(
    letter: DeadLetter,
    *,
    token: str,
    failure: Failure,
    now: datetime,
    left: tuple[str, ...] | None = None,
    verdict: LatestVerdict | None = None,
) -> DeadLetter:
    """The run failed and no automatic retry can help. A manual retry returns to its prior state."""
    lease = _require_lease(letter, Move.EXHAUST, token)
    letter = _with_failure(letter, failure, left, verdict)
    if lease.manual:
        return _back_to_prior(letter, lease, now)
    count = min(letter.retry_count + 1, letter.max_retries)
    return exhaust_letter(change_letter(letter, now, lease=None, retry_count=count), instant(now))


def redrive(letter: DeadLetter, *, now: datetime) -> DeadLetter:
    """Give the letter fresh attempts, the first one due now. Opens a closed exhausted letter again."""
    require_move(letter, Move.REDRIVE)
    return _reopen(letter, now)


def restore(letter: DeadLetter, *, now: datetime) -> DeadLetter:
    """Open an archived letter again, with fresh attempts."""
    require_move(letter, Move.RESTORE)
    return evolve(_reopen(letter, now), archived_at=None, completed_at=None)


def edit(
    letter: DeadLetter, *, now: datetime, backoffs: BackoffRegistry = backoff.DEFAULT, **changes: Any
) -> DeadLetter:
    """Change what a person may change (`EDITABLE`). Raises InvalidInput for anything else."""
    require_move(letter, Move.EDIT)
    if locked := changes.keys() - EDITABLE:
        raise InvalidInput(
            f"{', '.join(sorted(locked))} of letter {letter.key!r} cannot be edited; {sorted(EDITABLE)} can"
        )
    for name, value in changes.items():
        if not EDITABLE[name](value):
            raise InvalidInput(f"{value!r:.80} cannot be the {name} of letter {letter.key!r}")
    if changes.get("due_at"):
        changes["due_at"] = instant(changes["due_at"])
    if letter.captured_digest is None and changes.get("payload", letter.payload).text != letter.payload.text:
        changes |= {"captured_digest": letter.payload.digest, "captured_task": letter.payload}
    if "adapter" not in changes and letter.adapter == adapter_named_by(letter.source, letter.payload):
        # What the task names goes with the task.
        changes["adapter"] = adapter_named_by(letter.source, changes.get("payload", letter.payload))
    else:
        adapter = changes.get("adapter", letter.adapter)
        changes["source"] = source_naming(adapter, letter.source)
    if "retry_policy" in changes:
        changes["policy_by_verdict"] = False
    edited = change_letter(letter, now, **changes, revision=letter.revision + 1, unfit=None)
    if "payload" in changes:
        edited = evolve(edited, run_outcomes=outcomes_after_redrive(letter.run_outcomes, sent=False))
    if "retry_policy" in changes and "due_at" not in changes and letter.status is PENDING:
        never = not retries_itself(edited)
        edited = evolve(edited, due_at=None if never else letter.due_at or _due(edited, instant(now), None, backoffs))
    if broken := violations(edited):
        raise InvalidInput(f"letter {letter.key!r} would not be sound: {'; '.join(broken)}")
    return edited


def reclassify(
    letter: DeadLetter,
    *,
    now: datetime,
    category: str,
    verdict: RecordedVerdict,
    tags: tuple[str, ...] = (),
    retry_policy: str | None = None,
    max_retries: int | None = None,
    backoffs: BackoffRegistry = backoff.DEFAULT,
) -> DeadLetter:
    """Set a new category and its advice. A budget below the retries already used is raised to that number."""
    advice: dict[str, Any] = {"retry_policy": retry_policy} if retry_policy is not None else {}
    if max_retries is not None:
        advice["max_retries"] = max(max_retries, letter.retry_count)
    require_move(letter, Move.EDIT)
    edited = edit(letter, now=now, backoffs=backoffs, **advice)
    return evolve(
        edited,
        error_category=category,
        verdict=verdict,
        tags=tags,
        policy_by_verdict=letter.policy_by_verdict,
        revision=letter.revision,
    )


def regroup(letter: DeadLetter, *, now: datetime, fingerprint: str | None) -> DeadLetter:
    """Move an open letter to another group, also while it is run. This is no edit and makes no revision."""
    if not letter.is_open:
        raise AlreadyResolved(letter.key, "regroup", describe_ending(letter))
    return change_letter(letter, now, fingerprint=fingerprint)


def requeue(
    letter: DeadLetter,
    *,
    now: datetime,
    by: str,
    boost: int = 0,
    limit: int = 3,
    notes: str | None = None,
    automatic: bool = False,
) -> DeadLetter:
    """Send the work back with a higher priority and fresh attempts, the first one due now.

    Raises AlreadyResolved if no run has ended since the last requeue. Beyond the `limit` of requeues of this task, in
    all its generations, gives the letter up instead.
    """
    require_move(letter, Move.REQUEUE)
    former = letter.requeue
    if former is not None and former.outcome is RequeueOutcome.IN_FLIGHT:
        raise AlreadyResolved(letter.key, Move.REQUEUE, f"sent back by {former.by} already", "no run has ended since")
    if letter.dlq_retry_count >= limit:
        why = f"Max DLQ retries ({limit}) exceeded"
        return give_up(letter, now=now, by=BY_LIMIT, notes=why)
    priority = max(letter.priority, min(letter.priority + boost, MAX_PRIORITY))
    automatic_ones = (former.automatic if former else 0) + automatic
    sent_back = Requeue(instant(now), by, priority - letter.priority, notes, automatic=automatic_ones)
    letter = evolve(letter, dlq_retry_count=letter.dlq_retry_count + 1, priority=priority, last_retry_at=instant(now))
    tallies = letter.tallies.plus("requeued", "reopened")  # closed and opened again in one move
    return evolve(_reopen(letter, now), requeue=sent_back, tallies=tallies)


def mark_moved_by_run(
    letter: DeadLetter, moved: DeadLetter, run_id: str, *, awaited: bool = False, over: Collection[str] = ()
) -> DeadLetter:
    """`moved` with a note that a bulk run moved `letter`, so that no process moves it twice for the same run.

    If the run is `awaited`, the letter notes its outcome too. Of more than `MAX_RUNS` notes the oldest are dropped, but
    only those of runs that are `over`: the others may need them. Raises IllegalMove if the run has moved it before.
    """
    if run_id in letter.runs:
        raise IllegalMove(letter.key, "move", str(letter.status), f"bulk run {run_id} has moved it before")
    spare = max(0, len(moved.runs) + 1 - MAX_RUNS)
    forgotten = [run for run in moved.runs if run in over][:spare]
    runs = (*(run for run in moved.runs if run not in forgotten), run_id)
    outcomes = [mark for mark in moved.run_outcomes if mark.partition(" ")[2] not in forgotten]
    if awaited:
        outcomes.append(outcome_mark(run_id))
    return evolve(moved, runs=runs, run_outcomes=tuple(outcomes))


def resolve(letter: DeadLetter, *, now: datetime, by: str, notes: str | None = None) -> DeadLetter:
    """Close the letter: a person solved the case otherwise."""
    require_move(letter, Move.RESOLVE)
    return close_case(letter, COMPLETED, ResolutionStatus.MANUALLY_RESOLVED, "manually_resolved", now, by, notes)


def close_by_success(letter: DeadLetter, success: Success, *, now: datetime) -> DeadLetter:
    """Close the letter whose work a run of the application has done; where repos are left, it is for those only.

    The letter itself where that was other work, or where some of it may have been captured after that run began: also
    where the clock was set back since, so that the run seems to begin later than now. A run that holds a lease on the
    closed letter has lost it: whatever comes of it does not count.
    """
    require_move(letter, Move.CLOSE_BY_SUCCESS)
    left = repos_left(letter, success) if success.began <= now else None
    if left is None:
        return letter
    if left:
        return change_letter(letter, now, repos=left)
    notes = f"a run of the application that began at {instant_text(success.began)} succeeded"
    if letter.more_repos:
        letter = evolve(letter, more_repos=())
    how = ResolutionStatus.MANUALLY_RESOLVED
    return close_case(letter, COMPLETED, how, "manually_resolved", now, BY_APPLICATION, notes)


def close_by_task(letter: DeadLetter, *, done_at: datetime, now: datetime) -> DeadLetter:
    """Close the letter whose lifecycle task was done at this instant; a requeue in flight has succeeded by that.

    The letter itself while somebody runs it, who says himself what came of it, and where it is of a later failure.
    """
    require_move(letter, Move.CLOSE_BY_SUCCESS)
    if letter.status is RETRYING or letter.failures[-1].at > done_at:
        return letter
    letter = _close_requeue(letter, RequeueOutcome.SUCCEEDED)
    how, notes = ResolutionStatus.MANUALLY_RESOLVED, "its lifecycle task is complete"
    return close_case(letter, COMPLETED, how, "manually_resolved", now, BY_APPLICATION, notes)


def cancel(letter: DeadLetter, *, now: datetime, by: str, notes: str | None = None) -> DeadLetter:
    """Close the letter: nobody needs the work any more."""
    require_move(letter, Move.CANCEL)
    return close_case(letter, ARCHIVED, ResolutionStatus.CANCELLED, "cancelled", now, by, notes)


def give_up(letter: DeadLetter, *, now: datetime, by: str, notes: str | None = None) -> DeadLetter:
    """Close the letter as permanently failed; it stays exhausted, for analysis."""
    require_move(letter, Move.GIVE_UP)
    return close_case(letter, EXHAUSTED, ResolutionStatus.PERMANENTLY_FAILED, "permanently_failed", now, by, notes)


def archive(letter: DeadLetter, *, now: datetime, by: str, notes: str | None = None) -> DeadLetter:
    """Archive the letter. An open case ends as cancelled, or as permanently failed if it was exhausted."""
    require_move(letter, Move.ARCHIVE)
    if not letter.is_open:
        return change_letter(letter, now, status=ARCHIVED, archived_at=instant(now))
    ended = ResolutionStatus.PERMANENTLY_FAILED if letter.status is EXHAUSTED else ResolutionStatus.CANCELLED
    return close_case(letter, ARCHIVED, ended, "archived", now, by, notes)


def violations(letter: DeadLetter) -> list[str]:
    """The invariants of letters that this one breaks, in words; empty for a sound letter."""
    is_open, is_awake = letter.is_open, letter.status in (PENDING, RETRYING)
    naive = [moment for moment in _moments(letter) if moment is not None and moment.tzinfo is None]
    invariants = {
        "a completed or archived letter must be resolved": letter.status not in (COMPLETED, ARCHIVED) or not is_open,
        "a resolved letter neither waits nor runs": is_open or not is_awake,
        "only a pending or retrying letter has a due date": letter.due_at is None or is_awake,
        "a letter has a lease exactly while retrying": (letter.lease is not None) == (letter.status is RETRYING),
        "a retrying letter's lease must end": letter.status is not RETRYING or letter.due_at is not None,
        "retry_count lies from 0 to max_retries": 0 <= letter.retry_count <= letter.max_retries,
        "total_attempts is at least retry_count": letter.total_attempts >= letter.retry_count,
        "occurrences and generation count from 1": letter.occurrences >= 1
        and letter.generation >= (letter.counted is None),
        "a letter is closed once for each time it was opened": letter.generation + letter.tallies.reopened
        == is_open + letter.tallies.closings,
        "only a retrying letter has repos for its next run": not letter.more_repos or letter.status is RETRYING,
        "instants are aware": not naive,
    }
    return [invariant for invariant, holds in invariants.items() if not holds]


_moments = attrgetter(*(name for name in DeadLetter.__struct_fields__ if name.endswith("_at")))
_ENDINGS = {
    ResolutionStatus.REQUEUED: "its rerun succeeded",
    ResolutionStatus.MANUALLY_RESOLVED: "resolved otherwise",
    ResolutionStatus.PERMANENTLY_FAILED: "given up as permanently failed",
    ResolutionStatus.CANCELLED: "cancelled",
    ResolutionStatus.DELETED: "deleted",
    ResolutionStatus.MOVED: "moved to another queue",
}


def describe_ending(letter: DeadLetter) -> str:
    """Describe the end of a closed letter's case, to follow "it is"; counts rely on equal words for equal ends."""
    return f"{letter.status}, {_ENDINGS[letter.resolution.status]}"


def _are_texts(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(each, str) for each in value)


def require_move(letter: DeadLetter, move: Move) -> None:
    """Raise IllegalMove, or AlreadyResolved, where the table has no such move of this letter."""
    allowed = move in TABLE[letter.status]
    if not letter.is_open and not (allowed and move in ON_CLOSED and not letter.is_deleted):
        raise AlreadyResolved(letter.key, move, describe_ending(letter))
    if not allowed:
        raise IllegalMove(letter.key, move, letter.status)


def _is_due(letter: DeadLetter, now: datetime) -> bool:
    return letter.status is PENDING and letter.due_at is not None and letter.due_at <= now


def _require_lease(letter: DeadLetter, move: Move, token: str) -> Lease:
    if letter.lease is None or letter.lease.token != token:
        holder = f"{letter.lease.owner} holds it now" if letter.lease else "nobody holds it now"
        if letter.resolution.by == BY_APPLICATION:
            holder = "a run of the application did its work meanwhile"
        raise LostLease(letter.key, move, letter.status, f"this run no longer owns it: {holder}")
    require_move(letter, move)
    return letter.lease


def change_letter(letter: DeadLetter, now: datetime, **changes: Any) -> DeadLetter:
    """The letter with these changes, in a later state than before."""
    # A machine whose clock is behind must not move the letter back in time.
    return evolve(letter, updated_at=max(instant(now), add_time(letter.updated_at, _MILLISECOND)), **changes)


def _due(letter: DeadLetter, now: datetime, retry_in: timedelta | None, backoffs: BackoffRegistry) -> datetime:
    if retry_in is not None:
        return instant(now + min(max(retry_in, timedelta(0)), backoff.MAX_DELAY))
    failed = backoff.FailedRetry(
        retry_count=letter.retry_count, category=letter.error_category, error=letter.last_error
    )
    return instant(now + (backoffs.delay_for(letter.retry_policy, failed).duration or timedelta(0)))


def _schedule(letter: DeadLetter, now: datetime, retry_in: timedelta | None, backoffs: BackoffRegistry) -> DeadLetter:
    """Set the first retry date of a case that was just opened; exhausted where no retry is allowed."""
    if not retries_itself(letter):
        return evolve(letter, status=PENDING, due_at=None)
    if letter.max_retries == 0:
        return exhaust_letter(letter, now)
    return evolve(letter, status=PENDING, due_at=_due(letter, now, retry_in, backoffs))


def _with_added_repos(letter: DeadLetter) -> DeadLetter:
    """Add the repos that the task failed for during this run to those of the next one."""
    if not has_failed_again(letter):
        return letter
    return evolve(letter, repos=all_repos(letter.repos, letter.more_repos), more_repos=())


def _append_failure(failures: tuple[Failure, ...], failure: Failure) -> tuple[Failure, ...]:
    """Append a failure. Keeps the first one and the latest ones."""
    return (*failures[:1], *failures[max(1, len(failures) - KEPT_FAILURES + 2) :], failure)


def _close_requeue(letter: DeadLetter, outcome: RequeueOutcome) -> DeadLetter:
    """Record the outcome of a requeue that is in flight."""
    if letter.requeue is None or letter.requeue.outcome is not RequeueOutcome.IN_FLIGHT:
        return letter
    return evolve(letter, requeue=replace(letter.requeue, outcome=outcome))


def _with_failure(
    letter: DeadLetter, failure: Failure, left: tuple[str, ...] | None = None, verdict: LatestVerdict | None = None
) -> DeadLetter:
    letter = _close_requeue(letter, RequeueOutcome.FAILED)
    if left is not None:  # the application may have done some of them since the run began
        left = tuple([repo for repo in left if repo in letter.repos]) or left
        letter = evolve(letter, repos=left)
    letter = _with_added_repos(letter)
    letter = _with_verdict(letter, failure, verdict)
    return evolve(
        letter,
        last_error=failure.message,
        failures=_append_failure(letter.failures, failure),
        run_outcomes=outcomes_after(letter.run_outcomes, ItemOutcome.FAILED_AGAIN),
        tallies=letter.tallies.plus("retry_failed"),
        recoveries=0,
        unfit=None,
    )


def _with_verdict(letter: DeadLetter, failure: Failure, verdict: LatestVerdict | None) -> DeadLetter:
    """Return the letter with the verdict on its latest failure."""
    changes: dict[str, Any] = {"error_category": failure.category or letter.error_category}
    if verdict is not None:
        changes |= {"verdict": verdict.recorded, "tags": verdict.tags}
        if verdict.policy is not None and letter.policy_by_verdict:
            changes |= {"retry_policy": verdict.policy, "policy_by_verdict": verdict.by_verdict}
        group = verdict.fingerprint
        if group is not None and group != letter.fingerprint:
            former = (each for each in (*letter.former_fingerprints, letter.fingerprint) if each not in (group, None))
            changes |= {"fingerprint": group, "former_fingerprints": tuple(former)[-MAX_FORMER_FINGERPRINTS:]}
            changes["grouped_at"] = failure.at
    return evolve(letter, **changes)


def _reschedule(
    before: DeadLetter, letter: DeadLetter, failure: Failure, now: datetime, backoffs: BackoffRegistry
) -> DeadLetter:
    """The letter with the date that a merged failure leaves or gives it; while it is run, the date after that run."""
    lease = letter.lease
    due = lease.prior_due if lease is not None else letter.due_at
    if letter.status is EXHAUSTED or (lease is not None and lease.prior is EXHAUSTED):
        return letter
    asked = None if failure.retry_in_seconds is None else timedelta(seconds=failure.retry_in_seconds)
    if not retries_itself(letter):
        due = None
    elif letter.max_retries and (not retries_itself(before) or (due is not None and asked is not None)):
        due = _due(letter, now, asked, backoffs)
    return evolve(letter, due_at=due) if lease is None else evolve(letter, lease=replace(lease, prior_due=due))


def _back_to_prior(letter: DeadLetter, lease: Lease, now: datetime) -> DeadLetter:
    """Return to the state before the claim."""
    due = lease.prior_due if retries_itself(letter) else None
    return change_letter(letter, now, status=lease.prior, lease=None, due_at=due)


def _use_up_retry(
    letter: DeadLetter, now: datetime, retry_in: timedelta | None, backoffs: BackoffRegistry
) -> DeadLetter:
    """Count one automatic retry: schedule the next one, or exhaust the letter."""
    count = min(letter.retry_count + 1, letter.max_retries)
    spent = change_letter(letter, now, lease=None, retry_count=count)
    if count >= letter.max_retries or not retries_itself(letter):
        return exhaust_letter(spent, now)
    return evolve(spent, status=PENDING, due_at=_due(spent, now, retry_in, backoffs))


def exhaust_letter(letter: DeadLetter, now: datetime) -> DeadLetter:
    """Return the letter without any further automatic retry."""
    tallies = letter.tallies.plus("exhausted")
    return evolve(letter, status=EXHAUSTED, due_at=None, exhausted_at=now, tallies=tallies)


def _reopen(letter: DeadLetter, now: datetime) -> DeadLetter:
    tallies = letter.tallies if letter.is_open else letter.tallies.plus("reopened")
    fresh = {"status": PENDING, "resolution": Resolution(), "retry_count": 0, "recoveries": 0, "exhausted_at": None}
    fresh["unfit"] = None
    outcomes = outcomes_after_redrive(letter.run_outcomes, sent=True)
    return change_letter(letter, now, **fresh, due_at=instant(now), run_outcomes=outcomes, tallies=tallies)


def close_case(
    letter: DeadLetter,
    status: DeadLetterStatus,
    how: ResolutionStatus,
    tally: str,
    now: datetime,
    by: str | None = None,
    notes: str | None = None,
) -> DeadLetter:
    """Return the letter after its case has ended in this way; everything in progress for it is over."""
    now = instant(now)
    letter = _close_requeue(letter, RequeueOutcome.ABANDONED)
    moment = {COMPLETED: "completed_at", ARCHIVED: "archived_at", EXHAUSTED: "exhausted_at"}[status]
    resolution = Resolution(how, now, by, notes)
    outcome = ItemOutcome.SUCCEEDED if how is ResolutionStatus.REQUEUED else ItemOutcome.CLOSED
    changes: dict[str, Any] = {
        "status": status,
        "resolution": resolution,
        "run_outcomes": outcomes_after(letter.run_outcomes, outcome),
        "tallies": letter.tallies.plus(tally),
        "due_at": None,
        "lease": None,
        "recoveries": 0,
        "unfit": None,
    }
    if getattr(letter, moment) is None:  # an exhausted letter keeps its date
        changes[moment] = now
    return change_letter(letter, now, **changes)
