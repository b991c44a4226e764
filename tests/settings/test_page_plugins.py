"""The page of plugins and rules."""

from __future__ import annotations

from functools import partial

import pytest

from mahavishnu.classify.chain import Chain
from mahavishnu.classify.plugins import Plugins
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.engine.context import QueueOptions
from mahavishnu.testing import ManualClock
from tests.console.test_forms import post
from tests.support.api import ApiHarness, harness_for
from tests.support.pages import EVIL, read, require_inert


async def test_the_plugins_stand_in_their_order_with_their_states(api: ApiHarness) -> None:
    assert "The built-in rules are asked" in await read(api, "/plugins")
    plugins = api.dlq.context.chain.plugins
    plugins.register(lambda error: None, "shop")
    plugins.disable("shop")
    shown = await read(api, "/plugins")
    assert "1 plugin is not asked" in shown and "disabled at run time" in shown


async def test_a_text_is_classified_and_everybody_says_why(api: ApiHarness) -> None:
    api.dlq.context.chain.plugins.register(lambda error: "validation" if "declined" in str(error) else None, "shop")
    said = (await post(api, "/plugins", error="card declined", adapter="")).text
    assert 'id="v-h">Validation' in said and "said by shop" in said and "built-in" in said
    said = (await post(api, "/plugins", error="ConnectionError: connection refused")).text
    assert "said by built-in" in said and "no opinion" in said
    policy = api.dlq.context.letter_factory.policy_for(api.dlq.context.chain.classify("ConnectionError: refused"))
    assert f"<dt>Policy</dt><dd>{policy}" in said
    assert 'id="verdict"' not in (await post(api, "/plugins", error="  ")).text
    assert await api.dlq.list_tasks() == []


async def test_a_rule_of_an_adapter_counts_for_it_only() -> None:
    rules = [{"text": "busy", "adapter": "mail", "category": "transient", "reason": "wait"}]
    chain = Chain(Plugins.discover(rules=rules, entry_points=False))
    clock = ManualClock()
    async for api in harness_for(DeadLetterQueue(clock=clock, options=QueueOptions(chain=chain)), clock):
        assert "rule 1: wait" in (await post(api, "/plugins", error="busy", adapter="mail")).text
        assert "rule 1: wait" not in (await post(api, "/plugins", error="busy", adapter="orders")).text


async def test_rules_that_are_wrong_are_said() -> None:
    def chain(rules: list[dict[str, str]]) -> Chain:
        return Chain(Plugins.discover(rules=rules))

    clock = ManualClock()
    options = QueueOptions(chain=partial(chain, [{"categroy": "x"}]))
    async for api in harness_for(DeadLetterQueue(clock=clock, options=options), clock):
        shown = await read(api, "/plugins")
        assert "The rules cannot be used" in shown and "categroy" in shown


@pytest.mark.parametrize("role", ["viewer", "admin"])
async def test_whoever_may_look_may_try(guarded_api: ApiHarness, role: str) -> None:
    assert (await post(guarded_api, "/plugins", role, error="connection refused")).status_code == 200
    assert (await post(guarded_api, "/plugins", error="connection refused")).status_code in (303, 401)


async def test_what_strangers_wrote_is_text(api: ApiHarness) -> None:
    require_inert((await post(api, "/plugins", error=EVIL, adapter=EVIL)).text)
