"""Bulk runs: what is to be done to all that a query means, as something that lasts, and can be watched and stopped."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeVar

from mahavishnu.bulk.preview import RunPreview, previewed
from mahavishnu.bulk.run_store import READ, Shelves
from mahavishnu.bulk.runner import LEASE_SECONDS, Runner
from mahavishnu.bulk.verbs import RunVerbs, known
from mahavishnu.engine.background import PeriodicTask
from mahavishnu.engine.context import QueueContext
from mahavishnu.model import bulk_rules
from mahavishnu.model.bulk_run import BulkRun, ItemOutcome, ItemState, RunItem, RunState
from mahavishnu.model.errors import InvalidInput, NoSuchRun, StoreUnavailable
from mahavishnu.model.events import EventName
from mahavishnu.model.ids import new_entry_id
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import FormerLetter
from mahavishnu.model.letter_parts import UNCHANGED, Unchanged
from mahavishnu.model.query import Is, Query, Sort, filter_query, query_to_json, require_query
from mahavishnu.stores.base import Collection, Cursor, Page, get_one, write_one
from mahavishnu.stores.codec import LETTERS
from mahavishnu.stores.runs import RUN_PAGES, RUNS

E = TypeVar("E", bound=StrEnum)
LOOK_SECONDS = 2.0  # between two looks for runs that are due
MOST_ITEMS = 10_000
_TRIES = 50


@dataclass(frozen=True, slots=True)
class RunItems:
    """Members of a run, in the order in which they are moved; `next` goes on after them."""

    items: tuple[RunItem, ...]
    next: Cursor | None = None


class Bulk:
    """The part of `DeadLetterQueue` that starts, shows, stops and carries on bulk runs.

    The methods raise NoSuchRun for a run that there is not, IllegalRunMove for what its state does not allow,
    InvalidInput for what cannot be, and StoreError.
    """

    context: QueueContext
    _shelves: Shelves
    _run_verbs: RunVerbs
    _runner: Runner
    _carrying: PeriodicTask

    async def preview_run(
        self,
        verb: str,
        query: Query | None = None,
        *,
        ramp: Sequence[int] | None = None,
        max_per_second: float | None = None,
        stop_percent: float | None = None,
        patch: Any = None,
        redrive: bool = False,
        everything: bool = False,
        **filters: Any,
    ) -> RunPreview:
        """What `start_run` with the same arguments would do. Nothing is changed.

        Letters are read one by one up to a thousand, and beyond that where the verb has to see each (an edit, a redrive
        with a patch, a regrouping); otherwise those in one state are counted together.

        preview = await dlq.preview_run("redrive", fingerprint="9f3c", status="exhausted")
        """
        await self.context.open()
        run = self._wanted(verb, query, filters, patch, redrive=redrive, everything=everything)
        run = _going(run, ramp, max_per_second, stop_percent)
        return await previewed(self.context.letters, run, self._run_verbs)

    async def start_run(
        self,
        verb: str,
        query: Query | None = None,
        *,
        by: str,
        reason: str | None = None,
        ramp: Sequence[int] | None = None,
        max_per_second: float | None = None,
        stop_percent: float | None = None,
        patch: Any = None,
        redrive: bool = False,
        everything: bool = False,
        **filters: Any,
    ) -> BulkRun:
        """Have `verb` done to every letter that the query means now: redrive, archive, resolve, cancel, fail or edit.

        It is on record when this returns, and running processors carry it on, whatever becomes of this process: each
        letter is moved once. Letters captured later are no members. An edit needs a `patch` (RFC 7386) of the tasks; a
        redrive may have one, and an edit with `redrive` is one: both then happen in one write.

        `ramp` are the sizes of the first waves: each waits until the letters before it have been run. With
        `stop_percent` the run halts as soon as more than so many percent of the redriven letters have failed again,
        and the ramp is 1, 5, 25 unless another one is given; `()` moves all at once. `max_per_second` is how many
        letters are moved at most in a second.

            run = await dlq.start_run("redrive", fingerprint="9f3c", by="ann", stop_percent=20)
        """
        await self.context.open()
        run = self._wanted(verb, query, filters, patch, redrive=redrive, everything=everything)
        run = _going(replace(run, by=by, reason=reason), ramp, max_per_second, stop_percent)
        async with self.context.audit.record("run.start", f"run:{run.run_id}", by=by, reason=reason) as record:
            record.add(verb=run.verb, query=run.query.value["where"], patch=run.patch and run.patch.value)
            record.add(ramp=list(run.ramp), max_per_second=max_per_second, stop_percent=stop_percent)
            stored = await write_one(self._shelves.runs, run)
            if stored is None:  # ids are random: nobody else has this one
                raise StoreUnavailable(f"bulk run {run.run_id} is there already")
        self._run_verbs.changed(stored, EventName.RUN_STARTED)
        self._carrying.wake()
        return stored

    async def get_run(self, run_id: str) -> BulkRun:
        """The run as it is, with what became of its letters up to now."""
        await self.context.open()
        return await self._shelves.up_to_date(await self._run(run_id))

    async def list_runs(
        self, state: RunState | str | None = None, *, limit: int = 50, after: Cursor | str | None = None
    ) -> Page[BulkRun]:
        """Runs, newest first. The counts of one that is being carried on may be some seconds old."""
        await self.context.open()
        where = () if state is None else (Is("state", (_member(RunState, state, "state"),)),)
        query = Query(where, (Sort("created_at", descending=True), Sort("run_id", descending=True)), limit)
        return await self._shelves.runs.find(query, _cursor(after))

    async def run_items(
        self,
        run_id: str,
        *,
        state: ItemState | str | None = None,
        outcome: ItemOutcome | str | None = None,
        limit: int = 100,
        after: Cursor | str | None = None,
    ) -> RunItems:
        """The members of a run, and what became of each: all, or those in a state or with an outcome."""
        if type(limit) is not int or not 1 <= limit <= MOST_ITEMS:
            raise InvalidInput(f"limit must be a whole number from 1 to {MOST_ITEMS}, not {limit!r:.80}")
        wanted_state = None if state is None else _member(ItemState, state, "state")
        wanted_outcome = None if outcome is None else _member(ItemOutcome, outcome, "outcome")
        await self.context.open()
        run = await self._run(run_id)
        first, skip = _position(_cursor(after))
        found: list[RunItem] = []
        if run.plan is None:
            return RunItems(())
        async for number, items in self._items(run, first):
            for place, item in enumerate(items):
                if (number, place) < (first, skip):
                    continue
                if wanted_state not in (None, item.state) or wanted_outcome not in (None, item.outcome):
                    continue
                if len(found) == limit:
                    return RunItems(tuple(found), Cursor((number, place)))
                found.append(item)
        return RunItems(tuple(found))

    async def pause_run(self, run_id: str, *, by: str, reason: str | None = None) -> BulkRun:
        """Hold the run up. What is being moved at this moment, one page of letters at most, is still moved."""
        return await self._changed_run(
            "run.pause", run_id, by, reason, lambda run: bulk_rules.pause(run, self.context.clock.now())
        )

    async def resume_run(
        self,
        run_id: str,
        *,
        by: str,
        reason: str | None = None,
        stop_percent: float | Unchanged | None = UNCHANGED,
    ) -> BulkRun:
        """Go on with a paused or halted run, perhaps with another stop rule (None: without one).

        Raises IllegalRunMove, naming a rule with which it goes on, where it has halted and would do so again at once.
        """
        return await self._changed_run(
            "run.resume", run_id, by, reason, lambda run: bulk_rules.resume(run, self.context.clock.now(), stop_percent)
        )

    async def cancel_run(self, run_id: str, *, by: str, reason: str | None = None) -> BulkRun:
        """End the run for ever. What was moved stays moved; the other members are left alone."""
        return await self._changed_run(
            "run.cancel", run_id, by, reason, lambda run: bulk_rules.cancel(run, self.context.clock.now())
        )

    async def work_runs(self) -> bool:
        """Carry on every run that is due, until it has to wait. Returns whether anything was done.

        A running processor does this by itself.
        """
        await self.context.open()
        return await self._runner.look()

    # --- inside

    def _prepare_runs(self, history: Collection[FormerLetter]) -> None:
        """What this part needs, once the queue has its own."""
        pages = self.context.store.collection(RUN_PAGES)
        self._shelves = Shelves(self.context.store.collection(RUNS), pages, self.context.letters, history)
        self._run_verbs = RunVerbs(self.context)
        self._runner = Runner(
            self._shelves,
            self._run_verbs,
            owner=self.context.owner,
            clock=self.context.clock,
            lease_seconds=lambda: min(LEASE_SECONDS, self.context.limits.lease_seconds),
            skew_seconds=lambda: self.context.limits.skew_seconds,
        )
        self._carrying = PeriodicTask("carrying bulk runs on", self.work_runs, self._until_next_run)

    def _until_next_run(self) -> float:
        if (due := self._runner.next_due) is None:
            return LOOK_SECONDS
        return min(max((due - self.context.clock.now()).total_seconds(), 0.0), LOOK_SECONDS)

    def _wanted(
        self, verb: str, query: Query | None, filters: Mapping[str, Any], patch: Any, *, redrive: bool, everything: bool
    ) -> BulkRun:
        """The run that somebody asks for. Raises InvalidInput."""
        name, edit = known(verb, patch, redrive=redrive)
        if query is not None and filters:
            raise InvalidInput(f"give a query or filters, not both: {', '.join(filters)}")
        meant = require_query(query) if query is not None else filter_query(filters)
        if not meant.where and not everything:
            raise InvalidInput("this would change every letter: give a filter, or say that you mean everything")
        LETTERS.check(meant)
        now = self.context.clock.now()
        return BulkRun(
            run_id=new_entry_id(now),
            verb=name,
            query=Json.of(query_to_json(meant), "query"),
            patch=edit.patch if edit else None,
            by="",
            created_at=now,
            updated_at=now,
            due_at=now,
        )

    async def _run(self, run_id: str) -> BulkRun:
        run = await get_one(self._shelves.runs, run_id)
        if run is None:
            raise NoSuchRun(run_id)
        return run

    async def _changed_run(
        self, action: str, run_id: str, by: str, reason: str | None, change: Callable[[BulkRun], BulkRun]
    ) -> BulkRun:
        async with self.context.audit.record(action, f"run:{run_id}", by=by, reason=reason) as record:
            for _ in range(_TRIES):
                run = await self._run(run_id)
                if run.state is RunState.HALTED:  # its letters may have come to something since
                    run = await self._shelves.up_to_date(run)
                after = change(run)
                if after is run:  # it is so already
                    return await self._shelves.up_to_date(run)
                written = await write_one(self._shelves.runs, after)
                if written is not None:
                    record.add_change(_shown(run), _shown(written))
                    break
            else:
                raise StoreUnavailable(f"bulk run {run_id} was changed by others {_TRIES} times in a row")
        current = await self._shelves.up_to_date(written)
        self._run_verbs.changed(current, by=by)
        self._carrying.wake()
        return current

    async def _items(self, run: BulkRun, first: int) -> AsyncIterator[tuple[int, Sequence[RunItem]]]:
        """The pages from the first one on; what became of letters is looked up where it is not written down yet."""
        looks = run.awaits_outcomes and run.state is not RunState.DONE
        shelves, movers = self._shelves, self._shelves.movers(run)
        for start in range(first, run.pages, READ):
            for page in await shelves.shown(run, range(start, min(start + READ, run.pages))):
                items = list(page.items)
                places = [place for place, item in enumerate(items) if item.state is ItemState.MOVED]
                if looks and places:
                    looked = await movers.outcomes([items[place] for place in places])
                    for place, item in zip(places, looked, strict=True):
                        items[place] = item
                yield page.number, items


def _going(
    run: BulkRun, ramp: Sequence[int] | None, max_per_second: float | None, stop_percent: float | None
) -> BulkRun:
    """The run as it goes about it. Raises InvalidInput."""
    waves = bulk_rules.choose_ramp(run.verb, ramp, stop_percent)
    return bulk_rules.validate_run(replace(run, ramp=waves, max_per_second=max_per_second, stop_percent=stop_percent))


def _shown(run: BulkRun) -> dict[str, Any]:
    return {"state": str(run.state), "stop_percent": run.stop_percent, "moved": run.counts.moved}


def _member(kind: type[E], value: E | str, what: str) -> E:
    try:
        return kind(value)
    except ValueError:
        raise InvalidInput(f"there is no {what} {value!r:.80}; there are {', '.join(kind)}") from None


def _cursor(after: Cursor | str | None) -> Cursor | None:
    return Cursor.parse(after) if isinstance(after, str) else after


def _position(cursor: Cursor | None) -> tuple[int, int]:
    match cursor:
        case None:
            return 0, 0
        case Cursor((int(number), int(place))) if number >= 0 and place >= 0:
            return number, place
    raise InvalidInput("this is not a cursor of a run's items; leave it out to start at the beginning")
