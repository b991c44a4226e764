"""`--namespace` and `--all-namespaces`: options of every command that is about letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeAlias

import typer

from mahavishnu.cli.options import Session
from mahavishnu.model.errors import InvalidInput

_ALL = "*"  # as in model.namespaces, which imports more than help can wait for
Namespace: TypeAlias = Annotated[
    str | None, typer.Option("--namespace", metavar="NAME", help="Of this namespace, not of the app's own one.")
]
AllNamespaces: TypeAlias = Annotated[
    bool, typer.Option("--all-namespaces", help="Of all namespaces: to look; what changes letters is refused.")
]
NAMESPACE_OPTIONS: Mapping[str, tuple[Any, Any]] = {
    "namespace": (Namespace, None),
    "all_namespaces": (AllNamespaces, False),
}


def choose_namespace(session: Session, given: dict[str, Any]) -> Any:
    """Take both options from those that are `given`. One name is meant for all requests; several are a filter.

    The return value is the filter, or None. The option --project of a command is a name, too.
    """
    everywhere, named = given.pop("all_namespaces"), given.pop("namespace")
    names = [named] if isinstance(named, str) else list(named or ())
    if everywhere and names:
        raise InvalidInput("give --namespace or --all-namespaces, not both")
    if everywhere or names == [_ALL]:
        session.namespace = _ALL
    elif len(names) == 1:
        session.namespace = _require(names[0])
    if given.get("project") is not None:
        session.namespace = _require(given["project"])
    return named if session.namespace is None else None


def _require(name: str) -> str:
    from mahavishnu.model.namespaces import require_namespace

    return require_namespace(name)


def namespace_column(shown: Sequence[Mapping[str, Any]]) -> list[str]:
    """The title of the column that says whose each is, where there are several."""
    return ["namespace"] if len({each["namespace"] for each in shown}) > 1 else []
