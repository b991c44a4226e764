"""One move on all the letters that a query means, with a result for each."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypedDict

from mahavishnu.classify.plugin_guard import call_in_thread
from mahavishnu.model.errors import IllegalMove, InvalidInput, MahavishnuError, StoreError, UnworkableLetter
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import Query
from mahavishnu.stores.base import Collection, Cursor, pages, update_many_with_retry
from mahavishnu.stores.kind import T

# --- who does something with letters, and why


class Act(TypedDict, total=False):
    """Who acts (`by`, kept on the letter) and why (`notes`), and in which namespace and queue the task is."""

    by: str
    notes: str | None
    namespace: str | None
    queue: str


Change = Callable[[DeadLetter], DeadLetter]
_NAMED_LETTERS = 50  # keys of moved letters that an audit entry names
log = logging.getLogger(__name__)


@contextmanager
def isolate_letter(key: str) -> Iterator[None]:
    """Raise UnworkableLetter in place of any error but our own: one letter of many must not stop the others."""
    try:
        yield
    except MahavishnuError:
        raise
    except Exception as problem:
        log.exception("letter %r cannot be handled and is left alone", key)
        raise UnworkableLetter(key, problem) from problem


@dataclass(slots=True)
class BulkResult:
    """What a bulk verb did, letter by letter: `done` went through, `refused` says why not.

    With `dry_run` nothing was written, and `done` is what would go through. `left` says that the cap ended it before
    everything was seen; `degraded` that not everything could be seen.
    """

    dry_run: bool
    done: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    left: bool = False
    degraded: str | None = None

    @property
    def matched(self) -> int:
        return len(self.done) + len(self.refused)


async def move_many(
    letters: Collection[DeadLetter],
    query: Query,
    change: Change,
    *,
    everything: bool = False,
    dry_run: bool = False,
    cap: int | None = None,
    in_thread: bool = False,
    moved: Callable[[DeadLetter], object] = lambda letter: None,
) -> BulkResult:
    """Make the move with every letter that the query means now, one result for each.

    A `change` that returns the letter itself skips it: it is in no result. One that takes its time is called
    `in_thread`, so that the event loop does not wait for it. `moved` is called with each letter that was written.
    Raises InvalidInput for a query without a condition, unless `everything` says that this is meant.
    """
    if not query.where and not everything:
        raise InvalidInput("this would change every letter: give a filter, or say that you mean everything")
    if cap is not None and (type(cap) is not int or cap < 0):
        raise InvalidInput(f"cap must be a whole number from 0, not {cap!r:.80}")
    result = BulkResult(dry_run)
    after: Cursor | None = None
    seen: set[str] = set()
    while True:
        try:
            page = await letters.find(query, after)
        except StoreError as problem:
            if after is None:
                raise
            result.degraded = str(problem)  # what was done before has to be returned
            return result
        result.degraded = result.degraded or page.degraded
        fresh = [letter for letter in page.items if letter.key not in seen]
        if cap is not None and len(seen) + len(fresh) > cap:
            fresh, result.left = fresh[: cap - len(seen)], True
        seen.update(letter.key for letter in fresh)
        if in_thread:
            changed = await call_in_thread(_change_page, fresh, change, result)
        else:
            changed = _change_page(fresh, change, result)
        await _write_page(letters, changed, change, result, moved)
        result.refused.update({getattr(problem, "key", "?"): str(problem) for problem in page.corrupt})
        if page.next is None or result.left:
            return result
        after = page.next


def _change_page(page: list[DeadLetter], change: Change, result: BulkResult) -> list[DeadLetter]:
    changed: list[DeadLetter] = []
    for letter in page:
        try:
            with isolate_letter(letter.key):
                after = change(letter)
        except MahavishnuError as problem:
            result.refused[letter.key] = str(problem)
        else:
            if after is not letter:
                changed.append(after)
    return changed


async def _write_page(
    letters: Collection[DeadLetter],
    changed: list[DeadLetter],
    change: Change,
    result: BulkResult,
    moved: Callable[[DeadLetter], object],
) -> None:
    if result.dry_run:
        result.done += [letter.key for letter in changed]
        return

    def change_again(lost: DeadLetter, current: DeadLetter | None) -> DeadLetter | None:
        if current is None:
            raise IllegalMove(lost.key, "change", "gone", "it was removed meanwhile")
        with isolate_letter(lost.key):
            after = change(current)
        return None if after is current else after

    outcomes: Sequence[DeadLetter | MahavishnuError | None]
    try:
        outcomes = await update_many_with_retry(letters, changed, change_again)
    except StoreError as problem:
        outcomes = [problem] * len(changed)
    for letter, outcome in zip(changed, outcomes, strict=True):
        if isinstance(outcome, MahavishnuError):
            result.refused[letter.key] = str(outcome)
        elif outcome is not None:
            result.done.append(letter.key)
            moved(outcome)


def bulk_summary(result: BulkResult) -> dict[str, Any]:
    """What the audit keeps of a bulk verb: how many, and which ones as far as that is not too long."""
    counts = {"moved": len(result.done), "refused": len(result.refused), "letters": result.done[:_NAMED_LETTERS]}
    return {**counts, "left": result.left, **({"degraded": result.degraded} if result.degraded else {})}


# --- work on a long list, past what cannot be read


async def scan_readable(collection: Collection[T], query: Query) -> AsyncIterator[T]:
    """As `scan`, without those that cannot be read: for work that one of them must not keep from all others."""
    async for page in pages(collection, query):
        for item in page:
            yield item
