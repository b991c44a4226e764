"""Functions with arguments of their own as workflows: which can be one, what its name is, and how it is run again."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from types import MethodType
from typing import Any

from mahavishnu.adapters.base import AdapterRegistry, Workflow, is_async, is_generator, run_function
from mahavishnu.model.errors import CannotRestore, InvalidInput
from mahavishnu.model.json_value import EMPTY
from mahavishnu.model.letter import DeadLetter
from mahavishnu.values.arguments import Signature
from mahavishnu.values.hints import can_be_made, local_names
from mahavishnu.values.kinds import ValueKind
from mahavishnu.values.typed_json import find_lost, read

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


class Receiver:
    """What a method is called on: an object, which is an argument as any other one, or its class."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.name, self._function = name, function
        self._label = getattr(function, "__qualname__", repr(function))
        self._owner = _find_owner(function)
        self._is_sound = False

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Receiver | None:
        """None for a function that is no method: written in a class, with a first parameter `self` or `cls`."""
        first = next(iter(parameters_of(function)), "")
        outer = getattr(function, "__qualname__", "").rpartition(".")[0]
        is_method = inspect.isfunction(function) and outer and not outer.endswith("<locals>")
        return cls(function, first) if is_method and first in ("self", "cls") else None

    @property
    def owner(self) -> type | None:
        """The class that the method is written in, as soon as that is known."""
        if self._owner is None:
            self._owner = _find_owner(self._function)
        return self._owner

    def check(self, args: tuple[Any, ...]) -> None:
        """Raise InvalidInput, before the method runs, if no retry could have the object that it is called on."""
        if self._is_sound or not args:
            return
        kind = args[0] if isinstance(args[0], type) else type(args[0])
        if self.owner is None:  # a class inside of a function
            outer = self._label.rpartition(".")[0]
            self._owner = next((each for each in kind.__mro__ if each.__qualname__ == outer), None)
        owner = self.owner or kind
        if self.name == "self" and not can_be_made(owner):
            raise InvalidInput(
                f"{self._label} is a method, and a retry would need its {owner.__name__}, which cannot be made again "
                "from JSON: make that a dataclass or a pydantic model, decorate a function, or register the method of "
                "one object, as in app.workflow('name')(thing.method)"
            )
        self._is_sound = True


def _find_owner(function: Callable[..., Any]) -> type | None:
    found: object = sys.modules.get(getattr(function, "__module__", None) or "")
    for name in getattr(function, "__qualname__", "").split(".")[:-1]:
        found = getattr(found, name, None)
    return found if isinstance(found, type) else None


class RestoredArguments(dict[str, Any]):
    """The arguments that a letter keeps, by name, as they were given: a call takes them as they are."""


class FunctionAdapter:
    """Runs a function with the arguments that a letter keeps by name. Only what it raises is a failure."""

    reads_results = False  # a dict with a `status` is a function's own business

    def __init__(self, function: Callable[..., Any], name: str, kinds: Iterable[ValueKind] = ()) -> None:
        self.function, self.name, self.receiver, self.kinds = function, name, Receiver.of(function), tuple(kinds)
        self._is_async, self._names = is_async(function), local_names(function)

    @cached_property
    def signature(self) -> Signature:
        """The parameters that a letter keeps arguments of. The class of a method is known only after its making."""
        receiver = self.receiver
        if receiver is None or receiver.owner is None:
            return Signature.of(self.function, names=self._names, kinds=self.kinds)
        if receiver.name == "cls":
            return Signature.of(MethodType(self.function, receiver.owner), names=self._names, kinds=self.kinds)
        return Signature.of(self.function, names=self._names, hints={"self": receiver.owner}, kinds=self.kinds)

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by name. Raises TypeError if they are not the function's, or a retry could not have them."""
        receiver = self.receiver
        if receiver is not None and receiver.name == "cls":
            if not args or args[0] is not receiver.owner:
                called = getattr(args[0], "__name__", "something else") if args else "nothing"
                owner = receiver.owner.__name__ if receiver.owner is not None else "a class that is not known"
                raise TypeError(f"it was called on {called}, and a retry would call it on {owner}")
            args = args[1:]
        return self.signature.bind(args, kwargs)

    async def run(self, task: Any, repos: list[str]) -> Any:
        """Run it. Raises CannotRestore if these are not its arguments."""
        if isinstance(task, RestoredArguments):
            args, kwargs = self.signature.place(task)
        else:  # of somebody who gives them as JSON
            args, kwargs = self.signature.restore(task, {})
        if self.receiver is not None and self.receiver.name == "cls":
            args = (self.receiver.owner, *args)
        return await run_function(self.function, self._is_async, args, kwargs)

    def __repr__(self) -> str:
        return f"FunctionAdapter({getattr(self.function, '__qualname__', self.function)!r})"


def restore_task(letter: DeadLetter, adapters: AdapterRegistry) -> Any:
    """What a run of the letter is given: its task with the types that it had, or the arguments of its function.

    Raises CannotRestore, naming what cannot be read.
    """
    task, types = letter.task, _types_of(letter)
    adapter = adapters.known.get(letter.adapter or "")
    if isinstance(adapter, FunctionAdapter):
        arguments = adapter.signature.restore_by_name(task, types)
        adapter.signature.place(arguments)  # raises for what is missing
        return RestoredArguments(arguments)
    if getattr(adapter, "takes_json", False):
        if (lost := find_lost(types)) is not None:
            raise lost
        return task
    signature = adapters.signature(letter.adapter)
    return read(task, types, kinds=adapters.kinds) if signature is None else signature.restore_task(task, types)


def _types_of(letter: DeadLetter) -> Mapping[str, str]:
    types: Mapping[str, str] = {} if letter.payload_types.text == EMPTY.text else letter.payload_types.value
    return types


def why_unrestorable(letter: DeadLetter, adapters: AdapterRegistry) -> str | None:
    """Why what runs the letter could not be given its task; None if it can, or if that is not known here.

    What was lost when it was captured is no news: an edit need not give all of it at once.
    """
    adapter = adapters.known.get(letter.adapter or "")
    if adapter is None:
        return None
    try:
        restore_task(letter, adapters)
    except CannotRestore as problem:
        return None if problem.needs_edit else str(problem)
    return None


def restorer_of(callback: Workflow, kinds: Iterable[ValueKind] = ()) -> Callable[[DeadLetter], Any]:
    """Gives a callback `(task, repos)` the tasks of letters as its own hints say. It raises CannotRestore."""
    try:
        signature = Signature.of(callback, kinds=kinds)
    except (TypeError, ValueError):  # Python does not know its parameters
        signature = Signature.of_any_task(kinds)
    return lambda letter: signature.restore_task(letter.task, _types_of(letter))
