"""`app.sync`: the app and its queue for code without an event loop. What is stored is durable before a call returns.

Each awaited method of the app and of its services has a twin of the same name, with the same arguments and result. It
runs in the event loop that uses the store, or, if there is none, in one that this process starts in a thread for it.
Type checkers read `sync.pyi`, which `tools/write_sync_stub.py` writes from the services.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import suppress
from functools import cached_property, partial, wraps
from inspect import getattr_static
from types import FunctionType, MethodType, TracebackType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar, cast, overload

from mahavishnu.capture.adapters import is_async
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.engine.sync_loop import current_sync_loop
from mahavishnu.model.errors import InvalidInput, MahavishnuError
from mahavishnu.tasks.task import StepRecord

if TYPE_CHECKING:
    from mahavishnu.capture.calls import CaptureBlock
    from mahavishnu.capture.integration import DLQIntegration
    from mahavishnu.core.app import MahavishnuApp
    from mahavishnu.events.service import DomainEvents
    from mahavishnu.monitoring.service import Telemetry
    from mahavishnu.tasks.service import Lifecycle  # noqa: F401 - named in quotes: it is imported at first use

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
_NO_SERVICE = (FunctionType, property, classmethod, staticmethod)
# Run in the sync loop, also while another event loop uses the store: the app's workflows would hold that one up.
_RUN_WORKFLOWS = frozenset({"execute_workflow", "execute_workflow_parallel", "run_again", "capture_exception", "call"})


def awaited_methods(service: type) -> list[str]:
    """Return the names of the public coroutine functions and async generators of a service."""
    return [name for name in _public_names(service) if _is_awaited(getattr_static(service, name))]


def service_names(queue: type) -> list[str]:
    """Return the names of a queue's services: the public descriptors that make one, such as `cached_property`."""
    return [name for name in _public_names(queue) if _is_service(getattr_static(queue, name))]


def _public_names(kind: type) -> list[str]:
    names = dict.fromkeys(name for base in reversed(kind.__mro__) for name in vars(base))
    return [name for name in names if not name.startswith("_")]


def _is_awaited(member: object) -> bool:
    return inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member)


def _is_service(member: object) -> bool:
    return hasattr(type(member), "__get__") and not isinstance(member, _NO_SERVICE)


