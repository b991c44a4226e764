"""A second look at stored letters, after a plugin was added or rules were changed; walking a store is not done here."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator

from mahavishnu.classify.chain import Chain
from mahavishnu.classify.verdict import BUILT_IN, NOBODY, Context, Verdict
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus


def reconsider(letter: DeadLetter, chain: Chain) -> Verdict | None:
    """The verdict that the letter would get now, if that changes its category, policy or budget; else None.

    A letter that is being retried or is closed is left alone. What nobody knows changes nothing. And the built-in rules
    do not overrule themselves on an exception: when it was raised they saw all of it, and now only its text.
    """
    if not letter.is_open or letter.status is DeadLetterStatus.RETRYING:
        return None
    last = letter.failures[-1] if letter.failures else None
    context = Context(
        task_id=letter.task_id,
        task=letter.task if isinstance(letter.task, dict) else {},
        repos=letter.repos,
        retry_count=letter.retry_count,
        recalled=True,
    )
    for error in recalled(last.type if last else None, letter.last_error, last.traceback if last else None):
        verdict = chain.classify(error, context)
        if verdict.author == NOBODY:
            continue
        if verdict.author == letter.verdict.author == BUILT_IN and last is not None and last.type:
            continue
        return verdict if _changes(letter, verdict) else None
    return None


def _changes(letter: DeadLetter, verdict: Verdict) -> bool:
    return (
        verdict.category != letter.error_category
        or (verdict.policy is not None and verdict.policy != letter.retry_policy)
        or (verdict.max_retries is not None and verdict.max_retries != letter.max_retries)
    )


def recalled(kind: str | None, message: str, trace: str | None) -> Iterator[BaseException | str]:
    """The error as an exception again, if its type is loaded here, and as text."""
    if kind and (error := _revived(kind, message)) is not None:
        yield error
    if trace:
        yield trace
    else:
        yield f"{kind}: {message}" if kind and kind != message else message


def _revived(kind: str, message: str) -> BaseException | None:
    """An instance of the type with this name and message, made without running its `__init__` or importing anything."""
    module, _, name = kind.rpartition(".")
    found: object = sys.modules.get(module) if module else builtins
    found = getattr(found, name, None)
    if not isinstance(found, type) or not issubclass(found, BaseException):
        return None
    try:
        return found.__new__(found, message)
    except Exception:
        return None  # its own __new__ wants more than a message
