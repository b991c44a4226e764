"""Records as documents of an index, and back: the mapping of a kind, its documents, and writes as lines of a bulk."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring_ascii as _quoted
from typing import TYPE_CHECKING, Any, Generic

from msgspec import Raw, Struct, field

from mahavishnu.model.errors import CorruptRecord, ItemFailed, StoreError, StoreMisconfigured, StoreUnavailable
from mahavishnu.model.record import Value
from mahavishnu.stores import base as schema
from mahavishnu.stores.base import Upgrade
from mahavishnu.stores.kind import LONGEST_TERM, Field, FieldType, Kind, T, flatten, is_findable, to_json_value

if TYPE_CHECKING:
    from mahavishnu.stores.opensearch.index import Index


KEY, STAMP, ORIGINALS = "store_key", "store_stamp", "store_originals"
_ORIGINALS = f'"{ORIGINALS}":'
_dumps = json.JSONEncoder(separators=(",", ":")).encode
LONGEST_KEY = 512  # bytes
_EQUALS = "\ue03d"  # OpenSearch joins path and value by "=", which would let {"a=b": "c"} be found as {"a": "b=c"}
MOST_HITS = 10_000  # of one answer
# Also the server's own values: said aloud, they win over the index templates of the server's users.
REQUIRED_SETTINGS = {
    "max_result_window": MOST_HITS,
    "default_pipeline": "_none",
    "final_pipeline": "_none",
    "translog.durability": "request",
}
_WHOLE_DOCUMENT: dict[str, dict[str, Any]] = {
    "_source": {"enabled": True, "includes": [], "excludes": []},
    "_routing": {"required": False},
}
_META = "mahavishnu"
_DOCUMENTED_INTEGERS = {"retry_count", "max_retries", "total_attempts"}  # users were told `integer`; others get `long`
_UNSEARCHED = {"type": "keyword", "index": False, "doc_values": False}
_STORE_FIELDS: dict[str, dict[str, Any]] = {
    KEY: {"type": "keyword", "index": False},  # breaks ties in sorting, which `_id` cannot
    STAMP: _UNSEARCHED,  # tells our own write from another's when the answer was lost
    ORIGINALS: _UNSEARCHED,  # JSON text of the values that could not be kept under their own name
}


class Layout(Value, frozen=True):
    """Layout of a kind's documents in one particular index."""

    moved: frozenset[str] = frozenset()  # fields that are always kept among the originals
    flat: Mapping[str, str] = field(default_factory=dict)  # FLAT fields that are searched under another name

    def searched_name(self, name: str) -> str:
        return self.flat.get(name, name)


class Plan(Value, frozen=True):
    """Changes that an existing index needs before it can be used, and the layout of its documents then."""

    layout: Layout
    extension: dict[str, Any] | None = None  # of its mapping
    settings: dict[str, Any] | None = None
    upgrades: Sequence[Upgrade] = ()  # before that


def mapping(kind: Kind[Any]) -> dict[str, Any]:
    """Return the mapping of a new index. Strict, so that no payload can ever make it grow."""
    properties = {f.name: _property(f) for f in kind.fields} | _STORE_FIELDS
    return {
        "dynamic": "strict",
        **_WHOLE_DOCUMENT,
        "_meta": {_META: {"schema": schema.SCHEMA}},
        "properties": properties,
    }


