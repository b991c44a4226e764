"""Asking the classifier about a failure: what it was, as a record, a verdict and a fingerprint."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from mahavishnu.classify.chain import Chain
from mahavishnu.classify.failure import cut, failure_of
from mahavishnu.classify.fingerprint import fingerprint_of
from mahavishnu.classify.reclassify import recalled
from mahavishnu.classify.verdict import NO_CONTEXT, NOBODY, Context, Verdict, category
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import ErrorCategory, Failure, RetryPolicy, fast_constructor
from mahavishnu.model.letter_parts import Verdict as Reasons

BY_CALLER = "caller"
_LONGEST_TYPE = 500
_new_context = fast_constructor(Context)


@dataclass(frozen=True, slots=True)
class Judged:
    """A failure as it is written into a letter, and what the classifier said about it."""

    failure: Failure
    verdict: Verdict
    fingerprint: str | None = None


_new_judged = fast_constructor(Judged)


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a classifier says about a failure, as far as an attempt needs it."""

    category: str
    retry_in: timedelta | None = None
    hopeless: bool = False  # said by somebody who knows: no automatic retry can help
    verdict: Reasons | None = None  # why it has this category, and who says so


class Judge(Protocol):
    """Describes and classifies what a run of `letter` raised or answered. Must not raise."""

    async def __call__(
        self, error: BaseException | str, at: datetime, letter: DeadLetter
    ) -> tuple[Failure, Ruling]: ...


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
    if chain.names_causes:  # it may hang for a moment, the loop must not
        mark = await asyncio.to_thread(chain.fingerprint, error, context, failure)
    else:
        mark = fingerprint_of(failure)
    return Judged(failure, verdict, mark)


def judge_at_once(chain: Chain, error: BaseException | str, at: datetime, context: Context = NO_CONTEXT) -> Judged:
    """As `judge`, for a chain that `is_prompt`."""
    verdict = chain.classify(error, context)
    failure = failure_of(error, at=at, category=verdict.category)
    return _new_judged(failure=failure, verdict=verdict, fingerprint=fingerprint_of(failure))


def context_for(
    at: datetime, task_id: str, task: Any, adapter: str | None = None, repos: tuple[str, ...] = (), retry_count: int = 0
) -> Context:
    """What a classifier may want to know about a failure."""
    return _new_context(
        now=at,
        task_id=task_id if isinstance(task_id, str) else None,
        task=task if isinstance(task, Mapping) else {},
        adapter=adapter,
        repos=repos,
        retry_count=retry_count,
    )


async def objection(chain: Chain, letter: DeadLetter, at: datetime) -> str | None:
    """Why a plugin thinks that the task of this letter should not be what it is; None if none does."""
    task = letter.task
    context = context_for(at, letter.task_id, task, letter.adapter, letter.repos, letter.retry_count)
    return await chain.objection(task, context)


def judge_with(chain: Chain) -> Judge:
    """The classifier as the processor needs it: a verdict whose own policy is `never` ends the automatic retries."""

    async def decide(error: BaseException | str, at: datetime, letter: DeadLetter) -> tuple[Failure, Ruling]:
        context = context_for(at, letter.task_id, letter.task, letter.adapter, letter.repos, letter.retry_count)
        verdict = await chain.classify_async(error, context)
        ruling = _ruling(verdict, verdict.retry_in, hopeless=verdict.policy == RetryPolicy.NEVER)
        return failure_of(error, at=at, category=verdict.category), ruling

    return decide


async def judge_reported(
    chain: Chain,
    error: BaseException | str,
    at: datetime,
    letter: DeadLetter,
    error_type: str | None = None,
    said: ErrorCategory | str | None = None,
    retry_in: timedelta | None = None,
) -> tuple[Failure, Ruling]:
    """As `judge_with`, of a failure that a worker elsewhere tells: in words mostly, with the name of the error's type.

    A category or a wait that the worker says counts. Raises InvalidInput for a category that there is not.
    """
    context = context_for(at, letter.task_id, letter.task, letter.adapter, letter.repos, letter.retry_count)
    told = [error] if isinstance(error, BaseException) else [*recalled(error_type, error, None)]
    context = replace(context, recalled=error is not told[0])  # then it has no attributes
    for each in told:
        judged = await judge(chain, each, at, context, said)
        if judged.verdict.author != NOBODY:
            break
    verdict = judged.verdict
    owner = letter.lease.owner if letter.lease else None
    hopeless = verdict.policy == RetryPolicy.NEVER and retry_in is None
    failure = failure_of(error, at=at, category=verdict.category, processor=owner)
    if error_type is not None:
        failure = replace(failure, type=cut(error_type, _LONGEST_TYPE))
    return failure, _ruling(verdict, verdict.retry_in if retry_in is None else retry_in, hopeless=hopeless)


def _ruling(verdict: Verdict, retry_in: timedelta | None, *, hopeless: bool) -> Ruling:
    return Ruling(verdict.category, retry_in, hopeless, Reasons(verdict.reason, verdict.author))
