"""The archive: closed letters go there after retention, and can be listed, shown, exported and restored."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import replace as replace_rules
from datetime import datetime
from functools import partial
from typing import Any

from msgspec.structs import replace

from mahavishnu.archive.archiving import Archiving
from mahavishnu.archive.deletion import Deletion
from mahavishnu.archive.export import ArchiveExport
from mahavishnu.archive.partitions import (
    A,
    ArchivedCase,
    ArchivedLine,
    ArchivePage,
    ArchiveReader,
    CopyLine,
    ListPart,
    Partitions,
    read_case,
    remove_all,
    require_home,
    restore_letter,
)
from mahavishnu.archive.records import ArchivePartition, PartitionState
from mahavishnu.archive.rules import ArchiveResult, is_past, old_records
from mahavishnu.archive.tasks import (
    ArchivedTaskCase,
    ArchivedTaskPage,
    TaskArchiving,
    find_task_case,
    search_task_copies,
    tasks_of_letter,
)
from mahavishnu.bulk.records import RUN_PAGES, RUNS
from mahavishnu.bulk.run import BulkRun
from mahavishnu.engine.audit import AUDIT
from mahavishnu.engine.context import DEFAULT_ACTOR, QueueContext
from mahavishnu.engine.periodic import PeriodicTask
from mahavishnu.engine.queue import LetterQueue
from mahavishnu.letters.ledger import Ledger
from mahavishnu.model.clock import read_instant, require_days
from mahavishnu.model.errors import InvalidInput, MahavishnuError, NoSuchLetter, StoreUnavailable
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import ALL_NAMESPACES, Condition, Is, Query, items_namespace, require_namespace
from mahavishnu.model.record import Value
from mahavishnu.model.rules import BY_RETENTION, RetentionRules
from mahavishnu.queues.service import NamedQueues
from mahavishnu.stores.base import Cursor, home_of, is_home_away, pages
from mahavishnu.stores.kinds import LETTERS, REVISIONS
from mahavishnu.stores.scoped import NamespaceRecords


class PartitionView(Value, frozen=True):
    """A partition, and how many copies it has; None while it is detached."""

    partition: ArchivePartition
    letters: int | None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that lists show."""
        names = ("name", "month", "state", "made_at", "detached_at", "kept")
        return {**{name: getattr(self.partition, name) for name in names}, "letters": self.letters}


log = logging.getLogger(__name__)
_TOMBSTONES_SECONDS = 3600.0


