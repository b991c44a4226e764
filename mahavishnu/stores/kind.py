"""Kinds: what a store has to know of records, declared once; and the order of records that a query asks for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from functools import cached_property, cmp_to_key, lru_cache
from typing import Any, Generic, Protocol, TypeVar

from mahavishnu.model.clock import instant
from mahavishnu.model.errors import InvalidInput, InvalidQuery
from mahavishnu.model.query import AnyOf, At, Between, Condition, HasKey, Not, Query, Sort
from mahavishnu.model.record import Value, Version

LONGEST_TERM = 8000  # characters; a longer keyword is kept but not findable (OpenSearch takes 32766 bytes)


class Record(Protocol):
    """Anything that stores keep: a frozen value with a key and a version."""

    @property
    def key(self) -> str: ...
    @property
    def version(self) -> Version | None: ...


T = TypeVar("T", bound=Record)
LOCAL = -1  # begins the version of a record that a local store keeps; no store's own version is negative


def is_kept_locally(record: Record) -> bool:
    """Return True for a record of this process's local store, which no other process has seen yet."""
    return record.version is not None and record.version[0] == LOCAL


def is_uncertain(record: Record) -> bool:
    """Return True for a locally kept record that may have a twin in the primary store, and cannot be changed yet."""
    return is_kept_locally(record) and bool(record.version and record.version[1])


class FieldType(Enum):
    """Type of a field, which decides how it can be searched."""

    KEYWORD = "keyword"  #: equality, grouping, sorting
    KEYWORDS = "keywords"  #: several texts: equality with one of them
    DATE = "date"  #: ranges, sorting
    INTEGER = "integer"  #: equality, ranges, sums, grouping, sorting
    TEXT = "text"  #: nothing here; OpenSearch indexes it for its own users
    FLAT = "flat"  #: a user's JSON object, a `Json`: equality at a dotted path
    JSON = "json"  #: a user's JSON of any shape, a `Json`: nothing, kept as it is
    BLOB = "blob"  #: nothing: a part of the document that `encode` writes


TEXT, BLOB = FieldType.TEXT, FieldType.BLOB


_encode = json.JSONEncoder().encode
_UNSEARCHABLE = (FieldType.TEXT, FieldType.JSON, FieldType.BLOB)
_GROUPABLE = (FieldType.KEYWORD, FieldType.DATE, FieldType.INTEGER)


class Field(Value, Generic[T], frozen=True):
    """One searchable field: its name in documents, its type, and how to read it off a record.

    A `derived` field is only there to be searched: stores that keep documents add it to them. `path` may name the
    attribute that `value` gives as it is, so that many can be read at once. Of a `common` field most records have the
    same value: a search by it alone finds nearly all of them; `rare` values are those of a few, however many records
    there are. A `late` field is rarely asked for, or by a text index: a store need not keep it with each record but may
    read it from the document. `omitted` is the value of a document that leaves an INTEGER field out.
    """

    name: str
    type: FieldType
    value: Callable[[T], Any]
    derived: bool = False
    path: str | None = None
    late: bool = False
    common: bool = False
    rare: tuple[str, ...] = ()
    omitted: int | None = None

    def term(self, record: T) -> Any:
        """Return the value as searched: None if empty or too long, a tuple for KEYWORDS, a set of pairs for FLAT."""
        value = self.value(record)
        if self.type is FieldType.FLAT:
            return frozenset(pair for pair in flatten(value.value) if len(pair[0]) + len(pair[1]) <= LONGEST_TERM)
        if self.type is FieldType.KEYWORDS:
            return tuple(filter(is_findable, value))
        return value if is_findable(value) else None


class ReconcileResult(Value, Generic[T], frozen=True):
    """Outcome for two records that two stores wrote under one key, see `mahavishnu.model.reconcile`.

    `live` replaces the primary store's record (None: that one stays), `former` goes into the history (a kind and a
    record of it), and `wait` says that the local record cannot go home yet.
    """

    live: T | None = None
    former: tuple[Kind[Any], Any] | None = None
    wait: bool = False


