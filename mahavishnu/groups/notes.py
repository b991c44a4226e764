"""What people and rules have recorded about groups: found, written and audited, and moved along with letters."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from mahavishnu.engine.context import QueueContext
from mahavishnu.groups import rules as group_rules
from mahavishnu.groups.counts import GroupCounts, count_groups
from mahavishnu.groups.records import GROUPS
from mahavishnu.groups.rules import (
    RULE,
    Group,
    group_as_dict,
    is_regression,
    last_update,
    split_for_regroup,
    update_group,
    with_derived_state,
)
from mahavishnu.model.errors import StoreError, StoreUnavailable
from mahavishnu.model.events import Event, EventName
from mahavishnu.model.ids import DEFAULT_NAMESPACE
from mahavishnu.model.query import Is, Query
from mahavishnu.stores.base import get_one, update_with_retry, write_one, write_with_retry

log = logging.getLogger(__name__)
_PAGE = 1000
_ALL = Query(limit=_PAGE)
_NAMED_TARGETS = 20  # groups that letters of one group have moved to, and that get a note of it


class GroupRecords:
    """The stored records of groups; every change by compare-and-set, audited and published."""

    def __init__(self, context: QueueContext) -> None:
        self._context, self._letters, self._clock = context, context.letters, context.clock
        self._history, self.collection = context.history, context.own_records(GROUPS)

    def new(self, fingerprint: str) -> Group:
        """Return a new group of this namespace. Raise InvalidInput where all namespaces are meant."""
        return Group(fingerprint, namespace=self._context.written_namespace)

    async def find_all(self, query: Query = _ALL) -> tuple[dict[str, Group], str | None]:
        """Return the records of a query by fingerprint, and why some may be missing."""
        found: dict[str, Group] = {}
        degraded, after = None, None
        while True:
            page = await self.collection.find(query, after)
            found |= {group.fingerprint: group for group in page.items}
            degraded = degraded or page.degraded
            for problem in page.corrupt:
                log.error("%s", problem)
            if page.next is None:
                return found, degraded
            after = page.next

    async def find(self, fingerprint: str) -> tuple[Group | None, str | None]:
        try:
            return await get_one(self.collection, self.new(fingerprint).key), None
        except StoreUnavailable:  # a list may know what is kept here
            records, missing = await self.find_all(Query((Is("fingerprint", (fingerprint,)),)))
            return records.get(fingerprint), missing

    async def update_derived(
        self, records: Mapping[str, Group], counts: GroupCounts, now: datetime
    ) -> dict[str, Group]:
        """Return the groups with the state that follows from their letters; store it if all letters could be counted.

        Groups of another namespace are written by its own apps. An actor who sees a part of the letters gets the stored
        state: nothing follows for a group from a part of its letters.
        """
        scope = self._context.scope
        if scope is not None and not scope.covers_whole(self._context.namespace):
            return {name: group for name, group in records.items() if counts.of(name).total}
        shown = {name: derive_state(record, counts, now) for name, record in records.items()}
        due = [name for name, record in records.items() if shown[name] is not record]
        if not due or counts.degraded or not self._context.is_itself:
            return shown
        for name in due:
            try:
                shown[name] = await self.write_by_rule(records[name], shown[name]) or derive_state(
                    await get_one(self.collection, records[name].key) or records[name], counts, now
                )
            except StoreError as problem:  # it is shown all the same, and written at the next refresh
                log.debug("what became of group %s is not written down yet: %s", name, problem)
        return shown

    async def write_by_rule(self, before: Group, after: Group) -> Group | None:
        """Write the group and return it as stored; None if another process was quicker."""
        current = await get_one(self.collection, before.key)
        if current is None or current.version != before.version:  # no need for an audit entry
            return None
        return await self.write(before, after, RULE, _reason_for_change(before, after), via=RULE)

    async def write(self, before: Group, after: Group, by: str, reason: str, via: str | None = None) -> Group | None:
        """Write the group and return it as stored; None if another process was quicker."""
        async with self._context.audit.record(
            "group.update", f"group:{after.fingerprint}", by=by, reason=reason, via=via
        ) as record:
            written = await write_one(self.collection, after)
            if written is None:
                record.refuse("somebody else was quicker")
                return None
            record.add_change(group_as_dict(before), group_as_dict(written))
        self.publish(before, written, by)
        return written

    async def release_hold(self, fingerprint: str, release: str, by: str) -> bool:
        async with self._context.audit.record(
            "group.update", f"group:{fingerprint}", by=by, reason=f"release {release} is out"
        ) as record:
            released = await update_with_retry(
                self.collection,
                self.new(fingerprint).key,
                lambda group: group_rules.release_hold(group, release, self._clock.now(), by),
                what="group",
            )
            if released is None or released.after is released.before:
                record.refuse("it is not on hold for it any more")
                return False
            record.add_change(group_as_dict(released.before), group_as_dict(released.after))
            self.publish(released.before, released.after, by)
            return True

    async def _add_note(self, fingerprint: str, by: str, note: str) -> None:
        fresh = self.new(fingerprint)

        def add(group: Group | None) -> Group:
            return update_group(group or fresh, self._clock.now(), by, note=note)

        async with self._context.audit.record("group.update", f"group:{fingerprint}", by=by, reason=note) as record:
            before, after = await write_with_retry(self.collection, fresh.key, add, what="group")
            assert after is not None
            record.add_change(group_as_dict(before or fresh), group_as_dict(after))
        self.publish(before or fresh, after, by)

    async def follow_letters(
        self, records: Mapping[str, Group], moved: Mapping[tuple[str | None, str | None], int], by: str
    ) -> None:
        """Move records along with letters. `moved` counts the letters by their group before and after."""
        left = {name for name, _ in moved if name is not None and name in records}
        # of several records that go to one group, the last updated one is carried over
        for name in sorted(left, key=lambda name: (-last_update(records[name]), name)):
            targets = {to: count for (old, to), count in moved.items() if old == name}
            try:
                await self._carry_over(records[name], targets, by)
            except StoreError as problem:
                log.error("the record of group %s stays there, its letters are in another one now: %s", name, problem)

    async def _carry_over(self, group: Group, targets: Mapping[str | None, int], by: str) -> None:
        now, name = self._clock.now(), group.fingerprint
        current = await get_one(self.collection, group.key)
        if current is None:
            return
        # A rule may have resolved the group meanwhile, because no letter is open any more; what people recorded counts.
        group = replace(group if current.updated_by == RULE else current, version=current.version)
        counts = await count_groups(self._context, now, name, recent=False)
        to = next(iter(targets))
        if len(targets) == 1 and to is not None and not counts.of(name).open and not counts.degraded:
            new, rest = split_for_regroup(group, to, now, by)
            if await self.write(self.new(to), new, by, f"the letters of group {name} belong to it now"):
                if not await self.write(current, rest, by, f"its letters belong to group {to} now"):
                    await self._add_note(name, by, f"its letters are in group {to} now")
                return
        largest = sorted(targets.items(), key=lambda target: -target[1])[:_NAMED_TARGETS]
        for other, count in largest:
            if other is not None:
                await self._add_note(other, by, f"{_letters(count)} in group {name} before")
        listed = ", ".join(f"{other or 'none'} ({count})" for other, count in largest)
        more = f" and {len(targets) - len(largest)} more" if len(targets) > len(largest) else ""
        await self._add_note(name, by, f"letters of it are in other groups now: {listed}{more}")

    def publish(self, before: Group, after: Group, by: str) -> None:
        detail: dict[str, Any] = {
            "fingerprint": after.fingerprint,
            "state": str(after.state),
            "was": str(before.state),
            "regression": is_regression(after) and not is_regression(before),
            "by": by,
            "namespace": after.namespace or DEFAULT_NAMESPACE,
        }
        self._context.events.publish(Event(EventName.GROUP_CHANGED, self._clock.now(), None, detail))


def derive_state(group: Group, counts: GroupCounts, now: datetime) -> Group:
    """Return the group with the state that follows from its letters."""
    count = counts.of(group.fingerprint)
    return with_derived_state(group, now, count=count.open, newest=count.captured, whole=counts.degraded is None)


def _reason_for_change(before: Group, after: Group) -> str:
    if after.is_closed:
        return "no letter is open any more"
    return "a failure came after it was resolved" if is_regression(after) else "a letter was opened again"


def _letters(count: int) -> str:
    return "1 letter was" if count == 1 else f"{count} letters were"
