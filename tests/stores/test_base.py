"""The loops that repeat a lost compare-and-set: of one record, and of many."""

from __future__ import annotations

from collections.abc import Collection, Coroutine, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import chain, count
from types import coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahavishnu.model.errors import (
    CorruptRecord,
    InvalidInput,
    InvalidQuery,
    ItemFailed,
    MahavishnuError,
    StoreError,
    StoreUnavailable,
)
from mahavishnu.stores.base import (
    MOST_BUCKETS,
    Buckets,
    Result,
    get_one,
    update_many_with_retry,
    update_with_retry,
    write_one,
    write_with_retry,
)
from mahavishnu.stores.memory import MemoryCollection, MemoryStore
from mahavishnu.testing import Faults, FaultyStore
from mahavishnu.workers.records import WORKERS
from mahavishnu.workers.rules import Worker

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def workers() -> MemoryCollection[Worker]:
    return MemoryStore().collection(WORKERS)


def started(worker: Worker | None) -> Worker:
    return replace(worker or Worker("w", NOON, NOON), seen_at=NOON.replace(hour=13))


async def test_a_record_that_is_not_there_is_created(workers: MemoryCollection[Worker]) -> None:
    before, after = await write_with_retry(workers, "w", started, what="worker")

    assert before is None
    assert after is not None
    assert await get_one(workers, "w") == after == started(None)


async def test_a_lost_race_is_run_again_with_what_won(workers: MemoryCollection[Worker]) -> None:
    first = await write_one(workers, Worker("w", NOON, NOON))
    assert first is not None
    seen: list[Worker | None] = []

    async def change(worker: Worker | None) -> Worker | None:
        seen.append(worker)
        if len(seen) < 3:  # somebody else is quicker, twice
            current = await get_one(workers, "w")
            assert current is not None
            await write_one(workers, replace(current, started_at=current.started_at.replace(minute=len(seen))))
        return started(worker)

    before, after = await write_with_retry(workers, "w", change, what="worker", known=first)

    assert [worker and worker.started_at.minute for worker in seen] == [0, 1, 2]
    assert before == seen[2]
    assert after == replace(started(before))
    assert await get_one(workers, "w") == after


async def test_nothing_is_written_where_there_is_nothing_to_change(workers: MemoryCollection[Worker]) -> None:
    stored = await write_one(workers, Worker("w", NOON, NOON))

    assert await write_with_retry(workers, "w", lambda worker: None, what="worker") == (stored, None)
    (current,) = await workers.get(["w"])
    assert current is stored


async def test_a_known_record_is_not_read(workers: MemoryCollection[Worker]) -> None:
    asked: list[str] = []

    class Counting(MemoryCollection[Worker]):
        async def get(self, keys):  # type: ignore[no-untyped-def]
            asked.extend(keys)
            return await super().get(keys)

    counting = Counting(WORKERS, lambda: (1,))
    await write_with_retry(counting, "w", started, what="worker", known=None)
    assert asked == []
    await write_with_retry(counting, "w", started, what="worker", known=None)  # it is there already
    assert asked == ["w"]


async def test_races_that_are_lost_all_the_time_are_an_outage(workers: MemoryCollection[Worker]) -> None:
    async def change(worker: Worker | None) -> Worker | None:
        current = await get_one(workers, "w")
        await write_one(workers, started(current))
        return started(worker)

    with pytest.raises(StoreUnavailable, match="worker 'w' was changed by others 7 times in a row"):
        await write_with_retry(workers, "w", change, what="worker", tries=7)


# --- interleaved writers


@coroutine
def pause() -> Iterator[None]:
    """Let another actor go on."""
    yield


class Shared(MemoryCollection[Worker]):
    """A collection that lets others act before each call, and whose call with the number `fails_at` is not answered."""

    def __init__(self, fails_at: int | None = None, refused: Collection[str] = ()) -> None:
        super().__init__(WORKERS, lambda: (next(self.versions),))
        self.versions, self.calls, self.fails_at, self.refused = count(1), count(), fails_at, refused
        self.corrupt = set[str]()

    async def write(self, records: Sequence[Worker]) -> list[Result[Worker]]:
        await self._begin()
        assert records
        return [
            ItemFailed(each.key, "as agreed") if each.key in self.refused else self._write(each) for each in records
        ]

    async def get(self, keys: Sequence[str]) -> list[Result[Worker]]:
        await self._begin()
        assert keys
        found = zip(keys, await super().get(keys), strict=True)
        return [CorruptRecord(key, "as agreed") if key in self.corrupt else each for key, each in found]

    async def _begin(self) -> None:
        await pause()
        if next(self.calls) == self.fails_at:
            raise StoreUnavailable("as agreed")

    def marks(self, key: str) -> tuple[str, ...]:
        worker = self._records.get(key)
        return () if worker is None else worker.adapters or ()


