"""JSON values: an immutable one, conversion to JSON, merge patches and their places, and differences of two values."""

from __future__ import annotations

import base64
import difflib
import hashlib
import json
import math
import re
from collections import ChainMap, Counter, OrderedDict, UserDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from itertools import accumulate, chain, islice
from pathlib import PurePath
from types import MappingProxyType
from typing import Any
from uuid import UUID

from mahavishnu.model.errors import InvalidInput, InvalidPayload

_TEXTS = frozenset([str])
_SCALARS = frozenset([str, int, float, bool, type(None)])
# Not `a | b` where it is asked for each part of a payload: that would be made anew for each.
_LISTS, _COLLECTIONS, _SCALAR_KINDS = (list, tuple), (list, tuple, set), (str, int, float, type(None))
MAX_DEPTH = 200  # far below every parser's own limit, so that what is accepted here is accepted everywhere
_STRING = re.compile(r'"[^"]*"')  # without escapes
_CIPHERTEXT = re.compile(r'("\$encrypted:1:)[^":]+(:[0-9a-f]{32}:)[A-Za-z0-9_-]+')
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = {ord(bracket): step for bracket, step in zip("[{]}", (1, 1, -1, -1), strict=True)}
_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":"), default=lambda value: _coerce(value)).encode


def _parsed_encoder(*, sort_keys: bool, allow_nan: bool) -> Callable[[Any], str]:
    """Return a writer of values that a parser returned: it takes a third of the time of `json`."""
    made = json.JSONEncoder(check_circular=False, allow_nan=allow_nan, sort_keys=sort_keys, separators=(",", ":"))
    if (compiled := getattr(json.encoder, "c_make_encoder", None)) is None:
        return made.encode
    parts = compiled(None, made.default, json.encoder.encode_basestring_ascii, None, ":", ",", sort_keys, 0, allow_nan)
    return lambda value: "".join(parts(value, 0))


_encode_sorted = _parsed_encoder(sort_keys=True, allow_nan=True)
_encode_parsed = _parsed_encoder(sort_keys=False, allow_nan=False)
_IN_TEXT = ...  # in place of a value that was encoded; it stays itself when it is copied
Difference = dict[str, Any]  # `path`, `before` and `after`, see `difference`
Path = tuple[str, ...]
_COMPARED = 1000  # places that are compared with one that is not there
_NAMED = 5  # places that are named where none is like it
_ALIKE = 0.8  # how much of two places is equal, from 0 to 1, for one to be meant by the other


def json_text(value: Any) -> str:
    """Encode a value as `Json.of` does, without its checks: an invalid value may raise any error, or none."""
    return _encode(value)


