"""The permission matrix: every method of an actor's view of the queue, what it needs, and six principals who call it.

`METHODS` declares each method; the outcome for each principal follows from `expect`. `call` really calls it, on a copy
of one world in memory, and looks at what comes back and at what changed.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.core.rooms import services
from mahavishnu.engine.context import Limits, QueueOptions
from mahavishnu.http.auth import Access, Limit
from mahavishnu.model.errors import (
    IllegalMove,
    InvalidInput,
    InvalidOption,
    LostLease,
    NoSuchGroup,
    NoSuchLetter,
    NoSuchQueue,
    NoSuchRun,
    NoSuchTask,
    NoSuchView,
    PermissionDenied,
)
from mahavishnu.model.events import DeliveryMode, DomainEvent, PublicationCondition
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.permissions import Permission, Principal, Scope
from mahavishnu.model.query import letter_query
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.tasks.service import Lifecycle
from mahavishnu.tasks.task import TaskRecord
from mahavishnu.tasks.task import evolve as evolve_task
from mahavishnu.testing import ManualClock
from mahavishnu.testing.clock import START
from mahavishnu.workers.processing import Processing

VIEW, PAYLOAD, RETRY, EDIT, DELETE, CONFIGURE = Permission
MAIL = Scope(namespaces=frozenset({"default"}), queues=frozenset({"mail", "mail-dead"}))
PRINCIPALS: Mapping[str, Principal] = {
    "nobody": Principal("nobody", frozenset()),
    "viewer": Principal.of_role("viewer", "viewer"),
    "billing": Principal.of_role("billing", "operator", Scope(adapters=frozenset({"billing"}))),
    "mail": Principal.of_role("mail", "operator", MAIL),
    "worker": Principal("worker", frozenset({VIEW, RETRY}), role="operator"),
    "admin": Principal.of_role("admin", "admin"),
}
PLACES = {"billing": ("default", "billing"), "mail": ("mail", "post"), "zebra": ("zebra", "zebra")}
TASK = {"n": 1}


class About(StrEnum):
    """What an act is about: what has to be inside of the scope of who does it."""

    LETTER = "a letter"
    SEEN = "all that is seen"
    MADE = "the letter it makes"
    QUEUE = "a named queue"
    RUN = "a bulk run"
    NAMESPACE = "a namespace"
    VIEWS = "a saved view"
    STORE = "the store"
    PROCESS = "the process"
    NOTHING = "no record"


class Outcome(StrEnum):
    """What a call came to."""

    DONE = "done"
    DENIED = "denied"
    ABSENT = "absent"


@dataclass(frozen=True)
class Target:
    """What is acted on, inside or outside of the scope of a principal."""

    id: str
    queue: str
    adapter: str
    named: str  #: a named queue
    fingerprint: str
    run: str
    item: str
    leased_item: str
    leased_token: str
    token: str  #: of the claim of `<id>-leased`
    archived: str
    archived_task: str
    task: str  #: a lifecycle task
    at: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", {"queue": self.queue})


@dataclass(frozen=True)
class World:
    """Everything that there is, in memory: a copy of it for each call."""

    records: Mapping[Any, Mapping[str, Any]]
    clock: ManualClock
    targets: Mapping[str, Target]
    partition: str
    line: str  #: an exported letter of nobody's adapter and queue
    outside: Mapping[str, frozenset[tuple[str, str]]]

    def copy(self) -> DeadLetterQueue:
        """Return a queue with a copy of all records."""
        store = MemoryStore()
        for kind, records in self.records.items():
            store.collection(kind)._records = dict(records)
        store._versions = count(1_000_000)
        return _queue(store, ManualClock(self.clock.now()))


def _queue(store: MemoryStore, clock: ManualClock) -> DeadLetterQueue:
    return DeadLetterQueue(store=store, clock=clock, options=QueueOptions(limits=Limits(lease_seconds=80_000.0)))


async def _fill_old(dlq: DeadLetterQueue, name: str, queue: str, adapter: str) -> None:
    """Close a letter and a lifecycle task of a place, for the archive."""
    task = {"hush": f"hush {name}"}
    await dlq.enqueue(f"{name}-old", task, [], f"the {name} failed", queue=queue, adapter=adapter, metadata=task)
    await dlq.letters.resolve(f"{name}-old", by="eve", notes=name, queue=queue)
    lifecycle = Lifecycle(dlq.context)
    await lifecycle.finalize((await lifecycle.create(f"task-{name}", task)).task_id)


async def _fill(dlq: DeadLetterQueue, name: str, queue: str, adapter: str) -> dict[str, Any]:
    """Fill a place of a principal with one of everything; `name` is in all of it."""
    task = TASK | {"hush": f"hush {name}"}
    more: dict[str, Any] = {"metadata": {"note": f"hush {name}"}, "queue": queue, "adapter": adapter}
    await dlq.enqueue(f"{name}-leased", task, [], f"the {name} failed", "immediate", **more)
    (claim,) = await dlq.claims.claim("w", queue=queue, adapters=[adapter])
    await dlq.enqueue(name, task, [], f"the {name} failed", "immediate", **more)
    letter = await dlq.letters.edit(name, priority=4, by="eve", notes=name, queue=queue)
    assert letter.fingerprint is not None
    await dlq.groups.update(letter.fingerprint, by="eve", note=name)
    by = name if name in PRINCIPALS else "eve"
    run = await dlq.runs.start("redrive", by=by, reason=name, adapter=adapter, queue=queue)
    named = queue if queue != "default" else "jobs"
    await dlq.queues.create(f"{named}-dead")
    await dlq.queues.create(named, dead_queue=f"{named}-dead")
    leased, waiting = [await dlq.queues.produce(named, task, metadata={"note": f"hush {name}"}) for _ in range(2)]
    (lease,) = await dlq.queues.lease(named, "w", lease_seconds=80_000)
    assert lease.item.id == leased.id
    return {
        "id": name, "queue": queue, "adapter": adapter, "named": named, "fingerprint": letter.fingerprint,
        "run": run.run_id, "item": waiting.id, "leased_item": leased.id, "leased_token": lease.token,
        "token": claim.token, "archived": f"{name}-old", "task": (await _fill_task(dlq, name, queue, adapter)).task_id,
    }  # fmt: skip


async def _fill_task(dlq: DeadLetterQueue, name: str, queue: str, adapter: str) -> TaskRecord:
    """Create a lifecycle task of a place, which is under way."""
    lifecycle = Lifecycle(dlq.context)
    made = await lifecycle.create(f"task-{name}", {"hush": f"hush {name}"}, template="now", template_version="2")
    return await lifecycle.change(made.task_id, lambda task: evolve_task(task, queue=queue, adapter=adapter))


_world: list[World] = []


async def shared_world() -> World:
    """Return the one world of this process: each call gets a copy."""
    if not _world:
        _world.append(await make_world())
    return _world[0]


async def make_world() -> World:
    """Return the world: the places of the scopes, and `zebra`, which is outside of each."""
    store, clock = MemoryStore(), ManualClock()
    async with _queue(store, clock) as dlq:
        for name, (queue, adapter) in PLACES.items():
            await _fill_old(dlq, name, queue, adapter)
        tasks = {each.name: each.task_id for each in (await Lifecycle(dlq.context).list("all")).items}
        clock.advance(timedelta(days=40).total_seconds())
        await dlq.archive.archive_completed_tasks(30, dry_run=False)
        (partition,) = await dlq.archive.partitions()
        places = {name: await _fill(dlq, name, queue, adapter) for name, (queue, adapter) in PLACES.items()}
        for name, place in places.items():
            place["archived_task"] = tasks[f"task-{name}"]
        (line,) = [line async for line in dlq.transfer.export(query=letter_query(task_id="zebra"))]
        await dlq.domain_events.publish("done", {"of": "zebra"}, mode="durable")
        await dlq.views.save("own", "status:pending", by="eve")
        targets = {name: Target(**place) for name, place in places.items()}
        records = {kind: dict(each._records) for kind, each in store._collections.items()}
        outside = {name: frozenset(_outside(records, each.scope)) for name, each in PRINCIPALS.items()}
        return World(records, clock, targets, partition.partition.name, line, outside)


def _outside(records: Mapping[Any, Mapping[str, Any]], scope: Scope) -> Iterator[tuple[str, str]]:
    """Yield what is outside of a scope and says so: letters, items, copies, and all that names the zebra."""
    for kind, each in records.items():
        for key, record in each.items():
            belongs = hasattr(record, "adapter") and hasattr(record, "queue")
            is_outside = "zebra" in dump(record) or (belongs and not scope.covers_record(record))
            if kind.name != "audit" and is_outside and not scope.is_everything:
                yield kind.name, key


def dump(value: Any) -> str:
    """Return all texts of a result: of values, records, pages, mappings and errors."""
    match value:
        case str():
            return value
        case Json():
            return value.text
        case Mapping():
            return " ".join(f"{dump(name)} {dump(each)}" for name, each in value.items())
        case list() | tuple() | set() | frozenset():
            return " ".join([*map(dump, value), str(getattr(value, "degraded", None))])
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return " ".join(dump(getattr(value, each.name)) for each in dataclasses.fields(value))
    return repr(value)


# --- the table

Do = Callable[[DeadLetterQueue, Target, World], Any]


@dataclass(frozen=True)
class Row:
    """A method: the permission that it needs, what it is about, and a call of it."""

    needs: Permission | None
    about: About
    do: Do
    takes_work: bool = False  #: shows payloads also without view-payload
    names_queues: bool = False
    by_others: bool = False  #: others change letters meanwhile
    unfit: bool = False  #: it is refused after the check, as the world has nothing for it


def _letter(needs: Permission, name: str, **more: Any) -> Row:
    service, _, method = name.rpartition(".")

    def do(dlq: DeadLetterQueue, it: Target, world: World) -> Any:
        return getattr(getattr(dlq, service) if service else dlq, method)(it.id, **it.at, **more)

    return Row(needs, About.LETTER, do)


def _seen(do: Do, needs: Permission = VIEW) -> Row:
    return Row(needs, About.SEEN, do)


def _of(about: About, needs: Permission | None, do: Do, **more: Any) -> Row:
    return Row(needs, about, do, **more)


def _process(do: Do) -> Row:
    return Row(CONFIGURE, About.PROCESS, do)


ABSENT = (InvalidOption, NoSuchLetter, NoSuchGroup, NoSuchQueue, NoSuchRun, NoSuchTask, NoSuchView)
FREE = ("audit", "workers")  # who asks is noted
EVENT = DomainEvent("e-1", "done", START, "default", Json.of({}), DeliveryMode.DURABLE, PublicationCondition.ALWAYS)


async def _ran(task: Any, repos: list[str]) -> None: ...


METHODS: Mapping[str, Row] = {
    # the queue itself
    "dlq.archive_exhausted": _seen(lambda dlq, it, w: dlq.archive_exhausted(), EDIT),
    "dlq.archive_task": _letter(EDIT, ".archive_task"),
    "dlq.chores": _process(lambda dlq, it, w: dlq.chores()),
    "dlq.clear_all": _of(About.NAMESPACE, DELETE, lambda dlq, it, w: dlq.clear_all()),
    "dlq.configure": _process(lambda dlq, it, w: dlq.configure()),
    "dlq.enqueue": _of(About.MADE, EDIT, lambda dlq, it, w: dlq.enqueue(
        it.id, {"n": 2}, [], "boom", queue=it.queue, adapter=it.adapter)),
    "dlq.for_actor": _process(lambda dlq, it, w: dlq.for_actor(PRINCIPALS["admin"]).namespace),
    "dlq.get_statistics": _seen(lambda dlq, it, w: dlq.get_statistics()),
    "dlq.get_statistics_by_reason": _seen(lambda dlq, it, w: dlq.get_statistics_by_reason()),
    "dlq.get_task": _letter(VIEW, ".get_task"),
    "dlq.health": _of(About.NOTHING, None, lambda dlq, it, w: dlq.health()),
    "dlq.health_warnings": _seen(lambda dlq, it, w: dlq.health_warnings()),
    "dlq.in_namespace": _of(About.NOTHING, None, lambda dlq, it, w: dlq.in_namespace("eu").namespace),
    "dlq.list_tasks": _seen(lambda dlq, it, w: dlq.list_tasks()),
    "dlq.listen": Row(VIEW, About.SEEN, lambda dlq, it, w: _heard(dlq, it), by_others=True),
    "dlq.max_size=": _process(lambda dlq, it, w: setattr(dlq, "max_size", 7)),
    "dlq.open": _of(About.NOTHING, None, lambda dlq, it, w: dlq.open()),
    "dlq.register_backoff": _process(lambda dlq, it, w: dlq.register_backoff("x", lambda *_: timedelta(1))),
    "dlq.requeue_from_dlq": _letter(RETRY, ".requeue_from_dlq"),
    "dlq.resurrect": _letter(RETRY, ".resurrect"),
    "dlq.retry_task": _letter(RETRY, ".retry_task"),
    "dlq.run_due": _process(lambda dlq, it, w: _with_callback(dlq).run_due()),
    "dlq.service": _process(lambda dlq, it, w: dlq.service(Processing)),
    "dlq.shutdown": _process(lambda dlq, it, w: dlq.shutdown()),
    "dlq.start_retry_processor": _process(lambda dlq, it, w: _started(dlq)),
    "dlq.stop_retry_processor": _process(lambda dlq, it, w: dlq.stop_retry_processor()),
    # letters
    "letters.archive": _letter(EDIT, "letters.archive"),
    "letters.archive_exhausted": _seen(lambda dlq, it, w: dlq.letters.archive_exhausted(), EDIT),
    "letters.archive_many": _seen(lambda dlq, it, w: dlq.letters.archive_many(everything=True), EDIT),
    "letters.blocked_by": _letter(VIEW, "letters.blocked_by"),
    "letters.cancel": _letter(EDIT, "letters.cancel"),
    "letters.cancel_many": _seen(lambda dlq, it, w: dlq.letters.cancel_many(everything=True), EDIT),
    "letters.contrasts": _letter(PAYLOAD, "letters.contrasts"),
    "letters.edit": _letter(EDIT, "letters.edit", priority=7),
    "letters.fail": _letter(EDIT, "letters.fail"),
    "letters.find": _seen(lambda dlq, it, w: dlq.letters.find(letter_query())),
    "letters.preview_edit": _letter(PAYLOAD, "letters.preview_edit", priority=7),
    "letters.reclassify": _seen(lambda dlq, it, w: dlq.letters.reclassify(dry_run=False), EDIT),
    "letters.redrive": _letter(RETRY, "letters.redrive"),
    "letters.resolve": _letter(EDIT, "letters.resolve"),
    "letters.resolve_many": _seen(lambda dlq, it, w: dlq.letters.resolve_many(everything=True), EDIT),
    "letters.restore": _letter(EDIT, "letters.restore"),
    "letters.resurrect": _letter(RETRY, "letters.resurrect"),
    "letters.retry_many": _seen(lambda dlq, it, w: dlq.letters.retry_many(everything=True), RETRY),
    "letters.reveal": _letter(PAYLOAD, "letters.reveal"),
    "letters.revisions": _letter(PAYLOAD, "letters.revisions"),
    "requeues.outcomes": _seen(lambda dlq, it, w: dlq.requeues.outcomes()),
    "requeues.requeue": _letter(RETRY, "requeues.requeue"),
    "requeues.requeue_exhausted": _process(lambda dlq, it, w: dlq.requeues.requeue_exhausted()),
    "transfer.export": _seen(lambda dlq, it, w: dlq.transfer.export(), PAYLOAD),
    "transfer.import_letter": _of(About.NAMESPACE, EDIT, lambda dlq, it, w: dlq.transfer.import_letter(w.line)),
    "transfer.import_letters": _of(About.NAMESPACE, EDIT, lambda dlq, it, w: dlq.transfer.import_letters([w.line])),
    # groups and bulk runs
    "groups.commonalities": _of(About.LETTER, PAYLOAD, lambda dlq, it, w: dlq.groups.commonalities(it.fingerprint)),
    "groups.get": _of(About.LETTER, VIEW, lambda dlq, it, w: dlq.groups.get(it.fingerprint)),
    "groups.list": _seen(lambda dlq, it, w: dlq.groups.list(quiet=True)),
    "groups.refresh": _process(lambda dlq, it, w: dlq.groups.refresh()),
    "groups.regroup": _seen(lambda dlq, it, w: dlq.groups.regroup(dry_run=False), EDIT),
    "groups.release_hold": _of(About.NAMESPACE, EDIT, lambda dlq, it, w: dlq.groups.release_hold("1.0", by="x")),
    "groups.update": _of(About.LETTER, EDIT, lambda dlq, it, w: dlq.groups.update(it.fingerprint, by="x", note="n")),
    "groups.warnings": _seen(lambda dlq, it, w: dlq.groups.warnings()),
    "runs.advance": _process(lambda dlq, it, w: dlq.runs.advance()),
    "runs.cancel": _of(About.RUN, RETRY, lambda dlq, it, w: dlq.runs.cancel(it.run, by="x")),
    "runs.get": _of(About.RUN, VIEW, lambda dlq, it, w: dlq.runs.get(it.run)),
    "runs.items": _of(About.RUN, VIEW, lambda dlq, it, w: dlq.runs.items(it.run)),
    "runs.list": _seen(lambda dlq, it, w: dlq.runs.list()),
    "runs.pause": _of(About.RUN, RETRY, lambda dlq, it, w: dlq.runs.pause(it.run, by="x")),
    "runs.preview": _seen(lambda dlq, it, w: dlq.runs.preview("redrive", everything=True)),
    "runs.resume": _of(About.RUN, RETRY, lambda dlq, it, w: dlq.runs.resume(it.run, by="x")),
    "runs.start": _seen(lambda dlq, it, w: dlq.runs.start("redrive", everything=True, by="x"), RETRY),
    # named queues
    "queues.complete": _of(About.QUEUE, RETRY, lambda dlq, it, w: dlq.queues.complete(
        it.named, it.leased_item, it.leased_token)),
    "queues.create": _of(About.NAMESPACE, EDIT, lambda dlq, it, w: dlq.queues.create("fresh")),
    "queues.delete": _of(About.QUEUE, DELETE, lambda dlq, it, w: dlq.queues.delete(it.named, force=True)),
    "queues.drop": _of(About.QUEUE, DELETE, lambda dlq, it, w: dlq.queues.drop(it.named, it.item)),
    "queues.get": _of(About.QUEUE, VIEW, lambda dlq, it, w: dlq.queues.get(it.named)),
    "queues.import_items": _of(About.QUEUE, EDIT, lambda dlq, it, w: dlq.queues.import_items(
        it.named, [{"id": "i-1", "payload": {}}])),
    "queues.item": _of(About.QUEUE, VIEW, lambda dlq, it, w: dlq.queues.item(it.named, it.item)),
    "queues.items": _of(About.QUEUE, VIEW, lambda dlq, it, w: dlq.queues.items(it.named)),
    "queues.lease": _of(About.QUEUE, RETRY, lambda dlq, it, w: dlq.queues.lease(it.named, "me"), takes_work=True),
    "queues.list": Row(VIEW, About.SEEN, lambda dlq, it, w: dlq.queues.list(), names_queues=True),
    "queues.maintain": _process(lambda dlq, it, w: dlq.queues.maintain()),
    "queues.names_with_items": Row(
        VIEW, About.SEEN, lambda dlq, it, w: dlq.queues.names_with_items(), names_queues=True),
    "queues.numbers": _seen(lambda dlq, it, w: dlq.queues.numbers(it.named)),
    "queues.produce": _of(About.QUEUE, EDIT, lambda dlq, it, w: dlq.queues.produce(it.named, {"n": 1})),
    "queues.redrive": _of(About.QUEUE, RETRY, lambda dlq, it, w: dlq.queues.redrive(
        it.named, to=f"{it.named}-dead")),
    "queues.renew": _of(About.QUEUE, RETRY, lambda dlq, it, w: dlq.queues.renew(
        it.named, it.leased_item, it.leased_token)),
    "queues.resurrect": _of(About.QUEUE, RETRY, lambda dlq, it, w: dlq.queues.resurrect(it.named, it.item)),
    "queues.retry": _of(About.QUEUE, RETRY, lambda dlq, it, w: dlq.queues.retry(
        it.named, it.leased_item, it.leased_token)),
    "queues.update": _of(About.QUEUE, EDIT, lambda dlq, it, w: dlq.queues.update(it.named, max_attempts=5)),
    # the archive, and deletion
    "archive.archive_completed_tasks": _of(About.NAMESPACE, EDIT, lambda dlq, it, w: (
        dlq.archive.archive_completed_tasks(dry_run=False))),
    "archive.attach": _of(About.NAMESPACE, CONFIGURE, lambda dlq, it, w: dlq.archive.attach(w.partition)),
    "archive.begin_export": _of(About.NAMESPACE, EDIT, lambda dlq, it, w: dlq.archive.begin_export(), unfit=True),
    "archive.detach": _of(About.NAMESPACE, CONFIGURE, lambda dlq, it, w: dlq.archive.detach(w.partition)),
    "archive.drop": _of(About.NAMESPACE, CONFIGURE, lambda dlq, it, w: dlq.archive.drop(w.partition)),
    "archive.export": _seen(lambda dlq, it, w: dlq.archive.export(0, 0), PAYLOAD),
    "archive.list": _seen(lambda dlq, it, w: dlq.archive.list()),
    "archive.maintain": _process(lambda dlq, it, w: dlq.archive.maintain()),
    "archive.partitions": _seen(lambda dlq, it, w: dlq.archive.partitions()),
    "archive.restore": _of(About.LETTER, EDIT, lambda dlq, it, w: dlq.archive.restore(it.archived, queue=it.queue)),
    "archive.run": _of(About.NAMESPACE, EDIT, lambda dlq, it, w: dlq.archive.run(dry_run=False)),
    "archive.search": _seen(lambda dlq, it, w: dlq.archive.search()),
    "archive.search_tasks": _seen(lambda dlq, it, w: dlq.archive.search_tasks()),
    "archive.show": _of(About.LETTER, PAYLOAD, lambda dlq, it, w: dlq.archive.show(it.archived, queue=it.queue)),
    "archive.show_task": _of(About.NAMESPACE, PAYLOAD, lambda dlq, it, w: dlq.archive.show_task(it.archived_task)),
    "deletion.clear_all": _of(About.NAMESPACE, DELETE, lambda dlq, it, w: dlq.deletion.clear_all()),
    "deletion.delete_task": _letter(DELETE, "deletion.delete_task"),
    "deletion.finish": _process(lambda dlq, it, w: dlq.deletion.finish()),
    # events
    "domain_events.acknowledge": _of(About.NAMESPACE, EDIT, lambda dlq, it, w: dlq.domain_events.acknowledge("c", 1)),
    "domain_events.consumers": _of(About.NAMESPACE, PAYLOAD, lambda dlq, it, w: dlq.domain_events.consumers()),
    "domain_events.deliver": _process(lambda dlq, it, w: dlq.domain_events.deliver()),
    "domain_events.finish": _of(About.NOTHING, None, lambda dlq, it, w: dlq.domain_events.finish()),
    "domain_events.forget": _of(About.NAMESPACE, EDIT, lambda dlq, it, w: dlq.domain_events.forget("c")),
    "domain_events.log_of": _process(lambda dlq, it, w: dlq.domain_events.log_of("default")),
    "domain_events.publish": _of(About.NAMESPACE, EDIT, lambda dlq, it, w: dlq.domain_events.publish(
        "done", {}, mode="durable")),
    "domain_events.publish_missed": _process(lambda dlq, it, w: dlq.domain_events.publish_missed()),
    "domain_events.publish_on_step": _process(lambda dlq, it, w: dlq.domain_events.publish_on_step("s", "done")),
    "domain_events.read": _of(About.NAMESPACE, PAYLOAD, lambda dlq, it, w: dlq.domain_events.read()),
    "domain_events.remove_old": _process(lambda dlq, it, w: dlq.domain_events.remove_old()),
    "domain_events.send": _of(About.NAMESPACE, EDIT, lambda dlq, it, w: dlq.domain_events.send(EVENT)),
    "domain_events.subscribe": _process(lambda dlq, it, w: dlq.domain_events.subscribe(print)),
    # search, alerts, audit
    "search.count": _seen(lambda dlq, it, w: dlq.search.count(letter_query())),
    "search.namespaces": _seen(lambda dlq, it, w: dlq.search.namespaces()),
    "search.query": _of(About.NOTHING, None, lambda dlq, it, w: dlq.search.query("status:pending")),
    "search.suggest": _seen(lambda dlq, it, w: dlq.search.suggest("adapter:")),
    "views.delete": _of(About.VIEWS, EDIT, lambda dlq, it, w: dlq.views.delete("own", by="x")),
    "views.get": _of(About.VIEWS, VIEW, lambda dlq, it, w: dlq.views.get("own")),
    "views.list": _seen(lambda dlq, it, w: dlq.views.list()),
    "views.save": _of(About.VIEWS, EDIT, lambda dlq, it, w: dlq.views.save("new", "status:pending", by="x")),
    "alerts.list": _seen(lambda dlq, it, w: dlq.alerts.list()),
    "alerts.look": _process(lambda dlq, it, w: dlq.alerts.look()),
    "alerts.rules": _seen(lambda dlq, it, w: dlq.alerts.rules()),
    "alerts.run": _process(lambda dlq, it, w: dlq.alerts.run()),
    "alerts.send": _process(lambda dlq, it, w: dlq.alerts.send()),
    "alerts.test": _of(About.NAMESPACE, EDIT, lambda dlq, it, w: dlq.alerts.test()),
    "audit.list": _seen(lambda dlq, it, w: dlq.audit.list(limit=1000)),
    "audit.record": _of(About.NAMESPACE, DELETE, lambda dlq, it, w: dlq.audit.record("clear", "queue", by="x")),
    "audit.record_denial": _process(lambda dlq, it, w: dlq.audit.record_denial("x", None, "a", "s", "w")),
    "audit.require": _of(About.NAMESPACE, DELETE, lambda dlq, it, w: dlq.audit.require("clear", "queue")),
    "audit.require_now": _of(About.NAMESPACE, DELETE, lambda dlq, it, w: dlq.audit.require_now("clear")),
    # work
    "adapter_limits.limit": _of(About.NAMESPACE, EDIT, lambda dlq, it, w: (
        dlq.adapter_limits.limit("billing", concurrency=3, by="x"))),
    "adapter_limits.list": _seen(lambda dlq, it, w: dlq.adapter_limits.list()),
    "adapter_limits.reset": _of(About.NAMESPACE, EDIT, lambda dlq, it, w: dlq.adapter_limits.reset("billing", by="x")),
    "workers.list": _seen(lambda dlq, it, w: dlq.workers.list()),
    "workers.numbers": _seen(lambda dlq, it, w: dlq.workers.numbers()),
    "workers.waiting": _seen(lambda dlq, it, w: dlq.workers.waiting()),
    "workers.why_each_waits": _of(About.NOTHING, None, lambda dlq, it, w: dlq.workers.why_each_waits([])),
    "workers.why_waiting": _of(About.NOTHING, None, lambda dlq, it, w: _why(dlq, w)),
    "claims.claim": Row(RETRY, About.SEEN, lambda dlq, it, w: dlq.claims.claim("me", limit=500), takes_work=True),
    "claims.renew": _of(About.LETTER, RETRY, lambda dlq, it, w: dlq.claims.renew(f"{it.id}-leased", it.token, **it.at)),
    "claims.settle": _of(About.LETTER, RETRY, lambda dlq, it, w: dlq.claims.settle(
        f"{it.id}-leased", it.token, "failed", error="again", **it.at), takes_work=True),
    **{f"processing.{name}": _process(lambda dlq, it, w: dlq.processing) for name in (
        "adapters", "configure", "note_adapters", "retry", "run_due", "run_with", "start", "start_periodic_tasks",
        "stop", "take_only", "wake")},
    **{f"intake.{name}": _process(lambda dlq, it, w: dlq.intake) for name in (
        "admit_waiting", "announce_captured", "enqueue", "record", "record_many", "record_skipped")},
    **{f"closing.{name}": _process(lambda dlq, it, w: dlq.closing) for name in (
        "finish", "flush", "forget", "note_success")},
    **{f"replies.{name}": _process(lambda dlq, it, w: dlq.replies) for name in ("begin", "clean", "finish", "forget")},
    # numbers
    "telemetry.collect": _seen(lambda dlq, it, w: dlq.telemetry.collect()),
    "telemetry.collect_process": _process(lambda dlq, it, w: dlq.telemetry.collect_process()),
    "telemetry.count_here": _process(lambda dlq, it, w: dlq.telemetry.count_here()),
    "telemetry.register": _process(lambda dlq, it, w: dlq.telemetry.register(CollectorRegistry())),
    "telemetry.report_to": _process(lambda dlq, it, w: dlq.telemetry.report_to(object())),
    "trends.by_hour": _seen(lambda dlq, it, w: dlq.trends.by_hour()),
    "dashboard.archive": _seen(lambda dlq, it, w: dlq.dashboard.archive()),
    "dashboard.dlq": _seen(lambda dlq, it, w: dlq.dashboard.dlq()),
    "dashboard.staleness": _seen(lambda dlq, it, w: dlq.dashboard.staleness()),
    "integrity.find_unreadable": _of(About.STORE, VIEW, lambda dlq, it, w: dlq.integrity.find_unreadable()),
    "integrity.local_stores": _of(About.STORE, VIEW, lambda dlq, it, w: dlq.integrity.local_stores()),
    "integrity.forget_local_store": _of(About.STORE, CONFIGURE, lambda dlq, it, w: (
        dlq.integrity.forget_local_store("gone")), unfit=True),
    "encryption.renew": _of(About.NAMESPACE, CONFIGURE, lambda dlq, it, w: dlq.encryption.renew(), unfit=True),
    "encryption.renew_all": _of(About.NAMESPACE, CONFIGURE, lambda dlq, it, w: dlq.encryption.renew_all(), unfit=True),
}  # fmt: skip

# What an act makes has to be inside of the scope, too, and a letter that is not seen takes nothing in.
MAKES: Mapping[str, tuple[str, Row]] = {
    "enqueue for an adapter": ("billing", _of(About.MADE, EDIT, lambda dlq, it, w: dlq.enqueue(
        "new", {"adapter": it.adapter}, [], "boom"))),
    "enqueue in a namespace": ("mail", _of(About.MADE, EDIT, lambda dlq, it, w: dlq.enqueue(
        "new", {}, [], "boom", queue="mail", namespace="default" if it.id == "mail" else "eu"))),
    "enqueue under the id of a letter that is not seen": ("billing", _seen(lambda dlq, it, w: dlq.enqueue(
        it.id, TASK | {"hush": f"hush {it.id}"}, [], "boom", queue=it.queue, adapter="billing"), EDIT)),
    "edit the adapter": ("billing", _of(About.MADE, EDIT, lambda dlq, it, w: dlq.letters.edit(
        "billing", adapter="billing" if it.id == "billing" else "zebra", priority=1))),
    "edit the adapter in the task": ("billing", _seen(lambda dlq, it, w: dlq.letters.edit(
        "billing", patch={"adapter": it.adapter}, create=True), EDIT)),
    "name a dead queue": ("mail", _of(About.QUEUE, EDIT, lambda dlq, it, w: dlq.queues.update(
        "mail", dead_queue=f"{it.named}-dead", max_attempts=2))),
    "send items to a queue": ("mail", _of(About.QUEUE, RETRY, lambda dlq, it, w: dlq.queues.redrive(
        "mail-dead", to=it.named))),
    "claim in a namespace": ("mail", _of(About.MADE, RETRY, lambda dlq, it, w: dlq.claims.claim(
        "me", namespace="default" if it.id == "mail" else "eu"))),
}  # fmt: skip


async def _heard(dlq: DeadLetterQueue, it: Target) -> list[Any]:
    heard: list[Any] = []
    end = dlq.listen(heard.append)
    home = dlq.home or dlq
    for place in (it.id, "zebra"):
        await home.letters.redrive(place, queue=PLACES[place][0])
    await home.context.events.flush()
    end()
    return heard


def _with_callback(dlq: DeadLetterQueue) -> DeadLetterQueue:
    (dlq.home or dlq).processing.callback = _ran
    return dlq


async def _started(dlq: DeadLetterQueue) -> None:
    try:
        await dlq.start_retry_processor(_ran)
    finally:
        await (dlq.home or dlq).stop_retry_processor()


async def _why(dlq: DeadLetterQueue, world: World) -> Any:
    return await dlq.workers.why_waiting((await (dlq.home or dlq).list_tasks())[0])


def methods() -> Iterator[str]:
    """Yield the public methods of the queue and of each of its services, and the properties that can be set."""
    classes: dict[str, type] = {"dlq": DeadLetterQueue}
    for name, target in services().items():
        module, _, kind = target.partition(":")
        classes[name] = getattr(importlib.import_module(module), kind)
    for name, each in classes.items():
        for member in dir(each):
            raw = inspect.getattr_static(each, member)
            if member.startswith("_") or isinstance(raw, classmethod | type):
                continue
            if isinstance(raw, property) and raw.fset is not None:
                yield f"{name}.{member}="
            elif inspect.isfunction(raw):
                yield f"{name}.{member}"


# --- calls


def expect(row: Row, who: Principal, *, inside: bool) -> set[Outcome]:
    """Return the outcomes that a call may come to."""
    denied, absent, done = {Outcome.DENIED}, {Outcome.ABSENT}, {Outcome.DONE}
    scope = who.scope
    if row.about is About.NOTHING:
        return done
    if VIEW not in who.permissions:  # what is seen may be nothing
        return denied | absent | (done if row == replace(row, needs=VIEW, about=About.SEEN) else set())
    hidden = not inside or (row.about is About.QUEUE and scope.adapters is not None)
    if row.needs not in who.permissions:
        return denied | absent if hidden else denied
    match row.about:
        case About.SEEN:
            return done
        case About.VIEWS:
            return done
        case About.NAMESPACE | About.STORE | About.PROCESS:
            return done if scope.is_everything else denied
        case About.QUEUE if scope.adapters is not None:  # definitions are seen, items are not
            return denied | absent | (set() if row.needs is EDIT else done)
    if inside or scope.is_everything:
        return done
    return denied if row.about is About.MADE else denied | absent


def target_of(world: World, name: str, *, inside: bool) -> Target:
    """Return what a principal acts on."""
    return world.targets[(name if name in world.targets else "billing") if inside else "zebra"]


def sides_of(principal: Principal) -> tuple[bool, ...]:
    """Return where a principal tries: inside of their scope, and outside if anything is."""
    return (True,) if principal.scope.is_everything else (True, False)


def surface_row(needs: Permission, about: About) -> Row:
    """Return the row of an act of a surface that no method stands for."""
    return Row(needs, about, lambda *_: None)


def make_access() -> Access:
    """Return the access of the six principals by their tokens; `nobody` is a viewer without any permission."""
    people: dict[str, dict[str, str]] = {"viewer": {}, "operator": {}, "admin": {}}
    for name, who in PRINCIPALS.items():
        people[who.role or "viewer"][name] = f"token-of-{name}"
    limits = {name: Limit(who.permissions, who.scope) for name, who in PRINCIPALS.items()}
    limits["nobody"] = Limit(frozenset())
    return Access.of(people["viewer"], people["operator"], people["admin"], limits)


def filled(text: Any, it: Target, world: World) -> Any:
    """Return a path, a body or words with the names of what they are about."""
    match text:
        case dict():
            return {name: filled(each, it, world) for name, each in text.items()}
        case list():
            return [filled(each, it, world) for each in text]
        case "{line}":
            return [world.line]
        case str():
            known = {"partition": world.partition} | vars(it)
            return re.sub(r"{(\w+)}", lambda part: str(known[part[1]]), text)
    return text


async def call(world: World, name: str, row: Row, *, inside: bool) -> tuple[Outcome, list[str]]:
    """Call a method as this principal, on a copy of the world. Return the outcome, and what should not have been."""
    home, who = world.copy(), PRINCIPALS[name]
    it = target_of(world, name, inside=inside)
    before = records_of(home)
    async with home:
        try:
            result = await _await(row.do(home.for_actor(who), it, world))
        except PermissionDenied as problem:
            outcome, result = Outcome.DENIED, str(problem)
        except ABSENT as problem:
            outcome, result = Outcome.ABSENT, str(problem)
        except (IllegalMove, LostLease) as problem:
            outcome, result = Outcome.DONE, str(problem)
        except InvalidInput as problem:
            if not row.unfit:
                raise
            outcome, result = Outcome.DONE, str(problem)
        else:
            nothing = result is None or result is False
            absent = isinstance(result, Mapping) and result.get("success") is False and "no letter" in str(result)
            outcome = Outcome.ABSENT if absent or (nothing and row.about is About.LETTER) else Outcome.DONE
        after = before if row.by_others else records_of(home)
        return outcome, [*_told(row, who, it, dump(result)), *changes(world, name, before, after, outcome)]


async def _await(result: Any) -> Any:
    if isinstance(result, AsyncGenerator):
        return [each async for each in result]
    if isinstance(result, AbstractAsyncContextManager) and not isinstance(result, DeadLetterQueue):
        async with result:
            return "done"
    return await result if inspect.isawaitable(result) else result


def records_of(dlq: DeadLetterQueue) -> dict[tuple[str, str], Any]:
    """Return every record, by its kind and key."""
    store = dlq.store
    assert isinstance(store, MemoryStore)
    return {(kind.name, key): each for kind, rows in store._collections.items() for key, each in rows._records.items()}


def _told(row: Row, who: Principal, it: Target, text: str) -> Iterator[str]:
    """Yield what the principal is told and should not be."""
    if not who.scope.is_everything:
        sees_queues = row.names_queues and who.scope.adapters is not None  # definitions are of the namespace
        for word in (name for name in PLACES if not who.scope.covers("default", *PLACES[name])):
            if (f"hush {word}" if sees_queues else word) in text and it.id != word:
                yield f"tells of {word}"
    if "hush" in text and not who.sees_payloads and not (row.takes_work and RETRY in who.permissions):
        yield "tells a payload"


def changes(world: World, name: str, before: Any, after: Any, outcome: Outcome) -> Iterator[str]:
    """Yield what was changed and should not be: outside of the scope, or by an act that was denied."""
    changed = {key for key in {*before, *after} if before.get(key) != after.get(key) and key[0] not in FREE}
    scope = PRINCIPALS[name].scope
    for key in sorted(changed):
        if outcome is Outcome.DENIED:
            yield f"changes {key} though it is denied"
        elif key in world.outside[name] and not (
            isinstance(after.get(key), DeadLetter) and scope.covers_record(after[key])
        ):
            yield f"changes {key} outside of the scope"
        elif isinstance(after.get(key), DeadLetter) and key not in before and not scope.covers_record(after[key]):
            yield f"makes {key} outside of the scope"


# --- the page


def table() -> str:
    """Return the matrix as the lines of docs/reference-permissions.md: methods that need the same are one line."""
    alike: dict[tuple[About, Permission | None], list[str]] = {}
    for name, row in METHODS.items():
        alike.setdefault((row.about, row.needs), []).append(name)
    lines = [f"| methods | needs | about | {' | '.join(PRINCIPALS)} |", f"|---|---|---|{'---|' * len(PRINCIPALS)}"]
    for about, needs in sorted(alike, key=lambda each: ([*About].index(each[0]), str(each[1]))):
        names = alike[about, needs]
        cells = [_cell(METHODS[names[0]], who) for who in PRINCIPALS.values()]
        lines.append(f"| {_joined(names)} | {f'`{needs}`' if needs else ''} | {about} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _joined(names: list[str]) -> str:
    services: dict[str, list[str]] = {}
    for name in names:
        service, _, method = name.partition(".")
        services.setdefault(service, []).append(method.removesuffix("="))
    return "; ".join(f"`{service}`: {', '.join(methods)}" for service, methods in services.items())


def _cell(row: Row, who: Principal) -> str:
    if Outcome.DONE not in expect(row, who, inside=True):
        return "no"
    if row.about is About.SEEN and VIEW not in who.permissions:
        return "nothing"
    return "yes" if who.scope.is_everything or row.about in (About.NOTHING, About.VIEWS) else "of its part"


if __name__ == "__main__":
    page = Path("docs/reference-permissions.md")
    text = page.read_text(encoding="utf-8")
    page.write_text(text[: text.index("| methods |")] + table() + "\n", encoding="utf-8")
