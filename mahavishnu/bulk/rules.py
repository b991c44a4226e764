"""What a bulk run does next, and how it changes: pure functions, as for letters in `lifecycle`.

A run goes through *planning*, which freezes its members, and *running*, which moves them one slice after the other, to
*done*; people pause, resume and cancel it, and its stop rule halts it. `next_step` says what is to be done now. As with
letters, `due_at` says when any process may work on the run: it holds a lease meanwhile.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import accumulate
from typing import Any, TypeAlias

from msgspec.structs import replace

from mahavishnu.bulk.run import (
    ACTIVE,
    AWAITED,
    ENDED,
    PAGE,
    BulkRun,
    ItemState,
    RunCounts,
    RunItem,
    RunLease,
    RunState,
    count_items,
    marks_for,
)
from mahavishnu.model.clock import add_time, instant
from mahavishnu.model.errors import IllegalRunMove, InvalidInput
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import UNCHANGED, DeadLetterStatus, ResolutionStatus, Unchanged
from mahavishnu.model.query import AnyOf, Between, Condition, Is, Not, Query, Sort, query_from_json
from mahavishnu.model.record import Value
from mahavishnu.model.work import ItemOutcome

POLL_SECONDS = 1.0  # between two questions what became of the letters
LONGEST_POLL_SECONDS = 60.0  # where the outcomes have not changed for long
SLOWEST = 1 / 86_400  # letters in a second: one a day
RAMP = (1, 5, 25)  # the waves of a run that has a stop rule and for which nobody gave a ramp
GRACE_SECONDS = 60.0  # in which a worker takes over a letter whose lease has run out
_OPEN = Is("resolution_status", (ResolutionStatus.PENDING,))
_LATEST = (Sort("updated_at", descending=True),)


# --- what is to be done now


class MoveSlice(Value, frozen=True):
    """Move so many of the waiting members."""

    most: int


class WaitUntil(Value, frozen=True):
    """Do nothing before this instant."""

    until: datetime


class Halt(Value, frozen=True):
    """Halt: the stop rule applies, for this reason."""

    why: str


class Finish(Value, frozen=True):
    """End the run: every member was moved, and every outcome is known."""


NextStep: TypeAlias = "MoveSlice | WaitUntil | Halt | Finish"


def next_step(run: BulkRun, now: datetime) -> NextStep:
    """Return the next step of a running run, by its counts. Where `needs_outcomes` says so, count outcomes first."""
    counts = run.counts
    if why := stop_reason(run):
        return Halt(why)
    if counts.awaited and must_wait_for_outcomes(run):
        return WaitUntil(_next_poll(run, now))
    if not counts.waiting:
        return Finish()
    if run.paced_at is not None and run.paced_at > now:
        return WaitUntil(run.paced_at)
    most = min(PAGE, counts.waiting, wave_left(run))
    if run.max_per_second is not None:
        most = min(most, max(1, math.floor(run.max_per_second)))
    return MoveSlice(most)


def _next_poll(run: BulkRun, now: datetime) -> datetime:
    """Return when to look for outcomes again: less often the longer they have not changed."""
    quiet = (now - run.quiet_since).total_seconds() if run.quiet_since else 0.0
    seconds = max(POLL_SECONDS, min(quiet / 20, LONGEST_POLL_SECONDS))
    return instant(now + timedelta(seconds=seconds))


def needs_outcomes(run: BulkRun) -> bool:
    """Return whether `next_step` depends on the outcomes of the letters moved so far."""
    has_moved = run.awaits_outcomes and run.counts.moved > 0
    return has_moved and (run.stop_percent is not None or must_wait_for_outcomes(run))


def must_wait_for_outcomes(run: BulkRun) -> bool:
    """Return whether nothing more may be moved until every moved letter has an outcome."""
    if not run.awaits_outcomes:
        return False
    return not run.counts.waiting or run.counts.moved in accumulate(run.ramp)


def wave_left(run: BulkRun) -> int:
    """Return how many letters are still to be moved in the present wave."""
    ends = (end for end in accumulate(run.ramp) if end > run.counts.moved)
    return next(ends, run.counts.moved + run.counts.waiting) - run.counts.moved


def stop_reason(run: BulkRun) -> str | None:
    """Return why the stop rule halts the run; None if it does not."""
    counts, percent = run.counts, run.stop_percent
    if percent is None or not run.awaits_outcomes or not exceeds(counts, percent):
        return None
    return f"{counts.failed_again} of {counts.moved} letters failed again, which is more than {percent:g} %"


def exceeds(counts: RunCounts, percent: float) -> bool:
    """Return whether more than so many percent of the moved letters failed again."""
    return counts.failed_again * 100 > percent * counts.moved


def percent_to_resume_with(counts: RunCounts) -> int:
    """Return a `stop_percent` with which a run with these counts does not halt at once: the next multiple of ten.

    >>> percent_to_resume_with(RunCounts(moved=6, failed_again=2))
    40
    >>> percent_to_resume_with(RunCounts(moved=1, failed_again=1))
    100
    """
    return min(100, 10 * (100 * counts.failed_again // (10 * max(1, counts.moved)) + 1))


def is_busy(letter: DeadLetter, now: datetime) -> bool:
    """Return whether a worker is running the letter, or lost its lease less than `GRACE_SECONDS` ago."""
    if letter.status is not DeadLetterStatus.RETRYING or letter.due_at is None:
        return False
    return now < add_time(letter.due_at, timedelta(seconds=GRACE_SECONDS))


# --- how a run changes


def choose_ramp(verb: str, ramp: Any, stop_percent: float | None) -> tuple[int, ...]:
    """Return the sizes of the first waves: the given `ramp`, else `RAMP` under a stop rule. Raise InvalidInput.

    >>> choose_ramp("redrive", None, 20), choose_ramp("redrive", (), 20), choose_ramp("redrive", None, None)
    ((1, 5, 25), (), ())
    """
    if ramp is None:
        return RAMP if stop_percent is not None and verb in AWAITED else ()
    try:
        return tuple(ramp)
    except TypeError:
        raise InvalidInput(f"a ramp is a list of whole numbers, not {ramp!r:.80}") from None


def validate_run(run: BulkRun) -> BulkRun:
    """Return the run. Raise InvalidInput if its options are not valid."""
    if not all(type(size) is int and size > 0 for size in run.ramp):
        raise InvalidInput(f"the waves of a ramp are whole numbers from 1, not {run.ramp!r:.80}")
    if run.max_per_second is not None and not (_is_number(run.max_per_second) and run.max_per_second >= SLOWEST):
        raise InvalidInput(f"max_per_second must be a number, at least one a day, not {run.max_per_second!r:.80}")
    _check_percent(run.stop_percent)
    if run.stop_percent is not None and not run.awaits_outcomes:
        raise InvalidInput(f"stop_percent is for redrives: after {run.verb!r} nothing can fail again")
    for name in ("by", "reason"):
        if not isinstance(value := getattr(run, name), str) and (value is not None or name == "by"):
            raise InvalidInput(f"{name} must be text, not {value!r:.80}")
    return run


def is_free(run: BulkRun, now: datetime, skew: timedelta, dropped: Collection[str] = ()) -> bool:
    """Return whether anyone may take the run: its lease, plus `skew`, has ended, or its token is `dropped`."""
    if run.state not in ACTIVE or run.due_at is None:
        return False
    if run.lease is not None and run.lease.token in dropped:
        return True
    return run.due_at + (skew if run.lease and not run.lease.left else timedelta(0)) <= now


def with_lease(run: BulkRun, lease: RunLease, until: datetime, now: datetime) -> BulkRun:
    """Return the run with this lease until then."""
    return _change(run, now, lease=lease, due_at=instant(until))


def with_plan(run: BulkRun, plan: str, pages: int, counts: RunCounts, now: datetime) -> BulkRun:
    """Return the run with its plan: it runs now, unless a person paused or cancelled it meanwhile."""
    state = RunState.RUNNING if run.state is RunState.PLANNING else run.state
    return _change(run, now, state=state, plan=plan, pages=pages, counts=counts, at_page=0)


def after_slice(
    run: BulkRun, counts: RunCounts, page: int, released: int, now: datetime, *, busy: bool = False
) -> BulkRun:
    """Return the run after `released` letters of the page were moved; `busy`: some members are still being run."""
    paced, at_page = run.paced_at, max(run.at_page, page)
    busy_pages = (*(number for number in run.busy_pages if number != page), *((page,) if busy else ()))
    counted = with_outcomes(run, counts, now)
    if run.max_per_second is not None and released:
        # Rounded up: it may be slower than asked for by a millisecond, never quicker.
        wait = timedelta(milliseconds=math.ceil(1000 * released / run.max_per_second))
        paced = instant(now) + wait
    if busy_pages and at_page == run.pages and page >= max(busy_pages):  # every member that is left was tried once
        paced = max(_next_poll(counted, now), paced or instant(now))
    step = bisect_right(list(accumulate(run.ramp)), counts.moved)
    return replace(counted, at_page=at_page, busy_pages=busy_pages, paced_at=paced, step=step)


def with_outcomes(run: BulkRun, counts: RunCounts, now: datetime) -> BulkRun:
    """Return the run with these counts; `quiet_since` is when they changed last."""
    return run if counts == run.counts else replace(run, counts=counts, quiet_since=instant(now))


def return_lease(run: BulkRun, due_at: datetime, now: datetime) -> BulkRun:
    """Give the lease back: anyone may take the run from `due_at` on."""
    return _change(run, now, lease=None, due_at=instant(due_at) if run.state in ACTIVE else None)


def abandon_lease(run: BulkRun, now: datetime) -> BulkRun:
    """Stop in the middle of a slice: anyone may take the run now, and has to find out how far it has come."""
    lease = replace(run.lease, left=True) if run.lease else None
    return _change(run, now, lease=lease, due_at=instant(now))


def halt(run: BulkRun, why: str, now: datetime) -> BulkRun:
    """Halt the run: no more letters are moved until a person resumes it."""
    return _change(run, now, state=RunState.HALTED, halted_because=why, lease=None, due_at=None)


def finish(run: BulkRun, now: datetime) -> BulkRun:
    """End the run: everything is done."""
    return _change(run, now, state=RunState.DONE, lease=None, due_at=None, finished_at=instant(now))


def pause(run: BulkRun, now: datetime) -> BulkRun:
    """Pause the run. The process that works on it finishes its slice, then returns the lease. Raise IllegalRunMove."""
    if run.state is RunState.PAUSED:
        return run
    if run.state not in ACTIVE:
        raise IllegalRunMove(run.run_id, "pause", run.state)
    return _change(run, now, state=RunState.PAUSED)


def resume(run: BulkRun, now: datetime, stop_percent: float | Unchanged | None = UNCHANGED) -> BulkRun:
    """Continue the run where it stopped, perhaps with another stop rule. The first stop rule brings the usual ramp.

    Raise IllegalRunMove for a run that is over, and for a halted run whose stop rule would halt it again at once.
    """
    if run.state in ENDED:
        raise IllegalRunMove(run.run_id, "resume", run.state)
    if stop_percent is not UNCHANGED:
        ramp = run.ramp
        if not ramp and run.stop_percent is None and stop_percent is not None:
            ramp = (*([run.counts.moved] if run.counts.moved else []), *RAMP)  # from here on
        run = validate_run(replace(run, stop_percent=stop_percent, ramp=ramp))
    if run.state in ACTIVE:
        return _change(run, now)
    if run.state is RunState.HALTED and (why := stop_reason(run)):
        rule = f"resume it with stop_percent {percent_to_resume_with(run.counts)}"
        why = f"it would halt again at once: {why}; {rule}, or cancel it and start another one once the cause is fixed"
        raise IllegalRunMove(run.run_id, "resume", run.state, why)
    state = RunState.PLANNING if run.plan is None else RunState.RUNNING
    due_at = run.due_at if run.lease and run.due_at else instant(now)  # its last process may not have stopped yet
    return _change(run, now, state=state, halted_because=None, due_at=due_at, quiet_since=instant(now))


def cancel(run: BulkRun, now: datetime) -> BulkRun:
    """End the run; letters that it moved stay moved. Raise IllegalRunMove for a run that is done."""
    if run.state is RunState.CANCELLED:
        return run
    if run.state is RunState.DONE:
        raise IllegalRunMove(run.run_id, "cancel", run.state)
    return _change(run, now, state=RunState.CANCELLED, finished_at=instant(now))


def _change(run: BulkRun, now: datetime, **changes: Any) -> BulkRun:
    # A machine whose clock is behind must not move the run back in time.
    return replace(run, updated_at=max(instant(now), run.updated_at + timedelta(milliseconds=1)), **changes)


def _check_percent(percent: float | None) -> None:
    if percent is not None and not (_is_number(percent) and 0 <= percent <= 100):
        raise InvalidInput(f"stop_percent must be a number from 0 to 100, not {percent!r:.80}")


def _is_number(value: object) -> bool:
    # A whole number may be larger than any other: it could not be read again.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


# --- waves, and the letters that another fix is for


class WaveState(StrEnum):
    """The state of a wave."""

    DONE = "done"
    RUNNING = "running"
    WAITS = "waits"  #: for the waves before it
    PAUSED = "paused"
    HALTED = "halted"
    LEFT = "left"  #: nobody touches it unless the run is resumed, or ever, as the run is over


class FixScope(StrEnum):
    """The letters of a run that another fix is for. Closed letters are left alone."""

    FAILED = "failed"  #: those that failed again
    REST = "rest"  #: all others that the run's filter means
    BOTH = "both"


class Wave(Value, frozen=True):
    """A step of a bulk run: how many letters it has, and what became of them."""

    size: int
    moved: int
    succeeded: int
    failed_again: int
    closed: int
    state: WaveState

    @property
    def awaited(self) -> int:
        """Letters that were moved and have no outcome yet."""
        return max(0, self.moved - self.succeeded - self.failed_again - self.closed)


def waves_of(run: BulkRun, first: Sequence[RunItem]) -> Sequence[Wave]:
    """Return the waves of a run, the last one with all the others. `first` are its first members, in their order.

    Where `first` lacks members of a wave, that wave and the later ones become one.
    """
    if not run.counts.members:
        return ()
    sizes = [*_sizes(run, first)]
    moved = [item for item in first if item.state is ItemState.MOVED]
    waves, begin = list[Wave](), 0
    left = run.counts
    for place, size in enumerate(sizes):
        is_last = place == len(sizes) - 1
        counts = left if is_last else count_items(moved[begin : begin + size])
        touched = min(size, max(0, run.counts.moved - begin))
        later = run.counts.moved > begin + size
        awaited = run.awaits_outcomes and touched > counts.succeeded + counts.failed_again + counts.closed
        before_done = all(wave.state is WaveState.DONE for wave in waves)
        state = _state(run.state, touched, size, later=later, awaited=awaited, turn=before_done)
        waves.append(Wave(size, touched, counts.succeeded, counts.failed_again, counts.closed, state))
        left = type(left)(
            succeeded=max(0, left.succeeded - counts.succeeded),
            failed_again=max(0, left.failed_again - counts.failed_again),
            closed=max(0, left.closed - counts.closed),
        )
        begin += size
    return waves


def members_needed(run: BulkRun, most: int) -> int:
    """Return how many of the first members `waves_of` needs, at most `most`."""
    return min(most, sum(run.ramp) + run.counts.refused + run.counts.gone)


def _sizes(run: BulkRun, first: Sequence[RunItem]) -> Iterator[int]:
    whole = run.counts.members - run.counts.refused - run.counts.gone
    known = sum(item.state is ItemState.MOVED for item in first)
    begin = 0
    for end in accumulate(run.ramp):
        if end >= whole or known < min(end, run.counts.moved):
            break
        yield end - begin
        begin = end
    if whole > begin:
        yield whole - begin


def _state(run: RunState, touched: int, size: int, *, later: bool, awaited: bool, turn: bool) -> WaveState:
    if run is RunState.DONE:
        return WaveState.DONE
    if run is RunState.HALTED and touched and not later and (turn or awaited):
        return WaveState.HALTED
    if touched == size and not awaited:
        return WaveState.DONE
    if run in ACTIVE:
        return WaveState.RUNNING if touched or turn else WaveState.WAITS
    if run is RunState.PAUSED:
        return WaveState.PAUSED if touched else WaveState.LEFT
    return WaveState.RUNNING if touched and awaited else WaveState.LEFT


# --- another fix


def failed_again_query(run_id: str, limit: int = 500) -> Query:
    """Return the query for letters that failed again after the run, recently changed first."""
    return Query((Is("run_outcomes", marks_for(run_id, ItemOutcome.FAILED_AGAIN)),), _LATEST, limit)


def fix_query(run: BulkRun, scope: FixScope) -> Query:
    """Return the query for the open letters that another fix is for, without letters newer than the run."""
    failed = failed_again_query(run.run_id).where[0]
    meant = query_from_json(run.query.value).where
    older = Between("created_at", at_most=run.created_at)
    match scope:
        case FixScope.FAILED:
            where: tuple[Condition, ...] = (failed,)
        case FixScope.REST:
            where = (*meant, Not(failed), older)
        case FixScope.BOTH:
            whole = Not(AnyOf(tuple(Not(each) for each in (*meant, older))))
            where = (AnyOf((failed, whole)),)
    return Query((*where, _OPEN), (Sort("created_at", descending=True),))


def named_groups(query: Query) -> list[str]:
    """Return the groups that a query names, also within alternatives; not those that it excludes.

    >>> named_groups(Query((Not(AnyOf((Not(Is("fingerprint", ("v1:a",))), Is("fingerprint", ("v1:b",))))),)))
    ['v1:a']
    """
    found: list[str] = []
    waiting: list[tuple[Condition, bool]] = [(each, True) for each in query.where]
    while waiting:
        condition, meant = waiting.pop()
        match condition:
            case Not(inner):
                waiting.append((inner, not meant))
            case AnyOf(several):
                waiting += [(each, meant) for each in several]
            case Is("fingerprint", values) if meant:
                found += map(str, values)
    return list(dict.fromkeys(found))
