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
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from mahavishnu.model.errors import CannotRestore, InvalidInput
from mahavishnu.model.json_value import EMPTY, Json, label_of, pointer_step, unescape
from mahavishnu.model.letter import DeadLetter, L, evolve
from mahavishnu.model.letter_parts import Failure
from mahavishnu.model.work import LIFECYCLE
from mahavishnu.values.payload import (
    NOT_JSON,
    Hides,
    hidden_items,
    hidden_names,
    holds_secret,
    is_secret,
    mask_failure,
    mask_text,
    mask_texts,
    redact,
    texts_under,
)

if TYPE_CHECKING:
    from mahavishnu.values.typed_json import Types


ENCRYPTED = "encrypted"  # the kind of an encrypted value
TASK, METADATA = "task", "metadata"  # parts of letters
CONTEXT = "context"  # of lifecycle tasks
LOST = "lost"  # as in `typed_json`, which is loaded only to write values
_KIND = f'"{ENCRYPTED}"'
CIPHERTEXT = '"$encrypted:'  # begins each, in JSON
_TOLD = frozenset([LIFECYCLE, NOT_JSON])  # in the metadata of letters: written here, with texts of errors
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
        """None for a value that is no such text."""
        found = _TEXT.fullmatch(value) if isinstance(value, str) else None
        return cls(*found.groups()) if found else None

    def __str__(self) -> str:
        return f"$encrypted:1:{self.key}:{self.mark}:{self.ciphertext}"


class Binding(NamedTuple):
    """A part of a record, such as the task of a letter: with its path in there, it is the only place of a ciphertext.

    A letter that has absorbed others may have values that were encrypted for those.
    """

    owner: str
    part: str
    absorbed: tuple[str, ...] = ()

    @classmethod
    def of(cls, letter: DeadLetter, part: str = TASK) -> Binding:
        """Return the binding of a letter's task, which it shares with its revisions, or of its metadata."""
        return cls(
            f"{letter.namespace}/{letter.entry_id}",
            part,
            tuple(f"{letter.namespace}/{each}" for each in letter.absorbed),
        )

    @classmethod
    def of_task(cls, namespace: str, task_id: str, part: str = CONTEXT) -> Binding:
        """Return the binding of a lifecycle task's context, or of the result of a step."""
        return cls(f"task:{namespace}/{task_id}", part)

    def contexts(self, key: str, mark: str, path: str) -> Iterator[bytes]:
        """Yield the associated data of a value: as it is encrypted, then as others may have encrypted it."""
        for owner in (self.owner, *self.absorbed):
            yield json.dumps(["mahavishnu", 1, key, mark, owner, self.part, path]).encode()


class Encryptor(NamedTuple):
    """Functions that make the text of a value: its mark, and its ciphertext by the key that is used now."""

    key: str
    mark: Callable[[str], str]
    encrypt: Callable[[str, str, str], str]  # the text that is to be encrypted, its mark and its path
    decrypt: Callable[[str, EncryptedText], str] | None = None  # what is inside, by its path


