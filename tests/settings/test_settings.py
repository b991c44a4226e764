"""The settings as values: defaults, ranges, precedence, secrets, and what describes them."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field, SecretStr, ValidationError

from mahavishnu.core.config import MahavishnuSettings, SettingsError
from mahavishnu.settings.schema import fields
from mahavishnu.settings.sections import CircuitSettings, Section
from tests.settings.conftest import problems

POLICIES = "dlq_default_retry_policy must be one of ['never', 'linear', 'exponential', 'immediate'], got"
SECRET = "hunter2"
LEAKS: list[dict[str, Any]] = [
    {"dlq_store_password": SECRET},
    {"dlq_store_headers": {"Authorization": SECRET}},
    {"dlq_store_url": f"opensearchs://ann:{SECRET}@search"},
    {"dlq_store_url": f"opensearchs://{SECRET}@search,other"},
    {"dlq_store_url": "memory:", "dlq_local_url": f"opensearchs://ann:{SECRET}@search"},
    {"events": {"webhook_url": f"https://hooks.example/billing?{SECRET}"}},
    {"events": {"webhook_url": f"https://{SECRET}:x@hooks.example/billing"}},
    {"events": {"webhook_url": f"https://hooks.example/{SECRET}"}},
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
    {"server": {"viewers": SECRET}},
    {"server": {"viewers": {"ann": [SECRET]}}},
    {"dlq_max_size": {"secret": SECRET}},
    {"redact_keys": {"secret": [SECRET]}},
    {"redact_keys": [{"secret": SECRET}]},
    {"classifier_rules": [[SECRET]]},
]
FILE = Path("settings/mahavishnu.yaml")


def yaml(text: str, path: str = "settings/mahavishnu.yaml") -> Path:
    """A settings file below the working directory."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


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
        ("dlq_tombstone_days", 1, 3650),
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

    assert refused.value.errors()[0]["msg"] == f"argument: {POLICIES} '{policy}'"
    assert problems(dlq_default_retry_policy=policy) == (f"argument: {POLICIES} '{policy}'",)


@pytest.mark.parametrize("policy", ["never", "linear", "exponential", "immediate"])
def test_known_policies(policy: str) -> None:
    """All four."""
    assert MahavishnuSettings(dlq_default_retry_policy=policy).dlq_default_retry_policy == policy


def test_true_is_no_number() -> None:
    """YAML reads `on` as true; it must not become one retry."""
    assert problems(dlq_default_max_retries=True)[0].endswith("from 0 to 10, got True")
    assert problems(circuit={"failure_threshold": True})[0].endswith("got True")
    assert problems(auto_requeue={"requeue_backoff_multiplier": True})[0].endswith("got True")


