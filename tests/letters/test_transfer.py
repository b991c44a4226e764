"""Letters go out of one queue and into another as they are, once, and nothing that is no letter gets in."""

from __future__ import annotations

import asyncio
import contextlib
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue, DLQFullError
from mahavishnu.engine.audit import AUDIT
from mahavishnu.engine.context import QueueOptions
from mahavishnu.letters.transfer import Document, letter_as_line, parse_letter
from mahavishnu.model import lifecycle
from mahavishnu.model.clock import LAST_INSTANT
from mahavishnu.model.errors import (
    AlreadyResolved,
    IllegalMove,
    ImportStopped,
    InvalidInput,
    InvalidPayload,
    StoreUnavailable,
)
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter, evolve
from mahavishnu.model.query import Query
from mahavishnu.stores.base import get_one
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.kinds import HISTORY, LETTERS
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.testing import FaultyStore, ManualClock
from mahavishnu.testing.clock import START
from mahavishnu.testing.faults import Call
from mahavishnu.testing.letters import make_letter
from tests.support.queues import House, Runs, heard, letter_of, sound
from tests.support.store_strategies import letters


@pytest.fixture
def there(tmp_path: Path) -> House:
    """Another store, with a clock of its own."""
    (tmp_path / "there").mkdir()
    return House("sqlite", tmp_path / "there")


async def lines(dlq: DeadLetterQueue, **filters: Any) -> list[Any]:
    return [json.loads(line) async for line in dlq.transfer.export(**filters)]


def parsed(document: Document) -> DeadLetter | str:
    """The letter, or why there is none."""
    try:
        return parse_letter(document)
    except InvalidInput as refusal:
        return str(refusal)


def bare(letter: DeadLetter) -> DeadLetter:
    """Without the store's mark."""
    return evolve(letter, version=None)


@given(letters())
@example(make_letter())
def test_a_line_is_the_letter_or_it_is_refused_because_it_is_not_sound(letter: DeadLetter) -> None:
    line = letter_as_line(letter)
    document = json.loads(line)
    assert parsed(line) == parsed(document) == parsed(json.dumps(document, indent=1, ensure_ascii=False))
    if letter.lease is not None and not lifecycle.violations(letter):
        letter = lifecycle.release(letter, token=letter.lease.token, now=letter.updated_at)
    if broken := lifecycle.violations(letter):
        with pytest.raises(InvalidInput) as refused:
            parse_letter(document)
        assert all(promise in str(refused.value) for promise in broken)
    elif letter.is_deleted:
        with pytest.raises(InvalidInput, match="nothing to import"):
            parse_letter(document)
    elif any(type(value) is int and not 0 <= value < 2**31 for name, value in document.items() if name != "task"):
        with contextlib.suppress(InvalidInput):  # numbers that no letter comes to
            assert parse_letter(document) == bare(letter)
    else:
        assert parse_letter(document) == bare(letter)


# What may be done to a letter before it is exported, and with which settings it was made.
ACTS = st.sampled_from(["retry", "resolve", "fail", "cancel", "archive", "redrive", "requeue", "edit", "again"])
MADE = st.fixed_dictionaries(
    {
        "max_retries": st.integers(0, 3),
        "retry_policy": st.sampled_from(["immediate", "never", "linear"]),
        "priority": st.integers(-5, 5),
        "repos": st.lists(st.sampled_from(["api", "straße"]), max_size=2, unique=True),
        "metadata": st.dictionaries(st.sampled_from(["team", "a.b"]), st.text(max_size=5), max_size=2),
        "task": st.recursive(
            st.none() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3)
        ),
        "error": st.sampled_from(["connection refused", "disk full", "\ud800 who knows"]),
    }
)


async def done(dlq: DeadLetterQueue, act: str, made: dict[str, Any]) -> None:
    verbs: dict[str, Any] = {"retry": lambda task_id: dlq.retry_task(task_id, force=True)}
    verbs |= {"edit": lambda task_id: dlq.letters.edit(task_id, priority=7), "requeue": dlq.requeue_from_dlq}
    verbs |= {"again": lambda task_id: dlq.enqueue(**{**made, "task_id": task_id, "error": "reset"})}
    with contextlib.suppress(IllegalMove):
        await (verbs.get(act) or getattr(dlq.letters, act))("wf")


