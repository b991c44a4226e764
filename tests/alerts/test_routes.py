"""Alerts over HTTP."""

from __future__ import annotations

from mahavishnu.alerts.rules import AlertRules
from tests.support.api import ApiHarness
from tests.support.receivers import HttpReceiver


async def test_alerts_are_listed_and_channels_tested(api: ApiHarness) -> None:
    assert (await api.get("/alerts")).json() == []
    async with HttpReceiver.serve(404) as hook:
        api.dlq.context.set_rules(AlertRules(log=True, webhook_url=hook.url))
        await api.dlq.enqueue("wf", {"n": 1}, [], "KeyError: 1", max_retries=0)
        await api.dlq.alerts.run()
        (alert,) = (await api.get("/alerts")).json()
        assert (alert["phase"], alert["reasons"]) == ("firing", ["needs_person"])
        told = {each["channel"]: (each["told"], each["problem"]) for each in alert["channels"]}
        assert told == {"log": (True, None), "webhook": (False, "it was answered with 404")}
        answers = (await api.post("/alerts/test", {})).json()
        assert {"channel": "webhook", "problem": "it was answered with 404"} in answers
        assert (await api.post("/alerts/test", {"channel": "log"})).json() == [{"channel": "log", "problem": None}]
        assert (await api.post("/alerts/test", {"channel": "slack"})).status_code == 422
    api.clock.advance(60)
    await api.dlq.letters.resolve("wf", by="ann")
    await api.dlq.alerts.run()
    assert (await api.get("/alerts")).json() == []
    (over,) = (await api.get("/alerts", params={"resolved": True})).json()
    assert over["phase"] == "resolved"
