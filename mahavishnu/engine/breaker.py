"""A circuit breaker for each adapter: a target that is down is not called, and the letters for it lose no budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.letter import ErrorCategory

# These are the job's own fault: they say nothing about the health of the target.
_JOBS_FAULT = frozenset({ErrorCategory.PERMISSION, ErrorCategory.VALIDATION})


class Position(StrEnum):
    """Whether calls go through."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@dataclass(frozen=True, slots=True)
class Circuit:
    """The state of one breaker; `opened_at` is on the monotonic clock."""

    failures: int = 0
    opened_at: float | None = None
    probing: bool = False
    skipped: int = 0


class Breakers:
    """One circuit per adapter name, all with the same limits.

    `threshold` consecutive failures open a circuit for `cooloff_seconds`; then a single call probes: its success closes
    the circuit, its failure opens it again.
    """

    def __init__(self, threshold: int = 5, cooloff_seconds: float = 60.0) -> None:
        if threshold < 1 or cooloff_seconds < 0:
            raise InvalidInput("a breaker needs a threshold of at least 1 and a cool-off of at least 0 seconds")
        self.threshold, self.cooloff_seconds = threshold, cooloff_seconds
        self._circuits: dict[str, Circuit] = {}

    def wait(self, name: str, now: float) -> float | None:
        """None if a call may go through now, else the seconds to wait. A half-open circuit takes the call as its probe.

        Whoever was let through has to report `succeeded`, `failed` or `abandoned`.
        """
        circuit = self._circuits.get(name, Circuit())
        if circuit.opened_at is None:
            return None
        left = circuit.opened_at + self.cooloff_seconds - now
        if left > 0 or circuit.probing:
            self._circuits[name] = replace(circuit, skipped=circuit.skipped + 1)
            return max(left, 0.0)
        self._circuits[name] = replace(circuit, probing=True)
        return None

    def succeeded(self, name: str) -> None:
        """A call worked: the circuit is closed."""
        circuit = self._circuits.get(name)
        if circuit is not None:
            self._circuits[name] = Circuit(skipped=circuit.skipped)

    def failed(self, name: str, category: str | None, now: float) -> None:
        """A call failed. A failure that is the job's own fault counts as an answer: the target is alive."""
        circuit = self._circuits.get(name, Circuit())
        if category in _JOBS_FAULT:
            self._circuits[name] = Circuit(skipped=circuit.skipped) if circuit.probing else circuit
            return
        failures = circuit.failures + 1
        opens = circuit.probing or failures >= self.threshold
        self._circuits[name] = replace(circuit, failures=failures, opened_at=now if opens else None, probing=False)

    def abandoned(self, name: str) -> None:
        """A call that was let through did not come to an end; another one may probe."""
        if circuit := self._circuits.get(name):
            self._circuits[name] = replace(circuit, probing=False)

    def position(self, name: str, now: float) -> Position:
        """How the circuit stands."""
        circuit = self._circuits.get(name, Circuit())
        if circuit.opened_at is None:
            return Position.CLOSED
        return Position.OPEN if now < circuit.opened_at + self.cooloff_seconds else Position.HALF_OPEN

    def report(self, now: float) -> Mapping[str, dict[str, object]]:
        """Every circuit that was ever used, for statistics."""
        return {
            name: {"state": str(self.position(name, now)), "failures": circuit.failures, "skipped": circuit.skipped}
            for name, circuit in sorted(self._circuits.items())
        }
