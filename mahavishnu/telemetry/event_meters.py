"""Counts what the events of a queue tell: captures, attempts, lost leases, stale tasks."""

from __future__ import annotations

from mahavishnu.model.events import Event, EventName
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import NO_ADAPTER, DeadLetterStatus, ErrorCategory, RequeueOutcome
from mahavishnu.telemetry.meters import OTHER, Meters

_CAPTURES = {
    EventName.CAPTURED: "new",
    EventName.MERGED: "merged",
    EventName.REOPENED: "reopened",
}
_CATEGORIES = frozenset(map(str, ErrorCategory))
_SECONDS_PER_MINUTE = 60
_MOST_SENT_BACK = 10_000


class EventMeters:
    """A listener that counts. Bulk imports announce nothing, so they count as no captures."""

    names = frozenset(
        {
            *_CAPTURES,
            *(EventName.RETRY_STARTED, EventName.RETRY_SUCCEEDED, EventName.RETRY_FAILED, EventName.STALE_CLAIM),
            EventName.SKIPPED,
            EventName.TASK_STALE,
            EventName.RELEASED,
        }
    )

    def __init__(self, meters: Meters) -> None:
        self._meters = meters
        self._sent_back: set[str] = set()  # entry ids of letters that run for the first time since they were requeued

    def __call__(self, event: Event) -> None:
        if event.name is EventName.TASK_STALE:
            minutes = event.detail.get("time_in_state_minutes", 0)
            self._meters.observe("mahavishnu_time_until_stale_seconds", minutes * _SECONDS_PER_MINUTE)
        elif event.name is EventName.SKIPPED:
            self._meters.count("mahavishnu_captures_total", category=OTHER, outcome="skipped")
        elif event.name is EventName.RELEASED:
            if event.letter is not None:
                self._sent_back.discard(event.letter.entry_id)
        elif (letter := event.letter) is not None:
            self._count_letter(event.name, letter)

    def _count_letter(self, name: EventName, letter: DeadLetter) -> None:
        if name in _CAPTURES:
            category = str(letter.error_category)
            known = category if category in _CATEGORIES else OTHER
            self._meters.count("mahavishnu_captures_total", category=known, outcome=_CAPTURES[name])
            return
        if name is EventName.RETRY_STARTED:
            if letter.requeue is not None and letter.requeue.outcome is RequeueOutcome.IN_FLIGHT:
                if len(self._sent_back) >= _MOST_SENT_BACK:  # of runs that ended elsewhere nothing is heard
                    self._sent_back.clear()
                self._sent_back.add(letter.entry_id)
            return
        outcome = "succeeded"
        if name is EventName.STALE_CLAIM:
            self._meters.count("mahavishnu_lease_losses_total")
            outcome = "lost"
        elif name is EventName.RETRY_FAILED:
            outcome = "exhausted" if letter.status is DeadLetterStatus.EXHAUSTED else "failed"
        self._meters.count("mahavishnu_attempts_total", adapter=adapter_label(letter), outcome=outcome)
        if letter.entry_id in self._sent_back:
            self._sent_back.discard(letter.entry_id)
            if outcome != "lost":
                came = "successes" if outcome == "succeeded" else "failures"
                self._meters.count(f"mahavishnu_dlq_requeue_{came}_total")


def adapter_label(letter: DeadLetter) -> str:
    """What metrics call the adapter of a letter."""
    return letter.adapter or NO_ADAPTER
