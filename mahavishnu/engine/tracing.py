"""Traces: a capture is an event on the caller's span, an attempt is a new trace that is linked to it.

OpenTelemetry is asked for when tracing is wanted, and not before. Whatever it raises is logged once, and nobody who
captures or runs letters hears of it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from mahavishnu.model.events import TRACEPARENT, Event, EventName, log_event
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import NO_ADAPTER

log = logging.getLogger(__name__)
_CAPTURES = frozenset({EventName.CAPTURED, EventName.MERGED, EventName.REOPENED, EventName.SKIPPED})


class AttemptSpan:
    """The span of one attempt, which may be none."""

    def note_outcome(self, error: BaseException | str | None) -> None:
        """Say how the attempt went."""


class Tracing:
    """No tracing: the same methods, and nothing happens."""

    names = _CAPTURES  #: the events that `note_event` is for

    def traceparent(self) -> str | None:
        """What the caller's span is, as W3C writes it; None outside of a span."""
        return None

    def note_event(self, event: Event) -> None:
        """Put an event of the queue on the caller's span."""

    def attempt(self, letter: DeadLetter) -> AbstractContextManager[AttemptSpan]:
        """Around an attempt: a span of its own."""
        return _no_span()


@contextmanager
def _no_span() -> Iterator[AttemptSpan]:
    yield AttemptSpan()


class OpenTelemetryTracing(Tracing):
    """Traces by OpenTelemetry, with the tracer provider that the application has set up."""

    def __init__(self, provider: Any = None) -> None:
        """Raises ImportError where opentelemetry is not installed."""
        from opentelemetry import context, trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._context, self._trace = context, trace
        self._propagator = TraceContextTextMapPropagator()
        self._tracer = trace.get_tracer("mahavishnu", tracer_provider=provider)
        self._has_stumbled = False

    def traceparent(self) -> str | None:
        try:
            carrier: dict[str, str] = {}
            self._propagator.inject(carrier)
            return carrier.get(TRACEPARENT)
        except Exception as problem:
            self._stumble(problem)
            return None

    def note_event(self, event: Event) -> None:
        try:
            span = self._trace.get_current_span()
            if not span.is_recording():
                return
            if event.letter is None:
                span.add_event(str(event.name), {"mahavishnu.task_id": str(event.detail.get("task_id"))})
            else:
                span.add_event(str(event.name), _attributes(event.letter))
        except Exception as problem:
            self._stumble(problem)

    @contextmanager
    def attempt(self, letter: DeadLetter) -> Iterator[AttemptSpan]:
        with ExitStack() as ends:
            span = AttemptSpan()
            try:
                current = self._tracer.start_as_current_span(
                    f"process {letter.queue}",
                    context=self._context.Context(),  # of no other trace: the caller's ended long ago
                    kind=self._trace.SpanKind.CONSUMER,
                    links=self._links(letter),
                    record_exception=False,  # an error's text may say anything
                    set_status_on_exception=False,
                    attributes={
                        "messaging.system": "mahavishnu",
                        "messaging.operation.name": "process",
                        "messaging.operation.type": "process",
                        "messaging.destination.name": letter.queue,
                        "messaging.message.id": letter.entry_id,
                        "mahavishnu.attempt": letter.total_attempts,
                        **_attributes(letter),
                    },
                )
                span = _OpenSpan(self, current.__enter__())
                ends.push(lambda *raised: self._leave(current, *raised))
            except Exception as problem:
                self._stumble(problem)
            yield span

    def _leave(self, current: AbstractContextManager[Any], *raised: Any) -> bool:
        try:
            current.__exit__(*raised)
        except BaseException as problem:
            if problem is not raised[1]:
                self._stumble(problem)
        return False

    def _links(self, letter: DeadLetter) -> list[Any]:
        given = letter.metadata.get(TRACEPARENT)
        if not isinstance(given, str):
            return []
        origin = self._trace.get_current_span(self._propagator.extract({TRACEPARENT: given})).get_span_context()
        return [self._trace.Link(origin)] if origin.is_valid else []

    def end_in_error(self, span: Any, error: BaseException | str) -> None:
        """Mark a span as failed."""
        try:
            kind = "error" if isinstance(error, str) else type(error).__qualname__
            span.set_attribute("error.type", kind)
            span.set_status(self._trace.StatusCode.ERROR, kind)
        except Exception as problem:
            self._stumble(problem)

    def _stumble(self, problem: BaseException) -> None:
        if not self._has_stumbled:
            self._has_stumbled = True
            log.error("tracing does not work, and goes on without a word: %r", problem)


class _OpenSpan(AttemptSpan):
    def __init__(self, tracing: OpenTelemetryTracing, span: Any) -> None:
        self._tracing, self._span = tracing, span

    def note_outcome(self, error: BaseException | str | None) -> None:
        if error is not None:
            self._tracing.end_in_error(self._span, error)


class ManagerTracing(Tracing):
    """Has an observability manager put a span around each attempt, inside of what another tracing does."""

    def __init__(self, manager: Any, inner: Tracing) -> None:
        self._manager, self._inner = manager, inner

    def traceparent(self) -> str | None:
        return self._inner.traceparent()

    def note_event(self, event: Event) -> None:
        self._inner.note_event(event)

    @contextmanager
    def attempt(self, letter: DeadLetter) -> Iterator[AttemptSpan]:
        with self._inner.attempt(letter) as span:
            manager_span = self._start(letter)
            try:
                yield span
            finally:
                self._end(manager_span, sys.exc_info())

    def _start(self, letter: DeadLetter) -> AbstractContextManager[Any] | None:
        try:
            started: AbstractContextManager[Any] = self._manager.start_span("dlq.attempt", dict(_attributes(letter)))
            started.__enter__()
        except Exception:
            log.exception("the observability manager could not start a span", extra=log_event("telemetry.failed"))
            return None
        return started

    def _end(self, span: AbstractContextManager[Any] | None, raised: Any) -> None:
        try:
            if span is not None:
                span.__exit__(*raised)
        except Exception:
            log.exception("the observability manager could not end a span", extra=log_event("telemetry.failed"))


def _attributes(letter: DeadLetter) -> Mapping[str, Any]:
    """What is said of a letter: names and numbers, and nothing of its payload or of its error's text."""
    return {
        "mahavishnu.task_id": letter.task_id,
        "mahavishnu.entry_id": letter.entry_id,
        "mahavishnu.adapter": letter.adapter or NO_ADAPTER,
        "mahavishnu.category": str(letter.error_category),
        "mahavishnu.status": str(letter.status),
    }


def make_tracing(wanted: bool) -> Tracing:
    """Tracing by OpenTelemetry if it is wanted and installed. Where it is wanted only, the log says what is missing."""
    if not wanted:
        return Tracing()
    try:
        return OpenTelemetryTracing()
    except ImportError:
        log.warning("there are no traces: opentelemetry is not installed (pip install 'mahavishnu-dlq[telemetry]')")
    return Tracing()
