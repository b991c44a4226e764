"""What Hypothesis makes for stores: letters whose values often meet, and queries that ask for such values.

Everything is drawn from few values, awkward ones among them, so that equal, missing and neighbouring ones are common.
"""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from mahavishnu.model.clock import LAST_INSTANT
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import (
    DeadLetterStatus,
    DlqReason,
    ErrorCategory,
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
from mahavishnu.model.query import AnyOf, At, Between, Is, Missing, Not, Query, Sort
from mahavishnu.stores.kind import LONGEST_TERM, Field, FieldType, Kind, scalar_text

START = datetime(2026, 1, 1, tzinfo=UTC)

plain_texts = st.sampled_from(["a", "A", "b", "ab", "1", "true", "eu-west", "é", "漢字", "straße", "z" * 50])
# What could be mistaken for syntax, a delimiter, an escape or a pattern, and what is too long to be found.
awkward_texts = (
    plain_texts
    | st.sampled_from(["", " ", "%", "_", "'", '"', "a'b", "a.b", "null", "1.0", "-1", "😀", "\u2028", "\uffff"])
    | st.sampled_from(["a\x1fb", "\x1f", "\x1e", "\x1b", "\x1b1", "\x1b\x1f", "a\0b", "\0"])
    | st.sampled_from(["x" * LONGEST_TERM, "x" * (LONGEST_TERM + 1)])
)
instants = st.integers(0, 6).map(lambda number: START + timedelta(milliseconds=number)) | st.sampled_from(
    [datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC), LAST_INSTANT]
)
counts = st.integers(0, 3) | st.sampled_from([-1, 2**53 + 1, 2**40])
scalars = st.booleans() | st.integers(-1, 2) | st.sampled_from([1.0, 0.5, 2**60])


def objects(texts: st.SearchStrategy[str]) -> st.SearchStrategy[Json]:
    """Small JSON objects, as users write them on letters."""
    paths = texts | st.sampled_from(["a.b", "a", "b"])
    values = st.recursive(
        st.none() | scalars | texts,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(paths, inner, max_size=2),
        max_leaves=4,
    )
    return st.dictionaries(paths, values, max_size=3).map(lambda value: Json.of(value, "metadata"))


def letters(texts: st.SearchStrategy[str] = awkward_texts) -> st.SearchStrategy[DeadLetter]:
    """Letters with any values side by side; a store has no opinion on whether they make sense together."""
    some = st.none() | texts
    date = st.none() | instants
    several = st.lists(texts, max_size=3).map(tuple)
    return st.builds(
        DeadLetter,
        task_id=st.integers(0, 10**9).map("wf_{}".format) | texts.filter(lambda text: 0 < len(text) <= LONGEST_TERM),
        entry_id=st.uuids().map(str),
        error=texts | st.lists(texts, max_size=4).map(" ".join),
        last_error=texts,
        failed_at=instants,
        created_at=instants,
        updated_at=instants,
        repos=several,
        labels=objects(texts),
        payload=objects(texts),
        status=st.sampled_from(DeadLetterStatus),
        resolution=st.builds(Resolution, st.sampled_from(ResolutionStatus), date, some, some),
        retry_policy=st.sampled_from([*RetryPolicy, "custom:fibonacci"]),
        retry_count=counts,
        max_retries=counts,
        total_attempts=counts,
        due_at=date,
        lease=st.none() | st.builds(Lease, owner=texts, token=texts),
        recoveries=counts,
        last_retry_at=date,
        error_category=st.none() | st.sampled_from(ErrorCategory),
        verdict=st.builds(RecordedVerdict, some, some),
        fingerprint=some,
        reason=st.sampled_from(DlqReason),
        source=st.builds(Source, st.sampled_from(SourceKind), some, some, some),
        priority=counts,
        depends_on=several,
        generation=counts,
        previous_entry_id=some,
        absorbed=several,
        merged=several,
        more_repos=several,
        dlq_retry_count=counts,
        occurrences=counts,
        requeue=st.none()
        | st.builds(Requeue, instants, texts, counts, some, st.sampled_from(RequeueOutcome), automatic=counts),
        runs=several,
        run_outcomes=several,
        revision=counts,
        captured_digest=some,
        settled=some,
        tallies=st.builds(Tallies, **{each.name: counts for each in fields(Tallies)}),
        exhausted_at=date,
        completed_at=date,
        archived_at=date,
    )


def queries(kind: Kind[Any], texts: st.SearchStrategy[str] = awkward_texts) -> st.SearchStrategy[Query]:
    """Any query that the kind allows."""
    conditions = st.recursive(
        st.sampled_from([each for each in kind.fields if each.name in kind.searchable]).flatmap(
            lambda each: _leaf(each, texts)
        ),
        lambda inner: st.builds(Not, inner) | st.builds(AnyOf, st.lists(inner, max_size=3).map(tuple)),
        max_leaves=4,
    )
    sorts = st.lists(st.builds(Sort, st.sampled_from(sortable(kind)), st.booleans()), max_size=3)
    limits = st.integers(1, 5) | st.just(100)
    return st.builds(Query, st.lists(conditions, max_size=3).map(tuple), sorts.map(tuple), limits)


def sortable(kind: Kind[Any]) -> list[str]:
    """The fields that lists can be sorted by."""
    many = (FieldType.KEYWORDS, FieldType.FLAT)
    return [each.name for each in kind.fields if each.name in kind.searchable and each.type not in many]


def names(kind: Kind[Any], *types: FieldType) -> st.SearchStrategy[list[str]]:
    """Some fields of these types."""
    return st.lists(st.sampled_from([each.name for each in kind.fields if each.type in types]), max_size=2, unique=True)


def _leaf(each: Field[Any], texts: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    name = st.just(each.name)
    missing = st.builds(Missing, name)
    match each.type:
        case FieldType.FLAT:
            return missing | st.builds(At, name, texts | st.sampled_from(["a.b", "a", "b"]), texts | scalars)
        case FieldType.DATE:
            return missing | _is(name, instants) | _between(name, instants)
        case FieldType.INTEGER:
            return missing | _is(name, counts) | _between(name, counts | st.sampled_from([2**70, -(2**70)]))
    known: list[Any] = [*DeadLetterStatus, *ResolutionStatus, *RetryPolicy, *DlqReason, *SourceKind, *ErrorCategory]
    if each.name == "task_values":
        texts |= st.builds("{}={}".format, st.sampled_from(["a.b", "a", "b", "é"]), texts | scalars.map(scalar_text))
    # A number is no text, even where both are spelled alike.
    return missing | _is(name, texts | st.sampled_from(known) | st.just(1))


def _is(name: st.SearchStrategy[str], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Is]:
    return st.builds(Is, name, st.lists(values, max_size=3).map(tuple))


def _between(name: st.SearchStrategy[str], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Between]:
    bounds = st.none() | values
    return st.builds(Between, name, at_least=bounds, below=bounds, at_most=bounds)
