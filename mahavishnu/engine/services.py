"""`Service` makes an attribute of a queue the one object of a class, made at first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from mahavishnu.engine.rooms import load

if TYPE_CHECKING:
    from mahavishnu.engine.queue import LetterQueue

S = TypeVar("S")


class Service(Generic[S]):
    """A service of the queue, named by the attribute; a room registers its class under that name.

    The class is imported at first use. It is made by its `for_queue(queue)`, if it has one, or else from the context.
    """

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
        kind: Any = load(self._registered()[self._name])
        make = getattr(kind, "for_queue", None)
        made: S = kind(queue.context) if make is None else make(queue)
        vars(queue)[self._name] = made  # found there from now on
        return made
