"""The archive: where closed letters go when their time in the queue is over, and what is read there."""

from __future__ import annotations

from dataclasses import replace

from mahavishnu.core.queue.archiving import Archiving
from mahavishnu.engine.context import DEFAULT_ACTOR, QueueContext
from mahavishnu.model.errors import InvalidInput, StoreUnavailable
from mahavishnu.model.retention import ArchiveResult
from mahavishnu.stores.base import is_home_away


class Archive:
    """Archives closed letters, a partition for each month."""

    def __init__(self, context: QueueContext) -> None:
        self._context = context

    async def archive_completed_tasks(
        self, retention_days: int = 30, batch_size: int = 1000, dry_run: bool = True, *, by: str = DEFAULT_ACTOR
    ) -> ArchiveResult:
        """Archive the letters whose cases ended more than `retention_days` ago; with `dry_run` only count them.

        What was cancelled or given up leaves by `retention.cancelled_days` and `retention.permanently_failed_days`; by
        default it stays. Open letters stay always, and so do those of groups that are on hold. Each letter takes along
        its former letters and its revisions. Doing it again goes on where a former time was stopped.

        Raises InvalidInput for numbers that make no sense, and StoreError.

        >>> (await dlq.archive.archive_completed_tasks(dry_run=False)).tasks_archived  # doctest: +SKIP
        1412
        """
        if type(batch_size) is not int or not 1 <= batch_size <= 10_000:
            raise InvalidInput(f"batch_size is a whole number from 1 to 10000, not {batch_size!r:.80}")
        context = self._context
        rules = replace(context.retention, completed_days=retention_days)
        await context.open()
        if is_home_away(context.store):
            raise StoreUnavailable("letters are archived only while the store that all processes share can be reached")
        archiving = Archiving(context, rules, by)
        if dry_run:
            return await archiving.run(batch_size, dry_run=True)
        async with context.audit.record("archive", "queue", by=by) as record:
            result = await archiving.run(batch_size, dry_run=False)
            record.add(archived=result.tasks_archived, failed=len(result.failed), retention_days=retention_days)
        return result
