"""The channels of alerts: a webhook, Slack, PagerDuty, e-mail, the log. Each raises for a notice that it did not take.

A notice has names and numbers, and the title of a group, in which values are replaced: nothing of a payload. An address
may have a token in it, so no message names one.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import smtplib
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from email.message import EmailMessage
from email.policy import SMTP
from functools import partial
from typing import Any
from urllib.parse import quote

from mahavishnu.alerts.rules import CHANNELS, Alert, AlertReason, AlertRules, NoticeKind, notice_id, runbook_path
from mahavishnu.model.clock import Clock
from mahavishnu.model.events import log_event
from mahavishnu.model.ids import DEFAULT_NAMESPACE
from mahavishnu.model.webhooks import SIGNATURE_HEADER, hide_addresses, sign

log = logging.getLogger("mahavishnu.alerts")
CHANNEL_SECONDS = 10.0  # for one notice
ALERT_ID_HEADER = "Mahavishnu-Alert-Id"
_MOST_PAGERDUTY_KEY = 255  # characters
_WORDS = {
    NoticeKind.TRIGGER: "FIRING",
    NoticeKind.REMIND: "STILL FIRING",
    NoticeKind.ACKNOWLEDGE: "TAKEN",
    NoticeKind.RESOLVE: "RESOLVED",
}
_ERRORS = frozenset({AlertReason.NEEDS_PERSON, AlertReason.AGE, AlertReason.FIRST_SEEN, AlertReason.MANY_EXHAUSTED})
Channel = Callable[[Alert], Awaitable[None]]


class Refused(Exception):
    """A channel did not take a notice."""


def make_channels(rules: AlertRules, clock: Clock) -> Mapping[str, Channel]:
    """Return the channels that the rules name, by their names."""
    return {name: partial(_SENDERS[name], rules, clock) for name in rules.channels}


async def _post_webhook(rules: AlertRules, clock: Clock, alert: Alert) -> None:
    body = json.dumps(webhook_body(alert, rules), separators=(",", ":")).encode()
    headers = {ALERT_ID_HEADER: notice_id(alert)}
    if rules.webhook_secret:
        headers[SIGNATURE_HEADER] = sign(rules.webhook_secret, body, clock.now())
    await _post(rules.webhook_url or "", body, headers)


async def _post_slack(rules: AlertRules, clock: Clock, alert: Alert) -> None:
    await _post(rules.slack_url or "", json.dumps(slack_body(alert, rules)).encode())


async def _post_pagerduty(rules: AlertRules, clock: Clock, alert: Alert) -> None:
    await _post(rules.pagerduty_url, json.dumps(pagerduty_event(alert, rules)).encode())


async def _send_email(rules: AlertRules, clock: Clock, alert: Alert) -> None:
    await asyncio.to_thread(_send, email_message(alert, rules), rules)


async def _write_log(rules: AlertRules, clock: Clock, alert: Alert) -> None:
    level = logging.INFO if alert.notice_kind in (NoticeKind.RESOLVE, NoticeKind.ACKNOWLEDGE) else logging.WARNING
    fields = {"alert": alert.name, "reasons": list(alert.reasons), "notice": alert.notice}
    log.log(level, "%s: %s", headline(alert), alert.detail, extra=log_event("alert.notice", **fields))


_SENDERS = dict(zip(CHANNELS, (_post_webhook, _post_slack, _post_pagerduty, _send_email, _write_log), strict=True))


# --- what each of them is sent


def headline(alert: Alert) -> str:
    """Describe the alert in one line: its state, its subject, and why.

    >>> headline(Alert("no_worker", reasons=("no_worker",), title="3 letters due", notice_kind=NoticeKind.TRIGGER))
    'FIRING: 3 letters due (no worker)'
    """
    why = ", ".join(reason.replace("_", " ") for reason in alert.reasons)
    by = f" by {alert.taken_by}" if alert.notice_kind is NoticeKind.ACKNOWLEDGE and alert.taken_by else ""
    word = _WORDS[alert.notice_kind or NoticeKind.TRIGGER]
    return f"{word}{by}: {alert.title}{f' ({why})' if why else ''}"


def alert_link(alert: Alert, rules: AlertRules) -> str | None:
    """Return the console's page about the alert; None if the console's address is not known."""
    if rules.console_url is None:
        return None
    where = "" if alert.namespace == DEFAULT_NAMESPACE else f"?namespace={quote(alert.namespace, safe='')}"
    return f"{rules.console_url.rstrip('/')}{alert.path}{where}"


def runbook_link(alert: Alert, rules: AlertRules) -> str | None:
    """Return the console's page with instructions; None without one, or if the console's address is not known."""
    path = runbook_path(alert.reasons)
    return None if rules.console_url is None or path is None else rules.console_url.rstrip("/") + path


def webhook_body(alert: Alert, rules: AlertRules) -> dict[str, Any]:
    """Return the JSON for a webhook: the notice, and the alert as `GET /api/v1/alerts` has it."""
    known = alert.to_dict()
    del known["channels"]
    kind = alert.notice_kind
    links = {"link": alert_link(alert, rules), "runbook": runbook_link(alert, rules)}
    return {"id": notice_id(alert), "kind": kind, "text": headline(alert), **links, "alert": known}


def slack_body(alert: Alert, rules: AlertRules) -> dict[str, Any]:
    """Return a message for an incoming webhook. Slack's own marks in the title are only text."""
    links = [f"<{link}|{text}>" for text, link in _links(alert, rules, "Open it").items()]
    lines = [f"*{_slack_text(headline(alert))}*", _slack_text(alert.detail), "  ".join(links)]
    return {"text": "\n".join(filter(None, lines)), "unfurl_links": False}


