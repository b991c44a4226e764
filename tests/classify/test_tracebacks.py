"""Error texts that name their exception."""

from __future__ import annotations

import pytest

from mahavishnu.classify.exceptions import MOST
from mahavishnu.classify.tracebacks import parse_error_line, parse_errors


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("ValueError: x", "ValueError", "x"),
        ("ValueError", "ValueError", ""),
        ("ValueError('x')", "ValueError", "'x')"),
        ("<class 'ValueError'>: x", "ValueError", "x"),
        ("builtins.ValueError: x", "builtins.ValueError", "x"),
        ("requests.exceptions.ReadTimeout: x", "requests.exceptions.ReadTimeout", "x"),
        ("acme.Odd: x", "acme.Odd", "x"),
        ("ReadTimeout: x", "ReadTimeout", "x"),
        ("KeyboardInterrupt", "KeyboardInterrupt", ""),
        ("Error: x", None, "Error: x"),
        ("Warning: low disk", "Warning", "low disk"),
        ("Connection timeout: x", None, "Connection timeout: x"),
        ("api.example.com: refused", None, "api.example.com: refused"),
        ("https://x.io: refused", None, "https://x.io: refused"),
        ("Note: x", None, "Note: x"),
        ("ValueErrors: 3", None, "ValueErrors: 3"),
        ("", None, ""),
    ],
)
def test_a_text_may_begin_with_the_name_of_an_exception(text: str, name: str | None, message: str) -> None:
    error = parse_error_line(text)
    assert (error.name, error.message) == (name, message)


def test_a_traceback_that_is_cut_off_is_read_as_a_message() -> None:
    text = "Traceback (most recent call last):\n  File"
    assert parse_errors(text) == [parse_error_line(text)]


def test_of_a_text_with_a_thousand_errors_the_last_ones_are_read() -> None:
    context = "\n\nDuring handling of the above exception, another exception occurred:\n\n"
    errors = parse_errors(
        context.join(f"Traceback (most recent call last):\nacme.OddError: {number}" for number in range(1000))
    )
    assert len(errors) == MOST
    assert [error.message for error in errors[:3]] == ["999", "998", "997"]
