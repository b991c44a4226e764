"""What holds the key of a letter that comes back while its numbers are taken out of a day's sums."""

from __future__ import annotations

from datetime import datetime

from mahavishnu.model.daily_sums import fold
from mahavishnu.model.letter import DeadLetter, evolve
from mahavishnu.model.retention import BY_RETENTION
from mahavishnu.model.tombstones import delete


def placeholder(letter: DeadLetter, day: str, now: datetime) -> DeadLetter:
    """A folded tombstone of the letter, to be replaced by it. Until then its copy in the archive counts."""
    tombstone = delete(letter, now=now, by=BY_RETENTION)
    marked = evolve(tombstone, archived_at=now, previous_entry_id=letter.entry_id, version=None)
    return fold(marked, day)


def is_placeholder(tombstone: DeadLetter) -> bool:
    """Whether it only holds a key: it names itself as its former letter, and nobody has deleted it."""
    return (
        tombstone.is_deleted and tombstone.previous_entry_id == tombstone.entry_id and tombstone.archived_at is not None
    )
