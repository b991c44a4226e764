"""Entry ids that sort by time, and the key under which a letter lives."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import threading
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from uuid import UUID, uuid4, uuid5

from mahavishnu.model.errors import InvalidInput

DEFAULT_NAMESPACE = "default"
DEFAULT_QUEUE = "default"
MAX_KEY_BYTES = 512  # OpenSearch takes no longer document id
MAX_TASK_ID_BYTES = 8191
PARTITIONS = 256
_HASHED = "sha256:"
_PLAIN = re.compile(r"[\w.-]{1,200}", re.ASCII)  # nearly every task id matches: it is the key itself
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_LAST = (1 << 48) - 1
_UNUSABLE = UUID("6ba7b812-9dad-11d1-80b4-00c04fd430c8")  # the name space of ids that are no others, of RFC 4122


class _Pool(NamedTuple):
    process: int
    unused: list[bytes]


_pool = _Pool(0, [])


def _draw_random() -> bytes:
    """Ten random bytes, out of a larger supply: asking the system each time takes too long."""
    global _pool
    if _pool.process != os.getpid():  # a forked process must not use its parent's bytes
        _pool = _Pool(os.getpid(), [])
    if not _pool.unused:
        drawn = os.urandom(10 * 256)
        _pool.unused.extend(drawn[place : place + 10] for place in range(0, len(drawn), 10))
    try:
        return _pool.unused.pop()
    except IndexError:  # another thread took the last ones
        return os.urandom(10)


def _random_bits(count: int) -> int:
    return int.from_bytes(_draw_random()) >> (80 - count)


def clock_mark() -> str:
    """Return eight digits common to all processes on this machine's clock until it restarts, or to this one's forks."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        boot = uuid4().hex
    return hashlib.sha256(f"{socket.gethostname()}/{boot}".encode()).hexdigest()[:8]


class EntryIds:
    """Makes UUIDv7 texts that never go back inside a process, also when the clock is set back.

    With a `mark` they end with it: that of the clock by which they were made.
    """

    def __init__(self, random_bits: Callable[[int], int] = _random_bits, mark: str = "") -> None:
        self.mark = mark
        self._random_bits = random_bits
        self._last = 0
        self._lock = threading.Lock()

    def __call__(self, now: datetime) -> str:
        # 48 bits of milliseconds, then 74 random ones; within a millisecond (or while the clock is behind) count on.
        begin = (now - _EPOCH) // _MILLISECOND << 74
        with self._lock:
            last = self._last
            if self.mark:
                value = (
                    begin | self._random_bits(42) << 32 if begin > last else last + (1 + self._random_bits(20) << 32)
                )
                value = self._last = value >> 32 << 32 | int(self.mark, 16)
            else:
                value = self._last = begin | self._random_bits(74) if begin > last else last + 1 + self._random_bits(32)
        parts = value >> 90, value >> 74 & 0xFFFF, value >> 62 & 0xFFF, value >> 48 & 0x3FFF | 0x8000, value & _LAST
        return "%08x-%04x-7%03x-%04x-%012x" % parts  # noqa: UP031 - in two thirds of the time

    def reset_lock(self) -> None:
        """Make a new lock: a thread that held it when the process was forked does not exist in the child."""
        self._lock = threading.Lock()


new_entry_id = EntryIds(mark=clock_mark())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=new_entry_id.reset_lock)


def derived_entry_id(entry_id: str, target: str, made_at: datetime) -> str:
    """Return the id of an entry's successor somewhere else: always the same one, so that a second meeting is known.

    Successors of several entries have their order. Of an id that says no time, it sorts by `made_at`.

    >>> former = EntryIds()(datetime(2026, 1, 1, tzinfo=UTC))
    >>> made = derived_entry_id(former, "dead", datetime(2027, 1, 1, tzinfo=UTC))
    >>> made == derived_entry_id(former, "dead", datetime(2028, 1, 1, tzinfo=UTC)), made[:-8] == former[:-8]
    (True, True)
    """
    digest = hashlib.sha256(f"{entry_id}>{target}".encode("utf-8", "surrogatepass")).hexdigest()
    if entry_instant(entry_id) is not None:
        return entry_id[:-8] + digest[:8]
    time = EntryIds()(made_at)[:13]
    return f"{time}-7{digest[:3]}-{'89ab'[int(digest[3], 16) % 4]}{digest[4:7]}-{digest[7:19]}"


