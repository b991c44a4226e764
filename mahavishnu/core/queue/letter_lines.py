"""Letters as lines of JSON, and back: what of strangers' lines is a sound letter, and what is refused with a reason."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec

from mahavishnu.model import lifecycle
from mahavishnu.model.clock import instant_text
from mahavishnu.model.errors import CorruptRecord, InvalidInput, InvalidPayload
from mahavishnu.model.json_value import EMPTY, MAX_DEPTH, Json, is_plain_json, json_text, nesting_depth
from mahavishnu.model.letter import DeadLetter, evolve
from mahavishnu.model.letter_parts import Tallies
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.letter_codec import text_decoder
from mahavishnu.values.typed_edit import require_types

Document: TypeAlias = Mapping[str, Any] | str  #: a letter as a JSON object, or as the text of one

_SIMPLE = (str, bool, type(None))
_LARGEST = 2**31 - 1
_MOST_REVISIONS = 100_000  # each is a record of its own, which goes when the letter is deleted
_ENTRY_ID = re.compile(r"[\w.-]{1,200}", re.ASCII)
_COUNTS = ("retry_count", "max_retries", "total_attempts", "recoveries", "dlq_retry_count", "generation", "occurrences")
_counts_of = attrgetter(*_COUNTS, *(f"tallies.{each.name}" for each in fields(Tallies)))
_DATES = [each.name for each in fields(DeadLetter) if each.name.endswith("_at") and each.name != "due_at"]
_dates_of = attrgetter(*_DATES)


def letter_as_line(letter: DeadLetter) -> str:
    """A letter as one line of JSON; one that is being run as it was before: who reads it gets no right to settle it."""
    return LETTERS.document(without_lease(letter))


def without_lease(letter: DeadLetter) -> DeadLetter:
    """The letter as it was before it was run; any other one, and one that is not sound, as it is."""
    if letter.lease is None or lifecycle.violations(letter):
        return letter
    released = lifecycle.release(letter, token=letter.lease.token, now=letter.updated_at)
    return evolve(released, updated_at=letter.updated_at)  # a later state than that of the store would survive deletion


def documents_in(body: bytes) -> list[Document]:
    """The items of a JSON array, as texts for `parse_letter` to decode. Raises InvalidInput for anything else."""
    try:
        return [bytes(each).decode() for each in _items_of(body)]
    except (ValueError, RecursionError):  # such as an escaped lone surrogate, which json takes
        pass
    try:
        items = json.loads(body)
    except (ValueError, RecursionError) as problem:
        raise InvalidInput(f"the body is not JSON: {problem}") from None
    if not isinstance(items, list):
        raise InvalidInput("the body must be an array of letters, as export gives them")
    return [json.dumps(each) if isinstance(each, str) else each for each in items]


_items_of = msgspec.json.Decoder(list[msgspec.Raw]).decode


def name_of(document: Any, place: int) -> str:
    """What a document is called that is no sound letter: its entry id, its task id, or its place among the others."""
    if isinstance(document, str):
        try:
            document = json.loads(document)
        except (ValueError, RecursionError):
            return str(place)
    found = document.get("entry_id") or document.get("task_id") if isinstance(document, Mapping) else None
    return str(found or place)


def parse_letter(document: Document) -> DeadLetter:
    """The letter of a document, or of its text. Raises InvalidInput for what is none, or is not sound."""
    text = document if isinstance(document, str) else _encode(document)
    letter = None if text is None else _read_text(text)
    if letter is None:
        letter = _read_with_care(document)
    require_sound(letter)
    if letter.payload_types.text != EMPTY.text:
        require_types(letter.payload_types.value)
    return letter


def _encode(document: Any) -> str | None:
    """A document that is plain JSON as text; None for any other."""
    if type(document) is not dict or not is_plain_json(document):
        return None
    try:
        return json_text(document)
    except (TypeError, ValueError, RecursionError):  # a number that JSON does not have, or it is too deep
        return None


def _read_text(text: str) -> DeadLetter | None:
    """The letter of a text, which is decoded once; None for all about which something is to be said.

    What users gave is read and written anew: its digest is wanted anyway, and a stranger's text may have white space.
    """
    if nesting_depth(text) > MAX_DEPTH or (letter := _decode_foreign(text, None)) is None:
        return None
    try:
        _ = letter.payload.digest  # while its value is at hand
        is_usable = bool(_ENTRY_ID.fullmatch(letter.entry_id) and letter.key and letter.payload.text)
        _ = letter.labels.text  # it cannot be encoded if it has a number that JSON does not have
    except (ValueError, RecursionError, InvalidInput):
        return None
    return letter if is_usable and _are_usual(letter) else None


_decode_foreign = text_decoder(DeadLetter, lambda data: Json.from_parsed(json.loads(data)))


def _are_usual(letter: DeadLetter) -> bool:
    """Whether no number of the letter is beyond what `_require_range` allows."""
    counts = _counts_of(letter)
    if sent := letter.requeue:
        counts += (sent.boost, sent.automatic)
    in_range = min(counts) >= 0 and max(counts) <= _LARGEST and abs(letter.priority) <= _LARGEST
    return in_range and 0 <= letter.revision <= _MOST_REVISIONS


def _read_with_care(given: Document) -> DeadLetter:
    """The letter of a document. Raises InvalidInput that names what is wrong with it."""
    document = _parse(given) if isinstance(given, str) else given
    if not isinstance(document, Mapping):
        raise InvalidInput(f"a letter is a JSON object, not {document!r:.80}")
    for name, value in document.items():
        if type(value) not in _SIMPLE and not (type(value) is int and -_LARGEST <= value <= _LARGEST):
            Json.of(value, name)  # not too deep, and no number that JSON does not have
    try:
        letter = evolve(LETTERS.decode(document, ()), version=None)
        key = letter.key  # refuses names that no store could keep
        if not _ENTRY_ID.fullmatch(letter.entry_id):
            raise InvalidInput(f"letter {key!r:.80} has no entry_id that it can be found by: {letter.entry_id!r:.80}")
    except CorruptRecord as problem:
        raise InvalidInput(f"this is no exported letter: {problem.reason}") from None
    require_sound(letter)
    require_types(letter.payload_types.value)
    _require_range(document, key)
    return letter


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise InvalidPayload("letter", f"is nested deeper than {MAX_DEPTH}") from None
    except ValueError as problem:
        raise InvalidInput(f"this is not JSON: {problem}") from None


def _require_range(document: Mapping[str, Any], key: str) -> None:
    requeue = document.get("requeue") or {}
    for name, value in (*document.items(), *((f"requeue.{name}", each) for name, each in requeue.items())):
        lowest = -_LARGEST if name == "priority" else 0
        most = _MOST_REVISIONS if name == "revision" else _LARGEST  # statistics add them up
        if type(value) is int and name != "task" and not lowest <= value <= most:
            raise InvalidInput(f"{name} of letter {key!r:.80} cannot be {value!s:.80}: it goes from {lowest} to {most}")


def require_past(letter: DeadLetter, latest: datetime) -> None:
    """Raise InvalidInput for a date after the `latest` one: later moves would come before it.

    Only its retry may be due then.
    """
    sent = letter.requeue and letter.requeue.at
    others = (letter.resolution.at, sent, *(failure.at for failure in letter.failures))
    if all(moment is None or moment <= latest for moment in (*_dates_of(letter), *others)):
        return
    names = (*_DATES, "resolution_timestamp", "requeue.at", *(f"failures[{n}].at" for n in range(len(letter.failures))))
    for name, moment in zip(names, (*_dates_of(letter), *others), strict=True):
        if moment is not None and moment > latest:
            raise InvalidInput(
                f"{name} of letter {letter.key!r:.80} is {instant_text(moment)}, which has not come yet: correct it, "
                "or the clock of this machine"
            )


def require_sound(letter: DeadLetter) -> DeadLetter:
    """The letter. Raises InvalidInput if it breaks an invariant, or is what is left of a deleted one."""
    if broken := lifecycle.violations(letter):
        raise InvalidInput(f"letter {letter.key!r} is not sound: {'; '.join(broken)}")
    if letter.is_deleted:
        raise InvalidInput(f"letter {letter.key!r} is what is left of a deleted one: there is nothing to import")
    return letter
