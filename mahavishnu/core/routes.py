"""The routes of the HTTP API: one module for each resource, in the order in which OpenAPI lists them.

The server adds all of them; the command line imports those of a resource when it is asked for.
"""

from __future__ import annotations

from mahavishnu.engine.rooms import Routes

ROUTES = (
    Routes("dlq", "mahavishnu.letters.routes:router"),
    Routes("dlq", "mahavishnu.letters.routes:contrasts_router"),
    Routes("dlq", "mahavishnu.encryption.routes:router"),
    Routes("query", "mahavishnu.search.routes:query_router"),
    Routes("views", "mahavishnu.search.routes:router"),
    Routes("trends", "mahavishnu.monitoring.routes:trends_router"),
    Routes("alerts", "mahavishnu.alerts.routes:router"),
    Routes("runs", "mahavishnu.bulk.routes:router"),
    Routes("groups", "mahavishnu.groups.routes:router"),
    Routes("claims", "mahavishnu.workers.routes:claims_router"),
    Routes("queues", "mahavishnu.queues.routes:router"),
    Routes("tasks", "mahavishnu.tasks.routes:router"),
    Routes("workers", "mahavishnu.workers.routes:router"),
    Routes("audit", "mahavishnu.audit.routes:router"),
    Routes("archive", "mahavishnu.archive.routes:router"),
    Routes("dashboard", "mahavishnu.monitoring.routes:dashboard_router"),
    Routes("integrity", "mahavishnu.monitoring.routes:integrity_router"),
    Routes("domain-events", "mahavishnu.events.routes:router"),
    Routes("events", "mahavishnu.events.routes:live_router"),
)
