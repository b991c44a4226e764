"""Makes the services of a queue. Each imports its own modules: a program that only reads letters imports no others."""

from __future__ import annotations

import logging
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from mahavishnu.alerts.rules import AlertRules
from mahavishnu.archive.rules import RetentionRules
from mahavishnu.events.rules import EventRules
from mahavishnu.model.errors import InvalidInput, MahavishnuError, StoreUnavailable
from mahavishnu.model.events import log_event
from mahavishnu.model.namespaces import ALL_NAMESPACES
from mahavishnu.tasks.staleness_rules import StalenessRules

if TYPE_CHECKING:
    from mahavishnu.alerts.service import Alerts
    from mahavishnu.archive.deletion import Deletion
    from mahavishnu.archive.service import Archive
    from mahavishnu.bulk.service import BulkRuns
    from mahavishnu.capture.closing import Closing
    from mahavishnu.capture.intake import LetterIntake
    from mahavishnu.core.dead_letter_queue import DeadLetterQueue
    from mahavishnu.encryption.service import EncryptionRenewal
    from mahavishnu.engine.context import QueueContext
    from mahavishnu.events.service import DomainEvents
    from mahavishnu.groups.service import Groups
    from mahavishnu.http.replies import Replies
    from mahavishnu.letters.requeue import Requeues
    from mahavishnu.letters.transfer import Transfer
    from mahavishnu.monitoring.dashboard import Dashboard
    from mahavishnu.monitoring.integrity import Integrity
    from mahavishnu.monitoring.service import Telemetry
    from mahavishnu.monitoring.statistics import Trends
    from mahavishnu.queues.service import NamedQueues
    from mahavishnu.search.service import Search
    from mahavishnu.search.views import Views
    from mahavishnu.tasks.service import Lifecycle
    from mahavishnu.workers.claims import Claims
    from mahavishnu.workers.processing import Processing
    from mahavishnu.workers.service import Workers

log = logging.getLogger(__name__)
HEALTH_SECONDS = 300.0
REPLIES_SECONDS = 3600.0
TOMBSTONES_SECONDS = 3600.0
SUMS_SECONDS = 60.0
GROUPS_SECONDS = 60.0
REQUEUE_SECONDS = 60.0
QUEUES_SECONDS = 10.0
EVENTS_SECONDS = 3600.0
OUTBOX_SECONDS = 30.0
DELIVERY_SECONDS = 5.0
HANDOVER_SECONDS = 60.0
ALERTS_SECONDS = 10.0


def make_intake(context: QueueContext) -> LetterIntake:
    """The service that makes letters of failures."""
    from mahavishnu.capture.intake import LetterIntake

    return LetterIntake(context)


def make_groups(context: QueueContext) -> Groups:
    """Groups of letters with the same cause, and what people record about them."""
    from mahavishnu.groups.service import Groups

    return Groups(context)


def make_search(context: QueueContext) -> Search:
    """Queries as text."""
    from mahavishnu.search.service import Search

    return Search(context)


def make_views(context: QueueContext) -> Views:
    """Saved views."""
    from mahavishnu.search.views import Views

    return Views(context)


def make_alerts(dlq: DeadLetterQueue) -> Alerts:
    """Who is told that something is wrong."""
    from mahavishnu.alerts.service import Alerts

    return Alerts(dlq)


def make_trends(context: QueueContext) -> Trends:
    """Numbers by hour."""
    from mahavishnu.monitoring.statistics import Trends

    return Trends(context)


def make_requeues(context: QueueContext) -> Requeues:
    """The service that sends work back, for a person or by the rule."""
    from mahavishnu.letters.requeue import Requeues

    return Requeues(context)


def make_transfer(context: QueueContext) -> Transfer:
    """Export and import of letters."""
    from mahavishnu.letters.transfer import Transfer

    return Transfer(context)


