"""Letters that wait until others have succeeded."""

from __future__ import annotations

import pytest

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model.errors import InvalidInput, NoSuchLetter
from tests.support.queues import NETWORK, House, Runs, letter_of


async def a_and_b(queue: DeadLetterQueue) -> None:
    await queue.enqueue("A", "A", [], "down", "immediate")
    await queue.enqueue("B", "B", [], "down", "immediate", depends_on=["A"], priority=9)


async def test_b_runs_after_a_has_succeeded(any_house: House) -> None:
    queue = any_house.queue(runs := Runs(NETWORK, None))
    await a_and_b(queue)
    for _ in range(3):
        await queue.run_due()
        any_house.clock.advance(10)
    assert runs.tasks == ["A", "A", "B"]
    b = await letter_of(queue, "B")
    assert (b.status, b.total_attempts) == ("completed", 1)


@pytest.mark.parametrize("end", ["cancel", "fail", "archive"])
async def test_if_a_never_succeeds_b_stays_and_says_why(house: House, end: str) -> None:
    queue = house.queue(runs := Runs())
    await a_and_b(queue)
    await getattr(queue.letters, end)("A")
    house.clock.advance(hours=1)
    await queue.run_due()
    assert runs.calls == []
    b = await letter_of(queue, "B")
    assert (b.status, b.retry_count, b.total_attempts) == ("pending", 0, 0)
    assert await queue.letters.blocked_by("B") == ["A"]


@pytest.mark.parametrize("settled", ["by a run", "by a person"])
async def test_a_may_be_put_away_after_it_has_succeeded(house: House, settled: str) -> None:
    queue = house.queue(runs := Runs())
    await a_and_b(queue)
    await (queue.retry_task("A") if settled == "by a run" else queue.letters.resolve("A"))
    await queue.archive_task("A")
    assert await queue.letters.blocked_by("B") == []
    await queue.run_due()
    assert runs.tasks[-1] == "B"


async def test_what_has_no_letter_holds_up_nobody(house: House) -> None:
    queue = house.queue(runs := Runs())
    await queue.enqueue("B", "B", [], "down", "immediate", depends_on=["never failed"])
    assert await queue.run_due() == 1
    assert runs.tasks == ["B"]
    with pytest.raises(NoSuchLetter):
        await queue.letters.blocked_by("never failed")


async def test_a_task_that_fails_again_waits_for_more(any_house: House) -> None:
    queue = any_house.queue(runs := Runs())
    await queue.enqueue("A", "A", [], "down", "immediate")
    await queue.enqueue("B", "B", [], "down", "immediate", priority=9)
    merged = await queue.enqueue("B", "B", [], "down", depends_on=["A"])
    assert (merged.occurrences, merged.depends_on) == (2, ("A",))
    await queue.enqueue("B", "B", [], "down", depends_on=["A", "C"])
    with pytest.raises(InvalidInput, match="A → B → A"):
        await queue.enqueue("A", "A", [], "down", depends_on=["B"])
    for _ in range(2):
        await queue.run_due()
        any_house.clock.advance(10)
    assert runs.tasks == ["A", "B"]
    assert (await letter_of(queue, "B")).depends_on == ("A", "C")


async def test_circles_are_refused(any_house: House) -> None:
    queue = any_house.queue()
    with pytest.raises(InvalidInput, match="dependency_cycle_detected: A → A"):
        await queue.enqueue("A", {}, [], "down", depends_on=["A"])
    await queue.enqueue("A", {}, [], "down", depends_on=["B"])
    await queue.enqueue("B", {}, [], "down", depends_on=["C"])
    with pytest.raises(InvalidInput, match="C → A → B → C"):
        await queue.enqueue("C", {}, [], "down", depends_on=["A"])
    assert await queue.get_task("C") is None


async def test_an_edit_cannot_make_a_circle_either(house: House) -> None:
    queue = house.queue()
    await queue.enqueue("A", {}, [], "down")
    await queue.enqueue("B", {}, [], "down", depends_on=["A"])
    with pytest.raises(InvalidInput, match="dependency_cycle_detected"):
        await queue.letters.edit("A", depends_on=["B"])
    assert (await letter_of(queue, "A")).depends_on == ()
