"""`mahavishnu run`: bulk runs; and how the bulk verbs of other commands start one and wait for it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import typer

from mahavishnu.bulk.rules import exceeds, percent_to_resume_with
from mahavishnu.bulk.run import RunCounts
from mahavishnu.cli.client import Connection, path_part
from mahavishnu.cli.command import command
from mahavishnu.cli.merge_patch import PatchFor, common_types
from mahavishnu.cli.names import resolve_run
from mahavishnu.cli.options import Every, Limit, Yes, confirm, namespace_column
from mahavishnu.cli.output import (
    AsJson,
    Columns,
    ExitCode,
    brief,
    count_of,
    moment,
    print_block,
    print_json,
    print_line,
    print_notice,
    print_records,
    short,
)
from mahavishnu.letters.view import error_of, open_circuits
from mahavishnu.model.clock import SystemClock
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.letter_parts import NO_ADAPTER
from mahavishnu.workers.rules import what_is_missing

Run = Mapping[str, Any]
_SHOWN_CHANGES = 3  # letters of which it is shown what an edit does to them
RunId: TypeAlias = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, or how it begins.")]
Reason: TypeAlias = Annotated[str | None, typer.Option("--reason", help="Why; it is kept in the audit.")]
ALL = "all"  # the last wave
_POLL_SECONDS = 0.5
_ALONE_SECONDS = 15.0  # after which it is said that there may be no worker to run the letters
_UNFINISHED = ("planning", "running")
_SAMPLE = 3
_CHUNK = 50  # letters that are asked for in one request


def print_preview(preview: Mapping[str, Any], verb: str, out: Callable[[str], None]) -> None:
    """Print with `out` what a run would do."""
    out(f"{count_of(preview['matched'], 'letter')} meant, {preview['eligible']} can be moved ({verb})")
    for why, number in preview["ineligible"].items():
        out(f"  {number}: {why}")
    if ramp := preview["ramp"]:
        out(f"in waves of {', '.join(map(str, ramp))}, then all the others")
    for change in preview["changes"][:_SHOWN_CHANGES]:
        out(f"{change['key']}:" + ("" if change["diff"] else " nothing would change"))
        for place in change["diff"]:
            out(f"  {place['path']}: {_side(place, 'before')} → {_side(place, 'after')}")
    left = preview["eligible"] - _SHOWN_CHANGES
    if preview["changes"] and left > 0:
        out(f"… and {count_of(left, 'other letter')}")


def _side(change: Mapping[str, Any], side: str) -> str:
    return short(json.dumps(change[side], ensure_ascii=False)) if side in change else "nothing"


def print_run(run: Run) -> None:
    """Print one run and its counts."""
    counts = run["counts"]
    fields = {
        "run": run["run_id"],
        "verb": run["verb"],
        "state": run["state"],
        "halted because": run["halted_because"],
        "letters": counts["members"],
        **_not_moved(run),
        "moved": counts["moved"],
        **{name.replace("_", " "): counts[name] for name in ("refused", "gone", "closed") if counts.get(name)},
        **(
            {name.replace("_", " "): counts[name] for name in ("succeeded", "failed_again")}
            if awaits_outcomes(run)
            else {}
        ),
        "ramp": ", ".join(map(str, run["ramp"])),
        "stop percent": run["stop_percent"],
        "per second": run["max_per_second"],
        "by": run["by"],
        "reason": run["reason"],
        "patch": run.get("patch"),
        "started": moment(run["created_at"]),
        "finished": moment(run["finished_at"]) if run["finished_at"] else None,
    }
    print_block({name: value for name, value in fields.items() if value not in (None, "")})


def _not_moved(run: Run) -> dict[str, int | None]:
    """Return the number of untouched members: of a cancelled run they wait for nothing."""
    count = count_waiting(run["counts"])
    return {"left alone": count or None} if run["state"] == "cancelled" else {"waiting": count}


def awaits_outcomes(run: Run) -> bool:
    """Return whether letters that this run has moved are run again, and may fail again."""
    return str(run["verb"]) == "redrive"


def resume_percent(run: Run) -> int | None:
    """Return the --stop-percent that a halted run needs to go on; None where its own allows that.

    >>> resume_percent({"stop_percent": 20, "counts": {"moved": 6, "failed_again": 2}})
    40
    """
    counts = RunCounts(moved=run["counts"]["moved"], failed_again=run["counts"].get("failed_again", 0))
    percent = run["stop_percent"]
    return None if percent is None or not exceeds(counts, percent) else percent_to_resume_with(counts)


def print_runs(runs: Sequence[Run]) -> None:
    """Print a table of runs."""
    columns: Columns = {
        "run": "run_id",
        **{name: name for name in (*namespace_column(runs), "verb", "state")},
        "letters": lambda run: run["counts"]["members"],
        "moved": lambda run: run["counts"]["moved"],
        "succeeded": lambda run: run["counts"].get("succeeded") if awaits_outcomes(run) else None,
        "failed again": lambda run: run["counts"].get("failed_again") if awaits_outcomes(run) else None,
        "by": "by",
        "started": "created_at",
        "reason": "reason",
    }
    spare = ("letters", "moved", "failed again", "succeeded", "started", "by")
    print_records(runs, columns, empty="no runs", spare=spare)


def count_outcomes(run: Run) -> int:
    """Return how many of the letters that this run has moved were run."""
    counts = run["counts"]
    return int(counts.get("succeeded", 0) + counts.get("failed_again", 0))


def count_waiting(counts: Mapping[str, int]) -> int:
    """Return how many members are still untouched."""
    return counts["members"] - counts["moved"] - counts["refused"] - counts.get("gone", 0)


@command(print_runs)
async def list_runs(
    api: Connection,
    state: Annotated[
        str | None, typer.Option("--state", help="planning, running, paused, halted, cancelled or done.")
    ] = None,
    limit: Limit = 50,
    everything: Every = False,
) -> Any:
    """List bulk runs, newest first."""
    return await api.list("/runs", {"state": state}, None if everything else limit)


@command()
async def show(api: Connection, run: RunId, json: AsJson = False) -> Any:
    """Show how a run stands."""
    found = await resolve_run(api, run)
    if json:
        return found
    print_run(found)
    if found["state"] == "halted":
        await _print_advice(api, found)


@command()
async def items(
    api: Connection,
    run: RunId,
    state: Annotated[str | None, typer.Option("--state", help="waiting, moved, refused or gone.")] = None,
    outcome: Annotated[str | None, typer.Option("--outcome", help="succeeded, failed_again or closed.")] = None,
    limit: Limit = 200,
    everything: Every = False,
    json: AsJson = False,
) -> Any:
    """List the letters of a run, and what became of each."""
    asked = {"state": state, "outcome": outcome}
    members_of = await resolve_run(api, run)
    run_id = members_of["run_id"]
    found = await api.list(f"/runs/{path_part(run_id)}/items", asked, None if everything else limit)
    if json:
        return found
    await _print_items(api, found, ended=members_of["state"] == "cancelled")
    api.note_list_end(len(found), found.more)


@command(print_run)
async def pause(api: Connection, run: RunId, reason: Reason = None) -> Any:
    """Hold a run up: nothing more is moved until it is resumed."""
    return await _change_run(api, run, "pause", reason=reason)


@command(print_run)
async def resume(
    api: Connection,
    run: RunId,
    stop_percent: Annotated[
        float | None, typer.Option("--stop-percent", metavar="N", help="Halt when more than so many percent fail.")
    ] = None,
    reason: Reason = None,
) -> Any:
    """Go on with a run that was paused or has halted."""
    return await _change_run(api, run, "resume", reason=reason, stop_percent=stop_percent)


@command(print_run)
async def cancel(api: Connection, run: RunId, reason: Reason = None) -> Any:
    """End a run: what it has moved stays moved, the other letters are left alone."""
    return await _change_run(api, run, "cancel", reason=reason)


@command()
async def watch(api: Connection, run: RunId, json: AsJson = False) -> ExitCode:
    """Wait for the end of a run. The exit code is 1 unless everything was done."""
    return await wait_for_run(api, await resolve_run(api, run), json=json)


async def _print_items(api: Connection, items: list[Any], *, ended: bool = False) -> None:
    """Print one row for each item, with the present error where it failed again. Of an `ended` run nothing waits."""
    errors = await _last_errors(api, [each for each in items if each["outcome"] == "failed_again"])
    states = {"waiting": "left alone"} if ended else {}
    columns: Columns = {
        "letter": "key",
        "state": lambda each: states.get(each["state"], each["state"]),
        "outcome": "outcome",
        "why": lambda each: each["why"] or brief(errors.get(each["entry_id"])),
    }
    print_records(items, columns, empty="no letters")


async def _last_errors(api: Connection, items: list[Any]) -> dict[str, str]:
    """Return the last errors of members, by their entry ids; deleted and closed letters have none."""
    found: dict[str, str] = {}
    for first in range(0, len(items), _CHUNK):
        tasks = [_task_id(each["key"]) for each in items[first : first + _CHUNK]]
        for letter in await api.list("/dlq", {"task_id": tasks, "whole": "true"}, None):
            found[letter["entry_id"]] = error_of(letter)
    return found


def _task_id(key: str) -> str:
    """Return the task's id in a letter's key.

    >>> _task_id("wf_1"), _task_id("a/b"), _task_id("eu/mail/a/b")
    ('wf_1', 'a/b', 'a/b')
    """
    return key.split("/", 2)[2] if key.count("/") > 1 else key


async def _print_advice(api: Connection, run: Mapping[str, Any]) -> None:
    """Print what failed again, and what a person can do."""
    run_id = str(run["run_id"])
    sample = await api.list(f"/runs/{path_part(run_id)}/items", {"outcome": "failed_again"}, _SAMPLE)
    if sample:
        print_line("")
        await _print_items(api, sample)
    print_line("")
    command = api.session.command
    percent = resume_percent(run)
    stop = () if percent is None else ("--stop-percent", str(percent))
    print_block(
        {
            "look": command("run", "items", run_id, "--outcome", "failed_again"),
            "end it": command("run", "cancel", run_id),
            "then fix": command("dlq", "edit", "--run", run_id, "--open", "--set", "PATH=VALUE", "--redrive"),
            "or go on": command("run", "resume", run_id, *stop),
        }
    )


async def _change_run(api: Connection, run: str, action: str, **body_fields: Any) -> Any:
    found = await resolve_run(api, run)
    return await api.post(f"/runs/{path_part(found['run_id'])}/{action}", api.with_actor(**body_fields))


# --- bulk verbs of other commands


@dataclass(frozen=True)
class BulkRunOptions:
    """The options of a bulk run."""

    everything: Annotated[bool, typer.Option("--all", help="Every letter is meant: needed without a filter.")] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False
    yes: Yes = False
    ramp: Annotated[
        str | None,
        typer.Option(
            "--ramp",
            metavar="N,N,…",
            help="Sizes of the first waves; each waits for the last one. 'all' is all at once; with --stop-percent it "
            "is 1,5,25 unless said otherwise.",
        ),
    ] = None
    max_per_second: Annotated[
        float | None, typer.Option("--max-per-second", metavar="N", help="Move at most so many letters a second.")
    ] = None
    stop_percent: Annotated[
        float | None,
        typer.Option("--stop-percent", metavar="N", help="Halt when more than so many percent fail again."),
    ] = None
    detach: Annotated[bool, typer.Option("--detach", help="Do not wait for its end.")] = False

    @property
    def waves(self) -> list[int] | None:
        """The sizes of the first waves; None without --ramp. Raises InvalidInput."""
        if self.ramp is None:
            return None
        sizes = [size.strip() for size in self.ramp.split(",")]
        if sizes[-1] == ALL:
            sizes.pop()
        try:
            return [int(size) for size in sizes]
        except ValueError:
            raise InvalidInput(f"--ramp takes whole numbers such as 1,5,25, or all, not {self.ramp!r:.80}") from None

    @property
    def given_options(self) -> list[str]:
        """The options that only a bulk run has."""
        named = {
            "--all": self.everything,
            "--ramp": self.ramp,
            "--max-per-second": self.max_per_second is not None,
            "--stop-percent": self.stop_percent is not None,
            "--detach": self.detach,
        }
        return [name for name, given in named.items() if given]


async def start_run(
    api: Connection,
    verb: str,
    filters: Mapping[str, Any],
    options: BulkRunOptions,
    *,
    reason: str | None,
    patch: Any = None,
    patch_for: PatchFor | None = None,
    redrive: bool = False,
    create: bool = False,
    json: bool,
) -> ExitCode:
    """Preview a bulk run, ask, start it, and wait for its end. Return the exit code. `patch_for`: of some types."""
    body: dict[str, Any] = {"verb": verb, "filter": dict(filters), "everything": options.everything}
    body |= {"ramp": options.waves, "max_per_second": options.max_per_second, "stop_percent": options.stop_percent}
    if patch is not None:
        body["patch"] = patch
    body |= {name: True for name, given in {"redrive": redrive, "create": create}.items() if given}
    preview = await api.post("/runs/preview", body)
    if patch_for is not None and (better := patch_for(await common_types(api, preview["samples"]))) != patch:
        body["patch"] = better
        preview = await api.post("/runs/preview", body)
    if preview["refused"]:
        raise InvalidInput(preview["refused"])
    if options.dry_run or not preview["eligible"]:
        print_json(preview) if json else print_preview(preview, verb, print_line)
        return ExitCode.DONE
    if not options.yes:
        print_preview(preview, verb, print_notice)
        confirm(f"{verb} {count_of(preview['eligible'], 'letter')}?")
    run = await api.post("/runs", api.with_actor(**body, reason=reason))
    if options.detach:
        print_json(run) if json else print_line(str(run["run_id"]))
        return ExitCode.DONE
    return await wait_for_run(api, run, json=json)


async def wait_for_run(api: Connection, run: Run, *, json: bool) -> ExitCode:
    """Wait until a run ends, halts or is paused; work on it here if there is no server. Return the exit code."""
    run_id = str(run["run_id"])
    ended = False
    try:
        with _ProgressBar() as show:
            run = await _poll(api, run, show)
        ended = True
    finally:
        if not ended:
            print_notice(f"the run goes on with the workers: {api.session.command('run', 'watch', run_id)}")
    print_json(run) if json else print_run(run)
    return ExitCode.DONE if run["state"] == "done" else ExitCode.FAILED


async def _poll(api: Connection, run: Run, show: Callable[[Run], None]) -> Run:
    clock = SystemClock()
    began, checked, explained = clock.monotonic(), False, False
    while run["state"] in _UNFINISHED:
        from mahavishnu.workers.processing import Processing

        workers = api.dlq is None or await api.dlq.service(Processing).workers.others()
        if api.dlq is not None and not workers:  # those that are there notice at once what they have moved themselves
            from mahavishnu.bulk.service import BulkRuns

            await api.dlq.service(BulkRuns).advance()
        run = await api.get(f"/runs/{path_part(run['run_id'])}")
        show(run)
        if run["state"] not in _UNFINISHED:
            break
        alone = not workers or clock.monotonic() - began > _ALONE_SECONDS
        nothing_ran = awaits_outcomes(run) and run["counts"]["moved"] and not count_outcomes(run)
        if nothing_ran and not explained and (alone or not checked):
            checked, explained = True, await _explain_waiting(api, alone)
        await clock.sleep(_POLL_SECONDS)
    return run


async def _explain_waiting(api: Connection, alone: bool) -> bool:
    """Say why no letter has been run so far, as far as that is known."""
    numbers = await api.get("/dlq/statistics")
    circuits = open_circuits(numbers)
    for name, how in circuits.items():
        print_notice(f"the circuit of adapter {name} is {how}: its letters wait until it is closed")
    explained = bool(circuits)
    for name, count in numbers.get("waiting_for_worker", {}).items() if numbers.get("live_workers") else ():
        print_notice(f"{count_of(count, 'letter')} {what_is_missing(None if name == NO_ADAPTER else name)}")
        explained = True
    if alone and not explained:
        print_notice("no letter has been run so far: that takes a worker (mahavishnu worker --app …)")
    return alone or explained


class _ProgressBar:
    """A bar on a terminal, and nothing elsewhere."""

    def __enter__(self) -> Callable[[Run], None]:
        self._bar: Any = None
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task("planning", total=None)
        return self._show

    def _show(self, run: Run) -> None:
        if self._bar is not None:
            counts, text = run["counts"], str(run["verb"])
            if awaits_outcomes(run):
                text += f": {count_outcomes(run)} run, {counts.get('failed_again', 0)} failed again"
            done = counts["members"] - count_waiting(counts)
            self._bar.update(self._task, description=text, completed=done, total=counts["members"] or None)

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()
