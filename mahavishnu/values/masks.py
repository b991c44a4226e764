"""Masks in the texts of errors: a value that a letter hides is hidden where an error quotes it, too.

A value is found as it is written, also with the escapes of Python, JSON and URLs, and the number of a card or an
account without its blanks. A value of fewer than four characters is left alone: it would be found everywhere.

It takes some milliseconds for each hundred kilobytes of text, however many values there are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from urllib.parse import quote, quote_plus

from mahavishnu.model.letter_parts import MASK, Failure

SHORTEST, SURE = 4, 8  # shorter values than SURE are masked only where they stand alone
_BLANKS = re.compile(r"[\s-]+")
_PLAIN = re.compile(r"[A-Za-z0-9._~-]+")  # is written the same everywhere
_CUT = re.compile(r"\n  \[… of [0-9]+ characters the middle is cut …\]\n")  # as `classify.exceptions.cut` says it
_FEW = 50  # values that are looked for one by one
_TRIES = 20  # places where a form may be torn; a text that repeats itself has more, and is masked from there on
Span = tuple[int, int]


def mask_failure(failure: Failure, secrets: Iterable[str]) -> Failure:
    """The failure without these texts in its message and its traceback.

    >>> from datetime import UTC, datetime
    >>> mask_failure(Failure(datetime(2026, 1, 1, tzinfo=UTC), "card 4111-1111 declined"), ["4111-1111"]).message
    'card *** declined'
    """
    forms = _forms_of(secrets)
    message = _mask(failure.message, forms)
    traceback = failure.traceback and _mask(failure.traceback, forms)
    if message == failure.message and traceback == failure.traceback:
        return failure
    return replace(failure, message=message, traceback=traceback)


def mask_text(text: str, secrets: Iterable[str]) -> str:
    """The text without these.

    >>> mask_text("no user 'ann smith'", ["ann smith"])
    "no user '***'"
    """
    return _mask(text, _forms_of(secrets))


def _forms_of(secrets: Iterable[str]) -> set[str]:
    return {form for secret in set(secrets) for form in _spellings(secret.strip()) if len(form) >= SHORTEST}


def _spellings(secret: str) -> Iterator[str]:
    yield secret
    if _PLAIN.fullmatch(secret) is None:
        data = secret.encode("utf-8", "surrogatepass")
        yield from (repr(secret)[1:-1], repr(data)[2:-1])
        yield from (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
        yield from (quote(data), quote(data, safe=""), quote_plus(data))
    if sum(map(str.isdigit, secret)) >= SURE:
        yield _BLANKS.sub("", secret)


def _mask(text: str, forms: set[str]) -> str:
    if not forms:
        return text
    spans = [*_quoted(text, forms), *_torn(text, forms)]
    if not spans:
        return text
    shown, kept, begin, end = list[str](), 0, *min(spans)
    for start, stop in sorted(spans):
        if start >= end:  # what overlaps is one
            shown += text[kept:begin], MASK
            kept, begin, end = end, start, stop
        end = max(end, stop)
    return "".join((*shown, text[kept:begin], MASK, text[end:]))


def _quoted(text: str, forms: set[str]) -> Iterator[Span]:
    """Yield the places of forms in the text; of those that begin at one place the longest."""
    if len(forms) <= _FEW:
        there = [form for form in forms if form in text]
    else:
        heads = {text[place : place + SHORTEST] for place in range(len(text) - SHORTEST + 1)}
        there = [form for form in forms if form[:SHORTEST] in heads]
    by_head: dict[str, dict[int, set[str]]] = {}
    for form in there:
        by_head.setdefault(form[:SHORTEST], {}).setdefault(len(form), set()).add(form)
    if not by_head:
        return
    longest_first = {head: sorted(lengths.items(), reverse=True) for head, lengths in by_head.items()}
    for place in range(len(text) - SHORTEST + 1):
        for length, same in longest_first.get(text[place : place + SHORTEST], ()):
            stop = place + length
            if text[place:stop] in same and (length >= SURE or _is_alone(text, place, stop)):
                yield place, stop
                break


def _is_alone(text: str, start: int, stop: int) -> bool:
    return not (_is_word(text[start - 1 : start]) or _is_word(text[stop : stop + 1]))


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _torn(text: str, forms: set[str]) -> Iterator[Span]:
    """Yield the rest of a form whose middle, end or beginning is where a long text was cut."""
    for cut in _CUT.finditer(text):
        before, after = text[: cut.start()], text[cut.end() :]
        for form in forms:
            window = max(0, len(before) - len(form))
            if (place := _first(before, form[:SHORTEST], window, form.startswith)) >= 0:
                yield place, cut.start()
            if (place := _first(form, after[:SHORTEST], 0, after.startswith)) >= 0:
                yield cut.end(), cut.end() + len(form) - place


def _first(text: str, head: str, since: int, begins: Callable[[str], bool]) -> int:
    """The first place with this head from which on the text is what something begins with; -1 if there is none."""
    place = text.find(head, since) if len(head) == SHORTEST else -1
    for _ in range(_TRIES):
        if place < 0 or begins(text[place:]):
            break
        place = text.find(head, place + 1)
    return place
