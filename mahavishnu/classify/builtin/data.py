"""The tables of the built-in rules: files in `data`, described at the top of each, and read when needed."""

from __future__ import annotations

import builtins
import errno
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

from mahavishnu.model.letter_parts import ErrorCategory

WORD = re.compile(r"[a-z0-9]+")
# Of phrases of equal rank. "Connection failed: wrong password", "connection refused: too many clients": a connection is
# often only where the trouble was noticed.
PRECEDENCE = (
    ErrorCategory.TRANSIENT,
    ErrorCategory.RESOURCE,
    ErrorCategory.PERMISSION,
    ErrorCategory.NETWORK,
    ErrorCategory.VALIDATION,
    ErrorCategory.PERMANENT,
)
_FOLDER = Path(__file__).parent / "data"
_CATEGORIES = {category.value: category for category in ErrorCategory}
_NO_CATEGORY = "-"
_OFTEN = {"?": "?", "*": "{0,8}"}
_ANY_WORD = r"[^\s;]{1,80}"
_ENDS = r"(?=\s*(?:$|[.,;:!?)\]}(\[\"'|>/]| - ))"
_BEGINS = r"(?:^|(?<=[:;,(\[\"'>|=] )|(?<=[:(\[\"'>=])|(?<=error )|(?<=exception )|(?<=failed ))"


class Types(NamedTuple):
    """Categories of types of exceptions; see `data/types.tsv`."""

    listed: Mapping[str, ErrorCategory]
    weak: Mapping[str, ErrorCategory]
    builtin: Mapping[str, ErrorCategory]
    builtin_classes: Mapping[type, ErrorCategory]
    bugs: frozenset[str]


class Codes(NamedTuple):
    """Categories of codes, by who gives them; see `data/codes.tsv`."""

    errno: Mapping[int, ErrorCategory]
    windows: Mapping[int, ErrorCategory]
    http: Mapping[int, ErrorCategory]
    grpc: Mapping[str, ErrorCategory]
    sql_state: Mapping[str, ErrorCategory]
    mysql: Mapping[int, ErrorCategory]
    mongo: Mapping[int, ErrorCategory]
    oracle: Mapping[int, ErrorCategory]
    sqlite: Mapping[str, ErrorCategory]
    smtp: Mapping[int, ErrorCategory]
    ftp: Mapping[int, ErrorCategory]
    amqp: Mapping[int, ErrorCategory]
    ldap: Mapping[int, ErrorCategory]
    aadsts: Mapping[str, ErrorCategory]
    exit: Mapping[int, ErrorCategory]
    search: Mapping[str, ErrorCategory]


class Names(NamedTuple):
    """Categories of the words in a name; see `data/names.tsv`. A whole name may be known to say nothing."""

    whole: Mapping[str, ErrorCategory | None]
    parts: tuple[tuple[ErrorCategory, re.Pattern[str]], ...]


