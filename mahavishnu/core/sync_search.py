"""Searching, saved views and numbers by hour for code without an event loop: parts of `app.sync.dlq`."""

from __future__ import annotations

from mahavishnu.core.queue.search import Search
from mahavishnu.core.queue.trends import Trends
from mahavishnu.core.queue.views import Views
from mahavishnu.core.sync_methods import SyncFace, SyncMethod
from mahavishnu.core.sync_methods import as_instance as _of


class SyncSearch(SyncFace[Search]):
    """`dlq.search`."""

    count = SyncMethod(_of(Search).count)
    suggest = SyncMethod(_of(Search).suggest)


class SyncViews(SyncFace[Views]):
    """`dlq.views`."""

    save = SyncMethod(_of(Views).save)
    get = SyncMethod(_of(Views).get)
    list = SyncMethod(_of(Views).list)
    delete = SyncMethod(_of(Views).delete)


class SyncTrends(SyncFace[Trends]):
    """`dlq.trends`."""

    by_hour = SyncMethod(_of(Trends).by_hour)
