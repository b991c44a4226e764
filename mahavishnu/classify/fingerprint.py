"""The fingerprint that failures of one cause share, and a title for the group that they make.

A fingerprint is made of the types of the error and its causes, the functions of the user's own code in the traceback,
and the message without what differs from run to run. All of that is taken from the failure that a letter keeps, so a
letter can be regrouped at any time, with the same result as long as the rules are the same.
"""

from __future__ import annotations

import hashlib
import re
import sysconfig
from collections.abc import Iterable, Set
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import PurePath, PureWindowsPath

from mahavishnu.classify.exceptions import failure_of
from mahavishnu.classify.tracebacks import ParsedError, parse_errors, parse_traceback
from mahavishnu.model.letter_parts import Failure

VERSION = "v2"  # goes up whenever the same failure would get another fingerprint
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
_ADDRESS = re.compile(
    r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b|(?<![\w:])(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}(?![\w:])", re.I
)
_PATH = re.compile(r"(?<![\w/:<])(?:[A-Za-z]:[\\/]|\\\\|\.{0,2}/|~/)[\w.@%+~-]+(?:[\\/][\w.@%+~-]+)*[\\/]?")

# Advice of libraries: where more is to be read, what may have been meant, the statement that failed.
_ADVICE_SIGNS = ("://", "HINT", "CONTEXT:", " you mean", "headers: ", "^")
_ADVICE = re.compile(
    r"\(?\b(?:see|visit|check|learn more|read more|more (?:info|information|details)|for (?:more|further|help|details)|"
    r"please (?:see|visit|refer)|refer to|background on this)\b[^\n]{0,120}?https?://[^\s)]+\)?"
    r"|\(?\b(?:did|perhaps) you mean(?:t|ing)?\b[^\n?]{0,200}\??\)?"
    r"|^(?:HINT|CONTEXT): [^\n]*|^[^\n]*\n[ \t]*\^[\^~ ]*$|^HTTP response headers: [^\n]*",
    re.I | re.M,
)
_STATEMENTS = ("\n[SQL: ", "\n[parameters: ")

_QUOTED = re.compile(r"(?<!\w)'[^'\n]{1,300}'(?!\w)|\"(?:[^\"\n\\]|\\.){1,300}\"|`[^`\n]{1,300}`")
_NAME = re.compile(r"(?:--?|[#.])?[\w$]+(?:[.:/-][\w$]+)*(?:\(\))?\Z")
_KEY = re.compile(r"[a-z_][A-Za-z_.]*\Z")
_SAYS = re.compile(r"\S+(?: +\S+){3}|[A-Z]\S*(?: \S+)+[.!]\Z")
_SAYING = re.compile(r"(?:message|msg|reason|error|details?|title|description)[\"'\\]{0,2}\s?[:=]\s?\Z", re.I)
# customer_id, customerId, CustomerOrder, UNKNOWN_TOPIC: names, wherever they stand
_COMPOUND = re.compile(r"[a-z]+(?:_[a-z]+)+\Z|[A-Z]+(?:_[A-Z]+)+\Z|[A-Za-z][a-z]+(?:[A-Z][a-z]+)+\Z")
_STATUS_LINE = re.compile(r"[1-5]\d\d(?: [A-Za-z]|\Z)")
# Words beside which a quoted name is one of the code, of a schema or of a configuration, and no value.
_WORDS = (
    "action alias api arg argument attribute backend block bucket claim class codec collection column command "
    "conn_id constraint config configuration database dataset decorator dependency dialect dimension directive "
    "driver element encoding endpoint enum event exchange extension feature field filter flag function header hook "
    "identifier index key keyword label library macro member metric method model module namespace object operation "
    "operator option package param parameter permission plugin policy privilege procedure property provider queue "
    "relation resource role route schema scope section selector sequence setting sheet stage state step stream "
    "struct subscription symbol table tag template token topic trigger type unit variable view worksheet"
)
_MORE_WORDS = (
    "named references required missing extra unexpected unknown undefined input message msg reason code codename "
    "errmsg error detail status title exception kind"
)
_VALUE_WORDS = (  # things that users name, and what is done to a value
    "account address and article at base branch but cast character city client company convert country currency "
    "customer date day decode email entry file float for format given got group host hostname id image input invoice "
    "is item job language literal locale location near node not number of or order owner parse partner password path "
    "peer person product region server shop site sku store string supplier team tenant text timezone to url user "
    "username value vendor was warehouse with"
)
_NOUNS = frozenset(_WORDS.split())
_INTRODUCTIONS = _NOUNS | {*_MORE_WORDS.split()}
_LETTERS, _WORD_AFTER = re.compile(r"[^\W\d]+"), re.compile(r" ([A-Za-z_]+)")
_NAME_AFTER = re.compile(
    r" (?:is (?:a |an )?(?:required|missing|undefined|unknown|not defined|not a valid field|not found)|was unexpected|"
    r"must be|should be|cannot be|has no attribute)|\s?:\s|\.[`'\"]"
)
_VALUE_BEFORE = re.compile(r"\b(?:got|value|from|input|string)[\s:=(]{1,3}\Z", re.I)
_VALUE_AFTER = re.compile(r" (?:is not |does not match|is too |is no |matches)|@")
_PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z.]*\Z")
_THINGS = frozenset(_VALUE_WORDS.split())
_STRONG = frozenset({"missing", "required", "unexpected", "unrecognized", "unsupported", "expected"})
_ARGUMENT = re.compile(r"[A-Za-z]?\(-?\d{1,5}, \Z")  # a code, and what it means
_CODE_DEFECTS = frozenset(
    {"TypeError", "AttributeError", "NameError", "UnboundLocalError", "ImportError", "ModuleNotFoundError"}
)
_ROW = re.compile(r"(?<=\bcontains )\([^\n]*\)|(?<==)\([^()\n]*\)")

