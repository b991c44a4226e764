"""Exports the archive for analysis, step by step: each archived letter in one step, however many processes export.

A step marks the letters that have none with its number, each by compare-and-set, and only then it is read. A step that
begins ends the former one: it has a higher number before it looks, and an exporter looks whether the number is still
its own after it has read what it is about to mark. So nothing can be marked for a step any more once a later one has
passed, and reading up to a step that is complete gives the same lines for ever.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

from msgspec.structs import replace

from mahavishnu.archive.partitions import ArchivedLine, ArchiveReader, CopyLine
from mahavishnu.archive.records import PartitionState
from mahavishnu.engine.context import QueueContext
from mahavishnu.model.errors import IllegalMove, InvalidInput, StoreUnavailable, require_answers
from mahavishnu.model.query import Between, Missing, Query, Sort, require_namespace
from mahavishnu.model.record import Version, Versioned
from mahavishnu.model.rules import RetentionRules
from mahavishnu.stores.base import get_one, home_of, pages, scan, write_with_retry
from mahavishnu.stores.kind import to_json_value
from mahavishnu.stores.record_codec import record_kind
from mahavishnu.stores.scoped import SCOPED_FIELDS, NamespaceRecords

FORMATS = ("jsonl", "csv")
_COLUMNS = (
    *("export", "entry_id", "task_id", "namespace", "queue", "resolution_status", "reason", "error_category"),
    *("fingerprint", "adapter", "created_at", "closed_at", "archived_at", "partition"),
)
_NUMBERS = ("total_attempts", "retry_count", "occurrences", "generation", "dlq_retry_count", "priority")
_TEXTS = ("error", "last_error")
_AT_ONCE = 1000


class ExportSteps(Versioned, frozen=True):
    """The progress of a namespace's exports: the `number` of the latest step, and of the latest that is `complete`."""

    namespace: str
    number: int = 0
    complete: int = 0
    version: Version | None = None

    @property
    def key(self) -> str:
        return self.namespace


EXPORT_STEPS = record_kind(ExportSteps, name="archive_exports", index="dlq_archive_exports", key="namespace")


class ArchiveExport:
    """The export of the archived letters of one namespace."""

    def __init__(self, context: QueueContext) -> None:
        self._context, self._reader = context, ArchiveReader(context)
        self._steps = home_of(context.store).collection(EXPORT_STEPS)

    async def begin(self) -> int:
        """Mark all that was archived since the last step, see `Archive.begin_export`. Return the step's number."""
        if not self._context.rules(RetentionRules).analytics_export:
            raise InvalidInput("exports for analysis are off: switch on the setting retention.analytics_export")
        namespace = self._context.namespace
        require_namespace(namespace)
        number = (await self._change(lambda steps: replace(steps, number=steps.number + 1))).number
        for partition in await self._reader.partitions.find_attached():
            copies = self._reader.partitions.letters(partition.name)
            own = NamespaceRecords(copies, namespace)
            query = Query((Missing("export"),), (Sort("closed_at"),), _AT_ONCE)
            async for page in pages(own, query):
                fresh = await self._reader.only_effective(page)
                if not fresh:
                    continue
                if not await self._reader.partitions.note_export(partition.name, namespace, number):
                    break  # somebody has just detached it: a later step has what is in it
                await self._require_own(number)
                require_answers(await copies.write([replace(copy, export=number) for copy in fresh]))
        await self._require_own(number)
        return (await self._change(lambda steps: replace(steps, complete=max(steps.complete, number)))).complete

    async def lines(self, after: int, upto: int, form: str) -> AsyncGenerator[str, None]:
        """Yield the letters of the steps after `after` up to `upto` as lines. Raise InvalidInput and StoreError."""
        if form not in FORMATS:
            raise InvalidInput(f"the format of an export is {' or '.join(FORMATS)}, not {form!r:.80}")
        complete = (
            await get_one(self._steps, self._context.namespace) or ExportSteps(self._context.namespace)
        ).complete
        if not 0 <= after <= upto <= complete:
            raise InvalidInput(f"steps {after} to {upto} cannot be exported: {complete} are complete; begin a new one")
        await self._require_attached(after)
        if form == "csv" and after == 0:  # so that exports one after the other are one table
            yield _as_csv([*_COLUMNS, *_NUMBERS, *_TEXTS])
        where = (Between("export", at_least=after + 1, at_most=upto),)
        for partition in sorted(await self._reader.partitions.find_attached(), key=lambda each: each.name):
            copies = self._reader.partitions.letters(partition.name)
            own = NamespaceRecords(copies, self._context.namespace, False, self._context.scope, SCOPED_FIELDS)
            async for copy in scan(own, Query(where, (Sort("export"), Sort("closed_at")), _AT_ONCE)):
                line = CopyLine(partition.name, copy)
                yield _csv_line(line) if form == "csv" else _json_line(line)

    async def _require_own(self, number: int) -> None:
        """Raise IllegalMove if a later step has begun."""
        steps = await get_one(self._steps, self._context.namespace)
        if steps is None or steps.number != number:
            raise IllegalMove(
                self._context.namespace, "export", "being exported", "another export began: ask again", what="namespace"
            )

    async def _require_attached(self, after: int) -> None:
        for each in await self._reader.partitions.every():
            if each.state is PartitionState.DETACHED and each.exported.get(self._context.namespace, 0) > after:
                raise StoreUnavailable(f"partition {each.name} has letters of this export and is detached: attach it")

    async def _change(self, change: Callable[[ExportSteps], ExportSteps]) -> ExportSteps:
        namespace = self._context.namespace
        _, written = await write_with_retry(
            self._steps, namespace, lambda there: change(there or ExportSteps(namespace)), what="export"
        )
        assert written is not None
        return written


def _json_line(line: ArchivedLine) -> str:
    """Return the fields that lists show, with the letter as it was stored."""
    shown = {name: to_json_value(value) for name, value in line.to_dict().items()}
    head = json.dumps({"export": line.copy.export, **shown}, separators=(",", ":"))
    line.copy.read_letter()  # a letter that cannot be read is no line
    return f'{head[:-1]},"letter":{line.copy.letter}}}'


def _csv_line(line: ArchivedLine) -> str:
    letter = line.copy.read_letter()
    shown: dict[str, Any] = {"export": line.copy.export, **line.to_dict()}
    return _as_csv(
        [*(to_json_value(shown[name]) for name in _COLUMNS), *(getattr(letter, name) for name in (*_NUMBERS, *_TEXTS))]
    )


def _as_csv(values: list[Any]) -> str:
    """Return one line, with spaces for line breaks in values, so that lines can be cut and joined."""
    made = io.StringIO()
    flat = [" ".join(value.splitlines()) if isinstance(value, str) else value for value in values]
    csv.writer(made, lineterminator="").writerow(flat)
    return made.getvalue()