@given(MADE, st.lists(ACTS, max_size=6), st.booleans())
@settings(max_examples=50)
def test_a_letter_with_a_past_arrives_as_it_is(made: dict[str, Any], acts: list[str], succeeds: bool) -> None:
    async def moved() -> None:
        callback = Runs(None if succeeds else ConnectionError("refused"))
        async with DeadLetterQueue(options=QueueOptions(callback=callback)) as here, DeadLetterQueue() as there:
            await here.enqueue("wf", **made)
            for act in acts:
                await done(here, act, made)
            (document,) = [json.loads(line) async for line in here.transfer.export(Query())]
            assert await there.transfer.import_letter(document) == "new"
            assert await there.transfer.import_letter(document) == "same"
            assert bare(await letter_of(there, "wf")) == bare(await letter_of(here, "wf"))
            await sound(there)

    asyncio.run(moved())


async def test_only_what_is_asked_for_goes_out(house: House) -> None:
    here = house.queue()
    await here.enqueue("a", {}, [], "connection refused", queue="mail")
    await here.enqueue("b", {}, [], "connection refused")
    await here.enqueue("c", {}, [], "connection refused")
    await here.letters.resolve("c")
    assert {line["task_id"] for line in await lines(here)} == {"a", "b"}
    assert {line["task_id"] for line in await lines(here, queue="mail")} == {"a"}
    assert {line["task_id"] for line in await lines(here, status="completed")} == {"c"}


async def test_more_than_a_page_goes_out_once(house: House) -> None:
    here = house.queue()
    for number in range(1100):
        await here.context.letters.write([make_letter(task_id=f"wf_{number}", entry_id=f"e{number}")])
    assert len({line["task_id"] for line in await lines(here)}) == 1100


async def test_a_store_that_is_away_is_no_short_export(house: House) -> None:
    here = house.queue()
    await here.enqueue("wf", {}, [], "connection refused")
    with house.faults.unavailable("find"), pytest.raises(StoreUnavailable):
        await lines(here)


async def test_an_open_letter_of_the_same_task_becomes_one_with_it(house: House, there: House) -> None:
    here, other = house.queue(), there.queue()
    await here.enqueue("wf", {}, ["api"], "connection refused")
    await other.enqueue("wf", {}, ["web"], "disk full")
    (document,) = await lines(here)
    assert await other.transfer.import_letter(document) == "joined"
    assert await other.transfer.import_letter(document) == "same"
    letter = await letter_of(other, "wf")
    assert (letter.occurrences, letter.repos) == (2, ("web", "api"))
    stats = await sound(other)
    assert stats["queue_size"] == 1
    await there.close()


async def test_a_closed_letter_is_succeeded(house: House, there: House) -> None:
    here, other = house.queue(), there.queue()
    await here.enqueue("wf", {"n": 2}, [], "connection refused")
    old = await other.enqueue("wf", {"n": 1}, [], "connection refused")
    await other.letters.resolve("wf")
    (document,) = await lines(here)
    assert await other.transfer.import_letter(document) == "succeeded"
    assert await other.transfer.import_letter(document) == "same"
    letter = await letter_of(other, "wf")
    assert (letter.task, letter.generation, letter.is_open) == ({"n": 2}, 2, True)
    former = await get_one(other.store.collection(HISTORY), old.entry_id)
    assert former is not None and former.task == {"n": 1}
    await sound(other)
    await there.close()


async def test_what_was_here_in_a_former_life_is_the_same(house: House) -> None:
    dlq = house.queue()
    await dlq.enqueue("wf", {}, [], "connection refused")
    (document,) = await lines(dlq)
    await dlq.letters.resolve("wf")
    await dlq.enqueue("wf", {}, [], "disk full")
    await dlq.letters.resolve("wf")
    assert await dlq.transfer.import_letter(document) == "same"
    assert not (await letter_of(dlq, "wf")).is_open
    await sound(dlq)


