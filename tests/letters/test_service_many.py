"""What people do with many letters at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mahavishnu.model.errors import InvalidInput, StoreUnavailable
from mahavishnu.model.query import letter_query
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.testing import Hook
from tests.support.queues import Gate, House, Runs, fill, heard, letter_of, sound


@pytest.mark.parametrize("verb", ["archive_many", "resolve_many", "cancel_many"])
async def test_those_in_flight_are_refused_and_the_others_done(any_house: House, verb: str) -> None:
    queue = any_house.queue(gate := Gate(), concurrency=3)
    names = await fill(queue, 3)
    running = asyncio.create_task(queue.run_due())
    await gate.reached(3)
    for number in range(3, 100):
        await queue.enqueue(f"later-{number}", {}, [], "boom", "never")
    events = heard(queue)
    dry = await getattr(queue.letters, verb)(everything=True, dry_run=True)
    assert (len(dry.done), len(dry.refused), dry.dry_run) == (97, 3, True)
    assert len(await queue.list_tasks()) == 100
    result = await getattr(queue.letters, verb)(everything=True, by="ada", notes="clean-up")
    assert (sorted(result.refused), len(result.done), result.matched) == (names, 97, 100)
    assert all("retrying" in why for why in result.refused.values())
    assert len(events) == 97
    letter = await letter_of(queue, "later-50")
    assert (letter.resolution.by, letter.resolution.notes) == ("ada", "clean-up")
    gate.open()
    await running
    assert (await sound(queue))["queue_size"] == 0


async def test_nothing_is_meant_by_nothing(house: House) -> None:
    queue = house.queue()
    await fill(queue, 1)
    for verb in (
        queue.letters.archive_many,
        queue.letters.resolve_many,
        queue.letters.cancel_many,
        queue.letters.retry_many,
    ):
        with pytest.raises(InvalidInput, match="everything"):
            await verb()
        for cap in (-1, 1.5, "2", True):
            with pytest.raises(InvalidInput, match="cap must be a whole number"):
                await verb(everything=True, cap=cap)
        odd: list[dict[str, Any]] = [{"statuss": "pending"}, {"created": "x"}, {"due": "now"}, {"metadata": "x"}]
        for options in (*odd, {"query": "all"}):
            for method in (verb, queue.list_tasks):
                with pytest.raises(InvalidInput):
                    await method(**options)
    for days in ("7", None, float("nan"), 10**9, 10**400):
        with pytest.raises(InvalidInput, match="is no number of days"):
            await queue.archive_exhausted(days)  # type: ignore[arg-type]
    for limit in ("5", 1.5, float("nan"), -1, True):
        with pytest.raises(InvalidInput, match="limit must be a whole number"):
            await queue.list_tasks(limit=limit)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="not both"):
        await queue.letters.archive_many(letter_query(status="pending"), category="network")
    assert len(await queue.list_tasks()) == 1


async def test_a_filter_chooses_and_a_cap_ends(any_house: House) -> None:
    queue = any_house.queue()
    await fill(queue, 10)
    await queue.enqueue("denied", {}, [], PermissionError("denied"))
    result = await queue.letters.archive_many(category="network", cap=4)
    assert (len(result.done), result.left) == (4, True)
    result = await queue.letters.archive_many(letter_query(category="network", status="pending"), cap=6)
    assert (len(result.done), result.left) == (6, False)
    assert [letter.task_id for letter in await queue.list_tasks()] == ["denied"]


async def test_redriving_is_for_open_letters(any_house: House) -> None:
    queue = any_house.queue(runs := Runs())
    for name in ("exhausted", "given up"):
        await queue.enqueue(name, name, [], "boom", max_retries=0)
    await queue.letters.fail("given up")
    result = await queue.letters.retry_many(status="exhausted")
    assert (result.done, list(result.refused)) == (["exhausted"], ["given up"])
    assert await queue.run_due() == 1
    assert runs.tasks == ["exhausted"]


async def test_one_that_the_store_refuses_is_named(any_house: House) -> None:
    queue = any_house.queue()
    await fill(queue, 3)
    with any_house.faults.item_failed("write", kind=LETTERS, keys=["wf_00001"]):
        result = await queue.letters.resolve_many(category="network")
    assert (sorted(result.done), list(result.refused)) == (["wf_00000", "wf_00002"], ["wf_00001"])
    with any_house.faults.conflict(
        "write", kind=LETTERS, times=1
    ):  # somebody is quicker, but does nothing that matters
        assert (await queue.letters.resolve_many(category="network", resolution="pending")).done == ["wf_00001"]


async def test_an_outage_in_the_middle_is_told_letter_by_letter(house: House) -> None:
    queue = house.queue()
    await fill(queue, 600)  # two pages
    written = house.faults.before("write", _fail_the_second(house), kind=LETTERS)
    result = await queue.letters.resolve_many(category="network")
    assert (len(result.done), len(result.refused), written.hits) == (500, 100, 2)
    assert (await sound(queue))["queue_size"] == 100


async def test_what_was_done_is_told_although_the_rest_could_not_be_found(house: House) -> None:
    queue = house.queue()
    await fill(queue, 600)
    house.faults.before("find", _fail_the_second(house, "find"), kind=LETTERS)
    result = await queue.letters.resolve_many(category="network")
    assert (len(result.done), result.refused) == (500, {})
    assert "away" in str(result.degraded)
    with house.faults.unavailable("find", kind=LETTERS), pytest.raises(StoreUnavailable):
        await queue.letters.resolve_many(category="network")


async def test_a_letter_that_cannot_be_read_is_named(house: House) -> None:
    queue = house.queue()
    await fill(queue, 2)
    with house.faults.corrupt("find", kind=LETTERS, keys=["wf_00000"]):
        result = await queue.letters.resolve_many(category="network")
    assert (result.done, list(result.refused)) == (["wf_00001"], ["wf_00000"])


def _fail_the_second(house: House, operation: str = "write") -> Hook:
    calls: list[object] = []

    async def fail(call: object) -> None:
        calls.append(call)
        if len(calls) == 2:
            house.faults.unavailable(operation, kind=LETTERS, times=1)

    return fail
