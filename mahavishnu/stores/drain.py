"""Moving what was kept locally home into the primary store, so that no crash at any point loses or doubles it.

The order is the proof. First the local copy is marked uncertain, by CAS: from then on nobody changes it. Then it is
created in the primary store. Only then it is removed locally. Whoever finds a marked copy, in whatever process, may
start again from there: the create says that it exists already, and the two are compared.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mahavishnu.model.errors import StoreError, StoreMisconfigured, StoreUnavailable
from mahavishnu.model.query import Query
from mahavishnu.stores.base import Collection, Cursor, Store, get_one, write_one
from mahavishnu.stores.held import Held, held_kind
from mahavishnu.stores.schema import Kind, Outcome, T

log = logging.getLogger(__name__)
BATCH = 500
_TRIES = 5  # at a record of the primary that others keep changing; the next round tries again


@dataclass(frozen=True, slots=True)
class Drained:
    """What one round did: how many went home, how many still wait, and what could not go, with the reason."""

    moved: int = 0
    waiting: int = 0
    refused: tuple[StoreError, ...] = ()
    stopped: StoreError | None = None

    def __add__(self, other: Drained) -> Drained:
        return Drained(
            self.moved + other.moved,
            self.waiting + other.waiting,
            self.refused + other.refused,
            self.stopped or other.stopped,
        )


async def drain(kind: Kind[T], primary: Store, local: Store) -> Drained:
    """Move every record of the kind, until the primary takes no more. Raises nothing but what `local` raises."""
    home, here = primary.collection(kind), local.collection(held_kind(kind))
    total = Drained()
    after: Cursor | None = None
    while True:
        page = await here.find(Query(limit=BATCH), after)
        total += Drained(waiting=len(page.corrupt), refused=page.corrupt)
        if page.items:
            total += await _move(kind, primary, home, here, page.items)
        if page.next is None or total.stopped:
            return total
        after = page.next


async def _move(
    kind: Kind[T], primary: Store, home: Collection[T], here: Collection[Held[T]], items: Sequence[Held[T]]
) -> Drained:
    marked = await _mark(here, items)
    moving = list(marked.values())
    try:
        results = await home.write([kind.versioned(held.record, None) for held in moving])
    except (StoreUnavailable, StoreMisconfigured) as problem:
        results = [problem] * len(moving)
    arrived: list[Held[T]] = []
    back: list[Held[T]] = []
    total = Drained(waiting=len(items) - len(moving))
    for held, result in zip(moving, results, strict=True):
        try:
            if result is None:
                outcome = await _meet(kind, primary, home, held.record)
                (back if outcome else arrived).append(held)
                total += Drained(waiting=1 if outcome else 0)
            elif isinstance(result, StoreError):
                raise result
            else:
                arrived.append(held)
        except (StoreUnavailable, StoreMisconfigured) as problem:
            total += Drained(waiting=1, stopped=problem)
            if not getattr(problem, "maybe_written", False):
                back.append(held)
        except StoreError as problem:
            log.error("the primary store refuses a record that is kept locally: %s", problem)
            total += Drained(waiting=1, refused=(problem,))
            back.append(held)
    total += Drained(moved=sum(gone is True for gone in await here.remove(arrived)))
    was_certain = {held.key for held in items if not held.uncertain}
    await here.write([replace(held, uncertain=False) for held in back if held.key in was_certain])
    return total


async def _mark(here: Collection[Held[T]], items: Sequence[Held[T]]) -> dict[str, Held[T]]:
    """The items that nobody can change any more. One that changed in this moment is left for the next round."""
    certain = [held for held in items if not held.uncertain]
    marked = await here.write([replace(held, uncertain=True) for held in certain])
    ours = [held for held in marked if held is not None and not isinstance(held, StoreError)]
    return {held.key: held for held in [*ours, *(held for held in items if held.uncertain)]}


async def _meet(kind: Kind[T], primary: Store, home: Collection[T], ours: T) -> str | None:
    """The primary has a record under this key: make one of the two. Returns why it has to wait, if it has to."""
    for _ in range(_TRIES):
        theirs = await get_one(home, ours.key)
        if theirs is None:
            if await write_one(home, kind.versioned(ours, None)) is not None:
                return None
            continue
        if kind.same(theirs, ours):
            return None
        outcome: Outcome[Any] = kind.reunite(theirs, ours) if kind.reunite else Outcome()
        if outcome.wait:
            return "it is being run"
        if outcome.former is not None:
            history, former = outcome.former
            await write_one(primary.collection(history), former)  # there already: an earlier try wrote it
        if outcome.live is None or await write_one(home, outcome.live) is not None:
            return None
    return "others keep changing it"
