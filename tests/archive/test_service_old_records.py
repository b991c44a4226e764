"""Records that nobody asks for any more are deleted by the settings; former letters go to the archive."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mahavishnu.bulk.records import RUN_PAGES, RUNS
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.engine.audit import AUDIT
from mahavishnu.engine.waiting_room import as_letter
from mahavishnu.http.replies import REPLIES
from mahavishnu.model.query import Query
from mahavishnu.model.rules import RetentionRules
from mahavishnu.stores.base import scan
from mahavishnu.stores.kind import Kind
from mahavishnu.stores.kinds import HISTORY, REVISIONS
from tests.support.queues import House, letter_of, sound

KEPT = RetentionRules(completed_days=None, history_days=None, audit_days=None, runs_days=None)


async def number(queue: DeadLetterQueue, kind: Kind[Any]) -> int:
    return (await queue.store.collection(kind).tally(Query())).total.count


@pytest.mark.parametrize(
    ("kind", "rule"),
    [(AUDIT, "audit_days"), (RUNS, "runs_days"), (RUN_PAGES, "runs_days"), (REVISIONS, "revisions_days")],
)
async def test_what_is_older_is_deleted_and_nothing_else(any_house: House, kind: Kind[Any], rule: str) -> None:
    queue = any_house.queue(rules=[KEPT])
    other = queue.in_namespace("billing")
    for each in (queue, other):
        await each.enqueue("wf", {}, [], "boom", namespace=each.namespace)
        await each.letters.edit("wf", priority=3)
    run = await queue.runs.start("redrive", Query(), by="ann", everything=True)
    await queue.runs.advance()
    await queue.runs.cancel(run.run_id, by="ann")
    await queue.runs.advance()
    before = await number(queue, kind)
    any_house.clock.advance(timedelta(days=10))
    await queue.letters.edit("wf", priority=4)
    new = await number(queue, kind) - before
    for days, left in ((11, before + new), (9, new)):
        queue.context.set_rules(RetentionRules(completed_days=None, **{**_none(), rule: days}))
        await queue.archive.maintain()
        others = 1 if kind in (AUDIT, REVISIONS) and days == 9 else 0  # of another app
        fresh = new if kind is REVISIONS and days == 9 else 0  # it says what the letter was since ten days ago
        assert await number(queue, kind) == left + others - fresh
    assert (await letter_of(queue, "wf")).priority == 4
    await sound(queue)


def _none() -> dict[str, Any]:
    return {"history_days": None, "audit_days": None, "runs_days": None, "tasks_days": None, "revisions_days": None}


async def test_former_letters_go_to_the_archive_by_themselves(any_house: House) -> None:
    queue = any_house.queue(rules=[RetentionRules(history_days=30)])
    for priority in (1, 2):
        await queue.enqueue("wf", {"n": 1}, [], "boom")
        await queue.letters.edit("wf", priority=priority)
        await queue.letters.resolve("wf")
    await queue.enqueue("wf", {"n": 1}, [], "boom")
    before = (await sound(queue))["lifetime_stats"]
    former = [each async for each in scan(queue.store.collection(HISTORY), Query())]
    any_house.clock.advance(timedelta(days=31))
    told, done = await queue.archive.run(), await queue.archive.run(dry_run=False)
    assert told.steps_archived == done.steps_archived == 2
    assert (await number(queue, HISTORY), await number(queue, REVISIONS)) == (0, 0)
    found = (await queue.archive.search(task_id="wf")).items
    assert {line.copy.entry_id for line in found} == {each.entry_id for each in former}
    for each in former:
        case = await queue.archive.show(each.entry_id)
        assert case.letter == as_letter(each)
        assert len(case.revisions) == 1
    assert (await sound(queue))["lifetime_stats"] == before
    assert (await letter_of(queue, "wf")).is_open


async def test_replies_are_kept_as_long_as_the_settings_say(house: House) -> None:
    queue = house.queue(rules=[RetentionRules(replies_days=3)])
    await queue.open()
    assert await queue.replies.begin("key", "asked") is None
    house.clock.advance(timedelta(days=2))
    await queue.replies.clean()
    assert await number(queue, REPLIES) == 1
    assert await queue.replies.begin("key", "asked") is not None
    house.clock.advance(timedelta(days=2))
    await queue.replies.clean()
    assert await number(queue, REPLIES) == 0
