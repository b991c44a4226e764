"""Kinds that are kept in a file of their own beside the main one, so that moving the file takes all of them away."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Generic

from mahavishnu.model.errors import StoreError, StoreUnavailable
from mahavishnu.model.query import Query
from mahavishnu.stores.base import Buckets, Cursor, Histogram, Page, Result, Tally
from mahavishnu.stores.kind import Kind, T

if TYPE_CHECKING:
    from mahavishnu.stores.sqlite.store import SQLiteCollection, SQLiteStore


def partition_path(path: Path, partition: str) -> Path:
    """The file of a partition beside the main one.

    >>> partition_path(Path("/var/letters.db"), "archive-2026-01").name
    'letters.archive-2026-01.db'
    """
    return path.with_name(f"{path.stem}.{partition}{path.suffix}")


class PartitionCollection(Generic[T]):
    """One kind of record in a file of its own, which is made by the first write and opened by the first use."""

    def __init__(self, file: SQLiteStore, kind: Kind[T]) -> None:
        self.kind = kind
        self._file, self._records = file, file.main_collection(kind)

    async def write(self, records: Sequence[T]) -> list[Result[T]]:
        return await (await self._opened(may_be_made=True)).write(records)

    async def remove(self, records: Sequence[T]) -> list[bool | StoreError]:
        return await (await self._opened()).remove(records)

    async def get(self, keys: Sequence[str]) -> list[Result[T]]:
        return await (await self._opened()).get(keys)

    async def find(self, query: Query, after: Cursor | None = None) -> Page[T]:
        return await (await self._opened()).find(query, after)

    async def tally(
        self, query: Query, by: Sequence[str] = (), *, sums: Sequence[str] = (), spans: Sequence[str] = ()
    ) -> Tally:
        return await (await self._opened()).tally(query, by, sums=sums, spans=spans)

    async def histogram(self, query: Query, buckets: Buckets) -> Histogram:
        return await (await self._opened()).histogram(query, buckets)

    async def _opened(self, *, may_be_made: bool = False) -> SQLiteCollection[T]:
        """The records of the open file. Raises StoreUnavailable where it is missing: an empty one would hide that."""
        if not may_be_made and not await asyncio.to_thread(self._file.path.exists):
            raise StoreUnavailable(f"{self._file.path} is not there: put it back, or detach the partition")
        await self._file.open()
        return self._records
