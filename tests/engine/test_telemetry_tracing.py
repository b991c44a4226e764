"""Traces: a capture is an event on the caller's span, an attempt is a trace of its own that is linked to it."""

from __future__ import annotations

import gzip
import http.server
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.engine.telemetry import OpenTelemetryTracing, Tracing
from mahavishnu.testing import ManualClock

CANARY = "canary-4711"


def failing_app(tracing: Tracing) -> tuple[MahavishnuApp, ManualClock, dict[str, bool], Any]:
    clock, fails = ManualClock(), {"now": True}
    app = MahavishnuApp(MahavishnuSettings(dlq_store_url="memory:", dlq_default_max_retries=3), clock=clock)
    app.dlq.context.tracing = tracing

    @app.workflow("charge")
    async def charge(customer: str, card: str) -> str:
        with trace.get_tracer("shop", tracer_provider=_provider).start_as_current_span("pay"):
            if fails["now"]:
                raise ConnectionError(f"connection reset, {card}")
            return "paid"

    return app, clock, fails, charge


_exporter = InMemorySpanExporter()
_provider = TracerProvider()
_provider.add_span_processor(SimpleSpanProcessor(_exporter))


async def run_one_of_each(tracing: Tracing) -> str | None:
    """A call that fails, a retry that fails, one that succeeds. Returns the letter's traceparent."""
    app, clock, fails, charge = failing_app(tracing)
    async with app:
        with (
            trace.get_tracer("shop", tracer_provider=_provider).start_as_current_span("checkout"),
            pytest.raises(ConnectionError),
        ):
            await charge("ann", card=CANARY)
        clock.advance(3600)
        assert await app.dlq.run_due() == 1
        fails["now"] = False
        clock.advance(3600 * 10)
        with trace.get_tracer("shop", tracer_provider=_provider).start_as_current_span("worker"):
            assert await app.dlq.run_due() == 1  # of no trace that happens to be open
        (letter,) = await app.dlq.list_tasks(status="completed")
    given = letter.metadata.get("traceparent")
    return given if isinstance(given, str) else None


def told(span: ReadableSpan) -> str:
    return str(span.to_json())


async def test_a_capture_is_an_event_and_an_attempt_is_a_trace_that_is_linked() -> None:
    _exporter.clear()
    traceparent = await run_one_of_each(OpenTelemetryTracing(_provider))
    spans = _exporter.get_finished_spans()
    checkout = next(each for each in spans if each.name == "checkout")
    first, second = (each for each in spans if each.name == "process default")
    assert [event.name for event in checkout.events if event.name != "exception"] == ["dlq.captured"]
    own = checkout.get_span_context()
    assert own is not None
    assert traceparent is not None
    assert traceparent.startswith(f"00-{own.trace_id:032x}-{own.span_id:016x}-0")
    for attempt in (first, second):
        context = attempt.get_span_context()
        assert context is not None
        assert attempt.parent is None
        assert context.trace_id != own.trace_id
        assert [link.context.span_id for link in attempt.links] == [own.span_id]
        inner = next(each for each in spans if each.parent and each.parent.span_id == context.span_id)
        assert inner.name == "pay"
    assert first.get_span_context() != second.get_span_context()
    assert (first.status.status_code.name, (first.attributes or {})["error.type"]) == ("ERROR", "ConnectionError")
    assert second.status.status_code.name == "UNSET"
    attributes = dict(second.attributes or {})
    assert attributes | {"mahavishnu.adapter": "charge", "mahavishnu.attempt": 2, "messaging.system": "mahavishnu"} == (
        attributes
    )
    ours = [told(each) for each in (first, second)] + [str(event.attributes) for event in checkout.events[:1]]
    assert not [text for text in ours if CANARY in text]


async def test_without_a_span_there_is_no_link_and_without_tracing_no_trace() -> None:
    _exporter.clear()
    assert await run_one_of_each(Tracing()) is None
    assert {each.name for each in _exporter.get_finished_spans()} == {"checkout", "pay", "worker"}


class Raising:
    """A tracer, or whatever else is asked of it, that raises at everything."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("no tracing today")


async def test_a_tracer_that_raises_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    tracing = OpenTelemetryTracing(_provider)
    for part in ("_tracer", "_trace", "_propagator"):
        setattr(tracing, part, Raising())
    assert await run_one_of_each(tracing) is None
    assert sum("tracing does not work" in record.message for record in caplog.records) == 1


async def test_a_span_that_raises_at_its_end_disturbs_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tracing = OpenTelemetryTracing(_provider)

    class Entered:
        def __enter__(self) -> Any:
            return Raising()

        def __exit__(self, *raised: object) -> None:
            raise RuntimeError("no tracing today")

    class Tracer:
        def start_as_current_span(self, *arguments: Any, **named: Any) -> Entered:
            return Entered()

    monkeypatch.setattr(tracing, "_tracer", Tracer())
    await run_one_of_each(tracing)
    assert "tracing does not work" in caplog.text


@pytest.fixture
def collector() -> Iterator[tuple[str, list[str]]]:
    """A real OTLP/HTTP receiver, and the names of the spans that it was sent."""
    names: list[str] = []

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    names.extend(f"{span.name} links={len(span.links)}" for span in scope.spans)
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.end_headers()
            self.wfile.write(ExportTraceServiceResponse().SerializeToString())

        def log_message(self, *arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1/traces", names
    server.shutdown()
    thread.join()
    server.server_close()


async def test_a_real_receiver_gets_the_attempts(
    collector: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    url, names = collector
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint=url)))
    await run_one_of_each(OpenTelemetryTracing(provider))
    provider.shutdown()
    assert names == ["process default links=1"] * 2
