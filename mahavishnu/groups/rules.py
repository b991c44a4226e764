"""Groups: what people recorded about the failures of one cause, and what follows from that and from the letters.

The record holds only what people and rules recorded. The letters are counted whenever a group is read, so that no
count can drift. `with_derived_state` is the one rule that combines the two; users see its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from msgspec import field
from msgspec.structs import asdict, replace

from mahavishnu.model.clock import instant, instant_text
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.ids import DEFAULT_NAMESPACE
from mahavishnu.model.letter_parts import UNCHANGED, Unchanged
from mahavishnu.model.record import Value, Version, Versioned

RULE: Final = "rule"  # `resolved_by` or `updated_by` where no person did it
LONGEST_NOTE, LONGEST_NAME, LONGEST_LINK = 10_000, 200, 2000
MOST_NOTES, MOST_LINKS = 200, 50
LONGEST_CAUSE = 100  # characters of a group's title in a warning
GROWING_FROM, GROWING_TIMES = 10, 3  # a growing group has so many letters in the last hour, so many times the usual


class GroupState(StrEnum):
    """The progress with the cause of the failures."""

    NEW = "new"  #: nobody has recorded anything yet
    INVESTIGATING = "investigating"
    WAITING_FOR_FIX = "waiting_for_fix"
    READY_TO_REDRIVE = "ready_to_redrive"
    RESOLVED = "resolved"  #: a new failure would be a regression
    WONT_FIX = "wont_fix"  #: new letters are expected


CLOSED: Final = frozenset({GroupState.RESOLVED, GroupState.WONT_FIX})


class Note(Value, frozen=True):
    """A note about a group."""

    at: datetime
    by: str
    text: str


class Group(Versioned, frozen=True):
    """The record of the letters with one fingerprint; `Group(fingerprint)` has nothing recorded yet.

    A group on hold gives no warnings until `hold_until`, or until `hold_release` is out, whichever is first.
    `regressed_at` is when new letters came after it was resolved, until it is resolved again. No `namespace` is the one
    called `default`: the same cause is another group in each.
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
    namespace: str | None = None
    version: Version | None = None

    @property
    def key(self) -> str:
        return self.fingerprint if self.namespace is None else f"{self.namespace}/{self.fingerprint}"

    @property
    def is_closed(self) -> bool:
        return self.state in CLOSED


def with_derived_state(
    group: Group, now: datetime, *, count: int, newest: datetime | None = None, whole: bool = True
) -> Group:
    """Return the group with the state that follows from `count` open letters, the newest captured at `newest`.

    A resolved group with a letter captured since is new again, and a regression. A group without open letters is
    resolved; if that was the only reason, it is new once a letter is opened again. Otherwise return the same object.
    Unless the count is `whole`, missing letters resolve nothing.
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
    """Return the group with what a person recorded; None removes the owner or the hold. Raise InvalidInput.

    `newest` is when the newest open letter was captured: resolving the group covers that letter too, even where the
    clock of the capturing process was ahead.
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
    """Return the record of the group as JSON values."""
    names = ("state", "owner", "notes", "links", "hold_until", "hold_release", "regressions")
    return {name: _as_json(getattr(group, name)) for name in names} | {"notes": [note.text for note in group.notes]}


def release_hold(group: Group, release: str, now: datetime, by: str) -> Group:
    """End the hold for a release that is out. Return the same object if the group is not held for this release."""
    if group.hold_release != release:
        return group
    return replace(group, hold_release=None, hold_until=None, updated_at=instant(now), updated_by=by)


def split_for_regroup(group: Group, fingerprint: str, now: datetime, by: str) -> tuple[Group, Group]:
    """Move a group's record to the group of all its open letters; return both, each with a note about the other."""
    now, by = instant(now), _text(by, "by", LONGEST_NAME)
    came = Note(now, by, f"its letters were in group {group.fingerprint} before")
    went = Note(now, by, f"its letters are in group {fingerprint} now, with what was said of them")
    notes = (*group.notes, came)[-MOST_NOTES:]
    new = replace(group, fingerprint=fingerprint, notes=notes, updated_at=now, updated_by=by, version=None)
    left = Group(group.fingerprint, notes=(went,), updated_at=now, updated_by=by, namespace=group.namespace)
    return new, replace(left, version=group.version)


