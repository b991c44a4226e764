"""`mahavishnu archive`: closed letters whose time in the queue is over; and `mahavishnu dlq delete`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from mahavishnu.cli.client import Connection, path_part, run_conversation, task_path
from mahavishnu.cli.commands.tasks import print_task
from mahavishnu.cli.commands.transfer import output_file
from mahavishnu.cli.letter_view import letter_block
from mahavishnu.cli.namespaces import namespace_column
from mahavishnu.cli.options import Every, Limit, Reason, Yes, confirm, instant_from, session_of
from mahavishnu.cli.output import (
    AsJson,
    ExitCode,
    NotFound,
    count_of,
    print_json,
    print_line,
    print_notice,
    print_table,
)
from mahavishnu.cli.times import when
from mahavishnu.model.errors import InvalidInput

_MOMENTS = frozenset({"created_at", "closed_at"})


class ExportFormat(StrEnum):
    """How exported letters are written."""

    JSONL = "jsonl"
    CSV = "csv"


Letter: TypeAlias = Annotated[str, typer.Argument(metavar="LETTER", help="A task's id, or a letter's entry id.")]
Month: TypeAlias = Annotated[str, typer.Argument(metavar="MONTH", help="A month of the archive, such as 2026_01.")]
Since: TypeAlias = Annotated[
    str | None, typer.Option("--since", metavar="WHEN", help="Closed within the last 2h, or since a date.")
]
Until: TypeAlias = Annotated[str | None, typer.Option("--until", metavar="WHEN", help="Closed before that.")]


def run(
    context: typer.Context,
    apply: Annotated[bool, typer.Option("--apply", help="Archive them; without it nothing is changed.")] = False,
    days: Annotated[
        int | None, typer.Option("--days", min=0, help="Those completed so many days ago, not those of the settings.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Archive closed letters whose time is over; without --apply only say how many."""

    async def converse(api: Connection) -> bool:
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
        return bool(done["failed"])

    if run_conversation(session_of(context), converse):
        raise typer.Exit(ExitCode.FAILED)


def list_archived(
    context: typer.Context,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
    everything: Every = False,
    json: AsJson = False,
) -> None:
    """List archived letters, the latest end first."""
    _list(context, {}, since, until, None if everything else limit, json)


def search(
    context: typer.Context,
    task: Annotated[str | None, typer.Argument(metavar="[TASK]", help="Of this task.", show_default=False)] = None,
    category: Annotated[str | None, typer.Option("--category", help="Kind of failure, such as network.")] = None,
    resolution: Annotated[str | None, typer.Option("--resolution", help="How the case ended.")] = None,
    group: Annotated[str | None, typer.Option("--group", metavar="FINGERPRINT", help="With the same cause.")] = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
    everything: Every = False,
    json: AsJson = False,
) -> None:
    """Search archived letters by task, kind, ending, group and time."""
    asked = {"task_id": task, "category": category, "resolution": resolution, "fingerprint": group}
    _list(context, asked, since, until, None if everything else limit, json)


def _list(
    context: typer.Context, asked: dict[str, Any], since: str | None, until: str | None, limit: int | None, json: bool
) -> None:
    columns = {
        "task": "task_id",
        "ended": "resolution_status",
        "category": "error_category",
        "created": "created_at",
        "closed": "closed_at",
        "month": "partition",
        "entry": "entry_id",
    }
    _print_archived(
        context,
        "/archive",
        _within(asked, since, until),
        limit,
        json,
        columns,
        "nothing is archived",
        ("entry", "created"),
    )


def _within(asked: dict[str, Any], since: str | None, until: str | None) -> dict[str, Any]:
    return {**asked, "since": instant_from(since, "--since"), "until": instant_from(until, "--until")}


def _print_archived(
    context: typer.Context,
    path: str,
    params: dict[str, Any],
    limit: int | None,
    json: bool,
    columns: Mapping[str, str],
    empty: str,
    spare: Sequence[str],
) -> None:
    """Print what is under a path: `columns` are the titles, and what stands under each. The first names what it is."""

    async def converse(api: Connection) -> None:
        found = await api.list(path, params, limit)
        if json:
            print_json(found)
        else:
            (title, name), *others = columns.items()
            shown = {title: name, **{whose: whose for whose in namespace_column(found)}, **dict(others)}
            rows = [[when(each[key]) if key in _MOMENTS else each[key] for key in shown.values()] for each in found]
            print_table(list(shown), rows, empty=empty, spare=spare)
        api.note_list_end(len(found))

    run_conversation(session_of(context), converse)


def tasks(
    context: typer.Context,
    task: Annotated[str | None, typer.Argument(metavar="[TASK]", help="With this id.", show_default=False)] = None,
    name: Annotated[str | None, typer.Option("--name", help="Of this workflow.")] = None,
    state: Annotated[str | None, typer.Option("--state", help="That ended so: complete, error, cancelled.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="WHEN", help="Ended within the last 2h, or since a date.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="WHEN", help="Ended before that.")] = None,
    limit: Limit = 50,
    everything: Every = False,
    json: AsJson = False,
) -> None:
    """List or search archived tracked tasks by id, name, state and time, the latest end first."""
    params = _within({"task_id": task, "name": name, "state": state}, since, until)
    columns = {
        "tracked task": "task_id",
        "name": "name",
        "state": "state",
        "created": "created_at",
        "ended": "closed_at",
        "month": "partition",
    }
    most = None if everything else limit
    _print_archived(context, "/archive/tasks", params, most, json, columns, "no tracked task is archived", ("created",))


