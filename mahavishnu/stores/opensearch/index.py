"""One index: created or checked before use, and refreshed so that searches see what this process has written."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from itertools import count
from typing import Any, Generic

from msgspec.structs import replace

from mahavishnu.model.errors import StoreError, StoreMisconfigured, StoreUnavailable
from mahavishnu.model.record import Value
from mahavishnu.stores.kind import Kind, T
from mahavishnu.stores.opensearch.client import Blocked, Client, LoopBound, RequestRejected
from mahavishnu.stores.opensearch.mapping import KEY, REQUIRED_SETTINGS, Documents, Layout, Plan, mapping, plan

log = logging.getLogger(__name__)
_MISSING = "index_not_found_exception"


class Settings(Value, frozen=True):
    """Settings of a new index."""

    shards: int
    replicas: int | None
    refresh_interval: str

    def body(self) -> dict[str, Any]:
        # As many copies as there are nodes for, up to two: one node alone is not degraded for want of a second.
        copies = {"auto_expand_replicas": "0-1"} if self.replicas is None else {"number_of_replicas": self.replicas}
        return {
            "number_of_shards": self.shards,
            "refresh_interval": self.refresh_interval,
            **copies,
            **REQUIRED_SETTINGS,
        }


class IndexIdentity(Value, frozen=True):
    """The identity of an index. One that was dropped and made again, under whatever name, is another index.

    It counts its documents anew, so a version is only worth something in the index that it is from: `mark` is a part of
    every version, and `exact`, an alias that no other index ever has, is where writes that depend on a version go.
    """

    concrete: str = ""  # empty where this user may not look
    exact: str = ""  # empty where this user may not see or give it; then nothing tells two indices apart

    @property
    def mark(self) -> int:
        return int(self.exact.rpartition(".")[2] or "0", 16)


class Index(Generic[T]):
    """The index of a kind, under `name`: an alias of `name-1`, or an older index that has this very name."""

    def __init__(self, client: Client, kind: Kind[T], name: str, settings: Settings) -> None:
        self.client, self.kind, self.name = client, kind, name
        self.layout = Layout()
        self.documents = Documents(kind, self.layout)
        self.identity = IndexIdentity()
        self._settings = settings
        self.ready = False
        self._moved = False
        self._one_at_a_time = LoopBound(asyncio.Lock)
        self._one_refresh = LoopBound(asyncio.Lock)
        self._stamp, self._numbers = secrets.token_hex(6), count()
        self._written, self._refreshed = 1, 0  # who starts anew finds what its predecessor wrote just before

    def new_stamp(self) -> str:
        """A stamp that marks one write of this process, and no other write ever."""
        return f"{self._stamp}-{next(self._numbers)}"

    async def ensure(self) -> bool:
        """Make sure that the index is there and fits; True if it was not known before. Raises StoreMisconfigured."""
        if self.ready and not self._moved:
            return False
        async with self._one_at_a_time.get():
            if not self.ready or self._moved:
                await self.apply_plan(await self.look())
        return True

    async def is_there(self) -> bool:
        """Make the index ready to be read. False where it is missing and its kind is lazy: then it stays so."""
        if self.kind.lazy and not self.ready and await self.look() is None:
            return False
        await self.ensure()
        return True

    def invalidate(self) -> None:
        """Have the next `ensure` look again: the index was dropped or replaced."""
        self.ready = False

    def confirm(self, concrete: str) -> None:
        """Note from which index an answer came: if the name stands for another one now, `ensure` looks again."""
        if self.identity.concrete not in ("", concrete):
            self._moved = True

    async def look(self) -> tuple[Plan, IndexIdentity] | None:
        """Return the plan for the existing index, and its identity; None if there is none."""
        try:
            found = await self.client.ask("GET", f"/{self.name}")
        except RequestRejected as problem:
            if problem.type == _MISSING:
                return None
            raise StoreMisconfigured(f"index {self.name} cannot be looked at: {problem}") from None
        except (StoreMisconfigured, Blocked):
            # A user who may only read has no right to look at the mapping, and a block of the metadata hides it.
            if await self._is_readable():
                return Plan(Layout(), None), IndexIdentity()
            raise
        exact = re.compile(re.escape(self.name) + r"\.[0-9a-f]{12}")
        with self.client.reading():
            if len(names := [*found.keys()]) > 1:
                raise StoreMisconfigured(f"{self.name} stands for several indices ({', '.join(names)}); it must be one")
            ((concrete, described),) = found.items()
            identity = IndexIdentity(concrete, min(filter(exact.fullmatch, described["aliases"]), default=""))
            return plan(self.kind, concrete, described["mappings"], described["settings"]["index"]), identity

    async def apply_plan(self, found: tuple[Plan, IndexIdentity] | None, *, within: float | None = None) -> None:
        """Create or extend the index as `look` found necessary."""
        needed, identity = found or await self._create(within)
        for upgrade in needed.upgrades:
            await upgrade.index(self.client.ask, self.name)
        await self._extend(needed, within)
        if identity.concrete and not identity.exact:
            identity = await self._with_exact(identity, within)
        self.layout, self.identity = needed.layout, identity
        self.documents = Documents(self.kind, needed.layout, identity.mark)
        self.ready, self._moved = True, False

    async def _create(self, within: float | None) -> tuple[Plan, IndexIdentity]:
        """Make the index, and look at what has come of it: templates of the server's users may have changed it."""
        aliases: dict[str, Any] = {self.name: {}, self._new_exact(): {}}
        body = {"settings": self._settings.body(), "mappings": mapping(self.kind), "aliases": aliases}
        refusal: object = "it was deleted at once"
        try:
            await self.client.ask("PUT", f"/{self.name}-1", body, within=within)
        except RequestRejected as problem:
            if problem.type != "resource_already_exists_exception":  # another process was faster
                raise StoreMisconfigured(f"index {self.name}-1 cannot be made: {problem}") from None
            refusal = problem
        if (found := await self.look()) is None:
            raise StoreMisconfigured(f"index {self.name}-1 cannot be made: {refusal}")
        return found

    def _new_exact(self) -> str:
        return f"{self.name}.{secrets.token_hex(6)}"

    async def _with_exact(self, identity: IndexIdentity, within: float | None) -> IndexIdentity:
        exact = self._new_exact()
        try:
            await self.client.ask("PUT", f"/{identity.concrete}/_alias/{exact}", within=within)
        except (RequestRejected, StoreError) as problem:
            log.info(
                "index %s works, but would not be told from another one of its name: %s", identity.concrete, problem
            )
            return identity
        return replace(identity, exact=exact)

    async def _extend(self, needed: Plan, within: float | None) -> None:
        for what, change in (("settings", needed.settings), ("mapping", needed.extension)):
            try:
                if change:
                    await self.client.ask("PUT", f"/{self.name}/_{what}", change, within=within)
            except RequestRejected as problem:
                raise StoreMisconfigured(f"the {what} of {self.name} cannot be extended: {problem}") from None
        if needed.extension and KEY in needed.extension.get("properties", {}):
            await self._index_older_documents()

    async def _index_older_documents(self) -> None:
        """Index older documents by the new fields too, in the background: lists are sorted by the key field."""
        body = {
            "query": {"bool": {"must_not": {"exists": {"field": KEY}}}},
            "script": {"source": f"ctx._source.{KEY} = ctx._id"},
        }
        parameters = {"conflicts": "proceed", "wait_for_completion": "false"}
        try:
            await self.client.ask("POST", f"/{self.name}/_update_by_query", body, parameters)
        except (RequestRejected, StoreError) as problem:
            log.warning("documents that were in %s before cannot all be listed: %s", self.name, problem)

    async def _is_readable(self) -> bool:
        try:
            await self.client.ask("POST", f"/{self.name}/_search", {"size": 0})
        except (StoreMisconfigured, RequestRejected):
            return False
        return True

    def mark_dirty(self) -> None:
        """Note that there may be writes that searches do not see yet."""
        self._written += 1

    async def refresh(self) -> None:
        """Let searches see what this process has written. Waiters share a request that began after their writes."""
        wanted = self._written
        if self._refreshed >= wanted:
            return
        async with self._one_refresh.get():
            if self._refreshed < wanted:
                started = self._written
                try:
                    answer = await self.client.ask("POST", f"/{self.name}/_refresh")
                    with self.client.reading():
                        failed = answer["_shards"]["failed"]
                    if failed:
                        raise StoreUnavailable(f"{self.name}: {failed} shards could not be refreshed")
                except StoreMisconfigured:
                    if started > 1:  # else a user who may only read has written nothing
                        raise
                self._refreshed = started


# ------------------------------------------------------ indices of partitions: closed, opened and deleted as a whole


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
