"""Error texts that name their exception, such as "TimeoutError: …", and tracebacks, with own frames first."""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from msgspec import Struct, field

from mahavishnu.classify.builtin import data
from mahavishnu.classify.builtin.codes import Finding, match_name
from mahavishnu.classify.exceptions import LONGEST_TRACEBACK, MOST, middle_cut
from mahavishnu.model.letter_parts import ErrorCategory
from mahavishnu.model.record import Value

MOST_FRAMES = 200
_FRAME = re.compile(r'^(?P<lead>[ |+]*)File "(?P<file>[^"\n]*)", line (?P<line>\d+)(?:, in (?P<function>.+))?$')
_MARKS = re.compile(r"^[ |+]*(?:[~^][~^ ]*)?$")


class TraceFrame(Value, frozen=True):
    """A call of a traceback. `own`: it is the app's own code, as far as the path of its file tells."""

    file: str
    line: int
    function: str
    code: str
    own: bool


class TracebackParts(Value, frozen=True):
    """The frames of the error that was raised last, the innermost first; `whole` is False if some are left out."""

    frames: Sequence[TraceFrame]
    whole: bool = True

    @property
    def own(self) -> Sequence[TraceFrame]:
        """Frames of the app's own code."""
        return [frame for frame in self.frames if frame.own]

    @property
    def others(self) -> Sequence[TraceFrame]:
        """Frames of libraries."""
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


_START = "Traceback (most recent call last):"
_CAUSE = "The above exception was the direct cause of the following exception:"
_CONTEXT = "During handling of the above exception, another exception occurred:"
_MARGIN = re.compile(r"^\s*(?P<cut>\+[-+]{2}[-+ \d.]*$)?[|+]? ?")  # groups are printed with lines down their left side
_NAME = r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*"
_HEAD = re.compile(rf"^(?:<class '(?P<shown>{_NAME})'>|(?P<name>{_NAME}))(?:\((?=['\"])|\s*:(?:\s|$)|\s*$)")
_ENDINGS = (
    "Error",
    "Exception",
    "Warning",
    "Failure",
    "Fault",
    "Timeout",
    "Interrupt",
    "Exceeded",
    "Denied",
    "Exit",
    "NotFound",
)
# SQLAlchemy puts the name of the driver's own error in front of the message, and that is the more specific one.
_DRIVER = re.compile(r"^\((?P<name>(?:[A-Za-z_]\w*\.)+[A-Z]\w*)\)\s")
# Browsers and Node raise a TypeError when the network fails.
_FETCH = re.compile(
    r"(?:fetch failed|failed to fetch|load failed|networkerror|network request failed)\b", re.IGNORECASE
)
_ALIASES = {"json.JSONDecodeError": "json.decoder.JSONDecodeError", "concurrent.futures.TimeoutError": "TimeoutError"}
_FRAME_LINE = re.compile(r'^\s*File "(?P<file>[^"]+)", line \d+, in (?P<function>.+)$')


class ParsedError(NamedTuple):
    """One error that a text describes. `implicit`: it was only being handled when another one was raised."""

    name: str | None
    message: str
    implicit: bool = False
    frames: tuple[tuple[str, str], ...] = ()  # (file, function), the outermost first


def parse_errors(text: str) -> list[ParsedError]:
    """The errors that a text describes, the outermost first; at least one."""
    return (_read_lines(middle_cut(text, LONGEST_TRACEBACK)) if _START in text else []) or [parse_error_line(text)]


def parse_traceback(text: str) -> list[ParsedError]:
    """The errors of a text that is a traceback and nothing else, the outermost first; also those without frames."""
    return _read_lines(text, whole=True)


def parse_error_line(text: str) -> ParsedError:
    """The error in a message that may begin with the name of its type.

    >>> parse_error_line("requests.exceptions.ReadTimeout: too slow").name
    'requests.exceptions.ReadTimeout'
    >>> parse_error_line("Success: false").name
    """
    text = text.strip()
    if (match := _HEAD.match(text)) is not None:
        name = match["shown"] or match["name"]
        if _is_exception(name):
            return ParsedError(name, text[match.end() :].strip())
    return ParsedError(None, text)


