"""Runs of workflows by name: over all repos at once or each for itself, into a letter if they fail; also again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mahavishnu.capture.adapters import AdapterRegistry, current_attempt
from mahavishnu.classify.exceptions import message_of
from mahavishnu.model.errors import is_end
from mahavishnu.model.json_value import texts
from mahavishnu.model.record import Value
from mahavishnu.values.payload import TaskSnapshot

if TYPE_CHECKING:
    pass

Run = Callable[[list[str]], Awaitable[Any]]
ReadFailure = Callable[[Any], "BaseException | str | None"]
_CONCURRENT_REPOS = 16  # of one workflow
_NOT_RUN = (GeneratorType, AsyncGeneratorType, CoroutineType)


class WorkflowFailed(Exception):
    """A workflow reported its failure in its result instead of raising: this is what it said."""


class WorkflowResult(dict[str, Any]):
    """Answer of a workflow run: `status` is `completed` or `failed`. `exception` is what the run raised."""

    exception: BaseException | None = None

    @property
    def failed(self) -> bool:
        return bool(self["status"] == "failed")


class WorkflowRun(Value, frozen=True):
    """A finished run: its result, and everything needed to run it again."""

    result: WorkflowResult
    snapshot: TaskSnapshot
    repos: tuple[str, ...]

    @property
    def error(self) -> BaseException | str:
        """Exception or text of a failed run."""
        return self.result.exception if self.result.exception is not None else str(self.result["error"])

    @property
    def failed_repos(self) -> tuple[str, ...]:
        """Repos that are still to be done: all of them where the result does not tell them apart."""
        return failed_repos(self.result, self.repos) or self.repos


class WorkflowRunner:
    """Runs workflows with the adapters of an app. What a workflow raises is in the result."""

    def __init__(self, adapters: AdapterRegistry) -> None:
        self._adapters = adapters

    async def run(
        self, task: Any, adapter_name: str, repos: Sequence[str] | None = None, *, per_repo: bool = False
    ) -> WorkflowRun:
        """Run a workflow for the first time: once for all repos, or once for each of them at the same time."""
        snapshot, chosen = TaskSnapshot(task), texts(repos or (), "repos")
        result = await self._run(task, adapter_name, chosen, per_repo)
        return WorkflowRun(result=result, snapshot=snapshot, repos=chosen)

    async def run_again(self, task: Any, adapter_name: str, repos: Sequence[str]) -> WorkflowResult:
        """Run a letter's task again, once for each repo that is left. Its letter has the task: no snapshot."""
        return await self._run(task, adapter_name, repos, per_repo=True)

    async def _run(self, task: Any, adapter_name: str, repos: Sequence[str], per_repo: bool) -> WorkflowResult:
        async def run(some: list[str]) -> Any:
            return await self._adapters.get(adapter_name).run(task, some)

        read = failure_in_result
        if not self._adapters.reads_results(adapter_name):
            read, repos = (lambda result: None), ()  # the result of an ordinary function is its own
        result = await (run_each(run, repos, _CONCURRENT_REPOS, read) if per_repo else run_whole(run, repos, read))
        result["adapter"] = adapter_name
        return result


async def run_whole(run: Run, repos: Sequence[str], read: ReadFailure | None = None) -> WorkflowResult:
    """One run for all repos. `read` finds the failure that a result tells of, see `failure_in_result`."""
    try:
        answer = await run(list(repos))
        failure = (read or failure_in_result)(answer)  # inside of the try: this looks at what user code made
    except BaseException as problem:  # also one that is no Exception, such as a panic in Rust, or a group with one
        if is_interruption(problem):
            raise
        return _failed_result(problem)
    if failure is None:
        return WorkflowResult(status="completed", result=answer)
    result = _failed_result(failure)
    result["result"] = answer
    if not isinstance(answer, Mapping):
        return result
    for name in ("results", "repos"):
        if isinstance(answer.get(name), dict):
            result["results"] = answer[name]
    return result


def is_interruption(error: BaseException) -> bool:
    """Return whether a run was ended from outside; a task that cancels itself inside of the run has failed."""
    if isinstance(error, Exception):  # nearly always
        return False
    if isinstance(error, asyncio.CancelledError):
        try:
            task = asyncio.current_task()
        except RuntimeError:  # in a thread without an event loop nothing is cancelled
            return False
        return task is None or task.cancelling() > 0
    return is_end(error)


