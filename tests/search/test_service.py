"""The query language of a queue: its clock, and what can be written next."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model.query import Between
from mahavishnu.model.query_text import BY_NAME
from mahavishnu.search.completion import Gap, complete_name, complete_value, find_gap
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.testing import Faults, FaultyStore, ManualClock


async def test_ages_are_counted_from_the_moment_of_looking() -> None:
    clock = ManualClock()
    async with DeadLetterQueue(clock=clock) as dlq:
        first = dlq.search.query("age>2h")
        assert first.where == (Between("created_at", below=clock.now() - timedelta(hours=2)),)
        await dlq.enqueue("wf_1", {}, [], "boom")
        clock.advance(2 * 3600 + 1)
        assert not (await dlq.letters.find(first)).items
        assert len((await dlq.letters.find(dlq.search.query("age>2h"))).items) == 1


async def test_values_are_those_that_letters_have() -> None:
    clock = ManualClock()
    store = FaultyStore(MemoryStore(), Faults())
    async with DeadLetterQueue(store=store, clock=clock) as dlq:
        for number, adapter in enumerate(["orders", "orders", "mails and more", None]):
            await dlq.enqueue(f"wf_{number}", {}, [], "boom", adapter=adapter)
        await dlq.in_namespace("eu").enqueue("wf_9", {}, [], "boom", adapter="theirs")
        found = await dlq.search.suggest("is:open adapter:")
        assert [(each.text, each.letters) for each in found.items] == [("orders", 2), ('"mails and more"', 1)]
        assert (found.start, found.end) == (16, 16)
        assert [each.text for each in (await dlq.search.suggest('adapter:"and m')).items] == ['"mails and more"']
        assert [each.text for each in (await dlq.search.suggest("adapter:", limit=1)).items] == ["orders"]
        await dlq.enqueue("wf_10", {}, [], "boom", adapter="later")
        assert len((await dlq.search.suggest("adapter:")).items) == 2, "they were counted a moment ago"
        clock.advance(31)
        assert len((await dlq.search.suggest("adapter:")).items) == 3


@pytest.mark.parametrize(
    ("text", "position", "gap"),
    [
        ("", 0, (0, 0, "", None)),
        ("sta", 3, (0, 3, "sta", None)),
        ("status:exh", 2, (0, 7, "st", None)),
        ("status:", 7, (7, 7, "", "status")),
        ("status:exh age>1h", 10, (7, 10, "exh", "status")),
        ("status:exh age>1h", 9, (7, 10, "ex", "status")),
        ("status:pending,ex", 17, (15, 17, "ex", "status")),
        ("status:pending ", 15, (15, 15, "", None)),
        ('queue:"bulk ma', 14, (6, 14, "bulk ma", "queue")),
        ('queue:"bulk mail" st', 20, (18, 20, "st", None)),
        ("-(cat", 5, (2, 5, "cat", None)),
        ('"card decl', 10, (0, 10, '"card decl', None)),
        ("is:open)", 8, (8, 8, "", None)),
    ],
)
def test_the_gap_at_a_position(text: str, position: int, gap: tuple[int, int, str, str | None]) -> None:
    start, end, written, name = gap
    assert find_gap(text, position) == Gap(start, end, written, BY_NAME[name] if name else None)


@pytest.mark.parametrize("text", ["status:exh", '"', "((", "task.a", "x:y", "a,b", "status:,", 'queue:"a" ', ",", "-"])
def test_every_position_has_a_gap(text: str) -> None:
    for position in range(-1, len(text) + 3):
        gap = find_gap(text, position)
        assert 0 <= gap.start <= gap.end <= len(text)


def test_what_begins_so_comes_first() -> None:
    assert [each.text for each in complete_name("res")][:2] == ["resolution:", "resolved_by:"]
    assert [each.text for each in complete_name("fingerp")] == ["group:"]
    assert [each.text for each in complete_name("task")][:2] == ["task_id:", "task."]
    assert next(each.text for each in complete_name("ag")) == "age>"
    assert next(each.text for each in complete_value(BY_NAME["status"], "e")) == "exhausted"
    assert [each.text for each in complete_value(BY_NAME["policy"], "custom", [("custom:a b", 2)])] == ['"custom:a b"']
    assert all(each.about for each in complete_name(""))
