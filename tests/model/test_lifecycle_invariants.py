"""What holds for every letter and every move: generations, instants, and the invariants that `violations` names."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from docs.draw_lifecycle import find_function
from mahavishnu.model.errors import IllegalMove, InvalidInput
from mahavishnu.model.letter import DeadLetter, FormerLetter
from mahavishnu.model.letter_parts import DeadLetterStatus, Lease, Tallies
from mahavishnu.model.lifecycle import (
    Move,
    archive,
    cancel,
    claim,
    edit,
    exhaust,
    fail,
    merge,
    next_generation,
    redrive,
    release,
    renew,
    requeue,
    resolve,
    succeed,
    violations,
)
from tests.support.letters import BY, IN_TIME, NAIVE, NOON, STANDINGS, TOKEN, captured, claimed, failure, noon

PENDING, RETRYING, EXHAUSTED, COMPLETED, ARCHIVED = DeadLetterStatus
due, exhausted, given_up = STANDINGS["due"], STANDINGS["exhausted"], STANDINGS["given_up"]
OPENED_AND_CLOSED = "a letter is closed once for each time it was opened"
CLOSINGS = (
    "retry_success",
    "requeued",
    "permanently_failed",
    "manually_resolved",
    "cancelled",
    "archived",
    "cleared",
    "moved",
)


def sent_back(letter: DeadLetter) -> DeadLetter:
    """`letter` requeued once, and no longer wanted before a run had ended."""
    return cancel(requeue(letter, **BY), **BY)


# ---------------------------------------------------------------------------------------------------------- generations


def test_a_closed_task_that_fails_again_starts_the_next_generation() -> None:
    """R040: the former goes to history as it was, the next one takes its place by CAS and carries lineage and sums."""
    former = replace(sent_back(captured()), version=(7,))
    fresh = captured(entry_id="entry-2", error="new trouble", max_retries=0)

    history, successor = next_generation(former, fresh)

    assert history == FormerLetter.of(former)
    assert (history.key, history.version, history.status) == ("entry-1", None, ARCHIVED)
    assert successor == replace(
        fresh,
        generation=2,
        previous_entry_id="entry-1",
        absorbed=("entry-1",),
        dlq_retry_count=1,
        requeue=former.requeue,
        tallies=Tallies(requeued=1, reopened=1, cancelled=1, exhausted=1),
        updated_at=former.updated_at + timedelta(milliseconds=1),
    )
    assert successor.version == (7,)
    third = next_generation(sent_back(successor), captured(entry_id="entry-3"))[1]
    assert (third.generation, third.previous_entry_id, third.dlq_retry_count) == (3, "entry-2", 2)
    assert third.tallies == Tallies(requeued=2, reopened=2, cancelled=2, exhausted=1)
    assert violations(successor) == violations(third) == []


def test_what_has_a_past_of_its_own_brings_it_along() -> None:
    """What was written elsewhere may have several generations already: both lines are counted."""
    former = sent_back(redrive(given_up, now=NOON))
    before = sent_back(captured(entry_id="entry-2", max_retries=0))
    fresh = next_generation(before, captured(entry_id="entry-3"))[1]

    successor = next_generation(former, fresh)[1]

    assert (successor.generation, successor.previous_entry_id, successor.dlq_retry_count) == (3, "entry-1", 2)
    assert successor.tallies == Tallies(requeued=2, permanently_failed=1, cancelled=2, reopened=3, exhausted=2)
    assert violations(successor) == []


@pytest.mark.parametrize("other", [{"task_id": "wf_2"}, {"namespace": "else"}, {"queue": "else"}], ids=str)
def test_a_letter_of_another_key_is_no_next_generation(other: dict[str, str]) -> None:
    """Nobody's past is put under somebody else's name."""
    former = sent_back(captured())
    fresh = captured(entry_id="entry-2", **other)

    with pytest.raises(InvalidInput, match=f"letter '{fresh.key}' cannot be the next generation of 'wf_1'"):
        next_generation(former, fresh)


@pytest.mark.parametrize("standing", ["waiting", "running", "exhausted"])
def test_an_open_letter_is_not_succeeded(standing: str) -> None:
    """Its failure is merged into it: at most one open letter of a task."""
    with pytest.raises(IllegalMove, match="merge the failure into it"):
        next_generation(STANDINGS[standing], captured(entry_id="entry-2"))


def test_a_generation_is_not_older_than_the_one_before_it() -> None:
    """R178: the document under the key moves on, also if the clock of the one who captured it is behind."""
    former = resolve(captured(), now=noon(10), by="ada")
    fresh = captured(entry_id="entry-2")

    _, behind = next_generation(former, fresh)
    _, ahead = next_generation(former, replace(fresh, updated_at=noon(20)))

    assert behind.updated_at == noon(10) + timedelta(milliseconds=1)
    assert ahead.updated_at == noon(20)


def test_moves_cut_instants_to_what_a_store_can_keep() -> None:
    """Whole milliseconds, UTC, so that what comes back from a store is equal."""
    odd = datetime(2026, 1, 1, 15, 0, 0, 123456, timezone(timedelta(hours=3)))
    cut = NOON.replace(microsecond=123000)
    running = claim(due, owner="w", token=TOKEN, until=odd, now=odd)

    assert (running.due_at, running.last_retry_at, running.updated_at) == (cut, cut, cut)
    assert renew(running, token=TOKEN, until=odd, now=odd).due_at == cut
    assert release(running, token=TOKEN, due_at=odd, now=odd).due_at == cut
    assert fail(running, token=TOKEN, failure=failure(), now=odd).due_at == cut
    assert exhaust(running, token=TOKEN, failure=failure(), now=odd).exhausted_at == cut
    assert succeed(running, token=TOKEN, now=odd).completed_at == cut
    assert redrive(due, now=odd).due_at == edit(due, now=odd, due_at=odd).due_at == cut
    assert archive(due, now=odd, by="ada").archived_at == cut


@pytest.mark.parametrize("zone", [None, timezone(timedelta(hours=3))], ids=["naive", "+03:00"])
def test_the_instant_of_a_failure_is_one_that_a_store_can_keep(zone: timezone | None) -> None:
    """As any other: cut to UTC milliseconds, or refused."""
    odd = datetime(2026, 1, 1, 15, 0, 0, 123456, zone)
    try:
        merged = merge(captured(), failure(at=odd), NOON)
    except InvalidInput:
        return
    assert merged.failures[-1].at == NOON.replace(microsecond=123000)
    assert merged.failures[-1].at.tzinfo is UTC


def test_an_absurd_retry_after_does_not_stop_the_outcome_from_being_written() -> None:
    """A server may say anything; the run must be settled all the same."""
    assert fail(claimed(captured()), failure=failure(), retry_in=timedelta.max, **IN_TIME).status is PENDING


@pytest.mark.parametrize("name", [{"task_id": ""}, {"namespace": "a/b"}, {"queue": ""}], ids=str)
def test_capture_refuses_a_letter_that_no_store_could_name(name: dict[str, str]) -> None:
    """At the boundary, not in the store."""
    with pytest.raises(InvalidInput):
        captured(**name)


# ------------------------------------------------------------------------------------------------------------- promises


@pytest.mark.parametrize(
    ("letter", "promise"),
    [
        (replace(captured(), status=COMPLETED), "a completed or archived letter must be resolved"),  # I1
        (replace(captured(), status=ARCHIVED, due_at=None), "a completed or archived letter must be resolved"),  # I1
        (replace(given_up, status=PENDING), "a resolved letter neither waits nor runs"),
        (replace(exhausted, due_at=NOON), "only a pending or retrying letter has a due date"),  # I2
        (replace(claimed(due), lease=None), "a letter has a lease exactly while retrying"),  # I3
        (replace(due, lease=Lease("w", "t")), "a letter has a lease exactly while retrying"),  # I3
        (replace(claimed(due), due_at=None), "a retrying letter's lease must end"),
        (replace(captured(), retry_count=4, total_attempts=4), "retry_count lies from 0 to max_retries"),  # I4
        (replace(captured(), retry_count=1), "total_attempts is at least retry_count"),  # I6
        (replace(captured(), occurrences=0), "occurrences and generation count from 1"),
        (replace(captured(), generation=0), "occurrences and generation count from 1"),
        (replace(captured(), generation=2), OPENED_AND_CLOSED),  # the former one was never closed
        (replace(captured(), tallies=Tallies(requeued=1)), OPENED_AND_CLOSED),  # closed, and it is open
        (replace(captured(), tallies=Tallies(reopened=1)), OPENED_AND_CLOSED),  # reopened without having been closed
        (replace(given_up, tallies=Tallies()), OPENED_AND_CLOSED),  # closed by nothing
        (replace(given_up, tallies=given_up.tallies.plus("cancelled")), OPENED_AND_CLOSED),  # and closed twice
        (replace(captured(), due_at=NAIVE), "instants are aware"),  # I7
        (replace(captured(), last_retry_at=NAIVE), "instants are aware"),  # I7
    ],
)
def test_violations_name_the_promise(letter: DeadLetter, promise: str) -> None:
    """In words, so that a doctor's report can be read."""
    assert promise in violations(letter)


@pytest.mark.parametrize("tally", [each.name for each in fields(Tallies)])
def test_a_case_is_closed_by_exactly_these(tally: str) -> None:
    """The other tallies count what happens to an open case, or opens it again."""
    once = Tallies().plus(tally)

    assert once.closings == (tally in CLOSINGS)
    kept = violations(replace(captured(), generation=2, tallies=once)) == []
    assert kept == (tally in CLOSINGS), "the former generation was closed by it, and this one is open"


@pytest.mark.parametrize("moment", ["exhausted_at", "completed_at", "archived_at"])
def test_violations_look_at_every_instant(moment: str) -> None:
    """I7 has no exception."""
    naive: Any = {moment: NAIVE}

    assert "instants are aware" in violations(replace(given_up, **naive))


@pytest.mark.parametrize("standing", STANDINGS)
def test_every_standing_is_sound(standing: str) -> None:
    """What moves make has no violations."""
    assert violations(STANDINGS[standing]) == []


def test_every_move_is_one_function_with_a_sentence_about_it() -> None:
    """`docs/lifecycle.md` is drawn from them."""
    for move in Move:
        assert find_function(move).__doc__
