"""The kind of records of named queues."""

from __future__ import annotations

from mahavishnu.queues.rules import QueueDefinition
from mahavishnu.stores.dataclass_codec import dataclass_kind

QUEUES = dataclass_kind(QueueDefinition, name="queues", index="dlq_queues", indexes=(("namespace", "name"),))
