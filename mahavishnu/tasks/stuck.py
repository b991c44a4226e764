"""The regular looks of a worker for stale and stuck tasks: stuck ones are reset, or given up after too many resets."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial

from msgspec.structs import replace

from mahavishnu.engine.context import QueueContext
from mahavishnu.engine.periodic import PeriodicTask
from mahavishnu.engine.queue import LetterQueue
from mahavishnu.model.errors import IllegalMove, MahavishnuError, NoSuchTask, StoreUnavailable
from mahavishnu.model.letter_parts import DlqReason
from mahavishnu.stores.base import CURRENT, write_with_retry
from mahavishnu.tasks import rules as task_moves
from mahavishnu.tasks.records import STALENESS
from mahavishnu.tasks.service import Lifecycle
from mahavishnu.tasks.staleness import StaleTasks
from mahavishnu.tasks.staleness_rules import (
    OPEN_TASK,
    STUCK_DETECTOR,
    Pause,
    StalenessRules,
    StaleRow,
    describe_stuck,
    is_stuck,
    may_recover,
    plan_for,
    stuck_queries,
    watch_after,
)
from mahavishnu.tasks.task import TaskRecord

log = logging.getLogger(__name__)
_HANDOVER_SECONDS = 60.0


def chores(queue: LetterQueue) -> Iterable[PeriodicTask]:
    """Return the periodic tasks of lifecycle tasks."""
    context = queue.context
    cycle = StalenessCycle(context)

    async def find_stale_tasks() -> None:
        try:
            await cycle.run()
        except Exception:
            context.counts["staleness_errors"] += 1
            raise

    def rules() -> StalenessRules:
        return context.rules(StalenessRules)

    return (
        PeriodicTask("stale tasks", find_stale_tasks, lambda: rules().detection_interval_seconds),
        PeriodicTask("stuck tasks", cycle.recover_stuck, lambda: rules().stuck_task_detection_interval_seconds),
        PeriodicTask(
            "hand-overs of lifecycle tasks", lambda: Lifecycle(context).handover.finish(), lambda: _HANDOVER_SECONDS
        ),
    )


class StalenessCycle:
    """Looks as the settings say. A task that may still run is only flagged, since its process may live."""

    def __init__(self, context: QueueContext) -> None:
        self._context, self._lifecycle = context, Lifecycle(context)
        self._tasks = StaleTasks(context, self._lifecycle, spares_runs=True)
        self._stuck = StuckTasks(context, self._lifecycle)
        self._seen_at: datetime | None = None

    async def run(self) -> int:
        """Look once for stale tasks, and return how many needed action."""
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
            text = "stale tasks: total=%d moved_to_dlq=%d transitioned=%d dry_run=%s"
            log.info(text, len(rows), moved, ended, rules.dry_run)
        return len(rows)

    async def recover_stuck(self) -> int:
        """Look once for stuck tasks; return how many were reset or given up."""
        rules = self._context.rules(StalenessRules)
        if not rules.enabled or not rules.enable_stuck_task_detection or not await self._begin_look():
            return 0
        return await self._stuck.recover(self._tasks.rules, await self._tasks.pauses())

    async def _begin_look(self) -> bool:
        """Return whether anything is tracked; only then is the look written down."""
        await self._context.open()
        now, namespace = self._context.clock.now(), self._context.namespace
        tracked = bool((await self._lifecycle.tasks.find(OPEN_TASK)).items)
        if tracked:
            rules = self._context.rules(StalenessRules)
            look = partial(watch_after, rules=rules, now=now, namespace=namespace, seen_at=self._seen_at)
            await write_with_retry(self._context.store.collection(STALENESS), namespace, look, what="staleness")
        self._seen_at = now
        return tracked


class StuckTasks:
    """Finds the stuck tasks of one namespace, and moves them."""

    def __init__(self, context: QueueContext, lifecycle: Lifecycle) -> None:
        self._context, self._lifecycle = context, lifecycle

    async def recover(self, rules: StalenessRules, pauses: Sequence[Pause]) -> int:
        """Reset or give up stuck tasks, each on its own; return how many. `dry_run` logs. Raises StoreUnavailable."""
        moved = 0
        for query in stuck_queries(rules, self._context.clock.now(), rules.batch_size):
            page = await self._lifecycle.tasks.find(query)
            while True:
                for task in page.items:
                    moved += await self._answer(task, rules, pauses)
                if page.next is None:
                    break
                page = await self._lifecycle.tasks.find(query, replace(page.next, snapshot=CURRENT))
        return moved

    async def _answer(self, task: TaskRecord, rules: StalenessRules, pauses: Sequence[Pause]) -> bool:
        still, now = partial(self._is_stuck, rules, pauses), self._context.clock.now()
        if not still(task):
            return False
        what = describe_stuck(task, now, pauses)
        if rules.dry_run:
            log.info("%s: task %s", what, task.task_id)
            return True
        try:
            if may_recover(task, rules):
                return await self._reset(task, rules, pauses, what)
            what = f"{what}, after it was reset {task.recovery_count} times"
            await self._give_up(task, rules, what, pauses)
        except (IllegalMove, NoSuchTask):  # it has gone on, or somebody else was quicker
            return False
        except StoreUnavailable:
            raise
        except MahavishnuError as problem:
            self._context.counts["staleness_errors"] += 1
            log.warning("stuck task %s could not be moved: %s", task.task_id, problem)
            return False
        log.warning("%s: task %s is given up", what, task.task_id)
        return True

    def _is_stuck(self, rules: StalenessRules, pauses: Sequence[Pause], task: TaskRecord) -> bool:
        """Return whether the task is stuck now; tasks for people to review stay unchanged."""
        return is_stuck(task, rules, self._context.clock.now(), pauses) and not plan_for(rules, task.template).review

    async def _reset(self, task: TaskRecord, rules: StalenessRules, pauses: Sequence[Pause], what: str) -> bool:
        reset = False

        def recover(current: TaskRecord) -> TaskRecord:
            nonlocal reset
            reset = self._is_stuck(rules, pauses, current) and may_recover(current, rules)
            now, owner = self._context.clock.now(), self._context.owner
            return task_moves.recover(current, now=now, processor=owner) if reset else current

        after = await self._lifecycle.change(task.task_id, recover, known=task)
        if reset:
            self._context.counts["stuck_tasks_reset"] += 1
            log.warning("%s: task %s is reset, for the %d. time", what, task.task_id, after.recovery_count)
        return reset

    async def _give_up(self, task: TaskRecord, rules: StalenessRules, what: str, pauses: Sequence[Pause]) -> None:
        def still(current: TaskRecord) -> bool:
            return self._is_stuck(rules, pauses, current) and not may_recover(current, rules)

        letter, reason = plan_for(rules, task.template).to_letter, DlqReason.MAX_RETRIES_EXCEEDED
        give_up = self._lifecycle.handover.give_up
        await give_up(task.task_id, what, by=STUCK_DETECTOR, reason=reason, still=still, letter=letter)
