"""What a letter keeps of a failed task: plain JSON with its types beside it, and masks in the place of secrets."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from mahavishnu.model.errors import InvalidPayload
from mahavishnu.model.json_value import EMPTY, Json, safe_repr, type_label
from mahavishnu.model.typed_json import plain_text, write

if TYPE_CHECKING:
    from mahavishnu.adapters.arguments import WrittenValues
    from mahavishnu.engine.letter_factory import LetterRequest

MASK = "***"
# In the metadata of letters that nothing retries by itself:
NOT_JSON = "dlq_not_json"  #: why: mostly because JSON cannot hold the task or the metadata
REDACTED = "dlq_redacted"  #: that arguments are masked
_CLASSES = ("enum:", "dataclass:", "namedtuple:", "model:")
WriteValues: TypeAlias = "Callable[[Any, Callable[[Any], str]], WrittenValues]"
"""Writes a task as JSON, with descriptions in the place of what cannot come back."""


@dataclass(frozen=True, slots=True)
class Payload:
    """A task as a letter keeps it. `notes` for its metadata say why a run would be given something else."""

    payload: Json
    types: Json = EMPTY
    notes: Mapping[str, str] = field(default_factory=dict)


def write_payload(request: LetterRequest, patterns: Sequence[str] = ()) -> Payload:
    """The request's task as a letter keeps it. Raises InvalidPayload if it is no JSON and nothing else writes it."""
    if request.write is None and not patterns and not request.redact:
        if (text := plain_text(request.task)) is not None:  # nearly always
            return Payload(Json(text), request.payload_types)
        return _without_hints(request.task, request.payload_types)
    notes: dict[str, str] = {}
    if request.write is None:
        task, types = request.task, request.payload_types
        if not patterns:
            plain = _without_hints(task, types)
            task, types = plain.payload.value, plain.types
    else:
        written = request.write(request.task, type_label if patterns or request.redact else safe_repr)
        if written.why_lost is not None:
            notes[NOT_JSON] = written.why_lost
        if not patterns and not request.redact:
            return Payload(written.payload, written.types, notes)
        task, types = written.payload.value, written.types
    if request.redact and (masked := redact(task, request.redact)) != task:
        task = masked
        notes[REDACTED] = f"masked by {', '.join(request.redact)}: give the values by an edit before it is run again"
    return Payload(Json.of(redact(task, patterns)), types, notes)


def _without_hints(task: Any, types: Json) -> Payload:
    """A task of which no function says what is in it: classes become plain, as nothing could make them again."""
    try:
        plain, found = write(task)
        if found and not any(kind.startswith(_CLASSES) for kind in found.values()):
            return Payload(Json.of(plain), Json.of(found))
    except InvalidPayload:
        pass  # JSON may be able to hold it all the same
    return Payload(Json.of(task), types)


def is_secret(key: str, patterns: Sequence[str]) -> bool:
    """Whether what is under this key is masked."""
    return _secrets(tuple(patterns)).match(key.lower()) is not None


@lru_cache(64)
def _secrets(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """All patterns as one: a payload may have a hundred thousand keys."""
    return re.compile("|".join(fnmatch.translate(each.lower()) for each in patterns) or r"(?!)")


def redact(value: Any, patterns: Sequence[str]) -> Any:
    """`value` with the values under matching keys masked, at any depth. A masked payload may not run again as it is.

    >>> redact({"user": "ann", "api_token": "s3cret"}, ["*token*"])
    {'user': 'ann', 'api_token': '***'}
    """
    if not patterns:
        return value
    if isinstance(value, Mapping):
        return {
            key: MASK if is_secret(_json_key(key), patterns) else redact(item, patterns) for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [redact(item, patterns) for item in value]
    if isinstance(value, set | frozenset):
        return [redact(item, patterns) for item in sorted(value, key=str)]
    if isinstance(value, Enum):
        inner = redact(value.value, patterns)
        return value if inner is value.value else inner
    return value


def _json_key(key: Any) -> str:
    """A key as JSON spells it: of an enum of texts the text, whatever its `str` is."""
    return str.__str__(key) if isinstance(key, str) else str(key)
