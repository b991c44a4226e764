"""What letters that were deleted leave behind, so that lifetime statistics do not forget them.

Deleting takes three writes: an entry that says *leaving*, the removal of the letter, and the same entry saying *gone*.
Whatever is killed in between, either the letter or its entry counts, and never both: an entry that is leaving counts
only if its letter is not there any more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from operator import attrgetter
from typing import Any

from mahavishnu.model.clock import instant_text
from mahavishnu.model.errors import CorruptRecord
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import Tallies, Version
from mahavishnu.stores.kind import Field, FieldType, Kind

_TALLIES = tuple(each.name for each in fields(Tallies))
SUMS = (*(f"tally_{name}" for name in _TALLIES), "letters", "cleared")


@dataclass(frozen=True, slots=True)
class Entry:
    """One deleted letter in numbers. `absorbed` are those that had become a part of it, or that it had succeeded."""

    entry_id: str
    letter_key: str
    at: datetime
    by: str
    letters: int = 1
    cleared: int = 0
    tallies: Tallies = field(default_factory=Tallies)
    gone: bool = False
    absorbed: tuple[str, ...] = ()
    version: Version | None = field(default=None, compare=False)

    @property
    def key(self) -> str:
        return self.entry_id

    def sums(self) -> dict[str, int]:
        """The numbers as a tally over `SUMS` would give them."""
        tallies = {f"tally_{name}": getattr(self.tallies, name) for name in _TALLIES}
        return {**tallies, "letters": self.letters, "cleared": self.cleared}


def entry_for(letter: DeadLetter, at: datetime, by: str) -> Entry:
    """What is left of a letter that is deleted now: an open one is cleared, a closed one only purged."""
    return Entry(
        entry_id=letter.entry_id,
        letter_key=letter.key,
        at=at,
        by=by,
        letters=letter.generation,
        cleared=int(letter.is_open),
        tallies=letter.tallies,
        absorbed=letter.absorbed,
    )


def _encode(entry: Entry) -> str:
    document: dict[str, Any] = {"entry_id": entry.entry_id, "letter_key": entry.letter_key}
    document |= {"at": instant_text(entry.at), "by": entry.by, "gone": int(entry.gone)}
    if entry.absorbed:
        document["absorbed"] = entry.absorbed
    document |= {name: count for name, count in entry.sums().items() if count}
    return json.dumps(document)


def _decode(document: Mapping[str, Any], version: Version) -> Entry:
    try:
        return Entry(
            entry_id=document["entry_id"],
            letter_key=document["letter_key"],
            at=datetime.fromisoformat(document["at"]),
            by=str(document["by"]),
            letters=int(document["letters"]),
            cleared=int(document.get("cleared", 0)),
            tallies=Tallies(**{name: int(document.get(f"tally_{name}", 0)) for name in _TALLIES}),
            gone=bool(document["gone"]),
            absorbed=tuple(document.get("absorbed") or ()),
            version=version,
        )
    except (KeyError, TypeError, ValueError) as problem:
        raise CorruptRecord(str(document.get("entry_id")), str(problem)) from problem


LEDGER: Kind[Entry] = Kind(
    name="ledger",
    index="dlq_ledger",
    encode=_encode,
    decode=_decode,
    versioned=lambda entry, version: replace(entry, version=version),
    fields=(
        Field("entry_id", FieldType.KEYWORD, attrgetter("entry_id")),
        Field("letter_key", FieldType.KEYWORD, attrgetter("letter_key")),
        Field("at", FieldType.DATE, attrgetter("at")),
        Field("by", FieldType.KEYWORD, attrgetter("by")),
        Field("gone", FieldType.INTEGER, lambda entry: int(entry.gone)),
        Field("absorbed", FieldType.KEYWORDS, attrgetter("absorbed")),
        Field("letters", FieldType.INTEGER, attrgetter("letters")),
        Field("cleared", FieldType.INTEGER, attrgetter("cleared")),
        *(Field(f"tally_{name}", FieldType.INTEGER, attrgetter(f"tallies.{name}")) for name in _TALLIES),
    ),
)
