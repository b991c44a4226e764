"""Frame of every page: the navigation with its numbers, the user, the state of the store, and what was just done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

from starlette.requests import Request

from mahavishnu.console.recent_reads import Recent
from mahavishnu.engine.queue import LetterQueue
from mahavishnu.http.auth import ANONYMOUS, Actor, Role, Session
from mahavishnu.model.ids import DEFAULT_QUEUE
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.record import Value
from mahavishnu.stores.base import Health


class Number(Value, frozen=True):
    """Number beside a page in the navigation. `wanted`: it needs attention; `least`: there may be more."""

    value: int
    wanted: bool = False
    least: bool = False


Count = Callable[[LetterQueue], Awaitable[Number | None]]


class NumberIn(Value, frozen=True):
    """A number that stands in what a page reads anyway: `read` is done once for the page and the navigation."""

    read: Callable[[LetterQueue], Awaitable[Any]]
    find: Callable[[Recent[Any]], Number | None]


class Link(Value, frozen=True):
    """A page in the navigation. `first`: also among the few of a phone; `number` says how much there is."""

    path: str
    name: str
    section: str
    place: int  #: in the navigation
    first: bool = False
    key: str | None = None  #: that leads here after `g`
    number: Count | NumberIn | None = None


class Said(Value, frozen=True):
    """Result of the page before: the sentence, and whether it is `good`, `bad` or neutral (`act`)."""

    text: str
    tone: str = "good"
    path: str | None = None  #: where to check it
    path_name: str = "Show"


class Frame(Value, frozen=True):
    """The values for `base.html`. `root` leads from this page to the start page, wherever the console is mounted."""

    root: str
    path: str
    here: str
    actor: Actor
    session: Session | None
    health: Health | None
    now: datetime
    as_of: datetime  #: what the page shows was read then
    namespace: str
    links: Sequence[Link]
    numbers: Mapping[str, Number]
    said: Said | None = None
    elsewhere: bool = False  #: the path names the namespace
    repeatable: bool = True  #: its address shows it again: the answer to a form is not kept up to date

    @property
    def home(self) -> str:
        """Path to the start page of the namespace that the server is for."""
        return f"{self.root}../../" if self.elsewhere else self.root

    def letter_path(self, letter: DeadLetter) -> str:
        """The page of a letter, from the start page."""
        return letter_path(letter.task_id, letter_query(letter, self.namespace))

    def letter_query(self, letter: DeadLetter) -> str:
        """Return the query of its page and its forms."""
        return letter_query(letter, self.namespace)

    @property
    def form_token(self) -> str:
        """Token that each form carries to show that it is ours."""
        return self.session.form_token if self.session else ""

    @property
    def sections(self) -> Mapping[str, Sequence[Link]]:
        """The navigation, in its order."""
        sections: dict[str, list[Link]] = {}
        for link in self.links:
            sections.setdefault(link.section, []).append(link)
        return sections

    @property
    def may_act(self) -> bool:
        return self.actor.role >= Role.OPERATOR

    @property
    def may_delete(self) -> bool:
        return self.actor.role >= Role.ADMIN

    @property
    def sees_payloads(self) -> bool:
        """True if the user may see what letters and tasks were given."""
        return self.actor.principal is None or self.actor.principal.sees_payloads

    @property
    def who(self) -> str:
        """Name and role of the user, in words."""
        if self.actor.name == ANONYMOUS:
            return "no login needed"
        return f"{self.actor.name}, {self.actor.role.name.lower()}"


def letter_path(task_id: str, query: str = "") -> str:
    """The page of a letter, from the start page.

    >>> letter_path("a/b"), letter_path("wf_1", "?queue=mail")
    ('letters/a%2Fb', 'letters/wf_1?queue=mail')
    """
    return f"letters/{quote(task_id, safe='', errors='surrogatepass')}{query}"


def letter_query(letter: DeadLetter, shown: str) -> str:
    """Return the query that names the letter of this task, unless it is in the usual queue of the namespace `shown`."""
    said = {"namespace": letter.namespace} if letter.namespace != shown else {}
    said |= {"queue": letter.queue} if letter.queue != DEFAULT_QUEUE else {}
    return "?" + urlencode(said) if said else ""


def local_path(request: Request) -> str:
    """The path inside of the console, wherever it is mounted."""
    path: str = request.scope["path"]
    return path.removeprefix(request.scope.get("root_path", ""))


def root_from(path: str) -> str:
    """Return the relative URL from a local path to the start page: a proxy may have put something before it.

    >>> root_from("/"), root_from("/letters"), root_from("/letters/wf_1")
    ('./', './', '../')
    """
    return "../" * (path.count("/") - 1) or "./"


class FirstFix(Value, frozen=True):
    """A cause that is known beforehand, by words of its title, and the change of the task that mends it."""

    cause: str
    path: str
    value: str  #: as JSON
