"""Who is working on the letters: a record for each live worker, renewed as long as it lives."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import attrgetter
from typing import Any

from mahavishnu.model.clock import instant_text
from mahavishnu.model.errors import CorruptRecord
from mahavishnu.model.letter import Version
from mahavishnu.stores.schema import Field, FieldType, Kind


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


def _encode(worker: Worker) -> str:
    started, seen = instant_text(worker.started_at), instant_text(worker.seen_at)
    return json.dumps({"name": worker.name, "started_at": started, "seen_at": seen})


def _decode(document: Mapping[str, Any], version: Version) -> Worker:
    try:
        started, seen = (datetime.fromisoformat(document[name]) for name in ("started_at", "seen_at"))
        return Worker(str(document["name"]), started, seen, version)
    except (KeyError, TypeError, ValueError) as problem:
        raise CorruptRecord(str(document.get("name")), str(problem)) from problem


WORKERS: Kind[Worker] = Kind(
    name="workers",
    index="dlq_workers",
    encode=_encode,
    decode=_decode,
    versioned=lambda worker, version: replace(worker, version=version),
    fields=(
        Field("name", FieldType.KEYWORD, attrgetter("name")),
        Field("started_at", FieldType.DATE, attrgetter("started_at")),
        Field("seen_at", FieldType.DATE, attrgetter("seen_at")),
    ),
)
