"""Workers: running letters, claiming them under leases, and the registry of live workers."""

from __future__ import annotations

from mahavishnu.engine.rooms import Command, CommandGroup, Room, Routes

ROOM = Room(
    kinds=("mahavishnu.workers.records:WORKERS",),
    services={
        "workers": "mahavishnu.workers.service:Workers",
        "claims": "mahavishnu.workers.claims:Claims",
        "processing": "mahavishnu.workers.processing:Processing",
    },
    routes=(
        Routes("claims", "mahavishnu.workers.routes:claims_router"),
        Routes("workers", "mahavishnu.workers.routes:router"),
    ),
    groups=(CommandGroup("worker", "Retry failed workflows.", "mahavishnu.core.processes:worker"),),
    pages=("mahavishnu.workers.page",),
    commands=(Command("worker", "list", "mahavishnu.workers.commands:list_workers"),),
)
