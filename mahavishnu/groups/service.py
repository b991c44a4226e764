"""Groups of letters with one cause: listed, counted, and what people record about them."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

from mahavishnu.engine.context import QueueContext
from mahavishnu.engine.moves import BulkResult, move_many
from mahavishnu.engine.periodic import PeriodicTask
from mahavishnu.engine.queue import LetterQueue
from mahavishnu.groups.counts import (
    GroupCount,
    GroupCounts,
    count_groups,
    group_view,
    last_closed_at,
    letter_title,
    sample_groups,
    with_captured,
)
from mahavishnu.groups.notes import GroupRecords, derive_state
from mahavishnu.groups.rules import (
    Group,
    GroupPage,
    GroupState,
    GroupView,
    group_as_dict,
    growth,
    growth_warning,
    is_on_hold,
    is_regression,
    return_warning,
    update_group,
)
from mahavishnu.http.responses import Document, degraded_header, etag
from mahavishnu.letters import reads
from mahavishnu.model import lifecycle
from mahavishnu.model.errors import ChangedMeanwhile, InvalidInput, InvalidQuery, NoSuchGroup, StoreUnavailable
from mahavishnu.model.events import EventName
from mahavishnu.model.ids import DEFAULT_NAMESPACE
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import UNCHANGED, Unchanged
from mahavishnu.model.query import ALL_NAMESPACES, Is, Query, acting_namespace
from mahavishnu.stores.base import Cursor, write_one

if TYPE_CHECKING:
    from mahavishnu.letters.commonalities import GroupCommonalities

log = logging.getLogger(__name__)
GroupSort = Literal["count", "last_seen", "growth"]
_Row = tuple[float, str, str]  # rank, fingerprint, namespace: what a list is sorted by
_SORTS = ("count", "last_seen", "growth")
_MOST = 1000  # groups of one page
_TRIES = 50
_PAGE = 1000
_NAMED, _NAMED_BACK = 5, 3  # groups that warnings name: growing ones, and those that are back, the latest first


_REFRESH_SECONDS = 60.0


class Groups:
    """The groups of a queue: stored records, and their letters counted on request. All methods raise StoreError."""

    def __init__(self, context: QueueContext) -> None:
        self._context, self._letters, self._clock = context, context.letters, context.clock
        self._history, self._records = context.history, GroupRecords(context)
        self.namespace = context.namespace

    async def list(
        self,
        *,
        state: GroupState | str | Iterable[GroupState | str] | None = None,
        owner: str | None = None,
        on_hold: bool | None = None,
        quiet: bool = False,
        limit: int = 50,
        after: Cursor | str | None = None,
        sort: GroupSort = "count",
    ) -> GroupPage:
        """Return the groups with open letters, or that are not closed; with `quiet` all groups.

        `state`, `owner` and `on_hold` filter them; `sort` puts the largest, latest or fastest-growing first. Raise
        InvalidInput.

        >>> page = await dlq.groups.list(state="new", sort="growth")  # doctest: +SKIP
        """
        states = _parse_states(state)
        place = _parse_cursor(after)
        if sort not in _SORTS:
            raise InvalidInput(f"groups cannot be sorted by {sort!r}; by {', '.join(_SORTS)} they can")
        if type(limit) is not int or not 1 <= limit <= _MOST:
            raise InvalidInput(f"limit must be a whole number from 1 to {_MOST}, not {limit!r:.80}")
        await self._context.open()
        now = self._clock.now()
        parts = {part.namespace: (part, *await part._find_all(now)) for part in await self._parts()}
        rows: list[_Row] = []
        for namespace, (_, counts, shown) in parts.items():
            for fingerprint, group in shown.items():
                count = counts.of(fingerprint)
                if (
                    (quiet or count.open or not group.is_closed)
                    and (states is None or group.state in states)
                    and (owner is None or group.owner == owner)
                    and (on_hold is None or is_on_hold(group, now) is on_hold)
                ):
                    rows.append((-_rank(count, sort), fingerprint, namespace))
        rows.sort()
        rest = [row for row in rows if place is None or row > place]
        page, more = rest[:limit], len(rest) > limit
        views: dict[_Row, GroupView] = {}
        for namespace, (part, counts, shown) in parts.items():
            there = [row for row in page if row[2] == namespace]
            views |= zip(there, await part._views([shown[row[1]] for row in there], counts, now), strict=True)
        every = [counts for _, counts, _ in parts.values()]
        return GroupPage(
            items=[views[row] for row in page],
            total=len(rows),
            ungrouped=sum(counts.ungrouped for counts in every),
            for_people=sum(counts.for_people for counts in every),
            next=str(Cursor(page[-1])) if more else None,
            degraded=next(
                filter(None, [each.degraded for each in every] + [view.degraded for view in views.values()]), None
            ),
        )

    async def _find_all(self, now: datetime) -> tuple[GroupCounts, dict[str, Group]]:
        """Return the counts of all groups, and the groups with their derived state."""
        counts, records = await self._count_all(now)
        shown = await self._records.update_derived(records, counts, now)
        for name in {*counts.groups} - {*shown}:
            shown[name] = derive_state(self._records.new(name), counts, now)
        return counts, shown

    async def _count_all(self, now: datetime) -> tuple[GroupCounts, dict[str, Group]]:
        counts, (records, missing) = await asyncio.gather(count_groups(self._context, now), self._records.find_all())
        resolved = [name for name, record in records.items() if record.state is GroupState.RESOLVED]
        counts = await with_captured(counts, self._letters, resolved)
        return replace(counts, degraded=counts.degraded or missing), records

    async def _views(self, groups: Sequence[Group], counts: GroupCounts, now: datetime) -> Sequence[GroupView]:
        samples, closed = await asyncio.gather(
            sample_groups(self._letters, {group.fingerprint: counts.of(group.fingerprint) for group in groups}),
            self._resolve_closed(groups, counts),
        )
        degraded = counts.degraded or samples.degraded
        shown = [closed.get(group.fingerprint, group) for group in groups]
        return [group_view(group, counts.of(group.fingerprint), samples, now, degraded) for group in shown]

    async def _parts(self, fingerprint: str | None = None) -> Sequence[Groups]:
        """Return this service; for all namespaces, one for each that has letters (of this group, if one is named)."""
        if self.namespace != ALL_NAMESPACES:
            return [self]
        query = Query() if fingerprint is None else Query((Is("fingerprint", (fingerprint,)),))
        kept = (self._letters.with_deleted, self._history, self._records.collection)
        tallies = await asyncio.gather(*(each.tally(query, ["namespace"]) for each in kept))
        names = {name or DEFAULT_NAMESPACE for tally in tallies for name in tally.by(0)}
        return [Groups(self._context.in_namespace(name)) for name in sorted(names)]

    async def get(self, fingerprint: str) -> GroupView:
        """Return one group, with the letters of each of the last 24 `hours`.

        Raise NoSuchGroup where there is neither a letter nor a record, and InvalidInput where several namespaces have
        it.
        """
        await self._context.open()
        if self.namespace == ALL_NAMESPACES:
            return await (await self._only_part(fingerprint)).get(fingerprint)
        now = self._clock.now()
        group, counts = await self._current(fingerprint, now)
        samples = await sample_groups(self._letters, {fingerprint: counts.of(fingerprint)})
        view = group_view(group, counts.of(fingerprint), samples, now, counts.degraded or samples.degraded)
        return replace(view, hours=counts.hours)

    async def commonalities(self, fingerprint: str, *, sample: int = reads.SAMPLE) -> GroupCommonalities:
        """Return what its letters share and others of their adapters do not, by samples. Raise NoSuchGroup."""
        from mahavishnu.letters.commonalities import group_commonalities

        return await group_commonalities(self._context, fingerprint, sample)

    async def _only_part(self, fingerprint: str) -> Groups:
        parts = await self._parts(fingerprint)
        if len(parts) > 1:
            named = ", ".join(part.namespace for part in parts)
            raise InvalidInput(f"group {fingerprint!r} is in several namespaces, {named}: name one")
        if not parts:
            raise NoSuchGroup(fingerprint)
        return parts[0]

    async def update(
        self,
        fingerprint: str,
        *,
        by: str,
        state: GroupState | str | None = None,
        owner: str | Unchanged | None = UNCHANGED,
        note: str | None = None,
        link: str | None = None,
        hold_until: datetime | Unchanged | None = UNCHANGED,
        hold_release: str | Unchanged | None = UNCHANGED,
        base: GroupView | Group | None = None,
    ) -> GroupView:
        """Record something about a group: notes and links are added, None as `owner` or hold removes it.

        With `base`, the group as it was read, a change since then raises ChangedMeanwhile. Raise NoSuchGroup and
        InvalidInput.
        """
        await self._context.open()

        def change(group: Group, newest: datetime | None = None) -> Group:
            return update_group(
                group,
                self._clock.now(),
                by,
                state=state,
                owner=owner,
                note=note,
                link=link,
                hold_until=hold_until,
                hold_release=hold_release,
                newest=newest,
            )

        change(Group(fingerprint))  # raises before anything is read
        async with self._context.audit.record("group.update", f"group:{fingerprint}", by=by, reason=note) as record:
            for _ in range(_TRIES):  # a loop of its own: in an outage it comes from a list, and reading it may write it
                group, counts = await self._current(fingerprint, self._clock.now(), recent=False)
                if base is not None and base.version != group.version:
                    when = group.updated_at.isoformat() if group.updated_at else "no time"
                    why = f"changed by {group.updated_by} at {when}"
                    raise ChangedMeanwhile(fingerprint, "update", str(group.state), why, what="group")
                after = change(group, counts.of(fingerprint).captured)
                if (written := await write_one(self._records.collection, after)) is not None:
                    record.add_change(group_as_dict(group), group_as_dict(written))
                    self._records.publish(group, written, by)
                    break
            else:
                raise StoreUnavailable(f"group {fingerprint!r} was changed by others {_TRIES} times in a row")
        return await self.get(fingerprint)

    async def release_hold(self, release: str, *, by: str) -> Sequence[str]:
        """End the hold of the groups that wait for this release. Return their fingerprints."""
        if not isinstance(release, str) or not release.strip():
            raise InvalidInput(f"a release is a text that says something, not {release!r:.80}")
        release = release.strip()
        await self._context.require("group.release", f"release:{release}")
        await self._context.open()
        records, missing = await self._records.find_all(Query((Is("hold_release", (release,)),), limit=_PAGE))
        done = [fingerprint for fingerprint in records if await self._records.release_hold(fingerprint, release, by)]
        if missing:
            raise StoreUnavailable(f"{len(done)} groups were released, but not all can be seen now: {missing}")
        return done

    async def refresh(self) -> int:
        """Store regressions and groups without open letters, as processors do each minute; return how many changed."""
        await self._context.require("work")
        await self._context.open()
        records, missing = await self._records.find_all()
        if not records or missing:
            return 0
        now = self._clock.now()
        counts, records = await self._count_all(now)
        before = dict(records)
        after = await self._records.update_derived(records, counts, now)
        return sum(after[name].version != before[name].version for name in before)

    async def regroup(
        self, query: Query | None = None, *, dry_run: bool = True, by: str = "regroup", **filters: Any
    ) -> BulkResult:
        """Compute the fingerprint of open letters anew, after plugins or rules have changed. Dry by default.

        `done` are those whose fingerprint changes. The record of a group moves with its letters, if all of them go to
        one group that has no record; otherwise each group gets a note about the others. For many letters, start a bulk
        run: it moves nothing but letters.
        """
        from mahavishnu.classify.assess import Assessor  # lists of groups start without it

        await self._context.open()
        query = reads.list_query(None, query, filters)
        if acting_namespace(query, self._context.namespace) != self._context.namespace:
            raise InvalidInput("letters are grouped by the queue of their own namespace: see in_namespace")
        fingerprints: dict[str, tuple[str | None, str | None]] = {}  # by letter: before and after

        assessor = Assessor(self._context.chain)

        def change(letter: DeadLetter) -> DeadLetter:
            fingerprint = assessor.fingerprint_again(letter)
            if fingerprint == letter.fingerprint:
                return letter
            fingerprints[letter.key] = letter.fingerprint, fingerprint
            return lifecycle.regroup(letter, now=self._clock.now(), fingerprint=fingerprint)

        announce = partial(self._context.announce, EventName.EDITED, by=by)
        how: dict[str, Any] = {"everything": True, "dry_run": dry_run, "in_thread": True, "moved": announce}
        if dry_run:
            return await move_many(self._letters, query, change, **how)
        update_group(Group(""), self._clock.now(), by, note="-")  # raises for a `by` that is no name
        records, _ = await self._records.find_all()
        async with self._context.audit.record("regroup", "queue", by=by) as record:
            result = await move_many(self._letters, query, change, **how)
            record.add(done=len(result.done))
        await self._records.follow_letters(records, Counter(fingerprints[key] for key in result.done), by)
        return result

    async def warnings(self) -> Sequence[str]:
        """Return warnings about groups; those on hold are left out."""
        if self.namespace == ALL_NAMESPACES:
            return [warning for part in await self._parts() for warning in await part.warnings()]
        now = self._clock.now()
        counts, records = await self._count_all(now)
        groups = [
            derive_state(records.get(name) or self._records.new(name), counts, now)
            for name in {*counts.groups, *records}
        ]
        loud = [group for group in groups if not is_on_hold(group, now)]
        growing = [group.fingerprint for group in loud if group.state is not GroupState.WONT_FIX]
        growing = [name for name in growing if counts.of(name).grows]
        growing.sort(key=lambda name: (-counts.of(name).last_hour, name))
        returned = [group for group in loud if is_regression(group) and group.state is GroupState.NEW]
        returned.sort(key=lambda group: (-(group.regressed_at or now).timestamp(), group.fingerprint))
        back = [group.fingerprint for group in returned]
        named = {name: counts.of(name) for name in (*growing[:_NAMED], *back[:_NAMED_BACK])}
        titles = {
            name: letter_title(letter) for name, letter in (await sample_groups(self._letters, named)).samples.items()
        }
        found = [growth_warning(name, named[name].last_hour, titles.get(name, "")) for name in growing[:_NAMED]]
        if growing[_NAMED:]:
            found.append(f"WARNING: {len(growing) - _NAMED} more groups grow!")
        found += [return_warning(name, titles.get(name, "")) for name in back[:_NAMED_BACK]]
        if more := len(back[_NAMED_BACK:]):
            what = f"and {more} more resolved {'group is' if more == 1 else 'groups are'} back!"
            found.append(f"WARNING: {what} (mahavishnu group list --state new)")
        return found

    async def _current(self, fingerprint: str, now: datetime, *, recent: bool = True) -> tuple[Group, GroupCounts]:
        """Return one group with its derived state, and its counts."""
        counts, (record, missing) = await asyncio.gather(
            count_groups(self._context, now, fingerprint, recent=recent), self._records.find(fingerprint)
        )
        is_resolved = record is not None and record.state is GroupState.RESOLVED
        counts = await with_captured(counts, self._letters, [fingerprint] if is_resolved else [])
        counts = replace(counts, degraded=counts.degraded or missing)
        if record is not None:
            shown = await self._records.update_derived({fingerprint: record}, counts, now)
            if fingerprint not in shown:
                raise NoSuchGroup(fingerprint)
            return shown[fingerprint], counts
        if not counts.of(fingerprint).total:
            if counts.degraded:
                raise StoreUnavailable(f"whether there is a group {fingerprint!r} is not known now: {counts.degraded}")
            raise NoSuchGroup(fingerprint)
        group = derive_state(self._records.new(fingerprint), counts, now)
        return (await self._resolve_closed([group], counts)).get(fingerprint, group), counts

    async def _resolve_closed(self, groups: Iterable[Group], counts: GroupCounts) -> dict[str, Group]:
        """Return groups without a record and without open letters, as resolved when their last letter was closed."""
        names = [group.fingerprint for group in groups if group.version is None and group.is_closed]
        if not names:
            return {}
        moments = await last_closed_at(self._letters, self._history, names)
        return {name: derive_state(self._records.new(name), counts, moment) for name, moment in moments.items()}


def _rank(count: GroupCount, sort: str) -> float:
    if sort == "last_seen":
        return count.last.timestamp() if count.last else float("-inf")
    if sort == "growth":
        return growth(count.last_hour, count.last_day) if count.open else float("-inf")
    return count.open


def _parse_states(wanted: GroupState | str | Iterable[GroupState | str] | None) -> frozenset[GroupState] | None:
    if wanted is None:
        return None
    try:
        return frozenset(map(GroupState, [wanted] if isinstance(wanted, str) else wanted))
    except (TypeError, ValueError):
        raise InvalidInput(f"{wanted!r:.80} is no state of groups; there are {', '.join(GroupState)}") from None


def _parse_cursor(after: Cursor | str | None) -> _Row | None:
    cursor = Cursor.parse(after) if isinstance(after, str) else after
    if cursor is None:
        return None
    match cursor.after:
        case (int() | float() as rank, str() as fingerprint, str() as namespace):
            return rank, fingerprint, namespace
    raise InvalidQuery("the cursor is not one of this list; leave it out to start at the beginning")


def chores(queue: LetterQueue) -> Iterable[PeriodicTask]:
    """Return the periodic tasks of groups."""
    return (PeriodicTask("the refresh of groups", queue.service(Groups).refresh, lambda: _REFRESH_SECONDS),)


# --- answers to reads of groups: see `Read`


async def groups_document(
    dlq: LetterQueue, *, limit: int | str = 50, quiet: bool | str = False, cursor: str | None = None, **given: Any
) -> Document:
    """Return a page of groups, as `Groups.list` does."""
    page = await dlq.service(Groups).list(limit=int(limit), quiet=quiet in (True, "true"), after=cursor, **given)
    headers = {"X-Ungrouped": str(page.ungrouped), **degraded_header(page.degraded)}
    return Document([view.to_dict() for view in page.items], headers, page.next)


async def group_document(dlq: LetterQueue, fingerprint: str) -> Document:
    """Return a group with its numbers by hour, a sample, notes and links. Raise NoSuchGroup."""
    view = await dlq.service(Groups).get(fingerprint)
    return Document(view.to_dict(), {"ETag": etag(view.version)})
