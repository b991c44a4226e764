"""Assessment of failures by the classifier: of first runs, of retries here and elsewhere, and of stored letters."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

from msgspec.structs import replace

from mahavishnu.classify.chain import Chain
from mahavishnu.classify.exceptions import cut, failure_of, is_light
from mahavishnu.classify.fingerprint import VERSION, fingerprint_of
from mahavishnu.classify.plugin_guard import call_in_thread
from mahavishnu.classify.verdict import BUILT_IN, NO_CONTEXT, NOBODY, STALE, Context, Verdict, category
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus, ErrorCategory, Failure, RetryPolicy
from mahavishnu.model.record import Value

T = TypeVar("T")
BY_CALLER = "caller"
_LONGEST_TYPE = 500


class Assessment(Value, frozen=True):
    """A failure as it is recorded, its verdict, and what follows for the letter; `fingerprint` groups by cause."""

    failure: Failure
    verdict: Verdict
    fingerprint: str | None = None
    retry_in: timedelta | None = None  # the wait before the next run in place of the policy's, where one was named
    hopeless: bool = False  # the verdict says that no automatic retry can help

    @property
    def category(self) -> ErrorCategory:
        return self.verdict.category

    def with_masked(self, failure: Failure) -> Assessment:
        """Return the assessment of the failure as it is kept, without what it quotes of hidden values.

        Its group is that of the masked text, unless a plugin has named it: other values are no other cause, and a hash
        of a hidden value would be a hint at it.
        """
        own = self.fingerprint is not None and self.fingerprint == fingerprint_of(self.failure)
        return replace(self, failure=failure, fingerprint=fingerprint_of(failure) if own else self.fingerprint)


class Assessor(Value, frozen=True):
    """Records and classifies failures with the plugins of a chain."""

    chain: Chain

    async def assess(
        self,
        error: BaseException | str,
        at: datetime,
        context: Context = NO_CONTEXT,
        named: ErrorCategory | str | None = None,
    ) -> Assessment:
        """Assess the failure of a first run. A category that the caller `named` counts more than the classifier's.

        The plugins are asked even then, because some of them count what they see. Raises InvalidInput for a category
        that does not exist.
        """
        return await self._with_fingerprint(await self._assess(error, at, context, named), error, context)

    def assess_sync(self, error: BaseException | str, at: datetime, context: Context = NO_CONTEXT) -> Assessment:
        """Assess as `assess` does, without a wait; for a chain that `is_prompt`, and an error that `is_light`."""
        assessment = _assessment(error, at, self.chain.classify(error, context))
        return replace(assessment, fingerprint=fingerprint_of(assessment.failure))

    async def assess_attempt(self, error: BaseException | str, at: datetime, letter: DeadLetter) -> Assessment:
        """Assess how a retry of `letter` failed."""
        return await self.assess(error, at, letter_context(letter, at))

    async def assess_reported(
        self,
        error: BaseException | str,
        at: datetime,
        letter: DeadLetter,
        error_type: str | None = None,
        named: ErrorCategory | str | None = None,
        retry_in: timedelta | None = None,
    ) -> Assessment:
        """Assess a retry reported from elsewhere; a `named` category or wait counts. Raises InvalidInput."""
        errors = [error] if isinstance(error, BaseException) else [*rebuild_errors(error_type, error, None)]
        context = replace(letter_context(letter, at), recalled=error is not errors[0])  # then it has no attributes
        for each in errors:
            assessment = await self._assess(each, at, context, named)
            if assessment.verdict.author != NOBODY:
                break
        failure = assessment.failure
        if isinstance(error, str):
            failure = failure_of(error, at=at, category=assessment.category)
        failure = replace(failure, processor=letter.lease.owner if letter.lease else None)
        if error_type is not None:
            failure = replace(failure, type=cut(error_type, _LONGEST_TYPE))
        assessment = await self._with_fingerprint(replace(assessment, failure=failure), each, context)
        told = letter.told
        if isinstance(error, str) and told and letter.fingerprint is not None and _same_words(told[-1], failure):
            assessment = replace(assessment, fingerprint=letter.fingerprint)  # as far as a text can tell
        if retry_in is None:
            return assessment
        failure = replace(failure, retry_in_seconds=retry_in.total_seconds())
        return replace(assessment, failure=failure, retry_in=retry_in, hopeless=False)

    async def _with_fingerprint(
        self, assessment: Assessment, error: BaseException | str, context: Context
    ) -> Assessment:
        if self.chain.names_causes or not is_light(error):
            cause = await call_in_thread(self.chain.fingerprint, error, context, assessment.failure)
        else:
            cause = fingerprint_of(assessment.failure)
        return replace(assessment, fingerprint=cause)

    async def _assess(
        self, error: BaseException | str, at: datetime, context: Context, named: ErrorCategory | str | None = None
    ) -> Assessment:
        """The assessment without a fingerprint. A long one is made in a thread: the event loop does not wait for it."""
        if is_light(error):
            return _assessment(error, at, await self.chain.classify_async(error, context), named)
        return await call_in_thread(lambda: _assessment(error, at, self.chain.classify(error, context), named))

    async def objection(self, letter: DeadLetter, at: datetime) -> str | None:
        """Return a plugin's objection to the task of this letter; None if there is none."""
        return await self.chain.objection(letter.task, letter_context(letter, at))

    def reconsider(self, letter: DeadLetter) -> Verdict | None:
        """Return the verdict that the letter would get now, if it changes the category, policy or budget; else None.

        A letter that is being retried or is closed stays as it is, and so does an unknown failure. The built-in rules
        do not overrule themselves on an exception: when it was raised they saw all of it, and now only its text.
        """
        if not letter.is_open or letter.status is DeadLetterStatus.RETRYING:
            return None
        last = letter.failures[-1] if letter.failures else None
        context = replace(_stored_context(letter), retry_count=letter.retry_count)
        for error in rebuild_errors(last.type if last else None, letter.last_error, last.traceback if last else None):
            verdict = self.chain.classify(error, context)
            if verdict.author == NOBODY:
                continue
            if verdict.author == letter.verdict.author == BUILT_IN and last is not None and last.type:
                continue
            return verdict if _changes(letter, verdict) else None
        return None

    def fingerprint_again(self, letter: DeadLetter) -> str | None:
        """Return the fingerprint that the letter would get today: the present one, unless a rule changed. Never raises.

        It is made of the latest failure that says its cause, and of the letter's category. A letter that keeps no
        failure keeps its fingerprint. So does an exception that a plugin named when it was raised and does not name
        now: the plugin saw all of it then, and now only its text, so its silence says nothing.
        """
        told = letter.told
        if not told or (letter.fingerprint or "").startswith(STALE):  # no failure said why it hangs
            return letter.fingerprint
        context = _stored_context(letter)
        last = replace(told[-1], category=letter.error_category or told[-1].category)
        for error in rebuild_errors(last.type, last.message, last.traceback):
            if (named := self.chain.named_fingerprint(error, context)) is not None:
                return named
        was_named = letter.fingerprint is not None and letter.fingerprint.startswith(f"{VERSION}:")
        if was_named and last.type is not None and self.chain.plugins.steps("fingerprint_failure"):
            return letter.fingerprint
        if last.traceback is None and letter.fingerprint is not None and len(told) > 1:
            # Reported as a text by a worker elsewhere, which may be all that is different.
            before = [failure for failure in told[:-1] if _same_words(failure, last)]
            last = before[-1] if before else last
        return fingerprint_of(last)


