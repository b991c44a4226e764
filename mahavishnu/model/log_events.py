"""The names of log lines that machines look for. A line without one has its module's name."""

from __future__ import annotations

from typing import Any, Final

from mahavishnu.model.letter import DeadLetter

# Besides these, each event of a queue (`EventName`) is a line under its own name.
LOG_EVENTS: Final = {
    "capture.kept": "A failure is in the queue.",
    "capture.skipped": "A failure is not kept, because the strategy said so.",
    "capture.waits": "A failure is no letter yet: there is no room, or the store cannot take it. It is kept elsewhere.",
    "capture.in_memory": "A failure is in this process's memory only. The line has its redacted payload.",
    "capture.failed": "A failure could not be kept at all. The line has its redacted payload, the only trace of it.",
    "lease.lost": "The outcome of a run does not count, because somebody else owns the letter.",
    "health.warning": "Something that a person should look at.",
    "alert.notice": "Something is wrong, or over: a notice of an alert, where `alerts.log` is on.",
    "alert.failed": "A channel did not take a notice of an alert. It is tried again.",
    "store.lost": "The store does not answer; new records are kept locally.",
    "store.back": "The store answers again; what was kept locally is there.",
    "store.refused": "The store does not take a record, which stays in the local store.",
    "archive.failed": "Letters could not be archived.",
    "staleness.failed": "A stale task could not be moved.",
    "telemetry.failed": "Numbers or traces could not be told. Nothing else is wrong.",
}


def log_event(name: str, **fields: Any) -> dict[str, Any]:
    """What a log call gets as `extra`: the event's name, and fields of its own. Never a payload.

    >>> log_event("store.lost")
    {'event': 'store.lost', 'fields': {}}
    """
    assert name in LOG_EVENTS, name
    return {"event": name, "fields": fields}


def letter_fields(letter: DeadLetter) -> dict[str, Any]:
    """What a line says of a letter: names and numbers, nothing of its payload."""
    return {
        "task_id": letter.task_id,
        "entry_id": letter.entry_id,
        "namespace": letter.namespace,
        "queue": letter.queue,
        "adapter": letter.adapter,
        "fingerprint": letter.fingerprint,
        "category": str(letter.error_category),
        "status": str(letter.status),
        "attempt": letter.total_attempts,
    }
