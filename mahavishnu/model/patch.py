"""JSON values that change: merge patches (RFC 7386), and where two values differ. Pure functions on parsed JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Difference = dict[str, Any]


def merged(target: Any, patch: Any) -> Any:
    """`target` with a JSON merge patch applied: objects are merged, null removes, everything else replaces.

    >>> merged({"url": "http://a", "retries": 3, "to": {"x": 1, "y": 2}}, {"retries": None, "to": {"y": 3}})
    {'url': 'http://a', 'to': {'x': 1, 'y': 3}}
    """
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def difference(before: Any, after: Any) -> list[Difference]:
    """Where two JSON values differ: `path` (a JSON pointer, RFC 6901), `before` and `after`, each where there is one.

    Objects are compared name by name, lists of one length place by place; other lists differ as a whole.

    >>> difference({"to": {"x": 1, "y": 2}}, {"to": {"x": 1, "y": 3}, "n": [1]})
    [{'path': '/to/y', 'before': 2, 'after': 3}, {'path': '/n', 'after': [1]}]
    """
    return list(_differences(before, after, ""))


def _differences(before: Any, after: Any, path: str) -> Iterator[Difference]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in {**before, **after}:
            yield from _between(before, after, name, f"{path}/{_escaped(name)}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for place, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _differences(one, other, f"{path}/{place}")
    elif not same(before, after):
        yield {"path": path, "before": before, "after": after}


def _between(before: Mapping[str, Any], after: Mapping[str, Any], name: str, path: str) -> Iterator[Difference]:
    if name not in after:
        yield {"path": path, "before": before[name]}
    elif name not in before:
        yield {"path": path, "after": after[name]}
    else:
        yield from _differences(before[name], after[name], path)


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are spelled alike: 1, 1.0 and true are three values, which Python takes for one."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and bool(one == other)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
