"""What people do with a letter, by name: the pure move, and what is told of it. One at a time, in bulk, or in a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from mahavishnu.model import lifecycle
from mahavishnu.model.errors import AlreadyResolved, IllegalMove
from mahavishnu.model.events import EventName
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus


@dataclass(frozen=True, slots=True)
class Verb:
    """`change(letter, now, by, notes)` is the letter moved; it raises IllegalMove where that cannot be.

    `name` is what the audit calls it, `event` what listeners hear.
    """

    name: str
    event: EventName
    change: Callable[[DeadLetter, datetime, str, str | None], DeadLetter]


def _redrive(letter: DeadLetter, now: datetime, by: str, notes: str | None) -> DeadLetter:
    if not letter.is_open:  # that is for a person to say of each
        raise AlreadyResolved(letter.key, "redrive", f"{letter.status} and resolved as {letter.resolution.status}")
    return lifecycle.redrive(letter, now=now)


def _redrive_this(letter: DeadLetter, now: datetime, by: str, notes: str | None) -> DeadLetter:
    if letter.status is DeadLetterStatus.ARCHIVED:
        return lifecycle.restore(letter, now=now)
    return lifecycle.redrive(letter, now=now)


def _resurrect(letter: DeadLetter, now: datetime, by: str, notes: str | None) -> DeadLetter:
    if letter.status is DeadLetterStatus.ARCHIVED:
        return lifecycle.restore(letter, now=now)
    if letter.status is DeadLetterStatus.PENDING:
        raise IllegalMove(letter.key, "resurrect", letter.status, "only an exhausted or archived letter needs it")
    return lifecycle.redrive(letter, now=now)


def _archive(letter: DeadLetter, now: datetime, by: str, notes: str | None) -> DeadLetter:
    if letter.status is DeadLetterStatus.ARCHIVED:
        raise IllegalMove(letter.key, "archive", letter.status)
    return lifecycle.archive(letter, now=now, by=by, notes=notes)


def _resolve(letter: DeadLetter, now: datetime, by: str, notes: str | None) -> DeadLetter:
    return lifecycle.resolve(letter, now=now, by=by, notes=notes)


def _fail(letter: DeadLetter, now: datetime, by: str, notes: str | None) -> DeadLetter:
    return lifecycle.give_up(letter, now=now, by=by, notes=notes)


def _cancel(letter: DeadLetter, now: datetime, by: str, notes: str | None) -> DeadLetter:
    return lifecycle.cancel(letter, now=now, by=by, notes=notes)


REDRIVE = Verb("redrive", EventName.REDRIVEN, _redrive)
REDRIVE_THIS = Verb("redrive", EventName.REDRIVEN, _redrive_this)  # one letter that was named: a closed one too
RESURRECT = Verb("resurrect", EventName.REDRIVEN, _resurrect)
ARCHIVE = Verb("archive", EventName.ARCHIVED, _archive)
RESOLVE = Verb("resolve", EventName.RESOLVED, _resolve)
FAIL = Verb("fail", EventName.RESOLVED, _fail)
CANCEL = Verb("cancel", EventName.RESOLVED, _cancel)
VERBS: Mapping[str, Verb] = {verb.name: verb for verb in (REDRIVE, RESURRECT, ARCHIVE, RESOLVE, FAIL, CANCEL)}
