"""Queries: one value that selects records, for lists, bulk verbs, statistics and claiming alike."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from dataclasses import field as field_with
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

from msgspec.structs import replace

from mahavishnu.model.clock import instant
from mahavishnu.model.errors import InvalidInput, InvalidQuery
from mahavishnu.model.ids import DEFAULT_NAMESPACE
from mahavishnu.model.letter_parts import NO_ADAPTER, RESOLUTIONS, DeadLetterStatus, DlqReason, ErrorCategory
from mahavishnu.model.record import Value

Scalar: TypeAlias = "str | int | float | bool | datetime"
LONGEST_TEXT = 4000  # characters of a query that is written as text
LONGEST_WORD = 100
MOST_WORDS = 2000
MOST_VALUES = 10_000  # that a query compares with: what every store can look for at once
MOST_CONDITIONS = 1000  # counting those inside of others
MOST_LISTED = 100  # values for a field that is a list: stores compare each of them with each record
MAX_CONDITION_DEPTH = 50  # conditions inside of conditions
TOO_DEEP = f"the conditions are nested deeper than {MAX_CONDITION_DEPTH}"
_PARTS = "ask for them in parts"
_LISTED = frozenset({"repos", "runs", "depends_on", "absorbed", "words", "more_words", "tags"})
_WORD = re.compile(r"\w+")
_ASCII = bytes(map(ord, (chr(code).lower() if _WORD.match(chr(code)) else " " for code in range(128)))) + bytes(128)
_BOUNDS = ("at_least", "below", "at_most")


@dataclass(frozen=True, slots=True)
class Is:
    """The field, or one of its values, is one of these; `rare` tells a store that few records have them."""

    field: str
    values: tuple[Scalar, ...]
    rare: bool = field_with(default=False, repr=False)


class Missing(Value, frozen=True):
    """The field is empty."""

    field: str


class Between(Value, frozen=True):
    """The field's value lies from `at_least` up to, not including, `below` (or up to and including `at_most`)."""

    field: str
    at_least: datetime | int | None = None
    below: datetime | int | None = None
    at_most: datetime | int | None = None

    def has(self, value: Any) -> bool:
        """Return whether the value lies between the bounds; None, for no value, does not."""
        return (
            value is not None
            and (self.at_least is None or value >= self.at_least)
            and (self.below is None or value < self.below)
            and (self.at_most is None or value <= self.at_most)
        )


class At(Value, frozen=True):
    """The JSON object in the field has this text, number or boolean at the dotted path, or in a list there."""

    field: str
    path: str
    value: str | int | float | bool


class HasKey(Value, frozen=True):
    """The record has one of these keys, under which a store keeps it; for stores only, it has no form as JSON."""

    keys: tuple[str, ...]


class Not(Value, frozen=True):
    """The condition does not hold."""

    condition: Condition


class AnyOf(Value, frozen=True):
    """At least one of the conditions holds."""

    conditions: tuple[Condition, ...]


Condition: TypeAlias = "Is | Missing | Between | At | HasKey | Not | AnyOf"


class Sort(Value, frozen=True):
    """One sort key. Records without a value come last either way; the record's key breaks ties."""

    field: str
    descending: bool = False


class Query(Value, frozen=True):
    """All conditions hold, in this order, at most `limit` in one page (not in all)."""

    where: tuple[Condition, ...] = ()
    sort: tuple[Sort, ...] = ()
    limit: int = 500

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= 10_000:
            raise InvalidQuery(f"a page holds 1 to 10000 records, not {self.limit}; page on with the cursor")


def words(*texts: str | None) -> tuple[str, ...]:
    """Return the distinct words of the texts, lower case, which a text search compares in every store."""
    text = "\n".join(dict.fromkeys(filter(None, texts)))  # the first and the last error are often the same
    if text.isascii():  # then it is done in a fifth of the time
        each = text.encode().translate(_ASCII).decode().split()
    else:
        text = text.lower()
        each = _WORD.findall(text)
    found = tuple(dict.fromkeys(each))[:MOST_WORDS]
    if len(text) <= LONGEST_WORD or max(map(len, found), default=0) <= LONGEST_WORD:
        return found
    return tuple(word[:LONGEST_WORD] for word in found)


