"""Encrypts stored values again: those kept in clear before encryption was switched on, and those of an older key.

It goes through the records lot by lot and changes each by compare-and-set. A record with the right key is left alone,
so a renewal that begins again after a crash goes on where that happened, and two at once do no harm.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import isawaitable
from typing import Any, TypeAlias, TypeVar

from mahavishnu.archive.partitions import Partitions, require_home
from mahavishnu.archive.records import ArchivedLetter, ArchivedTask, PartitionState, checksum_of
from mahavishnu.engine.audit import AUDIT, without_secrets
from mahavishnu.engine.context import DEFAULT_ACTOR, QueueContext
from mahavishnu.engine.waiting_room import WAITING
from mahavishnu.events.records import EVENTS
from mahavishnu.model.clock import SystemClock
from mahavishnu.model.errors import CannotRestore, CorruptRecord, InvalidInput, MahavishnuError, StoreUnavailable
from mahavishnu.model.events import AuditEntry, DomainEvent
from mahavishnu.model.ids import DEFAULT_NAMESPACE, document_key
from mahavishnu.model.json_value import EMPTY, Json
from mahavishnu.model.letter import DeadLetter, FormerLetter
from mahavishnu.model.letter import evolve as evolve_letter
from mahavishnu.model.query import Query, require_namespace
from mahavishnu.stores.base import Collection, Cursor, get_one, update_many_with_retry
from mahavishnu.stores.kinds import HISTORY, LETTERS, REVISIONS
from mahavishnu.stores.retained import Revision, revision_key
from mahavishnu.tasks.letters import binding_of, letter_ids_of
from mahavishnu.tasks.records import TASKS, TRANSITIONS
from mahavishnu.tasks.service import Lifecycle
from mahavishnu.tasks.task import OldTransition, StepRecord, TaskRecord, Transition, evolve
from mahavishnu.values.encryption import METADATA, Binding, Encryption
from mahavishnu.values.payload import mask_text, mask_texts

MOST_AT_ONCE = 5000
_REVISIONS = 100  # the latest of a letter, whose values are masked in its errors
M = TypeVar("M", Transition, OldTransition)
_ARCHIVE, _ARCHIVED_TASKS = "archive:", "archived-tasks:"
Change: TypeAlias = "Callable[[Any], Any | Awaitable[Any]]"


def renew_task(task: TaskRecord, encryption: Encryption) -> TaskRecord:
    """Return a task with renewed values, masked where errors and moves quote them; itself if nothing changes."""
    binding = binding_of(task)
    context, types = encryption.renew(task.context, task.context_types, binding)
    secrets = encryption.secrets_in(context, types, binding)
    steps = tuple(_renew_step(task, step, encryption, secrets) for step in task.steps)
    moves = tuple(_mask_move(each, secrets, encryption) for each in task.transitions)
    error = task.last_error and mask_text(task.last_error, secrets)
    notes = encryption.mask_values(task.notes, secrets)
    if (types, steps, moves, error) == (task.context_types, task.steps, task.transitions, task.last_error) and (
        context is task.context and notes is task.notes
    ):
        return task
    return evolve(
        task, context=context, context_types=types, steps=steps, transitions=moves, last_error=error, notes=notes
    )


def _renew_step(task: TaskRecord, step: StepRecord, encryption: Encryption, secrets: Sequence[str]) -> StepRecord:
    error = step.last_error and mask_text(step.last_error, secrets)
    if step.result is None:
        return step if error == step.last_error else replace(step, last_error=error)
    known = EMPTY if step.result_types is None else step.result_types
    result, types = encryption.renew(step.result, known, binding_of(task, step.name))
    if result is step.result and types is known and error == step.last_error:
        return step
    return replace(step, result=result, result_types=types, last_error=error)


def _mask_move(move: M, secrets: Sequence[str], encryption: Encryption) -> M:
    """Return a transition with masks where it quotes a secret, or has one under its name; itself if there is none."""
    reason = move.reason and mask_text(move.reason, secrets)
    metadata = move.metadata and encryption.mask_values(move.metadata, secrets)
    if reason == move.reason and metadata is move.metadata:
        return move
    return replace(move, reason=reason, metadata=metadata)


def out_of_reach(detached: Sequence[str], waiting_outside: int, *, scrub: bool = False) -> tuple[str, ...]:
    """Describe what a renewal has not looked at, and what keeps its keys therefore.

    >>> out_of_reach(["2026_01"], 0)[0]
    'month 2026_01 of the archive, which is detached: attach it and begin again'
    """
    found = [f"month {name} of the archive, which is detached: attach it and begin again" for name in detached]
    if waiting_outside:
        found.append(f"failed runs that wait beside the store ({waiting_outside}): begin again when they are in it")
    if not scrub:
        found.append("the audit and published events, which may quote values in clear: a scrub masks them there")
    return (
        *found,
        "what other processes keep locally while the store is away: begin again when it is back",
        "exports and backups: keep the keys that they were made with",
    )


@dataclass(frozen=True, slots=True)
class RenewedLot:
    """The numbers of one lot, with the reasons of those that `failed` by their keys, and what no lot looks at.

    `next` is where the next lot begins; None: there is none.
    """

    looked_at: int = 0
    changed: int = 0
    failed: Mapping[str, str] = field(default_factory=dict)
    next: str | None = None
    out_of_reach: Sequence[str] = ()

    def plus(self, later: RenewedLot) -> RenewedLot:
        """Return both as one."""
        looked_at, changed = self.looked_at + later.looked_at, self.changed + later.changed
        return RenewedLot(looked_at, changed, {**self.failed, **later.failed}, later.next, later.out_of_reach)


@dataclass(frozen=True, slots=True)
class _Place:
    """A place of records, and the function that renews one: it returns the very same record if nothing changes."""

    records: Collection[Any]
    change: Change


class EncryptionRenewal:
    """Encrypts the stored letters, queue items and tracked tasks of a namespace by the current key.

    These are tasks, letters, former letters, revisions, waiting failures and the attached months of the archive.
    """

    def __init__(self, context: QueueContext) -> None:
        self._context = context

    async def renew(
        self,
        *,
        dry_run: bool = True,
        scrub: bool = False,
        limit: int = 500,
        after: str | None = None,
        by: str = DEFAULT_ACTOR,
    ) -> RenewedLot:
        """Look at the next `limit` records, and unless `dry_run`, encrypt them by the current key.

        Errors are masked where they quote encrypted values; with `scrub`, so are audit entries and published events.
        Raises InvalidInput where nothing is encrypted, and StoreError; then begin again with the same `after`.

        >>> (await dlq.encryption.renew(dry_run=False, by="ann")).changed  # doctest: +SKIP
        12
        """
        if type(limit) is not int or not 1 <= limit <= MOST_AT_ONCE:
            raise InvalidInput(f"limit must be a whole number from 1 to {MOST_AT_ONCE}, not {limit!r:.80}")
        await self._context.require("encrypt")
        encryption = self._context.letter_factory.encryption
        if not encryption.keys:
            raise InvalidInput("nothing is encrypted here: set encryption.fields and encryption.keys")
        namespace = require_namespace(self._context.namespace)
        await self._context.open()
        places, unreached = await self._places(encryption, scrub)
        name, cursor = _begin(after, places)
        if dry_run:
            lot = await self._lot(places, name, cursor, limit, namespace, dry_run=True)
        else:
            async with self._context.audit.record("encrypt", "queue", by=by) as record:
                lot = await self._lot(places, name, cursor, limit, namespace, dry_run=False)
                record.add(
                    place=name, scrub=scrub, looked_at=lot.looked_at, changed=lot.changed, failed=len(lot.failed)
                )
        return replace(lot, out_of_reach=unreached)

    async def renew_all(self, *, dry_run: bool = True, scrub: bool = False, by: str = DEFAULT_ACTOR) -> RenewedLot:
        """Renew all lots, one after the other. Raises what `renew` raises; finished lots stay renewed."""
        done = await self.renew(dry_run=dry_run, scrub=scrub, by=by)
        while done.next is not None:
            done = done.plus(await self.renew(dry_run=dry_run, scrub=scrub, after=done.next, by=by))
        return done

    async def _places(self, encryption: Encryption, scrub: bool) -> tuple[Mapping[str, _Place], Sequence[str]]:
        """Return the places to look at, ordered so that records only move forward, and the places out of reach."""
        context, store = self._context, self._context.store
        letter, task = encryption.renew_letter, partial(self._renew_task, encryption)
        stored = partial(_renew_stored, encryption, context.revisions)
        found = {
            "tasks": _Place(store.collection(TASKS), task),
            "moves": _Place(
                store.collection(TRANSITIONS), partial(_mask_stored_move, encryption, store.collection(TASKS))
            ),
            "waiting": _Place(store.collection(WAITING), letter),
            "letters": _Place(store.collection(LETTERS), stored),
            "history": _Place(store.collection(HISTORY), stored),
            "revisions": _Place(context.revisions, partial(_renew_stored_revision, encryption, context)),
        }
        if scrub:
            found["audit"] = _Place(store.collection(AUDIT), partial(self._scrub_entry, encryption))
            found["events"] = _Place(store.collection(EVENTS), partial(self._scrub_event, encryption))
        archive, detached = Partitions(require_home(context), context.clock), []
        for partition in await archive.every():
            if partition.state is not PartitionState.ATTACHED:
                detached.append(partition.name)
                continue
            name = partition.name
            found[_ARCHIVE + name] = _Place(archive.letters(name), partial(_renew_copy, encryption))
            if partition.has_tasks:
                found[_ARCHIVED_TASKS + name] = _Place(archive.tasks(name), partial(_renew_task_copy, encryption))
        outside = len(context.waiting.own_in_memory()) + len(context.waiting.own_files())
        return found, out_of_reach(detached, outside, scrub=scrub)

    async def _lot(
        self,
        places: Mapping[str, _Place],
        name: str,
        cursor: Cursor | None,
        limit: int,
        namespace: str,
        *,
        dry_run: bool,
    ) -> RenewedLot:
        place = places[name]
        page = await place.records.find(Query(limit=limit), cursor)
        if page.degraded:  # what is out of reach would be taken for renewed
            raise StoreUnavailable(f"the list of {name} is not complete: {page.degraded}")
        failed = {getattr(problem, "key", name): str(problem) for problem in page.corrupt}
        fresh: list[Any] = []
        for record in await self._of_namespace(page.items, namespace, failed):
            await SystemClock().sleep(0)  # others have their turn: large payloads take a while each
            try:
                renewed = await _renew(place.change, record)
            except (CannotRestore, CorruptRecord) as problem:
                failed[record.key] = str(problem)
            else:
                if renewed is not record:
                    fresh.append(renewed)
        changed = len(fresh) if dry_run else await self._write(name, place, fresh, failed)
        names = list(places)
        following = names[names.index(name) + 1 :]
        then = f"{name} {page.next}" if page.next is not None else f"{following[0]} " if following else None
        return RenewedLot(len(page.items), changed, failed, then)

    async def _write(self, name: str, place: _Place, fresh: Sequence[Any], failed: dict[str, str]) -> int:
        """Write them; those that others changed meanwhile are renewed again. Returns how many were changed."""

        async def renew_again(_: Any, there: Any) -> Any:
            renewed = None if there is None else await _renew(place.change, there)
            return None if renewed is there else renewed

        outcomes = await update_many_with_retry(place.records, fresh, renew_again, what=name)
        changed = 0
        for record, outcome in zip(fresh, outcomes, strict=True):
            if isinstance(outcome, StoreUnavailable):
                raise outcome
            if isinstance(outcome, MahavishnuError):
                failed[record.key] = str(outcome)
            else:
                changed += outcome is not None
        return changed

    async def _of_namespace(self, records: Sequence[Any], namespace: str, failed: dict[str, str]) -> list[Any]:
        """Return the records of a namespace, and of its queues. A revision is where its letter is."""
        where = [getattr(each, "namespace", None) for each in records]
        if records and isinstance(records[0], AuditEntry):
            where = [each or DEFAULT_NAMESPACE for each in where]
        if records and isinstance(records[0], Revision):
            store = self._context.store
            letters = await store.collection(LETTERS).get([each.letter_key for each in records])
            former = await store.collection(HISTORY).get([each.entry_id for each in records])
            for place, (record, *pair) in enumerate(zip(records, letters, former, strict=True)):
                where[place] = next((each.namespace for each in pair if isinstance(each, DeadLetter)), None)
                problem = next((each for each in pair if isinstance(each, MahavishnuError)), None)
                if where[place] is None and problem is not None:
                    failed[record.key] = f"whose it is cannot be told: {problem}"
        return [
            record
            for record, own in zip(records, where, strict=True)
            if own is not None and own.partition("@")[0] == namespace
        ]

    async def _scrub_entry(self, encryption: Encryption, entry: AuditEntry) -> AuditEntry:
        """Return the entry with masks in the place of encrypted values, and where it quotes those of its letter."""
        secrets = await self._secrets_under(encryption, entry.subject.removeprefix("letter:"))
        changes = mask_texts(without_secrets(entry.changes.value, encryption.fields), secrets)
        reason, why = (text and mask_text(text, secrets) for text in (entry.reason, entry.why))
        if (changes, reason, why) == (entry.changes.value, entry.reason, entry.why):
            return entry
        return replace(entry, changes=Json.of(changes), reason=reason, why=why)

    async def _scrub_event(self, encryption: Encryption, event: DomainEvent) -> DomainEvent:
        """Return the event with masks, likewise."""
        key = document_key(event.task_id, event.namespace) if event.task_id else ""
        payload = encryption.mask_values(event.payload, await self._secrets_under(encryption, key))
        return event if payload is event.payload else replace(event, payload=payload)

    async def _secrets_under(self, encryption: Encryption, key: str) -> list[str]:
        """Return the encrypted values of the letter with this key, and those that it had before edits."""
        letter = await get_one(self._context.store.collection(LETTERS), key) if key else None
        if letter is None:
            return []
        former = await _former_versions(self._context.revisions, letter)
        return [*encryption.secrets_of(letter), *_secrets_of(encryption, letter, former)]

    async def _renew_task(self, encryption: Encryption, task: TaskRecord) -> TaskRecord:
        renewed = renew_task(task, encryption)
        if letter_ids_of(task) == letter_ids_of(renewed):
            return renewed
        # an id may be made of the context
        letter = await Lifecycle(self._context).handover.find_letter(task)
        return renewed if letter is None else evolve(renewed, work_id=letter.task_id)


async def _renew(change: Change, record: Any) -> Any:
    renewed = change(record)
    return await renewed if isawaitable(renewed) else renewed


def _begin(after: str | None, places: Mapping[str, _Place]) -> tuple[str, Cursor | None]:
    """Return where a lot begins: in a month that was detached meanwhile, with the first one that is there."""
    name, _, cursor = (next(iter(places)) + " " if after is None else after).partition(" ")
    if name in places:
        return name, Cursor.parse(cursor) if cursor else None
    months = [each for each in places if each.startswith((_ARCHIVE, _ARCHIVED_TASKS))]
    if name.startswith((_ARCHIVE, _ARCHIVED_TASKS)):
        return (months or ["revisions"])[0], None
    raise InvalidInput(f"{after!r:.80} is no place where a lot begins: give the `next` of the lot before")


async def _renew_stored(encryption: Encryption, revisions: Collection[Revision], letter: DeadLetter) -> DeadLetter:
    """Renew a letter. Its errors may quote the values that it had before edits."""
    fresh, former = encryption.renew_letter(letter), await _former_versions(revisions, letter)
    return encryption.mask_errors(fresh, _secrets_of(encryption, letter, former)) if former else fresh


async def _former_versions(revisions: Collection[Revision], letter: DeadLetter) -> list[Revision]:
    numbers = range(max(letter.revision - _REVISIONS, 0), letter.revision)
    found = await revisions.get([revision_key(letter.entry_id, each) for each in numbers]) if numbers else ()
    return [each for each in found if isinstance(each, Revision)]


def _secrets_of(encryption: Encryption, letter: DeadLetter, revisions: Sequence[Revision]) -> list[str]:
    """Return what the letter's former versions have encrypted, or are to have."""
    return [
        text
        for each in revisions
        for text in encryption.secrets_in(
            each.task, Json.of(each.payload_types or {}), Binding.of(evolve_letter(letter, entry_id=each.entry_id))
        )
    ]