class Archive:
    """The archive: closed letters, in a partition for each month."""

    def __init__(self, context: QueueContext) -> None:
        self._context = context

    async def archive_completed_tasks(
        self, retention_days: int = 30, batch_size: int = 1000, dry_run: bool = True, *, by: str = DEFAULT_ACTOR
    ) -> ArchiveResult:
        """Archive the letters whose cases ended more than `retention_days` ago; with `dry_run` only count them.

        Lifecycle tasks that ended so long ago go too, unless `retention.tasks_days` keeps them for ever. Cancelled and
        permanently failed letters follow `retention.cancelled_days` and `retention.permanently_failed_days`, and stay
        by default. Open letters and those of groups on hold always stay. Each letter takes its former letters and
        revisions along. Repeating it continues an interrupted pass.

        Raise InvalidInput for invalid numbers, and StoreError.

        >>> (await dlq.archive.archive_completed_tasks(dry_run=False)).tasks_archived  # doctest: +SKIP
        1412
        """
        _require_number("batch_size", batch_size)
        require_days(retention_days, "retention_days")
        rules = replace_rules(self._context.rules(RetentionRules), completed_days=retention_days)
        if rules.tasks_days is not None:
            rules = replace_rules(rules, tasks_days=retention_days)
        return await self._archive(rules, batch_size, dry_run, by)

    async def run(self, *, dry_run: bool = True, by: str = DEFAULT_ACTOR) -> ArchiveResult:
        """Archive by the settings `retention.*`, as in the background. Raise StoreError."""
        rules = self._context.rules(RetentionRules)
        return await self._archive(rules, rules.batch_size, dry_run, by)

    async def maintain(self) -> None:
        """Run periodic maintenance: archive, detach old partitions, delete expired records."""
        rules, context = self._context.rules(RetentionRules), self._context
        await context.require("work")
        if not rules.enabled or is_home_away(context.store):
            return
        await context.open()
        partitions = self._partitions()
        has_letters = await Archiving(context, rules, partitions).has_work()
        if has_letters or await TaskArchiving(context, rules, partitions).has_work():
            await self._archive(rules, rules.batch_size, False, BY_RETENTION)
        await _delete_old_records(context, rules)
        for each in await partitions.find_attached():
            if not each.kept and is_past(each.month, rules, context.clock.now()):
                await self.detach(each.name, by=BY_RETENTION)

    async def _archive(self, rules: RetentionRules, batch_size: int, dry_run: bool, by: str) -> ArchiveResult:
        context = self._context
        require_namespace(context.namespace)
        start = context.clock.monotonic()
        await context.open()
        partitions = self._partitions()
        if dry_run:
            return await self._run(partitions, rules, batch_size, True, by, start)
        async with context.audit.record("archive.run", "queue", by=by) as record:
            try:
                result = await self._run(partitions, rules, batch_size, False, by, start)
            except Exception:
                context.counts["archive_failures"] += 1
                raise
            context.counts["archive_failures"] += len(result.failed)
            context.meters.count("mahavishnu_tasks_archived_total", result.tasks_archived)
            context.meters.observe("mahavishnu_archive_execution_time_seconds", result.execution_time_ms / 1000)
            tracked = result.lifecycle_tasks_archived
            record.add(archived=result.tasks_archived, lifecycle_tasks=tracked, failed=len(result.failed))
        return result

    async def _run(
        self, partitions: Partitions, rules: RetentionRules, batch_size: int, dry_run: bool, by: str, start: float
    ) -> ArchiveResult:
        """Archive letters first: a task that failed stays as long as its letter is open."""
        tasks = TaskArchiving(self._context, rules, partitions)
        result = await Archiving(self._context, rules, partitions, by).run(batch_size, dry_run=dry_run)
        return replace(
            result,
            lifecycle_tasks_archived=await tasks.run(batch_size, dry_run=dry_run),
            execution_time_ms=round((self._context.clock.monotonic() - start) * 1000, 3),
            failed={**result.failed, **tasks.failed},
        )

    async def list(self, limit: int = 100, after: Cursor | str | None = None) -> ArchivePage:
        """Return archived letters, the latest end first; `page.next` begins the next page. Raise StoreError."""
        return await self.search(limit=limit, after=after)

    async def search(
        self,
        *,
        task_id: str | None = None,
        category: str | None = None,
        resolution: str | None = None,
        fingerprint: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
        after: Cursor | str | None = None,
    ) -> ArchivePage:
        """Return archived letters that match, closed from `since` until `until`. Raise InvalidInput and StoreError."""
        part = await self._open_list(since, until, limit, after)
        where = _all_of(task_id=task_id, error_category=category, resolution_status=resolution, fingerprint=fingerprint)
        found = await ArchiveReader(self._context).find(where, part)
        return replace(found, items=[self._show(line, letter="", former=(), revisions=()) for line in found.items])

    async def search_tasks(
        self,
        *,
        task_id: str | None = None,
        name: str | None = None,
        state: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
        after: Cursor | str | None = None,
    ) -> ArchivedTaskPage:
        """Return the archived lifecycle tasks that match all filters, or all of them, the latest end first.

        They ended from `since` on and before `until`: only the partitions of that time are read. `page.next` begins the
        next page. Raise InvalidInput and StoreError.
        """
        part = await self._open_list(since, until, limit, after)
        found = await search_task_copies(self._context, _all_of(task_id=task_id, name=name, state=state), part)
        return replace(found, items=[self._show(line, task="", transitions=()) for line in found.items])

    def _show(self, line: CopyLine[A], **without: Any) -> CopyLine[A]:
        """Return the line as its reader may see it."""
        return line if self._context.sees_payloads else replace(line, copy=replace(line.copy, **without))

    async def _open_list(
        self, since: datetime | None, until: datetime | None, limit: int, after: Cursor | str | None
    ) -> ListPart:
        _require_number("limit", limit)
        cursor = Cursor.parse(after) if isinstance(after, str) else after
        await self._context.open()
        return ListPart(read_instant(since, "since"), read_instant(until, "until"), limit, cursor)

    async def show(self, name: str, *, queue: str | None = None) -> ArchivedCase:
        """Return the archived letter with this entry id, or the latest of this task, and what belongs to it.

        Raise NoSuchLetter, which says so if it may be in a detached partition, and StoreError.
        """
        await self._context.require("read", f"archive:{name}")
        await self._context.open()
        line = await self._find_line(name, queue)
        await self._context.note_read("read", f"archive:{name}")
        return read_case(line, await tasks_of_letter(self._context, line.copy))

    async def show_task(self, task_id: str) -> ArchivedTaskCase:
        """Return the latest archived task of this id, its transitions and letter. Raise NoSuchTask and StoreError."""
        await self._context.require("archive.read_task", f"archive:{task_id}")
        await self._context.open()
        found = await find_task_case(self._context, task_id)
        await self._context.note_read("archive.read_task", f"archive:{task_id}")
        return found

    async def begin_export(self, *, by: str = DEFAULT_ACTOR) -> int:
        """Begin an export step with all that was archived since the last one; return its number, the watermark.

        Raise InvalidInput unless the setting `retention.analytics_export` is on, IllegalMove if another export began at
        the same moment, StoreError.
        """
        context = self._context
        await context.open()
        async with context.audit.record("archive.export", "queue", by=by) as record:
            step = await ArchiveExport(context).begin()
            record.add(step=step)
        return step

    async def export(self, after: int, upto: int, form: str = "jsonl") -> AsyncGenerator[str, None]:
        """Yield the archived letters of the steps after `after` up to `upto`, each as one line of JSON or of CSV.

        Each letter is in one step, so that consecutive exports have each once; asking again gives the same. Raise
        InvalidInput for incomplete steps, and StoreError rather than leave some out.
        """
        await self._context.require("export")
        await self._context.open()
        await self._context.note_read("export", "archive")
        async for line in ArchiveExport(self._context).lines(after, upto, form):
            yield line

    async def restore(
        self, name: str, *, by: str = DEFAULT_ACTOR, notes: str | None = None, queue: str | None = None
    ) -> DeadLetter:
        """Put the archived letter with this entry id, or the latest of this task, back into the queue as it was.

        It is still closed; redrive it to have it run. Its retention begins anew. Raise NoSuchLetter; IllegalMove if its
        task has failed again since and has another letter; StoreError.
        """
        line = await self._find_line(name, queue)
        subject = f"letter:{line.copy.letter_key}"
        where = line.copy.namespace
        async with self._context.audit.record("archive.restore", subject, by=by, reason=notes, where=where) as record:
            letter = await restore_letter(self._context, line)
            record.add(entry_id=letter.entry_id, partition=line.partition)
        return letter

    async def partitions(self) -> Sequence[PartitionView]:
        """Return all partitions of all namespaces, latest month first; counts only for readers of all letters."""
        await self._context.open()
        known, views = self._partitions(), []
        for each in await known.every():
            attached = each.state is PartitionState.ATTACHED
            counted = attached and self._context.scope is None
            views.append(PartitionView(each, await known.count(each.name) if counted else None))
        return views

    async def detach(self, partition: str, *, by: str = DEFAULT_ACTOR) -> str:
        """Detach a partition: its file may be moved away, its index is closed. Return its place.

        Raise NoSuchPartition, InvalidInput if the store cannot do that, and StoreError.
        """
        async with self._context.audit.record("archive.detach", f"partition:{partition}", by=by):
            place = await self._partitions().detach(partition)
        self._context.meters.count("mahavishnu_partitions_detached_total")
        return place

    async def attach(self, partition: str, *, by: str = DEFAULT_ACTOR) -> None:
        """Use a detached partition again, for as long as nobody detaches it. Raise as `detach` does."""
        async with self._context.audit.record("archive.attach", f"partition:{partition}", by=by):
            await self._partitions().attach(partition)

    async def drop(self, partition: str, *, by: str = DEFAULT_ACTOR) -> None:
        """Remove a detached partition for good, with all that is in it. Raise as `detach` does, and IllegalMove."""
        async with self._context.audit.record("archive.drop", f"partition:{partition}", by=by):
            await self._partitions().drop(partition)

    def _partitions(self) -> Partitions:
        return Partitions(require_home(self._context), self._context.clock, self._context.meters)

    async def _find_line(self, name: str, queue: str | None) -> ArchivedLine:
        await self._context.open()
        lines = await ArchiveReader(self._context).find_lines(name, queue)
        if not lines:
            raise NoSuchLetter(name, f"the archive has no letter {name!r:.220}")
        return max(lines, key=lambda line: line.copy.closed_at)


