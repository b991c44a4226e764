"""JSON of every awkward shape that users have been seen to hand over."""

from __future__ import annotations

from typing import Any


def _nested(depth: int, *, lists: bool) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value] if lists else {"deeper": value}
    return value


def _mixed(depth: int) -> Any:
    value: Any = "bottom"
    for level in range(depth // 2):
        value = {f"level {level}": [value, level]}
    return value


SCALARS: dict[str, Any] = {
    "null": None,
    "true": True,
    "false": False,
    "zero": 0,
    "minus one": -1,
    "64 bit": 2**63,
    "beyond 64 bit": 10**40,
    "minus beyond 64 bit": -(10**40),
    "one as float": 1.0,
    "minus zero": -0.0,
    "a tenth": 0.1,
    "more digits than a float has": 0.1234567890123456789,
    "largest float": 1.7976931348623157e308,
    "smallest float": 5e-324,
    "exponent": 1e22,
    "empty text": "",
    "text": "naïve Ω 漢字 😀",
    "lone surrogate": "broken \ud800 name \udfff",
    "control characters": "\x00\x01\x1f\x7f\u2028\u2029\r\n\t",
    "quotes": "\"'`\\/%_*?#{}[]<>&$;--",
    "looks like a date": "2026-01-01",
    "looks like a number": "1e5",
    "looks like JSON": '{"a": [1, null]}',
    "looks like a path": "../../etc/passwd",
    "40,000 characters": "ä" * 40_000,
    "one word of 40,000 bytes": "x" * 40_000,
}
OBJECTS: dict[str, dict[str, Any]] = {
    "empty": {},
    "one number": {"value": 1},
    "the same key as text": {"value": "a"},
    "the same key as object": {"value": {"b": 2}},
    "the same key as list": {"value": [1, "a", {"b": 2}, None, [[]]]},
    "the same key as date": {"value": "2026-01-01T00:00:00Z"},
    "the same key as boolean": {"value": True},
    "the same key as float": {"value": 1.5},
    "5,000 keys": {f"key {number}": number for number in range(5_000)},
    "empty and blank keys": {"": 1, " ": 2, "\t": {"": {"": 3}}},
    "dotted keys": {"a.b": 1, "a": {"b": 2, "c.d": 3}, ".": 4, "..": 5, "a..b": 6, ".a": 7, "a.": 8},
    "keys that mean something elsewhere": {
        "_id": 1,
        "_source": {"_type": 2},
        "$ref": 3,
        "__proto__": 4,
        "*": 5,
        "@": 6,
    },
    "names of our own fields": {"task_id": 1, "status": {"keyword": []}, "version": None, "schema": 99, "metadata": []},
    "unicode keys": {"ключ": 1, "键": 2, "😀": 3, "e\u0301": 4, "é": 5, "\ud800": 6, "\x00": 7, '"': 8, "\\": 9},
    "keys that differ in case": {"Key": 1, "key": 2, "KEY": 3},
    "a key of 5,000 characters": {"k" * 5_000: 1},
    "a key of 40,000 characters": {"k" * 40_000: 1},
    "empty containers": {"list": [], "object": {}, "lists": [[], [{}], [None]]},
    "a list of everything": {"list": list(SCALARS.values())},
    "a long list": {"list": list(range(10_000))},
    **{f"{depth} lists deep": {"deep": _nested(depth, lists=True)} for depth in (19, 20, 21, 50, 150)},
    **{f"{depth} objects deep": {"deep": _nested(depth, lists=False)} for depth in (19, 20, 21, 50, 150)},
    "100 lists and objects deep": {"deep": _mixed(100)},
    **{f"scalar: {name}": {"value": value} for name, value in SCALARS.items()},
}
HUGE = {"1 MB in one text": {"text": "0123456789abcdef" * 65_536}, "1 MB in many": {"rows": ["row " * 25] * 10_000}}
ANYTHING: dict[str, Any] = {  # what a task may be, which need not be an object
    **OBJECTS,
    **{f"bare {name}": value for name, value in SCALARS.items()},
    "bare list": [1, [2, [3]], {"four": 4}],
    "bare empty list": [],
}
