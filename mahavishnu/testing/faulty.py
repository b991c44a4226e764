"""A store that works like the one inside, except for the faults that a test plans."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Generic

from mahavishnu.model.errors import StoreError
from mahavishnu.model.query import Query
from mahavishnu.stores.base import Collection, Cursor, Health, OpenClose, Page, Result, Store, Tally
from mahavishnu.stores.kind import Kind, T
from mahavishnu.testing.faults import Call, Faults


class FaultyStore(OpenClose):
    """`inner`, disturbed by `faults`. Read from `inner` itself to see what became of a write.

    >>> from mahavishnu.stores.memory import MemoryStore
    >>> store = FaultyStore(MemoryStore())
    >>> fault = store.faults.unavailable("write", times=1)
    """

    def __init__(self, inner: Store, faults: Faults | None = None) -> None:
        self.inner = inner
        self.faults = Faults() if faults is None else faults

    async def open(self) -> None:
        call = Call("open")
        await self.faults.enter(call)
        await self.inner.open()
        await self.faults.leave(call)

    async def close(self) -> None:
        await self.inner.close()

    async def health(self) -> Health:
        call = Call("health")
        try:
            await self.faults.enter(call)
            health = await self.inner.health()
            await self.faults.leave(call)
        except StoreError as problem:
            return Health("down", str(problem))
        return health

    def collection(self, kind: Kind[T]) -> FaultyCollection[T]:
        return FaultyCollection(self.inner.collection(kind), kind, self.faults)

    def __repr__(self) -> str:
        return f"FaultyStore({self.inner!r})"


class FaultyCollection(Generic[T]):
    """One kind of record of a `FaultyStore`."""

    def __init__(self, inner: Collection[T], kind: Kind[T], faults: Faults) -> None:
        self.kind = kind
        self._inner = inner
        self._faults = faults

    async def write(self, records: Sequence[T]) -> list[Result[T]]:
        return await self._change(Call("write", self.kind, records), self._inner.write, refused=None)

    async def remove(self, records: Sequence[T]) -> list[bool | StoreError]:
        return await self._change(Call("remove", self.kind, records), self._inner.remove, refused=False)

    async def get(self, keys: Sequence[str]) -> list[Result[T]]:
        call = Call("get", self.kind, keys)
        await self._faults.enter(call)
        results = await self._inner.get(keys)
        for place, key in enumerate(keys):
            if results[place] is not None and (problem := self._faults.unreadable(call, key)):
                results[place] = problem
        await self._faults.leave(call)
        return results

    async def find(self, query: Query, after: Cursor | None = None) -> Page[T]:
        call = Call("find", self.kind, query)
        await self._faults.enter(call)
        page = await self._inner.find(query, after)
        problems = [self._faults.unreadable(call, record.key) for record in page.items]
        whole = [place for place, problem in enumerate(problems) if problem is None]
        await self._faults.leave(call)
        return replace(
            page,
            items=[page.items[place] for place in whole],
            positions=[page.positions[place] for place in whole],
            corrupt=(*page.corrupt, *filter(None, problems)),
        )

    async def tally(
        self, query: Query, by: Sequence[str] = (), *, sums: Sequence[str] = (), spans: Sequence[str] = ()
    ) -> Tally:
        call = Call("tally", self.kind, query)
        await self._faults.enter(call)
        tally = await self._inner.tally(query, by, sums=sums, spans=spans)
        await self._faults.leave(call)
        return tally

    async def _change(
        self, call: Call, inner: Callable[[Sequence[T]], Awaitable[list[Any]]], refused: Any
    ) -> list[Any]:
        await self._faults.enter(call)
        records: Sequence[T] = call.given
        faults = [self._faults.item(call, record.key) for record in records]
        sent = [record for record, fault in zip(records, faults, strict=True) if fault is None or fault.landed]
        answers = iter(await inner(sent))
        results = []
        for fault in faults:
            answer = next(answers) if fault is None or fault.landed else refused
            results.append(answer if fault is None or fault.result is None else fault.result)
        await self._faults.leave(call)
        return results
