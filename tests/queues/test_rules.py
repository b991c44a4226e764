"""What may be said of a named queue, and what its limits mean."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mahavishnu.model.clock import parse_duration
from mahavishnu.model.errors import InvalidInput, InvalidOption
from mahavishnu.queues import rules as queues
from mahavishnu.queues.rules import AttemptsRule, QueueDefinition, QueueKind, RetryRule

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def queue(name: str = "orders", **values: Any) -> QueueDefinition:
    return QueueDefinition(name, NOW, NOW, **values)


def options(**given: Any) -> QueueDefinition:
    return queues.set_options(queue(), given, NOW)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("30s", 30_000),
        ("5m", 300_000),
        ("1h", 3_600_000),
        ("0s", 0),
        ("500ms", 500),
        ("1d", 86_400_000),
        ("1h30m", 5_400_000),
        ("1m500ms", 60_500),
        ("90s", 90_000),
    ],
)
def test_a_length_of_time_is_read(text: str, milliseconds: int) -> None:
    assert parse_duration(text) == timedelta(milliseconds=milliseconds)


@pytest.mark.parametrize(
    "text", ["invalid", "", "-5s", "30", 30, None, True, "1.5s", "5m1h", "1h 30m", "٣s", "999999999d"]
)
def test_anything_else_is_no_length_of_time(text: Any) -> None:
    with pytest.raises(InvalidInput):
        parse_duration(text)


@pytest.mark.parametrize("cooldown", ["invalid", "", "-5s", "30"])
def test_a_wrong_cooldown_names_the_queue_and_the_value(cooldown: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        options(retry={"attempts": 3, "cooldown": cooldown})
    assert "'orders'" in str(refused.value)
    assert "cooldown" in str(refused.value)
    assert repr(cooldown) in str(refused.value)


@pytest.mark.parametrize("attempts", [-1, 1.5, True, "3", None])
def test_attempts_are_whole_numbers(attempts: Any) -> None:
    with pytest.raises(InvalidOption, match="'orders': retry: attempts"):
        options(retry={"attempts": attempts})


@pytest.mark.parametrize(
    ("given", "deadly"),
    [
        ({}, 1),
        ({"retry": RetryRule(0)}, 1),
        ({"retry": RetryRule(1)}, 1),
        ({"retry": RetryRule(3)}, 3),
        ({"max_attempts": 2}, 3),
        ({"max_attempts": 0}, 1),
        ({"max_attempts": 2, "attempts_rule": AttemptsRule.INCLUSIVE}, 2),
        ({"max_attempts": 2, "retry": RetryRule(5)}, 3),
        ({"max_attempts": 5, "retry": RetryRule(3)}, 3),
    ],
)
def test_the_limit_that_is_reached_first_counts(given: dict[str, Any], deadly: int) -> None:
    assert queue(**given).deadly_failure == deadly


@pytest.mark.parametrize("name", ["", " a", "a ", "a/b", "a:b", "a@b", "*", "x" * 101, "a\n", None, 3])
def test_what_a_queue_cannot_be_called(name: Any) -> None:
    with pytest.raises(InvalidOption):
        queues.require_queue_name(name, "default")


@pytest.mark.parametrize("name", ["a", "orders-dead", "x" * 100, "two words", "größe"])
def test_what_a_queue_can_be_called(name: str) -> None:
    assert queues.require_queue_name(name, "default") == name


def test_the_messages_about_dead_queues() -> None:
    def refusal(target: QueueDefinition | None, name: str = "B") -> str:
        with pytest.raises(InvalidOption) as refused:
            queues.require_dead_queue(queue("A", dead_queue=name), target)
        return str(refused.value)

    assert refusal(queue("A"), "A") == "dead_queue cannot reference itself"
    assert refusal(None) == "dead_queue 'B' does not exist; create it first"
    assert refusal(queue("B", dead_queue="C")) == "dead_queue 'B' cannot have its own dead_queue"
    assert refusal(queue("B", kind=QueueKind.EXTERNAL)).startswith("dead_queue 'B' is external")
    queues.require_dead_queue(queue("A", dead_queue="B"), queue("B"))
    with pytest.raises(InvalidOption, match=r"^dead_queue 'B' cannot have its own dead_queue$"):
        queues.refuse_as_source(queue("B"), ["A"])


def test_a_dead_queue_may_be_named_with_its_namespace() -> None:
    assert options(dead_queue=" default/dead ").dead_queue == "dead"
    assert options(dead_queue="").dead_queue is None
    with pytest.raises(InvalidOption, match="is named by"):
        options(dead_queue="other/dead")


@pytest.mark.parametrize("name", ["retry", "dead_queue", "max_attempts"])
def test_what_is_elsewhere_has_no_rules_here(name: str) -> None:
    value = {"retry": {"attempts": 1}, "dead_queue": "dead", "max_attempts": 1}[name]
    with pytest.raises(InvalidOption, match=f"queue 'orders' is external: {name}"):
        options(kind="external", **{name: value})


@pytest.mark.parametrize(
    "given",
    [
        {"kind": "x"},
        {"on_dead": "x"},
        {"attempts_rule": "x"},
        {"max_attempts": -1},
        {"max_attempts": True},
        {"expire_timeout": "0s"},
        {"lease_timeout": "2d"},
        {"lease_timeout": "0s"},
        {"retry": 3},
        {"retry": {"a": 1}},
        {"unknown": 1},
    ],
)
def test_options_are_checked(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption, match="'orders'"):
        options(**given)


def test_a_change_that_changes_nothing_is_none() -> None:
    asked = queue(max_attempts=2)
    assert queues.set_options(asked, {"max_attempts": 2}, NOW + timedelta(1)) is asked
    assert queues.set_options(asked, {"max_attempts": 3}, NOW + timedelta(1)).updated_at == NOW + timedelta(1)


def test_marks_of_those_who_name_it() -> None:
    target = queue("B")
    marked = queues.add_source(target, "A", NOW)
    assert (marked.sources, marked.sources_at) == (("A",), NOW)
    assert queues.add_source(marked, "A", NOW + timedelta(seconds=1)) is marked
    assert queues.marks_may_be_under_way(marked, NOW + timedelta(seconds=59))
    assert not queues.marks_may_be_under_way(marked, NOW + timedelta(seconds=60))
    assert not queues.marks_may_be_under_way(target, NOW)
    assert queues.drop_source(marked, "A").sources == ()
    assert queues.drop_source(marked, "X") is marked
    assert queues.add_source(replace(marked, sources=("A", "X")), "A", NOW + timedelta(hours=1)).sources == ("X", "A")
