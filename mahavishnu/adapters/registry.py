"""The adapters of an app, by name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType

from mahavishnu.adapters.base import Adapter, Workflow, as_adapter
from mahavishnu.model.errors import InvalidInput, NoSuchAdapter


class AdapterRegistry:
    """Knows how each kind of workflow is run.

    >>> adapters = Adapters()
    >>> adapters.register("echo", lambda task, repos: task)
    >>> adapters.get("echo")
    PythonAdapter('<lambda>')
    """

    def __init__(self) -> None:
        self._known: dict[str, Adapter] = {}

    @property
    def known(self) -> Mapping[str, Adapter]:
        """All of them."""
        return MappingProxyType(self._known)

    def register(self, name: str, thing: Adapter | Workflow) -> None:
        """Run the workflows of this name with `thing` from now on. Raises InvalidInput if it cannot run any."""
        if not isinstance(name, str) or not name:
            raise InvalidInput(f"an adapter's name must be text that is not empty, not {name!r}")
        self._known[name] = as_adapter(thing)

    def get(self, name: str) -> Adapter:
        """The adapter of this name. Raises NoSuchAdapter."""
        found = self._known.get(name)
        if found is None:
            near = difflib.get_close_matches(str(name), self._known, 1)
            known = f"there are {', '.join(sorted(self._known))}" if self._known else "none is registered"
            raise NoSuchAdapter(str(name), f"did you mean {near[0]!r}?" if near else known)
        return found
