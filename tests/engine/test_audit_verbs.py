"""What each verb of a person leaves in the audit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mahavishnu.classify.chain import Chain
from mahavishnu.classify.plugins import Plugins
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.engine.letter_factory import LetterFactory
from mahavishnu.model.errors import AlreadyResolved, InvalidInput, NoSuchLetter, StoreUnavailable
from mahavishnu.model.events import AuditEntry
from mahavishnu.stores.kinds import LETTERS
from tests.support.queues import NETWORK, House, Runs, fill, letter_of


async def entries(queue: DeadLetterQueue) -> list[AuditEntry]:
    """Oldest first."""
    return list(reversed((await queue.audit.list()).items))


Act = Callable[[DeadLetterQueue], Awaitable[Any]]
ANN: dict[str, Any] = {"by": "ann", "notes": "because"}
ONE: dict[str, tuple[Act, tuple[str, str]]] = {
    "archive": (lambda queue: queue.archive_task("wf_00000", **ANN), ("exhausted", "archived")),
    "resurrect": (lambda queue: queue.letters.resurrect("wf_00000", **ANN), ("exhausted", "pending")),
    "resolve": (lambda queue: queue.letters.resolve("wf_00000", **ANN), ("exhausted", "completed")),
    "cancel": (lambda queue: queue.letters.cancel("wf_00000", **ANN), ("exhausted", "archived")),
    "retry": (lambda queue: queue.retry_task("wf_00000", **ANN), ("exhausted", "completed")),
}


@pytest.mark.parametrize("action", ONE)
async def test_a_verb_on_one_letter(any_house: House, action: str) -> None:
    act, (before, after) = ONE[action]
    queue = any_house.queue(Runs())
    await fill(queue, 1, max_retries=0)
    await act(queue)
    (entry,) = await entries(queue)
    assert (entry.action, entry.subject, entry.actor, entry.reason) == (action, "letter:wf_00000", "ann", "because")
    assert (entry.outcome, entry.why) == ("done", None)
    assert entry.changes.value["status"] == {"before": before, "after": after}


async def test_giving_up_and_editing(any_house: House) -> None:
    queue = any_house.queue()
    await fill(queue, 1)
    await queue.letters.edit("wf_00000", patch={"name": "other"}, **ANN)
    await queue.letters.fail("wf_00000", **ANN)
    edit, fail = await entries(queue)
    assert (edit.action, edit.changes.value) == (
        "edit",
        {"task/name": {"before": "wf_00000", "after": "other"}, "revision": {"before": 0, "after": 1}},
    )
    assert fail.action == "fail"
    assert fail.changes.value["resolution_status"] == {"before": "pending", "after": "permanently_failed"}


async def test_secrets_are_not_told(house: House) -> None:
    queue = house.queue(letter_factory=LetterFactory(redact_keys=("*token*",)))
    await queue.enqueue("wf_00000", {"api_token": "s3cret", "to": {"url": "a"}}, [], NETWORK, metadata={"team": "red"})
    await queue.letters.edit("wf_00000", patch={"api_token": "s3cret"}, metadata={"token": "s3cret"}, **ANN)
    patch = {"more": [{"my_token": "s3cret"}], "to": {"a/token": "s3cret", "url": "b"}}
    await queue.letters.edit("wf_00000", patch=patch, create=True, **ANN)
    await queue.runs.start("redrive", everything=True, by="ann", patch={"api_token": "s3cret", "n": 1}, create=True)
    first, second, run = await entries(queue)
    assert "s3cret" not in "".join(entry.changes.text for entry in (first, second, run))
    assert first.changes.value["task/api_token"] == {"before": "***", "after": "***"}
    assert second.changes.value["task/more"] == {"after": [{"my_token": "***"}]}
    assert second.changes.value["task/to/url"] == {"before": "a", "after": "b"}
    assert run.changes.value["patch"] == {"after": {"api_token": "***", "n": 1}}
    assert (await letter_of(queue, "wf_00000")).task["api_token"] == "s3cret", "it has to be run"


async def test_refusals(any_house: House) -> None:
    queue = any_house.queue()
    await fill(queue, 1)
    assert await queue.archive_task("wf_00000")
    assert not await queue.archive_task("wf_00000")
    assert not await queue.archive_task("unknown")
    with pytest.raises(AlreadyResolved) as raised:
        await queue.letters.resolve("wf_00000")
    with pytest.raises(NoSuchLetter):
        await queue.letters.cancel("unknown")
    answer = await queue.retry_task("unknown")
    _, *refused = await entries(queue)
    assert [entry.action for entry in refused] == ["archive", "archive", "resolve", "cancel", "retry"]
    assert {entry.outcome for entry in refused} == {"refused"}
    assert [entry.why for entry in refused] == [
        "letter 'wf_00000' is archived: cannot archive it",
        "there is no letter 'unknown'",
        str(raised.value),
        "there is no letter 'unknown'",
        answer["error"],
    ]


async def test_a_run_by_hand_that_fails_was_done(any_house: House) -> None:
    queue = any_house.queue(Runs(OSError("still broken")))
    await fill(queue, 1)
    assert not (await queue.retry_task("wf_00000"))["success"]
    (entry,) = await entries(queue)
    assert entry.outcome == "done"
    assert entry.changes.value["last_error"]["after"] == "still broken"
    assert entry.changes.value["total_attempts"] == {"before": 0, "after": 1}


async def test_bulk_verbs_are_one_entry_with_their_counts(any_house: House) -> None:
    queue = any_house.queue()
    await fill(queue, 5)
    await queue.archive_task("wf_00004")
    await queue.letters.retry_many(status="pending", dry_run=True)
    await queue.letters.retry_many(status="pending", cap=3, **ANN)
    await queue.letters.resolve_many(everything=True, **ANN)
    _, some, rest = await entries(queue)
    assert (some.action, some.subject, some.actor, some.reason) == ("redrive", "queue", "ann", "because")
    told = {name: change["after"] for name, change in some.changes.value.items()}
    assert told["query"] == [{"is": {"field": "status", "values": ["pending"]}}]
    assert (told["moved"], told["refused"], told["left"], told["cap"], len(told["letters"])) == (3, 0, True, 3, 3)
    told = {name: change["after"] for name, change in rest.changes.value.items()}
    assert (rest.action, told["moved"], told["refused"]) == ("resolve", 4, 1)


async def test_a_bulk_verb_that_was_not_meant(any_house: House) -> None:
    queue = any_house.queue()
    await fill(queue, 1)
    with pytest.raises(InvalidInput):
        await queue.letters.cancel_many()
    (entry,) = await entries(queue)
    assert (entry.action, entry.outcome) == ("cancel", "refused")


async def test_clearing(any_house: House) -> None:
    queue = any_house.queue()
    await fill(queue, 3)
    await queue.clear_all(**ANN)
    (entry,) = await entries(queue)
    assert (entry.action, entry.subject, entry.reason) == ("clear", "queue", "because")
    assert entry.changes.value == {"cleared": {"after": 3}}


async def test_reclassifying_is_audited_once_it_is_meant(any_house: House) -> None:
    queue = any_house.queue()
    await fill(queue, 2)
    plugins = Plugins()
    plugins.register(lambda error: "permanent", "all-lost")
    queue.context.chain = Chain(plugins)
    await queue.letters.reclassify()
    assert await entries(queue) == []
    await queue.letters.reclassify(dry_run=False)
    (entry,) = await entries(queue)
    assert (entry.action, entry.actor) == ("reclassify", "reclassify")
    assert entry.changes.value["moved"] == {"after": 2}


async def test_an_act_in_an_outage_is_neither_done_nor_refused(any_house: House) -> None:
    queue = any_house.queue()
    await fill(queue, 1)
    any_house.faults.unavailable("write", kind=LETTERS)
    with pytest.raises(StoreUnavailable):
        await queue.letters.resolve("wf_00000")
    any_house.faults.clear()
    assert [entry.outcome for entry in await entries(queue)] == ["asked"]


async def test_what_the_processor_does_is_no_act_of_a_person(any_house: House) -> None:
    queue = any_house.queue(Runs(OSError("no"), None))
    await fill(queue, 2)
    assert await queue.run_due() == 2
    assert (await letter_of(queue, "wf_00001")).total_attempts == 1
    assert await entries(queue) == []
