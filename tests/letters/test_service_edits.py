"""Edits: patches, previews, what is kept of the letter before, and who wins when two edit at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from mahavishnu.classify.chain import Chain
from mahavishnu.classify.plugins import Plugins
from mahavishnu.classify.verdict import Context
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.engine.letter_factory import LetterFactory
from mahavishnu.model.errors import (
    AlreadyResolved,
    ChangedMeanwhile,
    IllegalMove,
    InvalidInput,
    InvalidPayload,
    NoSuchLetter,
    StoreUnavailable,
)
from mahavishnu.model.query import Query
from mahavishnu.stores.base import scan
from mahavishnu.stores.kinds import LETTERS, REVISIONS
from mahavishnu.stores.retained import Revision
from mahavishnu.testing import FaultyStore, Hold
from tests.support.queues import Gate, House, Runs, heard, letter_of, sound

TASK = {"type": "charge", "to": {"url": "http://old", "retries": 3}, "items": [1, 2]}
PATCH = {"to": {"url": "http://new", "retries": None}}
PATCHED = {"type": "charge", "to": {"url": "http://new"}, "items": [1, 2]}


async def one(queue: DeadLetterQueue, task: Any = TASK, **options: Any) -> None:
    await queue.enqueue("wf_1", task, ["api"], "connection refused", **options)


def hold(queue: DeadLetterQueue, operation: str, kind: Any) -> Hold:
    assert isinstance(queue.store, FaultyStore)
    return queue.store.faults.hold(operation, kind=kind)


class TestPatch:
    async def test_it_changes_what_it_names_and_nothing_else(self, any_house: House) -> None:
        queue = any_house.queue()
        await one(queue, priority=3)
        events = heard(queue)
        letter = await queue.letters.edit("wf_1", patch=PATCH, priority=5, by="ann", notes="they moved")
        assert (letter.task, letter.priority, letter.revision) == (PATCHED, 5, 1)
        assert (await letter_of(queue, "wf_1")).task == PATCHED
        assert dict(events[0].detail) == {"by": "ann", "notes": "they moved", "changed": ["priority", "task"]}
        await sound(queue)

    @pytest.mark.parametrize(
        ("wrong", "why"),
        [
            ({"patch": 5}, "patch must be a dict"),
            ({"patch": [1]}, "patch must be a dict"),
            ({"patch": PATCH, "task": {}}, "not both"),
            ({"patch": {"a": len}}, "patch.a"),
            ({"metadata": ["no", "object"]}, "metadata must be a dict"),
            ({"status": "completed"}, "status cannot be edited"),
            ({"revision": 7, "entry_id": "y"}, "entry_id, revision cannot be edited"),
            ({"next_retry_at": "tomorrow"}, "next_retry_at must be a date"),
            ({"redrive": True, "next_retry_at": None}, "due now"),
            ({"redrive": True}, "nothing to change"),
            ({"priority": 1, "by": ""}, "must be named"),
            ({"priority": 1, "notes": 7}, "notes must be text"),
        ],
        ids=str,
    )
    async def test_what_cannot_be_is_refused_by_name(self, house: House, wrong: dict[str, Any], why: str) -> None:
        queue = house.queue()
        await one(queue)
        with pytest.raises(InvalidInput, match=why):
            await queue.letters.edit("wf_1", **wrong)
        assert (await letter_of(queue, "wf_1")).revision == 0
        assert await queue.letters.revisions("wf_1") == []

    async def test_a_task_that_is_no_object_has_no_names_to_patch(self, house: House) -> None:
        queue = house.queue()
        await one(queue, ["a", "list"])
        with pytest.raises(InvalidInput, match="give a whole task"):
            await queue.letters.edit("wf_1", patch={"a": 1})
        assert (await queue.letters.edit("wf_1", task={"a": 1})).task == {"a": 1}

    async def test_a_misspelled_name_is_refused_and_the_right_one_named(self, any_house: House) -> None:
        queue = any_house.queue()
        await one(queue)
        why = (
            "letter 'wf_1' has no /task/tpye, /task/to/ulr; did you mean /task/type and /task/to/url?"
            " What is not there is made with create=True (--create)"
        )
        wrong = {"tpye": "refund", "to": {"ulr": "http://new", "retries": 2}}
        with pytest.raises(InvalidInput) as refused:
            await queue.letters.edit("wf_1", patch=wrong, redrive=True)
        assert str(refused.value) == why == (await queue.letters.preview_edit("wf_1", patch=wrong)).refused
        with pytest.raises(InvalidInput, match="has no /task/itmes"):
            await queue.letters.edit("wf_1", patch={"itmes": None})
        assert (await letter_of(queue, "wf_1")).revision == 0
        assert (await queue.letters.preview_edit("wf_1", patch=wrong, create=True)).refused is None
        made = await queue.letters.edit("wf_1", patch=wrong, create=True)
        assert made.task == {**TASK, "tpye": "refund", "to": {"url": "http://old", "retries": 2, "ulr": "http://new"}}

    async def test_names_that_are_there_are_changed_and_removed_and_whole_tasks_may_be_anything(
        self, house: House
    ) -> None:
        queue = house.queue()
        await one(queue, {**TASK, "then": None})
        patch = {"items": [1, 2, 3], "type": None, "to": {"url": None}, "then": {"mail": "ann"}}
        edited = await queue.letters.edit("wf_1", patch=patch)
        assert edited.task == {"to": {"retries": 3}, "items": [1, 2, 3], "then": {"mail": "ann"}}
        assert (await queue.letters.edit("wf_1", task={"other": 1})).task == {"other": 1}

    async def test_the_limit_of_size_holds_for_what_comes_out(self, house: House) -> None:
        queue = house.queue(letter_factory=LetterFactory(max_task_bytes=200))
        await one(queue, {"text": "x" * 150})
        with pytest.raises(InvalidPayload, match="dlq_max_task_bytes"):
            await queue.letters.edit("wf_1", patch={"more": "y" * 50}, create=True)

    async def test_dates_may_be_texts(self, house: House) -> None:
        queue = house.queue()
        await one(queue)
        letter = await queue.letters.edit("wf_1", next_retry_at="2031-01-01T00:00:00Z")
        assert letter.to_dict()["next_retry_at"] == "2031-01-01T00:00:00.000Z"
        with pytest.raises(InvalidInput, match="time zone"):
            await queue.letters.edit("wf_1", next_retry_at="2031-01-01T00:00:00")


class TestEditAndRedrive:
    async def test_the_edited_retry_resolves_the_original(self, any_house: House) -> None:
        runs = Runs()
        queue = any_house.queue(runs)
        await one(queue, max_retries=0)
        before = await letter_of(queue, "wf_1")
        assert before.status == "exhausted"
        events = heard(queue)
        letter = await queue.letters.edit("wf_1", patch=PATCH, redrive=True, by="ann")
        assert (letter.status, letter.due_at, letter.task) == ("pending", any_house.clock.now(), PATCHED)
        assert [event.name for event in events] == ["dlq.edited", "dlq.redriven"]
        assert await queue.run_due() == 1
        assert runs.tasks == [PATCHED]
        after = await letter_of(queue, "wf_1")
        assert (after.entry_id, after.status, after.generation) == (before.entry_id, "completed", 1)
        assert [each.key async for each in scan(queue.context.letters, Query())] == ["wf_1"], (
            "no second letter was made"
        )
        assert [each.task.value for each in await queue.letters.revisions("wf_1")] == [TASK]
        await sound(queue)

    async def test_one_write_or_nothing(self, any_house: House) -> None:
        queue = any_house.queue()
        await one(queue, max_retries=0)
        any_house.faults.unavailable("write", kind=LETTERS)
        with pytest.raises(StoreUnavailable):
            await queue.letters.edit("wf_1", patch=PATCH, redrive=True)
        any_house.faults.clear()
        letter = await letter_of(queue, "wf_1")
        assert (letter.status, letter.task, letter.revision) == ("exhausted", TASK, 0)
        assert await queue.letters.revisions("wf_1") == [], "what was kept is what the letter still is"


class TestRevisions:
    async def test_each_edit_keeps_what_was(self, any_house: House) -> None:
        queue = any_house.queue()
        await one(queue, metadata={"team": "a"})
        first = await letter_of(queue, "wf_1")
        for number in range(12):
            any_house.clock.advance(1)
            await queue.letters.edit(
                "wf_1", patch={"n": number}, create=True, priority=number, metadata={"team": str(number)}
            )
        kept = await queue.letters.revisions("wf_1")
        assert [each.number for each in kept] == list(range(12)), "as numbers, not as texts"
        assert [each.priority for each in kept] == [0, *range(11)]
        assert kept[0].content() == {
            "task": TASK,
            "metadata": {"team": "a"},
            "repos": ["api"],
            "depends_on": [],
            "retry_policy": "exponential",
            "max_retries": 3,
            "priority": 0,
            "next_retry_at": first.to_dict()["next_retry_at"],
            "adapter": None,
        }
        assert (kept[0].entry_id, kept[0].updated_at) == (first.entry_id, first.updated_at)

    async def test_they_outlive_the_generation(self, any_house: House) -> None:
        queue = any_house.queue()
        await one(queue)
        former = await queue.letters.edit("wf_1", patch={"n": 1}, create=True)
        await queue.letters.resolve("wf_1")
        await one(queue, {"fresh": True})
        await queue.letters.edit("wf_1", patch={"n": 2}, create=True)
        assert [each.task.value for each in await queue.letters.revisions("wf_1")] == [{"fresh": True}]
        of_former = await queue.letters.revisions("wf_1", entry_id=former.entry_id)
        assert [each.task.value for each in of_former] == [TASK]
        assert await queue.letters.revisions("wf_2", entry_id=former.entry_id) == [], "of another task's letter"

    async def test_there_are_none_without_a_letter(self, house: House) -> None:
        with pytest.raises(NoSuchLetter):
            await house.queue().letters.revisions("wf_1")

    async def test_nothing_is_edited_whose_past_cannot_be_kept(self, any_house: House) -> None:
        queue = any_house.queue()
        await one(queue)
        any_house.faults.unavailable("write", kind=REVISIONS)
        with pytest.raises(StoreUnavailable):
            await queue.letters.edit("wf_1", patch=PATCH)
        assert (await letter_of(queue, "wf_1")).task == TASK


class TestRestore:
    async def test_a_letter_becomes_what_it_was(self, any_house: House) -> None:
        queue = any_house.queue()
        await one(queue, metadata={"team": "a"}, priority=3, adapter="shop")
        await queue.letters.edit("wf_1", payload_types={"/type": "path"})
        captured = Revision.of(await letter_of(queue, "wf_1")).content()
        await queue.letters.edit(
            "wf_1", task={"other": 1}, payload_types={"/other": "date"}, adapter="mail", repos=["b"]
        )
        await queue.letters.edit("wf_1", priority=9, metadata={"team": "b"}, max_retries=7, retry_policy="linear")
        edited = Revision.of(await letter_of(queue, "wf_1")).content()
        events = heard(queue)
        letter = await queue.letters.restore("wf_1", 1, by="ann", notes="they were wrong")
        assert Revision.of(letter).content() | {"next_retry_at": None} == captured | {"next_retry_at": None}
        assert (letter.revision, letter.payload_types.value) == (4, {"/type": "path"})
        assert events[0].detail["by"] == "ann" and set(events[0].detail["changed"]) > {"adapter", "task", "priority"}
        assert (await queue.audit.list(action="edit", actor="ann")).items[0].reason == "they were wrong"
        again = await queue.letters.restore("wf_1", redrive=True)
        assert Revision.of(again).content() | {"next_retry_at": edited["next_retry_at"]} == edited
        assert (again.revision, again.retry_count, again.due_at) == (5, 0, any_house.clock.now())
        await sound(queue)

    async def test_retries_that_were_used_up_stay_used_up(self, house: House) -> None:
        queue = house.queue()
        await one(queue, max_retries=0)
        await queue.letters.edit("wf_1", max_retries=5, redrive=True)
        with pytest.raises(InvalidInput, match="letter 'wf_1' has no revision 4, but 0"):
            await queue.letters.restore("wf_1", 4)
        with pytest.raises(InvalidInput, match="has no revision -1, but 0"):
            await queue.letters.restore("wf_1", -1)
        assert (await queue.letters.restore("wf_1")).max_retries == 0

    async def test_there_has_to_be_something_to_go_back_to(self, house: House) -> None:
        queue = house.queue()
        with pytest.raises(NoSuchLetter):
            await queue.letters.restore("wf_1")
        await one(queue)
        with pytest.raises(InvalidInput, match="was never edited"):
            await queue.letters.restore("wf_1")
        await queue.letters.edit("wf_1", patch=PATCH)
        await queue.letters.edit("wf_1", task=TASK)
        with pytest.raises(InvalidInput, match="is what revision 0 says already"):
            await queue.letters.restore("wf_1", 0)
        assert (await queue.letters.restore("wf_1")).task == PATCHED
        await queue.letters.resolve("wf_1")
        with pytest.raises(AlreadyResolved):
            await queue.letters.restore("wf_1", 0)


class TestTwoAtOnce:
    async def test_both_edits_count_and_each_keeps_what_it_replaced(self, any_house: House) -> None:
        slow, quick = any_house.queue(), any_house.queue()
        await one(quick)
        await slow.open()
        held = hold(slow, "write", LETTERS)
        editing = asyncio.create_task(slow.letters.edit("wf_1", patch={"slow": 1}, create=True))
        await held.wait_for_call()
        await quick.letters.edit("wf_1", patch={"quick": 1}, create=True)
        held.release()
        letter = await editing
        assert letter.task == {**TASK, "quick": 1, "slow": 1}
        assert [each.task.value for each in await quick.letters.revisions("wf_1")] == [TASK, {**TASK, "quick": 1}]

    async def test_the_loser_with_a_base_leaves_nothing_untrue(self, any_house: House) -> None:
        slow, quick = any_house.queue(), any_house.queue()
        await one(quick)
        seen = await letter_of(slow, "wf_1")
        held = hold(slow, "write", LETTERS)
        editing = asyncio.create_task(slow.letters.edit("wf_1", patch={"slow": 1}, create=True, base=seen))
        await held.wait_for_call()
        await quick.letters.edit("wf_1", patch={"quick": 1}, create=True, base=seen)
        held.release()
        with pytest.raises(ChangedMeanwhile):
            await editing
        assert [each.task.value for each in await quick.letters.revisions("wf_1")] == [TASK]
        entry = (await quick.audit.list(action="edit", outcome="refused")).items[0]
        assert entry.why is not None
        assert "changed at" in entry.why

    async def test_a_revision_shows_what_the_winner_replaced_not_what_the_loser_saw(self, any_house: House) -> None:
        slow, quick = any_house.queue(), any_house.queue()
        await one(quick)
        seen = await letter_of(slow, "wf_1")
        held = hold(slow, "write", LETTERS)
        editing = asyncio.create_task(slow.letters.edit("wf_1", patch={"slow": 1}, create=True, base=seen))
        await held.wait_for_call()  # its revision is kept already
        any_house.clock.advance(1)
        await quick.enqueue("wf_1", TASK, ["web"], "connection refused")  # merged: no edit, but the repos change
        await quick.letters.edit("wf_1", repos=["all"])
        held.release()
        with pytest.raises(ChangedMeanwhile):
            await editing
        assert [each.repos for each in await quick.letters.revisions("wf_1")] == [("api", "web")]

    async def test_a_latecomer_does_not_spoil_it(self, any_house: House) -> None:
        """It read the letter before, and keeps its revision after, the winner's edit."""
        slow, quick = any_house.queue(), any_house.queue()
        await one(quick)
        await slow.open()
        held = hold(slow, "write", REVISIONS)
        editing = asyncio.create_task(slow.letters.edit("wf_1", patch={"slow": 1}, create=True))
        await held.wait_for_call()
        any_house.clock.advance(1)
        await quick.enqueue("wf_1", TASK, ["web"], "connection refused")
        await quick.letters.edit("wf_1", patch={"quick": 1}, create=True)
        held.release()
        await editing
        kept = await quick.letters.revisions("wf_1")
        assert [each.repos for each in kept] == [("api", "web"), ("api", "web")]
        assert [each.task.value for each in kept] == [TASK, {**TASK, "quick": 1}]

    async def test_not_while_it_is_run(self, any_house: House) -> None:
        gate = Gate()
        queue = any_house.queue(gate)
        await one(queue)
        running = asyncio.create_task(queue.retry_task("wf_1"))
        await gate.reached()
        with pytest.raises(IllegalMove, match="retrying: cannot edit it"):
            await queue.letters.edit("wf_1", patch=PATCH)
        preview = await queue.letters.preview_edit("wf_1", patch=PATCH)
        assert preview.refused == "letter 'wf_1' is retrying: cannot edit it"
        gate.open()
        await running
        with pytest.raises(AlreadyResolved):
            await queue.letters.edit("wf_1", patch=PATCH)


