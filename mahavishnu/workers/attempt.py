"""One attempt on one page: guard → call → assess → settle → announce, over one frozen value."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from msgspec.structs import replace

from mahavishnu.capture.adapters import PythonAdapter, current_attempt, new_attempt
from mahavishnu.capture.dependencies import blocked_by, let_called_wait, register_caller
from mahavishnu.capture.functions import restorer_of
from mahavishnu.capture.runner import failed_repos, failure_in_result
from mahavishnu.classify.assess import Assessment
from mahavishnu.classify.verdict import Verdict
from mahavishnu.engine.breaker import CircuitState
from mahavishnu.engine.context import QueueContext, Workflow
from mahavishnu.engine.telemetry import adapter_label
from mahavishnu.model import backoff, lifecycle
from mahavishnu.model.backoff import BackoffRegistry
from mahavishnu.model.clock import Clock
from mahavishnu.model.errors import CannotRestore, StepExhausted, StepsGone, StoreError, StoreUnavailable, is_end
from mahavishnu.model.events import EventName
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus, LatestVerdict, RecordedVerdict
from mahavishnu.model.record import Value
from mahavishnu.model.work import note_task, task_of
from mahavishnu.workers.leases import LeasedLetter, LeaseTable

# --- letters that this process took and could not give to their workflow

FORGOTTEN_AFTER = timedelta(minutes=15)
_MOST = 100_000


class Misfits:
    """Remembers such letters for a while, as they were: one that was edited since may fit.

    It is asked only after a claim. To look before it would be cheaper, but reading a task back runs code of the
    application, and a letter that kills its process there has to be counted.
    """

    @classmethod
    def for_context(cls, context: QueueContext) -> Misfits:
        """Return the misfits of a queue."""
        return cls(context.clock)

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, tuple[object, float]] = {}

    def __contains__(self, letter: object) -> bool:
        if not isinstance(letter, DeadLetter) or letter.unfit is None or (known := self._known.get(letter.key)) is None:
            return False
        what, until = known
        return what == _task_of(letter) and self._clock.monotonic() < until

    def note(self, letter: DeadLetter) -> None:
        """Leave this letter, as it is, to others from now on."""
        if len(self._known) >= _MOST:
            self.clear()
        self._known[letter.key] = (_task_of(letter), self._clock.monotonic() + FORGOTTEN_AFTER.total_seconds())

    def clear(self) -> None:
        """Forget them all: a letter that could not be run here may run now."""
        self._known.clear()


def _task_of(letter: DeadLetter) -> object:
    return letter.entry_id, letter.adapter, hash(letter.payload.text), hash(letter.payload_types.text)


log = logging.getLogger(__name__)
_PROBE_SECONDS = 1.0  # for which a letter is given back whose target is being probed, or that waits for an outcome
AssessAttempt = Callable[[BaseException | str, datetime, DeadLetter], Awaitable[Assessment]]
"""Assesses what a run of the letter raised or answered; `Assessor.assess_attempt` is one. It must not raise."""


class RunningAttempt(Value, frozen=True):
    """One run of a leased letter, as far as the steps have come."""

    leased: LeasedLetter
    letter: DeadLetter  # as it was when the run began
    result: Any = None
    error: BaseException | str | None = None  # what the run raised, or said in its result; None if it succeeded
    seconds: float = 0.0
    ended: float = 0.0  # on the monotonic clock
    ended_at: datetime | None = None
    assessment: Assessment | None = None  # of the error
    unfit: CannotRestore | StoreUnavailable | None = None  # why nothing was run: by its workflow here, or for now
    called: tuple[str, ...] = ()  # the letters of other workflows that failed by the error
    task: dict[str, Any] | None = None  # the snapshot of the lifecycle task, if the run was tracked
    failed_repos: tuple[str, ...] | None = None  # the repos that are still to be done, where that is known
    settled: DeadLetter | None = None  # the letter with the outcome; None if the outcome does not count


class AttemptRunner:
    """Takes leased letters through the steps of an attempt. `wake(due_at)` has the processor look again then."""

    def __init__(
        self,
        context: QueueContext,
        leases: LeaseTable,
        callback: Workflow,
        assess: AssessAttempt,
        counts: Counter[str],
        wake: Callable[[datetime], object],
    ) -> None:
        self.assess = assess
        self._context, self._leases, self._counts, self._wake = context, leases, counts, wake
        self._clock, self._breakers = context.clock, context.breakers
        self._adapter = PythonAdapter(callback)
        self._restore_task = context.restore_task or restorer_of(callback, context.value_kinds)

    async def run(self, leased: LeasedLetter) -> None:
        """Run the letter, or give it back if the guard refuses it. Its outcome may be written after that."""
        now, letter = self._clock.now(), leased.letter
        is_free = letter.due_at is None or letter.due_at > now
        is_free = is_free and not letter.depends_on and leased.circuit not in self._breakers.not_closed
        if not is_free and not await self._guard(leased, now):
            return
        attempt = await self._run(leased, now)
        if attempt is None:
            return
        if attempt.unfit is not None or (attempt.called and attempt.error is not None):
            await self._settle(attempt)
            return
        self._tell_breaker(attempt)
        self._leases.write_outcome_later(leased, partial(self._with_outcome, attempt), partial(self._announce, attempt))

    async def execute(self, leased: LeasedLetter) -> RunningAttempt:
        """Run the letter, guard or not, and wait for its outcome to be written.

        Without `settled` the outcome does not count: another worker owns the letter, or the store could not be reached.
        """
        attempt = await self._run(leased, self._clock.now())
        return RunningAttempt(leased, leased.letter) if attempt is None else await self._settle(attempt)

    async def _run(self, leased: LeasedLetter, now: datetime) -> RunningAttempt | None:
        """Call the workflow, and assess its failure. None if the letter was lost. A cancelled run is given back."""
        letter = leased.letter
        self._context.announce(EventName.RETRY_STARTED, letter, now)
        try:
            with self._context.tracing.attempt(letter) as span:
                attempt = await self._call(leased, letter)
                span.note_outcome(attempt.error)
            if leased.lost or leased.stopped or self._leases.is_ending:  # its answer to an interruption is no outcome
                raise asyncio.CancelledError
            return attempt if attempt.error is None or attempt.unfit else await self._assess(attempt)
        except asyncio.CancelledError:
            leased.running = None
            if leased.lost:
                self._leases.report_stale(leased)
                return None
            await self._leases.finish_write(self._leases.give_back(leased))
            raise
        finally:
            leased.running = None

    # --- guard

    async def _guard(self, leased: LeasedLetter, now: datetime) -> bool:
        """Return whether the letter may run now. If not, give it back and refund the attempt."""
        monotonic = self._clock.monotonic()
        is_free = await self._is_leased(leased, now) and await self._is_circuit_closed(leased, monotonic)
        return is_free and await self._are_dependencies_done(leased)

    async def _is_leased(self, leased: LeasedLetter, now: datetime) -> bool:
        """Return whether the lease lasts; renew one that ended, say in a suspended process, if the letter is free."""
        due_at = leased.letter.due_at
        if due_at is None or due_at > now or await self._leases.renew(leased):
            return True
        log.warning("letter %r is not run: its lease had ended before the run could start", leased.key)
        return False

    async def _is_circuit_closed(self, leased: LeasedLetter, now: float) -> bool:
        """Return whether the target may be called. This letter may become the probe of a half-open circuit."""
        wait = self._breakers.acquire(leased.circuit, now, leased.token)
        if wait is None:
            return True
        self._counts["circuit_skipped"] += 1
        await self._leases.give_back(leased, max(wait, _PROBE_SECONDS), circuit="open")  # the processor wakes for it
        return False

    async def _are_dependencies_done(self, leased: LeasedLetter) -> bool:
        """Return whether the letters that this one waits for have succeeded."""
        if not leased.letter.depends_on:
            return True
        blocked = None
        interval, waits_for = self._context.limits.interval_seconds, leased.letter.depends_on
        if any(each.outcome is not None and each.letter.task_id in waits_for for each in self._leases):
            interval = min(interval, _PROBE_SECONDS)  # it is being written just now
        try:
            blocked = await blocked_by(self._context.letters, leased.letter)
        except StoreError as problem:
            log.warning("what letter %r waits for cannot be looked up, it is given back: %s", leased.key, problem)
            await self._put_off(leased, interval)
            return False
        if blocked:
            await self._put_off(leased, interval, blocked_by=blocked)
        return not blocked

    async def _put_off(self, leased: LeasedLetter, seconds: float, **why: Any) -> None:
        """Give the letter back, and wake the processor for it then: nothing else may before the next interval."""
        await self._leases.give_back(leased, seconds, **why)
        self._wake(self._clock.now() + timedelta(seconds=seconds))

    # --- call, assess

    async def _call(self, leased: LeasedLetter, letter: DeadLetter) -> RunningAttempt:
        """Call the workflow, a sync one in a thread, within a time limit; note any result or error."""
        limit_seconds = self._context.limits.run_seconds
        try:
            plain = self._context.letter_factory.encryption.decrypt_letter(letter)
        except CannotRestore as problem:
            return RunningAttempt(leased, letter, unfit=problem)
        current = new_attempt(plain, leased.token)
        token, started = current_attempt.set(current), self._clock.monotonic()
        result: Any = None
        error: BaseException | str | None
        self._leases.begin_run(leased, started, limit_seconds)
        try:
            try:
                task = self._restore_task(plain)
            except CannotRestore as problem:
                why = self._context.letter_factory.mask_quotes(problem.why, plain.payload.shared_value)
                unfit = CannotRestore(problem.path, why, needs_edit=problem.needs_edit)
                return RunningAttempt(leased, letter, unfit=unfit)
            result = await self._adapter.run(task, list(letter.repos))
            error = failure_in_result(result)
        except BaseException as problem:  # also pytest's `fail`: meant for whoever calls workflows, which is us
            if is_end(problem):
                raise
            error = problem
        finally:
            leased.ends = math.inf
            current_attempt.reset(token)
            current.end()
            while leased.running is not None and leased.running.cancelling():
                leased.running.uncancel()  # whoever wanted that has left word why; anybody else was the workflow itself
        if result is None and error is None:  # a callback that ran the workflow, and did not look at its result
            error = current.own_failure
        if current.not_begun and error is not None and not current.tracked:  # its steps could not be looked up
            return RunningAttempt(leased, letter, unfit=current.not_begun[0])
        if leased.late:  # whatever it answered: it was interrupted
            error = TimeoutError(f"the run took longer than {limit_seconds:g} seconds")
        left = failed_repos(result, letter.repos) if error is not None else None
        ended, ended_at = self._clock.monotonic(), self._clock.now()
        seconds = ended - started
        snapshot = current.tracked[-1]() if current.tracked and error is not None else None
        return RunningAttempt(
            leased, letter, result, error, seconds, ended, ended_at, None, None, tuple(current.called), snapshot, left
        )

    async def _assess(self, attempt: RunningAttempt) -> RunningAttempt:
        """Classify the failure, and note its worker and the duration of the run."""
        letter, error, ended_at = attempt.letter, attempt.error, attempt.ended_at
        assert error is not None
        assert ended_at is not None
        assessment = await self.assess(error, ended_at, letter)
        failure = replace(
            assessment.failure,
            duration_seconds=round(attempt.seconds, 3),
            processor=letter.lease.owner if letter.lease else None,
        )
        if isinstance(error, StepExhausted | StepsGone):  # nothing is run until a person has sent it back
            assessment = replace(assessment, hopeless=True)
        assessment = replace(assessment, failure=failure)
        masked = self._context.letter_factory.encryption.mask_in(failure, letter)
        return replace(attempt, assessment=assessment if masked == failure else assessment.with_masked(masked))

    # --- settle, announce

    async def _settle(self, attempt: RunningAttempt) -> RunningAttempt:
        """Tell the breaker how the run went, and write the outcome under the lease."""
        if isinstance(attempt.unfit, StoreUnavailable):
            log.info("letter %r is given back, nothing was run: %s", attempt.leased.key, attempt.unfit)
            await self._leases.finish_write(self._put_off(attempt.leased, self._context.limits.interval_seconds))
            return attempt
        if attempt.unfit is not None:
            await self._hand_back(attempt.leased, attempt.unfit)
            return attempt
        self._tell_breaker(attempt)
        settled = await self._leases.write_outcome(
            attempt.leased, partial(self._with_outcome, attempt), partial(self._announce, attempt)
        )
        if settled is not None and attempt.called and attempt.error is not None:
            await let_called_wait(self._context, attempt.called, settled)
        return replace(attempt, settled=settled)

    async def _hand_back(self, leased: LeasedLetter, problem: CannotRestore) -> None:
        """Give a letter back unrun, for a worker that fits; remember it first, so as not to take it again."""
        self._context.part(Misfits).note(leased.letter)
        self._counts["unfit"] += 1
        log.info("letter %r is given back, nothing was run: %s", leased.key, problem)
        await self._leases.finish_write(self._leases.give_back(leased, unfit=problem))

    def _tell_breaker(self, attempt: RunningAttempt) -> None:
        circuit, now = attempt.leased.circuit, attempt.ended
        if self._breakers.state(circuit, now) is CircuitState.HALF_OPEN:
            self._wake(self._clock.now())
        if attempt.assessment is None:
            self._breakers.record_success(circuit)
        else:
            self._breakers.record_failure(circuit, attempt.assessment.verdict.category, now, attempt.leased.token)

    def _with_outcome(self, attempt: RunningAttempt, current: DeadLetter) -> DeadLetter:
        context, token, now = self._context, attempt.leased.token, self._clock.now()
        left = attempt.failed_repos if context.limits.only_failed_repos else None
        policy_for = context.letter_factory.policy_for
        after = apply_outcome(current, token, now, attempt.assessment, left, context.backoffs, policy_for=policy_for)
        if attempt.task is None or task_of(current) != task_of(attempt.letter):  # a person has changed that meanwhile
            return after
        return note_task(after, attempt.task)

    def _announce(self, attempt: RunningAttempt, letter: DeadLetter) -> None:
        """Announce the outcome that was written, and have the processor look when the letter is due again."""
        if letter.status is DeadLetterStatus.PENDING and letter.due_at is not None:
            self._wake(letter.due_at)
        self._context.meters.observe(
            "mahavishnu_attempt_duration_seconds", attempt.seconds, adapter=adapter_label(letter)
        )
        if attempt.assessment is None:
            self._counts["succeeded"] += 1
            self._context.announce(EventName.RETRY_SUCCEEDED, letter, letter.updated_at)
            return
        self._counts["failed"] += 1
        self._context.announce(EventName.RETRY_FAILED, letter, letter.updated_at)
        if letter.status is DeadLetterStatus.EXHAUSTED:
            self._context.announce(EventName.EXHAUSTED, letter, letter.updated_at)


register_caller(AttemptRunner._call.__code__, "current")


def apply_outcome(
    letter: DeadLetter,
    token: str,
    now: datetime,
    assessment: Assessment | None,
    failed_repos: tuple[str, ...] | None = None,
    backoffs: BackoffRegistry = backoff.DEFAULT,
    *,
    policy_for: Callable[[Verdict], str | None] = lambda verdict: verdict.policy,
) -> DeadLetter:
    """Return the letter after a run that failed with this `assessment`, or succeeded. Raises LostLease."""
    if assessment is None:
        return lifecycle.succeed(letter, token=token, now=now, backoffs=backoffs)
    failure, verdict = assessment.failure, assessment.verdict
    said = RecordedVerdict(verdict.reason or None, verdict.author or None)
    why = LatestVerdict(said, verdict.tags, assessment.fingerprint, policy_for(verdict))
    if assessment.hopeless:
        return lifecycle.exhaust(letter, token=token, failure=failure, now=now, left=failed_repos, verdict=why)
    return lifecycle.fail(
        letter,
        token=token,
        failure=failure,
        now=now,
        retry_in=assessment.retry_in,
        left=failed_repos,
        verdict=why,
        backoffs=backoffs,
    )
