"""The queues that the settings declare, read again when their files change."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from mahavishnu.settings.settings import MahavishnuSettings
from mahavishnu.settings.sources import SettingsError, queue_files

log = logging.getLogger(__name__)


class DeclaredQueues:
    """Reads the files again when they have changed. One that cannot be read leaves everything as it was."""

    def __init__(self, settings: Callable[[], MahavishnuSettings]) -> None:
        self._settings = settings
        self._known: MahavishnuSettings | None = None
        self._queues: Mapping[str, Mapping[str, Any]] = {}
        self._signature: tuple[Any, ...] = ()

    def __call__(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the current declarations; the same object while nothing has changed."""
        settings, signature = self._settings(), self._sign()
        if settings is not self._known:
            self._known, self._queues, self._signature = settings, settings.queues, signature
        elif signature != self._signature:
            self._signature = signature
            try:
                self._queues = settings.load_again().queues
            except SettingsError as problem:
                log.error("the queues stay as they were: %s", problem)
        return self._queues

    def _sign(self) -> tuple[Any, ...]:
        """Return a mark that tells one state of the files from another."""
        file = self._settings().file
        found = []
        for path in (file, *queue_files(file)):
            try:
                found.append((path, (state := path.stat()).st_mtime_ns, state.st_size))
            except OSError:
                found.append((path, 0, 0))
        return tuple(found)
