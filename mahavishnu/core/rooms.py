"""The rooms of the program: a new feature is a folder with a `ROOM`, and one line here.

They stand in the order of `mahavishnu --help`; `CommandGroup` and `Link` say where else an order matters.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mahavishnu.engine.rooms import CommandGroup, Room, load

if TYPE_CHECKING:
    from mahavishnu.engine.periodic import PeriodicTask
    from mahavishnu.engine.queue import LetterQueue
    from mahavishnu.stores.kind import Kind

_NAMES = (
    "settings",
    "letters",
    "groups",
    "bulk",
    "queues",
    "archive",
    "tasks",
    "events",
    "search",
    "alerts",
    "audit",
    "workers",
    "monitoring",
    "encryption",
    "access",
    "capture",
    "http",
    "console",
)
# The processes themselves belong to no room.
_PROCESSES = Room(
    groups=(
        CommandGroup("serve", "Serve the HTTP API.", "mahavishnu.core.processes:serve"),
        CommandGroup("demo", "Run workflows that fail in telling ways, retry them, and watch.", "mahavishnu_demo:demo"),
    )
)


@cache
def rooms() -> tuple[Room, ...]:
    """Return what each room declares; no room's modules are imported."""
    return (*(load(f"mahavishnu.{name}:ROOM") for name in _NAMES), _PROCESSES)


@cache
def services() -> dict[str, str]:
    """Return the `module:Class` of each service by the attribute of the queue."""
    return {name: target for room in rooms() for name, target in room.services.items()}


@cache
def service_names() -> dict[str, str]:
    """Return the attribute of the queue by the `module:Class` of its service."""
    return {target: name for name, target in services().items()}


@cache
def room_kinds() -> tuple[Kind[Any], ...]:
    """Return the kinds of records of all rooms."""
    return tuple(load(target) for room in rooms() for target in room.kinds)


def chores(queue: LetterQueue) -> Iterator[PeriodicTask]:
    """Return the periodic tasks of all rooms."""
    for room in rooms():
        if room.chores is not None:
            yield from load(room.chores)(queue)


def pages() -> Iterator[ModuleType]:
    """Import the modules of the console's pages."""
    for room in rooms():
        yield from map(import_module, room.pages)