@dataclass(frozen=True, eq=False)
class Kind(Generic[T]):
    """A name, a codec and the searchable fields; stores need nothing else to keep a kind of record.

    `index` ends the name of its OpenSearch index. `encode` gives the JSON text of the document without its FLAT and
    JSON fields, which stores add in a shape that suits them; `decode` reads a whole parsed document, and raises
    CorruptRecord for a broken one. `decode_text` may read a document's text quicker; it gives None where `decode` has
    to look. `versioned` puts a version on a record. `indexes` are the field lists worth an index where indexes cost
    something; one that begins with a `sparse` field, which most records lack, may leave those out. `reconcile` settles
    what two stores wrote under one key, at an instant (without it the primary store's record stays), and `visible` says
    which of the two is shown meanwhile. `due` names the field that says when anyone may pick a record up, if there is
    one. `lazy` kinds get their place when they are first used: an app is up sooner.
    `key` names the attribute that is a record's key, if that is a field of it. A kind with a `partition` is kept in a
    place that can be taken away as a whole: of its name, beside the others. `encode_derived` may give the derived
    fields as members of a JSON object quicker than one by one.
    """

    name: str
    index: str
    encode: Callable[[T], str]
    decode: Callable[[Mapping[str, Any], Version], T]
    versioned: Callable[[T, Version | None], T]
    fields: tuple[Field[T], ...]
    indexes: tuple[tuple[str, ...], ...] = ()
    reconcile: Callable[[T, T, datetime], ReconcileResult[T]] | None = field(default=None)
    visible: Callable[[T, T, bool], T] | None = field(default=None)
    due: str | None = None
    lazy: bool = False
    key: str = "key"
    sparse: tuple[str, ...] = ()
    decode_text: Callable[[str, Version], T | None] | None = None
    encode_derived: Callable[[T], str] | None = None
    partition: str | None = None

    @cached_property
    def by_name(self) -> Mapping[str, Field[T]]:
        return {field.name: field for field in self.fields}

    @cached_property
    def users_json(self) -> tuple[Field[T], ...]:
        """The fields that hold what a user gave."""
        return tuple(f for f in self.fields if f.type in (FieldType.FLAT, FieldType.JSON))

    def document(self, record: T) -> str:
        """The whole document as JSON text."""
        parts = [f'"{f.name}":{f.value(record).text}' for f in self.users_json]
        return ",".join([self.encode(record)[:-1], *parts]) + "}"

    def read(self, text: str, version: Version) -> T:
        """The record of a document's JSON text. Raises CorruptRecord, or whatever such a text makes a parser raise."""
        if self.decode_text is not None and (record := self.decode_text(text, version)) is not None:
            return record
        document = json.loads(text)
        if not isinstance(document, dict):
            raise TypeError(f"the body is no JSON object but {type(document).__name__}")
        return self.decode(document, version)

    def check(self, query: Query, *more: str) -> None:
        """Raise InvalidQuery where the query asks for what this kind does not have."""
        leaves = _leaves(query.where)
        for name in (*(leaf.field for leaf in leaves), *(sort.field for sort in query.sort), *more):
            if name not in self.by_name or self.by_name[name].type in _UNSEARCHABLE:
                raise InvalidQuery(f"{self.name} cannot be searched by {name!r}; {sorted(self.searchable)} can be used")
        for sort in query.sort:
            if self.by_name[sort.field].type in (FieldType.KEYWORDS, FieldType.FLAT):
                raise InvalidQuery(f"{self.name} cannot be sorted by {sort.field!r}: it has many values")
        for condition in leaves:
            kind = self.by_name[condition.field].type
            fits: dict[type, bool] = {At: kind is FieldType.FLAT, Between: kind in (FieldType.DATE, FieldType.INTEGER)}
            if not fits.get(type(condition), kind is not FieldType.FLAT or type(condition).__name__ == "Missing"):
                raise InvalidQuery(
                    f"{type(condition).__name__} does not work on {condition.field!r}, a {kind.value} field"
                )
            if isinstance(condition, Between):
                for bound in (condition.at_least, condition.below, condition.at_most):
                    _check_bound(condition.field, kind, bound)

    def check_tally(self, query: Query, by: Sequence[str], sums: Sequence[str], spans: Sequence[str]) -> None:
        """Raise InvalidQuery where a tally asks for what this kind does not have."""
        self.check(query, *by, *sums, *spans)
        for names, types in ((by, _GROUPABLE), (sums, (FieldType.INTEGER,)), (spans, (FieldType.DATE,))):
            for name in names:
                if (type_ := self.by_name[name].type) not in types:
                    raise InvalidQuery(f"{self.name} cannot be tallied by {name!r}, a {type_.value} field")

    @cached_property
    def searchable(self) -> frozenset[str]:
        return frozenset(f.name for f in self.fields if f.type not in _UNSEARCHABLE)

    def derived_values(self, record: T) -> dict[str, Any]:
        """The values of the derived fields, as a document holds them."""
        return {f.name: to_json_value(f.value(record)) for f in self.fields if f.derived}

    def same(self, one: T, other: T) -> bool:
        """Return True if two records have the same content, whatever their versions."""
        return one == other or json.loads(self.document(one)) == json.loads(self.document(other))


def _leaves(conditions: Sequence[Condition]) -> list[Any]:
    found: list[Any] = []
    for condition in conditions:
        match condition:
            case Not(inner):
                found += _leaves([inner])
            case AnyOf(inner_ones):
                found += _leaves(inner_ones)
            case HasKey():
                pass
            case leaf:
                found.append(leaf)
    return found


