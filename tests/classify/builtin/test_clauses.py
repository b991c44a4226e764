"""Preparing error texts: normalizing, cutting into clauses, and negation."""

from __future__ import annotations

import pytest

from mahavishnu.classify.builtin.clauses import clauses, is_negated, normalize


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        ("Connection REFUSED", "connection refused"),
        ("can't connect; couldn't, won't, isn't", "cannot connect; could not, will not, is not"),
        ("rate_limit-exceeded", "rate limit exceeded"),
        ("ReadTimeoutError", "read timeout error"),
        ("GET https://x.io/timeout failed", "get ~ failed"),
        ("no '/var/lib/timeout' in denied.py", "no '~' in ~"),
        ("bad value 'timeout' for x", "bad value '~' for x"),
        ('{"error": "timeout"}', '{"error": "timeout"}'),
        ("a  b\tc", "a b c"),
        ("it\u2019s", "it's"),
    ],
)
def test_a_text_is_normalized(text: str, normalized: str) -> None:
    assert normalize(text) == normalized


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("all went well. but the upload failed: timeout", ["all went well.", "but the upload failed: timeout"]),
        ("saved successfully", []),
        ("saved successfully, upload failed: connection refused", ["upload failed", "connection refused"]),
        ("could not be saved successfully", ["could not be saved successfully"]),
        ("0 errors", []),
        ("how to fix permission denied", []),
        ("", []),
    ],
)
def test_only_clauses_that_may_tell_of_a_failure_are_left(text: str, left: list[str]) -> None:
    assert clauses(text) == left


@pytest.mark.parametrize(
    ("before", "words", "after", "negated"),
    [
        ("", "connection error", "", False),
        ("no ", "connection error", "", True),
        ("there were no more ", "timeouts", "", True),
        ("this is not a ", "timeout", "", True),
        ("did not start: ", "connection error", "", False),
        ("", "validation error", "s: 0", True),
        ("", "validation error", "s: 10", False),
        ("", "read timeout", "=30", True),
        ("", "read timeout", ": 30s, retries: 3", True),
        ("", "timeout exceeded", ": 30s", False),
        ("", "temporary error", " was fixed", True),
        ("", "permission denied", ": file was created", False),
    ],
)
def test_the_context_of_words_may_negate_them(before: str, words: str, after: str, negated: bool) -> None:
    assert is_negated(words, before, after) is negated
