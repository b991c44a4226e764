"""Letters as JSON documents: the parts of a document, the fields only for searches, writing, and reading."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any, TypeVar, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, defstruct
from msgspec.structs import astuple

from mahavishnu.model.errors import CorruptRecord
from mahavishnu.model.json_value import EMPTY, Json
from mahavishnu.model.letter import DeadLetter, adapter_named_by, letter_draft
from mahavishnu.model.letter_parts import (
    Counted,
    DeadLetterStatus,
    Failure,
    Lease,
    RecordedVerdict,
    Requeue,
    RequeueOutcome,
    Resolution,
    ResolutionStatus,
    RetryPolicy,
    Source,
    SourceKind,
    Tallies,
    Version,
    fast_constructor,
)
from mahavishnu.model.query import words
from mahavishnu.stores.dataclass_codec import UNREADABLE, converter_to, json_text, read_instant, why_unreadable
from mahavishnu.stores.kind import flatten, instant_text, scalar_text

# Written into each document; raised when older code could misread a newer one. Such code leaves the letter alone.
# 2: what runs a letter, and how its payload is read, stand in fields. Code that knows only 1 drops them, and counts a
# failed attempt of each letter whose adapter it lacks.
SCHEMA = 2
_SHORT = 1000  # characters of errors whose words are remembered
_ENCRYPTED = re.compile(r'"\$encrypted:1:[A-Za-z0-9._:-]+"')
_LONGEST_PAYLOAD = 8000  # characters of a payload that can be searched
_LARGEST_WITH_VALUES = 64_000  # characters of a payload whose values can be searched for
_MOST_VALUES = 500
_LONGEST_VALUE = 300  # characters, with the path
L = TypeVar("L", bound=DeadLetter)


# --- the parts of a document


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
    grouped_at: str | None = None
    moved: Any = None  # only for searches


class PassingPart(Struct, omit_defaults=True, gc=False):
    """The fields that a run changes, without the tallies."""

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


# --- fields only for searches

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
    """Return the first values inside of its payload as searchable `path=value`; none if that is too large."""
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
    found, more, values = [",".join(map(_quoted, of(letter))) for of in (words_of, more_words_of, task_values_of)]
    dates = f'"captured_at":"{instant_text(letter.captured_at)}","seen_at":"{instant_text(letter.seen_at)}"'
    text = f'"words":[{found}],"more_words":[{more}],"task_values":[{values}],{dates},"partition":{letter.partition}'
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


# --- writing


class _CachedText:
    """The JSON text of a letter's lasting fields, and what follows from them: its search words, the derived fields."""

    __slots__ = ("derived", "text", "words")

    def __init__(self, text: str) -> None:
        self.text = text
        self.words: tuple[str, ...] | None = None
        self.derived: str | None = None


def encode(letter: DeadLetter) -> str:
    """The document's JSON text, without `task` and `metadata`: those are the user's, and the store adds them."""
    cached: _CachedText | None = getattr(letter, "cached_text", None)
    if cached is None:
        cached = _CachedText(json_text(_lasting_part(letter))[:-1])
        if letter.version is not None:  # somebody works on it and will write it again, unlike a new one
            object.__setattr__(letter, "cached_text", cached)
    text = f"{cached.text},{json_text(_passing_part(letter))[1:]}"
    return text if letter.tallies is _BLANK.tallies else f"{text[:-1]}{_tallies_text(letter.tallies)}}}"


def with_version(letter: L, version: Version | None) -> L:
    """The letter as it is stored under this version; its cached text stays. `evolve` takes longer."""
    made = letter_draft(letter)
    made.version = version
    if (cached := getattr(letter, "cached_text", None)) is not None:
        made.cached_text = cached
    made.__class__ = type(letter)
    return cast("L", made)


