"""Letters that wait for others to succeed first.

A workflow that calls another one and fails calls it again in its retry: so the letter of the called one waits for that
of the caller, if its work has a name by which a success closes it. Who calls whom is read off the stack once a call has
failed, so that a call that succeeds pays nothing for it; what runs in another task or thread is not linked.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from functools import partial
from types import CodeType

from mahavishnu.engine.context import QueueContext
from mahavishnu.model import lifecycle
from mahavishnu.model.errors import InvalidInput, MahavishnuError, StoreError
from mahavishnu.model.ids import document_key
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus, ResolutionStatus
from mahavishnu.model.query import Is, Query
from mahavishnu.model.work import original_task_id
from mahavishnu.stores.base import Collection, scan, update_with_retry

log = logging.getLogger(__name__)
_SETTLED = (ResolutionStatus.REQUEUED, ResolutionStatus.MANUALLY_RESOLVED)
_UNSETTLED = (ResolutionStatus.PENDING, ResolutionStatus.PERMANENTLY_FAILED, ResolutionStatus.CANCELLED)
_NAMES_AT_ONCE = 1000


async def blocked_by(letters: Collection[DeadLetter], letter: DeadLetter) -> list[str]:
    """Return the tasks whose letters, also of other work under their ids, have not succeeded yet."""
    if not letter.depends_on:
        return []
    found = await _letters_under(letters, letter.depends_on, letter)
    blocked = [name for name, other in found if not (isinstance(other, DeadLetter) and _has_succeeded(other))]
    return blocked or list(dict.fromkeys([name for name, _ in await _other_work(letters, letter.depends_on, letter)]))


async def _letters_under(
    letters: Collection[DeadLetter], names: Sequence[str], beside: DeadLetter
) -> list[tuple[str, DeadLetter | StoreError]]:
    """The letters under these task ids, in the queue of `beside`."""
    found = await letters.get([document_key(name, beside.namespace, beside.queue) for name in names])
    return [(name, letter) for name, letter in zip(names, found, strict=True) if letter is not None]


async def _other_work(
    letters: Collection[DeadLetter], names: Sequence[str], beside: DeadLetter
) -> list[tuple[str, DeadLetter]]:
    """The letters of other work under these task ids that have not succeeded, but for `beside` itself."""
    found: list[DeadLetter] = []
    for start in range(0, len(names), _NAMES_AT_ONCE):
        some = tuple(names[start : start + _NAMES_AT_ONCE])
        here = Is("namespace", (beside.namespace,)), Is("queue", (beside.queue,))
        unsettled = Is("resolution_status", _UNSETTLED)  # SQLite has an index for it
        found += [letter async for letter in scan(letters, Query((Is("source_id", some), unsettled, *here)))]
    names_of = [(original_task_id(letter), letter) for letter in found if letter.key != beside.key]
    return [(name, letter) for name, letter in names_of if name is not None]


def _has_succeeded(letter: DeadLetter) -> bool:
    """Return True if the letter is completed, or was before it was archived."""
    return letter.status in (DeadLetterStatus.COMPLETED, DeadLetterStatus.ARCHIVED) and (
        letter.resolution.status in _SETTLED
    )


async def refuse_circle(letters: Collection[DeadLetter], fresh: DeadLetter) -> None:
    """Raise InvalidInput if `fresh` would wait for itself, directly or through others."""
    paths: dict[str, tuple[str, ...]] = {name: (fresh.task_id, name) for name in fresh.depends_on}
    frontier = list(paths)
    while frontier:
        if fresh.task_id in paths:
            circle = " → ".join(paths[fresh.task_id])
            raise InvalidInput(
                f"dependency_cycle_detected: {circle}; task {fresh.task_id!r} would wait for itself; it was refused"
            )
        beyond: list[str] = []
        under, others = await _letters_under(letters, frontier, fresh), await _other_work(letters, frontier, fresh)
        for name, letter in [*under, *others]:
            for other in letter.depends_on if isinstance(letter, DeadLetter) else ():
                if other not in paths:
                    paths[other] = (*paths[name], other)
                    beyond.append(other)
        frontier = beyond


_CALLERS: dict[CodeType, str] = {}  # functions that run a workflow, and their variable for the call


def register_caller(code: CodeType, variable: str) -> None:
    """Register the code of what runs workflows: this variable of it has a list `called`, or none yet."""
    _CALLERS[code] = variable


def note_called(call: object, key: str) -> None:
    """Note with every workflow that is calling this one just now that its failure has this letter."""
    frame = sys._getframe(1)
    while (outer := frame.f_back) is not None:
        frame = outer
        caller = frame.f_locals.get(variable) if (variable := _CALLERS.get(frame.f_code)) is not None else None
        if caller is None or caller is call:
            continue
        if not hasattr(caller, "called"):
            caller.called = []
        if key not in caller.called:
            caller.called.append(key)


async def let_called_wait(context: QueueContext, called: Sequence[str], caller: DeadLetter) -> None:
    """Have the letters of workflows that were called wait for that of their caller, which calls them again."""
    for key in called:
        try:
            (letter,) = await context.letters.get([key])
            if isinstance(letter, DeadLetter) and (after := _as_waiting(letter, caller, context)) is not letter:
                await refuse_circle(context.letters, after)
                await update_with_retry(context.letters, key, partial(_as_waiting, caller=caller, context=context))
        except MahavishnuError as problem:  # then both are run
            log.warning("letter %r does not wait for %r, which calls its workflow: %s", key, caller.task_id, problem)


def _as_waiting(letter: DeadLetter, caller: DeadLetter, context: QueueContext) -> DeadLetter:
    beside = (letter.namespace, letter.queue) == (caller.namespace, caller.queue) and letter.key != caller.key
    if not letter.is_open or not beside or caller.task_id in letter.depends_on:
        return letter
    return lifecycle.change_letter(letter, context.clock.now(), depends_on=(*letter.depends_on, caller.task_id))
