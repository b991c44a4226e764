"""Bulk runs: one verb for all letters that a query meant when the run was started. The rules, without any I/O.

A run goes through *planning*, which freezes its members, and *running*, which moves them one slice after the other, to
*done*; people pause, resume and cancel it, and its stop rule halts it. `next_step` says what is to be done now. As with
letters, `due_at` says when anyone may carry the run on: whoever does holds a lease meanwhile.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import accumulate
from typing import Any, Final, TypeAlias

from mahavishnu.model.clock import instant
from mahavishnu.model.errors import IllegalRunMove, InvalidInput
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus, Version

PAGE = 200  # members in one page, and letters moved at once
POLL_SECONDS = 1.0  # between two looks at what became of the letters
LONGEST_POLL_SECONDS = 60.0  # where nothing has been heard for long
SLOWEST = 1 / 86_400  # letters in a second: one a day
RAMP = (1, 5, 25)  # the waves of a run that has a stop rule, and was given none
GRACE_SECONDS = 60.0  # in which a worker takes up a letter whose lease has run out
BUSY = "it is being run: looked at again when the others are done"  # why a member waits
_OPEN = "open"
_FAILED_BEFORE = "failed_before"  # it failed again, and then somebody took it up anew: a success is theirs
AWAITED = frozenset({"redrive"})  # verbs after which a letter is run, so that there is an outcome to wait for


class RunState(StrEnum):
    """What becomes of the run."""

    PLANNING = "planning"  #: its members are being written down
    RUNNING = "running"
    PAUSED = "paused"  #: by a person
    HALTED = "halted"  #: by its stop rule, or because it cannot go on; `halted_because` says why
    CANCELLED = "cancelled"
    DONE = "done"


ACTIVE: Final = (RunState.PLANNING, RunState.RUNNING)  # somebody is to carry it on
ENDED: Final = (RunState.CANCELLED, RunState.DONE)  # for ever


class ItemState(StrEnum):
    """What the run did to one of its members."""

    WAITING = "waiting"  #: nothing yet; if its turn has come, but it was being run then, `why` says so
    MOVED = "moved"
    REFUSED = "refused"  #: the letter's state did not allow it; `why` says so
    GONE = "gone"  #: it had been deleted, or replaced by the next failure of its task


class ItemOutcome(StrEnum):
    """What became of a redriven letter."""

    SUCCEEDED = "succeeded"
    FAILED_AGAIN = "failed_again"  #: a run failed since, whether or not further ones are due
    CLOSED = "closed"  #: before it was run, somebody closed the case, deleted the letter, or sent it again


@dataclass(frozen=True, slots=True)
class RunItem:
    """A member of a run: a letter, as it was called when the run was planned."""

    key: str
    entry_id: str
    state: ItemState = ItemState.WAITING
    why: str | None = None
    outcome: ItemOutcome | None = None

    @property
    def is_fresh(self) -> bool:
        """Whether its turn has not come yet."""
        return self.state is ItemState.WAITING and self.why is None

    @property
    def is_busy(self) -> bool:
        """Whether it was being run when its turn came, and is to be looked at again."""
        return self.state is ItemState.WAITING and self.why is not None


@dataclass(frozen=True, slots=True)
class RunPage:
    """Some members of a run, written down by one of its plans; the plan that the run names is the one that counts."""

    run_id: str
    plan: str
    number: int
    items: tuple[RunItem, ...]
    version: Version | None = field(default=None, compare=False)

    @property
    def key(self) -> str:
        return page_key(self.run_id, self.plan, self.number)


@dataclass(frozen=True, slots=True)
class RunCounts:
    """How far the run is. Only letters that were moved can have succeeded, failed again or been closed."""

    members: int = 0
    moved: int = 0
    refused: int = 0
    gone: int = 0
    succeeded: int = 0
    failed_again: int = 0
    closed: int = 0

    @property
    def waiting(self) -> int:
        """Members that nothing was done to yet."""
        return self.members - self.moved - self.refused - self.gone

    @property
    def awaited(self) -> int:
        """Moved letters of which it is not known what became of them; says nothing unless the verb is awaited."""
        return max(0, self.moved - self.succeeded - self.failed_again - self.closed)

    def plus(self, other: RunCounts) -> RunCounts:
        """The sums of both."""
        return RunCounts(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))


@dataclass(frozen=True, slots=True)
class RunLease:
    """Who carries the run on, until its `due_at`. `left`: it has stopped, without saying how far it has come."""

    owner: str
    token: str
    left: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkRun:
    """One bulk run, as it is stored. The functions below make the next one out of it.

    `ramp` are the sizes of the first waves; after them come all the others. `max_per_second` is the most that are moved
    in a second, `stop_percent` how many of the moved letters may fail again. `at_page` is the first page that may have
    members whose turn has not come, `busy_pages` are those with members that were being run then, the next one first.
    `paced_at` is when the next slice may be moved; `quiet_since` when the last outcome was heard of.
    While it has a lease, it may be further than it says.
    """

    run_id: str
    verb: str
    query: Json
    by: str
    created_at: datetime
    updated_at: datetime
    patch: Json | None = None
    reason: str | None = None
    state: RunState = RunState.PLANNING
    ramp: tuple[int, ...] = ()
    step: int = 0
    max_per_second: float | None = None
    stop_percent: float | None = None
    counts: RunCounts = field(default_factory=RunCounts)
    halted_because: str | None = None
    plan: str | None = None
    pages: int = 0
    at_page: int = 0
    busy_pages: tuple[int, ...] = ()
    paced_at: datetime | None = None
    quiet_since: datetime | None = None
    lease: RunLease | None = None
    due_at: datetime | None = None
    finished_at: datetime | None = None
    version: Version | None = field(default=None, compare=False)

    @property
    def key(self) -> str:
        return self.run_id

    @property
    def awaits_outcomes(self) -> bool:
        """Whether the run waits for what becomes of the letters that it moved."""
        return self.verb in AWAITED

    @property
    def is_over(self) -> bool:
        """Whether it is for ever that nobody carries it on, or asks letters what was done."""
        return self.state in ENDED and self.lease is None


# --- what is to be done now


@dataclass(frozen=True, slots=True)
class Move:
    """Move so many of the waiting members."""

    most: int


@dataclass(frozen=True, slots=True)
class Wait:
    """There is nothing to do before this instant."""

    until: datetime


@dataclass(frozen=True, slots=True)
class Halt:
    """The stop rule says that enough is enough."""

    why: str


@dataclass(frozen=True, slots=True)
class Finish:
    """Everything is done."""


Step: TypeAlias = "Move | Wait | Halt | Finish"


def next_step(run: BulkRun, now: datetime) -> Step:
    """What a running run needs now, by its counts: outcomes have to be known where they decide (see `must_look`)."""
    counts = run.counts
    if why := too_many_failed(run):
        return Halt(why)
    if counts.awaited and must_wait(run):
        return Wait(_next_look(run, now))
    if not counts.waiting:
        return Finish()
    if run.paced_at is not None and run.paced_at > now:
        return Wait(run.paced_at)
    most = min(PAGE, counts.waiting, wave_left(run))
    if run.max_per_second is not None:
        most = min(most, max(1, math.floor(run.max_per_second)))
    return Move(most)


def _next_look(run: BulkRun, now: datetime) -> datetime:
    """When there may be news of letters: looks become rare where nothing is heard for long."""
    quiet = (now - run.quiet_since).total_seconds() if run.quiet_since else 0.0
    seconds = max(POLL_SECONDS, min(quiet / 20, LONGEST_POLL_SECONDS))
    return instant(now + timedelta(seconds=seconds))


def must_look(run: BulkRun) -> bool:
    """Whether `next_step` depends on what became of the letters so far."""
    return run.awaits_outcomes and run.counts.moved > 0 and (run.stop_percent is not None or must_wait(run))


def must_wait(run: BulkRun) -> bool:
    """Whether nothing more may be moved until every letter that was moved so far has an outcome."""
    if not run.awaits_outcomes:
        return False
    return not run.counts.waiting or run.counts.moved in accumulate(run.ramp)


def wave_left(run: BulkRun) -> int:
    """How many letters are still to be moved in the present wave."""
    ends = (end for end in accumulate(run.ramp) if end > run.counts.moved)
    return next(ends, run.counts.moved + run.counts.waiting) - run.counts.moved


def too_many_failed(run: BulkRun) -> str | None:
    """Why the run has to be halted, if it has to."""
    counts, percent = run.counts, run.stop_percent
    if percent is None or not run.awaits_outcomes or not is_beyond(counts, percent):
        return None
    return f"{counts.failed_again} of {counts.moved} letters failed again, which is more than {percent:g} %"


def is_beyond(counts: RunCounts, percent: float) -> bool:
    """Whether more than so many percent of the moved letters failed again."""
    return counts.failed_again * 100 > percent * counts.moved


def percent_to_go_on(counts: RunCounts) -> int:
    """A stop rule with which a run that has come so far goes on: the next tenth.

    >>> percent_to_go_on(RunCounts(moved=6, failed_again=2)), percent_to_go_on(RunCounts(moved=1, failed_again=1))
    (40, 100)
    """
    return min(100, 10 * (100 * counts.failed_again // (10 * max(1, counts.moved)) + 1))


# --- what a letter notes for the runs that redrove it


def outcome_mark(run_id: str, outcome: ItemOutcome | None = None) -> str:
    """What a letter notes for a run; no outcome: that is open.

    >>> outcome_mark("0197"), outcome_mark("0197", ItemOutcome.FAILED_AGAIN)
    ('open 0197', 'failed_again 0197')
    """
    return f"{outcome or _OPEN} {run_id}"


def outcomes_after(marks: tuple[str, ...], outcome: ItemOutcome) -> tuple[str, ...]:
    """What is noted once a run has ended, or the case.

    The first thing that happens to a letter is what became of it; but one that failed again may succeed later, by a
    retry that it has left.
    """
    if not marks:
        return marks
    takes = (_OPEN, ItemOutcome.FAILED_AGAIN) if outcome is ItemOutcome.SUCCEEDED else (_OPEN,)
    pairs = [mark.partition(" ") for mark in marks]
    return tuple([f"{outcome if known in takes else known} {run_id}" for known, _, run_id in pairs])


def taken_up_anew(marks: tuple[str, ...], *, sent: bool) -> tuple[str, ...]:
    """What is noted once somebody has `sent` the letter again, or only changed its task.

    What comes of it then is not what came of the runs before. Only a changed one is still on its way for them.

    >>> taken_up_anew(("open 0197", "failed_again 0198", "succeeded 0199"), sent=True)
    ('closed 0197', 'failed_before 0198', 'succeeded 0199')
    """
    if not marks:
        return marks
    ended = {_OPEN: ItemOutcome.CLOSED if sent else _OPEN, ItemOutcome.FAILED_AGAIN: _FAILED_BEFORE}
    pairs = [mark.partition(" ") for mark in marks]
    return tuple([f"{ended.get(known, known)} {run_id}" for known, _, run_id in pairs])


def marks_of(run_id: str, outcome: ItemOutcome | None) -> tuple[str, ...]:
    """All that a letter may note for a run where it has come to this."""
    before = (f"{_FAILED_BEFORE} {run_id}",) if outcome is ItemOutcome.FAILED_AGAIN else ()
    return (outcome_mark(run_id, outcome), *before)


def outcome_for(letter: DeadLetter, run_id: str) -> ItemOutcome | None:
    """What became of a letter that the run has redriven; None while that is open."""
    known = next((mark for mark in letter.run_outcomes if mark.partition(" ")[2] == run_id), _OPEN).partition(" ")[0]
    if known == _FAILED_BEFORE:
        return ItemOutcome.FAILED_AGAIN
    return None if known == _OPEN else ItemOutcome(known)


def is_busy(letter: DeadLetter, now: datetime) -> bool:
    """Whether the letter is being run: a run waits for that, but not for ever where nobody takes over a lost lease."""
    if letter.status is not DeadLetterStatus.RETRYING or letter.due_at is None:
        return False
    return now < letter.due_at + timedelta(seconds=GRACE_SECONDS)


# --- how a run changes


def ramp_of(verb: str, ramp: Any, stop_percent: float | None) -> tuple[int, ...]:
    """The waves that somebody asks for: the usual ones for None, where a stop rule needs time. Raises InvalidInput.

    >>> ramp_of("redrive", None, 20), ramp_of("redrive", (), 20), ramp_of("redrive", None, None)
    ((1, 5, 25), (), ())
    """
    if ramp is None:
        return RAMP if stop_percent is not None and verb in AWAITED else ()
    try:
        return tuple(ramp)
    except TypeError:
        raise InvalidInput(f"a ramp is a list of whole numbers, not {ramp!r:.80}") from None


def checked(run: BulkRun) -> BulkRun:
    """The run, if it can be. Raises InvalidInput."""
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


def is_free(run: BulkRun, now: datetime, skew: timedelta) -> bool:
    """Whether anyone may carry the run on now. The end of somebody's lease is waited out by `skew`."""
    if run.state not in ACTIVE or run.due_at is None:
        return False
    return run.due_at + (skew if run.lease and not run.lease.left else timedelta(0)) <= now