class TestPreview:
    async def test_it_shows_and_changes_nothing(self, any_house: House) -> None:
        queue = any_house.queue()
        await one(queue)
        before = await letter_of(queue, "wf_1")
        preview = await queue.letters.preview_edit("wf_1", patch=PATCH, priority=2)
        assert preview.diff == [
            {"path": "/task/to/url", "before": "http://old", "after": "http://new"},
            {"path": "/task/to/retries", "before": 3},
            {"path": "/priority", "before": 0, "after": 2},
        ]
        assert preview.refused is None
        assert preview.before["task"] == TASK
        assert preview.after is not None
        assert preview.after["task"] == PATCHED
        assert await letter_of(queue, "wf_1") == before
        assert await queue.letters.revisions("wf_1") == []
        assert not (await queue.audit.list()).items
        letter = await queue.letters.edit("wf_1", patch=PATCH, priority=2)
        assert (letter.task, letter.priority) == (preview.after["task"], preview.after["priority"])

    @pytest.mark.parametrize(
        "wrong", [{"status": "completed"}, {"max_retries": -1}, {"patch": 7}, {"depends_on": ["wf_1"]}, {}], ids=str
    )
    async def test_it_says_what_an_edit_would_raise(self, house: House, wrong: dict[str, Any]) -> None:
        queue = house.queue()
        await one(queue)
        with pytest.raises(InvalidInput) as raised:
            await queue.letters.edit("wf_1", **wrong)
        preview = await queue.letters.preview_edit("wf_1", **wrong)
        assert (preview.refused, preview.after, preview.diff) == (str(raised.value), None, [])

    async def test_there_has_to_be_a_letter(self, house: House) -> None:
        with pytest.raises(NoSuchLetter):
            await house.queue().letters.preview_edit("wf_1", priority=1)


