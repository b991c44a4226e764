"""One attempt, as a pipeline of named steps over one value: guard, call, assess, settle, announce."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from mahavishnu.adapters.base import Attempt, PythonAdapter, Workflow, current_attempt
from mahavishnu.adapters.runner import failed_repos, failure_in_result
from mahavishnu.classify.assess import Assessment
from mahavishnu.model import backoff, lifecycle
from mahavishnu.model.backoff import BackoffRegistry
from mahavishnu.model.clock import Clock
from mahavishnu.model.errors import ENDS, LostLease, StoreUnavailable
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import Failure
from mahavishnu.stores.base import Collection, get_one, write_one


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: with `failure` or without."""

    result: Any = None
    assessment: Assessment | None = None
    failed_repos: tuple[str, ...] | None = None  # the repos that are still to be done, where that is known

    @property
    def failure(self) -> Failure | None:
        return self.assessment.failure if self.assessment else None

    @property
    def success(self) -> bool:
        return self.assessment is None


AssessAttempt = Callable[[BaseException | str, datetime, DeadLetter], Awaitable[Assessment]]
"""Assesses what a run of the letter raised or answered; `Assessor.assess_attempt` is one. It must not raise."""


async def run(
    callback: Workflow, attempt: Attempt, assess: AssessAttempt, clock: Clock, limit_seconds: float | None
) -> Outcome:
    """Call the task and assess how it ended. Being cancelled is no outcome: it passes through.

    A sync callback runs in a thread, so that it cannot stop the others; past the limit it is counted as failed, but
    nothing can interrupt a thread.
    """
    token = current_attempt.set(attempt)
    started = clock.monotonic()
    result: Any = None
    error: BaseException | str | None
    try:
        async with asyncio.timeout(limit_seconds) as limit:
            result = await PythonAdapter(callback).run(attempt.letter.task, list(attempt.letter.repos))
            error = failure_in_result(result)
    except asyncio.CancelledError as problem:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        error = problem  # nobody cancelled the run: something inside of it did that to itself
    except Exception as problem:
        late = limit.expired()
        error = TimeoutError(f"the run took longer than {limit_seconds:g} seconds") if late else problem
    except ENDS:
        raise
    except BaseException as problem:  # such as pytest's `fail`: for whoever calls workflows, and here is nobody
        error = problem
    finally:
        current_attempt.reset(token)
        attempt.end()
    if error is None:
        return Outcome(result)
    assessment = await assess(error, clock.now(), attempt.letter)
    owner = attempt.letter.lease.owner if attempt.letter.lease else None
    seconds = round(clock.monotonic() - started, 3)
    failure = replace(assessment.failure, duration_seconds=seconds, processor=owner)
    return Outcome(result, replace(assessment, failure=failure), failed_repos(result, attempt.letter.repos))


def settled(
    letter: DeadLetter, token: str, outcome: Outcome, now: datetime, backoffs: BackoffRegistry = backoff.DEFAULT
) -> DeadLetter:
    """The letter after the run. Raises LostLease if the run no longer owns it."""
    assessment, left = outcome.assessment, outcome.failed_repos
    if assessment is None:
        return lifecycle.succeed(letter, token=token, now=now, backoffs=backoffs)
    failure, verdict = assessment.failure, assessment.explanation
    if assessment.hopeless:
        return lifecycle.exhaust(letter, token=token, failure=failure, now=now, left=left, verdict=verdict)
    return lifecycle.fail(
        letter,
        token=token,
        failure=failure,
        now=now,
        retry_in=assessment.retry_in,
        left=left,
        verdict=verdict,
        backoffs=backoffs,
    )


Change = Callable[[DeadLetter], DeadLetter]


async def write_through(
    letters: Collection[DeadLetter],
    letter: DeadLetter,
    change: Change,
    pause: Callable[[int], Awaitable[object]],
    patience: int,
    wanted: DeadLetter | None = None,
) -> DeadLetter | None:
    """Apply `change` to the letter as it is now, for as long as it takes; None if the run no longer owns it.

    `wanted` is what has been tried before, with an answer that says too little.

    A lost compare-and-set is read again and decided again under the lease's token. While the store is away it is tried
    again, `patience` times with a `pause` in between: work that was paid for is not lost to a blink of the store. Then
    StoreUnavailable is raised, and the lease runs out by itself.
    """
    current = letter if wanted is None else None
    tries = 0
    while True:
        try:
            if current is None:
                current = await get_one(letters, letter.key)
                if current is None or current == wanted:  # removed meanwhile, or written although no answer came
                    return current
            wanted = change(current)
            written = await write_one(letters, wanted)
            if written is not None:
                return written
        except LostLease:
            return None
        except StoreUnavailable:
            tries += 1
            if tries > patience:
                raise
            await pause(tries)
        current = None
