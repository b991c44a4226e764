"""The page of runbooks, and what else leads to what one does."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from mahavishnu.classify.chain import Chain
from mahavishnu.classify.plugins import Plugins
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.engine.context import QueueOptions
from mahavishnu.testing import ManualClock
from tests.console.test_forms import post
from tests.support.api import ApiHarness, harness_for
from tests.support.pages import read

ROOT = Path(__file__).parents[2]


async def test_the_page_has_a_section_for_each_alert_and_no_link_that_leads_nowhere(api: ApiHarness) -> None:
    page = await read(api, "/runbooks")
    rules = yaml.safe_load((ROOT / "config/alerts/dlq.yml").read_text("utf-8"))
    alerts = [rule["annotations"]["runbook_url"] for group in rules["groups"] for rule in group["rules"]]
    names = re.findall(r'<section class="panel runbook" id="(\w+)"', page)
    assert [f"/runbooks#{name}" for name in names] == alerts
    main = page[page.index("<h1>Runbooks") :].partition("</main>")[0]
    assert {*re.findall(r'href="([^"]*)"', main)} == {"groups", *(f"#{name}" for name in names)}
    assert "<strong>It means</strong>" in main and "<code>mahavishnu group list</code>" in main


async def test_the_runbook_that_a_classification_rule_names_is_a_link() -> None:
    rules = [{"text": "declined", "category": "validation", "runbook": "https://wiki.example/cards"}]
    chain = Chain(Plugins.discover(rules=rules, entry_points=False))
    clock = ManualClock()
    async for api in harness_for(DeadLetterQueue(clock=clock, options=QueueOptions(chain=chain)), clock):
        await api.dlq.enqueue("order-1", {}, [], ValueError("declined"))
        (group,) = (await api.dlq.groups.list()).items
        link = (
            '(runbook: <a href="https://wiki.example/cards" rel="noreferrer noopener">https://wiki.example/cards</a>)'
        )
        for path in ("/letters/order-1", f"/groups/{group.fingerprint}"):
            assert link in await read(api, path)
        assert link in (await post(api, "/plugins", error="declined")).text
