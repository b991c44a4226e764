"""What is kept of a record is what was written, and a durable store still has it when it is opened again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from datetime import timedelta
from typing import Any

from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter, FormerLetter
from mahavishnu.model.letter_parts import (
    Counted,
    DeadLetterStatus,
    Failure,
    Lease,
    RecordedVerdict,
    Requeue,
    RequeueOutcome,
    Resolution,
    ResolutionStatus,
    RetryPolicy,
    Source,
    SourceKind,
    Tallies,
)
from mahavishnu.model.query import Between, Is, Missing, Query, Sort, letter_query
from mahavishnu.stores.base import Collection, Result, Store
from mahavishnu.stores.kind import LONGEST_TERM
from mahavishnu.stores.kinds import HISTORY, LETTERS
from mahavishnu.testing.clock import START
from mahavishnu.testing.contract.base import (
    ANYTHING,
    HUGE,
    OBJECTS,
    PARCELS,
    PATIENCE_SECONDS,
    ContractTests,
    Parcel,
    Sample,
    all_stored,
    current,
    everything,
    full_tally,
    keys,
    names_of,
    put,
    put_one,
    strictly,
    without_version,
)
from mahavishnu.testing.letters import make_failure, make_letter

LAST_MOMENT = START + timedelta(milliseconds=999)


def full_letter(shelf: str) -> DeadLetter:
    """A letter whose every field says something."""
    return make_letter(
        task_id="full",
        namespace=shelf,
        queue="mail",
        entry_id=f"{shelf}:full",
        task={"type": "code_sweep", "deep": [{"er": None}]},
        metadata={"tenant": "acme", "tags": ["a", "b"], "size": {"kb": 12}},
        repos=("api", "web"),
        more_repos=("docs",),
        error="Größter Fehler: 😀 \ud800",
        last_error="a later one",
        failed_at=START - timedelta(milliseconds=1),
        created_at=LAST_MOMENT,
        updated_at=START + timedelta(days=365 * 50),
        status=DeadLetterStatus.RETRYING,
        resolution=Resolution(ResolutionStatus.CANCELLED, START, "ann", "not needed"),
        retry_policy="custom:weekly",
        retry_count=2,
        max_retries=7,
        total_attempts=9,
        due_at=START + timedelta(days=1, milliseconds=1),
        lease=Lease("worker-7", "t0k3n", DeadLetterStatus.EXHAUSTED, LAST_MOMENT, manual=True, failed_again=True),
        recoveries=1,
        last_retry_at=START + timedelta(seconds=3),
        failures=(
            Failure(START, "first"),
            make_failure(
                "second",
                traceback="Traceback …\n  line 1",
                processor="worker-1",
                duration_seconds=0.1 + 0.2,
                retry_in_seconds=1.5,
            ),
        ),
        error_category="network",
        verdict=RecordedVerdict("the host did not answer", "builtin:network"),
        fingerprint="f1a9",
        reason="expired",
        source=Source(SourceKind.QUEUE_ITEM, "orders", "item/1", "leased"),
        priority=-3,
        depends_on=("other", "ones"),
        generation=4,
        previous_entry_id="0198",
        absorbed=("0197", "0198"),
        merged=("0199",),
        dlq_retry_count=2,
        requeue=Requeue(START, "bob", 10, "once more", RequeueOutcome.FAILED, automatic=1),
        runs=("run-1", "run-2"),
        run_outcomes=("failed_again run-1", "open run-2"),
        revision=3,
        captured_digest="6ad41e29f5c1",
        captured_task=Json.of(["as it came", None, "\ud800"]),
        adapter="größer/😀",
        tags=("eu", "ü\ud800"),
        payload_types=Json.of({"/deep/0/er": "decimal", "/ü": "tuple"}),
        policy_by_verdict=True,
        former_fingerprints=("v1:1", "v1:2"),
        grouped_at=START + timedelta(seconds=8),
        settled="failed token-1",
        typed=True,
        unfit="currency is no parameter of invoice(amount)",
        occurrences=5,
        tallies=Tallies(*range(1, len(fields(Tallies)) + 1)),
        exhausted_at=START + timedelta(seconds=4),
        completed_at=START + timedelta(seconds=5),
        archived_at=START + timedelta(seconds=6),
        expires_at=START + timedelta(seconds=7),
        bound_for="dead-orders",
        counted=Counted("2026-11 2026-11-19T00:00:00.000Z", 3, 1, "v1:1"),
    )


class FidelityContract(ContractTests):
    """Contents are kept exactly."""

    async def test_every_field_of_a_letter(self, store: Store, shelf: str) -> None:
        letter = full_letter(shelf)
        silent = [f.name for f in fields(letter) if f.default is not MISSING and getattr(letter, f.name) == f.default]
        assert silent == ["version"], "this test has to give the other fields a value of their own"
        both: list[tuple[Collection[Any], DeadLetter]] = [
            (store.collection(LETTERS), letter),
            (store.collection(HISTORY), FormerLetter.of(letter)),
        ]
        for collection, record in both:
            stored = await put_one(collection, record)
            assert stored == record
            found = await current(collection, record.key)
            assert found == record
            assert type(found) is type(record)
            assert found.created_at.utcoffset() == timedelta(0)
            (listed,) = await everything(collection, Query((Is("namespace", (shelf,)),)))
            assert listed == record
            assert listed.version == stored.version

    async def test_a_letter_that_says_as_little_as_possible(self, store: Store, shelf: str) -> None:
        letter = DeadLetter(
            task_id="bare", entry_id=shelf, error="", last_error="", failed_at=START, created_at=START,
            updated_at=START, namespace=shelf, retry_policy=RetryPolicy.NEVER,
        )  # fmt: skip
        collection = store.collection(LETTERS)
        await put_one(collection, letter)
        assert await current(collection, letter.key) == letter
        assert await everything(collection, Query((Is("namespace", (shelf,)),))) == [letter]

    async def test_letters_of_every_status(self, store: Store, shelf: str) -> None:
        collection = store.collection(LETTERS)
        given = [make_letter(task_id=status, namespace=shelf, status=status) for status in DeadLetterStatus]
        await put(collection, given)
        assert await collection.get(keys(given)) == given
        for letter in given:
            assert await everything(collection, letter_query(namespace=shelf, status=letter.status)) == [letter]

    async def test_a_letter_through_its_life(self, store: Store, shelf: str) -> None:
        """What a field held before is gone when it is emptied."""
        collection = store.collection(LETTERS)
        letter = await put_one(collection, full_letter(shelf))
        empty = replace(
            make_letter(task_id="full", namespace=shelf, queue="mail", status="completed"), version=letter.version
        )
        await put_one(collection, empty)
        assert await current(collection, letter.key) == empty
        emptied = (
            "due_at",
            "fingerprint",
            "depends_on",
            "repos",
            "metadata",
            "source_id",
            "claim_owner",
            "last_retry_at",
        )
        for name in emptied:
            assert await everything(collection, Query((Is("namespace", (shelf,)), Missing(name)))) == [empty]

    async def test_tasks_of_any_shape(self, store: Store, shelf: str) -> None:
        statuses = list(DeadLetterStatus)
        given = {
            f"{name} ({status})": make_letter(task_id=f"{number}-{status}", namespace=shelf, status=status, task=task)
            for number, (name, task) in enumerate(ANYTHING.items())
            for status in (statuses if len(str(task)) < 1000 else statuses[:1])
        }
        await self._check_kept(store, given)

    async def test_metadata_of_any_shape(self, store: Store, shelf: str) -> None:
        given = {
            name: make_letter(task_id=str(number), namespace=shelf, metadata=labels)
            for number, (name, labels) in enumerate(OBJECTS.items())
        }
        await self._check_kept(store, given)

    async def test_a_megabyte(self, store: Store, shelf: str) -> None:
        given = {
            f"{name} in {place}": make_letter(task_id=f"{place} {name}", namespace=shelf, **{place: value})
            for name, value in HUGE.items()
            for place in ("task", "metadata")
        }
        given["error"] = make_letter(task_id="error", namespace=shelf, error="word " * 200_000, last_error="x" * 10**6)
        given["traceback"] = make_letter(
            task_id="traceback", namespace=shelf, failures=(make_failure(traceback="line\n" * 200_000),)
        )
        await self._check_kept(store, given)

    async def test_metadata_that_changes_its_shape(self, store: Store, shelf: str) -> None:
        collection = store.collection(LETTERS)
        letter = await put_one(collection, make_letter(namespace=shelf, metadata={"old": {"er": 1}}))
        for labels in OBJECTS.values():
            letter = await put_one(collection, replace(letter, labels=Json.of(labels), payload=Json.of(labels)))
            found = await current(collection, letter.key)
            assert strictly(found.metadata) == strictly(found.task) == strictly(labels)

    async def test_parcels_of_any_shape(self, store: Store, shelf: str) -> None:
        collection = store.collection(PARCELS)
        given = [
            Parcel(
                key=f"{shelf}:{number}",
                shelf=shelf,
                name=name,
                labels=Json.of(value),
                contents=Json.of([value]),
                tags=("", "a", "a", "ä", "A"),
                sent_at=LAST_MOMENT,
                note=name,
                colour="",
                weight=-(2**53),
            )
            for number, (name, value) in enumerate(OBJECTS.items())
        ]
        await put(collection, given)
        found = all_stored(await collection.get(keys(given)))
        assert [record.name for record, kept in zip(given, found, strict=True) if record != kept] == []
        assert strictly([record.contents.value for record in found]) == strictly(
            [[value] for value in OBJECTS.values()]
        )

    async def test_texts_too_long_to_be_found_are_kept(self, store: Store, shelf: str) -> None:
        collection = store.collection(PARCELS)
        longest, longer, wide = "x" * LONGEST_TERM, "x" * (LONGEST_TERM + 1), "😀" * LONGEST_TERM
        texts = {"a": longest, "b": longer, "c": wide, "d": "ä" * 40_000}
        given = [
            Parcel(key=f"{shelf}:{name}", shelf=shelf, name=name, colour=text, tags=("short", text))
            for name, text in texts.items()
        ]
        await put(collection, given)
        assert await collection.get(keys(given)) == given
        for name, text in texts.items():
            findable = name if len(text) <= LONGEST_TERM else ""
            assert await names_of(store, shelf, Is("colour", (text,))) == findable
            assert await names_of(store, shelf, Is("tags", (text,))) == findable
        assert await names_of(store, shelf, Missing("colour")) == "bd"
        assert await names_of(store, shelf, Is("tags", ("short",))) == "abcd"
        tally = await collection.tally(Query((Is("shelf", (shelf,)),)), ["colour"])
        assert {values[0]: cell.count for values, cell in tally.cells.items()} == {longest: 1, wide: 1, None: 2}

    async def test_large_and_negative_numbers(self, store: Store, shelf: str) -> None:
        collection = store.collection(PARCELS)
        numbers = dict(zip("abcdefgh", (-(2**62), -(2**53) - 1, -1, 0, 1, 2**31, 2**53 + 1, 2**62), strict=True))
        await put(
            collection, [Parcel(key=shelf + name, shelf=shelf, name=name, weight=n) for name, n in numbers.items()]
        )
        for name, number in numbers.items():
            assert await names_of(store, shelf, Is("weight", (number,))) == name
            above = await names_of(store, shelf, Between("weight", at_least=number + 1))
            assert above == "abcdefgh"["abcdefgh".index(name) + 1 :]
        whole = await everything(collection, Query((Is("shelf", (shelf,)),), (Sort("weight"),), limit=3))
        assert [parcel.weight for parcel in whole] == list(numbers.values())

    async def _check_kept(self, store: Store, given: Mapping[str, DeadLetter]) -> None:
        """By get and by find, to the type of every number."""
        collection = store.collection(LETTERS)
        stored = await put(collection, list(given.values()))
        found = all_stored(await collection.get(keys(given.values())))
        (shelf,) = {letter.namespace for letter in found}
        listed = {
            letter.key: letter for letter in await everything(collection, letter_query(namespace=shelf, limit=100))
        }
        assert len(listed) == len(given)
        assert not [name for name, kept in zip(given, stored, strict=True) if not _same(given[name], kept)]
        assert not [name for name, kept in zip(given, found, strict=True) if not _same(given[name], kept)]
        assert not [name for name, letter in given.items() if not _same(letter, listed[letter.key])]
        replaced = await put(collection, [replace(letter, priority=1) for letter in found])
        again = all_stored(await collection.get(keys(replaced)))
        assert not [name for name, kept in zip(given, again, strict=True) if not _same(given[name], kept, priority=1)]


def _same(letter: DeadLetter, kept: DeadLetter, **but: Any) -> bool:
    return replace(letter, **but) == kept and strictly([letter.task, letter.metadata]) == strictly(
        [kept.task, kept.metadata]
    )


class DurabilityContract(ContractTests):
    """For stores of which `make_store` gives several onto the same records."""

    async def test_what_was_written_is_there_after_a_restart(self, sample: Sample[Any], shelf: str) -> None:
        async with self.make_store() as store:
            stored = await put(store.collection(sample.kind), sample.many(shelf, 30))
        async with self.make_store() as store:
            collection = store.collection(sample.kind)
            found = all_stored(await collection.get(keys(stored)))
            assert found == stored
            assert [record.version for record in found] == [record.version for record in stored]
            assert await everything(collection, sample.query(shelf)) == stored
            assert (await full_tally(collection, sample.query(shelf))).total.count == 30
            assert await collection.write([sample.make(shelf, "r00000", 9)]) == [None]
            replaced = await put_one(collection, sample.renumbered(stored[0], 9))  # versions go on being good
            assert await collection.remove([stored[0], replaced, stored[1]]) == [False, True, True]
        async with self.make_store() as store:
            assert keys(await everything(store.collection(sample.kind), sample.query(shelf))) == keys(stored[2:])

    async def test_an_old_version_stays_invalid_after_restarts(self, sample: Sample[Any], shelf: str) -> None:
        async with self.make_store() as store:
            collection = store.collection(sample.kind)
            first = await put_one(collection, sample.make(shelf, "a", 1))
            assert await collection.remove([first]) == [True]
        async with self.make_store() as store:
            collection = store.collection(sample.kind)
            again = await put_one(collection, without_version(sample, first))
            assert again.version != first.version
        async with self.make_store() as store:
            collection = store.collection(sample.kind)
            assert await collection.write([sample.renumbered(first, 2)]) == [None]
            assert await collection.remove([first]) == [False]
            assert (await current(collection, first.key)).version == again.version

    async def test_two_stores_at_once(self, sample: Sample[Any], shelf: str) -> None:
        async with self.make_store() as one, self.make_store() as two:
            ours, theirs = one.collection(sample.kind), two.collection(sample.kind)
            record = await put_one(ours, sample.make(shelf, "a", 1))
            assert await theirs.write([sample.make(shelf, "a", 2)]) == [None]
            seen = await current(theirs, record.key)
            assert (seen, seen.version) == (record, record.version)
            changed = await put_one(theirs, sample.renumbered(seen, 3))
            assert await ours.write([sample.renumbered(record, 4)]) == [None]
            assert await ours.remove([record]) == [False]
            assert sample.number(await current(ours, record.key)) == 3
            assert await ours.remove([changed]) == [True]
            assert await theirs.get([record.key]) == [None]
            assert await theirs.write([sample.renumbered(changed, 5)]) == [None]

    async def test_two_stores_lose_no_update(self, sample: Sample[Any], shelf: str) -> None:
        async with self.make_store() as one, self.make_store() as two:
            key = (await put_one(one.collection(sample.kind), sample.make(shelf, "counter", 0))).key

            async def increment(number: int) -> None:
                collection = (one, two)[number % 2].collection(sample.kind)
                written: Result[Any] = None
                while written is None:
                    record = await current(collection, key)
                    (written,) = await collection.write([sample.renumbered(record, sample.number(record) + 1)])
                all_stored([written])

            async with asyncio.timeout(PATIENCE_SECONDS):
                await asyncio.gather(*(increment(number) for number in range(20)))
            assert sample.number(await current(two.collection(sample.kind), key)) == 20
            rivals = [sample.make(shelf, "prize", number) for number in range(40)]
            stores = (one, two)
            results = await asyncio.gather(
                *(stores[n % 2].collection(sample.kind).write([rival]) for n, rival in enumerate(rivals))
            )
            (winner,) = all_stored([result for (result,) in results if result is not None])
            assert sample.number(await current(one.collection(sample.kind), winner.key)) == sample.number(winner)
