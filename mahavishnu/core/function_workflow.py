"""A function whose calls are captured, and one call of it: what a letter of the call would have."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from mahavishnu.adapters.base import Adapter, PythonAdapter
from mahavishnu.adapters.function import FunctionAdapter, Receiver, parameters_of
from mahavishnu.classify.exceptions import safe_str
from mahavishnu.core.call_options import CallOptions, ReadKey
from mahavishnu.engine.letter_factory import LetterRequest
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.ids import new_task_id
from mahavishnu.model.letter_parts import RetryPolicy
from mahavishnu.values.arguments import Signature
from mahavishnu.values.payload import WriteValues, restore_arguments, take_snapshot

log = logging.getLogger(__name__)
NOT_BOUND = "dlq_not_bound"  # in the metadata: why the arguments are not those of the function


@dataclass(frozen=True, slots=True)
class FunctionWorkflow:
    """A function whose calls are captured, and how."""

    name: str
    function: Callable[..., Any]
    options: CallOptions
    adapter: Adapter
    read_key: ReadKey | None = None
    has_task: bool = False  # its parameters are `task` and `repos`, and a letter keeps the task itself
    receiver: Receiver | None = None  # what a method is called on

    @property
    def identity(self) -> object:
        """What a function has in common with itself after its module was loaded again, or a notebook's cell run."""
        function = self.function
        name = getattr(function, "__qualname__", None)
        if name is not None and "<" not in name:
            return getattr(function, "__module__", None), name
        # The same inside of another function, where each call makes one: unless it sees that function's variables.
        code = getattr(function, "__code__", None)
        return function if code is None or getattr(function, "__closure__", None) else code

    def place_named(self, arguments: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments by name as a call takes them: those that the function takes by place only come first."""
        named, first = dict(arguments), list[Any]()
        for name, parameter in parameters_of(self.function).items():
            if parameter.kind is not inspect.Parameter.POSITIONAL_ONLY or name not in named:
                break
            first.append(named.pop(name))
        return tuple(first), named

    def key_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
        """The task id of a call; None if its workflow has no key, or the call none."""
        if self.read_key is None:
            return None
        try:
            key = self.read_key(args, kwargs)
            return None if key is None or key == "" else f"{self.name}:{key}"
        except Exception as problem:  # a function of the user's, and code of the arguments; the call must go on
            log.warning(
                "a call of workflow %r has no key: %s: %s", self.name, type(problem).__name__, safe_str(problem)
            )
            return None


def unknown_workflow(name: str) -> FunctionWorkflow:
    """A workflow of which this process has no function; its letters wait for a worker that has."""
    return FunctionWorkflow(name, _nothing, CallOptions(), PythonAdapter(_nothing))


def _nothing(task: Any, repos: list[str]) -> None: ...


_unknown_parameters = Signature("a block", inspect.Signature(), {}, {}, ())


def mark_decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, marked as one whose failures are captured already, with the methods of an object that it wraps."""
    function._captures_failures = function  # type: ignore[attr-defined]
    wrapped = function.__wrapped__  # type: ignore[attr-defined]
    for name, _ in inspect.getmembers_static(type(wrapped), callable):  # such as `cache_clear` of an lru_cache
        if not name.startswith("_") and not hasattr(function, name):
            setattr(function, name, getattr(wrapped, name))
    return function


def is_decorated(function: Callable[..., Any]) -> bool:
    """Whether its failures are captured already.

    Raises InvalidInput for a function that wraps such a one: only the failures of the inner one are captured.
    """
    while isinstance(function, functools.partial):
        function = function.func
    decorated = getattr(function, "_captures_failures", None)
    if decorated is None or decorated is getattr(function, "__func__", function):  # a method has it from its function
        return decorated is not None
    name = getattr(function, "__qualname__", "it")
    raise InvalidInput(
        f"{name} wraps a decorated workflow: what fails in the wrapper would not be captured. Put @app.workflow "
        "above the wrapper, in place of the inner one, or call the workflow itself"
    )


class Call:
    """One call of a workflow: its id, and its arguments as they were before it."""

    __slots__ = ("_args", "_kwargs", "_snapshot", "task_id", "workflow")

    def __init__(self, workflow: FunctionWorkflow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.workflow, self._args, self._kwargs = workflow, args, kwargs
        if workflow.receiver is not None:
            workflow.receiver.check(args)
        self._snapshot = take_snapshot(args, kwargs)
        if workflow.read_key is not None:
            self.task_id = workflow.key_of(args, kwargs)
        else:
            self.task_id = given_id(None, args[0] if args else kwargs.get("task")) if workflow.has_task else None

    @property
    def is_late(self) -> bool:
        """Whether somebody else has begun with this work anew, so that a failure of this call does not count."""
        return False

    @property
    def repos(self) -> Any:
        """What the task is to be done for; nothing for a function with arguments of its own."""
        return self._task_and_repos(self._args, self._kwargs)[1] if self.workflow.has_task else ()

    def request(self, repos: Any = None) -> LetterRequest:
        """What a letter of it would have, for these `repos` only where they are given. It does not raise."""
        workflow, options, args, kwargs = self.workflow, self.workflow.options, self._args, self._kwargs
        if self._snapshot is not None:
            args, kwargs = restore_arguments(self._snapshot, args, kwargs)
        never: dict[str, Any] = {}
        try:
            task, given, write = self._describe(args, kwargs)
        except Exception as problem:  # they are not the function's arguments, which is what it raised, too
            task, given, write = {"args": list(args), "kwargs": kwargs}, (), _unknown_parameters.write
            never = {NOT_BOUND: safe_str(problem)}
        return LetterRequest(
            task_id=self.task_id or new_task_id(),
            task=task,
            repos=given if repos is None else repos,
            retry_policy=RetryPolicy.NEVER if never else options.retry_policy,
            max_retries=options.max_retries,
            metadata=never or None,
            queue=options.queue,
            adapter=workflow.name,
            write=write,
            redact=options.redact,
        )

    def _describe(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, WriteValues]:
        """What a letter keeps as the task, for which repos, and how that is written."""
        workflow, adapter = self.workflow, self.workflow.adapter
        if isinstance(adapter, FunctionAdapter):
            return adapter.bind(args, kwargs), (), adapter.signature.write
        if not workflow.has_task:
            return kwargs, (), _unknown_parameters.write
        if further := [name for name in kwargs if name not in ("task", "repos")]:
            raise TypeError(f"{workflow.name} takes a task and repos, and was given {', '.join(further)}")
        task, repos = self._task_and_repos(args, kwargs)
        return task, repos, _task_signature(cast("PythonAdapter", adapter)).write_task

    def _task_and_repos(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
        task = args[0] if args else kwargs.get("task")
        return task, args[1] if len(args) > 1 else kwargs.get("repos", ())


@lru_cache(256)
def _task_signature(adapter: PythonAdapter) -> Signature:
    return Signature.of(adapter.function, names=adapter.names, kinds=adapter.kinds)


def given_id(task_id: str | None, task: Any) -> str | None:
    """The id that the caller named, else the task's own; None if there is none, or none that can be read."""
    for name in (task_id, task.get("id") if isinstance(task, dict) else None):
        if type(name) is str and name:  # nearly always
            return name
        try:
            if name or (name == 0 and name is not False):
                return str(name)
        except Exception:  # such as of pandas.NA, which is neither true nor false
            continue
    return None