def taken(run: BulkRun, lease: RunLease, until: datetime, now: datetime) -> BulkRun:
    """Carried on by this holder until then."""
    return _changed(run, now, lease=lease, due_at=instant(until))


def planned(run: BulkRun, plan: str, pages: int, counts: RunCounts, now: datetime) -> BulkRun:
    """Its members are known: it can run. A person may have paused or cancelled it meanwhile."""
    state = RunState.RUNNING if run.state is RunState.PLANNING else run.state
    return _changed(run, now, state=state, plan=plan, pages=pages, counts=counts, at_page=0)


def moved_on(
    run: BulkRun, counts: RunCounts, page: int, released: int, now: datetime, *, busy: bool = False
) -> BulkRun:
    """So many letters of this page were released just now, and this is how far it is; some of it may be `busy`."""
    paced, at_page = run.paced_at, max(run.at_page, page)
    busy_pages = (*(number for number in run.busy_pages if number != page), *((page,) if busy else ()))
    heard = run if counts == run.counts else replace(run, counts=counts, quiet_since=instant(now))
    if run.max_per_second is not None and released:
        # Rounded up: it may be slower than asked for by a millisecond, never quicker.
        wait = timedelta(milliseconds=math.ceil(1000 * released / run.max_per_second))
        paced = instant(now) + wait
    if busy_pages and at_page == run.pages and page >= max(busy_pages):  # all that are left were looked at once
        paced = max(_next_look(heard, now), paced or instant(now))
    step = bisect_right(list(accumulate(run.ramp)), counts.moved)
    return replace(heard, at_page=at_page, busy_pages=busy_pages, paced_at=paced, step=step)


