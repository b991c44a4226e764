"""Walks an exception and its causes, and makes the Failure that is recorded. Nothing that an error does is raised."""

from __future__ import annotations

import linecache
import traceback
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from subprocess import CalledProcessError
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

from mahavishnu.model.clock import instant
from mahavishnu.model.errors import ENDS
from mahavishnu.model.letter_parts import Failure

MOST = 64  # errors read of one failure; a group may hold a million
LONGEST_TEXT = 8000  # characters that the text rules read of an error: the beginning and the end
_READ_WHOLE = 4  # errors of a failure of which they read so much; of more they read as much together
_LIGHT = 2000  # characters
_LIGHT_LINKS, _LIGHT_FRAMES = 8, 64
_TEXTS, _SHORT = (str, bytes), (int, float, type(None), BaseException)  # an error is weighed by itself
_SOURCE_LINE = 500  # characters of it that are printed
LONGEST_MESSAGE: Final = 32 * 1024  # bytes of UTF-8
LONGEST_TRACEBACK: Final = 64 * 1024
_MOST_FRAMES = 1000  # of one error, or of a chain that is printed
_MOST_CACHED = 5000  # printed frames
# Printed frames by file, function and line, with their code object, which is another one after a reload. The code
# object itself would take long to hash.
_printed_frames: dict[tuple[str, str, int], tuple[CodeType, str]] = {}
_MOST_MEMBERS = 15  # of a group that are printed
_EXPLAINED = (SyntaxError, NameError, AttributeError, ImportError)  # Python says where, or what may have been meant
_WRAPPED = ("orig", "reason", "original_error", "original_exception", "os_error", "inner", "inner_exception")


class Link(NamedTuple):
    """One error in a chain. `implicit`: it, or an error between, was only being handled when another one was raised."""

    error: BaseException
    depth: int = 0
    implicit: bool = False


def walk(error: BaseException) -> list[Link]:
    """The error, its causes and contexts, members of groups, wrapped errors: breadth first, each once, at most MOST."""
    links = [Link(error)]
    if _is_alone(error):
        return links
    seen = {id(error)}
    waiting = deque(links)
    links.clear()
    while waiting and len(links) < MOST:
        link = waiting.popleft()
        links.append(link)
        for child, implicit in _children(link.error):
            if id(child) not in seen and len(seen) < MOST:
                seen.add(id(child))
                waiting.append(Link(child, link.depth + 1, link.implicit or implicit))
    return links


def _is_alone(error: BaseException) -> bool:
    # The usual case, kept cheap: a built-in error without a cause.
    if (
        type(error).__module__ != "builtins"
        or error.__cause__ is not None
        or (error.__context__ is not None and not error.__suppress_context__)
        or isinstance(error, BaseExceptionGroup)
    ):
        return False
    for argument in error.args:  # noqa: SIM110 - `any` takes four times as long
        if isinstance(argument, BaseException):
            return False
    return True


def _children(error: BaseException) -> Iterator[tuple[BaseException, bool]]:
    if error.__cause__ is not None:
        yield error.__cause__, False
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions[:MOST]:
            yield member, False
    for argument in error.args[:4]:
        if isinstance(argument, BaseException):
            yield argument, False
    for name in _WRAPPED:
        if isinstance(wrapped := attribute(error, name), BaseException):
            yield wrapped, False
    attempt = attribute(error, "last_attempt")  # tenacity's RetryError has one
    if attempt is not None and (failed := _exception_of(attempt)) is not None:
        yield failed, False
    if error.__context__ is not None and error.__cause__ is None and not error.__suppress_context__:
        yield error.__context__, True


def is_light(error: BaseException | str) -> bool:
    """Return whether a failure is assessed in milliseconds; others are assessed in a thread, off the event loop."""
    if isinstance(error, str):
        return len(error) <= _LIGHT
    try:
        if _is_alone(error):
            return _weight(error) <= _LIGHT
        links = walk(error)
        return len(links) <= _LIGHT_LINKS and sum([_weight(link.error) for link in links]) <= _LIGHT
    except Exception:  # an error's own properties may raise anything
        return False


def _weight(error: BaseException) -> int:
    """About how many characters the error is printed with, without printing it; a lot if that cannot be told."""
    if _frame_count(error, _LIGHT_FRAMES + 1) > _LIGHT_FRAMES:
        return _LIGHT + 1
    notes = () if is_bare(error) else attribute(error, "__notes__")
    weight = 0
    for text in (*error.args, *(notes if isinstance(notes, list) else ())):
        if isinstance(text, _TEXTS):
            weight += len(text)
        elif not isinstance(text, _SHORT):
            return _LIGHT + 1
    return weight