def make_runs(context: QueueContext) -> BulkRuns:
    """Bulk runs."""
    from mahavishnu.bulk.service import BulkRuns

    return BulkRuns(context)


def make_lifecycle(context: QueueContext) -> Lifecycle:
    """Lifecycle tasks."""
    from mahavishnu.tasks.service import Lifecycle

    return Lifecycle(context)


def make_closing(context: QueueContext) -> Closing:
    """What closes letters whose work the application has done since."""
    from mahavishnu.capture.closing import Closing

    return Closing(context)


def make_replies(context: QueueContext) -> Replies:
    """Answers to requests that may be sent again."""
    from mahavishnu.http.replies import REPLIES, Replies

    records = context.store.collection(REPLIES)
    return Replies(records, context.clock, lambda: timedelta(days=context.rules(RetentionRules).replies_days))


def make_deletion(context: QueueContext) -> Deletion:
    """What deletes letters for good."""
    from mahavishnu.archive.deletion import Deletion

    return Deletion(context)


def make_telemetry(dlq: DeadLetterQueue) -> Telemetry:
    """The queue's numbers, for monitoring."""
    from mahavishnu.monitoring.service import Telemetry

    return Telemetry(dlq)


def make_encryption_renewal(context: QueueContext) -> EncryptionRenewal:
    """What encrypts letters that are stored already."""
    from mahavishnu.encryption.service import EncryptionRenewal

    return EncryptionRenewal(context)


def make_archive(context: QueueContext) -> Archive:
    """Where closed letters go when their time in the queue is over."""
    from mahavishnu.archive.service import Archive

    return Archive(context)


def make_dashboard(context: QueueContext) -> Dashboard:
    """Letters by reason, tasks by state, the archive by month."""
    from mahavishnu.monitoring.dashboard import Dashboard

    return Dashboard(context)


def make_integrity(context: QueueContext) -> Integrity:
    """What finds records that cannot be read."""
    from mahavishnu.monitoring.integrity import Integrity

    return Integrity(context)


def make_claims(dlq: DeadLetterQueue) -> Claims:
    """Letters that are lent to remote workers."""
    from mahavishnu.workers.claims import Claims

    return Claims(dlq.context, dlq.processing.wake if dlq.context.is_at_home else lambda due: None)


def make_queues(dlq: DeadLetterQueue) -> NamedQueues:
    """Named queues and their items."""
    from mahavishnu.queues.service import NamedQueues

    home = dlq.home.queues if dlq.home is not None and dlq.context.is_at_home else None
    return NamedQueues(dlq.context, home)


def make_domain_events(context: QueueContext) -> DomainEvents:
    """Domain events."""
    from mahavishnu.events.service import DomainEvents

    return DomainEvents(context)


def make_workers(context: QueueContext) -> Workers:
    """Who works on letters."""
    from mahavishnu.workers.service import Workers

    return Workers(context)


async def archive_old(dlq: DeadLetterQueue) -> None:
    """What retention does now and then, for letters and for the items of each named queue, also of a deleted one."""
    from mahavishnu.letters.ledger import Ledger
    from mahavishnu.queues.rules import items_namespace
    from mahavishnu.stores.base import is_home_away

    await dlq.archive.maintain()
    if is_home_away(dlq.store):
        return
    for name in await dlq.queues.names_with_items():
        inside = dlq.in_namespace(items_namespace(dlq.context.namespace, name))
        try:
            await inside.archive.maintain()
            await Ledger(inside.context).fold()
        except StoreUnavailable:
            raise
        except MahavishnuError as problem:
            log.error("what is over in queue %r could not be archived: %s", name, problem)


async def add_up_closed(context: QueueContext) -> None:
    """Add up letters that were closed a while ago, one go after the other while there are many.

    Half of the time is for others.
    """
    from mahavishnu.letters.ledger import MANY_CLOSED, Ledger

    clock, began = context.clock, context.clock.monotonic()
    while await Ledger(context).fold_closed() >= MANY_CLOSED:
        await clock.sleep(clock.monotonic() - began)
        began = clock.monotonic()


