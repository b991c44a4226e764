"""The audit log: every act of a person or a rule is written before it is done, and completed after it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from copy import copy
from datetime import datetime
from typing import Any, TypeAlias, cast

from msgspec import Struct, field
from msgspec.structs import replace

from mahavishnu.model.clock import Clock, read_instant
from mahavishnu.model.errors import InvalidInput, MahavishnuError, PermissionDenied, StoreError, StoreUnavailable
from mahavishnu.model.events import (
    DELETED_VALUE,
    AuditedState,
    AuditEntry,
    AuditOutcome,
    Changes,
    changes_between,
    limit_changes,
    run_subjects,
    without_contents,
)
from mahavishnu.model.ids import DEFAULT_NAMESPACE, new_entry_id
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import MASK
from mahavishnu.model.permissions import Principal
from mahavishnu.model.query import (
    ALL_NAMESPACES,
    Between,
    Condition,
    Is,
    Many,
    Query,
    Sort,
    require_namespace,
    written_namespace,
)
from mahavishnu.stores.base import (
    Collection,
    Cursor,
    Page,
    Store,
    home_of,
    scan,
    update_with_retry,
    write_one,
    write_with_retry,
)
from mahavishnu.stores.kind import TEXT, ReconcileResult
from mahavishnu.stores.kinds import HISTORY, LETTERS
from mahavishnu.stores.record_codec import record_kind
from mahavishnu.stores.scoped import NamespaceRecords
from mahavishnu.values.payload import is_secret, redact

log = logging.getLogger(__name__)
MayAct: TypeAlias = Callable[[str, str], Awaitable[bool]]
"""Whether somebody of this name may do this: the rule of an application, asked besides the permissions."""
_acting: ContextVar[tuple[str | None, str]] = ContextVar("mahavishnu_acting", default=(None, "python"))
_NEWEST_FIRST = (Sort("at", descending=True), Sort("entry_id", descending=True))
_TRIES = 5
_FROM_USERS = ("task", "metadata", "patch")  # changes of these may contain what users gave


@contextmanager
def acting_as(*, role: str | None = None, via: str = "python") -> Iterator[None]:
    """Audit acts inside the block as done in this role and by this way: `python`, `cli`, `http` or `rule`.

    >>> with acting_as(role="operator", via="http"):
    ...     pass  # await dlq.letters.resolve("wf_1", by="ann")
    """
    token = _acting.set((role, via))
    try:
        yield
    finally:
        _acting.reset(token)


class AuditRecord(Struct):
    """The facts of an act while it is being done; its audit entry gets them at the end."""

    changes: Changes = field(default_factory=dict)
    why: str | None = None

    def add_change(self, before: AuditedState, after: AuditedState) -> None:
        """Record the fields that differ between two states of a letter, or of a mapping."""
        self.changes |= changes_between(before, after)

    def add(self, **values: Any) -> None:
        """Record other facts: counts, or the query that was used."""
        self.changes |= {name: {"after": value} for name, value in values.items()}

    def refuse(self, why: str) -> None:
        """Record that the act was refused, although nothing is raised."""
        self.why = why


class AuditLog:
    """The acts of people and rules: writes audit entries and finds them."""

    @classmethod
    def for_queue(cls, queue: Any) -> AuditLog:
        """Return the log that the queue's context writes."""
        log: AuditLog = queue.context.audit
        return log

    def __init__(
        self,
        store: Store,
        clock: Clock,
        open_store: Callable[[], Awaitable[object]],
        redact_keys: Callable[[], Sequence[str]],
        namespace: str = DEFAULT_NAMESPACE,
        principal: Principal | None = None,
        may: MayAct | None = None,
    ) -> None:
        """Await `open_store` before the store is used; mask values under `redact_keys` in entries.

        Entries are about letters of `namespace`, unless they name another one; those of `*` are only read. With a
        `principal`, only permitted acts are done, and only if `may` agrees.
        """
        self._store, self._clock, self._open, self._redact_keys = store, clock, open_store, redact_keys
        self._namespace = namespace
        self._principal, self._may = principal, may
        scope = principal.scope if principal else None
        self._entries = NamespaceRecords(store.collection(AUDIT), namespace, True, scope, frozenset({"namespace"}))
        self._letters, self._history = store.collection(LETTERS), store.collection(HISTORY)

    async def list(
        self,
        *,
        actor: Many | None = None,
        action: Many | None = None,
        subject: Many | None = None,
        outcome: Many | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
        after: Cursor | str | None = None,
    ) -> Page[AuditEntry]:
        """List entries, newest first; `page.next` is where the next page begins. Filters take one value or several.

        With a letter as `subject`, the entries of the bulk runs that have moved it are included. `since` is included,
        `until` is not. Raises InvalidInput for filters that make no sense, and StoreError.
        """
        await self._open()
        named = {"actor": actor, "action": action, "subject": subject, "outcome": outcome}
        wanted = {
            name: (value,) if isinstance(value, str) else tuple(value)
            for name, value in named.items()
            if value is not None
        }
        unseen = None
        if "subject" in wanted:
            runs, unseen = await self._subjects_of_runs(wanted["subject"])
            wanted["subject"] += runs
        where: list[Condition] = [Is(name, values) for name, values in wanted.items()]
        if since is not None or until is not None:
            where.append(Between("at", at_least=read_instant(since, "since"), below=read_instant(until, "until")))
        cursor = Cursor.parse(after) if isinstance(after, str) else after
        page = await self._entries.find(Query(tuple(where), _NEWEST_FIRST, limit), cursor)
        entries = await self._visible_parts(page.items)
        if self._principal is not None and not self._principal.sees_payloads:
            entries = [replace(each, changes=_without_payloads(each.changes)) for each in entries]
        return replace(page, items=entries, degraded=page.degraded or unseen)

    async def _visible_parts(self, entries: Sequence[AuditEntry]) -> Sequence[AuditEntry]:
        """Return the visible entries: for a part of a namespace, those about its letters, and the reader's own acts."""
        who = self._principal
        if who is None or who.scope.queues is who.scope.adapters is None:
            return entries
        keys = sorted({each.subject.removeprefix("letter:") for each in entries if each.subject.startswith("letter:")})
        found = await self._letters.get(keys) if keys else []
        letters = {each.key for each in found if isinstance(each, DeadLetter) and who.scope.covers_record(each)}
        return [
            each
            for each in entries
            if each.subject.removeprefix("letter:") in letters
            or (each.actor == who.name and not each.subject.startswith("letter:"))
        ]

    async def record_denial(
        self, actor: str, role: str | None, action: str, subject: str, why: str, where: str | None = None
    ) -> AuditEntry:
        """Write an entry of action `denied`: an actor tried something forbidden. Raises StoreError."""
        if self._principal is not None and actor != self._principal.name:
            await self.require("work", subject, where)
        await self._open()
        entry = self._entry("denied", subject, actor, None, where=where)
        refused = replace(entry, role=role, outcome=AuditOutcome.REFUSED, why=f"{action}: {why}", ended_at=entry.at)
        stored = await write_one(self._entries, refused)
        if stored is None:
            raise _exists(refused)
        return stored

    async def require(self, action: str, subject: str, where: str | None = None, *, makes: Any = None) -> None:
        """Raise PermissionDenied, once that is written down, if the principal may not do this. Raises StoreError.

        All permissions are checked here; without a principal the application itself acts. An act that `makes` a record
        needs the permission for that one, too: it may be in another namespace or queue, or of another adapter.
        """
        who = self._principal
        if who is None:
            return
        namespace = self._namespace if where is None else where
        why = who.why_not(action, None if namespace == ALL_NAMESPACES else namespace, makes)
        if why is None and self._may is not None:
            why = await _refusal(self._may, who.name, action)
        if why is not None:
            where = DEFAULT_NAMESPACE if namespace == ALL_NAMESPACES else namespace
            await self.record_denial(who.name, who.role, action, subject, why, where)
            raise PermissionDenied(action, why)

    def require_now(self, action: str) -> None:
        """Raise PermissionDenied as `require`, without waiting: logged, not audited; an application's rule denies."""
        if (who := self._principal) is None:
            return
        why = who.why_not(action, None if self._namespace == ALL_NAMESPACES else self._namespace)
        if why is None and self._may is not None:
            why = "needs the application's own rule, which cannot be asked here"
        if why is not None:
            log.warning("%s was refused to %s: it %s", action, who.name, why)
            raise PermissionDenied(action, why)

    async def _subjects_of_runs(self, subjects: Sequence[str]) -> tuple[tuple[str, ...], str | None]:
        """Return subjects of the bulk runs that moved the letters among `subjects`, and why some may be missing."""
        keys = [subject.removeprefix("letter:") for subject in subjects if subject.startswith("letter:")]
        if not keys:
            return (), None
        try:
            found = [letter for letter in await self._letters.get(keys) if isinstance(letter, DeadLetter)]
            formers = [entry_id for letter in found for entry_id in letter.absorbed]
            history = await self._history.get(formers) if formers else []
        except StoreUnavailable as problem:
            return (), str(problem)
        return run_subjects([*found, *(each for each in history if isinstance(each, DeadLetter))]), None

    @asynccontextmanager
    async def record(
        self,
        action: str,
        subject: str,
        *,
        by: str,
        reason: str | None = None,
        via: str | None = None,
        entry_id: str | None = None,
        where: str | None = None,
    ) -> AsyncIterator[AuditRecord]:
        """Write that `by` asks for this act, let the body do it, then write how it ended.

        It is about letters of the namespace `where`, if not of the log's own. Raises InvalidInput where that is all.

        Raises StoreError, before the body runs, if the entry cannot be written. An error that the body raises becomes
        the reason of a refusal, except StoreError: then, as after a crash, the entry says `asked`, which is true. It
        also stays `asked` if the end of the act cannot be written: that is logged, and the act stands.

        With an `entry_id` of its own, an act that another process begins again is the same entry.
        """
        await self._open()
        await self.require(action, subject, where)
        entry = self._entry(action, subject, by, reason, via, where)
        if entry_id is None:
            asked = await write_one(self._entries, entry)
        else:
            asked = await self._begin(replace(entry, entry_id=entry_id))
        if asked is None:
            raise _exists(entry)
        record = AuditRecord()
        try:
            yield record
        except StoreUnavailable:
            raise
        except MahavishnuError as problem:
            record.refuse(str(problem))
            may_be_done = isinstance(problem, StoreError)
            await self._complete(asked, record, AuditOutcome.ASKED if may_be_done else AuditOutcome.REFUSED)
            raise
        await self._complete(asked, record, AuditOutcome.DONE if record.why is None else AuditOutcome.REFUSED)

    def _entry(
        self, action: str, subject: str, by: str, reason: str | None, via: str | None = None, where: str | None = None
    ) -> AuditEntry:
        if not isinstance(by, str) or not by:
            raise InvalidInput(f"who does it must be named by a text, not {by!r:.80}")
        if not isinstance(reason, str | None):
            raise InvalidInput(f"notes must be text, not {reason!r:.80}")
        now = self._clock.now()
        role, usual_way = _acting.get()
        namespace = written_namespace(require_namespace(self._namespace if where is None else where))
        return AuditEntry(
            new_entry_id(now), now, by, action, subject, role, via or usual_way, reason=reason, namespace=namespace
        )

    async def _begin(self, entry: AuditEntry) -> AuditEntry:
        """Write the entry, in the place of one that a dead process may have left."""

        def replace_stored(there: AuditEntry | None) -> AuditEntry:
            return replace(entry, version=there.version if there else None)

        _, stored = await write_with_retry(
            self._entries, entry.key, replace_stored, what="audit entry", known=None, tries=_TRIES
        )
        return cast("AuditEntry", stored)

    async def _complete(self, asked: AuditEntry, record: AuditRecord, outcome: AuditOutcome) -> None:
        try:
            changes = limit_changes(without_secrets(record.changes, self._redact_keys()))
            end: dict[str, Any] = {"outcome": outcome, "why": record.why, "changes": changes}
            end["ended_at"] = self._clock.now()
            await write_with_retry(
                self._entries,
                asked.key,
                lambda current: replace(current or replace(asked, version=None), **end),
                what="audit entry",
                known=asked,
                tries=_TRIES,
            )
        except (StoreError, InvalidInput) as problem:
            log.warning("it is not on record what came of %s of %s: %s", asked.action, asked.subject, problem)


