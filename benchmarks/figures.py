"""How a figure is measured, printed and kept."""

from __future__ import annotations

import json
import platform
import re
import statistics
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured thing: medians over `runs`. Where `target` begins with `<=`, less is better."""

    figure: str
    ours: float
    against: float | None
    ratio: float
    target: str
    met: bool
    unit: str
    runs: int
    more: dict[str, Any] = field(default_factory=dict)


Measured = Callable[[int], Awaitable[float]]


async def compared(
    name: str, ours: Measured, against: Measured, *, target: str, unit: str, runs: int = 5, **more: Any
) -> Figure:
    """Measure both `runs` times in turns, after one unmeasured round; each is given the number of its run.

    The ratio is the median of those of the single rounds: the machine, and a server that is still warming up, are
    faster in one round than in another, but nearly the same for both sides of one.
    """
    rows: list[tuple[float, float]] = []
    for run in range(runs + 1):
        if run % 2:  # whoever goes second finds the machine in another state: take turns
            mine, raw = await ours(run), await against(run)
        else:
            raw, mine = await against(run), await ours(run)
        if run:
            rows.append((mine, raw))
    mine, raw = (statistics.median(column) for column in zip(*rows, strict=True))
    each = [round(one / other, 3) for one, other in rows]
    ratio = statistics.median(each)
    return figure(name, mine, raw, target=target, unit=unit, runs=runs, ratio=ratio, ratios=each, **more)


def figure(
    name: str,
    ours: float,
    against: float | None,
    *,
    target: str,
    unit: str,
    runs: int,
    ratio: float | None = None,
    **more: Any,
) -> Figure:
    """A figure from medians; `against` None compares `ours` itself with the target."""
    if ratio is None:
        ratio = ours / against if against else ours
    made = Figure(
        name, _rounded(ours), _rounded(against), _rounded(ratio), target, meets(ratio, target), unit, runs, more
    )
    print(json.dumps({key: value for key, value in asdict(made).items() if key != "more"} | more), flush=True)
    return made


def meets(ratio: float, target: str) -> bool:
    """Whether a ratio satisfies `>= 0.75` or `<= 1.3`; a text without a number is no target.

    >>> meets(0.8, ">= 0.75"), meets(1.4, "<= 1.3")
    (True, False)
    """
    limit = re.search(r"([<>])= ([\d.]+)", target)
    if limit is None:
        return True
    bound = float(limit.group(2))
    return ratio <= bound if limit.group(1) == "<" else ratio >= bound


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """p50 and p99 in milliseconds."""
    ordered = sorted(seconds)
    return {
        "p50_ms": _rounded(1000 * statistics.median(ordered)) or 0.0,
        "p99_ms": _rounded(1000 * ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]) or 0.0,
    }


def keep(section: str, figures: Sequence[Figure], page: Path = PAGE) -> None:
    """Replace the section of `docs/benchmarks.md` that these figures make, and leave the others."""
    text = page.read_text() if page.exists() else "# Benchmarks\n"
    text = re.sub(rf"\n## {re.escape(section)}\n.*?(?=\n## |\Z)", "", text, flags=re.DOTALL).rstrip()
    rows = "\n".join(_row(each) for each in figures)
    raw = "\n".join(json.dumps(asdict(each)) for each in figures)
    day, machine = (
        datetime.now(UTC).date(),
        f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
    )
    command = " ".join(["python", "-m", *_module()])
    page.write_text(
        f"{text}\n\n## {section}\n\nLast run {day}, {machine}. `{command}` made this.\n\n"
        "| figure | ours | against | ratio | target | met | unit | runs |\n|---|---|---|---|---|---|---|---|\n"
        f"{rows}\n\n```json\n{raw}\n```\n"
    )


def _module() -> list[str]:
    return ["benchmarks." + Path(sys.argv[0]).stem, *sys.argv[1:]]


def _row(each: Figure) -> str:
    met = "yes" if each.met else "**no**"
    against = "–" if each.against is None else f"{each.against:,}"
    cells = (each.figure, f"{each.ours:,}", against, each.ratio, each.target, met, each.unit, each.runs)
    return "| " + " | ".join(map(str, cells)) + " |"


def _rounded(value: float | None) -> Any:
    if value is None or value == 0:
        return value
    return round(value, 3) if abs(value) < 100 else round(value)
