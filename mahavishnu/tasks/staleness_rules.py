"""The staleness of lifecycle tasks, and what becomes of stale and stuck ones: by the settings and their templates."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypedDict

from msgspec.structs import replace

from mahavishnu.classify.verdict import STALE
from mahavishnu.model.letter_parts import DlqReason
from mahavishnu.model.query import Between, Condition, Is, Missing, Not, Query, Sort
from mahavishnu.model.record import Value, Version, Versioned
from mahavishnu.model.rules import LONGEST_MINUTES, Rules, rule
from mahavishnu.tasks.task import ACTIVE, OPEN, StepState, TaskRecord, TaskState, cycle_in
from mahavishnu.tasks.templates import LifecycleLimits, StalenessAction

LIVES = timedelta(minutes=5)  # after its last sign of life a run that is tracked counts as running
SIGN = timedelta(minutes=1)  # between the signs of a run; `LIVES` has room for several that do not come
_WATCHED = 100_000  # silent runs whose signs are remembered
DETECTOR = "automatic_staleness_detection"
MINUTE = timedelta(minutes=1)
KEPT_PAUSES = 20
FLAGGED = "flagged"  # the `attention` of a task that a person has to look at
WARNED = "warned"  # of one that will be stale soon
_NOTHING = LifecycleLimits()
_OWN_LIMITS = {
    TaskState.WAITING_FOR_DEPENDENCIES: ("max_waiting_for_dependencies_minutes", "waiting_for_dependencies_minutes"),
    TaskState.WAITING_FOR_RETRY: ("max_waiting_for_retry_minutes", "waiting_for_retry_minutes"),
    TaskState.STEPS_IN_PROCESS: ("max_steps_in_process_minutes", "steps_in_process_minutes"),
    TaskState.BLOCKED_BY_FAILURES: ("max_blocked_minutes", "blocked_by_failures_minutes"),
}


def lives(task: TaskRecord, now: datetime) -> bool:
    """Return whether a run of the task seems to be under way: it gave a sign of life not long ago."""
    if task.run is None or task.state not in ACTIVE:
        return False
    return not is_silent_for(task, now, LIVES)


def is_silent_for(task: TaskRecord, now: datetime, time: timedelta) -> bool:
    """Return whether the last sign of life is longer ago than this."""
    return now - max(task.state_entered_at, task.alive_at or task.state_entered_at) > time


def signs(task: TaskRecord) -> bool:
    """Return whether the task has a run that gives signs of life: once they stop, its process has died."""
    return task.run is not None and task.alive_at is not None and task.state in ACTIVE


class SignWatch:
    """Sees whether runs live, whatever their clocks say: a sign that has not changed for long enough is their end."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, tuple[tuple[object, ...], float]] = OrderedDict()

    def is_over(self, task: TaskRecord, monotonic: float) -> bool:
        """Return whether no sign of life came since a look that is longer ago than `LIVES`."""
        sign = (task.run, task.alive_at, task.transition_count)
        seen = self._seen.pop(task.task_id, None)
        if seen is None or seen[0] != sign:
            seen = sign, monotonic
        self._seen[task.task_id] = seen
        while len(self._seen) > _WATCHED:  # those that nobody has asked about for longest have mostly ended
            self._seen.popitem(last=False)
        return monotonic - seen[1] > LIVES.total_seconds()


class StalenessOutcome(StrEnum):
    """The result of handling a stale task."""

    WOULD_TRANSITION = "would_transition_to_dlq_and_error"  #: this was a dry run
    TRANSITIONED = "transitioned_to_dlq_and_error"
    MOVED_TO_DLQ_ONLY = "moved_to_dlq_only"  #: it has a letter, and goes on
    TRANSITIONED_TO_ERROR_ONLY = "transitioned_to_error_only"  #: without a letter, or its letter is made later
    TRANSITION_FAILED = "transition_failed"  #: the store did not take it
    SKIPPED_CONFLICT = "skipped_conflict"  #: it went on, or somebody else was quicker
    FLAGGED_FOR_MANUAL_REVIEW = "flagged_for_manual_review"
    ALREADY_IN_DLQ = "already_in_dlq"  #: it has an open letter


