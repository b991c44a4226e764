"""What Hypothesis makes: JSON values, and letters of every kind a document can hold."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, tzinfo
from typing import Any

from hypothesis import strategies as st

from mahavishnu.model.clock import instant
from mahavishnu.model.ids import document_key
from mahavishnu.model.json_value import EMPTY, Json
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import (
    KEPT_FAILURES,
    DeadLetterStatus,
    DlqReason,
    ErrorCategory,
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

# Any text that a JSON string can hold, lone surrogates too.
texts = st.text(st.characters(codec=None, categories=None), max_size=20)
words = st.text(min_size=1, max_size=10)
counts = st.integers(0, 2**40)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=12
)
json_objects = st.dictionaries(texts, json_values, max_size=4)


UTC_ONLY: st.SearchStrategy[tzinfo] = st.just(UTC)


def moments(first: int, last: int, zones: st.SearchStrategy[tzinfo] = UTC_ONLY) -> st.SearchStrategy[datetime]:
    """Aware datetimes from the beginning of one year to that of another, to the microsecond."""
    bounds = (datetime(year, 1, 1) for year in (first, last))  # noqa: DTZ001 - Hypothesis adds the zone
    return st.datetimes(*bounds, timezones=zones)


instants = moments(1970, 9999).map(instant)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Or nothing."""
    return st.none() | strategy


failures = st.builds(
    Failure,
    at=instants,
    message=texts,
    type=maybe(texts),
    category=maybe(st.sampled_from(ErrorCategory)),
    traceback=maybe(texts),
    processor=maybe(texts),
    duration_seconds=maybe(st.floats(0, 1e9)),
    retry_in_seconds=maybe(st.floats(0, 1e9)),
)
leases = st.builds(
    Lease,
    owner=texts,
    token=texts,
    prior=st.sampled_from([DeadLetterStatus.PENDING, DeadLetterStatus.EXHAUSTED]),
    prior_due=maybe(instants),
    manual=st.booleans(),
    failed_again=st.booleans(),
)
requeues = st.builds(Requeue, instants, texts, counts, maybe(texts), st.sampled_from(RequeueOutcome), automatic=counts)
resolutions = st.just(Resolution()) | st.builds(
    Resolution,
    status=st.sampled_from([how for how in ResolutionStatus if how is not ResolutionStatus.PENDING]),
    at=maybe(instants),
    by=maybe(texts),
    notes=maybe(texts),
)
sources = st.builds(Source, kind=st.sampled_from(SourceKind), queue=maybe(texts), id=maybe(texts), state=maybe(texts))
verdicts = st.just(RecordedVerdict()) | st.builds(RecordedVerdict, reason=words, author=maybe(words))
tallies = st.builds(Tallies, **{tally.name: counts for tally in fields(Tallies)})
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=10)
plain_names = names.filter(lambda name: "/" not in name)
# Every field that a document holds, whether or not the values make sense together: a codec has no opinion.
letters = st.builds(
    DeadLetter,
    task_id=names,
    entry_id=names,
    namespace=plain_names,
    queue=plain_names,
    error=texts,
    last_error=texts,
    failed_at=instants,
    created_at=instants,
    updated_at=instants,
    payload=json_values.map(Json.of),
    payload_types=st.just(EMPTY) | st.dictionaries(texts, texts, max_size=3).map(Json.of),
    captured_task=maybe(json_values.map(Json.of)),
    adapter=maybe(texts.filter(bool)),
    tags=st.lists(texts, max_size=3).map(tuple),
    policy_by_verdict=st.booleans(),
    former_fingerprints=st.lists(texts, max_size=3).map(tuple),
    repos=st.lists(texts, max_size=3).map(tuple),
    labels=json_objects.map(Json.of),
    status=st.sampled_from(DeadLetterStatus),
    resolution=resolutions,
    retry_policy=st.sampled_from([*RetryPolicy, "custom:fibonacci"]),
    retry_count=counts,
    max_retries=counts,
    total_attempts=counts,
    due_at=maybe(instants),
    lease=maybe(leases),
    recoveries=counts,
    last_retry_at=maybe(instants),
    failures=st.lists(failures, max_size=KEPT_FAILURES).map(tuple),
    error_category=maybe(st.sampled_from(ErrorCategory)),
    verdict=verdicts,
    fingerprint=maybe(texts),
    reason=st.sampled_from(DlqReason),
    source=sources,
    priority=st.integers(-(2**40), 2**40),
    depends_on=st.lists(texts, max_size=3).map(tuple),
    generation=counts,
    previous_entry_id=maybe(texts),
    more_repos=st.lists(texts, max_size=3).map(tuple),
    absorbed=st.lists(texts, max_size=3).map(tuple),
    merged=st.lists(texts, max_size=3).map(tuple),
    dlq_retry_count=counts,
    occurrences=counts,
    requeue=maybe(requeues),
    runs=st.lists(texts, max_size=3).map(tuple),
    run_outcomes=st.lists(texts, max_size=3).map(tuple),
    revision=counts,
    captured_digest=maybe(texts),
    settled=maybe(texts),
    unfit=maybe(texts),
    typed=st.booleans(),
    tallies=tallies,
    exhausted_at=maybe(instants),
    completed_at=maybe(instants),
    archived_at=maybe(instants),
)
keys = st.builds(document_key, names, plain_names, plain_names)
