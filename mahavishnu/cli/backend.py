"""The program behind the command line: settings, and stores in this process. `mahavishnu.core` supplies it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from mahavishnu.engine.queue import LetterQueue


class Backend(Protocol):
    """Everything that commands need of packages above this one. `settings` are `MahavishnuSettings`."""

    def load_settings(self, file: Path | None, given: Mapping[str, Any]) -> Any:
        """Return the settings. Raises SettingsError with a line for each problem."""

    def is_default_store(self, url: str) -> bool:
        """Return whether this URL is that of the default store."""

    def make_queue(self, settings: Any) -> LetterQueue:
        """Return a queue on the store of the settings, not opened yet."""

    def open_queue(self, settings: Any) -> AbstractAsyncContextManager[LetterQueue]:
        """Open a queue on the store of the settings, with its classifier. Raises InvalidInput for rules."""

    def local_api(self, queue: LetterQueue, max_body_bytes: int) -> Any:
        """Return the HTTP API of a queue as an ASGI app that needs no server."""

    def import_app(self, name: str, settings_file: Path | None) -> Any:
        """Import the app that `--app MODULE:NAME` names. Raises InvalidInput."""

    def count_letters(self, path: Path) -> int:
        """Count the letters in a local store."""
