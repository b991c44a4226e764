"""Keeping what letters were, many at once."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahavishnu.letters.verbs import Edit, apply_edit
from mahavishnu.model.errors import ItemFailed, StoreUnavailable
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter, evolve
from mahavishnu.stores.base import get_one
from mahavishnu.stores.kinds import REVISIONS
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.retained import Revision, keep_revisions
from mahavishnu.testing import Faults, FaultyStore, make_letter


def letters(count: int) -> list[DeadLetter]:
    return [make_letter(task_id=f"wf_{number}", payload=Json.of({"n": number})) for number in range(count)]


async def test_each_letter_has_its_own_outcome() -> None:
    faults = Faults()
    revisions = FaultyStore(MemoryStore(), faults).collection(REVISIONS)
    some = letters(4)
    faults.item_failed("write", keys=[f"{some[2].entry_id}/0"])
    outcomes = await keep_revisions(revisions, some)
    assert [type(outcome) for outcome in outcomes] == [type(None), type(None), ItemFailed, type(None)]
    kept = await revisions.get([f"{letter.entry_id}/0" for letter in some])
    assert [each and each.task.value["n"] for each in kept if not isinstance(each, Exception)] == [0, 1, None, 3]


async def test_twice_is_once_and_none_is_fine() -> None:
    revisions = MemoryStore().collection(REVISIONS)
    some = letters(2)
    assert await keep_revisions(revisions, []) == []
    await keep_revisions(revisions, some)
    before = await revisions.get([f"{letter.entry_id}/0" for letter in some])
    assert await keep_revisions(revisions, some) == [None, None]
    assert await revisions.get([f"{letter.entry_id}/0" for letter in some]) == before


async def test_an_outage_is_told() -> None:
    faults = Faults()
    revisions = FaultyStore(MemoryStore(), faults).collection(REVISIONS)
    faults.unavailable("write")
    with pytest.raises(StoreUnavailable):
        await keep_revisions(revisions, letters(2))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6))
def test_the_latest_state_of_a_revision_stays(order: list[int]) -> None:
    """In whatever order those who saw the letter at different times come to keep it."""

    async def kept() -> Revision | None:
        revisions = MemoryStore().collection(REVISIONS)
        letter = make_letter(entry_id="e")
        for age in order:
            seen = evolve(letter, updated_at=letter.updated_at + timedelta(seconds=age), repos=(str(age),))
            assert await keep_revisions(revisions, [seen]) == [None]
        return await get_one(revisions, "e/0")

    found = asyncio.run(kept())
    assert found is not None
    assert found.repos == (str(max(order)),)


def test_an_edit_counts_itself() -> None:
    letter = make_letter(payload=Json.of({"a": 1, "b": 2}))
    after = apply_edit(letter, Edit.of({"priority": 4}, {"a": None}), letter.updated_at)
    assert (after.task, after.priority, after.revision) == ({"b": 2}, 4, 1)
    assert Revision.of(letter).key == f"{letter.entry_id}/0"
    assert Revision.of(after).key == f"{letter.entry_id}/1"
