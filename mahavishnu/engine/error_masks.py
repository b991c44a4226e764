"""Masks in the texts of errors: a value that a letter hides is hidden where an error quotes it, too.

What is found is the value as it is written, also with the escapes of Python and JSON, and the number of a card or an
account without its blanks. A value of fewer than four characters is left alone: it would be found everywhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace

from mahavishnu.model.letter_parts import MASK, Failure

SHORTEST, SURE = 4, 8  # shorter values than SURE are masked only where they stand alone
_MOST = 1000  # values
_BLANKS = re.compile(r"[\s-]+")


def mask_failure(failure: Failure, secrets: Iterable[str]) -> Failure:
    """The failure without these texts in its message and its traceback.

    >>> from datetime import UTC, datetime
    >>> mask_failure(Failure(datetime(2026, 1, 1, tzinfo=UTC), "card 4111-1111 declined"), ["4111-1111"]).message
    'card *** declined'
    """
    found = _pattern(secrets)
    if found is None:
        return failure
    message = found.sub(MASK, failure.message)
    traceback = failure.traceback and found.sub(MASK, failure.traceback)
    if message == failure.message and traceback == failure.traceback:
        return failure
    return replace(failure, message=message, traceback=traceback)


def _pattern(secrets: Iterable[str]) -> re.Pattern[str] | None:
    spelled = {form for secret in list(secrets)[:_MOST] for form in _spellings(secret.strip()) if len(form) >= SHORTEST}
    if not spelled:
        return None
    longest_first = sorted(spelled, key=lambda each: (-len(each), each))
    return re.compile("|".join(map(_place, longest_first)))


def _place(text: str) -> str:
    return re.escape(text) if len(text) >= SURE else rf"(?<!\w){re.escape(text)}(?!\w)"


def _spellings(secret: str) -> Iterable[str]:
    yield secret
    yield repr(secret)[1:-1]
    yield json.dumps(secret)[1:-1]
    if sum(map(str.isdigit, secret)) >= SURE:
        yield _BLANKS.sub("", secret)
