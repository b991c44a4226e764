"""Letters as documents: nothing is lost on the way, and nothing unreadable is taken for a letter."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings

from mahavishnu.model.clock import instant_text
from mahavishnu.model.errors import CorruptRecord
from mahavishnu.model.ids import partition_of
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter, FormerLetter, evolve
from mahavishnu.model.letter_parts import DeadLetterStatus, RecordedVerdict, Resolution, RetryPolicy, Source, Tallies
from mahavishnu.model.lifecycle import archive, merge, violations
from mahavishnu.stores.kind import FieldType
from mahavishnu.stores.kinds import HISTORY, LETTERS
from mahavishnu.stores.letter_codec import SCHEMA
from tests.support.letters import NOON, captured, claimed, failure, noon
from tests.support.strategies import letters

fewer = settings(max_examples=40)  # each letter has every field, so a few dozen of them are thousands of values
DOCUMENTED = {
    "task_id", "task", "repos", "error", "failed_at", "retry_count", "max_retries", "retry_policy", "next_retry_at",
    "status", "metadata", "error_category", "last_error", "total_attempts", "updated_at",
}  # fmt: skip


def document_of(letter: DeadLetter) -> dict[str, Any]:
    """What a store keeps, parsed."""
    document: dict[str, Any] = json.loads(LETTERS.document(letter))
    return document


def decoded(document: Mapping[str, Any]) -> DeadLetter:
    """What a store gives back, whether it has the document's text or a parser has read it: the same letter or error."""
    text = json.dumps(document, separators=(",", ":"))
    try:
        from_text: DeadLetter | CorruptRecord = LETTERS.read(text, (1,))
    except (CorruptRecord, TypeError) as problem:
        from_text = problem if isinstance(problem, CorruptRecord) else CorruptRecord("None", str(problem))
    try:
        letter = LETTERS.decode(document, (1,))
    except CorruptRecord as problem:
        assert isinstance(from_text, CorruptRecord)
        if isinstance(document, Mapping):
            assert (problem.key, problem.reason) == (from_text.key, from_text.reason)
        raise
    assert from_text == letter
    return letter


def derived_members(letter: DeadLetter) -> dict[str, Any]:
    """The derived fields as a store adds them to a document's text."""
    assert LETTERS.encode_derived is not None
    members: dict[str, Any] = json.loads(f"{{{LETTERS.encode_derived(letter)}}}")
    return members


full = captured(error_category="network", payload=Json.of({"a": 1}), labels=Json.of({"team": "x"}), repos=("r",))
running = claimed(merge(full, failure(at=noon(1)), noon(1)))


@fewer
@given(letter=letters)
def test_every_letter_comes_back_equal(letter: DeadLetter) -> None:
    """Through text, whatever is in its fields; the store's version is put on it."""
    back = decoded(document_of(letter))

    assert back == letter
    assert back.version == (1,)
    assert isinstance(back.status, DeadLetterStatus)
    assert LETTERS.document(letter).isascii()


@fewer
@given(letter=letters)
def test_a_former_letter_comes_back_as_one(letter: DeadLetter) -> None:
    """The same document under another key."""
    former = FormerLetter.of(letter)

    assert HISTORY.decode(json.loads(HISTORY.document(former)), (2,)) == former
    assert HISTORY.document(former) == LETTERS.document(letter)


@fewer
@given(letter=letters)
def test_the_searchable_fields_are_those_of_the_document(letter: DeadLetter) -> None:
    """What a search compares is what the document says; only derived fields are not in it by themselves."""
    document = document_of(letter)
    for field in LETTERS.fields:
        value = field.value(letter)
        if field.derived:
            assert field.name not in document
        elif field.type in (FieldType.FLAT, FieldType.JSON):
            assert Json.of(document[field.name]) == value
        elif field.type is not FieldType.BLOB and value not in (None, 0, ()):
            shown = instant_text(value) if isinstance(value, datetime) else value
            assert document[field.name] == (list(shown) if isinstance(shown, tuple) else shown)
    assert document.keys() <= LETTERS.by_name.keys()
    assert LETTERS.derived_values(letter)["partition"] == partition_of(letter.key)
    assert LETTERS.derived_values(letter)["captured_at"] == instant_text(letter.captured_at)
    assert derived_members(letter) == LETTERS.derived_values(letter)


