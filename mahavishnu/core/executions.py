"""Runs of workflows by their name: through their adapter, and into a letter if they fail; tracked where asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from mahavishnu.capture.adapters import current_attempt, live_attempt, run_as
from mahavishnu.capture.functions import given_id
from mahavishnu.capture.runner import WorkflowResult
from mahavishnu.model.ids import new_task_id
from mahavishnu.model.json_value import texts
from mahavishnu.model.letter import DeadLetter
from mahavishnu.values.payload import LetterRequest, TaskSnapshot

T = TypeVar("T")

if TYPE_CHECKING:
    from mahavishnu.core.app import MahavishnuApp
    from mahavishnu.tasks.run import TaskRun


class RunOrder(NamedTuple):
    """What `execute_workflow` is asked to run, and whether its failure becomes a letter."""

    task: Any
    adapter_name: str
    repos: Sequence[str] | None
    task_id: str | None
    metadata: Mapping[str, Any] | None
    enqueue: bool | None


class Executions:
    """Runs workflows of one app by their name."""

    def __init__(self, app: MahavishnuApp) -> None:
        self._app = app

    def run(self, order: RunOrder, *, each: bool = False, track: bool = False) -> Awaitable[WorkflowResult]:
        """Run a workflow, once for all repos or once for `each` of them."""
        if track and self._app.queue_if_enabled is not None:
            run = self._run_tracked(order)
        else:
            run = self._run(order, each=each)
        if current_attempt.get() is None:  # it costs nothing where it is not needed
            return run
        dlq = self._app.queue_if_enabled
        namespace = None if dlq is None else dlq.context.namespace
        name = given_id(order.task_id, order.task)
        return _inside_attempt(run, name, order.task, order.adapter_name, namespace)

    async def run_again(self, letter: DeadLetter, task: Any, adapter_name: str, repos: list[str]) -> WorkflowResult:
        """Run a letter's task again; a tracked one goes on after the steps that have ended."""
        app = self._app
        if letter.source.state is None:  # it is not tracked
            return await app.runner.run_again(task, adapter_name, repos)
        run = await app.lifecycle.tracking.resume(letter)
        if run is None:
            return WorkflowResult(status="completed", result=None, adapter=adapter_name)
        with run.inside():
            done = await app.runner.run(task, adapter_name, repos)
        if done.result.failed:
            await run.fail(done.error)
        else:
            await run.succeed()
        return done.result

    async def _run(self, order: RunOrder, *, each: bool = False, tracked: TaskRun | None = None) -> WorkflowResult:
        task, adapter_name, repos, task_id, metadata, enqueue = order
        integration, name = self._app.dlq_integration, given_id(task_id, task)
        began = None if name is None or integration is None else integration.begin_run()
        try:
            run = await self._app.runner.run(task, adapter_name, repos, per_repo=each)
        except asyncio.CancelledError:  # the caller gave up, or a retry is given back
            if integration is not None and live_attempt() is None:
                integration.count_cancelled()
            raise
        if not run.result.failed:
            if (attempt := current_attempt.get()) is not None:
                attempt.note_own_success(run.repos)
            elif began is not None and integration is not None and name is not None:
                request = partial(_request_of, name, run.snapshot, adapter_name, run.repos)
                integration.note_success(name, request, began)
            if integration is not None:
                integration.count_run()
            return run.result
        left = run.failed_repos if self._app.config.retry_only_failed_repos else run.repos
        failed = self._request(name or new_task_id(), run.snapshot.task, adapter_name, left, metadata)
        if tracked is not None:
            failed = tracked.with_snapshot(failed)
        run.result["workflow_id"], run.result["dlq_enqueued"] = failed.task_id, False
        if integration is not None and enqueue is not False and (tracked is None or not tracked.lost):
            outcome = await integration.capture(failed, run.error, requested=bool(enqueue), named=name is not None)
            run.result.update(outcome.as_result())
        if tracked is not None:
            await tracked.fail(run.error)
        return run.result

    async def _run_tracked(self, order: RunOrder) -> WorkflowResult:
        order = order._replace(repos=(chosen := texts(order.repos or (), "repos")))
        given = given_id(order.task_id, order.task)
        request = self._request(given or new_task_id(), order.task, order.adapter_name, chosen, order.metadata)
        tracked = await self._app.lifecycle.tracking.begin(request)
        if tracked is None:  # it was done before, and only its letter did not know
            return WorkflowResult(status="completed", result=None, adapter=order.adapter_name)
        with tracked.inside():
            try:
                result = await self._run(order, tracked=tracked)
            except asyncio.CancelledError:
                await tracked.cancel()
                raise
        if not result.failed:
            await tracked.succeed()
        return result

    def _request(
        self, name: str, task: Any, adapter_name: str, repos: Sequence[str], metadata: Mapping[str, Any] | None
    ) -> LetterRequest:
        """What a letter of the run has."""
        signature = self._app.adapters.signature(adapter_name)
        return LetterRequest(
            task_id=name,
            task=task,
            repos=repos,
            metadata=metadata,
            adapter=adapter_name,
            write=signature.write_task if signature is not None else None,
        )


def _request_of(task_id: str, snapshot: TaskSnapshot, adapter_name: str, repos: Sequence[str]) -> LetterRequest:
    return LetterRequest(task_id=task_id, task=snapshot.task, repos=repos, adapter=adapter_name)


async def _inside_attempt(
    run: Awaitable[T], task_id: str | None, task: Any, adapter_name: str, namespace: str | None
) -> T:
    with run_as(task_id, task, adapter_name, namespace):
        return await run
