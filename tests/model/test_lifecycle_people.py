"""What people and new failures do to letters, T10 to T16; each with everything it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from mahavishnu.bulk.run import outcome_for
from mahavishnu.model.errors import AlreadyResolved, IllegalMove, InvalidInput
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter, evolve
from mahavishnu.model.letter_parts import (
    DeadLetterStatus,
    Requeue,
    RequeueOutcome,
    Resolution,
    ResolutionStatus,
    Source,
    Tallies,
)
from mahavishnu.model.lifecycle import (
    EDITABLE,
    archive,
    cancel,
    edit,
    exhaust,
    fail,
    give_up,
    mark_moved_by_run,
    merge,
    redrive,
    release,
    requeue,
    resolve,
    restore,
    succeed,
    violations,
)
from mahavishnu.model.work import ItemOutcome
from tests.support.letters import BY, IN_TIME, NAIVE, NOON, STANDINGS, TOKEN, captured, claimed, failure, made, noon

PENDING, RETRYING, EXHAUSTED, COMPLETED, ARCHIVED = DeadLetterStatus
due, exhausted, given_up = STANDINGS["due"], STANDINGS["exhausted"], STANDINGS["given_up"]


@pytest.mark.parametrize("standing", ["waiting", "exhausted"])
def test_redrive_gives_fresh_attempts(standing: str) -> None:
    """T10: the whole budget again, the first run due now."""
    letter = replace(STANDINGS[standing], max_retries=3, retry_count=2, total_attempts=2, recoveries=1)

    assert redrive(letter, now=noon(3)) == made(
        letter, status=PENDING, due_at=noon(3), retry_count=0, recoveries=0, exhausted_at=None
    )


def test_redrive_opens_what_was_given_up() -> None:
    """The reopening is counted, so that the sums still hold; it can be exhausted, and given up, again."""
    reopened = redrive(given_up, now=noon(3))

    assert reopened.is_open
    assert reopened.resolution == Resolution()
    assert reopened.tallies == given_up.tallies.plus("reopened")
    assert give_up(reopened, **BY).tallies == Tallies(exhausted=1, permanently_failed=2, reopened=1)


def test_a_redriven_letter_has_its_whole_budget_again() -> None:
    """T10: as many runs as the first time, with the same waits; attempts go on counting."""
    letter, rounds = captured(max_retries=3), []
    for number in range(2):
        waits, now = [], letter.due_at
        while letter.due_at is not None and now is not None:
            waits.append((letter.due_at - now) / timedelta(minutes=1))
            now = letter.due_at
            letter = fail(claimed(letter), token=TOKEN, failure=failure(), now=now)
        rounds.append(waits)
        assert (letter.status, letter.retry_count, letter.tallies.exhausted) == (EXHAUSTED, 3, number + 1)
        letter = redrive(letter, now=noon(60))

    assert rounds == [[0, 2, 4], [0, 2, 4]]
    assert letter.total_attempts == 6


@pytest.mark.parametrize(("policy", "budget"), [("never", 0), ("never", 3), ("exponential", 0)])
def test_redrive_runs_a_letter_once_that_is_not_retried(policy: str, budget: int) -> None:
    """A person asked for it: it runs, and if it fails a person has to look again."""
    redriven = redrive(captured(retry_policy=policy, max_retries=budget), now=NOON)

    failed = fail(claimed(redriven), failure=failure(), **IN_TIME)

    assert (failed.status, failed.due_at) == (EXHAUSTED, None)


def test_edit_changes_what_was_named_and_nothing_else() -> None:
    """R141, in one write."""
    letter = captured()
    changes: dict[str, Any] = {
        "payload": Json.of({"a": 1}),
        "payload_types": Json.of({"/a": "decimal"}),
        "adapter": "sweep",
        "labels": Json.of({"team": "x"}),
        "repos": ("r",),
        "max_retries": 9,
        "priority": 7,
        "depends_on": ("wf_0",),
        "due_at": noon(30),
        "retry_policy": "linear",
    }

    assert changes.keys() == EDITABLE.keys()
    source = Source(queue="sweep")  # where workers of an earlier version look for the adapter
    expected = made(letter, **changes, source=source, revision=1, captured_digest=letter.payload.digest)
    expected = evolve(expected, captured_task=letter.payload)
    assert edit(letter, now=noon(3), **changes) == expected


def test_an_edited_letter_remembers_what_it_was_captured_with() -> None:
    """Whatever it was edited to since; an edit of something else, or to what it is, is none of the payload."""
    letter = captured(payload=Json.of({"n": 1}))
    digest = letter.payload.digest

    noted = edit(letter, now=noon(3), payload=Json.of({"n": 1}), priority=3)
    edited = edit(noted, now=noon(4), payload=Json.of({"n": True}))
    again = edit(edited, now=noon(5), payload=Json.of({"n": 3}))

    assert [each.captured_digest for each in (noted, edited, again)] == [None, digest, digest]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("exponential", "never", None),
        ("exponential", "linear", noon(1)),  # what waits already keeps its date
        ("never", "linear", noon(3 + 5)),
        ("never", "immediate", noon(3)),
    ],
)
def test_edit_of_the_policy_reschedules_only_what_has_to_be(before: str, after: str, expected: datetime | None) -> None:
    """A date where one is needed, none where none may be."""
    edited = edit(captured(retry_policy=before), now=noon(3), retry_policy=after)

    assert (edited.status, edited.due_at) == (PENDING, expected)


def test_edit_of_the_policy_leaves_an_exhausted_letter_alone() -> None:
    """Only a redrive gives it a date."""
    assert edit(exhausted, now=noon(3), retry_policy="immediate").due_at is None


@pytest.mark.parametrize("field", ["status", "retry_count", "task_id", "entry_id", "tallies", "version", "nonsense"])
def test_edit_refuses_what_only_the_machine_may_change(field: str) -> None:
    """And says what can be edited."""
    change: dict[str, Any] = {field: 1}
    with pytest.raises(InvalidInput, match=rf"{field} of letter 'wf_1' cannot be edited; .*'max_retries'.* can"):
        edit(captured(), now=NOON, **change)


@pytest.mark.parametrize(
    ("letter", "changes", "complaint"),
    [
        (captured(), {"max_retries": -1}, "retry_count lies from 0 to max_retries"),
        (replace(captured(), retry_count=2, total_attempts=2), {"max_retries": 1}, "retry_count lies from 0"),
        (exhausted, {"due_at": noon(1)}, "only a pending or retrying letter has a due date"),
        (captured(), {"due_at": NAIVE}, "no time zone"),
    ],
)
def test_edit_refuses_what_would_not_be_sound(letter: DeadLetter, changes: dict[str, Any], complaint: str) -> None:
    """Naming the promise that would be broken."""
    with pytest.raises(InvalidInput, match=complaint):
        edit(letter, now=NOON, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"payload": {"a": 1}},
        {"labels": {"team": "x"}},
        {"repos": "one-repo"},
        {"depends_on": ["wf_0"]},
        {"priority": "high"},
        {"max_retries": "3"},
        {"due_at": "tomorrow"},
        {"retry_policy": 5},
    ],
    ids=str,
)
def test_edit_refuses_values_of_the_wrong_type(changes: dict[str, Any]) -> None:
    """The boundary is here: such a letter could be written, and not read again."""
    with pytest.raises(InvalidInput):
        edit(captured(), now=NOON, **changes)


def test_merge_counts_the_failure_and_leaves_the_schedule() -> None:
    """R039: one more occurrence, the latest error; dates, budget and status as they were."""
    for letter in (captured(), claimed(captured()), exhausted):
        problem = failure("the same again", noon(3))

        assert merge(letter, problem, noon(3)) == made(
            letter,
            occurrences=2,
            last_error="the same again",
            failures=(problem,),
            lease=letter.lease and replace(letter.lease, failed_again=True),
            tallies=letter.tallies.plus("deduplicated"),
        )


def test_merge_keeps_the_first_failure_and_the_latest() -> None:
    """However often it fails."""
    letter = captured(failures=(failure("first"),))
    for number in range(20):
        letter = merge(letter, failure(f"again {number}"), noon(number))

    assert letter.occurrences == 21
    assert [each.message for each in letter.failures] == ["first", "again 16", "again 17", "again 18", "again 19"]


Ending = Callable[..., DeadLetter]


@pytest.mark.parametrize("standing", ["waiting", "exhausted"])
@pytest.mark.parametrize(
    ("ending", "status", "how", "moment", "tally"),
    [
        (resolve, COMPLETED, ResolutionStatus.MANUALLY_RESOLVED, "completed_at", "manually_resolved"),  # T14
        (cancel, ARCHIVED, ResolutionStatus.CANCELLED, "archived_at", "cancelled"),  # T15
    ],
)
def test_a_person_ends_the_case(
    standing: str, ending: Ending, status: DeadLetterStatus, how: ResolutionStatus, moment: str, tally: str
) -> None:
    """T14, T15: who, when and why is on record, nothing waits any more, and it is counted once."""
    letter = STANDINGS[standing]

    assert ending(letter, now=noon(3), by="ada", notes="see #7") == made(
        letter,
        status=status,
        resolution=Resolution(how, noon(3), "ada", "see #7"),
        due_at=None,
        tallies=letter.tallies.plus(tally),
        **{moment: noon(3)},
    )


@pytest.mark.parametrize("standing", ["waiting", "exhausted"])
def test_giving_up_closes_as_permanently_failed(standing: str) -> None:
    """T12, T13: exhausted and closed. Since when it was exhausted is not overwritten."""
    letter = STANDINGS[standing]

    assert give_up(letter, now=noon(3), by="system_max_retries", notes="Max DLQ retries (3) exceeded") == made(
        letter,
        status=EXHAUSTED,
        resolution=Resolution(
            ResolutionStatus.PERMANENTLY_FAILED, noon(3), "system_max_retries", "Max DLQ retries (3) exceeded"
        ),
        due_at=None,
        exhausted_at=noon(3) if standing == "waiting" else NOON,
        tallies=letter.tallies.plus("permanently_failed"),
    )


@pytest.mark.parametrize(
    ("standing", "how"), [("waiting", ResolutionStatus.CANCELLED), ("exhausted", ResolutionStatus.PERMANENTLY_FAILED)]
)
def test_archiving_an_open_letter_ends_the_case(standing: str, how: ResolutionStatus) -> None:
    """T16: as cancelled, or as permanently failed if it was exhausted; counted as archived, and as nothing else."""
    letter = STANDINGS[standing]

    assert archive(letter, now=noon(3), by="ada", notes="old") == made(
        letter,
        status=ARCHIVED,
        resolution=Resolution(how, noon(3), "ada", "old"),
        due_at=None,
        archived_at=noon(3),
        tallies=letter.tallies.plus("archived"),
    )


@pytest.mark.parametrize("standing", ["completed", "given_up"])
def test_archiving_a_closed_letter_only_puts_it_away(standing: str) -> None:
    """T16: how the case ended stays, and it is not counted a second time."""
    letter = STANDINGS[standing]

    assert archive(letter, now=noon(3), by="ada") == made(letter, status=ARCHIVED, archived_at=noon(3))


def test_restore_takes_it_out_again() -> None:
    """With fresh attempts, due now; that it was reopened is counted."""
    letter = archive(exhausted, **BY)

    assert restore(letter, now=noon(3)) == made(
        letter,
        status=PENDING,
        resolution=Resolution(),
        due_at=noon(3),
        exhausted_at=None,
        archived_at=None,
        tallies=letter.tallies.plus("reopened"),
    )


def test_restore_forgets_that_it_was_completed() -> None:
    """A letter that waits has not been completed at any time."""
    restored = restore(archive(STANDINGS["completed"], **BY), now=noon(3))

    assert (restored.completed_at, restored.archived_at, restored.is_open) == (None, None, True)


# -------------------------------------------------------------------------------------------------------------- requeue


@pytest.mark.parametrize("standing", ["waiting", "exhausted"])
def test_requeue_sends_the_same_letter_back(standing: str) -> None:
    """T11: pending, due now, fresh attempts, lifted priority; counted as closed and opened again in one move."""
    letter = replace(STANDINGS[standing], priority=5, max_retries=3, retry_count=2, total_attempts=2)

    assert requeue(letter, now=noon(3), by="ada", boost=10, notes="see #7") == made(
        letter,
        status=PENDING,
        due_at=noon(3),
        last_retry_at=noon(3),
        priority=15,
        retry_count=0,
        exhausted_at=None,
        dlq_retry_count=1,
        requeue=Requeue(noon(3), "ada", 10, "see #7"),
        tallies=letter.tallies.plus("requeued", "reopened"),
    )


def test_a_requeue_is_made_once_until_something_came_of_it() -> None:
    """R285: who comes second changes nothing."""
    back = requeue(exhausted, **BY, boost=10)
    assert back.requeue is not None

    with pytest.raises(AlreadyResolved, match="sent back by ada already: cannot requeue it, no run has ended since"):
        requeue(back, **BY, boost=10)

    failed = fail(claimed(back, NOON), failure=failure(), **IN_TIME)
    assert failed.requeue == replace(back.requeue, outcome=RequeueOutcome.FAILED)
    assert requeue(failed, **BY, boost=10).priority == 20


def test_what_came_of_a_requeue_is_on_the_letter() -> None:
    """R290: success, failure, a failure elsewhere, or that nobody waited for it."""
    back = requeue(exhausted, **BY)
    early, late = failure(at=noon(-1)), failure(at=noon(1))
    ends: dict[RequeueOutcome, list[DeadLetter]] = {
        RequeueOutcome.SUCCEEDED: [succeed(claimed(back, NOON), **IN_TIME)],
        RequeueOutcome.FAILED: [exhaust(claimed(back, NOON), failure=failure(), **IN_TIME), merge(back, late, NOON)],
        RequeueOutcome.ABANDONED: [cancel(back, **BY), archive(back, **BY)],
        RequeueOutcome.IN_FLIGHT: [
            merge(back, early, NOON),  # from before it was sent back
            merge(claimed(back, NOON), late, NOON),  # its run goes on
            release(claimed(back, NOON), **IN_TIME),
            redrive(back, now=NOON),
        ],
    }

    for outcome, letters in ends.items():
        assert [each.requeue and each.requeue.outcome for each in letters] == [outcome] * len(letters)


def test_beyond_the_limit_it_is_given_up() -> None:
    """R282: closed as permanently failed, with the reason; its priority stays."""
    letter = replace(exhausted, priority=5, dlq_retry_count=3)

    assert requeue(letter, now=noon(3), by="ada", boost=10, limit=3) == give_up(
        letter, now=noon(3), by="system_max_retries", notes="Max DLQ retries (3) exceeded"
    )


@pytest.mark.parametrize(("priority", "lifted"), [(5, 15), (95, 100), (100, 100), (250, 250)])
def test_a_requeue_lifts_the_priority_within_bounds(priority: int, lifted: int) -> None:
    """R051: up to 100; what stands higher already stays there."""
    back = requeue(replace(exhausted, priority=priority), **BY, boost=10)

    assert (back.priority, back.requeue and back.requeue.boost) == (lifted, lifted - priority)


def test_automatic_requeues_are_counted_apart() -> None:
    """R288: so that a rule knows when to leave it to people."""
    letter = exhausted
    for automatic in (True, False, True):
        letter = fail(claimed(requeue(letter, **BY, automatic=automatic), NOON), failure=failure(), **IN_TIME)

    assert letter.requeue is not None
    assert (letter.requeue.automatic, letter.dlq_retry_count) == (2, 3)


def test_a_bulk_run_moves_a_letter_once() -> None:
    """Whoever carries the run on; a letter remembers ten runs, and all of those that are not over."""
    letter = exhausted
    for number in range(12):
        over = {"run-1", "run-2", "run-3"}
        letter = mark_moved_by_run(
            letter, redrive(letter, now=NOON), f"run-{number}", awaited=number % 2 == 0, over=over
        )

    assert letter.runs == ("run-0", *(f"run-{number}" for number in range(3, 12)))
    earlier = tuple(f"closed run-{number}" for number in (0, 4, 6, 8, 10))
    assert letter.run_outcomes == earlier, "each was sent again before it was run"
    for run_id in ("run-0", "run-11"):
        with pytest.raises(IllegalMove, match=f"bulk run {run_id} has moved it before"):
            mark_moved_by_run(letter, redrive(letter, now=NOON), run_id)
    thirteen = mark_moved_by_run(letter, redrive(letter, now=NOON), "run-12")
    assert thirteen.runs == (*letter.runs, "run-12"), "none is over"


def test_a_letter_notes_what_became_of_it_after_a_run() -> None:
    """In the same write as the move that it is: whatever people do then, it is known."""
    sent = mark_moved_by_run(exhausted, redrive(exhausted, now=NOON), "r", awaited=True)
    failed = fail(claimed(sent, NOON), failure=failure(), **IN_TIME)
    succeeded = succeed(claimed(sent, NOON), **IN_TIME)
    assert sent.run_outcomes == ("open r",)
    assert failed.run_outcomes == resolve(failed, now=NOON, by="ann").run_outcomes == ("failed_again r",)
    assert succeeded.run_outcomes == archive(succeeded, now=NOON, by="ann").run_outcomes == ("succeeded r",)
    assert resolve(sent, now=NOON, by="ann").run_outcomes == ("closed r",)


@pytest.mark.parametrize(
    "act",
    [
        lambda letter: redrive(letter, now=NOON),
        lambda letter: requeue(letter, **BY),
        lambda letter: edit(letter, now=NOON, payload=Json.of({"n": 2})),
        lambda letter: restore(archive(letter, now=NOON, by="ann"), now=NOON),
    ],
)
def test_what_others_make_of_a_letter_is_not_what_became_of_it_after_a_run(
    act: Callable[[DeadLetter], DeadLetter],
) -> None:
    """A later success is theirs; one by a retry that was left, after a note or so, is the run's."""
    letter = replace(exhausted, max_retries=3)
    sent = mark_moved_by_run(letter, redrive(letter, now=NOON), "r", awaited=True)
    failed = fail(claimed(sent, NOON), failure=failure(), **IN_TIME)
    theirs = succeed(claimed(act(failed), noon(60)), **IN_TIME)
    assert outcome_for(theirs, "r") is ItemOutcome.FAILED_AGAIN
    sent_again = act(sent).revision == sent.revision
    before = ItemOutcome.CLOSED if sent_again else ItemOutcome.SUCCEEDED
    assert outcome_for(succeed(claimed(act(sent), noon(60)), **IN_TIME), "r") is before

    noted = edit(failed, now=NOON, priority=5)
    assert outcome_for(succeed(claimed(noted, noon(60)), **IN_TIME), "r") is ItemOutcome.SUCCEEDED


