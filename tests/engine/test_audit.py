"""The audit: written before an act, completed after it, and read newest first."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.engine.audit import AUDIT, acting_as
from mahavishnu.model.errors import IllegalMove, InvalidInput, InvalidQuery, StoreUnavailable
from mahavishnu.model.events import MAX_CHANGES, MAX_VALUE_LENGTH, AuditEntry, changes_between, limit_changes
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.testing import FaultyStore
from tests.support.queues import House


async def act(queue: DeadLetterQueue, action: str = "resolve", subject: str = "letter:a", **more: Any) -> None:
    async with queue.audit.record(action, subject, **{"by": "ann", **more}):
        pass


async def newest(queue: DeadLetterQueue, **filters: Any) -> AuditEntry:
    return (await queue.audit.list(**filters)).items[0]


class TestAnAct:
    async def test_it_is_on_record_before_it_is_done(self, any_house: House) -> None:
        queue = any_house.queue()
        async with queue.audit.record("resolve", "letter:a", by="ann", reason="settled by phone") as record:
            entry = await newest(queue)
            assert (entry.outcome, entry.ended_at) == ("asked", None)
            record.add_change({"status": "pending"}, {"status": "completed"})
            record.add(count=3)
            any_house.clock.advance(2)
        done = await newest(queue)
        assert (done.actor, done.action, done.subject, done.reason) == (
            "ann",
            "resolve",
            "letter:a",
            "settled by phone",
        )
        assert (done.outcome, done.why, done.via, done.role) == ("done", None, "python", None)
        assert done.changes.value == {"status": {"before": "pending", "after": "completed"}, "count": {"after": 3}}
        assert done.ended_at == done.at + timedelta(seconds=2)
        assert done.entry_id == entry.entry_id

    async def test_a_refusal_is_kept_with_its_reason(self, any_house: House) -> None:
        queue = any_house.queue()
        with pytest.raises(IllegalMove):
            async with queue.audit.record("resolve", "letter:a", by="ann"):
                raise IllegalMove("a", "resolve", "retrying")
        entry = await newest(queue)
        assert (entry.outcome, entry.why) == ("refused", "letter 'a' is retrying: cannot resolve it")

    async def test_one_whose_process_dies_stays_asked(self, any_house: House) -> None:
        queue = any_house.queue()
        with pytest.raises(asyncio.CancelledError):
            async with queue.audit.record("resolve", "letter:a", by="ann"):
                raise asyncio.CancelledError
        assert (await newest(queue)).outcome == "asked"

    async def test_an_outage_is_no_refusal(self, any_house: House) -> None:
        queue = any_house.queue()
        with pytest.raises(StoreUnavailable):
            async with queue.audit.record("resolve", "letter:a", by="ann"):
                raise StoreUnavailable("away")
        assert (await newest(queue)).outcome == "asked"

    async def test_nothing_is_done_that_cannot_be_written_down(self, any_house: House) -> None:
        queue = any_house.queue()
        await queue.open()
        any_house.faults.unavailable("write", kind=AUDIT)
        with pytest.raises(StoreUnavailable):
            async with queue.audit.record("resolve", "letter:a", by="ann"):
                pytest.fail("it was done without a record")

    async def test_what_was_done_stands_though_that_cannot_be_written_down(
        self, any_house: House, caplog: pytest.LogCaptureFixture
    ) -> None:
        queue = any_house.queue()
        async with queue.audit.record("resolve", "letter:a", by="ann"):
            any_house.faults.unavailable("write", kind=AUDIT)
        any_house.faults.clear()
        assert (await newest(queue)).outcome == "asked"
        assert "not on record what came of resolve of letter:a" in caplog.text

    @pytest.mark.parametrize("wrong", [{"by": ""}, {"by": None}, {"by": 7}, {"reason": 7}], ids=str)
    async def test_who_and_why_are_texts(self, house: House, wrong: dict[str, Any]) -> None:
        queue = house.queue()
        with pytest.raises(InvalidInput):
            await act(queue, **wrong)
        assert not (await queue.audit.list()).items

    async def test_role_and_way_come_from_around_it(self, house: House) -> None:
        queue = house.queue()
        with acting_as(role="operator", via="http"):
            await act(queue)
            with acting_as(via="cli"):
                await act(queue)
            await act(queue, via="rule")
        await act(queue)
        found = [(entry.role, entry.via) for entry in reversed((await queue.audit.list()).items)]
        assert found == [("operator", "http"), (None, "cli"), ("operator", "rule"), (None, "python")]

    async def test_what_the_local_store_took_is_completed_in_the_other(self) -> None:
        primary, local = FaultyStore(MemoryStore()), MemoryStore()
        store = FallbackStore(primary, local, kinds=KINDS)
        async with DeadLetterQueue(store=store) as queue:
            primary.faults.unavailable()
            async with queue.audit.record("resolve", "letter:a", by="ann"):
                primary.faults.clear()
                await store.drain()
            assert [entry.outcome for entry in (await queue.audit.list()).items] == ["done"]


class TestList:
    async def test_newest_first_page_by_page(self, any_house: House) -> None:
        queue = any_house.queue()
        for number in range(7):
            await act(queue, subject=f"letter:{number}")
            any_house.clock.advance(number % 2)
        page = await queue.audit.list(limit=3)
        seen = [entry.subject for entry in page.items]
        while page.next is not None:
            page = await queue.audit.list(limit=3, after=str(page.next))
            seen += [entry.subject for entry in page.items]
        assert seen == [f"letter:{number}" for number in reversed(range(7))]

    async def test_filters(self, any_house: House) -> None:
        queue = any_house.queue()
        start = any_house.clock.now()
        await act(queue, "resolve", "letter:a")
        any_house.clock.advance(60)
        await act(queue, "edit", "letter:a", by="bob")
        with pytest.raises(InvalidInput):
            async with queue.audit.record("clear", "queue", by="bob"):
                raise InvalidInput("no")

        async def found(**filters: Any) -> list[str]:
            return [entry.action for entry in (await queue.audit.list(**filters)).items]

        assert await found() == ["clear", "edit", "resolve"]
        assert await found(actor="bob") == ["clear", "edit"]
        assert await found(action=["edit", "resolve"]) == ["edit", "resolve"]
        assert await found(subject="letter:a", actor="ann") == ["resolve"]
        assert await found(outcome="refused") == ["clear"]
        assert await found(since=start + timedelta(seconds=60)) == ["clear", "edit"]
        assert await found(until=start + timedelta(seconds=60)) == ["resolve"]
        assert await found(actor="nobody") == []

    async def test_where_a_letter_is_out_of_reach_its_runs_may_be_missing(self) -> None:
        """The list says so, and shows what it can."""
        primary = FaultyStore(MemoryStore())
        async with DeadLetterQueue(store=FallbackStore(primary, MemoryStore(), kinds=KINDS)) as queue:
            await act(queue)
            assert (await queue.audit.list(subject="letter:a")).degraded is None
            primary.faults.unavailable("get")
            assert (await queue.audit.list(subject="letter:a")).degraded

    async def test_it_refuses_what_cannot_be(self, house: House) -> None:
        queue = house.queue()
        with pytest.raises(InvalidInput):
            await queue.audit.list(since=datetime(2030, 1, 1))  # noqa: DTZ001
        with pytest.raises(InvalidQuery):
            await queue.audit.list(after="nonsense")
        with pytest.raises(InvalidQuery):
            await queue.audit.list(limit=0)

    async def test_a_denial(self, any_house: House) -> None:
        queue = any_house.queue()
        await queue.audit.record_denial("eve", "viewer", "redrive", "letter:a", "a viewer may not")
        entry = await newest(queue, action="denied")
        assert (entry.actor, entry.role, entry.outcome, entry.why) == (
            "eve",
            "viewer",
            "refused",
            "redrive: a viewer may not",
        )


class TestChanges:
    def test_json_is_told_path_by_path(self) -> None:
        before = {"status": "pending", "task": {"url": "http://a", "n": 1}, "updated_at": 1}
        after = {"status": "pending", "task": {"url": "http://b", "n": 1}, "updated_at": 2}
        assert changes_between(before, after) == {"task/url": {"before": "http://a", "after": "http://b"}}

    def test_they_are_bounded(self) -> None:
        told = limit_changes({str(number): {"after": "x" * 5000} for number in range(MAX_CHANGES + 5)}).value
        assert len(told) == MAX_CHANGES + 1
        assert len(told["0"]["after"]) == MAX_VALUE_LENGTH
        assert told["…"] == {"after": "5 more changes"}
