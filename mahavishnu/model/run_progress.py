"""How far a bulk run is, wave by wave, and which letters the next attempt at a fix is for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate

from mahavishnu.model.bulk_run import ACTIVE, BulkRun, ItemOutcome, ItemState, RunItem, RunState, count_items, marks_for
from mahavishnu.model.letter_parts import ResolutionStatus
from mahavishnu.model.query import AnyOf, Between, Condition, Is, Not, Query, Sort, query_from_json

_OPEN = Is("resolution_status", (ResolutionStatus.PENDING,))
_LATEST = (Sort("updated_at", descending=True),)


class WaveState(StrEnum):
    """What becomes of a wave."""

    DONE = "done"
    RUNNING = "running"
    WAITS = "waits"  #: for the waves before it
    PAUSED = "paused"
    HALTED = "halted"
    LEFT = "left"  #: nobody touches it unless the run is resumed, or ever, as the run is over


class FixScope(StrEnum):
    """Which letters of a run another fix is for. Letters that are closed are left alone."""

    FAILED = "failed"  #: those that failed again
    REST = "rest"  #: all others that the run's filter means
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Wave:
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
    """The waves of a run, the last one with all the others. `first` are its first members, in their order.

    Where `first` has not all that a wave has moved, that wave and the later ones are told as one.
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
    """How many of the first members `waves_of` needs, at most `most`."""
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
    """The letters that failed again after the run, those first that changed last."""
    return Query((Is("run_outcomes", marks_for(run_id, ItemOutcome.FAILED_AGAIN)),), _LATEST, limit)


def fix_query(run: BulkRun, scope: FixScope) -> Query:
    """The open letters that another fix is for. Letters that are newer than the run are not meant."""
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
    """The groups that a query names, also within alternatives; not those that it leaves out.

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