def _lasting_part(letter: DeadLetter) -> LastingPart:
    verdict, source = letter.verdict, letter.source
    part = LastingPart(  # by position, in a third of the time
        letter.task_id,
        letter.entry_id,
        letter.namespace,
        letter.queue,
        letter.error,
        letter.last_error,
        instant_text(letter.failed_at),
        instant_text(letter.created_at),
        letter.retry_policy,
        letter.max_retries,
        letter.reason,
        SCHEMA,
        letter.repos,
        source.kind,
        letter.priority,
        letter.generation,
        letter.occurrences,
        letter.error_category,
        letter.fingerprint,
        verdict.reason,
        verdict.author,
        letter.previous_entry_id,
        source.queue,
        source.id,
        source.state,
        letter.dlq_retry_count,
        letter.revision,
        letter.depends_on,
        letter.absorbed,
        letter.more_repos,
        tuple([_failure_part(each) for each in letter.failures]),
        letter.captured_digest,
        letter.merged,
        letter.adapter or "",
        letter.tags,
        None if letter.payload_types.text == "{}" else letter.payload_types.shared_value,
        letter.policy_by_verdict,
        letter.former_fingerprints,
        None if letter.captured_task is None else letter.captured_task.text,
        letter.typed,
        instant_text(expires) if (expires := letter.expires_at) else None,
        letter.bound_for,
        instant_text(began) if (began := source.created_at) else None,
    )
    if counted := letter.counted:
        part.counted = CountedPart(counted.mark, counted.letters, counted.reopened, counted.group)
        part.counted_group = counted.group
    if letter.grouped_at is not None:
        part.grouped_at, part.moved = instant_text(letter.grouped_at), 1
    return part


def _passing_part(letter: DeadLetter) -> PassingPart:
    due_at = instant_text(letter.due_at) if letter.due_at else None
    part = PassingPart(
        letter.status,
        instant_text(letter.updated_at),
        letter.resolution.status,
        letter.retry_count,
        letter.total_attempts,
        due_at,
        due_at if letter.status is DeadLetterStatus.PENDING else None,
        instant_text(run) if (run := letter.last_retry_at) else None,
        letter.recoveries,
        letter.settled,
        letter.runs,
        letter.run_outcomes,
        instant_text(exhausted) if (exhausted := letter.exhausted_at) else None,
        instant_text(completed) if (completed := letter.completed_at) else None,
        instant_text(archived) if (archived := letter.archived_at) else None,
    )
    if (resolution := letter.resolution) is not _BLANK.resolution:
        part.resolution_timestamp = instant_text(resolution.at) if resolution.at else None
        part.resolved_by, part.resolution_notes = resolution.by, resolution.notes
    if lease := letter.lease:
        prior_due = instant_text(lease.prior_due) if lease.prior_due else None
        part.lease = LeasePart(
            lease.owner, lease.token, lease.prior, prior_due, lease.manual, lease.failed_again, lease.seconds
        )
        part.claim_owner = lease.owner
    if sent := letter.requeue:
        part.requeue = RequeuePart(instant_text(sent.at), sent.by, sent.outcome, sent.boost, sent.automatic, sent.notes)
        part.requeue_outcome, part.requeue_automatic = sent.outcome, sent.automatic
    part.unfit = letter.unfit
    return part


def _failure_part(failure: Failure) -> FailurePart:
    return FailurePart(
        instant_text(failure.at),
        failure.message,
        failure.type,
        failure.category,
        failure.traceback,
        failure.processor,
        failure.duration_seconds,
        failure.retry_in_seconds,
    )


@lru_cache(1024)  # there are few different ones
def _tallies_text(tallies: Tallies) -> str:
    text = json_text(TalliesPart(*(getattr(tallies, tally) for tally, _ in TALLIES)))[1:-1]
    return f",{text}" if text else ""


# --- reading


