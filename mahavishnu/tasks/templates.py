"""Templates of lifecycle tasks: limits of tasks of one kind. They are read live, never copied into tasks."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.record import Value


class StalenessAction(StrEnum):
    """A template's action for its stale tasks."""

    DLQ = "dlq"  #: the task is in `error`, and has a letter
    ERROR = "error"  #: it is in `error`, without a letter
    MANUAL_REVIEW = "manual_review"  #: it stays as it is, and a person is told


class LifecycleLimits(Value, frozen=True):
    """The `lifecycle:` block of a template, in minutes; None where the settings count."""

    max_duration_minutes: int | None = None
    max_waiting_for_dependencies_minutes: int | None = None
    max_waiting_for_retry_minutes: int | None = None
    max_steps_in_process_minutes: int | None = None
    max_blocked_minutes: int | None = None
    staleness_action: StalenessAction | None = None
    auto_fail_on_timeout: bool | None = None
    auto_dlq_on_timeout: bool | None = None

    def warnings(self, template: str) -> list[str]:
        """Return warnings of limits that the whole task never reaches, which is most likely not meant."""
        longest = self.max_duration_minutes
        return [
            f"template {template!r:.80}: {name} is {value}, but its tasks live for {longest} minutes only"
            for name in _MINUTES[1:]
            if longest is not None and (value := getattr(self, name)) is not None and value > longest
        ]


_KEYS = LifecycleLimits.__struct_fields__
_MINUTES = _KEYS[:5]


def read_limits(template: str, block: Any) -> LifecycleLimits:
    """Return the limits in the `lifecycle` block of a template; None: it has no block.

    Raises InvalidInput for an unknown key, for minutes below 1, and for an unknown action.

    >>> read_limits("payment", {"max_duration_minutes": 30, "staleness_action": "dlq"}).max_duration_minutes
    30
    """
    where = f"template {template!r:.80}"
    if block is None:
        return LifecycleLimits()
    if not isinstance(block, Mapping):
        raise InvalidInput(f"{where}: lifecycle must be a map of limits, not {block!r:.80}")
    given: dict[str, Any] = {}
    for key, value in block.items():
        if key not in _KEYS:
            near = difflib.get_close_matches(str(key), _KEYS, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(_KEYS)}"
            raise InvalidInput(f"{where}: lifecycle has no key {key!r:.80}{hint}")
        if value is None:
            continue
        if key in _MINUTES:
            if type(value) is not int or value < 1:
                raise InvalidInput(f"{where}: {key} must be a whole number of minutes from 1, not {value!r:.80}")
        elif key == "staleness_action":
            value = _read_action(where, value)
        elif type(value) is not bool:
            raise InvalidInput(f"{where}: {key} must be true or false, not {value!r:.80}")
        given[key] = value
    return LifecycleLimits(**given)


def _read_action(where: str, value: Any) -> StalenessAction:
    try:
        return StalenessAction(value)
    except ValueError:
        raise InvalidInput(
            f"{where}: staleness_action must be one of {', '.join(StalenessAction)}, not {value!r:.80}"
        ) from None


def read_templates(given: Any) -> dict[str, LifecycleLimits]:
    """Return the limits of each template by its name; other keys of a template are ignored. Raises InvalidInput."""
    if not isinstance(given, Mapping):
        raise InvalidInput(f"templates must be a map of templates by their names, not {given!r:.80}")
    found: dict[str, LifecycleLimits] = {}
    for name, template in given.items():
        if not isinstance(template, Mapping | None):
            raise InvalidInput(
                f"template {str(name)!r:.80} must be a map, with a lifecycle block, not {template!r:.80}"
            )
        found[str(name)] = read_limits(str(name), None if template is None else template.get("lifecycle"))
    return found
