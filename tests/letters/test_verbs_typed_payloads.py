"""Letters keep the types of their payload: through edits, failures that are merged, and by the values of a patch."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from mahavishnu.letters.verbs import Edit, apply_edit
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.json_value import EMPTY, Json
from mahavishnu.model.letter import DeadLetter, evolve
from mahavishnu.model.work import same_letters, same_work, with_types_of
from mahavishnu.values.typed_json import read, write_json
from tests.support.letters import NOON as NOW
from tests.support.letters import captured as letter
from tests.support.queues import House

TASK = {"amount": Decimal("12.50"), "days": [date(2026, 1, 1)], "note": "x"}


def typed(task: Any = TASK, **changes: Any) -> DeadLetter:
    payload, types = write_json(task)
    return letter(payload=payload, payload_types=types, **changes)


def task_of(kept: DeadLetter) -> Any:
    return read(kept.task, kept.payload_types.value)


@pytest.mark.parametrize(
    ("edit", "after"),
    [
        ({"patch": {"amount": "13.00"}}, {**TASK, "amount": Decimal("13.00")}),
        ({"patch": {"amount": 13}}, {**TASK, "amount": Decimal(13)}),
        ({"patch": {"amount": Decimal("1.10")}}, {**TASK, "amount": Decimal("1.10")}),
        ({"patch": {"amount": date(2026, 1, 2)}}, {**TASK, "amount": date(2026, 1, 2)}),
        ({"patch": {"days": ["2026-01-01", "2026-01-02"]}}, {**TASK, "days": [date(2026, 1, 1), date(2026, 1, 2)]}),
        ({"patch": {"note": (1, 2)}}, {**TASK, "note": (1, 2)}),
        ({"patch": {"amount": None}}, {"days": TASK["days"], "note": "x"}),
        ({"changes": {"task": {"amount": "2"}}}, {"amount": Decimal(2)}),
        ({"changes": {"task": (Decimal(2),)}}, (Decimal(2),)),
        ({"changes": {"task": {"amount": "2"}, "payload_types": {}}}, {"amount": "2"}),
        ({"changes": {"payload_types": {"/note": "path"}}}, None),
        ({"changes": {"priority": 3}}, TASK),
    ],
)
def test_an_edit_keeps_the_types(edit: dict[str, Any], after: Any) -> None:
    changed = apply_edit(typed(), Edit.of(edit.get("changes", {}), edit.get("patch")), NOW)
    if after is None:
        assert changed.payload_types.value == {"/note": "path"}
    else:
        assert task_of(changed) == after
        assert str(task_of(changed)) == str(after)


def test_an_edit_that_would_lose_a_type_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"`amount` is a Decimal: '12,50' is not one \(it is no decimal number"):
        apply_edit(typed(), Edit.of({}, {"amount": "12,50"}), NOW)
    with pytest.raises(InvalidInput, match="payload_types is an object of JSON pointers"):
        Edit.of({"payload_types": {"amount": "decimal"}})


def test_work_is_the_same_if_its_text_and_its_types_are() -> None:
    payload, types = write_json(TASK)
    assert same_work(typed(), payload, types)
    assert same_work(typed(), Json.of(payload.value), EMPTY)  # of an application that knows no types
    assert same_work(typed({**TASK, "note": "y"}, captured_digest=payload.digest), payload, types)
    assert not same_work(typed(), payload, Json.of({"/amount": "path"}))
    assert not same_letters(typed(), letter(payload=payload, payload_types=Json.of({"/amount": "path"})))


def test_a_letter_without_types_takes_those_of_the_next_failure_of_its_work() -> None:
    old = letter(payload=Json.of(TASK))
    assert task_of(with_types_of(old, typed())) == TASK
    edited = evolve(old, revision=1)
    assert with_types_of(edited, typed()) is edited
    assert with_types_of(typed(), letter(payload=Json.of(TASK))).payload_types.value
    assert with_types_of(old, typed({"other": (1,)})) is old


async def test_a_merged_failure_brings_types_that_the_letter_lacks(house: House) -> None:
    dlq = house.queue()
    await dlq.enqueue("wf_1", {"amount": "12.50"}, ["api"], "boom")
    merged = await dlq.enqueue("wf_1", {"amount": Decimal("12.50")}, ["api"], "boom")
    assert merged.occurrences == 2
    assert merged.payload_types.value == {"/amount": "decimal"}
    changed = await dlq.letters.edit("wf_1", patch={"amount": "13"})
    assert task_of(changed) == {"amount": Decimal(13)}
    with pytest.raises(InvalidInput, match="`amount` is a Decimal"):
        await dlq.letters.edit("wf_1", patch={"amount": "a lot"})
    seen = await dlq.letters.preview_edit("wf_1", patch={"amount": "a lot"})
    assert "`amount` is a Decimal" in (seen.refused or "")


@pytest.mark.parametrize(
    "values", [(Decimal(1), "1"), ("1", Decimal(1)), ((1,), [1]), ([1], (1,)), (date(2026, 1, 1), "2026-01-01")]
)
async def test_two_calls_of_one_key_with_equal_json_and_other_types_are_two_letters(
    any_house: House, values: tuple[Any, Any]
) -> None:
    app, ran = any_house.app(), list[Any]()

    @app.workflow(key="day", retry_policy="immediate")
    async def book(day: int, amount) -> None:  # type: ignore[no-untyped-def]
        ran.append(amount)
        if len(ran) <= 4:
            raise ConnectionError("refused")

    for amount in (*values, *values):
        with pytest.raises(ConnectionError):
            await book(7, amount)
    found = await app.dlq.list_tasks()
    assert sorted(each.occurrences for each in found) == [2, 2]
    ran[:] = [None] * 4
    await app.dlq.run_due()
    assert sorted(map(repr, ran[4:])) == sorted(map(repr, values))
