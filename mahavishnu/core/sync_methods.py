"""What the faces of `app.sync` are made of: a service, a method of it that is waited for, and what has it run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from functools import partial, wraps
from types import MethodType
from typing import Any, Generic, ParamSpec, Self, TypeVar, cast, overload

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.engine.sync_loop import current_sync_loop

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


class SyncCalls:
    """Has what belongs to one app run in an event loop, and waits for it, for `timeout` seconds at most."""

    def __init__(self, app: MahavishnuApp, timeout: float | None = None) -> None:
        self.app, self.timeout = app, timeout

    @property
    def dlq(self) -> DeadLetterQueue:
        """The app's queue. Raises QueueDisabled where there is none."""
        return self.app.dlq

    def run(self, name: str, work: Callable[[], Coroutine[Any, Any, R]], *, at_home: bool = True) -> R:
        """Run this in the loop thread, or, `at_home`, in the event loop that uses the store."""
        dlq = self.app.queue_if_enabled if at_home else None
        run = work() if dlq is None else dlq.context.session.run_in_home_loop(work)
        return current_sync_loop().run(run, timeout=self.timeout, name=name)


class SyncMethod(Generic[P, R]):
    """A method that waits for the asynchronous one of the same name."""

    def __init__(self, method: Callable[P, Coroutine[Any, Any, R]], *, at_home: bool = True) -> None:
        self.method, self._at_home, self.__doc__ = method, at_home, method.__doc__

    @overload
    def __get__(self, face: None, owner: type) -> Self: ...

    @overload
    def __get__(self, face: SyncFace[Any], owner: type) -> Callable[P, R]: ...

    def __get__(self, face: SyncFace[Any] | None, owner: type) -> Self | Callable[P, R]:
        if face is None:
            return self
        at_home, name = self._at_home, self.method.__name__

        @wraps(MethodType(self.method, face))  # bound to something: its signature is the one without `self`
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            method: Callable[P, Coroutine[Any, Any, R]] = getattr(face.service, name)
            return face.calls.run(face.path + name, lambda: method(*args, **kwargs), at_home=at_home)

        return call


def as_instance(service: type[S]) -> S:
    """The class, where type checkers see an instance: of its methods they then know the arguments without `self`."""
    return cast(S, service)


class SyncFace(Generic[S]):
    """Something of the app as code without an event loop sees it."""

    def __init__(self, calls: SyncCalls, find: Callable[[], S], path: str) -> None:
        self.calls, self._find, self.path = calls, find, path

    @property
    def service(self) -> S:
        """What is awaited elsewhere."""
        return self._find()


def one_by_one(calls: SyncCalls, name: str, lines: AsyncGenerator[str, None]) -> Generator[str, None, None]:
    """What is awaited line by line, for code without an event loop."""
    try:
        while (line := calls.run(name, partial(anext, lines, None))) is not None:
            yield line
    finally:
        calls.run(name, lines.aclose)
