"""Reads of letters: lists, pages, single letters and their revisions, and the numbers of a queue."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from mahavishnu.engine.context import QueueContext
from mahavishnu.letters.ledger import HAS_NUMBERS, Ledger
from mahavishnu.model.errors import InvalidInput, NoSuchLetter, StoreError
from mahavishnu.model.ids import DEFAULT_QUEUE
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import RESOLUTIONS, DeadLetterStatus, ResolutionStatus, Tallies
from mahavishnu.model.query import Is, Query, Sort, filter_query, require_query
from mahavishnu.model.work import original_task_id
from mahavishnu.stores.base import CURRENT, Cell, Collection, Cursor, Page, Tally, get_one, scan
from mahavishnu.stores.retained import Revision
from mahavishnu.stores.scoped import NamespaceRecords, VisibleLetters

log = logging.getLogger(__name__)
SAMPLE = 200  # letters, the newest, of each side that are compared with each other
ACTIVE = (DeadLetterStatus.PENDING, DeadLetterStatus.RETRYING, DeadLetterStatus.EXHAUSTED)
_PAGE = 500
_STEP = 5000  # letters that an offset steps over at once
_AT_ONCE, _MOST_AT_ONCE = 50, 250  # letters that are read before it is known how large they are, and after
# What the numbers are counted by.
GROUPS = ("status", "resolution_status", "error_category", "retry_policy", "unfit")
BY_REASON = ("reason", "resolution_status")
SUMS = (*(f"tally_{tally}" for tally in Tallies.__struct_fields__), "generation")
_OPEN = Query((Is("resolution_status", (ResolutionStatus.PENDING,)),))
_TRIES = 5


class LetterList(list[DeadLetter]):
    """Letters; `degraded` says, in words, why some may be missing, and is None for the whole truth."""

    degraded: str | None = None


def list_query(status: DeadLetterStatus | str | None, query: Query | None, filters: Mapping[str, Any]) -> Query:
    """Return the query of a list: open letters unless something else is said. Raise InvalidInput."""
    if query is not None:
        if status is not None or filters:
            raise InvalidInput("give a query or filters, not both")
        return require_query(query)
    chosen = dict(filters)
    if status is not None:
        chosen["status"] = _parse_status(status)
    if "resolution" not in chosen and chosen.get("status") in (None, *ACTIVE):
        chosen["resolution"] = ResolutionStatus.PENDING
    return filter_query(chosen)


async def collect(context: QueueContext, query: Query, limit: int | None) -> LetterList:
    """Return the letters of the query, at most `limit`; unreadable ones are logged and left out."""
    if limit is not None and (type(limit) is not int or limit < 0):
        raise InvalidInput(f"limit must be a whole number from 0, not {limit!r:.80}")
    found, after = LetterList(), None
    while limit is None or len(found) < limit:
        room = _PAGE if limit is None else min(limit - len(found), _PAGE)
        page = await context.letters.find(replace(query, limit=room), after)
        found.extend(page.items)
        found.degraded = found.degraded or page.degraded
        for problem in page.corrupt:
            log.error("%s", problem)
        if page.next is None:
            break
        after = page.next
    found[:] = await context.hand_out_list(found, query)
    return found


async def require_letter(context: QueueContext, task_id: str, namespace: str | None, queue: str) -> DeadLetter:
    """Return the current letter of a task. Raise NoSuchLetter."""
    await context.open()
    key = context.key(task_id, namespace, queue)
    if (letter := await get_one(context.letters, key)) is None:
        raise NoSuchLetter(key)
    return letter


async def require_payload(context: QueueContext, task_id: str, namespace: str | None, queue: str) -> DeadLetter:
    """Return the letter for a reader of its payload. Raise NoSuchLetter and PermissionDenied."""
    await context.require("read", f"letter:{context.key(task_id, namespace, queue)}", namespace)
    return await require_letter(context, task_id, namespace, queue)


async def read_revisions(
    context: QueueContext, task_id: str, entry_id: str | None, namespace: str | None, queue: str
) -> list[Revision]:
    """Return the revisions of a letter, see `LetterOperations.revisions`."""
    key = context.key(task_id, namespace, queue)
    await context.require("read", f"letter:{key}", namespace)
    await context.open()
    letter = await get_one(context.letters, key)
    if entry_id is None and letter is None:
        raise NoSuchLetter(key)
    if entry_id is not None and (letter is None or letter.entry_id != entry_id):
        letter = await get_one(context.history, entry_id)
    named = entry_id or (letter.entry_id if letter else "")
    original = original_task_id(letter) if letter else None  # under which other work may have been edited before
    keys = (key,) if original is None else (key, context.key(original, namespace, queue))
    query = Query((Is("entry_id", (named,)), Is("letter_key", keys)), (Sort("number"),))
    kept = [revision async for revision in scan(context.revisions, query)]
    # An edit that was prepared and then not done has kept what the letter still is.
    shown = [revision for revision in kept if letter is None or revision.number < letter.revision]
    if shown:
        await context.note_read("read", f"letter:{key}", namespace, revisions=len(shown))
    return shown


async def require_seen(context: QueueContext, act: str, task_id: str, where: Mapping[str, Any]) -> None:
    """Raise PermissionDenied or NoSuchLetter where who acts may not do this to a letter, or does not see it."""
    if context.principal is not None:
        namespace, queue = where.get("namespace"), where.get("queue", DEFAULT_QUEUE)
        await context.audit.require(act, f"letter:{context.key(task_id, namespace, queue)}", namespace)
        await require_letter(context, task_id, namespace, queue)


async def only_namespace(letters: Collection[DeadLetter], task_id: str, queue: str) -> str | None:
    """Return the namespace that has a letter of this task, or None. Raise InvalidInput if several have."""
    found = await letters.find(Query((Is("task_id", (task_id,)), Is("queue", (queue,)))))
    names = sorted({letter.namespace for letter in found.items})
    if len(names) > 1:
        raise InvalidInput(f"task {task_id!r} has letters in several namespaces, {', '.join(names)}: name one")
    return names[0] if names else None


async def page(
    collection: Collection[DeadLetter], query: Query, after: Cursor | None, offset: int, most_bytes: int | None = None
) -> Page[DeadLetter]:
    """Return a page that begins `offset` letters after the cursor or the start, and ends early at `most_bytes`."""
    if type(offset) is not int or offset < 0:
        raise InvalidInput(f"offset must be a whole number from 0, not {offset!r:.80}")
    while offset:
        step = await collection.find(replace(query, limit=min(offset, _STEP)), after)
        if step.next is None:
            return Page((), None, (), step.corrupt, step.degraded)
        offset, after = offset - min(offset, _STEP), step.next
    if most_bytes is None:
        return await collection.find(query, after)
    return await _page_within(collection, query, after, most_bytes)


async def _page_within(
    collection: Collection[DeadLetter], query: Query, after: Cursor | None, most_bytes: int
) -> Page[DeadLetter]:
    """Return a page of at least one letter and at most about so many bytes, read in steps to save memory."""
    items: list[DeadLetter] = []
    positions: list[tuple[Any, ...]] = []
    corrupt: list[StoreError] = []
    degraded: str | None = None
    size, step = 0, _AT_ONCE
    while True:
        left = query.limit - len(items) - len(corrupt)
        found = await collection.find(replace(query, limit=min(step, left)), after)
        corrupt += found.corrupt
        degraded = degraded or found.degraded
        for letter, position in zip(found.items, found.positions, strict=True):
            size += _size_of(letter)
            if items and size > most_bytes:
                return Page(items, Cursor(positions[-1]), positions, tuple(corrupt), degraded)
            items.append(letter)
            positions.append(position)
        if found.next is None or len(items) + len(corrupt) >= query.limit:
            return Page(items, found.next, positions, tuple(corrupt), degraded)
        # Within one page nothing has to be held fast: the next page is asked for later, this one goes on at once.
        after = found.next if found.next.snapshot else replace(found.next, snapshot=CURRENT)
        fitting = (most_bytes - size) * len(items) // size if size else _AT_ONCE
        step = max(1, min(fitting, _MOST_AT_ONCE))


def _size_of(letter: DeadLetter) -> int:
    """Return the approximate size of a letter when it is shown, where its task appears under two names."""
    history = sum(len(failure.message) + len(failure.traceback or "") for failure in letter.failures)
    return 2 * len(letter.payload.text) + len(letter.labels.text) + len(letter.error) + history


def _parse_status(name: DeadLetterStatus | str) -> DeadLetterStatus:
    try:
        return DeadLetterStatus(name)
    except ValueError:
        raise InvalidInput(f"there is no status {name!r}; there are {', '.join(DeadLetterStatus)}") from None


# --- numbers


class ReasonLines(list[dict[str, Any]]):
    """A line for each reason; `degraded` says, in words, why numbers may be wrong, and is None for the whole truth."""

    degraded: str | None = None


async def count_letters(letters: NamespaceRecords[DeadLetter], ledger: Ledger) -> tuple[Tally, Mapping[str, int]]:
    """Return open letters by `GROUPS` and all `SUMS`, read again if numbers moved to the ledger meanwhile."""
    summed = await ledger.sums()
    for _ in range(_TRIES):
        still_open, counted = await asyncio.gather(
            letters.tally(_OPEN, GROUPS), letters.tally(Query((HAS_NUMBERS,)), sums=SUMS)
        )
        before, summed = summed, await ledger.sums()
        if before == summed:
            break
    nothing_else = (None,) * len(GROUPS)
    cells = {**still_open.cells, nothing_else: Cell(0, counted.total.sums)}
    return Tally(cells, still_open.degraded or counted.degraded), summed


def statistics(
    tally: Tally, max_size: int | None, deleted: Mapping[str, int] | None, here: Mapping[str, int]
) -> dict[str, Any]:
    """Return the answer of `get_statistics` from a tally by `GROUPS` with `SUMS`, as `count_letters` makes it.

    The lifetime numbers are sums over letters and tombstones, and over what `deleted` and closed letters left in the
    ledger, so they cannot drift from the letters. `here` is what only this process counts. An unknown `max_size`, as
    that of another app, is None. Without `deleted` there are no lifetime numbers: they would fall when a letter is
    closed.
    """
    still_open = {
        values: cell for values, cell in tally.cells.items() if values[1] == ResolutionStatus.PENDING and cell.count
    }
    size = sum(cell.count for cell in still_open.values())
    return {
        "queue_size": size,
        "max_size": max_size,
        "utilization_percent": None if max_size is None else round(100 * size / max_size, 2) if max_size else 0.0,
        "status_breakdown": {str(status): _count(still_open, 0, status) for status in ACTIVE},
        "error_categories": _breakdown(still_open, 2),
        "retry_policies": _breakdown(still_open, 3),
        "lifetime_stats": {} if deleted is None else {**lifetime(tally.total, deleted), **here},
    }


def lifetime(live: Cell, deleted: Mapping[str, int]) -> dict[str, int]:
    """Return the lifetime totals of letters.

    `enqueued_total` = open letters + retry_success + requeued + permanently_failed + manually_resolved + cancelled +
    archived + cleared + moved, always: a letter that is taken out of the archive again counts as enqueued again.
    """
    names = Tallies.__struct_fields__
    numbers = {name: live.sums.get(f"tally_{name}", 0) + deleted.get(f"tally_{name}", 0) for name in names}
    letters = live.sums.get("generation", 0) + deleted.get("letters", 0)
    return {"enqueued_total": letters + numbers["reopened"], **numbers}


async def count_by_reason(letters: VisibleLetters) -> ReasonLines:
    """Return the answer of `get_statistics_by_reason`."""
    return by_reason(await letters.tally(Query(), BY_REASON, sums=["dlq_retry_count"], spans=["created_at"]))


def by_reason(tally: Tally) -> ReasonLines:
    """Return one line for each reason, most letters first, from a tally by `BY_REASON` over live letters."""
    lines = ReasonLines()
    lines.degraded = tally.degraded
    for reason, whole in sorted(tally.by(0).items(), key=lambda item: (-item[1].count, str(item[0]))):
        ended = {
            how: tally.cells[reason, how.value].count if (reason, how.value) in tally.cells else 0
            for how in RESOLUTIONS
        }
        lines.append(
            {
                "dlq_reason": reason,
                "total_entries": whole.count,
                "pending": ended[ResolutionStatus.PENDING],
                "requeued": ended[ResolutionStatus.REQUEUED],
                "permanent_failures": ended[ResolutionStatus.PERMANENTLY_FAILED],
                "manually_resolved": ended[ResolutionStatus.MANUALLY_RESOLVED],
                "cancelled": ended[ResolutionStatus.CANCELLED],
                "avg_retries": round(whole.sums.get("dlq_retry_count", 0) / whole.count, 2),
                "oldest_entry": whole.earliest.get("created_at"),
                "newest_entry": whole.latest.get("created_at"),
            }
        )
    return lines


def _count(cells: Mapping[tuple[Any, ...], Cell], place: int, value: str) -> int:
    return sum(cell.count for values, cell in cells.items() if values[place] == value)


def _breakdown(cells: Mapping[tuple[Any, ...], Cell], place: int) -> dict[str, int]:
    counts = {name: _count(cells, place, name) for name in sorted({values[place] for values in cells} - {None})}
    return dict(sorted(counts.items(), key=lambda item: -item[1]))  # the most frequent first
