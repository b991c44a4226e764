"""Tracked runs of workflows: a task is made when one begins, and a retry goes on with the task of its letter."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from mahavishnu.capture.adapters import live_attempt
from mahavishnu.capture.letter_factory import LetterRequest
from mahavishnu.core.lifecycle.run import TaskRun
from mahavishnu.core.lifecycle.signs import RunSigns
from mahavishnu.engine.context import QueueContext
from mahavishnu.model import task_moves
from mahavishnu.model.errors import InvalidPayload, StoreError
from mahavishnu.model.ids import new_entry_id, new_token
from mahavishnu.model.json_value import EMPTY, Json
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.namespaces import ALL_NAMESPACES
from mahavishnu.model.task_letters import begin_again, goes_on, has_done, new_task_id, tasks_of
from mahavishnu.model.tasks import TaskRecord, evolve, new_task
from mahavishnu.values.payload import NOT_JSON

if TYPE_CHECKING:
    from mahavishnu.core.lifecycle.service import Lifecycle

log = logging.getLogger(__name__)


class Tracking:
    """Begins runs that are tracked."""

    def __init__(self, context: QueueContext, lifecycle: Lifecycle) -> None:
        self._context, self._lifecycle = context, lifecycle
        self.signs = RunSigns(context, lifecycle)

    async def begin(self, request: LetterRequest) -> TaskRun | None:
        """A run begins, of which a letter would have this. Inside of a retry of it, its task goes on: see `resume`."""
        attempt = live_attempt()
        if attempt is not None:  # of this very workflow: any other one does not see it, see `run_as`
            return await self.resume(attempt.letter)
        return await self._begin(request)

    async def resume(self, letter: DeadLetter) -> TaskRun | None:
        """The letter's task goes on, by whoever runs the letter; None if the work is done: only the letter is open yet.

        If the work failed in another task, too, which no run of its own one has done since, that other one goes on. It
        begins anew where no task is left, or none is for all of its repos. Raises StoreError: nothing is run twice by
        mistake.
        """
        return await self._context.session.run_in_home_loop(partial(self._resume, letter))

    async def _resume(self, letter: DeadLetter) -> TaskRun | None:
        await self._context.open()
        tasks = await self._find_tasks(letter)
        if any(has_done(task, letter) for task in tasks):
            return None
        task = next((task for task in tasks if goes_on(task, letter)), None)
        token, owner, request = new_token(), self._context.owner, self._request_of(letter)

        def begin(task: TaskRecord) -> TaskRecord:
            return begin_again(task, letter, now=self._context.clock.now(), run=token, processor=owner)

        if task is None:
            log.warning("no lifecycle task of letter %r can go on: all of its steps are run again", letter.key)
            return await self._start(begin(self._task_of(request, new_task_id(letter))), request)
        task = await self._lifecycle.change(task.task_id, begin, known=task)
        run = TaskRun(self._lifecycle, self._context, task, request)
        self.signs.begin(run)
        return run

    async def _find_tasks(self, letter: DeadLetter) -> list[TaskRecord]:
        """Those that are there of the tasks with which a run of the letter may go on, in the order of choice."""
        found: list[TaskRecord] = []
        for task in await self._lifecycle.tasks.get([*tasks_of(letter), new_task_id(letter)]):
            if isinstance(task, StoreError):
                raise task
            if task is not None and self._context.namespace in (task.namespace, ALL_NAMESPACES):
                found.append(task)
        return found

    async def _begin(self, request: LetterRequest) -> TaskRun:
        now = self._context.clock.now()
        task = self._task_of(request, new_entry_id(now))
        task = task_moves.begin(task, now=now, run=new_token(), processor=self._context.owner)
        return await self._start(task, request)

    async def _start(self, task: TaskRecord, request: LetterRequest) -> TaskRun:
        run = TaskRun(self._lifecycle, self._context, task, request)
        self.signs.begin(run)
        await run.begin()
        self._context.meters.count("mahavishnu_tasks_discovered_total")
        return run

    def _task_of(self, request: LetterRequest, task_id: str) -> TaskRecord:
        context, now = self._context, self._context.clock.now()
        factory = context.letter_factory
        try:
            written = factory.write_payload(request)
        except InvalidPayload as problem:
            request = factory.with_placeholders(request, str(problem))
            written = factory.write_payload(request)
        payload, types, notes = written.payload, written.types, dict(written.notes)
        if len(payload.text) > factory.max_task_bytes:
            payload, types = EMPTY, EMPTY
            notes[NOT_JSON] = f"the task has more bytes as JSON than the {factory.max_task_bytes} of dlq_max_task_bytes"
        name = request.adapter or "workflow"
        task = new_task(name, now=now, namespace=context.namespace, task_id=task_id, context=payload, template=name)
        return evolve(
            task,
            context_types=types,
            notes=Json.of(notes) if notes else EMPTY,
            adapter=request.adapter,
            work_id=factory.with_usable_id(request).task_id,
            queue=request.queue,
            repos=request.readable_repos(),
            retry_policy=None if request.retry_policy is None else str(request.retry_policy),
            max_retries=request.max_retries,
        )

    def _request_of(self, letter: DeadLetter) -> LetterRequest:
        return LetterRequest(
            letter.task_id,
            letter.task,
            letter.repos,
            metadata=self._context.letter_factory.encryption.readable_labels(letter.labels).value,
            queue=letter.queue,
            adapter=letter.adapter,
            payload_types=letter.payload_types,
        )
