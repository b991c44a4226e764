"""The audit log: every act of people and rules."""

from __future__ import annotations

from mahavishnu.engine.rooms import Command, CommandGroup, Room, Routes

ROOM = Room(
    kinds=("mahavishnu.engine.audit:AUDIT",),
    services={"audit": "mahavishnu.engine.audit:AuditLog"},
    routes=(Routes("audit", "mahavishnu.audit.routes:router"),),
    groups=(CommandGroup("audit", "Look at who did what."),),
    pages=("mahavishnu.audit.page",),
    commands=(Command("audit", "list", "mahavishnu.audit.commands:list_audit"),),
)
