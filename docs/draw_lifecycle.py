"""Draws docs/lifecycle.md from the table of moves, so that the two cannot differ.

`make diagram` runs it; a test fails where it was forgotten.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from mahavishnu.model import lifecycle, tombstones
from mahavishnu.model.letter_parts import DeadLetterStatus, ResolutionStatus
from mahavishnu.model.lifecycle import ON_CLOSED, TABLE, Move
from mahavishnu.queues import items as queue_items
from mahavishnu.tasks.task import BACK_FROM_ERROR, STEP_TABLE, TASK_TABLE, StepState, TaskState

MOVES_IN = (lifecycle, tombstones, queue_items)
PAGE = Path(__file__).with_name("lifecycle.md")
EXHAUSTED = DeadLetterStatus.EXHAUSTED
TEXT = """\
# The life of a letter

<!-- Drawn by docs/draw_lifecycle.py from mahavishnu/model/lifecycle.py. Change it there, then run `make diagram`. -->

A letter stands on two axes. Its **status** is what the machine is doing with it:

{statuses}

Its **resolution** is how the case ended:

{resolutions}

A letter whose resolution is `pending` is *open*, any other is *closed*. An `exhausted` letter can be either: open while
it waits for a person, closed once somebody gave it up.

`due_at` says when anyone may next pick the letter up, whatever it waits for: the next retry while `pending`, the end of
the lease while `retrying`. A pending letter without it waits for a person. A process that dies needs no recovery: its
lease runs out, and the letter is due again.

## Every move

```mermaid
stateDiagram-v2
{arrows}
```

## Where a move leads

A dash is a move that is refused: `IllegalMove` names the letter, its state and the move (`AlreadyResolved` for a closed
letter, `NotDue` for one that nobody may take yet). Moves with a star demand the token of the current lease
(`LostLease` otherwise), because the version alone does not prove ownership.

{table}

## What a move does

{moves}

## Lifecycle tasks

<!-- From mahavishnu/tasks/task.py. -->

A lifecycle task is what runs now, as others see it. Any other move is refused, and the error names both states. A task
comes out of `error` for the reason `{back}` only, while a letter of it is open; its steps in `error` go with it. One
exception: if a rule took its run for dead, and that run succeeds after all, the task is `complete`, and its letter is
closed.

{task_states}

```mermaid
stateDiagram-v2
{task_arrows}
```

## Steps of a lifecycle task

{step_states}

```mermaid
stateDiagram-v2
{step_arrows}
```
"""


def draw() -> str:
    """The text of the page."""
    return TEXT.format(
        statuses="\n".join(_meanings(DeadLetterStatus)),
        resolutions="\n".join(_meanings(ResolutionStatus)),
        arrows="\n".join(f"    {arrow}" for arrow in _arrows()),
        table="\n".join(_table()),
        moves="\n".join(f"- **{name}** – {_sentence(name)}" for name in ("new letter", *Move)),
        back=BACK_FROM_ERROR,
        task_states="\n".join(_meanings(TaskState)),
        task_arrows="\n".join(f"    {arrow}" for arrow in _state_arrows(TASK_TABLE)),
        step_states="\n".join(_meanings(StepState)),
        step_arrows="\n".join(f"    {arrow}" for arrow in _state_arrows(STEP_TABLE)),
    )


def _state_arrows(table: Mapping[Any, Sequence[StrEnum]]) -> Iterator[str]:
    """One arrow for each move of a table."""
    yield "[*] --> pending"
    for start, goals in table.items():
        for goal in goals:
            yield f"{start} --> {goal}"


def _meanings(enum: type[StrEnum]) -> Iterator[str]:
    """One line per member, with what the comment beside it says."""
    for value, comment in re.findall(r'= "(\w+)"(?: +#: (.+))?', inspect.getsource(enum)):
        yield f"- `{value}`" + (f" – {comment}" if comment else "")


def _arrows() -> Iterator[str]:
    """One arrow for each pair of statuses, with all moves that lead there; people's moves like any other."""
    yield f"[*] --> {DeadLetterStatus.PENDING}: capture"
    yield f"[*] --> {EXHAUSTED}: capture (no retry allowed)"
    for start, row in TABLE.items():
        for goal in DeadLetterStatus:
            if moves := [move for move, goals in row.items() if goal in goals]:
                yield f"{start} --> {goal}: {', '.join(moves)}"


def _table() -> Iterator[str]:
    """Moves by status, where an exhausted letter that is closed has a column of its own."""
    yield "| move | " + " | ".join(_columns()) + " |"
    yield "|---" * (len(_columns()) + 1) + "|"
    for move in Move:
        star = " \\*" if "token" in _parameters(move) and "owner" not in _parameters(move) else ""
        yield f"| {move}{star} | " + " | ".join(goals or "–" for goals in _cells(move)) + " |"


def _columns() -> list[str]:
    return [name for status in TABLE for name in ([status, f"{status}, closed"] if status is EXHAUSTED else [status])]


def _cells(move: Move) -> Iterator[str]:
    for status, row in TABLE.items():
        goals = ", ".join(row.get(move, ()))
        yield goals
        if status is EXHAUSTED:
            yield goals if move in ON_CLOSED else ""


def _parameters(move: Move) -> list[str]:
    return list(inspect.signature(find_function(move)).parameters)


def _sentence(name: str) -> str:
    return (inspect.getdoc(find_function(name)) or "").splitlines()[0]


def find_function(name: str) -> Callable[..., Any]:
    """The one function that makes this move."""
    made = (getattr(module, name.replace(" ", "_"), None) for module in MOVES_IN)
    function: Callable[..., Any]
    (function,) = {each for each in made if each is not None}  # `queue_items` uses one of the others
    return function


if __name__ == "__main__":
    PAGE.write_text(draw(), encoding="utf-8")
