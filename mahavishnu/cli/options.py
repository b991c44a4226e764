"""Options of several commands: where the letters are, and conditions on them.

A dataclass of options stands in a command's signature as one parameter (`cli.command.for_typer`).
"""

from __future__ import annotations

import getpass
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeAlias

import typer

from mahavishnu.cli.output import Failed
from mahavishnu.model.errors import InvalidInput

if TYPE_CHECKING:
    from mahavishnu.engine.queue import LetterQueue
    from mahavishnu.http.responses import Document

SERVER_VARIABLE = "MAHAVISHNU_SERVER"
USER_VARIABLE = "MAHAVISHNU_USER"
Texts: TypeAlias = "list[str] | None"
Limit: TypeAlias = Annotated[int, typer.Option("--limit", min=1, help="At most so many.")]
Every: TypeAlias = Annotated[bool, typer.Option("--all", help="All of them, however many there are.")]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Reason: TypeAlias = Annotated[
    str | None, typer.Option("--reason", help="Why; it is kept with the letter and the audit.")
]
_ALL = "*"  # as in model.namespaces, which imports more than help can wait for
Namespace: TypeAlias = Annotated[
    str | None, typer.Option("--namespace", metavar="NAME", help="Of this namespace, not of the app's own one.")
]
AllNamespaces: TypeAlias = Annotated[
    bool, typer.Option("--all-namespaces", help="Of all namespaces: to look; what changes letters is refused.")
]
NAMESPACE_OPTIONS: Mapping[str, tuple[Any, Any]] = {
    "namespace": (Namespace, None),
    "all_namespaces": (AllNamespaces, False),
}
_PLACE = ("namespace", "queue")
# Filters that the API calls the same.
_SAME_NAMES = (
    *("status", "category", "policy", "namespace", "queue", "run", "task_id", "source_id"),
    *("adapter", "repo", "text", "metadata"),
)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[smhdw])+")
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")


@dataclass
class Session:
    """The options that stand before the command."""

    settings_file: Path | None = None
    server: str | None = None
    store: str | None = None
    store_options: tuple[str, ...] = ()  # as they stood between the group of commands and the verb
    namespace: str | None = None  # another one than the app's own; `*` for all
    program: Backend | None = None  # None: a server is asked

    @property
    def backend(self) -> Backend:
        """The program in this process."""
        assert self.program is not None, "the command line gives each session its program"
        return self.program

    @cached_property
    def settings(self) -> Any:
        """The `MahavishnuSettings`. Raises SettingsError with a line for each problem."""
        given: dict[str, Any] = {"dlq_store_url": self.store} if self.store else {}
        given |= {"dlq_namespace": self.namespace} if self.namespace not in (None, "*") else {}
        return self.backend.load_settings(self.settings_file, given)

    @cached_property
    def plain_store(self) -> str | None:
        """The SQLite file that the letters are in, if nothing else is set; None if the settings have to be read."""
        return None if self.settings_file or "settings" in vars(self) else self.backend.plain_store(self.store)

    @property
    def store_url(self) -> str:
        """The URL of the store. Raises SettingsError."""
        return self.plain_store or str(self.settings.dlq_store_url)

    def make_queue(self) -> LetterQueue:
        """Return a queue on the store, not opened yet. Raises SettingsError."""
        if self.plain_store is None:
            return self.backend.make_queue(self.settings)
        named = None if self.namespace == "*" else self.namespace
        return self.backend.make_plain_queue(self.plain_store, named, lambda: self.settings)

    def command(self, group: str, *words: str) -> str:
        """Return a command line about the same letters, ready to be typed."""
        settings = ("--settings", str(self.settings_file)) if self.settings_file else ()
        there = self.namespace if self.namespace != "*" and "--namespace" not in words else None
        named = ("--namespace", there) if there else ()
        return shlex.join(["mahavishnu", *settings, group, *self.store_options, *words, *named])

    @property
    def user(self) -> str:
        """The name that acts go under."""
        named = os.environ.get(USER_VARIABLE)
        if named:
            return named
        try:
            return getpass.getuser()
        except (OSError, KeyError, ImportError):  # a container may have no name for its user
            return "cli_user"


def session_of(context: typer.Context) -> Session:
    """The session of a command."""
    return context.ensure_object(Session)


Server = Annotated[
    str | None,
    typer.Option(
        "--server", metavar="URL", help=f"Ask this server, instead of opening the store (or {SERVER_VARIABLE})."
    ),
]
StoreUrl = Annotated[
    str | None, typer.Option("--store", metavar="URL", help="Open this store, instead of the one of the settings.")
]


