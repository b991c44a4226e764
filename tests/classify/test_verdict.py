"""Verdicts: what they accept, and the table from category to policy."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mahavishnu.classify.verdict import POLICY_OF, RETRYABLE, Verdict
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.letter_parts import ErrorCategory, RetryPolicy


def test_the_documented_tables() -> None:
    assert {str(category): str(policy) for category, policy in POLICY_OF.items()} == {
        "transient": "exponential",
        "network": "exponential",
        "resource": "linear",
        "permission": "never",
        "validation": "never",
        "permanent": "never",
    }
    assert {ErrorCategory.TRANSIENT, ErrorCategory.NETWORK, ErrorCategory.RESOURCE} == RETRYABLE


def test_names_and_numbers_become_their_values() -> None:
    verdict = Verdict("network", retry_in=90, policy="linear", tags=["a", "b"])  # type: ignore[arg-type]
    assert verdict.category is ErrorCategory.NETWORK
    assert verdict.retry_in == timedelta(seconds=90)
    assert verdict.policy is RetryPolicy.LINEAR
    assert verdict.tags == ("a", "b")
    assert Verdict(ErrorCategory.NETWORK, policy="custom:fibonacci").policy == "custom:fibonacci"
    assert Verdict(ErrorCategory.NETWORK, retry_in=timedelta(days=30)).retry_in == timedelta(days=7)


@pytest.mark.parametrize(
    "wrong",
    [
        {"category": "flaky"},
        {"category": None},
        {"category": []},
        {"policy": "sometimes"},
        {"policy": "custom:"},
        {"policy": 3},
        {"max_retries": -1},
        {"max_retries": True},
        {"max_retries": 1.5},
        {"retry_in": -1},
        {"retry_in": "1 minute"},
        {"retry_in": float("nan")},
        {"retry_in": True},
        {"tags": "ab"},
        {"tags": (1,)},
    ],
)
def test_nonsense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Verdict(**{"category": ErrorCategory.NETWORK, **wrong})
