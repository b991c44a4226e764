"""Writes on their way to OpenSearch: what a caller waits for, and the records it has handed over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from json.encoder import encode_basestring_ascii
from typing import Any

from mahavishnu.model.errors import ItemFailed, StoreError, StoreMisconfigured, StoreUnavailable
from mahavishnu.stores.opensearch.index import Index

LONGEST_KEY = 512  # bytes


class Call:
    """What one caller waits for."""

    __slots__ = ("done", "left", "results", "since", "waiting")

    def __init__(self, results: list[Any]) -> None:
        self.results = results
        self.waiting: list[Operation] = []  # the next one last
        self.left = 0
        self.since = time.monotonic()
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Operation:
    """One record on its way: created, replaced or removed."""

    __slots__ = (
        "_place",
        "body",
        "call",
        "doubtful",
        "key",
        "plainly",
        "record",
        "removes",
        "stamp",
        "told",
        "trouble",
    )

    def __init__(self, call: Call, place: int, record: Any, key: str, stamp: str, removes: bool) -> None:
        self.call: Call | None = call
        self._place = place
        self.record = record
        self.key = key
        self.removes = removes
        self.stamp = stamp
        self.body = b""
        self.plainly = True  # as a document that people can read, unless the server refuses it
        self.doubtful = False  # it may have landed, but the answer was lost
        self.told = False  # the server said once that its index is gone, or lacks a field
        self.trouble: StoreError | None = None
        call.waiting.append(self)
        call.left += 1

    def settle(self, result: Any) -> None:
        """Tell the caller, once."""
        if (call := self.call) is None:
            return
        self.call = None
        call.results[self._place] = result
        call.left -= 1
        if not call.left and not call.done.done():
            call.done.set_result(None)

    def settle_stored(self, index: Index[Any], mark: int, answer: Mapping[str, Any]) -> None:
        version = (answer["_seq_no"], answer["_primary_term"], mark)
        self.settle(True if self.removes else index.kind.versioned(self.record, version))

    def settle_lost(self) -> None:
        self.settle(False if self.removes else None)

    def settle_trouble(self, problem: Exception) -> None:
        """The store as a whole does not answer, or not any more. A new error for each: they gather traces."""
        if isinstance(problem, StoreMisconfigured) and not self.doubtful:
            self.settle(StoreMisconfigured(str(problem)))
        else:
            self.settle(StoreUnavailable(str(problem), maybe_written=self.doubtful))

    def encode(self, index: Index[Any]) -> bool:
        """Make its lines in a bulk; if that cannot be done, the operation has failed."""
        version = self.record.version
        verb = "delete" if self.removes else "create" if version is None else "index"
        condition = "" if version is None else f',"if_seq_no":{version[0]},"if_primary_term":{version[1]}'
        self.body = f'{{"{verb}":{{"_id":{encode_basestring_ascii(self.key)}{condition}}}}}\n'.encode()
        if not self.removes:
            try:
                document = index.documents.written(self.record, self.key, self.stamp, plainly=self.plainly)
            except Exception as problem:  # of a kind's own code, which must not hold up the other records
                self.settle(ItemFailed(self.key, f"it cannot be encoded: {type(problem).__name__}: {problem}"))
                return False
            self.body = b"%s%s\n" % (self.body, document)
        return True


def usable(key: str) -> bool:
    """Whether OpenSearch takes the key as a document's id."""
    try:
        return 0 < (len(key) if key.isascii() else len(key.encode())) <= LONGEST_KEY
    except UnicodeEncodeError:
        return False
