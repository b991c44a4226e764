"""Named queues: their definitions, what such a definition may say, and which queue may be another one's dead queue.

A queue's dead queue takes what died in it, and has none of its own: what died twice waits for a person. For queues
that settings declare, the declaration is the whole definition: options that are not given have their defaults.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from msgspec.structs import asdict, replace

from mahavishnu.model.clock import instant_text, parse_duration
from mahavishnu.model.errors import InvalidInput, InvalidOption
from mahavishnu.model.ids import DEFAULT_NAMESPACE
from mahavishnu.model.query import LONGEST_NAMESPACE, items_namespace
from mahavishnu.model.record import Value, Version, Versioned, defaults_of

LONGEST_QUEUE_NAME = 100
MOST_ATTEMPTS = 1_000_000
LONGEST_LEASE = timedelta(days=1)
MARK_LASTS = timedelta(minutes=1)  # how long who is about to name a dead queue may take for it
_NAME = re.compile(
    rf"[^/:@*\s\x00-\x1f\x7f](?:[^/:@*\x00-\x1f\x7f]{{0,{LONGEST_QUEUE_NAME - 2}}}[^/:@*\s\x00-\x1f\x7f])?"
)


class QueueKind(StrEnum):
    """The place of a queue's items."""

    PERSISTED = "persisted"  #: here, as letters
    EXTERNAL = "external"  #: elsewhere: the definition is only a name for it


class AttemptsRule(StrEnum):
    """The meaning of a queue's `max_attempts`, here of 2."""

    EXCEED = "exceed"  #: two failures are allowed, the third is the end
    INCLUSIVE = "inclusive"  #: the second failure is the end


class OnDead(StrEnum):
    """The fate of an item that died without a dead queue."""

    RETAIN = "retain"  #: it stays, for a person
    DELETE = "delete"


class RetryRule(Value, frozen=True):
    """The failures an item may have, and its wait before it can be leased again."""

    attempts: int = 0
    cooldown: str = "0s"


class QueueDefinition(Versioned, frozen=True):
    """The definition of a queue, read for each decision, so that a change counts from then on.

    `dead_queue` takes what died. An item dies at its failure number `retry.attempts` (0 is as 1), or when its failures
    exceed `max_attempts`, whichever is first; without both, at the first one. `sources` are the queues that name this
    one as their dead queue, or were about to at `sources_at`.
    """

    name: str
    created_at: datetime
    updated_at: datetime
    namespace: str = DEFAULT_NAMESPACE
    kind: QueueKind = QueueKind.PERSISTED
    dead_queue: str | None = None
    retry: RetryRule | None = None
    max_attempts: int | None = None
    attempts_rule: AttemptsRule = AttemptsRule.EXCEED
    expire_timeout: str | None = None
    lease_timeout: str = "60s"
    on_dead: OnDead = OnDead.RETAIN
    sources: tuple[str, ...] = ()
    sources_at: datetime | None = None
    version: Version | None = None

    @property
    def key(self) -> str:
        return definition_key(self.namespace, self.name)

    @property
    def lease_seconds(self) -> float:
        """The default lease length."""
        return parse_duration(self.lease_timeout).total_seconds()

    @property
    def cooldown(self) -> timedelta:
        """The wait of an item after a failure."""
        return parse_duration(self.retry.cooldown) if self.retry else timedelta(0)

    @property
    def deadly_failure(self) -> int:
        """The number of the failure that an item dies of.

        >>> when = datetime(2030, 1, 1)
        >>> QueueDefinition("q", when, when, max_attempts=2).deadly_failure
        3
        >>> QueueDefinition("q", when, when, max_attempts=2, retry=RetryRule(2)).deadly_failure
        2
        """
        limits = []
        if self.retry is not None:
            limits.append(self.retry.attempts)
        if self.max_attempts is not None:
            limits.append(self.max_attempts + (self.attempts_rule is AttemptsRule.EXCEED))
        return max(1, min(limits, default=1))

    def expires_at(self, now: datetime) -> datetime | None:
        """Return until when an item that comes in now can be leased; None: for ever."""
        return None if self.expire_timeout is None else now + parse_duration(self.expire_timeout)

    def to_dict(self) -> dict[str, Any]:
        """Return the definition as JSON values."""
        shown = ("name", "namespace", *OPTIONS, "created_at", "updated_at")
        return {name: plain_value(getattr(self, name)) for name in shown} | {"retry": asdict(self.retry or RetryRule())}