async def _refusal(may: MayAct, name: str, action: str) -> str | None:
    """Return why the application's own rule refuses an act; an error in the rule refuses, too."""
    try:
        return None if await may(name, action) is True else f"is refused to {name} by the application's own rule"
    except Exception:
        log.exception("whether %s may %s cannot be told, so it is refused", name, action)
        return f"is refused to {name}: the application's own rule failed"


def _exists(entry: AuditEntry) -> StoreUnavailable:
    """Return the error for an id that is taken; ids are random, so no other entry has this one."""
    return StoreUnavailable(f"audit entry {entry.key} is there already")


def _without_payloads(changes: Json) -> Json:
    """Return the changes without the values of tasks, metadata and queries."""
    shown = {
        name: dict.fromkeys(change, MASK) if name.split("/")[0] in (*_FROM_USERS, "query") else change
        for name, change in changes.value.items()
    }
    return Json.of(shown, "changes")


def without_secrets(changes: Changes, patterns: Sequence[str]) -> Changes:
    """Mask here too what is masked in captured payloads: the audit lasts, and many may read it."""
    masked: Changes = {}
    for name, change in changes.items():
        first, *path = name.split("/")
        if patterns and first in _FROM_USERS:
            hidden = any(is_secret(key.replace("~1", "/").replace("~0", "~"), patterns) for key in path)
            change = {side: MASK if hidden else redact(value, patterns) for side, value in change.items()}
        masked[name] = change
    return masked


