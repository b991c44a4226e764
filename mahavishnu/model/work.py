"""Work of letters: equal work, the task ids of other work, and the effect of failures and successes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from msgspec.structs import replace

from mahavishnu.model.clock import add_time
from mahavishnu.model.ids import derived_task_id, document_key, entry_instant, is_dated_by
from mahavishnu.model.json_value import EMPTY, Json
from mahavishnu.model.letter import DeadLetter, evolve
from mahavishnu.model.letter_parts import DeadLetterStatus, SourceKind
from mahavishnu.model.record import Value

_OWN_PLACES = 3  # of those of `places_of`; a letter only joins another one under the last


class Success(Value, frozen=True):
    """A run of the application that succeeded: its payload, as a letter would keep it, and when it began.

    The clock by which it began has this `mark`; any other one may differ from it by `skew`.
    """

    payload: Json
    adapter: str | None
    repos: tuple[str, ...]
    began: datetime
    types: Json = EMPTY
    typed: bool = False
    mark: str = ""
    skew: timedelta = timedelta(0)


def same_work(letter: DeadLetter, payload: Json, types: Json = EMPTY, typed: bool = False) -> bool:
    """Return True if a run of the letter's task that failed with this payload, of these types, is the letter's work.

    Of a letter whose payload a person changed, both are: the one that it has, and the one it was captured with. Where
    no types are known they count for nothing: former versions and applications in other languages know none. `typed`:
    they are known, also where there are none, as of a text.
    """
    if letter.payload.text != payload.text and payload.digest != letter.payload.digest:  # a digest takes much longer
        return payload.digest == letter.captured_digest
    return _may_be_same_types(letter, types, typed)


def _may_be_same_types(letter: DeadLetter, types: Json, typed: bool) -> bool:
    return (
        types == letter.payload_types
        or (types.text == EMPTY.text and not typed)
        or (letter.payload_types.text == EMPTY.text and not letter.typed)
    )


def with_types_of(letter: DeadLetter, fresh: DeadLetter) -> DeadLetter:
    """Return the letter with the types of a failure of the same work, if its own capture knew none."""
    if letter.typed or letter.payload_types.text != EMPTY.text or letter.revision:
        return letter
    if letter.payload.text != fresh.payload.text or (fresh.payload_types.text == EMPTY.text and not fresh.typed):
        return letter
    return evolve(letter, payload_types=fresh.payload_types, typed=fresh.typed)


def same_letters(one: DeadLetter, other: DeadLetter) -> bool:
    """Return whether two letters of one task are the same work: not if people changed both payloads differently."""
    return same_work(one, other.payload, other.payload_types, other.typed) or same_work(
        other, one.payload, one.payload_types, one.typed
    )


def as_other_work(letter: DeadLetter) -> DeadLetter:
    """The letter under `<task id>@<digest of its payload as captured>`; its source names the task id that it had."""
    return _rename(letter, letter.captured_digest or letter.payload.digest)


def as_sole_work(letter: DeadLetter) -> DeadLetter:
    """The letter under `<task id>@<entry id>`, which no other letter can have."""
    return _rename(letter, letter.entry_id)


def original_task_id(letter: DeadLetter) -> str | None:
    """The task id that its work failed under, if the letter is other work of that; None if it is not."""
    original, mark = letter.source.id, letter.task_id.rpartition("@")[2]
    return original if original and letter.task_id == derived_task_id(original, mark) else None


def places_of(letter: DeadLetter) -> list[DeadLetter]:
    """The letter under each task id that it may have to do with; `choose_place` chooses.

    They are its own, that of other work, and one that no other letter can have. For a letter that is other work itself
    there is a last one, the task id that it failed under.
    """
    places = [letter, as_other_work(letter), as_sole_work(letter)]
    if (original := original_task_id(letter)) is not None:
        places.append(evolve(letter, task_id=original, source=replace(letter.source, id=None)))
    return places


def place_keys(letter: DeadLetter) -> list[str]:
    """The keys of `places_of`, without making those letters: for many of which nearly none has another place."""
    task_id, namespace, queue = letter.task_id, letter.namespace, letter.queue
    marks = (letter.captured_digest or letter.payload.digest, letter.entry_id)
    ids = [task_id, *(derived_task_id(task_id, mark) for mark in marks)]
    if (original := original_task_id(letter)) is not None:
        ids.append(original)
    return [document_key(each, namespace, queue) for each in ids]


def choose_place(letter: DeadLetter, found: Sequence[DeadLetter | None]) -> int:
    """Return the index in `places_of` under which a letter goes, where `found` is what lives under them.

    That is where it is already; else where an open letter is the same work and takes it in; else the first one that no
    open letter has. A closed letter takes no other letter's place: it goes under its own.
    """
    for place, there in enumerate(found):
        if there is not None and there.knows(letter.entry_id):
            return place
    if not letter.is_open:
        return 0
    for place, there in enumerate(found):
        if there is not None and there.is_open and same_letters(there, letter):
            return place
    free = (place for place, there in enumerate(found[:_OWN_PLACES]) if there is None or not there.is_open)
    return next(free, _OWN_PLACES - 1)


def _rename(letter: DeadLetter, mark: str) -> DeadLetter:
    source = letter.source if letter.source.id is not None else replace(letter.source, id=letter.task_id)
    return evolve(letter, task_id=derived_task_id(letter.task_id, mark), source=source)


def is_success_of(letter: DeadLetter, success: Success) -> bool:
    """Return True if the run did work of the open letter, of which nothing was captured after that run began.

    Of a letter whose payload a person changed that is the payload that it has now: the other one is not to be done any
    more. Work of another kind, or of another workflow, is other work, whatever its id and its payload.
    """
    return (
        letter.is_open
        and letter.source.kind is SourceKind.WORKFLOW
        and (success.adapter is None or letter.adapter in (None, success.adapter))
        and _was_captured_before(letter, success)
        and (letter.payload.text == success.payload.text or letter.payload.digest == success.payload.digest)
        and _may_be_same_types(letter, success.types, success.typed)
    )


def repos_left(letter: DeadLetter, success: Success) -> tuple[str, ...] | None:
    """The repos of the letter that are still to be done after the success, none if it was all; None: it did nothing.

    A run without repos did no repo that the letter names, and a run for some of them not all that it may be for.
    """
    if not is_success_of(letter, success):
        return None
    again = has_failed_again(letter)
    wanted = all_repos(letter.repos, letter.more_repos) if again else letter.repos
    left = tuple([repo for repo in wanted if repo not in success.repos])
    if not wanted:
        return None if success.repos else ()
    if left and (again or len(left) == len(wanted)):  # which of them the next run is for is noted elsewhere
        return None
    return left


def _was_captured_before(letter: DeadLetter, success: Success) -> bool:
    """Return whether all failures of the letter certainly came before the run; in doubt, it stays open."""
    last = _last_captured(letter)
    if last > success.began:
        return False
    known = (letter.entry_id, *letter.merged, *letter.absorbed)
    foreign = (each for each in known if not is_dated_by(each, success.mark))
    latest = max((entry_instant(each) or last for each in foreign), default=None)
    return not success.skew or latest is None or add_time(latest, success.skew) <= success.began


def _last_captured(letter: DeadLetter) -> datetime:
    """Return when its work failed last in the application, by its entry id where that failure is not kept any more."""
    if letter.occurrences == 1 or any(failure.processor is None for failure in letter.failures[1:]):
        return letter.captured_at
    made = [at for each in (*letter.merged, *letter.absorbed) if (at := entry_instant(each)) is not None]
    return max([letter.captured_at, *made])


def all_repos(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """The repos of both. Without repos a letter is for all of them."""
    return tuple(dict.fromkeys((*one, *other))) if one and other else ()


def with_more_work(letter: DeadLetter, repos: tuple[str, ...], depends_on: tuple[str, ...]) -> DeadLetter:
    """Return the open letter, to be done for `repos` and after `depends_on` too; while it runs, in a next run."""
    if depends_on:
        letter = evolve(letter, depends_on=tuple(dict.fromkeys((*letter.depends_on, *depends_on))))
    if letter.status is not DeadLetterStatus.RETRYING or letter.lease is None:
        return evolve(letter, repos=all_repos(letter.repos, repos))
    more = all_repos(letter.more_repos, repos) if has_failed_again(letter) else repos
    return evolve(letter, more_repos=more, lease=replace(letter.lease, failed_again=True))


def has_failed_again(letter: DeadLetter) -> bool:
    """Return True if its task failed elsewhere during its run, so that a success of the run is not the end of it."""
    return letter.lease is not None and (letter.lease.failed_again or bool(letter.more_repos))


_OPEN = "open"

_FAILED_BEFORE = "failed_before"  # failed after this run; a later success belongs to whoever redrove it since


class ItemOutcome(StrEnum):
    """Outcome of a redriven letter."""

    SUCCEEDED = "succeeded"
    FAILED_AGAIN = "failed_again"  #: a run failed since, whether or not further ones are due
    CLOSED = "closed"  #: before it was run, somebody closed the case, deleted the letter, or sent it again


def outcome_mark(run_id: str, outcome: ItemOutcome | None = None) -> str:
    """Return the note of a letter for a run. No outcome: it is open.

    >>> outcome_mark("0197"), outcome_mark("0197", ItemOutcome.FAILED_AGAIN)
    ('open 0197', 'failed_again 0197')
    """
    return f"{outcome or _OPEN} {run_id}"


def outcomes_after(marks: tuple[str, ...], outcome: ItemOutcome) -> tuple[str, ...]:
    """Return the marks after this outcome. The first counts; only `failed_again` may become `succeeded` later."""
    if not marks:
        return marks
    takes = (_OPEN, ItemOutcome.FAILED_AGAIN) if outcome is ItemOutcome.SUCCEEDED else (_OPEN,)
    pairs = [mark.partition(" ") for mark in marks]
    return tuple([f"{outcome if known in takes else known} {run_id}" for known, _, run_id in pairs])


def outcomes_after_redrive(marks: tuple[str, ...], *, sent: bool) -> tuple[str, ...]:
    """The marks after a person redrove the letter (`sent`), or edited its task.

    What becomes of the letter from now on is no outcome of the earlier runs: failures stay failures. A redrive closes
    the open marks, an edit leaves them open.

    >>> outcomes_after_redrive(("open 0197", "failed_again 0198", "succeeded 0199"), sent=True)
    ('closed 0197', 'failed_before 0198', 'succeeded 0199')
    """
    if not marks:
        return marks
    ended = {_OPEN: ItemOutcome.CLOSED if sent else _OPEN, ItemOutcome.FAILED_AGAIN: _FAILED_BEFORE}
    pairs = [mark.partition(" ") for mark in marks]
    return tuple([f"{ended.get(known, known)} {run_id}" for known, _, run_id in pairs])


LIFECYCLE = "lifecycle"  # in the metadata of a letter: the task that it is of, as it was then

_OTHERS, _LATEST = "other_failures", "failed_too"  # in that: failures of other runs of the work, the task of the last


def task_of(letter: DeadLetter) -> str | None:
    """The id of the lifecycle task that the letter is of; None if it is of none."""
    return _text(_lifecycle_label(letter), "task_id")


def _lifecycle_label(letter: DeadLetter) -> dict[str, Any]:
    known = None if letter.source.state is None else letter.labels.member(LIFECYCLE)
    return known if isinstance(known, dict) else {}


def _text(known: dict[str, Any], name: str) -> str | None:
    found = known.get(name)
    return found if isinstance(found, str) and found else None


def note_other_failure(letter: DeadLetter, fresh: DeadLetter) -> DeadLetter:
    """The open letter, with the task of a failure that it takes in, if that is not its own task."""
    own, other = task_of(letter), task_of(fresh)
    if own is None or own == other:
        return letter
    known = _lifecycle_label(letter)
    noted = {**known, _OTHERS: _other_failures(known) + 1, _LATEST: other}
    return evolve(letter, labels=Json.of({**letter.labels.value, LIFECYCLE: noted}))


def note_task(letter: DeadLetter, snapshot: dict[str, Any]) -> DeadLetter:
    """The letter after a tracked run of it failed, with the task of that run as it was then."""
    state = letter.source.state or snapshot["state"]
    noted = {**_lifecycle_label(letter), **snapshot, "state": state}
    labels = Json.of({**letter.labels.value, LIFECYCLE: noted})
    return evolve(letter, labels=labels, source=replace(letter.source, state=state))


def _other_failures(known: dict[str, Any]) -> int:
    count = known.get(_OTHERS)
    return count if type(count) is int and count > 0 else 0
