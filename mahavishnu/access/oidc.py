"""Logins at a provider of OpenID Connect: the code flow with PKCE, a state and a nonce; and the memory of them.

A cookie says which groups a person was in at login. After a while the provider is asked again, with the refresh token
that it gave, so that a person who left a group, or was locked out, is out here too. Without a token, as after a restart
or on another server, the session is over then. A new login is one redirect for people the provider still knows.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus, urlencode, urlsplit

from mahavishnu.http.auth import Actor, Session, is_loopback
from mahavishnu.model.clock import Clock
from mahavishnu.model.errors import InvalidInput

if TYPE_CHECKING:
    from mahavishnu.http.proxies import RoleMap

log = logging.getLogger(__name__)
CALLBACK = "/login/callback"
ATTEMPT_LASTS = timedelta(minutes=10)
_KNOWN_FOR = timedelta(hours=1)  # what the provider says of itself
ASKED_AGAIN = timedelta(minutes=1)  # after the provider gave no answer
_MOST_KNOWN = 10_000
_LEAVES_LAST = timedelta(minutes=5)
_SECONDS = 10.0  # for one answer of the provider
_MOST_BYTES = 1024 * 1024
_LEEWAY = 60  # seconds that the provider's clock may be off
# With a key that only the provider has: `none` and what is signed with the client's secret are not among them.
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")


class ProviderProblem(Exception):
    """A login at the provider came to nothing: why, and what to do."""

    def __init__(self, detail: str, *, status: int = 403) -> None:
        super().__init__(detail)
        self.status = status


@dataclass(frozen=True)
class ProviderRules:
    """The provider, this server's registration there, and the claims to read."""

    issuer: str
    client_id: str
    client_secret: str
    console_url: str
    scopes: str = "openid profile"
    name_claim: str = "preferred_username"
    group_claim: str = "groups"
    recheck: timedelta = timedelta(minutes=15)  #: after which it is asked again who somebody is

    def __post_init__(self) -> None:
        """Raise InvalidInput for settings that cannot work, or that are open to interception."""
        for name, url in (("issuer", self.issuer), ("console_url", self.console_url)):
            parts = urlsplit(url)
            if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
                raise InvalidInput(
                    f"server.oidc.{name} must be an https:// URL (http:// on loopback only), not {url!r}"
                )
            if parts.query or parts.fragment or parts.username:
                raise InvalidInput(f"server.oidc.{name} is a URL without user, query and fragment")
        if not self.client_id:
            raise InvalidInput("server.oidc.client_id is missing: the name by which the provider knows this server")

    @property
    def callback_url(self) -> str:
        """The URL to which the provider sends browsers back; it has to know this URL."""
        return self.console_url.rstrip("/") + CALLBACK


@dataclass(frozen=True)
class Attempt:
    """A login that has begun: kept by the browser until it comes back."""

    state: str
    nonce: str
    verifier: str
    next: str
    until: str

    def is_over(self, now: datetime) -> bool:
        """Return whether it took too long."""
        return now >= datetime.fromisoformat(self.until)


@dataclass(frozen=True)
class Person:
    """A person whom the provider has recognised. `subject` stays the same when their name changes."""

    name: str
    groups: tuple[str, ...]
    subject: str


@dataclass(frozen=True)
class Login:
    """A person, with the provider's tokens for asking again, and for ending the login there."""

    person: Person
    refresh_token: str | None = field(default=None, repr=False)
    id_token: str | None = field(default=None, repr=False)


