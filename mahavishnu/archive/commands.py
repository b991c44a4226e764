"""`mahavishnu archive`: closed letters whose time in the queue is over; and `mahavishnu dlq delete`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from mahavishnu.cli.client import Connection, path_part, run_conversation, task_path
from mahavishnu.cli.command import Converse, command
from mahavishnu.cli.options import Every, Limit, Reason, Yes, confirm, instant_from, namespace_column, session_of
from mahavishnu.cli.output import (
    AsJson,
    ExitCode,
    NotFound,
    count_of,
    print_json,
    print_line,
    print_notice,
    print_records,
    print_table,
    when,
)
from mahavishnu.letters.transfer_commands import output_file
from mahavishnu.letters.view import letter_block
from mahavishnu.model.errors import InvalidInput
from mahavishnu.tasks.commands import print_task


class ExportFormat(StrEnum):
    """The format of exported letters."""

    JSONL = "jsonl"
    CSV = "csv"


Letter: TypeAlias = Annotated[str, typer.Argument(metavar="LETTER", help="A task's id, or a letter's entry id.")]
Month: TypeAlias = Annotated[str, typer.Argument(metavar="MONTH", help="A month of the archive, such as 2026_01.")]
Since: TypeAlias = Annotated[
    str | None, typer.Option("--since", metavar="WHEN", help="Closed within the last 2h, or since a date.")
]
Until: TypeAlias = Annotated[str | None, typer.Option("--until", metavar="WHEN", help="Closed before that.")]


@command()
async def run(
    api: Connection,
    apply: Annotated[bool, typer.Option("--apply", help="Archive them; without it nothing is changed.")] = False,
    days: Annotated[
        int | None, typer.Option("--days", min=0, help="Those completed so many days ago, not those of the settings.")
    ] = None,
    json: AsJson = False,
) -> ExitCode:
    """Archive closed letters whose time is over; without --apply only say how many."""
    done = await api.post("/archive/run", api.with_actor(dry_run=not apply, retention_days=days))
    if json:
        print_json(done)
    else:
        for key, why in done["failed"].items():
            print_line(f"{key}: {why}")
        what = "archived" if apply else "would be archived; --apply does it"
        along = f", {done['steps_archived']} former ones, {done['transitions_archived']} revisions"
        along += f", {count_of(done['lifecycle_tasks_archived'], 'tracked task')}"
        print_line(f"{count_of(done['tasks_archived'], 'letter')}{along} {what}")
    return ExitCode.FAILED if done["failed"] else ExitCode.DONE


def _print_letters(found: Sequence[Mapping[str, Any]]) -> None:
    columns = {
        "task": "task_id",
        **{each: each for each in namespace_column(found)},
        "ended": "resolution_status",
        "category": "error_category",
        "created": "created_at",
        "closed": "closed_at",
        "month": "partition",
        "entry": "entry_id",
    }
    print_records(found, columns, empty="nothing is archived", spare=("entry", "created"))


def _print_tasks(found: Sequence[Mapping[str, Any]]) -> None:
    columns = {
        "tracked task": "task_id",
        **{each: each for each in namespace_column(found)},
        "name": "name",
        "state": "state",
        "created": "created_at",
        "ended": "closed_at",
        "month": "partition",
    }
    print_records(found, columns, empty="no tracked task is archived", spare=("created",))


@command(_print_letters)
def list_archived(since: Since = None, until: Until = None, limit: Limit = 50, everything: Every = False) -> Converse:
    """List archived letters, the latest end first."""
    return _list("/archive", {}, since, until, None if everything else limit)


@command(_print_letters)
def search(
    task: Annotated[str | None, typer.Argument(metavar="[TASK]", help="Of this task.", show_default=False)] = None,
    category: Annotated[str | None, typer.Option("--category", help="Kind of failure, such as network.")] = None,
    resolution: Annotated[str | None, typer.Option("--resolution", help="How the case ended.")] = None,
    group: Annotated[str | None, typer.Option("--group", metavar="FINGERPRINT", help="With the same cause.")] = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
    everything: Every = False,
) -> Converse:
    """Search archived letters by task, kind, ending, group and time."""
    asked = {"task_id": task, "category": category, "resolution": resolution, "fingerprint": group}
    return _list("/archive", asked, since, until, None if everything else limit)


@command(_print_tasks)
def tasks(
    task: Annotated[str | None, typer.Argument(metavar="[TASK]", help="With this id.", show_default=False)] = None,
    name: Annotated[str | None, typer.Option("--name", help="Of this workflow.")] = None,
    state: Annotated[str | None, typer.Option("--state", help="That ended so: complete, error, cancelled.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="WHEN", help="Ended within the last 2h, or since a date.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="WHEN", help="Ended before that.")] = None,
    limit: Limit = 50,
    everything: Every = False,
) -> Converse:
    """List or search archived tracked tasks by id, name, state and time, the latest end first."""
    asked = {"task_id": task, "name": name, "state": state}
    return _list("/archive/tasks", asked, since, until, None if everything else limit)


def _list(path: str, asked: dict[str, Any], since: str | None, until: str | None, limit: int | None) -> Converse:
    """Return what reads a list of the archive. Raise InvalidInput for a time that is none."""
    params = {**asked, "since": instant_from(since, "--since"), "until": instant_from(until, "--until")}
    return lambda api: api.list(path, params, limit)


def _print_case(found: dict[str, Any]) -> None:
    _print_archived_task(found) if "task" in found else _print_archived_letter(found)


@command(_print_case)
async def show(
    api: Connection,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A task's id, a letter's entry id, or the id of a tracked task.")
    ],
) -> Any:
    """Show an archived letter with what belongs to it, or a tracked task with its moves and its letter."""
    try:
        return await api.get(f"/archive/{path_part(name)}")
    except NotFound as no_letter:
        try:
            return await api.get(f"/archive/tasks/{path_part(name)}")
        except NotFound:
            raise no_letter from None


def _print_archived_task(found: dict[str, Any]) -> None:
    print_task(found["task"])
    print_line("")
    print_line(f"archived {when(found['archived_at'])}, in {found['partition']}")
    if found["letter"] is not None:
        print_line("")
        letter_block(found["letter"], None)


def _print_archived_letter(case: dict[str, Any]) -> None:
    letter_block(case["letter"], None)
    print_line("")
    print_line(f"archived {when(case['archived_at'])}, in {case['partition']}")
    if case["former"]:
        print_line("")
        rows = [(each["entry_id"], when(each["created_at"]), each["last_error"]) for each in case["former"]]
        print_table(("former letter", "created", "error"), rows, empty="", texts=("error",))
    if case["revisions"]:
        print_line("")
        rows = [(each["number"], when(each["updated_at"]), each["task"]) for each in case["revisions"]]
        print_table(("revision", "until", "task"), rows, empty="", texts=("task",))
    if case["tasks"]:
        print_line("")
        tasks = [(each["task_id"], each["name"], each["state"], when(each["closed_at"])) for each in case["tasks"]]
        print_table(("tracked task", "name", "state", "ended"), tasks, empty="")


@command()
async def restore(api: Connection, letter: Letter, reason: Reason = None, json: AsJson = False) -> Any:
    """Put an archived letter back into the queue, as it was."""
    restored = await api.post(f"/archive/{path_part(letter)}/restore", api.with_actor(notes=reason))
    if json:
        return restored
    print_line(f"{restored['task_id']} is back: {restored['status']}, {restored['resolution_status']}")


def export(
    context: typer.Context,
    watermark: Annotated[
        Path | None,
        typer.Option(
            "--watermark", metavar="FILE", help="Go on after the step that this file names, and name the new."
        ),
    ] = None,
    form: Annotated[ExportFormat, typer.Option("--format", help="Lines of JSON, or a table.")] = ExportFormat.JSONL,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write there, instead of to stdout.")
    ] = None,
) -> None:
    """Export for analysis what was archived since the last export; without --watermark, all of it."""
    after = _read_watermark(watermark)

    async def converse(api: Connection) -> int:
        step = int((await api.post("/archive/exports", api.with_actor()))["watermark"])
        with output_file(output) as file:
            async with api.stream("/archive/exports", {"after": after, "upto": step, "format": form.value}) as lines:
                async for text in lines:
                    file.write(f"{text}\n")
        return step

    step = run_conversation(session_of(context), converse)
    if watermark is not None:  # last of all: what was not written comes again
        sys.stdout.flush()
        with output_file(watermark) as file:
            file.write(f"{step}\n")
    print_notice(f"exported up to step {step}")


def _read_watermark(path: Path | None) -> int:
    """Return the step that the file names; 0 without a file. Raise InvalidInput."""
    try:
        return 0 if path is None or not path.exists() else int(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise InvalidInput(f"{path} has no watermark of an export: {problem}") from None


def _print_partitions(found: list[dict[str, Any]]) -> None:
    rows = [
        (each["name"], each["state"], each["letters"], when(each["made_at"]), when(each["detached_at"]))
        for each in found
    ]
    print_table(("month", "state", "letters", "made", "detached"), rows, empty="nothing was ever archived")


@command(_print_partitions)
async def partitions(api: Connection) -> Any:
    """List the months of the archive, also those that are detached."""
    return await api.get("/archive/partitions")


@command()
async def detach(api: Connection, month: Month, json: AsJson = False) -> Any:
    """Use a month of the archive no more, so that its file can be moved away."""
    done = await api.post(f"/archive/partitions/{path_part(month)}/detach", api.with_actor())
    if json:
        return done
    print_line(f"{month} is detached: {done['place']}")


@command(_print_partitions)
async def attach(api: Connection, month: Month) -> Any:
    """Use a detached month of the archive again."""
    return await api.post(f"/archive/partitions/{path_part(month)}/attach", api.with_actor())


@command(_print_partitions)
async def drop(api: Connection, month: Month, yes: Yes = False) -> Any:
    """Remove a detached month of the archive for good."""
    if not yes:
        confirm(f"Remove {month} of the archive, with all letters in it?")
    answer = await api.ask("DELETE", f"/archive/partitions/{path_part(month)}", body=api.with_actor())
    return answer.json()


@command()
async def delete(
    api: Connection,
    task: Annotated[str, typer.Argument(metavar="TASK", help="The task's id.")],
    queue: Annotated[str | None, typer.Option("--queue", help="The task's queue.")] = None,
    yes: Yes = False,
    reason: Reason = None,
    json: AsJson = False,
) -> Any:
    """Delete a letter with all that belongs to it, also in the archive. Nothing brings it back."""
    if not yes:
        confirm(f"Delete all that there is of {task}?")
    params = {} if queue is None else {"queue": queue}
    answer = await api.ask("DELETE", task_path(task), params=params, body=api.with_actor(notes=reason))
    gone = answer.json()
    if json:
        return gone
    counts = {"letter": "letters", "former letter": "former", "copy in the archive": "copies", "waiting": "waiting"}
    said = [f"{gone[name]} {what}" for what, name in counts.items() if gone[name]]
    print_line(f"{task} is deleted: {', '.join(said) or 'nothing but its name was left'}")
    if gone["detached"]:
        months = ", ".join(gone["detached"])
        print_notice(f"not looked into, because they are detached: {months}; attach them and delete again")
