"""Encrypted values: `mahavishnu dlq reveal` shows those of a letter, `mahavishnu config new-key` makes a key."""

from __future__ import annotations

import typer

from mahavishnu.cli.client import Connection, run_conversation, task_path
from mahavishnu.cli.commands.letters import Namespace, Queue, Task
from mahavishnu.cli.near_letters import NearLetters
from mahavishnu.cli.options import Reason, session_of
from mahavishnu.cli.output import AsJson, NotFound, print_block, print_json, print_line


def reveal(
    context: typer.Context,
    task: Task,
    reason: Reason = None,
    namespace: Namespace = None,
    queue: Queue = None,
    json: AsJson = False,
) -> None:
    """Show what a letter has encrypted, in clear; the audit says who looked, and why."""

    async def converse(api: Connection) -> None:
        place = {"namespace": namespace, "queue": queue}
        try:
            shown = await api.post(task_path(task, "reveal"), api.with_actor(notes=reason), place)
        except NotFound as missing:
            raise await NearLetters(api).explain(missing, task, place) from None
        if json:
            print_json(shown)
        else:
            print_block({"task data": shown["task"], "metadata": shown["metadata"]})

    run_conversation(session_of(context), converse)


def new_key() -> None:
    """Make a key for the setting encryption.keys; it is kept nowhere."""
    from mahavishnu.engine.encryption import new_key as make_key

    print_line(make_key())
