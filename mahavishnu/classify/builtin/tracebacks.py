"""Error texts that name their exception: "TimeoutError: …", `requests.exceptions.ReadTimeout: …`, whole tracebacks."""

from __future__ import annotations

import builtins
import re
from dataclasses import dataclass, field
from typing import NamedTuple

from mahavishnu.classify.builtin import known
from mahavishnu.classify.builtin.attributes import Finding
from mahavishnu.classify.builtin.names import of_name
from mahavishnu.classify.exceptions import MOST, middle_cut

LONGEST_TRACEBACK = 256 * 1024
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
# SQLAlchemy names the driver's own error in front of the message, and that is the more particular one.
_DRIVER = re.compile(r"^\((?P<name>(?:[A-Za-z_]\w*\.)+[A-Z]\w*)\)\s")
# What browsers and Node call a TypeError when the network fails them.
_FETCH = re.compile(
    r"(?:fetch failed|failed to fetch|load failed|networkerror|network request failed)\b", re.IGNORECASE
)
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line \d+, in (?P<function>.+)$')


class Spoken(NamedTuple):
    """One error as a text tells of it: the name of its type, if it has one, its message, and its frames."""

    name: str | None
    message: str
    implicit: bool = False
    frames: tuple[tuple[str, str], ...] = ()  # (file, function), the outermost first


def heard(text: str) -> list[Spoken]:
    """The errors that a text tells of, the outermost first; at least one."""
    return (_from_traceback(middle_cut(text, LONGEST_TRACEBACK)) if _START in text else []) or [named(text)]


def printed(text: str) -> list[Spoken]:
    """The errors of a traceback that is nothing but that, the outermost first; also those that were never raised."""
    return _from_traceback(text, whole=True)


def named(text: str) -> Spoken:
    """A message that may begin with the name of an exception.

    >>> named("requests.exceptions.ReadTimeout: too slow").name
    'requests.exceptions.ReadTimeout'
    >>> named("Success: false").name
    """
    text = text.strip()
    if (match := _HEAD.match(text)) is not None:
        name = match["shown"] or match["name"]
        if _is_exception(name):
            return Spoken(name, text[match.end() :].strip())
    return Spoken(None, text)


def _is_exception(name: str) -> bool:
    kind = getattr(builtins, name, None)
    if isinstance(kind, type):
        return issubclass(kind, BaseException)
    module, _, last = name.rpartition(".")
    if not last[:1].isupper():
        return name in known.TYPES or name in known.WEAK_TYPES
    if module:
        return not module[0].isupper() or last.endswith(_ENDINGS)
    return last.endswith(_ENDINGS) and (last == "Timeout" or sum(map(str.isupper, last)) > 1)


@dataclass(slots=True)
class _Reader:
    """Reads a printed traceback, line by line. What is printed first is behind what comes after it.

    `whole`: there is nothing else in the text, so an error may stand there without frames.
    """

    whole: bool = False

    found: list[Spoken] = field(default_factory=list)
    behind: list[Spoken] = field(default_factory=list)
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
            earlier = self.found + self.behind
            self.behind = [each._replace(implicit=True) for each in earlier] if bare == _CONTEXT else earlier
            self.found, self.expects = [], self.whole
        elif not bare and self.whole and self.message is None:
            pass  # the line after "… the following exception:"
        elif not bare:
            self.finish()
        elif self.message is not None:
            if len(self.message) < MOST:
                self.message.append(bare)
        elif self.expects and (frame := _FRAME.match(line)) is not None:
            self.frames.append((frame["file"], frame["function"]))
        elif self.expects and not line.startswith((" ", "\t")):
            self.message = [bare]

    def finish(self) -> None:
        if self.message is not None:
            self.found.append(named("\n".join(self.message))._replace(frames=tuple(self.frames)))
        self.message, self.frames, self.expects = None, [], False


def _from_traceback(text: str, *, whole: bool = False) -> list[Spoken]:
    reader = _Reader(whole, expects=whole)
    for line in text.splitlines():
        reader.read(line)
    reader.finish()
    return reader.found + reader.behind


def of_spoken_type(spoken: Spoken) -> Finding | None:
    """What the name of the type says, the same as it would say of the exception itself."""
    name = _of_driver(spoken).name
    if name is None:
        return None
    kind = getattr(builtins, name.removeprefix("builtins."), None)
    if kind is TypeError and _FETCH.match(spoken.message) is not None:
        return Finding(known.N, "fetch failed")
    if isinstance(kind, type) and issubclass(kind, BaseException):
        base = next((base for base in kind.__mro__ if base in known.BUILTIN_TYPES), None)
        return Finding(known.BUILTIN_TYPES[base], base.__name__) if base else None
    name = _ALIASES.get(name, name)
    last = name.rpartition(".")[2]
    category = known.TYPES.get(name) or known.BUILTINS.get(last) or _BY_LAST_NAME.get(last if last == name else "")
    if category is None and name not in known.WEAK_TYPES:
        category = of_name(last)
    return Finding(category, name) if category else None


def _of_driver(spoken: Spoken) -> Spoken:
    inner = _DRIVER.match(spoken.message)
    return spoken._replace(name=inner["name"]) if inner and spoken.name else spoken


def _by_last_name() -> dict[str, known.ErrorCategory]:
    """A bare name is taken for the library's if all libraries that have one mean the same by it."""
    meant: dict[str, set[known.ErrorCategory]] = {}
    for name, category in known.TYPES.items():
        meant.setdefault(name.rpartition(".")[2], set()).add(category)
    return {
        name: next(iter(categories))
        for name, categories in meant.items()
        if len(categories) == 1 and name[0].isupper() and name.endswith(_ENDINGS)
    }


_ALIASES = {"json.JSONDecodeError": "json.decoder.JSONDecodeError", "concurrent.futures.TimeoutError": "TimeoutError"}
_BY_LAST_NAME = _by_last_name()
