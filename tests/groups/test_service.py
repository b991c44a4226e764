"""Groups through the queue: counted from letters, told by people, brought up to date by looks."""

from __future__ import annotations

import asyncio
import logging
import threading
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahavishnu import hookimpl
from mahavishnu.classify.assess import Assessor
from mahavishnu.classify.chain import Chain
from mahavishnu.classify.exceptions import failure_of
from mahavishnu.classify.fingerprint import named_fingerprint
from mahavishnu.classify.plugins import Plugins
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.groups.counts import GroupCounts
from mahavishnu.groups.records import GROUPS
from mahavishnu.groups.rules import Group, GroupState, GroupView
from mahavishnu.model.errors import (
    ChangedMeanwhile,
    InvalidInput,
    InvalidQuery,
    NoSuchGroup,
    StoreError,
    StoreUnavailable,
)
from mahavishnu.model.events import EventName
from mahavishnu.model.query import Query
from mahavishnu.testing import FaultyStore, make_letter
from mahavishnu.testing.clock import START
from tests.support.queues import House, Runs, heard, letter_of, pass_time

NETWORK, BAD = "connection refused by peer", "order 17 has no address"


async def without_workers(queue: DeadLetterQueue) -> list[str]:
    """The warnings but that nobody lives to run what is due, which is so in most of these tests."""
    return [each for each in await queue.health_warnings() if "no worker lives" not in each]


async def fails(queue: DeadLetterQueue, error: Any = NETWORK, /, *names: str, **options: Any) -> str:
    """Letters of these tasks. Returns their fingerprint."""
    letter = None
    for name in names or ("wf_1",):
        letter = await queue.enqueue(name, {}, ["api"], error, **options)
    assert letter is not None and letter.fingerprint is not None
    return letter.fingerprint


async def one(queue: DeadLetterQueue, **how: Any) -> GroupView:
    (view,) = (await queue.groups.list(**how)).items
    return view


async def audited(queue: DeadLetterQueue) -> list[tuple[str, str, str]]:
    page = await queue.audit.list(action="group.update")
    return [(entry.actor, entry.via, str(entry.outcome)) for entry in reversed(page.items)]


# ------------------------------------------------------------------------------------------------- what there is


async def test_letters_of_one_cause_are_a_group(any_house: House) -> None:
    """However different their numbers are."""
    queue = any_house.queue()
    network = await fails(queue, "connection refused: attempt 1", "a", "b", retry_policy="never")
    any_house.clock.advance(60)
    await fails(queue, "connection refused: attempt 2", "c", queue="mail", max_retries=0)
    bad = await fails(queue, ValueError(BAD), "d")
    await queue.enqueue("c", {}, ["api"], "connection refused: attempt 3", queue="mail")
    await queue.letters.resolve("a")

    page = await queue.groups.list()
    first, second = page.items

    assert [first.fingerprint, second.fingerprint] == [network, bad]
    assert (page.total, page.ungrouped, page.next, page.degraded) == (2, 0, None, None)
    assert (first.count, first.total, first.occurrences) == (2, 3, 3)
    assert (first.first_seen, first.last_seen) == (START, START + timedelta(minutes=1))
    assert (first.last_hour, first.last_day, first.day_before) == (3, 3, 0)
    assert first.statuses == {"pending": 1, "exhausted": 1}
    assert first.categories == {"network": 2}
    assert first.queues == {"default": 1, "mail": 1}
    assert first.sample is not None and first.sample.task_id == "c" and first.sample.queue == "mail"
    assert first.title == "connection refused: attempt <n>"
    assert (first.state, first.owner, first.version) == ("new", None, None)
    assert not (first.regression or first.on_hold or first.growing)
    assert second.sample is not None and (second.sample.type, second.sample.error) == ("ValueError", BAD)
    assert second.title == "ValueError: order <n> has no address"


async def test_where_letters_came_from(house: House) -> None:
    """The adapters of the workflows that failed."""
    app = house.app()
    app.register_adapter("sweep", Runs(ConnectionError(NETWORK)))
    await app.execute_workflow({}, "sweep", ["api"], task_id="wf_1")

    assert (await one(app.dlq)).adapters == {"sweep": 1}


async def test_one_group_by_the_hour(any_house: House) -> None:
    """The oldest hour first; what is older is in the day before."""
    queue = any_house.queue()
    await fails(queue, NETWORK, "older")
    any_house.clock.advance(25 * 3600)
    await fails(queue, NETWORK, "a", "b")
    any_house.clock.advance(2 * 3600)
    fingerprint = await fails(queue, NETWORK, "c")

    view = await queue.groups.get(fingerprint)

    assert view.hours == (*(0,) * 22, 2, 1)
    assert (view.last_hour, view.last_day, view.day_before, view.total) == (1, 3, 1, 4)


async def test_former_generations_count_too(any_house: House) -> None:
    """They are in the history."""
    queue = any_house.queue()
    await fails(queue)
    await queue.letters.cancel("wf_1")
    any_house.clock.advance(60)
    fingerprint = await fails(queue)

    view = await queue.groups.get(fingerprint)

    assert (view.count, view.total, view.last_hour, sum(view.hours)) == (1, 2, 2, 2)
    assert view.first_seen == START


