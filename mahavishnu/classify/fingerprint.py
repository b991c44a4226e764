"""The fingerprint that failures of one cause share, and a title for the group that they make.

A fingerprint is made of the types of the error and its causes, the functions of the user's own code in the traceback,
and the message without what differs from run to run. All of that is taken from the failure that a letter keeps, so a
letter can be regrouped at any time, with the same result as long as the rules are the same.
"""

from __future__ import annotations

import hashlib
import re
import sysconfig
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import PurePath, PureWindowsPath

from mahavishnu.classify.exceptions import failure_of
from mahavishnu.classify.tracebacks import ParsedError, parse_errors, parse_traceback
from mahavishnu.model.letter_parts import Failure

VERSION = "v1"  # goes up whenever the same failure would get another fingerprint
LONGEST_MESSAGE = 2000
_MOST_ERRORS, _MOST_FRAMES = 16, 24
_SHORT = 4000

_URL = re.compile(
    r"\b([a-z][a-z0-9+.-]{1,20}://)(?:[^\s/@'\"<>]*@)?([^\s/?#'\"<>()]*)([^\s?#'\"<>()]*)(?:[?#][^\s'\"<>()]*)?", re.I
)
_PORT, _API_VERSION = re.compile(r":\d+$"), re.compile(r"v\d")
_MAIL = re.compile(r"\b[\w.+-]{1,255}@[\w-]+(?:\.[\w-]+)+\b")
_TIME = re.compile(
    r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:\s?(?:Z|UTC|[+-]\d\d:?\d\d))?)?\b"
    r"|\b\d\d?/\d\d?/\d{4}\b|\b\d\d?:\d\d:\d\d(?:[.,]\d+)?\b"
    r"|\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? \d\d? [A-Z][a-z]{2} \d{4}\b"
)
_UUID = re.compile(r"\b[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}\b", re.I)
_HEX = re.compile(r"\b0x[0-9a-f]+\b|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,}\b", re.I)
_ADDRESS = re.compile(
    r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b|(?<![\w:])(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}(?![\w:])", re.I
)
_QUOTED = re.compile(r"(?<!\w)'[^'\n]{1,300}'(?!\w)|\"[^\"\n]{1,300}\"|`[^`\n]{1,300}`")
_PATH = re.compile(r"(?<![\w/:<])(?:[A-Za-z]:[\\/]|\\\\|\.{0,2}/|~/)[\w.@%+~-]+(?:[\\/][\w.@%+~-]+)*[\\/]?")
# Numbers that say what went wrong are kept: error codes, exit codes, HTTP statuses.
_CODE = re.compile(
    r"(?i:\b(?:errno|winerror|error code|exit code|exit status|http(?:/\d(?:\.\d)?)?|status(?: ?code)?|code|sqlstate|"
    r"error|signal)[\s:=\[(]{1,3})"
    r"(-?\d{1,5})\b(?![.\d])|\b([45]\d\d)(?= (?:[A-Z][a-z]+|[a-z]+ error)\b)"
)
_NUMBER = re.compile(r"[-+]?\d+(?:[.,:]\d+)*(?:e[-+]?\d+)?", re.I)
_BLANKS = re.compile(r"\s+")


def normalize(message: str) -> str:
    """The message without what differs from run to run.

    >>> normalize("GET https://api.example.com/users/42?key=x failed after 3.5s for 'ann' (req 7f3a9b2c1d)")
    'GET https://api.example.com/users/<n> failed after <n>s for <value> (req <hex>)'
    >>> normalize("HTTP 503 from 10.0.0.7:8080")
    'HTTP 503 from <address>'
    """
    text = message[:LONGEST_MESSAGE]
    text = _URL.sub(_plain_url, text)
    for pattern, name in (
        (_MAIL, "<mail>"),
        (_TIME, "<time>"),
        (_UUID, "<uuid>"),
        (_ADDRESS, "<address>"),
        (_HEX, "<hex>"),
        (_QUOTED, "<value>"),
        (_PATH, "<path>"),
    ):
        text = pattern.sub(name, text)
    return _BLANKS.sub(" ", _without_numbers(text)).strip()


def _plain_url(url: re.Match[str]) -> str:
    scheme, host, path = url.groups()
    host = _PORT.sub("", _ADDRESS.sub("<address>", host))
    parts = [
        "<n>" if any(map(str.isdigit, part)) and not _API_VERSION.fullmatch(part) else part for part in path.split("/")
    ]
    return f"{scheme}{host}{'/'.join(parts)}"


def _without_numbers(text: str) -> str:
    kept = {match.span(group) for match in _CODE.finditer(text) for group in (1, 2) if match.group(group)}

    def replace(number: re.Match[str]) -> str:
        start, end = number.span()
        return number.group() if any(begin <= start and end <= stop for begin, stop in kept) else "<n>"

    return _NUMBER.sub(replace, text)


