"""Functions with arguments of their own as workflows: which can be one, what its name is, and how it is run again."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mahavishnu.adapters.arguments import Signature
from mahavishnu.adapters.base import AdapterRegistry, is_async, is_generator, run_function
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.json_value import EMPTY
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.typed_json import read

_TASK_FORM = ("task", "repos")


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


class RestoredArguments(dict[str, Any]):
    """The arguments that a letter keeps, by name, as they were given: a call takes them as they are."""


class FunctionAdapter:
    """Runs a function with the arguments that a letter keeps by name. Only what it raises is a failure."""

    reads_results = False  # a dict with a `status` is a function's own business

    def __init__(self, function: Callable[..., Any], name: str, signature: Signature) -> None:
        self.function, self.name, self.signature = function, name, signature
        self._is_async = is_async(function)

    async def run(self, task: Any, repos: list[str]) -> Any:
        """Run it. Raises CannotRestore if these are not its arguments."""
        if isinstance(task, RestoredArguments):
            args, kwargs = self.signature.place(task)
        else:  # of somebody who gives them as JSON
            args, kwargs = self.signature.restore(task, {})
        return await self.call(args, kwargs)

    async def call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call it; a sync one in a thread, so that it does not hold up the event loop."""
        return await run_function(self.function, self._is_async, args, kwargs)

    def __repr__(self) -> str:
        return f"FunctionAdapter({getattr(self.function, '__qualname__', self.function)!r})"


def restore_task(letter: DeadLetter, adapters: AdapterRegistry | None = None) -> Any:
    """What a run of the letter is given: its task with the types that it had, or the arguments of its function.

    Raises CannotRestore, naming what cannot be read.
    """
    task, types = letter.task, letter.payload_types
    adapter = adapters.known.get(letter.adapter or "") if adapters is not None else None
    if isinstance(adapter, FunctionAdapter):
        return RestoredArguments(adapter.signature.restore_by_name(task, types.value))
    if types.text == EMPTY.text:
        return task
    signature = adapters.signature(letter.adapter) if adapters is not None else None
    return read(task, types.value) if signature is None else signature.restore_task(task, types.value)