def _is_exception(name: str) -> bool:
    kind = getattr(builtins, name, None)
    if isinstance(kind, type):
        return issubclass(kind, BaseException)
    module, _, last = name.rpartition(".")
    if not last[:1].isupper():
        return name in data.types().listed or name in data.types().weak
    if module:
        return not module[0].isupper() or last.endswith(_ENDINGS)
    return last.endswith(_ENDINGS) and (last == "Timeout" or sum(map(str.isupper, last)) > 1)


class _Reader(Struct):
    """Reads a printed traceback line by line. An error printed earlier is the cause of the one after it.

    `whole`: the text is nothing but a traceback, so an error may stand in it without frames.
    """

    whole: bool = False

    errors: list[ParsedError] = field(default_factory=list)
    causes: list[ParsedError] = field(default_factory=list)
    frames: list[tuple[str, str]] = field(default_factory=list)
    message: list[str] | None = None
    expects: bool = False  # frames, or a message after them

    def read(self, line: str) -> None:
        cut = None
        if line.lstrip()[:1] in ("|", "+") and (margin := _MARGIN.match(line)) is not None:
            cut, line = margin["cut"], line[margin.end() :]
        bare = line.strip()
        if cut or bare.endswith(_START):
            self.finish()
            self.expects = True
        elif bare in (_CAUSE, _CONTEXT):
            self.finish()
            earlier = self.errors + self.causes
            causes = [each._replace(implicit=True) for each in earlier] if bare == _CONTEXT else earlier
            self.causes = causes[:MOST]  # the nearest
            self.errors, self.expects = [], self.whole
        elif not bare and self.whole and self.message is None:
            pass  # the line after "… the following exception:"
        elif not bare:
            self.finish()
        elif self.message is not None:
            if len(self.message) < MOST:
                self.message.append(bare)
        elif self.expects and (frame := _FRAME_LINE.match(line)) is not None:
            self.frames.append((frame["file"], frame["function"]))
        elif self.expects and not line.startswith((" ", "\t")):
            self.message = [bare]

    def finish(self) -> None:
        if self.message is not None:
            self.errors.append(parse_error_line("\n".join(self.message))._replace(frames=tuple(self.frames)))
        self.message, self.frames, self.expects = None, [], False


def _read_lines(text: str, *, whole: bool = False) -> list[ParsedError]:
    reader = _Reader(whole, expects=whole)
    for line in text.splitlines():
        reader.read(line)
    reader.finish()
    return (reader.errors + reader.causes)[:MOST]


def match_type_name(error: ParsedError) -> Finding | None:
    """Match the name of the error's type, with the result for the type of the exception itself."""
    name = error.name
    if name is None:
        return None
    if (inner := _DRIVER.match(error.message)) is not None:
        name = str(inner["name"])
    known = data.types()
    kind = getattr(builtins, name.removeprefix("builtins."), None)
    if kind is TypeError and _FETCH.match(error.message) is not None:
        return Finding(ErrorCategory.NETWORK, "fetch failed")
    if isinstance(kind, type) and issubclass(kind, BaseException):
        base = next((base for base in kind.__mro__ if base in known.builtin_classes), None)
        return Finding(known.builtin_classes[base], base.__name__) if base else None
    name = _ALIASES.get(name, name)
    last = name.rpartition(".")[2]
    category = (
        known.listed.get(name) or known.builtin.get(last) or (_by_last_name().get(last) if last == name else None)
    )
    if category is None and name not in known.weak:
        category = match_name(last)
    return Finding(category, name) if category else None


@cache
def _by_last_name() -> Mapping[str, ErrorCategory]:
    """The categories of bare names: those of listed types whose last name means the same in all libraries."""
    meant: dict[str, set[ErrorCategory]] = {}
    for name, category in data.types().listed.items():
        meant.setdefault(name.rpartition(".")[2], set()).add(category)
    return {
        name: next(iter(categories))
        for name, categories in meant.items()
        if len(categories) == 1 and name[0].isupper() and name.endswith(_ENDINGS)
    }
