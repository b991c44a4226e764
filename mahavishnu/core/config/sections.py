"""Sections of the settings: what belongs to one subject, under one key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticKnownError

from mahavishnu.core.config.schema import without_passwords
from mahavishnu.model.alert_rules import AlertReason, AlertRules
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.permissions import Permission
from mahavishnu.model.templates import read_templates

Name = Annotated[str, Field(min_length=1)]
_LONGEST = 10 * 366 * 1440  # minutes


def setting(default: Any, description: str, low: Any = None, high: Any = None, allowed: str = "", **more: Any) -> Any:
    """A field of the settings; `allowed` says in words what its type does not say."""
    extra: Any = {"allowed": allowed} if allowed else None
    return Field(default, description=description, ge=low, le=high, json_schema_extra=extra, **more)


class Section(BaseModel):
    """Settings that belong together: immutable, no unknown keys, defaults are checked too."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, validate_default=True)

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_bool_as_number(cls, value: Any, info: ValidationInfo) -> Any:
        """YAML reads `on` and `yes` as true, and pydantic reads true as 1."""
        annotation = cls.model_fields[info.field_name or ""].annotation
        kinds = get_args(annotation) or (annotation,)  # of `int | None` both
        if isinstance(value, bool) and bool not in kinds and {int, float}.intersection(kinds):
            raise PydanticKnownError("int_type" if int in kinds else "float_type")
        return value

    def __repr_args__(self) -> Any:
        """Without what URLs may hold of passwords and tokens; `__str__` uses it too."""
        for name, value in super().__repr_args__():
            yield name, without_passwords(value) if isinstance(value, str) else value


class CircuitSettings(Section):
    """When an adapter that keeps failing is left alone, and for how long."""

    failure_threshold: int = setting(5, "Failures in a row after which an adapter's circuit breaker opens", 1, 1000)
    cooloff_seconds: int = setting(60, "How long an open breaker waits before it lets one probe through", 1, 86400)


class EncryptionSettings(Section):
    """Which values of payloads are stored encrypted, and by which keys."""

    fields: tuple[str, ...] = setting(
        (), "Keys of the payload and the metadata, as patterns such as *card*, whose values are stored encrypted"
    )
    keys: Mapping[str, SecretStr] = setting(
        {}, "Names and keys, 32 bytes in Base64 each; the first one stays while letters are open, the last one encrypts"
    )
    active: str = setting("", "The name of the key that encrypts, if not the last one")

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        from mahavishnu.engine.encryption import encryption_of  # with a library that only this needs

        if self.fields or self.keys:
            try:
                encryption_of(
                    self.fields, {name: key.get_secret_value() for name, key in self.keys.items()}, self.active
                )
            except InvalidInput as problem:
                raise ValueError(str(problem)) from None
        return self


class AutoRequeueSettings(Section):
    """Whether what is exhausted is sent back by itself, and when."""

    enabled: bool = setting(False, "Send exhausted letters back by a rule, without anybody asking")
    requeue_interval_minutes: int = setting(
        60, "How long a letter stays exhausted before the rule sends it back", 1, 7 * 1440
    )
    max_auto_requeue_attempts: int = setting(
        2, "How often the rule sends one letter back before it is left for people", 0, 10
    )
    requeue_backoff_multiplier: float = setting(
        2.0, "By what the wait grows each time the rule sends a letter back", 1, 100
    )


class LimitSettings(Section):
    """What somebody may do less than their role, and which letters they see. Null means: all of them."""

    permissions: tuple[Permission, ...] | None = None
    namespaces: tuple[str, ...] | None = None
    queues: tuple[str, ...] | None = None
    adapters: tuple[str, ...] | None = None


RoleName = Literal["viewer", "operator", "admin"]


class ProxySettings(Section):
    """Proxies that log people in. Their headers count only if they come from one of the addresses."""

    addresses: tuple[str, ...] = setting(
        (),
        "Addresses and networks, as 10.1.0.0/16, of proxies; what others say of who the client is counts for nothing",
    )
    user_header: str = setting("X-Remote-User", "Header in which such a proxy names the user", min_length=1)
    groups_header: str | None = setting(
        None, "Header in which it names the user's groups, with commas between; it must overwrite what clients send"
    )
    users: Mapping[str, RoleName] = setting(
        {}, "Names of users and their roles; without users and groups nobody is let in"
    )
    groups: Mapping[str, RoleName] = setting({}, "Names of groups and the roles of those who are in them")