async def _renew_stored_revision(encryption: Encryption, context: QueueContext, revision: Revision) -> Revision:
    letter = await get_one(context.store.collection(LETTERS), revision.letter_key)
    if letter is None or not letter.knows(revision.entry_id):
        letter = await get_one(context.store.collection(HISTORY), revision.entry_id)
    return revision if letter is None else _renew_revision(encryption, letter, revision)


def _renew_revision(encryption: Encryption, letter: DeadLetter, revision: Revision) -> Revision:
    owner = evolve_letter(letter, entry_id=revision.entry_id)
    before = Json.of(revision.payload_types) if revision.payload_types else EMPTY
    task, types = encryption.renew(revision.task, before, Binding.of(owner))
    metadata = encryption.renew_untyped(revision.metadata, Binding.of(owner, METADATA))
    metadata = encryption.mask_told(
        metadata, [*encryption.secrets_of(letter), *_secrets_of(encryption, letter, [revision])]
    )
    if task is revision.task and types is before and metadata is revision.metadata:
        return revision
    return replace(revision, task=task, payload_types=types.value or None, metadata=metadata)


def _renew_copy(encryption: Encryption, copy: ArchivedLetter) -> ArchivedLetter:
    """Renew an archived letter. Raises CorruptRecord for a damaged copy."""
    if not copy.is_intact():
        raise CorruptRecord(copy.key, "its checksum differs from what was written")
    letter: DeadLetter = copy.read_letter()
    former, revisions = copy.read_former(), copy.read_revisions()
    others = [_renew_revision(encryption, letter, each) for each in revisions]
    secrets = _secrets_of(encryption, letter, others)
    fresh = encryption.mask_errors(encryption.renew_letter(letter), secrets)
    formers: list[FormerLetter] = [encryption.mask_errors(encryption.renew_letter(each), secrets) for each in former]
    if fresh is letter and all(a is b for a, b in zip([*former, *revisions], [*formers, *others], strict=True)):
        return copy
    text = copy.letter if fresh is letter else LETTERS.document(fresh)
    olds = tuple(HISTORY.document(each) for each in formers)
    edits = tuple(REVISIONS.document(each) for each in others)
    return replace(copy, letter=text, former=olds, revisions=edits, checksum=checksum_of(text, olds, edits))


def _renew_task_copy(encryption: Encryption, copy: ArchivedTask) -> ArchivedTask:
    """Renew an archived lifecycle task, which keeps its letters' ids. Raises CorruptRecord for a damaged copy."""
    task = copy.read_task()
    fresh, moves = renew_task(task, encryption), copy.read_transitions()
    secrets = encryption.secrets_in(fresh.context, fresh.context_types, binding_of(task))
    masked = [_mask_move(each, secrets, encryption) for each in moves]
    if fresh is task and all(old is new for old, new in zip(moves, masked, strict=True)):
        return copy
    text, texts = TASKS.document(fresh), tuple(TRANSITIONS.document(each) for each in masked)
    return replace(copy, task=text, transitions=texts, checksum=checksum_of(text, texts))


async def _mask_stored_move(
    encryption: Encryption, tasks: Collection[TaskRecord], each: OldTransition
) -> OldTransition:
    task = await get_one(tasks, each.task_id)
    known = () if task is None else encryption.secrets_in(task.context, task.context_types, binding_of(task))
    return _mask_move(each, known, encryption)
