"""The schema number of a store: refuses what this version cannot read, and upgrades what an older one wrote.

A SQLite file and each index of OpenSearch carry the number of the version that made them. Additions that older code may
ignore, such as another field, leave it as it is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from mahavishnu.model.errors import IncompatibleStore

SCHEMA = 1  # raised when other code could misread or spoil a store, together with an entry in UPGRADES
UNNUMBERED = 0  # a store of a development version before 0.1.0


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The way from one number to the next one.

    `file` gets a connection in a transaction, which stores the number, too: it is done once. `index` gets a function
    that sends a request (method, path, body) and the name of the index. It may be done twice, also at the same time.
    """

    file: Callable[[sqlite3.Connection], None]
    index: Callable[[Callable[..., Awaitable[object]], str], Awaitable[None]]


UPGRADES: dict[int, Upgrade] = {}  # by the number that they lead away from


def upgrades_from(found: int, what: str) -> list[Upgrade]:
    """Return the upgrades from the number that was `found` to the present one. Raises IncompatibleStore."""
    steps = range(found, SCHEMA)
    if found > SCHEMA or any(step not in UPGRADES for step in steps):
        raise IncompatibleStore(what, found, SCHEMA)
    return [UPGRADES[step] for step in steps]