def is_on_hold(group: Group, now: datetime) -> bool:
    """Return whether the group gives no warnings now."""
    if group.hold_until is not None:
        return now < group.hold_until
    return group.hold_release is not None


def is_regression(group: Group) -> bool:
    """Return whether new letters came after the group was resolved, and it is not closed again."""
    return group.regressed_at is not None and not group.is_closed


def growth(last_hour: int, last_day: int) -> float:
    """Return how many more letters the last hour brought than an average hour of the 23 before it."""
    return last_hour - (last_day - last_hour) / 23


def is_growing(last_hour: int, last_day: int, *, count: int) -> bool:
    """Return whether open letters are left, and the last hour brought many more than usual.

    >>> is_growing(9, 9, count=9), is_growing(10, 10, count=1), is_growing(60, 60 + 23 * 20, count=60)
    (False, True, False)
    >>> is_growing(10, 10, count=0)
    False
    """
    return count > 0 and last_hour >= GROWING_FROM and last_hour > GROWING_TIMES * (last_day - last_hour) / 23


def reconcile_groups(theirs: Group, ours: Group) -> Group:
    """Combine two stores' records of one group: the later one wins, and all notes and links stay. Repeatable."""
    notes = sorted({*theirs.notes, *ours.notes}, key=lambda note: (note.at, note.by, note.text))
    both = replace(
        theirs, notes=tuple(notes)[-MOST_NOTES:], links=tuple(dict.fromkeys((*theirs.links, *ours.links)))[:MOST_LINKS]
    )
    if last_update(ours) <= last_update(theirs):
        return both
    later: dict[str, Any] = {"updated_at": ours.updated_at, "updated_by": ours.updated_by}
    if ours.state is not GroupState.NEW:
        later |= {name: getattr(ours, name) for name in ("state", "resolved_at", "resolved_by", "regressed_at")}
    if ours.owner is not None:
        later["owner"] = ours.owner
    if ours.hold_until is not None or ours.hold_release is not None:
        later |= {"hold_until": ours.hold_until, "hold_release": ours.hold_release}
    return replace(both, **later)


class Sample(Value, frozen=True):
    """The newest letter of a group."""

    task_id: str
    namespace: str
    queue: str
    error: str
    type: str | None
    created_at: datetime


# The fields of a group view as JSON, in this order: those of the view, and of the record.
_SHOWN = (
    "fingerprint", "namespace", "title", "state", "owner", "regression", "regressions", "on_hold", "hold_until",
    "hold_release", "resolved_at", "resolved_by", "regressed_at", "updated_at", "updated_by", "notes", "links", "count",
    "for_people", "total", "occurrences", "first_seen", "last_seen", "last_hour", "last_day", "day_before", "growing",
    "hours", "statuses", "categories", "queues", "adapters", "sample", "degraded",
)  # fmt: skip


class GroupView(Value, frozen=True, kw_only=True):
    """A group as users see it: its record and its current letters.

    `count` are the open letters, which `occurrences`, `statuses`, `categories`, `queues` and `adapters` are about too;
    nothing will retry those `for_people`. `total` are all that ever were, and `first_seen`, `last_seen` and the letters
    of the last hour, the last day and the day before are of these. `hours` are the last 24, oldest first, of a single
    group. `degraded` says why numbers may be too low.
    """

    group: Group
    count: int = 0
    for_people: int = 0
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
    def namespace(self) -> str:
        """The namespace of these letters."""
        return self.group.namespace or DEFAULT_NAMESPACE

    @property
    def version(self) -> Version | None:
        """The version of the record; None where there is none."""
        return self.group.version

    @property
    def state(self) -> GroupState:
        return self.group.state

    @property
    def owner(self) -> str | None:
        return self.group.owner

    @property
    def regression(self) -> bool:
        """True if it came back after it was resolved, and is not closed again."""
        return is_regression(self.group)

    @property
    def growing(self) -> bool:
        """True if letters are open, and the last hour brought many more than usual."""
        return is_growing(self.last_hour, self.last_day, count=self.count)

    def to_dict(self) -> dict[str, Any]:
        """Return the view as JSON values: the names of `_SHOWN`, in that order."""
        return {name: _as_json(getattr(self if hasattr(self, name) else self.group, name)) for name in _SHOWN}