def title(error: BaseException | str) -> str:
    """One line for a group of failures: type and normalized message, at most 200 characters.

    >>> title(ValueError("row 17 is broken"))
    'ValueError: row <n> is broken'
    """
    failure = _failure(error)
    outermost = _parse(failure.type, failure.message, failure.traceback or "")[0]
    message = normalize(outermost.message)
    whole = f"{outermost.name}: {message}" if outermost.name and message else outermost.name or message
    return whole if len(whole) <= 200 else f"{whole[:199]}…"


def fingerprint(error: BaseException | str) -> str:
    """The fingerprint of a failure, such as "v1:…". The same in every process, on every host, in every directory.

    >>> fingerprint("row 17 is broken") == fingerprint("row 4 is broken")
    True
    """
    return fingerprint_of(_failure(error))


def fingerprint_of(failure: Failure) -> str:
    """The fingerprint of a recorded failure."""
    name, message, trace = failure.type, failure.message, failure.traceback or ""
    compute = _compute_short if len(message) + len(trace) <= _SHORT else _compute
    return compute(name, message, trace)


def _compute(name: str | None, message: str, trace: str) -> str:
    return _hash(sorted({_signature(error) for error in _parse(name, message, trace)[:_MOST_ERRORS]}))


_compute_short = lru_cache(1024)(_compute)  # the same errors come again and again, above all when much fails


def named_fingerprint(name: str) -> str:
    """The fingerprint for a name that a plugin gave to the cause."""
    return _hash([f"named\0{name}"])


def _hash(parts: Iterable[str]) -> str:
    text = "\1".join(parts).encode("utf-8", "backslashreplace")
    return f"{VERSION}:{hashlib.blake2b(text, digest_size=10).hexdigest()}"


def _signature(error: ParsedError) -> str:
    frames = dict.fromkeys(name for file, function in error.frames if (name := _frame_name(file, function)))
    message = _normalize_short(error.message) if len(error.message) <= 500 else normalize(error.message)
    return "\0".join([error.name or "", message, *list(frames)[-_MOST_FRAMES:]])


_normalize_short = lru_cache(2048)(normalize)


@lru_cache(2048)
def _frame_name(file: str, function: str) -> str | None:
    """The name of a frame in a fingerprint, without directories; None if it is not of the user's own code."""
    if not is_own_code(file, function):
        return None
    path = PureWindowsPath(file) if "\\" in file else PurePath(file)
    return f"{path.parent.name if path.stem == '__init__' else path.stem}.{function}"


def _failure(error: BaseException | str) -> Failure:
    return failure_of(error, at=_SOME_TIME)


def _parse(name: str | None, message: str, text: str) -> list[ParsedError]:
    """The errors of a failure's type, message and traceback, the outermost first."""
    if name is None:
        return parse_errors(message)
    message = message.strip().partition("\n\n")[0]  # a blank line ends the message in a printed traceback too
    if message == name.rpartition(".")[2]:
        message = ""  # an error without a message is recorded with the name of its type
    if not any(sign in text for sign in _MARKS_OF_MORE):
        start = _ENDS.search(text)
        return [ParsedError(name, message, frames=_frames(text[: start.start() if start else len(text)]))]
    errors = parse_traceback(text)
    return [errors[0]._replace(name=name, message=message), *errors[1:]] if errors else [ParsedError(name, message)]


@lru_cache(512)
def _frames(text: str) -> tuple[tuple[str, str], ...]:
    return tuple(_FRAME.findall(text))


_SOME_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_MARKS_OF_MORE = ("\nThe above exception was the ", "\nDuring handling of the above ", "+-+---")
_ENDS = re.compile(r"\n(?=[^\s])")  # of the frames
_FRAME = re.compile(r'^  File "([^"]+)", line \d+, in (.+)$', re.MULTILINE)
_STANDARD = tuple({path for name in ("stdlib", "platstdlib") if (path := sysconfig.get_path(name))})
_FOREIGN = re.compile(
    r"[\\/](?:site-packages|dist-packages|lib[\\/]python\d(?:\.\d+)?)[\\/]|^<"
    r"|[\\/]mahavishnu[\\/](?:capture|classify|core|engine|letters|queues|tasks|workers)[\\/]"
)
_COMPREHENSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")  # newer Pythons have no frames for them


def is_own_code(file: str, function: str) -> bool:
    """Return True for the user's code, not that of the standard library, another library or this package."""
    return not (function in _COMPREHENSIONS or file.startswith(_STANDARD) or _FOREIGN.search(file))
