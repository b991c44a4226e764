"""The dead-letter queue as its rooms and surfaces see it; `DeadLetterQueue` in `mahavishnu.core` is the class."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Generic, Protocol, Self, TypeVar, Unpack, overload

from mahavishnu.engine.audit import AuditLog
from mahavishnu.engine.context import DEFAULT_ACTOR, QueueContext
from mahavishnu.engine.moves import Act
from mahavishnu.engine.periodic import PeriodicTask
from mahavishnu.engine.rooms import load
from mahavishnu.model.clock import Clock
from mahavishnu.model.ids import DEFAULT_QUEUE
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.permissions import Principal
from mahavishnu.stores.base import Health, Store

S = TypeVar("S")


class LetterDeletion(Protocol):
    """The service that deletes letters for good, with all that rooms keep of them."""

    async def delete_task(
        self, task_id: str, *, by: str = ..., notes: str | None = ..., namespace: str | None = ..., queue: str = ...
    ) -> Any: ...


class LetterQueue(Protocol):
    """A queue, or its view of a namespace or for an actor."""

    context: QueueContext
    home: Self | None  #: the queue that this one is a view of

    @property
    def store(self) -> Store: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def namespace(self) -> str: ...
    @property
    def max_size(self) -> int: ...
    @property
    def audit(self) -> AuditLog: ...

    def service(self, kind: type[S]) -> S:
        """Return the queue's service of this class, which is made at first use."""

    def chores(self) -> Iterable[PeriodicTask]: ...
    def in_namespace(self, namespace: str) -> Self: ...
    def for_actor(self, principal: Principal) -> Self: ...
    async def open(self) -> Self: ...
    async def health(self) -> Health: ...
    async def get_statistics(self) -> dict[str, Any]: ...
    async def health_warnings(self, stats: Mapping[str, Any] | None = None) -> list[str]: ...
    async def get_task(
        self, task_id: str, *, include_archived: bool = False, namespace: str | None = None, queue: str = DEFAULT_QUEUE
    ) -> DeadLetter | None: ...
    @property
    def deletion(self) -> LetterDeletion: ...
    async def shutdown(self) -> None: ...
    async def clear_all(self, *, by: str = DEFAULT_ACTOR, notes: str | None = None) -> int: ...
    @property
    def enqueue(self) -> Callable[..., Awaitable[DeadLetter]]: ...
    @property
    def requeue_from_dlq(self) -> Callable[..., Awaitable[dict[str, Any]]]: ...
    async def get_statistics_by_reason(self) -> Any: ...
    async def retry_task(self, task_id: str, *, force: bool = False, **act: Unpack[Act]) -> dict[str, Any]: ...


# --- `Service` makes an attribute of a queue the one object of a class, made at first use


class Service(Generic[S]):
    """A service of the queue, imported at first use, and made by its `for_queue(queue)`, or from the context."""

    def __init__(self, registered: Callable[[], Mapping[str, str]]) -> None:
        """`registered` returns the `module:Class` of each name."""
        self._registered = registered

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, queue: None, owner: type) -> Service[S]: ...
    @overload
    def __get__(self, queue: LetterQueue, owner: type) -> S: ...
    def __get__(self, queue: LetterQueue | None, owner: type) -> Service[S] | S:
        if queue is None:
            return self
        made: S = service_of(queue, self._name, self._registered()[self._name])
        return made


def service_of(queue: LetterQueue, name: str, target: str) -> Any:
    """Return the queue's service of this name, made at first use. Raise PermissionDenied without the act it `NEEDS`."""
    if name not in vars(queue):
        kind: Any = load(target)
        if (act := getattr(kind, "NEEDS", None)) is not None:
            queue.context.audit.require_now(act)
        make = getattr(kind, "for_queue", None)
        vars(queue)[name] = kind(queue.context) if make is None else make(queue)
    return vars(queue)[name]
