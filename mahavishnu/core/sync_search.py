"""Searching, saved views, alerts and numbers by hour for code without an event loop: parts of `app.sync.dlq`."""

from __future__ import annotations

from mahavishnu.core.queue.alerts import Alerts
from mahavishnu.core.queue.search import Search
from mahavishnu.core.queue.trends import Trends
from mahavishnu.core.queue.views import Views
from mahavishnu.core.sync_methods import SyncFace, SyncMethod
from mahavishnu.core.sync_methods import as_instance as _of


class SyncSearch(SyncFace[Search]):
    """`dlq.search`."""

    count = SyncMethod(_of(Search).count)
    suggest = SyncMethod(_of(Search).suggest)
    namespaces = SyncMethod(_of(Search).namespaces)


class SyncViews(SyncFace[Views]):
    """`dlq.views`."""

    save = SyncMethod(_of(Views).save)
    get = SyncMethod(_of(Views).get)
    list = SyncMethod(_of(Views).list)
    delete = SyncMethod(_of(Views).delete)


class SyncAlerts(SyncFace[Alerts]):
    """`dlq.alerts`."""

    list = SyncMethod(_of(Alerts).list)
    rules = SyncMethod(_of(Alerts).rules)
    test = SyncMethod(_of(Alerts).test)
    run = SyncMethod(_of(Alerts).run)
    look = SyncMethod(_of(Alerts).look)
    send = SyncMethod(_of(Alerts).send)


class SyncTrends(SyncFace[Trends]):
    """`dlq.trends`."""

    by_hour = SyncMethod(_of(Trends).by_hour)
