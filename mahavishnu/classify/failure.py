"""From an exception or a text to the record of a failed run: everything bounded, and safe whatever the error does."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Iterable
from datetime import datetime
from types import CodeType, FrameType
from typing import Final

from mahavishnu.classify.exceptions import MOST, attribute, said, type_name, walk
from mahavishnu.model.clock import instant
from mahavishnu.model.errors import ENDS
from mahavishnu.model.letter_parts import Failure, fast_constructor

LONGEST_MESSAGE: Final = 32 * 1024  # bytes of UTF-8
LONGEST_TRACEBACK: Final = 64 * 1024
_MOST_FRAMES = 1000  # of one error
_MOST_KEPT = 5000  # printed frames
# By file, function and line, as a code object takes long to hash; and the code, which is another one after a reload.
_frames: dict[tuple[str, str, int], tuple[CodeType, str]] = {}
_MOST_MEMBERS = 15  # of a group that are printed
_new_failure = fast_constructor(Failure)
_EXPLAINED = (SyntaxError, NameError, AttributeError, ImportError)  # Python says where, or what may have been meant


def failure_of(
    error: BaseException | str,
    *,
    at: datetime,
    category: str | None = None,
    processor: str | None = None,
    duration_seconds: float | None = None,
) -> Failure:
    """The record of one failed run. Never raises.

    >>> from datetime import UTC
    >>> failure = failure_of(ValueError("no such repo"), at=datetime(2030, 1, 1, tzinfo=UTC))
    >>> failure.type, failure.message
    ('ValueError', 'no such repo')
    """
    if isinstance(error, BaseException):
        name, message, stack = type_name(type(error)), message_of(error), traceback_of(error)
    else:
        name, message, stack = None, cut(str(error), LONGEST_MESSAGE), None
    return _new_failure(
        at=instant(at),
        message=message,
        type=name,
        category=category,
        traceback=stack,
        processor=processor,
        duration_seconds=duration_seconds,
    )


def message_of(error: BaseException) -> str:
    """What the error says, or the name of its type if it says nothing, in at most 32 KB."""
    text = said(error)
    return cut(text if text.strip() else type(error).__name__, LONGEST_MESSAGE)


def traceback_of(error: BaseException) -> str:
    """The traceback as Python prints it, with causes and members of groups, in at most 64 KB."""
    try:
        return cut("".join(_printed(error)), LONGEST_TRACEBACK)
    except ENDS:
        raise
    except BaseException as problem:  # printing runs the code of every error in the chain
        return f"the traceback of {type_name(type(error))} cannot be shown: {type(problem).__name__}"


def cut(text: str, most_bytes: int) -> str:
    """`text` in at most so many bytes, without its middle if it is longer; what UTF-8 cannot hold becomes escapes.

    >>> cut("abcdefgh" * 20, 80)
    'abcdefghabcdefg\\n  [… of 160 characters the middle is cut …]\\nbcdefghabcdefgh'
    """
    if len(text) <= most_bytes and text.isascii():
        return text
    if len(text) <= most_bytes:
        data = text.encode("utf-8", "backslashreplace")
        if len(data) <= most_bytes:
            return data.decode()
    # Only what may be kept is encoded: a hundred megabytes need not be copied to be thrown away.
    marker = f"\n  [… of {len(text)} characters the middle is cut …]\n".encode()
    half = max((most_bytes - len(marker)) // 2, 0)
    first, last = (part.encode("utf-8", "backslashreplace") for part in (text[:half], text[len(text) - half :]))
    return (first[:half] + marker + last[len(last) - half :]).decode(errors="ignore")


def _printed(error: BaseException) -> Iterable[str]:
    if error.__cause__ is None and error.__context__ is None and not isinstance(error, BaseExceptionGroup):
        parts = _alone(error)  # nearly every failure, and in a fraction of the time
        return parts if max(map(len, parts)) <= 2 * LONGEST_TRACEBACK else map(_short, parts)
    links = walk(error)
    groups = [link.error for link in links if isinstance(link.error, BaseExceptionGroup)]
    if len(links) < MOST and all(len(group.exceptions) <= _MOST_MEMBERS for group in groups):
        return map(_short, traceback.format_exception(error))
    # A chain or a group without measure: printing it as a whole would take memory and time without measure too.
    parts = [_short(part) for link in links[:_MOST_MEMBERS] for part in _alone(link.error)]
    left = f"{'more than ' if len(links) == MOST else ''}{max(len(links) - _MOST_MEMBERS, 0)}"
    return [*parts, f"\n… and {left} errors behind it\n"]


def _alone(error: BaseException) -> list[str]:
    """One error without its causes. Frames are printed once: the same ones fail again and again."""
    frames: list[str] = []
    trace = error.__traceback__
    while trace is not None and len(frames) < _MOST_FRAMES:
        frame, line = trace.tb_frame, trace.tb_lineno
        code = frame.f_code
        known = _frames.get((code.co_filename, code.co_name, line))
        frames.append(known[1] if known is not None and known[0] is code else _frame(frame, line))
        trace = trace.tb_next
    if not isinstance(error, BaseExceptionGroup):
        head = ["Traceback (most recent call last):\n", *frames] if frames else []
        return [*head, *_last_lines(error)]
    return ["Traceback (most recent call last):\n", *frames, f"{type_name(type(error))}: {said(error)}\n"]


def _last_lines(error: BaseException) -> Iterable[str]:
    """The type and what it says. Python's own way takes ten times as long, and is needed where it has more to tell."""
    if isinstance(error, _EXPLAINED) or attribute(error, "__notes__") is not None:
        return traceback.format_exception_only(error)
    name, text = type_name(type(error)), said(error)
    return (f"{name}: {text}\n" if text else f"{name}\n",)


def _frame(frame: FrameType, line: int) -> str:
    name = frame.f_code.co_filename
    linecache.checkcache(name)
    linecache.lazycache(name, frame.f_globals)
    source = linecache.getline(name, line, frame.f_globals).strip()
    text = f'  File "{name}", line {line}, in {frame.f_code.co_name}\n' + (f"    {source}\n" if source else "")
    if len(_frames) >= _MOST_KEPT:
        _frames.clear()
    _frames[name, frame.f_code.co_name, line] = frame.f_code, text
    return text


def _short(part: str) -> str:
    return part if len(part) <= 2 * LONGEST_TRACEBACK else f"{part[:LONGEST_TRACEBACK]}{part[-LONGEST_TRACEBACK:]}"
