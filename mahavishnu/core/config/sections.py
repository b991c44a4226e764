"""The nested sections of the settings, and what they have in common with the top level."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationInfo, field_validator
from pydantic_core import PydanticKnownError


class Section(BaseModel):
    """Settings that belong together: immutable, no unknown keys, defaults are checked too."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, validate_default=True)

    @field_validator("*", mode="before")
    @classmethod
    def _truth_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        """YAML reads `on` and `yes` as true, and pydantic reads true as 1."""
        kind = cls.model_fields[info.field_name or ""].annotation
        if isinstance(value, bool) and kind in (int, float):
            raise PydanticKnownError("int_type" if kind is int else "float_type")
        return value


class CircuitSettings(Section):
    """When an adapter that keeps failing is left alone, and for how long."""

    failure_threshold: int = Field(
        default=5, ge=1, le=1000, description="Failures in a row after which an adapter's circuit breaker opens"
    )
    cooloff_seconds: int = Field(
        default=60, ge=1, le=86400, description="How long an open breaker waits before it lets one probe through"
    )


class AutoRequeueSettings(Section):
    """Whether what is exhausted is sent back by itself, and when."""

    enabled: bool = Field(default=False, description="Send exhausted letters back by a rule, without anybody asking")
    requeue_interval_minutes: int = Field(
        default=60, ge=1, le=7 * 1440, description="How long a letter stays exhausted before the rule sends it back"
    )
    max_auto_requeue_attempts: int = Field(
        default=2, ge=0, le=10, description="How often the rule sends one letter back before it is left for people"
    )
    requeue_backoff_multiplier: float = Field(
        default=2.0, ge=1, le=100, description="By what the wait grows each time the rule sends a letter back"
    )


class ServerSettings(Section):
    """The HTTP API: where it listens, and who may do what there."""

    host: str = Field(default="127.0.0.1", min_length=1, description="Address that the server listens on")
    port: int = Field(default=8080, ge=0, le=65535, description="Port that the server listens on; 0: any free one")
    max_body_bytes: int = Field(
        default=4 * 1024 * 1024, ge=1024, le=1024 * 1024 * 1024, description="Largest request that is read"
    )
    viewers: Mapping[str, SecretStr] = Field(
        default={}, description="Names and tokens of those who may look; without any token only this machine may"
    )
    operators: Mapping[str, SecretStr] = Field(
        default={}, description="Names and tokens of those who may also act on letters, groups and runs"
    )
    admins: Mapping[str, SecretStr] = Field(
        default={}, description="Names and tokens of those who may also delete letters"
    )
