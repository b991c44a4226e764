"""letters.numbers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from mahavishnu.engine.letters import NamespaceRecords, VisibleLetters
from mahavishnu.letters.ledger import WITH_NUMBERS, Ledger
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import RESOLUTIONS, DeadLetterStatus, ResolutionStatus, Tallies
from mahavishnu.model.query import Is, Query
from mahavishnu.stores.base import Cell, Tally

GROUPS = ("status", "resolution_status", "error_category", "retry_policy", "unfit")

_UNFIT = GROUPS.index("unfit")

SUMS = (*(f"tally_{tally.name}" for tally in fields(Tallies)), "generation")

ACTIVE = (DeadLetterStatus.PENDING, DeadLetterStatus.RETRYING, DeadLetterStatus.EXHAUSTED)

BY_REASON = ("reason", "resolution_status")

_OPEN = Query((Is("resolution_status", (ResolutionStatus.PENDING,)),))

_TRIES = 5


class ReasonLines(list[dict[str, Any]]):
    """A line for each reason; `degraded` says, in words, why numbers may be wrong, and is None for the whole truth."""

    degraded: str | None = None


async def count_letters(letters: NamespaceRecords[DeadLetter], ledger: Ledger) -> tuple[Tally, Mapping[str, int]]:
    """Return the open letters by `GROUPS`, with the `SUMS` over all letters that have numbers, and those of the ledger.

    Numbers move from letters to the ledger. If some did meanwhile, read them again.
    """
    summed = await ledger.sums()
    for _ in range(_TRIES):
        still_open, *counted = await asyncio.gather(
            letters.tally(_OPEN, GROUPS), *(letters.tally(Query(numbers), sums=SUMS) for numbers in WITH_NUMBERS)
        )
        before, summed = summed, await ledger.sums()
        if before == summed:
            break
    sums = {name: sum(tally.total.sums.get(name, 0) for tally in counted) for name in SUMS}
    degraded = next((tally.degraded for tally in (still_open, *counted) if tally.degraded), None)
    nothing_else = (None,) * len(GROUPS)
    return Tally({**still_open.cells, nothing_else: Cell(0, sums)}, degraded), summed


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
    names = [tally.name for tally in fields(Tallies)]
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