def test_a_document_has_the_documented_names() -> None:
    """The fifteen that users query by, with the values they know."""
    document = document_of(full)

    assert document.keys() >= DOCUMENTED
    assert {name: document[name] for name in sorted(DOCUMENTED)} == {
        "error": "boom",
        "error_category": "network",
        "failed_at": "2026-01-01T12:00:00.000Z",
        "last_error": "boom",
        "max_retries": 3,
        "metadata": {"team": "x"},
        "next_retry_at": "2026-01-01T12:01:00.000Z",
        "repos": ["r"],
        "retry_count": 0,
        "retry_policy": "exponential",
        "status": "pending",
        "task": {"a": 1},
        "task_id": "wf_1",
        "total_attempts": 0,
        "updated_at": "2026-01-01T12:00:00.000Z",
    }
    assert document["schema"] == SCHEMA == 2


def test_a_lease_is_not_shown_as_a_retry_date() -> None:
    """I2 in the document: who asks for the next retries does not find what is running."""
    document = document_of(running)

    assert "next_retry_at" not in document
    assert document["due_at"] == "2026-01-01T12:06:00.000Z"
    assert document["claim_owner"] == "worker-1"
    assert "worker-1" not in document_of(archive(full, now=NOON, by="ada")).values()


def test_users_json_stays_as_it_is() -> None:
    """Keys that look like fields, and texts that look like JSON, are only what they are."""
    trap = {"status": "archived", "task": {"task_id": "x"}, 'a"}': '"},"status":"archived"'}
    document = document_of(captured(payload=Json.of(trap), labels=Json.of(trap)))

    assert document["task"] == document["metadata"] == trap
    assert document["status"] == "pending"


# -------------------------------------------------------------------------------------------- other people's documents

REQUIRED = {
    "task_id", "entry_id", "namespace", "queue", "error", "last_error", "failed_at", "created_at", "updated_at",
    "status", "retry_policy", "max_retries", "reason",
}  # fmt: skip


def test_what_is_not_there_has_its_default() -> None:
    """R226, R410: the least a document can be; unknown fields of a later minor version do no harm."""
    least = {name: document_of(full)[name] for name in {*REQUIRED, "task"}}

    letter = decoded({**least, "some_later_field": [1]})

    assert letter == DeadLetter(
        task_id="wf_1",
        entry_id="entry-1",
        error="boom",
        last_error="boom",
        failed_at=NOON,
        created_at=NOON,
        updated_at=NOON,
        payload=Json.of({"a": 1}),
    )
    assert (letter.tallies, letter.source, letter.verdict, letter.resolution) == (
        Tallies(), Source(), RecordedVerdict(), Resolution(),
    )  # fmt: skip
    assert letter.metadata == {}
    assert violations(letter) == []


@pytest.mark.parametrize("name", sorted(REQUIRED))
def test_what_has_to_be_there_is_missed_by_name(name: str) -> None:
    """R409: the record and the field are named."""
    document = document_of(full)
    del document[name]
    with pytest.raises(CorruptRecord, match=f"it has no '{name}'"):
        decoded(document)


def test_a_record_of_a_newer_version_is_refused() -> None:
    """R410: an older program does not misread it; the record is named, so that the others can be read."""
    with pytest.raises(
        CorruptRecord, match=r"record 'wf_1' cannot be read: it was written by a newer version"
    ) as caught:
        decoded({**document_of(full), "schema": SCHEMA + 1})

    assert caught.value.key == "wf_1"
    assert f"schema {SCHEMA + 1}, known is {SCHEMA}" in caught.value.reason


