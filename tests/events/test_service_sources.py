"""What happens to letters, tasks and steps as domain events: only after it was written, and where somebody wants it."""

from __future__ import annotations

from typing import Any

import pytest

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.events import rules as derived_events
from mahavishnu.events.rules import EventRules, letter_events
from mahavishnu.model.events import DomainEvent
from mahavishnu.tasks.records import TASKS
from mahavishnu.testing import START, turn
from tests.events.test_service import Heard
from tests.support.queues import NETWORK, House, Runs, fails, letter_of


async def stored(queue: DeadLetterQueue, count: int = 0) -> list[DomainEvent]:
    """The stored events, at least so many."""
    for _ in range(200):
        page = await queue.domain_events.read(limit=1000)
        if len(page.events) >= count:
            break
        await turn()
    return list(page.events)


async def test_with_nobody_subscribed_nothing_is_asked(house: House) -> None:
    """Neither by a capture nor by a tracked run."""
    app = house.app()
    asked = len(app.dlq.context.events._listeners)
    assert "domain_events" not in vars(app.dlq)
    app.events.subscribe(Heard(), "order.*")
    assert len(app.dlq.context.events._listeners) == asked, "who hears of orders only costs captures nothing"
    assert app.dlq.context.on_task_written is None


async def test_subscribers_hear_of_letters(house: House) -> None:
    app, heard = house.app(), Heard()
    end = app.events.subscribe(heard, "dlq.*")
    await fails(app, NETWORK)
    (event,) = await heard.reached(1)
    letter = await letter_of(app.dlq, "wf_1")
    assert (event.name, event.task_id) == ("dlq.captured", "wf_1")
    assert event.payload.value["fingerprint"] == letter.fingerprint
    assert event.payload.value["error_category"] == "network"
    assert "task" not in event.payload.value, "what the letter was given is in no event"
    end()
    await fails(app, NETWORK, "wf_2")
    assert len(heard.events) == 1


async def test_the_settings_say_what_is_stored(any_house: House) -> None:
    app = any_house.app(events={"durable_names": ["dlq.*"]}, dlq_default_max_retries=1)
    await fails(app, NETWORK)
    any_house.clock.advance(3600)
    await app.dlq.run_due()  # it is exhausted
    await app.dlq.requeue_from_dlq("wf_1")
    app.register_adapter("sweep", Runs("done"))
    any_house.clock.advance(1)
    await app.dlq.run_due()
    await app.dlq.archive_task("wf_1")
    await fails(app, NETWORK, "wf_2")
    await app.dlq.letters.fail("wf_2", by="ann")
    names = [
        "dlq.captured", "dlq.retry.started", "dlq.retry.failed", "dlq.exhausted", "dlq.requeued", "dlq.retry.started",
        "dlq.retry.succeeded", "dlq.archived", "dlq.captured", "dlq.permanently_failed",
    ]  # fmt: skip
    assert [event.name for event in await stored(app.dlq, len(names))] == names


async def test_what_a_letter_tells_of_has_the_id_that_was_published(house: House) -> None:
    app = house.app(events={"durable_names": ["dlq.*"]}, dlq_default_max_retries=1)
    await fails(app, NETWORK)
    house.clock.advance(3600)
    await app.dlq.run_due()
    await app.dlq.requeue_from_dlq("wf_1")
    events = await stored(app.dlq, 5)
    published = {event.event_id: event.name for event in events}
    derived = {event.event_id: event.name for event in letter_events(await letter_of(app.dlq, "wf_1"), START)}
    assert derived.items() <= published.items()
    assert sorted(derived.values()) == ["dlq.captured", "dlq.requeued", "dlq.retry.failed"]


@pytest.mark.parametrize(
    ("act", "name"),
    [
        ("resolve", "dlq.resolved"),
        ("cancel", "dlq.resolved"),
        ("fail", "dlq.permanently_failed"),
        ("archive", "dlq.archived"),
    ],
)
@pytest.mark.parametrize("exhausted", [False, True])
async def test_each_ending_is_derived_as_it_was_published(house: House, act: str, name: str, exhausted: bool) -> None:
    app = house.app(events={"durable_names": ["dlq.*"]}, dlq_default_max_retries=1)
    await fails(app, NETWORK)
    house.clock.advance(3600)
    if exhausted:
        await app.dlq.run_due()
        house.clock.advance(1)
    before = len(await stored(app.dlq, 4 if exhausted else 1))
    await getattr(app.dlq.letters, act)("wf_1", by="ann")
    (last,) = (await stored(app.dlq, before + 1))[before:]
    assert last.name == name
    found = {event.event_id: event.name for event in letter_events(await letter_of(app.dlq, "wf_1"), last.created_at)}
    assert found == {last.event_id: name}


