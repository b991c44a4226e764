"""The definitions of named queues, as they are stored: made, changed, found and deleted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

from mahavishnu.engine.context import DEFAULT_ACTOR, QueueContext
from mahavishnu.model.errors import InvalidOption, MahavishnuError, NoSuchQueue, StoreError, StoreUnavailable
from mahavishnu.model.query import Query, Sort, require_namespace
from mahavishnu.queues import rules
from mahavishnu.queues.records import QUEUES
from mahavishnu.queues.rules import (
    QueueDefinition,
    declared_definition,
    definition_key,
    in_order,
    require_queue_name,
    whole_options,
)
from mahavishnu.stores.base import (
    find_pages,
    get_one,
    is_home_away,
    require_complete,
    update_with_retry,
    write_one,
    write_with_retry,
)

log = logging.getLogger(__name__)
BY_SETTINGS = "settings"  # who has defined what the settings declare
_BY_NAME = Query(sort=(Sort("name"),))


class QueueDefinitions:
    """The definitions of one namespace.

    No dead queue may have a dead queue of its own: a rule over two records. So a queue that names a dead queue marks
    that one first, by compare-and-set, and a marked queue gets no dead queue. When both happen at once, the second to
    write the record between them sees what the first one did.
    """

    def __init__(self, context: QueueContext, home: QueueDefinitions | None = None) -> None:
        """`home` has the definitions of the process itself, where `context` sees a part of them."""
        self._context, self._clock, self._home = context, context.clock, home
        self._records = context.records(QUEUES)
        self._stored: Mapping[str, Mapping[str, Any]] | None = None  # what the settings declared when it was put here
        self._known: dict[str, QueueDefinition] = {}  # as they were read last
        self._putter: asyncio.Task[Any] | None = None
        self._put = asyncio.Event()

    @cached_property
    def namespace(self) -> str:
        """The namespace of these queues. Raises InvalidInput where all namespaces are meant."""
        return require_namespace(self._context.namespace)

    def _key(self, name: str) -> str:
        return definition_key(self.namespace, name)

    async def _open(self) -> None:
        """Open the store, and put changed declared queues there. Log failures; try those of the store again."""
        await self._context.open()
        if self._home is not None:
            await self._home._open()
        if not self._context.is_itself or (declared := self._context.declared_queues()) is self._stored:
            return
        task = asyncio.current_task()
        if task is self._putter or is_home_away(self._context.store):  # a later call puts them there
            return
        if (
            self._putter is not None
            and not self._putter.done()
            and self._putter.get_loop() is asyncio.get_running_loop()
        ):
            await self._put.wait()
            return
        self._putter, self._put = task, asyncio.Event()
        try:
            lost = [name for name in in_order(declared) if not await self._put_one(name, declared[name])]
            self._stored = None if lost else declared
        finally:
            self._put.set()
            self._putter = None

    async def _put_one(self, name: str, options: Mapping[str, Any]) -> bool:
        """Put one declared queue into the store. Return whether the store has answered."""
        try:
            current, whole = await self.find(name), whole_options(options)
            if current is None:
                await self.create(name, whole, BY_SETTINGS)
            elif rules.set_options(current, whole, self._clock.now()) is not current:
                await self.update(name, whole, BY_SETTINGS)
        except StoreError as problem:
            log.error("queue '%s' of the settings could not be put into the store: %s", name, problem)
            return False
        except MahavishnuError as problem:
            log.error("queue '%s' of the settings cannot be: %s", name, problem)
        return True

    async def find(self, name: str) -> QueueDefinition | None:
        """Return the current definition, or None."""
        await self._open()
        return await get_one(self._records, self._key(name)) if self.is_seen(name) else None

    def is_seen(self, name: str) -> bool:
        """Return whether the actor may see the queue of this name, if there is one."""
        scope = self._context.scope
        return scope is None or scope.queues is None or name in scope.queues

    async def get(self, name: str) -> QueueDefinition:
        """Return the current definition. Raise NoSuchQueue."""
        found = await self.find(name)
        if found is None:
            raise NoSuchQueue(name)
        return found

    async def list_known(self) -> Sequence[QueueDefinition]:
        """Return all definitions; while the store is away, those known to this process, or declared by settings."""
        try:
            found = await self.list()
        except StoreError:
            if not is_home_away(self._context.store):
                raise
            return [*self._known_or_declared().values()]
        self._known = {each.name: each for each in found}
        return found

    async def list(self) -> list[QueueDefinition]:
        """Return all definitions of the namespace, by name."""
        await self._open()
        found: list[QueueDefinition] = []
        async for page in find_pages(self._records, _BY_NAME):
            require_complete(page)
            found += [each for each in page.items if self.is_seen(each.name)]
            for problem in page.corrupt:
                log.error("the definition of a queue is left out: %s", problem)
        return found

    async def create(
        self, name: str, options: Mapping[str, Any], by: str = DEFAULT_ACTOR, notes: str | None = None
    ) -> QueueDefinition:
        """Define a queue. Raise InvalidOption, also if there is one of this name."""
        require_queue_name(name, self.namespace)
        async with self._context.audit.record("queue.create", f"queue:{name}", by=by, reason=notes) as record:
            now = self._clock.now()
            fresh = rules.set_options(QueueDefinition(name, now, now, self.namespace), options, now)
            if await self.find(name) is not None:
                raise InvalidOption(f"queue '{name}' exists already; update it")
            await self._mark_target(fresh)
            created = await write_one(self._records, fresh)
            if created is None:  # its mark may be the one of who was quicker: it is dropped when it has become old
                raise InvalidOption(f"queue '{name}' exists already; update it")
            await self._confirm_target(created, None)
            record.add(**created.to_dict())
        return created

    async def update(
        self, name: str, options: Mapping[str, Any], by: str = DEFAULT_ACTOR, notes: str | None = None
    ) -> QueueDefinition:
        """Change some options. Log a dead queue that no longer fits. Raise NoSuchQueue and InvalidOption."""
        async with self._context.audit.record("queue.update", f"queue:{name}", by=by, reason=notes) as record:
            sets_target = "dead_queue" in options

            async def change(current: QueueDefinition | None) -> QueueDefinition | None:
                if current is None or not self.is_seen(name):
                    raise NoSuchQueue(name)
                changed = rules.set_options(current, options, self._clock.now())
                if changed is current:
                    return None
                if changed.dead_queue is not None and sets_target:
                    rules.require_dead_queue(changed, await self.find(changed.dead_queue))
                    rules.refuse_as_source(current, await self._referrers(current))
                    await self._mark_target(changed)
                elif changed.dead_queue is not None:
                    await self._report_target(changed)
                elif current.sources and changed.kind is rules.QueueKind.EXTERNAL:
                    rules.refuse_deletion(current, await self._referrers(current))
                return changed

            await self._context.open()
            before, after = await write_with_retry(self._records, self._key(name), change, what="queue")
            assert before is not None
            if after is None:
                return before
            if sets_target:
                await self._confirm_target(after, before)
            record.add_change(before.to_dict(), after.to_dict())
        return after

    async def delete(
        self, name: str, *, force: bool = False, by: str = DEFAULT_ACTOR, notes: str | None = None
    ) -> QueueDefinition:
        """Delete the definition; items stay. Raise NoSuchQueue, InvalidOption for others' dead queue unless `force`."""
        async with self._context.audit.record("queue.delete", f"queue:{name}", by=by, reason=notes) as record:
            context = self._context
            every = self if context.scope is None else QueueDefinitions(context.whole, self._home)
            while True:  # a loop of its own: it removes, and looks again at who names this queue
                current = await self.get(name)
                referrers = await every._referrers(current)
                if not force:
                    rules.refuse_deletion(current, list(filter(self.is_seen, referrers)))
                if not all(map(self.is_seen, referrers)):
                    raise InvalidOption(f"queue '{name}' is the dead queue of a queue outside of your scope")
                for each in referrers:
                    await self._detach(each, name)
                if not referrers and (await self._records.remove([current]))[0] is True:
                    break
            if current.dead_queue is not None:
                await self._unmark(current.dead_queue, name)
            record.add_change(current.to_dict(), None)
        return current

    async def _referrers(self, target: QueueDefinition) -> Collection[str]:
        """Return the queues whose dead queue this is, or is about to be."""
        listed = [each.name for each in await self.list() if each.dead_queue == target.name]
        named = await self.by_name([*listed, *target.sources])  # a list may be of a moment ago
        found = {name for name, source in named.items() if source.dead_queue == target.name}
        return found | set(target.sources) if rules.marks_may_be_under_way(target, self._clock.now()) else found

    async def _mark_target(self, definition: QueueDefinition) -> None:
        """Note on the dead queue that this one is about to name it. Raise InvalidOption if it cannot be one."""
        if definition.dead_queue is None:
            return

        def change(target: QueueDefinition | None) -> QueueDefinition | None:
            rules.require_dead_queue(definition, target)
            assert target is not None
            marked = rules.add_source(target, definition.name, self._clock.now())
            return None if marked is target else marked

        await write_with_retry(self._records, self._key(definition.dead_queue), change, what="queue")

    async def _confirm_target(self, written: QueueDefinition, before: QueueDefinition | None) -> None:
        """Take the dead queue away again if it was lost meanwhile: who took longer than its mark lasts may find so."""
        if before is not None and before.dead_queue is not None and before.dead_queue != written.dead_queue:
            await self._unmark(before.dead_queue, written.name)
        if written.dead_queue is None:
            return
        target = await self.find(written.dead_queue)
        if target is not None and target.dead_queue is None and written.name in target.sources:
            return
        if before is None:
            await self._records.remove([written])
        else:
            await self._detach(written.name, written.dead_queue)
        rules.require_dead_queue(written, target)
        raise InvalidOption(f"dead_queue '{written.dead_queue}' was changed by others meanwhile; try again")

    async def _report_target(self, definition: QueueDefinition) -> None:
        assert definition.dead_queue is not None
        try:
            rules.require_dead_queue(definition, await self.find(definition.dead_queue))
        except InvalidOption as problem:
            log.warning("queue '%s' cannot move what dies in it: %s", definition.name, problem)

    async def _detach(self, name: str, target: str) -> None:
        def change(current: QueueDefinition) -> QueueDefinition:
            if current.dead_queue != target:
                return current
            return rules.set_options(current, {"dead_queue": None}, self._clock.now())

        await update_with_retry(self._records, self._key(name), change, what="queue")
        await self._unmark(target, name)

    async def _unmark(self, target: str, name: str) -> None:
        await update_with_retry(
            self._records, self._key(target), lambda each: rules.drop_source(each, name), what="queue"
        )

    async def by_name(self, names: Sequence[str]) -> dict[str, QueueDefinition]:
        """Return the current definitions of those names that exist. Raise StoreError."""
        await self._open()
        found = await self._records.get([self._key(name) for name in dict.fromkeys(names) if self.is_seen(name)])
        for each in found:
            if isinstance(each, StoreError):
                raise each
        return {each.name: each for each in found if isinstance(each, QueueDefinition)}

    async def require(self, name: str) -> QueueDefinition:
        """Return the definition for work on items. Raise NoSuchQueue, and StoreUnavailable if it is unknown now."""
        if (found := await self.recall(name)) is None:
            raise NoSuchQueue(name)
        return found

    async def recall(self, name: str) -> QueueDefinition | None:
        """Return the definition for work on items, or None. Raise StoreUnavailable if it is unknown now."""
        found = (await self.recall_many([name])).get(name)
        if isinstance(found, StoreUnavailable):
            raise found
        return found

    async def recall_many(self, names: Sequence[str]) -> Mapping[str, QueueDefinition | StoreUnavailable]:
        """Return existing definitions; while the store is away, those last read or declared, and no others."""
        try:
            found = await self.by_name(names)
        except StoreUnavailable as problem:
            known = self._known_or_declared()
            seen = filter(self.is_seen, names)
            return {name: known.get(name) or _unknown(name, problem) for name in seen}
        self._known = {name: each for name, each in self._known.items() if name not in names} | found
        return found

    def _known_or_declared(self) -> Mapping[str, QueueDefinition]:
        """Return the definitions that are known without the store."""
        own = self if self._home is None else self._home
        if not own._context.is_itself or own._context.namespace != self._context.namespace:
            return self._known
        declared = {
            name: declared_definition(name, options, self.namespace)
            for name, options in own._context.declared_queues().items()
            if self.is_seen(name)
        }
        return {**declared, **self._known}


def _unknown(name: str, problem: StoreUnavailable) -> StoreUnavailable:
    return StoreUnavailable(
        f"it is not known whether there is a queue {name!r}: the store is away, this process has not read the queue "
        "before, and the settings do not declare it; nothing was changed or kept: declare it in the settings (queues), "
        f"or try again when the store answers ({problem})"
    )
