"""Encryption of values in payloads: their form, their keys, and the access in clear.

They are encrypted before a letter is made and decrypted where it is run, so that no store, file, export, log or event
ever has them in clear. Needs `mahavishnu-dlq[encryption]`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from mahavishnu.model.errors import CannotRestore, InvalidInput
from mahavishnu.model.json_value import EMPTY, Json, pointer_step, unescape
from mahavishnu.model.letter import DeadLetter, L, evolve
from mahavishnu.model.letter_parts import Failure
from mahavishnu.values.payload import is_secret, mask_failure

if TYPE_CHECKING:
    from mahavishnu.values.typed_json import Types


ENCRYPTED = "encrypted"  # the kind of an encrypted value
LOST = "lost"  # as in `typed_json`, which is loaded only to write values
_KIND = f'"{ENCRYPTED}"'
_KEY_BYTES, _NONCE_BYTES, _MARK_BYTES = 32, 12, 16
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
    """Functions that make the text of a value: its mark, and its ciphertext by the key that is used now."""

    key: str
    mark: Callable[[str], str]
    encrypt: Callable[[str, str], str]  # the text that is to be encrypted, and its mark


def encrypt_values(
    value: Any, types: Mapping[str, str], is_secret: Callable[[str], bool], encryptor: Encryptor, former: Any = None
) -> tuple[Any, Types]:
    """Return the JSON value with everything under secret names encrypted, and its types.

    A value that is encrypted by its type stays as it is. A value equal to the one at its path in `former` gets the text
    from there, so that a change of one value is no change of the others. A text that only looks encrypted is encrypted,
    too: anyone may have written it.
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
    """Encrypt all encrypted values of the JSON value by this encryptor. It changes `value`, which the caller gives up.

    A value with its key and its mark stays as it is.
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
    """Return what a person gave, with the plain value wherever it has the letter's encrypted text.

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


def new_key() -> str:
    """A key as the settings take it: 32 random bytes in Base64."""
    return base64.b64encode(os.urandom(_KEY_BYTES)).decode()


def parse_key(name: str, text: str) -> bytes:
    """The bytes of a key in the settings. Raises InvalidInput, without the text, for what is none."""
    if KEY_ID.fullmatch(name) is None:
        raise InvalidInput(f"a key is named by 1 to 40 letters, digits, '.', '_' or '-', not {name!r:.80}")
    try:
        key = base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != _KEY_BYTES:
        raise InvalidInput(
            f"encryption key {name!r} is not {_KEY_BYTES} bytes in Base64: make one by `mahavishnu config new-key`"
        )
    return key