def make_processing(dlq: DeadLetterQueue) -> Processing:
    """The service that runs due letters, and the periodic tasks of this process."""
    from mahavishnu.archive.deletion import Deletion
    from mahavishnu.letters.ledger import Ledger
    from mahavishnu.tasks.stuck import StalenessCycle
    from mahavishnu.workers.background import PeriodicTask
    from mahavishnu.workers.processing import Processing, not_ours

    if not dlq.context.is_at_home:
        raise InvalidInput(not_ours(dlq.context.namespace))
    if dlq.home is not None:  # whoever looks, letters are run by one processor
        return dlq.home.processing

    async def log_warnings() -> None:
        for warning in await dlq.health_warnings():
            log.warning("%s", warning, extra=log_event("health.warning"))

    async def remove_deleted() -> None:
        await Deletion(dlq.context.in_namespace(ALL_NAMESPACES)).finish()
        ledger = Ledger(dlq.context)
        await ledger.fold()
        await ledger.fold_others()

    async def maintain_queues() -> None:
        await dlq.queues.maintain()

    async def find_stale_tasks() -> None:
        try:
            await staleness.run()
        except Exception:
            dlq.context.counts["staleness_errors"] += 1
            raise

    async def finish_handovers() -> None:
        await make_lifecycle(dlq.context).handover.finish()

    async def publish_missed_events() -> None:
        if dlq.context.rules(EventRules).durable_outbox:
            await dlq.domain_events.publish_missed()

    async def deliver_events() -> None:
        if dlq.context.rules(EventRules).webhook_url or dlq.context.chain.plugins.steps("deliver"):
            await dlq.domain_events.deliver()

    async def tell_alerts() -> None:
        if dlq.context.rules(AlertRules).channels:
            await dlq.alerts.run()

    async def remove_old_events() -> None:
        await dlq.domain_events.remove_old()

    staleness = StalenessCycle(dlq.context)
    return Processing(
        dlq.context,
        dlq.intake.admit_waiting,
        dlq.runs.periodic_task,
        PeriodicTask("the health warnings", log_warnings, lambda: HEALTH_SECONDS),
        PeriodicTask("the refresh of groups", dlq.groups.refresh, lambda: GROUPS_SECONDS),
        PeriodicTask("automatic requeues", dlq.requeues.requeue_exhausted, lambda: REQUEUE_SECONDS),
        PeriodicTask("removal of old tombstones", remove_deleted, lambda: TOMBSTONES_SECONDS),
        PeriodicTask("the sums of closed letters", partial(add_up_closed, dlq.context), lambda: SUMS_SECONDS),
        PeriodicTask("the named queues", maintain_queues, lambda: QUEUES_SECONDS),
        PeriodicTask(
            "retention", partial(archive_old, dlq), lambda: dlq.context.rules(RetentionRules).interval_minutes * 60
        ),
        PeriodicTask(
            "stale tasks", find_stale_tasks, lambda: dlq.context.rules(StalenessRules).detection_interval_seconds
        ),
        PeriodicTask(
            "stuck tasks",
            staleness.recover_stuck,
            lambda: dlq.context.rules(StalenessRules).stuck_task_detection_interval_seconds,
        ),
        PeriodicTask("hand-overs of lifecycle tasks", finish_handovers, lambda: HANDOVER_SECONDS),
        PeriodicTask("the outbox of events", publish_missed_events, lambda: OUTBOX_SECONDS),
        PeriodicTask("the delivery of events", deliver_events, lambda: DELIVERY_SECONDS),
        PeriodicTask("removal of old events", remove_old_events, lambda: EVENTS_SECONDS),
        PeriodicTask("alerts", tell_alerts, lambda: ALERTS_SECONDS),
        PeriodicTask("removal of old replies", dlq.replies.clean, lambda: REPLIES_SECONDS),
    )
