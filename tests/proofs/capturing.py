"""A process whose workflows fail while its store breaks: `python -m tests.proofs.capturing '{"url": …}'`.

For each line of names that it reads it runs a workflow for each, all at once, and prints as a line of JSON what their
results said; `full` on a line of its own makes its disk a full one. It works until it is killed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import resource
import sys
from typing import Any

from mahavishnu.core import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from tests.support.node import say


def settings(url: str, local: str | None) -> MahavishnuSettings:
    return MahavishnuSettings(dlq_store_url=url, **({} if local is None else {"dlq_local_url": local}))


def payload(name: str) -> dict[str, Any]:
    """Longer than what a log line usually holds."""
    return {"id": name, "text": f"<{name} {'0123456789' * 500} {name}>"}


def make_app(url: str, local: str | None) -> MahavishnuApp:
    def fail(task: Any, repos: Any) -> None:
        raise ConnectionError("connection refused")

    app = MahavishnuApp(settings(url, local))
    app.register_adapter("fails", fail)
    return app


async def main(options: dict[str, Any]) -> None:
    app = make_app(options["url"], options.get("local"))
    while line := await asyncio.to_thread(sys.stdin.readline):
        match line.split():
            case ["full"]:  # of any file: what has no place on the disk yet gets none
                resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
                say("{}")
            case names:
                results = await asyncio.gather(*(app.execute_workflow(payload(name), "fails") for name in names))
                told = {name: result.get("dlq_error") for name, result in zip(names, results, strict=True)}
                assert all(result["dlq_enqueued"] is (result.get("dlq_error") is None) for result in results)
                say(json.dumps(told))


if __name__ == "__main__":
    logging.basicConfig()
    asyncio.run(main(json.loads(sys.argv[1])))
