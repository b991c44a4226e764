"""Which letter may be meant by a task's id that there is none of."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from mahavishnu.cli.client import Connection
from mahavishnu.cli.output import NotFound
from mahavishnu.model.errors import MahavishnuError

_LOOKED_AT = 2000  # of the newest letters
_NAMED = 3


class NearLetters:
    """Looks for letters whose ids are near to those that were asked for."""

    def __init__(self, api: Connection) -> None:
        self._api = api
        self._newest: list[str] | None = None

    async def explain(self, missing: NotFound, task: str, place: Mapping[str, Any]) -> NotFound:
        """The same error with what may have been meant: the task elsewhere, or others of a name like it."""
        hint = ""
        with suppress(MahavishnuError):  # it is said that there is none, whatever becomes of this
            hint = await self._elsewhere(task, place) or await self._near(task)
        return NotFound(f"{missing}; {hint}") if hint else missing

    async def _elsewhere(self, task: str, place: Mapping[str, Any]) -> str:
        """Where else the task has a letter."""
        seen: set[str] = set()
        for where in ({}, {"namespace": "*"}):  # first in the namespace that was asked for
            found: list[str] = []
            for letter in await self._api.list("/dlq", {"task_id": [task], **where}, _NAMED):
                if letter["entry_id"] in seen:
                    continue
                seen.add(letter["entry_id"])
                words = [f"--namespace {letter['namespace']}"] if where else []
                words += [f"--queue {letter['queue']}"] if letter["queue"] != (place.get("queue") or "default") else []
                found += [" ".join(words)] if words else []
            if found:
                return f"there is one with {' or '.join(dict.fromkeys(found))}"
        return ""

    async def _near(self, task: str) -> str:
        if self._newest is None:
            found = await self._api.list("/dlq", {}, _LOOKED_AT)
            self._newest = list(dict.fromkeys(str(each["task_id"]) for each in found))
        near = [] if task in self._newest else near_names(task, self._newest)  # it may be there, and not open
        return f"did you mean {' or '.join(near)}?" if near else ""


def near_names(given: str, known: list[str]) -> list[str]:
    """The names that begin so or contain it, else those that are spelt like it.

    >>> near_names("order_1", ["order_10", "order_11", "mail"]), near_names("oder_10", ["order_10", "mail"])
    (['order_10', 'order_11'], ['order_10'])
    """
    inside = [name for name in known if given and given in name]
    inside.sort(key=lambda name: not name.startswith(given))
    return inside[:_NAMED] or difflib.get_close_matches(given, known, _NAMED, cutoff=0.75)