WRONG: list[tuple[str, Any]] = [
    ("status", "postponed"),
    ("status", None),
    ("status", 1),
    ("resolution_status", "forgotten"),
    ("source_kind", "alien"),
    ("retry_count", "3"),
    ("retry_count", 1.5),
    ("retry_count", None),
    ("max_retries", "3"),
    ("max_retries", 3.0),
    ("total_attempts", [1]),
    ("priority", "high"),
    ("tally_exhausted", "1"),
    ("schema", "1"),
    ("task_id", 7),
    ("error", None),
    ("last_error", {"a": 1}),
    ("queue", ["q"]),
    ("retry_policy", None),
    ("retry_policy", ["never"]),
    ("reason", 5),
    ("repos", [1]),
    ("repos", 5),
    ("depends_on", [None]),
    ("failed_at", 1767268800000),
    ("created_at", "yesterday"),
    ("updated_at", None),
    ("due_at", ""),
    ("due_at", {"gte": "now"}),
    ("failures", 5),
    ("failures", ["boom"]),
    ("failures", [{"message": "no date"}]),
    ("failures", [{"at": "2026-01-01T12:00:00.000Z"}]),
    ("failures", {"at": "2026-01-01T12:00:00.000Z", "message": "not in a list"}),
    ("lease", {"owner": "w", "token": "t"}),
    ("lease", {"owner": "w", "token": 7, "prior": "pending", "prior_due": None, "manual": False}),
    ("lease", {"owner": "w", "token": "t", "prior": "postponed", "prior_due": None, "manual": False}),
    ("lease", "worker-1"),
]
MISREAD: list[tuple[str, Any]] = [
    ("repos", "one-repo"),  # read as its letters
    ("depends_on", "wf_0"),
    ("metadata", ["no", "object"]),
    ("metadata", "text"),
    ("retry_count", True),
    ("error_category", 5),
    ("fingerprint", [1]),
    ("previous_entry_id", 7),
    ("verdict_reason", 7),
    ("source_id", 7),
    ("failed_at", "2026-01-01T12:00:00"),  # read in the zone of whatever machine this is
    ("failed_at", "0001-01-01T00:00:00+05:00"),  # OverflowError: takes the page with it
    ("failures", [{"at": "2026-01-01T12:00:00.000Z", "message": 5}]),
    ("failures", [{"at": "2026-01-01T12:00:00.000Z", "message": "x", "duration_seconds": "long"}]),
    ("lease", {"owner": "w", "token": "t", "prior": "pending", "prior_due": None, "manual": "false"}),
]


def _refused(name: str, value: Any) -> None:
    with pytest.raises(CorruptRecord) as caught:
        decoded({**document_of(running), name: value})
    if name != "task_id":
        assert caught.value.key == "wf_1"
    assert caught.value.reason


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_value_of_the_wrong_kind_is_refused(name: str, value: Any) -> None:
    """R409: that record is corrupt, by name; nothing is guessed, nothing else is raised."""
    _refused(name, value)


@pytest.mark.parametrize(("name", "value"), MISREAD)
def test_a_value_of_the_wrong_kind_is_refused_too(name: str, value: Any) -> None:
    """R409: as above."""
    _refused(name, value)


def test_a_resolution_that_is_wrong_is_refused() -> None:
    """Who closed the case is part of the record."""
    document = document_of(archive(full, now=NOON, by="ada", notes="old"))
    for name, value in [("resolution_timestamp", "soon"), ("resolution_status", "forgotten")]:
        with pytest.raises(CorruptRecord):
            decoded({**document, name: value})


@pytest.mark.parametrize("document", [[], "text", 5, None], ids=str)
def test_what_is_no_document_at_all_is_a_corrupt_record(document: Any) -> None:
    """Whatever the file holds."""
    with pytest.raises(CorruptRecord):
        decoded(document)


def test_a_failure_may_have_fields_of_a_later_version() -> None:
    """As the letter may."""
    later = {"at": "2026-01-01T12:00:00.000Z", "message": "x", "exit_code": 1}

    assert decoded({**document_of(full), "failures": [later]}).failures[0].message == "x"


def test_an_empty_verdict_comes_back_as_it_was() -> None:
    """What was stored is what is read."""
    letter = captured(verdict=RecordedVerdict("", None))

    assert decoded(document_of(letter)) == letter


