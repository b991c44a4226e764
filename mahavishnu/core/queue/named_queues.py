"""Named queues: work that has not failed yet, or has, for workers that lease it; and dead queues for what died."""

from __future__ import annotations

import builtins
from typing import Any

from mahavishnu.core.queue.queue_definitions import QueueDefinitions
from mahavishnu.engine.context import DEFAULT_ACTOR, QueueContext
from mahavishnu.model.queues import QueueDefinition


class NamedQueues:
    """The queues of a namespace.

    >>> await dlq.queues.create("orders", dead_queue="orders-dead", max_attempts=2)  # doctest: +SKIP
    """

    def __init__(self, context: QueueContext) -> None:
        self._definitions = QueueDefinitions(context)

    async def create(
        self, name: str, *, by: str = DEFAULT_ACTOR, notes: str | None = None, **options: Any
    ) -> QueueDefinition:
        """Define a queue: `dead_queue`, `retry`, `max_attempts` … see `QueueDefinition`.

        Raises InvalidOption for what cannot be, and if there is a queue of this name.
        """
        return await self._definitions.create(name, options, by, notes)

    async def update(
        self, name: str, *, by: str = DEFAULT_ACTOR, notes: str | None = None, **options: Any
    ) -> QueueDefinition:
        """Change these options; the others stay. What is decided from now on is decided by the new ones.

        Raises NoSuchQueue and InvalidOption.
        """
        return await self._definitions.update(name, options, by, notes)

    async def get(self, name: str) -> QueueDefinition:
        """The definition as it is now. Raises NoSuchQueue."""
        return await self._definitions.get(name)

    async def list(self) -> builtins.list[QueueDefinition]:
        """All queues of the namespace, by name."""
        return await self._definitions.list()

    async def delete(
        self, name: str, *, force: bool = False, by: str = DEFAULT_ACTOR, notes: str | None = None
    ) -> QueueDefinition:
        """Delete the definition; items stay where they are. Raises NoSuchQueue.

        Raises InvalidOption if it is the dead queue of others, unless `force`, which takes it away from them.
        """
        return await self._definitions.delete(name, force=force, by=by, notes=notes)
