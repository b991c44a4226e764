"""The runbooks: what each alert means, where to look, and what to do, in the words of the documentation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.console.console import show
from mahavishnu.http.auth import Viewer
from mahavishnu.http.routing import Router

_NAME = "runbooks.md"
_SOURCE = Path(__file__).parents[3] / "docs" / "production" / _NAME  # in a clone; a wheel has it beside this module
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_LINK_ELSEWHERE = re.compile(r"\[([^\]]+)\]\((?!#)[^)]*\)")
router = Router(tag="runbooks_page", documented=False)


@dataclass(frozen=True, slots=True)
class Runbook:
    """What to do about one alert; `name` is where links lead."""

    title: str
    text: Markup

    @property
    def name(self) -> str:
        return self.title.lower()


@router.get("/runbooks")
async def runbooks_page(request: Request, actor: Viewer) -> Response:
    """All runbooks: links name the alert, as `/runbooks#storedegraded`."""
    return await show(request, "runbooks.html", read_runbooks())


@cache
def read_runbooks() -> Sequence[Runbook]:
    """The sections of the page of runbooks, in their order."""
    from markdown_it import MarkdownIt  # loaded when somebody reads

    bundled = resources.files(__package__).joinpath(_NAME)
    text = bundled.read_text("utf-8") if bundled.is_file() else _SOURCE.read_text("utf-8")
    _, *parts = _SECTION.split(_LINK_ELSEWHERE.sub(r"\1", text))
    render = MarkdownIt("commonmark", {"html": False}).render
    return tuple(
        Runbook(title.strip(), Markup(render(body)))  # it comes with the package
        for title, body in zip(parts[::2], parts[1::2], strict=True)
    )
