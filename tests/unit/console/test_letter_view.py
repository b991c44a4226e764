"""What a letter's page says a person can do next: it has to be true of that letter."""

from __future__ import annotations

from typing import Any

import pytest

from mahavishnu.console.letter_view import _next


def said(**changes: Any) -> str:
    letter = {"status": "pending", "resolution_status": "pending", "next_retry_at": "2026-01-01T12:00:00.000Z"}
    return _next({**letter, **changes})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "it is retried by itself when it is due"),
        ({"next_retry_at": None}, "none is planned"),
        ({"status": "exhausted", "next_retry_at": None}, "it waits for a person"),
        ({"status": "exhausted", "resolution_status": "permanently_failed"}, "redrive opens the case again"),
        ({"status": "retrying"}, "it is being run"),
    ],
)
def test_what_is_next(changes: dict[str, Any], words: str) -> None:
    assert words in said(**changes)
