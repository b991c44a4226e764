"""Adapters: their protocol, those of an app by name, and the attempt that the running code is part of."""

from __future__ import annotations

import asyncio
import contextvars
import difflib
import functools
import hashlib
import inspect
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from msgspec import field

from mahavishnu.engine.context import Workflow
from mahavishnu.model.errors import InvalidInput, NoSuchAdapter, StoreUnavailable
from mahavishnu.model.json_value import Json, type_label
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import SourceKind
from mahavishnu.model.record import Value
from mahavishnu.values.typed_json import plain_text, write_all

if TYPE_CHECKING:
    import httpx

    from mahavishnu.values.arguments import Signature
    from mahavishnu.values.kinds import ValueKind

_THREAD = "mahavishnu-run"  # begins the names of threads that run sync functions
_NO_NAMES: Mapping[str, Any] = MappingProxyType({})
_MOST_THREADS = 1000  # as many as dlq_retry_concurrency allows; they are made when they are needed
"""A function that runs a task: `(task, repos)`, sync or async. It fails by raising, or by a result that says so."""


@runtime_checkable
class Adapter(Protocol):
    """Something that runs tasks. `current_attempt` tells it whether this is a retry."""

    async def run(self, task: Any, repos: list[str]) -> Any:
        """Run it. Raise, or answer a dict whose `status` is `failed` or `error`, or whose `success` is false, to fail.

        A dict under `repos` or `results` with an answer for each repo lets a retry run only those that failed.
        """
        ...


class PythonAdapter:
    """Runs a Python function. A sync one gets a thread, so that it does not hold up the event loop.

    >>> import asyncio
    >>> asyncio.run(PythonAdapter(lambda task, repos: {"swept": repos}).run({}, ["api"]))
    {'swept': ['api']}
    """

    def __init__(self, function: Workflow, kinds: tuple[ValueKind, ...] = ()) -> None:
        """Wrap `function`, with more `kinds` of values. Raises InvalidInput for a generator function."""
        from mahavishnu.values.arguments import local_names  # what only reads letters does not wait for it

        if is_generator(function):
            raise InvalidInput(
                f"{function!r} is a generator function: calling it would run nothing of it. "
                "Give a function that does the work and returns"
            )
        self.function, self.kinds, self.names = function, kinds, local_names(function)
        self._is_async = is_async(function)

    async def run(self, task: Any, repos: list[str]) -> Any:
        if not self._is_async:
            return await run_function(self.function, False, (task, repos), _NO_NAMES)
        result = await self.function(task, repos)  # as `run_function` does it, without a coroutine more for each run
        if result is None or type(result) is dict:
            return result
        return await result if inspect.isawaitable(result) else result

    def __repr__(self) -> str:
        return f"PythonAdapter({getattr(self.function, '__qualname__', self.function)!r})"


async def run_function(
    function: Callable[..., Any], is_async: bool, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Call a function, a sync one in a thread with the caller's context."""
    if is_async:
        result = await function(*args, **kwargs)
    else:
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        result = await loop.run_in_executor(_thread_pool(os.getpid()), context.run, _call, function, args, kwargs)
    if result is None or type(result) is dict:  # nearly always
        return result
    return await result if inspect.isawaitable(result) else result


def _call(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    try:
        return function(*args, **kwargs)
    except BaseException as end:
        if isinstance(end, Exception | asyncio.CancelledError) and not isinstance(end, StopIteration):
            raise
        # A future cannot hold a StopIteration: its awaiter would wait for ever. And `sys.exit()` in such a thread ends
        # the run, not the process, because no signal handler raises it here.
        raise RuntimeError(f"the run raised {end!r}") from end


@functools.cache
def _thread_pool(process: int) -> ThreadPoolExecutor:
    """Return enough threads for all runs, so that hung ones delay no others; a forked `process` needs its own."""
    return ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix=_THREAD)


def close_threads(seconds: float) -> int:
    """Run no sync function any more; return how many still run after so many seconds. They cannot be interrupted."""
    _thread_pool(os.getpid()).shutdown(wait=False, cancel_futures=True)
    runs = [thread for thread in threading.enumerate() if thread.name.startswith(_THREAD)]
    end = time.monotonic() + seconds
    for run in runs:
        run.join(max(0.0, end - time.monotonic()))
    return sum(run.is_alive() for run in runs)


def is_async(function: Workflow) -> bool:
    """Return True if a call gives something to await without doing the work first."""
    return any(map(inspect.iscoroutinefunction, _callables(function)))


def is_generator(function: Workflow) -> bool:
    """Return True if a call runs nothing of it."""
    return any(inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each) for each in _callables(function))


def _callables(function: Workflow) -> tuple[Any, Any]:
    """Return what a call may run: the function, or the `__call__` of an object (also of one that a `partial` is of)."""
    while isinstance(function, functools.partial):
        function = function.func
    return function, getattr(type(function), "__call__", None)  # noqa: B004 - not a test whether it can be called


