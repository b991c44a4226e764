"""Everything a plugin can take part in. Nothing here imports more than pluggy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pluggy import HookimplMarker, HookspecMarker

if TYPE_CHECKING:
    from mahavishnu.classify.verdict import Context, Verdict
    from mahavishnu.model.letter import ErrorCategory

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
