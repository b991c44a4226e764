"""Everything a plugin can take part in. Nothing here imports more than pluggy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pluggy import HookimplMarker, HookspecMarker

if TYPE_CHECKING:
    from mahavishnu.classify.verdict import Context, Verdict
    from mahavishnu.model.backoff import FailedRetry
    from mahavishnu.model.events import DomainEvent
    from mahavishnu.model.letter_parts import ErrorCategory
    from mahavishnu.values.kinds import ValueKind

PROJECT = "mahavishnu"
hookspec = HookspecMarker(PROJECT)
hookimpl = HookimplMarker(PROJECT)


@hookspec(firstresult=True)
def classify_error(error: BaseException | str, context: Context) -> ErrorCategory | Verdict | None:
    """Say what kind of failure it was, or None for no opinion. The first opinion counts.

    `error` is the exception, or a text where only that is known. Answer quickly, without waiting for anything: a plugin
    that takes longer than `plugin_timeout_ms` is passed over. It runs in a thread of its own.
    """


@hookspec(firstresult=True)
def fingerprint_failure(error: BaseException | str, context: Context) -> str | None:
    """Name what failures with the same cause have in common, or None for the usual grouping."""


@hookspec(firstresult=True)
def validate_task(task: Any, context: Context) -> str | None:
    """Say in words why this must not become the task of a letter, or None if it may. The first objection counts.

    Asked before a person's edit is written. To raise ValueError, as most schema libraries do, is an objection too; any
    other exception is a broken plugin's, which is passed over, as is one that takes longer than `plugin_timeout_ms`.
    """


@hookspec
def adapters() -> Mapping[str, Any]:
    """Offer adapters, or functions `(task, repos)`, by the adapter names whose workflows they run.

    Asked once, when an app is made. A name that the app registers itself, or an earlier plugin gave, counts.
    """
    raise NotImplementedError


@hookspec
def backoffs() -> Mapping[str, Callable[[FailedRetry], timedelta | float]]:
    """Retry delays of your own, by name: a letter whose policy is `custom:<name>` waits as long as the function says.

    Asked once, when an app is made.
    """
    raise NotImplementedError


@hookspec
def value_kinds() -> Mapping[str, ValueKind]:
    """Types whose values letters keep and runs are given again, by the names that stand beside the payload.

    Asked once, when an app is made. A name that an earlier plugin gave counts; built-in types cannot be replaced.
    """
    raise NotImplementedError


@hookspec
def deliver(event: DomainEvent) -> Any:
    """Bring a stored domain event to another system: at least once, in order, from a worker. It may be awaitable.

    After any exception the event is brought again later; only InvalidInput says that this one is not wanted.
    """
