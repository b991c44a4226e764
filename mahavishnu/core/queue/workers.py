"""Who works on letters now, what each can run and holds, and which letters wait because nobody can run them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from mahavishnu.engine.context import QueueContext
from mahavishnu.model.clock import instant_text
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import NO_ADAPTER, DeadLetterStatus, ResolutionStatus
from mahavishnu.model.query import AnyOf, Between, Condition, Is, Query, Sort
from mahavishnu.model.worker import (
    LIVES_SECONDS,
    REMOTE_LIVES_SECONDS,
    WaitingLetters,
    Worker,
    count_by_adapter,
    what_is_missing,
    without_worker,
)
from mahavishnu.stores.kinds import WORKERS

MOST_HELD = 20  # letters that are named of what one worker holds
PATIENCE = timedelta(seconds=LIVES_SECONDS)  # for which letters may be due before it is a reason to worry
_AT_ONCE = 1000
_RUNNING = Query((Is("status", (DeadLetterStatus.RETRYING,)),), (Sort("due_at"),), _AT_ONCE)


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """A worker as people see it. One that is not `live` has given no sign of life lately, and still holds letters.

    `worker` is None for one that has signed nothing. `holds` are some of the `held` letters that it has leases on.
    """

    name: str
    live: bool
    worker: Worker | None
    held: int = 0
    holds: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
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
            "held": self.held,
            "holds": list(self.holds),
        }


class WorkerList(list[WorkerReport]):
    """Workers; `degraded` says, in words, why some may be missing, and is None for the whole truth."""

    degraded: str | None = None


class Workers:
    """The live workers of all processes, and the letters that none of them can run."""

    def __init__(self, context: QueueContext) -> None:
        self._context = context
        self._workers = context.own_records(WORKERS)
        self._of_all = context.store.collection(WORKERS)

    async def list(self) -> WorkerList:
        """The live workers, the oldest first, and then those that hold letters and give no sign of life.

        Raises StoreError.
        """
        await self._context.open()
        now = self._context.clock.now()
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
            WorkerReport(name, worker is not None and worker.lives_at(now), worker, held.get(name, 0), tuple(some))
            for name, worker, some in (
                (name, signed.get(name), holds.get(name, ())) for name in dict.fromkeys([*signed, *held])
            )
        ]
        found = WorkerList(sorted((each for each in reports if each.live or each.held), key=lambda each: not each.live))
        found.degraded = page.degraded or counts.degraded or running.degraded
        return found

    async def waiting(self, overdue: timedelta | None = None) -> Sequence[WaitingLetters]:
        """The open letters that are to be retried and that no live worker can run, by queue and adapter.

        With `overdue`, only those that have been due for so long. Empty where it cannot be told, as in an outage, or
        while a worker of an earlier version lives, which does not say what it can run. Raises StoreError.
        """
        await self._context.open()
        live = await self._live()
        return [] if live is None else await self._waiting(live, overdue)

    async def numbers(self) -> dict[str, Any]:
        """How many workers live, and how many letters wait for one, by adapter: all, and those that are overdue.

        Raises StoreError.
        """
        await self._context.open()
        live = await self._live()
        if live is None:
            return {"live_workers": None, "waiting_for_worker": {}, "due_without_worker": {}}
        waiting = await self._waiting(live, None)
        overdue = self._context.clock.now() - PATIENCE
        late = any(each.since is not None and each.since <= overdue for each in waiting)
        due = await self._waiting(live, PATIENCE) if late else ()
        return {
            "live_workers": sum(each.takes_from(self._context.namespace) for each in live),
            "waiting_for_worker": count_by_adapter(waiting, NO_ADAPTER),
            "due_without_worker": count_by_adapter(due, NO_ADAPTER),
        }

    async def why_waiting(self, letter: DeadLetter) -> str | None:
        """What the letter waits for, in words, if no live worker can run it; None if one can, or if it waits for none.

        Raises StoreError.
        """
        if letter.status is not DeadLetterStatus.PENDING or letter.due_at is None or not letter.is_open:
            return None
        await self._context.open()
        live = await self._live()
        alone = WaitingLetters(letter.queue, letter.adapter, 1, namespace=letter.namespace)
        if live is None or not without_worker([alone], live):
            return None
        return what_is_missing(letter.adapter)

    async def _live(self) -> Sequence[Worker] | None:
        """The live workers of all namespaces; None while that is not known."""
        now = self._context.clock.now()
        since = now - timedelta(seconds=REMOTE_LIVES_SECONDS)
        page = await self._of_all.find(Query((Between("seen_at", at_least=since),), limit=10_000))
        return None if page.degraded else [worker for worker in page.items if worker.lives_at(now)]

    async def _waiting(self, live: Sequence[Worker], overdue: timedelta | None) -> Sequence[WaitingLetters]:
        now = self._context.clock.now()
        chosen: tuple[Condition, ...]
        if overdue is None:  # one that is being run needs no other worker
            pending = Is("status", (DeadLetterStatus.PENDING,))
            chosen = (AnyOf((pending, Between("due_at", at_most=now))), Between("due_at"))
        else:
            chosen = (Between("due_at", at_most=now - overdue),)
        query = Query((Is("resolution_status", (ResolutionStatus.PENDING,)), *chosen))
        tally = await self._context.letters.tally(
            query, ["namespace", "queue", "adapter", "source_queue"], spans=["due_at"]
        )
        letters = [
            WaitingLetters(queue, (source if adapter is None else adapter) or None, cell.count, since, namespace)
            for (namespace, queue, adapter, source), cell in tally.cells.items()
            # Where neither is known, an earlier version wrote the letter: what runs it stands in its task.
            if cell.count and (since := cell.earliest.get("due_at")) and not adapter is source is None
        ]
        return [] if tally.degraded else without_worker(letters, live)
