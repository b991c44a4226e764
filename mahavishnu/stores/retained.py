"""Records that outlive a letter: numbers of deleted ones, former generations, and earlier content of edited ones."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import IntEnum
from typing import Any

from msgspec import field
from msgspec.structs import replace

from mahavishnu.model.errors import CorruptRecord, StoreError, StoreUnavailable, require_answers
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter, FormerLetter
from mahavishnu.model.letter_parts import Tallies
from mahavishnu.model.query import Is, Query
from mahavishnu.model.record import Version, Versioned
from mahavishnu.model.tombstones import GroupSum, ListedTombstone
from mahavishnu.model.work import choose_place, places_of
from mahavishnu.stores.base import Collection, find_pages, update_many_with_retry, write_with_retry
from mahavishnu.stores.kind import instant_text

log = logging.getLogger(__name__)
_TRIES = 10
_PAGE = 500
_LATEST = 100  # revisions of a letter that others may have written so lately that no search shows them


class LedgerState(IntEnum):
    """Numbers of an entry that count."""

    GONE = 1  #: all
    FOLDING = 2  #: all, and those of the listed tombstones that are folded


class LedgerEntry(Versioned, frozen=True):
    """Letters in numbers: of the tombstones added up on one day, or of the closed letters of one month, also by group.

    The key is the date or the month; in a namespace with a name of its own, after that.
    """

    entry_id: str
    at: datetime
    letters: int = 0
    tallies: Tallies = field(default_factory=Tallies)
    folding: tuple[ListedTombstone, ...] = ()
    namespace: str | None = None
    groups: Mapping[str, GroupSum] = field(default_factory=dict)
    version: Version | None = None

    @property
    def key(self) -> str:
        return self.entry_id

    @property
    def state(self) -> LedgerState:
        return LedgerState.FOLDING if self.folding else LedgerState.GONE


async def keep_former(history: Collection[FormerLetter], former: FormerLetter) -> None:
    """Write the former letter into history, or a later state there once more: removers of leftovers lose then."""

    def keep_later(there: FormerLetter | None) -> FormerLetter:
        if there is None:
            return former
        return there if there.updated_at > former.updated_at else replace(former, version=there.version)

    await write_with_retry(history, former.key, keep_later, what="former letter", known=None)


def revision_key(entry_id: str, number: int) -> str:
    """Return the key of the revision from before the edit after `number` edits."""
    return f"{entry_id}/{number}"


class Revision(Versioned, frozen=True):
    """Content of a letter that people may change, after `number` edits, at `updated_at`. It names no person."""

    entry_id: str
    number: int
    letter_key: str
    updated_at: datetime
    task: Json
    metadata: Json
    repos: tuple[str, ...]
    depends_on: tuple[str, ...]
    retry_policy: str
    max_retries: int
    priority: int
    next_retry_at: datetime | None = None
    adapter: str | None = None
    payload_types: Mapping[str, str] | None = None
    version: Version | None = None

    @property
    def key(self) -> str:
        return revision_key(self.entry_id, self.number)

    @classmethod
    def of(cls, letter: DeadLetter) -> Revision:
        """The revision that says what the letter is now."""
        return cls(
            entry_id=letter.entry_id,
            number=letter.revision,
            letter_key=letter.key,
            updated_at=letter.updated_at,
            task=letter.payload,
            metadata=letter.labels,
            repos=letter.repos,
            depends_on=letter.depends_on,
            retry_policy=str(letter.retry_policy),
            max_retries=letter.max_retries,
            priority=letter.priority,
            next_retry_at=letter.next_retry_at,
            adapter=letter.adapter,
            payload_types=letter.payload_types.value or None,
        )

    def content(self) -> dict[str, Any]:
        """Return the content that people may change, by its documented names, as JSON values."""
        return {
            "task": self.task.value,
            "metadata": self.metadata.value,
            "repos": list(self.repos),
            "depends_on": list(self.depends_on),
            "retry_policy": self.retry_policy,
            "max_retries": self.max_retries,
            "priority": self.priority,
            "next_retry_at": self.next_retry_at and instant_text(self.next_retry_at),
            "adapter": self.adapter,
            **({"payload_types": dict(self.payload_types)} if self.payload_types else {}),
        }


async def keep_revisions(revisions: Collection[Revision], letters: Sequence[DeadLetter]) -> list[StoreError | None]:
    """Keep what these letters are, before they are edited. Returns None or an error for each, in order.

    A revision that another caller kept is brought up to date if this letter is later, because runs and merges change
    letters between two edits. So the winner of the letter's compare-and-set has kept exactly what it replaced, and a
    loser has kept nothing wrong. Doing it twice is doing it once.
    """

    def keep_later(ours: Revision, there: Revision | None) -> Revision | None:
        if there is not None and there.updated_at >= ours.updated_at:
            return None
        return replace(ours, version=there.version if there else None)

    wanted = [Revision.of(letter) for letter in letters]
    outcomes = await update_many_with_retry(revisions, wanted, keep_later, what="revision", tries=_TRIES)
    return [outcome if isinstance(outcome, StoreError) else None for outcome in outcomes]


async def forget_revisions(
    revisions: Collection[Revision], history: Collection[FormerLetter], letters: Sequence[DeadLetter]
) -> None:
    """Delete revisions of deleted letters, but of none in the history; repeatable. Raises StoreError if any is left."""
    latest = [
        revision_key(letter.entry_id, number)
        for letter in letters
        for number in range(max(0, letter.revision - _LATEST), letter.revision + 1)
    ]
    for start in range(0, len(latest), _PAGE):
        there = await revisions.get(latest[start : start + _PAGE])
        await _remove(revisions, [each for each in there if isinstance(each, Revision)])
    entry_ids = [entry_id for letter in letters for entry_id in (letter.entry_id, *letter.absorbed)]
    for start in range(0, len(entry_ids), _PAGE):
        await forget_found_revisions(revisions, history, entry_ids[start : start + _PAGE])


async def forget_found_revisions(
    revisions: Collection[Revision], history: Collection[FormerLetter], entry_ids: Sequence[str]
) -> None:
    """Delete the revisions that a search shows of letters with these ids, if those are not in the history."""
    former = await history.get(entry_ids)
    for problem in former:
        if isinstance(problem, StoreError) and not isinstance(problem, CorruptRecord):  # what is corrupt is there
            raise problem
    gone = tuple(entry_id for entry_id, there in zip(entry_ids, former, strict=True) if there is None)
    for _ in range(_TRIES):  # a loop of its own: it removes, and searches again
        if not gone or await _remove_found(revisions, Query((Is("entry_id", gone),), limit=_PAGE)):
            return
    raise StoreUnavailable(f"revisions were changed by others {_TRIES} times in a row while they were deleted")


async def _remove_found(revisions: Collection[Revision], query: Query) -> bool:
    """Remove what the query finds. False if somebody updated a revision meanwhile."""
    complete = True
    async for page in find_pages(revisions, query):
        if page.degraded:
            raise StoreUnavailable(f"not all revisions can be deleted now: {page.degraded}")
        for problem in page.corrupt:
            log.error("a revision of a deleted letter stays: %s", problem)
        complete = await _remove(revisions, page.items) and complete
    return complete


async def _remove(revisions: Collection[Revision], found: Sequence[Revision]) -> bool:
    return all(require_answers(await revisions.remove(found) if found else ()))


async def find_place(
    letters: Collection[DeadLetter], letter: DeadLetter, *, is_new: bool = False
) -> tuple[DeadLetter, DeadLetter | None]:
    """Return the letter under a task id that is free for it, and what lives there, if anything. Raises StoreError.

    While the primary store is away, an id that the local one does not have may be taken there. For a letter that
    `is_new`, so that it is nowhere yet, such an id passes for free: it is created there only if it is.
    """
    places = places_of(letter)
    found: list[DeadLetter | None] = []
    for place, there in enumerate(await letters.get([each.key for each in places])):
        if isinstance(there, StoreError) and not (is_new and place and isinstance(there, StoreUnavailable)):
            raise there
        found.append(there if isinstance(there, DeadLetter) else None)
    chosen = choose_place(letter, found)
    return places[chosen], found[chosen]
