from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from mahavishnu.model.errors import CorruptRecord, ItemFailed, StoreMisconfigured, StoreUnavailable
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import Query, Sort
from mahavishnu.stores.base import Collection, get_one, write_one
from mahavishnu.stores.kinds import HISTORY, LETTERS
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.testing import Call, Faults, FaultyStore, Hook, ManualClock, make_letter, turn

BY_NAME = Query(sort=(Sort("task_id"),))


@pytest.fixture
async def store() -> AsyncIterator[FaultyStore]:
    async with FaultyStore(MemoryStore()) as store:
        yield store


@pytest.fixture
def faults(store: FaultyStore) -> Faults:
    return store.faults


@pytest.fixture
def letters(store: FaultyStore) -> Collection[DeadLetter]:
    return store.collection(LETTERS)


@pytest.fixture
def truth(store: FaultyStore) -> Collection[DeadLetter]:
    return store.inner.collection(LETTERS)


def abc() -> list[DeadLetter]:
    return [make_letter(task_id=name) for name in "abc"]


async def test_unavailable_before_anything_is_written(
    faults: Faults, letters: Collection[DeadLetter], truth: Collection[DeadLetter]
) -> None:
    fault = faults.unavailable()
    for call in (
        letters.write(abc()),
        letters.remove(abc()),
        letters.get(["a"]),
        letters.find(Query()),
        letters.tally(Query()),
    ):
        with pytest.raises(StoreUnavailable, match="test's fault") as raised:
            await call
        assert not raised.value.maybe_written
    assert await truth.get(["a"]) == [None]
    assert fault.hits == 5
    fault.stop()
    assert await write_one(letters, make_letter(task_id="a"))


async def test_a_store_that_is_away_cannot_be_opened_and_is_down() -> None:
    store = FaultyStore(MemoryStore())
    fault = store.faults.unavailable()
    with pytest.raises(StoreUnavailable):
        await store.open()
    assert (await store.health()).status == "down"
    fault.stop()
    await store.open()
    assert (await store.health()).status == "ok"
    await store.close()


async def test_answer_lost_after_the_write_landed(
    faults: Faults, letters: Collection[DeadLetter], truth: Collection[DeadLetter]
) -> None:
    faults.answer_lost(times=2)
    with pytest.raises(StoreUnavailable) as raised:
        await letters.write(abc())
    assert raised.value.maybe_written
    stored = await get_one(truth, "a")
    assert stored is not None
    with pytest.raises(StoreUnavailable) as raised:
        await letters.remove([stored])
    assert raised.value.maybe_written
    assert await truth.get(["a"]) == [None]
    assert await write_one(letters, make_letter(task_id="a"))


async def test_misconfigured(faults: Faults, letters: Collection[DeadLetter], store: FaultyStore) -> None:
    with faults.misconfigured():
        with pytest.raises(StoreMisconfigured):
            await letters.get(["a"])
        with pytest.raises(StoreMisconfigured):
            await store.open()
        assert "wrong password" in (await store.health()).detail
    assert await letters.get(["a"]) == [None]


async def test_single_records_fail_and_the_others_do_not(
    faults: Faults, letters: Collection[DeadLetter], truth: Collection[DeadLetter]
) -> None:
    faults.item_failed("write", keys={"b"})
    faults.item_unavailable("write", keys={"c"})
    a, b, c, d = await letters.write([*abc(), make_letter(task_id="d")])
    assert isinstance(a, DeadLetter)
    assert isinstance(d, DeadLetter)
    assert isinstance(b, ItemFailed)
    assert b.key == "b"
    assert isinstance(c, StoreUnavailable)
    assert not c.maybe_written
    assert [each and each.key for each in await truth.get(list("abcd")) if not isinstance(each, Exception)] == [
        "a",
        None,
        None,
        "d",
    ]


async def test_a_single_answer_lost(
    faults: Faults, letters: Collection[DeadLetter], truth: Collection[DeadLetter]
) -> None:
    faults.item_answer_lost(keys=["b"])
    a, b, c = await letters.write(abc())
    assert isinstance(b, StoreUnavailable)
    assert b.maybe_written
    assert [a, c] == [await get_one(truth, "a"), await get_one(truth, "c")]
    assert await get_one(truth, "b") is not None


async def test_a_request_that_never_arrives_looks_like_a_lost_answer(
    faults: Faults, letters: Collection[DeadLetter], truth: Collection[DeadLetter]
) -> None:
    faults.request_lost(times=1)
    with pytest.raises(StoreUnavailable) as raised:
        await letters.write(abc())
    assert raised.value.maybe_written
    assert await truth.get(["a"]) == [None]
    faults.item_request_lost(keys=["b"])
    a, b, _ = await letters.write(abc())
    assert isinstance(a, DeadLetter)
    assert isinstance(b, StoreUnavailable)
    assert b.maybe_written
    assert await truth.get(["b"]) == [None]


async def test_a_conflict_although_nothing_happened(
    faults: Faults, letters: Collection[DeadLetter], truth: Collection[DeadLetter]
) -> None:
    faults.conflict(times=2)
    assert [result is None for result in await letters.write(abc())] == [True, True, False]
    assert await truth.get(["a", "b"]) == [None, None]
    stored = await get_one(letters, "c")
    assert stored is not None
    with faults.conflict("remove"):
        assert await letters.remove([stored]) == [False]
    assert await letters.remove([stored]) == [True]