@dataclass(frozen=True, eq=False)  # identity is enough, and quick to hash
class Phrase:
    """A wording that tells a category. `needs`: it cannot be in a clause that lacks every word of one of these sets.

    `order` is its rank, then the place of its category in PRECEDENCE: the lowest wins.
    """

    category: ErrorCategory
    order: tuple[int, int]
    source: str
    needs: tuple[frozenset[str], ...]

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The phrase as a regular expression. Most phrases are never tried, so it is compiled when first used."""
        return re.compile(_pattern(self.source.split()))


@cache
def types() -> Types:
    """The table of types."""
    rows = list(_rows("types.tsv"))
    tables = read_tables(rows)
    return Types(
        tables["type"],
        tables["weak"],
        tables["builtin"],
        {getattr(builtins, name): category for name, category in tables["builtin"].items()},
        frozenset(name for table, _, name in rows if table == "bug"),
    )


@cache
def codes() -> Codes:
    """The tables of codes."""
    tables: dict[str, Any] = dict(read_tables(_rows("codes.tsv")))
    for family in ("windows", "http", "mysql", "mongo", "oracle", "smtp", "ftp", "amqp", "ldap", "exit"):
        tables[family] = {int(code): category for code, category in tables[family].items()}
    tables["errno"] = {  # not every system has every errno
        getattr(errno, name): category for name, category in tables["errno"].items() if hasattr(errno, name)
    }
    return Codes(**tables)


@cache
def names() -> Names:
    """The table of names. Neighbouring rows of one category become one regular expression."""
    whole: dict[str, ErrorCategory | None] = {}
    parts: list[tuple[ErrorCategory, list[str]]] = []
    for kind, category, words in _rows("names.tsv"):
        if kind == "whole":
            whole[words] = category
        elif category is not None:
            if not parts or parts[-1][0] is not category:
                parts.append((category, []))
            parts[-1][1].append(words)
    return Names(
        whole,
        tuple(
            (category, re.compile(rf"(?:^|\s)(?:{'|'.join(words)})(?:$|\s)", re.MULTILINE)) for category, words in parts
        ),
    )


@cache
def phrases() -> tuple[Phrase, ...]:
    """All phrases, in the order of their file."""
    _, sections = _phrase_file()
    choices = [_choices(source.split()) for _, _, source in sections]
    common = Counter(word for sets in choices for words in sets for word in words)
    return tuple(
        Phrase(
            category,
            (rank, PRECEDENCE.index(category)),
            source,
            tuple(sorted(sets, key=lambda words: sum(common[word] for word in words))),  # the rarest words first
        )
        for (category, rank, source), sets in zip(sections, choices, strict=True)
    )


@cache
def phrases_by_word() -> Mapping[str, tuple[Phrase, ...]]:
    """The phrases to try for each word of a clause."""
    found: dict[str, list[Phrase]] = {}
    for phrase in phrases():
        for word in phrase.needs[0]:
            found.setdefault(word, []).append(phrase)
    return {word: tuple(phrases) for word, phrases in found.items()}


@cache
def phrase_sets() -> Mapping[str, str]:
    """The named sets of words that phrases use."""
    return _phrase_file()[0]


def read_tables(rows: Iterable[tuple[str, ErrorCategory | None, str]]) -> dict[str, dict[str, ErrorCategory]]:
    """The tables that the rows make, by name. Raises ValueError for an entry that is in a table twice.

    >>> read_tables([("smtp", ErrorCategory.RESOURCE, "452 552")])["smtp"]["452"]
    <ErrorCategory.RESOURCE: 'resource'>
    """
    tables: dict[str, dict[str, ErrorCategory]] = {}
    for name, category, entries in rows:
        table = tables.setdefault(name, {})
        for entry in entries.split():
            if entry in table:
                raise ValueError(f"{entry} is in the table {name} twice")
            if category is not None:
                table[entry] = category
    return tables


def _rows(name: str) -> Iterator[tuple[str, ErrorCategory | None, str]]:
    for line in _lines(name):
        table, category, entries = line.split("\t")
        yield table, None if category == _NO_CATEGORY else _CATEGORIES[category], entries


def _lines(name: str) -> Iterator[str]:
    for line in (_FOLDER / name).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            yield line


@cache
def _phrase_file() -> tuple[dict[str, str], list[tuple[ErrorCategory, int, str]]]:
    sets: dict[str, str] = {}
    found: list[tuple[ErrorCategory, int, str]] = []
    section = ""
    for line in _lines("phrases.txt"):
        if line[0] == "[" and line[-1] == "]":
            section = line[1:-1]
        elif section == "sets":
            name, _, words = line.partition(": ")
            sets[name] = words
        else:
            category, _, rank = section.partition(" ")
            found.append((_CATEGORIES[category], int(rank), line))
    return sets, found


# From phrases to patterns. The grammar of a phrase is described in the file.


def variants(token: str) -> list[str]:
    """Return what a token of a phrase may be, each written with blanks.

    >>> variants("could_not|exceed~")
    ['could not', 'exceed', 'exceeds', 'exceedd', 'exceeded', 'exceeding']
    """
    found: list[str] = []
    for word in token.split("|"):
        plain = word.replace("_", " ")
        if word.startswith("%"):
            found += variants(phrase_sets()[word[1:]])
        elif word.endswith("~"):
            found += [plain[:-1] + ending for ending in ("", "s", "d", "ed", "ing")]
        else:
            found.append(plain)
    return found


def _is_needed(token: str) -> bool:
    return token not in ("^", "$") and token.strip(".") != "" and token[0] != "!" and token[-1] not in "?*"


def _choices(tokens: list[str]) -> list[frozenset[str]]:
    """For each token that may not be left out: one word of each of its variants."""
    needed = [variants(token) for token in tokens if _is_needed(token)]
    words = [[WORD.findall(variant) for variant in each] for each in needed]
    return [frozenset(max(each, key=len) for each in choice) for choice in words if all(choice)]


def _pattern(tokens: list[str]) -> str:
    """A token that may be left out brings the blank after it, or once a needed token came, the blank before it."""
    pattern, blank = "", ""
    while not tokens[-1].strip("."):
        tokens.pop()  # what follows must stay visible to the check for negation: "invalid entries: 0"
    for index, token in enumerate(tokens):
        if token == "^":
            pattern += _BEGINS
        elif token == "$":
            pattern += _ENDS
        elif token[0] == "!" and index == 0:
            pattern += "".join(rf"(?<!\b{re.escape(word)} )" for word in variants(token[1:]))
        elif token[0] == "!":
            pattern += rf"(?!\s(?:{_either(token[1:])})(?!\w))"
        elif "$" in token.split("|"):  # one of these words, or nothing more
            pattern += f"(?:{blank}(?:{_either(token)})|{_ENDS})"
        elif _is_needed(token):
            pattern += f"{blank}(?:{_either(token)})"
            blank = " "
        else:
            is_gap = not token.strip(".")
            word, often = (_ANY_WORD, f"{{0,{len(token)}}}") if is_gap else (_either(token[:-1]), _OFTEN[token[-1]])
            pattern += f"(?: (?:{word})){often}" if blank else f"(?:(?:{word}) ){often}"
    return rf"(?:(?<!\w)|(?=\W)){pattern}(?:(?!\w)|(?<=\W))"


def _either(token: str) -> str:
    words = sorted(variants(token), key=len, reverse=True)
    return "|".join(re.escape(word).replace(r"\ ", " ") for word in words if word != "$")
