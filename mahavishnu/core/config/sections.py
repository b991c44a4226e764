"""Sections of the settings: what belongs to one subject, under one key."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticKnownError


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
    archive_months: int | None = setting(6, "Detach a month of the archive after so many months; null: never", 1, 1200)
    batch_size: int = setting(1000, "How many letters are archived at once", 1, 10000)
    interval_minutes: int = setting(60, "How often it is looked for what is to be archived", 1, 1440)


class EventsSettings(Section):
    """Domain events: how long those in the store are kept."""

    acknowledged_days: int | None = setting(
        7, "How long stored events stay that every known consumer has acknowledged; null: always", 0, 36500
    )
    durable_days: int | None = setting(
        30, "How long stored events stay that a consumer has not acknowledged; null: always", 0, 36500
    )
