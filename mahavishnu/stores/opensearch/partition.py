"""Indices of partitions: closed, opened and deleted as a whole."""

from __future__ import annotations

from typing import Any

from mahavishnu.model.errors import StoreMisconfigured, StoreUnavailable
from mahavishnu.stores.opensearch.errors import RequestRejected
from mahavishnu.stores.opensearch.index import Index

_MISSING = "index_not_found_exception"


async def switch_index(index: Index[Any], *, on: bool) -> None:
    """Open or close the index. Raises StoreUnavailable if it is to be opened and is not there."""
    verb = "_open" if on else "_close"
    try:
        await index.client.ask("POST", f"/{index.name}/{verb}")
    except RequestRejected as problem:
        if problem.type != _MISSING:
            raise StoreMisconfigured(f"index {index.name}: {verb} is refused: {problem}") from None
        if on:
            raise StoreUnavailable(f"index {index.name} is not there: restore it from its snapshot first") from None
    index.invalidate()


async def drop_index(index: Index[Any]) -> None:
    """Delete the index, whatever its name stands for now."""
    found = await index.look()
    if found is not None:
        _, identity = found
        try:
            await index.client.ask("DELETE", f"/{identity.concrete or index.name}")
        except RequestRejected as problem:
            if problem.type != _MISSING:
                raise StoreMisconfigured(f"index {index.name} cannot be deleted: {problem}") from None
    index.invalidate()
