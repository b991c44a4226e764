"""The login at a provider of OpenID Connect: there, and back."""

from __future__ import annotations

import logging
import secrets
from dataclasses import astuple, dataclass
from typing import Annotated

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.api.oidc import ATTEMPT_LASTS, Attempt, Login, Provider, ProviderProblem
from mahavishnu.api.pages.login import audit_session, local_target, login_view
from mahavishnu.api.sessions import Sessions, set_cookie
from mahavishnu.api.throttle import LoginThrottle
from mahavishnu.console.console import console_of, show
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.http.auth import OwnQueue
from mahavishnu.http.routing import Router
from mahavishnu.model.errors import StoreError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Leaving:
    """Where the login at the provider is ended."""

    place: str


router = Router(tag="login", documented=False)
Text = Annotated[str, Field(max_length=4000)]
_PURPOSE = "provider login"
_LONGEST_TARGET = 2000  # characters: browsers keep no cookie of more than 4,096 bytes


@router.get("/login/provider")
async def leave(request: Request, next: Text = "/") -> Response:
    """Lead the browser to the provider."""
    sessions: Sessions = request.app.state.sessions
    try:
        place, attempt = await _provider(request).begin(local_target(next) if len(next) <= _LONGEST_TARGET else "/")
    except ProviderProblem as problem:
        return await _refuse(request, problem)
    response = Response(None, 303, {"Location": place, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"})
    response.set_cookie(
        _cookie_name(request),
        sessions.sign(astuple(attempt), _PURPOSE),
        max_age=int(ATTEMPT_LASTS.total_seconds()),
        path="/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="lax",  # it comes along when the provider leads back
    )
    return response


@router.get("/login/callback")
async def come_back(
    request: Request, dlq: OwnQueue, code: Text = "", state: Text = "", error: Text = "", iss: Text = ""
) -> Response:
    """Begin a session for whoever the provider says this is."""
    try:
        provider, throttle = _provider(request), request.app.state.throttle
        attempt = _attempt(request, dlq, state)
        if error:
            raise ProviderProblem(f"the provider let nobody in ({error!r:.80}): begin again, or ask who runs it")
        if iss not in ("", provider.rules.issuer):  # RFC 9207: another provider's answer
            raise ProviderProblem("this answer is another provider's; nobody was logged in: begin again")
        response = await _let_in(request, dlq, await _login(request, dlq, provider, throttle, code, attempt), attempt)
    except ProviderProblem as problem:
        response = await _refuse(request, problem)
    response.delete_cookie(  # one answer for each login that has begun
        _cookie_name(request), path="/", secure=request.url.scheme == "https", httponly=True, samesite="lax"
    )
    return response


@router.get("/logout/provider")
async def leave_provider(request: Request, key: Text = "") -> Response:
    """Lead a browser that was logged out here on to the provider, to be logged out there.

    A page in between: browsers let no form lead to another site, also not by a redirect.
    """
    logins = request.app.state.sessions.logins
    place = None if logins is None else logins.place_of(key)
    if place is None:
        return console_of(request).go(request, "login")
    response = await show(request, "leaving.html", Leaving(place))
    response.headers["Refresh"] = f"0; url={place}"
    response.headers["Referrer-Policy"] = "no-referrer"
    return response


def _attempt(request: Request, dlq: DeadLetterQueue, state: str) -> Attempt:
    """The login that this browser has begun, and this answer is for."""
    sessions: Sessions = request.app.state.sessions
    kept = sessions.unsign(request.cookies.get(_cookie_name(request), ""), _PURPOSE)
    attempt = Attempt(*kept) if kept else None
    if attempt is None or not secrets.compare_digest(attempt.state.encode(), state.encode("utf-8", "replace")):
        raise ProviderProblem("this login was not begun in this browser, or not lately: begin again")
    if attempt.is_over(dlq.clock.now()):
        raise ProviderProblem("this login took too long: begin again")
    return attempt


async def _login(
    request: Request, dlq: DeadLetterQueue, provider: Provider, throttle: LoginThrottle, code: str, attempt: Attempt
) -> Login:
    """Whom the provider names for the code; who sends wrong ones has to wait, as with wrong tokens."""
    address = request.client.host if request.client else ""
    if (wait := throttle.seconds_to_wait(address, dlq.clock.monotonic())) > 0:
        raise ProviderProblem(f"too many logins from {address} failed: try again in {int(wait) + 1} s", status=429)
    try:
        login = await provider.finish(code, attempt)
    except ProviderProblem as problem:
        if problem.status == 403:
            throttle.add_failure(address, dlq.clock.monotonic())
        raise
    throttle.forget(address)
    return login


async def _let_in(request: Request, dlq: DeadLetterQueue, login: Login, attempt: Attempt) -> Response:
    sessions: Sessions = request.app.state.sessions
    person = login.person
    begun = sessions.begin_for(person.name, person.groups)
    if begun is None:
        why = "is in no group that server.oidc.groups gives a role"
        try:
            await dlq.audit.record_denial(person.name, None, "logging in", "login", why)
        except StoreError as failed:
            log.warning("the refused login of %s is not in the audit: %s", person.name, failed)
        raise ProviderProblem(
            f"nobody was logged in: {person.name} {why}. Ask for such a group, or log in as somebody else"
        )
    session, cookie = begun
    if sessions.logins is not None:
        sessions.logins.note(session, login)
    await audit_session(dlq, "login", session, subject=person.subject)
    response = console_of(request).go(request, attempt.next)
    set_cookie(response, request.url.scheme, cookie)
    return response


async def _refuse(request: Request, problem: ProviderProblem) -> Response:
    text = str(problem)
    view = login_view(request, "/", text[:1].upper() + text[1:] + ("" if text.endswith(".") else "."))
    return await show(request, "login.html", view, status=problem.status)


def _provider(request: Request) -> Provider:
    provider: Provider | None = request.app.state.provider
    if provider is None:
        raise ProviderProblem("this server knows no provider of logins: server.oidc.issuer is not set", status=404)
    return provider


def _cookie_name(request: Request) -> str:
    return f"{'__Host-' if request.url.scheme == 'https' else ''}mahavishnu_provider"
