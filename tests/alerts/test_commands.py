"""`mahavishnu alert`."""

from __future__ import annotations

import pytest

from tests.support.command_line import Run

pytestmark = pytest.mark.usefixtures("letters")


def test_alerts_on_the_command_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("alert", "list").out == "no alert holds\n"
    assert run("alert", "list", "--json").json == []
    assert run("alert", "test").out == "no channel is configured: see the settings alerts.*\n"
    monkeypatch.setenv("MAHAVISHNU_ALERTS__LOG", "true")
    monkeypatch.setenv("MAHAVISHNU_ALERTS__EMAIL_TO", '["ops@example.com"]')
    monkeypatch.setenv("MAHAVISHNU_ALERTS__SMTP_HOST", "127.0.0.1")
    monkeypatch.setenv("MAHAVISHNU_ALERTS__SMTP_PORT", "1")
    assert "nobody" in run("alert", "rules").out
    (growth,) = [each for each in run("alert", "rules", "--json").json if each["rule"] == "growth"]
    assert (growth["channels"], growth["holding"]) == (["email", "log"], 0)
    tried = run("alert", "test")
    assert (tried.code, "log: took it" in tried.out, "email: ConnectionRefusedError" in tried.out) == (1, True, True)
    assert run("alert", "test", "log").code == 0
    wrong = run("alert", "test", "slack")
    assert (wrong.code, "no channel 'slack' of alerts is configured: there are email, log" in wrong.err) == (2, True)
