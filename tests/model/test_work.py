"""Which failed runs are the same work, and the names of those that are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mahavishnu.model.ids import MAX_TASK_ID_BYTES
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter_parts import Source, SourceKind
from mahavishnu.model.lifecycle import edit
from mahavishnu.model.work import as_other_work, as_sole_work, place_keys, places_of, same_letters, same_work
from tests.support.letters import NOON, captured

ONE, TWO, THREE = (Json.of({"n": n}) for n in (1, 2, 3))


@pytest.mark.parametrize(
    ("payload", "same"),
    [
        (Json.of({"n": 1, "to": {"a": [1], "b": None}}), True),
        (Json.of({"to": {"b": None, "a": [1]}, "n": 1}), True),
        (Json.from_parsed({"to": {"b": None, "a": [1]}, "n": 1}), True),
        (Json.of({"n": True, "to": {"a": [1], "b": None}}), False),
        (Json.of({"n": 1.0, "to": {"a": [1], "b": None}}), False),
        (Json.of({"n": 1, "to": {"a": [1]}}), False),
        (Json.of({"n": 1, "to": {"a": ["1"], "b": None}}), False),
    ],
    ids=repr,
)
def test_the_same_work_has_the_same_json_value_however_it_is_spelled(payload: Json, same: bool) -> None:
    letter = captured(payload=Json.of({"n": 1, "to": {"a": [1], "b": None}}))

    assert same_work(letter, payload) is same
    assert (letter.payload.digest == payload.digest) is same


def test_of_an_edited_letter_both_payloads_are_its_work() -> None:
    edited = edit(edit(captured(payload=ONE), now=NOON, payload=TWO), now=NOON, payload=THREE)

    assert [same_work(edited, payload) for payload in (ONE, TWO, THREE)] == [True, False, True]
    assert same_letters(edited, captured(payload=ONE)) and same_letters(captured(payload=THREE), edited)
    assert not same_letters(edited, edit(captured(payload=ONE), now=NOON, payload=TWO)), "two different edits"


def test_other_work_has_a_task_id_that_says_which_and_a_source_that_says_whose() -> None:
    letter = captured(task_id="nightly", payload=ONE, namespace="eu")
    other = as_other_work(letter)

    assert other.task_id == f"nightly@{ONE.digest}"
    assert (other.source, other.namespace) == (Source(id="nightly"), "eu")
    assert replace(other, task_id="nightly", source=letter.source) == letter
    assert as_other_work(edit(letter, now=NOON, payload=TWO)).task_id == other.task_id, "as it was captured"
    assert as_sole_work(letter).task_id == f"nightly@{letter.entry_id}"


@pytest.mark.parametrize("task_id", ["nightly", "a/b/c", "t" * (MAX_TASK_ID_BYTES - 30)])
@pytest.mark.parametrize("namespace", ["default", "eu"])
def test_the_keys_of_its_places_are_those_of_the_letters_there(task_id: str, namespace: str) -> None:
    letter = captured(task_id=task_id, payload=ONE, namespace=namespace)
    for each in (letter, as_other_work(letter), edit(letter, now=NOON, payload=TWO)):
        assert place_keys(each) == [place.key for place in places_of(each)]


def test_where_the_work_came_from_stays_known() -> None:
    item = Source(SourceKind.QUEUE_ITEM, "orders", "item/1")
    assert as_other_work(captured(source=item)).source == item


@pytest.mark.parametrize("name", ["x" * MAX_TASK_ID_BYTES, "é" * (MAX_TASK_ID_BYTES // 2), "a/b/c", "x@y", "@"])
def test_other_work_of_any_task_id_has_a_key(name: str) -> None:
    other = as_other_work(captured(task_id=name, payload=ONE))
    assert other.key != captured(task_id=name).key
    assert other.task_id.endswith(f"@{ONE.digest}")