async def test_letters_without_a_fingerprint_form_no_group(any_house: House) -> None:
    """They are counted all the same."""
    queue = any_house.queue()
    await queue.open()
    await queue.context.letters.write([make_letter(), make_letter(status="completed")])

    page = await queue.groups.list(quiet=True)

    assert (list(page.items), page.ungrouped) == ([], 1)


async def test_quiet_groups_are_listed_on_demand(any_house: House) -> None:
    """Those without open letters that nobody has to look at."""
    queue = any_house.queue()
    fingerprint = await fails(queue)
    await queue.letters.resolve("wf_1")

    assert (await queue.groups.list()).total == 0
    view = await one(queue, quiet=True)
    assert (view.fingerprint, view.state, view.count, view.statuses) == (fingerprint, "resolved", 0, {})
    assert view.sample is not None and view.sample.task_id == "wf_1"


async def test_lists_are_narrowed_and_sorted(any_house: House) -> None:
    """By state, owner and hold; by size, date and growth."""
    queue = any_house.queue()

    many = await fails(queue, "disk full", "a", "b", "c")
    any_house.clock.advance(29.5 * 3600)
    growing = await fails(queue, "too many requests", "d", "e")
    any_house.clock.advance(1800)
    latest = await fails(queue, "no such table", "f")
    await queue.groups.update(many, by="ann", owner="ann", state="investigating", hold_release="2.4")

    async def listed(**how: Any) -> list[str]:
        return [view.fingerprint for view in (await queue.groups.list(**how)).items]

    assert await listed() == [many, growing, latest]
    assert await listed(sort="last_seen") == [latest, growing, many]
    assert await listed(sort="growth") == [growing, latest, many]
    assert await listed(state="investigating") == [many] == await listed(owner="ann") == await listed(on_hold=True)
    assert await listed(on_hold=False) == [growing, latest] == await listed(state=[GroupState.NEW])


async def test_pages_of_groups(any_house: House) -> None:
    """Each group once."""
    queue = any_house.queue()
    expected = {await fails(queue, f"cause {letter}", letter) for letter in "abcdefg"}
    found: list[str] = []
    after = None
    for _ in range(4):
        page = await queue.groups.list(limit=2, after=after)
        assert page.total == 7
        found += [view.fingerprint for view in page.items]
        after = page.next

    assert after is None
    assert len(found) == 7 and set(found) == expected


