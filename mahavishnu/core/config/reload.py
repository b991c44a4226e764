"""Reading the settings again while the program runs."""

from __future__ import annotations

from typing import NamedTuple

from mahavishnu.core.config import MahavishnuSettings, SettingsError
from mahavishnu.core.config.settings import field_paths, value_at


class Reloaded(NamedTuple):
    """The settings to go on with, the keys whose values are others now, and why nothing changed if it could not."""

    settings: MahavishnuSettings
    changed: tuple[str, ...] = ()
    error: SettingsError | None = None


class Reloader:
    """Holds the running settings and replaces them by what the sources say now, if that is sound.

    What is refused leaves the running settings untouched; `error` then says why, until a reload succeeds. The
    environment and the same file are read again, and arguments stay what they were. A file that has disappeared is an
    error and not a return to the defaults.

    >>> reloader = Reloader(MahavishnuSettings.load())
    >>> settings, changed, error = reloader.reload()
    >>> changed, error
    ((), None)
    """

    def __init__(self, settings: MahavishnuSettings) -> None:
        self.settings = settings
        self.error: SettingsError | None = None

    def reload(self) -> Reloaded:
        """Read everything again. Never raises SettingsError: it is in the answer."""
        try:
            fresh = self.settings.reloaded()
        except SettingsError as refused:
            self.error = refused
            return Reloaded(self.settings, error=refused)
        changed = _changed(self.settings, fresh)
        self.settings, self.error = fresh, None
        return Reloaded(fresh, changed)


def _changed(old: MahavishnuSettings, new: MahavishnuSettings) -> tuple[str, ...]:
    return tuple(
        path for path in field_paths(type(new)) if value_at(old, path.split(".")) != value_at(new, path.split("."))
    )
