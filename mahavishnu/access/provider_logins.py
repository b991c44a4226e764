"""This process's memory of logins at a provider: to ask again about people, and to log them out there, too.

A cookie says which groups a person was in at login. After a while the provider is asked again, with the refresh token
that it gave, so that a person who left a group, or was locked out, is out here too. Without a token, as after a restart
or on another server, the session is over then. A new login is one redirect for people the provider still knows.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from mahavishnu.access.oidc import Login, Provider, ProviderProblem
from mahavishnu.http.auth import Actor
from mahavishnu.model.clock import Clock

if TYPE_CHECKING:
    from mahavishnu.http.auth import Session
    from mahavishnu.http.proxies import RoleMap

log = logging.getLogger(__name__)
ASKED_AGAIN = timedelta(minutes=1)  # after the provider gave no answer
_MOST = 10_000
_LEAVES_LAST = timedelta(minutes=5)


@dataclass
class _Known:
    login: Login
    actor: Actor
    due: datetime
    until: datetime
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class ProviderLogins:
    """The logins of one provider that began here, and when they are asked for again."""

    def __init__(self, provider: Provider, roles: RoleMap, clock: Clock, recheck: timedelta) -> None:
        self.provider, self._roles, self._clock, self._recheck = provider, roles, clock, recheck
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._leaves: OrderedDict[str, tuple[datetime, str]] = OrderedDict()

    def note(self, session: Session, login: Login) -> None:
        """Remember what the provider gave for a session that has begun."""
        now = self._clock.now()
        while self._known and (len(self._known) >= _MOST or next(iter(self._known.values())).until <= now):
            self._known.popitem(last=False)
        self._known[session.id] = _Known(login, session.actor, now + self._recheck, session.until)

    async def check(self, session: Session) -> Session | None:
        """Return the session as the provider sees it now; None if it is over. Without an answer, it stays unchanged."""
        known = self._known.get(session.id)
        if known is None:
            return session if self._clock.now() < session.begun + self._recheck else None
        if self._clock.now() >= known.due:
            async with known.lock:  # a refresh token counts once
                if self._clock.now() >= known.due and not await self._ask(known):
                    self._known.pop(session.id, None)
                    return None
        return replace(session, actor=known.actor) if session.id in self._known else None

    def is_due(self, session: Session) -> bool:
        """Return whether the provider is to be asked for this session before it is believed again."""
        known = self._known.get(session.id)
        return self._clock.now() >= (known.due if known is not None else session.begun + self._recheck)

    async def _ask(self, known: _Known) -> bool:
        """Return whether the person still has a role; note which one."""
        now = self._clock.now()
        try:
            login = await self.provider.refresh(known.login)
        except ProviderProblem as problem:
            if problem.status == 403:
                log.info("the session of %s is over: %s", known.actor.name, problem)
                return False
            log.warning("whether %s still may log in is not known: %s", known.actor.name, problem)
            known.due = now + ASKED_AGAIN
            return True
        actor = self._roles.actor(login.person.name, login.person.groups)
        if actor is None:
            log.info("the session of %s is over: they are in no group with a role any more", known.actor.name)
            return False
        known.login, known.actor, known.due = login, actor, now + self._recheck
        return True

    async def leave(self, session: Session) -> str | None:
        """Forget a session that was ended; return a key for `place_of`, if the provider can be told."""
        known = self._known.pop(session.id, None)
        try:
            place = await self.provider.end_url(known.login.id_token if known else None)
        except ProviderProblem as problem:
            log.warning("%s is logged out here and not at the provider: %s", session.actor.name, problem)
            return None
        if place is None:
            return None
        key, now = secrets.token_urlsafe(16), self._clock.now()
        while self._leaves and (len(self._leaves) >= _MOST or next(iter(self._leaves.values()))[0] <= now):
            self._leaves.popitem(last=False)
        self._leaves[key] = now + _LEAVES_LAST, place
        return key

    def place_of(self, key: str) -> str | None:
        """Return where a browser goes to be logged out at the provider; each key counts once."""
        until, place = self._leaves.pop(key, (None, None))
        return place if until is not None and until > self._clock.now() else None
