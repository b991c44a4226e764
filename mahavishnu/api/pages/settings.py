"""The settings of this server, and where each value comes from. Secrets are masked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.console.console import show
from mahavishnu.console.frame import Link
from mahavishnu.http.auth import Role, Viewer
from mahavishnu.http.routing import Query, Router
from mahavishnu.http.schemas import RequestModel

if TYPE_CHECKING:
    from mahavishnu.core.config.settings import Setting

LINK = Link("settings", "Settings", "Record", key="s")
router = Router(tag="settings_page", documented=False)


class SettingsQuery(RequestModel):
    """Which settings."""

    q: Annotated[str, Field(max_length=200)] = ""
    changed: bool = False


@dataclass(frozen=True, slots=True)
class SettingsView:
    """The settings; None for who may not see them, empty where a program made the server without any."""

    settings: Sequence[Setting] | None
    params: SettingsQuery

    @property
    def shown(self) -> Sequence[Setting]:
        """Those that were asked for."""
        words = self.params.q.lower().split()
        return [
            each
            for each in self.settings or ()
            if all(word in f"{each.key} {each.description}".lower() for word in words)
            and (not self.params.changed or each.origin != "default")
        ]

    @property
    def sections(self) -> Mapping[str, Sequence[Setting]]:
        """Those that were asked for, by the part that they are of."""
        sections: dict[str, list[Setting]] = {}
        for each in self.shown:
            sections.setdefault(each.key.partition(".")[0] if "." in each.key else "", []).append(each)
        return sections

    @property
    def given(self) -> int:
        """How many are set by somebody."""
        return sum(each.origin != "default" for each in self.settings or ())


@router.get("/settings")
async def settings_page(request: Request, actor: Viewer, params: Annotated[SettingsQuery, Query()]) -> Response:
    """Every setting with its value and its origin, for admins: they say where everything is."""
    describe = request.app.state.describe_settings
    settings = describe() if actor.role >= Role.ADMIN else None
    return await show(request, "settings.html", SettingsView(settings, params))
