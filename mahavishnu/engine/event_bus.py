"""The event bus: calls listeners, a user's observability manager and the log with what happened."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Any

from mahavishnu.model.errors import ENDS, InvalidInput
from mahavishnu.model.events import Event, EventName, Listener

log = logging.getLogger("mahavishnu.dlq")
_WARNINGS = frozenset({EventName.EXHAUSTED, EventName.STALE_CLAIM})


class EventBus:
    """Calls every listener with each event; one that raises is logged and does not affect the others."""

    def __init__(self) -> None:
        self._listeners: list[tuple[Listener, Collection[EventName] | None]] = [(_log_event, None)]

    def subscribe(self, listener: Listener, names: Collection[EventName] | None = None) -> Callable[[], None]:
        """Call `listener` with each event from now on, or with those of these names. Returns a function that ends it.

        Raises InvalidInput for a listener that cannot be called.
        """
        if not callable(listener):
            raise InvalidInput(f"a listener is a function of an event, not {listener!r:.80}")
        self._listeners.append((listener, names))
        return lambda: self._listeners.remove((listener, names))

    def publish(self, event: Event) -> None:
        """Call every listener with this event. Raises only what ends a program."""
        for listener, names in list(self._listeners):
            if names is not None and event.name not in names:
                continue
            try:
                listener(event)
            except ENDS:
                raise
            except BaseException:
                log.exception("a listener stumbled over %s", event.name)


def reporting_to(manager: Any) -> Listener:
    """A listener that hands events to an object with `log_info` and `log_error`, each `(message, attributes)`."""

    def report(event: Event) -> None:
        method = getattr(manager, "log_error" if event.name in _WARNINGS else "log_info", None)
        if method is not None:
            method(_sentence(event), _attributes(event))

    return report


def _log_event(event: Event) -> None:
    level = logging.WARNING if event.name in _WARNINGS else logging.DEBUG
    if log.isEnabledFor(level):
        log.log(level, "%s", _sentence(event))


def _sentence(event: Event) -> str:
    letter = event.letter
    if letter is None:
        return event.name
    return f"{event.name}: {letter.key} ({letter.status}, attempt {letter.total_attempts}): {letter.last_error:.200}"


def _attributes(event: Event) -> dict[str, Any]:
    attributes: dict[str, Any] = {"event": str(event.name), "at": event.at.isoformat(), **event.detail}
    if event.letter is not None:
        attributes |= {
            "task_id": event.letter.task_id,
            "entry_id": event.letter.entry_id,
            "status": str(event.letter.status),
            "error_category": event.letter.error_category,
            "retry_count": event.letter.retry_count,
        }
    return attributes
