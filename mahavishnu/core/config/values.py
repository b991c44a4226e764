"""Trees of given values, each of which remembers its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union


@dataclass(frozen=True, slots=True)
class Given:
    """A value, and the variable, line or argument that it came from."""

    value: Any = field(repr=False)
    where: str


Tree = dict[str, Union["Given", "Tree"]]


def grow(value: Any, where: str) -> Given | Tree:
    """`value` as a tree: mappings become branches, all else leaves that came from `where`.

    An empty mapping is a leaf too: whoever gives it wants the map empty, whatever weaker sources say.
    """
    if isinstance(value, Mapping) and value:
        return {str(key): grow(item, where) for key, item in value.items()}
    return Given(value, where)


def plain(tree: Tree) -> dict[str, Any]:
    """The values alone."""
    return {key: item.value if isinstance(item, Given) else plain(item) for key, item in tree.items()}


def flat(tree: Tree, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Given]]:
    """Every leaf with the way to it."""
    for key, item in tree.items():
        if isinstance(item, Given):
            yield (*above, key), item
        else:
            yield from flat(item, (*above, key))


def merge(low: Tree, high: Tree) -> Tree:
    """Both, `high` where they differ: branches are merged key by key, lists and other leaves are replaced."""
    merged = dict(low)
    for key, item in high.items():
        below = merged.get(key)
        merged[key] = merge(below, item) if isinstance(below, dict) and isinstance(item, dict) else item
    return merged


def plant(tree: Tree, keys: Sequence[str], item: Given | Tree) -> Given | None:
    """Put `item` at `keys`. A leaf that stands in the way, above or there, stays and is returned."""
    for key in keys[:-1]:
        branch = tree.setdefault(key, {})
        if isinstance(branch, Given):
            return branch
        tree = branch
    there = tree.get(keys[-1])
    if isinstance(there, Given):
        return there
    tree[keys[-1]] = merge(there, item) if isinstance(there, dict) and isinstance(item, dict) else item
    return None


def where_is(tree: Tree, keys: Sequence[str | int]) -> str | None:
    """Where the value at `keys` came from: the nearest leaf on the way there, else the first one below."""
    at: Given | Tree = tree
    for key in keys:
        if isinstance(at, Given) or str(key) not in at:
            break
        at = at[str(key)]
    else:
        below = next(flat(at), None) if isinstance(at, dict) else None
        return below[1].where if below else at.where if isinstance(at, Given) else None
    return at.where if isinstance(at, Given) else None