async def test_a_corrupt_record(faults: Faults, letters: Collection[DeadLetter]) -> None:
    stored = await letters.write(abc())
    with faults.corrupt(keys=["b"]):
        a, b, nothing = await letters.get(["a", "b", "x"])
        assert isinstance(b, CorruptRecord)
        assert (a, nothing) == (stored[0], None)
        page = await letters.find(BY_NAME)
        assert page.items == [stored[0], stored[2]]
        assert [problem.key for problem in page.corrupt if isinstance(problem, CorruptRecord)] == ["b"]
        assert len(page.positions) == 2
    assert (await letters.find(BY_NAME)).items == stored


async def test_faults_are_narrowed(store: FaultyStore, faults: Faults, letters: Collection[DeadLetter]) -> None:
    only = faults.unavailable("get", "tally", kind=LETTERS)
    assert await store.collection(HISTORY).get(["a"]) == [None]
    assert (await store.health()).status == "ok"
    assert await letters.write(abc())
    with pytest.raises(StoreUnavailable):
        await letters.get(["a"])
    only.stop()
    faults.unavailable(keys=["b"])
    assert await get_one(letters, "a")
    with pytest.raises(StoreUnavailable):
        await letters.get(["a", "b"])
    assert (await letters.find(Query())).items
    with pytest.raises(ValueError, match="no operation read"):
        faults.unavailable("read")


async def test_faults_end(faults: Faults, letters: Collection[DeadLetter]) -> None:
    twice = faults.unavailable("get", times=2)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await letters.get(["a"])
    assert await letters.get(["a"]) == [None]
    assert (twice.over, twice.hits) == (True, 2)
    with faults.unavailable() as fault, pytest.raises(StoreUnavailable):
        await letters.get(["a"])
    assert fault.over
    faults.unavailable()
    faults.conflict()
    faults.clear()
    assert all(await letters.write(abc()))


async def test_chance_is_drawn_from_the_seed() -> None:
    async def pattern(seed: int) -> list[bool]:
        faults = Faults(seed)
        faults.conflict(chance=0.5)
        letters = FaultyStore(MemoryStore(), faults).collection(LETTERS)
        return [result is None for result in await letters.write([make_letter() for _ in range(200)])]

    assert await pattern(1) == await pattern(1) != await pattern(2)
    assert 60 < sum(await pattern(1)) < 140


async def test_slow_until_told(faults: Faults, letters: Collection[DeadLetter], truth: Collection[DeadLetter]) -> None:
    event, clock = asyncio.Event(), ManualClock()
    faults.slow(event.wait, "write", times=1)
    writing = asyncio.ensure_future(letters.write(abc()))
    await turn()
    assert await truth.get(["a"]) == [None]
    event.set()
    assert all(await writing)
    faults.slow(lambda: clock.sleep(30), "get")
    reading = asyncio.ensure_future(letters.get(["a"]))
    assert await clock.sleeping() == 30
    assert not reading.done()
    clock.advance(30)
    assert all(await reading)


async def test_hooks_see_the_call(
    faults: Faults, letters: Collection[DeadLetter], truth: Collection[DeadLetter]
) -> None:
    seen: list[tuple[str, list[str], bool]] = []

    def note(when: str) -> Hook:
        async def hook(call: Call) -> None:
            seen.append((f"{when} {call.operation}", list(call.keys), await truth.get(["a"]) != [None]))

        return hook

    faults.before("write", note("before"))
    faults.after("write", note("after"))
    faults.before("get", note("before"))
    await letters.write(abc())
    await letters.get(["b"])
    assert seen == [
        ("before write", ["a", "b", "c"], False),
        ("after write", ["a", "b", "c"], True),
        ("before get", ["b"], True),
    ]
    assert faults.calls == {"open": 1, "write": 1, "get": 1}


async def test_a_hook_may_write_first(
    faults: Faults, letters: Collection[DeadLetter], truth: Collection[DeadLetter]
) -> None:
    """So that the caller meets a real conflict, at a place the test chose."""
    stored = await write_one(letters, make_letter(task_id="a"))
    assert stored is not None

    async def quicker(call: Call) -> None:
        await truth.write([replace(stored, priority=1)])

    faults.before("write", quicker, times=1)
    assert await letters.write([replace(stored, priority=2)]) == [None]
    found = await get_one(letters, "a")
    assert found is not None
    assert found.priority == 1


async def test_two_writers_interleaved_by_holds(faults: Faults, letters: Collection[DeadLetter]) -> None:
    stored = await write_one(letters, make_letter(task_id="a"))
    assert stored is not None
    late = faults.hold("write")
    first = asyncio.ensure_future(letters.write([replace(stored, priority=1)]))
    assert (await late.wait_for_call()).keys == ["a"]
    assert await write_one(letters, replace(stored, priority=2))
    late.release()
    assert await first == [None]


async def test_held_after_the_write_and_cancelled(
    faults: Faults, letters: Collection[DeadLetter], truth: Collection[DeadLetter]
) -> None:
    hold = faults.hold("write", after=True)
    writing = asyncio.ensure_future(letters.write(abc()))
    await hold.wait_for_call()
    assert await get_one(truth, "a") is not None
    writing.cancel()
    assert isinstance((await asyncio.gather(writing, return_exceptions=True))[0], asyncio.CancelledError)
    assert await get_one(letters, "a") is not None


def test_says_what_it_is() -> None:
    assert repr(FaultyStore(MemoryStore())) == "FaultyStore(MemoryStore())"
