"""One process of an app that shares its store: `app_node.py '{"name": …, "url": …, "log": …, "calls": …}'`.

It makes so many calls that fail, prints `ready`, and retries the letters of its app until it is killed. Each retry is a
line `run <task> <idempotency key> <app> <what is wrong with the arguments>` in the log.

An `earlier` one works as the version before did, which knew no adapters of letters: with the present code it imitates
that. It is a script of its own, so that a checkout of that version can run it as well.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from decimal import Decimal
from typing import Any

from mahavishnu.capture.adapters import current_attempt
from mahavishnu.core import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings


def forget_adapters() -> None:
    """Have this process read, write and claim letters as the version before did."""
    from msgspec import UNSET
    from msgspec.structs import force_setattr

    from mahavishnu.stores import kinds, letter_codec
    from mahavishnu.workers.background import WorkerRegistry
    from mahavishnu.workers.processing import Processing
    from mahavishnu.workers.rules import Worker

    whole = letter_codec.document_of

    def document_of(letter: Any) -> Any:
        document = whole(letter)
        document.adapter, document.payload_types, document.tags = UNSET, None, ()
        return document

    vars(kinds)["SCHEMA"] = vars(letter_codec)["SCHEMA"] = 1
    vars(letter_codec)["document_of"] = document_of
    for kind in (kinds.LETTERS, kinds.HISTORY):
        force_setattr(kind.by_name["adapter"], "value", lambda letter: None)

    def sign(registry: Any) -> Worker:
        return Worker(registry._name, registry._started_at, registry._clock.now())

    Processing.adapters = lambda self: None  # type: ignore[method-assign]  # it claimed whatever was due
    WorkerRegistry.me = property(sign)  # type: ignore[assignment,method-assign]


async def main(options: dict[str, Any]) -> None:
    name, log = options["name"], os.open(options["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    settings = MahavishnuSettings(
        dlq_store_url=options["url"],
        dlq_default_retry_policy="immediate",
        dlq_automatic_policy="default",
        dlq_max_size=10_000,
        dlq_claim_lease_seconds=2,
        dlq_clock_skew_grace_seconds=0,
        dlq_retry_concurrency=4,
    )
    app = MahavishnuApp(settings)

    def run(number: int, wrong: bool) -> None:
        attempt = current_attempt.get()
        if attempt is None:
            raise ConnectionError("connection refused")
        line = f"run {attempt.letter.task_id} {attempt.idempotency_key} {name} {'wrong' if wrong else 'right'}\n"
        os.write(log, line.encode())

    if options.get("typed"):  # a function that only the present version captures

        @app.workflow(name, key="number")
        async def pay(number: int, amount: Decimal) -> None:
            run(number, not isinstance(amount, Decimal))

        async def call(number: int) -> None:
            try:
                await pay(number, Decimal(number) / 4)
            except ConnectionError:
                return

    else:
        app.register_adapter(name, lambda task, repos: run(task["number"], False))

        async def call(number: int) -> None:
            result = await app.execute_workflow({"id": f"{name}:{number}", "number": number}, name)
            assert result["dlq_enqueued"], result

    async with app:
        assert app.dlq is not None
        for start in range(0, options["calls"], 50):
            await asyncio.gather(*(call(number) for number in range(start, min(start + 50, options["calls"]))))
        await app.dlq.start_retry_processor(check_interval_seconds=0.5)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    if given.get("earlier") == "imitated":
        forget_adapters()
    asyncio.run(main(given))
