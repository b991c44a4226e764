"""Moving what was kept locally to the primary store, its home, so that no crash at any point loses or doubles it.

The order is the proof. First the local copy is marked uncertain, by CAS: from then on nobody changes it. Then it is
created in the primary store, and made to be seen by searches there. Only then it is removed locally: whichever process
looks for it, locally first, finds it. Whoever finds a marked copy, in whatever process, may start again from there: the
create says that it exists already, and the two are compared.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Generic, TypeAlias, cast

from msgspec.structs import replace

from mahavishnu.model.errors import ItemFailed, StoreError, StoreMisconfigured, StoreUnavailable
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import Query
from mahavishnu.model.record import Value, Version
from mahavishnu.model.work import original_task_id
from mahavishnu.stores.base import Collection, Store, find_pages, get_one, write_one
from mahavishnu.stores.kind import Field, Kind, ReconcileResult, T
from mahavishnu.stores.kinds import HISTORY, LETTERS, REVISIONS
from mahavishnu.stores.lease_watch import LeaseWatch
from mahavishnu.stores.retained import Revision, find_place, forget_revisions, keep_former

log = logging.getLogger(__name__)
BATCH = 500
# Told which records of a kind have arrived, before their local copies are removed: if it raises StoreError, they stay.
Arrival: TypeAlias = Callable[[Kind[Any], Sequence[Any]], Awaitable[None]]
_TRIES = 5  # at a record of the primary that others keep changing; the next round tries again
_MARK = "held_uncertain"


class LocalCopy(Value, Generic[T], frozen=True):
    """A record kept for the primary store; while `uncertain`, it may exist there too, and must not change."""

    record: T
    uncertain: bool = False
    version: Version | None = None

    @property
    def key(self) -> str:
        return self.record.key


@cache
def local_copy_kind(kind: Kind[T]) -> Kind[LocalCopy[T]]:
    """Return the kind of the copies: documents as in a plain local store, with a mark on uncertain ones."""

    def encode(held: LocalCopy[T]) -> str:
        text = kind.encode(held.record)
        return f'{text[:-1]},"{_MARK}":true}}' if held.uncertain else text

    def decode(document: Mapping[str, Any], version: Version) -> LocalCopy[T]:
        return LocalCopy(kind.decode(document, version), document.get(_MARK) is True, version)

    def set_version(held: LocalCopy[T], version: Version | None) -> LocalCopy[T]:
        return LocalCopy(kind.versioned(held.record, version), held.uncertain, version)

    return Kind(
        kind.name,
        kind.index,
        encode,
        decode,
        set_version,
        tuple(
            Field(
                each.name,
                each.type,
                _value_of_copy(each, each.name == kind.due),
                each.derived,
                late=each.late,
                common=each.common,
                omitted=each.omitted,
            )
            for each in kind.fields
        ),
        kind.indexes,
    )


def _value_of_copy(field: Field[T], is_due: bool) -> Callable[[LocalCopy[T]], Any]:
    if is_due:  # an uncertain copy cannot be taken, so no worker may find it as something to take
        return lambda held: None if held.uncertain else field.value(held.record)
    return lambda held: field.value(held.record)


class DrainResult(Value, frozen=True):
    """Outcome of one round: how many records moved, how many still wait, and which could not move and why."""

    moved: int = 0
    waiting: int = 0
    refused: tuple[StoreError, ...] = ()
    stopped: StoreError | None = None

    def __add__(self, other: DrainResult) -> DrainResult:
        return DrainResult(
            self.moved + other.moved,
            self.waiting + other.waiting,
            self.refused + other.refused,
            self.stopped or other.stopped,
        )


async def drain(
    kind: Kind[T], primary: Store, local: Store, watch: LeaseWatch, arrive: Arrival | None = None
) -> DrainResult:
    """Move every record of the kind, until the primary takes no more. Raises nothing but what `local` raises."""
    home, here = primary.collection(kind), local.collection(local_copy_kind(kind))
    total = DrainResult()
    async for page in find_pages(here, Query(limit=BATCH)):
        total += DrainResult(waiting=len(page.corrupt), refused=page.corrupt)
        if page.items:
            total += await _move(kind, primary, home, here, page.items, watch, arrive)
        if total.stopped:
            break
    return total


async def _move(
    kind: Kind[T],
    primary: Store,
    home: Collection[T],
    here: Collection[LocalCopy[T]],
    items: Sequence[LocalCopy[T]],
    watch: LeaseWatch,
    arrive: Arrival | None,
) -> DrainResult:
    try:
        running = await _keys_being_run(kind, home, items, watch)
    except (StoreUnavailable, StoreMisconfigured) as problem:
        return DrainResult(waiting=len(items), stopped=problem)
    # Marked ones are written again too: of two processes that drain one local store, only one may take the mark off.
    marked = await here.write([replace(held, uncertain=True) for held in items if held.key not in running])
    moving = [held for held in marked if isinstance(held, LocalCopy)]  # the others changed just now, and wait
    stopped: StoreError | None = None
    was_certain = {held.key for held in items if not held.uncertain}
    arrived: list[LocalCopy[T]] = []
    try:
        # A letter of other work may join an open letter under another key, which the local store could not see.
        looks_first = {
            held.key for held in moving if kind is LETTERS and original_task_id(cast("Any", held.record)) is not None
        }
        fresh = [kind.versioned(held.record, None) for held in moving if held.key not in looks_first]
        created = iter(await home.write(fresh) if fresh else ())
        results = [None if held.key in looks_first else next(created) for held in moving]
    except (StoreUnavailable, StoreMisconfigured) as problem:
        results, stopped = [problem] * len(moving), problem
    back: list[LocalCopy[T]] = []  # of these it is known that they have no twin
    total = DrainResult(waiting=len(items) - len(moving), stopped=stopped)
    for held, result in zip(moving, results, strict=True):
        try:
            if result is None:
                waits = await _reconcile(kind, primary, home, held.record, watch)
            elif isinstance(result, StoreError):
                raise result
            else:
                waits = False
            (back if waits else arrived).append(held)
            total += DrainResult(waiting=int(waits))
        except (StoreUnavailable, StoreMisconfigured) as problem:
            total += DrainResult(waiting=1)
            if held.key in was_certain and not getattr(problem, "maybe_written", False):
                back.append(held)
        except StoreError as problem:
            total += DrainResult(waiting=1, refused=(problem,))
            if held.key in was_certain or await _is_free(home, held.key):
                back.append(held)
    try:
        if arrived:
            await _make_searchable(home)
            if arrive is not None:
                await arrive(kind, [held.record for held in arrived])
        if kept := [held.record for held in arrived if isinstance(held.record, Revision)]:
            await _remove_of_deleted(primary, kept)
    except StoreError as problem:
        total += DrainResult(waiting=len(arrived), stopped=problem)
    else:
        total += DrainResult(moved=sum(gone is True for gone in await here.remove(arrived)))
    await here.write([replace(held, uncertain=False) for held in back])
    return total


async def _keys_being_run(
    kind: Kind[T], home: Collection[T], items: Sequence[LocalCopy[T]], watch: LeaseWatch
) -> set[str]:
    """The keys of letters that are being run from the local store: a mark would refuse the outcome of the run."""
    letters = [held.record for held in items if isinstance(held.record, DeadLetter) and not held.uncertain]
    run = {letter.key: letter for letter in letters if letter.lease is not None}
    busy: set[str] = set()
    for twin in await home.get(list(run)) if run else ():
        with suppress(ItemFailed):  # it is tried, and refused, with the others
            if isinstance(twin, DeadLetter) and _settle(kind, twin, run[twin.key], watch).wait:
                busy.add(twin.key)
    return busy


def _settle(kind: Kind[Any], theirs: Any, ours: Any, watch: LeaseWatch) -> ReconcileResult[Any]:
    """Reconcile two records. Raises ItemFailed for any problem with them: the others go home all the same."""
    try:
        return kind.reconcile(theirs, ours, watch.now_for(theirs, ours)) if kind.reconcile else ReconcileResult()
    except Exception as problem:
        raise ItemFailed(ours.key, f"it cannot be reconciled with the one at home: {problem!r}") from problem


async def _find_place(kind: Kind[T], home: Collection[T], ours: T) -> tuple[T, T | None]:
    """Return our record under its key at home, and the primary's record under that key."""
    if kind is not LETTERS:
        return ours, await get_one(home, ours.key)
    found: Any = await find_place(cast("Any", home), cast("Any", ours))
    return cast("tuple[T, T | None]", found)


