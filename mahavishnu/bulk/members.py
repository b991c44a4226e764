"""The members of a bulk run: writing them down, moving their letters, recognising moved ones, finding outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from mahavishnu.bulk.records import RUN_PAGES, RUNS
from mahavishnu.bulk.rules import is_busy
from mahavishnu.bulk.run import (
    ACTIVE,
    BUSY,
    PAGE,
    BulkRun,
    ItemState,
    RunCounts,
    RunItem,
    RunPage,
    RunState,
    count_items,
    marks_for,
    outcome_for,
    page_key,
    split_into_pages,
)
from mahavishnu.classify.assess import Assessor
from mahavishnu.classify.plugin_guard import call_in_thread
from mahavishnu.engine.context import QueueContext
from mahavishnu.engine.moves import isolate_letter
from mahavishnu.letters.verbs import MOVES_OF_MANY, REDRIVE, Edit, Verb, edit_letter
from mahavishnu.model import lifecycle
from mahavishnu.model.errors import (
    IllegalMove,
    InvalidInput,
    MahavishnuError,
    NoSuchRun,
    StoreError,
    StoreUnavailable,
    cannot,
)
from mahavishnu.model.events import EventName
from mahavishnu.model.ids import DEFAULT_NAMESPACE
from mahavishnu.model.letter import DeadLetter, FormerLetter
from mahavishnu.model.lifecycle import MAX_RUNS, mark_moved_by_run
from mahavishnu.model.query import ALL_NAMESPACES, Between, Is, Not, Query, Sort, query_from_json
from mahavishnu.model.record import Value
from mahavishnu.model.work import ItemOutcome
from mahavishnu.stores.base import Collection, Cursor, Result, get_one, scan, write_one
from mahavishnu.stores.retained import keep_revisions

# --- what bulk runs can do to letters: the change of each, the checks before it, and the event after it

Change = Callable[[QueueContext, BulkRun, DeadLetter, datetime], DeadLetter]


def _plain(verb: Verb) -> Change:
    return lambda context, run, letter, now: verb.change(letter, now, run.by, run.reason)


def _edit(context: QueueContext, run: BulkRun, letter: DeadLetter, now: datetime) -> DeadLetter:
    edit = Edit({}, run.patch, run.verb == REDRIVE.name, create=True)  # refused at its start, if by none of them
    return edit_letter(context, letter, edit, now)


def _redrive(context: QueueContext, run: BulkRun, letter: DeadLetter, now: datetime) -> DeadLetter:
    redriven = REDRIVE.change(letter, now, run.by, run.reason)  # with a patch too: it raises the same errors
    return redriven if run.patch is None else _edit(context, run, letter, now)


def _regroup(context: QueueContext, run: BulkRun, letter: DeadLetter, now: datetime) -> DeadLetter:
    fingerprint = Assessor(context.chain).fingerprint_again(letter)
    if letter.is_open and fingerprint == letter.fingerprint:
        raise InvalidInput("it belongs to the group that it is in")
    return lifecycle.regroup(letter, now=now, fingerprint=fingerprint)


EDIT, REGROUP = "edit", "regroup"
_BY_STATE = frozenset(verb.name for verb in MOVES_OF_MANY)
# What a run can do: the change of each letter, and the event that is published after it.
VERBS: Mapping[str, tuple[Change, EventName]] = {
    **{verb.name: (_redrive if verb is REDRIVE else _plain(verb), verb.event) for verb in MOVES_OF_MANY},
    EDIT: (_edit, EventName.EDITED),
    REGROUP: (_regroup, EventName.EDITED),
}


class RunVerb:
    """The verb of one run, with what belongs to moving a letter by it."""

    def __init__(self, context: QueueContext, run: BulkRun) -> None:
        self._context, self._run = context, run
        self._change, self._event = VERBS[run.verb]

    @property
    def depends_on_state_only(self) -> bool:
        """True if the status and the resolution of a letter decide whether the run can move it."""
        return self._run.patch is None and self._run.verb in _BY_STATE

    def change(self, letter: DeadLetter, now: datetime) -> DeadLetter:
        """Return the moved letter. Raise IllegalMove, InvalidInput for an unpatchable task, and UnworkableLetter."""
        with isolate_letter(letter.key):
            return self._change(self._context, self._run, letter, now)

    async def change_unhurried(self, letter: DeadLetter, now: datetime) -> DeadLetter:
        """Return the moved letter; work in a thread if plugins are asked and long texts read."""
        if self._run.verb == REGROUP:
            return await call_in_thread(self.change, letter, now)
        return self.change(letter, now)

    async def prepare(
        self, before: Sequence[DeadLetter], after: Sequence[DeadLetter]
    ) -> Sequence[MahavishnuError | None]:
        """Ask plugins for objections to edited letters, and keep revisions. Return an error or None for each letter."""
        if self._run.patch is None:
            return [None] * len(before)
        problems: list[MahavishnuError | None] = [await self.objection(letter) for letter in after]
        fine = [place for place, problem in enumerate(problems) if problem is None]
        kept = await keep_revisions(self._context.revisions, [before[place] for place in fine])
        for place, problem in zip(fine, kept, strict=True):
            problems[place] = problem
        return problems

    async def objection(self, letter: DeadLetter) -> InvalidInput | None:
        """Return the objection of a plugin, or of the function that runs it, to the edited task."""
        letter = self._context.letter_factory.encryption.readable_letter(letter)
        why = self._context.why_unrestorable(letter)
        why = why or await Assessor(self._context.chain).objection(letter, self._context.clock.now())
        if why:
            why = self._context.letter_factory.mask_quotes(why, letter.payload.shared_value)
            return InvalidInput(f"the task cannot be that: {why}")
        return None

    def announce(self, letter: DeadLetter) -> None:
        """Publish that the letter was moved, as if a person had moved it alone."""
        run = self._run
        detail = {"by": run.by, "notes": run.reason, "run_id": run.run_id}
        if run.patch is not None:
            self._context.announce(EventName.EDITED, letter, changed=["task"], **detail)
        if run.verb != EDIT:
            self._context.announce(self._event, letter, was_open=True, **detail)


def require_verb(verb: str, patch: Any, *, redrive: bool) -> tuple[str, Edit | None]:
    """Return the verb and its patch, as a run keeps them: an edit with redrive is a redrive. Raise InvalidInput."""
    if verb not in VERBS:
        raise InvalidInput(f"a run cannot {verb!r:.80}; it can {', '.join(VERBS)}")
    if redrive and verb not in (EDIT, REDRIVE.name):
        raise InvalidInput(f"redrive goes with an edit, not with {verb!r}")
    if verb == EDIT and patch is None:
        raise InvalidInput("an edit needs a patch: an object with what is to change in the tasks, null to remove")
    if verb not in (EDIT, REDRIVE.name) and patch is not None:
        raise InvalidInput(f"a patch goes with an edit or a redrive, not with {verb!r}")
    name = REDRIVE.name if redrive else verb
    return name, None if patch is None else Edit.of({}, patch)


READ = 20  # pages read at once
_FOUND = 1000  # letters that are looked up at once
_TRIES = 20


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
        """Return whether the actor sees the run. A partial scope covers only the actor's own runs."""
        who = self._principal
        return (
            who is None
            or who.scope.covers_whole(run.namespace or DEFAULT_NAMESPACE)
            or run.by == who.name
            or run.by.endswith(f" (token of {who.name})")
        )

    async def get(self, run_id: str) -> BulkRun:
        """Return the stored run. Raise NoSuchRun, also for one of another namespace, and StoreError."""
        run = await get_one(self.runs, run_id)
        if (
            run is None
            or not self.sees(run)
            or self._namespace not in (ALL_NAMESPACES, run.namespace or DEFAULT_NAMESPACE)
        ):
            raise NoSuchRun(run_id)
        return run

    async def create_pages(self, pages: Sequence[RunPage]) -> None:
        """Write new pages. Raise RunLeaseLost if another process has written one of them, StoreError."""
        for result in await self.pages.write(pages):
            _require_page(result)

    async def read_pages(self, run: BulkRun, numbers: Sequence[int]) -> list[RunPage]:
        """Return these stored pages of the run. Raise StoreUnavailable if one cannot be seen, StoreError."""
        keys = [page_key(run.run_id, run.plan or "", number) for number in numbers]
        pages = await self.pages.get(keys)
        for key, page in zip(keys, pages, strict=True):
            if page is None:  # another process may still have to drain it from its local store
                raise StoreUnavailable(f"page {key!r} of a bulk run cannot be seen now")
        return [_require_page(page) for page in pages]

    async def replace_page(self, page: RunPage) -> RunPage:
        """Write a changed page. Raise PageConflict, StoreError."""
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
        """Count the redriven letters by outcome (None: pending). Raise StoreUnavailable if they must be `whole`."""
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


