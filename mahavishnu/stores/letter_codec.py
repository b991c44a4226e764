"""Letters as JSON documents, in both directions; `mahavishnu.stores.letter_document` says what is in one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeVar, cast

import msgspec
from msgspec import UNSET
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
    Resolution,
    ResolutionStatus,
    RetryPolicy,
    Source,
    SourceKind,
    Tallies,
    Version,
    fast_constructor,
)
from mahavishnu.stores.dataclass_codec import UNREADABLE, converter_to, json_text, read_instant, why_unreadable
from mahavishnu.stores.kind import instant_text
from mahavishnu.stores.letter_document import (
    SCHEMA,
    TALLIES,
    CountedPart,
    FailurePart,
    LastingPart,
    LastingText,
    LeasePart,
    PassingPart,
    RequeuePart,
    TalliesPart,
)

L = TypeVar("L", bound=DeadLetter)

# ----------------------------------------------------------------------------------------------------------- writing


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


# ----------------------------------------------------------------------------------------------------------- reading


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
    """Return what reads a document's text, in half the time; it gives None for a text to read with more care.

    Such a text is corrupt, or holds what msgspec does not take: an escaped lone surrogate, for example. `read_json`
    reads what users gave: by default as it is, because the store has written it.
    """

    def decode(text: str, version: Version | None) -> L | None:
        try:
            lasting, passing = _read_lasting(text), _read_passing(text)
            counted = _read_tallies(text) if '"tally_' in text else None
            payload = EMPTY if lasting.task is UNSET else read_json(bytes(lasting.task))
            labels = _known(read_json, lasting.metadata)
            types = _known(read_json, lasting.payload_types)
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


def _known(read_json: Callable[[bytes], Json], data: Any) -> Json:
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
