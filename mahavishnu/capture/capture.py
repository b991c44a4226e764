"""Capture of failures on one page: assess → decide → make → record → announce. The pipeline raises nothing."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import logging
import os
import weakref
from asyncio import Future
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, cast

from mahavishnu.capture.dependencies import refuse_circle
from mahavishnu.capture.strategies import Occurrence, Strategy, decide
from mahavishnu.classify.assess import Assessment, Assessor, context_for
from mahavishnu.classify.chain import Chain
from mahavishnu.classify.exceptions import cut, is_light, safe_str
from mahavishnu.classify.plugin_guard import call_in_thread
from mahavishnu.engine.batching import Batcher, resolve
from mahavishnu.engine.context import QueueContext
from mahavishnu.engine.recorder import CaptureKind, CaptureResult
from mahavishnu.engine.store_session import UsedElsewhere
from mahavishnu.engine.waiting_room import WaitingPlace
from mahavishnu.model.backoff import BUILT_IN
from mahavishnu.model.errors import ENDS, MahavishnuError, QueueFull, StoreUnavailable
from mahavishnu.model.events import Event, EventName, letter_fields, log_event
from mahavishnu.model.json_value import is_large, json_safe_copy, safe_repr, texts
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import ErrorCategory
from mahavishnu.model.query import require_namespace
from mahavishnu.model.record import Value
from mahavishnu.stores.base import Result
from mahavishnu.values.payload import LetterRequest, redact

# --- intake of new letters, whoever brings them: records them, announces them, and raises what keeps it from that

log = logging.getLogger(__name__)
_EVENTS = {
    CaptureKind.CREATED: EventName.CAPTURED,
    CaptureKind.MERGED: EventName.MERGED,
    CaptureKind.REOPENED: EventName.REOPENED,
}


class LetterIntake:
    """Records new letters and announces them; lets in those that wait for room."""

    NEEDS = "work"

    def __init__(self, context: QueueContext) -> None:
        self._queue = context

    async def enqueue(
        self, request: LetterRequest, error: BaseException | str, named: ErrorCategory | str | None = None
    ) -> CaptureResult:
        """Record a failure whatever the strategy says; a `named` category counts. Raises InvalidInput, as `record`."""
        queue, task_id, now = self._queue, request.task_id, self._queue.clock.now()
        namespace = require_namespace(queue.namespace if request.namespace is None else request.namespace)
        request = request.with_traceparent(queue.tracing.traceparent())
        context = context_for(
            now, task_id, request.task, request.adapter, texts(request.repos, f"repos of task {task_id!r:.80}")
        )
        assessment = await Assessor(queue.chain).assess(error, now, context, named)
        make, backoffs = queue.letter_factory.make, queue.backoffs
        return await self.record(make(request, assessment, now, namespace=namespace, backoffs=backoffs))

    async def record(self, letter: DeadLetter) -> CaptureResult:
        """Store a letter, and say how it came in. Raises DLQFullError, InvalidInput, StoreError."""
        queue = self._queue
        await queue.require("enqueue", f"letter:{letter.key}", letter.namespace, makes=letter)
        await queue.open()  # first: a letter that is too large has to wait somewhere
        queue.letter_factory.check_size(letter)
        if letter.depends_on:
            await refuse_circle(queue.letters, letter)
        if warning := queue.backoffs.problem_with(letter.retry_policy):
            log.warning("letter %r: %s", letter.key, warning)
        try:
            recorded = await queue.recorder.record(letter, letter.failures[-1])
        except QueueFull:
            queue.counts["rejected_full"] += 1
            raise
        queue.announce(_EVENTS[recorded.kind], recorded.letter)
        return recorded

    async def record_many(self, letters: Sequence[DeadLetter]) -> list[Result[DeadLetter]]:
        """Store letters by one write; None for each that needs `record`. Announce the others. Raises StoreError."""
        simple = [each for each in letters if self._is_simple(each)]
        await self._queue.open()
        stored = await self._queue.recorder.record_new(simple) if simple else []
        if len(simple) == len(letters):
            return stored
        results = {id(each): result for each, result in zip(simple, stored, strict=True)}
        return [results.get(id(each)) for each in letters]

    def announce_captured(self, letter: DeadLetter) -> None:
        """Publish the event of a letter that `record_many` stored."""
        self._queue.announce(EventName.CAPTURED, letter, letter.created_at)

    def record_skipped(self, task_id: str, reason: str) -> None:
        """Count, log and publish that a failure was not kept, because the strategy said so."""
        self._queue.counts["skipped_by_strategy"] += 1
        log.info("the failure of task %r is not kept: %s", task_id, reason, extra=log_event("capture.skipped"))
        detail = {"task_id": task_id, "reason": reason}
        self._queue.events.publish(Event(EventName.SKIPPED, self._queue.clock.now(), None, detail))

    async def admit_waiting(self) -> int:
        """Let in failures that wait for room, as far as there is some. Returns how many."""
        await self._queue.open()
        if not self._queue.admits_waiting:
            return 0
        admitted = await self._queue.waiting.admit(self._queue.letter_factory.max_task_bytes)
        for letter in admitted:
            self._queue.announce(EventName.CAPTURED, letter, waited=True)
        return len(admitted)

    def _is_simple(self, letter: DeadLetter) -> bool:
        """Return True if nothing has to be looked up before it is stored, and there is room where most letters go."""
        queue = self._queue
        if letter.namespace != queue.namespace:
            return False
        policy = letter.retry_policy
        known = policy in BUILT_IN or queue.backoffs.problem_with(policy) is None
        return known and not letter.depends_on and len(letter.payload.text) <= queue.letter_factory.max_task_bytes


_LONGEST_REASON = 500
_PLACES = {
    WaitingPlace.STORE: "",
    WaitingPlace.FILE: " in a file beside the store, because that cannot take it",
    WaitingPlace.MEMORY: " in this process's memory, because the store cannot take it",
}
_LONGEST_TURN = 0.01  # seconds for which a batch may keep the event loop to itself


class CaptureOutcome(Value, frozen=True):
    """Outcome for a failed run: exactly one of `letter`, `skip_reason`, `problem` and `folded`."""

    task_id: str
    category: ErrorCategory | None = None
    letter: DeadLetter | None = None
    skip_reason: str | None = None
    problem: str | None = None
    folded: bool = False  # it is the failure of a retry, whose letter takes it in

    def as_result(self) -> dict[str, Any]:
        """The keys that a workflow's result gets."""
        letter = self.letter
        result: dict[str, Any] = {"dlq_enqueued": letter is not None, "error_category": self.category}
        if letter is not None:
            result["dlq_task_id"] = letter.task_id
            result["retry_policy"] = str(letter.retry_policy)
            result["max_retries"] = letter.max_retries
        if self.skip_reason is not None:
            result["dlq_skip_reason"] = self.skip_reason
        if self.problem is not None:
            result["dlq_error"] = self.problem
        return result


