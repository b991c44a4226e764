"""How a command ends when it could not do what was asked: one clear line on stderr, and a code that scripts can tell.

0 done · 1 the thing asked for failed, or the store or server cannot be used · 2 a mistake in what was asked ·
3 not found · 4 the present state does not allow it · 130 interrupted · 141 nobody reads the output any more
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from enum import IntEnum

from mahavishnu.model.errors import (
    IllegalMove,
    IllegalRunMove,
    InvalidInput,
    MahavishnuError,
    NoSuchGroup,
    NoSuchLetter,
    NoSuchRun,
    QueueFull,
)


class ExitCode(IntEnum):
    """What the shell is told."""

    DONE = 0
    FAILED = 1
    MISTAKE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    INTERRUPTED = 130
    NO_READER = 141


class NotFound(MahavishnuError):
    """There is nothing of the name that was asked for."""

    @classmethod
    def among(cls, what: str, name: str, known: Sequence[str]) -> NotFound:
        """With the name that may have been meant.

        >>> str(NotFound.among("plugin", "htpp", ["http", "template"]))
        "there is no plugin 'htpp'; did you mean http?"
        """
        near = difflib.get_close_matches(name, known, 1)
        return cls(f"there is no {what} {name!r}" + (f"; did you mean {near[0]}?" if near else ""))


class Failed(MahavishnuError):
    """What was asked for was tried, and failed."""


class Conflict(MahavishnuError):
    """The state of the letter, group or run does not allow it, or somebody else was quicker."""


class Unreachable(Failed):
    """The store, or the server, cannot be reached or used."""


_NOT_THERE = (NotFound, NoSuchLetter, NoSuchGroup, NoSuchRun)
_NOT_ALLOWED = (Conflict, IllegalMove, IllegalRunMove, QueueFull)
_CODES: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], ExitCode], ...] = (
    (_NOT_THERE, ExitCode.NOT_FOUND),
    (InvalidInput, ExitCode.MISTAKE),
    (_NOT_ALLOWED, ExitCode.CONFLICT),
    (MahavishnuError, ExitCode.FAILED),
    (OSError, ExitCode.FAILED),
)


def explain_error(error: Exception) -> tuple[tuple[str, ...], ExitCode]:
    """The lines that tell of an error, one for each problem, and the exit code.

    >>> explain_error(NotFound("there is no plugin 'x'"))
    (("there is no plugin 'x'",), <ExitCode.NOT_FOUND: 3>)
    """
    for kind, code in _CODES:
        if isinstance(error, kind):
            return tuple(line for line in str(error).splitlines() if line.strip()) or (type(error).__name__,), code
    said = " ".join(str(error).split())
    told = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return (f"{told} (this should not have happened; `mahavishnu --traceback …` shows where it did)",), ExitCode.FAILED
