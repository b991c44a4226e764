"""Delete one: the letter, its history, its revisions and its copies are gone; the numbers stay, and who did it."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.archive.records import ARCHIVED_LETTERS, archive_kind
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.engine.audit import AUDIT
from mahavishnu.engine.waiting_room import WAITING
from mahavishnu.letters.ledger import Ledger
from mahavishnu.model.errors import LostLease, NoSuchLetter
from mahavishnu.model.query import Query
from mahavishnu.model.rules import RetentionRules
from mahavishnu.stores.base import scan
from mahavishnu.stores.kind import Kind
from mahavishnu.stores.kinds import HISTORY, LETTERS, REVISIONS
from tests.archive.test_archiving import LATER, run
from tests.support.kills import kill_at_each_call
from tests.support.queues import House, sound

SECRET = "PLUGH-17"
KINDS: tuple[Kind[Any], ...] = (LETTERS, HISTORY, REVISIONS, AUDIT, WAITING, archive_kind(ARCHIVED_LETTERS, "2026_01"))


async def with_a_life(queue: DeadLetterQueue, house: House, *, archive: bool = True) -> None:
    """A task with a secret in its payload, errors, edits and notes: archived once, and failed again since."""
    for number in (1, 2):
        await queue.enqueue("wf", {"secret": SECRET}, [], f"boom {SECRET}")
        await queue.letters.edit("wf", patch={"secret": f"{SECRET}-{number}"}, by="ann", notes=f"because of {SECRET}")
        await queue.letters.resolve("wf", by="ann", notes=f"{SECRET} was wrong")
    if archive:
        house.clock.advance(LATER)
        assert await run(queue) == 1
        await queue.enqueue("wf", {"secret": SECRET}, [], f"boom {SECRET}")
        await queue.letters.edit("wf", patch={"secret": f"{SECRET}-3"}, by="ann")
    await queue.enqueue("other", {"secret": SECRET}, [], "boom")


async def who_knows(queue: DeadLetterQueue) -> dict[str, int]:
    """In how many records of each kind the secret is, but for those of the other task."""
    found = {}
    for kind in KINDS:
        try:
            records = [each async for each in scan(queue.store.collection(kind), Query())]
        except Exception:  # there is no partition
            records = []
        texts = [kind.document(each) for each in records if "other" not in kind.document(each)]
        if number := sum(SECRET in text for text in texts):
            found[kind.name] = number
    return found


@pytest.mark.parametrize("archive", [False, True])
async def test_nothing_of_it_is_left_but_numbers_and_names(any_house: House, archive: bool) -> None:
    queue = any_house.queue()
    await with_a_life(queue, any_house, archive=archive)
    before = (await sound(queue))["lifetime_stats"]
    assert {"letters", "audit", "revisions"} <= set(await who_knows(queue))
    done = await queue.deletion.delete_task("wf", by="bob", notes="erasure 17")
    assert (done.letters, done.former, done.copies) == ((1, 0, 1) if archive else (1, 1, 0))
    assert await who_knows(queue) == {}
    assert await queue.get_task("wf", include_archived=True) is None
    after = (await sound(queue))["lifetime_stats"]
    assert after == ({**before, "cleared": before["cleared"] + 1} if archive else before)
    entries = (await queue.audit.list(subject="letter:wf")).items
    assert entries[0].action == "delete"
    assert {each.action for each in entries} == {"delete", "edit", "resolve"}
    (entry,) = [each for each in entries if each.action == "delete"]
    assert (entry.actor, entry.reason, entry.outcome) == ("bob", "erasure 17", "done")
    assert SECRET not in json.dumps(entry.changes.value)
    resolved = next(each for each in entries if each.action == "resolve")
    assert resolved.changes.value["status"] == {"before": "pending", "after": "completed"}, "what happened stays"
    assert resolved.reason == "(deleted with the letter)"
    assert await queue.get_task("other") is not None


async def test_what_is_only_in_the_archive_is_deleted_too(any_house: House) -> None:
    queue = any_house.queue()
    await with_a_life(queue, any_house, archive=False)
    any_house.clock.advance(LATER)
    await run(queue)
    await Ledger(queue.context).fold()
    before = (await sound(queue))["lifetime_stats"]
    done = await queue.deletion.delete_task("wf")
    assert (done.letters, done.copies) == (0, 1)
    assert await who_knows(queue) == {}
    assert (await sound(queue))["lifetime_stats"] == before
    with pytest.raises(NoSuchLetter):
        await queue.archive.show("wf")


async def test_what_there_is_nothing_of_is_not_deleted(any_house: House) -> None:
    queue = any_house.queue()
    with pytest.raises(NoSuchLetter):
        await queue.deletion.delete_task("wf")
    (entry,) = (await queue.audit.list(action="delete")).items
    assert entry.outcome == "refused"


async def test_a_run_that_has_it_loses_it(any_house: House) -> None:
    queue = any_house.queue()
    await queue.enqueue("wf", {}, [], "connection refused", retry_policy="immediate")
    (claim,) = await queue.claims.claim("worker")
    await queue.deletion.delete_task("wf")
    with pytest.raises((LostLease, NoSuchLetter)):
        await queue.claims.settle("wf", claim.token, "succeeded")
    await sound(queue)


async def test_what_waits_for_room_goes_too(any_house: House) -> None:
    queue = any_house.queue(max_size=1)
    await queue.enqueue("open", {}, [], "boom")
    from mahavishnu.capture.integration import DLQIntegration
    from mahavishnu.values.payload import LetterRequest

    integration = DLQIntegration(None, queue)
    for name in ("wf", "other"):
        await integration.capture(LetterRequest(task_id=name, task={"secret": SECRET}), ConnectionError("reset"))
    assert await queue.context.waiting.count() == 2
    assert (await queue.deletion.delete_task("wf")).waiting == 1
    assert await queue.context.waiting.count() == 1
    assert await who_knows(queue) == {}


async def test_a_detached_partition_is_named(any_house: House) -> None:
    queue = any_house.queue()
    await with_a_life(queue, any_house)
    await queue.archive.detach("2026_01")
    done = await queue.deletion.delete_task("wf")
    assert (done.copies, done.detached) == (0, ("2026_01",))
    await queue.archive.attach("2026_01")
    assert (await queue.deletion.delete_task("wf")).copies == 1


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_killed_at_any_call_another_process_finishes_it(tmp_path: Path, moment: str) -> None:
    """Once its tombstone is written; before that nothing has happened."""

    async def prepare(house: House) -> None:
        await with_a_life(house.queue(), house)

    async def check(house: House, nothing: None) -> None:
        queue = house.queue()
        is_there = await queue.get_task("wf") is not None
        await queue.deletion.finish()
        if is_there:
            assert "letters" in await who_knows(queue)
            await queue.deletion.delete_task("wf")
        assert await who_knows(queue) == {}
        house.clock.advance(timedelta(days=40))
        await Ledger(queue.context).fold()
        assert (await queue.store.collection(LETTERS).tally(Query())).total.count == 1
        await sound(queue)

    async def delete(queue: DeadLetterQueue) -> None:
        await queue.deletion.delete_task("wf")

    assert await kill_at_each_call("memory", tmp_path, moment, prepare, delete, check) > 10


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_killed_while_what_is_only_in_the_archive_is_deleted(tmp_path: Path, moment: str) -> None:
    """All of it is there still, or nothing once another process has looked."""
    whole: list[dict[str, int]] = []

    async def prepare(house: House) -> None:
        queue = house.queue()
        await with_a_life(queue, house, archive=False)
        house.clock.advance(LATER)
        await run(queue)
        whole[:] = [await who_knows(queue)]

    async def check(house: House, nothing: None) -> None:
        queue = house.queue()
        await queue.deletion.finish()
        assert await who_knows(queue) in (whole[0], {})
        if await who_knows(queue):
            assert (await queue.archive.show("wf")).line.copy.task_id == "wf"
            await queue.deletion.delete_task("wf")
        assert await who_knows(queue) == {}
        await sound(queue)

    async def delete(queue: DeadLetterQueue) -> None:
        await queue.deletion.delete_task("wf")

    assert await kill_at_each_call("memory", tmp_path, moment, prepare, delete, check) > 10


async def test_clearing_takes_copies_of_letters_that_were_taken_out(any_house: House) -> None:
    """They would be shown as archived once nobody remembers the letter."""
    queue = any_house.queue()
    await queue.enqueue("wf", {}, [], "boom", max_retries=0)
    await queue.letters.fail("wf")
    any_house.clock.advance(LATER)
    queue.context.set_rules(RetentionRules(permanently_failed_days=1))
    await run(queue)
    await queue.archive.restore("wf")
    await queue.letters.redrive("wf")
    await queue.clear_all()
    any_house.clock.advance(LATER)
    await Ledger(queue.context).fold()
    assert (await queue.archive.list()).items == []