def encrypt_values(
    value: Any, types: Mapping[str, str], hides: Hides, encryptor: Encryptor, former: Any = None
) -> tuple[Any, Types]:
    """Return the JSON value with everything under secret names encrypted, and its types.

    A value that is encrypted by its type stays as it is. Inside of one that is to be encrypted as a whole it is
    decrypted first; with an unknown key inside, the values of a whole are encrypted one by one. A value equal to the
    one at its path in `former` gets the text from there, so that a change of one value is no change of the others. A
    text that only looks encrypted is encrypted, too: anyone may have written it.
    """
    kinds = dict(types)

    def walk(part: Any, old: Any, path: str) -> Any:
        if isinstance(part, dict):
            before, hidden = old if isinstance(old, dict) else {}, hidden_names(part, hides)
            return {
                name: encrypt(item, before.get(name), below)
                if name in hidden and item is not None
                else walk(item, before.get(name), below)
                for name, item in part.items()
                for below in (f"{path}/{pointer_step(name)}",)
            }
        if isinstance(part, list):
            beside = old if isinstance(old, list) and len(old) == len(part) else [None] * len(part)
            places = hidden_items(part, hides)
            return [
                (encrypt if place in places and item is not None else walk)(item, beside[place], f"{path}/{place}")
                for place, item in enumerate(part)
            ]
        return encrypt(part, old, path) if isinstance(part, str) and path and holds_secret(part, hides) else part

    def encrypt(part: Any, old: Any, path: str) -> Any:
        below = _types_at(kinds, path)
        if kinds.get(path) == ENCRYPTED and EncryptedText.parse(part) is not None:
            return part
        if any(kind.partition(":")[0] == LOST for kind in below.values()):
            return part  # a description that stands for it, or a mask
        plain, types = part, below
        if ENCRYPTED in below.values() and encryptor.decrypt is not None:
            try:
                plain, types = _decrypt_inside(part, below, path, encryptor.decrypt)
            except CannotRestore:
                return encrypt_each(part, old, path)
        for each in below:
            del kinds[path + each]
        kinds[path] = ENCRYPTED
        return _encrypted_text(plain, types, path, encryptor, old)

    def encrypt_each(part: Any, old: Any, path: str) -> Any:
        if isinstance(part, dict):
            before = old if isinstance(old, dict) else {}
            return {
                name: encrypt(item, before.get(name), f"{path}/{pointer_step(name)}") for name, item in part.items()
            }
        return [encrypt(item, None, f"{path}/{place}") for place, item in enumerate(part)]

    return walk(value, former, ""), kinds


def renew_values(
    value: Any, types: Mapping[str, str], decrypt: Callable[[str, EncryptedText], str], encryptor: Encryptor
) -> Any:
    """Encrypt secrets in `value`, which the caller gives up, by this encryptor, unless its key and mark are there."""
    for path, holder, step in _places_of(value, types):
        if (text := EncryptedText.parse(holder[step])) is None:
            continue
        plain = _plain_text(*_decrypt_whole(path, text, decrypt))
        mark = encryptor.mark(_canonical(plain))
        if (text.key, text.mark) != (encryptor.key, mark):
            holder[step] = str(EncryptedText(encryptor.key, mark, encryptor.encrypt(plain, mark, path)))
    return value


def encrypt_at(value: Any, below: Mapping[str, str], types: Mapping[str, str], encryptor: Encryptor) -> Any:
    """Encrypt the JSON value where `types` say so; `below` are its types in clear. It changes `value`."""
    for path, holder, step in _places_of(value, types):
        holder[step] = _encrypted_text(holder[step], _types_at(below, path), path, encryptor)
    return value


def _encrypted_text(part: Any, types: Mapping[str, str], path: str, encryptor: Encryptor, old: Any = None) -> str:
    """Return the text that stands for a value: `old` if that is of an equal one."""
    text = _plain_text(part, types)
    mark = encryptor.mark(_canonical(text))
    if (there := EncryptedText.parse(old)) is not None and there.mark == mark:
        return str(there)
    return str(EncryptedText(encryptor.key, mark, encryptor.encrypt(text, mark, path)))


def _plain_text(part: Any, types: Mapping[str, str]) -> str:
    return json.dumps({"value": part, "types": types} if types else {"value": part}, separators=(",", ":"))


def _decrypt_whole(path: str, text: EncryptedText, decrypt: Callable[[str, EncryptedText], str]) -> tuple[Any, Types]:
    """Return the value at this path in clear, with its types. It may have encrypted ones inside."""
    plain = json.loads(decrypt(path, text))
    return _decrypt_inside(plain["value"], plain.get("types", {}), path, decrypt)


def _decrypt_inside(
    value: Any, types: Mapping[str, str], path: str, decrypt: Callable[[str, EncryptedText], str]
) -> tuple[Any, Types]:
    """Return a copy of the value at this path with all that is encrypted inside in clear, and its types."""
    if ENCRYPTED not in types.values():
        return value, dict(types)
    return decrypt_values(json.loads(json.dumps(value)), types, lambda below, text: decrypt(path + below, text))


def _canonical(text: str) -> str:
    return json.dumps(json.loads(text), separators=(",", ":"), sort_keys=True)


