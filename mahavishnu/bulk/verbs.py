"""What bulk runs can do to letters, and whom they tell."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

from mahavishnu.classify.assess import Assessor
from mahavishnu.engine.context import QueueContext
from mahavishnu.engine.edits import Edit, edited
from mahavishnu.engine.verbs import ARCHIVE, CANCEL, FAIL, REDRIVE, RESOLVE, Verb
from mahavishnu.model import lifecycle
from mahavishnu.model.bulk_run import BulkRun, summary
from mahavishnu.model.errors import InvalidInput, MahavishnuError
from mahavishnu.model.events import Event, EventName
from mahavishnu.model.letter import DeadLetter
from mahavishnu.stores.revisions import keep_revisions

# Who halts a run: where too many letters fail again; where it cannot be carried on.
STOP_RULE, HALT_ON_ERROR = "stop_rule", "halt_on_error"
RUNNER = "runner"  # who ends one where everything is done


Change = Callable[[QueueContext, BulkRun, DeadLetter], DeadLetter]


def _by_hand(verb: Verb) -> Change:
    return lambda context, run, letter: verb.change(letter, context.clock.now(), run.by, run.reason)


def _edit(context: QueueContext, run: BulkRun, letter: DeadLetter) -> DeadLetter:
    edit = Edit({}, run.patch, run.verb == REDRIVE.name)
    return edited(letter, edit, context.clock.now(), backoffs=context.backoffs, check=context.letter_factory.check_size)


def _redrive(context: QueueContext, run: BulkRun, letter: DeadLetter) -> DeadLetter:
    redriven = REDRIVE.change(
        letter, context.clock.now(), run.by, run.reason
    )  # raises the same with a patch or without
    return redriven if run.patch is None else _edit(context, run, letter)


def _regroup(context: QueueContext, run: BulkRun, letter: DeadLetter) -> DeadLetter:
    fingerprint = Assessor(context.chain).fingerprint_again(letter)
    if letter.is_open and fingerprint == letter.fingerprint:
        raise InvalidInput("it belongs to the group that it is in")
    return lifecycle.regroup(letter, now=context.clock.now(), fingerprint=fingerprint)


EDIT = "edit"
_SIMPLE = (ARCHIVE, RESOLVE, CANCEL, FAIL)
_BY_STATE = frozenset(verb.name for verb in (REDRIVE, *_SIMPLE))
# What a run can do: the change of each letter, and what is told of it.
VERBS: Mapping[str, tuple[Change, EventName]] = {
    REDRIVE.name: (_redrive, REDRIVE.event),
    **{verb.name: (_by_hand(verb), verb.event) for verb in _SIMPLE},
    EDIT: (_edit, EventName.EDITED),
    "regroup": (_regroup, EventName.EDITED),
}


class RunVerbs:
    """Does for the queue what `mahavishnu.bulk.runner.Verbs` asks for."""

    def __init__(self, context: QueueContext) -> None:
        self._context = context

    def change(self, run: BulkRun, letter: DeadLetter) -> DeadLetter:
        """The letter as the run wants it. Raises IllegalMove, and InvalidInput for a task that cannot be patched."""
        change, _ = VERBS[run.verb]
        return change(self._context, run, letter)

    def decides_by_state(self, run: BulkRun) -> bool:
        """Whether a letter's status and resolution are all that tells if the run can move it."""
        return run.patch is None and run.verb in _BY_STATE

    async def prepare(
        self, run: BulkRun, before: Sequence[DeadLetter], after: Sequence[DeadLetter]
    ) -> Sequence[MahavishnuError | None]:
        """What plugins object to, and what the letters were is kept, where their tasks are edited."""
        if run.patch is None:
            return [None] * len(before)
        problems: list[MahavishnuError | None] = [await self.objection(letter) for letter in after]
        fine = [place for place, problem in enumerate(problems) if problem is None]
        kept = await keep_revisions(self._context.revisions, [before[place] for place in fine])
        for place, problem in zip(fine, kept, strict=True):
            problems[place] = problem
        return problems

    async def objection(self, letter: DeadLetter) -> InvalidInput | None:
        """What plugins have against the task."""
        why = await Assessor(self._context.chain).objection(letter, self._context.clock.now())
        return InvalidInput(f"the task cannot be that: {why}") if why else None

    def moved(self, run: BulkRun, letter: DeadLetter) -> None:
        """Tell it as if a person had done it to this letter alone."""
        detail = {"by": run.by, "notes": run.reason, "run_id": run.run_id}
        _, event = VERBS[run.verb]
        if run.patch is not None:
            self._context.announce(EventName.EDITED, letter, changed=["task"], **detail)
        if run.verb != EDIT:
            self._context.announce(event, letter, was_open=True, **detail)

    def changed(self, run: BulkRun, event: EventName = EventName.RUN_CHANGED, **detail: Any) -> None:
        """Tell how far the run is."""
        told = {"run_id": run.run_id, "verb": run.verb, "state": str(run.state), "by": run.by, **asdict(run.counts)}
        if run.halted_because:
            told["halted_because"] = run.halted_because
        self._context.events.publish(Event(event, self._context.clock.now(), None, {**told, **detail}))

    @asynccontextmanager
    async def halting(self, run: BulkRun, why: str, *, broken: bool) -> AsyncIterator[Callable[[str], object]]:
        """Audit it."""
        rule = HALT_ON_ERROR if broken else STOP_RULE
        async with self._context.audit.record(
            "run.halt", f"run:{run.run_id}", by=rule, reason=why, via="rule"
        ) as record:
            record.add(**asdict(run.counts))
            yield record.refuse

    @asynccontextmanager
    async def finishing(self, run: BulkRun) -> AsyncIterator[Callable[[str], object]]:
        """Audit it, in one entry however often it is begun: who dies in the middle has told the numbers already."""
        async with self._context.audit.record(
            "run.done",
            f"run:{run.run_id}",
            by=RUNNER,
            reason=summary(run),
            via="rule",
            entry_id=f"{run.run_id}-done",
        ) as record:
            record.add(**asdict(run.counts))
            yield record.refuse


def known(verb: str, patch: Any, *, redrive: bool) -> tuple[str, Edit | None]:
    """The verb and its patch, as they are kept: to edit and redrive is a redrive with a patch. Raises InvalidInput."""
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
