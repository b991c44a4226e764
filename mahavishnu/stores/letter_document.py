"""The stored format of letters: the names and types of a document's fields, where an instant is a text.

A field that is None, 0 or () by default is left out while it is that. One that is UNSET by default is always written,
because it is searched for, but an imported document may lack it. A document is written in two parts, because
most of a letter is the same before and after a run, and that part of the text need not be written again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from functools import lru_cache
from itertools import islice
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType, defstruct

from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus, RequeueOutcome, ResolutionStatus, SourceKind, Tallies
from mahavishnu.model.query import words
from mahavishnu.stores.kind import flatten, instant_text, scalar_text

# Written into each document; raised when older code could misread a newer one. Such code leaves the letter alone.
# 2: what runs a letter, and how its payload is read, stand in fields. Code that knows only 1 drops them, and counts a
# failed attempt of each letter whose adapter it lacks.
SCHEMA = 2


class FailurePart(Struct, omit_defaults=True, gc=False):
    """One failed run."""

    at: str
    message: str
    type: str | None = None
    category: str | None = None
    traceback: str | None = None
    processor: str | None = None
    duration_seconds: int | float | None = None
    retry_in_seconds: int | float | None = None


class LeasePart(Struct, omit_defaults=True, gc=False):
    """The lease, if the letter has one."""

    owner: str
    token: str
    prior: DeadLetterStatus
    prior_due: str | None
    manual: bool
    failed_again: bool = False
    seconds: int | float = 0.0


class RequeuePart(Struct, omit_defaults=True, gc=False):
    """The last requeue, if there was one."""

    at: str
    by: str
    outcome: RequeueOutcome
    boost: int | UnsetType = UNSET
    automatic: int | UnsetType = UNSET
    notes: str | None = None


class CountedPart(Struct, omit_defaults=True, gc=False):
    """Numbers that the letter had counted of itself when a sum took them."""

    mark: str
    letters: int
    reopened: int = 0
    group: str = ""


class LastingPart(Struct, omit_defaults=True, gc=False):
    """Fields that mostly stay the same as long as the letter lives."""

    task_id: str
    entry_id: str
    namespace: str
    queue: str
    error: str
    last_error: str
    failed_at: str
    created_at: str
    retry_policy: str
    max_retries: int
    reason: str
    schema: int = 0
    repos: tuple[str, ...] | UnsetType | None = UNSET
    source_kind: SourceKind | UnsetType | None = UNSET
    priority: int | UnsetType = UNSET
    generation: int | UnsetType = UNSET
    occurrences: int | UnsetType = UNSET
    error_category: str | None = None
    fingerprint: str | None = None
    verdict_reason: str | None = None
    verdict_author: str | None = None
    previous_entry_id: str | None = None
    source_queue: str | None = None
    source_id: str | None = None
    original_state: str | None = None
    dlq_retry_count: int = 0
    revision: int = 0
    depends_on: tuple[str, ...] | None = ()
    absorbed: tuple[str, ...] | None = ()
    more_repos: tuple[str, ...] | None = ()
    failures: tuple[FailurePart, ...] | None = ()
    captured_digest: str | None = None
    merged: tuple[str, ...] | None = ()
    adapter: str | UnsetType | None = UNSET  # empty for none
    tags: tuple[str, ...] | None = ()
    payload_types: Any = None
    policy_by_verdict: bool = False
    former_fingerprints: tuple[str, ...] | None = ()
    captured_task: str | None = None  # as JSON text
    typed: bool = False
    expires_at: str | None = None
    bound_for: str | None = None
    source_created_at: str | None = None
    counted: CountedPart | None = None
    counted_group: Any = None  # only for searches


class PassingPart(Struct, omit_defaults=True, gc=False):
    """Fields that a run changes: those of `mahavishnu.model.letter.PASSING`, without the tallies."""

    status: DeadLetterStatus
    updated_at: str
    resolution_status: ResolutionStatus | UnsetType | None = UNSET
    retry_count: int | UnsetType = UNSET
    total_attempts: int | UnsetType = UNSET
    due_at: str | None = None
    next_retry_at: str | None = None  # only for searches, as are the last three: they follow from the others
    last_retry_at: str | None = None
    recoveries: int = 0
    settled: str | None = None
    runs: tuple[str, ...] | None = ()
    run_outcomes: tuple[str, ...] | None = ()
    exhausted_at: str | None = None
    completed_at: str | None = None
    archived_at: str | None = None
    resolution_timestamp: str | None = None
    resolved_by: str | None = None
    resolution_notes: str | None = None
    lease: LeasePart | None = None
    requeue: RequeuePart | None = None
    claim_owner: Any = None
    requeue_outcome: Any = None
    requeue_automatic: Any = None
    unfit: str | None = None


class LastingText(LastingPart, kw_only=True, gc=False):
    """The lasting part with what the user gave, as it stands in a document's text."""

    task: Raw | UnsetType = UNSET
    metadata: Raw | UnsetType = UNSET
    payload_types: Raw | UnsetType | None = UNSET


