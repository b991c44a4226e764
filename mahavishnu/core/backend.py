"""The apps that `--app MODULE:NAME` names."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote

from mahavishnu.core.rooms import rooms
from mahavishnu.engine.rooms import load
from mahavishnu.model.errors import InvalidInput, MahavishnuError

if TYPE_CHECKING:
    from mahavishnu.classify.chain import Chain
    from mahavishnu.core.api_local import LocalApi
    from mahavishnu.core.app import MahavishnuApp
    from mahavishnu.core.dead_letter_queue import DeadLetterQueue
    from mahavishnu.engine.queue import LetterQueue
    from mahavishnu.http.responses import Document
    from mahavishnu.settings.settings import MahavishnuSettings

_LONGEST = 1000  # characters of a query
# --- `ProcessBackend`: settings, stores and apps for the command line, each imported when a command needs it


class ProcessBackend:
    """The program in this process; see `mahavishnu.cli.options.Backend`."""

    def load_settings(self, file: Path | None, given: Mapping[str, Any]) -> MahavishnuSettings:
        from mahavishnu.core.config import MahavishnuSettings  # what prints help does not wait for pydantic

        return MahavishnuSettings.load(file, **given)

    def is_default_store(self, url: str) -> bool:
        from mahavishnu.settings.places import default_store_url

        return url == default_store_url()

    def make_queue(self, settings: MahavishnuSettings) -> DeadLetterQueue:
        from mahavishnu.core.wiring import queue_from
        from mahavishnu.stores.kinds import HISTORY, LETTERS

        return queue_from(settings, kinds=(LETTERS, HISTORY))

    def plain_store(self, given: str | None) -> str | None:
        from mahavishnu.settings.places import plain_store

        return plain_store(given)

    def make_plain_queue(
        self, url: str, namespace: str | None, settings: Callable[[], MahavishnuSettings]
    ) -> DeadLetterQueue:
        from mahavishnu.core.dead_letter_queue import DeadLetterQueue, QueueOptions, all_kinds
        from mahavishnu.engine.letter_factory import LetterFactory
        from mahavishnu.model.ids import DEFAULT_NAMESPACE
        from mahavishnu.stores.kinds import HISTORY, LETTERS
        from mahavishnu.stores.urls import open_store

        def chain() -> Chain:
            from mahavishnu.settings.wiring import chain_from

            return chain_from(settings())

        factory = LetterFactory(by_category=True)
        options = QueueOptions(chain, factory, namespace=namespace or DEFAULT_NAMESPACE)
        queue = DeadLetterQueue(store=open_store(url, kinds=(LETTERS, HISTORY)), options=options)  # others when used
        queue.context.open_beside = lambda: open_store(url, kinds=all_kinds())
        return queue

    @asynccontextmanager
    async def open_queue(self, settings: MahavishnuSettings) -> AsyncIterator[DeadLetterQueue]:
        from mahavishnu.core.wiring import queue_from
        from mahavishnu.settings.wiring import chain_from

        async with queue_from(settings, chain=chain_from(settings)) as queue:
            yield queue

    async def read(self, queue: LetterQueue, path: str, query: str) -> Document | None:
        """Return the answer to a read by the function that its route answers with; None if the route has to answer.

        The route reads any request, and knows what is wrong with it. But it needs pydantic and a web framework, which
        take longer to import than everything else.
        """
        given = parse_qs(query, keep_blank_values=True)
        for each in (each for room in rooms() for each in room.reads):
            match = re.fullmatch(each.path.replace("{}", "([^/]+)"), path)
            if match is None:
                continue
            namespace = None if "namespace" in each.lists else given.pop("namespace", [None])[0]
            several = any(len(texts) > 1 for name, texts in given.items() if name not in each.lists)
            odd = len(query) > _LONGEST or not all(text for texts in given.values() for text in texts)
            if several or odd or not given.keys() <= {*each.texts, *each.lists}:
                return None
            from mahavishnu.engine.audit import acting_as

            values = {name: texts if name in each.lists else texts[0] for name, texts in given.items()}
            try:
                with acting_as(role="admin", via="cli"):
                    view = queue if namespace is None else queue.in_namespace(namespace)
                    found: Document = await load(each.target)(view, *map(unquote, match.groups()), **values)
                    return found
            except (MahavishnuError, LookupError, ValueError):
                return None
        return None

    def local_api(self, queue: LetterQueue, max_body_bytes: int) -> LocalApi:
        from mahavishnu.core.api_local import LocalApi

        return LocalApi(queue, via="cli", max_body_bytes=max_body_bytes)

    def import_app(self, name: str, settings_file: Path | None) -> MahavishnuApp:
        return import_app(name, settings_file)

    def count_letters(self, path: Path) -> int:
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