def run_interleaved(actors: Sequence[Coroutine[Any, Any, object]], order: Sequence[int]) -> list[Any]:
    """Run the actors, one call of the store at a time, in this order. Returns what they returned."""
    results, left, turns = dict[int, object](), dict(enumerate(actors)), chain(order, count())
    while left:
        place = list(left)[next(turns) % len(left)]
        try:
            left[place].send(None)
        except StopIteration as end:
            results[place] = end.value
            del left[place]
    return [results[place] for place in range(len(actors))]


def marked(worker: Worker | None, key: str, mark: str) -> Worker:
    worker = worker or Worker(key, NOON, NOON)
    return replace(worker, adapters=(*(worker.adapters or ()), mark))


async def mark_many(
    workers: Shared, keys: Sequence[str], mark: str, tries: int = 50
) -> dict[str, Worker | MahavishnuError | None]:
    """Add a mark to each of them, or say why not: there is none, or it has ended."""

    async def decide(lost: Worker, current: Worker | None) -> Worker | None:
        await pause()
        if current is None:
            raise InvalidInput(f"{lost.key} is gone")
        return None if current.ended else marked(current, lost.key, mark)

    known = [workers._records.get(key) for key in keys]
    records = [marked(worker, key, mark) for key, worker in zip(keys, known, strict=True)]
    return dict(zip(keys, await update_many_with_retry(workers, records, decide, tries=tries), strict=True))


async def mark_one(workers: Shared, key: str, mark: str, tries: int) -> dict[str, Worker | StoreError | None]:
    try:
        stored = (await write_with_retry(workers, key, lambda each: marked(each, key, mark), what="w", tries=tries))[1]
    except StoreError as problem:
        return {key: problem}
    return {key: stored}


async def mark_known(workers: Shared, key: str, mark: str, tries: int) -> dict[str, Worker | StoreError | None]:
    try:
        update = await update_with_retry(workers, key, lambda each: marked(each, key, mark), what="w", tries=tries)
    except StoreError as problem:
        return {key: problem}
    return {key: None if update is None else update.after}


KEYS = ("a", "b", "c", "d")
some_keys = st.lists(st.sampled_from(KEYS), min_size=1, unique=True)
orders = st.lists(st.integers(0, 9), max_size=60)


@given(
    st.lists(st.tuples(st.sampled_from(["many", "one", "known"]), some_keys, st.sampled_from([1, 2, 50])), max_size=5),
    some_keys,
    orders,
)
def test_no_update_is_lost_and_each_that_is_not_stored_is_reported(
    writers: list[tuple[str, list[str], int]], there: list[str], order: list[int]
) -> None:
    workers = Shared()
    for key in there:
        workers._write(Worker(key, NOON, NOON))
    actors: list[Coroutine[Any, Any, Any]] = []
    for number, (how, keys, tries) in enumerate(writers):
        if how == "many":
            actors.append(mark_many(workers, keys, str(number), tries))
        else:
            actors.append((mark_one if how == "one" else mark_known)(workers, keys[0], str(number), tries))

    for number, outcomes in enumerate(run_interleaved(actors, order)):
        for key, outcome in outcomes.items():
            assert workers.marks(key).count(str(number)) == isinstance(outcome, Worker)
            if isinstance(outcome, StoreUnavailable):
                assert writers[number][2] < 50, "nobody else writes that often"
                assert "times in a row" in str(outcome)
            elif outcome is None:
                assert writers[number][0] == "known", "it was not there"
    for key in KEYS:
        assert set(workers.marks(key)) <= {str(number) for number in range(len(writers))}


