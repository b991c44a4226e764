"""Templates in a directory: read when they change, and kept as they were while they cannot be used."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.core.config import MahavishnuSettings, SettingsError
from mahavishnu.settings.wiring import rules_from
from mahavishnu.tasks.staleness import TemplateFiles
from mahavishnu.tasks.staleness_rules import StalenessRules

PAYMENT = """
name: payment_processing
version: 2.0.0
lifecycle:
  max_duration_minutes: 30
steps:
  - name: validate_payment
"""


def write(path: Path, text: str, changed: int) -> None:
    path.write_text(text, encoding="utf-8")
    os.utime(path, (changed, changed))


def minutes(files: TemplateFiles, directory: Path) -> dict[str, int | None]:
    return {name: limits.max_duration_minutes for name, limits in files.read(directory).items()}


def test_files_are_read_when_they_change(tmp_path: Path) -> None:
    """Named by what they say, else by their own name; one that is gone has no limits any more."""
    files = TemplateFiles()
    write(tmp_path / "pay.yaml", PAYMENT, 1)
    write(tmp_path / "sync.yml", "steps: []", 1)
    write(tmp_path / "notes.txt", "no template", 1)
    assert minutes(files, tmp_path) == {"payment_processing": 30, "sync": None}

    write(tmp_path / "pay.yaml", PAYMENT.replace("30", "45"), 2)
    assert minutes(files, tmp_path) == {"payment_processing": 45, "sync": None}
    (tmp_path / "pay.yaml").unlink()
    assert minutes(files, tmp_path) == {"sync": None}


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ("name: [", "it is not valid YAML"),
        ("lifecycle: {max_duration: 1}", "lifecycle has no key 'max_duration'"),
        ("- a list", "must be a map"),
        ("a: &a [1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: [2026-02-31]", "it is not valid YAML"),
    ],
)
def test_a_broken_file_counts_as_it_was(
    tmp_path: Path, broken: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """And is complained of once."""
    files = TemplateFiles()
    write(tmp_path / "pay.yaml", PAYMENT, 1)
    files.read(tmp_path)
    write(tmp_path / "pay.yaml", broken, 2)
    for _ in range(3):
        assert minutes(files, tmp_path) == {"payment_processing": 30}
    assert [why in record.message for record in caplog.records] == [True]


def test_a_directory_that_cannot_be_read_changes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = TemplateFiles()
    directory = tmp_path / "templates"
    directory.mkdir()
    write(directory / "pay.yaml", PAYMENT, 1)
    assert minutes(files, directory) == {"payment_processing": 30}
    directory.rename(tmp_path / "moved")
    assert minutes(files, directory) == {"payment_processing": 30}
    assert "cannot be read" in caplog.text


def test_a_limit_that_no_task_reaches_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path / "pay.yaml", PAYMENT, 1)
    text = PAYMENT.replace("lifecycle:", "lifecycle:\n  max_steps_in_process_minutes: 31")
    write(tmp_path / "pay.yaml", text, 2)
    TemplateFiles().read(tmp_path)
    assert "max_steps_in_process_minutes is 31" in caplog.text


def staleness_rules(**settings: Any) -> StalenessRules:
    return next(each for each in rules_from(MahavishnuSettings(**settings)) if isinstance(each, StalenessRules))


def test_the_settings_name_templates_or_their_directory(tmp_path: Path) -> None:
    write(tmp_path / "pay.yaml", PAYMENT, 1)
    rules = staleness_rules(templates=str(tmp_path))
    assert TemplateFiles().rules(rules).limits_of("payment_processing").max_duration_minutes == 30
    rules = staleness_rules(templates={"pay": {"lifecycle": {"max_duration_minutes": 5}}})
    assert TemplateFiles().rules(rules).limits_of("pay").max_duration_minutes == 5


def test_the_settings_refuse_a_template_that_cannot_be() -> None:
    with pytest.raises(SettingsError, match="did you mean max_duration_minutes"):
        MahavishnuSettings.load(templates={"pay": {"lifecycle": {"max_duration_minute": 5}}})
    with pytest.raises(SettingsError, match=r"staleness\.waiting_for_retry_minutes"):
        MahavishnuSettings.load(staleness={"waiting_for_retry_minutes": 0})
