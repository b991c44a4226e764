"""Types beside a payload during an edit: each stays at its path, or the edit is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.json_value import label_of, pointer_step, same_json
from mahavishnu.model.letter_parts import LOST
from mahavishnu.values.kinds import ValueKind, kinds_by_name
from mahavishnu.values.typed_json import EACH, EXACT, Types, TypeTree, tree_of

_LISTS = {"tuple": "a tuple", "set": "a set", "frozenset": "a frozenset"}
_ABSENT = object()  # in place of what was not there before
_OBJECTS = ("dataclass", "namedtuple", "model")
_WORDS = {str: "text", bool: "true or false", int: "a number", float: "a number", dict: "an object", list: "a list"}


def require_types(types: Any) -> Types:
    """Return types that a caller handed in. Raises InvalidInput for anything but an object of paths and kinds."""
    if not isinstance(types, Mapping) or not all(
        type(path) is str and type(kind) is str and kind and (not path or path[0] == "/")
        for path, kind in types.items()
    ):
        raise InvalidInput(f"payload_types is an object of JSON pointers and kinds, not {types!r:.80}")
    return dict(types)


def check_edit(old: Any, old_types: Mapping[str, str], new: Any, kinds: Iterable[ValueKind] = ()) -> Types:
    """The types of the JSON `new` that a person has made of the JSON `old`.

    What is removed loses its kind, what is new has none, null is None; lists whose elements are all of one kind extend.
    What a value of a class may have inside is checked when it is made. Raises InvalidInput for a value that is not of
    the kind at its path, saying why.

    >>> check_edit({"amount": "12.50"}, {"/amount": "decimal"}, {"amount": "13"})
    {'/amount': 'decimal'}
    >>> check_edit({"day": "2026-11-19"}, {"/day": "date"}, {"day": 19})
    Traceback (most recent call last):
        ...
    mahavishnu.model.errors.InvalidInput: `day` is a date: 19 is not one (it is no text)
    """
    if not old_types:
        return {}
    types: Types = {}
    _Checker(kinds_by_name(tuple(kinds)), types).check(old, tree_of(old_types), new, "")
    return types


class _Checker:
    def __init__(self, kinds: Mapping[str, ValueKind], types: Types) -> None:
        self._kinds, self._types = kinds, types

    def check(self, old: Any, node: TypeTree | None, new: Any, path: str) -> None:
        """Note the kinds of `new`, where `old` had those of the node."""
        if node is None:
            return
        if same_json(old, new):
            self._keep(node, path)
            return
        form, _, name = (node.kind or "").partition(":")
        if new is None and node.kind is not None:
            return
        if form == LOST or (form == EXACT and type(old) is not type(new)):
            return  # the new value has the type that it was written with
        if node.kind is not None:
            self._require_kind(old, node.kind, form, name, new, path)
            self._types[path] = node.kind
        if isinstance(new, dict):
            before = old if isinstance(old, dict) else {}
            for key, item in new.items():
                self.check(before.get(key, _ABSENT), node.parts.get(key), item, f"{path}/{pointer_step(key)}")
        elif isinstance(new, list):
            self._check_elements(old if isinstance(old, list) else [], node, new, path)

    def _keep(self, node: TypeTree, path: str) -> None:
        if node.kind is not None:
            self._types[path] = node.kind
        for step, below in node.parts.items():
            self._keep(below, f"{path}/{pointer_step(step)}")

    def _check_elements(self, old: list[Any], node: TypeTree, new: list[Any], path: str) -> None:
        if EACH in node.parts:
            # Each element may turn out otherwise, as if one becomes null: then every one of them is noted by its place.
            found: list[Types] = []
            for place, item in enumerate(new):
                types: Types = {}
                before = old[place] if place < len(old) else _ABSENT
                _Checker(self._kinds, types).check(before, node.part(place), item, f"{path}/{place}")
                found.append({key.removeprefix(f"{path}/{place}"): kind for key, kind in types.items()})
            alike = bool(found) and all(types == found[0] for types in found)
            steps = [EACH] if alike else range(len(found))
            for step, types in zip(steps, found, strict=False):
                self._types.update({f"{path}/{step}{below}": kind for below, kind in types.items()})
            return
        places = _former_places(old, new)
        for place, item in enumerate(new):
            before = places[place]
            if before < len(old):
                self.check(old[before], node.parts.get(str(before)), item, f"{path}/{place}")

    def _require_kind(self, old: Any, kind: str, form: str, name: str, new: Any, path: str) -> None:
        known = self._kinds.get(kind)
        if known is not None:
            try:
                known.from_plain(new)
            except Exception as problem:  # of a plugin too
                raise _refusal(path, known.article_and_name, new, str(problem)) from problem
        elif form in _LISTS:
            if not isinstance(new, list):
                raise _refusal(path, _LISTS[form], new, "give a list")
        elif form in _OBJECTS:
            if not isinstance(new, dict):
                raise _refusal(path, f"the {form} {name.rpartition('.')[2]}", new, "give an object")
        elif form in ("dict", "ordered-dict"):
            if not isinstance(new, dict):
                raise _refusal(path, "an object", new, "give an object")
            self._require_keys(name, new, path)
        elif form == "enum" and old is not _ABSENT and _word(new) != _word(old):
            raise _refusal(path, f"the enum {name.rpartition('.')[2]}", new, f"give {_word(old)}")

    def _require_keys(self, kind: str, new: dict[str, Any], path: str) -> None:
        if (known := self._kinds.get(kind)) is None:
            return
        for key in new:
            try:
                known.from_plain(key)
            except Exception as problem:
                place = f"{path}/{pointer_step(key)}"
                raise _refusal(place, f"under {known.article_and_name}", key, str(problem)) from problem


def _former_places(old: list[Any], new: list[Any]) -> list[int]:
    """Return the former place of each element: that of an equal one that is free, else the same place."""
    free = [place for place, item in enumerate(old) if place >= len(new) or not same_json(item, new[place])]
    places = []
    for place, item in enumerate(new):
        if place < len(old) and same_json(old[place], item):
            places.append(place)
        else:
            moved = next((other for other in free if same_json(old[other], item)), None)
            if moved is not None:
                free.remove(moved)
            places.append(place if moved is None else moved)
    return places


def _word(value: Any) -> str:
    return _WORDS.get(type(value), "null")


def _refusal(path: str, what: str, new: Any, why: str) -> InvalidInput:
    return InvalidInput(f"`{label_of(path) or 'task'}` is {what}: {new!r:.80} is not one ({why})")
