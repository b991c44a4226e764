"""Encrypts what is stored already: what was kept in clear before encryption was switched on, or by an older key.

It goes through the records lot by lot and changes each by compare-and-set. What is as it should be is left alone, so
whoever begins again after a crash goes on where that happened, and two who do it at once do no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mahavishnu.core.queue.archive_places import ArchivePlaces
from mahavishnu.engine.context import DEFAULT_ACTOR, QueueContext
from mahavishnu.engine.encryption import Encryption
from mahavishnu.engine.waiting_room import WAITING
from mahavishnu.model.errors import CannotRestore, CorruptRecord, InvalidInput
from mahavishnu.model.json_value import EMPTY, Json
from mahavishnu.model.letter import DeadLetter, FormerLetter
from mahavishnu.model.namespaces import require_namespace
from mahavishnu.model.query import Query
from mahavishnu.stores.archived import ArchivedLetter, checksum_of
from mahavishnu.stores.base import Collection, Cursor, home_of, update_with_retry
from mahavishnu.stores.kinds import HISTORY, LETTERS, REVISIONS
from mahavishnu.stores.retained import Revision

MOST_AT_ONCE = 5000
_ARCHIVE = "archive:"


@dataclass(frozen=True, slots=True)
class RenewedLot:
    """What came of one lot: how many records were looked at and are `changed`, or would be; `failed` says why others
    could not be, by their keys. `next` is where the next lot begins; None: there is none.
    """

    looked_at: int = 0
    changed: int = 0
    failed: Mapping[str, str] = field(default_factory=dict)
    next: str | None = None

    def plus(self, later: RenewedLot) -> RenewedLot:
        """Both as one."""
        looked_at, changed = self.looked_at + later.looked_at, self.changed + later.changed
        return RenewedLot(looked_at, changed, {**self.failed, **later.failed}, later.next)


class EncryptionRenewal:
    """Encrypts the stored letters of a namespace, and the items of its queues, by the key that encrypts now.

    That is what letters, former letters, revisions, waiting failures and the attached months of the archive have.
    """

    def __init__(self, context: QueueContext) -> None:
        self._context = context

    async def renew(
        self, *, dry_run: bool = True, limit: int = 500, after: str | None = None, by: str = DEFAULT_ACTOR
    ) -> RenewedLot:
        """Look at the next `limit` records, and unless `dry_run`, encrypt what is to be. Raises InvalidInput where
        nothing is encrypted, and StoreError; then begin again with the same `after`.

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
        places = await self._places(encryption)
        name, cursor = _place(after, places)
        if dry_run:
            return await self._lot(places, name, cursor, limit, namespace, dry_run=True)
        async with self._context.audit.record("encrypt", "queue", by=by) as record:
            lot = await self._lot(places, name, cursor, limit, namespace, dry_run=False)
            record.add(place=name, looked_at=lot.looked_at, changed=lot.changed, failed=len(lot.failed))
        return lot

    async def renew_all(self, *, dry_run: bool = True, by: str = DEFAULT_ACTOR) -> RenewedLot:
        """All lots, one after the other. Raises what `renew` raises; what was done stays done."""
        done = await self.renew(dry_run=dry_run, by=by)
        while done.next is not None:
            done = done.plus(await self.renew(dry_run=dry_run, after=done.next, by=by))
        return done

    async def _places(self, encryption: Encryption) -> Mapping[str, tuple[Collection[Any], Callable[[Any], Any]]]:
        """Where records are, in the order in which they are looked at, and what makes them what they should be."""
        store = self._context.store
        letter, revision = encryption.renew_letter, _renew_revision(encryption)
        found: dict[str, tuple[Collection[Any], Callable[[Any], Any]]] = {
            "waiting": (store.collection(WAITING), letter),  # first: from here to there letters go meanwhile
            "letters": (store.collection(LETTERS), letter),
            "history": (store.collection(HISTORY), letter),
            "revisions": (self._context.revisions, revision),
        }
        archive = ArchivePlaces(home_of(store), self._context.clock)
        for partition in await archive.find_attached():
            found[_ARCHIVE + partition.name] = (archive.letters(partition.name), _renew_copy(encryption))
        return found

    async def _lot(
        self,
        places: Mapping[str, tuple[Collection[Any], Callable[[Any], Any]]],
        name: str,
        cursor: Cursor | None,
        limit: int,
        namespace: str,
        *,
        dry_run: bool,
    ) -> RenewedLot:
        records, change = places[name]
        page = await records.find(Query(limit=limit), cursor)
        changed, failed = (
            0,
            {problem.key: str(problem) for problem in page.corrupt if isinstance(problem, CorruptRecord)},
        )
        for record in await self._of_namespace(page.items, namespace):
            try:
                if (fresh := change(record)) is record:
                    continue
                if not dry_run:
                    update = await update_with_retry(records, fresh.key, change, what=name)
                    changed += update is not None and update.after is not update.before
                else:
                    changed += 1
            except (CannotRestore, CorruptRecord) as problem:
                failed[record.key] = str(problem)
        names = list(places)
        following = names[names.index(name) + 1 :]
        then = f"{name} {page.next}" if page.next is not None else f"{following[0]} " if following else None
        return RenewedLot(len(page.items), changed, failed, then)

    async def _of_namespace(self, records: Sequence[Any], namespace: str) -> list[Any]:
        """Those of a namespace, and of its queues. A revision is where its letter is."""
        where = [getattr(each, "namespace", None) for each in records]
        if records and isinstance(records[0], Revision):
            store = self._context.store
            letters = await store.collection(LETTERS).get([each.letter_key for each in records])
            former = await store.collection(HISTORY).get([each.entry_id for each in records])
            where = [
                next((each.namespace for each in pair if isinstance(each, DeadLetter)), None)
                for pair in zip(letters, former, strict=True)
            ]
        return [
            record
            for record, own in zip(records, where, strict=True)
            if own is not None and own.partition("@")[0] == namespace
        ]


