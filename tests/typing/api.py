"""Never run, only type-checked: the model, the stores and the queue, used the way a user would.

Each line marked as an error has to be one: `mypy --strict` complains about an ignore that is not needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, assert_type

from mahavishnu.bulk.run import BulkRun
from mahavishnu.capture.runner import WorkflowResult
from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.dead_letter_queue import DeadLetterQueue, LetterList, QueueOptions
from mahavishnu.core.dlq_integration import CaptureOutcome
from mahavishnu.engine.moves import BulkResult
from mahavishnu.groups.rules import GroupPage
from mahavishnu.model import lifecycle
from mahavishnu.model.backoff import DEFAULT, Backoff, BackoffRegistry, Delay, FailedRetry, intervals
from mahavishnu.model.clock import Clock, SystemClock, instant, instant_text
from mahavishnu.model.errors import CorruptRecord, IllegalMove, LostLease, MahavishnuError, StoreError, StoreUnavailable
from mahavishnu.model.events import AuditEntry
from mahavishnu.model.ids import document_key, new_entry_id, new_token
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter, FormerLetter
from mahavishnu.model.letter_parts import (
    DeadLetterStatus,
    ErrorCategory,
    Failure,
    ResolutionStatus,
    RetryPolicy,
    Tallies,
)
from mahavishnu.model.lifecycle import TABLE, Move
from mahavishnu.model.query import Between, Is, Not, Query, Sort, letter_query, words
from mahavishnu.model.reconcile import Reconciliation, reconcile_letters
from mahavishnu.model.record import Version
from mahavishnu.monitoring.statistics import HourCounts
from mahavishnu.search.completion import Suggestions
from mahavishnu.search.rules import SavedView
from mahavishnu.stores.base import (
    Cell,
    Collection,
    Cursor,
    Health,
    Page,
    Result,
    Store,
    Tally,
    get_one,
    scan,
    write_one,
)
from mahavishnu.stores.kind import Field, FieldType, Kind
from mahavishnu.stores.kinds import HISTORY, LETTERS
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.urls import open_store
from mahavishnu.workers.claims import Claim


class FrozenClock:
    """A user's own clock: a Protocol needs no base class."""

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None: ...


def a_users_clock() -> None:
    clocks: Sequence[Clock] = [SystemClock(), FrozenClock()]
    assert_type(clocks[0].now(), datetime)
    assert_type(instant_text(instant(clocks[0].now())), str)
    wrong: Clock = object()  # type: ignore[assignment]
    assert wrong


def a_users_letter(clock: Clock) -> DeadLetter:
    now = clock.now()
    letter = DeadLetter(
        task_id="wf_1",
        entry_id=new_entry_id(now),
        error="boom",
        last_error="boom",
        failed_at=now,
        created_at=now,
        updated_at=now,
        payload=Json.of({"type": "code_sweep"}),
        repos=("api", "web"),
        retry_policy=RetryPolicy.LINEAR,
        error_category=ErrorCategory.TRANSIENT,
    )
    DeadLetter(task_id="wf_1")  # type: ignore[call-arg]
    letter.status = DeadLetterStatus.ARCHIVED  # type: ignore[misc]
    letter.payload = {"a": 1}  # type: ignore[misc, assignment]
    assert_type(letter.key, str)
    assert_type(letter.task, Any)
    assert_type(letter.metadata, dict[str, Any])
    assert_type(letter.next_retry_at, datetime | None)
    assert_type(letter.resolution_status, ResolutionStatus)
    assert_type(letter.version, Version | None)
    assert_type(document_key("wf_1", namespace="eu", queue="payments"), str)
    return lifecycle.new_letter(letter, retry_in=timedelta(seconds=30))


def a_users_moves(letter: DeadLetter, now: datetime) -> None:
    token = new_token()
    running = lifecycle.claim(letter, owner="w", token=token, until=now + timedelta(minutes=5), now=now, manual=True)
    assert_type(running, DeadLetter)
    assert_type(lifecycle.fail(running, token=token, failure=Failure(now, "boom"), now=now), DeadLetter)
    assert_type(lifecycle.archive(running, now=now, by="ada", notes="old"), DeadLetter)
    assert_type(lifecycle.next_generation(letter, letter), tuple[FormerLetter, DeadLetter])
    assert_type(lifecycle.violations(letter), list[str])
    assert_type(letter.tallies.combine(Tallies()), Tallies)
    assert_type(TABLE[letter.status].get(Move.CLAIM), tuple[DeadLetterStatus, ...] | None)
    assert_type(reconcile_letters(letter, letter, now), Reconciliation)
    lifecycle.claim(letter, owner="w", until=now, now=now)  # type: ignore[call-arg]
    lifecycle.succeed(running, token, now)  # type: ignore[call-arg]
    lifecycle.archive(running, now=now)  # type: ignore[call-arg]
    try:
        lifecycle.renew(running, token=token, until=now, now=now)
    except LostLease as problem:
        assert_type(problem.key, str)
    except IllegalMove as problem:
        assert_type(problem.state, str)


