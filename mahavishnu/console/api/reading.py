"""From requests to queries, and from letters to JSON: the same for every route."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Any, Generic, TypeVar
from urllib.parse import urlencode

from fastapi import Depends, Query, Request
from starlette.responses import Response

from mahavishnu.console.api.edge import ITSELF, MARK, SLASH
from mahavishnu.console.api.shapes import Filter
from mahavishnu.model import query as queries
from mahavishnu.model.clock import instant_text
from mahavishnu.model.errors import InvalidQuery
from mahavishnu.model.groups import GroupPage
from mahavishnu.model.ids import DEFAULT_NAMESPACE, DEFAULT_QUEUE
from mahavishnu.model.letter import DeadLetter, Version
from mahavishnu.model.payload import Json
from mahavishnu.model.record import without_payload
from mahavishnu.stores.base import Page

R = TypeVar("R")
JSON = "application/json"


def as_query(
    asked: Filter, *, limit: int = 500, sort: tuple[queries.Sort, ...] = queries.NEWEST_FIRST
) -> queries.Query:
    """The query that a filter means. Raises InvalidQuery."""
    metadata = {}
    for pair in asked.metadata or ():
        path, equals, value = pair.partition("=")
        if not equals or not path:
            raise InvalidQuery(f"{pair!r:.80} is no condition on the metadata: write path=value")
        metadata[path] = value
    return queries.letters(
        status=_values(asked.status),
        resolution=_values(asked.resolution_status),
        category=_values(asked.category),
        policy=asked.policy,
        reason=_values(asked.reason),
        namespace=asked.namespace,
        queue=asked.queue,
        fingerprint=asked.fingerprint,
        task_id=asked.task_id,
        repo=asked.repo,
        run=asked.run,
        text=asked.text,
        metadata=metadata,
        failed=(aware(asked.failed_from), aware(asked.failed_before)),
        created=(aware(asked.created_from), aware(asked.created_before)),
        updated=(aware(asked.updated_from), aware(asked.updated_before)),
        sort=sort,
        limit=limit,
    )


def _values(given: Sequence[Enum] | None) -> list[str] | None:
    return None if given is None else [str(each.value) for each in given]


def aware(moment: datetime | None) -> datetime | None:
    """An instant without a zone is UTC."""
    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment


def named(task_id: str) -> str:
    """The task id in a path: an escaped slash is part of it."""
    return task_id.replace(SLASH, "/").replace(ITSELF, MARK)


class Place:
    """Which of the task ids of that name: its namespace and queue."""

    def __init__(
        self,
        namespace: Annotated[str, Query(min_length=1, max_length=500)] = DEFAULT_NAMESPACE,
        queue: Annotated[str, Query(min_length=1, max_length=500)] = DEFAULT_QUEUE,
    ) -> None:
        self.namespace, self.queue = namespace, queue
        self.arguments = {"namespace": namespace, "queue": queue}


Where = Annotated[Place, Depends()]


def letter_json(letter: DeadLetter, *, whole: bool = False) -> dict[str, Any]:
    """A letter as every surface shows it."""
    task = letter.task
    return {**_letter(letter, whole), "task": task, "metadata": letter.metadata, "task_snapshot": task}


def letters_json(letters: Iterable[DeadLetter], *, whole: bool = False) -> bytes:
    """The same for many, as bytes: what people gave us is JSON text already, and goes out as it is."""
    return f"[{', '.join([_letter_text(letter, whole) for letter in letters])}]".encode()


def _letter_text(letter: DeadLetter, whole: bool) -> str:
    task = letter.payload.text
    return (
        f'{json.dumps(_letter(letter, whole))[:-1]}, "task": {task}, "metadata": {letter.labels.text}, '
        f'"task_snapshot": {task}}}'
    )


def _letter(letter: DeadLetter, whole: bool) -> dict[str, Any]:
    """All but its payload and metadata."""
    shown = without_payload(letter)
    shown |= {
        "dlq_entry_uuid": letter.entry_id,
        "task_uuid": letter.task_id,
        "original_state": letter.source.state,
        "dlq_reason": str(letter.reason),
        "dlq_timestamp": instant_text(letter.created_at),
        "requeue_outcome": letter.requeue and str(letter.requeue.outcome),
        "runs": list(letter.runs),
        "adapter": letter.source.queue,
    }
    if whole:
        shown |= {
            "failures": [plain(failure) for failure in letter.failures],
            "verdict_reason": letter.verdict.reason,
            "verdict_author": letter.verdict.author,
            "claim_owner": letter.lease and letter.lease.owner,
            "due_at": letter.due_at and instant_text(letter.due_at),
            "requeue": letter.requeue and plain(letter.requeue),
            "source_kind": str(letter.source.kind),
            "source_queue": letter.source.queue,
            "source_id": letter.source.id,
            "recoveries": letter.recoveries,
        }
    return shown


def plain(value: Any) -> Any:
    """Any value of ours as JSON values; the store's versions are nobody's business.

    >>> plain({"at": datetime(2030, 1, 1, tzinfo=UTC)})
    {'at': '2030-01-01T00:00:00.000Z'}
    """
    match value:
        case Json():
            return value.value
        case Enum():
            return value.value
        case datetime():
            return instant_text(value)
        case DeadLetter():
            return letter_json(value)
        case Mapping():
            return {str(name): plain(item) for name, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(item) for item in value]
        case None | bool() | int() | float() | str():
            return value
    if is_dataclass(value) and not isinstance(value, type):
        return {name: plain(item) for name, item in _fields(value).items() if name != "version"}
    return str(value)


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """JSON, checked by the tests and not once more at each request."""
    return Response(as_bytes(value), status, dict(headers or {}), JSON)


def as_bytes(value: Any) -> bytes:
    """`value` as JSON; half a character, which a payload may contain, is written as an escape."""
    try:
        return json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(value).encode()


def etag(version: Version | None) -> str:
    """The mark of one state of a record: send it back as If-Match.

    >>> etag((7, 1))
    '"7.1"'
    """
    return f'"{".".join(map(str, version or ()))}"'


def matches(header: str | None, version: Version | None) -> bool:
    """Whether an If-Match or If-None-Match header names this version."""
    named = [] if header is None else [each.strip() for each in header.split(",")]
    return "*" in named or etag(version) in named


def in_header(text: str) -> str:
    """Any text as a header can hold it.

    >>> in_header("away:\\n10 \u00b5s")
    'away: 10 ?s'
    """
    line = "".join(char if char.isprintable() else " " for char in text)
    return line.encode("ascii", "replace").decode()


def next_page(request: Request, cursor: str) -> str:
    """A Link header to the next page of the same list."""
    given = [(name, value) for name, value in request.query_params.multi_items() if name not in ("cursor", "offset")]
    return f'<{request.url.path}?{urlencode([*given, ("cursor", cursor)])}>; rel="next"'


def page_headers(request: Request, page: Page[Any] | GroupPage) -> dict[str, str]:
    """Where the next page is, and why something may be missing from this one."""
    headers = {} if page.next is None else {"Link": next_page(request, str(page.next))}
    return headers | degraded_header(page.degraded)


def degraded_header(why: str | None) -> dict[str, str]:
    """That something is out of reach, as every answer says it."""
    return {"X-Degraded": in_header(why)} if why else {}


class Shared(Generic[R]):
    """Reads that many ask for at the same time are done once.

    Whoever asks while such a read is under way waits for the next one, which all who wait share: nobody is answered
    from a read that began before they asked, so that they see what was written before.
    """

    def __init__(self) -> None:
        self._running: dict[Any, asyncio.Task[R]] = {}
        self._next: dict[Any, asyncio.Task[R]] = {}

    async def get(self, key: Any, read: Callable[[], Awaitable[R]]) -> R:
        """The answer of a read that has begun after this was called."""
        if key in self._next:
            return await asyncio.shield(self._next[key])
        running = self._running.get(key)
        if running is None:
            task = self._running[key] = asyncio.ensure_future(self._begin(key, read))
        else:
            task = self._next[key] = asyncio.ensure_future(self._after(running, key, read))
        task.add_done_callback(_noticed)  # also if nobody waits for it any more
        return await asyncio.shield(task)

    async def _begin(self, key: Any, read: Callable[[], Awaitable[R]]) -> R:
        try:
            return await read()
        finally:
            if key not in self._next:
                self._running.pop(key, None)

    async def _after(self, running: asyncio.Task[R], key: Any, read: Callable[[], Awaitable[R]]) -> R:
        try:
            await asyncio.wait({running})
        except asyncio.CancelledError:  # the loop ends; another one may come
            del self._next[key]
            self._running.pop(key, None)
            raise
        self._running[key] = self._next.pop(key)
        return await self._begin(key, read)


async def shared_list(request: Request, read: Callable[[], Awaitable[tuple[bytes, dict[str, str]]]]) -> Response:
    """A list that everybody who asks for the same page at the same time gets from one read."""
    shared: Shared[tuple[bytes, dict[str, str]]] = request.app.state.lists
    body, headers = await shared.get((request.scope["path"], request.scope["query_string"]), read)
    return Response(body, 200, headers, JSON)


def _noticed(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()
