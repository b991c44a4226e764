"""How an encrypted value stands in a payload, and which values of a payload are encrypted.

In the place of the value stands a text, `$encrypted:1:<key>:<mark>:<ciphertext>`, and its kind in the types beside the
payload is `encrypted`. The mark is the same for equal values, so that two failures of the same work are still one
letter; it says nothing else of them. What the text says is JSON with the value and the types of its parts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from mahavishnu.model.json_value import pointer_step, unescape

if TYPE_CHECKING:
    from mahavishnu.model.type_tree import Types

ENCRYPTED = "encrypted"  # the kind of an encrypted value
LOST = "lost"  # as in `typed_json`, which is loaded only by who writes values
KEY_ID = re.compile(r"[A-Za-z0-9._-]{1,40}")
_TEXT = re.compile(rf"\$encrypted:1:({KEY_ID.pattern}):([0-9a-f]{{32}}):([A-Za-z0-9_-]+)")


class EncryptedText(NamedTuple):
    """The parts of the text that stands for an encrypted value."""

    key: str
    mark: str
    ciphertext: str

    @classmethod
    def parse(cls, value: object) -> EncryptedText | None:
        """None for a value that is no such text.

        >>> EncryptedText.parse(f"$encrypted:1:k1:{'0' * 32}:AAAA").key
        'k1'
        """
        found = _TEXT.fullmatch(value) if isinstance(value, str) else None
        return cls(*found.groups()) if found else None

    def __str__(self) -> str:
        return f"$encrypted:1:{self.key}:{self.mark}:{self.ciphertext}"


class Encryptor(NamedTuple):
    """How the text of a value is made: its mark, and its ciphertext by the key that is used now."""

    key: str
    mark: Callable[[str], str]
    encrypt: Callable[[str, str], str]  # the text that is to be encrypted, and its mark


def encrypt_values(
    value: Any, types: Mapping[str, str], is_secret: Callable[[str], bool], encryptor: Encryptor, former: Any = None
) -> tuple[Any, Types]:
    """The JSON value with what stands under secret names encrypted, and its types.

    What is encrypted by its type stays as it is. What is equal to the value at its path in `former` gets the text that
    stands there, so that a change of one value is no change of the others. A text that only looks encrypted is
    encrypted, too: somebody else may have written it.
    """
    kinds = dict(types)

    def walk(part: Any, old: Any, path: str) -> Any:
        if isinstance(part, dict):
            before = old if isinstance(old, dict) else {}
            return {
                name: encrypt(item, before.get(name), below)
                if is_secret(name) and item is not None
                else walk(item, before.get(name), below)
                for name, item in part.items()
                for below in (f"{path}/{pointer_step(name)}",)
            }
        if isinstance(part, list):
            beside = old if isinstance(old, list) and len(old) == len(part) else [None] * len(part)
            return [
                walk(item, was, f"{path}/{place}") for place, (item, was) in enumerate(zip(part, beside, strict=True))
            ]
        return part

    def encrypt(part: Any, old: Any, path: str) -> Any:
        below = {each[len(path) :]: kind for each, kind in kinds.items() if each == path or each.startswith(f"{path}/")}
        if kinds.get(path) == ENCRYPTED and EncryptedText.parse(part) is not None:
            return part
        if any(kind.partition(":")[0] == LOST for kind in below.values()):
            return part  # a description that stands for it, or a mask
        for each in below:
            del kinds[path + each]
        kinds[path] = ENCRYPTED
        text = json.dumps({"value": part, "types": below} if below else {"value": part}, separators=(",", ":"))
        mark = encryptor.mark(_canonical(text))
        there = EncryptedText.parse(old)
        if there is not None and there.mark == mark:
            return old
        return str(EncryptedText(encryptor.key, mark, encryptor.encrypt(text, mark)))

    return walk(value, former, ""), kinds


def renew_values(
    value: Any, types: Mapping[str, str], decrypt: Callable[[str, EncryptedText], str], encryptor: Encryptor
) -> Any:
    """The JSON value with all that is encrypted by this encryptor. It changes `value`, which the caller gives up.

    What has its key and its mark already stays as it is.
    """
    for path in [each for each, kind in types.items() if kind == ENCRYPTED]:
        holder, step = _holder(value, path)
        if holder is None or (text := EncryptedText.parse(holder[step])) is None:
            continue
        plain = decrypt(path, text)
        mark = encryptor.mark(_canonical(plain))
        if (text.key, text.mark) != (encryptor.key, mark):
            holder[step] = str(EncryptedText(encryptor.key, mark, encryptor.encrypt(plain, mark)))
    return value


def texts_under(value: Any, is_secret: Callable[[str], bool], *, inside: bool = False) -> Iterator[str]:
    """Texts and numbers that stand under secret names, at any depth.

    >>> [*texts_under({"card": {"pin": 1234}, "to": "ann"}, lambda name: name == "card")]
    ['1234']
    """
    if isinstance(value, dict):
        for name, item in value.items():
            yield from texts_under(item, is_secret, inside=inside or is_secret(str(name)))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts_under(item, is_secret, inside=inside)
    elif inside and isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)


def _canonical(text: str) -> str:
    return json.dumps(json.loads(text), separators=(",", ":"), sort_keys=True)


def decrypt_values(
    value: Any, types: Mapping[str, str], decrypt: Callable[[str, EncryptedText], str]
) -> tuple[Any, Types]:
    """The JSON value with all that is encrypted in clear, and its types. It changes `value`, which the caller gives up.

    `decrypt(path, text)` raises where it cannot. A value in the clear under the kind `encrypted` was given by a person.
    """
    kinds = dict(types)
    for path in [each for each, kind in types.items() if kind == ENCRYPTED]:
        del kinds[path]
        holder, step = _holder(value, path)
        if holder is None or (text := EncryptedText.parse(holder[step])) is None:
            continue
        plain = json.loads(decrypt(path, text))
        holder[step] = plain["value"]
        kinds |= {path + below: kind for below, kind in plain.get("types", {}).items()}
    return value, kinds


def decrypt_texts(value: Any, decrypt: Callable[[str, EncryptedText], str]) -> Any:
    """The JSON value with each text in clear that stands for an encrypted value, where there are no types beside it."""
    if isinstance(value, dict):
        return {name: decrypt_texts(item, decrypt) for name, item in value.items()}
    if isinstance(value, list):
        return [decrypt_texts(item, decrypt) for item in value]
    text = EncryptedText.parse(value)
    return value if text is None else json.loads(decrypt("", text))["value"]


def with_plain_values(given: Any, encrypted: Any, plain: Any) -> Any:
    """What a person gave, with the plain value in each place where it has the text that the letter has there.

    >>> text = f"$encrypted:1:k1:{'0' * 32}:AAAA"
    >>> with_plain_values({"card": text, "to": "ann"}, {"card": text, "to": "bob"}, {"card": "4111", "to": "bob"})
    {'card': '4111', 'to': 'ann'}
    """
    if isinstance(given, dict) and isinstance(encrypted, dict) and isinstance(plain, dict):
        return {name: with_plain_values(item, encrypted.get(name), plain.get(name)) for name, item in given.items()}
    if isinstance(given, list) and isinstance(encrypted, list) and isinstance(plain, list):
        if len(given) == len(encrypted) == len(plain):
            return [with_plain_values(*each) for each in zip(given, encrypted, plain, strict=True)]
        return given
    return plain if given == encrypted and EncryptedText.parse(given) is not None else given


def _holder(value: Any, path: str) -> tuple[Any, Any]:
    """The object or list in which a path ends, and the name or place there; None where there is none."""
    steps = [unescape(step) for step in path.split("/")[1:]]
    for count, step in enumerate(steps, start=1):
        place: Any = step
        if isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            place = int(step)
        elif not isinstance(value, dict) or step not in value:
            return None, None
        if count == len(steps):
            return value, place
        value = value[place]
    return None, None
