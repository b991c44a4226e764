"""Working on a list page by page: two pages at once, and no page after one that failed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from mahavishnu.archive.archiving import work_on_pages


class Work:
    """Notes what begins and ends; each page ends when it is told to."""

    def __init__(self, pages: int) -> None:
        self.pages, self.events = pages, list[str]()
        self.begun = [asyncio.Event() for _ in range(pages)]
        self.ends = [asyncio.get_running_loop().create_future() for _ in range(pages)]

    async def read(self) -> AsyncIterator[int]:
        for page in range(self.pages):
            self.events.append(f"read {page}")
            yield page

    async def do(self, page: int) -> None:
        self.begun[page].set()
        try:
            await self.ends[page]
            self.events.append(f"done {page}")
        except asyncio.CancelledError:
            self.events.append(f"cancelled {page}")
            raise


async def test_two_pages_are_worked_on_and_the_next_is_read_when_one_has_ended() -> None:
    work = Work(4)
    whole = asyncio.create_task(work_on_pages(work.read(), work.do))
    await work.begun[1].wait()
    assert work.events == ["read 0", "read 1"]
    work.ends[1].set_result(None)
    await work.begun[2].wait()
    assert work.events == ["read 0", "read 1", "done 1", "read 2"]
    for page in (0, 2, 3):
        work.ends[page].set_result(None)
    await whole
    assert sorted(work.events) == sorted(f"{verb} {page}" for verb in ("read", "done") for page in range(4))


async def test_what_fails_is_raised_as_it_is_and_the_others_have_ended() -> None:
    work = Work(4)
    whole = asyncio.create_task(work_on_pages(work.read(), work.do))
    await work.begun[1].wait()
    work.ends[1].set_exception(KeyError("broken"))
    with pytest.raises(KeyError, match="broken"):
        await whole
    assert work.events == ["read 0", "read 1", "cancelled 0"]


async def test_who_is_cancelled_leaves_nothing_running() -> None:
    work = Work(3)
    whole = asyncio.create_task(work_on_pages(work.read(), work.do))
    await work.begun[1].wait()
    whole.cancel()
    with pytest.raises(asyncio.CancelledError):
        await whole
    assert sorted(work.events) == ["cancelled 0", "cancelled 1", "read 0", "read 1"]