class StaleRow(TypedDict):
    """A stale task with the action that was taken, or in a dry run would be."""

    task_uuid: str
    namespace_name: str
    task_name: str
    current_state: str
    time_in_state_minutes: int
    staleness_threshold_minutes: int
    action_taken: str
    moved_to_dlq: bool
    transition_success: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StalenessRules(Rules):
    """The limits after which tasks are stale, unless a template has others, and the action to take.

    With `enabled` each worker looks every `detection_interval_seconds`; `dry_run` has it look only. `warn_ratio` is the
    share of a limit after which a task gets a warning. Downtime of all workers together, of more than
    `grace_after_downtime_seconds` (None: one interval), counts against no task.
    """

    enabled: bool = rule(True, "Look for stale tasks in the background, in every worker")
    dry_run: bool = rule(False, "Log what is stale, and change nothing")
    detection_interval_seconds: int = rule(300, "How often it is looked for stale tasks", 1, 86400)
    batch_size: int = rule(100, "How many stale tasks are moved at once", 1, 5000)
    max_batches_per_cycle: int = rule(50, "How many batches are moved, one after the other, each time", 1, 10000)
    waiting_for_dependencies_minutes: int = rule(60, "How long tasks may wait for dependencies", 1, LONGEST_MINUTES)
    waiting_for_retry_minutes: int = rule(30, "How long tasks may wait for a retry", 1, LONGEST_MINUTES)
    steps_in_process_minutes: int = rule(
        30, "How long steps may be in process, where no live run is known", 1, LONGEST_MINUTES
    )
    blocked_by_failures_minutes: int = rule(60, "How long tasks may be blocked by failures", 1, LONGEST_MINUTES)
    other_states_minutes: int = rule(1440, "How long tasks may be in any other state", 1, LONGEST_MINUTES)
    task_max_lifetime_hours: int = rule(24, "How old tasks may become that have not ended", 1, 8760)
    auto_transition_to_error: bool = rule(True, "Have stale tasks end in error")
    auto_move_to_dlq: bool = rule(True, "Make a letter of each stale task")
    emit_warnings: bool = rule(True, "Warn of tasks that will soon be stale")
    warn_ratio: float = rule(0.75, "The share of its limit after which a task gets a warning", 0.01, 0.99)
    grace_after_downtime_seconds: int | None = rule(
        None, "How long after its time a look may come before that was downtime; null: one interval", 0, 86400
    )
    enable_stuck_task_detection: bool = rule(True, "Reset tasks that are active and in which nothing goes on")
    stuck_task_detection_interval_seconds: int = rule(120, "How often it is looked for stuck tasks", 1, 86400)
    max_stuck_duration_minutes: int = rule(10, "How long nothing may go on in an active task", 1, LONGEST_MINUTES)
    max_recoveries_per_task: int = rule(3, "How often a stuck task is reset before it is given up", 0, 100)
    templates: Mapping[str, LifecycleLimits] = field(default_factory=dict)
    templates_directory: str | None = None

    def limits_of(self, template: str | None) -> LifecycleLimits:
        """Return the limits of a template; none for an unknown one."""
        return self.templates.get(template, _NOTHING) if template is not None else _NOTHING

    @property
    def interval(self) -> timedelta:
        """The time between two looks."""
        return timedelta(seconds=self.detection_interval_seconds)


class Pause(Value, frozen=True):
    """A time in which no worker looked, so that no task could go on."""

    begin: datetime
    end: datetime


class StalenessWatch(Versioned, frozen=True):
    """The last look for stale tasks in a namespace, and pauses without one, which are no downtime while `off`."""

    namespace: str
    looked_at: datetime
    pauses: tuple[Pause, ...] = ()
    off: bool = False
    version: Version | None = None

    @property
    def key(self) -> str:
        return self.namespace


class Staleness(Value, frozen=True):
    """A task's time in its state, and by how much it exceeds which limit: `late` and `over_age` may be negative."""

    in_state: timedelta
    threshold_minutes: int
    age: timedelta
    lifetime_minutes: int
    late: timedelta
    over_age: timedelta
    reason: DlqReason = DlqReason.STALENESS_TIMEOUT

    @property
    def overdue(self) -> timedelta:
        """The time by which it has exceeded a limit."""
        return max(self.late, self.over_age)

    @property
    def by_lifetime(self) -> bool:
        """True if it is only too old, and not too long in its state."""
        return self.in_state <= self.threshold_minutes * MINUTE


class StalenessPlan(Value, frozen=True):
    """The action for stale tasks of one template: a letter, an end in `error`, both; or a person looks."""

    to_letter: bool
    to_error: bool

    @property
    def review(self) -> bool:
        """True if the task stays where it is, for a person."""
        return not self.to_letter and not self.to_error


# --- limits


def lifetime_minutes(rules: StalenessRules, template: str | None) -> int:
    """Return the longest life of tasks of this template."""
    return rules.limits_of(template).max_duration_minutes or rules.task_max_lifetime_hours * 60


