"""Lifecycle tasks: one record for each tracked piece of work, with its steps and its latest moves inside.

So its creation, each move and its end are one compare-and-set each, and no reader ever sees half of a task. Two tables
hold the states of tasks and steps, and the moves between them; `tasks.rules` makes the moves.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from typing import Any
from uuid import UUID, uuid5

from msgspec.structs import replace

from mahavishnu.model.clock import instant
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.ids import DEFAULT_NAMESPACE, DEFAULT_QUEUE
from mahavishnu.model.json_value import EMPTY, Json
from mahavishnu.model.record import Value, Version, Versioned

# --- states

MARK = "dlq_reason"  # in the metadata of a move to `error` of which a letter is to be made
LETTER, CLOSE = "letter", "close"
BACK_FROM_ERROR = "dlq_requeue"  # the only reason for which a task leaves `error`, and a letter has to be open for it


class TaskState(StrEnum):
    """The state of a lifecycle task."""

    PENDING = "pending"  #: made, and not begun
    INITIALIZING = "initializing"  #: somebody has begun with it
    ENQUEUING_STEPS = "enqueuing_steps"  #: steps that are ready are being handed out
    STEPS_IN_PROCESS = "steps_in_process"  #: its workflow, or one of its steps, runs
    EVALUATING_RESULTS = "evaluating_results"  #: steps ended, and somebody decides what follows
    WAITING_FOR_DEPENDENCIES = "waiting_for_dependencies"
    WAITING_FOR_RETRY = "waiting_for_retry"  #: a step failed and is run again later
    BLOCKED_BY_FAILURES = "blocked_by_failures"  #: a step failed for good: a person decides
    COMPLETE = "complete"
    ERROR = "error"  #: it failed; a letter may bring it back
    CANCELLED = "cancelled"
    RESOLVED_MANUALLY = "resolved_manually"


class StepState(StrEnum):
    """The state of a step of a lifecycle task."""

    PENDING = "pending"
    ENQUEUED = "enqueued"
    IN_PROGRESS = "in_progress"
    ENQUEUED_FOR_ORCHESTRATION = "enqueued_for_orchestration"  #: it succeeded, and its result waits to be looked at
    ENQUEUED_AS_ERROR_FOR_ORCHESTRATION = "enqueued_as_error_for_orchestration"  #: the same after a failure
    WAITING_FOR_RETRY = "waiting_for_retry"  #: it failed and may be run again from its date on
    COMPLETE = "complete"
    ERROR = "error"  #: it failed for good, and is not run again unless a letter brings its task back
    CANCELLED = "cancelled"
    RESOLVED_MANUALLY = "resolved_manually"


_T, _S = TaskState, StepState
_TASK_ENDS = (_T.ERROR, _T.CANCELLED, _T.RESOLVED_MANUALLY)
_STEP_ENDS = (_S.ERROR, _S.CANCELLED, _S.RESOLVED_MANUALLY)
_TASK_WAITS = (_T.WAITING_FOR_DEPENDENCIES, _T.WAITING_FOR_RETRY)
_AFTER_WAITING = (_T.ENQUEUING_STEPS, _T.STEPS_IN_PROCESS, _T.EVALUATING_RESULTS, _T.BLOCKED_BY_FAILURES, *_TASK_ENDS)

TASK_TABLE: Mapping[TaskState, tuple[TaskState, ...]] = {
    _T.PENDING: (_T.INITIALIZING, *_TASK_ENDS),
    _T.INITIALIZING: (_T.ENQUEUING_STEPS, _T.STEPS_IN_PROCESS, *_TASK_WAITS, _T.COMPLETE, *_TASK_ENDS),
    _T.ENQUEUING_STEPS: (_T.STEPS_IN_PROCESS, *_TASK_WAITS, *_TASK_ENDS),
    _T.STEPS_IN_PROCESS: (_T.EVALUATING_RESULTS, *_TASK_WAITS, *_TASK_ENDS),
    _T.EVALUATING_RESULTS: (
        _T.ENQUEUING_STEPS,
        _T.STEPS_IN_PROCESS,
        *_TASK_WAITS,
        _T.BLOCKED_BY_FAILURES,
        _T.COMPLETE,
        *_TASK_ENDS,
    ),
    _T.WAITING_FOR_DEPENDENCIES: _AFTER_WAITING,
    _T.WAITING_FOR_RETRY: _AFTER_WAITING,
    _T.BLOCKED_BY_FAILURES: (_T.WAITING_FOR_RETRY, _T.EVALUATING_RESULTS, *_TASK_ENDS),
    _T.COMPLETE: (),
    _T.ERROR: (_T.PENDING,),  # for the reason BACK_FROM_ERROR only
    _T.CANCELLED: (),
    _T.RESOLVED_MANUALLY: (),
}

STEP_TABLE: Mapping[StepState, tuple[StepState, ...]] = {
    _S.PENDING: (_S.ENQUEUED, _S.IN_PROGRESS, *_STEP_ENDS),
    _S.ENQUEUED: (_S.IN_PROGRESS, _S.PENDING, *_STEP_ENDS),  # pending: nobody has taken it
    _S.IN_PROGRESS: (
        _S.ENQUEUED_FOR_ORCHESTRATION,
        _S.ENQUEUED_AS_ERROR_FOR_ORCHESTRATION,
        _S.WAITING_FOR_RETRY,
        _S.COMPLETE,
        *_STEP_ENDS,
    ),
    _S.ENQUEUED_FOR_ORCHESTRATION: (_S.COMPLETE, *_STEP_ENDS),
    _S.ENQUEUED_AS_ERROR_FOR_ORCHESTRATION: (_S.WAITING_FOR_RETRY, *_STEP_ENDS),
    _S.WAITING_FOR_RETRY: (_S.ENQUEUED, _S.IN_PROGRESS, *_STEP_ENDS),
    _S.COMPLETE: (),
    _S.ERROR: (_S.PENDING,),  # with its task, for the same reason
    _S.CANCELLED: (),
    _S.RESOLVED_MANUALLY: (),
}

INITIAL = (_T.PENDING, _T.INITIALIZING)
ACTIVE = (_T.ENQUEUING_STEPS, _T.STEPS_IN_PROCESS, _T.EVALUATING_RESULTS)
WAITING = (*_TASK_WAITS, _T.BLOCKED_BY_FAILURES)
TERMINAL = (_T.COMPLETE, *_TASK_ENDS)
OPEN = (*INITIAL, *ACTIVE, *WAITING)
STEP_TERMINAL = (_S.COMPLETE, *_STEP_ENDS)
STEP_DONE = (_S.COMPLETE, _S.RESOLVED_MANUALLY)  # what depends on it may go on


def read_state(given: object) -> TaskState:
    """Return the named state. Raises InvalidInput."""
    if not isinstance(given, str):
        raise InvalidInput(f"a task is in one state, which is named by a text, not {given!r:.80}")
    return read_states(given)[0]


def read_states(given: TaskState | str | Sequence[str]) -> tuple[TaskState, ...]:
    """Return the named states. Raises InvalidInput for an unknown one."""
    names = (given,) if isinstance(given, str) else tuple(given)
    try:
        return tuple(TaskState(name) for name in names)
    except ValueError:
        wrong = next(name for name in names if name not in list(TaskState))
        raise InvalidInput(f"there is no task state {wrong!r:.80}; there are {', '.join(TaskState)}") from None


# --- records

KEPT_TRANSITIONS = 32  # the latest ones, that a task has inside; older ones are records of their own
MAX_STEPS = 1000
RETRY_SECONDS = (30, 60, 120, 300, 600)  # between the runs of a step that fails
_IDENTITIES = UUID("0f6f5d0e-6d0c-4a53-9f0f-6b1d8f3f9c51")  # the name space of ids of tasks that are made once


class Transition(Value, frozen=True):
    """One move of a task, or of one of its steps; the `number`-th of the task. `processor` made it, for the record."""

    number: int
    from_state: str
    to_state: str
    at: datetime
    step: str | None = None
    reason: str | None = None
    metadata: Json | None = None
    processor: str | None = None


class OldTransition(Versioned, frozen=True):
    """A move that its task no longer has inside: the same, as a record that is written once."""

    key: str
    task_id: str
    namespace: str
    number: int
    from_state: str
    to_state: str
    at: datetime
    step: str | None = None
    reason: str | None = None
    metadata: Json | None = None
    processor: str | None = None
    version: Version | None = None


class StepRecord(Value, frozen=True):
    """A step of a task. `max_attempts` counts the first run too; None: as often as its task is run.

    `result` and `result_types` are its result, kept like the arguments of letters; None where that cannot come back
    equal: `why_lost` says why, and the step is run again then.
    """

    name: str
    depends_on: tuple[str, ...] = ()
    state: StepState = StepState.PENDING
    attempts: int = 0
    max_attempts: int | None = None
    retryable: bool = True
    next_retry_at: datetime | None = None
    entered_at: datetime | None = None
    result: Json | None = None
    result_types: Json | None = None
    why_lost: str | None = None
    last_error: str | None = None

    @property
    def may_run(self) -> bool:
        """True if another run of it is allowed: the first always is, a further one if attempts are left."""
        if self.attempts == 0:
            return True
        return self.retryable and (self.max_attempts is None or self.attempts < self.max_attempts)


class TaskRecord(Versioned, frozen=True):
    """A lifecycle task, with all that its letter would have: any process that finds it hanging can make one.

    `run` names the run that may report steps; `work_id` is the task id of the letter. `transition_count` counts all
    moves, `transitions` are the latest. `handed_back` names the letter, and its requeue, that brought it back last.
    `alive_at` is the last sign of life of that run, `attention` the warning or flag that the task got in this state.
    `asked` counts the requests for its letter's work when a run of the letter began last, see `tasks.letters`. `notes`
    say why the context is not all that was given: for the metadata of a letter that is not retried automatically.
    `declared`: its steps were given when it was made, and workers add no others. `owes` marks what a second write, to
    another record, has still to do: LETTER, make its letter; CLOSE, close its letter once it is complete.
    """

    task_id: str
    namespace: str
    name: str
    state: TaskState
    created_at: datetime
    state_entered_at: datetime
    identity_hash: str
    template: str | None = None
    template_version: str = "1"
    priority: int = 0
    terminal_at: datetime | None = None
    alive_at: datetime | None = None
    attention: str | None = None
    recovery_count: int = 0
    processor: str | None = None
    adapter: str | None = None
    work_id: str | None = None
    queue: str = DEFAULT_QUEUE
    retry_policy: str | None = None
    max_retries: int | None = None
    run: str | None = None
    handed_back: str | None = None
    asked: int = 0
    transition_count: int = 0
    context: Json = EMPTY
    context_types: Json = EMPTY
    notes: Json = EMPTY
    repos: tuple[str, ...] = ()
    steps: tuple[StepRecord, ...] = ()
    transitions: tuple[Transition, ...] = ()
    last_error: str | None = None
    declared: bool = False
    owes: str | None = None
    version: Version | None = None

    @property
    def key(self) -> str:
        return self.task_id

    @property
    def is_open(self) -> bool:
        """True if it has not ended."""
        return self.state not in TERMINAL

    def step(self, name: str) -> StepRecord | None:
        """Return the step of this name."""
        return next((step for step in self.steps if step.name == name), None)


evolve = replace


# --- making


def identity_of(namespace: str, name: str, template_version: str, context: Json) -> str:
    """Return what equal submissions have in common; the order of keys in the context does not matter.

    >>> identity_of("eu", "pay", "1", Json.of({"a": 1, "b": 2})) == identity_of("eu", "pay", "1", Json('{"b":2,"a":1}'))
    True
    """
    text = json.dumps([namespace, name, template_version, context.value], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def task_id_of(identity_hash: str) -> str:
    """Return the id of the only task with this identity: its creation is one create-if-absent."""
    return str(uuid5(_IDENTITIES, identity_hash))


def new_task(
    name: str,
    *,
    now: datetime,
    namespace: str = DEFAULT_NAMESPACE,
    task_id: str | None = None,
    context: Json = EMPTY,
    template: str | None = None,
    template_version: str = "1",
    priority: int = 0,
    steps: Iterable[StepRecord] = (),
    identity: Json | None = None,
) -> TaskRecord:
    """Return a new pending task. Without a `task_id`, its id is that of its identity.

    The `identity` stands for the context there, if that is not as it was given.
    Raises InvalidInput for an empty name, and for steps that cannot be: see `check_steps`.
    """
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"the name of a task must be text that is not empty, not {name!r:.80}")
    if type(priority) is not int:
        raise InvalidInput(f"the priority of task {name!r:.80} must be a whole number, not {priority!r:.80}")
    if not isinstance(template, str | None):
        raise InvalidInput(f"the template of task {name!r:.80} must be the name of one, not {template!r:.80}")
    if not isinstance(template_version, str):
        raise InvalidInput(f"the template_version of task {name!r:.80} must be text, not {template_version!r:.80}")
    steps = tuple(steps)
    check_steps(name, steps)
    hashed = identity_of(namespace, name, template_version, context if identity is None else identity)
    now = instant(now)
    return TaskRecord(
        task_id or task_id_of(hashed),
        namespace,
        name,
        TaskState.PENDING,
        now,
        now,
        hashed,
        template=template,
        template_version=template_version,
        priority=priority,
        context=context,
        steps=steps,
        declared=bool(steps),
    )


def check_steps(task: str, steps: tuple[StepRecord, ...]) -> None:
    """Raise InvalidInput for steps that no task can have: two of one name, a dependency that is missing, a cycle."""
    for each in steps:
        _check_step(task, each)
    names = [step.name for step in steps]
    known = set(names)
    if len(steps) > MAX_STEPS:
        raise InvalidInput(f"task {task!r:.80} has {len(steps)} steps; at most {MAX_STEPS} can be tracked")
    if len(known) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInput(f"task {task!r:.80} has two steps called {twice!r:.80}: give each a name of its own")
    for step in steps:
        if missing := [each for each in step.depends_on if each not in known]:
            raise InvalidInput(
                f"step {step.name!r:.80} of task {task!r:.80} needs {missing[0]!r:.80}, which it has not"
            )
    if cycle := cycle_in(steps):
        raise InvalidInput(f"the steps of task {task!r:.80} wait for one another: {' → '.join(cycle)}")


def _check_step(task: str, step: Any) -> None:
    """Raise InvalidInput for a step that could not be kept, or never be run."""
    if not isinstance(step, StepRecord):
        raise InvalidInput(f"a step of task {task!r:.80} is a StepRecord, not {step!r:.80}")
    name: object = step.name
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"a step of task {task!r:.80} must have a name that is not empty, not {name!r:.80}")
    needs: object = step.depends_on
    if not isinstance(needs, tuple) or not all(isinstance(each, str) for each in needs):
        raise InvalidInput(f"step {name!r:.80} of task {task!r:.80} depends on a tuple of names, not {needs!r:.80}")
    if (most := step.max_attempts) is None:
        return
    if type(most) is not int:
        raise InvalidInput(
            f"max_attempts of step {name!r:.80} of task {task!r:.80} is a whole number, not {most!r:.80}"
        )
    if most < 1:
        raise InvalidInput(
            f"step {name!r:.80} of task {task!r:.80} has max_attempts {most}: it could never be run; the first run "
            "counts too, so give 1 or more"
        )


def cycle_in(steps: Iterable[StepRecord]) -> list[str]:
    """Return steps that wait for one another, the first one again at the end; empty if there are none.

    >>> cycle_in([StepRecord("a", ("b",)), StepRecord("b", ("a",))])
    ['a', 'b', 'a']
    """
    try:
        TopologicalSorter({step.name: step.depends_on for step in steps}).prepare()
    except CycleError as problem:
        return list(reversed(problem.args[1]))
    return []


# --- looking


def step_readiness(task: TaskRecord, now: datetime) -> dict[str, str | None]:
    """Return for each open step why it cannot be run now; None if it can. A step in error is never ready again."""
    done = {step.name for step in task.steps if step.state in STEP_DONE}
    found: dict[str, str | None] = {}
    for step in task.steps:
        if step.state in STEP_TERMINAL:
            continue
        waits = [name for name in step.depends_on if name not in done]
        if waits:
            found[step.name] = f"it waits for {', '.join(waits)}"
        elif step.state not in (StepState.PENDING, StepState.WAITING_FOR_RETRY):
            found[step.name] = f"it is {step.state}"
        elif not step.may_run:
            found[step.name] = "it has no attempt left"
        elif step.next_retry_at is not None and step.next_retry_at > now:
            found[step.name] = f"it is retried at {step.next_retry_at.isoformat()}"
        else:
            found[step.name] = None
    return found


def retry_delay(attempts: int) -> timedelta:
    """Return the wait of a step after so many failed runs.

    >>> [retry_delay(attempts).seconds for attempts in (1, 2, 5, 9)]
    [30, 60, 600, 600]
    """
    return timedelta(seconds=RETRY_SECONDS[min(max(attempts, 1), len(RETRY_SECONDS)) - 1])


def old_transitions(task: TaskRecord) -> tuple[TaskRecord, tuple[OldTransition, ...]]:
    """Return the task without transitions that become records of their own, and these; most tasks keep all."""
    if len(task.transitions) <= KEPT_TRANSITIONS:
        return task, ()
    old, kept = task.transitions[: -KEPT_TRANSITIONS // 2], task.transitions[-KEPT_TRANSITIONS // 2 :]
    return evolve(task, transitions=kept), tuple(as_old_transition(task, each) for each in old)


def as_old_transition(task: TaskRecord, each: Transition) -> OldTransition:
    """Return a transition as a record of its own."""
    return OldTransition(
        f"{task.task_id}/{each.number:06}", task.task_id, task.namespace, each.number, each.from_state, each.to_state,
        each.at, each.step, each.reason, each.metadata, each.processor,
    )  # fmt: skip
