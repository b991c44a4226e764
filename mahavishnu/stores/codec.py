"""Letters as documents: the public field names, written once, read back without trust."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, TypeVar

from mahavishnu.model.clock import instant, instant_text
from mahavishnu.model.errors import CorruptRecord, MahavishnuError
from mahavishnu.model.ids import partition_of
from mahavishnu.model.letter import (
    DeadLetter,
    DeadLetterStatus,
    Failure,
    FormerLetter,
    Lease,
    Resolution,
    ResolutionStatus,
    RetryPolicy,
    Source,
    SourceKind,
    Tallies,
    Verdict,
    Version,
    evolve,
)
from mahavishnu.model.payload import EMPTY, Json
from mahavishnu.model.query import words
from mahavishnu.model.reunion import reunite
from mahavishnu.stores.schema import Field, FieldType, Kind, Outcome

SCHEMA = 1  # written into each document; raised when older code could misread a newer one
L = TypeVar("L", bound=DeadLetter)

_encode = json.JSONEncoder(separators=(",", ":")).encode
_TALLIES = tuple(field.name for field in fields(Tallies))


def encode(letter: DeadLetter) -> str:
    """The document's JSON text, without `task` and `metadata`: those are the user's, and the store adds them."""
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "task_id": letter.task_id,
        "entry_id": letter.entry_id,
        "namespace": letter.namespace,
        "queue": letter.queue,
        "repos": letter.repos,
        "error": letter.error,
        "last_error": letter.last_error,
        "failed_at": instant_text(letter.failed_at),
        "created_at": instant_text(letter.created_at),
        "updated_at": instant_text(letter.updated_at),
        "status": letter.status,
        "resolution_status": letter.resolution.status,
        "retry_policy": letter.retry_policy,
        "retry_count": letter.retry_count,
        "max_retries": letter.max_retries,
        "total_attempts": letter.total_attempts,
        "reason": letter.reason,
        "priority": letter.priority,
        "generation": letter.generation,
        "occurrences": letter.occurrences,
        "source_kind": letter.source.kind,
    }
    for name, moment in (
        ("due_at", letter.due_at),
        ("next_retry_at", letter.next_retry_at),
        ("last_retry_at", letter.last_retry_at),
        ("exhausted_at", letter.exhausted_at),
        ("completed_at", letter.completed_at),
        ("archived_at", letter.archived_at),
        ("resolution_timestamp", letter.resolution.at),
    ):
        if moment is not None:
            document[name] = instant_text(moment)
    document |= {
        name: value
        for name, value in (
            ("error_category", letter.error_category),
            ("fingerprint", letter.fingerprint),
            ("verdict_reason", letter.verdict.reason),
            ("verdict_author", letter.verdict.author),
            ("resolved_by", letter.resolution.by),
            ("resolution_notes", letter.resolution.notes),
            ("previous_entry_id", letter.previous_entry_id),
            ("source_queue", letter.source.queue),
            ("source_id", letter.source.id),
            ("original_state", letter.source.state),
        )
        if value is not None
    }
    if letter.depends_on:
        document["depends_on"] = letter.depends_on
    if letter.absorbed:
        document["absorbed"] = letter.absorbed
    if letter.dlq_retry_count:
        document["dlq_retry_count"] = letter.dlq_retry_count
    if letter.recoveries:
        document["recoveries"] = letter.recoveries
    if letter.lease is not None:
        document["lease"] = _lease_document(letter.lease)
        document["claim_owner"] = letter.lease.owner
    for tally in _TALLIES:
        if count := getattr(letter.tallies, tally):
            document["tally_" + tally] = count
    if letter.failures:
        document["failures"] = [_failure_document(failure) for failure in letter.failures]
    return _encode(document)


def decoder(letter: type[L]) -> Callable[[Mapping[str, Any], Version], L]:
    """How to read a document back as a `letter`; raises CorruptRecord for what is not one."""

    def decode(document: Mapping[str, Any], version: Version) -> L:
        try:
            read = document.get
            if read("schema", SCHEMA) > SCHEMA:
                raise ValueError(f"it was written by a newer version (schema {read('schema')}, known is {SCHEMA})")
            policy = document["retry_policy"]
            return letter(
                task_id=_text(document["task_id"]),
                entry_id=_text(document["entry_id"]),
                namespace=_text(document["namespace"]),
                queue=_text(document["queue"]),
                payload=EMPTY if (task := read("task", EMPTY)) is EMPTY else Json.parsed(task),
                labels=_object(read("metadata")),
                repos=_texts(read("repos")),
                error=_text(document["error"]),
                last_error=_text(document["last_error"]),
                failed_at=_instant(document["failed_at"]),
                created_at=_instant(document["created_at"]),
                updated_at=_instant(document["updated_at"]),
                status=DeadLetterStatus(document["status"]),
                resolution=_resolution(read),
                retry_policy=_POLICIES.get(policy) or _text(policy),
                retry_count=_int(read("retry_count", 0)),
                max_retries=_int(document["max_retries"]),
                total_attempts=_int(read("total_attempts", 0)),
                due_at=_maybe_instant(read("due_at")),
                lease=_lease(read("lease")),
                recoveries=_int(read("recoveries", 0)),
                last_retry_at=_maybe_instant(read("last_retry_at")),
                failures=tuple(map(_failure, read("failures") or ())),
                error_category=_maybe_text(read("error_category")),
                verdict=_verdict(read),
                fingerprint=_maybe_text(read("fingerprint")),
                reason=_text(document["reason"]),
                source=_source(read),
                priority=_int(read("priority", 0)),
                depends_on=_texts(read("depends_on")),
                generation=_int(read("generation", 1)),
                previous_entry_id=_maybe_text(read("previous_entry_id")),
                absorbed=_texts(read("absorbed")),
                dlq_retry_count=_int(read("dlq_retry_count", 0)),
                occurrences=_int(read("occurrences", 1)),
                tallies=_tallies(document),
                exhausted_at=_maybe_instant(read("exhausted_at")),
                completed_at=_maybe_instant(read("completed_at")),
                archived_at=_maybe_instant(read("archived_at")),
                version=version,
            )
        except (KeyError, ValueError, TypeError, AttributeError, OverflowError, MahavishnuError) as problem:
            what = f"it has no {problem}" if isinstance(problem, KeyError) else str(problem)
            name = document.get("task_id") if isinstance(document, Mapping) else None
            raise CorruptRecord(str(name), what) from problem

    return decode


_POLICIES = {policy.value: policy for policy in RetryPolicy}
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


def _lease_document(lease: Lease) -> dict[str, Any]:
    due = lease.prior_due and instant_text(lease.prior_due)
    return {"owner": lease.owner, "token": lease.token, "prior": lease.prior, "prior_due": due, "manual": lease.manual}


def _lease(document: Any) -> Lease | None:
    if document is None:
        return None
    prior, due = DeadLetterStatus(document["prior"]), _maybe_instant(document["prior_due"])
    if not isinstance(document["manual"], bool):
        raise TypeError("lease.manual should be true or false")
    return Lease(_text(document["owner"]), _text(document["token"]), prior, due, document["manual"])


def _failure_document(failure: Failure) -> dict[str, Any]:
    document: dict[str, Any] = {"at": instant_text(failure.at), "message": failure.message}
    for name in ("type", "category", "traceback", "processor", "duration_seconds"):
        if (value := getattr(failure, name)) is not None:
            document[name] = value
    return document


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


def _verdict(read: Callable[[str], Any]) -> Verdict:
    reason, author = _maybe_text(read("verdict_reason")), _maybe_text(read("verdict_author"))
    return _NO_VERDICT if reason is author is None else Verdict(reason, author)


def _source(read: Callable[[str], Any]) -> Source:
    kind, queue, identity, state = map(read, ("source_kind", "source_queue", "source_id", "original_state"))
    if kind in (None, "workflow") and queue is identity is state is None:
        return _NO_SOURCE
    return Source(SourceKind(kind or "workflow"), _maybe_text(queue), _maybe_text(identity), _maybe_text(state))


def _tallies(document: Mapping[str, Any]) -> Tallies:
    counts = {tally: _int(document["tally_" + tally]) for tally in _TALLIES if "tally_" + tally in document}
    return Tallies(**counts) if counts else _NO_TALLIES


_KEYWORD, _KEYWORDS, _DATE, _INTEGER = FieldType.KEYWORD, FieldType.KEYWORDS, FieldType.DATE, FieldType.INTEGER
FIELDS: tuple[Field[Any], ...] = (
    Field("task_id", _KEYWORD, lambda letter: letter.task_id),
    Field("entry_id", _KEYWORD, lambda letter: letter.entry_id),
    Field("namespace", _KEYWORD, lambda letter: letter.namespace),
    Field("queue", _KEYWORD, lambda letter: letter.queue),
    Field("status", _KEYWORD, lambda letter: letter.status.value),
    Field("resolution_status", _KEYWORD, lambda letter: letter.resolution.status.value),
    Field("retry_policy", _KEYWORD, lambda letter: str(letter.retry_policy)),
    Field("error_category", _KEYWORD, lambda letter: letter.error_category and str(letter.error_category)),
    Field("reason", _KEYWORD, lambda letter: str(letter.reason)),
    Field("fingerprint", _KEYWORD, lambda letter: letter.fingerprint),
    Field("previous_entry_id", _KEYWORD, lambda letter: letter.previous_entry_id),
    Field("source_kind", _KEYWORD, lambda letter: letter.source.kind.value),
    Field("source_queue", _KEYWORD, lambda letter: letter.source.queue),
    Field("source_id", _KEYWORD, lambda letter: letter.source.id),
    Field("original_state", _KEYWORD, lambda letter: letter.source.state),
    Field("resolved_by", _KEYWORD, lambda letter: letter.resolution.by),
    Field("verdict_author", _KEYWORD, lambda letter: letter.verdict.author),
    Field("claim_owner", _KEYWORD, lambda letter: letter.lease and letter.lease.owner),
    Field("repos", _KEYWORDS, lambda letter: letter.repos),
    Field("depends_on", _KEYWORDS, lambda letter: letter.depends_on),
    Field("words", _KEYWORDS, lambda letter: words(letter.error, letter.last_error), derived=True),
    Field("failed_at", _DATE, lambda letter: letter.failed_at),
    Field("created_at", _DATE, lambda letter: letter.created_at),
    Field("updated_at", _DATE, lambda letter: letter.updated_at),
    Field("due_at", _DATE, lambda letter: letter.due_at),
    Field("next_retry_at", _DATE, lambda letter: letter.next_retry_at),
    Field("last_retry_at", _DATE, lambda letter: letter.last_retry_at),
    Field("exhausted_at", _DATE, lambda letter: letter.exhausted_at),
    Field("completed_at", _DATE, lambda letter: letter.completed_at),
    Field("archived_at", _DATE, lambda letter: letter.archived_at),
    Field("resolution_timestamp", _DATE, lambda letter: letter.resolution.at),
    Field("partition", _INTEGER, lambda letter: partition_of(letter.key), derived=True),
    Field("retry_count", _INTEGER, lambda letter: letter.retry_count),
    Field("max_retries", _INTEGER, lambda letter: letter.max_retries),
    Field("total_attempts", _INTEGER, lambda letter: letter.total_attempts),
    Field("priority", _INTEGER, lambda letter: letter.priority),
    Field("generation", _INTEGER, lambda letter: letter.generation),
    Field("dlq_retry_count", _INTEGER, lambda letter: letter.dlq_retry_count),
    Field("occurrences", _INTEGER, lambda letter: letter.occurrences),
    Field("recoveries", _INTEGER, lambda letter: letter.recoveries),
    *(Field(f"tally_{name}", _INTEGER, attrgetter(f"tallies.{name}")) for name in _TALLIES),
    Field("metadata", FieldType.FLAT, lambda letter: letter.labels),
    Field("error", FieldType.TEXT, lambda letter: letter.error),
    Field("last_error", FieldType.TEXT, lambda letter: letter.last_error),
    Field("verdict_reason", FieldType.TEXT, lambda letter: letter.verdict.reason),
    Field("resolution_notes", FieldType.TEXT, lambda letter: letter.resolution.notes),
    Field("task", FieldType.JSON, lambda letter: letter.payload),
    Field("failures", FieldType.BLOB, lambda letter: letter.failures),
    Field("absorbed", FieldType.BLOB, lambda letter: letter.absorbed),
    Field("lease", FieldType.BLOB, lambda letter: letter.lease),
    Field("schema", _INTEGER, lambda letter: SCHEMA),
)


def _reunite(theirs: DeadLetter, ours: DeadLetter) -> Outcome[DeadLetter]:
    decision = reunite(theirs, ours)
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
    indexes=(("created_at",), ("task_id",)),
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
        ("created_at",),
        ("status", "created_at"),
        ("resolution_status", "created_at"),
        ("fingerprint",),
        ("task_id",),
    ),
    reunite=_reunite,
    due="due_at",
)
