"""The regular look for stale tasks: batch after batch until none is left, and nobody is blamed for downtime."""

from __future__ import annotations

import logging
from dataclasses import replace

from mahavishnu.core.lifecycle.service import Lifecycle
from mahavishnu.core.lifecycle.staleness import StaleRow, StaleTasks
from mahavishnu.engine.context import QueueContext
from mahavishnu.model.staleness import StalenessWatch, pauses_after
from mahavishnu.stores.base import write_with_retry
from mahavishnu.stores.source_kinds import STALENESS

log = logging.getLogger(__name__)


class StalenessCycle:
    """Looks as the settings say. What may still run is only pointed out: nobody knows whether its process has died."""

    def __init__(self, context: QueueContext) -> None:
        self._context = context
        self._tasks = StaleTasks(context, Lifecycle(context), spares_runs=True)

    async def run(self) -> int:
        """Look once; returns how many tasks were found."""
        await self._note_look()
        rules = self._context.staleness
        if not rules.enabled:
            return 0
        if rules.emit_warnings and not rules.dry_run:
            await self._tasks.warn()
        rows: dict[str, StaleRow] = {}
        for _ in range(1 if rules.dry_run else rules.max_batches_per_cycle):
            found = await self._tasks.detect(rules.dry_run, rules.batch_size, answered=rows)
            rows |= {row["task_uuid"]: row for row in found}
            if len(found) < rules.batch_size:
                break
        if rows:
            moved, ended = (
                sum(bool(row[key]) for row in rows.values()) for key in ("moved_to_dlq", "transition_success")
            )
            log.info(
                "stale tasks: total=%d moved_to_dlq=%d transitioned=%d dry_run=%s",
                len(rows),
                moved,
                ended,
                rules.dry_run,
            )
        return len(rows)

    async def _note_look(self) -> None:
        await self._context.open()
        now, rules, namespace = self._context.clock.now(), self._context.staleness, self._context.namespace

        def look(before: StalenessWatch | None) -> StalenessWatch | None:
            if before is None:
                return StalenessWatch(namespace, now)
            pauses = pauses_after(before.pauses, before.looked_at, now, rules)
            return replace(before, looked_at=max(now, before.looked_at), pauses=pauses)

        await write_with_retry(self._context.store.collection(STALENESS), namespace, look, what="staleness")
