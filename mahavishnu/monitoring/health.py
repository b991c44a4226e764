"""The health of a queue's store, with the failures that wait outside of it."""

from __future__ import annotations

from dataclasses import replace

from mahavishnu.engine.context import QueueContext
from mahavishnu.model.errors import StoreError
from mahavishnu.stores.base import Health


async def store_health(context: QueueContext) -> Health:
    """Return the store's health: degraded also while failures of this namespace are outside of it. Never raises."""
    try:
        await context.open()
    except StoreError as problem:
        health = Health("down", str(problem))
    else:
        health = await context.store.health()
    waiting = context.waiting
    problems = [
        f"{count} failures are {where}"
        for count, where in (
            (len(waiting.own_in_memory()), "in this process's memory only, because the store could not take them"),
            (len(waiting.own_files()), "in files beside the store, because the store could not take them"),
            (
                len(waiting.files.unreadable()),
                f"in files in {waiting.files.folder} that cannot be read: look there",
            ),
        )
        if count
    ]
    if not problems:
        return health
    status = "degraded" if health.status == "ok" else health.status
    return replace(health, status=status, detail="; ".join(filter(None, [*problems, health.detail])))