def as_adapter(thing: Adapter | Workflow) -> Adapter:
    """`thing` as an adapter. Raises InvalidInput if it is neither an adapter nor a function.

    >>> as_adapter(print)
    PythonAdapter('print')
    """
    if isinstance(thing, Adapter) and not isinstance(thing, type) and callable(thing.run):
        return thing if is_async(thing.run) else PythonAdapter(thing.run)
    if callable(thing):
        return PythonAdapter(thing)
    raise InvalidInput(
        f"{thing!r} is no adapter: give an object with `async def run(task, repos)`, or a function of both"
    )


class AdapterRegistry:
    """Adapters by the names of their workflows.

    >>> adapters = AdapterRegistry()
    >>> adapters.register("echo", lambda task, repos: task)
    >>> adapters.get("echo")
    PythonAdapter('<lambda>')
    """

    def __init__(self) -> None:
        self._known: dict[str, Adapter] = {}
        self.tracked: set[str] = set()  # the names of workflows whose runs are lifecycle tasks
        self.on_registered: Callable[[], object] = lambda: None  # called when letters may be run that could not be
        self.limits: dict[str, tuple[int | None, str | None]] = {}  # concurrency and rate, where code declares them
        self._signatures: dict[str, Signature | None] = {}
        self.kinds: tuple[ValueKind, ...] = ()  # of values, besides the built-in ones

    def reads_results(self, name: str) -> bool:
        """Return True if the results of this adapter tell of failures; those of ordinary functions are their own."""
        adapter = self._known.get(name)
        return type(adapter) is PythonAdapter or getattr(adapter, "reads_results", True)

    def signature(self, name: str | None) -> Signature | None:
        """Return the signature of the adapter for its tasks; None for an unknown one, or where Python cannot tell."""
        if name is None or (adapter := self._known.get(name)) is None:
            return None
        if name not in self._signatures:
            from mahavishnu.values.arguments import Signature  # only what failed needs it

            if getattr(adapter, "takes_json", False):  # whatever is in a task, it is given the JSON of it
                return Signature.of_any_task(self.kinds)
            run = adapter.function if isinstance(adapter, PythonAdapter) else adapter.run
            try:
                self._signatures[name] = Signature.of(run, names=getattr(adapter, "names", None), kinds=self.kinds)
            except (TypeError, ValueError):
                self._signatures[name] = None
        return self._signatures[name]

    @property
    def known(self) -> Mapping[str, Adapter]:
        """All adapters, by name."""
        return MappingProxyType(self._known)

    def register(self, name: str, thing: Adapter | Workflow) -> None:
        """Run the workflows of this name with `thing` from now on. Raises InvalidInput if it cannot run any."""
        if not isinstance(name, str) or not name:
            raise InvalidInput(f"an adapter's name must be text that is not empty, not {name!r}")
        self._known[name] = as_adapter(thing)
        self.on_registered()
        self._signatures.pop(name, None)

    def get(self, name: str) -> Adapter:
        """The adapter of this name. Raises NoSuchAdapter."""
        found = self._known.get(name)
        if found is None:
            near = difflib.get_close_matches(str(name), self._known, 1)
            known = f"there are {', '.join(sorted(self._known))}" if self._known else "none is registered"
            raise NoSuchAdapter(str(name), f"did you mean {near[0]!r}?" if near else known)
        return found


class Attempt(Value, frozen=True, eq=False):
    """One run of one letter, as the code that is run can see it through `current_attempt`.

    `idempotency_key` is the same when a run is repeated because its outcome could not be recorded, and another one for
    every run after a recorded outcome: hand it to whatever must not do the same thing twice. Runs for one repo each
    have keys of their own. `attempt_id` is unique. The last of `tracked` gives the task of a tracked run; `not_begun`
    is why none could begin; `called` are the letters of other workflows that failed within it.
    """

    letter: DeadLetter
    attempt_id: str
    part: str | None = None  # the repo, where the run of one letter is one run for each of its repos
    _ended: list[bool] = field(default_factory=list)
    _own_failures: dict[frozenset[str], BaseException | str] = field(default_factory=dict)
    tracked: list[Callable[[], dict[str, Any]]] = field(default_factory=list)
    not_begun: list[StoreUnavailable] = field(default_factory=list)
    called: list[str] = field(default_factory=list)

    def __repr__(self) -> str:  # what the run does is its own affair
        return f"Attempt(letter={self.letter!r}, attempt_id={self.attempt_id!r}, part={self.part!r})"

    @property
    def idempotency_key(self) -> str:
        tallies = self.letter.tallies
        key = f"{self.letter.entry_id}-{tallies.retry_failed + tallies.reopened}"
        return key if self.part is None else f"{key}-{_digest(self.part)}"

    @property
    def is_over(self) -> bool:
        """True if the run has ended: a task that it left behind still has this attempt in its context."""
        return bool(self._ended)

    def end(self) -> None:
        """Note that the run has ended."""
        self._ended.append(True)

    def is_run_of(self, task_id: str | None, task: Any, adapter: str | None, namespace: str | None = None) -> bool:
        """Return True if such a workflow is the one that is being run again, not another one that it starts.

        The adapter has to be the same, as far as both are known, and the id; without an id, the payload. The app that
        runs it has this `namespace`: another one's is another one's work, whatever its name and id.
        """
        source = self.letter.source
        if namespace not in (None, self.letter.namespace):
            return False
        if adapter is not None and source.kind is SourceKind.WORKFLOW and source.queue not in (None, "", adapter):
            return False
        if task_id is not None:
            return task_id in (self.letter.task_id, source.id)
        try:
            from mahavishnu.values.typed_json import plain_text, write_all

            text = plain_text(task)
            plain = Json(text) if text is not None else Json.of(write_all(task, type_label)[0])
            return plain == self.letter.payload
        except Exception:  # the task is user code: anything can happen in it
            return False

    def note_own_failure(self, repos: Iterable[str], error: BaseException | str) -> None:
        """Note that the workflow that is being run again failed for these repos: that is the attempt's failure."""
        self._own_failures[_as_set(repos)] = error

    def note_own_success(self, repos: Iterable[str]) -> None:
        """Note that it succeeded for these repos, perhaps after a failure."""
        for failed in [each for each in self._own_failures if each <= _as_set(repos)]:
            del self._own_failures[failed]

    @property
    def own_failure(self) -> BaseException | str | None:
        """Failure of the workflow that is being run again; None if it did not fail, or succeeded after that."""
        return next(iter(self._own_failures.values())) if self._own_failures else None

    @property
    def number(self) -> int:
        """Number of the run of this letter, from 1."""
        return self.letter.total_attempts


