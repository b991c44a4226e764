"""Storage of bulk runs: the run record, its pages of members, and the outcomes counted over letters."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from mahavishnu.engine.context import QueueContext
from mahavishnu.model.bulk_run import BulkRun, ItemOutcome, RunPage, marks_for, page_key
from mahavishnu.model.errors import NoSuchRun, StoreError, StoreUnavailable
from mahavishnu.model.ids import DEFAULT_NAMESPACE
from mahavishnu.model.namespaces import ALL_NAMESPACES
from mahavishnu.model.query import Is, Not, Query
from mahavishnu.stores.base import Collection, Result, get_one, scan, write_one
from mahavishnu.stores.kinds import RUN_PAGES, RUNS

READ = 20  # pages read at once


class RunLeaseLost(Exception):
    """Another process works on the run, or has ended it."""


class PageConflict(Exception):
    """Another process has written the page."""


class RunStore:
    """The collections that runs, their pages and their letters are in."""

    def __init__(self, context: QueueContext) -> None:
        self.runs = context.own_records(RUNS)
        self.pages = context.store.collection(RUN_PAGES)
        self.letters, self.history = context.letters, context.history
        self._namespace = context.namespace
        self._principal = context.principal

    def sees(self, run: BulkRun) -> bool:
        """Whether who asks sees the run. It does not say whose letters it has: of a part of them, its starter does."""
        who = self._principal
        return (
            who is None
            or who.scope.covers_whole(run.namespace or DEFAULT_NAMESPACE)
            or run.by == who.name
            or run.by.endswith(f" (token of {who.name})")
        )

    async def get(self, run_id: str) -> BulkRun:
        """The run as it is stored. Raises NoSuchRun, also for one of another namespace, and StoreError."""
        run = await get_one(self.runs, run_id)
        if (
            run is None
            or not self.sees(run)
            or self._namespace not in (ALL_NAMESPACES, run.namespace or DEFAULT_NAMESPACE)
        ):
            raise NoSuchRun(run_id)
        return run

    async def create_pages(self, pages: Sequence[RunPage]) -> None:
        """Write new pages. Raises RunLeaseLost if another process has written one of them, StoreError."""
        for result in await self.pages.write(pages):
            _require_page(result)

    async def read_pages(self, run: BulkRun, numbers: Sequence[int]) -> list[RunPage]:
        """These pages of the run as they are stored. Raises StoreUnavailable if one cannot be seen, StoreError."""
        keys = [page_key(run.run_id, run.plan or "", number) for number in numbers]
        pages = await self.pages.get(keys)
        for key, page in zip(keys, pages, strict=True):
            if page is None:  # another process may still have to drain it from its local store
                raise StoreUnavailable(f"page {key!r} of a bulk run cannot be seen now")
        return [_require_page(page) for page in pages]

    async def replace_page(self, page: RunPage) -> RunPage:
        """Write a changed page. Raises PageConflict, StoreError."""
        written = await write_one(self.pages, page)
        if written is None:
            raise PageConflict
        return written

    async def remove_other_plans(self, run_id: str, plan: str) -> None:
        """Remove the pages of plans that were not completed: nothing reads them."""
        others = Query((Is("run_id", (run_id,)), Not(Is("plan", (plan,)))))
        if pages := [page async for page in scan(self.pages, others)]:
            await self.pages.remove(pages)

    async def count_outcomes(self, run_id: str, *, whole: bool = False) -> dict[ItemOutcome | None, int]:
        """How many letters that the run redrove have each outcome; None: no outcome yet.

        Raises StoreUnavailable if the counts have to be `whole` and the store does not see every letter.
        """
        known: dict[ItemOutcome | None, int] = dict.fromkeys((None, *ItemOutcome), 0)
        both: tuple[Collection[Any], ...] = (self.letters, self.history)
        asked = [(outcome, collection) for collection in both for outcome in known]
        tallies = await asyncio.gather(
            *(
                collection.tally(Query((Is("run_outcomes", marks_for(run_id, outcome)),)))
                for outcome, collection in asked
            )
        )
        for (outcome, _), tally in zip(asked, tallies, strict=True):
            if whole and tally.degraded:
                raise StoreUnavailable(tally.degraded)
            known[outcome] += tally.total.count
        return known


def _require_page(result: Result[RunPage]) -> RunPage:
    if isinstance(result, StoreError):
        raise result
    if result is None:
        raise RunLeaseLost
    return result
