"""Edits as people write them in forms: paths with values as JSON, or a whole task."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from mahavishnu.model.errors import InvalidInput


def patch_of(rows: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The merge patch that lines of a path and a value mean; empty if nothing is written.

    Raises InvalidInput for a value that is no JSON, and for paths that contradict each other.

    >>> patch_of([("customer.country", '"DE"'), ("express", "true"), ("", "")])
    {'customer': {'country': 'DE'}, 'express': True}
    """
    patch: dict[str, Any] = {}
    for path, value in rows:
        if not path.strip():
            if value.strip():
                raise InvalidInput(f"there is a value without a path: {value:.80}")
            continue
        names, place = path.strip().split("."), patch
        for name in names[:-1]:
            place = place.setdefault(name, {})
            if not isinstance(place, dict):
                raise InvalidInput(f"{path} lies inside of what another line sets")
        if names[-1] in place:
            raise InvalidInput(f"{path} is set twice")
        place[names[-1]] = read_json(value, path)
    return patch


def changes_of(patch: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """What a merge patch sets: each path with its value; None takes the path away.

    >>> list(changes_of({"customer": {"country": "DE"}, "express": None}))
    [('customer.country', 'DE'), ('express', None)]
    """
    for name, value in patch.items():
        path = f"{above}.{name}" if above else name
        if isinstance(value, dict) and value:
            yield from changes_of(value, path)
        else:
            yield path, value


def read_json(text: str, what: str) -> Any:
    """A value that somebody wrote. Raises InvalidInput."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as wrong:
        raise InvalidInput(f'{what}: {text:.80} is no JSON ({wrong}); a text has quotes: "EUR"') from None