# Fields with few values: what one is called in messages, and the values.
_FEW: Mapping[str, tuple[str, Iterable[StrEnum]]] = {
    "status": ("status", DeadLetterStatus),
    "resolution_status": ("resolution", RESOLUTIONS),
    "error_category": ("error category", ErrorCategory),
    "reason": ("reason", DlqReason),
}
Many: TypeAlias = "str | Iterable[str]"
NEWEST_FIRST = (Sort("created_at", descending=True),)
SOONEST_FIRST = (Sort("priority", descending=True), Sort("due_at"))


def claim_order(lookup: int) -> tuple[Sort, ...]:
    """Return the order of the n-th look: most urgent first, each fourth time longest due, to reach all of them."""
    return SOONEST_FIRST if lookup % 4 else (Sort("due_at"),)


def letter_query(
    *,
    status: Many | None = None,
    resolution: Many | None = None,
    category: Many | None = None,
    policy: Many | None = None,
    reason: Many | None = None,
    namespace: Many | None = None,
    queue: Many | None = None,
    fingerprint: Many | None = None,
    task_id: Many | None = None,
    source_id: Many | None = None,
    adapter: Many | None = None,
    tags: Many | None = None,
    repo: Many | None = None,
    run: Many | None = None,
    text: str | None = None,
    metadata: Mapping[str, str | int | float | bool] | None = None,
    failed: tuple[datetime | None, datetime | None] = (None, None),
    created: tuple[datetime | None, datetime | None] = (None, None),
    updated: tuple[datetime | None, datetime | None] = (None, None),
    due: datetime | None = None,
    partitions: range | None = None,
    sort: tuple[Sort, ...] = NEWEST_FIRST,
    limit: int = 500,
) -> Query:
    """Make a query over letters, by the names that users know.

    Times are `(from, before)` pairs, either may be None. `due`: anyone may pick it up at that instant. `text` asks for
    all of its words in the errors, their types, the task id and the payload; `metadata` maps dotted paths to values.
    Raises InvalidQuery for an unknown status, resolution, category or reason: it would find nothing, as if there were
    no such letters.
    """
    where: list[Condition] = []
    named = {
        "status": status,
        "resolution_status": resolution,
        "error_category": category,
        "retry_policy": policy,
        "reason": reason,
        "namespace": namespace,
        "queue": queue,
        "fingerprint": fingerprint,
        "task_id": task_id,
        "source_id": source_id,
        "tags": tags,
        "repos": repo,
        "runs": run,
    }
    for field, wanted in named.items():
        if wanted is not None:
            values = (wanted,) if isinstance(wanted, str) else tuple(wanted)
            where.append(Is(field, _check_values(field, values)))
    if adapter is not None:
        where.append(adapter_is((adapter,) if isinstance(adapter, str) else tuple(adapter)))
    if text is not None and not words(text):  # it would mean every letter, which nobody asked for
        raise InvalidQuery(f"there is no word in {text!r} that could be searched for")
    where += [AnyOf((Is("words", (word,)), Is("more_words", (word,)))) for word in words(text)]
    where += [At("metadata", path, value) for path, value in (metadata or {}).items()]
    for field, (start, end) in {"failed_at": failed, "created_at": created, "updated_at": updated}.items():
        if start or end:
            where.append(Between(field, at_least=start and instant(start), below=end and instant(end)))
    if due is not None:
        where.append(Between("due_at", at_most=instant(due)))
    if partitions is not None:
        where.append(Between("partition", at_least=partitions.start, below=partitions.stop))
    return Query(tuple(where), sort, limit)


def adapter_is(names: Iterable[str]) -> Condition:
    """Return the condition that a letter names one of these adapters; `(none)` is for those that name none."""
    return Is("adapter", tuple("" if name == NO_ADAPTER else name for name in names))


def _check_values(field: str, values: tuple[str, ...]) -> tuple[str, ...]:
    if field in _FEW:
        name, known = _FEW[field]
        for value in values:
            if value not in list(known):
                raise InvalidQuery(f"there is no {name} {value!r:.80}; there are {', '.join(known)}")
    return values


