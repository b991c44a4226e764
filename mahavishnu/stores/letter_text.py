"""A letter as JSON text, written once as far as it lasts.

Most of a letter is the same before and after a run, so its text is remembered with it, and what a run changes is
written anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import fields
from datetime import datetime
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quoted
from operator import attrgetter
from typing import Any, TypeAlias

from mahavishnu.model.clock import instant_text
from mahavishnu.model.letter import PASSING, DeadLetter, Lease, Tallies, remember, remembered
from mahavishnu.model.query import words

SCHEMA = 1  # written into each document; raised when older code could misread a newer one
TALLIES = tuple((tally.name, f"tally_{tally.name}") for tally in fields(Tallies))
# Where a letter has what its document says, if that is not under the same name.
PLACES = {
    "status": "status._value_",
    "resolution_status": "resolution.status._value_",
    "resolution_timestamp": "resolution.at",
    "resolved_by": "resolution.by",
    "resolution_notes": "resolution.notes",
    "source_kind": "source.kind._value_",
    "source_queue": "source.queue",
    "source_id": "source.id",
    "original_state": "source.state",
    "verdict_reason": "verdict.reason",
    "verdict_author": "verdict.author",
    "metadata": "labels",
    "task": "payload",
    **{name: f"tallies.{tally}" for tally, name in TALLIES},
}
_Member: TypeAlias = "tuple[str, Callable[[Any], str], object]"


def encode(letter: DeadLetter) -> str:
    """The document's JSON text, without `task` and `metadata`: those are the user's, and the store adds them."""
    known = _known(letter)
    if known.text is None:
        known.text = f'{{"schema":{SCHEMA},{_lasting(letter)}'
    lease = f',"lease":{_lease(letter.lease)},"claim_owner":{quoted(letter.lease.owner)}' if letter.lease else ""
    return f"{known.text},{_passing(letter)}{lease}}}"


def words_of(letter: DeadLetter) -> tuple[str, ...]:
    """What a text search finds it by."""
    known = _known(letter)
    if known.words is None:
        known.words = words(letter.error, letter.last_error)
    return known.words


class _Known:
    """What depends on nothing but a letter's lasting fields."""

    __slots__ = ("text", "words")

    def __init__(self) -> None:
        self.text: str | None = None
        self.words: tuple[str, ...] | None = None


def _known(letter: DeadLetter) -> _Known:
    known: _Known | None = remembered(letter)
    if known is None:
        known = _Known()
        if letter.version is not None:  # somebody works on it and will write it again, unlike a new one
            remember(letter, known)
    return known


class _Writer:
    """Writes members of a JSON object, without the braces. A member that has its `empty` value is left out."""

    def __init__(self, *members: _Member) -> None:
        self.places = [PLACES.get(name, name) for name, _, _ in members]
        self._values = attrgetter(*self.places)
        self._members = [(f'"{name}":', write, empty) for name, write, empty in members]

    def __call__(self, record: Any) -> str:
        pairs = zip(self._members, self._values(record), strict=True)
        return ",".join([name + write(value) for (name, write, empty), value in pairs if value != empty])


def _each(write: Callable[[Any], str], *names: str, empty: object = None) -> list[_Member]:
    return [(name, write, empty) for name in names]


def _list(values: Iterable[str]) -> str:
    return f"[{','.join(map(quoted, values))}]"


@lru_cache(1024)  # one move puts one instant into several fields, often of many letters
def _instant(value: datetime) -> str:
    return f'"{instant_text(value)}"'


def _lease(lease: Lease) -> str:
    due = "null" if lease.prior_due is None else _instant(lease.prior_due)
    manual = "true" if lease.manual else "false"
    return (
        f'{{"owner":{quoted(lease.owner)},"token":{quoted(lease.token)},'
        f'"prior":{quoted(lease.prior)},"prior_due":{due},"manual":{manual}}}'
    )


_number = int.__repr__  # refuses what is no whole number
_failure = _Writer(
    *_each(_instant, "at"),
    *_each(quoted, "message", "type", "category", "traceback", "processor"),
    *_each(json.dumps, "duration_seconds"),
)
_lasting = _Writer(
    *_each(quoted, "task_id", "entry_id", "namespace", "queue", "error", "last_error", "retry_policy", "reason"),
    *_each(quoted, "error_category", "fingerprint", "verdict_reason", "verdict_author", "previous_entry_id"),
    *_each(quoted, "source_kind", "source_queue", "source_id", "original_state"),
    *_each(_instant, "failed_at", "created_at"),
    *_each(_number, "max_retries", "priority", "generation", "occurrences"),
    *_each(_number, "dlq_retry_count", empty=0),
    *_each(_list, "repos"),
    *_each(_list, "depends_on", "absorbed", empty=()),
    ("failures", lambda failures: f"[{','.join([f'{{{_failure(each)}}}' for each in failures])}]", ()),
)
_passing = _Writer(
    *_each(quoted, "status", "resolution_status", "resolved_by", "resolution_notes"),
    *_each(_instant, "updated_at", "due_at", "next_retry_at", "last_retry_at"),
    *_each(_instant, "exhausted_at", "completed_at", "archived_at", "resolution_timestamp"),
    *_each(_number, "retry_count", "total_attempts"),
    *_each(_number, "recoveries", *(name for _, name in TALLIES), empty=0),
)
assert PASSING.isdisjoint(place.partition(".")[0] for place in _lasting.places)
