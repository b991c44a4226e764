"""Groups: what follows from what people say and from which letters there are."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mahavishnu.groups.rules import (
    CLOSED,
    MOST_LINKS,
    MOST_NOTES,
    RULE,
    Group,
    GroupState,
    GroupView,
    Note,
    group_as_dict,
    growth,
    growth_warning,
    is_growing,
    is_on_hold,
    is_regression,
    reconcile_groups,
    release_hold,
    update_group,
    with_derived_state,
)
from mahavishnu.model.errors import InvalidInput
from mahavishnu.testing.clock import START

NEW, INVESTIGATING, WAITING, READY, RESOLVED, WONT_FIX = GroupState
MINUTE = timedelta(minutes=1)


def at(minutes: float) -> datetime:
    return START + MINUTE * minutes


def resolved(by: str = "ann", minutes: float = 10) -> Group:
    return Group("f", state=RESOLVED, resolved_at=at(minutes), resolved_by=by)


# ------------------------------------------------------------------------------------------------- what is shown


@pytest.mark.parametrize(
    ("group", "count", "newest", "state", "regression"),
    [
        (Group("f"), 3, at(1), NEW, False),
        (Group("f"), 0, None, RESOLVED, False),
        (Group("f", state=INVESTIGATING), 1, at(1), INVESTIGATING, False),
        (Group("f", state=INVESTIGATING), 0, None, RESOLVED, False),
        (Group("f", state=WAITING), 0, None, RESOLVED, False),
        (Group("f", state=READY), 0, None, RESOLVED, False),
        (Group("f", state=WONT_FIX), 0, None, WONT_FIX, False),
        (Group("f", state=WONT_FIX), 5, at(99), WONT_FIX, False),
        (resolved(), 0, None, RESOLVED, False),
        (resolved(), 2, at(9), RESOLVED, False),  # somebody said so, and old letters are left
        (resolved(), 2, at(10), RESOLVED, False),  # in the same instant
        (resolved(), 1, at(11), NEW, True),
        (resolved(by=RULE), 1, at(11), NEW, True),
        (resolved(by=RULE), 1, at(9), NEW, False),  # an old letter was opened again
        (Group("f", regressed_at=at(5)), 1, at(5), NEW, True),
        (Group("f", state=INVESTIGATING, regressed_at=at(5)), 1, at(5), INVESTIGATING, True),
        (Group("f", regressed_at=at(5)), 0, None, RESOLVED, False),
    ],
)
def test_what_is_shown(group: Group, count: int, newest: datetime | None, state: GroupState, regression: bool) -> None:
    """From what was said and from the open letters, and from nothing else."""
    shown = with_derived_state(group, at(20), count=count, newest=newest)

    assert (shown.state, is_regression(shown)) == (state, regression)
    assert shown.regressions == group.regressions + (regression and group.state is RESOLVED)
    assert with_derived_state(shown, at(21), count=count, newest=newest) is shown


def test_what_follows_is_signed_by_the_rule() -> None:
    """With when and who, so that nobody looks for a person."""
    back = with_derived_state(resolved(), at(20), count=1, newest=at(11))
    ended = with_derived_state(Group("f", state=READY, owner="ann"), at(20), count=0)

    assert (back.updated_by, back.updated_at, back.regressed_at) == (RULE, at(20), at(20))
    assert (ended.resolved_by, ended.resolved_at, ended.owner) == (RULE, at(20), "ann")


def test_nothing_follows_from_letters_that_cannot_be_seen() -> None:
    """No letter in a part of the truth is not the same as no letter."""
    group = Group("f", state=INVESTIGATING)

    assert with_derived_state(group, at(20), count=0, whole=False) is group
    assert with_derived_state(resolved(), at(20), count=1, newest=at(11), whole=False).state is NEW  # this one was seen


def test_a_letter_of_a_clock_that_is_ahead_is_a_regression_once() -> None:
    """It is newer than the resolution, and after the next one it is not."""
    back = with_derived_state(resolved(), at(20), count=1, newest=at(500))
    again = update_group(back, at(21), "ann", state="resolved", newest=at(500))

    assert back.regressed_at == at(500)
    assert with_derived_state(again, at(22), count=1, newest=at(500)) is again


# ---------------------------------------------------------------------------------------------- what people say


def test_people_say_something() -> None:
    """Notes and links are added, the others replaced or taken away."""
    group = update_group(
        Group("f"), at(1), "ann", state="investigating", owner="ann", note=" it is DNS ", link="https://x/1"
    )
    group = update_group(group, at(2), "bob", note="sure?", link="https://x/1", hold_until=at(60), hold_release="2.4")

    assert group == Group(
        "f",
        state=INVESTIGATING,
        owner="ann",
        notes=(Note(at(1), "ann", "it is DNS"), Note(at(2), "bob", "sure?")),
        links=("https://x/1",),
        hold_until=at(60),
        hold_release="2.4",
        updated_at=at(2),
        updated_by="bob",
    )
    bare = update_group(group, at(3), "bob", owner=None, hold_until=None, hold_release=None)
    assert (bare.owner, bare.hold_until, bare.hold_release, bare.state) == (None, None, None, INVESTIGATING)


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"state": "solved"},
        {"state": 3},
        {"owner": ""},
        {"owner": 7},
        {"owner": "x" * 201},
        {"note": "  "},
        {"note": "x" * 10_001},
        {"link": "javascript:alert(1)"},
        {"link": "ftp://x"},
        {"link": "https://x y"},
        {"hold_until": "tomorrow"},
        {"hold_until": START.replace(tzinfo=None)},
        {"hold_release": ""},
        {"by": ""},
        {"by": None, "note": "x"},
    ],
)
def test_what_cannot_be_said(said: dict[str, Any]) -> None:
    """Is refused by name."""
    with pytest.raises(InvalidInput):
        update_group(Group("f"), at(1), **{"by": "ann", **said})


def test_what_is_kept_has_a_bound() -> None:
    """The oldest notes go, which the audit keeps; a link too many is refused."""
    group = Group("f")
    for number in range(MOST_NOTES + 1):
        group = update_group(group, at(number), "ann", note=f"note {number}")
    for number in range(MOST_LINKS):
        group = update_group(group, at(500), "ann", link=f"https://x/{number}")

    assert [group.notes[0].text, group.notes[-1].text] == ["note 1", f"note {MOST_NOTES}"]
    assert update_group(group, at(501), "ann", link="https://x/0").links == group.links
    with pytest.raises(InvalidInput, match="50 links"):
        update_group(group, at(501), "ann", link="https://x/more")


def test_saying_resolved_means_the_letters_that_are_there() -> None:
    """Even if the clock of the machine that wrote the newest was ahead."""
    group = update_group(Group("f"), at(10), "ann", state=RESOLVED, newest=at(12))

    assert (group.resolved_at, group.resolved_by) == (at(12), "ann")
    assert with_derived_state(group, at(11), count=3, newest=at(12)) is group


@pytest.mark.parametrize("state", [NEW, INVESTIGATING, WAITING, READY, WONT_FIX])
def test_a_resolution_can_be_taken_back(state: GroupState) -> None:
    """Then later letters are no regression."""
    group = update_group(resolved(), at(11), "ann", state=state)

    assert (group.resolved_at, group.resolved_by) == (None, None)
    assert not is_regression(with_derived_state(group, at(13), count=1, newest=at(12)))


def test_a_regression_stays_one_until_it_is_resolved_or_accepted() -> None:
    """Whoever looks into it sees that it came back."""
    back = with_derived_state(resolved(), at(20), count=1, newest=at(11))

    assert is_regression(update_group(back, at(21), "ann", state="investigating"))
    assert not is_regression(update_group(back, at(21), "ann", state="wont_fix"))
    assert not is_regression(update_group(back, at(21), "ann", state="resolved"))


# --------------------------------------------------------------------------------------------------------- hold


@pytest.mark.parametrize(
    ("until", "release", "held"),
    [
        (None, None, False),
        (at(5), None, False),
        (at(10), None, False),
        (at(11), None, True),
        (None, "2.4", True),
        (at(5), "2.4", False),
        (at(11), "2.4", True),
    ],
)
def test_on_hold(until: datetime | None, release: str | None, held: bool) -> None:
    """Until a date or a release, whichever is first."""
    assert is_on_hold(Group("f", hold_until=until, hold_release=release), at(10)) is held


def test_a_release_ends_the_hold_for_it() -> None:
    """And no other."""
    group = Group("f", hold_release="2.4", hold_until=at(90))

    assert release_hold(group, "2.5", at(1), "ci") is group
    after = release_hold(group, "2.4", at(1), "ci")
    assert (after.hold_release, after.hold_until, after.updated_by) == (None, None, "ci")
    assert not is_on_hold(after, at(2))


# ------------------------------------------------------------------------------------------------------- growth


@pytest.mark.parametrize(
    ("hour", "day", "growing"),
    [
        (0, 0, False),
        (9, 9, False),
        (10, 10, True),
        (10, 10 + 76, True),
        (10, 10 + 77, False),
        (300, 300 + 23 * 100, False),
    ],
)
def test_growing(hour: int, day: int, growing: bool) -> None:
    """At least ten in the last hour, and more than three times as many as in an hour before, and not all are closed."""
    assert is_growing(hour, day, count=1) is growing
    assert not is_growing(hour, day, count=0)
    assert (growth(hour, day) > 0) >= growing


def test_a_warning_names_cause_and_next_command_in_one_line() -> None:
    """However long the cause is."""
    start = "WARNING: Group v1:f grows: 12 letters in the last hour!"
    command = "(mahavishnu group show v1:f)"
    assert growth_warning("v1:f", 12, "KeyError: total") == f"{start} KeyError: total {command}"
    assert growth_warning("v1:f", 12) == f"{start} {command}"
    assert growth_warning("v1:f", 12, "x" * 101) == f"{start} {'x' * 99}… {command}"


# ------------------------------------------------------------------------------------- what was said in two places

groups = st.builds(
    Group,
    fingerprint=st.just("f"),
    state=st.sampled_from(GroupState),
    owner=st.none() | st.sampled_from(["ann", "bob"]),
    notes=st.lists(st.builds(Note, st.integers(0, 5).map(at), st.just("ann"), st.sampled_from("xyz"))).map(tuple),
    links=st.lists(st.sampled_from(["https://x/1", "https://x/2"]), unique=True).map(tuple),
    hold_release=st.none() | st.just("2.4"),
    regressions=st.integers(0, 2),
    updated_at=st.none() | st.integers(0, 5).map(at),
    version=st.just((1,)),
)


@given(groups, groups)
def test_reuniting_loses_no_note_and_is_done_once(theirs: Group, ours: Group) -> None:
    """However often a drain is repeated."""
    both = reconcile_groups(theirs, ours)

    assert set(both.notes) == {*theirs.notes, *ours.notes}
    assert set(both.links) == {*theirs.links, *ours.links}
    assert both.version == theirs.version
    assert reconcile_groups(both, ours) == both


def test_a_note_that_was_written_blindly_changes_nothing_else() -> None:
    """Whoever wrote it could not see what had been said."""
    theirs = Group("f", state=WAITING, owner="ann", hold_release="2.4", updated_at=at(1))
    ours = update_group(Group("f"), at(2), "bob", note="it is back")

    assert reconcile_groups(theirs, ours) == replace(theirs, notes=ours.notes, updated_at=at(2), updated_by="bob")
    ours = update_group(ours, at(3), "bob", state="resolved", owner="bob")
    both = reconcile_groups(theirs, ours)
    assert (both.state, both.owner, both.resolved_by, both.hold_release) == (RESOLVED, "bob", "bob", "2.4")


def test_a_view_is_json() -> None:
    """What every surface shows."""
    group = update_group(Group("f"), at(1), "ann", note="x", hold_until=at(5))
    view = GroupView(group=group, count=2, last_hour=20, last_day=20)

    shown = json.loads(json.dumps(view.to_dict()))
    assert not replace(view, count=0).growing
    assert (shown["fingerprint"], shown["state"], shown["growing"], shown["count"]) == ("f", "new", True, 2)
    assert shown["notes"] == [{"at": "2026-01-01T00:01:00.000Z", "by": "ann", "text": "x"}]
    assert group_as_dict(group)["hold_until"] == shown["hold_until"] == "2026-01-01T00:05:00.000Z"


# ----------------------------------------------------------------------------- people act, letters come and go


class Life(RuleBasedStateMachine):
    """One group, its open letters, and a look at it after each step, against a plain account of what happened."""

    def __init__(self) -> None:
        super().__init__()
        self.group = Group("f")
        self.now = START
        self.open: list[datetime] = []  # when the task of each was captured last
        self.closed: list[datetime] = []
        self.said: GroupState | None = NEW  # by people; None: nothing that still counts
        self.resolved: datetime | None = None
        self.by_rule = False
        self.back = False
        self.returns = 0

    def look(self) -> None:
        newest = max(self.open, default=None)
        self.group = with_derived_state(self.group, self.now, count=len(self.open), newest=newest)

    @rule(minutes=st.integers(1, 100))
    def time_passes(self, minutes: int) -> None:
        self.now += MINUTE * minutes

    @rule()
    def a_letter_comes(self) -> None:
        self.open.append(self.a_failure())
        self.look()

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def a_task_with_an_open_letter_fails_again(self, data: st.DataObject) -> None:
        self.open[data.draw(st.integers(0, len(self.open) - 1))] = self.a_failure()
        self.look()

    def a_failure(self) -> datetime:
        self.now += timedelta(milliseconds=1)
        if self.resolved is not None:
            self.said, self.resolved, self.back, self.by_rule = NEW, None, True, False
            self.returns += 1
        return self.now

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def a_letter_is_closed(self, data: st.DataObject) -> None:
        self.closed.append(self.open.pop(data.draw(st.integers(0, len(self.open) - 1))))
        if not self.open and self.said not in CLOSED:
            self.said, self.resolved, self.back, self.by_rule = RESOLVED, self.now, False, True
        self.look()

    @precondition(lambda self: self.closed)
    @rule()
    def a_letter_is_opened_again(self) -> None:
        self.open.append(self.closed.pop())
        if self.said is RESOLVED and self.by_rule:
            self.said, self.resolved, self.by_rule = NEW, None, False
        self.look()

    @rule(state=st.sampled_from(GroupState))
    def a_person_says(self, state: GroupState) -> None:
        self.look()
        self.group = update_group(self.group, self.now, "ann", state=state, newest=max(self.open, default=None))
        self.said, self.by_rule = state, False
        self.resolved = self.now if state is RESOLVED else None
        self.back = self.back and state not in CLOSED
        if not self.open and state not in CLOSED:
            self.said, self.resolved, self.back, self.by_rule = RESOLVED, self.now, False, True
        self.look()

    @rule(word=st.sampled_from([{"note": "x"}, {"owner": "bob"}, {"hold_release": "1"}, {"link": "https://x"}]))
    def a_person_says_something_else(self, word: dict[str, str]) -> None:
        self.look()
        if self.group.state is RESOLVED and not self.open and self.said is not RESOLVED:
            self.said, self.resolved, self.by_rule = RESOLVED, self.now, True
        self.group = update_group(self.group, self.now, "ann", **word)  # type: ignore[arg-type]

    @rule(release=st.sampled_from(["1", "2"]))
    def a_release_is_out(self, release: str) -> None:
        self.group = release_hold(self.group, release, self.now, "ci")

    @invariant()
    def what_is_shown_is_right(self) -> None:
        newest = max(self.open, default=None)
        shown = with_derived_state(self.group, self.now, count=len(self.open), newest=newest)
        if self.said is NEW and not self.open:  # nobody has looked since the beginning
            assert shown.state is RESOLVED
            return
        assert shown.state is self.said
        assert is_regression(shown) is self.back
        assert shown.regressions == self.returns
        assert (shown.state is RESOLVED or bool(self.open)) or shown.state is WONT_FIX


TestLife = Life.TestCase
