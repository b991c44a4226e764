"""The kinds of records that queues, tracked tasks and what is made of them need; an app without them keeps none."""

from __future__ import annotations

from typing import Any

from mahavishnu.model.queues import QueueDefinition
from mahavishnu.stores.dataclass_codec import dataclass_kind
from mahavishnu.stores.kind import Kind
from mahavishnu.stores.kinds import KINDS

QUEUES = dataclass_kind(QueueDefinition, name="queues", index="dlq_queues", indexes=(("namespace", "name"),))

STORED: tuple[Kind[Any], ...] = (*KINDS, QUEUES)