async def run_each(run: Run, repos: Sequence[str], concurrency: int, read: ReadFailure | None = None) -> WorkflowResult:
    """One run for each repo, so many at a time; one that fails disturbs no other. Without repos, one run."""
    if not repos:
        return await run_whole(run, repos, read)
    names, attempt, task = list(dict.fromkeys(repos)), current_attempt.get(), asyncio.current_task()
    places = asyncio.Semaphore(concurrency)

    async def one(repo: str) -> WorkflowResult:
        async with places:
            if attempt is not None and len(names) > 1:  # each of them does something else: one key is not enough
                current_attempt.set(replace(attempt, part=repo))
            return await run_whole(run, [repo], read)

    # A cancellation that a run swallows is passed on, so that the answer of a run that was interrupted is not taken for
    # its outcome: by the group, or here, where a retry has a task of its own already.
    if attempt is not None and len(names) == 1 and task is not None:
        before = task.cancelling()
        results = {names[0]: await run_whole(run, names, read)}
        if task.cancelling() > before:
            raise asyncio.CancelledError
    else:
        async with asyncio.TaskGroup() as group:
            tasks = {name: group.create_task(one(name)) for name in names}
        results = {name: task.result() for name, task in tasks.items()}
    failures = [result for result in results.values() if result.failed]
    if not failures:
        return WorkflowResult(status="completed", results=results)
    whole = _combined_failure(failures, len(results))
    whole["results"] = results
    return whole


def failure_in_result(result: Any) -> BaseException | str | None:
    """Return the failure that a result tells of; None if it does not say that it failed.

    A result may bring the exception itself as an attribute `exception`: that says more than its text. A result that
    would have to be iterated or awaited to do the work is a failure: nothing of it was run.
    """
    if isinstance(result, _NOT_RUN):
        if isinstance(result, CoroutineType):
            result.close()  # otherwise Python warns about it, too
        return TypeError(f"the workflow answered {result!r:.200}: nothing of that was run")
    if not isinstance(result, Mapping):
        return None
    if result.get("status") not in ("failed", "error") and result.get("success", True) is not False:
        return None
    if isinstance(exception := getattr(result, "exception", None), BaseException):
        return exception
    error = result.get("error") or result.get("errors") or result.get("message")
    return str(error) if error else f"the run answered {dict(result)!r}"[:500]


def failed_repos(result: Any, repos: Sequence[str]) -> tuple[str, ...] | None:
    """Return the `repos` that a failed result does not report as done; None if it does not tell them apart.

    >>> failed_repos({"results": {"api": {"status": "completed"}, "web": {"status": "failed"}}}, ["api", "web"])
    ('web',)
    """
    try:
        answers = (result.get("results") or result.get("repos")) if isinstance(result, Mapping) else None
        if not isinstance(answers, Mapping) or not answers.keys() & set(repos):
            return None
        left = tuple(repo for repo in repos if repo not in answers or _is_failure(answers[repo]))
    except Exception:  # the result comes from user code; the truth of a numpy array, for one, raises
        return None
    return left or None  # all are done, and yet it failed: then it is not about the repos


def _is_failure(answer: Any) -> bool:
    """Return True for the failure of one repo; `gather(return_exceptions=True)` gives the exception itself."""
    return answer is False or isinstance(answer, BaseException) or failure_in_result(answer) is not None


def _failed_result(failure: BaseException | str) -> WorkflowResult:
    error = failure if isinstance(failure, BaseException) else WorkflowFailed(failure)
    result = WorkflowResult(status="failed", error=message_of(error), error_type=type(error).__name__)
    result.exception = error if isinstance(failure, BaseException) else None
    return result


def _combined_failure(failures: Sequence[WorkflowResult], runs: int) -> WorkflowResult:
    """Combine failures into one result: the only one, the one that all had alike, or a group of them."""
    first = failures[0]
    if len({(each["error_type"], each["error"]) for each in failures}) == 1:
        result = WorkflowResult(status="failed", error=first["error"], error_type=first["error_type"])
        result.exception = first.exception
        return result
    raised = [each.exception for each in failures if each.exception is not None]
    messages = "; ".join(dict.fromkeys(str(each["error"]) for each in failures))
    if len(raised) == len(failures):
        return _failed_result(BaseExceptionGroup(f"{len(failures)} of {runs} repos failed: {messages:.500}", raised))
    return _failed_result(f"{len(failures)} of {runs} repos failed: {messages}")