def plan(kind: Kind[Any], index: str, found: Mapping[str, Any], settings: Mapping[str, Any]) -> Plan:
    """Return the plan for an existing index. Raises StoreMisconfigured, naming why, or IncompatibleStore."""
    ours = found.get("_meta", {}).get(_META)  # None for an index made by hand: it gets the number with what it lacks
    number = None if ours is None else ours.get("schema", schema.UNNUMBERED)
    upgrades = schema.upgrades_from(schema.SCHEMA if number is None else number, f"index {index}")
    existing: Mapping[str, Any] = found.get("properties", {})
    missing: dict[str, Any] = {}
    problems = _incomplete(found)
    moved: set[str] = set()
    flat: dict[str, str] = {}
    for f in kind.fields:
        wanted = _property(f)
        if f.name not in existing:
            missing[f.name] = wanted
            continue
        here = existing[f.name]
        is_open = here.get("type", "object") == "object" and here.get("enabled", True) not in (False, "false")
        if is_open and f.type in (FieldType.JSON, FieldType.BLOB, FieldType.FLAT):
            # Made by hand from the documentation: payloads would make it grow, so they are kept beside it.
            moved.add(f.name)
            if f.type is FieldType.FLAT:
                flat[f.name] = f"{f.name}_flat"
                if flat[f.name] not in existing:
                    missing[flat[f.name]] = wanted
        elif problem := _contradiction(wanted, here):
            problems.append(f"{f.name} {problem}")
        elif wanted["type"] == "keyword" and (better := _extend(wanted, here)) != here:
            missing[f.name] = better
    for name, wanted in _STORE_FIELDS.items():
        if name not in existing:
            missing[name] = wanted
        elif problem := _contradiction(wanted, existing[name]):
            problems.append(f"{name} {problem}")
    if problems:
        raise StoreMisconfigured(
            f"the mapping of index {index} contradicts, nothing was changed: {'; '.join(problems)}. "
            "Reindex it into one without that (a template may have brought it about), or choose another prefix"
        )
    extension: dict[str, Any] = {"properties": missing} if missing else {}
    if found.get("dynamic") != "strict":
        extension["dynamic"] = "strict"
    if number != schema.SCHEMA:
        extension["_meta"] = {**found.get("_meta", {}), _META: {"schema": schema.SCHEMA}}
    window = None if _window(settings) >= MOST_HITS else {"index.max_result_window": MOST_HITS}
    return Plan(Layout(frozenset(moved), flat), extension or None, window, upgrades)


def setting_problems(settings: Mapping[str, Any]) -> list[str]:
    """Return settings of an index that keep records from being stored unchanged, or found, and what to do."""
    problems = []
    if blocks := sorted(name for name, value in settings.get("blocks", {}).items() if value == "true"):
        problems.append(f"is read-only ({', '.join(blocks)}); is the disk full?")
    problems += [
        f"has the {name} {pipeline!r}, which may change or refuse records: set it to '_none'"
        for name in ("default_pipeline", "final_pipeline")
        if (pipeline := settings.get(name, "_none")) != "_none"
    ]
    if (window := _window(settings)) < MOST_HITS:
        problems.append(f"has a max_result_window of {window}, which lists do not work with: set it to {MOST_HITS}")
    return problems


def integer_bits(kind: Kind[Any], name: str) -> int:
    """Return the bits, without the sign, of the largest number that the index finds."""
    return 31 if name in _DOCUMENTED_INTEGERS else 63


def _property(f: Field[Any]) -> dict[str, Any]:
    match f.type:
        case FieldType.KEYWORD | FieldType.KEYWORDS:
            # Counted in UTF-16 units here. What is too long by our own count is never sent as a term.
            keyword = {"type": "keyword", "ignore_above": 2 * LONGEST_TERM}
            return keyword if f.derived else {**keyword, "fields": {"keyword": keyword}}
        case FieldType.DATE:
            return {"type": "date"}
        case FieldType.INTEGER:
            # Kept, but not found: better than losing the record for a number that is out of range.
            return {"type": "integer" if f.name in _DOCUMENTED_INTEGERS else "long", "ignore_malformed": True}
        case FieldType.TEXT:
            return {"type": "text"}
        case FieldType.FLAT:
            return {"type": "flat_object"}
        case FieldType.JSON | FieldType.BLOB:
            return {"type": "object", "enabled": False}


def _window(settings: Mapping[str, Any]) -> int:
    return int(settings.get("max_result_window", MOST_HITS))


def _incomplete(found: Mapping[str, Any]) -> list[str]:
    """Return why documents would come back changed, or be refused, whatever is in them."""
    problems = []
    source = found.get("_source", {})
    if source.get("enabled", True) in (False, "false") or source.get("includes") or source.get("excludes"):
        problems.append("_source does not keep the whole document")
    if found.get("_routing", {}).get("required", False) not in (False, "false"):
        problems.append("_routing is required")
    return problems