def choose_store(context: typer.Context, server: Server = None, store: StoreUrl = None) -> None:
    """Note where the letters are: the callback of each group of commands that are about them."""
    for option, given in (("--server", server), ("--store", store)):
        if given == "":  # from a shell variable that is not set: the default would be another store than is meant
            raise InvalidInput(f"{option} is empty: say which one, or leave it out")
    if server and store:
        raise InvalidInput("give --server or --store, not both")
    found = session_of(context)
    named = server or (None if store else os.environ.get(SERVER_VARIABLE))
    found.server, found.store = named or None, store
    found.store_options = ("--server", server) if server else ("--store", store) if store else ()


def choose_namespace(session: Session, given: dict[str, Any]) -> Any:
    """Take both options from those that are `given`. One name is meant for all requests; several are a filter.

    The return value is the filter, or None. The option --project of a command is a name, too.
    """
    everywhere, named = given.pop("all_namespaces"), given.pop("namespace")
    names = [named] if isinstance(named, str) else list(named or ())
    if everywhere and names:
        raise InvalidInput("give --namespace or --all-namespaces, not both")
    if everywhere or names == [_ALL]:
        session.namespace = _ALL
    elif len(names) == 1:
        session.namespace = _require(names[0])
    if given.get("project") is not None:
        session.namespace = _require(given["project"])
    return named if session.namespace is None else None


def _require(name: str) -> str:
    from mahavishnu.model.query import require_namespace

    return require_namespace(name)


def namespace_column(shown: Sequence[Mapping[str, Any]]) -> list[str]:
    """The title of the column that says whose each is, where there are several."""
    return ["namespace"] if len({each["namespace"] for each in shown}) > 1 else []