def member_query(query: Query, until: datetime) -> Query:
    """Return the query, restricted to letters created until then, oldest first, in large pages."""
    return Query((*query.where, Between("created_at", at_most=until)), (Sort("created_at"),), _FOUND)


async def find_members(
    letters: Collection[DeadLetter], query: Query, until: datetime
) -> AsyncIterator[tuple[list[DeadLetter], tuple[StoreError, ...]]]:
    """Yield pages of matching letters created until then, oldest first, and bad records. Raise StoreUnavailable."""
    chosen = member_query(query, until)
    after: Cursor | None = None
    seen: set[str] = set()  # a letter that is drained from a local store meanwhile is found twice
    while True:
        page = await letters.find(chosen, after)
        if page.degraded:
            raise StoreUnavailable(f"not every letter that is meant can be seen now: {page.degraded}")
        fresh = [letter for letter in page.items if letter.key not in seen]
        seen.update(letter.key for letter in fresh)
        yield fresh, page.corrupt
        if page.next is None:
            return
        after = page.next


def refusal_reason(problem: MahavishnuError, key: str) -> str:
    """Return why a letter is refused, in words that do not name it, so that equal reasons can be counted."""
    if isinstance(problem, IllegalMove):
        return f"{problem.state}: {cannot(problem.move)}"
    return str(problem).replace(f"letter {key!r}", "it").replace(f"of {key!r}", "of it").replace(repr(key), "it")


