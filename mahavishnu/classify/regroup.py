"""The fingerprint of a stored letter anew, after a plugin was added or the rules were changed."""

from __future__ import annotations

from mahavishnu.classify.chain import Chain
from mahavishnu.classify.fingerprint import VERSION, fingerprint_of
from mahavishnu.classify.reclassify import recalled
from mahavishnu.classify.verdict import Context
from mahavishnu.model.letter import DeadLetter


def fingerprint_again(letter: DeadLetter, chain: Chain) -> str | None:
    """The fingerprint that the letter would get today; while no rule has changed, the one that it has. Never raises.

    It is made of the failure that the letter was written for, not of later ones. A letter that keeps none stays as it
    is. So does an exception that a plugin named when it was raised and does not name now: it saw all of it then, and
    now only its text, so its silence says nothing.
    """
    if not letter.failures:
        return letter.fingerprint
    first = letter.failures[0]
    context = Context(
        task_id=letter.task_id,
        task=letter.task if isinstance(letter.task, dict) else {},
        repos=letter.repos,
        recalled=True,
    )
    for error in recalled(first.type, first.message, first.traceback):
        if (named := chain.named_fingerprint(error, context)) is not None:
            return named
    usual = fingerprint_of(first)
    was_named = letter.fingerprint is not None and letter.fingerprint.startswith(f"{VERSION}:")
    if was_named and first.type is not None and chain.plugins.steps("fingerprint_failure"):
        return letter.fingerprint
    return usual
