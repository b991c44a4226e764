"""Signs of life of tracked runs that last longer: without them nobody can tell a long run from one whose process died.

A run that is done sooner writes none of its own.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from mahavishnu.engine.context import QueueContext
from mahavishnu.model.errors import MahavishnuError, StoreError
from mahavishnu.model.run_signs import SIGN, is_silent_for
from mahavishnu.model.task_moves import sign
from mahavishnu.model.tasks import TaskRecord

if TYPE_CHECKING:
    from mahavishnu.core.lifecycle.run import TaskRun
    from mahavishnu.core.lifecycle.service import Lifecycle

log = logging.getLogger(__name__)
_AT_ONCE = 500  # records of one write


class RunSigns:
    """The tracked runs of this process that are under way, and what writes that they live: all of them at once."""

    def __init__(self, context: QueueContext, lifecycle: Lifecycle) -> None:
        self._context, self._lifecycle = context, lifecycle
        self._runs: WeakValueDictionary[int, TaskRun] = WeakValueDictionary()
        self._timer_loop: asyncio.AbstractEventLoop | None = None
        self._renewing: asyncio.Task[None] | None = None

    def begin(self, run: TaskRun) -> None:
        """This run is under way, from now on until it has ended."""
        self._runs[id(run)] = run
        self.keep()

    def end(self, run: TaskRun) -> None:
        """This run has ended."""
        self._runs.pop(id(run), None)

    def keep(self) -> None:
        """See to it that signs are written: by a timer of this event loop, if the one that had it has ended."""
        loop = self._timer_loop
        if self._runs and (loop is None or not loop.is_running()):
            self._set_timer()

    def _set_timer(self) -> None:
        self._timer_loop = asyncio.get_running_loop()
        self._timer_loop.call_later(SIGN.total_seconds(), self._look)

    def _look(self) -> None:
        self._timer_loop = None
        if self._runs:
            self._set_timer()
            if self._renewing is None or self._renewing.done():
                self._renewing = asyncio.create_task(self._renew_quietly())

    async def _renew_quietly(self) -> None:
        try:
            await self._context.session.run_in_home_loop(self.renew)
        except StoreError as problem:
            log.debug("signs of life of tracked runs have to wait: %s", problem)
        except MahavishnuError:
            log.exception("signs of life of tracked runs could not be written")

    async def renew(self) -> None:
        """Write that the runs live of which nothing was written for a while."""
        now = self._context.clock.now()
        known = [run for ref in self._runs.valuerefs() if (run := ref()) is not None]
        silent = [run for run in known if not run.lost and is_silent_for(run.task, now, SIGN)]
        for first in range(0, len(silent), _AT_ONCE):
            async with AsyncExitStack() as turns:
                going: list[TaskRun] = []
                for run in silent[first : first + _AT_ONCE]:
                    if run.is_idle:  # what it is writing just now is a sign of life
                        await turns.enter_async_context(run.turn)
                        going.append(run)
                await self._write(going)

    async def _write(self, runs: list[TaskRun]) -> None:
        now = self._context.clock.now()
        signed = [sign(run.task, now=now) for run in runs]
        for run, result in zip(runs, await self._lifecycle.tasks.write(signed) if signed else (), strict=True):
            if isinstance(result, TaskRecord):
                run.task = result
            elif result is None:  # somebody else has written it meanwhile
                try:
                    again = partial(sign, now=now, run=run.token)
                    run.task = await self._lifecycle.change(run.task.task_id, again)
                except MahavishnuError as problem:  # its next report finds out
                    log.warning("task %s is not ours any more: %s", run.task.task_id, problem)
                    self.end(run)
