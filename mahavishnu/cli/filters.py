"""Which letters a command is about: the options that say it, and what they are for the API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, TypeAlias

import typer

from mahavishnu.model.clock import SystemClock, instant_text
from mahavishnu.model.errors import InvalidInput

_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[smhdw])+")
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
Texts: TypeAlias = "list[str] | None"


def _option(name: str, what: str, metavar: str = "TEXT") -> Any:
    return typer.Option(name, metavar=metavar, help=what)


@dataclass(frozen=True)
class Filters:
    """Those for which all of these hold; several values of one option mean any of them."""

    status: Annotated[Texts, _option("--status", "pending, retrying, exhausted, completed or archived.")] = None
    resolution: Annotated[
        Texts,
        _option(
            "--resolution", "How the case ended: pending, requeued, permanently_failed, manually_resolved, cancelled."
        ),
    ] = None
    open: Annotated[bool, typer.Option("--open", help="Cases that have not ended: --resolution pending.")] = False
    category: Annotated[Texts, _option("--category", "Kind of failure, such as network or validation.")] = None
    policy: Annotated[Texts, _option("--policy", "Retry policy.")] = None
    reason_code: Annotated[Texts, _option("--dlq-reason", "Why the letter was written, such as workflow_failed.")] = (
        None
    )
    namespace: Annotated[Texts, _option("--namespace", "Namespace; with TASK, where the task is.")] = None
    queue: Annotated[Texts, _option("--queue", "Queue; with TASK, where the task is.")] = None
    group: Annotated[Texts, _option("--group", "Fingerprint: letters with the same cause.", "FINGERPRINT")] = None
    fingerprint: Annotated[Texts, _option("--fingerprint", "The same as --group.", "FINGERPRINT")] = None
    run: Annotated[Texts, _option("--run", "Moved by this bulk run.", "RUN")] = None
    task_id: Annotated[Texts, _option("--task-id", "Of this task, in any queue.", "TASK")] = None
    repo: Annotated[Texts, _option("--repo", "Of this repo.")] = None
    text: Annotated[str | None, _option("--text", "All of these words occur in the error.")] = None
    metadata: Annotated[Texts, _option("--metadata", "This value is in the metadata.", "PATH=VALUE")] = None
    since: Annotated[
        str | None, _option("--since", "Written within the last 2h, 30m, 1d … or since a date and time.", "WHEN")
    ] = None
    before: Annotated[str | None, _option("--before", "Written before that.", "WHEN")] = None

    @property
    def letter_scope(self) -> dict[str, str]:
        """Where single tasks are: their namespace and queue. Raises InvalidInput for any other filter."""
        given = [field.name for field in fields(self) if getattr(self, field.name) and field.name not in _PLACE]
        if given:
            raise InvalidInput(f"give tasks or filters, not both: {', '.join(f'--{_shown(name)}' for name in given)}")
        many = [name for name in _PLACE if len(getattr(self, name) or ()) > 1]
        if many:
            raise InvalidInput(f"a task is in one {many[0]}, not in several")
        return {name: value[0] for name in _PLACE if (value := getattr(self, name))}

    @property
    def any_given(self) -> bool:
        """Whether there is any."""
        return any(getattr(self, field.name) for field in fields(self))

    def api_filter(self) -> dict[str, Any]:
        """The filter, in the API's words. Raises InvalidInput."""
        if self.open and self.resolution:
            raise InvalidInput("give --open or --resolution, not both")
        return without_empty(
            {
                "status": self.status,
                "resolution_status": ["pending"] if self.open else self.resolution,
                "category": self.category,
                "policy": self.policy,
                "reason": self.reason_code,
                "namespace": self.namespace,
                "queue": self.queue,
                "fingerprint": [*(self.group or ()), *(self.fingerprint or ())],
                "run": self.run,
                "task_id": self.task_id,
                "repo": self.repo,
                "text": self.text,
                "metadata": self.metadata,
                "created_from": instant_from(self.since, "--since"),
                "created_before": instant_from(self.before, "--before"),
            }
        )


_PLACE = ("namespace", "queue")


def _shown(name: str) -> str:
    return {"reason_code": "dlq-reason"}.get(name, name.replace("_", "-"))


def without_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    """What was said, without what was not."""
    return {name: value for name, value in values.items() if value not in (None, [], "")}


def instant_from(text: str | None, option: str, now: datetime | None = None, *, ahead: bool = False) -> str | None:
    """An instant from `2h` (so long ago; `ahead`: from now) or a date and time, which is UTC unless it says otherwise.

    >>> noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    >>> instant_from("1h30m", "--since", noon), instant_from("2029-12-31", "--since", noon)
    ('2030-01-01T10:30:00.000Z', '2029-12-31T00:00:00.000Z')
    """
    if not text:
        return None
    if _DURATION.fullmatch(text):
        seconds = sum(float(count) * _SECONDS[unit] for count, unit in _PART.findall(text))
        now = now or SystemClock().now()
        try:
            return instant_text(now + timedelta(seconds=seconds if ahead else -seconds))
        except OverflowError:
            raise InvalidInput(f"{option} {text} is longer than there are dates for") from None
    try:
        moment = datetime.fromisoformat(text)
        return instant_text(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise InvalidInput(f"{option} takes a time such as 2h, 1d or 2026-01-31T12:00, not {text!r:.80}") from None