async def test_many_letters_of_the_same_instant_have_a_sample_each(
    any_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if one search does not bring them all."""
    monkeypatch.setattr("mahavishnu.groups.counts._AT_ONCE", 3)
    queue = any_house.queue()
    for cause in "abc":
        await fails(queue, f"cause {cause}", *(f"{cause}{number}" for number in range(4)))

    views = (await queue.groups.list()).items

    assert all(view.sample and view.sample.error == view.title for view in views)


@pytest.mark.parametrize(
    "how",
    [
        {"state": "solved"},
        {"state": 3},
        {"sort": "size"},
        {"limit": 0},
        {"limit": True},
        {"limit": 9999},
        {"after": "x"},
    ],
)
async def test_what_cannot_be_asked(house: House, how: dict[str, Any]) -> None:
    """Is refused."""
    with pytest.raises(InvalidInput):
        await house.queue().groups.list(**how)


async def test_a_cursor_of_another_list(house: House) -> None:
    """Is none of this one."""
    queue = house.queue()
    await fails(queue, NETWORK, "a", "b")
    page = await queue.context.letters.find(Query(limit=1))

    assert page.next is not None
    with pytest.raises(InvalidQuery):
        await queue.groups.list(after=page.next)


async def test_there_is_no_such_group(any_house: House) -> None:
    """Neither to look at nor to speak of."""
    queue = any_house.queue()
    with pytest.raises(NoSuchGroup, match="v1:nothing"):
        await queue.groups.get("v1:nothing")
    with pytest.raises(LookupError):
        await queue.groups.update("v1:nothing", by="ann", note="hello?")


# ---------------------------------------------------------------------------------------------- what people say


async def test_people_say_something(any_house: House) -> None:
    """It is kept, audited and told."""
    queue = any_house.queue()
    fingerprint = await fails(queue)
    told = heard(queue)

    view = await queue.groups.update(
        fingerprint, by="ann", state="investigating", owner="ann", note="DNS?", link="https://x/1"
    )

    assert (view.state, view.owner, view.count) == ("investigating", "ann", 1)
    assert [note.text for note in view.group.notes] == ["DNS?"]
    assert await one(any_house.queue()) == view.__class__(**{**_fields(view), "hours": ()})
    assert await audited(queue) == [("ann", "python", "done")]
    (entry,) = (await queue.audit.list()).items
    assert (entry.subject, entry.reason) == (f"group:{fingerprint}", "DNS?")
    assert entry.changes.value["state"] == {"before": "new", "after": "investigating"}
    (event,) = [event for event in told if event.name is EventName.GROUP_CHANGED]
    assert event.detail == {
        "fingerprint": fingerprint,
        "state": "investigating",
        "was": "new",
        "regression": False,
        "by": "ann",
        "namespace": "default",
    }


def _fields(view: GroupView) -> dict[str, Any]:
    return {name: getattr(view, name) for name in GroupView.__dataclass_fields__}


async def test_what_cannot_be_said_leaves_no_trace(house: House) -> None:
    """No group, no audit."""
    queue = house.queue()
    fingerprint = await fails(queue)
    with pytest.raises(InvalidInput):
        await queue.groups.update(fingerprint, by="ann", state="solved")
    with pytest.raises(InvalidInput, match="nothing to change"):
        await queue.groups.update(fingerprint, by="ann")

    assert (await queue.groups.get(fingerprint)).version is None
    assert await audited(queue) == []


async def test_two_people_at_once(any_house: House) -> None:
    """Both are heard; who says what the word is based on, hears of the other."""
    queue, other = any_house.queue(), any_house.queue()
    fingerprint = await fails(queue)
    seen = await queue.groups.get(fingerprint)
    people = [(queue, "ann"), (other, "bob")] * 5
    await asyncio.gather(*(each.groups.update(fingerprint, by=by, note=by) for each, by in people))

    view = await queue.groups.get(fingerprint)
    assert sorted(note.text for note in view.group.notes) == ["ann"] * 5 + ["bob"] * 5
    with pytest.raises(ChangedMeanwhile, match=f"group '{fingerprint}' is new: cannot update it, changed by"):
        await other.groups.update(fingerprint, by="bob", state="wont_fix", base=seen)
    assert (await other.groups.update(fingerprint, by="bob", state="wont_fix", base=view)).state == "wont_fix"
    with pytest.raises(ChangedMeanwhile):
        await other.groups.update(fingerprint, by="bob", state="new", base=view.group)


async def test_only_one_of_two_speaks_first(any_house: House) -> None:
    """Of a group that nobody has touched, too."""
    queue, other = any_house.queue(), any_house.queue()
    fingerprint = await fails(queue)
    seen = await queue.groups.get(fingerprint)

    answers = await asyncio.gather(
        queue.groups.update(fingerprint, by="ann", owner="ann", base=seen),
        other.groups.update(fingerprint, by="bob", owner="bob", base=seen),
        return_exceptions=True,
    )

    assert sorted(type(answer).__name__ for answer in answers) == ["ChangedMeanwhile", "GroupView"]


# --------------------------------------------------------------------------------------- what follows by itself


async def test_a_group_that_somebody_looked_into_resolves_itself(any_house: House) -> None:
    """At the latest when somebody looks, and it is on record that no person did it."""
    queue = any_house.queue()
    fingerprint = await fails(queue, NETWORK, "a", "b")
    await queue.groups.update(fingerprint, by="ann", state="waiting_for_fix")
    await queue.letters.resolve("a")
    assert (await queue.groups.get(fingerprint)).state == "waiting_for_fix"
    await queue.letters.resolve("b")

    view = await queue.groups.get(fingerprint)

    assert (view.state, view.group.resolved_by, view.group.updated_by) == ("resolved", "rule", "rule")
    assert await audited(queue) == [("ann", "python", "done"), ("rule", "rule", "done")]
    assert await queue.groups.refresh() == 0


async def test_a_resolved_group_comes_back(any_house: House) -> None:
    """That is a regression, shown at once and written down once."""
    queue, other = any_house.queue(), any_house.queue()
    fingerprint = await fails(queue)
    await queue.groups.update(fingerprint, by="ann", state="resolved", owner="ann")
    assert (await queue.groups.get(fingerprint)).state == "resolved"  # the letter that is left was meant
    any_house.clock.advance(60)
    await fails(queue, NETWORK, "wf_2", "wf_3")
    told = heard(queue)

    named = f"WARNING: Resolved group {fingerprint} is back! {NETWORK} (mahavishnu group show {fingerprint})"
    assert await queue.health_warnings() == [named]
    view = await one(queue)
    assert (view.state, view.regression, view.group.regressions, view.owner) == ("new", True, 1, "ann")
    assert [event.detail["regression"] for event in told if event.name is EventName.GROUP_CHANGED] == [True]
    assert await other.groups.refresh() == 0
    view = await other.groups.update(fingerprint, by="ann", state="investigating")
    assert (view.state, view.regression, view.group.regressions) == ("investigating", True, 1)
    assert await queue.health_warnings() == []  # somebody is at it
    view = await other.groups.update(fingerprint, by="ann", state="resolved")
    assert (view.state, view.regression, view.group.regressions) == ("resolved", False, 1)


async def test_a_task_that_fails_again_brings_its_group_back_with_its_open_letter(any_house: House) -> None:
    """A nightly job has one id: its next failure is merged into the letter that was left open."""
    queue, other = any_house.queue(), any_house.queue()
    fingerprint = await fails(queue, NETWORK, "nightly", retry_policy="never")
    any_house.clock.advance(3600)
    await fails(queue, NETWORK, "nightly")
    view = await queue.groups.update(fingerprint, by="ann", state="resolved")
    assert (view.state, view.count, view.occurrences) == ("resolved", 1, 2)  # also that of this very moment is meant
    any_house.clock.advance(0.001)
    await fails(queue, NETWORK, "nightly")

    assert await other.groups.refresh() == 1
    view = await queue.groups.get(fingerprint)
    assert (view.state, view.regression, view.group.regressions) == ("new", True, 1)
    assert (view.count, view.occurrences, view.sample and view.sample.created_at) == (1, 3, START)
    entry = (await queue.audit.list(action="group.update")).items[0]
    assert (entry.actor, entry.reason) == ("rule", "a failure came after it was resolved")

    view = await other.groups.update(fingerprint, by="ann", state="resolved")  # means that failure too
    any_house.clock.advance(3600)
    assert await queue.groups.refresh() == 0
    assert (view.state, (await queue.groups.get(fingerprint)).state) == ("resolved", "resolved")
    await fails(queue, NETWORK, "nightly")
    assert (await one(queue)).group.regressions == 2


async def test_a_retry_that_fails_again_is_no_regression(any_house: House) -> None:
    """It is the same open case, whoever runs it: a processor, a person, or a worker elsewhere."""
    queue = any_house.queue(Runs(ConnectionError(NETWORK)))
    fingerprint = await fails(queue, NETWORK, "wf_1", retry_policy="immediate", max_retries=10)
    await queue.groups.update(fingerprint, by="ann", state="resolved")
    any_house.clock.advance(60)

    await queue.run_due()
    await queue.retry_task("wf_1")
    (claim,) = await queue.claims.claim("worker-1")
    any_house.clock.advance(1)
    await queue.claims.settle("wf_1", claim.token, "failed", error=NETWORK)

    letter = await letter_of(queue, "wf_1")
    assert (len(letter.failures), letter.failures[-1].at) == (4, any_house.clock.now())
    assert letter.captured_at == letter.created_at
    view = await queue.groups.get(fingerprint)
    assert (view.state, view.regression) == ("resolved", False)


async def test_two_looks_at_once_mark_a_regression_once(any_house: House) -> None:
    """Whichever process is quicker."""
    queues = [any_house.queue() for _ in range(4)]
    fingerprint = await fails(queues[0])
    await queues[0].groups.update(fingerprint, by="ann", state="resolved")
    any_house.clock.advance(60)
    await fails(queues[0], NETWORK, "wf_2")
    told = [heard(queue) for queue in queues]

    changed = await asyncio.gather(*(queue.groups.refresh() for queue in queues))

    assert (await queues[0].groups.get(fingerprint)).group.regressions == 1
    assert max(changed) >= 1
    assert sum(event.name is EventName.GROUP_CHANGED for events in told for event in events) == 1
    assert (await audited(queues[0])).count(("rule", "rule", "done")) == 1


async def test_an_old_letter_that_is_opened_again_is_no_regression(any_house: House) -> None:
    """The group that had resolved itself is new."""
    queue = any_house.queue()
    fingerprint = await fails(queue)
    await queue.groups.update(fingerprint, by="ann", state="investigating")
    any_house.clock.advance(60)
    await queue.archive_task("wf_1")
    assert (await queue.groups.get(fingerprint)).state == "resolved"
    any_house.clock.advance(60)
    await queue.letters.resurrect("wf_1")

    view = await queue.groups.get(fingerprint)
    assert (view.state, view.regression) == ("new", False)


async def test_the_processor_looks_at_the_groups(house: House) -> None:
    """Every minute."""
    queue = house.queue(Runs())
    fingerprint = await fails(queue, retry_policy="never")
    await queue.groups.update(fingerprint, by="ann", note="x")
    await queue.start_retry_processor()
    await queue.letters.resolve("wf_1")
    await pass_time(house.clock, 120, sleepers=4)

    (record,) = await queue.store.collection(GROUPS).get([fingerprint])
    assert isinstance(record, Group) and record.state is GroupState.RESOLVED


async def test_a_word_in_between_is_not_lost(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule writes over nothing that it has not seen."""
    queue, other = house.queue(), house.queue()
    fingerprint = await fails(queue)
    await queue.groups.update(fingerprint, by="ann", state="resolved")
    house.clock.advance(60)
    await fails(queue, NETWORK, "wf_2")
    ask = queue.groups._records.write_by_rule

    async def slow(before: Group, after: Group) -> Group | None:
        await other.groups.update(fingerprint, by="bob", note="it is me")
        return await ask(before, after)

    monkeypatch.setattr(queue.groups._records, "write_by_rule", slow)
    view = await one(queue)

    assert (view.state, view.group.regressions, [note.text for note in view.group.notes]) == ("new", 1, ["it is me"])


# --------------------------------------------------------------------------------------------------------- hold


async def test_groups_on_hold_are_silent(any_house: House) -> None:
    """Until the date is there or the release is out."""
    queue = any_house.queue()
    growing = await fails(queue, "too many requests", *(f"a{number}" for number in range(12)))
    back = await fails(queue, "disk full", "b")
    await queue.groups.update(back, by="ann", state="resolved")
    any_house.clock.advance(60)
    await fails(queue, "disk full", "c")
    warnings = [
        f"WARNING: Group {growing} grows: 12 letters in the last hour! too many requests"
        f" (mahavishnu group show {growing})",
        f"WARNING: Resolved group {back} is back! disk full (mahavishnu group show {back})",
    ]
    assert await without_workers(queue) == warnings

    view = await queue.groups.update(growing, by="ann", hold_until=any_house.clock.now() + timedelta(minutes=10))
    assert view.on_hold
    await queue.groups.update(back, by="ann", hold_release="2.4")
    assert await without_workers(queue) == []
    assert (await queue.groups.list(on_hold=True)).total == 2 == (await queue.groups.list()).total
    any_house.clock.advance(600)
    assert await queue.groups.release_hold("2.5", by="ci") == []
    assert await queue.groups.release_hold(" 2.4 ", by="ci") == [back]
    assert await without_workers(queue) == warnings
    assert (await queue.groups.get(back)).group.updated_by == "ci"
    with pytest.raises(InvalidInput):
        await queue.groups.release_hold("", by="ci")


async def test_a_group_whose_letters_are_closed_does_not_grow(any_house: House) -> None:
    """The alert ends with its letters; a letter that comes back is an alert again, and a regression."""
    queue = any_house.queue()
    names = [f"a{number}" for number in range(12)]
    group = await fails(queue, "too many requests", *names)
    other = await fails(queue, "disk full", "b")
    await queue.groups.update(group, by="ann", state="investigating")
    assert (await queue.groups.get(group)).growing and len(await without_workers(queue)) == 1

    await queue.letters.resolve_many(fingerprint=group, by="ann")
    view = await queue.groups.get(group)
    assert (view.state, view.last_hour, view.growing) == ("resolved", 12, False)
    assert await without_workers(queue) == []
    first = await queue.groups.list(sort="growth", quiet=True, limit=1)
    last = await queue.groups.list(sort="growth", quiet=True, limit=1, after=first.next)
    assert [each.fingerprint for each in (*first.items, *last.items)] == [other, group]

    any_house.clock.advance(1)
    await fails(queue, "too many requests", "c")
    view = await queue.groups.get(group)
    assert (view.state, view.regression, view.growing) == ("new", True, True)
    assert len(await without_workers(queue)) == 2


async def test_a_warning_names_the_groups_that_grow_most(house: House) -> None:
    """And counts the others; what nobody will fix is no news."""
    queue = house.queue()
    names = [
        await fails(queue, f"cause {chr(97 + place)}", *(f"{place}-{number}" for number in range(12)))
        for place in range(8)
    ]
    await queue.groups.update(names[0], by="ann", state="wont_fix")

    warnings = await without_workers(queue)

    assert len(warnings) == 6 and warnings[-1] == "WARNING: 2 more groups grow!"
    assert not any(names[0] in warning for warning in warnings)


@pytest.mark.parametrize(
    ("groups", "rest"),
    [
        (3, []),
        (4, ["WARNING: and 1 more resolved group is back! (mahavishnu group list --state new)"]),
        (6, ["WARNING: and 3 more resolved groups are back! (mahavishnu group list --state new)"]),
    ],
)
async def test_three_groups_that_are_back_are_named(house: House, groups: int, rest: list[str]) -> None:
    """The latest ones, by what they failed of, with the next command."""
    queue = house.queue()
    causes = [f"cause {chr(97 + place)}" for place in range(groups)]
    names = [await fails(queue, cause, cause) for cause in causes]
    for name in names:
        await queue.groups.update(name, by="ann", state="resolved")
    for cause in causes:
        house.clock.advance(60)
        await fails(queue, cause, cause)
        await queue.groups.refresh()

    named = [
        f"WARNING: Resolved group {name} is back! {cause} (mahavishnu group show {name})"
        for name, cause in zip(names[::-1][:3], causes[::-1][:3], strict=True)
    ]
    assert await without_workers(queue) == named + rest


# ------------------------------------------------------------------------------------------------ parts of the truth


async def test_nothing_follows_from_a_part_of_the_truth(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group is not resolved because its letters are out of reach."""
    queue = house.queue()
    fingerprint = await fails(queue)
    await queue.groups.update(fingerprint, by="ann", state="investigating")

    async def nothing(*_: Any, **__: Any) -> GroupCounts:
        return GroupCounts({}, degraded="the other half is away")

    monkeypatch.setattr("mahavishnu.groups.service.count_groups", nothing)

    page = await queue.groups.list()
    assert (page.degraded, [view.state for view in page.items]) == ("the other half is away", ["investigating"])
    assert (await queue.groups.get(fingerprint)).degraded == "the other half is away"
    assert await queue.groups.refresh() == 0
    with pytest.raises(StoreUnavailable, match="is not known now"):
        await queue.groups.get("v1:other")


async def test_a_store_that_is_away_is_an_error(house: House) -> None:
    """And no empty list."""
    queue = house.queue()
    fingerprint = await fails(queue)
    house.faults.unavailable()

    for call in (
        queue.groups.list(),
        queue.groups.get(fingerprint),
        queue.groups.update(fingerprint, by="ann", note="x"),
    ):
        with pytest.raises(StoreError):
            await call


async def test_a_record_that_cannot_be_read_hides_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is named, and the group is shown as untouched."""
    queue = house.queue()
    fingerprint = await fails(queue)
    records = queue.store.collection(GROUPS)
    find = records.find

    class Broken:
        async def find(self, *arguments: Any) -> Any:
            page = await find(*arguments)
            return type(page)((), None, (), (StoreError("record 'x' cannot be read"),))

    monkeypatch.setattr(queue.groups._records, "collection", Broken())
    with caplog.at_level(logging.ERROR):
        assert (await one(queue)).fingerprint == fingerprint
    assert "record 'x' cannot be read" in caplog.text


# ---------------------------------------------------------------------------------------------------------- regroup


class Cards:
    """Names the cause of what it knows."""

    @hookimpl
    def fingerprint_failure(self, error: BaseException | str, context: Any) -> str | None:
        return "cards" if "card" in str(error) else None


async def test_regroup_after_a_plugin_came(any_house: House) -> None:
    """Dry by default; no edit, no other date, and the audit knows."""
    queue = any_house.queue()
    await fails(queue, ValueError("card declined"), "a")
    await fails(queue, TypeError("no card"), "b")
    await fails(queue, NETWORK, "c")
    before = await letter_of(queue, "a")
    plugins = Plugins()
    plugins.register(Cards(), "cards")
    queue.context.chain.use(Chain(plugins))

    dry = await queue.groups.regroup()
    assert (sorted(dry.done), dry.refused, dry.dry_run) == (["a", "b"], {}, True)
    assert (await queue.groups.list()).total == 3
    done = await queue.groups.regroup(dry_run=False, by="ann")
    after = await letter_of(queue, "a")

    assert (sorted(done.done), done.refused) == (["a", "b"], {})
    assert (await queue.groups.list()).total == 2
    assert (after.revision, after.due_at, after.status) == (before.revision, before.due_at, before.status)
    assert (await queue.audit.list(action="regroup")).items[0].actor == "ann"
    assert (await queue.groups.regroup()).done == []
    assert (await queue.groups.regroup(status="exhausted")).matched == 0


class SlowCards(Cards):
    """Waits for the event loop before it answers."""

    def __init__(self) -> None:
        self.asked, self.gate = threading.Event(), threading.Event()

    def _wait(self) -> None:
        self.asked.set()
        assert self.gate.wait(10)

    @hookimpl
    def fingerprint_failure(self, error: BaseException | str, context: Any) -> str | None:
        self._wait()
        return "cards"

    @hookimpl
    def classify_error(self, error: BaseException | str, context: Any) -> str | None:
        self._wait()
        return "resource"


@pytest.mark.parametrize("verb", ["regroup", "reclassify", "run", "preview"])
async def test_the_event_loop_runs_while_plugins_look_at_stored_letters_again(house: House, verb: str) -> None:
    queue, cards = house.queue(), SlowCards()
    await fails(queue, ValueError("card declined"), "a")
    plugins = Plugins()
    plugins.register(cards, "cards")
    queue.context.chain.use(Chain(plugins, timeout=timedelta(seconds=10)))
    work: asyncio.Task[Any]
    match verb:
        case "regroup":
            work = asyncio.create_task(queue.groups.regroup(dry_run=False))
        case "reclassify":
            work = asyncio.create_task(queue.letters.reclassify(dry_run=False))
        case "preview":
            work = asyncio.create_task(queue.runs.preview("regroup", everything=True))
        case _:
            await queue.runs.start("regroup", everything=True, by="ann")
            work = asyncio.create_task(queue.runs.advance())
    assert await asyncio.to_thread(cards.asked.wait, 10)  # returns only while the event loop runs
    cards.gate.set()
    await work
    letter = await letter_of(queue, "a")
    named = letter.fingerprint == named_fingerprint("cards")
    assert named is (verb in ("regroup", "run"))
    assert (letter.error_category == "resource") is (verb == "reclassify")


def use_cards(queue: DeadLetterQueue) -> None:
    plugins = Plugins()
    plugins.register(Cards(), "cards")
    queue.context.chain.use(Chain(plugins))


async def test_an_untouched_group_is_quiet_since_its_last_letter_was_closed(any_house: House) -> None:
    """Whenever somebody asks; and saying something of it does not change that."""
    queue, clock = any_house.queue(), any_house.clock
    fingerprint = await fails(queue, NETWORK, "a", "b", "c")
    for name in "ab":
        clock.advance(60)
        await queue.letters.resolve(name)
    clock.advance(60)
    await queue.letters.cancel("c")
    last = clock.now()
    clock.advance(60)
    await fails(queue, ValueError(BAD), "a")  # what it was is in the history now
    for _ in range(2):
        clock.advance(3600)
        listed = (await queue.groups.list(quiet=True, state="resolved")).items
        for view in (*listed, await queue.groups.get(fingerprint)):
            assert (view.fingerprint, view.group.resolved_by) == (fingerprint, "rule")
            assert (view.group.resolved_at, view.group.updated_at) == (last, last)
    noted = await queue.groups.update(fingerprint, by="ann", note="it was the switch")
    assert (noted.group.resolved_at, noted.group.updated_at) == (last, clock.now())


async def test_what_was_said_goes_with_all_the_letters(any_house: House) -> None:
    """Owner, state, hold, notes and links; the old group tells where they are, and the audit by whom."""
    queue, clock = any_house.queue(), any_house.clock
    old = await fails(queue, ValueError("card declined"), "a", "b", "closed")
    await queue.letters.resolve("closed")
    until = clock.now() + timedelta(days=3)
    await queue.groups.update(old, by="bob", state="waiting_for_fix", owner="bob", note="the bank", hold_until=until)
    said = await queue.groups.update(old, by="bob", link="https://bank.example/1")
    use_cards(queue)
    clock.advance(60)

    await queue.groups.regroup(by="ann")
    assert (await queue.groups.get(old)).group == said.group
    await queue.groups.regroup(dry_run=False, by="ann")
    new, left = await one(queue), await queue.groups.get(old)

    assert (new.fingerprint, new.count, new.on_hold) == ((await letter_of(queue, "b")).fingerprint, 2, True)
    assert (new.state, new.owner, new.group.links) == ("waiting_for_fix", "bob", ("https://bank.example/1",))
    assert [(note.by, note.text) for note in new.group.notes] == [
        ("bob", "the bank"),
        ("ann", f"its letters were in group {old} before"),
    ]
    assert [note.text for note in left.group.notes] == [
        f"its letters are in group {new.fingerprint} now, with what was said of them"
    ]
    assert (left.state, left.owner, left.group.links, left.on_hold, left.total) == ("resolved", None, (), False, 1)
    assert [line[:2] for line in await audited(queue)][2:4] == [("ann", "python")] * 2
    await queue.groups.regroup(dry_run=False, by="ann")
    assert len((await one(queue)).group.notes) == 2


async def test_a_rule_that_sees_the_old_group_empty_does_not_change_what_people_said(any_house: House) -> None:
    """A processor looks just after the letters have left, and before the words have."""
    queue, other = any_house.queue(), any_house.queue()
    old = await fails(queue, ValueError("card declined"), "a")
    await queue.groups.update(old, by="bob", state="investigating", owner="bob")
    use_cards(queue)
    assert isinstance(queue.store, FaultyStore)
    held = queue.store.faults.hold("get", kind=GROUPS)
    regrouping = asyncio.create_task(queue.groups.regroup(dry_run=False, by="ann"))
    await held.wait_for_call()
    assert await other.groups.refresh() == 1
    assert (await other.groups.get(old)).state == "resolved"
    held.release()
    await regrouping

    new, left = await one(other), await other.groups.get(old)
    assert (new.state, new.owner, new.group.resolved_at) == ("investigating", "bob", None)
    assert (left.state, left.owner) == ("resolved", None)


async def test_where_groups_are_joined_or_parted_notes_tell_of_one_another(any_house: House) -> None:
    """The latest word is carried on; no other is changed."""
    queue, clock = any_house.queue(), any_house.clock
    first = await fails(queue, ValueError("card declined"), "a")
    second = await fails(queue, TypeError("no card"), "b")
    both = await fails(queue, KeyError("card gone"), "c")
    await queue.enqueue("other", {}, ["api"], ValueError("declined 7"))
    for name, who in ((first, "bob"), (second, "cleo")):
        clock.advance(1)
        await queue.groups.update(name, by=who, owner=who)
    use_cards(queue)

    await queue.groups.regroup(dry_run=False, by="ann", task_id=["a", "b"])
    new = await queue.groups.get((await letter_of(queue, "a")).fingerprint or "")

    assert (new.owner, new.count) == ("cleo", 2)
    assert [note.text for note in new.group.notes] == [
        f"its letters were in group {second} before",
        f"1 letter was in group {first} before",
    ]
    assert (await queue.groups.get(first)).owner == "bob"
    (note,) = (await queue.groups.get(first)).group.notes
    assert note.text == f"letters of it are in other groups now: {new.fingerprint} (1)"
    await queue.groups.regroup(dry_run=False, by="ann")  # of the third one nobody has said anything
    assert len((await queue.groups.get(new.fingerprint)).group.notes) == 2
    with pytest.raises(NoSuchGroup):
        await queue.groups.get(both)


async def test_a_group_that_keeps_letters_keeps_what_was_said(house: House) -> None:
    """Only some of them are meant."""
    queue = house.queue()
    old = await fails(queue, ValueError("card declined"), "a", "b")
    await queue.groups.update(old, by="bob", owner="bob")
    use_cards(queue)

    await queue.groups.regroup(dry_run=False, by="ann", task_id="a")

    assert (await queue.groups.get(old)).owner == "bob"
    assert len((await queue.groups.get(old)).group.notes) == 1
    new = next(group for group in (await queue.groups.list()).items if group.fingerprint != old)
    assert (new.owner, [note.text for note in new.group.notes]) == (None, [f"1 letter was in group {old} before"])


class Coded(Exception):
    """Says more than its text."""

    code = 7

    def __init__(self, text: str, code: int = 7) -> None:
        super().__init__(text)
        self.code = code


class ByCode:
    """Names the cause by what only the live exception has."""

    @hookimpl
    def fingerprint_failure(self, error: BaseException | str, context: Any) -> str | None:
        return f"code {error.__dict__['code']}" if isinstance(error, Coded) and error.__dict__ else None


async def test_what_a_plugin_named_by_more_than_the_text_stays(house: House) -> None:
    """Its silence about the text alone is no answer."""
    plugins = Plugins()
    plugins.register(ByCode(), "codes")
    queue = house.queue(chain=Chain(plugins))
    fingerprint = await fails(queue, Coded("no", 9))

    assert (await queue.groups.regroup()).done == []
    assert (await letter_of(queue, "wf_1")).fingerprint == fingerprint
    queue.context.chain.use(Chain())
    assert (await queue.groups.regroup()).done == []  # plugins that were registered stay
    assert (await house.queue().groups.regroup()).done == ["wf_1"]


async def test_letters_made_by_hand_stay_outside(house: House) -> None:
    """They keep no failure that could be looked at."""
    letter = make_letter()

    assert not letter.failures and Assessor(Chain()).fingerprint_again(letter) is None


async def test_a_later_failure_has_decided_on_the_group(house: House) -> None:
    """The letter has moved to it already."""
    queue = house.queue(Runs(ValueError("something else")))
    await fails(queue, NETWORK, retry_policy="immediate")
    await queue.run_due()

    assert len((await letter_of(queue, "wf_1")).failures) > 1
    assert (await queue.groups.regroup()).done == []


class Odd(Exception):
    """A type in this module, whose name says nothing."""


def _chained(error: BaseException, cause: BaseException | None, context: BaseException | None) -> BaseException:
    error.__cause__, error.__context__ = cause, context
    return error


TRICKY = [
    "order 17 failed",
    "a\n\nb",
    "  spaces  ",
    'Traceback (most recent call last):\n  File "x.py", line 1, in f\nValueError: x',
    "\nThe above exception was the direct cause of the following exception:\n",
    "+-+---------------- 1 ----------------",
    "ä\ud800",
]
texts = st.text(max_size=60) | st.sampled_from(TRICKY) | st.integers(30_000, 70_000).map(lambda length: "x" * length)
kinds = st.sampled_from([ValueError, TimeoutError, Odd, OSError, KeyError, SystemExit, type("Weird", (Exception,), {})])
plain = st.builds(lambda kind, text: kind(text), kinds, texts) | st.builds(lambda kind: kind(), kinds)
errors = st.recursive(
    plain,
    lambda inner: (
        st.builds(_chained, plain, st.none() | inner, st.none() | inner)
        | st.builds(BaseExceptionGroup, texts, st.lists(inner, min_size=1, max_size=3))
    ),
    max_leaves=6,
)


def _raised(error: BaseException, depth: int) -> BaseException:
    try:
        if depth:
            _raise(error, depth)
    except BaseException as caught:
        return caught
    return error


def _raise(error: BaseException, depth: int) -> None:
    if depth > 1:
        _raise(error, depth - 1)
    raise error


@given(errors | texts, st.integers(0, 40))
def test_while_no_rule_changes_no_group_does(error: BaseException | str, depth: int) -> None:
    """Whatever the failure was: what is kept of it gives the same fingerprint."""
    if isinstance(error, BaseException):
        error = _raised(error, depth)
    assessed = asyncio.run(Assessor(Chain()).assess(error, START))
    letter = make_letter(
        failures=(assessed.failure,), fingerprint=assessed.fingerprint, error_category=assessed.category
    )

    assert assessed.failure == failure_of(error, at=START, category=assessed.failure.category)
    assert Assessor(Chain()).fingerprint_again(letter) == assessed.fingerprint


@given(st.integers(0, 3000))
def test_nor_for_tracebacks_that_were_cut(depth: int) -> None:
    """Deep recursions are printed in part."""

    def dive(left: int) -> None:
        if left:
            dive(left - 1)
        raise ValueError("too deep")

    try:
        dive(min(depth, 800))
    except ValueError as error:
        failure = failure_of(error, at=START)
        cause = Chain().fingerprint(error, None, failure)
        stored = make_letter(failures=(failure,), fingerprint=cause, error_category=None)
        assert Assessor(Chain()).fingerprint_again(stored) == stored.fingerprint == Chain().fingerprint(error)