def require_query(query: Any) -> Query:
    """The query, if it is one, and no larger than a store can answer while others wait. Raises InvalidInput."""
    if not isinstance(query, Query):
        raise InvalidInput(f"a query is a mahavishnu.model.query.Query, not {query!r:.80}")
    waiting = [(condition, 0) for condition in query.where]
    conditions = values = 0
    while waiting:
        condition, depth = waiting.pop()
        conditions += 1
        if depth > MAX_CONDITION_DEPTH:
            raise InvalidQuery(TOO_DEEP)
        match condition:
            case Not(inner):
                waiting.append((inner, depth + 1))
            case AnyOf(several):
                waiting += [(each, depth + 1) for each in several]
            case Is(field, wanted):
                values += len(wanted)
                if field in _LISTED and len(wanted) > MOST_LISTED:
                    raise InvalidQuery(f"{field} can be one of {MOST_LISTED} values, not {len(wanted)}: {_PARTS}")
        if values > MOST_VALUES or conditions > MOST_CONDITIONS:
            raise InvalidQuery(
                f"a query has {MOST_VALUES} values and {MOST_CONDITIONS} conditions at most, this one more: {_PARTS}"
            )
    return query


def filter_query(filters: Mapping[str, Any]) -> Query:
    """The query of these filters. Raises InvalidInput for unknown filters, invalid values, and too many of them."""
    try:
        return require_query(letter_query(**filters))
    except InvalidInput:
        raise
    except (TypeError, ValueError, AttributeError) as problem:
        raise InvalidInput(f"letters cannot be filtered like this: {problem}") from None


# --- queries as JSON, and back


def query_to_json(query: Query) -> dict[str, Any]:
    """The query as texts, numbers, lists and dicts. Raises InvalidQuery for a number or date that JSON cannot hold."""
    return {
        "where": [_condition_to_json(condition, 0) for condition in query.where],
        "sort": [{"field": sort.field, "descending": sort.descending} for sort in query.sort],
        "limit": query.limit,
    }


def query_from_json(document: Any) -> Query:
    """The query that `query_to_json` wrote; missing parts have their defaults. Raises InvalidQuery otherwise."""
    given = _object(document, "a query", {"where", "sort", "limit"})
    limit = given.get("limit", 500)
    if type(limit) is not int:
        raise InvalidQuery(f"limit must be a whole number, not {limit!r:.80}")
    where = tuple(_read_condition(each, 0) for each in _list(given.get("where", []), "where"))
    return Query(where, tuple(_read_sort(each) for each in _list(given.get("sort", []), "sort")), limit)


def _condition_to_json(condition: Condition, depth: int) -> dict[str, Any]:
    if depth > MAX_CONDITION_DEPTH:
        raise InvalidQuery(TOO_DEEP)
    match condition:
        case Is(field, values):
            return {"is": {"field": field, "values": [_scalar_to_json(value) for value in values]}}
        case Missing(field):
            return {"missing": {"field": field}}
        case Between():
            bounds = {name: value for name in _BOUNDS if (value := getattr(condition, name)) is not None}
            limits = {name: _scalar_to_json(value) for name, value in bounds.items()}
            return {"between": {"field": condition.field, **limits}}
        case At(field, path, value):
            return {"at": {"field": field, "path": path, "value": _scalar_to_json(value)}}
        case Not(inner):
            return {"not": _condition_to_json(inner, depth + 1)}
        case AnyOf(conditions):
            return {"any_of": [_condition_to_json(each, depth + 1) for each in conditions]}
        case HasKey():
            raise InvalidQuery("keys have no form as JSON")


def _scalar_to_json(value: Scalar) -> Any:
    match value:
        case datetime():
            if value.tzinfo is None:
                raise InvalidQuery(f"{value.isoformat()} has no time zone")
            return {"instant": value.isoformat()}
        case float() if not math.isfinite(value):
            raise InvalidQuery(f"nothing can be compared with {value}")
        case str():
            return str(value)  # an enum's text, without its class
    return value


