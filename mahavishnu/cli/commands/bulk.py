"""Bulk runs as the commands start, show and await them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mahavishnu.cli.exits import ExitCode, Failed
from mahavishnu.cli.letter_view import open_circuits
from mahavishnu.cli.output import moment, print_block, print_json, print_line, print_notice, print_table
from mahavishnu.model.bulk_rules import exceeds, percent_to_resume_with
from mahavishnu.model.bulk_run import RunCounts
from mahavishnu.model.clock import SystemClock
from mahavishnu.model.errors import InvalidInput

if TYPE_CHECKING:
    from mahavishnu.cli.client import Connection

LOOK_SECONDS = 0.5
LONELY_SECONDS = 15.0  # after which one is told that nobody may be there to run the letters
GOES_ON = ("planning", "running")
ALL = "all"  # the last wave
Run = Mapping[str, Any]


@dataclass(frozen=True)
class BulkRunOptions:
    """How a bulk run goes about it."""

    everything: Annotated[bool, typer.Option("--all", help="Every letter is meant: needed without a filter.")] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False
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
        """The sizes; None where nothing is said of them. Raises InvalidInput."""
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
    asked: Mapping[str, Any],
    way: BulkRunOptions,
    *,
    reason: str | None,
    patch: Any = None,
    redrive: bool = False,
    json: bool,
) -> int:
    """Preview, ask, begin, and wait. Returns the exit code."""
    body: dict[str, Any] = {"verb": verb, "filter": dict(asked), "everything": way.everything}
    body |= {"ramp": way.waves, "max_per_second": way.max_per_second, "stop_percent": way.stop_percent}
    if patch is not None:
        body["patch"] = patch
    if redrive:
        body["redrive"] = True
    preview = await api.post("/runs/preview", body)
    if way.dry_run or not preview["eligible"]:
        print_json(preview) if json else show_preview(preview, verb, print_line)
        return ExitCode.DONE
    if not way.yes:
        show_preview(preview, verb, print_notice)
        confirm(f"{verb} {count_of(preview['eligible'], 'letter')}?")
    run = await api.post("/runs", api.with_actor(**body, reason=reason))
    if way.detach:
        print_json(run) if json else print_line(str(run["run_id"]))
        return ExitCode.DONE
    return await wait_for_run(api, run, json=json)


def confirm(question: str) -> None:
    """Ask on the terminal. Raises InvalidInput where there is none, Failed on no."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InvalidInput("nobody can be asked here: say --yes if you mean it")
    if not typer.confirm(question, err=True):
        raise Failed("nothing was done")


async def wait_for_run(api: Connection, run: Run, *, json: bool) -> int:
    """Look on until it ends, or halts, or is paused; carry it on here where the store is ours. Returns the code."""
    run_id = str(run["run_id"])
    ended = False
    try:
        with _progress() as told:
            run = await _ended(api, run, told)
        ended = True
    finally:
        if not ended:
            print_notice(f"the run goes on with the workers: {api.session.command('run', 'watch', run_id)}")
    print_json(run) if json else show_run(run)
    return ExitCode.DONE if run["state"] == "done" else ExitCode.FAILED


async def _ended(api: Connection, run: Run, told: Callable[[Run], None]) -> Run:
    from mahavishnu.cli.client import path_part

    clock = SystemClock()
    began, looked, told_so = clock.monotonic(), False, False
    while run["state"] in GOES_ON:
        workers = api.dlq is None or await api.dlq.processing.workers.others()
        if api.dlq is not None and not workers:  # those that are there notice at once what they have moved themselves
            await api.dlq.runs.advance()
        run = await api.get(f"/runs/{path_part(run['run_id'])}")
        told(run)
        if run["state"] not in GOES_ON:
            break
        alone = not workers or clock.monotonic() - began > LONELY_SECONDS
        if not told_so and (alone or not looked) and _awaits(run) and run["counts"]["moved"] and not _outcomes(run):
            looked, told_so = True, await _told_why(api, alone)
        await clock.sleep(LOOK_SECONDS)
    return run


async def _told_why(api: Connection, alone: bool) -> bool:
    """Say why no letter has been run so far, as far as that is known."""
    circuits = open_circuits(await api.get("/dlq/statistics"))
    for name, how in circuits.items():
        print_notice(f"the circuit of adapter {name} is {how}: its letters wait until it is closed")
    if alone and not circuits:
        print_notice("no letter has been run so far: that takes a worker (mahavishnu worker --app …)")
    return alone or bool(circuits)


def _outcomes(run: Run) -> int:
    counts = run["counts"]
    return int(counts.get("succeeded", 0) + counts.get("failed_again", 0))


class _progress:
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
            counts = run["counts"]
            ran = f": {_outcomes(run)} run, {counts.get('failed_again', 0)} failed again" if _awaits(run) else ""
            text = f"{run['verb']}{ran}"
            done = counts["members"] - count_waiting(counts)
            self._bar.update(self._task, description=text, completed=done, total=counts["members"] or None)

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def count_waiting(counts: Mapping[str, int]) -> int:
    """Members that nothing was done to yet."""
    return counts["members"] - counts["moved"] - counts["refused"] - counts.get("gone", 0)


def show_preview(preview: Mapping[str, Any], verb: str, out: Callable[[str], None]) -> None:
    """What a run would do."""
    out(f"{count_of(preview['matched'], 'letter')} meant, {preview['eligible']} can be moved ({verb})")
    for why, number in preview["ineligible"].items():
        out(f"  {number}: {why}")
    if ramp := preview["ramp"]:
        out(f"in waves of {', '.join(map(str, ramp))}, then all the others")


def show_run(run: Run) -> None:
    """How a run stands."""
    counts = run["counts"]
    fields = {
        "run": run["run_id"],
        "verb": run["verb"],
        "state": run["state"],
        "halted because": run["halted_because"],
        "letters": counts["members"],
        "waiting": count_waiting(counts),
        "moved": counts["moved"],
        **{name.replace("_", " "): counts[name] for name in ("refused", "gone", "closed") if counts.get(name)},
        **({name.replace("_", " "): counts[name] for name in ("succeeded", "failed_again")} if _awaits(run) else {}),
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


def _awaits(run: Run) -> bool:
    return str(run["verb"]) == "redrive"


def resume_percent(run: Run) -> int | None:
    """The stop rule that a halted run goes on with; None where the one that it has does not keep it from that.

    >>> resume_percent({"stop_percent": 20, "counts": {"moved": 6, "failed_again": 2}})
    40
    """
    counts = RunCounts(moved=run["counts"]["moved"], failed_again=run["counts"].get("failed_again", 0))
    percent = run["stop_percent"]
    return None if percent is None or not exceeds(counts, percent) else percent_to_resume_with(counts)


def show_runs(runs: list[Run]) -> None:
    """One row for each."""
    columns = ("run", "verb", "state", "letters", "moved", "succeeded", "failed again", "by", "started", "reason")
    rows = [
        (
            run["run_id"],
            run["verb"],
            run["state"],
            run["counts"]["members"],
            run["counts"]["moved"],
            run["counts"].get("succeeded") if _awaits(run) else None,
            run["counts"].get("failed_again") if _awaits(run) else None,
            run["by"],
            moment(run["created_at"]),
            run["reason"],
        )
        for run in runs
    ]
    print_table(columns, rows, empty="no runs")


def count_of(number: int, what: str) -> str:
    """A number of things.

    >>> count_of(1, "letter"), count_of(2, "letter")
    ('1 letter', '2 letters')
    """
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
