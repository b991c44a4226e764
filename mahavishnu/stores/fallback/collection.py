"""One kind of record over two stores: which of the two is asked, and what is made of the answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, Protocol, TypeVar

from mahavishnu.model.clock import Clock
from mahavishnu.model.errors import StoreError, StoreMisconfigured, StoreUnavailable
from mahavishnu.model.letter_parts import Version
from mahavishnu.model.query import Query
from mahavishnu.stores.base import Collection, Cursor, Page, Result, Store, Tally
from mahavishnu.stores.fallback.drain import Drained, drain
from mahavishnu.stores.fallback.local_copy import Held, held_kind
from mahavishnu.stores.fallback.pages import Place, joined
from mahavishnu.stores.kind import Kind, Order, T

log = logging.getLogger(__name__)
R = TypeVar("R")
_LOCAL = -1  # begins the version of a record that lives locally; no store's own version is negative


class Pair(Protocol):
    """What a collection has to know of its two stores."""

    primary: Store
    local: Store
    clock: Clock

    @property
    def away(self) -> StoreError | None: ...
    def lost_primary(self, problem: StoreError) -> None: ...
    def change(self) -> AbstractAsyncContextManager[None]: ...


class PairCollection(Generic[T]):
    """See `mahavishnu.stores.fallback`."""

    def __init__(self, pair: Pair, kind: Kind[T]) -> None:
        self.kind = kind
        self.drained = False  # nothing is kept locally, as far as this process knows
        self.barred: StoreMisconfigured | None = None  # why the primary store does not let us have this kind
        self._kept = 0
        self._pair = pair
        self._home: Collection[T] = pair.primary.collection(kind)
        self._here: Collection[Held[T]] = pair.local.collection(held_kind(kind))

    async def write(self, records: Sequence[T]) -> list[Result[T]]:
        async with self._pair.change():
            return await self._write(records)

    async def remove(self, records: Sequence[T]) -> list[bool | StoreError]:
        async with self._pair.change():
            return await self._remove(records)

    async def get(self, keys: Sequence[str]) -> list[Result[T]]:
        here: list[Result[Held[T]]] = [None] * len(keys)
        if not self.drained:
            here = await self._local_get(keys)
        results: list[Result[T]] = [self._freed(held) if isinstance(held, Held) else held for held in here]
        # An uncertain copy says what was written; its twin in the primary, if there is one, says what became of it.
        asked = [index for index, held in enumerate(here) if not (isinstance(held, Held) and not held.uncertain)]
        if asked:
            twins: Sequence[Result[T]]
            try:
                twins = await self._ask(lambda: self._home.get([keys[index] for index in asked]))
            except (StoreUnavailable, StoreMisconfigured) as problem:
                twins = [None if results[index] is not None else problem for index in asked]
            for index, twin in zip(asked, twins, strict=True):
                results[index] = results[index] if twin is None else self._standing(twin, results[index])
        return _answered(results)

    def _standing(self, theirs: T | StoreError, ours: Result[T]) -> T | StoreError:
        if self.kind.standing is None or ours is None or isinstance(theirs, StoreError) or isinstance(ours, StoreError):
            return theirs
        return self.kind.standing(theirs, ours)

    async def find(self, query: Query, after: Cursor | None = None) -> Page[T]:
        self.kind.check(query)
        place = Place.after(after)
        # The local store first: a record that goes home meanwhile is then seen twice, never not at all.
        held = await self._local_find(query, place.here) if self._has_local() else None
        try:
            page = await self._ask(lambda: self._home.find(query, place.home))
        except StoreUnavailable as problem:
            held = held or await self._local_find(query, place.here)
            return self._joined(query, Page(()), held, place, self._only_local(problem))
        if held is None and after is place.home:
            return page
        held = held or Page(())
        return self._joined(query, page, held, place, held.degraded)

    def _joined(self, query: Query, page: Page[T], held: Page[Held[T]], place: Place, degraded: str | None) -> Page[T]:
        local = Page([self._freed(each) for each in held.items], held.next, held.positions, held.corrupt)
        certain = {each.key for each in held.items if not each.uncertain}
        return joined(Order(self.kind, query), query.limit, page, local, certain, place, degraded)

    async def _local_find(self, query: Query, after: Cursor | None) -> Page[Held[T]]:
        try:
            return await self._here.find(query, after)
        except StoreUnavailable as problem:
            return Page((), degraded=f"the local store cannot be read: {problem}")

    async def tally(
        self, query: Query, by: Sequence[str] = (), *, sums: Sequence[str] = (), spans: Sequence[str] = ()
    ) -> Tally:
        self.kind.check_tally(query, by, sums, spans)
        here = await self._here.tally(query, by, sums=sums, spans=spans) if self._has_local() else None
        try:
            home = await self._ask(lambda: self._home.tally(query, by, sums=sums, spans=spans))
        except StoreUnavailable as problem:
            here = here or await self._here.tally(query, by, sums=sums, spans=spans)
            return Tally(here.cells, self._only_local(problem))
        if here is None or not here.cells:
            return home
        cells = dict(home.cells)
        for values, cell in here.cells.items():
            cells[values] = cells[values].joined(cell) if values in cells else cell
        return Tally(cells, "records that were kept locally are on their way home: some may be counted twice")

    async def drain(self) -> Drained:
        """Move what is kept locally home."""
        try:
            if self.barred is not None and await self.is_barred():
                return Drained(stopped=self.barred)
        except StoreUnavailable as problem:
            return Drained(stopped=problem)
        kept = self._kept
        result = await drain(self.kind, self._pair.primary, self._pair.local, self._pair.clock)
        self.drained = result.waiting == 0 and kept == self._kept
        if isinstance(result.stopped, StoreMisconfigured):
            self._lost(result.stopped)
        else:
            self.barred = None
        return result

    async def is_barred(self) -> bool:
        """Ask the primary store whether we may have this kind. Raises StoreUnavailable."""
        try:
            await self._home.find(Query(limit=1))
        except StoreMisconfigured as problem:
            self._lost(problem)
            return True
        return False

    async def look_for_strangers(self) -> None:
        """Another process may keep records in the same local store: notice them."""
        if self.drained and (await self._here.find(Query(limit=1))).items:
            self.drained = False

    async def _write(self, records: Sequence[T]) -> list[Result[T]]:
        results: list[Result[T]] = [None] * len(records)
        new = [index for index, record in enumerate(records) if record.version is None]
        local = [index for index, record in enumerate(records) if _is_local(record.version)]
        theirs = sorted({*range(len(records))} - {*new} - {*local})
        for indexes, write in ((local, self._replace_local), (theirs, self._replace_home), (new, self._create)):
            if indexes:
                for index, result in zip(indexes, await write([records[i] for i in indexes]), strict=True):
                    results[index] = result
        return _answered(results)

    async def _remove(self, records: Sequence[T]) -> list[bool | StoreError]:
        results: list[bool | StoreError] = [False] * len(records)
        local = [index for index, record in enumerate(records) if _is_local(record.version)]
        theirs = sorted({*range(len(records))} - {*local})
        if local:
            certain = [index for index in local if not _is_uncertain(records[index])]
            removed = await self._here.remove([self._held(records[index]) for index in certain])
            answers = dict(zip(certain, removed, strict=True))
            for index in local:
                results[index] = answers.get(index, _uncertain(records[index].key))
        if theirs:
            for index, result in zip(theirs, await self._remove_home([records[i] for i in theirs]), strict=True):
                results[index] = result
        return _answered(results)

    async def _create(self, records: Sequence[T]) -> list[Result[T]]:
        # The caller may be cancelled at any moment, but a record must not be lost between the two stores.
        return await asyncio.shield(asyncio.ensure_future(self._create_surely(records)))

    async def _create_surely(self, records: Sequence[T]) -> list[Result[T]]:
        async with self._pair.change():
            if self.drained:
                return await self._create_free(records)
            # Where the local store cannot tell, the primary is asked: should there be two, they are reunited later.
            taken = [isinstance(held, Held) for held in await self._local_get([record.key for record in records])]
            free = [record for record, kept in zip(records, taken, strict=True) if not kept]
            created = iter(await self._create_free(free) if free else [])
            return [None if kept else next(created) for kept in taken]

    async def _local_get(self, keys: Sequence[str]) -> list[Result[Held[T]]]:
        """What is kept locally; trouble with the local store is said of each key, and must not hide the primary."""
        try:
            return await self._here.get(keys)
        except StoreError as problem:
            return [problem] * len(keys)

    async def _create_free(self, records: Sequence[T]) -> list[Result[T]]:
        if (away := self._away) is not None:
            # Whatever became of the request that found this out, these have not been sent.
            return await self._keep(records, [StoreUnavailable(str(away))] * len(records))
        lost: StoreError | None = None
        try:
            results = await self._home.write(records)
        except (StoreUnavailable, StoreMisconfigured) as problem:
            results, lost = [problem] * len(records), problem
        kept = [index for index, result in enumerate(results) if _means_away(result)]
        if not kept:
            return results
        problems = [result for result in results if isinstance(result, StoreError) and _means_away(result)]
        if lost is not None:
            self._lost(lost)
        for index, result in zip(kept, await self._keep([records[i] for i in kept], problems), strict=True):
            results[index] = result
        return results

    async def _keep(self, records: Sequence[T], problems: Sequence[StoreError]) -> list[Result[T]]:
        doubts = [isinstance(problem, StoreUnavailable) and problem.maybe_written for problem in problems]
        held = [Held(record, doubt) for record, doubt in zip(records, doubts, strict=True)]
        self._note_kept()
        try:
            return self._all_freed(await self._here.write(held))
        except StoreError as problem:
            text = f"neither store takes it: {problems[0]}; locally: {problem}"
            return [StoreUnavailable(text, maybe_written=doubt) for doubt in doubts]
        finally:
            self._note_kept()  # again: a drain may have looked before this write was there

    def _note_kept(self) -> None:
        self._kept += 1
        self.drained = False

    async def _replace_local(self, records: Sequence[T]) -> list[Result[T]]:
        certain = [record for record in records if not _is_uncertain(record)]
        written = iter(self._all_freed(await self._here.write([self._held(record) for record in certain])))
        return [_uncertain(record.key) if _is_uncertain(record) else next(written) for record in records]

    async def _replace_home(self, records: Sequence[T]) -> list[Result[T]]:
        try:
            return await self._ask(lambda: self._home.write(records))
        except (StoreUnavailable, StoreMisconfigured) as problem:
            return [problem] * len(records)

    async def _remove_home(self, records: Sequence[T]) -> list[bool | StoreError]:
        try:
            return await self._ask(lambda: self._home.remove(records))
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
            self._lost(problem)
            raise

    @property
    def _away(self) -> StoreError | None:
        return self._pair.away or self.barred

    def _lost(self, problem: StoreError) -> None:
        """An outage is one for all kinds. What is forbidden or does not fit is so for this kind alone."""
        if not isinstance(problem, StoreMisconfigured):
            self._pair.lost_primary(problem)
            return
        if self.barred is None:
            log.error("primary store refuses %s, new ones are kept locally: %s", self.kind.name, problem)
        self.barred = problem

    def _has_local(self) -> bool:
        return not self.drained or self._away is not None

    def _held(self, record: T) -> Held[T]:
        version = record.version or ()
        inner = version[2:]
        return Held(self.kind.versioned(record, inner), bool(version[1]), inner)

    def _freed(self, held: Held[T]) -> T:
        return self.kind.versioned(held.record, (_LOCAL, int(held.uncertain), *(held.version or ())))

    def _all_freed(self, results: Iterable[Result[Held[T]]]) -> list[Result[T]]:
        return [self._freed(held) if isinstance(held, Held) else held for held in results]

    def _only_local(self, problem: StoreError) -> str:
        return f"only what is kept locally is shown: {problem}"


def _is_local(version: Version | None) -> bool:
    return version is not None and version[0] == _LOCAL


def _is_uncertain(record: Any) -> bool:
    return bool(record.version[1])


def _uncertain(key: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"record {key!r} may have a twin in the primary store; it cannot be changed before that is known"
    )


def _means_away(result: object) -> bool:
    return isinstance(result, StoreUnavailable | StoreMisconfigured)


def _answered(results: list[R]) -> list[R]:
    """The results, unless nothing at all could be answered: then the store as a whole cannot."""
    if results and all(_means_away(result) for result in results):
        first: Any = results[0]
        if isinstance(first, StoreMisconfigured):
            raise first
        doubt = any(getattr(result, "maybe_written", False) for result in results)
        raise StoreUnavailable(str(first), maybe_written=doubt)
    return results
