"""Running a workflow through an adapter, over all repos at once or each for itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mahavishnu.classify.failure import message_of
from mahavishnu.model.attempt import current_attempt
from mahavishnu.model.json_value import json_text

Run = Callable[[list[str]], Awaitable[Any]]


def failure_in_result(result: Any) -> BaseException | str | None:
    """What a result says about its own failure; None if it does not say that it failed.

    A result may bring the exception itself as an attribute `exception`: that says more than its text.
    """
    if not isinstance(result, Mapping):
        return None
    if result.get("status") not in ("failed", "error") and result.get("success", True) is not False:
        return None
    if isinstance(exception := getattr(result, "exception", None), BaseException):
        return exception
    error = result.get("error") or result.get("errors") or result.get("message")
    return str(error) if error else f"the run answered {dict(result)!r}"[:500]


def failed_repos(result: Any, repos: Sequence[str]) -> tuple[str, ...] | None:
    """Those of `repos` that a failed result does not report as done; None if it does not tell them apart.

    >>> failed_repos({"results": {"api": {"status": "completed"}, "web": {"status": "failed"}}}, ["api", "web"])
    ('web',)
    """
    try:
        answers = (result.get("results") or result.get("repos")) if isinstance(result, Mapping) else None
        if not isinstance(answers, Mapping) or not answers.keys() & set(repos):
            return None
        left = tuple(repo for repo in repos if repo not in answers or _is_failure(answers[repo]))
    except Exception:  # a stranger made it: an array in it, for one, is neither true nor false
        return None
    return left or None  # all are done, and yet it failed: then it is not about the repos


def _is_failure(answer: Any) -> bool:
    """Whether the answer for one repo is a failure; `gather(return_exceptions=True)` gives the exception itself."""
    return answer is False or isinstance(answer, BaseException) or failure_in_result(answer) is not None


class TaskSnapshot:
    """A task as it was before a run that may change it: a retry gets what the first run got."""

    __slots__ = ("_before", "_task")

    def __init__(self, task: Any) -> None:
        # Inside of a retry nothing is captured: its letter has the task.
        self._task, self._before = task, _json_or_none(task) if current_attempt.get() is None else None

    @property
    def task(self) -> Any:
        """The task itself if it is what it was, or cannot be told, else what it was."""
        same = self._before is None or _json_or_none(self._task) == self._before
        return self._task if same else json.loads(self._before or "")


def _json_or_none(task: Any) -> str | None:
    # As JSON, because that gives up at once where something else is in the task, however large it is.
    try:
        return json_text(task)
    except Exception:  # what is in there may be anything
        return None


class WorkflowFailed(Exception):
    """A workflow reported its failure in its result instead of raising: this is what it said."""


class WorkflowResult(dict[str, Any]):
    """What a workflow run answers: `status` is `completed` or `failed`.

    `exception` is what the run raised, for those who want more than its text.
    """

    exception: BaseException | None = None

    @property
    def failed(self) -> bool:
        return bool(self["status"] == "failed")


async def run_whole(run: Run, repos: Sequence[str]) -> WorkflowResult:
    """One run for all repos."""
    try:
        answer = await run(list(repos))
        said = failure_in_result(answer)  # it looks at what a stranger made
    except asyncio.CancelledError as problem:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return _failed_result(problem)  # nobody cancelled the run: something inside of it did that to itself
    except Exception as problem:
        return _failed_result(problem)
    if said is None:
        return WorkflowResult(status="completed", result=answer)
    result = _failed_result(said)
    result["result"] = answer
    for name in ("results", "repos"):
        if isinstance(answer.get(name), dict):
            result["results"] = answer[name]
    return result


async def run_each(run: Run, repos: Sequence[str], concurrency: int) -> WorkflowResult:
    """One run for each repo, so many at a time; one that fails disturbs no other. Without repos, one run."""
    if not repos:
        return await run_whole(run, repos)
    places = asyncio.Semaphore(concurrency)

    names = list(dict.fromkeys(repos))
    attempt = current_attempt.get()

    async def one(repo: str) -> WorkflowResult:
        async with places:
            if attempt is not None and len(names) > 1:  # each of them does something else: one key is not enough
                current_attempt.set(replace(attempt, part=repo))
            return await run_whole(run, [repo])

    async with asyncio.TaskGroup() as group:
        tasks = {name: group.create_task(one(name)) for name in names}
    results = {name: task.result() for name, task in tasks.items()}
    failures = [result for result in results.values() if result.failed]
    if not failures:
        return WorkflowResult(status="completed", results=results)
    whole = _failed_result(_combined_failure(failures, len(results)))
    whole["results"] = results
    return whole


def _failed_result(said: BaseException | str) -> WorkflowResult:
    error = said if isinstance(said, BaseException) else WorkflowFailed(said)
    result = WorkflowResult(status="failed", error=message_of(error), error_type=type(error).__name__)
    result.exception = error if isinstance(said, BaseException) else None
    return result


def _combined_failure(failures: Sequence[WorkflowResult], runs: int) -> BaseException | str:
    """One failure for all: the only one there is, one that all had alike, or a group of them."""
    if len({(each["error_type"], each["error"]) for each in failures}) == 1:
        return failures[0].exception or str(failures[0]["error"])
    raised = [each.exception for each in failures if isinstance(each.exception, Exception)]
    texts = "; ".join(dict.fromkeys(str(each["error"]) for each in failures))
    if len(raised) == len(failures):
        return ExceptionGroup(f"{len(failures)} of {runs} repos failed: {texts:.500}", raised)
    return f"{len(failures)} of {runs} repos failed: {texts}"
