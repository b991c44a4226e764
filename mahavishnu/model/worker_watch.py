"""Whether a worker lives, whatever the clocks of the machines say.

A worker signs a list every few seconds, with the time of its own clock. Another machine's clock may differ, so who
looks at the list again and again judges by what changes there while his own monotonic clock goes on. Who looks once can
only compare clocks: he allows for a difference, and where that is not enough, he does not know.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from mahavishnu.model.letter_parts import Version
from mahavishnu.model.worker import Worker


@dataclass(frozen=True, slots=True)
class WorkerSighting:
    """A sign of life: since when it was seen, on the monotonic clock of who looks, and when its former one was last."""

    seen_at: datetime
    version: Version | None
    since: float
    last: float
    former_at: float | None = None  # the sign was given after that


def next_sighting(worker: Worker, former: WorkerSighting | None, monotonic: float) -> WorkerSighting:
    """What is known after one more look, in which the worker stood on the list like this."""
    if former is None:
        return WorkerSighting(worker.seen_at, worker.version, monotonic, monotonic)
    if (former.seen_at, former.version) == (worker.seen_at, worker.version):
        return replace(former, last=monotonic)
    return WorkerSighting(worker.seen_at, worker.version, monotonic, monotonic, former.last)


def is_alive(
    worker: Worker, sighting: WorkerSighting, now: datetime, monotonic: float, *, mark: str, skew: timedelta
) -> bool | None:
    """Whether the worker lives; None where that cannot be told. `mark` is that of this machine's clock.

    On one clock its last sign of life says it. On another one, a sign that was seen to come is one, and one that was
    seen to stay away is its end. Of a sign that was seen once, the age may be wrong by `skew`; one that lies further in
    the future says nothing.
    """
    if worker.ended:
        return False
    if monotonic - sighting.since > worker.lives_seconds:
        return False
    if sighting.former_at is not None and monotonic - sighting.former_at <= worker.lives_seconds:
        return True
    age, lives = now - worker.seen_at, timedelta(seconds=worker.lives_seconds)
    if mark and worker.mark == mark:
        return age <= lives
    if age > lives + skew:
        return False if sighting.former_at is None else None
    return True if age >= -skew else None