async def test_an_ending_whose_name_is_not_certain_has_one_id_all_the_same(house: House) -> None:
    """A letter that was cancelled, reopened and archived: both end a case in the same way."""
    app = house.app(events={"durable_names": ["dlq.resolved", "dlq.archived"]})
    await fails(app, NETWORK)
    await app.dlq.letters.cancel("wf_1", by="ann")
    await app.dlq.resurrect("wf_1")
    house.clock.advance(1)
    await app.dlq.archive_task("wf_1")
    last = (await stored(app.dlq, 2))[1]
    assert last.name == "dlq.archived"
    assert last.event_id in {
        event.event_id for event in letter_events(await letter_of(app.dlq, "wf_1"), last.created_at)
    }


async def test_a_reload_changes_what_is_stored(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    app = house.app()
    monkeypatch.setenv("MAHAVISHNU_EVENTS__DURABLE_NAMES", '["dlq.captured"]')
    assert app.reload().error is None
    await fails(app, NETWORK)
    assert [event.name for event in await stored(app.dlq, 1)] == ["dlq.captured"]


class Shop:
    """An app with a tracked workflow of one step, which fails as often as it is told to."""

    def __init__(self, house: House, **settings: Any) -> None:
        self.app: MahavishnuApp = house.app(**settings)
        self.error: BaseException | None = None
        app = self.app

        async def charge() -> str:
            if self.error is not None:
                raise self.error
            return "paid"

        @app.workflow(name="ship", track=True)
        async def ship() -> str:
            return await app.lifecycle.with_options(max_attempts=2).step("charge", charge)

        self.ship = ship


@pytest.mark.parametrize(
    ("condition", "expected"),
    [("success", "s"), ("failure", "rp"), ("retryable_failure", "r"), ("permanent_failure", "p"), ("always", "rps")],
)
async def test_step_events_ask_their_condition(house: House, condition: str, expected: str) -> None:
    shop, heard = Shop(house), Heard()
    shop.app.events.subscribe(heard, ["order.*"])
    shop.app.events.publish_on_step("charge", "order.charged", condition)
    shop.app.events.publish_on_step("charge", "order.elsewhere", "always", workflow="other")
    shop.error = NETWORK
    with pytest.raises(ConnectionError):
        await shop.ship()
    house.clock.advance(3600)
    assert await shop.app.dlq.run_due() == 1  # the second attempt is its last one
    shop.error = None
    await shop.ship()
    kinds = {"waiting_for_retry": "r", "error": "p", "complete": "s"}
    await heard.reached(len(expected))
    assert "".join(kinds[event.payload.value["to_state"]] for event in heard.events) == expected
    assert {event.step for event in heard.events} == {"charge"}


async def test_a_step_is_complete_although_its_event_cannot_be_stored(
    house: House, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(house)
    shop.app.events.publish_on_step("charge", "order.charged", mode="durable")
    await shop.app.dlq.open()

    async def break_down(event: DomainEvent) -> DomainEvent:
        raise RuntimeError("the log is broken")

    monkeypatch.setattr(shop.app.events.log, "append", break_down)
    assert await shop.ship() == "paid"
    (task,) = (await shop.app.lifecycle.list("all")).items
    assert (task.state, task.steps[0].state) == ("complete", "complete")
    await shop.app.events.finish()
    assert shop.app.dlq.context.counts["durable_events_dropped"] == 1
    assert "the log is broken" in caplog.text


async def test_a_step_whose_end_was_not_written_has_no_event(house: House) -> None:
    shop, heard = Shop(house), Heard()
    shop.app.events.subscribe(heard, "*")
    shop.app.events.publish_on_step("charge", "order.charged", "always", mode="broadcast")

    house.faults.unavailable("write", kind=TASKS)
    assert await shop.ship() == "paid", "tracking hinders no run"
    await shop.app.events.finish()
    assert heard.events == []
    assert await stored(shop.app.dlq) == []


async def test_a_broken_event_does_not_hinder_a_step(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(house)
    shop.app.events.publish_on_step("charge", "order.charged")

    def break_down(*_: Any, **__: Any) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(derived_events, "_task_event", break_down)
    assert await shop.ship() == "paid"
    (task,) = (await shop.app.lifecycle.list("all")).items
    assert task.state == "complete"


async def test_the_moves_of_tasks_are_events_too(house: House) -> None:
    shop = Shop(house, events={"durable_names": ["task.complete", "step.complete"]})
    await shop.ship()
    await shop.app.events.finish()
    assert [event.name for event in await stored(shop.app.dlq, 2)] == ["step.complete", "task.complete"]


async def test_a_queue_of_its_own_hears_once_its_events_are_asked_for(house: House) -> None:
    queue = house.queue(rules=[EventRules(durable_names=("dlq.captured",))])
    queue.domain_events  # noqa: B018 - this begins it
    await queue.enqueue("wf_1", {}, [], NETWORK)
    assert [event.name for event in await stored(queue, 1)] == ["dlq.captured"]
