"""What people call groups, runs and letters, as the API calls them: an id may be cut short where that is unique."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mahavishnu.cli.exits import NotFound
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.letter_parts import RetryPolicy

if TYPE_CHECKING:
    from mahavishnu.cli.client import Connection
    from mahavishnu.cli.filters import Filters

_NAMED = 5  # candidates
_POLICIES = tuple(RetryPolicy)
_ACTIONS = (
    *("redrive", "resurrect", "requeue", "retry", "edit", "resolve", "fail", "cancel", "archive", "clear", "import"),
    *("reclassify", "regroup", "group.update", "denied"),
    *("run.start", "run.pause", "run.resume", "run.cancel", "run.halt", "run.done"),
)
_SUBJECTS = ("letter", "group", "run")


async def resolve_run(api: Connection, given: str) -> Any:
    """The bulk run of this id, or of the only one that begins so. Raises NotFound and InvalidInput."""
    return await _called(api, "/runs", given, "run", "run_id", {})


async def resolve_group(api: Connection, given: str) -> Any:
    """The group of this fingerprint, or of the only one that begins so, with `v1:` or without."""
    return await _called(api, "/groups", given, "group", "fingerprint", {"quiet": "true"})


async def resolve_filter(api: Connection, chosen: Filters) -> dict[str, Any]:
    """The filter, in the API's words. Raises NotFound for groups and runs that are not there, InvalidInput for policies
    that no letter has.
    """
    asked = chosen.api_filter()
    if groups := asked.get("fingerprint"):
        asked["fingerprint"] = [(await resolve_group(api, each))["fingerprint"] for each in groups]
    if runs := asked.get("run"):
        asked["run"] = [(await resolve_run(api, each))["run_id"] for each in runs]
    for policy in asked.get("policy", ()):
        if policy not in _POLICIES and not await api.list("/dlq", {"policy": policy}, 1):
            raise InvalidInput(f"no letter has the retry policy {_mistaken(policy, _POLICIES)}")
    return asked


async def check_action(api: Connection, action: str | None) -> None:
    """Raise InvalidInput for an action that is none of ours and that nobody ever did."""
    if action and action not in _ACTIONS and not await api.list("/audit", {"action": action}, 1):
        raise InvalidInput(f"nobody ever did {_mistaken(action, _ACTIONS)}")


def audit_subject(given: str | None) -> str | None:
    """What an audit is asked about: a letter, where it does not say what it is.

    >>> audit_subject("order/119"), audit_subject("run:0197"), audit_subject("queue")
    ('letter:order/119', 'run:0197', 'queue')
    """
    if not given or given == "queue" or given.partition(":")[0] in _SUBJECTS or given.startswith("/"):
        return given
    return f"letter:{given}"


def _mistaken(given: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(given, known, 1)
    return f"{given!r}; " + (f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}")


async def _called(
    api: Connection, path: str, given: str, what: str, name: str, asked: Mapping[str, Any]
) -> Mapping[str, Any]:
    from mahavishnu.cli.client import path_part

    if given:
        try:
            found: Mapping[str, Any] = await api.get(f"{path}/{path_part(given)}")
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
    whole: Mapping[str, Any] = await api.get(f"{path}/{path_part(begin[0])}")
    return whole


def _begins(name: str, given: str) -> bool:
    """Whether a name begins so, after its version too.

    >>> _begins("v1:4be0a0", "4be"), _begins("v1:4be0a0", "v1:4"), _begins("v1:4be0a0", "be0")
    (True, True, False)
    """
    return name.startswith(given) or name.partition(":")[2].startswith(given)
