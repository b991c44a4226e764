"""Monitoring: numbers, traces and log lines. It counts and writes, and decides nothing."""

from __future__ import annotations

from mahavishnu.engine.rooms import Command, Room, Routes

ROOM = Room(
    services={
        "telemetry": "mahavishnu.monitoring.service:Telemetry",
        "trends": "mahavishnu.monitoring.statistics:Trends",
        "dashboard": "mahavishnu.monitoring.dashboard:Dashboard",
        "integrity": "mahavishnu.monitoring.service:Integrity",
    },
    chores="mahavishnu.monitoring.service:chores",
    routes=(
        Routes("trends", "mahavishnu.monitoring.routes:trends_router"),
        Routes("dashboard", "mahavishnu.monitoring.routes:dashboard_router"),
        Routes("integrity", "mahavishnu.monitoring.routes:integrity_router"),
    ),
    pages=("mahavishnu.monitoring.page",),
    commands=(
        Command("dlq", "dashboard", "mahavishnu.monitoring.commands:dashboard"),
        Command("dlq", "doctor", "mahavishnu.monitoring.commands:doctor", namespaced=False),
        Command("dlq", "namespaces", "mahavishnu.monitoring.commands:namespaces", namespaced=False),
    ),
)
