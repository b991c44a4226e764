"""Numbers of ended letters go into sums: of tombstones, which can then be removed, by day; of closed letters by month.

First the day lists them. Then each is folded by compare-and-set: from that write on its numbers count in the day and no
longer in itself. Then the day adds up those that were folded, and lists nothing. A folded tombstone that a day lists is
not replaced or removed, so at any moment it can be told of each where its numbers count.

A letter that comes back takes its numbers out of the sums in the same way. First a *placeholder*, a folded tombstone,
takes its key. Then a day lists it as returning. Then the letter replaces the placeholder by compare-and-set: from that
write on the day counts its numbers no more. Then the day takes them off, and lists nothing. An abandoned placeholder is
removed.

The numbers of a closed letter are taken in the same way, by a month. It stays, and may be opened again at any moment,
also in the middle of that: the mark of the sum that took its numbers goes with it, and with what succeeds it, until
another sum takes numbers of it. It counts on from zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import Enum

from msgspec.structs import replace

from mahavishnu.model import lifecycle
from mahavishnu.model.clock import instant, instant_text
from mahavishnu.model.errors import IllegalMove
from mahavishnu.model.letter import DeadLetter, evolve
from mahavishnu.model.letter_parts import Counted, DeadLetterStatus, Resolution, ResolutionStatus, Tallies
from mahavishnu.model.lifecycle import Move
from mahavishnu.model.record import Value
from mahavishnu.model.rules import BY_RETENTION


class FoldState(Enum):
    """Progress of a tombstone that a day lists."""

    UNFOLDED = "unfolded"  #: it still counts its numbers itself
    FOLDED = "folded"  #: the day counts them
    SUCCEEDED = "succeeded"  #: another letter or tombstone has taken them over: the day never counts them
    RETURNED = "returned"  #: of one that comes back: it counts them itself again, and the day no more
    ABSENT = "absent"  #: of one that comes back: it is not there yet


class GroupSum(Value, frozen=True):
    """Number of letters of a group in a sum, with their first failure in it, their last creation, and last failure.

    An earlier version did not know the last failure: it is `seen` when a letter was created last.
    """

    letters: int
    first: datetime
    last: datetime
    seen: datetime | None = None

    @property
    def last_seen(self) -> datetime:
        return self.seen or self.last

    def plus(self, other: GroupSum) -> GroupSum:
        first, last = min(self.first, other.first), max(self.last, other.last)
        return GroupSum(self.letters + other.letters, first, last, max(self.last_seen, other.last_seen))


class ListedTombstone(Value, frozen=True):
    """A tombstone that is to be folded, or a letter that is to come back, or a `closed` one, with its numbers.

    A closed one has the `group` that it is still to be counted in, if any, when it was created, when it came into the
    group if that was later, and when it failed last.
    """

    key: str
    entry_id: str
    updated_at: datetime
    generation: int
    tallies: Tallies
    returning: bool = False
    closed: bool = False
    group: str | None = None
    created_at: datetime | None = None
    grouped_at: datetime | None = None
    seen_at: datetime | None = None

    @classmethod
    def of_closed(cls, letter: DeadLetter) -> ListedTombstone:
        """Return the entry of a month for a closed letter."""
        counted = letter.counted is not None and letter.counted.group == letter.fingerprint
        return cls(
            letter.key,
            letter.entry_id,
            letter.updated_at,
            letter.generation,
            letter.tallies,
            closed=True,
            group=None if counted else letter.fingerprint,
            created_at=letter.created_at,
            grouped_at=letter.grouped_at,
            seen_at=letter.seen_at,
        )

    @classmethod
    def of(cls, tombstone: DeadLetter, *, returning: bool = False) -> ListedTombstone:
        numbers = tombstone.generation, tombstone.tallies
        return cls(tombstone.key, tombstone.entry_id, tombstone.updated_at, *numbers, returning)


def fold(tombstone: DeadLetter, day: str) -> DeadLetter:
    """The tombstone when its numbers count in those of the day: it has none any more."""
    resolution = replace(tombstone.resolution, notes=day)
    return evolve(tombstone, generation=0, tallies=Tallies(), counted=None, resolution=resolution)


def fold_closed(letter: DeadLetter, month: str) -> DeadLetter:
    """The closed letter when its numbers count in those of the month."""
    before = letter.counted or Counted("", 0)
    counted = Counted(
        _mark(letter.updated_at, month),
        before.letters + letter.generation,
        before.reopened + letter.tallies.reopened,
        letter.fingerprint or "",
    )
    return evolve(letter, generation=0, tallies=Tallies(), counted=counted)


def _mark(updated_at: datetime, month: str) -> str:
    return f"{month} {instant_text(updated_at)}"


def has_numbers(letter: DeadLetter) -> bool:
    """Return True if a closed letter has numbers in no sum: each opening of it counts as a letter, or as reopened."""
    return letter.generation > 0 or letter.tallies.reopened > 0


def is_folded(tombstone: DeadLetter) -> bool:
    """Return True for a tombstone whose numbers are being added to those of a day: no other sum may take them."""
    return tombstone.is_deleted and not tombstone.generation and tombstone.counted is None


def was_reopened(letter: DeadLetter) -> bool:
    """Return True if it was ever opened again after it had been closed."""
    return letter.tallies.reopened > 0 or (letter.counted is not None and letter.counted.reopened > 0)


def fold_state(listed: ListedTombstone, current: DeadLetter | None, day: str) -> FoldState:
    """Return the progress of a listed letter, with the `current` one under its key."""
    if listed.closed:
        return _closed_state(listed, current, day)
    if listed.returning:
        back = current is not None and current.knows(listed.entry_id) and not _is_placeholder(listed, current, day)
        return FoldState.RETURNED if back else FoldState.ABSENT
    if current is None or not current.is_deleted:
        return FoldState.SUCCEEDED
    if current.generation:
        return FoldState.UNFOLDED if ListedTombstone.of(current) == listed else FoldState.SUCCEEDED
    return FoldState.FOLDED if _is_placeholder(listed, current, day) else FoldState.SUCCEEDED


def _closed_state(listed: ListedTombstone, current: DeadLetter | None, month: str) -> FoldState:
    if current is None:
        return FoldState.SUCCEEDED
    if current.counted is not None and current.counted.mark == _mark(listed.updated_at, month):
        return FoldState.FOLDED
    if not current.is_open and not current.is_deleted and ListedTombstone.of_closed(current) == listed:
        return FoldState.UNFOLDED
    return FoldState.SUCCEEDED


def _is_placeholder(listed: ListedTombstone, current: DeadLetter, day: str) -> bool:
    """Return True for the folded tombstone of a listed letter, of that day."""
    same = (current.entry_id, current.updated_at, current.resolution.notes) == (listed.entry_id, listed.updated_at, day)
    return same and current.is_deleted and not current.generation


def numbers_of(day_letters: int, tallies: Tallies, done: Iterable[ListedTombstone]) -> tuple[int, Tallies]:
    """A day's number of letters and its tallies, with those of what was folded, without those of what came back."""
    for listed in done:
        day_letters += -listed.generation if listed.returning else listed.generation
        tallies = tallies.combine(listed.tallies.negate() if listed.returning else listed.tallies)
    return day_letters, tallies