class OidcSettings(Section):
    """A provider of OpenID Connect at which people log in (`mahavishnu-dlq[oidc]`)."""

    issuer: str = setting("", "The URL that the provider calls itself; empty: nobody logs in there")
    client_id: str = setting("", "The name by which the provider knows this server")
    client_secret: SecretStr | None = setting(None, "The secret that the provider has given it, if any")
    console_url: str = setting("", "URL of the console in browsers; the provider leads back to its /login/callback")
    scopes: str = setting("openid profile", "What is asked for; openid has to be in it", min_length=6)
    name_claim: str = setting("preferred_username", "The claim with the name that the audit says", min_length=1)
    group_claim: str = setting("groups", "The claim with the names of groups", min_length=1)
    recheck_minutes: int = setting(15, "After how long the provider is asked again who is in which group", 1, 720)
    groups: Mapping[str, RoleName] = setting({}, "Names of groups and the roles of those who are in them")


class ServerSettings(Section):
    """The HTTP API: where it listens, and who may do what there."""

    host: str = setting("127.0.0.1", "Address that the server listens on", min_length=1)
    port: int = setting(8080, "Port that the server listens on; 0: any free one", 0, 65535)
    max_body_bytes: int = setting(4 * 1024 * 1024, "Largest request that is read", 1024, 1024 * 1024 * 1024)
    viewers: Mapping[str, SecretStr] = setting(
        {}, "Names and tokens of those who may look; without any token only this machine may"
    )
    operators: Mapping[str, SecretStr] = setting(
        {}, "Names and tokens of those who may also act on letters, groups and runs"
    )
    admins: Mapping[str, SecretStr] = setting({}, "Names and tokens of those who may also delete letters")
    limits: Mapping[str, LimitSettings] = setting(
        {},
        "What those named above may do less than their role, and which letters they see",
        allowed="a map of names, each with permissions, namespaces, queues, adapters",
    )
    session_keys: tuple[SecretStr, ...] = setting(
        (),
        "Keys that sign the logins of browsers, 32 characters or more: the first signs, the others are still believed",
    )
    audit_payload_reads: bool = setting(
        False, "Write into the audit who was shown the payload of a letter or of a lifecycle task, or has exported some"
    )
    proxy: ProxySettings = ProxySettings()
    oidc: OidcSettings = OidcSettings()


class TelemetrySettings(Section):
    """What monitoring is told: numbers, traces, log lines."""

    metrics_host: str = setting(
        "127.0.0.1", "Address on which a worker answers /metrics, /healthz and /readyz", min_length=1
    )
    metrics_port: int | None = setting(
        None, "Port on which a worker answers them; 0: any free one, null: none", 0, 65535
    )
    log_format: Literal["text", "json"] = setting("text", "How servers and workers write their log to stderr")
    tracing: bool = setting(False, "Trace captures and attempts by OpenTelemetry, where that is installed")


def _check_templates(given: dict[str, Any] | str) -> dict[str, Any] | str:
    try:
        if not isinstance(given, str):
            read_templates(given)
    except InvalidInput as problem:
        raise ValueError(str(problem)) from None
    return given


Templates = Annotated[dict[str, dict[str, Any] | None] | str, AfterValidator(_check_templates)]


class StalenessSettings(Section):
    """When tracked tasks are stale, and what is done about it. Templates overrule the limits and the actions."""

    enabled: bool = setting(True, "Look for stale tasks in the background, in every worker")
    dry_run: bool = setting(False, "Log what is stale, and change nothing")
    detection_interval_seconds: int = setting(300, "How often it is looked for stale tasks", 1, 86400)
    batch_size: int = setting(100, "How many stale tasks are moved at once", 1, 5000)
    max_batches_per_cycle: int = setting(50, "How many batches are moved, one after the other, each time", 1, 10000)
    waiting_for_dependencies_minutes: int = setting(60, "How long tasks may wait for dependencies", 1, _LONGEST)
    waiting_for_retry_minutes: int = setting(30, "How long tasks may wait for a retry", 1, _LONGEST)
    steps_in_process_minutes: int = setting(
        30, "How long steps may be in process, where no live run is known", 1, _LONGEST
    )
    blocked_by_failures_minutes: int = setting(60, "How long tasks may be blocked by failures", 1, _LONGEST)
    other_states_minutes: int = setting(1440, "How long tasks may be in any other state", 1, _LONGEST)
    task_max_lifetime_hours: int = setting(24, "How old tasks may become that have not ended", 1, 8760)
    auto_transition_to_error: bool = setting(True, "Have stale tasks end in error")
    auto_move_to_dlq: bool = setting(True, "Make a letter of each stale task")
    emit_warnings: bool = setting(True, "Warn of tasks that will soon be stale")
    warn_ratio: float = setting(0.75, "The share of its limit after which a task gets a warning", 0.01, 0.99)
    grace_after_downtime_seconds: int | None = setting(
        None, "How long after its time a look may come before that was downtime; null: one interval", 0, 86400
    )
    enable_stuck_task_detection: bool = setting(True, "Reset tasks that are active and in which nothing goes on")
    stuck_task_detection_interval_seconds: int = setting(120, "How often it is looked for stuck tasks", 1, 86400)
    max_stuck_duration_minutes: int = setting(10, "How long nothing may go on in an active task", 1, _LONGEST)
    max_recoveries_per_task: int = setting(3, "How often a stuck task is reset before it is given up", 0, 100)


