"""`mahavishnu dlq dashboard`, `dlq doctor` and `dlq namespaces`: a store and its letters in tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer

from mahavishnu.cli.client import Connection, path_part
from mahavishnu.cli.command import Converse, command
from mahavishnu.cli.output import (
    AsJson,
    Columns,
    ExitCode,
    NotFound,
    count_of,
    moment,
    print_json,
    print_line,
    print_notice,
    print_records,
)
from mahavishnu.letters.commands import print_reasons


@command()
async def doctor(
    api: Connection,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100_000, help="At most so many.")] = 1000,
    forget: Annotated[
        str | None, typer.Option("--forget", metavar="NAME", help="Forget a local store that is gone for good.")
    ] = None,
    json: AsJson = False,
) -> ExitCode:
    """List records that cannot be read, and letters that have not come home; it fails with 1 if there are any."""
    if forget is not None:
        await api.post(f"/integrity/local-stores/{path_part(forget)}/forget", api.with_actor())
        print_notice(f"local store {forget} is forgotten")
    unreadable = await api.get("/integrity", {"limit": limit})
    stores = [each for each in await api.get("/integrity/local-stores") if each["needs_look"]]
    if json:
        print_json({"unreadable": unreadable, "local_stores": stores})
    else:
        print_records(unreadable, {name: name for name in ("kind", "key", "why")}, empty="every record can be read")
        if unreadable:
            what = count_of(len(unreadable), "record")
            print_notice(f"{what} cannot be read: each stays as it is, until you delete or restore it in the store")
        if stores:
            print_line("")
            last_seen: Columns = {"last seen": lambda each: moment(each["seen_at"])}
            print_records(stores, {"local store": "name", "kept": "kept", **last_seen, "what": "what"}, empty="")
            print_notice("if a local store is gone for good: mahavishnu dlq doctor --forget NAME")
    return ExitCode.FAILED if unreadable or stores else ExitCode.DONE


_NAMESPACE = {"namespace": "name", "open": "open", "for people": "for_people"}


@command(partial(print_records, columns=_NAMESPACE, empty="no namespace can be seen"))
async def namespaces(api: Connection) -> Any:
    """List the namespaces that have letters, with how many are open and how many of those wait for people."""
    return await api.get("/query/namespaces")


_STATE: Columns = {
    "state": "current_state",
    "tasks": "task_count",
    "mean minutes": "avg_minutes_in_state",
    "longest": "max_minutes_in_state",
    "over 1 h": "stale_over_1h",
    "over 1 day": "stale_over_1day",
    "longest in it": lambda each: " ".join(each["top_stale_tasks"]),
}
_MONTH: Columns = {
    "month": "month",
    "letters": "tasks_archived",
    "former letters": "steps_archived",
    "lifecycle tasks": "lifecycle_tasks_archived",
    "bytes": "archive_size",
}
_PRINTS: dict[str, Callable[[list[dict[str, Any]]], None]] = {
    "dlq": print_reasons,
    "staleness": partial(print_records, columns=_STATE, empty="no lifecycle task is open", spare=("mean minutes",)),
    "archive": partial(print_records, columns=_MONTH, empty="nothing is archived", texts=()),
}


@command()
def dashboard(
    view: Annotated[
        str | None, typer.Argument(metavar="[VIEW]", help="dlq, staleness or archive; all three if none is named.")
    ] = None,
    json: AsJson = False,
) -> Converse:
    """Show letters by reason, what runs now by state, and the archive by month."""
    if view is not None and view not in _PRINTS:
        raise NotFound.among("view", view, list(_PRINTS))

    async def converse(api: Connection) -> Any:
        if json:
            found = {name: await api.get(f"/dashboard/{name}") for name in ([view] if view else _PRINTS)}
            return found[view] if view else found
        for number, (name, print_lines) in enumerate(_PRINTS.items()):
            if view in (None, name):
                if number and view is None:
                    print_line("")
                print_lines(await api.get(f"/dashboard/{name}"))

    return converse
