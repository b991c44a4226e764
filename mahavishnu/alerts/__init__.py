"""Alerts: notifications about problems, by rules, through channels."""

from __future__ import annotations

from mahavishnu.engine.rooms import Command, CommandGroup, Room, Routes

ROOM = Room(
    kinds=("mahavishnu.alerts.records:ALERTS",),
    services={"alerts": "mahavishnu.alerts.service:Alerts"},
    chores="mahavishnu.alerts.service:chores",
    routes=(Routes("alerts", "mahavishnu.alerts.routes:router"),),
    groups=(CommandGroup("alert", "See what people are told of, and test how."),),
    pages=("mahavishnu.alerts.page",),
    commands=(
        Command("alert", "list", "mahavishnu.alerts.commands:list_alerts"),
        Command("alert", "rules", "mahavishnu.alerts.commands:rules"),
        Command("alert", "test", "mahavishnu.alerts.commands:test"),
    ),
)
