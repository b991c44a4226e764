"""`mahavishnu dlq`: lists, single letters, numbers; `action_commands` and `transfer_commands` have the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from mahavishnu.cli.client import Connection, path_part, require_store, task_path
from mahavishnu.cli.command import Converse, command
from mahavishnu.cli.names import resolve_filter
from mahavishnu.cli.options import Every, Filters, Limit, Reason, Yes, confirm, session_of
from mahavishnu.cli.output import (
    AsJson,
    Columns,
    ExitCode,
    NotFound,
    count_of,
    for_people,
    moment,
    print_block,
    print_json,
    print_line,
    print_records,
    print_table,
    when,
)
from mahavishnu.letters.view import NearLetters, difference, letter_block, letters_table, open_circuits, state_of
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.json_value import Difference
from mahavishnu.model.json_value import difference as differences

if TYPE_CHECKING:
    from mahavishnu.engine.moves import BulkResult
    from mahavishnu.engine.queue import LetterQueue

_RESTORED = ("task", "metadata", "repos", "depends_on", "retry_policy", "max_retries", "priority", "adapter")
_NO_OPEN_LETTERS = "no open letters (--closed lists the others, too)"
Apply: TypeAlias = Annotated[bool, typer.Option("--apply", help="Change the letters; without it nothing is changed.")]
Task = Annotated[str, typer.Argument(metavar="TASK", help="The task's id.")]
Namespace = Annotated[str | None, typer.Option("--namespace", help="The task's namespace.")]
Queue = Annotated[str | None, typer.Option("--queue", help="The task's queue.")]


@command()
def list_letters(
    chosen: Filters,
    limit: Limit = 50,
    everything: Every = False,
    closed: Annotated[bool, typer.Option("--closed", help="Cases that have ended, too.")] = False,
    sort: Annotated[str, typer.Option("--sort", help="newest, oldest, updated, due or priority.")] = "newest",
    json: AsJson = False,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="Print JSON, one letter in a line.")] = False,
) -> Converse:
    """List open letters, newest first; with --closed, or a filter that says which, also those whose case has ended."""
    if closed and (chosen.open or chosen.resolution):
        raise InvalidInput(f"give --closed or --{'open' if chosen.open else 'resolution'}, not both")
    only_open = not (closed or chosen.says_which)
    chosen = replace(chosen, open=True) if only_open else chosen
    chosen.api_filter()  # raises what is wrong with it before anything is opened

    from mahavishnu.model.query import ALL_NAMESPACES

    async def converse(api: Connection) -> None:
        params = {**await resolve_filter(api, chosen), "sort": sort}
        if not (json or jsonl):
            params["whole"] = "true"  # only whole letters say of which type their errors are
        empty, everywhere = _NO_OPEN_LETTERS if only_open else "no letters", api.session.namespace == ALL_NAMESPACES
        show = partial(letters_table, empty=empty, everywhere=everywhere)
        await api.print_list("/dlq", params, None if everything else limit, show, json=json, jsonl=jsonl)

    return converse


@command()
async def show(
    api: Connection, task: Task, namespace: Namespace = None, queue: Queue = None, json: AsJson = False
) -> Any:
    """Show one letter: what failed and why, its group, and what can be done."""
    letter = await _get(api, task, "letter", {"namespace": namespace, "queue": queue})
    if json:
        return letter
    from mahavishnu.letters.view import ask_for, print_contrasts

    group = None
    if letter["fingerprint"]:
        with suppress(NotFound):
            group = await api.get(f"/groups/{path_part(letter['fingerprint'])}")
    circuits = {} if api.dlq is not None else open_circuits(await api.get("/dlq/statistics"))
    letter_block(letter, group, circuits)  # only a server knows of circuits: they belong to who runs letters
    print_contrasts(await ask_for(api, task_path(task, "contrasts"), {"namespace": namespace, "queue": queue}))


_REVISION: Columns = {
    "revision": "number",
    "of": lambda each: moment(each["updated_at"]),
    "task data": "task",
    "metadata": "metadata",
}


@command(partial(print_records, columns=_REVISION, empty="it was never edited", texts=("task data", "metadata")))
async def revisions(api: Connection, task: Task, namespace: Namespace = None, queue: Queue = None) -> Any:
    """Show what a letter was before each edit, oldest first."""
    return await _get(api, task, "revisions", {"namespace": namespace, "queue": queue})


@command()
async def restore(
    api: Connection,
    task: Task,
    revision: Annotated[
        int | None, typer.Option("--revision", min=0, help="Its number; without it the last one.")
    ] = None,
    redrive: Annotated[bool, typer.Option("--redrive", help="And redrive it, in the same step.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be changed.")] = False,
    reason: Reason = None,
    namespace: Namespace = None,
    queue: Queue = None,
    json: AsJson = False,
) -> Any:
    """Make a letter what it was before an edit; what it is now is kept as a revision, too."""
    place = {"namespace": namespace, "queue": queue}
    before = await _get(api, task, "letter", place)
    if dry_run:
        known = {each["number"]: each for each in await _get(api, task, "revisions", place)}
        wanted = max(known, default=None) if revision is None else revision
        if wanted not in known:
            raise InvalidInput(f"{task} has no revision {'' if wanted is None else wanted}".rstrip())
        changes = compare(before, {**before, **{name: known[wanted][name] for name in _RESTORED}})
        return {"task_id": task, "revision": wanted, "diff": changes} if json else difference(changes)
    body = api.with_actor(revision=revision, notes=reason, **({"redrive": True} if redrive else {}))
    after = await api.post(task_path(task, "restore"), body, place)
    if json:
        return after
    difference(compare(before, after))
    print_line(f"{task}: {state_of(after)}, revision {after['revision']}")


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    """Return where two letters of the API differ in what people may change."""
    return differences({name: before[name] for name in _RESTORED}, {name: after[name] for name in _RESTORED})


async def _get(api: Connection, task: str, what: str, place: Mapping[str, str | None]) -> Any:
    """Return a part of a task's letter. Raise NotFound, which suggests similar letters."""
    try:
        return await api.get(task_path(task, what), place)
    except NotFound as missing:
        raise await NearLetters(api).explain(missing, task, place) from None


