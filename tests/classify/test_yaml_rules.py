"""Rules without code."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from time import process_time
from typing import Any

import httpx
import pytest
import redis.exceptions

from mahavishnu.classify.verdict import NO_CONTEXT, Verdict
from mahavishnu.classify.yaml_rules import YamlRules
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.letter_parts import ErrorCategory
from tests.support.real_exceptions import by_httpx, with_cause
from tests.support.yaml_bombs import bomb


def verdict(error: BaseException | str, *rules: dict[str, Any]) -> Verdict | None:
    return YamlRules.of(rules).classify_error(error, NO_CONTEXT)


def category(error: BaseException | str, **rule: Any) -> str | None:
    found = verdict(error, {"category": "resource", **rule})
    return found.category if found else None


def test_the_first_rule_that_matches_counts() -> None:
    rules: list[dict[str, Any]] = [
        {"text": "card", "status": 503, "category": "network"},
        {"text": "card declined", "category": "validation", "reason": "the customer has to act", "tags": ["payment"]},
        {"text": "card", "category": "transient"},
    ]
    found = verdict("Card  declined by the bank", *rules)
    assert found is not None
    assert (found.category, found.reason, found.tags) == ("validation", "rule 2: the customer has to act", ("payment",))
    assert verdict("nothing of the kind", *rules) is None


def test_a_verdict_has_the_advice_of_its_rule() -> None:
    advice = {"policy": "custom:slowly", "max_retries": 7, "retry_in_seconds": 90}
    found = verdict("odd", {"text": "odd", "category": "network", **advice})
    assert found is not None
    assert (found.policy, found.max_retries, found.retry_in) == ("custom:slowly", 7, timedelta(seconds=90))


def test_a_rule_for_an_adapter_is_for_no_other() -> None:
    rules = YamlRules.of([{"adapter": ["nightly", "hourly"], "category": "transient"}])
    found = [rules.classify_error("boom", replace(NO_CONTEXT, adapter=name)) for name in ("hourly", "other", None)]
    assert [each and each.category for each in found] == ["transient", None, None]


def test_a_runbook_is_shown_with_the_reason() -> None:
    rule = {"text": "odd", "category": "network", "runbook": "https://wiki.example/odd"}
    assert verdict("odd", rule) == Verdict(ErrorCategory.NETWORK, "rule 1 (runbook: https://wiki.example/odd)")
    found = verdict("odd", {**rule, "reason": "it is odd"})
    assert found is not None
    assert found.reason == "rule 1: it is odd (runbook: https://wiki.example/odd)"


@pytest.mark.parametrize(
    ("error", "rule", "matches"),
    [
        (ConnectionResetError(), {"exception": "ConnectionResetError"}, True),
        (ConnectionResetError(), {"exception": "builtins.OSError"}, True),
        (ConnectionResetError(), {"exception": "OSError", "match_subclasses": False}, False),
        (ConnectionResetError(), {"exception": ["ValueError", "ConnectionError"]}, True),
        (ConnectionResetError(), {"exception": "ResetError"}, False),
        (redis.exceptions.ReadOnlyError("x"), {"exception": "redis.exceptions.ReadOnlyError"}, True),
        (redis.exceptions.ReadOnlyError("x"), {"exception": "redis.ReadOnlyError"}, True),
        (redis.exceptions.ReadOnlyError("x"), {"exception": "redis.RedisError"}, True),
        (redis.exceptions.ReadOnlyError("x"), {"exception": "no.such.module.Error"}, False),
        (with_cause(RuntimeError("x"), TimeoutError()), {"exception": "TimeoutError"}, True),
        ("redis.exceptions.ReadOnlyError: x", {"exception": "redis.exceptions.ReadOnlyError"}, True),
        ("TimeoutError: x", {"exception": "TimeoutError"}, True),
        ("a TimeoutError: x", {"exception": "TimeoutError"}, False),
        ("the card was declined", {"text": "card was declined"}, True),
        ("the cards were declined", {"text": "card"}, False),
        ("CARD\nDECLINED", {"text": "card declined"}, True),
        ("api.example.com is away", {"text": "api.example.com"}, True),
        ("apiXexample.com is away", {"text": "api.example.com"}, False),
        ("E-1234: broken", {"text": r"^E-\d+"}, True),
        ("e-1234: broken", {"text": r"^E-\d+"}, True),
        ("see E-1234", {"text": r"^E-\d+"}, False),
        (with_cause(RuntimeError("x"), ValueError("card declined")), {"text": "card declined"}, True),
        (by_httpx(429), {"status": 429}, True),
        (by_httpx(429), {"status": [500, 429]}, True),
        (by_httpx(429), {"status": "4xx"}, True),
        (by_httpx(503), {"status": "4xx"}, False),
        ("HTTP 503", {"status": "5XX"}, True),
        ("503 rows", {"status": "5xx"}, False),
        (by_httpx(429), {"status": 429, "exception": "httpx.HTTPStatusError", "text": "rate"}, False),
        (by_httpx(429), {"status": 429, "exception": "httpx.HTTPError", "text": "too many requests"}, True),
    ],
)
def test_a_condition_matches(error: BaseException | str, rule: dict[str, Any], matches: bool) -> None:
    assert category(error, **rule) == ("resource" if matches else None)


def test_all_conditions_hold_of_the_same_error() -> None:
    error = with_cause(RuntimeError("card declined"), httpx.ReadTimeout("x"))
    assert category(error, text="card declined", exception="httpx.ReadTimeout") is None


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        ({"text": "x"}, "rule 2: category is missing"),
        ({"category": "network"}, "rule 2: it would match everything; give one of exception, text, status"),
        (
            {"text": "x", "category": "netwrok"},
            "rule 2, category: there is no error category 'netwrok'; did you mean 'network'",
        ),
        ({"text": "x", "category": 3}, "rule 2, category: there is no error category 3"),
        ({"txt": "x", "category": "network"}, "rule 2: unknown key 'txt'; did you mean 'text'"),
        ({"text": "x", "category": "network", 7: 8}, "rule 2: unknown key 7; there are exception, text"),
        ({"text": "(", "category": "network"}, "rule 2, text: '(' is no regular expression"),
        ({"text": 3, "category": "network"}, "rule 2, text: a text is expected, not 3"),
        ({"text": " ", "category": "network"}, "rule 2, text: a text is expected"),
        ({"status": 42, "category": "network"}, "rule 2, status: an HTTP status like 429"),
        ({"status": "6xx", "category": "network"}, "rule 2, status: an HTTP status like 429"),
        ({"status": True, "category": "network"}, "rule 2, status: an HTTP status like 429"),
        ({"exception": [], "category": "network"}, "rule 2, exception: a name or a list of names"),
        ({"exception": [3], "category": "network"}, "rule 2, exception: a name or a list of names"),
        ({"text": "x", "category": "network", "policy": "often"}, "rule 2, policy: there is no retry policy 'often'"),
        ({"text": "x", "category": "network", "max_retries": -1}, "rule 2, max_retries: a number from 0"),
        ({"text": "x", "category": "network", "retry_in_seconds": "1m"}, "rule 2, retry_in_seconds: a delay is"),
        ({"text": "x", "category": "network", "match_subclasses": "no"}, "rule 2, match_subclasses: true or false"),
        ("text", "rule 2: a rule is a mapping"),
    ],
)
def test_a_wrong_rule_is_named_with_its_number_and_key(rule: Any, complaint: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        YamlRules.of([{"text": "fine", "category": "network"}, rule])
    assert str(refused.value).startswith(f"classifier {complaint}")


def test_rules_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text("# ours\n- text: odd\n  category: resource\n  max_retries: 1\n")
    rules = YamlRules.of(path)
    assert rules.origin == str(path)
    assert rules.classify_error("odd", NO_CONTEXT) == Verdict("resource", "rule 1", max_retries=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("- text: [", "are no YAML, line 1: "),
        (bomb("rules"), "mean more than 100000 values, by their aliases"),
        ("- &a [*a]", "are nested too deeply, or contain themselves"),
        ("- text: x\n  category: nope\n", ": rule 1, category: there is no error category 'nope'"),
        ("text: x", ": a list of rules is expected"),
        ("", ": a list of rules is expected"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(text)
    with pytest.raises(InvalidInput) as refused:
        YamlRules.of(str(path))
    assert str(path) in str(refused.value) and complaint in str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read: No such file"):
        YamlRules.of(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    "text",
    [
        "(a+)+",
        "(a+)+b",
        "(a*)*b",
        "(?:x+y?)+",
        r"(\w+\s?)*$",
        r"^(\w+\s)*$",
        r"id=(?:\d+|[\d.]+)*:",
        "(a?b?)*c",
        "(a{1,3})+b",
        "(a{1,300}){1,300}b",
        "((?:a+){2})+b",
        "x(?=(a+)+b)",
        "(?>(a+)+b)c",
        "(?:b(a+?)+c)?",
        "(a|aa)+b",
        "(ab|a.)+c",
        "(?:b1|B1)+c",
    ],
)
def test_an_unbounded_repetition_of_what_matches_in_several_ways_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"^classifier rule 2, text: .* has an unbounded repetition") as refused:
        YamlRules.of([{"text": "busy", "category": "network"}, {"text": text, "category": "network"}])
    assert repr(text) in str(refused.value)
    assert "Remove one of the two repetitions, or make the inner one possessive" in str(refused.value)


# Without its last character, the text holds what the pattern repeats, but not what has to follow.
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(?:a++c)+b", "ac" * 4000 + "b"),
        ("(?>a+c)+b", "aac" * 2600 + "b"),
        ("(a|c)+b", "ac" * 4000 + "b"),
        ("(?:foo|bar)+!", "foobar" * 1300 + "!"),
        ("(a{3}c)+b", "aaac" * 2000 + "b"),
        (r"\b(?:\d{1,3}\.){3}\d{1,3}\b", "at " * 2600 + "10.0.0.1"),
        ("a+c?a*b", "a" * 7000 + "b"),
        ("(?=a+)(a)+b", "a" * 7000 + "b"),
        ("(a+){2}b", "a" * 7000 + "b"),
    ],
)
def test_another_repetition_is_accepted_and_answers_in_time(text: str, found: str) -> None:
    rules = YamlRules.of([{"text": text, "category": "network"}])
    start = process_time()
    verdict = rules.classify_error(found, NO_CONTEXT)
    assert verdict is not None and verdict.category == "network"
    assert rules.classify_error(found[:-1] + "(", NO_CONTEXT) is None
    assert process_time() - start < 10


def test_words_are_found_in_the_whole_text_however_many_blanks_are_between_them() -> None:
    assert category("x" * 3000 + " card   declined " + "x" * 3000, text="card declined") == "resource"


def test_of_a_long_text_a_pattern_with_unbounded_repetition_reads_less() -> None:
    inside, ends = "x" * 3000 + " odd 7 " + "x" * 5000, "odd 7 " + "x" * 8000
    assert category(inside, text=r"odd \d") == "resource"
    assert category(inside, text=r"odd.*\d") is None
    assert category(ends, text=r"odd.*\d") == "resource"