def plain_value(value: Any) -> Any:
    """Return the value of a field as JSON has it."""
    if isinstance(value, datetime):
        return instant_text(value)
    return str(value) if isinstance(value, StrEnum) else value


OPTIONS = (
    "kind", "dead_queue", "retry", "max_attempts", "attempts_rule", "expire_timeout", "lease_timeout", "on_dead",
)  # fmt: skip


def definition_key(namespace: str, name: str) -> str:
    """Return the key of a queue's definition."""
    return f"{namespace}/{name}"


def require_queue_name(name: Any, namespace: str) -> str:
    """Return the name, if a queue of the namespace can have it. Raise InvalidOption."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidOption(
            f"a queue is named by a text of 1 to {LONGEST_QUEUE_NAME} characters without / : @ * and without blanks "
            f"at its ends, not {name!r:.120}"
        )
    if len(items_namespace(namespace, name)) > LONGEST_NAMESPACE:
        raise InvalidOption(f"namespace and name of queue {name!r} are longer than {LONGEST_NAMESPACE} characters")
    return name


def set_options(definition: QueueDefinition, options: Mapping[str, Any], now: datetime) -> QueueDefinition:
    """Return the definition with these options, each checked. Raise InvalidOption, naming the queue and the option."""
    if unknown := options.keys() - set(OPTIONS):
        raise InvalidOption(f"queue {definition.name!r} has no option {', '.join(sorted(unknown))}; it has {OPTIONS}")
    changes: dict[str, Any] = {}
    for name, value in options.items():
        try:
            changes[name] = _CHECKS[name](value, definition)
        except InvalidOption:
            raise
        except InvalidInput as problem:
            raise InvalidOption(f"queue {definition.name!r}: {name}: {problem}") from None
    changed = replace(definition, **changes)
    if changed.kind is QueueKind.EXTERNAL:
        for name in ("retry", "dead_queue", "max_attempts"):
            if getattr(changed, name) is not None:
                raise InvalidOption(
                    f"queue {definition.name!r} is external: {name} cannot be set for what is elsewhere"
                )
    return definition if changed == definition else replace(changed, updated_at=now)


def require_dead_queue(definition: QueueDefinition, target: QueueDefinition | None) -> None:
    """Raise InvalidOption unless `target` can take what dies in this queue. None: there is no such queue."""
    name = definition.dead_queue
    if name == definition.name:
        raise InvalidOption("dead_queue cannot reference itself")
    if target is None:
        raise InvalidOption(f"dead_queue '{name}' does not exist; create it first")
    if target.dead_queue is not None:
        raise InvalidOption(f"dead_queue '{name}' cannot have its own dead_queue")
    if target.kind is QueueKind.EXTERNAL:
        raise InvalidOption(f"dead_queue '{name}' is external: what dies here cannot be moved there")


def refuse_as_source(definition: QueueDefinition, referrers: Collection[str]) -> None:
    """Raise InvalidOption if a queue that is the dead queue of others is about to get one itself."""
    if referrers:
        raise InvalidOption(f"dead_queue '{definition.name}' cannot have its own dead_queue")


def refuse_deletion(definition: QueueDefinition, referrers: Collection[str]) -> None:
    """Raise InvalidOption if other queues need this one as their dead queue."""
    if referrers:
        named = ", ".join(f"'{name}'" for name in sorted(referrers))
        raise InvalidOption(
            f"queue '{definition.name}' is the dead_queue of {named}: change these first, or delete it with force, "
            "which takes their dead_queue away"
        )


def add_source(target: QueueDefinition, name: str, now: datetime) -> QueueDefinition:
    """Return `target` with a mark that this queue names it, or is about to, as its dead queue."""
    if name in target.sources and target.sources_at is not None and now - target.sources_at < MARK_LASTS / 2:
        return target
    return replace(target, sources=(*(each for each in target.sources if each != name), name), sources_at=now)


def drop_source(target: QueueDefinition, name: str) -> QueueDefinition:
    """Return `target` without that mark."""
    if name not in target.sources:
        return target
    return replace(target, sources=tuple(each for each in target.sources if each != name))


def marks_may_be_under_way(target: QueueDefinition, now: datetime) -> bool:
    """Return whether the queue that marked it last may still be about to name it."""
    return target.sources_at is not None and now - target.sources_at < MARK_LASTS


def require_lease_seconds(seconds: Any) -> float:
    """Return the length of a lease in seconds. Raise InvalidInput."""
    most = LONGEST_LEASE.total_seconds()
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0.001 <= seconds <= most:
        raise InvalidInput(f"lease_seconds must be a number from 0.001 to {most:g}, not {seconds!r:.80}")
    return float(seconds)


def check_declared(queues: Mapping[str, Any], namespace: str) -> dict[str, dict[str, Any]]:
    """Return the declared queues with their options. Raise InvalidOption, naming the queue and the option.

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
    """Return the definition of a declared queue, without real dates and version. Raise InvalidOption.

    >>> declared_definition("orders", {"max_attempts": 2}, "default").max_attempts
    2
    """
    return set_options(QueueDefinition(name, _ANY_TIME, _ANY_TIME, namespace), options, _ANY_TIME)


