"""The declarations of a feature for the surfaces: HTTP routes and commands, by dotted names.

A declaration imports nothing. The server, the command line without a server and its help read the same tables, and
import a module when it is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Routes:
    """A router, named as `module:router`, that declares routes below `/api/v1/<resource>`."""

    resource: str
    target: str

    @property
    def router(self) -> Any:
        """Import the module, and return its router."""
        return load(self.target)


@dataclass(frozen=True)
class CommandGroup:
    """The first word of commands, such as `mahavishnu dlq`; or, without a `Command` of its own, a whole command."""

    name: str
    help: str  #: its line in the help of `mahavishnu`
    target: str | None = None  #: the function that runs without a verb; it takes --server and --store itself
    takes_store: bool = True  #: --server and --store may stand before the verb


@dataclass(frozen=True)
class Command:
    """A verb of a group, and the function that runs: `Command("group", "show", "mahavishnu.groups.commands:show")`."""

    group: str
    name: str
    target: str
    listed: bool = True  #: in the help; a verb that is not listed has another name there, or a verb that does more
    namespaced: bool = True  #: has --namespace and --all-namespaces, where the group takes a store


def load(target: str) -> Any:
    """Import the function of a `module:function`."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)
