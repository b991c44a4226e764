"""What letters have in common, and what one lacks: pure rules on facts."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mahavishnu.letters.commonalities import DIFFERS, ENOUGH, Facts, facts_of, find_commonalities, find_contrasts
from mahavishnu.model.json_value import Json
from mahavishnu.testing import make_letter


def nothing_hidden(key: str) -> bool:
    return False


def facts(task: Any, **fields: Any) -> Facts:
    return facts_of(make_letter(task=task, **fields), nothing_hidden)


def said(letters: list[Facts], others: list[Facts]) -> list[tuple[str, str, Any, int, int]]:
    return [
        (each.kind, each.name, each.value, each.letters, each.others) for each in find_commonalities(letters, others)
    ]


def test_a_value_that_only_these_letters_have() -> None:
    letters = [facts({"currency": "EURO", "id": number, "country": "DE"}) for number in range(20)]
    others = [
        facts({"currency": ["EUR", "USD"][number % 2], "id": 100 + number, "country": "DE"}) for number in range(20)
    ]
    assert said(letters, others) == [("value", "task.currency", "EURO", 20, 0)]
    (found,) = find_commonalities(letters, others)
    assert found.query == "task.currency:EURO"


def test_what_is_missing_and_what_is_there() -> None:
    letters = [facts({"coupon": f"c{number}", "order": {"n": number}}) for number in range(10)]
    others = [facts({"order": {"n": number, "address": f"street {number}"}}) for number in range(10)]
    assert said(letters, others) == [
        ("missing", "task.order.address", None, 10, 0),
        ("present", "task.coupon", None, 10, 0),
    ]


def test_one_line_for_a_name_whose_only_value_says_it() -> None:
    letters, others = [facts({"coupon": "X"}) for _ in range(5)], [facts({"a": 1}) for _ in range(5)]
    assert [each[:3] for each in said(letters, others)] == [("value", "task.coupon", "X"), ("missing", "task.a", None)]


def test_fields_besides_the_task() -> None:
    letters = [facts({}, repos=("api",), metadata={"team": "web"}) for _ in range(6)]
    others = [facts({}, repos=("shop",), metadata={"team": "ops"}) for _ in range(6)]
    found = {each.name: each.query for each in find_commonalities(letters, others)}
    assert found == {"metadata.team": "metadata.team:web", "repo": "repo:api"}


def test_few_letters_say_little() -> None:
    assert said([facts({"a": 1})], [facts({"a": 2})] * 9) == []
    assert said([facts({"a": 1})] * 9, []) == []
    assert said([facts({"a": 1})] * 2, [facts({"a": 2})]) == []
    assert said([facts({"a": 1})] * 3, [facts({"a": 2})] * 3) == [("value", "task.a", 1, 3, 0)]


def test_values_and_types_are_kept_apart() -> None:
    letters, others = [facts({"n": 1}) for _ in range(5)], [facts({"n": "1"}) for _ in range(5)]
    assert said(letters, others) == [("value", "task.n", 1, 5, 0)]


def test_nothing_that_is_hidden_masked_lost_or_encrypted_is_shown() -> None:
    task = {
        "api_token": "s3cret",
        "user": {"password": "***", "name": "Jo", "card": f"$encrypted:1:k1:{'0' * 32}:AAAA"},
        "socket": "<socket>",
        "list": [{"api_token": "x"}],
    }
    types = Json.of({"/socket": "lost:socket", "/user/card": "encrypted"})
    letter = make_letter(task=task, payload_types=types, metadata={"api_token": "s3cret"})
    found = facts_of(letter, lambda key: "token" in key)
    assert {pair for pair in found.values if pair[0].startswith(("task", "metadata"))} == {("task.user.name", '"Jo"')}
    assert {name for name in found.names if name.startswith(("task", "metadata"))} == {
        "task.user.name", "task.user.password", "task.user.card", "task.socket",
    }  # fmt: skip
    others = [facts({"socket": 1, "user": {"password": "a", "name": "Jo", "card": "4"}})] * 9
    assert not [each for each in find_commonalities([found] * 9, others) if each.kind != "value"], "they are there"


def test_large_tasks_are_not_looked_into_and_that_is_said() -> None:
    large, many = facts({"text": "x" * 70_000}), facts({f"k{number}": number for number in range(600)})
    assert not large.is_whole
    assert not many.is_whole
    assert not {name for name in large.names if name.startswith("task")}
    assert said([large] * 9, [facts({"a": 1}) for _ in range(9)]) == [], "what was not looked at is not missing"
    assert find_contrasts(large, [facts({"a": 1})] * 9) == ()


def test_what_letters_that_succeeded_have_and_it_lacks() -> None:
    succeeded = [facts({"currency": "EUR" if number else "USD", "id": number, "to": "jo"}) for number in range(20)]
    missing, other = find_contrasts(facts({"currency": "EURO", "id": 99}), succeeded)
    assert (missing.name, missing.is_missing, missing.usual) == ("task.to", True, (("jo", 20),))
    assert (other.name, other.value, other.usual) == ("task.currency", "EURO", (("EUR", 19), ("USD", 1)))
    assert find_contrasts(facts({"currency": "USD", "id": 99, "to": "jo"}), succeeded) == ()


values = st.sampled_from([1, 2, "a", "b", True, None, ["a", 2], {"c": 1}])
tasks = st.dictionaries(st.sampled_from(["a", "b", "c.d"]), values, max_size=3)


@settings(max_examples=60)
@given(st.lists(tasks, max_size=8), st.lists(tasks, max_size=8))
def test_the_numbers_are_those_of_the_letters(mine: list[Any], theirs: list[Any]) -> None:
    letters, others = [facts(task) for task in mine], [facts(task) for task in theirs]
    found = find_commonalities(letters, others)
    for each in found:

        def has(one: Facts, each: Any = each) -> bool:
            if each.kind == "value":
                return any(
                    name == each.name and value == Json.of({"v": each.value}).text[5:-1] for name, value in one.values
                )
            return bool((each.name in one.names) == (each.kind == "present"))

        assert (sum(map(has, letters)), sum(map(has, others))) == (each.letters, each.others)
        assert each.letters >= ENOUGH * len(letters)
        assert each.letters / len(letters) - each.others / len(others) >= DIFFERS
    assert find_commonalities(letters[::-1], others[::-1]) == found, "whatever the order"
    assert find_commonalities(letters, letters) == ()