def heard(run: BulkRun, counts: RunCounts, now: datetime) -> BulkRun:
    """What became of the letters, as far as it is known now."""
    return run if counts == run.counts else replace(run, counts=counts, quiet_since=instant(now))


def given_back(run: BulkRun, due_at: datetime, now: datetime) -> BulkRun:
    """Nobody's any more; anyone may carry it on from then."""
    return _changed(run, now, lease=None, due_at=instant(due_at) if run.state in ACTIVE else None)


def left(run: BulkRun, now: datetime) -> BulkRun:
    """Its holder stops in the middle of something: anyone may carry it on now, and has to look how far it has come."""
    lease = replace(run.lease, left=True) if run.lease else None
    return _changed(run, now, lease=lease, due_at=instant(now))


def halted(run: BulkRun, why: str, now: datetime) -> BulkRun:
    """Nothing more is touched until somebody resumes it."""
    return _changed(run, now, state=RunState.HALTED, halted_because=why, lease=None, due_at=None)


def finished(run: BulkRun, now: datetime) -> BulkRun:
    """Everything is done."""
    return _changed(run, now, state=RunState.DONE, lease=None, due_at=None, finished_at=instant(now))


def paused(run: BulkRun, now: datetime) -> BulkRun:
    """A person holds it up. Whoever carries it on at this moment gives it back after the present slice."""
    if run.state is RunState.PAUSED:
        return run
    if run.state not in ACTIVE:
        raise IllegalRunMove(run.run_id, "pause", run.state)
    return _changed(run, now, state=RunState.PAUSED)


