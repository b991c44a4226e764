"""What people do with letters: with those that they name, one by one; with those of a filter, as a bulk run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from mahavishnu.bulk import commands as runs
from mahavishnu.bulk.commands import BulkRunOptions
from mahavishnu.cli.client import Connection, open_connection, run_conversation, task_path
from mahavishnu.cli.merge_patch import patch_for, patch_of, read_patch
from mahavishnu.cli.names import resolve_filter
from mahavishnu.cli.options import Filters, Reason, Session, session_of
from mahavishnu.cli.output import (
    AsJson,
    Conflict,
    ExitCode,
    NotFound,
    explain_error,
    print_error,
    print_json,
    print_line,
    print_notice,
)
from mahavishnu.letters.view import NearLetters, difference, state_of
from mahavishnu.model.errors import InvalidInput, MahavishnuError
from mahavishnu.model.letter_parts import DeadLetterStatus, ResolutionStatus

if TYPE_CHECKING:
    from mahavishnu.engine.queue import LetterQueue

Tasks: TypeAlias = Annotated[
    list[str] | None, typer.Argument(metavar="[TASK]...", help="Ids of tasks; or give a filter.", show_default=False)
]
Patch: TypeAlias = Annotated[
    str | None, typer.Option("--patch", metavar="JSON", help="Merge patch of the task's data; @FILE, or - for stdin.")
]
Sets: TypeAlias = Annotated[
    list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change one value of the task's data.")
]
Create: TypeAlias = Annotated[
    bool, typer.Option("--create", help="Make what the data does not have, too: else it is refused as misspelled.")
]
_NO_APP = (
    "nothing here can run it: --app MODULE:NAME names the app that does; or redrive it, and a worker runs it "
    "(mahavishnu worker --app …)"
)
Do = Callable[["Connection", str, dict[str, str]], Awaitable[Any]]


def redrive(
    context: typer.Context,
    chosen: Filters,
    options: BulkRunOptions,
    tasks: Tasks = None,
    patch: Patch = None,
    sets: Sets = None,
    create: Create = False,
    reason: Reason = None,
    json: AsJson = False,
) -> None:
    """Give letters fresh attempts, the first one due now."""
    patch = read_patch(patch)
    change = patch_of(patch, sets)
    if tasks and change is not None:
        raise InvalidInput("edit has --redrive: it changes a letter and redrives it in one step")
    how = {"patch": change, "patch_for": patch_for(patch, sets), "create": create}
    _move_letters(context, "redrive", tasks, chosen, options, reason, json, **how)


def retry(
    context: typer.Context,
    chosen: Filters,
    options: BulkRunOptions,
    tasks: Tasks = None,
    app: Annotated[
        str | None, typer.Option("--app", metavar="MODULE:NAME", help="Run it here, with this MahavishnuApp.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also while the circuit is open, or somebody's lease ran out lately.")
    ] = False,
    reason: Reason = None,
    json: AsJson = False,
) -> None:
    """Run letters now, once, and wait for it; their automatic retries are not used up."""
    if not tasks:
        if app or force:
            raise InvalidInput(
                "--app and --force go with TASKs; what a filter means is redriven, and run by the workers"
            )
        print_notice("retry runs TASKs, once; what a filter means is redriven: fresh attempts, run by the workers")
        _move_letters(context, "redrive", tasks, chosen, options, reason, json)
        return
    _only_tasks(options, tasks)
    params = {"force": "true"} if force else {}

    async def run(api: Connection, task: str, place: dict[str, str]) -> Any:
        try:
            return await api.post(task_path(task, "retry"), api.with_actor(notes=reason), {**place, **params})
        except Conflict as refused:
            from mahavishnu.workers.processing import Processing

            if api.dlq is not None and api.dlq.service(Processing).callback is None:
                raise Conflict(_NO_APP) from None
            hint = "; --force runs it all the same" if str(refused).startswith("circuit open") else ""
            raise Conflict(f"{refused}{hint}") from None

    def describe(answer: Any) -> str:
        return f"{answer['task_id']}: {'succeeded' if answer['success'] else answer['error']} ({answer['status']})"

    _each_task(context, tasks, chosen, run, describe, json, app=app, succeeded=lambda answer: bool(answer["success"]))


def requeue(
    context: typer.Context,
    tasks: Annotated[list[str], typer.Argument(metavar="TASK...", help="Ids of tasks.")],
    namespace: Annotated[str | None, typer.Option("--namespace", help="The tasks' namespace.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", help="The tasks' queue.")] = None,
    max_retries: Annotated[
        int | None, typer.Option("--max-retries", min=0, help="Give up what was sent back more often than this.")
    ] = None,
    boost: Annotated[int | None, typer.Option("--boost", min=0, help="Added to the priority.")] = None,
    json: AsJson = False,
) -> None:
    """Send work back with a higher priority, once until a run has ended."""

    async def send(api: Connection, task: str, place: dict[str, str]) -> Any:
        body = api.with_actor(max_retries=max_retries, priority_boost=boost)
        if "by" in body:
            body["resolved_by"] = body.pop("by")
        return {"task_id": task, **await api.post(task_path(task, "requeue"), body, place)}

    chosen = Filters(namespace=[namespace] if namespace else None, queue=[queue] if queue else None)
    _each_task(context, tasks, chosen, send, lambda answer: f"{answer['task_id']}: {answer['message']}", json)


def edit(
    context: typer.Context,
    chosen: Filters,
    options: BulkRunOptions,
    tasks: Tasks = None,
    patch: Patch = None,
    sets: Sets = None,
    priority: Annotated[int | None, typer.Option("--priority", help="Higher ones are run first.")] = None,
    max_retries: Annotated[int | None, typer.Option("--max-retries", min=0, help="Automatic retries.")] = None,
    retry_policy: Annotated[str | None, typer.Option("--retry-policy", help="When it is retried.")] = None,
    create: Create = False,
    redrive: Annotated[bool, typer.Option("--redrive", help="And redrive it, in the same step.")] = False,
    reason: Reason = None,
    json: AsJson = False,
) -> None:
    """Change letters; what they were is kept as a revision. With TASK, --adapter names what is to run it."""
    patch = read_patch(patch)
    change = patch_of(patch, sets)
    fields = {"patch": change, "priority": priority, "max_retries": max_retries, "retry_policy": retry_policy}
    changes = {name: value for name, value in fields.items() if value is not None}
    if tasks and chosen.adapter:  # tasks have no filters
        if len(chosen.adapter) > 1:
            raise InvalidInput("a letter is run by one adapter: give --adapter once")
        changes["adapter"], chosen = chosen.adapter[0], replace(chosen, adapter=None)
    if not changes:
        raise InvalidInput(
            "say what is to be changed: --patch, --set, --priority, --max-retries, --retry-policy, "
            "or --adapter of a TASK"
        )
    if not tasks:
        if list(changes) != ["patch"]:
            raise InvalidInput("what a filter means can be changed by --patch and --set only")
        how = {"patch": change, "patch_for": patch_for(patch, sets), "redrive": redrive, "create": create}
        _move_letters(context, "edit", tasks, chosen, options, reason, json, **how)
        return
    _only_tasks(options, tasks, dry_run=True)

    async def change_one(api: Connection, task: str, place: dict[str, str]) -> Any:
        before = await api.ask("GET", task_path(task, "letter"), params=place)
        if change is not None:
            changes["patch"] = patch_of(patch, sets, before.json().get("payload_types"))
        made = {"create": True} if create else {}
        seen = await api.post(task_path(task, "preview"), {**changes, **made, "redrive": redrive}, place)
        if options.dry_run:
            if seen["refused"]:
                letter = before.json()
                closed = letter["resolution_status"] != ResolutionStatus.PENDING
                refusal = Conflict if closed or letter["status"] == DeadLetterStatus.RETRYING else InvalidInput
                raise refusal(seen["refused"])
            if not json:
                difference(seen["diff"])
            return {"task_id": task, **seen}
        body = api.with_actor(**changes, **made, notes=reason, **({"redrive": True} if redrive else {}))
        etag = before.headers.get("ETag")
        answer = (await api.ask("PATCH", task_path(task), params=place, body=body, etag=etag)).json()
        if not json:
            difference(seen["diff"])
        return answer

    def describe(answer: Any) -> str:
        if options.dry_run:
            return f"{answer['task_id']}: nothing was changed, this is a dry run"
        return f"{_describe(answer)}, revision {answer['revision']}"

    _each_task(context, tasks, chosen, change_one, describe, json)


def _action(verb: str, summary: str) -> Callable[..., None]:
    def act(
        context: typer.Context,
        chosen: Filters,
        options: BulkRunOptions,
        tasks: Tasks = None,
        reason: Reason = None,
        json: AsJson = False,
    ) -> None:
        _move_letters(context, verb, tasks, chosen, options, reason, json)

    act.__doc__ = summary
    return act


resurrect = _action("resurrect", "Redrive what is exhausted, and nothing else.")
resolve = _action("resolve", "Close cases: a person settled it otherwise.")
fail = _action("fail", "Close cases: it will never work; the letters are kept for analysis.")
cancel = _action("cancel", "Close cases: nobody wants the work any more.")
archive = _action("archive", "Put letters away.")


def _move_letters(
    context: typer.Context,
    verb: str,
    tasks: list[str] | None,
    chosen: Filters,
    options: BulkRunOptions,
    reason: str | None,
    json: bool,
    **edit: Any,
) -> None:
    """Move what was named, or what the filter means."""
    if tasks:
        _only_tasks(options, tasks)

        async def move(api: Connection, task: str, place: dict[str, str]) -> Any:
            return await api.post(task_path(task, verb), api.with_actor(notes=reason), place)

        _each_task(context, tasks, chosen, move, _describe, json)
        return
    if not chosen.any_given and not options.everything:
        raise InvalidInput("name TASKs, or say which ones are meant by a filter; --all means every letter")
    if verb == "resurrect":
        if set(chosen.status or ()) - {DeadLetterStatus.EXHAUSTED}:
            raise InvalidInput("resurrect is for exhausted letters; redrive is for the others, too")
        verb, chosen = "redrive", replace(chosen, status=[DeadLetterStatus.EXHAUSTED.value])

    async def run(api: Connection) -> int:
        filters = await resolve_filter(api, chosen)
        return await runs.start_run(api, verb, filters, options, reason=reason, json=json, **edit)

    if code := run_conversation(session_of(context), run):
        raise typer.Exit(code)


def _only_tasks(options: BulkRunOptions, tasks: Sequence[str], *, dry_run: bool = False) -> None:
    given = [*options.given_options, *(["--dry-run"] if options.dry_run and not dry_run else [])]
    if options.ramp is not None and all(each.isdecimal() or each == runs.ALL for each in tasks):
        raise InvalidInput(f"the sizes of a ramp are written with commas: --ramp {','.join([options.ramp, *tasks])}")
    if given:
        raise InvalidInput(f"{', '.join(given)}: for what a filter means, not for TASKs")


def _each_task(
    context: typer.Context,
    tasks: Sequence[str],
    chosen: Filters,
    do: Do,
    describe: Callable[[Any], str],
    json: bool,
    *,
    app: str | None = None,
    succeeded: Callable[[Any], bool] = lambda answer: True,
) -> None:
    """Do it to each; one that is refused does not keep the others from it. Then say how it went."""
    import asyncio

    place = chosen.letter_scope
    answers: list[Any] = []
    codes: set[int] = set()

    async def each(to: Session, dlq: LetterQueue | None) -> None:
        async with open_connection(to, dlq) as api:
            near = NearLetters(api)
            for task in tasks:
                try:
                    answer = await do(api, task, place)
                except MahavishnuError as problem:
                    if isinstance(problem, NotFound):
                        problem = await near.explain(problem, task, place)
                    lines, code = explain_error(problem)
                    codes.add(code)
                    if code in (ExitCode.NOT_FOUND, ExitCode.CONFLICT) or len(tasks) > 1:  # it says of which
                        lines = tuple(text if task in text else f"{task}: {text}" for text in lines)
                    answers.append({"task_id": task, "error": "; ".join(lines)})
                    for text in lines:
                        print_error(text)
                    continue
                answers.append(answer)
                if not succeeded(answer):
                    codes.add(ExitCode.FAILED)
                if not json:
                    print_line(describe(answer))

    async def with_app(name: str) -> None:
        if session_of(context).store_options:
            raise InvalidInput("--app runs letters of its own store: leave out --store and --server")
        found = session_of(context).backend.import_app(name, session_of(context).settings_file)
        async with found:
            if found.queue_if_enabled is None:
                raise InvalidInput("there is nothing to run: dlq_enabled is false")
            await each(session_of(context), found.dlq)

    asyncio.run(with_app(app) if app else each(session_of(context), None))
    if json:
        print_json(answers)
    if codes:
        raise typer.Exit(codes.pop() if len(codes) == 1 else ExitCode.FAILED)


def _describe(letter: Any) -> str:
    return f"{letter['task_id']}: {state_of(letter)}"
