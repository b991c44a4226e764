"""The HTTP API: `create_app(dlq)` is an ASGI app, alone or mounted in another one."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from mahavishnu import __version__
from mahavishnu.access.oidc import Provider, ProviderLogins, ProviderRules
from mahavishnu.access.sessions import LoginThrottle, Sessions
from mahavishnu.console.console import Console, show_problem
from mahavishnu.console.frame import FirstFix, Link
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.core.rooms import pages, rooms
from mahavishnu.events import routes as events
from mahavishnu.http.auth import Access, Actor, QueueViews, Role, Viewer, get_own_queue, wants_page
from mahavishnu.http.middleware import AnswerMiddleware, ApiMiddleware, NamespacePaths
from mahavishnu.http.responses import handle_errors, json_response, problem_responses
from mahavishnu.http.routing import API, Router
from mahavishnu.http.schemas import Problem, RequestModel, ResponseModel
from mahavishnu.model.errors import InvalidInput
from mahavishnu.monitoring import routes as health
from mahavishnu.monitoring.page import show_overview

if TYPE_CHECKING:
    from mahavishnu.settings.settings import Setting

__all__ = ["Access", "Actor", "Role", "create_app"]
MAX_BODY_BYTES = 4 * 1024 * 1024
# Their responses do not depend on who asks.
SHARED = (f"{API}/dlq", f"{API}/dlq/stats", f"{API}/dlq/statistics", f"{API}/groups", "/metrics")
STREAMS = (f"{API}/dlq/export", f"{API}/archive/exports", f"{API}/events")  # a HEAD request must not produce all of it
start = Router(tag="start")
_DESCRIPTION = """Failed workflows: find, understand, fix and redrive what is left.

Lists have a `Link` header to their next page. Errors are problem documents (RFC 9457). A change with an
`Idempotency-Key` header happens once, however often it is sent. Bulk runs are answered with 202 and a `Location`.
"""


class ServerInfo(ResponseModel):
    """What this server is, and the paths to begin with."""

    name: str
    version: str
    namespace: str
    api: str
    openapi: str
    health: str


def create_app(
    dlq: DeadLetterQueue,
    *,
    access: Access | None = None,
    max_body_bytes: int = MAX_BODY_BYTES,
    via: str = "http",
    session_keys: Sequence[str] = (),
    first_fix: FirstFix | None = None,
    provider: ProviderRules | None = None,
    describe_settings: Callable[[], Sequence[Setting]] = tuple,
) -> FastAPI:
    """An ASGI app for a queue: serve it, or mount it in another one. The queue is opened when it is first needed.

    Without `access` everybody who reaches it from this machine may do everything; pages of other sites may not.
    `session_keys` sign the logins of browsers, the first one new ones; without any, logins end with this process.
    `first_fix` is shown step by step on the overview, for people who see the console for the first time.
    `provider` is one of OpenID Connect, for those to whom `access` gives a role by their groups there.
    `describe_settings` says what the page of settings shows to admins. Raises InvalidInput for values that cannot work.

    >>> create_app(DeadLetterQueue()).title
    'Mahavishnu'
    """

    @asynccontextmanager
    async def lifespan(api: FastAPI) -> AsyncIterator[None]:
        yield
        await api.state.live.close()

    api = FastAPI(
        title="Mahavishnu",
        version=__version__,
        description=_DESCRIPTION,
        lifespan=lifespan,
        openapi_url=f"{API}/openapi.json",
        docs_url=None,  # its page would load scripts of other sites
        redoc_url=None,
        redirect_slashes=False,
    )
    access = access or Access()
    if (provider is None) is not (access.provider_roles is None):
        raise InvalidInput("a provider of logins needs roles for those who come from there, and these roles a provider")
    logins: ProviderLogins | None = None
    if provider is not None and access.provider_roles is not None:
        roles = access.provider_roles
        logins = ProviderLogins(Provider(provider, dlq.clock), roles, dlq.clock, provider.recheck)
    sessions = Sessions(access, dlq.clock, session_keys, logins)
    api.state.dlq, api.state.access, api.state.sessions = dlq, access, sessions
    api.state.views = QueueViews(dlq)
    api.state.provider = None if logins is None else logins.provider
    api.state.console, api.state.throttle = Console(dlq, _links(), sessions.keys, first_fix), LoginThrottle()
    api.state.describe_settings = describe_settings
    api.state.live = events.LiveFeed(dlq, on_change=api.state.console.recent.outdate)
    api.router.routes.extend(_routes())
    handle_errors(api, API)
    api.add_middleware(
        ApiMiddleware,
        dlq=dlq,
        access=access,
        sessions=sessions,
        max_body_bytes=max_body_bytes,
        via=via,
        shared=SHARED,
        endless=STREAMS,
    )
    console = api.state.console
    as_page = functools.partial(show_problem, console)
    api.add_middleware(AnswerMiddleware, show_problem=as_page, on_change=console.recent.forget)
    api.add_middleware(NamespacePaths, home=dlq.namespace)
    _document(api)
    return api


@start.get("/", response_model=ServerInfo, summary="What this server is", name="root")
@start.get(API, response_model=ServerInfo, summary="What this server is, and where everything is", name="start")
async def server_info(request: Request, actor: Viewer) -> Response:
    """Its version, and the paths of the API, of its description and of its health; to a browser, the overview."""
    if wants_page(request.scope):
        return await show_overview(request, await get_own_queue(request))
    mounted_at = request.scope.get("root_path", "")
    openapi = str(request.app.openapi_url)
    paths = {"api": openapi.rpartition("/")[0], "openapi": openapi, "health": "/readyz"}
    known = {"name": "mahavishnu", "version": __version__, "namespace": request.app.state.dlq.namespace}
    shown = known | {name: mounted_at + path for name, path in paths.items()}
    return json_response(shown, 200, {"Vary": "Accept"})


@functools.cache
def _links() -> tuple[Link, ...]:
    """Return the navigation, in the order of the places that the links name."""
    return tuple(sorted((link for page in pages() for link in getattr(page, "LINKS", ())), key=lambda link: link.place))


@functools.cache
def _routes() -> Sequence[BaseRoute]:
    """The routes, which all apps of this process share: FastAPI takes long to read the signatures of the handlers."""
    router = APIRouter(
        responses=problem_responses(400, 401, 403, 408, 413, 422, 503),
        redirect_slashes=False,
        generate_unique_id_function=lambda route: f"{route.tags[0] if route.tags else ''}_{route.name}",
    )
    routers = [each.router for room in rooms() for each in room.routes]
    RequestModel.build_all()
    for each in routers:
        each.add_to(router, API)
    start.add_to(router)
    health.health_router.add_to(router)
    for page in pages():
        page.router.add_to(router)
    return tuple(router.routes)


def _document(api: FastAPI) -> None:
    """Add to OpenAPI what FastAPI does not know: the schema of problems, and the token."""
    generate = api.openapi

    def openapi() -> dict[str, Any]:
        if api.openapi_schema is None:
            document = generate()
            components = document.setdefault("components", {})
            components.setdefault("schemas", {})["Problem"] = Problem.model_json_schema()
            components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            document["security"] = [{"token": []}]
            for path in document["paths"].values():
                for operation in path.values():
                    unprocessable = operation.get("responses", {})
                    if "422" in unprocessable:
                        unprocessable["422"] = problem_responses(422)[422]
            for unused in ("HTTPValidationError", "ValidationError"):
                components["schemas"].pop(unused, None)
            api.openapi_schema = document
        return api.openapi_schema

    api.openapi = openapi  # type: ignore[method-assign]
