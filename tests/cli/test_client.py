"""Stores and servers that are away, missing or broken."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
import respx

from tests.support.command_line import Run

pytestmark = pytest.mark.usefixtures("letters")


def test_a_store_that_is_away_is_reported_in_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAHAVISHNU_DLQ_LOCAL_URL", "none")
    done = run("dlq", "--store", "opensearch://127.0.0.1:9", "list")
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert done.err.startswith("mahavishnu: OpenSearch at http://127.0.0.1:9 cannot be reached")


def test_a_list_of_letters_that_are_kept_locally_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAHAVISHNU_DLQ_LOCAL_URL", "sqlite:///local.db")
    done = run("dlq", "--store", "opensearch://127.0.0.1:9", "list")
    assert (done.code, done.out) == (0, "no open letters (--closed lists the others, too)\n")
    assert done.err.startswith("degraded: ") and done.err.endswith("\nasked: opensearch://127.0.0.1:9\n")


def test_a_missing_server_is_reported_in_one_line(run: Run) -> None:
    done = run("dlq", "--server", "127.0.0.1:9", "list")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("mahavishnu: there is no server at http://127.0.0.1:9") and done.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("dlq", "list"), ("dlq", "show", "x"), ("dlq", "stats"), ("dlq", "export"), ("dlq", "watch", "--seconds", "0"),
        ("dlq", "redrive", "x"), ("dlq", "reclassify"), ("group", "list"), ("run", "list"), ("audit", "list"),
    ],
)  # fmt: skip
def test_a_missing_file_is_no_empty_store(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    there = home / "nodir" / "x.db"
    told = f"mahavishnu: there is no store {there}: look at {{}}; the first failure that is kept makes it\n"
    group, *rest = arguments
    done = run(group, "--store", f"sqlite:///{there}", *rest)
    assert (done.code, done.out, done.err) == (1, "", told.format("--store"))
    monkeypatch.setenv("MAHAVISHNU_DLQ_STORE_URL", f"sqlite:///{there}")
    assert run(*arguments).err == told.format("dlq_store_url")
    assert not there.parent.exists()


def test_an_empty_list_says_which_store_was_asked(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("dlq", "list", "--queue", "nowhere").err == "asked: sqlite:///letters.db\n"
    monkeypatch.delenv("MAHAVISHNU_DLQ_STORE_URL")  # the user's own, which may be new
    for arguments in (("dlq", "list"), ("group", "list"), ("run", "list"), ("audit", "list")):
        done = run(*arguments)
        assert (done.code, done.err) == (0, f"asked: sqlite:///{home.parent}/state/mahavishnu/letters.db\n")


def test_a_file_that_is_no_store_is_reported_in_one_line(run: Run, home: Path) -> None:
    (home / "torn.db").write_text("this is no database, but it is long enough to be looked at" * 20)
    done = run("dlq", "--store", "sqlite:///torn.db", "list")
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)


def test_only_what_may_have_changed_something_has_to_be_looked_at(run: Run, respx_mock: respx.MockRouter) -> None:
    respx_mock.get("http://dlq.example/healthz").respond(json={"status": "ok"})
    respx_mock.get("http://dlq.example/api/v1/dlq/wf_1/letter").mock(side_effect=httpx.RemoteProtocolError)
    respx_mock.post("http://dlq.example/api/v1/dlq/wf_1/redrive").mock(side_effect=httpx.RemoteProtocolError)
    broken = "mahavishnu: http://dlq.example broke off the connection before it had answered"
    assert run("dlq", "--server", "dlq.example", "show", "wf_1").err == f"{broken}: ask again\n"
    moved = run("dlq", "--server", "dlq.example", "redrive", "wf_1")
    assert (moved.code, moved.err) == (1, f"{broken}: look whether this had its effect\n")


def test_an_import_through_a_server_whose_store_is_away_stops_and_counts_what_is_in(
    run: Run, home: Path, respx_mock: respx.MockRouter
) -> None:
    (home / "letters.jsonl").write_text(run("dlq", "export").out)
    respx_mock.get("http://dlq.example/healthz").respond(json={"status": "ok"})
    told = {
        "type": "urn:mahavishnu:problem:import-stopped",
        "detail": "…",
        "taken": {"new": 2, "same": 1},
        "letters": 5,
    }
    posted = respx_mock.post("http://dlq.example/api/v1/dlq/import").respond(503, json=told)
    done = run("dlq", "--server", "dlq.example", "import", "letters.jsonl")
    assert (done.code, done.out) == (4, "2 new\n1 here already\n")
    assert "the store does not answer: 3 letters of letters.jsonl went in for certain" in done.err
    posted.mock(side_effect=httpx.ConnectError)
    done = run("dlq", "--server", "dlq.example", "import", "letters.jsonl")
    assert (done.code, done.out) == (4, "")
    assert "0 letters of letters.jsonl went in for certain. Run it again when the store answers" in done.err
