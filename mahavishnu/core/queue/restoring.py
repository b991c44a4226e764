"""Edits before they are made: what one would do, and the one that brings a revision back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.json_value import Difference, same_json
from mahavishnu.model.letter import DeadLetter
from mahavishnu.stores.retained import Revision


@dataclass(frozen=True, slots=True)
class EditPreview:
    """What an edit would do: the fields that people may change as they are and as they would be, and where they differ.

    `refused` says why it could not be done now; `after` is None then.
    """

    before: dict[str, Any]
    after: dict[str, Any] | None
    diff: list[Difference]
    refused: str | None = None


def changes_back_to(letter: DeadLetter, revisions: Sequence[Revision], number: int | None) -> dict[str, Any]:
    """The edit that makes the letter what it was as this revision, the last one if None is given.

    Raises InvalidInput where there is no such revision, or nothing differs from it.
    """
    if not revisions:
        raise InvalidInput(f"letter {letter.key!r} was never edited: there is nothing to go back to")
    known = {each.number: each for each in revisions}
    wanted = max(known) if number is None else number
    if type(wanted) is not int or wanted not in known:
        numbers = f"{min(known)} to {max(known)}" if len(known) > 1 else str(min(known))
        raise InvalidInput(f"letter {letter.key!r} has no revision {wanted!r:.80}, but {numbers}")
    now, then = _editable(Revision.of(letter)), _editable(known[wanted])
    then["max_retries"] = max(then["max_retries"], letter.retry_count)  # those that were used up cannot be given back
    changes = {name: value for name, value in then.items() if not same_json(value, now[name])}
    if changes.get("adapter", "") is None:  # the revision is from before letters named their adapter
        del changes["adapter"]
    if not changes:
        raise InvalidInput(f"letter {letter.key!r} is what revision {wanted} says already")
    if "task" in changes or "payload_types" in changes:  # they belong together
        changes |= {"task": then["task"], "payload_types": then["payload_types"]}
    return changes


def _editable(revision: Revision) -> dict[str, Any]:
    """What comes back of a revision, by its documented names: all but a date that is over."""
    content = {"payload_types": {}, **revision.content()}
    del content["next_retry_at"]
    return content