TALLIES = tuple((tally.name, f"tally_{tally.name}") for tally in fields(Tallies))
TalliesPart = defstruct("TalliesPart", [(name, int, 0) for _, name in TALLIES], omit_defaults=True, gc=False)


# -------------------------------------------------------------------------------------- fields only for searches

_SHORT = 1000
_ENCRYPTED = re.compile(r'"\$encrypted:1:[A-Za-z0-9._:-]+"')
_LONGEST_PAYLOAD = 8000  # characters of a payload that can be searched
_LARGEST_WITH_VALUES = 64_000  # characters of a payload whose values can be searched for
_MOST_VALUES = 500
_LONGEST_VALUE = 300  # characters, with the path
_few_words = lru_cache(1024)(words)  # the same errors happen again and again, above all when much fails


def words_of(letter: DeadLetter) -> tuple[str, ...]:
    """Return the words by which a text search finds the letter."""
    cached = getattr(letter, "cached_text", None)
    if cached is not None and cached.words is not None:
        known: tuple[str, ...] = cached.words
        return known
    first, last = letter.error, letter.last_error
    found = _few_words(first, last) if len(first) + len(last) <= _SHORT else words(first, last)
    if cached is not None:
        cached.words = found
    return found


def more_words_of(letter: DeadLetter) -> tuple[str, ...]:
    """Return further words of a text search: the task id, the types of errors, the payload."""
    types = [failure.type for failure in letter.failures]
    return words(letter.task_id, *types, _searchable_text(letter.payload))


def task_values_of(letter: DeadLetter) -> tuple[str, ...]:
    """Return the values inside of its payload as `path=value`, each searchable alone.

    Bounded, as the words are: none of a payload that is too large, and only the first of many.
    """
    payload = letter.payload
    if payload.text == "{}" or len(payload.text) > _LARGEST_WITH_VALUES:
        return ()
    pairs = dict.fromkeys(f"{path}={text}" for path, text in flatten(payload.shared_value) if path)
    return tuple(islice((pair for pair in pairs if len(pair) <= _LONGEST_VALUE), _MOST_VALUES))


def derived_text(letter: DeadLetter) -> str:
    """Return the members of a document that are only there to be searched, as JSON: all follow from lasting fields."""
    cached = getattr(letter, "cached_text", None)
    if cached is not None and cached.derived is not None:
        known: str = cached.derived
        return known
    found, more = ",".join(map(_quoted, words_of(letter))), ",".join(map(_quoted, more_words_of(letter)))
    values = ",".join(map(_quoted, task_values_of(letter)))
    at, partition = instant_text(letter.captured_at), letter.partition
    text = (
        f'"words":[{found}],"more_words":[{more}],"task_values":[{values}],"captured_at":"{at}","partition":{partition}'
    )
    if cached is not None:
        cached.derived = text
    return text


def _searchable_text(payload: Json) -> str | None:
    """The keys and values of the payload, as far as they are searched for."""
    text = payload.text
    if text == "{}":
        return None
    if '"$encrypted:' in text:  # nobody searches for ciphertext
        text = _ENCRYPTED.sub('""', text)
    if len(text) > _LONGEST_PAYLOAD:
        text = text[:_LONGEST_PAYLOAD]
    return text if "\\" not in text else "\n".join(_scalars(payload.shared_value))[:_LONGEST_PAYLOAD]


def _scalars(value: Any) -> Iterator[str]:
    """The keys and values as texts, without the escapes of JSON."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _scalars(item)
    elif isinstance(value, list):
        for item in value:
            yield from _scalars(item)
    else:
        yield scalar_text(value)
