"""Records as documents of an index, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any, Generic

from mahavishnu.model.errors import CorruptRecord
from mahavishnu.stores.kind import LONGEST_TERM, FieldType, Kind, T, findable, flattened, plain
from mahavishnu.stores.opensearch.mapping import KEY, ORIGINALS, STAMP, Layout

_dumps = json.JSONEncoder(separators=(",", ":")).encode
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

    def written(self, record: T, key: str, stamp: str, *, plainly: bool = True) -> bytes:
        """The document's JSON. Not `plainly`, what a server may refuse to take as it is becomes a text."""
        text = self._kind.encode(record)
        if not plainly or self._layout.moved or self._needs_care(record, text):
            text = self._careful(record, text, key, stamp, plainly)
        else:
            parts = [text[:-1]]
            parts += [name + value(record).text for name, value in self._users]
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
            if originals := document.pop(ORIGINALS, None):
                document.update(json.loads(originals))
            for name in self._hidden:
                document.pop(name, None)
            return self._kind.decode(document, (hit["_seq_no"], hit["_primary_term"], self._mark))
        except CorruptRecord as problem:
            return CorruptRecord(identity, problem.reason)
        except Exception as problem:  # a decoder may stumble over anything; that must not hide the other records
            return CorruptRecord(identity, f"{type(problem).__name__}: {problem}")

    def _needs_care(self, record: T, text: str) -> bool:
        if len(text) > LONGEST_TERM and any(_is_long(f.value(record)) for f in self._terms):
            return True
        for f in self._flat:
            flat = f.value(record)
            if ("=" in flat.text or len(flat.text) > LONGEST_TERM) and any(
                "=" in path or len(path) + len(value) > LONGEST_TERM for path, value in flattened(flat.value)
            ):
                return True
        return False

    def _careful(self, record: T, text: str, key: str, stamp: str, plainly: bool) -> str:
        layout = self._layout
        document = {**json.loads(text), **self._kind.derived(record)}
        originals: dict[str, Any] = {}
        for f in self._kind.fields:
            name = f.name
            match f.type:
                case FieldType.KEYWORD | FieldType.KEYWORDS:
                    if _is_long(value := document.get(name)):
                        document[name] = [each for each in value if findable(each)] if isinstance(value, list) else None
                        originals[name] = value
                case FieldType.BLOB:
                    if name in layout.moved and name in document:
                        originals[name] = document.pop(name)
                case FieldType.JSON:
                    place = document if plainly and name not in layout.moved else originals
                    place[name] = f.value(record).value
                case FieldType.FLAT:
                    originals[name] = f.value(record).value
                    document[layout.searched(name)] = _terms(originals[name])
        own = {KEY: key, STAMP: stamp, ORIGINALS: _dumps(originals)}
        return _dumps({**document, **own})


def _json(value: Any) -> str:
    """As JSON, quickly for what derived fields mostly are."""
    if type(value) is tuple:
        return f"[{','.join(map(_quoted, value))}]"
    return str(value) if type(value) is int else _dumps(plain(value))


def path_text(path: str) -> str:
    """A dotted path as it is spelled in the index."""
    return path.replace("=", _EQUALS)


def _is_long(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_is_long, value))
    return value is not None and not findable(value)


def _terms(value: Any) -> dict[str, list[str]]:
    """What can be found of a JSON object, in a shape that every server takes."""
    terms: dict[str, list[str]] = {}
    for path, text in flattened(value):
        if len(path) + len(text) <= LONGEST_TERM:
            terms.setdefault(path_text(path), []).append(text)
    return terms
