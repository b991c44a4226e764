"""A letter that cannot be handled, and one whose dates are at the end of time, stop nobody else's."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from mahavishnu.bulk.run import ItemState, RunState
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model import lifecycle
from mahavishnu.model.clock import LAST_INSTANT
from mahavishnu.model.letter import DeadLetter, FormerLetter
from mahavishnu.testing.clock import START
from mahavishnu.testing.letters import make_letter
from mahavishnu.workers.leases import LeaseTable
from tests.support.queues import House, Runs, letter_of

FIRST, LAST = "aa-poison", "zz-poison"  # one comes before all others, and one after them
SOUND = [f"wf_{number}" for number in range(4)]


async def poisoned(dlq: DeadLetterQueue, **poison: Any) -> DeadLetterQueue:
    """The queue with due letters, two of which have these values. As an earlier version may have stored them."""
    letters = [make_letter(task_id=name, task=name) for name in SOUND]
    letters += [
        make_letter(task_id=name, task=name, priority=priority, **poison)
        for name, priority in ((FIRST, 1000), (LAST, -1000))
    ]
    await dlq.context.open()
    assert None not in await dlq.context.letters.write(letters)
    return dlq


def refuse(real: Callable[..., DeadLetter]) -> Callable[..., DeadLetter]:
    """The same, but for the poisoned letters it raises what nobody expects."""

    def change(letter: DeadLetter, *now: Any, **changes: Any) -> DeadLetter:
        if letter.task_id in (FIRST, LAST):
            raise OverflowError("date value out of range")
        return real(letter, *now, **changes)

    return change


@pytest.fixture
def defect(monkeypatch: pytest.MonkeyPatch) -> None:
    """No move of the poisoned letters is possible."""
    monkeypatch.setattr(lifecycle, "change_letter", refuse(lifecycle.change_letter))


async def test_letters_of_the_last_instant_are_run_like_the_others(any_house: House) -> None:
    runs = Runs()
    dlq = await poisoned(any_house.queue(runs), updated_at=LAST_INSTANT, created_at=LAST_INSTANT, due_at=START)
    assert await dlq.processing.run_due() == 6
    assert sorted(runs.tasks) == [FIRST, *SOUND, LAST]
    assert (await letter_of(dlq, FIRST)).status == "completed"


async def test_letters_of_the_last_instant_can_be_claimed_moved_and_counted(any_house: House) -> None:
    dlq = await poisoned(any_house.queue(), updated_at=LAST_INSTANT)
    claims = await dlq.claims.claim("w", limit=10)
    assert len(claims) == 6
    for claim in claims:
        await dlq.claims.settle(claim.letter.task_id, claim.token, "failed", error="connection refused")
    run = await dlq.runs.start("redrive", everything=True, by="ann")
    while await dlq.runs.advance():
        pass
    assert (await dlq.runs.get(run.run_id)).counts.moved == 6
    assert len((await dlq.letters.archive_many(everything=True)).done) == 6
    assert (await dlq.letters.redrive(FIRST)).updated_at == LAST_INSTANT
    assert (await dlq.get_statistics())["lifetime_stats"]["archived"] == 6


async def test_a_lease_until_the_last_instant_holds_up_nobody(any_house: House) -> None:
    runs = Runs()
    dlq = await poisoned(any_house.queue(runs), status="retrying", due_at=LAST_INSTANT)
    assert await dlq.processing.run_due() == 4
    run = await dlq.runs.start("resolve", everything=True, by="ann")
    while await dlq.runs.advance():
        pass
    assert (await dlq.runs.get(run.run_id)).counts.refused == 4  # they are completed


@pytest.mark.usefixtures("defect")
async def test_a_letter_that_no_worker_can_claim_is_named_and_the_others_run(
    any_house: House, caplog: pytest.LogCaptureFixture
) -> None:
    runs = Runs()
    dlq = await poisoned(any_house.queue(runs))
    assert await dlq.processing.run_due() == 4
    assert sorted(runs.tasks) == SOUND
    assert all(f"letter '{name}' cannot be claimed" in caplog.text for name in (FIRST, LAST))


@pytest.mark.usefixtures("defect")
async def test_a_letter_that_cannot_be_claimed_from_elsewhere_is_named_and_the_others_are_handed_out(
    any_house: House, caplog: pytest.LogCaptureFixture
) -> None:
    dlq = await poisoned(any_house.queue())
    assert sorted(claim.letter.task_id for claim in await dlq.claims.claim("w", limit=10)) == SOUND
    assert f"letter '{FIRST}' cannot be claimed" in caplog.text


@pytest.mark.usefixtures("defect")
async def test_a_letter_that_cannot_be_moved_is_refused_by_name_and_the_others_are_moved(any_house: House) -> None:
    dlq = await poisoned(any_house.queue())
    for dry_run in (True, False):
        result = await dlq.letters.archive_many(everything=True, dry_run=dry_run)
        assert sorted(result.done) == SOUND
        assert {*result.refused} == {FIRST, LAST}
        assert "OverflowError: date value out of range" in result.refused[FIRST]


@pytest.mark.usefixtures("defect")
async def test_a_letter_that_a_bulk_run_cannot_move_is_refused_and_the_run_ends(any_house: House) -> None:
    dlq = await poisoned(any_house.queue())
    assert (await dlq.runs.preview("resolve", everything=True)).eligible >= 4
    run = await dlq.runs.start("resolve", everything=True, by="ann")
    any_house.clock.advance(1)
    while await dlq.runs.advance():
        pass
    run = await dlq.runs.get(run.run_id)
    assert (run.state, run.counts.moved, run.counts.refused) == (RunState.DONE, 4, 2)
    refused = await dlq.runs.items(run.run_id, state=ItemState.REFUSED)
    assert {item.key: item.why for item in refused.items} == dict.fromkeys(
        (FIRST, LAST), "it cannot be handled: OverflowError: date value out of range"
    )


async def test_a_lease_that_can_be_neither_renewed_nor_given_back_does_not_end_the_others(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    dlq = await poisoned(house.queue())
    table = LeaseTable(dlq.context, Counter())
    leased = [
        table.add(claim.letter, claim.token, claim.letter.key, "sweep")
        for claim in await dlq.claims.claim("w", limit=10)
    ]
    monkeypatch.setattr(lifecycle, "change_letter", refuse(lifecycle.change_letter))
    house.clock.advance(minutes=1)
    assert [each.key for each in leased if not await table.renew(each)] == [FIRST, LAST]
    await asyncio.gather(*map(table.give_back, leased))
    assert len(table) == 0
    assert all(f"the lease on letter '{name}' could not be renewed" in caplog.text for name in (FIRST, LAST))
    assert [(await letter_of(dlq, name)).status for name in (*SOUND, FIRST)] == ["pending"] * 4 + ["retrying"]


async def test_a_letter_that_cannot_be_let_in_waits_and_the_others_are_let_in(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    dlq = await poisoned(house.queue())
    again = [FormerLetter.of(make_letter(task_id=name, task=name)) for name in (FIRST, *SOUND)]
    assert None not in await dlq.context.waiting.collection.write(again)
    monkeypatch.setattr(lifecycle, "recover", refuse(lifecycle.recover))
    assert await dlq.intake.admit_waiting() == 4
    assert await dlq.context.waiting.count() == 1
    assert f"letter '{FIRST}' cannot be let in" in caplog.text
