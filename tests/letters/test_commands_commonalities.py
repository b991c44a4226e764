"""What letters have in common, in `group show` and `dlq show`."""

from __future__ import annotations

import asyncio

import pytest

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.stores.urls import open_store
from mahavishnu.testing import ManualClock, make_letter
from tests.support.command_line import Run
from tests.support.letters import NOON


@pytest.fixture(autouse=True)
def two_groups(home: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAHAVISHNU_DLQ_STORE_URL", "sqlite:///letters.db")

    async def keep() -> None:
        async with DeadLetterQueue(store=open_store("sqlite:///letters.db"), clock=ManualClock(NOON)) as dlq:
            for number in range(4):
                bad = {"currency": "EURO", "to": f"\x1b[2J{number}"}
                await dlq.context.letters.write(
                    [
                        make_letter(task_id=f"bad{number}", fingerprint="v1:bad", adapter="orders", task=bad),
                        make_letter(
                            task_id=f"good{number}",
                            fingerprint="v1:good",
                            adapter="orders",
                            task={"currency": "EUR", "to": f"jo{number}"},
                            status="completed",
                        ),
                    ]
                )

    asyncio.run(keep())


def test_a_group_says_what_its_letters_have_in_common(run: Run) -> None:
    done = run("group", "show", "v1:bad")
    assert done.code == 0, done.err
    lines = [line.split() for line in done.out.splitlines()]
    assert ["in", "common", "value", "here", "others"] in lines, done.out
    assert ["task.currency", '"EURO"', "4", "of", "4", "0", "%"] in lines
    assert "looked at: all 4 of the group, all 4 others of orders" in done.out


def test_a_letter_says_what_it_lacks(run: Run) -> None:
    done = run("dlq", "show", "bad1")
    assert done.code == 0, done.err
    assert ["task.currency", '"EURO"', '"EUR"', "(4)", "4", "of", "4"] in [
        line.split() for line in done.out.splitlines()
    ]
    assert "looked at: all 4 letters of orders that succeeded" in done.out
    assert "\x1b" not in done.out
    assert "succeeded" not in run("dlq", "show", "good1").out.partition("unlike")[2]
