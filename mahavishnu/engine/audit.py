"""The audit: every act of a person or a rule is written down before it is done, and completed after it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from mahavishnu.engine.context import Desk
from mahavishnu.engine.letter_factory import MASK, is_secret, redact
from mahavishnu.model.clock import instant
from mahavishnu.model.errors import InvalidInput, MahavishnuError, StoreError, StoreUnavailable
from mahavishnu.model.events import (
    AuditedState,
    AuditEntry,
    AuditOutcome,
    Changes,
    changes_between,
    limit_changes,
    run_subjects,
)
from mahavishnu.model.ids import new_entry_id
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import Between, Condition, Is, Many, Query, Sort
from mahavishnu.stores.base import Collection, Cursor, Page, get_one, write_one
from mahavishnu.stores.codec import HISTORY

log = logging.getLogger(__name__)
_acting: ContextVar[tuple[str | None, str]] = ContextVar("mahavishnu_acting", default=(None, "python"))
_NEWEST_FIRST = (Sort("at", descending=True), Sort("entry_id", descending=True))
_TRIES = 5
_FROM_USERS = ("task", "metadata", "patch")  # what changes may tell of that users gave


@contextmanager
def acting_as(*, role: str | None = None, via: str = "python") -> Iterator[None]:
    """What is done inside is audited as done in this role and by this way: `python`, `cli`, `http` or `rule`.

    >>> with acting_as(role="operator", via="http"):
    ...     pass  # await dlq.resolve("wf_1", by="ann")
    """
    token = _acting.set((role, via))
    try:
        yield
    finally:
        _acting.reset(token)


@dataclass(slots=True)
class Audited:
    """What an act tells while it is done."""

    changes: Changes = field(default_factory=dict)
    why: str | None = None

    def changed(self, before: AuditedState, after: AuditedState) -> None:
        """A letter, or a mapping of fields, was that and is this. Telling it again replaces what was told."""
        self.changes |= changes_between(before, after)

    def noted(self, **values: Any) -> None:
        """What else is worth knowing: counts, the query that was meant."""
        self.changes |= {name: {"after": value} for name, value in values.items()}

    def refused(self, why: str) -> None:
        """It was not done, although nothing is raised."""
        self.why = why


class Auditing(Desk):
    """The part of `DeadLetterQueue` that remembers who did what."""

    _audit: Collection[AuditEntry]

    async def list_audit(
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
        """Who did what, newest first; `page.next` goes on. Filters take one value or several.

        With a letter as `subject` come the entries of the bulk runs that it says have moved it. `since` is included,
        `until` is not. Raises InvalidInput for filters that cannot be, and StoreError.
        """
        await self.open()
        named = {"actor": actor, "action": action, "subject": subject, "outcome": outcome}
        wanted = {
            name: (value,) if isinstance(value, str) else tuple(value)
            for name, value in named.items()
            if value is not None
        }
        unseen = None
        if "subject" in wanted:
            runs, unseen = await self._runs_of(wanted["subject"])
            wanted["subject"] += runs
        where: list[Condition] = [Is(name, values) for name, values in wanted.items()]
        if since is not None or until is not None:
            where.append(Between("at", at_least=since and instant(since), below=until and instant(until)))
        cursor = Cursor.parse(after) if isinstance(after, str) else after
        page = await self._audit.find(Query(tuple(where), _NEWEST_FIRST, limit), cursor)
        return replace(page, degraded=page.degraded or unseen)

    async def record_denial(self, actor: str, role: str | None, action: str, subject: str, why: str) -> AuditEntry:
        """Somebody wanted to do what they may not: one entry of action `denied`. Raises StoreError."""
        await self.open()
        entry = self._entry("denied", subject, actor, None)
        refused = replace(entry, role=role, outcome=AuditOutcome.REFUSED, why=f"{action}: {why}", ended_at=entry.at)
        return await self._written(refused)

    async def _runs_of(self, subjects: Sequence[str]) -> tuple[tuple[str, ...], str | None]:
        """As subjects, the runs that moved the letters among these, and why that may not be all of them."""
        keys = [subject.removeprefix("letter:") for subject in subjects if subject.startswith("letter:")]
        if not keys:
            return (), None
        try:
            found = [letter for letter in await self.letters.get(keys) if isinstance(letter, DeadLetter)]
            formers = [entry_id for letter in found for entry_id in letter.absorbed]
            history = await self.store.collection(HISTORY).get(formers) if formers else []
        except StoreUnavailable as problem:
            return (), str(problem)
        return run_subjects([*found, *(each for each in history if isinstance(each, DeadLetter))]), None

    @asynccontextmanager
    async def _audited(
        self,
        action: str,
        subject: str,
        *,
        by: str,
        reason: str | None = None,
        via: str | None = None,
        entry_id: str | None = None,
    ) -> AsyncIterator[Audited]:
        """Write down that `by` wants this, have it done inside, and write down what came of it.

        Raises StoreError, and does nothing, if it cannot be written down before. What is raised inside is the reason
        of a refusal; a StoreError is none: then, as after a crash, the entry says truthfully that it was asked for. So
        it does if what came of it cannot be written down: that is logged, and the act stands.

        With an `entry_id` of its own, an act that is begun again by somebody else is the same entry.
        """
        await self.open()
        entry = self._entry(action, subject, by, reason, via)
        asked = await (self._written(entry) if entry_id is None else self._begun(replace(entry, entry_id=entry_id)))
        told = Audited()
        try:
            yield told
        except StoreUnavailable:
            raise
        except MahavishnuError as problem:
            told.refused(str(problem))
            half_done = isinstance(problem, StoreError)  # or not begun: who can tell
            await self._completed(asked, told, AuditOutcome.ASKED if half_done else AuditOutcome.REFUSED)
            raise
        await self._completed(asked, told, AuditOutcome.DONE if told.why is None else AuditOutcome.REFUSED)

    def _entry(self, action: str, subject: str, by: str, reason: str | None, via: str | None = None) -> AuditEntry:
        if not isinstance(by, str) or not by:
            raise InvalidInput(f"who does it must be named by a text, not {by!r:.80}")
        if not isinstance(reason, str | None):
            raise InvalidInput(f"notes must be text, not {reason!r:.80}")
        now = self.clock.now()
        role, usual = _acting.get()
        return AuditEntry(new_entry_id(now), now, by, action, subject, role, via or usual, reason=reason)

    async def _written(self, entry: AuditEntry) -> AuditEntry:
        stored = await write_one(self._audit, entry)
        if stored is None:  # ids are random: nobody else has this one
            raise StoreUnavailable(f"audit entry {entry.key} is there already")
        return stored

    async def _begun(self, entry: AuditEntry) -> AuditEntry:
        """Written, in the place of one that somebody has left who could not go on."""
        for _ in range(_TRIES):
            if (stored := await write_one(self._audit, entry)) is not None:
                return stored
            there = await get_one(self._audit, entry.key)
            entry = replace(entry, version=there.version if there else None)
        raise StoreUnavailable(f"audit entry {entry.key} was changed by others {_TRIES} times in a row")

    async def _completed(self, asked: AuditEntry, told: Audited, outcome: AuditOutcome) -> None:
        now, current = self.clock.now(), asked
        try:
            changes = limit_changes(_without_secrets(told.changes, self.intake.redact_keys))
            for _ in range(_TRIES):
                ended = replace(current, outcome=outcome, why=told.why, changes=changes, ended_at=now)
                if await write_one(self._audit, ended) is not None:
                    return
                current = await get_one(self._audit, asked.key) or replace(asked, version=None)
        except (StoreError, InvalidInput) as problem:
            log.warning("it is not on record what came of %s of %s: %s", asked.action, asked.subject, problem)


def _without_secrets(changes: Changes, patterns: Sequence[str]) -> Changes:
    """What is masked in captured payloads is masked here too: the audit lasts, and many may read it."""
    told: Changes = {}
    for name, change in changes.items():
        first, *path = name.split("/")
        if patterns and first in _FROM_USERS:
            hidden = any(is_secret(key.replace("~1", "/").replace("~0", "~"), patterns) for key in path)
            change = {side: MASK if hidden else redact(value, patterns) for side, value in change.items()}
        told[name] = change
    return told
