"""The settings of alerts: checked, and their secrets masked."""

from __future__ import annotations

from typing import Any

import pytest

from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.settings.sources import SettingsError

SECRETS = {"slack_url": "https://hooks.slack.example/T/B/canary", "pagerduty_key": "canary", "webhook_secret": "canary",
           "smtp_password": "canary", "webhook_url": "https://chat.example/hooks/canary"}  # fmt: skip


def test_secrets_are_masked_and_reach_the_rules() -> None:
    settings = MahavishnuSettings(alerts={**SECRETS, "smtp_security": "tls", "repeat_minutes": None, "age_hours": 2})
    assert "canary" not in f"{settings!r} {settings} {settings.describe()}"
    rules = settings.alerts
    assert "canary" not in repr(rules)
    assert {name: getattr(rules, name) for name in SECRETS} == SECRETS
    assert (rules.age_hours, rules.repeat_minutes, rules.channels) == (2, None, ("webhook", "slack", "pagerduty"))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rules": ["growht"]}, "there is no rule 'growht'"),
        ({"routes": {"pager": ["growth"]}}, "there is no channel 'pager'"),
        ({"webhook_url": "chat.example/hooks/canary"}, "alerts.webhook_url must begin with http"),
        ({"slack_url": "hooks.slack.com/canary"}, "alerts.slack_url must begin with http"),
        ({"email_to": ["Ann <a@b>"]}, "must be an address such as"),
        ({"smtp_password": "canary", "smtp_user": "a"}, "is only sent over TLS"),
        ({"cool_down_minutes": -1}, "a whole number from 0 to 1440"),
    ],
)
def test_what_is_wrong_is_said(given: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        MahavishnuSettings.load(alerts=given)
    assert said in str(refused.value)
    assert "canary" not in str(refused.value)
