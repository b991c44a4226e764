"""The routes of the HTTP API: one module for each resource, in the order in which OpenAPI lists them.

The server adds all of them; the command line imports those of a resource when it is asked for.
"""

from __future__ import annotations

from mahavishnu.engine.rooms import Routes

ROUTES = (
    Routes("dlq", "mahavishnu.letters.routes"),
    Routes("dlq", "mahavishnu.letters.routes"),
    Routes("dlq", "mahavishnu.encryption.routes"),
    Routes("query", "mahavishnu.search.routes"),
    Routes("views", "mahavishnu.search.routes"),
    Routes("trends", "mahavishnu.monitoring.routes"),
    Routes("alerts", "mahavishnu.alerts.routes"),
    Routes("runs", "mahavishnu.bulk.routes"),
    Routes("groups", "mahavishnu.groups.routes"),
    Routes("claims", "mahavishnu.workers.routes"),
    Routes("queues", "mahavishnu.queues.routes"),
    Routes("tasks", "mahavishnu.tasks.routes"),
    Routes("workers", "mahavishnu.workers.routes"),
    Routes("audit", "mahavishnu.audit.routes"),
    Routes("archive", "mahavishnu.archive.routes"),
    Routes("dashboard", "mahavishnu.monitoring.routes"),
    Routes("integrity", "mahavishnu.monitoring.routes"),
    Routes("domain-events", "mahavishnu.events.routes"),
    Routes("events", "mahavishnu.events.routes"),
)