class RunMembers(Value, frozen=True):
    """The members of one run, and what the store knows about their letters."""

    store: RunStore
    run_id: str
    awaited: bool = False  # whether the run waits for the outcomes of the letters that it moves

    async def plan(
        self, run: BulkRun, plan: str, check_lease: Callable[[], Awaitable[object]]
    ) -> tuple[int, RunCounts]:
        """Write pages of members for this plan. Return how many there are, and their counts.

        Await `check_lease`, which may raise, between large steps. Raise StoreError, and RunLeaseLost.
        """
        items: list[RunItem] = []
        number, counts = 0, RunCounts()
        async for found, corrupt in find_members(self.store.letters, query_from_json(run.query.value), run.created_at):
            if counts.members:
                await check_lease()
            items += [RunItem(letter.key, letter.entry_id) for letter in found]
            items += [RunItem(getattr(problem, "key", "?"), "", ItemState.REFUSED, str(problem)) for problem in corrupt]
            whole = len(items) // PAGE * PAGE
            number, counts = await self._write_pages(plan, number, counts, items[:whole])
            items = items[whole:]
        return await self._write_pages(plan, number, counts, items)

    async def _write_pages(
        self, plan: str, number: int, counts: RunCounts, items: Sequence[RunItem]
    ) -> tuple[int, RunCounts]:
        if not items:
            return number, counts
        pages = split_into_pages(self.run_id, plan, number, items)
        await self.store.create_pages(pages)
        return number + len(pages), counts.plus(count_items(items))

    # --- moving

    async def move(
        self, items: Sequence[RunItem], verb: RunVerb, now: datetime
    ) -> tuple[list[RunItem], StoreError | None]:
        """Move the letters of these waiting members. Return the members as they are then.

        Letters that the store could not take stay waiting, and the error is returned too. Raise StoreUnavailable if the
        outcome is unknown (the letters know it), and RunLeaseLost.
        """
        done = list(items)
        todo = list(range(len(items)))
        away: StoreError | None = None
        for _ in range(_TRIES):  # a loop of its own: former letters, runs and revisions are asked for all at once
            letters = await self._current_letters([items[place] for place in todo])
            over = await self._finished_runs(letters)
            before: dict[int, DeadLetter] = {}
            after: dict[int, DeadLetter] = {}
            for place, letter in zip(todo, letters, strict=True):
                final = self._final_state(items[place], letter)
                if final is not None:
                    done[place] = final
                elif isinstance(letter, DeadLetter):
                    try:
                        moved = await verb.change_unhurried(letter, now)
                        after[place] = mark_moved_by_run(letter, moved, self.run_id, awaited=self.awaited, over=over)
                        before[place] = letter
                    except MahavishnuError as problem:
                        waits = isinstance(problem, IllegalMove) and is_busy(letter, now)
                        done[place] = replace(items[place], why=BUSY) if waits else _refuse(items[place], problem)
            objections = await verb.prepare(list(before.values()), list(after.values())) if after else []
            for place, objection in zip(list(after), objections, strict=True):
                if objection is not None:
                    del after[place]
                    if isinstance(objection, StoreUnavailable):
                        away = objection
                    else:
                        done[place] = _refuse(items[place], objection)
            todo = []
            results = await self.store.letters.write(list(after.values())) if after else []
            for place, written in zip(after, results, strict=True):
                if written is None:
                    todo.append(place)  # somebody else changed the letter: read it again
                elif isinstance(written, DeadLetter):
                    done[place] = replace(items[place], state=ItemState.MOVED, why=None)
                    verb.announce(written)
                elif isinstance(written, StoreUnavailable):
                    away = written
                else:
                    done[place] = _refuse(items[place], written)
            if not todo:
                return done, away
        return done, away or StoreUnavailable(f"{len(todo)} letters were changed by others {_TRIES} times in a row")

    async def are_idle(self, items: Sequence[RunItem], now: datetime) -> list[bool]:
        """Return for each of these members whether its letter is idle."""
        letters = await self._current_letters(items)
        return [not isinstance(letter, DeadLetter) or not is_busy(letter, now) for letter in letters]

    # --- what the letters know

    async def recognise_moved(self, items: Sequence[RunItem]) -> list[RunItem]:
        """Return these waiting members; those that a crashed process moved are marked as moved."""
        letters = await self._current_letters(items)
        return [
            replace(item, state=ItemState.MOVED, why=None) if self._is_marked(letter) else item
            for item, letter in zip(items, letters, strict=True)
        ]

    async def find_outcomes(self, items: Sequence[RunItem]) -> list[RunItem]:
        """Return these moved members with the present outcomes of their letters."""
        letters = await self._current_letters(items)
        return [
            item if isinstance(letter, StoreError) else replace(item, outcome=self._outcome(letter, item.outcome))
            for item, letter in zip(items, letters, strict=True)
        ]

    async def pages_for_display(self, run: BulkRun, numbers: Sequence[int]) -> list[RunPage]:
        """Return these pages of a stopped run; members that a crashed process moved are marked as moved."""
        pages = await self.store.read_pages(run, numbers)
        if run.lease is None or run.state in ACTIVE:
            return pages
        for number, page in enumerate(pages):
            places = [place for place, item in enumerate(page.items) if item.state is ItemState.WAITING]
            if not places:
                continue
            waiting = [page.items[place] for place in places]
            found = dict(zip(places, await self.recognise_moved(waiting), strict=True))
            items = tuple(found.get(place, item) for place, item in enumerate(page.items))
            pages[number] = replace(page, items=items)
            if any(item.is_fresh for item in waiting):  # members are moved in order: none was moved behind this page
                break
        return pages

    async def with_current_counts(self, run: BulkRun) -> BulkRun:
        """Return the run with its present counts, also while a process works on it."""
        if run.plan is None or run.state is RunState.DONE:
            return run
        if run.lease is not None:
            counts = RunCounts()
            for start in range(0, run.pages, READ):
                for page in await self.pages_for_display(run, range(start, min(start + READ, run.pages))):
                    counts = counts.plus(count_items(page.items))
            run = replace(run, counts=counts)
        if run.awaits_outcomes:
            known = await self.store.count_outcomes(run.run_id)
            run = replace(run, counts=replace(run.counts, **{str(how): known[how] for how in ItemOutcome}))
        return run

    async def _current_letters(self, items: Sequence[RunItem]) -> list[Result[DeadLetter]]:
        """Return the present letters of the members; one that was replaced comes from the history."""
        found: list[Result[DeadLetter]] = list(await self.store.letters.get([item.key for item in items]))
        replaced = [
            place
            for place, (item, letter) in enumerate(zip(items, found, strict=True))
            if letter is None or (isinstance(letter, DeadLetter) and letter.entry_id != item.entry_id)
        ]
        if replaced:
            formers = await self.store.history.get([items[place].entry_id for place in replaced])
            for place, former in zip(replaced, formers, strict=True):
                found[place] = former
        for letter in found:
            if isinstance(letter, StoreUnavailable):
                raise letter
        return found

    async def _finished_runs(self, letters: Sequence[Result[DeadLetter]]) -> frozenset[str]:
        """Return the runs that letters with many marks may forget. Raise RunLeaseLost if this run is over itself.

        Call it after the letters were read: they cannot have forgotten a run that is not over now. Otherwise a process
        that was suspended for long could take a letter that has forgotten the run for one that was never moved.
        """
        many = [letter for letter in letters if isinstance(letter, DeadLetter) and len(letter.runs) >= MAX_RUNS]
        asked = {run_id for letter in many for run_id in letter.runs}
        if not asked:
            return frozenset()
        ours, *others = await self.store.runs.get([self.run_id, *asked])
        if isinstance(ours, StoreError):
            raise ours
        if ours is None or ours.is_over:
            raise RunLeaseLost
        return frozenset(run.run_id for run in others if isinstance(run, BulkRun) and run.is_over)

    def _outcome(self, letter: DeadLetter | None, known: ItemOutcome | None) -> ItemOutcome | None:
        """Return the outcome that the letter notes, or the `known` one where it does not note any more."""
        if letter is None:
            return known or ItemOutcome.CLOSED
        return outcome_for(letter, self.run_id) or known

    def _is_marked(self, letter: Result[DeadLetter]) -> bool:
        return isinstance(letter, DeadLetter) and self.run_id in letter.runs

    def _final_state(self, item: RunItem, letter: Result[DeadLetter]) -> RunItem | None:
        """Return the member if its letter cannot be moved, or was moved before; None if it is to be moved."""
        if isinstance(letter, StoreError):
            return _refuse(item, letter)
        if self._is_marked(letter):
            return replace(item, state=ItemState.MOVED, why=None)
        if letter is None:
            return replace(item, state=ItemState.GONE, why="it was deleted")
        if isinstance(letter, FormerLetter):
            return replace(item, state=ItemState.GONE, why="its task has failed again since, in a letter of its own")
        return None


def _refuse(item: RunItem, problem: MahavishnuError) -> RunItem:
    return replace(item, state=ItemState.REFUSED, why=refusal_reason(problem, item.key))
