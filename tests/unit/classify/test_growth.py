"""Regular expressions that meet texts of others take time in proportion to the length of the text."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import mahavishnu
from mahavishnu.classify import growth
from mahavishnu.classify.builtin import data
from mahavishnu.classify.growth import Growth, growth_of

LINEAR, POLYNOMIAL, EXPONENTIAL = Growth.LINEAR, Growth.POLYNOMIAL, Growth.EXPONENTIAL
# The command line and the configuration read what the operator of the process wrote.
READ_TEXTS_OF_OTHERS = ("adapters", "bulk", "classify", "engine", "model", "stores")

# A query has LONGEST_TEXT characters at most, and its patterns are matched at one place.
OF_SHORT_TEXTS = {f"mahavishnu.model.query_{name}" for name in ("text", "completion", "spelling", "times")}
USES = {f"re.{name}" for name in ("compile", "search", "match", "fullmatch", "sub", "split", "findall", "finditer")}
# Of the tables, which the test reads; of an operator's rules, which are examined, an index's name, a store's URL, and
# of an operator's keys to be redacted, whose wildcards go back over nothing.
ELSEWHERE = ("data.py", "yaml_rules.py", "growth.py", "index.py", "urls.py", "payload.py", "error_masks.py")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("refused", LINEAR),
        (r"foo\s+bar", LINEAR),
        (r"\s+", LINEAR),  # it matches where it begins
        (r"\s+$", POLYNOMIAL),  # from every blank to the last, and the end does not come
        (r"(?<!\s)\s+$", LINEAR),
        (r"\b\w+@", LINEAR),
        (r"\b[\w.]+@", POLYNOMIAL),
        (r"\b[\w.]{1,80}@", LINEAR),
        ("a++b", POLYNOMIAL),
        ("(?<!a)a++b", LINEAR),
        ("xa+a+b", POLYNOMIAL),
        ("xa++a+b", LINEAR),
        ("^a+b", LINEAR),
        ("(?m)^a+b", LINEAR),
        (r"(?m)^\s+b", POLYNOMIAL),  # every line begins where blanks of the line before go on
        (".*timeout", POLYNOMIAL),
        ("connection.*refused", POLYNOMIAL),
        ("code: [a-z]+!", LINEAR),
        ("code: [a-z: ]+!", POLYNOMIAL),
        ("code: [A-Z]+[a-z]+!", LINEAR),
        ("(?i)code: [A-Z]+[a-z]+!", POLYNOMIAL),
        ("code: (?i:[A-Z]+)[a-z]+!", POLYNOMIAL),
        ("(?=[a-f]*x)", POLYNOMIAL),
        ("(?<![a-f])(?=[a-f]*x)", LINEAR),
        (r"(['\"])[^'\"]*\1x", LINEAR),
        ("(a|b)+c", POLYNOMIAL),
        ("(a+)+b", EXPONENTIAL),
        ("(a*)*b", EXPONENTIAL),
        ("(a|aa)+b", EXPONENTIAL),
        (r"(\w+\s?)*$", EXPONENTIAL),
        (r"^(\w+\s)*$", LINEAR),
        (r"^(\d+|[\d.]+)*:", EXPONENTIAL),
    ],
)
def test_the_growth_of_a_pattern(pattern: str, expected: Growth) -> None:
    assert growth_of(re.compile(pattern)) is expected


def test_what_is_too_large_to_be_examined_is_not_called_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "_MOST_STEPS", 10)
    assert growth_of(re.compile("x(?:a|b|cd)+y")) is POLYNOMIAL


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(mahavishnu.__path__, "mahavishnu."):
        if found.name.split(".")[1] in READ_TEXTS_OF_OTHERS:
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


def test_patterns_of_texts_that_are_short_are_not_exponential() -> None:
    patterns = set(patterns_in([values_of(module) for module in modules() if module.__name__ in OF_SHORT_TEXTS]))
    assert len(patterns) > 3
    assert [pattern.pattern for pattern in patterns if growth_of(pattern) is EXPONENTIAL] == []


@pytest.mark.prove
def test_every_pattern_that_meets_texts_of_others_is_linear() -> None:
    values: list[Any] = [values_of(module) for module in modules() if module.__name__ not in OF_SHORT_TEXTS]
    values += [data.names().parts, [phrase.pattern for phrase in data.phrases()]]
    patterns = set(patterns_in(values))
    assert len(patterns) > 1000
    assert [pattern.pattern for pattern in patterns if growth_of(pattern) is not LINEAR] == []


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
                if name in USES and id(call) in inside and path.name not in ELSEWHERE:
                    hidden.append(f"{path.name}: {ast.unparse(call)}")
    assert hidden == []
