"""`mahavishnu event`."""

from __future__ import annotations

import asyncio

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.stores.kinds import stored_kinds
from mahavishnu.stores.sqlite import SQLiteStore
from tests.support.command_line import Run

STORE = ("--store", "sqlite:///letters.db")


def publish() -> None:
    async def store() -> None:
        async with DeadLetterQueue(store=SQLiteStore("letters.db", kinds=stored_kinds())) as dlq:
            for order in (1, 2, 3):
                await dlq.domain_events.publish("order.paid", {"order": order}, mode="durable")

    asyncio.run(store())


def test_events_are_listed_and_acknowledged(run: Run) -> None:
    publish()
    listed = run("event", *STORE, "list", "--limit", "2")
    assert [line.split()[:2] for line in listed.out.splitlines()[1:]] == [["1", "order.paid"], ["2", "order.paid"]]
    assert '{"order": 1}' in listed.out
    assert "--after 2 goes on" in listed.err
    assert run("event", *STORE, "ack", "billing", "2").out == "billing has acknowledged the events up to 2\n"
    found = run("event", *STORE, "list", "--consumer", "billing", "--json").json
    assert ([each["number"] for each in found["events"]], found["next"]) == ([3], 3)
    assert run("event", *STORE, "list", "--name", "invoice.*").out.startswith("no such events")
    assert run("event", *STORE, "list", "--namespace", "eu").out.startswith("no such events")


def test_an_event_that_never_was_is_not_acknowledged(run: Run) -> None:
    publish()
    refused = run("event", *STORE, "ack", "billing", "7")
    assert refused.code != 0
    assert "there is no event 7" in refused.err
