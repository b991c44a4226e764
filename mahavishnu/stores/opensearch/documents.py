"""Records as documents of an index, and back; and writes on their way, as lines of a bulk."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from json.encoder import encode_basestring_ascii as _quoted
from typing import TYPE_CHECKING, Any, Generic

from msgspec import Raw

from mahavishnu.model.errors import CorruptRecord, ItemFailed, StoreError, StoreMisconfigured, StoreUnavailable
from mahavishnu.stores.kind import LONGEST_TERM, FieldType, Kind, T, flatten, is_findable, to_json_value
from mahavishnu.stores.opensearch.mapping import KEY, ORIGINALS, STAMP, Layout

if TYPE_CHECKING:
    from mahavishnu.stores.opensearch.index import Index


_ORIGINALS = f'"{ORIGINALS}":'
_dumps = json.JSONEncoder(separators=(",", ":")).encode
LONGEST_KEY = 512  # bytes
_EQUALS = "\ue03d"  # OpenSearch joins path and value by "=", which would let {"a=b": "c"} be found as {"a": "b=c"}


class Documents(Generic[T]):
    """Writes and reads the documents of one kind in one index."""

    def __init__(self, kind: Kind[T], layout: Layout, mark: int = 0) -> None:
        self._kind = kind
        self._mark = mark  # of the index, in every version
        self._layout = layout
        self._derived = [(f'"{f.name}":', f.value) for f in kind.fields if f.derived]
        self._users = [(f'"{f.name}":', f.value) for f in kind.users_json]
        self._flat = [f for f in kind.users_json if f.type is FieldType.FLAT]
        self._terms = [f for f in kind.fields if f.type in (FieldType.KEYWORD, FieldType.KEYWORDS)]
        self._hidden = [KEY, STAMP, *(f.name for f in kind.fields if f.derived), *layout.flat.values()]

    def write(self, record: T, key: str, stamp: str, *, plainly: bool = True) -> bytes:
        """The document's JSON. Not `plainly`, what a server may refuse to take as it is becomes a text."""
        text = self._kind.encode(record)
        if not plainly or self._layout.moved or self._needs_originals(record, text):
            text = self._write_with_originals(record, text, key, stamp, plainly)
        else:
            parts = [text[:-1]]
            parts += [name + value(record).text for name, value in self._users]
            parts += self._derived_members(record)
            text = f'{",".join(parts)},"{KEY}":{_quoted(key)},"{STAMP}":"{stamp}"}}'
        if "\n" in text:  # a bulk is made of lines
            text = _dumps(json.loads(text))
        return text.encode()

    def read(self, hit: Mapping[str, Any]) -> T | CorruptRecord:
        """The record of a hit, or why it cannot be read."""
        identity = hit["_id"]
        try:
            document = hit["_source"]
            if type(document) is Raw:
                text = bytes(document).decode()
                if record := self._read_plain(text, hit):
                    return record
                document = json.loads(text)
            if originals := document.pop(ORIGINALS, None):
                document.update(json.loads(originals))
            for name in self._hidden:
                document.pop(name, None)
            return self._kind.decode(document, (hit["_seq_no"], hit["_primary_term"], self._mark))
        except CorruptRecord as problem:
            return CorruptRecord(identity, problem.reason)
        except Exception as problem:  # a decoder may stumble over anything; that must not hide the other records
            return CorruptRecord(identity, f"{type(problem).__name__}: {problem}")

    def _read_plain(self, text: str, hit: Mapping[str, Any]) -> T | None:
        """The record of a document that is as we write them, read quickly; None if it has to be read with more care."""
        read = self._kind.decode_text
        # Who edits a document by hand may space it out, which would become part of what users gave.
        if read is None or _ORIGINALS in text or '": ' in text or "\n" in text:
            return None
        return read(text, (hit["_seq_no"], hit["_primary_term"], self._mark))

    def _derived_members(self, record: T) -> list[str]:
        if (encode := self._kind.encode_derived) is not None:
            return [encode(record)]
        return [name + _json(value(record)) for name, value in self._derived]

    def _needs_originals(self, record: T, text: str) -> bool:
        if len(text) > LONGEST_TERM and any(_is_long(f.value(record)) for f in self._terms):
            return True
        for f in self._flat:
            flat = f.value(record)
            if ("=" in flat.text or len(flat.text) > LONGEST_TERM) and any(
                "=" in path or len(path) + len(value) > LONGEST_TERM for path, value in flatten(flat.value)
            ):
                return True
        return False

    def _write_with_originals(self, record: T, text: str, key: str, stamp: str, plainly: bool) -> str:
        layout = self._layout
        document = {**json.loads(text), **self._kind.derived_values(record)}
        originals: dict[str, Any] = {}
        for f in self._kind.fields:
            name = f.name
            match f.type:
                case FieldType.KEYWORD | FieldType.KEYWORDS:
                    if _is_long(value := document.get(name)):
                        document[name] = (
                            [each for each in value if is_findable(each)] if isinstance(value, list) else None
                        )
                        originals[name] = value
                case FieldType.BLOB:
                    if name in layout.moved and name in document:
                        originals[name] = document.pop(name)
                case FieldType.JSON:
                    place = document if plainly and name not in layout.moved else originals
                    place[name] = f.value(record).value
                case FieldType.FLAT:
                    originals[name] = f.value(record).value
                    document[layout.searched_name(name)] = _terms(originals[name])
        own = {KEY: key, STAMP: stamp, ORIGINALS: _dumps(originals)}
        return _dumps({**document, **own})


