"""What becomes of an alert, and who is told: without a store, a server or a clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mahavishnu.alerts.rules import (
    HELD,
    Alert,
    AlertPhase,
    AlertReason,
    AlertRules,
    Finding,
    NoticeKind,
    exhausted_finding,
    fold_groups,
    group_finding,
    hold_alert,
    is_owed,
    later_alert,
    next_alert,
    note_sent,
    owed_channels,
    worker_finding,
)
from mahavishnu.groups.rules import Group, GroupState, GroupView
from mahavishnu.model.errors import InvalidInput

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
RULES = AlertRules(webhook_url="https://hooks.example", log=True, rules=tuple(AlertReason))
NEW = Alert("group:v1:1")
STUCK = Finding("group:v1:1", (AlertReason.NEEDS_PERSON,), "KeyError: <text>")
MINUTE = timedelta(minutes=1)


def view(group: Group | None = None, **values: object) -> GroupView:
    counts: dict[str, object] = {"count": 3, "for_people": 3, "total": 3, "first_seen": NOW, "title": "KeyError"}
    return GroupView(group=group or Group("v1:1"), **{**counts, **values})  # type: ignore[arg-type]


def test_a_group_has_a_finding_for_each_rule_that_holds() -> None:
    found = group_finding(view(), RULES, NOW)
    assert found is not None and found.reasons == (AlertReason.FIRST_SEEN, AlertReason.NEEDS_PERSON)
    assert (found.name, found.path) == ("group:v1:1", "/groups/v1%3A1")
    later = group_finding(view(), RULES, NOW + timedelta(hours=25))
    assert later is not None and later.reasons == (AlertReason.AGE, AlertReason.NEEDS_PERSON)
    back = Group("v1:1", regressed_at=NOW)
    found = group_finding(view(back, for_people=0, first_seen=NOW - timedelta(days=9)), RULES, NOW)
    assert found is not None and found.reasons == (AlertReason.REGRESSION,)
    found = group_finding(view(for_people=0, last_hour=30, last_day=30, first_seen=None), RULES, NOW)
    assert found is not None and found.reasons == (AlertReason.GROWTH,)
    assert group_finding(view(for_people=0, first_seen=None), RULES, NOW) is None
    assert group_finding(view(count=0), RULES, NOW) is None
    assert group_finding(view(Group("v1:1", state=GroupState.WONT_FIX)), RULES, NOW) is None
    assert group_finding(view(), replace(RULES, rules=()), NOW) is None


def test_a_hold_mutes_and_an_owner_has_taken_it() -> None:
    held = group_finding(view(on_hold=True), RULES, NOW)
    assert held is not None and held.muted
    taken = group_finding(view(Group("v1:1", owner="ann")), RULES, NOW)
    assert taken is not None and taken.taken_by == "ann"


def test_many_exhausted_letters_that_a_group_speaks_of_are_one_alert() -> None:
    """R372: 1,000 exhaustions are one grouped alert."""
    of_group = group_finding(view(count=1000, for_people=1000, statuses={"exhausted": 1000}), RULES, NOW)
    assert of_group is not None
    assert exhausted_finding(1000, of_group.exhausted, RULES) is None
    assert exhausted_finding(1100, of_group.exhausted, RULES) is not None
    many = [replace(of_group, name=f"group:{number}", exhausted=1) for number in range(1000)]
    (one,) = fold_groups(many, frozenset(), 10)
    assert (one.name, one.title, one.exhausted) == ("groups", "1000 groups of failures at once", 1000)
    assert fold_groups(many[:10], frozenset(), 10) == many[:10]


def test_letters_due_without_a_worker_are_counted_by_adapter() -> None:
    found = worker_finding({"orders": 2, "mail": 1}, RULES)
    assert found is not None and found.title == "3 letters due that no live worker can run"
    assert worker_finding({}, RULES) is None


def test_an_alert_fires_is_repeated_taken_and_resolved() -> None:
    fired = next_alert(NEW, STUCK, RULES, NOW)
    assert (fired.phase, fired.notice, fired.notice_kind) == (AlertPhase.FIRING, 1, NoticeKind.TRIGGER)
    assert next_alert(fired, STUCK, RULES, NOW + MINUTE) is fired
    again = next_alert(fired, STUCK, RULES, NOW + timedelta(hours=4))
    assert (again.notice, again.notice_kind, again.since) == (2, NoticeKind.REMIND, NOW)
    assert next_alert(fired, STUCK, replace(RULES, repeat_minutes=None), NOW + timedelta(days=9)).notice == 1
    taken = next_alert(again, replace(STUCK, taken_by="ann"), RULES, NOW + timedelta(hours=5))
    assert (taken.phase, taken.notice_kind) == (AlertPhase.TAKEN, NoticeKind.ACKNOWLEDGE)
    assert next_alert(taken, replace(STUCK, taken_by="ann"), RULES, NOW + timedelta(hours=20)) is taken
    over = next_alert(taken, None, RULES, NOW + timedelta(hours=21))
    assert (over.phase, over.notice_kind, over.notice) == (AlertPhase.RESOLVED, NoticeKind.RESOLVE, 4)
    assert next_alert(over, None, RULES, NOW + timedelta(hours=22)) is over


def test_one_reason_more_is_told_at_once_and_a_hold_ends_it() -> None:
    fired = next_alert(NEW, STUCK, RULES, NOW)
    grows = replace(STUCK, reasons=(AlertReason.GROWTH, AlertReason.NEEDS_PERSON))
    more = next_alert(fired, grows, RULES, NOW + MINUTE)
    assert (more.notice, more.notice_kind) == (2, NoticeKind.TRIGGER)
    held = next_alert(more, replace(grows, muted=True), RULES, NOW + 2 * MINUTE)
    assert (held.notice_kind, held.detail) == (NoticeKind.RESOLVE, "The group is on hold.")


def test_what_comes_back_at_once_is_told_after_a_while_and_not_at_all_if_it_ends_before() -> None:
    over = next_alert(next_alert(NEW, STUCK, RULES, NOW), None, RULES, NOW + MINUTE)
    back = next_alert(over, STUCK, RULES, NOW + 2 * MINUTE)
    assert (back.incident, back.notice, back.told) == (2, 2, ())
    assert next_alert(back, None, RULES, NOW + 3 * MINUTE).notice == 2
    late = next_alert(back, STUCK, RULES, NOW + 20 * MINUTE)
    assert (late.notice, late.notice_kind, late.since) == (3, NoticeKind.TRIGGER, NOW + 2 * MINUTE)


def test_what_somebody_has_already_wakes_nobody_until_it_is_old() -> None:
    taken = replace(STUCK, taken_by="ann")
    quiet = next_alert(NEW, taken, RULES, NOW)
    assert quiet.notice == 0
    old = replace(taken, reasons=(AlertReason.AGE, AlertReason.NEEDS_PERSON))
    assert next_alert(quiet, old, RULES, NOW + MINUTE).notice == 1


def test_channels_are_told_what_they_want_and_each_is_tried_by_itself() -> None:
    fired = next_alert(NEW, STUCK, RULES, NOW)
    assert owed_channels(fired, RULES, NOW) == ("webhook", "log")
    routed = replace(RULES, routes={"webhook": ("degraded",)})
    assert owed_channels(fired, routed, NOW) == ("log",)
    tried = note_sent(fired, fired, {"webhook": "answered with 503", "log": None}, "me", NOW)
    assert owed_channels(tried, RULES, NOW) == ()
    assert owed_channels(tried, RULES, NOW + timedelta(seconds=10)) == ("webhook",)
    over = next_alert(tried, None, routed, NOW + MINUTE)
    assert owed_channels(over, RULES, NOW + MINUTE) == ("webhook", "log"), "it may have been told after all"
    untold = next_alert(fired, None, RULES, NOW + MINUTE)
    assert owed_channels(untold, RULES, NOW + MINUTE) == (), "who heard nothing of it does not hear that it is over"
    assert not is_owed(tried, "webhook", RULES, NOW + timedelta(days=2))


def test_one_process_tells_it_and_another_one_when_that_is_gone() -> None:
    fired, skew = next_alert(NEW, STUCK, RULES, NOW), timedelta(seconds=30)
    held = hold_alert(fired, "one", ("log",), NOW, skew)
    assert held is not None
    assert hold_alert(held, "two", ("log",), NOW + HELD, skew) is None
    assert hold_alert(held, "one", ("log",), NOW + MINUTE, skew) is not None
    other = hold_alert(held, "two", ("log",), NOW + HELD + skew, skew)
    assert other is not None
    late = note_sent(other, held, {"log": None}, "one", NOW + 2 * HELD)
    assert late.holder == "two", "who comes late frees nobody else's hold"


def test_of_two_stores_the_later_one_counts() -> None:
    early, late = Alert("a", changed_at=NOW), Alert("a", changed_at=NOW + MINUTE, notice=3)
    assert later_alert(early, late) == late
    assert later_alert(late, early) is None


def test_what_there_is_not_is_refused() -> None:
    for wrong in ({"rules": ("growht",)}, {"routes": {"pager": ()}}, {"routes": {"log": ("x",)}}):
        with pytest.raises(InvalidInput, match="of alerts; there are"):
            AlertRules(**wrong)


LOOKS = st.tuples(
    st.integers(0, 40),  # minutes since the look before
    st.sampled_from(["nothing", "found", "grows", "taken", "muted"]),
    st.sampled_from(["both", "one fails", "dies"]),
)


def _finding(what: str) -> Finding | None:
    if what == "nothing":
        return None
    reasons = (AlertReason.GROWTH, AlertReason.NEEDS_PERSON) if what == "grows" else STUCK.reasons
    return replace(STUCK, reasons=reasons, muted=what == "muted", taken_by="ann" if what == "taken" else None)


@settings(max_examples=300, deadline=None)
@given(st.lists(LOOKS, max_size=40))
def test_whatever_happens_channels_hear_a_sensible_story(looks: list[tuple[int, str, str]]) -> None:
    """No end without a beginning, nothing twice unless a process died, no storm; and at rest all know how it is."""
    alert, now = NEW, NOW
    heard: dict[str, list[tuple[int, NoticeKind | None]]] = {"webhook": [], "log": []}

    def tell(how: str) -> None:
        nonlocal alert
        owed = owed_channels(alert, RULES, now)
        held = hold_alert(alert, "me", owed, now, timedelta())
        assert held is not None
        alert = held
        taken = [each for each in owed if not (how == "one fails" and each == "webhook")]
        for each in taken:
            heard[each].append((alert.notice, alert.notice_kind))
        if how != "dies":
            alert = note_sent(alert, alert, {each: None if each in taken else "no" for each in owed}, "me", now)

    for minutes, what, how in looks:
        now += timedelta(minutes=minutes)
        alert = next_alert(alert, _finding(what), RULES, now)
        tell(how)
        assert alert.holds == (what not in ("nothing", "muted"))
    for _ in range(30):  # nothing changes any more, and all channels work
        now += timedelta(minutes=10)
        alert = next_alert(alert, _finding(looks[-1][1]) if looks else None, replace(RULES, repeat_minutes=None), now)
        tell("both")
    deaths = sum(how == "dies" for _, _, how in looks)
    for story in heard.values():
        numbers = [number for number, _ in story]
        assert numbers == sorted(numbers)
        assert len(numbers) - len(set(numbers)) <= deaths
        if story:
            assert (story[-1][1] is NoticeKind.RESOLVE) == (not alert.holds) or not alert.told
    if not any(how == "one fails" for _, _, how in looks):
        for story in heard.values():
            assert not story or story[0][1] is NoticeKind.TRIGGER
    begun = sum(kind is NoticeKind.TRIGGER for _, kind in heard["log"])
    assert begun <= 3 * (1 + alert.incident)