# Numbers that say what went wrong are kept: error codes, exit codes, HTTP statuses.
_STATUSES = frozenset(map(str, (*range(400, 419), *range(421, 432), 451, *range(500, 512), *range(520, 530))))
_CODE_WORDS = frozenset({"errno", "winerror", "exit", "status", "rc", "sqlstate", "signal", "received", "http"})
_KINDS_OF_CODES = frozenset({"", "return", "error", "err", "exit", "status", "response", "reason", "result"})
_BEFORE_STATUS = re.compile(
    r"(?:\A|\[|[-=]> ?|\b(?:returns?|returned|respond(?:s|ed)|response|got|answers?|answered|says?|said|gave|"
    r"replie[sd]|sent|with|threw|throws)(?: with)?(?: an?)? )\Z",
    re.I,
)
_AFTER_STATUS = re.compile(r" (?:[A-Z][a-z]+|[a-z]+ error)\b")
_CODE = re.compile(
    r"(?:ORA|PLS|TNS|DP[IY]|AADSTS|PGRST|SQL|SQLSTATE|ERR|ERROR|HTTP|CVE)[-_]?\d{2,7}\Z|[EWF]\d{3,6}\Z"
    r"|(?i:utf|latin|iso|cp|sha|tls|ssl)[-_]?\d{1,4}(?:-\d{1,2})?\Z"
)
_WORD = re.compile(r"[A-Z][A-Za-z]*\d{1,2}[A-Z]?[a-z]{2}[A-Za-z]*\Z")  # OAuth2Error, Base64Decoder
_COUNTED = re.compile(r"([A-Za-z]+[a-z])\d+\Z")  # row17, int64
_SNAKE = re.compile(r"([a-z]{2,}(?:_[a-z]{2,})+_?)\d{1,2}\Z")  # address_line_2
_MEASURE = re.compile(r"\d+(?:[.,]\d+)*(?:e-?\d+)?([a-z\u00b5]?[a-z]?i?[bsmhdx]|[KMGT]i?B?)\Z")
_TOKEN = re.compile(r"(?<!\w)[-+]?(?=[A-Za-z_.-]{0,40}\d)\w+(?:[-.]\w+|,\d{3}\b|(?<=e)\+\d+)*")
_NUMBERS = re.compile(r"<n>(?:[.,:]? ?<n>)+")
_VALUES = re.compile(r"<value>(?:, <value>)+")
_PLURAL = re.compile(r"(?<=<n>) [a-z]{2,}(?:\(s\))?(?: [a-z]{2,})?|\b(?:are|were|have)\b")
_SINGULAR = {"are": "is", "were": "was", "have": "has"}
_PLACEHOLDER = re.compile(r"'?<(?:n|value|mail|time|address|path)>'?")


