"""Which closed letters leave the queue, when, and to which month of the archive."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from msgspec import field

from mahavishnu.bulk.run import ENDED
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import Between, Is, Query, Sort
from mahavishnu.model.record import Value
from mahavishnu.model.rules import _CLOSED, RetentionRules
from mahavishnu.tasks.task import TERMINAL

_OLDEST_FIRST = (Sort("created_at"),)


def leaving_queries(rules: RetentionRules, now: datetime, limit: int) -> list[Query]:
    """Return one query for each way in which a case ends: then an index has its due letters in order, oldest first."""
    found = []
    for resolution in _CLOSED:
        if (days := rules.days(resolution)) is not None:
            end = now - timedelta(days=days)
            # Nothing is closed before it was made. That says nothing new, but what the index has is in this order.
            where = (
                Is("resolution_status", (resolution,)),
                Between("created_at", below=end),
                Between("resolution_timestamp", below=end),
            )
            found.append(Query(where, _OLDEST_FIRST, limit))
    return found


def leaving_history(rules: RetentionRules, now: datetime, limit: int) -> Query | None:
    """Return the query for former letters that leave before the letter that succeeded them."""
    if rules.history_days is None:
        return None
    end = now - timedelta(days=rules.history_days)
    where = (Between("created_at", below=end), Between("resolution_timestamp", below=end))
    return Query(where, _OLDEST_FIRST, limit)


def leaving_tasks(rules: RetentionRules, now: datetime, limit: int) -> Query | None:
    """Return the query for lifecycle tasks due to leave, unless a letter may still go on with them."""
    if rules.tasks_days is None:
        return None
    where = (Is("state", TERMINAL), Between("state_entered_at", below=now - timedelta(days=rules.tasks_days)))
    return Query(where, (Sort("state_entered_at"),), limit)


def old_records(rules: RetentionRules, now: datetime, limit: int = 500) -> dict[str, Query]:
    """Return the queries for records that are due to be deleted, by the names of their kinds."""
    found = {
        "audit": (rules.audit_days, "at", ()),
        "runs": (rules.runs_days, "finished_at", (Is("state", ENDED),)),
        "revisions": (rules.revisions_days, "updated_at", ()),
    }
    return {
        name: Query((*more, Between(moment, below=now - timedelta(days=days))), (Sort(moment),), limit)
        for name, (days, moment, more) in found.items()
        if days is not None
    }


def may_leave(letter: DeadLetter, rules: RetentionRules, now: datetime, held: Collection[str] = ()) -> bool:
    """Return whether the letter may be archived now; never an open one, nor one of a group that is `held`."""
    closed_at, days = letter.resolution.at, rules.days(letter.resolution.status)
    if closed_at is None or days is None or letter.lease is not None or letter.fingerprint in held:
        return False
    return closed_at < now - timedelta(days=days)


def keeps_restored(restored_at: datetime | None, letter: DeadLetter, rules: RetentionRules, now: datetime) -> bool:
    """Return whether the letter was restored too recently to be archived again."""
    days = rules.days(letter.resolution.status)
    return restored_at is not None and (days is None or restored_at >= now - timedelta(days=days))


def month_of(closed_at: datetime) -> str:
    """Return the month that a letter is archived in: that of its end, however often it is archived."""
    return f"{closed_at.year:04}_{closed_at.month:02}"


def partition_name(month: str, number: int) -> str:
    """Return the name of the month's first partition, or of a further one, made because the former one was detached.

    >>> partition_name("2026_01", 1), partition_name("2026_01", 2)
    ('2026_01', '2026_01_2')
    """
    return month if number == 1 else f"{month}_{number}"


def may_hold(month: str, since: datetime | None, until: datetime | None) -> bool:
    """Return whether a partition of this month can have letters closed from `since` on and before `until`."""
    return (since is None or month >= month_of(since)) and (until is None or month <= month_of(until))


def is_past(month: str, rules: RetentionRules, now: datetime) -> bool:
    """Return whether the partition of this month is due to be detached: it ended more than `archive_months` ago.

    >>> from datetime import UTC
    >>> now = datetime(2026, 8, 1, tzinfo=UTC)
    >>> is_past("2026_01", RetentionRules(archive_months=6), now), is_past("2026_02", RetentionRules(), now)
    (True, False)
    """
    if rules.archive_months is None:
        return False
    year, _, number = month.partition("_")
    return (now.year - int(year)) * 12 + now.month - int(number) > rules.archive_months


def is_archived(entry_id: str, at_key: DeadLetter | None, in_history: bool) -> bool:
    """Return whether the copy with this entry id counts, rather than being left by an unfinished move.

    `at_key` is the present letter at its key. A copy does not count while the letter itself lives, or the history has
    it, or after it was deleted.
    """
    if at_key is not None and at_key.entry_id == entry_id:
        return at_key.is_deleted and at_key.archived_at is not None
    return not in_history


class ArchiveResult(Value, frozen=True):
    """The numbers of one pass of the archive, or with `dry_run` of what it would do.

    Steps are former letters of letters, transitions are their revisions; `lifecycle_tasks_archived` are tracked tasks.
    `failed` gives by key the reason why a letter or task stays.
    """

    tasks_archived: int = 0
    steps_archived: int = 0
    transitions_archived: int = 0
    lifecycle_tasks_archived: int = 0
    execution_time_ms: float = 0.0
    dry_run: bool = False
    failed: dict[str, str] = field(default_factory=dict)
