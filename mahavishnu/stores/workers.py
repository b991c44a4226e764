"""Who is working on the letters: a record for each live worker, renewed as long as it lives."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from mahavishnu.model.letter_parts import Version
from mahavishnu.stores.plain import plain_kind


@dataclass(frozen=True, slots=True)
class Worker:
    """A processor that takes letters; it was alive at `seen_at`."""

    name: str
    started_at: datetime
    seen_at: datetime
    version: Version | None = field(default=None, compare=False)

    @property
    def key(self) -> str:
        return self.name


WORKERS = plain_kind(Worker, name="workers", index="dlq_workers")