def _read_condition(document: Any, depth: int) -> Condition:
    if depth > MAX_CONDITION_DEPTH:
        raise InvalidQuery(TOO_DEEP)
    if not isinstance(document, Mapping) or len(document) != 1:
        raise InvalidQuery(f"a condition is an object with one of {', '.join(_READ)}, not {document!r:.80}")
    ((name, inside),) = document.items()
    if name not in _READ:
        raise InvalidQuery(f"there is no condition {name!r:.80}; there are {', '.join(_READ)}")
    return _READ[name](inside, depth)


def _read_is(inside: Any, depth: int) -> Condition:
    given = _object(inside, "is", {"field", "values"})
    return Is(_text(given, "field"), tuple(_read_scalar(value) for value in _list(given.get("values"), "values")))


def _read_between(inside: Any, depth: int) -> Condition:
    given = _object(inside, "between", {"field", *_BOUNDS})
    bounds = {name: _read_scalar(given[name]) for name in _BOUNDS if given.get(name) is not None}
    for name, bound in bounds.items():
        if type(bound) is not int and not isinstance(bound, datetime):
            raise InvalidQuery(f"{name} must be a whole number or an instant, not {bound!r:.80}")
    return Between(_text(given, "field"), **bounds)  # type: ignore[arg-type]  # checked above


def _read_at(inside: Any, depth: int) -> Condition:
    given = _object(inside, "at", {"field", "path", "value"})
    value = _read_scalar(given.get("value"))
    if isinstance(value, datetime):
        raise InvalidQuery("a path inside of an object is compared with text, numbers and booleans, not with instants")
    return At(_text(given, "field"), _text(given, "path"), value)


_READ: Mapping[str, Callable[[Any, int], Condition]] = {
    "is": _read_is,
    "missing": lambda inside, depth: Missing(_text(_object(inside, "missing", {"field"}), "field")),
    "between": _read_between,
    "at": _read_at,
    "not": lambda inside, depth: Not(_read_condition(inside, depth + 1)),
    "any_of": lambda inside, depth: AnyOf(tuple(_read_condition(each, depth + 1) for each in _list(inside, "any_of"))),
}


def _read_sort(document: Any) -> Sort:
    given = _object(document, "sort", {"field", "descending"})
    descending = given.get("descending", False)
    if not isinstance(descending, bool):
        raise InvalidQuery(f"descending must be true or false, not {descending!r:.80}")
    return Sort(_text(given, "field"), descending)


def _read_scalar(value: Any) -> Scalar:
    if isinstance(value, Mapping) and value.keys() == {"instant"}:
        try:
            moment = datetime.fromisoformat(value["instant"])
        except (TypeError, ValueError) as problem:
            raise InvalidQuery(f"{value['instant']!r:.80} is no instant: {problem}") from None
        if moment.tzinfo is None:
            raise InvalidQuery(f"{moment.isoformat()} has no time zone")
        return moment
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidQuery(f"nothing can be compared with {value}")
    if isinstance(value, str | int | float):
        return value
    raise InvalidQuery(f"nothing can be compared with {value!r:.80}")