def test_other_spellings_of_an_instant_are_read() -> None:
    """Any ISO 8601 text with a zone names one instant."""
    for spelling in ("2026-01-01T14:00:00+02:00", "2026-01-01T12:00:00Z", "2026-01-01 12:00:00.000000+00:00"):
        letter = decoded({**document_of(full), "due_at": spelling})
        assert letter.due_at == NOON
        assert letter.due_at.tzinfo is UTC


def test_a_known_policy_is_shared_and_any_other_text_is_kept() -> None:
    """R087: a custom policy survives a restart by its name."""
    assert decoded({**document_of(full), "retry_policy": "never"}).retry_policy is RetryPolicy.NEVER
    assert decoded({**document_of(full), "retry_policy": "custom:mine"}).retry_policy == "custom:mine"


ODD_JSON = [
    '{"n":111111111111111111111111111111,"f":1e-07,"g":1.0}',
    '{"lone":"\\ud800","pair":"\\ud83d\\ude00"}',
    '{"1":{"true":null,"null":[]},"":""}',
    "[" * 200 + "]" * 200,
    '{"a":1,"a":2}',
    "[]",
    "null",
    "1e400",
]


@pytest.mark.parametrize("text", ODD_JSON, ids=lambda text: text[:20])
def test_what_the_user_gave_comes_back_as_it_was(text: str) -> None:
    """Huge numbers, lone surrogates, keys that were numbers, deep nesting: the text is kept, not read and written."""
    kept = LETTERS.read(LETTERS.document(captured(payload=Json(text))), (1,))

    assert kept.payload == Json(text)
    if text not in ('{"a":1,"a":2}', "1e400"):
        assert kept.payload.text == text
        assert decoded(document_of(captured(payload=Json(text)))).payload.text == text


def test_a_text_beyond_ascii_that_somebody_else_has_written_is_read() -> None:
    """Documents are ASCII, but others may not have written them so; what is written again is ASCII."""
    document = {**document_of(full), "error": "größer", "task": {"name": "größer", "n": 1}}
    letter = LETTERS.read(json.dumps(document, ensure_ascii=False, indent=1), (1,))

    assert letter == decoded(document)
    assert letter.error == letter.task["name"] == "größer"
    assert LETTERS.document(letter).isascii()


@pytest.mark.parametrize("text", ["", "{", "[1]", '"letter"', '{"task_id": NaN', "null"])
def test_a_text_that_is_no_document_raises(text: str) -> None:
    """A store says then which record it is; nothing is taken for a letter."""
    with pytest.raises((ValueError, TypeError, CorruptRecord)):
        LETTERS.read(text, (1,))


class Word(str):
    """A text of a class of its own, as markup libraries have."""

    __slots__ = ()


@pytest.mark.parametrize("error", [Word("boom"), "\ud800", "größer", "\u2028\n\x00"])
def test_every_text_can_be_written(error: str) -> None:
    """In ASCII, so that it can go anywhere; it is the same text when it comes back."""
    letter = captured(error=error, last_error=error)

    assert LETTERS.document(letter).isascii()
    assert decoded(document_of(letter)) == letter


# -------------------------------------------------------------------------------------- documents as they always were

