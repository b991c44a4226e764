"""Workers: running letters, claiming them under leases, and the registry of live workers."""

from __future__ import annotations

from mahavishnu.engine.rooms import Command, CommandGroup, Room, Routes

ROOM = Room(
    kinds=("mahavishnu.workers.records:WORKERS", "mahavishnu.workers.records:LIMITS"),
    services={
        "workers": "mahavishnu.workers.service:Workers",
        "adapter_limits": "mahavishnu.workers.service:AdapterLimits",
        "claims": "mahavishnu.workers.claims:Claims",
        "processing": "mahavishnu.workers.processing:Processing",
    },
    routes=(
        Routes("claims", "mahavishnu.workers.routes:claims_router"),
        Routes("workers", "mahavishnu.workers.routes:router"),
        Routes("adapters", "mahavishnu.workers.routes:limits_router"),
    ),
    groups=(
        CommandGroup("worker", "Retry failed workflows.", "mahavishnu.core.processes:worker"),
        CommandGroup("adapter", "Limit how many letters of an adapter run at once, and how often."),
    ),
    pages=("mahavishnu.workers.page",),
    commands=(
        Command("worker", "list", "mahavishnu.workers.commands:list_workers"),
        Command("adapter", "list", "mahavishnu.workers.commands:list_limits"),
        Command("adapter", "limit", "mahavishnu.workers.commands:limit"),
    ),
)
