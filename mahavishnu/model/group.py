"""Groups: what people said about the failures of one cause, and what follows from that and from the letters.

The record holds only what people and rules said. Which letters there are is counted when somebody asks, so that no
count can drift; `settled` is the one rule that brings the two together, and what it gives is what is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from mahavishnu.model.clock import instant, instant_text
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.letter_parts import UNCHANGED, Unchanged, Version

RULE: Final = "rule"  # who a group was resolved or opened again by, if it was not a person
LONGEST_NOTE, LONGEST_NAME, LONGEST_LINK = 10_000, 200, 2000
MOST_NOTES, MOST_LINKS = 200, 50
LONGEST_CAUSE = 100  # of a group, in a warning
GROWING_FROM, GROWING_TIMES = 10, 3  # letters in the last hour; so many times as many as usual


class GroupState(StrEnum):
    """How far people are with the cause."""

    NEW = "new"  #: nobody has said anything yet
    INVESTIGATING = "investigating"
    WAITING_FOR_FIX = "waiting_for_fix"
    READY_TO_REDRIVE = "ready_to_redrive"
    RESOLVED = "resolved"  #: a new failure would be a regression
    WONT_FIX = "wont_fix"  #: new letters surprise nobody


CLOSED: Final = frozenset({GroupState.RESOLVED, GroupState.WONT_FIX})


@dataclass(frozen=True, slots=True)
class Note:
    """What somebody wrote about a group."""

    at: datetime
    by: str
    text: str


@dataclass(frozen=True, slots=True)
class Group:
    """What people and rules said about the letters with one fingerprint; `Group(fingerprint)` is an untouched one.

    A group on hold stays silent until `hold_until`, or until `hold_release` is out, whichever is first; without either
    it is not on hold. `regressed_at` is when it came back after it was resolved, until it is resolved again.
    """

    fingerprint: str
    state: GroupState = GroupState.NEW
    owner: str | None = None
    notes: tuple[Note, ...] = ()
    links: tuple[str, ...] = ()
    hold_until: datetime | None = None
    hold_release: str | None = None
    resolved_at: datetime | None = None
    resolved_by: str | None = None
    regressed_at: datetime | None = None
    regressions: int = 0
    updated_at: datetime | None = None
    updated_by: str | None = None
    version: Version | None = field(default=None, compare=False)

    @property
    def key(self) -> str:
        return self.fingerprint

    @property
    def is_closed(self) -> bool:
        return self.state in CLOSED


def with_derived_state(
    group: Group, now: datetime, *, count: int, newest: datetime | None = None, whole: bool = True
) -> Group:
    """The group as it is now that it has `count` open letters, and that a task of theirs was captured last at `newest`.

    Resolved, and a task was captured since: new again, and a regression. No letter is open any more: resolved. Resolved
    for that reason alone, and a letter was opened again: new. Otherwise the same object. If the count may not be the
    `whole` truth, nothing follows from letters that are not there.
    """
    now = instant(now)
    if group.state is GroupState.RESOLVED and count:
        opened = replace(group, state=GroupState.NEW, updated_at=now, updated_by=RULE)
        if newest is not None and group.resolved_at is not None and newest > group.resolved_at:
            return replace(opened, regressed_at=max(now, newest), regressions=group.regressions + 1)
        if group.resolved_by == RULE:
            return replace(opened, resolved_at=None, resolved_by=None)
    if not count and whole and not group.is_closed:
        return _resolve(group, now, RULE, None)
    return group


def update_group(
    group: Group,
    now: datetime,
    by: str,
    *,
    state: GroupState | str | None = None,
    owner: str | Unchanged | None = UNCHANGED,
    note: str | None = None,
    link: str | None = None,
    hold_until: datetime | Unchanged | None = UNCHANGED,
    hold_release: str | Unchanged | None = UNCHANGED,
    newest: datetime | None = None,
) -> Group:
    """What somebody said; None as `owner` or hold takes it away. Raises InvalidInput for what cannot be said.

    `newest` is when the task of an open letter was captured last: resolving means this too, also if its clock was
    ahead.
    """
    now, by = instant(now), _text(by, "by", LONGEST_NAME)
    if state is note is link is None and owner is hold_until is hold_release is UNCHANGED:
        raise InvalidInput("nothing to change was given; state, owner, note, link, hold_until and hold_release can be")
    after = replace(group, updated_at=now, updated_by=by)
    if state is not None:
        after = _set_state(after, _state(state), now, by, newest)
    if owner is not UNCHANGED:
        after = replace(after, owner=None if owner is None else _text(owner, "owner", LONGEST_NAME))
    if note is not None:
        notes = (*group.notes, Note(now, by, _text(note, "note", LONGEST_NOTE)))
        after = replace(after, notes=notes[-MOST_NOTES:])
    if link is not None:
        after = replace(after, links=_with_link(group.links, link))
    if hold_until is not UNCHANGED:
        if hold_until is not None and not isinstance(hold_until, datetime):
            raise InvalidInput(f"hold_until must be an instant, not {hold_until!r:.80}")
        after = replace(after, hold_until=None if hold_until is None else instant(hold_until))
    if hold_release is not UNCHANGED:
        release = None if hold_release is None else _text(hold_release, "hold_release", LONGEST_NAME)
        after = replace(after, hold_release=release)
    return after


def group_as_dict(group: Group) -> dict[str, Any]:
    """What is said of the group, as JSON values."""
    return {
        "state": str(group.state),
        "owner": group.owner,
        "notes": [note.text for note in group.notes],
        "links": list(group.links),
        "hold_until": _moment(group.hold_until),
        "hold_release": group.hold_release,
        "regressions": group.regressions,
    }


def release_hold(group: Group, release: str, now: datetime, by: str) -> Group:
    """The release that it was held for is out; the same object if it was held for none, or another one."""
    if group.hold_release != release:
        return group
    return replace(group, hold_release=None, hold_until=None, updated_at=instant(now), updated_by=by)


def split_for_regroup(group: Group, fingerprint: str, now: datetime, by: str) -> tuple[Group, Group]:
    """All open letters of `group` belong to another one now, of which nobody has said anything: what was said goes with
    them. Returns that one, and what stays here; each has a note of the other.
    """
    now, by = instant(now), _text(by, "by", LONGEST_NAME)
    came = Note(now, by, f"its letters were in group {group.fingerprint} before")
    went = Note(now, by, f"its letters are in group {fingerprint} now, with what was said of them")
    notes = (*group.notes, came)[-MOST_NOTES:]
    new = replace(group, fingerprint=fingerprint, notes=notes, updated_at=now, updated_by=by, version=None)
    left = Group(group.fingerprint, notes=(went,), updated_at=now, updated_by=by, version=group.version)
    return new, left


def is_on_hold(group: Group, now: datetime) -> bool:
    """Whether it stays silent now."""
    if group.hold_until is not None:
        return now < group.hold_until
    return group.hold_release is not None


def is_regression(group: Group) -> bool:
    """Whether it came back after it was resolved, and is not closed again."""
    return group.regressed_at is not None and not group.is_closed


def growth(last_hour: int, last_day: int) -> float:
    """How many more letters the last hour brought than an hour of the 23 before it, on average."""
    return last_hour - (last_day - last_hour) / 23


def is_growing(last_hour: int, last_day: int, *, count: int) -> bool:
    """Whether that is much more than usual; where no letter is open, everything that came has been dealt with.

    >>> is_growing(9, 9, count=9), is_growing(10, 10, count=1), is_growing(60, 60 + 23 * 20, count=60)
    (False, True, False)
    >>> is_growing(10, 10, count=0)
    False
    """
    return count > 0 and last_hour >= GROWING_FROM and last_hour > GROWING_TIMES * (last_day - last_hour) / 23


def growth_warning(fingerprint: str, last_hour: int, title: str = "") -> str:
    """That a group grows, in words: how much, why as far as it is known, and what to do next."""
    come = f"grows: {last_hour} letters in the last hour!"
    return f"WARNING: Group {fingerprint} {come}{_cause(title)} (mahavishnu group show {fingerprint})"


def return_warning(fingerprint: str, title: str = "") -> str:
    """That a group is back after it was resolved, in the same words.

    >>> return_warning("v1:4be0", "KeyError: <text>")
    'WARNING: Resolved group v1:4be0 is back! KeyError: <text> (mahavishnu group show v1:4be0)'
    """
    return f"WARNING: Resolved group {fingerprint} is back!{_cause(title)} (mahavishnu group show {fingerprint})"


def _cause(title: str) -> str:
    return f" {title if len(title) <= LONGEST_CAUSE else title[: LONGEST_CAUSE - 1] + '…'}" if title else ""


def reconcile_groups(theirs: Group, ours: Group) -> Group:
    """What was said of one group in two places, `ours` without knowing of `theirs`.

    The later word counts, as far as it said something; no note or link is lost. Doing it twice changes nothing.
    """
    notes = sorted({*theirs.notes, *ours.notes}, key=lambda note: (note.at, note.by, note.text))
    both = replace(
        theirs,
        notes=tuple(notes)[-MOST_NOTES:],
        links=tuple(dict.fromkeys((*theirs.links, *ours.links)))[:MOST_LINKS],
    )
    if last_update(ours) <= last_update(theirs):
        return both
    said: dict[str, Any] = {"updated_at": ours.updated_at, "updated_by": ours.updated_by}
    if ours.state is not GroupState.NEW:
        said |= {name: getattr(ours, name) for name in ("state", "resolved_at", "resolved_by", "regressed_at")}
    if ours.owner is not None:
        said["owner"] = ours.owner
    if ours.hold_until is not None or ours.hold_release is not None:
        said |= {"hold_until": ours.hold_until, "hold_release": ours.hold_release}
    return replace(both, **said)


@dataclass(frozen=True, slots=True)
class Sample:
    """A letter of the group, the newest one."""

    task_id: str
    namespace: str
    queue: str
    error: str
    type: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """A group as it is shown: what was said about it, and what its letters are now.

    `count` are the open letters, which `occurrences`, `statuses`, `categories`, `queues` and `adapters` are about too;
    `total` are all that there ever were, and `first_seen`, `last_seen` and the letters that came in the last hour, the
    last day and the day before are of these. `hours` are the last 24, the oldest first, where one group is asked for.
    `degraded` says, in words, why the numbers may be too low.
    """

    group: Group
    count: int = 0
    total: int = 0
    occurrences: int = 0
    first_seen: datetime | None = None
    last_seen: datetime | None = None
    last_hour: int = 0
    last_day: int = 0
    day_before: int = 0
    statuses: Mapping[str, int] = field(default_factory=dict)
    categories: Mapping[str, int] = field(default_factory=dict)
    queues: Mapping[str, int] = field(default_factory=dict)
    adapters: Mapping[str, int] = field(default_factory=dict)
    title: str = ""
    sample: Sample | None = None
    on_hold: bool = False
    hours: Sequence[int] = ()
    degraded: str | None = None

    @property
    def fingerprint(self) -> str:
        return self.group.fingerprint

    @property
    def version(self) -> Version | None:
        """Of what was said; None where nobody has said anything yet."""
        return self.group.version

    @property
    def state(self) -> GroupState:
        return self.group.state

    @property
    def owner(self) -> str | None:
        return self.group.owner

    @property
    def regression(self) -> bool:
        """Whether it came back after it was resolved, and is not closed again."""
        return is_regression(self.group)

    @property
    def growing(self) -> bool:
        """Whether letters are open, and the last hour brought many more than usual."""
        return is_growing(self.last_hour, self.last_day, count=self.count)

    def to_dict(self) -> dict[str, Any]:
        """The view as JSON values."""
        group, sample = self.group, self.sample
        return {
            "fingerprint": group.fingerprint,
            "title": self.title,
            "state": str(group.state),
            "owner": group.owner,
            "regression": self.regression,
            "regressions": group.regressions,
            "on_hold": self.on_hold,
            "hold_until": _moment(group.hold_until),
            "hold_release": group.hold_release,
            "resolved_at": _moment(group.resolved_at),
            "resolved_by": group.resolved_by,
            "regressed_at": _moment(group.regressed_at),
            "updated_at": _moment(group.updated_at),
            "updated_by": group.updated_by,
            "notes": [{"at": _moment(note.at), "by": note.by, "text": note.text} for note in group.notes],
            "links": list(group.links),
            "count": self.count,
            "total": self.total,
            "occurrences": self.occurrences,
            "first_seen": _moment(self.first_seen),
            "last_seen": _moment(self.last_seen),
            "last_hour": self.last_hour,
            "last_day": self.last_day,
            "day_before": self.day_before,
            "growing": self.growing,
            "hours": list(self.hours),
            "statuses": dict(self.statuses),
            "categories": dict(self.categories),
            "queues": dict(self.queues),
            "adapters": dict(self.adapters),
            "sample": None
            if sample is None
            else {
                "task_id": sample.task_id,
                "namespace": sample.namespace,
                "queue": sample.queue,
                "error": sample.error,
                "type": sample.type,
                "created_at": _moment(sample.created_at),
            },
            "degraded": self.degraded,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPage:
    """Some groups in the order asked for.

    `total` are the groups that were asked for, on all pages; `next` goes on after this page, and is None at the end;
    `ungrouped` are the open letters that have no fingerprint. `degraded` says, in words, why the numbers may be too
    low.
    """

    items: Sequence[GroupView]
    total: int
    ungrouped: int = 0
    next: str | None = None
    degraded: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The page as JSON values."""
        return {
            "items": [view.to_dict() for view in self.items],
            "total": self.total,
            "ungrouped": self.ungrouped,
            "next": self.next,
            "degraded": self.degraded,
        }