def test_direct_construction_raises_the_errors_of_pydantic() -> None:
    """Types and places are those that pydantic's users expect, in the words that `load` has."""
    with pytest.raises(ValidationError) as refused:
        MahavishnuSettings(dlq_max_size=99, nonsense=1)

    first, second = refused.value.errors(include_url=False)
    assert first == {
        "type": "greater_than_equal",
        "loc": ("dlq_max_size",),
        "msg": "argument: dlq_max_size must be a whole number from 100 to 100000, got 99",
        "input": None,
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


def test_store_arguments_are_plain_values() -> None:
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
        "timeout": 2.0,
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
    paths = tuple(fields(MahavishnuSettings))

    assert len(set(paths)) == len(paths)
    assert {"dlq_enabled", "circuit.failure_threshold", "dlq_category_max_retries"} <= set(paths)
    assert "circuit" not in paths


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


@pytest.mark.parametrize("multiplier", [0.99, 0, -1, float("nan"), float("inf"), "fast"])
def test_a_requeue_multiplier_below_one_is_refused(multiplier: object) -> None:
    """R016."""
    (problem,) = problems(auto_requeue={"requeue_backoff_multiplier": multiplier})

    assert problem.startswith("argument: auto_requeue.requeue_backoff_multiplier must be a number from 1 to 100")


def test_the_defaults_of_requeues() -> None:
    """R016."""
    settings = MahavishnuSettings()

    assert (settings.max_dlq_retries, settings.dlq_priority_boost) == (3, 10)
    assert settings.model_dump()["auto_requeue"] == {
        "enabled": False,
        "requeue_interval_minutes": 60,
        "max_auto_requeue_attempts": 2,
        "requeue_backoff_multiplier": 2.0,
    }


def test_every_setting_is_described_with_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, with variable and range; plain values that JSON can hold."""
    FILE.write_text("dlq_max_size: 300\ndlq_store_headers:\n  Authorization: abc\n")
    monkeypatch.setenv("MAHAVISHNU_CIRCUIT__COOLOFF_SECONDS", "7")
    settings = MahavishnuSettings.load(dlq_category_max_retries={"network": 1}, plugin_directory="p", redact_keys=["a"])
    described = {setting.key: setting for setting in settings.describe()}

    assert tuple(described) == tuple(fields(MahavishnuSettings))
    assert (described["dlq_max_size"].value, described["dlq_max_size"].origin) == (300, f"{FILE}:1")
    assert described["dlq_max_size"].allowed == "a whole number from 100 to 100000"
    assert described["dlq_max_size"].variable == "MAHAVISHNU_DLQ_MAX_SIZE"
    assert described["dlq_store_headers"].value == {"Authorization": "***"}
    assert described["dlq_store_headers"].origin == f"{FILE}:3"
    assert described["circuit.cooloff_seconds"].origin == "MAHAVISHNU_CIRCUIT__COOLOFF_SECONDS"
    assert described["circuit.failure_threshold"].origin == "default"
    assert (described["dlq_category_max_retries"].value, described["plugin_directory"].value) == ({"network": 1}, "p")
    assert (described["redact_keys"].value, described["redact_keys"].origin) == (["a"], "argument")
    assert settings.read_from is not None
    assert settings.read_from.path == FILE.absolute()


def test_a_password_is_masked_and_its_absence_shown() -> None:
    """So that one sees whether there is one."""
    described = {setting.key: setting.value for setting in MahavishnuSettings.load(dlq_store_password="x").describe()}

    assert described["dlq_store_password"] == "***"
    assert MahavishnuSettings.load().origins()["dlq_store_password"] == "default"
    assert next(s.value for s in MahavishnuSettings.load().describe() if s.key == "dlq_store_password") is None


def test_sections_may_hold_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    """What later parts add: everything works at any depth."""

    class Thresholds(Section):
        minutes: int = Field(default=60, ge=1, le=90, description="How long")

    class Watch(Section):
        enabled: bool = Field(default=True, description="Whether")
        thresholds: Thresholds = Thresholds()

    class Larger(MahavishnuSettings):
        watch: Watch = Watch()

    Path("settings/mahavishnu.yaml").write_text("watch:\n  enabled: false\n  thresholds:\n    minutes: 7\n")
    settings = Larger.load()
    assert tuple(fields(Larger))[-2:] == ("watch.enabled", "watch.thresholds.minutes")
    assert settings.origins()["watch.thresholds.minutes"] == "settings/mahavishnu.yaml:4"
    assert (settings.watch.enabled, settings.watch.thresholds.minutes) == (False, 7)
    monkeypatch.setenv("MAHAVISHNU_WATCH__THRESHOLDS__MINUTES", "8")
    assert Larger.load().watch == Watch(enabled=False, thresholds=Thresholds(minutes=8))
    monkeypatch.setenv("MAHAVISHNU_WATCH__THRESHOLDS__MINUTES", "0")
    with pytest.raises(
        SettingsError, match=r"^MAHAVISHNU_WATCH__THRESHOLDS__MINUTES: watch\.thresholds\.minutes must "
    ):
        Larger.load()
