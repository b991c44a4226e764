"""YAML that is small until its aliases are followed."""

from __future__ import annotations


def bomb(key: str) -> str:
    """A map of less than 1 KB; what is under `key` means half a million values."""
    inside = ["v", *(f"*a{depth}" for depth in range(5))]
    maps = [", ".join(f"k{number}: {value}" for number in range(9)) for value in inside]
    return "\n".join([*(f"a{depth}: &a{depth} {{{each}}}" for depth, each in enumerate(maps)), f"{key}: *a5"])
