"""`mahavishnu adapter`."""

from __future__ import annotations

from tests.support.command_line import Run


def test_a_limit_is_set_changed_and_reset(run: Run) -> None:
    assert "no adapter has a limit" in run("adapter", "list").err + run("adapter", "list").out
    done = run("adapter", "limit", "charge", "--concurrency", "5", "--rate", "100/minute", "--reason", "OPS-1")
    assert done.code == 0, done.err
    assert "100/min" in done.out
    assert run("adapter", "limit", "charge", "--rate", "none").code == 0
    (limit,) = run("adapter", "list", "--json").json
    assert (limit["adapter"], limit["concurrency"], limit["rate"], limit["held"]) == ("charge", 5, None, 0)
    assert "charge" in run("adapter", "list").out
    assert run("adapter", "limit", "charge", "--reset").code == 0
    assert run("adapter", "list", "--json").json == []


def test_a_limit_that_says_nothing_or_nonsense_is_refused(run: Run) -> None:
    assert run("adapter", "limit", "charge").code == 2
    assert run("adapter", "limit", "charge", "--reset", "--rate", "1/s").code == 2
    assert run("adapter", "limit", "charge", "--concurrency", "many").code == 2
    refused = run("adapter", "limit", "charge", "--rate", "5/day")
    assert refused.code != 0
    assert "such as 100/min" in refused.err