def decrypt_values(
    value: Any, types: Mapping[str, str], decrypt: Callable[[str, EncryptedText], str]
) -> tuple[Any, Types]:
    """The JSON value with all that is encrypted in clear, and its types. It changes `value`, which the caller gives up.

    `decrypt(path, text)` raises where it cannot. A value in the clear under the kind `encrypted` was given by a person.
    """
    kinds = {path: kind for path, kind in types.items() if kind != ENCRYPTED}
    for path, holder, step in _places_of(value, types):
        if (text := EncryptedText.parse(holder[step])) is None:
            continue
        holder[step], inside = _decrypt_whole(path, text, decrypt)
        kinds |= {path + below: kind for below, kind in inside.items()}
    return value, kinds


def _types_at(types: Mapping[str, str], path: str) -> dict[str, str]:
    """The types of a part of a value, by their paths in it."""
    return {each[len(path) :]: kind for each, kind in types.items() if each == path or each.startswith(f"{path}/")}


def _places_of(value: Any, types: Mapping[str, str]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the path of each encrypted value that is there, with what holds it, and the name or place in that."""
    for path in [each for each, kind in types.items() if kind == ENCRYPTED]:
        holder, step = _holder(value, path)
        if holder is not None:
            yield path, holder, step


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

    def encrypt(self, payload: Json, types: Json, binding: Binding, former: Json | None = None) -> tuple[Json, Json]:
        """A payload and its types with what is secret encrypted; `former` is what it was before it was changed."""
        if not self.fields or payload.text[0] not in "{[":
            return payload, types
        value, kinds = encrypt_values(
            payload.shared_value, types.value, self._is_secret, self._encryptor(binding), former and former.shared_value
        )
        if kinds == types.value and value == payload.shared_value:
            return payload, types
        return Json.of(value), Json.of(kinds)

    def renew(self, payload: Json, types: Json, binding: Binding) -> tuple[Json, Json]:
        """Return a payload and types with secrets encrypted by the present key. Raises CannotRestore."""
        if self.keys and _KIND in types.text:
            decrypt, encryptor = self._decryptor(binding), self._encryptor(binding)
            value = renew_values(payload.value, types.value, decrypt, encryptor)
            payload = payload if value == payload.shared_value else Json.of(value)
        return self.encrypt(payload, types, binding)

    def renew_untyped(self, value: Json, binding: Binding) -> Json:
        """Renew JSON that has no types beside it: a text that was encrypted for this place is taken for that."""
        if value.text[0] not in "{[":
            return value
        return self.renew(value, self._kinds_of(value, binding, must_be_known=True), binding)[0]

    def renew_letter(self, letter: L) -> L:
        """Return the letter with all secrets encrypted by the present key; itself if they are. See `renew`."""
        task = Binding.of(letter)
        payload, types = self.renew(letter.payload, letter.payload_types, task)
        labels = self.renew_untyped(letter.labels, Binding.of(letter, METADATA))
        captured = letter.captured_task
        if captured is not None and (fresh := self.renew_untyped(captured, task)).text != captured.text:
            letter = evolve(letter, captured_task=fresh, captured_digest=fresh.digest)
        if payload is not letter.payload or types is not letter.payload_types or labels is not letter.labels:
            letter = evolve(letter, payload=payload, payload_types=types, labels=labels)
        return self.mask_errors(letter)

    def encrypt_labels(self, labels: Json, binding: Binding, former: Json | None = None) -> Json:
        """Metadata with what is secret encrypted. It has no types: what was encrypted for this place stays."""
        if not self.fields:
            return labels
        return self.encrypt(labels, self._kinds_of(labels, binding, former), binding, former)[0]

    def decrypt_labels(self, letter: DeadLetter) -> Json:
        """Return the metadata in clear; texts of other places stay. Raises CannotRestore for an unknown key."""
        binding = Binding.of(letter, METADATA)
        return self.decrypt(letter.labels, self._kinds_of(letter.labels, binding, must_be_known=True), binding)[0]

    def readable_labels(self, letter: DeadLetter) -> Json:
        """Return the letter's metadata in clear if its keys are known; else unchanged."""
        try:
            return self.decrypt_labels(letter)
        except CannotRestore:
            return letter.labels

    def decrypt(self, payload: Json, types: Json, binding: Binding) -> tuple[Json, Json]:
        """A payload and its types in clear. Raises CannotRestore, naming the path, the key and what can be done."""
        if _KIND not in types.text:
            return payload, types
        value, kinds = decrypt_values(payload.value, types.value, self._decryptor(binding))
        return Json.of(value), Json.of(kinds) if kinds else EMPTY

    def move(self, payload: Json, types: Json, start: Binding, goal: Binding) -> tuple[Json, Json]:
        """A payload that leaves one record for another, encrypted for that one. Raises CannotRestore."""
        plain, kinds = self.decrypt(payload, types, start)
        if plain is payload:
            return payload, types
        value = encrypt_at(plain.value, kinds.value, types.value, self._encryptor(goal))
        return Json.of(value), types

    def move_letter(self, letter: DeadLetter, start: DeadLetter) -> DeadLetter:
        """A letter made of another one, which has its values, with them encrypted for itself. Raises CannotRestore."""
        payload, types = self.move(letter.payload, letter.payload_types, Binding.of(start), Binding.of(letter))
        was, now = Binding.of(start, METADATA), Binding.of(letter, METADATA)
        labels, _ = self.move(letter.labels, self._kinds_of(letter.labels, was, must_be_known=True), was, now)
        captured = letter.captured_task
        if captured is not None:
            kinds = self._kinds_of(captured, Binding.of(start), must_be_known=True)
            captured, _ = self.move(captured, kinds, Binding.of(start), Binding.of(letter))
        if payload is letter.payload and labels is letter.labels and captured is letter.captured_task:
            return letter
        return evolve(letter, payload=payload, payload_types=types, labels=labels, captured_task=captured)

    def encrypt_letter(self, letter: DeadLetter, before: DeadLetter | None = None) -> DeadLetter:
        """The letter with what is secret encrypted. With what it was `before` a change, it keeps what did not change.

        What a changed letter was captured with is taken from `before`, which has it encrypted. Raises InvalidInput for
        a changed letter with a value that was encrypted for another place.
        """
        if before is not None:
            self._require_own(letter, before)
            if before.captured_digest is None and letter.captured_digest is not None:
                letter = evolve(letter, captured_digest=before.payload.digest, captured_task=before.payload)
        if not self.fields:
            return letter
        former, former_labels = (None, None) if before is None else (before.payload, before.labels)
        payload, types = self.encrypt(letter.payload, letter.payload_types, Binding.of(letter), former)
        labels = self.encrypt_labels(letter.labels, Binding.of(letter, METADATA), former_labels)
        if payload is letter.payload and types is letter.payload_types and labels is letter.labels:
            return letter
        return evolve(letter, payload=payload, payload_types=types, labels=labels)

    def encrypt_foreign(self, letter: DeadLetter) -> DeadLetter:
        """A letter that was made elsewhere with what is secret encrypted, also in what it was captured with."""
        captured = letter.captured_task
        if self.fields and captured is not None and captured.text[0] in "{[":
            binding = Binding.of(letter)
            kinds = {**letter.payload_types.value, **self._kinds_of(captured, binding).value}
            captured, _ = self.encrypt(captured, Json.of(kinds), binding)
            if captured.text != letter.captured_task.text:  # type: ignore[union-attr]
                letter = evolve(letter, captured_task=captured, captured_digest=captured.digest)
        return self.mask_errors(self.encrypt_letter(letter))

    def decrypt_letter(self, letter: DeadLetter) -> DeadLetter:
        """The letter in clear, for what runs it; it must not be written. Raises CannotRestore."""
        if _KIND not in letter.payload_types.text:
            return letter
        payload, types = self.decrypt(letter.payload, letter.payload_types, Binding.of(letter))
        return evolve(letter, payload=payload, payload_types=types)

    def readable_letter(self, letter: DeadLetter) -> DeadLetter:
        """The letter in clear as far as its keys are known; it must not be written."""
        try:
            return self.decrypt_letter(letter)
        except CannotRestore:
            return letter

    def secrets_in(self, payload: Json, types: Json, binding: Binding) -> list[str]:
        """The texts and numbers that are encrypted in a payload, as far as their keys are known."""
        if not self.fields:
            return []
        if _KIND in types.text:
            with suppress(CannotRestore):
                payload, _ = self.decrypt(payload, types, binding)
        return [*texts_under(payload.shared_value, self._is_secret)]

    def secrets_of(self, letter: DeadLetter) -> list[str]:
        """The texts and numbers that a letter has encrypted, as far as their keys are known."""
        binding = Binding.of(letter)
        secrets = self.secrets_in(letter.payload, letter.payload_types, binding)
        if letter.captured_task is not None:
            secrets += self.secrets_in(letter.captured_task, self._kinds_of(letter.captured_task, binding), binding)
        return [*secrets, *texts_under(self.readable_labels(letter).shared_value, self._is_secret)]

    def mark(self, value: Json, patterns: Sequence[str]) -> Json:
        """JSON with a keyed hash in the place of what stands under these names; without a key, with a plain one."""
        if not patterns or value.text[0] not in "{[":
            return value
        marking = self._marking if self.keys else b"mahavishnu"
        marker = Encryptor("-", partial(_mark, marking), lambda *_: "-")
        return Json.of(encrypt_values(value.shared_value, {}, partial(is_secret, patterns=tuple(patterns)), marker)[0])

    def mask_in(self, failure: Failure, letter: DeadLetter) -> Failure:
        """The failure of a run of this letter, with masks where it quotes values that the letter has encrypted."""
        return mask_failure(failure, self.secrets_of(letter)) if self.fields else failure

    def mask_errors(self, letter: L, more: Sequence[str] = ()) -> L:
        """The letter with masks where its errors quote values that it has encrypted, or `more`; itself if none does."""
        if not self.fields or not (secrets := [*self.secrets_of(letter), *more]):
            return letter
        failures = tuple(mask_failure(each, secrets) for each in letter.failures)
        changes: dict[str, Any] = {} if failures == letter.failures else {"failures": failures}
        for name in ("error", "last_error", "unfit"):
            if (text := getattr(letter, name)) and (masked := mask_text(text, secrets)) != text:
                changes[name] = masked
        if (labels := self.mask_told(letter.labels, secrets)) is not letter.labels:
            changes["labels"] = labels
        return evolve(letter, **changes) if changes else letter

    def mask_told(self, labels: Json, secrets: Sequence[str]) -> Json:
        """Metadata with masks where what was written here, such as of steps that failed, quotes a secret."""
        told = {name: value for name, value in labels.shared_value.items() if name in _TOLD}
        masked = mask_texts(told, secrets)
        return labels if masked == told else Json.of({**labels.shared_value, **masked})

    def mask_values(self, value: Json, secrets: Sequence[str]) -> Json:
        """JSON that nothing decrypts, such as the metadata of a move, without secrets; itself if it has none."""
        if not self.fields or value.text[0] not in "{[":
            return value
        masked = mask_texts(redact(value.shared_value, self.fields), secrets)
        return value if masked == value.shared_value else Json.of(masked)

    def _require_own(self, letter: DeadLetter, before: DeadLetter) -> None:
        """Raise InvalidInput if an edit has brought a value that was encrypted for another letter, or another place."""
        kinds = letter.payload_types.value if _KIND in letter.payload_types.text else {}
        for path, place, name in _places_of(letter.payload.shared_value, kinds):
            (holder, step), text = _holder(before.payload.shared_value, path), EncryptedText.parse(place[name])
            if text is None or (holder is not None and holder[step] == str(text)):
                continue
            try:
                self._decrypt_at(Binding.of(letter), path, text)
            except CannotRestore as problem:
                raise InvalidInput(f"{label_of(path, TASK)} {problem.why}: an edit takes it in clear") from None

    def _kinds_of(
        self, value: Json, binding: Binding, former: Json | None = None, *, must_be_known: bool = False
    ) -> Json:
        """Return types for untyped JSON: `encrypted` for its place, or by an unknown key if it `must_be_known`."""
        if CIPHERTEXT not in value.text:
            return EMPTY
        kinds = {}
        for path, text in _encrypted_paths(value.shared_value):
            try:
                self._decrypt_at(binding, path, text)
            except CannotRestore:
                there, place = _holder(former.shared_value, path) if former is not None else (None, None)
                unchanged = there is not None and there[place] == str(text)
                if not unchanged and (text.key in self.keys or not must_be_known):
                    continue
            kinds[path] = ENCRYPTED
        return Json.of(kinds)

    def _is_secret(self, name: str) -> bool:
        return is_secret(name, self.fields)

    @cached_property
    def _ciphers(self) -> Mapping[str, Any]:
        """Ciphers by the id of their key."""
        return {name: _library()(_derive(key, b"encrypt")) for name, key in self.keys.items()}

    @cached_property
    def _marking(self) -> bytes:
        return _derive(next(iter(self.keys.values())), b"mark")

    def _encryptor(self, binding: Binding) -> Encryptor:
        key = self.key_id
        assert key is not None  # there are fields, so there are keys
        cipher = self._ciphers[key]

        def encrypt(text: str, mark: str, path: str) -> str:
            nonce = os.urandom(_NONCE_BYTES)
            data = nonce + cipher.encrypt(nonce, text.encode(), next(binding.contexts(key, mark, path)))
            return base64.urlsafe_b64encode(data).decode().rstrip("=")

        return Encryptor(key, partial(_mark, self._marking), encrypt, self._decryptor(binding))

    def _decryptor(self, binding: Binding) -> Callable[[str, EncryptedText], str]:
        return partial(self._decrypt_at, binding)

    def _decrypt_at(self, binding: Binding, path: str, text: EncryptedText) -> str:
        if text.key not in self.keys:
            known = f"encryption.keys has {', '.join(self.keys)}" if self.keys else "there are no encryption.keys here"
            why = f"is encrypted with key {text.key!r}, and {known}: add that key, or give the value by an edit"
            raise CannotRestore(path, why)
        from cryptography.exceptions import InvalidTag

        with suppress(ValueError):  # of Base64
            data = base64.urlsafe_b64decode(text.ciphertext + "=" * (-len(text.ciphertext) % 4))
            nonce, rest, cipher = data[:_NONCE_BYTES], data[_NONCE_BYTES:], self._ciphers[text.key]
            for context in binding.contexts(text.key, text.mark, path):
                with suppress(InvalidTag):
                    plain: bytes = cipher.decrypt(nonce, rest, context)
                    return plain.decode()
        raise CannotRestore(
            path,
            f"is not what key {text.key!r} has encrypted for this place: it was changed, it comes from another letter "
            "or another name, or the key is another one of this name. Give the value by an edit",
        )


def encryption_of(fields: Sequence[str], keys: Mapping[str, str], active: str | None = None) -> Encryption:
    """From the settings. Raises InvalidInput for a key that is none."""
    return Encryption(tuple(fields), {name: parse_key(name, text) for name, text in keys.items()}, active or None)


NO_ENCRYPTION = Encryption()


def _encrypted_paths(value: Any, path: str = "") -> Iterator[tuple[str, EncryptedText]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _encrypted_paths(item, f"{path}/{pointer_step(name)}")
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _encrypted_paths(item, f"{path}/{place}")
    elif (text := EncryptedText.parse(value)) is not None and path:
        yield path, text


def _mark(marking: bytes, text: str) -> str:
    return hmac.digest(marking, text.encode(), "sha256")[:_MARK_BYTES].hex()


def _derive(key: bytes, purpose: bytes) -> bytes:
    """A key for one purpose, so that no two uses share one."""
    return hmac.digest(key, b"mahavishnu " + purpose, hashlib.sha256)


def _library() -> Callable[[bytes], Any]:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise InvalidInput("encryption needs another package: pip install 'mahavishnu-dlq[encryption]'") from None
    return AESGCM
