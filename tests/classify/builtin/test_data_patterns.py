"""Regular expressions that meet texts of others take time in proportion to the length of the text."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from re import _compiler as compiler  # type: ignore[attr-defined]
from re import _constants as op
from re import _parser as parser
from time import process_time
from types import ModuleType
from typing import Any

import pytest

import mahavishnu
from mahavishnu.classify import fingerprint
from mahavishnu.classify.builtin import data
from mahavishnu.model.query import LONGEST_TEXT

# The command line, the configuration and the alerts read what the operator of the process wrote, and the console its
# own templates. Every other package reads texts of others.
READ_TEXTS_OF_THEIR_OWN = {"__main__", "alerts", "cli", "console", "core", "settings", "testing"}

# A query has LONGEST_TEXT characters at most, and its patterns are matched at one place.
OF_SHORT_TEXTS = {"mahavishnu.model.query_text", "mahavishnu.search.completion"}
USES = {f"re.{name}" for name in ("compile", "search", "match", "fullmatch", "sub", "split", "findall", "finditer")}
# Of the tables, which the test reads; of an operator's rules, which are examined, an index's name, a store's URL, of an
# operator's keys to be redacted, whose wildcards go back over nothing, and of routes and errors of our own.
ELSEWHERE = ("data.py", "yaml_rules.py", "index.py", "urls.py", "payload.py", "http/routing.py", "http/responses.py")
MEASURABLE = 0.02  # seconds
SAMPLE = [*map(chr, [*range(9, 14), *range(32, 127)]), *"\xa0\xdf\xe9\xc9\u017f\u0663\u2013\u2019\u2028\u4e2d"]


class Sampler:
    """Makes texts that a pattern matches in part, again and again: its repeated parts, with and without what precedes.

    The choices are random, but the same in each run.
    """

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.pattern, self.random, self.groups = pattern, Random(1), dict[int, str]()
        self.tree = parser.parse(pattern.pattern, pattern.flags)
        self.characters = [*SAMPLE, *pattern.pattern]

    def pumps(self) -> Iterator[tuple[str, str]]:
        """Yield what a text begins with, and what it repeats then."""
        loops: list[tuple[str, Any]] = []
        whole = self.text(self.tree, "", loops)
        for before, body in loops:
            pump = "".join(self.text(body, "", []) for _ in range(12))
            yield from ((before, pump), ("", before + pump))
        yield "", whole[:-1]

    def text(self, items: Any, before: str, loops: list[tuple[str, Any]]) -> str:
        text = ""
        for code, argument in items:
            text += self.one(code, argument, before + text, loops)
        return text

    def one(self, code: Any, argument: Any, before: str, loops: list[tuple[str, Any]]) -> str:
        if code in (op.LITERAL, op.NOT_LITERAL, op.IN, op.ANY):
            one = compiler.compile(parser.SubPattern(self.tree.state, [(code, argument)]), self.pattern.flags)
            fits = [each for each in self.characters if one.match(each)]
            kinds = {
                (each.isalpha(), each.isdigit(), each.isspace()): each for each in self.random.sample(fits, len(fits))
            }
            chosen: str = self.random.choice(list(kinds.values()))
            return chosen
        if code in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            least, most, body = argument
            if most > 100:
                loops.append((before, body))
            return "".join(self.text(body, before, loops) for _ in range(max(least, min(most, 1))))
        if code is op.SUBPATTERN:
            self.groups[argument[0]] = self.text(argument[3], before, loops)
            return self.groups[argument[0]]
        if code is op.BRANCH:
            return self.random.choice([self.text(each, before, loops) for each in argument[1]])
        if code is op.ATOMIC_GROUP:
            return self.text(argument, before, loops)
        if code is op.ASSERT:
            self.text(argument[1], before, loops)
        return self.groups[argument] if code is op.GROUPREF else ""


def seconds(pattern: re.Pattern[str], text: str) -> float:
    """Return how long the pattern takes for a text, used as it is in the package."""
    read = pattern.match if pattern in patterns_for_beginnings() else pattern.search
    start = process_time()
    read(text)
    return process_time() - start


@cache
def patterns_for_beginnings() -> frozenset[re.Pattern[str]]:
    """Return the patterns that are only held against a text from its beginning, as the sources say."""
    uses: dict[re.Pattern[str], set[str]] = {}
    for module in modules():
        source = Path(str(module.__file__)).read_text("utf-8")
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern):
                uses.setdefault(value, set()).update(re.findall(rf"\b{name}\.(\w+)", source))
    return frozenset(pattern for pattern, names in uses.items() if names and names <= {"match", "fullmatch"})


def is_slow(pattern: re.Pattern[str]) -> bool:
    """Return whether some text of four times the length takes more than eight times as long."""
    pumps = {each for _ in range(2) for each in Sampler(pattern).pumps() if each[1]}
    return any(grows(pattern, *pump, ending) for pump in pumps for ending in ("", "\0"))


def grows(pattern: re.Pattern[str], before: str, pump: str, ending: str) -> bool:
    short = ""
    for length in (250, 1000, 4000, 16_000, 64_000):
        long = before + (pump * length)[:length] + ending
        if (took := seconds(pattern, long)) > MEASURABLE:
            return min(seconds(pattern, long) for _ in range(3)) > 8 * min(seconds(pattern, short) for _ in range(3))
        if length == 16_000 and took < MEASURABLE / 20:  # a slower one would have taken longer
            return False
        short = long
    return False


@pytest.mark.parametrize(
    "pattern",
    [
        r"\s+$",  # from every blank to the last, and the end does not come
        r"\b[\w.]+@",
        "a++b",
        "xa+a+b",
        r"(?m)^\s+b",  # every line begins where blanks of the line before go on
        ".*timeout",
        "connection.*refused",
        "code: [a-z: ]+!",
        "(?i)code: [A-Z]+[a-z]+!",
        "(?=[a-f]*x)",
        "(a|b)+c",
    ],
)
def test_a_slow_pattern_is_found(pattern: str) -> None:
    assert is_slow(re.compile(pattern))


@pytest.mark.parametrize("pattern", [r"foo\s+bar", r"(?<!\s)\s+$", r"\b\w+@", "(?<!a)a++b", "^a+b", r"^(\w+\s)*$"])
def test_a_quick_pattern_is_not_called_slow(pattern: str) -> None:
    assert not is_slow(re.compile(pattern))


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(mahavishnu.__path__, "mahavishnu."):
        if found.name.split(".")[1] not in READ_TEXTS_OF_THEIR_OWN:
            yield importlib.import_module(found.name)


def patterns_in(value: Any) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from patterns_in(each)
    elif isinstance(value, dict):
        yield from patterns_in([*value, *value.values()])


def values_of(module: ModuleType) -> list[Any]:
    return [value for name, value in vars(module).items() if not name.startswith("__")]


def test_patterns_of_texts_that_are_short_do_not_take_for_ever() -> None:
    patterns = set(patterns_in([values_of(module) for module in modules() if module.__name__ in OF_SHORT_TEXTS]))
    assert len(patterns) > 3
    for pattern in patterns:
        for before, pump in Sampler(pattern).pumps():
            assert seconds(pattern, before + (pump * LONGEST_TEXT)[:LONGEST_TEXT]) < 5, pattern.pattern


@pytest.mark.prove
def test_every_pattern_that_meets_texts_of_others_is_linear() -> None:
    values: list[Any] = [values_of(module) for module in modules() if module.__name__ not in OF_SHORT_TEXTS]
    values += [data.names().parts, [phrase.pattern for phrase in data.phrases()]]
    patterns = set(patterns_in(values))
    assert len(patterns) > 1000
    assert [pattern.pattern for pattern in patterns if is_slow(pattern)] == []


def test_some_patterns_are_searched_for_and_some_are_for_beginnings() -> None:
    assert fingerprint._KEY in patterns_for_beginnings()
    assert fingerprint._SAYING not in patterns_for_beginnings()


def test_every_pattern_is_compiled_where_the_test_above_finds_it() -> None:
    hidden = []
    for module in modules():
        path = Path(str(module.__file__))
        tree = ast.parse(path.read_text("utf-8"))
        inside = {
            id(each)
            for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            for each in ast.walk(function)
        }
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                name = ast.unparse(call.func)
                if name in USES and id(call) in inside and not path.as_posix().endswith(ELSEWHERE):
                    hidden.append(f"{path.name}: {ast.unparse(call)}")
    assert hidden == []
