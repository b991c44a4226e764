"""Workers of several versions of one function: each runs what fits it, and burns nothing of the rest."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus
from mahavishnu.workers.rules import Worker
from tests.support.queues import NETWORK, House, letter_of, queue_of, settle

PENDING, COMPLETED, EXHAUSTED = DeadLetterStatus.PENDING, DeadLetterStatus.COMPLETED, DeadLetterStatus.EXHAUSTED


class Versions:
    """Apps that have `invoice` with other parameters; a first call fails."""

    def __init__(self, house: House) -> None:
        self.house, self.ran = house, list[Any]()
        self.failing = True

    def _run(self, *what: Any) -> None:
        self.ran.append(what)
        if self.failing:
            raise NETWORK

    def old(self) -> MahavishnuApp:
        app = self.house.app()

        @app.workflow("invoice", retry_policy="immediate")
        async def invoice(amount: int) -> None:
            self._run("old", amount)

        app.invoice = invoice  # type: ignore[attr-defined]
        return app

    def new(self) -> MahavishnuApp:
        app = self.house.app()

        @app.workflow("invoice", retry_policy="immediate")
        async def invoice(amount: int, *, currency: str) -> None:
            self._run("new", amount, currency)

        app.invoice = invoice  # type: ignore[attr-defined]
        return app

    async def call(self, app: Any, **arguments: Any) -> DeadLetter:
        with pytest.raises(type(NETWORK)):
            await app.invoice(**arguments)
        (letter,) = await queue_of(app).list_tasks()
        self.ran.clear()
        self.failing = False
        return letter


def counts(letter: DeadLetter) -> tuple[Any, ...]:
    return letter.status, letter.retry_count, letter.total_attempts, len(letter.failures)


@pytest.mark.parametrize("other_first", [True, False])
@pytest.mark.parametrize("made_by", ["old", "new"])
async def test_each_worker_runs_what_fits_its_version(any_house: House, made_by: str, other_first: bool) -> None:
    versions = Versions(any_house)
    apps = {"old": versions.old(), "new": versions.new()}
    given: dict[str, Any] = {"amount": 5} if made_by == "old" else {"amount": 5, "currency": "EUR"}
    made = await versions.call(apps[made_by], **given)
    other = apps["new" if made_by == "old" else "old"]
    if other_first:
        assert await queue_of(other).run_due() == 1
        refused = await letter_of(queue_of(other), made.task_id)
        assert counts(refused) == (PENDING, 0, 0, 1)
        assert refused.due_at is not None and refused.due_at <= any_house.clock.now(), "anybody may take it at once"
        assert refused.unfit is not None and "currency" in refused.unfit
        assert await queue_of(other).run_due() == 0, "it is left to others"
    await queue_of(apps[made_by]).run_due()
    done = await letter_of(queue_of(other), made.task_id)
    assert counts(done) == (COMPLETED, 0, 1, 1)
    assert done.unfit is None
    assert versions.ran == [(made_by, *given.values())]


async def test_workers_of_both_versions_share_the_letters(house: House) -> None:
    versions = Versions(house)
    old, new = versions.old(), versions.new()
    made = await versions.call(new, amount=5, currency="EUR")
    for app in (old, new):
        await app.start_dlq_processor()
    async with asyncio.timeout(10):
        while not versions.ran:
            await house.clock.sleeping(2)
            await settle()
            house.clock.advance(10)
    for app in (old, new):
        await queue_of(app).stop_retry_processor()
    done = await letter_of(queue_of(old), made.task_id)
    assert counts(done) == (COMPLETED, 0, 1, 1)


async def test_a_letter_that_fits_nobody_stays_open_and_says_why(any_house: House) -> None:
    versions = Versions(any_house)
    old = versions.old()
    queue = queue_of(old)
    await queue.enqueue("wf_1", {"curency": "EUR"}, [], "connection refused", "immediate", adapter="invoice")
    await queue.run_due()
    letter = await letter_of(queue, "wf_1")
    assert counts(letter) == (PENDING, 0, 0, 1)
    said = await queue.workers.why_waiting(letter)
    assert said is not None and "waiting for a worker" in said
    assert (await queue.get_statistics())["due_unfit"] == [], "they are due for a moment only"
    any_house.clock.advance(seconds=20)
    (unfit,) = (await queue.get_statistics())["due_unfit"]
    assert (unfit["adapter"], unfit["count"], unfit["why"]) == ("invoice", 1, letter.unfit)
    assert any("waiting for a worker whose 'invoice' takes its task" in each for each in await queue.health_warnings())
    answer = await queue.retry_task("wf_1")
    assert not answer["success"]
    assert "nothing was run: curency is no parameter" in answer["error"]
    assert counts(await letter_of(queue, "wf_1")) == (PENDING, 0, 0, 1)
    assert versions.ran == []


async def test_an_edit_makes_it_fit(any_house: House) -> None:
    versions = Versions(any_house)
    versions.failing = False
    old = versions.old()
    queue = queue_of(old)
    await queue.enqueue("wf_1", {"amout": 5}, [], "connection refused", "immediate", adapter="invoice")
    await queue.run_due()
    await queue.letters.edit("wf_1", task={"amount": 7})
    assert (await letter_of(queue, "wf_1")).unfit is None
    await queue.run_due()
    assert counts(await letter_of(queue, "wf_1")) == (COMPLETED, 0, 1, 1)
    assert versions.ran == [("old", 7)]


async def test_who_gets_the_function_later_runs_what_it_refused(any_house: House) -> None:
    versions = Versions(any_house)
    versions.failing = False
    old = versions.old()
    queue = queue_of(old)
    task = {"amount": 5, "currency": "EUR"}
    await queue.enqueue("wf_1", task, [], "connection refused", "immediate", adapter="invoice")
    await queue.run_due()
    assert counts(await letter_of(queue, "wf_1")) == (PENDING, 0, 0, 1)

    async def invoice(task: Any, repos: list[str]) -> None:
        versions.ran.append(task)

    old.register_adapter("invoice", invoice)
    await queue.run_due()
    assert counts(await letter_of(queue, "wf_1")) == (COMPLETED, 0, 1, 1)
    assert versions.ran == [task]


async def test_who_is_left_with_misfits_helps_with_letters_of_other_shares(house: House) -> None:
    versions = Versions(house)
    versions.failing = False
    old = versions.old()
    queue = queue_of(old)
    for number in range(4):
        task = {"amount": number, "currency": "EUR"}
        await queue.enqueue(f"new_{number}", task, [], "connection refused", "immediate", adapter="invoice")
    await queue.run_due()
    now = house.clock.now()
    busy = Worker("busy", now, now, adapters=("invoice",))
    queue.processing.workers.known = [busy]
    for number in range(40):
        await queue.enqueue(
            f"old_{number}", {"amount": number}, [], "connection refused", "immediate", adapter="invoice"
        )
    house.clock.advance(seconds=11)
    await queue.run_due()
    assert sorted(versions.ran) == [("old", number) for number in range(40)]