def _links(alert: Alert, rules: AlertRules, name: str) -> Mapping[str, str]:
    """Return the links of an alert by their texts; `name` is for the page that it is about."""
    found = {name: alert_link(alert, rules), "What to do": runbook_link(alert, rules) if alert.holds else None}
    return {text: link for text, link in found.items() if link}


def _slack_text(text: str) -> str:
    """Return the text with no link and no mention in it."""
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return plain.replace("*", "∗").replace("`", "ʼ")  # noqa: RUF001 - look-alikes that Slack does not read as marks


def pagerduty_event(alert: Alert, rules: AlertRules) -> dict[str, Any]:
    """Return an event of PagerDuty's Events API v2: each alert is one incident there."""
    action = {NoticeKind.ACKNOWLEDGE: "acknowledge", NoticeKind.RESOLVE: "resolve"}
    event = {
        "routing_key": rules.pagerduty_key,
        "event_action": action.get(alert.notice_kind or NoticeKind.TRIGGER, "trigger"),
        "dedup_key": dedup_key(alert),
    }
    if event["event_action"] != "trigger":
        return event
    links = _links(alert, rules, "Console")
    known = alert.to_dict()
    return event | {
        "client": "Mahavishnu",
        **({"client_url": links["Console"]} if links else {}),
        **({"links": [{"href": link, "text": text} for text, link in links.items()]} if links else {}),
        "payload": {
            "summary": headline(alert),
            "source": f"mahavishnu/{alert.namespace}",
            "severity": "error" if _ERRORS.issuperset(alert.reasons) else "critical",
            "class": alert.reasons[0] if alert.reasons else "alert",
            "component": alert.name,
            "timestamp": known["since"] or known["noticed_at"],
            "custom_details": {"detail": alert.detail, "reasons": list(alert.reasons)},
        },
    }


def dedup_key(alert: Alert) -> str:
    """Return the name of the incident: the same for an alert each time.

    >>> dedup_key(Alert("group:v1:4be0"))
    'mahavishnu/default/group:v1:4be0'
    """
    key = f"mahavishnu/{alert.key}"
    return key if len(key) <= _MOST_PAGERDUTY_KEY else f"mahavishnu/{hashlib.sha256(key.encode()).hexdigest()}"


def email_message(alert: Alert, rules: AlertRules) -> EmailMessage:
    """Return a mail; mails of one incident are a thread."""
    message = EmailMessage(policy=SMTP)
    message["Subject"] = " ".join(headline(alert).split())
    message["From"], message["To"] = rules.email_from, ", ".join(rules.email_to)
    digest = hashlib.sha256(f"{alert.key}/{alert.incident}".encode()).hexdigest()[:24]
    host = rules.email_from.rpartition("@")[2]
    message["Message-ID"] = f"<{digest}.{alert.notice}@{host}>"
    message["References"] = f"<{digest}@{host}>"
    message["Auto-Submitted"] = "auto-generated"
    links = _links(alert, rules, "Open it")
    lines = [headline(alert), "", alert.detail, *(f"{text}: {link}" for text, link in links.items())]
    lines += ["", f"Alert: {alert.key}"]
    message.set_content("\n".join(lines))
    return message


# --- how it is sent


async def _post(url: str, body: bytes, headers: Mapping[str, str] | None = None) -> None:
    import httpx

    async with httpx.AsyncClient(timeout=CHANNEL_SECONDS) as client:
        try:
            with hide_addresses():
                answer = await client.post(
                    url, content=body, headers={"Content-Type": "application/json", **(headers or {})}
                )
        except httpx.InvalidURL:
            raise Refused("its address is no URL: look at it in the settings") from None
        except httpx.HTTPError as problem:
            raise Refused(type(problem).__name__) from None  # its message may name the address
    if not answer.is_success:
        raise Refused(f"it was answered with {answer.status_code}")


def _send(message: EmailMessage, rules: AlertRules) -> None:
    """Send a mail. Raises Refused, OSError and smtplib's errors."""
    where = f"the mail server {rules.smtp_host}:{rules.smtp_port}"
    try:
        _converse(message, rules)
    except ssl.SSLCertVerificationError as problem:
        raise Refused(
            f"the certificate of {where} is not trusted ({problem.verify_message}): write the name that is in it into "
            "alerts.smtp_host, and name the authority that signed it in SSL_CERT_FILE"
        ) from None
    except ssl.SSLError as problem:
        raise Refused(
            f"{where} does not speak TLS from the start ({problem.reason}): alerts.smtp_security may have to be "
            "'starttls', or alerts.smtp_port another one"
        ) from None
    except smtplib.SMTPNotSupportedError as problem:
        what = "STARTTLS" if "STARTTLS" in str(problem) else "logins of a kind that is known here"
        raise Refused(f"{where} offers no {what}: check alerts.smtp_security and alerts.smtp_port") from None
    except smtplib.SMTPAuthenticationError as problem:
        raise Refused(f"{where} refuses the login of alerts.smtp_user ({problem.smtp_code})") from None


def _converse(message: EmailMessage, rules: AlertRules) -> None:
    kind = smtplib.SMTP_SSL if rules.smtp_security == "tls" else smtplib.SMTP
    safe: dict[str, Any] = {"context": ssl.create_default_context()} if rules.smtp_security == "tls" else {}
    with closing(kind(rules.smtp_host, rules.smtp_port, timeout=CHANNEL_SECONDS, **safe)) as server:
        if rules.smtp_security == "starttls":
            server.starttls(context=ssl.create_default_context())
        if rules.smtp_user is not None:
            server.login(rules.smtp_user, rules.smtp_password or "")
        refused = server.send_message(message)
    if refused:
        raise Refused(f"{len(refused)} of {len(rules.email_to)} addresses were refused")
