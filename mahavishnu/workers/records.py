"""The kind of records of live workers."""

from __future__ import annotations

from mahavishnu.stores.dataclass_codec import dataclass_kind
from mahavishnu.stores.kind import BLOB
from mahavishnu.workers.rules import Worker

WORKERS = dataclass_kind(
    Worker,
    name="workers",
    index="dlq_workers",
    types=dict.fromkeys(("queues", "adapters", "takes_all", "remote", "host", "pid", "mark", "ended", "every"), BLOB),
)
