"""The kinds of records of live workers, and of the limits of adapters."""

from __future__ import annotations

from mahavishnu.stores.kind import BLOB
from mahavishnu.stores.record_codec import record_kind
from mahavishnu.workers.rules import AdapterLimit, Worker

WORKERS = record_kind(
    Worker,
    name="workers",
    index="dlq_workers",
    types=dict.fromkeys(("queues", "adapters", "takes_all", "remote", "host", "pid", "mark", "ended", "every"), BLOB),
)
LIMITS = record_kind(
    AdapterLimit,
    name="adapter_limits",
    index="dlq_adapter_limits",
    types=dict.fromkeys(("concurrency", "rate", "set_by", "set_at", "next_at"), BLOB),
)
