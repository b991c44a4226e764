"""Groups of letters with one cause: what they are, and what people say about them."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

from mahavishnu.classify.assess import Assessor
from mahavishnu.classify.fingerprint import title
from mahavishnu.core.queue import reads
from mahavishnu.core.queue.group_counts import (
    GroupCount,
    GroupCounts,
    GroupSamples,
    closed_at,
    counted,
    hourly,
    looked_at,
)
from mahavishnu.engine.context import QueueContext
from mahavishnu.engine.moves import BulkResult, move_many
from mahavishnu.model import lifecycle
from mahavishnu.model.errors import (
    ChangedMeanwhile,
    InvalidInput,
    InvalidQuery,
    NoSuchGroup,
    StoreError,
    StoreUnavailable,
)
from mahavishnu.model.events import Event, EventName
from mahavishnu.model.group import (
    RULE,
    Group,
    GroupPage,
    GroupState,
    GroupView,
    Sample,
    group_as_dict,
    growth,
    growth_warning,
    is_growing,
    is_on_hold,
    is_regression,
    last_update,
    release_hold,
    return_warning,
    split_for_regroup,
    update_group,
    with_derived_state,
)
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import UNCHANGED, Unchanged
from mahavishnu.model.query import Is, Query
from mahavishnu.stores.base import Cursor, get_one, write_one
from mahavishnu.stores.kinds import GROUPS

log = logging.getLogger(__name__)
GroupSort = Literal["count", "last_seen", "growth"]
_SORTS = ("count", "last_seen", "growth")
_MOST = 1000  # groups of one page
_TRIES = 50
_PAGE = 1000
_SHOWN = 1000  # characters of a sample's error
_NAMED, _NAMED_BACK = 5, 3  # groups that warnings name: growing ones, and those that are back, the latest first
_ALL = Query(limit=_PAGE)
_LINKED = 20  # groups that letters of one group have gone to, and that are told of it


class Groups:
    """Lists, shows and updates groups: letters with the same fingerprint, seen as one thing.

    What people record about a group is stored; its letters are counted when asked for. All methods raise StoreError.
    """

    def __init__(self, context: QueueContext) -> None:
        self._context, self._letters, self._clock = context, context.letters, context.clock
        self._history, self._records = context.history, context.store.collection(GROUPS)

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
        """The groups that have open letters, or that people are not done with; with `quiet` all that there are.

        `state`, `owner` and `on_hold` narrow that down, `sort` puts first what has most open letters, the newest
        letter, or grows most. Raises InvalidInput for what cannot be asked.

        >>> page = await dlq.groups.list(state="new", sort="growth")  # doctest: +SKIP
        """
        states = _states(state)
        place = _place(after)
        if sort not in _SORTS:
            raise InvalidInput(f"groups cannot be sorted by {sort!r}; by {', '.join(_SORTS)} they can")
        if type(limit) is not int or not 1 <= limit <= _MOST:
            raise InvalidInput(f"limit must be a whole number from 1 to {_MOST}, not {limit!r:.80}")
        await self._context.open()
        now = self._clock.now()
        counts, (records, missing) = await asyncio.gather(
            counted(self._letters, self._history, now), self._said_of_groups()
        )
        counts = replace(counts, degraded=counts.degraded or missing)
        shown = await self._brought_up_to_date(records, counts, now)
        rows: list[tuple[float, str]] = []
        for fingerprint in {*counts.groups, *shown}:
            count = counts.of(fingerprint)
            group = shown[fingerprint] = shown.get(fingerprint) or _as_it_is(Group(fingerprint), counts, now)
            if (
                (quiet or count.open or not group.is_closed)
                and (states is None or group.state in states)
                and (owner is None or group.owner == owner)
                and (on_hold is None or is_on_hold(group, now) is on_hold)
            ):
                rows.append((-_rank(count, sort), fingerprint))
        rows.sort()
        rest = [row for row in rows if place is None or row > place]
        page, more = rest[:limit], len(rest) > limit
        looks, quieted = await asyncio.gather(
            looked_at(self._letters, {name: counts.of(name) for _, name in page}),
            self._quieted([shown[name] for _, name in page], counts),
        )
        shown |= quieted
        degraded = counts.degraded or looks.degraded
        return GroupPage(
            items=[_view(shown[name], counts.of(name), looks, now, degraded) for _, name in page],
            total=len(rows),
            ungrouped=counts.ungrouped,
            next=str(Cursor(page[-1])) if more else None,
            degraded=degraded,
        )

    async def get(self, fingerprint: str) -> GroupView:
        """One group, with the letters that came in each of the last 24 `hours`.

        Raises NoSuchGroup where there is no letter and nobody has said anything.
        """
        await self._context.open()
        now = self._clock.now()
        (group, counts), hours = await asyncio.gather(
            self._current(fingerprint, now), hourly(self._letters, self._history, now, fingerprint)
        )
        looks = await looked_at(self._letters, {fingerprint: counts.of(fingerprint)})
        view = _view(group, counts.of(fingerprint), looks, now, counts.degraded or looks.degraded)
        return replace(view, hours=hours)

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
        """Say something about a group: notes and links are added, None as `owner` or hold takes it away.

        With `base`, the group as it was read, something that was said since raises ChangedMeanwhile. Raises
        NoSuchGroup, and InvalidInput for what cannot be said.
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

        change(Group(fingerprint))  # refused before anything is looked at
        async with self._context.audit.record("group.update", f"group:{fingerprint}", by=by, reason=note) as record:
            for _ in range(_TRIES):
                group, counts = await self._current(fingerprint, self._clock.now(), recent=False)
                if base is not None and base.version != group.version:
                    when = group.updated_at.isoformat() if group.updated_at else "no time"
                    why = f"changed by {group.updated_by} at {when}"
                    raise ChangedMeanwhile(fingerprint, "update", str(group.state), why, what="group")
                after = change(group, counts.of(fingerprint).captured)
                if (written := await write_one(self._records, after)) is not None:
                    record.add_change(group_as_dict(group), group_as_dict(written))
                    self._tell_of_group(group, written, by)
                    break
            else:
                raise StoreUnavailable(f"group {fingerprint!r} was changed by others {_TRIES} times in a row")
        return await self.get(fingerprint)

    async def release_hold(self, release: str, *, by: str) -> Sequence[str]:
        """A release is out: the groups that were on hold for it are not any more. Returns their fingerprints."""
        if not isinstance(release, str) or not release.strip():
            raise InvalidInput(f"a release is a text that says something, not {release!r:.80}")
        release = release.strip()
        await self._context.open()
        records, missing = await self._said_of_groups(Query((Is("hold_release", (release,)),), limit=_PAGE))
        done = [fingerprint for fingerprint in records if await self._let_go(fingerprint, release, by)]
        if missing:
            raise StoreUnavailable(f"{len(done)} groups were released, but not all can be seen now: {missing}")
        return done

    async def refresh(self) -> int:
        """Write down what follows from the letters: regressions, and groups that are resolved by themselves.

        A running processor does so every minute. Returns how many groups changed.
        """
        await self._context.open()
        records, missing = await self._said_of_groups()
        if not records or missing:
            return 0
        now = self._clock.now()
        counts = await counted(self._letters, self._history, now, recent=False)
        before = dict(records)
        after = await self._brought_up_to_date(records, counts, now)
        return sum(after[name].version != before[name].version for name in before)

    async def regroup(
        self, query: Query | None = None, *, dry_run: bool = True, by: str = "regroup", **filters: Any
    ) -> BulkResult:
        """Compute the fingerprint of open letters anew, after plugins or rules have changed. Dry by default.

        `done` are those whose fingerprint changes; the others are not listed. What people have said of a group goes
        with its letters, if all of them go to one group of which nothing has been said; else notes tell of one another.
        For many letters, start a bulk run: it moves nothing but letters.
        """
        await self._context.open()
        query = reads.list_query(None, query, filters)
        as_they_are: set[str] = set()
        ways: dict[str, tuple[str | None, str | None]] = {}

        def change(letter: DeadLetter) -> DeadLetter:
            fingerprint = Assessor(self._context.chain).fingerprint_again(letter)
            if fingerprint == letter.fingerprint:
                as_they_are.add(letter.key)
                raise InvalidInput(f"letter {letter.key!r} belongs to the group that it is in")
            as_they_are.discard(letter.key)
            ways[letter.key] = letter.fingerprint, fingerprint
            return lifecycle.regroup(letter, now=self._clock.now(), fingerprint=fingerprint)

        async def moved() -> BulkResult:
            return await move_many(
                self._letters,
                query,
                change,
                everything=True,
                dry_run=dry_run,
                moved=lambda letter: self._context.announce(EventName.EDITED, letter, by=by),
            )

        if dry_run:
            result = await moved()
        else:
            update_group(
                Group(""), self._clock.now(), by, note="-"
            )  # a name that cannot be is refused before anything is moved
            said, _ = await self._said_of_groups()
            async with self._context.audit.record("regroup", "queue", by=by) as record:
                result = await moved()
                record.add(done=len(result.done))
            await self._words_follow(said, Counter(ways[key] for key in result.done), by)
        for key in as_they_are:
            result.refused.pop(key, None)
        return result

    async def warnings(self) -> Sequence[str]:
        """What a person should look at; of groups on hold nothing is said."""
        now = self._clock.now()
        counts, (records, missing) = await asyncio.gather(
            counted(self._letters, self._history, now), self._said_of_groups()
        )
        counts = replace(counts, degraded=counts.degraded or missing)
        groups = [_as_it_is(records.get(name) or Group(name), counts, now) for name in {*counts.groups, *records}]
        loud = [group for group in groups if not is_on_hold(group, now)]
        growing = [group.fingerprint for group in loud if group.state is not GroupState.WONT_FIX]
        growing = [name for name in growing if _grows(counts.of(name))]
        growing.sort(key=lambda name: (-counts.of(name).last_hour, name))
        returned = [group for group in loud if is_regression(group) and group.state is GroupState.NEW]
        returned.sort(key=lambda group: (-(group.regressed_at or now).timestamp(), group.fingerprint))
        back = [group.fingerprint for group in returned]
        named = {name: counts.of(name) for name in (*growing[:_NAMED], *back[:_NAMED_BACK])}
        titles = {name: _title(letter) for name, letter in (await looked_at(self._letters, named)).samples.items()}
        found = [growth_warning(name, named[name].last_hour, titles.get(name, "")) for name in growing[:_NAMED]]
        if growing[_NAMED:]:
            found.append(f"WARNING: {len(growing) - _NAMED} more groups grow!")
        found += [return_warning(name, titles.get(name, "")) for name in back[:_NAMED_BACK]]
        if more := len(back[_NAMED_BACK:]):
            what = f"and {more} more resolved {'group is' if more == 1 else 'groups are'} back!"
            found.append(f"WARNING: {what} (mahavishnu group list --state new)")
        return found

    async def _said_of_groups(self, query: Query = _ALL) -> tuple[dict[str, Group], str | None]:
        """What people and rules have said, and why that may not be all."""
        found: dict[str, Group] = {}
        degraded, after = None, None
        while True:
            page = await self._records.find(query, after)
            found |= {group.fingerprint: group for group in page.items}
            degraded = degraded or page.degraded
            for problem in page.corrupt:
                log.error("%s", problem)
            if page.next is None:
                return found, degraded
            after = page.next

    async def _current(self, fingerprint: str, now: datetime, *, recent: bool = True) -> tuple[Group, GroupCounts]:
        """One group as it is now, brought up to date, and its counts."""
        counts, (record, missing) = await asyncio.gather(
            counted(self._letters, self._history, now, fingerprint, recent=recent),
            self._said_of(fingerprint),
        )
        counts = replace(counts, degraded=counts.degraded or missing)
        if record is not None:
            return (await self._brought_up_to_date({fingerprint: record}, counts, now))[fingerprint], counts
        if not counts.of(fingerprint).total:
            if counts.degraded:
                raise StoreUnavailable(f"whether there is a group {fingerprint!r} is not known now: {counts.degraded}")
            raise NoSuchGroup(fingerprint)
        group = _as_it_is(Group(fingerprint), counts, now)
        return (await self._quieted([group], counts)).get(fingerprint, group), counts

    async def _quieted(self, groups: Iterable[Group], counts: GroupCounts) -> dict[str, Group]:
        """Those of which nobody has said anything and no letter is open: resolved when the last one was closed."""
        names = [group.fingerprint for group in groups if group.version is None and group.is_closed]
        if not names:
            return {}
        moments = await closed_at(self._letters, self._history, names)
        return {name: _as_it_is(Group(name), counts, moment) for name, moment in moments.items()}

    async def _said_of(self, fingerprint: str) -> tuple[Group | None, str | None]:
        try:
            return await get_one(self._records, fingerprint), None
        except StoreUnavailable:  # a list may know what is kept here
            records, missing = await self._said_of_groups(Query((Is("fingerprint", (fingerprint,)),)))
            return records.get(fingerprint), missing

    async def _brought_up_to_date(
        self, records: Mapping[str, Group], counts: GroupCounts, now: datetime
    ) -> dict[str, Group]:
        """The groups as they are now; what follows from the letters is written down, if all of them can be seen."""
        shown = {name: _as_it_is(record, counts, now) for name, record in records.items()}
        due = [name for name, record in records.items() if shown[name] is not record]
        if not due or counts.degraded:
            return shown
        for name in due:
            try:
                shown[name] = await self._write_by_rule(records[name], shown[name]) or _as_it_is(
                    await get_one(self._records, name) or records[name], counts, now
                )
            except StoreError as problem:  # it is shown as it is all the same, and written down at the next look
                log.debug("what became of group %s is not written down yet: %s", name, problem)
        return shown

    async def _write_by_rule(self, before: Group, after: Group) -> Group | None:
        """The group as it was written; None if somebody else was quicker."""
        current = await get_one(self._records, before.fingerprint)
        if current is None or current.version != before.version:  # most often seen here: nobody need hear of it
            return None
        return await self._put_group(before, after, RULE, _why(before, after), via=RULE)

    async def _words_follow(
        self, said: Mapping[str, Group], ways: Mapping[tuple[str | None, str | None], int], by: str
    ) -> None:
        """What was `said` of groups goes with their letters, so many of which went from one group to another."""
        left = {name for name, _ in ways if name is not None and name in said}
        for name in sorted(left, key=lambda name: (-last_update(said[name]), name)):  # the first to come is carried on
            targets = {to: count for (old, to), count in ways.items() if old == name}
            try:
                await self._follow(said[name], targets, by)
            except StoreError as problem:
                log.error("what was said of group %s stays there, its letters have another one now: %s", name, problem)

    async def _follow(self, group: Group, targets: Mapping[str | None, int], by: str) -> None:
        now, name = self._clock.now(), group.fingerprint
        current = await get_one(self._records, name)
        if current is None:
            return
        # That no letter is open any more, a rule may have noticed meanwhile; what people said counts.
        group = replace(group if current.updated_by == RULE else current, version=current.version)
        counts = await counted(self._letters, self._history, now, name, recent=False)
        to = next(iter(targets))
        if len(targets) == 1 and to is not None and not counts.of(name).open and not counts.degraded:
            new, rest = split_for_regroup(group, to, now, by)
            if await self._put_group(Group(to), new, by, f"the letters of group {name} belong to it now"):
                if not await self._put_group(current, rest, by, f"its letters belong to group {to} now"):
                    await self._note(name, by, f"its letters are in group {to} now")
                return
        largest = sorted(targets.items(), key=lambda target: -target[1])[:_LINKED]
        for other, count in largest:
            if other is not None:
                await self._note(other, by, f"{_letters(count)} in group {name} before")
        told_of = ", ".join(f"{other or 'none'} ({count})" for other, count in largest)
        more = f" and {len(targets) - len(largest)} more" if len(targets) > len(largest) else ""
        await self._note(name, by, f"letters of it are in other groups now: {told_of}{more}")

    async def _note(self, fingerprint: str, by: str, note: str) -> None:
        for _ in range(_TRIES):
            group = await get_one(self._records, fingerprint) or Group(fingerprint)
            if await self._put_group(group, update_group(group, self._clock.now(), by, note=note), by, note):
                return
        raise StoreUnavailable(f"group {fingerprint!r} was changed by others {_TRIES} times in a row")

    async def _put_group(
        self, before: Group, after: Group, by: str, reason: str, via: str | None = None
    ) -> Group | None:
        """The group as it was written; None if somebody else was quicker."""
        async with self._context.audit.record(
            "group.update", f"group:{after.fingerprint}", by=by, reason=reason, via=via
        ) as record:
            written = await write_one(self._records, after)
            if written is None:
                record.refuse("somebody else was quicker")
                return None
            record.add_change(group_as_dict(before), group_as_dict(written))
        self._tell_of_group(before, written, by)
        return written

    async def _let_go(self, fingerprint: str, release: str, by: str) -> bool:
        async with self._context.audit.record(
            "group.update", f"group:{fingerprint}", by=by, reason=f"release {release} is out"
        ) as record:
            for _ in range(_TRIES):
                group = await get_one(self._records, fingerprint)
                if group is None or (after := release_hold(group, release, self._clock.now(), by)) is group:
                    record.refuse("it is not on hold for it any more")
                    return False
                if (written := await write_one(self._records, after)) is not None:
                    record.add_change(group_as_dict(group), group_as_dict(written))
                    self._tell_of_group(group, written, by)
                    return True
            raise StoreUnavailable(f"group {fingerprint!r} was changed by others {_TRIES} times in a row")

    def _tell_of_group(self, before: Group, after: Group, by: str) -> None:
        detail: dict[str, Any] = {
            "fingerprint": after.fingerprint,
            "state": str(after.state),
            "was": str(before.state),
            "regression": is_regression(after) and not is_regression(before),
            "by": by,
        }
        self._context.events.publish(Event(EventName.GROUP_CHANGED, self._clock.now(), None, detail))


