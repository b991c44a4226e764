"""Tracebacks as people read them: the frames of their own code first, those of libraries out of the way."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

MOST_FRAMES = 200
_FRAME = re.compile(r'^(?P<lead>[ |+]*)File "(?P<file>[^"\n]*)", line (?P<line>\d+)(?:, in (?P<function>.+))?$')
_MARKS = re.compile(r"^[ |+]*(?:[~^][~^ ]*)?$")


@dataclass(frozen=True, slots=True)
class TraceFrame:
    """A call of a traceback. `own`: it is the app's own code, as far as the path of its file tells."""

    file: str
    line: int
    function: str
    code: str
    own: bool


@dataclass(frozen=True, slots=True)
class TracebackParts:
    """The frames of the error that was raised last, the innermost first; `whole` is False if some are left out."""

    frames: Sequence[TraceFrame]
    whole: bool = True

    @property
    def own(self) -> Sequence[TraceFrame]:
        """Those of the app's own code."""
        return [frame for frame in self.frames if frame.own]

    @property
    def others(self) -> Sequence[TraceFrame]:
        """Those of libraries."""
        return [frame for frame in self.frames if not frame.own]


def split_traceback(text: str, is_own: Callable[[str, str], bool]) -> TracebackParts:
    """The frames of a printed traceback; of several errors, those of the last. `is_own(file, function)` decides.

    >>> text = 'Traceback (most recent call last):\\n  File "shop/pay.py", line 7, in pay\\n    charge()\\nKeyError: 1'
    >>> (frame,) = split_traceback(text, lambda *_: True).frames
    >>> frame.file, frame.line, frame.function, frame.code
    ('shop/pay.py', 7, 'pay', 'charge()')
    """
    lines = text.splitlines()
    begins = [number for number, line in enumerate(lines) if "Traceback (most recent call last)" in line]
    frames: list[TraceFrame] = []
    rest = lines[begins[-1] + 1 :] if begins else lines
    for number, line in enumerate(rest):
        found = _FRAME.match(line)
        if found is None:
            continue
        below = rest[number + 1] if number + 1 < len(rest) else ""
        is_code = below.startswith(found["lead"] + " ") and not _FRAME.match(below) and not _MARKS.match(below)
        function = found["function"] or ""
        own = is_own(found["file"], function)
        frames.append(TraceFrame(found["file"], int(found["line"]), function, below.strip() if is_code else "", own))
    return TracebackParts(frames[::-1][:MOST_FRAMES], len(frames) <= MOST_FRAMES)
