"""Letters that are made of what callers say about failures."""

from __future__ import annotations

from datetime import date
from enum import Enum
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import pytest

from mahavishnu.core.resilience import ErrorCategory
from mahavishnu.engine.letter_factory import LetterFactory
from mahavishnu.model.errors import InvalidInput, InvalidPayload, StoreUnavailable
from mahavishnu.model.events import EventName
from mahavishnu.model.letter_parts import MASK
from mahavishnu.stores.kinds import LETTERS
from tests.support.queues import House, fill, heard, letter_of, sound


async def test_the_first_four_arguments_are_enough(any_house: House) -> None:
    letter = await any_house.queue().enqueue("wf_1", {}, [], "boom")
    assert (letter.retry_policy, letter.max_retries, letter.retry_count) == ("exponential", 3, 0)
    assert (letter.status, letter.error_category, letter.reason) == ("pending", "permanent", "workflow_failed")
    assert (letter.occurrences, letter.generation, letter.priority) == (1, 1, 0)


@pytest.mark.parametrize("said", [ErrorCategory.RESOURCE, "resource"])
async def test_a_category_named_by_the_caller_counts(house: House, said: Any) -> None:
    letter = await house.queue().enqueue("wf_1", {}, [], ValueError("x"), error_category=said)
    assert (letter.error_category, letter.verdict.author) == ("resource", "caller")
    assert letter.failures[0].type == "ValueError"


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"task_id": ""}, "task_id"),
        ({"task_id": 7}, "task_id must be text"),
        ({"max_retries": -1}, "negative"),
        ({"max_retries": True}, "whole number"),
        ({"max_retries": 2.0}, "whole number"),
        ({"repos": "api"}, "repos of task 'wf_1' must be a list"),
        ({"repos": None}, "repos of task 'wf_1' must be a list"),
        ({"repos": [1]}, "repos of task 'wf_1' must be a list"),
        ({"retry_policy": "sometimes"}, "no retry policy 'sometimes'"),
        ({"error_category": "flaky"}, "flaky"),
        ({"reason": "because"}, "because"),
        ({"metadata": "blue"}, "metadata"),
        ({"metadata": ["ab"]}, "metadata"),
        ({"priority": "high"}, "priority"),
        ({"depends_on": "A"}, "depends_on"),
        ({"namespace": ""}, "namespace"),
        ({"task": {"a": [1, object()]}}, r"task\S*a\S*1"),
        ({"task": {"a": {1: 1, "1": 2}}}, r"task\S*a"),
    ],
)
async def test_an_invalid_request_is_refused_and_nothing_is_stored(
    house: House, wrong: dict[str, Any], match: str
) -> None:
    queue = house.queue()
    wanted = {"task_id": "wf_1", "task": {}, "repos": [], "error": "boom", **wrong}
    with pytest.raises(InvalidInput, match=match):
        await queue.enqueue(**wanted)
    assert await queue.list_tasks() == []
    await fill(queue, 1)  # and its place was given back


async def test_later_changes_of_the_caller_have_no_effect(house: House) -> None:
    task, repos, metadata = {"deep": {"list": [1]}}, ["api"], {"team": "blue"}
    queue = house.queue()
    letter = await queue.enqueue("wf_1", task, repos, "boom", metadata=metadata)
    task["deep"]["list"].append(2)
    repos.append("web")
    metadata["team"] = "red"
    letter.task["deep"] = None
    letter.metadata["team"] = "green"
    stored = await letter_of(queue, "wf_1")
    assert (stored.task, stored.repos, stored.metadata) == ({"deep": {"list": [1]}}, ("api",), {"team": "blue"})


async def test_plain_python_values_become_json(house: House) -> None:
    task = {
        "day": date(2026, 1, 2),
        "path": PurePosixPath("/a"),
        "id": UUID(int=1),
        "kind": ErrorCategory.NETWORK,
        1: "x",
    }
    letter = await house.queue().enqueue("wf_1", task, [PurePosixPath("/repo")], "boom")  # type: ignore[list-item]
    assert letter.task == {"day": "2026-01-02", "path": "/a", "id": str(UUID(int=1)), "kind": "network", "1": "x"}
    assert letter.repos == ("/repo",)


async def test_any_number_of_repos_with_any_names(any_house: House) -> None:
    queue = any_house.queue()
    many = [f"/répo/{number}/💥" for number in range(10_000)]
    await queue.enqueue("many", {}, many, "boom")
    await queue.enqueue("none", {}, [], "boom")
    assert list((await letter_of(queue, "many")).repos) == many
    assert (await letter_of(queue, "none")).repos == ()


async def test_the_same_task_in_two_namespaces_is_two_letters(any_house: House) -> None:
    queue = any_house.queue()
    await queue.enqueue("wf_1", {"n": 1}, [], "boom")
    await queue.enqueue("wf_1", {"n": 2}, [], "boom", namespace="other")
    await queue.enqueue("wf_1", {"n": 3}, [], "boom", queue="builds")
    assert [
        (await letter_of(queue, "wf_1", **at)).task["n"] for at in ({}, {"namespace": "other"}, {"queue": "builds"})
    ] == [1, 2, 3]
    await queue.archive_task("wf_1", namespace="other")
    assert [letter.task["n"] for letter in await queue.list_tasks()] in ([1, 3], [3, 1])


