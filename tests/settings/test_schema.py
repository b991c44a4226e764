"""What is allowed, in words, and where letters are kept by default."""

from __future__ import annotations

from pathlib import Path

import pytest

from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.settings.places import default_local_url, is_opensearch, state_directory, without_passwords
from tests.settings.conftest import problems


def test_an_unknown_choice_is_answered_with_the_known_ones() -> None:
    """Of a setting with few values all are listed, and the nearest is proposed."""
    assert problems(dlq_strategy="Automatic") == (
        "argument: dlq_strategy must be one of 'automatic', 'selective', 'manual', 'disabled', got 'Automatic'; "
        "did you mean 'automatic'?",
    )
    assert problems(deployment_mode="x")[0].endswith("'event_driven_only', got 'x'")
    assert problems(dlq_category_max_retries={"transiant": 1})[0].endswith("did you mean 'transient'?")
    assert problems(dlq_category_max_retries={"transient": 11}) == (
        "argument: dlq_category_max_retries.transient must be a whole number from 0 to 10, got 11",
    )


def test_letters_are_kept_in_the_users_state_directory(elsewhere: Path) -> None:
    """In one SQLite file, which needs no other store beside it."""
    for settings in (MahavishnuSettings(), MahavishnuSettings(dlq_store_url="", dlq_local_url="")):
        assert settings.store_arguments()["local"] is None
        assert settings.dlq_store_url.endswith("/mahavishnu/letters.db")
        assert settings.dlq_store_url.startswith(f"sqlite:///{elsewhere / 'home'}")


def test_each_platform_has_its_state_directory(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a relative XDG directory is ignored, as XDG demands."""
    home = elsewhere / "home"

    assert state_directory("linux", {}) == home / ".local/state/mahavishnu"
    assert state_directory("linux", {"XDG_STATE_HOME": "/var/state"}) == Path("/var/state/mahavishnu")
    assert state_directory("linux", {"XDG_STATE_HOME": "state"}) == home / ".local/state/mahavishnu"
    assert state_directory("darwin", {}) == home / "Library/Application Support/mahavishnu"
    assert state_directory("win32", {"LOCALAPPDATA": "/Users/ann/Local"}) == Path("/Users/ann/Local/mahavishnu")
    assert state_directory("win32", {}) == home / "AppData/Local/mahavishnu"

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert problems()[0] == "default: this user has no home directory to keep letters in; say where"
    assert MahavishnuSettings(dlq_store_url="memory:").dlq_local_url == "none"


def test_opensearch_has_a_local_store_of_its_own() -> None:
    """Two programs with two clusters must not drain each other's letters; spelling makes no difference."""
    first = MahavishnuSettings(dlq_store_url="opensearchs://ann:pw@Search:9200,two:9200?timeout=3").dlq_local_url

    assert first.startswith("sqlite:///")
    assert "/local-search-9200-" in first
    assert "pw" not in first
    assert first == default_local_url("opensearch://two:9200,search:9200/mahavishnu")
    assert first != default_local_url("opensearch://two:9200,search:9200/other")
    assert first != default_local_url("opensearch://two:9200")
    assert MahavishnuSettings(dlq_store_url="opensearch://a", dlq_local_url="none").store_arguments()["local"] is None
    given = MahavishnuSettings(dlq_store_url="opensearch://a", dlq_local_url="sqlite:///x.db")
    assert given.store_arguments()["local"] == "sqlite:///x.db"
    assert (is_opensearch("opensearchs://a"), is_opensearch("memory:")) == (True, False)


def test_settings_made_from_a_dump_use_the_same_stores() -> None:
    """Settings made from a dump of settings use the same stores."""
    settings = MahavishnuSettings(dlq_store_url="opensearch://a:9200")

    assert MahavishnuSettings(**settings.model_dump()).store_arguments() == settings.store_arguments()


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("https://ann:hunter2@search", "dlq_store_url: 'https' is no kind of store; did you mean opensearchs:?"),
        ("http://search", "dlq_store_url: 'http' is no kind of store; did you mean opensearch:?"),
        ("sqlit:///x.db", "dlq_store_url: 'sqlit' is no kind of store; did you mean sqlite:?"),
        ("/var/x.db", "dlq_store_url: a URL is needed, not a path: write sqlite:////var/x.db"),
        ("hunter2", "dlq_store_url: a URL is needed: memory:, sqlite:///path, opensearch://host:9200 or "),
        ("redis://search", "dlq_store_url: 'redis' is no kind of store; use memory:, "),
        (
            "opensearch://ann:hunter2@/x",
            "dlq_store_url: 'opensearch://ann:***@/x' names no host; write opensearch://host:9200",
        ),
        ("opensearch://[hunter2", "dlq_store_url: the address cannot be read"),
        ("opensearch://[::1],[::2", "dlq_store_url: the address cannot be read"),
        ("opensearch://ann:hunter2@search:port", "dlq_store_url: the address cannot be read"),
        (
            "opensearch://ann:hunter2@one,,two",
            "dlq_store_url: 'opensearch://ann:***@one,,two' names no host; write opensearch://host:9200",
        ),
    ],
)
def test_a_url_that_is_no_store_is_refused_with_what_to_write(url: str, problem: str) -> None:
    """With what to write instead."""
    found = problems(dlq_store_url=url)

    assert found[0].partition(": ")[2].startswith(problem)
    assert "hunter2" not in str(found)


def test_the_local_store_is_another_one() -> None:
    """Or it would be no help."""
    assert problems(dlq_store_url="sqlite:///x.db", dlq_local_url="sqlite:///x.db") == (
        "argument: dlq_local_url must be another store than dlq_store_url, or none",
    )
    assert "did you mean" in problems(dlq_local_url="sqlit:///x")[0]


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("opensearchs://ann:pw@search:9200/x", "opensearchs://ann:***@search:9200/x"),
        ("opensearchs://token@search", "opensearchs://***@search"),
        ("opensearch:ann:pw@search", "opensearch:***@search"),
        ("opensearchs://ann:a/b@search", "opensearchs://***@search"),
        ("sqlite:///a@b.db", "sqlite:///a@b.db"),
        ("memory:", "memory:"),
        ("*token*", "*token*"),
    ],
)
def test_passwords_in_urls_are_masked(text: str, safe: str) -> None:
    """Malformed URLs included; what has none is left as it is."""
    assert without_passwords(text) == safe
