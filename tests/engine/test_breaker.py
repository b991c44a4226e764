"""The circuit breaker: which calls go through to a target that fails."""

from __future__ import annotations

import pytest

from mahavishnu.engine.breaker import Breakers, CircuitState
from mahavishnu.model.errors import InvalidInput


def opened(**limits: float) -> Breakers:
    breakers = Breakers(**limits)  # type: ignore[arg-type]
    for _ in range(breakers.threshold):
        assert breakers.acquire("x", 0.0) is None
        breakers.record_failure("x", "network", 0.0)
    return breakers


def test_a_circuit_opens_after_consecutive_failures() -> None:
    breakers = Breakers(threshold=3)
    for _ in range(2):
        breakers.record_failure("x", "network", 0.0)
    breakers.record_success("x")
    for _ in range(2):
        breakers.record_failure("x", "network", 0.0)
    assert breakers.state("x", 0.0) is CircuitState.CLOSED
    breakers.record_failure("x", "network", 0.0)
    assert breakers.state("x", 0.0) is CircuitState.OPEN
    assert breakers.acquire("x", 10.0) == 50.0
    assert breakers.acquire("y", 10.0) is None


def test_half_open_lets_exactly_one_probe_through() -> None:
    breakers = opened()
    assert breakers.state("x", 60.0) is CircuitState.HALF_OPEN
    assert [breakers.acquire("x", 60.0) for _ in range(100)].count(None) == 1


def test_a_successful_probe_closes_the_circuit() -> None:
    breakers = opened()
    assert breakers.acquire("x", 60.0) is None
    breakers.record_success("x")
    assert all(breakers.acquire("x", 61.0) is None for _ in range(10))


def test_a_failed_probe_opens_the_circuit_again() -> None:
    breakers = opened()
    assert breakers.acquire("x", 60.0) is None
    breakers.record_failure("x", "network", 60.0)
    assert breakers.acquire("x", 100.0) == 20.0


def test_a_released_probe_lets_another_call_probe() -> None:
    breakers = opened()
    assert breakers.acquire("x", 60.0) is None
    breakers.release("x")
    assert breakers.acquire("x", 60.0) is None


@pytest.mark.parametrize("end", ["failed", "abandoned"])
def test_the_end_of_an_older_call_lets_no_second_probe_through(end: str) -> None:
    breakers = opened()
    assert breakers.acquire("x", 60.0, "probe") is None
    if end == "failed":
        breakers.record_failure("x", "network", 61.0, "older")
    else:
        breakers.release("x", "older")
    assert breakers.acquire("x", 200.0, "another") is not None
    breakers.release("x", "probe")
    assert breakers.acquire("x", 200.0, "another") is None


@pytest.mark.parametrize("category", ["permission", "validation"])
def test_faults_of_the_letter_do_not_count(category: str) -> None:
    breakers = Breakers()
    for _ in range(50):
        breakers.record_failure("x", category, 0.0)
    assert breakers.state("x", 0.0) is CircuitState.CLOSED
    half_open = opened()
    assert half_open.acquire("x", 60.0) is None
    half_open.record_failure("x", category, 60.0)  # the target answered
    assert half_open.state("x", 60.0) is CircuitState.CLOSED


def test_skipped_calls_are_reported() -> None:
    breakers = opened()
    breakers.acquire("x", 1.0)
    assert breakers.report(1.0) == {"x": {"state": "open", "failures": 5, "skipped": 1}}


def test_impossible_limits_are_refused() -> None:
    with pytest.raises(InvalidInput):
        Breakers(threshold=0)
    with pytest.raises(InvalidInput):
        Breakers(cooloff_seconds=-1)
