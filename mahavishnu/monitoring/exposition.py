"""Numbers as Prometheus reads them (extra `server` or `telemetry`), and log lines as JSON, one object each."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from mahavishnu.engine.telemetry import Distribution, KnownBy, MetricFamily, MetricKind, definitions

__all__ = ["CONTENT_TYPE_LATEST", "ProcessCollector", "as_metrics", "exposition"]
log = logging.getLogger(__name__)
LogFormat = Literal["text", "json"]
ROOT: Final = "mahavishnu"
_TEXT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def exposition(families: Iterable[MetricFamily]) -> bytes:
    """Return the text that answers a scrape."""
    return generate_latest(_Once(as_metrics(families)))


def as_metrics(families: Iterable[MetricFamily]) -> Iterator[Metric]:
    """Yield the families as prometheus_client has them, without families whose numbers are unknown."""
    for family in families:
        if family.samples:
            yield _metric(family)


def _metric(family: MetricFamily) -> Metric:
    what, labels = family.definition, family.definition.labels
    made: CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
    if what.kind is MetricKind.HISTOGRAM:
        made = HistogramMetricFamily(what.name, what.meaning, labels=labels)
        for values, distribution in family.samples.items():
            assert isinstance(distribution, Distribution)
            made.add_metric(_encodable(values), _cumulative(what.buckets, distribution), distribution.total)
        return made
    kind = CounterMetricFamily if what.kind is MetricKind.COUNTER else GaugeMetricFamily
    made = kind(what.name, what.meaning, labels=labels)
    for values, number in family.samples.items():
        assert not isinstance(number, Distribution)
        made.add_metric(_encodable(values), number)
    return made


def _cumulative(bounds: Sequence[float], distribution: Distribution) -> list[tuple[str, float]]:
    sums, total = list[tuple[str, float]](), 0
    for bound, count in zip([*map(str, bounds), "+Inf"], distribution.counts, strict=True):
        total += count
        sums.append((bound, total))
    return sums


def _encodable(values: Iterable[str]) -> list[str]:
    return [value.encode(errors="replace").decode() for value in values]  # a letter may have half a character in it


class _Once:
    """The collector that `generate_latest` asks, for one scrape."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        yield from self._metrics


class ProcessCollector(Collector):
    """Gives a registry of the application the numbers of this process. It never raises, for the sake of others."""

    def __init__(self, families: Callable[[], Sequence[MetricFamily]]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        try:
            yield from list(as_metrics(self._families()))
        except Exception:
            log.exception("the numbers of the queue could not be told")

    def describe(self) -> Iterator[Metric]:
        """Yield the names, without asking for the numbers."""
        for each in definitions(KnownBy.PROCESS):
            yield Metric(each.name.removesuffix("_total"), each.meaning, each.kind.value)

    def register(self, registry: CollectorRegistry) -> Callable[[], None]:
        """Join a registry; the function returned leaves it. Raises ValueError where these names are there already."""
        registry.register(self)
        return lambda: registry.unregister(self)


class JsonLines(logging.Formatter):
    """Writes a record as a line of JSON: `time`, `level`, `event`, `message`, `logger`, and the event's fields."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": getattr(record, "event", None) or record.name.removeprefix(f"{ROOT}."),  # else the module's name
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields = getattr(record, "fields", None)
        if isinstance(fields, dict):
            line = {**fields, **line}
        if record.exc_info and record.exc_info[0] is not None:
            line["error_type"] = record.exc_info[0].__qualname__
            line["traceback"] = "".join(traceback.format_exception(*record.exc_info))
        try:
            return json.dumps(line, ensure_ascii=True, default=str)
        except Exception:  # what is logged may have a `__str__` that raises
            plain = {name: value for name, value in line.items() if isinstance(value, str)}
            return json.dumps(plain, ensure_ascii=True)


def configure_logging(form: LogFormat = "text", *, verbose: bool = False) -> None:
    """Log the package to stderr, for programs; JSON has what happens to each letter, text only if `verbose`."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form == "json" else logging.Formatter(_TEXT))
    logger = logging.getLogger(ROOT)
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    if form == "json":
        logger.propagate = False
        logging.getLogger(f"{ROOT}.dlq").setLevel(logging.DEBUG)
