"""Mahavishnu: the dead-letter queue for Python workflow apps.

No failed workflow is ever lost, none is run twice by mistake, and nobody is lied to about it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mahavishnu.classify.hookspecs import hookimpl
    from mahavishnu.classify.verdict import Verdict
    from mahavishnu.model.letter_parts import ErrorCategory
    from mahavishnu.values.kinds import ValueKind

__version__ = "0.1.0"
__all__ = ["ErrorCategory", "ValueKind", "Verdict", "__version__", "hookimpl"]

# Loaded when first asked for: importing the package must cost a plugin, or a command that only prints help, nothing.
_HOMES = {
    "ErrorCategory": "mahavishnu.model.letter_parts",
    "ValueKind": "mahavishnu.values.kinds",
    "Verdict": "mahavishnu.classify.verdict",
    "hookimpl": "mahavishnu.classify.hookspecs",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
