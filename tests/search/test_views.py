"""Saved views: shared, changed by compare-and-set, audited."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.model.errors import ChangedMeanwhile, InvalidInput, InvalidQueryText, NoSuchView
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.testing import ManualClock


async def test_a_view_is_there_for_all_and_after_a_restart(tmp_path: Path) -> None:
    clock = ManualClock()
    async with DeadLetterQueue(store=SQLiteStore(tmp_path / "views.db", kinds=KINDS), clock=clock) as dlq:
        await dlq.views.save("b", "is:open", by="ann")
        await dlq.views.save("a", "age>2h", by="ann", sort="oldest")
        await dlq.views.save("first", "queue:mail", by="bo", place=-1)
        await dlq.in_namespace("eu").views.save("theirs", "is:closed", by="eve")
    async with DeadLetterQueue(store=SQLiteStore(tmp_path / "views.db", kinds=KINDS), clock=clock) as dlq:
        assert [view.name for view in await dlq.views.list()] == ["first", "a", "b"]
        assert [view.name for view in await dlq.all_namespaces.views.list()] == ["first", "a", "b", "theirs"]
        view = await dlq.views.get("a")
        assert (view.text, view.sort, view.saved_by, view.namespace) == ("age>2h", "oldest", "ann", "default")
        with pytest.raises(NoSuchView, match="'theirs'"):
            await dlq.views.get("theirs")


async def test_nobody_overwrites_what_they_have_not_seen() -> None:
    clock = ManualClock()
    async with DeadLetterQueue(clock=clock) as dlq:
        seen = await dlq.views.save("a", "is:open", by="ann", new=True)
        clock.advance(60)
        newer = await dlq.views.save("a", "is:closed", by="bo", base=seen)
        assert (newer.created_at, newer.saved_by) == (seen.created_at, "bo")
        for change in (
            dlq.views.save("a", "queue:x", by="ann", base=seen),
            dlq.views.save("a", "queue:x", by="ann", new=True),
            dlq.views.delete("a", by="ann", base=seen),
        ):
            with pytest.raises(ChangedMeanwhile, match="saved by bo"):
                await change
        assert (await dlq.views.get("a")).text == "is:closed"
        gone = await dlq.views.delete("a", by="bo", base=newer)
        assert gone.text == "is:closed"
        with pytest.raises(NoSuchView):
            await dlq.views.delete("a", by="bo")
        with pytest.raises(ChangedMeanwhile, match="deleted"):
            await dlq.views.save("a", "is:open", by="ann", base=newer)
        saved = [dlq.views.save("same", f"queue:q{number}", by="ann", new=True) for number in range(5)]
        answers = await asyncio.gather(*saved, return_exceptions=True)
        assert sum(isinstance(each, ChangedMeanwhile) for each in answers) == 4


async def test_every_act_is_audited() -> None:
    async with DeadLetterQueue(clock=ManualClock()) as dlq:
        await dlq.views.save("a", "is:open", by="ann")
        await dlq.views.save("a", "is:closed", by="bo")
        await dlq.views.delete("a", by="eve")
        with pytest.raises(NoSuchView):
            await dlq.views.delete("a", by="eve")
        entries = (await dlq.audit.list(subject="view:a")).items
        told = sorted((each.actor, each.action, str(each.outcome)) for each in entries)
        assert told == [
            ("ann", "view.save", "done"), ("bo", "view.save", "done"),
            ("eve", "view.delete", "done"), ("eve", "view.delete", "refused"),
        ]  # fmt: skip
        (changed,) = [each for each in entries if each.actor == "bo"]
        assert "is:open" in repr(changed.changes)
        assert "is:closed" in repr(changed.changes)


@pytest.mark.parametrize("name", ["", " a", "a\n", "x" * 101, 7, "\u202e"])
async def test_what_no_view_can_be(name: str) -> None:
    async with DeadLetterQueue() as dlq:
        with pytest.raises(InvalidInput, match="a view has a name"):
            await dlq.views.save(name, "is:open", by="ann")
        with pytest.raises(InvalidQueryText, match="did you mean"):
            await dlq.views.save("a", "statsu:open", by="ann")
        with pytest.raises(InvalidInput, match="sorted by"):
            await dlq.views.save("a", "is:open", by="ann", sort="size")
        with pytest.raises(InvalidInput, match="a place"):
            await dlq.views.save("a", "is:open", by="ann", place=True)
        assert await dlq.views.list() == []
        assert not (await dlq.audit.list(action="view.save")).items
