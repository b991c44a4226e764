"""Saved views of a namespace: stored, shared, and changed by compare-and-set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mahavishnu.model.errors import ChangedMeanwhile, NoSuchView
from mahavishnu.model.query import Query, Sort, require_namespace
from mahavishnu.search.records import VIEWS
from mahavishnu.search.rules import SavedView, require_view, require_view_name, view_key
from mahavishnu.stores.base import get_one, scan, write_with_retry

if TYPE_CHECKING:
    from mahavishnu.engine.context import QueueContext

_IN_ORDER = Query(sort=(Sort("place"), Sort("name")))


class Views:
    """The saved views of one namespace; those of `*` are only listed. All methods raise StoreError.

    >>> import asyncio
    >>> from mahavishnu.core.dead_letter_queue import DeadLetterQueue
    >>> async def main():
    ...     async with DeadLetterQueue() as dlq:
    ...         await dlq.views.save("Old orders", "adapter:orders age>1d", by="ann")
    ...         return [view.text for view in await dlq.views.list()]
    >>> asyncio.run(main())
    ['adapter:orders age>1d']
    """

    def __init__(self, context: QueueContext) -> None:
        self._context, self._namespace = context, context.namespace
        self._records = context.records(VIEWS)

    async def save(
        self,
        name: str,
        text: str,
        *,
        by: str,
        sort: str = "newest",
        place: int = 0,
        base: SavedView | None = None,
        new: bool = False,
    ) -> SavedView:
        """Save a query under a name, in the place of any other with the name.

        With `base`, the view as it was read, one that was saved or deleted since then raises ChangedMeanwhile; with
        `new`, so does any that is there. Raises InvalidInput, and InvalidQueryText for a text that means nothing.
        """
        now = self._context.clock.now()
        require_view(name, text, sort, place, now)
        namespace = require_namespace(self._namespace)
        async with self._context.audit.record("view.save", f"view:{name}", by=by) as record:

            def change(current: SavedView | None) -> SavedView:
                self._refuse_changed(name, current, base, new=new)
                created, version = (current.created_at, current.version) if current else (now, None)
                return SavedView(name, text, by, created, now, sort, place, namespace, version)

            before, after = await write_with_retry(self._records, view_key(namespace, name), change, what="view")
            assert after is not None
            record.add_change(before.to_dict() if before else None, after.to_dict())
        return after

    async def get(self, name: str) -> SavedView:
        """Return one view. Raises NoSuchView."""
        await self._context.open()
        key = view_key(require_namespace(self._namespace), require_view_name(name))
        if (found := await get_one(self._records, key)) is None:
            raise NoSuchView(name)
        return found

    async def list(self) -> list[SavedView]:
        """Return all of them, in their order."""
        await self._context.open()
        return [view async for view in scan(self._records, _IN_ORDER)]

    async def delete(self, name: str, *, by: str, base: SavedView | None = None) -> SavedView:
        """Delete a view; return what it was. Raises NoSuchView, ChangedMeanwhile where it is not `base` any more."""
        async with self._context.audit.record("view.delete", f"view:{name}", by=by) as record:
            while True:  # each turn lost means that somebody else has saved it
                current = await self.get(name)
                self._refuse_changed(name, current, base)
                (removed,) = await self._records.remove([current])
                if removed is True:
                    break
                if removed is not False:
                    raise removed
            record.add_change(current.to_dict(), None)
        return current

    def _refuse_changed(
        self, name: str, current: SavedView | None, base: SavedView | None, *, new: bool = False
    ) -> None:
        if new and current is not None:
            why = f"saved by {current.saved_by} at {current.saved_at.isoformat()}"
            raise ChangedMeanwhile(name, "save", "saved", why, what="view")
        if base is not None and (current is None or current.version != base.version):
            why = f"saved by {current.saved_by} at {current.saved_at.isoformat()}" if current else "deleted"
            raise ChangedMeanwhile(name, "save", "saved" if current else "deleted", why, what="view")
