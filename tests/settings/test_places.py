"""The store that is meant without the settings being read, and when they have to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.settings.places import default_store_url, plain_store


@pytest.fixture
def file(elsewhere: Path) -> str:
    return f"sqlite:///{elsewhere / 'a.db'}"


def test_nothing_but_the_store_is_set(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is what the settings say, too."""
    monkeypatch.setenv("MAHAVISHNU_USER", "ann")
    monkeypatch.setenv("MAHAVISHNU_DLQ_MAX_SIZE", "")
    assert plain_store(None) == default_store_url() == MahavishnuSettings().dlq_store_url
    assert plain_store(file) == file == MahavishnuSettings(dlq_store_url=file).dlq_store_url
    monkeypatch.setenv("MAHAVISHNU_DLQ_STORE_URL", file)
    assert plain_store(None) == file == MahavishnuSettings().dlq_store_url


@pytest.mark.parametrize(
    "url", ["memory:", "opensearch://search:9200", "sqlite:", "letters.db", "sqlite:///\ud800.db", "nonsense:"]
)
def test_settings_are_read_for_another_store(elsewhere: Path, url: str) -> None:
    assert plain_store(url) is None


@pytest.mark.parametrize("name", ["MAHAVISHNU_DLQ_MAX_SIZE", "mahavishnu_dlq_store_url", "MAHAVISHNU_MISTAKE"])
def test_settings_are_read_if_a_variable_sets_something(file: str, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "500")
    assert plain_store(file) is None


@pytest.mark.parametrize("name", ["mahavishnu.yaml", "queues"])
def test_settings_are_read_if_there_is_a_file(elsewhere: Path, file: str, name: str) -> None:
    assert plain_store(file) == file
    (elsewhere / "settings" / name).touch()
    assert plain_store(file) is None


def test_settings_are_read_if_it_is_unknown_whether_there_is_a_file(elsewhere: Path, file: str) -> None:
    (elsewhere / "settings").rename(elsewhere / "other")
    assert plain_store(file) == file
    (elsewhere / "settings").touch()  # no directory: whoever reads the settings says what is wrong
    assert plain_store(file) is None
