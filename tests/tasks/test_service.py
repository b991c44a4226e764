"""Lifecycle tasks in a store: made once, moved by one at a time, and never half there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mahavishnu.model.errors import (
    ChangedMeanwhile,
    IllegalMove,
    InvalidInput,
    NoSuchTask,
    PermissionDenied,
    StoreUnavailable,
)
from mahavishnu.model.permissions import Permission, Principal, Scope
from mahavishnu.tasks.records import TASKS
from mahavishnu.tasks.service import Lifecycle
from mahavishnu.tasks.task import KEPT_TRANSITIONS, StepRecord, TaskRecord, TaskState
from tests.support.queues import House

STEPS = [StepRecord("a"), StepRecord("b", ("a",)), StepRecord("c", ("a",)), StepRecord("d", ("b", "c"))]


def lifecycle_of(house: House) -> Lifecycle:
    """As another process has it."""
    return Lifecycle(house.queue().context)


async def tasks_in(house: House) -> list[TaskRecord]:
    return list((await lifecycle_of(house).list("all")).items)


@pytest.mark.parametrize("kth", [1, 2, 3])
@pytest.mark.parametrize("effect", ["unavailable", "answer_lost", "request_lost"])
async def test_a_hundred_equal_submissions_and_a_store_that_fails_make_one_task(
    any_house: House, effect: str, kth: int
) -> None:
    """Whichever write fails, the task is not there or all of it is; who submits again gets it."""
    writes = 0
    submitters = [lifecycle_of(any_house) for _ in range(5)]

    async def submit(of: Lifecycle) -> TaskRecord | None:
        try:
            return await of.create("pay", {"order": 1, "to": "ann"}, steps=STEPS)
        except StoreUnavailable:
            return None

    async def fail_kth(call: object) -> None:
        nonlocal writes
        writes += 1
        if writes == kth:
            getattr(any_house.faults, effect)("write", times=1)

    any_house.faults.before("write", fail_kth, kind=TASKS)
    submitted = await asyncio.gather(*(submit(submitters[number % 5]) for number in range(100)))
    any_house.faults.clear()
    again = await submitters[0].create("pay", {"to": "ann", "order": 1}, steps=STEPS)

    assert submitted.count(None) == 1
    assert {task.task_id for task in submitted if task is not None} == {again.task_id}
    assert await tasks_in(any_house) == [again]
    assert [step.name for step in again.steps] == ["a", "b", "c", "d"]


async def test_of_a_hundred_transitions_from_one_state_one_wins(any_house: House) -> None:
    """The others get a conflict, and one transition is written."""
    services = [lifecycle_of(any_house) for _ in range(4)]
    task = await services[0].create("pay")

    async def move(number: int) -> str:
        try:
            await services[number % 4].transition(task.task_id, "initializing", from_state="pending")
        except ChangedMeanwhile:
            return "conflict"
        return "won"

    outcomes = await asyncio.gather(*map(move, range(100)))

    assert sorted(outcomes) == ["conflict"] * 99 + ["won"]
    (noted,) = await services[0].transitions(task.task_id)
    assert (noted.from_state, noted.to_state, noted.number) == ("pending", "initializing", 1)


async def test_one_of_ten_finalises(any_house: House) -> None:
    """Everybody is told the truth, and there is one transition to complete."""
    services = [lifecycle_of(any_house) for _ in range(10)]
    task = await services[0].create("pay")

    outcomes = await asyncio.gather(*(service.finalize(task.task_id) for service in services))

    assert sorted(outcomes) == [False] * 9 + [True]
    moves = await services[0].transitions(task.task_id)
    assert [each.to_state for each in moves].count("complete") == 1


async def test_results_that_come_twice_or_late_change_nothing(house: House) -> None:
    """They are counted; a reversed order makes no difference."""
    lifecycle = lifecycle_of(house)
    task_id = (await lifecycle.create("pay", steps=STEPS)).task_id
    assert await lifecycle.step_readiness(task_id) == {
        "a": None, "b": "it waits for a", "c": "it waits for a", "d": "it waits for b, c",
    }  # fmt: skip
    await lifecycle.begin_step(task_id, "a")
    assert await lifecycle.complete_step(task_id, "a", {"n": 1})
    before = await lifecycle.get(task_id)

    assert not await lifecycle.complete_step(task_id, "a", {"n": 2})
    assert not await lifecycle.fail_step(task_id, "a", "late")
    assert not await lifecycle.complete_step(task_id, "b", "not begun")

    assert await lifecycle.get(task_id) == before
    assert lifecycle.late_reports == 3
    for step in ("c", "b"):
        await lifecycle.begin_step(task_id, step)
    assert await lifecycle.complete_step(task_id, "c")
    assert await lifecycle.complete_step(task_id, "b")
    assert await lifecycle.step_readiness(task_id) == {"d": None}


async def test_a_failed_step_is_ready_again_after_its_time(house: House) -> None:
    """The longer the more often it failed; one without attempts left never."""
    lifecycle = lifecycle_of(house)
    task_id = (await lifecycle.create("pay", steps=[StepRecord("a", max_attempts=3)])).task_id
    for seconds in (30, 60):
        await lifecycle.begin_step(task_id, "a")
        await lifecycle.fail_step(task_id, "a", "refused")
        house.clock.advance(seconds - 1)
        assert "retried at" in str((await lifecycle.step_readiness(task_id))["a"])
        house.clock.advance(1)
        assert (await lifecycle.step_readiness(task_id)) == {"a": None}
    await lifecycle.begin_step(task_id, "a")
    await lifecycle.fail_step(task_id, "a", "refused")

    assert (await lifecycle.get(task_id)).steps[0].state == "error"
    assert await lifecycle.step_readiness(task_id) == {}


async def test_moves_without_end_stay_in_order_and_are_all_there(any_house: House) -> None:
    """Also where a write of the task was lost after the older moves had been written."""
    lifecycle = lifecycle_of(any_house)
    task_id = (await lifecycle.create("pay", steps=[StepRecord("a")])).task_id
    for number in range(2 * KEPT_TRANSITIONS):
        if number == KEPT_TRANSITIONS:
            any_house.faults.conflict("write", kind=TASKS, times=1)
        await lifecycle.begin_step(task_id, "a", take_over=True)

    numbers = [each.number for each in await lifecycle.transitions(task_id)]
    assert numbers == list(range(1, 2 * KEPT_TRANSITIONS + 1))
    assert len((await lifecycle.get(task_id)).transitions) <= KEPT_TRANSITIONS


async def test_fresh_work_is_found_among_thousands_that_hang(house: House) -> None:
    """The most urgent first, then the one that waits longest; what hangs is left to staleness."""
    lifecycle = lifecycle_of(house)
    await lifecycle.tasks.write(
        [
            TaskRecord(f"old-{n}", "default", "sync", TaskState.PENDING, house.clock.now(), house.clock.now(), "x")
            for n in range(500)
        ]
    )
    house.clock.advance(25 * 3600)
    for number in range(10):
        await lifecycle.create("pay", {"n": number}, priority=number // 5)
        house.clock.advance(1)
    await lifecycle.create("pay", "it waits", steps=[StepRecord("a", state="in_progress")])  # type: ignore[arg-type]

    ready = await lifecycle.next_ready_tasks()

    assert [task.context.value["n"] for task in ready] == [5, 6, 7, 8, 9, 0, 1, 2, 3, 4]
    assert len(await lifecycle.next_ready_tasks(3)) == 3


async def test_a_namespace_has_its_own_tasks(house: House) -> None:
    """The same submission is another task there, and nobody sees those of others."""
    ours, theirs = lifecycle_of(house), Lifecycle(house.queue(namespace="eu").context)
    one, other = await ours.create("pay", 1), await theirs.create("pay", 1)

    assert one.task_id != other.task_id
    assert [task.task_id for task in (await theirs.list()).items] == [other.task_id]
    with pytest.raises(NoSuchTask):
        await theirs.get(one.task_id)
    with pytest.raises(NoSuchTask):
        await theirs.transition(one.task_id, "cancelled")


async def test_what_is_asked_for_must_exist(house: House) -> None:
    """States, tasks, moves."""
    lifecycle = lifecycle_of(house)
    task_id = (await lifecycle.create("pay")).task_id
    with pytest.raises(InvalidInput, match="no task state 'done'; there are pending"):
        await lifecycle.transition(task_id, "done")
    with pytest.raises(NoSuchTask, match="no lifecycle task 'x'"):
        await lifecycle.finalize("x")
    with pytest.raises(IllegalMove, match="is pending: cannot move it to complete"):
        await lifecycle.transition(task_id, "complete")
    await lifecycle.transition(task_id, "cancelled", reason="no longer needed")
    assert [task.state for task in (await lifecycle.list(["cancelled", "error"], name="pay")).items] == ["cancelled"]
    assert (await lifecycle.list()).items == []


async def test_a_step_is_begun_by_one_and_after_those_it_depends_on(any_house: House) -> None:
    """Otherwise two workers that found it ready at the same moment would both run it."""
    lifecycles = [lifecycle_of(any_house) for _ in range(5)]
    task_id = (await lifecycles[0].create("pay", steps=STEPS)).task_id
    begun = await asyncio.gather(*(each.begin_step(task_id, "a") for each in lifecycles), return_exceptions=True)
    refused = [each for each in begun if isinstance(each, IllegalMove)]
    assert (len(refused), "take_over=True" in str(refused[0])) == (4, True)
    with pytest.raises(IllegalMove, match="it waits for a"):
        await lifecycles[0].begin_step(task_id, "b")
    with pytest.raises(IllegalMove, match="it waits for a"):
        await lifecycles[0].begin_step(task_id, "b", take_over=True)
    again = await lifecycles[1].begin_step(task_id, "a", take_over=True)  # who began it has died
    assert (again.step("a") or STEPS[0]).attempts == 2


@pytest.mark.parametrize(
    "given",
    [
        {"steps": ["a"]},
        {"steps": [StepRecord("a", max_attempts="3")]},  # type: ignore[arg-type]
        {"steps": [StepRecord("a", max_attempts=1.5)]},  # type: ignore[arg-type]
        {"steps": [StepRecord("a", max_attempts=True)]},
        {"steps": [StepRecord("a"), StepRecord("b", "a")]},  # type: ignore[arg-type]
        {"template": 5},
        {"template_version": 5},
    ],
)
async def test_what_could_not_be_read_again_is_no_task(house: House, given: Any) -> None:
    lifecycle = lifecycle_of(house)
    with pytest.raises(InvalidInput):
        await lifecycle.create("pay", **given)
    assert (await lifecycle.list("all")).items == []


@pytest.mark.parametrize(
    "given",
    [
        {"state": "cancelled", "reason": 5},
        {"state": "cancelled", "metadata": [1]},
        {"state": "cancelled", "metadata": {"a": object()}},
        {"state": None},
        {"state": ["cancelled", "error"]},
        {"state": "cancelled", "from_state": 5},
    ],
)
async def test_a_move_that_could_not_be_read_again_is_refused(house: House, given: dict[str, Any]) -> None:
    """It was written, and nobody could read the task any more."""
    lifecycle = lifecycle_of(house)
    task = await lifecycle.create("pay")
    with pytest.raises(InvalidInput):
        await lifecycle.transition(task.task_id, **given)
    assert await lifecycle.get(task.task_id) == task


@pytest.mark.parametrize("name", [5, None, ""])
async def test_a_step_has_a_name(house: House, name: Any) -> None:
    lifecycle = lifecycle_of(house)
    task = await lifecycle.create("pay")
    with pytest.raises(InvalidInput):
        await lifecycle.begin_step(task.task_id, name)
    assert await lifecycle.get(task.task_id) == task


@pytest.mark.parametrize(
    "given", [{"reason": "nonsense"}, {"reason": None}, {"details": [1]}, {"details": {"a": object()}}]
)
async def test_a_letter_that_cannot_be_made_leaves_its_task_alone(house: House, given: dict[str, Any]) -> None:
    lifecycle = lifecycle_of(house)
    task = await lifecycle.create("pay")
    with pytest.raises(InvalidInput):
        await lifecycle.move_to_dlq(task.task_id, **given)
    assert await lifecycle.get(task.task_id) == task


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), "5"])
def test_a_step_takes_a_time(house: House, seconds: Any) -> None:
    with pytest.raises(InvalidInput, match="seconds"):
        lifecycle_of(house).with_options(seconds=seconds)


@pytest.mark.parametrize("what", ["context", "metadata", "result"])
async def test_what_is_too_large_for_a_task_is_refused_before_anything_is_written(house: House, what: str) -> None:
    of, large = house.app(dlq_max_task_bytes=1024).lifecycle, {"blob": "x" * 2000}
    task_id = (await of.create("pay", steps=[StepRecord("a")])).task_id
    before = await of.begin_step(task_id, "a")
    acts: dict[str, Any] = {
        "context": lambda: of.create("pay", large),
        "metadata": lambda: of.transition(task_id, "initializing", metadata=large),
        "result": lambda: of.complete_step(task_id, "a", large),
    }
    with pytest.raises(InvalidInput, match=f"{what} has 2011 bytes as JSON, more than the 1024 of dlq_max_task_bytes"):
        await acts[what]()
    assert [task for task in (await of.list("all")).items] == [before]


async def test_the_error_of_a_step_is_kept_as_far_as_there_is_room(house: House) -> None:
    of = lifecycle_of(house)
    task_id = (await of.create("pay", steps=[StepRecord("a", max_attempts=2)])).task_id
    for error in ("x" * 100_000, ValueError("y" * 100_000)):
        await of.begin_step(task_id, "a")
        await of.fail_step(task_id, "a", error)
        (step,) = (await of.get(task_id)).steps
        assert step.last_error is not None
        assert len(step.last_error) <= 32 * 1024


async def test_only_a_task_that_was_made_without_steps_gets_others(any_house: House) -> None:
    """A name that is mistyped would be a step that nobody runs to its end."""
    of = lifecycle_of(any_house)
    task_id = (await of.create("pay", steps=STEPS[:2])).task_id
    for name in "ab":
        await of.begin_step(task_id, name)
        await of.complete_step(task_id, name)
    before = await of.get(task_id)
    with pytest.raises(InvalidInput, match=f"task '{task_id}' has no step 'aa'; its steps: a, b"):
        await of.begin_step(task_id, "aa")
    assert await of.get(task_id) == before

    charge = (await of.create("charge", steps=[StepRecord("charge"), StepRecord("ship")])).task_id
    with pytest.raises(InvalidInput, match=r"has no step 'chrage'; did you mean 'charge'\?"):
        await of.begin_step(charge, "chrage")

    free = (await of.create("free")).task_id
    await of.begin_step(free, "x")
    assert [step.name for step in (await of.begin_step(free, "y")).steps] == ["x", "y"]
    with pytest.raises(InvalidInput, match="has no step 'z'; its steps: x, y"):
        await of.complete_step(free, "z")


CALLS: dict[str, Any] = {
    "create": lambda of, task_id: of.create("another"),
    "transition": lambda of, task_id: of.transition(task_id, "cancelled"),
    "change": lambda of, task_id: of.change(task_id, lambda task: task),
    "move_to_dlq": lambda of, task_id: of.move_to_dlq(task_id),
    "keep_alive": lambda of, task_id: of.keep_alive(task_id),
    "begin_step": lambda of, task_id: of.begin_step(task_id, "a"),
    "complete_step": lambda of, task_id: of.complete_step(task_id, "one"),
    "fail_step": lambda of, task_id: of.fail_step(task_id, "one", "boom", permanent=True),
    "finalize": lambda of, task_id: of.finalize(task_id),
}
WORK = {"keep_alive", "begin_step", "complete_step", "fail_step", "finalize"}
BILLING = Scope(adapters=frozenset({"billing"}))


@pytest.mark.parametrize("call", CALLS)
async def test_a_task_is_moved_by_who_may(house: House, call: str) -> None:
    """Work is reported by who may run it, with all that follows from that; the rest is for who may edit."""
    home, made = house.queue(), await lifecycle_of(house).create("pay", {"card": "4111"})
    await lifecycle_of(house).transition(made.task_id, "initializing")
    await lifecycle_of(house).transition(made.task_id, "steps_in_process")
    if call != "finalize":
        await lifecycle_of(house).begin_step(made.task_id, "one")

    async def outcome(who: Principal) -> type[Exception] | None:
        try:
            await CALLS[call](Lifecycle(home.for_actor(who).context), made.task_id)
        except (PermissionDenied, NoSuchTask) as problem:
            return type(problem)
        return None

    before = await tasks_in(house)
    assert await outcome(Principal.of_role("ann", "viewer")) is PermissionDenied
    outside = await outcome(Principal.of_role("bob", "operator", BILLING))
    assert outside is (PermissionDenied if call == "create" else NoSuchTask)
    assert await tasks_in(house) == before
    worker = Principal("w", frozenset({Permission.VIEW, Permission.RETRY}))
    editor = Principal("e", frozenset({Permission.VIEW, Permission.EDIT}))
    may, may_not = (worker, editor) if call in WORK else (editor, worker)
    assert await outcome(may_not) is PermissionDenied
    assert await outcome(may) is None
    letters = await home.list_tasks()
    if call in ("fail_step", "move_to_dlq"):
        assert [letter.task for letter in letters] == [{"card": "4111"}]


async def test_who_may_not_see_payloads_sees_a_task_without_them(house: House) -> None:
    of = lifecycle_of(house)
    made = await of.create("pay", {"card": "4111"})
    await of.transition(made.task_id, "initializing")
    await of.transition(made.task_id, "steps_in_process")
    await of.begin_step(made.task_id, "one")
    await of.complete_step(made.task_id, "one", {"card": "4111"})
    permissions = frozenset({Permission.VIEW, Permission.EDIT, Permission.RETRY})
    blind = Lifecycle(house.queue().for_actor(Principal("b", permissions)).context)
    shown = [await blind.get(made.task_id), *(await blind.list("all")).items, *await blind.next_ready_tasks()]
    shown += [await blind.keep_alive(made.task_id), await blind.begin_step(made.task_id, "two")]
    shown += [await blind.create("pay", {"card": "4111"}), await blind.transition(made.task_id, "cancelled")]
    assert "4111" not in repr(shown)
    assert (await of.get(made.task_id)).context.value == {"card": "4111"}