def normalize(message: str, type_name: str | None = None) -> str:
    """Return the message of an error of this type without what differs from run to run.

    >>> normalize("GET https://api.example.com/users/42?key=x failed after 3.5s for 'ann' (req 7f3a9b2c1d)")
    'GET https://api.example.com/users/<n> failed after <n>s for <value> (req <n>)'
    >>> normalize("HTTP 503 from 10.0.0.7:8080")
    'HTTP 503 from <address>'
    >>> normalize("no stock for order DE-1001, column 'sku'")
    "no stock for order <n>, column 'sku'"
    """
    text = message[:LONGEST_MESSAGE]
    for sign in _STATEMENTS:
        text = text.partition(sign)[0]
    type_name = type_name or ""
    if any([sign in text for sign in _ADVICE_SIGNS]):
        text = _ADVICE.sub("", text)
    if "://" in text:
        text = _URL.sub(_plain_url, text)
    if "(" in text:
        text = _ROW.sub("<value>", text)
    if "'" in text or '"' in text or "`" in text:
        module, _, name = type_name.rpartition(".")
        text = _without_values(text, 2 if name in _CODE_DEFECTS else 1 if module else 0)
    if "@" in text:
        text = _MAIL.sub("<mail>", text)
    if has_digits := _DIGIT.search(text) is not None:
        text = _TIME.sub("<time>", text)
        text = _ADDRESS.sub("<address>", text)
    if "/" in text or "\\" in text:
        text = _PATH.sub("<path>", text)
    if has_digits:
        text = _TOKEN.sub(_plain_token, text)
        text = _NUMBERS.sub("<n>", text)
    if "<value>, " in text:
        text = _VALUES.sub("<value>", text)
    if "\n" in text:  # many rows may have the same fault
        text = "\n".join(dict.fromkeys(text.split("\n")))
    return " ".join(text.split())


_DIGIT = re.compile(r"\d|::")


def _plain_url(url: re.Match[str]) -> str:
    scheme, host, path = url.groups()
    host = _PORT.sub("", _ADDRESS.sub("<address>", host))
    parts = [
        "<n>" if any(map(str.isdigit, part)) and not _API_VERSION.fullmatch(part) else part for part in path.split("/")
    ]
    return f"{scheme}{host}{'/'.join(parts)}"


def _without_values(text: str, names: int) -> str:
    """Replace quoted values; names of what the code has stay, and so does what is said in quotes.

    With 1 for `names`, as for an error of a library, a name also stays where nothing says what it names; with 2, each.
    """

    def replace(quoted: re.Match[str]) -> str:
        start, end = quoted.span()
        inner, before = quoted.group()[1:-1], max(0, start - 40)
        if _ARGUMENT.search(text, before, start) is not None and _DIGIT.search(inner) is None:
            return f'"{_without_values(inner, names)}"'
        if _NAME.match(inner) is None:
            if _STATUS_LINE.match(inner) is not None or "://" in inner:
                return inner
            says = _SAYS.match(inner) is not None or _SAYING.search(text, before, start) is not None
            return f'"{_without_values(inner, names)}"' if says else "<value>"
        if end - start == len(text):  # nothing else is said: it is missing, as in a KeyError
            stays = _KEY.match(inner) is not None
        elif names == 2:
            stays = _VALUE_BEFORE.search(text, before, start) is None
        else:
            stays = (
                text[start] == "`"
                or _COMPOUND.match(inner) is not None
                or _is_named(inner, text[before:start], text, end, names)
            )
        return f"'{inner}'" if stays else "<value>"

    return _QUOTED.sub(replace, text)


def _is_named(inner: str, before: str, text: str, end: int, names: int) -> bool:
    """Return True if the words before or after a quoted name say that it is one of the code or of a schema."""
    stem, word = before.rstrip(" :=([{\"'\\\n\t"), ""
    if stem != before and stem[-1:].isalpha():
        *others, word = [each.lower() for each in _LETTERS.findall(stem)]
        if word == "name" and others:
            word = others[-2] if others[-1] == "with" and others[1:] else others[-1]
        if _is_word_of(_INTRODUCTIONS, word) or (word == "for" and others[-1:] in (["value"], ["reverse"])):
            return True
        if ":" in before[len(stem) :] and not _STRONG.isdisjoint(others):  # Missing keys in config: "x"
            return True
    if before.endswith(("'.", '".', "`.")) or _NAME_AFTER.match(text, end) is not None:
        return True
    after = _WORD_AFTER.match(text, end)
    if after is not None and _is_word_of(_NOUNS, after[1].lower()):
        return True
    return (
        names == 1
        and before[len(stem) :] in ("", " ", " (")
        and not _is_word_of(_THINGS, word)
        and _PLAIN_NAME.match(inner) is not None
        and _VALUE_AFTER.match(text, end) is None
    )


def _is_word_of(words: Set[str], word: str) -> bool:
    """Return True for one of the words or its plural."""
    return word in words or (word[-1:] == "s" and word[:-1] in words)


def _plain_token(token: re.Match[str]) -> str:
    """Return a word with digits as it stands in a normalized message: a code as it is, an id as `<n>`."""
    word, text, (start, end) = token.group(), token.string, token.span()
    number = word.lstrip("+-")
    if number.isdigit():
        return word if len(number) <= 5 and _is_code(number, text, start, end) else "<n>"
    if _CODE.match(word) is not None or _WORD.match(word) is not None:
        return word
    if (measure := _MEASURE.match(number)) is not None:
        return f"<n>{measure[1]}"
    if "." in word:
        return ".".join([_plain_word(part) for part in word.split(".")])
    return _plain_word(word)


