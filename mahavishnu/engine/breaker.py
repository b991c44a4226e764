"""A circuit breaker for each adapter: a target that is down is not called, and the letters for it lose no budget."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec.structs import replace

from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.letter_parts import ErrorCategory
from mahavishnu.model.record import Value

# Failures of these kinds are the fault of the letter: they say nothing about the health of the target.
_JOBS_FAULT = frozenset({ErrorCategory.PERMISSION, ErrorCategory.VALIDATION})
MOST_CIRCUITS = 1000  # the one longest without a failure is forgotten first: tasks may name any adapter
MOST_LABELS, OTHER = 40, "other"  # each label is a time series that monitoring keeps


class CircuitState(StrEnum):
    """The position of a circuit: whether calls go through."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Circuit(Value, frozen=True):
    """One adapter's breaker; `opened_at` is on the monotonic clock."""

    failures: int = 0
    opened_at: float | None = None
    probe: str | None = None  # the token of the attempt that probes
    skipped: int = 0


class Breakers:
    """One circuit per adapter name, all with the same limits.

    `threshold` consecutive failures open a circuit for `cooloff_seconds`; then a single call probes: its success closes
    the circuit, its failure opens it again. Calls that began before are no probes, and may fail or be given up while
    one is under way; therefore each call names itself by a token, `who`.
    """

    def __init__(self, threshold: int = 5, cooloff_seconds: float = 60.0) -> None:
        if threshold < 1 or cooloff_seconds < 0:
            raise InvalidInput("a breaker needs a threshold of at least 1 and a cool-off of at least 0 seconds")
        self.threshold, self.cooloff_seconds = threshold, cooloff_seconds
        self.not_closed: frozenset[str] = frozenset()  # at most one letter of each, its probe, is worth a claim
        self._circuits: dict[str, Circuit] = {}
        self._labels: set[str] = set()

    def acquire(self, name: str, now: float, who: str = "") -> float | None:
        """Return None if a call may go through now, else the seconds to wait. A half-open circuit makes it the probe.

        A call that was let through has to be followed by `record_success`, `record_failure` or `release`.
        """
        circuit = self._circuits.get(name, Circuit())
        if circuit.opened_at is None:
            return None
        left = circuit.opened_at + self.cooloff_seconds - now
        if left > 0 or circuit.probe not in (None, who or None):
            self._circuits[name] = replace(circuit, skipped=circuit.skipped + 1)
            return max(left, 0.0)
        self._circuits[name] = replace(circuit, probe=who)
        return None

    def probes_wanted(self, now: float) -> frozenset[str]:
        """Return the circuits whose target may be probed now, while no call does."""
        waits = self._waits(now)
        return frozenset(name for name in waits if waits[name] <= 0 and self._circuits[name].probe is None)

    def next_probe(self, now: float) -> float | None:
        """Return the seconds until the first open circuit may be probed; None if none is open."""
        return min((wait for wait in self._waits(now).values() if wait > 0), default=None)

    def _waits(self, now: float) -> dict[str, float]:
        """Return the seconds of cool-off that each circuit has left."""
        opened = {name: self._circuits[name].opened_at for name in self.not_closed}
        return {name: at + self.cooloff_seconds - now for name, at in opened.items() if at is not None}

    def _note_opened(self) -> None:
        self.not_closed = frozenset(name for name, each in self._circuits.items() if each.opened_at is not None)

    def record_success(self, name: str) -> None:
        """Note that a call worked: the circuit is closed."""
        circuit = self._circuits.get(name)
        if circuit is not None:
            self._circuits[name] = Circuit(skipped=circuit.skipped)
            if name in self.not_closed:
                self._note_opened()

    def record_failure(self, name: str, category: str | None, now: float, who: str = "") -> None:
        """Note that a call failed. If that was the letter's own fault it counts as an answer: the target is alive."""
        circuit = self._circuits.pop(name, Circuit())
        after = self._circuits[name] = self._after_failure(circuit, category, now, who)
        if len(self._circuits) > MOST_CIRCUITS:
            del self._circuits[next(iter(self._circuits))]
        if self.not_closed or after.opened_at is not None:
            self._note_opened()

    def _after_failure(self, circuit: Circuit, category: str | None, now: float, who: str) -> Circuit:
        if category in _JOBS_FAULT:
            return circuit if circuit.probe is None else Circuit(skipped=circuit.skipped)
        failures = circuit.failures + 1
        if circuit.probe not in (None, who):  # the probe decides, not this call
            return replace(circuit, failures=failures)
        opens = circuit.probe is not None or failures >= self.threshold
        return replace(circuit, failures=failures, opened_at=now if opens else None, probe=None)

    def label(self, name: str) -> str:
        """Return the circuit's name for metrics: its own for the first `MOST_LABELS` that are asked for, else OTHER."""
        if len(self._labels) < MOST_LABELS:
            self._labels.add(name)
        return name if name in self._labels else OTHER

    def release(self, name: str, who: str = "") -> None:
        """Note that a call has no outcome; if it was the probe, another call may become it."""
        circuit = self._circuits.get(name)
        if circuit is not None and circuit.probe == who:
            self._circuits[name] = replace(circuit, probe=None)

    def state(self, name: str, now: float) -> CircuitState:
        """Return the position of the circuit now."""
        circuit = self._circuits.get(name, Circuit())
        if circuit.opened_at is None:
            return CircuitState.CLOSED
        return CircuitState.OPEN if now < circuit.opened_at + self.cooloff_seconds else CircuitState.HALF_OPEN

    def report(self, now: float) -> Mapping[str, dict[str, object]]:
        """Return every remembered circuit, for the statistics."""
        return {
            name: {"state": str(self.state(name, now)), "failures": circuit.failures, "skipped": circuit.skipped}
            for name, circuit in sorted(self._circuits.items())
        }