# Both were written before letters were structs: with every field, and with none that has a default.
WHOLE = (
    r'{"task_id":"wf","entry_id":"e1","namespace":"eu","queue":"q","error":"b\ud800\u00e4","last_error":"later"'
    r',"failed_at":"2030-01-01T12:00:00.000Z","created_at":"2030-01-01T12:01:00.000Z","retry_policy":"custom:mine"'
    r',"max_retries":4,"reason":"manual","schema":2,"repos":["r"],"source_kind":"task","priority":7,"generation":2'
    r',"occurrences":3,"error_category":"network","fingerprint":"f1","verdict_reason":"because"'
    r',"verdict_author":"rules","previous_entry_id":"e0","source_queue":"sq","source_id":"sid"'
    r',"original_state":"open","dlq_retry_count":1,"revision":1,"depends_on":["d"],"absorbed":["e2"]'
    r',"more_repos":["s"],"failures":[{"at":"2030-01-01T12:00:00.000Z","message":"b","type":"E"'
    r',"category":"network","traceback":"Trace","processor":"w1","duration_seconds":0.25'
    r',"retry_in_seconds":30.0},{"at":"2030-01-01T12:01:00.000Z","message":"c"}],"captured_digest":"dd"'
    r',"merged":["e3"],"adapter":"pay","tags":["t"],"payload_types":{"/a":"set"},"policy_by_verdict":true'
    r',"former_fingerprints":["f0"],"captured_task":"{\"a\":1}","typed":true'
    r',"expires_at":"2030-01-01T13:00:00.000Z","bound_for":"q2","source_created_at":"2030-01-01T11:59:00.000Z"'
    r',"counted":{"mark":"mark","letters":2,"reopened":1,"group":"f1"},"counted_group":"f1"'
    r',"grouped_at":"2030-01-01T12:05:00.000Z","moved":1,"status":"retrying"'
    r',"updated_at":"2030-01-01T12:09:00.000Z","resolution_status":"requeued","retry_count":1,"total_attempts":2'
    r',"due_at":"2030-01-01T12:08:00.000Z","last_retry_at":"2030-01-01T12:04:00.000Z","recoveries":1'
    r',"settled":"failed t0","runs":["b1"],"run_outcomes":["open b1"],"exhausted_at":"2030-01-01T12:07:00.000Z"'
    r',"completed_at":"2030-01-01T12:01:00.000Z","archived_at":"2030-01-01T12:01:00.000Z"'
    r',"resolution_timestamp":"2030-01-01T12:02:00.000Z","resolved_by":"ann","resolution_notes":"why"'
    r',"lease":{"owner":"w1","token":"t1","prior":"exhausted","prior_due":"2030-01-01T12:03:00.000Z","manual":true'
    r',"failed_again":true,"seconds":300.5},"requeue":{"at":"2030-01-01T12:06:00.000Z","by":"bob"'
    r',"outcome":"failed","boost":10,"automatic":1,"notes":"go"},"claim_owner":"w1","requeue_outcome":"failed"'
    r',"requeue_automatic":1,"unfit":"no","tally_retry_success":1,"tally_requeued":2,"tally_permanently_failed":3'
    r',"tally_manually_resolved":4,"tally_cancelled":5,"tally_archived":6,"tally_reopened":7'
    r',"tally_retry_failed":8,"tally_exhausted":9,"tally_manually_retried":10,"tally_claims_recovered":11'
    r',"tally_deduplicated":12,"tally_cleared":13,"tally_moved":14,"metadata":{"team":"x"},"task":{"a":[1,null]}}'
)
LEAST = (
    r'{"task_id":"wf","entry_id":"e1","namespace":"default","queue":"default","error":"","last_error":""'
    r',"failed_at":"2030-01-01T12:00:00.000Z","created_at":"2030-01-01T12:00:00.000Z","retry_policy":"exponential"'
    r',"max_retries":3,"reason":"workflow_failed","schema":2,"repos":[],"source_kind":"workflow","priority":0'
    r',"generation":1,"occurrences":1,"adapter":"","status":"pending","updated_at":"2030-01-01T12:00:00.000Z"'
    r',"resolution_status":"pending","retry_count":0,"total_attempts":0,"metadata":{},"task":{}}'
)


@pytest.mark.parametrize("text", [WHOLE, LEAST], ids=["whole", "least"])
def test_a_document_is_written_as_it_was_before(text: str) -> None:
    """Copies in the archive are compared by their text."""
    letter = LETTERS.read(text, (1,))

    assert LETTERS.document(letter) == LETTERS.document(LETTERS.decode(json.loads(text), (1,))) == text


def test_letters_are_values_whatever_changes_them() -> None:
    """They can be listed, changed, copied and hashed as dataclasses can."""
    stored = evolve(full, version=(1,))

    assert [each.name for each in fields(stored)] == list(DeadLetter.__struct_fields__)
    assert replace(stored, priority=7) == evolve(full, priority=7) != full
    assert (stored == full, hash(stored) == hash(full), stored.version) == (True, True, (1,))
    assert pickle.loads(pickle.dumps(stored)) == copy.deepcopy(stored) == full
    assert asdict(stored)["source"] == asdict(stored.source)
