"""What letters that were deleted leave behind, so that lifetime statistics do not forget them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from operator import attrgetter
from typing import Any

from mahavishnu.model.clock import instant_text
from mahavishnu.model.errors import CorruptRecord
from mahavishnu.model.letter import DeadLetter, Tallies, Version
from mahavishnu.stores.schema import Field, FieldType, Kind

_TALLIES = tuple(each.name for each in fields(Tallies))
SUMS = (*(f"tally_{name}" for name in _TALLIES), "letters", "cleared")


@dataclass(frozen=True, slots=True)
class Entry:
    """One deleted letter in numbers."""

    entry_id: str
    at: datetime
    by: str
    letters: int = 1
    cleared: int = 0
    tallies: Tallies = field(default_factory=Tallies)
    version: Version | None = field(default=None, compare=False)

    @property
    def key(self) -> str:
        return self.entry_id


def entry_for(letter: DeadLetter, at: datetime, by: str) -> Entry:
    """What is left of a letter that is deleted now: an open one was cleared, a closed one only purged."""
    return Entry(letter.entry_id, at, by, letter.generation, int(letter.is_open), letter.tallies)


def _encode(entry: Entry) -> str:
    document: dict[str, Any] = {"entry_id": entry.entry_id, "at": instant_text(entry.at), "by": entry.by}
    document |= {"letters": entry.letters, "cleared": entry.cleared}
    document |= {f"tally_{name}": count for name in _TALLIES if (count := getattr(entry.tallies, name))}
    return json.dumps(document)


def _decode(document: Mapping[str, Any], version: Version) -> Entry:
    try:
        tallies = Tallies(**{name: int(document.get(f"tally_{name}", 0)) for name in _TALLIES})
        at, by = datetime.fromisoformat(document["at"]), str(document["by"])
        return Entry(document["entry_id"], at, by, int(document["letters"]), int(document["cleared"]), tallies, version)
    except (KeyError, TypeError, ValueError) as problem:
        raise CorruptRecord(str(document.get("entry_id")), str(problem)) from problem


def _versioned(entry: Entry, version: Version | None) -> Entry:
    return replace(entry, version=version)


LEDGER: Kind[Entry] = Kind(
    name="ledger",
    index="dlq_ledger",
    encode=_encode,
    decode=_decode,
    versioned=_versioned,
    fields=(
        Field("entry_id", FieldType.KEYWORD, attrgetter("entry_id")),
        Field("at", FieldType.DATE, attrgetter("at")),
        Field("by", FieldType.KEYWORD, attrgetter("by")),
        Field("letters", FieldType.INTEGER, attrgetter("letters")),
        Field("cleared", FieldType.INTEGER, attrgetter("cleared")),
        *(Field(f"tally_{name}", FieldType.INTEGER, attrgetter(f"tallies.{name}")) for name in _TALLIES),
    ),
)