def _frame_count(error: BaseException, most: int) -> int:
    count, trace = 0, error.__traceback__
    while trace is not None and count < most:
        count, trace = count + 1, trace.tb_next
    return count


def is_bare(error: BaseException) -> bool:
    """Return True for a built-in error without attributes of its own: most are, and need no look at attributes."""
    return type(error).__module__ == "builtins" and not error.__dict__


def attribute(thing: object, name: str) -> object:
    """`thing.name`, or None if that raises: an error's property may raise anything."""
    try:
        return getattr(thing, name, None)
    except Exception:
        return None


def _exception_of(attempt: Any) -> BaseException | None:
    """The exception of a future that is done; None for anything else."""
    try:
        done = getattr(attempt, "done", None)
        answer = attempt.exception() if done is None or done() else None
    except Exception:
        return None
    return answer if isinstance(answer, BaseException) else None


def safe_str(error: BaseException) -> str:
    """`str(error)`, or a text that says that its `__str__` raised."""
    try:
        text = str(error)
    except ENDS:
        raise
    except BaseException as problem:
        text = f"<{type(error).__name__} cannot be shown: its __str__ raised {type(problem).__name__}>"
    return text


def share(errors: int) -> int:
    """Return the characters that the text rules read of each of so many errors of one failure."""
    return LONGEST_TEXT if errors <= _READ_WHOLE else _READ_WHOLE * LONGEST_TEXT // errors


