"""One page out of two, of the primary store and of the local one, and a cursor that holds both positions.

Records move to the primary store between two pages. Then a search there finds them, again if they have been shown
already, and a snapshot from before does not have them.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

from mahavishnu.stores.base import CURRENT, Cursor, Page
from mahavishnu.stores.kind import Order, T, foreign_cursor


@dataclass(frozen=True, slots=True)
class PagePosition:
    """Where a list goes on in the primary store and in the local one, and the position up to which all was shown."""

    primary: Cursor | None = None
    local: Cursor | None = None
    shown: Cursor | None = None

    @classmethod
    def after(cls, cursor: Cursor | None) -> PagePosition:
        """The position that a cursor holds; one of the primary store alone begins the local list at its start."""
        if cursor is None or not any(isinstance(part, Cursor) for part in cursor.after):
            return cls(cursor)
        if len(cursor.after) != 3 or not all(part is None or isinstance(part, Cursor) for part in cursor.after):
            raise foreign_cursor()
        return cls(*cursor.after)


def merge_pages(
    order: Order[T],
    limit: int,
    page: Page[T],
    local: Page[T],
    certain: set[str],
    before: PagePosition,
    degraded: str | None,
) -> Page[T]:
    """One page of two, in order. The local records under the `certain` keys live there and nowhere else."""
    sources = ((page.items, page.positions, page.next), (local.items, local.positions, local.next))
    entries = heapq.merge(
        *(
            [(order.position(item), side, item, place) for item, place in zip(items, places, strict=True)]
            for side, (items, places, _) in enumerate(sources)
        ),
        key=lambda entry: order.key(entry[0]),
    )
    twins = {record.key for record in page.items}
    ends, shown = [before.primary, before.local], before.shown
    left = [len(page.items), len(local.items)]
    items: list[T] = []
    positions: list[tuple[Any, ...]] = []

    def end(side: int, position: tuple[Any, ...]) -> Cursor:
        rest = sources[side][2]
        if rest is not None and not left[side]:
            position = rest.after  # there may be corrupt records after the last one that can be read
        # What still has to be shown from here may go home before the next page, and a snapshot would not have it.
        moves = side == 1 or left[1] > 0 or local.next is not None
        return Cursor(position, CURRENT if moves or rest is None else rest.snapshot)

    taken = 0
    for at, side, record, place in entries:
        again = _is_shown(order, at, before.shown)  # it has gone home since
        if taken == limit and not again:
            break
        left[side] -= 1
        ends[side] = end(side, place)
        if again:
            continue
        taken += 1
        if degraded is None:  # else there may be others before it that could not be shown
            shown = Cursor(at)
        # Same rule as `get`: a certain local copy hides the primary's record; an uncertain one yields to it.
        if (record.key not in certain) if side == 0 else (record.key in certain or record.key not in twins):
            items.append(record)
            positions.append((*ends, shown))
    for side in (0, 1):  # a page of nothing but corrupt records has no last item to go on after
        if not left[side] and sources[side][2] is not None:
            ends[side] = end(side, ())
    more = any(left) or page.next is not None or local.next is not None
    following = Cursor((*ends, shown)) if more else None
    return Page(items, following, positions, (*page.corrupt, *local.corrupt), degraded)


def _is_shown(order: Order[Any], position: tuple[Any, ...], shown: Cursor | None) -> bool:
    try:
        return shown is not None and order.compare(position, shown.after) <= 0
    except (TypeError, ValueError):
        raise foreign_cursor() from None
