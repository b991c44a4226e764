"""A room: one feature, declared in one object by names that are imported when they are needed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from msgspec import field

from mahavishnu.model.record import Value


class Routes(Value, frozen=True):
    """A router, named as `module:router`, that declares routes below `/api/v1/<resource>`."""

    resource: str
    target: str

    @property
    def router(self) -> Any:
        """Import the module, and return its router."""
        return load(self.target)


class Read(Value, frozen=True):
    """A function that answers GET on a path for the command line, as its route does, but without a web framework.

    It is given the queue of the namespace, the variable parts of the path, and these parameters as they were sent; a
    request with any other parameter is for the route.
    """

    path: str  #: below `/api/v1`; a variable part is `{}`
    target: str
    texts: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()


class CommandGroup(Value, frozen=True):
    """The first word of commands, such as `mahavishnu dlq`; or, without a `Command` of its own, a whole command."""

    name: str
    help: str  #: its line in the help of `mahavishnu`
    target: str | None = None  #: the function that runs without a verb; it takes --server and --store itself
    takes_store: bool = True  #: --server and --store may stand before the verb


class Command(Value, frozen=True):
    """A verb of a group, and the function that runs: `Command("group", "show", "mahavishnu.groups.commands:show")`."""

    group: str
    name: str
    target: str
    listed: bool = True  #: in the help; a verb that is not listed has another name there, or a verb that does more
    namespaced: bool = True  #: has --namespace and --all-namespaces, where the group takes a store


class Room(Value, frozen=True, kw_only=True):
    """Everything that the rest of the program has to know of a feature. Names are `module:name`, pages are modules."""

    kinds: tuple[str, ...] = ()  #: the kinds of records that it keeps
    services: Mapping[str, str] = field(default_factory=dict)  #: classes, by the attribute of the queue
    chores: str | None = None  #: a function from the queue to its periodic tasks
    routes: tuple[Routes, ...] = ()
    reads: tuple[Read, ...] = ()
    groups: tuple[CommandGroup, ...] = ()
    commands: tuple[Command, ...] = ()
    pages: tuple[str, ...] = ()  #: modules with a `router`, and `LINKS` for the navigation


def load(target: str) -> Any:
    """Import the thing that `module:name` names."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)
