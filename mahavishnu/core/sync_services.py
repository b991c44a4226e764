"""Services of the queue for code without an event loop, of which each method is the one that is awaited elsewhere."""

from __future__ import annotations

from collections.abc import Generator

from mahavishnu.core.domain_events import DomainEvents
from mahavishnu.core.queue.archive import Archive
from mahavishnu.core.queue.dashboard import Dashboard
from mahavishnu.core.queue.deletion import Deletion
from mahavishnu.core.queue.encryption_renewal import EncryptionRenewal
from mahavishnu.core.queue.integrity import Integrity
from mahavishnu.core.queue.named_queues import NamedQueues
from mahavishnu.core.sync_methods import SyncFace, SyncMethod, one_by_one
from mahavishnu.core.sync_methods import as_instance as _of


class SyncDeletion(SyncFace[Deletion]):
    """`dlq.deletion`."""

    delete_task = SyncMethod(_of(Deletion).delete_task)
    clear_all = SyncMethod(_of(Deletion).clear_all)
    finish = SyncMethod(_of(Deletion).finish)


class SyncArchive(SyncFace[Archive]):
    """`dlq.archive`."""

    archive_completed_tasks = SyncMethod(_of(Archive).archive_completed_tasks)
    run = SyncMethod(_of(Archive).run)
    maintain = SyncMethod(_of(Archive).maintain)
    list = SyncMethod(_of(Archive).list)
    search = SyncMethod(_of(Archive).search)
    show = SyncMethod(_of(Archive).show)
    begin_export = SyncMethod(_of(Archive).begin_export)
    show_task = SyncMethod(_of(Archive).show_task)
    search_tasks = SyncMethod(_of(Archive).search_tasks)
    restore = SyncMethod(_of(Archive).restore)
    partitions = SyncMethod(_of(Archive).partitions)
    detach = SyncMethod(_of(Archive).detach)
    attach = SyncMethod(_of(Archive).attach)
    drop = SyncMethod(_of(Archive).drop)

    def export(self, after: int, upto: int, form: str = "jsonl") -> Generator[str, None, None]:
        """Archived letters of these steps, each as one line of JSON or of CSV."""
        yield from one_by_one(self.calls, "dlq.archive.export", self.service.export(after, upto, form))


class SyncEncryption(SyncFace[EncryptionRenewal]):
    """`dlq.encryption`."""

    renew = SyncMethod(_of(EncryptionRenewal).renew)
    renew_all = SyncMethod(_of(EncryptionRenewal).renew_all)


class SyncDashboard(SyncFace[Dashboard]):
    """`dlq.dashboard`."""

    dlq = SyncMethod(_of(Dashboard).dlq)
    staleness = SyncMethod(_of(Dashboard).staleness)
    archive = SyncMethod(_of(Dashboard).archive)


class SyncIntegrity(SyncFace[Integrity]):
    """`dlq.integrity`."""

    find_unreadable = SyncMethod(_of(Integrity).find_unreadable)


class SyncNamedQueues(SyncFace[NamedQueues]):
    """`dlq.queues`."""

    create = SyncMethod(_of(NamedQueues).create)
    update = SyncMethod(_of(NamedQueues).update)
    get = SyncMethod(_of(NamedQueues).get)
    list = SyncMethod(_of(NamedQueues).list)
    delete = SyncMethod(_of(NamedQueues).delete)
    produce = SyncMethod(_of(NamedQueues).produce)
    import_items = SyncMethod(_of(NamedQueues).import_items)
    lease = SyncMethod(_of(NamedQueues).lease)
    renew = SyncMethod(_of(NamedQueues).renew)
    complete = SyncMethod(_of(NamedQueues).complete)
    retry = SyncMethod(_of(NamedQueues).retry)
    item = SyncMethod(_of(NamedQueues).item)
    items = SyncMethod(_of(NamedQueues).items)
    resurrect = SyncMethod(_of(NamedQueues).resurrect)
    drop = SyncMethod(_of(NamedQueues).drop)
    redrive = SyncMethod(_of(NamedQueues).redrive)
    numbers = SyncMethod(_of(NamedQueues).numbers)
    names_with_items = SyncMethod(_of(NamedQueues).names_with_items)
    maintain = SyncMethod(_of(NamedQueues).maintain)


class SyncDomainEvents(SyncFace[DomainEvents]):
    """Domain events. Subscribers are given to `app.events`, which needs no event loop for it."""

    publish = SyncMethod(_of(DomainEvents).publish)
    send = SyncMethod(_of(DomainEvents).send)
    read = SyncMethod(_of(DomainEvents).read)
    acknowledge = SyncMethod(_of(DomainEvents).acknowledge)
    consumers = SyncMethod(_of(DomainEvents).consumers)
    forget = SyncMethod(_of(DomainEvents).forget)
    remove_old = SyncMethod(_of(DomainEvents).remove_old)
    publish_missed = SyncMethod(_of(DomainEvents).publish_missed)
    deliver = SyncMethod(_of(DomainEvents).deliver)
    finish = SyncMethod(_of(DomainEvents).finish)
