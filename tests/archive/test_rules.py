"""Which letters leave, when, and where to; and what the tombstone of an archived letter says."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mahavishnu.archive.rules import (
    is_archived,
    keeps_restored,
    leaving_queries,
    may_hold,
    may_leave,
    month_of,
    partition_name,
)
from mahavishnu.model.errors import AlreadyResolved, IllegalMove, InvalidInput
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import ResolutionStatus
from mahavishnu.model.lifecycle import cancel, resolve
from mahavishnu.model.rules import RetentionRules
from mahavishnu.model.tombstones import delete, retire
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.memory import matching
from tests.support.letters import BY, NOON, STANDINGS, captured

RULES = RetentionRules(completed_days=30, cancelled_days=7)
DAY = timedelta(days=1)
EVERY: dict[str, DeadLetter] = {
    **STANDINGS,
    "resolved": resolve(captured(), **BY),
    "cancelled": cancel(captured(), **BY),
}
# After how many days each leaves.
LEAVES = {"completed": 30, "resolved": 30, "cancelled": 7, "archived": 7}


@pytest.mark.parametrize("standing", EVERY)
def test_a_letter_leaves_when_its_time_is_over(standing: str) -> None:
    letter, days = EVERY[standing], LEAVES.get(standing)
    end = letter.resolution.at or NOON
    if days is None:
        assert not may_leave(letter, RULES, end + 1000 * DAY)
        return
    assert not may_leave(letter, RULES, end + days * DAY)
    assert may_leave(letter, RULES, end + days * DAY + timedelta(milliseconds=1))
    assert not may_leave(letter, RetentionRules(completed_days=None), end + 1000 * DAY)


@pytest.mark.parametrize("days", [0, 6, 8, 29, 31, 1000])
def test_the_queries_find_what_may_leave_and_nothing_else(days: int) -> None:
    now = NOON + days * DAY + timedelta(minutes=10)
    rules = replace(RULES, permanently_failed_days=1000)
    for letter in EVERY.values():
        queries = leaving_queries(rules, now, 10)
        found = [each for query in queries for each in matching(LETTERS, query.where, [letter])]
        assert found == [letter] * may_leave(letter, rules, now)


def test_letters_of_a_held_group_stay() -> None:
    letter = replace(EVERY["completed"], fingerprint="abc")
    assert may_leave(letter, RULES, NOON + 31 * DAY)
    assert not may_leave(letter, RULES, NOON + 31 * DAY, {"abc"})


@pytest.mark.parametrize("resolution", ResolutionStatus)
def test_pending_and_deleted_ones_are_kept_whatever_the_rules(resolution: ResolutionStatus) -> None:
    never = resolution in (ResolutionStatus.PENDING, ResolutionStatus.DELETED)
    assert (
        RetentionRules(completed_days=0, cancelled_days=0, permanently_failed_days=0).days(resolution) is None
    ) == never


@pytest.mark.parametrize("days", [-1, True, 1.5, "30"])
def test_days_are_whole_numbers_from_0(days: Any) -> None:
    with pytest.raises(InvalidInput, match="completed_days must be a whole number from 0"):
        RetentionRules(completed_days=days)


def test_what_was_taken_out_lately_is_not_archived_again() -> None:
    letter = EVERY["completed"]
    assert not keeps_restored(None, letter, RULES, NOON)
    assert keeps_restored(NOON, letter, RULES, NOON + 30 * DAY)
    assert not keeps_restored(NOON, letter, RULES, NOON + 30 * DAY + timedelta(milliseconds=1))


def test_the_month_is_that_of_the_end_in_utc() -> None:
    assert month_of(datetime(2026, 1, 31, 23, 59, 59, 900_000, tzinfo=UTC)) == "2026_01"
    assert month_of(datetime(2028, 2, 29, tzinfo=UTC)) == "2028_02"
    assert month_of(datetime(985, 2, 1, tzinfo=UTC)) == "0985_02"  # months are compared as texts
    assert [partition_name("2026_01", number) for number in (1, 2)] == ["2026_01", "2026_01_2"]


@pytest.mark.parametrize(
    ("since", "until", "held"),
    [
        (None, None, True),
        (NOON, None, True),
        (None, NOON, True),
        (NOON + 31 * DAY, None, False),
        (None, NOON - 1 * DAY, False),
        (NOON - 1 * DAY, NOON + 31 * DAY, True),
    ],
)
def test_a_month_is_read_if_it_can_have_letters_of_that_time(
    since: datetime | None, until: datetime | None, held: bool
) -> None:
    assert may_hold("2026_01", since, until) is held


class TestRetire:
    retired = retire(EVERY["resolved"], now=NOON + 40 * DAY, by="retention", partition="2026_01", former="entry-0")

    def test_what_is_left_is_a_tombstone_with_its_numbers(self) -> None:
        tombstone, letter = self.retired, EVERY["resolved"]
        assert tombstone.is_deleted
        assert (tombstone.tallies, tombstone.generation) == (letter.tallies, letter.generation)
        assert tombstone.tallies.cleared == 0
        assert tombstone.updated_at == letter.updated_at

    def test_it_is_dated_by_the_end_of_the_case(self) -> None:
        """What comes home later is older than that: it need not be remembered for long."""
        assert self.retired.resolution.at == EVERY["resolved"].resolution.at
        assert self.retired.archived_at == NOON + 40 * DAY
        assert (self.retired.resolution.notes, self.retired.previous_entry_id) == ("2026_01", "entry-0")

    @pytest.mark.parametrize("standing", ["due", "waiting", "running", "crashed", "exhausted"])
    def test_an_open_letter_is_refused(self, standing: str) -> None:
        with pytest.raises(IllegalMove):
            retire(EVERY[standing], now=NOON, by="retention", partition="2026_01")

    def test_a_tombstone_is_refused(self) -> None:
        with pytest.raises(AlreadyResolved):
            retire(self.retired, now=NOON, by="retention", partition="2026_01")


def test_a_copy_counts_when_its_letter_has_left() -> None:
    letter = EVERY["resolved"]
    tombstone = TestRetire.retired
    assert is_archived(letter.entry_id, tombstone, in_history=False)
    assert is_archived(letter.entry_id, None, in_history=False)
    assert is_archived(letter.entry_id, replace(letter, entry_id="next"), in_history=False)
    assert not is_archived(letter.entry_id, letter, in_history=False)
    assert not is_archived(letter.entry_id, delete(letter, **BY), in_history=False)
    assert not is_archived(letter.entry_id, replace(letter, entry_id="next"), in_history=True)
