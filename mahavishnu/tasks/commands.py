"""`mahavishnu task`: lifecycle tasks that run, and those that hang."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import typer

from mahavishnu.cli.client import Connection, path_part
from mahavishnu.cli.command import command
from mahavishnu.cli.options import Every, Limit, Reason, Texts, namespace_column
from mahavishnu.cli.output import AsJson, brief, print_block, print_line, print_notice, print_records, print_table, when

Task: TypeAlias = Annotated[str, typer.Argument(metavar="TASK", help="The id of the lifecycle task, as list shows it.")]


def _print_tasks(found: list[dict[str, Any]]) -> None:
    print_records(
        found,
        {
            "task": "task_id",
            **{each: each for each in namespace_column(found)},
            "name": "name",
            "state": "state",
            "since": "state_entered_at",
            "step": lambda each: ", ".join(step["name"] for step in each["steps"] if step["state"] == "in_progress"),
            "worker": "processor",
        },
        empty="nothing is tracked now: @app.workflow(track=True) tracks a workflow, --state all lists what has ended",
        spare=("worker",),
    )


@command(_print_tasks)
async def list_tasks(
    api: Connection,
    state: Annotated[Texts, typer.Option("--state", help="Of this state, or of several; all: of every state.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Of this workflow.")] = None,
    limit: Limit = 50,
    everything: Every = False,
) -> Any:
    """List lifecycle tasks that have not ended, or those of some states, newest first."""
    return await api.list("/tasks", {"state": state, "name": name}, None if everything else limit)


def print_task(found: dict[str, Any]) -> None:
    """Print a task with its steps and moves."""
    print_block(
        {
            "task": found["task_id"],
            "name": found["name"],
            "state": f"{found['state']} since {when(found['state_entered_at'])}",
            "begun": when(found["created_at"]),
            "worker": found["processor"],
            "letter of": found["work_id"],
            "last error": brief(found["last_error"]) if found["last_error"] else None,
        }
    )
    if found["steps"]:
        print_line("")
        steps = [
            (step["name"], step["state"], step["attempts"], brief(step["last_error"] or "")) for step in found["steps"]
        ]
        print_table(("step", "state", "runs", "last error"), steps, empty="")
    print_line("")
    print_records(
        found["transitions"],
        {
            "move": "number",
            "of": lambda each: each["step"] or "the task",
            "from": "from_state",
            "to": "to_state",
            "when": lambda each: when(each["at"]),
            "why": lambda each: each["reason"] or "",
        },
        empty="it has not moved yet",
    )


@command(print_task)
async def show(api: Connection, task: Task) -> Any:
    """Show a lifecycle task: its steps, and every move."""
    return await api.get(f"/tasks/{path_part(task)}")


@command()
async def move(api: Connection, task: Task, reason: Reason = None, json: AsJson = False) -> Any:
    """Move a lifecycle task to the dead-letter queue: it is in error then, and has a letter."""
    done = await api.post(f"/tasks/{path_part(task)}/move", api.with_actor(notes=reason))
    if json:
        return done
    if done["created"]:
        print_line(f"task {task} is in error, it was {done['original_state']}: its letter is {done['task_id']}")
    else:
        print_line(f"task {task} has a letter already: {done['task_id']}")


@command()
async def detect(
    api: Connection,
    apply: Annotated[bool, typer.Option("--apply", help="Hand them over; without it nothing is changed.")] = False,
    limit: Limit = 100,
    json: AsJson = False,
) -> Any:
    """Find lifecycle tasks that hang; without --apply only say what would become of them."""
    found = await api.post("/tasks/detect", api.with_actor(dry_run=not apply, batch_size=limit))
    if json:
        return found
    print_records(
        found,
        {
            "task": "task_uuid",
            "name": "task_name",
            "state": "current_state",
            "minutes in it": "time_in_state_minutes",
            "allowed": "staleness_threshold_minutes",
            "what": lambda each: each["action_taken"].replace("_", " "),
        },
        empty="no lifecycle task is stale",
    )
    if found and not apply:
        print_notice("nothing was changed: --apply does it")
