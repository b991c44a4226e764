"""What is kept of letters only to be searched: above all the words by which a text search finds them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any

from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import words
from mahavishnu.stores.kind import flatten, instant_text, scalar_text


def words_of(letter: DeadLetter) -> tuple[str, ...]:
    """What a text search finds it by."""
    cached = getattr(letter, "cached_text", None)
    if cached is not None and cached.words is not None:
        known: tuple[str, ...] = cached.words
        return known
    first, last = letter.error, letter.last_error
    found = _few_words(first, last) if len(first) + len(last) <= _SHORT else words(first, last)
    if cached is not None:
        cached.words = found
    return found


def more_words_of(letter: DeadLetter) -> tuple[str, ...]:
    """What a text search finds it by besides: its task id, the types of its errors, its payload."""
    types = [failure.type for failure in letter.failures]
    return words(letter.task_id, *types, _searchable_text(letter.payload))


def task_values_of(letter: DeadLetter) -> tuple[str, ...]:
    """The values inside of its payload as `path=value`, by which one of them is searched for.

    Bounded, as the words are: of a payload that is larger than that none, of one with many values the first ones.
    """
    payload = letter.payload
    if payload.text == "{}" or len(payload.text) > _LARGEST_WITH_VALUES:
        return ()
    pairs = dict.fromkeys(f"{path}={text}" for path, text in flatten(payload.shared_value) if path)
    return tuple(islice((pair for pair in pairs if len(pair) <= _LONGEST_VALUE), _MOST_VALUES))


def derived_text(letter: DeadLetter) -> str:
    """The members of a document that are only there to be searched, as JSON: all follow from lasting fields."""
    cached = getattr(letter, "cached_text", None)
    if cached is not None and cached.derived is not None:
        known: str = cached.derived
        return known
    found, more = ",".join(map(_quoted, words_of(letter))), ",".join(map(_quoted, more_words_of(letter)))
    values = ",".join(map(_quoted, task_values_of(letter)))
    at, partition = instant_text(letter.captured_at), letter.partition
    text = (
        f'"words":[{found}],"more_words":[{more}],"task_values":[{values}],"captured_at":"{at}","partition":{partition}'
    )
    if cached is not None:
        cached.derived = text
    return text


_SHORT = 1000
_ENCRYPTED = re.compile(r'"\$encrypted:1:[A-Za-z0-9._:-]+"')
_LONGEST_PAYLOAD = 8000  # characters of a payload that can be searched
_LARGEST_WITH_VALUES = 64_000  # characters of a payload whose values can be searched for
_MOST_VALUES = 500
_LONGEST_VALUE = 300  # characters, with the path


def _searchable_text(payload: Json) -> str | None:
    """The keys and values of the payload, as far as they are searched for."""
    text = payload.text
    if text == "{}":
        return None
    if '"$encrypted:' in text:  # nobody searches for ciphertext
        text = _ENCRYPTED.sub('""', text)
    if len(text) > _LONGEST_PAYLOAD:
        text = text[:_LONGEST_PAYLOAD]
    return text if "\\" not in text else "\n".join(_scalars(payload.shared_value))[:_LONGEST_PAYLOAD]


def _scalars(value: Any) -> Iterator[str]:
    """The keys and values as texts, without the escapes of JSON."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _scalars(item)
    elif isinstance(value, list):
        for item in value:
            yield from _scalars(item)
    else:
        yield scalar_text(value)


_few_words = lru_cache(1024)(words)  # the same errors happen again and again, above all when much fails
