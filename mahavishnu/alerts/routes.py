"""Alerts over HTTP."""

from __future__ import annotations

from typing import Annotated

from pydantic import StrictStr
from starlette.responses import Response

from mahavishnu.alerts import rules as alerts
from mahavishnu.alerts.service import Alerts
from mahavishnu.http.auth import Actor, Queue, Role, Viewer, require_role
from mahavishnu.http.responses import json_response, to_json
from mahavishnu.http.routing import Depends, Router
from mahavishnu.http.schemas import RequestModel, ResponseModel, fields_of

Operator = Annotated[Actor, Depends(require_role(Role.OPERATOR, "sending a test of alerts"))]
router = Router(tag="alerts", prefix="/alerts")


class ChannelState(ResponseModel):
    """The state of a channel: whether it got the latest notice, and if not, the last problem."""

    channel: str
    told: bool
    tries: int
    problem: str | None


@fields_of(alerts.Alert, "name namespace reasons title detail taken_by incident notice since noticed_at resolved_at")
class AlertLine(ResponseModel):
    """An alert: since when it holds and why, and which channels were told."""

    phase: alerts.AlertPhase
    channels: list[ChannelState]


@fields_of(alerts.RuleReport, "rule about is_on channels holding path runbook")
class RuleLine(ResponseModel):
    """A rule: when people are told, by which channels, how many alerts hold because of it, and where to look."""


class ChannelTest(RequestModel):
    """The channel to test; all if left out."""

    channel: StrictStr | None = None


class ChannelAnswer(ResponseModel):
    """The answer of a channel; no problem: it took the notice."""

    channel: str
    problem: str | None


@router.get("", response_model=list[AlertLine], summary="What people are told of now", name="list")
async def list_alerts(dlq: Queue, actor: Viewer, resolved: bool = False) -> Response:
    """List the alerts that hold, latest first, or all if `resolved`; none for readers of part of a namespace."""
    return json_response([each.to_dict() for each in await dlq.service(Alerts).list(resolved=resolved)])


@router.get("/rules", response_model=list[RuleLine], summary="When people are told, and by whom", name="rules")
async def list_rules(dlq: Queue, actor: Viewer) -> Response:
    """List all rules, also disabled ones, and how many alerts hold; null for readers of part of a namespace."""
    return json_response(to_json(await dlq.service(Alerts).rules()))


@router.post("/test", response_model=list[ChannelAnswer], summary="Test the channels of alerts")
async def test(dlq: Queue, actor: Operator, body: ChannelTest | None = None) -> Response:
    """Send a notice that says it is a test to one channel, or to all, and return the answer of each."""
    answers = await dlq.service(Alerts).test(body.channel if body else None)
    return json_response([{"channel": name, "problem": problem} for name, problem in answers.items()])
