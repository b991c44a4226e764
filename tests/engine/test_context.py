"""The rule sets of a queue: one of each class, given, replaced, or the defaults."""

from __future__ import annotations

from dataclasses import replace

from mahavishnu.core.dead_letter_queue import DeadLetterQueue, QueueOptions
from mahavishnu.events.rules import EventRules
from mahavishnu.letters.rules import RequeueRules
from mahavishnu.model.rules import RetentionRules


def test_each_class_has_one_rule_set() -> None:
    context = DeadLetterQueue(options=QueueOptions(rules=[RetentionRules(runs_days=3)])).context
    assert context.rules(RetentionRules).runs_days == 3
    assert context.rules(EventRules) == EventRules()
    context.set_rules(RetentionRules(runs_days=4), EventRules(durable_days=2))
    assert (context.rules(RetentionRules).runs_days, context.rules(EventRules).durable_days) == (4, 2)


def test_the_view_of_another_namespace_has_the_rules_of_its_home() -> None:
    queue = DeadLetterQueue()
    seen = queue.in_namespace("billing").context
    queue.context.set_rules(RetentionRules(runs_days=5))
    assert seen.rules(RetentionRules).runs_days == 5


def test_requeues_and_events_may_be_given_by_name() -> None:
    options = QueueOptions(requeues=RequeueRules(max_dlq_retries=9), events=EventRules(durable_days=1))
    for given in (options, replace(options, owner="w")):
        context = DeadLetterQueue(options=given).context
        assert (context.rules(RequeueRules).max_dlq_retries, context.rules(EventRules).durable_days) == (9, 1)
