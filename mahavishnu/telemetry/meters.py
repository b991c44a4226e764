"""What a process counts about itself, with bounded labels, and numbers on their way to whoever scrapes them."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mahavishnu.telemetry.catalogue import METRICS, KnownBy, MetricDefinition, MetricKind, definitions

MOST_VALUES, OTHER = 40, "other"  # each value of a label is a time series that monitoring keeps


@dataclass(frozen=True, slots=True)
class Distribution:
    """The values that a histogram has: how many are in each bucket (the last one has no bound), and their sum."""

    counts: tuple[int, ...]
    total: float


@dataclass(slots=True)
class MetricFamily:
    """A metric with its numbers, by the values of its labels. Without numbers it is unknown, which is not 0."""

    definition: MetricDefinition
    samples: dict[tuple[str, ...], float | Distribution] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, numbers: float | Mapping[str, float]) -> MetricFamily:
        """The family of this name with its one number, or with one for each value of its one label."""
        samples = numbers.items() if isinstance(numbers, Mapping) else [(None, numbers)]
        return cls(METRICS[name], {() if value is None else (str(value),): number for value, number in samples})


@dataclass(frozen=True, slots=True)
class Reading:
    """One change of a metric, as it is reported to an observability manager."""

    name: str
    value: float
    labels: Mapping[str, str]


class LabelValues:
    """The values that a label may have: the first ones that come, and OTHER for all further ones."""

    def __init__(self, most: int = MOST_VALUES) -> None:
        self._most, self._known = most, set[str]()

    def limit(self, value: str) -> str:
        """The value itself, or OTHER."""
        if value not in self._known:
            if len(self._known) >= self._most:
                return OTHER
            self._known.add(value)
        return value


class Meters:
    """Counters and histograms of one process. Any thread may use them.

    >>> meters = Meters()
    >>> meters.count("mahavishnu_lease_losses_total")
    >>> next(f.samples for f in meters.families() if f.definition.name == "mahavishnu_lease_losses_total")
    {(): 1.0}
    """

    def __init__(self) -> None:
        self.on_reading: Callable[[Reading], object] | None = None  # called with each change
        self._lock = threading.Lock()
        self._values: defaultdict[str, LabelValues] = defaultdict(LabelValues)
        self._counters: dict[str, dict[tuple[str, ...], float]] = {}
        self._histograms: dict[str, dict[tuple[str, ...], tuple[list[int], float]]] = {}
        for each in definitions(KnownBy.PROCESS):
            bare: tuple[str, ...] = ()
            if each.kind is MetricKind.COUNTER:
                self._counters[each.name] = {} if each.labels else {bare: 0.0}
            elif each.kind is MetricKind.HISTOGRAM:
                self._histograms[each.name] = {} if each.labels else {bare: ([0] * (len(each.buckets) + 1), 0.0)}

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add to a counter."""
        with self._lock:
            series, key = self._counters[name], self._key(name, labels)
            series[key] = series.get(key, 0.0) + amount
        self._report(name, amount, labels)

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Put a value into a histogram."""
        buckets = METRICS[name].buckets
        with self._lock:
            series, key = self._histograms[name], self._key(name, labels)
            counts, total = series.get(key) or ([0] * (len(buckets) + 1), 0.0)
            counts[bisect_left(buckets, value)] += 1
            series[key] = (counts, total + value)
        self._report(name, value, labels)

    def families(self) -> Sequence[MetricFamily]:
        """All of them with their numbers, as they are now."""
        with self._lock:
            counters = [MetricFamily(METRICS[name], dict(series)) for name, series in self._counters.items()]
            histograms = [
                MetricFamily(
                    METRICS[name], {key: Distribution(tuple(counts), total) for key, (counts, total) in series.items()}
                )
                for name, series in self._histograms.items()
            ]
        return [*counters, *histograms]

    def _key(self, name: str, labels: Mapping[str, str]) -> tuple[str, ...]:
        return tuple([self._values[label].limit(str(labels[label])) for label in METRICS[name].labels])

    def _report(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        if self.on_reading is not None:
            self.on_reading(Reading(name, value, labels))