def _same_words(one: Failure, other: Failure) -> bool:
    def plain(failure: Failure) -> str:
        return fingerprint_of(replace(failure, traceback=None))

    return plain(one) == plain(other)


def _assessment(
    error: BaseException | str, at: datetime, verdict: Verdict, named: ErrorCategory | str | None = None
) -> Assessment:
    if named is not None and category(named) is not verdict.category:
        verdict = Verdict(category(named), "the caller says so", BY_CALLER)
    return Assessment(
        failure_of(error, at=at, category=verdict.category, retry_in=verdict.retry_in),
        verdict,
        retry_in=verdict.retry_in,
        hopeless=verdict.policy == RetryPolicy.NEVER,
    )


def context_for(
    at: datetime, task_id: str, task: Any, adapter: str | None = None, repos: tuple[str, ...] = (), retry_count: int = 0
) -> Context:
    """Return the context of a failure for classifiers."""
    return Context(
        now=at,
        task_id=task_id if isinstance(task_id, str) else None,
        task=task if isinstance(task, Mapping) else {},
        adapter=adapter,
        repos=repos,
        retry_count=retry_count,
    )


def letter_context(letter: DeadLetter, at: datetime) -> Context:
    """Return the context of a failed retry of this letter for classifiers."""
    return context_for(at, letter.task_id, letter.task, letter.adapter, letter.repos, letter.retry_count)


def _stored_context(letter: DeadLetter) -> Context:
    """Return the context of an error that is rebuilt from the letter, whenever it was raised."""
    task = letter.task if isinstance(letter.task, dict) else {}
    return Context(task_id=letter.task_id, task=task, repos=letter.repos, recalled=True)


def _changes(letter: DeadLetter, verdict: Verdict) -> bool:
    return (
        verdict.category != letter.error_category
        or (verdict.policy is not None and verdict.policy != letter.retry_policy)
        or (verdict.max_retries is not None and verdict.max_retries != letter.max_retries)
    )


def rebuild_errors(type_name: str | None, message: str, traceback: str | None) -> Iterator[BaseException | str]:
    """Yield a recorded error as an exception again, if its type is loaded in this process, and then as text."""
    if type_name and (error := _rebuild_exception(type_name, message)) is not None:
        yield error
    if traceback:
        yield traceback
    else:
        yield f"{type_name}: {message}" if type_name and type_name != message else message


def _rebuild_exception(type_name: str, message: str) -> BaseException | None:
    """An instance of the type with this message, made without a call of its `__init__` and without an import."""
    module, _, name = type_name.rpartition(".")
    found: object = sys.modules.get(module) if module else builtins
    found = getattr(found, name, None)
    if not isinstance(found, type) or not issubclass(found, BaseException):
        return None
    try:
        return found.__new__(found, message)
    except Exception:
        return None  # its own __new__ needs more than a message
