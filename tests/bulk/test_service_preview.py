"""A preview that counts letters says the same as one that reads them."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mahavishnu.bulk import service as run_preview
from mahavishnu.bulk.members import VERBS
from mahavishnu.bulk.run import BUSY
from mahavishnu.bulk.service import RunPreview
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import RESOLUTIONS, DeadLetterStatus, Resolution, ResolutionStatus
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.testing import START, ManualClock, make_letter
from tests.support.queues import House

STATES = st.tuples(st.sampled_from(DeadLetterStatus), st.sampled_from(RESOLUTIONS))


def letter_in(state: tuple[DeadLetterStatus, ResolutionStatus], **more: Any) -> DeadLetter:
    status, resolution = state
    return make_letter(status=status, resolution=Resolution(resolution, START, "ann"), **more)


async def both_ways(queue: DeadLetterQueue, verb: str, **options: Any) -> tuple[RunPreview, RunPreview]:
    """By reading all letters, and by counting as soon as that can be."""
    seen = []
    for read in (1_000_000, 1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(run_preview, "READ", read)
            seen.append(await queue.runs.preview(verb, **{"everything": True, **options}))
    return seen[0], seen[1]


@settings(max_examples=60)
@given(verb=st.sampled_from(sorted(VERBS)), states=st.lists(STATES, max_size=12))
def test_counting_says_the_same_as_reading(verb: str, states: list[tuple[DeadLetterStatus, ResolutionStatus]]) -> None:
    async def check() -> None:
        async with DeadLetterQueue(store=MemoryStore(), clock=ManualClock()) as queue:
            await queue.context.letters.write([letter_in(state) for state in states])
            more = {"patch": {"n": 1}} if verb == "edit" else {}
            read, counted = await both_ways(queue, verb, **more)
            assert counted == read
            assert read.matched == len(states) == read.eligible + sum(read.ineligible.values())

    asyncio.run(check())


async def test_many_letters_are_counted_and_some_shown(any_house: House) -> None:
    """The first thousand could not be moved: what could be is found all the same, and only what the filter means."""
    queue = any_house.queue()
    closed = (DeadLetterStatus.COMPLETED, ResolutionStatus.REQUEUED)
    open_ones = (DeadLetterStatus.EXHAUSTED, ResolutionStatus.PENDING)
    running = (DeadLetterStatus.RETRYING, ResolutionStatus.PENDING)
    await queue.open()
    await queue.context.letters.write([letter_in(closed, fingerprint="f") for _ in range(1000)])
    later = {"fingerprint": "f", "created_at": START + timedelta(milliseconds=1)}
    await queue.context.letters.write([letter_in(open_ones, **later) for _ in range(90)])
    await queue.context.letters.write([letter_in(running, **later) for _ in range(10)])
    await queue.context.letters.write([letter_in(open_ones, fingerprint="g") for _ in range(7)])
    any_house.clock.advance(1)
    any_house.faults.calls.clear()
    preview = await queue.runs.preview("redrive", fingerprint="f")
    assert (preview.matched, preview.eligible) == (1100, 90)
    assert preview.ineligible == {"completed, its rerun succeeded: cannot redrive it": 1000, BUSY: 10}
    assert [(letter.status, letter.fingerprint) for letter in preview.samples] == [("exhausted", "f")] * 5
    assert any_house.faults.calls["find"] == 3, "the newest, a page, and the samples"
    preview = await queue.runs.preview("redrive", fingerprint="f", patch={"n": 1})
    assert (preview.matched, preview.eligible) == (1100, 90)


async def test_a_patch_says_what_it_does_to_some_and_which_places_no_letter_has(any_house: House) -> None:
    queue = any_house.queue()
    for number in range(7):
        await queue.enqueue(f"wf_{number}", {"n": number, "to": {"url": "a"}}, ["api"], "boom", max_retries=0)
    await queue.enqueue("plain", ["n"], ["api"], "boom", max_retries=0)  # no object: it cannot be patched
    patch = {"n": 3, "to": {"url": None, "urls/all": "b"}, "so": {"new": 1}}
    preview = await queue.runs.preview("edit", everything=True, patch=patch)
    assert (preview.matched, preview.eligible) == (8, 7)
    assert preview.unknown_paths == ("/task/to/urls~1all", "/task/so/new")
    assert [each.key for each in preview.changes] == [letter.key for letter in preview.samples]
    for change, letter in zip(preview.changes, preview.samples, strict=True):
        expected = [
            {"path": "/task/n", "before": letter.task["n"], "after": 3},
            {"path": "/task/to/url", "before": "a"},
            {"path": "/task/to/urls~1all", "after": "b"},
            {"path": "/task/so", "after": {"new": 1}},
        ]
        assert change.diff == [each for each in expected if each["path"] != "/task/n" or letter.task["n"] != 3]
    assert (await queue.runs.preview("redrive", everything=True)).changes == ()
    only = await queue.runs.preview("edit", task_id="plain", patch=patch)
    assert (only.eligible, only.unknown_paths) == (0, ()), "there is nothing that it could be compared with"


async def test_a_run_whose_patch_names_what_no_letter_has_is_refused_everywhere(any_house: House) -> None:
    queue = any_house.queue()
    for number in range(3):
        await queue.enqueue(f"wf_{number}", {"n": number, "to": {"url": "a"}}, ["api"], "boom", max_retries=0)
    await queue.enqueue("rare", {"colour": "red"}, ["api"], "boom", max_retries=0)
    for patch, why in (
        ({"to": {"ulr": "b"}}, "none of the 4 letters has /task/to/ulr; did you mean /task/to/url?"),
        ({"url": None, "x": 1}, "none of the 4 letters has /task/url, /task/x; did you mean /task/to/url?"),
        ({"x": 1}, "none of the 4 letters has /task/x, but /task/"),
    ):
        for verb in ("edit", "redrive"):
            with pytest.raises(InvalidInput, match=re.escape(why)):
                await queue.runs.start(verb, everything=True, by="ann", patch=patch)
            seen = await queue.runs.preview(verb, everything=True, patch=patch)
            assert seen.refused is not None and seen.refused.startswith(why)
            assert (await queue.runs.preview(verb, everything=True, patch=patch, create=True)).refused is None
    with pytest.raises(InvalidInput, match="letter 'rare' has no /task/n"):
        await queue.runs.start("edit", task_id="rare", by="ann", patch={"n": 1})
    assert len((await queue.runs.list()).items) == 0
    await queue.runs.start("edit", everything=True, by="ann", patch={"colour": "blue"})
    await queue.runs.start("edit", everything=True, by="ann", patch={"x": 1}, create=True)
    assert len((await queue.runs.list()).items) == 2
