"""`mahavishnu dlq`: the letters. What moves letters is in `dlq_acts`, what carries them elsewhere in `dlq_transfer`."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mahavishnu.cli.commands import letter_actions, transfer, watch
from mahavishnu.cli.commands.bulk import confirm
from mahavishnu.cli.commands.reclassify import Apply, ask_again
from mahavishnu.cli.exits import NotFound
from mahavishnu.cli.filters import Filters
from mahavishnu.cli.letter_view import letter_block, letters_table, open_circuits
from mahavishnu.cli.naming import meant
from mahavishnu.cli.options import expanded
from mahavishnu.cli.output import AsJson, JsonList, as_json, block, for_people, line, moment, table
from mahavishnu.cli.session import reaching, session

if TYPE_CHECKING:
    from mahavishnu.cli.client import Connection

app = typer.Typer(help="Look after letters.", no_args_is_help=True, rich_markup_mode=None, callback=reaching)
letter_actions.register(app)
transfer.register(app)
app.command("watch")(watch.watch)
Task = Annotated[str, typer.Argument(metavar="TASK", help="The task's id.")]
Namespace = Annotated[str | None, typer.Option("--namespace", help="The task's namespace.")]
Queue = Annotated[str | None, typer.Option("--queue", help="The task's queue.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="At most so many.")]
Every = Annotated[bool, typer.Option("--all", help="All of them, however many there are.")]


@app.command("list")
@expanded
def list_letters(
    context: typer.Context,
    chosen: Filters,
    limit: Limit = 50,
    everything: Every = False,
    sort: Annotated[str, typer.Option("--sort", help="newest, oldest, updated, due or priority.")] = "newest",
    json: AsJson = False,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="Print JSON, one letter in a line.")] = False,
) -> None:
    """List letters, newest first."""
    from mahavishnu.cli.client import talk

    chosen.asked()  # what is wrong with it is told before anything is opened

    async def ask(api: Connection) -> None:
        asked = {**await meant(api, chosen), "sort": sort}
        # only whole letters say of which type their errors are
        wanted = asked if json or jsonl else {**asked, "whole": "true"}
        written, pages = JsonList(), api.pages("/dlq", wanted, None if everything else limit)
        found: list[Any] = []
        count = 0
        async for page in pages:
            count += len(page)
            for letter in page:
                if jsonl:
                    as_json(letter, indent=None)
                elif json:
                    written.add(letter)
            if not (json or jsonl):
                found += page
        if json and not jsonl:
            written.end()
        elif not jsonl:
            letters_table(found)
        api.told(count, limit)

    talk(session(context), ask)


@app.command()
def show(
    context: typer.Context, task: Task, namespace: Namespace = None, queue: Queue = None, json: AsJson = False
) -> None:
    """Show one letter: what failed and why, its group, and what can be done."""
    from mahavishnu.cli.client import part, talk, task_path

    async def ask(api: Connection) -> None:
        letter = await api.get(task_path(task, "letter"), {"namespace": namespace, "queue": queue})
        if json:
            as_json(letter)
            return
        group = None
        if letter["fingerprint"]:
            with suppress(NotFound):
                group = await api.get(f"/groups/{part(letter['fingerprint'])}")
        circuits = {} if api.dlq is not None else open_circuits(await api.get("/dlq/statistics"))
        letter_block(letter, group, circuits)  # only a server knows of circuits: they belong to who runs letters

    talk(session(context), ask)


@app.command()
def revisions(
    context: typer.Context, task: Task, namespace: Namespace = None, queue: Queue = None, json: AsJson = False
) -> None:
    """Show what a letter was before each edit, oldest first."""
    from mahavishnu.cli.client import talk, task_path

    async def ask(api: Connection) -> None:
        found = await api.get(task_path(task, "revisions"), {"namespace": namespace, "queue": queue})
        if json:
            as_json(found)
        else:
            rows = [(each["number"], moment(each["updated_at"]), each["task"], each["metadata"]) for each in found]
            table(
                ("revision", "of", "task data", "metadata"),
                rows,
                empty="it was never edited",
                texts=("task data", "metadata"),
            )

    talk(session(context), ask)


@app.command()
def stats(
    context: typer.Context,
    by_reason: Annotated[bool, typer.Option("--by-reason", help="A line for each reason.")] = False,
    json: AsJson = False,
) -> None:
    """Show the queue in numbers."""
    _stats(context, by_reason, json)


@app.command()
def status(context: typer.Context, json: AsJson = False) -> None:
    """The same as stats."""
    _stats(context, False, json)


@app.command()
def clear(
    context: typer.Context,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    reason: letter_actions.Reason = None,
    json: AsJson = False,
) -> None:
    """Delete every open letter. Nothing brings them back."""
    from mahavishnu.cli.client import talk

    async def ask(api: Connection) -> None:
        if not yes:
            size = (await api.get("/dlq/statistics"))["queue_size"]
            confirm(f"Delete every open letter, {size} now?")
        body = api.signed(confirm="delete every open letter", notes=reason)
        cleared = await api.post("/dlq/clear", body)
        if json:
            as_json(cleared)
        else:
            line(f"{cleared['cleared']} letters deleted")

    talk(session(context), ask)


@app.command()
def reclassify(
    context: typer.Context,
    apply: Apply = False,
    category: Annotated[str | None, typer.Option(help="Only letters of this category.")] = None,
    json: AsJson = False,
) -> None:
    """Ask the classifier again about open letters, after plugins or rules have changed."""
    ask_again(
        context,
        "reclassify",
        lambda dlq, by: dlq.reclassify(dry_run=not apply, by=by, category=category),
        done="classified otherwise",
        json=json,
    )


def _stats(context: typer.Context, by_reason: bool, json: bool) -> None:
    from mahavishnu.cli.client import talk

    async def ask(api: Connection) -> None:
        numbers = await api.get("/dlq/stats" if by_reason else "/dlq/statistics")
        if json:
            as_json(numbers)
        elif by_reason:
            _reasons(numbers)
            api.told(len(numbers), 0)
        else:
            _numbers(numbers, api)

    talk(session(context), ask)


def _numbers(numbers: dict[str, Any], api: Connection) -> None:
    block(
        {
            "open letters": f"{numbers['queue_size']} of {numbers['max_size']} ({numbers['utilization_percent']:g} %)",
            **numbers["status_breakdown"],
            "asked": api.where,
            "store": numbers["storage_mode"],
            "kept locally": numbers["storage"]["kept_locally"],
            "wait for room": numbers["waiting"],
        }
    )
    for title, key in (("category", "error_categories"), ("retry policy", "retry_policies")):
        if numbers[key]:
            line("")
            table((title, "open letters"), numbers[key].items(), empty="")
    happened = {name.replace("_", " "): number for name, number in numbers["lifetime_stats"].items() if number}
    if happened:
        line("")
        table(("since the beginning", "letters"), happened.items(), empty="")
    circuits = [
        f"WARNING: the circuit of adapter {name} is {how}: its letters wait"
        for name, how in open_circuits(numbers).items()
    ]
    warnings = [*circuits, *map(str, numbers["warnings"])]
    for warning in warnings:
        line("")
        line(warning)
    if numbers["queue_size"] and not warnings and for_people():
        line("")
        line(f"the causes: {api.session.command('group', 'list')}")


def _reasons(lines: list[dict[str, Any]]) -> None:
    columns = ("reason", "letters", "pending", "requeued", "failed", "resolved", "cancelled", "mean requeues", "oldest")
    rows = [
        (
            each["dlq_reason"],
            each["total_entries"],
            each["pending"],
            each["requeued"],
            each["permanent_failures"],
            each["manually_resolved"],
            each["cancelled"],
            each["avg_retries"],
            moment(each["oldest_entry"]),
        )
        for each in lines
    ]
    table(columns, rows, empty="no letters")
