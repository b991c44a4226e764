"""Takes the bulk runs that are due, one after the other, and works on each.

Any process may work on any run, one process at a time: it takes a lease by compare-and-set, and returns it as soon as
there is nothing to do for a moment. A process that takes over from one that died asks the letters what was done.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import datetime, timedelta

from mahavishnu.bulk.executor import RunExecutor, lease_time
from mahavishnu.bulk.run_store import RunLeaseLost, RunStore
from mahavishnu.engine.context import QueueContext
from mahavishnu.model import bulk_rules
from mahavishnu.model.bulk_rules import POLL_SECONDS
from mahavishnu.model.bulk_run import ACTIVE, BulkRun, RunLease
from mahavishnu.model.errors import StoreError, StoreMisconfigured, StoreUnavailable
from mahavishnu.model.ids import new_token
from mahavishnu.model.query import Is, Query, Sort
from mahavishnu.stores.base import write_with_retry

log = logging.getLogger(__name__)
_AT_ONCE = 100  # runs taken in one round


class Runner:
    """Works on every run that is due, in this process."""

    def __init__(self, context: QueueContext, store: RunStore) -> None:
        self.next_due: datetime | None = None  # when the soonest run is due again
        self._context, self._clock, self._store = context, context.clock, store
        self._dropped: set[str] = set()  # tokens of leases that this runner could not return: nobody works under them

    async def advance(self) -> bool:
        """Work on every run that is due until it has to wait. Returns whether anything was done.

        Raises StoreError; what was done until then stays done, and the next call goes on.
        """
        self.next_due = None  # it has come; if this call fails, the next one has time
        page = await self._store.runs.find(Query((Is("state", ACTIVE),), (Sort("due_at"),), _AT_ONCE))
        did = False
        problem: StoreError | None = None
        if page.degraded:
            problem = StoreUnavailable(f"not every bulk run can be seen now: {page.degraded}")
        due: list[datetime] = []
        now, skew = self._clock.now(), timedelta(seconds=self._context.limits.skew_seconds)
        free = {run.run_id for run in page.items if bulk_rules.is_free(run, now, skew, self._dropped)}
        for run in page.items:
            executor = None
            try:
                if run.run_id in free and (executor := await self._take(run, skew)) is not None:
                    did |= await self._execute(executor)
                    run = executor.run
            except StoreError as error:  # it must not stop the other runs
                problem = error
            if run.due_at is not None and run.state in ACTIVE:
                soon = self._clock.now() + timedelta(seconds=POLL_SECONDS)
                due.append(run.due_at if executor is not None else max(run.due_at, soon))
        self.next_due = min(due, default=None)
        if problem is not None:
            raise problem
        return did

    async def _take(self, run: BulkRun, skew: timedelta) -> RunExecutor | None:
        """Take the lease of a run that was found free. None if it is not free any more."""
        lease = RunLease(self._context.owner, new_token())

        def taken(current: BulkRun | None) -> BulkRun | None:
            whole, now = lease_time(self._context), self._clock.now()
            if current is None or (current is not run and not bulk_rules.is_free(current, now, skew, self._dropped)):
                return None  # it was changed since, or `find` lags
            return bulk_rules.with_lease(current, lease, now + whole, now)

        before, written = await write_with_retry(self._store.runs, run.run_id, taken, what="bulk run", known=run)
        if before is None or written is None:
            return None
        if before.lease is not None:
            self._dropped.discard(before.lease.token)
        return RunExecutor(self._context, self._store, written, recovering=before.lease is not None)

    async def _execute(self, executor: RunExecutor) -> bool:
        try:
            return await executor.execute()
        except RunLeaseLost:
            return True
        except asyncio.CancelledError:
            with suppress(StoreError, RunLeaseLost):
                await executor.abandon()
            raise
        except (StoreUnavailable, StoreMisconfigured):
            self._dropped.add(executor.lease.token)
            raise
        except Exception as problem:  # the next call would meet it again
            log.exception("bulk run %s cannot be carried on", executor.run.run_id)
            with suppress(RunLeaseLost):
                await executor.halt(f"it cannot be carried on: {type(problem).__name__}: {problem}", exact=False)
            return True
