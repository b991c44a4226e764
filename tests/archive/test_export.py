"""Exports for analysis: one after the other have each archived letter once, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import csv
import json
from itertools import pairwise
from pathlib import Path

import pytest

from mahavishnu.archive.export import EXPORT_STEPS
from mahavishnu.archive.records import ARCHIVED_LETTERS, archive_kind
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.letters.transfer import parse_letter
from mahavishnu.model.errors import IllegalMove, InvalidInput, StoreUnavailable
from mahavishnu.model.rules import RetentionRules
from mahavishnu.testing.faults import Call
from tests.archive.test_archiving import LATER, MONTH, closed, run
from tests.support.kills import kill_at_each_call
from tests.support.queues import House

RULES = RetentionRules(analytics_export=True)


async def tasks_of(queue: DeadLetterQueue, after: int, upto: int) -> list[str]:
    return [json.loads(line)["letter"]["task_id"] async for line in queue.archive.export(after, upto)]


async def archived(queue: DeadLetterQueue, house: House, *names: str) -> None:
    for name in names:
        await queue.enqueue(name, {"n": name}, ["api"], "boom, she\nsaid")
        await queue.letters.resolve(name)
    house.clock.advance(LATER)
    assert await run(queue) == len(names)


async def test_two_exports_one_after_the_other_have_everything_once(any_house: House) -> None:
    queue = any_house.queue(rules=[RULES])
    await archived(queue, any_house, "a", "b")
    first = await queue.archive.begin_export()
    await archived(queue, any_house, "c")
    second = await queue.archive.begin_export()
    parts = [await tasks_of(queue, 0, first), await tasks_of(queue, first, second)]
    assert [sorted(part) for part in parts] == [["a", "b"], ["c"]]
    assert await tasks_of(queue, 0, second) == parts[0] + parts[1], "asking again gives the same"
    third = await queue.archive.begin_export()
    assert await tasks_of(queue, second, third) == []


async def test_exports_to_tables_make_one_table(any_house: House) -> None:
    queue = any_house.queue(rules=[RULES])
    lines: list[str] = []
    step = 0
    for name in ("a", "b"):
        await archived(queue, any_house, name)
        next_step = await queue.archive.begin_export()
        lines += [line async for line in queue.archive.export(step, next_step, "csv")]
        step = next_step
    rows = list(csv.DictReader(lines))
    assert [(row["export"], row["task_id"], row["error"]) for row in rows] == [
        ("1", "a", "boom, she said"),
        ("2", "b", "boom, she said"),
    ]


async def test_exports_are_off_unless_they_are_switched_on(house: House) -> None:
    with pytest.raises(InvalidInput, match=r"retention\.analytics_export"):
        await house.queue().archive.begin_export()


@pytest.mark.parametrize(("after", "upto", "form"), [(0, 2, "jsonl"), (-1, 1, "jsonl"), (1, 0, "csv"), (0, 1, "xml")])
async def test_what_cannot_be_exported_is_refused(house: House, after: int, upto: int, form: str) -> None:
    queue = house.queue(rules=[RULES])
    assert await queue.archive.begin_export() == 1
    with pytest.raises(InvalidInput):
        _ = [line async for line in queue.archive.export(after, upto, form)]


async def test_each_namespace_has_its_own(any_house: House) -> None:
    queue = any_house.queue(rules=[RULES])
    await archived(queue, any_house, "a")
    other = queue.in_namespace("billing")
    assert await tasks_of(other, 0, await other.archive.begin_export()) == []
    assert await tasks_of(queue, 0, await queue.archive.begin_export()) == ["a"]


async def test_a_letter_that_came_back_and_left_again_is_not_exported_twice(any_house: House) -> None:
    queue = any_house.queue(rules=[RULES])
    await archived(queue, any_house, "a")
    first = await queue.archive.begin_export()
    await queue.archive.restore("a")
    any_house.clock.advance(LATER)
    assert await run(queue) == 1
    assert await tasks_of(queue, first, await queue.archive.begin_export()) == []
    assert await tasks_of(queue, 0, first) == ["a"]


async def test_what_is_in_a_detached_month_is_not_left_out(any_house: House) -> None:
    queue = any_house.queue(rules=[RULES])
    await archived(queue, any_house, "a")
    await queue.archive.detach(MONTH)
    first = await queue.archive.begin_export()
    await queue.archive.attach(MONTH)
    second = await queue.archive.begin_export()
    assert await tasks_of(queue, first, second) == ["a"], "no step had it while it was out of reach"
    await queue.archive.detach(MONTH)
    with pytest.raises(StoreUnavailable, match=MONTH):
        await tasks_of(queue, first, second)
    assert await tasks_of(queue, second, second) == [], "whoever has it already goes on"


async def test_a_step_that_another_one_overtakes_marks_nothing_more(any_house: House) -> None:
    """It has read a page, and before it marks it the other one has marked all: nothing is in a step that was read."""
    slow, other = any_house.queue(rules=[RULES]), any_house.queue(rules=[RULES])
    await archived(slow, any_house, "a", "b")
    steps: list[int] = []

    async def overtake(call: Call) -> None:
        if not steps:
            steps.append(0)
            steps[0] = await other.archive.begin_export()

    any_house.faults.after("find", overtake, kind=archive_kind(ARCHIVED_LETTERS, MONTH), times=1)
    with pytest.raises(IllegalMove, match="another export"):
        await slow.archive.begin_export()
    done = await tasks_of(other, 0, steps[0])
    later = await tasks_of(other, steps[0], await slow.archive.begin_export())
    assert (sorted(done), later) == (["a", "b"], [])


async def test_many_who_export_at_once(any_house: House) -> None:
    queues = [any_house.queue(rules=[RULES]) for _ in range(5)]
    await closed(queues[0], 30)
    any_house.clock.advance(LATER)
    begun = [asyncio.create_task(each.archive.begin_export()) for each in queues]
    await asyncio.gather(*(run(each, batch_size=4) for each in queues[:2]))
    steps = await asyncio.gather(*begun, return_exceptions=True)
    assert all(isinstance(step, int | IllegalMove) for step in steps), steps
    watermarks = sorted({0, *(step for step in steps if isinstance(step, int)), await queues[0].archive.begin_export()})
    parts = [await tasks_of(queues[0], *pair) for pair in pairwise(watermarks)]
    assert sorted(task for part in parts for task in part) == [f"wf_{number:03}" for number in range(30)]


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_killed_at_any_call_the_next_one_has_what_is_missing(tmp_path: Path, moment: str) -> None:
    async def prepare(house: House) -> None:
        await archived(house.queue(), house, "a", "b")

    async def act(queue: DeadLetterQueue) -> None:
        queue.context.set_rules(RULES)
        await queue.archive.begin_export()

    async def check(house: House, nothing: None) -> None:
        queue = house.queue(rules=[RULES])
        await queue.open()
        (steps,) = await queue.store.collection(EXPORT_STEPS).get(["default"])
        known = steps.complete if steps is not None and not isinstance(steps, Exception) else 0
        parts = [await tasks_of(queue, 0, known), await tasks_of(queue, known, await queue.archive.begin_export())]
        assert sorted(parts[0] + parts[1]) == ["a", "b"]

    assert await kill_at_each_call("memory", tmp_path, moment, prepare, act, check) > 5


async def test_an_exported_letter_is_the_one_that_left(any_house: House) -> None:
    queue = any_house.queue(rules=[RULES])
    (letter,) = await closed(queue, 1)
    any_house.clock.advance(LATER)
    await run(queue)
    (line,) = [line async for line in queue.archive.export(0, await queue.archive.begin_export())]
    assert parse_letter(json.loads(line)["letter"]) == letter
