"""model.retention."""

from __future__ import annotations

from dataclasses import dataclass

from mahavishnu.model.letter_parts import ResolutionStatus
from mahavishnu.model.rules import Rules, rule


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRules(Rules):
    """For how many days records are kept in the queue after their end; None for as long as the store lives.

    Letters go to the archive after that, former ones too, and lifecycle tasks; other records are deleted. Partitions of
    the archive are detached when `archive_months` are over. With `enabled` all of it is done in the background, every
    `interval_minutes`. `analytics_export` allows exports of the archive for analysis.
    """

    enabled: bool = rule(True, "Archive closed letters in the background when their time is over")
    completed_days: int | None = rule(30, "How long letters stay that were retried or resolved; null: always", 0, 36500)
    cancelled_days: int | None = rule(None, "How long cancelled letters stay; null: always", 0, 36500)
    permanently_failed_days: int | None = rule(None, "How long permanently failed letters stay; null: always", 0, 36500)
    history_days: int | None = rule(
        90, "How long former letters stay whose task failed again; null: as long as the letter", 0, 36500
    )
    archive_months: int | None = rule(
        6, "Detach a month of the archive after so many months; null: never", 1, 1200, zero=True
    )
    audit_days: int | None = rule(400, "How long audit entries are kept; null: always", 1, 36500, zero=True)
    runs_days: int | None = rule(90, "How long bulk runs are kept after their end; null: always", 1, 36500, zero=True)
    tasks_days: int | None = rule(
        30, "How long lifecycle tasks are kept after their end; null: always", 1, 36500, zero=True
    )
    revisions_days: int | None = rule(
        None, "How long it is kept what letters were before edits; null: as long as the letter", 1, 36500, zero=True
    )
    replies_days: int = rule(1, "How long answers to requests with an idempotency key are kept", 1, 30)
    batch_size: int = rule(1000, "How many letters are archived at once", 1, 10000)
    interval_minutes: int = rule(60, "How often it is looked for what is to be archived", 1, 1440)
    analytics_export: bool = rule(False, "Allow exports of the archive for analysis, step by step")

    def days(self, resolution: ResolutionStatus) -> int | None:
        """For how many days letters are kept whose case ended so.

        >>> rules = RetentionRules(completed_days=7)
        >>> rules.days(ResolutionStatus.REQUEUED), rules.days(ResolutionStatus.CANCELLED)
        (7, None)
        """
        if resolution not in _CLOSED:
            return None
        days: int | None = getattr(self, _KEPT_BY.get(resolution, "completed_days"))
        return days


BY_RETENTION = "retention"  # who acts where nobody asked for it

_CLOSED = tuple(
    status for status in ResolutionStatus if status not in (ResolutionStatus.PENDING, ResolutionStatus.DELETED)
)

_KEPT_BY = {
    ResolutionStatus.CANCELLED: "cancelled_days",
    ResolutionStatus.PERMANENTLY_FAILED: "permanently_failed_days",
}  # all others by `completed_days`