async def test_metadata_is_kept_found_and_may_say_the_priority(any_house: House) -> None:
    queue = any_house.queue()
    metadata = {
        "workflow_type": "code_sweep", "priority": "high", "business_unit": "payments",
        "slos": {"max_delay_minutes": 15}, "on_call_team": "platform-team",
    }  # fmt: skip
    await queue.enqueue("wf_1", {}, [], "boom", metadata=metadata)
    await queue.enqueue("wf_2", {}, [], "boom", metadata={"business_unit": "other", "priority": "LOW"})
    await queue.enqueue("wf_3", {}, [], "boom", metadata={"priority": "whatever"})
    assert (await letter_of(queue, "wf_1")).metadata == metadata
    for path, value in (("business_unit", "payments"), ("slos.max_delay_minutes", 15)):
        assert [letter.task_id for letter in await queue.list_tasks(metadata={path: value})] == ["wf_1"]
    priorities = [(await letter_of(queue, f"wf_{number}")).priority for number in (1, 2, 3)]
    assert priorities[0] > priorities[2] == 0 > priorities[1]


async def test_a_second_failure_of_an_open_task_is_merged(any_house: House) -> None:
    queue = any_house.queue()
    events = heard(queue)
    first = await queue.enqueue("wf_1", {"n": 1}, ["api"], "boom")
    any_house.clock.advance(30)
    await queue.enqueue("wf_1", {"n": 1}, ["web"], "bang")
    letter = await letter_of(queue, "wf_1")
    assert (letter.occurrences, letter.error, letter.last_error) == (2, "boom", "bang")
    kept = ("task", "failed_at", "retry_count", "next_retry_at", "entry_id")
    assert [getattr(letter, name) for name in kept] == [getattr(first, name) for name in kept]
    assert letter.repos == ("api", "web"), "what failed now is to be done too"
    lifetime = (await sound(queue))["lifetime_stats"]
    assert (lifetime["enqueued_total"], lifetime["deduplicated"]) == (1, 1)
    assert [event.name for event in events] == [EventName.CAPTURED, EventName.MERGED]


async def test_a_failure_of_a_closed_task_starts_the_next_generation(any_house: House) -> None:
    queue = any_house.queue()
    former = await queue.enqueue("wf_1", {"n": 1}, [], "boom")
    await queue.letters.resolve("wf_1")
    letter = await queue.enqueue("wf_1", {"n": 2}, [], "bang")
    assert (letter.generation, letter.previous_entry_id, letter.task) == (2, former.entry_id, {"n": 2})
    assert (letter.occurrences, letter.retry_count, letter.is_open) == (1, 0, True)
    stats = await sound(queue)
    assert (stats["queue_size"], stats["lifetime_stats"]["enqueued_total"]) == (1, 2)


async def test_a_payload_that_is_too_large_is_refused_and_texts_are_cut(any_house: House) -> None:
    queue = any_house.queue(letter_factory=LetterFactory(max_task_bytes=1000))
    with pytest.raises(InvalidPayload, match="dlq_max_task_bytes"):
        await queue.enqueue("wf_1", {"blob": "x" * 1000}, [], "boom")
    letter = await queue.enqueue("wf_1", {}, [], "boom " * 20_000_000)
    assert len(letter.error.encode()) <= 32 * 1024
    assert "the middle is cut" in letter.error
    with pytest.raises(InvalidPayload, match="dlq_max_task_bytes"):
        await queue.letters.edit("wf_1", task={"blob": "x" * 1000})


async def test_secrets_are_redacted_at_any_depth(house: House) -> None:
    queue = house.queue(letter_factory=LetterFactory(redact_keys=("*password*",)))
    task = {"user": "ann", "db": [{"DB_PASSWORD": "s3cret"}]}
    letter = await queue.enqueue("wf_1", task, [], "boom", metadata={"password": "s3cret"})
    assert (letter.task, letter.metadata) == ({"user": "ann", "db": [{"DB_PASSWORD": MASK}]}, {"password": MASK})
    assert task["db"] == [{"DB_PASSWORD": "s3cret"}]


class Field(str, Enum):  # noqa: UP042 - whose `str` is not its text
    LOGIN = "password"


class Access(Enum):
    SHOP = {"user": "ann", "password": "s3cret"}  # noqa: RUF012
    NONE = "none"


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ({Field.LOGIN: "s3cret"}, {"password": MASK}),
        ({"access": Access.SHOP}, {"access": {"user": "ann", "password": MASK}}),
        ({"accesses": {Access.SHOP}}, {"accesses": [{"user": "ann", "password": MASK}]}),
        (
            {"access": Access.NONE, "field": Field.LOGIN, "set": {2, 1}},
            {"access": "none", "field": "password", "set": [1, 2]},
        ),
    ],
    ids=str,
)
async def test_a_secret_is_redacted_however_it_becomes_json(house: House, value: Any, kept: Any) -> None:
    queue = house.queue(letter_factory=LetterFactory(redact_keys=("*password*",)))
    letter = await queue.enqueue("wf_1", value, [], "boom", metadata=value)
    assert letter.metadata == kept
    named = {"access": "SHOP"} if value.get("access") is Access.SHOP else {"accesses": ["SHOP"]}
    assert letter.task == (named if "s3cret" in str(value) and Field.LOGIN not in value else kept)


async def test_a_reserved_place_is_free_again_after_an_outage(any_house: House) -> None:
    queue = any_house.queue(max_size=1)
    with any_house.faults.unavailable("write", kind=LETTERS), pytest.raises(StoreUnavailable):
        await queue.enqueue("wf_1", {}, [], "boom")
    await queue.enqueue("wf_1", {}, [], "boom")
    assert (await sound(queue))["queue_size"] == 1


async def test_a_lost_answer_is_no_second_occurrence(any_house: House) -> None:
    queue = any_house.queue()
    any_house.faults.answer_lost("write", kind=LETTERS, times=1)
    with pytest.raises(StoreUnavailable) as lost:
        await queue.enqueue("wf_1", {}, [], "boom")
    assert lost.value.maybe_written
    assert (await letter_of(queue, "wf_1")).occurrences == 1
