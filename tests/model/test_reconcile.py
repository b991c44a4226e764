"""Two letters under one key after an outage: nothing is lost and nothing is counted twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mahavishnu.model import lifecycle
from mahavishnu.model.errors import IllegalMove, LostLease
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter, FormerLetter, evolve
from mahavishnu.model.letter_parts import KEPT_FAILURES, DeadLetterStatus, Tallies
from mahavishnu.model.lifecycle import merge, violations
from mahavishnu.model.reconcile import Reconciliation, reconcile_letters, visible_letter
from mahavishnu.testing import make_letter
from tests.support.letters import TOKEN, captured, claimed, failure, noon

RETRYING = DeadLetterStatus.RETRYING
NOW, LATER = noon(2), noon(240)  # all leases last, and have ended


def letter(entry_id: str, minute: float = 0, **fields: Any) -> DeadLetter:
    """Captured so many minutes after noon."""
    moment = noon(minute)
    first = (failure(f"first of {entry_id}", moment),)
    fitting = {"failures": first, "error": f"first of {entry_id}", "last_error": f"first of {entry_id}"}
    moments = {"failed_at": moment, "created_at": moment, "updated_at": moment}
    return captured(entry_id=entry_id, **{**fitting, **moments, **fields})


def failed(start: DeadLetter) -> DeadLetter:
    """One automatic retry further."""
    assert start.due_at is not None
    problem = failure(f"retry of {start.entry_id}", start.due_at)
    return lifecycle.fail(claimed(start), token=TOKEN, failure=problem, now=start.due_at)


def retried_by_hand(start: DeadLetter, times: int) -> DeadLetter:
    """So many manual retries, each of which fails in its own way."""
    for number in range(times):
        problem = failure(f"no {number} of {start.entry_id}", noon(51 + number))
        start = lifecycle.fail(claimed(start, manual=True), token=TOKEN, failure=problem, now=noon(51 + number))
    return start


def requeued_and_resolved(start: DeadLetter) -> DeadLetter:
    """Sent back once, and settled by a person before a run had ended."""
    return lifecycle.resolve(lifecycle.requeue(start, now=noon(1), by="ada"), now=noon(1), by="ada")


STEPS: list[Callable[[DeadLetter], DeadLetter]] = [
    lambda start: claimed(start, manual=True) if start.lease is None else start,
    lambda start: lifecycle.release(start, token=TOKEN, now=noon(50)),
    lambda start: lifecycle.fail(start, token=TOKEN, failure=failure("no", noon(51)), now=noon(51)),
    lambda start: lifecycle.succeed(start, token=TOKEN, now=noon(52)),
    lambda start: merge(start, failure("again", noon(53)), noon(53)),
    lambda start: retried_by_hand(start, 4),
    lambda start: lifecycle.give_up(start, now=noon(54), by="ada"),
    lambda start: lifecycle.resolve(start, now=noon(55), by="ada"),
    lambda start: lifecycle.archive(start, now=noon(56), by="ada"),
    lambda start: lifecycle.redrive(start, now=noon(57)),
    lambda start: lifecycle.requeue(start, now=noon(58), by="ada", boost=10),
]


@st.composite
def histories(draw: st.DrawFn, entry_id: str) -> DeadLetter:
    """A letter after some moves, perhaps with a past."""
    now = letter(entry_id, draw(st.integers(0, 3)), max_retries=draw(st.integers(0, 2)))
    if draw(st.booleans()):
        before = requeued_and_resolved(letter(f"before {entry_id}"))
        now = lifecycle.next_generation(before, now)[1]
    for step in draw(st.lists(st.sampled_from(STEPS), max_size=6)):
        try:
            now = step(now)
        except IllegalMove:
            continue
    return now


two_letters = st.tuples(histories("theirs"), histories("ours")).map(lambda two: (replace(two[0], version=(9,)), two[1]))
instants = st.sampled_from([NOW, LATER])


def written(theirs: DeadLetter, reunion: Reconciliation) -> DeadLetter:
    """What lives under the key afterwards, with a new version if it changed."""
    if reunion.live is None:
        return theirs
    assert reunion.live.version == theirs.version  # written by CAS over what was read
    return replace(reunion.live, version=(10,))


# ------------------------------------------------------------------------------------------------------ the same entry


def test_the_same_entry_twice_changes_nothing() -> None:
    """The answer of its creation was lost, and it had landed."""
    one = letter("one")

    assert reconcile_letters(replace(one, version=(9,)), one, NOW) == Reconciliation()


@given(two=st.tuples(histories("one"), histories("one")))
def test_of_the_same_entry_theirs_stays(two: tuple[DeadLetter, DeadLetter]) -> None:
    """Ours is frozen from before it was sent: whatever it says, others have gone on from it since, or nobody has."""
    theirs, ours = two

    assert reconcile_letters(replace(theirs, version=(9,)), ours, NOW) == Reconciliation()


# --------------------------------------------------------------------------------------------------- two different ones


def test_what_is_being_run_waits() -> None:
    """Its outcome is written first."""
    assert reconcile_letters(letter("theirs"), claimed(letter("ours")), NOW) == Reconciliation(wait=True)


def test_until_they_are_reunited_the_one_that_is_being_run_is_the_letter() -> None:
    theirs, ours = letter("theirs"), letter("ours")
    assert visible_letter(theirs, claimed(ours), False).entry_id == ours.entry_id
    assert visible_letter(claimed(theirs), claimed(ours), False).entry_id == theirs.entry_id
    assert visible_letter(theirs, ours, False).entry_id == theirs.entry_id
    home_since = replace(theirs, absorbed=(ours.entry_id,))
    assert visible_letter(home_since, claimed(ours), False) is home_since
    assert visible_letter(theirs, ours, True) is ours
    assert visible_letter(claimed(theirs), ours, True).entry_id == theirs.entry_id
    assert visible_letter(claimed(theirs), claimed(ours), True).entry_id == ours.entry_id


def test_a_closed_one_of_theirs_is_succeeded_by_ours() -> None:
    """As if ours had been captured there: the lineage goes on, theirs is in the history, its sums are on ours."""
    theirs = replace(requeued_and_resolved(letter("theirs")), version=(9,))
    ours = letter("ours", 5)

    reunion = reconcile_letters(theirs, ours, NOW)

    assert reunion.former == FormerLetter.of(theirs)
    assert reunion.live is not None
    assert (reunion.live.entry_id, reunion.live.generation, reunion.live.previous_entry_id) == ("ours", 2, "theirs")
    assert (reunion.live.dlq_retry_count, reunion.live.version) == (1, (9,))
    assert reunion.live.requeue == theirs.requeue
    assert reunion.live.tallies == Tallies(requeued=1, reopened=1, manually_resolved=1)


def test_a_closed_one_of_ours_goes_to_the_history() -> None:
    """Theirs is open, and stays as it is, but for what ours adds to the sums: history counts for nothing."""
    theirs = replace(claimed(failed(letter("theirs"))), absorbed=("once",), version=(9,))
    before = requeued_and_resolved(letter("before"))
    ours = lifecycle.archive(lifecycle.next_generation(before, letter("ours", 2))[1], now=noon(3), by="ada")

    reunion = reconcile_letters(theirs, ours, NOW)

    assert reunion.former == FormerLetter.of(ours)
    assert reunion.live is not None
    assert reunion.live == replace(
        theirs,
        generation=3,
        absorbed=("once", "before", "ours"),
        dlq_retry_count=1,
        tallies=Tallies(retry_failed=1, requeued=1, reopened=1, manually_resolved=1, archived=1),
        updated_at=max(theirs.updated_at, ours.updated_at) + timedelta(milliseconds=1),
    )
    assert reunion.live.version == (9,)
    assert reconcile_letters(reunion.live, ours, NOW) == Reconciliation()


def test_two_open_ones_become_one() -> None:
    """Theirs lives on with its schedule, lease and payload; what happened to both is on it."""
    theirs = replace(claimed(failed(letter("theirs"))), version=(9,))
    ours = merge(failed(letter("ours", 2)), failure("again", noon(30)), noon(30))

    live = reconcile_letters(theirs, ours, NOW).live

    assert live is not None and theirs.lease is not None
    assert live == replace(
        theirs,
        occurrences=3,
        total_attempts=3,
        absorbed=("ours",),
        tallies=Tallies(retry_failed=2, deduplicated=2),  # the merge, and that of two letters one is left
        failures=(theirs.failures[0], *sorted([theirs.failures[1], *ours.failures], key=lambda each: each.at)),
        last_error="again",
        lease=replace(theirs.lease, failed_again=True),
        updated_at=live.updated_at,
    )
    assert live.updated_at > max(theirs.updated_at, ours.updated_at)
    assert live.version == (9,)


def test_the_last_error_is_that_of_the_latest_failure() -> None:
    """Not that of the letter which was captured later."""
    theirs = merge(letter("theirs", 0), failure("the latest", noon(20)), noon(20))
    ours = letter("ours", 5)

    live = reconcile_letters(theirs, ours, NOW).live

    assert live is not None
    assert live.last_error == live.failures[-1].message == "the latest"


def test_the_first_error_is_that_of_the_first_failure() -> None:
    """`error` and `failed_at` tell how it began."""
    theirs, ours = letter("theirs", 5), letter("ours", 0)

    live = reconcile_letters(theirs, ours, NOW).live

    assert live is not None
    assert (live.error, live.failed_at) == (live.failures[0].message, live.failures[0].at)


def test_the_lineage_of_both_is_counted() -> None:
    """C09: the limit on requeues binds over all of them, whether theirs is closed or open."""
    theirs = requeued_and_resolved(letter("theirs"))
    ours_before = requeued_and_resolved(letter("before", 2))
    ours = lifecycle.next_generation(ours_before, letter("ours", 5))[1]

    succeeded = reconcile_letters(theirs, ours, NOW).live
    joined = reconcile_letters(lifecycle.next_generation(theirs, letter("open", 4))[1], ours, NOW).live

    assert succeeded is not None and joined is not None
    assert (succeeded.dlq_retry_count, succeeded.generation) == (2, 3)
    assert (joined.dlq_retry_count, joined.generation) == (2, 3)  # two closed ones, and one for both open ones
    assert violations(succeeded) == violations(joined) == []


# ---------------------------------------------------------------------------------------------------- what always holds


@given(two=two_letters)
def test_a_run_is_waited_for_until_its_lease_ends_and_no_longer(two: tuple[DeadLetter, DeadLetter]) -> None:
    """Nobody may be left who would claim a letter whose run died: one of the two hides the other."""
    assert not reconcile_letters(*two, LATER).wait


@given(two=two_letters, now=instants)
def test_nothing_is_lost(two: tuple[DeadLetter, DeadLetter], now: datetime) -> None:
    """Both letters are found afterwards, or one that counts for both; and what lives has the sums of both."""
    theirs, ours = two
    reunion = reconcile_letters(theirs, ours, now)
    after = written(theirs, reunion)

    if reunion.wait:
        assert ours.status is RETRYING or (theirs.status is RETRYING and (ours.revision or ours.requeue))
        assert (reunion.live, reunion.former) == (None, None)
        return
    both_open = theirs.is_open and ours.is_open
    ours = lifecycle.recover(ours, now=now)
    if both_open and (ours.revision or ours.requeue):
        theirs = lifecycle.recover(theirs, now=now)
    known = [after, *([reunion.former] if reunion.former else [])]
    assert len(known) == (1 if both_open else 2)
    assert sum(each.total_attempts for each in known) == theirs.total_attempts + ours.total_attempts
    assert sum(each.occurrences for each in known) == theirs.occurrences + ours.occurrences
    sums = theirs.tallies.combine(ours.tallies)
    assert after.tallies == (sums.plus("deduplicated") if both_open else sums)
    assert after.generation == theirs.generation + ours.generation - both_open
    assert after.dlq_retry_count == theirs.dlq_retry_count + ours.dlq_retry_count
    assert after.updated_at > theirs.updated_at
    assert {failure for each in known for failure in each.failures} <= {*theirs.failures, *ours.failures}
    assert len(after.failures) <= KEPT_FAILURES
    assert after.is_open == (theirs.is_open or ours.is_open)
    assert after.entry_id == ("theirs" if theirs.is_open else "ours")
    absorbed = [*theirs.absorbed, *ours.absorbed]
    assert {*absorbed, "ours" if theirs.is_open else "theirs"} == {*after.absorbed}
    if reunion.former:
        assert reunion.former == FormerLetter.of(ours if theirs.is_open else theirs)


@given(two=two_letters, now=instants)
def test_of_sound_letters_sound_ones_are_made(two: tuple[DeadLetter, DeadLetter], now: datetime) -> None:
    """Above all: what lives was closed once for each time that one of both was opened. It keeps its key."""
    theirs, ours = two
    assert violations(theirs) == violations(ours) == []

    reunion = reconcile_letters(theirs, ours, now)
    after = written(theirs, reunion)

    assert violations(after) == []
    assert after.key == theirs.key
    assert reunion.former is None or violations(reunion.former) == []


@given(two=two_letters)
def test_two_open_ones_count_the_same_either_way(two: tuple[DeadLetter, DeadLetter]) -> None:
    """Only the schedule and the name are those of the one that was there."""
    theirs, ours = two
    assume(theirs.is_open and ours.is_open and RETRYING not in (theirs.status, ours.status))
    there, back = reconcile_letters(theirs, ours, NOW).live, reconcile_letters(ours, theirs, NOW).live

    assert there is not None and back is not None
    assert (there.occurrences, there.total_attempts, there.tallies) == (
        back.occurrences, back.total_attempts, back.tallies,
    )  # fmt: skip
    assert there.updated_at == back.updated_at
    assert [each.at for each in there.failures] == [each.at for each in back.failures]


def again(theirs: DeadLetter, ours: DeadLetter, now: datetime) -> None:
    """A drain that died before it removed ours, and starts again later."""
    first = reconcile_letters(theirs, ours, now)
    assume(not first.wait)
    after = written(theirs, first)
    second = reconcile_letters(after, ours, LATER)

    assert written(after, second) == after
    assert second.former in (None, first.former)  # its creation is refused: it is there


@given(two=two_letters, now=instants)
def test_once_more_changes_nothing(two: tuple[DeadLetter, DeadLetter], now: datetime) -> None:
    """ADR 0006: repeating a step of the drain is harmless."""
    theirs, ours = two
    assume(not (theirs.is_open and ours.is_open))

    again(theirs, ours, now)


@given(two=two_letters, now=instants)
def test_once_more_changes_nothing_for_two_open_ones(two: tuple[DeadLetter, DeadLetter], now: datetime) -> None:
    """Neither occurrences nor attempts nor tallies are counted twice."""
    theirs, ours = two
    assume(theirs.is_open and ours.is_open)

    again(theirs, ours, now)


@pytest.mark.parametrize("first", [(), (failure("the same", noon(0)),)], ids=["no failures", "one failure"])
def test_two_open_ones_are_joined_exactly_once(first: tuple[Any, ...]) -> None:
    """Whatever is in them, and also if more failures came in between."""
    theirs, ours = letter("theirs", failures=first), letter("ours", failures=first)
    live = reconcile_letters(theirs, ours, NOW).live
    assert live is not None, "ours is gone without having been counted"
    for number in range(KEPT_FAILURES + 1):
        live = merge(live, failure(f"later {number}", noon(number + 1)), noon(number + 1))

    assert reconcile_letters(live, ours, NOW).live is None


def test_failures_of_one_instant_keep_their_order() -> None:
    """Theirs first: the same two letters always give the same one."""
    for attempt in range(5):
        theirs = letter("theirs", failures=tuple(failure(f"t{attempt}{number}") for number in range(2)))
        ours = letter("ours", failures=tuple(failure(f"u{attempt}{number}") for number in range(3)))

        live = reconcile_letters(theirs, ours, NOW).live

        assert live is not None
        assert live.failures == theirs.failures + ours.failures


def test_the_joined_letter_is_newer_than_both() -> None:
    """R178, whichever clock is ahead."""
    theirs, ours = letter("theirs"), replace(letter("ours", 1), updated_at=noon(600))

    live = reconcile_letters(theirs, ours, NOW).live

    assert live is not None
    assert live.updated_at == noon(600) + timedelta(milliseconds=1)


def test_two_open_letters_of_one_task_are_one_for_the_repos_of_both() -> None:
    theirs, ours = make_letter(task_id="a", repos=("api",)), make_letter(task_id="a", repos=("web", "api"))
    live = reconcile_letters(theirs, ours, NOW).live
    assert live is not None
    assert live.repos == ("api", "web")
    whole = reconcile_letters(evolve(theirs, repos=()), ours, NOW).live
    assert whole is not None
    assert whole.repos == (), "without repos it is for all of them"


def test_two_open_letters_of_one_task_are_one_that_waits_for_what_both_wait_for() -> None:
    theirs, ours = make_letter(task_id="a", depends_on=("x", "y")), make_letter(task_id="a", depends_on=("z", "x"))
    live = reconcile_letters(theirs, ours, NOW).live
    assert live is not None
    assert live.depends_on == ("x", "y", "z")


def test_what_is_being_run_there_is_for_our_repos_the_next_time() -> None:
    theirs = claimed(letter("theirs", repos=("api",)))
    live = reconcile_letters(theirs, letter("ours", 2, repos=("web", "api")), NOW).live
    assert live is not None
    assert (live.repos, live.more_repos) == (("api",), ("web", "api"))
    assert lifecycle.succeed(live, token="token-1", now=NOW).repos == ("web", "api"), "nobody knows which was first"
    assert violations(live) == []


def test_what_people_did_to_a_letter_that_was_kept_locally_counts() -> None:
    """It was acknowledged: the edit is not undone by the older payload, and work that was sent back is run."""
    theirs = replace(letter("theirs", max_retries=0, priority=7), version=(3,))
    ours = lifecycle.edit(letter("ours", 5), now=noon(6), payload=Json.of({"fixed": True}))
    ours = lifecycle.requeue(ours, now=noon(7), by="ann", boost=10)
    live = reconcile_letters(theirs, ours, NOW).live
    assert live is not None and not violations(live)
    assert (live.entry_id, live.version, live.task, live.revision) == ("theirs", (3,), {"fixed": True}, 1)
    assert live.captured_digest == theirs.payload.digest
    assert (live.status, live.due_at, live.priority) == (DeadLetterStatus.PENDING, noon(7), 10)
    assert live.requeue == ours.requeue and live.dlq_retry_count == 1


def test_what_people_did_waits_while_the_other_is_being_run() -> None:
    ours = lifecycle.edit(letter("ours", 5), now=noon(6), payload=Json.of({"fixed": True}))
    assert reconcile_letters(claimed(letter("theirs")), ours, NOW) == Reconciliation(wait=True)


def test_what_people_did_outlives_a_run_whose_lease_has_ended() -> None:
    """Such a run may still be there and late: it must not close what it was not for."""
    theirs = replace(claimed(letter("theirs")), version=(3,))
    edited = lifecycle.edit(letter("ours", 5), now=noon(6), payload=Json.of({"fixed": True}))
    for ours in (edited, lifecycle.requeue(edited, now=noon(7), by="ann")):
        live = reconcile_letters(theirs, ours, LATER).live
        assert live is not None and not violations(live)
        assert (live.status, live.task, live.occurrences) == (DeadLetterStatus.PENDING, {"fixed": True}, 2)
        assert (live.version, live.requeue, live.tallies.claims_recovered) == ((3,), ours.requeue, 1)
        with pytest.raises(LostLease):
            lifecycle.succeed(live, token=TOKEN, now=LATER)


def test_a_run_of_ours_whose_lease_has_ended_is_not_waited_for() -> None:
    live = reconcile_letters(letter("theirs"), claimed(letter("ours")), LATER).live
    assert live is not None
    assert (live.entry_id, live.occurrences, live.total_attempts) == ("theirs", 2, 1)
    assert (live.status, live.tallies.claims_recovered) == (DeadLetterStatus.PENDING, 1)


def test_a_third_run_in_a_row_whose_lease_has_ended_counts_as_failed() -> None:
    """As where somebody claims it: a letter that kills its process is not run for ever."""
    edited = lifecycle.edit(letter("ours", 5), now=noon(6), priority=3)
    live = reconcile_letters(replace(claimed(letter("theirs")), recoveries=2), edited, LATER).live
    assert live is not None
    assert (live.status, live.retry_count, live.recoveries) == (DeadLetterStatus.PENDING, 1, 0)
    assert live.failures[-1].type == "LeaseRanOut"


def test_what_nobody_touched_takes_nothing_from_the_other() -> None:
    theirs = replace(letter("theirs", payload=Json.of({"n": 1}), priority=7), version=(3,))
    live = reconcile_letters(theirs, letter("ours", 5, payload=Json.of({"n": 2}), priority=9), NOW).live
    assert live is not None
    assert (live.task, live.priority, live.revision, live.requeue) == ({"n": 1}, 7, 0, None)


def test_the_failures_that_both_had_counted_are_known() -> None:
    theirs, ours = replace(letter("theirs"), merged=("one",), version=(9,)), replace(letter("ours"), merged=("two",))
    live = reconcile_letters(theirs, ours, NOW).live
    assert live is not None
    assert all(live.knows(entry_id) for entry_id in ("theirs", "ours", "one", "two"))
