"""The record of a failed run: bounded, and safe whatever the error does."""

from __future__ import annotations

import re
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.classify.exceptions import (
    LONGEST_MESSAGE,
    LONGEST_TRACEBACK,
    cut,
    failure_of,
    is_light,
    message_of,
    share,
    text_of,
    traceback_of,
)
from mahavishnu.model.letter_parts import Failure
from tests.support.real_exceptions import catch, exception_class, with_cause

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def size(text: str | None) -> int:
    return len((text or "").encode())


def without_marks(printed: list[str]) -> str:
    """A traceback as Python prints it, without the lines that underline a part of the one above."""
    return re.sub(r"^ +[~^]+\n", "", "".join(printed), flags=re.MULTILINE)


class Unreadable(Exception):
    """Its arguments cannot be looked at."""

    @property
    def args(self) -> Any:  # type: ignore[override]
        raise RuntimeError("no")


def dive(depth: int) -> int:
    return dive(depth + 1)


def with_note(error: BaseException, note: str) -> BaseException:
    error.add_note(note)
    return error


def test_an_exception_is_recorded_with_type_message_and_traceback() -> None:
    error = catch(lambda: int("x"))
    failure = failure_of(error, at=NOW, category="validation", processor="p1", duration_seconds=1.5)
    message, printed = "invalid literal for int() with base 10: 'x'", without_marks(traceback.format_exception(error))
    assert failure == Failure(NOW, message, "ValueError", "validation", printed, "p1", 1.5)


def test_a_text_is_recorded_as_it_is() -> None:
    assert failure_of("connection refused", at=NOW) == Failure(NOW, "connection refused")


def test_the_type_is_named_as_tracebacks_name_it() -> None:
    assert failure_of(exception_class("acme.errors.Odd")("x"), at=NOW).type == "acme.errors.Odd"
    assert failure_of(exception_class("__main__.Odd")("x"), at=NOW).type == "Odd"


@pytest.mark.parametrize("error", [TimeoutError(), TimeoutError("  ")])
def test_the_message_of_an_error_without_words_is_its_type(error: BaseException) -> None:
    assert message_of(error) == "TimeoutError"


def test_the_traceback_has_causes_notes_and_members() -> None:
    error = with_cause(RuntimeError("outer"), BaseExceptionGroup("many", [catch(lambda: int("x")), KeyError("k")]))
    error.add_note("while sweeping")
    printed = traceback_of(error)
    for words in ("RuntimeError: outer", "while sweeping", "direct cause", "many (2 sub-exceptions)", "KeyError: 'k'"):
        assert words in printed


def test_a_long_message_and_traceback_lose_their_middle() -> None:
    failure = failure_of(ValueError("head " + "x" * 100_000_000 + " tail"), at=NOW)
    assert size(failure.message) <= LONGEST_MESSAGE and size(failure.traceback) <= LONGEST_TRACEBACK
    assert failure.message.startswith("head ") and failure.message.endswith(" tail")
    assert "of 100000010 characters the middle is cut" in failure.message
    assert failure.traceback is not None and failure.traceback.startswith("ValueError: head")
    assert failure.traceback.endswith(" tail\n") and "the middle is cut" in failure.traceback


@pytest.mark.parametrize("most", [80, 81, 82, 83, 1000])
@pytest.mark.parametrize("letter", ["a", "ä", "€", "😀", "\udcff", "\0"])
def test_a_cut_text_keeps_to_the_limit_in_bytes_and_is_valid(letter: str, most: int) -> None:
    for length in (10, 20, 40, 80, 500, 5000):
        short = cut(letter * length, most)
        assert size(short) <= most
        plain = "\\udcff" if letter == "\udcff" else letter
        assert short == plain * length or "the middle is cut" in short


