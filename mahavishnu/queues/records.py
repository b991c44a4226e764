"""The kind of records of named queues."""

from __future__ import annotations

from mahavishnu.queues.rules import QueueDefinition
from mahavishnu.stores.record_codec import record_kind

QUEUES = record_kind(QueueDefinition, name="queues", index="dlq_queues", indexes=(("namespace", "name"),))
