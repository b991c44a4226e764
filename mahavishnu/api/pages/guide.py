"""A first fix, shown step by step to people who see the console for the first time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mahavishnu.model.bulk_run import BulkRun, RunState
from mahavishnu.model.group import GroupView


@dataclass(frozen=True, slots=True)
class FirstFix:
    """A cause that is known beforehand, by words of its title, and the change of the task that mends it."""

    cause: str
    path: str
    value: str  #: as JSON


@dataclass(frozen=True, slots=True)
class Guide:
    """How far somebody is with a first fix. `group` is None when no letter of the cause is open any more."""

    fix: FirstFix
    group: GroupView | None
    run: BulkRun | None

    @property
    def halted(self) -> bool:
        """Whether the change that was tried was not the right one."""
        return self.run is not None and self.run.state is RunState.HALTED


def guide_to(fix: FirstFix, groups: Iterable[GroupView], runs: Sequence[BulkRun]) -> Guide:
    """How far this fix is, as the open groups and the runs under way tell, of which the newest comes first."""
    group = next((each for each in groups if each.count and fix.cause in (each.title or "")), None)
    return Guide(fix, group, runs[0] if runs and group is not None else None)
