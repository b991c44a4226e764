"""Filters of letters in requests, and the queries that they mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from enum import Enum

from mahavishnu.http.schemas import Filter
from mahavishnu.model import query as queries
from mahavishnu.model.errors import InvalidQuery
from mahavishnu.model.namespaces import named_namespaces

_SAME_NAMES = {"policy", "namespace", "queue", "fingerprint", "task_id", "source_id", "adapter", "tags", "repo", "run"}


def as_query(
    letter_filter: Filter, now: datetime, *, limit: int = 500, sort: tuple[queries.Sort, ...] = queries.NEWEST_FIRST
) -> queries.Query:
    """Return the query that a filter means; the ages in its text are counted from `now`. Raises InvalidQuery."""
    metadata = {}
    for pair in letter_filter.metadata or ():
        path, equals, value = pair.partition("=")
        if not equals or not path:
            raise InvalidQuery(f"{pair!r:.80} is no condition on the metadata: write path=value")
        metadata[path] = value
    query = queries.letter_query(
        **letter_filter.model_dump(include=_SAME_NAMES),
        text=letter_filter.text,
        status=_enum_values(letter_filter.status),
        resolution=_enum_values(letter_filter.resolution_status),
        category=_enum_values(letter_filter.category),
        reason=_enum_values(letter_filter.reason),
        metadata=metadata,
        failed=(letter_filter.failed_from, letter_filter.failed_before),
        created=(letter_filter.created_from, letter_filter.created_before),
        updated=(letter_filter.updated_from, letter_filter.updated_before),
        sort=sort,
        limit=limit,
    )
    if not letter_filter.q:
        return query
    from mahavishnu.model.query_text import read_conditions  # takes a while to load, and few lists need it

    conditions = read_conditions(letter_filter.q, now)
    if letter_filter.namespace and named_namespaces(queries.Query(conditions)) is not None:
        raise InvalidQuery("the namespace is said twice: in the text and beside it")
    return replace(query, where=(*query.where, *conditions))


def _enum_values(given: Sequence[Enum] | None) -> list[str] | None:
    return None if given is None else [str(each.value) for each in given]
