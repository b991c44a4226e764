"""Encrypted values of a letter in the hands of people: they are edited in the clear, stored encrypted, and revealed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from mahavishnu.engine.context import QueueContext
from mahavishnu.engine.verbs import Edit, apply_edit
from mahavishnu.model.errors import InvalidInput, NoSuchLetter
from mahavishnu.model.json_value import patch_paths, pointer
from mahavishnu.model.letter import DeadLetter
from mahavishnu.stores.base import get_one
from mahavishnu.values.encryption import Encryption
from mahavishnu.values.payload import is_secret


def edit_letter(context: QueueContext, letter: DeadLetter, edit: Edit, now: datetime) -> DeadLetter:
    """The letter as the edit makes it. Raises IllegalMove and InvalidInput, as `apply_edit` does.

    What the edit leaves as it is shown, encrypted, stays what it is; a value whose key is not known can be replaced.
    """
    encryption = context.letter_factory.encryption
    if "payload" in edit.fields:
        task = encryption.with_plain_task(edit.fields["payload"], letter)
        edit = replace(edit, fields={**edit.fields, "payload": task})
    edited = apply_edit(
        encryption.readable_letter(letter),
        edit,
        now,
        backoffs=context.backoffs,
        check=context.letter_factory.check_size,
        kinds=context.value_kinds,
        names_places=context.sees_payloads,
    )
    return encryption.encrypt_letter(edited, letter)


async def reveal_letter(
    context: QueueContext, key: str, *, by: str, notes: str | None = None, where: str | None = None
) -> dict[str, Any]:
    """The task and the metadata in clear, once that is in the audit. Raises NoSuchLetter, CannotRestore, StoreError."""
    encryption = context.letter_factory.encryption
    async with context.audit.record("reveal", f"letter:{key}", by=by, reason=notes, where=where):
        letter = await get_one(context.letters, key)
        if letter is None:
            raise NoSuchLetter(key)
        return {
            "task": encryption.decrypt_letter(letter).task,
            "metadata": encryption.decrypt_labels(letter.labels).value,
        }


def require_clear_patch(encryption: Encryption, patch: Any) -> None:
    """Raise InvalidInput for a patch of many letters that sets what is to be encrypted: the run would store it."""
    secret = [path for path in patch_paths(patch) if _is_secret(encryption, path)]
    if secret:
        named = ", ".join(pointer("task", *path) for path in secret)
        raise InvalidInput(
            f"{named} is encrypted in letters, and a bulk run would keep the patch in the clear: edit the letters one "
            "by one"
        )


def _is_secret(encryption: Encryption, path: Sequence[str]) -> bool:
    return any(is_secret(name, encryption.fields) for name in path)