def _letters(count: int) -> str:
    return "1 letter was" if count == 1 else f"{count} letters were"


def _as_it_is(group: Group, counts: GroupCounts, now: datetime) -> Group:
    count = counts.of(group.fingerprint)
    return with_derived_state(group, now, count=count.open, newest=count.captured, whole=counts.degraded is None)


def _why(before: Group, after: Group) -> str:
    if after.is_closed:
        return "no letter is open any more"
    return "a failure came after it was resolved" if is_regression(after) else "a letter was opened again"


def _view(group: Group, count: GroupCount, looks: GroupSamples, now: datetime, degraded: str | None) -> GroupView:
    statuses, categories, queues, adapters = looks.parts.get(group.fingerprint, ({}, {}, {}, {}))
    letter = looks.samples.get(group.fingerprint)
    return GroupView(
        group=group,
        count=count.open,
        total=count.total,
        occurrences=count.occurrences,
        first_seen=count.first,
        last_seen=count.last,
        last_hour=count.last_hour,
        last_day=count.last_day,
        day_before=count.day_before,
        statuses=statuses,
        categories=categories,
        queues=queues,
        adapters=adapters,
        title=_title(letter) if letter else "",
        sample=_sample(letter) if letter else None,
        on_hold=is_on_hold(group, now),
        degraded=degraded,
    )