class Json:
    """An immutable JSON value: `value` returns a fresh copy each time.

    The text is encoded once and shared by every version of a letter. Two are equal if their values are equal.

    >>> payload = Json.of({"type": "code_sweep"})
    >>> payload.value["type"] = "changed"
    >>> payload.value
    {'type': 'code_sweep'}
    """

    __slots__ = ("_value", "digest", "text")

    text: str
    """The JSON text: ASCII, no white space."""
    digest: str
    """24 characters that equal values have in common, however they are spelled. It takes a while, once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._value: Any = _IN_TEXT

    @classmethod
    def of(cls, value: Any, name: str = "task") -> Json:
        """`value` as JSON: dates, paths, UUIDs, decimals, enums, durations, sets and bytes become text or numbers.

        Keys that are numbers, booleans or None become text. Raises InvalidPayload naming the path of what JSON cannot
        hold: NaN, unknown types, other keys, keys that would collide, circles, nesting deeper than 200.
        """
        try:
            text = _encode(value)
        except (TypeError, ValueError, RecursionError) as problem:
            _refuse(value, name)
            raise InvalidPayload(name, f"cannot be written as JSON: {problem}") from problem
        if nesting_depth(text) > MAX_DEPTH:
            raise InvalidPayload(name, f"is nested deeper than {MAX_DEPTH}")
        if not is_plain_json(value):  # two keys may have become one
            _refuse(value, name)
        return cls(text)

    @classmethod
    def from_stored(cls, data: bytes) -> Json:
        """Wrap JSON that a store kept. It is rewritten only where somebody else has written it: if it is not ASCII."""
        text = data.decode()
        return cls(text) if data.isascii() else cls.from_parsed(json.loads(text))

    @classmethod
    def from_parsed(cls, value: Any) -> Json:
        """Wrap a value that a JSON parser just returned, and that the caller gives up; it is encoded when needed."""
        self = cls.__new__(cls)
        self._value = value
        return self

    def __getattr__(self, name: str) -> Any:
        """Make the digest, or the text of a parsed value, when it is asked for: only then is the attribute missing."""
        if name == "digest":
            text = _encode_sorted(self.shared_value)
            if '"$encrypted:' in text:  # its mark says what it is; its ciphertext is another one each time
                text = _CIPHERTEXT.sub(r"\1\2", text)
            self.digest = hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
            return self.digest
        if name != "text":
            raise AttributeError(name)
        value = self._value  # read once: another thread may encode the text and drop the value
        if value is not _IN_TEXT:
            self.text = _encode_parsed(value)
            self._value = _IN_TEXT
        return self.text

    @property
    def value(self) -> Any:
        """A fresh copy of the value."""
        return {} if self.text == "{}" else json.loads(self.text)

    @property
    def shared_value(self) -> Any:
        """The value, perhaps not a copy: for callers that only read it."""
        value = self._value  # read once, for the same reason
        return json.loads(self.text) if value is _IN_TEXT else value

    def member(self, name: str) -> Any:
        """The value under this name; None if there is none. A text without the name is not parsed for that."""
        if self._value is _IN_TEXT and f'"{name}"' not in self.text:
            return None
        value = self.shared_value
        return value.get(name) if isinstance(value, dict) else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Json) and (self.text == other.text or self.value == other.value)

    def __hash__(self) -> int:
        return hash(type(self))  # equal values may be spelled differently; these are values, not keys

    def __repr__(self) -> str:
        text = self.text
        return f"Json({text if len(text) <= 60 else text[:60] + '…'})"


EMPTY = Json("{}")


def texts(values: Iterable[str], what: str, *names: object) -> tuple[str, ...]:
    """A tuple of texts or paths. Raises InvalidInput for anything else; `what`.format(`names`) names it."""
    if type(values) in (list, tuple) and set(map(type, values)) <= {str}:  # the usual case
        return tuple(values)
    found = None
    if isinstance(values, Iterable) and not isinstance(values, str | bytes):
        found = tuple(each.__fspath__() if hasattr(each, "__fspath__") else each for each in values)
    if found is None or not all(isinstance(each, str) for each in found):
        raise InvalidInput(f"{what.format(*names)} must be a list of texts, not {values!r:.80}")
    return found


def safe_repr(value: Any) -> str:
    """The `repr` of any value in at most 300 characters; its type where `repr` fails."""
    try:
        return f"{value!r:.300}"
    except Exception:  # such as of what is nested deeper than Python can go
        return type_label(value)


_DECLARED = "__safe_fields__"  # of a class: the names of fields whose values a letter may show
_SAFE = {"starlette.requests.Request": ("method",), "django.http.request.HttpRequest": ("method",)}
# Mappings whose content is data. Any other one may be a request, a session or an environment.
OPEN = frozenset([dict, OrderedDict, defaultdict, Counter, ChainMap, UserDict, MappingProxyType])


def type_label(value: Any) -> str:
    """The type of the value in angle brackets, with those of its fields that its class declares as safe.

    >>> class Order:
    ...     __safe_fields__ = ("number",)
    ...     number, card = 7, "4111"
    >>> type_label(Order()), type_label(print)
    ('<Order number=7>', '<builtin_function_or_method>')
    """
    kind, shown = type(value), ""
    try:
        known = [_SAFE.get(f"{each.__module__}.{each.__qualname__}", ()) for each in kind.__mro__]
        for name in (*getattr(kind, _DECLARED, ()), *chain(*known)):
            if isinstance(field := getattr(value, name, None), str | int | float | bool | UUID):
                shown += f" {name}={str(field) if isinstance(field, UUID) else field!r:.80}"
    except Exception:  # code of a user
        pass
    return f"<{kind.__name__}{shown}>"


def json_safe_copy(value: Any, inside: tuple[int, ...] = ()) -> Any:
    """A copy of `value` for JSON, with the type in place of every part that JSON cannot hold: nothing is dumped.

    >>> json_safe_copy({"n": 1, "when": float("nan"), "who": {None: {1, 2}}})
    {'n': 1, 'when': 'nan', 'who': {'null': [1, 2]}}
    """
    try:
        if value is None or isinstance(value, str | bool):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else repr(value)
        if isinstance(value, int):
            json.loads(_encode(value))  # one of many thousand digits is more than Python writes or reads
            return value
        if id(value) in inside or len(inside) >= MAX_DEPTH:
            return type_label(value)
        within = (*inside, id(value))
        if type(value) in OPEN:
            copy: dict[str, Any] = {}
            for key, item in list(value.items()):
                is_plain = key is None or isinstance(key, int | float)
                name = key if isinstance(key, str) else json.dumps(key) if is_plain else _key_label(key)
                while name in copy:
                    name += "'"
                copy[name] = json_safe_copy(item, within)
            return copy
        if (names := getattr(type(value), "_fields", None)) is not None and isinstance(value, tuple):
            return {name: json_safe_copy(item, within) for name, item in zip(names, value, strict=True)}
        if type(value) in _LISTS:
            return [json_safe_copy(item, within) for item in value]
        return json_safe_copy(_coerce(value), within)
    except Exception:  # a value of a user may raise anything
        return type_label(value)


def _key_label(key: Any) -> str:
    """Return a key that JSON cannot hold as text: what it is named by, if that is data."""
    plain = json_safe_copy(key)
    return plain if isinstance(plain, str) else json.dumps(plain)


def is_plain_json(value: Any) -> bool:
    """Return True if all of it is of types that JSON has, and all keys are texts."""
    waiting = [value]
    for each in waiting:  # more of them come while it goes on
        inside: Collection[Any]
        if type(each) in _SCALARS:
            continue
        if isinstance(each, dict):
            if not _TEXTS.issuperset(map(type, each)):
                return False
            inside = each.values()
        elif isinstance(each, _LISTS):
            inside = each
        elif isinstance(each, _SCALAR_KINDS):
            continue
        else:
            return False
        if not _SCALARS.issuperset(map(type, inside)):
            waiting += inside
    return True


def is_large(value: Any, parts: int = 2000) -> bool:
    """Return True if the value has more parts than that, or is a circle; found without a look at many more."""
    waiting, found = [value], 1
    for each in waiting:  # more of them come while it goes on
        if type(each) in _SCALARS:
            continue
        inside = each.values() if isinstance(each, dict) else each if isinstance(each, _COLLECTIONS) else ()
        found += len(inside)
        if found > parts:
            return True
        if not _SCALARS.issuperset(map(type, inside)):
            waiting += inside
    return False


def nesting_depth(text: str) -> int:
    """Return how deeply the JSON `text` nests: exact above 20, else at most 20, mostly by counting brackets."""
    bound = text.count("[") + text.count("{")
    if bound <= 20:
        return bound
    plain = text.replace("\\\\", "").replace('\\"', "")
    brackets = _STRING.sub("", plain).encode().translate(None, _NO_BRACKETS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)))


def _coerce(value: Any) -> Any:
    """The JSON form of the types that JSON does not have. Raises TypeError for any other type."""
    match value:
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case UUID() | PurePath() | Decimal():
            return str(value)
        case Enum():
            return value.value
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(bytes(value)).decode()
        case set() | frozenset():
            return sorted(value, key=str)
        case Mapping() if type(value) in OPEN:
            return dict(value)
    raise TypeError(f"of type {type(value).__name__} has no JSON form")


def _refuse(value: Any, path: str, inside: tuple[int, ...] = ()) -> None:
    """Raise InvalidPayload for the first thing inside `value` that JSON cannot hold, if there is one."""
    if id(value) in inside:
        raise InvalidPayload(path, "contains itself")
    if len(inside) > MAX_DEPTH:
        raise InvalidPayload(path, f"is nested deeper than {MAX_DEPTH}")
    inside = (*inside, id(value))
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidPayload(path, f"is {value}, which JSON has no number for")
    if isinstance(value, Mapping):
        seen: set[str] = set()
        for key, item in value.items():
            if not (key is None or isinstance(key, str | int | float)):
                raise InvalidPayload(path, f"has a key of type {type(key).__name__}: {key!r}; keys must be text")
            if isinstance(key, float) and not math.isfinite(key):
                raise InvalidPayload(path, f"has the key {key}, which JSON has no number for")
            text = key if isinstance(key, str) else json.dumps(key)
            if text in seen:
                raise InvalidPayload(path, f"has two keys that both become {text!r}")
            seen.add(text)
            _refuse(item, f"{path}.{text}", inside)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _refuse(item, f"{path}[{index}]", inside)
    elif not (value is None or isinstance(value, str | int | float)):
        try:
            coerced = _coerce(value)
        except TypeError as problem:
            raise InvalidPayload(path, str(problem)) from None
        _refuse(coerced, path, inside)


# ----------------------------------------------------------------------- merge patches (RFC 7386) and differences


def merge_patch(target: Any, patch: Any) -> Any:
    """`target` with a JSON merge patch applied: objects are merged, null removes, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge_patch(result.get(name), value)
    return result


