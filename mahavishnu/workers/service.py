"""The live workers, letters that wait because none can run them, and the limits of adapters that workers keep to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypedDict, Unpack

from msgspec.structs import replace

from mahavishnu.engine.context import DEFAULT_ACTOR, QueueContext
from mahavishnu.model.clock import instant, instant_text
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.letter import DeadLetter, is_item
from mahavishnu.model.letter_parts import NO_ADAPTER, DeadLetterStatus, ResolutionStatus
from mahavishnu.model.query import ALL_NAMESPACES, AnyOf, Between, Condition, Is, Missing, Not, Query, Sort
from mahavishnu.model.record import Value
from mahavishnu.stores.base import scan, write_with_retry
from mahavishnu.workers.background import HEARTBEAT_SECONDS, WorkerWatch
from mahavishnu.workers.leases import ALL_LIMITS
from mahavishnu.workers.records import LIMITS, WORKERS
from mahavishnu.workers.rules import (
    LIVES_SECONDS,
    LONGEST_ADAPTER,
    AdapterLimit,
    WaitingLetters,
    Worker,
    check_limit,
    count_by_adapter,
    what_fits,
    what_is_missing,
    without_worker,
)

MOST_UNFIT = 10  # reasons why letters do not fit that are named
MOST_HELD = 20  # letters that are named of what one worker holds
PATIENCE = timedelta(seconds=LIVES_SECONDS)  # for which letters may be due before it is a reason to worry
_AT_ONCE = 1000
_RESOLUTION = timedelta(milliseconds=1)  # of instants in letters
# In the order of an index: no other letters are passed over.
_RUNNING = Query((Is("status", (DeadLetterStatus.RETRYING,)),), (Sort("created_at"),), _AT_ONCE)


class _Roll(Value, frozen=True):
    """Workers of all namespaces: the live ones, those in doubt, and those that are expected to run again."""

    live: Sequence[Worker]
    doubtful: Sequence[Worker]
    expected: Sequence[Worker]

    @property
    def possible(self) -> list[Worker]:
        """The workers that may run letters sooner or later."""
        return [*self.live, *self.doubtful, *self.expected]

    @property
    def certain(self) -> list[Worker]:
        """The workers that are sure to."""
        return [*self.live, *self.expected]


class WorkerReport(Value, frozen=True):
    """A worker for people to see. One that is not `live` has given no sign of life lately, and still holds letters.

    `live` is None where that is unknown: its last sign of life, dated by the clock of another machine, was not seen to
    come, nor to stay away. `worker` is None for one that has signed nothing. `holds` are some of the `held` letters
    that it has leases on. One that has `ended` ran all due letters, once, and is expected to do so again.
    """

    name: str
    live: bool | None
    worker: Worker | None
    held: int = 0
    holds: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        known = self.worker
        return {
            "name": self.name,
            "live": self.live,
            "host": known and known.host,
            "pid": known and known.pid,
            "started_at": known and instant_text(known.started_at),
            "seen_at": known and instant_text(known.seen_at),
            "queues": list(known.queues) if known and known.queues else None,
            "adapters": list(known.adapters) if known and known.adapters is not None else None,
            "takes_all": bool(known and known.takes_all),
            "remote": bool(known is None or known.remote),
            "ended": bool(known and known.ended),
            "held": self.held,
            "holds": list(self.holds),
        }


class WorkerList(list[WorkerReport]):
    """Workers; `degraded` explains why some may be missing, and is None for the whole truth."""

    degraded: str | None = None


def _why_unfit(letter: DeadLetter) -> str | None:
    """Describe what a letter waits for that did not fit the worker that took it."""
    if letter.unfit is None or letter.status is not DeadLetterStatus.PENDING:
        return None
    return what_fits(letter.adapter, letter.unfit, needs_edit=letter.due_at is None)


def _is_retried(letter: DeadLetter) -> bool:
    """Return whether it waits for an automatic run; an item of a named queue does not, workers lease it."""
    waits = letter.status is DeadLetterStatus.PENDING and letter.due_at is not None and letter.is_open
    return waits and not is_item(letter)


class Workers:
    """The live workers of all processes, and the letters that none of them can run."""

    def __init__(self, context: QueueContext) -> None:
        self._context = context
        self._workers = context.own_records(WORKERS)

    async def list(self) -> WorkerList:
        """List live workers, oldest first, then those that ended, and lost ones with letters. Raises StoreError."""
        await self._context.open()
        now, skew = self._context.clock.now(), self._context.limits.skew
        await self._context.part(WorkerWatch).look()
        page = await self._workers.find(Query(sort=(Sort("started_at"),), limit=_AT_ONCE))
        counts = await self._context.letters.tally(_RUNNING, ["claim_owner"])
        running = await self._context.letters.find(_RUNNING)
        held = {str(values[0]): cell.count for values, cell in counts.cells.items() if values[0] and cell.count}
        holds: dict[str, list[str]] = {}
        for letter in running.items:
            if letter.lease is not None and len(names := holds.setdefault(letter.lease.owner, [])) < MOST_HELD:
                names.append(letter.task_id)
        signed = {worker.name: worker for worker in page.items}
        reports = [
            WorkerReport(name, self._is_alive(signed.get(name)), signed.get(name), held.get(name, 0), tuple(some))
            for name, some in ((name, holds.get(name, ())) for name in dict.fromkeys([*signed, *held]))
        ]
        shown = [
            each
            for each in reports
            if each.live is not False or each.held or (each.worker is not None and each.worker.comes_again(now, skew))
        ]
        if (scope := self._context.scope) is not None:
            parts = [replace(each, worker=each.worker and each.worker.within(scope)) for each in shown]
            shown = [each for each in parts if each.worker is not None or each.held]
        found = WorkerList(sorted(shown, key=lambda each: (each.live is False, each.live is None)))
        found.degraded = page.degraded or counts.degraded or running.degraded
        return found

    async def waiting(self, overdue: timedelta | None = None) -> Sequence[WaitingLetters]:
        """Return open letters to be retried, `overdue` if given, that no live worker can run. Raises StoreError."""
        await self._context.open()
        roll = await self._roll()
        return [] if roll is None else await self._waiting(roll.possible, overdue)

    async def numbers(self, *, some_unfit: bool = True) -> dict[str, Any]:
        """Count the live workers, and the letters that wait for one, by adapter: all, and those that are overdue.

        `some_unfit=False` skips the search for unfit letters, for callers that know of none.

        `due_in_doubt` are overdue letters whose only workers may or may not live. Raises StoreError.
        """
        await self._context.open()
        roll = await self._roll()
        if roll is None:
            none: dict[str, Any] = {"waiting_for_worker": {}, "due_without_worker": {}, "due_in_doubt": {}}
            return {"live_workers": None, **none, "due_unfit": []}
        overdue = self._context.clock.now() - PATIENCE
        waiting, due = await self._counts(roll.possible, overdue)
        doubtful = (await self._counts(roll.certain, overdue))[1] if roll.doubtful else {}
        return {
            "live_workers": sum(each.takes_from(self._context.namespace) for each in roll.live),
            "waiting_for_worker": waiting,
            "due_without_worker": due,
            "due_in_doubt": {name: left for name, all_ in doubtful.items() if (left := all_ - due.get(name, 0)) > 0},
            "due_unfit": await self._unfit(overdue) if some_unfit else [],
        }

    async def _counts(
        self, workers: Sequence[Worker], overdue: datetime
    ) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """Count the letters that wait for others than these workers, by adapter: all, and those that are overdue."""
        own = self._context.namespace
        if own != ALL_NAMESPACES and not any(worker.queues for worker in workers if worker.takes_from(own)):
            all_, late = (
                without_worker([WaitingLetters("", name, left, namespace=own) for name, left in part.items()], workers)
                for part in await self._due_by_adapter(overdue)
            )
        else:
            all_, late = [*await self._waiting(workers, None)], [*await self._waiting(workers, PATIENCE)]
        return count_by_adapter(all_, NO_ADAPTER), count_by_adapter(late, NO_ADAPTER)

    async def _due_by_adapter(self, overdue: datetime) -> Sequence[Mapping[str | None, int]]:
        """Count the letters of each adapter to be retried, all and overdue, by an index. Empty in an outage."""
        now, edge = self._context.clock.now(), instant(overdue) + _RESOLUTION
        running = Is("status", (DeadLetterStatus.RETRYING,)), Not(Between("due_at", at_most=now))
        tallies = await asyncio.gather(  # each letter is in one of the first two
            self._context.letters.tally(Query((Between("due_at", below=edge),)), ["adapter"]),
            self._context.letters.tally(Query((Between("due_at", at_least=edge),)), ["adapter"]),
            self._context.letters.tally(Query(running), ["adapter"]),
        )
        if any(tally.degraded for tally in tallies):
            return {}, {}
        late, later, run = ({name: cell.count for (name,), cell in tally.cells.items()} for tally in tallies)
        all_ = {name: late.get(name, 0) + later.get(name, 0) - run.get(name, 0) for name in {**late, **later}}
        return [{name or None: left for name, left in part.items() if left > 0} for part in (all_, late)]

    async def _unfit(self, overdue: datetime) -> Sequence[dict[str, Any]]:
        """Count letters that have been due for a while and fit no worker that took them, by reason, most first."""
        marked = (Is("status", (DeadLetterStatus.PENDING,)), Not(Missing("unfit")))
        tally = await self._context.letters.tally(
            Query((Between("due_at", at_most=overdue), *marked)), ["adapter", "unfit"]
        )
        cells = sorted(tally.cells.items(), key=lambda item: (-item[1].count, str(item[0])))
        return [
            {"adapter": adapter or NO_ADAPTER, "count": cell.count, "why": why}
            for (adapter, why), cell in cells[:MOST_UNFIT]
            if cell.count and why
        ]

    async def why_waiting(self, letter: DeadLetter) -> str | None:
        """Describe what a letter waits for that no worker can run; None for any other letter. Raises StoreError."""
        return (await self.why_each_waits([letter]))[0]

    async def why_each_waits(self, letters: Sequence[DeadLetter]) -> Sequence[str | None]:
        """Return `why_waiting` of each letter, by the list of workers of the last seconds. Raises StoreError."""
        unfit = [_why_unfit(letter) for letter in letters]
        if not any(_is_retried(letter) for letter in letters):
            return unfit
        await self._context.open()
        roll = await self._roll(HEARTBEAT_SECONDS if len(letters) > 1 else 0.0)
        if roll is None:
            return unfit
        kinds = [WaitingLetters(each.queue, each.adapter, 1, namespace=each.namespace) for each in letters]
        lost = set(without_worker(set(kinds), roll.possible))
        return [
            what_is_missing(each.adapter) if _is_retried(each) and kind in lost else why
            for each, kind, why in zip(letters, kinds, unfit, strict=True)
        ]

    def _is_alive(self, worker: Worker | None) -> bool | None:
        if worker is None:
            return False
        return self._context.part(WorkerWatch).is_alive(worker, self._context.limits.skew)

    async def _roll(self, at_most_old: float = 0.0) -> _Roll | None:
        """Return the workers of all namespaces; None while the list cannot be read whole."""
        listed = await self._context.part(WorkerWatch).look(at_most_old)
        if listed is None:
            return None
        now, skew = self._context.clock.now(), self._context.limits.skew
        lives = {worker.key: self._is_alive(worker) for worker in listed}
        return _Roll(
            [each for each in listed if lives[each.key]],
            [each for each in listed if lives[each.key] is None],
            [each for each in listed if each.comes_again(now, skew)],
        )

    async def _waiting(self, live: Sequence[Worker], overdue: timedelta | None) -> Sequence[WaitingLetters]:
        now = self._context.clock.now()
        chosen: tuple[Condition, ...]
        if overdue is None:  # one that is being run needs no other worker
            pending = Is("status", (DeadLetterStatus.PENDING,))
            chosen = (AnyOf((pending, Between("due_at", at_most=now))), Between("due_at"))
        else:
            chosen = (Between("due_at", at_most=now - overdue),)
        query = Query((Is("resolution_status", (ResolutionStatus.PENDING,)), *chosen))
        own, by = self._context.namespace, ["queue", "adapter"]
        if own == ALL_NAMESPACES:  # to sort many letters by one more name takes a while
            by.append("namespace")
        tally = await self._context.letters.tally(query, by, spans=["due_at"])
        letters = [
            WaitingLetters(
                queue, adapter or None, cell.count, since, where[0] if where else own, cell.latest.get("due_at")
            )
            for (queue, adapter, *where), cell in tally.cells.items()
            if cell.count and (since := cell.earliest.get("due_at"))
        ]
        return [] if tally.degraded else without_worker(letters, live)


# --- limits of adapters


class LimitChanges(TypedDict, total=False):
    """The parts of a limit that change; None: no limit."""

    concurrency: int | None
    rate: str | None


class AdapterLimits:
    """The limits of adapters, as people set them."""

    def __init__(self, context: QueueContext) -> None:
        self._context, self._clock = context, context.clock
        self._records = context.own_records(LIMITS)

    async def list(self) -> Sequence[AdapterLimit]:
        """Return the adapters that have a limit, by name. Raises StoreError."""
        await self._context.open()
        found = [limit async for limit in scan(self._records, ALL_LIMITS)]
        return [limit for limit in found if limit.is_set]

    async def limit(
        self, adapter: str, *, by: str = DEFAULT_ACTOR, notes: str | None = None, **changes: Unpack[LimitChanges]
    ) -> AdapterLimit:
        """Set how many letters of an adapter run at once, and how many per second, minute or hour, in all workers.

        `concurrency` is a number from 1, `rate` a text such as `100/min`; None takes the limit away, and what is not
        given stays. Workers follow within seconds. Raises InvalidInput, PermissionDenied and StoreError.
        """
        check_limit(**changes)

        def change(current: AdapterLimit) -> AdapterLimit:
            concurrency, rate = check_limit(**{"concurrency": current.concurrency, "rate": current.rate, **changes})
            made = replace(current, concurrency=concurrency, rate=rate, set_by=by, set_at=self._clock.now())
            return made if made.rate == current.rate else replace(made, next_at=None)

        return await self._write(adapter, change, by, notes)

    async def reset(self, adapter: str, *, by: str = DEFAULT_ACTOR, notes: str | None = None) -> AdapterLimit:
        """Return to the declared limit or none, within seconds. Raises InvalidInput, PermissionDenied, StoreError."""

        def change(current: AdapterLimit) -> AdapterLimit:
            return replace(current, concurrency=None, rate=None, set_by=None, set_at=self._clock.now(), next_at=None)

        return await self._write(adapter, change, by, notes)

    async def _write(
        self, adapter: str, change: Callable[[AdapterLimit], AdapterLimit], by: str, notes: str | None
    ) -> AdapterLimit:
        if not isinstance(adapter, str) or not 0 < len(adapter) <= LONGEST_ADAPTER:
            raise InvalidInput(
                f"an adapter is named by a text of 1 to {LONGEST_ADAPTER} characters, not {adapter!r:.80}"
            )
        new = AdapterLimit(adapter, namespace=self._context.written_namespace)
        await self._context.open()
        async with self._context.audit.record("adapter.limit", f"adapter:{adapter}", by=by, reason=notes) as record:
            before, after = await write_with_retry(
                self._records, new.key, lambda current: change(current or new), what="limit"
            )
            assert after is not None  # `change` always writes
            record.add_change((before or new).values, after.values)
        return after