def _completed_entry(theirs: AuditEntry, ours: AuditEntry, now: datetime) -> ReconcileResult[AuditEntry]:
    """Only one process writes an entry, twice: the completed one is the later one."""
    later = theirs.outcome is AuditOutcome.ASKED and ours.outcome is not AuditOutcome.ASKED
    return ReconcileResult(replace(ours, version=theirs.version) if later else None)


AUDIT = record_kind(
    AuditEntry,
    name="audit",
    index="dlq_audit",
    key="entry_id",
    types={"reason": TEXT, "why": TEXT},
    indexes=[("at", "entry_id"), ("subject", "at"), ("actor", "at")],
    reconcile=_completed_entry,
)


def log_at_home(log: AuditLog) -> AuditLog:
    """Return the log without a local store: it writes into the store that all processes share, or raises."""
    shared = copy(log)
    shared._entries = replace(log._entries, records=home_of(log._store).collection(AUDIT))
    return shared


async def forget_contents(entries: Collection[AuditEntry], subject: str) -> None:
    """Remove a subject's contents from its entries, except those of its deletion; actors stay. Raises StoreError."""

    def strip(entry: AuditEntry) -> AuditEntry:
        reason = entry.reason and DELETED_VALUE
        bare = replace(entry, changes=without_contents(entry.changes), reason=reason, why=entry.why and DELETED_VALUE)
        return entry if bare == entry else bare

    async for entry in scan(entries, Query((Is("subject", (subject,)),))):
        if entry.action != "delete":
            await update_with_retry(entries, entry.key, strip, what="audit entry")