class Provider:
    """Asks one provider who logs in."""

    def __init__(self, rules: ProviderRules, clock: Clock) -> None:
        """Raise InvalidInput if a package that this needs is not installed."""
        try:
            import authlib.oidc.core  # noqa: F401
            import httpx  # noqa: F401
            import joserfc.jwt  # noqa: F401
        except ImportError as missing:
            raise InvalidInput(
                f"server.oidc needs what is not installed ({missing.name}): pip install 'mahavishnu-dlq[oidc]'"
            ) from None
        self.rules, self._clock = rules, clock
        self._about: tuple[datetime, Mapping[str, Any]] | None = None
        self._keys: tuple[datetime, Any] | None = None
        self._lock = asyncio.Lock()

    async def begin(self, next: str) -> tuple[str, Attempt]:
        """Return the URL for the browser, and the attempt that it has to come back with. Raises ProviderProblem."""
        from authlib.oauth2.rfc7636 import create_s256_code_challenge

        about = await self._discover()
        until = (self._clock.now() + ATTEMPT_LASTS).isoformat()
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        attempt = Attempt(state, nonce, verifier, next, until)
        asked = {
            "response_type": "code",
            "client_id": self.rules.client_id,
            "redirect_uri": self.rules.callback_url,
            "scope": self.rules.scopes,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": create_s256_code_challenge(attempt.verifier),
            "code_challenge_method": "S256",
        }
        place = self._endpoint(about, "authorization_endpoint")
        return f"{place}{'&' if urlsplit(place).query else '?'}{urlencode(asked)}", attempt

    async def finish(self, code: str, attempt: Attempt) -> Login:
        """Return the login for the code that the browser brought back. Raises ProviderProblem."""
        about = await self._discover()
        sent = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.rules.callback_url,
            "code_verifier": attempt.verifier,
        }
        given = await self._exchange(about, sent)
        claims = await self._verify(about, str(given.get("id_token", "")), attempt.nonce)
        return _login(await self._find_person(about, claims, given), given)

    async def refresh(self, login: Login) -> Login:
        """Return the login as the provider sees it now. Raises ProviderProblem; of status 403 where it ended it."""
        if login.refresh_token is None:
            raise ProviderProblem("the provider gave no refresh token, so it has to be asked by a login")
        about = await self._discover()
        given = await self._exchange(about, {"grant_type": "refresh_token", "refresh_token": login.refresh_token})
        claims: Mapping[str, Any] = {"sub": login.person.subject}
        if given.get("id_token"):
            claims = await self._verify(about, str(given["id_token"]), None)
            if claims.get("sub") != login.person.subject:
                raise ProviderProblem("the provider speaks of somebody else now")
        person = await self._find_person(about, claims, given)
        return _login(person, {"refresh_token": login.refresh_token, "id_token": login.id_token, **given})

    async def end_url(self, id_token: str | None) -> str | None:
        """Return the URL that ends the login at the provider; None where that offers no such thing."""
        about = await self._discover()
        if "end_session_endpoint" not in about:
            return None
        place = self._endpoint(about, "end_session_endpoint")
        back = self.rules.console_url.rstrip("/") + "/login"
        asked = {"client_id": self.rules.client_id, "post_logout_redirect_uri": back}
        asked |= {"id_token_hint": id_token} if id_token else {}
        return f"{place}{'&' if urlsplit(place).query else '?'}{urlencode(asked)}"

    async def _find_person(
        self, about: Mapping[str, Any], claims: Mapping[str, Any], given: Mapping[str, Any]
    ) -> Person:
        """Return the person of these claims, to which the provider may add some when asked again."""
        token = given.get("access_token")
        is_short = self.rules.group_claim not in claims or self.rules.name_claim not in claims
        if is_short and "userinfo_endpoint" in about and isinstance(token, str):
            headers = {"Authorization": f"Bearer {token}"}
            status, more = await self._ask("GET", self._endpoint(about, "userinfo_endpoint"), headers=headers)
            if status >= 500:  # it does not say that somebody is in no group
                raise ProviderProblem(f"the provider cannot tell now who somebody is ({status}): try again", status=502)
            claims = {**more, **claims} if status == 200 and more.get("sub") == claims["sub"] else claims
        name, groups = claims.get(self.rules.name_claim), claims.get(self.rules.group_claim, [])
        if not isinstance(name, str) or not name:
            raise ProviderProblem(
                f"the provider did not say who you are: it sends no claim {self.rules.name_claim!r}. "
                "Have it send that one, or name another one in server.oidc.name_claim"
            )
        listed = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
        return Person(name, tuple(each for each in listed if isinstance(each, str)), str(claims["sub"]))

    async def _exchange(self, about: Mapping[str, Any], sent: dict[str, str]) -> Mapping[str, Any]:
        """Return the tokens for a code."""
        rules = self.rules
        methods = about.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        # Quoted for a header, as RFC 6749 wants it.
        basic: tuple[str, str] | None = (quote_plus(rules.client_id), quote_plus(rules.client_secret))
        if "client_secret_basic" not in methods or not rules.client_secret:
            basic, sent = None, {**sent, "client_id": rules.client_id}
            if rules.client_secret:
                sent["client_secret"] = rules.client_secret
        status, given = await self._ask("POST", self._endpoint(about, "token_endpoint"), data=sent, auth=basic)
        if status != 200:
            why = given.get("error", status)
            if why == "invalid_grant":
                raise ProviderProblem("this login was used already, or is too old: begin again")
            raise ProviderProblem(
                f"the provider refused to say who you are ({why!s:.80}): "
                "check server.oidc.client_id, client_secret and console_url",
                status=502,
            )
        return given

    async def _verify(self, about: Mapping[str, Any], id_token: str, nonce: str | None) -> Mapping[str, Any]:
        """Return the claims of a token that the provider signed for us and now, with the nonce if there is one."""
        from authlib.oidc.core import CodeIDToken
        from joserfc import jwt
        from joserfc.errors import JoseError

        offered = about.get("id_token_signing_alg_values_supported", ["RS256"])
        algorithms = [each for each in _ALGORITHMS if each in offered]
        try:
            try:
                token = jwt.decode(id_token, await self._signing_keys(about), algorithms=algorithms)
            except (JoseError, ValueError):  # the provider may have new keys
                token = jwt.decode(id_token, await self._signing_keys(about, anew=True), algorithms=algorithms)
            options = {
                "iss": {"essential": True, "value": self.rules.issuer},
                "aud": {"essential": True, "value": self.rules.client_id},
                **({} if nonce is None else {"nonce": {"essential": True}}),
            }
            claims = CodeIDToken(
                token.claims,
                token.header,
                options,
                {**({} if nonce is None else {"nonce": nonce}), "client_id": self.rules.client_id},
            )
            claims.validate(now=int(self._clock.now().timestamp()), leeway=_LEEWAY)
            if nonce is not None and not secrets.compare_digest(str(claims["nonce"]), nonce):
                raise ValueError("nonce")
        except Exception as problem:  # whatever it is: nobody is let in by a token that cannot be read
            if isinstance(problem, ProviderProblem):
                raise
            why = getattr(problem, "error", None) or type(problem).__name__
            raise ProviderProblem(
                f"what the provider says of you cannot be relied upon ({why!s:.80}); nobody was logged in. Begin "
                "again, and check the clocks of both and server.oidc.issuer if it stays so"
            ) from problem
        return dict(claims)

    async def _discover(self) -> Mapping[str, Any]:
        """Return the provider's description of itself."""
        async with self._lock:
            now = self._clock.now()
            if self._about is None or not timedelta() <= now - self._about[0] < _KNOWN_FOR:
                url = self.rules.issuer.rstrip("/") + "/.well-known/openid-configuration"
                status, about = await self._ask("GET", url)
                if status != 200 or about.get("issuer") != self.rules.issuer:
                    raise ProviderProblem(
                        f"the provider does not answer as {self.rules.issuer}: it says {status} and "
                        f"{about.get('issuer')!r:.200}. server.oidc.issuer must be exactly what it calls itself",
                        status=502,
                    )
                self._about = now, about
            return self._about[1]

    async def _signing_keys(self, about: Mapping[str, Any], *, anew: bool = False) -> Any:
        from joserfc.jwk import KeySet

        async with self._lock:
            now = self._clock.now()
            if anew or self._keys is None or not timedelta() <= now - self._keys[0] < _KNOWN_FOR:
                _, keys = await self._ask("GET", self._endpoint(about, "jwks_uri"))
                self._keys = now, KeySet.import_key_set(keys)  # type: ignore[arg-type]
            return self._keys[1]

    def _endpoint(self, about: Mapping[str, Any], name: str) -> str:
        """Return a URL that the provider names; it may be unencrypted only where the issuer's is."""
        url = str(about.get(name, ""))
        if urlsplit(url).scheme not in {"https", urlsplit(self.rules.issuer).scheme}:
            raise ProviderProblem(f"the provider names no {name} that is safe to use", status=502)
        return url

    async def _ask(self, method: str, url: str, **more: Any) -> tuple[int, Mapping[str, Any]]:
        """Return status and JSON object of an answer. Raises ProviderProblem where there is none."""
        import httpx

        try:
            async with (
                asyncio.timeout(_SECONDS),
                httpx.AsyncClient(timeout=_SECONDS, headers={"Accept": "application/json"}) as client,
                client.stream(method, url, **more) as response,
            ):
                body = bytearray()
                async for part in response.aiter_bytes():
                    body += part
                    if len(body) > _MOST_BYTES:
                        raise ValueError("too long")
                found = httpx.Response(response.status_code, content=bytes(body)).json()
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, TimeoutError) as problem:
            raise ProviderProblem(
                f"the provider at {urlsplit(url).netloc} gives no answer ({type(problem).__name__}): try again, or log "
                "in with a token",
                status=502,
            ) from problem
        return response.status_code, found if isinstance(found, dict) else {}


def _login(person: Person, given: Mapping[str, Any]) -> Login:
    refresh, token = given.get("refresh_token"), given.get("id_token")
    return Login(person, refresh if isinstance(refresh, str) else None, token if isinstance(token, str) else None)


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
        while self._known and (len(self._known) >= _MOST_KNOWN or next(iter(self._known.values())).until <= now):
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
        while self._leaves and (len(self._leaves) >= _MOST_KNOWN or next(iter(self._leaves.values()))[0] <= now):
            self._leaves.popitem(last=False)
        self._leaves[key] = now + _LEAVES_LAST, place
        return key

    def place_of(self, key: str) -> str | None:
        """Return where a browser goes to be logged out at the provider; each key counts once."""
        until, place = self._leaves.pop(key, (None, None))
        return place if until is not None and until > self._clock.now() else None
