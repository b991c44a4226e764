"""The regular looks for stale and stuck tasks: until none is left, and nobody is blamed for downtime."""

from __future__ import annotations

import logging
from datetime import datetime
from functools import partial

from mahavishnu.core.lifecycle.service import Lifecycle
from mahavishnu.core.lifecycle.staleness import StaleTasks
from mahavishnu.core.lifecycle.stuck import StuckTasks
from mahavishnu.engine.context import QueueContext
from mahavishnu.model.stale_queries import OPEN_TASK
from mahavishnu.model.staleness import StalenessRules, StaleRow, watch_after
from mahavishnu.stores.base import write_with_retry
from mahavishnu.stores.source_kinds import STALENESS

log = logging.getLogger(__name__)


class StalenessCycle:
    """Looks as the settings say. What may still run is only pointed out: nobody knows whether its process has died."""

    def __init__(self, context: QueueContext) -> None:
        self._context, self._lifecycle = context, Lifecycle(context)
        self._tasks = StaleTasks(context, self._lifecycle, spares_runs=True)
        self._stuck = StuckTasks(context, self._lifecycle)
        self._seen_at: datetime | None = None

    async def run(self) -> int:
        """Look once for stale tasks; returns how many were found of which something is to become."""
        rules = self._context.rules(StalenessRules)
        if not await self._begin_look() or not rules.enabled:
            return 0
        if rules.emit_warnings and not rules.dry_run:
            await self._tasks.warn()
        rows: list[StaleRow] = []
        batches = 1 if rules.dry_run else rules.max_batches_per_cycle
        async for batch in self._tasks.detect_all(rules.dry_run, rules.batch_size, batches):
            rows += batch
        if rows:
            moved, ended = (sum(bool(row[key]) for row in rows) for key in ("moved_to_dlq", "transition_success"))
            log.info(
                "stale tasks: total=%d moved_to_dlq=%d transitioned=%d dry_run=%s",
                len(rows),
                moved,
                ended,
                rules.dry_run,
            )
        return len(rows)

    async def recover_stuck(self) -> int:
        """Look once for stuck tasks; returns how many were reset or given up."""
        rules = self._context.rules(StalenessRules)
        if not rules.enabled or not rules.enable_stuck_task_detection or not await self._begin_look():
            return 0
        return await self._stuck.recover(self._tasks.rules, await self._tasks.pauses())

    async def _begin_look(self) -> bool:
        """Whether anything is tracked. Only then it is written that somebody looked."""
        await self._context.open()
        now, namespace = self._context.clock.now(), self._context.namespace
        tracked = bool((await self._lifecycle.tasks.find(OPEN_TASK)).items)
        look = partial(
            watch_after, rules=self._context.rules(StalenessRules), now=now, namespace=namespace, seen_at=self._seen_at
        )
        if tracked:
            await write_with_retry(self._context.store.collection(STALENESS), namespace, look, what="staleness")
        self._seen_at = now
        return tracked
