"""Letters and their runs, T1 to T9: captured, claimed, settled, recovered; each with everything it does."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from mahavishnu.model.errors import IllegalMove, InvalidInput, NotDue
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import (
    KEPT_FAILURES,
    DeadLetterStatus,
    Failure,
    Lease,
    Resolution,
    ResolutionStatus,
    RetryPolicy,
    Tallies,
)
from mahavishnu.model.lifecycle import MAX_RECOVERIES, claim, exhaust, fail, new_letter, succeed
from tests.support.letters import IN_TIME, NAIVE, NOON, STANDINGS, TOKEN, captured, claimed, draft, failure, made, noon

PENDING, RETRYING, EXHAUSTED, COMPLETED, ARCHIVED = DeadLetterStatus
due, exhausted, given_up = STANDINGS["due"], STANDINGS["exhausted"], STANDINGS["given_up"]


# ------------------------------------------------------------------------------------------------------ T1, T2: capture


@pytest.mark.parametrize(("policy", "minutes"), [("exponential", 1), ("linear", 5), ("immediate", 0)])
def test_capture_waits_as_the_policy_says(policy: str, minutes: int) -> None:
    """T1: pending, with the delay of no retry yet."""
    letter = new_letter(draft(retry_policy=policy))

    assert letter == replace(draft(retry_policy=policy), status=PENDING, due_at=noon(minutes))
    assert letter.next_retry_at == letter.due_at
    assert letter.is_open


def test_capture_without_budget_is_exhausted_at_once() -> None:
    """T2: no retry allowed is no retry waited for; the case is open all the same."""
    letter = new_letter(draft(max_retries=0))

    assert letter == replace(
        draft(max_retries=0), status=EXHAUSTED, due_at=None, exhausted_at=NOON, tallies=Tallies(exhausted=1)
    )
    assert letter.is_open


@pytest.mark.parametrize("budget", [0, 3])
def test_capture_that_is_never_retried_waits_for_a_person(budget: int) -> None:
    """T1: pending without a date, also without budget."""
    letter = new_letter(draft(retry_policy=RetryPolicy.NEVER, max_retries=budget))

    assert (letter.status, letter.due_at, letter.next_retry_at) == (PENDING, None, None)
    with pytest.raises(NotDue, match="its next run is up to a person"):
        claimed(letter, noon(days=365))
    assert claimed(letter, manual=True).status is RETRYING


def test_capture_obeys_a_server_that_said_when() -> None:
    """`retry_in` (a Retry-After) overrules the policy, but does not make a letter retryable that is not."""
    assert new_letter(draft(), retry_in=timedelta(seconds=90)).due_at == noon(1.5)
    assert new_letter(draft(retry_policy="never"), retry_in=timedelta(seconds=90)).due_at is None
    assert new_letter(draft(max_retries=0), retry_in=timedelta(seconds=90)).due_at is None


def test_capture_counts_time_from_the_capture_not_from_the_failure() -> None:
    """A failure that was reported late is retried a minute after it was reported."""
    assert captured(failed_at=noon(-60)).due_at == noon(1)


def test_capture_keeps_what_a_store_can_keep() -> None:
    """UTC, whole milliseconds, in whatever zone the instants came; `updated_at` starts with the letter."""
    local = datetime(2026, 1, 1, 14, 0, 0, 123456, timezone(timedelta(hours=2)))
    letter = new_letter(draft(failed_at=local, created_at=local, updated_at=noon(-99)))

    assert letter.failed_at == letter.created_at == letter.updated_at == NOON.replace(microsecond=123000)
    assert letter.created_at.tzinfo is UTC
    assert letter.due_at == letter.created_at + timedelta(minutes=1)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"max_retries": -1}, r"max_retries of task 'wf_1' must not be negative, but is -1"),
        ({"retry_count": 4}, "retry_count lies from 0 to max_retries"),
        ({"retry_count": -1, "total_attempts": 0}, "retry_count lies from 0 to max_retries"),
        ({"retry_count": 2}, "total_attempts is at least retry_count"),
        ({"occurrences": 0}, "occurrences and generation count from 1"),
        ({"generation": 0}, "occurrences and generation count from 1"),
        ({"failed_at": NAIVE}, "no time zone"),
        ({"created_at": NAIVE}, "no time zone"),
        ({"lease": Lease("w", "t")}, "a letter has a lease exactly while retrying"),
        ({"resolution": Resolution(ResolutionStatus.CANCELLED)}, "a resolved letter neither waits nor runs"),
    ],
)
def test_capture_refuses_a_broken_letter(fields: dict[str, Any], complaint: str) -> None:
    """Named, before it is stored."""
    with pytest.raises(InvalidInput, match=complaint):
        captured(**fields)


# -------------------------------------------------------------------------------------------------------- T3, T4: claim


def test_claim_by_a_processor() -> None:
    """T3: counted and leased before the run starts; the retry date is remembered, and hidden while it runs."""
    letter = captured()

    taken = claim(letter, owner="worker-1", token=TOKEN, until=noon(8), now=noon(3))

    assert taken == made(
        letter,
        status=RETRYING,
        lease=Lease("worker-1", TOKEN, prior=PENDING, prior_due=noon(1), manual=False, seconds=300),
        due_at=noon(8),
        last_retry_at=noon(3),
        total_attempts=1,
    )
    assert taken.next_retry_at is None


def test_claim_waits_for_the_very_millisecond() -> None:
    """T3: not before `due_at`, and then at once. The refusal says when."""
    letter = captured()
    with pytest.raises(NotDue, match="its next run is 2026-01-01 12:01:00"):
        claimed(letter, noon(1) - timedelta(milliseconds=1))

    assert claimed(letter, noon(1)).status is RETRYING


@pytest.mark.parametrize("standing", ["due", "waiting", "exhausted"])
def test_claim_by_a_person(standing: str) -> None:
    """T4: at any time, also what is exhausted; counted, and the former standing remembered."""
    letter = STANDINGS[standing]

    taken = claim(letter, owner="ada", token=TOKEN, until=noon(8), now=noon(3), manual=True)

    assert taken == made(
        letter,
        status=RETRYING,
        lease=Lease("ada", TOKEN, prior=letter.status, prior_due=letter.due_at, manual=True, seconds=300),
        due_at=noon(8),
        last_retry_at=noon(3),
        total_attempts=1,
        tallies=letter.tallies.plus("manually_retried"),
    )


@pytest.mark.parametrize("manual", [False, True])
def test_nobody_takes_a_running_letter(manual: bool) -> None:
    """Neither a processor nor a person, until the very millisecond at which its lease ends. The refusal says when."""
    running = claimed(captured())  # from noon + 1 for five minutes
    with pytest.raises(IllegalMove, match=r"already being retried: cannot claim it, until 2026-01-01 12:06:00"):
        claimed(running, noon(6) - timedelta(milliseconds=1), manual=manual)

    assert claimed(running, noon(6), manual=manual, token="token-2").lease is not None


# ------------------------------------------------------------------------------------------ T5 to T8: how a run can end


def test_success_closes_the_case() -> None:
    """T5: completed, counted, kept; by whom is known."""
    running = claimed(captured())

    assert succeed(running, **IN_TIME) == made(
        running,
        status=COMPLETED,
        resolution=Resolution(ResolutionStatus.REQUEUED, noon(3), "worker-1"),
        lease=None,
        due_at=None,
        completed_at=noon(3),
        tallies=Tallies(retry_success=1),
    )


def test_success_of_a_manual_retry_closes_an_exhausted_case() -> None:
    """T5 after T4: when it was exhausted stays on record, and how often somebody tried."""
    done = succeed(claimed(exhausted, manual=True), **IN_TIME)

    assert (done.status, done.resolution_status) == (COMPLETED, ResolutionStatus.REQUEUED)
    assert done.exhausted_at == NOON
    assert done.tallies == Tallies(exhausted=1, manually_retried=1, retry_success=1)


def test_failure_with_budget_left_goes_back_to_pending() -> None:
    """T6: one retry used up, the next one later by the policy."""
    running = claimed(captured())
    problem = failure("it again", noon(3), category="network")

    assert fail(running, failure=problem, **IN_TIME) == made(
        running,
        status=PENDING,
        lease=None,
        retry_count=1,
        due_at=noon(3 + 2),
        last_error="it again",
        error_category="network",
        failures=(problem,),
        tallies=Tallies(retry_failed=1),
    )


def test_failure_of_the_last_retry_exhausts() -> None:
    """T7: counted as failed and as exhausted, open, without a date."""
    running = claimed(captured(max_retries=1))
    problem = failure("it again", noon(3))

    assert fail(running, failure=problem, **IN_TIME) == made(
        running,
        status=EXHAUSTED,
        lease=None,
        retry_count=1,
        due_at=None,
        exhausted_at=noon(3),
        last_error="it again",
        failures=(problem,),
        tallies=Tallies(retry_failed=1, exhausted=1),
    )


@pytest.mark.parametrize("standing", ["due", "waiting", "exhausted"])
def test_failure_of_a_manual_retry_goes_back_to_where_it_was(standing: str) -> None:
    """T8: the automatic budget and schedule are untouched; that it failed is counted and told."""
    letter = STANDINGS[standing]
    running = claimed(letter, NOON, manual=True)
    problem = failure("it again", noon(3))

    assert fail(running, failure=problem, retry_in=timedelta(hours=1), **IN_TIME) == made(
        letter,
        last_retry_at=NOON,
        total_attempts=1,
        last_error="it again",
        failures=(problem,),
        tallies=letter.tallies.plus("manually_retried", "retry_failed"),
    )


def test_failure_obeys_a_server_that_said_when() -> None:
    """`retry_in` overrules the policy's delay, not the budget."""
    assert fail(claimed(captured()), failure=failure(), retry_in=timedelta(0), **IN_TIME).due_at == noon(3)
    last = fail(claimed(captured(max_retries=1)), failure=failure(), retry_in=timedelta(0), **IN_TIME)
    assert (last.status, last.due_at) == (EXHAUSTED, None)