def _sample(letter: DeadLetter) -> Sample:
    type_ = letter.failures[0].type if letter.failures else None
    error = letter.error[:_SHOWN]
    return Sample(letter.task_id, letter.namespace, letter.queue, error, type_, letter.created_at)


def _title(letter: DeadLetter) -> str:
    type_ = letter.failures[0].type if letter.failures else None
    return title(f"{type_}: {letter.error}" if type_ and letter.error != type_.rpartition(".")[2] else letter.error)


def _grows(count: GroupCount) -> bool:
    return is_growing(count.last_hour, count.last_day, count=count.open)


def _rank(count: GroupCount, sort: str) -> float:
    if sort == "last_seen":
        return count.last.timestamp() if count.last else float("-inf")
    if sort == "growth":
        return growth(count.last_hour, count.last_day) if count.open else float("-inf")
    return count.open


def _states(wanted: GroupState | str | Iterable[GroupState | str] | None) -> frozenset[GroupState] | None:
    if wanted is None:
        return None
    try:
        return frozenset(map(GroupState, [wanted] if isinstance(wanted, str) else wanted))
    except (TypeError, ValueError):
        known = ", ".join(GroupState)
        raise InvalidInput(f"{wanted!r:.80} is no state of groups; there are {known}") from None


def _place(after: Cursor | str | None) -> tuple[float, str] | None:
    cursor = Cursor.parse(after) if isinstance(after, str) else after
    if cursor is None:
        return None
    match cursor.after:
        case (int() | float() as rank, str() as fingerprint):
            return rank, fingerprint
    raise InvalidQuery("the cursor is not one of this list; leave it out to start at the beginning")