def _json(value: Any) -> str:
    """As JSON, quickly for what derived fields mostly are."""
    if type(value) is tuple:
        return f"[{','.join(map(_quoted, value))}]"
    return str(value) if type(value) is int else _dumps(to_json_value(value))


def path_text(path: str) -> str:
    """A dotted path as it is spelled in the index."""
    return path.replace("=", _EQUALS)


def _is_long(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_is_long, value))
    return value is not None and not is_findable(value)


def _terms(value: Any) -> dict[str, list[str]]:
    """What can be found of a JSON object, in a shape that every server takes."""
    terms: dict[str, list[str]] = {}
    for path, text in flatten(value):
        if len(path) + len(text) <= LONGEST_TERM:
            terms.setdefault(path_text(path), []).append(text)
    return terms


# ------------------------------------------------------------------------------------------------ writes on their way


class WriteRequest:
    """One call to write or remove: its results, and the writes that still wait to be sent."""

    __slots__ = ("done", "left", "results", "since", "waiting")

    def __init__(self, results: list[Any]) -> None:
        self.results = results
        self.waiting: list[PendingWrite] = []  # the next one last
        self.left = 0
        self.since = time.monotonic()
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class PendingWrite:
    """One record that is to be created, replaced or removed."""

    __slots__ = (
        "_place",
        "body",
        "call",
        "key",
        "looked_again",
        "plainly",
        "record",
        "removes",
        "stamp",
        "trouble",
        "uncertain",
    )

    def __init__(self, call: WriteRequest, place: int, record: Any, key: str, stamp: str, removes: bool) -> None:
        self.call: WriteRequest | None = call
        self._place = place
        self.record = record
        self.key = key
        self.removes = removes
        self.stamp = stamp
        self.body = b""
        self.plainly = True  # as a document that people can read, unless the server refuses it
        self.uncertain = False  # it may have landed, but the answer was lost
        self.looked_again = False  # the index was looked at once more: the server said it is gone, or lacks a field
        self.trouble: StoreError | None = None
        call.waiting.append(self)
        call.left += 1

    def settle(self, result: Any) -> None:
        """Give the result to the caller, once."""
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

    def settle_failed(self, problem: Exception) -> None:
        """The store as a whole does not answer. Each write gets its own error, because errors gather tracebacks."""
        if isinstance(problem, StoreMisconfigured) and not self.uncertain:
            self.settle(StoreMisconfigured(str(problem)))
        else:
            self.settle(StoreUnavailable(str(problem), maybe_written=self.uncertain))

    def encode(self, index: Index[Any]) -> bool:
        """Make its lines in a bulk; if that cannot be done, the operation has failed."""
        version = self.record.version
        verb = "delete" if self.removes else "create" if version is None else "index"
        condition = "" if version is None else f',"if_seq_no":{version[0]},"if_primary_term":{version[1]}'
        self.body = f'{{"{verb}":{{"_id":{_quoted(self.key)}{condition}}}}}\n'.encode()
        if not self.removes:
            try:
                document = index.documents.write(self.record, self.key, self.stamp, plainly=self.plainly)
            except Exception as problem:  # of a kind's own code, which must not hold up the other records
                self.settle(ItemFailed(self.key, f"it cannot be encoded: {type(problem).__name__}: {problem}"))
                return False
            self.body = b"%s%s\n" % (self.body, document)
        return True


def is_usable(key: str) -> bool:
    """Whether OpenSearch takes the key as a document's id."""
    try:
        return 0 < (len(key) if key.isascii() else len(key.encode())) <= LONGEST_KEY
    except UnicodeEncodeError:
        return False
