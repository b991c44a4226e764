"""Asking the classifier about a failure: what it was, as a record, a verdict and a fingerprint."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mahavishnu.classify.chain import Chain
from mahavishnu.classify.failure import failure_of
from mahavishnu.classify.verdict import NO_CONTEXT, Context, Verdict, category
from mahavishnu.engine.attempt import Judge, Ruling, adapter_of
from mahavishnu.model.letter import DeadLetter, ErrorCategory, Failure, RetryPolicy

BY_CALLER = "caller"


@dataclass(frozen=True, slots=True)
class Judged:
    """A failure as it is written into a letter, and what the classifier said about it."""

    failure: Failure
    verdict: Verdict
    fingerprint: str | None = None


async def judge(
    chain: Chain,
    error: BaseException | str,
    at: datetime,
    context: Context = NO_CONTEXT,
    said: ErrorCategory | str | None = None,
) -> Judged:
    """Describe and classify `error`; a category `said` by the caller counts. Raises InvalidInput for one there is not.

    The plugins are asked even then: some of them count.
    """
    verdict = await chain.classify_async(error, context)
    if said is not None:
        named = category(said)
        if named is not verdict.category:
            verdict = Verdict(named, "the caller says so", BY_CALLER)
    failure = failure_of(error, at=at, category=verdict.category)
    if chain.plugins.steps("fingerprint_failure"):  # it may hang for a moment, the loop must not
        mark = await asyncio.to_thread(chain.fingerprint, error, context, failure)
    else:
        mark = chain.fingerprint(error, context, failure)
    return Judged(failure, verdict, mark)


def context_for(
    at: datetime, task_id: str, task: Any, adapter: str | None = None, repos: tuple[str, ...] = (), retry_count: int = 0
) -> Context:
    """What a classifier may want to know about a failure."""
    known = task if isinstance(task, Mapping) else {}
    return Context(at, task_id if isinstance(task_id, str) else None, known, adapter, repos, retry_count)


async def objection(chain: Chain, letter: DeadLetter, at: datetime) -> str | None:
    """Why a plugin thinks that the task of this letter should not be what it is; None if none does."""
    task = letter.task
    context = context_for(at, letter.task_id, task, adapter_of(letter), letter.repos, letter.retry_count)
    return await chain.objection(task, context)


def judge_with(chain: Chain) -> Judge:
    """The classifier as the processor needs it: a verdict whose own policy is `never` ends the automatic retries."""

    async def decide(error: BaseException | str, at: datetime, letter: DeadLetter) -> tuple[Failure, Ruling]:
        context = context_for(at, letter.task_id, letter.task, adapter_of(letter), letter.repos, letter.retry_count)
        verdict = await chain.classify_async(error, context)
        ruling = Ruling(verdict.category, verdict.retry_in, hopeless=verdict.policy == RetryPolicy.NEVER)
        return failure_of(error, at=at, category=verdict.category), ruling

    return decide
