"""The pages of plugins and settings: how an error would be classified, and where each value comes from."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.console.console import show
from mahavishnu.console.forms import FormFields
from mahavishnu.console.frame import Link
from mahavishnu.engine.queue import LetterQueue
from mahavishnu.http.auth import OwnQueue, Role, Viewer
from mahavishnu.http.routing import Query, Router
from mahavishnu.http.schemas import RequestModel
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.record import Value

if TYPE_CHECKING:
    from mahavishnu.classify.chain import Explanation
    from mahavishnu.classify.plugins import PluginInfo
    from mahavishnu.settings.settings import Setting

PLUGINS_LINK = Link("plugins", "Plugins, rules", "Record", 11, key="p")
LONGEST = 100_000  # characters of an error that is tried
router = Router(tag="plugin_page", documented=False)


class PluginsView(Value, frozen=True):
    """The plugins of this process, and their verdict on an error to try."""

    plugins: Sequence[PluginInfo] | None
    error: str = ""
    adapter: str = ""
    explanation: Explanation | None = None
    policy: str | None = None  #: that such a failure would get
    problem: str | None = None

    @property
    def not_asked(self) -> int:
        return sum(info.state != "ok" for info in self.plugins or ())


@router.get("/plugins")
async def plugins_page(request: Request, dlq: OwnQueue, actor: Viewer) -> Response:
    """Show every plugin in the order in which they are asked, then those that are not asked, and why."""
    return await _show(request, dlq)


@router.post("/plugins")
async def classify(request: Request, dlq: OwnQueue, actor: Viewer, form: FormFields) -> Response:
    """Show each plugin's verdict on an error. Nothing is changed, and the error is kept nowhere."""
    return await _show(request, dlq, form.text("error")[:LONGEST], form.text("adapter").strip())


async def _show(request: Request, dlq: LetterQueue, error: str = "", adapter: str = "") -> Response:
    try:
        view = await asyncio.to_thread(_read, dlq, error, adapter)  # a plugin that hangs must not hold the server up
    except InvalidInput as wrong:  # the rules of the settings
        view = PluginsView(None, error, adapter, problem=str(wrong))
    return await show(request, "plugins.html", view)


def _read(dlq: LetterQueue, error: str, adapter: str) -> PluginsView:
    from mahavishnu.classify.verdict import Context

    chain = dlq.context.chain
    explanation = chain.explain(error, Context(adapter=adapter or None)) if error.strip() else None
    policy = dlq.context.letter_factory.policy_for(explanation.verdict) if explanation else None
    return PluginsView(chain.plugins.report(), error, adapter, explanation, policy)


LINKS = (PLUGINS_LINK, Link("settings", "Settings", "Record", 12, key="s"))


class SettingsQuery(RequestModel):
    """The filters of the settings."""

    q: Annotated[str, Field(max_length=200)] = ""
    changed: bool = False


class SettingsView(Value, frozen=True):
    """The settings; None for readers without access, empty where a program made the server without any."""

    settings: Sequence[Setting] | None
    params: SettingsQuery

    @property
    def shown(self) -> Sequence[Setting]:
        """The settings that were asked for."""
        words = self.params.q.lower().split()
        return [
            each
            for each in self.settings or ()
            if all(word in f"{each.key} {each.description}".lower() for word in words)
            and (not self.params.changed or each.origin != "default")
        ]

    @property
    def sections(self) -> Mapping[str, Sequence[Setting]]:
        """The settings that were asked for, by section."""
        sections: dict[str, list[Setting]] = {}
        for each in self.shown:
            sections.setdefault(each.key.partition(".")[0] if "." in each.key else "", []).append(each)
        return sections

    @property
    def given(self) -> int:
        """The number of settings that are not defaults."""
        return sum(each.origin != "default" for each in self.settings or ())


@router.get("/settings")
async def settings_page(request: Request, actor: Viewer, params: Annotated[SettingsQuery, Query()]) -> Response:
    """Show every setting with its value and its origin, for admins: they say where everything is."""
    describe = request.app.state.describe_settings
    settings = describe() if actor.role >= Role.ADMIN else None
    return await show(request, "settings.html", SettingsView(settings, params))
