"""How bulk runs are shown to people."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mahavishnu.cli.namespaces import namespace_column
from mahavishnu.cli.output import count_of, moment, print_block, print_table, short, when
from mahavishnu.model.bulk_rules import exceeds, percent_to_resume_with
from mahavishnu.model.bulk_run import RunCounts

Run = Mapping[str, Any]
_SHOWN_CHANGES = 3  # letters of which it is shown what an edit does to them


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
    """The members that nothing was done to: of a run that is cancelled they wait for nothing."""
    count = count_waiting(run["counts"])
    return {"left alone": count or None} if run["state"] == "cancelled" else {"waiting": count}


def awaits_outcomes(run: Run) -> bool:
    """Whether letters that this run has moved are run again, and may fail again."""
    return str(run["verb"]) == "redrive"


def resume_percent(run: Run) -> int | None:
    """The --stop-percent that a halted run needs to go on; None where its own allows that.

    >>> resume_percent({"stop_percent": 20, "counts": {"moved": 6, "failed_again": 2}})
    40
    """
    counts = RunCounts(moved=run["counts"]["moved"], failed_again=run["counts"].get("failed_again", 0))
    percent = run["stop_percent"]
    return None if percent is None or not exceeds(counts, percent) else percent_to_resume_with(counts)


def print_runs(runs: Sequence[Run]) -> None:
    """Print a table of runs."""
    whose = namespace_column(runs)
    columns = (
        "run",
        *whose,
        "verb",
        "state",
        "letters",
        "moved",
        "succeeded",
        "failed again",
        "by",
        "started",
        "reason",
    )
    rows = [
        (
            run["run_id"],
            *(run[name] for name in whose),
            run["verb"],
            run["state"],
            run["counts"]["members"],
            run["counts"]["moved"],
            run["counts"].get("succeeded") if awaits_outcomes(run) else None,
            run["counts"].get("failed_again") if awaits_outcomes(run) else None,
            run["by"],
            when(run["created_at"]),
            run["reason"],
        )
        for run in runs
    ]
    spare = ("letters", "moved", "failed again", "succeeded", "started", "by")
    print_table(columns, rows, empty="no runs", spare=spare)


def count_outcomes(run: Run) -> int:
    """How many of the letters that this run has moved were run."""
    counts = run["counts"]
    return int(counts.get("succeeded", 0) + counts.get("failed_again", 0))


def count_waiting(counts: Mapping[str, int]) -> int:
    """How many members nothing was done to yet."""
    return counts["members"] - counts["moved"] - counts["refused"] - counts.get("gone", 0)