def difference(before: Any, after: Any) -> list[Difference]:
    """Return the differences of two JSON values: `path` (a JSON pointer, RFC 6901), and `before` and `after`.

    Objects are compared name by name, lists of equal length item by item; other lists differ as a whole.
    """
    return list(_differences(before, after, ""))


def _differences(before: Any, after: Any, path: str) -> Iterator[Difference]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in {**before, **after}:
            inside = f"{path}/{pointer_step(name)}"
            if name not in after:
                yield {"path": inside, "before": before[name]}
            elif name not in before:
                yield {"path": inside, "after": after[name]}
            else:
                yield from _differences(before[name], after[name], inside)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for place, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _differences(one, other, f"{path}/{place}")
    elif not same_json(before, after):
        yield {"path": path, "before": before, "after": after}


def same_json(one: Any, other: Any) -> bool:
    """Return True if two JSON values are the same, types included: Python takes 1, 1.0 and true for equal."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_json(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_json, one, other))
    return type(one) is type(other) and bool(one == other)


def pointer(*names: str) -> str:
    """The JSON pointer of a place.

    >>> pointer("task", "a/b")
    '/task/a~1b'
    """
    return "".join(f"/{pointer_step(name)}" for name in names)


def pointer_step(step: object) -> str:
    """A name or place as a part of a JSON pointer."""
    return str(step).replace("~", "~0").replace("/", "~1")


def unescape(step: str) -> str:
    """The name that a part of a JSON pointer stands for."""
    return step.replace("~1", "/").replace("~0", "~")


def patch_paths(patch: Any) -> Iterator[Path]:
    """The names under which a merge patch (RFC 7386) sets or removes something.

    >>> sorted(patch_paths({"url": None, "size": {"width": 3}}))
    [('size', 'width'), ('url',)]
    """
    if not isinstance(patch, dict) or not patch:
        yield ()
        return
    for name, value in patch.items():
        for rest in patch_paths(value):
            yield (str(name), *rest)


def has_path(value: Any, path: Sequence[str]) -> bool:
    """Return True if there is something at this place, be it null; a null can become an object with any names.

    >>> has_path({"size": {"width": None}}, ("size", "width")), has_path({"size": 3}, ("size", "width"))
    (True, False)
    """
    for name in path:
        if value is None:
            return True
        if not isinstance(value, dict) or name not in value:
            return False
        value = value[name]
    return True


def refuse_unknown_paths(unknown: Sequence[Path], tasks: Iterable[Any], which: str) -> None:
    """Raise InvalidInput for places that no task has, naming near ones; `which` names them: "letter 'wf_1' has no"."""
    if not unknown:
        return
    known = list(dict.fromkeys(path for task in tasks for path in islice(_paths(task), _COMPARED)))
    near = [pointer("task", *path) for path in (_nearest(path, known) for path in unknown) if path]
    there = [pointer("task", *path) for path in known if len(path) == 1][:_NAMED]
    hint = f"; did you mean {' and '.join(dict.fromkeys(near))}?" if near else "."
    hint = f", but {', '.join(there)}." if there and not near else hint
    missing = ", ".join(pointer("task", *path) for path in unknown)
    raise InvalidInput(f"{which} {missing}{hint} What is not there is made with create=True (--create)")


def _nearest(path: Path, known: Sequence[Path]) -> Path | None:
    """The place that is meant by this one: another name beside it, that name elsewhere, or one spelled alike."""
    beside = {other[-1]: other for other in known if other[:-1] == path[:-1]}
    if path and (names := difflib.get_close_matches(path[-1], beside, 1)):
        return beside[names[0]]
    elsewhere = {pointer(*other): other for other in known if other[:-1] != path[:-1]}
    same_name = {text: other for text, other in elsewhere.items() if other[-1:] == path[-1:]}
    text = pointer(*path)
    found = difflib.get_close_matches(text, same_name, 1) or difflib.get_close_matches(text, elsewhere, 1, _ALIKE)
    return elsewhere[found[0]] if found else None


def _paths(value: Any, at: Path = ()) -> Iterator[Path]:
    """All places in a value."""
    if at:
        yield at
    for name, inner in value.items() if isinstance(value, dict) else ():
        yield from _paths(inner, (*at, name))


def label_of(path: str, before: str = "") -> str:
    """A JSON pointer as people write it, below the name `before`.

    >>> label_of("/order/items/0/price"), label_of("/0", "task"), label_of("/a", "task"), label_of("", "task")
    ('order.items[0].price', 'task[0]', 'task.a', 'task')
    """
    label = before
    for step in path.split("/")[1:]:
        step = unescape(step)
        label += f"[{step}]" if step.isdecimal() else f".{step}" if label else step
    return label


# --- size of a YAML document with its aliases expanded: 1 KB of them may mean gigabytes

MOST_NODES = 100_000  # of any document that people write


def is_too_large(root: Any) -> bool:
    """Return True for a composed node with more than `MOST_NODES` inside. Raises RecursionError for one in itself."""
    sizes: dict[int, int] = {}

    def size(node: Any) -> int:
        if id(node) not in sizes:
            inside = node.value if isinstance(node.value, list) else ()
            nodes = [each for item in inside for each in (item if isinstance(item, tuple) else (item,))]
            sizes[id(node)] = 1 + sum(map(size, nodes))
        return sizes[id(node)]

    return size(root) > MOST_NODES
