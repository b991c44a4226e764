"""`@command` makes a command of a conversation with the API; `for_typer` makes what typer reads of any command.

@command(print_alerts)
async def list_alerts(api: Connection, resolved: Resolved = False) -> Any:
    \"\"\"List the alerts that hold.\"\"\"
    return await api.get("/alerts", {"resolved": resolved})
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, get_type_hints

import typer
from typer.core import TyperCommand

from mahavishnu.cli.options import NAMESPACE_OPTIONS, Session, choose_namespace, session_of
from mahavishnu.cli.output import AsJson, ExitCode, Listed, print_json

if TYPE_CHECKING:
    from mahavishnu.cli.client import Connection

Converse: TypeAlias = Callable[[Any], Awaitable[Any]]  # with a connection
_BY_TYPER = object()
_API = "api"  # the parameter that is the connection, and no option


@dataclass(frozen=True)
class Conversation:
    """A command that opens a connection, and is run with it."""

    function: Callable[..., Any]
    show: Callable[[Any], object] | None
    new: bool

    def run(self, session: Session, given: dict[str, Any]) -> None:
        """Open a connection, run the function, and print its result. Raises `typer.Exit` if it returns an exit code."""
        from mahavishnu.cli.client import run_conversation

        show = None if self.show is None or given.pop("json") else self.show
        is_async = inspect.iscoroutinefunction(self.function)
        converse: Converse = partial(self.function, **given) if is_async else self.function(**given)

        async def print_result(api: Connection) -> Any:
            result = await converse(api)
            if show is not None:
                show(result)
            elif result is not None and not isinstance(result, ExitCode):
                print_json(result)
            if isinstance(result, Listed):
                api.note_list_end(len(result), result.more)
            return result

        code = run_conversation(session, print_result, new=self.new)
        if isinstance(code, ExitCode) and code:
            raise typer.Exit(code)


def command(
    show: Callable[[Any], object] | None = None, *, new: bool = False
) -> Callable[[Callable[..., Any]], Conversation]:
    """Make a command of an `async def` that takes the connection `api` first, and then its arguments and options.

    A returned `ExitCode` ends the command, any other value but None is printed as JSON. With `show` the command has
    the option `--json`, and without that option `show` prints the value. With `new` the store may be made.

    A command that checks its options before a connection is opened is a plain `def` without `api`, and returns the
    `async` function that takes it.
    """
    return lambda function: Conversation(function, show, new)


def for_typer(declared: Conversation | Callable[..., None], *, namespaces: bool = False) -> Callable[..., None]:
    """Return a command as typer takes it, with an option for each field of the dataclasses among its parameters.

    With `namespaces` it also has --namespace and --all-namespaces.

    >>> @dataclass
    ... class Size:
    ...     width: int = 3
    >>> def draw(name: str, size: Size) -> None:
    ...     print(name, size)
    >>> inspect.signature(for_typer(draw))
    <Signature (*, name: str, width: int = 3) -> None>
    """
    conversation = declared if isinstance(declared, Conversation) else None
    function: Callable[..., Any] = declared.function if isinstance(declared, Conversation) else declared
    hints = get_type_hints(function, include_extras=True)
    signature = inspect.signature(function).parameters
    shared = {name: hints[name] for name in signature if is_dataclass(hints[name])}
    parameters = [_option(name, hints[name], each.default) for name, each in signature.items() if name not in shared]
    if conversation is not None:
        parameters = [_option("context", typer.Context), *(each for each in parameters if each.name != _API)]
        if conversation.show is not None:
            parameters.append(_option("json", AsJson, False))
    for kind in shared.values():
        kinds = get_type_hints(kind, include_extras=True)
        parameters += [_option(field.name, kinds[field.name], _default(field)) for field in fields(kind)]
    own = {each.name for each in parameters}
    if namespaces:
        parameters += [_option(name, *each) for name, each in NAMESPACE_OPTIONS.items() if name not in own]

    def run(**given: Any) -> None:
        if namespaces:
            named = choose_namespace(session_of(given["context"]), given)
            given |= {"namespace": named} if "namespace" in own else {}
        for name, kind in shared.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
        if conversation is None:
            function(**given)
        else:
            conversation.run(session_of(given.pop("context")), given)

    run.__doc__, run.__name__ = function.__doc__, function.__name__
    run.__signature__ = inspect.Signature(parameters, return_annotation=None)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _option(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _default(field: Field[Any]) -> Any:
    return inspect.Parameter.empty if field.default is MISSING else field.default


class PlainValues:
    """A command whose parameters take texts and whole numbers by themselves: typer would import pydantic for it.

    Anything else, and what is refused, is left to typer.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options and arguments."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for each in params:
            if "process_value" not in vars(each):
                vars(each)["process_value"] = partial(_process, each, each.process_value)
        return params


class PlainCommand(PlainValues, TyperCommand):
    """A single command."""


def _process(param: Any, by_typer: Callable[[Any, Any], Any], context: Any, given: Any) -> Any:
    declared = getattr(param, "type_descriptor", None)  # which older versions do not have, nor use pydantic
    value = _BY_TYPER if declared is None or (given is None and param.required) else _as_it_is(param, declared, given)
    if value is _BY_TYPER:
        return by_typer(context, given)
    return value if param.callback is None else param.callback(context, param, value)


def _as_it_is(param: Any, declared: Any, given: Any) -> Any:
    kind, limits = declared.annotation, declared.parameter_info
    several = param.nargs != 1 or getattr(param, "multiple", False)
    if given is None:
        return () if several else None
    if several:
        plain = kind == list[str] and given and isinstance(given, list | tuple) and all(map(str.isascii, given))
        return list(given) if plain else _BY_TYPER
    if kind is int and isinstance(given, str) and given.isascii() and given.isdecimal():
        fits = (limits.min is None or limits.min <= int(given)) and (limits.max is None or int(given) <= limits.max)
        return int(given) if fits else _BY_TYPER
    is_text = kind is str and isinstance(given, str) and given.isascii()
    return given if is_text or (type(given) is kind and given is param.default) else _BY_TYPER
