"""Logins at a provider of OpenID Connect: the code flow with PKCE, a state and a nonce."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode, urlsplit

from mahavishnu.http.auth import is_loopback
from mahavishnu.model.clock import Clock
from mahavishnu.model.errors import InvalidInput

CALLBACK = "/login/callback"
ATTEMPT_LASTS = timedelta(minutes=10)
_KNOWN_FOR = timedelta(hours=1)  # what the provider says of itself
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
        claims = await self._verified(about, str(given.get("id_token", "")), attempt.nonce)
        if self.rules.group_claim not in claims or self.rules.name_claim not in claims:
            claims = await self._with_user_info(about, claims, given.get("access_token"))
        return _login(self._person(claims), given)

    async def refresh(self, login: Login) -> Login:
        """Return the login as the provider sees it now. Raises ProviderProblem; of status 403 where it ended it."""
        if login.refresh_token is None:
            raise ProviderProblem("the provider gave no refresh token, so it has to be asked by a login")
        about = await self._discover()
        given = await self._exchange(about, {"grant_type": "refresh_token", "refresh_token": login.refresh_token})
        claims: Mapping[str, Any] = {"sub": login.person.subject}
        if given.get("id_token"):
            claims = await self._verified(about, str(given["id_token"]), None)
            if claims.get("sub") != login.person.subject:
                raise ProviderProblem("the provider speaks of somebody else now")
        if self.rules.group_claim not in claims or self.rules.name_claim not in claims:
            claims = await self._with_user_info(about, claims, given.get("access_token"))
        return _login(self._person(claims), {"refresh_token": login.refresh_token, "id_token": login.id_token, **given})

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

    def _person(self, claims: Mapping[str, Any]) -> Person:
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
        basic = (_quoted(rules.client_id), _quoted(rules.client_secret)) if "client_secret_basic" in methods else None
        if basic is None or not rules.client_secret:
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

    async def _verified(self, about: Mapping[str, Any], id_token: str, nonce: str | None) -> Mapping[str, Any]:
        """The claims of a token that the provider has signed, for us, now, and for this login if it has a nonce."""
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

    async def _with_user_info(
        self, about: Mapping[str, Any], claims: Mapping[str, Any], access_token: object
    ) -> Mapping[str, Any]:
        """Return the claims with those that the provider tells only when asked again."""
        if "userinfo_endpoint" not in about or not isinstance(access_token, str):
            return claims
        headers = {"Authorization": f"Bearer {access_token}"}
        status, more = await self._ask("GET", self._endpoint(about, "userinfo_endpoint"), headers=headers)
        if status >= 500:  # it does not say that somebody is in no group
            raise ProviderProblem(f"the provider cannot tell now who somebody is ({status}): try again", status=502)
        return {**more, **claims} if status == 200 and more.get("sub") == claims["sub"] else claims

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


def _quoted(text: str) -> str:
    """Quote names and secrets for a header, as RFC 6749 wants it."""
    from urllib.parse import quote_plus

    return quote_plus(text)