def _object(value: Any, what: str, names: set[str]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidQuery(f"{what} must be an object, not {value!r:.80}")
    if unknown := [name for name in value if name not in names]:
        raise InvalidQuery(f"{what} has no {unknown[0]!r:.80}; it has {', '.join(sorted(names))}")
    return value


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise InvalidQuery(f"{what} must be a list, not {value!r:.80}")
    return list(value)


def _text(given: Mapping[str, Any], name: str) -> str:
    if not isinstance(value := given.get(name), str):
        raise InvalidQuery(f"{name} must be text, not {value!r:.80}")
    return value


# --- namespaces: the letters of each app, where several apps share a store

ALL_NAMESPACES = "*"
LONGEST_NAMESPACE = 200  # characters: keys that begin with it have to fit into every store
_NAMING_ITEMS = ("reason", "task_id", "entry_id")
_FAILED = Not(Is("reason", (DlqReason.QUEUED,)))


def require_namespace(name: Any) -> str:
    """The name, if a namespace can have it. Raises InvalidInput."""
    if not isinstance(name, str):
        raise InvalidInput(f"namespace must be text, not {name!r:.80}")
    if not 0 < len(name) <= LONGEST_NAMESPACE or "/" in name:
        raise InvalidInput(f"namespace {name!r:.80} must have 1 to {LONGEST_NAMESPACE} characters, and no '/' in it")
    if name == ALL_NAMESPACES:
        raise InvalidInput(f"{ALL_NAMESPACES!r} means all namespaces, but this is about one: name it")
    return name


def require_namespace_or_all(name: Any) -> str:
    """The name of a namespace, or `*`. Raises InvalidInput."""
    return ALL_NAMESPACES if name == ALL_NAMESPACES else require_namespace(name)


def named_namespaces(query: Query) -> tuple[Any, ...] | None:
    """The namespaces that the query names itself; None if it names none.

    >>> named_namespaces(Query((Is("namespace", ("eu",)),))), named_namespaces(Query())
    (('eu',), None)
    """
    for condition in query.where:
        if isinstance(condition, Is) and condition.field == "namespace":
            return condition.values
    return None


def within_namespace(query: Query, own: str) -> Query:
    """The query for letters as a queue of the namespace `own` means it."""
    named = named_namespaces(query)
    if named is None:
        return query if own == ALL_NAMESPACES else replace(query, where=(Is("namespace", (own,)), *query.where))
    if ALL_NAMESPACES not in named:
        return query
    everywhere = tuple(each for each in query.where if not (isinstance(each, Is) and each.field == "namespace"))
    return replace(query, where=everywhere)


def without_waiting_items(query: Query, own: str) -> Query:
    """Return the query as a view of letters means it: over all namespaces, without waiting or finished items of queues.

    Items are letters of namespaces of their own. A dead one needs attention, as letters do; any other one has not
    failed. A query by reason, task or entry means items, too.

    >>> without_waiting_items(Query(), "eu").where, len(without_waiting_items(Query(), "*").where)
    ((), 1)
    """
    named = named_namespaces(query)
    is_everywhere = own == ALL_NAMESPACES if named is None else ALL_NAMESPACES in named
    if not is_everywhere or any(isinstance(each, Is) and each.field in _NAMING_ITEMS for each in query.where):
        return query
    return replace(query, where=(*query.where, _FAILED))


def own_records(query: Query, own: str) -> Query:
    """The query for records that write the namespace `default` as none, such as groups and bulk runs."""
    if own == ALL_NAMESPACES:
        return query
    here: Condition = Missing("namespace") if own == DEFAULT_NAMESPACE else Is("namespace", (own,))
    return replace(query, where=(here, *query.where))


def written_namespace(own: str) -> str | None:
    """The namespace as those records have it: versions that knew none wrote none.

    >>> written_namespace("default"), written_namespace("eu")
    (None, 'eu')
    """
    return None if own == DEFAULT_NAMESPACE else own


def acting_namespace(query: Query, own: str) -> str:
    """The one namespace in which something is done to what the query means. Raises InvalidInput for several.

    >>> acting_namespace(Query(), "eu"), acting_namespace(Query((Is("namespace", ("us",)),)), "eu")
    ('eu', 'us')
    """
    named = named_namespaces(query)
    if named is not None and len(set(named)) != 1:
        raise InvalidInput(f"letters are changed in one namespace at a time, not in {', '.join(map(str, named))}")
    return require_namespace(own if named is None else named[0])


OF_QUEUE = "@"  # between a namespace and the queue whose items have a namespace of their own


def items_namespace(namespace: str, queue: str) -> str:
    """The namespace that the items of a queue have: they are letters, and no failures of the app."""
    return f"{namespace}{OF_QUEUE}{queue}"


def has_items(namespace: str, queue: str) -> bool:
    """Whether what is in this queue of this namespace are items of a named queue. Without a `queue`: in all of it.

    >>> has_items("default@orders", "orders"), has_items("default", "orders")
    (True, False)
    """
    own, mark, name = namespace.rpartition(OF_QUEUE)
    return bool(own and mark) and queue in (name, "")


def queue_of_items(inside: str, namespace: str) -> str | None:
    """The queue of the namespace whose items are `inside` that one; None if they are of another namespace, or none.

    >>> queue_of_items("default@orders", "default"), queue_of_items("default@x@orders", "default")
    ('orders', None)
    """
    own, mark, name = inside.rpartition(OF_QUEUE)
    return name if mark and own == namespace else None
