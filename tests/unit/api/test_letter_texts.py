"""A list is written in another way than a single letter, and says the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mahavishnu.api.responses import json_bytes, letter_json, letters_json
from mahavishnu.model.letter import DeadLetter
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.testing import make_letter

DEEP: list[Any] = []
for _ in range(190):
    DEEP = [DEEP]
ODD: list[Any] = [None, {}, {"ä": "\x7f", "n": [1e16, -0.0, 2**200, True, {"deep": '"}]'}]}, "text", [[]], DEEP]


def decoded(letter: DeadLetter) -> DeadLetter:
    """The letter as a store gives it."""
    return LETTERS.decode(json.loads(LETTERS.encode(letter)), (1,))


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("status", ["pending", "retrying", "exhausted", "completed", "archived"])
def test_many_say_what_each_says(status: str, whole: bool) -> None:
    for half in ("", "\ud800"):  # half a character is written by other means
        tasks = [*ODD, half]
        letters = [
            make_letter(status=status, task=task, metadata={"of": task}, error=f"hôte\n{half}") for task in tasks
        ]
        letters += [decoded(letter) for letter in letters]
        each = [json.loads(json_bytes(letter_json(letter, whole=whole))) for letter in letters]
        assert json.loads(letters_json(letters, whole=whole)) == each
    assert json.loads(letters_json([])) == []


def test_what_is_shown_is_not_changed_by_who_reads_it_later() -> None:
    letter = decoded(make_letter(task={"type": "sweep"}))
    before = letters_json([letter])
    letter.task["type"] = "changed"
    assert letters_json([letter]) == before
