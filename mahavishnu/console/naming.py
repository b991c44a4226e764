"""What people call groups, runs and letters, as the API calls them: an id may be cut short where that is unique."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mahavishnu.console.exits import NotFound
from mahavishnu.model.errors import InvalidInput

if TYPE_CHECKING:
    from mahavishnu.console.client import Connection

_NAMED = 5  # candidates


async def run_called(api: Connection, given: str) -> Any:
    """The bulk run of this id, or of the only one that begins so. Raises NotFound and InvalidInput."""
    return await _called(api, "/runs", given, "run", "run_id", {})


async def group_called(api: Connection, given: str) -> Any:
    """The group of this fingerprint, or of the only one that begins so, with `v1:` or without."""
    return await _called(api, "/groups", given, "group", "fingerprint", {"quiet": "true"})


async def _called(
    api: Connection, path: str, given: str, what: str, name: str, asked: Mapping[str, Any]
) -> Mapping[str, Any]:
    from mahavishnu.console.client import part

    if given:
        try:
            found: Mapping[str, Any] = await api.get(f"{path}/{part(given)}")
            return found
        except NotFound:
            pass
    known = [str(each[name]) for each in await api.list(path, asked, None)]
    begin = [each for each in known if given and _begins(each, given)]
    if not begin:
        raise NotFound.among(what, given, known)
    if len(begin) > 1:
        named = ", ".join(begin[:_NAMED]) + (", …" if len(begin) > _NAMED else "")
        raise InvalidInput(f"{given!r} may be each of these {what}s: {named}")
    whole: Mapping[str, Any] = await api.get(f"{path}/{part(begin[0])}")
    return whole


def _begins(name: str, given: str) -> bool:
    """Whether a name begins so, after its version too.

    >>> _begins("v1:4be0a0", "4be"), _begins("v1:4be0a0", "v1:4"), _begins("v1:4be0a0", "be0")
    (True, True, False)
    """
    return name.startswith(given) or name.partition(":")[2].startswith(given)
