"""The merge patch of `--patch` and `--set`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from mahavishnu.cli.client import Connection, task_path
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.json_value import pointer_step

PatchFor: TypeAlias = Callable[[Mapping[str, str]], Any]


def read_patch(given: str | None) -> str | None:
    """Return the text of `--patch`, read once: itself, a file (`@NAME`), or stdin (`-`). Raises InvalidInput."""
    if given is None:
        return None
    try:
        if given == "-":
            return sys.stdin.read()
        return Path(given[1:]).read_text(encoding="utf-8") if given.startswith("@") else given
    except UnicodeDecodeError:
        raise InvalidInput(f"--patch: {given[1:]} is not UTF-8") from None
    except OSError as problem:
        raise InvalidInput(f"--patch: {given[1:]} cannot be read: {problem.strerror}") from None


def patch_of(patch: str | None, sets: Sequence[str] | None, types: Mapping[str, str] | None = None) -> Any:
    """The merge patch that the options mean, or None; `patch` is what `read_patch` returned. Raises InvalidInput.

    A number for a value that is a decimal by its `types` stays as it is spelled.

    >>> patch_of('{"url": null}', ["size.width=3", "name=ann"])
    {'url': None, 'size': {'width': 3}, 'name': 'ann'}
    >>> patch_of(None, ["amount=12.50"], {"/amount": "decimal"})
    {'amount': '12.50'}
    """
    if patch is None and not sets:
        return None
    found = _json(patch) if patch is not None else {}
    for each in sets or ():
        path, equals, text = each.partition("=")
        names = path.split(".")
        if not equals or not all(names):
            raise InvalidInput(f"--set takes path=value, such as user.age=3, not {each!r:.80}")
        place = found
        for name in names[:-1]:
            place = place.setdefault(name, {}) if isinstance(place, dict) else place
        if not isinstance(place, dict):
            raise InvalidInput(f"--set {each!r:.80} goes into something that --patch makes no object of")
        value = _value(text)
        kind = (types or {}).get("/" + "/".join(map(pointer_step, names)))
        place[names[-1]] = text if kind == "decimal" and isinstance(value, float) else value
    return found


def patch_for(patch: str | None, sets: Sequence[str] | None) -> PatchFor | None:
    """Return what makes the merge patch for letters of some types; None where it is the same for all."""
    return partial(patch_of, patch, sets) if sets else None


async def common_types(api: Connection, letters: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The types that the payloads of all these letters have at the same places."""
    common: dict[str, str] | None = None
    for letter in letters:
        place = {"namespace": letter["namespace"], "queue": letter["queue"]}
        types = (await api.ask("GET", task_path(letter["task_id"], "letter"), params=place)).json()["payload_types"]
        common = types if common is None else {path: kind for path, kind in common.items() if types.get(path) == kind}
    return common or {}


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise InvalidInput(f"--patch is not JSON: {problem}") from None


def _value(text: str) -> Any:
    """JSON, or else the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
