"""The waiting room: failures that could not become letters yet, kept durably until they can.

The automatic path must not lose a failure because the queue is full or its payload too large. Such a letter waits
under its entry id, in the same store, and is let in when there is room. Where the store cannot take it, it waits in a
file beside the store, and only where there can be none in memory; from there it is written into the store later.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from mahavishnu.engine.recorder import LetterRecorder
from mahavishnu.model.errors import ItemFailed, QueueFull, StoreError, StoreUnavailable
from mahavishnu.model.ids import new_token
from mahavishnu.model.letter import DeadLetter, FormerLetter
from mahavishnu.model.query import ALL_NAMESPACES, Is, Query, Sort, within_namespace
from mahavishnu.stores.base import Collection, Cursor, Store, write_one
from mahavishnu.stores.kind import Kind
from mahavishnu.stores.kinds import HISTORY

try:
    import fcntl
except ImportError:  # not on Windows: two processes may move the same file, which is repeated work and no more
    fcntl = None  # type: ignore[assignment]

log = logging.getLogger(__name__)
_UNREADABLE = ".unreadable"
WAITING: Kind[FormerLetter] = replace(HISTORY, name="waiting", index="dlq_waiting", lazy=True)
MOST_IN_MEMORY = 1000
_MOST_FOUND = 1000
_OLDEST_FIRST = Query(sort=(Sort("created_at"),))


class WaitingFiles:
    """A folder with a file per letter that no store can take now: the last resort. None without a `folder`."""

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
        """Read a letter alone until the block ends; None if another process moves it. Put unreadable files aside."""
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
            text = "a failure that waited in a file cannot be read (%s); what there is of it is in %s"
            log.error(text, problem, aside)
            return None

    def remove(self, name: str) -> None:
        """Remove the file of a letter, if it is there."""
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        if self.folder is None:
            raise FileNotFoundError("the store has no file beside which others could be")
        return self.folder / f"{name}.json"


def _lock(file: Any) -> bool:
    """Lock the open file for this process until it is closed or the process dies. False if another one has done so."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as problem:  # a file system without locks: as where there is no fcntl
        log.debug("a waiting failure is moved without a lock: %s", problem)
    return True


class WaitingPlace(StrEnum):
    """Place where a letter waits."""

    STORE = "store"
    FILE = "file"  #: the store could not take it: it is beside it
    MEMORY = "memory"  #: neither can there be a file: it lasts as long as this process


