"""Waves of bulk runs, as they are told; and the letters that another fix is for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from mahavishnu.bulk.rules import FixScope, WaveState, fix_query, waves_of
from mahavishnu.bulk.run import BulkRun, ItemState, RunCounts, RunItem, RunState, count_items
from mahavishnu.model.json_value import Json
from mahavishnu.model.query import Is, Query, query_to_json
from mahavishnu.model.work import ItemOutcome

NOW = datetime(2030, 1, 1, tzinfo=UTC)
GOOD, BAD = ItemOutcome.SUCCEEDED, ItemOutcome.FAILED_AGAIN


def moved(*outcomes: ItemOutcome | None) -> list[RunItem]:
    return [RunItem("k", "e", ItemState.MOVED, None, outcome) for outcome in outcomes]


def run_of(state: RunState, items: list[RunItem], **changes: Any) -> BulkRun:
    query = Json.of(query_to_json(Query((Is("queue", ("q",)),))))
    values: dict[str, Any] = {"verb": "redrive", "ramp": (1, 5, 25), "counts": count_items(items), **changes}
    return BulkRun(run_id="r", query=query, by="ann", created_at=NOW, updated_at=NOW, state=state, **values)


def told(run: BulkRun, first: list[RunItem]) -> list[tuple[int, int, int, str]]:
    return [(wave.size, wave.succeeded, wave.failed_again, str(wave.state)) for wave in waves_of(run, first)]


WAITING = RunItem("k", "e")


def test_a_halted_run_shows_which_wave_halted_it() -> None:
    items = [*moved(*[GOOD] * 6, *[GOOD] * 17, *[BAD] * 8), *[WAITING] * 100]
    assert told(run_of(RunState.HALTED, items), items[:31]) == [
        (1, 1, 0, "done"), (5, 5, 0, "done"), (25, 17, 8, "halted"), (100, 0, 0, "left"),
    ]  # fmt: skip


def test_a_run_under_way_shows_the_wave_that_is_run_and_those_that_wait() -> None:
    items = [*moved(GOOD, GOOD, BAD, None), *[WAITING] * 10]
    assert told(run_of(RunState.RUNNING, items), items) == [
        (1, 1, 0, "done"), (5, 1, 1, "running"), (8, 0, 0, "waits"),
    ]  # fmt: skip
    begun = [WAITING] * 3
    assert told(run_of(RunState.RUNNING, begun), begun) == [(1, 0, 0, "running"), (2, 0, 0, "waits")]


def test_refused_members_are_in_no_wave() -> None:
    items = [RunItem("k", "e", ItemState.REFUSED), *moved(GOOD, GOOD), RunItem("k", "e", ItemState.GONE)]
    assert told(run_of(RunState.DONE, items), items) == [(1, 1, 0, "done"), (1, 1, 0, "done")]


def test_waves_that_were_not_read_are_told_as_one() -> None:
    items = moved(*[GOOD] * 40)
    assert told(run_of(RunState.DONE, items), items[:10]) == [(1, 1, 0, "done"), (5, 5, 0, "done"), (34, 34, 0, "done")]


@pytest.mark.parametrize(("state", "shown"), [(RunState.PAUSED, "paused"), (RunState.CANCELLED, "left")])
def test_a_run_that_somebody_stopped_leaves_the_rest(state: RunState, shown: str) -> None:
    items = [*moved(GOOD, GOOD), *[WAITING] * 4]
    assert told(run_of(state, items), items) == [(1, 1, 0, "done"), (5, 1, 0, shown)]


def test_a_run_without_letters_has_no_waves_and_one_without_outcomes_has_one() -> None:
    assert waves_of(run_of(RunState.PLANNING, []), ()) == ()
    archived = run_of(RunState.RUNNING, [], verb="archive", ramp=(), counts=RunCounts(members=10, moved=4))
    (wave,) = waves_of(archived, ())
    assert (wave.size, wave.moved, wave.state) == (10, 4, WaveState.RUNNING)


def test_another_fix_is_for_open_letters_that_are_not_newer_than_the_run() -> None:
    run = run_of(RunState.HALTED, [])
    failed, rest, both = (str(fix_query(run, scope)) for scope in FixScope)
    assert "failed_again r" in failed and "queue" not in failed
    assert "Not(condition=Is(field='run_outcomes'" in rest and "queue" in rest and "created_at" in rest
    assert "AnyOf" in both and all("resolution_status" in each for each in (failed, rest, both))