@dataclass(slots=True)
class PendingCapture:
    """A failure on its way through the steps, and the future of its caller."""

    request: LetterRequest
    error: BaseException | str
    requested: bool  # the caller said that it wants a letter
    strategy: Strategy  # the same for all steps, even if it is switched meanwhile
    future: Future[CaptureOutcome]
    context: Context  # of the caller: what is announced and logged belongs to its trace
    assessment: Assessment | None = None
    reason: str = ""  # why the strategy keeps it
    letter: DeadLetter | None = None  # the letter that it makes
    ended: bool = False  # its outcome is known, whether or not the caller still waits for that

    def end(self, outcome: CaptureOutcome) -> None:
        """Give the caller the outcome."""
        self.ended = True
        resolve(self.future, outcome)

    @property
    def category(self) -> ErrorCategory | None:
        return self.assessment.verdict.category if self.assessment else None


_pipelines: weakref.WeakSet[CapturePipeline] = weakref.WeakSet()


@atexit.register
def _keep_unfinished() -> None:
    for pipeline in list(_pipelines):
        pipeline.keep_unfinished()


def _forget() -> None:
    for pipeline in list(_pipelines):
        pipeline.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


class CapturePipeline:
    """Takes failed runs through the steps; `counts` are how often each end was reached."""

    def __init__(self, context: QueueContext, intake: LetterIntake, counts: Counter[str]) -> None:
        self._queue, self._intake, self._counts = context, intake, counts
        self._batcher = Batcher(self._run_batch, self._keep_unfinished)
        _pipelines.add(self)

    def capture(
        self, request: LetterRequest, error: BaseException | str, requested: bool, strategy: Strategy
    ) -> Future[CaptureOutcome]:
        """Capture a failure together with those of the same moment. It is captured even if the caller gives up."""
        future: Future[CaptureOutcome] = asyncio.get_running_loop().create_future()
        self._batcher.add(PendingCapture(request, error, requested, strategy, future, copy_context()))
        return future

    def capture_now(
        self, request: LetterRequest, error: BaseException | str, requested: bool, strategy: Strategy
    ) -> CaptureOutcome:
        """Capture a failure outside of the store, for a caller that cannot wait. The loop of this thread stores it."""
        # A future that needs no event loop; it is asked in the same way.
        answer = cast("Future[CaptureOutcome]", concurrent.futures.Future())
        capture = PendingCapture(request, error, requested, strategy, answer, copy_context())
        try:
            with suppress(Exception):  # then the built-in rules assess it
                self._assess(capture, self._queue.clock.now())
            letter = self._make_at_once(capture, RuntimeError("the classifier could not be asked"))
            if letter is None:
                return answer.result()
            self._queue.waiting.keep_outside(letter)
            with suppress(RuntimeError):  # there is no loop in this thread
                asyncio.get_running_loop()
                self._batcher.spawn(self._store_kept(capture, letter), context=capture.context)
            return CaptureOutcome(letter.task_id, capture.category, letter)
        except ENDS:
            raise
        except BaseException as problem:
            self._give_up(capture, problem)
            return answer.result()

    async def _store_kept(self, capture: PendingCapture, letter: DeadLetter) -> None:
        """Store a letter that is safe outside of the store."""
        await self._record_alone(capture, letter, None)
        if capture.future.done() and capture.future.result().letter is not None:
            self._queue.waiting.drop_outside(letter)

    async def finish(self) -> None:
        """Return when all that is being captured has come to its end."""
        await self._batcher.finish()

    def keep_unfinished(self) -> None:
        """Keep in files what is being captured, and what waits in memory: the process ends."""
        for capture in self._batcher.list_unfinished():
            self._keep_unfinished(capture)
        self._queue.waiting.write_files()

    def forget(self) -> None:
        """Forget what is being captured: the process that this one was forked from does it."""
        self._batcher.forget()

    async def _run_batch(self, captures: Sequence[PendingCapture]) -> None:
        """Take failures of one moment through each step together, a fifth faster, and record them by one write."""
        now, began = self._queue.clock.now(), self._queue.clock.monotonic()
        try:
            captures = self._without_slow(captures)  # inside: a classifier that is made for the first failure may fail
            captures = await self._for_each(self._assess, captures, now, began)
            captures = await self._for_each(self._decide_and_make, captures, now, began)
            made = [(capture, capture.letter) for capture in captures if capture.letter is not None]
            if made:
                await self._record(made)
        except Exception as problem:  # a mistake of ours: nobody may be left waiting
            for capture in captures:
                if not capture.ended:
                    self._rescue(capture, problem)

    async def _for_each(
        self,
        step: Callable[[PendingCapture, datetime], None],
        captures: Sequence[PendingCapture],
        now: datetime,
        began: float,
    ) -> Sequence[PendingCapture]:
        """Return the failures that got through the step. After a slow one other tasks have their turn."""
        clock, done = self._queue.clock, list[PendingCapture]()
        for number, capture in enumerate(captures):
            if number and clock.monotonic() - began > _LONGEST_TURN:
                await clock.sleep(0)
                began = clock.monotonic()
            try:
                capture.context.run(step, capture, now)
            except ENDS:
                raise
            except BaseException as problem:
                self._rescue(capture, problem)
            else:
                done.append(capture)
        return done

    # --- assess

    def _assess(self, capture: PendingCapture, now: datetime) -> None:
        if capture.assessment is None:
            assessor = Assessor(self._queue.chain)
            capture.assessment = assessor.assess_sync(capture.error, now, _classifier_context(capture, now))

    def _without_slow(self, captures: Sequence[PendingCapture]) -> Sequence[PendingCapture]:
        """Return those that are assessed, or will be at once. The others take their time, and hold up no others."""
        is_prompt = self._queue.chain.is_prompt
        quick: list[PendingCapture] = []
        for capture in captures:
            if capture.assessment is not None or (
                is_prompt and is_light(capture.error) and not is_large(capture.request.task)
            ):
                quick.append(capture)
            else:
                self._batcher.spawn(self._prepare(capture), [capture], capture.context)
        return quick

    async def _prepare(self, capture: PendingCapture) -> None:
        """Ask the plugins, read long texts and encode large payloads in threads; then join a batch."""
        try:
            now = self._queue.clock.now()
            assessor = Assessor(self._queue.chain)
            capture.assessment = await assessor.assess(capture.error, now, _classifier_context(capture, now))
            if is_large(capture.request.task):
                if (request := self._decide(capture)) is None:
                    return
                capture.letter = await call_in_thread(self._make, request, capture.assessment, now)
        except Exception as problem:
            self._rescue(capture, problem)
        else:
            self._batcher.add(capture)

    # --- decide

    def _decide_and_make(self, capture: PendingCapture, now: datetime) -> None:
        if capture.letter is None and (request := self._decide(capture)) is not None:
            assert capture.assessment is not None
            capture.letter = self._make(request, capture.assessment, now)

    def _decide(self, capture: PendingCapture) -> LetterRequest | None:
        """Return the request with the strategy's advice; None if it is not to be kept, which the caller is told."""
        request, assessment = capture.request, capture.assessment
        assert assessment is not None
        occurrence = Occurrence(
            task_id=request.task_id,
            task=request.task,
            repos=request.readable_repos(),
            error=capture.error,
            verdict=assessment.verdict,
            requested=capture.requested,
        )
        decision = decide(capture.strategy, occurrence)
        if decision.keep:
            capture.reason = decision.reason
            return request.with_advice(decision.retry_policy, decision.max_retries)
        self._intake.record_skipped(request.task_id, decision.reason)
        self._counts["skipped_by_strategy"] += 1
        category = assessment.verdict.category
        capture.end(CaptureOutcome(request.task_id, category, skip_reason=decision.reason))
        return None

    # --- make

    def _make(self, request: LetterRequest, assessment: Assessment, now: datetime) -> DeadLetter:
        """Make the letter. Values in the request that no letter can have are replaced, and kept in the metadata."""
        factory, namespace = self._queue.letter_factory, self._queue.namespace
        make = partial(factory.make, namespace=namespace, backoffs=self._queue.backoffs)
        try:
            return make(request, assessment, now)
        except ENDS:
            raise
        except BaseException as problem:  # encoding it runs code of whatever is in it
            why = cut(safe_str(problem) or type(problem).__name__, _LONGEST_REASON)
        if (named := factory.with_usable_id(request, namespace)) is not request:
            try:
                return make(named, assessment, now)
            except ENDS:
                raise
            except BaseException as problem:  # that was not all
                request, why = named, cut(safe_str(problem) or type(problem).__name__, _LONGEST_REASON)
        name = safe_repr(request.task_id)
        log.error("task %s is kept as far as a letter can hold it, and nothing retries it: %s", name, why)
        return make(factory.with_placeholders(request, why), assessment, now)

    def _rescue(self, capture: PendingCapture, problem: BaseException) -> None:
        """Record a failure alone that could not be taken through a step."""
        try:
            letter = self._make_at_once(capture, problem)
            if letter is not None:
                self._batcher.spawn(self._record_alone(capture, letter, None), [capture], capture.context)
        except ENDS:
            raise
        except BaseException:
            self._give_up(capture, problem)

    def _make_at_once(self, capture: PendingCapture, problem: BaseException) -> DeadLetter | None:
        """Make the letter, by the built-in rules where the classifier had a `problem`; None if it is not kept."""
        now = self._queue.clock.now()
        if capture.assessment is None:
            log.error("the failure of task %s is left to the built-in rules: %r", capture.request.task_id, problem)
            assessor = Assessor(Chain())
            capture.assessment = assessor.assess_sync(capture.error, now, _classifier_context(capture, now))
        if capture.letter is None:
            self._decide_and_make(capture, now)
        return capture.letter

    # --- record

    async def _record(self, made: Sequence[tuple[PendingCapture, DeadLetter]]) -> None:
        """Record the letters by one write; those that need more than that are recorded one by one."""
        letters, taker = [letter for _, letter in made], self._queue.taker
        results: Sequence[DeadLetter | Exception | None] = ()
        claimed: Mapping[str, DeadLetter] = {}
        try:
            try:
                if not self._queue.session.used_elsewhere:
                    with self._queue.session.in_use():
                        claimed = taker.claim_new(letters) if taker is not None else {}
                        results = await self._intake.record_many([claimed.get(each.entry_id, each) for each in letters])
            except UsedElsewhere:
                pass
            except Exception as problem:
                results = [problem] * len(made)
            kept: list[DeadLetter] = []
            for (capture, letter), result in zip(made, results or [None] * len(made), strict=True):
                if isinstance(result, DeadLetter):
                    shown = letter if letter.entry_id in claimed else result  # its claim is told of when its run begins
                    kept.append(shown)
                    try:
                        capture.context.run(self._finish_new, capture, shown)
                    except Exception:  # the others are stored, too, and somebody waits for them
                        log.exception("letter %r is stored, but something stumbled over it", result.key)
                else:
                    self._batcher.spawn(self._record_alone(capture, letter, result), [capture], capture.context)
            self._log_kept(kept)
        finally:
            if taker is not None and claimed:
                taker.take_new(claimed, results)

    async def _record_alone(self, capture: PendingCapture, letter: DeadLetter, problem: Exception | None) -> None:
        """Record one whose task has a letter already, or that there is no room for, or that met a `problem`."""
        try:
            try:
                stored = await self._queue.session.run_in_home_loop(lambda: self._store(letter, problem))
            except Exception as lost:  # whatever it is: the failure must not end in a log line
                stored = self._note_waiting(letter, self._queue.waiting.keep_outside(letter), lost)
            if isinstance(stored, DeadLetter):
                self._finish(capture, stored)
                self._log_kept([stored])
            else:
                capture.end(CaptureOutcome(letter.task_id, capture.category, problem=stored))
        except Exception as another:
            self._give_up(capture, another)

    async def _store(self, letter: DeadLetter, problem: Exception | None) -> DeadLetter | str:
        """Return the letter as it was recorded; or where it waits, if it met a `problem` before or meets one now."""
        try:
            if problem is not None:
                raise problem
            return (await self._intake.record(letter)).letter
        except UsedElsewhere:
            raise
        except Exception as refusal:
            return self._note_waiting(letter, await self._queue.waiting.keep(letter), refusal)

    def _note_waiting(self, letter: DeadLetter, place: WaitingPlace, refusal: Exception) -> str:
        """Count and log a letter that waits until it can be recorded. Returns where it is, for the caller."""
        self._counts["kept_waiting"] += 1
        ours = not isinstance(refusal, MahavishnuError)  # a mistake of ours
        why = f"{type(refusal).__name__}: {safe_str(refusal)}" if ours else str(refusal)
        waits = f"{why}; it waits{_PLACES[place]} to be let in (entry {letter.entry_id})"
        problem = refusal if ours else None
        extra = log_event("capture.waits", task_id=letter.task_id, entry_id=letter.entry_id, place=place.name.lower())
        log.error("the failure of task %r is no letter yet: %s", letter.task_id, waits, exc_info=problem, extra=extra)
        if place is WaitingPlace.MEMORY:  # nobody may find it there
            payload, extra = letter.payload.text, log_event("capture.in_memory", task_id=letter.task_id)
            log.error("the payload of task %r is: %s", letter.task_id, payload, extra=extra)
        return waits

    def _keep_unfinished(self, capture: PendingCapture) -> None:
        """Keep a failure outside of the store, because its event loop ends before it could be stored."""
        if capture.ended:
            return
        capture.ended = True
        ending = StoreUnavailable("the event loop ended before the failure was stored")
        try:
            letter = self._make_at_once(capture, ending)
            if letter is not None:
                self._note_waiting(letter, self._queue.waiting.keep_outside(letter), ending)
        except Exception as problem:
            self._give_up(capture, problem)

    # --- announce

    def _finish_new(self, capture: PendingCapture, letter: DeadLetter) -> None:
        self._finish(capture, letter)
        self._intake.announce_captured(letter)

    def _finish(self, capture: PendingCapture, letter: DeadLetter) -> None:
        """Count and log the letter, and answer the caller."""
        capture.ended = True
        self._counts["manually_enqueued" if capture.requested else "auto_enqueued"] += 1
        if not capture.future.done():  # otherwise the caller gave up
            capture.future.set_result(CaptureOutcome(task_id=letter.task_id, category=capture.category, letter=letter))

    def _log_kept(self, kept: Sequence[DeadLetter]) -> None:
        """Log the letters of one moment: one with its facts, or how many there are, and each for debugging."""
        if len(kept) > 1 and log.isEnabledFor(logging.INFO):
            by_category = Counter(str(letter.error_category) for letter in kept)
            counts = ", ".join(f"{category} {count}" for category, count in by_category.most_common())
            log.info("captured %d failures: %s", len(kept), counts, extra=log_event("capture.kept", count=len(kept)))
        level = logging.DEBUG if len(kept) > 1 else logging.INFO
        for letter in kept if log.isEnabledFor(level) else ():
            name = letter.failures[-1].type or letter.last_error
            facts = (letter.key, name, letter.error_category, _next_retry(letter))
            log.log(level, "captured %s: %s (%s), %s", *facts, extra=log_event("capture.kept", **letter_fields(letter)))

    def _give_up(self, capture: PendingCapture, problem: BaseException) -> None:
        """Log a failure that could not be captured, with its payload: this is the only trace of it."""
        request = capture.request
        capture.ended = True
        self._queue.counts["capture_failed"] += 1
        self._counts["capture_failed"] += 1
        log.error(
            "the failure of task %s could not be captured; its error: %s; its payload: %s",
            safe_repr(request.task_id),
            self._queue.letter_factory.mask_request(safe_repr(capture.error), request),
            redact(json_safe_copy(request.task), self._queue.letter_factory.secret_keys),
            exc_info=problem,
            extra=log_event("capture.failed"),
        )
        why = f"{type(problem).__name__}: {safe_str(problem)}"
        resolve(capture.future, CaptureOutcome(request.task_id, problem=why))


def _next_retry(letter: DeadLetter) -> str:
    if letter.next_retry_at is None:
        return "no retry planned"
    seconds = (letter.next_retry_at - letter.updated_at).total_seconds()
    return f"retry in {seconds / 60:.0f} min" if seconds >= 60 else f"retry in {seconds:.0f} s"


def _classifier_context(capture: PendingCapture, now: datetime) -> Any:
    request = capture.request
    return context_for(now, request.task_id, request.task, request.adapter, request.readable_repos())
