"""Bulk runs for people: one verb over all letters that a query means, as something that can be watched and stopped."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from mahavishnu.bulk import rules as bulk_rules
from mahavishnu.bulk.members import (
    READ,
    RunMembers,
    RunStore,
    RunVerb,
    find_members,
    member_query,
    refusal_reason,
    require_verb,
)
from mahavishnu.bulk.run import BUSY, BulkRun, ItemState, RunItem, RunState
from mahavishnu.bulk.runner import Runner, announce_run
from mahavishnu.engine.context import QueueContext
from mahavishnu.engine.periodic import PeriodicTask
from mahavishnu.engine.queue import LetterQueue
from mahavishnu.letters.verbs import require_clear_patch
from mahavishnu.model.errors import IllegalMove, InvalidInput, MahavishnuError, NoSuchRun, StoreUnavailable
from mahavishnu.model.events import EventName
from mahavishnu.model.ids import DEFAULT_NAMESPACE, new_entry_id
from mahavishnu.model.json_value import (
    Difference,
    Json,
    difference,
    has_path,
    patch_paths,
    pointer,
    refuse_unknown_paths,
)
from mahavishnu.model.letter import DeadLetter, evolve
from mahavishnu.model.letter_parts import UNCHANGED, DeadLetterStatus, Resolution, ResolutionStatus, Unchanged
from mahavishnu.model.permissions import acts_of_run
from mahavishnu.model.query import (
    NEWEST_FIRST,
    Is,
    Query,
    Sort,
    acting_namespace,
    filter_query,
    query_from_json,
    query_to_json,
    require_query,
    written_namespace,
)
from mahavishnu.model.record import Value
from mahavishnu.model.work import ItemOutcome
from mahavishnu.stores.base import Cursor, Page, update_with_retry, write_one
from mahavishnu.stores.kinds import LETTERS

# --- what a run would do now: by reading the letters, or by counting them where there are many

MOST_READ = 1000  # letters that are read one by one before the rest is counted
_SAMPLES = 5


class RunPreview(Value, frozen=True):
    """A preview of a run: how many letters match, how many it could move, and why not the others.

    `samples` are some letters that it could move, and `changes` is what a patch would do to their tasks.
    `unknown_paths` are the places of the patch that none of the letters has, as JSON pointers. `refused` says why the
    run would not be started: it may make such places only with `create`. `ramp` are the sizes of the first waves;
    empty: all at once.
    """

    matched: int
    eligible: int
    ineligible: dict[str, int]
    samples: tuple[DeadLetter, ...] = ()
    ramp: tuple[int, ...] = ()
    changes: tuple[SampleChange, ...] = ()
    unknown_paths: tuple[str, ...] = ()
    refused: str | None = None


class SampleChange(Value, frozen=True):
    """The changes of a patch in the task of one letter."""

    key: str
    diff: list[Difference]


async def preview_run(context: QueueContext, run: BulkRun, *, create: bool) -> RunPreview:
    """Return what the run would do. Raise StoreUnavailable unless every matching letter can be seen."""
    preview = _Preview(context, run)
    async for found, corrupt in find_members(context.letters, preview.query, run.created_at):
        preview.matched += len(found) + len(corrupt)
        preview.ineligible.update(str(problem) for problem in corrupt)
        for letter in found:
            await preview.read_one(letter)
        if found and preview.matched >= MOST_READ and preview.verb.depends_on_state_only:
            await preview.count(found[0])
            break
    eligible = preview.matched - preview.ineligible.total()
    refused = None
    if not create:
        try:
            preview.refuse_unknown_paths(eligible)
        except InvalidInput as problem:
            refused = str(problem)
    return RunPreview(
        preview.matched,
        eligible,
        dict(preview.ineligible.most_common()),
        tuple(preview.samples),
        run.ramp,
        tuple(preview.changes),
        tuple(pointer("task", *path) for path in preview.unknown_paths) if eligible else (),
        refused,
    )


async def refuse_unknown_places(context: QueueContext, run: BulkRun) -> None:
    """Raise InvalidInput for a place of the patch that no letter has, StoreUnavailable if letters are unseen."""
    preview, eligible = _Preview(context, run), 0
    async for found, _ in find_members(context.letters, preview.query, run.created_at):
        for letter in found:
            eligible += await preview.read_one(letter)
            if not preview.unknown_paths:
                return
    preview.refuse_unknown_paths(eligible)


class _Preview:
    """A preview while it is made."""

    def __init__(self, context: QueueContext, run: BulkRun) -> None:
        self.query = query_from_json(run.query.value)
        self.verb = RunVerb(context, run)
        self.matched = 0
        self.ineligible = Counter[str]()
        self.samples: list[DeadLetter] = []
        self.changes: list[SampleChange] = []
        self.unknown_paths = list(patch_paths(run.patch.value)) if run.patch is not None else []
        self._letters, self._clock, self._sees_payloads = context.letters, context.clock, context.sees_payloads
        self._run = run

    async def read_one(self, letter: DeadLetter) -> bool:
        """Try the verb on this letter. Return whether it can be moved."""
        after = await self._try(letter)
        if isinstance(after, DeadLetter) and self._run.patch is not None:
            why = await self.verb.objection(after)
            after = after if why is None else refusal_reason(why, letter.key)
        if isinstance(after, str):
            self.ineligible[after] += 1
            return False
        self.unknown_paths = [path for path in self.unknown_paths if not has_path(letter.task, path)]
        if len(self.samples) < _SAMPLES:
            self.samples.append(letter)
            if self._run.patch is not None:
                diff = difference({"task": letter.task}, {"task": after.task})
                self.changes.append(SampleChange(letter.key, diff))
        return True

    def refuse_unknown_paths(self, eligible: int) -> None:
        """Raise InvalidInput if none of the letters that were read, so many of them eligible, has some place."""
        if eligible:
            only = f"letter {self.samples[0].key!r} has no"
            which = only if eligible == 1 else f"none of the {eligible} letters has"
            seen = [letter.task for letter in self.samples] if self._sees_payloads else ()
            refuse_unknown_paths(self.unknown_paths, seen, which)

    async def count(self, example: DeadLetter) -> None:
        """Try the verb on one letter of each state, and count the letters in these states.

        `example` stands in for all letters. Unreadable records count by the state that they were written with.
        """
        chosen = member_query(self.query, self._run.created_at)
        tally = await self._letters.tally(chosen, ["status", "resolution_status"])
        if tally.degraded:
            raise StoreUnavailable(f"not every letter that is meant can be seen now: {tally.degraded}")
        self.matched, self.ineligible = tally.total.count, Counter()
        eligible: list[tuple[str, str]] = []
        for (status, resolution), cell in tally.cells.items():
            try:
                ended = Resolution(ResolutionStatus(resolution))
                after = await self._try(evolve(example, status=DeadLetterStatus(status), resolution=ended))
            except ValueError as problem:  # a newer version wrote it
                after = str(problem)
            if isinstance(after, str):
                self.ineligible[after] += cell.count
            else:
                eligible.append((status, resolution))
        if eligible and len(self.samples) < _SAMPLES:
            self.samples.clear()
            await self._find_samples(chosen, eligible)

    async def _find_samples(self, chosen: Query, states: Sequence[tuple[str, str]]) -> None:
        statuses, resolutions = map(tuple, zip(*states, strict=True))
        where = (*chosen.where, Is("status", statuses), Is("resolution_status", resolutions))
        page = await self._letters.find(Query(where, chosen.sort, _SAMPLES))
        self.samples += [letter for letter in page.items if isinstance(await self._try(letter), DeadLetter)]

    async def _try(self, letter: DeadLetter) -> DeadLetter | str:
        """Return the letter after its move, or why it cannot be moved."""
        try:
            return await self.verb.change_unhurried(letter, self._clock.now())
        except MahavishnuError as problem:
            waits = isinstance(problem, IllegalMove) and letter.status is DeadLetterStatus.RETRYING
            return BUSY if waits else refusal_reason(problem, letter.key)


# --- bulk runs

E = TypeVar("E", bound=StrEnum)
POLL_SECONDS = 2.0  # between two searches for runs that are due
MAX_ITEMS = 10_000


class RunItems(Value, frozen=True):
    """Members of a run, in the order in which they are moved; `next` is the cursor of the page after these."""

    items: tuple[RunItem, ...]
    next: Cursor | None = None


class BulkRuns:
    """Bulk runs: started, shown, stopped and worked on.

    The methods raise NoSuchRun for a run that does not exist, IllegalRunMove for what its state does not allow,
    InvalidInput for invalid arguments, and StoreError.
    """

    def __init__(self, context: QueueContext) -> None:
        self._context = context
        self._store = RunStore(context)
        self._runner = Runner(context, self._store)
        self.periodic_task = PeriodicTask("carrying bulk runs on", self.advance, self._seconds_to_wait)

    async def preview(
        self,
        verb: str,
        query: Query | None = None,
        *,
        ramp: Sequence[int] | None = None,
        max_per_second: float | None = None,
        stop_percent: float | None = None,
        patch: Any = None,
        create: bool = False,
        redrive: bool = False,
        everything: bool = False,
        **filters: Any,
    ) -> RunPreview:
        """Return what `start` with the same arguments would do, or why it would refuse. Nothing is changed.

        Letters are read one by one up to a thousand, and beyond that where the verb has to see each (an edit, a redrive
        with a patch, a regrouping); otherwise those in one state are counted together.

        preview = await dlq.runs.preview("redrive", fingerprint="9f3c", status="exhausted")
        """
        await self._context.open()
        run = await self._new_run(verb, query, filters, patch=patch, redrive=redrive, everything=everything)
        run = _with_options(run, ramp, max_per_second, stop_percent)
        preview = await preview_run(self._context, run, create=create)
        samples = await self._context.hand_out_list(preview.samples, query_from_json(run.query.value))
        return replace(preview, samples=tuple(samples), changes=preview.changes if self._context.sees_payloads else ())

    async def start(
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
        create: bool = False,
        redrive: bool = False,
        everything: bool = False,
        **filters: Any,
    ) -> BulkRun:
        """Apply `verb` to every letter that the query means now: redrive, archive, resolve, cancel, fail, edit, …

        The run is stored when this returns, and running processors work on it, whatever happens to this process. Each
        letter is moved once; letters captured later are no members. An edit needs a `patch` (RFC 7386) of the tasks. A
        redrive may have one, and an edit with `redrive` is one: both then happen in one write. A place that none of the
        letters has is refused, since it is misspelled more often than new; with `create` the patch makes it.

        `ramp` are the sizes of the first waves: each waits until the letters before it have been run. With
        `stop_percent` the run halts as soon as more than so many percent of the redriven letters have failed again,
        and the ramp is 1, 5, 25 unless another one is given; `()` moves all at once. `max_per_second` is how many
        letters are moved at most in a second.

            run = await dlq.runs.start("redrive", fingerprint="9f3c", by="ann", stop_percent=20)
        """
        await self._context.open()
        run = await self._new_run(verb, query, filters, patch=patch, redrive=redrive, everything=everything)
        subject, where = f"run:{run.run_id}", run.namespace or DEFAULT_NAMESPACE
        for act in acts_of_run(run.verb, run.patch is not None):
            await self._context.require(act, subject, where)
        run = _with_options(replace(run, by=by, reason=reason), ramp, max_per_second, stop_percent)
        if run.patch is not None:
            require_clear_patch(self._context.letter_factory.encryption, run.patch.value)
        if run.patch is not None and not create:
            await refuse_unknown_places(self._context, run)
        async with self._context.audit.record("run.start", subject, by=by, reason=reason, where=where) as record:
            record.add(verb=run.verb, query=run.query.value["where"], patch=run.patch and run.patch.value)
            record.add(ramp=list(run.ramp), max_per_second=max_per_second, stop_percent=stop_percent)
            stored = await write_one(self._store.runs, run)
            if stored is None:  # ids are random: nobody else has this one
                raise StoreUnavailable(f"bulk run {run.run_id} is there already")
        announce_run(self._context, stored, EventName.RUN_STARTED)
        self.periodic_task.wake()
        return stored

    async def get(self, run_id: str) -> BulkRun:
        """Return the run, with the present outcomes of its letters."""
        await self._context.open()
        return await self._with_current_counts(await self._store.get(run_id))

    async def list(
        self,
        state: RunState | str | Iterable[RunState | str] | None = None,
        *,
        limit: int = 50,
        after: Cursor | str | None = None,
    ) -> Page[BulkRun]:
        """Return the runs in these states, or all, newest first. The counts of an active run may be seconds old."""
        await self._context.open()
        states: list[Any] = [*state] if isinstance(state, Iterable) and not isinstance(state, str) else [state]
        where = () if state is None else (Is("state", tuple(_member(RunState, each, "state") for each in states)),)
        query = Query(where, (Sort("created_at", descending=True), Sort("run_id", descending=True)), limit)
        page = await self._store.runs.find(query, _cursor(after))
        return replace(page, items=[run for run in page.items if self._store.sees(run)])

    async def items(
        self,
        run_id: str,
        *,
        state: ItemState | str | None = None,
        outcome: ItemOutcome | str | None = None,
        limit: int = 100,
        after: Cursor | str | None = None,
    ) -> RunItems:
        """Return the members of a run and the outcome of each: all, or those in a state or with an outcome."""
        if type(limit) is not int or not 1 <= limit <= MAX_ITEMS:
            raise InvalidInput(f"limit must be a whole number from 1 to {MAX_ITEMS}, not {limit!r:.80}")
        wanted_state = None if state is None else _member(ItemState, state, "state")
        wanted_outcome = None if outcome is None else _member(ItemOutcome, outcome, "outcome")
        await self._context.open()
        run = await self._store.get(run_id)
        first, skip = _position(_cursor(after))
        found: list[RunItem] = []
        if run.plan is None:
            return RunItems(())
        async for number, items in self._pages_of_items(run, first):
            for place, item in enumerate(items):
                if (number, place) < (first, skip):
                    continue
                if wanted_state not in (None, item.state) or wanted_outcome not in (None, item.outcome):
                    continue
                if len(found) == limit:
                    return RunItems(tuple(found), Cursor((number, place)))
                found.append(item)
        return RunItems(tuple(found))

    async def pause(self, run_id: str, *, by: str, reason: str | None = None) -> BulkRun:
        """Pause the run. The slice that is being moved now, one page of letters at most, is still moved."""
        return await self._change("run.pause", run_id, by, reason, bulk_rules.pause)

    async def resume(
        self, run_id: str, *, by: str, reason: str | None = None, stop_percent: float | Unchanged | None = UNCHANGED
    ) -> BulkRun:
        """Continue a stopped run, perhaps with another stop rule. Raise IllegalRunMove if it would halt at once."""
        change = partial(bulk_rules.resume, stop_percent=stop_percent)
        return await self._change("run.resume", run_id, by, reason, change)

    async def cancel(self, run_id: str, *, by: str, reason: str | None = None) -> BulkRun:
        """End the run for good. Letters that were moved stay moved; the other members are left alone."""
        return await self._change("run.cancel", run_id, by, reason, bulk_rules.cancel)

    async def advance(self) -> bool:
        """Work on every due run until it has to wait, as a running processor does. Return whether anything was done."""
        await self._context.require("work")
        await self._context.open()
        return await self._runner.advance()

    # --- inside

    def _seconds_to_wait(self) -> float:
        if (due := self._runner.next_due) is None:
            return POLL_SECONDS
        return min(max((due - self._context.clock.now()).total_seconds(), 0.0), POLL_SECONDS)

    async def _new_run(
        self, verb: str, query: Query | None, filters: dict[str, Any], *, patch: Any, redrive: bool, everything: bool
    ) -> BulkRun:
        name, edit = require_verb(verb, patch, redrive=redrive)
        if query is not None and filters:
            raise InvalidInput(f"give a query or filters, not both: {', '.join(filters)}")
        meant = require_query(query) if query is not None else filter_query(filters)
        if not meant.where and not everything:
            raise InvalidInput("this would change every letter: give a filter, or say that you mean everything")
        LETTERS.check(meant)
        namespace = acting_namespace(meant, self._context.namespace)
        now = self._context.clock.now()
        newest = (await self._context.letters.find(Query(meant.where, NEWEST_FIRST, limit=1))).items
        # The run is for letters that were created until it is. Where clocks differ, some may be dated later than now.
        created = max(now, *(letter.created_at for letter in newest)) if newest else now
        return BulkRun(
            run_id=new_entry_id(now),
            verb=name,
            query=Json.of(query_to_json(self._context.restrict(meant)), "query"),
            patch=edit.patch if edit else None,
            by="",
            created_at=created,
            updated_at=created,
            due_at=now,
            namespace=written_namespace(namespace),
        )

    def _members(self, run: BulkRun) -> RunMembers:
        return RunMembers(self._store, run.run_id, run.awaits_outcomes)

    async def _with_current_counts(self, run: BulkRun) -> BulkRun:
        return await self._members(run).with_current_counts(run)

    async def _change(
        self, action: str, run_id: str, by: str, reason: str | None, change: Callable[[BulkRun, datetime], BulkRun]
    ) -> BulkRun:
        async with self._context.audit.record(action, f"run:{run_id}", by=by, reason=reason) as record:
            known = await self._store.get(run_id)
            if known.state is RunState.HALTED:  # its letters may have got outcomes since
                known = await self._with_current_counts(known)

            def change_now(run: BulkRun) -> BulkRun:
                is_halted = run.state is known.state is RunState.HALTED
                return change(replace(run, counts=known.counts) if is_halted else run, self._context.clock.now())

            update = await update_with_retry(self._store.runs, run_id, change_now, what="bulk run")
            if update is None:
                raise NoSuchRun(run_id)
            if update.after is update.before:  # it is in that state already
                return await self._with_current_counts(update.after)
            record.add_change(_audit_fields(update.before), _audit_fields(update.after))
        current = await self._with_current_counts(update.after)
        announce_run(self._context, current, by=by)
        self.periodic_task.wake()
        return current

    async def _pages_of_items(self, run: BulkRun, first: int) -> AsyncIterator[tuple[int, Sequence[RunItem]]]:
        """Yield the pages from `first` on, with the outcomes that are not written on them yet."""
        members = self._members(run)
        for start in range(first, run.pages, READ):
            for page in await members.pages_for_display(run, range(start, min(start + READ, run.pages))):
                items = [*page.items]
                places = [place for place, item in enumerate(items) if item.state is ItemState.MOVED]
                if places and run.awaits_outcomes and run.state is not RunState.DONE:
                    found = await members.find_outcomes([items[place] for place in places])
                    for place, item in zip(places, found, strict=True):
                        items[place] = item
                yield page.number, items


def _with_options(
    run: BulkRun, ramp: Sequence[int] | None, max_per_second: float | None, stop_percent: float | None
) -> BulkRun:
    waves = bulk_rules.choose_ramp(run.verb, ramp, stop_percent)
    return bulk_rules.validate_run(replace(run, ramp=waves, max_per_second=max_per_second, stop_percent=stop_percent))


def _audit_fields(run: BulkRun) -> dict[str, Any]:
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


def chores(queue: LetterQueue) -> Iterable[PeriodicTask]:
    """Return the periodic tasks of bulk runs."""
    return (queue.service(BulkRuns).periodic_task,)
