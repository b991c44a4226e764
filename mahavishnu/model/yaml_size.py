"""Size of a YAML document with its aliases expanded: 1 KB of them may mean gigabytes."""

from __future__ import annotations

from typing import Any

MOST_NODES = 100_000  # of any document that people write


def is_too_large(root: Any) -> bool:
    """Return True for a composed node with more than `MOST_NODES` inside. Raises RecursionError for one in itself."""
    sizes: dict[int, int] = {}

    def size(node: Any) -> int:
        if id(node) not in sizes:
            inside = node.value if isinstance(node.value, list) else ()
            nodes = [each for item in inside for each in (item if isinstance(item, tuple) else (item,))]
            sizes[id(node)] = 1 + sum(map(size, nodes))
        return sizes[id(node)]

    return size(root) > MOST_NODES