def _plain_word(word: str) -> str:
    if _DIGIT.search(word) is None:
        return word
    named = _COUNTED.match(word) or _SNAKE.match(word)
    return f"{named[1]}<n>" if named is not None else "<n>"


def _is_code(number: str, text: str, start: int, end: int) -> bool:
    """Return True for a number that says what went wrong."""
    if _is_code_after(text[max(0, start - 24) : start]):
        return text[end : end + 1] != "." or not text[end + 1 : end + 2].isdigit()
    if text[0] == "(" and start == 1 and text[end : end + 1] == ",":  # the number and the message of a database
        return True
    if number not in _STATUSES:
        return False
    if _AFTER_STATUS.match(text, end) is not None:
        return True
    if text[start - 1 : start] == "(":
        return text.startswith((")", ", '", ', "'), end)
    return _BEFORE_STATUS.search(text, max(0, start - 24), start) is not None


def _is_code_after(before: str) -> bool:
    """Return True if the words before a number say that it is a code."""
    stem = before.rstrip(" :=[(\"'")
    if len(before) - len(stem) not in (1, 2, 3, 4):
        return False
    if not stem[-1:].isalpha():
        return stem[-1:].isdigit() and "http/" in stem.lower()
    *others, word = [each.lower() for each in _LETTERS.findall(stem)]
    if word.endswith("code"):
        return word[:-4].rstrip("_") in _KINDS_OF_CODES and others[-1:] not in (["zip"], ["postal"])
    return (
        word in _CODE_WORDS or word.endswith(("error", "exception")) or (word == "with" and others[-1:] == ["exited"])
    )


def _singular(counted: re.Match[str]) -> str:
    return " ".join([_SINGULAR.get(word) or _without_plural(word) for word in counted.group().split(" ")])


def _without_plural(word: str) -> str:
    if word.endswith("(s)"):
        return word[:-3]
    if len(word) < 4 or word[-1] != "s" or word[-2] in "isu":
        return word
    return f"{word[:-3]}y" if word.endswith("ies") else word[:-1]


def title(error: BaseException | str) -> str:
    """One line for a group of failures: type and normalized message, at most 200 characters."""
    failure = _failure(error)
    outermost = _parse(failure.type, failure.message, failure.traceback or "")[0]
    message = normalize(outermost.message, outermost.name)
    whole = f"{outermost.name}: {message}" if outermost.name and message else outermost.name or message
    return whole if len(whole) <= 200 else f"{whole[:199]}…"


def fingerprint(error: BaseException | str) -> str:
    """The fingerprint of a failure, such as "v2:…". The same in every process, on every host, in every directory."""
    return fingerprint_of(_failure(error))


def fingerprint_of(failure: Failure) -> str:
    """The fingerprint of a recorded failure."""
    name, message, trace = failure.type, failure.message, failure.traceback or ""
    compute = _compute_short if len(message) + len(trace) <= _SHORT else _compute
    return compute(name, message, trace, failure.category)


def _compute(name: str | None, message: str, trace: str, category: str | None) -> str:
    signatures = sorted({_signature(error) for error in _parse(name, message, trace)[:_MOST_ERRORS]})
    return _hash([category or "", *signatures])  # one group has one category


_compute_short = lru_cache(1024)(_compute)  # the same errors come again and again, above all when much fails


def named_fingerprint(name: str) -> str:
    """The fingerprint for a name that a plugin gave to the cause."""
    return _hash([f"named\0{name}"])


def _hash(parts: Iterable[str]) -> str:
    text = "\1".join(parts).encode("utf-8", "backslashreplace")
    return f"{VERSION}:{hashlib.blake2b(text, digest_size=10).hexdigest()}"


def _signature(error: ParsedError) -> str:
    frames = dict.fromkeys(name for file, function in error.frames if (name := _frame_name(file, function)))
    shorten = _plain_short if len(error.message) <= 500 else _plain
    message = shorten(error.message, error.name)
    return "\0".join([error.name or "", message, *list(frames)[-_MOST_FRAMES:]])


def _plain(message: str, type_name: str | None) -> str:
    """Return the normalized message, in which all that was replaced looks alike, and one counts as many do."""
    text = normalize(message, type_name)
    if "<" in text:
        text = _PLURAL.sub(_singular, _PLACEHOLDER.sub("<n>", text))
    return text


_plain_short = lru_cache(2048)(_plain)


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
