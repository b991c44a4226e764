"""The pages of named queues."""

from __future__ import annotations

import pytest

from mahavishnu.queues.service import NamedQueues
from tests.console.test_forms import post
from tests.support.api import ApiHarness
from tests.support.pages import EVIL, away, read, require_inert


async def dead_item(api: ApiHarness, payload: object = "work") -> str:
    """An item of `orders` that died and is in `orders-dead`. Returns its id there."""
    await api.dlq.queues.create("orders-dead")
    await api.dlq.queues.create("orders", dead_queue="orders-dead")
    await api.dlq.queues.produce("orders", payload)
    (lease,) = await api.dlq.queues.lease("orders", "worker-1")
    await api.dlq.queues.retry("orders", lease.item.id, lease.token, error=f"boom {payload}")
    await api.dlq.queues.maintain()
    (item,) = (await api.dlq.queues.items("orders-dead")).items
    return item.id


async def test_no_queue_says_what_one_is_for_and_how_it_is_made(api: ApiHarness) -> None:
    assert "No queue is defined" in await read(api, "/queues")
    made = await post(api, "/queues", name="mail", attempts="3", cooldown="30s", lease_timeout="90s", kind="persisted")
    assert (made.status_code, made.headers["location"]) == (303, "./queues/mail")
    queue = await api.dlq.queues.get("mail")
    assert (queue.deadly_failure, queue.lease_timeout, queue.retry and queue.retry.cooldown) == (3, "90s", "30s")
    shown = await read(api, "/queues/mail")
    assert "Queue mail is defined" in shown and "Nothing is open here" in shown
    assert "1 named queue" in await read(api, "/queues")
    await read(api, "/queues/none", status=404)


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ({"name": "a/b"}, "queue is named by a text"),
        ({"name": "q", "dead_queue": "gone"}, "does not exist"),
        ({"name": "q", "attempts": "many"}, "is no whole number"),
        ({"name": "q", "lease_timeout": "soon"}, "lease_timeout"),
    ],
)
async def test_what_cannot_be_is_said_and_stays_in_the_form(api: ApiHarness, form: dict[str, str], why: str) -> None:
    refused = await post(api, "/queues", **form)
    assert refused.status_code == 422 and why in refused.text and f'name="name" value="{form["name"]}"' in refused.text
    assert await api.dlq.queues.list() == []


async def test_a_definition_is_changed_and_what_is_emptied_is_taken_away(api: ApiHarness) -> None:
    await api.dlq.queues.create("dead")
    await api.dlq.queues.create("q", dead_queue="dead", max_attempts=2, expire_timeout="1h")
    assert 'value="1h"' in await read(api, "/queues/q")
    assert (await post(api, "/queues/q", dead_queue="dead", max_attempts="7", lease_timeout="60s")).status_code == 303
    queue = await api.dlq.queues.get("q")
    assert (queue.dead_queue, queue.max_attempts, queue.expire_timeout) == ("dead", 7, None)
    refused = await post(api, "/queues/q", dead_queue="q")
    assert refused.status_code == 422 and "cannot reference itself" in refused.text


async def test_dead_items_are_sent_back_those_that_are_marked_or_all(api: ApiHarness) -> None:
    item = await dead_item(api)
    shown = await read(api, "/queues/orders-dead")
    assert "takes what dies in" in shown and "from orders" in shown and "boom work" in shown
    assert (await post(api, "/queues/orders-dead/redrive")).status_code == 422
    assert (await post(api, "/queues/orders-dead/redrive", id=item, reason="OPS")).status_code == 303
    assert "1 item sent back" in await read(api, "/queues/orders-dead")
    assert len((await api.dlq.queues.items("orders")).items) == 1
    await post(api, "/queues/orders-dead/redrive", everything="yes")
    assert "0 items sent back" in await read(api, "/queues/orders-dead")


async def test_an_item_that_stays_dead_is_retried_where_it_is_or_deleted(api: ApiHarness) -> None:
    await api.dlq.queues.create("solo")
    made = await api.dlq.queues.produce("solo", "work")
    (lease,) = await api.dlq.queues.lease("solo", "worker-1")
    await api.dlq.queues.retry("solo", made.id, lease.token, error="boom")
    shown = await read(api, "/queues/solo?status=dead")
    assert "boom" in shown and "Send back" not in shown
    assert (await post(api, f"/queues/solo/items/{made.id}/retry")).status_code == 303
    assert (await api.dlq.queues.item("solo", made.id)).status == "pending"
    assert (await post(api, f"/queues/solo/items/{made.id}/retry")).status_code == 409
    assert (await post(api, f"/queues/solo/items/{made.id}/drop")).status_code == 303
    assert "Nothing is open here" in await read(api, "/queues/solo")


async def test_roles(guarded_api: ApiHarness) -> None:
    item = await dead_item(guarded_api)
    shown = await read(guarded_api, "/queues/orders-dead", "viewer")
    assert shown.count('disabled title="operators may"') >= 3 and "Delete this queue" not in shown
    acts = ("/queues", "/queues/orders", "/queues/orders-dead/redrive", f"/queues/orders-dead/items/{item}/retry")
    for act in acts:
        assert (await post(guarded_api, act, "viewer", name="x", everything="yes")).status_code == 403
    for act in ("/queues/orders/delete", f"/queues/orders-dead/items/{item}/drop"):
        assert (await post(guarded_api, act, "operator", typed="orders")).status_code == 403
    await post(guarded_api, "/queues/orders/delete", "admin", typed="order")
    assert len(await guarded_api.dlq.queues.list()) == 2
    await post(guarded_api, "/queues/orders/delete", "admin", typed="orders")
    assert len(await guarded_api.dlq.queues.list()) == 1


async def test_what_cannot_be_read_is_said(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    await dead_item(api)
    monkeypatch.setattr(NamedQueues, "numbers", away)
    monkeypatch.setattr(NamedQueues, "items", away)
    assert "not known" in await read(api, "/queues")
    shown = await read(api, "/queues/orders")
    assert "its numbers are not known now" in shown and "They cannot be read now" in shown


async def test_what_strangers_wrote_is_text(api: ApiHarness) -> None:
    await dead_item(api, EVIL)
    require_inert(await read(api, "/queues/orders-dead"))


async def test_the_overview_names_queues_with_their_depth_dead_items_and_the_oldest(api: ApiHarness) -> None:
    assert "None is defined" in await read(api, "/")
    await api.dlq.queues.create("mail-dead")
    await api.dlq.queues.create("mail", dead_queue="mail-dead", retry={"attempts": 1})
    for number in range(3):
        await api.dlq.queues.produce("mail", {"n": number})
        api.clock.advance(600)
    (lease,) = await api.dlq.queues.lease("mail", "w", limit=1)
    await api.dlq.queues.retry("mail", lease.item.id, lease.token, error="550", dead=True)
    await api.dlq.queues.maintain()
    api.clock.advance(10)
    assert (await api.client.post("/queues", data={"name": "x", "lease_timeout": "60s"})).status_code == 303
    page = await read(api, "/")
    panel = page[page.index('id="queues"') : page.index('id="waiting"')]
    assert panel.index("mail-dead") < panel.index(">mail<") < panel.index(">x<")  # dead items first
    assert 'href="queues/mail-dead">1<' in panel and "20 min ago" in panel and "nothing waits" in panel
