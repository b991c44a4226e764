"""What the commands of one call have in common: the settings, read when they are first needed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from mahavishnu.core.config import MahavishnuSettings


@dataclass
class Session:
    """The options that stand before the command."""

    settings_file: Path | None = None

    @cached_property
    def settings(self) -> MahavishnuSettings:
        """The settings. Raises SettingsError with a line for each problem."""
        from mahavishnu.core.config import MahavishnuSettings  # what prints help does not wait for pydantic

        return MahavishnuSettings.load(self.settings_file)


def session(context: typer.Context) -> Session:
    """The session of a command."""
    return context.ensure_object(Session)
