"""Carrying bulk runs on, one after the other, in this process.

Any process may carry any run on, one at a time: it takes a lease by compare-and-set and gives it back as soon as there
is nothing to do for a moment. Who finds the lease of somebody who died asks the letters what was done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta

from mahavishnu.bulk.executor import Turn, Verbs
from mahavishnu.bulk.members import Lost
from mahavishnu.bulk.run_store import Shelves
from mahavishnu.model import bulk_rules
from mahavishnu.model.bulk_rules import POLL_SECONDS
from mahavishnu.model.bulk_run import ACTIVE, BulkRun, RunLease
from mahavishnu.model.clock import Clock
from mahavishnu.model.errors import StoreError, StoreMisconfigured, StoreUnavailable
from mahavishnu.model.ids import new_token
from mahavishnu.model.query import Is, Query, Sort
from mahavishnu.stores.base import get_one, write_one

log = logging.getLogger(__name__)
LEASE_SECONDS = 30.0
_AT_ONCE = 100  # runs that one look takes up


class Runner:
    """Carries on whatever is due, in this process."""

    def __init__(
        self,
        shelves: Shelves,
        verbs: Verbs,
        *,
        owner: str,
        clock: Clock,
        lease_seconds: Callable[[], float] = lambda: LEASE_SECONDS,
        skew_seconds: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.next_due: datetime | None = None  # when the soonest run has to be looked at again
        self._shelves = shelves
        self._verbs = verbs
        self._owner = owner
        self._clock = clock
        self._lease_seconds = lease_seconds
        self._skew_seconds = skew_seconds
        self._dropped: set[str] = set()  # leases that this runner could not give back: nobody works under them

    async def look(self) -> bool:
        """Carry on everything that is due, until it has to wait. Returns whether anything was done.

        Raises StoreError; what was done until then stays done, and the next look goes on.
        """
        self.next_due = None  # what it was has come; where this look fails, the next one has time
        page = await self._shelves.runs.find(Query((Is("state", ACTIVE),), (Sort("due_at"),), _AT_ONCE))
        did = False
        problem: StoreError | None = None
        if page.degraded:
            problem = StoreUnavailable(f"not every bulk run can be seen now: {page.degraded}")
        due: list[datetime] = []
        for found in page.items:
            turn = None
            try:
                if (turn := await self._take(found.run_id)) is not None:
                    did |= await self._carry(turn)
                    found = turn.run
            except StoreError as trouble:  # of one run: the others are not held up
                problem = trouble
            if found.due_at is not None and found.state in ACTIVE:
                soon = self._clock.now() + timedelta(seconds=POLL_SECONDS)
                due.append(found.due_at if turn is not None else max(found.due_at, soon))
        self.next_due = min(due, default=None)
        if problem is not None:
            raise problem
        return did

    async def _take(self, run_id: str) -> Turn | None:
        """The right to carry the run on, or None."""
        run = await get_one(self._shelves.runs, run_id)
        if run is None or not self._is_free(run):
            return None
        now, lease = self._clock.now(), RunLease(self._owner, new_token())
        until = now + timedelta(seconds=self._lease_seconds())
        taken = await write_one(self._shelves.runs, bulk_rules.with_lease(run, lease, until, now))
        if taken is None:
            return None
        if run.lease is not None:
            self._dropped.discard(run.lease.token)
        return Turn(
            self._shelves, self._verbs, self._clock, self._lease_seconds, taken, lease, recovering=run.lease is not None
        )

    def _is_free(self, run: BulkRun) -> bool:
        if run.state in ACTIVE and run.lease is not None and run.lease.token in self._dropped:
            return True
        return bulk_rules.is_free(run, self._clock.now(), timedelta(seconds=self._skew_seconds()))

    async def _carry(self, turn: Turn) -> bool:
        try:
            return await turn.carry_on()
        except Lost:
            return True
        except asyncio.CancelledError:
            with suppress(StoreError, Lost):
                await turn.leave()
            raise
        except (StoreUnavailable, StoreMisconfigured):
            self._dropped.add(turn.lease.token)
            raise
        except Exception as problem:  # it would be the same in the next look
            log.exception("bulk run %s cannot be carried on", turn.run.run_id)
            with suppress(Lost):
                await turn.halt(f"it cannot be carried on: {type(problem).__name__}: {problem}", exact=False)
            return True
