"""One kind of record over two stores: which of the two is asked, and how their answers become one."""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec.structs import replace

from mahavishnu.model.errors import StoreError, StoreMisconfigured, StoreUnavailable
from mahavishnu.model.query import HasKey, Not, Query
from mahavishnu.model.record import Value
from mahavishnu.stores.base import CURRENT, Buckets, Collection, Cursor, Histogram, Page, Result, Tally, find_pages
from mahavishnu.stores.fallback.drain import BATCH, DrainResult, LocalCopy, drain, local_copy_kind
from mahavishnu.stores.kind import LOCAL, Kind, Order, T, foreign_cursor, is_kept_locally, is_uncertain
from mahavishnu.stores.memory import histogram_of, tally_of

if TYPE_CHECKING:
    from mahavishnu.stores.fallback.store import FallbackStore

log = logging.getLogger(__name__)
R = TypeVar("R")
_MOST_EXACT = 10_000  # local records that sums are told apart from those at home
_COUNTED_TWICE = "records that were kept locally are on their way home: some may be counted twice"


class PagePosition(Value, frozen=True):
    """Place to go on in the primary store and in the local one, and the position up to which all was shown."""

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


class FallbackCollection(Generic[T]):
    """One kind of record of a `FallbackStore`: reads and writes go to the store that has the record."""

    def __init__(self, pair: FallbackStore, kind: Kind[T]) -> None:
        self.kind = kind
        self.drained = False  # True while nothing is kept locally, as far as this process knows
        self.forbidden: StoreMisconfigured | None = None  # why the primary store refuses this kind, while it does
        self._kept = 0  # how often something was kept locally: a drain compares it
        self._pair = pair
        self._primary: Collection[T] = pair.primary.collection(kind)
        self._local: Collection[LocalCopy[T]] = pair.local.collection(local_copy_kind(kind))

    async def write(self, records: Sequence[T]) -> list[Result[T]]:
        results: list[Result[T]] = [None] * len(records)
        new = [index for index, record in enumerate(records) if record.version is None]
        local = [index for index, record in enumerate(records) if is_kept_locally(record)]
        theirs = sorted({*range(len(records))} - {*new} - {*local})
        async with self._pair.change():
            for indexes, write in (
                (local, self._replace_locally),
                (theirs, partial(self._send, self._primary.write)),
                (new, self._create),
            ):
                if indexes:
                    for index, result in zip(indexes, await write([records[i] for i in indexes]), strict=True):
                        results[index] = result
        return _require_an_answer(results)

    async def remove(self, records: Sequence[T]) -> list[bool | StoreError]:
        results: list[bool | StoreError] = [False] * len(records)
        local = [index for index, record in enumerate(records) if is_kept_locally(record)]
        theirs = sorted({*range(len(records))} - {*local})
        async with self._pair.change():
            if local:
                certain = [index for index in local if not is_uncertain(records[index])]
                removed = await self._local.remove([self._local_copy(records[index]) for index in certain])
                answers = dict(zip(certain, removed, strict=True))
                for index in local:
                    results[index] = answers.get(index, _unchangeable(records[index].key))
            if theirs:
                removed = await self._send(self._primary.remove, [records[i] for i in theirs])
                for index, result in zip(theirs, removed, strict=True):
                    results[index] = result
        return _require_an_answer(results)

    async def get(self, keys: Sequence[str]) -> list[Result[T]]:
        here: list[Result[LocalCopy[T]]] = [None] * len(keys)
        if not self.drained:
            here = await self._local_get(keys)
        results: list[Result[T]] = [self._record(held) if isinstance(held, LocalCopy) else held for held in here]
        # An uncertain copy says what was written; its twin in the primary store, if there is one, what became of it. A
        # certain one may hide another record there.
        certain = {index for index, held in enumerate(here) if isinstance(held, LocalCopy) and not held.uncertain}
        hiding = self.kind.visible is not None and self._away is None
        asked = [index for index in range(len(keys)) if hiding or index not in certain]
        if asked:
            twins: Sequence[Result[T]]
            try:
                twins = await self._ask(lambda: self._primary.get([keys[index] for index in asked]))
            except (StoreUnavailable, StoreMisconfigured) as problem:
                twins = [None if results[index] is not None else problem for index in asked]
            for index, twin in zip(asked, twins, strict=True):
                if twin is not None:
                    results[index] = self._visible(twin, results[index], index in certain)
        return _require_an_answer(results)

    def _visible(self, theirs: T | StoreError, ours: Result[T], certain: bool) -> T | StoreError:
        if ours is not None and isinstance(theirs, StoreError) and certain:
            return ours
        if self.kind.visible is None or ours is None or isinstance(theirs, StoreError) or isinstance(ours, StoreError):
            return theirs
        return self.kind.visible(theirs, ours, certain)

    async def find(self, query: Query, after: Cursor | None = None) -> Page[T]:
        self.kind.check(query)
        place = PagePosition.after(after)
        # The local store first: a record that is moved to the primary meanwhile is then seen twice, never not at all.
        held = await self._local_find(query, place.local) if self._has_local() else None
        try:
            page = await self._ask(lambda: self._primary.find(query, place.primary))
        except StoreUnavailable as problem:
            held = held or await self._local_find(query, place.local)
            return self._merge(query, Page(()), held, place, self._degraded_text(problem))
        if held is None and after is place.primary:
            return page
        held = held or Page(())
        return self._merge(query, page, held, place, held.degraded)

    def _merge(
        self, query: Query, page: Page[T], held: Page[LocalCopy[T]], place: PagePosition, degraded: str | None
    ) -> Page[T]:
        local = Page([self._record(each) for each in held.items], held.next, held.positions, held.corrupt)
        certain = {each.key for each in held.items if not each.uncertain}
        return merge_pages(Order(self.kind, query), query.limit, page, local, certain, place, degraded)

    async def _local_find(self, query: Query, after: Cursor | None) -> Page[LocalCopy[T]]:
        try:
            return await self._local.find(query, after)
        except StoreUnavailable as problem:
            return Page((), degraded=f"the local store cannot be read: {problem}")

    async def tally(
        self, query: Query, by: Sequence[str] = (), *, sums: Sequence[str] = (), spans: Sequence[str] = ()
    ) -> Tally:
        self.kind.check_tally(query, by, sums, spans)
        try:
            kept = await self._kept_records() if self._has_local() else []
            others = query if not kept else _without(query, kept)
            home = await self._ask(lambda: self._primary.tally(others, by, sums=sums, spans=spans))
        except StoreUnavailable as problem:
            here = await self._local.tally(query, by, sums=sums, spans=spans)
            return Tally(here.cells, self._degraded_text(problem))
        if kept is None:
            here, degraded = await self._local.tally(query, by, sums=sums, spans=spans), _COUNTED_TWICE
        else:
            here, degraded = tally_of(self.kind, kept, query, by, sums=sums, spans=spans), None
        cells = dict(home.cells)
        for values, cell in here.cells.items():
            cells[values] = cells[values].plus(cell) if values in cells else cell
        return Tally(cells, home.degraded or degraded)

    async def histogram(self, query: Query, buckets: Buckets) -> Histogram:
        self.kind.check_tally(query, (), (), (buckets.field,))
        try:
            kept = await self._kept_records() if self._has_local() else []
            others = query if not kept else _without(query, kept)
            home = await self._ask(lambda: self._primary.histogram(others, buckets))
        except StoreUnavailable as problem:
            here = await self._local.histogram(query, buckets)
            return replace(here, degraded=self._degraded_text(problem))
        if kept is None:
            return replace(home.plus(await self._local.histogram(query, buckets)), degraded=_COUNTED_TWICE)
        return home.plus(histogram_of(self.kind, kept, query, buckets))

    async def _kept_records(self) -> list[T] | None:
        """Return locally kept records, or their twins; None if too many or unreadable. Raises StoreUnavailable."""
        if self._away is not None:
            return []
        held: list[LocalCopy[T]] = []
        async for page in find_pages(self._local, Query(limit=BATCH)):
            held += page.items
            if page.corrupt or len(held) > _MOST_EXACT:
                return None
        records = {each.key: each.record for each in held}
        if doubtful := [each.key for each in held if each.uncertain]:
            twins = zip(doubtful, await self._ask(lambda: self._primary.get(doubtful)), strict=True)
            records |= {key: twin for key, twin in twins if twin is not None and not isinstance(twin, StoreError)}
        return list(records.values())

    async def drain(self) -> DrainResult:
        """Move what is kept locally to the primary store."""
        try:
            if self.forbidden is not None and await self.is_forbidden():
                return DrainResult(stopped=self.forbidden)
        except StoreUnavailable as problem:
            return DrainResult(stopped=problem)
        kept = self._kept
        pair = self._pair
        result = await drain(self.kind, pair.primary, pair.local, pair.lease_watch, pair.on_arrival)
        self.drained = result.waiting == 0 and kept == self._kept
        if isinstance(result.stopped, StoreMisconfigured):
            self._note_failure(result.stopped)
        else:
            self.forbidden = None
        return result

    async def is_forbidden(self) -> bool:
        """Ask the primary store, and return True if it refuses this kind. Raises StoreUnavailable."""
        try:
            await self._primary.find(Query(limit=1))
        except StoreMisconfigured as problem:
            self._note_failure(problem)
            return True
        return False

    async def check_other_processes(self) -> None:
        """Notice records that another process keeps in the same local store."""
        if self.drained and (await self._local.find(Query(limit=1))).items:
            self.drained = False

    async def _create(self, records: Sequence[T]) -> list[Result[T]]:
        # The caller may be cancelled at any moment, but a record must not be lost between the two stores.
        return await asyncio.shield(asyncio.ensure_future(self._create_shielded(records)))

    async def _create_shielded(self, records: Sequence[T]) -> list[Result[T]]:
        async with self._pair.change():
            if self.drained:
                return await self._create_in_primary(records)
            # Where the local store cannot answer, the record goes to the primary: two of them are reconciled later.
            taken = [isinstance(held, LocalCopy) for held in await self._local_get([record.key for record in records])]
            free = [record for record, kept in zip(records, taken, strict=True) if not kept]
            created = iter(await self._create_in_primary(free) if free else [])
            return [None if kept else next(created) for kept in taken]

    async def _local_get(self, keys: Sequence[str]) -> list[Result[LocalCopy[T]]]:
        """Get what is kept locally. An error of the local store becomes each key's: the primary is still asked."""
        try:
            return await self._local.get(keys)
        except StoreError as problem:
            return [problem] * len(keys)

    async def _create_in_primary(self, records: Sequence[T]) -> list[Result[T]]:
        if (away := self._away) is not None:
            # The request that found this out may have landed; these records have not been sent.
            return await self._keep_locally(records, [StoreUnavailable(str(away))] * len(records))
        lost: StoreError | None = None
        try:
            results = await self._primary.write(records)
        except (StoreUnavailable, StoreMisconfigured) as problem:
            results, lost = [problem] * len(records), problem
        # Also what is refused for its own sake: somebody may mend the reason, and a drain tries again.
        problems = {index: result for index, result in enumerate(results) if isinstance(result, StoreError)}
        if not problems:
            return results
        if lost is not None:
            self._note_failure(lost)
        kept = await self._keep_locally([records[index] for index in problems], [*problems.values()])
        for index, result in zip(problems, kept, strict=True):
            results[index] = result
        return results

    async def _keep_locally(self, records: Sequence[T], problems: Sequence[StoreError]) -> list[Result[T]]:
        doubts = [isinstance(problem, StoreUnavailable) and problem.maybe_written for problem in problems]
        held = [LocalCopy(record, doubt) for record, doubt in zip(records, doubts, strict=True)]
        self._note_kept()
        try:
            kept = self._records(await self._local.write(held))
        except StoreError as problem:
            text = f"neither store takes it: {problems[0]}; locally: {problem}"
            return [StoreUnavailable(text, maybe_written=doubt) for doubt in doubts]
        finally:
            self._note_kept()  # again: a drain may have looked before this write was there
        # Where another record has the key here, one whose answer was lost may be in the primary all the same.
        return [
            problem if result is None and doubt else result
            for result, doubt, problem in zip(kept, doubts, problems, strict=True)
        ]

    def _note_kept(self) -> None:
        self._kept += 1
        self.drained = False

    async def _replace_locally(self, records: Sequence[T]) -> list[Result[T]]:
        certain = [record for record in records if not is_uncertain(record)]
        written = iter(self._records(await self._local.write([self._local_copy(record) for record in certain])))
        return [_unchangeable(record.key) if is_uncertain(record) else next(written) for record in records]

    async def _send(
        self, change: Callable[[Sequence[T]], Awaitable[list[R | StoreError]]], records: Sequence[T]
    ) -> list[R | StoreError]:
        try:
            return await self._ask(lambda: change(records))
        except (StoreUnavailable, StoreMisconfigured) as problem:
            return [problem] * len(records)

    async def _ask(self, request: Callable[[], Awaitable[R]]) -> R:
        """Ask the primary store, unless it is known to be away; notice if it is."""
        if (away := self._away) is not None:
            if isinstance(away, StoreMisconfigured):
                raise StoreMisconfigured(str(away))
            raise StoreUnavailable(f"the primary store is away, what is in it waits there: {away}")
        try:
            return await request()
        except (StoreUnavailable, StoreMisconfigured) as problem:
            self._note_failure(problem)
            raise

    @property
    def _away(self) -> StoreError | None:
        return self._pair.away or self.forbidden

    def _note_failure(self, problem: StoreError) -> None:
        """An outage concerns all kinds. What is forbidden or does not fit concerns this kind alone."""
        if not isinstance(problem, StoreMisconfigured):
            self._pair.primary_failed(problem)
            return
        if self.forbidden is None:
            log.error("primary store refuses %s, new ones are kept locally: %s", self.kind.name, problem)
        self.forbidden = problem

    def _has_local(self) -> bool:
        return not self.drained or self._away is not None

    def _local_copy(self, record: T) -> LocalCopy[T]:
        version = record.version or ()
        inner = version[2:]
        return LocalCopy(self.kind.versioned(record, inner), bool(version[1]), inner)

    def _record(self, held: LocalCopy[T]) -> T:
        return self.kind.versioned(held.record, (LOCAL, int(held.uncertain), *(held.version or ())))

    def _records(self, results: Iterable[Result[LocalCopy[T]]]) -> list[Result[T]]:
        return [self._record(held) if isinstance(held, LocalCopy) else held for held in results]

    def _degraded_text(self, problem: StoreError) -> str:
        return f"only what is kept locally is shown: {problem}"


def _without(query: Query, records: Iterable[Any]) -> Query:
    return replace(query, where=(*query.where, Not(HasKey(tuple(record.key for record in records)))))


def _unchangeable(key: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"record {key!r} may have a twin in the primary store; it cannot be changed before that is known"
    )


def _require_an_answer(results: list[R]) -> list[R]:
    """Return the results. Raises where not one record was answered: then the store as a whole cannot answer."""
    if results and all(isinstance(result, StoreUnavailable | StoreMisconfigured) for result in results):
        first: Any = results[0]
        if isinstance(first, StoreMisconfigured):
            raise first
        doubt = any(getattr(result, "maybe_written", False) for result in results)
        raise StoreUnavailable(str(first), maybe_written=doubt)
    return results
