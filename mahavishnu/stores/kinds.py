"""The kinds of letters and of what outlives them; each room declares its own in its `records.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple, replace

from mahavishnu.model.errors import CorruptRecord
from mahavishnu.model.letter import DeadLetter, FormerLetter
from mahavishnu.model.letter_parts import Tallies
from mahavishnu.model.reconcile import reconcile_letters, visible_letter
from mahavishnu.model.record import Version, Versioned
from mahavishnu.model.tombstones import GroupSum, ListedTombstone
from mahavishnu.stores.kind import BLOB, TEXT, Field, FieldType, Kind, ReconcileResult, instant_text
from mahavishnu.stores.letter_codec import (
    PATHS,
    SCHEMA,
    TALLIES,
    TalliesPart,
    decoder,
    derived_text,
    encode,
    maybe_instant,
    maybe_text,
    more_words_of,
    task_values_of,
    text_decoder,
    words_of,
)
from mahavishnu.stores.record_codec import (
    UNREADABLE,
    converter_to,
    json_text,
    read_instant,
    record_kind,
    set_version,
    why_unreadable,
)
from mahavishnu.stores.retained import LedgerEntry, Revision

KEYWORD, KEYWORDS, DATE, INTEGER = FieldType.KEYWORD, FieldType.KEYWORDS, FieldType.DATE, FieldType.INTEGER

# ----------------------------------------------------------------------------------------- letters, and former letters

_ENDING = "resolution.status._value_"


def _fields(type_: FieldType, *names: str, omitted: int | None = None, late: bool = False) -> list[Field[Any]]:
    paths = [(name, PATHS.get(name, name)) for name in names]
    return [Field(name, type_, attrgetter(path), path=path, late=late, omitted=omitted) for name, path in paths]


# A store may keep them in this order: a new one comes last of its type.
_LETTER_FIELDS: tuple[Field[Any], ...] = (
    *_fields(KEYWORD, "task_id", "entry_id"),
    Field("namespace", KEYWORD, attrgetter("namespace"), path="namespace", common=True),
    *_fields(KEYWORD, "queue"),
    Field("status", KEYWORD, attrgetter("status._value_"), path="status._value_", rare=("retrying",)),
    Field("resolution_status", KEYWORD, attrgetter(_ENDING), path=_ENDING, rare=("pending",)),
    Field("retry_policy", KEYWORD, lambda letter: str(letter.retry_policy)),
    Field("error_category", KEYWORD, lambda letter: letter.error_category and str(letter.error_category)),
    Field("reason", KEYWORD, lambda letter: str(letter.reason)),
    *_fields(KEYWORD, "fingerprint", "previous_entry_id", "source_kind", "source_queue", "source_id", "original_state"),
    *_fields(KEYWORD, "resolved_by", "verdict_author", late=True),
    Field("claim_owner", KEYWORD, lambda letter: letter.lease and letter.lease.owner, late=True),
    *_fields(KEYWORDS, "repos"),
    *_fields(KEYWORDS, "depends_on", late=True),
    *_fields(KEYWORDS, "runs", "run_outcomes", "tags"),
    Field("requeue_outcome", KEYWORD, lambda letter: letter.requeue and str(letter.requeue.outcome)),
    Field("adapter", KEYWORD, lambda letter: letter.adapter or ""),  # what has none can be asked for
    *_fields(KEYWORD, "bound_for"),
    *_fields(KEYWORD, "unfit"),
    Field("counted_group", KEYWORD, lambda letter: letter.counted and letter.counted.group),
    Field("words", KEYWORDS, words_of, derived=True, late=True),
    Field("more_words", KEYWORDS, more_words_of, derived=True, late=True),
    Field("task_values", KEYWORDS, task_values_of, derived=True, late=True),
    *_fields(DATE, "failed_at", late=True),
    *_fields(DATE, "created_at"),
    Field("captured_at", DATE, attrgetter("captured_at"), derived=True, path="captured_at"),
    *_fields(DATE, "updated_at", "due_at"),
    *_fields(DATE, "next_retry_at", late=True),
    *_fields(DATE, "last_retry_at", "exhausted_at", "completed_at"),
    *_fields(DATE, "archived_at", late=True),
    *_fields(DATE, "resolution_timestamp", "expires_at", "grouped_at"),
    Field("seen_at", DATE, attrgetter("seen_at"), derived=True, path="seen_at"),
    Field("partition", INTEGER, attrgetter("partition"), derived=True, path="partition"),
    *_fields(INTEGER, "retry_count", "max_retries", "total_attempts", late=True),
    *_fields(INTEGER, "priority", "generation"),
    *_fields(INTEGER, "dlq_retry_count", omitted=0),
    *_fields(INTEGER, "occurrences"),
    *_fields(INTEGER, "revision", omitted=0, late=True),
    Field("requeue_automatic", INTEGER, lambda letter: letter.requeue and letter.requeue.automatic, late=True),
    *_fields(INTEGER, "recoveries", omitted=0, late=True),
    *_fields(INTEGER, *(name for _, name in TALLIES), omitted=0),
    Field("moved", INTEGER, lambda letter: letter.grouped_at and 1),
    *_fields(FieldType.FLAT, "metadata"),
    *_fields(TEXT, "error", "last_error", "verdict_reason", "resolution_notes"),
    *_fields(FieldType.JSON, "task"),
    *_fields(
        BLOB,
        "failures",
        "absorbed",
        "more_repos",
        "lease",
        "requeue",
        "settled",
        "captured_digest",
        "merged",
        "payload_types",
        "policy_by_verdict",
        "former_fingerprints",
        "captured_task",
        "typed",
        "source_created_at",
        "counted",
    ),
    Field("schema", INTEGER, lambda letter: SCHEMA, late=True),
)


HISTORY: Kind[FormerLetter] = Kind(
    name="history",
    index="dlq_history",
    encode=encode,
    decode=decoder(FormerLetter),
    decode_text=text_decoder(FormerLetter),
    encode_derived=derived_text,
    versioned=set_version,
    fields=_LETTER_FIELDS,
    indexes=(
        ("namespace", "created_at", "fingerprint"),
        ("task_id",),
        ("fingerprint", "namespace", "created_at"),
        ("run_outcomes", "namespace"),
    ),
)


def _reconcile_letters(theirs: DeadLetter, ours: DeadLetter, now: datetime) -> ReconcileResult[DeadLetter]:
    decision = reconcile_letters(theirs, ours, now)
    former = (HISTORY, decision.former) if decision.former else None
    return ReconcileResult(decision.live, former, decision.wait)


LETTERS: Kind[DeadLetter] = Kind(
    name="letters",
    index="dlq",
    encode=encode,
    decode=decoder(DeadLetter),
    decode_text=text_decoder(DeadLetter),
    encode_derived=derived_text,
    versioned=set_version,
    fields=_LETTER_FIELDS,
    indexes=(
        # Each app asks for its own namespace, and does not pass over what others have.
        ("namespace", "due_at", "adapter"),  # a letter that is due for others is passed over without being looked at
        ("namespace", "created_at", "fingerprint"),  # what came lately, by group
        ("namespace", "status", "created_at"),
        # with all that is counted by reason
        ("namespace", "resolution_status", "created_at", "reason", "dlq_retry_count"),
        ("fingerprint", "namespace", "resolution_status", "created_at"),
        ("namespace", "generation", "tally_reopened"),  # what is in no sum: most closed letters are passed over
        ("task_id",),
        # By hour: few letters are in the latest ones.
        ("completed_at", "namespace"),
        ("exhausted_at", "namespace"),
        ("last_retry_at", "namespace"),
        ("run_outcomes", "namespace"),  # looked at again and again while a bulk run goes on
    ),
    sparse=("completed_at", "exhausted_at", "last_retry_at"),
    reconcile=_reconcile_letters,
    visible=visible_letter,
    due="due_at",
)

# ------------------------------------------------------------------------- what is retained of deleted and edited ones


class _ListedPart(Struct, omit_defaults=True):
    """A tombstone that the entry lists."""

    key: str
    entry_id: str
    updated_at: str
    generation: int
    tallies: dict[str, int] = {}
    returning: bool = False
    closed: bool = False
    group: str | None = None
    created_at: str | None = None
    grouped_at: str | None = None
    seen_at: str | None = None


class _EntryDocument(Struct, omit_defaults=True):
    """A ledger entry as it is stored, without its tallies."""

    entry_id: str
    at: str
    gone: int  # only for searches
    letters: int
    folding: tuple[_ListedPart, ...] | None = ()
    namespace: str | None = None
    groups: dict[str, tuple[int, str, str]] = {}
    seen: dict[str, str] = {}
    by_group: int = 0  # only for searches


_read_entry, _read_tallies = converter_to(_EntryDocument), converter_to(TalliesPart)


def _counts(tallies: Tallies) -> dict[str, int]:
    return {name: count for tally, name in TALLIES if (count := getattr(tallies, tally))}


def _tallies(counts: Mapping[str, Any]) -> Tallies:
    return Tallies(*astuple(_read_tallies(counts)))


def _encode_entry(entry: LedgerEntry) -> str:
    known = _EntryDocument(
        entry.entry_id,
        instant_text(entry.at),
        entry.state.value,
        entry.letters,
        tuple(
            _ListedPart(
                each.key,
                each.entry_id,
                instant_text(each.updated_at),
                each.generation,
                _counts(each.tallies),
                each.returning,
                each.closed,
                each.group,
                maybe_text(each.created_at),
                maybe_text(each.grouped_at),
                maybe_text(each.seen_at),
            )
            for each in entry.folding
        ),
        entry.namespace,
        {
            name: (each.letters, instant_text(each.first), instant_text(each.last))
            for name, each in entry.groups.items()
        },
        {name: instant_text(each.seen) for name, each in entry.groups.items() if each.seen is not None},
        len(entry.groups),
    )
    counts = _counts(entry.tallies)
    text = json_text(known)
    return f"{text[:-1]},{json_text(counts)[1:]}" if counts else text


def _decode_entry(document: Mapping[str, Any], version: Version) -> LedgerEntry:
    try:
        known = _read_entry(document)
        return LedgerEntry(
            known.entry_id,
            read_instant(known.at),
            known.letters,
            _tallies(document),
            tuple(
                ListedTombstone(
                    each.key,
                    each.entry_id,
                    read_instant(each.updated_at),
                    each.generation,
                    _tallies(each.tallies),
                    each.returning,
                    each.closed,
                    each.group,
                    maybe_instant(each.created_at),
                    maybe_instant(each.grouped_at),
                    maybe_instant(each.seen_at),
                )
                for each in known.folding or ()
            ),
            known.namespace,
            {
                name: GroupSum(letters, read_instant(first), read_instant(last), maybe_instant(known.seen.get(name)))
                for name, (letters, first, last) in known.groups.items()
            },
            version,
        )
    except UNREADABLE as problem:
        raise CorruptRecord(str(document.get("entry_id")), why_unreadable(problem)) from problem


LEDGER: Kind[LedgerEntry] = Kind(
    name="ledger",
    index="dlq_ledger",
    encode=_encode_entry,
    decode=_decode_entry,
    versioned=set_version,
    fields=(
        Field("entry_id", KEYWORD, attrgetter("entry_id")),
        Field("at", DATE, attrgetter("at")),
        Field("gone", INTEGER, lambda entry: entry.state.value),
        Field("letters", INTEGER, attrgetter("letters")),
        *_fields(INTEGER, *(name for _, name in TALLIES), omitted=0),
        Field("folding", BLOB, attrgetter("folding")),
        Field("namespace", KEYWORD, attrgetter("namespace")),
        Field("groups", BLOB, attrgetter("groups")),
        Field("by_group", INTEGER, lambda entry: len(entry.groups) or None),
    ),
)


def _later_revision(theirs: Revision, ours: Revision, now: datetime) -> ReconcileResult[Revision]:
    later = ours.updated_at > theirs.updated_at
    return ReconcileResult(replace(ours, version=theirs.version) if later else None)


REVISIONS = record_kind(
    Revision, name="revisions", index="dlq_revisions", indexes=[("entry_id", "number")], reconcile=_later_revision
)


# --------------------------------------------------------------- local stores, as the store of all processes knows them


class LocalStore(Versioned, frozen=True):
    """A local store for outages: where it is, how much it keeps for the store of all processes, and since when.

    The process that used it last renews `seen_at` while it lives and reaches that store. `key` is what the local store
    calls itself, so that it is the same one on another host or under another name.
    """

    key: str
    host: str
    pid: int
    place: str
    seen_at: datetime
    kept: int = 0  #: records that have not come home
    letters: int = 0  #: those of them that are letters
    oldest: datetime | None = None
    version: Version | None = None

    def is_stale(self, now: datetime) -> bool:
        """Return whether its process has died, or does not reach the store."""
        return now - self.seen_at > STALE_AFTER

    def is_over(self, now: datetime) -> bool:
        """Return whether it may be forgotten: it kept nothing when it was seen last, and that was long ago."""
        return not self.kept and now - self.seen_at > FORGOTTEN_AFTER


STALE_AFTER, FORGOTTEN_AFTER = timedelta(minutes=5), timedelta(days=7)
LOCAL_STORES = record_kind(LocalStore, name="local_stores", index="dlq_local_stores")

_offers: list[Callable[[], Iterable[Kind[Any]]]] = []


def offer_kinds(load: Callable[[], Iterable[Kind[Any]]]) -> None:
    """Count the kinds that `load()` returns among those of stores; packages above this one have some, too."""
    _offers.append(load)


def stored_kinds() -> tuple[Kind[Any], ...]:
    """Return the kinds that come home from a local store; one that is missing comes once its collection is used."""
    return (LETTERS, HISTORY, LEDGER, REVISIONS, *(kind for load in _offers for kind in load()))
