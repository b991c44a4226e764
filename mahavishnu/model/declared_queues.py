"""Queues that settings declare: what is said there is the whole definition, and what is not said is as usual."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from mahavishnu.model.errors import InvalidOption
from mahavishnu.model.queues import OPTIONS, QueueDefinition, require_queue_name, set_options

_DEFAULTS = {each.name: each.default for each in fields(QueueDefinition) if each.name in OPTIONS}
_ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)


def check_declared(queues: Mapping[str, Any], namespace: str) -> dict[str, dict[str, Any]]:
    """The queues with what is said of each. Raises InvalidOption, which names the queue and the option.

    >>> check_declared({"orders": None}, "default")
    {'orders': {}}
    """
    found: dict[str, dict[str, Any]] = {}
    for name, options in queues.items():
        require_queue_name(name, namespace)
        if options is not None and not isinstance(options, Mapping):
            raise InvalidOption(f"queue {name!r} is declared by a map of options, not by {options!r:.80}")
        declared_definition(name, options or {}, namespace)
        found[name] = dict(options or {})
    return found


def declared_definition(name: str, options: Mapping[str, Any], namespace: str) -> QueueDefinition:
    """What the store will have of a queue that is declared so, but for dates and version. Raises InvalidOption.

    >>> declared_definition("orders", {"max_attempts": 2}, "default").max_attempts
    2
    """
    return set_options(QueueDefinition(name, _ANY_TIME, _ANY_TIME, namespace), options, _ANY_TIME)


def whole_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with the usual value for each that is not said."""
    return {**_DEFAULTS, **options}


def in_order(queues: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The names, those first that have no dead queue: they may be that of others.

    >>> in_order({"a": {"dead_queue": "b"}, "b": {}})
    ['b', 'a']
    """
    return sorted(queues, key=lambda name: bool(queues[name].get("dead_queue")))
