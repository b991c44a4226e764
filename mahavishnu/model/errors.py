"""Every error this package raises on purpose.

MahavishnuError
├── InvalidInput (ValueError)   a value was refused at the boundary; nothing was changed
│   ├── NoSuchAdapter           … because nothing is registered that could run such a workflow
│   ├── NoAdapterNamed          … because a letter does not say what runs it
│   ├── InvalidPayload          … because JSON cannot hold it; names the path
│   ├── InvalidOption           … because a queue cannot have such an option
│   └── InvalidQuery            … because the kind has no such field, or the cursor is of another list
│       └── InvalidQueryText    … because its text is no query; says where
├── CannotRestore               a payload cannot be read back with the types that it was captured with
├── StepExhausted               a step of a tracked workflow failed for good: a retry does not run it again
├── StepsGone                   the finished steps of a letter's work are not known here: nothing is run again
├── UnworkableLetter            this one letter has values that no move can work with; the others are well
├── PermissionDenied (PermissionError)  somebody may not do this; nothing was done, and it was written down
├── QueueDisabled               the app keeps no letters, and somebody asks for its queue
├── QueueFull (ValueError)      one open letter too many; nothing was stored
├── NoSuchLetter (LookupError)  there is no letter for this task
├── NoSuchGroup (LookupError)   no letter has this fingerprint, and nothing is recorded about it
├── NoSuchRun (LookupError)     there is no bulk run with this id
├── NoSuchPartition (LookupError)  there is no such month of the archive
├── NoSuchQueue (LookupError)   no queue with this name is defined
├── NoSuchView (LookupError)    no view is saved under this name
├── NoSuchTask (LookupError)    there is no lifecycle task with this id
├── InsideEventLoop (RuntimeError)  something under `app.sync` would hold up the event loop that it was called in
├── SyncTimeout (TimeoutError)  something under `app.sync` took longer than it was given
├── IllegalRunMove              the bulk run's state, or its stop rule, does not allow this
├── IllegalMove                 the state machine does not allow this move from this state
│   ├── AlreadyResolved         … because the case is closed
│   ├── NotDue                  … because nobody may take the letter yet
│   ├── ChangedMeanwhile        … because somebody else changed the record since it was read
│   └── LostLease               … because the attempt no longer owns the letter
└── StoreError
    ├── StoreUnavailable        the store cannot answer now; trying later makes sense
    │   ├── ImportStopped       … so an import has stopped; says how many letters are in
    │   └── LetterBusy          … because a letter of the same key is being run
    ├── StoreMisconfigured      wrong password, authority, permission or mapping; trying later does not help
    │   └── IncompatibleStore   … because another version made it, which this one cannot read; it was left as it is
    ├── StoreCorrupt            the file is torn or foreign; it was left as it is
    ├── ReadTimeout             this one read took too long and was broken off; a narrower query helps
    ├── ItemFailed              this one record was refused by the store
    └── CorruptRecord           this one record cannot be read
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

# What ends a process or a generator. Anything else that a plain function of a user raises is a failure of it,
# CancelledError included: plain functions are not cancelled.
ENDS = (KeyboardInterrupt, SystemExit, GeneratorExit)
R = TypeVar("R")


def is_end(error: BaseException) -> bool:
    """Return True for an error that ends the process or a generator, alone or in a group."""
    return isinstance(error, ENDS) or (isinstance(error, BaseExceptionGroup) and error.subgroup(ENDS) is not None)


class MahavishnuError(Exception):
    """The root: catch this to catch everything that is raised here on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        # The default would call the class with the finished message, which is not what most of them take.
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(kind: type[MahavishnuError], args: tuple[Any, ...], state: dict[str, Any]) -> MahavishnuError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class InvalidInput(MahavishnuError, ValueError):
    """A value was refused at the boundary; nothing was stored and nothing was changed."""