class SyncService(Generic[S]):
    """A service for code without an event loop: its awaited methods, each waited for, for `timeout` seconds at most."""

    def __init__(self, app: MahavishnuApp, find: Callable[[], S], path: str, timeout: float | None = None) -> None:
        self._app, self._find, self._path, self._timeout = app, find, path, timeout

    @property
    def service(self) -> S:
        """The service whose methods are awaited elsewhere."""
        return self._find()

    @property
    def _class(self) -> type:
        return type(self._find())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        method = getattr_static(self._class, name, None)
        if not _is_awaited(method):
            why = "does not exist" if method is None else "is not awaited: use it there, not under app.sync"
            raise AttributeError(f"app.{self._path}{name} {why}", name=name, obj=self)

        @wraps(MethodType(cast(Any, method), self))  # bound to something: its signature is the one without `self`
        def call(*args: Any, **kwargs: Any) -> Any:
            awaited = getattr(self._find(), name)
            if inspect.isasyncgenfunction(method):
                return self._iterate(name, awaited(*args, **kwargs))
            return self._run(name, lambda: awaited(*args, **kwargs))

        return call

    def __dir__(self) -> list[str]:
        with suppress(MahavishnuError):  # an app without a queue has no services
            return [*super().__dir__(), *awaited_methods(self._class)]
        return [*super().__dir__()]

    def _runs_at_home(self, name: str) -> bool:
        return True

    def _run(self, name: str, work: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Run this in the event loop that uses the store, or in the sync loop if the method does not run at home."""
        dlq = self._app.queue_if_enabled if self._runs_at_home(name) else None
        run = work() if dlq is None else dlq.context.session.run_in_home_loop(work)
        return current_sync_loop().run(run, timeout=self._timeout, name=self._path + name)

    def _iterate(self, name: str, items: AsyncGenerator[R, None]) -> Generator[R, None, None]:
        end = object()
        try:
            while (item := self._run(name, cast(Any, partial(anext, items, end)))) is not end:
                yield item
        finally:
            self._run(name, items.aclose)


class SyncQueue(SyncService[DeadLetterQueue]):
    """The queue and its services. Their methods raise QueueDisabled where there is no queue."""

    @property
    def _class(self) -> type:
        queue = self._app.queue_if_enabled
        return DeadLetterQueue if queue is None else type(queue)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not _is_service(getattr_static(self._class, name, None)):
            return super().__getattr__(name)
        service = SyncService(self._app, lambda: getattr(self._find(), name), f"{self._path}{name}.", self._timeout)
        vars(self)[name] = service  # found there from now on
        return service

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *service_names(self._class)]


class SyncIntegration(SyncService["DLQIntegration"]):
    """Decides about failed runs. Its methods raise MahavishnuError where the queue is disabled."""

    def _runs_at_home(self, name: str) -> bool:
        return False  # it keeps what fails without the store's event loop, too


class SyncLifecycle(SyncService["Lifecycle"]):
    """Lifecycle tasks, and steps of tracked sync workflows."""

    def step(self, name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a step of a sync workflow in this thread: see `Lifecycle.step`. Raises InvalidInput for an async one."""
        from mahavishnu.tasks.run import current_run  # only tracked workflows need it

        if is_async(cast(Any, function)):
            raise InvalidInput(_not_here(name))
        run = current_run.get()
        if run is None:
            return function(*args, **kwargs)
        record, form = StepRecord(name), run.form_of(function)
        if (known := run.kept_result(name, form)) is not None:
            return cast(R, known[0])
        self._run("step", partial(run.begin_step, record))
        try:
            result = function(*args, **kwargs)
            if inspect.iscoroutine(result):
                result.close()
                raise InvalidInput(_not_here(name))
        except Exception as error:
            self._run("step", partial(run.fail_step, name, error))
            raise
        self._run("step", partial(run.complete_step, name, form, result))
        return result


def _not_here(step: str) -> str:
    return (
        f"step {step!r:.80} is an async function, and this is code without an event loop: make its workflow async, and "
        "await app.lifecycle.step, or give the step a sync function"
    )


class SyncApp(SyncService["MahavishnuApp"]):
    """An app for code without an event loop: scripts, threads, web frameworks and task queues that have none.

    Raises InsideEventLoop where an event loop is running: await the app's own methods there. At the end of a `with`, or
    by `shutdown`, the store is closed; nothing is lost without that.

    >>> from mahavishnu.core.app import MahavishnuApp
    >>> from mahavishnu.core.config import MahavishnuSettings
    >>> app = MahavishnuApp(MahavishnuSettings(dlq_store_url="memory:"))
    >>> app.register_adapter("flaky", lambda task, repos: 1 / 0)
    >>> with app.sync as sync:
    ...     result = sync.execute_workflow({"id": "wf_1"}, "flaky", ["api"])
    ...     result["status"], sync.dlq.list_tasks()[0].error
    ('failed', 'division by zero')
    """

    def __init__(self, app: MahavishnuApp, timeout: float | None = None) -> None:
        super().__init__(app, lambda: app, "", timeout)

    @overload
    def call(self, function: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...

    @overload
    def call(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...

    def call(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function, an async one in the loop thread, and capture its failure. Raises it, or InvalidInput."""
        if not is_async(function):
            return self._app.calls.call_sync(function, args, kwargs)
        return self._run("call", lambda: self._app.calls.call(function, args, kwargs))

    def capture(self, name: str, /, **arguments: Any) -> CaptureBlock:
        """`with` this: when the block fails, the failure is captured as that of this workflow."""
        return self._app.capture(name, **arguments)

    @cached_property
    def lifecycle(self) -> SyncLifecycle:
        """Lifecycle tasks, and steps of sync workflows that are tracked."""
        return SyncLifecycle(self._app, lambda: self._app.lifecycle, "lifecycle.", self._timeout)

    @cached_property
    def dlq(self) -> SyncQueue:
        """The queue. Its methods raise MahavishnuError where it is disabled."""
        return SyncQueue(self._app, lambda: self._app.dlq, "dlq.", self._timeout)

    @property
    def events(self) -> SyncService[DomainEvents]:
        """Domain events. Its methods raise QueueDisabled where there is no queue."""
        return cast("SyncService[DomainEvents]", self.dlq.domain_events)

    @property
    def telemetry(self) -> SyncService[Telemetry]:
        """Numbers for monitoring. Its methods raise QueueDisabled where there is no queue."""
        return cast("SyncService[Telemetry]", self.dlq.telemetry)

    @cached_property
    def dlq_integration(self) -> SyncIntegration:
        """Decisions about failed runs. Its methods raise MahavishnuError where the queue is disabled."""
        return SyncIntegration(self._app, self._integration, "dlq_integration.", self._timeout)

    def within(self, seconds: float) -> SyncApp:
        """Return the same with a time limit for each call. A call that takes longer raises SyncTimeout."""
        return SyncApp(self._app, seconds)

    def _runs_at_home(self, name: str) -> bool:
        return name not in _RUN_WORKFLOWS

    def _integration(self) -> DLQIntegration:
        if self._app.dlq_integration is None:
            raise MahavishnuError("this app keeps no letters: dlq_enabled is false in its settings")
        return self._app.dlq_integration

    def __enter__(self) -> Self:
        if self._app.queue_if_enabled is not None:
            self.dlq.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()
