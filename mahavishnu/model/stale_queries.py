"""The queries that find lifecycle tasks that may hang, one for each template, state and limit; the rules decide."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from mahavishnu.model.query import Between, Condition, Is, Missing, Not, Query, Sort
from mahavishnu.model.staleness import MINUTE, Staleness, StalenessRules, lifetime_minutes, threshold_minutes
from mahavishnu.model.stuck import stuck_minutes
from mahavishnu.model.task_states import ACTIVE, OPEN

OPEN_TASK = Query((Is("state", OPEN),), limit=1)  # whether there is one


def stale_queries(
    rules: StalenessRules, now: datetime, limit: int, *, share: float = 1, untold: bool = False
) -> Iterator[Query]:
    """What finds the tasks that may be stale, the oldest first: a query for each template and state, and each limit.

    Tasks of no known template are one more. With `untold` only those of which nothing was told while they are in
    their states. A pause makes tasks less stale, never more: so `judge` decides.
    """
    known = tuple(rules.templates)
    unless: tuple[Condition, ...] = (Missing("attention"),) if untold else ()
    for template in (*known, None):
        those = _of_template(template, known)
        oldest = now - lifetime_minutes(rules, template) * MINUTE * share
        for state in OPEN:
            entered = now - threshold_minutes(rules, template, state) * MINUTE * share
            for name, below in (("state_entered_at", entered), ("created_at", oldest)):
                where = (Is("state", (state,)), Between(name, below=below), *those, *unless)
                yield Query(where, (Sort(name),), limit)


def overdue_in(stale: Staleness, query: Query) -> timedelta:
    """By how much a task has exceeded the limit for which this one of the `stale_queries` looks; it finds the most
    overdue first.
    """
    return stale.late if query.sort[0].field == "state_entered_at" else stale.over_age


def stuck_queries(rules: StalenessRules, now: datetime, limit: int) -> Iterator[Query]:
    """What finds the tasks that may be stuck, the oldest first: a query for each template and active state."""
    known = tuple(rules.templates)
    for template in (*known, None):
        for state in ACTIVE:
            below = now - stuck_minutes(rules, template, state) * MINUTE
            where = (Is("state", (state,)), Between("state_entered_at", below=below), *_of_template(template, known))
            yield Query(where, (Sort("state_entered_at"),), limit)


def _of_template(template: str | None, known: tuple[str, ...]) -> tuple[Condition, ...]:
    """Of this template; for None, of none that is known."""
    if template is not None:
        return (Is("template", (template,)),)
    return (Not(Is("template", known)),) if known else ()