def _contradiction(wanted: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """Return why documents and queries for the one do not work on the other; empty if they do."""
    type_, theirs = wanted["type"], here.get("type", "object")
    if theirs != type_ and not {theirs, type_} <= {"integer", "long"}:
        return f"is {theirs}, not {type_}"
    for option in ("index", "doc_values"):
        if wanted.get(option, True) and here.get(option, True) in (False, "false"):
            return f"has {option}: false"
    if here.get("normalizer"):
        return f"has the normalizer {here['normalizer']}"
    if type_ == "date" and "date_optional_time" not in here.get("format", "date_optional_time"):
        return f"has the format {here['format']}, which does not take ISO 8601"
    return ""


def _extend(wanted: Mapping[str, Any], here: Mapping[str, Any]) -> dict[str, Any]:
    """Return `here` with the sub-field and the room that are wanted; the rest has to stay as it is."""
    better = dict(here)
    if "ignore_above" in wanted and here.get("ignore_above", wanted["ignore_above"]) < wanted["ignore_above"]:
        better["ignore_above"] = wanted["ignore_above"]
    if fields := {**wanted.get("fields", {}), **here.get("fields", {})}:
        better["fields"] = fields
    return better


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
            if (encode := self._kind.encode_derived) is not None:
                parts.append(encode(record))
            else:
                parts += [name + _json(value(record)) for name, value in self._derived]
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
        """Read a document quickly that is as we write them; None if it has to be read with more care."""
        read = self._kind.decode_text
        # A document edited by hand may be spaced out, which would become part of what users gave.
        if read is None or _ORIGINALS in text or '": ' in text or "\n" in text:
            return None
        return read(text, (hit["_seq_no"], hit["_primary_term"], self._mark))

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
    """Return the value as JSON, quickly for what derived fields mostly are."""
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
    """Return the findable values of a JSON object, in a shape that every server takes."""
    terms: dict[str, list[str]] = {}
    for path, text in flatten(value):
        if len(path) + len(text) <= LONGEST_TERM:
            terms.setdefault(path_text(path), []).append(text)
    return terms


class WriteRequest(Struct, eq=False):
    """One call to write or remove: its results, and the writes that still wait to be sent."""

    results: list[Any]
    waiting: list[PendingWrite] = field(default_factory=list)  # the next one last
    left: int = 0
    since: float = field(default_factory=time.monotonic)
    done: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class PendingWrite(Struct, eq=False):
    """One record of a call that is to be created, replaced or removed."""

    call: WriteRequest | None
    place: int
    record: Any
    key: str
    stamp: str
    removes: bool
    body: bytes = b""
    plainly: bool = True  # as a document that people can read, unless the server refuses it
    uncertain: bool = False  # it may have landed, but the answer was lost
    looked_again: bool = False  # the index was looked at once more: the server said it is gone, or lacks a field
    trouble: StoreError | None = None

    def settle(self, result: Any) -> None:
        """Give the result to the caller, once."""
        if (call := self.call) is None:
            return
        self.call = None
        call.results[self.place] = result
        call.left -= 1
        if not call.left and not call.done.done():
            call.done.set_result(None)

    def settle_stored(self, index: Index[Any], mark: int, answer: Mapping[str, Any]) -> None:
        version = (answer["_seq_no"], answer["_primary_term"], mark)
        self.settle(True if self.removes else index.kind.versioned(self.record, version))

    def settle_lost(self) -> None:
        self.settle(False if self.removes else None)

    def settle_failed(self, problem: Exception) -> None:
        """Report that the store does not answer, by an error of its own: errors gather tracebacks."""
        if isinstance(problem, StoreMisconfigured) and not self.uncertain:
            self.settle(StoreMisconfigured(str(problem)))
        else:
            self.settle(StoreUnavailable(str(problem), maybe_written=self.uncertain))

    def encode(self, index: Index[Any]) -> bool:
        """Make its lines in a bulk; if that cannot be done, the write has failed."""
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
    """Return True if OpenSearch takes the key as a document's id."""
    try:
        return 0 < (len(key) if key.isascii() else len(key.encode())) <= LONGEST_KEY
    except UnicodeEncodeError:
        return False
