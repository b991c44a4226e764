"""What whole families of systems say, catalogue by catalogue. A row is a category's first letter and a text.

T transient, N network, R resource, P permission, V validation, X permanent.
"""

from __future__ import annotations

_CATEGORIES = {
    "T": "transient",
    "N": "network",
    "R": "resource",
    "P": "permission",
    "V": "validation",
    "X": "permanent",
}


def rows(catalogue: str) -> list[tuple[str, str]]:
    """The (category, text) pairs of a catalogue; `\\n` in a text is a line break."""
    found = []
    for line in catalogue.strip().splitlines():
        letter, _, text = line.strip().partition(" ")
        found.append((_CATEGORIES[letter], text.replace("\\n", "\n")))
    return found