class Same(StrEnum):
    """Stands for a value that is to stay as it is."""

    SAME = "same"


def resumed(run: BulkRun, now: datetime, stop_percent: float | Same | None = Same.SAME) -> BulkRun:
    """Carried on from where it stopped, perhaps with another stop rule; the first one it has gets the usual waves.

    A halted one whose stop rule would halt it again at once, by its counts, is not: that takes another rule.
    """
    if run.state in ENDED:
        raise IllegalRunMove(run.run_id, "resume", run.state)
    if not isinstance(stop_percent, Same):
        ramp = run.ramp
        if not ramp and run.stop_percent is None and stop_percent is not None:
            ramp = (*([run.counts.moved] if run.counts.moved else []), *RAMP)  # from here on
        run = checked(replace(run, stop_percent=stop_percent, ramp=ramp))
    if run.state in ACTIVE:
        return _changed(run, now)
    if run.state is RunState.HALTED and (why := too_many_failed(run)):
        rule = f"resume it with stop_percent {percent_to_go_on(run.counts)}"
        why = f"it would halt again at once: {why}; {rule}, or cancel it and start another one once the cause is fixed"
        raise IllegalRunMove(run.run_id, "resume", run.state, why)
    state = RunState.PLANNING if run.plan is None else RunState.RUNNING
    due_at = run.due_at if run.lease and run.due_at else instant(now)  # somebody may not have stopped yet
    return _changed(run, now, state=state, halted_because=None, due_at=due_at, quiet_since=instant(now))