async def test_a_letter_that_was_being_run_comes_as_it_was_before(house: House, there: House) -> None:
    here, other = house.queue(), there.queue()
    await here.enqueue("wf", {}, [], "connection refused", "immediate")
    before = await letter_of(here, "wf")
    assert await here.claims.claim("w")
    (document,) = await lines(here)
    assert (document["status"], document.get("lease")) == ("pending", None), "nobody else gets a right to settle it"
    await other.transfer.import_letter(document)
    letter = await letter_of(other, "wf")
    assert (letter.status, letter.lease, letter.total_attempts) == ("pending", None, before.total_attempts)
    assert await other.claims.claim("w"), "it can be run there"
    await sound(other)
    await there.close()


async def test_a_letter_that_was_being_run_stays_deleted(house: House) -> None:
    dlq = house.queue()
    await dlq.enqueue("wf", {}, [], "connection refused", "immediate")
    assert await dlq.claims.claim("w")
    (document,) = await lines(dlq)
    assert await dlq.clear_all() == 1
    with pytest.raises(AlreadyResolved, match="deleted"):
        await dlq.transfer.import_letter(document)
    assert await dlq.get_task("wf") is None
    await sound(dlq)


@pytest.mark.parametrize("source", [{"source_queue": "sweep"}, {"task": {"adapter": "sweep"}}])
def test_a_line_of_a_development_version_without_adapters_is_run_by_the_workflow_it_names(source: Any) -> None:
    document = {**json.loads(letter_as_line(make_letter())), **source, "schema": 1}
    del document["adapter"]
    assert parse_letter(document).adapter == "sweep"
    assert parse_letter(json.dumps(document)).adapter == "sweep"


async def test_a_full_queue_takes_no_open_letter_but_every_closed_one(house: House, there: House) -> None:
    here, other = house.queue(), there.queue(max_size=1)
    await here.enqueue("open", {}, [], "connection refused")
    await here.enqueue("closed", {}, [], "connection refused")
    await here.letters.resolve("closed")
    await other.enqueue("there", {}, [], "connection refused")
    documents = {line["task_id"]: line for line in await lines(here) + await lines(here, status="completed")}
    with pytest.raises(DLQFullError):
        await other.transfer.import_letter(documents["open"])
    assert await other.transfer.import_letter(documents["closed"]) == "new"
    await other.letters.resolve("there")
    assert await other.transfer.import_letter(documents["open"]) == "new"
    assert (await sound(other))["queue_size"] == 1
    await there.close()


async def test_a_refusal_leaves_the_room_as_it_was(house: House) -> None:
    dlq = house.queue(max_size=1)
    document = json.loads(letter_as_line(make_letter()))
    with house.faults.unavailable("write"), pytest.raises(StoreUnavailable):
        await dlq.transfer.import_letter(document)
    assert await dlq.transfer.import_letter(document) == "new"


