"""The query language of a queue: reading a text as a query at this moment, and completion with counted values."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.ids import DEFAULT_NAMESPACE
from mahavishnu.model.letter_parts import ResolutionStatus
from mahavishnu.model.query import ALL_NAMESPACES, LONGEST_TEXT, NEWEST_FIRST, Is, Missing, Query, Sort
from mahavishnu.model.query_text import read_query
from mahavishnu.model.record import Value
from mahavishnu.search.completion import Suggestions, complete_name, complete_value, find_gap

if TYPE_CHECKING:
    from mahavishnu.engine.context import QueueContext

MOST_SUGGESTIONS, _MOST = 20, 100
QUEUE_MARK = "@"  # in the namespace of the items of a named queue
_OPEN = Is("resolution_status", (ResolutionStatus.PENDING,))
_NOT_DUE = Missing("due_at")
COUNTS_LAST = timedelta(seconds=30)  # so long is it remembered which values letters have


class LetterCount(Value, frozen=True):
    """The number of letters; `degraded` says why there may be more."""

    number: int
    degraded: str | None = None


class NamespaceCount(Value, frozen=True):
    """The open letters of a namespace, and those of them that need a person."""

    name: str
    open: int = 0
    for_people: int = 0


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
        """Return the query as of now: its ages become instants. Raises InvalidQueryText, which says where."""
        return read_query(text, self._context.clock.now(), sort=sort, limit=limit)

    async def count(self, query: Query) -> LetterCount:
        """Count the letters that a query means, on all its pages. Raises InvalidQuery and StoreError."""
        await self._context.open()
        tally = await self._context.letters.tally(query)
        return LetterCount(tally.total.count, tally.degraded)

    async def namespaces(self) -> Sequence[NamespaceCount]:
        """Return the visible namespaces that have letters, by name; and this one. Raises StoreError.

        >>> [each.name for each in await dlq.search.namespaces()]  # doctest: +SKIP
        ['default', 'eu']
        """
        everywhere, scope = self._context.in_namespace(ALL_NAMESPACES), self._context.scope
        await everywhere.open()
        every, left, waiting = await asyncio.gather(
            *(everywhere.letters.tally(Query(where), ("namespace",)) for where in ((), (_OPEN,), (_OPEN, _NOT_DUE)))
        )
        named = {name or DEFAULT_NAMESPACE: name for name in every.by(0) if QUEUE_MARK not in (name or "")}
        seen = {*named, self._context.namespace, *((scope.namespaces if scope else None) or ())} - {ALL_NAMESPACES}
        seen = {name for name in seen if scope is None or scope.covers_namespace(name)}
        numbers = [tally.by(0) for tally in (left, waiting)]
        return [
            NamespaceCount(name, *(each[named[name]].count if named.get(name, "") in each else 0 for each in numbers))
            for name in sorted(seen)
        ]

    async def suggest(self, text: str, position: int | None = None, *, limit: int = MOST_SUGGESTIONS) -> Suggestions:
        """Suggest texts at a position (default: the end): names and fixed values, or letters' most frequent values."""
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
