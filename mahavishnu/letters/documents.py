"""Answers to reads of letters: routes send them, and the command line asks for them in its own process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mahavishnu.engine.queue import LetterQueue
from mahavishnu.http.responses import Document, degraded_header, etag, letter_json, letters_shown, to_json
from mahavishnu.letters.reads import SAMPLE
from mahavishnu.letters.service import LetterOperations
from mahavishnu.model.errors import NoSuchLetter, StoreError
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import NEWEST_FIRST, Sort
from mahavishnu.search.rules import as_query
from mahavishnu.stores.base import Cursor

SORTS = {
    "newest": NEWEST_FIRST,
    "oldest": (Sort("created_at"),),
    "updated": (Sort("updated_at", descending=True),),
    "due": (Sort("due_at"),),
    "priority": (Sort("priority", descending=True), Sort("due_at")),
}
PAGE_BYTES = 16 * 1024 * 1024  # about; a page ends early where its letters have more


async def letters(
    dlq: LetterQueue,
    *,
    limit: int | str = 50,
    sort: str = "newest",
    whole: bool | str = False,
    cursor: str | None = None,
    offset: int = 0,
    **filters: Any,
) -> Document:
    """Return a page of letters by the fields of a `LetterQuery`. Raise InvalidQuery and StoreError."""
    query = as_query(filters, dlq.context.clock.now(), limit=int(limit), sort=SORTS[sort])
    after, whole = None if cursor is None else Cursor.parse(cursor), whole in (True, "true")
    page = await dlq.service(LetterOperations).find(query, after, offset=offset, most_bytes=PAGE_BYTES)
    headers = degraded_header(page.degraded) | ({"X-Corrupt": str(len(page.corrupt))} if page.corrupt else {})
    waiting_for = await _why_each_waits(dlq, page.items) if whole else None
    return Document(letters_shown(page.items, whole=whole, waiting_for=waiting_for), headers, page.next)


async def get_letter(dlq: LetterQueue, task_id: str, **place: str) -> DeadLetter:
    """Return a letter, also an archived one. Raise NoSuchLetter."""
    letter = await dlq.get_task(task_id, include_archived=True, **place)
    if letter is None:
        raise NoSuchLetter(task_id)
    return letter


async def whole_letter(dlq: LetterQueue, task_id: str, *, letter: DeadLetter | None = None, **place: str) -> Document:
    """Return a letter with its failures, and what it waits for. Raise NoSuchLetter."""
    letter = letter or await get_letter(dlq, task_id, **place)
    shown = letter_json(letter, whole=True)
    (waiting_for,) = await _why_each_waits(dlq, [letter])
    if waiting_for is not None:
        shown["waiting_for"] = waiting_for
    return Document(shown, {"ETag": etag(letter.version)})


async def contrasts(dlq: LetterQueue, task_id: str, sample: int = SAMPLE, **place: str) -> Document:
    """Return the contrasts of a letter with those that succeeded."""
    return Document(to_json(await dlq.service(LetterOperations).contrasts(task_id, sample=sample, **place)))


async def statistics(dlq: LetterQueue) -> Document:
    """Return the queue in numbers, with warnings."""
    numbers = await dlq.get_statistics()
    shown = {**to_json(numbers), "warnings": await dlq.health_warnings(numbers)}
    return Document(shown, degraded_header(numbers["degraded"]))


async def by_reason(dlq: LetterQueue) -> Document:
    """Return one line for each reason that letters were written for."""
    lines = await dlq.get_statistics_by_reason()
    return Document(to_json(lines), degraded_header(lines.degraded))


async def _why_each_waits(dlq: LetterQueue, letters: Sequence[DeadLetter]) -> Sequence[str | None]:
    """Return the reason why each letter waits; None if that is unknown now, or if it does not wait."""
    from mahavishnu.workers.service import Workers  # what lists letters does not wait for it

    try:
        return await dlq.service(Workers).why_each_waits(letters)
    except StoreError:
        return [None] * len(letters)
