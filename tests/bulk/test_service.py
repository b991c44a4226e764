"""Bulk runs as people see them: started, watched, stopped, carried on by whoever is there."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from mahavishnu.bulk.records import RUN_PAGES, RUNS
from mahavishnu.bulk.run import PAGE, BulkRun, ItemState, RunItem, RunState
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.engine.audit import AUDIT
from mahavishnu.engine.breaker import Breakers
from mahavishnu.model.errors import IllegalRunMove, InvalidInput, InvalidQuery, NoSuchRun, StoreUnavailable
from mahavishnu.model.events import EventName
from mahavishnu.model.letter import FormerLetter
from mahavishnu.model.letter_parts import DeadLetterStatus
from mahavishnu.model.query import Is, Query, letter_query
from mahavishnu.model.work import ItemOutcome
from mahavishnu.stores.kinds import HISTORY, LETTERS
from mahavishnu.testing import turn
from tests.support.queues import NETWORK, Gate, House, Runs, fill, heard, letter_of, sound


async def worked(queue: DeadLetterQueue, run: BulkRun) -> BulkRun:
    """The run after everything that can be done now."""
    while await queue.runs.advance():
        pass
    return await queue.runs.get(run.run_id)


async def items_of(queue: DeadLetterQueue, run: BulkRun, **chosen: Any) -> dict[str, RunItem]:
    """The members, by key."""
    return {item.key: item for item in (await queue.runs.items(run.run_id, limit=10_000, **chosen)).items}


async def test_a_run_moves_all_that_a_query_means_and_tells_of_each(any_house: House) -> None:
    queue = any_house.queue()
    names = await fill(queue, 450)
    await queue.enqueue("other", {}, [], PermissionError("denied"))
    await queue.letters.resolve(names[7])
    events = heard(queue)
    preview = await queue.runs.preview("resolve", category="network")
    assert (preview.matched, preview.eligible) == (450, 449)
    assert preview.ineligible == {"completed, resolved otherwise: cannot resolve it": 1}
    assert len(preview.samples) == 5
    run = await queue.runs.start("resolve", category="network", by="ann", reason="fixed at the source")
    assert (run.state, run.counts.members) == (RunState.PLANNING, 0)
    any_house.clock.advance(1)
    run = await worked(queue, run)
    assert (run.state, run.lease, run.due_at) == (RunState.DONE, None, None)
    assert (run.counts.members, run.counts.moved, run.counts.refused) == (450, 449, 1)
    assert not await queue.runs.advance()
    refused = await queue.runs.items(run.run_id, state="refused")
    assert [(item.key, item.why) for item in refused.items] == [(names[7], *preview.ineligible)]
    seen: list[RunItem] = []
    after = None
    while True:
        page = await queue.runs.items(run.run_id, limit=99, after=after and str(after))
        seen += page.items
        if (after := page.next) is None:
            break
    assert sorted(item.key for item in seen) == names
    letter = await letter_of(queue, names[0])
    assert letter.runs == (run.run_id,)
    assert (letter.resolution.by, letter.resolution.notes) == ("ann", "fixed at the source")
    told = [event.name for event in events]
    assert (told.count(EventName.RESOLVED), told.count(EventName.RUN_STARTED)) == (449, 1)
    assert events[-1].name is EventName.RUN_CHANGED
    assert (events[-1].detail["state"], events[-1].detail["moved"]) == ("done", 449)
    entry = (await queue.audit.list(action="run.start")).items[0]
    assert (entry.actor, entry.subject, entry.reason) == ("ann", f"run:{run.run_id}", "fixed at the source")
    ended, started = (await queue.audit.list(subject=f"letter:{names[0]}")).items
    assert started == entry
    assert (ended.action, ended.actor, ended.via, ended.outcome) == ("run.done", "runner", "rule", "done")
    assert (ended.subject, ended.reason) == (f"run:{run.run_id}", "449 of 450 letters moved, 1 refused")
    assert ended.changes.value["moved"] == {"after": 449}
    assert not (await queue.audit.list(subject=f"letter:{names[7]}", action="run.done")).items, "it was not moved"
    await sound(queue)


async def test_the_audit_of_a_letter_knows_the_runs_of_its_former_generations(any_house: House) -> None:
    """What a run has put right, and failed anew since, is another letter of the same task."""
    queue = any_house.queue(Runs())
    (name,) = await fill(queue, 1)
    runs = []
    for by in ("ann", "bob"):
        run = await worked(queue, await queue.runs.start("redrive", task_id=name, by=by))
        await queue.run_due()
        any_house.clock.advance(1)
        runs.append(await worked(queue, run))
        await fill(queue, 1)
        any_house.clock.advance(1)
    assert (await letter_of(queue, name)).runs == ()
    found = await queue.audit.list(subject=[f"letter:{name}", "queue"], action=["run.start", "run.done"])
    assert [(entry.action, entry.subject, entry.reason) for entry in reversed(found.items)] == [
        (action, f"run:{run.run_id}", told)
        for run in runs
        for action, told in (("run.start", None), ("run.done", "1 of 1 letters succeeded"))
    ]


@pytest.mark.parametrize("verb", ["pause", "cancel"])
async def test_a_run_that_a_person_stops_just_before_its_end_is_not_told_of_as_done(house: House, verb: str) -> None:
    queue, other = house.queue(), house.queue()
    await fill(queue, 3)
    run = await queue.runs.start("resolve", everything=True, by="ann")
    hold = house.faults.hold("write", kind=AUDIT)
    working = asyncio.create_task(worked(queue, run))
    await hold.wait_for_call()
    run = await getattr(other.runs, verb)(run.run_id, by="ben")
    hold.release()
    await working
    (entry,) = (await queue.audit.list(action="run.done")).items
    assert (entry.outcome, entry.why) == ("refused", f"it was {run.state} before that")
    if verb == "pause":
        await other.runs.resume(run.run_id, by="ben")
        await worked(other, run)
        (entry,) = (await queue.audit.list(action="run.done")).items
        assert (entry.outcome, entry.why) == ("done", None)


@pytest.mark.parametrize(
    ("verb", "status", "resolution"),
    [
        ("redrive", "pending", "pending"),
        ("archive", "archived", "permanently_failed"),
        ("resolve", "completed", "manually_resolved"),
        ("cancel", "archived", "cancelled"),
        ("fail", "exhausted", "permanently_failed"),
    ],
)
async def test_every_verb_does_what_it_does_by_hand(house: House, verb: str, status: str, resolution: str) -> None:
    queue = house.queue()
    await fill(queue, 3, max_retries=0)
    run = await worked(queue, await queue.runs.start(verb, status="exhausted", by="ann", reason="so"))
    assert (run.counts.moved, run.state is RunState.DONE) == (3, verb != "redrive")
    letter = await letter_of(queue, "wf_00001")
    assert (letter.status, letter.resolution.status) == (status, resolution)
    assert letter.resolution.by == (None if verb == "redrive" else "ann")
    await sound(queue)


@pytest.mark.parametrize("redrives", [True, False])
@pytest.mark.parametrize("verb", ["edit", "redrive"])
async def test_tasks_are_patched_and_redriven_in_one_write(any_house: House, verb: str, redrives: bool) -> None:
    queue = any_house.queue(runs := Runs())
    await fill(queue, 3, max_retries=0)
    await queue.enqueue("text", "no object", [], NETWORK, max_retries=0)
    patch = {"url": "https://new", "name": None}
    options: dict[str, Any] = {"patch": patch, "create": True, "redrive": redrives}
    preview = await queue.runs.preview(verb, everything=True, **options)
    run = await worked(queue, await queue.runs.start(verb, everything=True, by="ann", **options))
    goes = redrives or verb == "redrive"
    assert (run.verb, run.counts.moved, run.counts.refused) == ("redrive" if goes else "edit", 3, 1)
    assert (preview.eligible, sum(preview.ineligible.values())) == (3, 1)
    letter = await letter_of(queue, "wf_00001")
    assert (letter.task, letter.revision) == ({"url": "https://new"}, 1)
    assert letter.status is (DeadLetterStatus.PENDING if goes else DeadLetterStatus.EXHAUSTED)
    assert [revision.task.value for revision in await queue.letters.revisions("wf_00001")] == [{"name": "wf_00001"}]
    refused = (await items_of(queue, run, state="refused"))["text"]
    assert refused.why is not None
    assert "a patch changes names of an object; the task of it is none" in refused.why
    await queue.run_due()
    assert len(runs.calls) == (3 if goes else 0)


async def test_letters_are_grouped_anew(house: House) -> None:
    queue = house.queue()
    await fill(queue, 3)
    run = await worked(queue, await queue.runs.start("regroup", everything=True, by="ann"))
    assert (run.state, run.counts.moved, run.counts.refused) == (RunState.DONE, 0, 3), "no rule has changed"
    assert {item.why for item in (await items_of(queue, run)).values()} == {"it belongs to the group that it is in"}


async def test_a_ramp_waits_for_what_becomes_of_each_wave(any_house: House) -> None:
    queue = any_house.queue(Runs())
    await fill(queue, 60, max_retries=0)
    run = await queue.runs.start("redrive", everything=True, by="ann", ramp=(1, 5, 25))
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
    items = await items_of(queue, run, outcome="succeeded")
    assert {(item.state, item.outcome) for item in items.values()} == {(ItemState.MOVED, ItemOutcome.SUCCEEDED)}
    assert len(items) == 60


async def test_the_stop_rule_halts_when_more_have_failed_and_nothing_is_touched_any_more(any_house: House) -> None:
    queue = any_house.queue(Runs(NETWORK, None, None, None, NETWORK, None, None, None))
    await fill(queue, 40, max_retries=0)
    run = await queue.runs.start("redrive", everything=True, by="ann", ramp=(4, 4), stop_percent=25)
    run = await worked(queue, run)
    await queue.run_due()
    any_house.clock.advance(1)
    run = await worked(queue, run)
    assert (run.state, run.counts.failed_again, run.counts.moved) == (RunState.RUNNING, 1, 8), "a quarter is allowed"
    assert sorted(await items_of(queue, run, outcome="failed_again")) == ["wf_00000"]
    await queue.letters.edit("wf_00004", task={"fails": True})
    gate = queue.processing.callback
    assert isinstance(gate, Runs)
    gate.answers[:] = [NETWORK, NETWORK, None]
    await queue.run_due()
    any_house.clock.advance(1)
    events = heard(queue)
    run = await worked(queue, run)
    why = "3 of 8 letters failed again, which is more than 25 %"
    assert (run.state, run.halted_because, run.counts.moved) == (RunState.HALTED, why, 8)
    assert [(event.name, event.detail["state"]) for event in events] == [(EventName.RUN_CHANGED, "halted")]
    entry = (await queue.audit.list(action="run.halt")).items[0]
    assert (entry.subject, entry.reason, entry.via) == (f"run:{run.run_id}", why, "rule")
    any_house.clock.advance(3600)
    run = await worked(queue, run)
    assert (run.counts.moved, len(await items_of(queue, run, state="waiting"))) == (8, 32)

    run = await queue.runs.resume(run.run_id, by="ben", reason="these three are known", stop_percent=40)
    assert (run.state, run.halted_because) == (RunState.RUNNING, None)
    run = await worked(queue, run)
    assert run.counts.moved == 40
    await queue.run_due()
    any_house.clock.advance(1)
    run = await worked(queue, run)
    assert (run.state, run.counts.succeeded, run.counts.failed_again) == (RunState.DONE, 37, 3)


async def test_the_rule_is_looked_at_before_each_slice(any_house: House) -> None:
    """Letters fail while the rest is being moved: the next slice is not."""
    queue = any_house.queue(Runs(NETWORK), breakers=Breakers(threshold=PAGE))
    await fill(queue, 2 * PAGE, max_retries=0)  # planned in one write
    run = await queue.runs.start("redrive", everything=True, by="ann", ramp=(), stop_percent=10)
    looking = asyncio.create_task(queue.runs.advance())
    hold = any_house.faults.hold("write", kind=RUN_PAGES)  # the plan
    await hold.wait_for_call()
    second = any_house.faults.hold("write", kind=RUN_PAGES)  # the first slice's
    hold.release()
    await second.wait_for_call()
    await queue.run_due()
    second.release()
    await looking
    run = await queue.runs.get(run.run_id)
    assert (run.state, run.counts.moved) == (RunState.HALTED, PAGE)
    assert run.counts.failed_again > PAGE / 10


async def test_a_halted_run_is_not_resumed_to_halt_again_at_once(any_house: House) -> None:
    """It takes another stop rule, and the refusal says which; what became of its letters since counts."""
    queue = any_house.queue(Runs(NETWORK))
    await fill(queue, 3, max_retries=0)
    run = await worked(queue, await queue.runs.start("redrive", everything=True, by="ann", ramp=(1,), stop_percent=0))
    await queue.run_due()
    any_house.clock.advance(1)
    run = await worked(queue, run)
    assert (run.state, run.counts.moved) == (RunState.HALTED, 1)

    why = (
        f"bulk run {run.run_id!r} is halted: cannot resume it, it would halt again at once: 1 of 1 letters failed "
        "again, which is more than {} %; resume it with stop_percent 100, or cancel it and start another one once "
        "the cause is fixed"
    )
    for said, percent in (({}, 0), ({"stop_percent": 0}, 0), ({"stop_percent": 99.5}, 99.5)):
        with pytest.raises(IllegalRunMove) as refused:
            await queue.runs.resume(run.run_id, by="ann", **said)
        assert str(refused.value) == why.format(percent)
        entry = (await queue.audit.list(action="run.resume")).items[0]
        assert (entry.outcome, entry.why) == ("refused", why.format(percent))
    assert await queue.runs.get(run.run_id) == run
    run = await worked(queue, await queue.runs.resume(run.run_id, by="ann", stop_percent=None))
    assert (run.state, run.stop_percent, run.counts.moved) == (RunState.RUNNING, None, 3)


async def test_a_halted_run_whose_letters_came_right_since_is_resumed(any_house: House) -> None:
    """By the retries that they had left: its rule is kept."""
    queue = any_house.queue(Runs(NETWORK, None))
    await fill(queue, 3, retry_policy="linear")
    run = await worked(queue, await queue.runs.start("redrive", everything=True, by="ann", ramp=(1,), stop_percent=0))
    await queue.run_due()
    any_house.clock.advance(1)
    run = await worked(queue, run)
    assert (run.state, run.counts.failed_again) == (RunState.HALTED, 1)
    with pytest.raises(IllegalRunMove, match="halt again at once"):
        await queue.runs.resume(run.run_id, by="ann")
    any_house.clock.advance(3600)
    await queue.run_due()

    run = await queue.runs.resume(run.run_id, by="ann")
    assert (run.state, run.stop_percent, run.counts.failed_again) == (RunState.RUNNING, 0, 0)


async def test_a_stop_rule_has_waves_to_look_at_unless_somebody_wants_none(any_house: House) -> None:
    queue = any_house.queue(Runs(NETWORK))
    await fill(queue, 50, max_retries=0)
    kinds: tuple[tuple[str, dict[str, Any], tuple[int, ...]], ...] = (
        ("redrive", {"stop_percent": 20}, (1, 5, 25)),
        ("redrive", {"stop_percent": 20, "ramp": ()}, ()),
        ("redrive", {"stop_percent": 20, "ramp": [2]}, (2,)),
        ("redrive", {}, ()),
        ("archive", {}, ()),
    )
    for verb, options, ramp in kinds:
        assert (await queue.runs.preview(verb, everything=True, **options)).ramp == ramp
    run = await worked(queue, await queue.runs.start("redrive", everything=True, by="ann", stop_percent=20))
    assert (run.ramp, run.counts.moved) == ((1, 5, 25), 1)
    await queue.run_due()
    any_house.clock.advance(1)
    run = await worked(queue, run)
    assert (run.state, run.counts.moved, run.counts.waiting) == (RunState.HALTED, 1, 49), "the others were protected"
    run = await queue.runs.start("redrive", everything=True, by="ann", ramp=(), stop_percent=20)
    run = await worked(queue, run)
    assert (run.ramp, run.counts.moved) == ((), 50)


async def test_a_person_who_is_quicker_than_the_stop_rule_has_stopped_it(any_house: House) -> None:
    queue, other = any_house.queue(Runs(NETWORK)), any_house.queue()
    await fill(queue, 3, max_retries=0)
    run = await worked(queue, await queue.runs.start("redrive", everything=True, by="ann", ramp=(1,), stop_percent=0))
    await queue.run_due()
    any_house.clock.advance(1)
    hold = any_house.faults.hold("write", kind=RUNS, keys=[run.run_id])
    looking = asyncio.create_task(queue.runs.advance())
    await hold.wait_for_call()  # the lease
    hold.release()
    halting = any_house.faults.hold("write", kind=RUNS, keys=[run.run_id])
    await halting.wait_for_call()
    await other.runs.pause(run.run_id, by="bob")
    halting.release()
    await looking
    assert (await other.runs.get(run.run_id)).state is RunState.PAUSED
    entry = (await other.audit.list(action="run.halt")).items[0]
    assert (entry.outcome, entry.why) == ("refused", "it was paused before that")


async def test_a_letter_that_fails_first_and_succeeds_then_has_succeeded(house: House) -> None:
    queue = house.queue(Runs(NETWORK, NETWORK, None))
    await fill(queue, 2, max_retries=3)
    run = await worked(queue, await queue.runs.start("redrive", everything=True, by="ann", ramp=(), stop_percent=100))
    await queue.run_due()
    assert (await queue.runs.get(run.run_id)).counts.failed_again == 2, "noticed at the first failed run"
    await queue.run_due()
    house.clock.advance(1)
    run = await worked(queue, run)
    assert (run.state, run.counts.succeeded, run.counts.failed_again) == (RunState.DONE, 2, 0)
    assert len(await items_of(queue, run, outcome="succeeded")) == 2


async def test_letters_that_are_being_run_are_waited_for_and_the_others_are_not_held_up(any_house: House) -> None:
    queue, other = any_house.queue(gate := Gate({"status": "failed", "error": "connection refused"})), any_house.queue()
    names = await fill(queue, 2 * PAGE + 40, retry_policy="never")
    running = [names[3], names[PAGE + 7], names[PAGE + 8], names[-1]]
    retries = [asyncio.create_task(queue.retry_task(name)) for name in running]
    await gate.reached(len(running))
    run = await worked(other, await other.runs.start("resolve", everything=True, by="ann", max_per_second=100))
    for _ in range(20):
        any_house.clock.advance(1)
        run = await worked(other, run)
    assert (run.state, run.counts.moved, run.counts.waiting) == (RunState.RUNNING, len(names) - 4, 4)
    assert run.due_at is not None
    assert run.due_at > any_house.clock.now(), "nobody looks all the time"
    assert set(await items_of(other, run, state="waiting")) == set(running)
    gate.open()
    assert not any([(await retry)["success"] for retry in retries])
    for _ in range(6):
        any_house.clock.advance(1)
        run = await worked(other, run)
    assert (run.state, run.counts.moved, run.counts.refused) == (RunState.DONE, len(names), 0)
    assert {item.why for item in (await items_of(other, run)).values()} == {None}


async def test_one_letter_that_is_run_for_long_does_not_keep_the_run_from_another(any_house: House) -> None:
    long, short, other = any_house.queue(day := Gate()), any_house.queue(minute := Gate()), any_house.queue()
    names = await fill(other, 3, retry_policy="never")
    runs = zip((long, short, short), names, strict=True)
    retries = [asyncio.create_task(queue.retry_task(name)) for queue, name in runs]
    await day.reached()
    await minute.reached(2)
    run = await worked(other, await other.runs.start("archive", everything=True, by="ann", max_per_second=1))
    assert (run.counts.moved, run.counts.waiting) == (0, 3)
    minute.open()
    await asyncio.gather(*retries[1:])
    for _ in range(4):
        any_house.clock.advance(1)
        run = await worked(other, run)
    assert (run.counts.moved, run.counts.waiting) == (2, 1)
    day.open()
    await asyncio.gather(*retries)
    any_house.clock.advance(60)
    assert (await worked(other, run)).state is RunState.DONE


async def test_a_letter_whose_worker_is_gone_is_waited_for_until_nobody_takes_it_over(any_house: House) -> None:
    queue, other = any_house.queue(gate := Gate()), any_house.queue()
    names = await fill(queue, 3, retry_policy="never")
    lost = asyncio.create_task(queue.retry_task(names[1]))
    await gate.reached()
    lease_end = (await letter_of(other, names[1])).due_at
    any_house.kill(queue)
    run = await worked(other, await other.runs.start("resolve", everything=True, by="ann"))
    assert (run.state, run.counts.moved, run.counts.waiting) == (RunState.RUNNING, 2, 1)
    assert lease_end is not None
    any_house.clock.advance((lease_end - any_house.clock.now()).total_seconds() + 59)
    assert (await worked(other, run)).state is RunState.RUNNING
    any_house.clock.advance(60)
    run = await worked(other, run)
    assert (run.state, run.counts.refused) == (RunState.DONE, 1)
    assert (await items_of(other, run))[names[1]].why == "retrying: cannot resolve it"
    lost.cancel()


async def test_what_became_of_a_letter_stays_known_whatever_people_do_then(any_house: House) -> None:
    """The stop rule counts what its letters did, not what they look like afterwards."""
    queue = any_house.queue(Runs(NETWORK))
    names = await fill(queue, 5, max_retries=0)
    run = await worked(queue, await queue.runs.start("redrive", everything=True, by="ann", ramp=()))
    await queue.letters.cancel(names[4])
    await queue.run_due()
    await queue.archive_task(names[0])  # (a) closed after it had failed
    await queue.letters.resolve(names[1])
    await queue.letters.redrive(names[2])  # (b) sent back after it had failed
    second = await worked(queue, await queue.runs.start("redrive", task_id=names[3], by="bob"))
    run = await queue.runs.get(run.run_id)
    assert (run.counts.failed_again, run.counts.closed, run.counts.succeeded) == (4, 1, 0)
    assert (await queue.runs.get(second.run_id)).counts.awaited == 1, "of this run it is not known yet"
    any_house.clock.advance(1)
    run = await worked(queue, run)
    assert (run.state, run.counts.failed_again, run.counts.closed) == (RunState.DONE, 4, 1)
    assert set(await items_of(queue, run, outcome="failed_again")) == set(names[:4])


async def test_a_run_is_not_credited_with_what_another_one_put_right(any_house: House) -> None:
    """A bad patch halts at its first letter; with a good one the same letter succeeds."""

    async def deliver(task: Any, repos: list[str]) -> None:
        if task.get("age") != 40:
            raise ValueError("age is no number")

    queue = any_house.queue(deliver)
    await fill(queue, 3, max_retries=1)
    how: dict[str, Any] = {"patch": {"age": "old"}, "create": True, "stop_percent": 20, "ramp": (1,)}
    bad = await queue.runs.start("redrive", everything=True, by="ann", **how)
    await worked(queue, bad)
    await queue.run_due()
    any_house.clock.advance(1)
    bad = await worked(queue, bad)
    assert (bad.state, bad.counts.moved, bad.counts.failed_again) == (RunState.HALTED, 1, 1)

    good = await worked(queue, await queue.runs.start("redrive", everything=True, by="ann", patch={"age": 40}))
    await queue.run_due()
    any_house.clock.advance(1)
    good, bad = await worked(queue, good), await queue.runs.get(bad.run_id)
    assert (good.state, good.counts.succeeded) == (RunState.DONE, 3)
    assert (bad.counts.succeeded, bad.counts.failed_again, bad.counts.awaited) == (0, 1, 0)
    assert len(await items_of(queue, bad, outcome="failed_again")) == 1


async def test_a_redriven_letter_may_fail_first_and_succeed_by_its_own_next_retry(any_house: House) -> None:
    """That is what the budget is for: the run has put it right."""
    queue = any_house.queue(Runs(NETWORK, None))
    await fill(queue, 1)
    run = await worked(queue, await queue.runs.start("redrive", everything=True, by="ann", stop_percent=50, ramp=()))
    await queue.run_due()
    any_house.clock.advance(1)
    assert (await worked(queue, run)).state is RunState.HALTED
    any_house.clock.advance(3600)
    await queue.run_due()
    run = await queue.runs.get(run.run_id)
    assert (run.counts.succeeded, run.counts.failed_again) == (1, 0)


async def test_a_retry_that_succeeds_has_done_so_also_if_the_task_failed_for_more_meanwhile(any_house: House) -> None:
    queue = any_house.queue(gate := Gate())
    await queue.enqueue("wf", {}, ["api"], NETWORK, max_retries=0)
    run = await worked(queue, await queue.runs.start("redrive", everything=True, by="ann", stop_percent=0))
    retrying = asyncio.create_task(queue.run_due())
    await gate.reached()
    await queue.enqueue("wf", {}, ["web"], NETWORK, max_retries=0)
    gate.open()
    await retrying
    letter = await letter_of(queue, "wf")
    assert (letter.status, letter.repos) == (DeadLetterStatus.EXHAUSTED, ("web",)), "the new part, for a person"
    any_house.clock.advance(1)
    run = await worked(queue, run)
    assert (run.state, run.counts.succeeded, run.counts.failed_again) == (RunState.DONE, 1, 0)


async def test_a_case_that_somebody_closes_does_not_hold_up_the_run(any_house: House) -> None:
    queue = any_house.queue(Runs())
    await fill(queue, 4, max_retries=0)
    run = await worked(queue, await queue.runs.start("redrive", everything=True, by="ann"))
    await queue.letters.cancel("wf_00000")
    await queue.letters.resolve("wf_00001")
    await queue.archive_task("wf_00002")
    await queue.run_due()
    any_house.clock.advance(1)
    run = await worked(queue, run)
    assert (run.state, run.counts.closed, run.counts.succeeded) == (RunState.DONE, 3, 1)
    assert set(await items_of(queue, run, outcome="closed")) == {"wf_00000", "wf_00001", "wf_00002"}


async def test_a_letter_that_is_deleted_does_not_hold_up_the_run(any_house: House) -> None:
    queue = any_house.queue(Runs())
    await fill(queue, 3, max_retries=0)
    run = await worked(queue, await queue.runs.start("redrive", everything=True, by="ann"))
    await queue.clear_all()
    any_house.clock.advance(1)
    run = await worked(queue, run)
    assert (run.state, run.counts.closed, run.counts.moved) == (RunState.DONE, 3, 3)


async def test_what_failed_again_has_done_so_also_if_it_is_deleted_then(house: House) -> None:
    queue = house.queue(Runs(NETWORK))
    names = await fill(queue, 2, max_retries=0)
    run = await worked(queue, await queue.runs.start("redrive", everything=True, by="ann", ramp=(1,)))
    await queue.run_due()
    house.clock.advance(1)
    run = await worked(queue, run)
    assert (run.counts.moved, run.counts.failed_again) == (2, 1)
    await queue.context.letters.remove([await letter_of(queue, name) for name in names])
    house.clock.advance(1)
    run = await worked(queue, run)
    assert (run.state, run.counts.failed_again, run.counts.closed) == (RunState.DONE, 1, 1)


async def test_a_letter_that_is_in_the_history_already_is_not_counted_twice(any_house: House) -> None:
    queue = any_house.queue(Runs())
    names = await fill(queue, 2)
    run = await worked(queue, await queue.runs.start("redrive", everything=True, by="ann"))
    await queue.retry_task(names[0])
    # Somebody captures its next failure, and dies before the letter is replaced.
    history = queue.store.collection(HISTORY)
    await history.write([FormerLetter.of(await letter_of(queue, names[0]))])
    for _ in range(3):
        any_house.clock.advance(1)
        any_house.faults.calls.clear()
        await queue.runs.advance()
        assert any_house.faults.calls["tally"] == 8, "one look at both collections for each outcome"
    await queue.retry_task(names[1])
    any_house.clock.advance(60)
    run = await worked(queue, run)
    assert (run.state, run.counts.succeeded) == (RunState.DONE, 2)


async def test_the_members_are_those_that_were_there_at_the_start(any_house: House) -> None:
    queue = any_house.queue(gate := Gate())
    names = await fill(queue, 6, retry_policy="never")
    run = await queue.runs.start("resolve", status="pending", by="ann", ramp=(1,), max_per_second=1)
    any_house.clock.advance(0.5)
    await queue.enqueue("later", {}, [], NETWORK, "never")
    run = await worked(queue, run)
    assert (run.counts.members, run.counts.moved) == (6, 1)
    done = next(iter(await items_of(queue, run, state="moved")))
    left = [name for name in names if name != done]
    archived, again, cleared, running, plain = left
    await queue.archive_task(archived)
    await queue.letters.cancel(again)
    await queue.enqueue(again, {}, [], NETWORK, "never")  # the next generation
    letter = await letter_of(queue, cleared)
    await queue.context.letters.remove([letter])
    retrying = asyncio.create_task(queue.retry_task(running))
    await gate.reached()
    for _ in range(6):
        any_house.clock.advance(1)
        run = await worked(queue, run)
    assert (run.state, run.counts.waiting) == (RunState.RUNNING, 1)
    item = (await items_of(queue, run, state="waiting"))[running]
    assert item.why == "it is being run: looked at again when the others are done"
    gate.open()
    assert (await retrying)["success"]
    any_house.clock.advance(60)
    run = await worked(queue, run)
    assert run.state is RunState.DONE
    items = await items_of(queue, run)
    assert set(items) == set(names)
    assert {name: item.state for name, item in items.items()} == {
        done: ItemState.MOVED,
        plain: ItemState.MOVED,
        archived: ItemState.REFUSED,
        again: ItemState.GONE,
        cleared: ItemState.GONE,
        running: ItemState.REFUSED,
    }
    assert items[running].why == "completed, its rerun succeeded: cannot resolve it"
    assert (run.counts.moved, run.counts.refused, run.counts.gone) == (2, 2, 2)
    assert (await letter_of(queue, "later")).runs == ()
    assert (await letter_of(queue, again)).runs == ()


async def test_a_replaced_letter_is_found_in_the_history(any_house: House) -> None:
    queue = any_house.queue(Runs())
    await fill(queue, 2, max_retries=0)
    run = await worked(queue, await queue.runs.start("redrive", everything=True, by="ann"))
    await queue.run_due()
    await queue.enqueue("wf_00000", {}, [], NETWORK, max_retries=0)
    any_house.clock.advance(1)
    run = await worked(queue, run)
    assert (run.state, run.counts.succeeded, run.counts.gone) == (RunState.DONE, 2, 0)
    assert (await letter_of(queue, "wf_00000")).runs == ()


async def test_a_pause_holds_it_up_and_a_cancellation_ends_it(any_house: House) -> None:
    queue = any_house.queue()
    await fill(queue, 20)
    run = await queue.runs.start("archive", everything=True, by="ann", max_per_second=5)
    run = await worked(queue, run)
    events = heard(queue)
    run = await queue.runs.pause(run.run_id, by="ben", reason="lunch")
    assert (run.state, run.counts.moved) == (RunState.PAUSED, 5)
    assert await queue.runs.pause(run.run_id, by="ben") == run
    any_house.clock.advance(60)
    assert not await queue.runs.advance()
    run = await queue.runs.resume(run.run_id, by="ben")
    run = await worked(queue, run)
    assert (run.state, run.counts.moved) == (RunState.RUNNING, 10)
    run = await queue.runs.cancel(run.run_id, by="cyd", reason="enough")
    any_house.clock.advance(60)
    assert not await queue.runs.advance()
    run = await queue.runs.get(run.run_id)
    assert (run.state, run.counts.moved, run.counts.waiting) == (RunState.CANCELLED, 10, 10)
    assert run.finished_at is not None
    assert len(await queue.list_tasks()) == 10
    states = [event.detail["state"] for event in events if event.name is EventName.RUN_CHANGED]
    assert states == ["paused", "running", "running", "cancelled"]
    for verb in (queue.runs.pause, queue.runs.resume):
        with pytest.raises(IllegalRunMove, match="is cancelled"):
            await verb(run.run_id, by="ann")
    acts = [(entry.action, entry.actor, entry.outcome) for entry in (await queue.audit.list()).items]
    assert acts[::-1] == [
        ("run.start", "ann", "done"),
        ("run.pause", "ben", "done"),
        ("run.pause", "ben", "done"),
        ("run.resume", "ben", "done"),
        ("run.cancel", "cyd", "done"),
        ("run.pause", "ann", "refused"),
        ("run.resume", "ann", "refused"),
    ]


@pytest.mark.parametrize("verb", ["pause", "cancel"])
async def test_a_run_can_be_stopped_in_the_middle_of_a_slice(any_house: House, verb: str) -> None:
    queue, other = any_house.queue(), any_house.queue()
    await fill(queue, 3 * PAGE)
    run = await queue.runs.start("archive", everything=True, by="ann")
    hold = any_house.faults.hold("write", kind=LETTERS)
    looking = asyncio.create_task(queue.runs.advance())
    await hold.wait_for_call()
    await getattr(other.runs, verb)(run.run_id, by="ben")
    hold.release()
    await looking
    run = await other.runs.get(run.run_id)
    assert (run.lease, run.counts.moved, run.counts.waiting) == (None, PAGE, 2 * PAGE), "what was under way is done"
    if verb == "pause":
        await other.runs.resume(run.run_id, by="ben")
        assert (await worked(other, run)).counts.moved == 3 * PAGE


async def test_a_run_can_be_paused_while_it_is_planned(any_house: House) -> None:
    queue, other = any_house.queue(), any_house.queue()
    await fill(queue, 30)
    run = await queue.runs.start("archive", everything=True, by="ann")
    hold = any_house.faults.hold("write", kind=RUN_PAGES)
    looking = asyncio.create_task(queue.runs.advance())
    await hold.wait_for_call()
    await other.runs.pause(run.run_id, by="ben")
    hold.release()
    await looking
    run = await other.runs.get(run.run_id)
    assert (run.state, run.counts.moved) == (RunState.PAUSED, 0)
    await other.runs.resume(run.run_id, by="ben")
    run = await worked(other, run)
    assert (run.state, run.counts.moved, run.counts.members) == (RunState.DONE, 30, 30)


async def test_a_run_keeps_its_pace(any_house: House) -> None:
    queue = any_house.queue()
    await fill(queue, 50)
    run = await queue.runs.start("archive", everything=True, by="ann", max_per_second=20)
    moved = []
    for _ in range(7):
        run = await worked(queue, run)
        moved.append(run.counts.moved)
        any_house.clock.advance(0.5)
    assert moved == [20, 20, 40, 40, 50, 50, 50]
    slow = await queue.runs.start("redrive", everything=True, by="ann", max_per_second=0.1)
    assert (await worked(queue, slow)).state is RunState.DONE, "nobody was meant"


async def test_runs_take_turns_and_are_listed(any_house: House) -> None:
    queue = any_house.queue()
    await fill(queue, 10)
    first = await queue.runs.start("archive", everything=True, by="ann", max_per_second=1)
    any_house.clock.advance(1)
    second = await queue.runs.start("resolve", letter_query(status="pending"), by="ann")
    while await queue.runs.advance():
        pass
    assert [run.run_id for run in (await queue.runs.list()).items] == [second.run_id, first.run_id]
    assert [run.run_id for run in (await queue.runs.list("running")).items] == [first.run_id]
    either = await queue.runs.list(["running", "done"])
    assert [run.run_id for run in either.items] == [second.run_id, first.run_id]
    page = await queue.runs.list(limit=1)
    assert [run.run_id for run in (await queue.runs.list(after=str(page.next))).items] == [first.run_id]
    counts = (await queue.runs.get(second.run_id)).counts
    assert (counts.members, counts.moved) == (9, 9), "one of them had been archived by then"


async def test_after_the_clock_was_set_back_a_run_means_what_a_list_shows(any_house: House) -> None:
    queue = any_house.queue()
    await fill(queue, 5, max_retries=0)
    any_house.clock.set(any_house.clock.now() - timedelta(hours=1))
    assert (await queue.runs.preview("redrive", everything=True)).eligible == 5
    run = await queue.runs.start("redrive", everything=True, by="ann", ramp=())
    await queue.runs.advance()
    assert (await queue.runs.get(run.run_id)).counts.members == len(await queue.list_tasks()) == 5


async def test_the_processor_carries_runs_on_by_itself(any_house: House) -> None:
    queue = any_house.queue(Runs())
    names = await fill(queue, 5, max_retries=0)
    done = asyncio.Event()
    queue.context.events.subscribe(lambda event: done.set() if event.detail.get("state") == "done" else None)
    await queue.start_retry_processor()
    run = await queue.runs.start("redrive", everything=True, by="ann", ramp=(1,))
    while not done.is_set():
        await turn()
        any_house.clock.advance(0.01)
    await queue.stop_retry_processor()
    run = await queue.runs.get(run.run_id)
    assert (run.state, run.counts.succeeded) == (RunState.DONE, 5)
    assert [(await letter_of(queue, name)).status for name in names] == ["completed"] * 5


async def test_what_cannot_be_is_refused(house: House) -> None:
    queue = house.queue()
    await fill(queue, 1)
    bad: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (InvalidInput, "cannot 'delete'", {"verb": "delete", "everything": True}),
        (InvalidInput, "everything", {"verb": "archive"}),
        (InvalidInput, "everything", {"verb": "archive", "query": Query()}),
        (InvalidInput, "not both", {"verb": "archive", "query": letter_query(status="pending"), "category": "network"}),
        (InvalidInput, "filtered", {"verb": "archive", "statuss": "pending"}),
        (InvalidQuery, "cannot be searched", {"verb": "archive", "query": Query((Is("mood", ("bad",)),))}),
        (InvalidInput, "a query is", {"verb": "archive", "query": "all"}),
        (InvalidInput, "needs a patch", {"verb": "edit", "everything": True}),
        (InvalidInput, "patch goes with", {"verb": "archive", "everything": True, "patch": {}}),
        (InvalidInput, "redrive goes with", {"verb": "archive", "everything": True, "redrive": True}),
        (InvalidInput, "must be a dict", {"verb": "edit", "everything": True, "patch": [1]}),
    ]
    for error, match, options in bad:
        with pytest.raises(error, match=match):
            await queue.runs.preview(**options)
        with pytest.raises(error, match=match):
            await queue.runs.start(by="ann", **options)
    for more in ({"ramp": (0,)}, {"ramp": 5}, {"stop_percent": 5}, {"max_per_second": -1}, {"reason": 5}):
        with pytest.raises(InvalidInput):
            await queue.runs.start("archive", everything=True, by="ann", **more)
        if "reason" not in more:
            with pytest.raises(InvalidInput):
                await queue.runs.preview("archive", everything=True, **more)
    for by in ("", None, 5):
        with pytest.raises(InvalidInput):
            await queue.runs.start("archive", everything=True, by=by)  # type: ignore[arg-type]
    assert not (await queue.runs.list()).items
    for method in (queue.runs.get, queue.runs.items):
        with pytest.raises(NoSuchRun):
            await method("nobody")
    for change in (queue.runs.pause, queue.runs.resume, queue.runs.cancel):
        with pytest.raises(NoSuchRun):
            await change("nobody", by="ann")
    run = await queue.runs.start("archive", everything=True, by="ann")
    for chosen in ({"state": "moving"}, {"outcome": "fine"}, {"limit": 0}, {"limit": "5"}, {"after": "x"}):
        with pytest.raises(InvalidInput):
            await queue.runs.items(run.run_id, **chosen)
    with pytest.raises(InvalidInput):
        await queue.runs.list("moving")
    assert (await queue.runs.items(run.run_id)).items == (), "it is not planned yet"


@pytest.mark.parametrize("verb", ["pause", "cancel"])
async def test_a_run_that_a_person_stops_after_it_was_found_is_not_taken(any_house: House, verb: str) -> None:
    queue, other = any_house.queue(), any_house.queue()
    names = await fill(queue, 2)
    run = await queue.runs.start("archive", everything=True, by="ann")
    hold = any_house.faults.hold("find", after=True, kind=RUNS)
    working = asyncio.create_task(queue.runs.advance())
    await hold.wait_for_call()
    stopped = await getattr(other.runs, verb)(run.run_id, by="ben")
    hold.release()
    assert not await working
    assert await other.runs.get(run.run_id) == stopped
    assert (await letter_of(queue, names[0])).status is DeadLetterStatus.PENDING


async def test_runs_that_only_wait_for_outcomes_are_neither_read_nor_written(any_house: House) -> None:
    queue = any_house.queue()
    for name in await fill(queue, 3):
        await queue.runs.start("redrive", task_id=name, by="ann")
    assert await queue.runs.advance()
    with any_house.faults.unavailable("get", "write", "tally"):
        assert not await queue.runs.advance()
    any_house.clock.advance(2)
    with any_house.faults.unavailable("tally"), pytest.raises(StoreUnavailable):
        await queue.runs.advance()