def groups_of(groups: Mapping[str, GroupSum], done: Iterable[ListedTombstone]) -> dict[str, GroupSum]:
    """A month's letters by group, with those that were folded."""
    sums = dict(groups)
    for listed in done:
        if listed.group is not None and listed.created_at is not None:
            first = listed.grouped_at or listed.created_at
            one = GroupSum(1, first, listed.created_at, listed.seen_at)
            sums[listed.group] = sums[listed.group].plus(one) if listed.group in sums else one
    return sums


# ---------------------------------- tombstones: the rest of a letter that was deleted, or that the archive has taken


def delete(letter: DeadLetter, *, now: datetime, by: str, whole: bool = False) -> DeadLetter:
    """Delete the letter. A tombstone is left: its name, its numbers, and the entry ids that it knows.

    No text of a person or an error is left. `updated_at` stays: it is the latest known state of the letter when it was
    deleted, so that a later state of it that turns up elsewhere is not taken for deleted too. With `whole` it names
    itself as its former letter, until all that belongs to it is deleted too.
    """
    lifecycle.require_move(letter, Move.DELETE)
    tallies = letter.tallies.plus("cleared") if letter.is_open else letter.tallies
    resolution = Resolution(ResolutionStatus.DELETED, instant(now), by)
    return _tombstone(letter, resolution, tallies, letter.entry_id if whole else None)


