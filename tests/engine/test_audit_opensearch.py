"""Audit and revisions on the real server: newest first, page by page, filtered, whatever the payloads are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.model.errors import AlreadyResolved
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.testing import ManualClock

pytestmark = pytest.mark.opensearch
# Names and types that a mapping would stumble over, if it looked at them; each edit changes the types.
TASKS: list[dict[str, Any]] = [
    {"a": 1, "a.b": {"c": 2}, "": "empty", ".": [1, "x", None], "when": "2030-01-01", "deep": {"d": {"e": {}}}},
    {"a": {"b": "an object now"}, "a.b": "text", "": 0, ".": {}, "when": {"not": "a date"}, "line": "one\ntwo"},
    {"a": [1, {"b": 2}], "when": True, "long": "x" * 40_000},
]


@pytest.fixture
async def queue(opensearch_url: str, opensearch_prefix: str) -> AsyncIterator[DeadLetterQueue]:
    store = OpenSearchStore([opensearch_url], prefix=opensearch_prefix, timeout=30.0, kinds=KINDS)
    async with DeadLetterQueue(store=store, clock=ManualClock()) as queue:
        yield queue


async def test_the_audit_is_listed_newest_first_and_filtered(queue: DeadLetterQueue) -> None:
    clock = queue.clock
    assert isinstance(clock, ManualClock)
    start = clock.now()
    for number in range(6):
        await queue.enqueue(f"wf_{number}", {"n": number}, [], "connection refused")
        await queue.letters.resolve(f"wf_{number}", by="ann" if number % 2 else "bob", notes="by phone")
        clock.advance(number % 3)  # some share an instant
    with pytest.raises(AlreadyResolved):
        await queue.letters.cancel("wf_0", by="bob")
    await queue.audit.record_denial("eve", "viewer", "redrive", "letter:wf_1", "a viewer may not")

    seen: list[str] = []
    page = await queue.audit.list(limit=3)
    while True:
        seen += [f"{entry.action} {entry.subject} {entry.outcome}" for entry in page.items]
        if page.next is None:
            break
        page = await queue.audit.list(limit=3, after=str(page.next))
    done = [f"resolve letter:wf_{number} done" for number in reversed(range(6))]
    assert seen == ["denied letter:wf_1 refused", "cancel letter:wf_0 refused", *done]

    async def found(**filters: Any) -> list[str]:
        return [entry.subject.removeprefix("letter:wf_") for entry in (await queue.audit.list(**filters)).items]

    assert await found(actor="ann") == ["5", "3", "1"]
    assert await found(actor="bob", outcome="refused") == ["0"]
    assert await found(subject=["letter:wf_1", "letter:wf_2"], action="resolve") == ["2", "1"]
    between = {"since": start + timedelta(seconds=1), "until": start + timedelta(seconds=4)}
    assert await found(action="resolve", **between) == ["4", "3", "2"]
    (entry,) = (await queue.audit.list(actor="eve")).items
    assert (entry.role, entry.why) == ("viewer", "redrive: a viewer may not")


async def test_revisions_hold_any_payload(queue: DeadLetterQueue) -> None:
    await queue.enqueue("wf_1", TASKS[0], ["api"], "connection refused", metadata={"a=b": "c", "n": {"x.y": 1}})
    for number, task in enumerate(TASKS[1:]):
        preview = await queue.letters.preview_edit("wf_1", task=task, metadata={"n": number})
        await queue.letters.edit("wf_1", task=task, metadata={"n": number}, by="ann")
        assert preview.diff
    kept = await queue.letters.revisions("wf_1")
    assert [each.task.value for each in kept] == TASKS[:2]
    assert [each.metadata.value for each in kept] == [{"a=b": "c", "n": {"x.y": 1}}, {"n": 0}]
    latest, first = (await queue.audit.list(action="edit")).items
    assert first.changes.value["task/"] == {"before": "empty", "after": 0}
    assert len(latest.changes.value["task/long"]["after"]) < 2000