def decoder(kind: type[L]) -> Callable[[Mapping[str, Any], Version], L]:
    """Return what reads a document as a letter of this `kind`; it raises CorruptRecord for anything else."""

    def decode(document: Mapping[str, Any], version: Version) -> L:
        try:
            if type(schema := document.get("schema", SCHEMA)) is int and schema > SCHEMA:
                raise ValueError(f"it was written by a newer version (schema {schema}, known is {SCHEMA})")
            payload = Json.from_parsed(document["task"]) if "task" in document else EMPTY
            labels, types = _object(document, "metadata"), _object(document, "payload_types")
            counted = None if _TALLY_NAMES.isdisjoint(document) else _convert_tallies(document)
            lasting, passing = _convert_lasting(document), _convert_passing(document)
            return _letter(kind, lasting, passing, counted, payload, labels, types, version)
        except UNREADABLE as problem:
            name = document.get("task_id") if isinstance(document, Mapping) else None
            raise CorruptRecord(str(name), why_unreadable(problem)) from problem

    return decode


def text_decoder(
    kind: type[L], read_json: Callable[[bytes], Json] = Json.from_stored
) -> Callable[[str, Version | None], L | None]:
    """Return a quick reader of documents' texts, None for unusual ones; `read_json` reads what users gave."""

    def decode(text: str, version: Version | None) -> L | None:
        try:
            lasting, passing = _read_lasting(text), _read_passing(text)
            counted = _read_tallies(text) if '"tally_' in text else None
            payload = EMPTY if lasting.task is UNSET else read_json(bytes(lasting.task))
            labels = _read_if_any(read_json, lasting.metadata)
            types = _read_if_any(read_json, lasting.payload_types)
            if lasting.schema > SCHEMA or labels.text[0] != "{" or types.text[0] != "{":
                return None
            return _letter(kind, lasting, passing, counted, payload, labels, types, version)
        except (*UNREADABLE, RecursionError):
            return None

    return decode


_convert_lasting, _convert_passing = converter_to(LastingPart), converter_to(PassingPart)
_convert_tallies = converter_to(TalliesPart)
_read_lasting = msgspec.json.Decoder(LastingText).decode
_read_passing = msgspec.json.Decoder(PassingPart).decode
_read_tallies = msgspec.json.Decoder(TalliesPart).decode
_TALLY_NAMES = frozenset(name for _, name in TALLIES)
_THEN = datetime(1970, 1, 1, tzinfo=UTC)
_BLANK = DeadLetter(
    task_id="", entry_id="", error="", last_error="", failed_at=_THEN, created_at=_THEN, updated_at=_THEN
)
_shared_tallies = lru_cache(1024)(Tallies)  # there are few different ones
_POLICIES = {policy.value: policy for policy in RetryPolicy}
_new_failure = fast_constructor(Failure)


