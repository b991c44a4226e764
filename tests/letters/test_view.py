"""What a letter's page says a person can do next: it has to be true of that letter."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mahavishnu.cli import output as times
from mahavishnu.letters.view import _next, _retries, _run_by, place_of, state_of
from tests.support.letters import NOON


def said(**changes: Any) -> str:
    letter = {"status": "pending", "resolution_status": "pending", "next_retry_at": "2026-01-01T12:00:00.000Z"}
    return _next({**letter, **changes})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "it is retried by itself when it is due"),
        ({"next_retry_at": None}, "none is planned"),
        ({"status": "exhausted", "next_retry_at": None}, "it waits for a person"),
        ({"status": "exhausted", "resolution_status": "permanently_failed"}, "redrive opens the case again"),
        ({"status": "retrying"}, "it is being run"),
        ({"waiting_for": "waiting for a worker that has 'invoice'"}, "when there is such a worker"),
    ],
)
def test_what_is_next(changes: dict[str, Any], words: str) -> None:
    assert words in said(**changes)


def test_who_runs_it() -> None:
    letter = {
        "claim_owner": "worker-7",
        "last_retry_at": "2026-01-01T12:00:00.000Z",
        "due_at": "2026-01-01T12:05:00.000Z",
    }
    assert _run_by(letter) == ("worker-7, since 2026-01-01 12:00:00Z; its lease lasts until 2026-01-01 12:05:00Z")
    assert _run_by({"claim_owner": None}) is None


TRACE = """Traceback (most recent call last):
  File "/usr/lib/python3.11/asyncio/tasks.py", line 3, in run
    await it
  File "/srv/shop/rates.py", line 7, in euro
    return RATES["EURO"]
           ~~~~~^^^^^^^^
  File "/srv/.venv/lib/python3.11/site-packages/box/box.py", line 9, in __getitem__
    raise KeyError(name)
KeyError: 'EURO'
"""


@pytest.mark.parametrize(
    ("trace", "place"),
    [
        (TRACE, '/srv/shop/rates.py:7 in euro: return RATES["EURO"]'),
        ('  File "/srv/a.py", line 1, in f\n  File "<string>", line 2, in g\n', "/srv/a.py:1 in f"),
        (TRACE.replace("/srv/shop/", "/usr/lib/python3/dist-packages/"), None),
        (
            TRACE.replace("site-packages/box/box.py", "mahavishnu/capture/adapters.py"),
            '/srv/shop/rates.py:7 in euro: return RATES["EURO"]',
        ),
        (TRACE.replace("/srv/shop/rates.py", "/srv/mahavishnu/workers/attempt.py"), None),
        ("", None),
        (None, None),
    ],
)
def test_the_place_is_in_the_users_own_code(trace: str | None, place: str | None) -> None:
    assert place_of(trace) == place


@pytest.mark.parametrize(
    ("status", "resolution", "words"),
    [
        ("pending", "pending", "retries at 2026-01-01 12:00:00Z"),
        ("retrying", "pending", "being run"),
        ("exhausted", "pending", "needs you: retries used up"),
        ("completed", "requeued", "succeeded on a rerun"),
        ("archived", "requeued", "archived (succeeded on a rerun)"),
        ("completed", "manually_resolved", "completed (manually_resolved)"),
    ],
)
def test_a_state_says_what_happened(status: str, resolution: str, words: str) -> None:
    letter = {"status": status, "resolution_status": resolution, "next_retry_at": "2026-01-01T12:00:00.000Z"}
    assert state_of({**letter, "max_retries": 3}) == words


def test_a_state_says_who_has_to_act(monkeypatch: pytest.MonkeyPatch) -> None:
    letter = {"status": "pending", "resolution_status": "pending", "max_retries": 0, "next_retry_at": None}
    assert state_of(letter) == "needs you: no retry can help"
    assert state_of({**letter, "status": "exhausted"}) == "needs you: no retries allowed"
    lonely = {"next_retry_at": "2026-01-01T12:00:00.000Z", "waiting_for": "waiting for a worker that has 'invoice'"}
    assert state_of({**letter, **lonely, "adapter": "invoice"}) == lonely["waiting_for"]
    assert state_of({**letter, **lonely, "adapter": None}) == "needs you: it names no adapter"
    item = {"next_retry_at": "2026-01-01T12:00:00.000Z", "namespace": "default@q", "queue": "q"}
    assert state_of({**letter, **item}) == "waits to be leased"
    monkeypatch.setenv("COLUMNS", "80")  # for somebody's eyes
    for seconds, words in (
        (59, "retries in 59s"),
        (7200, "retries in 2h"),
        (0, "retry due now"),
        (-60, "retry due 1m ago"),
    ):
        due = {"next_retry_at": "2026-01-01T12:00:00.000Z"}
        monkeypatch.setattr(times, "_now", lambda seconds=seconds: NOON - timedelta(seconds=seconds))
        assert state_of({**letter, **due}) == words


@pytest.mark.parametrize(
    ("count", "most", "policy", "words"),
    [
        (0, 3, "never", "none by itself (policy never)"),
        (2, 3, "never", "2, and no more by itself (policy never)"),
        (0, 0, "exponential", "none by itself (at most 0)"),
        (1, 3, "linear", "1 of 3 (linear)"),
    ],
)
def test_retries_are_told_as_they_will_be(count: int, most: int, policy: str, words: str) -> None:
    assert _retries({"retry_count": count, "max_retries": most, "retry_policy": policy}) == words
