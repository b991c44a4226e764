"""`--namespace` and `--all-namespaces`: options of every command that is about letters."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeAlias, get_type_hints

import typer

from mahavishnu.cli.options import session_of
from mahavishnu.model.errors import InvalidInput

_ALL = "*"  # as in model.namespaces, which imports more than help can wait for
Namespace: TypeAlias = Annotated[
    str | None, typer.Option("--namespace", metavar="NAME", help="Of this namespace, not of the app's own one.")
]
AllNamespaces: TypeAlias = Annotated[
    bool, typer.Option("--all-namespaces", help="Of all namespaces: to look; what changes letters is refused.")
]


def with_namespace(command: Callable[..., None]) -> Callable[..., None]:
    """The command with both options, whatever it asks. One name is meant for all its requests; several are a filter."""
    hints = get_type_hints(command, include_extras=True)
    own = inspect.signature(command).parameters
    parameters = [each.replace(annotation=hints[each.name]) for each in own.values()]
    more: dict[str, Any] = {"namespace": (Namespace, None), "all_namespaces": (AllNamespaces, False)}
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in more.items()
        if name not in own
    ]

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        everywhere, named = given.pop("all_namespaces"), given.pop("namespace")
        names = [named] if isinstance(named, str) else list(named or ())
        if everywhere and names:
            raise InvalidInput("give --namespace or --all-namespaces, not both")
        session = session_of(given["context"])
        if everywhere or names == [_ALL]:
            session.namespace = _ALL
        elif len(names) == 1:
            from mahavishnu.model.namespaces import require_namespace

            session.namespace = require_namespace(names[0])
        if "namespace" in own:
            given["namespace"] = named if session.namespace is None else None
        command(**given)

    with_options.__signature__ = inspect.Signature(parameters, return_annotation=None)  # type: ignore[attr-defined]
    with_options.__annotations__ = {each.name: each.annotation for each in parameters}
    del with_options.__wrapped__  # its signature is another one
    return with_options


def namespace_column(shown: Sequence[Mapping[str, Any]]) -> list[str]:
    """The title of the column that says whose each is, where there are several."""
    return ["namespace"] if len({each["namespace"] for each in shown}) > 1 else []
