"""The settings: defaults, ranges, and which source wins."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from mahavishnu.core.config import MahavishnuSettings, SettingsError
from mahavishnu.core.config.schema import default_local_url, is_opensearch, state_directory, without_passwords
from mahavishnu.core.config.settings import CircuitSettings, field_paths
from mahavishnu.model.errors import InvalidInput

POLICIES = "dlq_default_retry_policy must be one of ['never', 'linear', 'exponential', 'immediate'], got"


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty directory and home, so that nobody's own settings are read."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    return tmp_path


def yaml(text: str, path: str = "settings/mahavishnu.yaml") -> Path:
    """A settings file below the working directory."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def problems(**values: Any) -> tuple[str, ...]:
    """What `load` says about these arguments."""
    with pytest.raises(SettingsError) as refused:
        MahavishnuSettings.load(**values)
    return refused.value.problems


def test_the_documented_defaults() -> None:
    """Six settings, as users of the documentation know them."""
    settings = MahavishnuSettings()

    assert settings.dlq_enabled is True
    assert settings.dlq_max_size == 10000
    assert settings.dlq_default_retry_policy == "exponential"
    assert settings.dlq_default_max_retries == 3
    assert settings.dlq_retry_processor_enabled is True
    assert settings.dlq_retry_interval_seconds == 60


@pytest.mark.parametrize(
    ("key", "low", "high"),
    [
        ("dlq_max_size", 100, 100000),
        ("dlq_default_max_retries", 0, 10),
        ("dlq_retry_interval_seconds", 10, 3600),
        ("dlq_max_task_bytes", 1024, 100 * 1024 * 1024),
        ("dlq_retry_concurrency", 1, 1000),
        ("dlq_retry_timeout_seconds", 1, 604800),
        ("dlq_claim_lease_seconds", 1, 86400),
        ("dlq_clock_skew_grace_seconds", 0, 3600),
        ("dlq_stop_grace_seconds", 0, 3600),
        ("plugin_timeout_ms", 1, 60000),
    ],
)
def test_ranges_include_their_ends(key: str, low: int, high: int) -> None:
    """The ends are accepted and what is next to them is not, with the range in the message."""
    for value in (low, high):
        values: dict[str, Any] = {key: value}
        assert getattr(MahavishnuSettings(**values), key) == value
        assert getattr(MahavishnuSettings.load(**values), key) == value
    for value in (low - 1, high + 1):
        with pytest.raises(ValidationError, match=key):
            MahavishnuSettings(**{key: value})
        assert problems(**{key: value}) == (
            f"argument: {key} must be a whole number from {low} to {high}, got {value}",
        )


@pytest.mark.parametrize("key", ["failure_threshold", "cooloff_seconds"])
def test_ranges_hold_in_sections(key: str) -> None:
    """And the message names the way to the key."""
    (problem,) = problems(circuit={key: 0})

    assert problem.startswith(f"argument: circuit.{key} must be a whole number from 1 to ")
    assert MahavishnuSettings(circuit={key: 1}).circuit.model_dump()[key] == 1


@pytest.mark.parametrize("policy", ["Exponential", "custom", "", "custom:mine"])
def test_an_unknown_policy_is_refused_in_the_documented_words(policy: str) -> None:
    """Upper and lower case matter; both ways to make settings say the same."""
    with pytest.raises(ValidationError) as refused:
        MahavishnuSettings(dlq_default_retry_policy=policy)

    assert refused.value.errors()[0]["msg"] == f"Value error, {POLICIES} '{policy}'"
    assert problems(dlq_default_retry_policy=policy) == (f"argument: {POLICIES} '{policy}'",)


@pytest.mark.parametrize("policy", ["never", "linear", "exponential", "immediate"])
def test_known_policies(policy: str) -> None:
    """All four."""
    assert MahavishnuSettings(dlq_default_retry_policy=policy).dlq_default_retry_policy == policy


def test_choices_are_named_and_guessed() -> None:
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


def test_true_is_no_number() -> None:
    """YAML reads `on` as true; it must not become one retry."""
    assert problems(dlq_default_max_retries=True)[0].endswith("from 0 to 10, got True")
    assert problems(circuit={"failure_threshold": True})[0].endswith("got True")
    assert problems(auto_requeue={"requeue_backoff_multiplier": True})[0].endswith("got True")


def test_all_problems_are_told_at_once_and_once_each() -> None:
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


def test_direct_construction_speaks_pydantic() -> None:
    """Types, places and contexts of the errors are those that pydantic's users expect."""
    with pytest.raises(ValidationError) as refused:
        MahavishnuSettings(dlq_max_size=99, nonsense=1)

    first, second = refused.value.errors(include_url=False)
    assert first == {
        "type": "greater_than_equal",
        "loc": ("dlq_max_size",),
        "msg": "Input should be greater than or equal to 100",
        "input": 99,
        "ctx": {"ge": 100},
    }
    assert (second["type"], second["loc"]) == ("extra_forbidden", ("nonsense",))


