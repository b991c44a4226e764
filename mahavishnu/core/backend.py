"""`ProcessBackend`: settings, stores and apps for the command line, each imported when a command needs it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mahavishnu.core.api_local import LocalApi
    from mahavishnu.core.app import MahavishnuApp
    from mahavishnu.core.dead_letter_queue import DeadLetterQueue
    from mahavishnu.engine.queue import LetterQueue
    from mahavishnu.settings.settings import MahavishnuSettings


class ProcessBackend:
    """The program in this process; see `mahavishnu.cli.backend.Backend`."""

    def load_settings(self, file: Path | None, given: Mapping[str, Any]) -> MahavishnuSettings:
        """Return the settings. Raises SettingsError with a line for each problem."""
        from mahavishnu.core.config import MahavishnuSettings  # what prints help does not wait for pydantic

        return MahavishnuSettings.load(file, **given)

    def is_default_store(self, url: str) -> bool:
        """Return whether this URL is that of the default store."""
        from mahavishnu.settings.schema import default_store_url

        return url == default_store_url()

    def make_queue(self, settings: MahavishnuSettings) -> DeadLetterQueue:
        """Return a queue on the store of the settings, not opened yet."""
        from mahavishnu.core.wiring import queue_from

        return queue_from(settings)

    @asynccontextmanager
    async def open_queue(self, settings: MahavishnuSettings) -> AsyncIterator[DeadLetterQueue]:
        """Open a queue on the store of the settings, with its classifier. Raises InvalidInput for rules."""
        from mahavishnu.core.wiring import queue_from
        from mahavishnu.settings.wiring import chain_from

        async with queue_from(settings, chain=chain_from(settings)) as queue:
            yield queue

    def local_api(self, queue: LetterQueue, max_body_bytes: int) -> LocalApi:
        """Return the HTTP API of a queue as an ASGI app that needs no server."""
        from mahavishnu.core.api_local import LocalApi

        return LocalApi(queue, via="cli", max_body_bytes=max_body_bytes)

    def import_app(self, name: str, settings_file: Path | None) -> MahavishnuApp:
        """Import the app that `--app MODULE:NAME` names. Raises InvalidInput."""
        from mahavishnu.core.apps import import_app

        return import_app(name, settings_file)

    def count_letters(self, path: Path) -> int:
        """Count the letters in a local store."""
        from mahavishnu.settings.local_files import count_letters

        return count_letters(path)