def confirm(question: str) -> None:
    """Ask on the terminal. Raises InvalidInput where there is none, Failed on no."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InvalidInput("nobody can be asked here: say --yes if you mean it")
    if not typer.confirm(question, err=True):
        raise Failed("nothing was done")


def _option(name: str, what: str, metavar: str = "TEXT") -> Any:
    return typer.Option(name, metavar=metavar, help=what)


@dataclass(frozen=True)
class Filters:
    """Conditions on letters: all options hold; several values of one option mean any of them."""

    where: Annotated[
        str | None,
        _option("--where", "A query, such as 'adapter:orders age>2h -category:network'; it has to hold, too.", "QUERY"),
    ] = None
    status: Annotated[Texts, _option("--status", "pending, retrying, exhausted, completed or archived.")] = None
    resolution: Annotated[
        Texts,
        _option(
            "--resolution", "How the case ended: pending, requeued, permanently_failed, manually_resolved, cancelled."
        ),
    ] = None
    open: Annotated[bool, typer.Option("--open", help="Cases that have not ended: --resolution pending.")] = False
    category: Annotated[Texts, _option("--category", "Kind of failure, such as network or validation.")] = None
    policy: Annotated[Texts, _option("--policy", "Retry policy.")] = None
    reason_code: Annotated[Texts, _option("--dlq-reason", "Why the letter was written, such as workflow_failed.")] = (
        None
    )
    namespace: Annotated[Texts, _option("--namespace", "Namespace; with TASK, where the task is.")] = None
    queue: Annotated[Texts, _option("--queue", "Queue; with TASK, where the task is.")] = None
    group: Annotated[Texts, _option("--group", "Fingerprint: letters with the same cause.", "FINGERPRINT")] = None
    fingerprint: Annotated[Texts, _option("--fingerprint", "The same as --group.", "FINGERPRINT")] = None
    run: Annotated[Texts, _option("--run", "Moved by this bulk run.", "RUN")] = None
    task_id: Annotated[Texts, _option("--task-id", "Of this task, in any queue.", "TASK")] = None
    source_id: Annotated[Texts, _option("--source-id", "Other work of this task, or of this source.", "TASK")] = None
    adapter: Annotated[Texts, _option("--adapter", "Run by this adapter or workflow; '(none)': they name none.")] = None
    tag: Annotated[Texts, _option("--tag", "A classifier gave the latest failure this tag.")] = None
    repo: Annotated[Texts, _option("--repo", "Of this repo.")] = None
    text: Annotated[str | None, _option("--text", "All of these words occur in its errors, task id or payload.")] = None
    metadata: Annotated[Texts, _option("--metadata", "This value is in the metadata.", "PATH=VALUE")] = None
    since: Annotated[
        str | None, _option("--since", "Written within the last 2h, 30m, 1d … or since a date and time.", "WHEN")
    ] = None
    before: Annotated[str | None, _option("--before", "Written before that.", "WHEN")] = None

    @property
    def letter_scope(self) -> dict[str, str]:
        """The namespace and queue of single tasks. Raises InvalidInput for any other filter."""
        given = [field.name for field in fields(self) if getattr(self, field.name) and field.name not in _PLACE]
        if given:
            names = ["--dlq-reason" if name == "reason_code" else f"--{name.replace('_', '-')}" for name in given]
            raise InvalidInput(f"give tasks or filters, not both: {', '.join(names)}")
        many = [name for name in _PLACE if len(getattr(self, name) or ()) > 1]
        if many:
            raise InvalidInput(f"a task is in one {many[0]}, not in several")
        return {name: value[0] for name in _PLACE if (value := getattr(self, name))}

    @property
    def any_given(self) -> bool:
        """True if there is any filter."""
        return any(getattr(self, field.name) for field in fields(self))

    @property
    def says_which(self) -> bool:
        """True if a filter gives the state of the letters, or names tasks or a run: all of these are meant."""
        if self.status or self.resolution or self.open or self.task_id or self.source_id or self.run:
            return True
        return bool(_names_in(self.where) & {"is", "status", "resolution", "task_id", "source_id", "run"})

    def api_filter(self) -> dict[str, Any]:
        """The filter as the API takes it. Raises InvalidInput."""
        if self.open and self.resolution:
            raise InvalidInput("give --open or --resolution, not both")
        _names_in(self.where)  # raises what is wrong with it, and shows where
        values = {
            **{name: getattr(self, name) for name in _SAME_NAMES},
            "q": self.where,
            "resolution_status": ["pending"] if self.open else self.resolution,
            "reason": self.reason_code,
            "fingerprint": [*(self.group or ()), *(self.fingerprint or ())],
            "tags": self.tag,
            "created_from": instant_from(self.since, "--since"),
            "created_before": instant_from(self.before, "--before"),
        }
        return {name: value for name, value in values.items() if value not in (None, [], "")}


def _names_in(text: str | None) -> frozenset[str]:
    """The names that a query uses. Raises InvalidQueryText."""
    if not text:
        return frozenset()
    from mahavishnu.model.query_text import names_in

    return names_in(text)


def instant_from(text: str | None, option: str, now: datetime | None = None, *, ahead: bool = False) -> str | None:
    """An instant from `2h` (so long ago; `ahead`: from now) or a date and time, which is UTC unless it says otherwise.

    >>> noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    >>> instant_from("1h30m", "--since", noon), instant_from("2029-12-31", "--since", noon)
    ('2030-01-01T10:30:00.000Z', '2029-12-31T00:00:00.000Z')
    """
    from mahavishnu.model.clock import SystemClock, instant_text  # imports asyncio: not for help

    if not text:
        return None
    if _DURATION.fullmatch(text):
        seconds = sum(float(count) * _SECONDS[unit] for count, unit in _PART.findall(text))
        now = now or SystemClock().now()
        try:
            return instant_text(now + timedelta(seconds=seconds if ahead else -seconds))
        except OverflowError:
            raise InvalidInput(f"{option} {text} is longer than there are dates for") from None
    try:
        moment = datetime.fromisoformat(text)
        return instant_text(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise InvalidInput(f"{option} takes a time such as 2h, 1d or 2026-01-31T12:00, not {text!r:.80}") from None


# --- the program behind the command line: settings, and stores in this process. `mahavishnu.core` supplies it


class Backend(Protocol):
    """Everything that commands need of packages above this one. `settings` are `MahavishnuSettings`."""

    def load_settings(self, file: Path | None, given: Mapping[str, Any]) -> Any:
        """Return the settings. Raises SettingsError with a line for each problem."""

    def is_default_store(self, url: str) -> bool:
        """Return whether this URL is that of the default store."""

    def make_queue(self, settings: Any) -> LetterQueue:
        """Return a queue on the store of the settings, not opened yet."""

    def plain_store(self, given: str | None) -> str | None:
        """Return the SQLite file that is meant, if nothing else is set; None if the settings have to be read."""

    def make_plain_queue(self, url: str, namespace: str | None, settings: Callable[[], Any]) -> LetterQueue:
        """Return a queue as default settings describe it, on a SQLite file; `settings` are read for what needs them."""

    async def read(self, queue: LetterQueue, path: str, query: str) -> Document | None:
        """Return the answer to a read; None if its route has to answer."""

    def open_queue(self, settings: Any) -> AbstractAsyncContextManager[LetterQueue]:
        """Open a queue on the store of the settings, with its classifier. Raises InvalidInput for rules."""

    def local_api(self, queue: LetterQueue, max_body_bytes: int) -> Any:
        """Return the HTTP API of a queue as an ASGI app that needs no server."""

    def import_app(self, name: str, settings_file: Path | None) -> Any:
        """Import the app that `--app MODULE:NAME` names. Raises InvalidInput."""

    def count_letters(self, path: Path) -> int:
        """Count the letters in a local store."""
