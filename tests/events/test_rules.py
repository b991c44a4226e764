"""Which events are published after which outcome, and which stored ones are still kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from mahavishnu.events.rules import (
    EventRules,
    Outcome,
    is_met,
    matches,
    removable_number,
    require_consumer,
    require_event_name,
    require_member,
)
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.events import DeliveryMode, DomainEvent, PublicationCondition

NOW = datetime(2026, 6, 1, tzinfo=UTC)
TABLE = {  # success, retryable failure, permanent failure
    "success": (True, False, False),
    "failure": (False, True, True),
    "retryable_failure": (False, True, False),
    "permanent_failure": (False, False, True),
    "always": (True, True, True),
}


@pytest.mark.parametrize("condition", PublicationCondition)
@pytest.mark.parametrize("outcome", Outcome)
def test_the_truth_table(condition: PublicationCondition, outcome: Outcome) -> None:
    assert is_met(condition, outcome) is TABLE[condition][list(Outcome).index(outcome)]


@pytest.mark.parametrize("condition", PublicationCondition)
def test_without_an_outcome_only_always_is_met(condition: PublicationCondition) -> None:
    assert is_met(condition, None) is (condition == "always")


def event(number: int, days: float) -> DomainEvent:
    return DomainEvent(f"e-{number}", "order.paid", NOW - timedelta(days=days), number=number)


@pytest.mark.parametrize(
    ("ages", "acknowledged", "rules", "expected"),
    [
        ([], None, EventRules(), None),
        ([31, 30, 29.9], None, EventRules(), 2),  # nobody has come for them: so long and no longer
        ([8, 8, 8], 2, EventRules(), 2),  # what all have acknowledged goes earlier
        ([8, 8], None, EventRules(), None),
        ([6.9], 1, EventRules(), None),
        ([1, 40], 2, EventRules(), None),  # the oldest first, by number: no gap in what is read
        ([400], 1, EventRules(acknowledged_days=None, durable_days=None), None),
        ([8], 1, EventRules(durable_days=None), 1),
        ([0], 1, EventRules(acknowledged_days=0), 1),
    ],
)
def test_what_is_no_longer_kept(
    ages: list[float], acknowledged: int | None, rules: EventRules, expected: int | None
) -> None:
    events = [event(number, days) for number, days in enumerate(ages, 1)]
    assert removable_number(events, acknowledged, rules, NOW) == expected


@pytest.mark.parametrize("value", [-1, True, 1.5, "7"])
def test_days_that_are_none_are_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match="durable_days must be a whole number from 0"):
        EventRules(durable_days=value)  # type: ignore[arg-type]


def test_a_secret_is_in_no_text() -> None:
    assert "hunter2" not in repr(EventRules(webhook_secret="hunter2"))


@pytest.mark.parametrize(
    ("require", "given", "message"),
    [
        (require_event_name, "", "the name of an event has 1 to 200"),
        (require_event_name, "x" * 201, "the name of an event"),
        (require_event_name, "*", "the name of an event"),
        (require_event_name, 7, "the name of an event"),
        (require_consumer, "*removed", "the name of a consumer"),
        (require_consumer, "a/b", "the name of a consumer"),
        (
            partial(require_member, DeliveryMode, what="delivery mode"),
            "slow",
            "there is no delivery mode 'slow'; there are fast, durable, broadcast",
        ),
        (
            partial(require_member, PublicationCondition, what="publication condition"),
            "never",
            "there is no publication condition 'never'; there are success, failure,",
        ),
        (partial(require_member, Outcome, what="outcome"), "so-so", "there is no outcome 'so-so'; there are success,"),
    ],
)
def test_what_cannot_be_is_refused(require: object, given: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message.replace("*", r"\*")):
        require(given)  # type: ignore[operator]


def test_patterns() -> None:
    assert matches("dlq.exhausted", ["dlq.*"])
    assert not matches("DLQ.exhausted", ["dlq.*"])
    assert not matches("dlq.exhausted", [])