class InvalidPayload(InvalidInput):
    """JSON cannot hold the value at `path`."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path} {problem}")
        self.path = path


class CannotRestore(MahavishnuError):
    """A payload cannot be read back with the types that it was captured with: nothing of it was run.

    `path` is the JSON pointer of the part; its first name is the argument. `needs_edit`: no other version of what runs
    it could read it either.
    """

    def __init__(self, path: str, why: str, whose: str = "", *, needs_edit: bool = False) -> None:
        from mahavishnu.model.json_value import label_of  # which needs this module

        where = label_of(path) or "the payload"
        super().__init__(f"{whose}{where} {why}")
        self.path, self.why, self.needs_edit = path, why, needs_edit


class PermissionDenied(MahavishnuError, PermissionError):
    """Somebody may not do what they asked for: nothing was done, and the audit says so."""

    def __init__(self, act: str, why: str) -> None:
        super().__init__(f"{act} {why}")
        self.act, self.why = act, why


class StepExhausted(MahavishnuError):
    """A step of a tracked workflow has failed for good, or has used up its attempts: no retry runs it again."""

    def __init__(self, name: str, attempts: int, why: str | None) -> None:
        super().__init__(
            f"step {name!r} failed for good after {attempts} runs{f': {why}' if why else ''}; a requeue gives it fresh "
            "attempts (`mahavishnu dlq requeue TASK`)"
        )
        self.name = name


class StepsGone(MahavishnuError):
    """The task of a letter is not in this store, so what its finished `steps` returned is not known: nothing is run."""

    def __init__(self, task_id: str, steps: Sequence[str]) -> None:
        named = f"{', '.join(steps[:10])}{' …' if len(steps) > 10 else ''}"
        super().__init__(
            f"steps of {task_id!r} had finished ({named:.300}), and their task is not in this store, so a retry would "
            "run them again. If it may, take `lifecycle` out of the letter's metadata and redrive it: all steps are run"
        )
        self.steps = tuple(steps)


class NoSuchAdapter(InvalidInput):
    """No adapter is registered under the name that a workflow asks for."""

    def __init__(self, name: str, hint: str) -> None:
        super().__init__(f"no adapter {name!r} is registered ({hint}); call app.register_adapter({name!r}, …) first")
        self.name = name


class NoAdapterNamed(InvalidInput):
    """A letter does not say which adapter runs it; `what` it is."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} names no adapter, so this app does not know how to run it: name one "
            "(`mahavishnu dlq edit TASK --adapter NAME`), or start the processor with a callback"
        )


class InvalidQuery(InvalidInput):
    """The query uses a field that the kind of record does not have, or a value that the field cannot have."""


class InvalidQueryText(InvalidQuery):
    """A query written as text is wrong from `start` to `end` of `text`; `near`: what may have been meant there."""

    def __init__(self, problem: str, text: str, start: int, end: int, near: tuple[str, ...] = ()) -> None:
        super().__init__(f"{problem} (at character {start + 1} of the query)")
        self.problem, self.text, self.start, self.end, self.near = problem, text, start, end, near

    @property
    def marked_text(self) -> str:
        """The text in one line, and under it what is wrong.

        >>> print(InvalidQueryText("there is no name 'stats'", "stats:open", 0, 5).marked_text)
        stats:open
        ^^^^^
        """
        shown = "".join(char if char.isprintable() else " " for char in self.text)
        first = max(0, self.start - 60)
        line, width = shown[first : first + 120], max(1, min(self.end - self.start, 60))
        return f"{line}\n{' ' * (self.start - first)}{'^' * width}"


class InvalidOption(InvalidInput):
    """A queue cannot have this option; nothing was changed."""


class NoSuchQueue(MahavishnuError, LookupError):
    """No queue with this name is defined."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no queue {name!r}; create it first")
        self.name = name


class NoSuchView(MahavishnuError, LookupError):
    """No view is saved under this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no view {name!r}")
        self.name = name


