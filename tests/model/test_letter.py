"""The letter itself: a value that is never changed, and the views on it."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mahavishnu.model import lifecycle
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter, FormerLetter, evolve
from mahavishnu.model.letter_parts import (
    RESOLUTIONS,
    DeadLetterStatus,
    DlqReason,
    ErrorCategory,
    Failure,
    RetryPolicy,
    SourceKind,
    Tallies,
)
from tests.support.letters import NOON, captured, claimed
from tests.support.strategies import letters


@pytest.mark.parametrize(
    ("enum", "values"),
    [
        (DeadLetterStatus, "pending retrying exhausted completed archived"),
        (RESOLUTIONS, "pending requeued permanently_failed manually_resolved cancelled moved"),
        (RetryPolicy, "never linear exponential immediate"),
        (ErrorCategory, "transient network resource permission validation permanent"),
        (SourceKind, "workflow task queue_item manual"),
    ],
)
def test_the_documented_values(enum: Any, values: str) -> None:
    """They are in documents and in users' code: exact, and text."""
    assert [str(member) for member in enum] == values.split()


def test_the_documented_reasons() -> None:
    """Why a letter was written."""
    assert set(DlqReason) == {
        "staleness_timeout", "max_retries_exceeded", "worker_unavailable", "dependency_cycle_detected",
        "invalid_state_transition", "workflow_failed", "max_attempts_exceeded", "expired", "queue_item_dead", "manual",
        "queued", "queue_definition_missing",
    }  # fmt: skip


def test_the_documented_defaults() -> None:
    """R037: a minimal capture."""
    letter = captured()

    assert (letter.retry_policy, letter.max_retries, letter.status, letter.retry_count) == (
        "exponential", 3, "pending", 0,
    )  # fmt: skip
    assert (letter.reason, letter.source.kind, letter.namespace, letter.queue) == (
        "workflow_failed", "workflow", "default", "default",
    )  # fmt: skip


def test_nobody_changes_a_letter() -> None:
    """R131: neither its fields nor what its payload shows."""
    letter = captured(payload=Json.of({"a": [1]}), labels=Json.of({"team": "x"}))
    with pytest.raises(AttributeError):
        letter.status = DeadLetterStatus.ARCHIVED  # type: ignore[misc]
    letter.task["a"].append(2)
    letter.metadata["team"] = "y"

    assert letter.task == {"a": [1]}
    assert letter.metadata == {"team": "x"}


def test_the_retry_date_a_person_sees() -> None:
    """I2: of a pending letter only; a lease's end is nobody's retry date."""
    letter = captured()

    assert letter.next_retry_at == letter.due_at
    assert claimed(letter).next_retry_at is None
    assert captured(max_retries=0).next_retry_at is None
    assert captured(retry_policy="never").next_retry_at is None


def test_when_its_task_was_captured_last() -> None:
    """For the letter or merged into it; never before the letter was there, and what retries brought does not count."""
    letter = captured()
    later, before = NOON + timedelta(hours=2), NOON - timedelta(hours=2)
    merged = lifecycle.merge(letter, Failure(later, "again"), later)
    retried = lifecycle.merge(merged, Failure(later + timedelta(hours=1), "by a worker", processor="w"), later)

    assert letter.captured_at == letter.created_at == NOON
    assert (merged.created_at, merged.captured_at, retried.captured_at) == (NOON, later, later)
    assert lifecycle.merge(letter, Failure(before, "told late"), later).captured_at == NOON
    assert evolve(letter, failures=()).captured_at == NOON


def test_a_version_is_the_stores_mark_not_a_part_of_the_letter() -> None:
    """Two stores' copies of one letter are equal."""
    assert replace(captured(), version=(1,)) == replace(captured(), version=(2,))


@settings(max_examples=20)
@given(letter=letters, other=letters)
def test_evolve_is_replace(letter: DeadLetter, other: DeadLetter) -> None:
    """Field by field, leaving the original alone; a former letter stays one."""
    kept = replace(letter)
    for each in fields(DeadLetter):
        change = {each.name: getattr(other, each.name)}
        assert evolve(letter, **change) == replace(letter, **change)
        assert getattr(evolve(letter, **change), each.name) == change[each.name]
    assert evolve(letter) == letter == kept
    former = FormerLetter.of(letter)
    assert evolve(former, priority=7) == replace(former, priority=7)
    assert type(evolve(former)) is FormerLetter


def test_evolve_knows_only_the_fields() -> None:
    """A misspelt one is no silent nothing."""
    with pytest.raises(TypeError, match="statsu"):
        evolve(captured(), statsu="archived")
    with pytest.raises(TypeError, match="next_retry_at"):
        evolve(captured(), next_retry_at=NOON)


def test_a_former_letter_is_the_letter_under_its_entry_id() -> None:
    """As it was, but for the key and the version."""
    letter = replace(captured(), version=(3,))
    former = FormerLetter.of(letter)

    assert (former.key, former.version) == ("entry-1", None)
    assert {each.name: getattr(former, each.name) for each in fields(DeadLetter) if each.compare} == {
        each.name: getattr(letter, each.name) for each in fields(DeadLetter) if each.compare
    }


counted = st.builds(Tallies, **{tally.name: st.integers(0, 100) for tally in fields(Tallies)})


@given(one=counted, other=counted)
def test_tallies_add_up(one: Tallies, other: Tallies) -> None:
    """Name by name."""
    assert one.combine(other) == other.combine(one)
    assert one.combine(Tallies()) == one
    for tally in fields(Tallies):
        assert getattr(one.combine(other), tally.name) == getattr(one, tally.name) + getattr(other, tally.name)
        assert one.plus(tally.name) == replace(one, **{tally.name: getattr(one, tally.name) + 1})
    assert one.plus("exhausted", "retry_failed") == one.plus("exhausted").plus("retry_failed")
    assert one.plus() == one
