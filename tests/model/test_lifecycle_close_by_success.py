"""A run of the application did the work of an open letter: what that closes, and what it leaves."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mahavishnu.model import lifecycle
from mahavishnu.model.errors import AlreadyResolved, LostLease
from mahavishnu.model.ids import EntryIds
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus, RequeueOutcome, ResolutionStatus, Source, SourceKind
from mahavishnu.model.lifecycle import close_by_success, edit, fail, merge, release, renew, requeue, succeed, violations
from mahavishnu.model.work import Success
from tests.support.letters import IN_TIME, NOON, STANDINGS, TOKEN, captured, claimed, failure, made, noon

PENDING, RETRYING, EXHAUSTED, COMPLETED, ARCHIVED = DeadLetterStatus
OPEN = ("due", "waiting", "running", "crashed", "exhausted")
PAYLOAD = Json.of({"day": 1})


def success(began: float = 1, **fields: Any) -> Success:
    """A run that began so many minutes after noon."""
    return Success(**{"payload": Json("{}"), "adapter": "sweep", "repos": (), "began": noon(began), **fields})


def closed(letter: DeadLetter, by: Success | None = None) -> DeadLetter:
    after = close_by_success(letter, by or success(), now=noon(3))
    assert violations(after) == []
    return after


@pytest.mark.parametrize("standing", OPEN)
def test_an_open_letter_is_closed_whatever_it_waits_for(standing: str) -> None:
    letter = STANDINGS[standing]
    after = closed(letter)
    assert (after.status, after.resolution.status, after.resolution.by) == (
        COMPLETED,
        ResolutionStatus.MANUALLY_RESOLVED,
        "application",
    )
    assert after.resolution.notes == "a run of the application that began at 2026-01-01T12:01:00.000Z succeeded"
    assert (after.completed_at, after.lease, after.due_at) == (noon(3), None, None)
    assert after.tallies == letter.tallies.plus("manually_resolved")
    assert (after.total_attempts, after.failures) == (letter.total_attempts, letter.failures)


@pytest.mark.parametrize("standing", [each for each in STANDINGS if each not in OPEN])
def test_what_is_closed_is_closed(standing: str) -> None:
    with pytest.raises(AlreadyResolved, match="cannot close it by success"):
        closed(STANDINGS[standing])


def test_a_failure_that_was_captured_after_the_run_began_is_not_its_success() -> None:
    letter = merge(captured(failures=(failure(),)), failure(at=noon(2)), noon(2), entry_id="entry-2")
    assert closed(letter) is letter
    assert not closed(letter, success(2)).is_open


def test_the_order_is_certain_on_one_clock_and_with_a_distance_on_two() -> None:
    here, there = EntryIds(mark="00000001"), EntryIds(mark="00000002")
    skew = timedelta(seconds=30)

    def is_closed(letter: DeadLetter, began: float) -> bool:
        return not closed(letter, success(began, mark="00000001", skew=skew)).is_open

    own, foreign = captured(entry_id=here(NOON)), captured(entry_id=there(NOON))
    assert is_closed(own, 0)
    assert (is_closed(foreign, 0.49), is_closed(foreign, 0.5)) == (False, True)
    unknown = captured(entry_id="entry-1")
    assert (is_closed(unknown, 0.49), is_closed(unknown, 0.5)) == (False, True)
    merged = merge(own, failure(at=noon(1)), noon(1), entry_id=there(noon(1)))
    assert (is_closed(merged, 1.49), is_closed(merged, 1.5)) == (False, True)
    merged = merge(foreign, failure(at=noon(1)), noon(1), entry_id=here(noon(1)))
    assert (is_closed(merged, 0.9), is_closed(merged, 1)) == (False, True)


def test_a_run_that_seems_to_begin_later_than_now_closes_nothing() -> None:
    letter = captured()
    assert closed(letter, success(4)) is letter


def test_a_retry_that_failed_since_does_not_matter() -> None:
    """It was a run of the same work."""
    letter = fail(claimed(captured(), noon(1)), token=TOKEN, failure=failure(at=noon(2), processor="w"), now=noon(2))
    assert not closed(letter).is_open


def test_a_merged_failure_counts_when_it_is_no_longer_kept() -> None:
    """Four retries that failed since have taken its place: its entry id says when it was."""
    late = "019b796e-c060-7000-8000-000000000000"  # a minute after noon
    letter = captured(max_retries=90, retry_policy="immediate", failures=(failure(),))
    letter = merge(letter, failure(at=noon(1)), noon(1), entry_id=late)
    for minute in range(2, 8):
        running = claimed(letter, noon(minute))
        letter = fail(running, token=TOKEN, failure=failure(at=noon(minute), processor="w"), now=noon(minute))
    assert letter.captured_at == NOON
    assert closed(letter, success(0.5)) is letter
    assert not closed(letter, success(1)).is_open


def test_other_work_is_left_alone() -> None:
    letter = captured(payload=PAYLOAD, adapter="sweep")
    assert closed(letter, success(payload=Json('{"day": 2}'))) is letter
    assert closed(letter, success(payload=PAYLOAD, adapter="invoice")) is letter
    assert not closed(letter, success(payload=Json('{ "day": 1 }'))).is_open, "it is spelled otherwise"
    assert not closed(letter, success(payload=PAYLOAD, adapter=None)).is_open
    unnamed = replace(letter, adapter=None)
    assert not closed(unnamed, success(payload=PAYLOAD)).is_open
    item = replace(letter, source=Source(SourceKind.QUEUE_ITEM))
    assert closed(item, success(payload=PAYLOAD)) is item


def test_what_a_person_made_of_the_payload_is_what_has_to_be_done() -> None:
    letter = edit(captured(payload=PAYLOAD), now=noon(1), payload=Json.of({"day": 3}))
    assert closed(letter, success(2, payload=PAYLOAD)) is letter
    assert not closed(letter, success(2, payload=Json.of({"day": 3}))).is_open


@pytest.mark.parametrize("standing", OPEN)
def test_repos_that_were_not_done_are_left(standing: str) -> None:
    letter = replace(STANDINGS[standing], repos=("api", "web", "db"))
    after = closed(letter, success(repos=("web", "other")))
    assert after == made(letter, repos=("api", "db"))
    assert not closed(after, success(repos=("db", "api"))).is_open
    assert closed(letter, success(repos=("other",))) is letter
    assert closed(letter, success()) is letter, "nobody knows what a run without repos did"
    everything = STANDINGS[standing]
    assert closed(everything, success(repos=("api",))) is everything


def test_a_run_that_fails_for_what_was_done_meanwhile_leaves_the_others() -> None:
    letter = closed(replace(STANDINGS["running"], repos=("api", "web", "db")), success(repos=("web",)))
    assert fail(letter, **IN_TIME, failure=failure(), left=("web", "db")).repos == ("db",)
    assert fail(letter, **IN_TIME, failure=failure(), left=("web",)).repos == ("web",), "none would be all"
    assert fail(letter, **IN_TIME, failure=failure()).repos == ("api", "db")
    assert not succeed(letter, **IN_TIME).is_open


def test_failures_while_it_is_run_are_part_of_the_work() -> None:
    running = replace(STANDINGS["running"], repos=("api",), failures=(failure(),))
    running = merge(running, failure(at=noon(1)), noon(1), repos=("web",))
    assert running.more_repos == ("web",)
    after = closed(running, success(1, repos=("api", "web")))
    assert (after.status, after.more_repos) == (COMPLETED, ())
    assert closed(running, success(1, repos=("api",))) is running
    assert closed(running, success(0.5, repos=("api", "web"))) is running


@pytest.mark.parametrize("move", ["succeed", "fail", "exhaust", "renew", "release"])
def test_what_comes_of_a_run_does_not_count_any_more(move: str) -> None:
    letter = closed(STANDINGS["running"])
    given: dict[str, Any] = {"failure": failure()} if move in ("fail", "exhaust") else {}
    given |= {"until": noon(9)} if move == "renew" else {}
    with pytest.raises(LostLease, match="a run of the application did its work meanwhile"):
        getattr(lifecycle, move)(letter, **IN_TIME, **given)


def test_a_requeue_in_flight_ended_without_a_run_of_its_own() -> None:
    letter = requeue(captured(max_retries=0), now=NOON, by="ada")
    after = closed(letter)
    assert after.requeue is not None
    assert after.requeue.outcome is RequeueOutcome.ABANDONED


def test_a_bulk_run_counts_it_as_closed() -> None:
    letter = replace(captured(), run_outcomes=("open r1", "failed_again r2"), runs=("r1", "r2"))
    assert closed(letter).run_outcomes == ("closed r1", "failed_again r2")


def test_a_letter_can_be_renewed_and_given_back_while_repos_are_left() -> None:
    letter = closed(replace(STANDINGS["running"], repos=("api", "web")), success(repos=("web",)))
    assert renew(letter, **IN_TIME, until=noon(9)).repos == ("api",)
    assert release(letter, **IN_TIME).repos == ("api",)
