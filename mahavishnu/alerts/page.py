"""The page of alerts: those that hold, those that are over, muted groups, the rules, and their runbooks."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.alerts.rules import Alert, AlertPhase, AlertRules, RuleReport
from mahavishnu.alerts.service import Alerts
from mahavishnu.console.console import console_of, show
from mahavishnu.console.frame import Link, Number
from mahavishnu.console.recent_reads import read_or_none
from mahavishnu.engine.queue import LetterQueue
from mahavishnu.groups.rules import GroupView
from mahavishnu.groups.service import Groups
from mahavishnu.http.auth import OwnQueue, Viewer
from mahavishnu.http.routing import Router
from mahavishnu.model.record import Value

_NAME = "runbooks.md"
_SOURCE = Path(__file__).parents[2] / "docs" / "production" / _NAME  # in a clone; a wheel has it beside this module
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_LINK_ELSEWHERE = re.compile(r"\[([^\]]+)\]\((?!#)[^)]*\)")
router = Router(tag="runbooks_page", documented=False)
MOST_OVER, MOST_MUTED = 50, 50


class Runbook(Value, frozen=True):
    """The instructions for one alert; `name` is the target of links."""

    title: str
    text: Markup

    @property
    def name(self) -> str:
        return self.title.lower()


@router.get("/runbooks")
async def runbooks_page(request: Request, actor: Viewer) -> Response:
    """Show all runbooks: links name the alert, as `/runbooks#storedegraded`."""
    return await show(request, "runbooks.html", read_runbooks())


@cache
def read_runbooks() -> Sequence[Runbook]:
    """Return the sections of the documentation's page of runbooks, in their order."""
    from markdown_it import MarkdownIt  # loaded when somebody reads

    bundled = resources.files(__package__).joinpath(_NAME)
    text = bundled.read_text("utf-8") if bundled.is_file() else _SOURCE.read_text("utf-8")
    _, *parts = _SECTION.split(_LINK_ELSEWHERE.sub(r"\1", text))
    render = MarkdownIt("commonmark", {"html": False}).render
    return tuple(
        Runbook(title.strip(), Markup(render(body)))  # it comes with the package
        for title, body in zip(parts[::2], parts[1::2], strict=True)
    )


async def count_alerts(dlq: LetterQueue) -> Number | None:
    """Count the firing alerts that are not taken; nothing where no channel is configured."""
    if not dlq.context.rules(AlertRules).channels:
        return None
    firing = sum(each.phase is AlertPhase.FIRING for each in await dlq.service(Alerts).list())
    return Number(firing, wanted=True) if firing else None


LINKS = (Link("alerts", "Alerts", "Now", 5, key="n", number=count_alerts),)


class AlertsView(Value, frozen=True):
    """The alerts and their rules; None for what is not known now."""

    alerts: Sequence[Alert] | None
    rules: Sequence[RuleReport] | None
    muted: Sequence[GroupView] | None
    channels: Sequence[str]
    is_whole: bool = True  #: whether who looks sees all letters, which alerts are about

    @property
    def holding(self) -> Sequence[Alert]:
        """The alerts that hold: untaken ones first, then the latest."""
        return sorted((each for each in self.alerts or () if each.holds), key=lambda each: each.phase)

    @property
    def over(self) -> Sequence[Alert]:
        """The alerts that are over, the latest end first."""
        ended = [(each.resolved_at, each) for each in self.alerts or () if each.resolved_at and not each.holds]
        return [each for _, each in sorted(ended, key=lambda pair: pair[0], reverse=True)[:MOST_OVER]]

    @property
    def runbooks(self) -> Mapping[str, str]:
        """The page with instructions, by the reason of an alert."""
        return {each.rule: each.runbook for each in self.rules or () if each.runbook}

    @property
    def firing(self) -> int:
        return sum(each.phase is AlertPhase.FIRING for each in self.holding)

    @property
    def headline(self) -> str:
        """A summary of the alerts that hold."""
        if not self.is_whole:
            return "Alerts are told to who sees the whole namespace"
        if self.alerts is None:
            return "Which alerts hold is not known now"
        if not self.holding:
            return "No alert holds" if self.channels else "No alerts are sent from here"
        taken = len(self.holding) - self.firing
        fires = f"{self.firing} {'alert fires' if self.firing == 1 else 'alerts fire'}" if self.firing else ""
        has = f"{taken} {'is' if taken == 1 else 'are'} taken" if taken else ""
        return ", ".join(filter(None, [fires, has]))


@router.get("/alerts")
async def alerts_page(request: Request, dlq: OwnQueue, actor: Viewer) -> Response:
    """Show alerts that fire, alerts that are over, muted groups, and the rules."""
    found = await console_of(request).read(request, dlq, _read)
    return await show(request, "alerts.html", found.value, recent=found)


async def _read(dlq: LetterQueue) -> AlertsView:
    alerts, rules, muted = await asyncio.gather(
        read_or_none(dlq.service(Alerts).list(resolved=True)),
        read_or_none(dlq.service(Alerts).rules()),
        read_or_none(dlq.service(Groups).list(on_hold=True, quiet=True, limit=MOST_MUTED)),
    )
    context = dlq.context
    channels, is_whole = context.rules(AlertRules).channels, context.sees_whole_namespace
    return AlertsView(alerts, rules, None if muted is None else muted.items, channels, is_whole)
