"""Sections of the settings, each with one subject, under one key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import NoneType
from typing import Annotated, Any, ClassVar, Literal, Self, get_args, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    SecretStr,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticKnownError, core_schema

from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.permissions import Permission
from mahavishnu.model.rules import Rules, check_rule, rules_declared
from mahavishnu.tasks.templates import read_templates

Name = Annotated[str, Field(min_length=1)]
_NAMES: dict[Any, Any] = {  # texts in lists must not be empty
    tuple[str, ...]: tuple[Name, ...],
    Mapping[str, tuple[str, ...]]: Mapping[str, tuple[Name, ...]],
}


def setting(default: Any, description: str, low: Any = None, high: Any = None, allowed: str = "", **more: Any) -> Any:
    """Return a field of the settings; `allowed` describes what its type does not."""
    extra: Any = {"allowed": allowed} if allowed else None
    return Field(default, description=description, ge=low, le=high, json_schema_extra=extra, **more)


@contextmanager
def as_value_error(key: str = "") -> Iterator[None]:
    """Raise an InvalidInput as the ValueError that pydantic expects of a validator, after the setting's key."""
    try:
        yield
    except InvalidInput as problem:
        raise ValueError(f"{key}{problem}") from None


class Section(BaseModel):
    """Settings that belong together: immutable, no unknown keys, defaults are checked too."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, validate_default=True)

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_bool_as_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse a boolean for a number: YAML reads `on` and `yes` as true, and pydantic reads true as 1."""
        annotation = cls.model_fields[info.field_name or ""].annotation
        kinds = get_args(annotation) or (annotation,)  # of `int | None` both
        if isinstance(value, bool) and bool not in kinds and {int, float}.intersection(kinds):
            raise PydanticKnownError("int_type" if int in kinds else "float_type")
        return value

    def __repr_args__(self) -> Any:
        """Yield the arguments without passwords and tokens in URLs; `__str__` uses it too."""
        from mahavishnu.stores.urls import mask  # what only reads the settings does not wait for the stores

        for name, value in super().__repr_args__():
            shown = _section_from(value) if isinstance(value, Rules) else value
            yield name, mask(shown) if isinstance(shown, str) else shown


class RuleSection(Section):
    """The settings that are the fields of a rule set, which declares their values."""

    kind: ClassVar[type[Rules]]

    @field_validator("*", mode="before")
    @classmethod
    def _read_empty_as_none(cls, value: Any, info: ValidationInfo) -> Any:
        kinds = get_args(cls.model_fields[info.field_name or ""].annotation)
        return None if value == "" and NoneType in kinds and {str, SecretStr}.intersection(kinds) else value

    @field_validator("*")
    @classmethod
    def _check_rule(cls, value: Any, info: ValidationInfo) -> Any:
        check_rule(cls.kind, info.field_name or "", _in_clear(value))
        return value


_sections: dict[type[Rules], type[RuleSection]] = {}


def section_of(kind: type[Rules]) -> type[RuleSection]:
    """Return the section of the settings for a rule set."""
    if kind in _sections:
        return _sections[kind]
    hints, declared = get_type_hints(kind), rules_declared(kind)
    made: dict[str, Any] = {
        name: (SecretStr | None if info.secret else _NAMES.get(hints[name], hints[name]), setting_of(kind, name))
        for name, info in declared.items()
        if not info.apart
    }
    section = create_model(f"{kind.__name__.removesuffix('Rules')}Settings", __base__=RuleSection, **made)
    section.kind = kind
    return _sections.setdefault(kind, section)


def setting_of(kind: type[Rules], name: str) -> Any:
    """Return a field of the settings for a field of a rule set."""
    info = rules_declared(kind)[name]
    if kind.__dataclass_fields__[name].type == "str":
        return setting(info.default, info.description, allowed=info.allowed, min_length=info.least)
    return setting(info.default, info.description, info.least, info.most, info.allowed)


class FromSection:
    """Have pydantic read, check and write a rule set as its section of the settings."""

    def __get_pydantic_core_schema__(self, kind: type[Rules], handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of the section, with the rule set made of it."""
        read = core_schema.no_info_after_validator_function(_rules_from, handler.generate_schema(section_of(kind)))
        write = core_schema.plain_serializer_function_ser_schema(_section_from)
        return core_schema.no_info_before_validator_function(_values_of, read, serialization=write)


def _values_of(given: Any) -> Any:
    if not isinstance(given, Rules):
        return given
    return {name: getattr(given, name) for name, info in rules_declared(type(given)).items() if not info.apart}


def _section_from(rules: Rules) -> RuleSection:
    return section_of(type(rules)).model_validate(_values_of(rules))


def _rules_from(section: RuleSection) -> Rules:
    return section.kind(**{name: _in_clear(value) for name, value in section})


def _in_clear(value: Any) -> Any:
    return value.get_secret_value() if isinstance(value, SecretStr) else value


class CircuitSettings(Section):
    """The limits after which a failing adapter is left alone, and for how long."""

    failure_threshold: int = setting(5, "Failures in a row after which an adapter's circuit breaker opens", 1, 1000)
    cooloff_seconds: int = setting(60, "How long an open breaker waits before it lets one probe through", 1, 86400)


class EncryptionSettings(Section):
    """The values of payloads that are stored encrypted, and their keys."""

    fields: tuple[str, ...] = setting(
        (), "Keys of the payload and the metadata, as patterns such as *card*, whose values are stored encrypted"
    )
    keys: Mapping[str, SecretStr] = setting(
        {}, "Names and keys, 32 bytes in Base64 each; the first one stays while letters are open, the last one encrypts"
    )
    active: str = setting("", "The name of the key that encrypts, if not the last one")

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        from mahavishnu.values.encryption import encryption_of  # with a library that only this needs

        if self.fields or self.keys:
            keys = {name: key.get_secret_value() for name, key in self.keys.items()}
            with as_value_error():
                encryption_of(self.fields, keys, self.active)
        return self


class LimitSettings(Section):
    """Limits of a person below their role, and the letters they see. Null means: all of them."""

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
    """The HTTP API: its address, and the roles of its users."""

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
    """The numbers, traces and log lines for monitoring."""

    metrics_host: str = setting(
        "127.0.0.1", "Address on which a worker answers /metrics, /healthz and /readyz", min_length=1
    )
    metrics_port: int | None = setting(
        None, "Port on which a worker answers them; 0: any free one, null: none", 0, 65535
    )
    log_format: Literal["text", "json"] = setting("text", "How servers and workers write their log to stderr")
    tracing: bool = setting(False, "Trace captures and attempts by OpenTelemetry, where that is installed")


def _check_templates(given: dict[str, Any] | str) -> dict[str, Any] | str:
    if not isinstance(given, str):
        with as_value_error():
            read_templates(given)
    return given


Templates = Annotated[dict[str, dict[str, Any] | None] | str, AfterValidator(_check_templates)]
