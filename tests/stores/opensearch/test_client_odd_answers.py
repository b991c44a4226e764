"""Something else answers at OpenSearch's address: a proxy without a server behind it, a login page, a firewall.

That is an outage. Whatever is captured meanwhile is kept locally, and in OpenSearch once that answers again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.core import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.dead_letter_queue import KINDS
from mahavishnu.model.query import Query
from mahavishnu.stores.base import scan
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.testing import ManualClock
from tests.support.opensearch_proxy import Proxy, answer, error

pytestmark = pytest.mark.opensearch
PAGE = b"<html>default backend</html>"
ILLEGAL = error(400, "illegal_argument_exception")
#: By name: the end of the path of the requests that are answered so, and the answer.
ODD = {
    **{f"a page with {status}": ("", answer(status, PAGE)) for status in (200, 302, 400, 403, 404, 405, 413)},
    "JSON of something else": ("", answer(404, {"message": "no Route matched with those values"})),
    "a wrong method": ("", answer(405, {"error": "Incorrect HTTP method for uri [/_bulk]", "status": 405})),
    "an empty object": ("", answer(200, {})),
    "a list": ("", answer(200, [])),
    "searches refused": ("_search", ILLEGAL),
    "searches without hits": ("_search", answer(200, {})),
    "refreshes without shards": ("_refresh", answer(200, {})),
    "look-ups without documents": ("_mget", answer(200, {"docs": []})),
    "bulks too large": ("_bulk", answer(413, b"")),
    "bulks refused": ("_bulk", ILLEGAL),
    "an item that is nothing": ("_bulk", answer(200, {"items": [{"create": None}]})),
    "an item without its place": ("_bulk", answer(200, {"items": [{"create": {"status": 201}}]})),
    "an item with a text for its status": ("_bulk", answer(200, {"items": [{"create": {"status": "201"}}]})),
    "an item that a pipeline dropped": ("_bulk", answer(200, {"items": [{"create": {"status": 200, "_index": "x"}}]})),
}

#: Requests that keeping a failure does not need each time: the store may be found again meanwhile.
UNASKED = {"searches refused", "refreshes without shards"}


@pytest.fixture
async def proxy(opensearch_url: str) -> AsyncIterator[Proxy]:
    async with Proxy(opensearch_url) as proxy:
        yield proxy


@pytest.mark.parametrize("odd", ODD)
async def test_what_fails_meanwhile_is_kept_and_goes_home(
    proxy: Proxy, opensearch_prefix: str, opensearch_url: str, tmp_path: Path, odd: str
) -> None:
    primary = OpenSearchStore(proxy.url, prefix=opensearch_prefix, kinds=KINDS, timeout=1.0)
    async with OpenSearchStore(opensearch_url, prefix=opensearch_prefix, kinds=KINDS, timeout=30):
        pass  # making the indices may take more than a second
    store = FallbackStore(primary, SQLiteStore(tmp_path / "local.db", kinds=KINDS), kinds=KINDS, clock=ManualClock())
    app = MahavishnuApp(MahavishnuSettings(dlq_store_url="memory:"), store=store)

    def fail(task: Any, repos: Any) -> None:
        raise ConnectionError("connection refused")

    app.register_adapter("w", fail)
    async with app:
        await app.execute_workflow({"id": "open"}, "w")
        app.dlq.context.capacity.invalidate()
        ending, act = ODD[odd]
        proxy.plan(ending, *[act] * 9999)
        results = [await app.execute_workflow({"id": name}, "w") for name in ("first", "open", "second")]
        for result in results:
            assert result["dlq_enqueued"] or "; it waits to be let in" in result["dlq_error"], result
        assert odd in UNASKED or (await app.dlq.health()).status != "ok"
        assert not app.dlq.context.waiting.in_memory
        proxy.forget()
        for _ in range(30):  # a busy machine may need more than a second for an answer
            await store.drain()
            await app.dlq.intake.admit_waiting()
            if (await app.dlq.health()).status == "ok" and not await app.dlq.context.waiting.count():
                break
        else:
            pytest.fail(str(await app.dlq.health()))
    async with OpenSearchStore(opensearch_url, prefix=opensearch_prefix, timeout=30) as fresh:
        home = {letter.task_id: letter.occurrences async for letter in scan(fresh.collection(LETTERS), Query())}
    assert home == {"first": 1, "open": 2, "second": 1}