LEASE = {"owner": "w", "token": "t", "manual": False, "prior_due": "2026-01-01T00:00:00Z"}
RUN = {"status": "retrying", "due_at": "2026-01-01T00:00:00Z", "total_attempts": 1}
REQUEUE = {"at": "2026-01-01T00:00:00Z", "by": "ann", "outcome": "failed"}
DATES = [
    "failed_at", "created_at", "updated_at", "last_retry_at", "exhausted_at", "completed_at", "archived_at",
]  # fmt: skip
JUNK = [
    ("text", "this is not JSON"),
    ('"text"', "a letter is a JSON object"),
    ({}, "no 'task_id'"),
    ({"schema": 99}, "newer version"),
    ({"task_id": ""}, "must not be empty"),
    ({"entry_id": ""}, "no entry_id"),
    ({"entry_id": "e" * 600}, "no entry_id"),
    ({"entry_id": "a\ud800"}, "no entry_id"),
    ({"task_id": "a\ud800"}, "surrogate"),
    ({"task_id": "t" * 9000}, "8191"),
    ({"total_attempts": 9 * 10**18}, "total_attempts"),
    ({"tally_deduplicated": 2**31}, "tally_deduplicated"),
    ({"tally_deduplicated": -1}, "tally_deduplicated"),
    ({"priority": -(2**31)}, "priority"),
    ({"revision": 100_001}, "revision .* goes from 0 to 100000"),
    ({"requeue": {**REQUEUE, "automatic": 2**31}}, "requeue.automatic"),
    ({"requeue": {**REQUEUE, "at": "2027-01-01T00:00:00Z"}}, "requeue.at .* has not come yet"),
    *(({name: "9999-12-31T23:59:59.999Z"}, f"{name} .* has not come yet") for name in DATES),
    ({"failures": [{"at": "2026-01-03T00:00:00Z", "message": ""}]}, r"failures\[0\].at .* has not come yet"),
    ({"namespace": "a/b"}, "namespace"),
    ({"payload_types": {"amount": "decimal"}}, "payload_types is an object of JSON pointers and kinds"),
    ({"payload_types": {"/amount": 7}}, "payload_types is an object of JSON pointers and kinds"),
    ({"status": "lost"}, "lost"),
    ({"status": "completed"}, "must be resolved"),
    ({"created_at": "yesterday"}, "yesterday"),
    ({"priority": "high"}, "priority: Expected `int`, got `str`"),
    ({"schema": "1"}, "schema: Expected `int`, got `str`"),
    ({"failures": [5]}, "no exported letter"),
    ({"repos": "api"}, "repos: Expected `array"),
    ({"occurrences": 0}, "count from 1"),
    ({"lease": {"owner": "w"}}, "no exported letter"),
    *(({**RUN, "lease": {**LEASE, "prior": prior}}, "not sound") for prior in ("archived", "completed", "retrying")),
    ({**RUN, "lease": {**LEASE, "prior": "pending"}, "retry_count": 1}, "not sound"),
]


@pytest.mark.parametrize(("junk", "said"), JUNK, ids=str)
async def test_junk_is_refused_with_a_reason(house: House, junk: Any, said: str) -> None:
    dlq = house.queue()
    document = {**json.loads(letter_as_line(make_letter())), **junk} if junk and isinstance(junk, dict) else junk
    with pytest.raises(InvalidInput, match=said):
        await dlq.transfer.import_letter(document)
    assert (await sound(dlq))["queue_size"] == 0


async def test_a_clock_that_is_a_day_ahead_and_a_retry_in_years_are_no_reason_to_refuse(house: House) -> None:
    dlq = house.queue()
    day = START + timedelta(days=1)
    letter = make_letter(task_id="wf", failed_at=day, created_at=day, updated_at=day, due_at=LAST_INSTANT)
    assert await dlq.transfer.import_letter(json.loads(letter_as_line(letter))) == "new"
    assert (await letter_of(dlq, "wf")).due_at == LAST_INSTANT


async def test_nobody_is_named_in_a_letter_as_if_they_had_done_it_here(house: House, there: House) -> None:
    here, other = house.queue(), there.queue()
    await here.enqueue("wf", {}, [], "connection refused")
    await here.requeue_from_dlq("wf", resolved_by="olga")
    await here.letters.resolve("wf", by="ada")
    (document,) = await lines(here, status="completed")
    for by, resolved, requeued in (
        ("olga", "ada (imported by olga)", "olga"),
        ("vic", "ada (imported by vic)", "olga (imported by vic)"),
        ("api_user", "ada", "olga"),  # nobody in particular
    ):
        await other.transfer.import_letter({**document, "task_id": by, "entry_id": by}, by=by)
        letter = await letter_of(other, by)
        assert letter.requeue is not None
        assert (letter.resolution.by, letter.requeue.by) == (resolved, requeued)
    (line,) = await lines(other, status="completed", task_id="vic")
    await house.queue().transfer.import_letter({**line, "task_id": "again", "entry_id": "again"}, by="eve")
    assert (await letter_of(here, "again")).resolution.by == "ada (imported by eve)"
    await there.close()


