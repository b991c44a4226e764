"""Letters as JSON documents: the parts of a document, the fields only for searches, writing, and reading."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from itertools import islice
from json.encoder import encode_basestring_ascii as _quoted
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, defstruct
from msgspec.structs import asdict, astuple

from mahavishnu.model.errors import CorruptRecord
from mahavishnu.model.json_value import EMPTY, Json
from mahavishnu.model.letter import DeadLetter, adapter_named_by
from mahavishnu.model.letter_parts import (
    WORKFLOW_SOURCE,
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
)
from mahavishnu.model.query import words
from mahavishnu.model.record import Version, defaults_of
from mahavishnu.stores.kind import flatten, instant_text, scalar_text
from mahavishnu.stores.record_codec import UNREADABLE, converter_to, json_text, read_instant, why_unreadable

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


class LetterDocument(Struct, omit_defaults=True, gc=False):
    """A letter as it is stored, without `task` and `metadata`, which are the user's."""

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
    counted: Counted | None = None
    counted_group: Any = None  # only for searches
    grouped_at: str | None = None
    moved: Any = None  # only for searches
    status: DeadLetterStatus | UnsetType = UNSET
    updated_at: str | UnsetType = UNSET
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


class LetterText(LetterDocument, kw_only=True, gc=False):
    """A stored letter with what the user gave, as it stands in the document's text."""

    task: Raw | UnsetType = UNSET
    metadata: Raw | UnsetType = UNSET
    payload_types: Raw | UnsetType | None = UNSET


TALLIES = tuple((tally, f"tally_{tally}") for tally in Tallies.__struct_fields__)
_TALLY_FIELDS = [(name, int, 0) for _, name in TALLIES]
TalliesPart = defstruct("TalliesPart", _TALLY_FIELDS, omit_defaults=True, gc=False)
_Document = defstruct("LetterDocument", _TALLY_FIELDS, bases=(LetterDocument,))
_Text = defstruct("LetterText", _TALLY_FIELDS, bases=(LetterText,), kw_only=True)
# Where a letter has what a field of its document says, if that is not under the same name.
PATHS = {
    "resolution_status": "resolution.status",
    "resolution_timestamp": "resolution.at",
    "resolved_by": "resolution.by",
    "resolution_notes": "resolution.notes",
    "source_kind": "source.kind._value_",
    "source_queue": "source.queue",
    "source_id": "source.id",
    "original_state": "source.state",
    "source_created_at": "source.created_at",
    "verdict_reason": "verdict.reason",
    "verdict_author": "verdict.author",
    "metadata": "labels",
    "task": "payload",
    **{name: f"tallies.{tally}" for tally, name in TALLIES},
}


# --- fields only for searches

_few_words = lru_cache(1024)(words)  # the same errors happen again and again, above all when much fails


def words_of(letter: DeadLetter) -> tuple[str, ...]:
    """Return the words by which a text search finds the letter."""
    first, last = letter.error, letter.last_error
    return _few_words(first, last) if len(first) + len(last) <= _SHORT else words(first, last)


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
    found, more, values = [",".join(map(_quoted, of(letter))) for of in (words_of, more_words_of, task_values_of)]
    dates = f'"captured_at":"{instant_text(letter.captured_at)}","seen_at":"{instant_text(letter.seen_at)}"'
    return f'"words":[{found}],"more_words":[{more}],"task_values":[{values}],{dates},"partition":{letter.partition}'


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


def _lease_part(lease: Lease) -> LeasePart:
    part = LeasePart(*astuple(lease))
    part.prior_due = maybe_text(lease.prior_due)
    return part


