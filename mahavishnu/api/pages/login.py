"""The login: a token for a session."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.api.sessions import Session, Sessions, remove_cookie, set_cookie
from mahavishnu.api.throttle import LoginThrottle
from mahavishnu.console.console import console_of, show
from mahavishnu.console.forms import Form, read_form
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.http.auth import OwnQueue
from mahavishnu.http.routing import Depends, Router
from mahavishnu.model.errors import StoreError

log = logging.getLogger(__name__)
router = Router(tag="login", documented=False)
LOST = "Your login has ended: what you sent was not done. Log in, and the page that you were on is shown as it is now."
Wanted = Annotated[str, Field(max_length=4000)]


@dataclass(frozen=True, slots=True)
class LoginView:
    """Where to go after it, what was wrong with the last try, and how people may log in."""

    next: str
    problem: str | None = None
    by_token: bool = True
    by_provider: bool = False


def login_view(request: Request, next: str, problem: str | None = None) -> LoginView:
    """The login of this server."""
    state = request.app.state
    return LoginView(next, problem, bool(state.access.tokens), state.provider is not None)


@router.get("/login")
async def login_page(request: Request, next: Wanted = "/", lost: bool = False) -> Response:
    """The form; who needs no login is led on. `lost`: somebody did something when the login had ended."""
    if request.scope["session"] is not None or request.app.state.access.is_open:
        return console_of(request).go(request, local_target(next))
    problem = LOST if lost else None
    return await show(request, "login.html", login_view(request, local_target(next), problem))


@router.post("/login")
async def login(request: Request, dlq: OwnQueue, form: Annotated[Form, Depends(read_form)]) -> Response:
    """Begin a session for whoever has the token."""
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
        await _audit_refusal(dlq, address)
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
    """End the session, also for whoever has a copy of its cookie."""
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


def local_target(given: str) -> str:
    """Where to go after a login: a page of this console, and never another site.

    >>> local_target("/letters?q=adapter:orders"), local_target("https://evil.example/"), local_target("//evil")
    ('/letters?q=adapter:orders', '/', '/')
    >>> local_target("/login?next=/login"), local_target("/\\\\evil")
    ('/', '/')
    """
    try:
        parts = urlsplit(given)
    except ValueError:
        return "/"
    plain = given.isprintable() and "\\" not in given and given.startswith("/") and not given.startswith("//")
    local = plain and not parts.scheme and not parts.netloc and parts.path.split("/")[1] not in ("login", "logout")
    return given if local else "/"


async def audit_session(dlq: DeadLetterQueue, action: str, session: Session, **more: str) -> None:
    """Write it down. During an outage people must be able to log in all the same."""
    try:
        async with dlq.audit.record(action, f"session:{session.id[:8]}", by=session.actor.name) as record:
            record.add(role=session.actor.role.name.lower(), **more)
    except StoreError as failed:
        log.warning("a %s of %s is not in the audit: %s", action, session.actor.name, failed)


async def _audit_refusal(dlq: DeadLetterQueue, address: str) -> None:
    try:
        await dlq.audit.record_denial("anybody", None, "logging in", "login", f"nobody has the token sent by {address}")
    except StoreError as failed:
        log.warning("a failed login from %s is not in the audit: %s", address, failed)
