"""The login: a token for a session."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.api.auth import OwnQueue
from mahavishnu.api.pages.console import console_of, show
from mahavishnu.api.pages.forms import Form, read_form
from mahavishnu.api.routing import Depends, Router
from mahavishnu.api.sessions import Session, Sessions, remove_cookie, set_cookie
from mahavishnu.api.throttle import LoginThrottle
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model.errors import StoreError

log = logging.getLogger(__name__)
router = Router(tag="login", documented=False)
Wanted = Annotated[str, Field(max_length=4000)]


@dataclass(frozen=True, slots=True)
class LoginView:
    """Where to go after it, and what was wrong with the last try."""

    next: str
    problem: str | None = None


@router.get("/login")
async def login_page(request: Request, next: Wanted = "/") -> Response:
    """The form; who needs no login is led on."""
    if request.scope["session"] is not None or not request.app.state.access.tokens:
        return console_of(request).go(request, _local_target(next))
    return await show(request, "login.html", LoginView(_local_target(next)))


@router.post("/login")
async def login(request: Request, dlq: OwnQueue, form: Annotated[Form, Depends(read_form)]) -> Response:
    """Begin a session for whoever has the token."""
    sessions: Sessions = request.app.state.sessions
    throttle: LoginThrottle = request.app.state.throttle
    address = request.client.host if request.client else ""
    target = _local_target(form.text("next"))
    if (wait := throttle.seconds_to_wait(address, dlq.clock.monotonic())) > 0:
        view = LoginView(target, f"Too many logins from {address} failed. Try again in {int(wait) + 1} s.")
        response = await show(request, "login.html", view, status=429)
        response.headers["Retry-After"] = str(int(wait) + 1)
        return response
    begun = sessions.begin(form.text("token").strip())
    if begun is None:
        throttle.add_failure(address, dlq.clock.monotonic())
        await _audit_refusal(dlq, address)
        view = LoginView(target, "The server knows no such token. Nobody was logged in.")
        return await show(request, "login.html", view, status=403)
    session, cookie = begun
    throttle.forget(address)
    await _audit(dlq, "login", session)
    response = console_of(request).go(request, target)
    set_cookie(response, request.url.scheme, cookie)
    return response


@router.post("/logout")
async def logout(request: Request, dlq: OwnQueue) -> Response:
    """End the session, also for whoever has a copy of its cookie."""
    session: Session | None = request.scope["session"]
    if session is not None:
        sessions: Sessions = request.app.state.sessions
        sessions.end(session)
        await _audit(dlq, "logout", session)
    response = console_of(request).go(request, "login")
    remove_cookie(response, request.url.scheme)
    return response


def _local_target(given: str) -> str:
    """Where to go after a login: a page of this console, and never another site.

    >>> _local_target("/letters?q=adapter:orders"), _local_target("https://evil.example/"), _local_target("//evil")
    ('/letters?q=adapter:orders', '/', '/')
    >>> _local_target("/login?next=/login"), _local_target("/\\\\evil")
    ('/', '/')
    """
    try:
        parts = urlsplit(given)
    except ValueError:
        return "/"
    plain = given.isprintable() and "\\" not in given and given.startswith("/") and not given.startswith("//")
    local = not parts.scheme and not parts.netloc and parts.path not in ("/login", "/logout")
    return given if plain and local else "/"


async def _audit(dlq: DeadLetterQueue, action: str, session: Session) -> None:
    """Write it down. During an outage people must be able to log in all the same."""
    try:
        async with dlq.audit.record(action, f"session:{session.id[:8]}", by=session.actor.name) as record:
            record.add(role=session.actor.role.name.lower())
    except StoreError as failed:
        log.warning("a %s of %s is not in the audit: %s", action, session.actor.name, failed)


async def _audit_refusal(dlq: DeadLetterQueue, address: str) -> None:
    try:
        await dlq.audit.record_denial("anybody", None, "logging in", "login", f"nobody has the token sent by {address}")
    except StoreError as failed:
        log.warning("a failed login from %s is not in the audit: %s", address, failed)