def cancelled(run: BulkRun, now: datetime) -> BulkRun:
    """Ended by a person; what was moved stays moved."""
    if run.state is RunState.CANCELLED:
        return run
    if run.state is RunState.DONE:
        raise IllegalRunMove(run.run_id, "cancel", run.state)
    return _changed(run, now, state=RunState.CANCELLED, finished_at=instant(now))


def counted(items: Iterable[RunItem]) -> RunCounts:
    """How far a run with these members is."""
    states: Counter[ItemState] = Counter()
    outcomes: Counter[ItemOutcome | None] = Counter()
    for item in items:
        states[item.state] += 1
        outcomes[item.outcome] += 1
    return RunCounts(
        members=states.total(),
        moved=states[ItemState.MOVED],
        refused=states[ItemState.REFUSED],
        gone=states[ItemState.GONE],
        succeeded=outcomes[ItemOutcome.SUCCEEDED],
        failed_again=outcomes[ItemOutcome.FAILED_AGAIN],
        closed=outcomes[ItemOutcome.CLOSED],
    )


def in_words(run: BulkRun) -> str:
    """What a run has come to, as one says it.

    >>> now, counts = datetime(2026, 1, 1), RunCounts(members=120, moved=119, refused=1, succeeded=117, failed_again=2)
    >>> run = BulkRun(run_id="r", verb="redrive", query=Json("{}"), by="ann", created_at=now, updated_at=now)
    >>> in_words(replace(run, counts=counts)), in_words(replace(run, verb="archive", counts=counts))
    ('117 of 120 letters succeeded, 2 failed again, 1 refused', '119 of 120 letters moved, 1 refused')
    """
    counts = run.counts
    best = "succeeded" if run.awaits_outcomes else "moved"
    others = ("failed_again", "closed", "refused", "gone") if run.awaits_outcomes else ("refused", "gone")
    told = [f"{number} {name.replace('_', ' ')}" for name in others if (number := getattr(counts, name))]
    return ", ".join([f"{getattr(counts, best)} of {counts.members} letters {best}", *told])


def page_key(run_id: str, plan: str, number: int) -> str:
    """Under which a page is kept: in the order of the pages."""
    return f"{run_id}/{plan}/{number:06}"


def paged(run_id: str, plan: str, first: int, items: Sequence[RunItem]) -> list[RunPage]:
    """The items as pages, numbered from `first`."""
    starts = range(0, len(items), PAGE)
    return [
        RunPage(run_id, plan, first + number, tuple(items[start : start + PAGE])) for number, start in enumerate(starts)
    ]


def _changed(run: BulkRun, now: datetime, **changes: Any) -> BulkRun:
    # A machine whose clock is behind must not move the run back in time.
    return replace(run, updated_at=max(instant(now), run.updated_at + timedelta(milliseconds=1)), **changes)


def _check_percent(percent: float | None) -> None:
    if percent is not None and not (_is_number(percent) and 0 <= percent <= 100):
        raise InvalidInput(f"stop_percent must be a number from 0 to 100, not {percent!r:.80}")


def _is_number(value: object) -> bool:
    # A whole number may be larger than any other: it could not be read again.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