class ReasonsSettings(Section):
    """For which reasons lifecycle tasks get letters. A task that fails for one that is switched off has only failed."""

    staleness_timeout: bool = setting(True, "Make letters of stale tasks")
    max_retries_exceeded: bool = setting(True, "Make letters of tasks with a step that has no attempt left, or stuck")
    worker_unavailable: bool = setting(True, "Make letters of stale tasks for which no worker lives")
    dependency_cycle_detected: bool = setting(True, "Make letters of stale tasks whose steps wait for one another")
    invalid_state_transition: bool = setting(
        False, "Make letters of tasks that were to be moved as no task can be; the call raises either way"
    )


class RetentionSettings(Section):
    """How long records are kept after their end, and what becomes of the archive."""

    enabled: bool = setting(True, "Archive closed letters in the background when their time is over")
    completed_days: int | None = setting(
        30, "How long letters stay that were retried or resolved; null: always", 0, 36500
    )
    cancelled_days: int | None = setting(None, "How long cancelled letters stay; null: always", 0, 36500)
    permanently_failed_days: int | None = setting(
        None, "How long permanently failed letters stay; null: always", 0, 36500
    )
    history_days: int | None = setting(
        90, "How long former letters stay whose task failed again; null: as long as the letter", 0, 36500
    )
    archive_months: int | None = setting(6, "Detach a month of the archive after so many months; null: never", 1, 1200)
    audit_days: int | None = setting(400, "How long audit entries are kept; null: always", 1, 36500)
    runs_days: int | None = setting(90, "How long bulk runs are kept after their end; null: always", 1, 36500)
    tasks_days: int | None = setting(30, "How long lifecycle tasks are kept after their end; null: always", 1, 36500)
    revisions_days: int | None = setting(
        None, "How long it is kept what letters were before edits; null: as long as the letter", 1, 36500
    )
    replies_days: int = setting(1, "How long answers to requests with an idempotency key are kept", 1, 30)
    batch_size: int = setting(1000, "How many letters are archived at once", 1, 10000)
    interval_minutes: int = setting(60, "How often it is looked for what is to be archived", 1, 1440)
    analytics_export: bool = setting(False, "Allow exports of the archive for analysis, step by step")