class GroupPage(Value, frozen=True, kw_only=True):
    """A page of groups in the requested order.

    `total` counts the matching groups on all pages; `next` is the cursor of the next page. Of the open letters,
    `ungrouped` have no fingerprint, and nothing will retry those `for_people`. `degraded` says why the numbers may be
    too low.
    """

    items: Sequence[GroupView]
    total: int
    ungrouped: int = 0
    for_people: int = 0
    next: str | None = None
    degraded: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the page as JSON values."""
        page = asdict(self)
        return page | {"items": [view.to_dict() for view in self.items]}


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
    """Return when the record changed last, in seconds since 1970; minus infinity if it never did."""
    return group.updated_at.timestamp() if group.updated_at else float("-inf")


def _as_json(value: Any) -> Any:
    match value:
        case datetime():
            return instant_text(value)
        case GroupState():
            return str(value)
        case Note() | Sample():
            return {name: _as_json(each) for name, each in asdict(value).items()}
        case list() | tuple():
            return [_as_json(each) for each in value]
        case Mapping():
            return dict(value)
    return value


# --- groups that need a person


class Attention(StrEnum):
    """The need for a person to look at a group now."""

    NEEDED = "needed"  #: letters wait for a person, or it grows, or is back; and nobody has taken it
    HANDLED = "given"  #: somebody has taken it, or said how far they are
    BY_ITSELF = "by_itself"  #: its letters are retried by themselves
    NONE = "none"  #: on hold, closed, or without open letters


class GroupPriority(Value, frozen=True):
    """A group, and whether somebody has to look at it; `weight` ranks those that need the same."""

    view: GroupView
    attention: Attention
    weight: float


def attention_of(view: GroupView) -> Attention:
    """Return whether this group needs attention now."""
    if view.on_hold or view.group.is_closed or not view.count:
        return Attention.NONE
    if view.owner is not None or view.state is not GroupState.NEW:
        return Attention.HANDLED
    return Attention.NEEDED if view.for_people or view.growing or view.regression else Attention.BY_ITSELF


def rank_groups(views: Iterable[GroupView], now: datetime) -> Sequence[GroupPriority]:
    """Return the groups that are not done, those that need attention first; then by age × growth × count."""
    needs = [GroupPriority(view, attention_of(view), _weight(view, now)) for view in views]
    open_ones = [need for need in needs if need.attention is not Attention.NONE]
    order = [*Attention]
    return sorted(open_ones, key=lambda need: (order.index(need.attention), -need.weight, need.view.fingerprint))


def _weight(view: GroupView, now: datetime) -> float:
    begun = view.first_seen or now
    hours = max(1.0, (now - begun).total_seconds() / 3600)
    return min(hours, 24.0) * (1.0 + max(0.0, growth(view.last_hour, view.last_day))) * view.count


# --- warnings about growing and returned groups


def growth_warning(fingerprint: str, last_hour: int, title: str = "") -> str:
    """Return the warning that a group grows: how fast, its title, and the command that shows it."""
    growing = f"grows: {last_hour} letters in the last hour!"
    return f"WARNING: Group {fingerprint} {growing}{_cause(title)} (mahavishnu group show {fingerprint})"


def return_warning(fingerprint: str, title: str = "") -> str:
    """Return the warning that a resolved group has new letters.

    >>> return_warning("v1:4be0", "KeyError: <text>")
    'WARNING: Resolved group v1:4be0 is back! KeyError: <text> (mahavishnu group show v1:4be0)'
    """
    return f"WARNING: Resolved group {fingerprint} is back!{_cause(title)} (mahavishnu group show {fingerprint})"


def _cause(title: str) -> str:
    return f" {title if len(title) <= LONGEST_CAUSE else title[: LONGEST_CAUSE - 1] + '…'}" if title else ""
