"""Where everything is: for who knows nothing but the server's address."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from mahavishnu import __version__
from mahavishnu.api.auth import Viewer
from mahavishnu.api.responses import answer
from mahavishnu.api.schemas import Start

router = APIRouter(tags=["start"])
root = APIRouter(tags=["start"])


@root.get("/", response_model=Start, summary="What this server is", name="root")
@router.get("", response_model=Start, summary="What this server is, and where everything is", name="start")
async def start(request: Request, actor: Viewer) -> Response:
    """Its version, and the paths of the API, of its description and of its health."""
    before = request.scope.get("root_path", "")
    openapi = str(request.app.openapi_url)
    links = {"api": openapi.rpartition("/")[0], "openapi": openapi, "health": "/readyz"}
    told = {name: before + path for name, path in links.items()}
    return answer({"name": "mahavishnu", "version": __version__, **told})