def threshold_minutes(rules: StalenessRules, template: str | None, state: TaskState) -> int:
    """Return how long a task of this template may be in this state.

    A template that lets its tasks live longer than others is judged by its own limits only: in states for which it has
    none, they may be as long as they live.
    """
    if (given := given_minutes(rules, template, state)) is not None:
        return given
    usual: int = getattr(rules, _OWN_LIMITS.get(state, (None, "other_states_minutes"))[1])
    return max(usual, long_life_minutes(rules, template))


def given_minutes(rules: StalenessRules, template: str | None, state: TaskState) -> int | None:
    """Return the template's own limit for this state."""
    minutes: int | None = getattr(rules.limits_of(template), _OWN_LIMITS[state][0]) if state in _OWN_LIMITS else None
    return minutes


def long_life_minutes(rules: StalenessRules, template: str | None) -> int:
    """Return the lifetime of a template that lets its tasks live longer than others; 0 for any other one."""
    longest = rules.limits_of(template).max_duration_minutes or 0
    return longest if longest > rules.task_max_lifetime_hours * 60 else 0


def plan_for(rules: StalenessRules, template: str | None) -> StalenessPlan:
    """Return the plan for stale tasks of this template: by its action, else by its booleans, else by the settings."""
    limits = rules.limits_of(template)
    match limits.staleness_action:
        case StalenessAction.DLQ:
            return StalenessPlan(True, True)
        case StalenessAction.ERROR:
            return StalenessPlan(False, True)
        case StalenessAction.MANUAL_REVIEW:
            return StalenessPlan(False, False)
    fails, goes = limits.auto_fail_on_timeout, limits.auto_dlq_on_timeout
    return StalenessPlan(
        rules.auto_move_to_dlq if goes is None else goes, rules.auto_transition_to_error if fails is None else fails
    )


# --- judging


def counted_since(since: datetime, now: datetime, pauses: Sequence[Pause] = ()) -> timedelta:
    """Return the time from then to now, without the pauses."""
    paused = (min(now, each.end) - max(since, each.begin) for each in pauses)
    return now - since - sum((each for each in paused if each > timedelta()), timedelta())


def judge(
    task: TaskRecord, rules: StalenessRules, now: datetime, pauses: Sequence[Pause] = (), share: float = 1
) -> Staleness | None:
    """Return the staleness of a task, or None; with a `share` below 1, of a task that will be stale soon.

    A run that lives is not late in its state; only the limit for its whole life counts.
    """
    if not task.is_open:
        return None
    threshold = threshold_minutes(rules, task.template, task.state)
    lifetime = lifetime_minutes(rules, task.template)
    in_state = counted_since(task.state_entered_at, now, pauses)
    age = counted_since(task.created_at, now, pauses)
    late = timedelta() if lives(task, now) else in_state - threshold * MINUTE * share
    over_age = age - lifetime * MINUTE * share
    if max(late, over_age) <= timedelta():
        return None
    reason = DlqReason.DEPENDENCY_CYCLE_DETECTED if cycle_in(task.steps) else DlqReason.STALENESS_TIMEOUT
    return Staleness(in_state, threshold, age, lifetime, late, over_age, reason)


def pauses_after(
    pauses: Sequence[Pause], last: datetime | None, now: datetime, rules: StalenessRules
) -> tuple[Pause, ...]:
    """Return the latest pauses, with the one that ends now if the last look is too long ago."""
    kept = list(pauses)[-KEPT_PAUSES + 1 :]
    given = rules.grace_after_downtime_seconds
    grace = rules.interval if given is None else timedelta(seconds=given)
    if last is not None and now - last > rules.interval + grace:
        kept.append(Pause(last, now))
    return tuple(kept)


def watch_after(
    before: StalenessWatch | None, rules: StalenessRules, now: datetime, *, namespace: str, seen_at: datetime | None
) -> StalenessWatch | None:
    """Return the record of a look that begins now, or None for no write; `seen_at` is the latest look here."""
    if not rules.enabled:
        return None if before is None or before.off else replace(before, looked_at=now, off=True)
    if before is None:
        return StalenessWatch(namespace, now)
    if not before.off and timedelta() <= now - before.looked_at < rules.interval / 4:
        return None  # another one has looked just now
    last = max(before.looked_at, seen_at or before.looked_at)
    pauses = before.pauses if before.off else pauses_after(before.pauses, last, now, rules)
    return replace(before, looked_at=max(now, last), pauses=pauses, off=False)


# --- telling


def in_minutes(time: timedelta) -> int:
    """Return whole minutes, as rows have them."""
    return int(time / MINUTE)


def stale_fingerprint(template: str | None, state: str) -> str:
    """Return the group of tasks that go stale in the same way.

    >>> stale_fingerprint("payment", "waiting_for_dependencies")
    'stale:payment:waiting_for_dependencies'
    """
    return f"{STALE}{template or '-'}:{state}"


