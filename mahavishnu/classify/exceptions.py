"""The errors that an error was caused by: walked breadth first, once each, and never without end."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from subprocess import CalledProcessError
from typing import NamedTuple

from mahavishnu.model.errors import ENDS

MOST = 64  # errors looked at in one failure; a group may hold a million
LONGEST_TEXT = 8000  # characters that the text rules look at: the beginning and the end
_WRAPPED = ("orig", "reason", "original_error", "original_exception", "os_error", "inner", "inner_exception")


class Link(NamedTuple):
    """One error in a chain. `implicit`: it, or what led here, was only being handled when another one was raised."""

    error: BaseException
    depth: int = 0
    implicit: bool = False


def walk(error: BaseException) -> list[Link]:
    """The error and what is behind it: causes, contexts, members of groups, errors that it carries; outermost first."""
    links = [Link(error)]
    if _is_alone(error):
        return links
    seen = {id(error)}
    waiting = deque(links)
    links.clear()
    while waiting and len(links) < MOST:
        link = waiting.popleft()
        links.append(link)
        for child, implicit in _behind(link.error):
            if id(child) not in seen and len(seen) < MOST:
                seen.add(id(child))
                waiting.append(Link(child, link.depth + 1, link.implicit or implicit))
    return links


def _is_alone(error: BaseException) -> bool:
    # The usual case, kept cheap: a built-in error that came from nothing.
    kind = type(error)
    return (
        kind.__module__ == "builtins"
        and error.__cause__ is None
        and (error.__context__ is None or error.__suppress_context__)
        and not isinstance(error, BaseExceptionGroup)
        and not [argument for argument in error.args if isinstance(argument, BaseException)]
    )


def _behind(error: BaseException) -> Iterator[tuple[BaseException, bool]]:
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
    if attempt is not None and (failed := _called(attempt, "exception")) is not None:
        yield failed, False
    if error.__context__ is not None and error.__cause__ is None and not error.__suppress_context__:
        yield error.__context__, True


def is_bare(error: BaseException) -> bool:
    """Whether it is a built-in error that nobody has put anything on: most are, and need no look at attributes."""
    return type(error).__module__ == "builtins" and not error.__dict__


def attribute(thing: object, name: str) -> object:
    """`thing.name`, or None: an error's property may raise anything, and that must not stop us."""
    try:
        return getattr(thing, name, None)
    except Exception:
        return None


def _called(thing: object, name: str) -> BaseException | None:
    try:
        done = getattr(thing, "done", None)
        answer = getattr(thing, name)() if done is None or done() else None
    except Exception:
        return None
    return answer if isinstance(answer, BaseException) else None


def said(error: BaseException) -> str:
    """What the error says, whatever its `__str__` does; empty if it says nothing."""
    try:
        text = str(error)
    except ENDS:
        raise
    except BaseException as problem:
        text = f"<{type(error).__name__} cannot be shown: its __str__ raised {type(problem).__name__}>"
    return text


def words_of(error: BaseException) -> str:
    """What the text rules are to look at: not more than a few pages, and no command line."""
    if isinstance(error, CalledProcessError):  # its own text is the command, and that says nothing about the failure
        return "\n".join(_text(output) for output in (error.stderr, error.output) if output)
    try:
        text = str(error)
    except Exception:
        text = ""
    notes = attribute(error, "__notes__")
    if isinstance(notes, list):
        text = "\n".join([text, *(note for note in notes[:8] if isinstance(note, str))])
    return middle_cut(text)


def middle_cut(text: str, most: int = LONGEST_TEXT) -> str:
    """The beginning and the end of a text that is too long to be looked at whole."""
    return text if len(text) <= most else f"{text[: most // 2]}\n{text[-most // 2 :]}"


def _text(output: object) -> str:
    text = output.decode(errors="replace") if isinstance(output, bytes) else str(output)
    return middle_cut(text, LONGEST_TEXT // 2)


def type_name(kind: type[BaseException]) -> str:
    """The dotted name of an error's type, as a traceback shows it.

    >>> type_name(ValueError)
    'ValueError'
    """
    module = kind.__module__
    return kind.__qualname__ if module in ("builtins", "__main__", None) else f"{module}.{kind.__qualname__}"
