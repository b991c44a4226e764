"""Faults by plan: what a store does when it is away, slow, full, outrun, or when its answer is lost."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from collections.abc import Collection as Keys
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Generic, Self, TypedDict, Unpack

from mahavishnu.model.errors import CorruptRecord, ItemFailed, StoreError, StoreMisconfigured, StoreUnavailable
from mahavishnu.model.query import Query
from mahavishnu.stores.base import (
    Buckets,
    Collection,
    Cursor,
    Health,
    Histogram,
    OpenClose,
    Page,
    Result,
    Store,
    Tally,
    keeps_counters,
    require_partitions,
)
from mahavishnu.stores.kind import Kind, T

CHANGES = ("write", "remove")
READS = ("get", "find", "tally", "histogram")
OPERATIONS = (*CHANGES, *READS, "open", "health")


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a store, as hooks see it: `given` are the records, the keys or the query."""

    operation: str
    kind: Kind[Any] | None = None
    given: Any = None

    @property
    def keys(self) -> Sequence[str]:
        """Of the records that it is about; none for a query."""
        if self.operation in CHANGES:
            return [record.key for record in self.given]
        return list(self.given) if self.operation == "get" else ()


class When(TypedDict, total=False):
    """How a fault is narrowed, see `Faults`."""

    kind: Kind[Any] | None
    keys: Keys[str] | None
    times: int | None
    chance: float


@dataclass(frozen=True, slots=True)
class ItemFault:
    """What happens to a single record: whether it reaches the store, and its result (None: somebody was quicker)."""

    landed: bool
    result: StoreError | None


Hook = Callable[[Call], Awaitable[object]]


@dataclass(eq=False)
class Fault:
    """One thing that goes wrong, from when it was planned until it has happened `times` times or is stopped.

    As a context manager it stops at the end of the block. `hits` counts how often it happened.
    """

    effect: str
    act: Any
    operations: tuple[str, ...]
    kind: Kind[Any] | None = None
    keys: Keys[str] | None = None
    times: int | None = None
    chance: float = 1.0
    hits: int = field(default=0, init=False)
    stopped: bool = field(default=False, init=False)

    def stop(self) -> None:
        """From now on it does not happen any more."""
        self.stopped = True

    @property
    def over(self) -> bool:
        """Whether it will not happen again."""
        return self.stopped or (self.times is not None and self.hits >= self.times)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class Hold:
    """A place where the next call stops until the test lets it go on: see `Faults.hold`."""

    def __init__(self) -> None:
        self._reached = asyncio.Event()
        self._released = asyncio.Event()
        self.call: Call | None = None

    async def wait_for_call(self) -> Call:
        """Return once a call has come here, with that call."""
        await self._reached.wait()
        assert self.call is not None
        return self.call

    def release(self) -> None:
        """Let it go on."""
        self._released.set()

    async def __call__(self, call: Call) -> None:
        self.call = call
        self._reached.set()
        await self._released.wait()


