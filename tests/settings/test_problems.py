"""Problems and warnings of `config check`, and settings that are loaded again."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.core.config import MahavishnuSettings, SettingsError, check
from mahavishnu.model.errors import InvalidInput
from tests.settings.conftest import problems

FILE = Path("settings/mahavishnu.yaml")


def test_all_problems_are_named_at_once_and_once_each() -> None:
    """One line for each, even where pydantic tried several types."""
    found = problems(dlq_max_size=99, classifier_rules=[3], redact_keys=["", "a"])

    assert found == (
        "argument: dlq_max_size must be a whole number from 100 to 100000, got 99",
        "argument: redact_keys[0] must be text that is not empty, got ''",
        "argument: classifier_rules must be a list of rules, or the path of a YAML file with one, got a list",
    )
    assert issubclass(SettingsError, InvalidInput)
    twin = pickle.loads(pickle.dumps(SettingsError(found)))
    assert (str(twin), twin.problems) == ("\n".join(found), found)


def test_sound_settings_have_nothing_to_report() -> None:
    """With and without a file."""
    report = check()

    assert (report.ok, report.problems, report.warnings) == (True, (), ())
    assert report.settings == MahavishnuSettings.load()


def test_check_reports_settings_that_cannot_be_read() -> None:
    """`config check` shows all of it and never a traceback."""
    FILE.write_text("dlq_max_size: 5\nx: 1\n")
    report = check()

    assert not report.ok
    assert report.settings is None
    assert [line.split(": ")[0] for line in report.problems] == [f"{FILE}:1", f"{FILE}:2"]


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"dlq_store_url": "memory:x"}, "dlq_store_url: 'memory:x' is not a store's URL; did you mean 'memory:'?"),
        ({"dlq_store_url": "sqlite:x.db"}, "dlq_store_url: 'sqlite:x.db' names no file; write "),
        ({"dlq_store_url": "opensearchs://search?ca=no.pem"}, "dlq_store_url: there is no no.pem"),
        (
            {"dlq_store_url": "opensearchs://search?verfy=0"},
            "dlq_store_url: 'opensearchs://search?verfy=***' has the unk",
        ),
        ({"dlq_store_url": "opensearch://search/UPPER"}, "dlq_store_url: 'UPPER' cannot begin the name of an index"),
        ({"plugin_directory": "nowhere"}, "plugin_directory: nowhere is no directory"),
        ({"classifier_rules": "no.yaml"}, "classifier_rules: there is no file no.yaml"),
    ],
)
def test_a_setting_that_cannot_work_is_a_problem(values: dict[str, Any], problem: str) -> None:
    """Although each value is one that the settings allow."""
    (found,) = check(**values).problems

    assert found.startswith(f"argument: {problem}")


@pytest.mark.parametrize(
    ("values", "warning"),
    [
        ({"dlq_store_url": "opensearch://search:9200,localhost"}, "letters go to search unencrypted; use opensearchs:"),
        (
            {"dlq_store_url": "opensearchs://ann:hunter2@search"},
            "a password in a URL ends up in logs and process lists",
        ),
        ({"dlq_store_url": "opensearchs://search?verify=false"}, "whoever answers is trusted, because certificates"),
        ({"dlq_store_url": "opensearchs://search", "dlq_local_url": "none"}, "failures that happen while OpenSearch"),
        ({"dlq_store_url": "opensearchs://search", "dlq_local_url": "memory:"}, "letters kept in memory are lost"),
        ({"dlq_store_url": "memory:"}, "letters kept in memory are lost when the program ends"),
        ({"dlq_store_url": "opensearchs://search", "dlq_store_user": "ann"}, "user and password are only used toge"),
        ({"dlq_store_password": "hunter2"}, "has no effect, because the store is not an OpenSearch"),
        ({"dlq_enabled": False}, "failed workflows are not kept"),
        ({"dlq_strategy": "disabled"}, "failed workflows are not kept"),
        ({"dlq_default_retry_policy": "linear"}, "only counts for captured failures if dlq_automatic_policy is "),
        ({"dlq_namespace": "shop@eu"}, "items of a queue 'eu' of an app called 'shop' have this name too"),
        ({"redact_keys": ["*"]}, "'*' masks the whole payload"),
    ],
)
def test_a_setting_that_may_surprise_is_a_warning(values: dict[str, Any], warning: str) -> None:
    """One line, with its key; it keeps nothing from starting."""
    report = check(**values)
    (found,) = report.warnings

    assert found.split(": ")[0] == "argument" or found.split(": ")[0] == "default"
    assert found.split(": ", 2)[2].startswith(warning)
    assert "hunter2" not in found
    assert report.ok


@pytest.mark.parametrize(
    "values",
    [
        {"dlq_store_url": "opensearch://localhost:9200,127.0.0.1,[::1]:9200,os.localhost"},
        {"dlq_store_url": "opensearchs://search", "dlq_store_user": "ann", "dlq_store_password": "x"},
        {"dlq_default_retry_policy": "linear", "dlq_automatic_policy": "default"},
    ],
)
def test_sound_settings_have_no_warnings(values: dict[str, Any]) -> None:
    """Warnings that are usually wrong are not read."""
    assert check(**values).warnings == ()


@pytest.mark.skipif(os.name != "posix", reason="file modes are a matter of POSIX")
def test_a_password_in_a_file_that_all_can_read() -> None:
    """Is worth a warning; the environment is not the file's fault."""
    FILE.write_text("dlq_store_url: opensearchs://search\ndlq_store_user: ann\ndlq_store_password: hunter2\n")
    FILE.chmod(0o644)
    (found,) = check().warnings
    assert found.startswith(f"{FILE}:3: dlq_store_password: is written in {FILE}, which other users")
    FILE.chmod(0o600)
    assert check().warnings == ()


