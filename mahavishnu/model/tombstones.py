"""Tombstones: what is left of a letter that was deleted, or that the archive has taken, and what counts for it.

When a letter may become one stands in the table of `mahavishnu.model.lifecycle`, as of all moves.
"""

from __future__ import annotations

from datetime import UTC, datetime

from mahavishnu.model import lifecycle
from mahavishnu.model.clock import instant
from mahavishnu.model.errors import IllegalMove
from mahavishnu.model.letter import DeadLetter, evolve
from mahavishnu.model.letter_parts import DeadLetterStatus, Resolution, ResolutionStatus, Tallies
from mahavishnu.model.lifecycle import Move


def delete(letter: DeadLetter, *, now: datetime, by: str, whole: bool = False) -> DeadLetter:
    """Delete the letter. What is left is a tombstone: its name, its numbers, and the entry ids that it knows.

    Nothing that a person wrote or an error said is left. `updated_at` stays: it says up to which state the letter was
    known when it was deleted, so that a later state of it that turns up elsewhere is not taken for deleted too. With
    `whole` it names itself as its former letter, until all that belongs to it is deleted too.
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
        task_id=letter.task_id,
        namespace=letter.namespace,
        queue=letter.queue,
        entry_id=letter.entry_id,
        absorbed=letter.absorbed,
        merged=letter.merged,
        failed_at=letter.failed_at,
        created_at=letter.created_at,
        updated_at=letter.updated_at,
        resolution=resolution,
        generation=letter.generation,
        previous_entry_id=previous_entry_id,
        revision=letter.revision,
        archived_at=archived_at,
        tallies=tallies,
        counted=letter.counted,
        version=letter.version,
    )


_THEN = datetime(1970, 1, 1, tzinfo=UTC)
# All else of a tombstone is as in any letter of which nothing is known. It is made once: many leave at a time.
_NOTHING_LEFT = DeadLetter(
    task_id="",
    entry_id="",
    error="",
    last_error="",
    failed_at=_THEN,
    created_at=_THEN,
    updated_at=_THEN,
    status=DeadLetterStatus.ARCHIVED,
)


def count_alone(letter: DeadLetter) -> DeadLetter:
    """A letter from another store whose numbers are in a sum there: here it counts as one letter, closed once if it is.

    Any other letter stays as it is.
    """
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
