"""What the contract keeps in a store: letters, history, and parcels, which no store has heard of before."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Generic

from mahavishnu.model.clock import instant_text
from mahavishnu.model.errors import CorruptRecord
from mahavishnu.model.json_value import EMPTY, Json
from mahavishnu.model.letter import DeadLetter, FormerLetter
from mahavishnu.model.letter_parts import Version
from mahavishnu.model.query import Condition, Is, Query, Sort
from mahavishnu.stores.kind import Field, FieldType, Kind, T
from mahavishnu.stores.kinds import HISTORY, LETTERS
from mahavishnu.testing.letters import make_letter

TORN = "torn"  # a parcel of this colour can be written, but not be read back


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """A record with a field of every type."""

    key: str
    shelf: str
    name: str = ""
    colour: str | None = None
    tags: tuple[str, ...] = ()
    sent_at: datetime | None = None
    weight: int | None = None
    labels: Json = EMPTY
    contents: Json = EMPTY
    note: str | None = None
    version: Version | None = field(default=None, compare=False)


def _encode(parcel: Parcel) -> str:
    document = {
        "key": parcel.key,
        "shelf": parcel.shelf,
        "name": parcel.name,
        "colour": parcel.colour,
        "tags": parcel.tags,
        "sent_at": parcel.sent_at and instant_text(parcel.sent_at),
        "weight": parcel.weight,
        "note": parcel.note,
    }
    return json.dumps({name: value for name, value in document.items() if value not in (None, ())})


def _decode(document: Mapping[str, Any], version: Version) -> Parcel:
    read = document.get
    if read("colour") == TORN:
        raise CorruptRecord(str(read("key")), "it is torn")
    sent_at = read("sent_at")
    return Parcel(
        key=document["key"],
        shelf=document["shelf"],
        name=document["name"],
        colour=read("colour"),
        tags=tuple(read("tags") or ()),
        sent_at=sent_at and datetime.fromisoformat(sent_at),
        weight=read("weight"),
        labels=Json.parsed(read("labels") or {}),
        contents=Json.parsed(read("contents")),
        note=read("note"),
        version=version,
    )


PARCELS: Kind[Parcel] = Kind(
    name="parcels",
    index="contract_parcels",
    encode=_encode,
    decode=_decode,
    versioned=lambda parcel, version: replace(parcel, version=version),
    fields=(
        Field("shelf", FieldType.KEYWORD, lambda parcel: parcel.shelf),
        Field("name", FieldType.KEYWORD, lambda parcel: parcel.name),
        Field("colour", FieldType.KEYWORD, lambda parcel: parcel.colour),
        Field("tags", FieldType.KEYWORDS, lambda parcel: parcel.tags),
        Field("sent_at", FieldType.DATE, lambda parcel: parcel.sent_at),
        Field("weight", FieldType.INTEGER, lambda parcel: parcel.weight),
        Field("heavy", FieldType.INTEGER, lambda parcel: int((parcel.weight or 0) >= 100), derived=True),
        Field("labels", FieldType.FLAT, lambda parcel: parcel.labels),
        Field("contents", FieldType.JSON, lambda parcel: parcel.contents),
        Field("note", FieldType.TEXT, lambda parcel: parcel.note),
        Field("key", FieldType.BLOB, lambda parcel: parcel.key),
    ),
    indexes=(("shelf", "sent_at"), ("weight",)),
)


@dataclass(frozen=True)
class Sample(Generic[T]):
    """How to make and ask for records of one kind, without knowing which.

    Each has a name, a number, and a shelf that keeps the records of one test apart from all others.
    """

    kind: Kind[T]
    make: Callable[[str, str, int], T]
    renumbered: Callable[[T, int], T]
    number: Callable[[T], int]
    shelf_field: str
    number_field: str

    def many(self, shelf: str, count: int) -> list[T]:
        """Records numbered from 0, whose keys are in the same order."""
        return [self.make(shelf, f"r{number:05}", number) for number in range(count)]

    def query(self, shelf: str, *where: Condition, by_number: bool = True, limit: int = 500) -> Query:
        """The records of one shelf, by number."""
        sort = (Sort(self.number_field),) if by_number else ()
        return Query((Is(self.shelf_field, (shelf,)), *where), sort, limit)

    def __repr__(self) -> str:
        return self.kind.name


def _letter(shelf: str, name: str, number: int) -> DeadLetter:
    return make_letter(task_id=name, namespace=shelf, entry_id=f"{shelf}:{name}", priority=number)


SAMPLES: tuple[Sample[Any], ...] = (
    Sample[DeadLetter](
        LETTERS,
        _letter,
        lambda letter, number: replace(letter, priority=number),
        lambda letter: letter.priority,
        "namespace",
        "priority",
    ),
    Sample[FormerLetter](
        HISTORY,
        lambda shelf, name, number: FormerLetter.of(_letter(shelf, name, number)),
        lambda letter, number: replace(letter, priority=number),
        lambda letter: letter.priority,
        "namespace",
        "priority",
    ),
    Sample[Parcel](
        PARCELS,
        lambda shelf, name, number: Parcel(key=f"{shelf}:{name}", shelf=shelf, name=name, weight=number),
        lambda parcel, number: replace(parcel, weight=number),
        lambda parcel: parcel.weight or 0,
        "shelf",
        "weight",
    ),
)
