"""Encrypted values: `mahavishnu dlq reveal`, `mahavishnu dlq encrypt` and `mahavishnu config new-key`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from mahavishnu.cli.client import Connection, task_path
from mahavishnu.cli.command import command
from mahavishnu.cli.options import Reason
from mahavishnu.cli.output import AsJson, ExitCode, NotFound, count_of, print_block, print_json, print_line
from mahavishnu.letters.commands import Namespace, Queue, Task
from mahavishnu.letters.view import NearLetters

_LISTED = 20  # records that are named


@command()
async def reveal(
    api: Connection,
    task: Task,
    reason: Reason = None,
    namespace: Namespace = None,
    queue: Queue = None,
    json: AsJson = False,
) -> Any:
    """Show what a letter has encrypted, in clear; the audit says who looked, and why."""
    place = {"namespace": namespace, "queue": queue}
    try:
        shown = await api.post(task_path(task, "reveal"), api.with_actor(notes=reason), place)
    except NotFound as missing:
        raise await NearLetters(api).explain(missing, task, place) from None
    if json:
        return shown
    print_block({"task data": shown["task"], "metadata": shown["metadata"]})


@command()
async def encrypt(
    api: Connection,
    apply: Annotated[bool, typer.Option("--apply", help="Encrypt; without it nothing is changed.")] = False,
    scrub: Annotated[
        bool, typer.Option("--scrub", help="Mask what the audit and published events quote, too.")
    ] = False,
    json: AsJson = False,
) -> ExitCode:
    """Encrypt stored letters and tasks by the newest key: those in clear, and those of an older one. Mask what their
    errors quote. Without --apply, only say how many. It can be interrupted and begun again.
    """
    looked_at, changed, failed, after = 0, 0, dict[str, str](), None
    while True:
        lot = await api.post("/dlq/encrypt", api.with_actor(dry_run=not apply, scrub=scrub, after=after))
        looked_at, changed = looked_at + lot["looked_at"], changed + lot["changed"]
        failed, after, unreached = {**failed, **lot["failed"]}, lot["next"], lot["out_of_reach"]
        if after is None:
            break
    code = ExitCode.FAILED if failed else ExitCode.DONE
    if json:
        print_json({"looked_at": looked_at, "changed": changed, "failed": failed, "out_of_reach": unreached})
        return code
    for key, why in [*failed.items()][:_LISTED]:
        print_line(f"{key}: {why}")
    if len(failed) > _LISTED:
        print_line(f"{len(failed) - _LISTED} more cannot be encrypted anew; --json names them all")
    what = "encrypted by the newest key" if apply else "would be encrypted by the newest key; --apply does it"
    print_line(f"{count_of(changed, 'record')} of {looked_at} {what}")
    for each in unreached:
        print_line(f"not looked at: {each}")
    if apply:
        print_line("before an old key is removed, `mahavishnu dlq encrypt` has to find nothing any more")
    return code


def new_key() -> None:
    """Make a key for the setting encryption.keys; it is kept nowhere."""
    from mahavishnu.values.encryption import new_key as make_key

    print_line(make_key())
