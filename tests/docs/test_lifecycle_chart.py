"""docs/lifecycle.md is what the table of moves gives, and shows every arrow."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from docs.draw_lifecycle import PAGE, draw
from mahavishnu.model.letter_parts import DeadLetterStatus, ResolutionStatus
from mahavishnu.model.lifecycle import TABLE, Move
from mahavishnu.tasks.task import STEP_TABLE, TASK_TABLE


def test_the_page_is_drawn_from_the_table() -> None:
    """If this fails, run `make diagram` and look at what changed."""
    assert PAGE.read_text(encoding="utf-8") == draw()


def test_every_arrow_is_drawn() -> None:
    """People's moves too, and no arrow that the table does not have."""
    drawn = {
        (start, move, goal)
        for start, goal, moves in re.findall(r"^ +(\w+) --> (\w+): (.+)$", draw(), re.MULTILINE)
        for move in moves.split(", ")
    }

    assert drawn == {
        (start, move, goal) for start, row in TABLE.items() for move, goals in row.items() for goal in goals
    }


def test_every_arrow_of_tasks_and_steps_is_drawn() -> None:
    """Both tables, and nothing else; the first arrow of each leads to where everything begins."""
    charts = draw().partition("## Lifecycle tasks")[2].split("```mermaid")[1:]
    tables: list[Mapping[Any, Sequence[str]]] = [TASK_TABLE, STEP_TABLE]
    for chart, table in zip(charts, tables, strict=True):
        drawn = set(re.findall(r"^ +(\w+) --> (\w+)$", chart, re.MULTILINE))
        assert drawn == {(start, goal) for start, goals in table.items() for goal in goals}


def test_every_word_is_explained() -> None:
    """Each status, resolution and move has its line."""
    lines = draw().splitlines()
    for value in (*DeadLetterStatus, *ResolutionStatus):
        assert any(line.startswith(f"- `{value}`") for line in lines)
    for move in Move:
        assert any(line.startswith(f"- **{move}** – ") and len(line) > 30 for line in lines)


def test_another_table_is_another_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a change of the rules cannot be forgotten here."""
    before = draw()
    monkeypatch.delitem(TABLE[DeadLetterStatus.COMPLETED], Move.ARCHIVE)

    assert draw() != before
