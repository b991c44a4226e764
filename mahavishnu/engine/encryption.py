"""Values of payloads that are stored encrypted: which they are, by which keys, and who gets them in clear.

They are encrypted before a letter is made and decrypted where it is run, so that no store, file, export, log or event
ever has them in clear. Needs `mahavishnu-dlq[encryption]`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from mahavishnu.engine.error_masks import mask_failure
from mahavishnu.engine.payload import is_secret
from mahavishnu.model.encrypted_values import (
    ENCRYPTED,
    KEY_ID,
    EncryptedText,
    Encryptor,
    decrypt_texts,
    decrypt_values,
    encrypt_values,
    renew_values,
    texts_under,
    with_plain_values,
)
from mahavishnu.model.errors import CannotRestore, InvalidInput
from mahavishnu.model.json_value import EMPTY, Json, pointer_step
from mahavishnu.model.letter import DeadLetter, L, evolve
from mahavishnu.model.letter_parts import Failure

_KEY_BYTES, _NONCE_BYTES, _MARK_BYTES = 32, 12, 16
_KIND = f'"{ENCRYPTED}"'


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
        """A payload and its types with all that is secret encrypted by the key that encrypts now: what another key has
        encrypted, and what stands there in clear. Raises CannotRestore for what no known key has encrypted.
        """
        if self.keys and _KIND in types.text:
            value = renew_values(payload.value, types.value, self._decrypt_at, self._encryptor)
            payload = payload if value == payload.shared_value else Json.of(value)
        return self.encrypt(payload, types)

    def renew_untyped(self, value: Json) -> Json:
        """The same for what has no types beside it: what looks encrypted is taken for that."""
        if value.text[0] not in "{[":
            return value
        kinds = {path: ENCRYPTED for path in _encrypted_paths(value.shared_value)}
        return self.renew(value, Json.of(kinds))[0]

    def renew_letter(self, letter: L) -> L:
        """The letter with all that is secret encrypted by the key that encrypts now; itself if it is. See `renew`."""
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
        """Metadata in clear if its keys are known; else as it is."""
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
        """A whole task that a person gave for the letter, who may have left encrypted values as they were shown."""
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
        """What encrypts and decrypts, by the id of its key."""
        return {name: _library()(_derived(key, b"encrypt")) for name, key in self.keys.items()}

    @cached_property
    def _encryptor(self) -> Encryptor:
        key = self.key_id
        assert key is not None  # there are fields, so there are keys
        marking = _derived(next(iter(self.keys.values())), b"mark")
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
            raise CannotRestore(
                path, f"is encrypted with key {text.key!r}, and {known}: add that key, or give the value by an edit"
            )
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


def _derived(key: bytes, purpose: bytes) -> bytes:
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