class Faults:
    """What goes wrong, and when. Hand it to a `FaultyStore`, and plan faults before or while the store is used.

    Every fault can be narrowed: to some operations ("write", "remove", "get", "find", "tally", "histogram", "open",
    "health"), one `kind`, the next `times` calls (records, for the faults of single records), those records whose key
    is in `keys`, or a `chance` from 0 to 1 drawn from a generator that starts with `seed`. Without, it happens until it
    is stopped.

    >>> faults = Faults()
    >>> with faults.unavailable("write", times=2) as fault:
    ...     fault.over
    False
    >>> fault.over
    True
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._planned: list[Fault] = []
        self.calls: Counter[str] = Counter()  # by operation, also those that failed

    # whole calls

    def unavailable(self, *operations: str, **when: Unpack[When]) -> Fault:
        """StoreUnavailable before anything leaves, so that nothing is written. Health says `down`."""
        return self._plan("refuse", _away, operations or OPERATIONS, when)

    def misconfigured(self, *operations: str, **when: Unpack[When]) -> Fault:
        """StoreMisconfigured, as for a wrong password. Health says `down`."""
        return self._plan("refuse", lambda: StoreMisconfigured("wrong password (a test's fault)"), operations, when)

    def answer_lost(self, *operations: str, **when: Unpack[When]) -> Fault:
        """The write or removal is done, then StoreUnavailable with `maybe_written`. Only CHANGES, unless told."""
        return self._plan("lose", lambda: _away(maybe_written=True), operations or CHANGES, when)

    def request_lost(self, *operations: str, **when: Unpack[When]) -> Fault:
        """StoreUnavailable with `maybe_written`, though nothing was done. Only CHANGES, unless told."""
        return self._plan("refuse", lambda: _away(maybe_written=True), operations or CHANGES, when)

    def slow(self, wait: Callable[[], Awaitable[object]], *operations: str, **when: Unpack[When]) -> Fault:
        """The call begins when `wait()` is over: `event.wait`, or `lambda: clock.sleep(30)`."""
        return self._plan("before", lambda call: wait(), operations, when)

    def before(self, operation: str, hook: Hook, **when: Unpack[When]) -> Fault:
        """Await `hook(call)` before each such call; whatever it raises is what the caller gets."""
        return self._plan("before", hook, (operation,), when)

    def after(self, operation: str, hook: Hook, **when: Unpack[When]) -> Fault:
        """Await `hook(call)` after each such call that succeeded, before the caller has the answer."""
        return self._plan("after", hook, (operation,), when)

    def hold(self, operation: str, *, after: bool = False, **when: Unpack[When]) -> Hold:
        """Stop the next such call before (or `after`) it is done, until the test releases it.

        With `await hold.wait_for_call()` and `hold.release()` two tasks can be interleaved exactly.
        """
        hold = Hold()
        self._plan("after" if after else "before", hold, (operation,), {"times": 1, **when})
        return hold

    # single records

    def item_failed(self, *operations: str, **when: Unpack[When]) -> Fault:
        """ItemFailed as the result of a record, which is not written or removed."""
        return self._plan(
            "item", lambda key: ItemFault(False, ItemFailed(key, "a test's fault")), operations or CHANGES, when
        )

    def item_unavailable(self, *operations: str, **when: Unpack[When]) -> Fault:
        """StoreUnavailable as the result of a record, which is not written or removed: a store that is full."""
        full = StoreUnavailable("the store is full (a test's fault)")
        return self._plan("item", lambda key: ItemFault(False, full), operations or CHANGES, when)

    def item_answer_lost(self, *operations: str, **when: Unpack[When]) -> Fault:
        """The record is written or removed, but its result is StoreUnavailable with `maybe_written`."""
        lost = _away(maybe_written=True)
        return self._plan("item", lambda key: ItemFault(True, lost), operations or CHANGES, when)

    def item_request_lost(self, *operations: str, **when: Unpack[When]) -> Fault:
        """The record is not written or removed, and its result is StoreUnavailable with `maybe_written`."""
        lost = _away(maybe_written=True)
        return self._plan("item", lambda key: ItemFault(False, lost), operations or CHANGES, when)

    def conflict(self, *operations: str, **when: Unpack[When]) -> Fault:
        """Somebody else seems to have been quicker: None (False from `remove`), and nothing happened."""
        return self._plan("item", lambda key: ItemFault(False, None), operations or CHANGES, when)

    def corrupt(self, *operations: str, **when: Unpack[When]) -> Fault:
        """CorruptRecord in place of a record that is read by `get` or `find`."""
        return self._plan(
            "corrupt", lambda key: CorruptRecord(key, "a test's fault"), operations or ("get", "find"), when
        )

    def clear(self) -> None:
        """Everything works again. Calls that are held stay held until they are released."""
        for fault in self._planned:
            fault.stop()
        self._planned.clear()

    # for FaultyStore

    async def enter(self, call: Call) -> None:
        """What happens before a call: its hooks in the order they were planned, then the error if one is due."""
        self.calls[call.operation] += 1
        for fault in list(self._planned):
            if fault.effect == "before" and self._happens(fault, call):
                await fault.act(call)
        for fault in self._happening("refuse", call):
            raise fault.act()

    async def leave(self, call: Call) -> None:
        """What happens after a call that succeeded: its hooks, then the loss of the answer if that is due."""
        for fault in list(self._planned):
            if fault.effect == "after" and self._happens(fault, call):
                await fault.act(call)
        for fault in self._happening("lose", call):
            raise fault.act()

    def item(self, call: Call, key: str) -> ItemFault | None:
        """What happens to one record that is written or removed."""
        fault: ItemFault
        for planned in self._happening("item", call, key):
            fault = planned.act(key)
            return fault
        return None

    def unreadable(self, call: Call, key: str) -> CorruptRecord | None:
        """What becomes of one record that is read."""
        problem: CorruptRecord
        for planned in self._happening("corrupt", call, key):
            problem = planned.act(key)
            return problem
        return None

    def _plan(self, effect: str, act: Any, operations: tuple[str, ...], when: When) -> Fault:
        if unknown := set(operations) - set(OPERATIONS):
            raise ValueError(f"a store has no operation {', '.join(sorted(unknown))}; it has {', '.join(OPERATIONS)}")
        fault = Fault(effect, act, operations or OPERATIONS, **when)
        self._planned.append(fault)
        return fault

    def _happening(self, effect: str, call: Call, *keys: str) -> Iterator[Fault]:
        return (fault for fault in self._planned if fault.effect == effect and self._happens(fault, call, *keys))

    def _happens(self, fault: Fault, call: Call, *keys: str) -> bool:
        if fault.over or call.operation not in fault.operations:
            return False
        if fault.kind is not None and (call.kind is None or call.kind.name != fault.kind.name):
            return False
        if fault.keys is not None and not any(key in fault.keys for key in keys or call.keys):
            return False
        if fault.chance < 1 and self._random.random() >= fault.chance:
            return False
        fault.hits += 1
        return True


def _away(*, maybe_written: bool = False) -> StoreUnavailable:
    return StoreUnavailable("the store is away (a test's fault)", maybe_written=maybe_written)


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

    @property
    def keeps_counters(self) -> bool:
        return keeps_counters(self.inner)

    async def detach(self, kind: Kind[Any]) -> str:
        return await require_partitions(self.inner).detach(kind)

    async def attach(self, kind: Kind[Any]) -> None:
        await require_partitions(self.inner).attach(kind)

    async def drop(self, kind: Kind[Any]) -> None:
        await require_partitions(self.inner).drop(kind)

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

    async def histogram(self, query: Query, buckets: Buckets) -> Histogram:
        call = Call("histogram", self.kind, query)
        await self._faults.enter(call)
        histogram = await self._inner.histogram(query, buckets)
        await self._faults.leave(call)
        return histogram

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
