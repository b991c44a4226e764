"""Bulk runs as people see them: started, watched, stopped, carried on by whoever is there."""

from __future__ import annotations

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model.bulk import BulkRun, ItemOutcome, ItemState, RunState
from mahavishnu.model.events import EventName
from tests.unit.queues import House, Runs, fill, heard, letter_of, sound


async def worked(queue: DeadLetterQueue, run: BulkRun) -> BulkRun:
    """The run after everything that can be done now."""
    while await queue.work_runs():
        pass
    return await queue.get_run(run.run_id)


async def test_a_run_moves_all_that_a_query_means_and_tells_of_each(any_house: House) -> None:
    queue = any_house.queue()
    names = await fill(queue, 450)
    await queue.enqueue("other", {}, [], PermissionError("denied"))
    await queue.resolve(names[7])
    events = heard(queue)
    preview = await queue.preview_run("resolve", category="network")
    assert (preview.matched, preview.eligible) == (450, 449)
    assert preview.ineligible == {"completed and already resolved as manually_resolved: cannot resolve it": 1}
    assert len(preview.samples) == 5
    run = await queue.start_run("resolve", category="network", by="ann", reason="fixed at the source")
    assert (run.state, run.counts.members) == (RunState.PLANNING, 0)
    run = await worked(queue, run)
    assert (run.state, run.lease, run.due_at) == (RunState.DONE, None, None)
    assert (run.counts.members, run.counts.moved, run.counts.refused) == (450, 449, 1)
    assert not await queue.work_runs()
    refused = await queue.run_items(run.run_id, state="refused")
    assert [(item.key, item.why) for item in refused.items] == [(names[7], *preview.ineligible)]
    seen = []
    after = None
    while True:
        page = await queue.run_items(run.run_id, limit=99, after=after and str(after))
        seen += page.items
        if (after := page.next) is None:
            break
    assert sorted(item.key for item in seen) == names
    letter = await letter_of(queue, names[0])
    assert (letter.runs, letter.resolution.by, letter.resolution.notes) == (
        (run.run_id,),
        "ann",
        "fixed at the source",
    )
    told = [event.name for event in events]
    assert (told.count(EventName.RESOLVED), told.count(EventName.RUN_STARTED)) == (449, 1)
    assert events[-1].name is EventName.RUN_CHANGED
    assert (events[-1].detail["state"], events[-1].detail["moved"]) == ("done", 449)
    await sound(queue)


async def test_a_ramp_waits_for_what_becomes_of_each_wave(any_house: House) -> None:
    queue = any_house.queue(Runs())
    await fill(queue, 60, max_retries=0)
    run = await queue.start_run("redrive", everything=True, by="ann", ramp=(1, 5, 25))
    released = []
    for _ in range(6):
        run = await worked(queue, run)
        released.append(run.counts.moved)
        any_house.clock.advance(1)
        assert (await worked(queue, run)).counts.moved == released[-1], "nothing has been run yet"
        await queue.run_due()
        any_house.clock.advance(60)
    assert released == [1, 6, 31, 60, 60, 60]
    run = await worked(queue, run)
    assert (run.state, run.counts.succeeded, run.step) == (RunState.DONE, 60, 3)
    items = (await queue.run_items(run.run_id, outcome="succeeded")).items
    assert {(item.state, item.outcome) for item in items} == {(ItemState.MOVED, ItemOutcome.SUCCEEDED)}
    assert len(items) == 60
