"""What changes is told to everybody who listens, whoever changed it: once, and to nobody if nobody listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from mahavishnu.api.routes.events import KEEPALIVE_SECONDS, POLL_SECONDS, LiveEvent, LiveFeed, _as_sse, _instant_from_id
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.testing import Faults, FaultyStore, ManualClock, turn
from tests.unit.queues import until


class Ear:
    """Somebody who listens, and what was heard."""

    def __init__(self, live: LiveFeed, **since: Any) -> None:
        self.heard: list[LiveEvent | None] = []
        self._stream = live.listen(**since)
        self._task = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        async with aclosing(self._stream) as stream:  # type: ignore[type-var]
            async for told in stream:
                self.heard.append(told)

    async def leave(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})

    @property
    def ended(self) -> bool:
        return self._task.done()

    @property
    def letters(self) -> list[tuple[str, str]]:
        return [
            (told[2]["task_id"], told[2]["status"]) for told in self.heard if told is not None and told[1] == "letter"
        ]

    @property
    def names(self) -> list[str | None]:
        return [told and told[1] for told in self.heard]


class Room:
    """Two processes on one store; `live` looks on in the first of them."""

    def __init__(self) -> None:
        self.clock, self.pace, self.faults = ManualClock(), ManualClock(), Faults()
        store = MemoryStore()
        self.looks = 0
        self.here = DeadLetterQueue(store=FaultyStore(store, self.faults), clock=self.clock)
        self.elsewhere = DeadLetterQueue(store=store, clock=self.clock)
        self.live = LiveFeed(self.here, self.pace)
        self.ears: list[Ear] = []

    async def ear(self, **since: Any) -> Ear:
        """Somebody who has begun to listen."""
        self.ears.append(Ear(self.live, **since))
        await turn()
        await self.pace.sleeping()
        return self.ears[-1]

    async def look(self) -> None:
        """Let the next look happen, and everybody hear what it tells."""
        await self.pace.sleeping()
        self.pace.advance(POLL_SECONDS / 5)
        await self.pace.sleeping()
        self.pace.advance(POLL_SECONDS)
        await self.pace.sleeping()
        await turn()
        await turn()


@asynccontextmanager
async def furnished() -> AsyncIterator[Room]:
    made = Room()
    async with made.here, made.elsewhere:
        yield made
        for ear in made.ears:
            await ear.leave()


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    async with furnished() as made:
        yield made


async def test_what_happens_here_is_told_at_once(room: Room) -> None:
    ear = await room.ear()
    await room.here.enqueue("wf", {}, [], "connection reset")
    room.pace.advance(POLL_SECONDS / 5)  # only the moment between two looks passes
    await until(lambda: ear.heard)
    assert ear.letters == [("wf", "pending")]


async def test_what_others_write_is_told_too_and_each_change_once(room: Room) -> None:
    ears = [await room.ear(), await room.ear()]
    await room.here.enqueue("here", {}, [], "connection reset")
    await room.elsewhere.enqueue("there", {}, [], "connection reset")
    for _ in range(5):
        await room.look()
    for ear in ears:
        assert sorted(ear.letters) == [("here", "pending"), ("there", "pending")]
    room.clock.advance(1)
    await room.elsewhere.letters.resolve("here")
    await room.look()
    await room.look()
    for ear in ears:
        assert ear.letters[2:] == [("here", "completed")]


async def test_two_changes_in_the_same_instant_are_two(room: Room) -> None:
    ear = await room.ear()
    await room.elsewhere.enqueue("wf", {}, [], "connection reset")
    await room.look()
    await room.elsewhere.letters.resolve("wf")
    await room.look()
    assert ear.letters == [("wf", "pending"), ("wf", "completed")]


async def test_runs_and_groups_are_told(room: Room) -> None:
    ear = await room.ear()
    letter = await room.here.enqueue("wf", {}, [], ConnectionError("reset"))
    await room.elsewhere.groups.update(str(letter.fingerprint), by="ann", state="investigating")
    run = await room.elsewhere.runs.start("archive", queue="default", by="ann")
    await room.look()
    assert {told[1]: told[2] for told in ear.heard if told and told[1] == "group"}["group"]["state"] == "investigating"
    assert run.run_id in [told[2]["run_id"] for told in ear.heard if told and told[1] == "run"]


async def test_who_was_away_is_told_what_was_missed(room: Room) -> None:
    first = await room.ear()
    await room.elsewhere.enqueue("a", {}, [], "connection reset")
    await room.look()
    (told,) = first.heard
    assert told is not None
    await first.leave()
    room.clock.advance(minutes=10)
    await room.elsewhere.enqueue("b", {}, [], "connection reset")
    room.clock.advance(minutes=10)
    await room.elsewhere.enqueue("c", {}, [], "connection reset")
    again = await room.ear(since=room.clock.now() - timedelta(minutes=20))
    await until(lambda: len(again.letters) >= 3)
    await room.look()
    assert [task_id for task_id, _ in again.letters][:3] == ["a", "b", "c"]  # the last one that was told, once more
    assert told[0] == "2026-01-01T00:00:00.000Z"
    fresh = await room.ear()
    room.clock.advance(minutes=1)
    await room.look()
    assert fresh.heard == []


async def test_looking_back_takes_nothing_from_those_who_listen(room: Room) -> None:
    ear = await room.ear()
    await room.elsewhere.enqueue("wf", {}, [], "connection reset")
    late = await room.ear(since=room.clock.now())
    await until(lambda: late.letters)
    await room.look()
    assert ear.letters == [("wf", "pending")]


async def test_what_changes_during_a_look_back_is_not_missed(room: Room) -> None:
    ear = await room.ear()
    hold = room.faults.hold("find", after=True)  # the letters were read, the runs not yet
    late = Ear(room.live, since=room.clock.now())
    room.ears.append(late)
    await hold.reached()
    await room.elsewhere.enqueue("wf", {}, [], "connection reset")
    await room.look()
    assert ear.letters == [("wf", "pending")]
    hold.release()
    await until(lambda: late.letters)
    assert late.letters == [("wf", "pending")]


async def test_who_is_slow_reads_anew(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mahavishnu.api.routes.events._MAX_QUEUED", 10)
    slow = room.live.listen()
    first = asyncio.ensure_future(anext(slow))
    quick = await room.ear()
    for number in range(30):
        await room.elsewhere.enqueue(f"wf_{number}", {}, [], "connection reset")
    await room.look()
    first_told = await first
    assert first_told is not None
    rest = [await anext(slow) for _ in range(2)]
    await slow.aclose()  # type: ignore[attr-defined]
    assert ("", "many", {"of": "everything"}) in [first_told, *rest]
    assert quick.heard


async def test_more_than_can_be_told_is_said(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mahavishnu.api.routes.events._MAX_CHANGES", 5)
    ear = await room.ear()
    for number in range(9):
        await room.elsewhere.enqueue(f"wf_{number}", {}, [], "connection reset")
    await room.look()
    assert [name for name in ear.names if name != "letter"] == ["many"]
    assert ear.heard[-1] is not None and ear.heard[-1][2] == {"of": "letter"}


async def test_a_store_that_is_away_is_told_once_and_so_is_its_return(room: Room) -> None:
    ear = await room.ear()
    with room.faults.unavailable("find"):
        for _ in range(3):
            await room.look()
        assert ear.heard == [("", "degraded", {"detail": "the store cannot be reached"})]
        late = await room.ear()
        await room.look()
        assert late.names == ["degraded"]
        await room.elsewhere.enqueue("wf", {}, [], "connection reset")
        room.clock.advance(minutes=10)
    await room.look()
    await room.look()
    assert ear.letters == [("wf", "pending")]  # although it was written long ago
    assert ear.names.count("many") == 1
    assert ear.names.count("degraded") == 1


async def test_what_was_missed_while_the_store_is_away_is_to_be_read_anew(room: Room) -> None:
    with room.faults.unavailable("find"):
        ear = await room.ear(since=room.clock.now())
        await until(lambda: len(ear.heard) == 2)
        assert sorted(map(str, ear.names)) == ["degraded", "many"]


async def test_a_bug_in_a_look_ends_the_streams_and_the_next_one_looks(room: Room) -> None:
    ear = await room.ear()

    async def broken(_: object) -> None:
        raise KeyError("a bug")

    with room.faults.before("find", broken):
        room.pace.advance(POLL_SECONDS / 5)
        await room.pace.sleeping()
        room.pace.advance(POLL_SECONDS)
        await until(lambda: ear.ended)
    await room.elsewhere.enqueue("wf", {}, [], "connection reset")
    again = await room.ear()
    await room.look()
    assert again.letters == [("wf", "pending")]


async def test_a_look_that_fails_half_way_forgets_nothing(room: Room) -> None:
    from mahavishnu.stores.kinds import GROUPS

    ear = await room.ear()
    await room.elsewhere.enqueue("wf", {}, [], "connection reset")
    with room.faults.unavailable("find", kind=GROUPS):
        await room.look()
    assert ear.letters == []
    await room.look()
    assert ear.letters == [("wf", "pending")]


async def test_deleted_letters_are_found_by_no_look(room: Room) -> None:
    ear = await room.ear()
    await room.here.enqueue("wf", {}, [], "connection reset")
    await room.look()
    await room.here.clear_all(by="ann")
    await room.look()
    assert ear.names == ["letter", "many"]


async def test_nobody_listens_nobody_looks(room: Room) -> None:
    calls: list[Any] = []

    async def count(call: Any) -> None:
        calls.append(call)

    room.faults.before("find", count)
    await room.here.enqueue("wf", {}, [], "connection reset")
    calls.clear()
    ear = await room.ear()
    assert calls
    await ear.leave()
    calls.clear()
    await room.here.letters.resolve("wf")
    room.pace.advance(100)
    for _ in range(10):
        await turn()
    assert (calls, room.pace.sleepers) == ([], 0)


async def test_a_quiet_line_is_shown_to_be_open(room: Room) -> None:
    ear = await room.ear()
    for _ in range(round(KEEPALIVE_SECONDS / POLL_SECONDS)):
        await room.look()
    assert ear.heard == [None]


async def test_closing_ends_it_for_everybody(room: Room) -> None:
    ears = [await room.ear(), await room.ear()]
    await room.live.close()
    await until(lambda: all(ear.ended for ear in ears))
    assert room.pace.sleepers == 0


@pytest.mark.parametrize("odd", ["junk", "7", "2026-01-01", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00"])
async def test_an_id_that_is_none_of_ours_means_from_now_on(odd: str) -> None:
    assert _instant_from_id(odd) is None
    assert _instant_from_id("2026-01-01T00:00:00.000Z") == ManualClock().now()


async def test_what_is_written_on_the_wire() -> None:
    async def events() -> AsyncIterator[LiveEvent | None]:
        yield LiveEvent("2026-01-01T00:00:00.000Z", "letter", {"task_id": "a\nb"})
        yield None
        yield LiveEvent("", "degraded", {"detail": "away"})

    assert [text async for text in _as_sse(events())] == [
        ": open\n\n",
        'id: 2026-01-01T00:00:00.000Z\nevent: letter\ndata: {"task_id": "a\\nb"}\n\n',
        ": still here\n\n",
        'event: degraded\ndata: {"detail": "away"}\n\n',  # no id: the last one counts on
    ]