async def _delete_old_records(context: QueueContext, rules: RetentionRules) -> Counter[str]:
    """Delete old records by the rules in the shared store. Return how many of each kind. Raise StoreError."""
    home, count = home_of(context.store), Counter[str]()
    collections: dict[str, Any] = {
        "audit": NamespaceRecords(home.collection(AUDIT), context.namespace, default_is_none=True),
        "runs": NamespaceRecords(home.collection(RUNS), context.namespace, default_is_none=True),
        "revisions": home.collection(REVISIONS),
    }
    members, letters = home.collection(RUN_PAGES), home.collection(LETTERS)
    for name, query in old_records(rules, context.clock.now()).items():
        async for page in pages(collections[name], query):
            runs = tuple(each.run_id for each in page if isinstance(each, BulkRun))
            if runs:  # the members first: who knows the run finds what is left of it
                async for listed in pages(members, Query((Is("run_id", runs),))):
                    await members.remove(listed)
            old = page
            if name == "revisions":  # only their letters say in which namespace they are
                there = await letters.get([each.letter_key for each in page])
                pairs = zip(page, there, strict=True)
                old = [
                    each
                    for each, letter in pairs
                    if isinstance(letter, DeadLetter) and letter.namespace == context.namespace
                ]
            count[name] += (await remove_all(collections[name], old)).count(True)
    return count


