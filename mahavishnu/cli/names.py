"""Names as people type them: groups and runs by their beginnings, acts and subjects of the audit."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mahavishnu.cli.output import NotFound
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.permissions import ACT_PERMISSIONS

if TYPE_CHECKING:
    from mahavishnu.cli.client import Connection
    from mahavishnu.cli.options import Filters

_NAMED = 5  # candidates
_ACTIONS = (*ACT_PERMISSIONS, "denied")
_SUBJECTS = ("letter", "group", "run", "task", "view")


async def resolve_run(api: Connection, given: str) -> Any:
    """The bulk run of this id, or of the only id that begins so. Raises NotFound and InvalidInput."""
    return await _resolve(api, "/runs", given, "run", "run_id", {})


async def resolve_group(api: Connection, given: str) -> Any:
    """The group of this fingerprint, or of the only one that begins so, with `v1:` or without."""
    return await _resolve(api, "/groups", given, "group", "fingerprint", {"quiet": "true"})


async def resolve_filter(api: Connection, chosen: Filters) -> dict[str, Any]:
    """Return the filter with whole ids of groups and runs. Raises NotFound, and InvalidInput for unknown policies."""
    from mahavishnu.model.letter_parts import RetryPolicy

    params = chosen.api_filter()
    if groups := params.get("fingerprint"):
        params["fingerprint"] = [await _fingerprint_of(api, each) for each in groups]
    if runs := params.get("run"):
        params["run"] = [(await resolve_run(api, each))["run_id"] for each in runs]
    known = tuple(RetryPolicy)
    for policy in params.get("policy", ()):
        if policy not in known and not await api.list("/dlq", {"policy": policy}, 1):
            raise InvalidInput(f"no letter has the retry policy {_suggestion(policy, known)}")
    return params


async def _fingerprint_of(api: Connection, given: str) -> str:
    """The whole fingerprint; where all namespaces are meant, also of a group that is in several of them."""
    if api.session.namespace != "*":
        return str((await resolve_group(api, given))["fingerprint"])
    return await _resolve_name(api, "/groups", given, "group", "fingerprint", {"quiet": "true"})


async def check_action(api: Connection, action: str | None) -> None:
    """Raise InvalidInput for an action that is none of ours and is in no audit entry."""
    if action and action not in _ACTIONS and not await api.list("/audit", {"action": action}, 1):
        raise InvalidInput(f"nobody ever did {_suggestion(action, _ACTIONS)}")


def audit_subject(given: str | None) -> str | None:
    """The subject of audit entries: a letter, where it does not say what it is.

    >>> audit_subject("order/119"), audit_subject("run:0197"), audit_subject("queue")
    ('letter:order/119', 'run:0197', 'queue')
    """
    if not given or given == "queue" or given.partition(":")[0] in _SUBJECTS or given.startswith("/"):
        return given
    return f"letter:{given}"


def _suggestion(given: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(given, known, 1)
    return f"{given!r}; " + (f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}")


async def _resolve(
    api: Connection, path: str, given: str, what: str, name: str, asked: Mapping[str, Any]
) -> Mapping[str, Any]:
    from mahavishnu.cli.client import path_part

    if given:
        try:
            found: Mapping[str, Any] = await api.get(f"{path}/{path_part(given)}")
            return found
        except NotFound:
            pass
    only = await _resolve_name(api, path, given, what, name, asked)
    whole: Mapping[str, Any] = await api.get(f"{path}/{path_part(only)}")
    return whole


async def _resolve_name(api: Connection, path: str, given: str, what: str, name: str, asked: Mapping[str, Any]) -> str:
    """The only name that begins so, or is the given one."""
    known = list(dict.fromkeys(str(each[name]) for each in await api.list(path, asked, None)))
    begin = [given] if given in known else [each for each in known if given and _starts_with(each, given)]
    if not begin:
        raise NotFound.among(what, given, known)
    if len(begin) > 1:
        named = ", ".join(begin[:_NAMED]) + (", …" if len(begin) > _NAMED else "")
        raise InvalidInput(f"{given!r} may be each of these {what}s: {named}")
    return begin[0]


def _starts_with(name: str, given: str) -> bool:
    """Return True if a name starts with the given text, with its version or after it.

    >>> _starts_with("v1:4be0a0", "4be"), _starts_with("v1:4be0a0", "v1:4"), _starts_with("v1:4be0a0", "be0")
    (True, True, False)
    """
    return name.startswith(given) or name.partition(":")[2].startswith(given)
