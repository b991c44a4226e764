"""What surrounds every page: the navigation with its numbers, who looks, how the store is, and what was just done."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from starlette.requests import Request

from mahavishnu.api.auth import ANONYMOUS, Actor, Role
from mahavishnu.api.sessions import Session
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model.errors import MahavishnuError
from mahavishnu.stores.base import Health

log = logging.getLogger(__name__)
NUMBERS_LAST = timedelta(seconds=2)  # the navigation may be behind by so much: each page shows its own numbers


@dataclass(frozen=True, slots=True)
class Number:
    """What the navigation says beside a page. `wanted`: somebody has to look; `least`: there may be more."""

    value: int
    wanted: bool = False
    least: bool = False


Count = Callable[[DeadLetterQueue], Awaitable[Number | None]]


@dataclass(frozen=True, slots=True)
class Link:
    """A page in the navigation. `first`: also among the few of a phone; `number` says how much there is."""

    path: str
    name: str
    section: str
    first: bool = False
    key: str | None = None  #: that leads here after `g`
    number: Count | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """What the page before did: the sentence, and whether it is `good`, `bad` or just so (`act`)."""

    text: str
    tone: str = "good"
    path: str | None = None  #: where to check it
    path_name: str = "Show"


@dataclass(frozen=True, slots=True)
class Frame:
    """The values for `base.html`. `root` leads from this page to the start page, wherever the console is mounted."""

    root: str
    path: str
    here: str
    actor: Actor
    session: Session | None
    health: Health | None
    now: datetime
    namespace: str
    links: Sequence[Link]
    numbers: Mapping[str, Number]
    said: Said | None = None

    @property
    def form_token(self) -> str:
        """What each form carries to show that it is ours."""
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
        """Whether who looks may see what letters and tasks were given."""
        return self.actor.principal is None or self.actor.principal.sees_payloads

    @property
    def who(self) -> str:
        """Who looks, in words."""
        if self.actor.name == ANONYMOUS:
            return "no login needed"
        return f"{self.actor.name}, {self.actor.role.name.lower()}"


class Numbers:
    """The numbers of the navigation, read at most every two seconds, however many pages are shown."""

    def __init__(self, dlq: DeadLetterQueue, links: Sequence[Link]) -> None:
        self._dlq, self._links = dlq, links
        self._known: Mapping[str, Number] = {}
        self._read_at: datetime | None = None
        self._reading: asyncio.Task[None] | None = None

    async def get(self) -> Mapping[str, Number]:
        """The numbers by the path of their page; what is not known is left out."""
        now = self._dlq.clock.now()
        if self._read_at is None or not timedelta() <= now - self._read_at < NUMBERS_LAST:
            if self._reading is None or self._reading.done():
                self._reading = asyncio.create_task(self._read(now))
            await asyncio.shield(self._reading)
        return self._known

    def forget(self) -> None:
        """Read them again next time: something was done."""
        self._read_at = None

    async def _read(self, now: datetime) -> None:
        counted = [link for link in self._links if link.number is not None]
        numbers = await asyncio.gather(*(self._count(link) for link in counted))
        self._known = {link.path: number for link, number in zip(counted, numbers, strict=True) if number is not None}
        self._read_at = now

    async def _count(self, link: Link) -> Number | None:
        assert link.number is not None
        try:
            return await link.number(self._dlq)
        except MahavishnuError as problem:
            log.debug("the number of %s is not known: %s", link.path, problem)
            return None


def local_path(request: Request) -> str:
    """The path inside of the console, wherever it is mounted."""
    path: str = request.scope["path"]
    return path.removeprefix(request.scope.get("root_path", ""))


def root_from(path: str) -> str:
    """What leads from a local path to the start page, as a relative URL: a proxy may have put something before it.

    >>> root_from("/"), root_from("/letters"), root_from("/letters/wf_1")
    ('./', './', '../')
    """
    return "../" * (path.count("/") - 1) or "./"