def whole_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options, with the default for each that is missing."""
    return {**_DEFAULTS, **options}


def in_order(queues: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the names, those without a dead queue first: they may be that of others.

    >>> in_order({"a": {"dead_queue": "b"}, "b": {}})
    ['b', 'a']
    """
    return sorted(queues, key=lambda name: bool(queues[name].get("dead_queue")))


def _member(kind: type[StrEnum], value: Any) -> StrEnum:
    try:
        return kind(value)
    except ValueError:
        raise InvalidInput(f"it is one of {', '.join(kind)}, not {value!r:.80}") from None


def _whole(value: Any, least: int) -> int:
    if type(value) is not int or not least <= value <= MOST_ATTEMPTS:
        raise InvalidInput(f"it is a whole number from {least} to {MOST_ATTEMPTS}, not {value!r:.80}")
    return value


def _retry(value: Any) -> RetryRule | None:
    if value is None:
        return None
    if isinstance(value, RetryRule):
        value = asdict(value)
    if not isinstance(value, Mapping) or value.keys() - {"attempts", "cooldown"}:
        raise InvalidInput(f"it has attempts and cooldown, and is not {value!r:.80}")
    try:
        rule = RetryRule(_whole(value.get("attempts", 0), 0), value.get("cooldown", "0s"))
    except InvalidInput as problem:
        raise InvalidInput(f"attempts: {problem}") from None
    try:
        parse_duration(rule.cooldown)
    except InvalidInput as problem:
        raise InvalidInput(f"cooldown: {problem}") from None
    return rule


def _duration(value: Any, least: timedelta, most: timedelta | None = None) -> str:
    if (length := parse_duration(value)) < least or (most is not None and length > most):
        raise InvalidInput(f"it is at least {least}{'' if most is None else f' and at most {most}'}, not {value!r}")
    return str(value)


def _dead_queue(value: Any, definition: QueueDefinition) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, str):
        value = value.strip().removeprefix(f"{definition.namespace}/")
    return require_queue_name(value, definition.namespace)


_CHECKS: Mapping[str, Any] = {
    "kind": lambda value, _: _member(QueueKind, value),
    "dead_queue": _dead_queue,
    "retry": lambda value, _: _retry(value),
    "max_attempts": lambda value, _: None if value is None else _whole(value, 0),
    "attempts_rule": lambda value, _: _member(AttemptsRule, value),
    "expire_timeout": lambda value, _: None if value is None else _duration(value, timedelta(milliseconds=1)),
    "lease_timeout": lambda value, _: _duration(value, timedelta(milliseconds=1), LONGEST_LEASE),
    "on_dead": lambda value, _: _member(OnDead, value),
}
_DEFAULTS = {name: default for name, default in defaults_of(QueueDefinition).items() if name in OPTIONS}
_ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)