def entry_instant(entry_id: str) -> datetime | None:
    """Return when the entry id was made, about; None for an id of another form.

    >>> entry_instant(EntryIds()(datetime(2026, 1, 1, tzinfo=UTC))).year
    2026
    """
    try:
        number = UUID(entry_id)
        return _EPOCH + (number.int >> 80) * _MILLISECOND if number.version == 7 else None
    except (ValueError, OverflowError):
        return None


def is_dated_by(entry_id: str, mark: str) -> bool:
    """Return True if the entry id was made by the clock with this mark."""
    return bool(mark) and entry_id.endswith(mark) and entry_instant(entry_id) is not None


def new_token() -> str:
    """A lease token: unique, and impossible to guess."""
    return _draw_random()[:8].hex()


def new_task_id(unusable: str | None = None) -> str:
    """An id for work that has none; of one that has an `unusable` one, always the same."""
    return f"wf_{(uuid4() if unusable is None else uuid5(_UNUSABLE, repr(unusable))).hex}"


def entry_id_in(entry_id: str, namespace: str) -> str:
    """The entry id of a letter that is brought into another namespace: always the same.

    >>> entry_id_in("e-1", "eu") == entry_id_in("e-1", "eu") != entry_id_in("e-1", "us")
    True
    """
    return str(uuid5(_UNUSABLE, f"{namespace}/{entry_id}"))


def document_key(task_id: str, namespace: str = DEFAULT_NAMESPACE, queue: str = DEFAULT_QUEUE) -> str:
    """The key of a letter: the task id itself where nothing else is needed, else `namespace/queue/task_id`.

    A task id with two or more slashes is spelled out too, so that it cannot be mistaken for another namespace's
    letter. A key over 512 bytes is replaced by its hash. Raises InvalidInput for an empty or unusable name.

    >>> document_key("wf_1"), document_key("wf_1", namespace="eu"), document_key("a/b/c")
    ('wf_1', 'eu/default/wf_1', 'default/default/a/b/c')
    """
    if not isinstance(task_id, str):
        raise InvalidInput(f"task_id must be text, not {task_id!r:.80}")
    if namespace == DEFAULT_NAMESPACE and queue == DEFAULT_QUEUE and _PLAIN.fullmatch(task_id):
        return task_id
    for name, value in (("namespace", namespace), ("queue", queue)):
        if not isinstance(value, str):
            raise InvalidInput(f"{name} must be text, not {value!r:.80}")
        if not value or "/" in value:
            raise InvalidInput(f"{name} {value!r} of task {task_id[:80]!r} must not be empty nor contain '/'")
    if not task_id:
        raise InvalidInput("task_id must not be empty: it is the letter's key")
    plain = (namespace, queue) == (DEFAULT_NAMESPACE, DEFAULT_QUEUE) and task_id.count("/") < 2
    key = task_id if plain else f"{namespace}/{queue}/{task_id}"
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise InvalidInput(f"task_id {task_id[:80]!r} has a lone surrogate: it is not valid Unicode text") from None
    if size > MAX_TASK_ID_BYTES:
        raise InvalidInput(f"task_id {task_id[:80]!r}… has {size} bytes; at most {MAX_TASK_ID_BYTES} are kept")
    if size > MAX_KEY_BYTES or key.startswith(_HASHED):
        return _HASHED + hashlib.sha256(key.encode()).hexdigest()
    return key


def derived_task_id(task_id: str, mark: str) -> str:
    """`<task_id>@<mark>`; of a task id over 512 bytes, its hash in place of it, so that the result is not too long.

    >>> derived_task_id("nightly", "5f1c")
    'nightly@5f1c'
    """
    name = task_id.encode()
    return f"{task_id if len(name) <= MAX_KEY_BYTES else _HASHED + hashlib.sha256(name).hexdigest()}@{mark}"


def partition_of(key: str) -> int:
    """Return which of the 256 partitions a key falls into; workers that share an index each take some of them."""
    return zlib.crc32(key.encode()) % PARTITIONS
