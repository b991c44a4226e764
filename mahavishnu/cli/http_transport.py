"""Requests to a server, by httpx."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

import httpx

from mahavishnu.cli.client import API, TOKEN_VARIABLE, Answer
from mahavishnu.cli.options import Session
from mahavishnu.cli.output import Unreachable
from mahavishnu.model.errors import InvalidInput

TIMEOUT_SECONDS = 60.0
LOOK = ": look whether this had its effect"  # after what may have changed something


class HttpTransport:
    """Sends requests to a server. Problems on the way are raised as Unreachable or InvalidInput."""

    def __init__(self, session: Session) -> None:
        """Prepare requests of the session. Raises InvalidInput for an invalid address."""
        assert session.server is not None
        self.base = self.where = server_address(session.server)
        token = token_for(session, self.base)
        self.authorized = token is not None
        headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        self._client = httpx.AsyncClient(headers=headers, timeout=TIMEOUT_SECONDS)

    async def request(self, method: str, url: str, headers: Mapping[str, str], content: bytes | None) -> Answer:
        """Send one request and return its whole answer."""
        with self._explain_errors("" if method == "GET" else LOOK):
            response = await self._client.request(method, url, headers=dict(headers), content=content)
        return Answer(url, response.status_code, {**response.headers}, response.content)

    @asynccontextmanager
    async def stream(self, url: str, headers: Mapping[str, str]) -> AsyncIterator[tuple[Answer, AsyncIterator[bytes]]]:
        """The head of an answer, and its body part by part; that of a refusal is read at once."""
        timeout = httpx.Timeout(TIMEOUT_SECONDS, read=None)
        with self._explain_errors():
            async with self._client.stream("GET", url, headers=dict(headers), timeout=timeout) as response:
                body = await response.aread() if response.is_error else b""
                yield Answer(url, response.status_code, {**response.headers}, body), response.aiter_bytes()

    async def close(self) -> None:
        """Close the connections to the server."""
        await self._client.aclose()

    @contextmanager
    def _explain_errors(self, hint: str = "") -> Iterator[None]:
        """Raise what httpx raises as an error of ours; for changes, with a hint where the outcome is unknown."""
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            why = str(error.__cause__ or error) or type(error).__name__
            raise Unreachable(f"there is no server at {self.base}: {why}") from None
        except httpx.TimeoutException:
            raise Unreachable(f"{self.base} does not answer{hint}") from None
        except (httpx.InvalidURL, httpx.UnsupportedProtocol):
            raise InvalidInput(f"{self.base!r} is no address of a server: write http://host:port") from None
        except httpx.TransportError:
            why = f"{self.base} broke off the connection before it had answered{hint or ': ask again'}"
            raise Unreachable(why) from None


def token_for(session: Session, url: str) -> str | None:
    """The token of the environment; on the server's own machine, the one that the settings know for this user."""
    if token := os.environ.get(TOKEN_VARIABLE):
        return token
    host, server = httpx.URL(url).host, session.settings.server
    if host not in ("localhost", "127.0.0.1", "::1", server.host):
        return None  # it is nobody else's business
    for people in (server.admins, server.operators, server.viewers):
        if session.user in people:
            secret: str = people[session.user].get_secret_value()
            return secret
    return None


def server_address(server: str) -> str:
    """The address of a server without the path of its API. Raises InvalidInput.

    >>> server_address("localhost:8080/api/v1")
    'http://localhost:8080'
    """
    url = server if "://" in server else f"http://{server}"
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as problem:
        raise InvalidInput(f"{server!r} is no address of a server: {problem}") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise InvalidInput(f"{server!r} is no address of a server: write http://host:port")
    if parsed.userinfo:
        raise InvalidInput(f"a server is told who asks by a token ({TOKEN_VARIABLE}), not in its address")
    return url.rstrip("/").removesuffix(API)
