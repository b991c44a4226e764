"""A deleted letter is a tombstone: it keeps its numbers, drops what it knew, and gives way to anything newer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahavishnu.model import lifecycle, tombstones
from mahavishnu.model.errors import AlreadyResolved, LostLease
from mahavishnu.model.json_value import EMPTY, Json
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import RecordedVerdict, ResolutionStatus, Source, SourceKind
from mahavishnu.model.lifecycle import MAX_ABSORBED, TABLE, violations
from mahavishnu.model.reconcile import Reconciliation, reconcile_letters, visible_letter
from tests.model.test_lifecycle import MOVES
from tests.model.test_reconcile import histories, letter
from tests.support.letters import NOON, STANDINGS, captured, claimed, noon

NOW = noon(2)
KEPT = {
    "task_id", "namespace", "queue", "entry_id", "absorbed", "merged", "failed_at", "created_at", "updated_at",
    "status", "resolution", "generation", "revision", "tallies", "version",
}  # fmt: skip


def deleted(start: DeadLetter) -> DeadLetter:
    return tombstones.delete(start, now=NOW, by="ada")


# -------------------------------------------------------------------------------------------------------- the tombstone


@given(start=histories("one"))
def test_it_keeps_the_numbers_and_nothing_that_anybody_wrote(start: DeadLetter) -> None:
    start = replace(
        start,
        version=(9,),
        revision=3,
        payload=Json.of({"card": "4111"}),
        labels=Json.of({"team": "billing"}),
        source=Source(SourceKind.WORKFLOW, "sweep", "1"),
        verdict=RecordedVerdict("because", "somebody"),
        depends_on=("other",),
        fingerprint="v1:a",
        error_category="network",
        runs=("r",),
        run_outcomes=("open r",),
        settled="succeeded t",
    )
    left = deleted(start)
    blank = DeadLetter(
        task_id="", entry_id="", error="", last_error="", failed_at=NOON, created_at=NOON, updated_at=NOON
    )
    for each in fields(DeadLetter):
        if each.name not in KEPT:
            assert getattr(left, each.name) == getattr(blank, each.name), each.name
    unchanged = KEPT - {"status", "resolution", "tallies"}
    assert {name: getattr(left, name) for name in unchanged} == {name: getattr(start, name) for name in unchanged}
    assert (left.key, left.payload, left.error, left.due_at) == (start.key, EMPTY, "", None)
    assert (left.resolution.status, left.resolution.at, left.resolution.by) == (ResolutionStatus.DELETED, NOW, "ada")
    assert left.tallies == (start.tallies.plus("cleared") if start.is_open else start.tallies)
    assert violations(left) == []
    assert left.is_deleted and not left.is_open and not start.is_deleted


@pytest.mark.parametrize("move", MOVES)
def test_nothing_can_be_done_with_it(move: str) -> None:
    for standing in STANDINGS.values():
        with pytest.raises((AlreadyResolved, LostLease), match=r"nobody holds it now|archived, deleted"):
            MOVES[move](deleted(standing))


def test_every_status_can_be_deleted() -> None:
    assert all(lifecycle.Move.DELETE in moves for moves in TABLE.values())


# ------------------------------------------------------------------------------------------- what comes after it


@given(start=histories("one"), fresh=histories("two"))
def test_what_it_does_not_know_is_the_next_generation(start: DeadLetter, fresh: DeadLetter) -> None:
    left = replace(deleted(start), version=(9,))
    fresh = lifecycle.recover(fresh, now=noon(999))
    outcome = reconcile_letters(left, fresh, noon(999))
    assert outcome.former is None and outcome.live is not None
    live = outcome.live
    assert (live.entry_id, live.previous_entry_id, live.version) == ("two", None, (9,))
    assert live.generation == left.generation + fresh.generation
    assert live.tallies == left.tallies.combine(fresh.tallies)
    assert live.knows("one") and live.updated_at > left.updated_at
    assert violations(live) == []
    assert reconcile_letters(live, fresh, noon(999)) == Reconciliation(), "doing it twice is doing it once"


@given(one=histories("one"), other=histories("one"))
def test_it_drops_the_states_that_it_knew_and_no_other(one: DeadLetter, other: DeadLetter) -> None:
    """A later state of the same letter was acknowledged where nobody could see that it was being deleted."""
    outcome = reconcile_letters(deleted(one), other, noon(999))
    if other.updated_at > one.updated_at and other.updated_at > other.created_at:
        assert outcome.live is not None and (outcome.live.entry_id, outcome.live.is_open) == ("one", other.is_open)
        assert "one" not in outcome.live.absorbed
        assert violations(outcome.live) == []
        assert visible_letter(deleted(one), other, False) is other
    else:
        assert outcome == Reconciliation()
        assert visible_letter(deleted(one), other, False).is_deleted


def test_one_that_never_changed_is_dropped_whatever_the_clocks_say() -> None:
    """It waited for room, was deleted there, and the tombstone of an older letter has taken in its numbers."""
    waited = letter("waited", 5)
    left = reconcile_letters(deleted(letter("old")), deleted(waited), NOW).live
    assert left is not None and left.is_deleted and left.updated_at < waited.updated_at
    assert reconcile_letters(left, waited, NOW) == Reconciliation()


def test_with_even_deleted_what_it_knew_is_the_next_generation_too() -> None:
    one = letter("one")
    live = reconcile_letters(deleted(one), one, NOW, even_deleted=True).live
    assert live is not None
    assert (live.entry_id, live.generation, live.absorbed, live.is_open) == ("one", 2, (), True)
    assert violations(live) == []


def test_one_that_is_being_run_is_waited_for() -> None:
    assert reconcile_letters(deleted(letter("one")), claimed(letter("two")), NOW) == Reconciliation(wait=True)


def test_one_whose_numbers_are_being_taken_over_is_waited_for() -> None:
    folded = replace(deleted(letter("one")), generation=0)
    newer = replace(letter("one"), updated_at=noon(7))
    assert reconcile_letters(folded, letter("two"), NOW) == Reconciliation(wait=True)
    assert reconcile_letters(folded, newer, NOW) == Reconciliation(wait=True)
    assert reconcile_letters(folded, letter("one"), NOW) == Reconciliation(), "that one is known all the same"


# ------------------------------------------------------------------------------------------- one that comes home itself


@given(theirs=histories("theirs"), ours=histories("ours"))
def test_another_letter_lives_on_with_its_numbers(theirs: DeadLetter, ours: DeadLetter) -> None:
    """Better to have a letter too many than one too few."""
    theirs = replace(theirs, version=(9,))
    for there in (theirs, deleted(theirs)):
        live = reconcile_letters(there, deleted(ours), NOW).live
        assert live is not None
        assert (live.entry_id, live.status, live.lease, live.version) == ("theirs", there.status, there.lease, (9,))
        assert live.is_deleted is there.is_deleted
        assert live.generation == theirs.generation + ours.generation
        assert live.tallies == there.tallies.combine(deleted(ours).tallies)
        assert live.knows("ours") and violations(live) == []
        assert (live.updated_at == there.updated_at) is there.is_deleted, "it says what was deleted of its own letter"
        assert reconcile_letters(live, deleted(ours), NOW) == Reconciliation()


def test_it_replaces_what_it_had_absorbed() -> None:
    old = replace(lifecycle.resolve(letter("old"), now=noon(1), by="ada"), version=(9,))
    ours = deleted(lifecycle.next_generation(old, letter("ours", 3))[1])
    assert reconcile_letters(old, replace(ours, version=None), NOW) == Reconciliation(ours)
    later = replace(old, updated_at=noon(4))
    live = reconcile_letters(later, ours, NOW).live
    assert live is not None and live.entry_id == "old", "it has changed since, elsewhere"


def test_the_same_letter_lives_on_where_it_was_not_deleted() -> None:
    one = letter("one")
    assert reconcile_letters(one, deleted(one), NOW) == Reconciliation()
    assert reconcile_letters(deleted(one), deleted(one), NOW) == Reconciliation()


def test_it_is_not_shown_in_place_of_another() -> None:
    left, other = deleted(letter("one")), letter("two")
    assert visible_letter(left, other, False) is other
    assert visible_letter(other, left, False) is other


MOVING: list[Callable[[DeadLetter], DeadLetter]] = [
    deleted,
    lambda start: lifecycle.next_generation(start, letter(f"after {start.generation}", start.generation))[1],
]


@given(st.integers(1, 2 * MAX_ABSORBED))
def test_a_task_that_is_deleted_again_and_again_stays_in_balance(times: int) -> None:
    last = letter("one")
    for _ in range(times):
        for move in MOVING:
            last = move(last)
    assert (last.generation, last.tallies.cleared, len(last.absorbed)) == (times + 1, times, min(times, MAX_ABSORBED))
    assert violations(last) == []
    assert last.updated_at >= noon(0) + timedelta(milliseconds=times)
    assert captured().tallies.cleared == 0
