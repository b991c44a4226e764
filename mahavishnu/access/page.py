"""The pages of logins: by a token, or at a provider of OpenID Connect, there and back; and logging out."""

from __future__ import annotations

import logging
import secrets
from dataclasses import astuple
from typing import Annotated

from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.access.oidc import ATTEMPT_LASTS, Attempt, Login, Provider, ProviderProblem
from mahavishnu.access.sessions import LoginThrottle, Sessions, cookie_name, remove_cookie, set_cookie
from mahavishnu.console.console import console_of, show
from mahavishnu.console.forms import FormFields
from mahavishnu.engine.queue import LetterQueue
from mahavishnu.http.auth import OwnQueue, Session, local_target
from mahavishnu.http.routing import Router
from mahavishnu.model.errors import StoreError
from mahavishnu.model.record import Value

# --- by a token

log = logging.getLogger(__name__)
router = Router(tag="login", documented=False)
LOST = "Your login has ended: what you sent was not done. Log in, and the page that you were on is shown as it is now."
Text = Annotated[str, Field(max_length=4000)]


class LoginView(Value, frozen=True):
    """The target after the login, the problem of the last try, and the ways to log in."""

    next: str
    problem: str | None = None
    by_token: bool = True
    by_provider: bool = False


def login_view(request: Request, next: str, problem: str | None = None) -> LoginView:
    """Return the login of this server."""
    state = request.app.state
    return LoginView(next, problem, bool(state.access.tokens), state.provider is not None)


@router.get("/login")
async def login_page(request: Request, next: Text = "/", lost: bool = False) -> Response:
    """Show the form, or redirect a client that needs no login. `lost`: the login ended before a change was sent."""
    if request.scope["session"] is not None or request.app.state.access.is_open:
        return console_of(request).go(request, local_target(next))
    return await show(request, "login.html", login_view(request, local_target(next), LOST if lost else None))


@router.post("/login")
async def login(request: Request, dlq: OwnQueue, form: FormFields) -> Response:
    """Begin a session for the holder of the token."""
    sessions: Sessions = request.app.state.sessions
    throttle: LoginThrottle = request.app.state.throttle
    address = request.client.host if request.client else ""
    target = local_target(form.text("next"))
    if (wait := throttle.seconds_to_wait(address, dlq.clock.monotonic())) > 0:
        view = login_view(request, target, f"Too many logins from {address} failed. Try again in {int(wait) + 1} s.")
        response = await show(request, "login.html", view, status=429)
        response.headers["Retry-After"] = str(int(wait) + 1)
        return response
    begun = sessions.begin(form.text("token").strip())
    if begun is None:
        throttle.add_failure(address, dlq.clock.monotonic())
        why = f"nobody has the token sent by {address}"
        await _audit_refusal(dlq, "anybody", why, f"a failed login from {address}")
        view = login_view(request, target, "The server knows no such token. Nobody was logged in.")
        return await show(request, "login.html", view, status=403)
    session, cookie = begun
    throttle.forget(address)
    await audit_session(dlq, "login", session)
    response = console_of(request).go(request, target)
    set_cookie(response, request.url.scheme, cookie)
    return response


@router.post("/logout")
async def logout(request: Request, dlq: OwnQueue) -> Response:
    """End the session, also for copies of its cookie."""
    session: Session | None = request.scope["session"]
    target = "login"
    if session is not None and session.by_proxy:
        raise HTTPException(409, "the proxy in front of this server has logged you in: log out there")
    if session is not None:
        sessions: Sessions = request.app.state.sessions
        sessions.end(session)
        await audit_session(dlq, "logout", session)
        if session.by_provider and sessions.logins is not None and (key := await sessions.logins.leave(session)):
            target = f"logout/provider?key={key}"
    response = console_of(request).go(request, target)
    remove_cookie(response, request.url.scheme)
    return response


async def audit_session(dlq: LetterQueue, action: str, session: Session, **more: str) -> None:
    """Write it down. During an outage people must be able to log in all the same."""
    try:
        async with dlq.audit.record(action, f"session:{session.id[:8]}", by=session.actor.name) as record:
            record.add(role=session.actor.role.name.lower(), **more)
    except StoreError as failed:
        log.warning("a %s of %s is not in the audit: %s", action, session.actor.name, failed)


async def _audit_refusal(dlq: LetterQueue, name: str, why: str, what: str) -> None:
    try:
        await dlq.audit.record_denial(name, None, "logging in", "login", why)
    except StoreError as failed:
        log.warning("%s is not in the audit: %s", what, failed)


# --- at a provider


class Leaving(Value, frozen=True):
    """The place where the login at the provider is ended."""

    place: str


_PURPOSE, _COOKIE = "provider login", "mahavishnu_provider"
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
    kept = sessions.sign(astuple(attempt), _PURPOSE)
    set_cookie(response, request.url.scheme, kept, name=_COOKIE, lasts=ATTEMPT_LASTS)
    return response


@router.get("/login/callback")
async def come_back(
    request: Request, dlq: OwnQueue, code: Text = "", state: Text = "", error: Text = "", iss: Text = ""
) -> Response:
    """Begin a session for the person whom the provider names."""
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
    remove_cookie(response, request.url.scheme, name=_COOKIE)  # one answer for each login that has begun
    return response


@router.get("/logout/provider")
async def leave_provider(request: Request, key: Text = "") -> Response:
    """Lead a logged-out browser to the provider by a page: browsers let no form lead to another site."""
    logins = request.app.state.sessions.logins
    place = None if logins is None else logins.place_of(key)
    if place is None:
        return console_of(request).go(request, "login")
    response = await show(request, "leaving.html", Leaving(place))
    response.headers["Refresh"] = f"0; url={place}"
    response.headers["Referrer-Policy"] = "no-referrer"
    return response


def _attempt(request: Request, dlq: LetterQueue, state: str) -> Attempt:
    """Return the login that this browser has begun, and this answer is for."""
    sessions: Sessions = request.app.state.sessions
    kept = sessions.unsign(request.cookies.get(cookie_name(request.url.scheme, _COOKIE), ""), _PURPOSE)
    attempt = Attempt(*kept) if kept else None
    if attempt is None or not secrets.compare_digest(attempt.state.encode(), state.encode("utf-8", "replace")):
        raise ProviderProblem("this login was not begun in this browser, or not lately: begin again")
    if attempt.is_over(dlq.clock.now()):
        raise ProviderProblem("this login took too long: begin again")
    return attempt


async def _login(
    request: Request, dlq: LetterQueue, provider: Provider, throttle: LoginThrottle, code: str, attempt: Attempt
) -> Login:
    """Return the person whom the provider names for the code; wrong codes slow an address down, as wrong tokens do."""
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


async def _let_in(request: Request, dlq: LetterQueue, login: Login, attempt: Attempt) -> Response:
    sessions: Sessions = request.app.state.sessions
    person = login.person
    begun = sessions.begin_for(person.name, person.groups)
    if begun is None:
        why = "is in no group that server.oidc.groups gives a role"
        await _audit_refusal(dlq, person.name, why, f"the refused login of {person.name}")
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
