"""Files in which letters wait that no store can take now: the last resort that survives the process.

Writing one needs no store, no thread and no event loop, so it is possible also in a forked process, where SQLite is
not, at the interpreter's exit, and while an event loop ends. Any process that uses the store moves them into it.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mahavishnu.model.ids import new_token
from mahavishnu.model.letter import FormerLetter
from mahavishnu.stores.base import Store
from mahavishnu.stores.kind import Kind

try:
    import fcntl
except ImportError:  # not on Windows: two processes may move the same file, which is repeated work and no more
    fcntl = None  # type: ignore[assignment]

log = logging.getLogger(__name__)
_UNREADABLE = ".unreadable"


class WaitingFiles:
    """A folder with a file for each letter, named by its entry id. There is none without a `folder`."""

    def __init__(self, folder: Path | None, kind: Kind[FormerLetter]) -> None:
        self.folder, self._kind = folder, kind
        self._namespaces: dict[str, str] = {}  # by entry id, of files that were looked into

    @classmethod
    def beside(cls, store: Store, kind: Kind[FormerLetter]) -> WaitingFiles:
        """The files that belong to a store: beside its own file, or that of its local store."""
        for each in (store, getattr(store, "local", None), getattr(store, "primary", None)):
            if isinstance(path := getattr(each, "path", None), Path):
                return cls(path.with_name(f"{path.name}-waiting"), kind)
        return cls(None, kind)

    def write(self, letter: FormerLetter) -> None:
        """Write a letter; it survives a power cut when this returns. Raises OSError."""
        path, text = self._path(letter.key), self._kind.document(letter)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = path.with_name(f".{letter.key}.{new_token()}")
        try:
            draft.touch(mode=0o600, exist_ok=False)
            with draft.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        with suppress(OSError):  # not every system lets a folder be opened
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def names(self, namespace: str | None = None) -> list[str]:
        """The entry ids of the letters, the oldest first: all of them, or those of a namespace."""
        names = self._names(".json")
        if namespace is None:
            return names
        self._namespaces = {name: known for name in names if (known := self._namespaces.get(name)) is not None}
        return [name for name in names if self._namespace_of(name) in (namespace, None)]

    def _namespace_of(self, name: str) -> str | None:
        """The namespace of a letter; None if its file cannot be read now, or is gone."""
        if name not in self._namespaces:
            try:
                document = json.loads(self._path(name).read_text(encoding="utf-8"))
                self._namespaces[name] = str(document["namespace"])
            except (OSError, ValueError, KeyError, TypeError):
                return None
        return self._namespaces[name]

    def unreadable(self) -> list[str]:
        """The entry ids of letters whose files cannot be read, and were put aside for a person."""
        return self._names(_UNREADABLE)

    def _names(self, suffix: str) -> list[str]:
        if self.folder is not None:
            with suppress(OSError):
                return sorted(path.stem for path in self.folder.iterdir() if path.suffix == suffix)
        return []

    @contextmanager
    def take(self, name: str) -> Iterator[FormerLetter | None]:
        """Read a letter, which nobody else does until the block ends; None if somebody else moves it or has done so.

        A file that cannot be read is put aside under another name.
        """
        path = self._path(name)
        try:
            file = path.open(encoding="utf-8")
        except OSError as problem:
            if not isinstance(problem, FileNotFoundError):
                log.error("the failure in %s cannot be read now: %s", path, problem)
            yield None
            return
        with file:
            yield self._read(path, file) if _lock(file) and path.exists() else None

    def _read(self, path: Path, file: Any) -> FormerLetter | None:
        try:
            return self._kind.versioned(self._kind.read(file.read(), ()), None)
        except OSError as problem:  # the disk's trouble, not the text's: it is tried again
            log.error("the failure in %s cannot be read now: %s", path, problem)
            return None
        except Exception as problem:  # a damaged text can make a parser raise anything
            aside = path.with_suffix(_UNREADABLE)
            path.replace(aside)
            log.error(
                "a failure that waited in a file cannot be read (%s); what there is of it is in %s", problem, aside
            )
            return None

    def remove(self, name: str) -> None:
        """Remove the file of a letter, if it is there."""
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        if self.folder is None:
            raise FileNotFoundError("the store has no file beside which others could be")
        return self.folder / f"{name}.json"


def _lock(file: Any) -> bool:
    """Lock the open file for this process, or whoever dies before it is closed. False if another one has done so."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as problem:  # a file system without locks: as where there is no fcntl
        log.debug("a waiting failure is moved without a lock: %s", problem)
    return True