class QueueDisabled(MahavishnuError):
    """The app keeps no letters: `dlq_enabled` is false in its settings."""

    def __init__(self) -> None:
        super().__init__(
            "this app keeps no letters: dlq_enabled is false in its settings. Turn it on, or look at "
            "app.queue_if_enabled, which is None then"
        )


class QueueFull(MahavishnuError, ValueError):
    """There are as many open letters as the queue may hold; nothing was stored."""

    def __init__(self, task_id: str, size: int, max_size: int) -> None:
        super().__init__(
            f"Dead letter queue is full ({size} of {max_size} open letters): task {task_id!r} was not enqueued; "
            "archive or resolve letters, or raise dlq_max_size"
        )
        self.task_id, self.size, self.max_size = task_id, size, max_size


class UnworkableLetter(MahavishnuError):
    """This one letter of many cannot be handled; the others can."""

    def __init__(self, key: str, problem: Exception) -> None:
        super().__init__(f"letter {key!r} cannot be handled: {type(problem).__name__}: {problem}")
        self.key = key


class NoSuchLetter(MahavishnuError, LookupError):
    """There is no letter under this key."""

    def __init__(self, key: str, what: str | None = None) -> None:
        super().__init__(what or f"there is no letter {key!r}")
        self.key = key


class NoSuchPartition(MahavishnuError, LookupError):
    """The archive has no partition of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the archive has no partition {name!r}")
        self.name = name


class NoSuchRun(MahavishnuError, LookupError):
    """There is no bulk run with this id."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"there is no bulk run {run_id!r}")
        self.run_id = run_id


class NoSuchTask(MahavishnuError, LookupError):
    """There is no lifecycle task with this id."""

    def __init__(self, task_id: str) -> None:
        super().__init__(f"there is no lifecycle task {task_id!r}")
        self.task_id = task_id


class IllegalRunMove(MahavishnuError):
    """The state of the bulk run does not allow this, or its stop rule would undo it at once."""

    def __init__(self, run_id: str, move: str, state: str, why: str = "") -> None:
        super().__init__(f"bulk run {run_id!r} is {state}: cannot {move} it" + (f", {why}" if why else ""))
        self.run_id, self.move, self.state = run_id, move, state


class NoSuchGroup(MahavishnuError, LookupError):
    """No letter has this fingerprint, and nothing is recorded about it."""

    def __init__(self, fingerprint: str) -> None:
        super().__init__(f"there is no group {fingerprint!r}")
        self.fingerprint = fingerprint


class InsideEventLoop(MahavishnuError, RuntimeError):
    """A blocking call was made in the thread of a running event loop, which it would hold up."""

    def __init__(self, name: str) -> None:
        called, method = (f"app.sync.{name}", f"app.{name}") if name else ("this", "the async method")
        super().__init__(
            f"{called} was called where an event loop is running, and would hold it up: say `await {method}(…)` there"
        )
        self.name = name


class SyncTimeout(MahavishnuError, TimeoutError):
    """A call did not end in time and was cancelled. Anything it had stored by then is stored."""

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__(f"{name} was cancelled after {seconds:g} s: look what it has stored before you repeat it")
        self.name, self.seconds = name, seconds


def cannot(move: str) -> str:
    """Return the words that say that a move is not possible.

    >>> cannot("archive"), cannot("give up")
    ('cannot archive it', 'cannot give it up')
    """
    verb, _, rest = move.partition(" ")
    return f"cannot {verb} it {rest}".rstrip()


class IllegalMove(MahavishnuError):
    """The state machine has no such move from this state."""

    def __init__(self, key: str, move: str, state: str, why: str = "", *, what: str = "letter") -> None:
        super().__init__(f"{what} {key!r} is {state}: {cannot(move)}" + (f", {why}" if why else ""))
        self.key, self.move, self.state = key, move, state


class AlreadyResolved(IllegalMove):
    """The case is closed. An exhausted letter can be redriven, an archived one restored."""


