"""When and how often a rule may requeue an exhausted letter. `lifecycle.requeue` is the move itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from mahavishnu.model.clock import add_time, instant
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import (
    DeadLetterStatus,
    DlqReason,
    ErrorCategory,
    RequeueOutcome,
    ResolutionStatus,
    RetryPolicy,
)
from mahavishnu.model.lifecycle import retries_itself
from mahavishnu.model.query import AnyOf, Between, Is, Missing, Not, Query, Sort
from mahavishnu.model.rules import Rules, rule

BY_RULE = "system_auto_requeue"
# Only a person can solve these. `permanent` is not among them: unknown errors have that category too.
LEFT_FOR_PEOPLE = (ErrorCategory.VALIDATION, ErrorCategory.PERMISSION)
_LONGEST = timedelta(days=3650)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequeueRules(Rules):
    """The limits of requeues, their effect on the priority, and the rule for automatic requeues.

    The rule waits for the interval after a letter is exhausted, longer by the multiplier each further time, and leaves
    the letter to people after `max_auto_requeue_attempts`. Raises InvalidInput for invalid numbers.
    """

    enabled: bool = rule(False, "Send exhausted letters back by a rule, without anybody asking")
    requeue_interval_minutes: int = rule(
        60, "How long a letter stays exhausted before the rule sends it back", 1, 7 * 1440
    )
    max_auto_requeue_attempts: int = rule(
        2, "How often the rule sends one letter back before it is left for people", 0, 10
    )
    requeue_backoff_multiplier: float = rule(
        2.0, "By what the wait grows each time the rule sends a letter back", 1, 100
    )
    max_dlq_retries: int = rule(3, "How often a task may be requeued before it is given up", 0, 100, apart=True)
    dlq_priority_boost: int = rule(10, "What a requeue adds to a letter's priority", 0, 100, apart=True)

    def waiting_time(self, times: int) -> timedelta:
        """Return how long the rule waits with a letter that it has requeued so many times.

        >>> [RequeueRules().waiting_time(times) / timedelta(minutes=1) for times in (0, 1)]
        [60.0, 120.0]
        """
        try:
            return min(
                timedelta(minutes=self.requeue_interval_minutes) * self.requeue_backoff_multiplier**times, _LONGEST
            )
        except OverflowError:
            return _LONGEST

    def queries(self, now: datetime) -> Iterator[Query]:
        """Yield queries for letters that may have waited long enough: one for each number of requeues by the rule."""
        for times in range(self.max_auto_requeue_attempts if self.enabled else 0):
            sent = Is("requeue_automatic", (times,))
            yield Query(
                (
                    Is("status", (DeadLetterStatus.EXHAUSTED,)),
                    Is("resolution_status", (ResolutionStatus.PENDING,)),
                    sent if times else AnyOf((Missing("requeue_automatic"), sent)),
                    Between("exhausted_at", at_most=instant(now - self.waiting_time(times))),
                    Not(Between("dlq_retry_count", at_least=self.max_dlq_retries)),  # OpenSearch has no field for a 0
                    Not(Is("error_category", LEFT_FOR_PEOPLE)),
                    Not(Is("retry_policy", (RetryPolicy.NEVER,))),
                    Not(Is("reason", (DlqReason.QUEUE_ITEM_DEAD,))),
                ),
                (Sort("exhausted_at"),),
            )

    def objection(self, letter: DeadLetter, now: datetime) -> str | None:
        """Return why the rule does not requeue this letter now; None if it does."""
        times = letter.requeue.automatic if letter.requeue else 0
        in_flight = letter.requeue is not None and letter.requeue.outcome is RequeueOutcome.IN_FLIGHT
        if not self.enabled:
            return "automatic requeues are off"
        if not letter.is_open or letter.status is not DeadLetterStatus.EXHAUSTED or letter.exhausted_at is None:
            return "only what is exhausted and open is sent back"
        if letter.error_category in LEFT_FOR_PEOPLE or not retries_itself(letter) or in_flight:
            return "only a person can say whether it helps to run it again"
        if times >= self.max_auto_requeue_attempts or letter.dlq_retry_count >= self.max_dlq_retries:
            return "it was sent back often enough: it is left for people"
        due = add_time(letter.exhausted_at, self.waiting_time(times))
        return None if now >= due else f"it is not sent back before {due.isoformat()}"
