from __future__ import annotations

from datetime import timedelta

import pytest

from mahavishnu.model import lifecycle
from mahavishnu.model.errors import InvalidInput, InvalidPayload
from mahavishnu.model.letter_parts import DeadLetterStatus
from mahavishnu.model.lifecycle import violations
from mahavishnu.testing import START, make_failure, make_letter


def test_a_letter_is_pending_and_due_at_once() -> None:
    letter = make_letter()
    assert (letter.status, letter.due_at, letter.created_at, letter.version) == ("pending", START, START, None)
    assert violations(letter) == []
    claimed = lifecycle.claim(letter, owner="w", token="t", until=START + timedelta(minutes=1), now=START)
    assert claimed.status == "retrying"


@pytest.mark.parametrize("status", DeadLetterStatus)
def test_every_status_is_sound(status: DeadLetterStatus) -> None:
    for changes in ({}, {"retry_count": 5}, {"max_retries": 0}, {"created_at": START + timedelta(days=3)}):
        letter = make_letter(status=status.value, **changes)
        assert violations(letter) == []
        assert letter.status is status
        assert letter.failed_at == letter.updated_at == letter.created_at


def test_no_two_are_the_same() -> None:
    letters = [make_letter() for _ in range(20)]
    assert len({letter.key for letter in letters}) == len({letter.entry_id for letter in letters}) == 20
    assert [letter.entry_id for letter in letters] == sorted(letter.entry_id for letter in letters)


def test_what_is_given_is_taken() -> None:
    letter = make_letter(
        task_id="wf", task=[1, {"a": None}], metadata={"tenant": "acme"}, error="boom", occurrences=0, due_at=None
    )
    assert (letter.task_id, letter.task, letter.metadata) == ("wf", [1, {"a": None}], {"tenant": "acme"})
    assert (letter.error, letter.last_error, letter.due_at) == ("boom", "boom", None)
    assert violations(letter) == ["occurrences and generation count from 1"]


def test_refuses_what_a_letter_cannot_have() -> None:
    with pytest.raises(InvalidInput, match="a letter has no colour"):
        make_letter(colour="red")
    with pytest.raises(InvalidPayload, match=r"metadata\.x"):
        make_letter(metadata={"x": float("nan")})


def test_a_failure() -> None:
    failure = make_failure("timed out", at=START + timedelta(seconds=1), category=None)
    assert (failure.message, failure.at, failure.category, failure.type) == (
        "timed out",
        START + timedelta(seconds=1),
        None,
        "ConnectionError",
    )
