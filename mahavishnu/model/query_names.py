"""The names that queries written as text know: one table for HTTP, the command line, pages and completion."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mahavishnu.model.letter_parts import RESOLUTIONS, DeadLetterStatus, DlqReason, ErrorCategory, RetryPolicy

_SET, _NUMBER, _MOMENT = "set", "number", "moment"
OPEN, CLOSED = "open", "closed"
CUSTOM_POLICY = "custom:"  # how the names of users' own retry policies begin


@dataclass(frozen=True, slots=True)
class QueryName:
    """A name that stands before an operator: which field of letters it means, and what it is compared with.

    `shape` is `word` (any text), `set` (one of `values`), `number`, `moment`, `age` (how long ago), `words` (a text
    search), `path` (a value inside of a JSON object), `state` or `has`. `known`: values that letters have can be
    listed. `other_names` mean the same: those of the HTTP parameters and of the letter's own fields.
    """

    name: str
    shape: str
    field: str
    about: str
    values: tuple[str, ...] = ()
    other_names: tuple[str, ...] = ()
    may_be_missing: bool = False
    known: bool = False

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators that it takes, the usual one first."""
        if self.shape == "age":
            return (">", "<", ">=", "<=")
        if self.shape in (_NUMBER, _MOMENT):
            return (">=", "<=", ">", "<", ":", "!=")
        return (":", "!=")


def _of(values: Iterable[StrEnum]) -> tuple[str, ...]:
    return tuple(value.value for value in values)


def _word(name: str, about: str, field: str = "", *more: str, missing: bool = False, known: bool = False) -> QueryName:
    return QueryName(name, "word", field or name, about, (), more, missing, known)


def _moment(name: str, about: str, field: str = "", *more: str, missing: bool = True) -> QueryName:
    return QueryName(name, _MOMENT, field or name, about, (), more, missing)


def _number(name: str, about: str, field: str = "", *more: str) -> QueryName:
    return QueryName(name, _NUMBER, field or name, about, (), more)


NAMES: Final[tuple[QueryName, ...]] = (
    QueryName("is", "state", "resolution_status", "whether the case has ended", (OPEN, CLOSED)),
    QueryName("status", _SET, "status", "what the letter is doing", _of(DeadLetterStatus)),
    QueryName("resolution", _SET, "resolution_status", "how the case ended", _of(RESOLUTIONS), ("resolution_status",)),
    QueryName("category", _SET, "error_category", "kind of failure", _of(ErrorCategory), ("error_category",), True),
    QueryName("policy", _SET, "retry_policy", "retry policy", _of(RetryPolicy), ("retry_policy",), known=True),
    QueryName("reason", _SET, "reason", "why the letter was written", _of(DlqReason), ("dlq_reason",)),
    _word("adapter", "adapter or workflow that runs it; (none): it names none", known=True),
    _word("queue", "queue of the letter", known=True),
    _word("namespace", "namespace of the letter; * for all", known=True),
    _word("group", "group of letters with the same cause", "fingerprint", "fingerprint", missing=True),
    _word("task_id", "task of the letter", "", "task_uuid"),
    _word("source_id", "task or source that it is other work of", missing=True),
    _word("repo", "one of its repos", "repos", "repos", missing=True),
    _word("tag", "tag that a classifier gave the latest failure", "tags", "tags", missing=True),
    _word("run", "bulk run that moved it", "runs", "runs", missing=True),
    _word("claimed_by", "worker that holds a lease on it", "claim_owner", "claim_owner", missing=True, known=True),
    _word("resolved_by", "who closed the case", missing=True, known=True),
    QueryName("text", "words", "words", "all of these words in its errors, their types, task id or payload"),
    QueryName("task", "path", "task_values", "value inside of the task: task.order.currency:EURO"),
    QueryName("metadata", "path", "metadata", "value inside of the metadata: metadata.team:web"),
    QueryName("age", "age", "created_at", "how long ago the letter was written: 90s, 2h, 1d12h, 3w"),
    _moment("due", "when anyone may pick it up: an instant, or 1h, which is an hour from now", "due_at", "due_at"),
    _moment("failed_at", "when the work failed", missing=False),
    _moment("created_at", "when the letter was written", "", "dlq_timestamp", missing=False),
    _moment("updated_at", "when the letter was changed", missing=False),
    _moment("next_retry_at", "when the next automatic retry is due"),
    _moment("last_retry_at", "when it was last retried"),
    _moment("exhausted_at", "when its retries were used up"),
    _moment("completed_at", "when its work succeeded"),
    _moment("archived_at", "when it was archived"),
    _moment("resolved_at", "when the case ended", "resolution_timestamp", "resolution_timestamp"),
    _number("attempts", "runs that failed", "total_attempts", "total_attempts"),
    _number("retries", "automatic retries since the last redrive", "retry_count", "retry_count"),
    _number("max_retries", "automatic retries that it may have"),
    _number("requeues", "times it was sent back", "dlq_retry_count", "dlq_retry_count"),
    _number("priority", "priority"),
    _number("occurrences", "times the same failure was captured"),
    _number("generation", "cases of this task before it"),
    _number("revision", "edits of it"),
    QueryName("has", "has", "", "whether a letter has any value of that name"),
)
BY_NAME: Final[Mapping[str, QueryName]] = {each: name for name in NAMES for each in (name.name, *name.other_names)}
BY_FIELD: Final[Mapping[str, QueryName]] = {
    name.field: name for name in NAMES if name.shape not in ("state", "age", "words", "has")
}
OPTIONAL: Final[tuple[str, ...]] = tuple(name.name for name in NAMES if name.may_be_missing)  # after has:


def values_of(name: QueryName) -> tuple[str, ...]:
    """The values that it can have, where they are a fixed set."""
    return OPTIONAL if name.shape == "has" else name.values


def near_names(given: str, known: Iterable[str]) -> tuple[str, ...]:
    """What may have been meant, the nearest first.

    >>> near_names("statsu", BY_NAME)
    ('status',)
    """
    return tuple(difflib.get_close_matches(given.lower(), list(known), 3, 0.7))
