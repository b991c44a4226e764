"""How often a page asks the store: each read costs a request to a shared store, and somebody waits for all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from mahavishnu.console.console import Console
from mahavishnu.console.recent_reads import RecentReads
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.testing import Faults, FaultyStore, ManualClock
from mahavishnu.testing.faults import READS, Call
from tests.support.api import ApiHarness, harness_for
from tests.support.pages import read

GROUP_PAGE_READS = 15
GROUP, OTHER = "9f3c", "77aa"


class Reads(Faults):
    """No faults: a list of the reads of a store."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    async def enter(self, call: Call) -> None:
        if call.operation in READS:
            self.seen.append(
                f"{call.operation} {call.kind and call.kind.name}: {getattr(call.given, 'where', call.given)}"
            )
        await super().enter(call)


@pytest.fixture
def reads() -> Reads:
    return Reads()


@pytest.fixture
async def api(reads: Reads) -> AsyncIterator[ApiHarness]:
    """A console with a group of ten letters that has a note, another one, and a bulk run."""
    clock = ManualClock()
    dlq = DeadLetterQueue(store=FaultyStore(MemoryStore(), reads), clock=clock)
    async for made in harness_for(dlq, clock):
        for number in range(10):
            created = clock.now() - timedelta(hours=6 * number)
            await made.keep(f"order-{number}", fingerprint=GROUP, created_at=created)
        await made.keep("mail-1", fingerprint=OTHER)
        await dlq.groups.update(GROUP, by="ann", note="the database was away")
        await dlq.runs.start("redrive", fingerprint=GROUP, by="ann", ramp=[1])
        yield made


def console_of(api: ApiHarness) -> Console:
    transport: Any = api.client._transport
    console: Console = transport.app.state.console
    return console


async def count(api: ApiHarness, reads: Reads, path: str, *, navigation: bool) -> list[str]:
    """Return the reads of a page that nobody looked at lately; with `navigation`, also those of its numbers."""
    await read(api, path)
    console_of(api).recent = RecentReads(api.clock, api.clock)  # its time stands still, however busy this machine is
    api.clock.advance(timedelta(minutes=1))
    if not navigation:
        await read(api, "/settings")
    reads.seen.clear()
    await read(api, path)
    return reads.seen


async def test_a_group_page_reads_everything_once(api: ApiHarness, reads: Reads) -> None:
    seen = await count(api, reads, f"/groups/{GROUP}", navigation=False)
    assert len(seen) <= GROUP_PAGE_READS, "\n".join(seen)


async def test_so_does_the_page_of_a_closed_group(api: ApiHarness, reads: Reads) -> None:
    await api.dlq.letters.resolve("mail-1", by="ann")
    seen = await count(api, reads, f"/groups/{OTHER}", navigation=False)
    assert len(seen) <= GROUP_PAGE_READS, "\n".join(seen)


@pytest.mark.parametrize(("path", "most"), [(f"/groups/{GROUP}", 53), ("/", 58), ("/letters/order-1", 48)])
async def test_no_page_asks_again_what_the_navigation_asks(api: ApiHarness, reads: Reads, path: str, most: int) -> None:
    seen = await count(api, reads, path, navigation=True)
    assert len(seen) <= most, f"{len(seen)} reads:\n" + "\n".join(seen)
