"""The shared store: records in OpenSearch. Any number of processes use the same indices and need nothing else."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from mahavishnu.model.errors import (
    CorruptRecord,
    InvalidInput,
    InvalidQuery,
    StoreError,
    StoreMisconfigured,
    StoreUnavailable,
)
from mahavishnu.model.query import Query
from mahavishnu.stores.base import CURRENT, Buckets, Cell, Cursor, Health, Histogram, OpenClose, Page, Result, Tally
from mahavishnu.stores.kind import Kind, T
from mahavishnu.stores.kinds import HISTORY, LETTERS
from mahavishnu.stores.opensearch import query as opensearch_query
from mahavishnu.stores.opensearch.client import Blocked, Client, RequestRejected, item_error, retrying
from mahavishnu.stores.opensearch.index import Index, Settings, drop_index, switch_index
from mahavishnu.stores.opensearch.mapping import MOST_HITS, is_usable, setting_problems
from mahavishnu.stores.opensearch.writer import GroupCommit

__all__ = ["OpenSearchCollection", "OpenSearchStore"]

log = logging.getLogger(__name__)
SLOW_SECONDS = 1.0
PATIENCE = 2.25  # time-outs: making an index takes its time, but an app has to be up within five seconds
KEEP_SNAPSHOT = "2m"  # from one page to the next
MOST_KEYS = 500  # in one look-up
R = TypeVar("R")
_PREFIX = re.compile(r"[a-z0-9][a-z0-9_.-]{0,99}")
_WHOLE = {"allow_partial_search_results": "false"}  # a list that silently lacks a shard's records would be a lie


class OpenSearchStore(OpenClose):
    """A store in OpenSearch, at one or more URLs (nodes of one cluster), or through a given opensearch-py client.

    Each kind has an index `<prefix>_<kind.index>`, by default `mahavishnu_dlq` and `mahavishnu_dlq_history`: an alias
    of an index that is made when it is missing, or an older index of that name, which is extended but never changed.

    No call takes much longer than `timeout` seconds while OpenSearch is away. A given client, of either kind, is left
    open; a synchronous one works in threads. `ca` is a file with the certificates to trust instead of the system's.
    `replicas` None means one more copy as soon as there is a second node.
    """

    def __init__(
        self,
        urls: str | Iterable[str] = (),
        *,
        client: Any = None,
        prefix: str = "mahavishnu",
        kinds: Iterable[Kind[Any]] = (LETTERS, HISTORY),
        user: str | None = None,
        password: str | None = None,
        headers: Mapping[str, str] | None = None,
        ca: str | Path | None = None,
        verify: bool = True,
        timeout: float = 2.0,
        refresh_interval: str = "1s",
        shards: int = 1,
        replicas: int | None = None,
    ) -> None:
        urls = [urls] if isinstance(urls, str) else list(urls)
        if bool(urls) == (client is not None):
            raise InvalidInput("give either the URLs of OpenSearch or a client")
        if not _PREFIX.fullmatch(prefix):
            raise InvalidInput(f"{prefix!r} cannot begin the name of an index: use a-z, 0-9, '_', '-' and '.'")
        if not 0 < timeout < math.inf:
            raise InvalidInput(f"timeout is a number of seconds above 0, not {timeout!r}")
        self._client = Client(
            urls, client, user=user, password=password, headers=headers, ca=ca, verify=verify, timeout=timeout
        )
        self._prefix = prefix
        self._settings = Settings(shards, replicas, refresh_interval)
        self._collections: dict[Kind[Any], OpenSearchCollection[Any]] = {}
        for kind in kinds:
            self.collection(kind)

    async def open(self) -> None:
        """Make sure that the indices are there and fit; those of lazy kinds are made when they are first used.

        Raises StoreMisconfigured for wrong credentials, missing permissions, an untrusted certificate, or a mapping
        that contradicts; StoreUnavailable where OpenSearch cannot be reached.
        """
        start = time.monotonic()
        await self._client.open()
        try:
            indices = [collection.index for collection in self._collections.values()]
            # All of them first, so that trouble changes nothing.
            plans = await gather_all(index.look() for index in indices)
            rest = start + PATIENCE * self._client.timeout - time.monotonic()
            wanted = [(index, plan) for index, plan in zip(indices, plans, strict=True) if plan or not index.kind.lazy]
            await gather_all(index.apply_plan(plan, within=rest) for index, plan in wanted)
        except BaseException:
            await self._client.close()
            raise

    async def close(self) -> None:
        for collection in self._collections.values():
            await collection.finish()
        await self._client.close()

    async def health(self) -> Health:
        names = ",".join(collection.index.name for collection in self._collections.values() if collection.index.ready)
        try:
            if not names:
                raise StoreUnavailable(f"{self!r} is not open")
            try:
                cluster = await self._client.ask("GET", f"/_cluster/health/{names}", params={"timeout": "0s"})
                problems = await self._setting_problems(names)
            except StoreMisconfigured:  # this user may not look at the cluster, but the store may work all the same
                await self._client.ask("POST", f"/{names}/_search", {"size": 0})
                return Health("ok", "it answers, but this user may not see the state of the cluster")
            with self._client.reading():
                status, missing, nodes = cluster["status"], cluster["unassigned_shards"], cluster["number_of_nodes"]
        except (StoreError, RequestRejected) as problem:
            return Health("down", str(problem))
        if status == "red":
            return Health("down", "a part of the indices is not available (red)")
        if problems:
            return Health("degraded", "; ".join(problems))
        if status == "yellow":
            return Health("degraded", f"{missing} copies of the indices are missing (yellow)")
        return Health("ok", f"{nodes} nodes, {status}")

    async def _setting_problems(self, names: str) -> list[str]:
        wanted = ("blocks", "default_pipeline", "final_pipeline", "max_result_window")
        filters = {"filter_path": ",".join(f"*.settings.index.{name}" for name in wanted)}
        try:
            found = await self._client.ask("GET", f"/{names}/_settings", params=filters)
        except Blocked:  # the metadata alone: records are stored and found all the same
            return []
        with self._client.reading():
            return [
                f"index {name} {problem}"
                for name, described in sorted(found.items())
                for problem in setting_problems(described["settings"]["index"])
            ]

    def collection(self, kind: Kind[T]) -> OpenSearchCollection[T]:
        if kind not in self._collections:
            index = Index(self._client, kind, f"{self._prefix}_{kind.index}", self._settings)
            self._collections[kind] = OpenSearchCollection(index)
        return self._collections[kind]

    async def detach(self, kind: Kind[Any]) -> str:
        index = self.collection(kind).index
        await switch_index(index, on=False)
        return f"closed index {index.name}"

    async def attach(self, kind: Kind[Any]) -> None:
        await switch_index(self.collection(kind).index, on=True)

    async def drop(self, kind: Kind[Any]) -> None:
        await drop_index(self.collection(kind).index)
        self._collections.pop(kind, None)

    def __repr__(self) -> str:
        return f"OpenSearchStore({', '.join(map(repr, self._client.addresses))}, prefix={self._prefix!r})"


class _Starting(StoreUnavailable):
    """A shard is about to be there."""


class OpenSearchCollection(Generic[T]):
    """One kind of record, in one index.

    A first page is one search; going on after it takes a snapshot (point in time), so that later pages come from one
    state of all copies. Where the snapshot has expired, or cannot be had, the list goes on from the current state: the
    order and the key alone see to it that no unchanged record is omitted or repeated.
    """

    def __init__(self, index: Index[T]) -> None:
        self.kind = index.kind
        self.index = index
        self._client = index.client
        self._commit = GroupCommit(index)

    def write(self, records: Sequence[T]) -> Coroutine[Any, Any, list[Result[T]]]:
        return self._commit.write(records)

    def remove(self, records: Sequence[T]) -> Coroutine[Any, Any, list[bool | StoreError]]:
        return self._commit.remove(records)

    async def get(self, keys: Sequence[str]) -> list[Result[T]]:
        asked = [key for key in keys if is_usable(key)]
        found: list[Any] = []
        for start in range(0, len(asked), MOST_KEYS):
            some = asked[start : start + MOST_KEYS]
            found += await self._read(partial(self._look_up, some), [None] * len(some))
        records = iter(found)
        return [next(records) if is_usable(key) else None for key in keys]

    async def find(self, query: Query, after: Cursor | None = None) -> Page[T]:
        self.kind.check(query)
        return await self._read_timed(query, partial(self._find, query, after), Page([]))

    async def tally(
        self, query: Query, by: Sequence[str] = (), *, sums: Sequence[str] = (), spans: Sequence[str] = ()
    ) -> Tally:
        self.kind.check_tally(query, by, sums, spans)
        return await self._read_timed(query, partial(self._tally, query, by, sums, spans), Tally({}))

    async def histogram(self, query: Query, buckets: Buckets) -> Histogram:
        self.kind.check_tally(query, (), (), (buckets.field,))
        return await self._read_timed(query, partial(self._histogram, query, buckets), buckets.fill(()))

    async def finish(self) -> None:
        """Return when all writes are done."""
        await self._commit.finish()

    async def _look_up(self, keys: list[str]) -> list[Result[T]]:
        async for attempt in retrying(self._client.timeout, _Starting):
            with attempt:
                return await self._look_up_once(keys)
        raise AssertionError("retrying ends by an answer or an error")

    async def _look_up_once(self, keys: list[str]) -> list[Result[T]]:
        documents = self.index.documents
        answer = await self._client.ask("POST", f"/{self.index.name}/_mget", {"ids": keys})
        results: list[Result[T]] = []
        with self._client.reading():
            for hit in answer["docs"]:
                if "error" in hit:
                    type_, reason = item_error(hit["error"])
                    if type_ == "index_not_found_exception":
                        raise RequestRejected(404, type_, reason)
                    starting = "[RECOVERING]" in reason  # somebody has made or opened the index at this moment
                    raise (_Starting if starting else StoreUnavailable)(f"{self.index.name}: {type_}: {reason}")
                if hit["found"]:
                    self.index.confirm(hit["_index"])
                results.append(documents.read(hit) if hit["found"] else None)
            if len(results) != len(keys):
                raise ValueError
        return results

    async def _find(self, query: Query, after: Cursor | None) -> Page[T]:
        documents = self.index.documents
        size = min(query.limit + 1, MOST_HITS)  # one more tells whether there is another page
        body = opensearch_query.search(self.kind, self.index.layout, query, after, size)
        snapshot = after.snapshot if after else CURRENT
        if not snapshot:
            await self.index.refresh()
            snapshot = None if snapshot == CURRENT else await self._take_snapshot()
        hits, snapshot = await self._search(body, snapshot)
        more = len(hits) > query.limit
        if size == query.limit == len(hits):  # the server gives no more at once
            rest, snapshot = await self._search({**body, "size": 1, "search_after": hits[-1]["sort"]}, snapshot)
            more = bool(rest)
        if not more and snapshot is not None:
            await self._drop_snapshot(snapshot)
        items: list[T] = []
        positions: list[tuple[Any, ...]] = []
        corrupt: list[StoreError] = []
        with self._client.reading():
            for hit in hits[: query.limit]:
                self.index.confirm(hit["_index"])
                record = documents.read(hit)
                if isinstance(record, CorruptRecord):
                    corrupt.append(record)
                else:
                    items.append(record)
                    positions.append(tuple(hit["sort"]))
            following = Cursor(tuple(hits[query.limit - 1]["sort"]), snapshot) if more else None
        return Page(items, following, positions, tuple(corrupt))

    async def _search(self, body: Mapping[str, Any], snapshot: str | None) -> tuple[list[dict[str, Any]], str | None]:
        """Return the hits, and the snapshot that they are from."""
        rest = self._client.timeout
        if snapshot is not None:
            start = time.monotonic()
            text = json.dumps({**body, "pit": {"id": snapshot, "keep_alive": KEEP_SNAPSHOT}}).encode()
            try:
                answer = await self._client.once("POST", "/_search", text, _WHOLE, within=rest / 2)
                with self._client.reading():
                    return answer["hits"]["hits"], answer["pit_id"]
            except (RequestRejected, StoreUnavailable) as problem:
                log.debug("a snapshot of %s is gone, the list goes on without: %s", self.index.name, problem)
            await self.index.refresh()
            rest -= time.monotonic() - start
        answer = await self._client.ask("POST", f"/{self.index.name}/_search", body, _WHOLE, within=rest)
        with self._client.reading():
            return answer["hits"]["hits"], None

    async def _take_snapshot(self) -> str | None:
        path = f"/{self.index.name}/_search/point_in_time"
        parameters = {"keep_alive": KEEP_SNAPSHOT, "allow_partial_pit_creation": "false"}
        try:
            answer = await self._client.once("POST", path, None, parameters, within=self._client.timeout / 4)
            with self._client.reading():
                return str(answer["pit_id"])
        except (RequestRejected, StoreError) as problem:  # too many of them, or not permitted
            log.debug("no snapshot of %s: %s", self.index.name, problem)
            return None

    async def _drop_snapshot(self, snapshot: str) -> None:
        body = json.dumps({"pit_id": [snapshot]}).encode()
        try:
            await self._client.once("DELETE", "/_search/point_in_time", body, within=self._client.timeout / 4)
        except (RequestRejected, StoreError) as problem:
            log.debug("a snapshot of %s was left to expire: %s", self.index.name, problem)

    async def _tally(self, query: Query, by: Sequence[str], sums: Sequence[str], spans: Sequence[str]) -> Tally:
        body = opensearch_query.tally(self.kind, self.index.layout, query, by, sums, spans)
        await self.index.refresh()
        cells: dict[tuple[Any, ...], Cell] = {}
        while True:
            answer = await self._client.ask("POST", f"/{self.index.name}/_search", body, _WHOLE)
            with self._client.reading():
                if not by:
                    count = answer["hits"]["total"]["value"]
                    return Tally(
                        {(): opensearch_query.cell(count, answer.get("aggregations", {}), sums, spans)} if count else {}
                    )
                groups = answer["aggregations"]["groups"]
                for bucket in groups["buckets"]:
                    values = opensearch_query.group(self.kind, by, bucket["key"])
                    found = opensearch_query.cell(bucket["doc_count"], bucket, sums, spans)
                    cells[values] = cells[values].plus(found) if values in cells else found
                if "after_key" not in groups or len(groups["buckets"]) < opensearch_query.BUCKETS:
                    return Tally(cells)
                body["aggs"]["groups"]["composite"]["after"] = groups["after_key"]

    async def _histogram(self, query: Query, buckets: Buckets) -> Histogram:
        body = opensearch_query.histogram(self.kind, self.index.layout, query, buckets)
        await self.index.refresh()
        answer = await self._client.ask("POST", f"/{self.index.name}/_search", body, _WHOLE)
        with self._client.reading():
            return opensearch_query.read_histogram(buckets, answer)

    async def _read(self, request: Callable[[], Awaitable[R]], nothing: R) -> R:
        """Return the answer to a read, `nothing` of a lazy kind without an index; make another dropped index again."""
        if not await self.index.is_there():
            return nothing
        try:
            try:
                return await request()
            except RequestRejected as problem:
                if problem.type != "index_not_found_exception":
                    raise
                self.index.invalidate()
                return await request() if await self.index.is_there() else nothing
        except RequestRejected as problem:
            refusal = str(problem)
        raise InvalidQuery(f"OpenSearch refuses to answer this: {refusal}")

    async def _read_timed(self, query: Query, request: Callable[[], Awaitable[R]], nothing: R) -> R:
        start = time.monotonic()
        try:
            return await self._read(request, nothing)
        finally:
            if (seconds := time.monotonic() - start) > SLOW_SECONDS:
                log.warning("%.1f s for %s: %s", seconds, self.kind.name, opensearch_query.shape(query))

    def __repr__(self) -> str:
        return f"OpenSearchCollection({self.index.name!r})"


async def gather_all(requests: Iterable[Coroutine[Any, Any, R]]) -> list[R]:
    """Return every answer. Raises the first problem, but not before all requests have come to an end."""
    answers = await asyncio.gather(*requests, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return cast("list[R]", answers)