def _set_state(group: Group, state: GroupState, now: datetime, by: str, newest: datetime | None) -> Group:
    if state is GroupState.RESOLVED:
        return _resolve(group, now, by, newest)
    resolved_at = None if state is GroupState.WONT_FIX or group.is_closed else group.resolved_at
    regressed_at = None if state is GroupState.WONT_FIX else group.regressed_at
    return replace(group, state=state, resolved_at=resolved_at, resolved_by=None, regressed_at=regressed_at)


def _resolve(group: Group, now: datetime, by: str, newest: datetime | None) -> Group:
    moment = max(now, newest) if newest is not None else now
    ended = replace(group, state=GroupState.RESOLVED, resolved_at=moment, resolved_by=by, regressed_at=None)
    return replace(ended, updated_at=now, updated_by=by)


def _state(name: GroupState | str) -> GroupState:
    try:
        return GroupState(name)
    except ValueError:
        raise InvalidInput(f"there is no group state {name!r}; there are {', '.join(GroupState)}") from None


def _text(value: object, what: str, longest: int) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(f"{what} must be a text that says something, not {value!r:.80}")
    if len(value) > longest:
        raise InvalidInput(f"{what} has {len(value)} characters, more than the {longest} that it may have")
    return value.strip()


def _with_link(links: tuple[str, ...], link: str) -> tuple[str, ...]:
    link = _text(link, "link", LONGEST_LINK)
    if not link.lower().startswith(("https://", "http://")) or any(map(str.isspace, link)):
        raise InvalidInput(f"{link!r:.80} is no link: it has to begin with https:// or http://")  # pages show them
    if link not in links and len(links) >= MOST_LINKS:
        raise InvalidInput(f"a group may have {MOST_LINKS} links, and this one has")
    return tuple(dict.fromkeys((*links, link)))


def last_update(group: Group) -> float:
    """When something was said of it last, in seconds since 1970; before everything if nothing was."""
    return group.updated_at.timestamp() if group.updated_at else float("-inf")


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else instant_text(moment)