def fibonacci(failed: FailedRetry) -> float:
    """A user's own backoff."""
    before, delay = 0, 1
    for _ in range(failed.retry_count):
        before, delay = delay, before + delay
    return delay


def a_users_backoff() -> None:
    registry: BackoffRegistry = DEFAULT.with_custom("fibonacci", fibonacci).with_custom("table", intervals(30, 60))
    assert_type(registry.delay_for("custom:fibonacci", FailedRetry(3)), Delay)
    assert_type(registry.delay_for(RetryPolicy.NEVER, FailedRetry(0)).duration, timedelta | None)
    backoffs: list[Backoff] = [fibonacci, intervals(1), lambda failed: timedelta(failed.retry_count)]
    registry.with_custom("wrong", lambda: 1)  # type: ignore[misc, arg-type]
    assert backoffs


def a_users_query() -> Query:
    letter_query(status="pending")
    letter_query(status=DeadLetterStatus.PENDING, category=[ErrorCategory.NETWORK], metadata={"slos.max": 5})
    letter_query(status=5)  # type: ignore[arg-type]
    letter_query(stauts="pending")  # type: ignore[call-arg]
    letter_query("pending")  # type: ignore[call-arg]
    assert_type(words("a b"), tuple[str, ...])
    day = (datetime(2026, 1, 1, tzinfo=UTC), None)
    return Query(
        (*letter_query(failed=day).where, Not(Is("namespace", ("eu",))), Between("priority", at_least=5)),
        sort=(Sort("created_at", descending=True),),
        limit=50,
    )


async def a_users_store(store: Store, letter: DeadLetter) -> None:
    assert_type(store.collection(LETTERS), Collection[DeadLetter])
    assert_type(store.collection(HISTORY), Collection[FormerLetter])
    assert_type(await store.health(), Health)
    collection = store.collection(LETTERS)
    assert_type(await write_one(collection, letter), DeadLetter | None)
    assert_type(await get_one(collection, letter.key), DeadLetter | None)
    assert_type(await collection.remove([letter]), list[bool | StoreError])
    for result in await collection.write([letter]):
        if result is None:
            continue
        if isinstance(result, StoreError):
            raise result
        assert_type(result, DeadLetter)
    page = await collection.find(a_users_query(), Cursor.parse("W10"))
    assert_type(page, Page[DeadLetter])
    assert_type(page.next, Cursor | None)
    async for each in scan(collection, letter_query(status="pending")):
        assert_type(each, DeadLetter)
    tally = await collection.tally(letter_query(), by=["status"], sums=["occurrences"], spans=["created_at"])
    assert_type(tally, Tally)
    assert_type(tally.total, Cell)
    await collection.write([FormerLetter.of(letter)])
    await store.collection(HISTORY).write([letter])  # type: ignore[list-item]
    await collection.find("status:pending")  # type: ignore[arg-type]


async def every_store_is_a_store(letter: DeadLetter) -> None:
    stores: list[Store] = [MemoryStore(), open_store("sqlite:///letters.db", local="memory:")]
    for store in stores:
        async with store as opened:
            await a_users_store(opened, letter)
    collection: Collection[DeadLetter] = MemoryStore().collection(LETTERS)
    results: list[Result[DeadLetter]] = await collection.get(["wf_1"])
    assert results


def errors_of_a_store(problem: MahavishnuError) -> str:
    match problem:
        case StoreUnavailable(maybe_written=True):
            return "look before you write again"
        case CorruptRecord():
            return problem.key
        case _:
            return str(problem)


class Note:
    """A user's own kind of record: anything with a key and a version."""

    key = "note-1"
    version: Version | None = None


def a_users_kind(encode: Any, decode: Any, versioned: Any) -> None:
    kind: Kind[Note] = Kind(
        name="notes",
        index="notes",
        encode=encode,
        decode=decode,
        versioned=versioned,
        fields=(Field("key", FieldType.KEYWORD, lambda note: note.key),),
    )
    assert_type(MemoryStore().collection(kind).kind, Kind[Note])


async def a_users_queue(store: Store, clock: Clock) -> None:
    async with DeadLetterQueue(100, store=store, clock=clock, options=QueueOptions(owner="w")) as dlq:
        assert_type(await dlq.enqueue("wf_1", {"a": 1}, ["api"], "boom", RetryPolicy.LINEAR), DeadLetter)
        assert_type(await dlq.get_task("wf_1"), DeadLetter | None)
        assert_type(await dlq.list_tasks("pending", limit=5), LetterList)
        assert_type(await dlq.retry_task("wf_1", force=True, by="ann"), dict[str, Any])
        assert_type(await dlq.archive_task("wf_1", by="ann", notes="old"), bool)
    DeadLetterQueue(limits=None)  # type: ignore[call-arg]
    await dlq.enqueue("wf_1")  # type: ignore[call-arg]
    await dlq.archive_task("wf_1", nobody="ann")  # type: ignore[call-arg]