def _check_bound(name: str, kind: FieldType, bound: Any) -> None:
    if bound is None:
        return
    if kind is FieldType.DATE and isinstance(bound, datetime):
        try:
            if bound.tzinfo is not UTC:
                instant(bound)
        except InvalidInput as problem:
            raise InvalidQuery(str(problem)) from None
    elif kind is not FieldType.INTEGER or not isinstance(bound, int | float) or bound != bound:
        raise InvalidQuery(f"{name!r} is a {kind.value} field: it cannot be compared with {bound!r:.80}")


@lru_cache(4096)  # one move puts one instant into several fields, often of many records
def instant_text(moment: datetime) -> str:
    """An instant as documents spell it, see `mahavishnu.model.clock.instant_text`. Raises InvalidInput as that does."""
    if moment.tzinfo is not UTC:
        moment = instant(moment)
    return f"{moment.isoformat(timespec='milliseconds')[:-6]}Z"


def to_json_value(value: Any) -> Any:
    """`value` as a document holds it."""
    if isinstance(value, datetime):
        return instant_text(value)
    return list(value) if isinstance(value, tuple) else value


def scalar_text(value: Any) -> str:
    """Spell a JSON scalar as values at a path are compared: `1`, `true`, or the text itself."""
    return value if isinstance(value, str) else _encode(value)


def flatten(value: Any) -> list[tuple[str, str]]:
    """Every (dotted path, scalar text) inside a JSON object; lists add nothing to the path, nulls are not there."""
    found: list[tuple[str, str]] = []
    _add_flat(value, "", found)
    return found


def _add_flat(value: Any, path: str, found: list[tuple[str, str]]) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            _add_flat(item, f"{path}.{key}" if path else key, found)
    elif isinstance(value, list):
        for item in value:
            _add_flat(item, path, found)
    elif value is not None:
        found.append((path, scalar_text(value)))


def is_findable(value: Any) -> bool:
    """Return True for a keyword that is short enough to be searched for."""
    return value is not None and (not isinstance(value, str) or len(value) <= LONGEST_TERM)


def foreign_cursor() -> InvalidQuery:
    """The error that every store raises for a cursor of another list, or an invented one."""
    return InvalidQuery("the cursor is not one of this list; leave it out to start at the beginning")


def require_position(kind: Kind[Any], sorts: Sequence[Sort], after: Sequence[Any]) -> tuple[Any, ...]:
    """The position that a cursor holds. It comes from outside: raises InvalidQuery unless it fits the sort fields."""
    if len(after) != len(sorts) + 1 or not isinstance(after[-1], str):
        raise foreign_cursor()
    for sort, value in zip(sorts, after, strict=False):
        match kind.by_name[sort.field].type:
            case FieldType.DATE:
                fits = isinstance(value, datetime) and value.tzinfo is not None
            case FieldType.INTEGER:
                fits = isinstance(value, int | float) and value == value
            case _:
                fits = isinstance(value, str)
        if not fits and value is not None:
            raise foreign_cursor()
    return tuple(after)


class Order(Generic[T]):
    """The order of a query: its sort fields, empty values last, ties by key. A position is the values compared."""

    def __init__(self, kind: Kind[T], query: Query) -> None:
        self._terms = [kind.by_name[sort.field].term for sort in query.sort]
        self._descending = [sort.descending for sort in query.sort]

    def position(self, record: T) -> tuple[Any, ...]:
        """Return the values by which the record is placed, then its key."""
        return (*(term(record) for term in self._terms), record.key)

    def compare(self, one: tuple[Any, ...], other: tuple[Any, ...]) -> int:
        """Negative if `one` comes first."""
        for mine, theirs, descending in zip(one, other, [*self._descending, False], strict=True):
            if mine != theirs:
                if mine is None or theirs is None:
                    return 1 if mine is None else -1
                return 1 if (mine > theirs) != descending else -1
        return 0

    def sort(self, records: Iterable[T]) -> list[T]:
        """The records in order."""
        placed = [(self.position(record), record) for record in records]
        placed.sort(key=lambda pair: pair[0][-1])
        for index in reversed(range(len(self._terms))):  # stable sorts, the most important one last
            present = [pair for pair in placed if pair[0][index] is not None]
            absent = [pair for pair in placed if pair[0][index] is None]
            present.sort(key=lambda pair: pair[0][index], reverse=self._descending[index])
            placed = present + absent
        return [record for _, record in placed]

    @property
    def key(self) -> Any:
        """For `sorted` and `heapq.merge` over positions."""
        return cmp_to_key(self.compare)
