"""Resets lifecycle tasks that are stuck, so that somebody goes on with them; those that were too often are given up."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from mahavishnu.engine.context import QueueContext
from mahavishnu.model import task_moves
from mahavishnu.model.errors import IllegalMove, MahavishnuError, NoSuchTask, StoreUnavailable
from mahavishnu.model.letter_parts import DlqReason
from mahavishnu.model.stale_queries import stuck_queries
from mahavishnu.model.staleness import Pause, StalenessRules, plan_for
from mahavishnu.model.stuck import STUCK_DETECTOR, describe_stuck, is_stuck, may_recover
from mahavishnu.model.tasks import TaskRecord
from mahavishnu.stores.base import CURRENT

if TYPE_CHECKING:
    from mahavishnu.core.lifecycle.service import Lifecycle

log = logging.getLogger(__name__)


class StuckTasks:
    """Finds the stuck tasks of one namespace, and moves them."""

    def __init__(self, context: QueueContext, lifecycle: Lifecycle) -> None:
        self._context, self._lifecycle = context, lifecycle

    async def recover(self, rules: StalenessRules, pauses: Sequence[Pause]) -> int:
        """Reset what is stuck, or give it up; returns how many tasks. With `dry_run` only the log says so.

        A task that cannot be moved holds up no other one. Raises StoreUnavailable.
        """
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
        """Whether it is, now; what people are to look at stays as it is."""
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

        letter = plan_for(rules, task.template).to_letter
        reason = DlqReason.MAX_RETRIES_EXCEEDED
        await self._lifecycle.handover.give_up(
            task.task_id, what, by=STUCK_DETECTOR, reason=reason, still=still, letter=letter
        )
