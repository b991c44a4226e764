"""Group commit: writes that wait at the same moment ride in one `_bulk`, and each is told its own outcome.

A lone write leaves at once. While two bulks are under way others queue, and the next bulk takes what has gathered:
in turn from each caller, so that a large batch does not hold up a single record. A caller who gives up changes nothing:
what was handed over is written.

An answer that was lost is not guessed. Every write carries a fresh stamp, so a look at the current document tells
whether ours landed; then it is sent again, or not. Only if others have written since, the error says `maybe_written`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any, Generic

from mahavishnu.model.errors import ItemFailed, StoreError, StoreMisconfigured, StoreUnavailable
from mahavishnu.stores.kind import T
from mahavishnu.stores.opensearch.client import (
    SHORTEST_TRY,
    ItemStatus,
    RequestRejected,
    TooLarge,
    item_error,
    item_status,
    retrying,
)
from mahavishnu.stores.opensearch.index import Index, IndexIdentity
from mahavishnu.stores.opensearch.mapping import LONGEST_KEY, STAMP, PendingWrite, WriteRequest, is_usable

log = logging.getLogger(__name__)
UNDER_WAY = 2
MOST_OPERATIONS = 500
FEW_OPERATIONS = 50
MOST_BYTES = 5_000_000
_FOUND = {"_source", "_seq_no", "_primary_term", "_version"}  # in a document that is there
_WHOLE_STORE = (StoreUnavailable, StoreMisconfigured)
_ANSWER = ",".join(
    f"items.*.{part}"
    for part in ("status", "_index", "_seq_no", "_primary_term", "error.type", "error.reason", "error.caused_by.reason")
)


class _NotYet(Exception):
    """Some writes have to be tried again."""


class GroupCommit(Generic[T]):
    """All writes of this process into one index."""

    def __init__(self, index: Index[T]) -> None:
        self._index = index
        self._client = index.client
        self._calls: deque[WriteRequest] = deque()
        self._waiting = self._sent = 0
        self._under_way: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._answered = 0.0
        self._trouble: StoreUnavailable | None = None  # what kept the latest bulk from being answered

    def write(self, records: Sequence[T]) -> Coroutine[Any, Any, list[Any]]:
        return self._run(records, removes=False, lost=None)

    def remove(self, records: Sequence[T]) -> Coroutine[Any, Any, list[Any]]:
        return self._run(records, removes=True, lost=False)

    async def finish(self) -> None:
        """Return when nothing is in progress."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    async def _run(self, records: Sequence[T], *, removes: bool, lost: Any) -> list[Any]:
        self._client.check_open()  # here, as what is not open will not be so after some tries either
        results: list[Any] = [lost] * len(records)
        places: Sequence[int] = range(len(records))
        while places:
            call = WriteRequest(results)
            # The first of a key has to be decided before the next one is sent: two bulks keep no order.
            places = self._prepare(call, records, places, removes)
            if call.waiting:
                call.left = len(call.waiting)
                call.waiting.reverse()
                self._calls.append(call)
                self._waiting += call.left
                self._start()
                await call.done
        return _require_an_answer(results)

    def _prepare(self, call: WriteRequest, records: Sequence[T], places: Sequence[int], removes: bool) -> list[int]:
        """Make the writes of a call. Returns the places whose keys came before."""
        repeated: list[int] = []
        seen: set[str] = set()
        new_stamp = self._index.new_stamp
        for place in places:
            record = records[place]
            key, version = record.key, record.version
            if key in seen:
                repeated.append(place)
                continue
            seen.add(key)
            if version is None if removes else not is_usable(key):
                if not removes:
                    call.results[place] = ItemFailed(key[:80], f"its key must have 1 to {LONGEST_KEY} bytes")
            elif version is None or len(version) == 3:  # else this store has not given it, so it has changed
                call.waiting.append(PendingWrite(call, place, record, key, new_stamp(), removes))
        return repeated

    def _start(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # what was under way in another one has ended with it
            self._loop = loop
            self._under_way.clear()
            self._sent = 0
        if len(self._under_way) < UNDER_WAY:
            self._under_way.add(loop.create_task(self._work()))

    async def _work(self) -> None:
        try:
            while self._calls:
                try:
                    if await self._index.ensure():
                        self._answered = time.monotonic()
                except Exception as problem:  # whatever it is, nobody may be left waiting
                    if not isinstance(problem, StoreError):
                        log.exception("index %s cannot be looked at", self._index.name)
                    for write in self._all_waiting():
                        write.settle_failed(problem)
                    continue
                writes = self._next_batch()
                if self._calls:
                    self._start()
                if writes:
                    self._sent += 1
                    try:
                        await self._deliver(writes)
                    finally:
                        self._sent -= 1
        finally:
            # Not by a callback, which would come late: whoever writes meanwhile would wait for a task that has ended.
            self._under_way = {task for task in self._under_way if task is not asyncio.current_task()}

    def _all_waiting(self) -> list[PendingWrite]:
        waiting = [write for call in self._calls for write in reversed(call.waiting)]
        self._calls.clear()
        self._waiting = 0
        return waiting

    def _next_batch(self) -> list[PendingWrite]:
        batch: list[PendingWrite] = []
        size = 0
        # Much at once is shared among the bulks: while OpenSearch works on one of them, we work on the other.
        share = -(-self._waiting // (UNDER_WAY - self._sent))
        most = min(max(share, FEW_OPERATIONS), MOST_OPERATIONS)
        while self._calls and len(batch) < most:
            waiting = self._calls[0].waiting
            if batch and waiting[-1].removes is not batch[0].removes:
                break  # who may not remove would be refused all of a bulk in which something is removed
            while waiting and len(batch) < most:
                write = waiting[-1]
                if write.body or write.encode(self._index):
                    size += len(write.body)
                    if batch and size > MOST_BYTES:
                        return batch
                    batch.append(write)
                waiting.pop()
                self._waiting -= 1
            if waiting:
                self._calls.rotate(-1)
            else:
                self._calls.popleft()
        return batch

    async def _deliver(self, writes: list[PendingWrite]) -> None:
        """Send a batch and retry until every write has an outcome or the time-out expires."""
        now = time.monotonic()
        # Who has waited all along an outage has waited enough; who queued behind work that got on has not waited yet.
        since = now
        if self._trouble is not None:
            since = max(self._answered, min(write.call.since for write in writes if write.call))
        size = sum(len(write.body) for write in writes)
        budget = since + self._client.timeout + max(0, size - MOST_BYTES) / MOST_BYTES - now
        left = writes
        try:
            if budget > self._client.timeout / 2:  # else it would leave only to be given up on its way
                async for attempt in retrying(budget, _NotYet):
                    with attempt:
                        left = await self._round(left, now + budget)
                        if left:
                            raise _NotYet
        except _NotYet:
            pass
        except BaseException as problem:
            for write in writes:
                write.settle(StoreUnavailable(f"the write broke off: {problem!r}", maybe_written=True))
            if not isinstance(problem, Exception):
                raise
            log.exception("a bulk of %d writes broke off", len(writes))
        for write in left:
            write.settle_failed(write.trouble or self._trouble or StoreUnavailable("no answer in time"))

    async def _round(self, writes: list[PendingWrite], deadline: float) -> list[PendingWrite]:
        """Send writes once. Returns those that have to be tried again."""
        uncertain = [write for write in writes if write.uncertain]
        if uncertain and await self._verify(uncertain, deadline):
            return [write for write in writes if write.call]
        identity = self._index.identity
        mark = identity.mark
        changing = [write for write in writes if write.record.version is not None]
        for write in changing:
            if write.record.version[2] != mark:
                write.settle_lost()  # what it was read from is gone, with its whole index
        writes = [write for write in writes if write.call]
        if not writes:
            return []
        seconds = self._share(deadline)
        parameters = {"timeout": f"{seconds * 900:.0f}ms", "filter_path": _ANSWER}
        # What is new goes to whatever index has the name by now, what depends on a version to the one it is from.
        exact = identity.exact if any(write.call for write in changing) else ""
        name = exact or self._index.name
        if name != identity.concrete:
            parameters["require_alias"] = "true"
        body = b"".join([write.body for write in writes])
        try:
            answer = await self._client.once("POST", f"/{name}/_bulk", body, parameters, within=seconds)
            with self._client.reading():
                items = _items(answer, len(writes))
        except (RequestRejected, TooLarge) as problem:
            return await self._divide(writes, problem, deadline)
        except StoreUnavailable as problem:
            return self._note_unanswered(writes, problem)
        except StoreMisconfigured as problem:
            for write in writes:
                write.settle_failed(problem)
            return []
        finally:
            self._index.mark_dirty()
        return await self._settle_items(writes, items, identity, deadline)

    async def _settle_items(
        self, writes: list[PendingWrite], items: list[Any], identity: IndexIdentity, deadline: float
    ) -> list[PendingWrite]:
        """Settle each write by its item of the answer. Returns those that have to be tried again."""
        mark = identity.mark
        later: list[PendingWrite] = []
        at_once: list[PendingWrite] = []
        suspect: list[PendingWrite] = []
        self._trouble = None
        for write, item in zip(writes, items, strict=True):
            status = item["status"]
            if status < 300 and "_seq_no" not in item:
                write.settle(ItemFailed(write.key, "a pipeline of the index has dropped it"))
                continue
            if status < 300:
                write.settle_stored(self._index, mark, item)
                self._index.confirm(item["_index"])
                continue
            type_, reason = item_error(item.get("error"))
            text = f"{type_}: {reason}" if reason else type_
            match item_status(status, type_, reason):
                case ItemStatus.CONFLICT if write.uncertain or self._client.may_repeat:
                    suspect.append(write)
                case ItemStatus.CONFLICT:
                    write.settle_lost()
                case ItemStatus.BUSY:
                    write.trouble = self._trouble = StoreUnavailable(text)
                    later.append(write)
                case ItemStatus.AWAY:
                    write.trouble = self._trouble = StoreUnavailable(text)
                    write.uncertain = True
                    later.append(write)
                case ItemStatus.FULL:
                    write.settle(StoreUnavailable(text, maybe_written=write.uncertain))
                case ItemStatus.OUTDATED if not write.looked_again:
                    write.looked_again = True
                    at_once.append(write)
                case ItemStatus.OUTDATED if status == 404:
                    write.settle(StoreUnavailable(text, maybe_written=write.uncertain))
                case _ if status == 400 and write.plainly and not write.removes:
                    write.plainly = False
                    at_once.append(write)
                case _:
                    write.settle(ItemFailed(write.key, text))
        if len(later) < len(writes):
            self._answered = time.monotonic()
        if suspect:
            await self._verify(suspect, deadline)
            later += [write for write in suspect if write.call]
        return later + (await self._send_improved(at_once, deadline) if at_once else [])

    async def _send_improved(self, writes: list[PendingWrite], deadline: float) -> list[PendingWrite]:
        """Send what was refused once more: to an index that has been looked at again, or in another shape."""
        if any(write.looked_again for write in writes):
            self._index.invalidate()
            try:
                await self._index.ensure()
            except StoreError as problem:
                for write in writes:
                    write.settle_failed(problem)
        return await self._round([each for each in writes if each.call and each.encode(self._index)], deadline)

    async def _divide(
        self, writes: list[PendingWrite], problem: RequestRejected | TooLarge, deadline: float
    ) -> list[PendingWrite]:
        """Find the write that the refusal of the whole bulk is about."""
        if (
            isinstance(problem, RequestRejected)
            and item_status(problem.status, problem.type, problem.reason) is ItemStatus.OUTDATED
            and not writes[0].looked_again
        ):
            for write in writes:
                write.looked_again = True
            return await self._send_improved(writes, deadline)
        if len(writes) > 1:
            half = len(writes) // 2
            return [*await self._round(writes[:half], deadline), *await self._round(writes[half:], deadline)]
        (write,) = writes
        too_large = f"{len(write.body)} bytes are more than the server takes"
        write.settle(ItemFailed(write.key, too_large if isinstance(problem, TooLarge) else str(problem)))
        return []

    async def _verify(self, writes: list[PendingWrite], deadline: float) -> bool:
        """Settle writes whose answer was lost, if they landed or cannot any more. True if that cannot be seen.

        A write that is still on its way may land later than the look at it; sent again, it is then refused as a
        conflict and looked at once more.
        """
        identity = self._index.identity
        ids = json.dumps({"ids": [write.key for write in writes]}).encode()
        # A replica may not have heard of a write that nobody has acknowledged yet.
        parameters = {"preference": "_primary", "_source_includes": STAMP}
        try:
            answer = await self._client.once(
                "POST", f"/{self._index.name}/_mget", ids, parameters, within=self._share(deadline)
            )
            with self._client.reading():
                documents = answer["docs"]
                if any("error" in document for document in documents):
                    raise StoreUnavailable("what became of a write cannot be seen")
                if len(documents) != len(writes) or not all(
                    each.keys() >= _FOUND for each in documents if each["found"]
                ):
                    raise ValueError
        except (StoreUnavailable, StoreMisconfigured, RequestRejected) as problem:
            for write in writes:
                write.trouble = StoreUnavailable(str(problem))
                write.uncertain = True
            return True
        self._index.mark_dirty()  # what is found here may have landed since the last refresh
        for write, document in zip(writes, documents, strict=True):
            was_lost, write.uncertain = write.uncertain, True
            version = write.record.version
            if not document["found"]:
                if write.removes:
                    write.settle(True)
                elif version is not None:
                    write.settle_lost()
            elif document["_source"].get(STAMP) == write.stamp:
                write.settle_stored(self._index, identity.mark, document)
            elif (document["_seq_no"], document["_primary_term"], identity.mark) == version:
                continue  # it has not landed, and still can
            elif was_lost and not write.removes and not (version is None and document["_version"] == 1):
                # Another writer was first, or ours landed and was changed since; what was written only once tells.
                text = f"record {write.key!r}: the answer was lost, and others have written it since"
                write.settle(StoreUnavailable(text, maybe_written=True))
            else:
                write.settle_lost()
        return False

    def _share(self, deadline: float) -> float:
        """Return a part of the time that is left: some has to remain for seeing what happened, and for another try."""
        return max((deadline - time.monotonic()) * (0.5 if self._client.has_alternatives else 0.7), SHORTEST_TRY)

    def _note_unanswered(self, writes: list[PendingWrite], problem: StoreUnavailable) -> list[PendingWrite]:
        self._trouble = problem
        for write in writes:
            write.trouble = problem
            write.uncertain = write.uncertain or problem.maybe_written
        return writes


def _items(answer: Any, expected: int) -> list[Any]:
    """Return the items of the answer to a bulk. Raises an error that `reading` translates if they are incomplete."""
    items = [item for each in answer["items"] for item in each.values()]
    if len(items) != expected or not all("_index" in item for item in items if item["status"] < 300):
        raise ValueError
    return items


def _require_an_answer(results: list[Any]) -> list[Any]:
    """Return the results; raises where nothing at all could be answered: then the store as a whole cannot."""
    if not results or not isinstance(results[0], _WHOLE_STORE):
        return results  # as nearly always
    if not all(isinstance(result, _WHOLE_STORE) for result in results):
        return results
    for result in results:
        if isinstance(result, StoreMisconfigured):
            raise result
    raise StoreUnavailable(str(results[0]), maybe_written=any(result.maybe_written for result in results))
