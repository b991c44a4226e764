"""Who may settle a run: the lease's own moves, and the token they demand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from mahavishnu.model.errors import LostLease
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.lifecycle import exhaust, fail, merge, release, renew, succeed, violations
from tests.support.letters import IN_TIME, NOON, STANDINGS, TOKEN, captured, claimed, failure, made, noon

due, exhausted, given_up = STANDINGS["due"], STANDINGS["exhausted"], STANDINGS["given_up"]


def test_renew_moves_the_end_of_the_lease_and_nothing_else() -> None:
    """The run goes on."""
    running = claimed(captured())

    renewed = renew(running, until=noon(11), **IN_TIME)
    assert running.lease is not None
    seconds = (noon(11) - IN_TIME["now"]).total_seconds()
    assert renewed == made(running, due_at=noon(11), lease=replace(running.lease, seconds=seconds))


@pytest.mark.parametrize("policy", ["exponential", "never"])
def test_release_is_as_if_it_had_not_been_taken(policy: str) -> None:
    """The attempt is refunded, the retry date is back, the budget untouched, by hand or not."""
    letter = captured(retry_policy=policy)
    running = claimed(letter, noon(1), manual=policy == "never")

    assert release(running, **IN_TIME) == made(letter, last_retry_at=noon(1))


def test_release_can_put_it_off() -> None:
    """An open breaker says when to come again."""
    letter = captured()

    released = release(claimed(letter), due_at=noon(4), **IN_TIME)

    assert released == made(letter, due_at=noon(4), last_retry_at=noon(1))


def test_release_of_an_exhausted_letter_leaves_it_exhausted_and_refunds_the_count() -> None:
    """A person's retry that did not run was no retry; nothing schedules an exhausted letter."""
    released = release(claimed(exhausted, manual=True), due_at=noon(4), **IN_TIME)

    assert released == made(exhausted, last_retry_at=NOON)


def test_release_of_a_manual_retry_does_not_schedule_what_was_not_scheduled() -> None:
    """R080: a letter with policy `never` is not picked up by itself, whatever a breaker said to a person's retry."""
    by_hand = claimed(captured(retry_policy="never"), manual=True)

    assert release(by_hand, due_at=noon(4), **IN_TIME).due_at is None


def test_release_only_puts_off() -> None:
    """A person's retry that did not run does not bring the automatic one nearer."""
    by_hand = claimed(captured(retry_policy="linear"), NOON, manual=True)

    assert release(by_hand, due_at=noon(4), **IN_TIME).due_at == noon(5)


LEASED: dict[str, Callable[[DeadLetter, str], DeadLetter]] = {
    "renew": lambda letter, token: renew(letter, token=token, until=noon(20), now=noon(3)),
    "release": lambda letter, token: release(letter, token=token, now=noon(3)),
    "succeed": lambda letter, token: succeed(letter, token=token, now=noon(3)),
    "fail": lambda letter, token: fail(letter, token=token, failure=failure(), now=noon(3)),
    "exhaust": lambda letter, token: exhaust(letter, token=token, failure=failure(), now=noon(3)),
}


@pytest.mark.parametrize("move", LEASED)
def test_only_the_owner_may_say_how_a_run_went(move: str) -> None:
    """A wrong token, a lease that somebody else took over, one that was settled, and none at all: each is refused."""
    running = claimed(captured())
    taken_over = claimed(running, noon(6), token="token-2")
    again = claimed(release(running, **IN_TIME), noon(3), token="token-2")  # the same letter, a second run

    for letter, token, holder in [
        (running, "token-2", "worker-1 holds it now"),
        (running, "", "worker-1 holds it now"),
        (taken_over, TOKEN, "worker-1 holds it now"),
        (again, TOKEN, "worker-1 holds it now"),
        (succeed(running, **IN_TIME), TOKEN, "nobody holds it now"),
        (captured(), TOKEN, "nobody holds it now"),
        (captured(), "", "nobody holds it now"),
    ]:
        with pytest.raises(LostLease, match=f"this run no longer owns it: {holder}"):
            LEASED[move](letter, token)
    assert violations(LEASED[move](running, TOKEN)) == []
    assert violations(LEASED[move](taken_over, "token-2")) == []


@pytest.mark.parametrize("move", LEASED)
def test_a_lease_that_ran_out_and_was_not_taken_over_is_still_owned(move: str) -> None:
    """The token decides, not the clock: work that was done is not thrown away because a clock is ahead."""
    overdue = claimed(captured(), minutes=1)  # until noon + 2, and it is noon + 3

    assert violations(LEASED[move](overdue, TOKEN)) == []


@pytest.mark.parametrize("move", LEASED)
def test_a_merge_in_the_middle_of_a_run_does_not_take_the_lease(move: str) -> None:
    """The version moves, the ownership stays."""
    merged = merge(claimed(captured()), failure(), noon(2))

    assert violations(LEASED[move](merged, TOKEN)) == []