@dataclass(frozen=True)
class Encryption:
    """`fields` are patterns of the names whose values are encrypted; `keys` the known keys, of which `active` encrypts.

    The first key also makes the marks by which equal values are recognised: it stays the first while letters are open.
    Raises InvalidInput for fields without a key, an unknown active key, or where the library is not installed.
    """

    fields: tuple[str, ...] = ()
    keys: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    active: str | None = None

    def __post_init__(self) -> None:
        if self.fields and not self.keys:
            raise InvalidInput("encryption.fields names what is to be encrypted, and encryption.keys has no key")
        if self.active is not None and self.active not in self.keys:
            raise InvalidInput(f"encryption.active is {self.active!r}, and encryption.keys has {', '.join(self.keys)}")
        if self.keys:
            _library()

    @property
    def key_id(self) -> str | None:
        """The key that encrypts: the active one, or the last."""
        return self.active or (list(self.keys)[-1] if self.keys else None)

    def encrypt(self, payload: Json, types: Json, former: Json | None = None) -> tuple[Json, Json]:
        """A payload and its types with what is secret encrypted; `former` is what it was before it was changed."""
        if not self.fields or payload.text[0] not in "{[":
            return payload, types
        value, kinds = encrypt_values(
            payload.shared_value, types.value, self._is_secret, self._encryptor, former and former.shared_value
        )
        if kinds == types.value and value == payload.shared_value:
            return payload, types
        return Json.of(value), Json.of(kinds)

    def renew(self, payload: Json, types: Json) -> tuple[Json, Json]:
        """Return a payload and its types with all secrets encrypted by the present key.

        Raises CannotRestore for what no known key has encrypted.
        """
        if self.keys and _KIND in types.text:
            value = renew_values(payload.value, types.value, self._decrypt_at, self._encryptor)
            payload = payload if value == payload.shared_value else Json.of(value)
        return self.encrypt(payload, types)

    def renew_untyped(self, value: Json) -> Json:
        """Renew JSON that has no types beside it: any text that looks encrypted is taken for that."""
        if value.text[0] not in "{[":
            return value
        kinds = {path: ENCRYPTED for path in _encrypted_paths(value.shared_value)}
        return self.renew(value, Json.of(kinds))[0]

    def renew_letter(self, letter: L) -> L:
        """Return the letter with all secrets encrypted by the present key; itself if they are. See `renew`."""
        payload, types = self.renew(letter.payload, letter.payload_types)
        labels, captured = self.renew_untyped(letter.labels), letter.captured_task
        if captured is not None and (fresh := self.renew_untyped(captured)).text != captured.text:
            letter = evolve(letter, captured_task=fresh, captured_digest=fresh.digest)
        if payload is letter.payload and types is letter.payload_types and labels is letter.labels:
            return letter
        return evolve(letter, payload=payload, payload_types=types, labels=labels)

    def encrypt_labels(self, labels: Json, former: Json | None = None) -> Json:
        """Metadata with what is secret encrypted. It has no types: what looks encrypted there is taken for that."""
        if not self.fields:
            return labels
        kept = {path: ENCRYPTED for path in _encrypted_paths(labels.shared_value)}
        return self.encrypt(labels, Json.of(kept), former)[0]

    def decrypt_labels(self, labels: Json) -> Json:
        """Metadata in clear. Raises CannotRestore."""
        return Json.of(decrypt_texts(labels.shared_value, self._decrypt_at)) if "$encrypted:" in labels.text else labels

    def readable_labels(self, labels: Json) -> Json:
        """Return metadata in clear if its keys are known; else unchanged."""
        try:
            return self.decrypt_labels(labels)
        except CannotRestore:
            return labels

    def decrypt(self, payload: Json, types: Json) -> tuple[Json, Json]:
        """A payload and its types in clear. Raises CannotRestore, naming the path, the key and what can be done."""
        if _KIND not in types.text:
            return payload, types
        value, kinds = decrypt_values(payload.value, types.value, self._decrypt_at)
        return Json.of(value), Json.of(kinds) if kinds else EMPTY

    def encrypt_letter(self, letter: DeadLetter, before: DeadLetter | None = None) -> DeadLetter:
        """The letter with what is secret encrypted. With what it was `before` a change, it keeps what did not change.

        What a changed letter was captured with is taken from `before`, which has it encrypted.
        """
        payload, types = self.encrypt(letter.payload, letter.payload_types, before.payload if before else None)
        if before is not None and before.captured_digest is None and letter.captured_digest is not None:
            letter = evolve(letter, captured_digest=before.payload.digest, captured_task=before.payload)
        labels = self.encrypt_labels(letter.labels, before.labels if before else None)
        if payload is letter.payload and types is letter.payload_types and labels is letter.labels:
            return letter
        return evolve(letter, payload=payload, payload_types=types, labels=labels)

    def encrypt_foreign(self, letter: DeadLetter) -> DeadLetter:
        """A letter that was made elsewhere with what is secret encrypted, also in what it was captured with."""
        captured = letter.captured_task
        if self.fields and captured is not None and captured.text[0] in "{[":
            kinds = {path: ENCRYPTED for path in _encrypted_paths(captured.shared_value)}
            captured, _ = self.encrypt(captured, Json.of({**letter.payload_types.value, **kinds}))
            if captured.text != letter.captured_task.text:  # type: ignore[union-attr]
                letter = evolve(letter, captured_task=captured, captured_digest=captured.digest)
        return self.encrypt_letter(letter)

    def decrypt_letter(self, letter: DeadLetter) -> DeadLetter:
        """The letter in clear, for what runs it; it must not be written. Raises CannotRestore."""
        if _KIND not in letter.payload_types.text:
            return letter
        payload, types = self.decrypt(letter.payload, letter.payload_types)
        return evolve(letter, payload=payload, payload_types=types)

    def with_plain_task(self, given: Json, letter: DeadLetter) -> Json:
        """Return a whole task that a person gave for the letter, who may have left encrypted values unchanged."""
        if _KIND not in letter.payload_types.text:
            return given
        plain = self.readable_letter(letter)
        return Json.of(with_plain_values(given.value, letter.payload.shared_value, plain.payload.shared_value))

    def readable_letter(self, letter: DeadLetter) -> DeadLetter:
        """The letter in clear as far as its keys are known; it must not be written."""
        try:
            return self.decrypt_letter(letter)
        except CannotRestore:
            return letter

    def secrets_in(self, payload: Json, types: Json) -> list[str]:
        """The texts and numbers that are encrypted in a payload, as far as their keys are known."""
        if not self.fields:
            return []
        if _KIND in types.text:
            with suppress(CannotRestore):
                payload, _ = self.decrypt(payload, types)
        return [*texts_under(payload.shared_value, self._is_secret)]

    def mask_in(self, failure: Failure, letter: DeadLetter) -> Failure:
        """The failure of a run of this letter, with masks where it quotes values that the letter has encrypted."""
        if not self.fields:
            return failure
        secrets = self.secrets_in(letter.payload, letter.payload_types)
        secrets += texts_under(self.readable_labels(letter.labels).shared_value, self._is_secret)
        return mask_failure(failure, secrets)

    def _is_secret(self, name: str) -> bool:
        return is_secret(name, self.fields)

    @cached_property
    def _ciphers(self) -> Mapping[str, Any]:
        """Ciphers by the id of their key."""
        return {name: _library()(_derive(key, b"encrypt")) for name, key in self.keys.items()}

    @cached_property
    def _encryptor(self) -> Encryptor:
        key = self.key_id
        assert key is not None  # there are fields, so there are keys
        marking = _derive(next(iter(self.keys.values())), b"mark")
        cipher = self._ciphers[key]

        def mark(text: str) -> str:
            return hmac.digest(marking, text.encode(), "sha256")[:_MARK_BYTES].hex()

        def encrypt(text: str, mark: str) -> str:
            nonce = os.urandom(_NONCE_BYTES)
            data = nonce + cipher.encrypt(nonce, text.encode(), _context(key, mark))
            return base64.urlsafe_b64encode(data).decode().rstrip("=")

        return Encryptor(key, mark, encrypt)

    def _decrypt_at(self, path: str, text: EncryptedText) -> str:
        if text.key not in self.keys:
            known = f"encryption.keys has {', '.join(self.keys)}" if self.keys else "there are no encryption.keys here"
            why = f"is encrypted with key {text.key!r}, and {known}: add that key, or give the value by an edit"
            raise CannotRestore(path, why)
        from cryptography.exceptions import InvalidTag

        try:
            data = base64.urlsafe_b64decode(text.ciphertext + "=" * (-len(text.ciphertext) % 4))
            nonce, rest = data[:_NONCE_BYTES], data[_NONCE_BYTES:]
            plain: bytes = self._ciphers[text.key].decrypt(nonce, rest, _context(text.key, text.mark))
            return plain.decode()
        except (InvalidTag, ValueError):
            raise CannotRestore(
                path,
                f"is not what key {text.key!r} has encrypted: it was changed, or the key is another one of this name. "
                "Give the value by an edit",
            ) from None


def encryption_of(fields: Sequence[str], keys: Mapping[str, str], active: str | None = None) -> Encryption:
    """From the settings. Raises InvalidInput for a key that is none.

    >>> encryption_of([], {}).fields
    ()
    """
    return Encryption(tuple(fields), {name: parse_key(name, text) for name, text in keys.items()}, active or None)


NO_ENCRYPTION = Encryption()


def _encrypted_paths(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _encrypted_paths(item, f"{path}/{pointer_step(name)}")
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _encrypted_paths(item, f"{path}/{place}")
    elif EncryptedText.parse(value) is not None:
        yield path


def _derive(key: bytes, purpose: bytes) -> bytes:
    """A key for one purpose, so that no two uses share one."""
    return hmac.digest(key, b"mahavishnu " + purpose, hashlib.sha256)


def _context(key: str, mark: str) -> bytes:
    return f"mahavishnu:1:{key}:{mark}".encode()


def _library() -> Callable[[bytes], Any]:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise InvalidInput("encryption needs another package: pip install 'mahavishnu-dlq[encryption]'") from None
    return AESGCM
