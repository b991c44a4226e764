"""The front door: the public import paths, and what wires the rest together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mahavishnu.core.app import MahavishnuApp

__all__ = ["MahavishnuApp"]


def __getattr__(name: str) -> Any:
    if name != "MahavishnuApp":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mahavishnu.core.app import MahavishnuApp  # with all that it needs: not for those who want only the settings

    return MahavishnuApp
