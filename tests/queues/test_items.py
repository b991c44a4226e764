"""What becomes of an item: the rules, without a store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mahavishnu.model.errors import IllegalMove, InvalidInput, LostLease
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus, Failure, RetryPolicy, Source, SourceKind
from mahavishnu.model.lifecycle import claim, violations
from mahavishnu.queues import items as rules
from mahavishnu.queues.items import ItemStatus, QueueItem
from mahavishnu.queues.rules import OnDead, QueueDefinition, RetryRule

NOW = datetime(2030, 1, 1, tzinfo=UTC)
BOOM = Failure(at=NOW, message="boom")


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def queue(**values: Any) -> QueueDefinition:
    return QueueDefinition("q", NOW, NOW, **values)


def item(definition: QueueDefinition | None = None, **values: Any) -> DeadLetter:
    letter = rules.new_item(definition or queue(), Json.of({"n": 1}), NOW, **values)
    assert violations(letter) == []
    return letter


def leased(letter: DeadLetter, seconds: float = 60, now: datetime = NOW) -> DeadLetter:
    return claim(letter, owner="w", token="t", until=now + timedelta(seconds=seconds), now=now)


def sound(letter: DeadLetter) -> DeadLetter:
    assert violations(letter) == []
    return letter


def test_a_new_item_can_be_leased_and_is_nobodys_failure() -> None:
    letter = item()
    assert (letter.namespace, letter.queue, letter.reason, letter.failures) == ("default@q", "q", "queued", ())
    assert rules.status_of(letter, NOW) is ItemStatus.PENDING
    assert letter.task_id == letter.entry_id
    assert letter.key == f"default@q/q/{letter.entry_id}"


def test_items_of_a_clock_that_goes_back_stay_in_their_order() -> None:
    later = rules.new_item(queue(), Json.of(1), after(60))
    earlier = rules.new_item(queue(), Json.of(2), NOW)
    assert (later.created_at, later.entry_id) <= (earlier.created_at, earlier.entry_id)
    assert earlier.due_at is not None and earlier.due_at <= NOW


@pytest.mark.parametrize("attempts", [0, 1])
def test_no_attempts_and_one_are_the_same(attempts: int) -> None:
    failed = sound(rules.fail_item(leased(item()), queue(retry=RetryRule(attempts)), "t", BOOM, after(1)))
    assert (rules.status_of(failed, after(1)), failed.retry_count, failed.reason) == (
        "dead", 1, "max_attempts_exceeded",
    )  # fmt: skip


def test_a_failure_counts_by_the_definition_of_its_moment() -> None:
    letter = item(queue(retry=RetryRule(3, "30s")))
    once = sound(rules.fail_item(leased(letter), queue(retry=RetryRule(3, "30s")), "t", BOOM, NOW))
    assert (once.retry_count, once.due_at) == (1, after(30))
    again = leased(once, now=after(30))
    stricter = sound(rules.fail_item(again, queue(retry=RetryRule(1)), "t", BOOM, after(31)))
    assert (stricter.status, stricter.retry_count) == ("exhausted", 2)
    laxer = sound(rules.fail_item(again, queue(retry=RetryRule(9)), "t", BOOM, after(31)))
    assert (laxer.status, laxer.retry_count) == ("pending", 2)
    longer = rules.fail_item(again, queue(retry=RetryRule(9, "5s")), "t", BOOM, NOW, retry_in=timedelta(minutes=1))
    assert longer.due_at == after(60)


@pytest.mark.parametrize(
    ("definition", "options", "reason", "bound_for"),
    [
        (queue(dead_queue="D"), {}, "max_attempts_exceeded", "D"),
        (queue(dead_queue="D", retry=RetryRule(5)), {"dead": True}, "queue_item_dead", "D"),
        (queue(), {}, "max_attempts_exceeded", None),
        (None, {}, "queue_definition_missing", None),
    ],
)
def test_why_an_item_died_and_where_it_goes(
    definition: QueueDefinition | None, options: dict[str, Any], reason: str, bound_for: str | None
) -> None:
    dead = sound(rules.fail_item(leased(item()), definition, "t", BOOM, NOW, **options))
    assert (dead.status, dead.reason, dead.bound_for) == ("exhausted", reason, bound_for)


def test_a_queue_that_says_so_deletes_what_dies() -> None:
    gone = rules.fail_item(leased(item()), queue(on_dead=OnDead.DELETE), "t", BOOM, NOW)
    assert gone.is_deleted and gone.tallies.cleared == 1
    kept = rules.fail_item(leased(item()), queue(on_dead=OnDead.DELETE, dead_queue="D"), "t", BOOM, NOW)
    assert not kept.is_deleted
    words = rules.deletion_warning(kept, NOW)
    assert words == f"item '{kept.entry_id}' exceeded max_attempts, deleting (no dead_queue configured)"
    expired = replace(kept, expires_at=NOW)
    assert rules.deletion_warning(expired, NOW) == words.replace("max_attempts", "expire_deadline")


def test_only_the_holder_of_the_lease_ends_it() -> None:
    ends: tuple[Callable[[], DeadLetter], ...] = (
        lambda: rules.fail_item(leased(item()), queue(), "other", BOOM, NOW),
        lambda: rules.complete_item(leased(item()), "other", NOW),
        lambda: rules.complete_item(item(), "t", NOW),
    )
    for end in ends:
        with pytest.raises(LostLease):
            end()
    assert rules.status_of(sound(rules.complete_item(leased(item()), "t", NOW)), NOW) is ItemStatus.COMPLETED


def test_each_lease_that_runs_out_is_a_failure() -> None:
    definition, letter = queue(max_attempts=2), item(queue(max_attempts=2))
    assert rules.recover_item(letter, definition, after(99)) is letter
    for count in (1, 2, 3):
        held = leased(letter, now=after(60 * (count - 1)))
        assert rules.recover_item(held, definition, after(60 * count - 1)) is held
        letter = sound(rules.recover_item(held, definition, after(60 * count)))
        assert letter.retry_count == count
    assert (letter.status, letter.reason) == ("exhausted", "max_attempts_exceeded")


def test_expiry_waits_for_the_lease_and_then_counts_more_than_attempts() -> None:
    definition = queue(expire_timeout="10s", retry=RetryRule(9), dead_queue="D")
    letter = item(definition)
    assert rules.expire_item(letter, definition, after(9)) is letter
    expired = sound(rules.expire_item(letter, definition, after(10)))
    assert (expired.status, expired.reason, expired.bound_for) == ("exhausted", "expired", "D")
    held = leased(letter, seconds=30)
    assert rules.expire_item(held, definition, after(20)) is held
    assert rules.complete_item(held, "t", after(20)).status == "completed"
    assert rules.recover_item(held, definition, after(30)).reason == "expired"
    assert rules.fail_item(held, definition, "t", BOOM, after(20)).reason == "expired"


def test_a_copy_is_the_same_work_and_starts_anew() -> None:
    letter = item(metadata=Json.of({"ref": 1}), expires_at=after(10))
    dead = rules.fail_item(leased(letter), queue(dead_queue="D"), "t", BOOM, after(5))
    copy = sound(rules.moved_item(dead, QueueDefinition("D", NOW, NOW), after(6)))
    assert copy.key == f"default@D/D/q/{letter.entry_id}"
    assert (copy.payload, copy.labels, copy.expires_at) == (letter.payload, letter.labels, None)
    assert (copy.status, copy.retry_count, copy.total_attempts) == ("pending", 0, 0)
    assert copy.source == Source(SourceKind.QUEUE_ITEM, "q", letter.entry_id, None, letter.created_at)
    assert (copy.reason, copy.last_error, copy.entry_id != letter.entry_id) == ("max_attempts_exceeded", "boom", True)
    closed = sound(rules.close_moved(dead, after(7)))
    assert (closed.resolution.status, closed.tallies.moved) == ("moved", 1)


def test_what_is_dead_or_failed_can_be_retried_by_a_person() -> None:
    definition = queue(retry=RetryRule(3, "30s"), expire_timeout="20s")
    letter = item(definition)
    failed = rules.fail_item(leased(letter), definition, "t", BOOM, NOW)
    legacy = replace(letter, retry_policy=RetryPolicy.NEVER, due_at=None)
    dead = rules.expire_item(letter, definition, after(20))
    for each in (failed, legacy, dead):
        assert rules.status_of(each, NOW) in (ItemStatus.FAILED, ItemStatus.DEAD)
        fresh = sound(rules.resurrect_item(each, after(21)))
        assert (fresh.status, fresh.retry_count, fresh.expires_at, fresh.reason) == ("pending", 0, None, "queued")
        assert rules.status_of(fresh, after(21)) is ItemStatus.PENDING
    for each in (letter, leased(letter), rules.complete_item(leased(letter), "t", NOW)):
        with pytest.raises(IllegalMove):
            rules.resurrect_item(each, NOW)


def test_what_is_sent_elsewhere_is_not_leased_meanwhile() -> None:
    sent = sound(rules.send_item(item(), "other", after(1)))
    assert (sent.status, sent.bound_for) == (DeadLetterStatus.EXHAUSTED, "other")
    assert not rules.is_redrivable(sent)
    assert rules.is_redrivable(item()) and not rules.is_redrivable(leased(item()))


def test_an_item_goes_through_json_and_back() -> None:
    shown = QueueItem.of(leased(item(source=Source(SourceKind.QUEUE_ITEM, "S", "abc", None, NOW))), NOW)
    assert QueueItem.from_dict(shown.to_dict()) == shown
    assert replace(shown, source_id="other") != shown
    assert (shown.is_leased, shown.worker_name, shown.lease_deadline) == (True, "w", after(60))
    old = {name: value for name, value in shown.to_dict().items() if name != "failure_count"}
    assert QueueItem.from_dict(old).failure_count == 0
    with pytest.raises(InvalidInput, match="can read"):
        QueueItem.from_dict({**shown.to_dict(), "status": "levitating"})


def test_who_lost_a_lease_is_told_in_the_words_of_queues() -> None:
    held = leased(item())
    moves: dict[str, Callable[[DeadLetter], DeadLetter]] = {
        "complete": lambda letter: rules.complete_item(letter, "other", NOW),
        "fail": lambda letter: rules.fail_item(letter, queue(), "other", BOOM, NOW),
        "renew": lambda letter: rules.renew_item(letter, "other", after(9), NOW),
    }
    for move, call in moves.items():
        for letter, status, who in ((held, "active", "w"), (item(), "pending", "nobody")):
            with pytest.raises(LostLease) as lost:
                call(letter)
            told = (
                f"item {letter.entry_id!r} is {status}: cannot {move} it, this lease is over: {who} has leased it now"
            )
            assert str(lost.value) == told