async def test_a_letter_that_cannot_be_handled_does_not_stop_an_import(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reconcile(theirs: DeadLetter, *_: object, even_deleted: bool) -> None:
        raise OverflowError("date value out of range")

    dlq = house.queue()
    await dlq.enqueue("b", make_letter().task, [], "connection refused")
    monkeypatch.setattr("mahavishnu.engine.recorder.reconcile_letters", reconcile)
    documents = [json.loads(letter_as_line(make_letter(task_id=name, entry_id=name))) for name in "abc"]
    result = await dlq.transfer.import_letters(documents)
    assert result.taken == {"a": "new", "c": "new"}
    assert {name: str(why) for name, why in result.refused.items()} == {
        "b": "letter 'b' cannot be handled: OverflowError: date value out of range"
    }


async def test_what_a_store_could_not_keep_is_refused(house: House) -> None:
    dlq = house.queue()
    whole = json.loads(letter_as_line(make_letter()))
    deep: Any = []
    for _ in range(500):
        deep = [deep]
    for bad in ({"task": deep}, {"task": float("nan")}, {"metadata": {"n": float("inf")}}, {"task": "x" * 2_000_000}):
        with pytest.raises(InvalidPayload):
            await dlq.transfer.import_letter({**whole, **bad})


async def test_lines_that_are_no_letters_do_not_stop_those_that_are(house: House) -> None:
    dlq = house.queue()
    whole = json.loads(letter_as_line(make_letter()))
    names: dict[str, dict[str, Any]] = {
        "a": {},
        "b": {"task": float("nan")},
        "c": {"task": "\ud800"},
        "d": {"error": "\ud800"},
        "e": {},
    }
    lines = [json.dumps({**whole, "task_id": name, "entry_id": name, **more}) for name, more in names.items()]
    spaced = json.dumps({**whole, "task_id": "f", "entry_id": "f", "task": {"a": "é", "b": [1]}}, ensure_ascii=False)
    result = await dlq.transfer.import_letters([lines[0], "{", *lines[1:], "[" * 10_000, spaced, '{"task": 1e999}'])
    assert result.taken == dict.fromkeys("acdef", "new")
    assert [f"{name}: {str(why).partition(': ')[0]}" for name, why in result.refused.items()] == [
        "1: this is not JSON",
        "b: task is nan, which JSON has no number for",
        "6: letter is nested deeper than 200",
        "8: task is inf, which JSON has no number for",
    ]
    assert (await letter_of(dlq, "f")).payload.text == '{"a":"\\u00e9","b":[1]}'
    assert (await letter_of(dlq, "c")).task == "\ud800"


async def test_each_refused_document_is_counted_also_those_of_one_name(house: House) -> None:
    dlq = house.queue()
    sound = json.loads(letter_as_line(make_letter(task_id="a", entry_id="e")))
    odd = {**sound, "retry_count": -1}
    result = await dlq.transfer.import_letters([odd, sound, odd, "{", "{", {"entry_id": "3"}])
    assert result.taken == {"e": "new"}
    assert list(result.refused) == ["e", "e at 2", "3", "4", "3 at 5"]
    await dlq.clear_all()
    result = await dlq.transfer.import_letters([sound, sound])
    assert (list(result.taken), list(result.refused)) == ([], ["e", "e at 1"])


async def test_it_is_told(house: House) -> None:
    dlq = house.queue()
    events = heard(dlq)
    document = json.loads(letter_as_line(make_letter(task_id="wf")))
    await dlq.transfer.import_letter(document, by="ann")
    await dlq.transfer.import_letter(document, by="ann")
    assert [(event.name, event.letter and event.letter.task_id, event.detail) for event in events] == [
        ("dlq.captured", "wf", {"by": "ann", "imported": True})
    ]


async def test_who_takes_letters_in_is_on_record(house: House) -> None:
    dlq = house.queue()
    document = json.loads(letter_as_line(make_letter(task_id="wf")))
    result = await dlq.transfer.import_letters([document, {"junk": True}], by="ann", notes="from the old machine")
    assert list(result.taken.values()) == ["new"] and len(result.refused) == 1
    (entry,) = (await dlq.audit.list(action="import")).items
    assert (entry.actor, entry.reason, entry.outcome) == ("ann", "from the old machine", "done")
    assert entry.changes.value["taken"] == {"after": 1} and entry.changes.value["refused"] == {"after": 1}


async def test_what_would_change_a_letter_that_is_being_run_is_refused_and_not_lost(house: House) -> None:
    dlq = house.queue()
    await dlq.enqueue("wf", {}, [], "connection refused", "immediate")
    await dlq.claims.claim("w")
    captured = Json.of({}).digest
    edited = make_letter(task_id="wf", revision=1, task={"fixed": True}, captured_digest=captured)
    with pytest.raises(IllegalMove, match="that is over"):
        await dlq.transfer.import_letter(json.loads(letter_as_line(edited)))
    house.clock.advance(minutes=60)  # nobody takes the letter from the run that died
    assert await dlq.transfer.import_letter(json.loads(letter_as_line(edited))) == "joined"
    letter = await dlq.get_task("wf")
    assert letter is not None
    assert (letter.status, letter.task, letter.tallies.claims_recovered) == ("pending", {"fixed": True}, 1)


async def test_an_imported_letter_of_other_work_gets_an_id_of_its_own_once(house: House) -> None:
    dlq = house.queue()
    await dlq.enqueue("wf", {"n": 1}, [], "connection refused")
    document = json.loads(letter_as_line(make_letter(task_id="wf", task={"n": 2})))
    answers = [await dlq.transfer.import_letter(document)]
    await dlq.letters.resolve("wf")
    answers.append(await dlq.transfer.import_letter(document))
    assert answers == ["new", "same"]
    other = await letter_of(dlq, f"wf@{Json.of({'n': 2}).digest}")
    assert (other.entry_id, other.source.id, other.task) == (document["entry_id"], "wf", {"n": 2})
    assert await dlq.transfer.import_letter(json.loads(letter_as_line(other))) == "same"


@pytest.mark.parametrize("fault", ["unavailable", "answer_lost", "request_lost"])
async def test_an_import_into_a_store_that_stops_answering_says_how_much_is_in_and_leaves_nothing_behind(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mahavishnu.letters.transfer._AT_ONCE", 2)
    documents = [letter_as_line(make_letter(task_id=f"t{n}", entry_id=f"e{n}")) for n in range(6)]
    home, local = FaultyStore(MemoryStore()), MemoryStore()
    clock = ManualClock()
    writes = 0

    async def break_second(call: Call) -> None:
        nonlocal writes
        writes += 1
        if writes == 2:
            getattr(home.faults, fault)(kind=LETTERS)

    async with DeadLetterQueue(store=FallbackStore(home, local, kinds=KINDS, clock=clock), clock=clock) as dlq:
        await clock.sleeping()
        home.faults.before("write", break_second, kind=LETTERS)
        with pytest.raises(ImportStopped) as stopped:
            await dlq.transfer.import_letters(documents)
        home.faults.clear()
        assert (stopped.value.taken, stopped.value.letters) == ({"new": 2}, 6)
        assert stopped.value.maybe_written is (fault != "unavailable")
        assert (await dlq.health()).waiting == 0
        await dlq.transfer.import_letters(documents)
        assert {letter.task_id for letter in await dlq.list_tasks()} == {f"t{n}" for n in range(6)}
        with home.faults.unavailable(kind=AUDIT), pytest.raises(ImportStopped):
            await dlq.transfer.import_letters(documents[:1])
        assert (await dlq.health()).waiting == 0  # nor its entry in the audit
        outage = home.faults.unavailable()
        with pytest.raises(StoreUnavailable):
            await dlq.get_task("t0")  # the outage is known from here on
        with pytest.raises(ImportStopped, match=r"0 of 1 letters are in\. Import the same again"):
            await dlq.transfer.import_letters(documents[:1])
        outage.stop()
        assert (await dlq.health()).waiting == 0
