"""What bulk runs can do to letters, and whom they tell."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

from mahavishnu.core.auditing import Auditing
from mahavishnu.core.judging import objection
from mahavishnu.engine.edits import Edit, edited
from mahavishnu.engine.verbs import ARCHIVE, CANCEL, FAIL, REDRIVE, RESOLVE, Verb
from mahavishnu.model.bulk import BulkRun
from mahavishnu.model.errors import InvalidInput, MahavishnuError
from mahavishnu.model.events import Event, EventName
from mahavishnu.model.letter import DeadLetter
from mahavishnu.stores.revisions import REVISIONS, keep_revisions

# A verb that needs nothing but the letter is a line here.
VERBS: Mapping[str, Verb] = {verb.name: verb for verb in (REDRIVE, ARCHIVE, RESOLVE, CANCEL, FAIL)}
EDIT = "edit"
STOP_RULE = "stop_rule"  # who halts a run


class RunVerbs:
    """Does for the queue what `mahavishnu.engine.bulk.Verbs` asks for."""

    def __init__(self, desk: Auditing) -> None:
        self._desk = desk

    def change(self, run: BulkRun, letter: DeadLetter) -> DeadLetter:
        """The letter as the run wants it. Raises IllegalMove, and InvalidInput for a task that cannot be patched."""
        now, desk = self._desk.clock.now(), self._desk
        if run.patch is None:
            return VERBS[run.verb].change(letter, now, run.by, run.reason)
        if run.verb == REDRIVE.name:
            REDRIVE.change(letter, now, run.by, run.reason)  # raises what it would raise without a patch
        return edited(letter, edit_of(run), now, backoffs=desk.backoffs, check=desk.intake.check_size)

    async def prepare(
        self, run: BulkRun, before: Sequence[DeadLetter], after: Sequence[DeadLetter]
    ) -> Sequence[MahavishnuError | None]:
        """What plugins object to, and what the letters were is kept, where their tasks are edited."""
        if run.patch is None:
            return [None] * len(before)
        problems: list[MahavishnuError | None] = [await self.objection(letter) for letter in after]
        fine = [place for place, problem in enumerate(problems) if problem is None]
        kept = await keep_revisions(self._desk.store.collection(REVISIONS), [before[place] for place in fine])
        for place, problem in zip(fine, kept, strict=True):
            problems[place] = problem
        return problems

    async def objection(self, letter: DeadLetter) -> InvalidInput | None:
        """What plugins have against the task."""
        why = await objection(self._desk.chain, letter, self._desk.clock.now())
        return InvalidInput(f"the task cannot be that: {why}") if why else None

    def moved(self, run: BulkRun, letter: DeadLetter) -> None:
        """Tell it as if a person had done it to this letter alone."""
        detail = {"by": run.by, "notes": run.reason, "run_id": run.run_id}
        if run.patch is not None:
            self._desk._tell(EventName.EDITED, letter, changed=["task"], **detail)
        if run.verb in VERBS:
            self._desk._tell(VERBS[run.verb].event, letter, was_open=True, **detail)

    def changed(self, run: BulkRun, event: EventName = EventName.RUN_CHANGED, **detail: Any) -> None:
        """Tell how far the run is."""
        told = {"run_id": run.run_id, "verb": run.verb, "state": str(run.state), "by": run.by, **asdict(run.counts)}
        if run.halted_because:
            told["halted_because"] = run.halted_because
        self._desk._heard(Event(event, self._desk.clock.now(), None, {**told, **detail}))

    @asynccontextmanager
    async def halting(self, run: BulkRun, why: str) -> AsyncIterator[object]:
        """Audit it."""
        async with self._desk._audited("run.halt", f"run:{run.run_id}", by=STOP_RULE, reason=why, via="rule") as record:
            record.noted(**asdict(run.counts))
            yield record


def edit_of(run: BulkRun) -> Edit:
    """What a run with a patch changes."""
    return Edit({}, run.patch, run.verb == REDRIVE.name)


def known(verb: str, patch: Any, *, redrive: bool) -> tuple[str, Edit | None]:
    """The verb and its patch, as they are kept: to edit and redrive is a redrive with a patch. Raises InvalidInput."""
    if verb not in (*VERBS, EDIT):
        raise InvalidInput(f"a run cannot {verb!r:.80}; it can {', '.join((*VERBS, EDIT))}")
    if redrive and verb not in (EDIT, REDRIVE.name):
        raise InvalidInput(f"redrive goes with an edit, not with {verb!r}")
    if verb == EDIT and patch is None:
        raise InvalidInput("an edit needs a patch: an object with what is to change in the tasks, null to remove")
    if verb not in (EDIT, REDRIVE.name) and patch is not None:
        raise InvalidInput(f"a patch goes with an edit or a redrive, not with {verb!r}")
    name = REDRIVE.name if redrive else verb
    return name, None if patch is None else Edit.of({}, patch)