class EventsSettings(Section):
    """Domain events: which of the queue and of steps are stored, and how long stored ones are kept."""

    durable_names: tuple[Annotated[str, Field(min_length=1)], ...] = setting(
        (), "Names of events of the queue, of tasks and of steps that are stored for consumers outside, such as dlq.*"
    )
    durable_outbox: bool = setting(
        False,
        "Store events that a process could not store before it died, by looking at what has changed",
    )
    acknowledged_days: int | None = setting(
        7, "How long stored events stay that every known consumer has acknowledged; null: always", 0, 36500
    )
    durable_days: int | None = setting(
        30, "How long stored events stay that a consumer has not acknowledged; null: always", 0, 36500
    )
    webhook_url: SecretStr | None = setting(
        None,
        "Where stored events are posted to, as JSON; empty: nowhere. It is a secret: many have a token in them",
        allowed="an http: or https: URL",
    )
    webhook_secret: SecretStr | None = setting(None, "What posted events are signed with")

    @field_validator("webhook_url", "webhook_secret", mode="before")
    @classmethod
    def _empty_is_none(cls, value: Any) -> Any:
        return None if value == "" else value

    @field_validator("webhook_url")
    @classmethod
    def _check_url(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not value.get_secret_value().startswith(("http://", "https://")):
            raise ValueError("events.webhook_url must begin with http:// or https://")
        return value


class AlertsSettings(Section):
    """Who is told that something is wrong: the rules, the channels, and how often."""

    rules: tuple[Name, ...] = setting(
        AlertRules().reasons, "What is told of", allowed=f"a list of some of {', '.join(map(repr, AlertReason))}"
    )
    routes: Mapping[str, tuple[Name, ...]] = setting(
        {}, "The rules that a channel is told of, by its name, where those are not all"
    )
    first_seen_minutes: int = setting(60, "How long a group of failures is new", 1, _LONGEST)
    age_hours: int = setting(24, "How long letters may wait for a person", 1, 8760)
    many_exhausted: int = setting(100, "How many exhausted letters are many, besides those of groups", 1, 100000)
    most_groups: int = setting(10, "Of how many new groups at once each has an alert of its own", 1, 1000)
    cool_down_minutes: int = setting(15, "How long nothing is said of what ended and begins again", 0, 1440)
    repeat_minutes: int | None = setting(
        240, "After how long it is said again that something is wrong that nobody has taken; null: never", 1, 10080
    )
    console_url: str | None = setting(
        None, "Where people reach the console, for links in notices", allowed="an http: or https: URL"
    )
    log: bool = setting(False, "Write notices into the log")
    webhook_url: SecretStr | None = setting(
        None,
        "Where notices are posted to, as JSON. It is a secret: many have a token in them",
        allowed="an http: or https: URL",
    )
    webhook_secret: SecretStr | None = setting(None, "What posted notices are signed with")
    slack_url: SecretStr | None = setting(None, "The incoming webhook of a Slack channel; it is a secret")
    pagerduty_key: SecretStr | None = setting(None, "The integration key of a PagerDuty service (Events API v2)")
    pagerduty_url: str = setting(
        "https://events.pagerduty.com/v2/enqueue",
        "Where PagerDuty takes events, or what speaks as it does",
        allowed="an http: or https: URL",
    )
    email_to: tuple[Name, ...] = setting((), "Addresses that notices are sent to")
    email_from: str = setting("mahavishnu@localhost", "The address that notices come from", min_length=3)
    smtp_host: str = setting("localhost", "The mail server", min_length=1)
    smtp_port: int = setting(25, "The port of the mail server", 1, 65535)
    smtp_security: Literal["none", "starttls", "tls"] = setting(
        "none", "How the mail server is spoken to: in clear, by STARTTLS, or by TLS from the start"
    )
    smtp_user: str | None = setting(None, "User name for the mail server")
    smtp_password: SecretStr | None = setting(None, "Password for the mail server")

    @field_validator(
        "console_url", "webhook_url", "webhook_secret", "slack_url", "pagerduty_key", "smtp_user", "smtp_password",
        mode="before",
    )  # fmt: skip
    @classmethod
    def _empty_is_none(cls, value: Any) -> Any:
        return None if value == "" else value

    @field_validator("console_url", "webhook_url", "slack_url", "pagerduty_url")
    @classmethod
    def _check_url(cls, value: Any, info: ValidationInfo) -> Any:
        url = value.get_secret_value() if isinstance(value, SecretStr) else value
        if url is not None and not url.startswith(("http://", "https://")):
            raise ValueError(f"alerts.{info.field_name} must begin with http:// or https://")
        return value

    @field_validator("email_to", "email_from")
    @classmethod
    def _check_addresses(cls, value: Any, info: ValidationInfo) -> Any:
        for each in (value,) if isinstance(value, str) else value:
            if not re.fullmatch(r"[^@\s<>,;]+@[^@\s<>,;]+", each):
                raise ValueError(
                    f"alerts.{info.field_name} must be an address such as ops@example.com, not {each!r:.80}"
                )
        return value

    @field_validator("rules", "routes")
    @classmethod
    def _check_names(cls, value: Any, info: ValidationInfo) -> Any:
        try:
            AlertRules(**{"reasons" if info.field_name == "rules" else "routes": value})
        except InvalidInput as problem:
            raise ValueError(f"alerts.{info.field_name}: {problem}") from None
        return value

    @model_validator(mode="after")
    def _refuse_password_in_clear(self) -> Self:
        if self.smtp_password is not None and self.smtp_security == "none":
            raise ValueError("alerts.smtp_password is only sent over TLS: alerts.smtp_security must be starttls or tls")
        return self