def text_of(error: BaseException, most: int = LONGEST_TEXT) -> str:
    """The text that the text rules read: the message and the notes, or the output of a command; a few pages at most."""
    if isinstance(error, CalledProcessError):  # its message is the command line, which says nothing about the failure
        return "\n".join(_output_text(output, most // 2) for output in (error.stderr, error.output) if output)
    try:
        text = str(error)
    except Exception:
        text = ""
    notes = attribute(error, "__notes__")
    if isinstance(notes, list):
        text = "\n".join([text, *(note for note in notes[:8] if isinstance(note, str))])
    return middle_cut(text, most)


def middle_cut(text: str, most: int = LONGEST_TEXT) -> str:
    """The beginning and the end of a text that is too long to be read whole."""
    return text if len(text) <= most else f"{text[: most // 2]}\n{text[-most // 2 :]}"


def _output_text(output: object, most: int) -> str:
    text = output.decode(errors="replace") if isinstance(output, bytes) else str(output)
    return middle_cut(text, most)


def type_name(kind: type[BaseException]) -> str:
    """The dotted name of an error's type, as a traceback shows it.

    >>> type_name(ValueError)
    'ValueError'
    """
    module = kind.__module__
    return kind.__qualname__ if module in ("builtins", "__main__", None) else f"{module}.{kind.__qualname__}"


def failure_of(
    error: BaseException | str,
    *,
    at: datetime,
    category: str | None = None,
    processor: str | None = None,
    duration_seconds: float | None = None,
    retry_in: timedelta | None = None,
) -> Failure:
    """The record of one failed run. Never raises."""
    if isinstance(error, BaseException):
        name, message, stack = type_name(type(error)), message_of(error), traceback_of(error)
    else:
        name, message, stack = None, cut(str(error), LONGEST_MESSAGE), None
    return Failure(
        at=instant(at),
        message=message,
        type=name,
        category=category,
        traceback=stack,
        processor=processor,
        duration_seconds=duration_seconds,
        retry_in_seconds=None if retry_in is None else retry_in.total_seconds(),
    )


def message_of(error: BaseException) -> str:
    """The message of the error, or the name of its type if it has none, in at most 32 KB."""
    text = safe_str(error)
    return cut(text if text.strip() else type(error).__name__, LONGEST_MESSAGE)


def error_text(error: BaseException | str) -> str:
    """Return the message of the error, or the text that stands for it, in at most 32 KB."""
    return message_of(error) if isinstance(error, BaseException) else cut(str(error), LONGEST_MESSAGE)


def traceback_of(error: BaseException) -> str:
    """The traceback as Python prints it, with causes and members of groups, in at most 64 KB."""
    try:
        return cut("".join(_traceback_lines(error)), LONGEST_TRACEBACK)
    except ENDS:
        raise
    except BaseException as problem:  # printing runs the code of every error in the chain
        return f"the traceback of {type_name(type(error))} cannot be shown: {type(problem).__name__}"


def cut(text: str, most_bytes: int) -> str:
    """`text` in at most so many bytes of UTF-8: a longer one loses its middle; lone surrogates are escaped.

    >>> cut("abcdefgh" * 20, 80)
    'abcdefghabcdefg\\n  [… of 160 characters the middle is cut …]\\nbcdefghabcdefgh'
    """
    if len(text) <= most_bytes and text.isascii():
        return text
    if len(text) <= most_bytes:
        data = text.encode("utf-8", "backslashreplace")
        if len(data) <= most_bytes:
            return data.decode()
    # Only what may be kept is encoded, so that a hundred megabytes are not copied to be thrown away.
    marker = f"\n  [… of {len(text)} characters the middle is cut …]\n".encode()
    half = max((most_bytes - len(marker)) // 2, 0)
    first, last = (part.encode("utf-8", "backslashreplace") for part in (text[:half], text[len(text) - half :]))
    return (first[:half] + marker + last[len(last) - half :]).decode(errors="ignore")


def _traceback_lines(error: BaseException) -> Iterable[str]:
    if error.__cause__ is None and error.__context__ is None and not isinstance(error, BaseExceptionGroup):
        parts = _lines_of_one(error)  # nearly every failure, in a fraction of the time
        return parts if max(map(len, parts)) <= 2 * LONGEST_TRACEBACK else map(_shorten, parts)
    links = walk(error)
    groups = [link.error for link in links if isinstance(link.error, BaseExceptionGroup)]
    if len(links) < MOST and all(len(group.exceptions) <= _MOST_MEMBERS for group in groups):
        frames = sum(_frame_count(link.error, _MOST_FRAMES) for link in links)
        limit = -(_MOST_FRAMES // len(links)) if frames > _MOST_FRAMES else None  # the innermost ones
        return map(_shorten, traceback.format_exception(error, limit=limit))
    # Printing a huge chain or group whole would take huge memory and time.
    parts = [_shorten(part) for link in links[:_MOST_MEMBERS] for part in _lines_of_one(link.error)]
    left = f"{'more than ' if len(links) == MOST else ''}{max(len(links) - _MOST_MEMBERS, 0)}"
    return [*parts, f"\n… and {left} errors behind it\n"]


def _lines_of_one(error: BaseException) -> list[str]:
    """One error without its causes. Printed frames are cached: the same ones fail again and again."""
    frames: list[str] = []
    trace = error.__traceback__
    while trace is not None and len(frames) < _MOST_FRAMES:
        frame, line = trace.tb_frame, trace.tb_lineno
        code = frame.f_code
        known = _printed_frames.get((code.co_filename, code.co_name, line))
        frames.append(known[1] if known is not None and known[0] is code else _frame(frame, line))
        trace = trace.tb_next
    if not isinstance(error, BaseExceptionGroup):
        head = ["Traceback (most recent call last):\n", *frames] if frames else []
        return [*head, *_last_lines(error)]
    return ["Traceback (most recent call last):\n", *frames, f"{type_name(type(error))}: {safe_str(error)}\n"]


def _last_lines(error: BaseException) -> Iterable[str]:
    """The type and the message. Python's function takes ten times as long, and is called where it adds something."""
    if isinstance(error, _EXPLAINED) or attribute(error, "__notes__") is not None:
        return traceback.format_exception_only(error)
    name, text = type_name(type(error)), safe_str(error)
    return (f"{name}: {text}\n" if text else f"{name}\n",)


def _frame(frame: FrameType, line: int) -> str:
    name = frame.f_code.co_filename
    linecache.checkcache(name)
    linecache.lazycache(name, frame.f_globals)
    source = linecache.getline(name, line, frame.f_globals).strip()[:_SOURCE_LINE]
    text = f'  File "{name}", line {line}, in {frame.f_code.co_name}\n' + (f"    {source}\n" if source else "")
    if len(_printed_frames) >= _MOST_CACHED:
        _printed_frames.clear()
    _printed_frames[name, frame.f_code.co_name, line] = frame.f_code, text
    return text


def _shorten(part: str) -> str:
    return part if len(part) <= 2 * LONGEST_TRACEBACK else f"{part[:LONGEST_TRACEBACK]}{part[-LONGEST_TRACEBACK:]}"