@given(
    st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(["mark", "end", "remove", "corrupt"])), max_size=8),
    orders,
)
def test_a_record_that_fails_ends_or_vanishes_stops_no_other(rivals: list[tuple[str, str]], order: list[int]) -> None:
    workers = Shared(refused=["d"])
    for key in KEYS:
        workers._write(Worker(key, NOON, NOON))
    seen: dict[str, list[Worker | None]] = {key: [workers._records[key]] for key in KEYS}
    written: list[str] = []

    async def interfere() -> None:
        for key, how in rivals:
            await pause()
            worker = workers._records.get(key)
            if how == "corrupt" and worker is not None:
                workers.corrupt.add(key)
                workers._write(worker)
            elif how == "remove":
                workers._records.pop(key, None)
            elif worker is not None and key not in workers.refused:
                written.extend([key] if how == "mark" else [])
                workers._write(replace(worker, ended=True) if how == "end" else marked(worker, key, "rival"))
            seen[key].append(workers._records.get(key))

    outcomes, _ = run_interleaved([mark_many(workers, KEYS, "ours"), interfere()], order)

    assert list(outcomes) == list(KEYS)
    assert isinstance(outcomes.pop("d"), ItemFailed)
    for key, outcome in outcomes.items():
        if isinstance(outcome, Worker):
            assert outcome in [marked(each, key, "ours") for each in seen[key] if each is not None]
        elif outcome is None:
            assert any(each is not None and each.ended for each in seen[key])
        elif isinstance(outcome, CorruptRecord):
            assert (outcome.key, key in workers.corrupt) == (key, True)
        else:
            assert str(outcome) == f"{key} is gone"
            assert None in seen[key]
        if key in workers._records:
            assert workers.marks(key).count("ours") == isinstance(outcome, Worker)
            assert workers.marks(key).count("rival") == written.count(key)


@given(st.integers(0, 6), some_keys, orders)
def test_an_outage_is_raised_before_the_first_write_and_reported_after_it(
    fails_at: int, contested: list[str], order: list[int]
) -> None:
    workers = Shared()
    for key in KEYS:
        workers._write(Worker(key, NOON, NOON))

    async def interfere() -> None:
        for key in [*contested, *contested]:
            workers._write(marked(workers._records[key], key, "rival"))
            await pause()

    workers.fails_at = fails_at

    async def act() -> dict[str, Worker | MahavishnuError | None]:
        try:
            return await mark_many(workers, KEYS, "ours")
        except StoreUnavailable:
            return {}

    outcomes, _ = run_interleaved([act(), interfere()], order)

    if fails_at == 0:
        assert not outcomes
        assert not any("ours" in workers.marks(key) for key in KEYS)
        return
    assert list(outcomes) == list(KEYS)
    for key, outcome in outcomes.items():
        assert isinstance(outcome, Worker | StoreUnavailable)
        assert workers.marks(key).count("ours") == isinstance(outcome, Worker)


@given(st.integers(0, 4), st.integers(1, 4))
def test_a_race_is_lost_as_often_as_allowed(lost: int, tries: int) -> None:
    """One record loses so many races in a row; the one beside it is written once."""
    workers = Shared()
    for key in KEYS[:2]:
        workers._write(Worker(key, NOON, NOON))

    async def interfere() -> None:
        for _ in range(lost):
            workers._write(marked(workers._records["a"], "a", "rival"))
            await pause()

    # Ours stops before each write; between two of them also before the read, and while it decides.
    order = [0, 1, *[0, 0, 0, 1] * lost]
    outcomes, _ = run_interleaved([mark_many(workers, KEYS[:2], "ours", tries), interfere()], order)

    assert isinstance(outcomes["b"], Worker)
    assert workers.marks("b") == ("ours",)
    if lost <= tries:  # besides the first one
        assert workers.marks("a") == (*["rival"] * lost, "ours")
        assert workers._records["a"] == outcomes["a"]
    else:
        assert workers.marks("a") == ("rival",) * lost
        assert str(outcomes["a"]) == f"letter 'a' was changed by others {tries} times in a row"
        assert isinstance(outcomes["a"], StoreUnavailable)


async def test_nothing_is_asked_for_no_records(workers: MemoryCollection[Worker]) -> None:
    faults = Faults()
    faults.unavailable()
    collection = FaultyStore(MemoryStore(), faults).collection(WORKERS)
    assert await update_many_with_retry(collection, [], lambda lost, current: lost) == []


async def test_an_error_that_is_no_outcome_is_raised(workers: MemoryCollection[Worker]) -> None:
    await write_one(workers, Worker("w", NOON, NOON))

    def decide(lost: Worker, current: Worker | None) -> Worker:
        raise TypeError("a bug")

    with pytest.raises(TypeError, match="a bug"):
        await update_many_with_retry(workers, [Worker("w", NOON, NOON)], decide)


@pytest.mark.parametrize(
    "wrong",
    [
        {"count": 0},
        {"count": MOST_BUCKETS + 1},
        {"count": True},
        {"interval": timedelta()},
        {"interval": timedelta(hours=-1)},
        {"interval": timedelta(microseconds=1500)},
        {"start": NOON.replace(tzinfo=None)},
        {"start": datetime.max.replace(tzinfo=UTC)},
    ],
)
def test_buckets_that_no_store_can_fill_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidQuery):
        Buckets(**{"field": "started_at", "start": NOON, "interval": timedelta(hours=1), "count": 2, **wrong})