def test_settings_are_immutable_values() -> None:
    """Equal if their values are, wherever these came from; copied and pickled they stay what they are."""
    settings = MahavishnuSettings(dlq_max_size=500, circuit=CircuitSettings(failure_threshold=2))

    with pytest.raises(ValidationError, match="frozen"):
        settings.dlq_max_size = 600
    with pytest.raises(ValidationError, match="frozen"):
        settings.circuit.failure_threshold = 3
    yaml("dlq_max_size: 500\ncircuit:\n  failure_threshold: 2\n")
    assert MahavishnuSettings() == settings
    assert MahavishnuSettings(dlq_max_size=501) != settings
    for twin in (copy.deepcopy(settings), pickle.loads(pickle.dumps(settings)), settings.model_copy()):
        assert twin == settings
        assert twin.origins() == settings.origins()
    assert MahavishnuSettings.model_validate(settings.model_dump()) == settings


def test_the_strongest_source_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Argument, environment, file, default."""
    key = "dlq_retry_interval_seconds"
    assert MahavishnuSettings().dlq_retry_interval_seconds == 60
    yaml(f"{key}: 30\n")
    assert MahavishnuSettings().dlq_retry_interval_seconds == 30
    monkeypatch.setenv("MAHAVISHNU_DLQ_RETRY_INTERVAL_SECONDS", "45")
    assert MahavishnuSettings().dlq_retry_interval_seconds == 45
    assert MahavishnuSettings.load().dlq_retry_interval_seconds == 45
    assert MahavishnuSettings(dlq_retry_interval_seconds=50).dlq_retry_interval_seconds == 50


def test_sections_and_maps_are_merged_and_lists_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Key by key; an empty map empties it."""
    yaml(
        "circuit:\n  failure_threshold: 7\n  cooloff_seconds: 8\n"
        "dlq_category_max_retries: {transient: 5, network: 4}\n"
        "disabled_plugins: [a, b]\n"
    )
    monkeypatch.setenv("MAHAVISHNU_CIRCUIT__FAILURE_THRESHOLD", "9")
    monkeypatch.setenv("MAHAVISHNU_DLQ_CATEGORY_MAX_RETRIES__NETWORK", "1")
    monkeypatch.setenv("MAHAVISHNU_DISABLED_PLUGINS", "c")
    settings = MahavishnuSettings()

    assert settings.circuit == CircuitSettings(failure_threshold=9, cooloff_seconds=8)
    assert settings.dlq_category_max_retries == {"transient": 5, "network": 1}
    assert settings.disabled_plugins == ("c",)
    assert MahavishnuSettings(dlq_category_max_retries={}).dlq_category_max_retries == {}


def test_the_file_may_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """An argument of `load` before MAHAVISHNU_SETTINGS before the usual place; a chosen file has to exist."""
    yaml("dlq_max_size: 101\n")
    yaml("dlq_max_size: 102\n", "two.yaml")
    yaml("dlq_max_size: 103\n", "three.yaml")
    monkeypatch.setenv("MAHAVISHNU_SETTINGS", "two.yaml")

    assert MahavishnuSettings().dlq_max_size == 102
    settings = MahavishnuSettings.load("three.yaml")
    assert settings.dlq_max_size == 103
    assert settings.origins()["dlq_max_size"] == "three.yaml:1"
    with pytest.raises(SettingsError, match=r"^no\.yaml: there is no such file$"):
        MahavishnuSettings.load(path="no.yaml")
    monkeypatch.setenv("MAHAVISHNU_SETTINGS", "gone.yaml")
    with pytest.raises(ValidationError, match=r"gone\.yaml: there is no such file"):
        MahavishnuSettings()


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


def test_an_explicit_form_of_automatic_urls_stays_what_it_is() -> None:
    """Settings made from a dump of settings use the same stores."""
    settings = MahavishnuSettings(dlq_store_url="opensearch://a:9200")

    assert MahavishnuSettings(**settings.model_dump()).store_arguments() == settings.store_arguments()


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("https://ann:hunter2@search", "dlq_store_url: 'https' is no kind of store; did you mean opensearchs:?"),
        ("http://search", "dlq_store_url: 'http' is no kind of store; did you mean opensearch:?"),
        ("sqlit:///x.db", "dlq_store_url: 'sqlit' is no kind of store; did you mean sqlite:?"),
        ("/var/x.db", "dlq_store_url must be a URL, not a path: write sqlite:////var/x.db"),
        ("hunter2", "dlq_store_url must be a URL: memory:, sqlite:///file, opensearch://host:9200 or "),
        ("redis://search", "dlq_store_url: 'redis' is no kind of store; use memory:, "),
        ("opensearch://ann:hunter2@/x", "dlq_store_url names no host; write opensearch://host:9200"),
        ("opensearch://[hunter2", "dlq_store_url is an address that cannot be read"),
        ("opensearch://[::1],[::2", "dlq_store_url is an address that cannot be read"),
        ("opensearch://ann:hunter2@search:port", "dlq_store_url is an address that cannot be read"),
        ("opensearch://ann:hunter2@one,,two", "dlq_store_url names no host; write opensearch://host:9200"),
    ],
)
def test_what_is_no_store_is_refused(url: str, problem: str) -> None:
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