def document_of(letter: DeadLetter) -> Any:
    """Return the letter as it is stored."""
    verdict, source, resolution, due_at = letter.verdict, letter.source, letter.resolution, letter.due_at
    lease, requeue, counted, task = letter.lease, letter.requeue, letter.counted, letter.captured_task
    due, types, tallies = maybe_text(due_at), letter.payload_types, letter.tallies
    return _Document(  # by position, in a third of the time
        letter.task_id, letter.entry_id, letter.namespace, letter.queue, letter.error, letter.last_error,
        instant_text(letter.failed_at), instant_text(letter.created_at), letter.retry_policy, letter.max_retries,
        letter.reason, SCHEMA, letter.repos, source.kind, letter.priority, letter.generation, letter.occurrences,
        letter.error_category, letter.fingerprint, verdict.reason, verdict.author, letter.previous_entry_id,
        source.queue, source.id, source.state, letter.dlq_retry_count, letter.revision, letter.depends_on,
        letter.absorbed, letter.more_repos,
        tuple([FailurePart(instant_text(each.at), *astuple(each)[1:]) for each in letter.failures]),
        letter.captured_digest, letter.merged, letter.adapter or "", letter.tags,
        None if types.text == "{}" else Raw(types.text), letter.policy_by_verdict, letter.former_fingerprints,
        None if task is None else task.text, letter.typed, maybe_text(letter.expires_at), letter.bound_for,
        maybe_text(source.created_at), counted,
        None if counted is None else counted.group, maybe_text(letter.grouped_at), letter.grouped_at and 1,
        letter.status, instant_text(letter.updated_at), resolution.status, letter.retry_count, letter.total_attempts,
        due, due if letter.status is DeadLetterStatus.PENDING else None, maybe_text(letter.last_retry_at),
        letter.recoveries, letter.settled, letter.runs, letter.run_outcomes, maybe_text(letter.exhausted_at),
        maybe_text(letter.completed_at), maybe_text(letter.archived_at), maybe_text(resolution.at), resolution.by,
        resolution.notes, None if lease is None else _lease_part(lease),
        None if requeue is None else RequeuePart(**{**asdict(requeue), "at": instant_text(requeue.at)}),
        None if lease is None else lease.owner,
        None if requeue is None else requeue.outcome, None if requeue is None else requeue.automatic, letter.unfit,
        *(() if tallies is _NO_TALLIES else astuple(tallies)),
    )  # fmt: skip


_NO_TALLIES = defaults_of(DeadLetter)["tallies"]


def maybe_text(moment: datetime | None) -> str | None:
    """Spell an instant that may be missing."""
    return None if moment is None else instant_text(moment)


def encode(letter: DeadLetter) -> str:
    """The document's JSON text, without `task` and `metadata`: those are the user's, and the store adds them."""
    return json_text(document_of(letter))


# --- reading


def decoder(kind: type[L]) -> Callable[[Mapping[str, Any], Version], L]:
    """Return what reads a document as a letter of this `kind`; it raises CorruptRecord for anything else."""

    def decode(document: Mapping[str, Any], version: Version) -> L:
        try:
            if type(schema := document.get("schema", SCHEMA)) is int and schema > SCHEMA:
                raise ValueError(f"it was written by a newer version (schema {schema}, known is {SCHEMA})")
            payload = Json.from_parsed(document["task"]) if "task" in document else EMPTY
            labels, types = _object(document, "metadata"), _object(document, "payload_types")
            known = _convert(document)
            return _letter(kind, known, _failures(known), payload, labels, types, version)
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
            document = _read(text)
            failures = _failures(document)
            payload = EMPTY if document.task is UNSET else read_json(bytes(document.task))
            labels = _read_if_any(read_json, document.metadata)
            types = _read_if_any(read_json, document.payload_types)
            if document.schema > SCHEMA or labels.text[0] != "{" or types.text[0] != "{":
                return None
            return _letter(kind, document, failures, payload, labels, types, version)
        except (*UNREADABLE, RecursionError):
            return None

    return decode


_convert = converter_to(_Document)
_read: Callable[[str], Any] = msgspec.json.Decoder(_Text).decode
_POLICIES = {policy.value: policy for policy in RetryPolicy}
_tally_values = attrgetter(*(name for _, name in TALLIES))
_shared_tallies = lru_cache(1024)(Tallies)  # there are few different ones
_shared_verdict = lru_cache(1024)(RecordedVerdict)
_PENDING = Resolution()