def says(answer: Callable[[Any, Context], Any]) -> Chain:
    class Schema:
        def validate_task(self, task: Any, context: Context) -> Any:
            return answer(task, context)

    from mahavishnu import hookimpl

    hookimpl(Schema.validate_task)
    plugins = Plugins()
    plugins.register(Schema(), "schema")
    return Chain(plugins)


class TestPluginsObject:
    async def test_with_a_text(self, any_house: House) -> None:
        seen: list[Any] = []

        def answer(task: Any, context: Context) -> str | None:
            seen.append((task, context.task_id, context.repos))
            return "no amount" if "amount" not in task else None

        queue = any_house.queue(chain=says(answer))
        await one(queue)
        with pytest.raises(InvalidInput, match="schema: no amount"):
            await queue.letters.edit("wf_1", patch=PATCH)
        assert seen == [(PATCHED, "wf_1", ("api",))]
        assert (await queue.letters.preview_edit("wf_1", patch=PATCH)).refused == (
            "the task of letter 'wf_1' cannot be that: schema: no amount"
        )
        assert (await queue.letters.edit("wf_1", patch={"amount": 5}, create=True)).task == {**TASK, "amount": 5}
        assert [entry.outcome for entry in (await queue.audit.list()).items] == ["done", "refused"]

    async def test_by_raising_a_value_error(self, house: House) -> None:
        def answer(task: Any, context: Context) -> None:
            raise ValueError("amount: field required")

        queue = house.queue(chain=says(answer))
        await one(queue)
        with pytest.raises(InvalidInput, match="amount: field required"):
            await queue.letters.edit("wf_1", task={})
        assert (await queue.letters.edit("wf_1", priority=1)).priority == 1, "the task stays what it is"

    async def test_a_broken_one_stops_nobody(self, house: House) -> None:
        def answer(task: Any, context: Context) -> None:
            task.clear()
            raise KeyError("oops")

        chain = says(answer)
        queue = house.queue(chain=chain)
        await one(queue)
        assert (await queue.letters.edit("wf_1", patch=PATCH)).task == PATCHED
        assert {info.name: info.faults for info in chain.plugins.report()} == {"schema": 1, "built-in": 0}