def stale_detail(task: TaskRecord, stale: Staleness) -> dict[str, Any]:
    """Return the metadata of a stale task's transition."""
    lifetime = {"age_minutes": in_minutes(stale.age), "lifetime_minutes": stale.lifetime_minutes}
    return {
        "time_in_state_minutes": in_minutes(stale.in_state),
        "threshold_minutes": stale.threshold_minutes,
        "automatic_transition": True,
        **(lifetime if stale.by_lifetime else {}),
    }


def stale_snapshot(task: TaskRecord, detail: Mapping[str, Any]) -> dict[str, Any]:
    """Return the additions to the snapshot in a stale task's letter."""
    return {
        "task_uuid": task.task_id,
        "namespace": task.namespace,
        "task_name": task.name,
        **{name: detail[name] for name in ("time_in_state_minutes", "threshold_minutes") if name in detail},
    }


def describe_stale(task: TaskRecord, stale: Staleness) -> str:
    """Describe a stale task in one sentence for people: first what is the same for all that hang in this way."""
    name = f"{task.name:.80}"
    if stale.by_lifetime:
        return (
            f"{name} is not done after {in_minutes(stale.age)} minutes, more than the {stale.lifetime_minutes} it has"
        )
    return (
        f"{name} has been {task.state} for {in_minutes(stale.in_state)} minutes, "
        f"more than the {stale.threshold_minutes} that are allowed"
    )


# --- stuck tasks

STUCK_DETECTOR = "stuck_task_detection"  # who moved a task that was stuck too often


def stuck_minutes(rules: StalenessRules, template: str | None, state: TaskState) -> int:
    """Return how long nothing may go on with a task of this template in this active state.

    A longer limit of the template's own for the state takes precedence.

    >>> stuck_minutes(StalenessRules(), None, TaskState.STEPS_IN_PROCESS)
    10
    """
    own = given_minutes(rules, template, state) or long_life_minutes(rules, template)
    return max(rules.max_stuck_duration_minutes, own)


def idle_time(task: TaskRecord, now: datetime, pauses: Sequence[Pause] = ()) -> timedelta:
    """Return how long nothing has gone on with the task, without the pauses."""
    last = max(task.state_entered_at, *(each.at for each in task.transitions[-1:]), task.alive_at or task.created_at)
    return counted_since(last, now, pauses)


def is_stuck(task: TaskRecord, rules: StalenessRules, now: datetime, pauses: Sequence[Pause] = ()) -> bool:
    """Return whether the task is in an active state, and nothing has gone on for too long."""
    if task.state not in ACTIVE or task.run is not None:
        return False
    return idle_time(task, now, pauses) > stuck_minutes(rules, task.template, task.state) * MINUTE


def may_recover(task: TaskRecord, rules: StalenessRules) -> bool:
    """Return whether a stuck task is reset once more: not too often, and not if a step has no run left."""
    running = [step for step in task.steps if step.state is StepState.IN_PROGRESS]
    return task.recovery_count < rules.max_recoveries_per_task and all(step.may_run for step in running)


def describe_stuck(task: TaskRecord, now: datetime, pauses: Sequence[Pause] = ()) -> str:
    """Describe a stuck task in one sentence for people."""
    minutes = in_minutes(idle_time(task, now, pauses))
    return f"{task.name:.80} is {task.state}, and nothing has gone on for {minutes} minutes"


# --- queries

OPEN_TASK = Query((Is("state", OPEN),), limit=1)  # whether there is one


def stale_queries(
    rules: StalenessRules, now: datetime, limit: int, *, share: float = 1, untold: bool = False
) -> Iterator[Query]:
    """Yield queries for tasks that may be stale, by template, state and limit; `untold`: without a warning."""
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
    """Return how far a task exceeds the limit of one of the `stale_queries`, which find the most overdue first."""
    return stale.late if query.sort[0].field == "state_entered_at" else stale.over_age


def stuck_queries(rules: StalenessRules, now: datetime, limit: int) -> Iterator[Query]:
    """Yield the queries for tasks that may be stuck, oldest first: one for each template and active state."""
    known = tuple(rules.templates)
    for template in (*known, None):
        for state in ACTIVE:
            below = now - stuck_minutes(rules, template, state) * MINUTE
            where = (Is("state", (state,)), Between("state_entered_at", below=below), *_of_template(template, known))
            yield Query(where, (Sort("state_entered_at"),), limit)


def _of_template(template: str | None, known: tuple[str, ...]) -> tuple[Condition, ...]:
    """Return the condition for this template; for None, for no known one."""
    if template is not None:
        return (Is("template", (template,)),)
    return (Not(Is("template", known)),) if known else ()
