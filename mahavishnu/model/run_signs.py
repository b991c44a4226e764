"""Signs of life of tracked runs: without them nobody can tell a long run from one whose process died."""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime, timedelta

from mahavishnu.model.task_states import ACTIVE
from mahavishnu.model.tasks import TaskRecord

LIVES = timedelta(minutes=5)  # after its last sign of life a run that is tracked counts as running
SIGN = timedelta(minutes=1)  # between the signs of a run; `LIVES` has room for several that do not come
_WATCHED = 100_000  # silent runs whose signs are remembered


def lives(task: TaskRecord, now: datetime) -> bool:
    """Whether a run of the task is under way for all that is known: it gave a sign of life not long ago."""
    if task.run is None or task.state not in ACTIVE:
        return False
    return not is_silent_for(task, now, LIVES)


def is_silent_for(task: TaskRecord, now: datetime, time: timedelta) -> bool:
    """Whether the last sign of life is longer ago than this."""
    return now - max(task.state_entered_at, task.alive_at or task.state_entered_at) > time


def signs(task: TaskRecord) -> bool:
    """Whether a run has the task that gives signs of life: once they stop, its process has died."""
    return task.run is not None and task.alive_at is not None and task.state in ACTIVE


class SignWatch:
    """Sees whether runs live, whatever their clocks say: a sign that has not changed for long enough is their end."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, tuple[tuple[object, ...], float]] = OrderedDict()

    def is_over(self, task: TaskRecord, monotonic: float) -> bool:
        """Whether no sign of life came since a look that is longer ago than `LIVES`."""
        sign = (task.run, task.alive_at, task.transition_count)
        seen = self._seen.pop(task.task_id, None)
        if seen is None or seen[0] != sign:
            seen = sign, monotonic
        self._seen[task.task_id] = seen
        while len(self._seen) > _WATCHED:  # those that nobody has asked about for longest have mostly ended
            self._seen.popitem(last=False)
        return monotonic - seen[1] > LIVES.total_seconds()
