"""What a store may be able to do besides: take away a kind that has a place of its own, as a whole."""

from __future__ import annotations

from typing import Any, Protocol, cast

from mahavishnu.model.errors import InvalidInput
from mahavishnu.stores.base import Store
from mahavishnu.stores.kind import Kind


class PartitionedStore(Protocol):
    """A store that can do so with kinds that have a `partition`. Doing it twice is doing it once."""

    async def detach(self, kind: Kind[Any]) -> str:
        """Let go of the place, so that others can move it away or switch it off. Returns where it is, in words."""
        ...

    async def attach(self, kind: Kind[Any]) -> None:
        """Use the place again. Raises StoreUnavailable if it is not there."""
        ...

    async def drop(self, kind: Kind[Any]) -> None:
        """Remove the place with all that is in it."""
        ...


def require_partitions(store: Store) -> PartitionedStore:
    """The store as one that has partitions. Raises InvalidInput."""
    if not all(hasattr(store, name) for name in ("detach", "attach", "drop")):
        raise InvalidInput(f"{store!r} cannot take a part of what it keeps away")
    return cast("PartitionedStore", store)
