"""Who may run what: the shares of live workers, and the letters that none of them can run."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahavishnu.model.ids import PARTITIONS
from mahavishnu.workers.rules import (
    Share,
    WaitingLetters,
    Worker,
    count_by_adapter,
    shares_of,
    what_is_missing,
    without_worker,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def worker(name: str, *adapters: str, **more: Any) -> Worker:
    return Worker(name, NOW, NOW, adapters=adapters, **more)


def whoever(name: str, **more: Any) -> Worker:
    """A worker with a callback of its own."""
    return Worker(name, NOW, NOW, takes_all=True, **more)


EARLIER = Worker("earlier", NOW, NOW)
sets = st.lists(st.sets(st.sampled_from("abcd"), min_size=1), min_size=1, max_size=5)


@given(sets)
def test_each_letter_is_looked_after_by_one_live_worker_that_can_run_it(sets: list[set[str]]) -> None:
    workers = [worker(f"w{number}", *sorted(adapters)) for number, adapters in enumerate(sets)]
    shares = [(each, share) for each in workers for share in shares_of(each, workers)]
    for adapter in set().union(*sets):
        mine = [(each, share) for each, share in shares if adapter in (share.adapters or ())]
        assert sorted(partition for _, share in mine for partition in share.partitions[0]) == list(range(PARTITIONS))
        for each, share in mine:
            assert adapter in (each.adapters or ())
            everything = sorted(partition for part in share.partitions for partition in part)
            assert everything == list(range(PARTITIONS)), "who has nothing to do helps everywhere"


def test_a_worker_shares_with_nobody_who_takes_other_letters() -> None:
    me = worker("b", "x")
    alone = [Share(("x",))]
    others = [
        whoever("a"),
        EARLIER,
        worker("c", "x", queues=("mail",)),
        worker("d", "x", remote=True),
        worker("e", "y"),
    ]
    assert shares_of(me, [me, *others]) == alone
    assert len(shares_of(me, [worker("a", "x")])[0].partitions) == 2
    assert shares_of(whoever("a"), others) == [Share()]
    assert len(shares_of(whoever("a"), [whoever("b"), *others])[0].partitions) == 2


def test_a_worker_without_adapters_looks_after_nothing() -> None:
    assert shares_of(worker("a"), [whoever("b")]) == []


@pytest.mark.parametrize(
    ("live", "left"),
    [
        ([], {"x": 5, "y": 2, "none": 1}),
        ([worker("a", "x")], {"y": 2, "none": 1}),
        ([worker("a", "x", queues=("mail",))], {"x": 2, "y": 2, "none": 1}),
        ([whoever("a", queues=("mail",))], {"x": 2, "y": 2, "none": 1}),
        ([whoever("a")], {}),
        ([EARLIER], {}),
        ([worker("a", "x", namespace="eu")], {"x": 5, "y": 2, "none": 1}),
        ([worker("a", "x", namespace="*")], {"y": 2, "none": 1}),
    ],
    ids=[
        "nobody",
        "one adapter",
        "of one queue",
        "of one queue, all",
        "all",
        "one that does not say",
        "of another namespace",
        "of all namespaces",
    ],
)
def test_letters_that_no_live_worker_can_run(live: list[Worker], left: dict[str, int]) -> None:
    waiting = [
        WaitingLetters("default", "x", 2),
        WaitingLetters("mail", "x", 3),
        WaitingLetters("default", "y", 2),
        WaitingLetters("default", None, 1),
    ]
    found = without_worker(waiting, live)
    assert count_by_adapter(found, "none") == left
    assert [each.count for each in found] == sorted((each.count for each in found), reverse=True)


def test_what_letters_wait_for() -> None:
    assert what_is_missing("invoice") == "waiting for a worker that has 'invoice'"
    assert "--adapter NAME" in what_is_missing(None)
