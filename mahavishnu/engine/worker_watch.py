"""Watches the list of workers, so that no clock of another machine decides alone who lives."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from mahavishnu.model.clock import Clock
from mahavishnu.model.errors import StoreError
from mahavishnu.model.ids import new_entry_id
from mahavishnu.model.query import Query, Sort
from mahavishnu.model.worker import Worker
from mahavishnu.model.worker_watch import WorkerSighting, is_alive, next_sighting
from mahavishnu.stores.base import Collection

_MOST_WORKERS = 10_000
_LATEST_FIRST = Query(sort=(Sort("seen_at", descending=True),), limit=_MOST_WORKERS)


class WorkerWatch:
    """Remembers since when each worker's last sign of life stands on the list, as this process saw it."""

    def __init__(self, workers: Collection[Worker], clock: Clock) -> None:
        """`workers` are those of all namespaces."""
        self._workers, self._clock = workers, clock
        self._sightings: dict[str, WorkerSighting] = {}
        self._listed: Sequence[Worker] = ()
        self._looked_at: float | None = None

    async def look(self, at_most_old: float = 0.0) -> Sequence[Worker] | None:
        """All that stand on the list, whether or not they live; None while the whole list cannot be read.

        What was read less than `at_most_old` seconds ago is not read again. Raises StoreError.
        """
        now = self._clock.monotonic()
        if self._looked_at is not None and now - self._looked_at < at_most_old:
            return self._listed
        try:
            page = await self._workers.find(_LATEST_FIRST)
        except StoreError:
            self._forget()
            raise
        if page.degraded:
            self._forget()
            return None
        now = self._clock.monotonic()
        self._sightings = {
            worker.key: next_sighting(worker, self._sightings.get(worker.key), now) for worker in page.items
        }
        self._listed, self._looked_at = page.items, now
        return page.items

    def is_alive(self, worker: Worker, skew: timedelta) -> bool | None:
        """Whether this worker of the list lives; None where that cannot be told."""
        now = self._clock.monotonic()
        sighting = self._sightings.get(worker.key) or next_sighting(worker, None, now)
        return is_alive(worker, sighting, self._clock.now(), now, mark=new_entry_id.mark, skew=skew)

    def _forget(self) -> None:
        """Begin anew: who could not read the list does not know whether others could sign it."""
        self._sightings, self._listed, self._looked_at = {}, (), None