# ------------------------------------------------------------------------------- more repos, while it is run for others


def run_for_api() -> DeadLetter:
    """It is run for `api`, and has failed for `web` meanwhile."""
    running = claimed(captured(repos=("api",), retry_policy="linear"))
    return merge(running, failure("web too", noon(2)), noon(2), ("api", "web"))


def test_a_run_is_not_for_what_failed_meanwhile() -> None:
    """But the next one is, whatever becomes of this one."""
    running = run_for_api()
    assert (running.repos, running.more_repos) == (("api",), ("api", "web"))
    ends = {
        ("api", "web"): [
            fail(running, failure=failure(), **IN_TIME),
            exhaust(running, failure=failure(), **IN_TIME),
            release(running, **IN_TIME),
            claimed(running, noon(60), token="token-2"),
        ],
        ("core", "api", "web"): [fail(running, failure=failure(), left=("core",), **IN_TIME)],
    }

    for repos, letters in ends.items():
        assert [(each.repos, each.more_repos) for each in letters] == [(repos, ())] * len(letters)


def test_a_success_is_none_for_what_failed_meanwhile() -> None:
    """That case is closed and the next one opened, in one move: as when it had failed a moment later.

    Nobody knows whether it failed before or after the run of that repo, so it is run again.
    """
    running = run_for_api()

    after = succeed(running, **IN_TIME)

    assert after == made(
        running,
        status=PENDING,
        lease=None,
        due_at=noon(3 + 5),
        repos=("api", "web"),
        more_repos=(),
        updated_at=running.updated_at + timedelta(milliseconds=2),  # this clock is behind
        tallies=running.tallies.plus("retry_success", "reopened"),
    )
    never = succeed(replace(running, retry_policy="never"), **IN_TIME)
    assert (never.status, never.due_at) == (PENDING, None)
    no_budget = succeed(replace(running, max_retries=0), **IN_TIME)
    assert (no_budget.status, no_budget.tallies.exhausted) == (EXHAUSTED, 1)


