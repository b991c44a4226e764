"""Letters as documents: the public field names, written once, read back without trust."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, TypeVar, cast

from mahavishnu.model.clock import instant
from mahavishnu.model.errors import CorruptRecord, MahavishnuError
from mahavishnu.model.ids import partition_of
from mahavishnu.model.json_value import EMPTY, Json
from mahavishnu.model.letter import DeadLetter, FormerLetter, evolve, letter_draft
from mahavishnu.model.letter_parts import (
    DeadLetterStatus,
    Failure,
    Lease,
    Requeue,
    RequeueOutcome,
    Resolution,
    ResolutionStatus,
    RetryPolicy,
    Source,
    SourceKind,
    Tallies,
    Verdict,
    Version,
)
from mahavishnu.model.reconcile import reconcile_letters, visible_letter
from mahavishnu.stores.kind import Field, FieldType, Kind, Outcome
from mahavishnu.stores.letter_text import PLACES, SCHEMA, TALLIES, encode, words_of

__all__ = ["FIELDS", "HISTORY", "LETTERS", "SCHEMA"]

L = TypeVar("L", bound=DeadLetter)


def decoder(letter: type[L]) -> Callable[[Mapping[str, Any], Version], L]:
    """How to read a document back as a `letter`; raises CorruptRecord for what is not one."""

    def decode(document: Mapping[str, Any], version: Version) -> L:
        try:
            read = document.get
            if _int(read("schema", SCHEMA)) > SCHEMA:
                raise ValueError(f"it was written by a newer version (schema {read('schema')}, known is {SCHEMA})")
            made = letter_draft(_BLANK)
            made.task_id = _text(document["task_id"])
            made.entry_id = _text(document["entry_id"])
            made.namespace = _text(document["namespace"])
            made.queue = _text(document["queue"])
            if "task" in document:
                made.payload = Json.parsed(document["task"])
            made.labels = _object(read("metadata"))
            made.repos = _texts(read("repos"))
            made.more_repos = _texts(read("more_repos"))
            made.error = _text(document["error"])
            made.last_error = _text(document["last_error"])
            made.failed_at = _instant(document["failed_at"])
            made.created_at = _instant(document["created_at"])
            made.updated_at = _instant(document["updated_at"])
            made.status = _STATUSES.get(status := document["status"]) or DeadLetterStatus(status)
            made.resolution = _resolution(read)
            made.retry_policy = _POLICIES.get(policy := document["retry_policy"]) or _text(policy)
            made.retry_count = _int(read("retry_count", 0))
            made.max_retries = _int(document["max_retries"])
            made.total_attempts = _int(read("total_attempts", 0))
            made.due_at = _maybe_instant(read("due_at"))
            made.lease = _lease(read("lease"))
            made.recoveries = _int(read("recoveries", 0))
            made.last_retry_at = _maybe_instant(read("last_retry_at"))
            made.failures = tuple(map(_failure, read("failures") or ()))
            made.error_category = _maybe_text(read("error_category"))
            made.verdict = _verdict(read)
            made.fingerprint = _maybe_text(read("fingerprint"))
            made.reason = _text(document["reason"])
            made.source = _source(read)
            made.priority = _int(read("priority", 0))
            made.depends_on = _texts(read("depends_on"))
            made.generation = _int(read("generation", 1))
            made.previous_entry_id = _maybe_text(read("previous_entry_id"))
            made.absorbed = _texts(read("absorbed"))
            made.dlq_retry_count = _int(read("dlq_retry_count", 0))
            made.occurrences = _int(read("occurrences", 1))
            made.requeue = _requeue(read("requeue"))
            made.runs = _texts(read("runs"))
            made.run_outcomes = _texts(read("run_outcomes"))
            made.revision = _int(read("revision", 0))
            made.settled = _maybe_text(read("settled"))
            made.tallies = _tallies(document)
            made.exhausted_at = _maybe_instant(read("exhausted_at"))
            made.completed_at = _maybe_instant(read("completed_at"))
            made.archived_at = _maybe_instant(read("archived_at"))
            made.version = version
            made.__class__ = letter
            return cast("L", made)
        except (KeyError, ValueError, TypeError, AttributeError, OverflowError, MahavishnuError) as problem:
            what = f"it has no {problem}" if isinstance(problem, KeyError) else str(problem)
            name = document.get("task_id") if isinstance(document, Mapping) else None
            raise CorruptRecord(str(name), what) from problem

    return decode


_POLICIES = {policy.value: policy for policy in RetryPolicy}
_STATUSES = {status.value: status for status in DeadLetterStatus}
_THEN = datetime(1970, 1, 1, tzinfo=UTC)
_BLANK = DeadLetter(
    task_id="", entry_id="", error="", last_error="", failed_at=_THEN, created_at=_THEN, updated_at=_THEN
)
_TALLY_NAMES = frozenset(name for _, name in TALLIES)
_NO_SOURCE, _NO_VERDICT, _NO_TALLIES, _UNRESOLVED = Source(), Verdict(), Tallies(), Resolution()


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} should be text")
    return value


def _maybe_text(value: Any) -> str | None:
    return None if value is None else _text(value)


def _texts(values: Any) -> tuple[str, ...]:
    if values is not None and not isinstance(values, list):
        raise TypeError(f"{values!r} should be a list of texts")
    return tuple(map(_text, values)) if values else ()


def _object(value: Any) -> Json:
    if value is not None and not isinstance(value, dict):
        raise TypeError("metadata should be an object")
    return Json.parsed(value) if value else EMPTY


def _int(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} should be a whole number")
    return value


def _instant(value: Any) -> datetime:
    moment = datetime.fromisoformat(value)
    return moment if moment.tzinfo is UTC else instant(moment)


def _maybe_instant(value: Any) -> datetime | None:
    return None if value is None else _instant(value)


def _lease(document: Any) -> Lease | None:
    if document is None:
        return None
    prior, due = DeadLetterStatus(document["prior"]), _maybe_instant(document["prior_due"])
    if not isinstance(document["manual"], bool):
        raise TypeError("lease.manual should be true or false")
    return Lease(_text(document["owner"]), _text(document["token"]), prior, due, document["manual"])


def _failure(document: Mapping[str, Any]) -> Failure:
    read, seconds = document.get, document.get("duration_seconds")
    if seconds is not None and type(seconds) not in (int, float):
        raise TypeError(f"{seconds!r} should be a number of seconds")
    return Failure(
        _instant(document["at"]),
        _text(document["message"]),
        _maybe_text(read("type")),
        _maybe_text(read("category")),
        _maybe_text(read("traceback")),
        _maybe_text(read("processor")),
        seconds,
    )


def _resolution(read: Callable[[str], Any]) -> Resolution:
    status = ResolutionStatus(read("resolution_status") or "pending")
    if status is ResolutionStatus.PENDING:
        return _UNRESOLVED
    at = _maybe_instant(read("resolution_timestamp"))
    return Resolution(status, at, _maybe_text(read("resolved_by")), _maybe_text(read("resolution_notes")))


def _requeue(document: Any) -> Requeue | None:
    if document is None:
        return None
    read = document.get
    return Requeue(
        at=_instant(document["at"]),
        by=_text(document["by"]),
        boost=_int(read("boost", 0)),
        notes=_maybe_text(read("notes")),
        outcome=RequeueOutcome(document["outcome"]),
        automatic=_int(read("automatic", 0)),
    )


def _verdict(read: Callable[[str], Any]) -> Verdict:
    reason, author = _maybe_text(read("verdict_reason")), _maybe_text(read("verdict_author"))
    return _NO_VERDICT if reason is author is None else Verdict(reason, author)


def _source(read: Callable[[str], Any]) -> Source:
    kind, queue, identity, state = map(read, ("source_kind", "source_queue", "source_id", "original_state"))
    if kind in (None, "workflow") and queue is identity is state is None:
        return _NO_SOURCE
    return Source(SourceKind(kind or "workflow"), _maybe_text(queue), _maybe_text(identity), _maybe_text(state))


def _tallies(document: Mapping[str, Any]) -> Tallies:
    if _TALLY_NAMES.isdisjoint(document):
        return _NO_TALLIES
    return Tallies(**{tally: _int(document[name]) for tally, name in TALLIES if name in document})


_KEYWORD, _KEYWORDS, _DATE, _INTEGER = FieldType.KEYWORD, FieldType.KEYWORDS, FieldType.DATE, FieldType.INTEGER
_TEXT = FieldType.TEXT


def _field(name: str, type_: FieldType) -> Field[Any]:
    place = PLACES.get(name, name)
    return Field(name, type_, attrgetter(place), path=place)


FIELDS: tuple[Field[Any], ...] = (
    _field("task_id", _KEYWORD),
    _field("entry_id", _KEYWORD),
    _field("namespace", _KEYWORD),
    _field("queue", _KEYWORD),
    _field("status", _KEYWORD),
    _field("resolution_status", _KEYWORD),
    Field("retry_policy", _KEYWORD, lambda letter: str(letter.retry_policy)),
    Field("error_category", _KEYWORD, lambda letter: letter.error_category and str(letter.error_category)),
    Field("reason", _KEYWORD, lambda letter: str(letter.reason)),
    _field("fingerprint", _KEYWORD),
    _field("previous_entry_id", _KEYWORD),
    _field("source_kind", _KEYWORD),
    _field("source_queue", _KEYWORD),
    _field("source_id", _KEYWORD),
    _field("original_state", _KEYWORD),
    _field("resolved_by", _KEYWORD),
    _field("verdict_author", _KEYWORD),
    Field("claim_owner", _KEYWORD, lambda letter: letter.lease and letter.lease.owner),
    _field("repos", _KEYWORDS),
    _field("depends_on", _KEYWORDS),
    _field("runs", _KEYWORDS),
    _field("run_outcomes", _KEYWORDS),
    Field("requeue_outcome", _KEYWORD, lambda letter: letter.requeue and str(letter.requeue.outcome)),
    Field("words", _KEYWORDS, words_of, derived=True),
    _field("failed_at", _DATE),
    _field("created_at", _DATE),
    Field("captured_at", _DATE, attrgetter("captured_at"), derived=True, path="captured_at"),
    _field("updated_at", _DATE),
    _field("due_at", _DATE),
    _field("next_retry_at", _DATE),
    _field("last_retry_at", _DATE),
    _field("exhausted_at", _DATE),
    _field("completed_at", _DATE),
    _field("archived_at", _DATE),
    _field("resolution_timestamp", _DATE),
    Field("partition", _INTEGER, lambda letter: partition_of(letter.key), derived=True),
    _field("retry_count", _INTEGER),
    _field("max_retries", _INTEGER),
    _field("total_attempts", _INTEGER),
    _field("priority", _INTEGER),
    _field("generation", _INTEGER),
    _field("dlq_retry_count", _INTEGER),
    _field("occurrences", _INTEGER),
    _field("revision", _INTEGER),
    Field("requeue_automatic", _INTEGER, lambda letter: letter.requeue and letter.requeue.automatic),
    _field("recoveries", _INTEGER),
    *(_field(name, _INTEGER) for _, name in TALLIES),
    _field("metadata", FieldType.FLAT),
    _field("error", _TEXT),
    _field("last_error", _TEXT),
    _field("verdict_reason", _TEXT),
    _field("resolution_notes", _TEXT),
    _field("task", FieldType.JSON),
    _field("failures", FieldType.BLOB),
    _field("absorbed", FieldType.BLOB),
    _field("more_repos", FieldType.BLOB),
    _field("lease", FieldType.BLOB),
    _field("requeue", FieldType.BLOB),
    _field("settled", FieldType.BLOB),
    Field("schema", _INTEGER, lambda letter: SCHEMA),
)


def _reunite(theirs: DeadLetter, ours: DeadLetter, now: datetime) -> Outcome[DeadLetter]:
    decision = reconcile_letters(theirs, ours, now)
    former = (HISTORY, decision.former) if decision.former else None
    return Outcome(decision.live, former, decision.wait)


def _versioned(letter: L, version: Version | None) -> L:
    return evolve(letter, version=version)


HISTORY: Kind[FormerLetter] = Kind(
    name="history",
    index="dlq_history",
    encode=encode,
    decode=decoder(FormerLetter),
    versioned=_versioned,
    fields=FIELDS,
    indexes=(("created_at", "fingerprint"), ("task_id",), ("fingerprint", "created_at"), ("run_outcomes",)),
)
LETTERS: Kind[DeadLetter] = Kind(
    name="letters",
    index="dlq",
    encode=encode,
    decode=decoder(DeadLetter),
    versioned=_versioned,
    fields=FIELDS,
    indexes=(
        ("due_at",),
        ("created_at", "fingerprint"),  # what came lately, by group
        ("status", "created_at"),
        ("resolution_status", "created_at", "reason", "dlq_retry_count"),  # with all that is counted by reason
        (
            "fingerprint",
            "resolution_status",
            "created_at",
            "captured_at",
            "occurrences",
        ),  # all that is counted of groups
        ("task_id",),
        ("run_outcomes",),  # looked at again and again while a bulk run goes on
    ),
    reunite=_reunite,
    standing=visible_letter,
    due="due_at",
)