def retire(letter: DeadLetter, *, now: datetime, by: str, partition: str, former: str | None = None) -> DeadLetter:
    """Have the archive take the place of a closed letter: what is left is a tombstone that names the `partition`.

    Its numbers stay as they are: the case ended before. It is dated by that end, not by `now`: nothing that comes home
    can be older than its letter's end, so that a tombstone need not be remembered for long after that. `former` is the
    entry id of a former letter that is still to be removed from the history.
    """
    lifecycle.require_move(letter, Move.RETIRE)
    if letter.is_open:
        raise IllegalMove(letter.key, Move.RETIRE, str(letter.status), "its case has not ended")
    resolution = Resolution(ResolutionStatus.DELETED, letter.resolution.at or instant(now), by, partition)
    return _tombstone(letter, resolution, letter.tallies, former, archived_at=instant(now))


def _tombstone(
    letter: DeadLetter,
    resolution: Resolution,
    tallies: Tallies,
    previous_entry_id: str | None,
    archived_at: datetime | None = None,
) -> DeadLetter:
    return evolve(
        _NOTHING_LEFT,
        **{name: getattr(letter, name) for name in _KEPT},
        resolution=resolution,
        tallies=tallies,
        previous_entry_id=previous_entry_id,
        archived_at=archived_at,
    )


_KEPT = (
    *("task_id", "namespace", "queue", "entry_id", "absorbed", "merged", "failed_at", "created_at", "updated_at"),
    *("generation", "revision", "counted", "version"),
)
_THEN = datetime(1970, 1, 1, tzinfo=UTC)
# All else of a tombstone is as in any letter of which nothing is known. It is made once: many leave at a time.
_NOTHING_LEFT = DeadLetter("", "", "", "", _THEN, _THEN, _THEN, status=DeadLetterStatus.ARCHIVED)


def count_alone(letter: DeadLetter) -> DeadLetter:
    """Return a letter as one of its own here if a sum of another store counts it; any other as it is."""
    if letter.counted is None:
        return letter
    tallies = Tallies() if letter.is_open else Tallies().plus(_TALLY_OF[letter.resolution.status])
    return evolve(letter, generation=1, tallies=tallies, counted=None)


_TALLY_OF = {
    ResolutionStatus.REQUEUED: "retry_success",
    ResolutionStatus.MANUALLY_RESOLVED: "manually_resolved",
    ResolutionStatus.PERMANENTLY_FAILED: "permanently_failed",
    ResolutionStatus.CANCELLED: "cancelled",
    ResolutionStatus.DELETED: "cleared",
    ResolutionStatus.MOVED: "moved",
}


# ------- placeholders, which hold the key of a letter that comes back while its numbers are taken out of a day's sums


def placeholder(letter: DeadLetter, day: str, now: datetime) -> DeadLetter:
    """A folded tombstone of the letter, to be replaced by it. Until then its copy in the archive counts."""
    tombstone = delete(letter, now=now, by=BY_RETENTION)
    marked = evolve(tombstone, archived_at=now, previous_entry_id=letter.entry_id, version=None)
    return fold(marked, day)


def is_placeholder(tombstone: DeadLetter) -> bool:
    """Return True if it only holds a key: it names itself as its former letter, and was not deleted."""
    return (
        tombstone.is_deleted and tombstone.previous_entry_id == tombstone.entry_id and tombstone.archived_at is not None
    )
