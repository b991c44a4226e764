"""The apps that `--app MODULE:NAME` names."""

from __future__ import annotations

import importlib
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mahavishnu.model.errors import InvalidInput

if TYPE_CHECKING:
    from mahavishnu.core.api_local import LocalApi
    from mahavishnu.core.app import MahavishnuApp
    from mahavishnu.core.dead_letter_queue import DeadLetterQueue
    from mahavishnu.engine.queue import LetterQueue
    from mahavishnu.settings.settings import MahavishnuSettings

# --- `ProcessBackend`: settings, stores and apps for the command line, each imported when a command needs it


class ProcessBackend:
    """The program in this process; see `mahavishnu.cli.options.Backend`."""

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

        return import_app(name, settings_file)

    def count_letters(self, path: Path) -> int:
        """Count the letters in a local store."""
        from mahavishnu.settings.wiring import count_letters

        return count_letters(path)


def import_app(name: str, settings_file: Path | None) -> MahavishnuApp:
    """Return the app at `module:attribute`. Raises InvalidInput if absent, or with settings beside `--settings`."""
    from mahavishnu.settings.sources import SettingsFile

    with _settings_named(settings_file):
        found = _import(name)
    if settings_file is not None:
        wanted, read = SettingsFile.choose(settings_file), found.config.read_from
        if read is None or read.path != wanted.path:
            whose = f"of {read.label}" if read else "from before it was named"
            raise InvalidInput(
                f"{name} does not read {wanted.label}, it has settings {whose}: leave --settings out, or let it make "
                "MahavishnuApp() without any"
            )
    return found


@contextmanager
def _settings_named(file: Path | None) -> Iterator[None]:
    """Set this file as the one to load settings from meanwhile."""
    from mahavishnu.settings.sources import FILE_VARIABLE

    before = os.environ.get(FILE_VARIABLE)
    if file is not None:
        os.environ[FILE_VARIABLE] = str(file)
    try:
        yield
    finally:
        if file is not None:
            os.environ.pop(FILE_VARIABLE)
            if before is not None:
                os.environ[FILE_VARIABLE] = before


def _import(name: str) -> MahavishnuApp:
    from mahavishnu.core.app import MahavishnuApp

    module, colon, path = name.partition(":")
    if not module or not colon or not path:
        raise InvalidInput(f"{name!r} names no app; write package.module:app")
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as missing:
        raise InvalidInput(f"there is no module {missing.name!r}, which {name!r} asks for") from None
    except (Exception, SystemExit) as problem:  # one that exits while it is imported must not look like a job done
        raise InvalidInput(f"{module} cannot be imported: {type(problem).__name__}: {problem}") from problem
    for attribute in path.split("."):
        found = getattr(found, attribute, None)
    if callable(found) and not isinstance(found, MahavishnuApp):
        try:
            found = found()
        except (Exception, SystemExit) as problem:
            raise InvalidInput(f"{name} makes no app: {type(problem).__name__}: {problem}") from problem
    if not isinstance(found, MahavishnuApp):
        raise InvalidInput(f"{name!r} is {type(found).__name__}, not a MahavishnuApp nor a function that makes one")
    return found