def _place(after: str | None, places: Mapping[str, Any]) -> tuple[str, Cursor | None]:
    name, _, cursor = (next(iter(places)) + " " if after is None else after).partition(" ")
    if name not in places:
        raise InvalidInput(f"{after!r:.80} is no place where a lot begins: give the `next` of the lot before")
    return name, Cursor.parse(cursor) if cursor else None


def _renew_revision(encryption: Encryption) -> Callable[[Revision], Revision]:
    def renew(revision: Revision) -> Revision:
        before = Json.of(revision.payload_types) if revision.payload_types else EMPTY
        task, types = encryption.renew(revision.task, before)
        metadata = encryption.renew_untyped(revision.metadata)
        if task is revision.task and types is before and metadata is revision.metadata:
            return revision
        return replace(revision, task=task, payload_types=types.value or None, metadata=metadata)

    return renew


def _renew_copy(encryption: Encryption) -> Callable[[ArchivedLetter], ArchivedLetter]:
    """What renews a letter in the archive. Raises CorruptRecord for one that is not what was put there."""

    def renew(copy: ArchivedLetter) -> ArchivedLetter:
        if not copy.is_intact():
            raise CorruptRecord(copy.key, "its checksum differs from what was written")
        letter: DeadLetter = copy.read_letter()
        former, revisions = copy.read_former(), copy.read_revisions()
        fresh = encryption.renew_letter(letter)
        formers: list[FormerLetter] = [encryption.renew_letter(each) for each in former]
        others = [*map(_renew_revision(encryption), revisions)]
        if fresh is letter and all(a is b for a, b in zip([*former, *revisions], [*formers, *others], strict=True)):
            return copy
        text = copy.letter if fresh is letter else LETTERS.document(fresh)
        olds = tuple(HISTORY.document(each) for each in formers)
        edits = tuple(REVISIONS.document(each) for each in others)
        return replace(copy, letter=text, former=olds, revisions=edits, checksum=checksum_of(text, olds, edits))

    return renew