def new_attempt(letter: DeadLetter, attempt_id: str) -> Attempt:
    """The attempt of a run that is about to begin."""
    return Attempt(
        letter=letter, attempt_id=attempt_id, _ended=[], _own_failures={}, tracked=[], not_begun=[], called=[]
    )


def _as_set(repos: Iterable[str]) -> frozenset[str]:
    try:
        return frozenset(repos)
    except Exception:  # no list of texts: a user's mistake, or code of a user that raises
        return frozenset()


def _digest(text: str) -> str:
    """Short, and ASCII whatever the text is, because keys travel in headers."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


current_attempt: ContextVar[Attempt | None] = ContextVar("mahavishnu_attempt", default=None)
"""The attempt that the running code is part of; None outside of one."""


def live_attempt() -> Attempt | None:
    """The attempt that the running code is part of, unless its run is over; None outside of one."""
    attempt = current_attempt.get()
    return None if attempt is None or attempt.is_over else attempt


@contextmanager
def run_as(task_id: str | None, task: Any, adapter: str, namespace: str | None = None) -> Iterator[Attempt | None]:
    """Run a workflow inside of a retry; only the workflow that is being run again sees the attempt."""
    if current_attempt.get() is None:
        yield None
        return
    attempt = live_attempt()
    if attempt is not None and not attempt.is_run_of(task_id, task, adapter, namespace):
        attempt = None
    token = current_attempt.set(attempt)
    try:
        yield attempt
    finally:
        current_attempt.reset(token)


# --- runs a task by posting it to a URL


class HttpAdapter:
    """Posts `{"task": …, "repos": […]}` as JSON and takes a JSON answer. Needs httpx (`mahavishnu-dlq[http]`).

    A retry carries `Idempotency-Key`, `Mahavishnu-Attempt-Id` and `Mahavishnu-Attempt-Number`. An answer of 400 or more
    raises httpx.HTTPStatusError, which the classifier reads, `Retry-After` included; redirects are not followed.
    """

    takes_json = True  # a letter needs no types for it: what is posted is plain

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float = 60.0,
        client: httpx.AsyncClient | None = None,
    ) -> None:
        """A given `client` is used as it is and never closed. Raises InvalidInput for a URL that is not HTTP."""
        if not url.startswith(("http://", "https://")):
            raise InvalidInput(f"{url!r} is not an HTTP URL: it must begin with http:// or https://")
        self.url = url
        self._headers = dict(headers or {})
        self._timeout = timeout_seconds
        self._client = client

    async def run(self, task: Any, repos: list[str]) -> Any:
        import httpx

        headers = {**self._headers, **attempt_headers()}
        plain = task if plain_text(task) is not None else write_all(task, type_label)[0]
        body = {"task": plain, "repos": repos}
        if self._client is not None:
            answer = await self._client.post(self.url, json=body, headers=headers)
        else:  # a client for each call: the loop may be another one each time, and a workflow is no hot path
            async with httpx.AsyncClient(timeout=self._timeout) as client:
                answer = await client.post(self.url, json=body, headers=headers)
        answer.raise_for_status()
        if not answer.content:
            return None
        if "json" in answer.headers.get("content-type", ""):
            return answer.json()
        return answer.text

    def __repr__(self) -> str:
        return f"HttpAdapter({self.url.split('?')[0]!r})"


def attempt_headers() -> dict[str, str]:
    """Return headers that tell the target which run this is; none outside of a retry."""
    if (attempt := live_attempt()) is None:
        return {}
    return {
        "Idempotency-Key": attempt.idempotency_key,
        "Mahavishnu-Attempt-Id": attempt.attempt_id,
        "Mahavishnu-Attempt-Number": str(attempt.number),
    }
