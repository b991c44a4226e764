"""What an adapter is."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, runtime_checkable

from mahavishnu.model.errors import InvalidInput

Workflow: TypeAlias = Callable[[Any, list[str]], Any]
"""A function that runs a task: `(task, repos)`, sync or async. It fails by raising, or by a result that says so."""


@runtime_checkable
class Adapter(Protocol):
    """Something that runs tasks. `mahavishnu.model.attempt.current_attempt` tells it whether this is a retry."""

    async def run(self, task: Any, repos: list[str]) -> Any:
        """Run it. Raise, or answer a dict whose `status` is `failed` or `error`, or whose `success` is false, to fail.

        A dict under `repos` or `results` with an answer for each repo lets a retry run only those that failed.
        """
        ...


class PythonAdapter:
    """Runs a Python function. A sync one gets a thread, so that it does not hold up the event loop.

    >>> import asyncio
    >>> asyncio.run(PythonAdapter(lambda task, repos: {"swept": repos}).run({}, ["api"]))
    {'swept': ['api']}
    """

    def __init__(self, function: Workflow) -> None:
        self.function = function

    async def run(self, task: Any, repos: list[str]) -> Any:
        if is_async(self.function):
            return await self.function(task, repos)
        result = await asyncio.to_thread(self.function, task, repos)
        return await result if inspect.isawaitable(result) else result

    def __repr__(self) -> str:
        return f"PythonAdapter({getattr(self.function, '__qualname__', self.function)!r})"


def is_async(function: Workflow) -> bool:
    """Whether calling it gives something to await without doing the work first."""
    method = getattr(type(function), "__call__", None)  # noqa: B004 - not a test whether it can be called
    return inspect.iscoroutinefunction(inspect.unwrap(function)) or inspect.iscoroutinefunction(method)


def adapter(thing: Adapter | Workflow) -> Adapter:
    """`thing` as an adapter. Raises InvalidInput if it is neither an adapter nor a function.

    >>> adapter(print)
    PythonAdapter('print')
    """
    if isinstance(thing, Adapter) and not isinstance(thing, type):
        return thing
    if callable(thing):
        return PythonAdapter(thing)
    raise InvalidInput(
        f"{thing!r} is no adapter: give an object with `async def run(task, repos)`, or a function of both"
    )