@pytest.mark.parametrize(
    ("repos", "failed_for", "next_if_failed"),
    [((), (), ()), ((), ("web",), ()), (("api",), ("api",), ("api",)), (("api",), (), ())],
    ids=str,
)
def test_what_failed_during_a_run_is_run_again_whatever_becomes_of_it(
    repos: tuple[str, ...], failed_for: tuple[str, ...], next_if_failed: tuple[str, ...]
) -> None:
    """Without repos a failure is one for all of them."""
    running = merge(claimed(captured(repos=repos)), failure(at=noon(2)), noon(2), failed_for)
    succeeded = succeed(running, **IN_TIME)
    failed = fail(running, failure=failure(), **IN_TIME)

    assert (succeeded.status, succeeded.repos, succeeded.lease) == (PENDING, failed_for, None)
    assert (failed.repos, failed.more_repos) == (next_if_failed, ())
    assert succeed(claimed(succeeded), **IN_TIME).status is COMPLETED
    assert violations(succeeded) == violations(failed) == []


def test_failures_during_a_run_add_up() -> None:
    running = claimed(captured(repos=("api",)))
    for repos, expected in ((("web",), ("web",)), (("api", "web"), ("web", "api")), ((), ()), (("web",), ())):
        running = merge(running, failure(at=noon(2)), noon(2), repos)
        assert running.more_repos == expected

    assert (running.occurrences, succeed(running, **IN_TIME).repos) == (5, ())


