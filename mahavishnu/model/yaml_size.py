"""How large a YAML document is once its aliases stand for what they name: 1 KB of them may mean gigabytes."""

from __future__ import annotations

from typing import Any

MOST_NODES = 100_000  # of any document that people write


def is_too_large(root: Any) -> bool:
    """Whether a composed node has more than `MOST_NODES` inside. Raises RecursionError for one that contains itself."""
    sizes: dict[int, int] = {}

    def size(node: Any) -> int:
        if id(node) not in sizes:
            inside = node.value if isinstance(node.value, list) else ()
            nodes = [each for item in inside for each in (item if isinstance(item, tuple) else (item,))]
            sizes[id(node)] = 1 + sum(map(size, nodes))
        return sizes[id(node)]

    return size(root) > MOST_NODES
