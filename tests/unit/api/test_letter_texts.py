"""A list writes what people gave as the text that it is; it says the same as a single letter does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mahavishnu.console.api.reading import as_bytes, letter_json, letters_json
from mahavishnu.testing import make_letter

ODD: list[Any] = [None, {}, {"ä": "\ud800", "n": [1.5, True, {"deep": '"}]'}]}, "text", [[]]]


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("status", ["pending", "retrying", "exhausted", "completed", "archived"])
def test_many_say_what_each_says(status: str, whole: bool) -> None:
    letters = [make_letter(status=status, task=task, metadata={"of": task}, error="hôte\n\ud800") for task in ODD]
    each = [json.loads(as_bytes(letter_json(letter, whole=whole))) for letter in letters]
    assert json.loads(letters_json(letters, whole=whole)) == each
    assert json.loads(letters_json([])) == []
