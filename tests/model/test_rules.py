"""Rule sets: the declaration of a field checks its values, wherever they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from mahavishnu.alerts.rules import AlertRules
from mahavishnu.events.rules import EventRules
from mahavishnu.letters.rules import RequeueRules
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.rules import RetentionRules, Rules, require_web_url, rule
from mahavishnu.tasks.staleness_rules import StalenessRules


@dataclass(frozen=True, slots=True, kw_only=True)
class Example(Rules):
    count: int | None = rule(1, "A number", 1, 9)
    share: float = rule(0.5, "A share", 0.1, 1, zero=True)
    name: str = rule("abc", "A text", 3)
    url: str | None = rule(None, "An address", secret=True, check=require_web_url)
    names: Mapping[str, str] = rule({}, "Names")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"count": 0}, "count must be a whole number from 1 to 9, or None, not 0"),
        ({"count": True}, "count must be a whole number from 1 to 9, or None, not True"),
        ({"count": 2.0}, "count must be a whole number from 1 to 9, or None, not 2.0"),
        ({"share": 1.1}, "share must be a number from 0 to 1, not 1.1"),
        ({"share": float("nan")}, "share must be a number from 0 to 1, not nan"),
        ({"share": None}, "share must be a number from 0 to 1, not None"),
        ({"name": "ab"}, "name must be a text of at least 3 characters, not 'ab'"),
        ({"name": 4}, "name must be a text of at least 3 characters, not 4"),
        ({"url": "canary"}, "url must begin with http:// or https://"),
    ],
)
def test_a_value_out_of_its_range_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Example(**given)
    assert str(refused.value) == said


def test_values_in_their_range() -> None:
    made = Example(count=None, share=0, name="abcd", url="https://canary")
    assert (made.count, made.share, made.name, made.names) == (None, 0, "abcd", {})
    assert "canary" not in repr(made)
    assert Example().names is not Example().names


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (AlertRules, {"smtp_password": "canary"}),
        (AlertRules, {"email_to": ("nobody",)}),
        (EventRules, {"webhook_url": "canary"}),
        (RequeueRules, {"max_dlq_retries": -1}),
        (RetentionRules, {"audit_days": -1}),
        (StalenessRules, {"warn_ratio": 1}),
    ],
)
def test_a_program_without_settings_has_its_rules_checked(kind: type[Rules], given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=f"^{next(iter(given))} ") as refused:
        kind(**given)
    assert "canary" not in str(refused.value)
