"""What a bulk run would do now: by reading the letters, or by counting them where there are many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mahavishnu.bulk.members import meant, members, reason_of
from mahavishnu.bulk.verbs import RunVerbs
from mahavishnu.model.bulk_run import BUSY, BulkRun
from mahavishnu.model.errors import IllegalMove, MahavishnuError, StoreUnavailable
from mahavishnu.model.letter import DeadLetter, evolve
from mahavishnu.model.letter_parts import DeadLetterStatus, Resolution, ResolutionStatus
from mahavishnu.model.query import Is, Query, query_from_json
from mahavishnu.stores.base import Collection

READ = 1000  # letters that are read before the others are counted
_SAMPLES = 5


@dataclass(frozen=True, slots=True)
class RunPreview:
    """What a run would do now: how many letters are meant, how many it could move, and why not the others.

    `samples` are some that it could move, as they are. `ramp` are the sizes of the first waves; no ramp: all at once.
    """

    matched: int
    eligible: int
    ineligible: dict[str, int]
    samples: tuple[DeadLetter, ...] = ()
    ramp: tuple[int, ...] = ()


async def previewed(letters: Collection[DeadLetter], run: BulkRun, verbs: RunVerbs) -> RunPreview:
    """What the run would do. Raises StoreUnavailable where not every letter that is meant can be seen."""
    view = _View(letters, run, verbs)
    async for found, corrupt in members(letters, view.query, run.created_at):
        view.matched += len(found) + len(corrupt)
        view.ineligible.update(str(problem) for problem in corrupt)
        await view.read(found)
        if found and view.matched >= READ and verbs.decides_by_state(run):
            await view.count(found[0])
            break
    eligible = view.matched - view.ineligible.total()
    return RunPreview(view.matched, eligible, dict(view.ineligible.most_common()), tuple(view.samples), run.ramp)


class _View:
    """What is known so far of what the run would do."""

    def __init__(self, letters: Collection[DeadLetter], run: BulkRun, verbs: RunVerbs) -> None:
        self.query = query_from_json(run.query.value)
        self.matched = 0
        self.ineligible = Counter[str]()
        self.samples: list[DeadLetter] = []
        self._letters = letters
        self._run = run
        self._verbs = verbs

    async def read(self, found: Iterable[DeadLetter]) -> None:
        """Ask the verb about each of these letters."""
        for letter in found:
            after = self._after(letter)
            if isinstance(after, DeadLetter) and self._run.patch is not None:
                why = await self._verbs.objection(after)
                after = after if why is None else reason_of(why, letter.key)
            if isinstance(after, str):
                self.ineligible[after] += 1
            elif len(self.samples) < _SAMPLES:
                self.samples.append(letter)

    async def count(self, some: DeadLetter) -> None:
        """Ask it about one letter of each state, and count them: for verbs that decide by nothing else.

        `some` stands in for all. Letters that cannot be read are counted as what they were written as.
        """
        chosen = meant(self.query, self._run.created_at)
        tally = await self._letters.tally(chosen, ["status", "resolution_status"])
        if tally.degraded:
            raise StoreUnavailable(f"not every letter that is meant can be seen now: {tally.degraded}")
        self.matched, self.ineligible = tally.total.count, Counter()
        fine: list[tuple[str, str]] = []
        for (status, resolution), cell in tally.cells.items():
            try:
                ended = Resolution(ResolutionStatus(resolution))
                after = self._after(evolve(some, status=DeadLetterStatus(status), resolution=ended))
            except ValueError as problem:  # a newer version wrote it
                after = str(problem)
            if isinstance(after, str):
                self.ineligible[after] += cell.count
            else:
                fine.append((status, resolution))
        if fine and len(self.samples) < _SAMPLES:
            self.samples.clear()
            await self.sample(chosen, fine)

    async def sample(self, chosen: Query, states: Sequence[tuple[str, str]]) -> None:
        """Find some letters in these states."""
        statuses, resolutions = map(tuple, zip(*states, strict=True))
        where = (*chosen.where, Is("status", statuses), Is("resolution_status", resolutions))
        page = await self._letters.find(Query(where, chosen.sort, _SAMPLES))
        self.samples += [letter for letter in page.items if isinstance(self._after(letter), DeadLetter)]

    def _after(self, letter: DeadLetter) -> DeadLetter | str:
        """The letter after its move, or why that cannot be."""
        try:
            return self._verbs.change(self._run, letter)
        except MahavishnuError as problem:
            waits = isinstance(problem, IllegalMove) and letter.status is DeadLetterStatus.RETRYING
            return BUSY if waits else reason_of(problem, letter.key)
