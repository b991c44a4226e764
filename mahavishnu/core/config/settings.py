"""MahavishnuSettings: every setting, its default and its range.

A value is taken from an argument, else from an environment variable (`MAHAVISHNU_` and the key, `__` between a section
and its key), else from the YAML file, else it is the default. The file is the one given to `load`, else the one that
MAHAVISHNU_SETTINGS names, else `settings/mahavishnu.yaml` below the working directory if there is one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, PrivateAttr, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from mahavishnu.core.config import problems as config_problems
from mahavishnu.core.config import sources as config_sources
from mahavishnu.core.config import urls
from mahavishnu.core.config.schema import NESTED, PREFIX, allowed, fields, type_at, variable
from mahavishnu.core.config.sections import AutoRequeueSettings, CircuitSettings, Section, ServerSettings
from mahavishnu.core.config.sources import SettingsFile, Sources
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.letter_parts import ErrorCategory, RetryPolicy

Name = Annotated[str, Field(min_length=1)]


class SettingsError(InvalidInput):
    """The settings cannot be used. `problems` has a line for each: where it is, which key, what is allowed."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)

    def __reduce__(self) -> tuple[type[SettingsError], tuple[tuple[str, ...]]]:
        return type(self), (self.problems,)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting for people to see; secrets in `value` are masked."""

    key: str
    value: Any
    origin: str  #: "default", "argument", the variable's name, or file:line
    variable: str
    allowed: str
    description: str


class MahavishnuSettings(Section, BaseSettings):
    """All settings, checked and immutable.

    `MahavishnuSettings(...)` raises pydantic's ValidationError, `MahavishnuSettings.load(...)` the same problems as a
    SettingsError, one line each, for programs that show them to people. Both read the environment and the file.

    >>> MahavishnuSettings(dlq_max_size=500).dlq_max_size
    500
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter=NESTED)

    # --- keeping letters ---
    dlq_enabled: bool = Field(
        default=True,
        description="Enable Dead Letter Queue for failed workflow reprocessing",
    )
    dlq_max_size: int = Field(
        default=10000,
        ge=100,
        le=100000,
        description="Maximum number of tasks in DLQ (100-100000)",
    )
    dlq_strategy: Literal["automatic", "selective", "manual", "disabled"] = Field(
        default="automatic", description="Which failures become letters; can be switched at run time"
    )
    dlq_max_task_bytes: int = Field(
        default=1024 * 1024,
        ge=1024,
        le=100 * 1024 * 1024,
        description="Largest payload that a letter may have, as JSON",
    )
    redact_keys: tuple[Name, ...] = Field(
        default=(),
        description="Keys of the payload, as patterns such as *password*, whose values are masked in the letter",
    )

    # --- stores ---
    dlq_store_url: str = Field(
        default="",
        description="Where letters are kept; empty: the SQLite file letters.db in the user's state directory",
        json_schema_extra={"allowed": "a memory:, sqlite:, opensearch: or opensearchs: URL"},
    )
    dlq_local_url: str = Field(
        default="",
        description="Where letters are kept while OpenSearch is away; empty: a SQLite file in the state directory",
        json_schema_extra={"allowed": "a store's URL, or none"},
    )
    dlq_store_user: str | None = Field(default=None, description="User name for OpenSearch")
    dlq_store_password: SecretStr | None = Field(default=None, description="Password for OpenSearch")
    dlq_store_headers: Mapping[str, SecretStr] = Field(
        default={}, description="HTTP headers for OpenSearch, such as Authorization; their values are secrets"
    )

    # --- retries ---
    dlq_default_retry_policy: str = Field(
        default="exponential",
        description="Default retry policy (never, linear, exponential, immediate)",
        json_schema_extra={"allowed": allowed(RetryPolicy)},
    )
    dlq_default_max_retries: int = Field(
        default=3,
        ge=0,
        le=10,
        description="Default maximum retry attempts (0-10)",
    )
    dlq_automatic_policy: Literal["category", "default"] = Field(
        default="category",
        description="Whether a failure's retry policy follows its category or is dlq_default_retry_policy for all",
    )
    dlq_category_max_retries: Mapping[ErrorCategory, Annotated[int, Field(ge=0, le=10)]] = Field(
        default={}, description="Retry attempts by error category, where they differ from dlq_default_max_retries"
    )
    retry_jitter: bool = Field(
        default=False, description="Wait a random share of each delay, so that letters do not come back all at once"
    )
    retry_only_failed_repos: bool = Field(
        default=True, description="Retry a workflow for those repos only that failed, where that is known"
    )

    # --- sending back ---
    max_dlq_retries: int = Field(
        default=3, ge=0, le=100, description="How often a task may be requeued before it is given up"
    )
    dlq_priority_boost: int = Field(default=10, ge=0, le=100, description="What a requeue adds to a letter's priority")
    auto_requeue: AutoRequeueSettings = Field(
        default=AutoRequeueSettings(), description="The rule that sends exhausted letters back"
    )

    # --- the retry processor ---
    dlq_retry_processor_enabled: bool = Field(
        default=True,
        description="Enable automatic DLQ retry processor",
    )
    dlq_retry_interval_seconds: int = Field(
        default=60,
        ge=10,
        le=3600,
        description="DLQ retry processor check interval in seconds (10-3600)",
    )
    dlq_retry_concurrency: int = Field(
        default=50, ge=1, le=1000, description="How many attempts one processor runs at the same time"
    )
    dlq_retry_timeout_seconds: int = Field(
        default=3600, ge=1, le=7 * 86400, description="How long one attempt may run before it counts as failed"
    )
    dlq_claim_lease_seconds: int = Field(
        default=300, ge=1, le=86400, description="How long a claim lasts unless it is renewed, which a live worker does"
    )
    dlq_clock_skew_grace_seconds: int = Field(
        default=30, ge=0, le=3600, description="How long after a lease's end others wait, as clocks may differ"
    )
    dlq_stop_grace_seconds: int = Field(
        default=30, ge=0, le=3600, description="How long running attempts may take to finish when the worker stops"
    )
    deployment_mode: Literal["hybrid", "polling_only", "event_driven_only"] = Field(
        default="hybrid", description="Whether due letters are noticed by events, by polling, or by both"
    )
    circuit: CircuitSettings = Field(default=CircuitSettings(), description="The circuit breaker of each adapter")

    # --- the server ---
    server: ServerSettings = Field(default=ServerSettings(), description="The HTTP API")

    # --- classification ---
    classifier_plugins: tuple[Name, ...] = Field(
        default=(), description="Classifier plugins to load, as module or module:name, asked in this order"
    )
    plugin_directory: Path | None = Field(
        default=None, description="A directory whose Python files are loaded as plugins; nothing is loaded by default"
    )
    disabled_plugins: tuple[Name, ...] = Field(default=(), description="Names of plugins that are not to be asked")
    plugin_timeout_ms: int = Field(
        default=250, ge=1, le=60000, description="How long a plugin may take to answer before it is passed over"
    )
    classifier_rules: tuple[dict[Any, Any], ...] | str = Field(
        default=(),
        description="Classification rules without code, asked before the built-in ones",
        json_schema_extra={"allowed": "a list of rules, or the path of a YAML file with one"},
    )

    _sources: Sources = PrivateAttr()

    def __init__(self, **values: Any) -> None:
        loading: Sources | None = values.pop("_sources", None)  # from `load`, which tells problems in its own way
        sources = loading or _read(type(self), SettingsFile.choose(None, os.environ), values)
        try:
            super().__init__(**sources.values())
        except ValidationError as refused:
            if loading:
                raise
            raise config_problems.cleaned(refused, type(self), sources, sources.problems) from None
        if sources.problems and not loading:
            raise config_problems.cleaned(None, type(self), sources, sources.problems)
        self._sources = sources

    @classmethod
    def load(cls, path: str | os.PathLike[str] | None = None, **values: Any) -> Self:
        """The settings from all sources; with `path` from that file, which must exist.

        Raises SettingsError with every problem at once: an unknown key or variable, a value out of range, a file that
        is not YAML.

        >>> MahavishnuSettings.load(dlq_retry_interval_seconds=30).dlq_retry_interval_seconds
        30
        """
        return cls._from(_read(cls, SettingsFile.choose(path, os.environ), values))

    def reloaded(self) -> Self:
        """Settings from the same file and arguments and the environment, as they are now. Raises SettingsError."""
        return self._from(_read(type(self), self._sources.file_for_reload(), self._sources.arguments))

    @classmethod
    def _from(cls, sources: Sources) -> Self:
        problems = sources.problems
        try:
            settings = cls(_sources=sources)
        except ValidationError as refused:
            problems += config_problems.explained(refused, cls, sources)
        if problems:
            raise SettingsError(problems) from None
        return settings

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what `__init__` hands over: it has read and merged the sources (see config_sources for why)."""
        return (init_settings,)

    @property
    def read_from(self) -> SettingsFile | None:
        """The YAML file that was read, None if there was none."""
        return self._sources.file if self._sources.found else None

    def describe(self) -> tuple[Setting, ...]:
        """Every setting with its value and where it came from, for people: secrets are masked."""
        return tuple(
            Setting(
                key=".".join(keys),
                value=config_problems.displayed(value_at(self, keys)),
                origin=self._sources.where(keys),
                variable=variable(keys),
                allowed=allowed(type_at(type(self), keys)),
                description=field.description or "",
            )
            for keys, field in fields(type(self))
        )

    def origins(self) -> dict[str, str]:
        """Where each setting came from: "default", "argument", the variable's name, or file:line."""
        return {setting.key: setting.origin for setting in self.describe()}

    def store_arguments(self) -> dict[str, Any]:
        """What `stores.urls.open_store` is to be called with, passwords in clear."""
        return {
            "url": self.dlq_store_url,
            "local": None if self.dlq_local_url == urls.NO_STORE else self.dlq_local_url,
            "user": self.dlq_store_user,
            "password": self.dlq_store_password.get_secret_value() if self.dlq_store_password else None,
            "headers": {name: value.get_secret_value() for name, value in self.dlq_store_headers.items()} or None,
        }

    @field_validator("dlq_default_retry_policy")
    @classmethod
    def _known_policy(cls, value: str) -> str:
        valid_policies = [policy.value for policy in RetryPolicy]
        if value not in valid_policies:
            raise ValueError(f"dlq_default_retry_policy must be one of {valid_policies}, got '{value}'")
        return value

    @field_validator("dlq_store_url", mode="before")
    @classmethod
    def _store_url(cls, value: Any) -> Any:
        if value is None or value == "":
            return urls.default_store_url()
        if isinstance(value, str):
            urls.check_url("dlq_store_url", value)
        return value

    @field_validator("dlq_local_url", mode="before")
    @classmethod
    def _local_url(cls, value: Any, info: ValidationInfo) -> Any:
        store_url = info.data.get("dlq_store_url", "")
        if value is None or value == "":
            return urls.default_local_url(store_url)
        if isinstance(value, str) and value != urls.NO_STORE:
            urls.check_url("dlq_local_url", value)
            if value == store_url:
                raise ValueError("dlq_local_url must be another store than dlq_store_url, or none")
        return value

    @field_validator("dlq_store_user", "dlq_store_password", "plugin_directory", mode="before")
    @classmethod
    def _empty_is_none(cls, value: Any) -> Any:
        return None if value == "" else value

    @field_validator("plugin_directory", "classifier_rules")
    @classmethod
    def _at_home(cls, value: Any) -> Any:
        # unlike Path's, this one does not raise where there is no home
        return type(value)(os.path.expanduser(value)) if isinstance(value, str | Path) else value  # noqa: PTH111

    def __repr_args__(self) -> Any:
        """Without the passwords that URLs may hold; `__str__` uses it too."""
        for name, value in super().__repr_args__():
            yield name, urls.shown(value) if isinstance(value, str) else value


def field_paths(model: type[BaseModel] = MahavishnuSettings) -> tuple[str, ...]:
    """The key of every setting, in order: `("dlq_enabled", …, "circuit.failure_threshold", …)`."""
    return tuple(".".join(keys) for keys, _ in fields(model))


def value_at(settings: BaseModel, keys: Sequence[str]) -> Any:
    """The value of the setting that `keys` lead to."""
    value: Any = settings
    for key in keys:
        value = getattr(value, key)
    return value


def _read(model: type[BaseModel], file: SettingsFile, arguments: Mapping[str, Any]) -> Sources:
    return config_sources.read(model, file, arguments, os.environ)