def _letter(
    kind: type[L],
    lasting: LastingPart,
    passing: PassingPart,
    counted: Any,
    payload: Json,
    labels: Json,
    types: Json,
    version: Version | None,
) -> L:
    made = letter_draft(_BLANK)
    made.task_id = lasting.task_id
    made.entry_id = lasting.entry_id
    made.namespace = lasting.namespace
    made.queue = lasting.queue
    made.payload = payload
    made.labels = labels
    made.repos = lasting.repos or ()
    made.more_repos = lasting.more_repos or ()
    made.error = lasting.error
    made.last_error = lasting.last_error
    made.failed_at = read_instant(lasting.failed_at)
    made.created_at = read_instant(lasting.created_at)
    made.updated_at = read_instant(passing.updated_at)
    made.status = passing.status
    if (status := passing.resolution_status) and status is not ResolutionStatus.PENDING:
        at = _maybe_instant(passing.resolution_timestamp)
        made.resolution = Resolution(status, at, passing.resolved_by, passing.resolution_notes)
    made.retry_policy = _POLICIES.get(lasting.retry_policy, lasting.retry_policy)
    made.retry_count = passing.retry_count or 0
    made.max_retries = lasting.max_retries
    made.total_attempts = passing.total_attempts or 0
    made.due_at = _maybe_instant(passing.due_at)
    if lease := passing.lease:
        prior_due = _maybe_instant(lease.prior_due)
        made.lease = Lease(
            lease.owner, lease.token, lease.prior, prior_due, lease.manual, lease.failed_again, lease.seconds
        )
    made.recoveries = passing.recoveries
    made.unfit = passing.unfit
    made.last_retry_at = _maybe_instant(passing.last_retry_at)
    if lasting.failures:
        made.failures = tuple([_failure(each) for each in lasting.failures])
    made.error_category = lasting.error_category
    if not (lasting.verdict_reason is lasting.verdict_author is None):
        made.verdict = RecordedVerdict(lasting.verdict_reason, lasting.verdict_author)
    made.fingerprint = lasting.fingerprint
    made.reason = lasting.reason
    made.source = _source(lasting)
    unsaid = lasting.adapter is UNSET  # in the export of a development version
    made.adapter = adapter_named_by(made.source, payload) if unsaid else lasting.adapter or None
    made.tags = lasting.tags or ()
    made.payload_types = types
    made.typed = lasting.typed
    made.policy_by_verdict = lasting.policy_by_verdict
    made.former_fingerprints = lasting.former_fingerprints or ()
    made.grouped_at = _maybe_instant(lasting.grouped_at)
    made.priority = lasting.priority or 0
    made.depends_on = lasting.depends_on or ()
    made.generation = 1 if lasting.generation is UNSET else lasting.generation
    made.previous_entry_id = lasting.previous_entry_id
    made.absorbed = lasting.absorbed or ()
    made.dlq_retry_count = lasting.dlq_retry_count
    made.occurrences = 1 if lasting.occurrences is UNSET else lasting.occurrences
    if sent := passing.requeue:
        made.requeue = Requeue(
            read_instant(sent.at), sent.by, sent.boost or 0, sent.notes, sent.outcome, sent.automatic or 0
        )
    made.runs = passing.runs or ()
    made.run_outcomes = passing.run_outcomes or ()
    made.revision = lasting.revision
    made.captured_digest = lasting.captured_digest
    made.captured_task = None if (text := lasting.captured_task) is None else Json.from_parsed(json.loads(text))
    made.merged = lasting.merged or ()
    made.settled = passing.settled
    if counted is not None:
        made.tallies = _shared_tallies(*astuple(counted))
    if sums := lasting.counted:
        made.counted = Counted(sums.mark, sums.letters, sums.reopened, sums.group)
    made.exhausted_at = _maybe_instant(passing.exhausted_at)
    made.completed_at = _maybe_instant(passing.completed_at)
    made.archived_at = _maybe_instant(passing.archived_at)
    made.expires_at = _maybe_instant(lasting.expires_at)
    made.bound_for = lasting.bound_for
    made.version = version
    made.__class__ = kind
    return cast("L", made)


def _read_if_any(read_json: Callable[[bytes], Json], data: Any) -> Json:
    """Read the users' JSON; mostly it is empty, and one object stands for all of those."""
    return EMPTY if not data or (data := bytes(data)) == b"{}" else read_json(data)


def _object(document: Mapping[str, Any], name: str) -> Json:
    if (value := document.get(name)) is not None and not isinstance(value, dict):
        raise TypeError(f"{name} should be an object")
    return Json.from_parsed(value) if value else EMPTY


def _maybe_instant(text: str | None) -> datetime | None:
    return None if text is None else read_instant(text)


def _failure(part: FailurePart) -> Failure:
    return _new_failure(
        at=read_instant(part.at),
        message=part.message,
        type=part.type,
        category=part.category,
        traceback=part.traceback,
        processor=part.processor,
        duration_seconds=part.duration_seconds,
        retry_in_seconds=part.retry_in_seconds,
    )


def _source(document: LastingPart) -> Source:
    kind, queue = document.source_kind or SourceKind.WORKFLOW, document.source_queue
    identity, state = document.source_id, document.original_state
    if kind is SourceKind.WORKFLOW and queue is identity is state is None:
        return _BLANK.source
    return Source(kind, queue, identity, state, _maybe_instant(document.source_created_at))