def test_failure_without_a_category_keeps_the_former_one() -> None:
    """Nobody has classified it yet."""
    running = claimed(captured(error_category="resource"))

    assert fail(running, failure=failure(), **IN_TIME).error_category == "resource"
    assert fail(running, failure=failure(category="network"), **IN_TIME).error_category == "network"


def test_failure_nobody_can_repair_exhausts_at_once() -> None:
    """`exhaust`: counted like a failed retry, and no further one waits."""
    running = claimed(captured())
    problem = failure("403", noon(3), category="permission")

    assert exhaust(running, failure=problem, **IN_TIME) == made(
        running,
        status=EXHAUSTED,
        lease=None,
        retry_count=1,
        due_at=None,
        exhausted_at=noon(3),
        last_error="403",
        error_category="permission",
        failures=(problem,),
        tallies=Tallies(retry_failed=1, exhausted=1),
    )


def test_a_manual_retry_that_exhausts_costs_no_budget() -> None:
    """T8 holds for every way in which a manual retry can fail."""
    by_hand = claimed(captured(), manual=True)

    assert exhaust(by_hand, failure=failure(), **IN_TIME).retry_count == 0


def test_a_manual_retry_cannot_exhaust_what_is_exhausted() -> None:
    """T8: it stays as it was, so R140 still knows since when, and it is counted as exhausted once."""
    failed = exhaust(claimed(exhausted, manual=True), failure=failure(), **IN_TIME)

    assert (failed.exhausted_at, failed.tallies.exhausted) == (NOON, 1)