def _require_number(name: str, value: Any) -> None:
    if type(value) is not int or not 1 <= value <= 10_000:
        raise InvalidInput(f"{name} is a whole number from 1 to 10000, not {value!r:.80}")


def _all_of(**named: str | None) -> tuple[Condition, ...]:
    return tuple(Is(name, (value,)) for name, value in named.items() if value is not None)


def chores(queue: LetterQueue) -> Iterable[PeriodicTask]:
    """Return the periodic tasks of retention."""

    async def remove_deleted() -> None:
        await Deletion(queue.context.in_namespace(ALL_NAMESPACES)).finish()
        ledger = Ledger(queue.context)
        await ledger.fold()
        await ledger.fold_others()

    def seconds() -> float:
        return queue.context.rules(RetentionRules).interval_minutes * 60

    return (
        PeriodicTask("removal of old tombstones", remove_deleted, lambda: _TOMBSTONES_SECONDS),
        PeriodicTask("retention", partial(archive_old, queue), seconds),
    )


async def archive_old(queue: LetterQueue) -> None:
    """Archive the letters, and the items of each named queue, also of a deleted one."""
    await queue.service(Archive).maintain()
    if is_home_away(queue.store):
        return
    for name in await queue.service(NamedQueues).names_with_items():
        inside = queue.in_namespace(items_namespace(queue.namespace, name))
        try:
            await inside.service(Archive).maintain()
            await Ledger(inside.context).fold()
        except StoreUnavailable:
            raise
        except MahavishnuError as problem:
            log.error("closed items of queue %r could not be archived: %s", name, problem)
