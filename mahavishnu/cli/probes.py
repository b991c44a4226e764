"""What a worker answers on its port for metrics: how it is, and what it counts."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING

from mahavishnu.telemetry.probe_server import Answer, ProbeServer

if TYPE_CHECKING:
    from mahavishnu.core.app import MahavishnuApp


def probes_of(app: MahavishnuApp, port: int | None) -> AbstractAsyncContextManager[ProbeServer | None]:
    """A server for the probes of this worker, on `port` or on that of the settings; none where there is no port."""
    settings = app.config.telemetry
    chosen = settings.metrics_port if port is None else port
    if chosen is None:
        return nullcontext()
    return ProbeServer(
        {
            "/healthz": lambda: answer_health(app),
            "/readyz": lambda: answer_ready(app),
            "/metrics": lambda: answer_metrics(app),
        },
        settings.metrics_host,
        chosen,
    )


async def answer_health(app: MahavishnuApp) -> Answer:
    """Always 200 while the process can answer."""
    health = await app.dlq.health()
    return Answer.of({"status": health.status, "kept_locally": health.waiting})


async def answer_ready(app: MahavishnuApp) -> Answer:
    """200 while the processor takes letters and the store, or the local one, can be used; 503 otherwise."""
    health, processor = await app.dlq.health(), app.dlq.processing.processor
    works = processor is not None and processor.is_running
    told = {"status": health.status, "kept_locally": health.waiting, "takes_letters": works}
    return Answer.of(told, 200 if works and health.status != "down" else 503)


async def answer_metrics(app: MahavishnuApp) -> Answer:
    """What this process counts. The numbers of the store are told by a server, so that each is told once."""
    from mahavishnu.telemetry.exposition import CONTENT_TYPE_LATEST, exposition

    return Answer(exposition(await app.dlq.telemetry.collect_process()), content_type=CONTENT_TYPE_LATEST)
