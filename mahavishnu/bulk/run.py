"""Bulk runs, their members and pages, as they are stored; and what a letter notes for the runs that redrove it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from operator import add
from typing import Final

from msgspec import field
from msgspec.structs import astuple

from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.record import Value, Version, Versioned
from mahavishnu.model.work import _FAILED_BEFORE, _OPEN, ItemOutcome, outcome_mark

PAGE = 200  # members in one page, and letters moved at once
BUSY = "it is being run: looked at again when the others are done"  # the `why` of a member that waits
AWAITED = frozenset({"redrive"})  # verbs after which a letter is run, so that there is an outcome to wait for


class RunState(StrEnum):
    """The state of a run."""

    PLANNING = "planning"  #: its members are being written down
    RUNNING = "running"
    PAUSED = "paused"  #: by a person
    HALTED = "halted"  #: by its stop rule, or because it cannot go on; `halted_because` says why
    CANCELLED = "cancelled"
    DONE = "done"


ACTIVE: Final = (RunState.PLANNING, RunState.RUNNING)  # some process is to work on it
ENDED: Final = (RunState.CANCELLED, RunState.DONE)  # for ever


class ItemState(StrEnum):
    """The state of a member of a run."""

    WAITING = "waiting"  #: nothing yet; `why` is set if it was being run when the run tried to move it
    MOVED = "moved"
    REFUSED = "refused"  #: the letter's state did not allow it; `why` says so
    GONE = "gone"  #: it had been deleted, or replaced by the next failure of its task


class RunItem(Value, frozen=True):
    """A member of a run: a letter, as it was called when the run was planned."""

    key: str
    entry_id: str
    state: ItemState = ItemState.WAITING
    why: str | None = None
    outcome: ItemOutcome | None = None

    @property
    def is_fresh(self) -> bool:
        """True if the run has not tried to move it yet."""
        return self.state is ItemState.WAITING and self.why is None

    @property
    def is_busy(self) -> bool:
        """True if it was being run when the run tried to move it, so that it is tried again."""
        return self.state is ItemState.WAITING and self.why is not None


class RunPage(Versioned, frozen=True):
    """Some members of a run. Each attempt to plan writes pages of its own; those of the run's `plan` are valid."""

    run_id: str
    plan: str
    number: int
    items: tuple[RunItem, ...]
    version: Version | None = None

    @property
    def key(self) -> str:
        return page_key(self.run_id, self.plan, self.number)


class RunCounts(Value, frozen=True):
    """The numbers of a run's members. Outcomes are counted for moved letters only."""

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
        """Moved letters without an outcome. Meaningful only if the run awaits outcomes."""
        return max(0, self.moved - self.succeeded - self.failed_again - self.closed)

    def plus(self, other: RunCounts) -> RunCounts:
        """Return the sums of both."""
        return RunCounts(*map(add, astuple(self), astuple(other)))


class RunLease(Value, frozen=True):
    """The lease of a run until its `due_at`. `left`: the owner stopped without recording the progress."""

    owner: str
    token: str
    left: bool = False


class BulkRun(Versioned, frozen=True, kw_only=True):
    """One bulk run, as it is stored. The functions of `bulk_rules` make its next state.

    `ramp` are the sizes of the first waves; after them come all the others. `max_per_second` limits the moves,
    `stop_percent` the share of moved letters that may fail again. `at_page` is the first page that may have fresh
    members, `busy_pages` are the pages with busy members, the next one first. `paced_at` is when the next slice may be
    moved, `quiet_since` when the counts changed last. While the run has a lease, its stored counts may lag. Its letters
    are of one namespace, whose apps work on it; None is the one called `default`.
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
    namespace: str | None = None
    version: Version | None = None

    @property
    def key(self) -> str:
        return self.run_id

    @property
    def awaits_outcomes(self) -> bool:
        """True if the run waits for the outcomes of the letters that it moved."""
        return self.verb in AWAITED

    @property
    def is_over(self) -> bool:
        """True once the run is done or cancelled without a lease: it asks letters for nothing more."""
        return self.state in ENDED and self.lease is None


def count_items(items: Iterable[RunItem]) -> RunCounts:
    """Return the counts of a run with these members."""
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


def summary(run: BulkRun) -> str:
    """Return the counts of a run in words.

    >>> from dataclasses import replace
    >>> now, counts = datetime(2026, 1, 1), RunCounts(members=120, moved=119, refused=1, succeeded=117, failed_again=2)
    >>> run = BulkRun(run_id="r", verb="redrive", query=Json("{}"), by="ann", created_at=now, updated_at=now)
    >>> summary(replace(run, counts=counts)), summary(replace(run, verb="archive", counts=counts))
    ('117 of 120 letters succeeded, 2 failed again, 1 refused', '119 of 120 letters moved, 1 refused')
    """
    counts = run.counts
    best = "succeeded" if run.awaits_outcomes else "moved"
    others = ("failed_again", "closed", "refused", "gone") if run.awaits_outcomes else ("refused", "gone")
    parts = [f"{number} {name.replace('_', ' ')}" for name in others if (number := getattr(counts, name))]
    return ", ".join([f"{getattr(counts, best)} of {counts.members} letters {best}", *parts])


def page_key(run_id: str, plan: str, number: int) -> str:
    """Return the key of a page. Keys sort in the order of the pages."""
    return f"{run_id}/{plan}/{number:06}"


def split_into_pages(run_id: str, plan: str, first: int, items: Sequence[RunItem]) -> list[RunPage]:
    """Return the items as pages, numbered from `first`."""
    starts = range(0, len(items), PAGE)
    return [
        RunPage(run_id, plan, first + number, tuple(items[start : start + PAGE])) for number, start in enumerate(starts)
    ]


# --- what a letter notes for the runs that redrove it


def marks_for(run_id: str, outcome: ItemOutcome | None) -> tuple[str, ...]:
    """Return every mark that stands for this outcome of a run."""
    before = (f"{_FAILED_BEFORE} {run_id}",) if outcome is ItemOutcome.FAILED_AGAIN else ()
    return (outcome_mark(run_id, outcome), *before)


def outcome_for(letter: DeadLetter, run_id: str) -> ItemOutcome | None:
    """Return the outcome of a letter that the run has redriven; None while that is open."""
    known = next((mark for mark in letter.run_outcomes if mark.partition(" ")[2] == run_id), _OPEN).partition(" ")[0]
    if known == _FAILED_BEFORE:
        return ItemOutcome.FAILED_AGAIN
    return None if known == _OPEN else ItemOutcome(known)