def test_the_documented_timeline() -> None:
    """R084: three retries run at +1, then +2, then +4 minutes, then a person has to look."""
    letter, now, waits = captured(max_retries=3), NOON, []
    while letter.due_at is not None:
        waits.append((letter.due_at - now) / timedelta(minutes=1))
        now = letter.due_at
        letter = fail(claimed(letter, now), token=TOKEN, failure=failure(), now=now)

    assert waits == [1, 2, 4]
    assert (letter.status, letter.retry_count, letter.total_attempts) == (EXHAUSTED, 3, 3)
    assert letter.tallies == Tallies(retry_failed=3, exhausted=1)
    assert letter.exhausted_at == now


def test_manual_retries_do_not_disturb_the_timeline() -> None:
    """T8 in the middle of T6: the same dates and the same budget as without them."""
    letter, now, waits = captured(max_retries=3), NOON, []
    while letter.due_at is not None:
        by_hand = claimed(letter, now, manual=True)
        letter = fail(by_hand, token=TOKEN, failure=failure(), now=now)
        assert letter.due_at is not None
        waits.append((letter.due_at - now) / timedelta(minutes=1))
        now = letter.due_at
        letter = fail(claimed(letter, now), token=TOKEN, failure=failure(), now=now)

    assert waits == [1, 2, 4]
    assert (letter.status, letter.retry_count, letter.total_attempts) == (EXHAUSTED, 3, 6)
    assert letter.tallies == Tallies(retry_failed=6, exhausted=1, manually_retried=3)


def test_failures_keep_the_first_and_the_latest() -> None:
    """How it began and how it stands, never more than the limit."""
    letter = captured(max_retries=20, retry_policy="immediate", failures=(failure("first"),))
    for number in range(20):
        running = claimed(letter, letter.due_at)
        letter = fail(running, token=TOKEN, failure=failure(f"retry {number}"), now=NOON, retry_in=timedelta(0))
        assert len(letter.failures) <= KEPT_FAILURES

    assert [each.message for each in letter.failures] == ["first", "retry 16", "retry 17", "retry 18", "retry 19"]
    assert letter.last_error == "retry 19"


# ----------------------------------------------------------------------------------------------- T9: a worker that died


def crash(letter: DeadLetter, times: int, **hand: Any) -> DeadLetter:
    """A letter whose every run, so many times, kills its process: still leased by the last one."""
    for number in range(times):
        letter = claimed(letter, letter.due_at or NOON, token=f"crash-{number}", **hand)
    return letter


