"""Sessions of browsers: a login makes a signed cookie of a token, and forms carry a proof that they are ours.

No store keeps sessions. The cookie holds a mark of the token, or the groups that a provider of logins names, so that a
token that is taken away, or a role, takes its sessions along; and a random id, so that a logout ends the session
wherever a copy of its cookie is.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from itsdangerous import BadSignature, URLSafeSerializer
from starlette.requests import HTTPConnection
from starlette.responses import Response

from mahavishnu.access.oidc import ProviderLogins
from mahavishnu.http.auth import LIFETIME, Access, Actor, Session, form_value, is_from_other_site, mark_of
from mahavishnu.model.clock import Clock
from mahavishnu.model.errors import InvalidInput

FORM_FIELD, FORM_HEADER = "form_token", "x-form-token"
SHORTEST_KEY = 32  # characters
_NAME = "mahavishnu_session"
_MOST_ENDED = 10_000  # sessions that somebody ended, which are remembered until their cookies are worth nothing anyway


class Sessions:
    """Begins, finds and ends sessions of people with a token."""

    def __init__(
        self, access: Access, clock: Clock, keys: Sequence[str] = (), logins: ProviderLogins | None = None
    ) -> None:
        """Sign with the first of `keys` (or a temporary one), and accept all. Raises InvalidInput for a short key."""
        if any(len(key) < SHORTEST_KEY for key in keys):
            raise InvalidInput(f"a key in server.session_keys has at least {SHORTEST_KEY} characters")
        self._access, self._clock, self.logins = access, clock, logins
        self.keys = tuple(keys) or (secrets.token_hex(32),)
        self._cookies = URLSafeSerializer([*reversed(self.keys)], salt="mahavishnu session")  # the last one signs
        self._ended: OrderedDict[str, datetime] = OrderedDict()

    def begin(self, token: str) -> tuple[Session, str] | None:
        """Return a session for the holder of this token, and its cookie; None for an unknown token."""
        actor = self._access.holder(token)
        if actor is None:
            return None
        id, until = secrets.token_urlsafe(16), self._clock.now() + LIFETIME
        cookie = self._cookies.dumps([id, mark_of(token), int(until.timestamp())])
        return Session(id, actor, until, self._form_token(id)), str(cookie)

    def begin_for(self, name: str, groups: Iterable[str]) -> tuple[Session, str] | None:
        """Return a session for a person whom the provider knows, and its cookie; None without a role.

        The cookie has their name and those of their groups that have a role: it ends when none has one any more.
        """
        roles = self._access.provider_roles
        known = [] if roles is None else sorted(roles.groups.keys() & {*groups})
        actor = None if roles is None else roles.actor(name, known)
        if roles is None or actor is None:
            return None
        id, until = secrets.token_urlsafe(16), self._clock.now() + LIFETIME
        cookie = self._cookies.dumps([id, [roles.source, name, known], int(until.timestamp())])
        return Session(id, actor, until, self._form_token(id), by_provider=True), str(cookie)

    def of_proxy(self, actor: Actor) -> Session:
        """Return the session of a person whom a proxy has named: browsers authenticate to the proxy."""
        id = f"proxy {actor.name}"
        return Session(id, actor, self._clock.now() + LIFETIME, self._form_token(id), by_proxy=True)

    def sign(self, values: Sequence[str], purpose: str) -> str:
        """Return a text that `unsign` believes, for the same purpose only."""
        return str(self._signer(purpose).dumps(list(values)))

    def unsign(self, signed: str, purpose: str) -> list[str] | None:
        """Return the values that were signed; None for any other text."""
        try:
            values: list[str] = self._signer(purpose).loads(signed)
        except BadSignature:
            return None
        return values

    def _signer(self, purpose: str) -> URLSafeSerializer:
        return URLSafeSerializer([*reversed(self.keys)], salt=f"mahavishnu {purpose}")

    def _holder(self, mark: Any) -> Actor | None:
        if isinstance(mark, str):
            return self._access.actor_by_mark(mark)
        source, name, groups = mark
        roles = self._access.provider_roles
        return roles.actor(name, groups) if roles is not None and roles.source == source else None

    def find(self, cookie: str | None) -> Session | None:
        """Return the session of a cookie; None if it is over, was ended, is no cookie of ours, or its token is gone."""
        if not cookie:
            return None
        try:
            id, mark, until = self._cookies.loads(cookie)
            actor, ends = self._holder(mark), datetime.fromtimestamp(until, UTC)
        except (BadSignature, ValueError, TypeError):
            return None
        if actor is None or ends <= self._clock.now() or id in self._ended:
            return None
        return Session(id, actor, ends, self._form_token(id), by_provider=not isinstance(mark, str))

    async def find_in(self, connection: HTTPConnection) -> Session | None:
        """Return the session of a request; one of a provider as that sees it now, or some minutes ago."""
        session = self.find(connection.cookies.get(cookie_name(connection.url.scheme)))
        if session is None or not session.by_provider or self.logins is None:
            return session
        return await self.logins.check(session)

    def is_over(self, session: Session) -> bool:
        """Return whether a session has ended, as far as that is known without asking the provider."""
        if session.by_proxy:
            return False
        ended = session.id in self._ended or session.until <= self._clock.now()
        return ended or (session.by_provider and self.logins is not None and self.logins.is_due(session))

    def end(self, session: Session) -> None:
        """Make its cookie worthless from now on, in this process."""
        now = self._clock.now()
        while self._ended and (len(self._ended) >= _MOST_ENDED or next(iter(self._ended.values())) <= now):
            self._ended.popitem(last=False)
        self._ended[session.id] = session.until

    def why_forged(self, session: Session, headers: Mapping[str, str], body: bytes) -> str | None:
        """Return why a change does not come from a page that this session was shown; None if it does."""
        if is_from_other_site(headers):
            return "a page of another site sent this; nothing was done"
        given = headers.get(FORM_HEADER) or form_value(headers, body, FORM_FIELD)
        if not hmac.compare_digest(given.encode(), session.form_token.encode()):
            return "the form is not of this login: load its page again, and send it once more; nothing was done"
        return None

    def _form_token(self, session_id: str) -> str:
        # of all keys: with a new one in front, a form that is open in a browser is sent once more
        return hmac.new("\0".join(self.keys).encode(), session_id.encode(), hashlib.sha256).hexdigest()[:32]


def cookie_name(scheme: str, name: str = _NAME) -> str:
    """Return the name of the cookie; by the prefix, browsers see to it that no other host has set it.

    >>> cookie_name("https")
    '__Host-mahavishnu_session'
    """
    return f"__Host-{name}" if scheme == "https" else name


def set_cookie(response: Response, scheme: str, cookie: str, *, name: str = _NAME, lasts: timedelta = LIFETIME) -> None:
    """Have the browser keep the session, or what `name` says, out of the reach of scripts and of other sites."""
    response.set_cookie(
        cookie_name(scheme, name),
        cookie,
        max_age=int(lasts.total_seconds()),
        path="/",
        secure=scheme == "https",
        httponly=True,
        samesite="lax",  # it comes along when another site leads here, as a provider of logins does
    )


def remove_cookie(response: Response, scheme: str, *, name: str = _NAME) -> None:
    """Have the browser forget the session, or what `name` says."""
    response.delete_cookie(cookie_name(scheme, name), path="/", secure=scheme == "https", httponly=True, samesite="lax")


# --- failed logins are slowed down, for each address, in bounded memory

FREE_FAILURES = 5  # that cost nothing: people mistype
FIRST_WAIT, LONGEST_WAIT = 2.0, 300.0  # seconds; each further failure doubles the wait
FORGET_SECONDS = 900.0
MOST_ADDRESSES = 10_000


class LoginThrottle:
    """Counts the failed logins of addresses; the times are seconds of a clock that only goes on.

    >>> throttle = LoginThrottle()
    >>> for second in range(6):
    ...     throttle.add_failure("192.0.2.1", second)
    >>> throttle.seconds_to_wait("192.0.2.1", 6), throttle.seconds_to_wait("192.0.2.2", 6)
    (1.0, 0.0)
    """

    def __init__(self) -> None:
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()  # how many, and when the last one was

    def seconds_to_wait(self, address: str, now: float) -> float:
        """Return how long this address has to wait until its next login is looked at."""
        count, last = self._failures.get(_network(address), (0, now))
        if count <= FREE_FAILURES:
            return 0.0
        wait = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(count - FREE_FAILURES - 1, 20))
        return max(0.0, last + wait - now)

    def add_failure(self, address: str, now: float) -> None:
        """Note a login that failed; the oldest note may be forgotten for it."""
        network = _network(address)
        count, last = self._failures.pop(network, (0, now))
        self._failures[network] = (count + 1 if now - last < FORGET_SECONDS else 1, now)
        if len(self._failures) > MOST_ADDRESSES:
            self._failures.popitem(last=False)

    def forget(self, address: str) -> None:
        """Begin anew after a login that worked."""
        self._failures.pop(_network(address), None)


def _network(address: str) -> str:
    """Return what counts as one sender: of IPv6 the network, in which a sender has billions of addresses.

    >>> _network("2001:db8:1:2:3::4"), _network("192.0.2.7"), _network("a name")
    ('2001:db8:1:2::/64', '192.0.2.7', 'a name')
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((parsed, 64), strict=False)) if parsed.version == 6 else address