async def _make_searchable(home: Collection[Any]) -> None:
    """Make what has been written visible to searches, also of other processes, which a store need not promise."""
    try:
        await home.find(Query(limit=1))  # a store shows us what we have written, and then it shows it to everybody
    except StoreMisconfigured as problem:
        log.warning("what went home cannot be searched for: %s", problem)


async def _remove_of_deleted(primary: Store, kept: Sequence[Revision]) -> None:
    """Remove revisions from the primary again whose letters were deleted before they came. Raises StoreError."""
    letters = await primary.collection(LETTERS).get([revision.letter_key for revision in kept])
    deleted = {
        letter.key: letter
        for revision, letter in zip(kept, letters, strict=True)
        if isinstance(letter, DeadLetter) and letter.is_deleted and letter.knows(revision.entry_id)
    }
    await forget_revisions(primary.collection(REVISIONS), primary.collection(HISTORY), list(deleted.values()))


async def _is_free(home: Collection[T], key: str) -> bool:
    """Return True if the primary has nothing under the key: an earlier try that might have landed has not."""
    try:
        return await get_one(home, key) is None
    except StoreError:
        return False


async def _reconcile(kind: Kind[T], primary: Store, home: Collection[T], ours: T, watch: LeaseWatch) -> bool:
    """The primary has a record under this key: reconcile the two. True if ours is another one and has to wait.

    A letter of other work than the open one that is there goes home under an id of its own.
    """
    letter = ours
    for _ in range(_TRIES):  # a loop of its own: the key is looked for in each turn, and history is written first
        ours, theirs = await _find_place(kind, home, letter)
        if theirs is None:
            if await write_one(home, kind.versioned(ours, None)) is not None:
                return False
            continue
        if kind.same(theirs, ours):
            return False
        outcome = _settle(kind, theirs, ours, watch)
        if outcome.wait:
            return True
        if outcome.former is not None:
            history, former = outcome.former
            await keep_former(primary.collection(history), former)
        if outcome.live is None or await write_one(home, outcome.live) is not None:
            return False
    raise StoreUnavailable(f"record {ours.key!r} is changed by others all the time", maybe_written=True)
