"""What bulk runs can do to letters: the change of each, the checks before it, and the event after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from mahavishnu.bulk.run import BulkRun
from mahavishnu.classify.assess import Assessor
from mahavishnu.classify.plugin_guard import call_in_thread
from mahavishnu.engine.context import QueueContext
from mahavishnu.engine.moves import isolate_letter
from mahavishnu.letters.verbs import ARCHIVE, CANCEL, FAIL, REDRIVE, RESOLVE, Edit, Verb, edit_letter
from mahavishnu.model import lifecycle
from mahavishnu.model.errors import InvalidInput, MahavishnuError
from mahavishnu.model.events import EventName
from mahavishnu.model.letter import DeadLetter
from mahavishnu.stores.retained import keep_revisions

Change = Callable[[QueueContext, BulkRun, DeadLetter, datetime], DeadLetter]


def _plain(verb: Verb) -> Change:
    return lambda context, run, letter, now: verb.change(letter, now, run.by, run.reason)


def _edit(context: QueueContext, run: BulkRun, letter: DeadLetter, now: datetime) -> DeadLetter:
    edit = Edit({}, run.patch, run.verb == REDRIVE.name, create=True)  # refused at its start, if by none of them
    return edit_letter(context, letter, edit, now)


def _redrive(context: QueueContext, run: BulkRun, letter: DeadLetter, now: datetime) -> DeadLetter:
    redriven = REDRIVE.change(letter, now, run.by, run.reason)  # with a patch too: it raises the same errors
    return redriven if run.patch is None else _edit(context, run, letter, now)


def _regroup(context: QueueContext, run: BulkRun, letter: DeadLetter, now: datetime) -> DeadLetter:
    fingerprint = Assessor(context.chain).fingerprint_again(letter)
    if letter.is_open and fingerprint == letter.fingerprint:
        raise InvalidInput("it belongs to the group that it is in")
    return lifecycle.regroup(letter, now=now, fingerprint=fingerprint)


EDIT, REGROUP = "edit", "regroup"
_PLAIN = (ARCHIVE, RESOLVE, CANCEL, FAIL)
_BY_STATE = frozenset(verb.name for verb in (REDRIVE, *_PLAIN))
# What a run can do: the change of each letter, and the event that is published after it.
VERBS: Mapping[str, tuple[Change, EventName]] = {
    REDRIVE.name: (_redrive, REDRIVE.event),
    **{verb.name: (_plain(verb), verb.event) for verb in _PLAIN},
    EDIT: (_edit, EventName.EDITED),
    REGROUP: (_regroup, EventName.EDITED),
}


class RunVerb:
    """The verb of one run, with what belongs to moving a letter by it."""

    def __init__(self, context: QueueContext, run: BulkRun) -> None:
        self._context, self._run = context, run
        self._change, self._event = VERBS[run.verb]

    @property
    def depends_on_state_only(self) -> bool:
        """True if the status and the resolution of a letter decide whether the run can move it."""
        return self._run.patch is None and self._run.verb in _BY_STATE

    def change(self, letter: DeadLetter, now: datetime) -> DeadLetter:
        """Return the moved letter. Raise IllegalMove, InvalidInput for an unpatchable task, and UnworkableLetter."""
        with isolate_letter(letter.key):
            return self._change(self._context, self._run, letter, now)

    async def change_unhurried(self, letter: DeadLetter, now: datetime) -> DeadLetter:
        """Return the moved letter; work in a thread if plugins are asked and long texts read."""
        if self._run.verb == REGROUP:
            return await call_in_thread(self.change, letter, now)
        return self.change(letter, now)

    async def prepare(
        self, before: Sequence[DeadLetter], after: Sequence[DeadLetter]
    ) -> Sequence[MahavishnuError | None]:
        """Ask plugins for objections to edited letters, and keep revisions. Return an error or None for each letter."""
        if self._run.patch is None:
            return [None] * len(before)
        problems: list[MahavishnuError | None] = [await self.objection(letter) for letter in after]
        fine = [place for place, problem in enumerate(problems) if problem is None]
        kept = await keep_revisions(self._context.revisions, [before[place] for place in fine])
        for place, problem in zip(fine, kept, strict=True):
            problems[place] = problem
        return problems

    async def objection(self, letter: DeadLetter) -> InvalidInput | None:
        """Return the objection of a plugin, or of the function that runs it, to the edited task."""
        letter = self._context.letter_factory.encryption.readable_letter(letter)
        why = self._context.why_unrestorable(letter)
        why = why or await Assessor(self._context.chain).objection(letter, self._context.clock.now())
        return InvalidInput(f"the task cannot be that: {why}") if why else None

    def announce(self, letter: DeadLetter) -> None:
        """Publish that the letter was moved, as if a person had moved it alone."""
        run = self._run
        detail = {"by": run.by, "notes": run.reason, "run_id": run.run_id}
        if run.patch is not None:
            self._context.announce(EventName.EDITED, letter, changed=["task"], **detail)
        if run.verb != EDIT:
            self._context.announce(self._event, letter, was_open=True, **detail)


def require_verb(verb: str, patch: Any, *, redrive: bool) -> tuple[str, Edit | None]:
    """Return the verb and its patch, as a run keeps them: an edit with redrive is a redrive. Raise InvalidInput."""
    if verb not in VERBS:
        raise InvalidInput(f"a run cannot {verb!r:.80}; it can {', '.join(VERBS)}")
    if redrive and verb not in (EDIT, REDRIVE.name):
        raise InvalidInput(f"redrive goes with an edit, not with {verb!r}")
    if verb == EDIT and patch is None:
        raise InvalidInput("an edit needs a patch: an object with what is to change in the tasks, null to remove")
    if verb not in (EDIT, REDRIVE.name) and patch is not None:
        raise InvalidInput(f"a patch goes with an edit or a redrive, not with {verb!r}")
    name = REDRIVE.name if redrive else verb
    return name, None if patch is None else Edit.of({}, patch)
