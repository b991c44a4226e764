"""MahavishnuSettings: every setting, its default and its range.

A value is taken from an argument, else from an environment variable (`MAHAVISHNU_` and the key, `__` between a section
and its key), else from the YAML file, else it is the default. The file is the one given to `load`, else the one that
MAHAVISHNU_SETTINGS names, else `settings/mahavishnu.yaml` below the working directory if there is one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, PrivateAttr, SecretStr, ValidationError, ValidationInfo, field_validator

from mahavishnu.alerts.rules import AlertRules
from mahavishnu.events.rules import EventRules
from mahavishnu.letters.rules import RequeueRules
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.ids import DEFAULT_NAMESPACE
from mahavishnu.model.letter_parts import ErrorCategory, RetryPolicy
from mahavishnu.model.query import require_namespace
from mahavishnu.model.record import Value
from mahavishnu.model.rules import RetentionRules
from mahavishnu.queues.rules import check_declared
from mahavishnu.settings.places import NO_STORE, default_local_url, default_store_url, is_opensearch
from mahavishnu.settings.problems import display_value, refusal
from mahavishnu.settings.schema import describe_allowed, fields, is_secret, schema_at, variable
from mahavishnu.settings.sections import (
    CircuitSettings,
    EncryptionSettings,
    FromSection,
    Section,
    ServerSettings,
    TelemetrySettings,
    Templates,
    as_value_error,
    setting,
    setting_of,
)
from mahavishnu.settings.sources import SettingsError, SettingsFile, Sources, read_sources
from mahavishnu.tasks.rules import ReasonRules
from mahavishnu.tasks.staleness_rules import StalenessRules
from mahavishnu.workers.rules import check_declared_limits

__all__ = ["MahavishnuSettings", "ReloadResult", "Section", "Setting", "SettingsError"]
Name = Annotated[str, Field(min_length=1)]
_POLICIES = [policy.value for policy in RetryPolicy]


class Setting(Value, frozen=True):
    """One setting for people to see; secrets in `value` are masked."""

    key: str
    value: Any
    origin: str  #: "default", "argument", the variable's name, or file:line
    variable: str
    allowed: str
    description: str


class ReloadResult(NamedTuple):
    """The settings to go on with, the changed keys, and why nothing changed if it could not."""

    settings: MahavishnuSettings
    changed: tuple[str, ...] = ()
    error: InvalidInput | None = None


class MahavishnuSettings(Section):
    """All settings, checked and immutable.

    `MahavishnuSettings(...)` raises pydantic's ValidationError, `MahavishnuSettings.load(...)` the same problems as a
    SettingsError, one line each, for programs that show them to people. Both read the environment and the file.

    >>> MahavishnuSettings(dlq_max_size=500).dlq_max_size
    500
    """

    # --- keeping letters ---
    dlq_enabled: bool = setting(True, "Enable Dead Letter Queue for failed workflow reprocessing")
    dlq_max_size: int = setting(10000, "Maximum number of tasks in DLQ (100-100000)", 100, 100000)
    dlq_namespace: str = setting(
        DEFAULT_NAMESPACE,
        "The app's own name where several apps share a store: each sees, limits and runs its own letters only",
        allowed="a name of 1 to 200 characters, without /",
    )
    dlq_strategy: Literal["automatic", "selective", "manual", "disabled"] = setting(
        "automatic", "Which failures become letters; can be switched at run time"
    )
    dlq_max_task_bytes: int = setting(
        1024 * 1024,
        "Largest payload of a letter, of an item of a queue, of a lifecycle task, of an event, as JSON",
        1024,
        100 * 1024 * 1024,
    )
    redact_keys: tuple[Name, ...] = setting(
        (), "Keys of the payload, as patterns such as *password*, whose values are masked in the letter"
    )

    encryption: EncryptionSettings = setting(EncryptionSettings(), "Values of payloads that are stored encrypted")

    # --- stores ---
    dlq_store_url: str = setting(
        "",
        "Where letters are kept; empty: the SQLite file letters.db in the user's state directory",
        allowed="a memory:, sqlite:, opensearch: or opensearchs: URL",
    )
    dlq_local_url: str = setting(
        "",
        "Where letters are kept while OpenSearch is away; empty: a SQLite file in the state directory",
        allowed="a store's URL, or none",
    )
    dlq_store_user: str | None = setting(None, "User name for OpenSearch")
    dlq_store_password: SecretStr | None = setting(None, "Password for OpenSearch")
    dlq_store_headers: Mapping[str, SecretStr] = setting(
        {}, "HTTP headers for OpenSearch, such as Authorization; their values are secrets"
    )
    dlq_store_timeout_seconds: float = setting(
        2.0,
        "How long a call of OpenSearch may take before it counts as an outage; ?timeout= of the URL overrules it",
        0.1,
        300,
    )

    # --- retries ---
    dlq_default_retry_policy: str = setting(
        "exponential",
        "Default retry policy (never, linear, exponential, immediate)",
        allowed=f"one of {str(_POLICIES)[1:-1]}",
    )
    dlq_default_max_retries: int = setting(3, "Default maximum retry attempts (0-10)", 0, 10)
    dlq_automatic_policy: Literal["category", "default"] = setting(
        "category", "Whether a failure's retry policy follows its category or is dlq_default_retry_policy for all"
    )
    dlq_category_max_retries: Mapping[ErrorCategory, Annotated[int, Field(ge=0, le=10)]] = setting(
        {}, "Retry attempts by error category, where they differ from dlq_default_max_retries"
    )
    retry_jitter: bool = setting(
        False, "Wait a random share of each delay, so that letters do not come back all at once"
    )
    retry_only_failed_repos: bool = setting(
        True, "Retry a workflow for those repos only that failed, where that is known"
    )
    dlq_close_on_success: bool = setting(
        True, "Close the open letter of a task when the application runs it again and succeeds"
    )

    # --- sending back ---
    max_dlq_retries: int = setting_of(RequeueRules, "max_dlq_retries")
    dlq_priority_boost: int = setting_of(RequeueRules, "dlq_priority_boost")
    auto_requeue: Annotated[RequeueRules, FromSection()] = RequeueRules()

    # --- the retry processor ---
    dlq_retry_processor_enabled: bool = setting(True, "Enable automatic DLQ retry processor")
    dlq_retry_interval_seconds: int = setting(60, "DLQ retry processor check interval in seconds (10-3600)", 10, 3600)
    dlq_retry_concurrency: int = setting(50, "How many attempts one processor runs at the same time", 1, 1000)
    dlq_retry_timeout_seconds: int = setting(
        3600, "How long one attempt may run before it counts as failed", 1, 7 * 86400
    )
    dlq_claim_lease_seconds: int = setting(
        300, "How long a claim lasts unless it is renewed, which a live worker does", 1, 86400
    )
    dlq_clock_skew_grace_seconds: int = setting(
        30, "How far the clocks of machines may differ: a lease's end is waited out by so much", 0, 3600
    )
    dlq_tombstone_days: int = setting(
        30, "How long a deleted letter is remembered; longer than a local store may wait until it goes home", 1, 3650
    )
    dlq_stop_grace_seconds: int = setting(
        30, "How long running attempts may take to finish when the worker stops", 0, 3600
    )
    deployment_mode: Literal["hybrid", "polling_only", "event_driven_only"] = setting(
        "hybrid", "Whether due letters are noticed by events, by polling, or by both"
    )
    circuit: CircuitSettings = setting(CircuitSettings(), "The circuit breaker of each adapter")

    adapter_limits: Mapping[str, Any] = setting(
        {},
        "Letters of an adapter that all workers together run at once, and start per second, minute or hour",
        allowed="a map of names, each with concurrency and rate, such as 100/min",
    )

    # --- named queues ---
    queues: Mapping[str, Any] = setting(
        {},
        "Named queues, put into the store when the app starts or reloads; also settings/queues/*.yaml, a file for each",
        allowed="a map of names, each with dead_queue, retry, max_attempts …",
    )

    # --- retention ---
    retention: Annotated[RetentionRules, FromSection()] = RetentionRules()

    # --- domain events ---
    events: Annotated[EventRules, FromSection()] = EventRules()

    # --- alerts ---
    alerts: Annotated[AlertRules, FromSection()] = AlertRules()

    # --- staleness ---
    staleness: Annotated[StalenessRules, FromSection()] = StalenessRules()
    dlq_reasons: Annotated[ReasonRules, FromSection()] = ReasonRules()
    templates: Templates = setting(
        {},
        "Limits of tracked tasks by the name of their template",
        allowed="a map of templates, or the path of a directory with a YAML file for each",
    )

    # --- the server ---
    server: ServerSettings = setting(ServerSettings(), "The HTTP API")

    # --- telemetry ---
    telemetry: TelemetrySettings = setting(TelemetrySettings(), "What monitoring is told")

    # --- classification ---
    classifier_plugins: tuple[Name, ...] = setting(
        (), "Classifier plugins to load, as module or module:name, asked in this order"
    )
    plugin_directory: Path | None = setting(
        None, "A directory whose Python files are loaded as plugins; nothing is loaded by default"
    )
    disabled_plugins: tuple[Name, ...] = setting((), "Names of plugins that are not to be asked")
    plugin_timeout_ms: int = setting(250, "How long a plugin may take to answer before it is passed over", 1, 60000)
    classifier_rules: tuple[dict[Any, Any], ...] | str = setting(
        (),
        "Classification rules without code, asked before the built-in ones",
        allowed="a list of rules, or the path of a YAML file with one",
    )

    _sources: Sources = PrivateAttr()

    def __init__(self, **values: Any) -> None:
        loading = values.get("_sources")  # from `load`, which has read them
        sources = loading if isinstance(loading, Sources) else read_sources(type(self), SettingsFile.choose(), values)
        refused: ValidationError | None = None
        try:
            super().__init__(**sources.values())
        except ValidationError as error:
            refused = error
        if refused or sources.problems:
            raise refusal(refused, type(self), sources) from None
        self._sources = sources

    @classmethod
    def load(cls, path: str | os.PathLike[str] | None = None, **values: Any) -> Self:
        """Load the settings from all sources; with `path` from that file, which must exist.

        Raises SettingsError with every problem at once: an unknown key or variable, a value out of range, a file that
        is not YAML.

        >>> MahavishnuSettings.load(dlq_retry_interval_seconds=30).dlq_retry_interval_seconds
        30
        """
        return cls._load(SettingsFile.choose(path), values)

    def load_again(self) -> Self:
        """Load the settings from the same sources as they are now. Raises SettingsError, also for a missing file."""
        return self._load(self._sources.file, self._sources.arguments)

    @classmethod
    def _load(cls, file: SettingsFile, arguments: Mapping[str, Any]) -> Self:
        try:
            return cls(_sources=read_sources(cls, file, arguments))
        except ValidationError as refused:
            raise SettingsError([detail["msg"] for detail in refused.errors()]) from None

    @property
    def read_from(self) -> SettingsFile | None:
        """The YAML file that was read, None if there was none."""
        return self._sources.file if self._sources.file.required else None

    @property
    def file(self) -> Path:
        """The path of the YAML file, which need not exist."""
        return self._sources.file.path

    def changed_keys(self, other: MahavishnuSettings) -> tuple[str, ...]:
        """Return the keys whose values differ in `other`."""
        return tuple(key for key in fields(type(self)) if attrgetter(key)(self) != attrgetter(key)(other))

    def describe(self) -> tuple[Setting, ...]:
        """Return every setting with its value and where it came from, for people: secrets are masked."""
        schemas = {key: schema_at(type(self), key.split(".")) for key in fields(type(self))}
        return tuple(
            Setting(
                key=key,
                value=display_value(attrgetter(key)(self), is_secret(schemas[key])),
                origin=self._sources.where(key.split(".")),
                variable=variable(key),
                allowed=describe_allowed(schemas[key]),
                description=field.description or "",
            )
            for key, field in fields(type(self)).items()
        )

    def origins(self) -> dict[str, str]:
        """Return the origin of each setting: "default", "argument", the variable's name, or file:line."""
        return {setting.key: setting.origin for setting in self.describe()}

    def store_arguments(self) -> dict[str, Any]:
        """Return the arguments for `stores.urls.open_store`, passwords in clear."""
        remote = is_opensearch(self.dlq_store_url)
        return {
            "url": self.dlq_store_url,
            "local": None if self.dlq_local_url == NO_STORE else self.dlq_local_url,
            "user": self.dlq_store_user,
            "password": self.dlq_store_password.get_secret_value() if self.dlq_store_password else None,
            "headers": {name: value.get_secret_value() for name, value in self.dlq_store_headers.items()} or None,
            "timeout": self.dlq_store_timeout_seconds if remote else None,
        }

    @field_validator("dlq_default_retry_policy")
    @classmethod
    def _check_policy(cls, value: str) -> str:
        if value not in _POLICIES:
            raise ValueError(f"dlq_default_retry_policy must be one of {_POLICIES}, got '{value}'")
        return value

    @field_validator("dlq_namespace")
    @classmethod
    def _check_namespace(cls, value: str) -> str:
        with as_value_error("dlq_namespace cannot be that: "):
            return require_namespace(value)

    @field_validator("queues")
    @classmethod
    def _check_queues(cls, value: Mapping[str, Any], info: ValidationInfo) -> Mapping[str, Any]:
        with as_value_error("queues: "):
            return check_declared(value, info.data.get("dlq_namespace", DEFAULT_NAMESPACE))

    @field_validator("adapter_limits")
    @classmethod
    def _check_adapter_limits(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        with as_value_error("adapter_limits: "):
            return check_declared_limits(value)

    @field_validator("dlq_store_url", mode="before")
    @classmethod
    def _store_url(cls, value: Any) -> Any:
        return default_store_url() if value in (None, "") else _require_url("dlq_store_url", value)

    @field_validator("dlq_local_url", mode="before")
    @classmethod
    def _local_url(cls, value: Any, info: ValidationInfo) -> Any:
        store_url = info.data.get("dlq_store_url", "")
        if value in (None, ""):
            return default_local_url(store_url)
        if value == store_url:
            raise ValueError("dlq_local_url must be another store than dlq_store_url, or none")
        return value if value == NO_STORE else _require_url("dlq_local_url", value)

    @field_validator("dlq_store_user", "dlq_store_password", "plugin_directory", mode="before")
    @classmethod
    def _empty_is_none(cls, value: Any) -> Any:
        return None if value == "" else value

    @field_validator("plugin_directory", "classifier_rules", "templates")
    @classmethod
    def _expand_home(cls, value: Any) -> Any:
        # unlike Path's, this one does not raise where there is no home
        return type(value)(os.path.expanduser(value)) if isinstance(value, str | Path) else value  # noqa: PTH111


def _require_url(key: str, url: Any) -> Any:
    if isinstance(url, str):
        from mahavishnu.stores.urls import check_url  # what only reads defaults does not wait for the stores

        with as_value_error(f"{key}: "):
            check_url(url)
    return url
