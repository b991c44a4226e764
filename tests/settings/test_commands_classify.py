"""`mahavishnu classify`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command_line import Run

Write = Callable[[str], Path]
KEYS = ["taken_as", "category", "reason", "author", "policy", "max_retries", "retry_in_seconds", "tags"]


def test_an_exception(run: Run) -> None:
    done = run("classify", "builtins.ConnectionResetError")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "category  network",
        "reason    ConnectionResetError",
        "author    built-in",
        "retried   exponential, at most 3 times",
    ]


@pytest.mark.parametrize(
    ("error", "taken_as", "category"),
    [
        ("ConnectionResetError", "exception", "network"),
        ("httpx.ReadTimeout", "exception", "network"),
        ("httpx.HTTPStatusError", "exception", "permanent"),  # it wants a response, which we do not have
        ("json.JSONDecodeError", "exception", "validation"),
        ("asyncio.QueueFull", "exception", "resource"),
        ("botocore.exceptions.NoCredentialsError", "text", "permission"),  # not installed, but known by name
        ("json.Nothing", "text", "permanent"),
        ("Nothing", "text", "permanent"),
        ("json.JSONDecoder", "text", "permanent"),  # no exception
        ("disk full", "text", "resource"),
        ("ConnectionResetError: by peer", "text", "network"),
    ],
)
def test_what_it_is_given_is_an_exception_or_a_text(run: Run, error: str, taken_as: str, category: str) -> None:
    found = run("classify", error, "--json").json
    assert list(found) == KEYS
    assert (found["taken_as"], found["category"]) == (taken_as, category)


def test_an_exception_of_ones_own(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(home)
    (home / "acme_shop.py").write_text("class Shop:\n    class Closed(ConnectionError): ...\n")
    (home / "acme_torn.py").write_text("1 / 0\n")
    (home / "acme_lacks.py").write_text("import nothing_of_this_name\n")
    assert run("classify", "acme_shop.Shop.Closed", "--json").json["category"] == "network"
    for module, why in (("acme_torn", "ZeroDivisionError"), ("acme_lacks", "nothing_of_this_name")):
        done = run("classify", f"{module}.Closed")
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(f"mahavishnu: {module} cannot be imported: ") and why in done.err


def test_from_standard_input(run: Run) -> None:
    trace = 'Traceback (most recent call last):\n  File "x.py", line 1, in f\nrequests.exceptions.ReadTimeout: slow\n'
    assert run("classify", "-", "--json", stdin=trace).json["category"] == "network"
    done = run("classify", "-", stdin=" \n")
    assert (done.code, done.err) == (2, "mahavishnu: give an error text or the name of an exception\n")


def test_explained(run: Run, settings_file: Write, home: Path) -> None:
    (home / "plugins").mkdir()
    (home / "plugins" / "hasty.py").write_text(
        "from mahavishnu import hookimpl\n@hookimpl\ndef classify_error(error): return error.amount > 100\n"
    )
    settings_file(
        "plugin_directory: plugins\nclassifier_rules:\n"
        "  - {text: till is open, category: resource, retry_in_seconds: 90, max_retries: 1, tags: [till]}\n"
    )
    done = run("classify", "the till is open: HTTP 503", "--explain")
    assert done.code == 0
    verdict, _, trail = done.out.partition("\n\n")
    assert "author    yaml-rules" in verdict
    assert "retried   linear, at most 1 time, first in 90 s\ntags      till" in verdict
    marks = [line.split()[:2] for line in trail.splitlines()[1:]]
    assert marks == [["*", "yaml-rules"], ["!", "hasty"], ["built-in", "transient:"]]

    found = run("classify", "the till is open: HTTP 503", "--explain", "--json").json
    assert list(found) == [*KEYS, "trail"]
    assert found["retry_in_seconds"] == 90 and found["tags"] == ["till"]
    assert [list(said) for said in found["trail"]] == [["plugin", "outcome", "counts", "fault", "seconds"]] * 3
    assert [(said["plugin"], said["counts"], said["fault"]) for said in found["trail"]] == [
        ("yaml-rules", True, False),
        ("hasty", False, True),
        ("built-in", False, False),
    ]


def test_a_rule_is_tried_for_an_adapter(run: Run, settings_file: Write) -> None:
    settings_file("classifier_rules:\n  - {adapter: nightly, category: resource, runbook: 'https://wiki.example/n'}\n")
    tried = run("classify", "boom", "--adapter", "nightly", "--json").json
    assert (tried["category"], tried["reason"]) == ("resource", "rule 1 (runbook: https://wiki.example/n)")
    assert run("classify", "boom", "--json").json["category"] == "permanent"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("dlq_default_max_retries: 7\n", ("exponential", 7)),
        ("dlq_category_max_retries: {network: 2}\n", ("exponential", 2)),
        ("dlq_automatic_policy: default\ndlq_default_retry_policy: linear\n", ("linear", 3)),
    ],
)
def test_what_follows_is_what_the_settings_say(
    run: Run, settings_file: Write, settings: str, expected: tuple[str, int]
) -> None:
    settings_file(settings)
    found = run("classify", "connection refused", "--json").json
    assert (found["policy"], found["max_retries"]) == expected


def test_what_is_never_retried(run: Run) -> None:
    assert "retried   never" in run("classify", "permission denied").out
