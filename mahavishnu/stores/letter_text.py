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
from typing import Any

from mahavishnu.model.clock import instant_text
from mahavishnu.model.letter import DeadLetter, remember, remembered
from mahavishnu.model.letter_parts import Failure, Lease, Requeue, Tallies, compile_function
from mahavishnu.model.query import words

SCHEMA = 1  # written into each document; raised when older code could misread a newer one
_SHORT = 1000
_NONE_YET = next(each.default for each in fields(DeadLetter) if each.name == "tallies")  # as new letters have it
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


class _Known:
    """What depends on nothing but a letter's lasting fields."""

    __slots__ = ("text", "words")

    def __init__(self, text: str) -> None:
        self.text = text
        self.words: tuple[str, ...] | None = None


def encode(letter: DeadLetter) -> str:
    """The document's JSON text, without `task` and `metadata`: those are the user's, and the store adds them."""
    known: _Known | None = remembered(letter)
    if known is None:
        known = _Known(f'{{"schema":{SCHEMA},{_lasting(letter)}')
        if letter.version is not None:  # somebody works on it and will write it again, unlike a new one
            remember(letter, known)
    lease = f',"lease":{_lease(letter.lease)},"claim_owner":{quoted(letter.lease.owner)}' if letter.lease else ""
    requeue = f',"requeue":{_requeue(letter.requeue)}' if letter.requeue else ""
    return f"{known.text},{_passing(letter)}{lease}{requeue}}}"


def words_of(letter: DeadLetter) -> tuple[str, ...]:
    """What a text search finds it by."""
    known: _Known | None = remembered(letter)
    if known is not None and known.words is not None:
        return known.words
    first, last = letter.error, letter.last_error
    found = _few_words(first, last) if len(first) + len(last) <= _SHORT else words(first, last)
    if known is not None:
        known.words = found
    return found


_few_words = lru_cache(1024)(words)  # the same errors happen again and again, above all when much fails


def _optional(*members: tuple[str, Callable[[Any], str], object]) -> Callable[[Any], str]:
    """Writes those members of a JSON object that have something to say, with a comma before each."""
    lines, scope = ["text = ''"], dict[str, Any]()
    for place, (name, write, empty) in enumerate(members):
        scope |= {f"name{place}": f',"{name}":', f"write{place}": write, f"empty{place}": empty}
        unlike = "is not None" if empty is None else f"!= empty{place}"
        lines.append(f"if (value := record.{PLACES.get(name, name)}) {unlike}:")
        lines.append(f"    text += name{place} + write{place}(value)")
    written: Callable[[Any], str] = compile_function("record", [*lines, "return text"], scope)
    return written


def _each(
    write: Callable[[Any], str], *names: str, empty: object = None
) -> list[tuple[str, Callable[[Any], str], object]]:
    return [(name, write, empty) for name in names]


def _lasting(letter: DeadLetter) -> str:
    return (
        f'"task_id":{quoted(letter.task_id)},"entry_id":{quoted(letter.entry_id)},'
        f'"namespace":{quoted(letter.namespace)},"queue":{quoted(letter.queue)},"repos":{_list(letter.repos)},'
        f'"error":{quoted(letter.error)},"last_error":{quoted(letter.last_error)},'
        f'"failed_at":{_instant(letter.failed_at)},"created_at":{_instant(letter.created_at)},'
        f'"retry_policy":{quoted(letter.retry_policy)},"max_retries":{letter.max_retries:d},'
        f'"reason":{quoted(letter.reason)},"source_kind":{quoted(letter.source.kind)},'
        f'"priority":{letter.priority:d},"generation":{letter.generation:d},"occurrences":{letter.occurrences:d}'
        f"{_maybe_lasting(letter)}"
    )


def _passing(letter: DeadLetter) -> str:
    return (
        f'"status":{quoted(letter.status)},"resolution_status":{quoted(letter.resolution.status)},'
        f'"updated_at":{_instant(letter.updated_at)},'
        f'"retry_count":{letter.retry_count:d},"total_attempts":{letter.total_attempts:d}{_maybe_passing(letter)}'
        f"{'' if letter.tallies is _NONE_YET else _tallies(letter.tallies)}"
    )


def _list(values: Iterable[str]) -> str:
    return f"[{','.join(map(quoted, values))}]"


@lru_cache(1024)  # one move puts one instant into several fields, often of many letters
def _instant(value: datetime) -> str:
    return f'"{instant_text(value)}"'


def _lease(lease: Lease) -> str:
    due = "null" if lease.prior_due is None else _instant(lease.prior_due)
    return (
        f'{{"owner":{quoted(lease.owner)},"token":{quoted(lease.token)},"prior":{quoted(lease.prior)},'
        f'"prior_due":{due},"manual":{"true" if lease.manual else "false"}}}'
    )


@lru_cache(1024)
def _requeue(requeue: Requeue) -> str:
    notes = "" if requeue.notes is None else f',"notes":{quoted(requeue.notes)}'
    outcome = quoted(requeue.outcome)
    return (
        f'{{"at":{_instant(requeue.at)},"by":{quoted(requeue.by)},"boost":{requeue.boost:d}{notes},'
        f'"outcome":{outcome},"automatic":{requeue.automatic:d}}},"requeue_outcome":{outcome},'
        f'"requeue_automatic":{requeue.automatic:d}'
    )


def _failures(failures: Iterable[Failure]) -> str:
    texts = [
        f'{{"at":{_instant(each.at)},"message":{quoted(each.message)}{_maybe_failure(each)}}}' for each in failures
    ]
    return f"[{','.join(texts)}]"


@lru_cache(1024)  # there are few different ones
def _tallies(tallies: Tallies) -> str:
    return "".join([f',"{name}":{count:d}' for tally, name in TALLIES if (count := getattr(tallies, tally))])


_maybe_failure = _optional(
    *_each(quoted, "type", "category", "traceback", "processor"),
    *_each(json.dumps, "duration_seconds"),
)
_maybe_lasting = _optional(
    *_each(quoted, "error_category", "fingerprint", "verdict_reason", "verdict_author", "previous_entry_id"),
    *_each(quoted, "source_queue", "source_id", "original_state"),
    *_each(int.__repr__, "dlq_retry_count", "revision", empty=0),
    *_each(_list, "depends_on", "absorbed", "more_repos", empty=()),
    *_each(_failures, "failures", empty=()),
)
_maybe_passing = _optional(
    *_each(_instant, "due_at", "next_retry_at", "last_retry_at", "exhausted_at", "completed_at", "archived_at"),
    *_each(_instant, "resolution_timestamp"),
    *_each(quoted, "resolved_by", "resolution_notes", "settled"),
    *_each(int.__repr__, "recoveries", empty=0),
    *_each(_list, "runs", "run_outcomes", empty=()),
)