def _letter(
    kind: type[L],
    document: Any,
    failures: tuple[Failure, ...],
    payload: Json,
    labels: Json,
    types: Json,
    version: Version | None,
) -> L:
    """Return the letter. What its document does not say has the default."""
    for name in ("status", "updated_at"):
        if getattr(document, name) is UNSET:
            raise ValueError(f"it has no {name!r}")
    source, requeue, task = _source(document), document.requeue, document.captured_task
    unsaid = document.adapter is UNSET  # in the export of a development version
    return kind(  # by position, in a fifth of the time
        document.task_id, document.entry_id, document.error, document.last_error, read_instant(document.failed_at),
        read_instant(document.created_at), read_instant(document.updated_at), payload, document.repos or (),
        document.more_repos or (), labels, document.namespace, document.queue, document.status, _resolution(document),
        _POLICIES.get(document.retry_policy, document.retry_policy), document.retry_count or 0, document.max_retries,
        document.total_attempts or 0, maybe_instant(document.due_at),
        None if document.lease is None else _lease(document.lease), document.recoveries,
        maybe_instant(document.last_retry_at), failures, document.error_category,
        _shared_verdict(document.verdict_reason, document.verdict_author), document.fingerprint, document.reason,
        source, adapter_named_by(source, payload) if unsaid else document.adapter or None, document.tags or (), types,
        document.typed, document.policy_by_verdict, document.former_fingerprints or (),
        maybe_instant(document.grouped_at), document.priority or 0, document.depends_on or (),
        1 if document.generation is UNSET else document.generation, document.previous_entry_id,
        document.absorbed or (), document.merged or (), document.dlq_retry_count,
        1 if document.occurrences is UNSET else document.occurrences, None if requeue is None else _requeue(requeue),
        document.runs or (), document.run_outcomes or (), document.revision, document.captured_digest,
        None if task is None else Json.from_parsed(json.loads(task)), document.settled, document.unfit,
        _shared_tallies(*_tally_values(document)), document.counted,
        maybe_instant(document.exhausted_at), maybe_instant(document.completed_at),
        maybe_instant(document.archived_at), maybe_instant(document.expires_at), document.bound_for, version,
    )  # fmt: skip


def _source(document: Any) -> Source:
    kind, queue = document.source_kind or SourceKind.WORKFLOW, document.source_queue
    identity, state = document.source_id, document.original_state
    if kind is SourceKind.WORKFLOW and queue is identity is state is None:
        return WORKFLOW_SOURCE
    return Source(kind, queue, identity, state, maybe_instant(document.source_created_at))


def _resolution(document: Any) -> Resolution:
    if not (status := document.resolution_status) or status is ResolutionStatus.PENDING:
        return _PENDING
    at = maybe_instant(document.resolution_timestamp)
    return Resolution(status, at, document.resolved_by, document.resolution_notes)


def _failures(document: Any) -> tuple[Failure, ...]:
    parts: tuple[FailurePart, ...] = document.failures or ()
    return tuple([Failure(read_instant(part.at), *astuple(part)[1:]) for part in parts])


def _lease(part: LeasePart) -> Lease:
    owner, token, prior, prior_due, *others = astuple(part)
    return Lease(owner, token, prior, maybe_instant(prior_due), *others)


def _requeue(part: RequeuePart) -> Requeue:
    boost, automatic = part.boost or 0, part.automatic or 0
    return Requeue(read_instant(part.at), part.by, boost, part.notes, part.outcome, automatic)


def _read_if_any(read_json: Callable[[bytes], Json], data: Any) -> Json:
    """Read the users' JSON; mostly it is empty, and one object stands for all of those."""
    return EMPTY if not data or (data := bytes(data)) == b"{}" else read_json(data)


def _object(document: Mapping[str, Any], name: str) -> Json:
    if (value := document.get(name)) is not None and not isinstance(value, dict):
        raise TypeError(f"{name} should be an object")
    return Json.from_parsed(value) if value else EMPTY


def maybe_instant(text: str | None) -> datetime | None:
    """Read an instant that may be missing."""
    return None if text is None else read_instant(text)
