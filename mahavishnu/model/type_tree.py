"""The kinds of the parts of a payload: stored flat, by JSON pointer, and walked as a tree."""

from __future__ import annotations

from collections.abc import Mapping

from mahavishnu.model.json_value import unescape

Types = dict[str, str]  # JSON pointer → kind
EACH = "-"  # in place of an element's place: each of them


class TypeTree:
    """The kind of a part, and those of its parts by name or place."""

    __slots__ = ("kind", "parts")

    def __init__(self) -> None:
        self.kind: str | None = None
        self.parts: dict[str, TypeTree] = {}

    def part(self, step: str | int) -> TypeTree | None:
        """What is known of a member, or of an element by its place: what is said of all is true of it, too."""
        own = self.parts.get(str(step))
        if isinstance(step, str) or (each := self.parts.get(EACH)) is None:
            return own
        return each if own is None else each.with_details(own)

    def with_details(self, other: TypeTree) -> TypeTree:
        """The same, where `other` says nothing else."""
        both = TypeTree()
        both.kind = other.kind or self.kind
        both.parts = {**self.parts, **other.parts}
        for name in self.parts.keys() & other.parts.keys():
            both.parts[name] = self.parts[name].with_details(other.parts[name])
        return both


def tree_of(types: Mapping[str, str]) -> TypeTree:
    """The flat types as a tree."""
    root = TypeTree()
    for path, kind in types.items():
        node = root
        for step in path.split("/")[1:]:
            node = node.parts.setdefault(unescape(step), TypeTree())
        node.kind = kind
    return root
