"""Functions with arguments of their own as workflows: which can be one, what its name is, and how it is run again."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from types import NoneType
from typing import Any
from uuid import UUID

from mahavishnu.adapters.base import is_async, is_generator, run_function
from mahavishnu.model.errors import InvalidInput

_TASK_FORM = ("task", "repos")
# Nothing that a function does changes a value of these, so no snapshot is taken of it.
_CONSTANT = frozenset(
    [str, int, float, bool, NoneType, bytes, complex, Decimal, date, datetime, time, timedelta, tzinfo, UUID]
)
_CONTAINERS = (list, dict, set, frozenset, tuple, bytearray)


def check_workflow(function: object) -> None:
    """Raise InvalidInput, with the reason, for what cannot be a workflow."""
    label = getattr(function, "__qualname__", None) or f"{function!r:.80}"
    if isinstance(function, type):
        raise InvalidInput(
            f"{label} is a class: a failure while it is made would have no run that could be repeated. Decorate a "
            "function that makes it"
        )
    if isinstance(function, classmethod | property):
        kind = type(function).__name__
        raise InvalidInput(f"{label} is a {kind} already: put @app.workflow below @{kind}, next to the function")
    if not callable(function):
        raise InvalidInput(f"{label} is no function: decorate what can be called")
    if is_generator(function):
        raise InvalidInput(
            f"{label} is a generator function: calling it would run nothing of it. Decorate a function that does the "
            "work and returns"
        )


def function_name(function: object) -> str:
    """The name of a workflow that was given none: the function's qualified one, without `<locals>.`.

    >>> function_name(check_workflow)
    'check_workflow'
    """
    name = getattr(function, "__qualname__", None)
    if not isinstance(name, str) or not name or "<lambda>" in name:
        raise InvalidInput(
            f"{function!r:.80} has no name of its own: give it one, as in app.workflow('name')(function)"
        )
    return name.replace("<locals>.", "")


def parameters_of(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """What it can be called with. Raises InvalidInput where Python cannot tell."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError) as problem:
        raise InvalidInput(
            f"{function!r:.80} does not say which arguments it takes ({problem}): decorate a function that calls it"
        ) from None


def takes_task_and_repos(function: Callable[..., Any]) -> bool:
    """Whether its parameters are `task` and `repos`: then a letter keeps the task itself.

    >>> takes_task_and_repos(lambda task, repos=(): None), takes_task_and_repos(lambda task: None)
    (True, False)
    """
    return tuple(parameters_of(function)) == _TASK_FORM


class Signature:
    """What a function takes."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._signature = inspect.signature(function)

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by name. Raises TypeError if these are not the function's."""
        return dict(self._signature.bind(*args, **kwargs).arguments)

    def restore(self, payload: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a payload. Raises InvalidInput."""
        if not isinstance(payload, dict):
            raise InvalidInput(f"the payload must have the arguments by name, not {payload!r:.80}")
        bound = inspect.BoundArguments(self._signature, payload)
        return bound.args, bound.kwargs


class FunctionAdapter:
    """Runs a function with the arguments that a letter keeps by name. Only what it raises is a failure."""

    reads_results = False  # a dict with a `status` is a function's own business

    def __init__(self, function: Callable[..., Any], name: str, signature: Signature) -> None:
        self.function, self.name, self.signature = function, name, signature
        self._is_async = is_async(function)

    async def run(self, task: Any, repos: list[str]) -> Any:
        """Run it. Raises InvalidInput if these are not its arguments."""
        args, kwargs = self.signature.restore(task)
        return await self.call(args, kwargs)

    async def call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call it; a sync one in a thread, so that it does not hold up the event loop."""
        return await run_function(self.function, self._is_async, args, kwargs)

    def __repr__(self) -> str:
        return f"FunctionAdapter({getattr(self.function, '__qualname__', self.function)!r})"


class ArgumentSnapshot:
    """The arguments of a call as they were before it: a retry gets what the first run got.

    Only what a function can change is copied, and only what a letter could keep. The copy stays in memory.
    """

    __slots__ = ("_before", "_values")

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._values = [each for each in (*args, *kwargs.values()) if type(each) not in _CONSTANT and _is_data(each)]
        self._before = _copy(self._values) if self._values else None

    @classmethod
    def of(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ArgumentSnapshot | None:
        """None where there is nothing that a call could change: nearly always, and found at once."""
        if _CONSTANT.issuperset(map(type, args)) and (not kwargs or _CONSTANT.issuperset(map(type, kwargs.values()))):
            return None
        return cls(args, kwargs)

    def restore(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with copies in the place of those that were changed."""
        before = self._before
        if before is None or (isinstance(before, bytes) and _copy(self._values) == before):
            return args, kwargs
        try:
            copies = pickle.loads(before) if isinstance(before, bytes) else before
        except Exception:  # code of the user's own types
            return args, kwargs
        found = {id(value): copied for value, copied in zip(self._values, copies, strict=True)}
        return (
            tuple(found.get(id(each), each) for each in args),
            {name: found.get(id(each), each) for name, each in kwargs.items()},
        )


def _is_data(value: Any) -> bool:
    kind = type(value)
    return (
        isinstance(value, _CONTAINERS) or hasattr(kind, "__dataclass_fields__") or hasattr(kind, "__pydantic_fields__")
    )


def _copy(values: list[Any]) -> bytes | list[Any] | None:
    """A copy, as bytes where that is possible: it takes a tenth of the time. None for what cannot be copied."""
    try:
        return pickle.dumps(values, pickle.HIGHEST_PROTOCOL)
    except Exception:  # such as of a class inside of a function, or whatever the user's own types raise
        pass
    try:
        return [copy.deepcopy(each) for each in values]
    except Exception:
        return None
