"""A group shows the failures that are in it: title, sample, first and last seen, category."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Any

import pytest

from mahavishnu import hookimpl
from mahavishnu.classify.verdict import Verdict
from mahavishnu.groups.rules import GroupView
from mahavishnu.letters.ledger import Ledger
from mahavishnu.model.letter_parts import LEASE_RAN_OUT, ErrorCategory
from mahavishnu.testing.clock import START
from tests.support.queues import House, letter_of

HOUR = timedelta(hours=1)
UNKNOWN, NEGATIVE = "LookupError: unknown currency <value>", "ValueError: amount is not positive"


async def settle(task: Any, repos: list[str]) -> None:
    """Fail for the currency first, then for the amount."""
    if task["currency"] != "EUR":
        raise LookupError(f"unknown currency {task['currency']!r}")
    raise ValueError("amount is not positive")


async def edited(house: House) -> tuple[GroupView, GroupView]:
    """Two letters of one cause; after an edit, one of them fails otherwise. Returns the old group and the new one."""
    app = house.app()
    app.register_adapter("settle", settle)
    for number in (1, 2):
        with contextlib.suppress(LookupError):
            await app.execute_workflow({"currency": "EURO"}, "settle", [], task_id=f"settle:{number}")
        house.clock.advance(HOUR.total_seconds())
    before = (await letter_of(app.dlq, "settle:1")).fingerprint
    await app.dlq.letters.edit("settle:1", patch={"currency": "EUR"}, by="ann")
    await app.dlq.retry_task("settle:1")
    after = (await letter_of(app.dlq, "settle:1")).fingerprint
    assert before is not None and after is not None
    return await app.dlq.groups.get(before), await app.dlq.groups.get(after)


async def test_after_an_edit_the_new_failure_is_shown(any_house: House) -> None:
    old, new = await edited(any_house)

    assert (new.title, new.count, new.first_seen, new.last_seen) == (NEGATIVE, 1, START + 2 * HOUR, START + 2 * HOUR)
    assert new.sample is not None and (new.sample.error, new.sample.type) == ("amount is not positive", "ValueError")
    assert (old.title, old.count, old.first_seen, old.last_seen) == (UNKNOWN, 1, START + HOUR, START + HOUR)
    assert old.sample is not None and old.sample.task_id == "settle:2"


async def test_a_group_of_letters_that_came_in_differently(any_house: House) -> None:
    """It was seen first when the first of them came in, and last when one failed last."""
    queue = any_house.queue()
    await queue.enqueue("a", {}, [], ValueError("row 1 is broken"))
    any_house.clock.advance(60)
    await queue.enqueue("b", {}, [], TimeoutError("too late"))
    any_house.clock.advance(60)
    moved = await queue.enqueue("b", {}, [], ValueError("row 2 is broken"))
    any_house.clock.advance(60)
    again = await queue.enqueue("a", {}, [], ValueError("row 3 is broken"))

    assert moved.fingerprint == again.fingerprint is not None
    (view,) = (await queue.groups.list()).items
    minutes = [(view.first_seen or START) - START, (view.last_seen or START) - START]
    assert (view.count, minutes) == (2, [timedelta(0), timedelta(minutes=3)])


async def test_a_sum_of_closed_letters_knows_when_the_group_was_seen(any_house: House) -> None:
    """Also where a letter that it counts is opened again, and fails."""
    queue = any_house.queue()
    await queue.enqueue("a", {}, [], TimeoutError("too late"))
    any_house.clock.advance(60)
    await queue.enqueue("a", {}, [], ValueError("row 1 is broken"))
    any_house.clock.advance(60)
    last = await queue.enqueue("a", {}, [], ValueError("row 2 is broken"))
    await queue.letters.fail("a")
    assert last.fingerprint is not None
    before = await queue.groups.get(last.fingerprint)
    assert (before.first_seen, before.last_seen) == (START + timedelta(minutes=1), START + timedelta(minutes=2))
    any_house.clock.advance(2 * HOUR.total_seconds())

    assert await Ledger(queue.context).fold_closed(1) == 1

    after = await queue.groups.get(last.fingerprint)
    assert (after.first_seen, after.last_seen, after.total) == (before.first_seen, before.last_seen, 1)
    assert after.sample is not None and after.sample.error == "row 2 is broken"
    await queue.letters.resurrect("a")
    await queue.enqueue("a", {}, [], ValueError("row 3 is broken"))
    opened = await queue.groups.get(last.fingerprint)
    assert (opened.first_seen, opened.last_seen, opened.total) == (before.first_seen, any_house.clock.now(), 1)


async def test_a_lost_lease_is_no_cause(any_house: House) -> None:
    queue = any_house.queue(lease_seconds=60)
    await queue.enqueue("a", {}, [], ValueError("row 1 is broken"), adapter="sweep", retry_policy="immediate")
    for _ in range(9):
        await queue.claims.claim("worker", adapters=["sweep"])
        any_house.clock.advance(3600)
    letter = await letter_of(queue, "a")
    assert letter.failures[-1].type == LEASE_RAN_OUT

    (view,) = (await queue.groups.list()).items

    assert (view.title, view.last_seen) == ("ValueError: row <n> is broken", START)
    assert view.sample is not None and view.sample.error == "row 1 is broken"


class ByTask:
    """A plugin whose verdict depends on more than the error."""

    @hookimpl
    def classify_error(self, error: BaseException | str, context: Any) -> Verdict | None:
        return Verdict(ErrorCategory.TRANSIENT) if context.task.get("slow") else Verdict(ErrorCategory.PERMANENT)


async def test_one_group_has_one_category(any_house: House) -> None:
    queue = any_house.queue()
    queue.context.chain.plugins.register(ByTask(), "by-task")
    for number in range(4):
        await queue.enqueue(f"a{number}", {"slow": number % 2 == 0}, [], ValueError(f"row {number} is broken"))
    await queue.enqueue("b", {}, [], ValueError("row 9 is broken"), error_category="network")

    views = (await queue.groups.list()).items

    assert sorted([*view.categories.items()] for view in views) == [
        [("network", 1)], [("permanent", 2)], [("transient", 2)]
    ]  # fmt: skip
    assert (await queue.groups.regroup()).done == []


async def test_regroup_brings_reclassified_letters_to_their_cause(any_house: House) -> None:
    """New failures are in the group of the new category already."""
    queue = any_house.queue()
    await queue.enqueue("a", {}, [], ValueError("row 1 is broken"))
    queue.context.chain.plugins.register(ByTask(), "by-task")
    await queue.enqueue("b", {}, [], ValueError("row 2 is broken"))
    await queue.letters.reclassify(dry_run=False)
    assert [view.count for view in (await queue.groups.list()).items] == [1, 1]

    await queue.groups.regroup(dry_run=False)

    (view,) = (await queue.groups.list()).items
    assert (view.count, view.categories) == (2, {"permanent": 2})


@pytest.mark.parametrize("number", [404, 429, 503])
async def test_statuses_are_groups(house: House, number: int) -> None:
    queue = house.queue()
    for id_ in ("DE-1001", "ord_9f3bc2", "77"):
        await queue.enqueue(id_, {}, [], RuntimeError(f"Client error '{number} Reason' for order {id_}"))
    await queue.enqueue("other", {}, [], RuntimeError("Client error '409 Conflict' for order 1"))

    assert [view.count for view in (await queue.groups.list()).items] == [3, 1]
