"""The query language of a queue: a text becomes a query, with its own clock; and what can be written next."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.query import LONGEST_TEXT, NEWEST_FIRST, Query, Sort
from mahavishnu.model.query_completion import (
    Suggestions,
    complete_name,
    complete_value,
    find_gap,
)
from mahavishnu.model.query_text import read_query

if TYPE_CHECKING:
    from mahavishnu.engine.context import QueueContext

MOST_SUGGESTIONS, _MOST = 20, 100
COUNTS_LAST = timedelta(seconds=30)  # so long is it remembered which values letters have


@dataclass(frozen=True, slots=True)
class LetterCount:
    """How many letters there are; `degraded` says why there may be more."""

    number: int
    degraded: str | None = None


class Search:
    """Queries as text, see docs/howto-search.md.

    >>> import asyncio
    >>> from mahavishnu.core.dead_letter_queue import DeadLetterQueue
    >>> async def main():
    ...     async with DeadLetterQueue() as dlq:
    ...         await dlq.enqueue("order-7", {"currency": "EURO"}, [], "card declined", adapter="orders")
    ...         found = await dlq.letters.find(dlq.search.query("adapter:orders task.currency:EURO age<1h"))
    ...         return [letter.task_id for letter in found.items]
    >>> asyncio.run(main())
    ['order-7']
    """

    def __init__(self, context: QueueContext) -> None:
        self._context = context
        self._counts: dict[str, tuple[datetime, dict[str, int]]] = {}

    def query(self, text: str, *, sort: tuple[Sort, ...] = NEWEST_FIRST, limit: int = 500) -> Query:
        """The query that the text means at this moment: its ages become instants now, and stay what they are.

        Raises InvalidQueryText, which says where the text is wrong and what may have been meant.
        """
        return read_query(text, self._context.clock.now(), sort=sort, limit=limit)

    async def count(self, query: Query) -> LetterCount:
        """How many letters a query means, on all its pages. Raises InvalidQuery and StoreError."""
        await self._context.open()
        tally = await self._context.letters.tally(query)
        return LetterCount(tally.total.count, tally.degraded)

    async def suggest(self, text: str, position: int | None = None, *, limit: int = MOST_SUGGESTIONS) -> Suggestions:
        """What can stand at a position of an unfinished text, which is its end unless said otherwise.

        Names come from the language; values from it where they are a fixed set, else from the letters that there are,
        the most frequent first. Those are counted anew after half a minute at the soonest.
        """
        if type(limit) is not int or not 1 <= limit <= _MOST:
            raise InvalidInput(f"limit must be a whole number from 1 to {_MOST}, not {limit!r:.80}")
        if len(text) > LONGEST_TEXT:
            raise InvalidInput(f"a query has {LONGEST_TEXT} characters at most, this one {len(text)}")
        gap = find_gap(text, len(text) if position is None else position)
        if gap.name is None:
            items = complete_name(gap.written)
        else:
            counted = await self._count(gap.name.field) if gap.name.known else {}
            items = complete_value(gap.name, gap.written, counted.items())
        return Suggestions(gap.start, gap.end, items[:limit])

    async def _count(self, field: str) -> dict[str, int]:
        now = self._context.clock.now()
        at, counts = self._counts.get(field, (now, None))
        if counts is None or not timedelta() <= now - at < COUNTS_LAST:
            await self._context.open()
            tally = await self._context.letters.tally(Query(), (field,))
            counts = {str(value): cell.count for (value,), cell in tally.cells.items() if value}
            self._counts[field] = now, counts
        return counts
