"""The page of alerts."""

from __future__ import annotations

import pytest

from mahavishnu.alerts.rules import AlertReason, AlertRules
from mahavishnu.alerts.service import Alerts
from mahavishnu.groups.service import Groups
from tests.support.api import ApiHarness
from tests.support.pages import EVIL, away, read, require_inert
from tests.support.receivers import HttpReceiver


async def fail(api: ApiHarness, name: str = "order-1", text: str = "unknown currency 'EURO'") -> str:
    """A letter that waits for a person. Returns its group."""
    await api.dlq.enqueue(name, {"n": 1}, [], ValueError(text), "never", 0, adapter=name)
    (group,) = [each for each in (await api.dlq.groups.list()).items if name in each.adapters]
    return group.fingerprint


def part(page: str, name: str) -> str:
    """One panel of the page."""
    return page[page.index(f'<section class="panel" id="{name}"') :].partition("</section>")[0]


async def test_without_a_channel_the_page_says_how_to_name_one(api: ApiHarness) -> None:
    page = await read(api, "/alerts")
    assert "No alerts are sent from here" in page and "mahavishnu alert test" in page
    assert part(page, "rules").count("nobody") == len(AlertReason)


async def test_what_fires_is_taken_muted_and_over_is_told_with_links(api: ApiHarness) -> None:
    async with HttpReceiver.serve(404) as hook:
        api.dlq.context.set_rules(AlertRules(log=True, webhook_url=hook.url))
        names = {name: await fail(api, name, f"cannot {name}") for name in ("fire", "take", "mute", "end")}
        await api.dlq.alerts.run()
        await api.dlq.groups.update(names["take"], by="bo", owner="bo")
        await api.dlq.groups.update(names["mute"], by="ann", hold_release="2.4.1")
        await api.dlq.letters.resolve("end", by="bo")
        api.clock.advance(60)
        await api.dlq.alerts.run()
    page = await read(api, "/alerts")
    assert "<h1>1 alert fires, 1 is taken</h1>" in page
    now, muted, over, rules = (part(page, name) for name in ("list", "muted", "over", "rules"))
    assert now.index("cannot fire") < now.index("cannot take") and "Taken by bo" in now
    assert f'href="./groups/{names["fire"].replace(":", "%3A")}"' in now and "cannot end" not in now
    assert "webhook: it was answered with 404, tried 2 times" in now
    assert "cannot mute" in muted and "until release 2.4.1; changed last by ann" in muted
    assert "cannot end" in over and "The group is on hold." in over and "1 min" in over
    assert rules.index("needs_person") < rules.index('class="up">2<') < rules.index("many_exhausted")


async def test_every_runbook_of_a_rule_is_there_and_http_says_the_same(api: ApiHarness) -> None:
    api.dlq.context.set_rules(AlertRules(log=True, slack_url="https://x.example", routes={"slack": ("growth",)}))
    await fail(api)
    await api.dlq.alerts.run()
    found = {each["rule"]: each for each in (await api.get("/alerts/rules")).json()}
    assert [*found] == [*AlertReason]
    rules = part(await read(api, "/alerts"), "rules")
    assert (found["needs_person"]["channels"], found["growth"]["channels"]) == (["log"], ["slack", "log"])
    assert (found["needs_person"]["holding"], found["first_seen"]["is_on"]) == (1, False)
    for each in found.values():
        if each["runbook"] is not None:
            path, _, name = each["runbook"].partition("#")
            assert f'id="{name}"' in await read(api, path)
            assert f'href="./runbooks#{name}"' in rules
        assert (await api.client.get(each["path"], headers={"Accept": "text/html"})).status_code == 200


async def test_what_cannot_be_read_is_said_to_be_unknown(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    for service, name in ((Alerts, "list"), (Groups, "list")):
        monkeypatch.setattr(service, name, away)
    page = await read(api, "/alerts")
    assert "Which alerts hold is not known now" in page and "Not known now." in part(page, "muted")
    assert "Not known now." in part(page, "over")


async def test_what_strangers_wrote_is_text(api: ApiHarness) -> None:
    api.dlq.context.set_rules(AlertRules(log=True))
    await fail(api, text=EVIL)
    await api.dlq.alerts.run()
    require_inert(await read(api, "/alerts"))
