"""What a bulk run would do now: by reading the letters, or by counting them where there are many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from mahavishnu.bulk.members import RunVerb, find_members, member_query, refusal_reason
from mahavishnu.bulk.run import BUSY, BulkRun
from mahavishnu.engine.context import QueueContext
from mahavishnu.model.errors import IllegalMove, InvalidInput, MahavishnuError, StoreUnavailable
from mahavishnu.model.json_value import Difference, difference, has_path, patch_paths, pointer, refuse_unknown_paths
from mahavishnu.model.letter import DeadLetter, evolve
from mahavishnu.model.letter_parts import DeadLetterStatus, Resolution, ResolutionStatus
from mahavishnu.model.query import Is, Query, query_from_json

READ = 1000  # letters that are read one by one before the rest is counted
_SAMPLES = 5


@dataclass(frozen=True, slots=True)
class RunPreview:
    """A preview of a run: how many letters match, how many it could move, and why not the others.

    `samples` are some letters that it could move, and `changes` is what a patch would do to their tasks.
    `unknown_paths` are the places of the patch that none of the letters has, as JSON pointers. `refused` says why the
    run would not be started: it may make such places only with `create`. `ramp` are the sizes of the first waves;
    empty: all at once.
    """

    matched: int
    eligible: int
    ineligible: dict[str, int]
    samples: tuple[DeadLetter, ...] = ()
    ramp: tuple[int, ...] = ()
    changes: tuple[SampleChange, ...] = ()
    unknown_paths: tuple[str, ...] = ()
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class SampleChange:
    """The changes of a patch in the task of one letter."""

    key: str
    diff: list[Difference]


async def preview_run(context: QueueContext, run: BulkRun, *, create: bool) -> RunPreview:
    """Return what the run would do. Raise StoreUnavailable unless every matching letter can be seen."""
    preview = _Preview(context, run)
    async for found, corrupt in find_members(context.letters, preview.query, run.created_at):
        preview.matched += len(found) + len(corrupt)
        preview.ineligible.update(str(problem) for problem in corrupt)
        for letter in found:
            await preview.read_one(letter)
        if found and preview.matched >= READ and preview.verb.depends_on_state_only:
            await preview.count(found[0])
            break
    eligible = preview.matched - preview.ineligible.total()
    refused = None
    if not create:
        try:
            preview.refuse_unknown_paths(eligible)
        except InvalidInput as problem:
            refused = str(problem)
    return RunPreview(
        preview.matched,
        eligible,
        dict(preview.ineligible.most_common()),
        tuple(preview.samples),
        run.ramp,
        tuple(preview.changes),
        tuple(pointer("task", *path) for path in preview.unknown_paths) if eligible else (),
        refused,
    )


async def refuse_unknown_places(context: QueueContext, run: BulkRun) -> None:
    """Raise InvalidInput if none of the letters that the run could move has some place of its patch.

    Read letters until each place was seen. Raise StoreUnavailable unless every matching letter can be seen.
    """
    preview, eligible = _Preview(context, run), 0
    async for found, _ in find_members(context.letters, preview.query, run.created_at):
        for letter in found:
            eligible += await preview.read_one(letter)
            if not preview.unknown_paths:
                return
    preview.refuse_unknown_paths(eligible)


class _Preview:
    """A preview while it is made."""

    def __init__(self, context: QueueContext, run: BulkRun) -> None:
        self.query = query_from_json(run.query.value)
        self.verb = RunVerb(context, run)
        self.matched = 0
        self.ineligible = Counter[str]()
        self.samples: list[DeadLetter] = []
        self.changes: list[SampleChange] = []
        self.unknown_paths = list(patch_paths(run.patch.value)) if run.patch is not None else []
        self._letters, self._clock, self._sees_payloads = context.letters, context.clock, context.sees_payloads
        self._run = run

    async def read_one(self, letter: DeadLetter) -> bool:
        """Try the verb on this letter. Return whether it can be moved."""
        after = await self._try(letter)
        if isinstance(after, DeadLetter) and self._run.patch is not None:
            why = await self.verb.objection(after)
            after = after if why is None else refusal_reason(why, letter.key)
        if isinstance(after, str):
            self.ineligible[after] += 1
            return False
        self.unknown_paths = [path for path in self.unknown_paths if not has_path(letter.task, path)]
        if len(self.samples) < _SAMPLES:
            self.samples.append(letter)
            if self._run.patch is not None:
                diff = difference({"task": letter.task}, {"task": after.task})
                self.changes.append(SampleChange(letter.key, diff))
        return True

    def refuse_unknown_paths(self, eligible: int) -> None:
        """Raise InvalidInput if none of the letters that were read, so many of them eligible, has some place."""
        if eligible:
            only = f"letter {self.samples[0].key!r} has no"
            which = only if eligible == 1 else f"none of the {eligible} letters has"
            seen = [letter.task for letter in self.samples] if self._sees_payloads else ()
            refuse_unknown_paths(self.unknown_paths, seen, which)

    async def count(self, example: DeadLetter) -> None:
        """Try the verb on one letter of each state, and count the letters in these states.

        `example` stands in for all letters. Unreadable records count by the state that they were written with.
        """
        chosen = member_query(self.query, self._run.created_at)
        tally = await self._letters.tally(chosen, ["status", "resolution_status"])
        if tally.degraded:
            raise StoreUnavailable(f"not every letter that is meant can be seen now: {tally.degraded}")
        self.matched, self.ineligible = tally.total.count, Counter()
        eligible: list[tuple[str, str]] = []
        for (status, resolution), cell in tally.cells.items():
            try:
                ended = Resolution(ResolutionStatus(resolution))
                after = await self._try(evolve(example, status=DeadLetterStatus(status), resolution=ended))
            except ValueError as problem:  # a newer version wrote it
                after = str(problem)
            if isinstance(after, str):
                self.ineligible[after] += cell.count
            else:
                eligible.append((status, resolution))
        if eligible and len(self.samples) < _SAMPLES:
            self.samples.clear()
            await self._find_samples(chosen, eligible)

    async def _find_samples(self, chosen: Query, states: Sequence[tuple[str, str]]) -> None:
        statuses, resolutions = map(tuple, zip(*states, strict=True))
        where = (*chosen.where, Is("status", statuses), Is("resolution_status", resolutions))
        page = await self._letters.find(Query(where, chosen.sort, _SAMPLES))
        self.samples += [letter for letter in page.items if isinstance(await self._try(letter), DeadLetter)]

    async def _try(self, letter: DeadLetter) -> DeadLetter | str:
        """Return the letter after its move, or why it cannot be moved."""
        try:
            return await self.verb.change_unhurried(letter, self._clock.now())
        except MahavishnuError as problem:
            waits = isinstance(problem, IllegalMove) and letter.status is DeadLetterStatus.RETRYING
            return BUSY if waits else refusal_reason(problem, letter.key)