async def kept(queue: DeadLetterQueue) -> list[str]:
    await queue.open()
    return [each.key async for each in scan(queue.store.collection(REVISIONS), Query())]


class TestClearing:
    """What letters were goes with them; what closed letters were stays with those."""

    async def test_revisions_go_with_the_letters_that_are_deleted(self, any_house: House) -> None:
        queue = any_house.queue()
        for task_id in ("wf_1", "wf_2", "closed"):
            await queue.enqueue(task_id, TASK, [], "connection refused")
            await queue.letters.edit(task_id, patch={"n": 1}, create=True, by="ann")
            await queue.letters.edit(task_id, patch={"n": 2}, create=True, by="ann")
        await queue.letters.resolve("closed", by="ann")
        await queue.letters.resolve("wf_2", by="ann")
        former = (await letter_of(queue, "wf_2")).entry_id
        await queue.enqueue("wf_2", TASK, [], "connection refused")  # the next generation
        await queue.letters.edit("wf_2", patch={"n": 3}, create=True, by="ann")
        assert await queue.clear_all(by="ann") == 2
        closed = (await letter_of(queue, "closed")).entry_id
        assert sorted(await kept(queue)) == sorted(f"{entry}/{n}" for entry in (closed, former) for n in (0, 1))
        assert len(await queue.letters.revisions("wf_2", entry_id=former)) == 2
        for task_id in ("wf_1", "wf_2"):  # the same names again
            with pytest.raises(NoSuchLetter):
                await queue.letters.revisions(task_id)
            await queue.enqueue(task_id, TASK, [], "connection refused")
            assert await queue.letters.revisions(task_id) == []
            await queue.letters.edit(task_id, patch={"n": 4}, create=True, by="ann")
            assert [each.number for each in await queue.letters.revisions(task_id)] == [0]
        await sound(queue)

    async def test_what_could_not_be_deleted_is_deleted_the_next_time(self, any_house: House) -> None:
        queue = any_house.queue()
        await one(queue)
        await queue.letters.edit("wf_1", patch={"n": 1}, create=True, by="ann")
        any_house.faults.unavailable("remove", kind=REVISIONS)
        with pytest.raises(StoreUnavailable):
            await queue.clear_all(by="ann")
        assert (await queue.get_task("wf_1"), len(await kept(queue))) == (None, 1)
        assert (await sound(queue))["lifetime_stats"]["cleared"] == 1
        any_house.faults.clear()
        assert await queue.clear_all(by="ann") == 0
        assert await kept(queue) == []
        assert (await sound(queue))["lifetime_stats"]["cleared"] == 1

    async def test_an_edit_of_a_letter_that_is_deleted_meanwhile_leaves_nothing(self, any_house: House) -> None:
        queue, other = any_house.queue(), any_house.queue()
        await one(queue)
        held = hold(queue, "write", LETTERS)
        edit = asyncio.create_task(queue.letters.edit("wf_1", patch={"n": 1}, create=True, by="ann"))
        await held.wait_for_call()
        assert len(await kept(other)) == 1
        await other.clear_all(by="bob")
        held.release()
        with pytest.raises(NoSuchLetter):
            await edit
        assert await kept(other) == []
