"""What people do with a letter: by name, the pure move and its event; and edits, checked once, applied to many."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from msgspec.structs import replace

from mahavishnu.classify.verdict import policy
from mahavishnu.engine.context import QueueContext
from mahavishnu.model import backoff, lifecycle
from mahavishnu.model.backoff import BackoffRegistry
from mahavishnu.model.errors import AlreadyResolved, IllegalMove, InvalidInput, NoSuchLetter
from mahavishnu.model.events import EventName
from mahavishnu.model.json_value import (
    EMPTY,
    Json,
    has_path,
    merge_patch,
    patch_paths,
    pointer,
    refuse_unknown_paths,
    texts,
)
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus
from mahavishnu.model.record import Value
from mahavishnu.stores.base import get_one
from mahavishnu.values.encryption import EncryptedText, Encryption
from mahavishnu.values.payload import is_secret

if TYPE_CHECKING:
    from mahavishnu.values.kinds import ValueKind


class Verb(Value, frozen=True):
    """A move of a letter: `change(letter, now, by, notes)` returns the moved letter, or raises IllegalMove.

    `name` is its name in the audit, `event` the event for listeners. Pages of many letters show its `title` and its
    `effect`; for a grave one, the operator types the number of letters.
    """

    name: str
    event: EventName
    change: Callable[[DeadLetter, datetime, str, str | None], DeadLetter]
    title: str = ""
    effect: str = ""
    is_grave: bool = False


def _redrive(letter: DeadLetter, now: datetime, by: str, notes: str | None) -> DeadLetter:
    if not letter.is_open:  # that is for a person to say of each
        why = "" if letter.status is DeadLetterStatus.COMPLETED else "a filter redrives open letters only; name it"
        raise AlreadyResolved(letter.key, "redrive", lifecycle.describe_ending(letter), why)
    return lifecycle.redrive(letter, now=now)


def _redrive_this(letter: DeadLetter, now: datetime, by: str, notes: str | None) -> DeadLetter:
    if letter.status is DeadLetterStatus.ARCHIVED:
        return lifecycle.restore(letter, now=now)
    return lifecycle.redrive(letter, now=now)


def _resurrect(letter: DeadLetter, now: datetime, by: str, notes: str | None) -> DeadLetter:
    if letter.status is DeadLetterStatus.PENDING:
        raise IllegalMove(letter.key, "resurrect", letter.status, "only an exhausted or archived letter is; redrive it")
    return _redrive_this(letter, now, by, notes)


def _archive(letter: DeadLetter, now: datetime, by: str, notes: str | None) -> DeadLetter:
    if letter.status is DeadLetterStatus.ARCHIVED:
        raise IllegalMove(letter.key, "archive", letter.status)
    return lifecycle.archive(letter, now=now, by=by, notes=notes)


def _closing(name: str, close: Callable[..., DeadLetter], title: str, state: str, *, is_grave: bool = True) -> Verb:
    def change(letter: DeadLetter, now: datetime, by: str, notes: str | None) -> DeadLetter:
        return close(letter, now=now, by=by, notes=notes)

    effect = f"They are closed as {state}. A redrive can open them again."
    return Verb(name, EventName.RESOLVED, change, title, effect, is_grave)


REDRIVE = Verb("redrive", EventName.REDRIVEN, _redrive, "Redrive", "They get fresh attempts, the first one due now.")
REDRIVE_THIS = Verb("redrive", EventName.REDRIVEN, _redrive_this)  # one letter that was named: a closed one too
RESURRECT = Verb("resurrect", EventName.REDRIVEN, _resurrect)
ARCHIVE = Verb(
    "archive", EventName.ARCHIVED, _archive, "Archive", "They are put away. A redrive takes them out again.", True
)
RESOLVE = _closing("resolve", lifecycle.resolve, "Resolve", "settled otherwise", is_grave=False)
FAIL = _closing("fail", lifecycle.give_up, "Give up", "permanently failed, and kept for analysis")
CANCEL = _closing("cancel", lifecycle.cancel, "Cancel", "work that nobody wants any more")
MOVES_OF_MANY = (REDRIVE, ARCHIVE, RESOLVE, CANCEL, FAIL)  # bulk runs and the pages that start them offer these


def _parse_instant(value: Any) -> datetime | None:
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            raise InvalidInput(f"next_retry_at must be a date and time with a zone, not {value!r:.80}") from None
    return value  # type: ignore[no-any-return]  # the state machine looks at it


# How the fields that a person may change are called outside, and what they are inside.
_INSIDE: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "task": ("payload", lambda value: Json.of(value)),
    "payload_types": ("payload_types", lambda value: _given_types(value)),
    "metadata": ("labels", lambda value: _object(value, "metadata")),
    "repos": ("repos", lambda value: texts(value, "repos")),
    "depends_on": ("depends_on", lambda value: texts(value, "depends_on")),
    "retry_policy": ("retry_policy", lambda value: policy(value)),
    "max_retries": ("max_retries", lambda value: value),
    "priority": ("priority", lambda value: value),
    "next_retry_at": ("due_at", _parse_instant),
    "adapter": ("adapter", lambda value: adapter_name(value)),
}


class Edit(Value, frozen=True):
    """Values in the model's own names, a merge patch of the task, and whether to redrive the letter.

    `given_types` are those of values in the task, or in the patch, that were given as such and not as JSON. Only with
    `create` may the patch make places that the task does not have.
    """

    fields: Mapping[str, Any]
    patch: Json | None = None
    redrive: bool = False
    given_types: Json = EMPTY
    create: bool = False

    @classmethod
    def of(
        cls,
        changes: Mapping[str, Any],
        patch: Any = None,
        *,
        redrive: bool = False,
        create: bool = False,
        kinds: Sequence[ValueKind] = (),
    ) -> Self:
        """Return the edit of values in the documented names. Raise InvalidInput, naming what cannot be edited."""
        if not changes and patch is None:
            raise InvalidInput(f"nothing to change was given; {', '.join(_INSIDE)} can be edited")
        if locked := changes.keys() - _INSIDE:
            raise InvalidInput(f"{', '.join(sorted(locked))} cannot be edited; {', '.join(_INSIDE)} can")
        if patch is not None and "task" in changes:
            raise InvalidInput("give a task or a patch of it, not both")
        if redrive and "next_retry_at" in changes:
            raise InvalidInput("a redriven letter is due now: do not give next_retry_at too")
        if patch is not None and not isinstance(patch, Mapping):
            raise InvalidInput(f"patch must be a dict, not {patch!r:.80}")
        fields = {_INSIDE[name][0]: _INSIDE[name][1](value) for name, value in changes.items() if name != "task"}
        if "task" not in changes and patch is None:
            return cls(fields, None, redrive)
        from mahavishnu.values.typed_json import write_json  # what only reads letters does not wait for it

        if patch is not None:
            written, types = write_json(dict(patch), kinds, "patch")
            return cls(fields, written, redrive, types, create)
        fields["payload"], types = write_json(changes["task"], kinds)
        return cls(fields, None, redrive, types)

    @property
    def task(self) -> bool:
        """True if the task changes."""
        return self.patch is not None or not self.fields.keys().isdisjoint(("payload", "payload_types"))


def apply_edit(
    letter: DeadLetter,
    edit: Edit,
    now: datetime,
    *,
    backoffs: BackoffRegistry = backoff.DEFAULT,
    check: Callable[[DeadLetter], object] = lambda letter: None,
    kinds: Sequence[ValueKind] = (),
    names_places: bool = True,
) -> DeadLetter:
    """Return the letter as the edit makes it; `check` may raise for a task that is too large.

    With `names_places` the editor sees the task, and errors suggest its places. Raise IllegalMove where its state does
    not allow an edit, InvalidInput for invalid values, also for one that is not of the kind that the task has there,
    and for a place of the patch that the task does not have.
    """
    fields = dict(edit.fields)
    if edit.patch is not None:
        fields["payload"] = _patch_task(letter, edit.patch)
    if "payload" in fields and "payload_types" not in fields:
        fields["payload_types"] = _types_after(letter, fields["payload"], edit.given_types, kinds)
    after = lifecycle.edit(letter, now=now, backoffs=backoffs, **fields)
    if edit.patch is not None and not edit.create:
        unknown = [path for path in patch_paths(edit.patch.value) if not has_path(letter.task, path)]
        refuse_unknown_paths(unknown, [letter.task] if names_places else (), f"letter {letter.key!r} has no")
    if edit.task:
        check(after)
    return lifecycle.redrive(after, now=now) if edit.redrive else after


def _patch_task(letter: DeadLetter, patch: Json) -> Json:
    task = letter.task
    if not isinstance(task, dict):  # the standard would replace it, which nobody means who wants to change one name
        raise InvalidInput(
            f"a patch changes names of an object; the task of letter {letter.key!r} is none: give a whole task"
        )
    return Json.of(merge_patch(task, patch.value))


def adapter_name(value: Any) -> str:
    """Return the name of an adapter. Raise InvalidInput for an invalid one."""
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"an adapter is named by a text that is not empty, not {value!r:.80}")
    return str(value)


def _given_types(value: Any) -> Json:
    from mahavishnu.values.typed_edit import require_types

    return Json.of(require_types(value), "payload_types")


def _types_after(letter: DeadLetter, payload: Json, given: Json, kinds: Sequence[ValueKind]) -> Json:
    """Return the types of the changed task: its old ones, replaced by those of values that were given."""
    from mahavishnu.values.typed_edit import check_edit

    if letter.payload_types.text == EMPTY.text:
        return given
    new: dict[str, str] = given.value
    old = {
        path: kind
        for path, kind in letter.payload_types.value.items()
        if not any(path == other or path.startswith(f"{other}/") for other in new)
    }
    return Json.of({**check_edit(letter.task, old, payload.value, kinds), **new})


def _object(value: Any, name: str) -> Json:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{name} must be a dict, not {value!r:.80}")
    return Json.of(value, name)


# --- encrypted values: edited in the clear, stored encrypted, and revealed


def edit_letter(context: QueueContext, letter: DeadLetter, edit: Edit, now: datetime) -> DeadLetter:
    """Return the edited letter; unchanged encrypted values stay. Raise IllegalMove, InvalidInput as `apply_edit`."""
    factory, encryption = context.letter_factory, context.letter_factory.encryption
    if "payload" in edit.fields:
        task = _with_plain_task(edit.fields["payload"], letter, encryption.readable_letter(letter))
        edit = replace(edit, fields={**edit.fields, "payload": task})
    try:
        edited = apply_edit(
            encryption.readable_letter(letter),
            edit,
            now,
            backoffs=context.backoffs,
            check=factory.check_size,
            kinds=context.value_kinds,
            names_places=context.sees_payloads,
        )
        return encryption.encrypt_letter(edited, letter)
    except InvalidInput as problem:  # the audit keeps why it was refused
        fields = (edit.patch, edit.fields.get("payload"), edit.fields.get("labels"))
        given = [each.value for each in fields if each is not None]
        if (masked := factory.mask_quotes(str(problem), *given)) == str(problem):
            raise
        raise InvalidInput(masked) from None


def _with_plain_task(given: Json, letter: DeadLetter, plain: DeadLetter) -> Json:
    """Return a whole task that a person gave for the letter, who may have left encrypted values unchanged."""
    if plain is letter:
        return given
    return Json.of(with_plain_values(given.value, letter.payload.shared_value, plain.payload.shared_value))


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


async def reveal_letter(
    context: QueueContext, key: str, *, by: str, notes: str | None = None, where: str | None = None
) -> dict[str, Any]:
    """Return the task and the metadata in clear, audited first. Raise NoSuchLetter, CannotRestore, StoreError."""
    encryption = context.letter_factory.encryption
    async with context.audit.record("reveal", f"letter:{key}", by=by, reason=notes, where=where):
        letter = await get_one(context.letters, key)
        if letter is None:
            raise NoSuchLetter(key)
        return {"task": encryption.decrypt_letter(letter).task, "metadata": encryption.decrypt_labels(letter).value}


def require_clear_patch(encryption: Encryption, patch: Any) -> None:
    """Raise InvalidInput for a patch of many letters that sets what is to be encrypted: the run would store it."""
    secret = [path for path in patch_paths(patch) if any(is_secret(name, encryption.fields) for name in path)]
    if secret:
        named = ", ".join(pointer("task", *path) for path in secret)
        raise InvalidInput(
            f"{named} is encrypted in letters, and a bulk run would keep the patch in the clear: edit the letters one "
            "by one"
        )