def test_a_lease_that_ran_out_lets_the_next_one_in() -> None:
    """T9: counted as recovered, not as failed; the new run counts, and the old token is worth nothing."""
    running = claimed(captured())

    taken = claim(running, owner="worker-2", token="token-2", until=noon(20), now=noon(9))

    assert taken == replace(
        running,
        updated_at=taken.updated_at,
        lease=Lease("worker-2", "token-2", prior=PENDING, prior_due=noon(1), seconds=660),
        due_at=noon(20),
        last_retry_at=noon(9),
        total_attempts=2,
        recoveries=1,
        tallies=Tallies(claims_recovered=1),
    )


def test_the_third_crash_in_a_row_is_a_failed_run() -> None:
    """T9: nothing to take now, so the result has no lease; the reason and the suspect are told."""
    killer = crash(captured(), MAX_RECOVERIES)
    assert (killer.recoveries, killer.retry_count, killer.total_attempts) == (2, 0, 3)
    assert killer.due_at is not None

    given = claim(killer, owner="worker-2", token="token-2", until=noon(99), now=killer.due_at)

    assert (given.status, given.lease, given.recoveries) == (PENDING, None, 0)
    assert (given.retry_count, given.total_attempts) == (1, 3)
    assert given.due_at == killer.due_at + timedelta(minutes=2)  # the policy's second delay, from now on
    assert given.tallies == Tallies(claims_recovered=3, retry_failed=1)
    assert given.failures[-1] == Failure(
        at=killer.due_at, message=given.last_error, type="LeaseRanOut", processor="worker-1"
    )
    assert "ran out 3 times in a row (last owner: worker-1)" in given.last_error
    assert given.updated_at > killer.updated_at


def test_a_job_that_kills_its_process_is_exhausted_in_the_end() -> None:
    """R406: three crashes for each retry of the budget, and no more."""
    letter, crashes = captured(max_retries=3), 0
    while letter.due_at is not None:
        letter = claimed(letter, letter.due_at)
        crashes += letter.lease is not None

    assert (letter.status, crashes) == (EXHAUSTED, 9)
    assert (letter.retry_count, letter.total_attempts) == (3, 9)
    assert letter.tallies == Tallies(claims_recovered=9, retry_failed=3, exhausted=1)


def test_a_run_that_failed_by_itself_ends_the_row_of_crashes() -> None:
    """T9 counts crashes in a row: any outcome starts it anew."""
    crashed = crash(captured(), 3)
    assert crashed.recoveries == 2

    for outcome in (fail, exhaust):
        assert outcome(crashed, token="crash-2", failure=failure(), now=noon(20)).recoveries == 0
    assert succeed(crashed, token="crash-2", now=noon(20)).recoveries == 0


@pytest.mark.parametrize("standing", ["due", "exhausted"])
def test_a_crashed_manual_retry_goes_back_to_where_it_was(standing: str) -> None:
    """T9 of T4: not to pending what was exhausted. What is due again is taken at once, the rest is only written."""
    letter = STANDINGS[standing]
    crashed = claimed(letter, NOON, manual=True)

    given = claim(crashed, owner="worker-2", token="token-2", until=noon(20), now=noon(9))

    assert (given.lease is not None) == (standing == "due")
    if given.lease is not None:
        assert given.lease == Lease("worker-2", "token-2", prior=PENDING, prior_due=NOON, seconds=660)
    else:
        assert (given.status, given.due_at, given.total_attempts) == (EXHAUSTED, None, 1)
    assert given.tallies == letter.tallies.plus("manually_retried", "claims_recovered")


def test_the_third_crash_of_manual_retries_costs_no_budget() -> None:
    """T9 with T8: told and counted, and the letter is where it was."""
    killer = crash(captured(retry_policy="linear"), 3, manual=True)
    assert killer.due_at is not None

    given = claim(killer, owner="w", token="t", until=noon(99), now=killer.due_at)

    assert given.lease is not None  # its retry date has passed meanwhile
    assert (given.retry_count, given.recoveries) == (0, 0)
    assert given.tallies == Tallies(manually_retried=3, claims_recovered=3, retry_failed=1)
    assert given.last_error.startswith("the run's lease ran out 3 times")


def test_a_person_may_take_what_crashed_the_third_time() -> None:
    """T4 over T9: the failed run is booked, then the person's run begins."""
    killer = crash(captured(max_retries=1), 3)

    taken = claimed(killer, noon(99), manual=True, token="token-2")

    assert taken.lease == Lease("worker-1", "token-2", prior=EXHAUSTED, prior_due=None, manual=True, seconds=300)
    assert taken.tallies == Tallies(claims_recovered=3, retry_failed=1, exhausted=1, manually_retried=1)