def show(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A task's id, a letter's entry id, or the id of a tracked task.")
    ],
    json: AsJson = False,
) -> None:
    """Show an archived letter with what belongs to it, or a tracked task with its moves and its letter."""

    async def converse(api: Connection) -> None:
        try:
            case = await api.get(f"/archive/{path_part(name)}")
        except NotFound as no_letter:
            try:
                found = await api.get(f"/archive/tasks/{path_part(name)}")
            except NotFound:
                raise no_letter from None
            _show_task(found, json)
        else:
            _show_letter(case, json)

    run_conversation(session_of(context), converse)


def _show_task(found: dict[str, Any], json: bool) -> None:
    if json:
        print_json(found)
        return
    print_task(found["task"])
    print_line("")
    print_line(f"archived {when(found['archived_at'])}, in {found['partition']}")
    if found["letter"] is not None:
        print_line("")
        letter_block(found["letter"], None)


def _show_letter(case: dict[str, Any], json: bool) -> None:
    if json:
        print_json(case)
        return
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


def restore(context: typer.Context, letter: Letter, reason: Reason = None, json: AsJson = False) -> None:
    """Put an archived letter back into the queue, as it was."""

    async def converse(api: Connection) -> None:
        restored = await api.post(f"/archive/{path_part(letter)}/restore", api.with_actor(notes=reason))
        if json:
            print_json(restored)
        else:
            print_line(f"{restored['task_id']} is back: {restored['status']}, {restored['resolution_status']}")

    run_conversation(session_of(context), converse)


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
    """The step that the file names; 0 where there is none. Raises InvalidInput."""
    try:
        return 0 if path is None or not path.exists() else int(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise InvalidInput(f"{path} has no watermark of an export: {problem}") from None


def partitions(context: typer.Context, json: AsJson = False) -> None:
    """List the months of the archive, also those that are detached."""

    async def converse(api: Connection) -> None:
        _print_partitions(await api.get("/archive/partitions"), json)

    run_conversation(session_of(context), converse)


def detach(context: typer.Context, month: Month, json: AsJson = False) -> None:
    """Use a month of the archive no more, so that its file can be moved away."""

    async def converse(api: Connection) -> None:
        done = await api.post(f"/archive/partitions/{path_part(month)}/detach", api.with_actor())
        if json:
            print_json(done)
        else:
            print_line(f"{month} is detached: {done['place']}")

    run_conversation(session_of(context), converse)


def attach(context: typer.Context, month: Month, json: AsJson = False) -> None:
    """Use a detached month of the archive again."""

    async def converse(api: Connection) -> None:
        _print_partitions(await api.post(f"/archive/partitions/{path_part(month)}/attach", api.with_actor()), json)

    run_conversation(session_of(context), converse)


def drop(context: typer.Context, month: Month, yes: Yes = False, json: AsJson = False) -> None:
    """Remove a detached month of the archive for good."""

    async def converse(api: Connection) -> None:
        if not yes:
            confirm(f"Remove {month} of the archive, with all letters in it?")
        answer = await api.ask("DELETE", f"/archive/partitions/{path_part(month)}", body=api.with_actor())
        _print_partitions(answer.json(), json)

    run_conversation(session_of(context), converse)


def delete(
    context: typer.Context,
    task: Annotated[str, typer.Argument(metavar="TASK", help="The task's id.")],
    queue: Annotated[str | None, typer.Option("--queue", help="The task's queue.")] = None,
    yes: Yes = False,
    reason: Reason = None,
    json: AsJson = False,
) -> None:
    """Delete a letter with all that belongs to it, also in the archive. Nothing brings it back."""

    async def converse(api: Connection) -> None:
        if not yes:
            confirm(f"Delete all that there is of {task}?")
        params = {} if queue is None else {"queue": queue}
        answer = await api.ask("DELETE", task_path(task), params=params, body=api.with_actor(notes=reason))
        gone = answer.json()
        if json:
            print_json(gone)
            return
        counts = {"letter": "letters", "former letter": "former", "copy in the archive": "copies", "waiting": "waiting"}
        said = [f"{gone[name]} {what}" for what, name in counts.items() if gone[name]]
        print_line(f"{task} is deleted: {', '.join(said) or 'nothing but its name was left'}")
        if gone["detached"]:
            months = ", ".join(gone["detached"])
            print_notice(f"not looked into, because they are detached: {months}; attach them and delete again")

    run_conversation(session_of(context), converse)


def _print_partitions(found: list[dict[str, Any]], json: bool) -> None:
    if json:
        print_json(found)
        return
    rows = [
        (each["name"], each["state"], each["letters"], when(each["made_at"]), when(each["detached_at"]))
        for each in found
    ]
    print_table(("month", "state", "letters", "made", "detached"), rows, empty="nothing was ever archived")