@pytest.mark.skipif(os.name != "posix", reason="file modes are a matter of POSIX")
@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("server: {viewers: {vic: hunter2}}", "server.viewers"),
        ("server:\n  admins: {ada: hunter2}", "server.admins"),
        ("dlq_local_url: opensearchs://ann:hunter2@search", "dlq_local_url"),
    ],
)
def test_tokens_and_urls_with_passwords_in_a_file_that_all_can_read(text: str, key: str) -> None:
    FILE.write_text(f"{text}\ndlq_store_url: sqlite:///x.db\n")
    FILE.chmod(0o640)
    (found,) = [line for line in check().warnings if "other users" in line]
    assert f": {key}: is written in {FILE}, which other users" in found and "hunter2" not in found
    FILE.chmod(0o600)
    assert not [line for line in check().warnings if "other users" in line]


def test_loading_again_names_the_changed_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """File and environment are read again, arguments stay."""
    FILE.write_text("dlq_retry_interval_seconds: 60\ndlq_max_size: 300\n")
    running = MahavishnuSettings.load(dlq_max_size=200)
    assert running.changed_keys(running.load_again()) == ()
    FILE.write_text("dlq_max_size: 400\ndlq_retry_interval_seconds: 10\ncircuit: {cooloff_seconds: 9}\n")
    monkeypatch.setenv("MAHAVISHNU_DLQ_STORE_PASSWORD", "x")
    settings = running.load_again()

    changed = running.changed_keys(settings)
    assert set(changed) == {"dlq_retry_interval_seconds", "circuit.cooloff_seconds", "dlq_store_password"}
    assert (settings.dlq_retry_interval_seconds, settings.dlq_max_size) == (10, 200)
    assert settings.origins()["dlq_retry_interval_seconds"] == f"{FILE}:2"


def test_a_broken_file_leaves_the_running_settings_alone() -> None:
    """And the next sound one is loaded."""
    FILE.write_text("dlq_max_size: 300\n")
    running = MahavishnuSettings.load()
    for content in ("dlq_max_size: [", "dlq_max_size: 5", "dlq_max_sise: 300"):
        FILE.write_text(content)
        with pytest.raises(SettingsError, match=f"^{FILE}:1: "):
            running.load_again()
        assert running.dlq_max_size == 300
    FILE.write_text("dlq_max_size: 301\n")
    assert running.changed_keys(running.load_again()) == ("dlq_max_size",)


def test_a_file_that_is_gone_is_no_return_to_the_defaults() -> None:
    """An editor may just be replacing it; and a missing mount must not change the store."""
    FILE.write_text("dlq_max_size: 300\n")
    running = MahavishnuSettings.load()
    FILE.unlink()
    with pytest.raises(SettingsError, match=f"^{FILE}: there is no such file$"):
        running.load_again()


def test_a_file_that_was_made_later_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where it was looked for at first, wherever the program has gone since."""
    running = MahavishnuSettings()
    FILE.write_text("dlq_max_size: 300\n")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")

    assert running.changed_keys(running.load_again()) == ("dlq_max_size",)
