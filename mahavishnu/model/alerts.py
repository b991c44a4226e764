"""When people are told that something is wrong: what each alert is, and which notice of it is due to which channel.

An alert has a name, such as `group:<fingerprint>`: one incident for each cause, however many processes see it. A look
at the queue gives findings; `next_alert` says what becomes of an alert then, and `is_owed` who is to be told now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from mahavishnu.model.alert_rules import AlertReason, AlertRules, Finding
from mahavishnu.model.clock import instant_text
from mahavishnu.model.ids import DEFAULT_NAMESPACE
from mahavishnu.model.letter_parts import Version

HELD = timedelta(seconds=60)  # longer than it takes to tell all channels once
KEPT = timedelta(days=30)  # how long an alert is known after its end
_TOLD_FOR = timedelta(days=1)  # what a channel has not taken by then, it never gets
_FIRST_REST, _LONGEST_REST = timedelta(seconds=10), timedelta(minutes=10)


class AlertPhase(StrEnum):
    """How far an alert is."""

    FIRING = "firing"
    TAKEN = "taken"  #: it still holds, and somebody has taken it
    RESOLVED = "resolved"


class NoticeKind(StrEnum):
    """What a notice says."""

    TRIGGER = "trigger"  #: it began, or there is one reason more
    REMIND = "remind"  #: it still holds
    ACKNOWLEDGE = "acknowledge"  #: somebody has taken it
    RESOLVE = "resolve"


@dataclass(frozen=True, slots=True)
class Sent:
    """What a channel was told: up to which notice, of which incident; or how often that was tried in vain."""

    notice: int = 0
    incident: int = 0
    tries: int = 0
    next_at: datetime | None = None
    problem: str | None = None


_NOTHING_SENT = Sent()


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert as it is stored. `since` it holds, for `reasons`; it is its `incident`-th time.

    `notice` counts what channels are to be told; the latest is of `notice_kind` and from `noticed_at`. Of this incident
    they were told these reasons: `told`. While `holder` tells the channels, until `held_until`, no other process does.
    """

    name: str
    namespace: str = DEFAULT_NAMESPACE
    phase: AlertPhase = AlertPhase.RESOLVED
    reasons: tuple[str, ...] = ()
    title: str = ""
    detail: str = ""
    path: str = "/"
    taken_by: str | None = None
    changed_at: datetime | None = None
    since: datetime | None = None
    resolved_at: datetime | None = None
    incident: int = 0
    told: tuple[str, ...] = ()
    notice: int = 0
    notice_kind: NoticeKind | None = None
    noticed_at: datetime | None = None
    sent: Mapping[str, Sent] = field(default_factory=dict)
    holder: str | None = None
    held_until: datetime | None = None
    version: Version | None = field(default=None, compare=False)

    @property
    def key(self) -> str:
        """The key of the record."""
        return alert_key(self.namespace, self.name)

    @property
    def holds(self) -> bool:
        """Whether it is not over."""
        return self.phase is not AlertPhase.RESOLVED

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, for people: whom it was told to, and what went wrong with that."""
        shown = {
            name: getattr(self, name)
            for name in ("name", "namespace", "phase", "reasons", "title", "detail", "taken_by", "incident", "notice")
        }
        instants = {
            name: None if (at := getattr(self, name)) is None else instant_text(at)
            for name in ("since", "noticed_at", "resolved_at")
        }
        channels = [
            {
                "channel": channel,
                "told": sent.notice == self.notice,
                "tries": sent.tries,
                "problem": sent.problem,
            }
            for channel, sent in self.sent.items()
        ]
        return {**shown, "reasons": list(self.reasons), **instants, "channels": channels}


def alert_key(namespace: str, name: str) -> str:
    """The key of an alert.

    >>> alert_key("default", "no_worker")
    'default/no_worker'
    """
    return f"{namespace}/{name}"


# --- what becomes of an alert


def next_alert(alert: Alert, finding: Finding | None, rules: AlertRules, now: datetime) -> Alert:
    """The alert after a look that found this, or nothing any more. The same object where nothing is new."""
    if finding is None or finding.muted:
        return _ended(alert, now, muted=finding is not None)
    begins = not alert.holds
    after = replace(
        alert,
        phase=AlertPhase.TAKEN if finding.taken_by else AlertPhase.FIRING,
        reasons=tuple(finding.reasons),
        title=finding.title,
        detail=finding.detail,
        path=finding.path,
        taken_by=finding.taken_by,
        since=now if begins else alert.since,
        resolved_at=None,
        incident=alert.incident + begins,
        told=() if begins else alert.told,
    )
    kind = _due_notice(alert, after, rules, now)
    if kind is not None:
        told = tuple(dict.fromkeys((*after.told, *after.reasons)))
        after = replace(_notified(after, kind, now), told=told)
    return alert if after == alert else replace(after, changed_at=now)


def _due_notice(before: Alert, after: Alert, rules: AlertRules, now: datetime) -> NoticeKind | None:
    news = set(after.reasons) - set(after.told)
    if after.phase is AlertPhase.TAKEN:  # who has it looks at it: only that it takes long is news
        news &= {AlertReason.AGE}
    quiet = None if after.noticed_at is None else now - after.noticed_at
    if news and (after.told or quiet is None or quiet >= rules.cool_down):
        return NoticeKind.TRIGGER
    if not after.told:
        return None
    if after.phase is AlertPhase.TAKEN:
        return NoticeKind.ACKNOWLEDGE if before.phase is AlertPhase.FIRING else None
    if before.phase is AlertPhase.TAKEN:
        return NoticeKind.TRIGGER
    return NoticeKind.REMIND if rules.repeat is not None and quiet is not None and quiet >= rules.repeat else None


def _ended(alert: Alert, now: datetime, *, muted: bool) -> Alert:
    if not alert.holds:
        return alert
    detail = "The group is on hold." if muted else "What it was about is over."
    after = replace(alert, phase=AlertPhase.RESOLVED, resolved_at=now, changed_at=now, detail=detail, taken_by=None)
    return _notified(after, NoticeKind.RESOLVE, now) if alert.told else after


def _notified(alert: Alert, kind: NoticeKind, now: datetime) -> Alert:
    return replace(alert, notice=alert.notice + 1, notice_kind=kind, noticed_at=now)


# --- who is told


def is_owed(alert: Alert, channel: str, rules: AlertRules, now: datetime) -> bool:
    """Whether this channel is to be told the latest notice now.

    Who was told nothing of an incident, and was not tried to be told, does not hear that it was taken or is over.
    """
    sent = alert.sent.get(channel, _NOTHING_SENT)
    if alert.notice_kind is None or alert.noticed_at is None or sent.notice >= alert.notice:
        return False
    if (sent.next_at is not None and now < sent.next_at) or now - alert.noticed_at > _TOLD_FOR:
        return False
    if alert.notice_kind in (NoticeKind.ACKNOWLEDGE, NoticeKind.RESOLVE):
        return sent.incident == alert.incident
    wanted = rules.routes.get(channel)
    return wanted is None or any(reason in wanted for reason in alert.told)


def owed_channels(alert: Alert, rules: AlertRules, now: datetime) -> tuple[str, ...]:
    """All channels that are to be told the latest notice now."""
    return tuple(channel for channel in rules.channels if is_owed(alert, channel, rules, now))


def hold_alert(alert: Alert, holder: str, channels: Iterable[str], now: datetime, skew: timedelta) -> Alert | None:
    """The alert while this process tells these channels of it; None while another one does, or may.

    It has in it that they are told: if the process dies now, they may have heard of it, and hear when it is over.
    """
    others = alert.holder not in (None, holder)
    if others and alert.held_until is not None and now < alert.held_until + skew:
        return None
    sent = {name: replace(alert.sent.get(name, _NOTHING_SENT), incident=alert.incident) for name in channels}
    return replace(alert, sent={**alert.sent, **sent}, holder=holder, held_until=now + HELD)


def note_sent(alert: Alert, told: Alert, problems: Mapping[str, str | None], holder: str, now: datetime) -> Alert:
    """The alert after its channels were told of it as it was: `told`. A problem of None: the channel took it."""
    sent = dict(alert.sent)
    for channel, problem in problems.items():
        before = sent.get(channel, _NOTHING_SENT)
        if problem is None:
            sent[channel] = Sent(max(before.notice, told.notice), told.incident)
        else:
            rest = min(_FIRST_REST * 2 ** min(before.tries, 10), _LONGEST_REST)
            sent[channel] = replace(
                before, incident=told.incident, tries=before.tries + 1, next_at=now + rest, problem=problem[:500]
            )
    mine = alert.holder == holder
    return replace(
        alert,
        sent=sent,
        holder=None if mine else alert.holder,
        held_until=None if mine else alert.held_until,
    )


def later_alert(theirs: Alert, ours: Alert) -> Alert | None:
    """What replaces theirs, of two written in stores that could not see each other: ours, if it changed last."""
    if ours.changed_at is None or (theirs.changed_at is not None and theirs.changed_at >= ours.changed_at):
        return None
    return replace(ours, version=theirs.version)


def notice_id(alert: Alert) -> str:
    """What a receiver may compare: the same notice may come twice, if a process died that had just told it.

    >>> notice_id(Alert("no_worker", notice=3))
    'default/no_worker/3'
    """
    return f"{alert.key}/{alert.notice}"
