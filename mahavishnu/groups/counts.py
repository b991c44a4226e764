"""How many letters each group has, and what they are: a handful of tallies, asked all at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import field
from msgspec.structs import replace

from mahavishnu.classify.fingerprint import title
from mahavishnu.engine.context import QueueContext
from mahavishnu.groups.rules import Group, GroupView, Sample, is_growing, is_on_hold
from mahavishnu.letters.ledger import HAS_NUMBERS, Ledger
from mahavishnu.model.letter import DeadLetter, FormerLetter
from mahavishnu.model.letter_parts import ResolutionStatus
from mahavishnu.model.query import Between, Condition, Is, Missing, Query, Sort
from mahavishnu.model.record import Value
from mahavishnu.model.tombstones import GroupSum
from mahavishnu.stores.base import Buckets, Cell, Collection, Tally, keeps_counters

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
HOURS = 24
_BY_GROUP, _BY_SUM = ("fingerprint",), ("fingerprint", "counted_group", "moved")
_OPEN = Is("resolution_status", (ResolutionStatus.PENDING,))
_BREAKDOWN = ("status", "error_category", "queue", "source_queue")
_NEWEST_FIRST = (Sort("created_at", descending=True),)
_MOMENTS = ("created_at", "grouped_at", "seen_at")
_SAMPLE_CHARACTERS = 1000  # of the error that a sample shows
_AT_ONCE = 1000  # samples that one search may bring
_SAME_NUMBERS = ("for_people", "total", "occurrences", "last_hour", "last_day", "day_before")  # in count and view


class GroupCount(Value, frozen=True):
    """The letters of one group: open ones, all that ever were, and recent ones.

    `for_people` are the open ones that nothing will retry. A letter that a sum counts in this group stays in `total`
    when it is deleted or archived.
    """

    open: int = 0
    for_people: int = 0
    occurrences: int = 0
    captured: datetime | None = None  # of open ones, see `with_captured`
    total: int = 0
    first: datetime | None = None
    last: datetime | None = None
    newest_live: datetime | None = None
    last_hour: int = 0
    last_day: int = 0
    day_before: int = 0

    @property
    def grows(self) -> bool:
        return is_growing(self.last_hour, self.last_day, count=self.open)


NO_LETTERS = GroupCount()


class GroupCounts(Value, frozen=True):
    """Counts of groups, of ungrouped open letters, and of manual ones; `hours` has the last 24 of a single group."""

    groups: Mapping[str, GroupCount]
    ungrouped: int = 0
    for_people: int = 0
    degraded: str | None = None
    hours: tuple[int, ...] = ()

    def of(self, fingerprint: str) -> GroupCount:
        return self.groups.get(fingerprint, NO_LETTERS)


class GroupSamples(Value, frozen=True):
    """The open letters of some groups by fingerprint: counts by status and so on, and a sample."""

    parts: Mapping[str, tuple[Mapping[str, int], ...]] = field(default_factory=dict)
    samples: Mapping[str, DeadLetter] = field(default_factory=dict)
    degraded: str | None = None


async def count_groups(
    context: QueueContext, now: datetime, only: str | None = None, *, recent: bool = True
) -> GroupCounts:
    """Return the counts of all groups, or of one, without `captured`. Letters in sums of the ledger are not read."""
    here: tuple[Condition, ...] = () if only is None else (Is("fingerprint", (only,)),)
    records, history = context.letters.counted, context.history  # tombstones too: they are in no group
    unsummed = Query((*here, HAS_NUMBERS))  # a store that counts need not tell them apart: sums have moments, too
    summed, lately, (waiting, still_open, former, counted, *apart) = await asyncio.gather(
        Ledger(context).groups(),
        _count_lately(records, history, now, only, recent=recent),
        asyncio.gather(
            records.tally(Query((*here, _OPEN, Missing("due_at"))), _BY_GROUP),
            records.tally(Query((*here, _OPEN)), _BY_GROUP, sums=["occurrences"]),
            history.tally(Query(here), _BY_SUM, spans=_MOMENTS),
            *(
                [records.tally(unsummed, _BY_SUM[:2]), records.tally(Query(here), _BY_SUM[::2], spans=_MOMENTS)]
                if keeps_counters(context.store)
                else [records.tally(unsummed, _BY_SUM, spans=_MOMENTS)]
            ),
        ),
    )
    (live,) = apart or [counted]
    for_people, open_ones, newest = waiting.by(0), still_open.by(0), live.by(0)
    every = {name: _cell(each) for name, each in summed.items() if only in (None, name)}

    def add(name: str | None, cell: Cell) -> None:
        if name is not None:
            every[name] = every[name].plus(cell) if name in every else cell

    for (name, *_, moved), cell in live.cells.items():
        add(name, replace(_failures_in_group(cell, moved), count=0))
    for (name, group, *_), cell in counted.cells.items():
        add(name, Cell(cell.count if name != group else 0))  # else a sum counts them
    for (name, group, moved), cell in former.cells.items():
        seen = _failures_in_group(cell, moved)
        add(name, seen if name != group else Cell(latest=seen.latest))
    groups = {
        fingerprint: GroupCount(
            open=(here_now := open_ones.get(fingerprint, Cell())).count,
            for_people=for_people[fingerprint].count if fingerprint in for_people else 0,
            occurrences=here_now.sums.get("occurrences", 0),
            captured=None,
            total=cell.count,
            first=cell.earliest.get("seen_at"),
            last=cell.latest.get("seen_at"),
            newest_live=newest.get(fingerprint, cell).latest.get("created_at"),
            **{name: counts[fingerprint] for name, counts in lately.counts.items() if fingerprint in counts},
        )
        for fingerprint, cell in every.items()
        if cell.count or fingerprint in open_ones
    }
    ungrouped = open_ones.get(None, Cell()).count
    waits = sum(cell.count for cell in for_people.values())
    degraded = _first_degraded([still_open, counted, live, former, waiting]) or lately.degraded
    return GroupCounts(groups, ungrouped, waits, degraded, lately.hours)


async def with_captured(counts: GroupCounts, letters: Collection[DeadLetter], names: Iterable[str]) -> GroupCounts:
    """Return the counts with the last capture of any open letter, as that or merged, of each of these groups."""
    some = tuple(name for name in names if counts.of(name).open)
    if not some:
        return counts
    tally = await letters.tally(Query((Is("fingerprint", some), _OPEN)), _BY_GROUP, spans=["captured_at"])
    captured = {
        name: replace(counts.of(name), captured=cell.latest.get("captured_at")) for name, cell in tally.by(0).items()
    }
    return replace(counts, groups={**counts.groups, **captured}, degraded=counts.degraded or tally.degraded)


class _Lately(Value, frozen=True):
    """The letters that came lately, by the name of a `GroupCount` number and group; of one group, also by hour."""

    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    hours: tuple[int, ...] = ()
    degraded: str | None = None


async def _count_lately(
    records: Collection[DeadLetter], history: Collection[FormerLetter], now: datetime, only: str | None, *, recent: bool
) -> _Lately:
    if not recent:
        return _Lately()
    if only is not None:
        query = Query((Is("fingerprint", (only,)),))
        # Another host's clock may be ahead: its letters belong to the last hour.
        hours = Buckets("created_at", now - 2 * DAY, HOUR, 2 * HOURS, open_end=True)
        live, former = await asyncio.gather(records.histogram(query, hours), history.histogram(query, hours))
        found = live.plus(former)
        before, last = found.counts[:HOURS], found.counts[HOURS:]
        numbers = {"last_hour": last[-1], "last_day": sum(last), "day_before": sum(before)}
        return _Lately({name: {only: number} for name, number in numbers.items()}, last, found.degraded)
    spans = {
        "last_hour": Between("created_at", at_least=now - HOUR),
        "last_day": Between("created_at", at_least=now - DAY),
        "day_before": Between("created_at", at_least=now - 2 * DAY, below=now - DAY),
    }
    queries = [Query((span,)) for span in spans.values()]
    tallies = await asyncio.gather(*(kept.tally(query, _BY_GROUP) for query in queries for kept in (records, history)))
    counts = {
        name: {group: cell.count for group, cell in _join_cells(one.by(0), other.by(0)).items()}
        for name, one, other in zip(spans, tallies[::2], tallies[1::2], strict=True)
    }
    return _Lately(counts, degraded=_first_degraded(tallies))


def _cell(counted: GroupSum) -> Cell:
    seen = {"created_at": counted.last, "seen_at": counted.last_seen}
    return Cell(counted.letters, {}, {"seen_at": counted.first}, seen)


def _failures_in_group(cell: Cell, moved: int | None) -> Cell:
    """Return the cell with `seen_at` spanning the failures of its letters in their group."""
    first = cell.earliest["grouped_at" if moved else "created_at"]
    latest = {**cell.latest, "seen_at": max(cell.latest.values())}  # an earlier version kept fewer dates
    return Cell(cell.count, cell.sums, {"seen_at": first}, latest)


async def last_closed_at(
    letters: Collection[DeadLetter], history: Collection[FormerLetter], names: Iterable[str]
) -> dict[str, datetime]:
    """Return when the last letter of each of these groups was closed; the groups must have no open letter."""
    query = Query((Is("fingerprint", tuple(names)),))
    live, former = await asyncio.gather(
        letters.tally(query, _BY_GROUP, spans=["updated_at"]), history.tally(query, _BY_GROUP, spans=["updated_at"])
    )
    cells = _join_cells(live.by(0), former.by(0))
    return {name: cell.latest["updated_at"] for name, cell in cells.items() if cell.latest}


async def sample_groups(letters: Collection[DeadLetter], counts: Mapping[str, GroupCount]) -> GroupSamples:
    """Return breakdowns and a sample of the open letters of these groups; without open letters, the newest one."""
    if not counts:
        return GroupSamples()
    tally, (samples, degraded) = await asyncio.gather(_break_down(letters, counts), _samples(letters, counts))
    parts: dict[str, list[Counter[str]]] = {name: [Counter() for _ in _BREAKDOWN] for name in counts}
    for (fingerprint, *values), cell in tally.cells.items():
        for part, value in zip(parts[fingerprint], values, strict=True):
            if value is not None:
                part[str(value)] += cell.count
    ordered = {name: tuple(dict(part.most_common()) for part in each) for name, each in parts.items()}
    return GroupSamples(ordered, samples, tally.degraded or degraded)


async def _break_down(letters: Collection[DeadLetter], counts: Mapping[str, GroupCount]) -> Tally:
    """Count the open letters by group and by all that a `GroupView` breaks them down by."""
    names = tuple(name for name, count in counts.items() if count.open)
    if not names:
        return Tally({})
    return await letters.tally(Query((Is("fingerprint", names), _OPEN)), (*_BY_GROUP, *_BREAKDOWN))


async def _samples(
    letters: Collection[DeadLetter], counts: Mapping[str, GroupCount]
) -> tuple[dict[str, DeadLetter], str | None]:
    """Return the newest letter of each group, found by their known dates, and why some are missing."""
    open_ones = tuple(name for name, count in counts.items() if count.open)
    tally = Tally({})
    if open_ones:
        tally = await letters.tally(Query((Is("fingerprint", open_ones), _OPEN)), _BY_GROUP, spans=["created_at"])
    still_open = {name: cell.latest["created_at"] for name, cell in tally.by(0).items()}
    quiet = {name: count.newest_live for name, count in counts.items() if count.newest_live and not count.open}
    (found, degraded), (others, also_degraded) = await asyncio.gather(
        _find_samples(letters, still_open, _OPEN), _find_samples(letters, quiet)
    )
    return {**found, **others}, tally.degraded or degraded or also_degraded


async def _find_samples(
    letters: Collection[DeadLetter], newest: Mapping[str, datetime], *where: Condition
) -> tuple[dict[str, DeadLetter], str | None]:
    if not newest:
        return {}, None
    moments = Is("created_at", tuple(set(newest.values())))
    pages = [await letters.find(Query((Is("fingerprint", tuple(newest)), *where, moments), limit=_AT_ONCE))]
    found = _newest(pages[0].items, newest)
    missing = [name for name in newest if name not in found]  # letters that came in the same instant pushed it out
    alone = ((Is("fingerprint", (name,)), *where, Is("created_at", (newest[name],))) for name in missing)
    pages += await asyncio.gather(*(letters.find(Query(each, _NEWEST_FIRST, limit=1)) for each in alone))
    for page in pages[1:]:
        found |= _newest(page.items, newest)
    return found, next((page.degraded for page in pages if page.degraded), None)


def _newest(found: Iterable[DeadLetter], newest: Mapping[str, datetime]) -> dict[str, DeadLetter]:
    """Return one letter for each group."""
    return {
        letter.fingerprint: letter
        for letter in found
        if letter.fingerprint is not None and newest.get(letter.fingerprint) == letter.created_at
    }


def _join_cells(one: Mapping[str, Cell], other: Mapping[str, Cell]) -> dict[str, Cell]:
    return {
        name: one[name].plus(other[name]) if name in one and name in other else (one.get(name) or other[name])
        for name in {**one, **other}
    }


def _first_degraded(tallies: Sequence[Tally]) -> str | None:
    return next((tally.degraded for tally in tallies if tally.degraded), None)


def group_view(
    group: Group, count: GroupCount, samples: GroupSamples, now: datetime, degraded: str | None
) -> GroupView:
    """Return the group as every surface shows it."""
    statuses, categories, queues, adapters = samples.parts.get(group.fingerprint, ({}, {}, {}, {}))
    letter = samples.samples.get(group.fingerprint)
    return GroupView(
        group=group,
        count=count.open,
        first_seen=count.first,
        last_seen=count.last,
        **{name: getattr(count, name) for name in _SAME_NUMBERS},
        statuses=statuses,
        categories=categories,
        queues=queues,
        adapters=adapters,
        title=letter_title(letter) if letter else "",
        sample=_sample(letter) if letter else None,
        on_hold=is_on_hold(group, now),
        degraded=degraded,
    )


def _sample(letter: DeadLetter) -> Sample:
    type_, error = _cause_of(letter)
    return Sample(letter.task_id, letter.namespace, letter.queue, error[:_SAMPLE_CHARACTERS], type_, letter.created_at)


def _cause_of(letter: DeadLetter) -> tuple[str | None, str]:
    """Return type and message of the failure that the letter is in its group for."""
    told = letter.told
    return (told[-1].type, told[-1].message) if told else (None, letter.error)


def letter_title(letter: DeadLetter) -> str:
    """Return the title of a group after one of its letters."""
    type_, error = _cause_of(letter)
    return title(f"{type_}: {error}" if type_ and error != type_.rpartition(".")[2] else error)
