"""`mahavishnu config`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.settings.schema import fields
from tests.support.command_line import Run

Write = Callable[[str], Path]


def test_show_tells_every_setting_and_where_it_comes_from(
    run: Run, settings_file: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings_file("dlq_max_size: 500\ndlq_store_url: 'opensearch://user:hunter2@localhost:9200'\n")
    monkeypatch.setenv("MAHAVISHNU_DLQ_STORE_PASSWORD", "hunter2")
    done = run("config", "show")
    assert (done.code, done.err) == (0, "")
    for key in fields(MahavishnuSettings):
        assert f"\n{key} " in done.out
    rows = {line.split()[0]: line for line in done.out.splitlines()}
    assert rows["dlq_max_size"].split() == ["dlq_max_size", "500", "settings/mahavishnu.yaml:1"]
    assert rows["dlq_store_password"].endswith("MAHAVISHNU_DLQ_STORE_PASSWORD")
    assert "hunter2" not in done.out


def test_show_as_json(run: Run, settings_file: Write) -> None:
    settings_file("dlq_max_size: 500\n")
    found = run("config", "show", "dlq_max_size", "--json").json
    assert found == {
        "file": "settings/mahavishnu.yaml",
        "settings": [
            {
                "key": "dlq_max_size",
                "value": 500,
                "origin": "settings/mahavishnu.yaml:1",
                "variable": "MAHAVISHNU_DLQ_MAX_SIZE",
                "allowed": found["settings"][0]["allowed"],
                "description": found["settings"][0]["description"],
            }
        ],
    }
    assert [each["key"] for each in run("config", "show", "--json").json["settings"]] == list(
        fields(MahavishnuSettings)
    )


def test_a_setting_that_there_is_not(run: Run) -> None:
    done = run("config", "show", "dlq_max_sise")
    assert (done.code, done.out) == (3, "")
    assert done.err == "mahavishnu: there is no setting 'dlq_max_sise'; did you mean dlq_max_size?\n"


def test_settings_that_cannot_be_used_are_a_mistake(run: Run, settings_file: Write) -> None:
    settings_file("dlq_max_size: 5\ndlq_max_sice: 5\n")
    done = run("config", "show")
    assert (done.code, done.out) == (2, "")
    assert [line.split(":")[:3] for line in done.err.splitlines()] == [
        ["mahavishnu", " settings/mahavishnu.yaml", "1"],
        ["mahavishnu", " settings/mahavishnu.yaml", "2"],
    ]


def test_another_file(run: Run, home: Path) -> None:
    (home / "other.yaml").write_text("dlq_max_size: 700\n")
    assert run("--settings", "other.yaml", "config", "show", "--json").json["file"] == "other.yaml"
    done = run("--settings", "none.yaml", "config", "show")
    assert (done.code, done.err) == (2, "mahavishnu: none.yaml: there is no such file\n")


def test_check_of_sound_settings(run: Run, settings_file: Write) -> None:
    settings_file("dlq_store_url: 'memory:'\n")
    done = run("config", "check")
    assert done.code == 0
    assert done.out.splitlines() == [
        "warning  settings/mahavishnu.yaml:1: dlq_store_url: letters kept in memory are lost when the program ends",
        "the settings can be used (settings/mahavishnu.yaml)",
    ]
    found = run("config", "check", "--json")
    assert found.code == 0
    assert (found.json["ok"], found.json["file"], found.json["problems"]) == (True, "settings/mahavishnu.yaml", [])
    assert len(found.json["warnings"]) == 1


def test_check_without_a_file(run: Run) -> None:
    assert run("config", "check").out == "the settings can be used (no file, only defaults and variables)\n"


def test_check_of_settings_that_cannot_be_used(run: Run, settings_file: Write) -> None:
    settings_file("plugin_directory: nowhere\n")
    done = run("config", "check")
    assert (done.code, done.out) == (
        1,
        "problem  settings/mahavishnu.yaml:1: plugin_directory: nowhere is no directory\n",
    )
    settings_file("dlq_max_size: many\n")
    found = run("config", "check", "--json")
    assert found.code == 1
    assert (found.json["ok"], found.json["file"], found.json["warnings"]) == (False, None, [])
    assert len(found.json["problems"]) == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "server:\n  host: 0.0.0.0\n",
            "settings/mahavishnu.yaml:2: server: without a token the server listens on loop",
        ),
        (
            "server:\n  viewers: {vic: same}\n  admins: {ada: same}\n",
            "server: the token of admin 'ada' is empty, or some",
        ),
        ("classifier_rules: [{text: declined}]\n", "mahavishnu.yaml:1: classifier_rules: "),
    ],
)
def test_check_refuses_what_serve_refuses(run: Run, settings_file: Write, text: str, problem: str) -> None:
    settings_file(text)
    done = run("config", "check")
    assert done.code == 1 and problem in done.out and "same\n" not in done.out
    assert run("serve", "--port", "0").code == 2
    assert not run("config", "check", "--json").json["ok"]