def test_a_running_letter_of_an_earlier_version_is_run_again_for_its_further_repos() -> None:
    """Its lease has no mark yet."""
    running = replace(claimed(captured(repos=("api",))), more_repos=("web",))

    assert succeed(running, **IN_TIME).repos == ("web",)
    assert merge(running, failure(at=noon(2)), noon(2), ("docs",)).more_repos == ("web", "docs")


def test_a_success_counts_for_who_sent_it_although_the_task_failed_again() -> None:
    """The requeue and the bulk run have their outcome; what failed since is a case of its own."""
    sent = requeue(captured(), **BY)
    sent = mark_moved_by_run(sent, redrive(sent, now=NOON), "run-1", awaited=True)
    running = merge(claimed(sent, noon(1)), failure(at=noon(2)), noon(2))

    after = succeed(running, **IN_TIME)

    assert after.is_open and after.requeue is not None
    assert after.requeue.outcome is RequeueOutcome.SUCCEEDED
    assert outcome_for(after, "run-1") is ItemOutcome.SUCCEEDED


def test_a_failure_for_all_repos_makes_the_letter_one_for_all() -> None:
    assert merge(captured(repos=("api",)), failure(), NOON).repos == ()
    assert merge(captured(), failure(), NOON, ("api",)).repos == ()