class Hostile(Exception):
    """Cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no")


class NoText(Exception):
    """Its text is none."""

    def __str__(self) -> Any:
        return 42


@pytest.mark.parametrize("error", [Hostile(), NoText()])
def test_an_error_whose_str_raises_is_recorded(error: BaseException) -> None:
    failure = failure_of(error, at=NOW)
    assert "cannot be shown: its __str__ raised" in failure.message
    assert failure.traceback


def test_of_a_huge_group_some_members_are_printed() -> None:
    failure = failure_of(ExceptionGroup("many", [ValueError(str(number)) for number in range(100_000)]), at=NOW)
    assert failure.message == "many (100000 sub-exceptions)"
    assert failure.traceback is not None and "ValueError: 3" in failure.traceback
    assert "errors behind it" in failure.traceback and size(failure.traceback) < LONGEST_TRACEBACK


def test_of_a_huge_chain_some_causes_are_printed() -> None:
    error: BaseException = catch(lambda: int("x"))
    for number in range(10_000):
        error = with_cause(RuntimeError(f"level {number}"), error)
    printed = failure_of(error, at=NOW).traceback
    assert printed is not None and "level 9999" in printed and "more than" in printed
    assert size(printed) <= LONGEST_TRACEBACK


def test_the_traceback_of_a_recursion_is_bounded() -> None:
    def dive(depth: int) -> int:
        return dive(depth + 1)

    failure = failure_of(catch(lambda: dive(0)), at=NOW)
    assert failure.type == "RecursionError" and size(failure.traceback) <= LONGEST_TRACEBACK


def test_source_lines_are_read_again_after_a_reload(tmp_path: Path) -> None:
    file = tmp_path / "sweep.py"

    def printed(source: str) -> str:
        file.write_text(source)
        scope: dict[str, Any] = {}
        exec(compile(source, str(file), "exec"), scope)
        return traceback_of(catch(scope["run"]))

    assert "    raise ValueError('before')" in printed("def run():\n    raise ValueError('before')\n")
    assert "    raise KeyError('afterwards')" in printed("def run():\n    raise KeyError('afterwards')\n")


@pytest.mark.parametrize(
    ("error", "light"),
    [
        ("x" * 2000, True),
        ("x" * 2001, False),
        (OSError(28, "No space left on device"), True),
        (with_cause(RuntimeError("outer"), ValueError("inner")), True),
        (ValueError("x" * 3000), False),
        (ValueError(b"x" * 3000), False),
        (with_cause(RuntimeError("outer"), ValueError("x" * 3000)), False),
        (ExceptionGroup("many", [ValueError(str(number)) for number in range(20)]), False),
        (ValueError([1, 2]), False),  # nobody knows how long it is before it is printed
        (with_note(ValueError("x"), "note"), True),
        (with_note(ValueError("x"), "note" * 1000), False),
        (catch(lambda: dive(0)), False),
        (Unreadable(), False),
    ],
)
def test_a_failure_is_light_if_all_of_it_is_short(error: BaseException | str, light: bool) -> None:
    assert is_light(error) is light


def test_errors_of_one_failure_share_what_is_read_of_their_texts() -> None:
    assert share(1) == share(4) == 8000
    assert share(64) * 64 == 4 * 8000
    assert text_of(ValueError("a" * 5000 + "b" * 5000), share(64)) == "a" * 250 + "\n" + "b" * 250


def test_the_innermost_frames_of_deep_chains_are_printed(tmp_path: Path) -> None:
    error = catch(lambda: dive(0))
    for _ in range(9):
        error = with_cause(catch(lambda: dive(0)), error)
    printed = traceback_of(error)
    assert printed.count("in dive") <= 1000
    assert printed.count("RecursionError: maximum recursion depth exceeded") == 10


def test_of_a_long_source_line_the_beginning_is_printed(tmp_path: Path) -> None:
    file = tmp_path / "generated.py"
    file.write_text(f"def run(): raise ValueError('x'){' ' * 10}; return {'0,' * 100_000}\n")
    scope: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), scope)
    assert len(traceback_of(catch(scope["run"]))) < 2000
