"""Alerts on stores and real servers: one notice for one cause, repeated, resolved, and in nobody's way."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace
from typing import Any

import pytest

from mahavishnu.alerts.records import ALERTS
from mahavishnu.alerts.rules import (
    HELD,
    Alert,
    AlertPhase,
    AlertReason,
    AlertRules,
    Finding,
    NoticeKind,
    hold_alert,
    next_alert,
    note_sent,
)
from mahavishnu.alerts.service import LOOK_SECONDS
from mahavishnu.bulk.records import RUNS
from mahavishnu.bulk.run import BulkRun, RunState
from mahavishnu.core.app import MahavishnuApp
from mahavishnu.engine.breaker import Breakers
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.json_value import Json
from mahavishnu.model.webhooks import is_signed
from tests.support.queues import House, Runs
from tests.support.receivers import HttpReceiver, MailReceiver


async def exhaust(house: House, count: int = 1, error: str = "'currency'") -> None:
    """Letters of one cause that have failed as often as they may."""
    runs = Runs(KeyError(error))
    queue = house.queue(runs, breakers=Breakers(1_000_000, 1))
    for number in range(count):
        await queue.enqueue(f"wf-{number}", {"n": number}, [], KeyError(error), "immediate", 1)
    house.clock.advance(1)
    assert await queue.run_due() == len(runs.calls) == count
    assert (await queue.get_statistics())["status_breakdown"]["exhausted"] == count


async def look(house: House, *apps: MahavishnuApp) -> int:
    """All of them do what a worker does, one look later."""
    house.clock.advance(LOOK_SECONDS + 1)
    return sum(await asyncio.gather(*(app.dlq.alerts.run() for app in apps)))


async def test_a_thousand_exhaustions_are_one_notice_and_one_end(any_house: House) -> None:
    """R372, R376: on Slack, PagerDuty and a signed webhook; one incident, acknowledged and resolved."""
    async with HttpReceiver.serve() as hook, HttpReceiver.serve() as slack, HttpReceiver.serve(202) as pager:
        app = any_house.app(

            alerts={
                "webhook_url": hook.url, "webhook_secret": "hush", "slack_url": slack.url + "/services/T/B/x",
                "pagerduty_key": "key", "pagerduty_url": pager.url, "console_url": "https://dlq.example/app/",
            },
        )  # fmt: skip
        count = 1000 if any_house.kind == "memory" else 40
        await exhaust(any_house, count)
        assert await look(any_house, app) == 3, [body["text"] for body in hook.bodies]
        assert await look(any_house, app) == 0
        fingerprint = (await app.dlq.groups.list()).items[0].fingerprint
        await app.dlq.groups.update(fingerprint, by="ann", owner="ann")
        assert await look(any_house, app) == 3
        await app.dlq.groups.update(fingerprint, by="ann", state="resolved")
        assert await look(any_house, app) == 3
    actions = [body["event_action"] for body in pager.bodies]
    assert actions == ["trigger", "acknowledge", "resolve"]
    assert {body["dedup_key"] for body in pager.bodies} == {f"mahavishnu/default/group:{fingerprint}"}
    assert pager.bodies[0]["payload"]["severity"] in ("error", "critical")
    link = pager.bodies[0]["links"][0]["href"]
    assert link == f"https://dlq.example/app/groups/{fingerprint.replace(':', '%3A')}"
    assert [body["kind"] for body in hook.bodies] == ["trigger", "acknowledge", "resolve"]
    assert f"{count} for people" in hook.bodies[0]["alert"]["detail"]
    for _, headers, body in hook.requests:
        assert is_signed("hush", headers["mahavishnu-signature"], body, any_house.clock.now())
        assert headers["mahavishnu-alert-id"] == json.loads(body)["id"]
    assert slack.bodies[0]["text"].startswith("*FIRING: KeyError")
    assert f"<{link}|Open it>" in slack.bodies[0]["text"]
    runbook = "https://dlq.example/app/runbooks#dlqsizehigh"  # for the first reason that has one
    assert pager.bodies[0]["links"][1] == {"href": runbook, "text": "What to do"}
    assert f"<{runbook}|What to do>" in slack.bodies[0]["text"]
    assert hook.bodies[0]["runbook"] == runbook
    assert "TAKEN by ann" in slack.bodies[1]["text"]
    assert await app.dlq.alerts.list() == []
    (known,) = await app.dlq.alerts.list(resolved=True)
    assert (known.phase, known.incident, known.notice) == (AlertPhase.RESOLVED, 1, 3)


async def test_mails_are_a_thread_and_titles_are_only_text(house: House) -> None:
    error = "<!channel> *hi* \r\nBcc: eve@example.com"
    async with MailReceiver.serve() as mail, HttpReceiver.serve() as slack:
        app = house.app(
            alerts={
                "email_to": ["ops@example.com", "b@example.com"], "smtp_host": "127.0.0.1", "smtp_port": mail.port,
                "slack_url": slack.url,
            }
        )  # fmt: skip
        await exhaust(house, 1, error)
        assert await look(house, app) == 2
        fingerprint = (await app.dlq.groups.list()).items[0].fingerprint
        await app.dlq.groups.update(fingerprint, by="ann", hold_until=house.clock.now().replace(year=2100))
        assert await look(house, app) == 2
        assert await look(house, app) == 0, "a hold mutes it"
    first, last = mail.mails
    assert first["Subject"].startswith("FIRING: ")
    assert last["Subject"].startswith("RESOLVED: ")
    assert first["Bcc"] is None
    assert first["References"] == last["References"]
    assert first["Message-ID"] != last["Message-ID"]
    assert len(mail.recipients) == 4
    assert "on hold" in last.get_content()
    assert "<!channel>" not in slack.bodies[0]["text"]


async def test_a_channel_that_fails_is_tried_again_by_itself(
    any_house: House, caplog: pytest.LogCaptureFixture
) -> None:
    """R419: what is exhausted is exhausted, others are told, and the one that failed is told later."""
    async with HttpReceiver.serve(500) as hook, HttpReceiver.serve() as slack:
        app = any_house.app(alerts={"webhook_url": hook.url, "slack_url": slack.url})
        await exhaust(any_house, 2)
        with caplog.at_level(logging.WARNING, "mahavishnu.alerts"):
            assert await look(any_house, app) == 1
        assert hook.url not in caplog.text
        assert "answered with 500" in caplog.text
        assert app.dlq.context.counts["alert_notices_failed"] == 1
        (alert,) = await app.dlq.alerts.list()
        assert alert.sent["webhook"].problem == "it was answered with 500"
        assert (await app.dlq.get_statistics())["status_breakdown"]["exhausted"] == 2
        assert await app.dlq.alerts.run() == 0, "it is left alone for a while"
        hook.status = 204
        assert await look(any_house, app) == 1
        assert (len(hook.requests), len(slack.requests)) == (2, 1)
        (alert,) = await app.dlq.alerts.list()
        assert [each["told"] for each in alert.to_dict()["channels"]] == [True, True]


async def test_of_many_processes_one_tells_it(any_house: House) -> None:
    async with HttpReceiver.serve() as hook:
        apps = [any_house.app(alerts={"webhook_url": hook.url}) for _ in range(5)]
        await exhaust(any_house)
        assert await look(any_house, *apps) + await look(any_house, *apps) == 1
        assert len(hook.requests) == 1


async def test_a_notice_of_a_process_that_died_is_told_by_another_one(any_house: House) -> None:
    async with HttpReceiver.serve(None) as dead_end, HttpReceiver.serve() as hook:
        first = any_house.app(alerts={"webhook_url": dead_end.url})
        await exhaust(any_house)
        any_house.clock.advance(LOOK_SECONDS + 1)
        going = asyncio.ensure_future(first.dlq.alerts.run())
        await dead_end.reached(1)
        any_house.kill(first.dlq)
        going.cancel()
        await asyncio.gather(going, return_exceptions=True)
        second = any_house.app(alerts={"webhook_url": hook.url})
        assert await second.dlq.alerts.run() == 0, "the first one may still live"
        any_house.clock.advance(HELD.total_seconds() + 31)
        assert await second.dlq.alerts.run() == 1
        assert [body["id"] for body in hook.bodies] == [body["id"] for body in dead_end.bodies]


async def test_due_letters_without_a_worker_are_an_alert(house: House) -> None:
    async with HttpReceiver.serve() as hook:
        app = house.app(alerts={"webhook_url": hook.url, "rules": ["no_worker", "run_halted"]})
        await app.dlq.enqueue("wf", {"adapter": "orders"}, [], "connection refused", adapter="orders")
        house.clock.advance(3600)
        assert await look(house, app) == 1
        assert hook.bodies[0]["alert"]["reasons"] == ["no_worker"]
        assert "orders: 1" in hook.bodies[0]["alert"]["detail"]
        await app.dlq.letters.resolve("wf", by="ann")
        assert await look(house, app) == 1
        assert hook.bodies[1]["kind"] == "resolve"


async def test_a_halted_run_is_an_alert_until_somebody_ends_it(house: House) -> None:
    async with HttpReceiver.serve() as hook:
        app = house.app(alerts={"webhook_url": hook.url})
        now = house.clock.now()
        run = BulkRun(
            run_id="r1",
            verb="redrive",
            query=Json("{}"),
            by="ann",
            created_at=now,
            updated_at=now,
            state=RunState.HALTED,
            halted_because="6 of 10 failed",
        )
        (stored,) = await app.dlq.store.collection(RUNS).write([run])
        assert isinstance(stored, BulkRun)
        assert await look(house, app) == 1
        assert hook.bodies[0]["alert"]["title"] == "Bulk run r1 (redrive) was halted: 6 of 10 failed"
        assert hook.bodies[0]["alert"]["name"] == "run:r1"
        await app.dlq.store.collection(RUNS).write([replace(stored, state=RunState.CANCELLED)])
        assert await look(house, app) == 1
        assert hook.bodies[1]["kind"] == "resolve"


async def test_many_new_groups_at_once_are_one_alert(house: House) -> None:
    async with HttpReceiver.serve() as hook:
        app = house.app(alerts={"webhook_url": hook.url, "most_groups": 3})
        for number, word in enumerate(("alpha", "beta", "gamma", "delta", "epsilon")):
            await app.dlq.enqueue(f"wf-{number}", {}, [], f"{word.title()}Error: no {word} there", max_retries=0)
        assert await look(house, app) == 1
        assert hook.bodies[0]["alert"]["title"] == "5 groups of failures at once"
        await app.dlq.letters.resolve("wf-0", by="ann")
        await app.dlq.letters.resolve("wf-1", by="ann")
        assert await look(house, app) == 4, "each of the three that are left, and the end of the other one"


async def test_that_nothing_can_be_written_is_told_all_the_same(house: House) -> None:
    async with HttpReceiver.serve() as hook:
        app = house.app(alerts={"webhook_url": hook.url})
        assert await look(house, app) == 0
        away = house.faults.unavailable()
        assert await look(house, app) == 1
        assert await look(house, app) == 0
        away.stop()
        assert await look(house, app) == 1
        assert [(body["kind"], body["alert"]["name"]) for body in hook.bodies] == [
            ("trigger", "degraded"),
            ("resolve", "degraded"),
        ]


async def test_without_channels_nobody_looks_and_old_alerts_are_forgotten(house: House) -> None:
    app = house.app()
    await exhaust(house)
    assert await look(house, app) == 0
    assert await app.dlq.alerts.list(resolved=True) == []
    told = house.app(alerts={"log": True})
    await look(house, told)
    await told.dlq.groups.update((await told.dlq.groups.list()).items[0].fingerprint, by="a", state="wont_fix")
    await look(house, told)
    assert len(await told.dlq.alerts.list(resolved=True)) == 1
    house.clock.advance(31 * 86400)
    await look(house, told)
    assert await told.dlq.alerts.list(resolved=True) == []


async def test_a_test_says_what_each_channel_answered(house: House) -> None:
    async with HttpReceiver.serve() as hook, HttpReceiver.serve(202) as pager, MailReceiver.serve() as mail:
        app = house.app(
            alerts={
                "webhook_url": hook.url, "pagerduty_key": "k", "pagerduty_url": pager.url, "log": True,
                "email_to": ["nobody@example.com"], "smtp_host": "127.0.0.1", "smtp_port": mail.port,
            }
        )  # fmt: skip
        answers = await app.dlq.alerts.test()
        assert (answers["webhook"], answers["pagerduty"], answers["log"]) == (None, None, None)
        assert "SMTPRecipientsRefused" in (answers["email"] or "")
        assert [body["event_action"] for body in pager.bodies] == ["trigger", "resolve"]
        with pytest.raises(InvalidInput, match="no channel 'slack' of alerts is configured: there are webhook"):
            await app.dlq.alerts.test("slack")


async def test_a_record_has_all_that_an_alert_is(any_house: House) -> None:
    app = any_house.app()
    await app.dlq.open()
    now = any_house.clock.now()
    found = Finding("group:1", (AlertReason.GROWTH,), "a", taken_by=None)
    alert: Any = next_alert(Alert("group:1"), found, AlertRules(), now)
    alert = hold_alert(alert, "me", ("log",), now, HELD)
    alert = note_sent(alert, alert, {"log": "no"}, "other", now)
    assert alert.notice_kind is NoticeKind.TRIGGER
    records = app.dlq.store.collection(ALERTS)
    await records.write([alert])
    assert await records.get([alert.key]) == [alert]


async def test_no_answer_and_no_log_has_the_address_of_a_channel(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with HttpReceiver.serve() as slack:
        for address in (
            f"{slack.url}/T/canary",
            "http://127.0.0.1:9/canary",
            "http://chat.example:canary/",
            "http://☃canary..example/",
        ):
            app = house.app(alerts={"slack_url": address})
            answers = await app.dlq.alerts.test()
            assert list(answers) == ["slack"] and "canary" not in str(answers), answers
            assert (answers["slack"] is None) is address.startswith(slack.url)
    assert len(slack.requests) == 1 and "canary" not in caplog.text
