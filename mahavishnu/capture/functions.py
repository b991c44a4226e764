"""Functions with arguments of their own as workflows: their checks, names, keys and calls, and how they run again."""

from __future__ import annotations

import functools
import inspect
import logging
import string
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from inspect import Parameter
from types import MethodType
from typing import Any, Literal, TypeAlias, cast

from mahavishnu.capture.adapters import Adapter, AdapterRegistry, PythonAdapter, is_async, is_generator, run_function
from mahavishnu.classify.exceptions import safe_str
from mahavishnu.classify.verdict import policy
from mahavishnu.engine.context import Workflow
from mahavishnu.model.errors import CannotRestore, InvalidInput
from mahavishnu.model.ids import DEFAULT_QUEUE, document_key, new_task_id
from mahavishnu.model.json_value import EMPTY
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import RetryPolicy
from mahavishnu.model.record import Value
from mahavishnu.values.arguments import Signature, can_be_made, local_names
from mahavishnu.values.kinds import ValueKind
from mahavishnu.values.payload import LetterRequest, WriteValues, restore_arguments, take_snapshot
from mahavishnu.values.typed_json import find_lost, read

log = logging.getLogger(__name__)
Key: TypeAlias = "str | Callable[..., Any]"
OnCancel: TypeAlias = Literal["ignore", "capture"]
ReadKey: TypeAlias = Callable[[tuple[Any, ...], dict[str, Any]], Any]
NOT_BOUND = "dlq_not_bound"  # in the metadata: why the arguments are not those of the function
_NAMED = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


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
    """Return the parameters that it can be called with. Raises InvalidInput where Python cannot tell."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError) as problem:
        raise InvalidInput(
            f"{function!r:.80} does not say which arguments it takes ({problem}): decorate a function that calls it"
        ) from None


def takes_task_and_repos(function: Callable[..., Any]) -> bool:
    """Return True if its parameters are `task` and `repos`: then a letter keeps the task itself.

    >>> takes_task_and_repos(lambda task, repos=(): None), takes_task_and_repos(lambda task: None)
    (True, False)
    """
    return tuple(parameters_of(function)) == ("task", "repos")


class Receiver:
    """Receiver of a method call: an object, which is an argument as any other one, or its class."""

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
    """Return the arguments of a run, with their original types. Raises CannotRestore, naming what is unreadable."""
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
    """Return why the adapter could not be given the task, or None; a value lost at the capture is no reason."""
    adapter = adapters.known.get(letter.adapter or "")
    if adapter is None:
        return None
    try:
        restore_task(letter, adapters)
    except CannotRestore as problem:
        return None if problem.needs_edit else str(problem)
    return None


def restorer_of(callback: Workflow, kinds: Iterable[ValueKind] = ()) -> Callable[[DeadLetter], Any]:
    """Return what gives a callback `(task, repos)` the tasks of letters by its own hints. It raises CannotRestore."""
    try:
        signature = Signature.of(callback, kinds=kinds)
    except (TypeError, ValueError):  # Python does not know its parameters
        signature = Signature.of_any_task(kinds)
    return lambda letter: signature.restore_task(letter.task, _types_of(letter))


# --------------------------------------------------------------------------------------------- options and keys


class CallOptions(Value, frozen=True):
    """Options for the failures of a workflow. None means the default.

    `key` names the work of a call: an argument's name, a text such as `"{customer}-{month}"`, or a function of the
    arguments. `redact` are patterns of names whose values are masked in the letter. `on_cancel` says whether a call
    that is cancelled becomes a letter. `track`: each call is a lifecycle task while it runs. `limit` is how many
    retries run at once, and their rate.
    """

    key: Key | None = None
    retry_policy: str | None = None
    max_retries: int | None = None
    queue: str = DEFAULT_QUEUE
    redact: tuple[str, ...] = ()
    on_cancel: OnCancel = "ignore"
    track: bool = False
    limit: tuple[int | None, str | None] = (None, None)

    @classmethod
    def from_arguments(
        cls,
        *,
        key: Key | None,
        retry_policy: str | None,
        max_retries: int | None,
        queue: str | None,
        redact: Sequence[str],
        on_cancel: OnCancel,
        track: bool,
        limit: tuple[int | None, str | None],
    ) -> CallOptions:
        """Make the options. Raises InvalidInput for what no letter could have."""
        named = queue if queue is not None else DEFAULT_QUEUE
        document_key("any", queue=named)
        if max_retries is not None and (type(max_retries) is not int or max_retries < 0):
            raise InvalidInput(f"max_retries must be a whole number from 0, not {max_retries!r:.80}")
        if isinstance(redact, str) or not all(isinstance(each, str) for each in redact):
            raise InvalidInput(f"redact must be a list of names or patterns, not {redact!r:.80}")
        if on_cancel not in ("ignore", "capture"):
            raise InvalidInput(f"on_cancel must be 'ignore' or 'capture', not {on_cancel!r:.80}")
        chosen = None if retry_policy is None else policy(retry_policy)
        return cls(key, chosen, max_retries, named, tuple(redact), on_cancel, track, limit)


def key_reader(key: Key | None, function: Callable[..., Any]) -> ReadKey | None:
    """Return what reads the key off a call's arguments; None without a key. Raises InvalidInput for an unknown name.

    >>> read = key_reader("{a}-{b.real}", lambda a, b=2: None)
    >>> read((1,), {}), key_reader("b", lambda a, b=2: None)((1,), {"b": 3})
    ('1-2', 3)
    """
    if key is None:
        return None
    if callable(key):
        return lambda args, kwargs: key(*args, **kwargs)
    if not isinstance(key, str) or not key:
        raise InvalidInput(
            f"key must be an argument's name, a text with arguments in braces or a function, not {key!r}"
        )
    if "{" not in key:
        return _argument_reader(key, key, function)
    try:
        names = [field for _, field, _, _ in string.Formatter().parse(key) if field is not None]
    except ValueError as problem:
        raise InvalidInput(f"the key {key!r} cannot be read: {problem}") from None
    readers = {}
    for field in names:
        name = field.partition(".")[0].partition("[")[0]
        readers[name] = _argument_reader(name, key, function)
    return lambda args, kwargs: key.format(**{name: read(args, kwargs) for name, read in readers.items()})


def _argument_reader(name: str, key: str, function: Callable[..., Any]) -> ReadKey:
    parameters = parameters_of(function)
    found = parameters.get(name)
    if found is None or found.kind not in _NAMED:
        known = ", ".join(each.name for each in parameters.values() if each.kind in _NAMED) or "none that has a name"
        raise InvalidInput(f"the key {key!r} needs an argument {name!r}; the function's are: {known}")
    default = None if found.default is Parameter.empty else found.default
    if found.kind is Parameter.KEYWORD_ONLY:
        return lambda args, kwargs: kwargs.get(name, default)
    place = list(parameters).index(name)
    return lambda args, kwargs: args[place] if len(args) > place else kwargs.get(name, default)


# ------------------------------------------------------------------------------------------------------- calls


class FunctionWorkflow(Value, frozen=True):
    """A function whose calls are captured, with its options."""

    name: str
    function: Callable[..., Any]
    options: CallOptions
    adapter: Adapter
    read_key: ReadKey | None = None
    has_task: bool = False  # its parameters are `task` and `repos`, and a letter keeps the task itself
    receiver: Receiver | None = None  # what a method is called on

    @property
    def identity(self) -> object:
        """Equal for a function and itself after its module was loaded again, or a notebook's cell run."""
        function = self.function
        name = getattr(function, "__qualname__", None)
        if name is not None and "<" not in name:
            return getattr(function, "__module__", None), name
        # The same inside of another function, where each call makes one: unless it sees that function's variables.
        code = getattr(function, "__code__", None)
        return function if code is None or getattr(function, "__closure__", None) else code

    def place_named(self, arguments: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return arguments by name as a call takes them: positional-only ones come first."""
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
            why = f"{type(problem).__name__}: {safe_str(problem)}"
            log.warning("a call of workflow %r has no key: %s", self.name, why)
            return None


def unknown_workflow(name: str) -> FunctionWorkflow:
    """Return a workflow without a function in this process; its letters wait for a worker that has one."""
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
    """Return whether its failures are captured. Raises InvalidInput if only those of an inner function are."""
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

    __slots__ = ("_args", "_kwargs", "_snapshot", "called", "task_id", "workflow")
    called: list[str]  # the letters of workflows that failed within it; only there if one has, as most calls succeed

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
        """True if a newer run of this work has begun elsewhere, so that a failure of this call does not count."""
        return False

    @property
    def repos(self) -> Any:
        """Repos of the task; none for a function with arguments of its own."""
        return self._task_and_repos(self._args, self._kwargs)[1] if self.workflow.has_task else ()

    def request(self, repos: Any = None) -> LetterRequest:
        """Return what a letter of it would have, for these `repos` only where they are given. It does not raise."""
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
        """Return the task of a letter, its repos, and what writes them."""
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
