"""Where bulk runs, their pages and the letters are, and how far a run is by what is written there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mahavishnu.bulk.members import Lost, Movers, members
from mahavishnu.model import bulk_run
from mahavishnu.model.bulk_run import (
    ACTIVE,
    PAGE,
    BulkRun,
    ItemOutcome,
    ItemState,
    RunCounts,
    RunItem,
    RunPage,
    RunState,
)
from mahavishnu.model.errors import StoreError, StoreUnavailable
from mahavishnu.model.letter import DeadLetter, FormerLetter
from mahavishnu.model.query import Is, Not, Query, query_from_json
from mahavishnu.stores.base import Collection, Result, scan

READ = 20  # pages read at once


@dataclass(frozen=True, slots=True)
class Shelves:
    """Where runs, their pages and the letters are."""

    runs: Collection[BulkRun]
    pages: Collection[RunPage]
    letters: Collection[DeadLetter]
    history: Collection[FormerLetter]

    async def freeze(self, run: BulkRun, plan: str, go_on: Callable[[], Awaitable[object]]) -> tuple[int, RunCounts]:
        """Write down who the members are, for this plan. Returns how many pages that takes, and the counts.

        `go_on` is awaited now and then, and may raise. Raises StoreError, and Lost.
        """
        items: list[RunItem] = []
        pages, counts = 0, RunCounts()
        query = query_from_json(run.query.value)
        async for found, corrupt in members(self.letters, query, run.created_at):
            items += [RunItem(letter.key, letter.entry_id) for letter in found]
            items += [RunItem(getattr(problem, "key", "?"), "", ItemState.REFUSED, str(problem)) for problem in corrupt]
            whole = len(items) // PAGE * PAGE
            pages, counts = await self._written(run, plan, pages, counts, items[:whole])
            items = items[whole:]
            await go_on()
        return await self._written(run, plan, pages, counts, items)

    async def _written(
        self, run: BulkRun, plan: str, pages: int, counts: RunCounts, items: Sequence[RunItem]
    ) -> tuple[int, RunCounts]:
        made = bulk_run.split_into_pages(run.run_id, plan, pages, items)
        for result in await self.pages.write(made) if made else []:
            stored(result)
        return pages + len(made), counts.plus(bulk_run.count_items(items))

    async def remove_others(self, run_id: str, plan: str) -> None:
        """Remove the pages of plans that came to nothing: nobody looks at them."""
        others = Query((Is("run_id", (run_id,)), Not(Is("plan", (plan,)))))
        await self.pages.remove([page async for page in scan(self.pages, others)])

    async def read(self, run: BulkRun, numbers: Sequence[int]) -> list[RunPage]:
        """These pages of the run as they are now."""
        keys = [bulk_run.page_key(run.run_id, run.plan or "", number) for number in numbers]
        pages = await self.pages.get(keys)
        for key, page in zip(keys, pages, strict=True):
            if page is None:  # it may be on its way from a local store of somebody else
                raise StoreUnavailable(f"page {key!r} of a bulk run cannot be seen now")
        return [stored(page) for page in pages]

    async def shown(self, run: BulkRun, numbers: Sequence[int]) -> list[RunPage]:
        """The same for people: of a run that was stopped after its holder had died, nobody else recognises members."""
        pages = await self.read(run, numbers)
        if run.lease is None or run.state in ACTIVE:
            return pages
        for number, page in enumerate(pages):
            places = [place for place, item in enumerate(page.items) if item.state is ItemState.WAITING]
            if not places:
                continue
            waiting = [page.items[place] for place in places]
            found = dict(zip(places, await self.movers(run).recognise(waiting), strict=True))
            items = tuple(found.get(place, item) for place, item in enumerate(page.items))
            pages[number] = replace(page, items=items)
            if any(item.is_fresh for item in waiting):  # behind this page there is nothing to recognise
                break
        return pages

    def movers(self, run: BulkRun) -> Movers:
        """What tells the run's members apart."""
        return Movers(self.letters, self.history, self.runs, run.run_id, run.awaits_outcomes)

    async def outcomes(self, run_id: str, *, whole: bool = False) -> dict[ItemOutcome | None, int]:
        """How many of the letters that the run has moved have come to what; None for those that it is open for.

        Raises StoreUnavailable where it has to be the `whole` truth, and is not.
        """
        known: dict[ItemOutcome | None, int] = dict.fromkeys((None, *ItemOutcome), 0)
        both: tuple[Collection[Any], ...] = (self.letters, self.history)
        asked = [(outcome, collection) for collection in both for outcome in known]
        tallies = await asyncio.gather(
            *(
                collection.tally(Query((Is("run_outcomes", bulk_run.marks_for(run_id, outcome)),)))
                for outcome, collection in asked
            )
        )
        for (outcome, _), tally in zip(asked, tallies, strict=True):
            if whole and tally.degraded:
                raise StoreUnavailable(tally.degraded)
            known[outcome] += tally.total.count
        return known

    async def up_to_date(self, run: BulkRun) -> BulkRun:
        """The run with counts as they are now, also while somebody carries it on."""
        if run.plan is None or run.state is RunState.DONE:
            return run
        if run.lease is not None:
            counts = RunCounts()
            for start in range(0, run.pages, READ):
                for page in await self.shown(run, range(start, min(start + READ, run.pages))):
                    counts = counts.plus(bulk_run.count_items(page.items))
            run = replace(run, counts=counts)
        if run.awaits_outcomes:
            known = await self.outcomes(run.run_id)
            run = replace(run, counts=replace(run.counts, **{str(how): known[how] for how in ItemOutcome}))
        return run


def stored(result: Result[RunPage]) -> RunPage:
    """The page that was read or written. Raises Lost if somebody else has written it, StoreError."""
    if isinstance(result, StoreError):
        raise result
    if result is None:
        raise Lost
    return result