@command()
async def stats(
    api: Connection,
    by_reason: Annotated[bool, typer.Option("--by-reason", help="A line for each reason.")] = False,
    json: AsJson = False,
) -> Any:
    """Show the queue in numbers."""
    numbers = await api.get("/dlq/stats" if by_reason else "/dlq/statistics")
    if json:
        return numbers
    if by_reason:
        print_reasons(numbers)
        api.note_list_end(len(numbers), more=False)
    else:
        _numbers(numbers, api)


@command()
async def status(api: Connection, json: AsJson = False) -> Any:
    """Show the queue in numbers, as stats does."""
    numbers = await api.get("/dlq/statistics")
    if json:
        return numbers
    _numbers(numbers, api)


@command(lambda done: print_line(f"{done['cleared']} letters deleted"))
async def clear(api: Connection, yes: Yes = False, reason: Reason = None) -> Any:
    """Delete every open letter. Nothing brings them back."""
    if not yes:
        size = (await api.get("/dlq/statistics"))["queue_size"]
        confirm(f"Delete every open letter, {size} now?")
    return await api.post("/dlq/clear", api.with_actor(confirm="delete every open letter", notes=reason))


def reclassify(
    context: typer.Context,
    apply: Apply = False,
    category: Annotated[str | None, typer.Option(help="Only letters of this category.")] = None,
    json: AsJson = False,
) -> None:
    """Ask the classifier again about open letters, after plugins or rules have changed."""
    from mahavishnu.letters.service import LetterOperations

    assess_again(
        context,
        "reclassify",
        lambda dlq, by: dlq.service(LetterOperations).reclassify(dry_run=not apply, by=by, category=category),
        done="classified otherwise",
        json=json,
    )


def _size(numbers: dict[str, Any]) -> str:
    if numbers.get("max_size") is None:  # of several namespaces, or of another app's
        return str(numbers["queue_size"])
    return f"{numbers['queue_size']} of {numbers['max_size']} ({numbers['utilization_percent']:g} %)"


def _numbers(numbers: dict[str, Any], api: Connection) -> None:
    outside = {"kept locally": numbers["storage"]["kept_locally"], "wait for room": numbers["waiting"]}
    print_block(
        {
            "open letters": _size(numbers),
            **numbers["status_breakdown"],
            "asked": api.where,
            "store": numbers["storage_mode"],
            **{name: count for name, count in outside.items() if count is not None},  # None: who asks sees a part
        }
    )
    tables = (
        ("category", "error_categories"),
        ("retry policy", "retry_policies"),
        ("no live worker has", "waiting_for_worker"),
    )
    for title, key in tables:
        if numbers[key]:
            print_line("")
            print_table((title, "open letters"), numbers[key].items(), empty="")
    happened = {name.replace("_", " "): number for name, number in numbers["lifetime_stats"].items() if number}
    if happened:
        print_line("")
        print_table(("since the beginning", "letters"), happened.items(), empty="")
    circuits = [
        f"WARNING: the circuit of adapter {name} is {how}: its letters wait"
        for name, how in open_circuits(numbers).items()
    ]
    warnings = [*circuits, *map(str, numbers["warnings"])]
    for warning in warnings:
        print_line("")
        print_line(warning)
    if numbers["queue_size"] and not warnings and for_people():
        print_line("")
        print_line(f"the causes: {api.session.command('group', 'list')}")


def print_reasons(lines: list[dict[str, Any]]) -> None:
    """Print a line for each reason."""
    columns: Columns = {
        "reason": "dlq_reason",
        "letters": "total_entries",
        **{name: name for name in ("pending", "requeued")},
        "failed": "permanent_failures",
        "resolved": "manually_resolved",
        "cancelled": "cancelled",
        "mean requeues": "avg_retries",
        "oldest": lambda each: when(each["oldest_entry"]),
    }
    spare = ("mean requeues", "oldest", "requeued", "cancelled")
    print_records(lines, columns, empty="no letters", texts=(), spare=spare)


def assess_again(
    context: typer.Context,
    verb: str,
    asked: Callable[[LetterQueue, str], Awaitable[BulkResult]],
    *,
    done: str,
    json: bool,
) -> None:
    """Have `asked(queue, who asks)` done on the store of the settings, and say which letters are `done` differently."""
    to = session_of(context)
    if to.server:
        raise InvalidInput(f"{verb} asks the plugins of this machine about the letters of a store: without --server")

    require_store(to)

    async def ask() -> BulkResult:
        async with to.backend.open_queue(to.settings) as dlq:
            return await asked(dlq.in_namespace(to.namespace or dlq.namespace), to.user)

    result = asyncio.run(ask())
    if json:
        print_json(
            {"dry_run": result.dry_run, "changed": result.done, "refused": result.refused, "degraded": result.degraded}
        )
    else:
        for key in result.done:
            print_line(key)
        for key, why in result.refused.items():
            print_line(f"{key}: {why}")
        what = f"would be {done}; --apply does it" if result.dry_run else done
        print_line(f"{count_of(len(result.done), 'letter')} {what}")
    if result.refused:
        raise typer.Exit(ExitCode.FAILED)