@dataclass(slots=True)
class WaitingRoom:
    """Keeps letters that wait to be let in. Every process calls `admit` now and then.

    Letters of every namespace may be kept; those of `namespace` are counted and let in here, others by their own apps.

    They wait in `collection`, and are let in by the `recorder` of the store that all processes share, from `home`, what
    waits there: whoever else lets the same one in meets it there. A local store would have a second letter of it, which
    could not be told from a copy that was sent; so what waits locally goes home first.
    """

    collection: Collection[FormerLetter]
    home: Collection[FormerLetter]
    recorder: LetterRecorder
    files: WaitingFiles
    is_home_away: Callable[[], bool] = lambda: False
    namespace: str = ALL_NAMESPACES
    in_memory: list[DeadLetter] = field(default_factory=list)
    on_outside: Callable[[], object] = lambda: None  # called when a letter waits outside of the store
    _filed: dict[str, str] = field(default_factory=dict)  # entry ids that this process has put into files: their keys

    async def keep(self, letter: DeadLetter) -> WaitingPlace:
        """Keep the letter until there is room. Raises StoreError if not even this process's memory has room for it."""
        try:
            await write_one(self.collection, FormerLetter.of(letter))
        except Exception as problem:
            log.debug("letter %r cannot wait in the store: %s", letter.key, problem)
            return self.keep_outside(letter)
        return WaitingPlace.STORE

    def keep_outside(self, letter: DeadLetter) -> WaitingPlace:
        """Keep the letter where that needs no store: in a file, else in memory. Raises StoreError if that is full."""
        if self._write_file(letter):
            place = WaitingPlace.FILE
        elif len(self.in_memory) >= MOST_IN_MEMORY:
            raise StoreUnavailable(f"letter {letter.key!r} cannot wait: {MOST_IN_MEMORY} wait in memory already")
        else:
            self.in_memory.append(letter)
            place = WaitingPlace.MEMORY
        self.on_outside()
        return place

    @property
    def has_outside(self) -> bool:
        """True if letters wait outside of the store."""
        return bool(self.in_memory or self.files.names())

    async def write_down(self) -> None:
        """Store what waits outside of the store. Raises StoreError while the store cannot be reached."""
        self.write_files()  # first: they outlive the process, whatever becomes of the store
        for letter in list(self.in_memory):
            if await self._store(FormerLetter.of(letter)):
                self.drop_from_memory(letter)
        for name in self.files.names():
            with self.files.take(name) as waiting:
                if waiting is not None and await self._store(waiting):
                    self.files.remove(name)

    def write_files(self) -> None:
        """Write what waits in memory into files, as far as there can be some."""
        for letter in list(self.in_memory):
            if self._write_file(letter):
                self.drop_from_memory(letter)

    async def find(self, task_ids: Sequence[str]) -> Sequence[FormerLetter]:
        """The letters of these tasks that wait in the store. Raises StoreError."""
        page = await self.collection.find(Query((Is("task_id", tuple(task_ids)),), limit=_MOST_FOUND))
        return page.items

    async def let_in_closed(self, waiting: FormerLetter, closed: DeadLetter) -> DeadLetter | None:
        """Let in a letter that was closed while it waited; None if it is in. Raises LetterBusy and StoreError."""
        admission = await self.recorder.take_in(closed)
        await self.home.remove([waiting])
        return admission.stored

    async def count(self) -> int:
        """Return the number of waiting letters."""
        stored = (await self.collection.tally(within_namespace(Query(), self.namespace))).total.count
        return stored + len(self.own_in_memory()) + len(self.own_files())

    def own_in_memory(self) -> list[DeadLetter]:
        """The letters of the namespace that wait in this process's memory."""
        return [letter for letter in self.in_memory if self.namespace in (ALL_NAMESPACES, letter.namespace)]

    def own_files(self) -> list[str]:
        """The entry ids of the letters of the namespace that wait in files."""
        return self.files.names(None if self.namespace == ALL_NAMESPACES else self.namespace)

    async def _store(self, waiting: FormerLetter) -> bool:
        """Store the letter; False if the store refuses it. Raises StoreError if it cannot be reached."""
        try:
            await write_one(self.collection, waiting)
        except ItemFailed as problem:
            log.error("a failure that waits outside of the store is refused by it: %s", problem)
            return False
        return True

    def _write_file(self, letter: DeadLetter) -> bool:
        if self.files.folder is None:
            return False
        try:
            self.files.write(FormerLetter.of(letter))
        except Exception as problem:  # a full disk, no permission, or what cannot be encoded
            log.error("letter %r cannot wait in a file in %s: %s", letter.key, self.files.folder, problem)
            return False
        self._filed[letter.entry_id] = letter.key
        return True

    def keys_outside(self) -> set[str]:
        """The keys of letters that this process keeps outside of the store, on their way into it."""
        if self._filed:
            there = set(self.files.names())
            self._filed = {entry_id: key for entry_id, key in self._filed.items() if entry_id in there}
        return {*self._filed.values(), *(letter.key for letter in self.in_memory)}

    def drop_outside(self, letter: DeadLetter) -> None:
        """Forget a letter that waits outside of the store: it is in the store."""
        self.drop_from_memory(letter)
        if self.files.folder is not None:
            self.files.remove(letter.entry_id)

    def drop_from_memory(self, letter: DeadLetter) -> None:
        """Forget a letter that waits in memory: it is elsewhere, or deleted."""
        with suppress(ValueError):  # another task does the same at this moment
            self.in_memory.remove(letter)

    async def admit(self, most_bytes: int) -> list[DeadLetter]:
        """Let in letters while there is room and a shared store, oldest first; payloads over `most_bytes` wait."""
        await self.write_down()
        admitted: list[DeadLetter] = []
        after: Cursor | None = None
        while not self.is_home_away():
            try:
                page = await self.home.find(within_namespace(_OLDEST_FIRST, self.namespace), after)
            except StoreUnavailable as problem:
                log.debug("letters have to wait on: %s", problem)
                break
            for waiting in page.items:
                if len(waiting.payload.text) > most_bytes:
                    continue
                try:
                    if (stored := (await self.recorder.take_in(as_letter(waiting))).stored) is not None:
                        admitted.append(stored)
                except QueueFull:
                    return admitted
                except StoreError as problem:  # a letter that cannot be read or written does not hold up the others
                    log.debug("letter %r has to wait on: %s", waiting.task_id, problem)
                except Exception:
                    log.exception("letter %r cannot be let in and waits on", waiting.task_id)
                else:
                    await self.home.remove([waiting])
            if page.next is None:
                break
            after = page.next
        return admitted


def as_letter(waiting: FormerLetter) -> DeadLetter:
    """The letter that a former or waiting one was, without a version."""
    values = {each.name: getattr(waiting, each.name) for each in fields(DeadLetter)}
    return DeadLetter(**{**values, "version": None})