def test_stores_are_given_plain_values() -> None:
    """The layers below know neither settings nor SecretStr."""
    settings = MahavishnuSettings(
        dlq_store_url="opensearchs://search:9200",
        dlq_local_url="memory:",
        dlq_store_user="ann",
        dlq_store_password="hunter2",
        dlq_store_headers={"Authorization": SecretStr("Bearer hunter3")},
    )

    assert settings.store_arguments() == {
        "url": "opensearchs://search:9200",
        "local": "memory:",
        "user": "ann",
        "password": "hunter2",
        "headers": {"Authorization": "Bearer hunter3"},
    }
    empty = MahavishnuSettings(dlq_store_url="memory:", dlq_store_user="", dlq_store_password="")
    assert set(empty.store_arguments().values()) == {"memory:", None}


def test_paths_may_begin_at_home(elsewhere: Path) -> None:
    """As in a shell."""
    settings = MahavishnuSettings(plugin_directory="~/plugins", classifier_rules="~/rules.yaml")

    assert settings.plugin_directory == elsewhere / "home/plugins"
    assert settings.classifier_rules == str(elsewhere / "home/rules.yaml")
    assert MahavishnuSettings(plugin_directory="").plugin_directory is None


def test_every_key_is_listed() -> None:
    """For the test that each one reaches what it is for."""
    paths = field_paths()

    assert len(set(paths)) == len(paths)
    assert {"dlq_enabled", "circuit.failure_threshold", "dlq_category_max_retries"} <= set(paths)
    assert "circuit" not in paths


SECRET = "hunter2"
LEAKS: list[dict[str, Any]] = [
    {"dlq_store_password": SECRET},
    {"dlq_store_headers": {"Authorization": SECRET}},
    {"dlq_store_url": f"opensearchs://ann:{SECRET}@search"},
    {"dlq_store_url": f"opensearchs://{SECRET}@search,other"},
    {"dlq_store_url": "memory:", "dlq_local_url": f"opensearchs://ann:{SECRET}@search"},
]
REFUSED: list[dict[str, Any]] = [
    {"dlq_store_url": f"opensearchs://ann:a/{SECRET}@search"},
    {"dlq_store_pasword": SECRET},
    {"dlq_store_password": [SECRET]},
    {"dlq_store_headers": SECRET},
    {"dlq_store_headers": {"Authorization": [SECRET]}},
    {"dlq_store_url": f"opensearch:/ann:{SECRET}@search"},
    {"dlq_store_url": [f"opensearch://ann:{SECRET}@search"]},
    {"dlq_store_url": f"http://ann:{SECRET}@search"},
    {"dlq_local_url": f"http://ann:{SECRET}@search"},
    {"circuit": {"secret": SECRET}},
    {"dlq_max_size": {"secret": SECRET}},
    {"redact_keys": {"secret": [SECRET]}},
    {"redact_keys": [{"secret": SECRET}]},
    {"classifier_rules": [[SECRET]]},
]


@pytest.mark.parametrize("values", LEAKS, ids=str)
def test_secrets_are_not_shown(values: dict[str, Any]) -> None:
    """Not by repr, not by str, not to `config show`; other values are."""
    settings = MahavishnuSettings(**values, dlq_max_size=5432)

    for text in (repr(settings), str(settings), f"{settings}", repr(settings.describe()), repr(settings._sources)):
        assert SECRET not in text
    assert "5432" in repr(settings)
    assert "5432" in repr(settings.describe())


@pytest.mark.parametrize("values", REFUSED, ids=str)
def test_secrets_are_not_in_errors(values: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in ours nor in pydantic's, also not in its details or where a variable was refused."""
    assert SECRET not in str(problems(**values))
    with pytest.raises(ValidationError) as refused:
        MahavishnuSettings(**values)
    assert SECRET not in str(refused.value)
    assert SECRET not in repr(refused.value.errors())
    assert SECRET not in refused.value.json()
    ((name, value),) = values.items()
    if isinstance(value, str):
        monkeypatch.setenv(f"MAHAVISHNU_{name.upper()}", value)
        with pytest.raises(ValidationError, match="MAHAVISHNU_") as refused_variable:
            MahavishnuSettings()
        assert SECRET not in str(refused_variable.value)


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


@pytest.mark.parametrize("multiplier", [0.99, 0, -1, float("nan"), float("inf"), "fast"])
def test_automatic_requeues_do_not_come_faster_and_faster(multiplier: object) -> None:
    """R016."""
    (problem,) = problems(auto_requeue={"requeue_backoff_multiplier": multiplier})

    assert problem.startswith("argument: auto_requeue.requeue_backoff_multiplier must be a number from 1 to 100")


def test_the_defaults_of_requeues() -> None:
    """R016."""
    settings = MahavishnuSettings()

    assert (settings.max_dlq_retries, settings.dlq_priority_boost) == (3, 10)
    assert settings.auto_requeue.model_dump() == {
        "enabled": False,
        "requeue_interval_minutes": 60,
        "max_auto_requeue_attempts": 2,
        "requeue_backoff_multiplier": 2.0,
    }
