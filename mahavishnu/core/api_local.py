"""The API for the process that it runs in: the same routes, without a web framework that serves them to others."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.core.rooms import rooms
from mahavishnu.http.auth import Access, QueueViews
from mahavishnu.http.middleware import ApiMiddleware, App, Receive, Scope, Send
from mahavishnu.http.responses import on_own_error, problem, problem_for_request
from mahavishnu.http.routing import API, InvalidRequest, Route, arguments
from mahavishnu.model.errors import MahavishnuError

if TYPE_CHECKING:
    from mahavishnu.engine.queue import LetterQueue
    from mahavishnu.events.routes import LiveFeed


class _State:
    """The parts that handlers find in `request.app.state`."""

    def __init__(self, dlq: LetterQueue) -> None:
        self.dlq, self.views = dlq, QueueViews(dlq)

    @cached_property
    def live(self) -> LiveFeed:
        from mahavishnu.events.routes import LiveFeed

        return LiveFeed(self.dlq)


class LocalApi:
    """An ASGI app that imports the routes of a resource when they are first asked for."""

    def __init__(self, dlq: LetterQueue, *, via: str, max_body_bytes: int) -> None:
        self.state = _State(dlq)
        self._app: App = ApiMiddleware(
            self._respond, dlq=dlq, access=Access(), max_body_bytes=max_body_bytes, via=via, shared=()
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app({**scope, "app": self}, receive, send)

    async def close(self) -> None:
        """End the streams of events."""
        if "live" in vars(self.state):
            await self.state.live.close()

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._response(Request(scope, receive))
        await response(scope, receive, send)

    async def _response(self, request: Request) -> Response:
        path = request.scope["path"].removeprefix(API)
        for route in _routes_of(path.split("/")[1]):
            variables = route.match(request.method, path)
            if variables is None:
                continue
            try:
                response: Response = await route.handler(**await arguments(route.handler, request, variables))
                return response
            except MahavishnuError as error:
                return await on_own_error(request, error)
            except InvalidRequest as invalid:
                return problem_for_request(invalid.errors())
            except HTTPException as error:
                return problem(error.status_code, "refused", str(error.detail))
        return problem(404, "not-found", f"there is no {request.method} {request.scope['request_path']:.200}")


def _routes_of(resource: str) -> Iterator[Route]:
    """Import the routes of a resource, each module only if those before it have no such route."""
    for each in (each for room in rooms() for each in room.routes):
        if each.resource == resource:
            yield from each.router.routes