async def a_users_services(dlq: DeadLetterQueue) -> None:
    """Each concern is a service of its own."""
    assert_type(await dlq.letters.redrive("wf_1", by="ann", namespace="eu"), DeadLetter)
    assert_type(await dlq.letters.archive_many(category="network", dry_run=True), BulkResult)
    assert_type(await dlq.letters.find(a_users_query()), Page[DeadLetter])
    assert_type(await dlq.groups.list(state="new", sort="growth"), GroupPage)
    assert_type(dlq.search.query("status:exhausted"), Query)
    assert_type(await dlq.search.suggest("sta"), Suggestions)
    assert_type(await dlq.views.save("mine", "is:open", by="ann"), SavedView)
    assert_type((await dlq.trends.by_hour()).hours, tuple[HourCounts, ...])
    assert_type(await dlq.claims.claim("w", limit=5), list[Claim])
    assert_type(await dlq.runs.start("redrive", status="exhausted", by="ann"), BulkRun)
    assert_type(await dlq.audit.list(actor="ann"), Page[AuditEntry])
    assert_type(await dlq.transfer.import_letter({}), str)
    assert_type([line async for line in dlq.transfer.export(status="pending")], list[str])
    await dlq.letters.redrive("wf_1", reason="late")  # type: ignore[call-arg]
    await dlq.letters.redrive(5)  # type: ignore[arg-type]
    await dlq.groups.list(sort="size")  # type: ignore[arg-type]
    await dlq.runs.start("redrive")  # type: ignore[call-arg]


def a_script_without_an_event_loop(app: MahavishnuApp, failed: FailedRetry) -> None:
    with app.sync as sync:
        assert_type(sync.execute_workflow({"id": "wf_1"}, "sweep", ["api"], task_id="wf_1"), WorkflowResult)
        assert_type(sync.dlq.enqueue("wf_1", {}, ["api"], "boom", priority=1), DeadLetter)
        assert_type(sync.dlq.get_task("wf_1", include_archived=True), DeadLetter | None)
        assert_type(sync.dlq.list_tasks("pending", 10, adapter="sweep"), LetterList)
        assert_type(sync.dlq.retry_task("wf_1", by="ann"), dict[str, Any])
        assert_type(sync.dlq.letters.edit("wf_1", patch={"a": 1}, by="ann"), DeadLetter)
        assert_type(sync.dlq.groups.list(), GroupPage)
        assert_type(sync.dlq.search.suggest("is:"), Suggestions)
        assert_type(sync.dlq.claims.claim("worker", limit=2), list[Claim])
        assert_type(sync.dlq.runs.start("redrive", status="exhausted", by="ann"), BulkRun)
        assert_type([line for line in sync.dlq.transfer.export()], list[str])
        assert_type(app.sync.within(5).dlq.health(), Health)
        assert_type(sync.call(fibonacci, failed), float)
        assert_type(sync.capture_exception(KeyError("x"), workflow="sweep", arguments={"a": 1}), CaptureOutcome)
        with sync.capture("sweep", a=1):
            pass
    sync.call(fibonacci, 1)  # type: ignore[call-overload]
    sync.dlq.get_task(1)  # type: ignore[arg-type]
    sync.dlq.enqueue("wf_1")  # type: ignore[call-arg]
    sync.dlq.letters.resolve("wf_1", who="ann")  # type: ignore[call-arg]
    sync.dlq.nothing()  # type: ignore[attr-defined]


async def a_users_functions(app: MahavishnuApp) -> None:
    """Decorated functions keep their own types; so do those that are called through the app."""

    @app.workflow
    async def charge(order: str, *, amount: Decimal = Decimal(0)) -> int:
        return len(order)

    @app.workflow("refund", key="order", retry_policy=RetryPolicy.LINEAR, max_retries=2, redact=["card"])
    def refund(order: str) -> list[int]:
        return []

    @app.workflow(key=lambda order: order, on_cancel="capture")
    def sweep(order: str) -> None: ...

    assert_type(await charge("a", amount=Decimal(1)), int)
    assert_type(refund("a"), list[int])
    assert_type(await app.call(charge, "a"), int)
    assert_type(await app.call(refund, "a"), list[int])
    assert_type(app.sync.call(refund, "a"), list[int])
    assert_type(app.sync.call(charge, "a"), int)
    await charge(5)  # type: ignore[arg-type]
    refund()  # type: ignore[call-arg]
    await app.call(charge, 5)  # type: ignore[call-overload]
    app.workflow(5)  # type: ignore[call-overload]
    app.workflow("x", on_cancel="maybe")  # type: ignore[call-overload]
    async with app.capture("charge", order="a"):
        sweep("a")
    with app.sync.capture("charge", order="a"):
        sweep("a")
    outcome = await app.capture_exception(ValueError("x"), workflow="charge", arguments={"order": "a"})
    assert_type(outcome.letter, DeadLetter | None)
    assert_type(app.sync.capture_exception(ValueError("x"), workflow="charge").task_id, str)
