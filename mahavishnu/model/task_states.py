"""The states of lifecycle tasks and of their steps, and which move leads from which to which: two tables.

`docs/lifecycle.md` is drawn from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from mahavishnu.model.errors import InvalidInput

BACK_FROM_ERROR = "dlq_requeue"  # the only reason for which a task leaves `error`, and a letter has to be open for it


class TaskState(StrEnum):
    """What a lifecycle task is doing."""

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
    """What a step of a lifecycle task is doing."""

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
    _T.WAITING_FOR_DEPENDENCIES: (
        _T.ENQUEUING_STEPS,
        _T.STEPS_IN_PROCESS,
        _T.EVALUATING_RESULTS,
        _T.BLOCKED_BY_FAILURES,
        *_TASK_ENDS,
    ),
    _T.WAITING_FOR_RETRY: (
        _T.ENQUEUING_STEPS,
        _T.STEPS_IN_PROCESS,
        _T.EVALUATING_RESULTS,
        _T.BLOCKED_BY_FAILURES,
        *_TASK_ENDS,
    ),
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
    """The one state that was named. Raises InvalidInput."""
    if not isinstance(given, str):
        raise InvalidInput(f"a task is in one state, which is named by a text, not {given!r:.80}")
    return read_states(given)[0]


def read_states(given: TaskState | str | Sequence[str]) -> tuple[TaskState, ...]:
    """The states that were named. Raises InvalidInput for one that there is not."""
    names = (given,) if isinstance(given, str) else tuple(given)
    try:
        return tuple(TaskState(name) for name in names)
    except ValueError:
        wrong = next(name for name in names if name not in list(TaskState))
        raise InvalidInput(f"there is no task state {wrong!r:.80}; there are {', '.join(TaskState)}") from None