class NotDue(IllegalMove):
    """Nobody may take the letter before its `due_at`; a person may retry it by hand."""


class ChangedMeanwhile(IllegalMove):
    """Somebody else changed the letter, or the record of the group, since it was read. Read it and decide again."""


class LostLease(IllegalMove):
    """The attempt no longer owns the letter: its lease ran out and somebody else took it, or it was settled."""


class StoreError(MahavishnuError):
    """Something went wrong in a store."""


def require_answers(results: Iterable[R | StoreError]) -> list[R]:
    """Return the results of a read or write. Raise the first StoreError among them."""
    answers: list[R] = []
    for result in results:
        if isinstance(result, StoreError):
            raise result
        answers.append(result)
    return answers


class StoreUnavailable(StoreError):
    """The store cannot answer now: away, overloaded or full. `maybe_written`: only the answer may be lost."""

    def __init__(self, message: str, *, maybe_written: bool = False) -> None:
        super().__init__(message)
        self.maybe_written = maybe_written


class ImportStopped(StoreUnavailable):
    """The store does not answer, so an import has stopped; `taken` counts what went in before, by what became of it.

    >>> print(ImportStopped({"new": 2, "same": 1}, 5))
    the store does not answer, so the import has stopped: 3 of 5 letters are in. Import the same again when it \
answers: what is in stays as it is
    """

    def __init__(self, taken: Mapping[str, int], letters: int, *, maybe_written: bool = False) -> None:
        self.taken, self.letters = dict(taken), letters
        more = " for certain, perhaps more" if maybe_written else ""
        super().__init__(
            f"the store does not answer, so the import has stopped: {sum(taken.values())} of {letters} letters are "
            f"in{more}. Import the same again when it answers: what is in stays as it is",
            maybe_written=maybe_written,
        )


class LetterBusy(StoreUnavailable):
    """The letter under this key is being run, or deleted for good: it can take in another one when that is over."""

    def __init__(self, key: str) -> None:
        super().__init__(f"letter {key!r} is being run or deleted; another one has to wait until that is over")
        self.key = key


class StoreMisconfigured(StoreError):
    """Somebody has to change the configuration; it is never treated as an outage."""


class IncompatibleStore(StoreMisconfigured):
    """The schema number that was `found` in a store is not `supported`; 0 is that of development versions.

    `url` is that of a store that is a file: its letters are exported from there, whatever the settings name.

    >>> print(IncompatibleStore("letters.db", 2, 1))
    letters.db has schema number 2, and this version of Mahavishnu supports 1; nothing was changed. Upgrade Mahavishnu
    """

    def __init__(self, what: str, found: int, supported: int, url: str | None = None) -> None:
        if found > supported:
            has, then = f"schema number {found}", "Upgrade Mahavishnu"
        else:
            has = f"schema number {found}" if found else "no schema number (a development version made it)"
            chosen = f"dlq --store {shlex.quote(url)}" if url else "dlq"
            then = (
                f"Export its letters with the version that wrote it (mahavishnu {chosen} export --output letters.jsonl)"
                ", and import them into a new store with this one (mahavishnu dlq import letters.jsonl)"
            )
        super().__init__(
            f"{what} has {has}, and this version of Mahavishnu supports {supported}; nothing was changed. {then}"
        )
        self.found, self.supported = found, supported


class StoreCorrupt(StoreError):
    """The file is torn or foreign; it was left as it is."""


class ReadTimeout(StoreError):
    """Reading what a query means took too long, so that others would have had to wait; the store is well."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"reading {what} took longer than {seconds:g} s and was broken off: ask for less, by a filter")


class ItemFailed(StoreError):
    """The store refused this one record for its own sake."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"record {key!r} was refused: {reason}")
        self.key, self.reason = key, reason


class CorruptRecord(StoreError):
    """This one stored record cannot be read; the others can."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"record {key!r} cannot be read: {reason}")
        self.key, self.reason = key, reason
